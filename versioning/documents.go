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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A store does the work of History on BSON, without knowing T.
type store struct {
	opts          Options
	codec         codec.Codec
	names, unkept []string   // the fields of number and change; the same and Options.Ignored
	isRow         any        // see there
	noArray       diff.Field // a part of guard

	current, revisions *scoped.Collection // revisions is nil with Options.NoHistory
	primary            *store             // the same store, reading from the primary: for reads that a write depends on
}

// A head holds the document's _id, the number of the revision and its change.
type head struct {
	id     bson.RawValue
	number int64
	change stamp
}

// A current is a current document. It is never modified, so several calls may share it.
type current struct {
	head
	all        []diff.Field // with number and change
	raw        bson.Raw     // the same
	unnumbered bool         // no number is stored, so it is revision 1
	partial    bool         // it was made from a row, and lacks Options.Ignored
}

// A row is a revision of the history, or the current revision as the history will show it.
type row struct {
	head
	key      bson.RawValue // the row's own _id; zero for the current revision
	document []diff.Field  // without number, change and Options.Ignored
	delta    bson.Raw      // resolve makes document from it and the document of the next revision
	deleted  bool
	lost     bool // its document cannot be restored
	other    bool // it has no change, so other code stored it
}

// A draft is a revision to be written: base with changes.
type draft struct {
	current
	base    *current
	changes []diff.Field
	own     []diff.Field // number and change; nil if both stay
}

// load reads a current document; nil if there is none.
func (d *store) load(ctx context.Context, id bson.RawValue) (*current, error) {
	raw, err := d.current.FindOne(ctx, expr.ByID(id)).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.parse(raw)
}

// get is load that returns an error if there is no document.
func (d *store) get(ctx context.Context, id bson.RawValue) (*current, error) {
	c, err := d.load(ctx, id)
	if c == nil && err == nil {
		err = fault.Of(id, mongopatterns.ErrNotFound)
	}
	return c, err
}

// guard selects a current document if it still is this revision. One without a number is revision
// 1. noArray is there because an array that holds the number meets it too. The filter is encoded here because that takes the
// client less time than the driver's encoder.
func (d *store) guard(id bson.RawValue, number int64) bson.Raw {
	is := value.Int64(number)
	if number == 1 {
		is = diff.Embedded([]diff.Field{field("$in", diff.Array([]diff.Field{field("", value.Null), field("", is)}))})
	}
	if id.Type == bson.TypeEmbeddedDocument || id.Type == bson.TypeRegex {
		id = diff.Embedded([]diff.Field{field("$eq", id)})
	}
	return diff.Raw([]diff.Field{field("_id", id), field(d.opts.RevisionField, is), d.noArray})
}

// parse reads a current document. If it is malformed, the result has its _id, besides the error.
func (d *store) parse(raw bson.Raw) (*current, error) {
	c := &current{raw: raw, all: diff.Open(raw)}
	c.id = diff.Find(c.all, "_id")
	number, change := diff.Find(c.all, d.opts.RevisionField), diff.Find(c.all, d.opts.ChangeField)
	malformed := func(format string, args ...any) (*current, error) {
		return c, fault.Of(c.id, fault.Malformed(format, args...))
	}
	if number.Type == 0 || number.Type == bson.TypeNull {
		if change.Type != 0 {
			return malformed("it has no %q but has %q: choose another Options.ChangeField", d.opts.RevisionField, d.opts.ChangeField)
		}
		c.number, c.unnumbered = 1, true
		return c, nil
	}
	var ok bool
	if c.number, ok = wholeNumber(number); !ok {
		return malformed("%q is %s, no revision's number", d.opts.RevisionField, value.Text(number))
	}
	if change.Type != 0 && change.Type != bson.TypeEmbeddedDocument {
		return malformed("%q is %s, no change", d.opts.ChangeField, value.Text(change))
	}
	c.change = stampOf(change)
	return c, nil
}

// own returns number and change as fields.
func (d *store) own(h head) []diff.Field {
	return []diff.Field{field(d.opts.RevisionField, value.Int64(h.number)), field(d.opts.ChangeField, h.change.value())}
}

// kept returns the fields of a current document that the history keeps.
func (d *store) kept(c *current) []diff.Field { return diff.Without(c.all, d.unkept...) }

// asRow returns the current revision as the history will show it.
func (d *store) asRow(c *current) *row { return &row{head: c.head, document: d.kept(c)} }

// asCurrent returns a revision of the history as a document with number and change.
func (d *store) asCurrent(r *row) *current {
	c := &current{head: r.head, all: diff.Patch(r.document, d.own(r.head)), partial: len(d.opts.Ignored) > 0}
	c.raw = diff.Raw(c.all)
	return c
}

// after returns the head of the next revision.
func (h head) after(by stamp) head { return head{h.id, h.number + 1, by.after(h.change)} }

// scoped adds the fields of the scope to a document. Another value there is ErrInvalid.
func (d *store) scoped(all []diff.Field) ([]diff.Field, error) {
	of := d.current.Scope()
	if of == nil {
		return all, nil
	}
	for _, f := range of.Fields() {
		if diff.Find(all, f.Name).Type == 0 {
			all = append(slices.Clip(all), field(f.Name, f.Value))
		}
	}
	return all, of.Check(diff.Raw(all))
}

// begin returns a document to insert.
func (d *store) begin(id bson.RawValue, all []diff.Field, number int64, by stamp) (*current, error) {
	all, err := d.scoped(all)
	if err != nil {
		return nil, err
	}
	c := &current{head: head{id, number, by}}
	c.all = diff.Patch(all, d.own(c.head))
	if err := check(c.head, c.all); err != nil {
		return nil, err
	}
	c.raw = diff.Raw(c.all)
	return c, nil
}

// draft applies changes to base. The result is the next revision, or the same one if by is nil.
func (d *store) draft(base *current, changes []diff.Field, by *stamp) (*draft, error) {
	next := &draft{base: base, changes: changes}
	next.head, next.unnumbered = base.head, base.unnumbered
	if by != nil {
		next.head = base.after(*by)
		next.own, next.unnumbered = d.own(next.head), false
		if err := checkLevels(base.id, base.all); err != nil { // the history gets it
			return nil, err
		}
	}
	next.all = diff.Patch(base.all, append(slices.Clip(changes), next.own...))
	if err := check(next.head, next.all); err != nil {
		return nil, err
	}
	next.raw = diff.Raw(next.all)
	return next, d.current.Scope().Check(next.raw)
}

// alone returns the new document without base, which a caller that keeps the result would keep in
// memory.
func (next *draft) alone() *current {
	c := next.current
	return &c
}

// counts returns the stamp of the new revision; nil if only Options.Ignored change, which makes no
// revision.
func (d *store) counts(changes []diff.Field, by stamp) *stamp {
	if slices.ContainsFunc(changes, func(f diff.Field) bool { return !slices.Contains(d.opts.Ignored, f.Key) }) {
		return &by
	}
	return nil
}

// check returns an error for a document that cannot be stored as a revision, and for the number math.MaxInt64.
func check(h head, all []diff.Field) error {
	if h.number == math.MaxInt64 {
		return fault.Of(h.id, fault.Invalid("revision %d is the last possible one", h.number-1))
	}
	if bytes := diff.Size(all); bytes > maxBytes {
		return fault.Of(h.id, fault.Invalid("the document has %d bytes, and a revision can have %d", bytes, maxBytes))
	}
	for _, f := range all {
		if f.Key != "_id" && value.IsReplaced(f.Value) {
			return fault.Of(h.id, fault.Invalid("%q is the empty timestamp, which the server would replace", f.Key))
		}
	}
	return checkLevels(h.id, all)
}

// checkLevels returns an error for a document with too many levels.
func checkLevels(id bson.RawValue, all []diff.Field) error {
	if slices.ContainsFunc(all, func(f diff.Field) bool { return value.Deeper(f.Value, maxLevels-1) }) {
		return fault.Of(id, fault.Invalid("the document has more than %d levels of documents and arrays, and a revision cannot", maxLevels))
	}
	return nil
}

func field(key string, v bson.RawValue) diff.Field { return diff.Field{Key: key, Value: v} }

// dateValue encodes a time as the driver encodes it.
func dateValue(t time.Time) bson.RawValue {
	return value.Date(bson.NewDateTimeFromTime(t))
}

// wholeNumber reads a revision's number. It accepts 1 to math.MaxInt64 - 1, so that there is always
// a next number. isNumber is the same rule for the server.
func wholeNumber(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok && (f != math.Trunc(f) || f >= math.MaxInt64) {
		return 0, false
	}
	n, ok := v.AsInt64OK()
	return n, ok && n >= 1 && n < math.MaxInt64
}

// isNumber reports whether a field holds a revision's number, as an expression.
func isNumber(field string) bson.D {
	number := expr.Field(field)
	return expr.Cond(expr.IsType(number, "int", "long", "double"), expr.Op("$and",
		expr.Op("$eq", expr.Op("$trunc", number), number),
		expr.Op("$gte", number, 1),
		expr.Op("$lt", number, int64(math.MaxInt64)),
	), false)
}

// A stamp is a change as it is stored.
type stamp struct {
	at   time.Time
	rest []diff.Field // all except the time
}

func stampOf(v bson.RawValue) stamp {
	raw, _ := v.DocumentOK()
	all := diff.Open(raw)
	out := stamp{rest: diff.Without(all, atKey)}
	if ms, ok := diff.Find(all, atKey).DateTimeOK(); ok {
		out.at = time.UnixMilli(ms).UTC()
	}
	return out
}

func (c stamp) value() bson.RawValue {
	return diff.Embedded(append([]diff.Field{field(atKey, dateValue(c.at))}, c.rest...))
}

// after returns the stamp with the time to store: in milliseconds, and not earlier than the time of
// before.
func (c stamp) after(before stamp) stamp {
	if c.at.UnixMilli() == (time.Time{}).UnixMilli() { // also less than a millisecond later, which would be stored as unknown
		c.at = time.Now()
	}
	c.at = time.UnixMilli(c.at.UnixMilli()).UTC()
	if c.at.Before(before.at) {
		c.at = before.at
	}
	return c
}

// stamp checks and encodes a change. Calls do this before anything else.
func (d *store) stamp(c Change) (stamp, error) {
	out := stamp{at: c.At}
	if err := checkTime("Change.At", c.At); err != nil {
		return out, err
	}
	if c.Author != "" {
		out.rest = append(out.rest, field(authorKey, value.New(c.Author)))
	}
	if c.Reason != "" {
		out.rest = append(out.rest, field(reasonKey, value.New(c.Reason)))
	}
	if c.Fields == nil {
		return out, nil
	}
	raw, err := d.codec.Document(c.Fields)
	if err != nil {
		return out, fmt.Errorf("Change.Fields: %w", err)
	}
	for _, f := range diff.Open(raw) {
		if slices.Contains([]string{"", atKey, authorKey, reasonKey}, f.Key) || strings.ContainsAny(f.Key, "$.") ||
			diff.Find(out.rest, f.Key).Type != 0 {
			return out, fault.Invalid("Change.Fields: the name %q is empty, given twice, used by Change, or has a $ or a dot", f.Key)
		}
		out.rest = append(out.rest, f)
	}
	return out, nil
}

// change decodes a stamp for the caller.
func (d *store) change(c stamp) (Change, error) {
	out := Change{At: c.at}
	var own []diff.Field
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
	err := d.codec.Decode(diff.Raw(own), &out.Fields)
	return out, err
}

// checkTime returns an error for a time that JSON cannot represent. For some such times UnixMilli
// overflows, and Prune would take a distant past for the future.
func checkTime(what string, t time.Time) error {
	if t.Before(time.Time{}) || t.UTC().Year() > 9999 {
		return fault.Invalid("%s: %v is not in the years 1 to 9999", what, t)
	}
	return nil
}
