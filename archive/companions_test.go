package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A journey has trips with comments and photos, on both sides.
type journey struct {
	*archive.Archive
	db                                                   *mongo.Database
	trips, oldTrips, comments, oldComments, photos, oldP *mongo.Collection
}

func trips(t testing.TB) journey {
	t.Helper()
	return openTrips(t, mongotest.Database(t))
}

func openTrips(t testing.TB, db *mongo.Database) journey {
	t.Helper()
	j := journey{nil, db, db.Collection("trips"), db.Collection("trips_old"), db.Collection("comments"), db.Collection("comments_old"),
		db.Collection("photos"), db.Collection("photos_old")}
	j.Archive = open(t, j.trips, j.oldTrips, &archive.Options{TimeField: "at", Companions: []archive.Companion{
		{Live: j.comments, Archived: j.oldComments, Field: "trip_id"},
		{Live: j.photos, Archived: j.oldP, Field: "of.trip"},
	}})
	testkit.OK(t, j.EnsureIndexes(t.Context()))
	return j
}

// store stores trips, each with comments and a photo.
func (j journey) store(t testing.TB, n, comments int) {
	t.Helper()
	for i := range n {
		testkit.Insert(t, j.trips, d("_id", i, "at", on(i)))
		testkit.Insert(t, j.photos, d("_id", i, "of", d("trip", i)))
		for c := range comments {
			testkit.Insert(t, j.comments, d("_id", 100*i+c, "trip_id", i, "text", "c"))
		}
	}
}

// A trip moves with all that belongs to it, and comes back as it was.
func TestCompanions(t *testing.T) {
	t.Parallel()
	j := trips(t)
	j.store(t, 6, 3)
	testkit.Insert(t, j.comments, d("_id", "none", "text", "of no trip"), d("_id", "other", "trip_id", "elsewhere"))
	before := [][]bson.Raw{stored(t, j.trips), stored(t, j.comments), stored(t, j.photos)}
	done(t, 4)(j.Move(t.Context(), j.BeforeFilter(on(4)), &mongopatterns.Work{BatchSize: 3}))
	same(t, before[0][:4], stored(t, j.oldTrips))
	same(t, before[1][:12], stored(t, j.oldComments))
	same(t, before[2][:4], stored(t, j.oldP))
	same(t, before[1][12:], stored(t, j.comments))
	same(t, 0, testkit.Count(t, j.oldComments, j.ArchivedFilter()))
	same(t, []string{}, testkit.Problems(t, j))

	done(t, 1)(j.Restore(t.Context(), d("_id", 2), nil))
	same(t, []any{int32(0), int32(1), int32(2), int32(100), int32(101), int32(102), int32(300), int32(301), int32(302)}, ids(t, j.oldComments))
	done(t, 3)(j.Restore(t.Context(), all, nil))
	same(t, before, [][]bson.Raw{stored(t, j.trips), stored(t, j.comments), stored(t, j.photos)})
	same(t, 0, testkit.Count(t, j.oldComments, all)+testkit.Count(t, j.oldP, all)+testkit.Count(t, j.oldTrips, all))
	same(t, []string{}, testkit.Problems(t, j))
}

// Companions of more than Work.BatchBytes are not moved, nor is their document; the others of its batch are.
func TestLargeCompanions(t *testing.T) {
	t.Parallel()
	j := trips(t)
	j.store(t, 5, 2)
	for i := range 20 {
		testkit.Insert(t, j.comments, d("_id", fmt.Sprint(i), "trip_id", 3, "text", strings.Repeat("x", 1000)))
	}
	for i := range 4 { // each has room alone, and not with the others
		testkit.Insert(t, j.comments, d("_id", fmt.Sprint("s", i), "trip_id", i, "text", strings.Repeat("x", 3000)))
	}
	before := stored(t, j.comments)
	work := mongopatterns.Work{BatchBytes: 9000}
	strict := work
	strict.Strict = true
	if _, err := j.Move(t.Context(), d("_id", 3), &strict); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	same(t, before, stored(t, j.comments))
	done(t, 3)(j.Move(t.Context(), d("_id", d("$lt", 3)), &strict))
	done(t, 3)(j.Restore(t.Context(), all, &strict))
	result, err := j.Move(t.Context(), all, &work)
	if err != nil || result.Done != 4 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) || result.Failures[0].ID.Int32() != 3 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, []any{int32(3)}, ids(t, j.trips))
	same(t, 23, testkit.Count(t, j.comments, all))
	same(t, []string{}, testkit.Problems(t, j))
	// In a transaction of the caller's it is the caller who decides.
	testkit.OK(t, mongopatterns.Transact(t.Context(), j.db.Client(), func(ctx context.Context) error {
		_, err := j.Move(ctx, all, &work)
		return err
	}))
	same(t, before, stored(t, j.oldComments))
	same(t, []string{}, testkit.Problems(t, j))
}

// Nothing is overwritten: what is the same on the other side is deleted on this one, what differs keeps its trip.
func TestCompanionsOnBothSides(t *testing.T) {
	t.Parallel()
	j := trips(t)
	j.store(t, 5, 2)
	before := stored(t, j.comments)
	testkit.Insert(t, j.oldComments, d("_id", 0, "trip_id", 0, "text", "c"), d("_id", 101, "trip_id", 1, "text", "other"), d("_id", 201, "trip_id", 2, "text", "other"))
	testkit.Insert(t, j.oldTrips, d("_id", 2, "at", on(2), "archived_at", on(9)), d("_id", 3, "at", on(3), "archived_at", on(9)))
	problems := []string{"archive: trips 2: duplicate", "archive: trips 3: duplicate",
		"archive: comments_old 0: apart: trip_id is 0: 1 documents; theirs is in trips", "archive: comments_old 101: apart: trip_id is 1: 1 documents; theirs is in trips"}
	same(t, problems, testkit.Problems(t, j))
	for range 2 {
		result, err := j.Move(t.Context(), all, nil)
		if err != nil || result.Failed != 2 {
			t.Fatalf("%+v, %v", result, err)
		}
		for i, id := range []int32{1, 2} {
			if f := result.Failures[i]; f.ID.Int32() != id || !errors.Is(f.Err, mongopatterns.ErrExists) {
				t.Errorf("%+v", f)
			}
		}
		same(t, []any{int32(1), int32(2)}, ids(t, j.trips))
		same(t, []any{int32(100), int32(101), int32(200), int32(201)}, ids(t, j.comments))
		same(t, []any{int32(1), int32(2)}, ids(t, j.photos))
	}
	for _, filter := range []bson.D{d("_id", 1), d("_id", 2)} {
		err := mongopatterns.Transact(t.Context(), j.db.Client(), func(ctx context.Context) error {
			return testkit.ErrorOf(j.Move(ctx, filter, nil))
		})
		if !errors.Is(err, mongopatterns.ErrExists) {
			t.Error(err)
		}
	}
	// Repair keeps what differs.
	for _, dry := range []bool{true, false} {
		result, err := j.Repair(t.Context(), &mongopatterns.Work{DryRun: dry})
		if err != nil || result.Remaining != map[bool]int64{true: 1, false: 2}[dry] || result.Failed != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	testkit.Must(j.oldComments.DeleteMany(t.Context(), d("text", "other")))
	done(t, 2)(j.Move(t.Context(), all, nil))
	same(t, before, stored(t, j.oldComments))
	same(t, []string{}, testkit.Problems(t, j))
}

// Companions without their document beside them are named, and moved to it.
func TestApart(t *testing.T) {
	t.Parallel()
	j := trips(t)
	j.store(t, 4, 2)
	done(t, 2)(j.Move(t.Context(), j.BeforeFilter(on(2)), nil))
	for i := range 7 {
		testkit.Insert(t, j.comments, d("_id", fmt.Sprint("late", i), "trip_id", 1, "text", strings.Repeat("x", 1000)))
	}
	testkit.Insert(t, j.comments, d("_id", 0, "trip_id", 0, "text", "other"), d("_id", 1, "trip_id", 0, "text", "c"))
	testkit.Insert(t, j.oldP, d("_id", "early", "of", d("trip", 3)))
	problems := []string{`archive: comments 0: apart: trip_id is 0: 2 documents; theirs is in trips_old`,
		`archive: comments "late0": apart: trip_id is 1: 7 documents; theirs is in trips_old`,
		`archive: photos_old "early": apart: of.trip is 3: 1 documents; theirs is in trips`}
	same(t, problems, testkit.Problems(t, j))
	for p, err := range j.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", 3)}) {
		t.Error(p, err)
	}
	for _, dry := range []bool{true, false} {
		result, err := j.Repair(t.Context(), &mongopatterns.Work{DryRun: dry, BatchBytes: 2500})
		if err != nil || result.Done != 9 || result.Remaining != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	same(t, []string{`archive: comments 0: apart: trip_id is 0: 1 documents; theirs is in trips_old`}, testkit.Problems(t, j))
	same(t, 11, testkit.Count(t, j.oldComments, all))
	same(t, 3, testkit.Count(t, j.photos, all))
	same(t, "other", field(t, j.comments, 0, "text").StringValue())
}

// A value that no document has as its _id names none, and hides no other companion.
func TestCompanionsOfNone(t *testing.T) {
	t.Parallel()
	j := trips(t)
	testkit.Insert(t, j.trips, d("_id", "a1"), d("_id", "a2"))
	testkit.Insert(t, j.oldTrips, d("_id", "b", "archived_at", on(9)))
	testkit.Insert(t, j.comments, d("_id", 1, "trip_id", "b"), d("_id", 2, "trip_id", bson.Regex{Pattern: "^a"}), d("_id", 3, "trip_id", nil),
		d("_id", 4, "trip_id", bson.Undefined{}), d("_id", 5))
	same(t, []string{`archive: comments 1: apart: trip_id is "b": 1 documents; theirs is in trips_old`}, testkit.Problems(t, j))
	done(t, 1)(j.Repair(t.Context(), nil))
	same(t, 1, testkit.Count(t, j.oldComments, all))
	same(t, 4, testkit.Count(t, j.comments, all))
}

// A comment whose trip is named in an array belongs to several, and is refused.
func TestCompanionInArray(t *testing.T) {
	t.Parallel()
	j := trips(t)
	j.store(t, 3, 0)
	testkit.Insert(t, j.comments, d("_id", 1, "trip_id", bson.A{0, 1}))
	result, err := j.Move(t.Context(), all, nil)
	if err != nil || result.Done != 1 || result.Failed != 2 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrMalformed) {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, []any{int32(0), int32(1)}, ids(t, j.trips))
	same(t, []any{int32(1)}, ids(t, j.comments))
	// Check names it, and one whose path leads through an array, but not those that name nothing. Repair counts them.
	testkit.Insert(t, j.comments, d("_id", 2, "trip_id", bson.A{}))
	testkit.Insert(t, j.photos, d("_id", 3, "of", bson.A{d("trip", 1)}), d("_id", 4, "of", bson.A{d("trip", 1)}), d("_id", 5, "of", bson.A{1}))
	same(t, []string{"archive: comments 1: malformed: trip_id is [{\"$numberInt\":\"0\"},{\"$numberInt\":\"1\"}]: 1 documents; what they belong to cannot move",
		"archive: photos 3: malformed: of.trip is [{\"$numberInt\":\"1\"}]: 2 documents; what they belong to cannot move"}, testkit.Problems(t, j))
	for _, dry := range []bool{true, false} {
		if result, err := j.Repair(t.Context(), &mongopatterns.Work{DryRun: dry}); err != nil || result.Remaining != 3 || result.Done+result.Failed > 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	// Those that Repair counts stay, and the others of the same trip move.
	testkit.Insert(t, j.comments, d("_id", 6, "trip_id", 2))
	testkit.Update(t, j.comments, d("_id", 1), d("$set", d("trip_id", bson.A{0, 2})))
	result, err = j.Repair(t.Context(), nil)
	if err != nil || result.Done != 1 || result.Remaining != 3 || result.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, []any{int32(1), int32(2)}, ids(t, j.comments))
}

// The _ids of companions need not fit in one filter. They are counted only: a transaction of so many would need more of the
// server's cache than it has in a test.
func TestManyCompanions(t *testing.T) {
	t.Parallel()
	j := trips(t)
	const n = 6_000
	testkit.Insert(t, j.oldTrips, d("_id", 0, "archived_at", on(9)))
	var said []any
	for i := range n {
		said = append(said, d("_id", fmt.Sprintf("%03000d", i), "trip_id", 0))
	}
	testkit.Insert(t, j.comments, said...)
	done(t, n)(j.Repair(t.Context(), &mongopatterns.Work{BatchSize: n, BatchBytes: 64 << 20, DryRun: true}))
}

// A Repair keeps the _ids of a batch of companions, and not those of all that it has met.
func TestManyApart(t *testing.T) {
	t.Parallel()
	j := trips(t)
	testkit.Insert(t, j.oldTrips, d("_id", 0, "archived_at", on(9)))
	var said []any
	for i := range 300 {
		said = append(said, d("_id", i, "trip_id", 0))
	}
	testkit.Insert(t, j.comments, said...)
	testkit.Insert(t, j.oldComments, d("_id", 7, "trip_id", 0, "text", "other"))
	for _, dry := range []bool{true, false} {
		cmds := mongotest.Record(t, j.db, func() {
			result, err := j.Repair(t.Context(), &mongopatterns.Work{DryRun: dry, BatchSize: 10})
			if err != nil || result.Done != 299 || result.Remaining != 1 {
				t.Errorf("%+v, %v", result, err)
			}
		})
		for _, c := range cmds {
			if len(c.Body) > 3000 {
				t.Fatalf("%v: %d bytes of %s", dry, len(c.Body), c.Name)
			}
		}
	}
}

// A transaction holds the documents of the companions that it moves, and not all of a batch.
func TestApartHoldsItsOwn(t *testing.T) {
	t.Parallel()
	j := trips(t)
	for i := range 20 {
		testkit.Insert(t, j.oldTrips, d("_id", i, "archived_at", on(9)))
		var said []any
		for c := range 20 {
			said = append(said, d("_id", 100*i+c, "trip_id", i))
		}
		testkit.Insert(t, j.comments, said...)
	}
	held := 0
	for _, c := range mongotest.Record(t, j.db, func() { done(t, 400)(j.Repair(t.Context(), &mongopatterns.Work{BatchSize: 20})) }).Named("update") {
		held += int(c.Reply.Lookup("nModified").AsInt64())
	}
	same(t, 2*20, held) // each trip is marked and unmarked once
}

// A document does not leave while a Repair brings companions to it: a Restore meanwhile waits, and takes them along.
func TestApartHoldsWhatTheyBelongTo(t *testing.T) {
	t.Parallel()
	j := trips(t)
	testkit.Insert(t, j.oldTrips, d("_id", 1, "archived_at", on(9)))
	testkit.Insert(t, j.comments, d("_id", "late", "trip_id", 1))
	ended := make(chan error, 1)
	restoreMeanwhile := sync.OnceFunc(func() {
		met := make(chan struct{})
		meets := sync.OnceFunc(func() { close(met) })
		go func() {
			err := testkit.ErrorOf(j.Restore(t.Context(), all, &mongopatterns.Work{Progress: func(r mongopatterns.Result) {
				if r.Conflicts > 0 {
					meets()
				}
			}}))
			meets()
			ended <- err
		}()
		<-met // it waits for the transaction, or it has ended
	})
	testkit.OK(t, mongopatterns.Transact(t.Context(), j.db.Client(), func(ctx context.Context) error {
		if err := testkit.ErrorOf(j.Repair(ctx, nil)); err != nil {
			return err
		}
		restoreMeanwhile()
		return nil
	}))
	testkit.OK(t, <-ended)
	same(t, []string{}, testkit.Problems(t, j))
	same(t, []int{1, 1}, []int{testkit.Count(t, j.trips, all), testkit.Count(t, j.comments, all)})
}

// The field of a companion may be its _id, or in it.
func TestApartByID(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	live, old := db.Collection("trips"), db.Collection("trips_old")
	routes, oldRoutes, stops, oldStops := db.Collection("routes"), db.Collection("routes_old"), db.Collection("stops"), db.Collection("stops_old")
	a := open(t, live, old, &archive.Options{TimeField: "at", Companions: []archive.Companion{
		{Live: routes, Archived: oldRoutes, Field: "_id"}, {Live: stops, Archived: oldStops, Field: "_id.trip"}}})
	testkit.OK(t, a.EnsureIndexes(t.Context()))
	testkit.Insert(t, old, d("_id", 1, "archived_at", on(9)))
	testkit.Insert(t, routes, d("_id", 1))
	testkit.Insert(t, stops, d("_id", d("trip", 1, "n", 1)), d("_id", d("trip", 1, "n", 2)))
	done(t, 3)(a.Repair(t.Context(), nil))
	same(t, 1, testkit.Count(t, oldRoutes, all))
	same(t, 2, testkit.Count(t, oldStops, all))
	same(t, []string{}, testkit.Problems(t, a))
}

// Companions that were moved before the server refuses one are Done.
func TestApartUntilARefusal(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	testkit.OK(t, db.CreateCollection(t.Context(), "comments_old", options.CreateCollection().SetValidator(d("text", d("$ne", "refused")))))
	j := openTrips(t, db)
	testkit.Insert(t, j.oldTrips, d("_id", 0, "archived_at", on(9)))
	for i := range 55 {
		testkit.Insert(t, j.comments, d("_id", i, "trip_id", 0, "text", map[bool]string{true: "refused"}[i == 54]))
	}
	result, err := j.Repair(t.Context(), &mongopatterns.Work{BatchSize: 10})
	if err != nil || result.Done != 50 || result.Failed != 1 || testkit.Count(t, j.oldComments, all) != 50 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestCompanionsOnShards(t *testing.T) {
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	t.Run("compared", func(t *testing.T) { comparedOnShards(t, cluster) })
	t.Run("that stay", func(t *testing.T) { stayOnShards(t, cluster) })
}

// On shards an _id is that of one document a shard: a comment is compared with the one that is as it is.
func comparedOnShards(t *testing.T, cluster *mongotest.Server) {
	ctx := t.Context()
	j := openTrips(t, cluster.Database(t))
	for _, coll := range []*mongo.Collection{j.comments, j.oldComments} {
		testkit.OK(t, cluster.Shard(ctx, coll, d("trip_id", 1), d("trip_id", 2)))
	}
	j.store(t, 4, 0)
	for trip, both := range []bool{false, true, true, false} {
		doc := d("_id", "c", "trip_id", trip)
		if trip == 0 || trip == 3 {
			doc = d("_id", "d", "trip_id", trip)
		}
		testkit.Insert(t, j.comments, doc)
		if both {
			testkit.Insert(t, j.oldComments, doc)
		}
	}
	done(t, 4)(j.Move(ctx, all, nil))
	same(t, 0, testkit.Count(t, j.comments, all))
	same(t, 4, testkit.Count(t, j.oldComments, all))
	// Those of one _id stay together where one of them differs from all of the other side.
	testkit.Must(j.oldComments.UpdateOne(ctx, d("_id", "c", "trip_id", 2), d("$set", d("text", "other"))))
	testkit.Insert(t, j.comments, d("_id", "c", "trip_id", 1), d("_id", "c", "trip_id", 2))
	for _, dry := range []bool{true, false} {
		if result, err := j.Repair(ctx, &mongopatterns.Work{DryRun: dry}); err != nil || result.Done != 0 || result.Remaining != 2 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	same(t, 2, testkit.Count(t, j.comments, all))
}

// A comment of a trip that stays can have, on another shard, the _id of one that leaves. It does not get in its way.
func stayOnShards(t *testing.T, cluster *mongotest.Server) {
	ctx := t.Context()
	j := openTrips(t, cluster.Database(t))
	testkit.OK(t, cluster.Shard(ctx, j.comments, d("trip_id", 1), d("trip_id", 2)))
	for trip := 1; trip <= 2; trip++ {
		testkit.Insert(t, j.trips, d("_id", trip, "at", on(trip)))
		testkit.Insert(t, j.oldTrips, d("_id", trip, "at", on(trip), "archived_at", on(9)))
		testkit.Insert(t, j.comments, d("_id", "c", "trip_id", trip))
	}
	testkit.Insert(t, j.comments, d("_id", "d", "trip_id", 2))
	testkit.Insert(t, j.oldComments, d("_id", "d", "trip_id", 2, "text", "other"))
	result, err := j.Move(ctx, all, nil)
	if err != nil || result.Done != 1 || result.Failed != 1 || result.Conflicts != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, []any{int32(2)}, ids(t, j.trips))
	same(t, 2, testkit.Count(t, j.comments, d("trip_id", 2)))
	same(t, 1, testkit.Count(t, j.oldComments, d("trip_id", 1)))
}

// Trips move to and fro while programs comment them. Those that write to the trip in the same transaction find it
// or not, and nobody sees one side of what belongs together. What others add is Apart at most.
func TestCompanionsModel(t *testing.T) {
	t.Parallel()
	j := trips(t)
	const n = 12
	writers, rounds := 3, scale.Of(25, 60, 60)
	j.store(t, n, 2)
	var stop atomic.Bool
	var programs, movers sync.WaitGroup
	var added atomic.Int64
	for w := range writers {
		programs.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for step := range rounds {
				trip, id := r.IntN(n), fmt.Sprint(w, " ", step)
				err := mongopatterns.Transact(t.Context(), j.db.Client(), func(ctx context.Context) error {
					found, err := j.trips.UpdateByID(ctx, trip, d("$inc", d("comments", 1)))
					if err != nil || found.MatchedCount == 0 {
						return errors.Join(err, mongopatterns.ErrNotFound)
					}
					_, err = j.comments.InsertOne(ctx, d("_id", id, "trip_id", trip))
					return err
				})
				switch {
				case err == nil:
					added.Add(1)
				case errors.Is(err, mongopatterns.ErrNotFound):
					if _, err := j.comments.UpdateMany(t.Context(), d("trip_id", r.IntN(n)), d("$inc", d("seen", 1))); err != nil {
						t.Error(err)
					}
				default:
					t.Error(err)
				}
			}
		})
	}
	for m := range 2 {
		movers.Go(func() {
			r := rand.New(rand.NewPCG(8, uint64(m)))
			for !stop.Load() {
				move := j.Move
				if r.IntN(2) == 0 {
					move = j.Restore
				}
				result, err := move(t.Context(), d("_id", d("$mod", bson.A{3, r.IntN(3)})), &mongopatterns.Work{BatchSize: 1 + r.IntN(4)})
				if err != nil || result.Failed > 0 {
					t.Errorf("%+v, %v", result, err)
					return
				}
			}
		})
	}
	movers.Go(func() {
		for !stop.Load() {
			same(t, []string{}, testkit.Problems(t, j))
		}
	})
	programs.Wait()
	stop.Store(true)
	movers.Wait()
	same(t, []string{}, testkit.Problems(t, j))
	same(t, n, testkit.Count(t, j.trips, all)+testkit.Count(t, j.oldTrips, all))
	same(t, n, testkit.Count(t, j.photos, all)+testkit.Count(t, j.oldP, all))
	same(t, 2*n+int(added.Load()), testkit.Count(t, j.comments, all)+testkit.Count(t, j.oldComments, all))
	for _, coll := range []*mongo.Collection{j.trips, j.oldTrips} {
		for _, trip := range stored(t, coll) {
			comments := j.comments
			if coll == j.oldTrips {
				comments = j.oldComments
			}
			counted, _ := trip.Lookup("comments").AsInt64OK()
			same(t, 2+int(counted), testkit.Count(t, comments, d("trip_id", trip.Lookup("_id"))))
		}
	}
}

// A comment that comes while its trip moves is live and named, and Repair takes it, also beside moves.
func TestCommentMeanwhile(t *testing.T) {
	t.Parallel()
	j := trips(t)
	j.store(t, 1, 2)
	testkit.OK(t, mongopatterns.Transact(t.Context(), j.db.Client(), func(ctx context.Context) error {
		if err := testkit.ErrorOf(j.Move(ctx, all, nil)); err != nil {
			return err
		}
		_, err := j.comments.InsertOne(mongo.NewSessionContext(ctx, nil), d("_id", "late", "trip_id", 0))
		return err
	}))
	same(t, []string{`archive: comments "late": apart: trip_id is 0: 1 documents; theirs is in trips_old`}, testkit.Problems(t, j))
	var stop atomic.Bool
	var movers sync.WaitGroup
	movers.Go(func() {
		for !stop.Load() {
			testkit.Must(j.Restore(t.Context(), all, nil))
			testkit.Must(j.Move(t.Context(), all, nil))
		}
	})
	rounds := scale.Of(10, 30, 30)
	for i := range rounds {
		testkit.Insert(t, j.comments, d("_id", i+1000, "trip_id", 0))
		if result, err := j.Repair(t.Context(), nil); err != nil || result.Failed > 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	stop.Store(true)
	movers.Wait()
	testkit.Must(j.Repair(t.Context(), nil))
	same(t, []string{}, testkit.Problems(t, j))
	same(t, rounds+3, testkit.Count(t, j.oldComments, all))
}

// Helpers of packages whose documents have parts read a moved one, and its Checks find nothing on either side.
func TestCompanionsOfPatterns(t *testing.T) {
	t.Parallel()
	type item struct {
		ID   int `bson:"_id"`
		Rank int `bson:"rank"`
	}
	type hot struct {
		ID    int    `bson:"_id"`
		Title string `bson:"title"`
	}
	type cold struct {
		Plot string `bson:"plot"`
	}
	ctx := t.Context()
	db := mongotest.Database(t)
	side := func(name string) (*subset.Subset[int, item], *outlier.Lists[int, string], *split.Split[int, hot, cold]) {
		parents := db.Collection("films" + name)
		s := testkit.Must(subset.New[int, item](parents, db.Collection("items"+name), &subset.Options{ParentField: "film_id", ArrayField: "best", N: 2,
			Sort: d("rank", -1), CountField: "items"}))
		o := testkit.Must(outlier.New[int, string](parents, db.Collection("extras"+name), &outlier.Options{ArrayField: "buyers", ParentField: "film_id", MaxCount: 4, Set: true}))
		v := testkit.Must(split.New[int, hot, cold](parents, db.Collection("details"+name), &split.Options{IDField: "film_id"}))
		for _, h := range []mongopatterns.Sharder{s, o, v} {
			testkit.OK(t, h.EnsureIndexes(ctx))
		}
		return s, o, v
	}
	s, o, v := side("")
	oldS, oldO, oldV := side("_old")
	companion := func(name string) archive.Companion {
		return archive.Companion{Live: db.Collection(name), Archived: db.Collection(name + "_old"), Field: "film_id"}
	}
	a := open(t, db.Collection("films"), db.Collection("films_old"), &archive.Options{
		Companions: []archive.Companion{companion("items"), companion("extras"), companion("details")}})
	testkit.OK(t, a.EnsureIndexes(ctx))
	for id := range 3 {
		testkit.OK(t, v.Insert(ctx, id, hot{Title: fmt.Sprint(id)}, cold{Plot: "plot"}))
		for i := range 5 {
			testkit.Must(s.Insert(ctx, id, item{ID: 10*id + i, Rank: i}))
		}
		for i := range 11 {
			testkit.Must(o.Add(ctx, id, fmt.Sprint(i)))
		}
	}
	whole := func(s *subset.Subset[int, item], o *outlier.Lists[int, string], v *split.Split[int, hot, cold], id int) string {
		best, err := s.Top(ctx, id)
		testkit.OK(t, err)
		items := testkit.Collect(t, s.All(ctx, id))
		buyers := testkit.Collect(t, o.All(ctx, id))
		h, c, err := v.Get(ctx, id)
		testkit.OK(t, err)
		return fmt.Sprint(best, items, buyers, h, c)
	}
	clean := func() {
		t.Helper()
		testkit.Healthy(t, s, o, v, oldS, oldO, oldV, a)
	}
	before := whole(s, o, v, 1)
	clean()
	done(t, 2)(a.Move(ctx, d("_id", d("$gte", 1)), nil))
	clean()
	same(t, before, whole(oldS, oldO, oldV, 1))
	if _, err := s.Insert(ctx, 1, item{ID: 99}); !errors.Is(err, mongopatterns.ErrNoParent) {
		t.Error(err)
	}
	// The archived ones can even be changed.
	testkit.OK(t, oldS.Delete(ctx, 2, 24))
	testkit.Must(oldO.Remove(ctx, 2, "0"))
	testkit.OK(t, oldV.Update(ctx, 2, nil, d("$set", d("plot", "other"))))
	clean()
	done(t, 2)(a.Restore(ctx, all, nil))
	clean()
	same(t, before, whole(s, o, v, 1))
	same(t, 0, testkit.Count(t, db.Collection("extras_old"), all))
}

func TestInvalidCompanions(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	live, archived, comments, old := db.Collection("a"), db.Collection("b"), db.Collection("c"), db.Collection("d")
	for what, c := range map[string][]archive.Companion{
		"Options.Companions[0].Field: it must name":    {{Live: comments, Archived: old}},
		"Options.Companions[0].Field":                  {{Live: comments, Archived: old, Field: "$x"}},
		"Options.Companions[0].Live: the collection":   {{Archived: old, Field: "x"}},
		"Options.Companions[0].Archived: the coll":     {{Live: comments, Field: "x"}},
		`Archived: the collection "c" is also`:         {{Live: comments, Archived: comments, Field: "x"}},
		`Companions[0].Live: the collection "a" is al`: {{Live: live, Archived: old, Field: "x"}},
		"Companions[1].Live":                           {{Live: comments, Archived: old, Field: "x"}, {Live: old, Archived: db.Collection("e"), Field: "x"}},
	} {
		_, err := archive.New(live, archived, &archive.Options{Companions: c})
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The old items of a parent that stays leave in one transaction with the counts, as the documentation says.
func TestOldItemsOfAParent(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), mongotest.Database(t)
	films, items, oldItems := db.Collection("films"), db.Collection("items"), db.Collection("items_old")
	s := testkit.Must(subset.New[int, bson.D](films, items, &subset.Options{ParentField: "film", ArrayField: "newest", N: 2, Sort: d("at", -1), CountField: "count"}))
	old := open(t, items, oldItems, &archive.Options{TimeField: "at"})
	testkit.OK(t, s.EnsureIndexes(ctx))
	testkit.OK(t, old.EnsureIndexes(ctx))
	testkit.Insert(t, films, d("_id", 1))
	add := func(i int) error { return testkit.ErrorOf(s.Insert(ctx, 1, d("_id", i, "at", on(i)))) }
	for i := range 6 {
		testkit.OK(t, add(i))
	}
	testkit.OK(t, mongopatterns.Transact(ctx, db.Client(), func(tx context.Context) error {
		var film struct {
			Newest []struct {
				ID int `bson:"_id"`
			}
		}
		if err := films.FindOneAndUpdate(tx, d("_id", 1), d("$currentDate", d("archived", true))).Decode(&film); err != nil {
			return err
		}
		var shown bson.A
		for _, item := range film.Newest {
			shown = append(shown, item.ID)
		}
		result, err := old.Move(tx, append(old.BeforeFilter(on(9)), bson.E{Key: "film", Value: 1}, bson.E{Key: "_id", Value: d("$nin", shown)}), nil)
		if err != nil {
			return err
		}
		repaired, err := s.Repair(tx, &mongopatterns.Work{Filter: d("_id", 1)})
		if err == nil && (result.Done != 4 || repaired.Done != 1) {
			err = fmt.Errorf("%+v, %+v", result, repaired)
		}
		return err
	}))
	testkit.OK(t, add(6))
	same(t, []string{}, testkit.Problems(t, s))
	same(t, []string{}, testkit.Problems(t, old))
	same(t, 4, testkit.Count(t, oldItems, all))
}
