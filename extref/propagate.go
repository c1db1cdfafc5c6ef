package extref

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

const defaultBatchSize = 1000

// PropagateOptions bounds Propagate.
type PropagateOptions struct {
	// BatchSize is how many documents one write updates. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents written so far.
	// Default nil.
	Progress func(done int64)
	// Compare also finds copies of the source's version that have other values,
	// for sources changed by writers who do not raise the version, and raises it
	// for them. It reads all copies of the source. A reference built before such a
	// change and inserted after this is not behind by its version, so Check finds
	// it and Stale does not. Not needed for targets that are Unversioned. Default
	// false.
	Compare bool
}

// PropagateResult says what Propagate did.
type PropagateResult struct {
	// Version is that of the source which was propagated; 0 if no target has
	// versions.
	Version int64 `json:"version"`
	// Copies is how many documents were written.
	Copies int64 `json:"copies"`
}

// Propagate brings the followed fields of a source into all copies that are
// behind, in batches. Copies that are up to date are not written. Two of them at
// the same time, or one stopped in the middle and run again, do no harm. In a
// transaction each target is written by one update, whatever BatchSize.
//
// Cost: 1 round trip for the source; for each target with followed fields 1 to
// find the copies that are behind, by its index, and for each batch of BatchSize 1
// to write it, by _id, and 1 to read on, unless it is the last. If the target is
// Unversioned a batch takes 4 to write, commit included, and 2 writes to the
// source. In a transaction 1 for the source, or with Compare or an Unversioned
// target 2, which write to it, and 1 for each target. With Compare 1 more for each
// target with versions; if values differ 1, which writes, to raise the version, and
// the targets once more.
func (r *Ref[ID, S]) Propagate(ctx context.Context, id ID, opts *PropagateOptions) (PropagateResult, error) {
	var o PropagateOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "PropagateOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return PropagateResult{}, fmt.Errorf("extref: propagate: %w", err)
	}
	raw, err := r.id(id)
	if err != nil {
		return PropagateResult{}, fmt.Errorf("extref: propagate: %w", err)
	}
	result, err := r.propagateID(ctx, raw, &o)
	if err != nil {
		return result, fmt.Errorf("extref: propagate: %w", err)
	}
	return result, nil
}

func (r *Ref[ID, S]) propagateID(ctx context.Context, id bson.RawValue, o *PropagateOptions) (PropagateResult, error) {
	ctx, end, err := r.causal(ctx)
	if err != nil {
		return PropagateResult{}, err
	}
	defer end()
	read := r.find
	if txn.Running(ctx) && (o.Compare || slices.ContainsFunc(r.following, func(t *target) bool { return t.Unversioned })) {
		read = r.pin // only versions that rise with every change are guard enough
	}
	s, err := read(ctx, id)
	if err != nil {
		return PropagateResult{}, err
	}
	result := PropagateResult{Version: s.version}
	if result.Copies, err = r.propagate(ctx, s, o); err != nil || !o.Compare {
		return result, err
	}
	// No copy is behind now, so nobody brings other values of this version into
	// one after compare has looked at it.
	raised, err := r.compare(ctx, id, s)
	if err != nil || raised.version == s.version {
		return result, err
	}
	done := result.Copies
	again := *o
	again.Progress = func(n int64) { o.Progress(done + n) }
	n, err := r.propagate(ctx, raised, &again)
	return PropagateResult{Version: raised.version, Copies: done + n}, err
}

// compare raises the version if copies of the same version have other values.
func (r *Ref[ID, S]) compare(ctx context.Context, id bson.RawValue, s state) (state, error) {
	for {
		different := false
		for _, t := range r.following {
			if t.Unversioned || different {
				continue
			}
			err := t.primary.FindOne(ctx, t.differsAtVersion(s), options.FindOne().SetProjection(idOnly)).Err()
			if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
				return s, err
			}
			different = err == nil
		}
		if !different {
			return s, nil
		}
		if s.version >= maxVersion {
			return s, r.noVersion(id, rawInt64(s.version+1))
		}
		// Unless somebody else has raised it meanwhile.
		filter := byID(id)
		if s.version == 0 {
			filter = append(filter, bson.E{Key: r.opts.VersionField, Value: bson.D{{Key: "$in", Value: bson.A{nil, 0}}}})
		} else {
			filter = append(filter, bson.E{Key: r.opts.VersionField, Value: s.version})
		}
		raised, err := r.result(id, r.source.FindOneAndUpdate(ctx, filter,
			bson.D{{Key: "$set", Value: bson.D{{Key: r.opts.VersionField, Value: s.version + 1}}}},
			options.FindOneAndUpdate().SetProjection(r.projection()).SetReturnDocument(options.After)))
		if err == nil || !errors.Is(err, ErrNotFound) {
			return raised, err
		}
		if s, err = r.find(ctx, id); err != nil {
			return s, err
		}
	}
}

var idOnly = bson.D{{Key: "_id", Value: 1}}

// propagate writes a state into the copies that are behind and returns how many
// documents that were. In a transaction o is not used, and the caller has
// written to the source in it, unless all targets have versions.
func (r *Ref[ID, S]) propagate(ctx context.Context, s state, o *PropagateOptions) (int64, error) {
	total := int64(0)
	for _, t := range r.following {
		if txn.Running(ctx) {
			n, err := t.update(ctx, s, nil)
			if err != nil {
				return total, fmt.Errorf("%s: %w", t.Name, err)
			}
			total += n
			continue
		}
		if err := r.propagateTo(ctx, t, s, o, &total); err != nil {
			return total, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return total, nil
}

// propagateTo goes through the copies that are behind by the index of the
// target. A write moves a document's key out of that range, never back into it.
func (r *Ref[ID, S]) propagateTo(ctx context.Context, t *target, s state, o *PropagateOptions, total *int64) error {
	cursor, err := t.primary.Find(ctx, t.behind(s), options.Find().
		SetProjection(idOnly).SetBatchSize(int32(min(o.BatchSize, 1<<20)+1))) // 1 more ends the cursor with its first batch
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var ids bson.A
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		n, err := r.updateBatch(ctx, t, s, ids)
		if err != nil {
			return err
		}
		ids = nil
		*total += n
		o.Progress(*total)
		return nil
	}
	for cursor.Next(ctx) {
		ids = append(ids, valueOf(cursor.Current.Lookup("_id")))
		if len(ids) >= o.BatchSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := cursor.Err(); err != nil {
		return err
	}
	return flush()
}

// updateBatch writes the copies in these documents that are behind.
func (r *Ref[ID, S]) updateBatch(ctx context.Context, t *target, s state, ids bson.A) (int64, error) {
	if !t.Unversioned {
		return t.update(ctx, s, ids)
	}
	// Without a version only the source itself can say which state is the newest.
	n := int64(0)
	err := txn.Run(ctx, r.source.Database().Client(), func(ctx context.Context) error {
		now, err := r.pin(ctx, s.doc.Lookup("_id"))
		if err != nil {
			return err
		}
		n, err = t.update(ctx, now, ids)
		return err
	})
	return n, err
}

// update writes the followed fields of s into the copies that are behind, in
// these documents or, with none, in all.
func (t *target) update(ctx context.Context, s state, ids bson.A) (int64, error) {
	filter, opts := t.behind(s), options.UpdateMany()
	if ids != nil {
		// The planner might scan all that are behind for every batch.
		filter = append(inIDs(ids), filter...)
		opts.SetHint(idOnly)
	}
	if elements := t.elements(s.id, t.older(s)...); elements != nil {
		opts.SetArrayFilters(elements)
	}
	result, err := t.Collection.UpdateMany(ctx, filter, t.write(s, t.follow), opts)
	if err != nil {
		return 0, err
	}
	return result.MatchedCount, nil
}

func inIDs(ids bson.A) bson.D {
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
}

// valueOf is a copy of a value that outlives the cursor's document.
func valueOf(value bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: value.Type, Value: append([]byte(nil), value.Value...)}
}
