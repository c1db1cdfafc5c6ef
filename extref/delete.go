package extref

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// ErrReferenced says that Delete was refused because copies of the source are left;
// the error names a document that holds one.
var ErrReferenced = fault.New("still referenced", fault.ErrConflict)

// Delete deletes a source and treats its copies by the policy of each target, in
// one transaction. Result.Done counts the documents whose copies were removed, or
// which were deleted. If a target refuses, it is ErrReferenced and nothing is
// written. A reference pinned at the same time conflicts with it: either the
// deletion sees it or it sees the deletion. Repeated after an unknown outcome it is
// mongopatterns.ErrNotFound if it was done.
//
// Cost: 2 round trips, commit included, 1 document deleted by its key; 1 round trip
// for each target but Keep, by its index, and 1 write for each document that is
// Unset or Cascade.
func (r *Ref[ID, S]) Delete(ctx context.Context, id ID) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "extref: delete")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	key, err := r.core.codec.ID("source", id)
	if err != nil {
		return result, err
	}
	return r.core.delete(ctx, key)
}

// delete deletes the source first: what pins it at the same time conflicts with
// that, so each target shows all its copies, and a reference of the source to
// itself is gone with it.
func (c *core) delete(ctx context.Context, key bson.RawValue) (result mongopatterns.Result, err error) {
	err = txn.Run(ctx, c.client(), func(ctx context.Context) error {
		result = mongopatterns.Result{}
		deleted, err := fault.One(c.source.DeleteOne(ctx, c.by(key)))
		if err != nil {
			return err
		}
		if deleted.DeletedCount == 0 {
			return of(key, fault.ErrNotFound)
		}
		for _, t := range c.targets {
			if err := t.release(ctx, key, &result); err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		result = mongopatterns.Result{}
	}
	return result, err
}

// release does with the copies of a source that is gone what the policy says.
func (t *target) release(ctx context.Context, key bson.RawValue, result *mongopatterns.Result) error {
	var model mongo.WriteModel
	switch t.OnDelete {
	case Keep:
		return nil
	case Refuse:
		doc, err := t.primary.FindOne(ctx, t.where(key), options.FindOne().SetProjection(idOnly)).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err == nil {
			err = of(key, fault.Of(doc.Lookup("_id"), ErrReferenced))
		}
		return err
	case Unset:
		update := expr.Op("$unset", t.each(""))
		if t.Array {
			update = expr.Op("$pull", expr.Op(t.Path, t.sound(key)))
		}
		model = mongo.NewUpdateManyModel().SetFilter(t.proper(key)).SetUpdate(update)
	case Cascade:
		model = mongo.NewDeleteManyModel().SetFilter(t.proper(key))
	}
	done, err := fault.Many(t.Collection.BulkWrite(ctx, []mongo.WriteModel{model}))
	if err == nil {
		result.Done += done.ModifiedCount + done.DeletedCount
	}
	return err
}

var idOnly = bson.D{{Key: "_id", Value: 1}}
