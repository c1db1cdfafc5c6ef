package maintain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// numbers are a collection of _id 0 to n-1, inserted out of order, in which a
// validator refuses to set done in 3 and 7.
func numbers(t *testing.T, n int) (*mongo.Database, *mongo.Collection) {
	t.Helper()
	db := mongotest.Database(t)
	err := db.CreateCollection(t.Context(), "c", options.CreateCollection().SetValidator(bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: "done", Value: bson.D{{Key: "$exists", Value: false}}}},
		bson.D{{Key: "_id", Value: bson.D{{Key: "$nin", Value: bson.A{3, 7}}}}},
	}}}))
	if err != nil {
		t.Fatal(err)
	}
	coll := db.Collection("c", options.Collection().SetReadPreference(readpref.Secondary()).SetReadConcern(readconcern.Majority()))
	var docs []any
	for i := range n {
		docs = append(docs, bson.D{{Key: "_id", Value: (i*7 + 3) % n}, {Key: "even", Value: (i*7+3)%n%2 == 0}})
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return db, coll
}

// finish sets done in the documents of a batch.
func finish(coll *mongo.Collection) maintain.Step {
	return func(ctx context.Context, batch []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
		if work.DryRun {
			result.Done += int64(len(batch))
			return nil
		}
		var ids bson.A
		for _, doc := range batch {
			ids = append(ids, doc.Lookup("_id"))
		}
		updated, err := coll.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "done", Value: true}}}})
		if err == nil {
			result.Done += updated.MatchedCount
		}
		return err
	}
}

func TestRunNamesWhatIsRefused(t *testing.T) {
	_, coll := numbers(t, 20)
	var progress []int64
	result, err := maintain.Run(t.Context(), scoped.On(coll), &mongopatterns.Work{
		BatchSize: 5, Filter: bson.M{"_id": bson.M{"$lt": 15}},
		Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) },
	}, maintain.Scan{Filter: bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 0}}}}}, finish(coll))
	if err != nil {
		t.Fatal(err)
	}
	if result.Examined != 14 || result.Done != 12 || result.Failed != 2 || len(result.Failures) != 2 {
		t.Errorf("%+v", result)
	}
	for i, want := range []int32{3, 7} {
		f := result.Failures[i]
		if f.Collection != "c" || f.ID.AsInt64() != int64(want) || f.Err == nil {
			t.Errorf("%+v", f)
		}
	}
	if diff := cmp.Diff([]int64{5, 10, 14}, progress); diff != "" {
		t.Error(diff)
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{{Key: "done", Value: true}}); n != 12 || err != nil {
		t.Errorf("%d done, %v", n, err)
	}
	dry, err := maintain.Run(t.Context(), scoped.On(coll), &mongopatterns.Work{DryRun: true}, maintain.Scan{}, finish(coll))
	if err != nil || dry.Done != 20 || dry.Failed != 0 {
		t.Errorf("%+v, %v", dry, err)
	}
	strict, err := maintain.Run(t.Context(), scoped.On(coll), &mongopatterns.Work{Strict: true, BatchSize: 2}, maintain.Scan{}, finish(coll))
	if !fault.Refused(err) || strict.Done != 2 || strict.Failed != 0 {
		t.Errorf("%+v, %v", strict, err)
	}
}

// A document that the step counts as Failed ends a strict run, too, after its batch.
func TestStrictEndsAfterAFailedDocument(t *testing.T) {
	_, coll := numbers(t, 10)
	errOdd := errors.New("odd")
	step := func(_ context.Context, batch []bson.Raw, _ mongopatterns.Work, result *mongopatterns.Result) error {
		for _, doc := range batch {
			if id := doc.Lookup("_id"); id.AsInt64() == 3 {
				maintain.Fail(result, "c", id, errOdd)
			} else {
				result.Done++
			}
		}
		return nil
	}
	result, err := maintain.Run(t.Context(), scoped.On(coll), &mongopatterns.Work{BatchSize: 2}, maintain.Scan{}, step)
	if err != nil || result.Done != 9 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	result, err = maintain.Run(t.Context(), scoped.On(coll), &mongopatterns.Work{BatchSize: 2, Strict: true}, maintain.Scan{}, step)
	if !errors.Is(err, errOdd) || !strings.HasPrefix(err.Error(), "_id 3: ") || result.Done != 3 || result.Failed != 1 || result.Examined != 4 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestRunEndsInTheCallersTransaction(t *testing.T) {
	db, coll := numbers(t, 10)
	coll = db.Collection("c")
	var result mongopatterns.Result
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) (err error) {
		result, err = maintain.Run(ctx, scoped.On(coll), &mongopatterns.Work{BatchSize: 2}, maintain.Scan{}, finish(coll))
		return err
	})
	if !fault.Refused(err) || result.Failed != 0 || result.Done != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestBatchesReadThePrimaryInOrder(t *testing.T) {
	db, coll := numbers(t, 25)
	work, err := maintain.Completed(&mongopatterns.Work{BatchSize: 5}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]int32
	cmds := mongotest.Record(t, db, func() {
		for batch, err := range maintain.Batches(t.Context(), scoped.On(coll), work, maintain.Scan{
			Filter: bson.D{{Key: "even", Value: true}}, Projection: bson.D{{Key: "_id", Value: 1}},
		}) {
			if err != nil {
				t.Fatal(err)
			}
			var line []int32
			for _, doc := range batch {
				line = append(line, doc.Lookup("_id").Int32())
				if elements, _ := doc.Elements(); len(elements) != 1 {
					t.Errorf("not projected: %v", doc)
				}
			}
			got = append(got, line)
		}
	})
	if want := []string{"find", "getMore", "getMore"}; !slices.Equal(cmds.Names(), want) {
		t.Errorf("sent %v, want %v", cmds.Names(), want)
	}
	if mode := cmds[0].Body.Lookup("$readPreference", "mode"); !mode.IsZero() && mode.StringValue() != "primary" && mode.StringValue() != "primaryPreferred" {
		t.Errorf("reads with %v", mode)
	}
	if level, _ := cmds[0].Body.Lookup("readConcern", "level").StringValueOK(); level != "local" {
		t.Errorf("reads with concern %q", level)
	}
	if diff := cmp.Diff([][]int32{{0, 2, 4, 6, 8}, {10, 12, 14, 16, 18}, {20, 22, 24}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheck(t *testing.T) {
	_, coll := numbers(t, 10)
	odd := func(_ context.Context, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
		for _, doc := range batch {
			if id := doc.Lookup("_id"); id.AsInt64()%2 == 1 {
				out = append(out, mongopatterns.Problem{Kind: "odd", ID: id})
			}
		}
		return out, nil
	}
	count := func(work *mongopatterns.Work) (n int, last error) {
		for _, err := range maintain.Chain(maintain.Check(t.Context(), scoped.On(coll), work, maintain.Scan{}, odd), maintain.Check(t.Context(), scoped.On(coll), work, maintain.Scan{}, odd)) {
			if last = err; err == nil {
				n++
			}
		}
		return n, last
	}
	if n, err := count(nil); n != 10 || err != nil {
		t.Error(n, err)
	}
	if n, err := count(&mongopatterns.Work{BatchSize: 3, Filter: bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 4}}}}}); n != 4 || err != nil {
		t.Error(n, err)
	}
	if n, err := count(&mongopatterns.Work{BatchSize: -1}); n != 0 || !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(n, err)
	}
	if n, err := count(&mongopatterns.Work{Filter: bson.D{{Key: "$no", Value: 1}}}); n != 0 || err == nil {
		t.Error(n, err)
	}
}

func TestPipelineScan(t *testing.T) {
	db, coll := numbers(t, 10)
	scan := maintain.Scan{Filter: bson.D{{Key: "even", Value: true}}, Pipeline: mongo.Pipeline{
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}},
		{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}},
	}}
	var got []int64
	cmds := mongotest.Record(t, db, func() {
		result, err := maintain.Run(t.Context(), scoped.On(coll), &mongopatterns.Work{BatchSize: 2, Filter: bson.M{"_id": bson.M{"$gt": 1}}}, scan,
			func(_ context.Context, batch []bson.Raw, _ mongopatterns.Work, _ *mongopatterns.Result) error {
				for _, doc := range batch {
					got = append(got, doc.Lookup("_id").AsInt64())
				}
				return nil
			})
		if err != nil || result.Examined != 4 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	if diff := cmp.Diff([]int64{8, 6, 4, 2}, got); diff != "" {
		t.Error(diff)
	}
	if names := cmds.Names(); names[0] != "aggregate" || cmds[0].Body.Lookup("cursor", "batchSize").AsInt64() != 2 {
		t.Errorf("sent %v", cmds[0].Body)
	}
}

// The writes of a bulk beside a refused document are Done, and are not Skipped when the batch is done again
// document by document. One that another writer has changed stays Skipped.
func TestRewriteBesideARefusal(t *testing.T) {
	t.Parallel()
	_, coll := numbers(t, 10)
	testkit.Update(t, coll, bson.D{{Key: "_id", Value: 5}}, bson.D{{Key: "$set", Value: bson.D{{Key: "changed", Value: true}}}})
	result, err := maintain.Run(t.Context(), scoped.On(coll), nil, maintain.Scan{}, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var models []mongo.WriteModel
		for _, doc := range batch {
			guard := bson.D{{Key: "_id", Value: doc.Lookup("_id")}, {Key: "done", Value: nil}, {Key: "changed", Value: nil}}
			models = append(models, mongo.NewUpdateOneModel().SetFilter(guard).SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "done", Value: true}}}}))
		}
		return maintain.Rewrite(ctx, scoped.On(coll), models, w, result)
	})
	if err != nil || result.Done != 7 || result.Skipped != 1 || result.Failed != 2 || result.Examined != 10 {
		t.Errorf("%+v, %v", result, err)
	}
}

// The writes of a batch without an answer are Unknown, except those that are surely done. In a transaction of
// the caller, the commit decides.
func TestTheBatchUnderWayIsUnknown(t *testing.T) {
	t.Parallel()
	db, coll := numbers(t, 10)
	lost := errors.New("no answer")
	run := func(ctx context.Context, last error) (mongopatterns.Result, error) {
		return maintain.Run(ctx, scoped.On(coll), &mongopatterns.Work{BatchSize: 4}, maintain.Scan{}, func(_ context.Context, batch []bson.Raw, _ mongopatterns.Work, result *mongopatterns.Result) error {
			if batch[0].Lookup("_id").AsInt64() == 0 {
				result.Done += 4
				return nil
			}
			result.Done++
			return last
		})
	}
	if result, err := run(t.Context(), fault.Unknown(lost)); !errors.Is(err, lost) || result.Done != 5 || result.Unknown != 3 {
		t.Errorf("without an answer: %+v, %v", result, err)
	}
	if result, err := run(t.Context(), fault.NotDone(lost)); !errors.Is(err, lost) || result.Done != 5 || result.Unknown != 0 {
		t.Errorf("not done: %+v, %v", result, err)
	}
	if err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		result, err := run(ctx, fault.Unknown(lost))
		if result.Done != 5 || result.Unknown != 0 {
			t.Errorf("in a transaction: %+v", result)
		}
		return err
	}); !errors.Is(err, lost) {
		t.Error(err)
	}
}
