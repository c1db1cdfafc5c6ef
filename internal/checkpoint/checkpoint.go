// Package checkpoint remembers how far a collection has been adopted by another.
package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Point is the _id up to which a source has been adopted by a target through a filter.
// It is a document of the collection named as the target's with ".adopt" added.
type Point struct {
	coll       *mongo.Collection
	id         bson.D
	last       bson.RawValue // zero: nothing yet
	concurrent error
}

// Open reads the point of src, target and a filter, nil for none. concurrent is the error
// of a second adoption at the same time.
//
// Cost: 1 round trip.
func Open(ctx context.Context, src, target *mongo.Collection, filter any, c codec.Codec, concurrent error) (*Point, error) {
	if err := config.Collections("src", src); err != nil {
		return nil, err
	}
	if namespace(src) == namespace(target) {
		return nil, fault.Invalid("src: the collection that adopts")
	}
	p := &Point{coll: target.Database().Collection(target.Name() + ".adopt"), concurrent: concurrent,
		id: bson.D{{Key: "source", Value: namespace(src)}, {Key: "target", Value: namespace(target)}}}
	if filter != nil {
		hash, err := hash(filter, c)
		if err != nil {
			return nil, fmt.Errorf("Work.Filter: %w", err)
		}
		p.id = append(p.id, bson.E{Key: "filter", Value: hash})
	}
	var doc bson.Raw
	err := cursor.Primary(p.coll).FindOne(ctx, bson.D{{Key: "_id", Value: p.id}}).Decode(&doc)
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

// After selects the documents of the source behind the point.
func (p *Point) After() bson.D {
	if p.last.Type == 0 {
		return nil
	}
	// In an expression, $gt compares values of all types.
	return expr.Op("$expr", expr.Op("$gt", "$_id", expr.Literal(p.last)))
}

// Move writes the new position, within a transaction, if it is where it was read: of two
// adoptions one fails before it stores anything twice. Moved says that the transaction
// has been committed.
//
// Cost: 1 round trip.
func (p *Point) Move(ctx context.Context, last bson.RawValue) error {
	if p.last.Type == 0 {
		_, err := p.coll.InsertOne(ctx, bson.D{{Key: "_id", Value: p.id}, {Key: "last", Value: last}})
		if mongo.IsDuplicateKeyError(err) {
			return p.concurrent // alone: no document was refused
		}
		return err
	}
	done, err := p.coll.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: p.id}, {Key: "last", Value: bson.D{{Key: "$eq", Value: p.last}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "last", Value: last}}}})
	if err == nil && done.MatchedCount == 0 {
		return p.concurrent
	}
	return err
}

// Moved takes the new position for the one that is stored.
func (p *Point) Moved(last bson.RawValue) { p.last = last }
