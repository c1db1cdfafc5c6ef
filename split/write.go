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
// mongopatterns.ErrInvalid if a field is on the wrong side, or is an empty timestamp, which the
// server would replace.
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
	for _, doc := range []bson.Raw{hotDoc, coldDoc} {
		if field := value.Replaced(doc); field != "" {
			return nil, nil, fault.Invalid("%q is an empty timestamp, which the server would replace", field)
		}
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
// that changes, in the same transaction; those InBoth stay where they are. $set may name a whole document, if the IDs in
// it are those stored. An update must not change IDField, nor put cold fields into the
// hot document: Check finds both.
//
// Cost: both 3 round trips, 2 documents written; hot alone 1 and 1; cold alone 2 and
// 1, and no transaction. Where the hot document has cold fields 6 round trips more,
// and 7 where it has no cold document. 1 key of each index.
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
		var n division
		if n, err = c.divide(ctx, bson.A{id}, "", false); err == nil && n.found == 0 {
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
	return c.touch(ctx, c.hotOf(id))
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

// touch is one command of two updates of a hot document: a mark, and its removal. Both
// are real writes, and so conflict with others.
func (c *core) touch(ctx context.Context, filter bson.D) error {
	_, err := fault.Many(c.hot.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(expr.D("$set", expr.D(fieldTouch, true))),
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(expr.D("$unset", expr.D(fieldTouch, ""))),
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

// A division says how many hot documents there were, what became of them, and how many have
// fields that stay in both.
type division struct{ found, done, contested int64 }

// divide moves the cold fields of hot documents, within a transaction, and gives each a cold
// document. It writes the hot ones first: from then on other writers wait, and it conflicts
// with none. Of the contested fields it keeps those of one side, or both.
func (c *core) divide(ctx context.Context, ids bson.A, keep Side, dry bool) (n division, err error) {
	all := expr.D("_id", expr.Op("$in", ids))
	if !dry {
		if _, err := fault.Many(c.hot.UpdateMany(ctx, all, expr.D("$set", expr.D(fieldTouch, true)))); err != nil {
			return n, err
		}
	}
	projection := expr.D("_id", 1)
	for _, field := range c.fields {
		projection = append(projection, expr.Element(field, 1))
	}
	hot, cold, err := c.read(ctx, ids, projection)
	if err != nil {
		return n, err
	}
	n.found = int64(len(hot))
	var colds, hots []mongo.WriteModel
	unset := func(filter bson.D, but []string) mongo.WriteModel {
		fields := expr.D(fieldTouch, "")
		for _, field := range c.fields {
			if !slices.Contains(but, field) {
				fields = append(fields, expr.Element(field, ""))
			}
		}
		return mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(expr.D("$unset", fields))
	}
	var these bson.A // from which all cold fields go
	for _, doc := range hot {
		id := doc.Lookup("_id")
		whole, divided := cold[value.Key(id)]
		contested := c.contested(doc, whole)
		fields := value.Pick(doc, func(field []byte) bool {
			return string(field) != "_id" && (keep == Hot || !slices.Contains(contested, string(field)))
		})
		some, _ := fields.Elements()
		merged := mongo.NewUpdateOneModel().SetFilter(c.coldOf(id)).SetUpdate(
			mongo.Pipeline{expr.D("$replaceWith", expr.Op("$mergeObjects", "$$ROOT", expr.Literal(fields)))})
		made := value.With(fields, value.Element{Name: c.idField, Value: id})
		switch {
		case !divided && value.Replaced(made) != "": // which an update stores as it is
			colds = append(colds, merged.SetUpsert(true))
		case !divided:
			colds = append(colds, mongo.NewInsertOneModel().SetDocument(made))
		case len(some) > 0:
			colds = append(colds, merged)
		}
		if len(contested) > 0 && keep == "" {
			n.contested++
			hots = append(hots, unset(c.hotOf(id), contested))
		} else {
			these = append(these, id)
		}
		if !divided || len(some) > 0 || len(contested) > 0 && keep == Cold {
			n.done++
		}
	}
	if dry || len(hot) == 0 {
		return n, nil
	}
	// Unordered, so that they go in two commands at most, by their kind.
	if len(colds) > 0 {
		if _, err := fault.Many(c.cold.BulkWrite(ctx, colds, options.BulkWrite().SetOrdered(false))); err != nil {
			return n, err
		}
	}
	if len(these) > 0 {
		hots = append(hots, unset(expr.D("_id", expr.Op("$in", these)), nil))
	}
	_, err = fault.Many(c.hot.BulkWrite(ctx, hots))
	return n, err
}

// read reads these hot documents and, by the keys of their IDs, their cold ones, within a
// transaction.
func (c *core) read(ctx context.Context, ids bson.A, projection bson.D) (hot []bson.Raw, cold map[string]bson.Raw, err error) {
	find := func(coll *mongo.Collection, field string, projection bson.D) ([]bson.Raw, error) {
		return cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			opts := options.Find().SetBatchSize(int32(len(ids) + 1)).SetProjection(projection)
			return coll.Find(ctx, expr.D(field, expr.Op("$in", ids)), opts)
		}))
	}
	if hot, err = find(c.hot, "_id", projection); err != nil {
		return nil, nil, err
	}
	docs, err := find(c.cold, c.idField, bson.D{})
	cold = map[string]bson.Raw{}
	for _, doc := range docs {
		cold[value.Key(doc.Lookup(c.idField))] = doc
	}
	return hot, cold, err
}
