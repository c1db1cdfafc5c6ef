package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: one field of one document is raised by 1 more than approxRate times in a
// second; nothing else sets the field, no filter asks for its value, and nobody reads what
// an update made of it. The updates find the document by its _id, or by another field in which no two have the same value.
// A findAndModify answers the document before, whose number may be handed out: approxReads others show what it is for.
const (
	approxReads = 10
	approxRate  = 100
	approxEvery = 100
	ratesKept   = 10_000
)

// rates counts, by second, the updates {$inc: {views: 1}} of single documents in a profile
// or a log.
type rates struct {
	second int64
	calls  map[rateKey]int64
	most   map[string]int64 // by shape: in the busiest second of one document
}

type rateKey struct{ shape, id string }

// add counts an update.
func (r *rates) add(e sent) {
	id, ok := raised(e.Command)
	if !ok || e.at.IsZero() {
		return
	}
	if second := e.at.Truncate(time.Second).Unix(); second != r.second || len(r.calls) > ratesKept {
		r.second, r.calls = second, map[rateKey]int64{}
	}
	if r.most == nil {
		r.most = map[string]int64{}
	}
	k := rateKey{e.key(), id}
	r.calls[k]++
	r.most[k.shape] = max(r.most[k.shape], r.calls[k])
}

// assign gives each query its rate.
func (r *rates) assign(queries []Query) {
	for i := range queries {
		if len(r.most) > 0 {
			queries[i].rate = r.most[queries[i].key()]
		}
	}
}

// raised is the document of an update that only raises, as a key.
func raised(command bson.Raw) (id string, ok bool) {
	filter, ok := command.Lookup("updates", "0", "q").DocumentOK()
	if !ok {
		filter, _ = command.Lookup("query").DocumentOK() // of a findAndModify
	}
	key, v, ok := one(filter)
	if !ok && key == "_id" { // {page: 7, day: 3}
		whole, isDocument := v.DocumentOK()
		first, err := whole.IndexErr(0)
		return string(v.Value), isDocument && err == nil && !strings.HasPrefix(first.Key(), "$")
	}
	if ok && v.Type == bson.TypeDateTime {
		return string(v.Value), true
	}
	if !ok {
		return "", false
	}
	return refers(v)
}

// counter is a field that updates raise.
type counter struct {
	path    string
	key     string // the field by which they find the document
	calls   int64
	rate    int64 // in a second, of one document
	upserts bool
	answers bool // some answer the document before
}

// count notes {q: {_id: …}, u: {$inc: {views: 1}}}, and what makes a counter more than that.
func (t *traffic) count(c command, s statement) {
	raised, _ := at(s.update, "$inc").(bson.D)
	if len(raised) != 1 || len(s.filter) != 1 {
		t.exact = append(t.exact, keys(raised)...)
		return
	}
	n, isNumber := number(raised[0].Value)
	_, double := raised[0].Value.(float64)
	key := s.filter[0].Key
	plain := (c.name == "update" || c.ignored()) && equals(s.filter, key) && !strings.HasPrefix(key, "$") && isNumber && !double && n == 1
	for _, operator := range s.update {
		plain = plain && slices.Contains([]string{"$inc", "$setOnInsert"}, operator.Key)
	}
	path := raised[0].Key
	if !plain {
		t.exact = append(t.exact, path)
		return
	}
	i := slices.IndexFunc(t.counters, func(c counter) bool { return c.path == path && c.key == key })
	if i < 0 {
		i, t.counters = len(t.counters), append(t.counters, counter{path: path, key: key})
	}
	counter := &t.counters[i]
	counter.calls += c.calls
	counter.rate = max(counter.rate, c.rate)
	counter.upserts = counter.upserts || s.upsert
	counter.answers = counter.answers || c.name != "update"
}

// ignored reports a findAndModify that asks neither for the new document nor for certain fields.
func (c command) ignored() bool {
	body := c.body
	after := at(body, "new")
	return strings.EqualFold(c.name, "findAndModify") && (after == nil || no(after)) && at(body, "fields") == nil
}

// shown is how many finds answer a field.
func (t *traffic) shown(path string) (n int64) {
	for _, r := range t.finds {
		if !r.modifies && r.needs(path) {
			n += r.calls
		}
	}
	return n
}

func (l *looker) approx(ctx context.Context, c *collection) error {
	for _, path := range slices.Compact(slices.Sorted(slices.Values(c.exact))) {
		if !slices.ContainsFunc(c.counters, func(n counter) bool { return n.path == path }) {
			l.not("approx", c.name, path, "no update raises it by 1, by one field alone and beside no other change")
		}
	}
	for _, n := range c.counters {
		if err := l.failed(ctx, l.counted(ctx, c, n), "approx", c, n.path); err != nil {
			return err
		}
	}
	return l.distinctValues(ctx, c)
}

func (l *looker) counted(ctx context.Context, c *collection, n counter) error {
	const pattern = "approx"
	switch {
	case n.rate == 0:
		return untold{fmt.Sprintf("%d updates raise it, at an unknown rate", n.calls), "queries with their time: the profiler at level 2, or -log"}
	case n.rate <= approxRate:
		return declined(fmt.Sprintf("one document is raised %d times in its busiest second", n.rate))
	case slices.Contains(c.exact, n.path) || c.setOtherwise(n.path):
		return declined("other updates change it by other steps, under a condition, or read it at once: it must be exact")
	case slices.ContainsFunc(c.finds, func(r read) bool { return slices.Contains(r.match, n.path) }):
		return declined("filters ask for its value: it must be exact")
	}
	if shown := c.shown(n.path); n.answers && shown < approxReads {
		return declined(fmt.Sprintf("a findAndModify raises it, whose answer may be handed out as a number of its own; %s of it were seen", many(shown, "other read")))
	}
	key, unique, err := l.counterKey(ctx, c, n)
	if err != nil {
		return err
	}
	if !unique {
		return declined("documents lack " + n.key + ", or several have one value of it, by which the updates find them: the package's key is of one document")
	}
	var drop []string
	if n.key != "_id" {
		if drop, err = l.notUnique(ctx, c, n.key); err != nil {
			return err
		}
	}
	check, err := l.check(ctx, bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d(n.path, d("$type", "number"))}}, "n")
	if err != nil {
		return err
	}
	if check.Answer == 0 {
		return declined("no document has a number there")
	}
	writes := (n.rate + approxEvery - 1) / approxEvery
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: n.path,
		Summary: fmt.Sprintf("One document was raised by 1 %d times in a second, each time by a write that waits for the one before; %d such updates were seen, and nothing else that changes or asks for %s. "+
			"Added up in memory, %d of them are one write. %s (counted) have the number.",
			n.rate, n.calls, n.path, approxEvery, many(check.Answer, "document")),
		Sure: "counted: documents; of queries: those that were seen, with their times",
		Facts: []Fact{
			{"documents with the number", check.Answer, counted},
			{"updates of one document in its busiest second", n.rate, seen},
			{"updates that raise it by 1", n.calls, seen},
		},
		Saving: Interval{Low: n.rate - writes - 1, High: n.rate - writes, Before: n.rate, Unit: "writes", What: "of that document in that second"},
		Code:   approxCode(c, n, key),
		Check:  check,
		Against: append(drop,
			"Money, stock, quotas and votes must be exact: this is for views and likes alone.",
			fmt.Sprintf("A process that ends without Close loses up to %d changes of each key; readers see a number that is late.", approxEvery),
			"A sort by the number, and an index on it, are late as well.",
		),
	})
	return nil
}

// setOtherwise reports writes that set a path by other means than counters.
func (t *traffic) setOtherwise(path string) bool {
	raised := int64(0)
	for _, c := range t.counters {
		if related(c.path, path) {
			raised += c.calls
		}
	}
	return t.writesTo([]string{path}) > raised
}

// counterKey is the Go type of the key of a counter, and whether each document has a key of its own.
func (l *looker) counterKey(ctx context.Context, c *collection, n counter) (kind string, unique bool, err error) {
	if n.key == "_id" {
		return goType(c.idType), true, nil
	}
	if len(c.multikey(n.key)) > 0 {
		return "", false, nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$group", bson.D{{Key: "_id", Value: "$" + n.key}, {Key: "n", Value: d("$sum", 1)}}),
		d("$match", d("$or", bson.A{d("n", d("$gt", 1)), d("_id", nil)})),
		d("$limit", 1),
	})
	return goType(c.kind(n.key)), len(batch) == 0, err
}

// approxCode inserts no documents if the updates do not.
func approxCode(c *collection, n counter, key string) string {
	var more strings.Builder
	if n.key != "_id" {
		fmt.Fprintf(&more, "\tKeyField:   %q,\n", n.key)
	}
	if !n.upserts {
		more.WriteString("\tExisting:   true,\n")
	}
	return fmt.Sprintf(`counters, err := approx.New[%s](db.Collection(%q), &approx.Options{
	CountField: %q,
	Every:      %d,
%s})`, key, c.name, n.path, approxEvery, more.String())
}
