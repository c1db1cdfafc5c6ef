package sweep

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
)

// checked is a Check as a call.
func checked(c mongopatterns.Checker) func(ctx context.Context) error {
	return func(ctx context.Context) error { return testkit.Drain(c.Check(ctx, nil)) }
}

// reads makes rows of calls that write nothing. start returns what they read, and do are their names
// and what they do.
func reads[H mongopatterns.Sharder](on, kind string, start func(s *scene) H, do map[string]func(ctx context.Context, h H) error) (out []row) {
	for name, read := range do {
		out = append(out, row{on + "." + name + kind, func(s *scene) call {
			h := start(s)
			return call{shards: sharders(h), masks: marks, one: func(ctx context.Context) error { return read(ctx, h) }}
		}})
	}
	return out
}

// readRows are the calls that write nothing, for the table of docs/compatibility.md.
func readRows() (out []row) {
	type ctx = context.Context
	from, to := nine, nine.Add(24*time.Hour)
	add := func(rows []row) { out = append(out, rows...) }
	add(reads("approx.Counters", "", func(s *scene) *approx.Counters[string] { return views(s, 1) }, map[string]func(ctx, *approx.Counters[string]) error{
		"Get": func(ctx ctx, c *approx.Counters[string]) error { return void(c.Get(ctx, "/a")) },
	}))
	add(reads("approx.Distinct", "", func(s *scene) *approx.Distinct[string, string] { return visitors(s, 1) }, map[string]func(ctx, *approx.Distinct[string, string]) error{
		"Estimate": func(ctx ctx, d *approx.Distinct[string, string]) error { return void(d.Estimate(ctx, "Monday")) },
		"Union":    func(ctx ctx, d *approx.Distinct[string, string]) error { return void(d.Union(ctx, bson.D{})) },
	}))
	add(reads("approx.Sampled", "", func(s *scene) *approx.Sampled[string] {
		s.insert("pages", doc("_id", "/a", "count", 100))
		return testkit.Must(approx.NewSampled[string](s.coll("pages"), &approx.Options{Every: 7}))
	}, map[string]func(ctx, *approx.Sampled[string]) error{
		"Estimate": func(ctx ctx, c *approx.Sampled[string]) error { return void(c.Estimate(ctx, "/a")) },
	}))
	us := attribute.Named("US")
	add(reads("attribute.Attributes", "", func(s *scene) *attributes { return releases(s, nil) }, map[string]func(ctx, *attributes) error{
		"Get":    func(ctx ctx, a *attributes) error { return void(a.Get(ctx, 1, us)) },
		"GetAll": func(ctx ctx, a *attributes) error { return void(a.GetAll(ctx, 1)) },
		"GetBy":  func(ctx ctx, a *attributes) error { return void(a.GetBy(ctx, doc("attributes.v", 1977), us)) },
		"Facets": func(ctx ctx, a *attributes) error { return void(a.Facets(ctx, bson.D{}, nil)) },
		"Values": func(ctx ctx, a *attributes) error { return testkit.Drain(a.Values(ctx, bson.D{}, us)) },
		"Check":  func(ctx ctx, a *attributes) error { return checked(a)(ctx) },
	}))
	add(reads("bucket.Buckets", "", func(s *scene) *sensors { return hour(s, 7, true) }, map[string]func(ctx, *sensors) error{
		"Range":            func(ctx ctx, b *sensors) error { return testkit.Drain(b.Range(ctx, "A", from, to)) },
		"Latest":           func(ctx ctx, b *sensors) error { return void(b.Latest(ctx, "A")) },
		"Bucket":           func(ctx ctx, b *sensors) error { return void(b.Bucket(ctx, "A", nine, 0)) },
		"CountBuckets":     func(ctx ctx, b *sensors) error { return void(b.CountBuckets(ctx, "A", nine)) },
		"Aggregate":        func(ctx ctx, b *sensors) error { return void(b.Aggregate(ctx, "A", from, to)) },
		"AggregateWindows": func(ctx ctx, b *sensors) error { return testkit.Drain(b.AggregateWindows(ctx, "A", from, to)) },
		"Check":            func(ctx ctx, b *sensors) error { return checked(b)(ctx) },
	}))
	out = append(out,
		row{"bucket.Buckets.Compare", func(s *scene) call {
			measurements(s)
			b := newSensors(s, "buckets", false)
			s.ok(void(b.Adopt(s.Context(), s.coll("plain"), nil, nil)))
			return call{shards: sharders(b, keyed{s.coll("plain"), doc("_id", 1)}), one: func(ctx context.Context) error {
				return testkit.Drain(b.Compare(ctx, s.coll("plain"), nil, nil))
			}}
		}},
		row{"series.Series.Compare", func(s *scene) call {
			measurements(s)
			e := newEvents(s, "events", false)
			s.ok(void(e.Adopt(s.Context(), s.coll("plain"), nil, nil)))
			return call{shards: sharders(e, keyed{s.coll("plain"), doc("_id", 1)}), masks: marks, one: func(ctx context.Context) error {
				return testkit.Drain(e.Compare(ctx, s.coll("plain"), nil, nil))
			}}
		}})
	add(reads("slots.Slots", "", day, map[string]func(ctx, *minutes) error{
		"Get":    func(ctx ctx, b *minutes) error { return void(b.Get(ctx, "A", at(1))) },
		"Range":  func(ctx ctx, b *minutes) error { return testkit.Drain(b.Range(ctx, "A", from, to)) },
		"Latest": func(ctx ctx, b *minutes) error { return void(b.Latest(ctx, "A")) },
		"Check":  func(ctx ctx, b *minutes) error { return checked(b)(ctx) },
	}))
	add(reads("series.Series", "", func(s *scene) *events { return recorded(s, 7, true) }, map[string]func(ctx, *events) error{
		"Range":     func(ctx ctx, e *events) error { return testkit.Drain(e.Range(ctx, "A", from, to)) },
		"Latest":    func(ctx ctx, e *events) error { return void(e.Latest(ctx, "A")) },
		"Aggregate": func(ctx ctx, e *events) error { return void(e.Aggregate(ctx, "A", from, to)) },
		"AggregateBy": func(ctx ctx, e *events) error {
			return testkit.Drain(e.AggregateBy(ctx, "A", from, to, timeseries.Every(time.Hour)))
		},
		"AggregateWindows": func(ctx ctx, e *events) error { return testkit.Drain(e.AggregateWindows(ctx, "A", from, to)) },
		"Documents":        func(ctx ctx, e *events) error { return testkit.Drain(e.Documents(ctx, nil)) },
		"Check":            func(ctx ctx, e *events) error { return checked(e)(ctx) },
	}))
	add(reads("computed.Computed", "", func(s *scene) *totals { return computedOnce(s, false) }, map[string]func(ctx, *totals) error{
		"Get":      func(ctx ctx, c *totals) error { return void(c.Get(ctx, "Dumbo", time.Hour)) },
		"Failures": func(ctx ctx, c *totals) error { return testkit.Drain(c.Failures(ctx)) },
		"Check":    func(ctx ctx, c *totals) error { return checked(c)(ctx) },
	}))
	add(reads("extref.Source", "", func(s *scene) *customers { return ordered(s, extref.Target{}, nil) }, map[string]func(ctx, *customers) error{
		"Fetch": func(ctx ctx, r *customers) error { return void(r.Fetch(ctx, "orders.customer", 1)) },
		"Check": func(ctx ctx, r *customers) error { return checked(r)(ctx) },
	}))
	add(reads("extref.Copies", "", func(s *scene) *customers { return ordered(s, extref.Target{}, nil) }, map[string]func(ctx, *customers) error{
		"Fetch": func(ctx ctx, r *customers) error {
			return void(testkit.Must(extref.As[bson.D](r, "orders.customer")).Fetch(ctx, 1))
		},
	}))
	for kind, set := range map[string]bool{"": false, "/set": true} {
		add(reads("outlier.Lists", kind, func(s *scene) *buyers { return books(s, set) }, map[string]func(ctx, *buyers) error{
			"All":          func(ctx ctx, l *buyers) error { return testkit.Drain(l.All(ctx, 2)) },
			"Contains":     func(ctx ctx, l *buyers) error { return void(l.Contains(ctx, 2, "Bob")) },
			"Distribution": func(ctx ctx, l *buyers) error { return void(l.Distribution(ctx, nil)) },
			"Slice":        func(ctx ctx, l *buyers) error { return void(l.Slice(ctx, 2, 0, 2)) },
			"Total":        func(ctx ctx, l *buyers) error { return void(l.Total(ctx, 2)) },
			"Check":        func(ctx ctx, l *buyers) error { return checked(l)(ctx) },
		}))
	}
	for kind, opts := range map[string]*paging.Options{"": nil, "/by its Equality": {Equality: []string{"author"}}} {
		filter := bson.D{}
		if opts != nil {
			filter = doc("author", "Ann")
		}
		add(reads("paging.Pager", kind, func(s *scene) *paging.Pager[bson.D] {
			for id := range 6 {
				s.insert("articles", doc("_id", id, "author", []string{"Ann", "Bob"}[id%2], "at", -id))
			}
			p := testkit.Must(paging.New[bson.D](s.coll("articles"), doc("at", -1), opts))
			s.ok(p.EnsureIndexes(s.Context()))
			return p
		}, map[string]func(ctx, *paging.Pager[bson.D]) error{
			"Page": func(ctx ctx, p *paging.Pager[bson.D]) error {
				return void(p.Page(ctx, filter, paging.Request{Size: 2}))
			},
			"All": func(ctx ctx, p *paging.Pager[bson.D]) error {
				return testkit.Drain(p.All(ctx, filter, paging.Request{Size: 2}))
			},
		}))
	}
	for _, kind := range []string{"two-way", "owner", "links"} {
		add(reads("relation.Relation", "/"+kind, func(s *scene) *tasks { return assigned(s, kind) }, map[string]func(ctx, *tasks) error{
			"Children":   func(ctx ctx, r *tasks) error { return void(r.Children(ctx, "Ann", nil)) },
			"ChildrenOf": func(ctx ctx, r *tasks) error { return void(r.ChildrenOf(ctx, []string{"Ann", "Bob"}, nil)) },
			"Parents":    func(ctx ctx, r *tasks) error { return void(r.Parents(ctx, 1)) },
			"Has":        func(ctx ctx, r *tasks) error { return void(r.Has(ctx, "Ann", 1)) },
			"Check":      func(ctx ctx, r *tasks) error { return checked(r)(ctx) },
		}))
	}
	add(reads("relation.Relation", "/owner", func(s *scene) *tasks { return assigned(s, "owner") }, map[string]func(ctx, *tasks) error{
		"First": func(ctx ctx, r *tasks) error { return void(r.First(ctx, "Ann", 1, nil)) },
	}))
	add(reads("archive.Archive", "", paid, map[string]func(ctx, *archive.Archive) error{
		"Check": func(ctx ctx, a *archive.Archive) error { return checked(a)(ctx) },
	}))
	add(reads("relation", "", func(s *scene) keyed {
		s.insert("tasks", doc("_id", 1), doc("_id", 2), doc("_id", 3))
		return keyed{s.coll("tasks"), doc("_id", 1)}
	}, map[string]func(ctx, keyed) error{
		"Fetch": func(ctx ctx, k keyed) error {
			return void(relation.Fetch[int, bson.D](ctx, k.coll, []int{1, 3}, nil))
		},
	}))
	add(reads("polymorphic.Kinds", "", func(s *scene) keyed {
		s.insert("athletes", doc("_id", 1, "sport", "tennis"), doc("_id", 2, "sport", "tennis"))
		return keyed{s.coll("athletes"), doc("_id", 1)}
	}, map[string]func(ctx, keyed) error{
		"Find": func(ctx ctx, k keyed) error {
			kinds := testkit.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[struct{}]("tennis")}, &polymorphic.Options[any]{KindField: "sport"}))
			return testkit.Drain(kinds.Find(ctx, k.coll, nil))
		},
	}))
	add(reads("split.Split", "", filmed, map[string]func(ctx, *movies) error{
		"Get":     func(ctx ctx, m *movies) error { _, _, err := m.Get(ctx, 1); return err },
		"GetHot":  func(ctx ctx, m *movies) error { return void(m.GetHot(ctx, 1)) },
		"GetCold": func(ctx ctx, m *movies) error { return void(m.GetCold(ctx, 1)) },
		"Check":   func(ctx ctx, m *movies) error { return checked(m)(ctx) },
	}))
	add(reads("subset.Subset", "", rated, map[string]func(ctx, *reviews) error{
		"All":   func(ctx ctx, r *reviews) error { return testkit.Drain(r.All(ctx, 1)) },
		"Get":   func(ctx ctx, r *reviews) error { return void(r.Get(ctx, 1, 2)) },
		"Top":   func(ctx ctx, r *reviews) error { return void(r.Top(ctx, 1)) },
		"Check": func(ctx ctx, r *reviews) error { return checked(r)(ctx) },
	}))
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		add(reads("tree.Tree", "/"+rep.String(), func(s *scene) *categories { return forest(s, rep, nil) }, map[string]func(ctx, *categories) error{
			"Ancestors":        func(ctx ctx, c *categories) error { return void(c.Ancestors(ctx, "MongoDB")) },
			"Breadcrumb":       func(ctx ctx, c *categories) error { return void(c.Breadcrumb(ctx, "MongoDB")) },
			"Children":         func(ctx ctx, c *categories) error { return testkit.Drain(c.Children(ctx, "Books")) },
			"CountChildren":    func(ctx ctx, c *categories) error { return void(c.CountChildren(ctx, "Books")) },
			"CountDescendants": func(ctx ctx, c *categories) error { return void(c.CountDescendants(ctx, "Books", 0)) },
			"Descendants":      func(ctx ctx, c *categories) error { return testkit.Drain(c.Descendants(ctx, "Books", 0)) },
			"Dump":             func(ctx ctx, c *categories) error { return testkit.Drain(c.Dump(ctx)) },
			"Forest":           func(ctx ctx, c *categories) error { return void(c.Forest(ctx)) },
			"IsDescendant":     func(ctx ctx, c *categories) error { return void(c.IsDescendant(ctx, "MongoDB", "Books")) },
			"Leaves":           func(ctx ctx, c *categories) error { return testkit.Drain(c.Leaves(ctx)) },
			"Parent":           func(ctx ctx, c *categories) error { return void(c.Parent(ctx, "MongoDB")) },
			"Parents":          func(ctx ctx, c *categories) error { return testkit.Drain(c.Parents(ctx, "MongoDB")) },
			"Preorder":         func(ctx ctx, c *categories) error { return testkit.Drain(c.Preorder(ctx, "Books", 0)) },
			"Roots":            func(ctx ctx, c *categories) error { return testkit.Drain(c.Roots(ctx)) },
			"Siblings":         func(ctx ctx, c *categories) error { return testkit.Drain(c.Siblings(ctx, "MongoDB")) },
			"Subtree":          func(ctx ctx, c *categories) error { return void(c.Subtree(ctx, "Books", 0)) },
			"Check":            func(ctx ctx, c *categories) error { return checked(c)(ctx) },
		}))
		out = append(out, filterRows(rep)...)
	}
	add(reads("schemaversion.Collection", "", func(s *scene) *contacts { return old(s, &schemaversion.Options{}) }, map[string]func(ctx, *contacts) error{
		"Get":    func(ctx ctx, v *contacts) error { return void(v.Get(ctx, 1)) },
		"Find":   func(ctx ctx, v *contacts) error { return testkit.Drain(v.Find(ctx, bson.D{})) },
		"Status": func(ctx ctx, v *contacts) error { return void(v.Status(ctx)) },
	}))
	add(reads("prealloc.Grids", "", seats, map[string]func(ctx, *grids) error{
		"Cells":  func(ctx ctx, g *grids) error { return void(g.Cells(ctx, "Dumbo")) },
		"Counts": func(ctx ctx, g *grids) error { return void(g.Counts(ctx, "Dumbo")) },
		"Check":  func(ctx ctx, g *grids) error { return checked(g)(ctx) },
	}))
	add(reads("versioning.History", "", func(s *scene) *policies { return insured(s, nil) }, map[string]func(ctx, *policies) error{
		"Get":             func(ctx ctx, d *policies) error { return void(d.Get(ctx, 1)) },
		"At":              func(ctx ctx, d *policies) error { return void(d.At(ctx, 1, 2)) },
		"AsOf":            func(ctx ctx, d *policies) error { return void(d.AsOf(ctx, 1, time.Now().Add(time.Hour))) },
		"Diff":            func(ctx ctx, d *policies) error { return void(d.Diff(ctx, 1, 1, 3)) },
		"Revisions":       func(ctx ctx, d *policies) error { return testkit.Drain(d.Revisions(ctx, 1)) },
		"RevisionsFrom":   func(ctx ctx, d *policies) error { return testkit.Drain(d.RevisionsFrom(ctx, 1, 2)) },
		"RevisionsBefore": func(ctx ctx, d *policies) error { return testkit.Drain(d.RevisionsBefore(ctx, 1, 2)) },
		"Check":           func(ctx ctx, d *policies) error { return checked(d)(ctx) },
	}))
	return out
}

// measurements are four that are not adopted.
func measurements(s *scene) {
	for id := range 4 {
		s.insert("plain", doc("_id", id, "series", fmt.Sprint(id), "id", id, "timestamp", at(id), "temperature", id))
	}
}

// filterRows are the tree's filters, each read with the driver.
func filterRows(rep tree.Representation) (out []row) {
	for name, filter := range map[string]func(ctx context.Context, c *categories) (bson.D, error){
		"Filter":            func(_ context.Context, c *categories) (bson.D, error) { return c.Filter("Books"), nil },
		"RootsFilter":       func(ctx context.Context, c *categories) (bson.D, error) { return c.RootsFilter(ctx) },
		"ChildrenFilter":    func(ctx context.Context, c *categories) (bson.D, error) { return c.ChildrenFilter(ctx, "Books") },
		"AncestorsFilter":   func(ctx context.Context, c *categories) (bson.D, error) { return c.AncestorsFilter(ctx, "MongoDB") },
		"DescendantsFilter": func(ctx context.Context, c *categories) (bson.D, error) { return c.DescendantsFilter(ctx, "Books", 0) },
	} {
		out = append(out, row{"tree.Tree." + name + "/" + rep.String(), func(s *scene) call {
			c := forest(s, rep, nil)
			return call{shards: sharders(c), one: func(ctx context.Context) error {
				match, err := filter(ctx, c)
				if err != nil {
					return err
				}
				cursor, err := s.coll("nodes").Find(ctx, match)
				if err != nil {
					return err
				}
				return cursor.All(ctx, &[]bson.D{})
			}}
		}})
	}
	return out
}

type grids = prealloc.Grids[string, string]
