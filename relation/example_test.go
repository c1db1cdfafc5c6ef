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
	tasks, err := relation.New[string, int, Task](people, taskColl, &relation.Options{Children: "tasks", Owner: "owner"})
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
		joined, err := tasks.Of(ctx, person, nil)
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
func ExampleNewJoin() {
	ctx := context.Background()
	teaches, err := relation.NewJoin[string, string](mongotest.ExampleDatabase().Collection("teacher_subject"),
		&relation.JoinOptions{A: "teacher_id", B: "subject_id"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := teaches.EnsureIndexes(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, link := range [][2]string{{"Curie", "physics"}, {"Curie", "chemistry"}, {"Meitner", "physics"}} {
		if err := teaches.Link(ctx, link[0], link[1]); err != nil {
			fmt.Println(err)
		}
	}
	subjects, err := teaches.Bs(ctx, "Curie")
	fmt.Println(subjects, err)
	teachers, err := teaches.As(ctx, "physics")
	fmt.Println(teachers, err)
	// Output:
	// [chemistry physics] <nil>
	// [Curie Meitner] <nil>
}
