package advise

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Bounds of what is remembered of the profile and the log.
const (
	clientsKept = 1_000
	valuesOfRun = 200
	runsKept    = 1_000
	runsAsked   = 200 // loops that Look asks the database about
	parentsKept = 3   // commands before a loop that may have given its values
	gathersKept = 100 // shapes of finds by $in
	gatherAsked = 5   // finds of each that Look asks the database about
	gatherLeast = 3
)

// pause between two commands of a client ends its loops.
var pause = time.Second // a test lengthens it

// sent is a query of the profile or the log, with when and by whom it was sent.
type sent struct {
	Query
	client   string
	pool     string // of connections, where client is one of them
	at       time.Time
	returned int64 // documents
}

// sequences finds loops where answers are not known: finds for one value of one field,
// again and again, by one client, without a pause and with another read before them. A pool may give each find of a
// loop another connection.
type sequences struct {
	clients map[string]*client
	runs    []*run
	sent    int                // commands so far
	gathers map[string]*gather // by the key of their query
	recent  []sent             // reads of anybody that returned something, the last first: a pool has another connection for each
}

// gather is finds {_id: {$in: […]}} of one shape, each for the values that a read before it may have answered.
type gather struct {
	finds   []*run       // some of them
	queries map[int]bool // the indexes of all
}

// client is what a connection sent last.
type client struct {
	at      time.Time
	parents []sent // reads that returned something, the last first
	open    []*run
	first   kindOfFind // the read that the loops follow
	last    kindOfFind
}

type kindOfFind struct{ collection, field string }

// run is finds of one collection by one field, one after the other.
type run struct {
	find    sent
	field   string
	values  []bson.RawValue
	known   map[string]int64 // finds for a value
	parents []sent
	indexes []int // of the queries, one for each find
	places  []int // of the finds among all commands
	// connections are those of a pool that sent the finds; nil: one client did.
	connections map[string]bool
}

// scattered reports finds of a pool that has another connection for most of them. Otherwise each connection has loops of
// its own.
func (r *run) scattered() bool { return 2*len(r.connections) > len(r.indexes) }

func (s *sequences) add(e sent, index int) {
	if e.client == "" || e.at.IsZero() {
		return
	}
	s.sent++
	s.gather(e, index)
	s.by("one "+e.client, e, index, false)
	if e.pool != "" {
		s.by("pool "+e.pool, e, index, true)
	}
}

// gather keeps some of the finds that ask, by $in, for what the client, or another of its pool, read before.
func (s *sequences) gather(e sent, index int) {
	values := askedIDs(e.Command)
	before := s.recent
	if c := s.clients["one "+e.client]; c != nil {
		before = slices.Concat(c.parents, before)
	}
	if key, err := e.Command.IndexErr(0); err == nil && e.returned > 0 && (key.Key() == "find" || key.Key() == "aggregate") {
		s.recent = append([]sent{e}, s.recent...)
		s.recent = s.recent[:min(len(s.recent), parentsKept)]
	}
	if len(values) < 2 || len(values) > valuesOfRun {
		return
	}
	key := e.key()
	g := s.gathers[key]
	if g == nil && len(s.gathers) >= gathersKept {
		return
	}
	if s.gathers == nil {
		s.gathers = map[string]*gather{}
	}
	if g == nil {
		g = &gather{queries: map[int]bool{}}
		s.gathers[key] = g
	}
	g.queries[index] = true
	parents := slices.DeleteFunc(slices.Clone(before), func(p sent) bool {
		return p.Database != e.Database || p.Collection == e.Collection || e.at.Sub(p.at) > pause
	})
	if len(g.finds) < gatherAsked && len(parents) > 0 {
		g.finds = append(g.finds, &run{find: e, field: "_id", values: values, parents: parents})
	}
}

// by adds a command to what a client or a pool sent.
func (s *sequences) by(name string, e sent, index int, pooled bool) {
	if s.clients == nil || len(s.clients) > clientsKept {
		s.clients = map[string]*client{}
	}
	c := s.clients[name]
	if c == nil || e.at.Sub(c.at) > pause {
		c = &client{}
		s.clients[name] = c
	}
	c.at = e.at
	key, err := e.Command.IndexErr(0)
	if err != nil {
		return
	}
	f, single := askedBy(e.Command)
	kind := kindOfFind{e.Collection, f.field}
	same := func(r *run) bool { return kindOfFind{r.find.Collection, r.field} == kind }
	switch {
	case single && e.Command.Lookup("skip").IsZero():
		again := slices.ContainsFunc(c.open, func(r *run) bool { return same(r) && r.known[f.key] > 0 })
		if kind == c.first && kind != c.last && !again { // the next round of a loop of loops
			c.open = nil
		}
		if len(c.open) == 0 && c.first.collection == "" {
			c.first = kind
		}
		c.last = kind
		i := slices.IndexFunc(c.open, same)
		if i < 0 && len(s.runs) < runsKept {
			i = len(c.open)
			c.open = append(c.open, &run{find: e, field: f.field, known: map[string]int64{}, parents: slices.Clone(c.parents)})
			s.runs = append(s.runs, c.open[i])
		}
		if i >= 0 {
			c.open[i].value(f, index)
			c.open[i].sent(s.sent, e, pooled)
		}
	case key.Key() == "find", key.Key() == "aggregate":
		c.open, c.first, c.last = nil, kindOfFind{collection: e.Collection}, kindOfFind{}
	default:
		return
	}
	if e.returned > 0 && !slices.ContainsFunc(c.open, func(r *run) bool { return len(r.values) > 1 && same(r) }) {
		c.parents = append([]sent{e}, c.parents...)
		c.parents = c.parents[:min(len(c.parents), parentsKept)]
	}
}

func (r *run) sent(place int, e sent, pooled bool) {
	r.places = append(r.places, place)
	if pooled && r.connections == nil {
		r.connections = map[string]bool{}
	}
	if pooled {
		r.connections[e.client] = true
	}
}

func (r *run) value(f asked, index int) {
	r.indexes = append(r.indexes, index)
	switch {
	case r.known[f.key] > 0:
	case len(r.values) < valuesOfRun:
		r.values = append(r.values, f.value)
	default:
		return // too many to ask for all
	}
	r.known[f.key]++
}

// others is how many finds ask for other values than those given.
func (r *run) others(given []bson.RawValue) (n int64) {
	for text, finds := range r.known {
		if !slices.ContainsFunc(given, func(v bson.RawValue) bool { key, _ := refers(v); return key == text }) {
			n += finds
		}
	}
	return n
}

// loops are the runs that may be loops, those of pools first.
func (s *sequences) loops() []*run {
	out := slices.DeleteFunc(slices.Clone(s.runs), func(r *run) bool {
		return len(r.values) < originValues || r.connections != nil && !r.scattered()
	})
	slices.SortStableFunc(out, func(a, b *run) int { return cmp.Compare(len(b.connections), len(a.connections)) })
	return out
}

// assign gives the finds of each loop an Origin that Look has to prove. Where a log's
// queries were merged the finds become queries of their own.
func (s *sequences) assign(queries []Query) []Query {
	taken := map[int]bool{}
	for _, r := range s.loops() {
		if slices.ContainsFunc(r.places, func(place int) bool { return taken[place] }) {
			continue
		}
		for _, place := range r.places {
			taken[place] = true
		}
		for i, index := range r.indexes {
			queries[index].Calls--
			q := r.find.Query
			q.Calls, q.From = 1, Origin{First: i == 0, run: r}
			if i > 1 {
				queries[len(queries)-1].Calls++
				continue
			}
			queries = append(queries, q)
		}
	}
	for _, g := range s.gathers {
		if len(g.finds) < gatherLeast {
			continue
		}
		for index := range g.queries {
			queries[index].From.gather = g
		}
	}
	return slices.DeleteFunc(queries, func(q Query) bool { return q.Calls == 0 })
}

// suspected asks the database which field held the values of loops that were seen without
// answers: that of one document or of the page that was read before. It judges each loop by itself.
func (l *looker) suspected(ctx context.Context, queries []Query, names []string) ([]Query, error) {
	var others []Query // finds between those of a loop
	proved, gathered := map[*run]Origin{}, map[*gather]Origin{}
	asked, left := 0, map[*run]bool{}
	for i := range queries {
		if g := queries[i].From.gather; g != nil {
			from, known := gathered[g]
			if !known {
				var err error
				if from, err = l.gathered(ctx, g, names); err != nil {
					return nil, err
				}
				gathered[g] = from
			}
			queries[i].From = from
		}
		r := queries[i].From.run
		if r == nil {
			continue
		}
		origin, known := proved[r]
		for _, parent := range r.candidates() {
			if known || !slices.Contains(names, parent.Collection) {
				continue
			}
			if asked++; asked > runsAsked {
				left[r] = true
				break
			}
			var err error
			if origin, err = l.gave(ctx, parent, r); err != nil {
				if err := l.failed(ctx, err, "", &collection{name: parent.Collection}, ""); err != nil {
					return nil, err
				}
			}
			known = origin.Path != ""
		}
		proved[r] = origin
		if origin.Path != "" {
			first := queries[i].From.First
			queries[i].From = origin
			if queries[i].From.First = first; !first {
				queries[i].From.Others = 0
				queries[i].Calls -= origin.Others
				others = append(others, Query{Database: queries[i].Database, Collection: queries[i].Collection, Command: queries[i].Command, Calls: origin.Others})
			}
		}
	}
	if len(left) > 0 {
		l.unknown("", many(int64(len(left)), "loop")+" of finds", "", "more than "+group(runsAsked)+" questions to the database", "a shorter log, or advise.Commands in a test")
	}
	others = slices.DeleteFunc(others, func(q Query) bool { return q.Calls == 0 })
	return append(slices.DeleteFunc(queries, func(q Query) bool { return q.From.run == nil && q.From.Path != "" && q.Calls == 0 }), others...), nil
}

// gathered is the field that held what finds by $in asked for, in answers that a client had before most of them. Small integers
// stand everywhere, so the names must be akin.
func (l *looker) gathered(ctx context.Context, g *gather, names []string) (Origin, error) {
	times := map[Origin]int{}
	for _, r := range g.finds {
		for _, parent := range r.parents {
			if !slices.Contains(names, parent.Collection) {
				continue
			}
			from, err := l.gave(ctx, parent, r)
			if err != nil {
				return Origin{}, l.failed(ctx, err, "", &collection{name: parent.Collection}, "")
			}
			if from.Path == "" || from.Path == "_id" || slices.ContainsFunc(r.values, small) && !akin(from.Path, r.find.Collection) {
				continue
			}
			times[Origin{Collection: from.Collection, Path: from.Path, List: from.List, together: true}]++
			break
		}
	}
	for from, n := range times {
		if float64(n) >= originShare*float64(len(g.finds)) {
			return from, nil
		}
	}
	return Origin{}, nil
}

// candidates are the reads whose answer may have given a run its values: those before it,
// and, up or down a tree, its own.
func (r *run) candidates() []sent {
	all := slices.Clone(r.parents)
	own := r.find
	values := bson.A{}
	for _, v := range r.values {
		values = append(values, v)
	}
	if command, err := bson.Marshal(bson.D{{Key: "find", Value: own.Collection}, {Key: "filter", Value: d(r.field, d("$in", values))}}); err == nil {
		own.Command = command
		all = append(all, own)
	}
	return slices.DeleteFunc(all, func(p sent) bool { return p.Database != r.find.Database })
}

// gave is the one field of a read's documents that holds all values of a run, or that of no
// Path. It runs the read again on the server, and returns names.
func (l *looker) gave(ctx context.Context, parent sent, r *run) (Origin, error) {
	pipeline, returned, ok := again(parent)
	if !ok {
		return Origin{}, nil
	}
	values := bson.A{}
	for _, v := range r.values {
		values = append(values, v)
	}
	pipeline = append(pipeline,
		d("$project", bson.D{{Key: "_id", Value: 0}, {Key: "f", Value: d("$objectToArray", "$$ROOT")}}),
		d("$unwind", "$f"),
		d("$match", d("f.v", d("$in", values))),
		d("$project", bson.D{{Key: "k", Value: "$f.k"}, {Key: "v", Value: "$f.v"}, {Key: "list", Value: d("$isArray", "$f.v")}}),
		d("$unwind", "$v"),
		d("$match", d("v", d("$in", values))),
		d("$group", bson.D{{Key: "_id", Value: bson.D{{Key: "k", Value: "$k"}, {Key: "list", Value: "$list"}}}, {Key: "values", Value: d("$addToSet", "$v")}}),
		d("$limit", 100),
	)
	batch, err := l.aggregate(ctx, parent.Collection, pipeline)
	if err != nil {
		return Origin{}, err
	}
	// A way up or down takes each value but the first from an answer before.
	same := parent.Collection == r.find.Collection
	all := len(r.values)
	if same {
		all--
	}
	var found []Origin
	for _, raw := range batch {
		list, _ := raw.Lookup("_id", "list").BooleanOK()
		held, _ := raw.Lookup("values").ArrayOK()
		given, err := held.Values()
		if err != nil {
			return Origin{}, err
		}
		n := len(given)
		o := Origin{Collection: parent.Collection, Path: text(raw, "_id", "k"), List: list}
		if n < all {
			o.Others = r.others(given)
		}
		if float64(n) >= originShare*float64(all) && min(all, originValues-1) <= n && returned(o.Path) && !(same && o.Path == r.field) {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return Origin{}, nil
	}
	from := found[0]
	chance := slices.ContainsFunc(r.values, small) && !same && !akin(from.Path, r.find.Collection) && !(from.Path == "_id" && akin(r.field, parent.Collection))
	if !chance {
		return from, nil
	}
	all, err = l.different(ctx, parent, from.Path)
	if err != nil || all != len(r.values) || all < wholeValues {
		return Origin{}, err
	}
	return from, nil
}

// different is how many values a field of a read's documents has.
func (l *looker) different(ctx context.Context, parent sent, path string) (int, error) {
	pipeline, _, _ := again(parent)
	batch, err := l.aggregate(ctx, parent.Collection, append(pipeline, d("$unwind", "$"+path), d("$group", d("_id", "$"+path)), d("$count", "n")))
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	return int(integer(batch[0], "n")), nil
}

// again is the part of a read that chooses its documents, as stages, and which fields of these it returned.
func again(parent sent) (stages bson.A, returned func(path string) bool, ok bool) {
	c, ok := parse(parent.Query)
	if !ok || c.unpageable() {
		return nil, nil, false
	}
	names := namesOf(c)
	return append(c.stages(), d("$limit", valuesKept)), func(path string) bool {
		return names.returns(path) && (c.name != "find" || path == "_id" || c.read.needs(path))
	}, !names.everything
}
