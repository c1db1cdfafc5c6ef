package archive

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems. Repair repairs Duplicate and Unmarked.
const (
	// Marked: a live document has the MarkField, so Move does not move it. Remove the field, or choose
	// another MarkField.
	Marked mongopatterns.ProblemKind = "marked"
	// Unmarked: an archived document has no MarkField, as when another program stored it. Repair sets it to
	// the present time.
	Unmarked mongopatterns.ProblemKind = "unmarked"
)

// Check yields the problems of the live documents that work selects. Without a work.Filter it also yields the
// Unmarked documents of the archive and the companions that are Apart. A document that seems to be in both is read
// again in one snapshot, so a move at the same time is not reported.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Duplicate: a document is live and archived, with the same content. Repair deletes the live one.
//   - Different: an _id is live and archived, with different content. Field is the first field that differs,
//     and Have its live value. Delete one of the two documents.
//   - Malformed: a companion whose Field is in an array, or is one. What it belongs to cannot move, so correct it.
//
// Cost: 1 round trip, 2 for each batch (by default 1000) of live documents, by _id, and a scan of the archive for
// Unmarked.
//   - The archive is in another database: 1 more.
//   - For every 100 documents that exist in the archive too: 3.
//   - Each side of a companion, by the keys of the index on Field: 1, 1 for each 1000 documents that have some, and 5
//     for a batch in which some are Apart. If Field holds an array in a batch: a scan of the side more for that batch.
func (a *Archive) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "archive.Check")
	all := maintain.Check(ctx, a.live, work, a.scan(), a.problems)
	if work == nil || work.Filter == nil {
		all = maintain.Chain(all, maintain.Check(ctx, a.archived, work, a.unmarked(), func(_ context.Context, batch []bson.Raw) (out []mongopatterns.Problem, _ error) {
			for _, doc := range batch {
				out = append(out, mongopatterns.Problem{Pattern: "archive", Kind: Unmarked, Collection: a.archived.Name(),
					ID: doc.Lookup("_id"), Field: a.opts.MarkField})
			}
			return out, nil
		}))
		for _, s := range a.strays() {
			all = maintain.Chain(all, maintain.Check(ctx, s.from, work, s.scan(), s.problems))
		}
	}
	return fault.Seq("archive.Check", collation.Seq(ctx, all, a.everything()...))
}

// everything are all collections.
func (a *Archive) everything() []*scoped.Collection {
	way := a.away()
	return slices.Concat(way.sources(), way.targets())
}

// scan reads the live documents: their marks.
func (a *Archive) scan() maintain.Scan {
	return maintain.Scan{Projection: expr.D("_id", 1, a.opts.MarkField, 1)}
}

// unmarked reads the archived documents without a mark.
func (a *Archive) unmarked() maintain.Scan {
	return maintain.Scan{Filter: a.LiveFilter(), Projection: expr.D("_id", 1)}
}

// compare calls with for the documents of a batch that exist on both sides, in parts of a size for whole
// documents, and returns the others that are marked.
func (a *Archive) compare(ctx context.Context, batch []bson.Raw, with func(part []bson.Raw) error) (marked []bson.Raw, err error) {
	there, err := transfer.ByID(ctx, cursor.Primary(a.archived), batch, expr.D("_id", 1))
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(there, transfer.WholeBatch) {
		if err := with(part); err != nil {
			return nil, err
		}
	}
	both := map[string]bool{}
	for _, doc := range there {
		both[value.Key(doc.Lookup("_id"))] = true
	}
	for _, doc := range batch {
		if doc.Lookup(a.opts.MarkField).Type != 0 && !both[value.Key(doc.Lookup("_id"))] {
			marked = append(marked, doc)
		}
	}
	return marked, nil
}

// pairs reads the documents that exist on both sides, in one snapshot.
func (a *Archive) pairs(ctx context.Context, part []bson.Raw) (pairs []pair, err error) {
	err = txn.Run(ctx, a.live, func(ctx context.Context) error {
		pairs, _, err = a.away().pairs(ctx, part)
		return err
	})
	return pairs, err
}

func (a *Archive) problems(ctx context.Context, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	problem := func(kind mongopatterns.ProblemKind, doc bson.Raw) mongopatterns.Problem {
		return mongopatterns.Problem{Pattern: "archive", Kind: kind, Collection: a.live.Name(), ID: doc.Lookup("_id")}
	}
	marked, err := a.compare(ctx, batch, func(part []bson.Raw) error {
		pairs, err := a.pairs(ctx, part)
		for _, p := range pairs {
			if a.away().same(p) {
				out = append(out, problem(mongopatterns.Duplicate, p.here))
				continue
			}
			found := problem(mongopatterns.Different, p.here)
			found.Field, found.Have, found.Detail = a.difference(p)
			out = append(out, found)
		}
		return err
	})
	for _, doc := range marked {
		found := problem(Marked, doc)
		found.Field, found.Have = a.opts.MarkField, doc.Lookup(a.opts.MarkField)
		out = append(out, found)
	}
	return out, err
}

// difference returns the first field in which two documents differ, its live value, and the archived one in
// words.
func (a *Archive) difference(p pair) (field string, have bson.RawValue, detail string) {
	way := a.away()
	live, _ := way.plain(p.here).Elements()
	archived, _ := way.plain(p.there).Elements()
	for i := range max(len(live), len(archived)) {
		switch {
		case i >= len(live):
			field = archived[i].Key()
		case i >= len(archived) || !bytes.Equal(live[i], archived[i]):
			field = live[i].Key()
		default:
			continue
		}
		break
	}
	return field, p.here.Lookup(field), "archived: " + value.Text(p.there.Lookup(field))
}

// Repair deletes the live documents that are archived with the same content, marks the Unmarked ones in the archive,
// and moves the companions that are Apart, each batch in a transaction. Done counts each of these documents. work.Filter
// selects live documents; with it, Repair only deletes such live documents. Remaining counts the Different, the Marked
// and the Malformed ones, and the companions that have other content on the other side.
//
// Cost: that of Check, where what is in both costs 5 round trips for every 100.
//   - Unmarked documents: 1 for each batch.
//   - Documents whose companions are Apart: 2 for each batch, and 8 for each batch of these companions.
func (a *Archive) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "archive.Repair")
	defer fault.In(&err, "archive.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	w, err := maintain.Completed(work, 0)
	if err != nil {
		return result, err
	}
	if err := collation.Refuse(ctx, a.everything()...); err != nil {
		return result, err
	}
	result, err = maintain.Run(ctx, a.live, work, a.scan(), a.finish)
	if err != nil || w.Filter != nil {
		return result, err
	}
	progress := w.Progress
	then := func(coll *scoped.Collection, scan maintain.Scan, step maintain.Step) error {
		first := result
		w.Progress = func(more mongopatterns.Result) {
			all := first
			maintain.Add(&all, more)
			progress(all)
		}
		more, err := maintain.Run(ctx, coll, &w, scan, step)
		maintain.Add(&result, more)
		return err
	}
	if err := then(a.archived, a.unmarked(), a.marks); err != nil {
		return result, err
	}
	for _, s := range a.strays() {
		if err := then(s.from, s.scan(), s.finish); err != nil {
			return result, err
		}
	}
	return result, nil
}

// marks marks archived documents.
func (a *Archive) marks(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
	now := bson.NewDateTimeFromTime(time.Now())
	models := make([]mongo.WriteModel, len(batch))
	for i, doc := range batch {
		models[i] = mongo.NewUpdateOneModel().SetFilter(expr.And(expr.D("_id", value.Equal(doc.Lookup("_id"))), a.LiveFilter())).
			SetUpdate(expr.Op("$set", expr.D(a.opts.MarkField, now)))
	}
	return maintain.Rewrite(ctx, a.archived, models, w, result)
}

// finish deletes the live documents of a batch that are archived with the same content.
func (a *Archive) finish(ctx context.Context, batch []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
	way := a.away()
	way.room = bound(ctx, work)
	marked, err := a.compare(ctx, batch, func(part []bson.Raw) error {
		if work.DryRun {
			pairs, err := a.pairs(ctx, part)
			for _, p := range pairs {
				if way.same(p) {
					result.Done++
				} else {
					result.Remaining++
				}
			}
			return err
		}
		same, taken, _, err := way.meet(ctx, part)
		if err == nil {
			result.Done += same
			result.Remaining += int64(len(taken))
		}
		return err
	})
	result.Remaining += int64(len(marked))
	return err
}
