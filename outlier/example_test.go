package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

type Book struct {
	ID        int      `bson:"_id"`
	Title     string   `bson:"title"`
	Author    string   `bson:"author"`
	Customers []string `bson:"customers_purchased"`
}

// The calls that most programs need, on books; a best-seller has more customers
// than fit into its document.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("books")

	books, err := outlier.New[int, string](coll, db.Collection("book_extras"), &outlier.Options{
		ArrayField:  "customers_purchased",
		FlagField:   "has_extras",
		ParentField: "book_id",
		Set:         true,
		MaxCount:    1000,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := books.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := coll.InsertMany(ctx, []Book{{ID: 17, Title: "The Colour of Birch"}, {ID: 18, Title: "Harbour Lights"}}); err != nil {
		log.Fatal(err)
	}

	for range 2 { // the second time the customer is in the list already
		added, err := books.Add(ctx, 17, "user00")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("added", added)
	}
	many := func(yield func(int, string) bool) {
		for i := 0; i < 1200 && yield(18, fmt.Sprintf("user%02d", i)); i++ {
		}
	}
	result, err := books.AddMany(ctx, many, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("added", result.Done)

	total, err := books.Total(ctx, 18)
	if err != nil {
		log.Fatal(err)
	}
	held, err := books.Contains(ctx, 18, "user1199")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total, "customers, user1199 among them:", held)

	page, err := books.Slice(ctx, 18, 998, 4)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.Items, page.HasNext)

	last := ""
	for customer, err := range books.All(ctx, 18) {
		if err != nil {
			log.Fatal(err)
		}
		last = customer
	}
	fmt.Println("the last is", last)

	if _, err := books.Remove(ctx, 18, "user00"); err != nil {
		log.Fatal(err)
	}
	if err := books.Delete(ctx, 18); err != nil {
		log.Fatal(err)
	}
	_, err = books.Add(ctx, 18, "late")
	fmt.Println(errors.Is(err, mongopatterns.ErrNotFound), err)
	// Output:
	// added 1
	// added 0
	// added 1200
	// 1200 customers, user1199 among them: true
	// [user998 user999 user1000 user1001] true
	// the last is user1199
	// true outlier: add: _id 18: not found
}

type Invitee struct {
	Email string `bson:"email"`
	Role  string `bson:"role"`
}

// The invitees of video conferences: most have few, one has many. Elements are documents
// here, and a list that has become short folds back.
func ExampleNew_invitees() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("meetings")
	meetings, err := outlier.New[string, Invitee](coll, db.Collection("more_invitees"), &outlier.Options{
		ArrayField: "invitees", ParentField: "meeting", Set: true, MaxCount: 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := meetings.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "all hands"}}); err != nil {
		log.Fatal(err)
	}
	var all []Invitee
	for i := range 50 {
		all = append(all, Invitee{fmt.Sprintf("colleague%d@example.org", i), "guest"})
	}
	if _, err := meetings.Add(ctx, "all hands", all...); err != nil {
		log.Fatal(err)
	}
	outliers := func() int64 {
		n, err := coll.CountDocuments(ctx, meetings.OutliersFilter())
		if err != nil {
			log.Fatal(err)
		}
		return n
	}
	fmt.Println("outliers:", outliers())
	for _, invitee := range all[15:] {
		if _, err := meetings.Remove(ctx, "all hands", invitee); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("outliers:", outliers())
	// Output:
	// outliers: 1
	// outliers: 0
}

// Distribution counts the outliers for several bounds before anything is
// changed; then Adopt changes the lists.
func ExampleLists_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("airports")
	for i, airport := range []string{"ATL", "SEA", "ABE", "XNA"} {
		destinations := make([]string, []int{160, 40, 7, 5}[i])
		for d := range destinations {
			destinations[d] = fmt.Sprintf("D%02d", d)
		}
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: airport}, {Key: "destinations", Value: destinations}}); err != nil {
			log.Fatal(err)
		}
	}
	airports, err := outlier.New[string, string](coll, db.Collection("more_destinations"), &outlier.Options{
		ArrayField: "destinations", MaxCount: 50,
	})
	if err != nil {
		log.Fatal(err)
	}
	report, err := airports.Distribution(ctx, nil, 10, 50)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range report.Caps {
		fmt.Printf("at most %d: %d of %d outliers, %d elements outside\n", c.MaxCount, c.Outliers, report.Documents, c.Over)
	}
	for range 2 { // the second time there is nothing left to do
		result, err := airports.Adopt(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("adopted", result.Done)
	}
	// Output:
	// at most 10: 2 of 4 outliers, 180 elements outside
	// at most 50: 1 of 4 outliers, 110 elements outside
	// adopted 1
	// adopted 0
}

// Somebody deleted an outlier without its overflow documents.
func ExampleLists_Repair() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("books")
	books, err := outlier.New[int, int](coll, db.Collection("book_extras"), &outlier.Options{MaxCount: 10})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		log.Fatal(err)
	}
	if _, err := books.Add(ctx, 1, make([]int, 25)...); err != nil {
		log.Fatal(err)
	}
	if _, err := coll.DeleteOne(ctx, books.Filter(1)); err != nil {
		log.Fatal(err)
	}
	for problem, err := range books.Check(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(problem.Kind, problem.Field, problem.Have.Int32(), problem.Detail)
	}
	result, err := books.Repair(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("repaired", result.Done)
	// Output:
	// orphan parent 1 2 overflow documents
	// repaired 1
}

// The customers of some books together, the ten who bought most of them first.
func ExampleLists_ItemsPipeline() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("books")
	books, err := outlier.New[int, string](coll, db.Collection("book_extras"), &outlier.Options{MaxCount: 2})
	if err != nil {
		log.Fatal(err)
	}
	for id, customers := range [][]string{{"ann", "bob"}, {"cem", "ann", "dan", "eva"}, {"ann", "eva", "bob"}} {
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
			log.Fatal(err)
		}
		if _, err := books.Add(ctx, id, customers...); err != nil {
			log.Fatal(err)
		}
	}
	pipeline := append(books.ItemsPipeline(nil),
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$item"}, {Key: "books", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "books", Value: -1}, {Key: "_id", Value: 1}}}},
		bson.D{{Key: "$limit", Value: 10}})
	printAll(ctx, coll, pipeline)

	// And the books of one customer.
	pipeline, err = books.ContainingPipeline("eva")
	if err != nil {
		log.Fatal(err)
	}
	printAll(ctx, coll, append(pipeline, bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}}))
	// Output:
	// {"_id":"ann","books":3}
	// {"_id":"bob","books":2}
	// {"_id":"eva","books":2}
	// {"_id":"cem","books":1}
	// {"_id":"dan","books":1}
	// {"_id":1}
	// {"_id":2}
}

func printAll(ctx context.Context, coll *mongo.Collection, pipeline mongo.Pipeline) {
	cursor, err := coll.Aggregate(ctx, pipeline)
	if err != nil {
		log.Fatal(err)
	}
	var docs []bson.D
	if err := cursor.All(ctx, &docs); err != nil {
		log.Fatal(err)
	}
	for _, doc := range docs {
		text, err := bson.MarshalExtJSON(doc, false, false)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(text))
	}
}
