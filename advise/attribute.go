package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least attributeIndexes fields beside each other, of one type, each in less
// than attributeShare of the documents, have a plain index of their own, and at most one
// read in four of those that name one names several.
const (
	attributeIndexes = 10
	attributeShare   = 0.5
	attributeSeveral = 0.25
)

// index is an index of a collection.
type index struct {
	keys  bson.D
	plain bool // it holds all values of its fields, in the order of bytes, and for ever
}

// indexes lists the indexes of a collection.
func (l *looker) indexes(ctx context.Context, c *collection) ([]index, error) {
	reply, err := l.run(ctx, l.db, bson.D{{Key: "listIndexes", Value: c.name}, {Key: "cursor", Value: bson.D{{Key: "batchSize", Value: 1000}}}})
	if err != nil {
		return nil, err
	}
	batch, err := l.batch(ctx, l.db, reply)
	var out []index
	for _, raw := range batch {
		var document bson.D
		if err := bson.Unmarshal(raw, &document); err != nil {
			return nil, err
		}
		i := index{plain: true}
		i.keys, _ = at(document, "key").(bson.D)
		for _, option := range []string{"unique", "partialFilterExpression", "expireAfterSeconds", "collation", "wildcardProjection"} {
			i.plain = i.plain && at(document, option) == nil
		}
		for _, key := range i.keys {
			n, ok := number(key.Value)
			i.plain = i.plain && ok && (n == 1 || n == -1) && !strings.Contains(key.Key, "$**")
		}
		out = append(out, i)
	}
	return out, err
}

// numbers are the types that one field of numbers may have, also in turn.
var numbers = []string{"int", "long", "double", "decimal"}

// siblings are fields beside each other, of one type.
type siblings struct {
	above string // the subdocument; "": at the top
	kind  string
	paths []string
}

// sparse groups the fields that, as far as was seen, some documents lack, and that have
// one type.
func (c *collection) sparse() []siblings {
	kinds := map[string][]string{}
	for _, f := range c.fields {
		if f.kind != "null" && !slices.Contains(kinds[f.path], f.kind) {
			kinds[f.path] = append(kinds[f.path], f.kind)
		}
	}
	all := map[groupKey][]string{}
	for path, kind := range kinds {
		if len(kind) > 1 && !slices.ContainsFunc(kind, func(k string) bool { return !slices.Contains(numbers, k) }) {
			kind = []string{"number"} // as JavaScript writes them: 1 is an int, 1.5 a double
		}
		if len(kind) == 1 && slices.Contains([]string{"string", "int", "long", "double", "decimal", "date", "bool", "objectId", "number"}, kind[0]) {
			at := strings.LastIndex(path, ".") + 1
			k := groupKey{path[:at], kind[0]}
			all[k] = append(all[k], path)
		}
	}
	var out []siblings
	for k, paths := range all {
		if len(paths) >= attributeIndexes {
			slices.Sort(paths)
			out = append(out, siblings{strings.TrimSuffix(k.above, "."), k.kind, paths})
		}
	}
	slices.SortFunc(out, func(a, b siblings) int { return strings.Compare(a.above+a.kind, b.above+b.kind) })
	return out
}

type groupKey struct{ above, kind string }

func (l *looker) attribute(ctx context.Context, c *collection) error {
	const pattern = "attribute"
	groups := c.sparse()
	if len(groups) == 0 {
		return nil
	}
	all, err := l.indexes(ctx, c)
	if err != nil {
		return l.failed(ctx, err, pattern, c, "")
	}
	for _, s := range groups {
		s.paths = slices.DeleteFunc(s.paths, func(path string) bool {
			return !slices.ContainsFunc(all, func(i index) bool { return i.plain && len(i.keys) == 1 && i.keys[0].Key == path })
		})
		if len(s.paths) == 0 {
			continue
		}
		if err := l.indexed(ctx, c, s, len(all)); err != nil {
			return err
		}
	}
	return nil
}

// indexed advises on siblings that each have an index.
func (l *looker) indexed(ctx context.Context, c *collection, s siblings, indexes int) error {
	const pattern = "attribute"
	if len(s.paths) < attributeIndexes {
		l.not(pattern, c.name, s.above, fmt.Sprintf("%s of its %s fields have an index of their own", group(int64(len(s.paths))), s.kind))
		return nil
	}
	if one, several := c.together(s.paths); float64(several) > attributeSeveral*float64(one+several) {
		l.not(pattern, c.name, s.above, fmt.Sprintf("%d of %d reads name several of the fields at once: a compound index is faster", several, one+several))
		return nil
	}
	count := bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: d("$sum", 1)}}
	for i, path := range s.paths {
		count = append(count, bson.E{Key: fmt.Sprint("f", i), Value: d("$sum", d("$cond", bson.A{d("$gt", bson.A{"$" + path, nil}), 1, 0}))})
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$group", count)})
	if err != nil {
		return l.failed(ctx, err, pattern, c, s.above)
	}
	if len(batch) == 0 {
		return nil // emptied meanwhile
	}
	total, entries := integer(batch[0], "n"), int64(0)
	most := int64(0)
	var sparse []string
	for i, path := range s.paths {
		n := integer(batch[0], fmt.Sprint("f", i))
		if float64(n) < attributeShare*float64(total) {
			sparse = append(sparse, path)
			entries += n
			most = max(most, n)
		}
	}
	if len(sparse) < attributeIndexes {
		l.not(pattern, c.name, s.above, fmt.Sprintf("%d of %d indexed fields are in less than half of the documents", len(sparse), len(s.paths)))
		return nil
	}
	check, err := l.check(ctx, bson.D{{Key: "collStats", Value: c.name}}, "nindexes")
	if err != nil {
		return l.failed(ctx, err, pattern, c, s.above)
	}
	saves, one := int64(len(sparse))-1, c.naming(sparse)
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: s.above, Fields: sparse,
		Summary: fmt.Sprintf("%d fields of one type (%s) have an index each, and each is in %s of the documents at most (counted). "+
			"The collection has %d indexes (counted) of the 64 that it may have. As entries of one array the fields share one index, and a new field needs none.",
			len(sparse), s.kind, share(most, total), check.Answer),
		Sure: "counted: fields and indexes; of queries: those that were seen",
		Facts: []Fact{
			{"documents", total, counted},
			{"indexes of the collection", check.Answer, counted},
			{"fields with an index of their own", int64(len(sparse)), counted},
			{"documents that have the commonest of them", most, counted},
			{"values that would be entries", entries, counted},
			{"reads that name one of them", one, seen},
		},
		Saving: Interval{Low: saves, High: saves, Before: max(check.Answer, int64(indexes)), Unit: "indexes", What: "of the collection; their bytes stay as many"},
		Rests:  []Row{rowAttributeIndexes},
		Costs:  []Row{rowAttributeBytes, rowAttributeFind, rowAttributeSet, rowAttributeTwo},
		Code:   attributeCode(c, s.kind), try: tryAttribute(c, sparse),
		Check: check,
		Against: []string{
			"An index that nobody uses can simply go: $indexStats shows which.",
			"Where the names are known and plain, the fields below one subdocument and a wildcard index on it are simpler, and keep the documents small.",
			"A query on two of the fields at once, a unique index and a sort by one field need indexes of their own.",
			"All programs that read or write these fields must change together; Adopt with Copy has both for a while.",
		},
	})
	return nil
}

// together is how many reads name one of the fields in their filter, and how many several.
func (t *traffic) together(paths []string) (one, several int64) {
	for _, r := range t.finds {
		n := 0
		for _, path := range paths {
			if slices.Contains(r.match, path) {
				n++
			}
		}
		switch {
		case n == 1:
			one += r.calls
		case n > 1:
			several += r.calls
		}
	}
	return one, several
}

func (t *traffic) naming(paths []string) int64 {
	one, several := t.together(paths)
	return one + several
}
