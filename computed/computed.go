package computed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
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
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Options of a Computed. The zero value of each is its default.
type Options struct {
	// Additive says that all computed fields are sums. All values of Rule.Empty must then be 0. A
	// Change adds what its sources contribute after the write, and subtracts what they contributed
	// before it. If the result is not finite, comes back from beyond an int64, or is less than a
	// thousandth of the former sum or of what leaves it, Change computes the target from all its
	// sources.
	//
	// Sums of ints are exact. Sums of doubles accumulate rounding errors, so Check allows a billionth
	// of the sum, or of 1 if that is larger, and a part in 10^12 of a sum of decimals. If several
	// Changes in a row each make a sum some hundred times smaller, its error may be larger. Then
	// Check reports it, and Repair computes it. Default false: Change always computes the target from
	// all its sources.
	Additive bool
	// StateField is the field of the target that holds the time, the epoch and the state in the
	// queue. It must not be a field of yours: Adopt, Repair and Check name such a target, but other calls overwrite the
	// field. Default "computed".
	StateField string
	// Lease is how long others wait before they repeat a computation of Get or Drain that another
	// process has begun, in case that process has died. It must be longer than a computation takes.
	// Default 1 minute.
	Lease time.Duration
	// Attempts is how often Drain tries a target whose computation fails before it sets the target
	// aside (see Failures). Default 5.
	Attempts int
	// Wait makes readers of a stale value wait while another reader computes it. Default false:
	// they get the old value.
	Wait bool
	// Then is the next level, computed from these targets and updated in the same transaction.
	// Default nil.
	Then Level
	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter and start every index. Insert stores them in sources, elsewhere your own code does. The values are
	// strings, numbers and similar. Null, an array or a regular expression is refused. A target of another tenant is not
	// found, and a source of another tenant does not count. Then must have the same Scope. Default none: all documents
	// of the collections.
	Scope bson.D
	// Registry and BSON encode the IDs, the sources that Insert stores, and Rule.Empty. By default BSON is what the client has. The client's registry cannot be read,
	// so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Level is a *Computed of any types.
type Level interface{ level() *core }

// Computed keeps computed fields up to date. SourceID is the type of the sources' _ids, ID that of the
// targets' _ids, T that of a target. It is safe for concurrent use.
type Computed[SourceID, ID, T any] struct{ core *core }

func (c *Computed[SourceID, ID, T]) level() *core { return c.core }

// A Rule says which sources a target has, and which fields are computed from them. All of it is required.
type Rule struct {
	// KeyField is the path of the field of a source that holds the _id of its target. If there are
	// arrays on the path, such as "items.product" in orders, a source has several targets.
	KeyField string
	// Pipeline turns sources into a document for each of their targets. The document's _id is the
	// target's, and its other fields are exactly those of Empty. A target for which it returns other
	// fields fails and keeps its values. The same sources must always give the same values, so sort an
	// array that $addToSet collects. A pipeline with $out or $merge is refused, and so is a Go map of
	// several fields where their order matters, as in $sort.
	Pipeline mongo.Pipeline
	// Empty has all computed fields, with their values for a target without sources. Go maps of several
	// fields are refused, because Check compares the values.
	Empty bson.D
}

// New returns a Computed for targets. It does no I/O.
func New[SourceID, ID, T any](sources, targets *mongo.Collection, rule Rule, opts *Options) (c *Computed[SourceID, ID, T], err error) {
	defer fault.In(&err, "computed.New")
	if err := cmp.Or(codec.CheckOrder[SourceID]("SourceID"), codec.CheckOrder[ID]("ID")); err != nil {
		return nil, err
	}
	if err := config.Collections("sources", sources, "targets", targets); err != nil {
		return nil, err
	}
	inner := &core{key: rule.KeyField, pipeline: rule.Pipeline, fields: rule.Empty}
	if opts != nil {
		inner.Options = *opts
	}
	inner.codec, inner.Scope = codec.New(sources, inner.Registry, inner.BSON), slices.Clone(inner.Scope)
	if err := inner.codec.CheckExtended("T", reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	settings := append(config.Scope(inner.Scope),
		config.Name("Options.StateField", &inner.StateField, "computed"),
		config.Number("Options.Lease", (*int64)(&inner.Lease), int64(time.Minute), int64(time.Millisecond), int64(24*time.Hour)),
		config.Number("Options.Attempts", &inner.Attempts, 5, 1, 1<<20),
		config.Check("Rule.Pipeline", func() error {
			if len(rule.Pipeline) == 0 {
				return errors.New("it is empty")
			}
			if !inner.mentions(strings.Split(rule.KeyField, ".")[0]) {
				return fmt.Errorf("it must read the KeyField %q, because its _ids must be the values of that field", rule.KeyField)
			}
			if err := codec.OrderedIn("", rule.Pipeline); err != nil {
				return err
			}
			for _, stage := range rule.Pipeline {
				if len(stage) > 0 && (stage[0].Key == "$out" || stage[0].Key == "$merge") {
					return fmt.Errorf("it must not write, as %s does", stage[0].Key)
				}
			}
			return nil
		}),
		config.Check("Rule.Empty", func() error {
			if len(rule.Empty) == 0 {
				return errors.New("it has no fields")
			}
			return codec.Ordered(rule.Empty)
		}))
	for _, field := range rule.Empty {
		name := field.Key
		settings = append(settings, config.Name("Rule.Empty", &name, ""))
		if name == "_id" {
			return nil, fault.Invalid("Rule.Empty: _id cannot be a computed field")
		}
	}
	if err := fieldpath.CheckNamed("Rule.KeyField", rule.KeyField); err != nil {
		return nil, fault.Invalid("%w", err)
	}
	if err := config.Apply(settings...); err != nil {
		return nil, err
	}
	if err := config.Apply(append(config.Scope(inner.Scope), config.Named("Rule.KeyField", &inner.key, ""))...); err != nil {
		return nil, err
	}
	of, err := scope.New(inner.codec, inner.Scope)
	if err != nil {
		return nil, err
	}
	inner.sources, inner.targets = scoped.On(sources).In(of), scoped.On(targets).In(of)
	if inner.Then != nil && inner.Then.level().sources.Name() != targets.Name() {
		return nil, fault.Invalid("Options.Then: it must be computed from %s", targets.Name())
	}
	if inner.Then != nil && inner.Then.level().sources.Scope().Label("") != of.Label("") {
		return nil, fault.Invalid("Options.Then: it must have the same Scope")
	}
	if inner.empty, err = inner.codec.Document(rule.Empty); err != nil {
		return nil, err
	}
	for _, e := range rule.Empty {
		zero := inner.empty.Lookup(e.Key)
		if n := value.Number(zero); inner.Additive && (n == nil || n.Sign() != 0) {
			return nil, fault.Invalid("Rule.Empty: %q must be 0 with Options.Additive, and Options.Registry encodes it as %v", e.Key, zero)
		}
	}
	inner.prepare()
	return &Computed[SourceID, ID, T]{inner}, nil
}

// mentions reports whether the pipeline may read a field: it contains the field's name, $$ROOT or
// $$CURRENT, or cannot be encoded here.
func (c *core) mentions(name string) bool {
	raw, err := c.codec.Document(expr.D("pipeline", c.pipeline))
	return err != nil || slices.ContainsFunc([]string{name, "$$ROOT", "$$CURRENT"}, func(s string) bool { return bytes.Contains(raw, []byte(s)) })
}

// Indexes returns {key: 1} for the sources and {"computed.dirty": 1} for the targets, by collection
// name. Both begin with the scope. The second one holds only the marked targets.
func (c *Computed[SourceID, ID, T]) Indexes() map[string][]mongo.IndexModel {
	of, dirty, marked := c.core.targets.Scope(), c.core.state("dirty"), options.Index().SetSparse(true)
	if of != nil { // a sparse index would hold all documents with the fields of the scope
		marked = options.Index().SetPartialFilterExpression(expr.D(dirty, expr.Op("$exists", true)))
	}
	return map[string][]mongo.IndexModel{
		c.core.sources.Name(): {{Keys: of.Keys(expr.D(c.core.key, 1))}},
		c.core.targets.Name(): {{Keys: of.Keys(expr.D(dirty, 1)), Options: marked}},
	}
}

// EnsureIndexes creates the missing indexes. Like Check, Repair and Adopt, it refuses sources and
// targets with a default collation.
//
// Cost: 3 round trips, 1 more for each collection that lacks an index.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (c *Computed[SourceID, ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "computed.EnsureIndexes")
	defer fault.In(&err, "computed.EnsureIndexes")
	if err := collation.Refuse(ctx, c.core.sources, c.core.targets); err != nil {
		return err
	}
	if err := c.core.codec.CheckClient(ctx, c.core.sources, reflect.TypeFor[SourceID](), reflect.TypeFor[ID]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, c.core.targets.Database(), c.Indexes())
}

// ShardKey returns the recommended shard keys by collection name, behind the scope, which are KeyField for the
// sources and _id for the targets.
func (c *Computed[SourceID, ID, T]) ShardKey() map[string]bson.D {
	of := c.core.targets.Scope()
	return map[string]bson.D{c.core.sources.Name(): of.Keys(expr.D(c.core.key, 1)), c.core.targets.Name(): of.Keys(expr.D("_id", 1))}
}

// Change runs write, which inserts, changes, moves or deletes the sources with these _ids and no
// others. In the same transaction it updates the targets that these sources had before the write
// and have after it. write can run several times. A target that does not exist is ignored. For new sources
// alone, Insert costs less.
//
// Cost: 5 round trips besides those of write, 1 document written for each target, index _id and {key: 1}.
//   - Additive: 4; if a target is computed from all its sources, 2 more.
func (c *Computed[SourceID, ID, T]) Change(ctx context.Context, sources []SourceID, write func(ctx context.Context) error) (err error) {
	ctx = comment.Call(ctx, "computed.Change")
	defer fault.In(&err, "computed.Change")
	if write == nil {
		return fault.Invalid("write is nil")
	}
	if len(sources) == 0 {
		return fault.Invalid("sources: the list is empty, so write could change none of them")
	}
	ids, err := ids(c.core, sources)
	if err != nil {
		return err
	}
	return c.core.transact(ctx, func(ctx context.Context) error { return c.core.change(ctx, ids, write) })
}

// Insert inserts new sources and updates their targets, all or nothing. It does what a Change with an insert does, with
// fewer reads. Calls of one process for the same target wait for each other, where Changes would conflict and begin again.
// Each source must have an _id, else Insert returns mongopatterns.ErrInvalid. If one of the _ids exists, as when a stored
// source is inserted again, it returns mongopatterns.ErrExists and nothing is written.
//
// Cost: 4 round trips, 1 document written for each source and target, index {key: 1}, with Additive _id.
//   - Additive: if a target is computed from all its sources, 2 more.
func (c *Computed[SourceID, ID, T]) Insert(ctx context.Context, sources ...any) (err error) {
	ctx = comment.Call(ctx, "computed.Insert")
	defer fault.In(&err, "computed.Insert")
	docs := make([]bson.Raw, len(sources))
	if len(docs) == 0 {
		return nil
	}
	for i, source := range sources {
		if docs[i], err = c.core.source(source); err != nil {
			return err
		}
	}
	return c.core.transact(ctx, func(ctx context.Context) error { return c.core.insert(ctx, docs) })
}

// Get reads a target. If its values are marked, or older than maxAge by this machine's clock, it
// computes them first. Of many readers one computes, and the others get the old value or, with
// Options.Wait, wait. A target that was never computed is always computed or waited for. A target
// that Drain has set aside keeps its old value, however old. If a Get fails, the next reader may
// compute at once. If the target does not exist, Get returns mongopatterns.ErrNotFound.
//
// Cost: 1 round trip, index _id. When it computes 6, 2 documents written; when that fails,
// 1 more to let others try.
func (c *Computed[SourceID, ID, T]) Get(ctx context.Context, id ID, maxAge time.Duration) (out T, err error) {
	ctx = comment.Call(ctx, "computed.Get")
	defer fault.In(&err, "computed.Get")
	key, err := c.core.id(id)
	if err != nil {
		return out, err
	}
	err = c.core.get(ctx, key, maxAge, &out)
	return out, err
}

// Refresh computes these targets now. Result.Done counts those written, Skipped those that do not
// exist, and Failed those that cannot be computed. Failed targets keep their values, and the others
// are still computed.
//
// Cost: 3 round trips, 1 document written for each target, index _id and {key: 1}.
//   - Targets that somebody else changed meanwhile: once more; the twelfth time in a transaction that keeps others
//     out.
//   - If one target cannot be computed: 3 for each.
func (c *Computed[SourceID, ID, T]) Refresh(ctx context.Context, targets ...ID) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "computed.Refresh")
	defer fault.In(&err, "computed.Refresh")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	all, err := ids(c.core, targets)
	if err != nil || len(all) == 0 {
		return result, err
	}
	err = c.core.refreshEach(ctx, distinct(all), false, &result)
	return result, err
}

// RefreshAll computes all targets, for jobs on an interval. It is safe while others write.
// Work.Filter selects targets.
//
// Cost: 1 round trip for each batch of 1000 targets, 100 with Options.Then, and those of Refresh for it.
func (c *Computed[SourceID, ID, T]) RefreshAll(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "computed.RefreshAll")
	defer fault.In(&err, "computed.RefreshAll")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return c.core.refreshAll(ctx, work)
}

// Mark puts targets into the queue, and Drain or the next Get computes them. Call it in the
// transaction of the write that makes the values stale, so that no target is missed.
//
// Cost: 1 round trip, 1 document written for each target, index _id.
func (c *Computed[SourceID, ID, T]) Mark(ctx context.Context, targets ...ID) (err error) {
	ctx = comment.Call(ctx, "computed.Mark")
	defer fault.In(&err, "computed.Mark")
	all, err := ids(c.core, targets)
	if err != nil || len(all) == 0 {
		return err
	}
	return c.core.mark(ctx, all)
}

// Drain computes the marked targets until none is left or ctx ends. Work.Filter selects targets.
// Several workers may share them; if one dies, another takes its target after Options.Lease. A
// target that the server cannot compute is counted as Failed with its error, and the others are
// still computed. A Drain after the lease tries it again, Options.Attempts times in all.
//
// Cost: 4 round trips and 2 documents written for each target, index _id, and 1 for 100 targets and at the end, index
// {"computed.dirty": 1}.
//   - Where the server refuses: 1 more to note why.
func (c *Computed[SourceID, ID, T]) Drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "computed.Drain")
	defer fault.In(&err, "computed.Drain")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return c.core.drain(ctx, work)
}

// Failures yields the targets that Drain has set aside, with the last error of each. Mark puts a
// target into the queue again; a successful Change or Refresh removes it from the failures too.
//
// Cost: 1 round trip for each batch, index {"computed.dirty": 1}.
func (c *Computed[SourceID, ID, T]) Failures(ctx context.Context) iter.Seq2[mongopatterns.Failure, error] {
	ctx = comment.Call(ctx, "computed.Failures")
	return fault.Seq("computed.Failures", c.core.failures(ctx))
}

const (
	// Uncomputable: the pipeline fails on the sources of a target, and Detail says why. Repair does
	// not change the target and counts it as Failed.
	Uncomputable mongopatterns.ProblemKind = "cannot be computed"
)

// Check yields the targets whose values differ from those of their sources. It ignores targets in
// the queue or set aside, and new ones, which have neither sources nor computed fields. Work.Filter
// selects targets.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - WrongField: a computed field does not have the value that its sources give.
//   - Malformed, of a target: Options.StateField holds something that this package does not write. Adopt and
//     Repair do not change the target and count it as Failed. Other calls that write replace the value.
//   - Malformed, without an ID: no source has Rule.KeyField. Either it is misspelt, or no source has been written
//     with it yet. Only a Check without Work.Filter looks for it.
//
// Cost: 2 round trips, and 2 for each batch of 100 targets, index {key: 1}; 3 more for a batch with problems.
//   - A batch that cannot be computed: 1 for each of its targets.
func (c *Computed[SourceID, ID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "computed.Check")
	return fault.Seq("computed.Check", collation.Seq(ctx, c.core.check(ctx, work), c.core.sources, c.core.targets))
}

// Repair computes the targets that Check finds. It is safe while others write. Work.Filter selects
// targets.
//
// Cost: 1 round trip, and 2 for each batch of 100 targets, as Check.
//   - A batch with problems: 3 more, and 1 write for each of these.
func (c *Computed[SourceID, ID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "computed.Repair")
	defer fault.In(&err, "computed.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return c.core.repair(ctx, work, false)
}

// Adopt is Repair, and also gives new targets without sources the values of Rule.Empty.
//
// Cost: that of Repair.
func (c *Computed[SourceID, ID, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "computed.Adopt")
	defer fault.In(&err, "computed.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return c.core.repair(ctx, work, true)
}

func ids[V any](c *core, all []V) ([]bson.RawValue, error) {
	out := make([]bson.RawValue, len(all))
	for i, id := range all {
		var err error
		if out[i], err = c.id(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// source encodes a source that is to be inserted.
func (c *core) source(source any) (bson.Raw, error) {
	doc, err := c.codec.Stored(source, c.key)
	if err != nil {
		return nil, err
	}
	if err := value.CheckID(doc.Lookup("_id")); err != nil {
		return nil, fault.Invalid("the _id of a source: %w", err)
	}
	return doc, c.codec.CheckKept(reflect.TypeOf(source), "Rule.KeyField", c.key)
}

func (c *core) id(id any) (bson.RawValue, error) { return c.codec.ID("id", id) }
