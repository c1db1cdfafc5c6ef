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

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

type task struct {
	ID    int    `bson:"_id"`
	Title string `bson:"title,omitempty"`
	Owner string `bson:"owner,omitempty"`
}

type tasks = relation.Relation[string, int, task]

var (
	twoWay   = relation.Options{Children: "tasks", Owner: "owner"}
	listed   = relation.Options{Children: "tasks"}
	owned    = relation.Options{Owner: "owner"}
	manyMany = relation.Options{Children: "tasks", Owners: "owners"}
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func errorOf[T any](_ T, err error) error { return err }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func insert(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	_, err := coll.InsertMany(t.Context(), docs)
	check(t, err)
}

// people are Ann, Bob and Cy without tasks, and the tasks 1 to 9 without owners.
func people(t testing.TB, opts relation.Options) (*mongo.Database, *tasks) {
	t.Helper()
	db := mongotest.Database(t)
	r := must(relation.New[string, int, task](db.Collection("people"), db.Collection("tasks"), &opts))
	check(t, r.EnsureIndexes(t.Context()))
	insert(t, db.Collection("people"), bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}, bson.M{"_id": "Cy"})
	for i := range 9 {
		insert(t, db.Collection("tasks"), task{ID: i + 1})
	}
	return db, r
}

// state is all references of both sides: "Ann>1" in a list, "1>Ann" in a child.
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

func TestCosts(t *testing.T) {
	ctx := t.Context()
	call := func(t *testing.T, db *mongo.Database, written int, names []string, fn func() error) {
		t.Helper()
		cmds := costs.Record(t, db, written, names, fn)
		for _, c := range cmds.Named("find", "update", "findAndModify", "delete") {
			if plan := mongotest.Explain(t, db, c.Body); plan.Has("COLLSCAN") {
				t.Errorf("%s: %s", c.Body, plan)
			}
		}
	}
	up, ins, find, commit, del, fam := "update", "insert", "find", "commitTransaction", "delete", "findAndModify"
	t.Run("both", func(t *testing.T) {
		db, r := people(t, twoWay)
		call(t, db, 3, []string{up, up, commit}, func() error { return r.Link(ctx, "Ann", 1, 2) })
		call(t, db, 2, []string{up, up, commit}, func() error { return r.Unlink(ctx, "Ann", 2) })
		call(t, db, 3, []string{fam, up, up, commit}, func() error { return r.Transfer(ctx, 1, "Bob") })
		call(t, db, 2, []string{up, ins, commit}, func() error { return errorOf(r.Insert(ctx, "Ann", task{ID: 10})) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Has(ctx, "Ann", 10)) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Parents(ctx, 10)) })
		call(t, db, 0, []string{find, find}, func() error { return errorOf(r.Of(ctx, "Ann", nil)) })
		call(t, db, 0, []string{find, find}, func() error { return errorOf(r.OfMany(ctx, []string{"Ann", "Bob"}, nil)) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Newest(ctx, "Ann", 1, nil)) })
		call(t, db, 2, []string{fam, up, commit}, func() error { return r.DeleteChild(ctx, 10, relation.Unlink) })
		call(t, db, 2, []string{fam, up, commit}, func() error { return r.DeleteParent(ctx, "Bob", relation.Unlink) })
		call(t, db, 2, []string{up, up, commit}, func() error { return r.Link(ctx, "Ann", 3) })
		call(t, db, 2, []string{fam, del, commit}, func() error { return r.DeleteParent(ctx, "Ann", relation.Cascade) })
	})
	t.Run("children", func(t *testing.T) {
		db, r := people(t, listed)
		call(t, db, 1, []string{up}, func() error { return r.Link(ctx, "Ann", 1, 2, 3) })
		call(t, db, 1, []string{up}, func() error { return r.Unlink(ctx, "Ann", 2, 3) })
		call(t, db, 2, []string{up, ins, commit}, func() error { return errorOf(r.Insert(ctx, "Ann", task{ID: 10})) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Has(ctx, "Ann", 10)) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Parents(ctx, 10)) })
		call(t, db, 2, []string{fam, up, commit}, func() error { return r.DeleteChild(ctx, 10, relation.Unlink) })
		call(t, db, 1, []string{fam, commit}, func() error { return r.DeleteParent(ctx, "Bob", relation.Restrict) })
		call(t, db, 2, []string{fam, find, del, commit}, func() error { return r.DeleteParent(ctx, "Ann", relation.Cascade) })
	})
	t.Run("owner", func(t *testing.T) {
		db, r := people(t, owned)
		call(t, db, 1, []string{up}, func() error { return r.Link(ctx, "Ann", 1) })
		call(t, db, 2, []string{up, commit}, func() error { return r.Link(ctx, "Ann", 2, 3) })
		call(t, db, 1, []string{up}, func() error { return r.Unlink(ctx, "Ann", 1) })
		call(t, db, 1, []string{up}, func() error { return r.Transfer(ctx, 2, "Bob") })
		call(t, db, 3, []string{up, ins, commit}, func() error { return errorOf(r.Insert(ctx, "Ann", task{ID: 10})) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Has(ctx, "Ann", 10)) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Parents(ctx, 10)) })
		call(t, db, 0, []string{find}, func() error { return errorOf(r.Of(ctx, "Ann", nil)) })
		check(t, r.Link(ctx, "Cy", 4, 5, 6, 7, 8, 9))
		check(t, r.Unlink(ctx, "Ann", 3, 10))
		cmds := mongotest.Record(t, db, func() { check(t, errorOf(r.Newest(ctx, "Cy", 3, nil))) })
		plan := mongotest.Explain(t, db, cmds[0].Body)
		plan.RequireIndex(t, "owner_1__id_-1")
		plan.RequireNoSort(t)
		plan.RequireExamined(t, 3, 3)
		call(t, db, 1, []string{fam, find, commit}, func() error { return r.DeleteParent(ctx, "Ann", relation.Restrict) })
		call(t, db, 1, []string{fam, commit}, func() error { return r.DeleteChild(ctx, 10, relation.Restrict) })
	})
	t.Run("join", func(t *testing.T) {
		db := mongotest.Database(t)
		j := must(relation.NewJoin[int, int](db.Collection("teacher_subject"), &relation.JoinOptions{A: "teacher_id", B: "subject_id"}))
		check(t, j.EnsureIndexes(ctx))
		call(t, db, 1, []string{up}, func() error { return j.Link(ctx, 7, 3) })
		call(t, db, 0, []string{find}, func() error { return errorOf(j.Has(ctx, 7, 3)) })
		cmds := mongotest.Record(t, db, func() { check(t, errorOf(j.Bs(ctx, 7))) })
		mongotest.Explain(t, db, cmds[0].Body).RequireExamined(t, 1, 0)
		cmds = mongotest.Record(t, db, func() { check(t, errorOf(j.As(ctx, 3))) })
		mongotest.Explain(t, db, cmds[0].Body).RequireExamined(t, 1, 0)
		call(t, db, 1, []string{del}, func() error { return j.Unlink(ctx, 7, 3) })
	})
}

func TestTwoWay(t *testing.T) {
	db, r := people(t, twoWay)
	ctx := t.Context()
	check(t, r.Link(ctx, "Ann", 2, 1, 2))
	check(t, r.Link(ctx, "Ann", 1)) // again
	is(t, db, "1>Ann", "2>Ann", "Ann>1", "Ann>2")
	joined := must(r.Of(ctx, "Ann", nil))
	if diff := cmp.Diff([]task{{ID: 2, Owner: "Ann"}, {ID: 1, Owner: "Ann"}}, joined.Items); diff != "" || joined.Dangling != nil {
		t.Error(diff, joined.Dangling)
	}
	for want, err := range map[error]error{
		relation.ErrOwned:         r.Link(ctx, "Bob", 3, 1),
		relation.ErrNoChild:       r.Link(ctx, "Bob", 3, 99),
		relation.ErrNoParent:      r.Link(ctx, "Dee", 3),
		mongopatterns.ErrNotFound: r.Transfer(ctx, 99, "Bob"),
		mongo.ErrNoDocuments:      r.Transfer(ctx, 1, "Dee"),
		relation.ErrReferenced:    r.DeleteParent(ctx, "Ann", relation.Restrict),
		mongopatterns.ErrConflict: r.DeleteChild(ctx, 1, relation.Restrict),
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
	if id := must(r.Insert(ctx, "Cy", task{ID: 10, Owner: "wrong"})); id != 10 {
		t.Error(id)
	}
	if err := errorOf(r.Insert(ctx, "Dee", task{ID: 11})); !errors.Is(err, relation.ErrNoParent) {
		t.Error(err)
	}
	if has, not := must(r.Has(ctx, "Cy", 10)), must(r.Has(ctx, "Cy", 1)); !has || not {
		t.Error(has, not)
	}
	if p := must(r.Parents(ctx, 10)); !slices.Equal(p, []string{"Cy"}) {
		t.Error(p)
	}
	check(t, r.Unlink(ctx, "Bob", 4, 5))
	check(t, r.DeleteParent(ctx, "Cy", relation.Cascade))
	check(t, r.DeleteParent(ctx, "Ann", relation.Unlink))
	is(t, db, "1>Bob", "Bob>1")
	if got := problems(t, r); got != nil {
		t.Error(got)
	}
}

func TestOneSide(t *testing.T) {
	ctx := t.Context()
	db, r := people(t, owned)
	check(t, r.Link(ctx, "Ann", 1, 2))
	for want, err := range map[error]error{
		relation.ErrOwned: r.Link(ctx, "Bob", 1, 3), mongopatterns.ErrConflict: r.Link(ctx, "Bob", 1), relation.ErrNoChild: r.Link(ctx, "Bob", 3, 99),
		mongopatterns.ErrInvalid: errorOf(r.OfMany(ctx, nil, nil)), relation.ErrReferenced: r.DeleteParent(ctx, "Ann", relation.Restrict),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	is(t, db, "1>Ann", "2>Ann")
	if all := must(r.Of(ctx, "Ann", &relation.ReadOptions{Projection: bson.M{"owner": 0}})); !slices.Equal(all.Items, []task{{ID: 2}, {ID: 1}}) {
		t.Error(all)
	}
	check(t, r.DeleteParent(ctx, "Ann", relation.Cascade))
	if n := must(db.Collection("tasks").CountDocuments(ctx, bson.M{})); n != 7 {
		t.Error(n)
	}

	db, r = people(t, relation.Options{Children: "tasks", Max: 3})
	check(t, r.Link(ctx, "Ann", 1, 2))
	check(t, r.Link(ctx, "Bob", 2))
	if err := r.Link(ctx, "Ann", 2, 3, 4); !errors.Is(err, relation.ErrFull) {
		t.Error(err)
	}
	check(t, r.Link(ctx, "Ann", 1, 2, 77)) // not looked at
	joined := must(r.Of(ctx, "Ann", nil))
	if len(joined.Items) != 2 || !slices.Equal(joined.Dangling, []int{77}) {
		t.Error(joined)
	}
	many := must(r.OfMany(ctx, []string{"Bob", "Dee", "Ann"}, nil))
	if len(many) != 3 || len(many[0].Items) != 1 || many[1].Items != nil || len(many[2].Items) != 2 {
		t.Error(many)
	}
	if p := must(r.Parents(ctx, 2)); len(p) != 2 {
		t.Error(p)
	}
	if n := must(db.Collection("people").CountDocuments(ctx, r.ParentsFilter(2))); n != 2 {
		t.Error(n)
	}
	check(t, r.DeleteParent(ctx, "Ann", relation.Cascade)) // 2 is Bob's as well
	if n := must(db.Collection("tasks").CountDocuments(ctx, bson.M{})); n != 8 {
		t.Error(n)
	}
	if err := errorOf(r.Of(ctx, "Ann", nil)); !errors.Is(err, relation.ErrNoParent) {
		t.Error(err)
	}
	_, err := db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": "many"}})
	check(t, err)
	if err := r.Link(ctx, "Cy", 1); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

func TestManyToMany(t *testing.T) {
	ctx := t.Context()
	db, r := people(t, manyMany)
	check(t, r.Link(ctx, "Ann", 1, 2))
	check(t, r.Link(ctx, "Bob", 2, 3))
	is(t, db, "1>Ann", "2>Ann", "2>Bob", "3>Bob", "Ann>1", "Ann>2", "Bob>2", "Bob>3")
	if p := must(r.Parents(ctx, 2)); !slices.Equal(p, []string{"Ann", "Bob"}) {
		t.Error(p)
	}
	check(t, r.DeleteParent(ctx, "Ann", relation.Cascade))
	is(t, db, "2>Bob", "3>Bob", "Bob>2", "Bob>3")
	if n := must(db.Collection("tasks").CountDocuments(ctx, bson.M{})); n != 8 {
		t.Error(n)
	}
	if err := r.Transfer(ctx, 2, "Cy"); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}

	j := must(relation.NewJoin[int, int](db.Collection("teacher_subject"), &relation.JoinOptions{A: "teacher_id", B: "subject_id"}))
	check(t, j.EnsureIndexes(ctx))
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := j.Link(ctx, 1, i%5); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	check(t, j.Link(ctx, 2, 4))
	check(t, j.Unlink(ctx, 1, 0))
	check(t, j.Unlink(ctx, 1, 0))
	if b, a := must(j.Bs(ctx, 1)), must(j.As(ctx, 4)); !slices.Equal(b, []int{1, 2, 3, 4}) || !slices.Equal(a, []int{1, 2}) {
		t.Error(b, a)
	}
	if has, not := must(j.Has(ctx, 1, 4)), must(j.Has(ctx, 1, 0)); !has || not {
		t.Error(has, not)
	}
	raw := must(db.Collection("teacher_subject").FindOne(ctx, bson.M{"teacher_id": 2}).Raw())
	if raw.Lookup("subject_id").AsInt64() != 4 {
		t.Error(raw)
	}
	keys := must(raw.Elements())
	if len(keys) != 3 {
		t.Error(raw)
	}
}

// Writers link, unlink, transfer, insert and delete at once: both sides stay equal, a
// task never has two owners, and Check finds nothing, also in between.
func TestConcurrent(t *testing.T) {
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
						err = r.DeleteChild(t.Context(), id, relation.Unlink)
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
	ctx := t.Context()
	damage := func(db *mongo.Database) {
		people, tasks := db.Collection("people"), db.Collection("tasks")
		for id, list := range map[string]any{"Ann": bson.A{1, 2, 2, 3, 77}, "Bob": bson.A{2, 4}, "Cy": "many"} {
			_, err := people.UpdateByID(ctx, id, bson.M{"$set": bson.M{"tasks": list}})
			check(t, err)
		}
		for id, owner := range map[int]any{1: "Ann", 2: "Bob", 5: "Ann", 6: "Dee", 4: bson.A{"x"}} {
			_, err := tasks.UpdateByID(ctx, id, bson.M{"$set": bson.M{"owner": owner}})
			check(t, err)
		}
	}
	db, r := people(t, twoWay)
	damage(db)
	want := []mongopatterns.ProblemKind{"dangling", "dangling", "malformed", "malformed", "one-sided", "one-sided", "one-sided", "one-sided", "repeated"}
	if diff := cmp.Diff(want, problems(t, r)); diff != "" {
		t.Error(diff)
	}
	before := state(t, db)
	if dry := must(r.Repair(ctx, &mongopatterns.Work{DryRun: true})); dry.Done == 0 {
		t.Errorf("%+v", dry)
	}
	is(t, db, before...)
	one := must(r.Repair(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Ann"}}))
	if one.Examined != 1 || one.Done != 1 {
		t.Errorf("%+v", one)
	}
	result := must(r.Repair(ctx, nil))
	if result.Remaining == 0 {
		t.Errorf("%+v", result)
	}
	// 2 is Bob's, 3 became Ann's, 5 is in her list; 4 stays in doubt, with Cy.
	is(t, db, "1>Ann", "2>Bob", "3>Ann", "4>x", "5>Ann", "Ann>1", "Ann>3", "Ann>5", "Bob>2", "Cy>many")
	if diff := cmp.Diff([]mongopatterns.ProblemKind{"malformed", "malformed"}, problems(t, r)); diff != "" {
		t.Error(diff)
	}

	db, r = people(t, manyMany)
	insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{1, 2}})
	_, err := db.Collection("tasks").UpdateByID(ctx, 3, bson.M{"$set": bson.M{"owners": bson.A{"Eve", "Dee"}}})
	check(t, err)
	must(r.Repair(ctx, nil))
	is(t, db, "1>Eve", "2>Eve", "3>Eve", "Eve>1", "Eve>2", "Eve>3")
}

// A Repair before Extract deletes no child that is still embedded.
func TestRepairKeepsEmbeddedChildren(t *testing.T) {
	for _, opts := range []relation.Options{listed, twoWay} {
		db, r := people(t, opts)
		insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{bson.M{"_id": 22, "title": "b"}, bson.M{"_id": 23, "title": "a"}, 1}})
		result := must(r.Repair(t.Context(), nil))
		if result.Remaining != 1 {
			t.Errorf("%+v", result)
		}
		if n := must(db.Collection("people").CountDocuments(t.Context(), bson.M{"tasks": bson.M{"$size": 3}, "tasks.title": "a"})); n != 1 {
			t.Error("embedded children are gone")
		}
		must(r.Extract(t.Context(), nil))
		if joined := must(r.Of(t.Context(), "Eve", nil)); len(joined.Items) != 3 || len(joined.Dangling) != 0 {
			t.Error(joined)
		}
	}
}

func TestFull(t *testing.T) {
	opts := listed
	opts.Max = 2
	db, r := people(t, opts)
	insert(t, db.Collection("people"), bson.M{"_id": "Eve", "tasks": bson.A{1, 2, 3}}) // by somebody else
	check(t, r.Link(t.Context(), "Eve", 3, 1))
	if err := r.Link(t.Context(), "Eve", 3, 4); !errors.Is(err, relation.ErrFull) {
		t.Error(err)
	}
	if err := r.Link(t.Context(), "Ann", 1, 2, 3); !errors.Is(err, relation.ErrFull) || errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// The owner that was in the way of a link is gone when the link asks why: it links, and
// returns no conflict of a transaction that there is not.
func TestLinkAgainWhenTheOwnerIsGone(t *testing.T) {
	db, r := people(t, owned)
	check(t, r.Link(t.Context(), "Bob", 1))
	var once sync.Once
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "update" {
			once.Do(func() { check(t, r.Unlink(t.Context(), "Bob", 1)) })
		}
	}})).Client().Database(db.Name())
	other := must(relation.New[string, int, task](slow.Collection("people"), slow.Collection("tasks"), &owned))
	check(t, other.Link(t.Context(), "Ann", 1))
	is(t, db, "1>Ann")
}

// Embedded tasks become documents with references and come back the same, in their order.
func TestExtractAndEmbed(t *testing.T) {
	ctx := t.Context()
	db, r := people(t, twoWay)
	embedded := bson.D{{Key: "_id", Value: "Eve"}, {Key: "tasks", Value: bson.A{
		bson.D{{Key: "_id", Value: int32(22)}, {Key: "title", Value: "b"}}, bson.D{{Key: "_id", Value: int32(21)}, {Key: "title", Value: "a"}},
	}}}
	insert(t, db.Collection("people"), embedded, bson.M{"_id": "Fay", "tasks": bson.A{bson.M{"_id": 1}}})
	result := must(r.Extract(ctx, nil))
	if result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "Fay" {
		t.Errorf("%+v", result)
	}
	if joined := must(r.Of(ctx, "Eve", nil)); !slices.Equal(joined.Items, []task{{22, "b", "Eve"}, {21, "a", "Eve"}}) {
		t.Error(joined)
	}
	if again := must(r.Extract(ctx, &mongopatterns.Work{Filter: bson.M{"_id": "Eve"}})); again.Examined != 0 {
		t.Errorf("%+v", again)
	}
	check(t, r.Link(ctx, "Bob", 2))
	_, err := db.Collection("people").UpdateByID(ctx, "Ann", bson.M{"$set": bson.M{"tasks": bson.A{2}}})
	check(t, err)
	_, err = db.Collection("people").UpdateByID(ctx, "Cy", bson.M{"$set": bson.M{"tasks": bson.A{99}}})
	check(t, err)
	result = must(r.Embed(ctx, nil))
	if result.Done != 1 || result.Failed != 3 { // Ann and Bob share 2, Cy's is dangling
		t.Errorf("%+v", result)
	}
	var got bson.D
	check(t, db.Collection("people").FindOne(ctx, bson.M{"_id": "Eve"}).Decode(&got))
	if diff := cmp.Diff(embedded, got); diff != "" {
		t.Error(diff)
	}
	if n := must(db.Collection("tasks").CountDocuments(ctx, bson.M{"_id": bson.M{"$gt": 20}})); n != 0 {
		t.Error(n)
	}
	strict := errorOf(r.Embed(ctx, &mongopatterns.Work{Strict: true}))
	if !errors.Is(strict, relation.ErrReferenced) {
		t.Error(strict)
	}
}

// Children in the order of 2,500 references, some of them dangling or repeated.
func TestFetch(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("courses")
	var docs []any
	for i := range 2400 {
		docs = append(docs, bson.M{"_id": i, "name": fmt.Sprint(i), "points": i % 7})
	}
	insert(t, coll, docs...)
	ids := rand.New(rand.NewPCG(3, 4)).Perm(2500)
	ids = append(ids, ids[0])
	type course struct {
		ID   int `bson:"_id"`
		Name string
	}
	var joined relation.Joined[int, course]
	costs.Record(t, db, 0, []string{"find", "find", "find"}, func() (err error) {
		joined, err = relation.Fetch[int, course](t.Context(), coll, ids, &relation.ReadOptions{Projection: bson.M{"name": 1}})
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
	if _, err := relation.Fetch[int, course](t.Context(), coll, []int{1}, &relation.ReadOptions{Projection: bson.M{"_id": 0}}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

func TestLookupPipeline(t *testing.T) {
	for _, opts := range []relation.Options{twoWay, owned} {
		db, r := people(t, opts)
		check(t, r.Link(t.Context(), "Ann", 1, 2))
		cursor, err := db.Collection("people").Aggregate(t.Context(), append(r.LookupPipeline("all"), bson.D{{Key: "$match", Value: bson.M{"_id": "Ann"}}}))
		check(t, err)
		var docs []struct{ All []task }
		check(t, cursor.All(t.Context(), &docs))
		if len(docs) != 1 || len(docs[0].All) != 2 {
			t.Error(docs)
		}
		if n := must(db.Collection("tasks").CountDocuments(t.Context(), r.ChildrenFilter("Ann"))); n != 2 {
			t.Error(n)
		}
	}
}

func TestInvalid(t *testing.T) {
	db, r := people(t, twoWay)
	a, b := db.Collection("people"), db.Collection("tasks")
	for name, opts := range map[string]*relation.Options{
		"nothing": nil, "both owners": {Owner: "a", Owners: "b"}, "path": {Children: "a.b"}, "id": {Owner: "_id"}, "max": {Children: "a", Max: -1},
	} {
		if _, err := relation.New[string, int, task](a, b, opts); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	anything := must(relation.New[any, any, any](a, b, &twoWay))
	for name, err := range map[string]error{
		"collection": errorOf(relation.New[string, int, task](a, a, &twoWay)), "none": r.Link(t.Context(), "Ann"),
		"id": anything.Link(t.Context(), nil, 1), "child": anything.Link(t.Context(), 1, bson.A{1}), "operator": anything.Link(t.Context(), "Ann", bson.D{{Key: "$gt", Value: ""}}), "cascade": r.DeleteChild(t.Context(), 1, relation.Cascade),
		"policy": r.DeleteParent(t.Context(), "Ann", 9), "negative policy": r.DeleteChild(t.Context(), 1, -1),
		"n": errorOf(r.Newest(t.Context(), "Ann", 0, nil)), "document": errorOf(anything.Insert(t.Context(), "Ann", 7)),
		"join": errorOf(relation.NewJoin[int, int](a, &relation.JoinOptions{A: "x", B: "x"})), "nil": errorOf(relation.NewJoin[int, int](nil, nil)),
		"extract": errorOf(must(relation.New[string, int, task](a, b, &owned)).Extract(t.Context(), nil)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BSON options are those of the relation.
func TestBSONOptions(t *testing.T) {
	db, _ := people(t, owned)
	type child struct {
		Labels []string `json:"labels"`
	}
	r := must(relation.New[string, bson.ObjectID, child](db.Collection("people"), db.Collection("tasks"), &relation.Options{Owner: "owner",
		BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}}))
	id := must(r.Insert(t.Context(), "Ann", child{}))
	raw := must(db.Collection("tasks").FindOne(t.Context(), bson.M{"_id": id}).Raw())
	if raw.Lookup("labels").Type != bson.TypeArray || raw.Lookup("owner").StringValue() != "Ann" {
		t.Error(raw)
	}
}

// A failed call in the caller's transaction leaves nothing once that is aborted.
func TestJoinsTheTransaction(t *testing.T) {
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
	r := must(relation.New[string, int, doc](db.Collection("people"), db.Collection("docs"), &listed))
	for i := range 200 {
		insert(b, db.Collection("docs"), doc{i, string(make([]byte, 2000))})
	}
	for i := range 20 {
		check(b, r.Link(b.Context(), "Ann", i*7))
	}
	b.Run("of", func(b *testing.B) {
		for b.Loop() {
			if joined := must(r.Of(b.Context(), "Ann", nil)); len(joined.Items) != 20 {
				b.Fatal(joined)
			}
		}
	})
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			cursor := must(db.Collection("people").Aggregate(b.Context(), append(mongo.Pipeline{{{Key: "$match", Value: bson.M{"_id": "Ann"}}}}, r.LookupPipeline("all")...)))
			var docs []struct{ All []doc }
			if check(b, cursor.All(b.Context(), &docs)); len(docs[0].All) != 20 {
				b.Fatal(docs)
			}
		}
	})
}
