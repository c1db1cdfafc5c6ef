package registry

import (
	"context"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/relation"
)

func init() {
	add(Pattern{Package: "relation", Writes: relationRows, Reads: relationReads(), Writings: relationWritings, Steps: relationSteps, Role: relationRole})
}

type tasks = relation.Relation[string, int, bson.D]

// fetched is a collection that Fetch reads.
type fetched struct {
	Keyed
	opts *relation.FetchOptions
}

// kinds are the ways to refer.
func kinds(s *Scene) map[string]*relation.Options {
	return map[string]*relation.Options{
		"two-way": {ChildrenField: "tasks", OwnerField: "owner", Scope: s.Scope},
		"owner":   {OwnerField: "owner", Scope: s.Scope},
		"links":   {Links: s.Coll("links"), Scope: s.Scope},
	}
}

// assigned are tasks of Ann, 1 and 2, and one of nobody, 3.
func assigned(s *Scene, kind string) *tasks {
	r := testkit.Must(relation.New[string, int, bson.D](s.Coll("people"), s.Coll("tasks"), kinds(s)[kind]))
	s.OK(r.EnsureIndexes(s.Context()))
	s.Insert("people", testkit.D("_id", "Ann"), testkit.D("_id", "Bob"))
	s.Insert("tasks", testkit.D("_id", 1), testkit.D("_id", 2), testkit.D("_id", 3))
	s.OK(r.Link(s.Context(), "Ann", 1, 2))
	return r
}

func task(kind string, do func(ctx context.Context, r *tasks) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		r := assigned(s, kind)
		return Call{One: func(ctx context.Context) error { return do(ctx, r) }, Repeated: repeated, Check: []mongopatterns.Checker{r}}
	}
}

func insertTask(ctx context.Context, r *tasks) error {
	return testkit.ErrorOf(r.Insert(ctx, "Ann", testkit.D("_id", 9)))
}
func linkTask(ctx context.Context, r *tasks) error   { return r.Link(ctx, "Ann", 3) }
func unlinkTask(ctx context.Context, r *tasks) error { return r.Unlink(ctx, "Ann", 1) }
func moveTask(ctx context.Context, r *tasks) error   { return r.Transfer(ctx, 1, "Bob") }

func deletePerson(policy mongopatterns.DeletePolicy) func(ctx context.Context, r *tasks) error {
	return func(ctx context.Context, r *tasks) error { return testkit.ErrorOf(r.DeleteParent(ctx, "Ann", policy)) }
}

func deleteTask(ctx context.Context, r *tasks) error {
	return r.DeleteChild(ctx, 1, mongopatterns.Unlink)
}

var relationRows = []Row{
	{"relation.Relation.Insert", task("two-way", insertTask, mongopatterns.ErrExists)},
	{"relation.Relation.Insert/owner", task("owner", insertTask, mongopatterns.ErrExists)},
	{"relation.Relation.Insert/links", task("links", insertTask, mongopatterns.ErrExists)},
	{"relation.Relation.Link", task("two-way", linkTask)},
	{"relation.Relation.Link/owner", task("owner", linkTask)},
	{"relation.Relation.Link/links", task("links", linkTask)},
	{"relation.Relation.Unlink", task("two-way", unlinkTask)},
	{"relation.Relation.Unlink/links", task("links", unlinkTask)},
	{"relation.Relation.Transfer", task("two-way", moveTask)},
	{"relation.Relation.Transfer/owner", task("owner", moveTask)},
	{"relation.Relation.DeleteParent", task("two-way", deletePerson(mongopatterns.Unlink), mongopatterns.ErrNotFound)},
	{"relation.Relation.DeleteParent/cascade", task("two-way", deletePerson(mongopatterns.Cascade), mongopatterns.ErrNotFound)},
	{"relation.Relation.DeleteParent/links, cascade", task("links", deletePerson(mongopatterns.Cascade), mongopatterns.ErrNotFound)},
	{"relation.Relation.DeleteChild", task("two-way", deleteTask, mongopatterns.ErrNotFound)},
	{"relation.Relation.DeleteChild/links", task("links", deleteTask, mongopatterns.ErrNotFound)},
	{"relation.Relation.Repair", func(s *Scene) Call {
		r := assigned(s, "two-way")
		s.OK(testkit.ErrorOf(s.Coll("people").UpdateByID(s.Context(), "Ann", testkit.D("$set", testkit.D("tasks", bson.A{1, 2, 77})))))
		s.OK(testkit.ErrorOf(s.Coll("tasks").UpdateByID(s.Context(), 3, testkit.D("$set", testkit.D("owner", "Bob")))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, small) }, Check: []mongopatterns.Checker{r}}
	}},
	{"relation.Relation.Extract", func(s *Scene) Call {
		r := testkit.Must(relation.New[string, int, bson.D](s.Coll("people"), s.Coll("tasks"), kinds(s)["two-way"]))
		s.OK(r.EnsureIndexes(s.Context()))
		s.Insert("people", testkit.D("_id", "Ann", "tasks", bson.A{testkit.D("_id", 1, "title", "wash"), testkit.D("_id", 2, "title", "cook")}), testkit.D("_id", "Bob", "tasks", bson.A{testkit.D("_id", 3, "title", "sleep")}))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Extract(ctx, small) }, Check: []mongopatterns.Checker{r}}
	}},
	{"relation.Relation.Embed", func(s *Scene) Call {
		r := assigned(s, "two-way")
		s.OK(r.Link(s.Context(), "Bob", 3))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Embed(ctx, small) }, Shards: sharders(r)}
	}},
}

func relationReads() (out []Row) {
	for _, kind := range []string{"two-way", "owner", "links"} {
		out = append(out, reads("relation.Relation", "/"+kind, func(s *Scene) *tasks { return assigned(s, kind) }, map[string]func(context.Context, *tasks) error{
			"Children": func(ctx context.Context, r *tasks) error { return testkit.ErrorOf(r.Children(ctx, "Ann", nil)) },
			"ChildrenOf": func(ctx context.Context, r *tasks) error {
				return testkit.ErrorOf(r.ChildrenOf(ctx, []string{"Ann", "Bob"}, nil))
			},
			"Parents": func(ctx context.Context, r *tasks) error { return testkit.ErrorOf(r.Parents(ctx, 1)) },
			"Has":     func(ctx context.Context, r *tasks) error { return testkit.ErrorOf(r.Has(ctx, "Ann", 1)) },
			"Check":   func(ctx context.Context, r *tasks) error { return checked(r)(ctx) },
		})...)
	}
	out = append(out, reads("relation.Relation", "/owner", func(s *Scene) *tasks { return assigned(s, "owner") }, map[string]func(context.Context, *tasks) error{
		"First": func(ctx context.Context, r *tasks) error { return testkit.ErrorOf(r.First(ctx, "Ann", 1, nil)) },
	})...)
	out = append(out, reads("relation", "", func(s *Scene) fetched {
		s.Insert("tasks", testkit.D("_id", 1), testkit.D("_id", 2), testkit.D("_id", 3))
		return fetched{Keyed{s.Coll("tasks"), testkit.D("_id", 1)}, &relation.FetchOptions{Scope: s.Scope}}
	}, map[string]func(context.Context, fetched) error{
		"Fetch": func(ctx context.Context, f fetched) error {
			return testkit.ErrorOf(relation.Fetch[int, bson.D](ctx, f.Coll, []int{1, 3}, f.opts))
		},
	})...)
	return out
}

func relationWritings(s *Scene) (out []Writing) {
	links := []string{"two-way"}
	if scale.Whole() {
		links = append(links, "owner", "links")
	}
	for _, kind := range links {
		out = append(out, linking(s, kind))
	}
	return out
}

// linking links a new child to a parent.
func linking(s *Scene, kind string) Writing {
	ctx := s.Context()
	people, children := s.Coll("people "+kind), s.Coll("tasks "+kind)
	r := testkit.Must(relation.New[string, int, bson.D](people, children, kinds(s)[kind]))
	for e := range Entities {
		s.Insert(people.Name(), testkit.D("_id", letter(e)))
	}
	return Writing{"relation.Link, " + kind, sharders(r), func(ctx context.Context, e, n int) error {
		if _, err := children.InsertOne(ctx, testkit.D("_id", n)); err != nil {
			return err
		}
		return r.Link(ctx, letter(e), n)
	}, func(t *testing.T, e int) (out []int) {
		joined, err := r.Children(ctx, letter(e), nil)
		if err != nil || len(joined.Dangling) > 0 {
			t.Errorf("%v, %v", joined.Dangling, err)
		}
		for _, d := range joined.Items {
			out = append(out, int(d[0].Value.(int32)))
		}
		return out
	}}
}

func relationSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	people, tasks := db.Collection("rel_people"), db.Collection("rel_tasks")
	r := testkit.Must(relation.New[string, int, bson.M](people, tasks, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"}))
	testkit.OK(t, r.EnsureIndexes(t.Context()))
	testkit.OK(t, done(testkit.ErrorOf(people.InsertMany(t.Context(), []any{bson.M{"_id": "Ann"}, bson.M{"_id": "Bob"}}))))
	step := func(ctx context.Context, n int) error {
		if err := done(testkit.ErrorOf(r.Insert(ctx, "Ann", bson.M{"_id": n}))); err != nil {
			return err
		}
		return r.Transfer(ctx, n, []string{"Ann", "Bob"}[n%2])
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, r)
		if got := ids(t, tasks, bson.M{}); !slices.Equal(got, upTo(n)) {
			t.Errorf("tasks %v of %d", got, n)
		}
		ann, bob := testkit.Must(r.Children(t.Context(), "Ann", nil)), testkit.Must(r.Children(t.Context(), "Bob", nil))
		if len(ann.Items) != (n+1)/2 || len(bob.Items) != n/2 {
			t.Errorf("%d and %d of %d", len(ann.Items), len(bob.Items), n)
		}
	}
}

var relationRole = &Role{Open: relationPlayer, Writes: []string{"tasks_%"}}

func relationPlayer(s *Side) (*Player, error) {
	tasks := s.coll("tasks")
	r, err := relation.New[any, int, bson.M](s.Main, tasks, &relation.Options{ChildrenField: s.name("tasks"), OwnerField: "owner"})
	return opened(&Player{
		Parts: []Part{{tasks, "owner"}},
		Step: func(ctx context.Context, ids []any, n int) error {
			if _, err := r.Insert(ctx, ids[(n+1)%Shared], bson.M{"_id": n}); err != nil {
				return err
			}
			return r.Transfer(ctx, n, ids[n%Shared])
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				children, err := r.Children(ctx, id, nil)
				if err != nil {
					return err
				}
				return same(len(children.Items), len(roundsOf(i)))
			})
		},
	}, r, err)
}
