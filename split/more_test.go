package split_test

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
)

// number is stored as text with a mark.
type number int

func registry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[number](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			return w.WriteString("#" + strconv.FormatInt(v.Int(), 10))
		}))
	r.RegisterTypeDecoder(reflect.TypeFor[number](), bson.ValueDecoderFunc(
		func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
			text, err := r.ReadString()
			if err == nil {
				var n int64
				n, err = strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
				v.SetInt(n)
			}
			return err
		}))
	return r
}

// Values are stored as the user's registry and BSON options say, which name the cold
// fields as well.
func TestCodec(t *testing.T) {
	t.Parallel()
	type hot struct {
		ID   number   `json:"_id"`
		Tags []string `json:"tags"`
	}
	type cold struct {
		Part number `json:"part"`
	}
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetRegistry(registry()).SetBSONOptions(bsonOptions))
	s := newSplit[number, hot, cold](t, db, &split.Options{Registry: registry(), BSON: bsonOptions})
	must(t, s.Add(t.Context(), 7, hot{}, cold{2}))
	h, c, err := s.Get(t.Context(), 7)
	must(t, err)
	same(t, "both", []any{hot{7, []string{}}, cold{2}}, []any{h, c})
	same(t, "hot", []bson.D{d("_id", "#7", "tags", bson.A{})}, stored(t, db.Collection("movies")))
	same(t, "cold", []bson.D{d("_id", "#7", "part", "#2")}, stored(t, db.Collection("movie_details")))
	insert(t, db.Collection("movies"), d("_id", "#8", "part", "#3", "tags", bson.A{}))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt", mongopatterns.Result{Examined: 2, Done: 1}, result)
	sound(t, db, s)
}

// A document that the server refuses does not hold up the others of its batch, nor
// the batches after it.
func TestOneDocumentFails(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{ColdFields: []string{"a", "b"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	unique := mongo.IndexModel{Keys: d("a", 1), Options: options.Index().SetUnique(true).SetSparse(true)}
	_, err := cold.Indexes().CreateOne(t.Context(), unique)
	must(t, err)
	insert(t, hot, d("_id", 1, "a", 1), d("_id", 2, "a", 1), d("_id", 3, "a", 3), d("_id", 4, "a", 4))
	named := func(what string, result mongopatterns.Result, id int32, examined int64) {
		t.Helper()
		if result.Examined != examined || result.Done != 3 || result.Failed != 1 || result.Failures[0].ID.Int32() != id ||
			!mongo.IsDuplicateKeyError(result.Failures[0].Err) {
			t.Errorf("%s: %+v", what, result)
		}
		untouched(t, hot)
	}
	dry, err := s.Adopt(t.Context(), &mongopatterns.Work{DryRun: true})
	must(t, err)
	same(t, "dry run", mongopatterns.Result{Examined: 4, Done: 4}, dry)
	result, err := s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 3})
	must(t, err)
	named("adopt", result, 2, 4)
}

// The hot documents of a Split are the parents of a Subset as well.
func TestSplitOfParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	hot, cold, items := db.Collection("movies"), db.Collection("movie_details"), db.Collection("comments")
	comments, err := subset.New[int, bson.D](hot, items, &subset.Options{ArrayField: "comments", N: 3})
	must(t, err)
	must(t, comments.EnsureIndexes(t.Context()))
	for i := range 4 { // neither adopted
		insert(t, hot, d("_id", i, "seen", 0, "plot", 0, "comments", bson.A{d("_id", i*100), d("_id", i*100+1)}))
	}
	_, err = comments.Adopt(t.Context(), nil)
	must(t, err)
	whole := func() {
		t.Helper()
		for p, err := range mongopatterns.CheckAll(t.Context(), s, comments) {
			t.Error(p, err)
		}
		untouched(t, hot)
	}
	for i := range 4 {
		_, err := comments.Add(t.Context(), i, d("_id", i*100+10))
		must(t, err)
		must(t, comments.Delete(t.Context(), i, i*100))
		must(t, s.Update(t.Context(), i, d("$inc", d("seen", 1)), d("$inc", d("plot", 1))))
		h, c, err := s.Get(t.Context(), i)
		must(t, err)
		same(t, "writes", fmt.Sprint(1, 1, 2), fmt.Sprint(get(h, "seen"), get(c, "plot"), get(h, "comments_count")))
	}
	whole()
	join(t, db, s.JoinPipeline())
	_, err = s.Repair(t.Context(), nil)
	must(t, err)
	whole()
	// Replaced without what is kept, which Repair brings back.
	must(t, s.Update(t.Context(), 1, mongo.Pipeline{d("$replaceWith", d("seen", 9))}, d("$set", d("plot", 9))))
	_, err = comments.Repair(t.Context(), nil)
	must(t, err)
	whole()
	must(t, transaction(t, db, func(ctx context.Context) error { // deleted as the manual says
		if _, err := comments.DeleteParent(ctx, 1); err != nil {
			return err
		}
		_, err := cold.DeleteOne(ctx, s.ColdFilter(1))
		return err
	}))
	whole()
	same(t, "left", []int{3, 3, 6}, []int{len(stored(t, hot)), len(stored(t, cold)), len(stored(t, items))})
}

// Adopt counts what is committed: nothing of a transaction that was aborted, and once
// what was run again.
func TestAdoptCountsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetAppName(t.Name()))
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	insert(t, hot, d("_id", 1, "plot", "a"), d("_id", 2, "plot", "b"))
	fail := func(mode bson.D, data ...any) {
		must(t, db.Client().Database("admin").RunCommand(t.Context(), d("configureFailPoint", "failCommand", "mode", mode,
			"data", append(d("appName", t.Name(), "failCommands", bson.A{"update"}, "namespace", db.Name()+".movies"), d(data...)...))).Err())
	}
	fail(d("skip", 1), "errorCode", 13) // after the cold documents are written
	result, err := s.Adopt(t.Context(), nil)
	if err == nil {
		t.Fatal("no error")
	}
	same(t, "ended by an error", mongopatterns.Result{}, result)
	same(t, "cold", []bson.D{}, stored(t, cold))
	fail(d("times", 1), "errorCode", 112, "errorLabels", bson.A{"TransientTransactionError"})
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "run again", mongopatterns.Result{Examined: 2, Done: 2, Conflicts: 1}, result)
	sound(t, db, s)

	_, err = cold.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("plot", 1), Options: options.Index().SetUnique(true)})
	must(t, err)
	insert(t, hot, d("_id", 3, "plot", "c"), d("_id", 4, "plot", "a"), d("_id", 5, "plot", "d"))
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	if len(result.Failures) != 1 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) || result.Failures[0].ID.AsInt64() != 4 {
		t.Errorf("failures: %v", result.Failures)
	}
	result.Failures = nil
	same(t, "one refused", mongopatterns.Result{Examined: 5, Done: 2, Failed: 1}, result)
	same(t, "cold documents", 4, len(stored(t, cold)))
	untouched(t, hot)
}
