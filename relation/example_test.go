package relation_test

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// A person's tasks and a task's owner, equal in every transaction.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	people, taskColl := db.Collection("people"), db.Collection("tasks")
	type Task struct {
		ID    int    `bson:"_id"`
		Title string `bson:"title"`
	}
	if _, err := people.InsertMany(ctx, []any{bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}}); err != nil {
		fmt.Println(err)
		return
	}
	tasks, err := relation.New[string, int, Task](people, taskColl, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range []Task{{2, "write"}, {1, "read"}} {
		if _, err := tasks.Insert(ctx, "Ann", t); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(tasks.Transfer(ctx, 1, "Bob"))
	err = tasks.Link(ctx, "Ann", 1)
	fmt.Println(err, errors.Is(err, relation.ErrOwned))
	for _, person := range []string{"Ann", "Bob"} {
		joined, err := tasks.Children(ctx, person, nil)
		fmt.Println(person, joined.Items, err)
	}
	// Output:
	// <nil>
	// relation: link: _id 1: owned by another parent true
	// Ann [{2 write}] <nil>
	// Bob [{1 read}] <nil>
}

// A product's parts, in the order of its references, and the one that is gone.
func ExampleFetch() {
	ctx := context.Background()
	parts := mongotest.ExampleDatabase().Collection("parts")
	type Part struct {
		ID   int    `bson:"_id"`
		Name string `bson:"name"`
	}
	if _, err := parts.InsertMany(ctx, []any{Part{1, "bolt"}, Part{2, "nut"}, Part{3, "washer"}}); err != nil {
		fmt.Println(err)
		return
	}
	joined, err := relation.Fetch[int, Part](ctx, parts, []int{3, 9, 1}, nil)
	fmt.Println(joined.Items, joined.Dangling, err)
	// Output: [{3 washer} {1 bolt}] [9] <nil>
}

// Teachers and subjects, with a collection between.
func ExampleNew_links() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	type Subject struct {
		ID string `bson:"_id"`
	}
	teachers, subjects := db.Collection("teachers"), db.Collection("subjects")
	teaches, err := relation.New[string, string, Subject](teachers, subjects, &relation.Options{
		Links: db.Collection("teacher_subject"), ParentField: "teacher_id", ChildField: "subject_id"})
	if err == nil {
		err = teaches.EnsureIndexes(ctx)
	}
	if err == nil {
		_, err = teachers.InsertMany(ctx, []any{bson.M{"_id": "Curie"}, bson.M{"_id": "Meitner"}})
	}
	for _, subject := range []Subject{{"physics"}, {"chemistry"}} {
		if err == nil {
			_, err = teaches.Insert(ctx, "Curie", subject)
		}
	}
	if err == nil {
		err = teaches.Link(ctx, "Meitner", "physics")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	joined, err := teaches.Children(ctx, "Curie", nil)
	fmt.Println(joined.Items, err)
	who, err := teaches.Parents(ctx, "physics")
	fmt.Println(who, err)
	fmt.Println(teaches.DeleteParent(ctx, "Curie", relation.Cascade)) // physics is Meitner's too
	left, err := subjects.CountDocuments(ctx, bson.M{})
	fmt.Println(left, err)
	// Output:
	// [{chemistry} {physics}] <nil>
	// [Curie Meitner] <nil>
	// <nil>
	// 1 <nil>
}

// Employees and their manager are one collection.
func ExampleNew_oneCollection() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("employees")
	type Employee struct {
		ID      string `bson:"_id"`
		Manager string `bson:"manager,omitempty"`
	}
	staff, err := relation.New[string, string, Employee](coll, coll, &relation.Options{OwnerField: "manager"})
	if err == nil {
		_, err = coll.InsertMany(ctx, []any{Employee{ID: "Ann"}, Employee{ID: "Bob"}, Employee{ID: "Cy"}})
	}
	if err == nil {
		err = errors.Join(staff.Link(ctx, "Ann", "Bob"), staff.Link(ctx, "Bob", "Cy"))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(staff.DeleteParent(ctx, "Bob", relation.Restrict))
	fmt.Println(staff.Transfer(ctx, "Cy", "Ann"), staff.DeleteParent(ctx, "Bob", relation.Restrict))
	joined, err := staff.Children(ctx, "Ann", nil)
	fmt.Println(joined.Items, err)
	// Output:
	// relation: delete parent: _id "Bob": still referenced
	// <nil> <nil>
	// [{Cy Ann}] <nil>
}
