package advise

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Three rules. One by one: at least relationFinds finds ask for the children of a parent one after the other, relationEach or
// more for each answer, by references. Most of these name an _id, and the others are what the package finds. Alone: at least relationAlone reads look for
// one embedded child by its _id, or get that child alone by another field that no two share, half of the reads of the
// list or more and as many as its writes, and no _id is there twice or names another document. Growing: a list of references takes half of the bytes
// or more, over 2 KiB on average, each child stands in one list alone, and $push was seen.
const (
	relationFinds  = 50
	relationEach   = 3
	relationFound  = 0.95
	relationAlone  = 50
	relationUnique = 0.99
	relationPushes = 10
	// relationNumbers is how many different numbers refer to an _id at least: few may be of anything.
	relationNumbers = 20
	// emptyList are the bytes of {a: []}, as lists are counted.
	emptyList = 13
)

// oneByOne are finds of children, each for one value of a parent that was read before.
type oneByOne struct {
	children string // the collection
	field    string // of the children with the parent's _id, or of the parent with theirs
	list     bool   // it is the parent's
	finds    int64
	parents  int64 // answers that the values are from
	others   int64 // finds between them for other values
}

// place is the collection with the field.
func (o oneByOne) place(parents *collection) string {
	if o.list {
		return parents.name
	}
	return o.children
}

// loop notes a find whose value an answer of this collection held.
func (t *traffic) loop(c command, l link) {
	up, first := c.filter[0].Key == "_id", c.From.First
	switch {
	case l.pattern == "tree" && up && l.field != "_id":
		t.climb(climbs{field: l.field, paths: c.calls})
	case l.pattern == "tree" && !up && c.From.Path == "_id" && first:
		t.climb(climbs{field: l.field, subtrees: c.calls})
	case up && l.list && c.From.Collection == c.Collection:
		if first {
			t.climb(climbs{field: l.field, lists: true, subtrees: c.calls})
		}
	case l.pattern == "relation" && c.From.Collection != c.Collection && (l.list || c.From.Path == "_id"):
		i := slices.IndexFunc(t.loops, func(o oneByOne) bool { return o.children == c.Collection && o.field == l.field && o.list == l.list })
		if i < 0 {
			i, t.loops = len(t.loops), append(t.loops, oneByOne{children: c.Collection, field: l.field, list: l.list})
		}
		t.loops[i].finds += c.calls
		t.loops[i].others += c.From.Others
		if first {
			t.loops[i].parents += c.calls
		}
	case l.pattern == "extref":
		j := joins{from: c.Collection, local: l.field, finds: c.calls}
		if first {
			j.calls = c.calls
		}
		if !c.read.all {
			j.fields = c.read.uses
		}
		t.joined(j)
	}
}

func (l *looker) relation(ctx context.Context, c *collection) error {
	const pattern = "relation"
	for _, o := range c.loops {
		if err := l.failed(ctx, l.children(ctx, c, o), pattern, &collection{name: o.place(c)}, o.field); err != nil {
			return err
		}
	}
	for _, j := range c.joins {
		if err := l.failed(ctx, l.broken(ctx, c, j), pattern, c, j.local); err != nil {
			return err
		}
	}
	for _, j := range c.gathers {
		if err := l.failed(ctx, l.together(ctx, c, j), pattern, c, j.from); err != nil {
			return err
		}
	}
	for _, path := range c.documentLists() {
		if err := l.failed(ctx, l.alone(ctx, c, path), pattern, c, path); err != nil {
			return err
		}
	}
	for _, a := range c.lists {
		if err := l.failed(ctx, l.growing(ctx, c, a), pattern, c, a.path); err != nil {
			return err
		}
	}
	return nil
}

// children are read one by one.
func (l *looker) children(ctx context.Context, c *collection, o oneByOne) error {
	const pattern = "relation"
	children := l.all[o.children]
	place, to := o.place(c), o.children
	if !o.list {
		to = c.name
	}
	switch {
	case children == nil || children.few() && c.few():
		return declined(l.unseen(o.children))
	case o.finds < relationFinds || o.finds < relationEach*o.parents:
		return declined(fmt.Sprintf("%s of %s one by one, for %s", many(o.finds, "find"), o.children, many(o.parents, "answer")))
	case strings.Contains(o.field, "."):
		return declined("the references are inside a subdocument")
	}
	in := l.all[place]
	refs, err := l.references(ctx, in, o.field, to, danglingShare)
	if err != nil {
		return err
	}
	named, found := refs.named, refs.found
	if !refs.enough {
		return declined(fmt.Sprintf("%s of the references name no document of %s", share(named-found, named), to))
	}
	owner, list := o.field, ""
	if o.list {
		owner, list = "", o.field
	}
	there := d("$ne", bson.A{d("$type", "$"+o.field), "missing"})
	check, ok, err := l.tally(ctx, in, partOf(there), bson.D{{Key: "count", Value: place}, {Key: "query", Value: d(o.field, d("$exists", true))}}, "n")
	if err != nil {
		return err
	}
	if !ok {
		return nil
	}
	l.found(Finding{
		Pattern: pattern, Collection: place, Path: o.field,
		Summary: fmt.Sprintf("%s of %s ask for one after the other, by values of %s of %s: %d on average. "+
			"One query gives them all; %s (%s) have the field, %s of the references lead to a document.",
			many(o.finds, "find"), o.children, many(o.parents, "answer"), c.name, o.finds/max(o.parents, 1),
			many(check.Answer, "document"), check.sure(), share(found, named)),
		Sure: check.how() + ": references; of queries: those that were seen, with the values of their answers",
		Facts: []Fact{
			{"documents with the field", check.Answer, check.how()},
			{"references", named, refs.how},
			{"of them leading to a document of " + to, found, refs.how},
			{"finds for one each", o.finds, seen},
			{"answers that they follow", o.parents, seen},
			{"finds between the first and the last of them for other values", o.others, seen},
		},
		Saving: Interval{Low: o.finds - o.parents, High: o.finds - o.parents, Before: o.finds, Unit: "round trips", What: "of the reads that were seen"},
		Code:   l.relationCode(ctx, c, children, owner, list),
		Check:  check,
		Against: []string{
			"One find with $in is the whole of it; the package adds the order, the dangling ones, and the other side.",
			"Children that are few, bounded and never read alone are better embedded: one round trip.",
		},
	})
	return nil
}

// documentLists are the arrays that hold documents, whatever their length.
func (c *collection) documentLists() []string {
	var paths []string
	for _, f := range c.fields {
		if f.kind == "array" && f.element == "object" && !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
	}
	slices.Sort(paths)
	return paths
}

// alone looks for embedded children that are read, or joined, by their own _id, or by another field of theirs.
func (l *looker) alone(ctx context.Context, c *collection, path string) error {
	all := int64(0)
	for _, r := range c.finds {
		if !r.counts && r.needs(path) {
			all += r.calls
		}
	}
	by, looking := c.byElement(path)
	switch {
	case looking == 0:
		return nil
	case looking < relationAlone || 2*looking < all:
		return declined(fmt.Sprintf("%d of %d reads of the list look for an element by its %s", looking, all, by))
	case c.writesTo([]string{path}) > looking:
		return declined(fmt.Sprintf("the list is written more often (%d) than an element of it is looked for (%d), and a new element takes 2 round trips", c.writesTo([]string{path}), looking))
	case strings.Contains(path, "."):
		return declined("the list is inside a subdocument; the package takes lists at the top")
	}
	own, err := l.ownIDs(ctx, c, path)
	if err != nil || own.all == 0 {
		return err
	}
	if by != "_id" {
		unique, err := l.distinct(ctx, c, path, by)
		if err != nil {
			return err
		}
		if float64(unique) < relationUnique*float64(own.all) {
			return declined(fmt.Sprintf("%s look for elements by %s, which has %s in %s", many(looking, "read"), by, many(unique, "value"), many(own.all, "element")))
		}
	}
	if err := l.nobodys(ctx, c, path+"._id", own.kind); err != nil {
		return err
	}
	return l.aloneFinding(ctx, c, path, own, by, looking, all)
}

// ownIDs are the _ids of a list's elements.
type ownIDs struct {
	distinct, all int64
	kind          string // the type of one
}

// ownIDs counts the _ids of a list's elements. It declines if there are few elements, or if several share an _id.
func (l *looker) ownIDs(ctx context.Context, c *collection, path string) (ownIDs, error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$unwind", "$"+path),
		d("$group", bson.D{{Key: "_id", Value: "$" + path + "._id"}, {Key: "n", Value: d("$sum", 1)}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "distinct", Value: d("$sum", 1)}, {Key: "all", Value: d("$sum", "$n")},
			{Key: "type", Value: d("$max", d("$type", "$_id"))}, {Key: "least", Value: d("$min", d("$type", "$_id"))}}),
	})
	if err != nil || len(batch) == 0 {
		return ownIDs{}, err
	}
	own := ownIDs{integer(batch[0], "distinct"), integer(batch[0], "all"), text(batch[0], "type")}
	switch {
	case float64(own.distinct) < relationUnique*float64(own.all) || own.kind == "missing" || own.kind == "null":
		return own, declined("elements have no _id, or share theirs: it is that of another document")
	case own.all < least:
		return own, declined("the lists have " + many(own.all, "element") + " together")
	}
	return own, nil
}

// nobodys declines _ids of elements that are those of another collection.
func (l *looker) nobodys(ctx context.Context, c *collection, id, kind string) error {
	for _, name := range slices.Sorted(maps.Keys(l.all)) {
		other := l.all[name]
		if other == c || other.idType != kind {
			continue
		}
		found, err := l.sampleFound(ctx, c, id, other.name, 1)
		if err != nil {
			return err
		}
		if found {
			return declined("the elements' _id are those of " + other.name)
		}
	}
	return nil
}

func (l *looker) aloneFinding(ctx context.Context, c *collection, path string, own ownIDs, by string, looking, all int64) error {
	size := d("$cond", bson.A{d("$isArray", "$"+path), d("$subtract", bson.A{d("$bsonSize", d("a", "$"+path)), emptyList}), 0})
	ids := d("$cond", bson.A{d("$isArray", "$"+path), d("$subtract", bson.A{d("$bsonSize", d("a", "$"+path+"._id")), emptyList}), 0}) // which stay
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: c.name},
		{Key: "pipeline", Value: bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "bytes", Value: d("$sum", size)}, {Key: "ids", Value: d("$sum", ids)}})}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "bytes")
	if err != nil {
		return err
	}
	if check.Answer > c.size {
		return untold{"the collection changes while it is counted", "another run"}
	}
	against := []string{
		"A read of a parent with its children takes 2 round trips instead of 1.",
		"A write to the parent and a child that must happen together needs a transaction then.",
		"Extract moves them; queries by " + path + "._id must change together with it.",
	}
	if by != "_id" {
		against[2] = fmt.Sprintf("Extract moves them; queries by %s.%s must change together with it, and the new collection needs an index on %s.", path, by, by)
	}
	l.found(Finding{
		Pattern: "relation", Collection: c.name, Path: path,
		Summary: fmt.Sprintf("%d of %d reads of the list look for one element by its %s; the server sends or searches all of its document for it. "+
			"The elements (%s, counted, no _id twice) are documents of their own already, but for their place.",
			looking, all, by, group(own.all)),
		Sure: "counted: elements, _ids and bytes; of queries: those that were seen",
		Facts: []Fact{
			{"documents", c.count, kept},
			{"elements", own.all, counted},
			{"different _ids", own.distinct, counted},
			{"bytes of the lists", check.Answer, counted},
			{"of them bytes of their _ids, which stay", check.figure("ids"), counted},
			{"reads that look for one element", looking, seen},
			{"reads of the list", all, seen},
		},
		Saving: Interval{Low: (check.Answer - check.figure("ids")) * looking / max(all, 1), High: check.Answer - check.figure("ids"), Before: c.size, Unit: "bytes", What: "that leave the parents, and so their reads and writes"},
		Code:   l.extractCode(ctx, c, path, own.kind), takes: "Extract", try: tryExtract(c, path, by),
		Check: check, Against: against,
	})
	return nil
}

// byElement is the field of a list's elements by which most reads look for one of them, and how many do. By another field
// than _id they get that element alone.
func (t *traffic) byElement(path string) (by string, looking int64) {
	by, calls := "_id", map[string]int64{}
	for _, r := range t.finds {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(r.match))) {
			name, inside := strings.CutPrefix(name, path+".")
			if !r.counts && inside && (name == "_id" || slices.Contains(r.picks, path)) {
				calls[name] += r.calls
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if calls[name] > calls[by] {
			by = name
		}
	}
	return by, calls[by]
}

// distinct is how many different values the elements of a list have in a field.
func (l *looker) distinct(ctx context.Context, c *collection, path, name string) (int64, error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$unwind", "$"+path),
		d("$match", d(path+"."+name, d("$ne", nil))),
		d("$group", d("_id", "$"+path+"."+name)),
		d("$count", "n"),
	})
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	return integer(batch[0], "n"), nil
}

// named is a field that refers to the _ids of a collection: one that a join or a loop of finds names, or whose values are
// among them. Small integers are among any, so that of numbers the names must be akin.
func (l *looker) named(ctx context.Context, c *collection) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(l.reads)) {
		for _, j := range l.reads[name].joins {
			if j.from == c.name && j.local != "" && j.key == "" {
				return name + "." + j.local, nil
			}
		}
		for _, o := range l.reads[name].loops {
			if o.list && o.children == c.name {
				return name + "." + o.field, nil
			}
		}
	}
	others, err := l.referring(ctx)
	if err != nil {
		return "", err
	}
	for _, other := range others {
		name := other.name
		if other == c || c.idType == "mixed" {
			continue
		}
		for _, path := range other.documentLists() {
			field, err := l.namedInside(ctx, c, other, path)
			if err != nil || field != "" {
				return name + "." + path + "." + field, err
			}
		}
		for _, f := range other.fields {
			number := slices.Contains(numbers, c.idType)
			refers := f.kind == c.idType || f.kind == "array" && f.element == c.idType || number && slices.Contains(numbers, f.kind)
			if f.path == "_id" || !refers || number && !akin(f.path, c.name) {
				continue
			}
			least := 1
			if number {
				least = int(min(relationNumbers, other.count))
			}
			found, err := l.sampleFound(ctx, other, f.path, c.name, least)
			if err != nil || found {
				return name + "." + f.path, err
			}
		}
	}
	return "", nil
}

// referring are all collections with documents, also the small ones, whose fields are looked for when they are needed.
func (l *looker) referring(ctx context.Context) (out []*collection, err error) {
	for _, name := range slices.Sorted(maps.Keys(l.all)) {
		out = append(out, l.all[name])
	}
	for _, c := range l.small {
		if c.count > 0 && c.fields == nil {
			if err := l.addFields(ctx, c, nil); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// namedInside is the field of a list's documents whose values are _ids of c.
func (l *looker) namedInside(ctx context.Context, c, other *collection, path string) (string, error) {
	inside := d("$cond", bson.A{d("$eq", bson.A{d("$type", "$l"), "object"}), d("$objectToArray", "$l"), bson.A{}})
	batch, err := l.aggregate(ctx, other.name, bson.A{
		d("$match", d(path, d("$type", "array"))),
		d("$limit", 200),
		d("$project", d("l", "$"+path)), d("$unwind", "$l"), d("$limit", 1000),
		d("$project", d("f", inside)), d("$unwind", "$f"),
		d("$match", d("f.v", d("$type", c.idType))),
		d("$group", bson.D{{Key: "_id", Value: "$f.k"}, {Key: "values", Value: d("$addToSet", "$f.v")}}),
		d("$lookup", bson.D{{Key: "from", Value: c.name}, {Key: "localField", Value: "values"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "found"},
			{Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}}}),
		d("$project", bson.D{{Key: "named", Value: d("$size", "$values")}, {Key: "found", Value: d("$size", "$found")}}),
		d("$sort", d("_id", 1)), d("$limit", 100),
	})
	for _, raw := range batch {
		field, named := text(raw, "_id"), integer(raw, "named")
		numeric := slices.Contains(numbers, c.idType) && (named < relationNumbers || !akin(field, c.name))
		if 2*integer(raw, "found") >= named && !numeric {
			return field, nil
		}
	}
	return "", err
}

// sampleFound reports whether half of a field's values, and least different ones, are _ids of another collection.
func (l *looker) sampleFound(ctx context.Context, c *collection, value, other string, least int) (bool, error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$match", d(value, d("$ne", nil))),
		d("$limit", 200),
		d("$project", d("to", d("$slice", bson.A{d("$cond", bson.A{d("$isArray", "$"+value), "$" + value, bson.A{"$" + value}}), 5}))),
		d("$lookup", bson.D{
			{Key: "from", Value: other}, {Key: "localField", Value: "to"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "found"},
			{Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}},
		}),
		d("$group", bson.D{{Key: "_id", Value: nil},
			{Key: "named", Value: d("$sum", d("$size", "$to"))}, {Key: "found", Value: d("$sum", d("$size", "$found"))},
			{Key: "different", Value: d("$addToSet", d("$first", "$to"))}}),
		d("$set", d("different", d("$size", "$different"))),
	})
	if err != nil || len(batch) == 0 {
		return false, err
	}
	return 2*integer(batch[0], "found") >= integer(batch[0], "named") && integer(batch[0], "different") >= int64(least), nil
}

// growing looks for lists of references that could be one reference in each child.
func (l *looker) growing(ctx context.Context, c *collection, a *list) error {
	pushes := c.pushes[a.path]
	heavy := 2*a.bytes >= a.all && a.bytes/max(a.docs, 1) > 2<<10
	if a.element == "object" || a.element == "array" || !heavy || pushes == 0 {
		return nil
	}
	if pushes < relationPushes || strings.Contains(a.path, ".") {
		return declined(fmt.Sprintf("%d $push were seen, or the list is inside a subdocument", pushes))
	}
	for _, name := range slices.Sorted(maps.Keys(l.all)) { // so that each run names the same
		children := l.all[name]
		if children.idType != a.element || slices.Contains([]string{"int", "long", "double"}, a.element) && !akin(a.path, children.name) {
			continue
		}
		found, err := l.sampleFound(ctx, c, a.path, children.name, 1)
		if err != nil {
			return err
		}
		if found {
			return l.owned(ctx, c, children, a, pushes)
		}
	}
	return declined("the elements are no _ids of another collection")
}

// owned counts whether each child stands in one list alone, and names nobody itself.
func (l *looker) owned(ctx context.Context, c, children *collection, a *list, pushes int64) error {
	const pattern = "relation"
	pipeline := bson.A{
		d("$project", d("to", "$"+a.path)),
		d("$unwind", "$to"),
		d("$group", bson.D{{Key: "_id", Value: "$to"}, {Key: "n", Value: d("$sum", 1)}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "children", Value: d("$sum", 1)}, {Key: "references", Value: d("$sum", "$n")}}),
	}
	check, err := l.check(ctx, bson.D{{Key: "aggregate", Value: c.name}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}},
		"cursor", "firstBatch", "0", "children")
	if err != nil {
		return err
	}
	if all := check.figure("references"); float64(check.Answer) < relationUnique*float64(all) {
		return declined(fmt.Sprintf("%s of the references name a child that another names, too: many to many", share(all-check.Answer, all)))
	}
	refs, err := l.references(ctx, c, a.path, children.name, relationFound)
	if err != nil {
		return err
	}
	named, found := refs.named, refs.found
	if !refs.enough {
		return declined(fmt.Sprintf("%s of the references name no document of %s", share(named-found, named), children.name))
	}
	back, err := l.namesBack(ctx, c, children, a.path)
	if err != nil {
		return err
	}
	if back != "" {
		return declined("the children name their parent already, in " + back)
	}
	owner := "owner"
	for children.has(owner) {
		owner += "_id"
	}
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: a.path,
		Summary: fmt.Sprintf("The lists of references take %s of the bytes (%s), up to %s each, and grow: %d $push were seen. "+
			"Each of %s children (counted) stands in one list alone, so that one field in the child says the same and no document grows.",
			share(a.bytes, a.all), a.how(), many(a.longest(), "element"), pushes, group(check.Answer)),
		Sure: a.how() + ": lengths, bytes and references; of queries: those that were seen",
		Facts: []Fact{
			{"documents", a.total, a.how()},
			{"references", check.figure("references"), counted},
			{"different children", check.Answer, counted},
			{"of the references leading to a document of " + children.name, found, refs.how},
			{"elements of the longest list", a.longest(), a.how()},
			{"$push to the list", pushes, seen},
		},
		Saving: Interval{Low: a.bytes - emptyList*a.docs, High: a.bytes, Before: a.all, Unit: "bytes", What: "that leave the parents, and so their reads and writes"},
		Code:   l.relationCode(ctx, c, children, owner, a.path), takes: "Repair",
		Check:        check,
		Distribution: a.bars,
		Against: []string{
			"An order that the list has is lost, unless a field of the children gives it: see Sort.",
			"Each child gets a field and an index on it: bytes move there, they do not vanish.",
			"Repair writes the owners from the lists. The list, and ChildrenField, can go when no program reads it.",
		},
	})
	return nil
}

// namesBack is a field of children that holds the _id of the parent whose list has them.
func (l *looker) namesBack(ctx context.Context, c, children *collection, path string) (string, error) {
	var names []string
	group := bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: d("$sum", 1)}}
	for _, name := range children.tops() {
		if children.has(name, c.idType) && name != "_id" && len(names) < 50 {
			same := d("$eq", bson.A{"$_id", d("$first", "$child."+name)})
			group = append(group, bson.E{Key: fmt.Sprint("f", len(names)), Value: d("$sum", d("$cond", bson.A{same, 1, 0}))})
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$limit", 100),
		d("$project", d("to", d("$slice", bson.A{d("$cond", bson.A{d("$isArray", "$"+path), "$" + path, bson.A{}}), 10}))),
		d("$unwind", "$to"),
		d("$lookup", bson.D{{Key: "from", Value: children.name}, {Key: "localField", Value: "to"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "child"}}),
		d("$group", group),
	})
	if err != nil || len(batch) == 0 {
		return "", err
	}
	for i, name := range names {
		if 2*integer(batch[0], fmt.Sprint("f", i)) > integer(batch[0], "n") {
			return name, nil
		}
	}
	return "", nil
}

// akin reports two names that may mean the same: tasks and task_ids, or konto and konten. Small integers
// are in any _id.
func akin(a, b string) bool {
	plain := func(s string) string {
		s = strings.ToLower(s)
		for _, end := range []string{"_ids", "_id", "ids", "id", "_list"} {
			s = strings.TrimSuffix(s, end)
		}
		return strings.TrimSuffix(s, "s")
	}
	a, b = plain(a), plain(b)
	return len(a) > 1 && len(b) > 1 && (strings.Contains(a, b) || strings.Contains(b, a) || inflected(a, b))
}

// inflected reports two forms of a word: they begin alike, with four letters or more, and end in other letters, one of the
// shorter form and two of the longer one at most.
func inflected(a, b string) bool {
	short, long := []rune(a), []rune(b)
	if len(short) > len(long) {
		short, long = long, short
	}
	stem := 0
	for stem < len(short) && short[stem] == long[stem] {
		stem++
	}
	return stem >= 4 && stem >= len(short)-1 && stem >= len(long)-2
}
