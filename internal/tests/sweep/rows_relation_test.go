package sweep

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/relation"
)

type tasks = relation.Relation[string, int, bson.D]

// kinds are the ways to refer.
func kinds(s *scene) map[string]*relation.Options {
	return map[string]*relation.Options{
		"two-way": {ChildrenField: "tasks", OwnerField: "owner"},
		"owner":   {OwnerField: "owner"},
		"links":   {Links: s.coll("links")},
	}
}

// assigned are tasks of Ann, 1 and 2, and one of nobody, 3.
func assigned(s *scene, kind string) *tasks {
	r := testkit.Must(relation.New[string, int, bson.D](s.coll("people"), s.coll("tasks"), kinds(s)[kind]))
	s.ok(r.EnsureIndexes(s.Context()))
	s.insert("people", doc("_id", "Ann"), doc("_id", "Bob"))
	s.insert("tasks", doc("_id", 1), doc("_id", 2), doc("_id", 3))
	s.ok(r.Link(s.Context(), "Ann", 1, 2))
	return r
}

func task(kind string, do func(ctx context.Context, r *tasks) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		r := assigned(s, kind)
		return call{one: func(ctx context.Context) error { return do(ctx, r) }, repeated: repeated, check: []mongopatterns.Checker{r}}
	}
}

func insertTask(ctx context.Context, r *tasks) error {
	return void(r.Insert(ctx, "Ann", doc("_id", 9)))
}
func linkTask(ctx context.Context, r *tasks) error   { return r.Link(ctx, "Ann", 3) }
func unlinkTask(ctx context.Context, r *tasks) error { return r.Unlink(ctx, "Ann", 1) }
func moveTask(ctx context.Context, r *tasks) error   { return r.Transfer(ctx, 1, "Bob") }

func deletePerson(policy mongopatterns.DeletePolicy) func(ctx context.Context, r *tasks) error {
	return func(ctx context.Context, r *tasks) error { return void(r.DeleteParent(ctx, "Ann", policy)) }
}

func deleteTask(ctx context.Context, r *tasks) error {
	return r.DeleteChild(ctx, 1, mongopatterns.Unlink)
}

var relationRows = []row{
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
	{"relation.Relation.Repair", func(s *scene) call {
		r := assigned(s, "two-way")
		s.ok(void(s.coll("people").UpdateByID(s.Context(), "Ann", doc("$set", doc("tasks", bson.A{1, 2, 77})))))
		s.ok(void(s.coll("tasks").UpdateByID(s.Context(), 3, doc("$set", doc("owner", "Bob")))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, small) }, check: []mongopatterns.Checker{r}}
	}},
	{"relation.Relation.Extract", func(s *scene) call {
		r := testkit.Must(relation.New[string, int, bson.D](s.coll("people"), s.coll("tasks"), &relation.Options{ChildrenField: "tasks", OwnerField: "owner"}))
		s.ok(r.EnsureIndexes(s.Context()))
		s.insert("people", doc("_id", "Ann", "tasks", bson.A{doc("_id", 1, "title", "wash"), doc("_id", 2, "title", "cook")}), doc("_id", "Bob", "tasks", bson.A{doc("_id", 3, "title", "sleep")}))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Extract(ctx, small) }, check: []mongopatterns.Checker{r}}
	}},
	{"relation.Relation.Embed", func(s *scene) call {
		r := assigned(s, "two-way")
		s.ok(r.Link(s.Context(), "Bob", 3))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Embed(ctx, small) }, shards: sharders(r)}
	}},
}
