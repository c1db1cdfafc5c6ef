package computed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Options say how the fields are computed. The zero value of each is its default.
type Options struct {
	// Additive says that all computed fields are sums: a Change then adds what its
	// sources contribute afterwards less what they did before. Sums of doubles gather
	// rounding errors: Check allows a billionth of the sum, and of 1 where it is smaller.
	// empty must be zeros. Default false: Change computes the target anew.
	Additive bool
	// StateField is the field of the target for the time and the epoch. Default
	// "computed".
	StateField string
	// Lease is how long others wait before they start the same computation of Get or
	// Drain, if its process dies; longer than a computation takes. Default 1 minute.
	Lease time.Duration
	// Attempts is how often Drain tries a target whose computation fails; then it is
	// set aside (Failures). Default 5.
	Attempts int
	// Wait has readers of a stale value wait for a computation that is under way.
	// Default false: they get the old value.
	Wait bool
	// Then is computed from these targets, and follows in the same transaction.
	// Default nil.
	Then Level
	// Registry and BSON encode the IDs. Default: the driver's own.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Level is a *Computed, of whatever types.
type Level interface{ level() *core }

// Computed keeps computed fields. S is the type of the sources' _ids, ID that of the
// targets', T a target.
type Computed[S, ID, T any] struct{ core *core }

func (c *Computed[S, ID, T]) level() *core { return c.core }

// New returns the computed fields of targets. It does no I/O.
//
// keyField is the path in the source of the _id of its target, or of its targets, where
// there are arrays on the way: such as "items.product" of orders.
//
// pipeline turns sources into a document for each of their targets: its _id is the
// target's, its other fields are those of empty, all of them and no others. A target for
// which it makes anything else fails, and keeps its values. The same sources must make the
// same values: sort what $addToSet gathers. $out and $merge are refused.
//
// empty has all computed fields, with the values of a target without sources.
func New[S, ID, T any](sources, targets *mongo.Collection, keyField string, pipeline mongo.Pipeline, empty bson.D, opts *Options) (c *Computed[S, ID, T], err error) {
	defer fault.In(&err, "computed: new")
	if err := config.Collections("sources", sources, "targets", targets); err != nil {
		return nil, err
	}
	inner := &core{sources: sources, targets: targets, key: keyField, pipeline: pipeline, fields: empty}
	if opts != nil {
		inner.Options = *opts
	}
	inner.codec = codec.Codec{Registry: inner.Registry, BSON: inner.BSON}
	settings := []config.Setting{
		config.Name("Options.StateField", &inner.StateField, "computed"),
		config.Number("Options.Lease", (*int64)(&inner.Lease), int64(time.Minute), int64(time.Millisecond), int64(24*time.Hour)),
		config.Number("Options.Attempts", &inner.Attempts, 5, 1, 1<<20),
		config.Check("pipeline", func() error {
			if len(pipeline) == 0 {
				return errors.New("it is empty")
			}
			for _, stage := range pipeline {
				if len(stage) > 0 && (stage[0].Key == "$out" || stage[0].Key == "$merge") {
					return fmt.Errorf("%s writes", stage[0].Key)
				}
			}
			return nil
		}),
		config.Check("empty", func() error {
			if len(empty) == 0 {
				return errors.New("it has no fields")
			}
			return nil
		}),
	}
	for _, field := range empty {
		name := field.Key
		settings = append(settings, config.Name("empty", &name, ""))
		if name == "_id" {
			return nil, fault.Invalid("empty: _id is not a computed field")
		}
	}
	if err := fieldpath.CheckNamed("keyField", keyField); err != nil {
		return nil, fault.Invalid("%w", err)
	}
	if err := config.Apply(settings...); err != nil {
		return nil, err
	}
	if inner.Then != nil && inner.Then.level().sources.Name() != targets.Name() {
		return nil, fault.Invalid("Options.Then: it is not computed from %s", targets.Name())
	}
	if inner.empty, err = inner.codec.Document(empty); err != nil {
		return nil, err
	}
	for _, e := range empty {
		if n := value.Number(inner.empty.Lookup(e.Key)); inner.Additive && (n == nil || n.Sign() != 0) {
			return nil, fault.Invalid("empty: %s of Options.Additive is not 0", e.Key)
		}
	}
	inner.prepare()
	return &Computed[S, ID, T]{inner}, nil
}

// Indexes are {key: 1} of the sources and {"computed.dirty": 1} of the marked
// targets, by collection name.
func (c *Computed[S, ID, T]) Indexes() map[string][]mongo.IndexModel {
	dirty := c.core.state("dirty")
	return map[string][]mongo.IndexModel{
		c.core.sources.Name(): {{Keys: bson.D{{Key: c.core.key, Value: 1}}}},
		c.core.targets.Name(): {{Keys: bson.D{{Key: dirty, Value: 1}}, Options: options.Index().SetSparse(true)}},
	}
}

// EnsureIndexes creates the indexes that are missing. Like Check, Repair and Adopt it refuses
// sources and targets with a default collation.
//
// Cost: 3 round trips, 1 more for each collection that lacks an index.
func (c *Computed[S, ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "computed: ensure indexes")
	if err := collation.Refuse(ctx, c.core.sources, c.core.targets); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, c.core.targets.Database(), c.Indexes())
}

// ShardKey is the key of the sources and the targets' _id, by collection name.
func (c *Computed[S, ID, T]) ShardKey() map[string]bson.D {
	return map[string]bson.D{c.core.sources.Name(): {{Key: c.core.key, Value: 1}}, c.core.targets.Name(): {{Key: "_id", Value: 1}}}
}

// Change runs write, which creates, changes, moves or deletes the sources of these
// _ids and no others, and brings their targets up to date, those before and those
// after it, in one transaction. write can run several times. A target that does not
// exist is left out.
//
// Cost: 6 round trips besides those of write, 1 document written for each target,
// index _id and {key: 1}. Additive: 5; for a target that was never computed 2 more.
func (c *Computed[S, ID, T]) Change(ctx context.Context, sources []S, write func(ctx context.Context) error) (err error) {
	defer fault.In(&err, "computed: change")
	ids, err := ids(c.core, sources)
	if err != nil {
		return err
	}
	return c.core.transact(ctx, func(ctx context.Context) error { return c.core.change(ctx, ids, write) })
}

// Get reads a target, and computes it anew if its values are older than maxAge, by
// this machine's clock, or marked. Of many readers one computes; the others get the old
// value, or wait (Options.Wait). A target that was never computed is computed or
// waited for; one that Drain has set aside keeps its old value, however old. A Get that
// fails lets the next reader try at once.
//
// Cost: 1 round trip, index _id. When it computes 6, 2 documents written; when that fails,
// 1 more to let others try.
func (c *Computed[S, ID, T]) Get(ctx context.Context, id ID, maxAge time.Duration) (out T, err error) {
	defer fault.In(&err, "computed: get")
	key, err := c.core.id(id)
	if err != nil {
		return out, err
	}
	return out, c.core.get(ctx, key, maxAge, &out)
}

// Refresh computes targets anew, now. Result.Done are written, Skipped do not exist. Failed
// are those that cannot be computed: they keep their values, and the others go on.
//
// Cost: 3 round trips, 1 document written for each target, index _id and {key: 1};
// once more for those that somebody else changed meanwhile, the twelfth time in a
// transaction that keeps others out. If one target cannot be computed, 3 for each.
func (c *Computed[S, ID, T]) Refresh(ctx context.Context, targets ...ID) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "computed: refresh")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	all, err := ids(c.core, targets)
	if err != nil {
		return result, err
	}
	return result, c.core.refreshEach(ctx, distinct(all), false, &result)
}

// RefreshAll computes all targets, for jobs on an interval, beside live writes. Work.Filter
// selects targets.
//
// Cost: 1 round trip a batch of 1000 targets, 100 with Options.Then, and those of Refresh for it.
func (c *Computed[S, ID, T]) RefreshAll(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "computed: refresh all")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return c.core.refreshAll(ctx, work)
}

// Mark notes that targets are to be computed anew, by Drain or the next Get. In the
// transaction of the write that makes them old, none is forgotten.
//
// Cost: 1 round trip, 1 document written for each target, index _id.
func (c *Computed[S, ID, T]) Mark(ctx context.Context, targets ...ID) (err error) {
	defer fault.In(&err, "computed: mark")
	all, err := ids(c.core, targets)
	if err != nil {
		return err
	}
	return c.core.mark(ctx, all)
}

// Drain computes the marked targets until none is left or ctx ends; Work.Filter
// selects targets. Several workers share them: one that dies is replaced after
// Options.Lease. A target whose computation the server refuses is counted, named,
// and tried again by a Drain after the lease, Options.Attempts times in all; the
// others go on.
//
// Cost: 4 round trips and 2 documents written for each target, index _id, and 1 for 100
// targets and at the end, index {"computed.dirty": 1}. Where the server refuses: 1 more to
// note why.
func (c *Computed[S, ID, T]) Drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "computed: drain")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return c.core.drain(ctx, work)
}

// Failures are the targets that Drain has set aside, with the last error of each.
// Mark puts one into the queue again; a Change or Refresh that succeeds ends it too.
//
// Cost: 1 round trip a batch, index {"computed.dirty": 1}.
func (c *Computed[S, ID, T]) Failures(ctx context.Context) iter.Seq2[mongopatterns.Failure, error] {
	return fault.Seq("computed: failures", c.core.failures(ctx))
}

const (
	// Drifted is a computed field that is not what its sources make it.
	Drifted mongopatterns.ProblemKind = "drifted"
	// Uncomputable is a target whose sources the pipeline cannot take; Detail says why.
	// Repair leaves it, and counts it as failed.
	Uncomputable mongopatterns.ProblemKind = "cannot be computed"
)

// Check finds targets whose values are not those of their sources. It leaves out those in
// the queue, marked or set aside, and new ones: without sources and without any computed
// field. Work.Filter selects targets.
//
// Cost: 1 round trip, and 2 a batch of 100 targets, index {key: 1}; 3 more for a batch with
// problems. A batch that cannot be computed: 1 for each of its targets.
func (c *Computed[S, ID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return fault.Seq("computed: check", collation.Seq(ctx, c.core.check(ctx, work), c.core.sources, c.core.targets))
}

// Repair computes what Check finds anew, beside live writes. Work.Filter selects
// targets.
//
// Cost: 1 round trip, and 2 a batch of 100 targets, as Check; 3 more for a batch with problems,
// 1 write for each of these.
func (c *Computed[S, ID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "computed: repair")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return c.core.repair(ctx, work, false)
}

// Adopt is Repair that also gives new targets without sources the values of New's empty.
//
// Cost: that of Repair.
func (c *Computed[S, ID, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "computed: adopt")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return c.core.repair(ctx, work, true)
}

func ids[V any](c *core, all []V) ([]bson.RawValue, error) {
	if len(all) == 0 {
		return nil, fault.Invalid("no _ids")
	}
	out := make([]bson.RawValue, len(all))
	for i, id := range all {
		var err error
		if out[i], err = c.id(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *core) id(id any) (bson.RawValue, error) { return c.codec.ID("id", id) }
