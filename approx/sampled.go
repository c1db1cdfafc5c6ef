package approx

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Sampled counters write a change with the probability 1/Every, multiplied by Every. They keep
// nothing in memory.
type Sampled[ID any] struct{ core *core }

// An Estimate is a sampled count, or a count of distinct values.
type Estimate struct {
	// Count is the estimated count. On average it is the true one.
	Count int64 `json:"count"`
	// StdErr is the standard error. For a sampled count it is √(Count × (Every-1)) if each change
	// added 1, and for distinct values Count × 1.04/√registers. Two thirds of all estimates are off
	// by less than this, and 95 percent by less than twice this.
	StdErr float64 `json:"stdErr"`
}

// NewSampled returns Sampled counters on coll. It does no I/O.
func NewSampled[ID any](coll *mongo.Collection, opts *Options) (s *Sampled[ID], err error) {
	defer fault.In(&err, "approx.NewSampled")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	core, err := newCore(coll, opts, "Precision", "Interval", "MaxKeys")
	if err != nil {
		return nil, err
	}
	if core.Random == nil {
		core.Random = rand.Float64
	}
	return &Sampled[ID]{core: core}, nil
}

// Indexes returns the same as [Counters.Indexes].
func (s *Sampled[ID]) Indexes() map[string][]mongo.IndexModel { return s.core.indexes() }

// EnsureIndexes creates the missing indexes. It refuses a collection with a default collation.
//
// Cost: 1 round trip; with a KeyField 1 more, 2 if its index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (s *Sampled[ID]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "approx.Sampled.EnsureIndexes")
	defer fault.In(&err, "approx.Sampled.EnsureIndexes")
	return s.core.ensureIndexes(ctx, reflect.TypeFor[ID]())
}

// ShardKey returns the recommended shard key, KeyField, by collection name.
func (s *Sampled[ID]) ShardKey() map[string]bson.D { return s.core.shardKey() }

// Add adds n, which may be negative. It writes the multiple of Every below or above n, by chance,
// so that the average is n. After an error the change is lost or, if only the answer was lost,
// perhaps stored. Do not repeat it, because the write stood for about Every changes, and a repeated
// Add is written only with the same small probability. A key that cannot be encoded is refused only
// when it would be written.
//
// Cost: for n of 1, by the probability 1/Every 1 round trip and 1 document
// written, index KeyField; else none.
func (s *Sampled[ID]) Add(ctx context.Context, key ID, n int64) error {
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

func (s *Sampled[ID]) refuse(n int64) (err error) {
	defer fault.In(&err, "approx.Sampled.Add")
	return fault.Invalid("n: %d, rounded to a multiple of Every, exceeds an int64", n)
}

func (s *Sampled[ID]) store(ctx context.Context, key ID, n int64) (err error) {
	defer fault.In(&err, "approx.Sampled.Add")
	id, err := s.core.key(key)
	if err != nil {
		return err
	}
	_, _, err = s.core.store(comment.Call(ctx, "approx.Sampled.Add"), []change{{key: id, n: n}})
	return err
}

// Estimate returns the stored count and its standard error. For a key that was never written, as
// may happen after few changes, it returns mongopatterns.ErrNotFound.
//
// Cost: 1 round trip, index KeyField.
func (s *Sampled[ID]) Estimate(ctx context.Context, key ID) (e Estimate, err error) {
	ctx = comment.Call(ctx, "approx.Sampled.Estimate")
	defer fault.In(&err, "approx.Sampled.Estimate")
	id, err := s.core.key(key)
	if err != nil {
		return e, err
	}
	e.Count, err = s.core.stored(ctx, id)
	e.StdErr = math.Sqrt(math.Abs(float64(e.Count)) * float64(s.core.Every-1))
	return e, err
}

// Filter selects the document of a key.
func (s *Sampled[ID]) Filter(key ID) bson.D { return s.core.filter(key) }
