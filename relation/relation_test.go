package relation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A short name for what hundreds of lines call.
var check = testkit.OK

type task struct {
	ID    int    `bson:"_id"`
	Title string `bson:"title,omitempty"`
	Owner string `bson:"owner,omitempty"`
}

type tasks = relation.Relation[string, int, task]

var (
	twoWay   = relation.Options{ChildrenField: "tasks", OwnerField: "owner"}
	listed   = relation.Options{ChildrenField: "tasks"}
	owned    = relation.Options{OwnerField: "owner"}
	manyMany = relation.Options{ChildrenField: "tasks", OwnersField: "owners"}
	named    = relation.Options{OwnersField: "owners"}
	linked   = relation.Options{ParentField: "person_id", ChildField: "task_id"} // in the collection "links"
)

func errorOf[T any](_ T, err error) error { return err }

// people are Ann, Bob and Cy without tasks, and the tasks 1 to 9 without owners.
func people(t testing.TB, opts relation.Options) (*mongo.Database, *tasks) {
	t.Helper()
	db := mongotest.Database(t)
	if opts.ParentField != "" {
		opts.Links = db.Collection("links")
	}
	r := testkit.Must(relation.New[string, int, task](db.Collection("people"), db.Collection("tasks"), &opts))
	check(t, r.EnsureIndexes(t.Context()))
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}, bson.M{"_id": "Cy"})
	for i := range 9 {
		testkit.Insert(t, db.Collection("tasks"), task{ID: i + 1})
	}
	return db, r
}

// state is all references of both sides: "Ann>1" in a list, "1>Ann" in a child,
// "Ann-1" in a link.
func state(t testing.TB, db *mongo.Database) []string {
	t.Helper()
	var out []string
	for coll, fields := range map[string][]string{"people": {"tasks"}, "tasks": {"owner", "owners"}} {
		cursor, err := db.Collection(coll).Find(t.Context(), bson.D{})
		check(t, err)
		var docs []bson.M
		check(t, cursor.All(t.Context(), &docs))
		for _, doc := range docs {
			if len(doc) > 3 {
				t.Errorf("something is left: %v", doc)
			}
			for _, field := range fields {
				switch v := doc[field].(type) {
				case nil:
				case bson.A:
					for _, ref := range v {
						out = append(out, fmt.Sprintf("%v>%v", doc["_id"], ref))
					}
				default:
					out = append(out, fmt.Sprintf("%v>%v", doc["_id"], v))
				}
			}
		}
	}
	cursor, err := db.Collection("links").Find(t.Context(), bson.D{})
	check(t, err)
	var links []bson.M
	check(t, cursor.All(t.Context(), &links))
	for _, link := range links {
		out = append(out, fmt.Sprintf("%v-%v", link["person_id"], link["task_id"]))
	}
	slices.Sort(out)
	return out
}

func is(t testing.TB, db *mongo.Database, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, state(t, db)); diff != "" {
		t.Error(diff)
	}
}

func problems(t testing.TB, c mongopatterns.Checker) (out []mongopatterns.ProblemKind) {
	t.Helper()
	for p, err := range c.Check(t.Context(), nil) {
		check(t, err)
		out = append(out, p.Kind)
	}
	slices.Sort(out)
	return out
}

// A parent to which a child is being added is not deleted, in any kind.
func TestInsertHoldsTheParent(t *testing.T) {
	t.Parallel()
	for _, opts := range []relation.Options{listed, owned, named, twoWay, linked} {
		db, r := people(t, opts)
		check(t, mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
			if _, err := r.Insert(ctx, "Ann", task{ID: 10}); err != nil {
				return err
			}
			other, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := testkit.ErrorOf(r.DeleteParent(other, "Ann", mongopatterns.Unlink)); err == nil {
				t.Errorf("%+v: deleted meanwhile", opts)
			}
			return nil
		}))
		if got := problems(t, r); got != nil {
			t.Error(got)
		}
	}
}

func TestTwoWay(t *testing.T) {
	t.Parallel()
	db, r := people(t, twoWay)
	ctx := t.Context()
	check(t, r.Link(ctx, "Ann", 2, 1, 2))
	check(t, r.Link(ctx, "Ann", 1)) // again
	is(t, db, "1>Ann", "2>Ann", "Ann>1", "Ann>2")
	joined := testkit.Must(r.Children(ctx, "Ann", nil))
	if diff := cmp.Diff([]task{{ID: 2, Owner: "Ann"}, {ID: 1, Owner: "Ann"}}, joined.Items); diff != "" || joined.Dangling != nil {
		t.Error(diff, joined.Dangling)
	}
	for want, err := range map[error]error{
		relation.ErrOwned:           r.Link(ctx, "Bob", 3, 1),
		relation.ErrNoChild:         r.Link(ctx, "Bob", 3, 99),
		mongopatterns.ErrNoParent:   r.Link(ctx, "Dee", 3),
		mongopatterns.ErrNotFound:   r.Transfer(ctx, 99, "Bob"),
		mongo.ErrNoDocuments:        r.Transfer(ctx, 1, "Dee"),
		mongopatterns.ErrReferenced: testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Restrict)),
		mongopatterns.ErrConflict:   r.DeleteChild(ctx, 1, mongopatterns.Restrict),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	is(t, db, "1>Ann", "2>Ann", "Ann>1", "Ann>2")
	check(t, r.Transfer(ctx, 1, "Bob"))
	check(t, r.Transfer(ctx, 1, "Bob")) // again
	check(t, r.Transfer(ctx, 4, "Bob")) // its first owner
	is(t, db, "1>Bob", "2>Ann", "4>Bob", "Ann>2", "Bob>1", "Bob>4")
	if id := testkit.Must(r.Insert(ctx, "Cy", task{ID: 10, Owner: "wrong"})); id != 10 {
		t.Error(id)
	}
	if err := errorOf(r.Insert(ctx, "Dee", task{ID: 11})); !errors.Is(err, mongopatterns.ErrNoParent) {
		t.Error(err)
	}
	if has, not := testkit.Must(r.Has(ctx, "Cy", 10)), testkit.Must(r.Has(ctx, "Cy", 1)); !has || not {
		t.Error(has, not)
	}
	if p := testkit.Must(r.Parents(ctx, 10)); !slices.Equal(p, []string{"Cy"}) {
		t.Error(p)
	}
	check(t, r.Unlink(ctx, "Bob", 4, 5))
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Cy", mongopatterns.Cascade)))
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Unlink)))
	is(t, db, "1>Bob", "Bob>1")
	if got := problems(t, r); got != nil {
		t.Error(got)
	}
}

func TestOneSide(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, owned)
	check(t, r.Link(ctx, "Ann", 1, 2))
	for want, err := range map[error]error{
		relation.ErrOwned: r.Link(ctx, "Bob", 1, 3), mongopatterns.ErrConflict: r.Link(ctx, "Bob", 1), relation.ErrNoChild: r.Link(ctx, "Bob", 3, 99),
		mongopatterns.ErrReferenced: testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Restrict)),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	is(t, db, "1>Ann", "2>Ann")
	if n := testkit.Must(db.Collection("tasks").CountDocuments(ctx, r.ChildrenFilter("Ann"))); n != 2 {
		t.Error(n)
	}
	if all := testkit.Must(r.Children(ctx, "Ann", bson.M{"owner": 0})); !slices.Equal(all.Items, []task{{ID: 2}, {ID: 1}}) {
		t.Error(all)
	}
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)))
	if n := testkit.Must(db.Collection("tasks").CountDocuments(ctx, bson.M{})); n != 7 {
		t.Error(n)
	}

	db, r = people(t, relation.Options{ChildrenField: "tasks", MaxCount: 3})
	check(t, r.Link(ctx, "Ann", 1, 2))
	check(t, r.Link(ctx, "Bob", 2))
	if err := r.Link(ctx, "Ann", 2, 3, 4); !errors.Is(err, relation.ErrFull) {
		t.Error(err)
	}
	check(t, r.Link(ctx, "Ann", 1, 2, 77)) // not looked at
	joined := testkit.Must(r.Children(ctx, "Ann", nil))
	if len(joined.Items) != 2 || !slices.Equal(joined.Dangling, []int{77}) {
		t.Error(joined)
	}
	many := testkit.Must(r.ChildrenOf(ctx, []string{"Bob", "Dee", "Ann"}, nil))
	if len(many) != 3 || len(many[0].Items) != 1 || many[1].Items != nil || len(many[2].Items) != 2 {
		t.Error(many)
	}
	if p := testkit.Must(r.Parents(ctx, 2)); len(p) != 2 {
		t.Error(p)
	}
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade))) // 2 is Bob's as well
	if n := testkit.Must(db.Collection("tasks").CountDocuments(ctx, bson.M{})); n != 8 {
		t.Error(n)
	}
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve"})
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Eve", mongopatterns.Cascade))) // has none
	if err := errorOf(r.Children(ctx, "Ann", nil)); !errors.Is(err, mongopatterns.ErrNoParent) {
		t.Error(err)
	}
	_, err := db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": "many"}})
	check(t, err)
	if n := testkit.Must(db.Collection("people").CountDocuments(ctx, bson.M{"tasks": "many"})); r.Link(ctx, "Cy", 1) == nil || n != 1 {
		t.Error("what is no array was overwritten")
	}
}

func TestManyToMany(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, manyMany)
	check(t, r.Link(ctx, "Ann", 1, 2))
	check(t, r.Link(ctx, "Bob", 2, 3))
	is(t, db, "1>Ann", "2>Ann", "2>Bob", "3>Bob", "Ann>1", "Ann>2", "Bob>2", "Bob>3")
	if p := testkit.Must(r.Parents(ctx, 2)); !slices.Equal(p, []string{"Ann", "Bob"}) {
		t.Error(p)
	}
	check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)))
	is(t, db, "2>Bob", "3>Bob", "Bob>2", "Bob>3")
	if n := testkit.Must(db.Collection("tasks").CountDocuments(ctx, bson.M{})); n != 8 {
		t.Error(n)
	}
	if err := r.Transfer(ctx, 2, "Cy"); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}

	opts := manyMany
	opts.MaxCount = 2
	_, r = people(t, opts)
	check(t, errors.Join(r.Link(ctx, "Ann", 1), r.Link(ctx, "Bob", 1), r.Link(ctx, "Bob", 1)))
	if err := r.Link(ctx, "Cy", 1); !errors.Is(err, relation.ErrFull) {
		t.Error(err)
	}
	_, r = people(t, named)
	check(t, errors.Join(r.Link(ctx, "Ann", 1, 2), r.Link(ctx, "Bob", 2, 3)))
	many := testkit.Must(r.ChildrenOf(ctx, []string{"Bob", "Dee", "Ann", "Bob"}, nil))
	if diff := cmp.Diff([]relation.Joined[int, task]{{Items: []task{{ID: 3}, {ID: 2}}}, {}, {Items: []task{{ID: 2}, {ID: 1}}}, {Items: []task{{ID: 3}, {ID: 2}}}}, many); diff != "" {
		t.Error(diff)
	}
	if err := errorOf(r.ChildrenOf(ctx, []string{"Ann", "Bob"}, bson.M{"title": 1})); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// With a collection in between, the calls are the same; a link may have fields of yours.
func TestLinks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, linked)
	links := db.Collection("links")
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := r.Link(ctx, "Ann", 1+i%3, 9); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	testkit.Insert(t, links, bson.M{"person_id": "Bob", "task_id": 3, "since": 2020})
	check(t, errors.Join(r.Link(ctx, "Bob", 3, 77), r.Unlink(ctx, "Ann", 9), r.Unlink(ctx, "Ann", 9)))
	if id := testkit.Must(r.Insert(ctx, "Cy", task{ID: 10})); id != 10 {
		t.Error(id)
	}
	is(t, db, "Ann-1", "Ann-2", "Ann-3", "Bob-3", "Bob-77", "Cy-10")
	if n := testkit.Must(links.CountDocuments(ctx, bson.M{"since": 2020})); n != 1 {
		t.Error("the field of a link is lost")
	}
	if p := testkit.Must(r.Parents(ctx, 3)); !slices.Equal(p, []string{"Ann", "Bob"}) {
		t.Error(p)
	}
	if has, not := testkit.Must(r.Has(ctx, "Bob", 3)), testkit.Must(r.Has(ctx, "Bob", 1)); !has || not {
		t.Error(has, not)
	}
	want := []relation.Joined[int, task]{{Items: []task{{ID: 3}}, Dangling: []int{77}}, {}, {Items: []task{{ID: 1}, {ID: 2}, {ID: 3}}}}
	if diff := cmp.Diff(want, testkit.Must(r.ChildrenOf(ctx, []string{"Bob", "Dee", "Ann"}, nil))); diff != "" {
		t.Error(diff)
	}
	for want, err := range map[error]error{
		mongopatterns.ErrReferenced: testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Restrict)), mongopatterns.ErrConflict: r.DeleteChild(ctx, 3, mongopatterns.Restrict),
		mongopatterns.ErrNoParent: errorOf(r.Insert(ctx, "Dee", task{ID: 11})), relation.ErrNoChild: r.DeleteChild(ctx, 99, mongopatterns.Unlink),
		mongopatterns.ErrInvalid: errorOf(r.First(ctx, "Ann", 1, nil)),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	is(t, db, "Ann-1", "Ann-2", "Ann-3", "Bob-3", "Bob-77", "Cy-10")
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve"})
	check(t, errors.Join(testkit.ErrorOf(r.DeleteParent(ctx, "Eve", mongopatterns.Cascade)), r.DeleteChild(ctx, 2, mongopatterns.Unlink), testkit.ErrorOf(r.DeleteParent(ctx, "Ann", mongopatterns.Cascade)), testkit.ErrorOf(r.DeleteParent(ctx, "Cy", mongopatterns.Unlink))))
	is(t, db, "Bob-3", "Bob-77")
	if n := testkit.Must(db.Collection("tasks").CountDocuments(ctx, bson.M{"_id": bson.M{"$in": bson.A{1, 2, 3, 10}}})); n != 2 { // 3 is Bob's, 10 only unlinked
		t.Error(n)
	}
}

func TestCheckAndRepairLinks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, r := people(t, linked)
	check(t, db.Collection("links").Indexes().DropAll(ctx))
	link := func(id, person, task any) bson.M { return bson.M{"_id": id, "person_id": person, "task_id": task} }
	testkit.Insert(t, db.Collection("links"), link(5, "Ann", 1), link(2, "Ann", 1), link(3, "Ann", int64(1)), link(4, "Ann", 77), link(1, "Dee", 1),
		link(6, "Bob", 2), bson.M{"_id": 7, "person_id": "Bob"}, link(8, "Eve", 88))
	want := []mongopatterns.ProblemKind{"dangling", "dangling", "dangling", "dangling", "duplicate", "duplicate", "malformed"}
	for _, work := range []*mongopatterns.Work{nil, {BatchSize: 1}} {
		var got []mongopatterns.ProblemKind
		for p, err := range r.Check(ctx, work) {
			check(t, err)
			got = append(got, p.Kind)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	before := state(t, db)
	if dry := testkit.Must(r.Repair(ctx, &mongopatterns.Work{DryRun: true})); dry.Done != 6 || dry.Remaining != 1 {
		t.Errorf("%+v", dry)
	}
	is(t, db, before...)
	if one := testkit.Must(r.Repair(ctx, &mongopatterns.Work{Filter: bson.M{"_id": 1}})); one.Done != 1 { // the parent's side too
		t.Errorf("%+v", one)
	}
	if result := testkit.Must(r.Repair(ctx, nil)); result.Done != 4 || result.Remaining != 1 {
		t.Errorf("%+v", result)
	}
	is(t, db, "Ann-1", "Bob-2", "Bob-<nil>")
	if n := testkit.Must(db.Collection("links").CountDocuments(ctx, bson.M{"_id": 2})); n != 1 {
		t.Error("another than the first link is left")
	}
	if got := problems(t, r); len(got) != 1 {
		t.Error(got)
	}
	check(t, r.EnsureIndexes(ctx))
}

// One collection on both sides, in every kind: people and their friends.
func TestOneCollection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, opts := range map[string]relation.Options{
		"children": {ChildrenField: "down"}, "owner": {OwnerField: "up"}, "owners": {OwnersField: "up"}, "both": {ChildrenField: "down", OwnerField: "up"},
		"many": {ChildrenField: "down", OwnersField: "up"}, "undirected": {ChildrenField: "friends", OwnersField: "friends"}, "links": {ParentField: "a", ChildField: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			db := mongotest.Database(t)
			coll := db.Collection("people")
			if name == "links" {
				opts.Links = db.Collection("knows")
			}
			type person struct {
				ID string `bson:"_id"`
			}
			r := testkit.Must(relation.New[string, string, person](coll, db.Collection("people"), &opts))
			check(t, r.EnsureIndexes(ctx))
			testkit.Insert(t, coll, person{"Ann"}, person{"Bob"}, person{"Cy"}, person{"Dee"})
			of := func(parent string, want ...string) {
				t.Helper()
				var got []string
				for _, p := range testkit.Must(r.Children(ctx, parent, nil)).Items {
					got = append(got, p.ID)
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s has %v, want %v", parent, got, want)
				}
			}
			parents := func(child string, want ...string) {
				t.Helper()
				if got := testkit.Must(r.Parents(ctx, child)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
					t.Errorf("%s is of %v, want %v", child, got, want)
				}
			}
			undirected := name == "undirected"
			check(t, errors.Join(r.Link(ctx, "Ann", "Bob"), r.Link(ctx, "Bob", "Cy"), r.Link(ctx, "Bob", "Cy")))
			_, err := r.Insert(ctx, "Bob", person{"Eve"})
			check(t, err)
			if of("Ann", "Bob"); undirected {
				of("Bob", "Ann", "Cy", "Eve")
				of("Cy", "Bob")
			} else {
				of("Bob", "Cy", "Eve")
				of("Cy")
				parents("Bob", "Ann")
			}
			if has, back := testkit.Must(r.Has(ctx, "Ann", "Bob")), testkit.Must(r.Has(ctx, "Bob", "Ann")); !has || back != undirected {
				t.Error(has, back)
			}
			if got := problems(t, r); got != nil {
				t.Error(got)
			}
			for want, err := range map[error]error{
				mongopatterns.ErrReferenced: testkit.ErrorOf(r.DeleteParent(ctx, "Bob", mongopatterns.Restrict)), mongopatterns.ErrInvalid: testkit.ErrorOf(r.DeleteParent(ctx, "Bob", mongopatterns.Cascade)),
				mongopatterns.ErrConflict: r.DeleteChild(ctx, "Bob", mongopatterns.Restrict),
			} {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if _, err := r.Embed(ctx, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Error(err)
			}
			check(t, r.Unlink(ctx, "Bob", "Eve"))
			check(t, testkit.ErrorOf(r.DeleteParent(ctx, "Bob", mongopatterns.Unlink))) // in both its roles
			of("Ann")
			parents("Cy")
			if got := problems(t, r); got != nil {
				t.Error(got)
			}
			check(t, errors.Join(r.Link(ctx, "Ann", "Cy"), r.Link(ctx, "Dee", "Ann")))
			check(t, r.DeleteChild(ctx, "Ann", mongopatterns.Unlink))
			of("Dee")
			if got := problems(t, r); got != nil {
				t.Error(got)
			}
			// Damage by somebody else: a person who does not exist any more, and one side of two.
			check(t, r.Link(ctx, "Dee", "Cy"))
			_, err = coll.DeleteOne(ctx, bson.M{"_id": "Dee"})
			check(t, err)
			testkit.Insert(t, coll, bson.M{"_id": "Fay", "friends": bson.A{"Cy"}, "down": bson.A{"Cy"}})
			testkit.Must(r.Repair(ctx, nil))
			if got := problems(t, r); got != nil {
				t.Error(got)
			}
			if undirected {
				of("Cy", "Fay")
			}
		})
	}
}

// Writers link, unlink, transfer, insert and delete at once: both sides stay equal, a
// task never has two owners, and Check finds nothing, also in between.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	db, r := people(t, twoWay)
	names := []string{"Ann", "Bob", "Cy"}
	stop := make(chan struct{})
	var checking, group sync.WaitGroup
	checking.Go(func() {
		for {
			for p, err := range r.Check(t.Context(), &mongopatterns.Work{BatchSize: 2}) {
				if err != nil || p.Kind != "" {
					t.Error(p, err)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for w := range 4 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 25 {
				name, id := names[random.IntN(3)], 1+random.IntN(9)
				var err error
				switch random.IntN(5) {
				case 0, 1:
					err = r.Link(t.Context(), name, id, 1+random.IntN(9))
				case 2:
					err = r.Unlink(t.Context(), name, id)
				case 3:
					err = r.Transfer(t.Context(), id, name)
				case 4:
					if i%2 == 0 {
						_, err = r.Insert(t.Context(), name, task{ID: 100 + 100*w + i})
					} else {
						err = r.DeleteChild(t.Context(), id, mongopatterns.Unlink)
					}
				}
				if err != nil && !errors.Is(err, relation.ErrOwned) && !errors.Is(err, relation.ErrNoChild) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	close(stop)
	checking.Wait()
	if got := problems(t, r); got != nil {
		t.Error(got)
	}
	all := state(t, db)
	if len(all)%2 != 0 {
		t.Error(all)
	}
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	damage := func(db *mongo.Database) {
		people, tasks := db.Collection("people"), db.Collection("tasks")
		for id, list := range map[string]any{"Ann": bson.A{1, 2, 2, 3, 77}, "Bob": bson.A{2, 4}, "Cy": "many"} {
			_, err := people.UpdateByID(ctx, id, bson.M{"$set": bson.M{"tasks": list}})
			check(t, err)
		}
		for id, owner := range map[int]any{1: "Ann", 2: "Bob", 5: "Ann", 6: "Dee", 4: bson.A{"x"}, 7: "Cy"} {
			_, err := tasks.UpdateByID(ctx, id, bson.M{"$set": bson.M{"owner": owner}})
			check(t, err)
		}
	}
	db, r := people(t, twoWay)
	damage(db)
	want := []mongopatterns.ProblemKind{"dangling", "dangling", "duplicate", "malformed", "malformed", "one-sided", "one-sided", "one-sided", "one-sided", "one-sided"}
	if diff := cmp.Diff(want, problems(t, r)); diff != "" {
		t.Error(diff)
	}
	before := state(t, db)
	if dry := testkit.Must(r.Repair(ctx, &mongopatterns.Work{DryRun: true})); dry.Done == 0 {
		t.Errorf("%+v", dry)
	}
	is(t, db, before...)
	one := testkit.Must(r.Repair(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Ann"}}))
	if one.Examined != 1 || one.Done != 1 {
		t.Errorf("%+v", one)
	}
	result := testkit.Must(r.Repair(ctx, nil))
	if result.Remaining != 3 || result.Failed != 1 || result.Failures[0].ID.AsInt64() != 7 { // Cy's list takes nothing
		t.Errorf("%+v", result)
	}
	// 2 is Bob's, 3 became Ann's, 5 is in her list; 4 stays in doubt and in Bob's list, and so does Cy.
	is(t, db, "1>Ann", "2>Bob", "3>Ann", "4>x", "5>Ann", "7>Cy", "Ann>1", "Ann>3", "Ann>5", "Bob>2", "Bob>4", "Cy>many")
	if diff := cmp.Diff([]mongopatterns.ProblemKind{"malformed", "malformed", "one-sided", "one-sided"}, problems(t, r)); diff != "" {
		t.Error(diff)
	}

	db, r = people(t, manyMany)
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{1, 2}})
	_, err := db.Collection("tasks").UpdateByID(ctx, 3, bson.M{"$set": bson.M{"owners": bson.A{"Eve", "Dee"}}})
	check(t, err)
	testkit.Must(r.Repair(ctx, nil))
	is(t, db, "1>Eve", "2>Eve", "3>Eve", "Eve>1", "Eve>2", "Eve>3")
}

// If the other side has no room for a reference, Repair counts it as Remaining. It counts the document as Done only if it
// changed something else.
func TestRepairWithoutRoom(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	opts := manyMany
	opts.MaxCount = 1
	db, r := people(t, opts)
	check(t, r.Link(ctx, "Ann", 1))
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{1}})
	if result := testkit.Must(r.Repair(ctx, nil)); result.Done != 0 || result.Remaining != 1 {
		t.Errorf("%+v", result)
	}
	_, err := db.Collection("people").UpdateByID(ctx, "Eve", bson.M{"$set": bson.M{"tasks": bson.A{1, 1}}})
	check(t, err)
	if result := testkit.Must(r.Repair(ctx, nil)); result.Done != 1 || result.Remaining != 1 {
		t.Errorf("%+v", result)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	opts := listed
	opts.MaxCount = 2
	db, r := people(t, opts)
	testkit.Insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{1, 2, 3}}) // by somebody else
	check(t, r.Link(t.Context(), "Eve", 3, 1))
	if err := r.Link(t.Context(), "Eve", 3, 4); !errors.Is(err, relation.ErrFull) {
		t.Error(err)
	}
	if err := r.Link(t.Context(), "Ann", 1, 2, 3); !errors.Is(err, relation.ErrFull) || errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// The owner that prevented a link has disappeared when the link looks for the reason: it links,
// and does not return a conflict, as it has no transaction.
func TestLinkAgainWhenTheOwnerIsGone(t *testing.T) {
	t.Parallel()
	db, r := people(t, owned)
	check(t, r.Link(t.Context(), "Bob", 1))
	var once sync.Once
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "update" {
			once.Do(func() { check(t, r.Unlink(t.Context(), "Bob", 1)) })
		}
	}})).Client().Database(db.Name())
	other := testkit.Must(relation.New[string, int, task](slow.Collection("people"), slow.Collection("tasks"), &owned))
	check(t, other.Link(t.Context(), "Ann", 1))
	is(t, db, "1>Ann")
}

// Children in the order of 2,500 references, some of them dangling or repeated.
func TestFetch(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("courses")
	var docs []any
	for i := range 2400 {
		docs = append(docs, bson.M{"_id": i, "name": fmt.Sprint(i), "points": i % 7})
	}
	testkit.Insert(t, coll, docs...)
	ids := rand.New(rand.NewPCG(3, 4)).Perm(2500)
	ids = append(ids, ids[0])
	type course struct {
		ID   int `bson:"_id"`
		Name string
	}
	var joined relation.Joined[int, course]
	costs.Record(t, db, 0, []string{"find", "find", "find"}, func() (err error) {
		joined, err = relation.Fetch[int, course](t.Context(), coll, ids, &relation.FetchOptions{Projection: bson.M{"name": 1}})
		return err
	})
	var want []course
	var dangling []int
	for _, id := range ids {
		if id < 2400 {
			want = append(want, course{id, fmt.Sprint(id)})
		} else {
			dangling = append(dangling, id)
		}
	}
	if !slices.Equal(joined.Items, want) || !slices.Equal(joined.Dangling, dangling) {
		t.Errorf("%d items, %d dangling", len(joined.Items), len(joined.Dangling))
	}
	if _, err := relation.Fetch[int, course](t.Context(), coll, []int{1, 2}, &relation.FetchOptions{Projection: bson.M{"_id": 0}}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// The registry of a client stores IDs in a way of its own.
func TestFetchWithARegistry(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t, options.Client().SetRegistry(testkit.Registry())).Collection("courses")
	type course struct {
		ID testkit.Number `bson:"_id"`
	}
	testkit.Insert(t, coll, course{1}, course{2})
	joined, err := relation.Fetch[testkit.Number, course](t.Context(), coll, []testkit.Number{2, 3}, &relation.FetchOptions{Registry: testkit.Registry()})
	if err != nil || !slices.Equal(joined.Items, []course{{2}}) || !slices.Equal(joined.Dangling, []testkit.Number{3}) {
		t.Errorf("%+v, %v", joined, err)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db, r := people(t, twoWay)
	a, b := db.Collection("people"), db.Collection("tasks")
	for name, opts := range map[string]*relation.Options{
		"nothing": nil, "both owners": {OwnerField: "a", OwnersField: "b"}, "path": {ChildrenField: "a.b"}, "id": {OwnerField: "_id"}, "mark": {ChildrenField: "__touch"}, "max": {ChildrenField: "a", MaxCount: -1},
	} {
		if _, err := relation.New[string, int, task](a, b, opts); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	anything := testkit.Must(relation.New[any, any, any](a, b, &twoWay))
	for name, err := range map[string]error{
		"one field": errorOf(relation.New[string, int, task](a, a, &relation.Options{ChildrenField: "x", OwnerField: "x"})), "links": errorOf(relation.New[string, int, task](a, b, &relation.Options{Links: a})),
		"id": anything.Link(t.Context(), nil, 1), "child": anything.Link(t.Context(), 1, bson.A{1}), "operator": anything.Link(t.Context(), "Ann", bson.D{{Key: "$gt", Value: ""}}), "cascade": r.DeleteChild(t.Context(), 1, mongopatterns.Cascade),
		"policy": testkit.ErrorOf(r.DeleteParent(t.Context(), "Ann", 9)), "negative policy": r.DeleteChild(t.Context(), 1, -1),
		"n": errorOf(r.First(t.Context(), "Ann", 0, nil)), "document": errorOf(anything.Insert(t.Context(), "Ann", 7)),
		"fields": errorOf(relation.New[string, int, task](a, b, &relation.Options{Links: db.Collection("c"), ParentField: "x", ChildField: "x"})), "nil": errorOf(relation.New[string, int, task](nil, nil, &owned)),
		"links and children": errorOf(relation.New[string, int, task](a, b, &relation.Options{Links: db.Collection("c"), ChildrenField: "x"})), "databases": errorOf(relation.New[string, int, task](a, db.Client().Database("other").Collection("people"), &owned)),
		"extract": errorOf(testkit.Must(relation.New[string, int, task](a, b, &owned)).Extract(t.Context(), nil)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The relation uses its BSON options.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	db, _ := people(t, owned)
	type child struct {
		Labels []string `json:"labels"`
	}
	r := testkit.Must(relation.New[string, bson.ObjectID, child](db.Collection("people"), db.Collection("tasks"), &relation.Options{OwnerField: "owner",
		BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}}))
	id := testkit.Must(r.Insert(t.Context(), "Ann", child{}))
	raw := testkit.Must(db.Collection("tasks").FindOne(t.Context(), bson.M{"_id": id}).Raw())
	if raw.Lookup("labels").Type != bson.TypeArray || raw.Lookup("owner").StringValue() != "Ann" {
		t.Error(raw)
	}
}

// A failed call in the caller's transaction leaves nothing after that is aborted.
func TestJoinsTheTransaction(t *testing.T) {
	t.Parallel()
	db, r := people(t, twoWay)
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if err := r.Link(ctx, "Ann", 1); err != nil {
			return err
		}
		return r.Link(ctx, "Bob", 1)
	})
	if !errors.Is(err, relation.ErrOwned) {
		t.Error(err)
	}
	is(t, db)
}

func TestIndexes(t *testing.T) {
	_, r := people(t, twoWay)
	if names := slices.Sorted(maps.Keys(r.Indexes())); !slices.Equal(names, slices.Sorted(maps.Keys(r.ShardKey()))) {
		t.Error(names)
	}
}

// BenchmarkOf compares the join in two round trips with $lookup on the server: 20 children
// of 2 KB for each parent.
func BenchmarkOf(b *testing.B) {
	db, _ := people(b, listed)
	type doc struct {
		ID   int `bson:"_id"`
		Body string
	}
	r := testkit.Must(relation.New[string, int, doc](db.Collection("people"), db.Collection("docs"), &listed))
	for i := range 200 {
		testkit.Insert(b, db.Collection("docs"), doc{i, string(make([]byte, 2000))})
	}
	for i := range 20 {
		check(b, r.Link(b.Context(), "Ann", i*7))
	}
	b.Run("of", func(b *testing.B) {
		for b.Loop() {
			if joined := testkit.Must(r.Children(b.Context(), "Ann", nil)); len(joined.Items) != 20 {
				b.Fatal(joined)
			}
		}
	})
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			cursor := testkit.Must(db.Collection("people").Aggregate(b.Context(), bson.A{bson.M{"$match": bson.M{"_id": "Ann"}},
				bson.M{"$lookup": bson.M{"from": "docs", "localField": "tasks", "foreignField": "_id", "as": "all"}}}))
			var docs []struct{ All []doc }
			if check(b, cursor.All(b.Context(), &docs)); len(docs[0].All) != 20 {
				b.Fatal(docs)
			}
		}
	})
}

// DeleteParent returns the number of children that it deleted.
func TestDeletedChildren(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]relation.Options{"children": listed, "owner": owned, "owners": named, "both": twoWay, "many": manyMany, "links": linked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db, r := people(t, opts)
			check(t, errors.Join(r.Link(ctx, "Ann", 1, 2, 3), r.Link(ctx, "Bob", 4, 5)))
			want := int64(3)
			if name != "owner" && name != "both" { // more than one parent
				check(t, r.Link(ctx, "Bob", 3))
				want = 2
			}
			if n, err := r.DeleteParent(ctx, "Ann", mongopatterns.Cascade); n != want || err != nil {
				t.Errorf("%d deleted, %v, want %d", n, err, want)
			}
			if n, err := r.DeleteParent(ctx, "Bob", mongopatterns.Unlink); n != 0 || err != nil {
				t.Errorf("%d deleted, %v", n, err)
			}
			if n, err := r.DeleteParent(ctx, "Bob", mongopatterns.Cascade); n != 0 || !errors.Is(err, mongopatterns.ErrNoParent) {
				t.Errorf("%d deleted, %v", n, err)
			}
			if n := testkit.Count(t, db.Collection("tasks"), bson.D{}); int64(n) != 9-want {
				t.Errorf("%d tasks", n)
			}
		})
	}
}

// Children that name no parent are selected by no filter, not even those with a field without a name.
func TestChildrenFilterWithoutOwner(t *testing.T) {
	t.Parallel()
	for _, opts := range []relation.Options{listed, linked} {
		db, r := people(t, opts)
		testkit.Insert(t, db.Collection("tasks"), bson.D{{Key: "_id", Value: 99}, {Key: "", Value: "Ann"}})
		if n := testkit.Must(db.Collection("tasks").CountDocuments(t.Context(), r.ChildrenFilter("Ann"))); n != 0 {
			t.Error(n)
		}
	}
}
