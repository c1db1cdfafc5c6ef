package computed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/lease"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A core does the work of Computed on BSON, without knowing T.
type core struct {
	Options
	sources, targets *scoped.Collection
	codec            codec.Codec
	key              string // the path of the target's _id in a source
	pipeline         mongo.Pipeline
	fields           bson.D   // the computed fields, with their values for a target without sources
	empty            bson.Raw // the same, encoded

	// Parts of commands that many calls send; see prepare.
	document, stamp, over bson.D
	stored                []any
	marked                any
}

// prepare encodes the expressions that are the same in every call.
func (c *core) prepare() {
	// document replaces an array in StateField; stamp sets the time and raises the epoch; over ends leases, marks and
	// failures.
	c.document = expr.Op("$set", expr.Fixed(bson.D{expr.Unarrayed(c.StateField)}))
	epoch := expr.Fixed(c.raised("epoch"))
	c.stamp = expr.D(c.state("at"), "$$NOW", c.state("epoch"), epoch)
	c.over = expr.D(c.state("until"), "$$REMOVE", c.state("by"), "$$REMOVE", c.state("dirty"), "$$REMOVE", c.state("attempts"), "$$REMOVE", c.state("error"), "$$REMOVE")
	for _, e := range c.fields { // the field of a target, or its value in empty
		c.stored = append(c.stored, expr.Fixed(expr.IfNull(expr.Field(e.Key), expr.Literal(c.empty.Lookup(e.Key)))))
	}
	c.marked = expr.Pipeline(c.document, expr.Op("$set", expr.D(c.state("dirty"), true, c.state("epoch"), epoch,
		c.state("attempts"), "$$REMOVE", c.state("error"), "$$REMOVE")))
}

func (c *core) state(field string) string { return c.StateField + "." + field }

// update returns the update that sets computed fields and those of the state.
func (c *core) update(set bson.D) mongo.Pipeline {
	return mongo.Pipeline{c.document, expr.Op("$set", set)}
}

// unchanged returns the condition that a target has the epoch that was read, of type 0 if it had none. An array has none,
// whatever its elements hold.
func (c *core) unchanged(epoch bson.RawValue) bson.E {
	if epoch.Type != 0 {
		return expr.Element(c.state("epoch"), value.Equal(epoch))
	}
	return expr.Element("$or", bson.A{expr.D(c.state("epoch"), nil), expr.D(c.StateField, expr.AnArray)})
}

// raised returns the expression for the number after the one in a field of the state. What is no number counts as 0:
// somebody may have typed it.
func (c *core) raised(field string) bson.D {
	n := expr.Op("$convert", expr.D("input", expr.Field(c.state(field)), "to", "long", "onError", int64(0), "onNull", int64(0)))
	return expr.Op("$add", n, 1)
}

func (c *core) transact(ctx context.Context, fn func(ctx context.Context) error) error {
	return txn.Run(ctx, c.targets, fn)
}

func in(field string, ids []bson.RawValue) bson.D {
	return expr.D(field, expr.Op("$in", value.Array(ids)))
}

// values runs the pipeline on the sources that filter selects. It returns the documents by the key
// of their target, and the number of documents whose _id cannot be a target's, which the pipeline
// makes of sources without a target.
func (c *core) values(ctx context.Context, filter bson.D) (made map[string]bson.Raw, nameless int, err error) {
	made = map[string]bson.Raw{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.sources).Aggregate(ctx, append(mongo.Pipeline{expr.Op("$match", filter)}, c.pipeline...), options.Aggregate().SetBatchSize(1000))
	}) {
		if err != nil {
			return nil, 0, fmt.Errorf("pipeline for %s: %w", c.names(), err)
		}
		if id := doc.Lookup("_id"); value.CheckID(id) == nil {
			made[value.Key(id)] = doc
		} else {
			nameless++
		}
	}
	return made, nameless, nil
}

// compute returns the values of targets from all their sources, nothing for a target without
// sources. If the pipeline does not fit the rule, it returns an error, because the values
// of Empty would be stored otherwise.
func (c *core) compute(ctx context.Context, targets []bson.RawValue) (map[string]bson.Raw, error) {
	made, nameless, err := c.values(ctx, in(c.key, targets))
	if err != nil {
		return nil, err
	}
	found := false
	for _, id := range targets {
		if doc, ok := made[value.Key(id)]; ok {
			found = true
			if err := c.fits(doc); err != nil {
				return nil, err
			}
		}
	}
	if found || len(made)+nameless == 0 {
		return made, nil
	}
	// A source with several targets may contribute to the others only.
	keys, sources, err := c.keys(ctx, in(c.key, targets), 100)
	if err != nil || len(keys) != sources {
		return made, err
	}
	for _, key := range keys {
		if made[value.Key(key)] != nil {
			return made, nil
		}
	}
	return nil, misnamed(targets[0])
}

func misnamed(target bson.RawValue) error {
	return fault.Refuse(fault.Of(target, fault.Invalid("Rule.Pipeline: its _ids must be the values of KeyField")))
}

// names are those of the computed fields, for errors of the server, which names none.
func (c *core) names() string {
	all := make([]string, len(c.fields))
	for i, e := range c.fields {
		all[i] = strconv.Quote(e.Key)
	}
	return strings.Join(all, ", ")
}

// fits returns an error for a computed document whose fields are not those of Empty.
func (c *core) fits(doc bson.Raw) error {
	unfit := func(err error) error { return fault.Refuse(fault.Of(doc.Lookup("_id"), err)) }
	elements, err := doc.Elements()
	if err != nil {
		return unfit(err)
	}
	for _, e := range c.fields {
		if doc.Lookup(e.Key).Type == 0 {
			return unfit(fault.Invalid("Rule.Pipeline: it must make %q, which is in Empty", e.Key))
		}
	}
	for _, e := range elements {
		if key := e.Key(); key != "_id" && c.empty.Lookup(key).Type == 0 {
			return unfit(fault.Invalid("Rule.Pipeline: it makes %q, which is not in Empty", key))
		}
	}
	return nil
}

// keys returns the targets of the first limit sources that filter selects, 0 for all, and the
// number of these sources.
func (c *core) keys(ctx context.Context, filter bson.D, limit int) (out []bson.RawValue, sources int, err error) {
	find := options.Find().SetProjection(expr.D(c.key, 1)).SetLimit(int64(limit)).SetBatchSize(1000)
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.sources).Find(ctx, filter, find)
	}) {
		if err != nil {
			return nil, 0, err
		}
		sources++
		out = append(out, c.keysOf(doc)...)
	}
	return out, sources, nil
}

// keysOf returns the targets of a source.
func (c *core) keysOf(source bson.Raw) []bson.RawValue {
	return at(value.Embedded(source), strings.Split(c.key, "."))
}

// at returns the _ids at a path, also inside arrays, as an index of the server does: a source can
// have several targets.
func at(v bson.RawValue, path []string) (out []bson.RawValue) {
	if array, ok := v.ArrayOK(); ok {
		elements, _ := array.Values()
		for _, e := range elements {
			if e.Type != bson.TypeArray {
				out = append(out, at(e, path)...)
			}
		}
		return out
	}
	if len(path) > 0 {
		doc, _ := v.DocumentOK()
		return at(doc.Lookup(path[0]), path[1:])
	}
	if value.CheckID(v) == nil {
		out = append(out, v)
	}
	return out
}

// distinct removes duplicates.
func distinct(all []bson.RawValue) (out []bson.RawValue) {
	seen := map[string]bool{}
	for _, v := range all {
		if key := value.Key(v); !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	return out
}

// change runs write, which changes the sources of these _ids, in the transaction of ctx, and then updates their targets.
// Two changes of one target conflict when they write it, so the second one sees the first. Above the last level, where c
// is nil, there are no targets.
func (c *core) change(ctx context.Context, sources []bson.RawValue, write func(ctx context.Context) error) error {
	if c == nil {
		return write(ctx)
	}
	before, err := c.contributions(ctx, sources)
	if err != nil {
		return err
	}
	if err := write(ctx); err != nil {
		return err
	}
	after, err := c.contributions(ctx, sources)
	if err != nil {
		return err
	}
	return c.follow(ctx, before, after)
}

// insert is change for new sources, of which nothing has to be read before. Since they show their targets, it waits for
// its turn at those.
func (c *core) insert(ctx context.Context, docs []bson.Raw) error {
	var sources, targets []bson.RawValue
	for _, doc := range docs {
		sources = append(sources, doc.Lookup("_id"))
		targets = append(targets, c.keysOf(doc)...)
	}
	if _, err := txn.InTurn(ctx, c.targets, targets...); err != nil {
		return err
	}
	if _, err := fault.Many(c.sources.InsertMany(ctx, docs)); err != nil {
		return taken(sources, err)
	}
	after := only(targets)
	if c.Additive {
		var err error
		if after, err = c.contributions(ctx, sources); err != nil {
			return err
		}
	}
	return c.follow(ctx, nil, after)
}

// taken returns mongopatterns.ErrExists if an _id was taken.
func taken(sources []bson.RawValue, err error) error {
	var refused mongo.BulkWriteException
	if errors.As(err, &refused) && len(refused.WriteErrors) > 0 {
		return fault.Taken("_id", sources[refused.WriteErrors[0].Index], err)
	}
	return err
}

// follow updates the targets of a change, level by level: the targets of one level are the sources of the next.
func (c *core) follow(ctx context.Context, before, after map[string]contribution) error {
	values := c.recompute
	if c.Additive {
		values = c.addUp
	}
	targets, write, err := values(ctx, before, after)
	if err != nil || len(targets) == 0 {
		return err
	}
	// Change knows the targets only after its reads, so for Change this is for the next attempt.
	if _, err := txn.InTurn(ctx, c.targets, targets...); err != nil {
		return err
	}
	return c.next().change(ctx, targets, write)
}

// next returns the next level, nil at the last.
func (c *core) next() *core {
	if c.Then == nil {
		return nil
	}
	return c.Then.level()
}

// A contribution is the result of the pipeline for some sources of one target; made is nil without
// Additive.
type contribution struct {
	target bson.RawValue
	made   bson.Raw
}

// contributions returns the contributions of sources, by the key of the target.
func (c *core) contributions(ctx context.Context, sources []bson.RawValue) (map[string]contribution, error) {
	if !c.Additive {
		targets, _, err := c.keys(ctx, in("_id", sources), 0)
		return only(targets), err
	}
	out := map[string]contribution{}
	made, nameless, err := c.values(ctx, in("_id", sources))
	if err != nil {
		return nil, err
	}
	if len(made) == 0 && nameless > 0 { // sources without a target, or a pipeline that does not return their _ids
		targets, _, err := c.keys(ctx, in("_id", sources), 100)
		if err != nil || len(targets) == 0 {
			return out, err
		}
		return nil, misnamed(targets[0])
	}
	for key, doc := range made {
		if err := c.fits(doc); err != nil {
			return nil, err
		}
		out[key] = contribution{doc.Lookup("_id"), doc}
	}
	return out, nil
}

// only returns contributions without values, which Additive alone needs.
func only(targets []bson.RawValue) map[string]contribution {
	out := map[string]contribution{}
	for _, id := range targets {
		out[value.Key(id)] = contribution{target: id}
	}
	return out
}

// targetsOf returns the targets with a contribution before or after a change.
func targetsOf(before, after map[string]contribution) (targets []bson.RawValue) {
	all := map[string]contribution{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	for _, one := range all {
		targets = append(targets, one.target)
	}
	return targets
}

// recompute computes the targets of a change from all their sources, and returns them with the
// function that writes the values.
func (c *core) recompute(ctx context.Context, before, after map[string]contribution) (targets []bson.RawValue, write func(ctx context.Context) error, err error) {
	if targets = targetsOf(before, after); len(targets) == 0 {
		return nil, nil, nil
	}
	made, err := c.compute(ctx, targets)
	if err != nil {
		return nil, nil, err
	}
	return targets, func(ctx context.Context) error { return c.write(ctx, targets, made) }, nil
}

// write stores computed values.
func (c *core) write(ctx context.Context, targets []bson.RawValue, made map[string]bson.Raw) error {
	models := make([]mongo.WriteModel, len(targets))
	for i, id := range targets {
		models[i] = mongo.NewUpdateOneModel().SetFilter(expr.ByID(id)).SetUpdate(c.set(made[value.Key(id)]))
	}
	_, err := fault.Many(c.targets.BulkWrite(ctx, models))
	return err
}

// addUp is recompute for sums: it adds the difference that the change makes to the contributions. Targets to which it
// cannot be added are computed from all their sources.
func (c *core) addUp(_ context.Context, before, after map[string]contribution) (targets []bson.RawValue, write func(ctx context.Context) error, err error) {
	targets = targetsOf(before, after)
	models := make([]mongo.WriteModel, len(targets))
	addable := make([]bson.D, len(targets)) // of targets that have values, and were not set aside because of their sources
	for i, id := range targets {
		key := value.Key(id)
		update, sound := c.add(before[key].made, after[key].made)
		addable[i] = expr.D(c.state("dirty"), expr.Op("$ne", aside), "$expr", sound)
		models[i] = mongo.NewUpdateOneModel().SetFilter(append(expr.ByID(id), addable[i]...)).SetUpdate(update)
	}
	return targets, func(ctx context.Context) error {
		written, err := fault.Many(c.targets.BulkWrite(ctx, models))
		var refused mongo.BulkWriteException
		if errors.As(err, &refused) && len(refused.WriteErrors) > 0 {
			return fault.Of(targets[refused.WriteErrors[0].Index], fmt.Errorf("adding to %s: %w", c.names(), err))
		}
		if err != nil || written.MatchedCount == int64(len(models)) {
			return err
		}
		return c.anew(ctx, targets, addable, after)
	}, nil
}

// anew computes the targets that are not addable from all their sources: the contributions leave out those that did not
// change. If it takes one that was added to for such a target, it stores the same sum.
func (c *core) anew(ctx context.Context, targets []bson.RawValue, addable []bson.D, after map[string]contribution) error {
	made, err := c.compute(ctx, targets)
	if err != nil {
		return err
	}
	var models []mongo.WriteModel
	for i, id := range targets {
		key := value.Key(id)
		if _, ok := after[key]; ok && made[key] == nil {
			return misnamed(id)
		}
		rest := append(expr.ByID(id), expr.Element("$nor", bson.A{addable[i]}))
		models = append(models, mongo.NewUpdateOneModel().SetFilter(rest).SetUpdate(c.set(made[key])))
	}
	_, err = fault.Many(c.targets.BulkWrite(ctx, models))
	return err
}

// set returns the update that stores computed values, those of Empty if made is nil. Because of the
// epoch it is a real write even if no value changes, so concurrent writers conflict.
func (c *core) set(made bson.Raw, more ...bson.E) mongo.Pipeline {
	fields := bson.D{}
	for _, e := range c.fields {
		v := made.Lookup(e.Key)
		if v.Type == 0 {
			v = c.empty.Lookup(e.Key)
		}
		fields = append(fields, expr.Element(e.Key, expr.Literal(v)))
	}
	return c.update(slices.Concat(fields, c.stamp, c.over, more))
}

// add returns the update that adds the difference of two contributions, and the condition that there are sums, which are
// sound then; a missing field counts as its value in empty.
func (c *core) add(before, after bson.Raw) (update mongo.Pipeline, sound bson.D) {
	fields, all := bson.D{}, bson.A{expr.IsType(expr.Field(c.state("at")), "date")}
	for i, e := range c.fields {
		number := func(doc bson.Raw) (out []bson.RawValue) {
			if v := doc.Lookup(e.Key); v.Type != 0 {
				out = append(out, v)
			}
			return out
		}
		out, in := number(before), number(after)
		fields = append(fields, expr.Element(e.Key, expr.Shifted(c.stored[i], out, in)))
		all = append(all, expr.Sound(c.stored[i], out, in))
	}
	return c.update(append(fields, c.stamp...)), expr.Op("$and", all...)
}

// refresh computes targets, outside a transaction or in the caller's. A result is stored if the
// target's epoch has not changed since before the computation; otherwise it is computed again.
func (c *core) refresh(ctx context.Context, targets []bson.RawValue) (result mongopatterns.Result, err error) {
	ctx, end := txn.Causal(ctx, c.targets) // the sources show what has raised the epoch
	defer end()
	targets = distinct(targets)
	result.Examined = int64(len(targets))
	for round := 0; len(targets) > 0; round++ {
		epochs := map[string]bson.RawValue{}
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return cursor.Primary(c.targets).Find(ctx, in("_id", targets), options.Find().SetProjection(expr.D(c.state("epoch"), 1)).SetBatchSize(int32(len(targets)+1)))
		}) {
			if err != nil {
				return result, err
			}
			epochs[value.Key(doc.Lookup("_id"))] = value.Lookup(doc, c.state("epoch"))
		}
		made, err := c.compute(ctx, targets)
		if err != nil {
			return result, err
		}
		var left []bson.RawValue
		if c.Then == nil {
			left, err = c.store(ctx, targets, epochs, made, &result)
		} else {
			// The next level reads the targets before and after, in one transaction.
			var attempt mongopatterns.Result
			err = c.transact(ctx, func(ctx context.Context) error {
				attempt = mongopatterns.Result{}
				return c.next().change(ctx, targets, func(ctx context.Context) (err error) {
					left, err = c.store(ctx, targets, epochs, made, &attempt)
					return err
				})
			})
			if err == nil { // else the writes of the attempt are undone
				maintain.Add(&result, attempt)
			}
		}
		if err != nil {
			return result, err
		}
		if len(left) > 0 && txn.Running(ctx) {
			return result, txn.Conflict("refresh") // its snapshot does not show the writes of others
		}
		targets = left
		if len(left) > 0 && round >= 10 {
			done, err := c.locked(ctx, left)
			if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
				result.Skipped, err = result.Skipped+int64(len(left)), nil
			}
			result.Done += done
			return result, err
		}
	}
	return result, nil
}

// locked computes targets that others keep writing, perhaps by adding to a wrong value. It does so
// in a transaction that first writes each target, so that the writes of others conflict with it.
func (c *core) locked(ctx context.Context, targets []bson.RawValue) (done int64, err error) {
	err = c.transact(ctx, func(ctx context.Context) error {
		return c.next().change(ctx, targets, func(ctx context.Context) error {
			marked, err := fault.Many(c.targets.UpdateMany(ctx, in("_id", targets), c.update(c.stamp)))
			if err != nil {
				return err
			}
			made, err := c.compute(ctx, targets)
			if err != nil {
				return err
			}
			done, err = marked.MatchedCount, c.write(ctx, targets, made)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return done, nil
}

// refreshEach is refresh; if the targets cannot be computed together, it computes them one by one.
// It counts a target that cannot be computed as Failed.
func (c *core) refreshEach(ctx context.Context, targets []bson.RawValue, strict bool, result *mongopatterns.Result) error {
	one, err := c.refresh(ctx, targets)
	if strict || !fault.Refused(err) || txn.Running(ctx) {
		maintain.Add(result, one)
		return err
	}
	if len(targets) == 1 {
		result.Examined++
		maintain.Fail(result, c.targets.Name(), targets[0], err)
		return nil
	}
	for i := range targets {
		if err := c.refreshEach(ctx, targets[i:i+1], false, result); err != nil {
			return err
		}
	}
	return nil
}

// store writes the values of targets whose epochs have not changed, and returns the other targets
// that still exist.
func (c *core) store(ctx context.Context, targets []bson.RawValue, epochs map[string]bson.RawValue, made map[string]bson.Raw, result *mongopatterns.Result) (left []bson.RawValue, err error) {
	var there []bson.RawValue
	var models []mongo.WriteModel
	run := bson.NewObjectID() // identifies this write
	for _, id := range targets {
		epoch, ok := epochs[value.Key(id)]
		if !ok {
			result.Skipped++
			continue
		}
		guard := append(expr.ByID(id), c.unchanged(epoch))
		there = append(there, id)
		models = append(models, mongo.NewUpdateOneModel().SetFilter(guard).SetUpdate(c.set(made[value.Key(id)], expr.Element(c.state("run"), run))))
	}
	if len(models) == 0 {
		return nil, nil
	}
	written, err := fault.Many(c.targets.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
	if err != nil {
		return nil, err
	}
	if written.MatchedCount == int64(len(models)) {
		result.Done += written.MatchedCount
		return nil, nil
	}
	// Find out which were written. The epoch does not tell, as a write by others raises it too.
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.targets).Find(ctx, in("_id", there), options.Find().SetProjection(expr.D(c.state("run"), 1)).SetBatchSize(int32(len(there)+1)))
	}) {
		if err != nil {
			return nil, fault.Unknown(err) // some may be written
		}
		if by, _ := value.Lookup(doc, c.state("run")).ObjectIDOK(); by == run {
			result.Done++
		} else {
			left = append(left, doc.Lookup("_id"))
		}
	}
	return left, nil
}

// get reads a target into out. If it is stale and nobody else computes it, get computes it first.
func (c *core) get(ctx context.Context, id bson.RawValue, maxAge time.Duration, out any) error {
	for pauses := pause.Between(5*time.Millisecond, 200*time.Millisecond); ; {
		found := c.targets.FindOne(ctx, expr.ByID(id))
		raw, err := found.Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return fault.Of(id, mongopatterns.ErrNotFound)
		}
		if err != nil {
			return err
		}
		at, computed := value.Lookup(raw, c.state("at")).TimeOK()
		marked, set := c.queued(raw)
		if computed && (set || !marked && time.Since(at) < maxAge) {
			return fault.Of(id, cursor.One(found, out))
		}
		// Only if the epoch is the one read: someone may have computed it since.
		as := c.unchanged(value.Lookup(raw, c.state("epoch")))
		by := bson.NewObjectID()
		mine, err := c.lease(ctx, append(expr.ByID(id), as), by, nil)
		if err == nil && mine != nil { // the lease is written, perhaps the values too
			_, err = c.refresh(ctx, []bson.RawValue{id})
			err = fault.Unknown(err)
		}
		if err != nil {
			c.giveBack(ctx, id, by, bson.D{})
			return err
		}
		if mine != nil {
			return fault.Unknown(fault.Found(id, cursor.One(cursor.Primary(c.targets).FindOne(ctx, expr.ByID(id)), out)))
		}
		if computed && !c.Wait {
			return fault.Of(id, cursor.One(found, out))
		}
		if txn.Running(ctx) {
			return txn.Conflict("get") // its snapshot will not show the other's result
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// queued reports whether a target waits for Drain, and whether Drain has set it aside. Any other
// value of "dirty" means neither.
func (c *core) queued(doc bson.Raw) (marked, setAside bool) {
	dirty := value.Lookup(doc, c.state("dirty"))
	marked, _ = dirty.BooleanOK()
	text, _ := dirty.StringValueOK()
	return marked, text == aside
}

// lease takes a lease of the target that filter selects by its _id, if nobody has one, sets the
// fields of more, and returns _id and state, or nil.
func (c *core) lease(ctx context.Context, filter bson.D, by bson.ObjectID, more bson.D) (bson.Raw, error) {
	raw, err := fault.Single(c.targets.FindOneAndUpdate(ctx, append(filter, lease.Free(c.state("until"))...), c.update(append(more,
		expr.Element(c.state("until"), lease.In(c.Lease)), expr.Element(c.state("by"), by),
	)), options.FindOneAndUpdate().SetProjection(expr.D(c.StateField, 1)).SetReturnDocument(options.After))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return raw, err
}

// giveBackBound is how long a failed call tries to give its lease back.
var giveBackBound = time.Second // a test raises it

// giveBack ends a lease after an error, so that nobody waits until it runs out, and applies update. It has no deadline:
// the driver would repeat the write until then without pauses.
// In a transaction it does nothing, because the error undoes the lease.
func (c *core) giveBack(ctx context.Context, id bson.RawValue, by bson.ObjectID, update bson.D) {
	if txn.Running(ctx) {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackBound)
	defer cancel()
	ctx, stop := pause.Undated(bounded)
	defer stop()
	mine := append(expr.ByID(id), expr.Element(c.state("by"), by))
	free := append(update, expr.Element("$unset", expr.D(c.state("until"), "", c.state("by"), "")))
	_, _ = fault.One(c.targets.UpdateOne(ctx, mine, free)) // after an error the lease runs out by itself
}

// mark raises the epoch too, because a computation that has begun may not see the write that the
// mark is for. A target that was set aside gets all its attempts again.
func (c *core) mark(ctx context.Context, targets []bson.RawValue) error {
	_, err := fault.Many(c.targets.UpdateMany(ctx, in("_id", targets), c.marked))
	return err
}

// aside is the value of "dirty" in a target that Drain has set aside.
const aside = "set aside"

// drain counts an attempt when it takes a target, not when it fails, so that a computation that
// kills its process counts too.
func (c *core) drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	w, err := maintain.Completed(work, 0)
	if err != nil {
		return result, err
	}
	filter := expr.D(c.state("dirty"), true)
	if w.Filter != nil {
		filter = append(filter, expr.Element("$and", bson.A{w.Filter}))
	}
	if w.DryRun {
		result.Done, err = c.targets.CountDocuments(ctx, filter)
		result.Examined = result.Done
		return result, err
	}
	ctx, judge := scoped.Judged(ctx)
	defer func() { err = judge(err) }() // the lease and the attempt are written, even if no value is
	free := append(lease.Free(c.state("until")), filter...)
	for {
		ids, err := c.candidates(ctx, free)
		if err != nil || len(ids) == 0 {
			return result, err
		}
		for _, id := range ids {
			if err := c.drainOne(ctx, id, filter, w, &result); err != nil {
				return result, err
			}
		}
	}
}

// candidates returns up to 100 targets that filter selects, in random order, so that workers do not
// all begin with the same one.
func (c *core) candidates(ctx context.Context, filter bson.D) (ids []bson.RawValue, err error) {
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.targets).Find(ctx, filter, options.Find().SetProjection(expr.D("_id", 1)).SetLimit(100).SetBatchSize(101))
	}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, doc.Lookup("_id"))
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids, nil
}

// drainOne computes a target unless another worker does. It takes the lease by _id, as a sharded
// collection requires.
func (c *core) drainOne(ctx context.Context, id bson.RawValue, filter bson.D, w mongopatterns.Work, result *mongopatterns.Result) error {
	by := bson.NewObjectID()
	one := mongopatterns.Result{Examined: 1}
	attempt := expr.D(c.state("attempts"), c.raised("attempts"))
	undo := func() { // the target is not the cause, so the attempt does not count
		c.giveBack(ctx, id, by, expr.Op("$inc", expr.D(c.state("attempts"), -1)))
	}
	mine, err := c.lease(ctx, append(expr.ByID(id), filter...), by, attempt)
	if err != nil { // it may be written
		undo()
	}
	if err != nil || mine == nil {
		return err
	}
	attempts, _ := value.Lookup(mine, c.state("attempts")).AsInt64OK()
	var failed error
	if attempts > int64(c.Attempts) {
		failed = errNoAnswer
	} else if one, err = c.refresh(ctx, []bson.RawValue{id}); fault.Refused(err) && !txn.Running(ctx) {
		failed, err = err, nil
	} else if err != nil {
		undo()
	}
	if failed != nil {
		maintain.Fail(&one, c.targets.Name(), id, failed) // its lease keeps this loop from trying it again
		err = c.failed(ctx, id, attempts, failed)
		if w.Strict {
			err = errors.Join(failed, err)
		}
	}
	maintain.Add(result, one)
	if err == nil {
		w.Progress(*result)
	}
	return err
}

var errNoAnswer = errors.New("no worker has finished it")

// failed stores the error of an attempt, and sets the target aside after the last attempt. If the
// target was marked meanwhile, its attempts were reset, and failed changes nothing.
func (c *core) failed(ctx context.Context, id bson.RawValue, attempts int64, failed error) error {
	set := expr.D(c.state("error"), failed.Error())
	if attempts >= int64(c.Attempts) {
		set = append(set, expr.Element(c.state("dirty"), aside))
	}
	_, err := fault.One(c.targets.UpdateOne(ctx, append(expr.ByID(id), expr.Element(c.state("attempts"), attempts)), expr.Op("$set", set)))
	return err
}

// failures reads the targets that were set aside.
func (c *core) failures(ctx context.Context) iter.Seq2[mongopatterns.Failure, error] {
	return func(yield func(mongopatterns.Failure, error) bool) {
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.targets.Find(ctx, expr.D(c.state("dirty"), aside), options.Find().SetProjection(expr.D(c.state("error"), 1)))
		}) {
			if err != nil {
				yield(mongopatterns.Failure{}, err)
				return
			}
			text, _ := value.Lookup(doc, c.state("error")).StringValueOK()
			if !yield(mongopatterns.Failure{Collection: c.targets.Name(), ID: doc.Lookup("_id"), Err: errors.New(text)}, nil) {
				return
			}
		}
	}
}

// refreshAll computes all targets in batches, each guarded by the epochs.
func (c *core) refreshAll(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
	scan := maintain.Scan{Projection: expr.D("_id", 1)}
	if c.Then != nil { // a batch is one transaction
		scan.BatchSize = 100
	}
	return maintain.Run(ctx, c.targets, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		if w.DryRun {
			result.Done += int64(len(batch))
			return nil
		}
		one, err := c.refresh(ctx, transfer.IDs(batch))
		one.Examined = 0 // the batch was counted already
		maintain.Add(result, one)
		return err
	})
}

func (c *core) scan() maintain.Scan {
	projection := expr.D(c.StateField, 1)
	for _, e := range c.fields {
		projection = append(projection, expr.Element(e.Key, 1))
	}
	return maintain.Scan{Projection: projection, BatchSize: 100}
}

// foreign reports whether StateField holds something that this package does not write there.
func (c *core) foreign(doc bson.Raw) bool {
	state := doc.Lookup(c.StateField)
	fields, ok := state.DocumentOK()
	elements, err := fields.Elements()
	if err != nil || !ok {
		return state.Type != 0 && state.Type != bson.TypeNull
	}
	return slices.ContainsFunc(elements, func(e bson.RawElement) bool {
		switch v := e.Value(); e.Key() {
		case "at", "until":
			return v.Type != bson.TypeDateTime
		case "run", "by":
			return v.Type != bson.TypeObjectID
		case "epoch", "attempts":
			return !v.IsNumber()
		case "error":
			return v.Type != bson.TypeString
		default: // other code can mark a target
			return e.Key() != "dirty"
		}
	})
}

// drifted returns the problems of targets. It skips those in the queue or set aside, and new ones.
func (c *core) drifted(ctx context.Context, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(doc bson.Raw) bool {
		marked, setAside := c.queued(doc)
		foreign := c.foreign(doc)
		if foreign {
			out = append(out, mongopatterns.Problem{Pattern: "computed", Kind: mongopatterns.Malformed, Collection: c.targets.Name(), ID: doc.Lookup("_id"),
				Field: c.StateField, Have: doc.Lookup(c.StateField), Detail: "not written by this package: choose another Options.StateField"})
		}
		return marked || setAside || foreign
	})
	if len(batch) == 0 {
		return out, nil
	}
	made, err := c.compute(ctx, transfer.IDs(batch))
	if err != nil {
		return nil, err
	}
	for _, doc := range batch {
		id := doc.Lookup("_id")
		if made[value.Key(id)] == nil && c.blank(doc) {
			continue
		}
		for _, e := range c.fields {
			have, want := doc.Lookup(e.Key), made[value.Key(id)].Lookup(e.Key)
			if want.Type == 0 {
				want = c.empty.Lookup(e.Key)
			}
			if !agree(have, want) {
				out = append(out, mongopatterns.Problem{Pattern: "computed", Kind: mongopatterns.WrongField, Collection: c.targets.Name(), ID: id, Field: e.Key, Have: have, Want: want})
			}
		}
	}
	return out, nil
}

// blank reports whether a target has none of the computed fields.
func (c *core) blank(doc bson.Raw) bool {
	return !slices.ContainsFunc(c.fields, func(e bson.E) bool { return doc.Lookup(e.Key).Type != 0 })
}

// agree reports whether a stored value is the computed one, but for the slack of each number in it.
func agree(have, want bson.RawValue) bool {
	if have.Type != want.Type || want.Type != bson.TypeEmbeddedDocument && want.Type != bson.TypeArray {
		return value.Agree(have, want, slack(have, want))
	}
	stored, _ := bson.Raw(have.Value).Elements()
	computed, _ := bson.Raw(want.Value).Elements()
	return slices.EqualFunc(stored, computed, func(a, b bson.RawElement) bool {
		return a.Key() == b.Key() && agree(a.Value(), b.Value())
	})
}

// slack is what a double may differ by, a billionth, because its sum depends on the order; below 1 a billionth of 1,
// because adding and subtracting a large value leaves a rounding error in proportion to that. A decimal is rounded less.
// It is nil for other values.
func slack(have, want bson.RawValue) *big.Rat {
	size := value.Number(want)
	is := func(t bson.Type) bool { return have.Type == t || want.Type == t }
	switch one := big.NewRat(1, 1); {
	case size == nil:
		return nil
	case is(bson.TypeDecimal128):
		return size.Mul(size.Abs(size), big.NewRat(1, 1e12))
	case !is(bson.TypeDouble):
		return nil
	case size.Abs(size).Cmp(one) < 0:
		size = one
	}
	return size.Mul(size, big.NewRat(1, 1e9))
}

// again checks the targets of problems once more, in one snapshot: a change may have been under
// way.
func (c *core) again(ctx context.Context, problems []mongopatterns.Problem) (out []mongopatterns.Problem, err error) {
	var ids []bson.RawValue
	for _, p := range problems {
		ids = append(ids, p.ID)
	}
	look := func(ctx context.Context) error {
		docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.targets.Find(ctx, in("_id", distinct(ids)), options.Find().SetProjection(c.scan().Projection).SetSort(expr.D("_id", 1)))
		}))
		if err != nil {
			return err
		}
		out, err = c.drifted(ctx, docs)
		return err
	}
	err = c.transact(ctx, look)
	if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
		err = look(ctx)
	}
	return out, err
}

func (c *core) check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return maintain.Chain(maintain.Check(ctx, c.targets, work, c.scan(), c.problems), maintain.Absent(ctx, c.sources, work, "computed", c.key))
}

// problems returns the problems of a batch; if the batch cannot be computed, those of its targets
// one by one.
func (c *core) problems(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
	found, err := c.drifted(ctx, batch)
	if err == nil && len(found) > 0 {
		found, err = c.again(ctx, found)
	}
	if !fault.Refused(err) || txn.Running(ctx) {
		return found, err
	}
	if len(batch) == 1 {
		return []mongopatterns.Problem{{Pattern: "computed", Kind: Uncomputable, Collection: c.targets.Name(), ID: batch[0].Lookup("_id"), Detail: err.Error()}}, nil
	}
	var all []mongopatterns.Problem
	for _, doc := range batch {
		one, err := c.problems(ctx, []bson.Raw{doc})
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// repair computes the targets that have drifted; with adopt also those that were never computed.
func (c *core) repair(ctx context.Context, work *mongopatterns.Work, adopt bool) (mongopatterns.Result, error) {
	if err := collation.Refuse(ctx, c.sources, c.targets); err != nil {
		return mongopatterns.Result{}, err
	}
	return maintain.Run(ctx, c.targets, work, c.scan(), func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		problems, err := c.drifted(ctx, batch)
		if err != nil {
			return err
		}
		var ids []bson.RawValue
		for _, p := range problems {
			if p.Kind != mongopatterns.Malformed {
				ids = append(ids, p.ID)
				continue
			}
			err := fault.Invalid("the field %q is %s", p.Field, p.Detail)
			if w.Strict {
				return fault.Of(p.ID, err)
			}
			maintain.Fail(result, c.targets.Name(), p.ID, err)
		}
		for _, doc := range batch {
			if marked, setAside := c.queued(doc); adopt && c.blank(doc) && !marked && !setAside && !c.foreign(doc) {
				ids = append(ids, doc.Lookup("_id"))
			}
		}
		ids = distinct(ids)
		if len(ids) == 0 || w.DryRun {
			result.Done += int64(len(ids))
			return nil
		}
		one, err := c.refresh(ctx, ids)
		one.Examined = 0 // the batch was counted already
		maintain.Add(result, one)
		return err
	})
}
