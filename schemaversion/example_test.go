package schemaversion_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// Contacts whose phones have become a list, with the version as a string.
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
