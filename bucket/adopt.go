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

// Adopt copies a collection of one document per measurement into buckets, in the
// order of its _id. convert takes a source document apart; nil takes the
// document as the measurement, without its _id (unless that is
// Options.IDField) and without the field named as Options.SeriesField, which
// becomes the series. The source stays as it is. work.Filter selects documents of
// the source; each filter has a checkpoint of its own.
//
// Each batch is stored in one transaction with the checkpoint, a document in the
// collection named as the buckets' with ".adopt" added. So Adopt can be stopped at
// any point and run again without storing anything twice, also to fetch what was
// inserted with a higher _id since. (On a sharded cluster create that collection
// beforehand; drop it when the source is gone.) Done are stored, Skipped were held
// already (Options.IDField) or answered with [ErrSkip]. What cannot be a measurement,
// or convert calls ErrInvalid, is Failed and named, and adopted later only through a
// filter of its own; any other error of convert ends the call.
//
// Cost: 2 round trips to begin, further ones to read the source by its index
// _id; for each batch 4, commit included, and 1 write per bucket it falls into and 1
// for the checkpoint.
func (b *Buckets[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: adopt")
	c := b.core
	if convert == nil {
		return c.adopt(ctx, src, work, func(doc bson.Raw) (any, any, error) {
			series, m, err := c.plain(doc)
			if err == nil {
				var fits M // or no read would succeed
				if err = c.codec.Decode(m, &fits); err != nil {
					err = fault.Invalid("%w", err)
				}
			}
			return series, m, err
		})
	}
	return c.adopt(ctx, src, work, func(doc bson.Raw) (any, any, error) { return convert(doc) })
}

// adopt converts each batch and stores it together with the checkpoint, which only
// then moves: a document that is refused by itself leaves it where it was, and the
// next one passes over.
func (c *arrays) adopt(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work, convert func(doc bson.Raw) (series, m any, err error)) (mongopatterns.Result, error) {
	if err := config.Collections("src", src); err != nil {
		return mongopatterns.Result{}, err
	}
	if namespace(src) == namespace(c.coll) {
		return mongopatterns.Result{}, fault.Invalid("src: the collection of the buckets")
	}
	point := checkpoint{coll: c.coll.Database().Collection(c.coll.Name() + ".adopt"),
		id: bson.D{{Key: "source", Value: namespace(src)}, {Key: "target", Value: namespace(c.coll)}}}
	if work != nil && work.Filter != nil {
		hash, err := c.hash(work.Filter)
		if err != nil {
			return mongopatterns.Result{}, fmt.Errorf("Work.Filter: %w", err)
		}
		point.id = append(point.id, bson.E{Key: "filter", Value: hash})
	}
	if err := point.load(ctx); err != nil {
		return mongopatterns.Result{}, err
	}
	var after bson.D
	if point.last.Type != 0 {
		// In an expression, $gt compares values of all types.
		after = expr.Op("$expr", expr.Op("$gt", "$_id", expr.Literal(point.last)))
	}
	return maintain.Run(ctx, src, work, maintain.Scan{Filter: after}, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
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
		last := docs[len(docs)-1].Lookup("_id")
		var stored mongopatterns.Result
		err := txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error {
			// The checkpoint first: who comes second leaves nothing behind.
			err := point.move(ctx, last)
			if err == nil {
				stored, err = c.write(ctx, pending.groups, c.bulk)
			}
			return err
		})
		if err == nil {
			point.last = last
			result.Add(stored)
		}
		return err
	})
}

// plain is the default conversion. The measurement keeps fields that M lacks.
func (c *arrays) plain(doc bson.Raw) (series bson.RawValue, m bson.Raw, err error) {
	elements, err := doc.Elements()
	if err != nil {
		return series, nil, fault.Invalid("%w", err)
	}
	rest := bson.D{}
	for _, e := range elements {
		switch {
		case e.Key() == c.series:
			series = e.Value()
		case e.Key() != "_id" || c.opts.IDField == "_id":
			rest = append(rest, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if series.Type == 0 {
		return series, nil, fault.Invalid("no series in %q", c.series)
	}
	m, err = c.codec.Document(rest)
	return series, m, err
}

// hash is the same for equal filters, also for maps, whose order is none.
func (c *arrays) hash(filter any) (string, error) {
	doc, err := c.codec.Document(filter)
	if err != nil {
		return "", err
	}
	var sorted bson.M // fmt prints maps in the order of their keys
	if err := (codec.Codec{BSON: &options.BSONOptions{DefaultDocumentM: true}}).Decode(doc, &sorted); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%#v", sorted))), nil
}

// A checkpoint is the _id up to which a source has been adopted by a target
// through a filter.
type checkpoint struct {
	coll *mongo.Collection
	id   bson.D
	last bson.RawValue // zero: nothing yet
}

func namespace(coll *mongo.Collection) string { return coll.Database().Name() + "." + coll.Name() }

func (c *checkpoint) load(ctx context.Context) error {
	var doc bson.Raw
	err := cursor.Primary(c.coll).FindOne(ctx, bson.D{{Key: "_id", Value: c.id}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	c.last = value.Lookup(doc, "last")
	return err
}

// move writes the new position, within a transaction, if it is where it was
// read: of two adoptions one fails before it stores anything twice.
func (c *checkpoint) move(ctx context.Context, last bson.RawValue) error {
	if c.last.Type == 0 {
		_, err := c.coll.InsertOne(ctx, bson.D{{Key: "_id", Value: c.id}, {Key: "last", Value: last}})
		if mongo.IsDuplicateKeyError(err) {
			return ErrConcurrentAdopt // alone: no document was refused
		}
		return err
	}
	done, err := c.coll.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: c.id}, {Key: "last", Value: bson.D{{Key: "$eq", Value: c.last}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "last", Value: last}}}})
	if err == nil && done.MatchedCount == 0 {
		return ErrConcurrentAdopt
	}
	return err
}
