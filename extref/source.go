package extref

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A core does the work of a Source on BSON.
type core struct {
	source    *scoped.Collection
	primary   *scoped.Collection // the source, read where a write depends on it
	outbox    *scoped.Collection // nil without Options.Outbox
	targets   []*target
	following []*target                               // the targets with a followed field
	follow    []Field                                 // of all targets, each path once
	ways      []string                                // the paths above the fields read from a source
	shown     bson.D                                  // the projection of these fields
	versioned bool                                    // whether some target has versions
	raisable  bson.E                                  // the condition that $inc can raise the version of a source
	before    *options.FindOneAndUpdateOptionsBuilder // for the state before a change
	after     *options.FindOneAndUpdateOptionsBuilder // and after it
	o         Options
	codec     codec.Codec
}

// derive sets the fields that follow from all targets together.
func (c *core) derive() {
	paths := []string{c.o.KeyField}
	for _, t := range c.targets {
		c.versioned = c.versioned || !t.Unversioned
		if len(t.follow) > 0 {
			c.following = append(c.following, t)
		}
		for _, f := range t.Fields {
			paths = append(paths, f.Path)
			if !f.Frozen && !slices.ContainsFunc(c.follow, func(g Field) bool { return g.Path == f.Path }) {
				c.follow = append(c.follow, f)
			}
		}
	}
	if c.versioned {
		paths = append(paths, c.o.VersionField)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		above := fieldpath.Above(path)
		c.ways = append(c.ways, above...)
		if path != "_id" && !slices.ContainsFunc(above, func(way string) bool { return slices.Contains(paths, way) }) {
			c.shown = append(c.shown, expr.Element(path, 1))
		}
	}
	c.ways = slices.Compact(c.ways)
	c.before = options.FindOneAndUpdate().SetProjection(c.shown).SetReturnDocument(options.Before)
	c.after = options.FindOneAndUpdate().SetProjection(c.shown).SetReturnDocument(options.After)
	version := expr.D("$type", bson.A{"int", "long"}, "$not", expr.AnArray, "$gte", 0, "$lt", int64(maxVersion))
	c.raisable = expr.Element("$or", expr.Fixed(bson.A{
		expr.D(c.o.VersionField, expr.Op("$exists", false)), expr.D(c.o.VersionField, version)}))
}

// collections returns all collections that this package writes, except the tokens of Watch.
func (c *core) collections() []*scoped.Collection {
	all := []*scoped.Collection{c.source}
	if c.outbox != nil {
		all = append(all, c.outbox)
	}
	for _, t := range c.targets {
		all = append(all, t.coll)
	}
	return all
}

func (c *core) ready(ctx context.Context, work *mongopatterns.Work) error {
	return maintain.Ready(ctx, work, c.collections()...)
}

func (c *core) target(name string) (*target, error) {
	for _, t := range c.targets {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fault.Invalid("target: there is no target %q", name)
}

func (c *core) indexes() map[string][]mongo.IndexModel {
	out := map[string][]mongo.IndexModel{}
	if c.outbox != nil {
		out[c.outbox.Name()] = []mongo.IndexModel{{Keys: c.outbox.Scope().Keys(expr.D(dueField, 1))}}
	}
	for _, t := range c.targets {
		keys, name := expr.D(t.path(t.IDField), 1), t.coll.Name()
		if !t.Unversioned {
			keys = append(keys, expr.Element(t.path(t.VersionField), 1))
		}
		out[name] = append(out[name], mongo.IndexModel{Keys: t.coll.Scope().Keys(keys)})
	}
	if name := c.source.Name(); c.o.KeyField != "_id" {
		key := mongo.IndexModel{Keys: c.source.Scope().Keys(expr.D(c.o.KeyField, 1)), Options: options.Index().SetUnique(true)}
		out[name] = append(out[name], key)
	}
	return out
}

// A state is a source at one moment.
type state struct {
	doc     bson.Raw
	key     bson.RawValue
	version int64
	bad     string // the field that makes the source invalid
	err     error  // the error for it
}

// invalid is s with the error that a field is not as it must be.
func (c *core) invalid(s state, field, must string) state {
	s.bad = field
	s.err = c.of(s.key, fault.Invalid("%q is %s and must be %s", field, value.Text(value.Lookup(s.doc, field)), must))
	return s
}

func (s state) value(f Field) bson.RawValue { return value.Lookup(s.doc, f.Path) }

// of names the source that an error is about: by its _id, or by KeyField where that is the key.
func (c *core) of(key bson.RawValue, err error) error {
	return fmt.Errorf("%s %s: %w", c.o.KeyField, value.Text(key), err)
}

// maxVersion is the highest version of a source; a copy of it can still be behind
// the next.
const maxVersion = math.MaxInt64 - 1

var versionRange = fmt.Sprintf("a whole number from 0 to %d", int64(maxVersion))

// state is the state in a source document.
func (c *core) state(doc bson.Raw) state {
	s := state{doc: doc, key: value.Lookup(doc, c.o.KeyField)}
	for _, way := range c.ways {
		if value.Lookup(doc, way).Type == bson.TypeArray {
			return c.invalid(s, way, "a document, because a copied field is inside it")
		}
	}
	if value.CheckID(s.key) != nil {
		return c.invalid(s, c.o.KeyField, "a key")
	}
	if c.versioned {
		version, ok := whole(value.Lookup(doc, c.o.VersionField))
		s.version = version
		if !ok || version < 0 || version > maxVersion {
			return c.invalid(s, c.o.VersionField, versionRange)
		}
	}
	return s
}

// whole reads a version; a missing one is 0.
func whole(v bson.RawValue) (int64, bool) {
	if f, ok := v.DoubleOK(); ok {
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<63
	}
	n, ok := v.AsInt64OK()
	return n, ok || none(v)
}

func (c *core) by(key bson.RawValue) bson.D { return expr.Is(c.o.KeyField, key) }

func (c *core) find(ctx context.Context, key bson.RawValue) (state, error) {
	return c.result(key, c.primary.FindOne(ctx, c.by(key), options.FindOne().SetProjection(c.shown)))
}

// pin reads a source in a transaction and holds it.
func (c *core) pin(ctx context.Context, key bson.RawValue) (state, error) {
	if err := c.hold(ctx, c.by(key)); err != nil {
		return state{}, err
	}
	return c.find(ctx, key)
}

// hold holds sources. first are updates to send in the same command.
func (c *core) hold(ctx context.Context, filter bson.D, first ...mongo.WriteModel) error {
	_, err := fault.Many(c.source.BulkWrite(ctx, append(first, hold.Writes(filter)...)))
	return err
}

// result is the state in the reply of a command on the source with this key.
func (c *core) result(key bson.RawValue, result *mongo.SingleResult) (state, error) {
	doc, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = mongopatterns.ErrNotFound
	}
	if err != nil {
		return state{}, c.of(key, err)
	}
	s := c.state(doc)
	return s, s.err
}

// lift raises the version of a source to this one, unless it is higher already, and reads the
// source.
func (c *core) lift(ctx context.Context, key bson.RawValue, version int64) (state, error) {
	if version > maxVersion {
		return state{}, c.of(key, fault.Invalid("%q is %d and must be %s", c.o.VersionField, version, versionRange))
	}
	raise := expr.Op("$max", expr.D(c.o.VersionField, version))
	return c.result(key, fault.Single(c.source.FindOneAndUpdate(ctx, c.by(key), raise, c.after)))
}

// lifted is lift to this version, nil for 0.
func (c *core) lifted(version int64) read {
	if version == 0 {
		return nil
	}
	return func(ctx context.Context, key bson.RawValue) (state, error) { return c.lift(ctx, key, version) }
}

// settle reads a source. If copies that are not behind have another state, somebody changed the
// source without raising its version, or set it back; then settle raises it above theirs.
func (c *core) settle(ctx context.Context, key bson.RawValue) (state, error) {
	s, err := c.find(ctx, key)
	if err != nil {
		return s, err
	}
	for {
		var above int64
		err := c.together(ctx, func(ctx context.Context) (err error) {
			above, err = c.above(ctx, s)
			return err
		})
		if err != nil || above <= s.version {
			return s, err
		}
		if s, err = c.lift(ctx, key, above); err != nil {
			return s, err
		}
	}
}

// above is the version that s needs because copies with the same or a higher version hold other values.
// Without such copies it is 0.
func (c *core) above(ctx context.Context, s state) (above int64, err error) {
	only := map[string]bson.RawValue{value.Key(s.key): s.key}
	for _, t := range c.following {
		if t.Unversioned {
			continue
		}
		docs, err := cursor.Collect(cursor.Find(ctx, t.primary, t.stray(s),
			options.Find().SetProjection(t.each(1)).SetLimit(strays).SetBatchSize(strays+1)))
		var found []finding
		if err == nil && len(docs) > 0 {
			found, err = c.inspect(ctx, t, docs, only)
		}
		if err != nil {
			return 0, fmt.Errorf("target %s: %w", t.Name, err)
		}
		for _, f := range found {
			if f.Kind == Ahead || f.Kind == mongopatterns.Different {
				above = max(above, f.above)
			}
		}
	}
	return above, nil
}

// strays bounds the copies that above reads: most have the same version, so a few are enough.
const strays = 100

// sources reads the sources whose field has one of the values and returns their states by
// value.Key, valid or not. The state of a source that does not exist has no doc.
func (c *core) sources(ctx context.Context, field string, values map[string]bson.RawValue) (map[string]state, error) {
	out := make(map[string]state, len(values))
	if len(values) == 0 {
		return out, nil
	}
	for id, v := range values {
		out[id] = state{key: v, bad: field}
	}
	for doc, err := range cursor.Find(ctx, c.primary, in(field, slices.Collect(maps.Values(values))),
		options.Find().SetProjection(c.shown).SetBatchSize(int32(len(values)+1))) {
		if err != nil {
			return nil, err
		}
		s := c.state(doc)
		out[value.Key(s.key)] = s
	}
	return out, nil
}

func in(field string, values any) bson.D { return expr.D(field, expr.Op("$in", values)) }
