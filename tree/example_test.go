package tree_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Category is a node of the examples.
type Category struct {
	ID   string `bson:"_id"`
	Name string `bson:"name,omitempty"`
}

// library is a small tree:
//
//	Books
//	└ Programming
//	  ├ Databases
//	  │ ├ MongoDB
//	  │ └ dbm
//	  └ Languages
func library(rep tree.Representation, opts *tree.Options) (*mongo.Collection, *tree.Tree[string, Category]) {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("categories")
	cats, err := tree.New[string, Category](coll, rep, opts)
	if err != nil {
		log.Fatal(err)
	}
	if err := cats.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = cats.Load(ctx, func(yield func(tree.Entry[string, Category], error) bool) {
		for _, c := range [][2]string{{"Books"}, {"Programming", "Books"}, {"Databases", "Programming"},
			{"MongoDB", "Databases"}, {"dbm", "Databases"}, {"Languages", "Programming"}} {
			e := tree.Entry[string, Category]{Value: Category{ID: c[0]}}
			if c[1] != "" {
				e.Parent = &c[1]
			}
			if !yield(e, nil) {
				return
			}
		}
	}, cats.AsRoot(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return coll, cats
}

func Example() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("categories")
	cats, err := tree.New[string, Category](coll, tree.AncestorArray, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := cats.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := cats.Insert(ctx, Category{ID: "Books"}, cats.AsRoot()); err != nil {
		log.Fatal(err)
	}
	for _, c := range []struct{ id, parent string }{
		{"Programming", "Books"}, {"Databases", "Programming"}, {"MongoDB", "Databases"},
	} {
		if _, err := cats.Insert(ctx, Category{ID: c.id}, cats.Under(c.parent)); err != nil {
			log.Fatal(err)
		}
	}
	raw, err := coll.FindOne(ctx, cats.Filter("MongoDB")).Raw()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(raw)

	if err := cats.Move(ctx, "Databases", cats.Under("Books")); err != nil {
		log.Fatal(err)
	}
	crumbs, err := cats.Breadcrumb(ctx, "MongoDB")
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range crumbs {
		fmt.Print("/", c.Name)
	}
	fmt.Println()
	// Output:
	// {"_id": "MongoDB","ancestors": ["Books","Programming","Databases"],"parent": "Databases"}
	// /Books/Databases/MongoDB
}

func ExampleTree_Descendants() {
	_, cats := library(tree.MaterializedPath, nil)
	for c, err := range cats.Descendants(context.Background(), "Programming", 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.ID)
	}
	// Unordered output:
	// Databases
	// Languages
}

func ExampleTree_DescendantsFilter() {
	ctx := context.Background()
	coll, cats := library(tree.MaterializedPath, nil)
	match, err := cats.DescendantsFilter(ctx, "Databases", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(match)
	n, err := coll.CountDocuments(ctx, match)
	fmt.Println(n, err)
	// Output:
	// {"path":{"$gte":",Books,Programming,Databases,","$lt":",Books,Programming,Databases-"}}
	// 2 <nil>
}

// What another collection holds in a category and below it.
func ExampleTree_DescendantsFilter_otherCollection() {
	ctx := context.Background()
	coll, cats := library(tree.AncestorArray, nil)
	products := coll.Database().Collection("products")
	_, err := products.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "category", Value: "MongoDB"}},
		bson.D{{Key: "_id", Value: 2}, {Key: "category", Value: "Databases"}},
		bson.D{{Key: "_id", Value: 3}, {Key: "category", Value: "Languages"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	match, err := cats.DescendantsFilter(ctx, "Databases", 0)
	if err != nil {
		log.Fatal(err)
	}
	var below []string
	if err := coll.Distinct(ctx, "_id", match).Decode(&below); err != nil {
		log.Fatal(err)
	}
	in := bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: append(below, "Databases")}}}}
	fmt.Println(products.CountDocuments(ctx, in))
	// Output:
	// 2 <nil>
}

func ExampleTree_DescendantsPipeline() {
	ctx := context.Background()
	coll, cats := library(tree.AncestorArray, nil)
	pipeline := append(cats.DescendantsPipeline("Programming", 0),
		bson.D{{Key: "$sortByCount", Value: "$parent"}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}})
	cursor, err := coll.Aggregate(ctx, pipeline)
	if err != nil {
		log.Fatal(err)
	}
	var rows []struct {
		Parent string `bson:"_id"`
		Count  int
	}
	if err := cursor.All(ctx, &rows); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows)
	// Output:
	// [{Databases 2} {Programming 2}]
}

// The pipelines take further stages of yours, here one that sorts.
func ExampleTree_pipelines() {
	ctx := context.Background()
	coll, cats := library(tree.NestedSets, nil)
	leaves := append(cats.SubtreePipeline("Programming", 0), cats.LeavesPipeline()...)
	for _, read := range []struct {
		what     string
		pipeline mongo.Pipeline
	}{
		{"roots", cats.RootsPipeline()},
		{"children of Programming", cats.ChildrenPipeline("Programming")},
		{"ancestors of MongoDB", cats.AncestorsPipeline("MongoDB")},
		{"leaves of Programming", append(leaves, bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}})},
	} {
		cursor, err := coll.Aggregate(ctx, read.pipeline)
		if err != nil {
			log.Fatal(err)
		}
		var found []Category
		if err := cursor.All(ctx, &found); err != nil {
			log.Fatal(err)
		}
		fmt.Print(read.what, ":")
		for _, c := range found {
			fmt.Print(" ", c.ID)
		}
		fmt.Println()
	}
	// Output:
	// roots: Books
	// children of Programming: Databases Languages
	// ancestors of MongoDB: Books Programming Databases
	// leaves of Programming: dbm MongoDB Languages
}

func ExampleTree_Subtree() {
	_, cats := library(tree.NestedSets, nil)
	books, err := cats.Subtree(context.Background(), "Books", 0)
	if err != nil {
		log.Fatal(err)
	}
	var show func(n *tree.Node[Category], indent string)
	show = func(n *tree.Node[Category], indent string) {
		fmt.Println(indent + n.Value.ID)
		for _, kid := range n.Children {
			show(kid, indent+"- ")
		}
	}
	show(books, "")
	// Output:
	// Books
	// - Programming
	// - - Databases
	// - - - MongoDB
	// - - - dbm
	// - - Languages
}

func ExampleTree_Move() {
	ctx := context.Background()
	_, cats := library(tree.ChildReferences, nil)
	if err := cats.Move(ctx, "Languages", cats.Before("Databases")); err != nil {
		log.Fatal(err)
	}
	for c, err := range cats.Children(ctx, "Programming") {
		fmt.Println(c.ID, err)
	}
	err := cats.Move(ctx, "Programming", cats.Under("dbm"))
	fmt.Println(errors.Is(err, tree.ErrCycle))
	// Output:
	// Languages <nil>
	// Databases <nil>
	// true
}

func ExampleTree_Delete() {
	ctx := context.Background()
	_, cats := library(tree.ParentReferences, nil)
	_, err := cats.Delete(ctx, "Databases", mongopatterns.Restrict)
	fmt.Println(errors.Is(err, mongopatterns.ErrReferenced))
	n, err := cats.Delete(ctx, "Databases", mongopatterns.Promote)
	fmt.Println(n, err)
	up, err := cats.Parent(ctx, "MongoDB")
	fmt.Println(up.ID, err)
	n, err = cats.Delete(ctx, "Programming", mongopatterns.Cascade)
	fmt.Println(n, err)
	// Output:
	// true
	// 1 <nil>
	// Programming <nil>
	// 4 <nil>
}

func ExampleTree_Adopt() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("employees")
	_, err := coll.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "Ada"}},
		bson.D{{Key: "_id", Value: "Bo"}, {Key: "boss", Value: "Ada"}},
		bson.D{{Key: "_id", Value: "Cy"}, {Key: "boss", Value: "Bo"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	staff, err := tree.New[string, bson.M](coll, tree.AncestorArray, &tree.Options{ParentField: "boss", AncestorsField: "chain"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := staff.Adopt(ctx, nil)
	fmt.Println(result.Examined, result.Done, result.Remaining, err)
	raw, err := coll.FindOne(ctx, staff.Filter("Cy")).Raw()
	fmt.Println(raw, err)
	// Output:
	// 3 3 0 <nil>
	// {"_id": "Cy","boss": "Bo","chain": ["Ada","Bo"]} <nil>
}

func ExampleConvert() {
	ctx := context.Background()
	coll, cats := library(tree.ParentReferences, nil)
	paths, err := tree.New[string, Category](coll, tree.MaterializedPath, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tree.Convert(ctx, cats, paths, nil); err != nil {
		log.Fatal(err)
	}
	// When nobody uses the old tree any more:
	_, err = coll.UpdateMany(ctx, bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "parent", Value: ""}}}})
	if err != nil {
		log.Fatal(err)
	}
	raw, err := coll.FindOne(ctx, paths.Filter("dbm")).Raw()
	fmt.Println(raw, err)
	// Output:
	// {"_id": "dbm","path": ",Books,Programming,Databases,"} <nil>
}

func ExampleTree_Repair() {
	ctx := context.Background()
	coll, cats := library(tree.AncestorArray, nil)
	// Something other than the tree writes its fields.
	if _, err := coll.UpdateOne(ctx, cats.Filter("dbm"), bson.D{{Key: "$set", Value: bson.D{{Key: "ancestors", Value: bson.A{"Books"}}}}}); err != nil {
		log.Fatal(err)
	}
	for p, err := range cats.Check(ctx, nil) {
		fmt.Println(p, err)
	}
	result, err := cats.Repair(ctx, nil)
	fmt.Println(result.Done, result.Remaining, err)
	// Output:
	// tree: categories "dbm": wrong field: ancestors is ["Books"], want ["Books","Programming","Databases"] <nil>
	// 1 0 <nil>
}

func ExampleTree_Link() {
	ctx := context.Background()
	_, cats := library(tree.ChildReferences, &tree.Options{Graph: true})
	if err := cats.Link(ctx, "Languages", "MongoDB"); err != nil {
		log.Fatal(err)
	}
	for c, err := range cats.Parents(ctx, "MongoDB") {
		fmt.Println(c.ID, err)
	}
	// Unordered output:
	// Databases <nil>
	// Languages <nil>
}
