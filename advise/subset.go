package advise

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: the list takes at least subsetShare of the bytes, half of the documents
// have subsetLength elements or more, its mean size is over subsetBytes; at least
// subsetReads reads want a part of it, at the same end and in the same order, and these are at
// least half of those that read it, and at least as many as its writes.
const (
	subsetShare  = 0.5
	subsetLength = 15
	subsetBytes  = 2 << 10
	subsetReads  = 10
)

func (l *looker) subset(ctx context.Context, c *collection, a *list) error {
	if err := a.heavy(); err != nil {
		return err
	}
	large := fmt.Sprintf("the list takes %s of the bytes (%s)", share(a.bytes, a.all), a.how())
	want := c.wanted(a.path)
	var e estimate
	if a.ranges != nil {
		e = a.estimate(func(r *list) float64 { return float64(r.bytes) / float64(r.total) })
	}
	if err := l.partly(c, a, want, e, large); err != nil {
		return err
	}
	for _, key := range want.by {
		unique, err := l.unique(ctx, c, key)
		if err != nil {
			return err
		}
		if !unique || len(c.multikey(key)) > 0 {
			return declined(fmt.Sprintf("%s; reads take a part of the lists of all documents with one %s together", large, key))
		}
	}
	check, reason, err := l.ordered(ctx, c, a, &want, large)
	if err != nil {
		return err
	}
	same, err := l.shareIDs(ctx, c, a.path)
	if err != nil {
		return err
	}
	if same {
		return declined(large + "; elements of several documents have the same _id, but each becomes a document of one collection: give that field another name first")
	}
	return l.subsetFinding(ctx, c, a, want, e, check, reason)
}

// heavy declines lists that are small or short.
func (a *list) heavy() error {
	switch mean := a.bytes / max(a.docs, 1); {
	case float64(a.bytes) < subsetShare*float64(a.all):
		return declined(fmt.Sprintf("the list takes %s of the bytes", share(a.bytes, a.all)))
	case a.quantile(0.5) < subsetLength:
		return declined(fmt.Sprintf("half of the lists have up to %s", many(a.quantile(0.5), "element")))
	case mean <= subsetBytes:
		return declined(fmt.Sprintf("a list takes %s on average", bytes(mean)))
	}
	return nil
}

// partly declines if reads want the whole list, or different parts of it.
func (l *looker) partly(c *collection, a *list, want want, e estimate, large string) error {
	switch writes := c.writesTo([]string{a.path}); {
	case a.element != "object":
		return declined(large + ", but its elements are no documents; the package keeps documents with an _id")
	case c.geometry(a.path):
		return declined("is a GeoJSON geometry, which must stay whole")
	case c.has(a.path + "_count"):
		return declined("may be in this pattern already: documents have " + a.path + "_count")
	case want.part == 0 && want.whole == 0:
		return untold{large + "; no read of it was seen", "queries: the profiler, -log, or advise.Commands in a test"}
	case want.part < subsetReads:
		return declined(fmt.Sprintf("%s; %s of %d %s a part of it", large, many(want.part, "read"), want.part+want.whole, verb(want.part, "want")))
	case want.part < want.whole:
		return declined(fmt.Sprintf("%s; %d reads want a part of it, but %d all of it", large, want.part, want.whole))
	case want.n == 0:
		return untold{large + "; reads take a part of it, but their number of elements was not seen", "queries with values: the profiler, -log, or advise.Commands in a test"}
	case 2*want.n > a.quantile(0.5):
		return declined(fmt.Sprintf("%s; reads take up to %d elements, half of the lists have up to %d", large, want.n, a.quantile(0.5)))
	case a.ranges != nil && !e.steady():
		return untold{fmt.Sprintf("a list takes %s to %s on average in ranges of _id: too different for an estimate", bytes(int64(e.low)), bytes(int64(e.high))), l.tells(c)}
	case writes > want.part:
		return declined(fmt.Sprintf("%s; it is written more often (%d) than a part of it is read (%d), and a new element takes 3 round trips", large, writes, want.part))
	}
	return nil
}

// ordered counts the bytes of a list. It declines if reads take elements as they are stored, and these have no order.
// Where no query names the order it sets the one that reads rely on, and says why it is that.
func (l *looker) ordered(ctx context.Context, c *collection, a *list, want *want, large string) (check Check, reason string, err error) {
	sums := bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", 1)}, {Key: "bytes", Value: a.sum()}}
	stored, order := want.order == nil, want.kept // reads take the elements as they are stored, or as the writes sort them
	relied := "the order by " + page{sort: order}.order() + " that the writes sort them in"
	if stored {
		order, relied = bson.D{{Key: "_id", Value: 1}}, "the order of an _id of theirs, and no date or number of theirs gives it"
		reason = "No query said by which field the elements are ordered, so Sort is that of _id until you name one."
	}
	if order != nil {
		list := d("$cond", bson.A{d("$isArray", "$"+a.path), "$" + a.path, bson.A{}})
		other := disorder(list, order)
		if stored && !want.last { // Adopt gives an _id in the order of the list, and an element that comes to the front later gets the largest
			ids := d("$map", bson.D{{Key: "input", Value: list}, {Key: "in", Value: "$$this._id"}})
			other = d("$or", bson.A{other, d("$in", bson.A{nil, ids})})
			want.order = order
		}
		sums = append(sums, bson.E{Key: "disordered", Value: d("$sum", d("$cond", bson.A{other, 1, 0}))})
	}
	check, disordered, err := l.listed(ctx, c, a, bson.A{d("$group", sums)})
	if err != nil || disordered == 0 {
		return check, reason, err
	}
	var by bson.D // the order that the stored elements have
	if stored {
		if by, err = l.storedBy(ctx, c, a); err != nil {
			return check, "", err
		}
	}
	if by == nil {
		return check, "", declined(fmt.Sprintf("%s; reads take elements as they are stored, which in %s is not %s", large, many(disordered, "document"), relied))
	}
	want.order = by
	if want.last { // Sort begins with the best
		want.order = bson.D{{Key: by[0].Key, Value: -by[0].Value.(int)}}
	}
	return check, fmt.Sprintf("No query said by which field the elements are ordered. In every document they are stored in the order of %s (counted), so Sort is that.", by[0].Key), nil
}

// subsetFinding says at last why the order is what it is, if no query named one.
func (l *looker) subsetFinding(ctx context.Context, c *collection, a *list, want want, e estimate, check Check, reason string) error {
	wide := 0.0 // half of the interval, as a part of the estimate
	if e.mean > 0 {
		wide = e.half / e.mean
	}
	// Elements that are read differ in size from the others: by a factor of two at most.
	kept := a.kept(want.n)
	f := Finding{
		Pattern: "subset", Collection: c.name, Path: a.path,
		Summary: fmt.Sprintf("The list takes %s of the bytes (%s, %s), half of the documents have %d elements or more, "+
			"and %d of %d reads of it want %d at most. The pattern keeps these in the document, and all of them in a collection of their own.",
			share(check.Answer, a.all), bytes(check.Answer), a.how(), a.quantile(0.5), want.part, want.part+want.whole, want.n),
		Sure: a.how() + ": lengths and bytes; of queries: those that were seen",
		Facts: []Fact{
			{"documents", a.total, a.how()},
			{"bytes of the list in all documents", check.Answer, a.how()},
			{"elements in all documents", a.elements, a.how()},
			{"reads that want a part of the list", want.part, seen},
			{"reads that want all of it", want.whole, seen},
		},
		Saving: Interval{
			Low: int64((float64(a.bytes) - 2*kept) * (1 - wide)), High: min(int64((float64(a.bytes)-kept/2)*(1+wide)), a.all),
			Unit: "bytes", What: "that leave the documents, which reads keep in the cache",
			Before: a.all,
		},
		Code: l.subsetCode(ctx, c, a, want), try: trySubset(c, a, want),
		Check: check,
		Against: []string{
			"An element needs an _id, and is written twice while it is kept: a new one takes 3 round trips.",
			"Reads of the whole list then go to the other collection.",
			"If nobody reads older elements, $push with $slice is simpler.",
		},
		Distribution: a.bars,
		Limit:        want.n,
	}
	if reason != "" {
		f.Against = append(f.Against, reason)
	}
	if f.Saving.Low <= 0 {
		return declined("little would leave the documents")
	}
	l.found(f)
	return nil
}

// Fields of elements that may give their order are tried, the dates first.
const ordersTried = 6

// storedBy returns a date or number of a list's elements, without equal values, in whose order every document stores them. It
// returns nil if no field is one.
func (l *looker) storedBy(ctx context.Context, c *collection, a *list) (order bson.D, err error) {
	if a.ranges != nil {
		return nil, nil
	}
	list := d("$cond", bson.A{d("$isArray", "$"+a.path), "$" + a.path, bson.A{}})
	kind := d("$cond", bson.A{d("$isNumber", "$f.v"), "number", d("$type", "$f.v")})
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$limit", 200), d("$project", d("e", d("$first", list))), d("$match", d("e", d("$type", "object"))),
		d("$project", d("f", d("$objectToArray", "$e"))), d("$unwind", "$f"),
		d("$group", d("_id", bson.D{{Key: "kind", Value: kind}, {Key: "name", Value: "$f.k"}})),
		d("$match", d("_id.kind", d("$in", bson.A{"date", "number"}))),
		d("$sort", d("_id", 1)), d("$limit", ordersTried),
	})
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	var orders []bson.D
	sums := bson.D{{Key: "_id", Value: nil}}
	for _, raw := range batch {
		name := text(raw, "_id", "name")
		if strings.ContainsAny(name, ".$") {
			continue
		}
		values := d("$map", bson.D{{Key: "input", Value: list}, {Key: "in", Value: "$$this." + name}})
		equal := d("$lt", bson.A{d("$size", d("$setUnion", bson.A{values, bson.A{}})), d("$size", list)})
		for _, direction := range []int{1, -1} {
			by := bson.D{{Key: name, Value: direction}}
			other := d("$or", bson.A{disorder(list, by), equal})
			sums = append(sums, bson.E{Key: fmt.Sprint("n", len(orders)), Value: d("$sum", d("$cond", bson.A{other, 1, 0}))})
			orders = append(orders, by)
		}
	}
	batch, err = l.aggregate(ctx, c.name, bson.A{d("$group", sums)})
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	for i, by := range orders {
		if integer(batch[0], fmt.Sprint("n", i)) == 0 {
			return by, nil
		}
	}
	return nil, nil
}

// disorder is the condition that the elements of a list are not in an order. Elements with equal keys may stand in any.
func disorder(list any, order bson.D) bson.D {
	var element, by bson.D
	for i, f := range order {
		name := fmt.Sprint("f", i)
		element = append(element, bson.E{Key: name, Value: "$$this." + f.Key})
		by = append(by, bson.E{Key: name, Value: f.Value})
	}
	keys := d("$map", bson.D{{Key: "input", Value: list}, {Key: "in", Value: element}})
	return d("$ne", bson.A{keys, d("$sortArray", bson.D{{Key: "input", Value: keys}, {Key: "sortBy", Value: by}})})
}

// shareIDs reports whether elements of the first 200 documents have one _id.
func (l *looker) shareIDs(ctx context.Context, c *collection, path string) (bool, error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$limit", 200), d("$project", d("id", "$"+path+"._id")), d("$unwind", "$id"), d("$match", d("id", d("$ne", nil))),
		d("$group", bson.D{{Key: "_id", Value: "$id"}, {Key: "n", Value: d("$sum", 1)}}),
		d("$match", d("n", d("$gt", 1))), d("$limit", 1),
	})
	return len(batch) > 0, err
}

// listed is the query for the bytes of a list, and in how many documents it is in another order than reads rely on.
func (l *looker) listed(ctx context.Context, c *collection, a *list, pipeline bson.A) (check Check, disordered int64, err error) {
	command, path := bson.D{{Key: "aggregate", Value: c.name}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}}, []string{"cursor", "firstBatch", "0", "bytes"}
	if a.ranges == nil {
		if check, err = l.check(ctx, command, path...); err != nil {
			return check, 0, err
		}
		return check, check.figure("disordered"), nil
	}
	_, most, err := l.sums(ctx, c, pipeline, "disordered")
	if err != nil {
		return check, 0, err
	}
	check, err = unchecked(command, a.bytes, path...)
	return check, most[0], err
}
