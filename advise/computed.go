package advise

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The rule: at least computedReads aggregations sum up the documents with one value of a field, with several, or with any,
// each for itself, by $group alone, or by a $lookup whose array is used for sums alone. A filter may fix other fields,
// always to the same values. They read computedRatio times the documents that the writes seen would add up again, or more,
// where the transaction of a write counts as computedWrite documents. The values are _ids of another collection in
// computedFound of the cases, and computedEach documents or more have one, on average. Of values other than ObjectIDs
// and UUIDs the names of field and collection must be akin.
const (
	computedReads = 50
	computedRatio = 3
	computedWrite = 20
	computedEach  = 10
	computedFound = 0.95
)

// totals are aggregations of the documents with one value of a field.
type totals struct {
	key    string // the field; where a filter names several, the one that varies
	fields bson.D // of the $group, but for its _id
	text   string // the same, and what the filter names, to be compared
	calls  int64
	values int64  // that the calls ask for
	all    bool   // each call asks for all values
	report string // why no document could hold them

	filter  bson.D // of the first call, where it names several fields
	varying []string
	by      any // the _id of the $group then

	lists   int64     // calls that join the totals to several documents each
	parents []command // some of these
}

func (t *traffic) total(more totals) {
	i := slices.IndexFunc(t.totals, more.same)
	if i < 0 {
		t.totals = append(t.totals, more)
		return
	}
	o := &t.totals[i]
	o.calls += more.calls
	o.values += more.values
	o.lists += more.lists
	if len(o.parents) < replayValues {
		o.parents = append(o.parents, more.parents...)
	}
	for _, f := range more.filter {
		if !slices.Contains(o.varying, f.Key) && !reflect.DeepEqual(at(o.filter, f.Key), f.Value) {
			o.varying = append(o.varying, f.Key)
		}
	}
}

func (t totals) same(o totals) bool { return t.text == o.text }

// resolved is with the key that the calls vary, and the other fields of their filter in fixed.
func (t totals) resolved() totals {
	if t.filter == nil || t.report != "" {
		return t
	}
	if len(t.varying) != 1 || !equals(t.filter, t.varying[0]) || len(variables(t.by)) > 0 && t.by != "$"+t.varying[0] {
		t.report = "of what a filter by several fields selects, which is a report"
		return t
	}
	t.key = t.varying[0]
	return t
}

// dated reports a condition with a date, which is another one tomorrow.
func dated(condition any) bool {
	switch v := condition.(type) {
	case bson.DateTime:
		return true
	case bson.D:
		return slices.ContainsFunc(v, func(f bson.E) bool { return dated(f.Value) })
	case bson.A:
		return slices.ContainsFunc(v, dated)
	}
	return false
}

// fixed is the condition of a filter that all calls share.
func (t totals) fixed() (out bson.D) {
	for _, f := range t.filter {
		if f.Key != t.key {
			out = append(out, f)
		}
	}
	return out
}

// pipeline is the rule: a $group, behind the condition that all calls share.
func (t totals) pipeline() mongo.Pipeline {
	group := bson.D{{Key: "$group", Value: append(bson.D{{Key: "_id", Value: "$" + t.key}}, t.fields...)}}
	if fixed := t.fixed(); fixed != nil {
		return mongo.Pipeline{d("$match", fixed), group}
	}
	return mongo.Pipeline{group}
}

// totals are those of [{$match: {product: 7}}, {$group: {_id: …, stars: {$avg: "$stars"}}}].
func (c command) totals() (t totals, ok bool) {
	stages := c.pipeline
	if c.name == "count" && len(c.filter) > 0 && at(c.body, "limit") == nil {
		stages = bson.A{d("$count", "n")}
	}
	if len(stages) == 0 {
		return t, false
	}
	if name, _ := stage(stages[0]); name == "$match" {
		stages = stages[1:]
	}
	if len(stages) == 0 {
		return t, false
	}
	name, value := stage(stages[0])
	grouped, _ := value.(bson.D)
	if as, ok := value.(string); ok && name == "$count" {
		name, grouped = "$group", bson.D{{Key: "_id", Value: nil}, {Key: as, Value: d("$sum", int32(1))}}
	}
	if name != "$group" || len(grouped) < 2 {
		return t, false
	}
	for _, p := range stages[1:] {
		if name, _ := stage(p); !slices.Contains([]string{"$project", "$limit", "$sort", "$addFields", "$set", "$unset"}, name) {
			return t, false
		}
	}
	t = totals{calls: c.calls, by: at(grouped, "_id")}
	if len(c.filter) > 1 && !c.shape && !slices.ContainsFunc(c.filter, func(f bson.E) bool { return strings.HasPrefix(f.Key, "$") || dated(f.Value) }) {
		t.filter = c.filter
	}
	t.key, t.values, t.report = c.totalled(t.by)
	t.all = len(c.filter) == 0
	if t.filter != nil && len(expressionPaths(t.by)) < 2 {
		t.values, t.report = 1, ""
	}
	t.values *= c.calls
	if t.key == "_id" {
		return t, false
	}
	for _, f := range grouped {
		if f.Key == "_id" {
			continue
		}
		if t.report == "" && !summed(f.Value) {
			t.report = f.Key + " is no sum, mean, least or greatest value of an expression"
		}
		t.fields = append(t.fields, f)
	}
	t.text = fmt.Sprint(t.key, t.report, t.all, t.fields)
	if t.filter != nil {
		t.text = fmt.Sprint(slices.Sorted(slices.Values(keys(t.filter))), t.by, t.report, t.fields)
	}
	return t, true
}

// chosen are the stages that choose the documents to which the stage behind them joins others.
func (c command) chosen() bson.A {
	i := slices.IndexFunc(c.pipeline, func(p any) bool {
		name, _ := stage(p)
		return !slices.Contains([]string{"$match", "$sort", "$skip", "$limit"}, name)
	})
	return c.pipeline[:max(i, 0)]
}

// joinedTotals are those of [{$match: {_id: 7}}, {$lookup: {from: "reviews", localField: "_id", foreignField: "product", as:
// "r"}}, {$project: {stars: {$avg: "$r.stars"}}}], and their collection. Nothing else may use the array.
func (c command) joinedTotals() (from string, t totals, ok bool) {
	chosen := c.chosen()
	if rest := c.pipeline[len(chosen):]; len(rest) < 2 || c.name != "aggregate" || slices.ContainsFunc(rest[2:], func(p any) bool {
		name, _ := stage(p)
		return !slices.Contains([]string{"$sort", "$skip", "$limit"}, name)
	}) {
		return "", t, false
	}
	name, value := stage(c.pipeline[len(chosen)])
	lookup, _ := value.(bson.D)
	local, foreign, inner := equality(lookup)
	as, _ := at(lookup, "as").(string)
	last, value := stage(c.pipeline[len(chosen)+1])
	fields, _ := value.(bson.D)
	from, _ = at(lookup, "from").(string)
	if name != "$lookup" || last != "$project" || local != "_id" || len(inner) > 0 || as == "" || from == c.Collection {
		return "", t, false
	}
	t = totals{key: foreign, calls: c.calls, values: c.calls}
	if !equals(c.filter, "_id") {
		t.values, t.lists, t.parents = 0, c.calls, []command{c}
	}
	for _, f := range fields {
		accumulator, _ := f.Value.(bson.D)
		if !slices.ContainsFunc(append(expressionPaths(f.Value), f.Key), func(path string) bool { return related(path, as) }) {
			continue
		}
		if len(accumulator) != 1 {
			return "", t, false
		}
		operator, of := accumulator[0].Key, accumulator[0].Value
		path, _ := of.(string)
		switch below, inside := strings.CutPrefix(path, "$"+as+"."); {
		case inside && slices.Contains([]string{"$sum", "$avg", "$min", "$max"}, operator):
			of = "$" + below
		case operator == "$size" && path == "$"+as:
			operator, of = "$sum", int32(1)
		default:
			return "", t, false
		}
		t.fields = append(t.fields, bson.E{Key: f.Key, Value: d(operator, of)})
	}
	t.text = fmt.Sprint("joined", t.key, t.fields)
	return from, t, t.fields != nil && foreign != "" && foreign != "_id"
}

// totalled is the field whose values each have totals in a $group by id, and how many the filter asks for; or a report,
// and why its totals have no place.
func (c command) totalled(id any) (key string, values int64, report string) {
	by, _ := id.(string)
	if len(c.filter) > 0 {
		key = c.filter[0].Key
	} else {
		key = strings.TrimPrefix(by, "$")
	}
	switch several := len(expressionPaths(id)); {
	case several > 1:
		return key, 0, "by several fields at once, which are no _id of another collection"
	case len(c.filter) == 0 && (by != "$"+key || key == ""):
		return key, 0, "of the whole collection, which is a report: $merge can store it now and then"
	case len(c.filter) == 0:
		return key, 0, ""
	case len(c.filter) > 1 || strings.HasPrefix(key, "$"):
		return key, 0, "of what a filter by several fields selects, which is a report"
	case by != "$"+key && (several > 0 || !equals(c.filter, key)):
		return key, 0, "by another field than that of the filter, which is a report"
	case equals(c.filter, key):
		return key, 1, ""
	}
	operator, _ := at(c.filter, key).(bson.D)
	list, _ := at(operator, "$in").(bson.A)
	if len(list) == 0 || len(operator) > 1 {
		return key, 0, "of what a filter by a range selects, which is a report"
	}
	return key, int64(len(list)), ""
}

// summed reports an accumulator that this package can print.
func summed(value any) bool {
	accumulator, _ := value.(bson.D)
	if len(accumulator) != 1 {
		return false
	}
	operand := accumulator[0].Value
	document, _ := operand.(bson.D)
	if accumulator[0].Key == "$count" {
		return len(document) == 0
	}
	changing := slices.ContainsFunc(variables(operand), func(v string) bool { return strings.HasPrefix(v, "$$") }) || operators(operand, "$rand", "$function", "$meta", "$let", "$map", "$filter", "$reduce")
	return slices.Contains([]string{"$sum", "$avg", "$min", "$max"}, accumulator[0].Key) && !changing && goValue(operand) != ""
}

func (l *looker) computed(ctx context.Context, c *collection) error {
	for _, t := range c.totals {
		t = t.resolved()
		if err := l.failed(ctx, l.total(ctx, c, t), "computed", c, t.key); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) total(ctx context.Context, c *collection, t totals) error {
	names := strings.Join(keys(t.fields), ", ")
	writes := c.changes(slices.Concat(expressionPaths(t.fields), keys(t.fixed()), []string{t.key}))
	switch {
	case t.calls < computedReads:
		return declined(fmt.Sprintf("%s %s up %s by %s", many(t.calls, "read"), verb(t.calls, "add"), names, t.key))
	case t.report != "":
		return declined(fmt.Sprintf("%s %s up %s %s", many(t.calls, "read"), verb(t.calls, "add"), names, t.report))
	case writes == 0 && !l.recordsWrites():
		return untold{fmt.Sprintf("%d reads add up %s, and no write was seen", t.calls, names), "writes: the profiler at level 2, or advise.Commands in a test"}
	case goValue(t.fixed()) == "":
		return declined("the filter fixes other fields to values that have no Go")
	case len(c.multikey(t.key)) > 0:
		return declined(arraysAt(c.multikey(t.key)))
	}
	targets, err := l.place(ctx, c, t)
	if err != nil {
		return err
	}
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: c.name},
		{Key: "pipeline", Value: bson.A{
			d("$match", append(d(t.key, d("$ne", nil)), t.fixed()...)),
			d("$group", bson.D{{Key: "_id", Value: "$" + t.key}, {Key: "n", Value: d("$sum", 1)}}),
			d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "totals", Value: d("$sum", 1)}, {Key: "sources", Value: d("$sum", "$n")}, {Key: "most", Value: d("$max", "$n")}}),
		}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "totals")
	if err != nil {
		return err
	}
	mean := check.figure("sources") / max(check.Answer, 1)
	if t.all {
		t.values = t.calls * check.Answer
	}
	if t.lists > 0 {
		several, err := l.parents(ctx, t.parents)
		if err != nil {
			return err
		}
		t.values += t.lists * several
	}
	if mean < computedEach {
		return declined(fmt.Sprintf("%s for each value, on average: an index gives them", many(mean, "document")))
	}
	if read, written := t.values*mean, writes*(mean+computedWrite); read < computedRatio*written {
		return declined(fmt.Sprintf("%d reads add up %s, %s each, but %d writes would each compute it again", t.calls, names, many(mean, "document"), writes))
	}
	l.computedFinding(ctx, c, targets, t, check, writes)
	return nil
}

// place returns the collection whose documents can hold the totals. It declines if no collection can.
func (l *looker) place(ctx context.Context, c *collection, t totals) (*collection, error) {
	targets, err := l.targets(ctx, c, t.key)
	if err != nil {
		return nil, err
	}
	if targets == nil {
		return nil, declined("no collection has the values as its _id, all of one type, where the totals could be")
	}
	for _, f := range t.fields {
		if targets.has(f.Key) {
			return nil, declined(fmt.Sprintf("documents of %s have %s already", targets.name, f.Key))
		}
	}
	for _, name := range targets.tops() { // the state of other totals
		if targets.has(name+".at", "date") && targets.has(name+".epoch", "int", "long") {
			return nil, declined(fmt.Sprintf("documents of %s are targets of this pattern already, with %s: add to that one", targets.name, name))
		}
	}
	if !t.all {
		return targets, nil
	}
	refs, err := l.references(ctx, c, t.key, targets.name, 1)
	if err != nil {
		return nil, err
	}
	if !refs.enough || refs.named < c.count { // the reads have these as well
		return nil, declined("the reads add up documents as well whose " + t.key + " names no document of " + targets.name)
	}
	return targets, nil
}

func (l *looker) computedFinding(ctx context.Context, c, targets *collection, t totals, check Check, writes int64) {
	names := strings.Join(keys(t.fields), ", ")
	sources, most := check.figure("sources"), check.figure("most")
	mean := sources / max(check.Answer, 1)
	of, largest := "of the documents with one "+t.key, most
	if t.all {
		of, largest = "for each "+t.key, mean
	}
	l.found(Finding{
		Pattern: "computed", Collection: c.name, Path: t.key, Fields: keys(t.fields),
		Summary: fmt.Sprintf("%d reads add up %s %s, %d writes were seen. There are %s with %s on average and %d at most (counted). "+
			"With %s in the document of %s a read takes that document alone.",
			t.calls, names, of, writes, many(check.Answer, "value"), many(mean, "document"), most, names, targets.name),
		Sure: "counted: documents by value; of queries: those that were seen",
		Facts: []Fact{
			{"values", check.Answer, counted},
			{"documents that have one", sources, counted},
			{"documents of the commonest value", most, counted},
			{"documents of " + targets.name, targets.count, kept},
			{"reads that add up", t.calls, seen},
			{"writes", writes, seen},
		},
		// Reads prefer some values; half of the mean is less than what most have.
		Saving: Interval{
			Low: t.values * mean / 2, High: t.values * (largest - 1), Before: t.values * largest,
			Unit: "documents", What: "that reads no longer examine, of the reads that were seen",
		},
		Code: l.computedCode(ctx, c, targets, t), try: tryComputed(c, targets, t, l.report.commands), others: []string{targets.name},
		Check: check,
		Against: []string{
			"Each write goes through Change, in a transaction; writes by other programs leave the totals old until Repair or Drain.",
			"A write computes the totals again, in its transaction; the writes that were not seen count, too.",
			"A total that may be a minute old is simpler: keep the answer for that long.",
		},
	})
}

// parents is how many documents reads choose on average.
func (l *looker) parents(ctx context.Context, reads []command) (int64, error) {
	all := int64(0)
	for _, c := range reads {
		batch, err := l.aggregate(ctx, c.Collection, append(slices.Clone(c.chosen()), d("$count", "n")))
		if err != nil {
			return 0, err
		}
		if len(batch) > 0 {
			all += integer(batch[0], "n")
		}
	}
	return all / int64(len(reads)), nil
}

// recordsWrites reports queries that have writes, wherever there are some: those that a service recorded, or a profile or log
// that has quick ones. A collection without writes has none then.
func (l *looker) recordsWrites() bool {
	return slices.ContainsFunc(l.report.commands, func(c command) bool { return c.quick }) || slices.ContainsFunc(l.given, func(q Query) bool {
		first, err := q.Command.IndexErr(0)
		return q.log == nil && err == nil && slices.Contains(writing, first.Key())
	})
}

// changes is how many writes change what is read of the fields.
func (t *traffic) changes(fields []string) int64 {
	return t.writesTo(fields) + t.inserts + t.deletes
}

// targets returns the collection whose _ids a field of c holds, or nil. It may be a small one.
func (l *looker) targets(ctx context.Context, c *collection, field string) (*collection, error) {
	others, err := l.referring(ctx)
	if err != nil {
		return nil, err
	}
	name := field[strings.LastIndex(field, ".")+1:]
	for _, other := range others {
		unique := slices.Contains([]string{"objectId", "binData"}, other.idType) // others are codes and numbers, which anything may have
		if other == c || other.capped || !c.has(field, alike(other.idType)...) || !unique && !akin(name, other.name) {
			continue
		}
		refs, err := l.references(ctx, c, field, other.name, computedFound)
		if err != nil {
			return nil, err
		}
		if refs.enough {
			return other, nil
		}
	}
	return nil, nil
}
