package advise

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at most outlierDocuments of the documents hold at least outlierElements
// of all elements beyond a limit of max(100, five times the third quartile), and outlierTimes as large a part of them, the
// largest array is worth the trouble, and few reads and writes look for elements inside it.
const (
	outlierDocuments = 0.10
	outlierElements  = 0.10
	outlierTimes     = 3
	outlierBytes     = 32 << 10
	mapKeys          = 1_000 // an object with as many has keys that are data
)

// maps says of objects that grow as lists do why they are no lists.
func (l *looker) maps(c *collection) {
	for _, f := range c.fields {
		if f.kind == "object" && f.most >= mapKeys {
			l.not("outlier", c.name, f.path, fmt.Sprintf("a document has a map of %d keys or more there, and the package takes lists alone, of {k, v} for example", mapKeys))
		}
	}
}

func (l *looker) outlier(ctx context.Context, c *collection, a *list) error {
	limit := round(max(100, 5*a.quantile(0.75)))
	over := a.above(limit)
	var e estimate
	if a.ranges != nil {
		e = a.estimate(func(r *list) float64 { return float64(r.above(limit).Documents) / float64(r.total) })
	}
	if err := l.uneven(c, a, limit, over, e); err != nil {
		return err
	}
	// The figure that is printed is the one that the query to check it by hand gives.
	query := d(fmt.Sprintf("%s.%d", a.path, limit), d("$exists", true))
	command, sure, part := bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: query}}, "counted: all lengths and bytes, in one scan", "counted"
	check, err := unchecked(command, over.Documents, "n")
	if a.ranges == nil {
		check, err = l.check(ctx, command, "n")
	} else {
		sure, part = "estimated: "+l.tells(c)+" counts all lengths and bytes", e.in()
	}
	if err != nil {
		return err
	}
	wide := 0.0 // half of the interval, as a part of the estimate
	if e.mean > 0 {
		wide = e.half / e.mean
	}
	mean := float64(over.Bytes) / float64(over.Elements)
	// After Adopt the parent of an outlier holds limit elements, and half of them
	// after the next one has moved the older half out.
	stays := mean * float64(limit) * float64(over.Documents)
	f := Finding{
		Pattern: "outlier", Collection: c.name, Path: a.path,
		Summary: fmt.Sprintf("%s of the documents (%s, %s) hold %s of all elements. "+
			"The largest list takes %s (%s) of each read of its document, and of each write. "+
			"The pattern bounds it to about %s; to read such a list whole then takes 3 round trips.",
			share(check.Answer, a.total), group(check.Answer), part, share(over.Elements, a.elements),
			bytes(a.largest()), a.how(), bytes(int64(mean*float64(limit)))),
		Sure: sure,
		Facts: []Fact{
			{"documents", a.total, a.how()},
			{"documents with the list", a.docs, a.how()},
			{"writes that change elements inside the list or take them out", c.inside(a.path), seen},
			{fmt.Sprintf("of them with more than %d elements", limit), check.Answer, a.how()},
			{"elements of the longest list", a.longest(), a.how()},
			{"elements of the usual list (three quarters have as many or fewer)", a.quantile(0.75), a.how()},
		},
		Saving: Interval{
			Low: int64((float64(over.Bytes) - stays) * (1 - wide)), High: min(int64((float64(over.Bytes)-stays/2)*(1+wide)), a.all),
			Unit: "bytes", What: "that leave the parents, and so the reads and writes of them",
			Before: a.all,
		},
		Code: l.outlierCode(ctx, c, a, limit), try: tryOutlier(c, a, limit),
		Check: check,
		Against: []string{
			"A query or index on the elements sees those in the parent only; ContainingPipeline sees all.",
			"Other programs that read or push into " + a.path + " must change together with this one.",
			"If most reads want only the newest few, subset keeps just those; if the lists may be forgotten, $push with $slice is simpler.",
		},
		Distribution: a.bars,
		Limit:        limit,
	}
	if f.Saving.Low <= 0 {
		return declined("little would leave the parents")
	}
	l.found(f)
	return nil
}

// uneven declines lists that are not few long ones among many short ones, or that reads and writes look into.
func (l *looker) uneven(c *collection, a *list, limit int64, over Bar, e estimate) error {
	switch {
	case a.longest() <= 100:
		return declined(fmt.Sprintf("%sthe longest list has %s", a.where(), many(a.longest(), "element")))
	case strings.Contains(a.path, "."):
		return declined("the list is inside a subdocument; the package takes lists at the top")
	case c.has(a.path+"_moved", "objectId") || c.has(a.path+"_overflow") || c.has(a.path+"_outside"): // the first name is no option
		return declined("is in this pattern already: some documents have " + a.path + "_moved, _overflow or _outside")
	case c.geometry(a.path):
		return declined("is a GeoJSON geometry, which must stay whole")
	case 4*c.selecting(a.path) > c.reads():
		return declined(fmt.Sprintf("%d of %d reads select documents by elements; the pattern moves some of these away", c.selecting(a.path), c.reads()))
	case 4*c.inside(a.path) > c.reads()+c.writesTo([]string{a.path}):
		return declined(fmt.Sprintf("%s %s elements inside the list or %s them out; the pattern moves some of these away", many(c.inside(a.path), "write"), verb(c.inside(a.path), "change"), verb(c.inside(a.path), "take")))
	case a.ranges != nil && over.Documents > 0 && !e.steady():
		return untold{"long lists are in " + e.unsteady(), l.tells(c)}
	case over.Documents == 0:
		return declined(fmt.Sprintf("%sno list is longer than five times the usual: half have up to %d elements, the longest %d", a.where(), a.quantile(0.5), a.longest()))
	case float64(over.Documents) > outlierDocuments*float64(a.docs):
		return declined(fmt.Sprintf("long lists are no exception: %s have more than %d elements", share(over.Documents, a.docs), limit))
	case float64(over.Elements) < max(outlierElements, outlierTimes*float64(over.Documents)/float64(a.docs))*float64(a.elements):
		return declined(fmt.Sprintf("the long lists hold %s of all elements", share(over.Elements, a.elements)))
	case a.largest() < outlierBytes:
		return declined(fmt.Sprintf("the largest list takes %s", bytes(a.largest())))
	}
	return nil
}

// geometry reports a GeoJSON value: coordinates beside a type.
func (c *collection) geometry(path string) bool {
	above, name := "", path
	if i := strings.LastIndex(path, "."); i >= 0 {
		above, name = path[:i+1], path[i+1:]
	}
	return name == "coordinates" && c.has(above+"type", "string")
}
