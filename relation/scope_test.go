package relation_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

var ours = testkit.D("tenant", "a")

// A child of another tenant that a list names dangles, and Cascade leaves it.
func TestReferenceToAnotherTenant(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	people, tasks := db.Collection("people"), db.Collection("tasks")
	r := testkit.Must(relation.New[string, int, bson.D](people, tasks, &relation.Options{ChildrenField: "tasks", Scope: ours}))
	testkit.Insert(t, people, testkit.D("_id", "Ann", "tasks", bson.A{1, 2}, "tenant", "a"), testkit.D("_id", "Bob", "tasks", bson.A{2}, "tenant", "b"))
	testkit.Insert(t, tasks, testkit.D("_id", 1, "tenant", "a"), testkit.D("_id", 2, "tenant", "b"))
	joined := testkit.Must(r.Children(ctx, "Ann", nil))
	if len(joined.Items) != 1 || len(joined.Dangling) != 1 || joined.Dangling[0] != 2 {
		t.Errorf("%+v", joined)
	}
	joined = testkit.Must(relation.Fetch[int, bson.D](ctx, tasks, []int{1, 2}, &relation.FetchOptions{Scope: ours}))
	if len(joined.Items) != 1 || len(joined.Dangling) != 1 {
		t.Errorf("%+v", joined)
	}
	if n, err := r.DeleteParent(ctx, "Ann", mongopatterns.Cascade); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if left := testkit.Stored[bson.D](t, tasks); len(left) != 1 || testkit.Get(left[0], "tenant") != "b" {
		t.Errorf("%v", left)
	}
	if _, err := relation.Fetch[int, bson.D](ctx, tasks, []int{1}, &relation.FetchOptions{Scope: testkit.D("_id", 1)}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// The caller may use the slices of its options again.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), mongotest.Database(t)
	people, tasks := db.Collection("people"), db.Collection("tasks")
	scope, sort := testkit.D("tenant", "a"), testkit.D("at", 1)
	r := testkit.Must(relation.New[string, int, bson.D](people, tasks, &relation.Options{OwnerField: "owner", Scope: scope, Sort: sort}))
	scope[0].Value, sort[0].Value = "b", -1
	testkit.Insert(t, tasks, testkit.D("_id", 1, "tenant", "a", "owner", "Ann", "at", 1), testkit.D("_id", 2, "tenant", "a", "owner", "Ann", "at", 2),
		testkit.D("_id", 3, "tenant", "b", "owner", "Ann", "at", 0))
	first := testkit.Must(r.First(ctx, "Ann", 9, nil))
	if len(first) != 2 || testkit.Get(first[0], "_id") != int32(1) {
		t.Errorf("%v", first)
	}
	keys := r.Indexes()["tasks"][0].Keys
	testkit.Equal(t, `{"tenant":{"$numberInt":"1"},"owner":{"$numberInt":"1"},"at":{"$numberInt":"1"}}`, keys.(bson.D).String())
}

// Two tenants have a parent with the same natural key, and its children are not mixed.
func TestNaturalKeysOfTenants(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	users, messages := db.Collection("users"), db.Collection("messages")
	for i, tenant := range []string{"a", "b"} {
		r := testkit.Must(relation.New[string, int, bson.D](users, messages, &relation.Options{OwnerField: "by", KeyField: "name", Scope: testkit.D("tenant", tenant)}))
		testkit.OK(t, r.EnsureIndexes(ctx))
		testkit.Insert(t, users, testkit.D("_id", i, "name", "ann", "tenant", tenant))
		testkit.Must(r.Insert(ctx, "ann", testkit.D("_id", i)))
		if joined := testkit.Must(r.Children(ctx, "ann", nil)); len(joined.Items) != 1 {
			t.Errorf("%+v", joined)
		}
		if _, err := r.Insert(ctx, "ann", testkit.D("_id", 0)); !errors.Is(err, mongopatterns.ErrExists) {
			t.Error(err)
		}
	}
}

// Embedded children lack the fields of the scope, and Extract stores them with these. One of another tenant stays.
func TestConversionsInAScope(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	people, tasks := db.Collection("people"), db.Collection("tasks")
	r := testkit.Must(relation.New[string, int, bson.D](people, tasks, &relation.Options{ChildrenField: "tasks", OwnerField: "owner", Scope: ours}))
	one, another := testkit.D("_id", 1, "title", "wash"), testkit.D("_id", 2, "tenant", "b")
	testkit.Insert(t, people, testkit.D("_id", "Ann", "tasks", bson.A{one}, "tenant", "a"), testkit.D("_id", "Bob", "tasks", bson.A{another}, "tenant", "a"))
	result, err := r.Extract(ctx, nil)
	if err != nil || result.Done != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	if got := testkit.Stored[bson.D](t, tasks); len(got) != 1 || testkit.Get(got[0], "tenant") != "a" || testkit.Get(got[0], "owner") != "Ann" {
		t.Errorf("%v", got)
	}
	// A program that replaces whole parents has put it back.
	testkit.Must(people.UpdateOne(ctx, testkit.D("_id", "Ann"), testkit.D("$set", testkit.D("tasks", bson.A{one}))))
	if result, err := r.Extract(ctx, &mongopatterns.Work{Filter: testkit.D("_id", "Ann")}); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.Must(people.DeleteOne(ctx, testkit.D("_id", "Bob")))
	if result, err := r.Embed(ctx, nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if ann := testkit.Stored[bson.D](t, people)[0]; testkit.Get(testkit.Get(ann, "tasks").(bson.A)[0].(bson.D), "tenant") != nil {
		t.Errorf("%v", ann)
	}
}
