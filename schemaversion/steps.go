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
	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

var (
	// ErrNewer: a document is of a version that this program does not know. The
	// error is a *NewerError.
	ErrNewer = fault.New("newer version", nil)
	// ErrRunning: another process migrates the collection.
	ErrRunning = fault.New("another process migrates", mongopatterns.ErrConflict)
)

// NewerError names a document of a version that is not known: newer, or none at all.
// It matches ErrNewer.
type NewerError struct {
	ID      bson.RawValue
	Version bson.RawValue
	Newest  int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("_id %s: version %s, this program knows up to %d", value.Text(e.ID), value.Text(e.Version), e.Newest)
}

// Is makes it match ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// StepError says at which document and step an upgrade failed. The document is as it
// was.
type StepError struct {
	ID       bson.RawValue
	From, To int
	Err      error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("_id %s: from version %d to %d: %v", value.Text(e.ID), e.From, e.To, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// Step leads from one version to the next, and back. It gets the document without
// its version field; what it returns in that field does not count. It must not change the
// _id. It can run several times and side by side, so it keeps no state.
//
// What it makes is stored only while the document is as it was given to it. A step of
// Between depends on the fields of its struct alone: what others write beside these is no
// reason to run it again. A step on documents needs room to compare the whole one: with what
// it changes that must be less than 16 MB.
type Step struct {
	// Up makes the next version. It is needed.
	Up func(doc bson.D) (bson.D, error)
	// Down makes the previous version. Default nil: there is no way back.
	Down func(doc bson.D) (bson.D, error)

	typed func(codec.Codec) (up, down *conversion) // once the codec is known
}

// Between is a step from the struct Old to the struct New, and back by down, which may
// be nil. Fields of the document that the one struct lacks stay as they are, at any depth,
// unless the other has them. An element of an array keeps them if the step leaves it as it
// is, wherever it puts it, or changes it in its place.
func Between[Old, New any](up func(Old) (New, error), down func(New) (Old, error)) Step {
	return Step{typed: func(c codec.Codec) (*conversion, *conversion) { return typed(c, up), typed(c, down) }}
}

// A conversion makes a document of one version of one of the next, or back.
type conversion struct {
	do func(doc bson.Raw) (bson.Raw, error)
	// reads are the top-level fields that it depends on, whole says that it is on all.
	reads []string
	whole bool
}

// plain is the conversion by a function between documents.
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

// typed is the conversion by a function between structs.
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
		base, err := c.Document(before) // now: convert may write into it
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

// keep is ours, which was made of what base shows of theirs, with what base does not show.
// names are the top-level fields that base can have.
//
// A type inside of B that decodes itself may read fields that it does not write, and the
// result would not read as ours: then only what base lacks at the top is kept.
func keep[B any](c codec.Codec, names []string, base, theirs, ours bson.Raw) bson.Raw {
	shown, made := doc.Open(base), doc.Open(ours)
	stored := slices.DeleteFunc(doc.Open(theirs), func(f doc.Field) bool { // empty, and left out
		return named(names, f.Key) && doc.Find(shown, f.Key).Type == 0
	})
	merged, _ := doc.Merge(shown, stored, made, doc.Options{Arrays: doc.Placed, Loose: true, MadeUp: true})
	flat := made
	for _, f := range stored {
		if !named(names, f.Key) && doc.Find(made, f.Key).Type == 0 {
			flat = append(flat, f)
		}
	}
	out := doc.Raw(merged)
	if doc.Alike(doc.Embedded(flat), embedded(out)) || same[B](c, ours, out) {
		return out
	}
	return doc.Raw(flat)
}

// same reports whether T shows two documents alike.
func same[T any](c codec.Codec, a, b bson.Raw) bool {
	x, err := view[T](c, a)
	if err != nil {
		return false
	}
	y, err := view[T](c, b)
	return err == nil && doc.Alike(embedded(x), embedded(y))
}

// named reports whether a struct with fields of these names takes a stored one for its own:
// the driver does so also by its name in lower case.
func named(names []string, stored string) bool {
	return slices.Contains(names, stored) || slices.Contains(names, strings.ToLower(stored))
}

// view is a document as T shows it.
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

// chain is the steps and how versions are stored.
type chain struct {
	field    string
	first    int
	text     bool
	up, down []*conversion
	mark     value.Element // the field with the newest version
}

func (c *chain) newest() int { return c.first + len(c.up) }

// version is that of a document; ok is false if there is no telling.
func (c *chain) version(doc bson.Raw) (n int, ok bool) {
	v := value.Lookup(doc, c.field)
	switch v.Type {
	case 0, bson.TypeNull:
		return c.first, true
	case bson.TypeString, bson.TypeSymbol: // which are equal to the server
		// "02" is none: filters look for "2".
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

// element is the field with a version, as it is written.
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

// forms are all values of the field that mean a version.
func (c *chain) forms(version int) bson.A {
	out := bson.A{int32(version), strconv.Itoa(version)}
	if version == c.first {
		out = append(out, nil) // which matches a missing field
	}
	return out
}

// to brings a document to a version. It returns the document itself if it has it
// already, in the form that this program writes. A version above the newest, or
// below the first, is a NewerError.
func (c *chain) to(raw bson.Raw, want int) (bson.Raw, error) {
	at, ok := c.version(raw)
	id := kept(raw.Lookup("_id"))
	if !ok || at < c.first || at > c.newest() {
		return nil, &NewerError{id, kept(value.Lookup(raw, c.field)), c.newest()}
	}
	if at == want && c.written(value.Lookup(raw, c.field).Type) {
		return raw, nil
	}
	made := raw
	for at != want {
		step, next := c.step(at, want)
		var err error
		if made, err = c.without(made, step); err == nil && !made.Lookup("_id").Equal(id) {
			err = fmt.Errorf("the _id became %s", value.Text(made.Lookup("_id")))
		}
		if err != nil {
			return nil, &StepError{id, at, next, err}
		}
		at = next
	}
	return c.stamp(made, want)
}

// written reports whether this program leaves a version of this type as it is.
func (c *chain) written(form bson.Type) bool {
	switch form {
	case 0:
		return true
	case bson.TypeDouble, bson.TypeSymbol:
		return false
	}
	return c.text == (form == bson.TypeString)
}

// without does a step on a document without its version.
func (c *chain) without(raw bson.Raw, step *conversion) (bson.Raw, error) {
	if step == nil {
		return nil, errors.New("the step has no way down")
	}
	return step.do(value.Pick(raw, func(field []byte) bool { return string(field) != c.field }))
}

// step is the one that leads from a version towards another.
func (c *chain) step(at, want int) (step *conversion, next int) {
	if want > at {
		return c.up[at-c.first], at + 1
	}
	return c.down[at-1-c.first], at - 1
}

// stamp writes a version into a document, in front, but behind the _id.
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

// kept is a copy of a value that outlives its document.
func kept(v bson.RawValue) bson.RawValue {
	v.Value = slices.Clone(v.Value)
	return v
}

// difference is the update that makes after of before, and the condition that the steps
// between them would make it now: that what they read, and what it changes, is as in
// before. It touches no other field.
func (c *chain) difference(before, after bson.Raw) (guard, update bson.D, err error) {
	old, made := doc.Open(before), doc.Open(after)
	var set, unset bson.D
	reads, whole := c.reads(before, after)
	for _, change := range doc.Changes(old, made) {
		if !nameable(change.Key) {
			return nil, nil, fault.Invalid("the field name %q cannot be set", change.Key)
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
		return nil, nil, fault.Invalid("%d bytes are too many to compare and to write at once", n)
	}
	return guard, update, nil
}

// maxBytes bounds what a write sends: the condition and the update are in one document.
const maxBytes = 16<<20 - 16<<10

// reads are the top-level fields that the steps from one document to the other depend on.
func (c *chain) reads(before, after bson.Raw) (names []string, whole bool) {
	at, _ := c.version(before)
	for want, _ := c.version(after); at != want; {
		var step *conversion
		step, at = c.step(at, want)
		names, whole = append(names, step.reads...), whole || step.whole
	}
	return names, whole
}

// unchanged is the condition that a document still has these fields as old has them. It is
// one comparison, as each costs the server: of the fields as they are, without the missing
// ones, with those of old.
func unchanged(old []doc.Field, names []string, whole bool) bson.D {
	for _, f := range old {
		if named(names, f.Key) {
			names = append(names, f.Key)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if whole || !allNameable(names) {
		return expr.Op("$eq", "$$ROOT", expr.Literal(doc.Raw(old)))
	}
	var is, was bson.D
	for _, name := range names {
		is = append(is, expr.Element(name, expr.Field(name)))
		if v := doc.Find(old, name); v.Type != 0 {
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
