package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least extrefReads reads join another collection by its _id, by $lookup or by finds one by one, and all want the
// same few fields of it. The reference names a document in extrefFound of the documents that have it. For each copy that the
// writes seen would have to change, there are extrefRatio such reads or more, or they join extrefJoined documents or more. The
// reference is not written more often than it is followed. It may be in the documents of a list: each of these gets copies
// then. A field that was copied by hand becomes the copy if at most extrefStale of its values differ from the source.
const (
	extrefReads  = 50
	extrefFields = 5
	extrefFound  = 0.95
	extrefRatio  = 10
	extrefJoined = 50
	extrefStale  = 0.05
	extrefFewest = 5 // documents of the source: fewer are in a service's memory
)

// joins are the $lookups from one field to the _id of a collection, or to another field of it.
type joins struct {
	from, local string
	key         string // of the other collection; "": _id
	calls       int64
	finds       int64     // one for each document, of the calls that are no $lookup
	several     int64     // documents that finds by $in ask for, one find for all of an answer
	fields      []string  // of the other collection; nil: all, or not known
	seen        []command // some of them, with values and calls
	apart       []string  // fields that need another name for their copies, because documents use the name
	list        string    // of documents with the reference; "": it is in no list
}

// path is where the copy is, or the list of the copies.
func (j joins) path() string {
	if j.list != "" {
		return j.list
	}
	return j.inside()
}

// listed is the list of documents that have the reference; "" if it is in none, or in another place of one.
func (j joins) listed(c *collection) string {
	arrays := c.multikey(j.local)
	if len(arrays) != 1 || arrays[0] == j.local || c.element(arrays[0]) != "object" || c.share(arrays[0], "array") < extrefFound {
		return ""
	}
	return arrays[0]
}

// inside is the subdocument of a reference that is its _id or id, and so is a copy already; "" for another reference.
func (j joins) inside() string {
	for _, id := range []string{"._id", ".id"} {
		if path, ok := strings.CutSuffix(j.local, id); ok {
			return path
		}
	}
	return ""
}

// copyAt is the path of the copy of a field: customer.name beside customer._id, and customer_name beside customer. If
// documents already use that name, the path is customer._id_name or customer_copy_name.
func (j joins) copyAt(path string) string {
	name := path[strings.LastIndex(path, ".")+1:]
	in, apart := j.inside(), slices.Contains(j.apart, path)
	switch {
	case in != "" && !apart:
		return in + "." + name
	case in == "" && apart:
		return j.local + "_copy_" + name
	}
	return j.local + "_" + name
}

// version is where the copy has its version.
func (j joins) version() string { return j.copyAt("version") }

// managed reports a version of extref, which is a whole number, under either name.
func (j joins) managed(c *collection) bool {
	other := j
	other.apart = []string{"version"}
	return c.has(j.version(), "int", "long") || c.has(other.version(), "int", "long")
}

// target is the collection with the copies, as extref names it.
func (j joins) target(collection string) string { return collection + after(".", j.path(), "") }

// within is a path of the documents inside the copy.
func (j joins) within(path string) string {
	if in := j.path(); in != "" {
		return path[len(in)+1:]
	}
	return path
}

func (t *traffic) joined(more joins) {
	more.fields = slices.DeleteFunc(slices.Clone(more.fields), func(name string) bool { return name == "_id" })
	i := slices.IndexFunc(t.joins, func(j joins) bool { return j.from == more.from && j.local == more.local && j.key == more.key })
	if i < 0 {
		t.joins = append(t.joins, more)
		return
	}
	j := &t.joins[i]
	j.calls += more.calls
	j.finds += more.finds
	j.several += more.several
	for _, c := range more.seen {
		i := slices.IndexFunc(j.seen, func(o command) bool { return slices.Equal(o.Command, c.Command) })
		if i >= 0 {
			j.seen[i].calls += c.calls
		} else if len(j.seen) < replayValues {
			j.seen = append(j.seen, c)
		}
	}
	if more.fields == nil || j.fields == nil {
		j.fields = nil
		return
	}
	j.fields = append(j.fields, more.fields...)
}

// populate notes a find, by $in, for the documents that a field of an answer names.
func (t *traffic) populate(c command) {
	operator, _ := c.filter[0].Value.(bson.D)
	list, _ := at(operator, "$in").(bson.A)
	j := joins{from: c.Collection, local: c.From.Path, calls: c.calls, several: c.calls * int64(len(list))}
	if !c.read.all {
		j.fields = c.read.uses
	}
	t.joined(j)
}

// below are the paths under a name that a read uses; nil if it hands all of it on.
func below(r read, name string) []string {
	if r.all && !slices.Contains(r.without, name) {
		return nil
	}
	var fields []string
	for _, used := range r.uses {
		if used == name {
			return nil
		}
		if field, ok := strings.CutPrefix(used, name+"."); ok {
			fields = append(fields, field)
		}
	}
	return fields
}

func (l *looker) extref(ctx context.Context, c *collection) error {
	for _, j := range c.joins {
		if err := l.failed(ctx, l.join(ctx, c, j), "extref", c, j.local); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) join(ctx context.Context, c *collection, j joins) error {
	slices.Sort(j.fields)
	j.fields = slices.Compact(j.fields)
	source := l.all[j.from]
	if err := l.joinable(c, source, j); err != nil {
		return err
	}
	j.list = j.listed(c)
	arrays, err := c.astray(j)
	if err != nil {
		return err
	}
	if err := l.copyable(ctx, c, source, j); err != nil {
		return err
	}
	refs, unsure := l.referencesBy(ctx, c, j.local, j.from, cmp.Or(j.key, "_id"), extrefFound)
	switch {
	case unsure != nil && !errors.As(unsure, new(untold)):
		return unsure
	case unsure != nil: // the writes may refuse it anyway
	case refs.named == 0:
		return declined("no document has it")
	case !refs.enough:
		return declined(fmt.Sprintf("%s of those with it name no document of %s", share(refs.named-refs.found, refs.named), j.from))
	}
	saving, writes, err := l.worth(ctx, c, source, j, refs)
	if err := cmp.Or(err, unsure); err != nil {
		return err
	}
	return l.extrefFinding(ctx, c, source, j, refs, arrays, saving, writes)
}

// joinable declines what the reads and the two collections speak against.
func (l *looker) joinable(c, source *collection, j joins) error {
	reads := max(j.calls, j.finds)
	switch {
	case reads < extrefReads:
		return declined(fmt.Sprintf("%s %s %s", many(reads, "read"), verb(reads, "join"), j.from))
	case strings.HasPrefix(j.key, "_id.") || source != nil && len(source.multikey(j.key)) > 0:
		return declined(fmt.Sprintf("reads join %s by %s, which is in its _id or in arrays", j.from, j.key))
	case j.local == "":
		return declined(fmt.Sprintf("reads join %s by other conditions than one equality", j.from))
	case j.local == "_id" || strings.HasPrefix(j.local, "_id."):
		return declined("the reference is the _id, and the package takes another field")
	case len(j.fields) == 0:
		return declined(fmt.Sprintf("reads that join %s hand on all of it, or name no field", j.from))
	case len(j.fields) > extrefFields:
		return declined(fmt.Sprintf("reads want %d fields of %s", len(j.fields), j.from))
	case j.from == c.name:
		return declined("the collection is joined with itself")
	case source == nil:
		return declined(l.unseen(j.from))
	case source.count < extrefFewest:
		return declined(fmt.Sprintf("%s has %s: a service can keep them in its memory", j.from, many(source.count, "document")))
	case strings.Count(j.local, ".") >= depth:
		return declined("the reference is below the third name of a path")
	}
	return nil
}

// astray are conditions for the documents that have an array where the others have one reference. It declines if these are
// many.
func (c *collection) astray(j joins) (arrays bson.A, err error) {
	for _, path := range c.multikey(j.local) {
		switch {
		case path == j.list:
		case c.share(path, "array") > 1-extrefFound:
			return nil, declined("documents have an array in " + path + ": the reference must have one value")
		default:
			arrays = append(arrays, d(path, d("$type", "array")))
		}
	}
	return arrays, nil
}

// copyable declines if copies are there already, if writes would read the source more often than reads do, or if the key
// is not that of one source.
func (l *looker) copyable(ctx context.Context, c, source *collection, j joins) error {
	copied := !slices.ContainsFunc(j.fields, func(path string) bool { return !c.has(j.copyAt(path)) })
	if copied && (j.inside() == "" || j.managed(c)) { // without a version they were written by hand
		return declined("documents have the copies already: " + j.copyAt(j.fields[0]))
	}
	if j.list != "" {
		if err := l.inLists(ctx, c, j); err != nil {
			return err
		}
	}
	reads := max(j.calls, j.finds)
	if changed := c.writesTo([]string{j.local}) + c.inserts; changed > reads {
		return declined(fmt.Sprintf("%d reads join %s, but %d writes set the reference, and would each read the copies first", reads, j.from, changed))
	}
	unique, err := l.unique(ctx, source, j.key)
	if err != nil {
		return err
	}
	if !unique {
		return declined(fmt.Sprintf("reads join %s by %s, which several of its documents share", j.from, j.key))
	}
	return nil
}

// worth is what the copies save, and how many writes to their fields were seen. It declines if these cost more.
func (l *looker) worth(ctx context.Context, c, source *collection, j joins, refs leads) (saving Interval, writes int64, err error) {
	saving, joined, err := l.joining(ctx, j)
	if err != nil {
		return saving, 0, err
	}
	writes, copies := source.writesTo(j.fields), max(max(c.count, refs.named)/max(source.count, 1), 1)
	changed := writes * copies
	if j.calls >= extrefRatio*changed || joined >= extrefJoined*changed {
		return saving, writes, nil
	}
	reads := fmt.Sprintf("%d reads join %s", j.calls, j.from)
	if joined > 0 {
		reads += fmt.Sprintf(", %d documents in all", joined)
	}
	return saving, writes, declined(fmt.Sprintf("%s, but %d writes to %s would each change some %d copies", reads, writes, strings.Join(j.fields, ", "), copies))
}

func (l *looker) extrefFinding(ctx context.Context, c, source *collection, j joins, refs leads, arrays bson.A, saving Interval, writes int64) error {
	check, ok, err := l.withReference(ctx, c, j)
	if err != nil || !ok {
		return err
	}
	against, err := l.beforeCopies(ctx, c, source, &j)
	if err != nil {
		return err
	}
	grows, err := l.copying(ctx, c, j)
	if err != nil {
		return err
	}
	left, err := l.leftAstray(ctx, c, check, arrays)
	if err != nil {
		return err
	}
	l.found(Finding{
		Pattern: "extref", Collection: c.name, Path: j.local, Fields: j.fields,
		Summary: fmt.Sprintf("%d reads join %s by %s for %s alone; %s (%s) would hold a copy, and %s the fields.",
			j.calls, j.from, j.local, strings.Join(j.fields, ", "), many(check.Answer, "document"), check.sure(), many(writes, "write")+" seen changed"),
		Sure: check.how() + ": references; of queries: those that were seen",
		Facts: []Fact{
			{"documents with the reference", check.Answer, check.how()},
			{"of them naming a document of " + j.from, refs.found, refs.how},
			{"documents of " + j.from, source.count, kept},
			{"reads that join", j.calls, seen},
			{"writes to the fields", writes, seen},
		},
		Saving: saving, Grows: grows, try: tryExtref(c, source, j), others: []string{j.from},
		Code: l.extrefCode(ctx, c, source, j), takes: j.target(c.name),
		Check: check,
		Against: slices.Concat(against, []string{
			"Each field follows changes, unless it is Frozen: a price paid or an address shipped to must not. Decide for each.",
			"A change of the source writes every copy; writes that were not seen count, too.",
			"Two queries instead of a $lookup may be enough, and need no copies.",
		}, left),
	})
	return nil
}

// withReference counts the documents with the reference. It is not ok if the collection was emptied meanwhile.
func (l *looker) withReference(ctx context.Context, c *collection, j joins) (check Check, ok bool, err error) {
	part, query := d("$gt", bson.A{"$" + j.local, nil}), d(j.local, d("$ne", nil))
	if j.list != "" {
		part, query = d("$gt", bson.A{"$" + j.local, bson.A{}}), d(j.local, d("$exists", true))
	}
	return l.tally(ctx, c, partOf(part), bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: query}}, "n")
}

// beforeCopies says what has to be done first, and sets which copies get another name.
func (l *looker) beforeCopies(ctx context.Context, c, source *collection, j *joins) (against []string, err error) {
	against, err = l.byHand(ctx, c, source, j)
	if err != nil || j.key == "" {
		return against, err
	}
	drop, err := l.notUnique(ctx, source, j.key)
	return append(against, drop...), err
}

// leftAstray says how many documents have an array in place of the reference, which get no copies.
func (l *looker) leftAstray(ctx context.Context, c *collection, check Check, arrays bson.A) ([]string, error) {
	if arrays == nil {
		return nil, nil
	}
	several, have := "Some documents", "have"
	if !check.Estimated {
		count, err := l.check(ctx, bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d("$or", arrays)}}, "n")
		if err != nil {
			return nil, err
		}
		several, have = fmt.Sprintf("%s of %s", group(count.Answer), many(check.Answer, "document")), verb(count.Answer, "have")
	}
	return []string{fmt.Sprintf("%s with the reference %s an array there (%s): Adopt leaves these as they are, and counts them as Remaining.", several, have, check.how())}, nil
}

// joining asks the server what some of the reads examine, with and without the join, and estimates how many documents all
// of them join.
func (l *looker) joining(ctx context.Context, j joins) (out Interval, joined int64, err error) {
	out = Interval{Unit: "documents", What: "that reads no longer examine, of the reads that were seen with their values"}
	asked := int64(0)
	for _, c := range j.seen {
		with, err := l.examines(ctx, c.body)
		if err != nil {
			continue // a log cuts long commands
		}
		without, err := l.examines(ctx, c.without(j))
		if err != nil {
			continue
		}
		asked += c.calls
		out.Before += c.calls * with
		out.High += c.calls * max(with-without, 0)
	}
	if err := ctx.Err(); err != nil {
		return out, 0, err
	}
	if out.High == 0 {
		return Interval{What: "no read that joins was seen with its values, or those that were seen find nothing"}, j.finds + j.several, nil
	}
	out.Low = out.High
	return out, j.finds + j.several + out.High*j.calls/asked, nil
}

// examines is how many documents the server examines for a read.
func (l *looker) examines(ctx context.Context, body bson.D) (int64, error) {
	plan, err := l.run(ctx, l.db, bson.D{{Key: "explain", Value: sendable(body)}, {Key: "verbosity", Value: "executionStats"}})
	return documentsExamined(plan), err
}

// without is the aggregation without a join, whose array is made of the copies. A find is as it was.
func (c command) without(j joins) bson.D {
	if c.name != "aggregate" {
		return c.body
	}
	var stages bson.A
	unwound := false
	for _, p := range c.pipeline {
		name, value := stage(p)
		lookup, _ := value.(bson.D)
		unwound = unwound || name == "$unwind" && unwinds(value) == j.list
		if local, foreign, _ := equality(lookup); name != "$lookup" || at(lookup, "from") != j.from || local != j.local || foreign != cmp.Or(j.key, "_id") {
			stages = append(stages, p)
			continue
		}
		as, _ := at(lookup, "as").(string)
		stages = append(stages, d("$set", d(as, j.copies(j.list != "" && !unwound))))
	}
	return with(c.body, "pipeline", stages)
}

// copies are the documents of a join, made of the copies beside one reference, or beside those in a list.
func (j joins) copies(several bool) bson.D {
	place := func(path string) any { return "$" + path }
	if several {
		place = func(path string) any { return "$$this." + j.within(path) }
	}
	copied := bson.D{{Key: cmp.Or(j.key, "_id"), Value: place(j.local)}}
	for _, path := range j.fields {
		if !strings.Contains(path, ".") {
			copied = append(copied, bson.E{Key: path, Value: place(j.copyAt(path))})
		}
	}
	there := d("$ne", bson.A{d("$type", place(j.version())), "missing"})
	one := d("$cond", bson.A{there, bson.A{copied}, bson.A{}})
	if !several {
		return one
	}
	list := d("$ifNull", bson.A{"$" + j.list, bson.A{}})
	return d("$reduce", bson.D{{Key: "input", Value: list}, {Key: "initialValue", Value: bson.A{}}, {Key: "in", Value: d("$setUnion", bson.A{"$$value", one})}})
}

// inLists declines if the elements of a list get no copies: they have some already, or an array on the way to the
// reference.
func (l *looker) inLists(ctx context.Context, c *collection, j joins) error {
	for _, path := range append([]string{"version"}, j.fields...) {
		batch, err := l.aggregate(ctx, c.name, bson.A{d("$match", d(j.copyAt(path), d("$exists", true))), d("$limit", 1), d("$project", d("_id", 1))})
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			return declined("elements have the copies already: " + j.copyAt(path))
		}
	}
	arrays := bson.A{}
	for i, letter := range j.local + "." {
		if letter == '.' && i > len(j.list) {
			arrays = append(arrays, d("$isArray", "$"+j.local[:i]))
		}
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$unwind", "$"+j.list), d("$match", d("$expr", d("$or", arrays))), d("$limit", 1), d("$project", d("_id", 1))})
	if err != nil || len(batch) == 0 {
		return err
	}
	return declined("some elements have an array on the way to it: the reference must have one value")
}

// byHand says of fields that are there without extref what becomes of them. If more than a few differ from the source they
// stay as they are, because they are no copies or must not follow, and the copy gets another name.
func (l *looker) byHand(ctx context.Context, c, source *collection, j *joins) (against []string, err error) {
	if source.has("version") {
		against = append(against, fmt.Sprintf("Documents of %s have a field version: unless it is that of extref, name another one in Options.VersionField.", source.name))
	}
	if there := j.version(); c.has(there) { // Adopt passes over what has a version
		if j.managed(c) {
			against = append(against, there+" is there already: if it is that of extref, add the fields to its target instead.")
		}
		j.apart = append(j.apart, "version")
	}
	for _, path := range j.fields {
		here := j.copyAt(path)
		if !c.has(here) {
			continue
		}
		low, high, err := l.sums(ctx, c, differences(j.local, source, cmp.Or(j.key, "_id"), twin{here, path}), "part", "all")
		if err != nil {
			return nil, err
		}
		how := counted
		if l.slow(c) {
			how = guessed
		}
		differ := fmt.Sprintf("%s of %s %s from %s.%s (%s)", group(high[0]), group(high[1]), verb(high[0], "differ"), source.name, path, how)
		if float64(high[0]) > extrefStale*float64(low[1]) {
			j.apart = append(j.apart, path)
			against = append(against, fmt.Sprintf("%s is there, and %s, too many to overwrite: the copy gets another name.", here, differ))
			continue
		}
		against = append(against, fmt.Sprintf("%s, written by hand, becomes the copy: %s and would be overwritten by Adopt, unless the field is Frozen.", here, differ))
	}
	return against, nil
}

// copying is what the copies take, beyond what is there.
func (l *looker) copying(ctx context.Context, c *collection, j joins) ([]Interval, error) {
	copies, there := bson.D{{Key: "version", Value: d("$literal", int64(1))}}, bson.D{}
	long := int64(0) // the names are longer
	for _, path := range append([]string{"version"}, j.fields...) {
		at := j.copyAt(path)
		long += int64(len(at[strings.LastIndex(at, ".")+1:]) - len(path[strings.LastIndex(path, ".")+1:]))
	}
	for _, path := range j.fields {
		name := path[strings.LastIndex(path, ".")+1:]
		copies = append(copies, bson.E{Key: name, Value: d("$first", "$found."+path)})
		there = append(there, bson.E{Key: name, Value: "$" + j.copyAt(path)})
	}
	size := func(fields bson.D) bson.D { return d("$subtract", bson.A{d("$bsonSize", fields), 5}) }
	leading := func(n any) bson.D {
		return d("$sum", d("$cond", bson.A{d("$gt", bson.A{d("$size", "$found"), 0}), n, 0}))
	}
	var stages bson.A
	if j.list != "" {
		stages = bson.A{d("$unwind", "$"+j.list)}
	}
	low, high, err := l.sums(ctx, c, append(stages,
		d("$group", bson.D{{Key: "_id", Value: "$" + j.local}, {Key: "n", Value: d("$sum", 1)}, {Key: "there", Value: d("$sum", size(there))}}),
		d("$lookup", bson.D{{Key: "from", Value: j.from}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: cmp.Or(j.key, "_id")}, {Key: "as", Value: "found"}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", "$n")}, {Key: "n", Value: leading("$n")},
			{Key: "bytes", Value: leading(d("$subtract", bson.A{d("$multiply", bson.A{"$n", size(copies)}), "$there"}))}}),
	), "n", "bytes")
	if err != nil {
		return nil, err
	}
	least, most := low[0], c.count
	if j.list != "" { // a document has one key for all references to one source
		least, most = min(low[0], c.count), c.count+high[0]
	}
	return []Interval{{low[1] + low[0]*long, high[1] + high[0]*long, "bytes", ofDocuments, c.size}, {least, most, "keys", ofIndexes, c.count}}, nil
}

// leads is how many references there are, and how many lead to a document.
type leads struct {
	named, found int64
	enough       bool   // a share of them or more lead to one
	how          string // it was found, in the words of a Fact
}

// unique reports a key that no two documents share. That of _id is "".
func (l *looker) unique(ctx context.Context, c *collection, key string) (bool, error) {
	if key == "" {
		return true, nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$match", d(key, d("$ne", nil))),
		d("$group", bson.D{{Key: "_id", Value: "$" + key}, {Key: "n", Value: d("$sum", 1)}}),
		d("$match", d("n", d("$gt", 1))), d("$limit", 1),
	})
	return len(batch) == 0, err
}

// references counts the references, alone or in lists, and those that lead somewhere. Of a collection that takes too long to
// scan it estimates them, with the error untold if that does not say whether a share of them or more do.
func (l *looker) references(ctx context.Context, c *collection, field, to string, least float64) (leads, error) {
	return l.referencesBy(ctx, c, field, to, "_id", least)
}

// referencesBy counts references to a key of the other collection.
func (l *looker) referencesBy(ctx context.Context, c *collection, field, to, key string, least float64) (leads, error) {
	pipeline := bson.A{
		d("$match", d(field, d("$ne", nil))),
		d("$project", d("to", "$"+field)),
		d("$unwind", "$to"),
		d("$group", bson.D{{Key: "_id", Value: "$to"}, {Key: "n", Value: d("$sum", 1)}}), // each is looked up once
		d("$lookup", bson.D{
			{Key: "from", Value: to}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: key}, {Key: "as", Value: "found"},
			{Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}},
		}),
		d("$group", bson.D{
			{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", "$n")}, {Key: "found", Value: d("$sum", d("$multiply", bson.A{"$n", d("$size", "$found")}))},
		}),
	}
	if !l.slow(c) {
		batch, err := l.aggregate(ctx, c.name, pipeline)
		if err != nil || len(batch) == 0 {
			return leads{}, err
		}
		named, found := integer(batch[0], "all"), integer(batch[0], "found")
		return leads{named, found, named > 0 && float64(found) >= least*float64(named), counted}, nil
	}
	parts, err := l.ranged(ctx, c, pipeline)
	if err != nil {
		return leads{}, err
	}
	values, weights, named := c.figures(parts, "found")
	if len(values) == 0 {
		return leads{}, nil
	}
	e := estimated(values, weights)
	enough := e.mean-e.half >= least
	if !enough && e.mean+e.half >= least {
		return leads{}, untold{"references that name a document of " + to + " are " + e.unsteady(), l.tells(c)}
	}
	return leads{int64(named), int64(e.mean * named), enough, guessed}, nil
}
