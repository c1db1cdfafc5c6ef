package versioning

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt writes number and change into the current documents that have no number, and
// are revision 1 without it as well: for those who query or index these fields, and
// to record authors and times that are known from elsewhere. known returns what is
// known of how a document, as stored, came about, a zero time stands for ever; nil:
// nothing is. A document with a history, that something else has inserted anew, goes
// on where that ends. work.Filter selects current documents.
//
// Cost: for each 100 documents 1 round trip to read, 1 to look for a history and 1 to
// write them, by _id.
func (d *Documents[ID, T]) Adopt(ctx context.Context, known func(stored bson.Raw) Change, work *mongopatterns.Work) (_ mongopatterns.Result, err error) {
	defer fault.In(&err, "versioning: adopt")
	projection := bson.D{expr.Element(d.core.opts.ChangeField, 1)} // parse refuses one without a number
	if known == nil {
		known = func(bson.Raw) Change { return Change{} }
	} else {
		projection = nil
	}
	scan := maintain.Scan{Filter: bson.D{expr.Element(d.core.opts.RevisionField, nil)}, Projection: projection, BatchSize: batchSize}
	return maintain.Run(ctx, d.core.current, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		return d.core.adopt(ctx, known, batch, w.DryRun, result)
	})
}

func (d *store) adopt(ctx context.Context, known func(stored bson.Raw) Change, batch []bson.Raw, dry bool, result *mongopatterns.Result) error {
	ids := bson.A{}
	for _, raw := range batch {
		ids = append(ids, raw.Lookup("_id"))
	}
	ends, err := d.ends(ctx, ids)
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
			result.Fail(d.current.Name(), raw.Lookup("_id"), err)
			continue
		}
		last := ends[value.Key(s.id)]
		if s.change.at.Before(last.at) {
			s.change.at = last.at
		}
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(append(byID(s.id), expr.Element(d.opts.RevisionField, nil))).
			SetUpdate(expr.Op("$set", bson.D{
				expr.Element(d.opts.RevisionField, last.number+1), expr.Element(d.opts.ChangeField, s.change.value()),
			})))
	}
	return d.write(ctx, d.current, models, dry, result)
}

// write sends updates that skip what has changed meanwhile.
func (d *store) write(ctx context.Context, coll *mongo.Collection, models []mongo.WriteModel, dry bool, result *mongopatterns.Result) error {
	n := int64(len(models))
	if n > 0 && !dry {
		done, err := coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if err != nil {
			return err
		}
		n = done.MatchedCount
	}
	result.Done += n
	result.Skipped += int64(len(models)) - n
	return nil
}

// An end is the last revision in a history.
type end struct {
	number int64
	at     time.Time
}

// ends finds where the histories of documents end, keyed by value.Key.
func (d *store) ends(ctx context.Context, ids bson.A) (map[string]end, error) {
	out := map[string]end{}
	if d.revisions == nil {
		return out, nil
	}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.revisionsPrimary.Aggregate(ctx, bson.A{
			expr.Op("$match", d.numbered(expr.Op("$in", ids), 1)),
			expr.Op("$group", bson.D{
				expr.Element("_id", expr.Field(d.opts.DocumentIDField)),
				expr.Element("n", expr.Op("$max", expr.Field(d.opts.RevisionField))),
				expr.Element("at", expr.Op("$max", expr.Field(d.at()))),
			}),
		}, options.Aggregate().SetBatchSize(int32(min(len(ids)+1, 1<<20))))
	}) {
		if err != nil {
			return nil, err
		}
		number, _ := wholeNumber(doc.Lookup("n"))
		e := end{number: number}
		if ms, ok := doc.Lookup("at").DateTimeOK(); ok {
			e.at = time.UnixMilli(ms).UTC()
		}
		out[value.Key(doc.Lookup("_id"))] = e
	}
	return out, nil
}

// A Past is a revision as something else has stored it.
type Past struct {
	ID      bson.RawValue // of the document
	Number  int64
	Change  Change // a zero time stands for ever
	Deleted bool
	// Document is the document as it was, nil if Deleted. Its _id becomes ID, and
	// the fields of number and change are left out.
	Document bson.Raw
}

// AdoptHistory makes revisions of what something else has stored in the collection of
// revisions, in place. read says which revision a row is, or nil if it is none, such
// as a copy of the current document; such rows are Skipped. Rows that are revisions
// already, with a time, are not touched. Adopt the current documents too, if they
// have no numbers. work.Filter selects rows.
//
// Cost: reads all rows; for each 100 documents 1 round trip to write them, by _id.
func (d *Documents[ID, T]) AdoptHistory(ctx context.Context, read func(row bson.Raw) (*Past, error), work *mongopatterns.Work) (_ mongopatterns.Result, err error) {
	defer fault.In(&err, "versioning: adopt history")
	if d.core.revisions == nil {
		return mongopatterns.Result{}, fault.Invalid("Options.NoHistory: there is none")
	}
	if read == nil {
		return mongopatterns.Result{}, fault.Invalid("read: nil")
	}
	scan := maintain.Scan{BatchSize: batchSize}
	return maintain.Run(ctx, d.core.revisions, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var models []mongo.WriteModel
		for _, raw := range batch {
			if d.core.adopted(raw) {
				continue
			}
			past, err := read(raw)
			if err == nil && past == nil {
				result.Skipped++
				continue
			}
			var made bson.D
			if err == nil {
				made, err = d.core.pastRow(raw.Lookup("_id"), past)
			}
			if err != nil {
				result.Fail(d.core.revisions.Name(), raw.Lookup("_id"), err)
				continue
			}
			models = append(models, mongo.NewReplaceOneModel().SetFilter(byID(raw.Lookup("_id"))).SetReplacement(made))
		}
		return d.core.write(ctx, d.core.revisions, models, w.DryRun, result)
	})
}

// adopted reports a row that is a revision.
func (d *store) adopted(raw bson.Raw) bool {
	r, err := d.parseRow(raw)
	_, timed := value.Lookup(raw, d.at()).DateTimeOK()
	return err == nil && timed && (r.all != nil || r.delta != nil || r.deleted)
}

func (d *store) pastRow(id bson.RawValue, past *Past) (bson.D, error) {
	if err := value.CheckID(past.ID); err != nil {
		return nil, fault.Invalid("Past.ID: %w", err)
	}
	if past.Number < 1 {
		return nil, fault.Invalid("Past.Number: %d, want 1 or more", past.Number)
	}
	change, err := d.stamp(past.Change)
	if err != nil {
		return nil, err
	}
	s := &state{id: past.ID, number: past.Number, change: change, deleted: past.Deleted}
	if !past.Deleted {
		if err := past.Document.Validate(); err != nil {
			return nil, fault.Invalid("Past.Document: %w", err)
		}
		s.all = append([]field{{"_id", past.ID}}, without(open(past.Document), "_id")...)
	}
	row := d.row(s, nil)
	row[0].Value = id
	return row, nil
}
