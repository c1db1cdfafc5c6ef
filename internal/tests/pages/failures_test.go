package pages_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// The tests of what docs/failures.md says about single calls; internal/tests/sweep asserts what holds for all
// calls.
func TestFailuresPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/failures.md")
	testkit.OK(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, s := range []struct {
		name, says string
		test       func(t *testing.T)
	}{
		{"BatchField", "with a `BatchField` within ten minutes", batchesAgain},
		{"Release", "A second Release of prealloc returns `ErrTaken` if somebody has taken a freed cell since.", releaseOfATakenCell},
		{"Undo", "A second Restore or Undo writes nothing. But if a later revision changed an array that Undo changed, Undo can return `ErrConflict`, or take back one more equal element.", undoAndRestoreAgain},
		{"not repeated", "`updateMany` and `deleteMany`, and so `Mark` of computed, are not repeated.", notRepeated},
		{"Migrate", "Every call returns when its context ends, within half a second", migrateEnds},
		{"limit", "with all its commands. Without one it has 120 s.", nil}, // internal/txn: TestLimit
		{"Timeout", "The `Timeout` of the client counts only where the context has no deadline", clientTimeout},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(page, s.says) {
				t.Errorf("docs/failures.md does not say %q", s.says)
			}
			if s.test != nil {
				s.test(t)
			}
		})
	}
}

func batchesAgain(t *testing.T) {
	type event struct {
		Timestamp time.Time
		N         int
	}
	s := testkit.Must(series.New[string, event](mongotest.Database(t).Collection("events"), timeseries.Every(time.Hour),
		&series.Options{BatchField: "batches", Values: []timeseries.Value{{Field: "n"}}}))
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	var events []event
	for i := range 10 {
		events = append(events, event{time.Date(2030, 1, 1, 0, 0, i, 0, time.UTC), i})
	}
	send := func(done, skipped int64) {
		t.Helper()
		// In two blocks: Compact leaves one that is alone.
		result := testkit.Must(s.AppendMany(t.Context(), timeseries.Of("a", events...), &mongopatterns.Work{BatchSize: 5}))
		if result.Done != done || result.Skipped != skipped {
			t.Errorf("%+v, want %d and %d", result, done, skipped)
		}
	}
	send(10, 0)
	send(0, 10)
	testkit.OK(t, testkit.ErrorOf(s.Compact(t.Context(), nil)))
	send(0, 10)
}

func releaseOfATakenCell(t *testing.T) {
	g := testkit.Must(prealloc.New[int, string](mongotest.Database(t).Collection("screenings"), nil))
	cells := prealloc.Row("A", 2)
	testkit.OK(t, g.Insert(t.Context(), 1, nil, cells...))
	testkit.OK(t, g.Claim(t.Context(), 1, "ann", cells...))
	for range 2 { // what is free already is no error
		testkit.OK(t, g.Release(t.Context(), 1, "ann", cells...))
	}
	testkit.OK(t, g.Claim(t.Context(), 1, "bob", cells[1]))
	if err := g.Release(t.Context(), 1, "ann", cells...); !errors.Is(err, prealloc.ErrTaken) {
		t.Errorf("released again: %v", err)
	}
	for _, c := range testkit.Must(g.Cells(t.Context(), 1)) {
		if taken := c.Cell == cells[1]; taken != (c.By == "bob") {
			t.Errorf("%+v", c)
		}
	}
}

func undoAndRestoreAgain(t *testing.T) {
	type page struct {
		ID    int      `bson:"_id"`
		Title string   `bson:"title"`
		Tags  []string `bson:"tags"`
	}
	db := mongotest.Database(t)
	d := testkit.Must(versioning.New[int, page](db.Collection("pages"), db.Collection("pages_history"), nil))
	testkit.OK(t, d.EnsureIndexes(t.Context()))
	r := testkit.Must(d.Insert(t.Context(), page{1, "a", []string{"x", "y"}}, versioning.Change{}))
	for _, next := range []page{
		{1, "b", []string{"x", "y"}},
		{1, "b", []string{"x"}},
		{1, "b", []string{"x", "z"}},
	} {
		r.Document = next
		r = testkit.Must(d.Save(t.Context(), r, versioning.Change{}))
	}
	number := r.Number
	for _, call := range []struct {
		name  string
		do    func() (versioning.Revision[page], error)
		want  page
		again error
	}{
		{"undo a value", func() (versioning.Revision[page], error) { return d.Undo(t.Context(), 1, 2, versioning.Change{}) }, page{1, "a", []string{"x", "z"}}, nil},
		{"undo a removal", func() (versioning.Revision[page], error) { return d.Undo(t.Context(), 1, 3, versioning.Change{}) }, page{1, "a", []string{"x", "z", "y"}}, nil},
		{"undo an addition", func() (versioning.Revision[page], error) { return d.Undo(t.Context(), 1, 4, versioning.Change{}) }, page{1, "a", []string{"x", "y"}}, mongopatterns.ErrConflict},
		{"restore", func() (versioning.Revision[page], error) { return d.Restore(t.Context(), 1, 3, versioning.Change{}) }, page{1, "b", []string{"x"}}, nil},
	} {
		number++
		for _, want := range []error{nil, call.again} {
			if _, err := call.do(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", call.name, err, want)
			}
			if got := testkit.Must(d.Get(t.Context(), 1)); got.Number != number || !reflect.DeepEqual(got.Document, call.want) {
				t.Errorf("%s: revision %d, %+v", call.name, got.Number, got.Document)
			}
		}
	}
}

// After a closed connection the driver sends an update of one document again, but not the update of Mark.
func notRepeated(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	films, screenings := db.Collection("films"), db.Collection("screenings")
	c := testkit.Must(computed.New[int, string, bson.D](screenings, films, computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.D{{Key: "$sum", Value: "$viewers"}}}}}}},
		Empty:    bson.D{{Key: "viewers", Value: 0}},
	}, nil))
	testkit.OK(t, c.EnsureIndexes(t.Context()))
	testkit.OK(t, testkit.ErrorOf(films.InsertOne(t.Context(), bson.M{"_id": "Dumbo"})))
	testkit.OK(t, testkit.ErrorOf(screenings.InsertOne(t.Context(), bson.M{"_id": 1, "film": "Dumbo", "viewers": 10})))
	for _, call := range []struct {
		name, command, collection string
		do                        func() error
		repeated                  bool
	}{
		{"one document", "update", "films", func() error {
			return testkit.ErrorOf(films.UpdateByID(t.Context(), "Dumbo", bson.M{"$set": bson.M{"a": 1}}))
		}, true},
		{"Mark", "update", "films", func() error { return c.Mark(t.Context(), "Dumbo") }, false},
	} {
		sent := 0
		p.Break(func(cmd proxy.Command) *proxy.Fault {
			if cmd.Name != call.command || cmd.Collection != call.collection {
				return nil
			}
			if sent++; sent == 1 {
				return &proxy.CloseBefore
			}
			return nil
		})
		err := call.do()
		p.Break(nil)
		want := 1
		if call.repeated {
			want = 2
		}
		if (err == nil) != call.repeated || sent != want {
			t.Errorf("%s: sent %d times, %v", call.name, sent, err)
		}
		if !call.repeated && mongopatterns.OutcomeOf(err) != mongopatterns.Unknown {
			t.Errorf("%s: %v is %v", call.name, err, mongopatterns.OutcomeOf(err))
		}
	}
}

// Migrate gives its lease back when its context ends, without waiting for an answer that does not come.
func migrateEnds(t *testing.T) {
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	t.Cleanup(func() { p.Break(nil) })
	coll := db.Collection("contacts")
	v := testkit.Must(schemaversion.New[bson.D](coll, []schemaversion.Step{{Up: func(d bson.D) (bson.D, error) { return append(d, bson.E{Key: "up", Value: 1}), nil }}}, nil))
	for id := range 3 {
		testkit.OK(t, testkit.ErrorOf(coll.InsertOne(t.Context(), bson.M{"_id": id})))
	}
	for _, silent := range []proxy.Rule{
		proxy.Nth("update", "contacts.migrations", 0, proxy.SilentAfter, proxy.SilentAfter, proxy.SilentAfter), // the lease
		proxy.Each("update", proxy.SilentBefore),
	} {
		p.Break(silent)
		const within = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), within)
		start := time.Now()
		_, err := v.Migrate(ctx, v.Newest(), nil)
		took := time.Since(start)
		cancel()
		p.Break(nil)
		const busy = 10 * time.Second // what a busy machine may add
		if !errors.Is(err, context.DeadlineExceeded) || took > within+500*time.Millisecond+busy {
			t.Errorf("%v, after %v", err, took)
		}
		testkit.OK(t, testkit.ErrorOf(coll.Database().Collection("contacts.migrations").DeleteMany(t.Context(), bson.M{})))
		testkit.OK(t, testkit.ErrorOf(coll.UpdateMany(t.Context(), bson.M{}, bson.M{"$unset": bson.M{"up": "", "schema_version": ""}})))
	}
}

// clientTimeout runs a command longer than the Timeout of the client, in a transaction and outside.
func clientTimeout(t *testing.T) {
	client := testkit.Must(mongo.Connect(options.Client().ApplyURI(mongotest.URI(t)).SetTimeout(300 * time.Millisecond)))
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	slow := bson.D{{Key: "$function", Value: bson.D{{Key: "body", Value: "function() { sleep(1000) }"}, {Key: "args", Value: bson.A{}}, {Key: "lang", Value: "js"}}}}
	run := func(ctx context.Context) error {
		_, err := client.Database(mongotest.Database(t).Name()).Aggregate(ctx,
			mongo.Pipeline{{{Key: "$documents", Value: bson.A{bson.D{}}}}, {{Key: "$set", Value: bson.D{{Key: "x", Value: slow}}}}})
		return err
	}
	if err := run(t.Context()); !mongo.IsTimeout(err) {
		t.Errorf("outside: %v", err)
	}
	if err := mongopatterns.Transact(t.Context(), client, run); !mongo.IsTimeout(err) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
		t.Errorf("in a transaction: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.OK(t, mongopatterns.Transact(ctx, client, run))
}
