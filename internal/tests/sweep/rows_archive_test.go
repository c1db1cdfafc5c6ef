package sweep

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func newInvoices(s *scene) *archive.Archive {
	a := testkit.Must(archive.New(s.coll("invoices"), s.coll("invoices_old"), &archive.Options{TimeField: "paid"}))
	s.ok(a.EnsureIndexes(s.Context()))
	return a
}

// paid are six invoices, paid at nine, ten and so on.
func paid(s *scene) *archive.Archive {
	a := newInvoices(s)
	for id := range 6 {
		s.insert("invoices", doc("_id", id, "paid", at(60*id), "total", id))
	}
	return a
}

// copied are invoices; one of them is in both collections.
func copied(s *scene) *archive.Archive {
	a := paid(s)
	s.insert("invoices_old", doc("_id", 1, "paid", at(60), "total", 1, "archived_at", nine))
	return a
}

// unmarked is copied, with a document in the archive that is not marked.
func unmarked(s *scene) *archive.Archive {
	a := copied(s)
	s.insert("invoices_old", doc("_id", 7))
	return a
}

func moving(start func(s *scene) *archive.Archive, counts string, do func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error)) func(s *scene) call {
	return func(s *scene) call {
		a := start(s)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return do(ctx, a) }, counts: counts,
			masks: []string{"archived_at"}, check: []mongopatterns.Checker{a}}
	}
}

var archiveRows = []row{
	{"archive.Archive.Move", moving(paid, "invoices", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Move(ctx, a.BeforeFilter(at(180)), small)
	})},
	{"archive.Archive.Move/archived already", moving(copied, "invoices", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Move(ctx, a.BeforeFilter(at(180)), &mongopatterns.Work{BatchSize: 3})
	})},
	{"archive.Archive.Restore", func(s *scene) call {
		c := moving(paid, "invoices_old", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
			return a.Restore(ctx, doc("_id", doc("$lt", 2)), small)
		})(s)
		a := c.check[0].(*archive.Archive)
		s.ok(void(a.Move(s.Context(), bson.D{}, nil)))
		return c
	}},
	{"archive.Archive.Repair", moving(unmarked, "", func(ctx context.Context, a *archive.Archive) (mongopatterns.Result, error) {
		return a.Repair(ctx, small)
	})},
}
