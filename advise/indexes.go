package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/visible"
)

// Index is one that is missing, or that could go.
type Index struct {
	Kind       string `json:"kind"` // missing, prefix (another one begins with the same keys) or unused
	Collection string `json:"collection"`
	Keys       string `json:"keys"` // {customer: 1, date: -1}
	Reason     string `json:"reason"`
	Seen       int64  `json:"seen,omitempty"` // commands that would use it
	// Check is a command for mongosh that shows it.
	Check string `json:"check"`
}

// Name is the index as -ignore and -baseline name it: index:missing:orders {customer: 1}
func (i Index) Name() string { return "index:" + i.Kind + ":" + i.Collection + " " + i.Keys }

func (i Index) String() string {
	seen := ""
	if i.Seen > 0 {
		seen = fmt.Sprintf(" (%d seen)", i.Seen)
	}
	return fmt.Sprintf("%s %s is %s%s: %s; check %s", i.Collection, i.Keys, map[string]string{"missing": "missing", "prefix": "a prefix", "unused": "unused"}[i.Kind], seen, i.Reason, i.Check)
}

const (
	// indexDocuments are in a collection that a filter must not scan; a join scans it for each document.
	indexDocuments = 1_000
	// indexShare is the part of the documents that a filter selects at most, if an index is to help it.
	indexShare = 0.1
	indexKeys  = 4  // of an index that is named, at most
	indexAsked = 50 // filters that the server is asked about
)

// indexAge is how long the server has counted the use of an index at least.
var indexAge = 24 * time.Hour // a test shortens it

// plainIndexes are the indexes of a collection, asked for once.
func (l *looker) plainIndexes(ctx context.Context, name string) ([]index, error) {
	if known, ok := l.indexesOf[name]; ok {
		return known, nil
	}
	all, err := l.indexes(ctx, &collection{name: name})
	if err == nil {
		l.indexesOf[name] = all
	}
	return all, err
}

// notUnique says what the code needs first where a key has an index that is not the unique one that EnsureIndexes makes.
func (l *looker) notUnique(ctx context.Context, c *collection, key string) (against []string, err error) {
	all, err := l.plainIndexes(ctx, c.name)
	for _, i := range all {
		if ascending, _ := number(at(i.keys, key)); i.plain && len(i.keys) == 1 && ascending == 1 {
			against = append(against, fmt.Sprintf("Drop the index %s of %s first: EnsureIndexes makes a unique one of %s.", i.name, c.name, key))
		}
	}
	return against, err
}

// indexAdvice notes the indexes of collections that are missing, or that could go.
func (l *looker) indexAdvice(ctx context.Context, all []*collection) error {
	if err := l.missing(ctx); err != nil {
		return err
	}
	for _, c := range all {
		known, err := l.plainIndexes(ctx, c.name)
		if err != nil {
			if err := l.failed(ctx, err, "", c, ""); err != nil {
				return err
			}
			continue
		}
		for _, i := range known {
			if longer := slices.IndexFunc(known, i.begins); longer >= 0 {
				l.report.Indexes = append(l.report.Indexes, Index{Kind: "prefix", Collection: c.name, Keys: keysText(i.keys),
					Reason: keysText(known[longer].keys) + " begins with the same keys and serves the same reads", Check: listing(c.name)})
			}
		}
		if len(known) > 1 {
			if err := l.unused(ctx, c, known); err != nil {
				return err
			}
		}
	}
	return nil
}

func listing(name string) string { return fmt.Sprintf("db.runCommand({listIndexes: %q})", name) }

// begins reports whether another index has the keys of a plain one, and more.
func (i index) begins(other index) bool {
	if !i.plain || !other.whole || len(i.keys) >= len(other.keys) || i.keys[0].Key == "_id" {
		return false
	}
	for n, key := range i.keys {
		a, _ := number(key.Value)
		b, ok := number(other.keys[n].Value)
		if other.keys[n].Key != key.Key || !ok || a != b && len(i.keys) > 1 {
			return false
		}
	}
	return true
}

// unused notes indexes that the server has not used, where it may be asked. It counts on the member that answers.
func (l *looker) unused(ctx context.Context, c *collection, known []index) error {
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$indexStats", bson.D{}), d("$group", bson.D{{Key: "_id", Value: "$name"},
		{Key: "ops", Value: d("$sum", "$accesses.ops")}, {Key: "since", Value: d("$max", "$accesses.since")}}), d("$match", d("ops", 0)), d("$sort", d("_id", 1))})
	if err != nil {
		return ctx.Err() // no role for it, or no time: it is no part of what was asked
	}
	for _, raw := range batch {
		since, _ := raw.Lookup("since").TimeOK()
		i := slices.IndexFunc(known, func(i index) bool { return i.name == text(raw, "_id") })
		if i < 0 || !known[i].plain || known[i].keys[0].Key == "_id" || since.IsZero() || l.report.At.Sub(since) < indexAge {
			continue
		}
		l.report.Indexes = append(l.report.Indexes, Index{Kind: "unused", Collection: c.name, Keys: keysText(known[i].keys),
			Reason: "the member that answered has not used it since " + since.UTC().Format(time.DateOnly) + "; ask the others, too", Check: fmt.Sprintf("db.runCommand({aggregate: %q, pipeline: [{$indexStats: {}}], cursor: {}})", c.name)})
	}
	return nil
}

// sought is what commands select documents by.
type sought struct {
	collection string
	keys       bson.D // of an index for it
	filter     bson.D // nil: it has no values
	fields     []string
	calls      int64
	join       bool
}

// missing notes what no index serves, of the commands that were seen.
func (l *looker) missing(ctx context.Context) error {
	var all []sought
	for _, c := range l.report.commands {
		for _, s := range c.seeks() {
			i := slices.IndexFunc(all, func(o sought) bool {
				return o.collection == s.collection && o.join == s.join && slices.Equal(keys(o.keys), keys(s.keys))
			})
			if i < 0 {
				i, all = len(all), append(all, s)
				all[i].calls = 0
			}
			all[i].calls += s.calls
			if all[i].filter == nil {
				all[i].filter = s.filter
			}
		}
	}
	asked := 0
	for _, s := range all {
		c := l.all[s.collection]
		if c == nil || c.few() || !s.join && c.count < indexDocuments {
			continue
		}
		known, err := l.plainIndexes(ctx, s.collection)
		if err != nil {
			if err := l.failed(ctx, err, "", c, ""); err != nil {
				return err
			}
			continue
		}
		if slices.ContainsFunc(known, func(i index) bool {
			return len(i.keys) > 0 && (slices.Contains(s.fields, i.keys[0].Key) || strings.Contains(i.keys[0].Key, "$**"))
		}) {
			continue
		}
		reason := "each document that is joined scans all " + group(c.count)
		if !s.join {
			if s.filter == nil || asked == indexAsked {
				continue
			}
			asked++
			plan, err := l.run(ctx, l.db, bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: s.collection}, {Key: "filter", Value: s.filter}}}, {Key: "verbosity", Value: "executionStats"}})
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				continue // a log cuts values, and a scan may take too long
			}
			examined, returned := documentsExamined(plan), integer(plan, "executionStats", "nReturned")
			if float64(returned) > indexShare*float64(examined) {
				continue
			}
			reason = fmt.Sprintf("the server examines %s for %s (counted, for the first filter that was seen)", many(examined, "document"), group(returned))
		}
		l.report.Indexes = append(l.report.Indexes, Index{Kind: "missing", Collection: s.collection, Keys: keysText(s.keys), Reason: reason, Seen: s.calls, Check: listing(s.collection)})
	}
	l.report.Indexes = folded(l.report.Indexes)
	slices.SortStableFunc(l.report.Indexes, func(a, b Index) int { return cmp.Compare(b.Seen, a.Seen) })
	return nil
}

// folded leaves the longest of missing indexes that begin alike.
func folded(all []Index) (out []Index) {
	for _, i := range all {
		longer := slices.IndexFunc(all, func(o Index) bool {
			return o.Collection == i.Collection && strings.HasPrefix(o.Keys, strings.TrimSuffix(i.Keys, "}")+",")
		})
		if longer < 0 {
			out = append(out, i)
			continue
		}
		all[longer].Seen += i.Seen
		if n := slices.IndexFunc(out, func(o Index) bool { return o.Name() == all[longer].Name() }); n >= 0 {
			out[n].Seen += i.Seen
		}
	}
	return out
}

// seeks are what a command selects documents by.
func (c command) seeks() (out []sought) {
	for _, filter := range c.filters() {
		if s, ok := seek(filter, c.sort); ok {
			s.collection, s.calls = c.Collection, c.calls
			if c.shape {
				s.filter = nil
			}
			out = append(out, s)
		}
	}
	joined := func(from, field string) {
		if from != "" && field != "_id" {
			out = append(out, sought{collection: from, keys: d(field, 1), fields: []string{field}, calls: c.calls, join: true})
		}
	}
	for _, p := range c.pipeline {
		name, value := stage(p)
		document, _ := value.(bson.D)
		from, _ := at(document, "from").(string)
		_, foreign, _ := equality(document)
		to, _ := at(document, "connectToField").(string)
		switch {
		case name == "$lookup" && foreign != "":
			joined(from, foreign)
		case name == "$graphLookup" && to != "":
			joined(from, to)
		}
	}
	return out
}

// filters are those of a read, and of each statement of a write.
func (c command) filters() (out []bson.D) {
	if c.filter != nil {
		out = append(out, c.filter)
	}
	if query, ok := at(c.body, "query").(bson.D); ok {
		out = append(out, query)
	}
	deletes, _ := at(c.body, "deletes").(bson.A)
	for _, one := range deletes {
		statement, _ := one.(bson.D)
		if q, ok := at(statement, "q").(bson.D); ok {
			out = append(out, q)
		}
	}
	if c.name == "update" {
		for _, s := range c.statements {
			out = append(out, s.filter)
		}
	}
	return out
}

// seek is what a filter selects by, with an index for it: first the fields of one value, then the sort, then ranges.
// It does not judge a filter with branches, or one that needs another kind of index.
func seek(filter, sort bson.D) (s sought, ok bool) {
	var ranges []string
	add := func(name string, direction int) {
		if len(s.keys) < indexKeys && at(s.keys, name) == nil {
			s.keys = append(s.keys, bson.E{Key: name, Value: direction})
		}
	}
	for _, f := range filter {
		if strings.HasPrefix(f.Key, "$") || f.Key == "_id" {
			return s, false
		}
		s.fields = append(s.fields, f.Key)
		condition, _ := f.Value.(bson.D)
		_, pattern := f.Value.(bson.Regex)
		switch {
		case operators(condition, "$ne", "$nin", "$not", "$exists", "$regex", "$elemMatch", "$geoWithin", "$geoIntersects", "$near", "$nearSphere", "$mod", "$type", "$size"), pattern:
			return s, false
		case equals(filter, f.Key) || at(condition, "$in") != nil:
			add(f.Key, 1)
		default:
			ranges = append(ranges, f.Key)
		}
	}
	for _, f := range sort {
		n, ok := number(f.Value)
		if !ok || strings.HasPrefix(f.Key, "$") {
			return s, false
		}
		add(f.Key, int(max(min(n, 1), -1)))
	}
	for _, name := range ranges {
		add(name, 1)
	}
	s.filter = filter
	return s, len(filter) > 0
}

// keysText prints the keys of an index.
func keysText(document bson.D) string {
	var out []string
	for _, key := range document {
		out = append(out, fmt.Sprintf("%s: %v", key.Key, key.Value))
	}
	return visible.Name("{" + strings.Join(out, ", ") + "}")
}
