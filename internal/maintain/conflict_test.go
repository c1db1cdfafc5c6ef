package maintain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// conflicting is a step that sets done, and that another writer disturbs as long as meanwhile
// says so: it writes a document of the batch between the transaction's read and its write.
func conflicting(t *testing.T, coll *mongo.Collection, meanwhile func(ids bson.A) bool) maintain.Step {
	return func(ctx context.Context, batch []bson.Raw, _ mongopatterns.Work, result *mongopatterns.Result) error {
		var ids bson.A
		for _, doc := range batch {
			ids = append(ids, doc.Lookup("_id").AsInt64())
		}
		these := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
		err := maintain.Once(ctx, scoped.On(coll), func(ctx context.Context) error {
			if err := coll.FindOne(ctx, these).Err(); err != nil {
				return err
			}
			if meanwhile(ids) {
				other := bson.D{{Key: "$inc", Value: bson.D{{Key: "others", Value: 1}}}}
				if _, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: ids[0]}}, other); err != nil {
					t.Error(err)
				}
			}
			_, err := coll.UpdateMany(ctx, these, bson.D{{Key: "$set", Value: bson.D{{Key: "done", Value: true}}}})
			return err
		})
		if err == nil {
			result.Done += int64(len(batch))
		}
		return err
	}
}

// A batch that conflicts is done in halves, a document that conflicts again and again, and
// Progress says so each time. What is refused is named all the same.
func TestConflicts(t *testing.T) {
	t.Parallel()
	db, _ := numbers(t, 9) // 3 and 7 are refused
	coll := db.Collection("c")
	disturbed := map[any]int{}
	step := conflicting(t, coll, func(ids bson.A) bool {
		disturbed[ids[0]]++
		return len(ids) > 2 || ids[0] == int64(8) && disturbed[ids[0]] < 5
	})
	var told []int64
	work := &mongopatterns.Work{BatchSize: 8, Progress: func(r mongopatterns.Result) { told = append(told, r.Conflicts) }}
	result, err := maintain.Run(t.Context(), scoped.On(coll), work, maintain.Scan{}, step)
	if err != nil {
		t.Fatal(err)
	}
	result.Failures = nil
	want := mongopatterns.Result{Examined: 9, Done: 7, Failed: 2, Conflicts: 7}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 3, 4, 5, 6, 7, 7}, told); diff != "" {
		t.Error(diff)
	}
}

// The wait for a document that is written without pause ends with the context.
func TestConflictsEndWithTheContext(t *testing.T) {
	t.Parallel()
	db, _ := numbers(t, 1)
	coll := db.Collection("c")
	ctx, cancel := context.WithCancel(t.Context())
	work := &mongopatterns.Work{Progress: func(r mongopatterns.Result) {
		if r.Conflicts == 3 {
			cancel()
		}
	}}
	step := conflicting(t, coll, func(bson.A) bool { return true })
	result, err := maintain.Run(ctx, scoped.On(coll), work, maintain.Scan{}, step)
	if !errors.Is(err, context.Canceled) || result.Done != 0 || result.Conflicts != 3 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Without a deadline the wait for a document that is written without pause ends after two minutes.
func TestConflictsEndWithoutADeadline(t *testing.T) {
	limit := pause.Limit
	t.Cleanup(func() { pause.Limit = limit })
	pause.Limit = time.Second // much more than a transaction takes
	db, _ := numbers(t, 1)
	coll := db.Collection("c")
	step := conflicting(t, coll, func(bson.A) bool { return t.Context().Err() == nil })
	result, err := maintain.Run(t.Context(), scoped.On(coll), nil, maintain.Scan{}, step)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for other writers") || result.Conflicts < 2 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A conflict in the caller's transaction is the caller's, who runs it again.
func TestConflictsInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	db, _ := numbers(t, 2)
	coll, runs := db.Collection("c"), 0
	step := conflicting(t, coll, func(bson.A) bool { runs++; return runs < 3 })
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		_, err := maintain.Run(ctx, scoped.On(coll), nil, maintain.Scan{}, step)
		return err
	})
	if err != nil || runs != 3 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// What is done before a conflict counts once, and not as Skipped too when its batch is done again.
func TestDoneBeforeAConflict(t *testing.T) {
	t.Parallel()
	db, _ := numbers(t, 3)
	coll, runs := db.Collection("c"), 0
	step := func(ctx context.Context, batch []bson.Raw, _ mongopatterns.Work, result *mongopatterns.Result) error {
		for _, doc := range batch {
			updated, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: doc.Lookup("_id")}, {Key: "done", Value: nil}},
				bson.D{{Key: "$set", Value: bson.D{{Key: "done", Value: true}}}})
			if err != nil {
				return err
			}
			result.Done += updated.MatchedCount
			result.Skipped += 1 - updated.MatchedCount
			if runs++; runs == 2 {
				return maintain.Once(ctx, scoped.On(db.Collection("c")), func(context.Context) error { return txn.Conflict("test") })
			}
		}
		return nil
	}
	result, err := maintain.Run(t.Context(), scoped.On(coll), nil, maintain.Scan{}, step)
	if diff := cmp.Diff(mongopatterns.Result{Examined: 3, Done: 3, Conflicts: 1}, result); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
