package extref

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Delete deletes a source and applies the policy of each target to the copies, in one transaction.
// Result.Done counts the documents that lost their copy or were deleted. If a target refuses,
// Delete returns ErrReferenced and writes nothing. It conflicts with a Pin at the same time, so
// either Delete sees the reference or Pin sees the deletion. Repeated after an unknown outcome, it
// returns mongopatterns.ErrNotFound if the first call had succeeded.
//
// Cost: 2 round trips, commit included, 1 document deleted by its key; 1 for each target but Keep, by its index.
//   - Unlink and Cascade: 1 write for each document.
func (r *Source[ID, T]) Delete(ctx context.Context, id ID) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "extref.Delete")
	defer fault.In(&err, "extref.Delete")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	key, err := r.core.codec.ID("source", id)
	if err != nil {
		return result, err
	}
	return r.core.delete(ctx, key)
}

// delete deletes the source first. A pin at the same time conflicts with that, so each target then
// shows all copies, and a reference of the source to itself is deleted with it.
func (c *core) delete(ctx context.Context, key bson.RawValue) (result mongopatterns.Result, err error) {
	err = txn.Run(ctx, c.source, func(ctx context.Context) error {
		result = mongopatterns.Result{}
		deleted, err := fault.One(c.source.DeleteOne(ctx, c.by(key)))
		if err != nil {
			return err
		}
		if deleted.DeletedCount == 0 {
			return c.of(key, mongopatterns.ErrNotFound)
		}
		for _, t := range c.targets {
			if err := t.release(ctx, key, &result); err != nil {
				return c.of(key, fmt.Errorf("target %s: %w", t.Name, err))
			}
		}
		return nil
	})
	if err != nil {
		result = mongopatterns.Result{}
	}
	return result, err
}

// release applies a target's policy to the copies of a deleted source.
func (t *target) release(ctx context.Context, key bson.RawValue, result *mongopatterns.Result) error {
	var model mongo.WriteModel
	switch t.OnDelete {
	case mongopatterns.Keep:
		return nil
	case mongopatterns.Restrict:
		doc, err := t.primary.FindOne(ctx, t.where(key), options.FindOne().SetProjection(idOnly)).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err != nil {
			return err
		}
		return fault.Of(doc.Lookup("_id"), mongopatterns.ErrReferenced)
	case mongopatterns.Unlink:
		update := expr.Op("$unset", t.each(""))
		if t.Array {
			update = expr.Op("$pull", expr.D(t.Path, t.sound(key)))
		}
		model = mongo.NewUpdateManyModel().SetFilter(t.proper(key)).SetUpdate(update)
	case mongopatterns.Cascade:
		model = mongo.NewDeleteManyModel().SetFilter(t.proper(key))
	}
	done, err := fault.Many(t.coll.BulkWrite(ctx, []mongo.WriteModel{model}))
	if err == nil {
		result.Done += done.ModifiedCount + done.DeletedCount
	}
	return err
}

var idOnly = expr.D("_id", 1)
