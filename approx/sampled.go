package approx

import (
	"context"
	"math"
	"math/rand/v2"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Sampled counters write a change with the probability 1/Every, times Every.
type Sampled[K any] struct{ core *core }

// Estimate is a count that was sampled, or of distinct values.
type Estimate struct {
	// Count is the count. On average it is the true one.
	Count int64 `json:"count"`
	// StdErr is the standard error: √(Count × (Every-1)) of a sampled count to which
	// each change added 1, Count × 1.04/√registers of distinct values. Two thirds of
	// all estimates are closer than that, 95 percent closer than twice that.
	StdErr float64 `json:"stdErr"`
}

// NewSampled returns sampled counters on coll. It does no I/O.
func NewSampled[K any](coll *mongo.Collection, opts *Options) (s *Sampled[K], err error) {
	defer fault.In(&err, "approx: new sampled")
	core, err := newCore(coll, opts)
	if err != nil {
		return nil, err
	}
	if core.Random == nil {
		core.Random = rand.Float64
	}
	return &Sampled[K]{core: core}, nil
}

// Indexes are those of [Counters.Indexes].
func (s *Sampled[K]) Indexes() map[string][]mongo.IndexModel { return s.core.indexes() }

// EnsureIndexes creates the indexes that are missing. It refuses a collection with a default
// collation.
//
// Cost: 1 round trip; with a KeyField 1 more, 2 if its index is missing.
func (s *Sampled[K]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "approx: ensure indexes")
	return s.core.ensureIndexes(ctx)
}

// ShardKey is the key, by collection name.
func (s *Sampled[K]) ShardKey() map[string]bson.D { return s.core.shardKey() }

// Add adds n, which may be negative: the multiple of Every below or above it, so
// that the average of many is n. After an error the change is lost, or, if the
// answer was, perhaps stored: do not add it again, as others like it were not
// written either. A key that cannot be encoded is refused only where it would be
// written.
//
// Cost: for n of 1, by the probability 1/Every 1 round trip and 1 document
// written, index KeyField; else none.
func (s *Sampled[K]) Add(ctx context.Context, key K, n int64) error {
	if most := math.MaxInt64 - s.core.Every; n > most || n < -most {
		return s.refuse(n)
	}
	whole, rest := n/s.core.Every, n%s.core.Every
	if up := float64(rest) / float64(s.core.Every); s.core.Random() < math.Abs(up) {
		whole += int64(math.Copysign(1, up))
	}
	if whole == 0 {
		return nil
	}
	return s.store(ctx, key, whole*s.core.Every)
}

func (s *Sampled[K]) refuse(n int64) (err error) {
	defer fault.In(&err, "approx: add")
	return fault.Invalid("n: %d, rounded to Every, exceeds an int64", n)
}

func (s *Sampled[K]) store(ctx context.Context, key K, n int64) (err error) {
	defer fault.In(&err, "approx: add")
	id, err := s.core.key(key)
	if err != nil {
		return err
	}
	_, _, err = s.core.store(ctx, []change{{key: id, n: n}})
	return err
}

// Estimate is the stored count and how far off it may be. A key that was never
// written, which one with few changes may not have been, is ErrNotFound.
//
// Cost: 1 round trip, index KeyField.
func (s *Sampled[K]) Estimate(ctx context.Context, key K) (e Estimate, err error) {
	defer fault.In(&err, "approx: estimate")
	id, err := s.core.key(key)
	if err != nil {
		return e, err
	}
	e.Count, err = s.core.stored(ctx, id)
	e.StdErr = math.Sqrt(math.Abs(float64(e.Count)) * float64(s.core.Every-1))
	return e, err
}

// Filter selects the document of a key.
func (s *Sampled[K]) Filter(key K) bson.D { return s.core.filter(key) }
