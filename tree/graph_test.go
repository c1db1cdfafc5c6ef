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
		ok(t, tr.Link(ctx, "Servers", "Databases"))
	}
	healthy(t, tr)
	v.want(t, "parents", v.ids(t, tr.Parents(ctx, "Databases")), "Programming", "Servers")
	v.want(t, "children", v.ids(t, tr.Children(ctx, "Servers")), "Databases")
	v.want(t, "descendants", v.ids(t, tr.Descendants(ctx, "Software", 0)), "Servers", "Databases", "MongoDB")
	up, err := tr.Ancestors(ctx, "MongoDB")
	wrong(t, err != nil || len(up) != 5, "%v, %v", up, err)
	v.want(t, "roots", v.ids(t, tr.Roots(ctx)), "Books", "Software")
	for _, link := range [][2]string{{"MongoDB", "Books"}, {"MongoDB", "Software"}, {"Databases", "Databases"}} {
		is(t, tr.Link(ctx, link[0], link[1]), tree.ErrCycle)
	}
	is(t, tr.Link(ctx, "none", "Books"), mongopatterns.ErrNoParent)
	is(t, tr.Link(ctx, "Books", "none"), mongopatterns.ErrNotFound)
	is(t, tr.Unlink(ctx, "Books", "MongoDB"), mongopatterns.ErrNotFound)
	is(t, tr.Move(ctx, "MongoDB", tr.AsRoot()), mongopatterns.ErrInvalid)
	is(t, errOf(tr.Insert(ctx, v.doc("x"), tr.Before("MongoDB"))), mongopatterns.ErrInvalid)
	for _, err := range tr.Dump(ctx) {
		wrong(t, !errors.Is(err, mongopatterns.ErrInvalid), "%v", err)
	}
	sub := get(tr.Subtree(ctx, "Software", 0))(t)
	v.wantTree(t, sub, "Software(Servers(Databases(MongoDB)))")

	// Databases has a parent outside, so it survives; Servers does not.
	if n, err := tr.Delete(ctx, "Software", mongopatterns.Cascade); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	healthy(t, tr)
	v.want(t, "parents", v.ids(t, tr.Parents(ctx, "Databases")), "Programming")
	get(tr.Insert(ctx, v.doc("More"), tr.Under("Books")))(t)
	ok(t, tr.Link(ctx, "More", "Databases"))
	ok(t, tr.Link(ctx, "More", "MongoDB"))
	// Promoted to both parents, and to More only once.
	if n, err := tr.Delete(ctx, "Databases", mongopatterns.Promote); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	healthy(t, tr)
	v.want(t, "parents", v.ids(t, tr.Parents(ctx, "MongoDB")), "Programming", "More")
	ok(t, tr.Unlink(ctx, "More", "MongoDB"))
	ok(t, tr.Unlink(ctx, "Programming", "MongoDB"))
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
		ok(t, tr.Unlink(ctx, link[0], link[1]))
	}
}

func TestGraphRepair(t *testing.T) {
	t.Parallel()
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
	get(coll.InsertMany(ctx, docs))(t)
	if got := v.kinds(t, tr, coll); !slices.Equal(got, []string{"cycle b", "cycle c", "cycle d", "wrong field c"}) {
		t.Errorf("%v", got)
	}
	if got, err := tr.Repair(ctx, nil); err != nil || got.Remaining != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	healthy(t, tr)
}
