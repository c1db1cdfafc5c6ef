package extref

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// UpdateResult says what Update or Replace did.
type UpdateResult struct {
	// Changed says that a followed field changed, or that the update raised the
	// version itself.
	Changed bool `json:"changed"`
	// Version is the source's version now; 0 if no target has versions.
	Version int64 `json:"version"`
	// Copies is how many documents of the targets were written; none with an
	// outbox or with Deferred.
	Copies int64 `json:"copies"`
}

// Update changes a source. update is what the driver's UpdateOne takes: update
// operators or a pipeline. If a followed field has changed by it the version is
// raised in the same transaction, and the change goes to the copies, or into the
// outbox, there as well. The version never goes back: a lower one that the update
// sets is not kept.
//
// Cost: 3 round trips and 1 document written, by _id, commit included, if no
// followed field changed. Else 1 round trip and 1 write more for the version, if
// some target has versions; and for each target with followed fields 1 round
// trip, by its index, and 1 write for each document that holds a copy; with an
// outbox 1 round trip and 1 write instead; with Deferred neither.
func (r *Ref[ID, S]) Update(ctx context.Context, id ID, update any) (UpdateResult, error) {
	if update == nil {
		return UpdateResult{}, fmt.Errorf("extref: update: %w: update: nil", ErrInvalid)
	}
	raw, err := r.id(id)
	if err != nil {
		return UpdateResult{}, fmt.Errorf("extref: update: %w", err)
	}
	result, err := r.change(ctx, raw, func(ctx context.Context, filter bson.D) *mongo.SingleResult {
		return r.source.FindOneAndUpdate(ctx, filter, update,
			options.FindOneAndUpdate().SetProjection(r.projection()).SetReturnDocument(options.Before))
	})
	if err != nil {
		return UpdateResult{}, fmt.Errorf("extref: update: %w", err)
	}
	return result, nil
}

// Replace is Update with a whole document in place of the stored one. The
// version goes on from the stored one, unless src holds a higher one. An _id in src
// must be id. Fields that src lacks go, also those that other code keeps in the
// document, such as a pattern of another package; Update leaves them.
//
// Cost: as Update; 1 round trip and 1 write for the version also if no followed
// field changed but src holds an older version.
func (r *Ref[ID, S]) Replace(ctx context.Context, id ID, src S) (UpdateResult, error) {
	raw, err := r.id(id)
	if err != nil {
		return UpdateResult{}, fmt.Errorf("extref: replace: %w", err)
	}
	doc, err := encode.Document(r.opts.Registry, src)
	if err != nil {
		return UpdateResult{}, fmt.Errorf("extref: replace: source %s: %w: %w", rawvalue.Text(raw), ErrInvalid, err)
	}
	if other := rawvalue.Lookup(doc, "_id"); other.Type != 0 && rawvalue.Key(other) != rawvalue.Key(raw) {
		return UpdateResult{}, fmt.Errorf("extref: replace: source %s: %w: _id is %s", rawvalue.Text(raw), ErrInvalid, rawvalue.Text(other))
	}
	if _, err := r.valid(raw, doc); err != nil {
		return UpdateResult{}, fmt.Errorf("extref: replace: %w", err)
	}
	result, err := r.change(ctx, raw, func(ctx context.Context, filter bson.D) *mongo.SingleResult {
		return r.source.FindOneAndReplace(ctx, filter, doc,
			options.FindOneAndReplace().SetProjection(r.projection()).SetReturnDocument(options.Before))
	})
	if err != nil {
		return UpdateResult{}, fmt.Errorf("extref: replace: %w", err)
	}
	return result, nil
}

// change runs a change of the source that returns the document as it was.
func (r *Ref[ID, S]) change(ctx context.Context, raw bson.RawValue, apply func(context.Context, bson.D) *mongo.SingleResult) (UpdateResult, error) {
	filter := byID(raw)
	invalid := arrays("", r.ways)
	if r.versioned {
		version := op("$ifNull", "$"+r.opts.VersionField, 0)
		invalid = append(invalid,
			bson.D{{Key: r.opts.VersionField, Value: bson.D{
				{Key: "$ne", Value: nil}, {Key: "$not", Value: bson.D{{Key: "$type", Value: bson.A{"int", "long", "double"}}}},
			}}},
			bson.D{{Key: r.opts.VersionField, Value: isArray}},
			bson.D{{Key: r.opts.VersionField, Value: bson.D{{Key: "$lt", Value: 0}}}},
			bson.D{{Key: r.opts.VersionField, Value: bson.D{{Key: "$gt", Value: int64(maxVersion)}}}},
			bson.D{{Key: "$expr", Value: op("$ne", version, op1("$convert", bson.D{ // a fraction, or no number at all
				{Key: "input", Value: version}, {Key: "to", Value: "long"}, {Key: "onError", Value: nil},
			}))}})
	}
	if len(invalid) > 0 { // refused before anything is written
		filter = append(filter, bson.E{Key: "$nor", Value: invalid})
	}
	var result UpdateResult
	err := txn.Run(ctx, r.source.Database().Client(), func(ctx context.Context) error {
		result = UpdateResult{}
		before, err := r.result(raw, apply(ctx, filter))
		if errors.Is(err, ErrNotFound) && len(invalid) > 0 {
			if _, why := r.find(ctx, raw); why != nil {
				err = why
			}
		}
		if err != nil {
			return err
		}
		after, changed, err := r.raise(ctx, raw, before)
		if err != nil {
			return err
		}
		result.Changed, result.Version = changed, after.version
		switch {
		case !changed || r.opts.Deferred:
			return nil
		case r.opts.Outbox != nil:
			return r.enqueue(ctx, raw)
		}
		result.Copies, err = r.propagate(ctx, after, nil)
		return err
	})
	if err != nil {
		return UpdateResult{}, err
	}
	return result, nil
}

// raise reads the state after a change, and sets the version that follows from
// the state before it unless the change has set a higher one.
func (r *Ref[ID, S]) raise(ctx context.Context, id bson.RawValue, before state) (state, bool, error) {
	after, err := r.find(ctx, id)
	if err != nil {
		return after, false, err
	}
	changed, due := after.version > before.version, before.version
	for _, f := range r.follow {
		if !rawvalue.Lookup(before.doc, f.Path).Equal(rawvalue.Lookup(after.doc, f.Path)) {
			changed, due = true, before.version+1
			break
		}
	}
	if !r.versioned || after.version >= due {
		return after, changed, nil
	}
	if due > maxVersion {
		return after, false, r.noVersion(id, rawInt64(due))
	}
	after.version = due
	_, err = r.source.UpdateOne(ctx, byID(id), bson.D{{Key: "$set", Value: bson.D{{Key: r.opts.VersionField, Value: due}}}})
	return after, changed, err
}
