package advise

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
)

// The rule: documents of less than seriesBytes with a date that are read by ranges of that date for one value of another field, at least seriesReads times and in
// most reads; on average seriesEach documents or more have that value, seriesDense or more
// in a day or a month; nothing refers to their _id. Numbers alone are for series, which packs them, if no write to single
// ones was seen; what has texts alone or something nested is for bucket, and so is what is updated or deleted by series and
// time, or by _id, once for each bucketReads reads at most, what is upserted by series and time or an ID of its own, and what
// is searched in a range by other fields besides. Times may be numbers since 1970 or text, of which Adopt makes dates, and reads
// of the newest ones count as others of a range.
const (
	seriesBytes = 300
	seriesReads = 10
	seriesEach  = 100
	seriesShare = 0.75
	seriesDense = 24 // documents of a series in a window, at least

	statsBytes = 100 // of a document for the sums of a value, without its name

	bucketCount = 1_000 // what the package puts into a bucket by default
	bucketEach  = 10    // documents for each bucket, on average
	bucketReads = 2     // for each update or delete of a single document
)

const noReferences = "No reference to their _id was found; those of collections that were not looked at are not seen."

// span are finds of one value of a field, by a range of another.
type span struct {
	id, at string
	calls  int64
	more   []string // fields beside id that one value is asked of, too, by name
	form   form     // of the times
	newest bool     // no range is asked for, but the first ones in the order of at
	upsert string   // the field by which upserts tell a measurement from others of the series
}

// form is how times are stored.
type form struct {
	name   string // "" for dates
	number int64  // milliseconds in one, if times are numbers
}

var (
	milliseconds = form{"milliseconds since 1970", 1}
	seconds      = form{"seconds since 1970", 1000}
	textual      = form{name: "text"}
)

// date is the expression of the date.
func (f form) date(path string) any {
	value := any("$" + path)
	if f.number > 1 {
		value = d("$multiply", bson.A{value, f.number})
	}
	if f.name == "" {
		return value
	}
	if f.number > 0 { // $convert makes dates of longs alone
		value = d("$convert", bson.D{{Key: "input", Value: value}, {Key: "to", Value: "long"}, {Key: "onError", Value: nil}})
	}
	return d("$convert", bson.D{{Key: "input", Value: value}, {Key: "to", Value: "date"}, {Key: "onError", Value: nil}})
}

// of is the time of a value, as the code does that is printed.
func (f form) of(v bson.RawValue) (time.Time, error) {
	n, isNumber := v.AsInt64OK()
	text, isText := v.StringValueOK()
	switch {
	case f.number > 0 && isNumber:
		return time.UnixMilli(n * f.number), nil
	case f.number == 0 && isText:
		return time.Parse(time.RFC3339, text)
	}
	return time.Time{}, fmt.Errorf("%w: %s is no time", mongopatterns.ErrInvalid, v.Type)
}

// spans are what reads ask for: {sensor: 7, at: {$gte: …, $lt: …}}.
func (t *traffic) span(c command) {
	if s, ok := c.span(); ok {
		i := slices.IndexFunc(t.spans, func(o span) bool {
			return o.id == s.id && o.at == s.at && slices.Equal(o.more, s.more) && o.form == s.form && o.newest == s.newest
		})
		if i < 0 {
			i, t.spans = len(t.spans), append(t.spans, s)
		}
		t.spans[i].calls += c.calls
	}
}

func (c command) span() (s span, ok bool) {
	var ids []string
	for _, f := range c.filter {
		condition, _ := f.Value.(bson.D)
		switch {
		case oneOf(condition):
			ids = append(ids, f.Key)
		case len(condition) > 0 && at(condition, "$gte") == nil && at(condition, "$gt") == nil && at(condition, "$eq") == nil:
			return s, false
		case equals(c.filter, f.Key):
			ids = append(ids, f.Key)
		case condition == nil || s.at != "":
			return s, false
		default:
			s.at, s.form = f.Key, timeForm(condition[0].Value)
		}
	}
	if s.at == "" && positive(c.limit) {
		i := slices.IndexFunc(c.sort, func(key bson.E) bool { return !slices.Contains(ids, key.Key) })
		if i >= 0 {
			s.at, s.newest = c.sort[i].Key, true
		}
	}
	if len(ids) == 0 || s.at == "" || slices.Contains(ids, "_id") {
		return s, false
	}
	slices.Sort(ids)
	s.id, s.more = ids[0], ids[1:]
	return s, true
}

// oneOf reports {$in: […]}: several series are read as one is.
func oneOf(condition bson.D) bool {
	_, list := at(condition, "$in").(bson.A)
	return len(condition) == 1 && list
}

// ids are the fields that tell a series.
func (s span) ids() []string { return append([]string{s.id}, s.more...) }

// text names them.
func (s span) text() string { return strings.Join(s.ids(), " and ") }

// field is the one of the package, at the top: a document, if several tell a series.
func (s span) field() string { return plain(strings.Join(s.ids(), "_")) }

// plain is a name at the top for a path.
func plain(path string) string { return strings.ReplaceAll(path, ".", "_") }

// value is a series, as an expression.
func (s span) value() any { return s.of(func(name string) any { return "$" + name }) }

// of is a series by what its fields hold.
func (s span) of(field func(name string) any) any {
	if len(s.more) == 0 {
		return field(s.id)
	}
	var out bson.D
	for _, name := range s.ids() {
		out = append(out, bson.E{Key: plain(name), Value: field(name)})
	}
	return out
}

// left are the fields at the top that a measurement does not keep: those of the series, and _id unless it tells an upsert.
func (s span) left() []string {
	out := slices.DeleteFunc(s.ids(), func(name string) bool { return strings.Contains(name, ".") })
	if s.upsert == "_id" {
		return out
	}
	return append([]string{"_id"}, out...)
}

// key is the Go type of a series, and what its values speak against.
func (l *looker) key(ctx context.Context, c *collection, s span) (key string, against []string) {
	for _, name := range s.ids() {
		all, lacking := l.kindsOf(ctx, c, d("$type", "$"+name)), int64(0)
		key = goType(c.kind(name))
		var names, series []string
		for _, k := range all {
			names = append(names, k.kind)
			nothing := k.kind == "null" || k.kind == "undefined"
			switch {
			case k.kind == "missing", nothing && len(s.more) == 0: // no _id is null, but a part of one may be
				lacking += k.n
			case nothing:
			case slices.Contains(numbers, k.kind): // the server takes 3 and 3.0 for one
				series = append(series, "number")
			default:
				series = append(series, k.kind)
			}
		}
		if all != nil {
			key = goType(common(names))
		}
		if lacking > 0 {
			against = append(against, fmt.Sprintf("%s no %s (counted): Adopt leaves these out, and names them as Failed.", has(lacking), name))
		}
		if slices.Sort(series); len(slices.Compact(series)) > 1 {
			against = append(against, fmt.Sprintf("%s has values of several types (counted: %s): 3 and \"3\" become two series, unless you make them one type first.", name, all.text()))
			if len(s.more) == 0 && key == "any" {
				c.several(name, all.text()+" (counted)")
			}
		}
	}
	if len(s.more) > 0 {
		key = "bson.D"
	}
	return key, against
}

// values are the numbers whose sums a series keeps: those that aggregations name, or else all.
func (l *looker) values(c *collection, all []string) []string {
	var named []string
	for _, command := range l.report.commands {
		for _, p := range command.pipeline {
			name, value := stage(p)
			if fields, ok := value.(bson.D); ok && name == "$group" && command.Collection == c.name {
				for _, f := range fields {
					if f.Key == "_id" {
						continue
					}
					named = append(named, expressionPaths(f.Value)...)
				}
			}
		}
	}
	out := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(named, name) })
	if len(out) == 0 {
		return all
	}
	return out
}

// isoText is what time.Parse reads as RFC3339.
const isoText = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d+)?(Z|[+-]\d\d:\d\d)$`

var iso = regexp.MustCompile(isoText)

// timeForm is what a bound is that looks like a time, and is no date.
func timeForm(bound any) form {
	text, _ := bound.(string)
	n, _ := number(bound)
	switch {
	case iso.MatchString(text):
		return textual
	case n >= 1e12 && n < 1e13:
		return milliseconds
	case n >= 1e9 && n < 1e10:
		return seconds
	}
	return form{}
}

// timed reports times of a form, at least as many as may be references: others are dirty.
func (l *looker) timed(ctx context.Context, c *collection, s span) (bool, error) {
	one := d("$isNumber", "$"+s.at)
	if s.form == textual {
		one = d("$and", bson.A{d("$eq", bson.A{d("$type", "$"+s.at), "string"}), d("$regexMatch", bson.D{{Key: "input", Value: "$" + s.at}, {Key: "regex", Value: isoText}})})
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", 1)}, {Key: "times", Value: d("$sum", d("$cond", bson.A{one, 1, 0}))}})})
	if err != nil || len(batch) == 0 {
		return false, err
	}
	return float64(integer(batch[0], "times")) >= (1-dirtyShare)*float64(integer(batch[0], "all")), nil
}

func (l *looker) series(ctx context.Context, c *collection) error {
	for _, s := range c.spans {
		dates := c.has(s.at, "date")
		if s.newest || !dates && (s.form == form{} || s.calls < seriesReads) {
			continue
		}
		if dates {
			s.form = form{}
		}
		m := c.measurements(s)
		if err := l.failed(ctx, l.measured(ctx, c, m), m.pattern(), c, s.at); err != nil {
			return err
		}
	}
	return nil
}

// measurements are a span of reads, and what the documents and the other commands say of it.
type measurements struct {
	span
	newest        int64 // reads of the newest or oldest ones
	edits, others int64 // writes, as edits counts them
	packed        bool  // in series, or else in bucket
}

func (m measurements) pattern() string {
	if m.packed {
		return "series"
	}
	return "bucket"
}

func (c *collection) measurements(s span) measurements {
	s.upsert = c.upserted(s)
	edits, others := c.edits(s)
	searches, newest := c.searches(s), c.ofNewest(s)
	if s.calls < searches || float64(s.calls+newest) >= seriesShare*float64(c.reads()) { // the reads are of another series, or most of this one alone
		searches = 0
	}
	s.calls += searches
	return measurements{s, newest, edits, others, c.numeric(s) && edits+searches == 0 && s.upsert == ""}
}

// numeric reports documents with numbers beside series and time, and nothing inside.
func (c *collection) numeric(s span) bool {
	if slices.ContainsFunc(c.fields, func(f field) bool { return f.kind == "array" || f.kind == "object" }) {
		return false
	}
	return slices.ContainsFunc(c.fields, func(f field) bool {
		return !slices.Contains(s.ids(), f.path) && f.path != s.at && f.path != "_id" && slices.Contains(numbers, f.kind)
	})
}

func (l *looker) measured(ctx context.Context, c *collection, m measurements) error {
	if err := m.readable(c); err != nil {
		return err
	}
	if err := l.misplaced(ctx, c, m.span); err != nil {
		return err
	}
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: c.name},
		{Key: "pipeline", Value: bson.A{
			d("$group", d("_id", m.value())),
			d("$count", "series"),
		}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "series")
	if err != nil {
		return err
	}
	if c.count < seriesEach*check.Answer {
		return declined(fmt.Sprintf("%s of %s: %d documents each", many(check.Answer, "value"), m.text(), c.count/max(check.Answer, 1)))
	}
	window, days, err := l.window(ctx, c, m.span)
	switch {
	case err != nil || window == "":
		return err
	case m.packed:
		return l.packed(ctx, c, m.span, check, window, days)
	}
	return l.bucket(ctx, c, m.span, window, m.edits)
}

// readable declines what the collection's fields and commands speak against.
func (m measurements) readable(c *collection) error {
	lists := c.multikey(append([]string{m.at}, m.ids()...)...)
	switch {
	case len(lists) > 0:
		return declined(arraysAt(lists))
	case m.form.name != "" && strings.Contains(m.at, "."):
		return declined("the times are " + m.form.name + " inside a subdocument, and the packages need dates, as $toDate makes them")
	case m.field() != m.id && c.has(m.field()):
		return declined("documents have a field " + m.field() + ", as the series would be called")
	case c.mean() >= seriesBytes:
		return declined(fmt.Sprintf("documents take %s on average: no measurements", bytes(c.mean())))
	case m.calls < seriesReads || float64(m.calls+m.newest) < seriesShare*float64(c.reads()):
		return declined(fmt.Sprintf("%d of %d reads are a range of %s for one %s", m.calls, c.reads(), m.at, m.text()))
	case m.others > 0:
		return declined("updates or deletes of other documents than one of a series and time, or of one _id, were seen")
	case bucketReads*m.edits > m.calls:
		return declined(fmt.Sprintf("%d updates and deletes of single documents were seen, and %d reads of a range", m.edits, m.calls))
	}
	return nil
}

// window is that of a series, and how many days all of them last together. It is "" if the collection was emptied
// meanwhile.
func (l *looker) window(ctx context.Context, c *collection, s span) (window string, days float64, err error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$group", bson.D{{Key: "_id", Value: s.value()}, {Key: "first", Value: d("$min", s.form.date(s.at))}, {Key: "last", Value: d("$max", s.form.date(s.at))}}),
		d("$match", d("first", d("$type", "date"))),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "time", Value: d("$sum", d("$subtract", bson.A{"$last", "$first"}))}}),
	})
	if err != nil || len(batch) == 0 {
		return "", 0, err
	}
	if window, days = windowFor(c.count, integer(batch[0], "time")); window == "" {
		return "", 0, declined("a series has fewer than 24 documents a month")
	}
	return window, days, nil
}

// unpacked are the fields whose numbers a series packs, and how many bytes all other fields take beside series and time.
// There are no names of fields if the collection was emptied meanwhile.
func (l *looker) unpacked(ctx context.Context, c *collection, s span) (numeric []string, rest int64, err error) {
	others := bson.D{}
	for _, name := range c.tops() {
		switch {
		case name == "_id" || slices.Contains(s.ids(), name) || name == s.at:
		case slices.ContainsFunc(numbers, func(kind string) bool { return c.has(name, kind) }):
			numeric = append(numeric, name)
		default:
			others = append(others, bson.E{Key: name, Value: "$" + name})
		}
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "rest", Value: d("$sum", d("$subtract", bson.A{d("$bsonSize", others), 5}))}})})
	if err != nil || len(batch) == 0 {
		return nil, 0, err
	}
	slices.Sort(numeric)
	return numeric, integer(batch[0], "rest"), nil
}

// packed advises on measurements, whose numbers become columns of a block.
func (l *looker) packed(ctx context.Context, c *collection, s span, check Check, window string, days float64) error {
	numeric, rest, err := l.unpacked(ctx, c, s)
	if err != nil || numeric == nil {
		return err
	}
	// A packed number takes 8 bytes at most, and so does a time; those that change little take a part of a byte.
	values := l.values(c, numeric)
	windows := int64(days) + check.Answer
	if window == "Months" {
		windows = int64(days/28) + check.Answer
	}
	sums := windows * int64(statsBytes*len(values)+len(strings.Join(values, "")))
	least := c.size - c.count*8*int64(len(numeric)+1) - rest - sums
	if least <= 0 {
		return declined("what is packed could take as many bytes")
	}
	key, against := l.key(ctx, c, s)
	l.found(Finding{
		Pattern: "series", Collection: c.name, Path: s.at,
		Summary: fmt.Sprintf("%s documents of %s on average are measurements, of %d series (counted): %d of %d reads take a range of %s for one %s, and no write to a single one was seen. "+
			"In packed blocks a number takes 8 bytes at most, and no names.",
			group(c.count), bytes(c.mean()), check.Answer, s.calls, c.reads(), s.at, s.text()),
		Sure: "counted: series; of queries: those that were seen",
		Facts: []Fact{
			{"documents", c.count, kept},
			{"bytes of all documents", c.size, kept},
			{"series", check.Answer, counted},
			{"reads of a range of one series", s.calls, seen},
			{"reads", c.reads(), seen},
		},
		Saving: Interval{
			Low: least, High: max(c.size-c.count-sums, least), Before: c.size,
			Unit: "bytes", What: "of the documents; those of an index on " + s.text() + " and " + s.at + " besides",
		},
		Code: seriesCode(c, s, key, window, values), Adopt: measurementsAdoption(c, s, key, true), try: trySeries(c, s, window, values),
		Check: check,
		Against: append(append(against, s.form.against()...),
			"Each of Values takes some 100 B of each document: leave out what nobody adds up.",
			"The rate of new measurements matters: those that come one by one need a Gatherer, which loses the last seconds if the process ends.",
			"MongoDB's own time-series collections need no library; try these first.",
			"Single measurements can no longer be found by other fields or joined by queries of yours, and lose their _id: bucket leaves them readable.",
			noReferences,
		),
	})
	return nil
}

// against says what speaks against times that are no dates.
func (f form) against() []string {
	if f.name == "" {
		return nil
	}
	return []string{"The times are " + f.name + ": Adopt makes dates of them, and every read and write must do so, too."}
}

// misplaced declines measurements that have no place: other documents name them, their times do not become dates, or
// what they are upserted by does not tell them from each other.
func (l *looker) misplaced(ctx context.Context, c *collection, s span) error {
	by, err := l.named(ctx, c)
	if err != nil {
		return err
	}
	if by != "" {
		return declined(by + " has references to the _id, which measurements in a block or bucket no longer have")
	}
	if s.form.name != "" {
		ok, err := l.timed(ctx, c, s)
		if err != nil {
			return err
		}
		if !ok {
			return declined("the times are " + s.form.name + ", and some of them cannot be converted to dates, which the packages need")
		}
	}
	if s.upsert == "" || s.upsert == "_id" {
		return nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$group", bson.D{{Key: "_id", Value: bson.D{{Key: "series", Value: s.value()}, {Key: "id", Value: "$" + s.upsert}}}, {Key: "n", Value: d("$sum", 1)}}),
		d("$match", d("n", d("$gt", 1))), d("$limit", 1),
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return declined("several documents of one " + s.text() + " have the same " + s.upsert + ", by which they are upserted")
}

// ofNewest is how many reads ask for the newest or oldest ones of a series.
func (t *traffic) ofNewest(s span) (n int64) {
	for _, o := range t.spans {
		if o.newest && o.at == s.at && slices.Equal(o.ids(), s.ids()) {
			n += o.calls
		}
	}
	return n
}

// upserted is the field by which upserts find a measurement of a series: its time, _id or an ID of its own; "" if there are
// none.
func (t *traffic) upserted(s span) string {
	for _, w := range t.writes {
		if id := w.upserts(s); id != "" {
			return id
		}
	}
	return ""
}

// upserts is the field by which a write inserts a measurement unless it is there, as a device sends it again after a lost
// answer, in operators or as a whole document. The write sets what of series and time its filter lacks, and leaves the rest of these as it is.
func (w write) upserts(s span) (id string) {
	if !w.upsert || w.whole && w.document == nil {
		return ""
	}
	for _, f := range w.by {
		switch {
		case !equals(w.by, f.Key) || !w.keeps(f.Key) && (f.Key != "_id" || at(w.document, "_id") != nil):
			return ""
		case slices.Contains(s.ids(), f.Key):
		case id != "":
			return ""
		default:
			id = f.Key
		}
	}
	for _, name := range append(s.ids(), s.at) {
		if at(w.by, name) == nil && !slices.Contains(w.sets, name) && at(w.document, name) == nil {
			return ""
		}
	}
	return id
}

// searches are the reads of a range of a series that ask for one value of other fields besides.
func (t *traffic) searches(s span) (n int64) {
	for _, o := range t.spans {
		within := !slices.ContainsFunc(s.ids(), func(name string) bool { return !slices.Contains(o.ids(), name) })
		if !o.newest && o.at == s.at && within && len(o.ids()) > len(s.ids()) {
			n += o.calls
		}
	}
	return n
}

// edits is how many updates and deletes are of the one document of a series and a time, or of one _id, and leave it in its
// place, and how many other writes change documents. Upserts of new ones are neither.
func (c *collection) edits(s span) (edits, others int64) {
	place := append(s.ids(), s.at)
	single := func(w write) bool {
		one := len(w.by) == 1 && equals(w.by, "_id")
		if len(w.by) == len(place) {
			one = !slices.ContainsFunc(place, func(name string) bool { return !equals(w.by, name) })
		}
		return one && !slices.ContainsFunc(place, func(name string) bool { return !w.keeps(name) })
	}
	others = c.deletes
	for _, w := range c.removals {
		if single(w) {
			edits, others = edits+w.calls, others-w.calls
		}
	}
	for _, w := range c.purges {
		if w.expires(s) {
			others -= w.calls
		}
	}
	for _, w := range c.writes {
		switch {
		case s.upsert != "" && w.upserts(s) == s.upsert:
		case single(w):
			edits += w.calls
		default:
			others += w.calls
		}
	}
	return edits, others
}

// expires reports a delete of all measurements before a time, of one series or all: packed ones expire by windows.
func (w write) expires(s span) bool {
	before := slices.DeleteFunc(slices.Clone(w.by), func(f bson.E) bool { return slices.Contains(s.ids(), f.Key) && equals(w.by, f.Key) })
	if len(before) != 1 || before[0].Key != s.at {
		return false
	}
	condition, _ := before[0].Value.(bson.D)
	return len(condition) == 1 && (condition[0].Key == "$lt" || condition[0].Key == "$lte")
}

// keeps reports a write that leaves the value of a field as its filter has it.
func (w write) keeps(name string) bool {
	if w.whole {
		value := at(w.by, name)
		if operator, ok := value.(bson.D); ok {
			value = at(operator, "$eq")
		}
		return reflect.DeepEqual(at(w.document, name), value)
	}
	return !slices.ContainsFunc(w.sets, func(set string) bool { return related(set, name) && !slices.Contains(w.onNew, set) })
}

// bucket advises on events, whose fields stay readable for the server, and whose writers may change single ones.
func (l *looker) bucket(ctx context.Context, c *collection, s span, window string, edits int64) error {
	const pattern = "bucket"
	// Days and months of UTC, as the package has them.
	format := "%Y-%m-%d"
	if window == "Months" {
		format = "%Y-%m"
	}
	full := d("$ceil", d("$divide", bson.A{"$n", bucketCount}))
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: c.name},
		{Key: "pipeline", Value: bson.A{
			d("$match", d("$expr", d("$eq", bson.A{d("$type", s.form.date(s.at)), "date"}))),
			d("$group", bson.D{
				{Key: "_id", Value: bson.D{{Key: "series", Value: s.value()}, {Key: "window", Value: d("$dateToString", bson.D{{Key: "date", Value: s.form.date(s.at)}, {Key: "format", Value: format}})}}},
				{Key: "n", Value: d("$sum", 1)},
			}),
			d("$group", bson.D{
				{Key: "_id", Value: nil}, {Key: "buckets", Value: d("$sum", d("$toLong", full))}, {Key: "documents", Value: d("$sum", "$n")},
			}),
		}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "buckets")
	if err != nil {
		return err
	}
	documents := check.figure("documents")
	if documents < bucketEach*check.Answer {
		return declined(fmt.Sprintf("a window has %s on average", many(documents/max(check.Answer, 1), "document")))
	}
	key, against := l.key(ctx, c, s)
	if edits > 0 {
		against = append(against, "Replace and Delete take the series and the time of an event, which its _id alone does not tell.")
	}
	if s.upsert != "" {
		against = append(against, "An upsert becomes an append, which leaves an event as it is whose "+s.upsert+" is stored already.")
	}
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: s.at,
		Summary: fmt.Sprintf("%s documents of %s on average are events: %d of %d reads take a range of %s for one %s, and %s of single ones were seen. "+
			"In arrays, one for each %s and %s, they are %s (counted): a range reads as many documents and index keys fewer.",
			group(c.count), bytes(c.mean()), s.calls, c.reads(), s.at, s.text(), many(edits, "change"), s.text(), strings.ToLower(strings.TrimSuffix(window, "s")), many(check.Answer, "document")),
		Sure: "counted: documents for each window; of queries: those that were seen",
		Facts: []Fact{
			{"documents with a date", documents, counted},
			{"buckets of 1,000 at most", check.Answer, counted},
			{"bytes of all documents", c.size, kept},
			{"reads of a range of one series", s.calls, seen},
			{"reads", c.reads(), seen},
			{"updates and deletes of single documents", edits, seen},
		},
		// Large events fill a bucket by bytes, late ones may begin another.
		Saving: Interval{
			Low: documents - 2*check.Answer, High: documents - check.Answer, Before: documents,
			Unit: "documents", What: "and as many keys of each index",
		},
		Code: bucketCode(c, s, key, window), Adopt: measurementsAdoption(c, s, key, false), try: tryBucket(c, s, window),
		Check: check,
		Against: append(append(against, s.form.against()...),
			"Events that come one by one take longer to store than as documents, by what their bucket holds already: see trickle in docs/benchmarks.md.",
			"Queries by other fields find buckets, not events, and an event is changed inside its array, by Replace.",
			noReferences,
			"MongoDB's own time-series collections need no library; try these first.",
		),
	})
	return nil
}

// windowFor is the shorter of Days and Months in which a series has seriesDense measurements on average, "" if none is: n
// are those of all series, which last so many milliseconds together. It also returns how many days these are.
func windowFor(n, ms int64) (window string, days float64) {
	days = float64(ms)/float64(24*time.Hour/time.Millisecond) + 1
	switch perDay := float64(n) / days; {
	case perDay >= seriesDense:
		window = "Days"
	case 30*perDay >= seriesDense:
		window = "Months"
	}
	return window, days
}
