package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least newestReads reads join the first few children of a parent in one order, by $lookup with $sort and $limit,
// which is at least half of the reads of the parents and newestRatio times the writes to the children or more. A parent has
// subsetLength children on average and twice as many as the reads take, relationFound of the references name one, and those
// that are kept take newestBytes at most.
const (
	newestReads = 50
	newestRatio = 3
	newestBytes = 64 << 10
)

// newest are joins of the first children of a parent, in an order.
type newest struct {
	from, field, as string
	order           bson.D
	n, calls        int64
	seen            []command // some of them
}

// newest is a $lookup from _id whose pipeline sorts and limits, and does nothing else that chooses children.
func (c command) newest(from, foreign, as string, pipeline bson.A) (n newest, ok bool) {
	if len(pipeline) < 2 || as == "" || operators(pipeline[2:], "$match", "$lookup", "$group", "$unwind", "$sample", "$skip", "$limit", "$sort") {
		return n, false
	}
	first, order := stage(pipeline[0])
	second, limit := stage(pipeline[1])
	n = newest{from: from, field: foreign, as: as, calls: c.calls, seen: []command{c}}
	n.order, _ = order.(bson.D)
	n.n, _ = number(limit)
	n.order = directions(n.order)
	return n, first == "$sort" && second == "$limit" && len(n.order) > 0 && n.n > 0
}

func (t *traffic) firsts(more newest) {
	i := slices.IndexFunc(t.newest, func(n newest) bool {
		return n.from == more.from && n.field == more.field && fmt.Sprint(n.order) == fmt.Sprint(more.order)
	})
	if i < 0 {
		t.newest = append(t.newest, more)
		return
	}
	n := &t.newest[i]
	n.calls += more.calls
	n.n = max(n.n, more.n)
	if len(n.seen) < replayValues {
		n.seen = append(n.seen, more.seen...)
	}
}

func (l *looker) newest(ctx context.Context, c *collection) error {
	for _, n := range c.newest {
		if err := l.failed(ctx, l.first(ctx, c, n), "subset", c, n.as); err != nil {
			return err
		}
	}
	return nil
}

// first decides on reads that join the first few children.
func (l *looker) first(ctx context.Context, c *collection, n newest) error {
	children := l.all[n.from]
	if children == nil || children.few() || children == c || children.capped {
		return nil
	}
	changes := children.inserts + children.deletes
	for _, w := range children.writes {
		changes += w.calls
	}
	if err := l.keepable(c, children, n, changes); err != nil {
		return err
	}
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: n.from},
		{Key: "pipeline", Value: bson.A{
			d("$match", d(n.field, d("$ne", nil))),
			d("$group", bson.D{{Key: "_id", Value: "$" + n.field}, {Key: "n", Value: d("$sum", 1)}}),
			d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "children", Value: d("$sum", "$n")}, {Key: "parents", Value: d("$sum", 1)}}),
		}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "children")
	if err != nil {
		return err
	}
	mean := check.Answer / max(check.figure("parents"), 1)
	if mean < max(subsetLength, 2*n.n) {
		return declined(fmt.Sprintf("reads take up to %s of %d on average", many(n.n, "child document"), mean))
	}
	if kept := n.n * children.mean(); kept > newestBytes {
		return declined(fmt.Sprintf("the first %d take %s", n.n, bytes(kept)))
	}
	refs, err := l.references(ctx, children, n.field, c.name, relationFound)
	if err != nil {
		return err
	}
	if !refs.enough {
		return declined(fmt.Sprintf("%s of the references name no document of %s", share(refs.named-refs.found, refs.named), c.name))
	}
	several, err := l.parents(ctx, n.seen)
	if err != nil {
		return err
	}
	l.firstFinding(ctx, c, n, changes, check, refs, several, children.mean())
	return nil
}

func (l *looker) firstFinding(ctx context.Context, c *collection, n newest, changes int64, check Check, refs leads, several, size int64) {
	parents := max(check.figure("parents"), 1)
	mean := check.Answer / parents
	grown := parents * n.n * size
	l.found(Finding{
		Pattern: "subset", Collection: c.name, Path: n.as,
		Summary: fmt.Sprintf("%d of %d reads join the first %d documents of %s by %s, of %d on average (counted); %s to these were seen. "+
			"The pattern keeps these in the document, so that a read takes that document alone.",
			n.calls, c.reads(), n.n, n.from, page{sort: n.order}.order(), mean, many(changes, "write")),
		Sure: "counted: children; " + refs.how + ": references; of queries: those that were seen",
		Facts: []Fact{
			{"children with a parent", check.Answer, counted},
			{"parents that have some", parents, counted},
			{"reads that join the first", n.calls, seen},
			{"writes to children", changes, seen},
		},
		Saving: Interval{Low: n.calls * several * n.n / 2, High: n.calls * several * n.n, Before: n.calls * several * n.n, Unit: "documents", What: "of " + n.from + " that reads no longer join, of the reads that were seen"},
		Grows:  []Interval{{Low: grown / 2, High: 2 * grown, Before: c.size, Unit: "bytes", What: ofDocuments}},
		Code: fmt.Sprintf(`lists, err := subset.New[%s, bson.D](db.Collection(%q), db.Collection(%q), &subset.Options{
	ParentField: %q,
	ArrayField:  %q,
	N:           %d,
	Sort:        %s,
})`, l.idType(ctx, c), c.name, n.from, n.field, n.as, n.n, goSort(n.order)),
		Check: check, Limit: n.n, others: []string{n.from},
		Against: []string{
			"A new child is a transaction of 3 round trips, and every program that writes children must use the package.",
			"Other reads of the parents get the list as well, unless they leave it out.",
		},
	})
}

// keepable declines what the two collections and their commands speak against.
func (l *looker) keepable(c, children *collection, n newest, changes int64) error {
	lists := slices.ContainsFunc(n.order, func(key bson.E) bool { return len(children.multikey(key.Key)) > 0 })
	switch {
	case n.calls < newestReads:
		return declined(fmt.Sprintf("%s %s the first of %s", many(n.calls, "read"), verb(n.calls, "join"), n.from))
	case changes == 0 && !l.recordsWrites():
		return untold{fmt.Sprintf("%d reads join the first of %s, and no write was seen", n.calls, n.from), "writes: the profiler at level 2, or advise.Commands in a test"}
	case n.calls < newestRatio*changes:
		return declined(fmt.Sprintf("%d reads join the first of %s, which are written %d times, each in 3 round trips then", n.calls, n.from, changes))
	case 2*n.calls < c.reads():
		return declined(fmt.Sprintf("%d of %d reads join the first of %s", n.calls, c.reads(), n.from))
	case lists || strings.ContainsAny(n.as+n.field, ".$") || c.has(n.as) || c.has(n.as+"_count") || children.has(n.field, "array"):
		return declined("documents could keep the first of " + n.from + ", but for names with dots, fields of these names or values in lists")
	}
	return nil
}
