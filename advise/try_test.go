package advise_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// triable has a collection for each kind of finding that a copy can show.
func triable(t *testing.T, seed uint64, n int) []labelled {
	t.Helper()
	var all []labelled
	for i, c := range []struct{ name, kind string }{
		{"books", "outlier: few very long lists"},
		{"baskets", "outlier: few long lists of documents"},
		{"products", "subset: the best by a field"},
		{"posts", "subset: pages show the newest"},
		{"films", "split: lists leave texts out"},
		{"threads", "relation: embedded children that are read alone"},
		{"goods", "attribute: many indexed fields that most lack"},
		{"tools", "attribute: many indexed fields of a subdocument"},
		{"sensors", "series: measurements read by range"},
		{"visits", "bucket: events read by range"},
		{"logins", "bucket: events with numbers inside"},
		{"votes", "computed: totals of a product"},
		{"folders", "tree: subtrees are read"},
		{"branches", "tree: the way up is read"},
		{"orders", "extref: names of sources that change now and then"},
	} {
		n := n
		switch pattern, _, _ := strings.Cut(c.kind, ":"); pattern {
		case "series", "bucket":
			n = max(n, 320) // of up to three series, a hundred of each
		case "computed":
			n = max(n, 200) // of five products or more
		}
		all = append(all, generate(rand.New(rand.NewPCG(seed, uint64(i))), kindOf(t, c.kind), n, c.name))
	}
	return all
}

// What is promised is measured, within a factor of two, for each pattern that can be tried;
// of the others the reason is said. The scratch database is empty again, the other unchanged.
func TestHonesty(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	scratch := scratchOf(t, db) // its user is an admin: validate tells the size of indexes
	ctx := t.Context()
	r := rand.New(rand.NewPCG(3, 3))
	all := append(triable(t, 2, 120), generate(r, kindOf(t, "paging: deep pages by a field"), 1_200, "articles"))
	others := []labelled{
		generate(r, kindOf(t, "relation: children one by one, by a list"), 200, "students"),
		generate(r, kindOf(t, "approx: views of one page"), 150, "pages"),
	}
	report := look(t, db, unhurried(store(t, db, append(all, others...))))
	tried, sizes := map[string]int{}, map[string]int64{}
	for _, c := range append(others, all...) {
		sizes[c.name] = int64(len(c.docs))
	}
	for _, f := range report.Findings {
		of := sizes[f.Collection]
		part := of - 20
		if f.Collection == "articles" {
			part = of // the pages are deep
		}
		trial, err := advise.Try(ctx, db, scratch, report, f, &advise.TryOptions{Documents: part})
		if slices.Contains([]string{"students", "pages"}, f.Collection) {
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "cannot be tried: it") && !strings.Contains(err.Error(), "cannot be tried: how") {
				t.Errorf("%s: %v", f.Name(), err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", f.Name(), err)
			continue
		}
		tried[f.Collection]++
		p := trial.Finding.Saving
		t.Logf("%s: promised %d to %d of %d %s, measured %d; the largest document %d, before %d", f.Name(), p.Low, p.High, p.Before, p.Unit, trial.Saved, trial.ReadAfter, trial.ReadBefore)
		for i, g := range trial.Finding.Grows {
			t.Logf("%s: grows by %d to %d of %d %s %s, measured %d", f.Name(), g.Low, g.High, g.Before, g.Unit, g.What, trial.Grown[i])
			if 2*trial.Grown[i] < g.Low || trial.Grown[i] > 2*g.High {
				t.Errorf("%s: grows by %+v, measured %d", f.Name(), g, trial.Grown[i])
			}
		}
		if grows := slices.Contains([]string{"tree", "extref", "attribute"}, f.Pattern); grows != (len(trial.Grown) > 0) || slices.Contains([]string{"tree", "extref", "paging"}, f.Pattern) && len(trial.Replays) != 1 {
			t.Errorf("%s: grows by %v, %d replays", f.Name(), trial.Grown, len(trial.Replays))
		}
		if !trial.Kept() || p.Unit != "" && (trial.Saved <= 0 || 2*trial.Saved < p.Low || trial.Saved > 2*p.High) {
			t.Errorf("%s: promised %+v, measured %d", f.Name(), p, trial.Saved)
		}
		if trial.Documents != part || trial.Of != of {
			t.Errorf("%s: %d of %d documents", f.Name(), trial.Documents, trial.Of)
		}
		if slices.Contains([]string{"outlier", "subset", "split"}, f.Pattern) && 2*trial.ReadAfter > trial.ReadBefore {
			t.Errorf("%s: the largest document has %d bytes, before %d", f.Name(), trial.ReadAfter, trial.ReadBefore)
		}
		var text, object strings.Builder
		if err := errors.Join(trial.Text(&text), trial.JSON(&object)); err != nil || !strings.Contains(text.String(), "measured") || !strings.Contains(object.String(), `"saved"`) {
			t.Errorf("%v, %s%s", err, &text, &object)
		}
		if names, err := scratch.ListCollectionNames(ctx, bson.D{}); err != nil || len(names) > 0 {
			t.Fatalf("%v in the scratch database, %v", names, err)
		}
	}
	for _, c := range all {
		if tried[c.name] != 1 {
			t.Errorf("%s: %d trials of %s; %v", c.name, tried[c.name], c.kind, about(report, c.name))
		}
		if n, err := db.Collection(c.name).CountDocuments(ctx, bson.D{}); err != nil || int(n) != len(c.docs) {
			t.Errorf("%s has %d documents, %v", c.name, n, err)
		}
	}
}

// Reads that were seen are sent to the copy before and after, then as the service would send them.
// Those that do not say how, and those without values, are counted.
func TestReplays(t *testing.T) {
	t.Parallel()
	last := func(c labelled, doc int) bson.E { d := c.docs[doc].(bson.D); return d[len(d)-1] }
	whole := func(labelled) bson.D { return bson.D{{Key: "_id", Value: 5}} }
	minutes := func(c labelled) bson.D {
		begin := c.docs[0].(bson.D)[2].Value.(time.Time)
		return bson.D{{Key: "sensor", Value: 0}, {Key: "time", Value: bson.D{{Key: "$gte", Value: begin}, {Key: "$lt", Value: begin.Add(100 * time.Minute)}}}}
	}
	series := func(labelled) []bson.D {
		return []bson.D{{{Key: "sensor", Value: bson.D{{Key: "$lt", Value: 7}}}, {Key: "time", Value: time.Unix(7, 0)}}}
	}
	alike := func(before, after int64) bool { return 9*before < 10*after && after < 2*before } // an element has more fields
	some := func(before, after int64) bool { return before > 0 && after > 0 }                  // a block or bucket is sent as a whole
	for _, test := range []struct {
		kind     string
		filter   func(c labelled) bson.D
		query    string
		now      string   // how it begins
		examined [2]int64 // by the reads that were generated, too
		bytes    func(before, after int64) bool
		untold   func(c labelled) []bson.D
	}{
		{"outlier: few long lists of documents", func(c labelled) bson.D {
			longest := slices.MaxFunc(c.docs, func(a, b any) int {
				return cmp.Compare(len(a.(bson.D)[4].Value.(bson.RawValue).Value), len(b.(bson.D)[4].Value.(bson.RawValue).Value))
			})
			return longest.(bson.D)[:1]
		}, "find things {_id: ?}", "find things {_id: ?}, then find things_overflow {parent: ?} sort {n: 1}", [2]int64{1, 0}, alike, nil},
		{"subset: pages show the newest", whole, "find things {_id: ?}", "find things {_id: ?}, then find things_LIST {", [2]int64{1, 0}, alike, nil},
		{"split: lists leave texts out", whole, "find things {_id: ?}", "aggregate things | $match {_id: ?} | ", [2]int64{1, 2},
			func(before, after int64) bool { return after == before }, nil},
		{"relation: embedded children that are read alone", func(c labelled) bson.D {
			return bson.D{{Key: last(c, 7).Key + "._id", Value: last(c, 7).Value.(bson.A)[1].(bson.D)[0].Value}}
		}, "find things {LIST._id: ?}", "find things_LIST {_id: ?}", [2]int64{400, 1},
			func(before, after int64) bool { return 80 < after && after < before },
			func(c labelled) []bson.D { return []bson.D{{{Key: last(c, 7).Key + ".text", Value: "x"}}} }},
		{"attribute: many indexed fields that most lack", func(c labelled) bson.D { return bson.D{last(c, 9)} },
			"find things {LAST: ?}", "find things {$and: [{attributes: {$elemMatch: ", [2]int64{1, 1},
			func(before, after int64) bool { return before < after && after < 4*before },
			func(c labelled) []bson.D {
				name := last(c, 9).Key
				return []bson.D{{{Key: name, Value: bson.D{{Key: "$gt", Value: 7}}}}, {{Key: name, Value: bson.Regex{Pattern: "7"}}, {Key: "year", Value: 1999}}}
			}},
		{"series: measurements read by range", minutes, "find things {sensor: ?, time: {$gte: ?, $lt: ?}}", "find things_series {", [2]int64{400, 1}, some, series},
		{"bucket: events read by range", minutes, "find things {sensor: ?, time: {$gte: ?, $lt: ?}}", "find things_buckets {", [2]int64{400, 1}, some, series},
		{"computed: totals of a product", nil, "aggregate things | $match {LAST: ?} | $group {_id: $LAST, votes: {$sum: ?}, mean: {$avg: $stars}}",
			"find things_source {_id: ?}", [2]int64{1000, 5}, some, func(labelled) []bson.D { return []bson.D{{{Key: "_id", Value: 5}}} }},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			pattern, _, _ := strings.Cut(test.kind, ":")
			n := 200
			if test.examined[0] == 1 { // however many there are
				n = 120
			}
			c := generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, test.kind), n, "things")
			db := mongotest.Database(t)
			scratch := scratchOf(t, db)
			queries := store(t, db, []labelled{c})
			find := func(filter bson.D) {
				raw, err := bson.Marshal(bson.D{{Key: "find", Value: "things"}, {Key: "filter", Value: filter}, {Key: "lsid", Value: 7}})
				if err != nil {
					t.Fatal(err)
				}
				queries = append(queries, advise.Query{Collection: "things", Command: raw, Calls: 2})
			}
			untold := int64(0)
			if test.filter != nil {
				find(test.filter(c))
			}
			if test.untold != nil {
				for _, filter := range test.untold(c) {
					find(filter)
					untold += 2
				}
			}
			queries = append(queries, stats(t, "things", 3)) // without values
			untold += 3
			for _, command := range c.commands { // which want the children with their parent
				if _, err := command.Body.LookupErr("filter", "year"); err == nil && pattern == "relation" {
					untold++
				}
			}
			report := look(t, db, unhurried(queries))
			i := slices.IndexFunc(report.Findings, func(f advise.Finding) bool { return f.Pattern == pattern })
			if i < 0 {
				t.Errorf("advised %v, %v", named(report), about(report, "things"))
				return
			}
			trial, err := advise.Try(t.Context(), db, scratch, report, report.Findings[i], nil)
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			var text strings.Builder
			if err := trial.Text(&text); err != nil {
				t.Fatal(err)
			}
			for _, r := range trial.Replays {
				if r.LostIn > 0 {
					t.Errorf("%s loses %s", r.Query, r.Lost)
				}
			}
			name := last(c, 9).Key
			if pattern == "computed" {
				name = c.docs[0].(bson.D)[4].Key
			}
			names := strings.NewReplacer("LIST", name, "LAST", name)
			i = slices.IndexFunc(trial.Replays, func(r advise.Replay) bool { return r.Query == names.Replace(test.query) })
			if i < 0 {
				t.Errorf("replayed %+v", trial.Replays)
				return
			}
			r, now := trial.Replays[i], names.Replace(test.now)
			if !strings.HasPrefix(r.Now, now) || now == "" && r.Now != "" || !test.bytes(r.BytesBefore, r.BytesAfter) || trial.NotReplayed != untold {
				t.Errorf("now %q, want %q; %d not replayed, want %d\n%s", r.Now, now, trial.NotReplayed, untold, &text)
			}
			examined := [2]int64{r.DocumentsBefore, r.DocumentsAfter}
			if test.examined[1] == 0 { // as many as hold the list
				examined[1] = 0
			}
			if examined != test.examined {
				t.Errorf("examined %v, want %v", examined, test.examined)
			}
			if !strings.Contains(text.String(), r.Query+"\n") || !strings.Contains(text.String(), "reads not replayed") {
				t.Errorf("the text does not say so: %s", &text)
			}
		})
	}
}

// Where only some reads of a shape say what a service sends then, the others are still compared: a lost null is found
// beside a read for null.
func TestReplayOfSomeValues(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c := generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, "attribute: many indexed fields that most lack"), 120, "things")
	doc := c.docs[9].(bson.D)
	var lacking string
	for _, f := range c.docs[8].(bson.D) {
		if !slices.ContainsFunc(doc, func(own bson.E) bool { return own.Key == f.Key }) {
			lacking = f.Key
		}
	}
	c.docs[9] = append(doc, bson.E{Key: lacking, Value: nil})
	queries, last := store(t, db, []labelled{c}), doc[len(doc)-1]
	for value, calls := range map[any]int64{last.Value: 2, nil: 3} {
		for range 2 { // the same read twice
			queries = append(queries, query(t, calls, find("things", last.Key, value)))
		}
	}
	report := said(t, db, queries, "attribute:things", "things", "")
	if len(report.Findings) == 0 {
		return
	}
	trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, report.Findings[0], nil)
	testkit.OK(t, err)
	if len(trial.Replays) != 1 || trial.NotReplayed != 6 {
		t.Fatal(printedTrial(t, trial))
	}
	if r := trial.Replays[0]; r.Seen != 10 || r.Replayed != 1 || r.Lost != lacking || r.LostIn != 1 {
		t.Errorf("%s loses %q in %d answers", r.Query, r.Lost, r.LostIn)
	}
}

// stats is a find as $queryStats shows it, without values.
func stats(t *testing.T, collection string, calls int64) advise.Query {
	t.Helper()
	raw, err := bson.Marshal(bson.D{{Key: "calls", Value: calls}, {Key: "shape", Value: bson.D{{Key: "cmdNs", Value: bson.D{{Key: "coll", Value: collection}}},
		{Key: "command", Value: "find"}, {Key: "filter", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$eq", Value: "?number"}}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	q, ok := advise.ShapeQuery(raw)
	if !ok {
		t.Fatal("no shape")
	}
	return q
}

// Where the pattern cannot have its indexes, a trial adopts nothing.
func TestTryWithoutIndexes(t *testing.T) {
	t.Parallel()
	db, scratch := mongotest.Database(t), mongotest.Database(t)
	c := generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, "computed: totals of a product"), 200, "things")
	report := look(t, db, unhurried(store(t, db, []labelled{c})))
	if len(report.Findings) != 1 || report.Findings[0].Pattern != "computed" {
		t.Fatalf("advised %v, %v", named(report), about(report, "things"))
	}
	key := bson.D{{Key: c.docs[0].(bson.D)[4].Key, Value: 1}}
	_, err := db.Collection("things").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: key, Options: options.Index().SetSparse(true)})
	testkit.OK(t, err)
	commands := mongotest.Record(t, scratch, func() {
		if _, err := advise.Try(t.Context(), db, scratch, report, report.Findings[0], nil); !errors.Is(err, mongopatterns.ErrIndexConflict) {
			t.Errorf("%v", err)
		}
	})
	if slices.Contains(commands.Names(), "update") {
		t.Errorf("sent %v", commands.Names())
	}
}

// A trial is refused where it would harm or say nothing.
func TestTryRefused(t *testing.T) {
	t.Parallel()
	db, scratch := mongotest.Database(t), mongotest.Database(t)
	ctx := t.Context()
	report := look(t, db, unhurried(store(t, db, three(t, 300)[:1])))
	f := report.Findings[0]
	if _, err := advise.Try(ctx, db, db, report, f, nil); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "has collections") {
		t.Errorf("the same database: %v", err)
	}
	if _, err := advise.Try(ctx, db, scratch, report, f, &advise.TryOptions{Documents: 10}); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "copy more") {
		t.Errorf("ten documents: %v", err)
	}
	if _, err := advise.Try(ctx, db, scratch, report, f, &advise.TryOptions{Bytes: -1}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("negative: %v", err)
	}
	if _, err := advise.Try(ctx, db, scratch, report, advise.Finding{Pattern: "outlier", Collection: "books"}, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("a finding of nowhere: %v", err)
	}
}
