package advise

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Origin is where a find had its value from, which is a field of documents in an earlier answer.
// Finds with an Origin are one for each value, the "N" of "N+1".
type Origin struct {
	Collection string
	Path       string
	List       bool // the value stood in an array
	First      bool // the first find for a value of that answer
	// Others is set on the first. It is how many finds between the first and the last one asked for values of another
	// origin.
	Others int64

	together bool    // one find, by $in, asked for all values of that answer
	run      *run    // a suspicion: Look asks the database
	gather   *gather // the same of finds by $in
}

// Bounds of what is remembered of recorded answers.
const (
	answersKept  = 16
	valuesKept   = 10_000
	originValues = 3 // that a path gave, at least
	// originShare is the part of the values between the first find and the last one that a path gave, at least:
	// the others may be the user who is logged in.
	originShare = 0.75
	// groupShare is the part of the values of a $group of everything that are asked for, at least: it has every value.
	groupShare = 0.5
	// wholeValues are small integers, at least, that are all those of one field of an answer, and so no chance.
	wholeValues = 5
)

// answer is what a recorded command answered.
type answer struct {
	database   string
	collection string
	paths      map[string][]Origin // by value
	values     map[Origin]int      // how many of a path
	computed   bool                // by an aggregation: a way up may begin elsewhere
	everything bool                // a $group of all documents
	used       int                 // the last command that took a value from it
}

// loop is the finds of one collection by one field for values of one answer.
type loop struct {
	answer *answer
	finds  []int // indexes of the queries
	field  string
	others int64 // finds between them for other values
	// strangers are these values, since those after the last find: no part of the loop unless another one follows.
	strangers map[string]bool
	since     []string
	values    map[string]bool
	paths     map[Origin]int // how many values a path gave
	small     bool           // some values are small integers, which stand everywhere
	direct    bool           // the first find follows the last answer of its collection
	climbs    bool           // it is a step up a tree: see markClimbs
}

// origins sets the Origin of finds among recorded commands. A find belongs to a path if
// that path held the values of all finds of its kind after one answer, at least three
// different ones, or fewer where a collection refers to itself: a way up takes one value
// of each answer. If two paths held them, nothing is said; nor of small integers, unless the
// names of field and collection are akin or the finds climb a tree: see markClimbs.
func origins(commands []Command, queries []Query, index []int) {
	type kind struct {
		answer     *answer
		collection string
		field      string
	}
	var answers []*answer
	last, singles := map[string]*answer{}, map[string]int{} // by collection: singles are finds by _id
	loops := map[kind]*loop{}
	var order []*loop
	for i, c := range commands {
		if from, ok := askedTogether(c, answers); ok {
			queries[index[i]].From = from
		}
		if f, ok := askedBy(c.Body); ok {
			if f.field == "_id" {
				singles[c.Collection]++
			}
			for _, a := range answers {
				k := kind{a, c.Collection, f.field}
				l := loops[k]
				paths := a.paths[f.key]
				if len(paths) == 0 || a.database != text(c.Body, "$db") {
					if l != nil {
						l.since = append(l.since, f.key)
					}
					continue
				}
				a.used = i
				if l == nil {
					l = &loop{answer: a, field: f.field, direct: last[c.Collection] == a, values: map[string]bool{}, strangers: map[string]bool{}, paths: map[Origin]int{}}
					loops[k], order = l, append(order, l)
				}
				l.finds = append(l.finds, index[i])
				for _, stranger := range l.since {
					l.strangers[stranger] = true
				}
				l.others, l.since = l.others+int64(len(l.since)), nil
				l.small = l.small || small(f.value)
				if !l.values[f.key] {
					l.values[f.key] = true
					for _, p := range paths {
						l.paths[p]++
					}
				}
			}
		}
		if a := answered(c); a != nil {
			a.used, last[a.collection] = i, a
			if answers = append(answers, a); len(answers) > answersKept {
				oldest := slices.MinFunc(answers, func(a, b *answer) int { return cmp.Compare(a.used, b.used) })
				answers = slices.DeleteFunc(answers, func(a *answer) bool { return a == oldest })
			}
		}
	}
	slices.SortStableFunc(order, func(a, b *loop) int { return cmp.Compare(len(b.values), len(a.values)) })
	markClimbs(order, singles)
	for _, l := range order {
		l.assign(queries)
	}
}

// climbSteps are different small integers, at least, that show together what each of them alone does not: that finds by _id
// ask for a field of the document before. They are climbShare of all finds by _id or more.
const (
	climbSteps = 10
	climbShare = 0.25
)

// markClimbs marks the steps up a tree whose _ids are small integers.
func markClimbs(loops []*loop, singles map[string]int) {
	steps, values := map[Origin][]*loop{}, map[Origin]map[string]bool{}
	for _, l := range loops {
		if !l.small || !l.direct || l.field != "_id" || l.answer.computed || len(l.paths) != 1 {
			continue
		}
		for p := range l.paths {
			p.Collection = l.answer.collection
			if p.Path == "_id" || p.List {
				continue
			}
			if values[p] == nil {
				values[p] = map[string]bool{}
			}
			steps[p] = append(steps[p], l)
			maps.Copy(values[p], l.values)
		}
	}
	for p, all := range steps {
		if len(values[p]) < climbSteps || float64(len(all)) < climbShare*float64(singles[p.Collection]) {
			continue
		}
		for _, l := range all {
			l.climbs = true
		}
	}
}

// assign gives the finds of a loop their Origin, if exactly one path held all values.
func (l *loop) assign(queries []Query) {
	var from []Origin
	for p, n := range l.paths {
		if n == len(l.values) {
			from = append(from, p)
		}
	}
	mixed := float64(len(l.values)) < originShare*float64(len(l.values)+len(l.strangers))
	if len(from) != 1 || from[0].Path == "" || mixed ||
		l.answer.everything && float64(len(l.values)) < groupShare*float64(l.answer.values[from[0]]) {
		return
	}
	first := queries[l.finds[0]]
	same := first.Collection == l.answer.collection && l.field == "_id"
	switch up := same && (l.climbs || !l.small && !l.answer.computed); {
	case same && from[0].Path == "_id": // the same documents again
		return
	case len(l.values) < originValues && !up:
		return
	case l.small && !l.climbs && !l.whole(from[0]) && !akin(from[0].Path, first.Collection) && !(from[0].Path == "_id" && akin(l.field, l.answer.collection)):
		return
	}
	origin := from[0]
	origin.Collection, origin.First, origin.Others = l.answer.collection, true, l.others
	for _, i := range l.finds {
		if queries[i].From == (Origin{}) {
			queries[i].From = origin
			origin.First, origin.Others = false, 0
		}
	}
}

// whole reports a loop over all values of a path.
func (l *loop) whole(from Origin) bool {
	return len(l.values) >= wholeValues && len(l.values) == l.answer.values[from]
}

// asked is what a find for one value of one field asks for.
type asked struct {
	field string
	value bson.RawValue
	key   string // of the value
}

func askedBy(command bson.Raw) (a asked, ok bool) {
	filter, _ := command.Lookup("filter").DocumentOK()
	if a.field, a.value, ok = one(filter); !ok || command.Lookup("find").Type == 0 {
		return a, false
	}
	a.key, ok = refers(a.value)
	return a, ok
}

// askedTogether is the field of an earlier answer that held all values of a find {_id: {$in: […]}}, two or more, as populate
// sends it. Small integers stand everywhere, so the names must be akin.
func askedTogether(c Command, answers []*answer) (from Origin, ok bool) {
	keys, numeric := map[string]bool{}, false
	for _, v := range askedIDs(c.Body) {
		key, ok := refers(v)
		if !ok {
			return from, false
		}
		keys[key], numeric = true, numeric || small(v)
	}
	if len(keys) < 2 {
		return from, false
	}
	for _, a := range slices.Backward(answers) {
		paths := map[Origin]int{}
		for key := range keys {
			for _, p := range a.paths[key] {
				paths[p]++
			}
		}
		maps.DeleteFunc(paths, func(p Origin, n int) bool {
			return n < len(keys) || p.Path == "" || p.Path == "_id" || numeric && !akin(p.Path, c.Collection)
		})
		if len(paths) != 1 || a.database != text(c.Body, "$db") || a.collection == c.Collection || a.everything {
			continue
		}
		for p := range paths {
			p.Collection, p.together = a.collection, true
			return p, true
		}
	}
	return from, false
}

// askedIDs are the values of a find {_id: {$in: […]}}.
func askedIDs(command bson.Raw) []bson.RawValue {
	filter, _ := command.Lookup("filter").DocumentOK()
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != "_id" || command.Lookup("find").Type == 0 {
		return nil
	}
	operator, _ := elements[0].Value().DocumentOK()
	list, _ := operator.Lookup("$in").ArrayOK()
	values, err := list.Values()
	if err != nil {
		return nil
	}
	return values
}

// one is the field and value of a filter for one value of one field.
func one(filter bson.Raw) (field string, v bson.RawValue, ok bool) {
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 {
		return "", v, false
	}
	v = elements[0].Value()
	if operator, ok := v.DocumentOK(); ok {
		value, err := operator.LookupErr("$eq")
		if err != nil {
			return elements[0].Key(), v, false
		}
		v = value
	}
	return elements[0].Key(), v, true
}

// smallIntegers are below this: a rating, a version and a year are no references, but may
// be the _id of something.
const smallIntegers = 10_000

func small(v bson.RawValue) bool {
	n, ok := v.AsInt64OK()
	return ok && n < smallIntegers
}

// refers is a value that may be a reference, as a key.
func refers(v bson.RawValue) (string, bool) {
	switch v.Type {
	case bson.TypeObjectID, bson.TypeString, bson.TypeBinary:
		return string(rune(v.Type)) + string(v.Value), len(v.Value) <= 256
	case bson.TypeInt32, bson.TypeInt64:
		n := v.AsInt64()
		key, err := bson.Marshal(bson.D{{Key: "", Value: n}})
		return string(key), err == nil
	}
	return "", false
}

// answered remembers where the values of an answer stood; nil if it has none.
func answered(c Command) *answer {
	if c.Reply == nil || c.Collection == "" {
		return nil
	}
	a := &answer{database: text(c.Body, "$db"), collection: c.Collection, computed: c.Name != "find", paths: map[string][]Origin{}, values: map[Origin]int{}}
	command, ok := parse(Query{Collection: c.Collection, Command: c.Body})
	if !ok {
		return nil
	}
	names := namesOf(command)
	a.everything = names.everything
	for _, batch := range []string{"firstBatch", "nextBatch"} {
		documents, ok := c.Reply.Lookup("cursor", batch).ArrayOK()
		if !ok {
			continue
		}
		values, err := documents.Values()
		if err != nil {
			continue
		}
		for _, v := range values {
			if document, ok := v.DocumentOK(); ok {
				a.remember(document, "", false, names)
			}
		}
	}
	if len(a.paths) == 0 {
		return nil
	}
	return a
}

// names are where the fields of an answer stand in the documents that it was made of.
type names struct {
	renamed    map[string]string // by the name at the top; "": it stands nowhere
	only       bool              // other names stand nowhere
	everything bool              // a $group of all documents
}

// stored is the path in the documents of one in an answer; "" if it is computed.
func (n names) stored(path string) string {
	top, rest, _ := strings.Cut(path, ".")
	from, known := n.renamed[top]
	if !known && !n.only {
		return path
	}
	if from == "" || rest == "" {
		return from
	}
	return from + "." + rest
}

// returns reports whether the answer has a field of the documents.
func (n names) returns(path string) bool {
	from, known := n.renamed[path]
	if !known && !n.only || from == path {
		return true
	}
	return slices.Contains(slices.Collect(maps.Values(n.renamed)), path)
}

// set says that a name holds the value of an expression.
func (n *names) set(from names, name string, value any) {
	top, _, _ := strings.Cut(name, ".")
	path, ok := value.(string)
	switch {
	case ok && strings.HasPrefix(path, "$") && !strings.HasPrefix(path, "$$"):
		n.renamed[top] = from.stored(path[1:])
	default:
		n.renamed[top] = ""
	}
}

// namesOf follows the names through the stages of an aggregation.
func namesOf(c command) names {
	n := names{renamed: map[string]string{}}
	chosen := false
	for _, p := range c.pipeline {
		name, value := stage(p)
		fields, _ := value.(bson.D)
		switch name {
		case "$match", "$limit", "$sample":
			chosen = chosen || name != "$match" || len(fields) > 0
		case "$sort", "$skip", "$unwind", "$unset":
		case "$lookup", "$graphLookup":
			as, _ := at(fields, "as").(string)
			n.set(n, as, nil)
		case "$set", "$addFields":
			before := n
			before.renamed = maps.Clone(n.renamed)
			for _, f := range fields {
				n.set(before, f.Key, f.Value)
			}
		case "$project":
			before := n
			n.renamed = maps.Clone(n.renamed)
			included := names{renamed: map[string]string{"_id": before.stored("_id")}, only: true}
			for _, f := range fields {
				_, counts := number(f.Value)
				_, flag := f.Value.(bool)
				switch {
				case no(f.Value):
				case counts, flag:
					top, _, _ := strings.Cut(f.Key, ".")
					included.renamed[top] = before.stored(top)
				default:
					included.set(before, f.Key, f.Value)
				}
			}
			if len(included.renamed) > 1 || len(fields) == 1 && fields[0].Key == "_id" && !no(fields[0].Value) {
				n.renamed, n.only = included.renamed, true
			}
		case "$group":
			before := n
			n = names{renamed: map[string]string{}, only: true, everything: !chosen}
			n.set(before, "_id", at(fields, "_id"))
		default:
			return names{only: true}
		}
	}
	return n
}

func (a *answer) remember(document bson.Raw, above string, list bool, n names) {
	elements, err := document.Elements()
	if err != nil {
		return
	}
	for _, e := range elements {
		a.value(e.Value(), above+e.Key(), list, n)
	}
}

func (a *answer) value(v bson.RawValue, path string, list bool, n names) {
	if len(a.paths) >= valuesKept || len(path) > 200 {
		return
	}
	if document, ok := v.DocumentOK(); ok {
		a.remember(document, path+".", list, n)
		return
	}
	if array, ok := v.ArrayOK(); ok {
		values, err := array.Values()
		if err != nil {
			return
		}
		for _, element := range values {
			a.value(element, path, true, n)
		}
		return
	}
	key, ok := refers(v)
	stored := n.stored(path)
	if from := (Origin{Path: stored, List: list}); ok && stored != "" && !slices.Contains(a.paths[key], from) {
		a.paths[key] = append(a.paths[key], from)
		a.values[from]++
	}
}
