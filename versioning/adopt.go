package versioning

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"

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
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt writes number and change into the current documents that have no number, and the time into those that have a
// number and no time. Without Adopt a document without a number counts as revision 1 too, so it is only needed for queries
// and indexes on these fields, and beside a history of other code. known returns the change that made a document, which
// it gets as stored; a nil known means that nothing is known. A zero time says that the time is not known, and is earlier
// than all others. A document that has a history gets the number after its last one, unless it has a number, and a time
// that is not before the last one. Fields of a stored change stay. work.Filter selects current documents.
//
// A number of another type, such as the double 3.0, stays as it is. A document in which RevisionField holds anything
// else, such as "3", 0, 2.5 or a decimal, is Failed and named; correct it. So is a document that could not be saved
// afterwards, because it would have more than 16,760,832 bytes with number and change, or has more than 179 levels of
// documents and arrays.
//
// Cost: 1 round trip, and for each 100 documents 1 to read, 1 to look for a history and 1 to write them,
// index _id.
//   - If one of them has changed meanwhile: 1 more.
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
	scan := maintain.Scan{Filter: d.core.unadopted(), BatchSize: batchSize}
	return maintain.Run(ctx, d.core.current, work, scan, func(
		ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result,
	) error {
		return d.core.adopt(ctx, known, batch, w, result)
	})
}

// unadopted selects the current documents that parse takes for unnumbered, or refuses for their number, and those without
// a time.
func (d *store) unadopted() bson.D {
	return expr.Op("$expr", expr.Op("$not", expr.Op("$and",
		isNumber(d.opts.RevisionField), expr.IsType(expr.Field(d.at()), "date"))))
}

func (d *store) adopt(ctx context.Context, known func(stored bson.Raw) Change, batch []bson.Raw,
	w mongopatterns.Work, result *mongopatterns.Result) error {
	ends, err := d.ends(ctx, idsOf(batch))
	if err != nil {
		return err
	}
	var models []mongo.WriteModel
	var ids bson.A
	for _, raw := range batch {
		s, err := d.parse(raw)
		var made stamp
		if err == nil {
			made, err = d.stamp(known(raw))
			err = fault.Of(s.id, err)
		}
		if err != nil {
			maintain.Fail(result, d.current.Name(), raw.Lookup("_id"), err)
			continue
		}
		next := adoptedAfter(s, made, ends[value.Key(s.id)])
		if err := check(next, diff.Patch(s.all, d.own(next))); err != nil {
			maintain.Fail(result, d.current.Name(), s.id, err)
			continue
		}
		set := expr.D(d.opts.ChangeField, next.change.value())
		if s.unnumbered { // a number that stays keeps its type
			set = append(set, expr.Element(d.opts.RevisionField, next.number))
		}
		models, ids = append(models, mongo.NewUpdateOneModel().SetFilter(d.untouched(s)).SetUpdate(expr.Op("$set", set))), append(ids, s.id)
	}
	skipped := result.Skipped
	if err := maintain.Rewrite(ctx, d.current, models, w, result); err != nil || result.Skipped == skipped {
		return err
	}
	return d.left(ctx, d.primary.current, ids, d.dated, result)
}

// dated reports whether a current document has number and time.
func (d *store) dated(raw bson.Raw) bool {
	s, err := d.parse(raw)
	_, timed := value.Lookup(raw, d.at()).DateTimeOK()
	return err == nil && !s.unnumbered && timed
}

// adoptedAfter returns the head that Adopt gives a current document, whose history ends with last.
func adoptedAfter(s *current, made stamp, last head) head {
	next := head{s.id, s.number, made}
	if len(s.change.rest) > 0 {
		next.change.rest = s.change.rest
	}
	if next.change.at.Before(last.change.at) {
		next.change.at = last.change.at
	}
	if s.unnumbered {
		next.number = last.number + 1
	}
	return next
}

// untouched selects a current document while number and change are as they were read.
func (d *store) untouched(s *current) bson.D {
	filter := expr.ByID(s.id)
	for _, name := range d.names {
		filter = append(filter, expr.Element(name, stored(s.all, name)))
	}
	return filter
}

// stored returns the value of a field for a filter, nil if the field is missing.
func stored(all []diff.Field, name string) any {
	v := diff.Find(all, name)
	if v.Type == 0 {
		return nil
	}
	return value.Equal(v)
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
// If the current documents have no numbers or times, Adopt them afterwards, so that they continue where the
// history ends. work.Filter selects rows.
//
// A field of the row stays beside the revision unless Document has the same field, or all fields of its value, or it has a
// name of the package's: that of an option, document, delta or deleted. A row that exceeds 16 MiB then is Failed.
//
// A current document whose number is not higher than that of a row just adopted gets the next number, as from Repair, and
// a time before that row's is raised to it. The result does not count these documents. So run it repeatedly beside old code: a
// process that dies between its two writes leaves such a row. One that still has to write the document by its number then
// finds another number there, as if somebody else had saved it first.
//
// Cost: 1 round trip, and reads all rows; for each 100 documents 1 to write them and 1 to read the current documents, index _id.
//   - If one of them has changed meanwhile: 1 more.
//   - A row that has more than 8 MiB together with its replacement: 3 of its own.
//   - A current document that gets a number: 2, and 1 document written.
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
	return maintain.Run(ctx, d.core.revisions, work, maintain.Scan{BatchSize: batchSize}, func(
		ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result,
	) error {
		return d.core.adoptRows(ctx, read, batch, w, result)
	})
}

func (d *store) adoptRows(ctx context.Context, read func(row bson.Raw) (*Revision[bson.Raw], error), batch []bson.Raw,
	w mongopatterns.Work, result *mongopatterns.Result) error {
	var models []mongo.WriteModel
	var large [][2]bson.Raw
	var ids, documents bson.A
	ends := map[string]head{}
	for _, raw := range batch {
		if d.adopted(raw) {
			continue
		}
		var row bson.Raw
		var h head
		past, err := read(raw)
		if err == nil && past != nil {
			h, row, err = d.pastRow(raw, past)
		}
		switch {
		case err != nil:
			maintain.Fail(result, d.revisions.Name(), raw.Lookup("_id"), err)
			continue
		case past == nil:
			result.Skipped++
			continue
		case len(raw)+len(row) > maxStatement:
			large = append(large, [2]bson.Raw{raw, row})
		default:
			models = append(models, d.replaced(raw, row))
		}
		ids = append(ids, raw.Lookup("_id"))
		if key := value.Key(h.id); ends[key].number < h.number {
			documents, ends[key] = append(documents, h.id), h
		}
	}
	skipped := result.Skipped
	if err := maintain.Rewrite(ctx, d.revisions, models, w, result); err != nil {
		return err
	}
	for _, l := range large {
		if err := d.replaceLarge(ctx, l[0], l[1], w, result); err != nil {
			return err
		}
	}
	if result.Skipped > skipped {
		if err := d.left(ctx, d.primary.revisions, ids, d.adopted, result); err != nil {
			return err
		}
	}
	if w.DryRun || len(ids) == 0 {
		return nil
	}
	return d.raise(ctx, documents, ends)
}

// raise gives the current documents whose numbers new rows have the next ones, because otherwise neither old code nor a save
// could write them until Repair. A stored time is raised to that of the rows, as by a save. ends has the last rows of the
// documents.
func (d *store) raise(ctx context.Context, ids bson.A, ends map[string]head) error {
	for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.primary.current.Find(ctx, bson.D{expr.Element("_id", expr.Op("$in", ids))},
			options.Find().SetProjection(expr.D(d.opts.RevisionField, 1, d.opts.ChangeField, 1)))
	}) {
		if err != nil {
			return err
		}
		c, invalid := d.parse(raw)
		last := ends[value.Key(c.id)]
		switch {
		case invalid != nil || c.unnumbered: // Adopt writes or names it
		case c.number <= last.number:
			_, err = d.renumber(ctx, c.id)
		case d.dated(raw) && c.change.at.Before(last.change.at):
			_, err = fault.One(d.current.UpdateOne(ctx, d.untouched(c), expr.Op("$set", expr.D(d.at(), last.change.at))))
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// left counts documents as Remaining, not Skipped, if they still exist and are not adopted.
func (d *store) left(ctx context.Context, coll *scoped.Collection, ids bson.A, adopted func(bson.Raw) bool,
	result *mongopatterns.Result) error {
	for raw, err := range cursor.Find(ctx, coll, bson.D{expr.Element("_id", expr.Op("$in", ids))}) {
		if err != nil {
			return err
		}
		if !adopted(raw) {
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

// pastRow returns the row that takes the place of raw.
func (d *store) pastRow(raw bson.Raw, past *Revision[bson.Raw]) (h head, row bson.Raw, err error) {
	all, err := diff.Parse(past.Document)
	if err != nil {
		return h, nil, fault.Invalid("Revision.Document: %w", err)
	}
	if past.Number < 1 || past.Number == math.MaxInt64 {
		return h, nil, fault.Invalid("Revision.Number: it is %d and must be from 1 to %d", past.Number, int64(math.MaxInt64-1))
	}
	h = head{id: diff.Find(all, "_id"), number: past.Number}
	if err := value.CheckID(h.id); err != nil {
		return h, nil, fault.Invalid("Revision.Document: %w", err)
	}
	if h.change, err = d.stamp(past.Change); err != nil {
		return h, nil, err
	}
	fields := d.rowFields(h, deletedKey, value.New(true))
	if !past.Deleted {
		document := append([]diff.Field{field("_id", h.id)}, diff.Without(all, append([]string{"_id"}, d.unkept...)...)...)
		if document, err = d.scoped(document); err != nil {
			return h, nil, fault.Invalid("Revision.Document: %w", err)
		}
		fields = d.rowFields(h, documentKey, diff.Embedded(document))
	}
	return h, diff.Raw(append(fields, d.beside(raw, all)...)), nil
}

// beside returns the fields of a row that stay beside its revision, because document does not have them.
func (d *store) beside(raw bson.Raw, document []diff.Field) []diff.Field {
	own := append([]string{"_id", d.opts.DocumentIDField, documentKey, deltaKey, deletedKey}, d.names...)
	in := diff.In(document)
	holds := func(f diff.Field) bool { return diff.Identical(in.Value(f.Key), f.Value) }
	return slices.DeleteFunc(diff.Without(diff.Open(raw), own...), func(f diff.Field) bool {
		inside, ok := f.Value.DocumentOK()
		return holds(f) || ok && !slices.ContainsFunc(diff.Open(inside), func(f diff.Field) bool { return !holds(f) })
	})
}
