package versioning

import (
	"bytes"
	"context"
	"errors"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt writes number and change into the current documents that have no number. Without Adopt they count as revision 1
// too, so it is only needed for queries and indexes on these fields. known returns the change that made a document, which
// it gets as stored; a nil known means that nothing is known. A zero time says that the time is not known, and is earlier
// than all others. A document that has a history, because other code inserted it again, gets the next number of that
// history. work.Filter selects current documents.
//
// A number of another type, such as the double 3.0, stays as it is. A document in which RevisionField holds anything
// else, such as "3", 0, 2.5 or a decimal, is Failed and named; correct it. So is a document that could not be saved
// afterwards, because it would have more than 16,760,832 bytes with number and change, or has more than 179 levels of
// documents and arrays.
//
// Cost: 1 round trip, and for each 100 documents 1 to read, 1 to look for a history and 1 to write them,
// index _id.
func (d *History[ID, T]) Adopt(ctx context.Context, known func(stored bson.Raw) Change,
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "versioning.Adopt")
	defer fault.In(&err, "versioning.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := d.core.refuseCollation(ctx); err != nil {
		return result, err
	}
	if known == nil {
		known = func(bson.Raw) Change { return Change{} }
	}
	scan := maintain.Scan{Filter: d.core.unnumbered(), BatchSize: batchSize}
	return maintain.Run(ctx, d.core.current, work, scan, func(
		ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result,
	) error {
		return d.core.adopt(ctx, known, batch, w, result)
	})
}

// unnumbered selects the current documents that parse takes for unnumbered, or refuses for their number.
func (d *store) unnumbered() bson.D {
	number := expr.Field(d.opts.RevisionField)
	return expr.Op("$expr", expr.Op("$not", expr.Cond(expr.IsType(number, "int", "long", "double"), expr.Op("$and",
		expr.Op("$eq", expr.Op("$trunc", number), number),
		expr.Op("$gte", number, 1),
		expr.Op("$lt", number, int64(math.MaxInt64)),
	), false)))
}

func (d *store) adopt(ctx context.Context, known func(stored bson.Raw) Change, batch []bson.Raw,
	w mongopatterns.Work, result *mongopatterns.Result) error {
	ends, err := d.ends(ctx, idsOf(batch))
	if err != nil {
		return err
	}
	var models []mongo.WriteModel
	for _, raw := range batch {
		s, err := d.parse(raw)
		if err == nil {
			s.change, err = d.stamp(known(raw))
			err = fault.Of(s.id, err)
		}
		if err != nil {
			maintain.Fail(result, d.current.Name(), raw.Lookup("_id"), err)
			continue
		}
		last := ends[value.Key(s.id)]
		if s.change.at.Before(last.change.at) {
			s.change.at = last.change.at
		}
		s.number = last.number + 1
		if err := check(s.head, diff.Patch(s.all, d.own(s.head))); err != nil {
			maintain.Fail(result, d.current.Name(), s.id, err)
			continue
		}
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(append(expr.ByID(s.id), expr.Element(d.opts.RevisionField, nil))).
			SetUpdate(expr.Op("$set", expr.D(d.opts.RevisionField, s.number, d.opts.ChangeField, s.change.value()))))
	}
	return maintain.Rewrite(ctx, d.current, models, w, result)
}

func idsOf(batch []bson.Raw) bson.A {
	ids := bson.A{}
	for _, raw := range batch {
		ids = append(ids, raw.Lookup("_id"))
	}
	return ids
}

// ends returns number and time of the last revision of each history, keyed by value.Key.
func (d *store) ends(ctx context.Context, ids bson.A) (map[string]head, error) {
	out := map[string]head{}
	if d.revisions == nil {
		return out, nil
	}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.primary.revisions.Aggregate(ctx, bson.A{
			expr.Op("$match", d.numbered(expr.Op("$in", ids), 1)),
			expr.Op("$group", expr.D("_id", expr.Field(d.opts.DocumentIDField),
				"n", expr.Op("$max", expr.Field(d.opts.RevisionField)), atKey, expr.Op("$max", expr.Field(d.at())))),
		}, options.Aggregate().SetBatchSize(int32(min(len(ids)+1, 1<<20))))
	}) {
		if err != nil {
			return nil, err
		}
		number, _ := wholeNumber(doc.Lookup("n"))
		id := doc.Lookup("_id")
		out[value.Key(id)] = head{id, number, stampOf(value.Embedded(doc))}
	}
	return out, nil
}

// AdoptRevisions turns documents that other code has stored in the collection of revisions into
// revisions, in place. read returns the revision for a row, or nil for a row that is not a
// revision, which is counted as Skipped. The Document of a revision is the document as it was, or
// {_id: …} if Deleted is set. A zero time says that the time is not known, and is earlier than all
// others. Rows that are already revisions with a time are not touched. A row that changes meanwhile
// is Remaining, and the next run adopts it. A row whose number the history already has is Failed.
// If the current documents have no numbers, Adopt them afterwards, so that they continue where the
// history ends. work.Filter selects rows.
//
// Cost: 1 round trip, and reads all rows; for each 100 documents 1 round trip to write them, index _id.
//   - If one of them has changed meanwhile: 1 more.
//   - A row that has more than 8 MiB together with its replacement: 3 of its own.
func (d *History[ID, T]) AdoptRevisions(ctx context.Context, read func(row bson.Raw) (*Revision[bson.Raw], error),
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "versioning.AdoptRevisions")
	defer fault.In(&err, "versioning.AdoptRevisions")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if d.core.revisions == nil {
		return mongopatterns.Result{}, fault.Invalid("Options.NoHistory: there is no history to adopt")
	}
	if read == nil {
		return mongopatterns.Result{}, fault.Invalid("read is nil")
	}
	if err := d.core.refuseCollation(ctx); err != nil {
		return result, err
	}
	coll := d.core.revisions
	return maintain.Run(ctx, coll, work, maintain.Scan{BatchSize: batchSize}, func(
		ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result,
	) error {
		var models []mongo.WriteModel
		var large [][2]bson.Raw
		var ids bson.A
		for _, raw := range batch {
			if d.core.adopted(raw) {
				continue
			}
			var row bson.Raw
			past, err := read(raw)
			if err == nil && past != nil {
				row, err = d.core.pastRow(past)
			}
			switch {
			case err != nil:
				maintain.Fail(result, coll.Name(), raw.Lookup("_id"), err)
			case past == nil:
				result.Skipped++
			case len(raw)+len(row) > maxStatement:
				large, ids = append(large, [2]bson.Raw{raw, row}), append(ids, raw.Lookup("_id"))
			default:
				models, ids = append(models, d.core.replaced(raw, row)), append(ids, raw.Lookup("_id"))
			}
		}
		skipped := result.Skipped
		if err := maintain.Rewrite(ctx, coll, models, w, result); err != nil {
			return err
		}
		for _, l := range large {
			if err := d.core.replaceLarge(ctx, l[0], l[1], w, result); err != nil {
				return err
			}
		}
		if result.Skipped == skipped {
			return nil
		}
		return d.core.left(ctx, ids, result)
	})
}

// maxStatement is what a row and its replacement may have together in one statement. The _id and the document's ID are in
// it once more.
const maxStatement = 8 << 20

// replaced replaces the row raw with row, unless it has changed since it was read.
func (d *store) replaced(raw, row bson.Raw) *mongo.ReplaceOneModel {
	unchanged := expr.Element("$expr", expr.Op("$eq", "$$ROOT", expr.Literal(raw)))
	return mongo.NewReplaceOneModel().SetFilter(append(d.itself(raw), unchanged)).SetReplacement(row)
}

// itself selects a row by its _id and the shard key.
func (d *store) itself(raw bson.Raw) bson.D {
	of := raw.Lookup(d.opts.DocumentIDField)
	if of.Type == 0 {
		of.Type = bson.TypeNull
	}
	return append(expr.ByID(raw.Lookup("_id")), d.rowsOf(of)...)
}

// replaceLarge does the same in a transaction, because one statement has no room for both.
func (d *store) replaceLarge(ctx context.Context, raw, row bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
	if w.DryRun {
		result.Done++
		return nil
	}
	var replaced int64
	err := d.within(ctx, func(ctx context.Context) error {
		replaced = 0
		now, err := d.revisions.FindOne(ctx, d.itself(raw)).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) || err == nil && !bytes.Equal(now, raw) {
			return nil
		}
		if err != nil {
			return err
		}
		replaced = 1
		_, err = fault.One(d.revisions.ReplaceOne(ctx, d.itself(raw), row))
		return err
	})
	if err != nil {
		return err
	}
	result.Done += replaced
	result.Skipped += 1 - replaced
	return nil
}

// left counts rows as Remaining, not Skipped, if they still exist and are not adopted.
func (d *store) left(ctx context.Context, ids bson.A, result *mongopatterns.Result) error {
	for raw, err := range cursor.Find(ctx, d.primary.revisions, bson.D{expr.Element("_id", expr.Op("$in", ids))}) {
		if err != nil {
			return err
		}
		if !d.adopted(raw) {
			result.Skipped--
			result.Remaining++
		}
	}
	return nil
}

func (d *store) adopted(raw bson.Raw) bool {
	r, err := d.parseRow(raw)
	_, timed := value.Lookup(raw, d.at()).DateTimeOK()
	return err == nil && timed && (r.document != nil || r.delta != nil || r.deleted)
}

func (d *store) pastRow(past *Revision[bson.Raw]) (bson.Raw, error) {
	all, err := diff.Parse(past.Document)
	if err != nil {
		return nil, fault.Invalid("Revision.Document: %w", err)
	}
	if past.Number < 1 {
		return nil, fault.Invalid("Revision.Number: it is %d and must be 1 or more", past.Number)
	}
	h := head{id: diff.Find(all, "_id"), number: past.Number}
	if err := value.CheckID(h.id); err != nil {
		return nil, fault.Invalid("Revision.Document: %w", err)
	}
	if h.change, err = d.stamp(past.Change); err != nil {
		return nil, err
	}
	if past.Deleted {
		return d.deletion(h), nil
	}
	document := append([]diff.Field{field("_id", h.id)}, diff.Without(all, append([]string{"_id"}, d.unkept...)...)...)
	if document, err = d.scoped(document); err != nil {
		return nil, fault.Invalid("Revision.Document: %w", err)
	}
	return d.encodeRow(h, documentKey, diff.Embedded(document)), nil
}
