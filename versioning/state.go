package versioning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A store does the work of Documents on BSON.
type store struct {
	opts          Options
	codec         codec.Codec
	names, unkept []string // the fields of number and change; with Options.Ignored
	// view is a document as T shows it. loose says that the order of fields is not the
	// caller's, see loose.
	view func(raw bson.Raw) (shown bson.Raw, loose bool, err error)
	// upgrades says that T, or something in it, decodes itself, see faithful.
	upgrades bool
	// shows says that T may show number or change, or a value as another Go type than
	// the caller's.
	shows bool

	current, revisions *mongo.Collection // revisions is nil with Options.NoHistory
	primary            *store            // the same with reads from the primary, for those that a write depends on
}

func (d *store) client() *mongo.Client { return d.current.Database().Client() }

// A state is a document at one revision, taken apart.
type state struct {
	id      bson.RawValue
	number  int64
	bare    bool // no number is stored, which is then 1
	change  stamp
	deleted bool
	lost    bool        // its document cannot be known any more
	invalid error       // of loadMany: why it cannot be read
	all     []doc.Field // the document, with number and change
	raw     bson.Raw

	row   bson.RawValue // of one from the history: the _id of its row,
	past  bool          // and it lacks Options.Ignored
	delta bson.Raw      // and this makes it of the following one, until resolve has

	before  *state      // of one that a call has made of another,
	changes []doc.Field // by these,
	own     []doc.Field // and these of number and change
}

// load reads a current document; nil if there is none.
func (d *store) load(ctx context.Context, id bson.RawValue) (*state, error) {
	raw, err := d.current.FindOne(ctx, byID(id)).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.parse(raw)
}

// get is load, but that a missing document is an error.
func (d *store) get(ctx context.Context, id bson.RawValue) (*state, error) {
	s, err := d.load(ctx, id)
	if s == nil && err == nil {
		err = fault.Of(id, fault.ErrNotFound)
	}
	return s, err
}

func byID(id bson.RawValue) bson.D { return bson.D{expr.Element("_id", value.Equal(id))} }

// guard selects a current document while it is this revision. One without a
// number is revision 1. It is encoded here, which takes the client less than the driver.
func (d *store) guard(id bson.RawValue, number int64) bson.Raw {
	is := valueOf(number)
	if number == 1 {
		is = doc.Embedded([]doc.Field{field("$in", doc.Array([]doc.Field{field("", bson.RawValue{Type: bson.TypeNull}), field("", is)}))})
	}
	if id.Type == bson.TypeEmbeddedDocument || id.Type == bson.TypeRegex {
		id = doc.Embedded([]doc.Field{field("$eq", id)})
	}
	return doc.Raw([]doc.Field{field("_id", id), field(d.opts.RevisionField, is)})
}

// parse takes a current document apart. If it is no revision, what is known of it
// comes with the error.
func (d *store) parse(raw bson.Raw) (*state, error) {
	s := &state{raw: raw, all: doc.Open(raw)}
	s.id = doc.Find(s.all, "_id")
	number, change := doc.Find(s.all, d.opts.RevisionField), doc.Find(s.all, d.opts.ChangeField)
	invalid := func(format string, args ...any) (*state, error) {
		return s, fault.Of(s.id, fault.Invalid(format, args...))
	}
	if number.Type == 0 || number.Type == bson.TypeNull {
		if change.Type != 0 {
			return invalid("it has no %q, but %q: choose another Options.ChangeField", d.opts.RevisionField, d.opts.ChangeField)
		}
		s.number, s.bare = 1, true
		return s, nil
	}
	var ok bool
	if s.number, ok = wholeNumber(number); !ok {
		return invalid("%q is %s, no revision's number", d.opts.RevisionField, value.Text(number))
	}
	if change.Type != 0 && change.Type != bson.TypeEmbeddedDocument {
		return invalid("%q is %s, no change", d.opts.ChangeField, value.Text(change))
	}
	s.change = stampOf(change)
	return s, nil
}

// document is the document with number and change.
func (s *state) document() bson.Raw {
	if s.raw == nil {
		s.raw = doc.Raw(s.all)
	}
	return s.raw
}

func (d *store) own(s *state) []doc.Field {
	return []doc.Field{field(d.opts.RevisionField, valueOf(s.number)), field(d.opts.ChangeField, s.change.value())}
}

// kept is what the history keeps of a document.
func (d *store) kept(s *state) []doc.Field { return doc.Without(s.all, d.unkept...) }

// past is a state as the history shows it, without Options.Ignored.
func (d *store) past(s *state) *state {
	out := *s
	out.raw, out.past = nil, len(d.opts.Ignored) > 0
	out.all = doc.Patch(d.kept(s), d.own(s))
	return &out
}

// check refuses what is too large to be stored as a revision, and the number that could
// not be read again.
func (s *state) check() error {
	if s.number == math.MaxInt64 {
		return fault.Of(s.id, fault.Invalid("revision %d is the last one", s.number-1))
	}
	if n := doc.Size(s.all); n > maxBytes {
		return fault.Of(s.id, fault.Invalid("%d bytes are too many for a revision (%d)", n, maxBytes))
	}
	return nil
}

func field(key string, v bson.RawValue) doc.Field { return doc.Field{Key: key, Value: v} }

// valueOf encodes a value of one of the driver's own types.
func valueOf(v any) bson.RawValue {
	out, _ := codec.Codec{}.Value(v)
	return out
}

func dateValue(t time.Time) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDateTime, Value: valueOf(t.UnixMilli()).Value}
}

// wholeNumber reads a revision's number, after which there is another one.
func wholeNumber(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
		return 0, false
	}
	n, ok := v.AsInt64OK()
	return n, ok && n >= 1 && n < math.MaxInt64
}

// A stamp is a change as it is stored.
type stamp struct {
	at   time.Time
	rest []doc.Field // all but the time
}

func stampOf(v bson.RawValue) stamp {
	raw, _ := v.DocumentOK()
	all := doc.Open(raw)
	out := stamp{rest: doc.Without(all, atKey)}
	if ms, ok := doc.Find(all, atKey).DateTimeOK(); ok {
		out.at = time.UnixMilli(ms).UTC()
	}
	return out
}

func (c stamp) value() bson.RawValue {
	return doc.Embedded(append([]doc.Field{field(atKey, dateValue(c.at))}, c.rest...))
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
	if c.Author != "" {
		out.rest = append(out.rest, field(authorKey, valueOf(c.Author)))
	}
	if c.Reason != "" {
		out.rest = append(out.rest, field(reasonKey, valueOf(c.Reason)))
	}
	if c.Fields == nil {
		return out, nil
	}
	raw, err := d.codec.Document(c.Fields)
	if err != nil {
		return out, fmt.Errorf("Change.Fields: %w", err)
	}
	for _, f := range doc.Open(raw) {
		if slices.Contains([]string{"", atKey, authorKey, reasonKey}, f.Key) || strings.ContainsAny(f.Key, "$.") ||
			doc.Find(out.rest, f.Key).Type != 0 {
			return out, fault.Invalid("Change.Fields: %q", f.Key)
		}
		out.rest = append(out.rest, f)
	}
	return out, nil
}

// change is a stamp as callers see it.
func (d *store) change(c stamp) (Change, error) {
	out := Change{At: c.at}
	var own []doc.Field
	for _, f := range c.rest {
		text, ok := f.Value.StringValueOK()
		switch {
		case f.Key == authorKey && ok:
			out.Author = text
		case f.Key == reasonKey && ok:
			out.Reason = text
		default:
			own = append(own, f)
		}
	}
	if own == nil {
		return out, nil
	}
	return out, d.codec.Decode(doc.Raw(own), &out.Fields)
}

// checkTime refuses times that JSON cannot write. Among them are those of which UnixMilli
// wraps around: Prune would take a time long ago for one to come.
func checkTime(what string, t time.Time) error {
	if t.Before(time.Time{}) || t.UTC().Year() > 9999 {
		return fault.Invalid("%s: %v is not in the years 1 to 9999", what, t)
	}
	return nil
}
