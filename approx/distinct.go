package approx

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pace"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Distinct counts how many different values V each key has had, by HyperLogLog: a
// value raises one of a few numbers, the registers, to how rare it is. They are in
// Options.CountField by their precision, {p10: {"17": 3, "230": 1, …}}, and join by
// $max, whoever writes them, in whatever order and however often.
//
// 1, 1.0 and Decimal128 1 are one value, as they are to the server; texts are told
// apart byte for byte. Registers of several precisions cannot be joined: Estimate and
// Union refuse a field that has others than those of Options.Precision.
type Distinct[K, V any] struct {
	core *core

	mu      sync.Mutex
	closed  bool
	keys    map[string]*sketch
	flushed time.Time
}

// sketch is what this process knows of a key. Registers of which the server does not
// know yet are raised.
type sketch struct {
	key    bson.RawValue
	ranks  []uint8
	raised map[int]bool
}

// NewDistinct returns distinct counts on coll. It does no I/O.
func NewDistinct[K, V any](coll *mongo.Collection, opts *Options) (d *Distinct[K, V], err error) {
	defer fault.In(&err, "approx: new distinct")
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.CountField == "" {
		o.CountField = "distinct"
	}
	core, err := newCore(coll, &o)
	if err != nil {
		return nil, err
	}
	return &Distinct[K, V]{core: core, keys: map[string]*sketch{}, flushed: time.Now()}, nil
}

// Indexes are those of [Counters.Indexes].
func (d *Distinct[K, V]) Indexes() map[string][]mongo.IndexModel { return d.core.indexes() }

// EnsureIndexes creates the indexes that are missing. It refuses a collection with a default
// collation.
//
// Cost: 1 round trip; with a KeyField 1 more, 2 if its index is missing.
func (d *Distinct[K, V]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "approx: ensure indexes")
	return d.core.ensureIndexes(ctx)
}

// ShardKey is the key, by collection name.
func (d *Distinct[K, V]) ShardKey() map[string]bson.D { return d.core.shardKey() }

// Filter selects the document of a key.
func (d *Distinct[K, V]) Filter(key K) bson.D { return d.core.filter(key) }

// Add counts values of a key. It writes when Every registers of the key are raised,
// and everything that waits when Interval or MaxKeys says so. The more values a key
// has had the longer a register waits: give an Interval, or Flush. A value that was counted
// before costs nothing. After an error nothing is lost, and nothing counts twice.
//
// Cost: none mostly; 1 round trip and 1 document written at every Every-th register
// that is raised, index KeyField. When it flushes, that of Flush.
func (d *Distinct[K, V]) Add(ctx context.Context, key K, values ...V) (err error) {
	defer fault.In(&err, "approx: add")
	id, err := d.core.key(key)
	if err != nil {
		return err
	}
	all := make([]bson.RawValue, len(values))
	for i, v := range values {
		if all[i], err = d.core.codec.Value(v); err != nil {
			return err
		}
	}
	due, err := d.raise(id, all)
	if err != nil {
		return err
	}
	_, err = d.write(ctx, due)
	return fault.Unknown(err)
}

// raise counts values and returns what is to be written now.
func (d *Distinct[K, V]) raise(id bson.RawValue, values []bson.RawValue) ([]*sketch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	s := d.keys[value.Key(id)]
	if s == nil {
		s = &sketch{id, make([]uint8, d.core.registers()), map[int]bool{}}
		d.keys[value.Key(id)] = s
	}
	for _, v := range values {
		if i, rank := d.core.place(v); rank > s.ranks[i] {
			s.ranks[i] = rank
			s.raised[i] = true
		}
	}
	if len(d.keys) > d.core.MaxKeys { // those that are written can go
		maps.DeleteFunc(d.keys, func(_ string, s *sketch) bool { return len(s.raised) == 0 })
	}
	switch o := d.core.Options; {
	case o.Interval > 0 && time.Since(d.flushed) >= o.Interval, len(d.keys) > o.MaxKeys:
		return d.all(), nil
	case int64(len(s.raised)) >= o.Every:
		return []*sketch{s}, nil
	}
	return nil, nil
}

func (d *Distinct[K, V]) all() (out []*sketch) {
	for _, s := range d.keys {
		out = append(out, s)
	}
	d.flushed = time.Now()
	return out
}

// Flush writes all that waits. Result.Done are the keys written, Skipped those without
// a document (Options.Existing).
//
// Cost: 1 round trip for 1000 keys with raised registers, index KeyField; none if there
// is none.
func (d *Distinct[K, V]) Flush(ctx context.Context) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "approx: flush")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return d.write(ctx, d.waiting(false))
}

// Close flushes and refuses later Adds with ErrClosed. After an error call it again.
//
// Cost: that of Flush.
func (d *Distinct[K, V]) Close(ctx context.Context) (err error) {
	defer fault.In(&err, "approx: close")
	_, err = d.write(ctx, d.waiting(true))
	return err
}

// Run flushes every Options.Interval until ctx is done, then closes the counts, as
// [Counters.Run] does.
//
// Cost: that of a Flush at each interval.
func (d *Distinct[K, V]) Run(ctx context.Context, failed func(error)) error {
	flush := func(ctx context.Context) error { _, err := d.Flush(ctx); return err }
	return pace.Run(ctx, cmp.Or(d.core.Interval, time.Second), flush, d.Close, failed)
}

func (d *Distinct[K, V]) waiting(closed bool) []*sketch {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = d.closed || closed
	return d.all()
}

// write sends raised registers. Two writes of the same do no harm. If there are more
// than MaxKeys, those that are written are forgotten: a new value may send a register
// again.
func (d *Distinct[K, V]) write(ctx context.Context, due []*sketch) (mongopatterns.Result, error) {
	var sent []*sketch
	var keys []bson.RawValue
	var updates []bson.D
	d.mu.Lock()
	for _, s := range due {
		ranks := bson.D{}
		for i := range s.raised {
			ranks = append(ranks, bson.E{Key: d.core.registersField() + "." + strconv.Itoa(i), Value: int32(s.ranks[i])})
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
		for _, e := range updates[i] {
			register, _ := strconv.Atoi(e.Key[len(d.core.registersField())+1:])
			if int32(s.ranks[register]) == e.Value {
				delete(s.raised, register)
			}
		}
		// Another write may have forgotten it already, and the key may wait anew.
		if key := value.Key(s.key); full && len(s.raised) == 0 && d.keys[key] == s {
			delete(d.keys, key)
		}
	}
	return result, err
}

// Estimate is about how many different values a key has had, stored or waiting here,
// with the standard error 1.04/√registers. A key without any is ErrNotFound.
//
// Cost: 1 round trip, index KeyField.
func (d *Distinct[K, V]) Estimate(ctx context.Context, key K) (e Estimate, err error) {
	defer fault.In(&err, "approx: estimate")
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
	if err != nil && !(s != nil && errors.Is(err, fault.ErrNotFound)) {
		return e, err
	}
	if err := d.core.joinAll(ranks, v); err != nil {
		return e, fault.Of(id, err)
	}
	return estimate(ranks), nil
}

// joinAll raises registers to the stored ones of a field.
func (c *core) joinAll(ranks []uint8, field bson.RawValue) error {
	if field.Type == 0 || field.Type == bson.TypeNull {
		return nil
	}
	stored, ok := field.DocumentOK()
	if !ok {
		return fmt.Errorf("%s is %s, no registers", c.CountField, value.Text(field))
	}
	precisions, err := stored.Elements()
	if err != nil {
		return err
	}
	for _, p := range precisions {
		registers, ok := p.Value().DocumentOK()
		if !ok {
			return fmt.Errorf("%s.%s is %s, no registers", c.CountField, p.Key(), value.Text(p.Value()))
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

// Union is about how many different values the documents that filter selects have had
// together: the visitors of a month from those of its days. nil is all documents. What
// waits is not in it.
//
// Cost: 1 round trip; reads what filter selects, and returns one number a register.
func (d *Distinct[K, V]) Union(ctx context.Context, filter any) (e Estimate, err error) {
	defer fault.In(&err, "approx: union")
	c, ranks := d.core, make([]uint8, d.core.registers())
	entries := func(v any) bson.D {
		return expr.Op("$objectToArray", expr.Cond(expr.IsType(v, "object"), v, bson.D{}))
	}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", expr.And(filter)),
			expr.Op("$project", bson.D{{Key: "p", Value: entries(expr.Field(c.CountField))}}),
			expr.Op("$unwind", "$p"),
			expr.Op("$project", bson.D{{Key: "p", Value: "$p.k"}, {Key: "r", Value: entries("$p.v")}}),
			expr.Op("$unwind", "$r"),
			expr.Op("$group", bson.D{{Key: "_id", Value: bson.D{{Key: "p", Value: "$p"}, {Key: "r", Value: "$r.k"}}}, {Key: "v", Value: expr.Op("$max", "$r.v")}}),
		}, options.Aggregate().SetBatchSize(int32(len(ranks)+1)))
	}) {
		if err == nil {
			err = c.join(ranks, doc.Lookup("_id", "p").StringValue(), doc.Lookup("_id", "r").StringValue(), doc.Lookup("v"))
		}
		if err != nil {
			return e, err
		}
	}
	return estimate(ranks), nil
}

func (c *core) registers() int { return 1 << c.Precision }

// place is the register of a value and the rank it gives it: one more than the number
// of zeros that the rest of its hash begins with.
func (c *core) place(v bson.RawValue) (register int, rank uint8) {
	sum := sha256.Sum256([]byte(value.Key(v)))
	hash := binary.BigEndian.Uint64(sum[:])
	rest := hash<<c.Precision | 1<<(c.Precision-1) // an end for the zeros
	return int(hash >> (64 - c.Precision)), uint8(bits.LeadingZeros64(rest) + 1)
}

// registersField is the path of the registers of this precision.
func (c *core) registersField() string { return c.CountField + ".p" + strconv.Itoa(c.Precision) }

// join raises a register to a stored rank.
func (c *core) join(ranks []uint8, precision, register string, rank bson.RawValue) error {
	i, err := strconv.Atoi(register)
	n, ok := rank.AsInt64OK()
	if own := "p" + strconv.Itoa(c.Precision); precision != own {
		return fmt.Errorf("%s has registers in %s: another Precision than %d", c.CountField, precision, c.Precision)
	}
	if err != nil || i < 0 || i >= len(ranks) || !ok || n < 1 || n > int64(65-c.Precision) {
		return fmt.Errorf("%s.%s: %s is no register of Precision %d", c.CountField, register, value.Text(rank), c.Precision)
	}
	ranks[i] = max(ranks[i], uint8(n))
	return nil
}

// estimate is the number of values that most likely made these ranks, by the
// estimator of O. Ertl (New cardinality estimation algorithms for HyperLogLog sketches,
// 2017): it needs no correction for small or large numbers.
func estimate(ranks []uint8) Estimate {
	m := float64(len(ranks))
	precision := bits.Len(uint(len(ranks))) - 1
	most := 64 - precision
	count := make([]float64, most+2) // of registers, by rank
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

// sigma is x + the sum of x^(2^k) × 2^(k-1), the share of registers without a value.
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

// tau is the share of registers that are full.
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
