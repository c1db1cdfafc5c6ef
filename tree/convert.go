package tree

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ConvertOptions control Convert.
type ConvertOptions struct {
	// Keep leaves the fields of the old representation in documents that are
	// converted in place. False removes those the new one does not use.
	Keep bool
	// BatchSize is the number of nodes written in a transaction. 0 is 1,000.
	BatchSize int
	// Progress is called after each batch with the number of nodes done so far.
	// Nil is none.
	Progress func(done int64)
}

// AdoptOptions control Adopt.
type AdoptOptions struct {
	// BatchSize is the number of nodes written in a transaction. 0 is 1,000.
	BatchSize int
	// Progress is called after each batch with the number of nodes done so far.
	// Nil is none.
	Progress func(done int64)
}

// ConvertResult counts what Convert and Adopt did.
type ConvertResult struct {
	// Examined are the nodes read, Written those that were changed or copied.
	Examined, Written int64
	// Unplaced are the nodes that no root leads to (orphans, cycles) and those
	// whose path cannot be formed. They are left as they are: see Check of the
	// old tree.
	Unplaced int64
}

// Adopt adds this tree's fields to a collection of parent references
// (Options.ParentField), in place and in bounded batches. Documents that have
// them already are not written, so it can be run again, to finish or to catch
// up with documents that were inserted by code that knows the parent only. The
// parent field stays; MaterializedPath and ChildReferences do not keep it up to
// date from then on.
//
// Cost: for each 1,000 nodes at most 6 round trips (IDs, lock, nodes, ways up,
// children, bulk write, commit) and 1 write for each node that changes. Nested
// sets: then as Repair.
func (t *Tree[K, T]) Adopt(ctx context.Context, opts *AdoptOptions) (ConvertResult, error) {
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	from := *t.c
	from.rep = ParentReferences
	from.shape = linked{parentRefs{}}
	if t.c.rep == NestedSets || t.c.rep == ChildReferences {
		from.o.OrderField = ""
	}
	result, err := convertInPlace(ctx, &from, t.c, ConvertOptions{Keep: true, BatchSize: o.BatchSize, Progress: o.Progress})
	return result, fail("adopt", err)
}

// Convert writes the nodes of one tree as another: to another collection, where
// nodes that are there already are skipped, or in place, where both trees name
// the same collection and differ in representation or field names. It can be
// run again. Other work on the tree must rest meanwhile, or be followed by
// another run. The order of siblings is kept as far as both trees have one.
// A graph is refused.
//
// Cost: in place, as Adopt and then 1 update of all nodes for the old fields;
// else as Dump and Load.
func Convert[K, T, U any](ctx context.Context, from *Tree[K, T], to *Tree[K, U], opts *ConvertOptions) (ConvertResult, error) {
	var o ConvertOptions
	if opts != nil {
		o = *opts
	}
	result, err := convert(ctx, from.c, to.c, o)
	return result, fail("convert", err)
}

func convert(ctx context.Context, from, to *core, o ConvertOptions) (ConvertResult, error) {
	if from.o.Graph || to.o.Graph {
		return ConvertResult{}, fmt.Errorf("%w: a graph", ErrUnsupported)
	}
	if from.coll.Database().Name() == to.coll.Database().Name() && from.coll.Name() == to.coll.Name() {
		if from.lockID != to.lockID || from.o.IDField != to.o.IDField {
			return ConvertResult{}, fmt.Errorf("%w: trees of one collection with different Scope or IDField", ErrUnsupported)
		}
		return convertInPlace(ctx, from, to, o)
	}
	drop := append(from.shape.owned(from), from.o.OrderField, from.o.ChildCountField)
	for _, e := range from.scope {
		drop = append(drop, e.Key)
	}
	l := loader{c: to, size: o.BatchSize, progress: o.Progress, drop: drop}
	decode := func(cursor *mongo.Cursor) (bson.Raw, error) { return bytes.Clone(cursor.Current), nil }
	var result ConvertResult
	for v, err := range walk(ctx, from, o.BatchSize, decode) {
		if err == nil {
			result.Examined++
			err = l.add(ctx, v.value, v.parent)
		}
		if err != nil {
			return result, err
		}
		result.Written = l.result.Inserted
	}
	err := l.finish(ctx)
	result.Written = l.result.Inserted
	return result, err
}

func convertInPlace(ctx context.Context, from, to *core, o ConvertOptions) (ConvertResult, error) {
	var result ConvertResult
	if err := to.convertOrder(ctx, from); err != nil {
		return result, err
	}
	for ids, err := range from.batches(ctx, o.BatchSize) {
		if err != nil {
			return result, err
		}
		var written, unplaced int64
		err = to.atomically(ctx, true, func(ctx context.Context) (err error) {
			written, unplaced, err = to.convertBatch(ctx, from, ids)
			return err
		})
		if err != nil {
			return result, err
		}
		result.Examined += int64(len(ids))
		result.Written += written
		result.Unplaced += unplaced
		if o.Progress != nil {
			o.Progress(result.Examined)
		}
	}
	if to.rep == NestedSets {
		if _, err := to.renumber(ctx); err != nil {
			return result, err
		}
	}
	if o.Keep || result.Unplaced > 0 {
		return result, nil
	}
	keep := map[string]bool{to.o.OrderField: true, to.o.ChildCountField: true, "": true}
	for _, f := range to.shape.owned(to) {
		keep[f] = true
	}
	var unset bson.D
	any := bson.A{}
	for _, f := range append(from.shape.owned(from), from.o.OrderField, from.o.ChildCountField) {
		if !keep[f] {
			unset = append(unset, bson.E{Key: f, Value: ""})
			any = append(any, d(f, d("$exists", true)))
		}
	}
	if len(unset) == 0 {
		return result, nil
	}
	_, err := to.coll.UpdateMany(ctx, to.in("$or", any), d("$unset", unset))
	return result, err
}

// placeField is the field that says where a node stands among its siblings.
func (c *core) placeField() string {
	if c.rep == NestedSets {
		return c.o.LeftField
	}
	return c.o.OrderField
}

// placeKids are the writes that give siblings without a place one, in the order
// of from. Nested sets get provisional numbers, in order among siblings.
func (c *core) placeKids(field string, kids []node) (models []mongo.WriteModel) {
	for i, kid := range kids {
		if _, ok := kid.raw.Lookup(field).AsInt64OK(); ok {
			continue
		}
		set := d(field, int64(i)*orderGap)
		if c.rep == NestedSets {
			set = append(set, bson.E{Key: c.o.RightField, Value: int64(i) * orderGap})
		}
		models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(kid.id)).SetUpdate(d("$set", set)))
	}
	return models
}

// convertOrder places the roots.
func (c *core) convertOrder(ctx context.Context, from *core) error {
	field := c.placeField()
	if field == "" {
		return nil
	}
	roots, err := from.aggregate(ctx, append(from.shape.roots(from), d("$project", from.reading(field).projection())))
	if err != nil {
		return err
	}
	return c.bulk(ctx, c.placeKids(field, roots))
}

// convertBatch writes the fields of c for nodes of from.
func (c *core) convertBatch(ctx context.Context, from *core, ids []bson.RawValue) (written, unplaced int64, err error) {
	field := c.placeField()
	from = from.reading(append(c.shape.owned(c), c.o.ChildCountField, c.o.SegmentField, field)...)
	nodes, err := from.findAll(ctx, from.byIDs(ids))
	if err != nil {
		return 0, 0, err
	}
	up := from.shape.up
	if from.rep != MaterializedPath && from.rep != ChildReferences {
		up = parentField{}.up
	}
	chains, err := from.chains(ctx, up, nodes)
	if err != nil {
		return 0, 0, err
	}
	var below [][]node
	if c.rep == ChildReferences || c.o.ChildCountField != "" || field != "" {
		if below, err = from.childNodes(ctx, nodes); err != nil {
			return 0, 0, err
		}
	}
	var models []mongo.WriteModel
	for i, n := range nodes {
		chain := chains[key(n.id)]
		set, ok := c.placeAfter(from, chain)
		if !ok {
			unplaced++
			continue
		}
		self := chain[len(chain)-1].raw
		if below != nil {
			var kids []bson.RawValue
			for _, kid := range below[i] {
				kids = append(kids, kid.id)
			}
			if c.rep == ChildReferences {
				set = d(c.o.ChildrenField, append([]bson.RawValue{}, kids...))
			}
			if c.o.ChildCountField != "" {
				set = append(set, bson.E{Key: c.o.ChildCountField, Value: int64(len(kids))})
			}
			if field != "" {
				models = append(models, c.placeKids(field, below[i])...)
			}
		}
		if changed, err := differs(self, set); err != nil {
			return 0, 0, err
		} else if changed {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(n.id)).SetUpdate(d("$set", set)))
			written++
		}
	}
	return written, unplaced, c.bulk(ctx, models)
}

// placeAfter gives the fields of c for the last node of a chain of from, and
// whether the chain begins at a root.
func (c *core) placeAfter(from *core, chain []node) (bson.D, bool) {
	if len(chain) == 0 {
		return nil, false
	}
	top, self := chain[0], chain[len(chain)-1]
	switch from.rep {
	case MaterializedPath:
		if len(from.segments(self.path)) != len(chain)-1 {
			return nil, false
		}
	case ChildReferences:
		if loopOf(self, chain) != nil || refersAny(chain, top.id) {
			return nil, false
		}
	default:
		if !isNull(top.parent) {
			return nil, false
		}
	}
	var parent *node
	for _, a := range chain[:len(chain)-1] {
		n := node{id: a.id, ancestors: parent.lineage()}
		if parent == nil {
			n.ancestors = nil
		}
		if c.rep == MaterializedPath {
			if parent != nil {
				n.path = c.full(*parent)
			}
			s, err := segmentString(a.raw.Lookup(c.o.SegmentField))
			if err != nil || c.checkSegment(s) != nil {
				return nil, false
			}
			n.segment = s
		}
		parent = &n
	}
	switch s := c.shape.(type) {
	case linked:
		if c.rep == MaterializedPath {
			own, err := segmentString(self.raw.Lookup(c.o.SegmentField))
			if err != nil || c.checkSegment(own) != nil {
				return nil, false
			}
		}
		return s.place(c, parent), true
	case nestedSets:
		if parent == nil {
			return d(c.o.ParentField, nil), true
		}
		return d(c.o.ParentField, parent.id), true
	}
	return nil, true
}

func refersAny(chain []node, id bson.RawValue) bool {
	for _, n := range chain {
		if refers(n, id) {
			return true
		}
	}
	return false
}

// differs reports whether setting the fields would change the document.
func differs(doc bson.Raw, set bson.D) (bool, error) {
	raw, err := bson.Marshal(set)
	if err != nil {
		return false, err
	}
	all, err := bson.Raw(raw).Elements()
	if err != nil {
		return false, err
	}
	for _, e := range all {
		if have := doc.Lookup(e.Key()); !have.Equal(e.Value()) {
			return true, nil
		}
	}
	return false, nil
}
