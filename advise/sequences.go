package advise

import (
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
	runsAsked   = 20 // kinds of loops that Look asks the database about
	parentsKept = 3  // commands before a loop that may have given its values
)

// pause between two commands of a client ends its loops.
var pause = time.Second // a test lengthens it

// sent is a query of the profile or the log, with when and by whom it was sent.
type sent struct {
	Query
	client   string
	at       time.Time
	returned int64 // documents
}

// sequences finds loops where answers are not known: finds for one value of one field,
// again and again, by one client, without a pause and with another read before them.
type sequences struct {
	clients map[string]*client
	runs    []*run
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
	known   map[string]bool
	parents []sent
	indexes []int // of the queries, one for each find
}

func (s *sequences) add(e sent, index int) {
	if e.client == "" || e.at.IsZero() {
		return
	}
	if s.clients == nil || len(s.clients) > clientsKept {
		s.clients = map[string]*client{}
	}
	c := s.clients[e.client]
	if c == nil || e.at.Sub(c.at) > pause {
		c = &client{}
		s.clients[e.client] = c
	}
	c.at = e.at
	key, err := e.Command.IndexErr(0)
	if err != nil {
		return
	}
	name := key.Key()
	filter, _ := e.Command.Lookup("filter").DocumentOK()
	field, value, single := one(filter)
	text, refers := refers(value)
	kind := kindOfFind{e.Collection, field}
	switch {
	case name == "find" && single && refers && e.Command.Lookup("skip").IsZero():
		if kind == c.first && kind != c.last { // the next round of a loop of loops
			c.open = nil
		}
		if len(c.open) == 0 && c.first.collection == "" {
			c.first = kind
		}
		c.last = kind
		i := slices.IndexFunc(c.open, func(r *run) bool { return r.find.Collection == e.Collection && r.field == field })
		if i < 0 && len(s.runs) < runsKept {
			i = len(c.open)
			c.open = append(c.open, &run{find: e, field: field, known: map[string]bool{}, parents: slices.Clone(c.parents)})
			s.runs = append(s.runs, c.open[i])
		}
		if i >= 0 {
			c.open[i].value(value, text, index)
		}
	case name == "find", name == "aggregate":
		c.open, c.first, c.last = nil, kindOfFind{collection: e.Collection}, kindOfFind{}
	default:
		return
	}
	if e.returned > 0 && !slices.ContainsFunc(c.open, func(r *run) bool { return len(r.values) > 1 && r.find.Collection == e.Collection && r.field == field }) {
		c.parents = append([]sent{e}, c.parents...)
		c.parents = c.parents[:min(len(c.parents), parentsKept)]
	}
}

func (r *run) value(v bson.RawValue, text string, index int) {
	r.indexes = append(r.indexes, index)
	if !r.known[text] && len(r.values) < valuesOfRun {
		r.known[text] = true
		r.values = append(r.values, v)
	}
}

// assign gives the finds of each loop an Origin that Look has to prove. Where a log's
// queries were merged the finds become queries of their own.
func (s *sequences) assign(queries []Query) []Query {
	for _, r := range s.runs {
		if len(r.values) < originValues {
			continue
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
	return slices.DeleteFunc(queries, func(q Query) bool { return q.Calls == 0 })
}

// suspected asks the database which field held the values of loops that were seen without
// answers: that of one document or of the page that was read before.
func (l *looker) suspected(ctx context.Context, queries []Query, names []string) error {
	type kind struct{ collection, field, parent string }
	proved := map[kind]Origin{}
	for i := range queries {
		r := queries[i].From.run
		if r == nil {
			continue
		}
		for _, parent := range r.candidates() {
			k := kind{r.find.Collection, r.field, parent.Collection}
			origin, asked := proved[k]
			if !asked && len(proved) < runsAsked && slices.Contains(names, parent.Collection) {
				var err error
				if origin, err = l.gave(ctx, parent, r); err != nil {
					if err := l.failed(ctx, err, "", &collection{name: parent.Collection}, ""); err != nil {
						return err
					}
				}
				proved[k] = origin
			}
			if origin.Path != "" {
				origin.First = queries[i].From.First
				queries[i].From = origin
				break
			}
		}
	}
	return nil
}

// candidates are the reads whose answer may have given a run its values: those before it,
// and, up a tree, its own.
func (r *run) candidates() []sent {
	all := slices.Clone(r.parents)
	if r.field == "_id" {
		own := r.find
		ids := bson.A{}
		for _, v := range r.values {
			ids = append(ids, v)
		}
		if command, err := bson.Marshal(bson.D{{Key: "find", Value: own.Collection}, {Key: "filter", Value: d("_id", d("$in", ids))}}); err == nil {
			own.Command = command
			all = append(all, own)
		}
	}
	return slices.DeleteFunc(all, func(p sent) bool { return p.Database != r.find.Database })
}

// gave is the one field of a read's documents that holds all values of a run, or that of no
// Path. It runs the read again on the server, and returns names.
func (l *looker) gave(ctx context.Context, parent sent, r *run) (Origin, error) {
	pipeline, ok := again(parent)
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
		d("$project", d("n", d("$size", "$values"))),
		d("$limit", 100),
	)
	batch, err := l.aggregate(ctx, parent.Collection, pipeline)
	if err != nil {
		return Origin{}, err
	}
	// A way up takes each value but the first from the answer before.
	same := parent.Collection == r.find.Collection
	need := len(r.values)
	if same && r.field == "_id" {
		need--
	}
	var found []Origin
	for _, raw := range batch {
		list, _ := raw.Lookup("_id", "list").BooleanOK()
		o := Origin{Collection: parent.Collection, Path: text(raw, "_id", "k"), List: list}
		if int(integer(raw, "n")) >= need && !(same && r.field == "_id" && o.Path == "_id") {
			found = append(found, o)
		}
	}
	small := slices.ContainsFunc(r.values, func(v bson.RawValue) bool { n, ok := v.AsInt64OK(); return ok && n < smallIntegers })
	if len(found) != 1 || small && !same && !akin(found[0].Path, r.find.Collection) && !(found[0].Path == "_id" && akin(r.field, parent.Collection)) {
		return Origin{}, nil
	}
	return found[0], nil
}

// again is the part of a read that chooses its documents, as stages.
func again(parent sent) (bson.A, bool) {
	var command bson.D
	if bson.Unmarshal(parent.Command, &command) != nil || len(command) == 0 {
		return nil, false
	}
	out := bson.A{}
	if command[0].Key == "find" {
		if unpageable(command) || operators(at(command, "filter"), "$where") {
			return nil, false
		}
		for _, stage := range []struct{ from, to string }{{"filter", "$match"}, {"sort", "$sort"}, {"skip", "$skip"}, {"limit", "$limit"}} {
			value := at(command, stage.from)
			if document, ok := value.(bson.D); value == nil || ok && len(document) == 0 {
				continue
			}
			if n, ok := number(value); ok && n <= 0 {
				continue
			}
			out = append(out, d(stage.to, value))
		}
	} else {
		pipeline, _ := at(command, "pipeline").(bson.A)
		for _, p := range pipeline {
			stage, _ := p.(bson.D)
			if len(stage) != 1 || !slices.Contains([]string{"$match", "$sort", "$skip", "$limit"}, stage[0].Key) {
				break
			}
			if stage[0].Key == "$match" && operators(stage[0].Value, "$text", "$where", "$near", "$nearSphere") {
				return nil, false
			}
			out = append(out, stage)
		}
	}
	return append(out, d("$limit", valuesKept)), true
}
