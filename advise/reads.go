package advise

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// traffic is what was seen sent to a collection.
type traffic struct {
	finds  []read
	writes []write
	pages  []skips
	graphs []climbs
	levels []level
	joins  []joins
	// gathers are joins of the documents that refer to this collection.
	gathers []joins
	newest  []newest
	pushes  map[string]int64 // by path
	loops   []oneByOne
	spans   []span

	totals []totals

	counters []counter
	adds     []adds
	exact    []string // paths that updates raise, but not as a counter does

	removals []write // deletes of single documents
	purges   []write // deletes of many
	deletes  int64   // statements
	inserts  int64   // documents
}

// read is a find or an aggregation, and what it needs of each document.
type read struct {
	calls int64
	uses  []string // paths in filters, sorts, expressions and inclusions
	match []string // those in filters
	// all: the documents come back, but for the fields without.
	all      bool
	without  []string
	parts    []part
	picks    []string // lists from which the answer has only the elements that were asked for
	lengths  []string // lists whose length it asks for
	windows  []string // dates inside lists: it takes the elements in a range of these
	counts   bool     // it returns no documents: count, distinct
	modifies bool     // it is a findAndModify
}

// part is a list that a read wants some elements of.
type part struct {
	path  string
	n     int64  // at most; 0 not known
	last  bool   // the last ones
	order bson.D // nil: as stored
	// unstable: of equal elements any may come.
	unstable bool
	by       string // the field by which the read asks for one document, if another than _id
}

type write struct {
	calls    int64
	by       bson.D // its filter
	sets     []string
	onNew    []string // those of them that only a new document gets, by $setOnInsert
	inside   []string // those of them in lists, and lists that elements are taken from
	whole    bool     // a replacement, or what cannot be told
	upsert   bool
	document bson.D // of a replacement
	orders   bson.D // lists that are kept in an order, by it
}

// add sums up a command, also what it reads of other collections.
func (l *looker) add(c command) {
	t := l.trafficOf(c.Collection)
	t.add(c)
	for name, inner := range c.inner {
		l.trafficOf(name).finds = append(l.trafficOf(name).finds, inner...)
	}
	for _, g := range c.graphs {
		l.trafficOf(g.in).climb(g)
	}
	if from, t, ok := c.joinedTotals(); ok {
		l.trafficOf(from).total(t)
	}
	if c.From.together {
		l.trafficOf(c.From.Collection).populate(c)
	}
	if links := c.links(); len(links) > 0 {
		l.trafficOf(c.From.Collection).loop(c, links[0])
	}
}

func (t *traffic) add(c command) {
	if c.read != nil {
		t.finds = append(t.finds, *c.read)
	}
	t.page(c)
	t.level(c)
	t.span(c)
	if more, ok := c.totals(); ok {
		t.total(more)
	}
	for _, j := range c.joins {
		if !c.shape && !operators(c.pipeline, "$out", "$merge") { // it is sent again
			j.seen = []command{c}
		}
		t.joined(j)
	}
	if _, _, sums := c.joinedTotals(); !sums { // computed has these
		for _, j := range c.gathers {
			t.gather(j)
		}
	}
	for _, n := range c.firsts {
		t.firsts(n)
	}
	for _, s := range c.statements {
		t.writes = append(t.writes, s.write)
		for _, p := range s.pushes {
			if t.pushes == nil {
				t.pushes = map[string]int64{}
			}
			t.pushes[p.path] += c.calls
		}
		t.count(c, s)
		t.collect(c, s)
	}
	switch c.name {
	case "delete":
		t.deletes += c.calls
		t.removals, t.purges = append(t.removals, c.removals...), append(t.purges, c.purges...)
	case "insert":
		documents, _ := at(c.body, "documents").(bson.A)
		t.inserts += c.calls * int64(max(len(documents), 1))
	}
}

func find(command bson.D, calls int64) *read {
	r := read{calls: calls, all: true, match: filterPaths(at(command, "filter"))}
	r.uses = append(slices.Clone(r.match), keys(at(command, "sort"))...)
	r.project(at(command, "projection"))
	return r.rooted(at(command, "projection"))
}

// project applies a projection to a read of whole documents.
func (r *read) project(projection any) {
	fields, _ := projection.(bson.D)
	for _, f := range fields {
		if f.Key == "_id" {
			continue
		}
		if p, ok := slice(f.Key, f.Value); ok {
			r.parts = append(r.parts, p)
			continue
		}
		if list, ok := picked(f); ok {
			r.picks = append(r.picks, list)
			r.windows = append(r.windows, inWindow(filterOf(f)))
		}
		if no(f.Value) {
			r.without = append(r.without, f.Key)
			continue
		}
		r.all = false
		if list := sized(f.Value); list != "" && list != f.Key {
			r.lengths = append(r.lengths, list)
		}
		r.uses = append(r.uses, expressionPaths(f.Value)...)
		r.uses = append(r.uses, f.Key)
	}
	if len(fields) == 1 && fields[0].Key == "_id" && !no(fields[0].Value) {
		r.all = false
	}
	if !r.all {
		r.without = nil
	}
}

// picked is the list of {"list.$": 1}, {list: {$elemMatch: …}} and, in a pipeline, {any: {$filter: {input: "$list", …}}}.
func picked(f bson.E) (list string, ok bool) {
	if list, ok = strings.CutSuffix(f.Key, ".$"); ok {
		return list, true
	}
	operator, _ := f.Value.(bson.D)
	if len(operator) != 1 {
		return "", false
	}
	input, _ := at(filterOf(f), "input").(string)
	switch operator[0].Key {
	case "$elemMatch":
		return f.Key, true
	case "$filter":
		return strings.TrimPrefix(input, "$"), strings.HasPrefix(input, "$") && !strings.HasPrefix(input, "$$")
	}
	return "", false
}

// filterOf is the $filter of a field.
func filterOf(f bson.E) bson.D {
	operator, _ := f.Value.(bson.D)
	filter, _ := at(operator, "$filter").(bson.D)
	return filter
}

// slice reads {list: {$slice: n}}, {list: {$slice: [skip, n]}} and, in a pipeline,
// {any: {$slice: ["$list", n]}}, also where $sortArray sorts the list before.
func slice(key string, value any) (part, bool) {
	document, ok := value.(bson.D)
	if !ok || len(document) != 1 || document[0].Key != "$slice" {
		return part{}, false
	}
	p := part{path: key}
	argument := document[0].Value
	if list, ok := argument.(bson.A); ok {
		if len(list) < 2 {
			return part{}, false
		}
		if _, ok := number(list[0]); !ok {
			if p, ok = sorted(list[0]); !ok {
				return part{}, false // of another list, such as one that is filtered before
			}
			list = list[1:]
		}
		if skip, _ := number(list[0]); len(list) > 1 && skip != 0 {
			return p, true // a page in the middle: how many are enough is not known
		}
		argument = list[len(list)-1]
	}
	n, _ := number(argument)
	switch {
	case n < 0 && p.order != nil: // the last ones are the first ones of the other direction
		for i := range p.order {
			p.order[i].Value = -p.order[i].Value.(int)
		}
		n = -n
	case n < 0:
		n, p.last = -n, true
	}
	p.n = n
	return p, true
}

// sorted is a list "$list", or {$sortArray: {input: "$list", sortBy: {…}}}.
func sorted(list any) (p part, ok bool) {
	if operator, ok := list.(bson.D); ok && len(operator) == 1 && operator[0].Key == "$sortArray" {
		argument, _ := operator[0].Value.(bson.D)
		by, _ := at(argument, "sortBy").(bson.D)
		if p.order = directions(by); p.order == nil {
			return p, false
		}
		p.unstable = true
		list = at(argument, "input")
	}
	name, _ := list.(string)
	p.path = strings.TrimPrefix(name, "$")
	return p, strings.HasPrefix(name, "$") && !strings.HasPrefix(name, "$$")
}

// alias is a name that a stage gives to a document of a list: {$set: {customer: {$first: "$customers"}}}.
type alias struct {
	name, of string
	uses     int // of the read before that stage
}

func aliased(f bson.E) (a alias, ok bool) {
	operator, _ := f.Value.(bson.D)
	if len(operator) != 1 {
		return a, false
	}
	of, isPath := operator[0].Value.(string)
	if list, _ := operator[0].Value.(bson.A); operator[0].Key == "$arrayElemAt" && len(list) == 2 {
		of, isPath = list[0].(string)
	}
	one := slices.Contains([]string{"$first", "$last", "$arrayElemAt"}, operator[0].Key)
	return alias{name: f.Key, of: strings.TrimPrefix(of, "$")}, one && isPath && strings.HasPrefix(of, "$") && !strings.HasPrefix(of, "$$")
}

// aggregation reads the stages up to the one that makes other documents.
func aggregation(pipeline bson.A, calls int64) *read {
	var aliases []alias
	r := stages(pipeline, calls, &aliases)
	uses := r.uses
	for _, a := range aliases {
		for _, used := range uses[a.uses:] {
			if rest, below := strings.CutPrefix(used, a.name); below && a.name != a.of && (rest == "" || rest[0] == '.') {
				r.uses = append(r.uses, a.of+rest)
			}
		}
	}
	return r
}

func stages(pipeline bson.A, calls int64, aliases *[]alias) *read {
	r := &read{calls: calls, all: true}
	var unwound string // a list of one document, as long as all its elements are there
	var opened string  // a list whose elements are documents of their own
	var order bson.D
	var lists []string // of joined documents
	one := ""          // the field by which it asks for one document
	for _, p := range pipeline {
		name, value := stage(p)
		switch name {
		case "$match":
			r.match = append(r.match, filterPaths(value)...)
			r.uses = append(r.uses, filterPaths(value)...)
			if filter := flat(value); equals(filter, "_id") {
				one = "_id"
			} else if len(filter) == 1 && one == "" && equals(filter, filter[0].Key) {
				one = filter[0].Key
			}
			unwound = "" // it may select elements
			if opened != "" && slices.ContainsFunc(filterPaths(value), func(name string) bool { return strings.HasPrefix(name, opened+".") }) {
				r.picks = append(r.picks, opened)
				r.windows = append(r.windows, windowOfElements(value, opened))
			}
		case "$sort":
			r.uses = append(r.uses, keys(value)...)
			order, _ = value.(bson.D)
		case "$skip", "$sample":
		case "$limit":
			if n, ok := number(value); unwound != "" && ok {
				r.parts = append(r.parts, part{path: unwound, n: n, order: inside(order, unwound), by: strings.TrimPrefix(one, "_id")})
				unwound = ""
			}
		case "$unwind":
			opened = unwinds(value)
			if unwound = ""; one != "" {
				unwound = opened
			}
		case "$unset":
			switch names := value.(type) {
			case string:
				r.without = append(r.without, names)
			case bson.A:
				for _, name := range names {
					if name, ok := name.(string); ok {
						r.without = append(r.without, name)
					}
				}
			}
		case "$addFields", "$set":
			fields, _ := value.(bson.D)
			for _, f := range fields {
				if p, ok := slice(f.Key, f.Value); ok && p.path == f.Key {
					r.parts = append(r.parts, p)
					continue
				}
				if a, ok := aliased(f); ok && slices.Contains(lists, a.of) {
					a.uses = len(r.uses)
					*aliases = append(*aliases, a)
					continue
				}
				r.uses = append(r.uses, expressionPaths(f.Value)...)
				r.windows = append(r.windows, inWindow(filterOf(f)))
			}
		case "$lookup":
			document, _ := value.(bson.D)
			if local, ok := at(document, "localField").(string); ok {
				r.uses = append(r.uses, local)
			}
			if as, ok := at(document, "as").(string); ok {
				lists = append(lists, as)
			}
			r.uses = append(r.uses, expressionPaths(at(document, "let"))...)
		case "$project":
			r.project(value)
			if !r.all {
				return r.rooted(value)
			}
		case "$group", "$bucket", "$bucketAuto", "$sortByCount":
			r.all, r.without = false, nil
			r.uses = append(r.uses, expressionPaths(value)...)
			return r.rooted(value)
		case "$count":
			r.all, r.without, r.counts = false, nil, true
			return r
		default: // it may need anything
			r.all, r.without = true, nil
			return r
		}
	}
	return r
}

// unwinds is the list of an $unwind.
func unwinds(value any) string {
	path, _ := value.(string)
	if document, ok := value.(bson.D); ok {
		path, _ = at(document, "path").(string)
	}
	return strings.TrimPrefix(path, "$")
}

// equals reports a filter that asks for one value of a field.
func equals(filter any, name string) bool {
	document, _ := filter.(bson.D)
	value := at(document, name)
	if operator, ok := value.(bson.D); ok && len(operator) > 0 && strings.HasPrefix(operator[0].Key, "$") {
		return len(operator) == 1 && operator[0].Key == "$eq"
	}
	return value != nil
}

// rooted turns a read that hands on whole documents into one of all fields.
func (r read) rooted(value any) *read {
	if slices.ContainsFunc(variables(value), func(v string) bool { return strings.HasPrefix(v, "$$ROOT") || strings.HasPrefix(v, "$$CURRENT") }) {
		r.all = true
	}
	return &r
}

// inside are the keys of a sort below a path, as an element has them.
func inside(order bson.D, path string) bson.D {
	var out bson.D
	for _, key := range order {
		if name, ok := strings.CutPrefix(key.Key, path+"."); ok {
			out = append(out, bson.E{Key: name, Value: key.Value})
		}
	}
	return directions(out)
}

// directions is a sort with 1 and -1 as ints.
func directions(order bson.D) (out bson.D) {
	for _, key := range order {
		direction := -1
		if n, _ := number(key.Value); n > 0 {
			direction = 1
		}
		out = append(out, bson.E{Key: key.Key, Value: direction})
	}
	return out
}

// writeOf are the paths that an update sets.
func writeOf(update any, calls int64) write {
	w := write{calls: calls}
	document, ok := update.(bson.D)
	if !ok {
		w.whole = true // a pipeline
		return w
	}
	for _, operator := range document {
		if !strings.HasPrefix(operator.Key, "$") {
			w.whole, w.document = true, document
			return w
		}
		names := keys(operator.Value)
		w.sets = append(w.sets, names...)
		if operator.Key == "$setOnInsert" {
			w.onNew = append(w.onNew, names...)
		}
		for _, name := range names {
			list, element := cutElement(name)
			if element || slices.Contains([]string{"$pull", "$pullAll", "$pop"}, operator.Key) {
				w.inside = append(w.inside, list)
			}
		}
		pushed, _ := operator.Value.(bson.D)
		for _, f := range pushed {
			modifiers, _ := f.Value.(bson.D)
			if order, ok := at(modifiers, "$sort").(bson.D); ok && operator.Key == "$push" {
				w.orders = append(w.orders, bson.E{Key: f.Key, Value: order})
			}
		}
	}
	return w
}

// cutElement cuts a path such as items.$.n or items.3 at the place of an element.
func cutElement(path string) (list string, ok bool) {
	names := strings.Split(path, ".")
	for i, name := range names {
		if i > 0 && (strings.HasPrefix(name, "$") || strings.Trim(name, "0123456789") == "") {
			return strings.Join(names[:i], "."), true
		}
	}
	return path, false
}

// needs reports whether a read needs a path, or something above or below it.
func (r read) needs(path string) bool {
	return r.names(path) || r.all && !slices.ContainsFunc(r.without, func(name string) bool { return name == path || strings.HasPrefix(path, name+".") })
}

// names reports whether a filter, sort, inclusion or part of a read names a path. JavaScript
// may name any.
func (r read) names(path string) bool {
	return slices.ContainsFunc(r.uses, func(name string) bool { return name == "$where" || related(name, path) }) ||
		slices.ContainsFunc(r.parts, func(p part) bool { return related(p.path, path) })
}

// related reports whether two paths are one, or one is above the other.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// projected reports a list: documents come back, but not all of each.
func (r read) projected() bool { return !r.counts && (!r.all || len(r.without) > 0) }

// reads is how many reads of documents were seen.
func (t *traffic) reads() (n int64) {
	for _, r := range t.finds {
		if !r.counts {
			n += r.calls
		}
	}
	return n
}

// cold are the fields at the top that no projected read needs, but for a few that ask by _id, as the page of one document
// does. Hot is how many projected reads do without them.
func (c *collection) cold() (names []string, hot int64) {
	var lists []read
	all := int64(0)
	for _, r := range c.finds {
		if r.projected() {
			lists, all = append(lists, r), all+r.calls
		}
	}
	for _, name := range c.tops() {
		alone := int64(0)
		used := slices.ContainsFunc(c.finds, func(r read) bool {
			needs := r.names(name) || r.projected() && r.needs(name)
			if needs && r.projected() && slices.Contains(r.match, "_id") {
				alone += r.calls
				return false
			}
			return needs
		})
		if name != "_id" && !used && float64(alone) <= splitNeed*float64(all) {
			names = append(names, name)
		}
	}
	for _, r := range lists {
		if !slices.ContainsFunc(names, r.needs) {
			hot += r.calls
		}
	}
	slices.Sort(names)
	return names, hot
}

// selecting is how many reads select documents by what is in a path.
func (t *traffic) selecting(path string) (n int64) {
	for _, r := range t.finds {
		if !r.counts && slices.ContainsFunc(r.match, func(name string) bool { return related(name, path) }) {
			n += r.calls
		}
	}
	return n
}

// need is how many reads need one of the fields.
func (t *traffic) need(names []string) (n int64) {
	for _, r := range t.finds {
		if !r.counts && slices.ContainsFunc(names, r.needs) {
			n += r.calls
		}
	}
	return n
}

// writesTo is how many writes set one of the fields.
func (t *traffic) writesTo(names []string) (n int64) {
	for _, w := range t.writes {
		if w.whole || slices.ContainsFunc(w.sets, func(set string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return related(set, name) })
		}) {
			n += w.calls
		}
	}
	return n
}

// inside is how many writes change elements in a list, or take them out.
func (t *traffic) inside(path string) (n int64) {
	for _, w := range t.writes {
		if slices.Contains(w.inside, path) {
			n += w.calls
		}
	}
	return n
}

// want is what reads want of a list.
type want struct {
	part, whole int64 // reads
	n           int64 // elements at most; 0 not known
	last        bool
	order       bson.D
	kept        bson.D   // the order that the writes keep the list in, if the reads rely on it
	by          []string // fields that must differ in all documents, if the reads ask for one document
}

// wanted sums up the reads of a list. Parts of another end or order than most reads want are not in the parent: for
// these all of the list is read.
func (t *traffic) wanted(path string) want {
	type end struct {
		last  bool
		order string
	}
	of := func(p part) end { return end{p.last, fmt.Sprint(p.order)} }
	ends := map[end]int64{}
	var usual end
	parts := make([]*part, len(t.finds))
	for i, r := range t.finds {
		if j := slices.IndexFunc(r.parts, func(p part) bool { return p.path == path }); j >= 0 {
			parts[i] = &r.parts[j]
			e := of(r.parts[j])
			if ends[e] += r.calls; ends[e] > ends[usual] {
				usual = e
			}
		}
	}
	var w want
	for i, r := range t.finds {
		switch p := parts[i]; {
		case p != nil && of(*p) == usual:
			w.part += r.calls
			w.n, w.last, w.order = max(w.n, p.n), p.last, p.order
			if p.by != "" && !slices.Contains(w.by, p.by) {
				w.by = append(w.by, p.by)
			}
		case !r.counts && r.needs(path):
			w.whole += r.calls
		}
	}
	if w.order == nil && !w.last {
		w.kept = t.keptIn(path)
		w.order = w.kept
	}
	if w.kept != nil && at(w.kept, "_id") == nil { // of equal elements the one that was pushed first comes first
		w.order = with(w.kept, "_id", 1)
	}
	return w
}

// keptIn is the order in which all that is pushed to a list leaves it; nil if none is known.
func (t *traffic) keptIn(path string) (order bson.D) {
	for _, w := range t.writes {
		kept, _ := at(w.orders, path).(bson.D)
		switch {
		case !slices.Contains(w.sets, path) || slices.Contains(w.inside, path): // what is left keeps its order
		case kept == nil || order != nil && fmt.Sprint(order) != fmt.Sprint(kept):
			return nil
		default:
			order = kept
		}
	}
	return directions(order)
}

// filterPaths are the paths that a filter names.
func filterPaths(filter any) []string {
	var paths []string
	document, _ := filter.(bson.D)
	for _, f := range document {
		switch {
		case f.Key == "$expr":
			paths = append(paths, expressionPaths(f.Value)...)
		case f.Key == "$where":
			paths = append(paths, f.Key)
		case strings.HasPrefix(f.Key, "$"):
			branches, _ := f.Value.(bson.A)
			for _, branch := range branches {
				paths = append(paths, filterPaths(branch)...)
			}
		default:
			paths = append(paths, f.Key)
			condition, _ := f.Value.(bson.D)
			for _, name := range filterPaths(at(condition, "$elemMatch")) {
				paths = append(paths, f.Key+"."+name)
			}
		}
	}
	return paths
}

// expressionPaths are the paths "$a.b" in an expression. "$$ROOT.a" and variables of
// the query's own count as nothing here; see rooted.
func expressionPaths(value any) []string {
	var paths []string
	for _, v := range variables(value) {
		if !strings.HasPrefix(v, "$$") {
			paths = append(paths, v[1:])
		}
	}
	return paths
}

// variables are all strings with a $ in front.
func variables(value any) []string {
	var out []string
	switch v := value.(type) {
	case string:
		if strings.HasPrefix(v, "$") && len(v) > 1 {
			out = append(out, v)
		}
	case bson.D:
		for _, f := range v {
			if f.Key != "$literal" {
				out = append(out, variables(f.Value)...)
			}
		}
	case bson.A:
		for _, element := range v {
			out = append(out, variables(element)...)
		}
	}
	return out
}

func keys(value any) []string {
	var names []string
	document, _ := value.(bson.D)
	for _, f := range document {
		if !strings.HasPrefix(f.Key, "$") {
			names = append(names, f.Key)
		}
	}
	return names
}

// at is the value of a key, nil without one.
func at(document bson.D, key string) any {
	for _, f := range document {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// no reports a projection's 0 or false.
func no(value any) bool {
	if b, ok := value.(bool); ok {
		return !b
	}
	n, ok := number(value)
	return ok && n == 0
}

func number(value any) (int64, bool) {
	switch v := value.(type) {
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		return int64(v), true
	}
	return 0, false
}
