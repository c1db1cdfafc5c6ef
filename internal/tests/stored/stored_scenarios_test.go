package stored_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// storedScenarios returns a scenario for each shape that a package stores.
func storedScenarios() []scenario {
	return slices.Concat(
		[]scenario{
			storedTree("tree-parents", tree.ParentReferences, nil),
			storedTree("tree-children", tree.ChildReferences, nil),
			storedTree("tree-ancestors", tree.AncestorArray, nil),
			storedTree("tree-path", tree.MaterializedPath, nil),
			storedTree("tree-nested", tree.NestedSets, nil),
			storedTree("tree-ordered", tree.AncestorArray,
				&tree.Options{OrderField: "order", ChildCountField: "children"}),
			storedTree("tree-slugs", tree.MaterializedPath,
				&tree.Options{SegmentField: "slug", PathDelimiter: "/"}),
			storedTree("tree-scope", tree.ParentReferences,
				&tree.Options{Scope: testkit.D("owner", "ann"), RootParent: ""}),
			storedHistory("versioning-whole", nil),
			storedHistory("versioning-deltas",
				&versioning.Options{SnapshotEvery: 3, DocumentIDField: "policy", Ignored: []string{"seen"}}),
		},
		storedSeries(), storedLists(), storedReferences(), storedStates(), storedPages(), storedSteps(),
	)
}

// asJSON returns a value as text, to compare it with a literal.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	return string(testkit.Value[[]byte](t)(json.Marshal(v)))
}

// showing fails t unless the JSON of what a call returns is want.
func showing[T any](t *testing.T, want string) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		testkit.OK(t, err)
		testkit.Equal(t, want, asJSON(t, got))
	}
}

// day is that of the measurements and changes; at is a time on it.
var day = time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)

func at(hour, minute int) time.Time { return day.Add(time.Duration(60*hour+minute) * time.Minute) }

type storedNode struct {
	ID   string `bson:"_id"`
	Slug string `bson:"slug"`
}

// outline returns nodes as text, each with those below it in parentheses, sorted unless their order is kept.
func outline(nodes []*tree.Node[storedNode], ordered bool) string {
	var out []string
	for _, n := range nodes {
		text := n.Value.ID
		if len(n.Children) > 0 {
			text += "(" + outline(n.Children, ordered) + ")"
		}
		out = append(out, text)
	}
	if !ordered {
		slices.Sort(out)
	}
	return strings.Join(out, " ")
}

func storedTree(name string, rep tree.Representation, opts *tree.Options) scenario {
	type nodes = *tree.Tree[string, storedNode]
	ordered := rep == tree.ChildReferences || rep == tree.NestedSets || opts != nil && opts.OrderField != ""
	// forest wants one of two outlines: with siblings in their order, or sorted.
	forest := func(t *testing.T, cats nodes, inOrder, sorted string) {
		t.Helper()
		want := sorted
		if ordered {
			want = inOrder
		}
		testkit.Equal(t, want, outline(testkit.Value[[]*tree.Node[storedNode]](t)(cats.Forest(t.Context())), ordered))
	}
	insert := func(t *testing.T, cats nodes, id string, pos tree.Position[string]) {
		t.Helper()
		testkit.OK(t, testkit.ErrorOf(cats.Insert(t.Context(), storedNode{id, strings.ToLower(id)}, pos)))
	}
	return stored(name,
		func(db *mongo.Database) (nodes, error) {
			return tree.New[string, storedNode](db.Collection("categories"), rep, opts)
		},
		func(t *testing.T, _ *mongo.Database, cats nodes) {
			insert(t, cats, "Books", cats.AsRoot())
			insert(t, cats, "Music", cats.AsRoot())
			insert(t, cats, "Programming", cats.Under("Books"))
			insert(t, cats, "Art", cats.Under("Books"))
			insert(t, cats, "Databases", cats.Under("Art"))
			insert(t, cats, "MongoDB", cats.Under("Databases"))
			testkit.OK(t, cats.Move(t.Context(), "Databases", cats.Under("Programming")))
		},
		func(t *testing.T, _ *mongo.Database, cats nodes) {
			ctx := t.Context()
			forest(t, cats,
				"Books(Programming(Databases(MongoDB)) Art) Music", "Books(Art Programming(Databases(MongoDB))) Music")
			way := []string{}
			for _, crumb := range testkit.Value[[]tree.Crumb[string]](t)(cats.Breadcrumb(ctx, "MongoDB")) {
				way = append(way, crumb.ID)
			}
			testkit.Equal(t, []string{"Books", "Programming", "Databases", "MongoDB"}, way)
			testkit.Gives(t, int64(4))(cats.CountDescendants(ctx, "Books", 0))
			testkit.Gives(t, storedNode{"Programming", "programming"})(cats.Parent(ctx, "Databases"))

			insert(t, cats, "Go", cats.Under("Programming"))
			testkit.OK(t, cats.Move(ctx, "Art", cats.Under("Music")))
			testkit.Gives(t, int64(1))(cats.Delete(ctx, "Databases", mongopatterns.Promote))
			if opts != nil && opts.SegmentField != "" {
				testkit.OK(t, cats.Rename(ctx, "Books", "read"))
			}
			forest(t, cats, "Books(Programming(MongoDB Go)) Music(Art)", "Books(Programming(Go MongoDB)) Music(Art)")
		})
}

type storedPolicy struct {
	ID    string   `bson:"_id"`
	Items []string `bson:"items"`
	Text  string   `bson:"text"`
	Note  string   `bson:"note,omitempty"`
	Seen  int      `bson:"seen,omitempty"`
}

// storedText and the items are so long that deltas are smaller than what they restore.
var storedText = strings.Repeat("Shire standard. ", 16)

func storedHistory(name string, opts *versioning.Options) scenario {
	type history = *versioning.History[string, storedPolicy]
	const pipe, flute, cloak, coat, rope, sword = "pipe of pear wood", "flute of cherry wood", "cloak of grey wool",
		"coat of silver rings", "rope of white hemp", "sword of old steel"
	by := func(hour int) versioning.Change {
		return versioning.Change{
			Author: "ann", Reason: "found", At: at(hour, 0), Fields: testkit.D("ticket", int32(hour)),
		}
	}
	// Together their deltas have all that a delta may hold: an array that grows, a value in an array, fields that are
	// set and taken away.
	edits := []func(p *storedPolicy){
		func(p *storedPolicy) { p.Items, p.Note = append(p.Items, sword), "new" },
		func(p *storedPolicy) { p.Note = "" },
		func(p *storedPolicy) { p.Items[0] = flute },
		func(p *storedPolicy) { p.Items[1], p.Note = coat, "late" },
		func(p *storedPolicy) { p.Items, p.Note = p.Items[:3], "" },
	}
	states := []string{
		fmt.Sprintf("6 07h %q", []string{flute, coat, rope}),
		fmt.Sprintf("5 06h %q late", []string{flute, coat, rope, sword}),
		fmt.Sprintf("4 05h %q", []string{flute, cloak, rope, sword}),
		fmt.Sprintf("3 04h %q", []string{pipe, cloak, rope, sword}),
		fmt.Sprintf("2 03h %q new", []string{pipe, cloak, rope, sword}),
		fmt.Sprintf("1 02h %q", []string{pipe, cloak, rope}),
	}
	// is fails t unless these are the revisions of a document, newest first.
	is := func(t *testing.T, h history, id string, want ...string) {
		t.Helper()
		var got []string
		for _, r := range testkit.Collect(t, h.Revisions(t.Context(), id)) {
			text := fmt.Sprintf("%d %s %q %s", r.Number, r.Change.At.Format("15h"), r.Document.Items, r.Document.Note)
			switch {
			case r.Lost:
				text += "lost"
			case r.Deleted:
				text += "deleted"
			default:
				testkit.Equal(t, storedText, r.Document.Text)
			}
			got = append(got, strings.TrimSpace(text))
		}
		testkit.Equal(t, want, got)
	}
	return stored(name,
		func(db *mongo.Database) (history, error) {
			return versioning.New[string, storedPolicy](db.Collection("policies"), db.Collection("revisions"), opts)
		},
		func(t *testing.T, _ *mongo.Database, h history) {
			policy := storedPolicy{ID: "bilbo", Items: []string{pipe, cloak, rope}, Text: storedText, Seen: 7}
			testkit.OK(t, testkit.ErrorOf(h.Insert(t.Context(), policy, by(2))))
			for i, edit := range edits {
				edit := func(p *storedPolicy) error { edit(p); return nil }
				testkit.OK(t, testkit.ErrorOf(h.Edit(t.Context(), "bilbo", edit, by(3+i))))
			}
			testkit.OK(t, testkit.ErrorOf(h.Insert(t.Context(), storedPolicy{ID: "frodo", Text: storedText}, by(2))))
			testkit.OK(t, h.Delete(t.Context(), "frodo", 1, by(3)))
		},
		func(t *testing.T, _ *mongo.Database, h history) {
			ctx := t.Context()
			is(t, h, "bilbo", states...)
			is(t, h, "frodo", "2 03h [] deleted", "1 02h []")
			old := testkit.Value[versioning.Revision[storedPolicy]](t)(h.AsOf(ctx, "bilbo", at(3, 30)))
			testkit.Equal(t, by(3), old.Change)
			now := testkit.Value[versioning.Revision[storedPolicy]](t)(h.Get(ctx, "bilbo"))
			testkit.Equal(t, 7, now.Document.Seen)

			now.Document.Items = now.Document.Items[:1]
			testkit.OK(t, testkit.ErrorOf(h.Save(ctx, now, by(9))))
			testkit.OK(t, testkit.ErrorOf(h.Restore(ctx, "bilbo", 2, by(10))))
			testkit.OK(t, testkit.ErrorOf(h.Restore(ctx, "frodo", 1, by(9))))
			is(t, h, "bilbo", slices.Concat([]string{
				fmt.Sprintf("8 10h %q new", []string{pipe, cloak, rope, sword}),
				fmt.Sprintf("7 09h %q", []string{flute}),
			}, states)...)
			is(t, h, "frodo", "3 09h []", "2 03h [] deleted", "1 02h []")
		})
}

type storedReading struct {
	Timestamp   time.Time `bson:"timestamp"`
	ID          int       `bson:"id"`
	Temperature float64   `bson:"temperature"`
}

// readings returns measurements a quarter of an hour apart, numbered from 1.
func readings(temperatures ...float64) (out []storedReading) {
	for i, temperature := range temperatures {
		out = append(out, storedReading{at(10, 15*i), i + 1, temperature})
	}
	return out
}

// temperatures are those of readings.
func temperatures(all []storedReading) (out []float64) {
	for _, r := range all {
		out = append(out, r.Temperature)
	}
	return out
}

// Package bucket, series and slots.
func storedSeries() []scenario {
	type (
		buckets = *bucket.Buckets[int, storedReading]
		blocks  = *series.Series[int, bson.D]
		data    = *slots.Slots[string, bson.M]
	)
	openBuckets := func(opts *bucket.Options) func(db *mongo.Database) (buckets, error) {
		return func(db *mongo.Database) (buckets, error) {
			return bucket.New[int, storedReading](db.Collection("readings"), timeseries.Every(time.Hour), opts)
		}
	}
	writeBuckets := func(t *testing.T, _ *mongo.Database, b buckets) {
		testkit.Done(t, 5)(b.AppendMany(t.Context(), timeseries.Of(7, readings(21.5, 22, 20.25, 23, 24)...), nil))
	}
	all := func(t *testing.T, b buckets) []storedReading {
		return testkit.Collect(t, b.Range(t.Context(), 7, time.Time{}, time.Time{}))
	}
	useBuckets := func(first, second string) func(t *testing.T, _ *mongo.Database, b buckets) {
		return func(t *testing.T, _ *mongo.Database, b buckets) {
			ctx := t.Context()
			testkit.Equal(t, readings(21.5, 22, 20.25, 23, 24), all(t, b))
			showing[timeseries.Stats](t, first)(b.Aggregate(ctx, 7, at(10, 0), at(11, 0)))
			testkit.OK(t, testkit.ErrorOf(b.Append(ctx, 7, storedReading{at(10, 5), 6, 30})))
			testkit.OK(t, b.Replace(ctx, 7, storedReading{at(10, 0), 1, 20}))
			testkit.OK(t, b.Delete(ctx, 7, at(10, 15)))
			testkit.Equal(t, []float64{20, 30, 20.25, 23, 24}, temperatures(all(t, b)))
			showing[timeseries.Stats](t, second)(b.Aggregate(ctx, 7, at(10, 0), at(11, 0)))
		}
	}
	// Columns of every coding: integers, decimals, other doubles, texts, and values that some rows lack.
	columns := []bson.D{}
	for i := range 12 {
		m := testkit.D("timestamp", bson.NewDateTimeFromTime(at(10, i)),
			"temperature", 21.5+float64(i)/10, "n", int64(1000+i*i), "small", int32(i%3),
			"third", float64(i)/3, "status", []string{"on", "off"}[i/6], "valve", testkit.D("open", i > 3))
		if i%4 == 0 {
			m = append(m, bson.E{Key: "note", Value: fmt.Sprintf("note %d", i)})
		}
		columns = append(columns, m)
	}
	manyColumns := series.Options{
		BatchField: "batches", EndField: "end",
		Values: []timeseries.Value{{Field: "temperature"}, {Field: "n", Sum: "total", Max: "most"}},
	}
	openSeries := func(opts *series.Options) func(db *mongo.Database) (blocks, error) {
		return func(db *mongo.Database) (blocks, error) {
			return series.New[int, bson.D](db.Collection("readings"), timeseries.Days(nil), opts)
		}
	}
	useSeries := func(first, second string) func(t *testing.T, _ *mongo.Database, s blocks) {
		return func(t *testing.T, _ *mongo.Database, s blocks) {
			ctx := t.Context()
			testkit.Equal(t, columns, testkit.Collect(t, s.Range(ctx, 7, day, at(24, 0))))
			showing[timeseries.Stats](t, first)(s.Aggregate(ctx, 7, day, at(10, 6)))
			late := testkit.D("timestamp", bson.NewDateTimeFromTime(at(9, 0)), "temperature", 0.5, "n", int64(1))
			testkit.Done(t, 1)(s.AppendMany(ctx, timeseries.Of(7, late), nil))
			testkit.OK(t, s.Delete(ctx, 7, at(10, 0)))
			testkit.Done(t, 0)(s.Compact(ctx, nil)) // Delete has merged the blocks
			now := slices.Concat([]bson.D{late}, columns[1:])
			testkit.Equal(t, now, testkit.Collect(t, s.Range(ctx, 7, day, at(24, 0))))
			showing[timeseries.Stats](t, second)(s.Aggregate(ctx, 7, day, at(24, 0)))
		}
	}
	useColumns := useSeries(
		`{"count":6,"values":{"n":{"count":6,"sum":6055,"max":1025},`+
			`"temperature":{"count":6,"sum":130.5,"squares":2838.55,"min":21.5,"max":22}}}`,
		`{"count":12,"values":{"n":{"count":12,"sum":11507,"max":1121},`+
			`"temperature":{"count":12,"sum":243.6,"squares":5373.86,"min":0.5,"max":22.6}}}`)
	writeSeries := func(t *testing.T, _ *mongo.Database, s blocks) {
		for _, part := range [][]bson.D{columns[:5], columns[5:8], columns[8:]} {
			testkit.Done(t, int64(len(part)))(s.AppendMany(t.Context(), timeseries.Of(7, part...), nil))
		}
	}
	storedSlots := func(name string, opts *slots.Options) scenario {
		return stored(name,
			func(db *mongo.Database) (data, error) {
				return slots.New[string, bson.M](db.Collection("climate"), timeseries.Days(nil), opts)
			},
			func(t *testing.T, _ *mongo.Database, s data) {
				testkit.OK(t, s.Set(t.Context(), "S1", at(0, 0), bson.M{"temperature": 21.5}))
				testkit.OK(t, s.Set(t.Context(), "S1", at(23, 59), bson.M{"temperature": 22}))
			},
			func(t *testing.T, _ *mongo.Database, s data) {
				ctx := t.Context()
				testkit.Gives(t, bson.M{"temperature": 21.5})(s.Get(ctx, "S1", at(0, 0)))
				testkit.OK(t, s.Set(ctx, "S1", at(12, 0), bson.M{"temperature": 30.5}))
				testkit.OK(t, s.Delete(ctx, "S1", at(0, 0)))
				testkit.Equal(t, []slots.Slot[bson.M]{
					{Time: at(12, 0), Value: bson.M{"temperature": 30.5}},
					{Time: at(23, 59), Value: bson.M{"temperature": int32(22)}},
				}, testkit.Collect(t, s.Range(ctx, "S1", day, at(24, 0))))
			})
	}
	building := func(any, time.Time) bson.D { return testkit.D("building", "A") }
	withIDs := &bucket.Options{IDField: "id", MaxCount: 2}
	return []scenario{
		stored("bucket", openBuckets(nil), writeBuckets,
			useBuckets(`{"count":4,"values":{}}`, `{"count":4,"values":{}}`)),
		stored("bucket-statistics", openBuckets(&bucket.Options{
			SeriesField: "sensor", EndField: "end", ArrayField: "data", CountField: "n", IDField: "id",
			MaxCount: 3, MaxBytes: 1000, Metadata: building,
			Values: []timeseries.Value{{Field: "temperature"}, {Field: "id", Sum: "ids", First: "first", Last: "last"}},
		}), writeBuckets, useBuckets(
			`{"count":4,"values":{"id":{"count":4,"sum":10,"first":{"time":"2024-05-01T10:00:00Z","value":1},`+
				`"last":{"time":"2024-05-01T10:45:00Z","value":4}},`+
				`"temperature":{"count":4,"sum":86.75,"squares":1885.3125,"min":20.25,"max":23}}}`,
			`{"count":4,"values":{"id":{"count":4,"sum":14,"first":{"time":"2024-05-01T10:00:00Z","value":1},`+
				`"last":{"time":"2024-05-01T10:45:00Z","value":4}},`+
				`"temperature":{"count":4,"sum":93.25,"squares":2239.0625,"min":20,"max":30}}}`)),
		byName(stored("bucket-adopted", openBuckets(withIDs),
			func(t *testing.T, db *mongo.Database, b buckets) {
				plain := db.Collection("plain")
				for i := 1; i <= 2; i++ {
					testkit.Insert(t, plain, testkit.D("_id", i, "series", 7, "timestamp", at(10, i), "id", i))
				}
				testkit.Done(t, 2)(b.Adopt(t.Context(), plain, nil, nil))
			},
			func(t *testing.T, db *mongo.Database, b buckets) {
				ctx, plain := t.Context(), db.Collection("plain")
				testkit.Insert(t, plain, testkit.D("_id", 0, "series", 7, "timestamp", at(10, 3), "id", 3))
				// Deleted from the buckets, the measurement comes back if the ledger does not say that it was adopted.
				testkit.OK(t, b.DeleteByID(ctx, 7, at(10, 1), 1))
				result := testkit.Value[mongopatterns.Result](t)(b.Adopt(ctx, plain, nil, nil))
				testkit.Equal(t, mongopatterns.Result{Examined: 3, Done: 1, Skipped: 2}, result)
				testkit.Equal(t, 2, len(all(t, b)))
			})),
		stored("series", openSeries(nil), writeSeries,
			useSeries(`{"count":6,"values":{}}`, `{"count":12,"values":{}}`)),
		stored("series-columns", openSeries(&manyColumns), writeSeries, useColumns),
		stored("series-compacted", openSeries(&manyColumns),
			func(t *testing.T, db *mongo.Database, s blocks) {
				writeSeries(t, db, s)
				testkit.Done(t, 1)(s.Compact(t.Context(), nil))
			}, useColumns),
		storedSlots("slots", nil),
		storedSlots("slots-levels", &slots.Options{
			SeriesField: "sensor", EndField: "end", EndTime: timeseries.LastSecond, DataField: "values",
			Levels: []time.Duration{12 * time.Hour, time.Hour, time.Minute}, Metadata: building,
		}),
	}
}

type storedReview struct {
	ID     int    `bson:"_id"`
	Author string `bson:"author"`
	Rating int    `bson:"rating"`
}

// Packages outlier, subset, split and attribute.
func storedLists() []scenario {
	type (
		lists   = *outlier.Lists[int, string]
		reviews = *subset.Subset[int, storedReview]
		movies  = *split.Split[int, bson.M, bson.M]
		values  = *attribute.Attributes[int, any]
	)
	storedOutliers := func(name string, opts outlier.Options) scenario {
		return stored(name,
			func(db *mongo.Database) (lists, error) {
				return outlier.New[int, string](db.Collection("books"), db.Collection("book_extras"), &opts)
			},
			func(t *testing.T, db *mongo.Database, l lists) {
				books := db.Collection("books")
				testkit.Insert(t, books, testkit.D("_id", 17), testkit.D("_id", 18, "title", "Harbour Lights"))
				testkit.Gives(t, int64(2))(l.Add(t.Context(), 17, "a", "b"))
				for _, user := range strings.Split("abcdefghi", "") {
					testkit.Gives(t, int64(1))(l.Add(t.Context(), 18, user))
				}
			},
			func(t *testing.T, _ *mongo.Database, l lists) {
				ctx := t.Context()
				testkit.Equal(t, "a b", strings.Join(testkit.Collect(t, l.All(ctx, 17)), " "))
				testkit.Equal(t, "a b c d e f g h i", strings.Join(testkit.Collect(t, l.All(ctx, 18)), " "))
				testkit.Gives(t, true)(l.Contains(ctx, 18, "a"))
				added, after := int64(2), "b i b z"
				if opts.Set {
					added, after = 1, "b i z"
				}
				testkit.Gives(t, added)(l.Add(ctx, 18, "b", "z"))
				testkit.Gives(t, 9+added)(l.Total(ctx, 18))
				testkit.Gives(t, true)(l.Remove(ctx, 18, "a"))
				for _, user := range strings.Split("cdefgh", "") { // the rest moves back into the parent
					testkit.Gives(t, true)(l.Remove(ctx, 18, user))
				}
				testkit.Equal(t, after, strings.Join(testkit.Collect(t, l.All(ctx, 18)), " "))
			})
	}
	storedSubset := func(name string, opts subset.Options, first, second string) scenario {
		return stored(name,
			func(db *mongo.Database) (reviews, error) {
				return subset.New[int, storedReview](db.Collection("products"), db.Collection("reviews"), &opts)
			},
			func(t *testing.T, db *mongo.Database, s reviews) {
				testkit.Insert(t, db.Collection("products"), testkit.D("_id", 1, "name", "Bat"), testkit.D("_id", 2))
				for i, rating := range []int{5, 3, 4} {
					testkit.OK(t, testkit.ErrorOf(s.Insert(t.Context(), 1, storedReview{i + 1, "ann", rating})))
				}
			},
			func(t *testing.T, db *mongo.Database, s reviews) {
				ctx := t.Context()
				top := func() (out []int) {
					for _, r := range testkit.Value[[]storedReview](t)(s.Top(ctx, 1)) {
						out = append(out, r.ID)
					}
					return out
				}
				product := func() string {
					doc := testkit.One[bson.M](t, db.Collection("products"), 1)
					maps.DeleteFunc(doc, func(key string, v any) bool { _, array := v.(bson.A); return array })
					return asJSON(t, doc)
				}
				testkit.Equal(t, 3, len(testkit.Collect(t, s.All(ctx, 1))))
				testkit.Equal(t, []int{3, 2}, top())
				testkit.Equal(t, first, product())
				testkit.OK(t, testkit.ErrorOf(s.Insert(ctx, 1, storedReview{4, "bob", 2})))
				testkit.OK(t, s.Update(ctx, 1, 1, testkit.D("$set", testkit.D("rating", 1))))
				testkit.OK(t, s.Delete(ctx, 1, 3))
				testkit.OK(t, testkit.ErrorOf(s.Insert(ctx, 2, storedReview{5, "cy", 5})))
				testkit.Equal(t, []int{4, 2}, top())
				testkit.Equal(t, second, product())
			})
	}
	storedSplit := func(name string, opts split.Options) scenario {
		opts.ColdFields = []string{"plot", "votes"}
		return stored(name,
			func(db *mongo.Database) (movies, error) {
				return split.New[int, bson.M, bson.M](db.Collection("movies"), db.Collection("movie_details"), &opts)
			},
			func(t *testing.T, _ *mongo.Database, s movies) {
				testkit.OK(t, s.Insert(t.Context(), 1, bson.M{"title": "Dumbo"}, bson.M{"plot": "an elephant"}))
			},
			func(t *testing.T, _ *mongo.Database, s movies) {
				year, votes := testkit.D("$set", testkit.D("year", 1941)), testkit.D("$inc", testkit.D("votes", 7))
				testkit.OK(t, s.Update(t.Context(), 1, year, votes))
				hot, cold, err := s.Get(t.Context(), 1)
				testkit.OK(t, err)
				delete(cold, "_id") // with IDField an ObjectID
				delete(cold, "movie")
				testkit.Equal(t, bson.M{"_id": int32(1), "title": "Dumbo", "year": int32(1941)}, hot)
				testkit.Equal(t, bson.M{"plot": "an elephant", "votes": int32(7)}, cold)
				testkit.OK(t, s.Delete(t.Context(), 1))
			})
	}
	storedAttributes := func(name string, opts *attribute.Options, unit ...string) scenario {
		volume, year := attribute.Named("volume").Qualified(unit...), attribute.Named("year")
		return stored(name,
			func(db *mongo.Database) (values, error) {
				return attribute.New[int, any](db.Collection("products"), opts)
			},
			func(t *testing.T, db *mongo.Database, a values) {
				testkit.Insert(t, db.Collection("products"), testkit.D("_id", 1))
				testkit.OK(t, a.Set(t.Context(), 1, volume, "500"))
				testkit.OK(t, a.Set(t.Context(), 1, year, 1977))
			},
			func(t *testing.T, db *mongo.Database, a values) {
				ctx := t.Context()
				testkit.Gives(t, any("500"))(a.Get(ctx, 1, volume))
				testkit.OK(t, a.Set(ctx, 1, year, 1978))
				testkit.OK(t, a.Add(ctx, 1, attribute.Named("colour"), "red"))
				testkit.Gives(t, any(int32(1978)))(a.Get(ctx, 1, year))
				both := a.Filter(a.Equals(volume, "500"), a.Gt(year, 1977))
				testkit.Equal(t, 1, testkit.Count(t, db.Collection("products"), both))
				testkit.OK(t, a.Remove(ctx, 1, volume))
				testkit.Gives(t, []attribute.Attribute[any]{
					{Key: "year", Value: int32(1978)}, {Key: "colour", Value: "red"},
				})(a.GetAll(ctx, 1))
			})
	}
	return []scenario{
		storedOutliers("outlier", outlier.Options{MaxCount: 4}),
		storedOutliers("outlier-set", outlier.Options{
			ArrayField: "users", FlagField: "has_extras", ParentField: "book",
			Set: true, MaxCount: 4, ElementIndex: true,
		}),
		storedSubset("subset", subset.Options{N: 2},
			`{"_id":1,"items_count":3,"name":"Bat"}`, `{"_id":1,"items_count":3,"name":"Bat"}`),
		storedSubset("subset-values", subset.Options{
			ParentField: "product", ArrayField: "best", CountField: "n", N: 2, BestLast: true,
			Fields: []string{"author"},
			Values: []subset.Value{{Field: "rating", Sum: "sum", Mean: "mean", Count: "rated"}},
		},
			`{"_id":1,"mean":4,"n":3,"name":"Bat","rated":3,"sum":12}`,
			`{"_id":1,"mean":2,"n":3,"name":"Bat","rated":3,"sum":6}`),
		storedSplit("split", split.Options{}),
		storedSplit("split-field", split.Options{IDField: "movie"}),
		storedAttributes("attribute", nil),
		storedAttributes("attribute-qualifiers", &attribute.Options{
			ArrayField: "specs", KeyField: "key", ValueField: "value", QualifierField: "unit",
		}, "ml"),
	}
}

type storedCustomer struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	City    string `bson:"city"`
	Version int64  `bson:"version"`
}

// Packages extref and relation.
func storedReferences() []scenario {
	type (
		customers = *extref.Source[int, storedCustomer]
		tasks     = *relation.Relation[string, int, bson.M]
	)
	rename := func(name string) bson.D { return testkit.D("$set", testkit.D("name", name, "city", "Oslo")) }
	storedCopies := func(name string, target extref.Target, outbox bool) scenario {
		copied := func(t *testing.T, db *mongo.Database) string {
			order := testkit.One[bson.D](t, db.Collection("orders"), "A-17")
			return string(testkit.Value[[]byte](t)(bson.MarshalExtJSON(order, false, false)))
		}
		want := func(name string, version int) string {
			if target.Unversioned {
				return fmt.Sprintf(`{"_id":"A-17","customer":[{"id":123,"name":%q,"city":"Rome"}]}`, name)
			}
			copied := fmt.Sprintf(`{"_id":123,"name":%q,"city":"Rome","version":%d}`, name, version)
			return `{"_id":"A-17","customer":` + copied + `}`
		}
		s := stored(name,
			func(db *mongo.Database) (customers, error) {
				target, opts := target, &extref.Options{}
				target.Collection, target.Path = db.Collection("orders"), "customer"
				target.Fields = []extref.Field{{Path: "name"}, {Path: "city", Frozen: true}}
				if outbox {
					opts.Outbox = db.Collection("outbox")
				}
				return extref.New[int, storedCustomer](db.Collection("customers"), []extref.Target{target}, opts)
			},
			func(t *testing.T, db *mongo.Database, c customers) {
				testkit.Insert(t, db.Collection("customers"), testkit.D("_id", 123, "name", "Katrina", "city", "Rome"))
				var copied any = testkit.Value[bson.D](t)(c.Fetch(t.Context(), "orders.customer", 123))
				if target.Array {
					copied = bson.A{copied}
				}
				testkit.Insert(t, db.Collection("orders"), testkit.D("_id", "A-17", "customer", copied))
				testkit.OK(t, testkit.ErrorOf(c.Update(t.Context(), 123, rename("Kate"))))
				if outbox { // also due on a machine whose clock is behind
					testkit.Update(t, db.Collection("outbox"), bson.D{}, testkit.D("$set", testkit.D("due", day)))
				}
			},
			func(t *testing.T, db *mongo.Database, c customers) {
				ctx := t.Context()
				if outbox {
					testkit.Equal(t, want("Katrina", 0), copied(t, db))
					testkit.Done(t, 1)(c.Drain(ctx, nil))
				}
				testkit.Equal(t, want("Kate", 1), copied(t, db))
				testkit.OK(t, testkit.ErrorOf(c.Update(ctx, 123, rename("Kitty"))))
				if outbox {
					testkit.Done(t, 1)(c.Drain(ctx, nil))
				}
				testkit.Equal(t, want("Kitty", 2), copied(t, db))
				testkit.Is(t, testkit.ErrorOf(c.Delete(ctx, 123)), mongopatterns.ErrReferenced)
			})
		s.waiting = outbox
		return s
	}
	storedRelation := func(name string, opts func(db *mongo.Database) *relation.Options, owners string) scenario {
		return stored(name,
			func(db *mongo.Database) (tasks, error) {
				return relation.New[string, int, bson.M](db.Collection("people"), db.Collection("tasks"), opts(db))
			},
			func(t *testing.T, db *mongo.Database, r tasks) {
				testkit.Insert(t, db.Collection("people"), testkit.D("_id", "Ann"), testkit.D("_id", "Bob"))
				testkit.Insert(t, db.Collection("tasks"), testkit.D("_id", 2))
				testkit.Gives(t, 1)(r.Insert(t.Context(), "Ann", bson.M{"_id": 1}))
				testkit.OK(t, r.Link(t.Context(), "Ann", 2))
			},
			func(t *testing.T, _ *mongo.Database, r tasks) {
				ctx := t.Context()
				children := func(parent string) (out []any) {
					joined := testkit.Value[relation.Joined[int, bson.M]](t)(r.Children(ctx, parent, nil))
					for _, item := range joined.Items {
						out = append(out, item["_id"])
					}
					slices.SortFunc(out, func(a, b any) int { return cmp.Compare(a.(int32), b.(int32)) })
					return out
				}
				testkit.Equal(t, []any{int32(1), int32(2)}, children("Ann"))
				testkit.OK(t, r.Unlink(ctx, "Ann", 2))
				testkit.OK(t, r.Link(ctx, "Bob", 2))
				testkit.OK(t, testkit.ErrorOf(r.Insert(ctx, "Bob", bson.M{"_id": 3})))
				if owners == "many" {
					testkit.OK(t, r.Link(ctx, "Ann", 3))
					testkit.Gives(t, true)(r.Has(ctx, "Ann", 3))
					testkit.OK(t, r.Unlink(ctx, "Ann", 3))
				}
				testkit.Equal(t, []any{int32(2), int32(3)}, children("Bob"))
				testkit.Gives(t, []string{"Ann"})(r.Parents(ctx, 1))
				testkit.OK(t, testkit.ErrorOf(r.DeleteParent(ctx, "Bob", mongopatterns.Cascade)))
				testkit.OK(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Unlink)))
			})
	}
	sides := func(opts relation.Options) func(*mongo.Database) *relation.Options {
		return func(*mongo.Database) *relation.Options { return &opts }
	}
	links := func(db *mongo.Database) *relation.Options { return &relation.Options{Links: db.Collection("links")} }
	return []scenario{
		storedCopies("extref", extref.Target{}, false),
		storedCopies("extref-array", extref.Target{Array: true, IDField: "id", Unversioned: true}, false),
		storedCopies("extref-outbox", extref.Target{}, true),
		storedRelation("relation-children", sides(relation.Options{ChildrenField: "tasks"}), "many"),
		storedRelation("relation-owner", sides(relation.Options{OwnerField: "owner"}), "one"),
		storedRelation("relation-both", sides(relation.Options{ChildrenField: "tasks", OwnerField: "owner"}), "one"),
		storedRelation("relation-many", sides(relation.Options{ChildrenField: "tasks", OwnersField: "owners"}), "many"),
		storedRelation("relation-links", links, "many"),
	}
}
