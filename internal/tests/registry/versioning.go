package registry

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func init() {
	add(Pattern{Package: "versioning", Writes: versioningRows, Reads: versioningReads(), Writings: versioningWritings, Steps: versioningSteps, Role: versioningRole})
}

type policy struct {
	ID    int `bson:"_id"`
	Items []string
}

type policies = versioning.History[int, policy]

func newPolicies(s *Scene, opts *versioning.Options) *policies {
	own := versioning.Options{}
	if opts != nil {
		own = *opts
	}
	own.Scope = s.Scope
	d := testkit.Must(versioning.New[int, policy](s.Coll("policies"), s.Coll("revisions"), &own))
	s.OK(d.EnsureIndexes(s.Context()))
	return d
}

var by = versioning.Change{Author: "Bilbo"}

// insured is policy 1 with three revisions and policy 2 with one.
func insured(s *Scene, opts *versioning.Options) *policies {
	d := newPolicies(s, opts)
	s.OK(testkit.ErrorOf(d.Insert(s.Context(), policy{1, []string{"house"}}, by)))
	for _, item := range []string{"sword", "ring"} {
		s.OK(testkit.ErrorOf(d.Edit(s.Context(), 1, with(item), by)))
	}
	s.OK(testkit.ErrorOf(d.Insert(s.Context(), policy{2, []string{"boat"}}, by)))
	return d
}

func with(item string) func(p *policy) error {
	return func(p *policy) error { p.Items = append(p.Items, item); return nil }
}

func revision(opts *versioning.Options, look bool, do func(s *Scene, d *policies) func(ctx context.Context) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		d := insured(s, opts)
		return Call{One: do(s, d), Look: look, Repeated: repeated, Check: []mongopatterns.Checker{d}}
	}
}

func save(s *Scene, d *policies) func(ctx context.Context) error {
	r := testkit.Must(d.Get(s.Context(), 1))
	r.Document.Items = []string{"house"}
	return func(ctx context.Context) error { return testkit.ErrorOf(d.Save(ctx, r, by)) }
}

func changePolicy(_ *Scene, d *policies) func(ctx context.Context) error {
	return func(ctx context.Context) error { return testkit.ErrorOf(d.Edit(ctx, 1, with("mail"), by)) }
}

func deletePolicy(_ *Scene, d *policies) func(ctx context.Context) error {
	return func(ctx context.Context) error { return d.Delete(ctx, 1, 3, by) }
}

var versioningRows = []Row{
	{"versioning.History.Insert", revision(nil, false, func(_ *Scene, d *policies) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(d.Insert(ctx, policy{3, nil}, by)) }
	}, mongopatterns.ErrExists)},
	{"versioning.History.Insert/deleted", func(s *Scene) Call {
		d := insured(s, nil)
		s.OK(d.Delete(s.Context(), 1, 3, by))
		return Call{One: func(ctx context.Context) error { return testkit.ErrorOf(d.Insert(ctx, policy{1, nil}, by)) }, Repeated: []error{mongopatterns.ErrExists}, Check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Save", revision(nil, false, save, mongopatterns.ErrConflict)},
	{"versioning.History.Save/deltas", revision(&versioning.Options{SnapshotEvery: 5}, false, save, mongopatterns.ErrConflict)},
	{"versioning.History.Edit", revision(nil, true, changePolicy)},
	{"versioning.History.Delete", revision(nil, false, deletePolicy, mongopatterns.ErrNotFound, mongopatterns.ErrConflict)},
	{"versioning.History.Restore", revision(nil, false, func(_ *Scene, d *policies) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(d.Restore(ctx, 1, 1, by)) }
	})},
	{"versioning.History.Undo", revision(nil, false, func(_ *Scene, d *policies) func(ctx context.Context) error {
		return func(ctx context.Context) error { return testkit.ErrorOf(d.Undo(ctx, 1, 2, by)) }
	}, mongopatterns.ErrConflict)},
	{"versioning.History.SaveMany", func(s *Scene) Call {
		d := insured(s, nil)
		var read []*versioning.Revision[policy]
		for _, id := range []int{1, 2} {
			r := testkit.Must(d.Get(s.Context(), id))
			r.Document.Items = []string{"nothing"}
			read = append(read, &r)
		}
		return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) {
			return d.SaveMany(ctx, sequence(read), by, small)
		}, Counts: "policies", Repeated: []error{mongopatterns.ErrConflict}, Check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Adopt", func(s *Scene) Call {
		d := newPolicies(s, nil)
		for id := range 3 {
			s.Insert("policies", testkit.D("_id", id, "items", bson.A{"house"}))
		}
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return d.Adopt(ctx, nil, small) }, Counts: "policies", Check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.AdoptRevisions", func(s *Scene) Call {
		d := newPolicies(s, nil)
		s.Insert("policies", testkit.D("_id", 1, "items", bson.A{"house", "ring"}, "revision", int64(3), "change", testkit.D("at", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))))
		for n := range 2 {
			s.Insert("revisions", testkit.D("_id", n, "policy", 1, "number", n+1, "items", bson.A{"house"}))
		}
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return d.AdoptRevisions(ctx, func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
				whole, err := bson.Marshal(testkit.D("_id", row.Lookup("policy"), "items", row.Lookup("items")))
				return &versioning.Revision[bson.Raw]{Number: row.Lookup("number").AsInt64(), Document: whole,
					Change: versioning.Change{At: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)}}, err
			}, small)
		}, Counts: "revisions", Check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Prune", func(s *Scene) Call {
		d := insured(s, nil)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) {
			return d.Prune(ctx, versioning.Retention{Keep: 1}, small)
		}, Counts: "revisions", Check: []mongopatterns.Checker{d}}
	}},
	{"versioning.History.Repair", func(s *Scene) Call {
		d := insured(s, nil)
		s.OK(testkit.ErrorOf(s.Coll("policies").DeleteMany(s.Context(), testkit.D("_id", 1))))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return d.Repair(ctx, small) }, Counts: "revisions", Check: []mongopatterns.Checker{d}}
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

func versioningReads() []Row {
	return reads("versioning.History", "", func(s *Scene) *policies { return insured(s, nil) }, map[string]func(context.Context, *policies) error{
		"Get": func(ctx context.Context, d *policies) error { return testkit.ErrorOf(d.Get(ctx, 1)) },
		"At":  func(ctx context.Context, d *policies) error { return testkit.ErrorOf(d.At(ctx, 1, 2)) },
		"AsOf": func(ctx context.Context, d *policies) error {
			return testkit.ErrorOf(d.AsOf(ctx, 1, time.Now().Add(time.Hour)))
		},
		"Diff":            func(ctx context.Context, d *policies) error { return testkit.ErrorOf(d.Diff(ctx, 1, 1, 3)) },
		"Revisions":       func(ctx context.Context, d *policies) error { return testkit.Drain(d.Revisions(ctx, 1)) },
		"RevisionsFrom":   func(ctx context.Context, d *policies) error { return testkit.Drain(d.RevisionsFrom(ctx, 1, 2)) },
		"RevisionsBefore": func(ctx context.Context, d *policies) error { return testkit.Drain(d.RevisionsBefore(ctx, 1, 2)) },
		"Check":           func(ctx context.Context, d *policies) error { return checked(d)(ctx) },
	})
}

func versioningWritings(s *Scene) []Writing {
	ctx := s.Context()
	type numbered struct {
		ID      int `bson:"_id"`
		Numbers []int
	}
	h := testkit.Must(versioning.New[int, numbered](s.Coll("policies"), s.Coll("revisions"), nil))
	for e := range Entities {
		s.OK(testkit.ErrorOf(h.Insert(ctx, numbered{ID: e}, by)))
	}
	return []Writing{{"versioning.Edit", sharders(h), func(ctx context.Context, e, n int) error {
		return testkit.ErrorOf(h.Edit(ctx, e, func(d *numbered) error { d.Numbers = append(d.Numbers, n); return nil }, by))
	}, func(t *testing.T, e int) []int {
		d, err := h.Get(ctx, e)
		if err != nil || d.Number != int64(len(d.Document.Numbers)+1) {
			t.Errorf("revision %d, %v", d.Number, err)
		}
		return d.Document.Numbers
	}}}
}

func versioningSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	type policy struct {
		ID    int `bson:"_id"`
		Steps []int
	}
	d := testkit.Must(versioning.New[int, policy](db.Collection("policies"), db.Collection("policy_revisions"), &versioning.Options{SnapshotEvery: 5}))
	testkit.OK(t, d.EnsureIndexes(t.Context()))
	testkit.OK(t, done(testkit.ErrorOf(d.Insert(t.Context(), policy{ID: 1}, versioning.Change{}))))
	// An append is not repeatable by itself: the document tells whether it was made.
	add := func(p *policy, n int) {
		if !slices.Contains(p.Steps, n) {
			p.Steps = append(slices.Clone(p.Steps), n)
		}
	}
	step := func(ctx context.Context, n int) error {
		if n%2 == 0 {
			return testkit.ErrorOf(d.Edit(ctx, 1, func(p *policy) error { add(p, n); return nil }, versioning.Change{}))
		}
		r, err := d.Get(ctx, 1)
		if err != nil {
			return err
		}
		add(&r.Document, n)
		return testkit.ErrorOf(d.Save(ctx, r, versioning.Change{}))
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, d)
		number := n + 1
		for r, err := range d.Revisions(t.Context(), 1) {
			if err != nil || r.Number != int64(number) || !slices.Equal(r.Document.Steps, upTo(number-1)) {
				t.Fatalf("revision %d is %+v: %v", number, r, err)
			}
			number--
		}
		if number != 0 {
			t.Errorf("no revisions up to %d of %d", number, n+1)
		}
	}
}

var versioningRole = &Role{Open: versioningPlayer, Writes: []string{"revision_%", "change_%", "edited_%"}, Rules: []Rule{
	{With: []string{"paging"}, Result: Works},
	{With: []string{"schemaversion"}, Result: WorksIf,
		Why: "fields that Update sets are in Options.Ignored of versioning, and Migrate runs after Undo and Restore", Fact: "oracle"},
	{With: []string{"polymorphic"}, Result: WorksIf,
		Why: "documents are changed by operators, and the kind is not in Options.Ignored: Restore brings it back with its fields"},
	{With: []string{"bucket", "prealloc", "series", "slots"}, Result: WorksIf,
		Why: "all fields of the pattern are in Options.Ignored of versioning: Undo and Restore are for your own fields alone", Fact: "oracle"},
	{Result: WorksIf,
		Why: "the fields that the other pattern writes are in Options.Ignored of versioning: Undo and Restore take them back otherwise"},
}}

func versioningPlayer(s *Side) (*Player, error) {
	rows := s.coll("revisions")
	field := s.name("edited")
	opts := &versioning.Options{RevisionField: s.name("revision"), ChangeField: s.name("change"), DocumentIDField: "of"}
	if s.Met {
		opts.Ignored = s.Foreign
	}
	c, err := versioning.New[any, bson.M](s.Main, rows, opts)
	return opened(&Player{
		Parts: []Part{{rows, "of"}},
		Reads: true,
		Adopt: func(ctx context.Context, _ []any) error { return testkit.ErrorOf(c.Adopt(ctx, nil, nil)) },
		Step: func(ctx context.Context, ids []any, n int) error {
			return testkit.ErrorOf(c.Edit(ctx, ids[n%Shared], func(m *bson.M) error {
				(*m)[field] = n
				return s.Between(ctx)
			}, versioning.Change{}))
		},
		// What the other pattern wrote after the newest revision counts as a change of it, unless it is ignored.
		Back: func(ctx context.Context, ids []any) error {
			return each(ids, func(_ int, id any) error {
				newest, err := c.Get(ctx, id)
				if err == nil {
					_, err = c.Undo(ctx, id, newest.Number, versioning.Change{})
				}
				if err == nil {
					_, err = c.Restore(ctx, id, 1, versioning.Change{})
				}
				return err
			})
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error {
				var have []any
				for r, err := range c.Revisions(ctx, id) {
					if err != nil {
						return err
					}
					if v, ok := r.Document[field]; ok {
						have = append(have, v)
					}
				}
				want := roundsOf(i)
				slices.Reverse(want)
				// Undo left the change before the last, and Restore none.
				return same(have, append([]int{want[1]}, want...))
			})
		},
	}, c, err)
}
