package schemaversion_test

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// Contacts in which phones have become a list, with the version as a string.
func Example() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("contacts")
	_, err := coll.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Anakin Skywalker"}, {Key: "home", Value: "503-555-0000"}, {Key: "work", Value: "503-555-0010"}},
		bson.D{{Key: "_id", Value: 2}, {Key: "schema_version", Value: "2"}, {Key: "name", Value: "Anakin Skywalker (Retired)"}, {Key: "contact_method", Value: bson.A{
			bson.D{{Key: "work", Value: "503-555-0210"}}, bson.D{{Key: "twitter", Value: "@anakinskywalker"}},
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	type Contact struct {
		Name    string              `bson:"name"`
		Methods []map[string]string `bson:"contact_method"`
	}
	contacts, err := schemaversion.New[Contact](coll, []schemaversion.Step{{Up: func(doc bson.D) (out bson.D, err error) {
		methods := bson.A{}
		for _, e := range doc {
			switch e.Key {
			case "home", "work", "mobile":
				methods = append(methods, bson.D{e})
			default:
				out = append(out, e)
			}
		}
		return append(out, bson.E{Key: "contact_method", Value: methods}), nil
	}}}, &schemaversion.Options{Text: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for c, err := range contacts.Find(ctx, nil, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})) {
		fmt.Println(c.Name, c.Methods, err)
	}
	result, err := contacts.Migrate(ctx, contacts.Newest(), nil)
	fmt.Println(result.Done, "upgraded", err)
	status, err := contacts.Status(ctx)
	fmt.Println(status, err)
	// Output:
	// Anakin Skywalker [map[home:503-555-0000] map[work:503-555-0010]] <nil>
	// Anakin Skywalker (Retired) [map[work:503-555-0210] map[twitter:@anakinskywalker]] <nil>
	// 1 upgraded <nil>
	// map[2:2] <nil>
}

// Steps between Go types, up and down: the field that neither of them knows is kept.
func ExampleBetween() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("people")
	type PersonV1 struct {
		Name string `bson:"name"`
	}
	type Person struct {
		First string `bson:"first"`
		Last  string `bson:"last"`
	}
	people, err := schemaversion.New[Person](coll, []schemaversion.Step{schemaversion.Between(
		func(old PersonV1) (Person, error) {
			first, last, _ := strings.Cut(old.Name, " ")
			return Person{first, last}, nil
		},
		func(p Person) (PersonV1, error) { return PersonV1{p.First + " " + p.Last}, nil },
	)}, nil)
	if err == nil {
		_, err = coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Ada Lovelace"}, {Key: "born", Value: 1815}})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, version := range []int{2, 1} {
		if _, err := people.Migrate(ctx, version, nil); err != nil {
			fmt.Println(err)
		}
		raw, err := coll.FindOne(ctx, bson.D{}).Raw()
		if err != nil {
			fmt.Println(err)
			return
		}
		text, err := bson.MarshalExtJSON(raw, false, false)
		fmt.Println(string(text), err)
	}
	// Output:
	// {"_id":1,"born":1815,"first":"Ada","last":"Lovelace","schema_version":2} <nil>
	// {"_id":1,"born":1815,"schema_version":1,"name":"Ada Lovelace"} <nil>
}

// An update is for the newest version. A document of an older one is upgraded first.
func ExampleCollection_Update() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("tasks")
	type Task struct {
		Title string   `bson:"title"`
		Tags  []string `bson:"tags"`
	}
	tasks, err := schemaversion.New[Task](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		for i, e := range doc {
			if e.Key == "tag" { // one tag has become a list
				doc[i] = bson.E{Key: "tags", Value: bson.A{e.Value}}
			}
		}
		return doc, nil
	}}}, nil)
	if err == nil {
		_, err = coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "read"}, {Key: "tag", Value: "home"}})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tasks.Update(ctx, 1, bson.M{"$push": bson.M{"tags": "urgent"}}))
	task, err := tasks.Get(ctx, 1)
	fmt.Println(task, err)
	// Output:
	// <nil>
	// {read [home urgent]} <nil>
}
