package tree_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func graph(t *testing.T) (variant, *trees) {
	v := variant{name: "graph", rep: tree.ChildReferences, opts: tree.Options{Graph: true, ChildCountField: "n"}}
	tr := v.open(t, mongotest.Database(t).Collection("nodes"))
	insertAll(t, v, tr, [][2]string{{"Books", ""}, {"Programming", "Books"}, {"Databases", "Programming"},
		{"MongoDB", "Databases"}, {"Software", ""}, {"Servers", "Software"}})
	return v, tr
}

func TestGraph(t *testing.T) {
	ctx := t.Context()
	v, tr := graph(t)
	for range 2 { // twice is once
		if err := tr.Link(ctx, "Servers", "Databases"); err != nil {
			t.Fatal(err)
		}
	}
	healthy(t, tr)
	v.want(t, "parents", v.ids(t, tr.Parents(ctx, "Databases")), "Programming", "Servers")
	v.want(t, "children", v.ids(t, tr.Children(ctx, "Servers")), "Databases")
	v.want(t, "descendants", v.ids(t, tr.Descendants(ctx, "Software", nil)), "Servers", "Databases", "MongoDB")
	up, err := tr.Ancestors(ctx, "MongoDB")
	if err != nil || len(up) != 5 {
		t.Errorf("%v, %v", up, err)
	}
	v.want(t, "roots", v.ids(t, tr.Roots(ctx)), "Books", "Software")
	for _, link := range [][2]string{{"MongoDB", "Books"}, {"MongoDB", "Software"}, {"Databases", "Databases"}} {
		if err := tr.Link(ctx, link[0], link[1]); !errors.Is(err, tree.ErrCycle) {
			t.Errorf("link %v: %v", link, err)
		}
	}
	if err := tr.Link(ctx, "none", "Books"); !errors.Is(err, tree.ErrParentNotFound) {
		t.Error(err)
	}
	if err := tr.Link(ctx, "Books", "none"); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err)
	}
	if err := tr.Unlink(ctx, "Books", "MongoDB"); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Error(err)
	}
	if err := tr.Move(ctx, "MongoDB", tr.AsRoot()); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if _, err := tr.Insert(ctx, v.doc("x"), tr.Before("MongoDB")); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	for _, err := range tr.Dump(ctx) {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(err)
		}
	}
	sub, err := tr.Subtree(ctx, "Software", nil)
	if err != nil {
		t.Fatal(err)
	}
	v.wantTree(t, sub, "Software(Servers(Databases(MongoDB)))")

	// Databases has a parent outside, so it survives; Servers does not.
	if n, err := tr.Delete(ctx, "Software", tree.Cascade); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	healthy(t, tr)
	v.want(t, "parents", v.ids(t, tr.Parents(ctx, "Databases")), "Programming")
	if _, err := tr.Insert(ctx, v.doc("More"), tr.Under("Books")); err != nil {
		t.Fatal(err)
	}
	if err := tr.Link(ctx, "More", "Databases"); err != nil {
		t.Fatal(err)
	}
	if err := tr.Link(ctx, "More", "MongoDB"); err != nil {
		t.Fatal(err)
	}
	// Promoted to both parents, and to More only once.
	if n, err := tr.Delete(ctx, "Databases", tree.Promote); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	healthy(t, tr)
	v.want(t, "parents", v.ids(t, tr.Parents(ctx, "MongoDB")), "Programming", "More")
	if err := tr.Unlink(ctx, "More", "MongoDB"); err != nil {
		t.Fatal(err)
	}
	if err := tr.Unlink(ctx, "Programming", "MongoDB"); err != nil {
		t.Fatal(err)
	}
	v.want(t, "roots", v.ids(t, tr.Roots(ctx)), "Books", "MongoDB")
	healthy(t, tr)
}

// TestGraphOppositeLinks closes a cycle from both sides at once.
func TestGraphOppositeLinks(t *testing.T) {
	ctx := t.Context()
	_, tr := graph(t)
	for range 10 {
		var group sync.WaitGroup
		errs := make([]error, 2)
		for i, link := range [][2]string{{"MongoDB", "Software"}, {"Servers", "Books"}} {
			group.Go(func() { errs[i] = tr.Link(ctx, link[0], link[1]) })
		}
		group.Wait()
		won := slices.Index(errs, nil)
		if won < 0 || !errors.Is(errs[1-won], tree.ErrCycle) {
			t.Fatal(errs)
		}
		healthy(t, tr)
		link := [][2]string{{"MongoDB", "Software"}, {"Servers", "Books"}}[won]
		if err := tr.Unlink(ctx, link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGraphRepair(t *testing.T) {
	ctx := t.Context()
	v := variant{rep: tree.ChildReferences, opts: tree.Options{Graph: true}}
	coll := mongotest.Database(t).Collection("nodes")
	v.opts.MakeRoots = true
	tr := v.open(t, coll)
	docs := []any{
		dd("_id", "a", "children", bson.A{"b", "c"}),
		dd("_id", "b", "children", bson.A{"c"}),
		dd("_id", "c", "children", bson.A{"d", "gone"}),
		dd("_id", "d", "children", bson.A{"b"}),
	}
	if _, err := coll.InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	if got := v.kinds(t, tr, coll); !slices.Equal(got, []string{"cycle b", "cycle c", "cycle d", "dangling child c"}) {
		t.Errorf("%v", got)
	}
	if got, err := tr.Repair(ctx, nil); err != nil || got.Remaining != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	healthy(t, tr)
}
