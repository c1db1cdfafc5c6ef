package schemaversion

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Options of a Collection or Chain. The zero value of each is its default.
type Options struct {
	// VersionField is the top-level field that holds the version. Default "schema_version".
	VersionField string
	// FirstVersion is the version of documents without the field. The first step upgrades it to the next. A stored null
	// is not a missing field, but an unknown version, like "two". Default 1.
	FirstVersion int
	// Text writes versions as strings, such as "2". Both forms can be read. Default false: versions are written as
	// int32.
	Text bool
	// WriteBack makes Get store a document that it upgraded, if nobody changed it meanwhile.
	// Default false.
	WriteBack bool
	// Rate limits Migrate, in documents a second. Default 0: no limit.
	Rate int
	// Lease is how long a Migrate that has died keeps others from starting. A living one prolongs
	// its lease after each batch. So it must be longer than a batch takes, and than it takes to
	// find the first batch. Without an index on the version, a run first reads past all documents
	// that are already upgraded. Default 1 minute.
	Lease time.Duration
	// Leases is the collection of the leases. Default: a collection with the name of the documents'
	// plus ".migrations".
	Leases *mongo.Collection
	// Scope separates several tenants in one collection. See Tenants in the manual of mongopatterns. Its fields are
	// part of every filter, start every index and are stored in every new document. The values are strings, numbers
	// and similar. Null, an array or a regular expression is refused. A document or an update with another value is
	// ErrInvalid, and an _id of another tenant is not found. Migrate of one tenant runs beside that of another. A
	// Chain ignores the Scope. Default none: all documents of the collection.
	Scope bson.D
	// Registry and BSON encode and decode T and the types of Between. By default BSON is what the client has. The
	// client's registry cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two.
	// Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Collection reads the documents of a collection as T, whatever their version. It is safe for
// concurrent use.
type Collection[T any] struct{ core *core }

// New returns a Collection for the documents of coll. steps are in the order of the versions. It
// does no I/O.
func New[T any](coll *mongo.Collection, steps []Step, opts *Options) (v *Collection[T], err error) {
	defer fault.In(&err, "schemaversion.New")
	if err := config.Collections("coll", coll); err != nil {
		return nil, err
	}
	c := &core{}
	if opts != nil {
		c.Options = *opts
	}
	c.Scope = slices.Clone(c.Scope)
	c.codec = codec.New(coll, c.Registry, c.BSON)
	c.BSON = c.codec.BSON // for the steps
	if c.chain, err = newChain(steps, &c.Options); err != nil {
		return nil, err
	}
	if err := c.codec.CheckExtended("T", reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	if err := config.Apply(append(config.Scope(c.Scope),
		config.Name("Options.VersionField", &c.VersionField, ""),
		config.Number("Options.Rate", &c.Rate, 0, 0, 1<<30),
		config.Number("Options.Lease", (*int64)(&c.Lease), int64(time.Minute), int64(time.Second), int64(24*time.Hour)))...); err != nil {
		return nil, err
	}
	of, err := scope.New(c.codec, c.Scope)
	if err != nil {
		return nil, err
	}
	c.coll = scoped.On(coll).In(of)
	c.leaseID = of.Label(coll.Name())
	c.current = expr.Element(c.field, expr.Fixed(c.has(c.newest())))
	if c.Leases == nil {
		c.Leases = coll.Database().Collection(coll.Name() + ".migrations")
	}
	c.leases = scoped.On(c.Leases)
	if err := config.Collections("coll", coll, "Options.Leases", c.Leases); err != nil {
		return nil, err
	}
	return &Collection[T]{c}, nil
}

func newChain(steps []Step, o *Options) (chain, error) {
	err := config.Apply(
		config.Name("Options.VersionField", &o.VersionField, "schema_version"),
		config.Number("Options.FirstVersion", &o.FirstVersion, 1, 0, 1<<20))
	if err != nil {
		return chain{}, err
	}
	c := chain{field: o.VersionField, first: o.FirstVersion, text: o.Text}
	for i, s := range steps {
		up, down := plain(s.Up), plain(s.Down)
		if s.typed != nil {
			for what, t := range map[string]reflect.Type{"Old": s.old, "New": s.new} {
				if err := (codec.Codec{Registry: o.Registry}).CheckDocuments(fmt.Sprintf("steps[%d]: %s", i, what), t); err != nil {
					return chain{}, err
				}
			}
			up, down = s.typed(codec.Codec{Registry: o.Registry, BSON: o.BSON})
		}
		if up == nil {
			return chain{}, fault.Invalid("steps[%d]: Up is missing", i)
		}
		c.up, c.down = append(c.up, up), append(c.down, down)
	}
	c.mark, err = c.element(c.newest())
	return c, err
}

// Newest returns the version of T, which is the newest.
func (v *Collection[T]) Newest() int { return v.core.newest() }

// Indexes returns an index on the scope and the version, by collection name. Only Status, Filter and Migrate use
// it, so a small collection does not need it.
func (v *Collection[T]) Indexes() map[string][]mongo.IndexModel {
	return map[string][]mongo.IndexModel{v.core.coll.Name(): {{Keys: v.core.coll.Scope().Keys(expr.D(v.core.field, 1))}}}
}

// EnsureIndexes creates the index on the version if it is missing. It refuses collections with a
// default collation.
//
// Cost: 2 round trips, 3 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (v *Collection[T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "schemaversion.EnsureIndexes")
	defer fault.In(&err, "schemaversion.EnsureIndexes")
	if err := collation.Refuse(ctx, v.core.coll, v.core.leases); err != nil {
		return err
	}
	if err := v.core.codec.CheckClient(ctx, v.core.coll, reflect.TypeFor[T]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, v.core.coll.Database(), v.Indexes())
}

// ShardKey returns the recommended shard key, the scope and _id, by collection name.
func (v *Collection[T]) ShardKey() map[string]bson.D {
	return map[string]bson.D{v.core.coll.Name(): v.core.coll.Scope().Keys(expr.D("_id", 1))}
}

// Get reads a document and upgrades it to the newest version. id must have the type of the stored _id, so
// a string of hex digits finds no ObjectID.
//
// Cost: 1 round trip, index _id. With Options.WriteBack 1 more and 1 document
// written for an old one.
func (v *Collection[T]) Get(ctx context.Context, id any) (out T, err error) {
	ctx = comment.Call(ctx, "schemaversion.Get")
	defer fault.In(&err, "schemaversion.Get")
	raw, made, err := v.core.get(ctx, v.core.coll, id)
	if err != nil {
		return out, err
	}
	if !v.core.WriteBack {
		err = v.core.decode(made, &out)
		return out, err
	}
	_, err = v.core.store(ctx, raw, made)
	if err == nil {
		err = fault.Unknown(v.core.decode(made, &out))
		return out, err
	}
	if txn.Running(ctx) || !fault.Refused(err) && !errors.Is(err, mongopatterns.ErrInvalid) {
		return out, err
	}
	// The server refuses the upgraded document. Get returns it all the same, unless the refusal ended the caller's
	// transaction.
	err = v.core.decode(made, &out)
	return out, err
}

// decode decodes an upgraded document, and names it in an error.
func (c *core) decode(made bson.Raw, out any) error {
	return fault.Of(made.Lookup("_id"), c.codec.Decode(made, out))
}

// Find reads documents and upgrades them to the newest version. filter applies to the documents as they
// are stored (see Filter). A nil filter selects all. If a document cannot be read, its error names its
// _id, and the loop may continue. Any other error is the last. A projection must keep the version and
// all fields that a step reads. For one that leaves out the version, Find returns
// mongopatterns.ErrInvalid.
//
// Cost: 1 round trip for each batch, index as the filter's.
func (v *Collection[T]) Find(ctx context.Context, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[T, error] {
	ctx = comment.Call(ctx, "schemaversion.Find")
	if err := codec.CheckFilter("filter", filter); err != nil {
		return fault.Seq("schemaversion.Find", fault.Stop[T](err))
	}
	if err := v.core.checkProjection(opts); err != nil {
		return fault.Seq("schemaversion.Find", fault.Stop[T](err))
	}
	return fault.Seq("schemaversion.Find", func(yield func(T, error) bool) {
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return v.core.coll.Find(ctx, expr.And(filter), opts...)
		}) {
			var out T
			if err == nil {
				out, err = decode[T](v.core, c.Current)
			}
			if !yield(out, err) {
				return
			}
		}
	})
}

// decode upgrades and decodes a document. Each error names it.
func decode[T any](c *core, raw bson.Raw) (out T, err error) {
	made, err := c.to(raw, c.newest())
	if err != nil {
		return out, err
	}
	err = c.decode(made, &out)
	return out, err
}

// Decode upgrades and decodes a document that you read yourself.
func (v *Collection[T]) Decode(raw bson.Raw) (out T, err error) {
	defer fault.In(&err, "schemaversion.Decode")
	return decode[T](v.core, raw)
}

// Encode returns the document of a value, with the newest version, even if a field of T holds
// another.
func (v *Collection[T]) Encode(value T) (raw bson.Raw, err error) {
	defer fault.In(&err, "schemaversion.Encode")
	return v.core.encode(value)
}

// Insert stores a value with the newest version and returns its _id. If the _id exists, it returns
// mongopatterns.ErrExists.
//
// Cost: 1 round trip, 1 document written.
func (v *Collection[T]) Insert(ctx context.Context, value T) (id any, err error) {
	ctx = comment.Call(ctx, "schemaversion.Insert")
	defer fault.In(&err, "schemaversion.Insert")
	raw, err := v.core.encodeNew(value, reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	result, err := fault.One(v.core.coll.InsertOne(ctx, raw))
	if err != nil {
		return nil, fault.Taken("_id", raw.Lookup("_id"), err)
	}
	return result.InsertedID, nil
}

// Update changes a document by an update as the driver takes it, written for the newest version. An
// old document is upgraded first. update must not change the version.
//
// Cost: 1 round trip, 1 document written, index _id. For an old document 4 and 2.
func (v *Collection[T]) Update(ctx context.Context, id, update any) (err error) {
	ctx = comment.Call(ctx, "schemaversion.Update")
	defer fault.In(&err, "schemaversion.Update")
	if err := codec.CheckUpdate("update", update); err != nil {
		return err
	}
	return v.core.update(ctx, id, update)
}

// Filter combines the conditions that of returns for each version, so that a field that has moved
// is looked for where that version has it. For a version whose documents are not selected, of
// returns nil.
func (v *Collection[T]) Filter(of func(version int) bson.D) bson.D {
	var either bson.A
	for n := v.core.first; n <= v.core.newest(); n++ {
		if filter := of(n); filter != nil {
			either = append(either, expr.Op("$and", bson.A{v.core.only(n), filter}))
		}
	}
	if either == nil {
		return expr.Op("$nor", bson.A{bson.D{}})
	}
	return v.core.coll.Scope().Match(expr.Op("$or", either))
}

// Status counts the documents by version. The key -1 counts those of versions that this program
// does not know.
//
// Cost: 1 round trip. It reads the index on the version ([Collection.Indexes]), else
// all documents.
//   - If documents lack the version or hold null: 1 more, which reads these, because the index does not tell them apart.
func (v *Collection[T]) Status(ctx context.Context) (counts map[int]int64, err error) {
	ctx = comment.Call(ctx, "schemaversion.Status")
	defer fault.In(&err, "schemaversion.Status")
	return v.core.status(ctx)
}

// A core does the work of Collection on BSON, without knowing T.
type core struct {
	Options
	chain
	coll    *scoped.Collection
	leases  *scoped.Collection
	leaseID string
	codec   codec.Codec
	current bson.E // selects documents of the newest version
}

// only selects the documents of a version.
func (c *core) only(version int) bson.D { return expr.D(c.field, c.has(version)) }

func (c *core) encode(v any) (bson.Raw, error) {
	raw, err := c.codec.Stored(v)
	if err != nil {
		return nil, err
	}
	if raw, err = c.coll.Scope().Set(raw); err != nil {
		return nil, err
	}
	return c.stamp(raw, c.newest())
}

// encodeNew is encode for a document of type t that is inserted. It makes a missing _id.
func (c *core) encodeNew(v any, t reflect.Type) (bson.Raw, error) {
	raw, err := c.encode(v)
	if err != nil || !raw.Lookup("_id").IsZero() {
		return raw, err
	}
	raw = value.With(raw, value.Element{Name: "_id", Value: value.NewID()})
	return raw, c.codec.CheckMade(raw, t)
}

// get returns a document as stored in coll and upgraded to the newest version.
func (c *core) get(ctx context.Context, coll *scoped.Collection, id any) (raw, made bson.Raw, err error) {
	key, err := c.codec.Compared(id)
	if err != nil {
		return nil, nil, err
	}
	raw, err = coll.FindOne(ctx, expr.D("_id", value.Equal(key))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil, fault.Of(key, mongopatterns.ErrNotFound)
	}
	if err != nil {
		return raw, made, err
	}
	made, err = c.to(raw, c.newest())
	return raw, made, err
}

// store writes the changes of an upgrade, if the guard of model still matches; done is false if
// not.
func (c *core) store(ctx context.Context, before, after bson.Raw) (done bool, err error) {
	model, err := c.model(before, after)
	if err != nil || model == nil {
		return err == nil, fault.Of(before.Lookup("_id"), err)
	}
	result, err := fault.One(c.coll.UpdateOne(ctx, model.Filter, model.Update))
	return err == nil && result.MatchedCount > 0, fault.Of(before.Lookup("_id"), err)
}

// model returns the guarded update from before to after, nil if nothing changes.
func (c *core) model(before, after bson.Raw) (*mongo.UpdateOneModel, error) {
	guard, update, err := c.difference(before, after)
	if err != nil || update == nil {
		return nil, err
	}
	if err := c.coll.Scope().Check(after); err != nil {
		return nil, err
	}
	id := expr.Element("_id", value.Equal(before.Lookup("_id")))
	return mongo.NewUpdateOneModel().SetUpdate(update).SetFilter(bson.D{id, expr.Element("$expr", guard)}), nil
}

func (c *core) update(ctx context.Context, id, update any) (err error) {
	key, err := c.codec.Compared(id)
	if err != nil {
		return err
	}
	upgraded := false
	defer func() {
		if upgraded {
			err = fault.Unknown(err)
		}
	}()
	current := bson.D{expr.Element("_id", value.Equal(key)), c.current}
	for pauses := pause.Writers(); ; {
		result, err := fault.One(c.coll.UpdateOne(ctx, current, update))
		if err != nil || result.MatchedCount == 1 {
			return fault.Of(key, err)
		}
		if n := result.MatchedCount; n > 1 { // the server updates one of each shard
			return fault.Unknown(fault.Of(key, fault.Malformed("%d documents have this _id, and all are updated: shard by _id", n)))
		}
		raw, made, err := c.get(ctx, cursor.Primary(c.coll), id)
		if err != nil {
			return err
		}
		done, err := c.store(ctx, raw, made)
		if err != nil {
			return err
		}
		upgraded = upgraded || done
		switch {
		case done:
			continue
		case txn.Running(ctx): // its snapshot will not show the other's write
			return txn.Conflict("upgrade")
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

func (c *core) status(ctx context.Context) (map[int]int64, error) {
	type group struct {
		ID bson.RawValue `bson:"_id"`
		N  int64
	}
	out, first := map[int]int64{}, false // the field is missing, or null
	for g, err := range cursor.Decode[group](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$sort", expr.D(c.field, 1)), // by the index, if there is one
			expr.Op("$group", expr.D("_id", expr.Field(c.field), "n", expr.Op("$sum", 1))),
		}, options.Aggregate().SetAllowDiskUse(true))
	}) {
		if err != nil {
			return nil, err
		}
		if g.ID.Type == bson.TypeNull {
			first = true
			out[c.first] += g.N
			continue
		}
		doc, err := bson.Marshal(expr.D(c.field, g.ID))
		if err != nil {
			return nil, err
		}
		n, ok := c.version(doc)
		if !ok || n < c.first || n > c.newest() {
			n = -1
		}
		out[n] += g.N
	}
	if !first {
		return out, nil
	}
	nulls, err := c.coll.CountDocuments(ctx, expr.D(c.field, expr.Op("$type", "null")))
	if err != nil {
		return nil, err
	}
	// Others may have written between the two reads.
	nulls = min(nulls, out[c.first])
	if out[c.first] -= nulls; out[c.first] == 0 {
		delete(out, c.first)
	}
	if nulls > 0 {
		out[-1] += nulls
	}
	return out, nil
}
