// Scenarios is a program that the tests run in a module outside of the repository. It makes every shape of the
// reference scenarios by configuration alone: it compares whole stored documents
// and the indexes that the calls use with what the literature has.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx := context.Background()
	w := &world{}
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetMonitor(&event.CommandMonitor{Started: w.started}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	admin, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("ADMIN_URI")))
	if err != nil {
		log.Fatal(err)
	}
	defer admin.Disconnect(ctx)
	w.db, w.admin = client.Database(os.Args[1]), admin.Database(os.Args[1])
	for _, scenario := range []struct {
		name string
		run  func(context.Context, *world) error
	}{
		{"tree", trees}, {"bucket", buckets}, {"paging", pages}, {"attribute", attributes}, {"outlier", outliers},
		{"subset", subsets}, {"extref", references}, {"relation", relations}, {"versioning", versions}, {"schemaversion", schemas},
		{"computed", computations}, {"approx", approximations}, {"prealloc", grids}, {"polymorphic", kinds},
	} {
		if err := scenario.run(ctx, w); err != nil {
			log.Fatalf("%s: %v", scenario.name, err)
		}
		fmt.Println("ok", scenario.name)
	}
}

// world is a database and the commands that were sent to it.
type world struct {
	db       *mongo.Database
	admin    *mongo.Database // of a user who may read the statistics of indexes
	mu       sync.Mutex
	commands []bson.Raw
}

func (w *world) started(_ context.Context, e *event.CommandStartedEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains([]string{"find", "aggregate", "update"}, e.CommandName) {
		w.commands = append(w.commands, slices.Clone(e.Command))
	}
}

func (w *world) coll(name string) *mongo.Collection { return w.db.Collection(name) }

// put inserts documents, written as JSON.
func (w *world) put(ctx context.Context, coll string, docs ...string) error {
	for _, text := range docs {
		if _, err := w.coll(coll).InsertOne(ctx, doc(text)); err != nil {
			return err
		}
	}
	return nil
}

// doc is a document written as extended JSON.
func doc(text string) (d bson.D) {
	if err := bson.UnmarshalExtJSON([]byte(text), false, &d); err != nil {
		panic(fmt.Sprint(text, ": ", err))
	}
	return d
}

// stored compares the documents of a collection that filter selects, by _id, with
// these, whole but for the order of fields; "*" is any value.
func (w *world) stored(ctx context.Context, coll string, filter any, want ...string) error {
	cursor, err := w.coll(coll).Find(ctx, filter, options.Find().SetSort(doc(`{"_id": 1}`)))
	if err != nil {
		return err
	}
	var got []bson.D
	if err := cursor.All(ctx, &got); err != nil {
		return err
	}
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = matches(doc(want[i]), got[i])
	}
	if !same {
		var lines []string
		for _, d := range got {
			text, _ := bson.MarshalExtJSON(d, false, false)
			lines = append(lines, string(text))
		}
		return fmt.Errorf("%s holds\n%.2000s\nwant\n%.2000s", coll, strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// count counts what a plain find returns.
func (w *world) count(ctx context.Context, coll string, filter any) (int, error) {
	cursor, err := w.coll(coll).Find(ctx, filter)
	if err != nil {
		return 0, err
	}
	var all []bson.Raw
	err = cursor.All(ctx, &all)
	return len(all), err
}

func matches(want, got any) bool {
	switch want := want.(type) {
	case string:
		if want == "*" {
			return true
		}
	case bson.D:
		g, ok := got.(bson.D)
		if !ok || len(g) != len(want) {
			return false
		}
		for _, e := range want {
			at := slices.IndexFunc(g, func(o bson.E) bool { return o.Key == e.Key })
			if at < 0 || !matches(e.Value, g[at].Value) {
				return false
			}
		}
		return true
	case bson.A:
		g, ok := got.(bson.A)
		return ok && slices.EqualFunc(want, g, matches)
	}
	number := func(v any) any { // 1 in JSON is an int32
		switch v := v.(type) {
		case int32:
			return int64(v)
		}
		return v
	}
	return number(want) == number(got)
}

// plan is what explain says of one command.
type plan struct {
	stages, indexes []string // the indexes as their keys, "scheduleId movie"
	multiKey        bool
	keys, docs      int64
	text            string
}

// by runs calls that read, and fails unless all that they read of coll comes from
// indexes, and one read from that with these keys; multiKey says that it holds arrays.
func (w *world) by(ctx context.Context, coll, keys string, multiKey bool, calls func() error) (last plan, err error) {
	plans, err := w.plans(ctx, coll, calls)
	if err != nil {
		return last, err
	}
	found := false
	for _, p := range plans {
		if slices.Contains(p.stages, "COLLSCAN") {
			return p, fmt.Errorf("%s is scanned: %s", coll, p.text)
		}
		if slices.Contains(p.stages, "IXSCAN") && slices.Contains(p.indexes, keys) && p.multiKey == multiKey {
			found, last = true, p
		}
	}
	if !found {
		var read []string
		for _, p := range plans {
			read = append(read, fmt.Sprint(p.stages, p.indexes, p.multiKey))
		}
		return last, fmt.Errorf("no read of %s uses %s, multikey %t: %s", coll, keys, multiKey, read)
	}
	return last, nil
}

// used fails unless calls use the index with these keys, inside a $graphLookup or
// $lookup.
func (w *world) used(ctx context.Context, coll, keys string, calls func() error) error {
	count := func() (ops int64, err error) {
		cursor, err := w.admin.Collection(coll).Aggregate(ctx, mongo.Pipeline{{{Key: "$indexStats", Value: bson.D{}}}})
		if err != nil {
			return 0, err
		}
		var all []struct {
			Key      bson.D
			Accesses struct{ Ops int64 }
		}
		err = cursor.All(ctx, &all)
		for _, index := range all {
			var names []string
			for _, e := range index.Key {
				names = append(names, e.Key)
			}
			if strings.Join(names, " ") == keys {
				ops = index.Accesses.Ops
			}
		}
		return ops, err
	}
	before, err := count()
	if err != nil {
		return err
	}
	if err := calls(); err != nil {
		return err
	}
	after, err := count()
	if err == nil && after == before {
		err = fmt.Errorf("%s is not used in %s", keys, coll)
	}
	return err
}

// plans explains what calls read, or look for to write, in coll.
func (w *world) plans(ctx context.Context, coll string, calls func() error) (out []plan, err error) {
	w.mu.Lock()
	w.commands = nil
	w.mu.Unlock()
	if err := calls(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	commands := w.commands
	w.mu.Unlock()
	for _, command := range commands {
		name, _ := command.Index(0).Value().StringValueOK()
		if name != coll {
			continue
		}
		explained := bson.D{}
		elements, err := command.Elements()
		if err != nil {
			return nil, err
		}
		for _, e := range elements { // without sessions, transactions and the like
			if slices.Contains([]string{"find", "filter", "sort", "limit", "skip", "projection", "aggregate", "pipeline", "cursor", "update", "updates"}, e.Key()) {
				explained = append(explained, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		if update, ok := command.Lookup("updates", "0", "q").DocumentOK(); ok {
			explained = bson.D{{Key: "find", Value: coll}, {Key: "filter", Value: update}}
		}
		raw, err := w.db.RunCommand(ctx, bson.D{{Key: "explain", Value: explained}, {Key: "verbosity", Value: "executionStats"}}).Raw()
		if err != nil {
			return nil, err
		}
		p := plan{text: raw.String()}
		p.walk(raw)
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("nothing read of " + coll)
	}
	return out, nil
}

// walk gathers stages and indexes of a plan, those that won.
func (p *plan) walk(raw bson.Raw) {
	elements, _ := raw.Elements()
	for _, e := range elements {
		v := e.Value()
		switch e.Key() {
		case "rejectedPlans", "allPlansExecution", "command", "serverInfo":
			continue
		case "stage":
			p.stages = append(p.stages, v.StringValue())
		case "keyPattern":
			var keys []string
			fields, _ := v.Document().Elements()
			for _, f := range fields {
				keys = append(keys, f.Key())
			}
			p.indexes = append(p.indexes, strings.Join(keys, " "))
		case "isMultiKey":
			p.multiKey = p.multiKey || v.Boolean()
		case "totalKeysExamined":
			p.keys = max(p.keys, v.AsInt64())
		case "totalDocsExamined":
			p.docs = max(p.docs, v.AsInt64())
		}
		if d, ok := v.DocumentOK(); ok {
			p.walk(d)
		} else if a, ok := v.ArrayOK(); ok {
			p.walk(bson.Raw(a))
		}
	}
}

// equal compares what was read, as text.
func equal(what string, got any, want string) error {
	if text := fmt.Sprint(got); text != want {
		return fmt.Errorf("%s: %s, want %s", what, text, want)
	}
	return nil
}

// first runs steps up to the first error.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// ensurer is any helper of the library.
type ensurer interface{ EnsureIndexes(context.Context) error }

func ensure(ctx context.Context, all ...ensurer) error {
	for _, e := range all {
		if err := e.EnsureIndexes(ctx); err != nil {
			return err
		}
	}
	return nil
}

// clean fails on any problem.
func clean[P any](problems func(func(P, error) bool)) error {
	for p, err := range problems {
		return fmt.Errorf("%v, %w", p, err)
	}
	return nil
}
