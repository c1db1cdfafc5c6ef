package tree_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Siblings without an order, or with one that is no number, do not give two nodes the same.
func TestOrderBesideForeign(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("n")
	nodes := opened(t, coll, tree.AncestorArray, &tree.Options{OrderField: "o"})
	insert := func(id string, at tree.Position[string]) {
		t.Helper()
		if _, err := nodes.Insert(ctx, bson.M{"_id": id}, at); err != nil {
			t.Fatal(err)
		}
	}
	foreign := func(id string, more ...bson.E) {
		t.Helper()
		doc := append(bson.D{{Key: "_id", Value: id}, {Key: "parent", Value: "R"}, {Key: "ancestors", Value: bson.A{"R"}}}, more...)
		if _, err := coll.InsertOne(ctx, doc); err != nil {
			t.Fatal(err)
		}
	}
	insert("R", nodes.AsRoot())
	insert("a", nodes.Under("R"))
	insert("b", nodes.Under("R").First())
	foreign("c")
	insert("d", nodes.Under("R").First())
	foreign("e", bson.E{Key: "o", Value: "x"})
	insert("f", nodes.Under("R"))
	insert("g", nodes.Under("R"))
	var found []struct {
		ID string `bson:"_id"`
		O  int64
	}
	cursor, err := coll.Find(ctx, bson.M{"o": bson.M{"$type": "number"}, "parent": "R"})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	seen := map[int64]string{}
	for _, n := range found {
		if other := seen[n.O]; other != "" {
			t.Errorf("%s and %s have %d", other, n.ID, n.O)
		}
		seen[n.O] = n.ID
	}
	if err != nil || len(found) != 5 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestOrderBesideInsert: what gives nodes a position under a parent conflicts
// with an insertion there.
func TestOrderBesideInsert(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for rep, count := range map[tree.Representation]string{tree.ParentReferences: "", tree.AncestorArray: "n", tree.MaterializedPath: ""} {
		{
			for name, call := range map[string]func(ctx context.Context, tr *anyTree) error{
				"move":        func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "X", tr.Under("P")) },
				"move within": func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "K", tr.Under("P")) },
				"promote": func(ctx context.Context, tr *anyTree) error {
					_, err := tr.Delete(ctx, "L", mongopatterns.Promote)
					return err
				},
				"load": func(ctx context.Context, tr *anyTree) error {
					_, err := tr.Load(ctx, entriesOf[any]("_id", node("new")), tr.Under("P"), nil)
					return err
				},
			} {
				if !scale.Third(fmt.Sprint(rep, count, name)) {
					continue
				}
				t.Run(fmt.Sprint(rep, count, name), func(t *testing.T) {
					t.Parallel()
					coll := row()
					tr := newAny(t, coll, rep, &tree.Options{OrderField: "o", ChildCountField: count})
					for _, n := range [][2]any{{"P", nil}, {"X", nil}, {"K", "P"}, {"L", "P"}, {"L1", "L"}, {"L2", "L"}} {
						plant(t, tr, bson.M{"_id": n[0]}, n[1])
					}
					err := meanwhile(t, coll, func(ctx context.Context) error { return call(ctx, tr) }, func(ctx context.Context) error {
						_, err := tr.Insert(ctx, bson.M{"_id": "Y"}, tr.Under("P"))
						return err
					})
					wrong(t, err != nil, "%v", err)
					plant(t, tr, bson.M{"_id": "Z"}, "P")
					allRight(t, tr)
					untouched(t, coll)
				})
			}
		}
	}
}

// TestOrderAtTheEnds: beside an order near the ends of int64, which only other code writes, calls return an error and
// write nothing, or keep the order. Repair keeps the order and gives numbers that have room beside them.
func TestOrderAtTheEnds(t *testing.T) {
	t.Parallel()
	insert := func(at func(tr *anyTree) tree.Position[any]) func(context.Context, *anyTree) error {
		return func(ctx context.Context, tr *anyTree) error {
			_, err := tr.Insert(ctx, bson.M{"_id": "new"}, at(tr))
			return err
		}
	}
	remove := func(id string, policy mongopatterns.DeletePolicy) func(context.Context, *anyTree) error {
		return func(ctx context.Context, tr *anyTree) error {
			_, err := tr.Delete(ctx, id, policy)
			return err
		}
	}
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, &tree.Options{OrderField: "o"})
	// want are the children of P where the call is right: "" for one that must fail.
	for name, c := range map[string]struct {
		call                    func(ctx context.Context, tr *anyTree) error
		low, high, both, double string
	}{
		"last":     {insert(func(tr *anyTree) tree.Position[any] { return tr.Under("P") }), "a b c new", "", "", ""},
		"first":    {insert(func(tr *anyTree) tree.Position[any] { return tr.Under("P").First() }), "", "new a b c", "", "new a b c"},
		"before":   {insert(func(tr *anyTree) tree.Position[any] { return tr.Before("b") }), "", "", "", "a new b c"},
		"after":    {insert(func(tr *anyTree) tree.Position[any] { return tr.After("b") }), "a b new c", "", "", ""},
		"before a": {insert(func(tr *anyTree) tree.Position[any] { return tr.Before("a") }), "", "new a b c", "", "new a b c"},
		"after c":  {insert(func(tr *anyTree) tree.Position[any] { return tr.After("c") }), "a b c new", "", "", ""},
		"move":     {func(ctx context.Context, tr *anyTree) error { return tr.Move(ctx, "b", tr.After("c")) }, "a c b", "", "", ""},
		"load": {func(ctx context.Context, tr *anyTree) error {
			_, err := tr.Load(ctx, entriesOf[any]("_id", node("new")), tr.Under("P"), nil)
			return err
		}, "a b c new", "", "", ""},
		"promote": {remove("b", mongopatterns.Promote), "a b1 b2 c", "", "", "a b1 b2 c"},
		"unlink":  {remove("P", mongopatterns.Unlink), "", "", "", ""},
	} {
		for kind, w := range map[string]struct {
			a, c any
			want string
		}{
			"low":    {int64(math.MinInt64), int64(2), c.low},
			"high":   {int64(0), int64(math.MaxInt64), c.high},
			"both":   {int64(math.MinInt64), int64(math.MaxInt64), c.both},
			"double": {int64(0), 1e300, c.double},
			// A whole number, but not of a type that the library computes with.
			"decimal": {int64(0), bson.NewDecimal128(0x3040000000000000, 5), c.double},
		} {
			if !scale.Third(name + kind) {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				ctx := t.Context()
				get(coll.DeleteMany(ctx, bson.D{}))(t)
				putDocs(t, coll, dd("_id", "P", "parent", nil, "o", 0), dd("_id", "a", "parent", "P", "o", w.a), dd("_id", "b", "parent", "P", "o", int64(1)),
					dd("_id", "c", "parent", "P", "o", w.c), dd("_id", "b1", "parent", "b", "o", 0), dd("_id", "b2", "parent", "b", "o", 1<<16))
				children := func() string {
					var ids []string
					for n, err := range tr.Children(ctx, "P") {
						wrong(t, err != nil, "%v", err)
						ids = append(ids, fmt.Sprint(n["_id"]))
					}
					return strings.Join(ids, " ")
				}
				before := fmt.Sprint(stored(t, coll))
				err := c.call(ctx, tr)
				if w.want == "" {
					wrong(t, err == nil, "no error, and the children are %s", children())
					match(t, "after an error", before, fmt.Sprint(stored(t, coll)))
					_, err = tr.Repair(ctx, nil)
					wrong(t, err != nil || children() != "a b c", "Repair: %s, %v", children(), err)
					err = c.call(ctx, tr)
					wrong(t, err != nil, "after Repair: %v", err)
					allRight(t, tr)
					return
				}
				wrong(t, err != nil || children() != w.want, "%s, not %s, %v", children(), w.want, err)
				_, err = tr.Repair(ctx, nil)
				wrong(t, err != nil || children() != w.want, "Repair: %s, not %s, %v", children(), w.want, err)
				allRight(t, tr)
			})
		}
	}
}

// TestPromoteFarApart: children whose orders are far from each other do not fit in the place of their parent. That is an
// error before anything is written, and Repair gives them other orders.
func TestPromoteFarApart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.ParentReferences, &tree.Options{OrderField: "o"})
	for _, n := range [][2]any{{"P", nil}, {"a", "P"}, {"b", "P"}, {"c", "P"}, {"b1", "b"}, {"b2", "b"}} {
		plant(t, tr, bson.M{"_id": n[0]}, n[1])
	}
	for id, order := range map[string]int64{"b1": -4e18, "b2": 4e18} {
		get(coll.UpdateByID(ctx, id, bson.M{"$set": bson.M{"o": order}}))(t)
	}
	before := fmt.Sprint(stored(t, coll))
	_, err := tr.Delete(ctx, "b", mongopatterns.Promote)
	is(t, err, mongopatterns.ErrMalformed)
	match(t, "after an error", before, fmt.Sprint(stored(t, coll)))
	get(tr.Repair(ctx, nil))(t)
	get(tr.Delete(ctx, "b", mongopatterns.Promote))(t)
	var ids []string
	for n, err := range tr.Children(ctx, "P") {
		wrong(t, err != nil, "%v", err)
		ids = append(ids, fmt.Sprint(n["_id"]))
	}
	match(t, "children", "a b1 b2 c", strings.Join(ids, " "))
	allRight(t, tr)
}

// Orders of other code that are times in nanoseconds stay as they are, and give others a place beside them.
func TestOrdersInNanoseconds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.AncestorArray, &tree.Options{OrderField: "o"})
	const now = 1_800_000_000_000_000_000
	putDocs(t, coll, dd("_id", "P", "o", int64(now)), dd("_id", "a", "parent", "P", "o", int64(now+1_000_000)), dd("_id", "b", "parent", "P", "o", int64(now)),
		dd("_id", "c", "parent", "P", "o", int64(now+2_000_000)), dd("_id", "a1", "parent", "a", "o", int64(now)), dd("_id", "a2", "parent", "a", "o", int64(now+5)))
	orders := func() string {
		t.Helper()
		return fmt.Sprint(get(coll.Distinct(ctx, "o", bson.D{}).Raw())(t))
	}
	before := orders()
	get(tr.Adopt(ctx, nil))(t)
	match(t, "after Adopt", before, orders())
	get(tr.Insert(ctx, bson.M{"_id": "last"}, tr.Under("P")))(t)
	get(tr.Insert(ctx, bson.M{"_id": "between"}, tr.After("b")))(t)
	ok(t, tr.Move(ctx, "c", tr.Under("P").First()))
	get(tr.Delete(ctx, "a", mongopatterns.Promote))(t)
	var ids []string
	for n, err := range tr.Children(ctx, "P") {
		wrong(t, err != nil, "%v", err)
		ids = append(ids, fmt.Sprint(n["_id"]))
	}
	match(t, "children", "c b between a1 a2 last", strings.Join(ids, " "))
	allRight(t, tr)
}

// Beside an order with a fraction a whole number may lie on the wrong side: that is an error, and Repair mends it. So it
// does where siblings without an order find no room after the last one.
func TestOrdersThatRepairMends(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for name, orders := range map[string][2]any{"fractions": {1.5, 2.5}, "no room": {int64(math.MaxInt64 / 4), nil}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := newAny(t, coll, tree.ParentReferences, &tree.Options{OrderField: "o"})
			plant(t, tr, bson.M{"_id": "P"}, nil)
			for i, id := range []string{"a", "b"} {
				plant(t, tr, bson.M{"_id": id}, "P")
				if _, err := coll.UpdateByID(ctx, id, bson.M{"$set": bson.M{"o": orders[i]}}); err != nil {
					t.Fatal(err)
				}
			}
			insert := func() error {
				_, err := tr.Insert(ctx, bson.M{"_id": "new"}, tr.After("a"))
				return err
			}
			if err := insert(); name == "fractions" && !errors.Is(err, mongopatterns.ErrMalformed) {
				t.Errorf("after a fraction: %v", err)
			}
			_, err := tr.Repair(ctx, nil)
			wrong(t, err != nil, "%v", err)
			for problem, err := range tr.Check(ctx, nil) {
				t.Errorf("after Repair: %v %v", problem, err)
			}
			wrong(t, name == "fractions" && insert() != nil, "no room after Repair")
			var ids []string
			for n, err := range tr.Children(ctx, "P") {
				wrong(t, err != nil, "%v", err)
				ids = append(ids, fmt.Sprint(n["_id"]))
			}
			match(t, "children", "a new b", strings.Join(ids, " "))
		})
	}
}

// TestBesideNoOrder: a sibling without a number in the OrderField has no place before or after which another could be put.
// Such siblings are read in front of the others (null, missing) or behind them (a text).
func TestBesideNoOrder(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for name, change := range map[string]bson.D{
		"missing": dd("$unset", dd("o", "")), "null": dd("$set", dd("o", nil)), "text": dd("$set", dd("o", "1")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := newAny(t, coll, tree.ParentReferences, &tree.Options{OrderField: "o"})
			for _, n := range [][2]any{{"P", nil}, {"low", "P"}, {"odd", "P"}, {"high", "P"}} {
				plant(t, tr, bson.M{"_id": n[0]}, n[1])
			}
			testkit.Update(t, coll, dd("_id", "low"), dd("$set", dd("o", int64(-1000))))
			testkit.Update(t, coll, dd("_id", "odd"), change)
			before := stored(t, coll)
			for _, at := range []tree.Position[any]{tr.Before("odd"), tr.After("odd")} {
				is(t, errOf(tr.Insert(ctx, bson.M{"_id": "new"}, at)), mongopatterns.ErrMalformed)
				is(t, tr.Move(ctx, "high", at), mongopatterns.ErrMalformed)
			}
			match(t, "after the refusal", before, stored(t, coll))
			get(tr.Repair(ctx, nil))(t)
			plant(t, tr, bson.M{"_id": "last"}, "P")
			ok(t, tr.Move(ctx, "high", tr.After("odd")))
			children := []any{}
			for doc, err := range tr.Children(ctx, "P") {
				ok(t, err)
				children = append(children, doc["_id"])
			}
			match(t, "children", []any{"low", "odd", "high", "last"}, children)
			allRight(t, tr)
		})
	}
}

// With a child count no write marks a parent, because a validator may refuse further fields.
func TestOrderWithValidator(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), mongotest.Database(t)
	ok(t, db.CreateCollection(ctx, "n", options.CreateCollection().SetValidator(dd("__touch", dd("$exists", false)))))
	nodes := opened(t, db.Collection("n"), tree.AncestorArray, &tree.Options{OrderField: "o", ChildCountField: "n"})
	get(nodes.Insert(ctx, bson.M{"_id": "R"}, nodes.AsRoot()))(t)
	for _, id := range []string{"a", "b", "c"} {
		get(nodes.Insert(ctx, bson.M{"_id": id}, nodes.Under("R")))(t)
	}
	ok(t, nodes.Move(ctx, "c", nodes.Under("a")))
	ok(t, nodes.Move(ctx, "b", nodes.Under("a").First()))
	get(nodes.Delete(ctx, "a", mongopatterns.Promote))(t)
	get(nodes.Load(ctx, func(yield func(tree.Entry[string, bson.M], error) bool) {
		yield(tree.Entry[string, bson.M]{Value: bson.M{"_id": "d"}}, nil)
	}, nodes.Under("R"), nil))(t)
	children := []any{}
	for doc, err := range nodes.Children(ctx, "R") {
		ok(t, err)
		children = append(children, doc["_id"])
	}
	match(t, "children", []any{"b", "c", "d"}, children)
	healthy(t, nodes)
}

// Promote adds to the orders of children. Those that are no whole numbers, it refuses before it writes.
func TestPromoteOddOrders(t *testing.T) {
	t.Parallel()
	row := rows(t)
	set := func(v any) bson.D { return dd("$set", dd("o", v)) }
	missing := dd("$unset", dd("o", ""))
	for name, odd := range map[string]struct {
		id     string
		change bson.D
	}{"a fraction": {"x", set(10.9)}, "missing": {"x", missing}, "a child's fraction": {"child", set(1.5)},
		"a child's null": {"child", set(nil)}, "a child's text": {"child", set("1")}, "a child's missing": {"child", missing}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := row()
			tr := newAny(t, coll, tree.ParentReferences, &tree.Options{OrderField: "o"})
			plant(t, tr, bson.M{"_id": "P"}, nil)
			plant(t, tr, bson.M{"_id": "x"}, "P")
			plant(t, tr, bson.M{"_id": "child"}, "x")
			testkit.Update(t, coll, bson.M{"_id": odd.id}, odd.change)
			before := stored(t, coll)
			is(t, errOf(tr.Delete(ctx, "x", mongopatterns.Promote)), mongopatterns.ErrMalformed)
			match(t, "after the refusal", before, stored(t, coll))
		})
	}
}
