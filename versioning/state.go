package versioning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	// view is a document as T shows it. loose says that
	// the order of fields is not the caller's, see loose.
	view func(raw bson.Raw) (shown bson.Raw, loose bool, err error)
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
	narrow  bool // the number is stored as an int32
	change  stamp
	deleted bool
	lost    bool     // its document cannot be known any more
	raw     bson.Raw // of a current document
	before  *state   // of one that a call has made of another,
	changes []field  // by these,
	update  bson.D   // and on the server by this, nil if only a replacement does it
	exact   bool     // the update makes it to the byte
	doc     bson.Raw // of a revision of the history: without number and change
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
	s := &state{raw: raw}
	own := pick(raw, []field{{key: "_id"}, {key: d.opts.RevisionField}, {key: d.opts.ChangeField}})
	number, change := own[1].value, own[2].value
	changed := change.Type != 0
	s.id = own[0].value
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
	s.change, s.narrow = stampOf(change), number.Type == bson.TypeInt32
	return s, nil
}

// content is a document without number and change.
func (d *store) content(s *state) bson.Raw {
	if s.raw == nil {
		return s.doc
	}
	return without(s.raw, d.ownNames()...)
}

// past is a state as the history shows it, without Options.Ignored.
func (d *store) past(s *state) *state {
	out := *s
	if s.raw != nil {
		out.doc, out.raw = without(s.raw, append(d.ownNames(), d.opts.Ignored...)...), nil
	} else if len(d.opts.Ignored) > 0 && s.doc != nil {
		out.doc = without(s.doc, d.opts.Ignored...)
	}
	return &out
}

// shown is the document that T decodes.
func (d *store) shown(s *state) bson.Raw {
	if s.raw != nil {
		return s.raw
	}
	return patched(s.doc, d.own(s))
}

func (d *store) ownNames() []string { return []string{d.opts.RevisionField, d.opts.ChangeField} }

// own is the fields of number and change.
func (d *store) own(s *state) []field {
	number := int64Value(s.number)
	if s.narrow && s.number <= math.MaxInt32 {
		number = int32Value(int(s.number))
	}
	return []field{{d.opts.RevisionField, number}, {d.opts.ChangeField, s.change.value()}}
}

// check refuses a document that could not be replaced, or is too large to be stored
// as a revision.
func (s *state) check() error {
	if bytes.IndexByte(s.raw, '$') < 0 {
		return s.checkSize()
	}
	r := read(s.raw)
	for element, key, _ := r.next(); element != nil; element, key, _ = r.next() {
		if len(key) > 0 && key[0] == '$' { // which an insert takes, and no replacement
			return fault.Of(s.id, fault.Invalid("the field %q starts with %q", key, "$"))
		}
	}
	return s.checkSize()
}

func (s *state) checkSize() error {
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
	out := stamp{rest: slices.DeleteFunc(all, func(f field) bool { return f.key == atKey })}
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
