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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// ErrUnknownKind: the kind of a document is not among the kinds. The error is an
// *UnknownError.
var ErrUnknownKind = fault.New("unknown kind", mongopatterns.ErrMalformed)

// UnknownError names the unknown kind of a document. It matches ErrUnknownKind.
type UnknownError struct {
	// Kind is the value of KindField, the zero value if it is missing.
	Kind bson.RawValue
	// ID is the document's _id, zero if it has none.
	ID bson.RawValue
}

func (e *UnknownError) Error() string {
	return fault.Of(e.ID, fmt.Errorf("%w %s", ErrUnknownKind, e.Kind)).Error()
}

// Unwrap returns ErrUnknownKind.
func (e *UnknownError) Unwrap() error { return ErrUnknownKind }

// Unknown holds a document of an unknown kind, byte for byte. Embed it in the type that
// Options.Unknown returns.
type Unknown struct {
	// Kind is the value of KindField, zero if it is missing.
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
	inline  bool   // it has an inline map, which would receive KindField
}

// Of returns the kind of T, a struct or a pointer to one. Values are encoded from and decoded to
// exactly T. aliases are further names that documents may have; Encode writes name.
func Of[T any](name string, aliases ...string) Kind {
	return Kind{name: name, aliases: aliases, typ: reflect.TypeFor[T]()}
}

// Options say which field names the kind, and how to treat documents without a known kind.
type Options[I any] struct {
	// KindField is the field with the kind's name. Default "kind".
	KindField string
	// Default is the kind of documents without KindField. Default "": they are unknown.
	Default string
	// Unknown returns a value for a document of an unknown kind, in which you embed the Unknown.
	// Default nil: for such a document an UnknownError is returned.
	Unknown func(Unknown) I
	// Registry and BSON encode and decode the values. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Kinds are the types that a collection or a field can hold. I is an interface that all of them
// implement.
type Kinds[I any] struct {
	opts   Options[I]
	codec  codec.Codec
	byName map[string]Kind
	byType map[reflect.Type]Kind
}

// New returns kinds. It refuses a type that does not implement I, a type that is not a struct or a
// pointer to one, and a type or name that is given twice.
func New[I any](kinds []Kind, opts *Options[I]) (k *Kinds[I], err error) {
	defer fault.In(&err, "polymorphic.New")
	k = &Kinds[I]{byName: map[string]Kind{}, byType: map[reflect.Type]Kind{}}
	if opts != nil {
		k.opts = *opts
	}
	if err := config.Apply(config.Name("Options.KindField", &k.opts.KindField, "kind")); err != nil {
		return nil, err
	}
	k.codec = codec.Codec{Registry: k.opts.Registry, BSON: k.opts.BSON}
	for _, kind := range kinds {
		if !isStruct(kind.typ) {
			return nil, fault.Invalid("the kind %q must be made by Of, for a struct or a pointer to one", kind.name)
		}
		if !kind.typ.AssignableTo(reflect.TypeFor[I]()) {
			return nil, fault.Invalid("%s does not implement %s", kind.typ, reflect.TypeFor[I]())
		}
		if err := k.codec.CheckExtended(fmt.Sprintf("the kind %q", kind.name), kind.typ); err != nil {
			return nil, err
		}
		if other, ok := k.byType[kind.typ]; ok {
			return nil, fault.Invalid("%s has two kinds, %q and %q", kind.typ, other.name, kind.name)
		}
		mark, err := bson.Marshal(expr.D(k.opts.KindField, kind.name))
		if err != nil {
			return nil, err
		}
		kind.mark = mark[4 : len(mark)-1]
		fields := k.codec.Struct(kind.typ)
		kind.inline = fields != nil && fields.Inline != nil
		k.byType[kind.typ] = kind
		for _, name := range kind.names() {
			if other, ok := k.byName[name]; ok || name == "" {
				return nil, fault.Invalid("the name %q of %s is empty or also that of %v", name, kind.typ, other.typ)
			}
			k.byName[name] = kind
		}
	}
	if _, ok := k.byName[k.opts.Default]; !ok && k.opts.Default != "" {
		return nil, fault.Invalid("Options.Default: there is no kind %q", k.opts.Default)
	}
	return k, nil
}

// isStruct reports whether t is a struct or a pointer to one, which documents can be decoded to.
func isStruct(t reflect.Type) bool {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && t.Kind() == reflect.Struct
}

// Must returns k for package variables, and panics on an error of New.
func Must[I any](k *Kinds[I], err error) *Kinds[I] {
	if err != nil {
		panic(err)
	}
	return k
}

func (k Kind) names() []string { return append([]string{k.name}, k.aliases...) }

// Encode returns the document of v, with its kind in front. An Unknown is written unchanged.
func (k *Kinds[I]) Encode(v I) (raw bson.Raw, err error) {
	defer fault.In(&err, "polymorphic.Encode")
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
	if own := fields.Lookup(k.opts.KindField); own.Type != 0 {
		return nil, fault.Invalid("%T has a field %q of its own", any(v), k.opts.KindField)
	}
	return value.Document(kind.mark, fields[4:len(fields)-1]), nil
}

// kindOf returns the kind of a value's type.
func (k *Kinds[I]) kindOf(v I) (Kind, error) {
	kind, ok := k.byType[reflect.TypeOf(any(v))]
	if !ok {
		return kind, fault.Invalid("%T is not among the kinds", any(v))
	}
	return kind, nil
}

// stranger returns the value of Options.Unknown for a document of an unknown kind, or an
// UnknownError.
func (k *Kinds[I]) stranger(raw bson.Raw) (v I, err error) {
	kept := slices.Clone(raw) // the caller may reuse its buffer
	if k.opts.Unknown == nil {
		return v, &UnknownError{kept.Lookup(k.opts.KindField), kept.Lookup("_id")}
	}
	return k.opts.Unknown(Unknown{kept.Lookup(k.opts.KindField), kept}), nil
}

// Decode decodes a document to a value of its kind.
func (k *Kinds[I]) Decode(raw bson.Raw) (v I, err error) {
	defer fault.In(&err, "polymorphic.Decode")
	says := raw.Lookup(k.opts.KindField)
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
	if kind.inline {
		raw = value.Pick(raw, func(field []byte) bool { return string(field) != k.opts.KindField })
	}
	if err := k.codec.Decode(raw, into.Interface()); err != nil {
		return v, fault.Of(raw.Lookup("_id"), err)
	}
	return target.Elem().Interface().(I), nil
}

// Find is the driver's Find; it decodes the documents by their kinds. A nil filter selects all. A nil collection
// or what cannot be a filter is ErrInvalid.
// If a document cannot be decoded, Find yields an error with its _id, and the loop may continue.
// Any other error ends the sequence.
//
// Cost: 1 round trip for each batch, index as the filter's.
func (k *Kinds[I]) Find(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[I, error] {
	ctx = comment.Call(ctx, "polymorphic.Find")
	if err := cmp.Or(config.Collections("coll", coll), codec.CheckFilter("filter", filter)); err != nil {
		return fault.Seq("polymorphic.Find", fault.Stop[I](err))
	}
	return func(yield func(I, error) bool) {
		var none I
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return scoped.On(coll).Find(ctx, expr.And(filter), opts...)
		}) {
			if err != nil {
				fault.In(&err, "polymorphic.Find")
				yield(none, err)
				return
			}
			if !yield(k.Decode(c.Current)) {
				return
			}
		}
	}
}

// FilterOf selects those documents of T's kind, under any of its names, that filter selects. A nil
// filter selects all of them. If T has no kind, FilterOf selects nothing.
func FilterOf[T, I any](k *Kinds[I], filter any) bson.D {
	kind, ok := k.byType[reflect.TypeFor[T]()]
	if !ok {
		return expr.Op("$nor", bson.A{bson.D{}})
	}
	own := k.filter(kind)
	if d, empty := filter.(bson.D); filter == nil || empty && len(d) == 0 {
		return own
	}
	return expr.Op("$and", bson.A{own, filter})
}

// filter selects the documents of a kind.
func (k *Kinds[I]) filter(kind Kind) bson.D {
	if names := k.stored(kind); len(names) > 1 {
		return expr.D(k.opts.KindField, expr.Op("$in", names))
	}
	return expr.D(k.opts.KindField, kind.name)
}

// stored are the values of KindField for a kind.
func (k *Kinds[I]) stored(kind Kind) bson.A {
	names := bson.A{}
	for _, name := range kind.names() {
		names = append(names, name)
	}
	if slices.Contains(kind.names(), k.opts.Default) {
		names = append(names, nil) // also matches a missing field
	}
	return names
}

// IndexOf returns an index of only the documents of T's kind, for queries that contain FilterOf. A
// unique index is unique within the kind. opts may be nil. IndexOf refuses the Default kind,
// because the server cannot make a partial index of documents without a field.
func IndexOf[T, I any](k *Kinds[I], keys bson.D, opts *options.IndexOptionsBuilder) (model mongo.IndexModel, err error) {
	defer fault.In(&err, "polymorphic.Index")
	kind, ok := k.byType[reflect.TypeFor[T]()]
	if !ok || slices.Contains(kind.names(), k.opts.Default) {
		return model, fault.Invalid("%s is not among the kinds, or it is the Default kind, which cannot have an index of its own", reflect.TypeFor[T]())
	}
	partial := options.Index()
	if opts != nil {
		partial.Opts = slices.Clone(opts.Opts)
	}
	return mongo.IndexModel{Keys: keys, Options: partial.SetPartialFilterExpression(k.filter(kind))}, nil
}

// Validator returns a validator for the collection that checks each document against the JSON
// schema of its kind. schemas are by the kind's name. Documents of kinds without a schema may have
// any fields, and documents of unknown kinds, or with an array of kinds, are refused.
func (k *Kinds[I]) Validator(schemas map[string]bson.D) (validator bson.D, err error) {
	defer fault.In(&err, "polymorphic.Validator")
	for name := range schemas {
		if kind, ok := k.byName[name]; !ok || kind.name != name {
			return nil, fault.Invalid("schemas: there is no kind %q", name)
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
		one := expr.D(k.opts.KindField, expr.D("$in", k.stored(kind), "$not", expr.AnArray))
		if schema, ok := schemas[kind.name]; ok {
			one = append(one, expr.Element("$jsonSchema", schema))
		}
		either = append(either, one)
	}
	return expr.Op("$or", either), nil
}
