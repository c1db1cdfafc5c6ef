package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Middle-earth insurance: the newest policy in one collection, its earlier states in another.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, Policy](
		db.Collection("current_policies"), db.Collection("policy_revisions"),
		&versioning.Options{DocumentIDField: "policy_id"})
	if err != nil {
		log.Fatal(err)
	}
	if err := policies.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	day := func(n int) time.Time { return time.Date(1941, 4, n, 9, 0, 0, 0, time.UTC) }

	policy, err := policies.Insert(ctx, Policy{ID: "bilbo", Name: "Bilbo Baggins", Policy: "Shire standard"},
		versioning.Change{Author: "frodo", At: day(1)})
	if err != nil {
		log.Fatal(err)
	}
	policy.Document.Items = append(policy.Document.Items, "Elven Sword")
	if _, err = policies.Save(ctx, policy, versioning.Change{Author: "elrond", Reason: "from the troll cave", At: day(2)}); err != nil {
		log.Fatal(err)
	}
	_, err = policies.Edit(ctx, "bilbo", func(p *Policy) error {
		p.Items = append(p.Items, "One Ring")
		return nil
	}, versioning.Change{Author: "gandalf", Reason: "found in the dark", At: day(3)})
	if err != nil {
		log.Fatal(err)
	}

	for r, err := range policies.Revisions(ctx, "bilbo") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Number, r.Change.At.Format(time.DateOnly), r.Change.Author, r.Document.Items)
	}
	then, err := policies.AsOf(ctx, "bilbo", day(2).Add(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("as of then:", then.Document.Items)
	// Output:
	// 3 1941-04-03 gandalf [Elven Sword One Ring]
	// 2 1941-04-02 elrond [Elven Sword]
	// 1 1941-04-01 frodo []
	// as of then: [Elven Sword]
}

type claimV1 struct {
	Item string `bson:"item"`
}

type Claim struct {
	Items []string `bson:"items"`
}

// claimSteps turns the item of the first version into a list.
type claimSteps struct{}

func (claimSteps) Chain() *schemaversion.Chain { return claimChain }

var claimChain = schemaversion.Must(schemaversion.NewChain([]schemaversion.Step{
	schemaversion.Between(func(old claimV1) (Claim, error) { return Claim{Items: []string{old.Item}}, nil }, nil),
}, nil))

type ClaimDoc = schemaversion.Doc[Claim, claimSteps]

// A history of documents of several schema versions. The first save that changes a document stores it
// in the newest version; its older revisions stay as they are, and are read in the newest one.
func ExampleNew_schemaVersions() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("claims")
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "c1"}, {Key: "item", Value: "Elven Sword"}})
	if err != nil {
		log.Fatal(err)
	}
	claims, err := versioning.New[string, ClaimDoc](coll, db.Collection("claims.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	claim, err := claims.Edit(ctx, "c1", func(c *ClaimDoc) error {
		c.V.Items = append(c.V.Items, "One Ring")
		return nil
	}, versioning.Change{Author: "gandalf"})
	fmt.Println(claim.Number, claim.Document.V.Items, err)
	before, err := claims.At(ctx, "c1", 1)
	fmt.Println(before.Number, before.Document.V.Items, err)
	var stored bson.M
	err = coll.FindOne(ctx, bson.D{{Key: "_id", Value: "c1"}}).Decode(&stored)
	fmt.Println(stored["item"], stored["items"], stored["schema_version"], err)
	// Output:
	// 2 [Elven Sword One Ring] <nil>
	// 1 [Elven Sword] <nil>
	// <nil> [Elven Sword One Ring] 2 <nil>
}

// A service takes the number that its client read from If-Match and makes the Revision by hand; a
// conflict names both numbers. A document without a number is revision 1, as Get says: one that was read
// by other means shows 0, and the ETag must be 1 then.
func ExampleHistory_Save() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, Policy](db.Collection("policies"), db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := policies.Insert(ctx, Policy{ID: "bilbo", Name: "Bilbo"}, versioning.Change{}); err != nil {
		log.Fatal(err)
	}
	put := func(ifMatch int64, body Policy) {
		saved, err := policies.Save(ctx, versioning.Revision[Policy]{Number: ifMatch, Document: body}, versioning.Change{Author: "api"})
		var conflict *versioning.ConflictError
		switch {
		case errors.As(err, &conflict):
			fmt.Println("412: you read", conflict.Read, "and now it is", conflict.Current)
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("200: ETag", saved.Number)
		}
	}
	put(1, Policy{ID: "bilbo", Name: "Bilbo Baggins"})
	put(1, Policy{ID: "bilbo", Name: "Mr. Baggins"})
	put(2, Policy{ID: "bilbo", Name: "Bilbo Baggins"}) // nothing new
	// Output:
	// 200: ETag 2
	// 412: you read 1 and now it is 2
	// 200: ETag 2
}

// A save whose answer was lost is repeated. If it was stored the first time, the repetition conflicts with
// it: the revision after the one that was read has the ID of the same request.
func ExampleHistory_Save_repeated() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, Policy](db.Collection("policies"), db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	policy, err := policies.Insert(ctx, Policy{ID: "bilbo", Name: "Bilbo"}, versioning.Change{})
	if err != nil {
		log.Fatal(err)
	}
	save := func(request string, r versioning.Revision[Policy]) (versioning.Revision[Policy], error) {
		mark := bson.E{Key: "request", Value: request}
		change := versioning.Change{Author: "api", Fields: bson.D{mark}}
		saved, err := policies.Save(ctx, r, change)
		for n := 0; n < 3 && mongopatterns.OutcomeOf(err) == mongopatterns.Unknown; n++ {
			saved, err = policies.Save(ctx, r, change)
		}
		var conflict *versioning.ConflictError
		if !errors.As(err, &conflict) {
			return saved, err
		}
		next, failed := policies.At(ctx, r.Document.ID, conflict.Read+1)
		switch {
		case failed != nil:
			return next, failed
		case slices.Contains(next.Change.Fields, mark):
			return next, nil // it is this save
		}
		return saved, err
	}
	policy.Document.Name = "Bilbo Baggins"
	for _, request := range []string{"7f3a", "7f3a", "c0de"} { // the first, the same again, and another
		saved, err := save(request, policy)
		fmt.Println(saved.Number, err)
	}
	// Output:
	// 2 <nil>
	// 2 <nil>
	// 0 versioning: save: _id "bilbo": conflict: revision 1 was read, but 2 is the current one
}

// The changes between two revisions, and who last changed a field.
func ExampleHistory_Diff() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, bson.D](db.Collection("policies"), db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	policy, err := policies.Insert(ctx, bson.D{{Key: "_id", Value: "frodo"}, {Key: "premium", Value: 10}, {Key: "owner", Value: bson.D{{Key: "home", Value: "Bag End"}}}},
		versioning.Change{Author: "bilbo"})
	for i, author := range []string{"sam", "merry"} {
		if err != nil {
			log.Fatal(err)
		}
		policy.Document[1+i].Value = []any{12.5, bson.D{{Key: "home", Value: "Crickhollow"}}}[i]
		policy, err = policies.Save(ctx, policy, versioning.Change{Author: author})
	}
	if err != nil {
		log.Fatal(err)
	}
	differences, err := policies.Diff(ctx, "frodo", 1, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, difference := range differences {
		fmt.Println(difference)
	}
	// The newest revision that has another premium than the one before it.
	var newer versioning.Revision[bson.D]
	for older, err := range policies.Revisions(ctx, "frodo") {
		if err != nil {
			log.Fatal(err)
		}
		if newer.Number > 0 {
			changed, err := policies.Differences(older.Document, newer.Document)
			if err != nil {
				log.Fatal(err)
			}
			if slices.ContainsFunc(changed, func(d versioning.Difference) bool { return d.Path == "premium" }) {
				break
			}
		}
		newer = older
	}
	fmt.Println("premium by", newer.Change.Author, "in revision", newer.Number)
	// Output:
	// premium: {"$numberInt":"10"} is now {"$numberDouble":"12.5"}
	// owner.home: "Bag End" is now "Crickhollow"
	// premium by sam in revision 2
}

// Orders with a copy of the customer's name. A new name makes a revision of each order: the history
// has the old name until then.
func ExampleHistory_Edit() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	customerColl, orderColl := db.Collection("customers"), db.Collection("orders")
	type Order struct {
		ID       string `bson:"_id"`
		Customer bson.D `bson:"customer"`
	}
	orders, err := versioning.New[string, Order](orderColl, db.Collection("orders.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	customers, err := extref.New[int, bson.D](customerColl, []extref.Target{{
		Collection: orderColl, Path: "customer", Fields: []extref.Field{{Path: "name", Frozen: true}},
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := customerColl.InsertOne(ctx, bson.D{{Key: "_id", Value: 123}, {Key: "name", Value: "Katrina Pope"}}); err != nil {
		log.Fatal(err)
	}
	copied, err := customers.Fetch(ctx, "orders.customer", 123)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := orders.Insert(ctx, Order{"A-17", copied}, versioning.Change{Author: "shop"}); err != nil {
		log.Fatal(err)
	}

	if _, err := customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Katrina Pop"}}}}); err != nil {
		log.Fatal(err)
	}
	if copied, err = customers.Fetch(ctx, "orders.customer", 123); err != nil {
		log.Fatal(err)
	}
	open, err := customers.Filter("orders.customer", 123)
	if err != nil {
		log.Fatal(err)
	}
	var ids []string
	if err := orderColl.Distinct(ctx, "_id", open).Decode(&ids); err != nil {
		log.Fatal(err)
	}
	for _, id := range ids {
		change := func(o *Order) error { o.Customer = copied; return nil }
		if _, err := orders.Edit(ctx, id, change, versioning.Change{Author: "shop", Reason: "customer renamed"}); err != nil {
			log.Fatal(err)
		}
	}
	for r, err := range orders.RevisionsFrom(ctx, "A-17", 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Number, r.Document.Customer[1].Value)
	}
	// Output:
	// 1 Katrina Pope
	// 2 Katrina Pop
}

// A deleted document is restored with its history.
func ExampleHistory_Restore() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, Policy](db.Collection("policies"), db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := policies.Insert(ctx, Policy{ID: "gollum", Items: []string{"One Ring"}}, versioning.Change{}); err != nil {
		log.Fatal(err)
	}
	if err := policies.Delete(ctx, "gollum", 1, versioning.Change{Reason: "lost"}); err != nil {
		log.Fatal(err)
	}
	_, err = policies.Get(ctx, "gollum")
	fmt.Println(err)
	policy, err := policies.Restore(ctx, "gollum", 1, versioning.Change{Reason: "found again"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Number, policy.Document.Items)
	// Output:
	// versioning: get: _id "gollum": not found
	// 3 [One Ring]
}

// The history of an order holds the key of its customer. The copy of the customer follows its source and
// is not in the history. Whatever changes the key, an Undo too, sets the copy in the same transaction.
func ExampleHistory_Undo() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	customerColl, orderColl := db.Collection("customers"), db.Collection("orders")
	type Order struct {
		ID       string `bson:"_id"`
		Customer int    `bson:"customer_id"`
	}
	orders, err := versioning.New[string, Order](orderColl, db.Collection("orders.revisions"), &versioning.Options{Ignored: []string{"customer"}})
	if err != nil {
		log.Fatal(err)
	}
	customers, err := extref.New[int, bson.D](customerColl, []extref.Target{{
		Name: "orders", Collection: orderColl, IDField: "customer_id", VersionField: "customer.version",
		Fields: []extref.Field{{Path: "name", As: "customer.name"}},
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = customerColl.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Katrina Pope"}},
		bson.D{{Key: "_id", Value: 2}, {Key: "name", Value: "Fred Krug"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	withCopy := func(change func(ctx context.Context) (versioning.Revision[Order], error)) {
		var order versioning.Revision[Order]
		err := mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) (err error) {
			if order, err = change(ctx); err != nil {
				return err
			}
			copied, err := customers.Pin(ctx, "orders", order.Document.Customer)
			if err != nil {
				return err
			}
			_, err = orderColl.UpdateOne(ctx, orders.Filter(order.Document.ID), bson.D{{Key: "$set", Value: copied}})
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
		raw, err := orderColl.FindOne(ctx, orders.Filter(order.Document.ID)).Raw()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order.Number, raw.Lookup("customer_id"), raw.Lookup("customer", "name"))
	}
	withCopy(func(ctx context.Context) (versioning.Revision[Order], error) {
		return orders.Insert(ctx, Order{"A-17", 1}, versioning.Change{})
	})
	withCopy(func(ctx context.Context) (versioning.Revision[Order], error) {
		return orders.Edit(ctx, "A-17", func(o *Order) error { o.Customer = 2; return nil }, versioning.Change{})
	})
	withCopy(func(ctx context.Context) (versioning.Revision[Order], error) {
		return orders.Undo(ctx, "A-17", 2, versioning.Change{Reason: "wrong customer"})
	})
	// Output:
	// 1 {"$numberInt":"1"} "Katrina Pope"
	// 2 {"$numberInt":"2"} "Fred Krug"
	// 3 {"$numberInt":"1"} "Katrina Pope"
}

// An existing collection needs no preparation, and any query finds documents to save.
func ExampleHistory_Decode() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("policies")
	_, err := coll.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "bilbo"}, {Key: "name", Value: "Bilbo Baggins"}, {Key: "premium", Value: 10}},
		bson.D{{Key: "_id", Value: "sam"}, {Key: "name", Value: "Samwise Gamgee"}, {Key: "premium", Value: 8}},
	})
	if err != nil {
		log.Fatal(err)
	}
	policies, err := versioning.New[string, Policy](coll, db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	raw, err := coll.FindOne(ctx, bson.D{{Key: "premium", Value: bson.D{{Key: "$lt", Value: 10}}}}).Raw()
	if err != nil {
		log.Fatal(err)
	}
	policy, err := policies.Decode(raw)
	if err != nil {
		log.Fatal(err)
	}
	policy.Document.Items = []string{"Box of soil"} // premium, which Policy does not have, stays
	if policy, err = policies.Save(ctx, policy, versioning.Change{Author: "galadriel"}); err != nil {
		log.Fatal(err)
	}
	first, err := policies.At(ctx, "sam", 1)
	fmt.Println(policy.Number, first.Document.Items, err)
	// Output: 2 [] <nil>
}

// Many documents are saved in few round trips; conflicts are reported for each.
func ExampleHistory_SaveMany() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, Policy](db.Collection("policies"), db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	var batch []*versioning.Revision[Policy]
	for _, id := range []string{"merry", "pippin", "sam"} {
		policy, err := policies.Insert(ctx, Policy{ID: id, Policy: "Shire standard"}, versioning.Change{})
		if err != nil {
			log.Fatal(err)
		}
		policy.Document.Policy = "Shire premium"
		batch = append(batch, &policy)
	}
	if err := policies.Delete(ctx, "sam", 1, versioning.Change{}); err != nil {
		log.Fatal(err)
	}
	result, err := policies.SaveMany(ctx, func(yield func(*versioning.Revision[Policy], error) bool) {
		for _, policy := range batch {
			if !yield(policy, nil) {
				return
			}
		}
	}, versioning.Change{Reason: "new tariff"}, nil)
	fmt.Println(result.Done, "saved, merry's as revision", batch[0].Number)
	fmt.Println(err)
	for _, failure := range result.Failures {
		fmt.Println(failure.ID, failure.Err)
	}
	// Output:
	// 2 saved, merry's as revision 2
	// versioning: save many: 1 of 3 not stored, the first: _id "sam": not found
	// "sam" _id "sam": not found
}

// Old revisions are deleted; a pruned revision has another error than one that never was.
func ExampleHistory_Prune() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	policies, err := versioning.New[string, Policy](db.Collection("policies"), db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	policy, err := policies.Insert(ctx, Policy{ID: "bilbo"}, versioning.Change{})
	for _, item := range []string{"mail", "sword", "ring"} {
		if err != nil {
			log.Fatal(err)
		}
		policy.Document.Items = append(policy.Document.Items, item)
		policy, err = policies.Save(ctx, policy, versioning.Change{})
	}
	if err != nil {
		log.Fatal(err)
	}
	result, err := policies.Prune(ctx, versioning.Retention{Keep: 2}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deleted", result.Done)
	_, err = policies.At(ctx, "bilbo", 1)
	fmt.Println(errors.Is(err, versioning.ErrPruned))
	_, err = policies.At(ctx, "bilbo", 9)
	fmt.Println(errors.Is(err, versioning.ErrPruned), errors.Is(err, mongopatterns.ErrNotFound))
	// Output:
	// deleted 1
	// true
	// false true
}

// Large documents with small changes are kept as deltas between whole revisions.
func ExampleOptions_deltas() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	revisions := db.Collection("policies.revisions")
	policies, err := versioning.New[string, Policy](db.Collection("policies"), revisions, &versioning.Options{SnapshotEvery: 10})
	if err != nil {
		log.Fatal(err)
	}
	treasure := make([]string, 1000)
	for i := range treasure {
		treasure[i] = fmt.Sprint("piece ", i)
	}
	policy, err := policies.Insert(ctx, Policy{ID: "thorin", Items: treasure}, versioning.Change{})
	for n := 0; err == nil && n < 25; n++ {
		policy.Document.Items[n] = "stolen"
		policy, err = policies.Save(ctx, policy, versioning.Change{})
	}
	if err != nil {
		log.Fatal(err)
	}
	whole, err := revisions.CountDocuments(ctx, bson.D{{Key: "document", Value: bson.D{{Key: "$exists", Value: true}}}})
	if err != nil {
		log.Fatal(err)
	}
	deltas, err := revisions.CountDocuments(ctx, bson.D{{Key: "delta", Value: bson.D{{Key: "$exists", Value: true}}}})
	if err != nil {
		log.Fatal(err)
	}
	third, err := policies.At(ctx, "thorin", 3)
	fmt.Println(whole, "whole,", deltas, "deltas:", third.Document.Items[:4], err)
	// Output: 2 whole, 23 deltas: [stolen stolen piece 2 piece 3] <nil>
}

// Damage by other programs to documents and history is found, and repaired where possible.
func ExampleHistory_Repair() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("policies")
	policies, err := versioning.New[string, Policy](coll, db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	policy, err := policies.Insert(ctx, Policy{ID: "bilbo"}, versioning.Change{})
	if err != nil {
		log.Fatal(err)
	}
	policy.Document.Name = "Bilbo Baggins"
	if _, err := policies.Save(ctx, policy, versioning.Change{}); err != nil {
		log.Fatal(err)
	}
	if _, err := coll.DeleteOne(ctx, policies.Filter("bilbo")); err != nil { // not by policies.Delete
		log.Fatal(err)
	}
	for problem, err := range policies.Check(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(problem)
	}
	result, err := policies.Repair(ctx, nil)
	fmt.Println("repaired", result.Done, "of", result.Examined, err)
	// Output:
	// versioning: policies "bilbo": no deletion: revision 2 of "bilbo"
	// repaired 1 of 1 <nil>
}

// An existing collection gets numbers, and the known part of its past.
func ExampleHistory_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("policies")
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "bilbo"}, {Key: "updated_by", Value: "lobelia"}})
	if err != nil {
		log.Fatal(err)
	}
	policies, err := versioning.New[string, Policy](coll, db.Collection("policies.revisions"), nil)
	if err != nil {
		log.Fatal(err)
	}
	result, err := policies.Adopt(ctx, func(stored bson.Raw) versioning.Change {
		author, _ := stored.Lookup("updated_by").StringValueOK()
		return versioning.Change{Author: author}
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	policy, err := policies.Get(ctx, "bilbo")
	fmt.Println(result.Done, policy.Number, policy.Change.Author, err)
	// Output: 1 1 lobelia <nil>
}

// Old code keeps the history of contracts in rows {contract, ver, saved, who, body}, written when somebody replaces the body.
// So a row says when the revision after it began, and who made that.
func ExampleHistory_AdoptRevisions() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	rows := db.Collection("contract_history")
	contracts, err := versioning.New[string, bson.M](db.Collection("contracts"), rows,
		&versioning.Options{DocumentIDField: "contract", RevisionField: "ver", ChangeField: "chg"})
	if err != nil {
		log.Fatal(err)
	}
	day := func(n int) time.Time { return time.Date(1941, 4, n, 9, 0, 0, 0, time.UTC) }
	if _, err := db.Collection("contracts").InsertOne(ctx, bson.M{"_id": "c1", "ver": 3, "sum": 30}); err != nil {
		log.Fatal(err)
	}
	if _, err := rows.InsertMany(ctx, []bson.M{
		{"contract": "c1", "ver": 1, "saved": day(1), "who": "ann", "ip": "10.0.0.1", "body": bson.M{"_id": "c1", "sum": 10}},
		{"contract": "c1", "ver": 2, "saved": day(2), "who": "bob", "ip": "10.0.0.2", "body": bson.M{"_id": "c1", "sum": 20}},
	}); err != nil {
		log.Fatal(err)
	}

	// made returns the change that made a revision, from the row before it. That row may be adopted already: the fields
	// that its revision does not have are still there. Of the first revision nothing is known.
	made := func(contract string, ver int64) (versioning.Change, error) {
		var before struct {
			Saved time.Time
			Who   string
		}
		err := rows.FindOne(ctx, bson.M{"contract": contract, "ver": ver - 1}).Decode(&before)
		if errors.Is(err, mongo.ErrNoDocuments) {
			err = nil
		}
		return versioning.Change{At: before.Saved, Author: before.Who}, err
	}
	read := func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
		var r struct {
			Contract string
			Ver      int64
			Body     bson.Raw
		}
		if err := bson.Unmarshal(row, &r); err != nil || r.Body == nil {
			return nil, err // without a body it is no revision, and is Skipped
		}
		change, err := made(r.Contract, r.Ver)
		if at, ok := r.Body.Lookup("chg", "at").TimeOK(); ok && change.At.IsZero() { // new code made it
			change = versioning.Change{At: at}
		}
		return &versioning.Revision[bson.Raw]{Number: r.Ver, Change: change, Document: r.Body}, err
	}
	known := func(stored bson.Raw) versioning.Change {
		change, err := made(stored.Lookup("_id").StringValue(), stored.Lookup("ver").AsInt64())
		if err != nil {
			log.Fatal(err)
		}
		return change
	}

	if err := contracts.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	history, err := contracts.AdoptRevisions(ctx, read, nil)
	if err != nil {
		log.Fatal(err)
	}
	documents, err := contracts.Adopt(ctx, known, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rows:", history.Done, "documents:", documents.Done)
	for r, err := range contracts.Revisions(ctx, "c1") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Number, r.Change.At.Format(time.DateOnly), r.Change.Author, r.Document["sum"])
	}
	// Output:
	// rows: 2 documents: 1
	// 3 1941-04-02 bob 30
	// 2 1941-04-01 ann 20
	// 1 0001-01-01  10
}
