package computed

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
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
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// core works on BSON.
type core struct {
	Options
	sources, targets *mongo.Collection
	codec            codec.Codec
	key              string // the source's field with its target
	pipeline         mongo.Pipeline
	fields           bson.D   // the computed ones, of a target without sources
	empty            bson.Raw // the same, encoded

	// What many calls send alike; see prepare.
	stamp, over bson.D
	stored      []any
	marked      any
}

// prepare encodes the expressions that are the same in every call.
func (c *core) prepare() {
	// stamp sets the time and raises the epoch, over ends all that is under way.
	epoch := expr.Fixed(expr.Op("$add", expr.IfNull(expr.Field(c.state("epoch")), int64(0)), 1))
	c.stamp = expr.D(c.state("at"), "$$NOW", c.state("epoch"), epoch)
	c.over = expr.D(c.state("until"), "$$REMOVE", c.state("by"), "$$REMOVE", c.state("dirty"), "$$REMOVE", c.state("attempts"), "$$REMOVE", c.state("error"), "$$REMOVE")
	for _, e := range c.fields { // what a target has of a field
		c.stored = append(c.stored, expr.Fixed(expr.IfNull(expr.Field(e.Key), expr.Literal(c.empty.Lookup(e.Key)))))
	}
	c.marked = expr.Pipeline(expr.Op("$set", expr.D(c.state("dirty"), true, c.state("epoch"), epoch,
		c.state("attempts"), "$$REMOVE", c.state("error"), "$$REMOVE")))
}

func (c *core) state(field string) string { return c.StateField + "." + field }

func (c *core) transact(ctx context.Context, fn func(ctx context.Context) error) error {
	return txn.Run(ctx, c.targets.Database().Client(), fn)
}

func in(field string, ids []bson.RawValue) bson.D {
	return bson.D{{Key: field, Value: bson.D{{Key: "$in", Value: value.Array(ids)}}}}
}

// values computes the sources that filter selects: a document for each target, by key. It also
// counts the documents whose _id no target can have: sources without a target make those.
func (c *core) values(ctx context.Context, filter bson.D) (made map[string]bson.Raw, nameless int, err error) {
	made = map[string]bson.Raw{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.sources).Aggregate(ctx, append(mongo.Pipeline{expr.Op("$match", filter)}, c.pipeline...), options.Aggregate().SetBatchSize(1000))
	}) {
		if err != nil {
			return nil, 0, err
		}
		if id := doc.Lookup("_id"); value.CheckID(id) == nil {
			made[value.Key(id)] = doc
		} else {
			nameless++
		}
	}
	return made, nameless, nil
}

// compute is the values of targets from all their sources; a target without sources has none.
// A pipeline that does not fit keyField and empty is refused, as it would store the values of empty.
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
	// Sources of several targets may make only others of theirs.
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
	return fault.Refuse(fault.Of(target, fault.Invalid("pipeline: the _ids it makes are not those in keyField")))
}

// fits refuses a computed document whose fields are not those of empty.
func (c *core) fits(doc bson.Raw) error {
	elements, err := doc.Elements()
	for _, e := range c.fields {
		if err == nil && doc.Lookup(e.Key).Type == 0 {
			err = fault.Invalid("pipeline: it makes no %s, which is in empty", e.Key)
		}
	}
	for _, e := range elements {
		if key := e.Key(); err == nil && key != "_id" && c.empty.Lookup(key).Type == 0 {
			err = fault.Invalid("pipeline: it makes %s, which is not in empty", key)
		}
	}
	if err != nil {
		return fault.Refuse(fault.Of(doc.Lookup("_id"), err))
	}
	return nil
}

// keys are the targets of the first sources that filter selects, 0 for all, and how many
// sources these are.
func (c *core) keys(ctx context.Context, filter bson.D, limit int) (out []bson.RawValue, sources int, err error) {
	find := options.Find().SetProjection(bson.D{{Key: c.key, Value: 1}}).SetLimit(int64(limit)).SetBatchSize(1000)
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.sources).Find(ctx, filter, find)
	}) {
		if err != nil {
			return nil, 0, err
		}
		sources++
		out = append(out, at(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}, strings.Split(c.key, "."))...)
	}
	return out, sources, nil
}

// at are the _ids at a path, through arrays as the server's index sees them: a
// source can have several targets.
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

// distinct drops repetitions.
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

// change runs write, which changes the sources of these _ids, in the transaction of ctx, and
// brings the targets of each level up to date: they are the sources of the next one. Two changes of
// one target conflict in its write, so the second sees the first.
func (c *core) change(ctx context.Context, sources []bson.RawValue, write func(ctx context.Context) error) error {
	for level := c; level != nil; level = level.next() {
		before, err := level.contributions(ctx, sources)
		if err == nil {
			err = write(ctx)
		}
		if err != nil {
			return err
		}
		after, err := level.contributions(ctx, sources)
		if err != nil {
			return err
		}
		follow := level.recompute
		if level.Additive {
			follow = level.addUp
		}
		if sources, write, err = follow(ctx, before, after); err != nil || len(sources) == 0 {
			return err
		}
	}
	return write(ctx)
}

// next is the level above, nil at the last.
func (c *core) next() *core {
	if c.Then == nil {
		return nil
	}
	return c.Then.level()
}

// contribution is what some sources give one target; made is nil without Additive.
type contribution struct {
	target bson.RawValue
	made   bson.Raw
}

// contributions are those of sources, by the key of the target.
func (c *core) contributions(ctx context.Context, sources []bson.RawValue) (map[string]contribution, error) {
	out := map[string]contribution{}
	if !c.Additive {
		targets, _, err := c.keys(ctx, in("_id", sources), 0)
		for _, id := range targets {
			out[value.Key(id)] = contribution{target: id}
		}
		return out, err
	}
	made, nameless, err := c.values(ctx, in("_id", sources))
	if err != nil {
		return nil, err
	}
	if len(made) == 0 && nameless > 0 { // sources without a target, or a pipeline that does not name them
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

// targetsOf are the targets that had a contribution before or have one after a change.
func targetsOf(before, after map[string]contribution) (targets []bson.RawValue) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, one := range all {
		targets = append(targets, one.target)
	}
	return targets
}

// recompute computes the targets of a change from all their sources, to be written.
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
		models[i] = mongo.NewUpdateOneModel().SetFilter(byID(id)).SetUpdate(c.set(made[value.Key(id)]))
	}
	_, err := fault.Many(c.targets.BulkWrite(ctx, models))
	return err
}

// addUp is recompute by the difference that the sources of a change make to sums. A target that was
// never computed needs all its sources.
func (c *core) addUp(_ context.Context, before, after map[string]contribution) (targets []bson.RawValue, write func(ctx context.Context) error, err error) {
	targets = targetsOf(before, after)
	models := make([]mongo.WriteModel, len(targets))
	for i, id := range targets {
		key := value.Key(id)
		adopted := append(byID(id), bson.E{Key: c.state("epoch"), Value: expr.Op("$ne", nil)})
		models[i] = mongo.NewUpdateOneModel().SetFilter(adopted).SetUpdate(c.add(before[key].made, after[key].made))
	}
	return targets, func(ctx context.Context) error {
		written, err := fault.Many(c.targets.BulkWrite(ctx, models))
		if err != nil || written.MatchedCount == int64(len(models)) {
			return err
		}
		return c.first(ctx, targets, after)
	}, nil
}

// first computes those targets that never were: to add to nothing would leave out
// their other sources.
func (c *core) first(ctx context.Context, targets []bson.RawValue, after map[string]contribution) error {
	made, err := c.compute(ctx, targets)
	if err != nil {
		return err
	}
	var models []mongo.WriteModel
	for _, id := range targets {
		key := value.Key(id)
		if _, ok := after[key]; ok && made[key] == nil {
			return misnamed(id)
		}
		never := append(byID(id), bson.E{Key: c.state("epoch"), Value: nil})
		models = append(models, mongo.NewUpdateOneModel().SetFilter(never).SetUpdate(c.set(made[key])))
	}
	_, err = fault.Many(c.targets.BulkWrite(ctx, models))
	return err
}

func byID(id bson.RawValue) bson.D { return bson.D{{Key: "_id", Value: value.Equal(id)}} }

// set is the update that stores computed values, those of empty if there are none.
// The epoch makes it a real write even where no value changes, so that all writers
// conflict.
func (c *core) set(made bson.Raw, more ...bson.E) mongo.Pipeline {
	fields := bson.D{}
	for _, e := range c.fields {
		v := made.Lookup(e.Key)
		if v.Type == 0 {
			v = c.empty.Lookup(e.Key)
		}
		fields = append(fields, bson.E{Key: e.Key, Value: expr.Literal(v)})
	}
	return mongo.Pipeline{expr.Op("$set", slices.Concat(fields, c.stamp, c.over, more))}
}

// add is the update that adds the difference of two contributions; a field that is
// missing counts as that of empty.
func (c *core) add(before, after bson.Raw) mongo.Pipeline {
	fields := bson.D{}
	for i, e := range c.fields {
		number := func(doc bson.Raw) any {
			if v := doc.Lookup(e.Key); v.Type != 0 {
				return expr.Literal(v)
			}
			return 0
		}
		fields = append(fields, bson.E{Key: e.Key, Value: expr.Op("$add", c.stored[i], expr.Op("$subtract", number(after), number(before)))})
	}
	return mongo.Pipeline{expr.Op("$set", append(fields, c.stamp...))}
}

// refresh computes targets outside a transaction, or in the caller's: each is stored
// if its epoch is still the one from before the computation, else computed again.
func (c *core) refresh(ctx context.Context, targets []bson.RawValue) (result mongopatterns.Result, err error) {
	targets = distinct(targets)
	result.Examined = int64(len(targets))
	for round := 0; len(targets) > 0; round++ {
		epochs := map[string]bson.RawValue{}
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return cursor.Primary(c.targets).Find(ctx, in("_id", targets), options.Find().SetProjection(bson.D{{Key: c.state("epoch"), Value: 1}}).SetBatchSize(int32(len(targets)+1)))
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
			// The level above reads the targets before and after, in one transaction.
			var attempt mongopatterns.Result
			err = c.transact(ctx, func(ctx context.Context) error {
				attempt = mongopatterns.Result{}
				return c.next().change(ctx, targets, func(ctx context.Context) (err error) {
					left, err = c.store(ctx, targets, epochs, made, &attempt)
					return err
				})
			})
			result.Add(attempt)
		}
		if err != nil {
			return result, err
		}
		if len(left) > 0 && txn.Running(ctx) {
			return result, txn.Conflict("refresh") // its snapshot shows no other's writes
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

// locked computes targets that others write all the time, who may only add to what is
// wrong: in a transaction whose first write of a target makes theirs conflict with it.
func (c *core) locked(ctx context.Context, targets []bson.RawValue) (done int64, err error) {
	err = c.transact(ctx, func(ctx context.Context) error {
		return c.next().change(ctx, targets, func(ctx context.Context) error {
			marked, err := fault.Many(c.targets.UpdateMany(ctx, in("_id", targets), mongo.Pipeline{expr.Op("$set", c.stamp)}))
			if err != nil {
				return err
			}
			made, err := c.compute(ctx, targets)
			if err == nil {
				done, err = marked.MatchedCount, c.write(ctx, targets, made)
			}
			return err
		})
	})
	return done, err
}

// refreshEach is refresh; if targets cannot be computed together, one by one. One that cannot be
// computed at all is counted and named.
func (c *core) refreshEach(ctx context.Context, targets []bson.RawValue, strict bool, result *mongopatterns.Result) error {
	one, err := c.refresh(ctx, targets)
	if strict || !fault.Refused(err) || txn.Running(ctx) {
		result.Add(one)
		return err
	}
	if len(targets) == 1 {
		result.Examined++
		result.Fail(c.targets.Name(), targets[0], err)
		return nil
	}
	for i := range targets {
		if err := c.refreshEach(ctx, targets[i:i+1], false, result); err != nil {
			return err
		}
	}
	return nil
}

// store writes values whose epochs are unchanged and returns the other targets that
// still exist.
func (c *core) store(ctx context.Context, targets []bson.RawValue, epochs map[string]bson.RawValue, made map[string]bson.Raw, result *mongopatterns.Result) (left []bson.RawValue, err error) {
	var there []bson.RawValue
	var models []mongo.WriteModel
	run := bson.NewObjectID() // tells this write from others
	for _, id := range targets {
		epoch, ok := epochs[value.Key(id)]
		if !ok {
			result.Skipped++
			continue
		}
		guard := append(byID(id), bson.E{Key: c.state("epoch"), Value: nil})
		if epoch.Type != 0 {
			guard[1].Value = epoch
		}
		there = append(there, id)
		models = append(models, mongo.NewUpdateOneModel().SetFilter(guard).SetUpdate(c.set(made[value.Key(id)], bson.E{Key: c.state("run"), Value: run})))
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
	// Which of them? The epoch does not say: another's write raises it as this one
	// does.
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.targets).Find(ctx, in("_id", there), options.Find().SetProjection(bson.D{{Key: c.state("run"), Value: 1}}).SetBatchSize(int32(len(there)+1)))
	}) {
		if err != nil {
			return nil, err
		}
		if by, _ := value.Lookup(doc, c.state("run")).ObjectIDOK(); by == run {
			result.Done++
		} else {
			left = append(left, doc.Lookup("_id"))
		}
	}
	return left, nil
}

// get reads a target into out, and computes it first if it is stale and nobody else
// does.
func (c *core) get(ctx context.Context, id bson.RawValue, maxAge time.Duration, out any) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		found := c.targets.FindOne(ctx, byID(id))
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
			return found.Decode(out)
		}
		// Only as it was read: somebody may have computed it since.
		as := bson.E{Key: c.state("epoch"), Value: nil}
		if epoch := value.Lookup(raw, c.state("epoch")); epoch.Type != 0 {
			as.Value = epoch
		}
		by := bson.NewObjectID()
		mine, err := c.lease(ctx, append(byID(id), as), by, nil)
		if err == nil && mine != nil { // the lease is written, and then perhaps the values
			_, err = c.refresh(ctx, []bson.RawValue{id})
			err = fault.Unknown(err)
		}
		if err != nil {
			c.giveBack(ctx, id, by, bson.D{})
			return err
		}
		if mine != nil {
			return fault.Unknown(c.targets.FindOne(ctx, byID(id)).Decode(out))
		}
		if computed && !c.Wait {
			return found.Decode(out)
		}
		if txn.Running(ctx) {
			return txn.Conflict("get") // its snapshot will not show what the other computes
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// queued says whether a target waits for Drain, and whether Drain has set it aside. Anything
// else in "dirty" means neither.
func (c *core) queued(doc bson.Raw) (marked, setAside bool) {
	dirty := value.Lookup(doc, c.state("dirty"))
	marked, _ = dirty.BooleanOK()
	text, _ := dirty.StringValueOK()
	return marked, text == aside
}

// unleased are the targets that nobody computes.
func (c *core) unleased() bson.D {
	return expr.Op("$or", bson.A{
		bson.D{{Key: c.state("until"), Value: nil}},
		expr.Op("$expr", expr.Op("$lte", expr.Field(c.state("until")), "$$NOW")),
	})
}

// lease takes the target that filter selects by its _id, if nobody computes it, sets what more
// says, and returns its _id and state, or nil.
func (c *core) lease(ctx context.Context, filter bson.D, by bson.ObjectID, more bson.D) (bson.Raw, error) {
	raw, err := fault.Single(c.targets.FindOneAndUpdate(ctx, append(filter, c.unleased()...), mongo.Pipeline{expr.Op("$set", append(more,
		bson.E{Key: c.state("until"), Value: expr.Op("$add", "$$NOW", c.Lease.Milliseconds())}, bson.E{Key: c.state("by"), Value: by},
	))}, options.FindOneAndUpdate().SetProjection(bson.D{{Key: c.StateField, Value: 1}}).SetReturnDocument(options.After))).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return raw, err
}

// giveBackBound is how long a call that has failed tries to give its lease back.
const giveBackBound = time.Second

// giveBack ends a lease after an error, so that nobody waits until it is over. In a transaction the
// error undoes it.
func (c *core) giveBack(ctx context.Context, id bson.RawValue, by bson.ObjectID, update bson.D) {
	if txn.Running(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackBound)
	defer cancel()
	mine := append(byID(id), bson.E{Key: c.state("by"), Value: by})
	free := append(update, bson.E{Key: "$unset", Value: bson.D{{Key: c.state("until"), Value: ""}, {Key: c.state("by"), Value: ""}}})
	_, _ = fault.One(c.targets.UpdateOne(ctx, mine, free)) // else it ends by itself
}

// mark raises the epoch too: a computation that is under way may have missed what
// marks it. A target that was set aside gets all its attempts again.
func (c *core) mark(ctx context.Context, targets []bson.RawValue) error {
	_, err := fault.Many(c.targets.UpdateMany(ctx, in("_id", targets), c.marked))
	return err
}

// aside is what "dirty" is of a target that Drain has given up.
const aside = "set aside"

// drain counts an attempt when it takes a target, not when it fails: a computation
// that ends its process counts too.
func (c *core) drain(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	w, err := maintain.Of(work, 0)
	if err != nil {
		return result, err
	}
	filter := bson.D{{Key: c.state("dirty"), Value: true}}
	if w.Filter != nil {
		filter = append(filter, bson.E{Key: "$and", Value: bson.A{w.Filter}})
	}
	if w.DryRun {
		result.Done, err = c.targets.CountDocuments(ctx, filter)
		result.Examined = result.Done
		return result, err
	}
	defer func() {
		if result.Examined > 0 { // a lease and an attempt are written, also where no value is
			err = fault.Unknown(err)
		}
	}()
	free := append(bson.D{{Key: "$and", Value: bson.A{filter}}}, c.unleased()...)
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

// candidates are some targets that filter selects, in a random order, so that workers do not all ask
// for the same one.
func (c *core) candidates(ctx context.Context, filter bson.D) (ids []bson.RawValue, err error) {
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.targets).Find(ctx, filter, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}).SetLimit(100).SetBatchSize(101))
	}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, doc.Lookup("_id"))
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids, nil
}

// drainOne takes a target by its _id, as a sharded collection wants it, and computes it, unless another
// worker has it.
func (c *core) drainOne(ctx context.Context, id bson.RawValue, filter bson.D, w mongopatterns.Work, result *mongopatterns.Result) error {
	by := bson.NewObjectID()
	one := mongopatterns.Result{Examined: 1}
	attempt := bson.D{{Key: c.state("attempts"), Value: expr.Op("$add", expr.IfNull(expr.Field(c.state("attempts")), 0), 1)}}
	mine, err := c.lease(ctx, append(byID(id), filter...), by, attempt)
	if err != nil || mine == nil {
		return err
	}
	attempts := value.Lookup(mine, c.state("attempts"))
	var failed error
	if attempts.AsInt64() > int64(c.Attempts) {
		failed = errNoAnswer
	} else if one, err = c.refresh(ctx, []bson.RawValue{id}); fault.Refused(err) && !txn.Running(ctx) {
		failed, err = err, nil
	} else if err != nil { // not for the target's sake
		c.giveBack(ctx, id, by, expr.Op("$inc", bson.D{{Key: c.state("attempts"), Value: -1}}))
	}
	if failed != nil {
		one.Fail(c.targets.Name(), id, failed) // its lease keeps it out of this loop
		err = c.failed(ctx, id, attempts, failed)
		if w.Strict {
			err = errors.Join(failed, err)
		}
	}
	result.Add(one)
	if err == nil {
		w.Progress(*result)
	}
	return err
}

var errNoAnswer = errors.New("no worker has come to an end with it")

// failed notes the error of an attempt, and sets the target aside after the last. A
// mark that came meanwhile begins anew, and has nothing of it.
func (c *core) failed(ctx context.Context, id, attempts bson.RawValue, failed error) error {
	set := bson.D{{Key: c.state("error"), Value: failed.Error()}}
	if attempts.AsInt64() >= int64(c.Attempts) {
		set = append(set, bson.E{Key: c.state("dirty"), Value: aside})
	}
	_, err := fault.One(c.targets.UpdateOne(ctx, append(byID(id), bson.E{Key: c.state("attempts"), Value: attempts}), expr.Op("$set", set)))
	return err
}

// failures reads the targets that were set aside.
func (c *core) failures(ctx context.Context) iter.Seq2[mongopatterns.Failure, error] {
	return func(yield func(mongopatterns.Failure, error) bool) {
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.targets.Find(ctx, bson.D{{Key: c.state("dirty"), Value: aside}}, options.Find().SetProjection(bson.D{{Key: c.state("error"), Value: 1}}))
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
	scan := maintain.Scan{Projection: bson.D{{Key: "_id", Value: 1}}}
	if c.Then != nil { // a batch is one transaction
		scan.BatchSize = 100
	}
	return maintain.Run(ctx, c.targets, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		if w.DryRun {
			result.Done += int64(len(batch))
			return nil
		}
		one, err := c.refresh(ctx, idsOf(batch))
		one.Examined = 0 // the batch counts
		result.Add(one)
		return err
	})
}

func idsOf(docs []bson.Raw) (ids []bson.RawValue) {
	for _, doc := range docs {
		ids = append(ids, doc.Lookup("_id"))
	}
	return ids
}

func (c *core) scan() maintain.Scan {
	projection := bson.D{{Key: c.state("dirty"), Value: 1}}
	for _, e := range c.fields {
		projection = append(projection, bson.E{Key: e.Key, Value: 1})
	}
	return maintain.Scan{Projection: projection, BatchSize: 100}
}

// drifted are the problems of targets; those in the queue, and new ones, have none.
func (c *core) drifted(ctx context.Context, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(doc bson.Raw) bool {
		marked, setAside := c.queued(doc)
		return marked || setAside
	})
	if len(batch) == 0 {
		return nil, nil
	}
	made, err := c.compute(ctx, idsOf(batch))
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
			if !c.equal(have, want) {
				out = append(out, mongopatterns.Problem{Pattern: "computed", Kind: Drifted, Collection: c.targets.Name(), ID: id, Field: e.Key, Have: have, Want: want})
			}
		}
	}
	return out, nil
}

// blank reports a target that has none of the computed fields.
func (c *core) blank(doc bson.Raw) bool {
	return !slices.ContainsFunc(c.fields, func(e bson.E) bool { return doc.Lookup(e.Key).Type != 0 })
}

// equal compares values as the server does, and doubles to a billionth, as their sums depend on
// the order. Below 1 it is a billionth of 1: what is added and taken back leaves a rounding error
// of what was there.
func (c *core) equal(have, want bson.RawValue) bool {
	if have.Type == want.Type && bytes.Equal(have.Value, want.Value) || value.Key(have) == value.Key(want) {
		return true
	}
	a, b := value.Number(have), value.Number(want)
	if a == nil || b == nil || have.Type != bson.TypeDouble && want.Type != bson.TypeDouble {
		return false
	}
	off := new(big.Rat).Abs(new(big.Rat).Sub(a, b))
	size := new(big.Rat).Abs(b)
	if one := big.NewRat(1, 1); size.Cmp(one) < 0 {
		size = one
	}
	return off.Mul(off, big.NewRat(1_000_000_000, 1)).Cmp(size) <= 0
}

// again looks at the targets of problems in one snapshot: a change may have been
// under way.
func (c *core) again(ctx context.Context, problems []mongopatterns.Problem) (out []mongopatterns.Problem, err error) {
	var ids []bson.RawValue
	for _, p := range problems {
		ids = append(ids, p.ID)
	}
	look := func(ctx context.Context) error {
		docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.targets.Find(ctx, in("_id", distinct(ids)), options.Find().SetProjection(c.scan().Projection).SetSort(bson.D{{Key: "_id", Value: 1}}))
		}))
		if err == nil {
			out, err = c.drifted(ctx, docs)
		}
		return err
	}
	err = c.transact(ctx, look)
	if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
		err = look(ctx)
	}
	return out, err
}

func (c *core) check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return maintain.Check(ctx, c.targets, work, c.scan(), c.problems)
}

// problems are those of a batch; if it cannot be computed, those of its targets one by
// one.
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

// repair computes what has drifted; adopt also targets that never were computed.
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
			ids = append(ids, p.ID)
		}
		for _, doc := range batch {
			if marked, setAside := c.queued(doc); adopt && c.blank(doc) && !marked && !setAside {
				ids = append(ids, doc.Lookup("_id"))
			}
		}
		ids = distinct(ids)
		if len(ids) == 0 || w.DryRun {
			result.Done += int64(len(ids))
			return nil
		}
		one, err := c.refresh(ctx, ids)
		one.Examined = 0 // the batch counts
		result.Add(one)
		return err
	})
}
