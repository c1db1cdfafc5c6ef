package series

import (
	"context"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Compact merges the blocks of each document into one, sorted by time, which takes less space. work.Filter
// selects documents of the collection. Use a filter on the start to exclude windows that still fill,
// because those would be rewritten again and again. Compact does not write documents with one block, so it
// can be stopped and run again.
//
// Blocks that are appended meanwhile stay as further blocks. A document that another call compacts or edits
// meanwhile is Skipped. A damaged document is Failed and not changed. With Options.BatchField Compact
// removes the IDs of batches that are ten minutes old or older, so a batch that is repeated after that is
// stored twice.
//
// Cost: 1 round trip, and for each batch of 100 documents 1 to read and 1 to write, 1 document for each with several
// blocks.
//   - The collection is scanned by _id, unless the filter has a better index.
func (s *Series[ID, M]) Compact(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.Compact")
	defer fault.In(&err, "series.Compact")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	c := s.core
	if err := maintain.Ready(ctx, work, c.frame.Coll); err != nil {
		return result, err
	}
	open := expr.D(c.opts.BlocksField+".1", expr.Op("$exists", true))
	return maintain.Run(ctx, c.frame.Coll, work, maintain.Scan{Filter: open, BatchSize: transfer.WholeBatch},
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			var models []mongo.WriteModel
			for _, doc := range batch {
				t, err := c.load(doc)
				if err != nil && w.Strict {
					return err
				}
				if err != nil {
					maintain.Fail(result, c.frame.Coll.Name(), doc.Lookup("_id"), err)
					continue
				}
				t.Sort()
				models = append(models, mongo.NewUpdateOneModel().SetFilter(c.frame.UnchangedFilter(doc, c.opts.MarkField, c.opts.RevisionField)).SetUpdate(c.compacted(doc, t)))
			}
			return maintain.Rewrite(ctx, c.frame.Coll, models, w, result)
		})
}

// remembered is how long the ID of a batch is kept after its block is merged.
const remembered = 10 * time.Minute

// compacted is the update that replaces the blocks that a document had when it was read by a table. New
// blocks are appended at the end, so the update keeps those that came since; its filter compares only mark
// and revision, so that appends do not make it fail.
func (c *core) compacted(doc bson.Raw, t *pack.Table) mongo.Pipeline {
	data, one := t.Encode(c.frame.KeyOf(doc)), bson.A{}
	size := -c.sizeOf(doc)
	if len(t.Times) > 0 {
		one = append(one, bson.Binary{Data: data})
		size += len(data)
	}
	later := func(field string, had int) bson.D {
		return expr.Op("$slice", expr.Array(expr.Field(field)), had, math.MaxInt32)
	}
	rest := later(c.opts.BlocksField, len(c.blocks(doc)))
	set := expr.D(
		c.opts.BlocksField, expr.Op("$concatArrays", expr.Literal(one), rest),
		c.opts.BytesField, expr.Op("$add", expr.IfNull(expr.Field(c.opts.BytesField), 0), size),
		c.opts.RevisionField, expr.Op("$add", expr.IfNull(expr.Field(c.opts.RevisionField), 0), 1),
	)
	if field := c.opts.BatchField; field != "" {
		// Remove an empty array: the unique index would treat it as an ID.
		recent := expr.Filter(expr.Array(expr.Field(field)), "b", expr.Op("$gt", expr.Var("b.at"), expr.Op("$subtract", "$$NOW", remembered.Milliseconds())))
		set = append(set, expr.Element(field, expr.Cond(expr.Op("$eq", recent, bson.A{}), "$$REMOVE", recent)))
	}
	return mongo.Pipeline{expr.Op("$set", set)}
}

// sizeOf is the number of bytes of a document's blocks.
func (c *core) sizeOf(doc bson.Raw) (size int) {
	for _, v := range c.blocks(doc) {
		_, data, _ := v.BinaryOK()
		size += len(data)
	}
	return size
}
