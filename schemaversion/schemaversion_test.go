package schemaversion_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

type contactV2 struct {
	Name    string   `bson:"name"`
	Methods []bson.D `bson:"contact_method"`
}

type contact struct {
	ID      int      `bson:"_id"`
	Version string   `bson:"schema_version,omitempty"`
	Name    string   `bson:"name"`
	Methods []bson.D `bson:"contact_method"`
	Count   int      `bson:"methods"`
}

type counted struct {
	Name    string   `bson:"name"`
	Methods []bson.D `bson:"contact_method"`
	Count   int      `bson:"methods"`
}

var phones = []string{"home", "work", "mobile"}

// steps replace phones by contact methods, and then count these.
var steps = []schemaversion.Step{
	{
		Up: func(doc bson.D) (out bson.D, err error) {
			methods := bson.A{}
			for _, e := range doc {
				if slices.Contains(phones, e.Key) {
					methods = append(methods, bson.D{e})
				} else {
					out = append(out, e)
				}
				if e.Key == "poison" {
					return nil, errors.New("poison")
				}
			}
			return append(out, bson.E{Key: "contact_method", Value: methods}), nil
		},
		Down: func(doc bson.D) (out bson.D, err error) {
			for _, e := range doc {
				if e.Key != "contact_method" {
					out = append(out, e)
					continue
				}
				for _, m := range e.Value.(bson.A) {
					out = append(out, m.(bson.D)...)
				}
			}
			return out, nil
		},
	},
	schemaversion.Between(func(old contactV2) (counted, error) {
		return counted{old.Name, old.Methods, len(old.Methods)}, nil
	}, func(c counted) (contactV2, error) { return contactV2{c.Name, c.Methods}, nil }),
}

type golden struct {
	Stored, Newest bson.Raw
}

func goldens(t testing.TB) (out []golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	testkit.OK(t, err)
	var all []struct{ Stored, Newest json.RawMessage }
	testkit.OK(t, json.Unmarshal(text, &all))
	for _, g := range all {
		var stored, newest bson.D
		testkit.OK(t, bson.UnmarshalExtJSON(g.Stored, false, &stored))
		testkit.OK(t, bson.UnmarshalExtJSON(g.Newest, false, &newest))
		out = append(out, golden{testkit.Raw(t, stored), testkit.Raw(t, newest)})
	}
	return out
}

func contacts(t testing.TB, opts schemaversion.Options) (*mongo.Database, *mongo.Collection, *schemaversion.Collection[contact]) {
	t.Helper()
	db := mongotest.Database(t)
	coll := db.Collection("contacts")
	for _, g := range goldens(t) {
		_, err := coll.InsertOne(t.Context(), g.Stored)
		testkit.OK(t, err)
	}
	opts.Text = true
	return db, coll, testkit.Must(schemaversion.New[contact](coll, steps, &opts))
}

// same compares two documents and ignores the order of their fields.
func same(t testing.TB, want, got bson.Raw) {
	t.Helper()
	var a, b bson.M
	testkit.OK(t, bson.Unmarshal(want, &a))
	testkit.OK(t, bson.Unmarshal(got, &b))
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}

// Golden documents of every version decode alike in all ways, and migrate to the same bytes except
// for their order.
func TestGolden(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	found := map[int]contact{}
	for v, err := range c.Find(t.Context(), nil) {
		testkit.OK(t, err)
		found[v.ID] = v
	}
	for _, g := range goldens(t) {
		var want contact
		testkit.OK(t, bson.Unmarshal(testkit.Raw(t, testkit.Must(c.Decode(g.Newest))), &want))
		id := int(g.Stored.Lookup("_id").Int32())
		for name, got := range map[string]contact{"Decode": testkit.Must(c.Decode(g.Stored)), "Get": testkit.Must(c.Get(t.Context(), id)), "Find": found[id]} {
			want.Version, got.Version = "", ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %v: %s", name, g.Stored, diff)
			}
		}
		same(t, g.Stored, testkit.One[bson.Raw](t, coll, id)) // reading changed nothing
	}
	result, err := c.Migrate(t.Context(), c.Newest(), nil)
	if err != nil || result.Examined != 5 || result.Done != 5 || result.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	for _, g := range goldens(t) {
		same(t, g.Newest, testkit.One[bson.Raw](t, coll, g.Stored.Lookup("_id")))
	}
	if again := testkit.Must(c.Migrate(t.Context(), c.Newest(), nil)); again.Examined != 0 {
		t.Errorf("%+v", again)
	}
}

func TestWriteBack(t *testing.T) {
	t.Parallel()
	db, coll, c := contacts(t, schemaversion.Options{WriteBack: true})
	costs.Record(t, db, 1, []string{"find", "update"}, func() error { _, err := c.Get(t.Context(), 2); return err })
	same(t, goldens(t)[1].Newest, testkit.One[bson.Raw](t, coll, 2))
	costs.Record(t, db, 0, []string{"find"}, func() error { _, err := c.Get(t.Context(), 2); return err })
	// The write does not name fields that the step does not change; it is guarded by those that it
	// does.
	cmds := mongotest.Record(t, db, func() { testkit.Must(c.Get(t.Context(), 4)) })
	update := cmds[1].Body.Lookup("updates", "0", "u").Document()
	var changes struct {
		Set   bson.M `bson:"$set"`
		Unset bson.M `bson:"$unset"`
	}
	testkit.OK(t, bson.Unmarshal(update, &changes))
	if len(changes.Set) != 3 || changes.Set["methods"] != int32(0) || changes.Unset != nil {
		t.Errorf("%v", update)
	}
}

// Writers of the old program change documents while readers and Migrate upgrade them: none of their
// changes is lost.
func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{WriteBack: true})
	const n = 60
	for i := range n {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 100 + i}, {Key: "home", Value: "0"}, {Key: "n", Value: 0}})
		testkit.OK(t, err)
	}
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() { // old programs, each for a field of its own: home moves, n stays
			for i := range n {
				for range 3 {
					_, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 100 + i}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
					if err != nil {
						t.Error(err)
					}
				}
				if w == 0 {
					_, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 100 + i}, {Key: "home", Value: "0"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "home", Value: "1"}}}})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
		group.Go(func() {
			for i := range n {
				if _, err := c.Get(t.Context(), 100+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for range 3 {
			if _, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{BatchSize: 7}); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	if _, err := c.Migrate(t.Context(), 3, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		doc := testkit.One[bson.Raw](t, coll, 100+i)
		if got := doc.Lookup("n").AsInt64(); got != 6 {
			t.Errorf("%d of 6 changes: %v", got, doc)
		}
		methods, _ := doc.Lookup("contact_method").Array().Values()
		if len(methods) != 1 || doc.Lookup("home").Type != 0 {
			t.Errorf("%v", doc)
		}
	}
}

func TestNewerIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{WriteBack: true})
	for id, version := range map[int]any{20: "4", 21: 4.5, 22: "two", 23: 0, 24: bson.A{1}, 25: nil, 26: bson.Undefined{}} {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "schema_version", Value: version}, {Key: "name", Value: "later"}})
		testkit.OK(t, err)
		before := testkit.One[bson.Raw](t, coll, id)
		_, err = c.Get(t.Context(), id)
		var newer *schemaversion.NewerError
		if !errors.Is(err, mongopatterns.ErrNewer) || !errors.As(err, &newer) || newer.ID.AsInt64() != int64(id) || newer.Newest != 3 {
			t.Errorf("%v: %v", version, err)
		}
		if err := c.Update(t.Context(), id, bson.M{"$set": bson.M{"name": "x"}}); !errors.Is(err, mongopatterns.ErrNewer) {
			t.Errorf("%v: %v", version, err)
		}
		result, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{Filter: bson.D{{Key: "_id", Value: id}}})
		if err != nil || result.Skipped != 1 || result.Done != 0 {
			t.Errorf("%v: %+v, %v", version, result, err)
		}
		same(t, before, testkit.One[bson.Raw](t, coll, id))
	}
	if counts := testkit.Must(c.Status(t.Context())); counts[-1] != 7 || counts[1] != 3 || counts[2] != 2 || counts[3] != 1 {
		t.Errorf("%v", counts)
	}
}

// A stored null or undefined is no version, and no missing field: not for the first version either, with and without the
// index, which does not tell null and nothing apart.
func TestNullIsNoVersion(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("contacts")
	c := testkit.Must(schemaversion.New[contact](coll, steps, nil))
	first := testkit.Must(schemaversion.New[bson.M](coll, nil, nil))
	testkit.Insert(t, coll, testkit.D("_id", 1, "schema_version", nil, "home", "1"),
		testkit.D("_id", 2, "schema_version", bson.Undefined{}, "home", "2"), testkit.D("_id", 3, "home", "3"))
	before := testkit.Stored[bson.Raw](t, coll)
	everything := func(int) bson.D { return bson.D{} }
	for range 2 {
		testkit.Gives(t, map[int]int64{-1: 2, 1: 1})(c.Status(t.Context()))
		testkit.Equal(t, 1, testkit.Count(t, coll, c.Filter(everything)))
		testkit.Equal(t, 1, testkit.Count(t, coll, first.Filter(everything)))
		if result, err := c.Migrate(t.Context(), 1, nil); err != nil || result.Examined != 2 || result.Skipped != 2 {
			t.Errorf("%+v, %v", result, err)
		}
		if result, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{DryRun: true}); err != nil || result.Done != 1 || result.Skipped != 2 {
			t.Errorf("%+v, %v", result, err)
		}
		for _, id := range []int{1, 2} {
			err := first.Update(t.Context(), id, bson.M{"$set": bson.M{"name": "x"}})
			if newer := new(schemaversion.NewerError); !errors.As(err, &newer) {
				t.Errorf("%d: %v", id, err)
			}
		}
		testkit.OK(t, c.EnsureIndexes(t.Context()))
	}
	testkit.Equal(t, before, testkit.Stored[bson.Raw](t, coll))
	var unknown int
	for _, err := range c.Find(t.Context(), nil) {
		if errors.Is(err, mongopatterns.ErrNewer) {
			unknown++
		}
	}
	testkit.Equal(t, 2, unknown)
	testkit.Update(t, coll, bson.D{}, testkit.D("$set", testkit.D("schema_version", nil)))
	testkit.Gives(t, map[int]int64{-1: 3})(c.Status(t.Context()))
}

func TestPoison(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	poison := bson.D{{Key: "_id", Value: 0}, {Key: "poison", Value: true}, {Key: "home", Value: "1"}}
	_, err := coll.InsertOne(t.Context(), poison)
	testkit.OK(t, err)
	dry, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{DryRun: true})
	if err != nil || dry.Done != 5 || dry.Failed != 1 || dry.Examined != 6 {
		t.Errorf("%+v, %v", dry, err)
	}
	same(t, goldens(t)[0].Stored, testkit.One[bson.Raw](t, coll, 1))
	_, err = c.Migrate(t.Context(), 3, &mongopatterns.Work{Strict: true, BatchSize: 1})
	var step *schemaversion.StepError
	if !errors.As(err, &step) || step.From != 1 || step.To != 2 || step.ID.AsInt64() != 0 {
		t.Errorf("%v", err)
	}
	result, err := c.Migrate(t.Context(), 3, nil)
	if err != nil || result.Done != 5 || result.Failed != 1 || result.Failures[0].ID.AsInt64() != 0 || !errors.As(result.Failures[0].Err, &step) {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, testkit.Raw(t, poison), testkit.One[bson.Raw](t, coll, 0))
}

// A run that ends at a document which a step refuses counts only documents that it has written.
func TestStrictCountsWhatIsWritten(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 100}, {Key: "poison", Value: true}})
	testkit.OK(t, err)
	result, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{Strict: true})
	var step *schemaversion.StepError
	if !errors.As(err, &step) || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, goldens(t)[0].Stored, testkit.One[bson.Raw](t, coll, 1))
}

// A version that no filter looks for is unknown: otherwise Update would upgrade it for ever.
func TestVersionsInOtherWords(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, version := range []any{"03", "+3", " 3", "", 2.5, bson.A{3}, math.NaN(), int64(1) << 40} {
		_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 50 + i}, {Key: "schema_version", Value: version}})
		testkit.OK(t, err)
		if err := c.Update(ctx, 50+i, bson.M{"$set": bson.M{"name": "x"}}); !errors.Is(err, mongopatterns.ErrNewer) {
			t.Errorf("%v: %v", version, err)
		}
	}
}

// An array is no version. Migrate leaves it, and counts it as Skipped unless it holds the version that it migrates to;
// Status counts each, with and without the index.
func TestArraysAreNoVersions(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("contacts")
	c := testkit.Must(schemaversion.New[contact](coll, steps, nil))
	arrays := []bson.M{{"_id": 1, "schema_version": bson.A{3}}, {"_id": 2, "schema_version": bson.A{1, "3"}}, {"_id": 3, "schema_version": bson.A{1}}}
	testkit.InsertAll(t, coll, arrays)
	for range 2 {
		if result, err := c.Migrate(t.Context(), 3, nil); err != nil || result.Examined != 1 || result.Skipped != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		testkit.Gives(t, map[int]int64{-1: 3})(c.Status(t.Context()))
		testkit.OK(t, c.EnsureIndexes(t.Context()))
	}
	testkit.Equal(t, 3, testkit.Count(t, coll, bson.M{"schema_version": bson.M{"$type": "array"}}))
}

// refuse makes the server refuse the newest version of contact 2.
func refuse(t testing.TB, coll *mongo.Collection) {
	t.Helper()
	testkit.OK(t, mongotest.Admin(t, coll.Database()).RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "contacts"}, {Key: "validator", Value: bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: "methods", Value: bson.D{{Key: "$exists", Value: false}}}}, bson.D{{Key: "methods", Value: bson.D{{Key: "$ne", Value: 3}}}}}}}}}).Err())
}

// A refusal ends the caller's transaction: calls in it return the error.
func TestRefusedInATransaction(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{WriteBack: true})
	refuse(t, coll)
	if v, err := c.Get(t.Context(), 2); err != nil || v.Count != 3 {
		t.Errorf("outside of one: %+v, %v", v, err)
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"migrate": func(ctx context.Context) error { return errorOf(c.Migrate(ctx, 3, nil)) },
		"get":     func(ctx context.Context) error { return errorOf(c.Get(ctx, 2)) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		runs := 0
		err := mongopatterns.Transact(ctx, coll.Database().Client(), func(ctx context.Context) error {
			runs++
			if err := call(ctx); err != nil {
				return err
			}
			_, err := coll.InsertOne(ctx, bson.M{"_id": name})
			return err
		})
		cancel()
		if !fault.Refused(err) || runs != 1 {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
	}
	same(t, goldens(t)[0].Stored, testkit.One[bson.Raw](t, coll, 1))
}

// A document with a field that no update can name can still be read.
func TestWriteBackOfAFieldWithADot(t *testing.T) {
	t.Parallel()
	_, coll, _ := contacts(t, schemaversion.Options{})
	c := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		return append(doc, bson.E{Key: "a.b", Value: 1}), nil
	}}}, &schemaversion.Options{WriteBack: true}))
	if doc, err := c.Get(t.Context(), 1); err != nil || doc["a.b"] != int32(1) {
		t.Errorf("%v, %v", doc, err)
	}
}

// The server refuses one document: it is reported, and the others are written.
func TestRefused(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	refuse(t, coll)
	result, err := c.Migrate(t.Context(), 3, nil)
	if err != nil || result.Done != 4 || result.Failed != 1 || result.Failures[0].ID.AsInt64() != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, goldens(t)[1].Stored, testkit.One[bson.Raw](t, coll, 2))
}

func TestDown(t *testing.T) {
	t.Parallel()
	_, coll, _ := contacts(t, schemaversion.Options{})
	two := testkit.Must(schemaversion.New[bson.M](coll, steps[:1], &schemaversion.Options{Text: true}))
	if _, err := two.Migrate(t.Context(), 2, nil); err != nil {
		t.Fatal(err)
	}
	result, err := two.Migrate(t.Context(), 1, &mongopatterns.Work{Filter: bson.M{"_id": 2}})
	if err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	want := append(bson.D{{Key: "schema_version", Value: "1"}}, testkit.Must(bsonD(goldens(t)[1].Stored))...)
	same(t, testkit.Raw(t, want), testkit.One[bson.Raw](t, coll, 2))
	// Between types: fields that the structs drop are dropped, fields that they do not have are
	// kept.
	_, err = coll.InsertOne(t.Context(), bson.M{"_id": 7, "schema_version": "3", "name": "Han", "contact_method": bson.A{}, "methods": 0, "note": "kept"})
	testkit.OK(t, err)
	three := testkit.Must(schemaversion.New[bson.M](coll, steps, &schemaversion.Options{Text: true}))
	if result, err = three.Migrate(t.Context(), 2, &mongopatterns.Work{Filter: bson.M{"_id": 7}}); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, testkit.Raw(t, bson.M{"_id": 7, "schema_version": "2", "name": "Han", "contact_method": bson.A{}, "note": "kept"}), testkit.One[bson.Raw](t, coll, 7))
	oneWay := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{steps[0], schemaversion.Between(func(old contactV2) (counted, error) { return counted{}, nil }, nil)}, &schemaversion.Options{Text: true}))
	result, err = oneWay.Migrate(t.Context(), 2, &mongopatterns.Work{Filter: bson.M{"_id": 6}})
	if err != nil || result.Failed != 1 {
		t.Errorf("a step without Down: %+v, %v", result, err)
	}
}

// Of many runners that begin at once only one works: no document is upgraded twice.
func TestOneRunner(t *testing.T) {
	t.Parallel()
	_, coll, _ := contacts(t, schemaversion.Options{})
	const n = 40
	for i := range n {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 100 + i}, {Key: "seen", Value: i}})
		testkit.OK(t, err)
	}
	var mu sync.Mutex
	runs := map[any]int{}
	c := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		mu.Lock()
		defer mu.Unlock()
		runs[doc[0].Value]++
		return doc, nil
	}}}, nil))
	some := bson.M{"seen": bson.M{"$exists": true}}
	var group sync.WaitGroup
	var done, ended int64
	for range 6 {
		group.Go(func() {
			result, err := c.Migrate(t.Context(), 2, &mongopatterns.Work{Filter: some, BatchSize: 5})
			mu.Lock()
			defer mu.Unlock()
			done += result.Done
			if err == nil {
				ended++
			} else if !errors.Is(err, mongopatterns.ErrRunning) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if done != n || ended == 0 || len(runs) != n || slices.Max(slices.Collect(maps.Values(runs))) != 1 {
		t.Errorf("%d upgraded by %d runners: %v", done, ended, runs)
	}
}

// child is a Migrate in a process of its own, which stops after two batches until it is
// killed.
func TestMain(m *testing.M) {
	if name := os.Getenv("SCHEMAVERSION_CHILD"); name != "" {
		client := testkit.Must(mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI"))))
		c := testkit.Must(schemaversion.New[contact](client.Database(name).Collection("contacts"), steps, &schemaversion.Options{Text: true, Lease: time.Second}))
		_, err := c.Migrate(context.Background(), 3, &mongopatterns.Work{BatchSize: 10, Progress: func(r mongopatterns.Result) {
			if r.Examined == 20 {
				fmt.Println("killed here")
				time.Sleep(time.Hour)
			}
		}})
		panic(err)
	}
	testkit.Main(m)
}

// A runner that is killed between two batches keeps its lease until that has run out; then another
// takes it and does the rest alone.
func TestKilledRunner(t *testing.T) {
	db, coll, c := contacts(t, schemaversion.Options{})
	const n = 50
	for i := range n {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 100 + i}, {Key: "home", Value: "1"}})
		testkit.OK(t, err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "SCHEMAVERSION_CHILD="+db.Name(), "MONGODB_URI="+mongotest.URI(t))
	child.Stderr = os.Stderr
	out := testkit.Must(child.StdoutPipe())
	testkit.OK(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.OK(t, errors.Join(err, child.Process.Kill()))
	if child.Wait() == nil || line != "killed here\n" {
		t.Fatalf("the child said %q", line)
	}
	refused := 0
	for {
		result, err := c.Migrate(t.Context(), 3, nil)
		if errors.Is(err, mongopatterns.ErrRunning) {
			refused++
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil || result.Examined != 5+n-20 || result.Done != result.Examined {
			t.Errorf("%+v, %v", result, err)
		}
		break
	}
	t.Logf("%d times refused before the lease was over", refused)
	if counts := testkit.Must(c.Status(t.Context())); counts[3] != n+6 || len(counts) != 1 {
		t.Errorf("%v", counts)
	}
}

func bsonD(raw bson.Raw) (out bson.D, err error) {
	err = bson.Unmarshal(raw, &out)
	return out, err
}

// migrate waits for the lease of the Migrate before, which has half a second to give it back after its context
// has ended, and on a slow machine may not come to it.
func migrate(t *testing.T, c *schemaversion.Collection[contact], work *mongopatterns.Work) (mongopatterns.Result, error) {
	t.Helper()
	for {
		result, err := c.Migrate(t.Context(), 3, work)
		if !errors.Is(err, mongopatterns.ErrRunning) {
			return result, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A run that ends has seen every document that existed all the time, even if one before it was
// interrupted: documents that old code inserted with lower _ids, and documents that failed then and
// were repaired.
func TestNothingIsBehindAMark(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	for i := range 30 {
		doc := bson.D{{Key: "_id", Value: 100 + i}, {Key: "home", Value: "1"}}
		if i == 3 {
			doc = append(doc, bson.E{Key: "poison", Value: true})
		}
		_, err := coll.InsertOne(t.Context(), doc)
		testkit.OK(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result, err := c.Migrate(ctx, 3, &mongopatterns.Work{BatchSize: 10, Progress: func(r mongopatterns.Result) {
		if r.Examined == 20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || result.Done != 19 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	_, err = coll.UpdateByID(t.Context(), 103, bson.M{"$unset": bson.M{"poison": ""}})
	testkit.OK(t, err)
	for _, id := range []any{-1, 50, 104.5, nil} {
		_, err = coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "home", Value: "1"}})
		testkit.OK(t, err)
	}
	result, err = migrate(t, c, &mongopatterns.Work{BatchSize: 10})
	if err != nil || result.Failed != 0 || result.Remaining != 0 || result.Done != 5+30+4-19 {
		t.Errorf("%+v, %v", result, err)
	}
	if counts := testkit.Must(c.Status(t.Context())); counts[1]+counts[2] != 0 {
		t.Errorf("%v", counts)
	}
}

// Old code beside new documents, as docs/adopting.md describes it.
func TestBesideOldCode(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, coll, c := contacts(t, schemaversion.Options{})
	testkit.Must(c.Migrate(ctx, 3, nil))
	// Old code still inserts its documents: both versions are read.
	_, err := coll.InsertOne(ctx, bson.M{"_id": 100, "home": "1"})
	testkit.OK(t, err)
	_, err = coll.UpdateByID(ctx, 100, bson.M{"$set": bson.M{"work": "2"}})
	testkit.OK(t, err)
	if v := testkit.Must(c.Get(ctx, 100)); v.Count != 2 {
		t.Errorf("%+v", v)
	}
	// If old code sets a field of the old version, the new fields do not follow.
	_, err = coll.UpdateByID(ctx, 1, bson.M{"$set": bson.M{"mobile": "3"}})
	testkit.OK(t, err)
	before := testkit.Must(c.Get(ctx, 1))
	// A document that old code replaces has the old version again.
	_, err = coll.ReplaceOne(ctx, bson.M{"_id": 2}, bson.M{"name": "Darth Vader", "home": "9"})
	testkit.OK(t, err)
	if counts := testkit.Must(c.Status(ctx)); counts[1] != 2 {
		t.Errorf("%v", counts)
	}
	if result, err := c.Migrate(ctx, 3, nil); err != nil || result.Done != 2 || result.Failed+result.Remaining+result.Skipped != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if v := testkit.Must(c.Get(ctx, 1)); v.Count != before.Count || testkit.One[bson.Raw](t, coll, 1).Lookup("mobile").StringValue() != "3" {
		t.Errorf("%+v", v)
	}
	if v := testkit.Must(c.Get(ctx, 2)); v.Count != 1 {
		t.Errorf("%+v", v)
	}
}

// A document that someone changes each time before it is written is Remaining: a further run can
// upgrade it.
func TestContendedIsRemaining(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	_, err := coll.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: 0}}, bson.D{{Key: "_id", Value: 2}, {Key: "n", Value: 0}}})
	testkit.OK(t, err)
	busy := true
	c := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		if busy && doc[0].Value == int32(1) {
			if _, err := coll.UpdateByID(t.Context(), 1, bson.M{"$inc": bson.M{"n": 1}}); err != nil {
				return nil, err
			}
		}
		doc[1].Value = doc[1].Value.(int32) + 100
		return doc, nil
	}}}, nil))
	result, err := c.Migrate(t.Context(), 2, nil)
	if err != nil || result.Done != 1 || result.Remaining != 1 || result.Skipped != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	busy = false
	result, err = c.Migrate(t.Context(), 2, nil)
	if err != nil || result.Done != 1 || result.Remaining != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if doc := testkit.One[bson.Raw](t, coll, 1); doc.Lookup("n").AsInt64() != 105 {
		t.Errorf("%v", doc)
	}
}

// A Migrate that was interrupted starts again, and skips documents that are done; another takes its
// lease only when that has run out.
func TestLease(t *testing.T) {
	t.Parallel()
	db, coll, c := contacts(t, schemaversion.Options{})
	for i := range 50 {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: string(rune('A' + i))}, {Key: "home", Value: "1"}})
		testkit.OK(t, err)
	}
	state := db.Collection("contacts.migrations")
	ctx, cancel := context.WithCancel(t.Context())
	result, err := c.Migrate(ctx, 3, &mongopatterns.Work{BatchSize: 10, Progress: func(r mongopatterns.Result) {
		if r.Examined != 10 {
			return
		}
		if _, err := c.Migrate(t.Context(), 3, nil); !errors.Is(err, mongopatterns.ErrRunning) || !errors.Is(err, mongopatterns.ErrConflict) {
			t.Errorf("a second one: %v", err)
		}
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || result.Done != 10 {
		t.Errorf("%+v, %v", result, err)
	}
	result, err = migrate(t, c, &mongopatterns.Work{BatchSize: 10})
	if err != nil || result.Examined != 45 || result.Done != 45 {
		t.Errorf("%+v, %v", result, err)
	}
	// A process died with the lease.
	until := time.Now().Add(time.Hour)
	_, err = state.UpdateByID(t.Context(), "contacts", bson.M{"$set": bson.M{"owner": bson.NewObjectID(), "until": until}})
	testkit.OK(t, err)
	if _, err := c.Migrate(t.Context(), 3, nil); !errors.Is(err, mongopatterns.ErrRunning) || !strings.Contains(err.Error(), until.Truncate(time.Millisecond).UTC().Format(time.RFC3339Nano)) {
		t.Error(err)
	}
	// What is no date in the place of the end, whatever it sorts after, keeps nobody out.
	for _, until := range []any{time.Now().Add(-time.Hour), bson.Timestamp{T: math.MaxUint32}, bson.MaxKey{}, bson.Regex{Pattern: "a"}, "text"} {
		_, err = state.UpdateByID(t.Context(), "contacts", bson.M{"$set": bson.M{"owner": bson.NewObjectID(), "until": until}})
		testkit.OK(t, err)
		if _, err := c.Migrate(t.Context(), 3, nil); err != nil {
			t.Errorf("%v: %v", until, err)
		}
	}
	// And a Migrate whose lease was taken meanwhile stops.
	_, err = coll.DeleteMany(t.Context(), bson.M{})
	testkit.OK(t, err)
	for i := range 3 {
		_, err := coll.InsertOne(t.Context(), bson.M{"_id": i})
		testkit.OK(t, err)
	}
	_, err = c.Migrate(t.Context(), 3, &mongopatterns.Work{BatchSize: 1, Progress: func(r mongopatterns.Result) {
		if r.Examined == 1 {
			_, err := state.UpdateByID(t.Context(), "contacts", bson.M{"$set": bson.M{"owner": bson.NewObjectID()}})
			testkit.OK(t, err)
		}
	}})
	if !errors.Is(err, mongopatterns.ErrRunning) {
		t.Error(err)
	}
}

// If the answer to the write that takes the lease is lost, the lease is given back.
func TestLostLease(t *testing.T) {
	t.Parallel()
	p := proxy.New(t, mongotest.URI(t))
	t.Cleanup(func() { p.Break(nil) })
	coll := mongotest.Database(t, p.Options()).Collection("contacts")
	c := testkit.Must(schemaversion.New[contact](coll, steps, nil))
	p.Break(proxy.Each("findAndModify", proxy.CloseAfter))
	if _, err := c.Migrate(t.Context(), 3, nil); !mongo.IsNetworkError(err) {
		t.Errorf("%v, want a network error", err)
	}
	p.Break(nil)
	if _, err := c.Migrate(t.Context(), 3, nil); err != nil {
		t.Error(err)
	}
}

// A server that refuses to take the lease back gets few commands, and one that does not answer ends the call with the
// error of its context.
func TestReleaseIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]proxy.Fault{"refused": proxy.Refuse(proxy.NotWritablePrimary), "not answered": proxy.SilentBefore} {
		t.Run(name, func(t *testing.T) {
			within := time.Minute
			if name == "not answered" {
				within = time.Second
			}
			p := proxy.New(t, mongotest.URI(t))
			t.Cleanup(func() { p.Break(nil) })
			coll := mongotest.Database(t, p.Options()).Collection("contacts")
			c := testkit.Must(schemaversion.New[contact](coll, steps, nil))
			var updates atomic.Int64
			broken.Before = func() { updates.Add(1) }
			p.Break(proxy.Each("update", broken))
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := c.Migrate(ctx, 3, nil)
			if silent := name == "not answered"; err == nil || errors.Is(err, context.DeadlineExceeded) != silent || errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if n := updates.Load(); n > 2 { // the driver repeats it once
				t.Errorf("%d updates, want 2", n)
			}
		})
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	_, _, c := contacts(t, schemaversion.Options{Rate: 50})
	start := time.Now()
	if _, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{BatchSize: 1}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("5 documents at 50 a second took %v", took)
	}
	// A batch takes at most a second, so that the lease is kept.
	_, _, c = contacts(t, schemaversion.Options{Rate: 4})
	for _, size := range []int{0, 1000} {
		var progress []int64
		_, err := c.Migrate(t.Context(), 3, &mongopatterns.Work{BatchSize: size, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
		if err != nil || !slices.Equal(progress, []int64{4, 5}) {
			t.Errorf("%v, %v", progress, err)
		}
		_, _, c = contacts(t, schemaversion.Options{Rate: 4})
	}
}

func TestFilteredMigration(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	some := &mongopatterns.Work{Filter: bson.M{"_id": bson.M{"$gte": 2}, "$or": bson.A{bson.M{"home": "$name"}, bson.M{"name": bson.M{"$exists": true}}}}}
	if result, err := c.Migrate(t.Context(), 3, some); err != nil || result.Done == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	same(t, goldens(t)[0].Stored, testkit.One[bson.Raw](t, coll, 1))
}

func TestFilter(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	work := c.Filter(func(version int) bson.D {
		if version == 1 {
			return bson.D{{Key: "work", Value: bson.D{{Key: "$exists", Value: true}}}}
		}
		return bson.D{{Key: "contact_method.work", Value: bson.D{{Key: "$exists", Value: true}}}}
	})
	var ids []int
	for v, err := range c.Find(t.Context(), work, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})) {
		testkit.OK(t, err)
		ids = append(ids, v.ID)
	}
	if !slices.Equal(ids, []int{1, 2, 3}) {
		t.Errorf("%v", ids)
	}
	if n := testkit.Must(coll.CountDocuments(t.Context(), c.Filter(func(int) bson.D { return nil }))); n != 0 {
		t.Errorf("%d", n)
	}
}

func TestInsertAndUpdate(t *testing.T) {
	t.Parallel()
	_, coll, c := contacts(t, schemaversion.Options{})
	id := testkit.Must(c.Insert(t.Context(), contact{ID: 30, Version: "1", Name: "Han", Methods: []bson.D{}}))
	if doc := testkit.One[bson.Raw](t, coll, id); doc.Lookup("schema_version").StringValue() != "3" {
		t.Errorf("%v", doc)
	}
	testkit.OK(t, c.Update(t.Context(), 2, bson.M{"$push": bson.M{"contact_method": bson.M{"skype": "x"}}}))
	methods, _ := testkit.One[bson.Raw](t, coll, 2).Lookup("contact_method").Array().Values()
	if len(methods) != 4 {
		t.Errorf("%v", methods)
	}
	for _, err := range []error{c.Update(t.Context(), 99, bson.M{"$set": bson.M{"a": 1}}), errorOf(c.Get(t.Context(), 99))} {
		if !errors.Is(err, mongo.ErrNoDocuments) {
			t.Error(err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

type chain struct{}

var contactChain = schemaversion.Must(schemaversion.NewChain(steps, &schemaversion.Options{Text: true}))

func (chain) Chain() *schemaversion.Chain { return contactChain }

// A Doc upgrades itself when the driver decodes it, and is stored with the newest version.
func TestDoc(t *testing.T) {
	t.Parallel()
	_, coll, _ := contacts(t, schemaversion.Options{})
	type doc = schemaversion.Doc[bson.M, chain]
	for _, g := range goldens(t) {
		var d doc
		testkit.OK(t, coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: g.Stored.Lookup("_id")}}).Decode(&d))
		_, err := coll.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: g.Stored.Lookup("_id")}}, d)
		testkit.OK(t, err)
		want := testkit.Must(bsonD(g.Newest))
		for i := range want {
			if want[i].Key == "schema_version" {
				want[i].Value = "3"
			}
		}
		same(t, testkit.Raw(t, want), testkit.One[bson.Raw](t, coll, g.Stored.Lookup("_id")))
	}
	newer := testkit.Raw(t, bson.M{"schema_version": 9})
	if err := bson.Unmarshal(newer, new(doc)); !errors.Is(err, mongopatterns.ErrNewer) {
		t.Error(err)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	for name, err := range map[string]error{
		"no Up":   errorOf(schemaversion.New[bson.M](coll, []schemaversion.Step{{}}, nil)),
		"nil":     errorOf(schemaversion.New[bson.M](nil, nil, nil)),
		"field":   errorOf(schemaversion.New[bson.M](coll, nil, &schemaversion.Options{VersionField: "a.b"})),
		"first":   errorOf(schemaversion.New[bson.M](coll, nil, &schemaversion.Options{FirstVersion: -1})),
		"rate":    errorOf(schemaversion.New[bson.M](coll, nil, &schemaversion.Options{Rate: -1})),
		"lease":   errorOf(schemaversion.New[bson.M](coll, nil, &schemaversion.Options{Lease: 1})),
		"state":   errorOf(schemaversion.New[bson.M](coll, nil, &schemaversion.Options{Leases: coll})),
		"version": errorOf(testkit.Must(schemaversion.New[bson.M](coll, nil, nil)).Migrate(t.Context(), 2, nil)),
		"batch":   errorOf(testkit.Must(schemaversion.New[bson.M](coll, nil, nil)).Migrate(t.Context(), 1, &mongopatterns.Work{BatchSize: -1})),
		"value":   errorOf(testkit.Must(schemaversion.New[any](coll, nil, nil)).Insert(t.Context(), 7)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := testkit.Must(schemaversion.New[bson.M](coll, nil, nil))
	testkit.OK(t, v.EnsureIndexes(t.Context()))
	moves := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) { return bson.D{{Key: "_id", Value: "other"}}, nil }}}, nil))
	if _, err := moves.Decode(testkit.Raw(t, bson.M{"_id": 1})); err == nil {
		t.Error("a step may change the _id")
	}
}

// BenchmarkDecode compares Decode of a document of the newest version with the driver's Unmarshal.
func BenchmarkDecode(b *testing.B) {
	newest := goldens(b)[0].Newest
	v := testkit.Must(schemaversion.New[contact](new(mongo.Client).Database("x").Collection("x"), steps, nil))
	b.Run("versions", func(b *testing.B) {
		for b.Loop() {
			if _, err := v.Decode(newest); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by hand", func(b *testing.B) {
		for b.Loop() {
			var c contact
			if err := bson.Unmarshal(newest, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A Doc as the T of other packages: a field that a step has moved is not kept twice, and nothing is
// lost, in the document, in its history and on a page.
func TestComposes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, coll, _ := contacts(t, schemaversion.Options{})
	type doc = schemaversion.Doc[bson.M, chain]
	history := testkit.Must(versioning.New[int, doc](coll, db.Collection("contact_revisions"), nil))
	testkit.OK(t, history.EnsureIndexes(ctx))
	_, err := history.Edit(ctx, 1, func(d *doc) error {
		d.V["name"] = "Anakin"
		d.V["contact_method"] = append(d.V["contact_method"].(bson.A), bson.M{"skype": "x"})
		return nil
	}, versioning.Change{Author: "obi-wan"})
	testkit.OK(t, err)
	got := testkit.One[bson.Raw](t, coll, 1)
	if got.Lookup("home").Type != 0 || got.Lookup("contact_method", "0", "home").StringValue() != "503-555-0000" || got.Lookup("schema_version").StringValue() != "3" {
		t.Errorf("stored: %v", got)
	}
	n := 0
	for r, err := range history.Revisions(ctx, 1) {
		testkit.OK(t, err)
		n++
		if methods, _ := r.Document.V["contact_method"].(bson.A); len(methods) != 1+int(r.Number) || r.Document.V["home"] != nil {
			t.Errorf("revision %d: %v", r.Number, r.Document.V)
		}
	}
	if n != 2 {
		t.Errorf("%d revisions", n)
	}

	pager := testkit.Must(paging.New[doc](coll, bson.D{{Key: "_id", Value: 1}}, nil))
	page := testkit.Must(pager.Page(ctx, nil, paging.Request{}))
	for _, d := range page.Items {
		if d.V["contact_method"] == nil || d.V["home"] != nil {
			t.Errorf("page: %v", d.V)
		}
	}
}

// As JSON a Doc is its V, also on a page and in a revision, and a Doc that was made from JSON can be
// saved.
func TestDocAsJSON(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, coll, _ := contacts(t, schemaversion.Options{})
	type named struct {
		ID   int    `bson:"_id" json:"id"`
		Name string `bson:"name" json:"name"`
	}
	type doc = schemaversion.Doc[named, chain]
	check := func(what string, v any, want string) {
		t.Helper()
		if text := string(testkit.Must(json.Marshal(v))); !strings.Contains(text, want) || strings.Contains(text, `"V"`) {
			t.Errorf("%s: %s", what, text)
		}
	}
	check("by hand", doc{V: named{7, "Han"}}, `{"id":7,"name":"Han"}`)
	check("pointer", &doc{V: named{7, "Han"}}, `{"id":7,"name":"Han"}`)
	history := testkit.Must(versioning.New[int, doc](coll, db.Collection("contact_revisions"), nil))
	r := testkit.Must(history.Get(ctx, 1))
	check("revision", r, `"document":{"id":1,"name":"`+r.Document.V.Name+`"}`)
	pager := testkit.Must(paging.New[doc](coll, bson.D{{Key: "_id", Value: 1}}, nil))
	check("page", testkit.Must(pager.Page(ctx, nil, paging.Request{Size: 1})), `[{"id":1,"name":"`+r.Document.V.Name+`"}]`)

	var body versioning.Revision[doc]
	testkit.OK(t, json.Unmarshal([]byte(`{"number": 1, "document": {"id": 1, "name": "Anakin"}}`), &body))
	testkit.Must(history.Save(ctx, body, versioning.Change{}))
	patched := testkit.Must(history.Get(ctx, 1))
	testkit.OK(t, json.Unmarshal([]byte(`{"name": "Vader"}`), &patched.Document)) // the _id stays, and the fields that V does not have
	if raw := testkit.Raw(t, patched.Document); raw.Lookup("contact_method").Type == 0 || patched.Document.V.ID != 1 {
		t.Errorf("%v", raw)
	}
	testkit.Must(history.Save(ctx, patched, versioning.Change{}))
	got := testkit.One[bson.Raw](t, coll, 1)
	if got.Lookup("name").StringValue() != "Vader" || got.Lookup("contact_method", "0", "home").StringValue() != "503-555-0000" || got.Lookup("revision").AsInt64() != 3 {
		t.Errorf("stored: %v", got)
	}
	if err := json.Unmarshal([]byte(`{"name": 1}`), &patched.Document); err == nil {
		t.Error("a name that is a number was decoded")
	}
}

// A newer document makes a page of Docs an error; a Pager of documents as stored, with Decode for each,
// shows the others.
func TestNewerOnAPage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, coll, c := contacts(t, schemaversion.Options{Text: true})
	_, err := coll.UpdateByID(ctx, 2, bson.M{"$set": bson.M{"schema_version": "9"}})
	testkit.OK(t, err)
	docs := testkit.Must(paging.New[schemaversion.Doc[contact, chain]](coll, bson.D{{Key: "_id", Value: 1}}, nil))
	if _, err := docs.Page(ctx, nil, paging.Request{}); !errors.Is(err, mongopatterns.ErrNewer) {
		t.Error(err)
	}
	stored := testkit.Must(paging.New[bson.Raw](coll, bson.D{{Key: "_id", Value: 1}}, nil))
	shown, newer := 0, 0
	for _, raw := range testkit.Must(stored.Page(ctx, nil, paging.Request{})).Items {
		switch _, err := c.Decode(raw); {
		case errors.Is(err, mongopatterns.ErrNewer):
			newer++
		case err == nil:
			shown++
		}
	}
	if newer != 1 || shown < 3 {
		t.Errorf("%d newer, %d shown", newer, shown)
	}
}

// newest returns the golden documents as a Doc encodes them, with further fields.
func newest(t *testing.T, more func(i int) bson.M) (out []bson.Raw) {
	t.Helper()
	for i, g := range goldens(t) {
		var doc bson.M
		testkit.OK(t, bson.Unmarshal(g.Newest, &doc))
		doc["schema_version"] = "3"
		maps.Copy(doc, more(i))
		out = append(out, testkit.Raw(t, doc))
	}
	return out
}

// In a tree: old documents are adopted and moved unchanged, and copied into another tree with the
// newest version, whole.
func TestComposesWithTree(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, coll, _ := contacts(t, schemaversion.Options{})
	type doc = schemaversion.Doc[bson.M, chain]
	old := testkit.Must(tree.New[int, doc](coll, tree.AncestorArray, &tree.Options{ParentField: "boss", AncestorsField: "bosses"}))
	copied := testkit.Must(tree.New[int, doc](db.Collection("copies"), tree.AncestorArray, &tree.Options{ParentField: "boss", AncestorsField: "bosses"}))
	testkit.OK(t, errors.Join(old.EnsureIndexes(ctx), copied.EnsureIndexes(ctx)))
	_, err := coll.UpdateMany(ctx, bson.M{"_id": bson.M{"$gt": 1}}, bson.M{"$set": bson.M{"boss": 1}})
	testkit.OK(t, err)
	testkit.Must(old.Adopt(ctx, nil))
	testkit.OK(t, old.Move(ctx, 3, old.Under(2)))
	if doc := testkit.One[bson.Raw](t, coll, 2); doc.Lookup("home").Type == 0 || doc.Lookup("contact_method").Type != 0 || doc.Lookup("bosses").Type == 0 {
		t.Errorf("a move has upgraded, or lost: %v", doc)
	}
	for d, err := range old.Descendants(ctx, 1, 0) {
		testkit.OK(t, err)
		if d.V["contact_method"] == nil || d.V["home"] != nil {
			t.Errorf("read: %v", d.V)
		}
	}
	testkit.Must(copied.Load(ctx, func(yield func(tree.Entry[int, doc], error) bool) {
		for entry, err := range old.Dump(ctx) {
			if !yield(entry, err) {
				return
			}
		}
	}, copied.AsRoot(), nil))
	for i, want := range newest(t, func(i int) bson.M {
		return []bson.M{{"bosses": bson.A{}, "boss": nil}, {"bosses": bson.A{1}, "boss": 1}, {"bosses": bson.A{1, 2}, "boss": 2}, {"bosses": bson.A{1}, "boss": 1}}[min(i, 3)]
	}) {
		same(t, want, testkit.One[bson.Raw](t, db.Collection("copies"), i+1))
	}
	for p, err := range copied.Check(ctx, nil) {
		t.Error(p, err)
	}
}

// In a subset: the copies of old items in a parent decode as the newest, and a replaced item is
// whole and single on both sides.
func TestComposesWithSubset(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, coll, _ := contacts(t, schemaversion.Options{})
	type doc = schemaversion.Doc[counted, chain]
	companies := db.Collection("companies")
	items := testkit.Must(subset.New[string, doc](companies, coll, &subset.Options{ParentField: "company", ArrayField: "contacts", N: 4}))
	testkit.OK(t, items.EnsureIndexes(ctx))
	_, err := companies.InsertOne(ctx, bson.M{"_id": "empire"})
	testkit.OK(t, err)
	_, err = coll.UpdateMany(ctx, bson.M{}, bson.M{"$set": bson.M{"company": "empire"}})
	testkit.OK(t, err)
	testkit.Must(items.Adopt(ctx, nil))
	top := testkit.Must(items.Top(ctx, "empire"))
	if len(top) != 4 || len(top[3].V.Methods) != 4 {
		t.Errorf("%+v", top)
	}
	for i := range goldens(t) {
		item := testkit.Must(items.Get(ctx, "empire", i+1))
		whole := bson.D{{Key: "$replaceWith", Value: bson.D{{Key: "$literal", Value: item}}}}
		testkit.OK(t, items.Update(ctx, "empire", i+1, mongo.Pipeline{whole}))
	}
	for i, want := range newest(t, func(int) bson.M { return bson.M{"company": "empire"} }) {
		same(t, want, testkit.One[bson.Raw](t, coll, i+1))
	}
	var empire struct{ Contacts []bson.Raw }
	testkit.OK(t, companies.FindOne(ctx, bson.M{}).Decode(&empire))
	for i, want := range newest(t, func(int) bson.M { return nil })[2:] {
		same(t, want, empire.Contacts[3-i])
	}
	for p, err := range items.Check(ctx, nil) {
		t.Error(p, err)
	}
}

// A Doc of a struct keeps the fields that the struct does not have, and not those that a step has
// moved.
func TestDocKeepsOtherFields(t *testing.T) {
	t.Parallel()
	_, coll, _ := contacts(t, schemaversion.Options{})
	type doc = schemaversion.Doc[counted, chain]
	var d doc
	testkit.OK(t, coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: 4}}).Decode(&d))
	d.V.Name = "Amidala"
	_, err := coll.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: 4}}, d)
	testkit.OK(t, err)
	got := testkit.One[bson.Raw](t, coll, 4)
	if kept, _ := got.Lookup("note", "kept").BooleanOK(); !kept || got.Lookup("name").StringValue() != "Amidala" || got.Lookup("schema_version").StringValue() != "3" {
		t.Errorf("%v", got)
	}
	testkit.OK(t, coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Decode(&d))
	if again := testkit.Raw(t, d); again.Lookup("note").Type != 0 || again.Lookup("home").Type != 0 || len(d.V.Methods) != 2 {
		t.Errorf("%v", again)
	}
}

// The server refuses an update after the document was upgraded: the error does not say that nothing
// is written.
func TestRefusedAfterTheUpgrade(t *testing.T) {
	t.Parallel()
	_, coll, v := contacts(t, schemaversion.Options{})
	testkit.OK(t, errorOf(coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 100}, {Key: "home", Value: "555"}})))
	immutable := bson.D{{Key: "$set", Value: bson.D{{Key: "_id", Value: 2}}}}
	if err := v.Update(t.Context(), 100, immutable); mongopatterns.OutcomeOf(err) != mongopatterns.Unknown {
		t.Errorf("after the upgrade: %v is %v", err, mongopatterns.OutcomeOf(err))
	}
	if err := v.Update(t.Context(), 100, immutable); mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
		t.Errorf("without an upgrade: %v is %v", err, mongopatterns.OutcomeOf(err))
	}
}
