package tree_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

var arrayParents = []bson.A{{"a", "b"}, {nil}, {}}

// TestArrayParent: an array as a parent, in a tree that was adopted.
func TestArrayParent(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range some() {
		if v.rep == tree.ChildReferences || v.rep == tree.MaterializedPath {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"a", ""}, {"b", ""}, {"c", "a"}, {"d", "c"}, {"e", "a"}})
			field := "parent"
			if v.opts.ParentField != "" {
				field = v.opts.ParentField
			}
			for _, parent := range arrayParents {
				get(coll.UpdateOne(ctx, tr.Filter("c"), dd("$set", dd(field, parent))))(t)
				if found := v.kinds(t, tr, coll); !slices.Contains(found, "orphan c") {
					t.Errorf("%v: %v", parent, found)
				}
				if got, err := tr.Repair(ctx, nil); err != nil || got.Remaining != 1 {
					t.Errorf("%v: %+v, %v", parent, got, err)
				}
				var doc bson.M
				if err := coll.FindOne(ctx, tr.Filter("c")).Decode(&doc); err != nil || !cmp.Equal(doc[field], any(parent)) {
					t.Errorf("%v became %v, %v", parent, doc[field], err)
				}
				if _, err := tr.Insert(ctx, v.doc("x"), tr.Before("c")); err == nil {
					t.Errorf("%v: an insertion beside it", parent)
				}
			}
			good(t, errOf(v.rooting(t, coll).Repair(ctx, nil)))
			healthy(t, tr)
			v.want(t, "roots", sorted(v.ids(t, tr.Roots(ctx))), "a", "b", "c")
		})
	}
}

// TestPatternInData: a regular expression that somebody typed by hand, as a parent, among children or ancestors, or as
// an ID, names no node. The server would take it for a pattern that all IDs match.
func TestPatternInData(t *testing.T) {
	t.Parallel()
	row := rows(t)
	all := bson.Regex{Pattern: "."}
	sku := variant{name: "parent, sku", rep: tree.ParentReferences, opts: tree.Options{IDField: "sku"}}
	for _, c := range []struct {
		v    variant
		by   bson.D // of B, in C(D) under B under A; Z(Y) is beside
		lost bool   // B is an orphan
	}{
		{variants()[0], dd("parent", all), true},
		{variants()[1], dd("children", bson.A{"C", all}), false},
		{variant{name: "children, graph", rep: tree.ChildReferences, opts: tree.Options{Graph: true}}, dd("children", bson.A{all, "C"}), false},
		{variants()[2], dd("parent", all), true},
		{variants()[2], dd("ancestors", bson.A{"A", all}), false},
		{variants()[3], dd("path", all), true},
		{variants()[4], dd("parent", all), true},
		{variants()[9], dd("slug", all), false},
		{sku, dd("parent", all), true},
	} {
		t.Run(c.v.name+" "+c.by[0].Key, func(t *testing.T) {
			t.Parallel()
			ctx, v := t.Context(), c.v
			coll := row()
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", "A"}, {"C", "B"}, {"D", "C"}, {"Z", ""}, {"Y", "Z"}})
			before := stored(t, coll)
			get(coll.UpdateOne(ctx, dd(v.idField(), "B"), dd("$set", c.by)))(t)
			none := func(what string, ids []string, err error, allowed ...string) {
				t.Helper()
				for _, id := range ids {
					wrong(t, !slices.Contains(allowed, id), "%s: %s", what, id)
				}
				wrong(t, err != nil && !errors.Is(err, mongopatterns.ErrNotFound) && !errors.Is(err, mongopatterns.ErrNotAdopted) && !errors.Is(err, mongopatterns.ErrInvalid), "%s: %v", what, err)
			}
			for _, id := range []string{"B", "C", "D"} {
				up, err := tr.Ancestors(ctx, id)
				var ids []string
				for _, doc := range up {
					ids = append(ids, doc[v.idField()].(string))
				}
				none("ancestors of "+id, ids, err, "A", "B", "C")
				if id != "B" && v.rep != tree.MaterializedPath {
					wrong(t, len(ids) == 0 || ids[len(ids)-1] != map[string]string{"C": "B", "D": "C"}[id], "ancestors of %s: %v", id, ids)
				}
				none("parents of "+id, v.ids(t, tr.Parents(ctx, id)), nil, "A", "B", "C")
				none("descendants of "+id, v.ids(t, tr.Descendants(ctx, id, 0)), nil, "C", "D")
				none("children of "+id, v.ids(t, tr.Children(ctx, id)), nil, "C", "D")
				none("siblings of "+id, v.ids(t, tr.Siblings(ctx, id)), nil)
				filter, err := tr.DescendantsFilter(ctx, id, 0)
				if err == nil {
					for _, doc := range get(find(ctx, coll, filter))(t) {
						none("descendants filter of "+id, []string{doc[v.idField()].(string)}, nil, "C", "D")
					}
				}
				if filter, err = tr.ChildrenFilter(ctx, id); err == nil {
					for _, doc := range get(find(ctx, coll, filter))(t) {
						none("children filter of "+id, []string{doc[v.idField()].(string)}, nil, "C", "D")
					}
				}
			}
			none("descendants of A", v.ids(t, tr.Descendants(ctx, "A", 0)), nil, "B", "C", "D")
			found := problems(t, tr)
			wrong(t, len(found) == 0, "Check finds nothing")
			for _, p := range found {
				wrong(t, strings.Contains(p, "cycle"), "%s", p)
			}
			// Z is not above D, whatever matches.
			if !v.opts.Graph {
				err := tr.Move(ctx, "Z", tr.Under("D"))
				none("move", nil, err)
				if err == nil {
					ok(t, tr.Move(ctx, "Z", tr.AsRoot()))
				}
			}
			get(v.rooting(t, coll).Repair(ctx, nil))(t)
			if after := problems(t, tr); len(after) > 0 && v.opts.SegmentField == "" {
				t.Errorf("after Repair: %v", after)
			}
			if !c.lost && v.opts.SegmentField == "" && !v.opts.Graph {
				match(t, "repaired", before, stored(t, coll))
			}
			get(tr.Delete(ctx, "D", mongopatterns.Cascade))(t)
			wrong(t, len(stored(t, coll)) != 5, "Cascade of D: %v", stored(t, coll))
		})
	}
}

func find(ctx context.Context, coll *mongo.Collection, match bson.D) (docs []bson.M, err error) {
	cur, err := coll.Find(ctx, match)
	if err != nil {
		return docs, err
	}
	err = cur.All(ctx, &docs)
	return docs, err
}

// TestPatternForID: a node with a regular expression for an ID is named, and stands for no other.
func TestPatternForID(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.NestedSets} {
		t.Run(rep.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			v := variant{name: "sku", rep: rep, opts: tree.Options{IDField: "sku"}}
			coll := row()
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", "A"}, {"C", "B"}, {"Z", ""}})
			all := bson.Regex{Pattern: "."}
			get(coll.UpdateOne(ctx, dd("sku", "B"), dd("$set", dd("sku", all))))(t)
			wrong(t, !strings.Contains(strings.Join(problems(t, tr), "\n"), "an _id cannot be a regular expression"), "%v", problems(t, tr))
			got := get(tr.CountDescendants(ctx, "A", 0))(t)
			wrong(t, got > 2, "%d descendants", got)
			n, err := tr.Delete(ctx, "A", mongopatterns.Cascade)
			left := get(coll.CountDocuments(ctx, dd("sku", "Z")))(t)
			wrong(t, left != 1, "Cascade deletes %d, %v, and Z", n, err)
		})
	}
}

// TestArrayForID: a node with an array for an ID is named, and no call for an ID that the array holds reads or writes it.
func TestArrayForID(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for rep := tree.ParentReferences; rep <= tree.NestedSets; rep++ {
		t.Run(rep.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			v := variant{name: "sku", rep: rep, opts: tree.Options{IDField: "sku"}}
			coll := row()
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"A", ""}, {"B", "A"}, {"Z", ""}})
			get(coll.UpdateOne(ctx, dd("sku", "B"), dd("$set", dd("sku", bson.A{"B", "X"}))))(t)
			wrong(t, !strings.Contains(strings.Join(problems(t, tr), "\n"), "an _id cannot be an array"), "%v", problems(t, tr))
			before := stored(t, coll)
			for _, id := range []string{"B", "X"} {
				wrong(t, len(get(find(ctx, coll, tr.Filter(id)))(t)) != 0, "Filter of %s", id)
				for call, err := range map[string]error{
					"Subtree": errorOf(tr.Subtree(ctx, id, 0)),
					"Insert":  errorOf(tr.Insert(ctx, v.doc("new"), tr.Under(id))),
					"Move":    tr.Move(ctx, id, tr.AsRoot()),
					"Move to": tr.Move(ctx, "Z", tr.Under(id)),
					"Delete":  errorOf(tr.Delete(ctx, id, mongopatterns.Cascade)),
				} {
					wrong(t, !errors.Is(err, mongopatterns.ErrNotFound), "%s of %s: %v", call, id, err)
				}
			}
			wrong(t, fmt.Sprint(stored(t, coll)) != fmt.Sprint(before), "%v, before %v", stored(t, coll), before)
		})
	}
}

func errorOf[V any](_ V, err error) error { return err }

// TestIDTypes has IDs of other types than strings: in the small run each type in one or two representations, and each
// representation with two types.
func TestIDTypes(t *testing.T) {
	row := rows(t)
	a, b, c := bson.NewObjectID(), bson.NewObjectID(), bson.NewObjectID()
	t.Run("ObjectID", func(t *testing.T) { idType(t, row, 0, a, b, c, false) })
	t.Run("dollar", func(t *testing.T) { idType(t, row, 1, "$name", "$$ROOT", "$_id", false) })
	t.Run("int", func(t *testing.T) { idType(t, row, 2, 1, 2, math.MaxInt, false) })
	t.Run("int64", func(t *testing.T) { idType(t, row, 3, int64(1), -2, 3, false) })
	t.Run("UUID", func(t *testing.T) {
		id := func(n byte) bson.Binary { return bson.Binary{Subtype: 4, Data: append(make([]byte, 15), n)} }
		idType(t, row, 4, id(1), id(2), id(3), true)
	})
	type compound struct{ Region, Code string }
	t.Run("document", func(t *testing.T) {
		idType(t, row, 5, compound{"eu", "1"}, compound{"eu", "2"}, compound{"$where", "1"}, true)
	})
}

func idType[ID any](t *testing.T, row func() *mongo.Collection, nth int, a, b, c ID, noSegment bool) {
	for rep := tree.ParentReferences; rep <= tree.NestedSets; rep++ {
		refused := rep == tree.MaterializedPath && noSegment
		if !refused && !scale.Turn(nth+int(rep), 3) {
			continue
		}
		t.Run(rep.String(), func(t *testing.T) {
			ctx := t.Context()
			tr := get(tree.New[ID, bson.M](row(), rep, nil))(t)
			_, err := tr.Insert(ctx, bson.M{"_id": a}, tr.AsRoot())
			if refused {
				is(t, err, mongopatterns.ErrInvalid)
				return
			}
			ok(t, err)
			for _, p := range [][2]ID{{b, a}, {c, b}} {
				id, err := tr.Insert(ctx, bson.M{"_id": p[0]}, tr.Under(p[1]))
				if err != nil || !cmp.Equal(id, p[0]) {
					t.Fatal(id, err)
				}
			}
			for _, pos := range []tree.Position[ID]{tr.AsRoot(), tr.Under(a)} { // with c below
				ok(t, tr.Move(ctx, b, pos))
			}
			crumbs, err := tr.Breadcrumb(ctx, c)
			if err != nil || len(crumbs) != 3 || !cmp.Equal([]ID{crumbs[0].ID, crumbs[1].ID, crumbs[2].ID}, []ID{a, b, c}) {
				t.Errorf("%v, %v", crumbs, err)
			}
			ok(t, tr.Move(ctx, c, tr.Under(a)))
			ok(t, tr.Move(ctx, b, tr.Under(c)))
			is(t, tr.Move(ctx, a, tr.Under(b)), tree.ErrCycle)
			if d, err := tr.Ancestors(ctx, b); err != nil || len(d) != 2 {
				t.Errorf("%v, %v", d, err)
			}
			for p, err := range tr.Check(ctx, nil) {
				t.Errorf("%v %v", p, err)
			}
		})
	}
}

func TestInvalidIDs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := get(tree.New[any, bson.M](coll, tree.ParentReferences, nil))(t)
	get(tr.Insert(ctx, bson.M{"_id": "root"}, tr.AsRoot()))(t)
	for _, id := range []any{nil, bson.A{1}, bson.Regex{Pattern: "."}, make(chan int)} {
		if _, err := tr.Insert(ctx, bson.M{"_id": "x"}, tr.Under(id)); err == nil {
			t.Errorf("insert under %v", id)
		}
		if _, err := tr.Insert(ctx, bson.M{"_id": id}, tr.AsRoot()); err == nil {
			t.Errorf("insert %v", id)
		}
		if err := tr.Move(ctx, id, tr.AsRoot()); err == nil {
			t.Errorf("move %v", id)
		}
		if _, err := tr.Delete(ctx, id, mongopatterns.Cascade); err == nil {
			t.Errorf("delete %v", id)
		}
		n := 0
		for _, err := range tr.Children(ctx, id) {
			wrong(t, err == nil, "children of %v", id)
			n++
		}
		wrong(t, n != 1, "children of %v: %d results", id, n)
		if _, err := tr.ChildrenFilter(ctx, id); err == nil {
			t.Errorf("filter of %v", id)
		}
		if _, ok := id.(chan int); ok {
			continue
		}
		cur := get(coll.Aggregate(ctx, tr.ChildrenPipeline(id)))(t)
		wrong(t, cur.Next(ctx), "pipeline of %v finds %v", id, cur.Current)
	}
	// Operators are no ID.
	evil := bson.D{{Key: "$gt", Value: ""}}
	is(t, errOf(tr.Ancestors(ctx, evil)), mongopatterns.ErrInvalid)
	id, err := tr.Insert(ctx, bson.M{"name": "no id"}, tr.Under("root"))
	if _, ok := id.(bson.ObjectID); err != nil || !ok {
		t.Errorf("%v, %v", id, err)
	}
}

func TestEmptyID(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, variants()), func(t *testing.T, v variant, tr *trees, _ *mongo.Collection) {
		ctx := t.Context()
		doc := v.doc("x")
		doc[v.idField()] = ""
		want := v.idField() + ": an empty string"
		if _, err := tr.Insert(ctx, doc, tr.AsRoot()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("insert: %v", err)
		}
		if _, err := tr.Load(ctx, entriesOf[string]("_id", &tree.Node[bson.M]{Value: doc}), tr.AsRoot(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load: %v", err)
		}
		if _, err := tr.Insert(ctx, v.doc("x"), tr.Under("none")); err == nil || !strings.Contains(err.Error(), v.idField()+` "none": no such parent`) {
			t.Errorf("insert under nothing: %v", err)
		}
	})
}

// TestForeignID: the driver decodes a string of hex digits as an ObjectID. A node that other code stored under such a
// string would be shown with the ID of no node, or of another one.
func TestForeignID(t *testing.T) {
	t.Parallel()
	row := rows(t)
	root, leaf := bson.NewObjectID(), bson.NewObjectID()
	foreign := bson.NewObjectID().Hex()
	for rep, fields := range map[tree.Representation][3]bson.D{
		tree.ParentReferences: {dd("parent", nil), dd("parent", root), dd("parent", foreign)},
		tree.ChildReferences:  {dd("children", bson.A{foreign}), dd("children", bson.A{leaf}), dd("children", bson.A{})},
		tree.AncestorArray: {dd("ancestors", bson.A{}), dd("parent", root, "ancestors", bson.A{root}),
			dd("parent", foreign, "ancestors", bson.A{root, foreign})},
		tree.NestedSets: {dd("left", 1, "right", 6), dd("parent", root, "left", 2, "right", 5),
			dd("parent", foreign, "left", 3, "right", 4)},
	} {
		t.Run(rep.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := get(tree.New[bson.ObjectID, bson.M](coll, rep, &tree.Options{NameField: "name"}))(t)
			for i, id := range []any{root, foreign, leaf} {
				get(coll.InsertOne(ctx, append(dd("_id", id, "name", string(rune('a'+i))), fields[i]...)))(t)
			}
			is(t, errOf(tr.Breadcrumb(ctx, leaf)), mongopatterns.ErrMalformed)
			is(t, testkit.Drain(tr.Dump(ctx)), mongopatterns.ErrMalformed)
			is(t, errOf(tr.FindOrInsert(ctx, []string{"a", "b"}, nil)), mongopatterns.ErrMalformed)
		})
	}
}

// TestForeignSegment: a segment that is no ID of the tree's type names no node, and not the documents that have no ID.
func TestForeignSegment(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := get(tree.New[int, bson.M](coll, tree.MaterializedPath, &tree.Options{IDField: "sku"}))(t)
	get(coll.InsertOne(ctx, dd("note", "without an ID")))(t)
	get(coll.InsertOne(ctx, dd("sku", 1, "path", nil)))(t)
	get(coll.InsertOne(ctx, dd("sku", 7, "path", ",1,abc,")))(t)
	if above := get(tr.Ancestors(ctx, 7))(t); len(above) != 1 || above[0]["sku"] != int32(1) {
		t.Errorf("ancestors: %v", above)
	}
	if crumbs := get(tr.Breadcrumb(ctx, 7))(t); len(crumbs) != 2 || crumbs[1].ID != 7 {
		t.Errorf("breadcrumb: %v", crumbs)
	}
	is(t, errOf(tr.Parent(ctx, 7)), mongopatterns.ErrNoParent)
}

// Nodes on a cycle can have IDs of several numeric types.
func TestCycleOfNumbers(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray} {
		t.Run(rep.String(), func(t *testing.T) {
			t.Parallel()
			coll := row()
			tr := newAny(t, coll, rep, &tree.Options{MakeRoots: true})
			ids := []any{int32(1), bson.NewDecimal128(0x3040000000000000, 2), 2.5}
			for i, id := range ids {
				before := ids[(i+2)%3]
				testkit.Insert(t, coll, dd("_id", id, "parent", before, "ancestors", bson.A{before}, "children", bson.A{ids[(i+1)%3]}))
			}
			found := 0
			for p, err := range tr.Check(t.Context(), nil) {
				wrong(t, err != nil, "%v", err)
				if p.Kind == tree.Cycle {
					found++
				}
			}
			wrong(t, found == 0, "no cycle is found")
			get(tr.Repair(t.Context(), nil))(t)
			allRight(t, tr)
		})
	}
}

// TestTwiceOneName: $graphLookup does not find a document with two fields of one name, so that it cannot be an ID.
func TestTwiceOneName(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, id := range []bson.D{dd("a", 1, "a", 2), dd("b", dd("a", 1, "a", 2)), dd("b", bson.A{dd("a", 1, "a", 2)})} {
		coll := row()
		tr := newAny(t, coll, tree.ParentReferences, nil)
		_, err := tr.Insert(t.Context(), bson.M{"_id": id}, tr.AsRoot())
		is(t, err, mongopatterns.ErrInvalid)
		putDocs(t, coll, dd("_id", id, "parent", nil))
		found := 0
		for p, err := range tr.Check(t.Context(), nil) {
			found++
			wrong(t, err != nil || p.Kind != mongopatterns.WrongField || p.Field != "_id", "%v, %v", p, err)
		}
		wrong(t, found != 1, "%d problems", found)
	}
}
