package approx

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/interval"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Distinct counts how many different values V each key has had, by HyperLogLog. A value raises one
// of a fixed number of small numbers, the registers, according to how rare its hash is. The
// registers are in Options.CountField under the name of their precision, {p10: {"17": 3, "230": 1,
// …}}. Registers of several writers are joined by $max, in any order and any number of times.
//
// 1, 1.0 and Decimal128 1 are one value, as for the server. Strings are compared byte by byte.
// Registers of different precisions cannot be joined, so Estimate and Union return ErrMalformed for a
// field that has registers of another precision than Options.Precision.
type Distinct[ID, V any] struct {
	core *core

	mu      sync.Mutex
	closed  bool
	keys    map[string]*sketch
	flushed time.Time
	most    int // the keys that may wait; see Options.most
}

// A sketch holds the registers of a key in this process. raised are those that are not stored yet, and enough is how
// many of them are written. exists says that the key is known to have a document.
type sketch struct {
	key    bson.RawValue
	ranks  []uint8
	raised map[int]bool
	enough int64
	exists bool
}

// NewDistinct returns a Distinct on coll. It does no I/O.
func NewDistinct[ID, V any](coll *mongo.Collection, opts *Options) (d *Distinct[ID, V], err error) {
	defer fault.In(&err, "approx.NewDistinct")
	if err := cmp.Or(codec.CheckOrder[ID]("ID"), codec.CheckOrder[V]("V")); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.CountField == "" {
		o.CountField = "distinct"
	}
	core, err := newCore(coll, &o, "Random")
	if err != nil {
		return nil, err
	}
	return &Distinct[ID, V]{core: core, keys: map[string]*sketch{}, flushed: time.Now(), most: core.MaxKeys}, nil
}

// Indexes returns the same as [Counters.Indexes].
func (d *Distinct[ID, V]) Indexes() map[string][]mongo.IndexModel { return d.core.indexes() }

// EnsureIndexes creates the missing indexes. It refuses a collection with a default collation.
//
// Cost: 1 round trip; with a KeyField 1 more, 2 if its index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (d *Distinct[ID, V]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "approx.Distinct.EnsureIndexes")
	defer fault.In(&err, "approx.Distinct.EnsureIndexes")
	return d.core.ensureIndexes(ctx, reflect.TypeFor[ID](), reflect.TypeFor[V]())
}

// ShardKey returns the recommended shard key, KeyField, by collection name.
func (d *Distinct[ID, V]) ShardKey() map[string]bson.D { return d.core.shardKey() }

// Filter selects the document of a key.
func (d *Distinct[ID, V]) Filter(key ID) bson.D { return d.core.filter(key) }

// Add counts values of a key. It writes the key when Every of its registers are raised. It writes
// everything that waits when Interval has passed or MaxKeys is exceeded. The more values a key has
// had, the longer a raised register waits, so set an Interval or call Flush. A value that was
// counted before costs nothing. With Existing this holds for keys that are known to have a document.
// After an error nothing is lost, and nothing counts twice.
//
// Cost: mostly none; 1 round trip and 1 document written at every Every-th register that is raised, index
// KeyField. When it flushes, that of Flush.
func (d *Distinct[ID, V]) Add(ctx context.Context, key ID, values ...V) (err error) {
	defer fault.In(&err, "approx.Distinct.Add")
	id, err := d.core.key(key)
	if err != nil || len(values) == 0 {
		return err
	}
	all := make([]bson.RawValue, len(values))
	for i, v := range values {
		if all[i], err = d.core.codec.Compared(v); err != nil {
			return err
		}
	}
	due, err := d.raise(id, all)
	if err != nil || due == nil {
		return err
	}
	_, err = d.write(comment.Call(ctx, "approx.Distinct.Add"), due)
	return fault.Unknown(err)
}

// raise counts values and returns the sketches to write now.
func (d *Distinct[ID, V]) raise(id bson.RawValue, values []bson.RawValue) ([]*sketch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, mongopatterns.ErrClosed
	}
	s := d.keys[value.Key(id)]
	if s == nil {
		s = &sketch{key: id, ranks: make([]uint8, d.core.registers()), raised: map[int]bool{}, enough: d.core.Every}
		d.keys[value.Key(id)] = s
	}
	for _, v := range values {
		if i, rank := d.core.place(v); rank > s.ranks[i] {
			s.ranks[i] = rank
			s.raised[i] = true
		}
	}
	if len(d.keys) > d.core.MaxKeys { // those without raised registers are stored
		maps.DeleteFunc(d.keys, func(_ string, s *sketch) bool { return len(s.raised) == 0 })
	}
	switch o := d.core.Options; {
	case o.Interval > 0 && time.Since(d.flushed) >= o.Interval, len(d.keys) > d.most:
		return d.all(), nil
	case int64(len(s.raised)) >= s.enough:
		s.wait(o.Every)
		return []*sketch{s}, nil
	}
	return nil, nil
}

// wait puts off the next write until more registers are raised than those that are being written, or that could not be.
func (s *sketch) wait(every int64) { s.enough = int64(len(s.raised)) + every }

func (d *Distinct[ID, V]) all() (out []*sketch) {
	for _, s := range d.keys {
		s.wait(d.core.Every)
		out = append(out, s)
	}
	d.flushed, d.most = time.Now(), d.core.most(true, len(d.keys))
	return out
}

// Flush writes everything that waits. Result.Done counts the keys written, and Skipped those
// without a document (Options.Existing), whose values are dropped.
//
// Cost: 1 round trip for 1000 keys with raised registers, index KeyField; none if there
// is none.
func (d *Distinct[ID, V]) Flush(ctx context.Context) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "approx.Distinct.Flush")
	defer fault.In(&err, "approx.Distinct.Flush")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return d.write(ctx, d.waiting(false))
}

// Close flushes, and later Adds return mongopatterns.ErrClosed. After an error call it again.
//
// Cost: that of Flush.
func (d *Distinct[ID, V]) Close(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "approx.Distinct.Close")
	defer fault.In(&err, "approx.Distinct.Close")
	result, err := d.write(ctx, d.waiting(true))
	fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return err
}

// Run flushes every Options.Interval until ctx is done, then closes d, as [Counters.Run] does.
//
// Cost: that of Flush at each interval.
func (d *Distinct[ID, V]) Run(ctx context.Context, failed func(error)) error {
	flush := func(ctx context.Context) error { _, err := d.Flush(ctx); return err }
	return interval.Run(ctx, cmp.Or(d.core.Interval, time.Second), flush, d.Close, failed)
}

func (d *Distinct[ID, V]) waiting(closed bool) []*sketch {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = d.closed || closed
	return d.all()
}

// forget drops the registers that do not wait, so that their values count when they come again.
func (s *sketch) forget() {
	for i := range s.ranks {
		if !s.raised[i] {
			s.ranks[i] = 0
		}
	}
}

// write sends raised registers. Two writes of the same registers are harmless. If there are more
// than MaxKeys keys, those that are stored are removed from memory; a new value may then send a
// register again. A key without a document is forgotten, and so are those sent with it that are not
// known to have one, because the server only says how many have none.
func (d *Distinct[ID, V]) write(ctx context.Context, due []*sketch) (mongopatterns.Result, error) {
	var sent []*sketch
	var keys []bson.RawValue
	var updates []bson.D
	d.mu.Lock()
	for _, s := range due {
		ranks := bson.D{}
		for i := range s.raised {
			ranks = append(ranks, expr.Element(d.core.registersField()+"."+strconv.Itoa(i), int32(s.ranks[i])))
		}
		if len(ranks) > 0 {
			sent, keys, updates = append(sent, s), append(keys, s.key), append(updates, ranks)
		}
	}
	d.mu.Unlock()
	result, left, err := d.core.send(ctx, keys, func(i int) bson.D { return expr.Op("$max", updates[i]) })
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range left {
		updates[i] = nil
	}
	full := len(d.keys) > d.core.MaxKeys
	for i, s := range sent {
		if updates[i] != nil {
			s.enough = d.core.Every
			s.exists = s.exists && result.Done > 0 || result.Skipped == 0
		}
		for _, e := range updates[i] {
			register, _ := strconv.Atoi(e.Key[len(d.core.registersField())+1:])
			if int32(s.ranks[register]) == e.Value {
				delete(s.raised, register)
			}
		}
		switch key := value.Key(s.key); {
		// Another write may have removed the key already, and a new sketch of it may wait.
		case (full || !s.exists) && len(s.raised) == 0 && d.keys[key] == s:
			delete(d.keys, key)
		case updates[i] != nil && !s.exists:
			s.forget()
		}
	}
	if len(sent) > 0 {
		d.most = d.core.most(len(left) > 0, len(d.keys))
	}
	return result, err
}

// Estimate returns about how many different values a key has had, stored or waiting here, with the
// standard error of 1.04/√registers. For a key without any it returns mongopatterns.ErrNotFound.
//
// Cost: 1 round trip, index KeyField.
func (d *Distinct[ID, V]) Estimate(ctx context.Context, key ID) (e Estimate, err error) {
	ctx = comment.Call(ctx, "approx.Distinct.Estimate")
	defer fault.In(&err, "approx.Distinct.Estimate")
	id, err := d.core.key(key)
	if err != nil {
		return e, err
	}
	ranks := make([]uint8, d.core.registers())
	d.mu.Lock()
	s := d.keys[value.Key(id)]
	if s != nil {
		copy(ranks, s.ranks)
	}
	d.mu.Unlock()
	v, err := d.core.field(ctx, id)
	if err != nil && !(s != nil && errors.Is(err, mongopatterns.ErrNotFound)) {
		return e, err
	}
	if err := d.core.joinAll(ranks, v); err != nil {
		return e, fault.Of(id, err)
	}
	return estimate(ranks), nil
}

// joinAll joins the stored registers of a field into ranks.
func (c *core) joinAll(ranks []uint8, field bson.RawValue) error {
	if field.Type == 0 || field.Type == bson.TypeNull {
		return nil
	}
	stored, ok := field.DocumentOK()
	if !ok {
		return fault.Malformed("%q is %s, not a document of registers", c.CountField, value.Text(field))
	}
	precisions, err := stored.Elements()
	if err != nil {
		return err
	}
	for _, p := range precisions {
		registers, ok := p.Value().DocumentOK()
		if !ok {
			return fault.Malformed("%q is %s, not a document of registers", c.CountField+"."+p.Key(), value.Text(p.Value()))
		}
		elements, err := registers.Elements()
		if err != nil {
			return err
		}
		for _, e := range elements {
			if err := c.join(ranks, p.Key(), e.Key(), e.Value()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Union returns about how many different values the documents that filter selects have had
// together, such as the visitors of a month from those of its days. A nil filter selects all.
// Values that wait are not included.
//
// Cost: 1 round trip; reads what filter selects, and returns one number for each register.
func (d *Distinct[ID, V]) Union(ctx context.Context, filter any) (e Estimate, err error) {
	ctx = comment.Call(ctx, "approx.Distinct.Union")
	defer fault.In(&err, "approx.Distinct.Union")
	if err := codec.CheckFilter("filter", filter); err != nil {
		return e, err
	}
	c, ranks := d.core, make([]uint8, d.core.registers())
	entries := func(v any) bson.D {
		return expr.Op("$objectToArray", expr.Cond(expr.IsType(v, "object"), v, bson.D{}))
	}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", expr.And(filter)),
			expr.Op("$project", expr.D("p", entries(expr.Field(c.CountField)))),
			expr.Op("$unwind", "$p"),
			expr.Op("$project", expr.D("p", "$p.k", "r", entries("$p.v"))),
			expr.Op("$unwind", "$r"),
			expr.Op("$group", expr.D("_id", expr.D("p", "$p", "r", "$r.k"), "v", expr.Op("$max", "$r.v"))),
		}, options.Aggregate().SetBatchSize(int32(len(ranks)+1)))
	}) {
		if err != nil {
			return e, err
		}
		if err = c.join(ranks, doc.Lookup("_id", "p").StringValue(), doc.Lookup("_id", "r").StringValue(), doc.Lookup("v")); err != nil {
			return e, err
		}
	}
	return estimate(ranks), nil
}

func (c *core) registers() int { return 1 << c.Precision }

// place returns the register of a value and the rank that it gives it: one more than the number of
// leading zeros in the rest of its hash.
func (c *core) place(v bson.RawValue) (register int, rank uint8) {
	sum := sha256.Sum256([]byte(value.Key(v)))
	hash := binary.BigEndian.Uint64(sum[:])
	rest := hash<<c.Precision | 1<<(c.Precision-1) // a 1 that ends the zeros
	return int(hash >> (64 - c.Precision)), uint8(bits.LeadingZeros64(rest) + 1)
}

// registersField returns the path of the registers of this precision.
func (c *core) registersField() string { return c.CountField + ".p" + strconv.Itoa(c.Precision) }

// join joins one stored register into ranks.
func (c *core) join(ranks []uint8, precision, register string, rank bson.RawValue) error {
	i, err := strconv.Atoi(register)
	n, ok := rank.AsInt64OK()
	if own := "p" + strconv.Itoa(c.Precision); precision != own {
		return fault.Malformed("%q has registers in %s, but Precision is %d", c.CountField, precision, c.Precision)
	}
	if err != nil || i < 0 || i >= len(ranks) || !ok || n < 1 || n > int64(65-c.Precision) {
		return fault.Malformed("register %s of %q is %s, which Precision %d cannot make", register, c.CountField, value.Text(rank), c.Precision)
	}
	ranks[i] = max(ranks[i], uint8(n))
	return nil
}

// estimate returns the number of values that most likely gave these ranks, by the estimator of O.
// Ertl (New cardinality estimation algorithms for HyperLogLog sketches, 2017), which needs no
// correction for small or large numbers.
func estimate(ranks []uint8) Estimate {
	m := float64(len(ranks))
	precision := bits.Len(uint(len(ranks))) - 1
	most := 64 - precision
	count := make([]float64, most+2) // the number of registers of each rank
	for _, rank := range ranks {
		count[rank]++
	}
	z := m * tau(1-count[most+1]/m)
	for k := most; k >= 1; k-- {
		z = (z + count[k]) / 2
	}
	z += m * sigma(count[0]/m)
	n := math.Round(m * m / z / (2 * math.Ln2))
	return Estimate{Count: int64(n), StdErr: n * 1.04 / math.Sqrt(m)}
}

// sigma returns x + the sum of x^(2^k) × 2^(k-1), for x the share of registers without a value.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := -1.0; z != before; y *= 2 {
		x *= x
		before = z
		z += x * y
	}
	return z
}

// tau is the counterpart of sigma, for x the share of registers that are not full.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := -1.0; z != before; {
		x = math.Sqrt(x)
		before = z
		y /= 2
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}
