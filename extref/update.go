package extref

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// UpdateResult says what Update did.
type UpdateResult struct {
	Changed bool                 `json:"changed"` // whether a followed field changed, or the update itself changed the version
	Version int64                `json:"version"` // the source's new version; 0 if no target has versions
	Copies  mongopatterns.Result `json:"copies"`  // as Propagate returns it; empty with an outbox or Deferred
}

// Update changes a source by any update that the driver's UpdateOne accepts: operators, such as
// {$set: src} with a whole struct, or a pipeline, such as [{$replaceWith: {$literal: src}}], which
// also removes the fields that src lacks. If a followed field changes, the same transaction raises
// the version and writes the change to the copies or to the outbox. The version never goes back,
// even if the update sets a lower one.
//
// Update returns ErrInvalid if the update changes a natural key, or if the source is invalid. An
// invalid source may be updated if the operators show that the update touches no followed field,
// version or key. Repeated after an unknown outcome, Update may apply the update twice.
//
// Cost: 1 round trip, 1 document written, by its key, if operators show that no followed field, version or key is
// touched.
//   - Only $set or $unset of followed fields, up to 5 MiB: 2 and 1 for each target with followed fields, commit
//     included, 1 write to the source and 1 for each document with a copy.
//   - Other updates: 2 more, and 1 write to the source; 3 in all if nothing changes.
//   - With an outbox: 1 round trip and 1 write in place of those of the targets, with Deferred neither.
func (r *Source[ID, T]) Update(ctx context.Context, id ID, update any) (result UpdateResult, err error) {
	ctx = comment.Call(ctx, "extref.Update")
	defer fault.In(&err, "extref.Update")
	if err := codec.CheckUpdate("update", update); err != nil {
		return result, err
	}
	key, err := r.core.codec.ID("source", id)
	if err != nil {
		return result, err
	}
	return r.core.update(ctx, key, update)
}

// update sends an update with as few commands as its operators allow.
func (c *core) update(ctx context.Context, key bson.RawValue, update any) (UpdateResult, error) {
	p := c.plan(update)
	if !p.touches {
		after, err := c.result(key, fault.Single(c.source.FindOneAndUpdate(ctx, c.by(key), p.update, c.after)))
		if after.bad != "" {
			err = nil // it was invalid before, and is written
		}
		return UpdateResult{Version: after.version}, err
	}
	var result UpdateResult
	err := txn.RunInTurn(ctx, c.source, key, func(ctx context.Context) error {
		after, changed, err := c.apply(ctx, key, p)
		if err != nil {
			return err
		}
		result = UpdateResult{Changed: changed, Version: after.version}
		switch {
		case !changed, c.o.Deferred:
			return nil
		case c.outbox != nil:
			return c.enqueue(ctx, after.key)
		}
		return c.propagate(ctx, after, &mongopatterns.Work{}, &result.Copies)
	})
	if err != nil {
		return UpdateResult{}, err
	}
	return result, nil
}

// apply changes a source, within a transaction, and raises its version if a followed field changed,
// unless the change has set a higher one. It returns the new state, and whether it has to be
// propagated.
func (c *core) apply(ctx context.Context, key bson.RawValue, p plan) (state, bool, error) {
	if p.raised != nil {
		filter := append(c.by(key), p.changes...)
		after, err := c.result(key, fault.Single(c.source.FindOneAndUpdate(ctx, filter, p.raised, c.after)))
		if !errors.Is(err, mongopatterns.ErrNotFound) {
			return after, true, err
		}
	}
	before, err := c.result(key, fault.Single(c.source.FindOneAndUpdate(ctx, c.by(key), p.update, c.before)))
	if err != nil || p.raised != nil && !differ(p.fields, before.value, p.value) {
		return before, false, err
	}
	after, err := c.find(ctx, key)
	if errors.Is(err, mongopatterns.ErrNotFound) {
		err = c.of(key, fault.Invalid("the update changes %q, by which copies refer to the source", c.o.KeyField))
	}
	if err != nil {
		return after, false, err
	}
	changed, due := after.version > before.version, before.version
	if differ(c.follow, before.value, after.value) {
		changed, due = true, before.version+1
	}
	if c.versioned && after.version < due {
		after, err = c.lift(ctx, key, due)
	}
	return after, changed, err
}

func differ(fields []Field, a, b func(Field) bson.RawValue) bool {
	return slices.ContainsFunc(fields, func(f Field) bool { return !a(f).Equal(b(f)) })
}

// A plan is what an update's operators show before it is sent.
type plan struct {
	update  any
	touches bool // a followed field, the version or the key may change
	// raised is the update with the version raised as well, for a source whose followed fields
	// it changes. It is nil if the update does more with followed fields, version and key than
	// $set or $unset followed fields.
	raised  bson.D
	changes bson.D // the conditions on that source
	fields  []Field
	values  []bson.RawValue
}

func (p plan) value(f Field) bson.RawValue { return p.values[slices.Index(p.fields, f)] }

// maxHeld bounds the values that a command compares and writes, in bytes: it holds each three times, and can have 16 MiB.
const maxHeld = 5 << 20

func size(values []bson.RawValue) (n int) {
	for _, v := range values {
		n += len(v.Value)
	}
	return n
}

// plan reads the operators of an update. An update that it cannot read may do anything.
func (c *core) plan(update any) plan {
	unknown := plan{update: update, touches: true}
	doc, err := c.codec.Document(update)
	if err != nil { // a pipeline
		return unknown
	}
	operators, _ := doc.Elements()
	p, simple, increments := plan{update: doc}, true, bson.D{}
	for _, operator := range operators {
		name := operator.Key()
		arguments, _ := operator.Value().DocumentOK()
		fields, err := arguments.Elements()
		if err != nil || !strings.HasPrefix(name, "$") {
			return unknown
		}
		for _, argument := range fields {
			path, v := argument.Key(), argument.Value()
			to, _ := v.StringValueOK()
			if name == "$inc" {
				increments = append(increments, expr.Element(path, v))
			}
			if !c.matters(path) && (name != "$rename" || !c.matters(to)) {
				continue
			}
			p.touches = true
			i := slices.IndexFunc(c.follow, func(f Field) bool { return f.Path == path })
			if i < 0 || name != "$set" && name != "$unset" {
				simple = false
				continue
			}
			if name == "$unset" {
				v = bson.RawValue{}
			}
			p.fields, p.values = append(p.fields, c.follow[i]), append(p.values, v)
		}
	}
	if !p.touches || !simple || size(p.values) > maxHeld {
		return p
	}
	p.changes = bson.D{unlike(p.fields, p.value, func(f Field) string { return f.Path })}
	if c.versioned {
		p.changes = append(p.changes, c.raisable)
		increments = append(increments, expr.Element(c.o.VersionField, int64(1)))
	}
	for _, operator := range operators {
		if operator.Key() != "$inc" {
			p.raised = append(p.raised, expr.Element(operator.Key(), operator.Value()))
		}
	}
	if len(increments) > 0 {
		p.raised = append(p.raised, expr.Element("$inc", increments))
	}
	return p
}

// matters reports whether a change at path may change a followed field, the version or the key.
func (c *core) matters(path string) bool {
	overlaps := func(other string) bool {
		return path == other || strings.HasPrefix(path, other+".") || strings.HasPrefix(other, path+".")
	}
	return c.versioned && overlaps(c.o.VersionField) || overlaps(c.o.KeyField) ||
		slices.ContainsFunc(c.follow, func(f Field) bool { return overlaps(f.Path) })
}
