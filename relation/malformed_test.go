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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/relation"
)

// bounded ends a call that would never end.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// An Owner that is an array is Malformed: links of the child are refused, Repair counts
// both documents as remaining, and nobody changes the array.
func TestOwnerIsAnArray(t *testing.T) {
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
				if !slices.Contains(problems(t, r), relation.Malformed) {
					t.Errorf("Check finds %v", problems(t, r))
				}
				result, err := r.Repair(ctx, nil)
				if err != nil || result.Remaining == 0 {
					t.Errorf("%+v, %v", result, err)
				}
				if opts.ChildrenField != "" {
					check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Ann", "tasks": 1}).Err()) // still listed
				}
				check(t, r.DeleteParent(ctx, "Bob", relation.Unlink))
				check(t, r.DeleteParent(ctx, "Ann", relation.Cascade))
				var got struct{ Owner bson.A }
				check(t, db.Collection("tasks").FindOne(ctx, bson.M{"_id": 1}).Decode(&got))
				if !slices.Equal(got.Owner, owner) {
					t.Errorf("the owner became %v", got.Owner)
				}
			})
		}
	}
}

// A list that is null is an empty one, on both sides.
func TestNullIsAnEmptyList(t *testing.T) {
	for kind, opts := range map[string]relation.Options{"listed": listed, "many": manyMany, "named": named} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db, r := people(t, opts)
			for _, coll := range []string{"people", "tasks"} {
				_, err := db.Collection(coll).UpdateMany(ctx, bson.M{"_id": bson.M{"$in": bson.A{"Ann", 1}}}, bson.M{"$set": bson.M{"tasks": nil, "owners": nil}})
				check(t, err)
			}
			check(t, r.Link(ctx, "Ann", 1, 2))
			check(t, r.Link(ctx, "Ann", 1, 2))
			joined := must(r.Children(ctx, "Ann", nil))
			if len(joined.Items) != 2 || len(problems(t, r)) > 0 {
				t.Errorf("%+v, %v", joined, problems(t, r))
			}
		})
	}
}

// References that the server refuses to look up together are looked up document by
// document: one list ends neither Check nor Repair.
func TestOneListDoesNotEndCheck(t *testing.T) {
	ctx := t.Context()
	db, r := people(t, listed)
	for _, id := range []string{"Eve", "Fay"} { // together more than a command holds
		var wide bson.A
		for i := range 450 {
			wide = append(wide, bson.D{{Key: "text", Value: fmt.Sprint(id, i) + strings.Repeat("x", 20_000)}})
		}
		insert(t, db.Collection("people"), bson.M{"_id": id, "tasks": wide})
	}
	_, err := db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": bson.A{77}}})
	check(t, err)
	work := &mongopatterns.Work{BatchBytes: 64 << 20}
	found := map[string]int{}
	for p, err := range r.Check(ctx, work) {
		check(t, err)
		found[p.ID.StringValue()+" "+string(p.Kind)]++
	}
	if want := map[string]int{"Cy dangling": 1, "Eve malformed": 450, "Fay malformed": 450}; !maps.Equal(found, want) {
		t.Error(found)
	}
	result, err := r.Repair(ctx, work)
	if err != nil || result.Done != 1 || result.Remaining != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}
