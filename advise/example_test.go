package advise_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A test asks whether one of the queries that it has recorded gets slower with the data.
func ExampleShapes() {
	find, err := bson.Marshal(bson.D{{Key: "find", Value: "products"}, {Key: "filter", Value: bson.D{{Key: "category", Value: "bats"}}},
		{Key: "sort", Value: bson.D{{Key: "price", Value: 1}}}, {Key: "skip", Value: 40}, {Key: "limit", Value: 20}})
	if err != nil {
		fmt.Println(err)
		return
	}
	cmds := mongotest.Commands{{Name: "find", Collection: "products", Body: find}} // of mongotest.Record
	for _, shape := range advise.Shapes(advise.Commands(cmds)) {
		fmt.Println(shape.Kind, shape.Patterns)
		fmt.Println(shape.Query)
	}
	// Output:
	// skip [paging]
	// find products {category: ?} sort {price: 1} skip ? limit ?
}
