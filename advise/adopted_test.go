package advise_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
)

// What this library manages already is said to be so, and neither it nor the queries of it
// are advised.
func TestAdopted(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	nodes := generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, "tree: subtrees are read"), 120, "folders")
	queries := store(t, db, []labelled{nodes})
	parent := nodes.docs[0].(bson.D)[4].Key
	has := func(report *advise.Report, pattern string) bool {
		return slices.ContainsFunc(report.Shapes, func(s advise.Shape) bool { return slices.Contains(s.Patterns, pattern) }) ||
			slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Pattern == pattern })
	}
	if report := look(t, db, unhurried(queries)); !has(report, "tree") {
		t.Fatalf("before: advised %v", named(report))
	}
	// The names of the fields are the package's defaults.
	if _, err := db.Collection("folders").UpdateMany(ctx, bson.D{}, bson.D{{Key: "$rename", Value: bson.D{{Key: parent, Value: "parent"}}}}); err != nil {
		t.Fatal(err)
	}
	for i := range queries {
		queries[i].Command = rename(t, queries[i].Command, map[string]string{parent: "parent"})
	}
	folders, err := tree.New[int32, bson.M](db.Collection("folders"), tree.AncestorArray, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := folders.Adopt(ctx, nil); err != nil || result.Failed > 0 {
		t.Fatalf("%+v, %v", result, err)
	}

	sensors, err := bucket.New[int32, bson.M](db.Collection("sensors"), timeseries.Days(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	measurements := func(yield func(int32, bson.M) bool) {
		for i := range 100 * 20 {
			if !yield(int32(i%100), bson.M{"timestamp": begin.Add(time.Duration(i) * time.Second), "text": strings.Repeat("x", 120)}) {
				return
			}
		}
	}
	cmds := mongotest.Record(t, db, func() {
		if result, err := sensors.AppendMany(ctx, measurements, nil); err != nil || result.Failed > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
	})
	newest, err := bson.Marshal(bson.D{{Key: "find", Value: "sensors"}, {Key: "projection", Value: bson.D{{Key: "measurements", Value: bson.D{{Key: "$slice", Value: -5}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	queries = append(queries, advise.Commands(cmds)...)
	queries = append(queries, advise.Query{Collection: "sensors", Command: newest, Calls: 200})

	report := look(t, db, unhurried(queries))
	if len(report.Findings) > 0 || len(report.Shapes) > 0 {
		t.Errorf("advised %v, %v", named(report), report.Shapes)
	}
	for collection, want := range map[string]string{
		"folders": "tree: is in pattern tree already: documents have ancestors, parent",
		"sensors": "subset: is in pattern bucket already: documents have _id.series, _id.start, measurements, series, start",
	} {
		if notes := strings.Join(about(report, collection), "; "); !strings.Contains(notes, want) {
			t.Errorf("%s: %q, want %q", collection, notes, want)
		}
	}
}

// A collection that this library manages under names of the user's own is known by its shape, and
// nothing is advised that the pattern excludes. Without the one thing that tells it, it is.
func TestAdoptedByShape(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	events := func(yield func(int32, bson.M) bool) {
		for i := range 100 * 20 {
			if !yield(int32(i%100), bson.M{"at": begin.Add(time.Duration(i) * time.Second), "text": strings.Repeat("x", 120)}) {
				return
			}
		}
	}
	slice := func(list string) bson.D {
		return bson.D{{Key: "find", Value: "things"}, {Key: "projection", Value: bson.D{{Key: list, Value: bson.D{{Key: "$slice", Value: -5}}}}}}
	}
	climb := func(parent string) bson.D {
		return bson.D{{Key: "aggregate", Value: "things"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$graphLookup", Value: bson.D{
			{Key: "from", Value: "things"}, {Key: "startWith", Value: "$_id"}, {Key: "connectFromField", Value: "_id"}, {Key: "connectToField", Value: parent}, {Key: "as", Value: "below"}}}}}}}
	}
	hours := bson.D{{Key: "find", Value: "things"}, {Key: "filter", Value: bson.D{{Key: "device", Value: 7},
		{Key: "day", Value: bson.D{{Key: "$gte", Value: begin}, {Key: "$lt", Value: begin.Add(time.Hour)}}}}}}
	folders := func(representation tree.Representation, opts *tree.Options) func(*mongo.Database) error {
		return func(db *mongo.Database) error {
			var docs []any
			for i, doc := range generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, "tree: subtrees are read"), 120, "things").docs {
				docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "title", Value: "Ärger"}, {Key: "up", Value: doc.(bson.D)[4].Value}})
			}
			if _, err := db.Collection("things").InsertMany(ctx, docs); err != nil {
				return err
			}
			opts.ParentField = "up"
			nodes, err := tree.New[int32, bson.M](db.Collection("things"), representation, opts)
			if err != nil {
				return err
			}
			_, err = nodes.Adopt(ctx, nil)
			return err
		}
	}
	for _, test := range []struct {
		name    string
		store   func(db *mongo.Database) error
		read    bson.D
		pattern string
		want    string
		without bson.A // of the pipeline of an update
	}{
		{"bucket", func(db *mongo.Database) error {
			buckets, err := bucket.New[int32, bson.M](db.Collection("things"), timeseries.Days(nil), &bucket.Options{
				SeriesField: "device", StartField: "day", ArrayField: "events", CountField: "size", TimeField: "at"})
			if err != nil {
				return err
			}
			_, err = buckets.AppendMany(ctx, events, nil)
			return err
		}, slice("events"), "subset", "is in pattern bucket already: documents have _id.day, _id.device, day, device, events",
			bson.A{bson.D{{Key: "$unset", Value: "day"}}}},
		{"series", func(db *mongo.Database) error {
			packed, err := series.New[int32, bson.D](db.Collection("things"), timeseries.Every(time.Hour), &series.Options{
				SeriesField: "device", StartField: "day", BlocksField: "packs", CountField: "c", BytesField: "b", MarkField: "m", RevisionField: "r", TimeField: "at"})
			if err != nil {
				return err
			}
			for i := range 100 {
				if err := packed.Append(ctx, 7, bson.D{{Key: "at", Value: begin.Add(time.Duration(i) * time.Hour)}, {Key: "v", Value: i}}); err != nil {
					return err
				}
			}
			return nil
		}, hours, "bucket", "is in pattern series already: documents have _id.day, _id.device, day, device, packs",
			bson.A{bson.D{{Key: "$unset", Value: "packs"}}}},
		{"slots", func(db *mongo.Database) error {
			set, err := slots.New[int32, bson.D](db.Collection("things"), timeseries.Every(time.Hour), &slots.Options{
				SeriesField: "device", StartField: "day", DataField: "minutes", Levels: []time.Duration{time.Minute}})
			if err != nil {
				return err
			}
			for i := range 100 {
				if err := set.Set(ctx, 7, begin.Add(time.Duration(i)*time.Hour), bson.D{{Key: "v", Value: i}}); err != nil {
					return err
				}
			}
			return nil
		}, hours, "bucket", "is in pattern slots already: documents have _id.day, _id.device, day, device, minutes",
			bson.A{bson.D{{Key: "$unset", Value: "minutes"}}}},
		{"the overflow of outlier", func(db *mongo.Database) error {
			lists, err := outlier.New[int32, bson.M](db.Collection("parents"), db.Collection("things"), &outlier.Options{
				ArrayField: "bought", FlagField: "more", OutsideField: "elsewhere", ParentField: "product", NumberField: "part", MaxCount: 60, OverflowMaxCount: 60})
			if err != nil {
				return err
			}
			var parents []any
			for i := range 100 {
				var list bson.A
				for range 130 {
					list = append(list, bson.D{{Key: "text", Value: strings.Repeat("x", 60)}})
				}
				parents = append(parents, bson.D{{Key: "_id", Value: i}, {Key: "bought", Value: list}})
			}
			if _, err := db.Collection("parents").InsertMany(ctx, parents); err != nil {
				return err
			}
			_, err = lists.Adopt(ctx, nil)
			return err
		}, slice("bought"), "subset", "is in pattern outlier already: documents have _id, bought, part, product",
			bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "mine", Value: 1}}}}}},
		{"tree, by a list of ancestors", folders(tree.AncestorArray, &tree.Options{AncestorsField: "above"}), climb("up"),
			"tree", "is in pattern tree already: documents have up, above", bson.A{bson.D{{Key: "$unset", Value: "above"}}}},
		{"tree, by a path", folders(tree.MaterializedPath, &tree.Options{PathField: "way", PathDelimiter: "/"}), climb("up"),
			"tree", "is in pattern tree already: documents have up, way", bson.A{bson.D{{Key: "$unset", Value: "way"}}}},
	} {
		db := mongotest.Database(t)
		if err := test.store(db); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		raw, err := bson.Marshal(test.read)
		if err != nil {
			t.Fatal(err)
		}
		opts := unhurried([]advise.Query{{Collection: "things", Command: raw, Calls: 50}})
		has := func(report *advise.Report) bool {
			return slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Pattern == test.pattern && f.Collection == "things" }) ||
				slices.ContainsFunc(report.Shapes, func(s advise.Shape) bool { return slices.Contains(s.Patterns, test.pattern) })
		}
		report := look(t, db, opts)
		if notes := strings.Join(about(report, "things"), "; "); has(report) || !strings.Contains(notes, test.want) {
			t.Errorf("%s: advised %v, %v; %q, want %q", test.name, named(report), report.Shapes, notes, test.want)
		}
		if _, err := db.Collection("things").UpdateMany(ctx, bson.D{}, test.without); err != nil {
			t.Fatal(err)
		}
		if report := look(t, db, opts); !has(report) {
			t.Errorf("%s: without %v: advised %v; %v", test.name, test.without, named(report), about(report, "things"))
		}
	}
}

// Targets that hold totals under any names take another total too: a second state would write over the first.
func TestAdoptedTargets(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	c := generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, "computed: totals of a product"), 200, "votes")
	opts := unhurried(store(t, db, []labelled{c}))
	key := c.docs[0].(bson.D)[4].Key
	totals, err := computed.New[int32, bson.ObjectID, bson.M](db.Collection("votes"), db.Collection("votes_source"), computed.Rule{
		KeyField: key,
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$" + key}, {Key: "sum", Value: bson.D{{Key: "$sum", Value: "$stars"}}}}}}},
		Empty: bson.D{{Key: "sum", Value: 0}},
	}, &computed.Options{StateField: "state"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := totals.Adopt(ctx, nil); err != nil {
		t.Fatal(err)
	}
	report := look(t, db, opts)
	if notes := strings.Join(about(report, "votes"), "; "); len(report.Findings) > 0 || !strings.Contains(notes, "are targets of this pattern already, with state") {
		t.Errorf("advised %v; %s", named(report), notes)
	}
	if _, err := db.Collection("votes_source").UpdateMany(ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "state", Value: ""}}}}); err != nil {
		t.Fatal(err)
	}
	if report := look(t, db, opts); !slices.Equal(named(report), []string{"computed:votes"}) {
		t.Errorf("without state: advised %v; %v", named(report), about(report, "votes"))
	}
}

// What the library itself sends is not said to get slower: here it takes the next best
// review, by skip, and puts it into a list that it had shortened.
func TestOwnQueries(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	insert(t, db.Collection("products"), []any{bson.D{{Key: "_id", Value: 1}, {Key: "reviews", Value: bson.A{}}}})
	reviews, err := subset.New[int, bson.M](db.Collection("products"), db.Collection("reviews"), &subset.Options{
		ArrayField: "reviews", ParentField: "product", N: 3, Sort: bson.D{{Key: "rating", Value: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	cmds := mongotest.Record(t, db, func() {
		for i := range 6 {
			if _, err := reviews.Insert(ctx, 1, bson.M{"_id": i, "product": 1, "rating": i}); err != nil {
				t.Fatal(err)
			}
		}
		if err := reviews.Delete(ctx, 1, 5); err != nil {
			t.Fatal(err)
		}
	})
	if !slices.Contains(cmds.Names(), "find") {
		t.Errorf("the next best was not asked for: %v", cmds.Names())
	}
	for _, s := range advise.Shapes(advise.Commands(cmds)) {
		t.Error(s)
	}
}
