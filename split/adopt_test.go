package split_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

var (
	oneComment = bson.A{d("by", "a"), d("by", "b")}
	rated      = d("rating", 7.3, "votes", 5043, "id", 12)
)

// A movie whose cold fields cover everything that old code can write to by operators.
func whole(id int) bson.D {
	return d("_id", id, "title", "t", "plot", "p", "likes", 40, "comments", oneComment, "imdb", rated, "seen", false)
}

var coldFields = []string{"plot", "likes", "comments", "imdb", "seen"}

func coldOf(t *testing.T, db *mongo.Database, id int) bson.M {
	t.Helper()
	var cold bson.M
	must(t, db.Collection("movie_details").FindOne(t.Context(), d("movie_id", id)).Decode(&cold))
	delete(cold, "_id")
	delete(cold, "movie_id")
	return cold
}

// Old code writes to cold fields that have moved: a whole document is newer, and so is a scalar
// that is set; a number, array or document that may be a fragment is left in both documents and
// named, until Adopt is told which to keep. Meanwhile all reads return the cold document's, and
// new code writes to it.
func TestWhatOldCodeWritesToColdFields(t *testing.T) {
	t.Parallel()
	replaced := func(pairs ...any) any {
		doc := whole(1)
		for i := 0; i < len(pairs); i += 2 {
			for j := range doc {
				if doc[j].Key == pairs[i] {
					doc[j].Value = pairs[i+1]
				}
			}
		}
		return doc
	}
	for name, test := range map[string]struct {
		old  any    // an update, or a whole document
		left string // the field in both
		get  bson.D // the result of reads then
		hot  any    // the field, if hot is kept
	}{
		"a push":                            {d("$push", d("comments", d("by", "c"))), "comments", d("comments", oneComment), bson.A{d("by", "c")}},
		"an inc inside":                     {d("$inc", d("imdb.votes", 1)), "imdb", d("imdb", rated), d("votes", 1)},
		"an inc":                            {d("$inc", d("likes", 1)), "likes", d("likes", 40), 1},
		"an inc and a set":                  {d("$inc", d("likes", 1), "$set", d("plot", "new")), "likes", d("likes", 40, "plot", "new"), 1},
		"a set":                             {d("$set", d("plot", "new", "seen", true)), "", d("plot", "new", "seen", true), nil},
		"the same as before":                {d("$set", d("imdb", rated, "likes", int64(40))), "", d("imdb", rated), nil},
		"a replacement":                     {replaced("likes", 41, "comments", oneComment[:1], "imdb", d("rating", 8, "votes", 1, "id", 2, "more", 3)), "", d("likes", 41, "comments", oneComment[:1], "imdb", d("rating", 8, "votes", 1, "id", 2, "more", 3)), nil},
		"a replacement with other comments": {replaced("comments", bson.A{"c"}), "", d("comments", bson.A{"c"}, "imdb", rated), nil},
		"an empty array":                    {replaced("comments", bson.A{}), "", d("comments", bson.A{}), nil},
		"all by operators": {d("$set", d("plot", "new", "seen", true), "$inc", d("likes", 1, "imdb.votes", 1), "$push", d("comments", "c")),
			"comments imdb likes", d("plot", "new", "seen", true, "likes", 40, "comments", oneComment, "imdb", rated), nil},
	} {
		for _, keep := range []split.Side{"", split.Hot, split.Cold} {
			t.Run(name+"/"+string(keep), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				s := newSplit[int, bson.M, bson.M](t, db, &split.Options{IDField: "movie_id", ColdFields: coldFields})
				hot := db.Collection("movies")
				testkit.Insert(t, hot, whole(1))
				_, err := s.Adopt(t.Context(), nil)
				must(t, err)
				if doc := test.old.(bson.D); strings.HasPrefix(doc[0].Key, "$") {
					testkit.Update(t, hot, d(), doc)
				} else {
					_, err = hot.ReplaceOne(t.Context(), d(), doc)
					must(t, err)
				}
				want := fmt.Sprint
				reads := func(what string) {
					t.Helper()
					_, cold, err := s.Get(t.Context(), 1)
					must(t, err)
					cursor, err := hot.Aggregate(t.Context(), s.JoinPipeline())
					must(t, err)
					var joined []bson.M
					must(t, cursor.All(t.Context(), &joined))
					for _, e := range test.get {
						same(t, what+": get "+e.Key, want(e.Value), want(cold[e.Key]))
						same(t, what+": join "+e.Key, want(e.Value), want(joined[0][e.Key]))
					}
				}
				reads("before")
				var left []string
				for field := range strings.FieldsSeq(test.left) {
					left = append(left, `movies {"$numberInt":"1"} in both documents `+field)
				}
				// New code never takes the fragment for the whole.
				must(t, s.Update(t.Context(), 1, nil, d("$set", d("by new code", 1))))
				reads("after a write")
				must(t, s.Update(t.Context(), 1, d("$set", d("title", "T")), d("$set", d("by new code", 2))))
				reads("after both")
				same(t, "named", append([]string{}, left...), testkit.Found(t, s.Check(t.Context(), nil)))
				for _, run := range []func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){s.Adopt, s.Repair} {
					for _, dry := range []bool{true, false} {
						result, err := run(t.Context(), &mongopatterns.Work{DryRun: dry})
						must(t, err)
						same(t, "left", mongopatterns.Result{Examined: 1, Remaining: int64(min(1, len(left)))}, result)
					}
				}
				reads("after adopt")
				testkit.Untouched(t, hot)
				if keep == "" || len(left) == 0 {
					return
				}
				told := newSplit[int, bson.M, bson.M](t, db, &split.Options{IDField: "movie_id", ColdFields: coldFields, Prefer: keep})
				must(t, told.Update(t.Context(), 1, nil, d("$set", d("by new code", 3)))) // only Adopt is told
				reads("after a write of one that is told")
				result, err := told.Adopt(t.Context(), nil)
				must(t, err)
				same(t, "told", mongopatterns.Result{Examined: 1, Done: 1}, result)
				sound(t, db, s)
				cold := coldOf(t, db, 1)
				if keep == split.Cold {
					reads("cold kept")
				} else if test.hot != nil {
					same(t, "hot kept", want(test.hot), want(cold[test.left]))
				}
				same(t, "by new code", any(int32(3)), cold["by new code"])
			})
		}
	}
}

// If all cold fields are numbers, or one array, a whole document looks like a fragment: it is
// named.
func TestFragmentsOfFewFields(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cold bson.D
		old  bson.D
		left []string
	}{
		"a number":                {d("likes", 40), d("$inc", d("likes", 1)), []string{"likes"}},
		"numbers":                 {d("likes", 40, "imdb", d("votes", 7)), d("$inc", d("likes", 1, "imdb.votes", 1)), []string{"imdb", "likes"}},
		"an array":                {d("comments", bson.A{1, 2}), d("$push", d("comments", 3)), []string{"comments"}},
		"an empty array":          {d("comments", bson.A{}), d("$push", d("comments", 3)), nil},
		"an array that is longer": {d("comments", bson.A{1, 2}), d("$set", d("comments", bson.A{1, 2, 3})), nil},
		"nothing":                 {d(), d("$push", d("comments", 3), "$inc", d("likes", 1)), nil},
		"another field":           {d("plot", "p"), d("$push", d("comments", 3)), nil},
		"text for a number":       {d("likes", 40, "plot", "p"), d("$set", d("likes", "many")), nil},
		"a number for text":       {d("likes", "many", "plot", "p"), d("$inc", d("likes", 1)), []string{"likes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: coldFields})
			must(t, s.Insert(t.Context(), 1, d("title", "t"), test.cold))
			testkit.Update(t, db.Collection("movies"), d(), test.old)
			result, err := s.Adopt(t.Context(), nil)
			must(t, err)
			same(t, "remaining", int64(min(1, len(test.left))), result.Remaining)
			var left []string
			for _, field := range test.left {
				left = append(left, `movies {"$numberInt":"1"} in both documents `+field)
			}
			same(t, "named", append([]string{}, left...), testkit.Found(t, s.Check(t.Context(), nil)))
			if len(left) == 0 {
				sound(t, db, s)
			}
		})
	}
}

// Get and JoinPipeline decide on the server as Adopt does in Go.
func TestReadsDecideAsAdopt(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	db := mongotest.Database(t)
	s := newSplit[int, bson.M, bson.M](t, db, &split.Options{ColdFields: []string{"a", "b", "c"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	decimal, _ := bson.ParseDecimal128("1")
	values := []any{1, int64(1), 1.0, decimal, 2, "x", nil, true, bson.A{}, bson.A{1}, bson.A{1.0, 2}, bson.A{"x"}, bson.A{d("x", 1)},
		d(), d("x", 1), d("x", 1, "y", 2), d("y", 2, "x", 1), d("x", "x"), d("x", "x", "y", 1), bson.NewObjectID()}
	some := func(doc bson.D, fields string) bson.D {
		for _, field := range fields {
			if random.IntN(4) > 0 {
				doc = append(doc, bson.E{Key: string(field), Value: values[random.IntN(len(values))]})
			}
		}
		return doc
	}
	n := scale.Of(150, 600, 6000)
	var hots, colds []any
	for i := range n {
		hots = append(hots, some(d("_id", i, "title", "t"), "abc"))
		if i%20 > 0 {
			fields := "abc"
			if i%5 == 0 {
				fields = "abcd"
			}
			colds = append(colds, some(d("_id", i), fields))
		}
	}
	testkit.Insert(t, hot, hots...)
	testkit.Insert(t, cold, colds...)
	join := func() map[int32]string {
		cursor, err := hot.Aggregate(t.Context(), s.JoinPipeline())
		must(t, err)
		var docs []bson.D
		must(t, cursor.All(t.Context(), &docs))
		out := map[int32]string{}
		for _, doc := range docs {
			testkit.SortFields(doc)
			out[testkit.Get(doc, "_id").(int32)] = fmt.Sprintf("%#v", doc)
		}
		return out
	}
	gets := func() (out []string) {
		for i := range n {
			h, c, err := s.Get(t.Context(), i)
			if err != nil && !errors.Is(err, mongopatterns.ErrNotFound) {
				t.Fatal(err)
			}
			if delete(c, "_id"); c == nil {
				c = bson.M{}
			}
			out = append(out, fmt.Sprintf("%#v %#v %d", h, map[string]any(c), len(c)))
		}
		return out
	}
	joined, got := join(), gets()
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	if result.Failed != 0 || result.Done == 0 || result.Remaining == 0 {
		t.Errorf("%+v", result)
	}
	same(t, "join", joined, join())
	same(t, "get", got, gets())
	again, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "again", mongopatterns.Result{Examined: int64(n), Remaining: result.Remaining}, again)
	left := map[string]bool{}
	for p, err := range s.Check(t.Context(), nil) {
		must(t, err)
		same(t, "kind", split.InBoth, p.Kind)
		left[p.ID.String()] = true
	}
	same(t, "named", int(result.Remaining), len(left))
}

// Adopt finishes beside old code that pushes to the same documents without pause, and
// both sides together hold all that was written.
func TestAdoptBesideOldCodeThatPushes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"comments"}})
	hot := db.Collection("movies")
	const n, writers = 60, 4
	var docs []any
	for i := range n {
		docs = append(docs, d("_id", i, "title", "t", "comments", bson.A{fmt.Sprint("first ", i)}))
	}
	testkit.Insert(t, hot, docs...)
	var group sync.WaitGroup
	var pushed atomic.Int64
	var ended atomic.Bool
	for w := range writers {
		group.Go(func() {
			for i := 0; !ended.Load(); i++ {
				if _, err := hot.UpdateOne(t.Context(), d("_id", (i*7+w)%n), d("$push", d("comments", fmt.Sprint(w, " ", i)))); err != nil {
					t.Error(err)
				}
				pushed.Add(1)
			}
		})
	}
	defer ended.Store(true)
	for pushed.Load() < 100*writers && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	result, err := s.Adopt(ctx, &mongopatterns.Work{BatchSize: n})
	beside := pushed.Load()
	ended.Store(true)
	group.Wait()
	must(t, err)
	same(t, "adopted", []int64{n, n, 0, 0}, []int64{result.Examined, result.Done, result.Remaining, result.Failed})
	t.Logf("%d pushes beside, %d conflicts", beside, result.Conflicts)
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	t.Logf("%d in both", result.Remaining)
	total := 0
	for _, coll := range []string{"movies", "movie_details"} {
		for _, doc := range testkit.Stored[bson.D](t, db.Collection(coll)) {
			comments, _ := testkit.Get(doc, "comments").(bson.A)
			total += len(comments)
		}
	}
	same(t, "comments", n+int(pushed.Load()), total)
}

// The cold documents that Adopt makes must be readable.
func TestNewRefusesAnIDThatAdoptCannotFill(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	hot, cold := db.Collection("hot"), db.Collection("cold")
	type withInt struct {
		ID   int    `bson:"_id"`
		Plot string `bson:"plot"`
	}
	type withObjectID struct {
		ID   bson.ObjectID `bson:"_id"`
		Plot string        `bson:"plot"`
	}
	type withText struct {
		Movie string `bson:"movie_id"`
		Plot  string `bson:"plot"`
	}
	type withAny struct {
		ID    any     `bson:"_id"`
		Movie float64 `bson:"movie_id"`
		Plot  string  `bson:"plot"`
	}
	byMovie := &split.Options{IDField: "movie_id"}
	refused := func(want string, err error) {
		t.Helper()
		testkit.Fails(t, "split", err, mongopatterns.ErrInvalid)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	_, err := split.New[int, bson.D, withInt](hot, cold, byMovie)
	refused("ObjectID", err)
	_, err = split.New[int, bson.D, withText](hot, cold, byMovie)
	refused("movie_id", err)
	_, err = split.New[int, bson.D, withObjectID](hot, cold, nil)
	refused("_id", err)
	for _, err := range []error{
		func() error { _, err := split.New[int, bson.D, withInt](hot, cold, nil); return err }(),
		func() error { _, err := split.New[int, bson.D, withObjectID](hot, cold, byMovie); return err }(),
		func() error { _, err := split.New[string, bson.D, withText](hot, cold, byMovie); return err }(),
		func() error { _, err := split.New[int, bson.D, withAny](hot, cold, byMovie); return err }(),
		func() error { _, err := split.New[any, bson.D, withInt](hot, cold, nil); return err }(),
	} {
		must(t, err)
	}
	_, err = split.New[int, bson.D, bson.D](hot, cold, &split.Options{Prefer: "both"})
	refused("Options.Prefer", err)
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
	testkit.Insert(t, hot, d("_id", 1, "a", 1), d("_id", 2, "a", 1), d("_id", 3, "a", 3), d("_id", 4, "a", 4))
	named := func(what string, result mongopatterns.Result, id int32, examined int64) {
		t.Helper()
		if result.Examined != examined || result.Done != 3 || result.Failed != 1 || result.Failures[0].ID.Int32() != id ||
			!mongo.IsDuplicateKeyError(result.Failures[0].Err) {
			t.Errorf("%s: %+v", what, result)
		}
		testkit.Untouched(t, hot)
	}
	dry, err := s.Adopt(t.Context(), &mongopatterns.Work{DryRun: true})
	must(t, err)
	same(t, "dry run", mongopatterns.Result{Examined: 4, Done: 4}, dry)
	result, err := s.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 3})
	must(t, err)
	named("adopt", result, 2, 4)
}

// Adopt counts committed work only: nothing from an aborted transaction, and work that
// was run again once.
func TestAdoptCountsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
	hot, cold := db.Collection("movies"), db.Collection("movie_details")
	testkit.Insert(t, hot, d("_id", 1, "plot", "a"), d("_id", 2, "plot", "b"))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Skip: 1, Code: 13}) // after the cold documents are written
	result, err := s.Adopt(t.Context(), nil)
	if err == nil {
		t.Fatal("no error")
	}
	same(t, "ended by an error", mongopatterns.Result{}, result)
	same(t, "cold", []bson.D{}, testkit.Stored[bson.D](t, cold))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, Code: 112, Labels: []string{"TransientTransactionError"}})
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	if result.Conflicts < 1 { // more, if the transaction of the error ends late
		t.Errorf("run again: %+v", result)
	}
	result.Conflicts = 0
	same(t, "run again", mongopatterns.Result{Examined: 2, Done: 2}, result)
	sound(t, db, s)

	_, err = cold.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("plot", 1), Options: options.Index().SetUnique(true)})
	must(t, err)
	testkit.Insert(t, hot, d("_id", 3, "plot", "c"), d("_id", 4, "plot", "a"), d("_id", 5, "plot", "d"))
	result, err = s.Adopt(t.Context(), nil)
	must(t, err)
	if len(result.Failures) != 1 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) || result.Failures[0].ID.AsInt64() != 4 {
		t.Errorf("failures: %v", result.Failures)
	}
	result.Failures = nil
	same(t, "one refused", mongopatterns.Result{Examined: 5, Done: 2, Failed: 1}, result)
	same(t, "cold documents", 4, len(testkit.Stored[bson.D](t, cold)))
	testkit.Untouched(t, hot)
}

// Work.BatchBytes bounds what a transaction reads and writes: cold fields in hot documents, and the cold documents that
// they move to.
func TestBatchBytes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSplit[int, bson.D, bson.D](t, db, &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "seen"}})
	hot := db.Collection("movies")
	for i := range 6 {
		testkit.Insert(t, hot, d("_id", i, "plot", strings.Repeat("x", 300_000)))
	}
	work := &mongopatterns.Work{BatchBytes: 1 << 20}
	transactions := func(what string, call func() error) {
		t.Helper()
		cmds := mongotest.Record(t, db, func() { must(t, call()) })
		same(t, "transactions of "+what, 2, len(cmds.Named(commit)))
	}
	adopt := func() error { return testkit.ErrorOf(s.Adopt(t.Context(), work)) }
	transactions("Adopt", adopt)
	testkit.Update(t, hot, d("_id", d("$gte", 0)), d("$set", d("seen", true)))
	transactions("Check", func() error { return testkit.Drain(s.Check(t.Context(), work)) })
	transactions("Adopt of small fields", adopt)
	sound(t, db, s)
}
