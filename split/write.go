package split

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Insert stores both documents of an ID, or none. It sets _id in the hot one and
// IDField in the cold one, whatever they hold there. It returns mongopatterns.ErrExists
// if one of the collections has the ID, as when a stored document is inserted again. It returns
// mongopatterns.ErrInvalid if a field is on the wrong side, or is an empty timestamp, which
// the server would replace.
//
// Cost: 3 round trips, 2 documents written.
func (s *Split[ID, H, C]) Insert(ctx context.Context, id ID, hot H, cold C) (err error) {
	ctx = comment.Call(ctx, "split.Insert")
	defer fault.In(&err, "split.Insert")
	c := s.core
	hotDoc, coldDoc, err := c.documents(id, hot, cold)
	if err != nil {
		return err
	}
	raw := hotDoc.Lookup("_id")
	return c.run(ctx, func(ctx context.Context) error {
		if _, err := fault.One(c.hot.InsertOne(ctx, hotDoc)); err != nil {
			return fault.Taken("_id", raw, err)
		}
		_, err := fault.One(c.cold.InsertOne(ctx, coldDoc))
		return fault.Taken(c.idField, raw, err)
	})
}

func (c *core) run(ctx context.Context, fn func(ctx context.Context) error) error {
	return txn.Run(ctx, c.hot, fn)
}

func (c *core) documents(id, hot, cold any) (hotDoc, coldDoc bson.Raw, err error) {
	raw, err := c.codec.ID("id", id)
	if err != nil {
		return nil, nil, err
	}
	if hotDoc, err = c.codec.Stored(hot, c.idField); err != nil {
		return nil, nil, fault.Of(raw, fmt.Errorf("hot: %w", err))
	}
	if coldDoc, err = c.codec.Stored(cold, c.idField); err != nil {
		return nil, nil, fault.Of(raw, fmt.Errorf("cold: %w", err))
	}
	for _, doc := range []bson.Raw{hotDoc, coldDoc} {
		if field := value.Replaced(doc); field != "" {
			return nil, nil, fault.Of(raw, fault.Invalid("%q is the empty timestamp, which the server would replace", field))
		}
	}
	hotDoc = value.With(hotDoc, value.Element{Name: "_id", Value: raw})
	coldDoc = value.With(coldDoc, value.Element{Name: c.idField, Value: raw})
	elements, _ := hotDoc.Elements()
	for _, e := range elements {
		name := e.Key()
		if slices.Contains(c.fields, name) {
			return nil, nil, fault.Of(raw, fault.Invalid("hot: %q is a cold field", name))
		}
		if !c.isID(name) && !coldDoc.Lookup(name).IsZero() {
			return nil, nil, fault.Of(raw, fault.Invalid("%q is in both documents", name))
		}
	}
	return hotDoc, coldDoc, nil
}

// Update changes the documents of an ID with update documents or pipelines. nil leaves a document
// as it is. Both change or none. $set may name a whole document if the IDs in it are those stored.
// An update must not change IDField, nor put cold fields into the hot document. It is
// mongopatterns.ErrInvalid if its operators show that. What only the server sees, as in a pipeline,
// Check finds later.
//
// It returns mongopatterns.ErrNotFound if the hot document does not exist or, with a nil hot, if
// neither document exists. A missing cold document is inserted, in a transaction. If the hot document has cold
// fields, because Adopt has not reached it or an old program has written them, they first move to
// the cold document, in the same transaction. Fields that are InBoth stay where they are.
//
// Cost: both 3 round trips, 2 documents written; hot alone 1 and 1; cold alone 2 and 1, and no transaction.
//   - Where the hot document has cold fields 6 round trips more, and 7 where it has no cold document.
//   - 1 key of each index.
func (s *Split[ID, H, C]) Update(ctx context.Context, id ID, hot, cold any) (err error) {
	ctx = comment.Call(ctx, "split.Update")
	defer fault.In(&err, "split.Update")
	c := s.core
	raw, err := c.codec.ID("id", id)
	switch {
	case err != nil:
		return err
	case hot == nil && cold == nil:
		return fault.Invalid("hot and cold are both nil: there is nothing to update")
	}
	if err := c.checkUpdates(hot, cold); err != nil {
		return err
	}
	if err := c.checkIDField(raw, cold); err != nil {
		return fault.Of(raw, err)
	}
	switch {
	case cold == nil:
		_, err = one(ctx, c.hot, c.hotOf(raw), hot)
		return fault.Of(raw, err)
	case hot == nil:
		whole, err := c.undivided(ctx, raw)
		if err != nil {
			return fault.Of(raw, err)
		}
		if whole {
			break
		}
		if _, err = one(ctx, c.cold, c.coldOf(raw), cold); !errors.Is(err, mongopatterns.ErrNotFound) {
			return fault.Of(raw, err)
		}
	}
	return c.run(ctx, func(ctx context.Context) error { return fault.Of(raw, c.updateBoth(ctx, raw, hot, cold)) })
}

// checkUpdates refuses an update without operators, and one that sets a field of the other
// side, with $set and the like in a bson.D or bson.M.
func (c *core) checkUpdates(hot, cold any) error {
	for _, side := range []struct {
		what   string
		update any
		wrong  func(name string) string
	}{
		{"hot", hot, func(name string) string {
			if slices.Contains(c.fields, name) {
				return "is a cold field: set it in the cold update"
			}
			return ""
		}},
		{"cold", cold, func(name string) string {
			if slices.Contains(c.hotFields, name) && !c.isID(name) {
				return "is a field of H: set it in the hot update"
			}
			return ""
		}},
	} {
		if side.update == nil {
			continue
		}
		if err := codec.CheckUpdate(side.what, side.update); err != nil {
			return err
		}
		for _, path := range setPaths(side.update) {
			name, _, _ := strings.Cut(path, ".")
			if why := side.wrong(name); why != "" {
				return fault.Invalid("%s: %q %s", side.what, name, why)
			}
		}
	}
	return nil
}

// checkIDField refuses operators that remove IDField from a cold document or give it another value. The server refuses
// them for _id.
func (c *core) checkIDField(id bson.RawValue, cold any) error {
	if c.idField == "_id" {
		return nil
	}
	for operator, fields := range entries(cold) {
		for path, v := range c.fieldsOf(fields) {
			name, _, within := strings.Cut(path, ".")
			renamed := operator == "$rename" && v == c.idField
			if name != c.idField && !renamed {
				continue
			}
			sets := !within && (operator == "$set" || operator == "$setOnInsert")
			if to, err := c.codec.Value(v); !sets || err == nil && !value.Same(to, id) {
				return fault.Invalid("cold: %s must not change %q, which has the ID", operator, c.idField)
			}
		}
	}
	return nil
}

// fieldsOf is entries also of a document of another type, such as a struct.
func (c *core) fieldsOf(doc any) iter.Seq2[string, any] {
	switch doc.(type) {
	case bson.D, bson.M:
		return entries(doc)
	}
	raw, _ := c.codec.Document(doc) // the driver returns an error as well
	elements, _ := raw.Elements()
	return func(yield func(string, any) bool) {
		for _, e := range elements {
			if !yield(e.Key(), e.Value()) {
				return
			}
		}
	}
}

// setPaths returns the paths in the operators of a bson.D or bson.M, except those that $unset
// removes.
func setPaths(update any) (paths []string) {
	for operator, fields := range entries(update) {
		if operator == "$unset" {
			continue
		}
		for path := range entries(fields) {
			paths = append(paths, path)
		}
	}
	return paths
}

func entries(doc any) iter.Seq2[string, any] {
	switch d := doc.(type) {
	case bson.M:
		return maps.All(d)
	case bson.D:
		return func(yield func(string, any) bool) {
			for _, e := range d {
				if !yield(e.Key, e.Value) {
					return
				}
			}
		}
	}
	return func(func(string, any) bool) {}
}

// one updates one document, or returns ErrNotFound.
func one(ctx context.Context, coll *scoped.Collection, filter bson.D, update any) (*mongo.UpdateResult, error) {
	done, err := fault.One(coll.UpdateOne(ctx, filter, update))
	if err != nil {
		return nil, err
	}
	if done.MatchedCount == 0 {
		return nil, mongopatterns.ErrNotFound
	}
	return done, nil
}

// updateBoth updates both documents. If the hot document has cold fields, or the cold one does not
// exist, it divides the hot one first.
func (c *core) updateBoth(ctx context.Context, id bson.RawValue, hot, cold any) error {
	hotDone, err := &mongo.UpdateResult{}, mongopatterns.ErrNotFound
	if hot != nil {
		filter := c.hotOf(id)
		if len(c.fields) > 0 {
			filter = append(filter, expr.Element("$nor", c.present))
		}
		hotDone, err = one(ctx, c.hot, filter, hot)
	}
	if errors.Is(err, mongopatterns.ErrNotFound) {
		hotDone, err = c.updateDivided(ctx, id, hot)
	}
	if err != nil {
		return err
	}
	coldDone, err := fault.One(c.cold.UpdateOne(ctx, c.coldOf(id), cold, options.UpdateOne().SetUpsert(true)))
	if err != nil || hotDone.ModifiedCount > 0 || coldDone.UpsertedCount == 0 {
		return err
	}
	// Otherwise nothing would conflict with a deletion at the same time, which would leave the cold one alone.
	return hold.Documents(ctx, c.hot, c.hotOf(id))
}

// updateDivided divides a hot document and updates it.
func (c *core) updateDivided(ctx context.Context, id bson.RawValue, hot any) (*mongo.UpdateResult, error) {
	n, err := c.divide(ctx, bson.A{id}, "", false)
	if err != nil {
		return nil, err
	}
	if n.found == 0 {
		return nil, mongopatterns.ErrNotFound
	}
	if hot == nil {
		return &mongo.UpdateResult{}, nil
	}
	return one(ctx, c.hot, c.hotOf(id), hot)
}

// undivided reports whether a hot document has cold fields.
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

// Delete deletes both documents of an ID, or returns mongopatterns.ErrNotFound if there is no
// hot one, as when a Delete that succeeded is repeated.
//
// Cost: 3 round trips, 2 documents written; 1 key of each index.
func (s *Split[ID, H, C]) Delete(ctx context.Context, id ID) (err error) {
	ctx = comment.Call(ctx, "split.Delete")
	defer fault.In(&err, "split.Delete")
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
			return fault.Of(raw, mongopatterns.ErrNotFound)
		}
		_, err = fault.One(c.cold.DeleteOne(ctx, c.coldOf(raw)))
		return err
	})
}

// A division counts the hot documents found, those changed, and those with fields that stay in
// both. It has the writes that divide them.
type division struct {
	found, done, contested int64

	keep  Side
	colds []mongo.WriteModel // to the cold documents
	hots  []mongo.WriteModel // to the hot documents that keep some of the cold fields
	bare  bson.A             // the hot documents that lose all cold fields
}

// divide moves the cold fields of hot documents, within a transaction, and gives each a cold
// document. It writes the hot ones first, so that other writers wait from then on and do not
// conflict. Of contested fields it keeps the value of one side, or both.
func (c *core) divide(ctx context.Context, ids bson.A, keep Side, dry bool) (n division, err error) {
	if !dry {
		if _, err := fault.Many(c.hot.UpdateMany(ctx, expr.D("_id", expr.Op("$in", ids)), hold.Mark)); err != nil {
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
	n.found, n.keep = int64(len(hot)), keep
	for _, doc := range hot {
		whole, divided := cold[value.Key(doc.Lookup("_id"))]
		c.divideOne(&n, doc, whole, divided)
	}
	if dry || len(hot) == 0 {
		return n, nil
	}
	return n, c.write(ctx, n)
}

// divideOne adds the writes that move the cold fields of a hot document. whole is its cold document, if it is divided.
func (c *core) divideOne(n *division, doc, whole bson.Raw, divided bool) {
	id, contested := doc.Lookup("_id"), c.contested(doc, whole)
	fields := value.Pick(doc, func(field []byte) bool {
		return string(field) != "_id" && (n.keep == Hot || !slices.Contains(contested, string(field)))
	})
	some, _ := fields.Elements()
	merged := mongo.NewUpdateOneModel().SetFilter(c.coldOf(id)).SetUpdate(
		mongo.Pipeline{expr.D("$replaceWith", expr.Op("$mergeObjects", "$$ROOT", expr.Literal(fields)))})
	made := value.With(fields, value.Element{Name: c.idField, Value: id})
	switch {
	case !divided && value.Replaced(made) != "": // which an update stores unchanged
		n.colds = append(n.colds, merged.SetUpsert(true))
	case !divided:
		n.colds = append(n.colds, mongo.NewInsertOneModel().SetDocument(made))
	case len(some) > 0:
		n.colds = append(n.colds, merged)
	}
	if len(contested) > 0 && n.keep == "" {
		n.contested++
		n.hots = append(n.hots, c.unsetCold(c.hotOf(id), contested))
	} else {
		n.bare = append(n.bare, id)
	}
	if !divided || len(some) > 0 || len(contested) > 0 && n.keep == Cold {
		n.done++
	}
}

// unsetCold removes the cold fields of hot documents, except some, and the touch.
func (c *core) unsetCold(filter bson.D, except []string) mongo.WriteModel {
	fields := expr.D(hold.Field, "")
	for _, field := range c.fields {
		if !slices.Contains(except, field) {
			fields = append(fields, expr.Element(field, ""))
		}
	}
	return mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(expr.D("$unset", fields))
}

// write sends the writes of a division. Those to cold documents are unordered, so that their two kinds are at most two
// commands.
func (c *core) write(ctx context.Context, n division) error {
	if len(n.colds) > 0 {
		if _, err := fault.Many(c.cold.BulkWrite(ctx, n.colds, options.BulkWrite().SetOrdered(false))); err != nil {
			return err
		}
	}
	hots := n.hots
	if len(n.bare) > 0 {
		hots = append(hots, c.unsetCold(expr.D("_id", expr.Op("$in", n.bare)), nil))
	}
	_, err := fault.Many(c.hot.BulkWrite(ctx, hots))
	return err
}

// read reads these hot documents and their cold ones, the latter by the keys of their IDs, within
// a transaction.
func (c *core) read(ctx context.Context, ids bson.A, projection bson.D) (hot []bson.Raw, cold map[string]bson.Raw, err error) {
	find := func(coll *scoped.Collection, field string, projection bson.D) ([]bson.Raw, error) {
		return cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			opts := options.Find().SetBatchSize(int32(len(ids) + 1)).SetProjection(projection)
			return coll.Find(ctx, expr.D(field, expr.Op("$in", ids)), opts)
		}))
	}
	if hot, err = find(c.hot, "_id", projection); err != nil {
		return nil, nil, err
	}
	docs, err := find(c.cold, c.idField, bson.D{})
	if err != nil {
		return nil, nil, err
	}
	cold = map[string]bson.Raw{}
	for _, doc := range docs {
		cold[value.Key(doc.Lookup(c.idField))] = doc
	}
	return hot, cold, nil
}
