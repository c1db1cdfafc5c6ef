package series

import (
	"context"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Compact merges the blocks of each document into one, sorted by time, and so makes room
// in it. work.Filter selects documents of the collection: a filter on
// the start leaves out windows that still fill, which would be written again and again.
// What has one block is left alone, so it can be stopped and run again.
//
// What is appended meanwhile stays as further blocks. A document that somebody else
// compacts or edits meanwhile is Skipped. A damaged one is Failed, and stays as it is.
// With Options.BatchField the IDs of batches that came ten minutes ago or earlier are
// forgotten: a batch repeated after that is stored twice.
//
// Cost: 1 round trip a batch of 100 documents to read, scanning the collection by _id
// unless the filter has a better index; 1 to write, 1 document written for each with
// several blocks.
func (s *Series[S, M]) Compact(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: compact")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	c := s.core
	open := bson.D{{Key: c.opts.BlocksField + ".1", Value: bson.D{{Key: "$exists", Value: true}}}}
	return maintain.Run(ctx, c.Coll, work, maintain.Scan{Filter: open, BatchSize: frame.WholeBatch},
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			var models []mongo.WriteModel
			for _, doc := range batch {
				t, err := c.load(doc)
				if err != nil && w.Strict {
					return err
				}
				if err != nil {
					result.Fail(c.Coll.Name(), doc.Lookup("_id"), err)
					continue
				}
				t.Sort()
				models = append(models, mongo.NewUpdateOneModel().SetFilter(c.Itself(doc, c.opts.MarkField, c.opts.RevisionField)).SetUpdate(c.compacted(doc, t)))
			}
			return maintain.Rewrite(ctx, c.Coll, models, w, result)
		})
}

// remembered is how long the ID of a batch outlives the block.
const remembered = 10 * time.Minute

// compacted is the update that puts a table in the place of the blocks that a document
// had when it was read. Blocks come at the end, so those that came since remain: the
// guard is mark and revision alone, and appends do not make it fail.
func (c *store) compacted(doc bson.Raw, t *pack.Table) mongo.Pipeline {
	data, one := t.Encode(c.KeyOf(doc)), bson.A{}
	size := -c.sizeOf(doc)
	if len(t.Times) > 0 {
		one = append(one, bson.Binary{Data: data})
		size += len(data)
	}
	later := func(field string, had int) bson.D {
		return expr.Op("$slice", expr.Array(expr.Field(field)), had, math.MaxInt32)
	}
	rest := later(c.opts.BlocksField, len(c.blocks(doc)))
	set := bson.D{
		{Key: c.opts.BlocksField, Value: expr.Op("$concatArrays", expr.Literal(one), rest)},
		{Key: c.opts.BytesField, Value: expr.Op("$add", expr.IfNull(expr.Field(c.opts.BytesField), 0), size)},
		{Key: c.opts.RevisionField, Value: expr.Op("$add", expr.IfNull(expr.Field(c.opts.RevisionField), 0), 1)},
	}
	if field := c.opts.BatchField; field != "" {
		// No empty array, which the unique index would take for an ID.
		recent := expr.Filter(expr.Array(expr.Field(field)), "b", expr.Op("$gt", expr.Var("b.at"), expr.Op("$subtract", "$$NOW", remembered.Milliseconds())))
		set = append(set, bson.E{Key: field, Value: expr.Cond(expr.Op("$eq", recent, bson.A{}), "$$REMOVE", recent)})
	}
	return mongo.Pipeline{{{Key: "$set", Value: set}}}
}

// sizeOf is the bytes of a document's blocks.
func (c *store) sizeOf(doc bson.Raw) (size int) {
	for _, v := range c.blocks(doc) {
		_, data, _ := v.BinaryOK()
		size += len(data)
	}
	return size
}
