package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least distinctAdds $addToSet were seen, of single documents by their _id or another field in which no two
// have the same value, and at least distinctReads reads of the list, all for its length alone. Nothing else writes it, and it
// takes more than twice the bytes of approx's registers on average.
const (
	distinctAdds  = 50
	distinctReads = 10
	distinctBytes = 12 << 10 // of 1,024 registers at most
)

// adds are the $addToSet of a list by one field of the documents.
type adds struct {
	path, key string
	calls     int64
	upserts   bool
}

// collect notes {q: {_id: …}, u: {$addToSet: {visitors: …}}}.
func (t *traffic) collect(c command, s statement) {
	added, _ := at(s.update, "$addToSet").(bson.D)
	if len(added) != 1 || len(s.filter) != 1 || !equals(s.filter, s.filter[0].Key) {
		return
	}
	path, key := added[0].Key, s.filter[0].Key
	i := slices.IndexFunc(t.adds, func(a adds) bool { return a.path == path && a.key == key })
	if i < 0 {
		i, t.adds = len(t.adds), append(t.adds, adds{path: path, key: key})
	}
	t.adds[i].calls += c.calls
	t.adds[i].upserts = t.adds[i].upserts || s.upsert
}

// lengths is how many reads ask for the length of a list alone, and how many need more of it.
func (t *traffic) lengths(path string) (alone, more int64) {
	for _, r := range t.finds {
		switch {
		case !r.needs(path) && !slices.Contains(r.match, path):
		case slices.Contains(r.lengths, path) && !r.all && !slices.Contains(r.match, path):
			alone += r.calls
		default:
			more += r.calls
		}
	}
	return alone, more
}

// sized is the list of {n: {$size: "$list"}}.
func sized(value any) string {
	operator, _ := value.(bson.D)
	size := at(operator, "$size")
	if inner, ok := size.(bson.D); ok { // {$ifNull: ["$list", []]}
		values, _ := at(inner, "$ifNull").(bson.A)
		if len(values) == 2 {
			size = values[0]
		}
	}
	path, _ := size.(string)
	if len(operator) != 1 || strings.HasPrefix(path, "$$") {
		return ""
	}
	return strings.TrimPrefix(path, "$")
}

// distinctValues looks for lists that only tell how many different values there were.
func (l *looker) distinctValues(ctx context.Context, c *collection) error {
	const pattern = "approx"
	for _, s := range c.adds {
		i := slices.IndexFunc(c.lists, func(a *list) bool { return a.path == s.path })
		if i < 0 {
			continue
		}
		a := c.lists[i]
		alone, more := c.lengths(s.path)
		switch {
		case s.calls < distinctAdds || alone < distinctReads:
			continue // the other patterns for lists say why not
		case a.bytes <= 2*distinctBytes*a.docs:
			l.not(pattern, c.name, s.path, fmt.Sprintf("a list takes %s on average, and is exact", bytes(a.bytes/max(a.docs, 1))))
			continue
		case more > 0:
			l.not(pattern, c.name, s.path, fmt.Sprintf("%s for its length alone, and %s for more of it", many(alone, "read"), many(more, "read")))
			continue
		case c.writesTo([]string{s.path}) > s.calls:
			l.not(pattern, c.name, s.path, "other updates change it")
			continue
		}
		if err := l.failed(ctx, l.distinctly(ctx, c, a, s, alone), pattern, c, s.path); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) distinctly(ctx context.Context, c *collection, a *list, s adds, reads int64) error {
	const pattern = "approx"
	key, unique, err := l.counterKey(ctx, c, counter{key: s.key})
	if err != nil {
		return err
	}
	if !unique {
		return declined("documents lack " + s.key + ", or several have one value of it, by which the updates find them: the package's key is of one document")
	}
	var drop []string
	if s.key != "_id" {
		if drop, err = l.notUnique(ctx, c, s.key); err != nil {
			return err
		}
	}
	check, _, err := l.listed(ctx, c, a, bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "bytes", Value: a.sum()}})})
	if err != nil {
		return err
	}
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: s.path,
		Summary: fmt.Sprintf("%s of the list ask for its length alone, %d $addToSet were seen, and nothing else that writes it. A list takes %s on average (%s), up to %s. "+
			"Distinct tells how many different values there were by %s at most.",
			many(reads, "read"), s.calls, bytes(a.bytes/max(a.docs, 1)), a.how(), many(a.longest(), "element"), bytes(distinctBytes)),
		Sure: a.how() + ": lengths and bytes; of queries: those that were seen",
		Facts: []Fact{
			{"documents with the list", a.docs, a.how()},
			{"bytes of the list in all documents", check.Answer, a.how()},
			{"$addToSet to the list", s.calls, seen},
			{"reads of its length", reads, seen},
		},
		Saving: Interval{Low: a.bytes - distinctBytes*a.docs, High: a.bytes, Before: a.all, Unit: "bytes", What: "of the documents, and so of each write that adds a value"},
		Code:   l.distinctCode(ctx, c, a, s, key),
		Check:  check,
		Against: append(drop,
			"The number is an estimate with a standard error of 3 %.",
			"Who is asked whether a value was there, or for the values, needs the list.",
			"The lists that exist are not taken over: add their elements, or begin with new keys.",
		),
		Distribution: a.bars,
	})
	return nil
}

func (l *looker) distinctCode(ctx context.Context, c *collection, a *list, s adds, key string) string {
	options := ""
	if s.key != "_id" {
		options += fmt.Sprintf("\tKeyField:   %q,\n", s.key)
	}
	field := "distinct"
	for c.has(field) {
		field += "_values"
	}
	options += fmt.Sprintf("\tCountField: %q,\n", field)
	if !s.upserts {
		options += "\tExisting:   true,\n"
	}
	return fmt.Sprintf("values, err := approx.NewDistinct[%s, %s](db.Collection(%q), &approx.Options{\n%s})", key, l.elementType(ctx, c, a), c.name, options)
}
