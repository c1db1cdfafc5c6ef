package advise

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Shape is a kind of query whose work grows with the data, however little there is yet.
type Shape struct {
	// Kind is skip, loop (one find for each value of an earlier answer), lookup, climb (of a
	// tree), push (without a bound) or sort (without an index).
	Kind       string   `json:"shape"`
	Patterns   []string `json:"patterns"` // the packages that avoid it; none: an index is enough
	Collection string   `json:"collection"`
	// Query is the command with ? for each value: find orders {customer: ?} skip ? limit ?
	Query string `json:"query"`
	Seen  int64  `json:"seen"`
	Why   string `json:"why"`
}

// Name is the shape as -ignore and -baseline name it: skip:find orders {} skip ? limit ?
func (s Shape) Name() string { return s.Kind + ":" + s.Query }

func (s Shape) String() string {
	return fmt.Sprintf("%s (%d seen): %s", s.Query, s.Seen, s.Why) + after(" → ", strings.Join(s.Patterns, ", "), "")
}

// Bounds of what is remembered of queries.
const (
	shapesKept  = 1_000  // of a report, the commonest
	loggedKept  = 10_000 // different queries of a log
	shapeLength = 300    // characters
)

// Shapes says which queries will be slow when there is more data: pages by skip, finds one
// by one for values of an earlier answer, joins for a few fields, climbs of a tree, and
// $push without a bound. It needs no server, so that a service's own tests can ask:
//
//	cmds := mongotest.Record(t, db, func() { service.ListProducts(ctx) })
//	for _, s := range advise.Shapes(advise.Commands(cmds)) {
//		t.Error(s)
//	}
//
// A [Report] has them as well, and sorts that no index serves.
func Shapes(queries []Query) []Shape {
	s := shapes{}
	shrinks := map[string]bool{} // lists that something makes shorter
	for _, q := range queries {
		var command bson.D
		if bson.Unmarshal(q.Command, &command) == nil {
			for _, path := range shrunk(command) {
				shrinks[q.Collection+"\x00"+path] = true
			}
		}
	}
	for _, q := range queries {
		var command bson.D
		if bson.Unmarshal(q.Command, &command) != nil || len(command) == 0 {
			continue
		}
		calls := max(q.Calls, 1)
		switch command[0].Key {
		case "find":
			s.skip(q.Collection, command, calls)
			s.loop(q, command, calls)
		case "aggregate":
			s.stages(q.Collection, command, calls)
		case "update", "findAndModify", "findandmodify":
			for _, u := range updates(command) {
				s.push(q.Collection, u, calls, shrinks)
			}
		}
	}
	return s.list()
}

// shapes are those found, by query and reason.
type shapes map[string]*shape

type shape struct {
	Shape
	first int64 // of finds one by one: the answers that they follow
	// others are finds between them for values of another origin.
	others int64
	least  int64 // finds to an answer
}

func (s shapes) add(sh Shape) *shape {
	key := sh.Query + "\x00" + sh.Why
	if s[key] == nil {
		if len(s) >= 10*shapesKept {
			return &shape{}
		}
		s[key] = &shape{Shape: sh}
		s[key].Seen = 0
	}
	s[key].Seen += sh.Seen
	return s[key]
}

func (s shapes) list() []Shape {
	var out []Shape
	for _, sh := range s {
		if sh.Seen < sh.least*max(sh.first, 1) || sh.least > 0 && sh.Seen < originValues {
			continue
		}
		if sh.first > 0 {
			sh.Why += ", after " + many(sh.first, "answer")
		}
		if sh.others > 0 {
			sh.Why += fmt.Sprintf(" (%s of the finds between the first and the last)", share(sh.Seen, sh.Seen+sh.others))
		}
		out = append(out, sh.Shape)
	}
	slices.SortFunc(out, func(a, b Shape) int {
		return cmp.Or(cmp.Compare(b.Seen, a.Seen), strings.Compare(a.Query, b.Query), strings.Compare(a.Why, b.Why))
	})
	return out[:min(len(out), shapesKept)]
}

const skipWalks = "the server walks over all that a page skips, so that each page takes longer than the one before"

func (s shapes) skip(name string, command bson.D, calls int64) {
	if at(command, "autocommit") == false { // a transaction reads no pages for users
		return
	}
	if positive(at(command, "skip")) && positive(at(command, "limit")) {
		s.add(Shape{"skip", []string{"paging"}, name, printed(command), calls, skipWalks})
	}
}

// positive reports a number above 0, or one that is not known.
func positive(value any) bool {
	n, ok := number(value)
	return value != nil && (!ok || n > 0)
}

func (s shapes) loop(q Query, command bson.D, calls int64) {
	filter, _ := at(command, "filter").(bson.D)
	if q.From.Path == "" || len(filter) != 1 {
		return
	}
	from := q.From.Collection + "." + q.From.Path
	found := Shape{Kind: "loop", Collection: q.Collection, Query: printed(command), Seen: calls, Why: "one find for each value of " + from}
	least := int64(originValues)
	switch same := q.From.Collection == q.Collection; {
	case same && filter[0].Key == "_id" && !q.From.List:
		found.Patterns, least = []string{"tree"}, 1
	case same:
		found.Patterns = []string{"tree", "relation"}
	case filter[0].Key == "_id" && !q.From.List:
		found.Patterns = []string{"extref", "relation"}
	default:
		found.Patterns = []string{"relation"}
	}
	sh := s.add(found)
	sh.least = least
	sh.others += q.From.Others
	if q.From.First && least > 1 {
		sh.first += calls
	}
}

func (s shapes) stages(name string, command bson.D, calls int64) {
	pipeline, _ := at(command, "pipeline").(bson.A)
	t := traffic{}
	r := aggregation(pipeline, calls)
	text := printed(command)
	sorted := false
	for _, p := range pipeline {
		stage, _ := p.(bson.D)
		if len(stage) != 1 {
			return
		}
		value, _ := stage[0].Value.(bson.D)
		switch stage[0].Key {
		case "$sort":
			sorted = true
		case "$skip":
			if sorted && positive(stage[0].Value) {
				s.add(Shape{"skip", []string{"paging"}, name, text, calls, skipWalks})
			}
		case "$lookup":
			t.join(value, r)
		case "$graphLookup":
			t.graph(name, value, calls)
		}
	}
	for _, j := range t.joins {
		if fields := slices.Compact(slices.Sorted(slices.Values(j.fields))); len(fields) > 0 && len(fields) <= extrefFields {
			s.add(Shape{"lookup", []string{"extref"}, name, text, calls, fmt.Sprintf("joins %s for %s alone", j.from, strings.Join(fields, ", "))})
		}
	}
	for range t.graphs {
		s.add(Shape{"climb", []string{"tree"}, name, text, calls, "one look-up a level of the tree; with the ancestors in each document it is one range"})
	}
}

// statement is one update.
type statement struct {
	filter, update any
	statement      bson.D
	command        bson.D // to be printed
}

func updates(command bson.D) (out []statement) {
	if u := at(command, "update"); command[0].Key != "update" && u != nil {
		return []statement{{at(command, "query"), u, command, command}}
	}
	all, _ := at(command, "updates").(bson.A)
	for _, one := range all {
		if u, ok := one.(bson.D); ok {
			out = append(out, statement{at(u, "q"), at(u, "u"), u, bson.D{command[0], {Key: "updates", Value: bson.A{u}}}})
		}
	}
	return out
}

// shrunk are the lists that an update takes elements from, or sets.
func shrunk(command bson.D) (paths []string) {
	if len(command) == 0 {
		return nil
	}
	for _, s := range updates(command) {
		stages, _ := s.update.(bson.A) // a pipeline sets what it likes
		for _, p := range stages {
			stage, _ := p.(bson.D)
			for _, operator := range stage {
				paths = append(paths, keys(operator.Value)...)
			}
		}
		update, _ := s.update.(bson.D)
		for _, operator := range update {
			switch operator.Key {
			case "$pull", "$pullAll", "$pop", "$set", "$unset":
				paths = append(paths, keys(operator.Value)...)
			}
		}
	}
	return paths
}

func (s shapes) push(name string, u statement, calls int64, shrinks map[string]bool) {
	update, _ := u.update.(bson.D)
	pushed, _ := at(update, "$push").(bson.D)
	for _, f := range pushed {
		value := f.Value
		modifiers, _ := value.(bson.D)
		if each, ok := at(modifiers, "$each").(bson.A); ok && len(each) > 0 {
			value = each[0]
		}
		if at(modifiers, "$slice") != nil || strings.Contains(f.Key, "$") || shrinks[name+"\x00"+f.Key] || guarded(u.filter, f.Key) {
			continue
		}
		patterns := []string{"outlier", "subset"}
		if element, ok := value.(bson.D); ok && slices.ContainsFunc(element, func(e bson.E) bool { _, ok := e.Value.(bson.DateTime); return ok }) {
			patterns = []string{"outlier", "subset", "bucket"}
		}
		s.add(Shape{"push", patterns, name, printed(u.command), calls, "the list " + f.Key + " grows without a bound, and its document with it"})
	}
}

// guarded reports a filter that bounds a list: by its length, by an element that must not
// be there, or by a number beside it.
func guarded(filter any, path string) bool {
	if slices.ContainsFunc(filterPaths(filter), func(name string) bool { return strings.HasPrefix(name, path+".") }) {
		return true
	}
	return operators(filter, "$lt", "$lte", "$size", "$expr", "$ne", "$nin")
}

// printed is a command with ? in place of each value.
func printed(command bson.D) string { return cut(shapeOf(command, false)) }

// cut bounds a text that is printed.
func cut(text string) string {
	if runes := []rune(text); len(runes) > shapeLength {
		return string(runes[:shapeLength]) + "…"
	}
	return text
}

// shapeOf prints a command; exact leaves numbers of documents and elements, by which
// queries differ.
func shapeOf(command bson.D, exact bool) string {
	p := printer{exact: exact}
	p.WriteString(command[0].Key)
	if name, ok := command[0].Value.(string); ok {
		p.WriteString(" " + name)
	}
	for _, e := range command[1:] {
		if document, ok := e.Value.(bson.D); ok && len(document) == 0 {
			continue
		}
		switch e.Key {
		case "filter", "query":
			p.WriteByte(' ')
			p.filter(e.Value)
		case "sort", "projection", "fields":
			p.WriteString(" " + e.Key + " ")
			p.flags(e.Value)
		case "update":
			p.WriteString(" update ")
			p.update(e.Value)
		case "skip", "limit":
			p.WriteString(" " + e.Key + " ")
			p.number(e.Value)
		case "pipeline":
			p.pipeline(e.Value)
		case "key":
			if name, ok := e.Value.(string); ok {
				p.WriteString(" " + name)
			}
		case "updates", "deletes":
			all, _ := e.Value.(bson.A)
			for _, one := range all {
				u, _ := one.(bson.D)
				p.WriteByte(' ')
				p.filter(at(u, "q"))
				if update := at(u, "u"); update != nil {
					p.WriteByte(' ')
					p.update(update)
				}
			}
		}
	}
	return p.String()
}

type printer struct {
	strings.Builder
	exact bool
}

func (p *printer) document(document bson.D, value func(bson.E)) {
	p.WriteByte('{')
	for i, e := range document {
		if i > 0 {
			p.WriteString(", ")
		}
		p.WriteString(e.Key + ": ")
		value(e)
	}
	p.WriteByte('}')
}

// filter prints names and operators; all other values are data.
func (p *printer) filter(value any) {
	document, ok := value.(bson.D)
	if !ok {
		p.WriteByte('?')
		return
	}
	p.document(document, func(e bson.E) {
		branches, several := e.Value.(bson.A)
		inner, nested := e.Value.(bson.D)
		switch {
		case e.Key == "$expr":
			p.expression(e.Value)
		case several && slices.Contains([]string{"$and", "$or", "$nor"}, e.Key):
			p.list(branches, p.filter)
		case nested && (strings.HasPrefix(e.Key, "$") || len(inner) > 0 && strings.HasPrefix(inner[0].Key, "$")) && e.Key != "$eq" && e.Key != "$in":
			p.filter(inner)
		default:
			p.WriteByte('?')
		}
	})
}

// update prints the operators and the paths that they change.
func (p *printer) update(value any) {
	document, ok := value.(bson.D)
	if !ok || len(document) == 0 || !strings.HasPrefix(document[0].Key, "$") {
		p.WriteByte('?') // a document, or a pipeline
		return
	}
	p.document(document, func(operator bson.E) {
		fields, ok := operator.Value.(bson.D)
		if !ok {
			p.WriteByte('?')
			return
		}
		p.document(fields, func(f bson.E) {
			if operator.Key == "$inc" {
				p.number(f.Value)
				return
			}
			p.WriteByte('?')
		})
	})
}

// list prints the elements of an array.
func (p *printer) list(values bson.A, print func(value any)) {
	p.WriteByte('[')
	for i, value := range values {
		if i > 0 {
			p.WriteString(", ")
		}
		print(value)
	}
	p.WriteByte(']')
}

func (p *printer) number(value any) {
	if n, ok := number(value); ok && p.exact {
		fmt.Fprint(p, n)
		return
	}
	p.WriteByte('?')
}

// path is what an expression names a field by; other strings are data.
var pathName = regexp.MustCompile(`^\$\$?[\pL\d_.\-]+$`)

// expression prints names, operators and fields.
func (p *printer) expression(value any) {
	switch v := value.(type) {
	case bson.D:
		p.document(v, func(e bson.E) {
			switch {
			case e.Key == "$literal":
				p.WriteByte('?')
			case e.Key == "$slice":
				p.slice(e.Value)
			case slices.Contains([]string{"$match", "$elemMatch", "restrictSearchWithMatch", "query"}, e.Key):
				p.filter(e.Value)
			default:
				p.expression(e.Value)
			}
		})
	case bson.A:
		p.list(v, p.expression)
	case string:
		if pathName.MatchString(v) {
			p.WriteString(v)
			return
		}
		p.WriteByte('?')
	default:
		p.WriteByte('?')
	}
}

// flags prints a sort or a projection, whose numbers are no data.
func (p *printer) flags(value any) {
	document, ok := value.(bson.D)
	if !ok {
		p.expression(value)
		return
	}
	p.document(document, func(e bson.E) {
		n, ok := number(e.Value)
		flag, isFlag := e.Value.(bool)
		switch {
		case isFlag:
			fmt.Fprint(p, flag)
		case ok && n >= -1 && n <= 1:
			fmt.Fprint(p, n)
		case e.Key == "$slice":
			p.slice(e.Value)
		default:
			p.expression(e.Value)
		}
	})
}

func (p *printer) slice(value any) {
	list, ok := value.(bson.A)
	if !ok {
		p.number(value)
		return
	}
	p.WriteByte('[')
	for i, element := range list {
		if i > 0 {
			p.WriteString(", ")
		}
		if _, ok := number(element); ok {
			p.number(element)
		} else {
			p.expression(element)
		}
	}
	p.WriteByte(']')
}

func (p *printer) pipeline(value any) {
	stages, _ := value.(bson.A)
	for _, s := range stages {
		stage, _ := s.(bson.D)
		if len(stage) != 1 {
			continue
		}
		p.WriteString(" | " + stage[0].Key + " ")
		switch document, _ := stage[0].Value.(bson.D); stage[0].Key {
		case "$match":
			p.filter(stage[0].Value)
		case "$limit", "$skip":
			p.number(stage[0].Value)
		case "$sort", "$project":
			p.flags(stage[0].Value)
		case "$lookup", "$graphLookup":
			p.document(document, func(e bson.E) {
				name, ok := e.Value.(string)
				switch {
				case e.Key == "pipeline":
					p.pipeline(e.Value)
				case e.Key == "restrictSearchWithMatch":
					p.filter(e.Value)
				case ok && e.Key != "startWith":
					p.WriteString(name)
				default:
					p.expression(e.Value)
				}
			})
		default:
			p.expression(stage[0].Value)
		}
	}
}

// ordered are the filter and sort of a find, or of an aggregation that begins with them.
func ordered(command bson.D) (filter any, sort bson.D) {
	switch command[0].Key {
	case "find":
		sort, _ = at(command, "sort").(bson.D)
		return at(command, "filter"), sort
	case "aggregate":
		pipeline, _ := at(command, "pipeline").(bson.A)
		for _, p := range pipeline {
			stage, _ := p.(bson.D)
			if at(stage, "$group") != nil {
				return filter, nil // all is read, whatever the order
			}
			switch {
			case at(stage, "$match") != nil && filter == nil:
				filter = stage[0].Value
				continue
			case at(stage, "$sort") != nil:
				sort, _ = stage[0].Value.(bson.D)
				continue
			}
			break
		}
	}
	return filter, sort
}

// sorts adds queries that no index helps: the server reads and sorts the whole collection.
func (l *looker) sorts(ctx context.Context, queries []Query, names []string) error {
	s := shapes{}
	known := map[string][]index{}
	for _, q := range queries {
		var command bson.D
		if bson.Unmarshal(q.Command, &command) != nil || len(command) == 0 || !slices.Contains(names, q.Collection) {
			continue
		}
		filter, sort := ordered(command)
		filtered := filterPaths(filter)
		if len(sort) == 0 || unpageable(bson.D{{Key: "filter", Value: filter}, {Key: "sort", Value: sort}}) || slices.Contains(filtered, "_id") || sort[0].Key == "_id" {
			continue
		}
		all, ok := known[q.Collection]
		if !ok {
			var err error
			if all, err = l.indexes(ctx, &collection{name: q.Collection}); err != nil {
				if err := l.failed(ctx, err, "", &collection{name: q.Collection}, ""); err != nil {
					return err
				}
			}
			known[q.Collection] = all
		}
		if len(all) == 0 || slices.ContainsFunc(all, func(i index) bool {
			return len(i.keys) > 0 && (i.keys[0].Key == sort[0].Key || slices.Contains(filtered, i.keys[0].Key) || strings.Contains(i.keys[0].Key, "$**"))
		}) {
			continue
		}
		s.add(Shape{"sort", nil, q.Collection, printed(command), max(q.Calls, 1),
			"no index begins with a field of the filter or of the sort: the server reads and sorts the whole collection, which only an index or few documents make cheap"})
	}
	l.report.Shapes = append(l.report.Shapes, s.list()...)
	return nil
}
