package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// The rule: a list takes half of the bytes or more, half of the documents have seriesEach elements or more, of less than
// grownBytes on average, and with one date. At least relationPushes $push were seen, and nothing else that writes the list or reads a part of its end. At least
// seriesReads reads take a range of the date, or elements have nothing but the date and numbers.
const grownBytes = 150

// inWindow is the path of the date in {any: {$filter: {input: "$list", as: "e", cond: {$gte: ["$$e.at", …]}}}}.
func inWindow(filter bson.D) string {
	input, _ := at(filter, "input").(string)
	name, _ := at(filter, "as").(string)
	if name == "" {
		name = "this"
	}
	cond := at(filter, "cond")
	fields := map[string]bool{}
	for _, v := range variables(cond) {
		field, inside := strings.CutPrefix(v, "$$"+name+".")
		if !inside {
			return ""
		}
		fields[field] = true
	}
	if len(fields) != 1 || !operators(cond, "$gte", "$gt", "$lte", "$lt") {
		return ""
	}
	for field := range fields {
		return strings.TrimPrefix(input, "$") + "." + field
	}
	return ""
}

// windowOfElements is the path of the date in a $match of a range behind the $unwind of a list.
func windowOfElements(match any, list string) string {
	filter, _ := match.(bson.D)
	for _, f := range filter {
		condition, _ := f.Value.(bson.D)
		if strings.HasPrefix(f.Key, list+".") && (at(condition, "$gte") != nil || at(condition, "$gt") != nil) {
			return f.Key
		}
	}
	return ""
}

// grown looks for measurements that are pushed to a list without an end.
func (l *looker) grown(ctx context.Context, c *collection, a *list) error {
	pushes, want := c.pushes[a.path], c.wanted(a.path)
	heavy := 2*a.bytes >= a.all && a.quantile(0.5) >= seriesEach && a.bytes < grownBytes*a.elements
	if a.element != "object" || !heavy || pushes < relationPushes || want.part > 0 || a.ranges != nil || strings.Contains(a.path, ".") {
		return nil
	}
	kinds, err := l.elementKinds(ctx, c, a.path)
	if err != nil {
		return err
	}
	var dates []string
	for name, kind := range kinds {
		if kind == "date" {
			dates = append(dates, name)
		}
	}
	if len(dates) != 1 {
		return nil
	}
	when, ranges := dates[0], int64(0)
	var values []string
	plain := true
	for name, kind := range kinds {
		switch {
		case slices.Contains(numbers, kind):
			values = append(values, name)
		case name != when:
			plain = false
		}
	}
	slices.Sort(values)
	for _, r := range c.finds {
		if slices.Contains(r.windows, a.path+"."+when) {
			ranges += r.calls
		}
	}
	switch {
	case ranges < seriesReads && (!plain || len(values) == 0):
		return declined(fmt.Sprintf("%s %s a range of %s in the list", many(ranges, "read"), verb(ranges, "take"), when))
	case c.writesTo([]string{a.path}) > pushes:
		return declined("other updates than $push write the list")
	case c.selecting(a.path) > ranges:
		return declined(fmt.Sprintf("%s select documents by elements", many(c.selecting(a.path), "read")))
	}
	return l.unbounded(ctx, c, a, when, values, pushes, ranges)
}

// elementKinds are the types of the fields of a list's first elements, by name; "" of several.
func (l *looker) elementKinds(ctx context.Context, c *collection, path string) (map[string]string, error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$limit", 200), d("$project", d("e", d("$first", d("$cond", bson.A{d("$isArray", "$"+path), "$" + path, bson.A{}})))),
		d("$match", d("e", d("$type", "object"))), d("$project", d("f", d("$objectToArray", "$e"))), d("$unwind", "$f"),
		d("$group", d("_id", bson.D{{Key: "name", Value: "$f.k"}, {Key: "kind", Value: d("$type", "$f.v")}})), d("$limit", 100),
	})
	out := map[string]string{}
	for _, raw := range batch {
		name, kind := text(raw, "_id", "name"), text(raw, "_id", "kind")
		if known, ok := out[name]; ok && known != kind {
			kind = ""
		}
		out[name] = kind
	}
	return out, err
}

// unbounded advises on measurements in lists.
func (l *looker) unbounded(ctx context.Context, c *collection, a *list, when string, values []string, pushes, ranges int64) error {
	const pattern = "series"
	path := "$" + a.path + "." + when
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$project", d("ms", d("$subtract", bson.A{d("$max", path), d("$min", path)}))), d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "ms", Value: d("$sum", "$ms")}}),
	})
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		return nil // emptied meanwhile
	}
	window, _ := windowFor(a.elements, integer(batch[0], "ms"))
	if window == "" {
		return declined("a list has fewer than 24 elements a month")
	}
	check, _, err := l.listed(ctx, c, a, bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "bytes", Value: a.sum()}})})
	if err != nil {
		return err
	}
	key := l.idType(ctx, c)
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: a.path,
		Summary: fmt.Sprintf("The list takes %s of the bytes (%s, %s) and grows without a bound: %d $push were seen. Its elements are measurements, each with its %s, %s in half of the documents or more, "+
			"and each write and read of a document takes all of them. In packed blocks a window has a document of its own.",
			share(check.Answer, a.all), bytes(check.Answer), a.how(), pushes, when, group(a.quantile(0.5))),
		Sure: a.how() + ": lengths and bytes; of queries: those that were seen",
		Facts: []Fact{
			{"documents with the list", a.docs, a.how()},
			{"elements", a.elements, a.how()},
			{"elements of the longest list", a.longest(), a.how()},
			{"$push to the list", pushes, seen},
			{"reads of a range of " + when, ranges, seen},
		},
		Saving: Interval{Low: a.bytes - emptyList*a.docs, High: a.bytes, Before: a.all, Unit: "bytes", What: "that leave the documents, and so the reads and writes of them"},
		Code: fmt.Sprintf(`measurements, err := series.New[%s, bson.D](db.Collection(%q), timeseries.%s(nil), &series.Options{
	TimeField: %q,
	Values:    []timeseries.Value{%s},
})`, key, c.name+"_"+a.path, window, when, goValues(values)),
		Adopt: fmt.Sprintf(`err = measurements.EnsureIndexes(ctx)
result, err := measurements.Adopt(ctx, db.Collection(%q), func(doc bson.Raw) (id %s, list []bson.D, err error) {
	if err := doc.Lookup(%q).Unmarshal(&list); err != nil {
		return id, nil, mongopatterns.ErrSkip
	}
	err = doc.Lookup("_id").Unmarshal(&id)
	return id, list, err
}, nil)`, c.name, key, a.path),
		try:   tryGrown(c, a.path, when, window, values),
		Check: check,
		Against: []string{
			"Adopt takes the list of a document once, so new measurements must go to both places until the list is unset.",
			"Measurements that come one by one need a Gatherer, which loses the last seconds if the process ends; bucket appends each at once.",
			"If nobody reads old measurements, $push with $slice is simpler.",
			"MongoDB's own time-series collections need no library; try these first.",
		},
		Distribution: a.bars,
	})
	return nil
}

// tryGrown unsets the lists when they are packed. Reads of a list go elsewhere then.
func tryGrown(c *collection, path, when, window string, values []string) trying {
	return shrinking(c.name, c.name, func(ctx context.Context, db *mongo.Database) (service, error) {
		measurements, err := series.New[any, bson.D](db.Collection(c.name+"_"+path), windowOf(window), &series.Options{TimeField: when, Values: valuesOf(values)})
		if err != nil {
			return service{}, err
		}
		if err := measurements.EnsureIndexes(ctx); err != nil {
			return service{}, err
		}
		result, err := measurements.Adopt(ctx, db.Collection(c.name), func(doc bson.Raw) (id any, list []bson.D, err error) {
			if err := doc.Lookup(path).Unmarshal(&list); err != nil {
				return nil, nil, mongopatterns.ErrSkip
			}
			return doc.Lookup("_id"), list, nil
		}, nil)
		if err := adopting(result, err); err != nil {
			return service{}, err
		}
		_, err = db.Collection(c.name).UpdateMany(ctx, bson.D{}, d("$unset", d(path, "")))
		return sending(func(command command) bson.D {
			if command.read.needs(path) {
				return nil
			}
			return command.body
		}), err
	})
}

// valuesOf are the sums that a series keeps.
func valuesOf(names []string) (out []timeseries.Value) {
	for _, name := range names {
		out = append(out, timeseries.Value{Field: name})
	}
	return out
}
