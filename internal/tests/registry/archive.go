package registry

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func init() {
	add(Pattern{Package: "archive", Writes: archiveRows, Reads: archiveReads(), Steps: archiveSteps, Role: archiveRole})
}

func newInvoices(s *Scene) *archive.Archive {
	a := testkit.Must(archive.New(s.Coll("invoices"), s.Coll("invoices_old"), &archive.Options{Scope: s.Scope, TimeField: "paid"}))
	s.OK(a.EnsureIndexes(s.Context()))
	return a
}

// withPayments are six invoices with two payments each.
func withPayments(s *Scene) *archive.Archive {
	paid(s)
	a := testkit.Must(archive.New(s.Coll("invoices"), s.Coll("invoices_old"), &archive.Options{Scope: s.Scope, TimeField: "paid",
		Companions: []archive.Companion{{Live: s.Coll("payments"), Archived: s.Coll("payments_old"), Field: "invoice"}}}))
	s.OK(a.EnsureIndexes(s.Context()))
	s.InsertEach("payments", 12, func(id int) bson.D { return testkit.D("_id", id, "invoice", id/2) })
	return a
}

// withOld are two archived invoices and four live ones.
func withOld(s *Scene) *archive.Archive {
	a := withPayments(s)
	s.OK(testkit.ErrorOf(a.Move(s.Context(), a.BeforeFilter(at(120)), nil)))
	return a
}

// apart is withOld, with a live payment of an archived invoice.
func apart(s *Scene) *archive.Archive {
	a := withOld(s)
	s.Insert("payments", testkit.D("_id", 100, "invoice", 1))
	return a
}

// paid are six invoices, paid at nine, ten and so on.
func paid(s *Scene) *archive.Archive {
	a := newInvoices(s)
	s.InsertEach("invoices", 6, func(id int) bson.D { return testkit.D("_id", id, "paid", at(60*id), "total", id) })
	return a
}

// copied are invoices; one of them is in both collections.
func copied(s *Scene) *archive.Archive {
	a := paid(s)
	s.Insert("invoices_old", testkit.D("_id", 1, "paid", at(60), "total", 1, "archived_at", nine))
	return a
}

// unmarked is copied, with a document in the archive that is not marked.
func unmarked(s *Scene) *archive.Archive {
	a := copied(s)
	s.Insert("invoices_old", testkit.D("_id", 7))
	return a
}

func moving(start func(s *Scene) *archive.Archive, counts string, do func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error)) func(s *Scene) Call {
	return func(s *Scene) Call {
		a := start(s)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, a) }, Counts: counts,
			Masks: []string{"archived_at"}, Check: []mongopatterns.Checker{a}}
	}
}

var archiveRows = []Row{
	{"archive.Archive.Move", moving(paid, "invoices", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Move(ctx, a.BeforeFilter(at(180)), small)
	})},
	{"archive.Archive.Move/archived already", moving(copied, "invoices", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Move(ctx, a.BeforeFilter(at(180)), &mongopatterns.Work{BatchSize: 3})
	})},
	{"archive.Archive.Move/companions", moving(withPayments, "invoices", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Move(ctx, a.BeforeFilter(at(120)), small)
	})},
	{"archive.Archive.Move/companions archived already", moving(func(s *Scene) *archive.Archive {
		a := withPayments(s)
		s.Insert("payments_old", testkit.D("_id", 1, "invoice", 0))
		return a
	}, "invoices", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Move(ctx, a.BeforeFilter(at(60)), small)
	})},
	{"archive.Archive.Restore", func(s *Scene) Call {
		c := moving(paid, "invoices_old", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
			return a.Restore(ctx, testkit.D("_id", testkit.D("$lt", 2)), small)
		})(s)
		a := c.Check[0].(*archive.Archive)
		s.OK(testkit.ErrorOf(a.Move(s.Context(), bson.D{}, nil)))
		return c
	}},
	{"archive.Archive.Restore/companions", moving(withOld, "invoices_old", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Restore(ctx, testkit.D("_id", 0), small)
	})},
	{"archive.Archive.Repair", moving(unmarked, "", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Repair(ctx, small)
	})},
	{"archive.Archive.Repair/companions", moving(apart, "", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Repair(ctx, small)
	})},
}

func archiveReads() []Row {
	return reads("archive.Archive", "", paid, map[string]func(context.Context, *archive.Archive) error{
		"Check": func(ctx context.Context, a *archive.Archive) error { return checked(a)(ctx) },
	})
}

func archiveSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	live, archived := db.Collection("invoices"), db.Collection("invoices_archive")
	payments, oldPayments := db.Collection("payments"), db.Collection("payments_archive")
	a := testkit.Must(archive.New(live, archived, &archive.Options{Companions: []archive.Companion{{Live: payments, Archived: oldPayments, Field: "invoice"}}}))
	testkit.OK(t, a.EnsureIndexes(t.Context()))
	// The invoice before this one moves with its payment; every third comes back.
	step := func(ctx context.Context, n int) error {
		if err := done(testkit.ErrorOf(live.InsertOne(ctx, bson.M{"_id": n, "total": n}))); err != nil {
			return err
		}
		if err := done(testkit.ErrorOf(payments.InsertOne(ctx, bson.M{"_id": n, "invoice": n}))); err != nil {
			return err
		}
		err := testkit.ErrorOf(a.Move(ctx, bson.M{"_id": n - 1}, nil))
		if err == nil && n%3 == 0 {
			err = testkit.ErrorOf(a.Restore(ctx, bson.M{"_id": n - 1}, nil))
		}
		return err
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, a)
		var here, there []int
		for i := range n {
			if i%3 == 2 || i == n-1 {
				here = append(here, i)
			} else {
				there = append(there, i)
			}
		}
		if l, o := ids(t, live, bson.M{}), ids(t, archived, bson.M{}); !slices.Equal(l, here) || !slices.Equal(o, there) {
			t.Errorf("%v live and %v archived of %d", l, o, n)
		}
		if l, o := ids(t, payments, bson.M{}), ids(t, oldPayments, bson.M{}); !slices.Equal(l, here) || !slices.Equal(o, there) {
			t.Errorf("payments: %v live and %v archived of %d", l, o, n)
		}
	}
}

var archiveRole = &Role{Open: archivePlayer, Last: true, Rules: []Rule{
	{With: []string{"tree"}, Result: WorksIf, Why: "only documents without children are moved", Fact: "orphan"},
	{With: []string{"outlier", "relation", "split", "subset", "versioning"}, Result: WorksIf,
		Why: "the other collection of the pattern is one of the Companions", Fact: "while a document is archived: "},
}}

func archivePlayer(s *Side) (*Player, error) {
	old := s.coll("archive")
	opts := &archive.Options{MarkField: s.name("archived")}
	if s.Met && s.Other != nil {
		for _, p := range s.Other.Parts {
			opts.Companions = append(opts.Companions, archive.Companion{Live: p.Coll, Archived: s.DB.Collection(p.Coll.Name() + "_old_" + s.Tag), Field: p.Field})
		}
	}
	a, err := archive.New(s.Main, old, opts)
	return opened(&Player{
		// The other pattern's Check must find nothing while a document is away.
		Step: func(ctx context.Context, ids []any, n int) error {
			if s.Met && s.Other != nil && s.Other.Leaf {
				n = Shared - 1
			}
			id := testkit.D("_id", ids[n%Shared])
			if result, err := a.Move(ctx, id, nil); err != nil || result.Done != 1 {
				return fmt.Errorf("archive.Move: %+v: %w", result, err)
			}
			if s.Other != nil {
				if err := s.Other.Check(ctx, s.Met); err != nil {
					return fmt.Errorf("while a document is archived: %w", err)
				}
			}
			result, err := a.Restore(ctx, id, nil)
			if err == nil && result.Done != 1 {
				err = fmt.Errorf("archive.Restore: %+v", result)
			}
			return err
		},
		Oracle: func(ctx context.Context, ids []any) error {
			n, err := old.CountDocuments(ctx, bson.D{})
			if err != nil {
				return err
			}
			return same(n, 0)
		},
	}, a, err)
}
