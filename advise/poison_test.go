package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A database that is hard to read makes no error and no advice, and the healthy
// collection among the others is still advised.
func TestPoisoned(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	store(t, db, three(t, 200)[:1])
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fill := func(name string, doc func(i int) bson.D) {
		t.Helper()
		var docs []any
		for i := range 150 {
			docs = append(docs, doc(i))
		}
		insert(t, db.Collection(name), docs)
	}
	long := make(bson.A, 5000)
	for i := range long {
		long[i] = "an element"
	}
	must(db.CreateView(ctx, "view", "books", mongo.Pipeline{}))
	must(db.CreateCollection(ctx, "measurements", options.CreateCollection().SetTimeSeriesOptions(options.TimeSeries().SetTimeField("at"))))
	must(db.CreateCollection(ctx, "capped", options.CreateCollection().SetCapped(true).SetSizeInBytes(8<<20)))
	fill("capped", func(i int) bson.D { return bson.D{{Key: "list", Value: some(long, i)}} })
	fill("a.b.c", func(i int) bson.D { return bson.D{{Key: "x", Value: i}} })
	fill("names", func(i int) bson.D {
		return bson.D{{Key: "with.dot", Value: some(long, i)}, {Key: "$dollar", Value: some(long, i)}, {Key: "", Value: i}, {Key: "fine", Value: i}}
	})
	fill("huge", func(i int) bson.D {
		if i == 7 {
			return bson.D{{Key: "_id", Value: i}, {Key: "blob", Value: make([]byte, 16<<20-60)}}
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "blob", Value: []byte{1}}}
	})
	fill("hugeList", func(i int) bson.D {
		if i != 7 {
			return bson.D{{Key: "list", Value: bson.A{1}}}
		}
		list := make(bson.A, 1_000_000) // 16 MB
		for j := range list {
			list[j] = int32(j)
		}
		return bson.D{{Key: "list", Value: list}}
	})
	fill("deep", func(int) bson.D {
		doc := bson.D{{Key: "x", Value: 1}}
		for range 90 {
			doc = bson.D{{Key: "x", Value: doc}}
		}
		return doc
	})
	fill("keys", func(i int) bson.D {
		var doc bson.D
		for j := range []int{700, 7, 7, 7, 7, 7, 7, 7, 7, 7}[i%10] {
			doc = append(doc, bson.E{Key: fmt.Sprintf("k%d_%d", i, j), Value: j})
		}
		return doc
	})
	fill("mixed", func(i int) bson.D {
		values := []any{i, fmt.Sprint(i), bson.NewObjectID(), float64(i) + 0.5, bson.D{{Key: "a", Value: i}}}
		return bson.D{{Key: "_id", Value: values[i%5]}, {Key: "v", Value: values[(i+1)%5]}, {Key: "n", Value: nil}}
	})
	fill("notAlwaysAList", func(i int) bson.D {
		return bson.D{{Key: "list", Value: []any{i, nil, "x", bson.A{}, bson.D{{Key: "100", Value: 1}}}[i%5]}}
	})

	report := look(t, db, unhurried(nil))
	for _, f := range report.Findings {
		switch f.Name() {
		case "outlier:books." + f.Path, "outlier:hugeList.list": // one list of 16 MB is an outlier
		default:
			t.Errorf("advised %s", f.Name())
		}
	}
	if len(report.Findings) != 2 {
		t.Errorf("%d findings: %v, %v", len(report.Findings), report.NotAdvised, report.Unknown)
	}
	for name, want := range map[string]string{
		"view": "is a view", "measurements": "is a timeseries", "capped": "is capped", "names": "fields whose names",
	} {
		if notes := strings.Join(about(report, name), "; "); !strings.Contains(notes, want) {
			t.Errorf("%s: %q, want %q", name, notes, want)
		}
	}
	for _, n := range report.Unknown {
		if n.Collection != "names" && n.Pattern == "" {
			t.Errorf("%v", n)
		}
	}
}

// Through a router, of collections that are on two shards and one that is not, the same is
// advised and counted as of plain ones.
func TestShardedCollections(t *testing.T) {
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	ctx := t.Context()
	plain, db := mongotest.Database(t), cluster.Database(t)
	all := append(three(t, 200), changing(t, 300)[:2]...)
	want := look(t, plain, unhurried(store(t, plain, all)))
	queries := store(t, db, all)
	for _, c := range all[:4] {
		if err := cluster.Shard(ctx, db.Collection(c.name), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 100}}); err != nil {
			t.Fatal(err)
		}
	}
	report := look(t, db, unhurried(queries))
	if !slices.Equal(named(report), named(want)) || len(report.Findings) != 5 {
		t.Fatalf("advised %v, of plain collections %v; %v, %v", named(report), named(want), report.NotAdvised, report.Unknown)
	}
	for _, f := range report.Findings {
		i := slices.IndexFunc(want.Findings, func(g advise.Finding) bool { return g.Name() == f.Name() })
		if i < 0 || want.Findings[i].Saving != f.Saving || want.Findings[i].Check.Answer != f.Check.Answer {
			t.Errorf("%s saves %v, %d; plain collections are advised %v", f.Name(), f.Saving, f.Check.Answer, want.Findings)
		}
	}
}

// A database of many collections costs two commands each at most, whatever is in them;
// the largest are looked at first, so that a spent budget leaves out the smallest.
func TestManyCollections(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	collections := scale.Of(80, 300, 5_000)
	for i := range collections {
		if i%3 > 0 {
			if err := db.CreateCollection(ctx, fmt.Sprint("empty", i)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		insert(t, db.Collection(fmt.Sprint("small", i)), []any{bson.D{{Key: "x", Value: i}}})
	}
	store(t, db, three(t, 200)[:1])
	report := look(t, db, unhurried(nil))
	if most := 2*collections + 10; report.Commands > most || len(report.Findings) != 1 {
		t.Errorf("%d commands, at most %d; advised %v", report.Commands, most, named(report))
	}
	if notes := len(report.NotAdvised) + len(report.Unknown); notes > 10 {
		t.Errorf("%d notes on collections that hold nothing", notes)
	}
	t.Logf("%d collections: %d commands in %v", collections, report.Commands, report.Took)
	bounded, err := advise.Look(ctx, db, &advise.Options{MaxCommands: 50, MaxTime: time.Minute})
	if err != nil || bounded.Commands != 50 || len(bounded.Unknown) == 0 || len(bounded.Unknown) > 10 {
		t.Errorf("with a budget: %v, %d commands, %d unknown", err, bounded.Commands, len(bounded.Unknown))
	}
}

// some gives one document in a hundred the long list.
func some(long bson.A, i int) bson.A {
	if i%100 == 3 {
		return long
	}
	return long[:i%4]
}

// The role read on the database is enough, and a user who may read one collection gets its findings and sees no other. What
// more rights would add is told.
func TestRights(t *testing.T) {
	t.Parallel()
	server := testkit.Authenticate(t)
	root := server.Root.Database("shop")
	queries := store(t, root, three(t, 200))
	whole := look(t, root, unhurried(queries))

	server.User(t, "reader", "read", "shop")
	reader := server.As(t, "reader")
	report := look(t, reader.Database("shop"), unhurried(queries))
	if len(report.Findings) != 3 {
		t.Errorf("%d findings: %v, %v", len(report.Findings), report.NotAdvised, report.Unknown)
	}
	for _, s := range report.Sources {
		if s.Name == "system.profile" && !strings.Contains(s.Note, "as dbAdmin of this database has") {
			t.Errorf("%+v", s)
		}
	}
	if report, err := advise.Look(t.Context(), reader.Database("other"), nil); err == nil {
		t.Errorf("a database that the user may not read: %+v", report)
	}

	name := whole.Findings[0].Collection
	rights := []string{"find", "collStats", "listIndexes"}
	as := func(user string, actions ...string) (*advise.Report, error) {
		testkit.OK(t, root.RunCommand(t.Context(), testkit.D("createRole", user, "roles", bson.A{}, "privileges", bson.A{
			testkit.D("resource", testkit.D("db", "shop", "collection", name), "actions", actions)})).Err())
		server.User(t, user, user, "shop")
		return advise.Look(t.Context(), server.As(t, user).Database("shop"), unhurried(queries))
	}
	report, err := as("all", rights...)
	if err != nil || len(report.Findings) != 1 || report.Findings[0].Name() != whole.Findings[0].Name() || len(report.Unknown) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	for i, right := range []string{"find", "collStats"} { // listIndexes is for the patterns that are about indexes
		report, err := as("without_"+right, slices.Delete(slices.Clone(rights), i, i+1)...)
		told := err == nil && slices.ContainsFunc(report.Unknown, func(n advise.Note) bool { return strings.Contains(n.Tells, right) })
		if !told {
			t.Errorf("without %s: %+v, %v", right, report, err)
		}
	}
}

// A report has names of fields, and numbers, but no text of a document or of a query.
func TestReportsHoldNoTexts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	queries := store(t, db, triable(t, 7, 120))
	report := look(t, db, unhurried(queries))
	if len(report.Findings) == 0 {
		t.Fatal("no findings")
	}
	var text, lines strings.Builder
	testkit.OK(t, report.Text(&text))
	testkit.OK(t, report.JSON(&lines))
	texts := map[string]bool{}
	var walk func(v bson.RawValue)
	walk = func(v bson.RawValue) {
		if s, ok := v.StringValueOK(); ok && len(s) > 7 {
			texts[s] = true
		}
		if v.Type == bson.TypeArray || v.Type == bson.TypeEmbeddedDocument {
			elements, _ := bson.Raw(v.Value).Elements()
			for _, e := range elements {
				walk(e.Value())
			}
		}
	}
	for _, name := range testkit.Must(db.ListCollectionNames(t.Context(), bson.D{})) {
		for _, doc := range testkit.Stored[bson.Raw](t, db.Collection(name)) {
			walk(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc})
		}
	}
	for s := range texts {
		if strings.Contains(text.String(), s) || strings.Contains(lines.String(), s) {
			t.Errorf("it has the text %q", s)
		}
	}
	if len(texts) < 100 {
		t.Errorf("the documents have only %d texts", len(texts))
	}
}
