package frame

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

// Adopt stores what convert adds to a batch of each document of a source, batch by batch together with a
// checkpoint, which only then moves: a document that is refused by itself leaves it where it was, and the next one
// passes over.
func (f *Frame) Adopt(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work, size int, begin func() Batch,
	convert func(b Batch, doc bson.Raw) error) (mongopatterns.Result, error) {
	point, err := f.checkpoint(ctx, src, work)
	if err != nil {
		return mongopatterns.Result{}, err
	}
	scan := maintain.Scan{Filter: point.after(), BatchSize: size}
	return maintain.Run(ctx, src, work, scan, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		b := begin()
		for _, doc := range docs {
			switch err := convert(b, doc); {
			case err == nil:
			case errors.Is(err, f.Skip):
				result.Skipped++
			case errors.Is(err, fault.ErrInvalid) && !w.Strict:
				result.Fail(src.Name(), doc.Lookup("_id"), err)
			default:
				return fault.Of(doc.Lookup("_id"), err)
			}
		}
		if w.DryRun {
			count, _ := b.Size()
			result.Done += int64(count)
			return nil
		}
		last := docs[len(docs)-1].Lookup("_id")
		var done mongopatterns.Result
		err := txn.Run(ctx, f.Coll.Database().Client(), func(ctx context.Context) error {
			err := point.move(ctx, last) // first: who comes second leaves nothing behind, and no document is refused for it
			if err == nil {
				done, err = b.Store(ctx)
			}
			return err
		})
		if err == nil {
			point.last = last
			result.Add(done)
		}
		return err
	})
}

// Plain takes a source document for one measurement: without the field of the series, and without _id unless it is
// kept. Fields that fits, a pointer to a measurement, lacks stay; what it cannot be decoded from is refused.
func (f *Frame) Plain(doc bson.Raw, keepID bool, fits any) (series bson.RawValue, m bson.Raw, err error) {
	series = doc.Lookup(f.Series)
	m = value.Pick(doc, func(field []byte) bool { return string(field) != f.Series && (keepID || string(field) != "_id") })
	if series.Type == 0 {
		err = fmt.Errorf("no series in %q", f.Series)
	} else {
		err = f.Codec.Decode(m, fits)
	}
	if err != nil {
		err = fault.Invalid("%w", err)
	}
	return series, m, err
}

// A point is the _id up to which a source has been adopted through a filter. It is a document of the collection named
// as the target's with ".adopt" added.
type point struct {
	coll       *mongo.Collection
	id         bson.D
	last       bson.RawValue // zero: nothing yet
	concurrent error
}

// checkpoint reads the point of a source and a filter.
func (f *Frame) checkpoint(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work) (*point, error) {
	if err := config.Collections("src", src); err != nil {
		return nil, err
	}
	if namespace(src) == namespace(f.Coll) {
		return nil, fault.Invalid("src: the collection that adopts")
	}
	p := &point{coll: f.Coll.Database().Collection(f.Coll.Name() + ".adopt"), concurrent: f.Concurrent,
		id: expr.D("source", namespace(src), "target", namespace(f.Coll))}
	if work != nil && work.Filter != nil {
		hash, err := hash(work.Filter, f.Codec)
		if err != nil {
			return nil, fmt.Errorf("Work.Filter: %w", err)
		}
		p.id = append(p.id, bson.E{Key: "filter", Value: hash})
	}
	var doc bson.Raw
	err := cursor.Primary(p.coll).FindOne(ctx, expr.Op("_id", p.id)).Decode(&doc)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return nil, err
	}
	p.last = value.Lookup(doc, "last")
	return p, nil
}

func namespace(coll *mongo.Collection) string { return coll.Database().Name() + "." + coll.Name() }

// hash is the same for equal filters, also for maps, whose order is none.
func hash(filter any, c codec.Codec) (string, error) {
	doc, err := c.Document(filter)
	if err != nil {
		return "", err
	}
	var sorted bson.M // fmt prints maps in the order of their keys
	if err := (codec.Codec{BSON: &options.BSONOptions{DefaultDocumentM: true}}).Decode(doc, &sorted); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%#v", sorted))), nil
}

// after selects the documents of the source behind the point.
func (p *point) after() bson.D {
	if p.last.Type == 0 {
		return nil
	}
	// In an expression, $gt compares values of all types.
	return expr.Op("$expr", expr.Op("$gt", "$_id", expr.Literal(p.last)))
}

// move writes the new position, within a transaction, if it is where it was read: of two adoptions one fails before
// it stores anything twice.
func (p *point) move(ctx context.Context, last bson.RawValue) error {
	if p.last.Type == 0 {
		_, err := fault.One(p.coll.InsertOne(ctx, expr.D("_id", p.id, "last", last)))
		if mongo.IsDuplicateKeyError(err) {
			return p.concurrent // alone: no document was refused
		}
		return err
	}
	done, err := fault.One(p.coll.UpdateOne(ctx, expr.D("_id", p.id, "last", expr.Op("$eq", p.last)),
		expr.Op("$set", expr.Op("last", last))))
	if err == nil && done.MatchedCount == 0 {
		return p.concurrent
	}
	return err
}
