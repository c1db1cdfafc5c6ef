package tree_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

func TestNegativeOptions(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	v := plain(tree.AncestorArray, tree.Options{})
	tr := v.open(t, db.Collection("nodes"))
	to := v.open(t, db.Collection("copy"))
	insertAll(t, v, tr, books)
	deep, size := &tree.ReadOptions{MaxDepth: -1}, &tree.ReadOptions{BatchSize: -1}
	for want, call := range map[string]func() error{
		"adopt: invalid: AdoptOptions.BatchSize: negative":     func() error { return errOf(tr.Adopt(ctx, &tree.AdoptOptions{BatchSize: -1})) },
		"repair: invalid: RepairOptions.BatchSize: negative":   func() error { return errOf(tr.Repair(ctx, &tree.RepairOptions{BatchSize: -1})) },
		"convert: invalid: ConvertOptions.BatchSize: negative": func() error { return errOf(tree.Convert(ctx, tr, to, &tree.ConvertOptions{BatchSize: -1})) },
		"load: invalid: LoadOptions.BatchSize: negative": func() error {
			return errOf(tr.Load(ctx, nil, &tree.LoadOptions[string]{BatchSize: -1}))
		},
		"descendants: invalid: ReadOptions.MaxDepth: negative":         func() error { return drain(tr.Descendants(ctx, "Books", deep)) },
		"descendants: invalid: ReadOptions.BatchSize: negative":        func() error { return drain(tr.Descendants(ctx, "Books", size)) },
		"subtree: invalid: ReadOptions.MaxDepth: negative":             func() error { return errOf(tr.Subtree(ctx, "Books", deep)) },
		"subtree: invalid: ReadOptions.BatchSize: negative":            func() error { return errOf(tr.Subtree(ctx, "Books", size)) },
		"descendants filter: invalid: ReadOptions.MaxDepth: negative":  func() error { return errOf(tr.DescendantsFilter(ctx, "Books", deep)) },
		"descendants filter: invalid: ReadOptions.BatchSize: negative": func() error { return errOf(tr.DescendantsFilter(ctx, "Books", size)) },
	} {
		if err := call(); !errors.Is(err, tree.ErrInvalid) || err.Error() != "tree: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	cursor, err := db.Collection("nodes").Aggregate(ctx, append(tr.DescendantsPipeline("Books", deep), dd("$count", "n")))
	var rows []struct{ N int }
	if err == nil {
		err = cursor.All(ctx, &rows)
	}
	if err != nil || len(rows) != 1 || rows[0].N != 5 {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestLoadNothing(t *testing.T) {
	eachVariant(t, func(t *testing.T, _ variant, tr *trees, _ *mongo.Collection) {
		if got, err := tr.Load(t.Context(), nil, nil); err != nil || got != (tree.LoadResult{}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

type selfMade string

func (s selfMade) MarshalBSON() ([]byte, error) { return bson.Marshal(dd("_id", string(s))) }

func TestNoDocumentType(t *testing.T) {
	coll := mongotest.Database(t).Collection("nodes")
	for what, err := range map[string]error{
		"string": errOf(tree.New[string, string](coll, tree.AncestorArray, nil)),
		"*int":   errOf(tree.New[string, *int](coll, tree.AncestorArray, nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "T is "+what+",") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, err := range []error{
		errOf(tree.New[string, bson.Raw](coll, tree.AncestorArray, nil)),
		errOf(tree.New[string, any](coll, tree.AncestorArray, nil)),
		errOf(tree.New[string, *bson.D](coll, tree.AncestorArray, nil)),
		errOf(tree.New[string, selfMade](coll, tree.AncestorArray, nil)),
		errOf(tree.New[string, string](coll, tree.AncestorArray, &tree.Options{Registry: bson.NewRegistry()})),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestTextsOfIDs: in every message an ID is shown as what it is.
func TestTextsOfIDs(t *testing.T) {
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.AncestorArray, nil)
	plant(t, tr, bson.M{"_id": "7"}, nil)
	plant(t, tr, bson.M{"_id": 7}, nil)
	plant(t, tr, bson.M{"_id": 8}, 7)
	for want, err := range map[string]error{
		`node not found: "nix"`:                   errOf(tr.Subtree(ctx, "nix", nil)),
		`node not found: "no"`:                    errOf(tr.Depth(ctx, "no")),
		`node not found: 9`:                       errOf(tr.Ancestors(ctx, 9)),
		`node not found: 10`:                      errOf(tr.Breadcrumb(ctx, 10)),
		`node not found: 11`:                      errOf(tr.AncestorsFilter(ctx, 11)),
		`node not found: 12`:                      tr.Move(ctx, 12, tr.AsRoot()),
		`no common ancestor of "7" and 7`:         errOf(tr.LowestCommonAncestor(ctx, "7", 7)),
		`the node is a root and has no parent: 7`: errOf(tr.Parent(ctx, 7)),
		`no such parent: 13`:                      tr.Move(ctx, 7, tr.Under(13)),
		`node would lie under itself: 7`:          tr.Move(ctx, 7, tr.Under(8)),
		`node has children: 7`:                    errOf(tr.Delete(ctx, 7, tree.Restrict)),
		`AncestorArray has no segments`:           tr.Rename(ctx, 7, "x"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	changeDoc(t, coll, 8, dd("$set", dd("parent", "gone")))
	changeDoc(t, coll, "7", dd("$set", dd("ancestors", bson.A{7, "x"})))
	var got []string
	for p, err := range tr.Check(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.String())
	}
	if want := `8: orphan: no parent "gone"|"7": wrong ancestors: [{"$numberInt":"7"},"x"], the parents say []`; strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
	if s := (tree.Problem[func()]{Kind: tree.Orphan, HasID: true, Detail: "x"}).String(); !strings.HasSuffix(s, ": orphan: x") {
		t.Error(s)
	}
}

// TestNoCounter: a child counter that is no number.
func TestNoCounter(t *testing.T) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		t.Run(rep.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("nodes")
			v := plain(rep, tree.Options{ChildCountField: "n"})
			tr := v.open(t, coll)
			insertAll(t, v, tr, books[:2])
			changeDoc(t, coll, "Books", dd("$set", dd("n", "x")))
			insert := func() error { return errOf(tr.Insert(ctx, v.doc("new"), tr.Under("Books"))) }
			for what, err := range map[string]error{
				"insert": insert(),
				"move":   tr.Move(ctx, "Programming", tr.AsRoot()),
				"delete": errOf(tr.Delete(ctx, "Programming", tree.Restrict)),
			} {
				var server mongo.ServerError
				if err == nil || !strings.Contains(err.Error(), "n of the parent is not a number, run Repair") || !errors.As(err, &server) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if got, err := tr.Repair(ctx, nil); err != nil || got.Repaired != 1 {
				t.Errorf("%+v, %v", got, err)
			}
			if err := insert(); err != nil {
				t.Error(err)
			}
			healthy(t, tr)
		})
	}
}

func TestJSON(t *testing.T) {
	for want, v := range map[string]any{
		`{"id":"a","name":"A"}`:                                    tree.Crumb[string]{ID: "a", Name: "A"},
		`{"value":1,"children":[{"value":2}]}`:                     tree.Node[int]{Value: 1, Children: []*tree.Node[int]{{Value: 2}}},
		`{"inserted":1,"skipped":2}`:                               tree.LoadResult{Inserted: 1, Skipped: 2},
		`{"examined":3,"written":2,"unplaced":1}`:                  tree.ConvertResult{Examined: 3, Written: 2, Unplaced: 1},
		`{"examined":3,"repaired":2,"remaining":1}`:                tree.RepairResult{Examined: 3, Repaired: 2, Remaining: 1},
		`{"kind":"cycle","id":"a","hasId":true,"detail":"1 of 2"}`: tree.Problem[string]{Kind: tree.Cycle, ID: "a", HasID: true, Detail: "1 of 2"},
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// TestRefusedInTransaction: a caller's transaction goes on after a refusal.
func TestRefusedInTransaction(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		before := stored(t, coll)
		err := joined(t, coll, func(ctx context.Context) error {
			for _, c := range []struct{ got, want error }{
				{errOf(tr.Insert(ctx, v.doc("x"), tr.Under("none"))), tree.ErrParentNotFound},
				{tr.Move(ctx, "Books", tr.Under("dbm")), tree.ErrCycle},
				{tr.Move(ctx, "none", tr.AsRoot()), tree.ErrNotFound},
				{tr.Move(ctx, "dbm", tr.Under("none")), tree.ErrParentNotFound},
				{errOf(tr.Delete(ctx, "Books", tree.Restrict)), tree.ErrHasChildren},
				{errOf(tr.Delete(ctx, "none", tree.Cascade)), tree.ErrNotFound},
			} {
				if !errors.Is(c.got, c.want) {
					t.Errorf("%v, want %v", c.got, c.want)
				}
			}
			return errOf(coll.Database().Collection("other").InsertOne(ctx, dd("_id", 1)))
		})
		if err != nil {
			t.Error(err)
		}
		if n, err := coll.Database().Collection("other").CountDocuments(t.Context(), dd("_id", 1)); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if diff := cmp.Diff(before, stored(t, coll)); diff != "" {
			t.Error(diff)
		}
		healthy(t, tr)
	})
}
