package tree_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

type category struct {
	ID string `bson:"_id"`
}

// stored are the documents of a collection by _id, as they are.
func stored(t testing.TB, coll *mongo.Collection) []bson.D {
	t.Helper()
	cur := get(coll.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})))(t)
	var docs []bson.D
	ok(t, cur.All(t.Context(), &docs))
	return docs
}

func dd(pairs ...any) bson.D {
	out := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// TestBookCategories stores the categories of the literature in each
// representation: exactly these documents, read by exactly these indexes.
func TestBookCategories(t *testing.T) {
	t.Parallel()
	row := rows(t)
	for _, c := range []struct {
		rep     tree.Representation
		want    []bson.D // in the order of _id
		indexes []string
	}{
		{tree.ParentReferences, []bson.D{
			dd("_id", "Books", "parent", nil),
			dd("_id", "Databases", "parent", "Programming"),
			dd("_id", "Languages", "parent", "Programming"),
			dd("_id", "MongoDB", "parent", "Databases"),
			dd("_id", "Programming", "parent", "Books"),
			dd("_id", "dbm", "parent", "Databases"),
		}, []string{"parent_1"}},
		{tree.ChildReferences, []bson.D{
			dd("_id", "Books", "children", bson.A{"Programming"}),
			dd("_id", "Databases", "children", bson.A{"MongoDB", "dbm"}),
			dd("_id", "Languages", "children", bson.A{}),
			dd("_id", "MongoDB", "children", bson.A{}),
			dd("_id", "Programming", "children", bson.A{"Databases", "Languages"}),
			dd("_id", "dbm", "children", bson.A{}),
		}, []string{"children_1"}},
		{tree.AncestorArray, []bson.D{
			dd("_id", "Books", "ancestors", bson.A{}, "parent", nil),
			dd("_id", "Databases", "ancestors", bson.A{"Books", "Programming"}, "parent", "Programming"),
			dd("_id", "Languages", "ancestors", bson.A{"Books", "Programming"}, "parent", "Programming"),
			dd("_id", "MongoDB", "ancestors", bson.A{"Books", "Programming", "Databases"}, "parent", "Databases"),
			dd("_id", "Programming", "ancestors", bson.A{"Books"}, "parent", "Books"),
			dd("_id", "dbm", "ancestors", bson.A{"Books", "Programming", "Databases"}, "parent", "Databases"),
		}, []string{"ancestors_1", "parent_1"}},
		{tree.MaterializedPath, []bson.D{
			dd("_id", "Books", "path", nil),
			dd("_id", "Databases", "path", ",Books,Programming,"),
			dd("_id", "Languages", "path", ",Books,Programming,"),
			dd("_id", "MongoDB", "path", ",Books,Programming,Databases,"),
			dd("_id", "Programming", "path", ",Books,"),
			dd("_id", "dbm", "path", ",Books,Programming,Databases,"),
		}, []string{"path_1"}},
		{tree.NestedSets, []bson.D{
			dd("_id", "Books", "left", int64(1), "right", int64(12), "parent", nil),
			dd("_id", "Databases", "left", int64(3), "right", int64(8), "parent", "Programming"),
			dd("_id", "Languages", "left", int64(9), "right", int64(10), "parent", "Programming"),
			dd("_id", "MongoDB", "left", int64(4), "right", int64(5), "parent", "Databases"),
			dd("_id", "Programming", "left", int64(2), "right", int64(11), "parent", "Books"),
			dd("_id", "dbm", "left", int64(6), "right", int64(7), "parent", "Databases"),
		}, []string{"left_1_right_1", "parent_1_left_1"}},
	} {
		t.Run(c.rep.String(), func(t *testing.T) {
			t.Parallel()
			coll := row()
			cats := get(tree.New[string, category](coll, c.rep, nil))(t)
			ok(t, cats.EnsureIndexes(t.Context()))
			if err := cats.EnsureIndexes(t.Context()); err != nil { // again
				t.Fatal(err)
			}
			for _, b := range books {
				pos := cats.AsRoot()
				if b[1] != "" {
					pos = cats.Under(b[1])
				}
				get(cats.Insert(t.Context(), category{b[0]}, pos))(t)
			}
			match(t, "stored", c.want, stored(t, coll))
			var names []string
			specs := get(coll.Indexes().ListSpecifications(t.Context()))(t)
			for _, s := range specs {
				names = append(names, s.Name)
			}
			slices.Sort(names)
			match(t, "indexes", append([]string{"_id_"}, c.indexes...), names)
			// A move and back leaves no trace.
			for _, to := range []string{"Languages", "Programming"} {
				ok(t, cats.Move(t.Context(), "Databases", cats.Under(to)))
			}
			if c.rep == tree.ChildReferences || c.rep == tree.NestedSets {
				ok(t, cats.Move(t.Context(), "Databases", cats.Before("Languages")))
			}
			match(t, "stored after moves", c.want, stored(t, coll))
		})
	}
}

// TestProductCategories has the field names of a product catalogue.
func TestProductCategories(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("categories")
	cats := get(tree.New[string, bson.M](coll, tree.AncestorArray,
		&tree.Options{AncestorsField: "ancestor_categories", ParentField: "parent_category"}))(t)
	ok(t, cats.EnsureIndexes(ctx))
	parent := ""
	for _, id := range []string{"Computer Parts", "Storage", "Hard Drives", "Solid State Drive"} {
		pos := cats.AsRoot()
		if parent != "" {
			pos = cats.Under(parent)
		}
		get(cats.Insert(ctx, bson.M{"_id": id}, pos))(t)
		parent = id
	}
	want := dd("_id", "Solid State Drive", "ancestor_categories",
		bson.A{"Computer Parts", "Storage", "Hard Drives"}, "parent_category", "Hard Drives")
	match(t, "stored", want, stored(t, coll)[2])
	match, err := cats.DescendantsFilter(ctx, "Storage", 0)
	if diff := cmp.Diff(dd("ancestor_categories", "Storage"), toD(t, match)); err != nil || diff != "" {
		t.Errorf("filter: %v %s", err, diff)
	}
}

// toD is a filter as the server sees it.
func toD(t testing.TB, v any) (out bson.D) {
	t.Helper()
	raw, err := bson.Marshal(v)
	if err == nil {
		err = bson.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOrganisation reads the chain of command in two representations and moves
// a whole department.
func TestOrganisation(t *testing.T) {
	t.Parallel()
	type employee struct {
		ID    int    `bson:"_id"`
		Name  string `bson:"name"`
		Title string `bson:"title"`
	}
	row := rows(t)
	for _, rep := range []tree.Representation{tree.AncestorArray, tree.ParentReferences} {
		t.Run(rep.String(), func(t *testing.T) {
			ctx := t.Context()
			staff := get(tree.New[int, employee](row(), rep, &tree.Options{ParentField: "reportsTo", NameField: "name"}))(t)
			for _, e := range []struct {
				employee
				boss int
			}{
				{employee{1, "Ada", "chief executive"}, 0}, {employee{2, "Bo", "sales"}, 1}, {employee{3, "Cy", "engineering"}, 1},
				{employee{4, "Di", "servers"}, 3}, {employee{5, "Ed", "storage"}, 4}, {employee{6, "Flo", "storage"}, 5},
			} {
				pos := staff.Under(e.boss)
				if e.boss == 0 {
					pos = staff.AsRoot()
				}
				get(staff.Insert(ctx, e.employee, pos))(t)
			}
			chain := func() (names []string) {
				crumbs := get(staff.Breadcrumb(ctx, 6))(t)
				for _, c := range crumbs {
					names = append(names, c.Name)
				}
				return names
			}
			if got := chain(); !slices.Equal(got, []string{"Ada", "Cy", "Di", "Ed", "Flo"}) {
				t.Errorf("chain: %v", got)
			}
			ok(t, staff.Move(ctx, 4, staff.Under(2)))
			if got := chain(); !slices.Equal(got, []string{"Ada", "Bo", "Di", "Ed", "Flo"}) {
				t.Errorf("chain after the reorganisation: %v", got)
			}
			boss, err := staff.Parent(ctx, 4)
			if diff := cmp.Diff(employee{2, "Bo", "sales"}, boss); err != nil || diff != "" {
				t.Errorf("boss: %v %s", err, diff)
			}
		})
	}
}
