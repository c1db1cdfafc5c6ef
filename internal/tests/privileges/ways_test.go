package privileges

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// ways are the rows of calls that need more rights on a way that the rows of the registry do not go: where they are refused
// and read why, where a document is full, or where they find what other code has written. checkRights of testkit finds
// such ways.
func ways() []registry.Row {
	return slices.Concat(attributeWays, bucketWays, seriesWays, extrefWays, outlierWays, preallocWays, relationWays, subsetWays,
		versioningWays, indexWays())
}

type call = func(ctx context.Context) error

// way is a row of a call that returns want, nil for no error.
func way(name string, want error, start func(s *registry.Scene) call) registry.Row {
	return registry.Row{Name: name, Start: func(s *registry.Scene) registry.Call {
		do := start(s)
		return registry.Call{One: func(ctx context.Context) error {
			err := do(ctx)
			if errors.Is(err, want) {
				return nil
			}
			return err
		}}
	}}
}

// upkeep is a row of a call with a Result.
func upkeep(name string, start func(s *registry.Scene) func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)) registry.Row {
	return registry.Row{Name: name, Start: func(s *registry.Scene) registry.Call {
		do := start(s)
		return registry.Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, nil) }}
	}}
}

// number is a type of a program's own, so EnsureIndexes compares how the client encodes it.
type number int

// indexWays are EnsureIndexes of helpers with such a type, of a Pager with text in its Scope, and of an Archive without
// collections.
func indexWays() (out []registry.Row) {
	type indexer interface{ EnsureIndexes(context.Context) error }
	for name, start := range map[string]func(s *registry.Scene) indexer{
		"approx.Counters": func(s *registry.Scene) indexer { return testkit.Must(approx.New[number](s.Coll("pages"), nil)) },
		"approx.Distinct": func(s *registry.Scene) indexer {
			return testkit.Must(approx.NewDistinct[number, number](s.Coll("days"), nil))
		},
		"approx.Sampled": func(s *registry.Scene) indexer { return testkit.Must(approx.NewSampled[number](s.Coll("pages"), nil)) },
		"archive.Archive": func(s *registry.Scene) indexer {
			return testkit.Must(archive.New(s.Coll("invoices"), s.Coll("invoices_old"), &archive.Options{TimeField: "paid",
				Companions: []archive.Companion{{Live: s.Coll("payments"), Archived: s.Coll("payments_old"), Field: "invoice"}}}))
		},
		"computed.Computed": func(s *registry.Scene) indexer {
			return testkit.Must(computed.New[number, number, bson.D](s.Coll("screenings"), s.Coll("films"), computed.Rule{KeyField: "film",
				Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "n", testkit.D("$sum", 1)))}, Empty: testkit.D("n", 0)}, nil))
		},
		"extref.Source": func(s *registry.Scene) indexer {
			return testkit.Must(extref.New[number, bson.D](s.Coll("customers"), []extref.Target{
				{Collection: s.Coll("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, &extref.Options{Outbox: s.Coll("outbox")}))
		},
		"outlier.Lists": func(s *registry.Scene) indexer {
			return testkit.Must(outlier.New[number, int](s.Coll("books"), s.Coll("books_overflow"), nil))
		},
		"paging.Pager": func(s *registry.Scene) indexer {
			return testkit.Must(paging.New[struct{ ID number }](s.Coll("articles"), testkit.D("at", -1), &paging.Options{Scope: testkit.D("tenant", "a")}))
		},
		"prealloc.Grids": func(s *registry.Scene) indexer {
			return testkit.Must(prealloc.New[number, string](s.Coll("screenings"), nil))
		},
		"relation.Relation": func(s *registry.Scene) indexer {
			return testkit.Must(relation.New[number, int, bson.D](s.Coll("people"), s.Coll("tasks"), &relation.Options{Links: s.Coll("links")}))
		},
		"schemaversion.Collection": func(s *registry.Scene) indexer {
			same := func(d bson.D) (bson.D, error) { return d, nil }
			return testkit.Must(schemaversion.New[struct{ ID number }](s.Coll("contacts"), []schemaversion.Step{{Up: same}}, nil))
		},
		"slots.Slots": func(s *registry.Scene) indexer {
			return testkit.Must(slots.New[number, int](s.Coll("slots"), timeseries.Every(time.Hour), nil))
		},
		"split.Split": func(s *registry.Scene) indexer {
			return testkit.Must(split.New[number, bson.D, bson.D](s.Coll("movies"), s.Coll("movie_details"), &split.Options{
				IDField: "movie_id", ColdFields: []string{"plot"}}))
		},
		"subset.Subset": func(s *registry.Scene) indexer {
			return testkit.Must(subset.New[number, bson.D](s.Coll("products"), s.Coll("reviews"), nil))
		},
		"tree.Tree": func(s *registry.Scene) indexer {
			return testkit.Must(tree.New[number, bson.D](s.Coll("nodes"), tree.AncestorArray, nil))
		},
	} {
		out = append(out, way(name+".EnsureIndexes/own type", nil, func(s *registry.Scene) call { return start(s).EnsureIndexes }))
	}
	return out
}

// rarer are rights of ways that no row goes, as after a conflict with another writer. The tests of the packages go them.
var rarer = map[string]testkit.Rights{
	"archive.Archive.Repair":         {"invoices": {"update"}, "payments": {"insert"}, "payments_old": {"remove"}},
	"archive.Archive.Restore":        {"invoices": {"find", "update"}},
	"extref.Source.Drain":            {"customers": {"find", "update"}},
	"extref.Source.Repair":           {"customers": {"find", "update"}},
	"extref.Source.Update":           {"orders": {"find", "update"}},
	"outlier.Lists.Add":              {"books_overflow": {"update"}},
	"outlier.Lists.AddMany":          {"books_overflow": {"update"}},
	"outlier.Lists.Adopt":            {"books_overflow": {"update"}},
	"outlier.Lists.Repair":           {"books_overflow": {"update"}},
	"relation.Relation.DeleteChild":  {"links": {"find"}, "people": {"find"}},
	"relation.Relation.DeleteParent": {"tasks": {"find"}},
	"relation.Relation.Extract":      {"tasks": {"find"}},
	"relation.Relation.Link":         {"people": {"find"}},
	"relation.Relation.Transfer":     {"people": {"find"}},
	"split.Split.Adopt":              {"movie_details": {"update"}},
	"subset.Subset.Adopt":            {"reviews": {"update"}},
	"subset.Subset.Insert":           {"reviews": {"find"}},
	"subset.Subset.InsertMany":       {"reviews": {"update"}},
	"versioning.History.AsOf":        {"revisions": {"find"}},
	"versioning.History.At":          {"policies": {"find"}},
	"versioning.History.Delete":      {"revisions": {"find"}},
	"versioning.History.Edit":        {"revisions": {"find"}},
	"versioning.History.Insert":      {"revisions": {"insert"}},
	"versioning.History.Restore":     {"policies": {"insert"}},
	"versioning.History.Save":        {"revisions": {"find"}},
	"versioning.History.SaveMany":    {"revisions": {"find"}},
}

func films(s *registry.Scene) *attribute.Attributes[int, int] {
	return testkit.Must(attribute.New[int, int](s.Coll("films"), nil))
}

var attributeWays = []registry.Row{
	way("attribute.Attributes.Set/missing", mongopatterns.ErrNotFound, func(s *registry.Scene) call {
		return func(ctx context.Context) error { return films(s).Set(ctx, 1, attribute.Named("UK"), 1) }
	}),
	way("attribute.Attributes.SetAll/missing", mongopatterns.ErrNotFound, func(s *registry.Scene) call {
		return func(ctx context.Context) error { return films(s).SetAll(ctx, 1, attribute.Attribute[int]{Key: "UK"}) }
	}),
	way("attribute.Attributes.Add/exists", mongopatterns.ErrExists, func(s *registry.Scene) call {
		s.Insert("films", testkit.D("_id", 1))
		s.OK(films(s).Add(s.Context(), 1, attribute.Named("UK"), 1))
		return func(ctx context.Context) error { return films(s).Add(ctx, 1, attribute.Named("UK"), 2) }
	}),
	way("attribute.Attributes.Replace/missing", mongopatterns.ErrNotFound, func(s *registry.Scene) call {
		return func(ctx context.Context) error { return films(s).Replace(ctx, 1, attribute.Named("UK"), 1) }
	}),
	way("attribute.Attributes.Remove/missing", mongopatterns.ErrNotFound, func(s *registry.Scene) call {
		return func(ctx context.Context) error { return films(s).Remove(ctx, 1, attribute.Named("UK")) }
	}),
}

type reading struct {
	Time time.Time `bson:"timestamp"`
}

func readings(n int) (out []reading) {
	for i := range n {
		out = append(out, reading{time.UnixMilli(int64(i))})
	}
	return out
}

// full are buckets whose window has a full bucket that another process has filled.
func full(s *registry.Scene) *bucket.Buckets[int, reading] {
	make := func() *bucket.Buckets[int, reading] {
		return testkit.Must(bucket.New[int, reading](s.Coll("buckets"), timeseries.Every(time.Hour), &bucket.Options{MaxCount: 1}))
	}
	s.OK(testkit.ErrorOf(make().AppendMany(s.Context(), timeseries.Of(1, readings(2)...), nil)))
	return make()
}

var bucketWays = []registry.Row{
	way("bucket.Buckets.Append/full", nil, func(s *registry.Scene) call {
		b := full(s)
		return func(ctx context.Context) error { return testkit.ErrorOf(b.Append(ctx, 1, readings(1)[0])) }
	}),
	way("bucket.Buckets.AppendMany/full", nil, func(s *registry.Scene) call {
		b := full(s)
		return func(ctx context.Context) error {
			return testkit.ErrorOf(b.AppendMany(ctx, timeseries.Of(1, readings(2)...), nil))
		}
	}),
}

// filled is a series whose window has a full document that another process has filled.
func filled(s *registry.Scene) *series.Series[int, reading] {
	make := func() *series.Series[int, reading] {
		return testkit.Must(series.New[int, reading](s.Coll("events"), timeseries.Every(time.Hour), &series.Options{MaxCount: 1}))
	}
	s.OK(testkit.ErrorOf(make().AppendMany(s.Context(), timeseries.Of(1, readings(3)...), nil)))
	return make()
}

func gatherer(s *registry.Scene, opts *series.GathererOptions) *series.Gatherer[int, reading] {
	g := testkit.Must(series.NewGatherer(filled(s), opts))
	s.OK(g.Append(s.Context(), 1, readings(1)[0]))
	return g
}

var seriesWays = []registry.Row{
	way("series.Series.AppendMany/full", nil, func(s *registry.Scene) call {
		of := filled(s)
		return func(ctx context.Context) error {
			return testkit.ErrorOf(of.AppendMany(ctx, timeseries.Of(1, readings(2)...), nil))
		}
	}),
	way("series.Gatherer.Append/full", nil, func(s *registry.Scene) call {
		g := gatherer(s, &series.GathererOptions{MaxCount: 1})
		return func(ctx context.Context) error { return g.Append(ctx, 1, readings(1)[0]) }
	}),
	way("series.Gatherer.Flush/full", nil, func(s *registry.Scene) call {
		g := gatherer(s, nil)
		return func(ctx context.Context) error { return testkit.ErrorOf(g.Flush(ctx)) }
	}),
	way("series.Gatherer.Close/full", nil, func(s *registry.Scene) call { return gatherer(s, nil).Close }),
}

func customers(s *registry.Scene, opts *extref.Options) *extref.Source[int, bson.D] {
	s.Insert("customers", testkit.D("_id", 1, "name", "Ann"))
	s.Insert("orders", testkit.D("_id", 1, "customer", testkit.D("_id", 1, "name", "Ann", "version", 0)))
	return testkit.Must(extref.New[int, bson.D](s.Coll("customers"), []extref.Target{
		{Collection: s.Coll("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, opts))
}

var extrefWays = []registry.Row{
	way("extref.Source.Delete/restricted", mongopatterns.ErrReferenced, func(s *registry.Scene) call {
		r := customers(s, nil)
		return func(ctx context.Context) error { return testkit.ErrorOf(r.Delete(ctx, 1)) }
	}),
	way("extref.Source.Watch/first token", context.Canceled, func(s *registry.Scene) call {
		r := customers(s, &extref.Options{Deferred: true})
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			var failed error
			err := r.Watch(ctx, s.Coll("tokens"), &extref.WatchOptions{
				Reconciled: func(mongopatterns.Result) {
					if failed = testkit.ErrorOf(r.Update(ctx, 1, testkit.D("$set", testkit.D("name", "Anna")))); failed != nil {
						cancel()
					}
				},
				Progress: func(mongopatterns.Result) { cancel() },
			})
			return cmp.Or(failed, err)
		}
	}),
}

func lists(s *registry.Scene) *outlier.Lists[int, int] {
	return testkit.Must(outlier.New[int, int](s.Coll("books"), s.Coll("books_overflow"), &outlier.Options{MaxCount: 4}))
}

// long is a list with overflow documents.
func long(s *registry.Scene) *outlier.Lists[int, int] {
	s.Insert("books", testkit.D("_id", 1))
	s.OK(testkit.ErrorOf(lists(s).Add(s.Context(), 1, 1, 2, 3, 4, 5, 6)))
	return lists(s)
}

// writtenBack is a list whose parent other code has written back, whole, from before it was split.
func writtenBack(s *registry.Scene) *outlier.Lists[int, int] {
	l := long(s)
	s.OK(testkit.ErrorOf(s.Coll("books").ReplaceOne(s.Context(), testkit.D("_id", 1), testkit.D("items", bson.A{1, 2, 3, 4, 5, 6}))))
	return l
}

var outlierWays = []registry.Row{
	way("outlier.Lists.Add/written back", nil, func(s *registry.Scene) call {
		l := writtenBack(s)
		return func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, 7)) }
	}),
	way("outlier.Lists.Remove/folds back", nil, func(s *registry.Scene) call {
		l := long(s)
		return func(ctx context.Context) error {
			for n := range 6 {
				if _, err := l.Remove(ctx, 1, n+1); err != nil {
					return err
				}
			}
			return nil
		}
	}),
	upkeep("outlier.Lists.Adopt/written back", func(s *registry.Scene) func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error) {
		return writtenBack(s).Adopt
	}),
	upkeep("outlier.Lists.Repair/over bounds", func(s *registry.Scene) func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error) {
		s.Insert("books", testkit.D("_id", 1, "items", bson.A{1, 2, 3, 4, 5, 6}))
		return lists(s).Repair
	}),
	upkeep("outlier.Lists.Repair/orphans", func(s *registry.Scene) func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error) {
		s.Insert("books_overflow", testkit.D("parent", 1, "n", 0, "items", bson.A{1}))
		return lists(s).Repair
	}),
}

// seats is a grid with a seat that is claimed.
func seats(s *registry.Scene) *prealloc.Grids[int, string] {
	g := testkit.Must(prealloc.New[int, string](s.Coll("screenings"), nil))
	s.OK(g.Insert(s.Context(), 1, nil, prealloc.Row("A", 2)...))
	s.OK(g.Claim(s.Context(), 1, "Ann", seat))
	return g
}

var seat = prealloc.Cell{Section: "A", Name: "1"}

var preallocWays = []registry.Row{
	way("prealloc.Grids.Claim/taken", prealloc.ErrTaken, func(s *registry.Scene) call {
		g := seats(s)
		return func(ctx context.Context) error { return g.Claim(ctx, 1, "Bob", seat) }
	}),
	way("prealloc.Grids.Hold/taken", prealloc.ErrTaken, func(s *registry.Scene) call {
		g := seats(s)
		return func(ctx context.Context) error { return g.Hold(ctx, 1, "Bob", time.Hour, seat) }
	}),
	way("prealloc.Grids.Release/taken", prealloc.ErrTaken, func(s *registry.Scene) call {
		g := seats(s)
		return func(ctx context.Context) error { return g.Release(ctx, 1, "Bob", seat) }
	}),
}

func tasks(s *registry.Scene, opts relation.Options) *relation.Relation[int, int, bson.D] {
	return testkit.Must(relation.New[int, int, bson.D](s.Coll("people"), s.Coll("tasks"), &opts))
}

var relationWays = []registry.Row{
	way("relation.Relation.Insert/no parent", mongopatterns.ErrNoParent, func(s *registry.Scene) call {
		r := tasks(s, relation.Options{ChildrenField: "tasks"})
		return func(ctx context.Context) error { return testkit.ErrorOf(r.Insert(ctx, 1, testkit.D("_id", 1))) }
	}),
	way("relation.Relation.Link/no child", relation.ErrNoChild, func(s *registry.Scene) call {
		r := tasks(s, relation.Options{OwnerField: "owner"})
		return func(ctx context.Context) error { return r.Link(ctx, 1, 1) }
	}),
	upkeep("relation.Relation.Repair/dangling link", func(s *registry.Scene) func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error) {
		s.Insert("links", testkit.D("parent", 1, "child", 1))
		return tasks(s, relation.Options{Links: s.Coll("links")}).Repair
	}),
}

// unadopted is a product whose review other code has stored in its array, besides one that is in the collection too.
func unadopted(s *registry.Scene) *subset.Subset[int, bson.D] {
	s.Insert("reviews", testkit.D("_id", 1, "parent", 1))
	s.Insert("products", testkit.D("_id", 1, "items", bson.A{testkit.D("_id", 2), testkit.D("_id", 1)}))
	return testkit.Must(subset.New[int, bson.D](s.Coll("products"), s.Coll("reviews"), nil))
}

var subsetWays = []registry.Row{
	way("subset.Subset.Update/adopts", nil, func(s *registry.Scene) call {
		of := unadopted(s)
		return func(ctx context.Context) error { return of.Update(ctx, 1, 1, testkit.D("$set", testkit.D("stars", 5))) }
	}),
	way("subset.Subset.Delete/adopts", nil, func(s *registry.Scene) call {
		of := unadopted(s)
		return func(ctx context.Context) error { return of.Delete(ctx, 1, 1) }
	}),
}

var versioningWays = []registry.Row{
	upkeep("versioning.History.Repair/number taken", func(s *registry.Scene) func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error) {
		h := testkit.Must(versioning.New[int, bson.D](s.Coll("policies"), s.Coll("revisions"), nil))
		saved := testkit.Must(h.Insert(s.Context(), testkit.D("_id", 1, "n", 1), versioning.Change{}))
		saved.Document = testkit.D("_id", 1, "n", 2)
		s.OK(testkit.ErrorOf(h.Save(s.Context(), saved, versioning.Change{})))
		s.OK(testkit.ErrorOf(s.Coll("policies").UpdateByID(s.Context(), 1, testkit.D("$set", testkit.D("revision", int64(1))))))
		return h.Repair
	}),
}
