package extref

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// DeleteResult counts the documents of the targets that Delete wrote.
type DeleteResult struct {
	Unset   int64 `json:"unset"`   // documents whose copies were removed
	Deleted int64 `json:"deleted"` // documents deleted with the source
}

// Delete deletes a source and treats its copies by the policy of each target, in
// one transaction. A target that refuses makes it a *ReferencedError, which
// matches ErrReferenced, and nothing is written. References pinned at the same
// time conflict with it: either the deletion sees them or they see it. What holds
// the ID in another shape than the target's (Malformed) makes Refuse refuse, and is
// left alone by Unset and Cascade.
//
// Cost: 2 round trips, commit included, 1 document deleted by _id; 1 round trip
// for each target that is Unset or Cascade, by its index, and 1 write for each
// document there; if targets Refuse, 1 round trip and 1 write to the source more,
// and 1 round trip for each, by its index.
func (r *Ref[ID, S]) Delete(ctx context.Context, id ID) (DeleteResult, error) {
	raw, err := r.id(id)
	if err != nil {
		return DeleteResult{}, fmt.Errorf("extref: delete: %w", err)
	}
	joined := txn.Running(ctx)
	var result DeleteResult
	err = txn.Run(ctx, r.source.Database().Client(), func(ctx context.Context) error {
		result = DeleteResult{}
		if err := r.refuse(ctx, raw, joined); err != nil {
			return err
		}
		done, err := r.source.DeleteOne(ctx, byID(raw))
		if err != nil {
			return err
		}
		if done.DeletedCount == 0 {
			return fmt.Errorf("source %s: %w", rawvalue.Text(raw), ErrNotFound)
		}
		for i := range r.targets {
			if err := r.targets[i].release(ctx, raw, &result); err != nil {
				return fmt.Errorf("%s: %w", r.targets[i].Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return DeleteResult{}, fmt.Errorf("extref: delete: %w", err)
	}
	return result, nil
}

// refuse looks for copies that keep the source from being deleted. It writes to
// the source first, so that no reference is pinned behind its back, and takes
// that back in a transaction that may go on.
func (r *Ref[ID, S]) refuse(ctx context.Context, id bson.RawValue, joined bool) error {
	touched := false
	for i := range r.targets {
		t := &r.targets[i]
		if t.OnDelete != Refuse {
			continue
		}
		if !touched {
			done, err := r.source.UpdateOne(ctx, byID(id), touching())
			if err != nil {
				return err
			}
			if done.MatchedCount == 0 {
				return fmt.Errorf("source %s: %w", rawvalue.Text(id), ErrNotFound)
			}
			touched = true
		}
		filter := t.where(rawvalue.Equal(id))
		if same(r.source, t.Collection) { // a reference to itself goes with it
			filter = append(filter, bson.E{Key: "_id", Value: bson.D{{Key: "$ne", Value: id}}})
		}
		doc, err := t.primary.FindOne(ctx, filter, options.FindOne().SetProjection(idOnly)).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if joined {
			if _, err := r.source.UpdateOne(ctx, byID(id), untouching()); err != nil {
				return err
			}
		}
		return &ReferencedError{Target: t.Name, Source: id, ID: doc.Lookup("_id")}
	}
	return nil
}

// release removes the copies of a source that is gone. What refers to it in
// another shape it leaves alone.
func (t *target) release(ctx context.Context, id bson.RawValue, result *DeleteResult) error {
	filter := append(t.where(rawvalue.Equal(id)), t.shape()...)
	switch t.OnDelete {
	case Unset:
		var update bson.D
		switch {
		case t.Array:
			element := append(bson.D{{Key: t.IDField, Value: rawvalue.Equal(id)}}, noArray("", t.IDField)...)
			update = bson.D{{Key: "$pull", Value: bson.D{{Key: t.Path, Value: element}}}}
		case t.Path != "":
			update = bson.D{{Key: "$unset", Value: bson.D{{Key: t.Path, Value: ""}}}}
		default:
			var fields bson.D
			paths := t.paths("")
			for i := 1; i < len(paths); i += 2 {
				fields = append(fields, bson.E{Key: paths[i], Value: ""})
			}
			update = bson.D{{Key: "$unset", Value: fields}}
		}
		done, err := t.Collection.UpdateMany(ctx, filter, update)
		if err != nil {
			return err
		}
		result.Unset += done.ModifiedCount
	case Cascade:
		done, err := t.Collection.DeleteMany(ctx, filter)
		if err != nil {
			return err
		}
		result.Deleted += done.DeletedCount
	}
	return nil
}
