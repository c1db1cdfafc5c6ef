package versioning

import (
	"bytes"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A wish is what a caller wants saved.
type wish struct {
	id      bson.RawValue
	read    int64
	raw     bson.Raw    // the document as T encodes it
	loose   bool        // the order of its fields is that of Go maps
	base    *state      // what was read, nil if that is not known
	partial bool        // it is from the history, and lacks Options.Ignored
	changes []doc.Field // of base, once that is known
}

// apply carries the changes of the caller over to what is stored by now.
func (w *wish) apply(stored *state) []doc.Field {
	if w.base == stored || bytes.Equal(stored.document(), w.base.document()) {
		return w.changes
	}
	// No others: one that stands twice would come out as the first of it, twice.
	pick := func(all []doc.Field) (out []doc.Field) { // of the fields that change
		in := doc.In(all)
		for _, c := range w.changes {
			if v := in.Value(c.Key); v.Type != 0 {
				out = append(out, doc.Field{Key: c.Key, Value: v})
			}
		}
		return out
	}
	now := pick(stored.all)
	merged, _ := doc.Merge(pick(w.base.all), now, pick(w.changes), doc.Options{}) // of two writers: an array is one value
	return doc.Changes(now, merged)
}

// know completes a wish by what was read. Fields whose bytes T writes as they are stored
// are unchanged: only of the others is looked up how T shows what is stored, and only
// they are compared inside. The _id stays as stored: 1 for 1.0 is no change.
func (d *store) know(w *wish, base *state) error {
	if id := w.raw.Lookup("_id"); id.Type != 0 && value.Key(id) != value.Key(base.id) {
		return fault.Invalid("_id %s is not %s, which was read", value.Text(id), value.Text(base.id))
	}
	w.base, w.id = base, base.id
	skip := append([]string{"_id"}, d.names...)
	if w.partial {
		skip = append(skip, d.opts.Ignored...)
	}
	all, same := doc.Open(w.raw), doc.Identical
	if w.loose {
		same = doc.Alike
	}
	stored, next, ok := doc.Differing(base.all, all, same, skip...)
	if !ok {
		return fault.Invalid("document: a field stands twice")
	}
	if !d.upgrades && plain(stored, next) {
		w.changes = next
		return nil
	}
	view := doc.Raw(stored)
	if d.upgrades {
		stored, next, view = doc.Without(base.all, skip...), doc.Without(all, skip...), base.document()
	}
	raw, loose, err := d.view(view)
	if err != nil {
		return fault.Of(base.id, err)
	}
	known := doc.Without(doc.Open(raw), skip...)
	merge := func(madeUp bool) []doc.Field {
		out, _ := doc.Merge(known, stored, next, doc.Options{Arrays: doc.Placed, Loose: w.loose || loose, MadeUp: madeUp})
		return out
	}
	all = merge(false)
	if d.upgrades && len(doc.Changes(stored, all)) > 0 {
		all = d.faithful(base, stored, next, all, merge(true), skip)
	}
	w.changes = doc.Changes(stored, all)
	return nil
}

// plain says that only values have changed that any T shows as they are stored.
func plain(a, b []doc.Field) bool {
	return slices.EqualFunc(a, b, func(x, y doc.Field) bool {
		return x.Key == y.Key && x.Value.Type == y.Value.Type && scalar(x.Value.Type)
	})
}

func scalar(t bson.Type) bool {
	switch t {
	case bson.TypeString, bson.TypeInt32, bson.TypeInt64, bson.TypeBoolean, bson.TypeObjectID, bson.TypeDateTime:
		return true
	}
	return false
}

// faithful returns the fields to be stored for a T that decodes itself, so that they
// read as next, what the caller has. merged, what the usual merge makes, may not: a T
// that makes new fields out of old ones would make them again out of those that stay,
// or take the new ones for old. Then the fields that T makes are written too, and of
// those that it does not write only the ones stay that do not change what is read. full
// is what the merge makes with what T makes up, at any depth.
func (d *store) faithful(base *state, stored, next, merged, full []doc.Field, skip []string) []doc.Field {
	read := func(all []doc.Field) []doc.Field {
		raw, _, err := d.view(doc.Raw(doc.Patch(base.all, doc.Changes(stored, all))))
		if err != nil {
			return nil
		}
		return doc.Without(doc.Open(raw), skip...)
	}
	reads := func(all []doc.Field) bool {
		got := read(all)
		return got != nil && doc.Alike(doc.Embedded(got), doc.Embedded(next))
	}
	if reads(merged) || !reads(next) {
		return merged
	}
	inNext := doc.In(next)
	var out, others []doc.Field
	for _, f := range full {
		if inNext.Place(f.Key) >= 0 {
			out = append(out, f)
		} else {
			others = append(others, f)
		}
	}
	shown := doc.In(read(out))
	for i, f := range out {
		if v := inNext.Value(f.Key); !doc.Alike(shown.Value(f.Key), v) {
			out[i].Value = v
		}
	}
	var keep func(some []doc.Field)
	keep = func(some []doc.Field) {
		if with := append(out[:len(out):len(out)], some...); reads(with) {
			out = with
		} else if len(some) > 1 {
			keep(some[:len(some)/2])
			keep(some[len(some)/2:])
		}
	}
	keep(others)
	return out
}

// codesItself reports whether a type, or one inside it, has its own way of encoding or
// decoding, which can make some fields out of others.
func codesItself(t reflect.Type, seen ...reflect.Type) bool {
	if slices.Contains(seen, t) || t.PkgPath() == reflect.TypeFor[bson.Raw]().PkgPath() {
		return false
	}
	for _, own := range []reflect.Type{
		reflect.TypeFor[bson.Unmarshaler](), reflect.TypeFor[bson.ValueUnmarshaler](),
		reflect.TypeFor[bson.Marshaler](), reflect.TypeFor[bson.ValueMarshaler](),
	} {
		if reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return codesItself(t.Elem(), seen...)
	case reflect.Struct:
		own := func(f reflect.StructField) bool { return codesItself(f.Type, seen...) }
		return slices.ContainsFunc(reflect.VisibleFields(t), own)
	}
	return false
}

// isDocument reports whether the driver's registry encodes a type as a document.
func isDocument(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Interface:
		return true
	case reflect.Slice:
		return t == reflect.TypeFor[bson.Raw]() || t.Elem() == reflect.TypeFor[bson.E]()
	}
	return t.Kind() == reflect.Pointer && isDocument(t.Elem())
}

// loose reports whether there is a map in a value: in what it encodes to, the order of
// fields is nobody's.
func loose(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map:
		return true
	case reflect.Pointer, reflect.Interface:
		return loose(v.Elem()) // which of nil has no kind
	case reflect.Slice, reflect.Array:
		if d, ok := v.Interface().(bson.D); ok { // ten times as fast, which thousands of fields need
			return slices.ContainsFunc(d, func(e bson.E) bool { return loose(reflect.ValueOf(e.Value)) })
		}
		if v.Type().Elem().Kind() < reflect.Array { // numbers
			return false
		}
		for i := range v.Len() {
			if loose(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() && loose(f) { // it is exported
				return true
			}
		}
	}
	return false
}
