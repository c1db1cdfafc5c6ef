package extref

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// UpdateResult says what Update or Replace did.
type UpdateResult struct {
	// Changed says that a followed field changed, or that the update raised the
	// version itself.
	Changed bool `json:"changed"`
	// Version is the source's version now; 0 if no target has versions.
	Version int64 `json:"version"`
	// Copies is what Propagate would say: Done documents of the targets were
	// written; Failed hold something malformed in place of the copy, and are named;
	// Remaining have copies ahead of the source. Empty with an outbox or Deferred.
	Copies mongopatterns.Result `json:"copies"`
}

// Update changes a source. update is what the driver's UpdateOne takes: update
// operators or a pipeline. If a followed field has changed by it the version is
// raised in the same transaction, and the change goes to the copies, or into the
// outbox, there as well. The version never goes back: a lower one that the update
// sets is not kept. An update that changes a natural key is ErrInvalid. Repeated
// after an unknown outcome it does what the update does when it is applied twice.
//
// Cost: 1 round trip, 1 document written, by its key, if operators show that no
// followed field, version or key is touched. 2 and 1 a target with followed
// fields, commit included, if all they do to these is to $set or $unset them, and
// one changes: 1 write to the source and 1 for each document with a copy. Other
// updates: 2 more, and 1 write to the source; 3 in all if nothing changes. With an
// outbox 1 round trip and 1 write in place of the targets', with Deferred neither.
func (r *Ref[ID, S]) Update(ctx context.Context, id ID, update any) (result UpdateResult, err error) {
	defer fault.In(&err, "extref: update")
	if update == nil {
		return result, fault.Invalid("update: nil")
	}
	key, err := r.core.key(id)
	if err != nil {
		return result, err
	}
	return r.core.update(ctx, key, update)
}

// Replace is Update with a whole document in place of the stored one. The
// version goes on from the stored one, unless src holds a higher one. An _id in src
// must be the source's. Fields that src lacks go, also those that other code keeps
// in the document, such as a pattern of another package; Update leaves them.
//
// Cost: 2 round trips, commit included, 1 document written, by its key, if no
// followed field changed and src holds the stored version. Else 1 round trip and 1
// write more for the version, and those of Update for the targets.
func (r *Ref[ID, S]) Replace(ctx context.Context, id ID, src S) (result UpdateResult, err error) {
	defer fault.In(&err, "extref: replace")
	key, err := r.core.key(id)
	if err != nil {
		return result, err
	}
	doc, err := r.core.codec.Document(src)
	if err != nil {
		return result, of(key, err)
	}
	return r.core.replace(ctx, key, doc)
}

func (c *core) replace(ctx context.Context, key bson.RawValue, doc bson.Raw) (UpdateResult, error) {
	known := bson.RawValue{}
	if c.o.KeyField == "_id" {
		known = key
		if other := value.Lookup(doc, "_id"); other.Type != 0 && value.Key(other) != value.Key(key) {
			return UpdateResult{}, of(key, fault.Invalid("_id is %s", value.Text(other)))
		}
	}
	after := c.state(doc, known)
	if err := after.err(); err != nil {
		return UpdateResult{}, err
	}
	return c.change(ctx, func(ctx context.Context) (state, bool, error) {
		before, err := c.result(key, c.source.FindOneAndReplace(ctx, c.by(key), doc,
			options.FindOneAndReplace().SetProjection(c.projection()).SetReturnDocument(options.Before)))
		if err != nil {
			return before, false, err
		}
		return c.raise(ctx, before, after)
	})
}

// update sends an update by the shortest way that its operators allow.
func (c *core) update(ctx context.Context, key bson.RawValue, update any) (UpdateResult, error) {
	p := c.plan(update)
	apply := func(ctx context.Context, filter, update any, which options.ReturnDocument) *mongo.SingleResult {
		return c.source.FindOneAndUpdate(ctx, filter, update,
			options.FindOneAndUpdate().SetProjection(c.projection()).SetReturnDocument(which))
	}
	if !p.touches {
		doc, err := apply(ctx, c.by(key), update, options.After).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			err = fault.ErrNotFound
		}
		if err != nil {
			return UpdateResult{}, of(key, err)
		}
		return UpdateResult{Version: c.state(doc, key).version}, nil
	}
	return c.change(ctx, func(ctx context.Context) (state, bool, error) {
		if p.values != nil {
			after, err := c.result(key, apply(ctx, append(c.by(key), c.changes(p)), c.raising(p), options.After))
			if !errors.Is(err, fault.ErrNotFound) {
				return after, true, err
			}
		}
		before, err := c.result(key, apply(ctx, c.by(key), update, options.Before))
		if err != nil || p.values != nil && c.holds(before, p) {
			return before, false, err
		}
		after, err := c.result(key, c.primary.FindOne(ctx, bson.D{{Key: "_id", Value: value.Equal(before.doc.Lookup("_id"))}},
			options.FindOne().SetProjection(c.projection())))
		if err != nil {
			return after, false, err
		}
		return c.raise(ctx, before, after)
	})
}

// change runs a change of a source in a transaction, in which it is propagated
// too or noted in the outbox. apply returns the new state, with its new version, and
// whether a followed field changed.
func (c *core) change(ctx context.Context, apply func(context.Context) (state, bool, error)) (UpdateResult, error) {
	var result UpdateResult
	err := txn.Run(ctx, c.client(), func(ctx context.Context) error {
		result = UpdateResult{}
		after, changed, err := apply(ctx)
		if err != nil {
			return err
		}
		result.Changed, result.Version = changed, after.version
		switch {
		case !changed, c.o.Deferred:
		case c.o.Outbox != nil:
			return c.enqueue(ctx, after.key)
		default:
			return c.propagate(ctx, after, nil, &result.Copies)
		}
		return nil
	})
	if err != nil {
		return UpdateResult{}, err
	}
	return result, nil
}

// raise compares the states before and after a change, and sets the version that
// follows unless the change has set a higher one.
func (c *core) raise(ctx context.Context, before, after state) (state, bool, error) {
	if value.Key(before.key) != value.Key(after.key) {
		return after, false, of(before.key, fault.Invalid("%s changes to %s, and its copies would dangle", c.o.KeyField, value.Text(after.key)))
	}
	changed, due := after.version > before.version, before.version
	differs := func(f Field) bool { return !before.value(f).Equal(after.value(f)) }
	if slices.ContainsFunc(c.follow, differs) {
		changed, due = true, before.version+1
	}
	if !c.versioned || after.version >= due {
		return after, changed, nil
	}
	if after.version = due; due > maxVersion {
		return after, false, c.tooHigh(after)
	}
	_, err := c.source.UpdateOne(ctx, c.by(after.key), bson.D{{Key: "$set", Value: bson.D{{Key: c.o.VersionField, Value: due}}}})
	return after, changed, err
}

// A plan is what an update shows of itself before it is sent.
type plan struct {
	// touches says that a followed field, the version or the key may change.
	touches bool
	// values are what followed fields are set to, zero for none; nil if the update
	// does more to what it touches.
	values map[string]bson.RawValue
	doc    bson.Raw
}

// plan reads the operators of an update. What it cannot read may do anything.
func (c *core) plan(update any) plan {
	unknown := plan{touches: true}
	doc, err := c.codec.Document(update)
	if err != nil { // a pipeline
		return unknown
	}
	operators, err := doc.Elements()
	if err != nil || len(operators) == 0 {
		return unknown
	}
	p := plan{values: map[string]bson.RawValue{}, doc: doc}
	for _, operator := range operators {
		name := operator.Key()
		arguments, ok := operator.Value().DocumentOK()
		if !ok || !strings.HasPrefix(name, "$") {
			return unknown
		}
		fields, err := arguments.Elements()
		if err != nil {
			return unknown
		}
		for _, f := range fields {
			path, v := f.Key(), f.Value()
			to, _ := v.StringValueOK()
			if !c.matters(path) && (name != "$rename" || !c.matters(to)) {
				continue
			}
			p.touches = true
			followed := slices.ContainsFunc(c.follow, func(f Field) bool { return f.Path == path })
			switch {
			case p.values != nil && followed && name == "$set":
				p.values[path] = v
			case p.values != nil && followed && name == "$unset":
				p.values[path] = bson.RawValue{}
			default:
				p.values = nil
			}
		}
	}
	return p
}

// matters reports whether a change at path may change a followed field, the
// version or the key.
func (c *core) matters(path string) bool {
	overlaps := func(other string) bool {
		return path == other || strings.HasPrefix(path, other+".") || strings.HasPrefix(other, path+".")
	}
	return c.versioned && overlaps(c.o.VersionField) || overlaps(c.o.KeyField) ||
		slices.ContainsFunc(c.follow, func(f Field) bool { return overlaps(f.Path) })
}

// fields are the followed fields that the plan sets.
func (c *core) fields(p plan) []Field {
	return slices.DeleteFunc(slices.Clone(c.follow), func(f Field) bool { _, set := p.values[f.Path]; return !set })
}

// changes is the condition that the plan changes a followed field, of a source
// whose version an $inc can raise.
func (c *core) changes(p plan) bson.E {
	all := bson.A{unequal(c.fields(p), func(f Field) bson.RawValue { return p.values[f.Path] }, func(f Field) string { return expr.Field(f.Path) })}
	if c.versioned {
		version := expr.Field(c.o.VersionField)
		all = append(all, expr.IsType(version, "missing", "int", "long"),
			expr.Op("$gte", expr.IfNull(version, 0), 0), expr.Op("$lt", expr.IfNull(version, 0), int64(maxVersion)))
	}
	return bson.E{Key: "$expr", Value: expr.Op("$and", all)}
}

// raising is the update of the plan with the version raised as well.
func (c *core) raising(p plan) any {
	if !c.versioned {
		return p.doc
	}
	inc := bson.E{Key: c.o.VersionField, Value: int64(1)}
	var out bson.D
	increments := bson.D{}
	operators, _ := p.doc.Elements()
	for _, operator := range operators {
		if operator.Key() != "$inc" {
			out = append(out, bson.E{Key: operator.Key(), Value: operator.Value()})
			continue
		}
		fields, _ := operator.Value().Document().Elements()
		for _, f := range fields {
			increments = append(increments, bson.E{Key: f.Key(), Value: f.Value()})
		}
	}
	return append(out, bson.E{Key: "$inc", Value: append(increments, inc)})
}

// holds reports that a source has the values of the plan already.
func (c *core) holds(s state, p plan) bool {
	return !slices.ContainsFunc(c.fields(p), func(f Field) bool { return !s.value(f).Equal(p.values[f.Path]) })
}
