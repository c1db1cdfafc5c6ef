package schemaversion

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A NewerError names a document whose version this program does not know, because it is newer,
// before the first, or not a version at all, such as null. It matches mongopatterns.ErrNewer.
type NewerError struct {
	ID      bson.RawValue
	Version bson.RawValue
	Newest  int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("_id %s: its version is %s, and this program knows up to %d", value.Text(e.ID), value.Text(e.Version), e.Newest)
}

// Unwrap returns mongopatterns.ErrNewer.
func (e *NewerError) Unwrap() error { return mongopatterns.ErrNewer }

// A StepError says which step failed on which document. The stored document is unchanged.
type StepError struct {
	ID       bson.RawValue
	From, To int
	Err      error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("_id %s: the step from version %d to %d failed: %v", value.Text(e.ID), e.From, e.To, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// A Step upgrades a document from one version to the next, and takes it back. It gets the document
// without the version field, and the version field of its result is ignored. It must not change the
// _id. It may run several times, and concurrently, so it must not keep state.
//
// The result is stored only if the document has not changed since the step got it. For a step of
// Between this applies only to the fields of its struct, so if others write other fields, the step
// does not run again. For a step on documents the write compares the whole document, which together
// with the changes must be less than 16 MB.
type Step struct {
	// Up returns the next version. It is required.
	Up func(doc bson.D) (bson.D, error)
	// Down returns the previous version. Default nil: the step cannot be reversed.
	Down func(doc bson.D) (bson.D, error)

	typed    func(codec.Codec) (up, down *conversion) // called by newChain, which knows the codec
	old, new reflect.Type                             // of Between
}

// Between returns a step from the struct Old to the struct New by up, and back by down, which may
// be nil. Fields of the document that neither struct has are kept, at any depth. An element of an
// array keeps such fields if the step does not change it, even if it moves it, or changes it in its
// place.
func Between[Old, New any](up func(Old) (New, error), down func(New) (Old, error)) Step {
	return Step{old: reflect.TypeFor[Old](), new: reflect.TypeFor[New](),
		typed: func(c codec.Codec) (*conversion, *conversion) { return typed(c, up), typed(c, down) }}
}

// A conversion makes a document of the next version, or of the previous one.
type conversion struct {
	do func(doc bson.Raw) (bson.Raw, error)
	// reads are the top-level fields that do depends on; whole: it depends on all.
	reads []string
	whole bool
}

// plain returns the conversion by a function between documents.
func plain(convert func(doc bson.D) (bson.D, error)) *conversion {
	if convert == nil {
		return nil
	}
	return &conversion{whole: true, do: func(raw bson.Raw) (bson.Raw, error) {
		var doc bson.D
		if err := bson.Unmarshal(raw, &doc); err != nil {
			return nil, err
		}
		made, err := convert(doc)
		if err != nil {
			return nil, err
		}
		return bson.Marshal(append(bson.D{}, made...))
	}}
}

// typed returns the conversion by a function between structs.
func typed[A, B any](c codec.Codec, convert func(A) (B, error)) *conversion {
	if convert == nil {
		return nil
	}
	names, told := c.Fields(reflect.TypeFor[A]())
	return &conversion{reads: names, whole: !told, do: func(theirs bson.Raw) (bson.Raw, error) {
		var before A
		if err := c.Decode(theirs, &before); err != nil {
			return nil, err
		}
		base, err := c.Document(before) // before convert, which may write into it
		if err != nil {
			return nil, err
		}
		after, err := convert(before)
		if err != nil {
			return nil, err
		}
		ours, err := c.Document(after)
		if err != nil || !told {
			return ours, err
		}
		return keep[B](c, names, base, theirs, ours), nil
	}}
}

// keep returns ours with the fields of theirs that base does not show. base is theirs as a struct
// shows it, and ours was made from that. names are the top-level fields that base can have.
//
// If a type inside B decodes itself from fields that it does not encode, the result might not
// decode as ours. Then keep keeps only the fields that base lacks at the top.
func keep[B any](c codec.Codec, names []string, base, theirs, ours bson.Raw) bson.Raw {
	shown, made := diff.Open(base), diff.Open(ours)
	stored := slices.DeleteFunc(diff.Open(theirs), func(f diff.Field) bool { // empty, and omitted by base
		return named(names, f.Key) && diff.Find(shown, f.Key).Type == 0
	})
	merged, _ := diff.Merge(shown, stored, made, diff.Options{Arrays: diff.Placed, Loose: true, MadeUp: true})
	flat := made
	for _, f := range stored {
		if !named(names, f.Key) && diff.Find(made, f.Key).Type == 0 {
			flat = append(flat, f)
		}
	}
	out := diff.Raw(merged)
	if diff.Alike(diff.Embedded(flat), embedded(out)) || same[B](c, ours, out) {
		return out
	}
	return diff.Raw(flat)
}

// same reports whether T shows two documents alike.
func same[T any](c codec.Codec, a, b bson.Raw) bool {
	x, err := view[T](c, a)
	if err != nil {
		return false
	}
	y, err := view[T](c, b)
	return err == nil && diff.Alike(embedded(x), embedded(y))
}

// named reports whether a struct with fields of these names decodes a stored field: the driver also
// tries its name in lower case.
func named(names []string, stored string) bool {
	return slices.Contains(names, stored) || slices.Contains(names, strings.ToLower(stored))
}

// view decodes a document into T and encodes it again.
func view[T any](c codec.Codec, raw bson.Raw) (bson.Raw, error) {
	var v T
	if err := c.Decode(raw, &v); err != nil {
		return nil, err
	}
	return c.Document(v)
}

func embedded(raw bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
}

// A chain holds the steps and the way that versions are stored.
type chain struct {
	field    string
	first    int
	text     bool
	up, down []*conversion
	mark     value.Element // the field with the newest version
}

func (c *chain) newest() int { return c.first + len(c.up) }

// version returns the version of a document; ok is false if the field does not hold a version.
func (c *chain) version(doc bson.Raw) (n int, ok bool) {
	v := value.Lookup(doc, c.field)
	switch v.Type {
	case 0:
		return c.first, true
	case bson.TypeString, bson.TypeSymbol: // equal to the server
		// "02" is not a version: filters look for "2".
		text, _ := v.StringValueOK()
		if v.Type == bson.TypeSymbol {
			text = v.Symbol()
		}
		n, err := strconv.Atoi(text)
		return n, err == nil && strconv.Itoa(n) == text
	}
	exact := value.Number(v)
	if exact == nil || !exact.IsInt() || !exact.Num().IsInt64() || exact.Num().Int64() > math.MaxInt32 {
		return 0, false
	}
	return int(exact.Num().Int64()), true
}

// element returns the version field as it is written.
func (c *chain) element(version int) (value.Element, error) {
	if version == c.newest() && c.mark.Value.Type != 0 {
		return c.mark, nil
	}
	var stored any = int32(version)
	if c.text {
		stored = strconv.Itoa(version)
	}
	v, err := codec.Codec{}.Value(stored)
	return value.Element{Name: c.field, Value: v}, err
}

// forms returns all values of the field that mean a version.
func forms(version int) bson.A { return bson.A{int32(version), strconv.Itoa(version)} }

// has is the condition on the field of documents with a version. An array is never a version. A missing field is the
// first, and only null in a list finds it, so the values that null finds too are excluded.
func (c *chain) has(version int) bson.D {
	if version != c.first {
		return append(expr.Op("$in", forms(version)), expr.Element("$not", expr.AnArray))
	}
	return expr.D("$in", append(forms(version), nil), "$not", expr.Op("$type", bson.A{"array", "null", "undefined"}))
}

// lacks is the condition on the field of documents with another version or none. It leaves out an array that holds
// the version.
func (c *chain) lacks(version int) bson.D {
	if version != c.first {
		return expr.Op("$nin", forms(version))
	}
	return expr.D("$nin", forms(version), "$exists", true)
}

// to brings a document to a version. It returns raw itself if that has the version already, in the
// form that this program writes. For a version above the newest or below the first the error is a
// NewerError.
func (c *chain) to(raw bson.Raw, want int) (bson.Raw, error) {
	at, ok := c.version(raw)
	id := value.Clone(raw.Lookup("_id"))
	if !ok || at < c.first || at > c.newest() {
		return nil, &NewerError{id, value.Clone(value.Lookup(raw, c.field)), c.newest()}
	}
	if at == want && c.written(value.Lookup(raw, c.field).Type) {
		return raw, nil
	}
	made := raw
	for at != want {
		step, next := c.step(at, want)
		var err error
		if made, err = c.without(made, step); err == nil && !made.Lookup("_id").Equal(id) {
			err = fmt.Errorf("it changed the _id to %s", value.Text(made.Lookup("_id")))
		}
		if err != nil {
			return nil, &StepError{id, at, next, err}
		}
		at = next
	}
	return c.stamp(made, want)
}

// written reports whether this program leaves a version stored in this type as it is.
func (c *chain) written(form bson.Type) bool {
	switch form {
	case 0:
		return true
	case bson.TypeDouble, bson.TypeSymbol:
		return false
	}
	return c.text == (form == bson.TypeString)
}

// without runs a step on a document without its version field.
func (c *chain) without(raw bson.Raw, step *conversion) (bson.Raw, error) {
	if step == nil {
		return nil, errors.New("it has no Down")
	}
	return step.do(value.Pick(raw, func(field []byte) bool { return string(field) != c.field }))
}

// step returns the conversion from a version towards another, and the version that it leads to.
func (c *chain) step(at, want int) (step *conversion, next int) {
	if want > at {
		return c.up[at-c.first], at + 1
	}
	return c.down[at-1-c.first], at - 1
}

// stamp writes a version into a document, as the first field after the _id.
func (c *chain) stamp(raw bson.Raw, version int) (bson.Raw, error) {
	mark, err := c.element(version)
	if err != nil || value.Lookup(raw, c.field).Equal(mark.Value) {
		return raw, err
	}
	if id := raw.Lookup("_id"); id.Type != 0 {
		return value.With(raw, value.Element{Name: "_id", Value: id}, mark), nil
	}
	return value.With(raw, mark), nil
}

// difference returns the update from before to after, and the condition that the steps would still
// give that: the fields that they read and those that they change are as in before. The update sets
// no other field.
func (c *chain) difference(before, after bson.Raw) (guard, update bson.D, err error) {
	old, made := diff.Open(before), diff.Open(after)
	var set, unset bson.D
	reads, whole := c.reads(before, after)
	for _, change := range diff.Changes(old, made) {
		if !nameable(change.Key) {
			return nil, nil, fault.Invalid("the step changes the field %q, which no update can name", change.Key)
		}
		if reads = append(reads, change.Key); change.Value.Type == 0 {
			unset = append(unset, expr.Element(change.Key, ""))
		} else {
			set = append(set, expr.Element(change.Key, change.Value))
		}
	}
	if len(set) > 0 {
		update = append(update, expr.Element("$set", set))
	}
	if len(unset) > 0 {
		update = append(update, expr.Element("$unset", unset))
	}
	guard = unchanged(old, reads, whole)
	if n := len(expr.Raw(guard)) + len(expr.Raw(update)); n > maxBytes {
		return nil, nil, fault.Invalid("the update has %d bytes, which is too many for one command", n)
	}
	return guard, update, nil
}

// maxBytes bounds the size of a write: condition and update are in one document.
const maxBytes = 16<<20 - 16<<10

// reads returns the top-level fields that the steps from before to after depend on.
func (c *chain) reads(before, after bson.Raw) (names []string, whole bool) {
	at, _ := c.version(before)
	for want, _ := c.version(after); at != want; {
		var step *conversion
		step, at = c.step(at, want)
		names, whole = append(names, step.reads...), whole || step.whole
	}
	return names, whole
}

// unchanged returns the condition that a document still has these fields as old has them. It is a
// single comparison, because each comparison costs the server time: it compares a document of the
// fields, in which missing ones are left out, with one of their values in old.
func unchanged(old []diff.Field, names []string, whole bool) bson.D {
	for _, f := range old {
		if named(names, f.Key) {
			names = append(names, f.Key)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if whole || !allNameable(names) {
		return expr.Op("$eq", "$$ROOT", expr.Literal(diff.Raw(old)))
	}
	var is, was bson.D
	for _, name := range names {
		is = append(is, expr.Element(name, expr.Field(name)))
		if v := diff.Find(old, name); v.Type != 0 {
			was = append(was, expr.Element(name, v))
		}
	}
	return expr.Op("$eq", is, expr.Literal(append(bson.D{}, was...)))
}

func allNameable(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !nameable(name) })
}

// nameable reports whether a path can name a field.
func nameable(name string) bool {
	return name != "" && name[0] != '$' && !strings.Contains(name, ".")
}
