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
// its version field, and returns it likewise; it must not change the _id. It can
// run several times and side by side, so it keeps no state.
type Step struct {
	// Up makes the next version. It is needed.
	Up func(doc bson.D) (bson.D, error)
	// Down makes the previous version. Default nil: there is no way back.
	Down func(doc bson.D) (bson.D, error)

	typed func(codec.Codec) (up, down func(bson.D) (bson.D, error)) // once the codec is known
}

// Between is a step from the struct Old to the struct New, and back by down, which may
// be nil. Fields of the document that the one struct lacks stay as they are, unless
// the other has them.
func Between[Old, New any](up func(Old) (New, error), down func(New) (Old, error)) Step {
	return Step{typed: func(c codec.Codec) (func(bson.D) (bson.D, error), func(bson.D) (bson.D, error)) {
		return onDocuments(c, up), onDocuments(c, down)
	}}
}

// onDocuments is a function between structs as one between documents.
func onDocuments[A, B any](c codec.Codec, convert func(A) (B, error)) func(bson.D) (bson.D, error) {
	if convert == nil {
		return nil
	}
	known, all := c.Fields(reflect.TypeFor[A]())
	return func(doc bson.D) (bson.D, error) {
		raw, err := bson.Marshal(doc)
		if err != nil {
			return nil, err
		}
		var before A
		if err := c.Decode(raw, &before); err != nil {
			return nil, err
		}
		after, err := convert(before)
		if err != nil {
			return nil, err
		}
		encoded, err := c.Document(after)
		if err != nil {
			return nil, err
		}
		var out bson.D
		if err := bson.Unmarshal(encoded, &out); err != nil {
			return nil, err
		}
		for _, e := range doc {
			if all && !slices.Contains(known, e.Key) && !has(out, e.Key) {
				out = append(out, e)
			}
		}
		return out, nil
	}
}

func has(doc bson.D, key string) bool {
	return slices.ContainsFunc(doc, func(e bson.E) bool { return e.Key == key })
}

// chain is the steps and how versions are stored.
type chain struct {
	field string
	first int
	text  bool
	steps []Step
	mark  value.Element // the field with the newest version
}

func (c *chain) newest() int { return c.first + len(c.steps) }

// version is that of a document; ok is false if there is no telling.
func (c *chain) version(doc bson.Raw) (n int, ok bool) {
	v := value.Lookup(doc, c.field)
	switch v.Type {
	case 0, bson.TypeNull:
		return c.first, true
	case bson.TypeString:
		// "02" is none: filters look for "2".
		n, err := strconv.Atoi(v.StringValue())
		return n, err == nil && strconv.Itoa(n) == v.StringValue()
	}
	exact := value.Number(v)
	if exact == nil || !exact.IsInt() || !exact.Num().IsInt64() || exact.Num().Int64() > math.MaxInt32 {
		return 0, false
	}
	return int(exact.Num().Int64()), true
}

// stored is how a version is written.
func (c *chain) stored(version int) any {
	if c.text {
		return strconv.Itoa(version)
	}
	return int32(version)
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
func (c *chain) to(doc bson.Raw, want int) (bson.Raw, error) {
	have, ok := c.version(doc)
	if !ok || have < c.first || have > c.newest() {
		return nil, &NewerError{doc.Lookup("_id"), value.Lookup(doc, c.field), c.newest()}
	}
	if form := value.Lookup(doc, c.field).Type; have == want && (form == 0 || c.text == (form == bson.TypeString) && form != bson.TypeDouble) {
		return doc, nil
	}
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	id := doc.Lookup("_id")
	d = slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == c.field })
	for have != want {
		next := have + 1
		up := want > have
		var step func(bson.D) (bson.D, error)
		if up {
			step = c.steps[have-c.first].Up
		} else {
			next = have - 1
			step = c.steps[next-c.first].Down
		}
		if step == nil {
			return nil, &StepError{id, have, next, errors.New("the step has no way down")}
		}
		made, err := step(d)
		if err != nil {
			return nil, &StepError{id, have, next, err}
		}
		d, have = made, next
	}
	at := 0 // the version stands in front, behind the _id
	if len(d) > 0 && d[0].Key == "_id" {
		at = 1
	}
	made, err := bson.Marshal(slices.Insert(slices.Clone(d), at, bson.E{Key: c.field, Value: c.stored(want)}))
	if err != nil {
		return nil, &StepError{id, have, want, err}
	}
	if now := bson.Raw(made).Lookup("_id"); !now.Equal(id) {
		return nil, &StepError{id, have, want, fmt.Errorf("the _id became %s", value.Text(now))}
	}
	return made, nil
}

// difference is the update that makes after of before, and the condition that what it
// changes is still as in before. It touches no other field. The condition is one
// comparison, as each costs the server: of the fields as they are, of which missing ones
// are none, with those of before.
func difference(before, after bson.Raw) (guard, update bson.D, err error) {
	old, err := before.Elements()
	if err != nil {
		return nil, nil, err
	}
	made, err := after.Elements()
	if err != nil {
		return nil, nil, err
	}
	var is, set, unset bson.D
	was := bson.D{}
	for i, e := range append(made, old...) {
		key := e.Key()
		then, now := before.Lookup(key), after.Lookup(key)
		switch {
		case now.Type == 0:
			unset = append(unset, expr.Element(key, ""))
		case i < len(made) && !then.Equal(now):
			set = append(set, expr.Element(key, now))
		default:
			continue
		}
		if key == "" || key[0] == '$' || strings.Contains(key, ".") {
			return nil, nil, fault.Invalid("the field name %q cannot be set", key)
		}
		is = append(is, expr.Element(key, expr.Field(key)))
		if then.Type != 0 {
			was = append(was, expr.Element(key, then))
		}
	}
	if len(set) > 0 {
		update = append(update, expr.Element("$set", set))
	}
	if len(unset) > 0 {
		update = append(update, expr.Element("$unset", unset))
	}
	return expr.Op("$eq", is, expr.Literal(was)), update, nil
}
