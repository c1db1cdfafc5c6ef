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
	Patterns   []string `json:"patterns"` // the packages that avoid it; of a Report, those that it advises
	Collection string   `json:"collection"`
	// Query is the command with ? for each value: find orders {customer: ?} skip ? limit ?
	Query string `json:"query"`
	Seen  int64  `json:"seen"`
	Why   string `json:"why"`
	// Calls are the calls of this library that sent it, such as subset.Top, which commands name in their comment.
	Calls []string `json:"calls,omitempty"`
	// Reasons are why a Report advises none of the packages that avoid it.
	Reasons []string `json:"reasons,omitempty"`

	about []link
}

// Name is the shape as -ignore and -baseline name it: skip:find orders {} skip ? limit ?
func (s Shape) Name() string { return s.Kind + ":" + s.Query }

func (s Shape) String() string {
	return fmt.Sprintf("%s (%d seen%s): %s", s.Query, s.Seen, after(", by ", strings.Join(s.Calls, ", "), ""), s.Why) + after(" → ", strings.Join(s.Patterns, ", "), "") + after("; not ", strings.Join(s.Reasons, "; not "), "")
}

// Advised reports a query that a package or an index is advised for.
func (s Shape) Advised() bool { return len(s.Patterns) > 0 || s.Kind == "sort" }

// Bounds of what is remembered of queries.
const (
	shapesKept  = 1_000  // of a report, the commonest
	loggedKept  = 10_000 // different queries of a log
	shapeLength = 300    // characters
)

// Shapes says which queries will be slow when there is more data. These are pages by skip, finds
// one by one for values of an earlier answer, joins for a few fields, climbs of a tree, and $push
// without a bound. It needs no server, so a service's own tests can ask:
//
//	cmds := mongotest.Record(t, db, func() { service.ListProducts(ctx) })
//	for _, s := range advise.Shapes(advise.Commands(cmds)) {
//		t.Error(s)
//	}
//
// A [Report] has them as well, and sorts that no index serves.
func Shapes(queries []Query) []Shape { return shapesOf(parsed(queries)) }

// parsed are the commands of queries that can be understood.
func parsed(queries []Query) (out []command) {
	for _, q := range queries {
		if c, ok := parse(q); ok {
			out = append(out, c)
		}
	}
	return out
}

func shapesOf(commands []command) []Shape {
	s := shapes{}
	shortened := map[string]bool{} // lists that something makes shorter
	for _, c := range commands {
		for _, u := range c.statements {
			for _, path := range u.shortens {
				shortened[c.Collection+"\x00"+path] = true
			}
		}
	}
	for _, c := range commands {
		if c.skips && at(c.body, "autocommit") != false { // a transaction reads no pages for users
			s.add(c.asShape("skip", skipWalks, link{"paging", c.Collection, c.order(), false}))
		}
		s.loop(c)
		for _, j := range c.joins {
			if fields := slices.Compact(slices.Sorted(slices.Values(j.fields))); j.key == "" && len(fields) > 0 && len(fields) <= extrefFields {
				s.add(c.asShape("lookup", fmt.Sprintf("joins %s for %s alone", j.from, strings.Join(fields, ", ")), link{"extref", c.Collection, j.local, false}))
			}
		}
		for _, g := range c.graphs {
			s.add(c.asShape("climb", "one look-up a level of the tree; with the ancestors in each document it is one range", link{"tree", g.in, g.field, false}))
		}
		for _, u := range c.statements {
			s.push(c, u, shortened)
		}
	}
	return s.list()
}

// ours begins the comments of this library's commands. The name of the call follows.
const ours = "mongopatterns "

// asShape is a shape of a command, with what the packages that avoid it are about.
func (c command) asShape(kind, why string, about ...link) Shape {
	sh := Shape{Kind: kind, Collection: c.Collection, Query: printed(c.body), Seen: c.calls, Why: why, about: about}
	for _, l := range about {
		sh.Patterns = append(sh.Patterns, l.pattern)
	}
	if text, _ := at(c.body, "comment").(string); strings.HasPrefix(text, ours) {
		sh.Calls = []string{text[len(ours):]}
	}
	return sh
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
	for _, call := range sh.Calls {
		if !slices.Contains(s[key].Calls, call) {
			s[key].Calls = append(s[key].Calls, call)
			slices.Sort(s[key].Calls)
		}
	}
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

// positive reports a number above 0, or one that is not known.
func positive(value any) bool {
	n, ok := number(value)
	return value != nil && (!ok || n > 0)
}

func (s shapes) loop(c command) {
	links := c.links()
	if links == nil {
		return
	}
	sh := s.add(c.asShape("loop", "one find for each value of "+c.From.Collection+"."+c.From.Path, links...))
	sh.least = originValues
	if len(links) == 1 && links[0].pattern == "tree" {
		sh.least = 1 // one step up for each answer
	}
	sh.others += c.From.Others
	if c.From.First && sh.least > 1 {
		sh.first += c.calls
	}
}

func (s shapes) push(c command, u statement, shortened map[string]bool) {
	for _, p := range u.pushes {
		if strings.Contains(p.path, "$") || shortened[c.Collection+"\x00"+p.path] || guarded(u.filter, p.path) {
			continue
		}
		about := []link{{"outlier", c.Collection, p.path, true}, {"subset", c.Collection, p.path, true}}
		if element, ok := p.element.(bson.D); ok && slices.ContainsFunc(element, func(e bson.E) bool { _, ok := e.Value.(bson.DateTime); return ok }) {
			about = append(about, link{"bucket", c.Collection, "", false})
		}
		sh := c.asShape("push", "the list "+p.path+" grows without a bound, and its document with it", about...)
		sh.Query = printed(u.shape)
		s.add(sh)
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

// sorts adds queries that no index helps: the server reads and sorts the whole collection.
func (l *looker) sorts(ctx context.Context, commands []command, names []string) error {
	s := shapes{}
	for _, c := range commands {
		filtered := filterPaths(c.filter)
		if len(c.sort) == 0 || c.grouped || !slices.Contains(names, c.Collection) || c.unpageable() || slices.Contains(filtered, "_id") || c.sort[0].Key == "_id" {
			continue
		}
		all, err := l.plainIndexes(ctx, c.Collection)
		if err != nil {
			if err := l.failed(ctx, err, "", &collection{name: c.Collection}, ""); err != nil {
				return err
			}
		}
		if len(all) == 0 || slices.ContainsFunc(all, func(i index) bool {
			return len(i.keys) > 0 && (i.keys[0].Key == c.sort[0].Key || slices.Contains(filtered, i.keys[0].Key) || strings.Contains(i.keys[0].Key, "$**"))
		}) {
			continue
		}
		s.add(c.asShape("sort",
			"no index begins with a field of the filter or of the sort: the server reads and sorts the whole collection, which only an index or few documents make cheap"))
	}
	l.report.Shapes = append(l.report.Shapes, s.list()...)
	return nil
}

// weighed leaves in each shape the patterns that are advised for what it is about, or else says why each is not.
func (l *looker) weighed() {
	for i := range l.report.Shapes {
		s := &l.report.Shapes[i]
		s.Patterns = []string{}
		for _, about := range s.about {
			if slices.ContainsFunc(l.report.Findings, about.is) {
				s.Patterns = append(s.Patterns, about.pattern)
			} else {
				s.Reasons = append(s.Reasons, about.pattern+": "+l.whyNot(about))
			}
		}
		if len(s.Patterns) > 0 {
			s.Reasons = nil
		}
	}
}

// is reports a finding that a link is about.
func (a link) is(f Finding) bool {
	path := f.Path
	if f.Pattern == "paging" {
		path = cmp.Or(strings.Join(f.Fields, ", "), "_id")
	}
	return f.Pattern == a.pattern && f.Collection == a.collection && (a.field == "" || a.field == path)
}

// whyNot is the reason of the detector.
func (l *looker) whyNot(a link) string {
	for _, n := range append(slices.Clone(l.report.NotAdvised), l.report.Unknown...) {
		if n.Pattern == a.pattern && n.Collection == a.collection && (a.field == "" || a.field == n.Path) {
			return n.Reason
		}
	}
	c := l.all[a.collection]
	switch {
	case c == nil || c.few():
		return l.unseen(a.collection)
	case c.capped:
		return a.collection + " is capped"
	case a.list && !slices.Contains(c.arrays(), a.field):
		return fmt.Sprintf("no list there has %d elements", fewElements)
	}
	if a.pattern == "bucket" && a.field == "" {
		return "the elements of a list are no documents of their own: those it would take, by series and time"
	}
	return "nothing else was seen that it serves"
}
