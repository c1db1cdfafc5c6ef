package codec

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// CheckClient returns ErrInvalid if the client of coll encodes one of the types otherwise than the driver's registry does, and
// c has no registry of its own. The client's registry cannot be read, so the client sends a filled value of each type, and
// the server returns what it got. Types that no registry changes alone, such as int or bson.D, are not asked for.
//
// Cost: 1 round trip, none if there is nothing to ask.
func (c Codec) CheckClient(ctx context.Context, coll *scoped.Collection, types ...reflect.Type) (err error) {
	if c.Registry != nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			err = nil // an encoder of the user does not expect such a value
		}
	}()
	c = Codec{BSON: client(coll.Driver())}
	var sent, values bson.A
	var own []bson.RawValue
	for _, t := range types {
		if !named(t) {
			continue
		}
		v := filled(t, 3).Interface()
		encoded, err := c.Value(v)
		if err != nil || len(encoded.Value) > largest {
			continue // the type has values that cannot be stored, and this may be one
		}
		own, values, sent = append(own, encoded), append(values, v), append(sent, expr.D("v", v))
	}
	if len(own) == 0 {
		return nil
	}
	got, err := echo(mongo.NewSessionContext(ctx, nil), coll, sent)
	if errors.As(err, new(mongo.MarshalError)) { // what the driver's registry has encoded
		return fault.Invalid("the client has a registry of its own: set Options.Registry to it: %w", err)
	}
	if err != nil {
		return err
	}
	for i, v := range got {
		if v.Equal(own[i]) {
			continue
		}
		if again, err := c.Value(values[i]); err != nil || !again.Equal(own[i]) {
			continue // each time it is another, as with the present time or a random number in it
		}
		return fault.Invalid("the client has a registry that encodes a value as %v, where this helper encodes it as %v: set Options.Registry to that of the client", v, own[i])
	}
	return nil
}

// largest is the size up to which a value is sent.
const largest = 1 << 20

// echo returns the values of v in documents as the server gets them.
func echo(ctx context.Context, coll *scoped.Collection, docs bson.A) (out []bson.RawValue, err error) {
	cursor, err := coll.AggregateGiven(ctx, docs, nil)
	if err != nil {
		return nil, err
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		v := cursor.Current.Lookup("v")
		v.Value = bytes.Clone(v.Value) // the cursor uses its memory again
		out = append(out, v)
	}
	return out, cursor.Err()
}

// named reports whether t has a type of a program in it, or a time, for which a registry can have an encoder.
func named(t reflect.Type) (found bool) {
	eachType(t, func(t reflect.Type) (deeper bool) {
		path := t.PkgPath()
		found = found || path != "" && !strings.HasSuffix(path, "mongo-driver/v2/bson")
		return !found
	})
	return found
}

// filled returns a value of t without zeros, as far as that is possible: nothing is left out as empty.
func filled(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	if t == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
		return v
	}
	if depth == 0 && slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		return v // of a type that contains itself
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.String:
		v.SetString("x")
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(filled(t.Elem(), depth))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(filled(t.Field(i).Type, depth))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem(), depth-1))
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(t.Elem(), depth-1)))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key(), depth-1), filled(t.Elem(), depth-1))
	}
	return v
}
