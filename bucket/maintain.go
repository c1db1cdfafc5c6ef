package bucket

import (
	"context"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// measured are the paths of Options.Values for Check to look for; nil if M is a struct, because New has
// compared them with its fields.
func (b *Buckets[ID, M]) measured() (paths []string) {
	c := b.core
	if !windows.AnyField[M](c.frame.Codec) {
		return nil
	}
	for _, v := range c.opts.Values {
		paths = append(paths, c.opts.ArrayField+"."+v.Field)
	}
	return paths
}

// Check yields the problems of the buckets that work selects. It runs on the server, which does not send
// measurements to the client. It accepts rounding differences in sums. For each measurement these are 2^-51 of
// the sum of the absolute numbers for doubles, 1e-33 for Decimal128, and 1e-14 for both mixed. Where the sum of
// the absolute numbers exceeds the largest number of the type, it accepts an infinity or NaN, because the order
// of the additions decides.
//
// It yields these kinds of package mongopatterns:
//   - WrongField: a count, sum or other aggregate that does not follow from the measurements, or an end that
//     is not the window's. Repair computes it again.
//   - OutsideWindow: a measurement whose time is outside the bucket's window or not a date, so that a
//     read of its range misses it. Delete and append it, or adopt it again.
//   - Duplicate: an ID that a bucket holds twice, or that two buckets of a window hold (Detail names the other), as
//     in an archive or before EnsureIndexes.
//   - Malformed: a start that is not a date (a read that meets the bucket returns ErrMalformed, but a range with
//     a limit misses it) or does not begin a window (reads miss the bucket), or an ArrayField that is not an
//     array. A Malformed problem without an ID names a SeriesField, or a Field
//     of a Value, that no bucket has. Either its name is misspelt, or the data does not exist yet. Check
//     finds it only without Work.Filter.
//
// Cost: 2 round trips, 1 for each of Values if M is not a struct, and 1 for each batch; scans the collection
// by _id.
//   - With IDField: 1 more. If the unique index is missing, the server then also groups all IDs.
func (b *Buckets[ID, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "bucket.Check")
	c := b.core
	found := c.frame.Problems(ctx, work, c.scan(), c.audit, b.measured()...)
	if c.opts.IDField != "" {
		found = maintain.Chain(found, c.frame.Shared(ctx, work, c.uniqueIDs(), c.opts.ArrayField, c.opts.IDField))
	}
	return fault.Seq("bucket.Check", found)
}

// Repair computes again the aggregates that Check finds wrong, in one write for each bucket, so that no
// append at the same time is lost or counted twice. Remaining counts the problems that it cannot solve, without
// the IDs that two buckets hold.
//
// Cost: that of Check, and 1 round trip for each batch with wrong buckets, index _id.
func (b *Buckets[ID, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "bucket.Repair")
	defer fault.In(&err, "bucket.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return b.core.frame.Repair(ctx, work, b.core.scan(), b.core.audit)
}

// scan computes on the server the aggregates that a bucket should hold, beside those that it holds.
func (c *arrays) scan() maintain.Scan {
	all := expr.Array(expr.Field(c.opts.ArrayField))
	times := expr.Filter(expr.Map(all, "m", at(c.opts.TimeField)), "t", expr.IsType(expr.Var("t"), "date"))
	out := append(c.fields(c.frame.EndField), expr.D(
		"~from", expr.Op("$min", times), "~to", expr.Op("$max", times), "~timed", expr.Op("$size", times),
		"~other", expr.Cond(expr.Op("$isArray", c.array()), "$$REMOVE", expr.Field(c.opts.ArrayField)),
	)...)
	if c.opts.IDField != "" {
		ids := expr.Filter(expr.Map(all, "m", at(c.opts.IDField)), "id", expr.Op("$ne", expr.Var("id"), nil)) // those that there are
		out = append(out, expr.Element("~repeated", expr.Op("$gt",
			expr.Op("$size", ids), expr.Op("$size", expr.Op("$setUnion", ids, bson.A{})))))
	}
	for _, d := range c.derived {
		out = append(out, expr.Element("~have."+d.name, expr.Field(d.path)),
			expr.Element("~want."+d.name, d.of(all)))
		if d.rounds {
			out = append(out, expr.Element("~most."+d.name, expr.Op("$sum", d.mapped(all, expr.Op("$abs", d.each)))),
				expr.Element("~types."+d.name, expr.Op("$setUnion", d.mapped(all, expr.Op("$type", d.each)), bson.A{})))
		}
	}
	return maintain.Scan{Projection: out}
}

// audit compares the stored aggregates of a bucket with those that scan computed.
func (c *arrays) audit(doc bson.Raw, report windows.Report) mongo.Pipeline {
	var none bson.RawValue
	start, end, ends, dated := c.frame.Span(doc, report)
	if other := doc.Lookup("~other"); other.Type != 0 {
		report(mongopatterns.Malformed, c.opts.ArrayField, other, none, "")
		return mongo.Pipeline{expr.Op("$set", ends)}
	}
	outside, which := doc.Lookup("~timed").AsInt64() < doc.Lookup("~want", "count").AsInt64(), none
	for _, key := range []string{"~from", "~to"} {
		at := doc.Lookup(key)
		if ms, ok := at.DateTimeOK(); ok && dated && (ms < start || ms >= end) {
			outside, which = true, at
		}
	}
	if outside {
		report(mongopatterns.OutsideWindow, c.opts.ArrayField+"."+c.opts.TimeField, which, none, "")
	}
	if repeated, _ := doc.Lookup("~repeated").BooleanOK(); repeated {
		report(mongopatterns.Duplicate, c.idPath(), none, none, "")
	}
	var wrong []string
	for _, d := range c.derived {
		have, want := doc.Lookup("~have", d.name), doc.Lookup("~want", d.name)
		if want.Type == bson.TypeNull {
			want = none
		}
		if !d.agree(doc, have, want) {
			report(mongopatterns.WrongField, d.path, have, want, "")
			wrong = append(wrong, d.path)
		}
	}
	return append(windows.Above(wrong), expr.Op("$set", append(ends, c.recounted...)))
}

// agree reports whether the stored value of a field is the computed one.
func (d derived) agree(doc bson.Raw, have, want bson.RawValue) bool {
	if !d.rounds {
		return value.Agree(have, want, nil)
	}
	r := number.Rounding{Most: value.Number(doc.Lookup("~most", d.name)), Count: doc.Lookup("~want", "count").AsInt64()}
	types, _ := doc.Lookup("~types", d.name).Array().Values()
	for _, t := range types {
		r.Double, r.Decimal = r.Double || t.StringValue() == "double", r.Decimal || t.StringValue() == "decimal"
	}
	return r.Agree(have, want)
}

// Archive moves the documents whose window ended at or before the time before into target. Each batch (by default
// 100 documents, at most 8 MiB) is a transaction, so every document is in exactly one of the two collections at any
// time. It can be stopped and run again. Late data may start a new bucket of an archived window, which a later
// Archive adds to the target. work.Filter selects bucket documents. target is another collection of the same
// database; Archive creates it if it does not exist. A document with an empty timestamp in a top-level field, which
// the server would replace, stays and is Failed.
//
// With IDField a repeated Append of an archived measurement stores it again, and the next Archive leaves it out:
// a measurement whose ID target holds in the same window does not move. Until then both collections have it, so
// choose a before behind every retry.
//
// To index and read target, make a second Buckets with the same options. With IDField call its EnsureIndexes
// before Archive, because each batch reads the IDs of its windows in target.
//
// Cost: 2 round trips, and for each batch 5, commit included, and 2 writes for each document.
//   - 1 more for a batch with a measurement that target holds.
//   - 1 more to create target, and more for many documents, to find them.
//   - They are found by the index {series, start} with a filter on the series, by {start} if you have made it,
//     otherwise by a scan.
func (b *Buckets[ID, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "bucket.Archive")
	defer fault.In(&err, "bucket.Archive")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	arrive := windows.Insert
	if b.core.opts.IDField != "" {
		arrive = b.core.arriveOnce
	}
	return b.core.frame.Archive(ctx, before, scoped.On(target), work, arrive)
}

// arriveOnce is the Arrive that leaves out the measurements whose IDs the archive holds in the same window.
func (c *arrays) arriveOnce(ctx context.Context, archive *scoped.Collection, docs []bson.Raw) (_ []mongo.WriteModel, err error) {
	there, err := c.besides(ctx, archive, docs)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	key := func(doc bson.Raw, id bson.RawValue) string { return c.frame.KeyOf(doc) + " " + value.Key(id) }
	for _, doc := range there {
		for _, id := range elements(doc.Lookup("~ids")) {
			held[key(doc, id)] = true
		}
	}
	var repeated, lists bson.A
	for _, doc := range docs {
		all := elements(value.Lookup(doc, c.opts.ArrayField))
		others := bson.A{}
		for i, m := range all {
			m, _ := m.DocumentOK()
			if id := value.Lookup(m, c.opts.IDField); id.Type == 0 || id.Type == bson.TypeNull || !held[key(doc, id)] {
				others = append(others, i)
			}
		}
		if len(others) < len(all) {
			repeated = append(repeated, doc.Lookup("_id"))
			series, start := value.Lookup(doc, c.frame.SeriesField), value.Lookup(doc, c.frame.StartField)
			lists = append(lists, expr.D("of", bson.A{doc.Lookup("_id"), series, start}, "others", others))
		}
	}
	if repeated != nil {
		if docs, err = c.without(ctx, docs, repeated, lists); err != nil {
			return nil, err
		}
	}
	return windows.Inserts(docs, there)
}

// without reads documents again, each with only the measurements at the indices in its list, and with their aggregates.
//
// Cost: 1 round trip.
func (c *arrays) without(ctx context.Context, docs []bson.Raw, ids, lists bson.A) ([]bson.Raw, error) {
	of := bson.A{"$_id", expr.Field(c.frame.SeriesField), expr.Field(c.frame.StartField)}
	mine := expr.Filter(expr.Literal(lists), "list", expr.Op("$eq", expr.Var("list.of"), of))
	read, err := cursor.Collect(pipe(ctx, c.frame.Coll, mongo.Pipeline{
		expr.Op("$match", expr.D("_id", expr.Op("$in", ids))),
		expr.Op("$set", expr.D("~list", expr.Op("$arrayElemAt", mine, 0))),
		expr.Op("$match", expr.D("~list", expr.Op("$exists", true))),
		expr.Op("$set", expr.D(c.opts.ArrayField, expr.Map("$~list.others", "i", expr.Op("$arrayElemAt", expr.Field(c.opts.ArrayField), expr.Var("i"))))),
		expr.Op("$set", c.recounted),
		expr.Op("$unset", "~list"),
	}))
	if err != nil {
		return nil, err
	}
	shorter := map[windows.Identity]bson.Raw{}
	for _, doc := range read {
		shorter[c.frame.IdentityOf(doc)] = doc
	}
	out := slices.Clone(docs)
	for i, doc := range out {
		if s := shorter[c.frame.IdentityOf(doc)]; s != nil {
			out[i] = s
		}
	}
	return out, nil
}

// elements are those of an array, none if v is another value.
func elements(v bson.RawValue) (all []bson.RawValue) {
	if list, ok := v.ArrayOK(); ok {
		all, _ = list.Values()
	}
	return all
}

// besides reads from an archive the documents that have the _ids of others or belong to their windows, and their IDs.
//
// Cost: 1 round trip; 1 for each thousand of others.
func (c *arrays) besides(ctx context.Context, archive *scoped.Collection, others []bson.Raw) (there []bson.Raw, err error) {
	ids := expr.Map(expr.Array(expr.Field(c.opts.ArrayField)), "m", at(c.opts.IDField))
	opts := options.Find().SetBatchSize(1 << 20).SetProjection(append(c.frame.Keys(), expr.Element("~ids", ids)))
	for part := range slices.Chunk(others, 1000) {
		starts, series, either := map[string]bson.A{}, []bson.RawValue(nil), bson.A{expr.D("_id", expr.Op("$in", transfer.IDs(part)))}
		for _, doc := range part {
			s := value.Lookup(doc, c.frame.SeriesField)
			if s.Type == 0 || c.frame.CheckStart(doc) != nil {
				continue // it has no window
			}
			if starts[value.Key(s)] == nil {
				series = append(series, s)
			}
			starts[value.Key(s)] = append(starts[value.Key(s)], value.Lookup(doc, c.frame.StartField))
		}
		for _, s := range series {
			either = append(either, expr.D(c.frame.SeriesField, value.Equal(s), c.frame.StartField, expr.Op("$in", starts[value.Key(s)])))
		}
		docs, err := cursor.Collect(cursor.Find(ctx, archive, expr.Op("$or", either), opts))
		if err != nil {
			return nil, err
		}
		there = append(there, docs...)
	}
	return there, nil
}
