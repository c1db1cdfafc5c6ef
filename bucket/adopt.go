package bucket

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// AdoptOptions bounds Adopt.
type AdoptOptions struct {
	// Filter narrows the source. Each Filter has a checkpoint of its own:
	// documents that two of them select are adopted twice, unless by
	// Options.IDField. Default nil: all its documents.
	Filter bson.D
	// BatchSize is how many documents one transaction adopts. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents adopted so far in
	// this call. Default nil.
	Progress func(done int64)
	// Checkpoints holds how far each source has been adopted, one document per
	// source, target and Filter. On a sharded cluster create it beforehand.
	// Default nil: the collection named as the buckets' with ".adopt" added.
	// Drop it when the source is gone.
	Checkpoints *mongo.Collection
}

// AdoptResult counts the documents of a call of Adopt.
type AdoptResult struct {
	Examined   int64 `json:"examined"` // the sum of the others
	Adopted    int64 `json:"adopted"`
	Duplicates int64 `json:"duplicates"` // of Options.IDField, held already
	Skipped    int64 `json:"skipped"`    // for which convert returned ErrSkip
}

// Adopt copies a collection of one document per measurement into buckets, in the
// order of its _id. convert takes a source document apart; nil takes the
// document as the measurement, without its _id (unless that is
// Options.IDField) and without the field named as Options.SeriesField, which
// becomes the series; it must have the series, time, ID and numbers that Append
// asks for, not only zero values of M in their place. The source stays as it is.
//
// Each batch is stored in one transaction with the checkpoint, so Adopt can be
// stopped at any point and run again without storing anything twice, also to
// fetch what was inserted with a higher _id since. A document that cannot be
// stored stops it with an ErrInvalid that names its _id, an error of convert
// likewise, unless it is [ErrSkip], which leaves the document out for good.
//
// Cost: 2 round trips to begin, further ones to read the source by its index
// _id; for each batch of BatchSize 4 (5 with IDField), commit included, and 1
// write per bucket it falls into and 1 for the checkpoint.
func (b *Buckets[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), opts *AdoptOptions) (AdoptResult, error) {
	result, err := b.adopt(ctx, src, convert, opts)
	if err != nil {
		return result, fmt.Errorf("bucket: adopt: %w", err)
	}
	return result, nil
}

func (b *Buckets[S, M]) adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), opts *AdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return result, err
	}
	if src == nil {
		return result, fmt.Errorf("%w: src: nil", ErrInvalid)
	}
	if o.Checkpoints == nil {
		o.Checkpoints = b.coll.Database().Collection(b.coll.Name() + ".adopt")
	}
	if convert == nil {
		convert = b.plain
	}
	point := checkpoint{coll: o.Checkpoints, id: bson.D{{Key: "source", Value: namespace(src)}, {Key: "target", Value: namespace(b.coll)}}}
	if len(o.Filter) > 0 {
		filter, err := b.document(o.Filter)
		if err != nil {
			return result, fmt.Errorf("%w: AdoptOptions.Filter: %w", ErrInvalid, err)
		}
		point.id = append(point.id, bson.E{Key: "filter", Value: fmt.Sprintf("%x", sha256.Sum256(filter))})
	}
	if err := point.load(ctx); err != nil {
		return result, err
	}
	filter := bson.A{}
	if len(o.Filter) > 0 {
		filter = append(filter, o.Filter)
	}
	if point.last.Type != 0 {
		filter = append(filter, after(point.last))
	}
	query := bson.D{}
	if len(filter) > 0 {
		query = bson.D{{Key: "$and", Value: filter}}
	}
	cursor, err := src.Find(ctx, query, options.Find().
		SetSort(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(cursorBatch(o.BatchSize, 10)))
	if err != nil {
		return result, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var pending batch
	var read, skipped int // since the last flush
	var last bson.RawValue
	flush := func() error {
		var appended AppendResult
		err := txn.Run(ctx, b.coll.Database().Client(), func(ctx context.Context) error {
			// The checkpoint first: who comes second leaves nothing behind, also in
			// a transaction of the caller's.
			err := point.move(ctx, last)
			if err == nil {
				appended, err = b.appendBatch(ctx, pending.list())
			}
			return err
		})
		if err != nil {
			return err
		}
		point.last = last
		result.Examined += int64(read)
		result.Skipped += int64(skipped)
		pending, read, skipped = batch{}, 0, 0
		result.Adopted += appended.Appended
		result.Duplicates += appended.Duplicates
		o.Progress(result.Adopted + result.Duplicates)
		return nil
	}
	for cursor.Next(ctx) {
		doc := append(bson.Raw(nil), cursor.Current...)
		last = doc.Lookup("_id")
		series, m, err := convert(doc)
		var g *group
		if err == nil {
			g, err = b.group(series, m)
		}
		switch {
		case err == nil:
			pending.add(g)
		case errors.Is(err, ErrSkip):
			skipped++
		default:
			return result, fmt.Errorf("document %s: %w", rawvalue.Text(last), err)
		}
		if read++; read >= o.BatchSize {
			if err := flush(); err != nil {
				return result, err
			}
		}
	}
	if err := cursor.Err(); err != nil {
		return result, err
	}
	if read > 0 {
		return result, flush()
	}
	return result, nil
}

// plain is the default conversion.
func (b *Buckets[S, M]) plain(doc bson.Raw) (series S, m M, err error) {
	elements, err := doc.Elements()
	if err != nil {
		return series, m, err
	}
	rest, hasSeries := bson.D{}, false
	for _, element := range elements {
		switch {
		case element.Key() == b.series:
			hasSeries = true
			if err = checkSeries(element.Value()); err == nil {
				err = b.decode(element.Value(), &series)
			}
		case element.Key() == "_id" && b.opts.IDField != "_id":
		default:
			rest = append(rest, bson.E{Key: element.Key(), Value: element.Value()})
		}
		if err != nil {
			return series, m, fmt.Errorf("%w: field %q: %w", ErrInvalid, element.Key(), err)
		}
	}
	if !hasSeries {
		return series, m, fmt.Errorf("%w: no series in %q", ErrInvalid, b.series)
	}
	value, err := b.value(rest)
	if err != nil {
		return series, m, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	// M may have zero values for what the document has not.
	if _, err := b.itemOf(value.Document()); err != nil {
		return series, m, err
	}
	if err := b.decode(value, &m); err != nil {
		return series, m, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return series, m, nil
}

func (l *layout) decode(value bson.RawValue, into any) error {
	if l.registry != nil {
		return value.UnmarshalWithRegistry(l.registry, into)
	}
	return value.Unmarshal(into)
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
	err := c.coll.FindOne(ctx, bson.D{{Key: "_id", Value: c.id}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	c.last = rawvalue.Lookup(doc, "last")
	return err
}

// move writes the new position, within a transaction, if it is where it was
// read: of two adoptions one fails before it stores anything twice.
func (c *checkpoint) move(ctx context.Context, last bson.RawValue) error {
	if c.last.Type == 0 {
		_, err := c.coll.InsertOne(ctx, bson.D{{Key: "_id", Value: c.id}, {Key: "last", Value: last}})
		if mongo.IsDuplicateKeyError(err) {
			return fmt.Errorf("%w: %w", ErrConcurrentAdopt, err)
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

// idOrder is the types an _id can have, in the server's order; each line
// compares within itself.
var idOrder = [][]string{
	{"minKey"}, {"null"}, {"int", "long", "double", "decimal"}, {"string", "symbol"}, {"object"},
	{"binData"}, {"objectId"}, {"bool"}, {"date"}, {"timestamp"}, {"dbPointer"},
	{"javascript"}, {"javascriptWithScope"}, {"maxKey"},
}

// after selects the documents whose _id sorts after last: $gt alone keeps to
// last's own type.
func after(last bson.RawValue) bson.D {
	aliases := map[bson.Type]string{
		bson.TypeMinKey: "minKey", bson.TypeNull: "null", bson.TypeInt32: "int", bson.TypeInt64: "long",
		bson.TypeDouble: "double", bson.TypeDecimal128: "decimal", bson.TypeString: "string",
		bson.TypeSymbol: "symbol", bson.TypeEmbeddedDocument: "object", bson.TypeBinary: "binData",
		bson.TypeObjectID: "objectId", bson.TypeBoolean: "bool", bson.TypeDateTime: "date",
		bson.TypeTimestamp: "timestamp", bson.TypeDBPointer: "dbPointer", bson.TypeJavaScript: "javascript",
		bson.TypeCodeWithScope: "javascriptWithScope", bson.TypeMaxKey: "maxKey",
	}
	higher, passed := bson.A{}, false
	for _, line := range idOrder {
		for _, alias := range line {
			if passed {
				higher = append(higher, alias)
			}
		}
		for _, alias := range line {
			passed = passed || alias == aliases[last.Type]
		}
	}
	same := bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: last}}}}
	if len(higher) == 0 {
		return same
	}
	return bson.D{{Key: "$or", Value: bson.A{same, bson.D{{Key: "_id", Value: bson.D{{Key: "$type", Value: higher}}}}}}}
}
