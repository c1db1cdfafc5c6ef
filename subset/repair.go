package subset

import (
	"cmp"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Repair rebuilds parents in which Check finds problems from their items, each batch in a
// transaction, during live writes. It takes the collection as the truth, so it undoes what somebody
// has edited in an array or pulled from it. Work.Filter selects parents. A parent that is
// NotAdopted is left alone and counted as Remaining, a Malformed one as Failed. Run Repair after
// changing N, Sort, Fields, Filter, CountField or Values, once all writers have the new options.
//
// Cost: 1 round trip, and 2 for each batch of 100 parents as in Check.
//   - A batch in which some are wrong: 5 more, and 1 more if arrays are; 2 writes to each wrong parent.
//   - Arrays that lack items: 1 more, and 2 writes to each of these.
func (s *Subset[ID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "subset.Repair")
	defer fault.In(&err, "subset.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.rebuildAll(ctx, work, false)
}

// Adopt brings existing data into the form of this package. It gives the parents their kept items
// and aggregates. Items in the parents' arrays that the collection lacks, by _id, are inserted
// there, with all their fields, also those that T lacks, and with an ObjectID if they have no _id.
// A parent without items is not written, so it gets no count. Work.Filter selects parents.
//
// A batch of parents is one transaction, which writes each parent first, and is halved after a
// conflict (Result.Conflicts). So Adopt can run beside writers, including old code. It can be
// stopped and run again, also to take up what old programs have pushed since. A parent is passed
// over, named and counted as Failed if it is Malformed, or if one of its items is invalid, has the
// _id of another parent's item, or names another parent in ParentField.
//
// Adopt does not check items that are in the collection already; Check names those that Insert
// would refuse. If items in an array have other content than in the collection, or old code has
// pulled some, Adopt leaves the array alone and counts the parent as Remaining. Check names it as
// Edited or Pulled; Repair undoes it.
//
// Cost: that of Repair; 2 more for each batch with items to insert, and 1 write for each of them.
func (s *Subset[ID, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "subset.Adopt")
	defer fault.In(&err, "subset.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.rebuildAll(ctx, work, true)
}

func (c *core) rebuildAll(ctx context.Context, work *mongopatterns.Work, adopt bool) (mongopatterns.Result, error) {
	if err := c.ready(ctx, work); err != nil {
		return mongopatterns.Result{}, err
	}
	step := func(ctx context.Context, parents []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
		return c.inspect(ctx, parents, func(ctx context.Context, these bson.A) error {
			var done mongopatterns.Result
			err := maintain.Once(ctx, c.parents, func(ctx context.Context) error {
				done = mongopatterns.Result{}
				return c.rebuildThese(ctx, these, nil, adopt, work.DryRun, &done)
			})
			if err == nil {
				maintain.Add(result, done)
			}
			return err
		})
	}
	return maintain.Run(ctx, c.parents, work, c.scan(), step)
}

// adopt adopts parents in the transaction of a write. pushedOut is what the write has pushed out of
// the array, if there is one parent.
func (c *core) adopt(ctx context.Context, these bson.A, pushedOut []element) error {
	var done mongopatterns.Result
	err := c.rebuildThese(ctx, these, pushedOut, true, false, &done)
	if mongo.IsDuplicateKeyError(err) { // not the write's own error
		err = fmt.Errorf("%w: %v", mongopatterns.ErrNotAdopted, err)
	}
	if err == nil && done.Failed > 0 {
		err = fault.Of(done.Failures[0].ID, fmt.Errorf("%w: %w", mongopatterns.ErrNotAdopted, done.Failures[0].Err))
	}
	return err
}

// recount rebuilds a parent from its items.
func (c *core) recount(ctx context.Context, parent bson.RawValue) error {
	var done mongopatterns.Result
	return c.rebuildThese(ctx, bson.A{parent}, nil, false, false, &done)
}

// addUp computes the sums of parents that the transaction has written from all their items.
func (c *core) addUp(ctx context.Context, these bson.A) error {
	if len(these) == 0 {
		return nil
	}
	var models []mongo.WriteModel
	for group, err := range c.groups(ctx, these) {
		if err != nil {
			return err
		}
		models = append(models, mongo.NewUpdateOneModel().SetFilter(expr.ByID(group.Lookup("_id"))).SetUpdate(c.set(group, nil)))
	}
	if len(models) == 0 {
		return nil
	}
	_, err := fault.Many(c.parents.BulkWrite(ctx, models))
	return err
}

// rebuildThese writes the parents first. From then on other writers wait, so that it does not
// conflict with them.
func (c *core) rebuildThese(ctx context.Context, these bson.A, pushedOut []element, adopt, dry bool, result *mongopatterns.Result) error {
	if !dry {
		if _, err := fault.Many(c.parents.UpdateMany(ctx, expr.D("_id", expr.Op("$in", these)), hold.Mark)); err != nil {
			return err
		}
	}
	states, err := c.suspects(ctx, these, pushedOut)
	if err != nil {
		return err
	}
	before := result.Done
	models, err := c.rebuild(ctx, states, adopt, dry, result)
	if err != nil || dry {
		return err
	}
	if done := result.Done - before; done < int64(len(these)) { // the others have been touched as well
		touched := expr.D("_id", expr.Op("$in", these), hold.Field, expr.D("$exists", true))
		models = append(models, mongo.NewUpdateManyModel().SetFilter(touched).SetUpdate(hold.Unmark))
	}
	_, err = fault.Many(c.parents.BulkWrite(ctx, models))
	return err
}

// rebuild inserts the items that the collection lacks. It returns the updates that set what
// follows from the items in the parents, and remove the touch.
func (c *core) rebuild(ctx context.Context, states []state, adopt, dry bool, result *mongopatterns.Result) (models []mongo.WriteModel, err error) {
	left := c.rebuildable(states, adopt, result)
	if !dry {
		if err := c.insertUnstored(ctx, left); err != nil {
			return nil, err
		}
		if err := c.holdNew(ctx, left); err != nil {
			return nil, err
		}
	}
	for _, st := range left {
		models = append(models, c.rebuilt(st, adopt, result)...)
	}
	return models, nil
}

// rebuildable returns the states that can be set right, with their inserts, and counts the others.
func (c *core) rebuildable(states []state, adopt bool, result *mongopatterns.Result) (left []state) {
	for _, st := range states {
		if st.problems != nil && st.problems[0].Kind == mongopatterns.Malformed {
			p := st.problems[0]
			maintain.Fail(result, c.parents.Name(), st.id(), fault.Invalid("%q is %s", p.Field, p.Detail))
			continue
		}
		if len(st.unstored) > 0 && !adopt {
			result.Remaining++
			continue
		}
		var err error
		st.inserts, err = c.insertsOf(st)
		if err = cmp.Or(err, c.keepable(st.top...)); err != nil {
			maintain.Fail(result, c.parents.Name(), st.id(), err)
			continue
		}
		left = append(left, st)
	}
	return left
}

// insertUnstored inserts the items that the collection lacks, and reads their parents' states again.
func (c *core) insertUnstored(ctx context.Context, states []state) error {
	var docs []bson.Raw
	for _, st := range states {
		for _, it := range st.inserts {
			if it.doc != nil {
				docs = append(docs, it.doc)
			}
		}
	}
	if len(docs) == 0 {
		return nil
	}
	if _, err := fault.Many(c.items.InsertMany(ctx, docs)); err != nil {
		return err
	}
	return c.again(ctx, states)
}

// rebuilt returns the updates of a parent, and counts it. It leaves an array that other code has edited, which somebody has
// to decide about.
func (c *core) rebuilt(st state, adopt bool, result *mongopatterns.Result) (models []mongo.WriteModel) {
	set := expr.D(hold.Field, "$$REMOVE")
	// Beside a push, a deletion by new code may have left a free place.
	edited := adopt && (len(st.edited) > 0 || len(st.unstored) == 0 && len(c.pulled(st)) > 0)
	switch {
	case !edited:
		set = append(set, expr.Element(c.o.ArrayField, expr.Literal(c.arranged(st.top))))
	case len(st.unstored) == 0 && len(st.problems) == 1: // nothing else to do
		result.Remaining++
		return nil
	default:
		result.Remaining++
		models = c.namedElements(st)
	}
	result.Done++
	return append(models, mongo.NewUpdateOneModel().SetFilter(expr.ByID(st.id())).SetUpdate(c.set(st.stats, set)))
}

// namedElements returns the updates that replace elements without an _id by their items, so that these are not inserted
// again.
func (c *core) namedElements(st state) (models []mongo.WriteModel) {
	for i, h := range st.unstored {
		if h.at >= 0 && h.id().IsZero() {
			path := fmt.Sprintf("%s.%d", c.o.ArrayField, h.at)
			set := expr.Op("$set", expr.D(path, c.cut(st.inserts[i].doc)))
			models = append(models, mongo.NewUpdateOneModel().SetFilter(expr.ByID(st.id())).SetUpdate(set))
		}
	}
	return models
}

// holdNew holds the items that the arrays of these parents lack.
func (c *core) holdNew(ctx context.Context, states []state) error {
	var parents bson.A
	var items []bson.Raw
	for _, st := range states {
		if lacking := st.lacking(); len(lacking) > 0 {
			parents, items = append(parents, st.id()), append(items, lacking...)
		}
	}
	return c.hold(ctx, parents, items)
}

// set is the update that sets the numbers which follow from all items of a parent, and more.
func (c *core) set(stats bson.Raw, more bson.D) mongo.Pipeline {
	for _, d := range c.derived(stats) {
		if !d.mean {
			more = append(more, expr.Element(d.path, expr.Literal(d.want)))
		}
	}
	return append(mongo.Pipeline{expr.D("$set", more)}, c.x.means...)
}

// again reads the items of these parents again.
func (c *core) again(ctx context.Context, states []state) error {
	var parents []bson.Raw
	for _, st := range states {
		parents = append(parents, st.parent)
	}
	fresh, err := c.states(ctx, parents)
	for i, st := range fresh {
		states[i].top, states[i].stats, states[i].problems = st.top, st.stats, st.problems
	}
	return err
}

// insertsOf makes items from the elements of a parent's array that the collection lacks.
func (c *core) insertsOf(st state) (inserts []item, err error) {
	seen := map[string]bson.RawValue{}
	for _, h := range st.unstored {
		doc, ok := h.item.DocumentOK()
		if !ok {
			return nil, fault.Invalid("%q holds a value of type %v, not an item", c.o.ArrayField, h.item.Type)
		}
		own := doc.Lookup(c.o.ParentField)
		if own.Type != 0 && own.Type != bson.TypeNull && !value.Same(own, st.id()) {
			return nil, fault.Of(h.id(), fault.Invalid("the item holds %s in %q, which would be lost: choose another Options.ParentField, or $unset it",
				value.Text(own), c.o.ParentField))
		}
		_, it, err := c.encode(st.id(), doc)
		if err != nil {
			return nil, err
		}
		if twin, twice := seen[value.Key(it.id)]; twice && twin.Equal(h.item) {
			it.doc = nil
		}
		seen[value.Key(it.id)] = h.item
		inserts = append(inserts, it)
	}
	return inserts, nil
}
