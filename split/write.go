package split

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Add stores both documents of an ID, or none. It sets _id in the hot one and
// IDField in the cold one, whatever they hold there. A duplicate-key error of the
// driver if the ID exists, as when an Add that was stored is repeated;
// mongopatterns.ErrInvalid if a field is on the wrong side.
//
// Cost: 3 round trips, 2 documents written.
func (s *Split[ID, H, C]) Add(ctx context.Context, id ID, hot H, cold C) (err error) {
	defer fault.In(&err, "split: add")
	c := s.core
	hotDoc, coldDoc, err := c.documents(id, hot, cold)
	if err != nil {
		return err
	}
	return c.run(ctx, func(ctx context.Context) error {
		if _, err := fault.One(c.hot.InsertOne(ctx, hotDoc)); err != nil {
			return err
		}
		_, err := fault.One(c.cold.InsertOne(ctx, coldDoc))
		return err
	})
}

func (c *core) run(ctx context.Context, fn func(ctx context.Context) error) error {
	return txn.Run(ctx, c.hot.Database().Client(), fn)
}

func (c *core) documents(id, hot, cold any) (hotDoc, coldDoc bson.Raw, err error) {
	raw, err := c.codec.ID("id", id)
	if err != nil {
		return nil, nil, err
	}
	if hotDoc, err = c.codec.Document(hot); err != nil {
		return nil, nil, fmt.Errorf("hot: %w", err)
	}
	if coldDoc, err = c.codec.Document(cold); err != nil {
		return nil, nil, fmt.Errorf("cold: %w", err)
	}
	hotDoc = value.With(hotDoc, value.Element{Name: "_id", Value: raw})
	coldDoc = value.With(coldDoc, value.Element{Name: c.idField, Value: raw})
	elements, _ := hotDoc.Elements()
	for _, e := range elements {
		name := e.Key()
		if slices.Contains(c.fields, name) {
			return nil, nil, fault.Invalid("%q is a cold field", name)
		}
		if !c.isID(name) && !coldDoc.Lookup(name).IsZero() {
			return nil, nil, fault.Invalid("%q is in both documents", name)
		}
	}
	return hotDoc, coldDoc, nil
}

// Update changes the documents of an ID by update documents or pipelines; nil
// leaves one as it is. Both change or none. mongopatterns.ErrNotFound if there is no hot
// document, or for nil in its place no cold one either; a missing cold one is
// inserted. Cold fields that still stand in the hot document (Adopt has not
// reached it, or an old program has written them) move to the cold one before
// that changes, in the same transaction. $set may name a whole document, if the IDs in
// it are those stored. An update must not change IDField, nor put cold fields into the
// hot document: Check finds both.
//
// Cost: both 3 round trips, 2 documents written; hot alone 1 and 1; cold alone 2 and
// 1, and no transaction. Where the hot document has cold fields 5 round trips more,
// and 6 where it has no cold document. 1 key of each index.
func (s *Split[ID, H, C]) Update(ctx context.Context, id ID, hot, cold any) (err error) {
	defer fault.In(&err, "split: update")
	c := s.core
	raw, err := c.codec.ID("id", id)
	switch {
	case err != nil:
		return err
	case hot == nil && cold == nil:
		return fault.Invalid("no update: hot and cold are nil")
	case cold == nil:
		_, err = one(ctx, c.hot, c.hotOf(raw), hot)
		return fault.Of(raw, err)
	case hot == nil:
		whole, err := c.undivided(ctx, raw)
		if err == nil && !whole {
			_, err = one(ctx, c.cold, c.coldOf(raw), cold)
		}
		if !whole && !errors.Is(err, fault.ErrNotFound) {
			return fault.Of(raw, err)
		}
	}
	return c.run(ctx, func(ctx context.Context) error { return fault.Of(raw, c.updateBoth(ctx, raw, hot, cold)) })
}

// one updates one document; none is ErrNotFound.
func one(ctx context.Context, coll *mongo.Collection, filter bson.D, update any) (*mongo.UpdateResult, error) {
	done, err := fault.One(coll.UpdateOne(ctx, filter, update))
	if err == nil && done.MatchedCount == 0 {
		err = fault.ErrNotFound
	}
	return done, err
}

// updateBoth moves cold fields out of the hot document if it has some, or no cold
// one, and updates both.
func (c *core) updateBoth(ctx context.Context, id bson.RawValue, hot, cold any) error {
	hotDone, err := &mongo.UpdateResult{}, fault.ErrNotFound
	if hot != nil {
		filter := c.hotOf(id)
		if len(c.fields) > 0 {
			filter = append(filter, expr.Element("$nor", c.present))
		}
		hotDone, err = one(ctx, c.hot, filter, hot)
	}
	if errors.Is(err, fault.ErrNotFound) {
		var n int64
		if n, err = c.divide(ctx, bson.A{id}); err == nil && n == 0 {
			err = fault.ErrNotFound
		}
		if err == nil && hot != nil {
			hotDone, err = one(ctx, c.hot, c.hotOf(id), hot)
		}
	}
	if err != nil {
		return err
	}
	coldDone, err := fault.One(c.cold.UpdateOne(ctx, c.coldOf(id), cold, options.UpdateOne().SetUpsert(true)))
	if err != nil || hotDone.ModifiedCount > 0 || coldDone.UpsertedCount == 0 {
		return err
	}
	// Else nothing conflicts with a deletion at the same time, which would leave the cold one alone.
	return c.touch(ctx, c.hotOf(id), expr.D(fieldTouch, ""))
}

// undivided looks whether a hot document has cold fields.
func (c *core) undivided(ctx context.Context, id bson.RawValue) (bool, error) {
	if len(c.fields) == 0 {
		return false, nil
	}
	filter := append(c.hotOf(id), expr.Element("$or", c.present))
	err := cursor.Primary(c.hot).FindOne(ctx, filter, options.FindOne().SetProjection(onlyID)).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// touch is one command of two updates of hot documents: a mark, and its removal with
// other fields. Both are real writes, and so conflict with others.
func (c *core) touch(ctx context.Context, filter, unset bson.D) error {
	_, err := fault.Many(c.hot.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(expr.D("$set", expr.D(fieldTouch, true))),
		mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(expr.D("$unset", unset)),
	}))
	return err
}

// Delete deletes both documents of an ID. mongopatterns.ErrNotFound if there is no hot
// one, as when a Delete that was done is repeated.
//
// Cost: 3 round trips, 2 documents written; 1 key of each index.
func (s *Split[ID, H, C]) Delete(ctx context.Context, id ID) (err error) {
	defer fault.In(&err, "split: delete")
	c := s.core
	raw, err := c.codec.ID("id", id)
	if err != nil {
		return err
	}
	return c.run(ctx, func(ctx context.Context) error {
		done, err := fault.One(c.hot.DeleteOne(ctx, c.hotOf(raw)))
		if err != nil {
			return err
		}
		if done.DeletedCount == 0 {
			return fault.Of(raw, fault.ErrNotFound)
		}
		_, err = fault.One(c.cold.DeleteOne(ctx, c.coldOf(raw)))
		return err
	})
}

// divide moves the cold fields of hot documents in a transaction, gives each a cold
// document, and says how many hot ones there are. It reads in the transaction's
// snapshot and writes all hot ones for real: so it conflicts with whatever has
// changed them since.
func (c *core) divide(ctx context.Context, ids bson.A) (written int64, err error) {
	projection, unset := expr.D("_id", 1), expr.D(fieldTouch, "")
	for _, field := range c.fields {
		projection, unset = append(projection, expr.Element(field, 1)), append(unset, expr.Element(field, ""))
	}
	err = c.run(ctx, func(ctx context.Context) error {
		hot, divided, err := c.read(ctx, ids, projection)
		written = int64(len(hot))
		if err != nil || written == 0 {
			return err
		}
		var models []mongo.WriteModel
		var these bson.A
		for _, doc := range hot {
			id := doc.Lookup("_id")
			these = append(these, id)
			fields := value.Pick(doc, func(field []byte) bool { return string(field) != "_id" })
			if !divided[value.Key(id)] {
				cold := value.With(fields, value.Element{Name: c.idField, Value: id})
				models = append(models, mongo.NewInsertOneModel().SetDocument(cold))
			} else {
				merged := mongo.Pipeline{expr.D("$replaceWith", expr.Op("$mergeObjects", "$$ROOT", expr.Literal(fields)))}
				models = append(models, mongo.NewUpdateOneModel().SetFilter(c.coldOf(id)).SetUpdate(merged))
			}
		}
		// Unordered, so that they go in two commands at most, by their kind.
		if _, err := fault.Many(c.cold.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))); err != nil {
			return err
		}
		return c.touch(ctx, expr.D("_id", expr.Op("$in", these)), unset)
	})
	return written, err
}

// read reads these hot documents and which of them have a cold one, within a transaction.
func (c *core) read(ctx context.Context, ids bson.A, projection bson.D) (
	hot []bson.Raw, divided map[string]bool, err error) {
	find := func(coll *mongo.Collection, field string, projection bson.D) ([]bson.Raw, error) {
		return cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			opts := options.Find().SetBatchSize(int32(len(ids) + 1)).SetProjection(projection)
			return coll.Find(ctx, expr.D(field, expr.Op("$in", ids)), opts)
		}))
	}
	if hot, err = find(c.hot, "_id", projection); err != nil {
		return nil, nil, err
	}
	cold, err := find(c.cold, c.idField, expr.D(c.idField, 1))
	divided = map[string]bool{}
	for _, doc := range cold {
		divided[value.Key(doc.Lookup(c.idField))] = true
	}
	return hot, divided, err
}
