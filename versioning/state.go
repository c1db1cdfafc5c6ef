package versioning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A store does the work of Documents on BSON.
type store struct {
	opts  Options
	codec codec.Codec
	// view is a document as T shows it, without number and change. loose says that
	// the order of fields is not the caller's, see loose.
	view func(raw bson.Raw) (all []field, loose bool, err error)
	// upgrades says that T, or something in it, decodes itself, see faithful.
	upgrades bool

	current, revisions *mongo.Collection // revisions is nil with Options.NoHistory
	// The same with reads from the primary, for those that a write depends on.
	currentPrimary, revisionsPrimary *mongo.Collection
}

func (d *store) client() *mongo.Client { return d.current.Database().Client() }

// primary is the store with all reads from the primary.
func (d *store) primary() *store {
	out := *d
	out.current, out.revisions = d.currentPrimary, d.revisionsPrimary
	return &out
}

// A state is a document at one revision, taken apart.
type state struct {
	id      bson.RawValue
	number  int64
	bare    bool // no number is stored, which is then 1
	change  stamp
	deleted bool
	lost    bool     // its fields cannot be known any more
	fields  []field  // without number and change
	whole   []field  // as the current document, nil for a revision of the history
	raw     bson.Raw // the same
}

// load reads a current document.
func (d *store) load(ctx context.Context, coll *mongo.Collection, id bson.RawValue) (*state, error) {
	raw, err := coll.FindOne(ctx, byID(id)).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, fault.Of(id, fault.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return d.parse(raw)
}

func byID(id bson.RawValue) bson.D { return bson.D{expr.Element("_id", value.Equal(id))} }

// guard selects a current document while it is this revision. One without a
// number is revision 1.
func (d *store) guard(id bson.RawValue, number int64) bson.D {
	var is any = number
	if number == 1 {
		is = expr.Op("$in", bson.A{nil, number})
	}
	return append(byID(id), expr.Element(d.opts.RevisionField, is))
}

// parse takes a current document apart. If it is no revision, what is known of it
// comes with the error.
func (d *store) parse(raw bson.Raw) (*state, error) {
	all, err := fields(raw)
	if err != nil {
		return nil, fault.Invalid("%w", err)
	}
	s := &state{raw: raw, whole: all, fields: d.content(all)}
	s.id, _ = find(all, "_id")
	number, _ := find(all, d.opts.RevisionField)
	change, changed := find(all, d.opts.ChangeField)
	invalid := func(format string, args ...any) (*state, error) {
		return s, fault.Of(s.id, fault.Invalid(format, args...))
	}
	switch number.Type {
	case 0, bson.TypeNull:
		if changed {
			return invalid("it has no %q, but %q: choose another Options.ChangeField", d.opts.RevisionField, d.opts.ChangeField)
		}
		s.number, s.bare = 1, true
		return s, nil
	}
	var ok bool
	if s.number, ok = wholeNumber(number); !ok {
		return invalid("%q is %s, no revision's number", d.opts.RevisionField, value.Text(number))
	}
	if changed && change.Type != bson.TypeEmbeddedDocument {
		return invalid("%q is %s, no change", d.opts.ChangeField, value.Text(change))
	}
	s.change = stampOf(change)
	return s, nil
}

// content is a document without number and change.
func (d *store) content(all []field) []field {
	return without(all, d.opts.RevisionField, d.opts.ChangeField)
}

// versioned is what the history keeps.
func (d *store) versioned(all []field) []field {
	if len(d.opts.Ignored) == 0 {
		return all
	}
	return without(all, d.opts.Ignored...)
}

// past is a state as the history shows it.
func (d *store) past(s *state) *state {
	out := *s
	out.fields, out.whole, out.raw = d.versioned(s.fields), nil, nil
	return &out
}

// shown is the document that T decodes.
func (d *store) shown(s *state) bson.Raw {
	if s.raw != nil {
		return s.raw
	}
	return document(append(s.fields[:len(s.fields):len(s.fields)],
		field{d.opts.RevisionField, int64Value(s.number)}, field{d.opts.ChangeField, s.change.value()}))
}

// assemble completes a state that follows before as a current document: fields that
// both have stay where they stand, as they do on the server, new ones come last. It
// refuses what is too large to be stored as a revision.
func (d *store) assemble(s, before *state) error {
	s.whole = make([]field, 0, len(s.fields)+2)
	inFields := index(s.fields)
	number, change := field{d.opts.RevisionField, int64Value(s.number)}, field{d.opts.ChangeField, s.change.value()}
	var numbered, changed bool
	var old []field
	if before != nil {
		old = before.whole
	}
	for _, f := range old {
		switch f.key {
		case number.key:
			if f.value.Type == bson.TypeInt32 && s.number <= math.MaxInt32 {
				number.value = int32Value(int(s.number))
			}
			s.whole, numbered = append(s.whole, number), true
		case change.key:
			s.whole, changed = append(s.whole, change), true
		default:
			if v, ok := inFields(f.key); ok {
				s.whole = append(s.whole, field{f.key, v})
			}
		}
	}
	inOld := index(old)
	for _, f := range s.fields {
		if strings.HasPrefix(f.key, "$") { // which an insert takes, and no replacement
			return fault.Of(s.id, fault.Invalid("the field %q starts with %q", f.key, "$"))
		}
		if _, ok := inOld(f.key); !ok {
			s.whole = append(s.whole, f)
		}
	}
	if !numbered {
		s.whole = append(s.whole, number)
	}
	if !changed {
		s.whole = append(s.whole, change)
	}
	s.raw = document(s.whole)
	return checkSize(s)
}

func checkSize(s *state) error {
	if len(s.raw) > maxBytes {
		return fault.Of(s.id, fault.Invalid("%d bytes are too many for a revision (%d)", len(s.raw), maxBytes))
	}
	return nil
}

// exists reports whether there is a current document.
func (d *store) exists(ctx context.Context, id bson.RawValue) (bool, error) {
	err := d.currentPrimary.FindOne(ctx, byID(id), options.FindOne().SetProjection(bson.D{expr.Element("_id", 1)})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// A stamp is a change as it is stored.
type stamp struct {
	at   time.Time
	rest []field // all but the time
}

func stampOf(v bson.RawValue) stamp {
	raw, _ := v.DocumentOK()
	all, _ := fields(raw)
	out := stamp{rest: without(all, atKey)}
	if ms, ok := raw.Lookup(atKey).DateTimeOK(); ok {
		out.at = time.UnixMilli(ms).UTC()
	}
	return out
}

func (c stamp) value() bson.RawValue {
	return documentValue(append([]field{{atKey, date(c.at)}}, c.rest...))
}

func date(t time.Time) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDateTime, Value: int64Value(t.UnixMilli()).Value}
}

// after is a stamp with the time that it is stored with: in milliseconds, and not
// earlier than that of before.
func (c stamp) after(before stamp) stamp {
	if c.at.IsZero() {
		c.at = time.Now()
	}
	c.at = time.UnixMilli(c.at.UnixMilli()).UTC()
	if c.at.Before(before.at) {
		c.at = before.at
	}
	return c
}

// stamp encodes a change, before anything is done.
func (d *store) stamp(c Change) (stamp, error) {
	out := stamp{at: c.At}
	if err := checkTime("Change.At", c.At); err != nil {
		return out, err
	}
	doc := bson.D{}
	if c.Author != "" {
		doc = append(doc, bson.E{Key: authorKey, Value: c.Author})
	}
	if c.Reason != "" {
		doc = append(doc, bson.E{Key: reasonKey, Value: c.Reason})
	}
	raw, err := d.codec.Document(append(doc, c.Fields...))
	if err == nil {
		out.rest, err = fields(raw)
	}
	if err != nil {
		return out, fmt.Errorf("Change.Fields: %w", err)
	}
	for _, f := range c.Fields {
		if f.Key == "" || f.Key == atKey || f.Key == authorKey || f.Key == reasonKey || strings.ContainsAny(f.Key, "$.\x00") {
			return out, fault.Invalid("Change.Fields: %q", f.Key)
		}
	}
	if !distinct(out.rest) {
		return out, fault.Invalid("Change.Fields: a name stands twice")
	}
	return out, nil
}

// change is a stamp as callers see it.
func (d *store) change(c stamp) (Change, error) {
	out := Change{At: c.at}
	var own []field
	for _, f := range c.rest {
		text, ok := f.value.StringValueOK()
		switch {
		case f.key == authorKey && ok:
			out.Author = text
		case f.key == reasonKey && ok:
			out.Reason = text
		default:
			own = append(own, f)
		}
	}
	if own == nil {
		return out, nil
	}
	return out, d.codec.Decode(document(own), &out.Fields)
}

var beyondYears = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// checkTime refuses times that JSON and other languages cannot write, among which are
// those that a BSON date cannot hold.
func checkTime(argument string, t time.Time) error {
	if t.Before(time.Time{}) || !t.Before(beyondYears) {
		return fault.Invalid("%s: %v is not in the years 1 to 9999", argument, t.UTC())
	}
	return nil
}
