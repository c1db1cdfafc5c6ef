package versioning_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func doc(pairs ...any) (out bson.D) {
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, bson.E{Key: pair[0].(string), Value: pair[1]})
	}
	return out
}

// refuse has the server refuse documents that match.
func refuse(t *testing.T, db *mongo.Database, match bson.D) {
	t.Helper()
	if err := db.RunCommand(t.Context(), doc("collMod", "current", "validator", doc("$nor", bson.A{match}))).Err(); err != nil {
		t.Fatal(err)
	}
}

// What is written beside a refused document is counted as done.
func TestCountsBesideARefusal(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("Adopt", func(t *testing.T) {
		db := mongotest.Database(t)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b"), doc("_id", "c")}); err != nil {
			t.Fatal(err)
		}
		refuse(t, db, doc("_id", "c", "revision", doc("$gte", 1)))
		result := must[mongopatterns.Result](t)(helper[string, bson.D](t, db, nil).Adopt(ctx, nil, nil))
		if result.Done != 2 || result.Skipped != 0 || result.Failed != 1 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("Repair", func(t *testing.T) {
		db := mongotest.Database(t)
		for _, id := range []string{"a", "b", "c"} {
			_, err := db.Collection("current").InsertOne(ctx, doc("_id", id, "revision", int64(1)))
			if err == nil {
				_, err = db.Collection("revisions").InsertOne(ctx, doc("document_id", id, "revision", int64(4), "change", doc("at", month(1)), "document", doc("_id", id)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		refuse(t, db, doc("_id", "c", "revision", doc("$gt", 1)))
		result := must[mongopatterns.Result](t)(helper[string, bson.D](t, db, nil).Repair(ctx, nil))
		if result.Done != 2 || result.Failed != 1 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("SaveMany", func(t *testing.T) { // where one has no number, but a history
		db := mongotest.Database(t)
		docs := helper[string, bson.D](t, db, nil)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b")}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Collection("revisions").InsertOne(ctx, doc("document_id", "b", "revision", int64(4), "change", doc(), "deleted", true)); err != nil {
			t.Fatal(err)
		}
		result, err := docs.SaveMany(ctx, func(yield func(*versioning.Revision[bson.D], error) bool) {
			for _, id := range []string{"a", "b"} {
				r := must[versioning.Revision[bson.D]](t)(docs.Get(ctx, id))
				r.Document = append(r.Document, bson.E{Key: "x", Value: 1})
				if !yield(&r, nil) {
					return
				}
			}
		}, nobody, nil)
		if n, _ := db.Collection("current").CountDocuments(ctx, doc("x", 1)); err != nil || n != 1 || result.Done != 1 || result.Failed != 1 {
			t.Errorf("%+v, %v, %d stored", result, err, n)
		}
	})
	t.Run("SaveMany, Strict", func(t *testing.T) {
		db := mongotest.Database(t)
		docs := helper[string, bson.D](t, db, nil)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b")}); err != nil {
			t.Fatal(err)
		}
		refuse(t, db, doc("_id", "a", "x", 1))
		for _, strict := range []bool{true, false} {
			result, err := docs.SaveMany(ctx, func(yield func(*versioning.Revision[bson.D], error) bool) {
				for _, id := range []string{"a", "b"} {
					r := must[versioning.Revision[bson.D]](t)(docs.Get(ctx, id))
					r.Document = append(r.Document, bson.E{Key: "x", Value: 1})
					if !yield(&r, nil) {
						return
					}
				}
			}, nobody, &mongopatterns.Work{Strict: strict})
			if strict && (err == nil || result.Done != 0) || !strict && (err != nil || result.Done != 1 || result.Failed != 1) {
				t.Errorf("strict %v: %+v, %v", strict, result, err)
			}
		}
	})
}

// New fields inside an ignored document do not take back what others wrote there.
func TestIgnoredInsideIsKept(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	docs := helper[string, bson.D](t, db, &versioning.Options{Ignored: []string{"stats"}})
	r := must[versioning.Revision[bson.D]](t)(docs.Create(ctx, doc("_id", "a", "n", 1, "stats", doc("views", 1)), nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, doc("_id", "a"), doc("$inc", doc("stats.views", 10))); err != nil {
		t.Fatal(err)
	}
	r.Document = doc("_id", "a", "n", 1, "stats", doc("views", 1, "p", 1, "q", 1))
	must[versioning.Revision[bson.D]](t)(docs.Save(ctx, r, nobody))
	stats, _ := lookupD(all(t, db.Collection("current"), doc("_id", 1))[0], "stats").(bson.D)
	if lookupD(stats, "views") != int32(11) || lookupD(stats, "q") != int32(1) {
		t.Errorf("%v", stats)
	}
}

// Other code has put null where a document was, in which a field changes.
func TestSaveIntoNull(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	docs := helper[string, bson.D](t, db, nil)
	r := must[versioning.Revision[bson.D]](t)(docs.Create(ctx, doc("_id", "a", "sub", doc("x", 1, "y", 1)), nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, doc("_id", "a"), doc("$set", doc("sub", nil))); err != nil {
		t.Fatal(err)
	}
	r.Document = doc("_id", "a", "sub", doc("x", 2, "y", 1))
	costs.Record(t, db, 2, []string{"findAndModify", "abortTransaction", "find", "findAndModify", "insert", "commitTransaction"},
		func() error { _, err := docs.Save(ctx, r, nobody); return err })
	sub, _ := lookupD(all(t, db.Collection("current"), doc("_id", 1))[0], "sub").(bson.D)
	if lookupD(sub, "x") != int32(2) {
		t.Errorf("%v", sub)
	}
}

// A document created again with another type of number as its _id is restored all the same,
// and what Update returns has its _id also where the function dropped it.
func TestIDsStay(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	docs := helper[any, bson.D](t, mongotest.Database(t), nil)
	r := must[versioning.Revision[bson.D]](t)(docs.Create(ctx, doc("_id", int32(1), "n", 1), nobody))
	if err := docs.Delete(ctx, int32(1), r.Number, nobody); err != nil {
		t.Fatal(err)
	}
	must[versioning.Revision[bson.D]](t)(docs.Create(ctx, doc("_id", 1.0, "n", 2), nobody))
	if r = must[versioning.Revision[bson.D]](t)(docs.Restore(ctx, int32(1), 1, nobody)); lookupD(r.Document, "n") != int32(1) {
		t.Errorf("%+v", r)
	}
	r = must[versioning.Revision[bson.D]](t)(docs.Update(ctx, 1, func(d *bson.D) error { *d = doc("n", 3); return nil }, nobody))
	if lookupD(r.Document, "_id") != 1.0 {
		t.Errorf("%+v", r)
	}
}
