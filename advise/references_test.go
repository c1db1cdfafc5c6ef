package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Two sides of a relation that disagree, and copies that are no longer as their source, are remarked on. What mostly differs
// is meant so, and what extref manages follows.
func TestReferencesThatDisagree(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ids := make([]bson.ObjectID, 700)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	insert(t, db.Collection("users"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: ids[i]}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "price", Value: i}, {Key: "state", Value: "open"}, {Key: "city", Value: fmt.Sprint("c", i)}}
	}))
	order := func(i int) bson.D {
		user := i % 100
		name, price, state := fmt.Sprint("n", user), user, "open"
		if i%60 == 7 {
			name, state = "as it was", "closed"
		}
		if i%2 == 0 {
			price = 7
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "user_id", Value: ids[user]}, {Key: "userName", Value: name}, {Key: "user_price", Value: price},
			{Key: "user_state", Value: state}, {Key: "city", Value: "x"}, {Key: "by", Value: bson.D{{Key: "id", Value: ids[user]}, {Key: "name", Value: name}}}}
	}
	insert(t, db.Collection("orders"), times(300, order))
	insert(t, db.Collection("managed"), times(300, func(i int) bson.D { return append(order(i)[:3], bson.E{Key: "user_id_version", Value: 1}) }))
	insert(t, db.Collection("labelled"), times(300, func(i int) bson.D { return append(order(i)[:3], bson.E{Key: "user_id_version", Value: "v2"}) }))
	insert(t, db.Collection("posts"), times(100, func(i int) bson.D {
		list := bson.A{ids[100+6*i], ids[101+6*i], ids[102+6*i]}
		if i == 7 {
			list = list[:2]
		}
		return bson.D{{Key: "_id", Value: fmt.Sprint("p", i)}, {Key: "comments", Value: list}, {Key: "comments_count", Value: len(list)}}
	}))
	insert(t, db.Collection("comments"), times(600, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: ids[100+i]}}
		switch post := fmt.Sprint("p", i/6); {
		case i%6 > 2:
		case i < 2:
			doc = append(doc, bson.E{Key: "post", Value: "p50"})
		default:
			doc = append(doc, bson.E{Key: "post", Value: post})
		}
		return doc
	}))
	// A part of a list is in another collection.
	insert(t, db.Collection("threads"), times(100, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: fmt.Sprint("t", i)}, {Key: "replies", Value: bson.A{3 * i, 3*i + 1, 3*i + 2}}}
		if i == 7 {
			doc = bson.D{{Key: "_id", Value: "t7"}, {Key: "replies", Value: bson.A{23}}, {Key: "replies_outside", Value: 2}, {Key: "replies_moved", Value: ids[0]}}
		}
		return doc
	}))
	insert(t, db.Collection("replies"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "thread", Value: fmt.Sprint("t", i/3)}}
	}))
	report := look(t, db, unhurried(nil))
	want := map[string]string{
		"data:stale:orders.by.name":    "5 of 300 copies of users.name differ from it",
		"data:stale:orders.userName":   "5 of 300 copies of users.name differ from it",
		"data:stale:labelled.userName": "5 of 300 copies of users.name differ from it",
		"data:onesided:posts.comments": "2 of 299 references to comments are to a document that does not name this one in comments.post",
		"data:onesided:comments.post":  "3 of 300 references to posts are to a document that lacks this one in posts.comments",
	}
	for _, r := range report.Remarks {
		if r.Reason != want[r.Name()] {
			t.Errorf("%s: %s, want %q", r.Name(), r.Reason, want[r.Name()])
		}
		delete(want, r.Name())
	}
	if len(want) > 0 {
		t.Errorf("not said: %v; %v", want, report.Unknown)
	}
	checked(t, db, report)
}

// The _id inside of a copy is a reference by the name of the copy, also where a few _ids are of another type.
func TestReferencesInsideOfCopies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		id    string
		other any // the _id of one customer
	}{{"_id", 0}, {"id", 0}, {"_id", "C-0"}} {
		db := mongotest.Database(t)
		insert(t, db.Collection("customers"), times(150, func(i int) bson.D {
			doc := bson.D{{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprint("n", i)}}
			if i == 0 {
				doc[0].Value = test.other
			}
			return doc
		}))
		insert(t, db.Collection("orders"), times(596, func(i int) bson.D {
			customer, name := 1+i%149, fmt.Sprint("n", 1+i%149)
			switch {
			case i < 20:
				customer = 9000 + i
			case i < 40:
				name = "as it was"
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: bson.D{{Key: test.id, Value: customer}, {Key: "name", Value: name}}}}
		}))
		report := look(t, db, unhurried(nil))
		var got []string
		for _, r := range report.Remarks {
			got = append(got, r.Name()+": "+r.Reason)
		}
		want := []string{"data:dangling:orders.customer." + test.id + ": 20 of 596 references name no document of customers",
			"data:stale:orders.customer.name: 20 of 576 copies of customers.name differ from it"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		checked(t, db, report)
	}
}

// A field that could not be looked at does not keep the others from it.
func TestReferencesBesideAFailure(t *testing.T) {
	t.Parallel()
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, p.Options())
	t.Cleanup(func() { p.Break(nil) }) // the database is dropped through it
	insert(t, db.Collection("users"), times(100, func(i int) bson.D { return bson.D{{Key: "_id", Value: fmt.Sprint("u", i)}} }))
	insert(t, db.Collection("mails"), times(200, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "from_user", Value: fmt.Sprint("u", i%101)}, {Key: "to_user", Value: fmt.Sprint("u", i%101)}}
	}))
	p.Break(func(c proxy.Command) *proxy.Fault {
		if text := c.Body.String(); strings.Contains(text, `"different"`) && strings.Contains(text, "$from_user") {
			refused := proxy.Refuse(50)
			return &refused
		}
		return nil
	})
	report := look(t, db, unhurried(nil))
	if names := checked(t, db, report); !slices.Equal(names, []string{"data:dangling:mails.to_user"}) || !slices.ContainsFunc(report.Unknown, func(n advise.Note) bool { return n.Path == "from_user" }) {
		t.Errorf("%v; %v", names, report.Unknown)
	}
}

// Findings of large collections rest on ranges of _id where they agree, and else it is said how to count.
func TestEstimatedFindings(t *testing.T) {
	const n = 2_600
	advise.SlowScans(t, n-1, 60)
	db := mongotest.Database(t)
	reviews := func(product int) bson.A {
		return times(16, func(i int) bson.D {
			return bson.D{{Key: "_id", Value: int64(16*product + i)}, {Key: "text", Value: strings.Repeat("x", 120)}}
		})
	}
	fill(t, db.Collection("products"), n, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "year", Value: i % 50}, {Key: "reviews", Value: reviews(i)}}
	})
	fill(t, db.Collection("orders"), n, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: i % 130}} })
	insert(t, db.Collection("customers"), times(130, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: "a name"}, {Key: "notes", Value: "x"}}
	}))
	queries := sends(t, 100, `{"find": "products", "projection": {"reviews": {"$slice": 3}}}`,
		`{"aggregate": "orders", "pipeline": [{"$match": {"_id": 7}}, {"$lookup": {"from": "customers", "localField": "customer", "foreignField": "_id", "as": "of"}}, {"$project": {"of.name": 1}}]}`)
	report := look(t, db, unhurried(queries))
	if got := named(report); !slices.Equal(got, []string{"extref:orders", "subset:products"}) {
		t.Fatalf("advised %v; %v, %v", got, about(report, "orders"), about(report, "products"))
	}
	for _, f := range report.Findings {
		if !f.Check.Estimated || !strings.HasPrefix(f.Sure, "estimated: ") || !strings.Contains(f.Summary, "estimated") {
			t.Errorf("%s: %+v, %s, %s", f.Name(), f.Check, f.Sure, f.Summary)
		}
		for _, fact := range f.Facts {
			if fact.How == "counted" {
				t.Errorf("%s: %+v", f.Name(), fact)
			}
		}
		want := int64(n) // the copies
		if f.Pattern == "subset" {
			_, list, err := bson.MarshalValue(reviews(0))
			if err != nil {
				t.Fatal(err)
			}
			want = int64(len(list)) * n
		}
		if got := f.Check.Answer; got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: %d, want about %d", f.Name(), got, want)
		}
		if copies := int64(n * len("customer_name_a name")); f.Pattern == "extref" && (f.Grows[0].Low < copies || f.Grows[0].High > 4*copies) {
			t.Errorf("%s grows by %+v", f.Name(), f.Grows)
		}
	}
	_, err := db.Collection("orders").UpdateMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: 500}, {Key: "$lt", Value: 800}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "customer", Value: 100_000}}}})
	if err != nil {
		t.Fatal(err)
	}
	report = look(t, db, unhurried(queries))
	if notes := strings.Join(about(report, "orders"), "; "); !slices.Equal(named(report), []string{"subset:products"}) || !strings.Contains(notes, "too different for an estimate") {
		t.Errorf("advised %v; %s", named(report), notes)
	}
	// What writes refuse needs no estimate.
	changes := sends(t, 100, `{"update": "customers", "updates": [{"q": {"_id": 7}, "u": {"$set": {"name": "x"}}}]}`)
	report = look(t, db, unhurried(append(changes, queries...)))
	if notes := strings.Join(about(report, "orders"), "; "); !strings.Contains(notes, "but 100 writes to name would each change some 20 copies") || strings.Contains(notes, "extref: references") {
		t.Errorf("%s", notes)
	}
}
