package extref_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// An entry of the outbox is as the comment of Drain describes.
type entry struct {
	ID         int `bson:"_id"`
	Since, Due time.Time
	Attempts   int64
	Error      string
}

// entries returns those in the outbox, the first due first.
func entries(t *testing.T, outbox *mongo.Collection) (out []entry) {
	t.Helper()
	cursor := ok[*mongo.Cursor](t)(outbox.Find(bounded(t), d(), options.Find().SetSort(d("due", 1))))
	must(t)(nil, cursor.All(bounded(t), &out))
	return out
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	outbox := db.Collection("outbox")
	r, customers, _ := orders(t, db, 4, &extref.Options{Outbox: outbox})
	for i := range 3 {
		diff(t, updated(int64(i+1), 0),
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", fmt.Sprint("new", i)))))
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("address.street", "Corso"))) // not copied
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 2, set("address.city", "Ostia")))
	pending := entries(t, outbox)
	if len(pending) != 2 || pending[0].ID != 1 || pending[1].ID != 2 || pending[0].Attempts != 0 ||
		time.Since(pending[0].Since) > time.Minute || pending[0].Due.Before(pending[0].Since) {
		t.Fatalf("%+v", pending)
	}
	// Rolled back with the change.
	err := transaction(t, db, func(ctx context.Context) error {
		ok[extref.UpdateResult](t)(r.Update(ctx, 0, set("name", "never")))
		return errors.New("no")
	})
	if err == nil || len(stored(t, outbox)) != 2 {
		t.Fatal(err)
	}
	var done []int64
	opts := &mongopatterns.Work{Filter: bson.M{"_id": 2}, BatchSize: 3, Progress: func(r tally) { done = append(done, r.Examined) }}
	diff(t, tally{Examined: 1}, ok[tally](t)(r.Drain(bounded(t), &mongopatterns.Work{Filter: d("_id", 1), DryRun: true})))
	diff(t, tally{Examined: 1, Done: 4}, ok[tally](t)(r.Drain(bounded(t), opts)))
	diff(t, tally{Examined: 1, Done: 4}, ok[tally](t)(r.Drain(bounded(t), nil)))
	diff(t, tally{}, ok[tally](t)(r.Drain(bounded(t), nil)))
	diff(t, []int64{1}, done)
	diff(t, []string{}, problems(t, r))

	// A source that is gone.
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "gone")))
	must(t)(customers.DeleteOne(bounded(t), d("_id", 0)))
	diff(t, tally{Examined: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))
	diff(t, 0, len(stored(t, outbox)))
}

// Several workers beside writers: nothing is lost, even if they do some work twice.
func TestOutboxWorkers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	// Hardly any lease, so that the workers get into each other's way.
	r, _, _ := orders(t, db, 3, &extref.Options{Outbox: db.Collection("outbox"), Lease: time.Millisecond})
	var writers, workers sync.WaitGroup
	limit := bounded(t)
	ctx, stop := context.WithCancel(limit)
	defer stop()
	for range 3 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Drain(limit, &mongopatterns.Work{BatchSize: 2}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 3 {
		writers.Go(func() {
			for i := range 10 {
				if _, err := r.Update(limit, (w+i)%3, set("name", fmt.Sprint(w, "/", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	workers.Wait()
	ok[tally](t)(r.Drain(bounded(t), nil))
	diff(t, []string{}, problems(t, r))
	diff(t, 0, len(entries(t, db.Collection("outbox"))))
}

// A change between the propagation and the removal of an entry keeps it.
func TestOutboxKeepsNewerChanges(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	updates := 0
	var other *mongo.Client // changes the source when the entry is about to be removed
	hooked := mongotest.Database(t, options.Client().SetMonitor(onCommand("delete", func() {
		if updates++; updates == 1 {
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "second")))
		}
	})))
	other = hooked.Client()
	same := other.Database(db.Name())
	worker, err := extref.New[int, bson.D](same.Collection("customers"), []extref.Target{{
		Collection: same.Collection("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address.city"}},
	}}, &extref.Options{Outbox: same.Collection("outbox")})
	if err != nil {
		t.Fatal(err)
	}
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "first")))
	diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(worker.Drain(bounded(t), nil)))
	diff(t, []string{}, problems(t, r))
}

func TestOutboxPoison(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, _, orders := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	must(t)(orders.Indexes().CreateOne(bounded(t), testkit.Unique("customer.name")))
	for c, name := range []string{"c1", "fine", "c1"} { // c0 cannot take c1's name
		ok[extref.UpdateResult](t)(r.Update(bounded(t), c, set("name", name)))
		time.Sleep(2 * time.Millisecond) // in the order of due
	}
	begin := time.Now().Truncate(time.Millisecond)
	result, err := r.Drain(bounded(t), &mongopatterns.Work{Filter: d("attempts", 0)}) // none twice, however long they take
	end := time.Now()
	if err != nil || len(result.Failures) != 1 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) ||
		result.Failures[0].Collection != "orders" || result.Failures[0].ID.AsInt64() != 0 {
		t.Fatal(result, err)
	}
	result.Failures = nil
	diff(t, tally{Examined: 3, Done: 2, Failed: 1}, result)
	pending := entries(t, db.Collection("outbox"))
	if len(pending) != 1 || pending[0].Attempts != 1 || !strings.Contains(pending[0].Error, "duplicate") ||
		pending[0].Due.Before(begin.Add(2*time.Second)) || pending[0].Due.After(end.Add(2*time.Second)) {
		t.Fatalf("%+v", pending)
	}
	must(t)(db.Collection("outbox").UpdateOne(bounded(t), d("_id", 0), d("$set", d("due", end.Add(time.Hour)))))
	diff(t, tally{}, ok[tally](t)(r.Drain(bounded(t), nil))) // later
	// The next change makes it due, as if it were new but for its age.
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "free")))
	since := pending[0].Since
	pending = entries(t, db.Collection("outbox"))
	if len(pending) != 1 || pending[0].Attempts != 0 || pending[0].Error != "" || !pending[0].Since.Equal(since) || pending[0].Due.After(time.Now()) {
		t.Errorf("%+v", pending)
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))
}

// The error of an entry names its source once.
func TestDrainNamesTheSource(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox")})
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 0, set("name", "x")))
	must(t)(customers.UpdateByID(bounded(t), 0, set("version", "1.0")))
	result := ok[tally](t)(r.Drain(bounded(t), nil))
	if result.Failed != 1 || result.Failures[0].Err.Error() != `_id 0: invalid: "version" is "1.0" and must be a whole number from 0 to 9223372036854775806` {
		t.Error(result)
	}
}

// An entry that was taken on by a worker which died is free after its lease.
func TestOutboxLease(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	outbox := db.Collection("outbox")
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: outbox})
	ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "x")))
	if _, err := outbox.UpdateOne(t.Context(), d(), set("due", time.Now().Add(time.Hour))); err != nil { // taken on
		t.Fatal(err)
	}
	diff(t, tally{}, ok[tally](t)(r.Drain(t.Context(), nil)))
	if _, err := outbox.UpdateOne(t.Context(), d(), set("due", time.Now().Add(-time.Millisecond))); err != nil { // and over
		t.Fatal(err)
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(t.Context(), nil)))
	// Documents that are not entries stay.
	insert(t, outbox, d("_id", 0), d("_id", 1, "due", nil), d("_id", 2, "due", 5))
	diff(t, tally{}, ok[tally](t)(r.Drain(t.Context(), nil)))
	diff(t, 3, len(stored(t, outbox)))
}

// The outbox goes by the clock of the server: a process with a wrong one neither holds entries back, nor takes
// those of another worker, nor misses any.
func TestOutboxBesideWrongClocks(t *testing.T) {
	t.Parallel()
	const century = 100 * 365 * 24 * time.Hour
	for name, ahead := range map[string]time.Duration{"behind": 0, "ahead": century} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			outbox := db.Collection("outbox")
			r, customers, _ := orders(t, db, 2, &extref.Options{Outbox: outbox})
			inOrder := func(times ...time.Time) {
				t.Helper()
				if !slices.IsSortedFunc(times, time.Time.Compare) {
					t.Error(times)
				}
			}

			begin := serverTime(t, db)
			wrongClock(t, ahead, db, func(t *testing.T, _ *mongo.Database, r *extref.Source[int, bson.D]) {
				ok[extref.UpdateResult](t)(r.Update(t.Context(), 0, set("name", "x")))
			})
			pending := entries(t, outbox)
			inOrder(begin, pending[0].Since, pending[0].Due, serverTime(t, db))
			diff(t, tally{Examined: 1, Done: 2}, ok[tally](t)(r.Drain(bounded(t), nil)))

			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "y"))) // taken on by a worker
			must(t)(outbox.UpdateOne(bounded(t), d(), set("due", serverTime(t, db).Add(time.Hour))))
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 2, set("name", "z"))) // fails
			must(t)(customers.UpdateByID(bounded(t), 2, set("version", "1.0")))
			begin = serverTime(t, db)
			wrongClock(t, ahead, db, func(t *testing.T, _ *mongo.Database, r *extref.Source[int, bson.D]) {
				diff(t, tally{Examined: 1}, ok[tally](t)(r.Drain(t.Context(), &mongopatterns.Work{DryRun: true})))
				if result := ok[tally](t)(r.Drain(t.Context(), nil)); result.Examined != 1 || result.Failed != 1 {
					t.Error(result)
				}
			})
			pending = entries(t, outbox)
			if len(pending) != 2 || pending[0].ID != 2 || pending[0].Attempts != 1 || pending[1].Attempts != 0 {
				t.Fatalf("%+v", pending)
			}
			inOrder(begin.Add(2*time.Second), pending[0].Due, serverTime(t, db).Add(2*time.Second))
		})
	}
}

// serverTime is the clock of the server.
func serverTime(t *testing.T, db *mongo.Database) time.Time {
	t.Helper()
	var hello struct{ LocalTime time.Time }
	must(t)(nil, db.RunCommand(bounded(t), d("hello", 1)).Decode(&hello))
	return hello.LocalTime
}

// wrongClock calls fn as if in a process whose clock shows the year 2000 and so much more, with the database and the
// source of orders. Beside a monitor that waits for an answer all the time the clock would not go on in a pause. The client
// is made and closed under this clock: one that others use waits on channels of theirs, and the process would crash.
func wrongClock(t *testing.T, ahead time.Duration, db *mongo.Database, fn func(*testing.T, *mongo.Database, *extref.Source[int, bson.D])) {
	t.Helper()
	uri := mongotest.URI(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(ahead)
		client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerMonitoringMode("poll"))
		testkit.OK(t, err)
		defer func() { testkit.OK(t, client.Disconnect(context.WithoutCancel(t.Context()))) }()
		same := client.Database(db.Name())
		fn(t, same, newRef[int, bson.D](t, same.Collection("customers"), []extref.Target{{
			Collection: same.Collection("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address.city"}},
		}}, &extref.Options{Outbox: same.Collection("outbox")}))
	})
}

// Whatever is stored as the number of attempts, the entry is tried again after a failure, and keeps no other from it.
func TestOutboxAttempts(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]any{
		"negative": -5, "least": int64(math.MinInt64), "most": int64(math.MaxInt64), "NaN": math.NaN(), "infinite": math.Inf(-1), "text": "x", "document": d("a", 1), "null": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			outbox := db.Collection("outbox")
			r, customers, _ := orders(t, db, 1, &extref.Options{Outbox: outbox})
			for id := range 2 {
				ok[extref.UpdateResult](t)(r.Update(bounded(t), id, set("name", "x")))
			}
			must(t)(outbox.UpdateByID(bounded(t), 0, d("$set", d("attempts", attempts, "due", time.Unix(0, 0)))))
			must(t)(customers.UpdateByID(bounded(t), 0, set("version", "1.0"))) // it fails
			begin := serverTime(t, db)
			result := ok[tally](t)(r.Drain(bounded(t), nil))
			if result.Examined != 2 || result.Failed != 1 || result.Done != 1 {
				t.Errorf("%+v", result)
			}
			left := ok[[]byte](t)(outbox.FindOne(bounded(t), d("_id", 0)).Raw())
			if due := bson.Raw(left).Lookup("due").Time(); due.Before(begin) || due.After(begin.Add(20*time.Minute)) {
				t.Error(due, begin)
			}
		})
	}
}

// An entry that somebody typed, perhaps without change or with anything there, is propagated and removed as others are.
func TestOutboxByHand(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]bson.D{
		"missing": nil, "null": d("change", nil), "document": d("change", d("$gt", "")), "pattern": d("change", bson.Regex{Pattern: "x"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			outbox := db.Collection("outbox")
			r, customers, _ := orders(t, db, 2, &extref.Options{Outbox: outbox})
			must(t)(customers.UpdateMany(bounded(t), d(), d("$set", d("name", "x"), "$inc", d("version", 1))))
			must(t)(outbox.InsertOne(bounded(t), append(d("_id", 0, "due", time.Unix(0, 0)), change...)))
			ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "y")))
			result := ok[tally](t)(r.Drain(bounded(t), nil))
			if result.Examined != 2 || result.Failed != 0 || result.Done != 4 {
				t.Errorf("%+v", result)
			}
			if n := ok[int64](t)(outbox.CountDocuments(bounded(t), d())); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}
