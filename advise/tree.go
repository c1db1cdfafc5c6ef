package advise

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least treeReads $graphLookups of a collection in itself, or walks of finds, climb or descend
// by one field, at least as many as its writes, which names an _id in treeFound of the documents that have it, with
// more than one child a parent on average, and three levels or more. The field may be a list of children instead, each of
// which is in one list alone, or in several without a circle: as many nodes have no children as have no parent then, at least.
const (
	treeReads = 10
	treeFound = 0.95

	dirtyShare = 1 - treeFound // of the documents may be of another shape
)

// climbs are the $graphLookups in a collection by one field.
type climbs struct {
	in       string // the collection
	field    string
	by       string // which fields are compared, where neither is _id
	lists    bool   // the field holds the children
	subtrees int64  // reads of all below
	paths    int64  // reads of all above
}

// climb notes reads of all below, or all above.
func (t *traffic) climb(more climbs) {
	i := slices.IndexFunc(t.graphs, func(c climbs) bool { return c.field == more.field && c.by == more.by })
	if i < 0 {
		i = len(t.graphs)
		t.graphs = append(t.graphs, climbs{field: more.field, by: more.by, lists: more.lists})
	}
	t.graphs[i].subtrees += more.subtrees
	t.graphs[i].paths += more.paths
}

// level is a find for the children of several parents.
type level struct {
	field   string
	parents bson.A
}

// Bounds of the finds, and of their parents, that are compared.
const (
	levelsKept  = 100
	levelLength = 200
)

func (t *traffic) level(c command) {
	if c.name != "find" || len(c.filter) != 1 || len(t.levels) == levelsKept {
		return
	}
	operator, _ := c.filter[0].Value.(bson.D)
	list, _ := at(operator, "$in").(bson.A)
	if len(operator) == 1 && len(list) > 0 && len(list) <= levelLength && c.filter[0].Key != "_id" {
		t.levels = append(t.levels, level{c.filter[0].Key, list})
	}
}

// walks notes the subtrees that finds read level by level: each find after the first one for children of the documents
// that the find before it gave. The server compares.
func (l *looker) walks(ctx context.Context, c *collection) error {
	group, walks, children := bson.D{{Key: "_id", Value: nil}}, map[string]int{}, bson.A{}
	for i, next := range c.levels {
		if i == 0 || c.levels[i-1].field != next.field || !c.has(next.field, c.idType) {
			continue
		}
		children = append(children, next.parents...)
		child := d("$and", bson.A{d("$in", bson.A{"$_id", d("$literal", next.parents)}), d("$in", bson.A{"$" + next.field, d("$literal", c.levels[i-1].parents)})})
		group = append(group, bson.E{Key: fmt.Sprint("l", i), Value: d("$sum", d("$cond", bson.A{child, 1, 0}))})
	}
	if len(group) < treeReads {
		return nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$match", d("_id", d("$in", children))), d("$group", group)})
	if err != nil || len(batch) == 0 {
		return err
	}
	follows := func(i int) bool {
		return i > 0 && c.levels[i].field == c.levels[i-1].field && integer(batch[0], fmt.Sprint("l", i)) == int64(len(c.levels[i].parents))
	}
	for i, next := range c.levels {
		if follows(i) && !follows(i-1) {
			walks[next.field]++
		}
	}
	for _, field := range slices.Sorted(maps.Keys(walks)) {
		c.climb(climbs{field: field, subtrees: int64(walks[field])})
	}
	return nil
}

func (l *looker) tree(ctx context.Context, c *collection) error {
	if err := l.walks(ctx, c); err != nil {
		if err := l.failed(ctx, err, "tree", c, ""); err != nil {
			return err
		}
	}
	for _, g := range c.graphs {
		if err := l.failed(ctx, l.climb(ctx, c, g), "tree", c, g.field); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) climb(ctx context.Context, c *collection, g climbs) error {
	switch {
	case g.subtrees+g.paths < treeReads:
		return declined(many(g.subtrees+g.paths, "read") + " up or down the tree")
	case g.by != "":
		return declined("the $graphLookup goes " + g.by + ", and the package's references are to _id")
	case c.writesTo([]string{g.field}) > g.subtrees+g.paths:
		return declined(fmt.Sprintf("%d moves were seen, and %d reads up or down the tree: a move writes every document below", c.writesTo([]string{g.field}), g.subtrees+g.paths))
	case strings.Contains(g.field, "."):
		return declined("the reference is inside a subdocument; the package takes fields at the top")
	case g.lists:
		return l.descend(ctx, c, g)
	}
	links, err := l.links(ctx, c, g.field)
	if err != nil {
		return err
	}
	if links.derived != "" {
		c.derived = []string{g.field, links.derived}
	}
	switch {
	case links.named == 0:
		return declined("no document has a parent there")
	case float64(links.arrays) >= treeFound*float64(links.named): // up these lists is down the tree
		g.subtrees, g.paths = g.subtrees+g.paths, 0
		return l.descend(ctx, c, g)
	case float64(links.arrays) > dirtyShare*float64(links.named):
		return declined(links.astray() + ": a graph, not a tree")
	case float64(links.found-links.self) < treeFound*float64(links.named):
		return declined(links.astray())
	case links.under > 0:
		return declined(fmt.Sprintf("%s a parent that names itself: Adopt would leave these and all below them, so set the parent of a root to null first. To find the roots: find({$expr: {$eq: [\"$_id\", \"$%s\"]}})", has(links.under), g.field))
	case links.named >= c.count:
		return declined("every document has a parent: there are circles")
	case links.named <= links.parents:
		return declined("is a chain: no document has two children")
	case links.grand == 0:
		return declined("has two levels: one query gives the children")
	}
	return l.treeFinding(ctx, c, g, links)
}

func (l *looker) treeFinding(ctx context.Context, c *collection, g climbs, links links) error {
	check, err := l.check(ctx, bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d(g.field, d("$ne", nil))}}, "n")
	if err != nil {
		return err
	}
	grows, err := l.ancestors(ctx, c, g.field)
	if err != nil {
		return err
	}
	f := Finding{
		Pattern: "tree", Collection: c.name, Path: g.field,
		Summary: fmt.Sprintf("%s (counted) have a parent in %s, %s of them one that exists, in three levels or more; "+
			"of the reads seen, %s went down, by $graphLookup or by finds, and %s up. With the ancestors in each document one range of an index gives a subtree, and one document the way up.",
			many(check.Answer, "document"), g.field, share(links.found, links.named), many(g.subtrees, "read"), many(g.paths, "read")),
		Sure: "counted: references; of queries: those that were seen",
		Facts: []Fact{
			{"documents", c.count, kept},
			{"documents with a parent", check.Answer, counted},
			{"documents that are a parent", links.parents, counted},
			{"documents with a grandparent", links.grand, counted},
			{"documents whose parent does not exist", links.named - links.found - links.arrays, counted},
			{"documents with an array as their parent", links.arrays, counted},
			{"documents that are their own parent", links.self, counted},
			{"reads of a subtree", g.subtrees, seen},
			{"reads of the way up", g.paths, seen},
			{"writes to the parent", c.writesTo([]string{g.field}), seen},
		},
		Saving: Interval{What: "a read takes one query instead of one for each level, of as many documents; what that is worth, -try shows"},
		Grows:  grows, try: tryTree(c, g.field),
		Code:  l.treeCode(ctx, c, g.field),
		Check: check,
		Against: []string{
			"A move writes every document below; where moves are frequent, ParentReferences with the package's guards is cheaper.",
			"Other programs that insert or move must change together with this one.",
			"Without an index on " + g.field + " every level scans the collection: that index may be all you need.",
		},
	}
	if links.found-links.self < links.named {
		f.Against = append(f.Against, links.astray()+" (counted): Adopt leaves these and all below them as they are, and counts them as Remaining.")
	}
	l.found(f)
	return nil
}

// descend looks at nodes that list their children.
func (l *looker) descend(ctx context.Context, c *collection, g climbs) error {
	const pattern = "tree"
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: c.name},
		{Key: "pipeline", Value: bson.A{
			d("$match", d(g.field+".0", d("$exists", true))), d("$project", d("to", "$"+g.field)), d("$unwind", "$to"),
			d("$group", bson.D{{Key: "_id", Value: "$to"}, {Key: "n", Value: d("$sum", 1)}, {Key: "from", Value: d("$addToSet", "$_id")}}),
			d("$lookup", bson.D{{Key: "from", Value: c.name}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "child"},
				{Key: "pipeline", Value: bson.A{d("$project", d("inner", d("$gt", bson.A{"$" + g.field, bson.A{}})))}}}),
			d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "children", Value: d("$sum", 1)}, {Key: "named", Value: d("$sum", "$n")},
				{Key: "found", Value: d("$sum", d("$size", "$child"))},
				{Key: "inner", Value: d("$sum", d("$cond", bson.A{d("$ifNull", bson.A{d("$first", "$child.inner"), false}), 1, 0}))}}),
		}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "children")
	if err != nil {
		return err
	}
	named, found, inner := check.figure("named"), check.figure("found"), check.figure("inner")
	graph, alone := check.Answer < named, "each in one list alone"
	if graph {
		alone = "some in several lists, without a circle"
		acyclic, err := l.acyclic(ctx, c, g.field, c.count-found)
		if err != nil {
			return err
		}
		if !acyclic {
			return declined(fmt.Sprintf("%s of %s name a document that another names, too: a graph, not a tree", group(named-check.Answer), many(named, "reference")))
		}
	}
	switch {
	case float64(found) < treeFound*float64(check.Answer):
		return declined(fmt.Sprintf("%s of the references name no document", share(check.Answer-found, check.Answer)))
	case found >= c.count:
		return declined("every document has a parent: there are circles")
	case inner == 0:
		return declined("has two levels: one query gives the children")
	}
	levels := "The query is a $graphLookup, which reads level by level; Convert to AncestorArray makes a subtree one range of an index."
	if graph {
		levels = "The query is a $graphLookup, which reads level by level; the package refuses circles, and dirty lists with one are Remaining."
	}
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: g.field,
		Summary: fmt.Sprintf("The lists of %s name %s (counted), %s, in three levels or more; %s seen went down, by $graphLookup or by finds for one after the other. "+
			"With the package one query gives a subtree.", g.field, many(check.Answer, "document"), alone, many(g.subtrees, "read")),
		Sure: "counted: references; of queries: those that were seen",
		Facts: []Fact{
			{"documents", c.count, kept},
			{"documents that a list names", check.Answer, counted},
			{"of them with children", inner, counted},
			{"of the documents that a list names, those that do not exist", check.Answer - found, counted},
			{"reads of a subtree", g.subtrees, seen},
		},
		Saving: Interval{What: "a read takes one query instead of one for each document, of as many documents; what that is worth, -try shows"},
		Code:   l.childrenCode(ctx, c, g.field, graph), try: tryChildren(c, g.field, graph),
		Check: check,
		Against: []string{
			levels,
			"Other programs that insert or move must change together with this one.",
			"One find by $in for each level may be enough, and needs no package.",
		},
	})
	return nil
}

// acyclic reports lists of children without a circle, of a collection that is small enough to follow all of them. As many
// nodes as no list names have no children, or more: otherwise the lists name parents.
func (l *looker) acyclic(ctx context.Context, c *collection, field string, roots int64) (bool, error) {
	if c.count > wholeCount {
		return false, nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$project", d("to", "$"+field)),
		d("$graphLookup", bson.D{{Key: "from", Value: c.name}, {Key: "startWith", Value: "$to"}, {Key: "connectFromField", Value: field}, {Key: "connectToField", Value: "_id"}, {Key: "as", Value: "below"}}),
		d("$group", bson.D{{Key: "_id", Value: nil},
			{Key: "leaves", Value: d("$sum", d("$cond", bson.A{d("$eq", bson.A{"$below", bson.A{}}), 1, 0}))},
			{Key: "circles", Value: d("$sum", d("$cond", bson.A{d("$in", bson.A{"$_id", "$below._id"}), 1, 0}))}}),
	})
	if err != nil || len(batch) == 0 {
		return false, err
	}
	return integer(batch[0], "circles") == 0 && integer(batch[0], "leaves") >= roots, nil
}

// ancestors is what the array of ancestors takes: of each document in a small collection, and of a sample of a large one.
func (l *looker) ancestors(ctx context.Context, c *collection, field string) ([]Interval, error) {
	var pipeline bson.A
	if c.count > wholeCount {
		pipeline = bson.A{d("$sample", d("size", min(sampleSize, c.count/20)))}
	}
	batch, err := l.aggregate(ctx, c.name, append(pipeline,
		d("$graphLookup", bson.D{{Key: "from", Value: c.name}, {Key: "startWith", Value: "$" + field}, {Key: "connectFromField", Value: field}, {Key: "connectToField", Value: "_id"}, {Key: "as", Value: "up"}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: d("$sum", 1)},
			{Key: "keys", Value: d("$sum", d("$max", bson.A{1, d("$size", "$up")}))},
			{Key: "bytes", Value: d("$sum", d("$subtract", bson.A{d("$bsonSize", d("ancestors", "$up._id")), 5}))}})))
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	all := func(name string) int64 { return integer(batch[0], name) * c.count / max(integer(batch[0], "n"), 1) }
	bytes, keys := all("bytes"), all("keys")
	if pipeline == nil {
		return []Interval{{bytes, bytes, "bytes", ofDocuments, c.size}, {keys, keys + c.count, "keys", ofIndexes, c.count}}, nil
	}
	return []Interval{{bytes * 3 / 4, bytes * 5 / 4, "bytes", ofDocuments, c.size}, {keys * 3 / 4, keys*5/4 + c.count, "keys", ofIndexes, c.count}}, nil
}

// links are the references of a field to _id.
type links struct {
	named, found, self, grand, parents int64
	arrays                             int64 // of named, and not of found
	under                              int64 // of found: those whose parent names itself
	// derived is a field whose last ancestor is the parent: a list of them, or a path between delimiters.
	derived string
}

// astray says how many references do not name one other document.
func (l links) astray() string {
	var parts []string
	gone := l.named - l.found - l.arrays
	for _, p := range []struct {
		n    int64
		what string
	}{
		{gone, verb(gone, "name") + " no document"},
		{l.arrays, verb(l.arrays, "have") + " an array there"},
		{l.self, either(l.self, "names itself", "name themselves")},
	} {
		number := group(p.n)
		if parts == nil {
			number += " of " + many(l.named, "document") + " with a parent"
		}
		if p.n > 0 {
			parts = append(parts, number+" "+p.what)
		}
	}
	return strings.Join(parts, ", ")
}

// endsWith reports a path that names the parent last, before its delimiter.
func endsWith(path, parent string) bson.D {
	size := func(name string) bson.D { return d("$strLenCP", name) }
	begin := d("$subtract", bson.A{size("$$path"), d("$add", bson.A{size("$$parent"), 1})})
	return d("$let", bson.D{
		{Key: "vars", Value: bson.D{
			{Key: "path", Value: d("$cond", bson.A{d("$eq", bson.A{d("$type", path), "string"}), path, ""})},
			{Key: "parent", Value: d("$convert", bson.D{{Key: "input", Value: parent}, {Key: "to", Value: "string"}, {Key: "onError", Value: ""}, {Key: "onNull", Value: ""}})},
		}},
		{Key: "in", Value: d("$cond", bson.A{
			d("$and", bson.A{d("$ne", bson.A{"$$parent", ""}), d("$gt", bson.A{begin, 0})}),
			d("$eq", bson.A{d("$substrCP", bson.A{"$$path", d("$max", bson.A{begin, 0}), size("$$parent")}), "$$parent"}),
			false,
		})},
	})
}

func (l *looker) links(ctx context.Context, c *collection, field string) (links, error) {
	exists := func(value any) bson.D { return d("$gt", bson.A{value, nil}) }
	sum := func(n, condition any) bson.D { return d("$sum", d("$cond", bson.A{condition, n, 0})) }
	group := bson.D{{Key: "_id", Value: "$" + field}, {Key: "named", Value: d("$sum", 1)}, {Key: "self", Value: sum(1, d("$eq", bson.A{"$_id", "$" + field}))}}
	single := d("$not", bson.A{d("$isArray", "$_id")}) // a lookup by an array finds each of its values
	total := bson.D{}
	var candidates []string
	for _, name := range c.tops() {
		var told bson.D
		switch {
		case name == field || name == "_id" || len(candidates) == 20:
			continue
		case c.has(name, "array"):
			told = d("$eq", bson.A{d("$cond", bson.A{d("$isArray", "$"+name), d("$last", "$"+name), nil}), "$" + field})
		case c.has(name, "string"):
			told = endsWith("$"+name, "$"+field)
		default:
			continue
		}
		key := fmt.Sprint("derived", len(candidates))
		candidates = append(candidates, name)
		group = append(group, bson.E{Key: key, Value: sum(1, told)})
		total = append(total, bson.E{Key: key, Value: d("$sum", "$"+key)})
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$match", d(field, d("$ne", nil))),
		// Each parent is looked up once.
		d("$group", group),
		d("$lookup", bson.D{
			{Key: "from", Value: c.name}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "found"},
			{Key: "pipeline", Value: bson.A{d("$project", d("up", "$"+field))}},
		}),
		d("$group", append(total,
			bson.E{Key: "_id", Value: nil}, bson.E{Key: "parents", Value: sum(1, single)},
			bson.E{Key: "named", Value: d("$sum", "$named")},
			bson.E{Key: "arrays", Value: sum("$named", d("$isArray", "$_id"))},
			bson.E{Key: "found", Value: sum("$named", d("$and", bson.A{single, d("$gt", bson.A{d("$size", "$found"), 0})}))},
			bson.E{Key: "self", Value: d("$sum", "$self")},
			bson.E{Key: "under", Value: sum(d("$subtract", bson.A{"$named", "$self"}), d("$gt", bson.A{"$self", 0}))},
			bson.E{Key: "grand", Value: sum("$named", d("$and", bson.A{single, exists(d("$first", "$found.up")), d("$ne", bson.A{d("$first", "$found.up"), "$_id"})}))},
		)),
	})
	if err != nil || len(batch) == 0 {
		return links{}, err
	}
	n := func(name string) int64 { return integer(batch[0], name) }
	out := links{n("named"), n("found"), n("self"), n("grand"), n("parents"), n("arrays"), n("under"), ""}
	for i, name := range candidates {
		if float64(n(fmt.Sprint("derived", i))) >= treeFound*float64(out.named) {
			out.derived = name
		}
	}
	return out, nil
}
