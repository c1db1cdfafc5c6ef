package subset

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Repair makes the parents that Check finds wrong hold what their items say, a
// batch in a transaction, beside live writes. Work.Filter selects parents. A parent
// that is NotAdopted is left, and counted as Remaining. Run Repair after changing N,
// Order, Fields, Filter, CountField or Values, once all writers have the new options.
//
// Cost: 2 round trips for each batch of 100 parents as in Check; 4 more if some are
// wrong, and 1 more if arrays are; 1 write to each wrong parent.
func (s *Subset[P, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "subset: repair")
	return s.core.rebuildAll(ctx, work, false)
}

// Adopt brings existing data into shape. Parents and a collection of items that
// are there already get the kept items and the aggregates. Items that stand in the
// parents' arrays and not in the collection, by _id, are inserted there, with an
// ObjectID if they have none. Work.Filter selects parents. A batch of parents is one
// transaction: Adopt can run beside writers, be stopped, and be run again, also to
// fetch what old programs have pushed since. A parent with an item that is not valid,
// or that has the _id of another parent's, is counted as failed, named and
// passed over.
//
// Items in the collection are taken as they are: Check names those that Add would
// refuse. The array of a parent that holds outdated copies is replaced as in Repair.
//
// Cost: as Repair; 2 more for each batch with items to insert, 1 write for each of
// them and 1 more to each of its parents.
func (s *Subset[P, T]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "subset: adopt")
	return s.core.rebuildAll(ctx, work, true)
}

func (c *core) rebuildAll(ctx context.Context, work *mongopatterns.Work, adopt bool) (mongopatterns.Result, error) {
	step := func(ctx context.Context, parents []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
		var done mongopatterns.Result
		err := c.inspect(ctx, parents, func(ctx context.Context, states []state) error {
			done = mongopatterns.Result{}
			return c.rebuild(ctx, states, adopt, work.DryRun, &done)
		})
		if err == nil {
			result.Add(done)
		}
		return err
	}
	return maintain.Run(ctx, c.parents, work, c.scan(), step)
}

// rebuild sets in the parents that are wrong what follows from their items, as the
// transaction's snapshot has them. It writes only what differs: a real write, which
// conflicts with any other to such a parent meanwhile.
func (c *core) rebuild(ctx context.Context, states []state, adopt, dry bool, result *mongopatterns.Result) (err error) {
	var parents, docs []bson.Raw
	for _, st := range states {
		if len(st.lacking) > 0 && !adopt {
			result.Remaining++
			continue
		}
		items, err := c.moveOut(st)
		if err != nil {
			result.Fail(c.parents.Name(), st.id(), err)
			continue
		}
		parents, docs = append(parents, st.parent), append(docs, items...)
	}
	result.Done += int64(len(parents))
	if dry || len(parents) == 0 {
		return nil
	}
	if len(docs) > 0 {
		if _, err := fault.Many(c.items.InsertMany(ctx, docs)); err != nil {
			return err
		}
	}
	if len(docs) > 0 || len(parents) < len(states) {
		if states, err = c.states(ctx, parents); err != nil {
			return err
		}
	}
	var models []mongo.WriteModel
	for _, st := range states {
		set := expr.D(c.o.ArrayField, expr.Literal(c.arranged(st.top)), fieldTouch, "$$REMOVE")
		for _, d := range c.derived(st.stats) {
			if !d.mean {
				set = append(set, expr.Element(d.path, expr.Literal(d.want)))
			}
		}
		if len(docs) > 0 { // where the array stays as it is, the write would be none
			models = append(models, mongo.NewUpdateOneModel().SetFilter(byID(st.id())).SetUpdate(touch))
		}
		update := append(mongo.Pipeline{expr.D("$set", set)}, c.x.means...)
		models = append(models, mongo.NewUpdateOneModel().SetFilter(byID(st.id())).SetUpdate(update))
	}
	_, err = fault.Many(c.parents.BulkWrite(ctx, models))
	return err
}

// moveOut makes items of what a parent's array holds and the collection lacks. It refuses
// a parent where something else stands than the document around what follows from items.
func (c *core) moveOut(st state) (docs []bson.Raw, err error) {
	for _, step := range c.around {
		switch value.Lookup(st.parent, step).Type {
		case 0, bson.TypeNull, bson.TypeEmbeddedDocument:
		default:
			return nil, fault.Invalid("%q is no document", step)
		}
	}
	seen := map[string]bson.RawValue{}
	for _, v := range st.lacking {
		doc, ok := v.DocumentOK()
		if !ok {
			return nil, fault.Invalid("a value of type %v among the items", v.Type)
		}
		_, it, err := c.encode(st.id(), doc)
		if err != nil {
			return nil, err
		}
		if twin, twice := seen[value.Key(it.id)]; twice && twin.Equal(v) {
			continue
		}
		seen[value.Key(it.id)] = v
		docs = append(docs, it.doc)
	}
	return docs, nil
}
