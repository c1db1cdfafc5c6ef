package polymorphic

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// ErrUnknownKind: a document is of no kind that is known. The error is an
// *UnknownError.
var ErrUnknownKind = fault.New("unknown kind", nil)

// UnknownError names a kind that is not known. It matches ErrUnknownKind.
type UnknownError struct {
	// Kind is what the document says, the zero value if it says nothing.
	Kind bson.RawValue
	// ID is its _id, zero if it has none.
	ID bson.RawValue
}

func (e *UnknownError) Error() string {
	return fault.Of(e.ID, fmt.Errorf("%w %s", ErrUnknownKind, e.Kind)).Error()
}

// Is makes it match ErrUnknownKind.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknownKind }

// Unknown is a document of an unknown kind, byte for byte. Embed it in the type that
// Options.Unknown returns.
type Unknown struct {
	// Kind is what the document says, zero if it says nothing.
	Kind bson.RawValue
	// Raw is the document.
	Raw bson.Raw
}

func (u Unknown) unknown() bson.Raw { return u.Raw }

// Kind is a Go type and its name in documents.
type Kind struct {
	name    string
	aliases []string
	typ     reflect.Type
	mark    []byte // the element with the name
}

// Of is the kind of T, a struct or a pointer to one; values are encoded from and
// decoded to just that. aliases are further names that documents may have; new
// ones get name.
func Of[T any](name string, aliases ...string) Kind {
	return Kind{name: name, aliases: aliases, typ: reflect.TypeFor[T]()}
}

// Options say where the kind stands. The zero value of each field is its default.
type Options[I any] struct {
	// Field is the field with the kind's name. Default "kind".
	Field string
	// Default is the kind of documents without Field. Default "": they are unknown.
	Default string
	// Unknown makes a value of a document of an unknown kind; embed the Unknown in
	// it. Default nil: it is an UnknownError.
	Unknown func(Unknown) I
	// Registry and BSON encode and decode the values. Default: the driver's own.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Kinds are the types that a collection or a field can hold; I is what they have in
// common, an interface.
type Kinds[I any] struct {
	opts   Options[I]
	codec  codec.Codec
	byName map[string]Kind
	byType map[reflect.Type]Kind
}

// New returns kinds. It refuses a type that does not implement I or is not a struct or a
// pointer to one, and a type or name given twice.
func New[I any](kinds []Kind, opts *Options[I]) (k *Kinds[I], err error) {
	defer fault.In(&err, "polymorphic: new")
	k = &Kinds[I]{byName: map[string]Kind{}, byType: map[reflect.Type]Kind{}}
	if opts != nil {
		k.opts = *opts
	}
	if err := config.Apply(config.Name("Options.Field", &k.opts.Field, "kind")); err != nil {
		return nil, err
	}
	k.codec = codec.Codec{Registry: k.opts.Registry, BSON: k.opts.BSON}
	for _, kind := range kinds {
		if !isStruct(kind.typ) {
			return nil, fault.Invalid("the kind %q is not Of a struct or a pointer to one", kind.name)
		}
		if !kind.typ.AssignableTo(reflect.TypeFor[I]()) {
			return nil, fault.Invalid("%s does not implement %s", kind.typ, reflect.TypeFor[I]())
		}
		if other, ok := k.byType[kind.typ]; ok {
			return nil, fault.Invalid("%s is %q and %q", kind.typ, other.name, kind.name)
		}
		mark, err := bson.Marshal(bson.D{{Key: k.opts.Field, Value: kind.name}})
		if err != nil {
			return nil, err
		}
		kind.mark = mark[4 : len(mark)-1]
		k.byType[kind.typ] = kind
		for _, name := range kind.names() {
			if other, ok := k.byName[name]; ok || name == "" {
				return nil, fault.Invalid("the name %q of %s is empty or that of %v", name, kind.typ, other.typ)
			}
			k.byName[name] = kind
		}
	}
	if _, ok := k.byName[k.opts.Default]; !ok && k.opts.Default != "" {
		return nil, fault.Invalid("Options.Default: no kind %q", k.opts.Default)
	}
	return k, nil
}

// isStruct reports a struct or a pointer to one: what a document decodes to.
func isStruct(t reflect.Type) bool {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && t.Kind() == reflect.Struct
}

// Must is for package variables: it panics on an error of New.
func Must[I any](k *Kinds[I], err error) *Kinds[I] {
	if err != nil {
		panic(err)
	}
	return k
}

func (k Kind) names() []string { return append([]string{k.name}, k.aliases...) }

// Encode is the document of v, with its kind in front. An Unknown is as it was
// read.
func (k *Kinds[I]) Encode(v I) (raw bson.Raw, err error) {
	defer fault.In(&err, "polymorphic: encode")
	if u, ok := any(v).(interface{ unknown() bson.Raw }); ok && u.unknown() != nil {
		return u.unknown(), nil
	}
	kind, err := k.kindOf(v)
	if err != nil {
		return nil, err
	}
	fields, err := k.codec.Document(v)
	if err != nil {
		return nil, err
	}
	if own := fields.Lookup(k.opts.Field); own.Type != 0 {
		return nil, fault.Invalid("%T has a field %q of its own", any(v), k.opts.Field)
	}
	return value.Document(kind.mark, fields[4:len(fields)-1]), nil
}

// kindOf is the kind of a value's type.
func (k *Kinds[I]) kindOf(v I) (Kind, error) {
	kind, ok := k.byType[reflect.TypeOf(any(v))]
	if !ok {
		return kind, fault.Invalid("%T is of no kind", any(v))
	}
	return kind, nil
}

// stranger is the value of Options.Unknown for a document of an unknown kind, or an
// UnknownError.
func (k *Kinds[I]) stranger(raw bson.Raw) (v I, err error) {
	kept := slices.Clone(raw) // the caller may use its buffer again
	if k.opts.Unknown == nil {
		return v, &UnknownError{kept.Lookup(k.opts.Field), kept.Lookup("_id")}
	}
	return k.opts.Unknown(Unknown{kept.Lookup(k.opts.Field), kept}), nil
}

// Decode makes a value of a document by its kind.
func (k *Kinds[I]) Decode(raw bson.Raw) (v I, err error) {
	defer fault.In(&err, "polymorphic: decode")
	says := raw.Lookup(k.opts.Field)
	name, ok := says.StringValueOK()
	if says.Type == 0 || says.Type == bson.TypeNull {
		name, ok = k.opts.Default, k.opts.Default != ""
	}
	kind, known := k.byName[name]
	if !ok || !known {
		return k.stranger(raw)
	}
	target := reflect.New(kind.typ)
	into := target
	if kind.typ.Kind() == reflect.Pointer {
		into = reflect.New(kind.typ.Elem())
		target.Elem().Set(into)
	}
	if err := k.codec.Decode(raw, into.Interface()); err != nil {
		return v, fault.Of(raw.Lookup("_id"), fmt.Errorf("as %s: %w", kind.typ, err))
	}
	return target.Elem().Interface().(I), nil
}

// Find is the driver's Find with the documents decoded by their kinds. A nil filter
// selects all. A document that cannot be decoded is an error with its _id, and the loop may
// go on; any other error comes last.
//
// Cost: 1 round trip a batch, index as the filter's.
func (k *Kinds[I]) Find(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[I, error] {
	return func(yield func(I, error) bool) {
		var none I
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return coll.Find(ctx, expr.And(filter), opts...)
		}) {
			if err != nil {
				fault.In(&err, "polymorphic: find")
				yield(none, err)
				return
			}
			if !yield(k.Decode(c.Current)) {
				return
			}
		}
	}
}

// FilterOf selects the documents of T's kind, under any of its names, that filter
// selects; nil is all. A T of no kind selects nothing.
func FilterOf[T, I any](k *Kinds[I], filter any) bson.D {
	kind, ok := k.byType[reflect.TypeFor[T]()]
	if !ok {
		return bson.D{{Key: "$nor", Value: bson.A{bson.D{}}}}
	}
	own := k.filter(kind)
	if d, empty := filter.(bson.D); filter == nil || empty && len(d) == 0 {
		return own
	}
	return expr.Op("$and", bson.A{own, filter})
}

// filter selects a kind.
func (k *Kinds[I]) filter(kind Kind) bson.D {
	names := bson.A{}
	for _, name := range kind.names() {
		names = append(names, name)
	}
	if slices.Contains(kind.names(), k.opts.Default) {
		names = append(names, nil) // matches a missing field as well
	}
	if len(names) == 1 {
		return bson.D{{Key: k.opts.Field, Value: names[0]}}
	}
	return bson.D{{Key: k.opts.Field, Value: expr.Op("$in", names)}}
}

// IndexOf is an index of the documents of T's kind alone, for queries that contain
// FilterOf. A unique one is unique within the kind. opts may be nil. It is
// refused for the Default kind: the server has no partial index of missing fields.
func IndexOf[T, I any](k *Kinds[I], keys bson.D, opts *options.IndexOptionsBuilder) (model mongo.IndexModel, err error) {
	defer fault.In(&err, "polymorphic: index")
	kind, ok := k.byType[reflect.TypeFor[T]()]
	if !ok || slices.Contains(kind.names(), k.opts.Default) {
		return model, fault.Invalid("%s is of no kind, or the Default", reflect.TypeFor[T]())
	}
	partial := options.Index()
	if opts != nil {
		partial.Opts = slices.Clone(opts.Opts)
	}
	return mongo.IndexModel{Keys: keys, Options: partial.SetPartialFilterExpression(k.filter(kind))}, nil
}

// Validator is a validator for the collection that asks each document for the
// JSON schema of its kind, by name; kinds without one may have any fields, and
// unknown kinds are refused.
func (k *Kinds[I]) Validator(schemas map[string]bson.D) (validator bson.D, err error) {
	defer fault.In(&err, "polymorphic: validator")
	for name := range schemas {
		if kind, ok := k.byName[name]; !ok || kind.name != name {
			return nil, fault.Invalid("no kind %q", name)
		}
	}
	kinds := slices.SortedFunc(func(yield func(Kind) bool) {
		for _, kind := range k.byType {
			if !yield(kind) {
				return
			}
		}
	}, func(a, b Kind) int { return cmp.Compare(a.name, b.name) })
	either := bson.A{}
	for _, kind := range kinds {
		one := k.filter(kind)
		if schema, ok := schemas[kind.name]; ok {
			one = append(one, bson.E{Key: "$jsonSchema", Value: schema})
		}
		either = append(either, one)
	}
	return expr.Op("$or", either), nil
}
