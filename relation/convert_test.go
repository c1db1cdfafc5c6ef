package relation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// A parent whose field is not an array of children is named and left.
func TestExtractLeavesWhatIsNotAnArray(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, listed)
	whole := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.D{{Key: "21", Value: bson.D{{Key: "title", Value: "a"}}}}}}
	testkit.Insert(t, db.Collection("people"), whole,
		bson.M{"_id": "Fay", "tasks": bson.A{bson.M{"_id": bson.Regex{Pattern: "x"}}}}, bson.M{"_id": "Gus", "tasks": bson.A{bson.M{"_id": 22}}})
	result, err := r.Extract(ctx, nil)
	if err != nil || result.Done != 1 || result.Failed != 2 || result.Failures[0].ID.StringValue() != "Eve" || result.Failures[1].ID.StringValue() != "Fay" {
		t.Errorf("%+v, %v", result, err)
	}
	var got bson.D
	check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Eve"}).Decode(&got))
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Error(diff)
	}
	if dry := testkit.Must(r.Extract(ctx, &mongopatterns.Work{DryRun: true})); dry.Failed != 2 || dry.Done != 0 {
		t.Errorf("%+v", dry)
	}
}

// Whatever else a program has stored in place of the list is named too, by both conversions. Null is no list.
func TestConversionsNameWhatIsNotAnArray(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, listed)
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": "many"}, bson.M{"_id": "Fay", "tasks": 7},
		bson.M{"_id": "Gus", "tasks": nil}, bson.M{"_id": "Hal", "tasks": bson.A{}})
	for name, convert := range map[string]func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){"extract": r.Extract, "embed": r.Embed} {
		result := testkit.Must(convert(ctx, nil))
		if result.Examined != 2 || result.Failed != 2 || result.Failures[0].ID.StringValue() != "Eve" || result.Failures[1].ID.StringValue() != "Fay" {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

// A parent that embeds a child twice is named and left, because the two may differ.
func TestExtractOfAChildTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, listed)
	twice := bson.M{"_id": "Eve", "tasks": bson.A{bson.M{"_id": 22, "title": "a"}, bson.M{"_id": 22.0, "title": "b"}}}
	testkit.Insert(t, db.Collection("people"), twice)
	for _, work := range []*mongopatterns.Work{{DryRun: true}, nil} {
		result := testkit.Must(r.Extract(ctx, work))
		if result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v", result)
		}
	}
}

// Old code replaces a parent by an earlier copy, with the children embedded: the next Extract
// links unchanged children, and names changed ones.
func TestExtractAfterAReplacement(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, opts := range []relation.Options{listed, twoWay, manyMany} {
		db, r := people(t, opts)
		old := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.A{
			bson.D{{Key: "_id", Value: 21}, {Key: "title", Value: "a"}}, bson.D{{Key: "_id", Value: 22}, {Key: "title", Value: "b"}}}}}
		testkit.Insert(t, db.Collection("people"), old)
		testkit.Must(r.Extract(ctx, nil))
		_, err := db.Collection("people").ReplaceOne(ctx, bson.M{"_id": "Eve"}, old)
		check(t, err)
		var result mongopatterns.Result
		sent := costs.Unfenced(mongotest.Record(t, db, func() { result = testkit.Must(r.Extract(ctx, nil)) }))
		if want := []string{"listCollections", "find", "insert", "abortTransaction", "find", "update", "commitTransaction"}; !slices.Equal(sent.Names(), want) {
			t.Errorf("sent %v", sent.Names())
		}
		if result.Done != 1 || result.Failed != 0 || len(problems(t, r)) != 0 {
			t.Errorf("%+v, %v", result, problems(t, r))
		}
		if joined := testkit.Must(r.Children(ctx, "Eve", nil)); len(joined.Items) != 2 {
			t.Error(joined)
		}
		_, err = db.Collection("tasks").UpdateByID(ctx, 22, bson.M{"$set": bson.M{"title": "newer"}})
		check(t, err)
		_, err = db.Collection("people").ReplaceOne(ctx, bson.M{"_id": "Eve"}, old)
		check(t, err)
		result = testkit.Must(r.Extract(ctx, nil))
		if result.Done != 0 || result.Failed != 1 || !slices.Contains(problems(t, r), mongopatterns.Malformed) {
			t.Errorf("%+v, %v", result, problems(t, r))
		}
		if joined := testkit.Must(r.Children(ctx, "Eve", nil)); len(joined.Malformed) != 2 {
			t.Error(joined)
		}
		check(t, db.Collection("tasks").FindOne(ctx, bson.M{"_id": 22, "title": "newer"}).Err())
		check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Eve", "tasks.title": "b"}).Err())
	}
}

// Old code pushes, pulls, replaces, deletes and inserts again beside Extract. After it has
// stopped, a last Extract, with nothing failed and nothing remaining, has every child that
// old code left embedded, once.
func TestExtractBesideOldCode(t *testing.T) {
	t.Parallel()
	for kind, opts := range map[string]relation.Options{"listed": listed, "two-way": twoWay, "many": manyMany} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db, r := people(t, opts)
			coll := db.Collection("people", options.Collection())
			const parents, rounds = 4, 30
			for p := range parents {
				testkit.Insert(t, coll, bson.M{"_id": fmt.Sprint("p", p), "tasks": bson.A{bson.M{"_id": 1000*p + 999}}})
			}
			var all sync.WaitGroup
			for p := range parents {
				all.Go(func() {
					id := bson.M{"_id": fmt.Sprint("p", p)}
					for i := range rounds {
						child := bson.M{"_id": 1000*p + 100 + i, "title": "new"}
						if _, err := coll.UpdateOne(context.Background(), id, bson.M{"$push": bson.M{"tasks": child}}); err != nil {
							t.Error(err)
						}
						if i%10 == 7 { // it goes, and comes again as it was
							var doc bson.Raw
							if err := coll.FindOneAndDelete(context.Background(), id).Decode(&doc); err != nil {
								t.Error(err)
							}
							if _, err := coll.InsertOne(context.Background(), doc); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			stopped := make(chan struct{})
			go func() { all.Wait(); close(stopped) }()
			for running := true; running; {
				select {
				case <-stopped:
					running = false
				default:
				}
				if result, err := r.Extract(t.Context(), nil); err != nil || result.Failed > 0 {
					t.Fatalf("%+v, %v", result, err)
				}
			}
			if last := testkit.Must(r.Extract(t.Context(), nil)); last.Remaining+last.Failed > 0 {
				t.Errorf("%+v", last)
			}
			if found := problems(t, r); len(found) > 0 {
				t.Error(found)
			}
			for p := range parents {
				joined := testkit.Must(r.Children(t.Context(), fmt.Sprint("p", p), nil))
				got := map[int]bool{}
				for _, item := range joined.Items {
					got[item.ID] = true
				}
				if len(got) != rounds+1 || len(joined.Items) != len(got) || len(joined.Dangling)+len(joined.Malformed) > 0 {
					t.Errorf("%d of %d, %+v", len(got), rounds+1, joined)
				}
			}
		})
	}
}

// Embedded tasks become documents with references and come back the same, in their order.
func TestExtractAndEmbed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, twoWay)
	embedded := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.A{
		bson.D{{Key: "_id", Value: int32(22)}, {Key: "title", Value: "b"}}, bson.D{{Key: "_id", Value: int32(21)}, {Key: "title", Value: "a"}},
	}}}
	testkit.Insert(t, db.Collection("people"), embedded, bson.M{"_id": "Fay", "tasks": bson.A{bson.M{"_id": 1}}})
	result := testkit.Must(r.Extract(ctx, nil))
	if result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "Fay" {
		t.Errorf("%+v", result)
	}
	if joined := testkit.Must(r.Children(ctx, "Eve", nil)); !slices.Equal(joined.Items, []task{{22, "b", "Eve"}, {21, "a", "Eve"}}) {
		t.Error(joined)
	}
	if again := testkit.Must(r.Extract(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Eve"}})); again.Examined != 0 {
		t.Errorf("%+v", again)
	}
	check(t, r.Link(ctx, "Bob", 2))
	_, err := db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$set": bson.M{"tasks": bson.A{2}}})
	check(t, err)
	_, err = db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": bson.A{99}}})
	check(t, err)
	result = testkit.Must(r.Embed(ctx, nil))
	if result.Done != 1 || result.Failed != 3 { // Ann and Bob share 2, Cy's is dangling
		t.Errorf("%+v", result)
	}
	var got bson.D
	check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Eve"}).Decode(&got))
	if diff := cmp.Diff(embedded, got); diff != "" {
		t.Error(diff)
	}
	if n := testkit.Must(db.Collection("tasks").CountDocuments(ctx, bson.M{"_id": bson.M{"$gt": 20}})); n != 0 {
		t.Error(n)
	}
	_, err = db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$set": bson.M{"tasks": bson.A{7, 6, 7}}}) // twice
	check(t, err)
	if twice := testkit.Must(r.Embed(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Ann"}})); twice.Done != 1 {
		t.Errorf("%+v", twice)
	}
	var ann struct{ Tasks []task }
	check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Ann"}).Decode(&ann))
	if !slices.Equal(ann.Tasks, []task{{ID: 7}, {ID: 6}}) {
		t.Error(ann)
	}
	testkit.Insert(t, db.Collection("tasks"), task{ID: 31, Owner: "Bob"})
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Gus", "tasks": bson.A{31}}) // Bob's, though his list does not say so
	strict := errorOf(r.Embed(ctx, &mongopatterns.Work{Strict: true, Filter: bson.M{"_id": "Gus"}}))
	if !errors.Is(strict, mongopatterns.ErrReferenced) {
		t.Error(strict)
	}
}

// A parent that changes between the read of its batch and its conversion is read again.
func TestConversionOfTheChanged(t *testing.T) {
	t.Parallel()
	db, r := people(t, listed)
	check(t, errors.Join(r.Link(t.Context(), "Ann", 1), r.Link(t.Context(), "Bob", 2)))
	var once sync.Once
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "commitTransaction" {
			once.Do(func() { check(t, r.Link(t.Context(), "Bob", 3)) })
		}
	}})).Client().Database(db.Name())
	other := testkit.Must(relation.New[string, int, task](slow.Collection("people"), slow.Collection("tasks"), &listed))
	var result mongopatterns.Result
	sent := costs.Unfenced(mongotest.Record(t, slow, func() { result = testkit.Must(other.Embed(t.Context(), nil)) }))
	if result.Done != 2 || result.Skipped != 0 {
		t.Errorf("%+v", result)
	}
	if n := len(sent.Names()); n != 1+1+2*5+6 {
		t.Errorf("sent %d: %v", n, sent.Names())
	}
	if n := testkit.Must(db.Collection("people").CountDocuments(t.Context(), bson.M{"_id": "Bob", "tasks._id": 3})); n != 1 {
		t.Error("3 is not embedded")
	}
}

// A parent that always changes is Remaining, with all its children embedded; one that is
// deleted meanwhile is Skipped.
func TestConversionOfWhatAlwaysChanges(t *testing.T) {
	t.Parallel()
	db, r := people(t, listed)
	for name, want := range map[string]mongopatterns.Result{"push": {Examined: 1, Remaining: 1}, "delete": {Examined: 1, Skipped: 1}} {
		testkit.Insert(t, db.Collection("people"), bson.M{"_id": name, "tasks": bson.A{bson.M{"title": "a"}}})
		slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName != "insert" {
				return
			}
			_, err := db.Collection("people").UpdateByID(t.Context(), name, bson.M{"$push": bson.M{"tasks": bson.M{"title": "b"}}})
			if name == "delete" {
				_, err = db.Collection("people").DeleteOne(t.Context(), bson.M{"_id": name})
			}
			check(t, err)
		}})).Client().Database(db.Name())
		other := testkit.Must(relation.New[string, int, task](slow.Collection("people"), slow.Collection("tasks"), &listed))
		if got := testkit.Must(other.Extract(t.Context(), &mongopatterns.Work{Filter: bson.M{"_id": name}})); !cmp.Equal(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
		if n := testkit.Must(db.Collection("tasks").CountDocuments(t.Context(), bson.M{})); n != 9 {
			t.Error("children were stored")
		}
	}
	if got := testkit.Must(r.Extract(t.Context(), nil)); got.Done != 1 {
		t.Errorf("%+v", got)
	}
}

// A stopped conversion continues where it was, in every kind with Children.
func TestConversionsResume(t *testing.T) {
	t.Parallel()
	for _, opts := range []relation.Options{listed, twoWay, manyMany} {
		db, r := people(t, opts)
		for i := range 6 {
			testkit.Insert(t, db.Collection("people"), bson.M{"_id": fmt.Sprint("p", i), "tasks": bson.A{bson.M{"_id": 100 + i}, bson.M{"_id": 200 + i}}})
		}
		for _, convert := range []func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){r.Extract, r.Embed} {
			ctx, cancel := context.WithCancel(t.Context())
			first, err := convert(ctx, &mongopatterns.Work{BatchSize: 1, Progress: func(r mongopatterns.Result) {
				if r.Done == 2 {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) || first.Done != 2 {
				t.Errorf("%+v, %v", first, err)
			}
			if rest := testkit.Must(convert(t.Context(), nil)); rest.Done != 4 || rest.Failed != 0 {
				t.Errorf("%+v", rest)
			}
			if again := testkit.Must(convert(t.Context(), nil)); again.Examined != 0 {
				t.Errorf("%+v", again)
			}
		}
		if n := testkit.Must(db.Collection("people").CountDocuments(t.Context(), bson.M{"tasks._id": bson.M{"$gte": 100}})); n != 6 {
			t.Error(n)
		}
		if n := testkit.Must(db.Collection("tasks").CountDocuments(t.Context(), bson.M{"_id": bson.M{"$gte": 100}})); n != 0 {
			t.Error(n)
		}
	}
	db, _ := people(t, listed)
	r := testkit.Must(relation.New[string, bson.ObjectID, bson.M](db.Collection("people"), db.Collection("tasks"), &listed))
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{bson.M{"title": "without an _id"}}})
	testkit.Must(r.Extract(t.Context(), nil))
	if joined := testkit.Must(r.Children(t.Context(), "Eve", nil)); len(joined.Items) != 1 || joined.Items[0]["title"] != "without an _id" {
		t.Error(joined)
	}
}

// A Repair before Extract deletes no child that is still embedded.
func TestRepairKeepsEmbeddedChildren(t *testing.T) {
	t.Parallel()
	for _, opts := range []relation.Options{listed, twoWay} {
		db, r := people(t, opts)
		testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{bson.M{"_id": 22, "title": "b"}, bson.M{"_id": 23, "title": "a"}, 1}})
		result := testkit.Must(r.Repair(t.Context(), nil))
		if result.Remaining != 1 {
			t.Errorf("%+v", result)
		}
		if n := testkit.Must(db.Collection("people").CountDocuments(t.Context(), bson.M{"tasks": bson.M{"$size": 3}, "tasks.title": "a"})); n != 1 {
			t.Error("embedded children are gone")
		}
		testkit.Must(r.Extract(t.Context(), nil))
		if joined := testkit.Must(r.Children(t.Context(), "Eve", nil)); len(joined.Items) != 3 || len(joined.Dangling) != 0 {
			t.Error(joined)
		}
	}
}

// A child that holds something of its own in the field for its parents is named, and keeps it.
func TestExtractKeepsAFieldOfTheUser(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, opts := range []relation.Options{twoWay, manyMany} {
		db, r := people(t, opts)
		mine := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.A{
			bson.D{{Key: "_id", Value: int32(21)}, {Key: opts.OwnerField + opts.OwnersField, Value: "the manager"}}}}}
		whole := bson.M{"_id": "Fay", "tasks": bson.A{bson.M{"_id": 22, "owner": "Fay", "owners": bson.A{"Fay"}}, bson.M{"_id": 23}}}
		testkit.Insert(t, db.Collection("people"), mine, whole)
		for _, work := range []*mongopatterns.Work{{DryRun: true}, nil} {
			result, err := r.Extract(ctx, work)
			if err != nil || result.Done != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) ||
				!strings.Contains(result.Failures[0].Err.Error(), "choose another Options.Owner") {
				t.Errorf("%+v, %v", result, err)
			}
		}
		if diff := cmp.Diff(mine, testkit.One[bson.D](t, db.Collection("people"), "Eve")); diff != "" {
			t.Error(diff)
		}
		// Old code writes back what was extracted.
		_, err := db.Collection("people").ReplaceOne(ctx, bson.M{"_id": "Fay"}, whole)
		check(t, err)
		if result, err := r.Extract(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Fay"}}); err != nil || result.Done != 1 || result.Failed != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	}
}
