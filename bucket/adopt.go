package bucket

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt copies a collection of one document per measurement into buckets, in the order of its _id.
// convert takes a source document apart. nil takes it as the measurement, without its _id (unless
// that is Options.IDField) and without the field Options.SeriesField, the series. The source stays
// as it is. work.Filter selects documents of the source.
//
// Each batch is stored in one transaction with a checkpoint, which each source and filter has, in
// the collection named as the buckets' with ".adopt" added. So Adopt can be stopped at any point
// and run again without storing anything twice, also to fetch what was inserted with a higher _id
// since. Done are stored, Skipped were held already (Options.IDField) or answered with [ErrSkip].
// What cannot be a measurement, or convert calls ErrInvalid, is Failed and named, and passed over;
// any other error of convert ends the call.
//
// Cost: 2 round trips to begin, more to read the source by _id; for each batch 4, commit included,
// 1 write per bucket it falls into and 1 for the checkpoint.
func (b *Buckets[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: adopt")
	return b.core.adopt(ctx, src, work, func(doc bson.Raw) (any, any, error) {
		if convert != nil {
			return convert(doc)
		}
		series, plain, err := b.core.plain(doc)
		var raw bson.Raw
		if err == nil {
			raw, err = b.core.codec.Document(plain)
		}
		if err == nil {
			var fits M // or no read would succeed
			err = b.core.codec.Decode(raw, &fits)
		}
		if err != nil {
			err = fault.Invalid("%w", err)
		}
		return series, raw, err
	})
}

// adopt converts each batch and stores it together with the checkpoint, the _id up to which this
// source has been adopted through this filter. That only then moves: a document that is refused by
// itself leaves it where it was, and the next one passes over.
func (c *arrays) adopt(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work, convert func(doc bson.Raw) (series, m any, err error)) (mongopatterns.Result, error) {
	if err := config.Collections("src", src); err != nil {
		return mongopatterns.Result{}, err
	}
	namespace := func(coll *mongo.Collection) string { return coll.Database().Name() + "." + coll.Name() }
	if namespace(src) == namespace(c.coll) {
		return mongopatterns.Result{}, fault.Invalid("src: the collection of the buckets")
	}
	points := c.coll.Database().Collection(c.coll.Name() + ".adopt")
	id := bson.D{{Key: "source", Value: namespace(src)}, {Key: "target", Value: namespace(c.coll)}}
	if work != nil && work.Filter != nil {
		hash, err := c.hash(work.Filter)
		if err != nil {
			return mongopatterns.Result{}, fmt.Errorf("Work.Filter: %w", err)
		}
		id = append(id, bson.E{Key: "filter", Value: hash})
	}
	point, err := first(find(ctx, cursor.Primary(points), bson.D{{Key: "_id", Value: id}}))
	if err != nil {
		return mongopatterns.Result{}, err
	}
	var scan maintain.Scan
	last := value.Lookup(point, "last")
	if last.Type != 0 { // in an expression $gt compares values of all types
		scan.Filter = expr.Op("$expr", expr.Op("$gt", "$_id", expr.Literal(last)))
	}
	return maintain.Run(ctx, src, work, scan, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var pending batch
		for _, doc := range docs {
			series, m, err := convert(doc)
			if err == nil {
				err = c.add(&pending, series, m)
			}
			switch {
			case err == nil:
			case errors.Is(err, ErrSkip):
				result.Skipped++
			case errors.Is(err, fault.ErrInvalid):
				result.Fail(src.Name(), doc.Lookup("_id"), err)
			default:
				return fault.Of(doc.Lookup("_id"), err)
			}
		}
		if w.DryRun {
			result.Done += int64(pending.items)
			return nil
		}
		next := docs[len(docs)-1].Lookup("_id")
		var done mongopatterns.Result
		err := txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error {
			// First, if it is where it was read: of two adoptions one fails before it stores
			// anything twice, and no document is refused for it.
			_, err := points.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "last", Value: stored(last)}},
				expr.Op("$set", bson.D{{Key: "last", Value: next}}), options.UpdateOne().SetUpsert(true))
			if mongo.IsDuplicateKeyError(err) {
				return ErrConcurrentAdopt
			}
			if err == nil {
				done, err = c.write(ctx, pending.groups, c.bulk)
			}
			return err
		})
		if err == nil {
			last = next
			result.Add(done)
		}
		return err
	})
}

// plain is the default conversion. The measurement keeps fields that M lacks.
func (c *arrays) plain(doc bson.Raw) (series bson.RawValue, m bson.D, err error) {
	elements, err := doc.Elements()
	for _, e := range elements {
		switch {
		case e.Key() == c.series:
			series = e.Value()
		case e.Key() != "_id" || c.opts.IDField == "_id":
			m = append(m, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if err == nil && series.Type == 0 {
		err = fmt.Errorf("no series in %q", c.series)
	}
	return series, m, err
}

// hash is the same for equal filters, also for maps, whose order is none.
func (c *arrays) hash(filter any) (string, error) {
	var sorted bson.M // fmt prints maps in the order of their keys
	doc, err := c.codec.Document(filter)
	if err == nil {
		err = codec.Codec{BSON: &options.BSONOptions{DefaultDocumentM: true}}.Decode(doc, &sorted)
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%#v", sorted))), err
}
