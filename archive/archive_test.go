package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Old documents go to the archive and come back, of each BSON type, byte by byte.
func TestMoveAndRestore(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	types := []any{1, int64(1), 1.0, math.NaN(), "x", bson.D{{Key: "z", Value: 1}, {Key: "a", Value: nil}}, bson.A{}, bson.A{int32(1), 1.0}, bson.NewObjectID(), true, nil,
		time.UnixMilli(-1), bson.Regex{Pattern: "^a", Options: "i"}, bson.JavaScript("f()"), bson.Timestamp{T: 7, I: 1}, bson.NewDecimal128(1, 2),
		bson.MinKey{}, bson.MaxKey{}, bson.Binary{Subtype: 4, Data: make([]byte, 16)}, bson.Symbol("s"), bson.D{{Key: "$gt", Value: 1}, {Key: "a.b", Value: 2}}}
	var docs []any
	for i, v := range types {
		docs = append(docs, d("_id", i, "z", v, "at", on(i), "a", v))
	}
	testkit.Insert(t, live, docs...)
	before := stored(t, live)
	var progress []int64
	began := time.Now().Add(-time.Second)
	done(t, 15)(a.Move(t.Context(), a.BeforeFilter(on(15)), &mongopatterns.Work{BatchSize: 4, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) }}))
	same(t, []int64{4, 8, 12, 15}, progress)
	same(t, before[:15], stored(t, archived))
	same(t, before[15:], stored(t, live))
	if n := testkit.Count(t, archived, d("archived_at", d("$gte", began, "$lte", time.Now().Add(time.Second)))); n != 15 {
		t.Errorf("%d have the time of the move", n)
	}
	done(t, 0)(a.Move(t.Context(), a.BeforeFilter(on(15)), nil))
	same(t, []string{}, testkit.Problems(t, a))

	done(t, 2)(a.Restore(t.Context(), d("_id", d("$in", bson.A{3, 4})), nil))
	same(t, []any{int32(3), int32(4)}, ids(t, live)[:2])
	done(t, 13)(a.Restore(t.Context(), all, &mongopatterns.Work{BatchSize: 5}))
	same(t, before, stored(t, live))
	same(t, 0, testkit.Count(t, archived, all))
	same(t, len(before), testkit.Count(t, live, a.LiveFilter()))
}

// BeforeFilter selects dates before t; what has no date, or also a later one, is live.
func TestBeforeFilter(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	testkit.Insert(t, live, d("_id", "before", "at", on(9)), d("_id", "at", "at", on(10)), d("_id", "after", "at", on(11)),
		d("_id", "missing"), d("_id", "null", "at", nil), d("_id", "text", "at", "2020-01-01"), d("_id", "number", "at", 5),
		d("_id", "all before", "at", bson.A{on(1), on(9)}), d("_id", "one after", "at", bson.A{on(1), on(11)}), d("_id", "none", "at", bson.A{}),
		d("_id", "before and others", "at", bson.A{"2030-01-01", on(1), nil, 5}), d("_id", "after and others", "at", bson.A{"2020-01-01", on(11), nil, 5}),
		d("_id", "only others", "at", bson.A{"2020-01-01", 5}))
	done(t, 3)(a.Move(t.Context(), a.BeforeFilter(on(10)), nil))
	same(t, []any{"all before", "before", "before and others"}, ids(t, archived))

	// By the time in an ObjectID, to the second.
	db := mongotest.Database(t)
	live, archived = db.Collection("a"), db.Collection("b")
	byID := open(t, live, archived, nil)
	testkit.OK(t, byID.EnsureIndexes(t.Context()))
	made := func(at time.Time) bson.ObjectID { return bson.NewObjectIDFromTimestamp(at) }
	first, last := made(on(10).Add(-time.Second)), made(on(10))
	testkit.Insert(t, live, d("_id", first), d("_id", last), d("_id", 17), d("_id", "x"))
	for _, never := range []time.Time{{}, time.Unix(-1, 0), on(10).Add(-time.Second), on(10).Add(-1500 * time.Millisecond)} {
		done(t, 0)(byID.Move(t.Context(), byID.BeforeFilter(never), nil))
	}
	done(t, 1)(byID.Move(t.Context(), byID.BeforeFilter(on(10).Add(-500*time.Millisecond)), nil))
	same(t, []any{first}, ids(t, archived))
	done(t, 1)(byID.Move(t.Context(), byID.BeforeFilter(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)), nil))
	same(t, []any{int32(17), "x"}, ids(t, live))
}

// The archive is in another database, and has the same name there. Nothing is written there before Move needs it.
func TestAnotherDatabase(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	cold := db.Client().Database(db.Name() + "_cold")
	admin := mongotest.Admin(t, db).Client().Database(cold.Name())
	t.Cleanup(func() { testkit.OK(t, admin.Drop(context.Background())) })
	live, archived := db.Collection("orders"), cold.Collection("orders")
	a := open(t, live, archived, &archive.Options{TimeField: "at"})
	testkit.Insert(t, live, d("_id", 1, "at", on(1)), d("_id", 2, "at", on(2)))
	done(t, 1)(a.Move(t.Context(), a.BeforeFilter(on(2)), &mongopatterns.Work{DryRun: true}))
	names, err := cold.ListCollectionNames(t.Context(), all)
	testkit.OK(t, err)
	same(t, 0, len(names))
	done(t, 1)(a.Move(t.Context(), a.BeforeFilter(on(2)), nil))
	same(t, []any{int32(1)}, ids(t, archived))
	same(t, []any{int32(2)}, ids(t, live))
	same(t, []string{}, testkit.Problems(t, a))
	same(t, 1, len(a.ShardKey()))
	testkit.OK(t, live.Drop(t.Context()))
	done(t, 1)(a.Restore(t.Context(), all, nil)) // makes the live collection again
	same(t, []any{int32(1)}, ids(t, live))
}

// A batch with documents that cannot be moved moves the others, and names each of these; nothing is overwritten.
func TestFailures(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	_, err := archived.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("number", 1), Options: options.Index().SetUnique(true).SetSparse(true)})
	testkit.OK(t, err)
	testkit.Insert(t, archived, d("_id", "differs", "at", on(1), "v", 1, "archived_at", on(0)), d("_id", "same", "at", on(1), "v", 1, "archived_at", on(0)),
		d("_id", "other", "number", 7), d("_id", 5, "at", on(1)))
	large := func(id string, size int) bson.D { return d("_id", id, "at", on(1), "v", strings.Repeat("x", size)) }
	const most = 16<<20 - 50
	testkit.Insert(t, live, d("_id", "differs", "at", on(1), "v", 2), d("_id", "same", "at", on(1), "v", 1), d("_id", "well", "at", on(1)),
		d("_id", "taken", "at", on(1), "number", 7), d("_id", "marked", "at", on(1), "archived_at", "mine"), d("_id", 5.0, "at", on(1)))
	testkit.Insert(t, live, large("large", most))
	testkit.Insert(t, live, d("_id", "stamp", "at", on(1)))
	_, err = live.UpdateByID(t.Context(), "stamp", d("$set", d("v", bson.Timestamp{})))
	testkit.OK(t, err)
	before := map[string][]bson.Raw{}
	for _, id := range []string{"differs", "taken", "large", "stamp"} {
		before[id] = read(t.Context(), t, live, d("_id", id))
	}

	for range 2 { // the second run finds the same
		result, err := a.Move(t.Context(), a.BeforeFilter(on(2)), nil)
		testkit.OK(t, err)
		got := map[any]error{}
		for _, f := range result.Failures {
			var id any
			testkit.OK(t, f.ID.Unmarshal(&id))
			got[id] = f.Err
			if f.Collection != "orders" {
				t.Errorf("%+v", f)
			}
		}
		if result.Failed != 6 || len(got) != 6 || !errors.Is(got["differs"], mongopatterns.ErrExists) || !errors.Is(got[5.0], mongopatterns.ErrExists) ||
			!mongo.IsDuplicateKeyError(got["taken"]) || !errors.Is(got["marked"], mongopatterns.ErrMalformed) ||
			!errors.Is(got["stamp"], mongopatterns.ErrMalformed) || got["large"] == nil {
			t.Errorf("%+v", result)
		}
	}
	same(t, []any{int32(5), "differs", "other", "same", "well"}, ids(t, archived))
	same(t, []any{5.0, "differs", "large", "marked", "stamp", "taken"}, ids(t, live))
	for id, want := range before {
		same(t, want, read(t.Context(), t, live, d("_id", id)))
	}
	same(t, int32(1), field(t, archived, "differs", "v").Int32())
	if _, err := a.Move(t.Context(), d("_id", "differs"), &mongopatterns.Work{Strict: true}); !errors.Is(err, mongopatterns.ErrExists) {
		t.Errorf("strict: %v", err)
	}
	if _, err := a.Move(t.Context(), d("_id", "marked"), &mongopatterns.Work{Strict: true}); !errors.Is(err, mongopatterns.ErrMalformed) || !strings.Contains(err.Error(), `"marked"`) {
		t.Errorf("strict: %v", err)
	}

	// And on the way back.
	testkit.Insert(t, live, d("_id", "well", "at", on(1)), d("_id", "same", "at", on(1), "v", 3))
	result, err := a.Restore(t.Context(), d("_id", d("$in", bson.A{"well", "same", "other"})), nil)
	if err != nil || result.Done != 2 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrExists) || result.Failures[0].Collection != "orders_archive" {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, []any{int32(5), "differs", "same"}, ids(t, archived))
	if field(t, archived, "same", "archived_at").Time().IsZero() {
		t.Error("a document that was not restored lost its mark")
	}
}

func field(t testing.TB, coll *mongo.Collection, id any, name string) bson.RawValue {
	t.Helper()
	doc, err := coll.FindOne(t.Context(), d("_id", id)).Raw()
	testkit.OK(t, err)
	return doc.Lookup(name)
}

// A validator of either side refuses a document, and the others are moved.
func TestValidators(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	testkit.OK(t, db.CreateCollection(t.Context(), "live", options.CreateCollection().SetValidator(d("archived_at", d("$exists", false)))))
	testkit.OK(t, db.CreateCollection(t.Context(), "archive", options.CreateCollection().SetValidator(d("v", d("$lt", 3)))))
	live, archived := db.Collection("live"), db.Collection("archive")
	for i := range 6 {
		testkit.Insert(t, live, d("_id", i, "v", i))
	}
	a := open(t, live, archived, nil)
	result, err := a.Move(t.Context(), all, nil)
	if err != nil || result.Failed != 6 || result.Done != 0 || testkit.Count(t, live, all) != 6 {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.OK(t, mongotest.Admin(t, db).RunCommand(t.Context(), d("collMod", "live", "validator", d())).Err())
	result, err = a.Move(t.Context(), all, nil)
	if err != nil || result.Failed != 3 || result.Done != 3 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, []any{int32(0), int32(1), int32(2)}, ids(t, archived))
	same(t, []any{int32(3), int32(4), int32(5)}, ids(t, live))
}

// Check names what is wrong, Repair solves what has one solution.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	testkit.Insert(t, live, d("_id", 1, "a", 1, "b", 2), d("_id", 2, "a", 1), d("_id", 3), d("_id", 4, "archived_at", 7), d("_id", 5, "b", 1), d("_id", 6), d("_id", 8, "archived_at", on(1), "a", 1))
	testkit.Insert(t, archived, d("_id", 1, "a", 1, "b", 2, "archived_at", on(1)), d("_id", 2, "a", 1.0, "archived_at", on(1)), d("_id", 5, "b", 1, "c", 2, "archived_at", on(1)),
		d("_id", 6, "archived_at", on(1)), d("_id", 7), d("_id", 8, "a", 1, "archived_at", on(2)))
	want := []string{"archive: orders 1: duplicate", `archive: orders 2: different: a is 1: archived: 1`,
		"archive: orders 5: different: c: archived: 2", "archive: orders 6: duplicate", "archive: orders 8: duplicate", "archive: orders 4: marked: archived_at is 7",
		"archive: orders_archive 7: unmarked: archived_at"}
	same(t, want, testkit.Problems(t, a))
	for _, dry := range []bool{true, false} {
		result, err := a.Repair(t.Context(), &mongopatterns.Work{DryRun: dry})
		if err != nil || result.Done != 4 || result.Remaining != 3 || result.Examined != 8 {
			t.Errorf("%v: %+v, %v", dry, result, err)
		}
		if dry {
			same(t, want, testkit.Problems(t, a))
		}
	}
	same(t, []string{want[1], want[2], want[5]}, testkit.Problems(t, a))
	same(t, []any{int32(2), int32(3), int32(4), int32(5)}, ids(t, live))
	same(t, 6, testkit.Count(t, archived, a.ArchivedFilter()))
	// A filter selects live documents.
	var found []string
	for p, err := range a.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", 2)}) {
		testkit.OK(t, err)
		found = append(found, p.String())
	}
	same(t, want[1:2], found)
}

// Calls join the caller's transaction, and what it aborts has not happened.
func TestInTransaction(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	for i := range 5 {
		testkit.Insert(t, live, d("_id", i, "at", on(i)))
	}
	stop := errors.New("stop")
	err := mongopatterns.Transact(t.Context(), live.Database().Client(), func(ctx context.Context) error {
		done(t, 3)(a.Move(ctx, a.BeforeFilter(on(3)), nil))
		same(t, 3, len(read(ctx, t, archived, all)))
		return stop
	})
	if !errors.Is(err, stop) || testkit.Count(t, live, all) != 5 || testkit.Count(t, archived, all) != 0 {
		t.Error(err)
	}
	testkit.OK(t, mongopatterns.Transact(t.Context(), live.Database().Client(), func(ctx context.Context) error {
		if _, err := a.Move(ctx, a.BeforeFilter(on(3)), nil); err != nil {
			return err
		}
		_, err := a.Restore(ctx, d("_id", 0), nil)
		return err
	}))
	same(t, []any{int32(0), int32(3), int32(4)}, ids(t, live))
	// In the caller's transaction a document that cannot be moved ends the call.
	testkit.Insert(t, archived, d("_id", 3, "v", 1))
	err = mongopatterns.Transact(t.Context(), live.Database().Client(), func(ctx context.Context) error {
		_, err := a.Move(ctx, d("_id", 3), nil)
		return err
	})
	if !errors.Is(err, mongopatterns.ErrExists) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
		t.Error(err)
	}
	// One that is the same on the other side does not.
	testkit.Insert(t, archived, d("_id", 4, "at", on(4)))
	testkit.OK(t, mongopatterns.Transact(t.Context(), live.Database().Client(), func(ctx context.Context) error {
		done(t, 2)(a.Move(ctx, d("_id", d("$in", bson.A{0, 4})), nil))
		return nil
	}))
	same(t, []any{int32(3)}, ids(t, live))
}

// A call that is stopped is continued by the next.
func TestResumes(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	for i := range 10 {
		testkit.Insert(t, live, d("_id", i, "at", on(i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	result, err := a.Move(ctx, all, &mongopatterns.Work{BatchSize: 3, Progress: func(mongopatterns.Result) { cancel() }})
	if !errors.Is(err, context.Canceled) || result.Done != 3 || testkit.Count(t, archived, all) != 3 || testkit.Count(t, live, all) != 7 {
		t.Errorf("%+v, %v", result, err)
	}
	done(t, 7)(a.Move(t.Context(), all, nil))
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	a, live, archived := orders(t)
	testkit.Insert(t, live, d("_id", 1))
	ctx := t.Context()
	other, err := mongo.Connect(options.Client().ApplyURI(mongotest.URI(t)))
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, other.Disconnect(context.Background())) })
	second := func(_ any, err error) error { return err }
	db := live.Database()
	for what, err := range map[string]error{
		"live: the collection is nil":     second(archive.New(nil, archived, nil)),
		"archived: the collection is nil": second(archive.New(live, nil, nil)),
		"is also live":                    second(archive.New(live, db.Collection("orders"), nil)),
		"is of another client":            second(archive.New(live, other.Database(db.Name()).Collection("x"), nil)),
		"Options.MarkField":               second(archive.New(live, archived, &archive.Options{MarkField: "a.b"})),
		"Options.TimeField":               second(archive.New(live, archived, &archive.Options{TimeField: "$x"})),
		`"_id"`:                           second(archive.New(live, archived, &archive.Options{MarkField: "_id"})),
		`"at"`:                            second(archive.New(live, archived, &archive.Options{MarkField: "at", TimeField: "at"})),
		"old: the filter is nil":          second(a.Move(ctx, nil, nil)),
		"filter: the filter is nil":       second(a.Restore(ctx, nil, nil)),
		"old: int cannot":                 second(a.Move(ctx, 7, nil)),
		"Work.BatchSize":                  second(a.Move(ctx, all, &mongopatterns.Work{BatchSize: -1})),
		"Work.Filter":                     second(a.Move(ctx, all, &mongopatterns.Work{Filter: "x"})),
		"archive: repair: invalid:":       second(a.Repair(ctx, &mongopatterns.Work{BatchBytes: -1})),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	same(t, 1, testkit.Count(t, live, all))
}

// A filter that was never set moves nothing, also with a client that encodes nil as an empty document.
func TestNoFilter(t *testing.T) {
	t.Parallel()
	for _, empty := range []bool{false, true} {
		db := mongotest.Database(t, options.Client().SetBSONOptions(&options.BSONOptions{NilSliceAsEmpty: empty, NilMapAsEmpty: empty}))
		a := testkit.Must(archive.New(db.Collection("live"), db.Collection("old"), nil))
		testkit.Insert(t, db.Collection("live"), testkit.D("_id", 1))
		testkit.Insert(t, db.Collection("old"), testkit.D("_id", 2, "archived", true))
		for _, none := range []any{nil, bson.D(nil), bson.M(nil), bson.Raw(nil)} {
			for _, move := range []func(context.Context, any, *mongopatterns.Work) (mongopatterns.Result, error){a.Move, a.Restore} {
				if result, err := move(t.Context(), none, nil); !errors.Is(err, mongopatterns.ErrInvalid) || result.Done != 0 {
					t.Errorf("%T: %+v, %v", none, result, err)
				}
			}
		}
		if n := testkit.Count(t, db.Collection("live"), testkit.D()); n != 1 {
			t.Errorf("%d documents left", n)
		}
	}
}
