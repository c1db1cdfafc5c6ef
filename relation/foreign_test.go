package relation_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// strange are values that a program left among references and that no _id can be: as parts
// of a filter they match strangers, or fail the command.
var strange = map[string]any{
	"pattern":   bson.Regex{Pattern: "^", Options: ""},
	"operators": bson.D{{Key: "$gt", Value: ""}},
	"null":      nil,
	"undefined": bson.Undefined{},
	"array":     bson.A{"b", "c"},
}

type letter struct {
	ID string `bson:"_id"`
}

// letters are the parents Ann, with the child a and something strange, and Bob, with the
// child b; c and d belong to nobody.
func letters(t *testing.T, opts relation.Options, odd any) (*mongo.Database, *relation.Relation[string, string, letter]) {
	t.Helper()
	db := mongotest.Database(t)
	list := func(id string) bson.A { return bson.A{id, odd} }
	ann, bob, a, b := bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}, bson.M{"_id": "a"}, bson.M{"_id": "b"}
	switch {
	case opts.ParentField != "":
		opts.Links = db.Collection("links")
		insert(t, opts.Links, bson.M{"person_id": "Ann", "task_id": "a"}, bson.M{"person_id": "Ann", "task_id": odd}, bson.M{"person_id": odd, "task_id": "c"}, bson.M{"person_id": "Bob", "task_id": "b"})
	case opts.OwnersField != "":
		a["owners"], b["owners"] = list("Ann"), bson.A{"Bob"}
	case opts.OwnerField != "":
		a["owner"], b["owner"] = "Ann", "Bob"
	}
	if opts.ChildrenField != "" {
		ann["tasks"], bob["tasks"] = list("a"), bson.A{"b"}
	}
	insert(t, db.Collection("people"), ann, bob)
	insert(t, db.Collection("tasks"), a, b, bson.M{"_id": "c"}, bson.M{"_id": "d"})
	return db, must(relation.New[string, string, letter](db.Collection("people"), db.Collection("tasks"), &opts))
}

func ids(t *testing.T, coll *mongo.Collection) (out []string) {
	t.Helper()
	all := must(coll.Distinct(t.Context(), "_id", bson.D{}).Raw())
	values := must(all.Values())
	for _, id := range values {
		out = append(out, id.StringValue())
	}
	slices.Sort(out)
	return out
}

// A stored reference that no _id can be is no part of a filter: it is named, and no call
// reads, writes or deletes what it would match.
func TestStrangeReferences(t *testing.T) {
	ctx := t.Context()
	for kind, opts := range map[string]relation.Options{"listed": listed, "two-way": twoWay, "many": manyMany, "named": named, "linked": linked} {
		for name, odd := range strange {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				db, r := letters(t, opts, odd)
				for range 2 { // Repair leaves them
					found := 0
					for p, err := range r.Check(ctx, nil) {
						check(t, err)
						if p.Kind != relation.Malformed && p.Kind != relation.OneSided {
							t.Error(p)
						}
						if p.Kind == relation.Malformed {
							found++
						}
					}
					if found == 0 {
						t.Error("Check does not name it")
					}
					result, err := r.Repair(ctx, nil)
					check(t, err)
					if result.Remaining == 0 {
						t.Errorf("%+v", result)
					}
				}
				joined, err := r.Children(ctx, "Ann", nil)
				check(t, err)
				if !slices.Equal(joined.Items, []letter{{"a"}}) || len(joined.Dangling) > 0 || kind != "named" && kind+name != "linkednull" && len(joined.Malformed) != 1 {
					t.Error(joined)
				}
				all, err := r.ChildrenOf(ctx, []string{"Bob", "Ann"}, nil)
				check(t, err)
				if !slices.Equal(all[0].Items, []letter{{"b"}}) || !slices.Equal(all[1].Items, []letter{{"a"}}) {
					t.Error(all)
				}
				if kind == "listed" || kind == "two-way" || kind == "many" {
					result, err := r.Embed(ctx, nil)
					check(t, err)
					left := []string{"a", "c", "d"}
					if name == "operators" && kind != "many" { // as embedded as any document
						left = left[1:]
					} else if result.Failed != 1 || result.Failures[0].ID.StringValue() != "Ann" {
						t.Errorf("%+v", result)
					}
					if got := ids(t, db.Collection("tasks")); !slices.Equal(got, left) {
						t.Errorf("after Embed there are %v", got)
					}
					_, err = r.Extract(ctx, nil)
					check(t, err)
				}
				if kind == "two-way" {
					_, err := db.Collection("tasks").UpdateByID(ctx, "d", bson.M{"$set": bson.M{"owner": odd}})
					check(t, err)
					check(t, r.Transfer(ctx, "d", "Bob"))
				}
				check(t, r.DeleteParent(ctx, "Ann", relation.Cascade))
				want := []string{"b", "c", "d"}
				if kind == "many" || kind == "named" {
					want = ids(t, db.Collection("tasks")) // a names something else too
				}
				if got := ids(t, db.Collection("tasks")); !slices.Equal(got, want) {
					t.Errorf("after Cascade there are %v", got)
				}
			})
		}
	}
}

// A reference in a list alone that is a pattern takes nothing with it.
func TestOnlyAPattern(t *testing.T) {
	ctx := t.Context()
	db, r := letters(t, listed, nil)
	_, err := db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$set": bson.M{"tasks": bson.A{bson.Regex{Pattern: "^"}}}})
	check(t, err)
	if joined := must(r.Children(ctx, "Ann", nil)); len(joined.Items) > 0 || len(joined.Malformed) != 1 {
		t.Error(joined)
	}
	if result := must(r.Embed(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Ann"}})); result.Failed != 1 {
		t.Errorf("%+v", result)
	}
	check(t, r.DeleteParent(ctx, "Ann", relation.Cascade))
	if got := ids(t, db.Collection("tasks")); len(got) != 4 {
		t.Errorf("there are %v", got)
	}
}

// A parent that is no array of children is named and left.
func TestExtractLeavesWhatIsNotAnArray(t *testing.T) {
	ctx := t.Context()
	db, r := people(t, listed)
	whole := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.D{{Key: "21", Value: bson.D{{Key: "title", Value: "a"}}}}}}
	insert(t, db.Collection("people"), whole,
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
	if dry := must(r.Extract(ctx, &mongopatterns.Work{DryRun: true})); dry.Failed != 1 || dry.Done != 1 {
		t.Errorf("%+v", dry)
	}
}

// Old code that holds a parent from before replaces it, with the children embedded: the next
// Extract links those that are as they were, and names those that are not.
func TestExtractAfterAReplacement(t *testing.T) {
	ctx := t.Context()
	for _, opts := range []relation.Options{listed, twoWay, manyMany} {
		db, r := people(t, opts)
		old := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.A{
			bson.D{{Key: "_id", Value: 21}, {Key: "title", Value: "a"}}, bson.D{{Key: "_id", Value: 22}, {Key: "title", Value: "b"}}}}}
		insert(t, db.Collection("people"), old)
		must(r.Extract(ctx, nil))
		_, err := db.Collection("people").ReplaceOne(ctx, bson.M{"_id": "Eve"}, old)
		check(t, err)
		var result mongopatterns.Result
		sent := mongotest.Record(t, db, func() { result = must(r.Extract(ctx, nil)) })
		if want := []string{"listCollections", "find", "insert", "abortTransaction", "find", "update", "commitTransaction"}; !slices.Equal(sent.Names(), want) {
			t.Errorf("sent %v", sent.Names())
		}
		if result.Done != 1 || result.Failed != 0 || len(problems(t, r)) != 0 {
			t.Errorf("%+v, %v", result, problems(t, r))
		}
		if joined := must(r.Children(ctx, "Eve", nil)); len(joined.Items) != 2 {
			t.Error(joined)
		}
		_, err = db.Collection("tasks").UpdateByID(ctx, 22, bson.M{"$set": bson.M{"title": "newer"}})
		check(t, err)
		_, err = db.Collection("people").ReplaceOne(ctx, bson.M{"_id": "Eve"}, old)
		check(t, err)
		result = must(r.Extract(ctx, nil))
		if result.Done != 0 || result.Failed != 1 || !slices.Contains(problems(t, r), relation.Malformed) {
			t.Errorf("%+v, %v", result, problems(t, r))
		}
		if joined := must(r.Children(ctx, "Eve", nil)); len(joined.Malformed) != 2 {
			t.Error(joined)
		}
		check(t, db.Collection("tasks").FindOne(ctx, bson.M{"_id": 22, "title": "newer"}).Err())
		check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Eve", "tasks.title": "b"}).Err())
	}
}

// Old code pushes, pulls, replaces, deletes and inserts again beside Extract. Once it has
// stopped a last Extract, with nothing failed and nothing remaining, has every child that
// old code left embedded, once.
func TestExtractBesideOldCode(t *testing.T) {
	for kind, opts := range map[string]relation.Options{"listed": listed, "two-way": twoWay, "many": manyMany} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db, r := people(t, opts)
			coll := db.Collection("people", options.Collection())
			const parents, rounds = 4, 60
			for p := range parents {
				insert(t, coll, bson.M{"_id": fmt.Sprint("p", p), "tasks": bson.A{bson.M{"_id": 1000*p + 999}}})
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
			if last := must(r.Extract(t.Context(), nil)); last.Remaining+last.Failed > 0 {
				t.Errorf("%+v", last)
			}
			if found := problems(t, r); len(found) > 0 {
				t.Error(found)
			}
			for p := range parents {
				joined := must(r.Children(t.Context(), fmt.Sprint("p", p), nil))
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
