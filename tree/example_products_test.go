package tree_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// Products that carry their category's ancestors, so that all that lies below a category is
// one equality on one index, follow a move of the category in its transaction.
func ExampleTree_Move_products() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll, products := db.Collection("categories"), db.Collection("products")
	type category struct {
		ID        string   `bson:"_id"`
		Ancestors []string `bson:"ancestor_categories"`
	}
	categories, err := tree.New[string, category](coll, tree.AncestorArray, &tree.Options{
		ParentField: "parent_category", AncestorsField: "ancestor_categories",
	})
	if err == nil {
		err = categories.EnsureIndexes(ctx)
	}
	place := categories.AsRoot()
	for _, id := range []string{"Computer Parts", "Storage", "Hard Drives", "Solid State Drive"} {
		if err == nil {
			_, err = categories.Insert(ctx, category{ID: id}, place)
		}
		place = categories.Under(id)
	}
	if err == nil {
		_, err = categories.Insert(ctx, category{ID: "Archive"}, categories.AsRoot())
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	// follow writes the ancestors of a category and of all below it into their products.
	follow := func(ctx context.Context, id string) error {
		below, err := categories.DescendantsFilter(ctx, id, 0)
		if err != nil {
			return err
		}
		cursor, err := coll.Find(ctx, bson.M{"$or": bson.A{bson.M{"_id": id}, below}})
		if err != nil {
			return err
		}
		var moved []category
		if err := cursor.All(ctx, &moved); err != nil {
			return err
		}
		var models []mongo.WriteModel
		for _, c := range moved {
			models = append(models, mongo.NewUpdateManyModel().SetFilter(bson.M{"category": c.ID}).
				SetUpdate(bson.M{"$set": bson.M{"ancestor_categories": append(c.Ancestors, c.ID)}}))
		}
		_, err = products.BulkWrite(ctx, models)
		return err
	}
	// insert stores a product with the ancestors of its category. It writes the category, so that it conflicts with
	// a move of it, which a read alone would not.
	insert := func(id, in string) error {
		return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
			var c category
			count := bson.M{"$inc": bson.M{"products": 1}}
			if err := coll.FindOneAndUpdate(ctx, bson.M{"_id": in}, count).Decode(&c); err != nil {
				return err
			}
			_, err := products.InsertOne(ctx, bson.M{"_id": id, "category": in, "ancestor_categories": append(c.Ancestors, in)})
			return err
		})
	}
	if _, err := products.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "category", Value: 1}}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(insert("ssd-1", "Solid State Drive"), insert("hd-1", "Hard Drives"))

	fmt.Println(mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		if err := categories.Move(ctx, "Hard Drives", categories.Under("Archive")); err != nil {
			return err
		}
		return follow(ctx, "Hard Drives")
	}))
	var ssd struct {
		Categories []string `bson:"ancestor_categories"`
	}
	err = products.FindOne(ctx, bson.M{"_id": "ssd-1"}).Decode(&ssd)
	fmt.Println(ssd.Categories, err)
	n, err := products.CountDocuments(ctx, bson.M{"ancestor_categories": "Archive"}, options.Count())
	fmt.Println(n, "products below Archive", err)
	// Output:
	// <nil> <nil>
	// <nil>
	// [Archive Hard Drives Solid State Drive] <nil>
	// 2 products below Archive <nil>
}
