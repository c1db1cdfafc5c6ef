package sweep

import (
	"context"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/versioning"
)

type policy struct {
	ID    int `bson:"_id"`
	Items []string
}

type policies = versioning.History[int, policy]

func newPolicies(s *scene, opts *versioning.Options) *policies {
	d := testkit.Must(versioning.New[int, policy](s.coll("policies"), s.coll("revisions"), opts))
	s.ok(d.EnsureIndexes(s.Context()))
	return d
}

var by = versioning.Change{Author: "Bilbo"}

// insured is policy 1 with three revisions and policy 2 with one.
func insured(s *scene, opts *versioning.Options) *policies {
	d := newPolicies(s, opts)
	s.ok(void(d.Insert(s.Context(), policy{1, []string{"house"}}, by)))
	for _, item := range []string{"sword", "ring"} {
		s.ok(void(d.Edit(s.Context(), 1, with(item), by)))
	}
	s.ok(void(d.Insert(s.Context(), policy{2, []string{"boat"}}, by)))
	return d
}

func with(item string) func(p *policy) error {
	return func(p *policy) error { p.Items = append(p.Items, item); return nil }
}

func revision(opts *versioning.Options, look bool, do func(s *scene, d *policies) func(ctx context.Context) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		d := insured(s, opts)
		return call{one: do(s, d), look: look, repeated: repeated, check: []mongopatterns.Checker{d}}
	}
}

func save(s *scene, d *policies) func(ctx context.Context) error {
	r := testkit.Must(d.Get(s.Context(), 1))
	r.Document.Items = []string{"house"}
	return func(ctx context.Context) error { return void(d.Save(ctx, r, by)) }
}

func changePolicy(_ *scene, d *policies) func(ctx context.Context) error {
	return func(ctx context.Context) error { return void(d.Edit(ctx, 1, with("mail"), by)) }
}

func deletePolicy(_ *scene, d *policies) func(ctx context.Context) error {
	return func(ctx context.Context) error { return d.Delete(ctx, 1, 3, by) }
}

var versioningRows = []row{
	{"versioning.History.Insert", revision(nil, false, func(_ *scene, d *policies) func(ctx context.Context) error {
		return func(ctx context.Context) error { return void(d.Insert(ctx, policy{3, nil}, by)) }
	}, mongopatterns.ErrExists)},
	{"versioning.History.Insert/deleted", func(s *scene) call {
		d := insured(s, nil)
		s.ok(d.Delete(s.Context(), 1, 3, by))
		return call{one: func(ctx context.Context) error { return void(d.Insert(ctx, policy{1, nil}, by)) }, repeated: []error{mongopatterns.ErrExists}, check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Save", revision(nil, false, save, mongopatterns.ErrConflict)},
	{"versioning.History.Save/deltas", revision(&versioning.Options{SnapshotEvery: 5}, false, save, mongopatterns.ErrConflict)},
	{"versioning.History.Edit", revision(nil, true, changePolicy)},
	{"versioning.History.Delete", revision(nil, false, deletePolicy, mongopatterns.ErrNotFound, mongopatterns.ErrConflict)},
	{"versioning.History.Restore", revision(nil, false, func(_ *scene, d *policies) func(ctx context.Context) error {
		return func(ctx context.Context) error { return void(d.Restore(ctx, 1, 1, by)) }
	})},
	{"versioning.History.Undo", revision(nil, false, func(_ *scene, d *policies) func(ctx context.Context) error {
		return func(ctx context.Context) error { return void(d.Undo(ctx, 1, 2, by)) }
	}, mongopatterns.ErrConflict)},
	{"versioning.History.SaveMany", func(s *scene) call {
		d := insured(s, nil)
		var read []*versioning.Revision[policy]
		for _, id := range []int{1, 2} {
			r := testkit.Must(d.Get(s.Context(), id))
			r.Document.Items = []string{"nothing"}
			read = append(read, &r)
		}
		return call{many: func(ctx context.Context) (mongopatterns.Result, error) {
			return d.SaveMany(ctx, sequence(read), by, small)
		}, counts: "policies", repeated: []error{mongopatterns.ErrConflict}, check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Adopt", func(s *scene) call {
		d := newPolicies(s, nil)
		for id := range 3 {
			s.insert("policies", doc("_id", id, "items", bson.A{"house"}))
		}
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return d.Adopt(ctx, nil, small) }, counts: "policies", check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.AdoptRevisions", func(s *scene) call {
		d := newPolicies(s, nil)
		s.insert("policies", doc("_id", 1, "items", bson.A{"house", "ring"}, "revision", int64(3), "change", doc("at", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))))
		for n := range 2 {
			s.insert("revisions", doc("_id", n, "policy", 1, "number", n+1, "items", bson.A{"house"}))
		}
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return d.AdoptRevisions(ctx, func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
				whole, err := bson.Marshal(doc("_id", row.Lookup("policy"), "items", row.Lookup("items")))
				return &versioning.Revision[bson.Raw]{Number: row.Lookup("number").AsInt64(), Document: whole,
					Change: versioning.Change{At: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)}}, err
			}, small)
		}, counts: "revisions", check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Prune", func(s *scene) call {
		d := insured(s, nil)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return d.Prune(ctx, versioning.Retention{Keep: 1}, small)
		}, counts: "revisions", check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Repair", func(s *scene) call {
		d := insured(s, nil)
		s.ok(void(s.coll("policies").DeleteMany(s.Context(), doc("_id", 1))))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return d.Repair(ctx, small) }, counts: "revisions", check: []mongopatterns.Checker{d}}
	}},
}

func sequence[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
