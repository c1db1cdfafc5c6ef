package tree_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

const (
	fam    = "findAndModify" // of the lock document first
	commit = "commitTransaction"
)

// cost is what a call may take: round trips, and documents written without the lock document.
// Its tables have representations side by side, which send different commands; a costs.Case names them.
type cost struct{ trips, writes int }

func spent(c mongotest.Commands) cost {
	out := cost{trips: c.RoundTrips()}
	for _, command := range c {
		if !strings.HasSuffix(command.Collection, "_locks") {
			out.writes += mongotest.Commands{command}.DocumentsWritten()
		}
	}
	return out
}

func drain[V any](seq func(func(V, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func errOf[V any](_ V, err error) error { return err }

// A path that is there costs FindOrInsert a round trip for each name.
func TestFindOrInsertCosts(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, some()), func(t *testing.T, v variant, _ *trees, coll *mongo.Collection) {
		v.opts.NameField = "title"
		tr := v.open(t, coll)
		names := []string{"a", "b", "c"}
		get(tr.FindOrInsert(t.Context(), names, func(name string) (bson.M, error) {
			doc := v.doc(name)
			doc["title"] = name
			return doc, nil
		}))(t)
		for n := range len(names) {
			var err error
			got := mongotest.Record(t, coll.Database(), func() { err = errOf(tr.FindOrInsert(t.Context(), names[:n+1], nil)) })
			wrong(t, err != nil || spent(got) != (cost{n + 1, 0}), "%v: %v, %v", names[:n+1], got.Names(), err)
		}
	})
}

// TestReadCosts: one round trip each, whatever the representation, found by an
// index unless the documentation says otherwise.
func TestReadCosts(t *testing.T) {
	t.Parallel()
	each(t, oneOfEach(t, some()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		db := coll.Database()
		insertAll(t, v, tr, books)
		insertAll(t, v, tr, [][2]string{{"Films", ""}})
		var many [][2]string // more than the first batch of a cursor
		for i := range 110 {
			many = append(many, [2]string{fmt.Sprintf("m%d", i), "Languages"})
		}
		get(tr.Load(ctx, v.entries(many), tr.AsRoot(), nil))(t)
		scans := map[string]bool{"Leaves": true, "Forest": true}
		if v.rep == tree.ChildReferences {
			scans["Roots"] = true
		}
		for name, fn := range map[string]func() error{
			"Parent":                func() error { return errOf(tr.Parent(ctx, "dbm")) },
			"Parents":               func() error { return drain(tr.Parents(ctx, "dbm")) },
			"Children":              func() error { return drain(tr.Children(ctx, "Languages")) },
			"Siblings":              func() error { return drain(tr.Siblings(ctx, "m1")) },
			"Roots":                 func() error { return drain(tr.Roots(ctx)) },
			"Leaves":                func() error { return drain(tr.Leaves(ctx)) },
			"Ancestors":             func() error { return errOf(tr.Ancestors(ctx, "dbm")) },
			"Descendants":           func() error { return drain(tr.Descendants(ctx, "Databases", 0)) },
			"Descendants to 2":      func() error { return drain(tr.Descendants(ctx, "Books", 2)) },
			"IsDescendant":          func() error { return errOf(tr.IsDescendant(ctx, "dbm", "Books")) },
			"Breadcrumb":            func() error { return errOf(tr.Breadcrumb(ctx, "dbm")) },
			"Subtree":               func() error { return errOf(tr.Subtree(ctx, "Books", 0)) },
			"Preorder":              func() error { return drain(tr.Preorder(ctx, "Books", 0)) },
			"Forest":                func() error { return errOf(tr.Forest(ctx)) },
			"CountDescendants to 1": func() error { return errOf(tr.CountDescendants(ctx, "Languages", 1)) },
			"CountDescendants":      func() error { return errOf(tr.CountDescendants(ctx, "Books", 0)) },
		} {
			var err error
			got := mongotest.Record(t, db, func() { err = fn() })
			if err != nil || spent(got) != (cost{1, 0}) {
				t.Errorf("%s: %v %v, %v", name, spent(got), got.Names(), err)
				continue
			}
			if !scans[name] {
				v.indexed(t, db, name, got[0].Body)
			}
			if v.rep == tree.AncestorArray || v.rep == tree.MaterializedPath && v.opts.SegmentField == "" {
				if name == "IsDescendant" && got[0].Name != "find" {
					t.Errorf("%s: %v", name, got.Names())
				}
			}
			if plan := mongotest.Explain(t, db, got[0].Body); v.rep == tree.AncestorArray && name == "Descendants" && plan.Has("SORT") {
				t.Errorf("%s does not stream: %v", name, plan)
			}
		}

		// Filters: free where nothing has to be read first.
		filters := map[string]func() (bson.D, error){
			"ChildrenFilter":    func() (bson.D, error) { return tr.ChildrenFilter(ctx, "Databases") },
			"DescendantsFilter": func() (bson.D, error) { return tr.DescendantsFilter(ctx, "Programming", 0) },
			"AncestorsFilter":   func() (bson.D, error) { return tr.AncestorsFilter(ctx, "dbm") },
			"RootsFilter":       func() (bson.D, error) { return tr.RootsFilter(ctx) },
		}
		reads := map[string]map[tree.Representation]int{
			"ChildrenFilter":    {tree.ChildReferences: 1, tree.MaterializedPath: 1},
			"DescendantsFilter": {tree.ParentReferences: 1, tree.ChildReferences: 1, tree.MaterializedPath: 1, tree.NestedSets: 1},
			"AncestorsFilter":   {tree.ParentReferences: 1, tree.ChildReferences: 1, tree.AncestorArray: 1, tree.MaterializedPath: 1, tree.NestedSets: 1},
			"RootsFilter":       {tree.ChildReferences: 1},
		}
		used := map[tree.Representation]map[string]string{
			tree.ParentReferences: {"ChildrenFilter": "parent", "RootsFilter": "parent"},
			tree.AncestorArray:    {"ChildrenFilter": "parent", "DescendantsFilter": "ancestors", "RootsFilter": "parent"},
			tree.MaterializedPath: {"ChildrenFilter": "path", "DescendantsFilter": "path", "RootsFilter": "path"},
			tree.NestedSets:       {"ChildrenFilter": "parent", "DescendantsFilter": "left", "RootsFilter": "parent"},
		}
		for name, fn := range filters {
			var match bson.D
			var err error
			got := mongotest.Record(t, db, func() { match, err = fn() })
			wrong(t, err != nil || spent(got) != (cost{reads[name][v.rep], 0}), "%s: %v, %v", name, spent(got), err)
			if index := used[v.rep][name]; index != "" {
				plan := mongotest.Explain(t, db, dd("find", coll.Name(), "filter", match))
				if v.opts.SegmentField == "" { // of two, either serves
					plan.RequireIndex(t, indexName(v, index))
				}
				if name == "DescendantsFilter" && (plan.KeysExamined > 115 || plan.Returned != 114) {
					t.Errorf("%s: %v", name, plan)
				}
			} else {
				raw := get(bson.Marshal(dd("find", coll.Name(), "filter", match)))(t)
				v.indexed(t, db, name, raw)
			}
		}

		// The first reply does not wait for the last node.
		if v.rep == tree.AncestorArray {
			got := mongotest.Record(t, db, func() {
				for range tr.Descendants(ctx, "Languages", 0) {
					break
				}
			})
			if n := len(got[0].Reply.Lookup("cursor", "firstBatch").Array()); got[0].Name != "find" || n == 0 {
				t.Errorf("first reply: %v", got)
			}
		}
		// 101 come first.
		got := mongotest.Record(t, db, func() {
			good(t, drain(tr.Descendants(ctx, "Languages", 0)))
		})
		if n := spent(got).trips; n != 2 {
			t.Errorf("110 descendants: %d round trips", n)
		}
		got = mongotest.Record(t, db, func() {
			good(t, tr.EnsureIndexes(ctx))
		})
		if n := spent(got).trips; n != 3 {
			t.Errorf("EnsureIndexes: %v", got.Names())
		}
	})
}

// indexed fails unless a command finds its documents by an index.
func (v variant) indexed(t testing.TB, db *mongo.Database, what string, command bson.Raw) {
	t.Helper()
	plan := mongotest.Explain(t, db, command)
	if !plan.Has("COLLSCAN") {
		return
	}
	t.Errorf("%s: %v", what, plan)
}

// indexName is the name of the variant's index that a kind of read uses.
func indexName(v variant, kind string) string {
	o := v.opts
	or := func(s, otherwise string) string {
		if s != "" {
			return s
		}
		return otherwise
	}
	prefix := ""
	for _, e := range o.Scope {
		prefix += e.Key + "_1_"
	}
	ordered := ""
	if o.OrderField != "" {
		ordered = "_" + o.OrderField + "_1"
	}
	switch kind {
	case "children":
		return prefix + or(o.ChildrenField, "children") + "_1"
	case "ancestors":
		return prefix + or(o.AncestorsField, "ancestors") + "_1"
	case "left":
		return prefix + or(o.LeftField, "left") + "_1_" + or(o.RightField, "right") + "_1"
	case "path":
		return prefix + or(o.PathField, "path") + "_1" + ordered
	}
	if v.rep == tree.NestedSets {
		ordered = "_" + or(o.LeftField, "left") + "_1"
	}
	return prefix + or(o.ParentField, "parent") + "_1" + ordered
}

// TestWriteCosts runs one script on the representations, without and with options, and compares each call with the
// documentation.
func TestWriteCosts(t *testing.T) {
	t.Parallel()
	// In the order of the script below; -1 writes is any number.
	base := map[tree.Representation][]cost{
		tree.ParentReferences: {{1, 1}, {3, 3}, {5, 1}, {4, 1}, {5, 1}, {4, 1}, {4, 1}, {5, 3}, {5, 4}, {4, 3}},
		tree.ChildReferences:  {{1, 1}, {3, 2}, {5, 2}, {4, 1}, {5, 1}, {4, 1}, {5, 2}, {5, 3}, {5, 2}, {6, 4}},
		tree.AncestorArray:    {{1, 1}, {3, 3}, {4, 3}, {4, 3}, {4, 3}, {4, 1}, {4, 1}, {5, 3}, {5, 4}, {4, 3}},
		tree.MaterializedPath: {{1, 1}, {3, 3}, {4, 3}, {4, 3}, {4, 3}, {4, 1}, {4, 1}, {5, 3}, {5, 4}, {4, 3}},
		tree.NestedSets:       {{5, 1}, {5, -1}, {4, -1}, {6, -1}, {4, -1}, {4, 1}, {5, -1}, {5, -1}, {7, -1}, {5, -1}},
	}
	// What OrderField with ChildCountField adds to the round trips; a counter alone is
	// part of writes that are done anyway.
	both := []int{3, 0, 1, 1, 1, 0, 1, 0, 1, 1}
	each(t, scale.Of(some(), variants(), variants()), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		insertAll(t, v, tr, books)
		insert := func(id string, pos tree.Position[string]) func() error {
			return func() error { return errOf(tr.Insert(ctx, v.doc(id), pos)) }
		}
		move := func(id string, pos tree.Position[string]) func() error {
			return func() error { return tr.Move(ctx, id, pos) }
		}
		remove := func(id string, policy mongopatterns.DeletePolicy) func() error {
			return func() error { return errOf(tr.Delete(ctx, id, policy)) }
		}
		more := func(nodes ...[2]string) { insertAll(t, v, tr, nodes) }
		for i, step := range []struct {
			name string
			call func() error
		}{
			{"insert a root", insert("r", tr.AsRoot())},
			{"insert under", insert("u", tr.Under("Books"))},
			{"move under", move("Databases", tr.Under("Books"))},
			{"move to a root", move("Databases", tr.AsRoot())},
			{"move from a root", move("Databases", tr.Under("Programming"))},
			{"delete refused", remove("Databases", mongopatterns.Restrict)},
			{"delete a leaf", remove("u", mongopatterns.Restrict)},
			{"delete and promote", remove("Databases", mongopatterns.Promote)},
			{"delete and make roots", remove("Programming", mongopatterns.Unlink)},
			{"delete all below", func() error {
				return remove("x", mongopatterns.Cascade)()
			}},
		} {
			if step.name == "delete all below" {
				more([2]string{"x", "Books"}, [2]string{"y", "x"}, [2]string{"z", "y"})
			}
			want := base[v.rep][i]
			switch {
			case v.opts.OrderField != "":
				want.trips += both[i]
				want.writes = -1
				if i == 1 {
					want = cost{4, 2} // with the counter 3, and the order
				}
			}
			if v.opts.SegmentField != "" && (i == 7 || i == 8) {
				want.writes = 2*want.writes - 1 // the nodes below by way of other paths
			}
			got := costs.Unfenced(mongotest.Record(t, coll.Database(), func() { _ = step.call() }))
			is := spent(got)
			if want.writes < 0 {
				is.writes = want.writes
			}
			wrong(t, is != want, "%s: %v, want %v: %v", step.name, spent(got), want, got.Names())
			for _, c := range got.Named("update", "findAndModify", "find", "delete") {
				if c.Collection != coll.Name() || c.Name == "update" && c.Body.Lookup("updates").Type == 0 {
					continue
				}
				v.indexed(t, coll.Database(), step.name+": "+c.Name, c.Body)
			}
		}
	})
}

// TestOrderCosts: next to a sibling, with and without room.
func TestOrderCosts(t *testing.T) {
	t.Parallel()
	with := slices.DeleteFunc(variants(), func(v variant) bool { return v.opts.OrderField == "" })
	each(t, with, func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		insertAll(t, v, tr, books)
		insert := func(id string) cost {
			return spent(mongotest.Record(t, coll.Database(), func() {
				good(t, errOf(tr.Insert(t.Context(), v.doc(id), tr.Before("dbm"))))
			}))
		}
		crowded := false
		for i := range 20 {
			switch got := insert(fmt.Sprint("i", i)); got {
			case cost{6, 2}:
			case cost{7, 3}: // dbm made room
				crowded = true
			default:
				t.Errorf("insertion %d: %v", i, got)
			}
		}
		wrong(t, !crowded, "%v", "there was always room")
		root := spent(mongotest.Record(t, coll.Database(), func() {
			good(t, errOf(tr.Insert(t.Context(), v.doc("root"), tr.Before("Books"))))
		}))
		wrong(t, root.trips != 5, "%v before a root", root)
		got := spent(mongotest.Record(t, coll.Database(), func() {
			good(t, tr.Move(t.Context(), "dbm", tr.Before("MongoDB")))
		}))
		if want := map[tree.Representation]int{tree.ParentReferences: 7}[v.rep]; want != 0 && got.trips != want || want == 0 && got.trips != 6 {
			t.Errorf("move: %v", got)
		}
	})
}

// TestMoveCosts: as many round trips for ten as for a thousand descendants.
func TestMoveCosts(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range variants()[:5] {
		t.Run(v.name, func(t *testing.T) {
			ctx := t.Context()
			coll := row()
			db := coll.Database()
			big := 1_100 // more than a batch
			if v.rep == tree.ParentReferences || v.rep == tree.ChildReferences {
				big = 300 // no descendant is written
			}
			tr := v.open(t, coll)
			insertAll(t, v, tr, [][2]string{{"Books", ""}, {"Films", ""}, {"small", "Books"}, {"big", "Books"}})
			for under, n := range map[string]int{"small": 10, "big": big} {
				var nodes [][2]string
				for i := range n {
					nodes = append(nodes, [2]string{fmt.Sprintf("%s%d", under, i), under})
				}
				get(tr.Load(ctx, v.entries(nodes), tr.AsRoot(), &mongopatterns.Work{BatchSize: 5000}))(t)
			}
			var took []cost
			var names [][]string
			for _, id := range []string{"small", "big"} {
				got := mongotest.Record(t, db, func() {
					good(t, tr.Move(ctx, id, tr.Under("Films")))
				})
				took, names = append(took, spent(got)), append(names, got.Names())
			}
			t.Logf("10 descendants: %v, %d: %v", took[0], big, took[1])
			wrong(t, !slices.Equal(names[0], names[1]), "%v for 10 descendants, %v for %d", names[0], names[1], big)
			for _, id := range []string{"small0", fmt.Sprintf("big%d", big-1)} {
				crumbs, err := tr.Breadcrumb(ctx, id)
				wrong(t, err != nil || len(crumbs) != 3 || crumbs[0].ID != "Films", "%v, %v", crumbs, err)
			}
		})
	}
}

// TestMaintenanceCosts: for a batch, and nothing written where nothing is wrong.
func TestMaintenanceCosts(t *testing.T) {
	t.Parallel()
	each(t, some(), func(t *testing.T, v variant, tr *trees, coll *mongo.Collection) {
		ctx := t.Context()
		db := coll.Database()
		within := func(name string, most cost, fn func() error) {
			t.Helper()
			var err error
			c := mongotest.Record(t, db, func() { err = fn() })
			if got := spent(c); err != nil || got.trips > most.trips || got.writes > most.writes {
				t.Errorf("%s: %v, at most %v, %v %v", name, got, most, c.Names(), err)
			}
		}
		load := cost{6, 41}
		if v.opts.OrderField != "" {
			load.trips++
		}
		if v.rep == tree.NestedSets {
			load = cost{8 + 4, 82}
		}
		insertAll(t, v, tr, [][2]string{{"root", ""}})
		within("Load", load, func() error {
			return errOf(tr.Load(ctx, v.entries(forest(40)), tr.Under("root"), nil))
		})
		within("Check", cost{6, 0}, func() error { return drain(tr.Check(ctx, nil)) })
		within("Repair", cost{5, 0}, func() error { return errOf(tr.Repair(ctx, nil)) })
		levels := 6
		within("Dump", cost{1 + 2*levels, 0}, func() error { return drain(tr.Dump(ctx)) })
		// One damaged node: looked at again under the lock.
		get(coll.UpdateOne(ctx, tr.Filter("n5"), damageOf(v)))(t)
		within("Repair of one", cost{5 + 6 + 4, 45}, func() error { return errOf(tr.Repair(ctx, nil)) })
		healthy(t, tr)
		sub := get(tr.Subtree(ctx, "n39", 0))(t)
		within("Load again", cost{4 + 4, 0}, func() error {
			return errOf(tr.Load(ctx, entriesOf[string](v.idField(), sub), tr.AsRoot(), nil))
		})
		if v.opts.IDField != "" {
			return
		}
		// Back from parent references.
		target := v
		target.rep = tree.AncestorArray
		target.opts = tree.Options{Scope: v.opts.Scope, AncestorsField: "lineage", ParentField: "above"}
		to := target.open(t, coll)
		within("Convert", cost{11, 42}, func() error { return errOf(tree.Convert(ctx, tr, to, nil)) })
		unsetOld(t, v, target, coll)
		within("Adopt", cost{5, 0}, func() error { return errOf(to.Adopt(ctx, nil)) })
		healthy(t, to)
	})
}

// damageOf breaks one node, or does nothing where one field cannot.
func damageOf(v variant) bson.D {
	switch v.rep {
	case tree.AncestorArray:
		if v.opts.AncestorsField != "" {
			return dd("$set", dd(v.opts.AncestorsField, bson.A{}))
		}
		return dd("$set", dd("ancestors", bson.A{}))
	case tree.ChildReferences:
		if v.opts.ChildrenField != "" {
			return dd("$push", dd(v.opts.ChildrenField, "gone"))
		}
		return dd("$push", dd("children", "gone"))
	case tree.NestedSets:
		if v.opts.LeftField != "" {
			return dd("$inc", dd(v.opts.LeftField, 1))
		}
		return dd("$inc", dd("left", 1))
	}
	if v.opts.ChildCountField != "" {
		return dd("$inc", dd(v.opts.ChildCountField, 1))
	}
	return dd("$set", dd("title", "x"))
}

func TestGraphCosts(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	v := variant{rep: tree.ChildReferences, opts: tree.Options{Graph: true}}
	tr := v.open(t, coll)
	insertAll(t, v, tr, books)
	costs.Run(t, coll.Database(), []costs.Case{
		{Name: "Link", Sends: []string{fam, "find", "aggregate", "update", commit}, Writes: 2,
			Call: func(ctx context.Context) error { return tr.Link(ctx, "Languages", "dbm") }},
		{Name: "Unlink", Sends: []string{fam, "find", "update", commit}, Writes: 2,
			Call: func(ctx context.Context) error { return tr.Unlink(ctx, "Languages", "dbm") }},
		{Name: "Parents", Sends: []string{"aggregate"}, Call: func(ctx context.Context) error { return drain(tr.Parents(ctx, "dbm")) }},
	})
}

// NestedSets: beside a sibling that is no root its parent is looked up, which is 1 round trip more.
func TestNestedSetsBesideCosts(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("n")
	sets := opened(t, coll, tree.NestedSets, nil)
	insert := func(id string, at tree.Position[string]) func(ctx context.Context) error {
		return func(ctx context.Context) error { return errOf(sets.Insert(ctx, bson.M{"_id": id}, at)) }
	}
	move := func(id string, at tree.Position[string]) func(ctx context.Context) error {
		return func(ctx context.Context) error { return sets.Move(ctx, id, at) }
	}
	for _, id := range []string{"A", "R"} {
		ok(t, insert(id, sets.AsRoot())(t.Context()))
	}
	costs.Run(t, coll.Database(), []costs.Case{
		{Name: "Insert under", Sends: []string{fam, "find", "update", "insert", commit}, Writes: 4, Call: insert("B", sets.Under("A"))},
		{Name: "Insert before", Sends: []string{fam, "find", "find", "update", "insert", commit}, Writes: 5, Call: insert("C", sets.Before("B"))},
		{Name: "Insert before a root", Sends: []string{fam, "find", "update", "insert", commit}, Writes: 6, Call: insert("D", sets.Before("A"))},
		{Name: "Move under", Sends: []string{fam, "find", "update", commit}, Writes: 6, Call: move("C", sets.Under("R"))},
		{Name: "Move after", Sends: []string{fam, "find", "find", "update", commit}, Writes: 5, Call: move("D", sets.After("B"))},
		{Name: "Move after a root", Sends: []string{fam, "find", "update", commit}, Writes: 4, Call: move("D", sets.After("A"))},
	})
}

// A Rename writes the subtree and the lock.
func TestRenameCosts(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	for i := range 100 {
		s.add(t, fmt.Sprintf("/books/s%d", i))
	}
	db := s.coll.Database()
	costs.Run(t, db, []costs.Case{
		{Name: "Rename", Sends: []string{fam, "find", "update", commit}, Writes: 2 + 1, Indexed: true,
			Call: func(ctx context.Context) error { return s.Rename(ctx, s.ids["/books/programming"], "p") }},
		{Name: "Ancestors", Sends: []string{"aggregate"}, Indexed: true, Call: func(ctx context.Context) error {
			return errOf(s.Ancestors(ctx, s.ids["/books/programming/databases"]))
		}, Check: func(cmds mongotest.Commands) {
			plan := mongotest.Explain(t, db, cmds[0].Body)
			wrong(t, plan.KeysExamined > 6, "%v", plan)
		}},
	})
}

// Where nodes are not adopted Cascade reads once more.
func TestUnadoptedCosts(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range late()[:4] {
		coll := row()
		tr := v.half(t, coll)
		want := map[tree.Representation]int{tree.ChildReferences: 6, tree.NestedSets: 6}[v.rep]
		got := mongotest.Record(t, coll.Database(), func() { good(t, errOf(tr.Delete(t.Context(), "C", mongopatterns.Cascade))) })
		wrong(t, got.RoundTrips() != max(want, 5), "%s: %v", v.name, got.Names())
	}
}

// An index spares Delete the roots of a forest.
func TestManyRootsCosts(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("nodes")
	v := plain(tree.MaterializedPath, tree.Options{})
	tr := v.open(t, coll)
	var roots [][2]string
	for i := range 300 {
		roots = append(roots, [2]string{fmt.Sprint("r", i), ""})
	}
	get(tr.Load(t.Context(), v.entries(roots), tr.AsRoot(), nil))(t)
	get(coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: dd("path", 1, "parent", 1)}))(t)
	remove := func(id string, policy mongopatterns.DeletePolicy, sends ...string) costs.Case {
		call := func(ctx context.Context) error { return errOf(tr.Delete(ctx, id, policy)) }
		return costs.Case{Name: policy.String(), Sends: sends, Writes: 1 + 1, Call: call, Check: func(cmds mongotest.Commands) {
			for _, find := range cmds.Named("find") {
				plan := mongotest.Explain(t, coll.Database(), find.Body)
				wrong(t, plan.KeysExamined > 10, "%v: %v", policy, plan)
			}
		}}
	}
	costs.Run(t, coll.Database(), []costs.Case{
		remove("r7", mongopatterns.Restrict, fam, fam, "find", commit),
		remove("r8", mongopatterns.Cascade, fam, "find", "delete", commit),
		remove("r9", mongopatterns.Promote, fam, fam, "find", commit),
	})
}

// TestDeepChain: maintenance is linear in the nodes, not in the sum of their depths.
func TestDeepChain(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, v := range variants()[:5] {
		t.Run(v.name, func(t *testing.T) {
			ctx := t.Context()
			coll := row()
			v.opts.ParentField = "parent"
			tr := v.open(t, coll)
			const n = 100
			var docs []any
			for i := range n {
				doc := dd("_id", fmt.Sprintf("%04d", n-i))
				if i > 0 {
					doc = append(doc, bson.E{Key: "parent", Value: fmt.Sprintf("%04d", n-i+1)})
				}
				docs = append(docs, doc)
			}
			putDocs(t, coll, docs...)
			for name, fn := range map[string]func() error{
				"Adopt":       func() error { return errOf(tr.Adopt(ctx, &mongopatterns.Work{BatchSize: 50})) },
				"Adopt again": func() error { return errOf(tr.Adopt(ctx, nil)) },
			} {
				if err := fn(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			healthy(t, tr)
			read := 0
			got := mongotest.Record(t, coll.Database(), func() { healthy(t, tr) })
			for _, c := range got {
				for _, batch := range []string{"firstBatch", "nextBatch"} {
					docs, err := c.Reply.LookupErr("cursor", batch)
					if err == nil {
						values, _ := docs.Array().Values()
						read += len(values)
					}
				}
			}
			if read > 3*n+1 || got.RoundTrips() > 8 {
				t.Errorf("Check of %d nodes: %d documents in %v", n, read, got.Names())
			}
		})
	}
}

// TestAdoptReadsAWayOnce: the nodes above a batch are read once, and not again for each later batch that has one of them.
func TestAdoptReadsAWayOnce(t *testing.T) {
	t.Parallel()
	const levels = 10
	for _, rep := range []tree.Representation{tree.AncestorArray, tree.NestedSets} {
		db := mongotest.Database(t)
		coll := db.Collection("nodes")
		for i := range levels - 1 { // each under the next one, so that the first batch reads all
			putDocs(t, coll, dd("_id", i, "parent", i+1))
		}
		putDocs(t, coll, dd("_id", levels-1, "parent", nil))
		tr := newAny(t, coll, rep, nil)
		reads := 0
		for _, c := range mongotest.Record(t, db, func() {
			ok(t, errOf(tr.Adopt(t.Context(), &mongopatterns.Work{BatchSize: 1})))
		}).Named("find") {
			if c.Collection == "nodes" && c.Body.Lookup("autocommit").Type == 0 {
				reads++
			}
		}
		if reads != levels { // the scan, and each level above the first node
			t.Errorf("%v: %d reads outside of transactions", rep, reads)
		}
	}
}
