package relation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// bounded ends a call that would never end.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// An OwnerField that is an array is Malformed: links of the child are refused, Repair counts
// both documents as remaining, and nobody changes the array.
func TestOwnerIsAnArray(t *testing.T) {
	t.Parallel()
	for kind, opts := range map[string]relation.Options{"owner": owned, "two-way": twoWay} {
		for name, owner := range map[string]bson.A{"empty": {}, "null": {nil}, "Ann": {"Ann"}, "Ann and Bob": {"Ann", "Bob"}} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				ctx := bounded(t)
				db, r := people(t, opts)
				_, err := db.Collection("tasks").UpdateByID(ctx, 1, bson.M{"$set": bson.M{"owner": owner}})
				check(t, err)
				if opts.ChildrenField != "" {
					_, err = db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$set": bson.M{"tasks": bson.A{1}}})
					check(t, err)
				}
				for _, linked := range [][]int{{1}, {1, 2}} {
					if err := r.Link(ctx, "Ann", linked...); !errors.Is(err, relation.ErrOwned) {
						t.Errorf("Link of %v: %v", linked, err)
					}
				}
				check(t, r.Unlink(ctx, "Bob", 1))
				if !slices.Contains(problems(t, r), mongopatterns.Malformed) {
					t.Errorf("Check finds %v", problems(t, r))
				}
				result, err := r.Repair(ctx, nil)
				if err != nil || result.Remaining == 0 {
					t.Errorf("%+v, %v", result, err)
				}
				if opts.ChildrenField != "" {
					check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Ann", "tasks": 1}).Err()) // still listed
				}
				check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Bob", mongopatterns.Unlink)))
				check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)))
				var got struct{ Owner bson.A }
				check(t, db.Collection("tasks").FindOne(ctx, bson.M{"_id": 1}).Decode(&got))
				if !slices.Equal(got.Owner, owner) {
					t.Errorf("the owner became %v", got.Owner)
				}
			})
		}
	}
}

// A null list is an empty one, on both sides: the driver stores null for a nil slice.
func TestNullIsAnEmptyList(t *testing.T) {
	t.Parallel()
	type lists struct {
		Tasks  []int    `bson:"tasks"`
		Owners []string `bson:"owners"`
	}
	for kind, opts := range map[string]relation.Options{"listed": listed, "many": manyMany, "named": named, "two-way": twoWay} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db, r := people(t, opts)
			for coll, id := range map[string]any{"people": "Ann", "tasks": 1} {
				testkit.Update(t, db.Collection(coll), bson.M{"_id": id}, bson.M{"$set": lists{}})
			}
			check(t, r.Unlink(ctx, "Ann", 1, 2))
			if has, err := r.Has(ctx, "Ann", 1); has || err != nil {
				t.Error(has, err)
			}
			for _, joined := range []relation.Joined[int, task]{testkit.Must(r.Children(ctx, "Ann", nil)), testkit.Must(r.ChildrenOf(ctx, []string{"Ann"}, nil))[0]} {
				if len(joined.Items)+len(joined.Dangling)+len(joined.Malformed) > 0 {
					t.Error(joined)
				}
			}
			if parents := testkit.Must(r.Parents(ctx, 1)); len(parents) > 0 {
				t.Error(parents)
			}
			if opts.ChildrenField == "" {
				testkit.Gives(t, []task{})(r.First(ctx, "Ann", 3, nil))
			}
			testkit.Done(t, 0)(r.Repair(ctx, nil))
			if opts.ChildrenField != "" {
				testkit.Done(t, 0)(r.Extract(ctx, nil))
				testkit.Done(t, 0)(r.Embed(ctx, nil))
			}
			for _, policy := range []mongopatterns.DeletePolicy{mongopatterns.Restrict, mongopatterns.Unlink, mongopatterns.Cascade} {
				testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": nil})
				testkit.Gives(t, int64(0))(r.DeleteParent(ctx, "Eve", policy))
			}
			for _, policy := range []mongopatterns.DeletePolicy{mongopatterns.Restrict, mongopatterns.Unlink} {
				testkit.Insert(t, db.Collection("tasks"), bson.M{"_id": 10, "owners": nil})
				check(t, r.DeleteChild(ctx, 10, policy))
			}
			if opts.OwnerField != "" { // the list of the parent before has lost the child
				testkit.Update(t, db.Collection("tasks"), bson.M{"_id": 3}, bson.M{"$set": bson.M{"owner": "Ann"}})
				check(t, r.Transfer(ctx, 3, "Bob"))
				check(t, r.Unlink(ctx, "Bob", 3))
				check(t, r.Transfer(ctx, 1, "Ann"))
			}
			check(t, r.Link(ctx, "Ann", 1, 2))
			check(t, r.Link(ctx, "Ann", 1, 2))
			joined := testkit.Must(r.Children(ctx, "Ann", nil))
			if len(joined.Items) != 2 || len(problems(t, r)) > 0 {
				t.Errorf("%+v, %v", joined, problems(t, r))
			}
			testkit.Update(t, db.Collection("people"), bson.M{"_id": "Bob"}, bson.M{"$set": lists{}})
			check(t, testkit.ErrorOf(r.Insert(ctx, "Bob", task{ID: 11})))
			check(t, r.Unlink(ctx, "Bob", 11))
		})
	}
}

// A child that lists the deleted parent twice has no other parent: Cascade deletes it. One with no parent, another
// parent or none that can be told stays.
func TestCascadeOfRepeatedOwners(t *testing.T) {
	t.Parallel()
	for kind, opts := range map[string]relation.Options{"named": named, "many": manyMany} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db, r := people(t, opts)
			for id, owners := range map[int]any{1: bson.A{"Ann", "Ann"}, 2: bson.A{"Ann"}, 3: bson.A{"Ann", "Bob", "Ann"}, 4: bson.A{},
				5: nil, 6: bson.A{"Bob"}, 7: bson.A{bson.A{"Ann"}}, 8: bson.A{"Ann", nil}, 9: "Ann"} {
				testkit.Update(t, db.Collection("tasks"), bson.M{"_id": id}, bson.M{"$set": bson.M{"owners": owners}})
			}
			testkit.Gives(t, int64(2))(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade))
			is(t, db, "3>Bob", "6>Bob", "7>[Ann]", "8><nil>", "9>Ann")
			testkit.Same(t, "the children that stay", 7, testkit.Count(t, db.Collection("tasks"), bson.D{}))
		})
	}
}

// If the server refuses to look up references together, they are looked up document by
// document: one list ends neither Check nor Repair.
func TestOneListDoesNotEndCheck(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, listed)
	for _, id := range []string{"Eve", "Fay"} { // together more than a command holds
		var wide bson.A
		for i := range 45 {
			wide = append(wide, bson.D{{Key: "text", Value: fmt.Sprint(id, i) + strings.Repeat("x", 200_000)}})
		}
		testkit.Insert(t, db.Collection("people"), bson.M{"_id": id, "tasks": wide})
	}
	_, err := db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": bson.A{77}}})
	check(t, err)
	work := &mongopatterns.Work{BatchBytes: 64 << 20}
	found := map[string]int{}
	for p, err := range r.Check(ctx, work) {
		check(t, err)
		found[p.ID.StringValue()+" "+string(p.Kind)]++
	}
	if want := map[string]int{"Cy dangling": 1, "Eve malformed": 45, "Fay malformed": 45}; !maps.Equal(found, want) {
		t.Error(found)
	}
	result, err := r.Repair(ctx, work)
	if err != nil || result.Done != 1 || result.Remaining != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}

// strange are values that a program left among references and that cannot be an _id: as part of a
// filter they would match other documents, or make the command fail.
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
// child b; c and d have no parent.
func letters(t *testing.T, opts relation.Options, odd any) (*mongo.Database, *relation.Relation[string, string, letter]) {
	t.Helper()
	db := mongotest.Database(t)
	list := func(id string) bson.A { return bson.A{id, odd} }
	ann, bob, a, b := bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}, bson.M{"_id": "a"}, bson.M{"_id": "b"}
	switch {
	case opts.ParentField != "":
		opts.Links = db.Collection("links")
		testkit.Insert(t, opts.Links, bson.M{"person_id": "Ann", "task_id": "a"}, bson.M{"person_id": "Ann", "task_id": odd}, bson.M{"person_id": odd, "task_id": "c"}, bson.M{"person_id": "Bob", "task_id": "b"})
	case opts.OwnersField != "":
		a["owners"], b["owners"] = list("Ann"), bson.A{"Bob"}
	case opts.OwnerField != "":
		a["owner"], b["owner"] = "Ann", "Bob"
	}
	if opts.ChildrenField != "" {
		ann["tasks"], bob["tasks"] = list("a"), bson.A{"b"}
	}
	testkit.Insert(t, db.Collection("people"), ann, bob)
	testkit.Insert(t, db.Collection("tasks"), a, b, bson.M{"_id": "c"}, bson.M{"_id": "d"})
	return db, testkit.Must(relation.New[string, string, letter](db.Collection("people"), db.Collection("tasks"), &opts))
}

func ids(t *testing.T, coll *mongo.Collection) (out []string) {
	t.Helper()
	all := testkit.Must(coll.Distinct(t.Context(), "_id", bson.D{}).Raw())
	values := testkit.Must(all.Values())
	for _, id := range values {
		out = append(out, id.StringValue())
	}
	slices.Sort(out)
	return out
}

// A stored reference that cannot be an _id is never part of a filter: it is named, and no call
// reads, writes or deletes what it would match.
func TestStrangeReferences(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	kinds := map[string]relation.Options{"listed": listed, "two-way": twoWay, "many": manyMany, "named": named, "linked": linked}
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		for j, name := range slices.Sorted(maps.Keys(strange)) {
			opts, odd := kinds[kind], strange[name]
			if !scale.Turn(i+j, 2) {
				continue
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				db, r := letters(t, opts, odd)
				for range 2 { // Repair leaves them
					found := 0
					for p, err := range r.Check(ctx, nil) {
						check(t, err)
						if p.Kind != mongopatterns.Malformed && p.Kind != relation.OneSided {
							t.Error(p)
						}
						if p.Kind == mongopatterns.Malformed {
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
				check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)))
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

// A reference that the type of the IDs cannot hold, and that no document has, may mean a document with the right type:
// reads and Check call it malformed, and Repair leaves it. Where IDs have any type it dangles, and Repair removes it.
func TestReferencesOfAnotherType(t *testing.T) {
	t.Parallel()
	hex := bson.NewObjectID().Hex()
	for name, wrong := range map[string]any{"string": "2", "double": 2.5, "boolean": true, "hex": hex, "document": bson.D{{Key: "a", Value: 1}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), mongotest.Database(t)
			testkit.Insert(t, db.Collection("people"), bson.D{{Key: "_id", Value: 1}, {Key: "tasks", Value: bson.A{1, wrong}}})
			testkit.Insert(t, db.Collection("tasks"), bson.D{{Key: "_id", Value: 1}, {Key: "owner", Value: 1}})
			ints := testkit.Must(relation.New[int, int, bson.D](db.Collection("people"), db.Collection("tasks"), &listed))
			ids := testkit.Must(relation.New[int, bson.ObjectID, bson.D](db.Collection("people"), db.Collection("tasks"), &listed))
			anything := testkit.Must(relation.New[int, any, bson.D](db.Collection("people"), db.Collection("tasks"), &listed))
			a, b, c := testkit.Must(ints.Children(ctx, 1, nil)), testkit.Must(ids.Children(ctx, 1, nil)), testkit.Must(anything.Children(ctx, 1, nil))
			if len(a.Items) != 1 || len(a.Malformed) != 1 || len(a.Dangling) > 0 || len(b.Malformed) != 1 || len(b.Dangling) > 0 {
				t.Errorf("%+v, %+v", a, b)
			}
			if len(c.Dangling)+len(c.Malformed) != 1 || (len(c.Malformed) == 1) != (name == "document") {
				t.Errorf("%+v", c)
			}
			want := []mongopatterns.ProblemKind{mongopatterns.Malformed}
			if got := problems(t, ints); !slices.Equal(got, want) {
				t.Error(got)
			}
			if got := problems(t, ids); !slices.Equal(got, want) {
				t.Error(got)
			}
			if result, err := ints.Repair(ctx, nil); err != nil || result.Remaining != 1 || result.Done != 0 {
				t.Errorf("%+v, %v", result, err)
			}
			if len(c.Dangling) == 1 {
				want = []mongopatterns.ProblemKind{mongopatterns.Dangling}
			}
			if got := problems(t, anything); !slices.Equal(got, want) {
				t.Error(got)
			}
			if result, err := anything.Repair(ctx, nil); err != nil || result.Done != int64(len(c.Dangling)) {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	// The other side, and Parents: an owner of another type is no owner of the type of the IDs.
	ctx, db := t.Context(), mongotest.Database(t)
	testkit.Insert(t, db.Collection("people"), bson.D{{Key: "_id", Value: 1}})
	testkit.Insert(t, db.Collection("tasks"), bson.D{{Key: "_id", Value: 1}, {Key: "owner", Value: true}})
	ints := testkit.Must(relation.New[int, int, bson.D](db.Collection("people"), db.Collection("tasks"), &owned))
	if got := problems(t, ints); !slices.Equal(got, []mongopatterns.ProblemKind{mongopatterns.Malformed}) {
		t.Error(got)
	}
	if parents, err := ints.Parents(ctx, 1); !errors.Is(err, mongopatterns.ErrMalformed) {
		t.Error(parents, err)
	}
}

// A list with only a pattern: no other document is deleted by it.
func TestOnlyAPattern(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := letters(t, listed, nil)
	_, err := db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$set": bson.M{"tasks": bson.A{bson.Regex{Pattern: "^"}}}})
	check(t, err)
	if joined := testkit.Must(r.Children(ctx, "Ann", nil)); len(joined.Items) > 0 || len(joined.Malformed) != 1 {
		t.Error(joined)
	}
	if result := testkit.Must(r.Embed(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Ann"}})); result.Failed != 1 {
		t.Errorf("%+v", result)
	}
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)))
	if got := ids(t, db.Collection("tasks")); len(got) != 4 {
		t.Errorf("there are %v", got)
	}
}
