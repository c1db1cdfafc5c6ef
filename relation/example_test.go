package relation_test

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
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

// A product's parts, in the order of its references, and one that does not exist any more.
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

// Teachers and subjects, with a collection in between.
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
	fmt.Println(teaches.DeleteParent(ctx, "Curie", mongopatterns.Cascade)) // physics is Meitner's too
	left, err := subjects.CountDocuments(ctx, bson.M{})
	fmt.Println(left, err)
	// Output:
	// [{chemistry} {physics}] <nil>
	// [Curie Meitner] <nil>
	// 1 <nil>
	// 1 <nil>
}

type PersonID string

// A TaskID is stored as an ObjectID. Without the methods the driver would store it as binary data.
type TaskID bson.ObjectID

func (id TaskID) IsZero() bool { return id == TaskID{} } // for omitempty

func (id TaskID) MarshalBSONValue() (byte, []byte, error) {
	kind, data, err := bson.MarshalValue(bson.ObjectID(id))
	return byte(kind), data, err
}

func (id *TaskID) UnmarshalBSONValue(kind byte, data []byte) error {
	return bson.UnmarshalValue(bson.Type(kind), data, (*bson.ObjectID)(id))
}

// IDs of types of your own: made from a string, and from an ObjectID that the driver makes.
func ExampleNew_typedID() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	people, taskColl := db.Collection("people"), db.Collection("tasks")
	type Task struct {
		ID    TaskID   `bson:"_id,omitempty"`
		Owner PersonID `bson:"owner"`
		Title string   `bson:"title"`
	}
	tasks, err := relation.New[PersonID, TaskID, Task](people, taskColl, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
	if err == nil {
		_, err = people.InsertOne(ctx, bson.M{"_id": PersonID("Ann")})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := tasks.Insert(ctx, "Ann", Task{Title: "read"})
	fmt.Println(!id.IsZero(), err)
	joined, err := tasks.Children(ctx, "Ann", nil)
	for _, task := range joined.Items {
		fmt.Println(task.ID == id, task.Owner, task.Title, err)
	}
	n, err := taskColl.CountDocuments(ctx, bson.M{"_id": bson.ObjectID(id)})
	fmt.Println(n, err)
	// Output:
	// true <nil>
	// true Ann read <nil>
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
	_, err = staff.DeleteParent(ctx, "Bob", mongopatterns.Restrict)
	fmt.Println(err)
	fmt.Println(staff.Transfer(ctx, "Cy", "Ann"))
	fmt.Println(staff.DeleteParent(ctx, "Bob", mongopatterns.Restrict))
	joined, err := staff.Children(ctx, "Ann", nil)
	fmt.Println(joined.Items, err)
	// Output:
	// relation: delete parent: _id "Bob": still referenced
	// <nil>
	// 0 <nil>
	// [{Cy Ann}] <nil>
}

// Comments that are embedded in their article become documents of their own, and come back by Embed.
func ExampleRelation_Extract() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	articles, comments := db.Collection("articles"), db.Collection("comments")
	type Comment struct {
		ID   int    `bson:"_id"`
		Text string `bson:"text"`
	}
	_, err := articles.InsertOne(ctx, bson.M{"_id": "tides", "comments": []Comment{{2, "Why?"}, {1, "First!"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	of, err := relation.New[string, int, Comment](articles, comments, &relation.Options{ChildrenField: "comments", OwnerField: "article"})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := of.Extract(ctx, nil)
	fmt.Println(result.Done, "article", err)
	var article struct{ Comments []int }
	err = articles.FindOne(ctx, bson.M{"_id": "tides"}).Decode(&article)
	fmt.Println(article.Comments, err)
	joined, err := of.Children(ctx, "tides", nil)
	fmt.Println(joined.Items, err)
	// Output:
	// 1 article <nil>
	// [2 1] <nil>
	// [{2 Why?} {1 First!}] <nil>
}
