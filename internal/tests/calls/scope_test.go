package calls_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
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

// scoped are the packages whose Options have a Scope.
var scoped = []string{"archive", "attribute", "computed", "extref", "outlier", "paging", "prealloc", "relation", "schemaversion", "split", "subset", "tree", "versioning"}

var (
	ours, theirs = testkit.D("tenant", "a"), testkit.D("tenant", "b")
	toThem       = testkit.D("$set", theirs)
)

// tenantless are the calls, or rows of them, that do something without a document of the tenant, or say nothing about the documents that they
// were given: lists, upkeep and insertions without a parent. All others return ErrNotFound.
var tenantless = []string{
	"archive.Archive.Move", "archive.Archive.Restore", "archive.Archive.Repair", "archive.Archive.Check", "paging.Pager.Page", "paging.Pager.All",
	"schemaversion.Collection.Insert", "schemaversion.Collection.Migrate", "schemaversion.Collection.Find", "schemaversion.Collection.Status",
	"subset.Subset.Adopt", "subset.Subset.Repair", "subset.Subset.Check", "subset.Subset.All",
	"versioning.History.Insert", "versioning.History.Adopt", "versioning.History.AdoptRevisions", "versioning.History.Prune",
	"versioning.History.RevisionsBefore", "versioning.History.Repair", "versioning.History.Check",
	"outlier.Lists.Adopt", "outlier.Lists.Repair", "outlier.Lists.Check", "outlier.Lists.Distribution",
	"attribute.Attributes.Adopt", "attribute.Attributes.Unadopt", "attribute.Attributes.RenameKey", "attribute.Attributes.RemoveKey",
	"attribute.Attributes.Repair", "attribute.Attributes.Check", "attribute.Attributes.Facets", "attribute.Attributes.Values",
	"computed.Computed.Insert", "computed.Computed.Change", "computed.Computed.Refresh", "computed.Computed.RefreshAll", "computed.Computed.Mark", "computed.Computed.Drain",
	"computed.Computed.Failures", "computed.Computed.Adopt", "computed.Computed.Repair", "computed.Computed.Check",
	"extref.Source.Adopt", "extref.Source.Repair", "extref.Source.Check", "extref.Source.Drain", "extref.Source.Watch",
	"prealloc.Grids.Insert", "prealloc.Grids.Check",
	"relation.Relation.Link/links", "relation.Relation.Unlink", "relation.Relation.Repair",
	"relation.Relation.Check",
	"relation.Relation.Extract", "relation.Relation.Embed", "relation.Relation.First", "relation.Fetch",
	"relation.Relation.Children/owner", "relation.Relation.Children/links", "relation.Relation.Parents/links",
	"relation.Relation.ChildrenOf", "relation.Relation.Has",
	"split.Split.Insert", "split.Split.Adopt", "split.Split.Repair", "split.Split.Check",
	"tree.Tree.Adopt", "tree.Convert", "tree.Tree.Repair", "tree.Tree.Check", "tree.Tree.Dump", "tree.Tree.Forest",
	"tree.Tree.Filter", "tree.Tree.RootsFilter", "tree.Tree.ChildrenFilter", "tree.Tree.DescendantsFilter",
	"tree.Tree.Children", "tree.Tree.Siblings", "tree.Tree.Roots", "tree.Tree.Leaves", "tree.Tree.Parents",
	"tree.Tree.Descendants", "tree.Tree.Preorder", "tree.Tree.CountDescendants",
}

// refusal is the error of a call that finds no document of its tenant, nil for none.
func refusal(row registry.Row) error {
	switch {
	case slices.Contains(tenantless, row.Method()), slices.Contains(tenantless, row.Name), row.Method() == "tree.Tree.Insert" && strings.HasSuffix(row.Name, ", root"):
		return nil
	case row.Method() == "tree.Tree.FindOrInsert": // it inserts an _id that the other tenant has
		return mongopatterns.ErrExists
	}
	return mongopatterns.ErrNotFound
}

// rowsInScopes are the calls of the packages with a Scope.
func rowsInScopes() (rows []registry.Row) {
	for _, p := range registry.Patterns() {
		if slices.Contains(scoped, p.Package) {
			rows = append(rows, slices.Concat(p.Writes, p.Reads)...)
		}
	}
	return rows
}

// of returns the documents of a tenant in all collections, masked as those of the call, and without the tenant.
func of(t *testing.T, db *mongo.Database, c registry.Call, tenant bson.D) map[string][]any {
	t.Helper()
	out := map[string][]any{}
	for _, name := range testkit.Collections(t, db) {
		if slices.Contains(c.Aside, name) {
			continue
		}
		docs := []string{}
		for _, doc := range testkit.Find[bson.D](t, db.Collection(name), tenant) {
			text := testkit.Value[[]byte](t)(bson.MarshalExtJSON(c.Masked(without(doc)), false, false))
			docs = append(docs, string(text))
		}
		slices.Sort(docs)
		for _, doc := range docs {
			out[name] = append(out[name], doc)
		}
	}
	return out
}

// without is a value without the fields of the tenant.
func without(v any) any {
	switch v := v.(type) {
	case bson.D:
		out := bson.D{}
		for _, e := range v {
			if e.Key != "tenant" {
				out = append(out, bson.E{Key: e.Key, Value: without(e.Value)})
			}
		}
		return out
	case bson.A:
		out := bson.A{}
		for _, e := range v {
			out = append(out, without(e))
		}
		return out
	}
	return v
}

// A call with the IDs of another tenant changes nothing of that tenant, and the server returns nothing of it.
func TestCallsOnAnotherTenant(t *testing.T) {
	inTurn(t, eachMethod(rowsInScopes()), 1, func(t *testing.T, dbs []*mongo.Database, row registry.Row) {
		ctx, db := t.Context(), dbs[0]
		c := row.Start(&registry.Scene{T: t, DB: db, Scope: ours})
		for _, name := range testkit.Collections(t, db) {
			if !slices.Contains(c.Aside, name) { // a lock stays that of its tenant
				testkit.Must(db.Collection(name).UpdateMany(ctx, ours, toThem))
			}
		}
		before := of(t, db, c, theirs)
		if len(before) == 0 {
			t.Fatal("no document")
		}
		var result mongopatterns.Result
		var err error
		bounded, cancel := context.WithTimeout(ctx, time.Minute) // without the filter some calls would try again for ever
		defer cancel()
		cmds := mongotest.Record(t, db, func() { result, err = c.Do(bounded) })
		if after := of(t, db, c, theirs); !reflect.DeepEqual(before, after) {
			t.Errorf("%v, then %v", before, after)
		}
		ids := map[string][]bson.RawValue{}
		for _, name := range testkit.Collections(t, db) {
			for _, doc := range testkit.Find[bson.Raw](t, db.Collection(name), theirs) {
				ids[name] = append(ids[name], doc.Lookup("_id"))
			}
		}
		for _, cmd := range cmds {
			for _, doc := range returned(cmd) {
				id := doc.Lookup("_id")
				if slices.ContainsFunc(ids[cmd.Collection], id.Equal) {
					t.Errorf("%s returned %v", cmd.Name, doc)
				}
			}
		}
		if !errors.Is(err, refusal(row)) {
			t.Errorf("%v, %+v", err, result)
		}
	})
}

// returned are the documents in a reply.
func returned(cmd mongotest.Command) (docs []bson.Raw) {
	for _, path := range [][]string{{"cursor", "firstBatch"}, {"cursor", "nextBatch"}} {
		batch, _ := cmd.Reply.Lookup(path...).ArrayOK()
		values, _ := batch.Values()
		for _, v := range values {
			docs = append(docs, v.Document())
		}
	}
	if doc, ok := cmd.Reply.Lookup("value").DocumentOK(); ok {
		docs = append(docs, doc)
	}
	return docs
}

// A call in a scope does what it does without one, beside documents of another tenant that refer to the same IDs.
func TestCallsBesideAnotherTenant(t *testing.T) {
	inTurn(t, registry.Every(scale.Of(6, 1, 1), rowsInScopes()), 2, func(t *testing.T, dbs []*mongo.Database, row registry.Row) {
		beside(t, row, dbs[0], dbs[1], nil)
	})
}

// beside compares a call in the database alone with the same call in a scope, in the database shared, which place prepares
// when it has the documents of two tenants.
func beside(t *testing.T, row registry.Row, alone, shared *mongo.Database, place func(c registry.Call)) {
	t.Helper()
	ctx := t.Context()
	c := row.Start(&registry.Scene{T: t, DB: alone})
	want, wantErr := c.Do(ctx)
	c = row.Start(&registry.Scene{T: t, DB: shared, Scope: ours})
	for _, name := range testkit.Collections(t, shared) {
		var twins []any
		for _, doc := range testkit.Find[bson.D](t, shared.Collection(name), ours) {
			twins = append(twins, append(testkit.D("_id", testkit.D("theirs", testkit.Get(doc, "_id")), "tenant", "b"),
				slices.DeleteFunc(doc, func(e bson.E) bool { return e.Key == "_id" || e.Key == "tenant" })...))
		}
		if len(twins) > 0 {
			testkit.InsertAll(t, shared.Collection(name), twins)
		}
	}
	if place != nil {
		place(c)
	}
	before := of(t, shared, c, theirs)
	got, err := c.Do(ctx)
	testkit.Same(t, "theirs", before, of(t, shared, c, theirs))
	testkit.Same(t, "stored", of(t, alone, c, bson.D{}), of(t, shared, c, ours))
	if got.Failures = nil; got.Done != want.Done || got.Examined != want.Examined || got.Failed != want.Failed || (err == nil) != (wantErr == nil) {
		t.Errorf("%+v %v, alone %+v %v", got, err, want, wantErr)
	}
	for _, check := range c.Check {
		for p, err := range check.Check(ctx, nil) {
			if id, ok := p.ID.DocumentOK(); err != nil || ok && id.Lookup("theirs").Type != 0 {
				t.Errorf("Check: %v, %v", p, err)
			}
		}
	}
}

// onShards are rows of each way of writing: a guarded update and one by a pipeline, an upsert, an insertion, a find and
// modify, a transaction over two collections and a move.
var onShards = []string{
	"prealloc.Grids.Claim", "attribute.Attributes.Set", "relation.Relation.Link/links", "schemaversion.Collection.Insert",
	"computed.Computed.Drain", "extref.Source.Update/outbox", "relation.Relation.Transfer", "subset.Subset.Insert", "archive.Archive.Move",
}

// On two shards with one tenant each, a call in a scope does what it does alone.
func TestScopesOnShards(t *testing.T) {
	cluster, ran := mongotest.Sharded(t, 2), 0
	for _, row := range rowsInScopes() {
		if row.Name == "extref.Source.Watch" || !scale.Whole() && !slices.Contains(onShards, row.Name) { // the router has no change streams
			continue
		}
		ran++
		t.Run(row.Name, func(t *testing.T) {
			db := cluster.Database(t)
			beside(t, row, mongotest.Database(t), db, func(c registry.Call) {
				for _, s := range testkit.Must(mongopatterns.Shard(t.Context(), db, c.Helpers()...)) {
					if s.Key[0].Key != "tenant" {
						continue // Fetch has no helper, and no key of its own
					}
					low, high := testkit.D("tenant", "b"), testkit.D("tenant", bson.MaxKey{})
					for _, e := range s.Key[1:] {
						low, high = append(low, bson.E{Key: e.Key, Value: bson.MinKey{}}), append(high, bson.E{Key: e.Key, Value: bson.MaxKey{}})
					}
					testkit.OK(t, cluster.Move(t.Context(), db.Collection(s.Collection), low, high, 1))
				}
			})
		})
	}
	if ran < len(onShards) {
		t.Errorf("%d rows of %d", ran, len(onShards))
	}
}

// The filters and pipelines that a package returns for the caller's own commands name the tenant, once for each collection.
func TestFiltersInScopes(t *testing.T) {
	db := testkit.Offline(t)
	c, d, at := db.Collection("c"), db.Collection("d"), time.Unix(1, 0)
	a := testkit.Must(archive.New(c, d, &archive.Options{Scope: ours}))
	dated := testkit.Must(archive.New(c, d, &archive.Options{TimeField: "at", Scope: ours}))
	attributes := testkit.Must(attribute.New[int, int](c, &attribute.Options{Scope: ours}))
	x := testkit.Must(extref.New[int, bson.D](c, []extref.Target{{Collection: d, Path: "of", Fields: []extref.Field{{Path: "n"}}}}, &extref.Options{Scope: ours}))
	l := testkit.Must(outlier.New[int, int](c, d, &outlier.Options{Scope: ours}))
	grids := testkit.Must(prealloc.New[int, int](c, &prealloc.Options{Scope: ours}))
	v := testkit.Must(schemaversion.New[bson.D](c, nil, &schemaversion.Options{Scope: ours}))
	p := testkit.Must(relation.New[int, int, bson.D](c, d, &relation.Options{OwnerField: "owner", Scope: ours}))
	s := testkit.Must(split.New[int, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cold"}, Scope: ours}))
	r := testkit.Must(subset.New[int, bson.D](c, d, &subset.Options{Scope: ours}))
	h := testkit.Must(versioning.New[int, bson.D](c, d, &versioning.Options{Scope: ours}))
	for name, in := range map[string]struct {
		what any
		n    int
	}{
		"archive.BeforeFilter": {a.BeforeFilter(at), 1}, "archive.BeforeFilter, dated": {dated.BeforeFilter(at), 1},
		"archive.ArchivedFilter": {a.ArchivedFilter(), 1}, "archive.LiveFilter": {a.LiveFilter(), 1},
		"attribute.Filter": {attributes.Filter(attributes.Exists(attribute.Named("k"))), 1}, "attribute.Filter, all": {attributes.Filter(), 1},
		"attribute.ValuesPipeline": {attributes.ValuesPipeline(nil, attribute.Named("k")), 1},
		"attribute.SortPipeline":   {attributes.SortPipeline(nil, attribute.Named("k"), nil), 1},
		"attribute.FacetsPipeline": {attributes.FacetsPipeline(nil, nil), 1}, "extref.Filter": {testkit.Must(x.Filter("d.of", 1)), 1}, "prealloc.Filter": {grids.Filter(1), 1},
		"outlier.Filter": {l.Filter(1), 1}, "outlier.OverflowFilter": {l.OverflowFilter(1), 1}, "outlier.OutliersFilter": {l.OutliersFilter(), 1},
		"outlier.ItemsPipeline": {l.ItemsPipeline(nil), 2}, "outlier.ContainingPipeline": {testkit.Must(l.ContainingPipeline(1)), 2},
		"relation.ChildrenFilter": {p.ChildrenFilter(1), 1},
		"schemaversion.Filter":    {v.Filter(func(int) bson.D { return bson.D{} }), 1},
		"split.HotFilter":         {s.HotFilter(1), 1}, "split.ColdFilter": {s.ColdFilter(1), 1},
		"split.JoinPipeline": {s.JoinPipeline(), 2}, // its $lookup, and the fields that both documents have
		"subset.ItemsFilter": {r.ItemsFilter(1), 1},
		"versioning.Filter":  {h.Filter(1), 1}, "versioning.RevisionsFilter": {h.RevisionsFilter(1), 1},
	} {
		tenantNamed(t, name, in.what, in.n)
	}
}

// The pipelines of a tree name the tenant for the collection, and again for each join of it with itself.
func TestTreesInScopes(t *testing.T) {
	ctx, c := t.Context(), testkit.Offline(t).Collection("c")
	type counts struct{ children, ancestors, descendants, roots, leaves int }
	for rep, want := range map[tree.Representation]counts{
		tree.ParentReferences: {1, 2, 2, 1, 2},
		tree.ChildReferences:  {2, 2, 2, 2, 1},
		tree.AncestorArray:    {1, 2, 1, 1, 2},
		tree.MaterializedPath: {2, 2, 2, 1, 2},
		tree.NestedSets:       {1, 2, 2, 1, 2},
	} {
		tr := testkit.Must(tree.New[int, bson.D](c, rep, &tree.Options{Scope: ours}))
		named := map[string]any{"Filter": tr.Filter(1), "no level": tr.DescendantsPipeline(1, -1)}
		if rep == tree.AncestorArray { // its filters read nothing
			named["ChildrenFilter"] = testkit.Must(tr.ChildrenFilter(ctx, 1))
			named["DescendantsFilter"] = testkit.Must(tr.DescendantsFilter(ctx, 1, 0))
			named["RootsFilter"] = testkit.Must(tr.RootsFilter(ctx))
		}
		for name, what := range named {
			tenantNamed(t, rep.String()+", "+name, what, 1)
		}
		tenantNamed(t, rep.String()+", ChildrenPipeline", tr.ChildrenPipeline(1), want.children)
		tenantNamed(t, rep.String()+", AncestorsPipeline", tr.AncestorsPipeline(1), want.ancestors)
		tenantNamed(t, rep.String()+", DescendantsPipeline", tr.DescendantsPipeline(1, 0), want.descendants)
		tenantNamed(t, rep.String()+", SubtreePipeline", tr.SubtreePipeline(1, 0), want.descendants)
		tenantNamed(t, rep.String()+", RootsPipeline", tr.RootsPipeline(), want.roots)
		tenantNamed(t, rep.String()+", LeavesPipeline", tr.LeavesPipeline(), want.leaves)
	}
}

// tenantNamed fails unless a filter or pipeline names the tenant so often.
func tenantNamed(t *testing.T, name string, what any, often int) {
	t.Helper()
	text := testkit.Value[[]byte](t)(bson.MarshalExtJSON(testkit.D("v", what), false, false))
	if n := strings.Count(string(text), `"tenant"`); n != often {
		t.Errorf("%s names the tenant %d times: %s", name, n, text)
	}
}

// Joins find no document of another tenant under the same ID.
func TestJoinsInScopes(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	docs, revisions, hot, cold := db.Collection("docs"), db.Collection("revisions"), db.Collection("hot"), db.Collection("cold")
	parents, items, theirOne := db.Collection("parents"), db.Collection("items"), testkit.D("_id", 1, "tenant", "b")
	h := testkit.Must(versioning.New[int, bson.D](docs, revisions, &versioning.Options{Scope: ours}))
	for _, n := range []int{1, 2} {
		r := testkit.Must(h.Insert(ctx, testkit.D("_id", n), versioning.Change{}))
		r.Document = append(r.Document, bson.E{Key: "n", Value: 1})
		testkit.Must(h.Save(ctx, r, versioning.Change{}))
	}
	testkit.Must(docs.DeleteOne(ctx, testkit.D("_id", 1)))
	testkit.Insert(t, docs, theirOne)
	if result, err := h.Repair(ctx, nil); err != nil || result.Done != 1 {
		t.Errorf("versioning: %+v, %v", result, err)
	}
	s := testkit.Must(split.New[int, bson.D, bson.D](hot, cold, &split.Options{IDField: "of", ColdFields: []string{"cold"}, Scope: ours}))
	testkit.Insert(t, hot, testkit.D("_id", 1, "tenant", "a"))
	testkit.Insert(t, cold, testkit.D("of", 1, "cold", 1, "tenant", "b"))
	if _, got, err := s.Get(ctx, 1); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Errorf("split: %v, %v", got, err)
	}
	r := testkit.Must(subset.New[int, bson.D](parents, items, &subset.Options{Scope: ours}))
	testkit.Insert(t, parents, theirOne)
	testkit.Insert(t, items, testkit.D("_id", 1, "parent", 1, "tenant", "a"))
	kinds := []mongopatterns.ProblemKind{}
	for p, err := range r.Check(ctx, nil) {
		testkit.OK(t, err)
		kinds = append(kinds, p.Kind)
	}
	if !slices.Equal(kinds, []mongopatterns.ProblemKind{mongopatterns.Orphan}) {
		t.Errorf("subset: %v", kinds)
	}
}

// A tenant is part of each index and shard key, is not _id, and has a value. Documents and updates cannot name another.
func TestScopes(t *testing.T) {
	db := mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	other, update := testkit.D("_id", 1, "tenant", "b"), testkit.D("$set", testkit.D("tenant", "b"))
	opens := map[string]func(s bson.D) (mongopatterns.Sharder, error){
		"schemaversion": func(s bson.D) (mongopatterns.Sharder, error) {
			return schemaversion.New[bson.D](c, nil, &schemaversion.Options{Scope: s})
		},
		"archive": func(s bson.D) (mongopatterns.Sharder, error) {
			return archive.New(c, d, &archive.Options{TimeField: "at", Scope: s,
				Companions: []archive.Companion{{Live: db.Collection("e"), Archived: db.Collection("f"), Field: "of"}}})
		},
		"attribute": func(s bson.D) (mongopatterns.Sharder, error) {
			return attribute.New[int, int](c, &attribute.Options{Scope: s, Indexes: []attribute.Index{{Prefix: []string{"m"}}, {KeyOnly: true}}})
		},
		"computed": func(s bson.D) (mongopatterns.Sharder, error) {
			return computed.New[int, int, bson.D](c, d, computed.Rule{KeyField: "of", Empty: testkit.D("sum", 0),
				Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$of", "sum", testkit.D("$sum", "$n")))}}, &computed.Options{Scope: s})
		},
		"extref": func(s bson.D) (mongopatterns.Sharder, error) {
			target := extref.Target{Collection: d, Path: "of", Fields: []extref.Field{{Path: "n"}}}
			return extref.New[int, bson.D](db.Collection("sources"), []extref.Target{target}, &extref.Options{Scope: s, KeyField: "number", Outbox: db.Collection("outbox")})
		},
		"prealloc": func(s bson.D) (mongopatterns.Sharder, error) {
			return prealloc.New[int, int](c, &prealloc.Options{Scope: s})
		},
		"paging": func(s bson.D) (mongopatterns.Sharder, error) {
			return paging.New[bson.D](c, testkit.D("n", 1), &paging.Options{Scope: s, Equality: []string{"m"}})
		},
		"relation": func(s bson.D) (mongopatterns.Sharder, error) {
			return relation.New[int, int, bson.D](db.Collection("people"), d, &relation.Options{OwnerField: "owner", KeyField: "name", Scope: s})
		},
		"relation, links": func(s bson.D) (mongopatterns.Sharder, error) {
			return relation.New[int, int, bson.D](c, d, &relation.Options{Links: db.Collection("links"), Scope: s})
		},
		"split": func(s bson.D) (mongopatterns.Sharder, error) {
			return split.New[int, bson.D, bson.D](c, d, &split.Options{IDField: "of", ColdFields: []string{"cold"}, Scope: s})
		},
		"subset": func(s bson.D) (mongopatterns.Sharder, error) {
			return subset.New[int, bson.D](c, d, &subset.Options{Scope: s})
		},
		"versioning": func(s bson.D) (mongopatterns.Sharder, error) {
			return versioning.New[int, bson.D](c, d, &versioning.Options{Scope: s})
		},
		"tree": func(s bson.D) (mongopatterns.Sharder, error) {
			return tree.New[int, bson.D](c, tree.AncestorArray, &tree.Options{Scope: s})
		},
		"outlier": func(s bson.D) (mongopatterns.Sharder, error) {
			return outlier.New[int, int](c, d, &outlier.Options{ElementIndex: true, Scope: s})
		},
	}
	writes := map[string]func(ctx context.Context, h mongopatterns.Sharder) []error{
		"schemaversion": func(ctx context.Context, h mongopatterns.Sharder) []error {
			v := h.(*schemaversion.Collection[bson.D])
			return []error{testkit.ErrorOf(v.Insert(ctx, other)), testkit.ErrorOf(v.Encode(other)), v.Update(ctx, 1, update)}
		},
		"attribute": func(ctx context.Context, h mongopatterns.Sharder) []error {
			a := h.(*attribute.Attributes[int, int])
			columns := []attribute.Column{{Path: "tenant", Key: "k"}}
			return []error{testkit.ErrorOf(a.Adopt(ctx, columns, nil)), testkit.ErrorOf(a.Unadopt(ctx, columns, nil))}
		},
		"extref": func(ctx context.Context, h mongopatterns.Sharder) []error {
			x := h.(*extref.Source[int, bson.D])
			_, copied := x.Copy("d.of", testkit.D("number", 1, "n", 1, "tenant", "b"))
			testkit.Insert(t, db.Collection("sources"), testkit.D("_id", 3, "number", 1, "n", 1, "tenant", "a"))
			both := testkit.D("$set", testkit.D("n", 2, "tenant", "b"))
			return []error{copied, testkit.ErrorOf(x.Update(ctx, 1, update)), testkit.ErrorOf(x.Update(ctx, 1, both))}
		},
		"prealloc": func(ctx context.Context, h mongopatterns.Sharder) []error {
			return []error{h.(*prealloc.Grids[int, int]).Insert(ctx, 1, theirs, prealloc.At("A", "1"))}
		},
		"relation": func(ctx context.Context, h mongopatterns.Sharder) []error {
			testkit.Insert(t, db.Collection("people"), testkit.D("_id", 5, "name", 5, "tenant", "a"))
			return []error{testkit.ErrorOf(h.(*relation.Relation[int, int, bson.D]).Insert(ctx, 5, other))}
		},
		"subset": func(ctx context.Context, h mongopatterns.Sharder) []error {
			s := h.(*subset.Subset[int, bson.D])
			return []error{testkit.ErrorOf(s.Insert(ctx, 1, other)), s.Update(ctx, 1, 1, update)}
		},
		"versioning": func(ctx context.Context, h mongopatterns.Sharder) []error {
			d := h.(*versioning.History[int, bson.D])
			_, inserted := d.Insert(ctx, other, versioning.Change{})
			_, saved := d.Save(ctx, testkit.Must(d.Insert(ctx, testkit.D("_id", 2, "n", 1), versioning.Change{})), versioning.Change{})
			testkit.OK(t, saved)
			_, edited := d.Edit(ctx, 2, func(doc *bson.D) error { *doc = testkit.D("_id", 2, "tenant", "b"); return nil }, versioning.Change{})
			_, dropped := d.Edit(ctx, 2, func(doc *bson.D) error { *doc = testkit.D("_id", 2); return nil }, versioning.Change{})
			return []error{inserted, edited, dropped}
		},
		"split": func(ctx context.Context, h mongopatterns.Sharder) []error {
			s := h.(*split.Split[int, bson.D, bson.D])
			return []error{s.Insert(ctx, 1, other, bson.D{}), s.Insert(ctx, 1, bson.D{}, other), s.Update(ctx, 1, update, nil), s.Update(ctx, 1, nil, update)}
		},
	}
	for _, name := range scoped {
		if opens[name] == nil {
			t.Errorf("%s is not opened", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opens)) {
		open := opens[name]
		for _, bad := range []bson.D{testkit.D("_id", 1), testkit.D("", 1), testkit.D("a.b", 1), testkit.D("tenant", nil), testkit.D("t", 1, "t", 1)} {
			if _, err := open(bad); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "Scope") {
				t.Errorf("%s: %v: %v", name, bad, err)
			}
		}
		h := testkit.Must(open(ours))
		testkit.OK(t, h.EnsureIndexes(t.Context()))
		for coll, key := range h.ShardKey() {
			if key[0].Key != "tenant" {
				t.Errorf("%s: %s is sharded by %v", name, coll, key)
			}
		}
		for coll, models := range h.Indexes() {
			for _, m := range models {
				if m.Keys.(bson.D)[0].Key != "tenant" {
					t.Errorf("%s: %s has the index %v", name, coll, m.Keys)
				}
			}
		}
		if writes[name] == nil {
			continue // it stores no document of the caller, or, as tree, writes over the tenant in it
		}
		for i, err := range writes[name](t.Context(), h) {
			if !errors.Is(err, mongopatterns.ErrInvalid) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
				t.Errorf("%s, write %d: %v", name, i, err)
			}
		}
	}
}

// A collation would hold the tenants "acme" and "ACME" equal.
func TestCollationsInScopes(t *testing.T) {
	db := mongotest.Database(t)
	folded := &options.Collation{Locale: "en", Strength: 2}
	find := options.Find().SetCollation(folded)
	byName, acme := testkit.D("name", 1), testkit.D("tenant", "acme")
	if _, err := paging.New[bson.D](db.Collection("c"), byName, &paging.Options{Scope: acme, Find: find}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	testkit.Must(paging.New[bson.D](db.Collection("c"), byName, &paging.Options{Scope: testkit.D("tenant", 7), Find: find}))
	docs := testkit.Must(schemaversion.New[bson.D](db.Collection("c"), nil, &schemaversion.Options{Scope: acme}))
	read := 0
	for _, err := range docs.Find(t.Context(), nil, find) {
		if read++; !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
	}
	if read != 1 {
		t.Errorf("%d results of a find with a collation", read)
	}
	testkit.OK(t, db.CreateCollection(t.Context(), "folded", options.CreateCollection().SetCollation(folded)))
	pager := testkit.Must(paging.New[bson.D](db.Collection("folded"), byName, &paging.Options{Scope: acme}))
	if err := pager.EnsureIndexes(t.Context()); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// Repair does not delete what belongs to a document that has gone to another tenant.
func TestMovedToAnotherTenant(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	l := testkit.Must(outlier.New[int, int](c, d, &outlier.Options{MaxCount: 2, Scope: ours}))
	testkit.Insert(t, c, testkit.D("_id", 1, "items", bson.A{1, 2, 3, 4}, "tenant", "a"))
	testkit.Must(l.Adopt(ctx, nil))
	before := testkit.Count(t, d, ours)
	testkit.Must(c.UpdateOne(ctx, testkit.D("_id", 1), toThem))
	result, err := l.Repair(ctx, nil)
	if after := testkit.Count(t, d, ours); err != nil || before == 0 || after != before || result.Done != 0 {
		t.Errorf("%d documents, then %d; %+v, %v", before, after, result, err)
	}
}

// An _id that another tenant has in the archive is ErrExists, and the document stays.
func TestArchivedByAnotherTenant(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	a := testkit.Must(archive.New(c, d, &archive.Options{Scope: ours}))
	testkit.Insert(t, c, testkit.D("_id", 1, "tenant", "a"), testkit.D("_id", 2, "tenant", "a"))
	testkit.Insert(t, d, testkit.D("_id", 1, "tenant", "b"))
	result, err := a.Move(ctx, bson.D{}, nil)
	if err != nil || result.Done != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrExists) {
		t.Errorf("%+v, %v", result, err)
	}
	if n := testkit.Count(t, c, ours); n != 1 {
		t.Errorf("%d documents are left", n)
	}
}

// A pipeline does not change a number in the field of the tenant that has another type.
func TestNumbersAsTenants(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	l := testkit.Must(outlier.New[int, string](db.Collection("c"), db.Collection("d"), &outlier.Options{Scope: testkit.D("tenant", 7)}))
	testkit.Insert(t, db.Collection("c"), testkit.D("_id", 1, "items", bson.A{"x"}, "tenant", int64(7)))
	if done, err := l.Remove(ctx, 1, "absent"); done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if got := testkit.Get(testkit.Find[bson.D](t, db.Collection("c"), bson.D{})[0], "tenant"); got != int64(7) {
		t.Errorf("%T", got)
	}
}

// A pipeline leaves a document of two tenants to both, and takes one with the values of others only to its own.
func TestSharedByTenants(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	c := db.Collection("c")
	people := testkit.Must(schemaversion.New[bson.D](c, nil, &schemaversion.Options{Scope: ours}))
	for _, test := range []struct{ stage, want any }{
		{testkit.D("n", 2), bson.A{"a", "b"}},
		{testkit.D("tenant", bson.A{"b"}), "a"},
		{testkit.D("tenant", "b"), "a"},
	} {
		testkit.Must(c.DeleteMany(ctx, bson.D{}))
		testkit.Insert(t, c, testkit.D("_id", 1, "n", 1, "tenant", bson.A{"a", "b"}))
		if err := people.Update(ctx, 1, mongo.Pipeline{testkit.D("$set", test.stage)}); err != nil {
			t.Error(err)
		}
		if got := testkit.Get(testkit.Find[bson.D](t, c, bson.D{})[0], "tenant"); !reflect.DeepEqual(got, test.want) {
			t.Errorf("after %v: %v, not %v", test.stage, got, test.want)
		}
	}
}

// What only the history has is found by the filter of the helper, and a revision from before the scope can be restored.
func TestHistoriesInScopes(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	old := testkit.Must(versioning.New[int, bson.D](c, d, nil))
	for i := range 2 {
		testkit.Must(old.Insert(ctx, testkit.D("_id", i, "n", 1), versioning.Change{}))
		testkit.Must(old.Edit(ctx, i, func(doc *bson.D) error { (*doc)[1].Value = 2; return nil }, versioning.Change{}))
	}
	for _, coll := range []*mongo.Collection{c, d} {
		testkit.Must(coll.UpdateMany(ctx, bson.D{}, testkit.D("$set", ours)))
	}
	h := testkit.Must(versioning.New[int, bson.D](c, d, &versioning.Options{Scope: ours}))
	r, err := h.Restore(ctx, 0, 1, versioning.Change{})
	if err != nil || testkit.Get(r.Document, "n") != int32(1) || testkit.Get(r.Document, "tenant") != "a" {
		t.Errorf("%v, %v", r.Document, err)
	}
	testkit.Must(c.DeleteOne(ctx, testkit.D("_id", 1)))
	result, err := h.Repair(ctx, &mongopatterns.Work{Filter: h.Filter(1)})
	if err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A sensor is a series of a tenant, and a key.
type sensor struct {
	Tenant string
	Number int
}

// Packages without a scope separate tenants by a part of the series or key, and by a filter where a call names neither.
func TestTenantsInSeriesAndKeys(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	at, later := time.Unix(0, 0).UTC(), time.Unix(1e9, 0).UTC()
	type measurement struct {
		Timestamp time.Time
		Value     int
	}
	b := testkit.Must(bucket.New[sensor, measurement](db.Collection("buckets"), timeseries.Days(nil), nil))
	p := testkit.Must(series.New[sensor, measurement](db.Collection("blocks"), timeseries.Days(nil), nil))
	s := testkit.Must(slots.New[sensor, int](db.Collection("slots"), timeseries.Days(nil), nil))
	d := testkit.Must(approx.NewDistinct[sensor, int](db.Collection("days"), &approx.Options{Every: 1}))
	for i, tenant := range []string{"a", "b"} {
		key := sensor{tenant, 7}
		testkit.Must(b.Append(ctx, key, measurement{at, i}))
		testkit.OK(t, p.Append(ctx, key, measurement{at, i}))
		testkit.OK(t, s.Set(ctx, key, at, i))
		testkit.OK(t, d.Add(ctx, key, i, 10))
	}
	testkit.Must(d.Flush(ctx))
	work := &mongopatterns.Work{Filter: testkit.D("series.tenant", "a")}
	for name, archive := range map[string]func(target *mongo.Collection) (mongopatterns.Result, error){
		"buckets": func(target *mongo.Collection) (mongopatterns.Result, error) {
			return b.Archive(ctx, later, target, work)
		},
		"blocks": func(target *mongo.Collection) (mongopatterns.Result, error) {
			return p.Archive(ctx, later, target, work)
		},
		"slots": func(target *mongo.Collection) (mongopatterns.Result, error) {
			return s.Archive(ctx, later, target, work)
		},
	} {
		result, err := archive(db.Collection("old " + name))
		left := testkit.Find[bson.D](t, db.Collection(name), bson.D{})
		if err != nil || result.Done != 1 || len(left) != 1 || testkit.Get(testkit.Get(left[0], "series").(bson.D), "tenant") != "b" {
			t.Errorf("%s: %+v, %v, %v", name, result, err, left)
		}
	}
	if e, err := d.Union(ctx, testkit.D("_id.tenant", "a")); err != nil || e.Count != 2 {
		t.Errorf("%+v, %v", e, err)
	}
}
