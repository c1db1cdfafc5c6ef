package approx

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/big"
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
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/interval"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Options of Counters, Sampled and Distinct. The zero value of each is its default. A constructor refuses
// options that it does not use.
type Options struct {
	// KeyField is the path of the key in a document. Default "_id".
	KeyField string
	// CountField is the path of the count, or of the registers of Distinct. Default "count", for
	// Distinct "distinct".
	CountField string
	// Every is the number of changes that one write stores together. With 1 each change is written.
	// Default 100.
	Every int64
	// Precision sets the number of registers of Distinct to 2^Precision. The range is from 4, with
	// a standard error of 26 percent and 150 bytes a document, to 14, with 0.8 percent and 180 KB.
	// Only NewDistinct takes it. Default 10, with 1,024 registers, 3.3 percent and at most 10 KB.
	Precision int
	// Existing counts only keys that have a document. Default false: a document is inserted for a
	// key that has none.
	Existing bool
	// Interval is how long changes wait at most. An Add flushes if the last Flush is longer ago
	// than this, and Run flushes at this interval. NewSampled, whose changes do not wait, refuses
	// it. Default 0: changes wait until there are Every of them, and with Run at most a second.
	Interval time.Duration
	// MaxKeys limits the keys that wait in memory. An Add of one more flushes them all. After a write that
	// failed, the next Adds flush only when a tenth more keys wait. NewSampled refuses it. Default 10,000.
	MaxKeys int
	// Random returns the numbers in [0, 1) that Sampled counters use. Give a seeded one in tests.
	// It must be safe for concurrent use. Only NewSampled takes it. Default: that of math/rand/v2.
	Random func() float64
	// Registry and BSON encode keys, and the values of Distinct. By default BSON is what the client has. The client's
	// registry cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default
	// nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Counters add up changes in memory and write them rarely.
type Counters[ID any] struct {
	core    *core
	waiting waiting
}

// New returns Counters on coll. It does no I/O. Start Run, or call Close before the process ends. Otherwise
// up to Every-1 changes of each key are lost without an error.
func New[ID any](coll *mongo.Collection, opts *Options) (c *Counters[ID], err error) {
	defer fault.In(&err, "approx.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	core, err := newCore(coll, opts, "Precision", "Random")
	if err != nil {
		return nil, err
	}
	return &Counters[ID]{core: core, waiting: waiting{changes: map[string]*change{}, flying: map[string]*change{}, flushed: time.Now(), most: core.MaxKeys}}, nil
}

// Indexes returns a unique index on KeyField, by collection name, unless that is _id. Without it
// two writers could insert a key twice.
func (c *Counters[ID]) Indexes() map[string][]mongo.IndexModel { return c.core.indexes() }

// EnsureIndexes creates the missing indexes. It refuses a collection with a default collation.
//
// Cost: 1 round trip; with a KeyField 1 more, 2 if its index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (c *Counters[ID]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "approx.EnsureIndexes")
	defer fault.In(&err, "approx.EnsureIndexes")
	return c.core.ensureIndexes(ctx, reflect.TypeFor[ID]())
}

// ShardKey returns the recommended shard key, KeyField, by collection name.
func (c *Counters[ID]) ShardKey() map[string]bson.D { return c.core.shardKey() }

// Add adds n, which may be negative. It writes the key at every Every-th change, however large the
// changes are. It writes everything that waits when Interval has passed or MaxKeys is exceeded. If
// Add returns an error, n has been counted anyway and waits for the next write, so do not repeat
// the call. Only after mongopatterns.ErrInvalid, for the key or n, and mongopatterns.ErrClosed n
// has not been counted. The sum of the absolute values of all n that wait for a key must fit an
// int64.
//
// Cost: mostly none; 1 round trip and 1 document written at every Every-th change of a key, index KeyField.
// When it flushes, that of Flush.
func (c *Counters[ID]) Add(ctx context.Context, key ID, n int64) (err error) {
	defer fault.In(&err, "approx.Add")
	var room [64]byte // on the stack: most changes allocate nothing
	id, ok := c.core.codec.Plain(room[:0], key)
	if !ok {
		if id, err = c.core.key(key); err != nil {
			return err
		}
	}
	due, err := c.waiting.add(id, n, &c.core.Options)
	if err != nil || due == nil {
		return err
	}
	_, err = c.write(comment.Call(ctx, "approx.Add"), due)
	return fault.Unknown(err)
}

// Flush writes everything that waits. Result.Done counts the keys written, and Skipped those
// without a document (Options.Existing), whose changes are dropped.
//
// Cost: 1 round trip for 1000 keys that wait, index KeyField; none if none does.
func (c *Counters[ID]) Flush(ctx context.Context) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "approx.Flush")
	defer fault.In(&err, "approx.Flush")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return c.write(ctx, c.waiting.take())
}

// Close flushes, and later Adds return mongopatterns.ErrClosed. It waits for the writes of other calls that are under way,
// and stores what these could not. After an error call it again, because changes that were not stored still wait, and
// are lost when the process ends.
//
// Cost: that of Flush.
func (c *Counters[ID]) Close(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "approx.Close")
	defer fault.In(&err, "approx.Close")
	var total mongopatterns.Result
	defer fault.PartlyDone(&err, &total.Done, &total.Unknown)
	for {
		changes, landing := c.waiting.close()
		result, err := c.write(ctx, changes)
		maintain.Add(&total, result)
		if err != nil || landing == nil {
			return err
		}
		select {
		case <-landing:
		case <-ctx.Done():
			return fault.Unknown(ctx.Err())
		}
	}
}

// write stores changes; those that were not stored wait again.
func (c *Counters[ID]) write(ctx context.Context, changes []change) (mongopatterns.Result, error) {
	result, left, err := c.core.store(ctx, changes)
	c.waiting.landed(changes, left, &c.core.Options)
	return result, err
}

// Run flushes every Options.Interval until ctx is done, and then closes the counters. Each of these
// calls takes at most 10 s and does not end with ctx, so that its last write is not interrupted.
// Errors of a Flush go to failed, which may be nil, and the changes wait for the next Flush. Run
// returns the error of the Close.
//
// Cost: that of Flush at each interval.
func (c *Counters[ID]) Run(ctx context.Context, failed func(error)) error {
	flush := func(ctx context.Context) error { _, err := c.Flush(ctx); return err }
	return interval.Run(ctx, cmp.Or(c.core.Interval, time.Second), flush, c.Close, failed)
}

// Get returns the stored count plus the changes that wait for the key in these counters or are
// being written. A change that is being written may be counted twice. If the key is not stored and
// nothing waits for it, Get returns mongopatterns.ErrNotFound.
//
// Cost: 1 round trip, index KeyField.
func (c *Counters[ID]) Get(ctx context.Context, key ID) (n int64, err error) {
	ctx = comment.Call(ctx, "approx.Get")
	defer fault.In(&err, "approx.Get")
	id, err := c.core.key(key)
	if err != nil {
		return 0, err
	}
	// The waiting changes are read first: a write that ends between the two is then counted twice,
	// otherwise it would not be counted at all.
	here, waits := c.waiting.count(id)
	n, err = c.core.stored(ctx, id)
	if waits && errors.Is(err, mongopatterns.ErrNotFound) {
		err = nil
	}
	sum := n + here
	if n > 0 && here > 0 && sum < 0 || n < 0 && here < 0 && sum >= 0 {
		return 0, fault.Of(id, fault.Malformed("%q is %d, and with the %d that wait here it exceeds an int64", c.core.CountField, n, here))
	}
	return sum, err
}

// Filter selects the document of a key.
func (c *Counters[ID]) Filter(key ID) bson.D { return c.core.filter(key) }

// A core stores counts of keys, on BSON.
type core struct {
	Options
	coll  *scoped.Collection
	codec codec.Codec
}

// newCore completes the options and refuses those that the constructor has no use for.
func newCore(coll *mongo.Collection, opts *Options, useless ...string) (*core, error) {
	c := &core{coll: scoped.On(coll)}
	if opts != nil {
		c.Options = *opts
	}
	set := map[string]bool{"Precision": c.Precision != 0, "Interval": c.Interval != 0, "MaxKeys": c.MaxKeys != 0, "Random": c.Random != nil}
	for _, option := range useless {
		if set[option] {
			return c, fault.Invalid("Options.%s: these counters have no use for it", option)
		}
	}
	c.codec = codec.New(coll, c.Registry, c.BSON)
	err := config.Collections("coll", coll)
	if err != nil {
		return c, err
	}
	err = config.Apply(
		config.Named("Options.KeyField", &c.KeyField, "_id"),
		config.Named("Options.CountField", &c.CountField, "count"),
		config.Number("Options.Every", &c.Every, 100, 1, math.MaxInt32),
		config.Number("Options.Precision", &c.Precision, 10, 4, 14),
		config.Number("Options.MaxKeys", &c.MaxKeys, 10_000, 1, math.MaxInt32),
		config.Check("Options.Interval", func() error {
			if c.Interval < 0 {
				return errors.New("it is negative")
			}
			return nil
		}))
	return c, err
}

func (c *core) indexes() map[string][]mongo.IndexModel {
	if c.KeyField == "_id" {
		return map[string][]mongo.IndexModel{}
	}
	return map[string][]mongo.IndexModel{c.coll.Name(): {{
		Keys: expr.D(c.KeyField, 1), Options: options.Index().SetUnique(true),
	}}}
}

func (c *core) ensureIndexes(ctx context.Context, types ...reflect.Type) error {
	if err := collation.Refuse(ctx, c.coll); err != nil {
		return err
	}
	if err := c.codec.CheckClient(ctx, c.coll, types...); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, c.coll.Database(), c.indexes())
}

func (c *core) shardKey() map[string]bson.D {
	return map[string]bson.D{c.coll.Name(): expr.D(c.KeyField, 1)}
}

func (c *core) key(key any) (bson.RawValue, error) { return c.codec.ID("key", key) }

// filter selects the document of a key.
func (c *core) filter(key any) bson.D {
	return expr.D(c.KeyField, c.codec.Condition(key))
}

// of selects the document of an encoded key for the package itself: not one with an array that somebody typed, which an
// equality with its element meets, so that several keys would share a count.
func (c *core) of(key bson.RawValue) bson.D { return expr.Is(c.KeyField, key) }

// chunk limits the writes of one command.
const chunk = 1000

var unordered = options.BulkWrite().SetOrdered(false)

// store writes changes by $inc, outside any transaction of ctx, and returns those that are not
// known to be stored.
func (c *core) store(ctx context.Context, changes []change) (result mongopatterns.Result, left []change, err error) {
	keys := make([]bson.RawValue, len(changes))
	for i, p := range changes {
		keys[i] = p.key
	}
	result, not, err := c.send(ctx, keys, func(i int) bson.D {
		return expr.Op("$inc", expr.D(c.CountField, changes[i].n))
	})
	for _, i := range not {
		left = append(left, changes[i])
	}
	return result, left, err
}

// send updates the documents of keys, outside any transaction of ctx, and returns the indices of
// those that are not known to be updated. After an error it sends no more. A new key that another writer inserts at the
// same time is sent once more: the server does that only where the filter is an equality and nothing else.
func (c *core) send(ctx context.Context, keys []bson.RawValue, update func(i int) bson.D) (result mongopatterns.Result, left []int, err error) {
	ctx = mongo.NewSessionContext(ctx, nil)
	todo := make([]int, len(keys))
	for i := range todo {
		todo[i] = i
	}
	for last := false; len(todo) > 0; last = true {
		var taken []int
		for part := range slices.Chunk(todo, chunk) {
			if err = cmp.Or(err, ctx.Err()); err != nil { // the driver would not say that nothing was sent
				left = append(left, part...)
				continue
			}
			var met, failed []int
			met, failed, err = c.sendPart(ctx, keys, part, update, last, &result)
			taken, left = append(taken, met...), append(left, failed...)
		}
		todo = taken
	}
	return result, left, err
}

// sendPart updates the documents of some keys by one command, and counts them. met are those that may be sent again, because
// another writer inserted the key at the same time. It returns failed and an error for the others that are not known to
// be updated.
func (c *core) sendPart(ctx context.Context, keys []bson.RawValue, part []int, update func(i int) bson.D, last bool, r *mongopatterns.Result) (met, failed []int, err error) {
	models := make([]mongo.WriteModel, len(part))
	for n, i := range part {
		models[n] = mongo.NewUpdateOneModel().SetUpsert(!c.Existing).SetFilter(c.of(keys[i])).SetUpdate(update(i))
	}
	written, err := fault.Many(c.coll.BulkWrite(ctx, models, unordered))
	var refused mongo.BulkWriteException
	whole := err != nil && !errors.As(err, &refused) // the command, and not some of its writes
	if undone := refused.WriteConcernError != nil; whole || undone {
		if undone || fault.MayHaveWritten(err) { // what was written may be rolled back
			r.Examined += int64(len(part))
			r.Unknown += int64(len(part))
		}
		return nil, part, err
	}
	for _, e := range refused.WriteErrors {
		i := part[e.Index]
		if !last && mongo.IsDuplicateKeyError(e) {
			met = append(met, i)
			continue
		}
		failed = append(failed, i)
		maintain.Fail(r, c.coll.Name(), keys[i], e)
	}
	if len(failed) == 0 {
		err = nil
	}
	done := written.MatchedCount + written.UpsertedCount
	r.Examined += int64(len(part) - len(met))
	r.Done += done
	r.Skipped += int64(len(part)-len(refused.WriteErrors)) - done
	return met, failed, err
}

// stored returns the stored count, without its fraction, 0 if the field is missing.
func (c *core) stored(ctx context.Context, id bson.RawValue) (int64, error) {
	v, err := c.field(ctx, id)
	if err != nil || v.Type == 0 || v.Type == bson.TypeNull {
		return 0, err
	}
	n := value.Number(v)
	if n == nil || !new(big.Int).Quo(n.Num(), n.Denom()).IsInt64() {
		return 0, fault.Of(id, fault.Malformed("%q is %s, not a count", c.CountField, value.Text(v)))
	}
	return new(big.Int).Quo(n.Num(), n.Denom()).Int64(), nil
}

// field returns the value of CountField in the document of a key, zero if it is missing.
func (c *core) field(ctx context.Context, id bson.RawValue) (bson.RawValue, error) {
	raw, err := c.coll.FindOne(ctx, c.of(id),
		options.FindOne().SetProjection(expr.D("_id", 0, c.CountField, 1))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = fault.Of(id, mongopatterns.ErrNotFound)
	}
	return value.Lookup(raw, c.CountField), err
}
