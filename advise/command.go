package advise

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// command is a query, understood once: detectors, shapes, loops and replays ask it, and not the BSON.
type command struct {
	Query
	name  string // find
	body  bson.D
	calls int64

	// What a find asks for, and an aggregation in the stages that it begins with.
	filter      bson.D
	sort        bson.D
	skip, limit any
	grouped     bool // then all is read, whatever the order
	skips       bool // it skips documents in an order, there or later
	pages       []page
	pipeline    bson.A

	read       *read // what it needs of documents; nil: it reads none
	joins      []joins
	gathers    []joins // from _id to a field of a collection
	firsts     []newest
	graphs     []climbs
	inner      map[string][]read // of the collections that it joins
	statements []statement
	removals   []write // deletes of one document
	purges     []write // of many
}

// statement is an update, alone or in a findAndModify.
type statement struct {
	write
	filter, update bson.D
	shape          bson.D // to be printed
	pushes         []push
	shortens       []string // lists that it takes elements from, or sets
}

// push is a $push that drops nothing.
type push struct {
	path    string
	element any
}

func parse(q Query) (c command, ok bool) {
	if bson.Unmarshal(q.Command, &c.body) != nil || len(c.body) == 0 {
		return c, false
	}
	c.Query, c.name, c.calls = q, c.body[0].Key, max(q.Calls, 1)
	switch c.name {
	case "find":
		c.filter = flat(at(c.body, "filter"))
		c.sort, _ = at(c.body, "sort").(bson.D)
		c.skip, c.limit = at(c.body, "skip"), at(c.body, "limit")
		c.skips = positive(c.skip) && positive(c.limit)
		c.pages = []page{{c.filter, c.sort, c.skip, c.limit, nil}}
		c.read = find(c.body, c.calls)
	case "aggregate":
		c.pipeline, _ = at(c.body, "pipeline").(bson.A)
		c.begin()
		c.pages = page{}.of(c.pipeline)
		c.skips = skipsInOrder(c.pipeline, false)
		c.read = aggregation(c.pipeline, c.calls)
		c.follow()
	case "count", "distinct":
		c.filter = flat(at(c.body, "query"))
		c.read = &read{calls: c.calls, uses: filterPaths(at(c.body, "query")), counts: true}
		if key, ok := at(c.body, "key").(string); ok {
			c.read.uses = append(c.read.uses, key)
		}
	case "findAndModify", "findandmodify":
		c.read = &read{calls: c.calls, uses: filterPaths(at(c.body, "query")), all: true, modifies: true}
		c.read.project(at(c.body, "fields"))
		if update := at(c.body, "update"); update != nil {
			c.statements = []statement{c.statement(at(c.body, "query"), update, c.body, c.body)}
		}
	case "delete":
		all, _ := at(c.body, "deletes").(bson.A)
		for _, one := range all {
			removed, _ := one.(bson.D)
			w := write{calls: c.calls, by: flat(at(removed, "q"))}
			if no(at(removed, "limit")) {
				c.purges = append(c.purges, w)
			} else {
				c.removals = append(c.removals, w)
			}
		}
	case "update":
		all, _ := at(c.body, "updates").(bson.A)
		for _, one := range all {
			if u, ok := one.(bson.D); ok {
				c.statements = append(c.statements, c.statement(at(u, "q"), at(u, "u"), u, bson.D{c.body[0], {Key: "updates", Value: bson.A{u}}}))
			}
		}
	}
	return c, true
}

// flat is a filter without $and, as mappers write it: a condition for each field. If a field has several that do not go
// together, or a branch has an operator, the filter is as it was.
func flat(filter any) bson.D {
	document, _ := filter.(bson.D)
	var out bson.D
	for _, f := range document {
		branches := bson.A{bson.D{f}}
		if f.Key == "$and" {
			branches, _ = f.Value.(bson.A)
		}
		for _, branch := range branches {
			inner, _ := branch.(bson.D)
			for _, g := range inner {
				i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == g.Key })
				if i < 0 && (f.Key != "$and" || !strings.HasPrefix(g.Key, "$")) {
					out = append(out, g)
					continue
				}
				both, ok := together(out, i, g)
				if !ok {
					return document
				}
				out[i].Value = both
			}
		}
	}
	if len(out) == 0 {
		return document
	}
	return out
}

// together are two ranges of one field.
func together(filter bson.D, i int, f bson.E) (both bson.D, ok bool) {
	if i < 0 {
		return nil, false
	}
	a, _ := filter[i].Value.(bson.D)
	b, _ := f.Value.(bson.D)
	both = slices.Concat(a, b)
	names := slices.Sorted(slices.Values(operatorsOf(both)))
	return both, len(a) > 0 && len(b) > 0 && len(slices.Compact(names)) == len(both) && !slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "$") })
}

// operatorsOf are all keys of a condition.
func operatorsOf(condition bson.D) (names []string) {
	for _, f := range condition {
		names = append(names, f.Key)
	}
	return names
}

// stage is the one operator of a stage.
func stage(p any) (name string, value any) {
	s, _ := p.(bson.D)
	if len(s) != 1 {
		return "", nil
	}
	return s[0].Key, s[0].Value
}

// begin reads the stages that choose documents as a find does.
func (c *command) begin() {
	for _, p := range c.pipeline {
		name, value := stage(p)
		document, _ := value.(bson.D)
		switch {
		case name == "$match" && c.filter == nil && c.sort == nil && c.skip == nil && c.limit == nil:
			c.filter = flat(value)
		case name == "$sort" && c.sort == nil && c.skip == nil && c.limit == nil:
			c.sort = document
		case name == "$skip" && c.skip == nil && c.limit == nil:
			c.skip = value
		case name == "$limit" && c.limit == nil:
			c.limit = value
		default:
			c.grouped = name == "$group"
			return
		}
	}
}

// page is what a find or pipeline skips to.
type page struct {
	filter, sort bson.D
	skip, limit  any
	made         []string // names whose values stages before make
}

// of are the pages that a pipeline skips to, also in the branches of a $facet, up to a stage that makes other documents.
func (pg page) of(pipeline bson.A) (out []page) {
	for _, p := range pipeline {
		name, value := stage(p)
		document, _ := value.(bson.D)
		cut := pg.skip != nil || pg.limit != nil
		switch {
		case name == "$match" && !cut && pg.filter == nil:
			pg.filter = document
		case name == "$match" && !cut:
			pg.filter = d("$and", bson.A{pg.filter, document})
		case name == "$sort" && !cut:
			pg.sort = document
		case name == "$skip" && pg.skip == nil:
			pg.skip = value
			limit, limited := number(pg.limit)
			if skip, ok := number(value); limited && ok { // the limit came first
				pg.limit = max(limit-skip, 0)
			}
		case name == "$limit" && pg.limit == nil:
			pg.limit = value
		case name == "$facet" && !cut:
			for _, branch := range document {
				inner, _ := branch.Value.(bson.A)
				out = append(out, pg.of(inner)...)
			}
			return out
		case name == "$lookup":
			as, _ := at(document, "as").(string)
			pg.made = append(slices.Clone(pg.made), as)
		case slices.Contains([]string{"$addFields", "$set", "$project"}, name):
			pg.made = slices.Clone(pg.made)
			for _, f := range document {
				_, counts := number(f.Value)
				_, flag := f.Value.(bool)
				if name != "$project" || !counts && !flag {
					pg.made = append(pg.made, f.Key)
				}
			}
		default:
			return pg.skipping()
		}
	}
	return pg.skipping()
}

// skipsInOrder reports a pipeline that skips documents, of whatever stages make, in an order.
func skipsInOrder(pipeline bson.A, sorted bool) bool {
	for _, p := range pipeline {
		name, value := stage(p)
		branches, _ := value.(bson.D)
		sorted = sorted || name == "$sort"
		switch {
		case name == "$skip" && sorted && positive(value):
			return true
		case name == "$facet" && slices.ContainsFunc(branches, func(e bson.E) bool {
			inner, _ := e.Value.(bson.A)
			return skipsInOrder(inner, sorted)
		}):
			return true
		}
	}
	return false
}

func (pg page) skipping() []page {
	if pg.skip == nil {
		return nil
	}
	return []page{pg}
}

// order names a sort.
func (pg page) order() string {
	if len(pg.sort) == 0 {
		return "_id"
	}
	return strings.Join(keys(pg.sort), ", ")
}

// order names the order of the pages that a command skips to.
func (c command) order() string {
	if len(c.pages) > 0 {
		return c.pages[0].order()
	}
	return page{sort: c.sort}.order()
}

// find is a find of the page.
func (c command) find(pg page) command {
	c.filter, c.sort, c.skip, c.limit = pg.filter, pg.sort, pg.skip, pg.limit
	raw, err := bson.Marshal(c.asFind())
	if err != nil {
		return c
	}
	out, ok := parse(Query{Database: c.Database, Collection: c.Collection, Command: raw, Calls: c.Calls})
	if !ok {
		return c
	}
	return out
}

// follow reads the stages that read other collections.
func (c *command) follow() {
	for _, p := range c.pipeline {
		name, value := stage(p)
		document, _ := value.(bson.D)
		from, _ := at(document, "from").(string)
		switch name {
		case "$lookup":
			c.join(from, document)
		case "$graphLookup":
			up, _ := at(document, "connectFromField").(string)
			down, _ := at(document, "connectToField").(string)
			g := climbs{in: from, field: up, paths: c.calls}
			switch {
			case from == "" || up == "" || down == "" || up == down:
				continue
			case up == "_id":
				g = climbs{in: from, field: down, subtrees: c.calls}
			case down != "_id":
				g.by = "from " + up + " to " + down
			}
			c.graphs = append(c.graphs, g)
		}
	}
}

// join notes a $lookup. What it wants are the paths below its array that the read names, or the inclusions of its own
// pipeline.
func (c *command) join(from string, document bson.D) {
	local, foreign, pipeline := equality(document)
	as, _ := at(document, "as").(string)
	if from == "" {
		return
	}
	if c.inner == nil {
		c.inner = map[string][]read{}
	}
	if foreign == "" {
		c.joins = append(c.joins, joins{from: from, calls: c.calls})
		c.inner[from] = append(c.inner[from], *aggregation(pipeline, c.calls))
		return
	}
	fields := below(*c.read, as)
	if len(pipeline) > 0 {
		fields = nil
		if inner := aggregation(pipeline, 1); len(pipeline) == 1 && !inner.all {
			fields = inner.uses
		}
	}
	r := read{calls: c.calls, uses: append(slices.Clone(fields), foreign), all: fields == nil}
	if foreign != "_id" {
		r.match = []string{foreign}
		if local == "_id" && !operators(pipeline, "$match", "$limit", "$sample") {
			c.gathers = append(c.gathers, joins{from: from, local: foreign, calls: c.calls})
		}
		if n, ok := c.newest(from, foreign, as, pipeline); ok && local == "_id" {
			c.firsts = append(c.firsts, n)
		}
		if local != "_id" && local != "" {
			c.joins = append(c.joins, joins{from: from, local: local, key: foreign, calls: c.calls, fields: fields})
		}
	} else if local != "" {
		c.joins = append(c.joins, joins{from: from, local: local, calls: c.calls, fields: fields})
	}
	c.inner[from] = append(c.inner[from], r)
}

// equality is what a $lookup compares: localField and foreignField, or in the first stage of a pipeline a variable of
// let. It returns the stages behind that as well.
func equality(lookup bson.D) (local, foreign string, pipeline bson.A) {
	local, _ = at(lookup, "localField").(string)
	foreign, _ = at(lookup, "foreignField").(string)
	pipeline, _ = at(lookup, "pipeline").(bson.A)
	let, _ := at(lookup, "let").(bson.D)
	if foreign != "" || len(let) != 1 || len(pipeline) == 0 {
		return local, foreign, pipeline
	}
	name, value := stage(pipeline[0])
	match, _ := value.(bson.D)
	expression, _ := at(match, "$expr").(bson.D)
	sides, _ := at(expression, "$eq").(bson.A)
	if name != "$match" || len(match) != 1 || len(expression) != 1 || len(sides) != 2 {
		return "", "", pipeline
	}
	own := expressionPaths(let[0].Value)
	theirs := expressionPaths(sides)
	variable := "$$" + let[0].Key
	if len(own) != 1 || len(theirs) != 1 || let[0].Value != "$"+own[0] || sides[0] != variable && sides[1] != variable {
		return "", "", pipeline
	}
	return own[0], theirs[0], pipeline[1:]
}

func (c *command) statement(filter, update any, own, shape bson.D) statement {
	s := statement{write: writeOf(update, c.calls), shape: shape}
	s.filter, _ = filter.(bson.D)
	s.by = s.filter
	s.update, _ = update.(bson.D)
	s.upsert, _ = at(own, "upsert").(bool)
	stages, _ := update.(bson.A) // a pipeline sets what it likes
	for _, p := range stages {
		_, value := stage(p)
		s.shortens = append(s.shortens, keys(value)...)
	}
	for _, operator := range s.update {
		if slices.Contains([]string{"$pull", "$pullAll", "$pop", "$set", "$unset"}, operator.Key) {
			s.shortens = append(s.shortens, keys(operator.Value)...)
		}
	}
	pushed, _ := at(s.update, "$push").(bson.D)
	for _, f := range pushed {
		modifiers, _ := f.Value.(bson.D)
		element := f.Value
		if each, ok := at(modifiers, "$each").(bson.A); ok && len(each) > 0 {
			element = each[0]
		}
		if at(modifiers, "$slice") == nil {
			s.pushes = append(s.pushes, push{f.Key, element})
		}
	}
	return s
}

// asFind is a find of what the command chooses.
func (c command) asFind() bson.D {
	out := bson.D{{Key: "find", Value: c.Collection}}
	for _, e := range []bson.E{{Key: "filter", Value: c.filter}, {Key: "sort", Value: c.sort}, {Key: "projection", Value: at(c.body, "projection")}, {Key: "hint", Value: at(c.body, "hint")},
		{Key: "collation", Value: at(c.body, "collation")}, {Key: "skip", Value: c.skip}, {Key: "limit", Value: c.limit}} {
		if document, ok := e.Value.(bson.D); e.Value != nil && (!ok || document != nil) {
			out = append(out, e)
		}
	}
	return out
}

// stages choose the documents as the command does.
func (c command) stages() bson.A {
	out := bson.A{}
	for _, s := range []bson.E{{Key: "$match", Value: c.filter}, {Key: "$sort", Value: c.sort}, {Key: "$skip", Value: c.skip}, {Key: "$limit", Value: c.limit}} {
		n, isNumber := number(s.Value)
		document, _ := s.Value.(bson.D)
		if isNumber && n > 0 || len(document) > 0 {
			out = append(out, bson.D{s})
		}
	}
	return out
}

// link is what a find for a value of an earlier answer is: a step up or down a tree, or from a parent to children.
type link struct {
	pattern    string
	collection string // that has the field
	field      string
	list       bool // the field holds several values
}

// links are the patterns that avoid finds for each value of an earlier answer, and what they are about. The first one is
// the one that the find counts for.
func (c command) links() []link {
	if c.From.Path == "" || c.From.together || c.name != "find" || len(c.filter) != 1 {
		return nil
	}
	from, field := c.From, c.filter[0].Key
	parent, child := link{"relation", from.Collection, from.Path, from.List}, link{"relation", c.Collection, field, false}
	switch same := from.Collection == c.Collection; {
	case same && field == "_id" && !from.List:
		return []link{{"tree", c.Collection, from.Path, false}}
	case same && field == "_id":
		return []link{parent, {"tree", c.Collection, from.Path, true}}
	case same:
		return []link{{"tree", c.Collection, field, false}, child}
	case field == "_id" && !from.List:
		return []link{{"extref", from.Collection, from.Path, false}, parent}
	case field == "_id" && strings.Contains(from.Path, "."): // a reference in each document of the list
		return []link{{"extref", from.Collection, from.Path, true}, parent}
	case field == "_id":
		return []link{parent}
	}
	return []link{child}
}
