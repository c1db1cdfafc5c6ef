package extref

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Propagate brings the followed fields of a source into all copies that are
// behind, in batches; Result.Done documents were written. Copies that are up to
// date are not written. Two of them at the same time, or one stopped in the
// middle and run again, do no harm.
//
// A document with something malformed in place of the copy, or which the server
// refuses to write, is Failed, named and passed over. Remaining are documents with
// copies ahead of the source, which was inserted again with a lower version, or
// without a version: Repair is for the former, Adopt for the latter. Work.Filter
// narrows the documents that are written, in all targets.
//
// Cost: 1 round trip for the source, by its key; for each target with followed
// fields 1 to find the copies that differ, by its index, and for each batch 1 to
// write it, by _id, and 1 to read on, unless it is the last. A batch with documents
// that stay as they are: 1 more. If the target is Unversioned a batch takes 4 to
// write, commit included, and 2 writes to the source. With Options.Compare 1 more
// for each target with versions; if values differ 1, which writes, to raise the
// version, and the targets once more. In a transaction 1 for the source, or with
// Compare or an Unversioned target 2, which write to it, and 1 for each target,
// whatever the size of a batch.
func (r *Ref[ID, S]) Propagate(ctx context.Context, id ID, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "extref: propagate")
	key, err := r.core.key(id)
	if err != nil {
		return result, err
	}
	w, err := maintain.Of(work, 0)
	if err != nil {
		return result, err
	}
	err = r.core.propagateKey(ctx, key, &w, r.core.o.Compare, &result)
	return result, err
}

// propagateKey is Propagate; compare stands for Options.Compare.
func (c *core) propagateKey(ctx context.Context, key bson.RawValue, w *mongopatterns.Work, compare bool, result *mongopatterns.Result) error {
	ctx, end, err := c.causal(ctx)
	if err != nil {
		return err
	}
	defer end()
	read := c.find
	if txn.Running(ctx) && !w.DryRun && (compare || slices.ContainsFunc(c.following, func(t *target) bool { return t.Unversioned })) {
		read = c.pin // only versions that rise with every change are guard enough
	}
	s, err := read(ctx, key)
	if err != nil {
		return err
	}
	if err := c.propagate(ctx, s, w, result); err != nil || !compare || w.DryRun {
		return err
	}
	// No copy is behind now, so nobody brings other values of this version into
	// one after compare has looked at it.
	raised, err := c.compare(ctx, s)
	if err != nil || raised.version == s.version {
		return err
	}
	return c.propagate(ctx, raised, w, result)
}

// compare raises the version if copies of the same version have other values.
func (c *core) compare(ctx context.Context, s state) (state, error) {
	for {
		different := false
		for _, t := range c.following {
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
		next := s
		if next.version++; next.version > maxVersion {
			return s, c.tooHigh(next)
		}
		same := any(s.version)
		if s.version == 0 {
			same = expr.Op("$in", bson.A{nil, 0})
		}
		raised, err := c.result(s.key, c.source.FindOneAndUpdate(ctx, append(c.by(s.key), bson.E{Key: c.o.VersionField, Value: same}),
			bson.D{{Key: "$set", Value: bson.D{{Key: c.o.VersionField, Value: next.version}}}},
			options.FindOneAndUpdate().SetProjection(c.projection()).SetReturnDocument(options.After)))
		if !errors.Is(err, fault.ErrNotFound) {
			return raised, err
		}
		// Somebody else has raised it meanwhile.
		if s, err = c.find(ctx, s.key); err != nil {
			return s, err
		}
	}
}

// propagate writes a state into the copies that are behind. In a transaction w is
// not used but for its filter, and the caller has written to the source in it,
// unless all targets have versions.
func (c *core) propagate(ctx context.Context, s state, w *mongopatterns.Work, result *mongopatterns.Result) error {
	if w == nil {
		w = &mongopatterns.Work{}
	}
	for _, t := range c.following {
		to := c.propagateTo
		if txn.Running(ctx) && !w.DryRun {
			to = c.propagateAtOnce
		}
		if err := to(ctx, t, s, w, result); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return nil
}

// propagateTo goes through the copies that differ by the index of the target. A
// write moves a document's key out of that range, never back into it.
func (c *core) propagateTo(ctx context.Context, t *target, s state, w *mongopatterns.Work, result *mongopatterns.Result) error {
	filter := t.off(s)
	if w.DryRun {
		filter = t.behind(s)
	}
	docs := cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return t.primary.Find(ctx, expr.And(filter, w.Filter), options.Find().
			SetProjection(idOnly).SetBatchSize(int32(min(w.BatchSize, 1<<20)+1))) // 1 more ends the cursor with its first batch
	})
	for batch, err := range cursor.Batches(docs, w.BatchSize, w.BatchBytes) {
		if err != nil {
			return err
		}
		err := maintain.Apart(ctx, t.Collection.Name(), batch, result, func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
			if w.DryRun {
				result.Done += int64(len(part))
				return nil
			}
			return c.propagateBatch(ctx, t, s, part, result)
		})
		if err != nil {
			return err
		}
		w.Progress(*result)
	}
	return nil
}

// propagateBatch writes the copies in these documents that are behind. Without a
// version only the source itself, held in a transaction, can say which state is
// the newest.
func (c *core) propagateBatch(ctx context.Context, t *target, s state, batch []bson.Raw, result *mongopatterns.Result) error {
	these := in("_id", ids(batch))
	write := func(ctx context.Context) (int64, error) {
		// The planner might scan all that are behind for every batch.
		model := t.propagation(s, these).SetHint(idOnly)
		done, err := t.Collection.BulkWrite(ctx, []mongo.WriteModel{model})
		if err != nil {
			return 0, err
		}
		return done.MatchedCount, nil
	}
	var n int64
	var err error
	if t.Unversioned {
		err = txn.Run(ctx, c.client(), func(ctx context.Context) error {
			now, err := c.pin(ctx, s.key)
			if err != nil {
				return err
			}
			s = now
			n, err = write(ctx)
			return err
		})
	} else {
		n, err = write(ctx)
	}
	if err != nil {
		return err
	}
	result.Done += n
	if n == int64(len(batch)) {
		return nil
	}
	left, err := c.left(ctx, t, s, these, result)
	result.Skipped += int64(len(batch)) - n - left // right meanwhile
	return err
}

// propagateAtOnce writes all copies that are behind by one command. Its second
// update writes nothing: it counts what differs still.
func (c *core) propagateAtOnce(ctx context.Context, t *target, s state, w *mongopatterns.Work, result *mongopatterns.Result) error {
	count := mongo.NewUpdateManyModel().SetFilter(expr.And(t.off(s), w.Filter)).
		SetUpdate(bson.D{{Key: "$setOnInsert", Value: bson.D{{Key: touchField, Value: 1}}}})
	done, err := t.Collection.BulkWrite(ctx, []mongo.WriteModel{t.propagation(s, w.Filter), count})
	if err != nil {
		return err
	}
	var left int64
	if done.MatchedCount > done.ModifiedCount {
		left, err = c.left(ctx, t, s, w.Filter, result)
	}
	result.Done += done.ModifiedCount
	result.Examined += done.ModifiedCount + left
	return err
}

// propagation is the write of the copies of s that are behind, in documents that
// only selects.
func (t *target) propagation(s state, only any) *mongo.UpdateManyModel {
	model := mongo.NewUpdateManyModel().SetFilter(expr.And(t.behind(s), only)).SetUpdate(t.write(s, t.follow))
	if elements := t.elements(s.key, t.older(s)...); elements != nil {
		model.SetArrayFilters(elements)
	}
	return model
}

// left counts the documents, of those that only selects, that a propagation could
// not bring to s, and names the malformed.
func (c *core) left(ctx context.Context, t *target, s state, only any, result *mongopatterns.Result) (int64, error) {
	docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return t.primary.Find(ctx, expr.And(t.off(s), only), options.Find().SetProjection(t.projection()))
	}))
	for _, doc := range docs {
		if field, have, bad := t.malformed(doc); bad {
			p := mongopatterns.Problem{Pattern: pattern, Kind: Malformed, Collection: t.Collection.Name(), ID: doc.Lookup("_id"), Field: field, Have: have}
			result.Fail(p.Collection, p.ID, fmt.Errorf("%v", p))
		} else {
			result.Remaining++
		}
	}
	return int64(len(docs)), err
}

func ids(docs []bson.Raw) bson.A {
	out := bson.A{}
	for _, doc := range docs {
		out = append(out, doc.Lookup("_id"))
	}
	return out
}
