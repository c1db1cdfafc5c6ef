package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// ConvertOptions control Convert.
type ConvertOptions struct {
	// Keep leaves the fields of the old representation in documents that are
	// converted in place. Default false: those the new one does not use go.
	Keep bool
	// BatchSize is the number of nodes written in a transaction. Default 1,000.
	BatchSize int
	// Progress is called after each batch with the number of nodes done so far.
	// Default none.
	Progress func(done int64)
}

// AdoptOptions control Adopt.
type AdoptOptions struct {
	// BatchSize is the number of nodes written in a transaction. Default 1,000.
	BatchSize int
	// Progress is called after each batch with the number of nodes done so far.
	// Default none.
	Progress func(done int64)
}

// ConvertResult counts what Convert and Adopt did.
type ConvertResult struct {
	// Examined are the nodes read.
	Examined int64 `json:"examined"`
	// Written are those that were changed or copied.
	Written int64 `json:"written"`
	// Unplaced are the nodes that no root leads to (orphans, cycles), those
	// below a node with several parents and those whose path cannot be formed.
	// They are left as they are, or are not copied: see Check of the old tree.
	Unplaced int64 `json:"unplaced"`
}

// Adopt adds this tree's fields to a collection of parent references
// (Options.ParentField), in place and in bounded batches. Roots have the parent
// null or missing; one with parent "" is an orphan of "" and so Unplaced: set it
// to null first. So is a node whose parent is an array, which no tree can keep:
// the array stays, for you to decide.
//
// The documents need the fields of the scope beforehand, as those without are
// not this tree's. If Examined is less than you have, count the documents with
// {field: null} for each field of the scope, $set it there and run Adopt again.
//
// Nodes that have the fields are not written, so it can be run again, to finish
// or to catch up with documents that code inserted which knows the parent only.
// MaterializedPath and ChildReferences do not keep the parent field up to date:
// there it says where a node goes that has no path or children yet, and nothing
// about the others. Until Adopt returns, insert, move and delete nothing with
// the tree: AncestorArray and MaterializedPath do not see the children that have
// no array or path yet.
//
// Whole numbers in the OrderField stay. Siblings without one come behind those,
// in the order of their other values there and then of their _id; in NestedSets
// and ChildReferences siblings come in the order of their _id.
//
// Cost: for each 1,000 nodes at most 8 round trips (IDs, lock, nodes, ways up,
// children, those adopted before, bulk write, commit), 1 write for each node
// that changes and, in ChildReferences, 1 for a parent that was adopted before.
// With an OrderField or nested sets 2 more for the roots. Nested sets: then as
// Repair of the numbers.
func (t *Tree[K, T]) Adopt(ctx context.Context, opts *AdoptOptions) (ConvertResult, error) {
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, defaultBatch, &o.Progress); err != nil {
		return ConvertResult{}, fail("adopt", err)
	}
	from := *t.c
	from.rep = ParentReferences
	from.shape = linked{parentRefs{}}
	if t.c.rep == NestedSets || t.c.rep == ChildReferences {
		from.o.OrderField = ""
	}
	var result ConvertResult
	err := agree(&from, t.c)
	if err == nil {
		catchUp := t.c.rep == MaterializedPath || t.c.rep == ChildReferences
		err = convertNodes(ctx, from.primary(), t.c.primary(), o.BatchSize, o.Progress, catchUp, &result)
	}
	return result, fail("adopt", err)
}

// Convert writes the nodes of one tree as another: to another collection, where
// nodes that are there already are skipped, or in place, where both trees name
// the same collection and differ in representation or field names. The order of
// siblings is kept as far as both trees have one. A graph is refused, and so is
// in place a field that both use with different meanings, as two paths of
// different delimiters or segments in one PathField do.
//
// It can be run again, to finish or to catch up. The old tree decides until, in
// place and without Keep, all nodes are written; from then on a run only removes
// the old fields, and when they are gone does nothing. A document that comes
// later with the old fields only makes it ErrUnsupported. So while others write
// to the old tree run it with Keep, and last without when they rest. Call
// EnsureIndexes of the new tree first.
//
// Cost: in place, 2 round trips, as Adopt and then 1 update of all nodes for the
// old fields, with 4 round trips about it (lock, mark, commit, mark off); else
// as Dump and Load and 1 count.
func Convert[K, T, U any](ctx context.Context, from *Tree[K, T], to *Tree[K, U], opts *ConvertOptions) (ConvertResult, error) {
	var o ConvertOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "ConvertOptions", &o.BatchSize, defaultBatch, &o.Progress); err != nil {
		return ConvertResult{}, fail("convert", err)
	}
	result, err := convert(ctx, from.c.primary(), to.c.primary(), o)
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
		if err := agree(from, to); err != nil {
			return ConvertResult{}, err
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
	if err := l.finish(ctx); err != nil {
		return result, err
	}
	result.Written = l.result.Inserted
	all, err := from.coll.CountDocuments(ctx, from.in(from.o.IDField, d("$ne", nil)))
	result.Unplaced = max(0, all-result.Examined)
	return result, err
}

// agree refuses trees of one collection where to writes, with another meaning, a
// field that from reads.
func agree(from, to *core) error {
	uses := func(c *core, writes bool) map[string]string {
		out := map[string]string{c.o.OrderField: "order"}
		if writes {
			out[c.o.ChildCountField] = "count"
		}
		switch c.rep {
		case ChildReferences:
			out[c.o.ChildrenField] = "children"
		case MaterializedPath:
			out[c.o.PathField] = "path of " + c.o.SegmentField + " with " + c.o.PathDelimiter
			if !writes {
				out[c.o.SegmentField] = "segment"
			}
		default:
			out[c.o.ParentField] = "parent"
		}
		switch {
		case c.rep == AncestorArray && writes:
			out[c.o.AncestorsField] = "ancestors"
		case c.rep == NestedSets:
			out[c.o.LeftField] = "left"
			if writes {
				out[c.o.RightField] = "right"
			}
		}
		delete(out, "")
		return out
	}
	reads := uses(from, false)
	for f, as := range uses(to, true) {
		if was := reads[f]; was != "" && was != as {
			return fmt.Errorf("%w: the field %s is %s in the old tree and %s in the new one", ErrUnsupported, f, was, as)
		}
	}
	return nil
}

func convertInPlace(ctx context.Context, from, to *core, o ConvertOptions) (result ConvertResult, err error) {
	m := marking{from: from, to: to}
	m.fields()
	if done, err := m.done(ctx); done || err != nil {
		return result, err
	}
	if err := convertNodes(ctx, from, to, o.BatchSize, o.Progress, false, &result); err != nil {
		return result, err
	}
	if o.Keep || result.Unplaced > 0 {
		return result, nil
	}
	return result, m.unset(ctx)
}

// fieldConverted marks, in the lock document, that all nodes are written and the
// old fields are being removed. To convert again then would take nodes that have
// lost theirs for roots.
const fieldConverted = "converted"

// marking is the end of a conversion in place.
type marking struct {
	from, to *core
	source   string // the field that from reads the shape from
	old      bson.D // the fields to remove
	any      bson.A // matches what has one
	loses    bool   // source is one of them
}

func (m *marking) fields() {
	from, to := m.from, m.to
	keep := map[string]bool{"": true, to.o.IDField: true, to.o.OrderField: true, to.o.ChildCountField: true}
	for _, f := range to.shape.owned(to) {
		keep[f] = true
	}
	if to.rep == MaterializedPath {
		keep[to.o.SegmentField] = true
	}
	switch from.rep {
	case ChildReferences:
		m.source = from.o.ChildrenField
	case MaterializedPath:
		m.source = from.o.PathField
	default:
		m.source = from.o.ParentField
	}
	for _, f := range append(from.shape.owned(from), from.o.OrderField, from.o.ChildCountField) {
		if !keep[f] {
			m.old = append(m.old, bson.E{Key: f, Value: ""})
			m.any = append(m.any, d(f, d("$exists", true)))
			m.loses = m.loses || f == m.source
		}
	}
}

func (m *marking) name() string {
	return fmt.Sprint(m.from.rep, m.from.shape.owned(m.from), " to ", m.to.rep, m.to.shape.owned(m.to))
}

// done finishes what an earlier run has left of the removal, and reports whether
// nothing else is to be done.
func (m *marking) done(ctx context.Context) (bool, error) {
	if !m.loses {
		return false, nil
	}
	c := m.to
	n, err := c.locks.CountDocuments(ctx, d("_id", c.lockID, fieldConverted, m.name()))
	if err != nil {
		return false, err
	}
	if n > 0 {
		return true, m.remove(ctx)
	}
	// A node without the source that is no root of the new tree has lost it.
	match := c.in(m.source, d("$exists", false))
	var p mongo.Pipeline
	switch c.rep {
	case ChildReferences:
		p = mongo.Pipeline{c.lookup(c.o.IDField, c.o.ChildrenField, d("$limit", 1)), d("$match", d(fieldTree+".0", d("$exists", true)))}
	case MaterializedPath:
		match = append(match, bson.E{Key: c.o.PathField, Value: d("$type", "string")})
	default:
		match = append(match, bson.E{Key: c.o.ParentField, Value: d("$ne", nil)})
	}
	if m.from.rep == ChildReferences { // but leaves may do without
		p = append(p, m.from.lookup(c.o.IDField, m.source, d("$limit", 1)), d("$match", d(fieldTree, d("$size", 0))))
	}
	p = concat(mongo.Pipeline{d("$match", match)}, p, mongo.Pipeline{d("$limit", 1), d("$project", d("_id", 1))})
	lost, err := c.aggregate(ctx, p)
	if err != nil || len(lost) == 0 {
		return false, err
	}
	_, err = c.findOne(ctx, c.in(m.source, d("$exists", true)), ErrNotFound)
	if err == nil {
		err = fmt.Errorf("%w: some nodes are converted and have no %s any more, others have it", ErrUnsupported, m.source)
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return true, err
}

// unset removes the old fields.
func (m *marking) unset(ctx context.Context) error {
	if len(m.old) == 0 {
		return nil
	}
	if m.loses {
		err := m.to.atomically(ctx, true, func(ctx context.Context) error {
			_, err := m.to.locks.UpdateOne(ctx, d("_id", m.to.lockID), d("$set", d(fieldConverted, m.name())))
			return err
		})
		if err != nil {
			return err
		}
	}
	return m.remove(ctx)
}

// remove leaves alone what code that knows the old fields only has inserted.
func (m *marking) remove(ctx context.Context) error {
	c := m.to
	converted := c.shape.owned(c)[0]
	if _, err := c.durable.UpdateMany(ctx, c.in(converted, d("$exists", true), "$or", m.any), d("$unset", m.old)); err != nil || !m.loses {
		return err
	}
	_, err := c.locks.UpdateOne(ctx, d("_id", c.lockID), d("$unset", d(fieldConverted, "")))
	return err
}

// convertNodes writes the fields of to for all nodes of from; to catch up is to
// write only nodes that have none.
func convertNodes(ctx context.Context, from, to *core, size int, progress func(int64), catchUp bool, result *ConvertResult) error {
	if err := to.convertOrder(ctx, from); err != nil {
		return err
	}
	for ids, err := range from.batches(ctx, size) {
		if err != nil {
			return err
		}
		var written, unplaced int64
		err = to.atomically(ctx, true, func(ctx context.Context) (err error) {
			written, unplaced, err = to.convertBatch(ctx, from, ids, catchUp)
			return err
		})
		if err != nil {
			return err
		}
		result.Examined += int64(len(ids))
		result.Written += written
		result.Unplaced += unplaced
		progress(result.Examined)
	}
	if to.rep != NestedSets {
		return nil
	}
	_, err := to.renumber(ctx)
	return err
}

// placeField is the field that says where a node stands among its siblings.
func (c *core) placeField() string {
	if c.rep == NestedSets {
		return c.o.LeftField
	}
	return c.o.OrderField
}

// placeKids are the writes that give siblings without a place one behind the
// others, in the order of from. Nested sets get provisional numbers, in order
// among siblings.
func (c *core) placeKids(field string, kids []node) (models []mongo.WriteModel) {
	next := int64(0)
	for _, kid := range kids {
		if at, ok := integral(kid.raw.Lookup(field)); ok && at < math.MaxInt64-orderGap {
			next = max(next, at+orderGap)
		}
	}
	for _, kid := range kids {
		if _, ok := integral(kid.raw.Lookup(field)); ok {
			continue
		}
		set := d(field, next)
		if c.rep == NestedSets {
			set = append(set, bson.E{Key: c.o.RightField, Value: next})
		}
		next += orderGap
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
	roots, err := from.aggregate(ctx, from.reading(field).placedRoots())
	if err != nil {
		return err
	}
	return c.bulk(ctx, c.placeKids(field, roots))
}

// convertBatch writes the fields of c for nodes of from.
func (c *core) convertBatch(ctx context.Context, from *core, ids []bson.RawValue, catchUp bool) (written, unplaced int64, err error) {
	field := c.placeField()
	own := c.shape.owned(c)[0]
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
	sets := make([]bson.D, len(nodes))
	skip := make([]bool, len(nodes))
	for i, n := range nodes {
		if catchUp && n.raw.Lookup(own).Type != 0 {
			continue
		}
		var ok bool
		if sets[i], ok = c.placeAfter(from, chains[key(n.id)], catchUp); !ok {
			unplaced++
			skip[i] = true
		}
	}
	listed := map[string]bool{}
	if catchUp && below != nil {
		if listed, err = c.unlessAdopted(ctx, nodes, sets, below); err != nil {
			return 0, 0, err
		}
	}
	var models []mongo.WriteModel
	for i, n := range nodes {
		if skip[i] {
			continue
		}
		set := sets[i]
		fresh := !catchUp || n.raw.Lookup(own).Type == 0
		if catchUp && fresh && c.rep == ChildReferences && !listed[key(n.id)] {
			// Its parent, if it was adopted before, does not know it.
			if chain := chains[key(n.id)]; len(chain) > 1 && chain[len(chain)-2].raw.Lookup(own).Type != 0 {
				models = append(models, childRefs{}.push(c, chain[len(chain)-2], -1, position{kind: underParent}, n.id))
			}
		}
		if below != nil {
			var kids []bson.RawValue
			for _, kid := range below[i] {
				kids = append(kids, kid.id)
			}
			if c.rep == ChildReferences && fresh {
				set = d(c.o.ChildrenField, append([]bson.RawValue{}, kids...))
			}
			if c.o.ChildCountField != "" && (fresh || c.rep != ChildReferences) {
				set = append(set, bson.E{Key: c.o.ChildCountField, Value: int64(len(kids))})
			}
			if field != "" {
				models = append(models, c.placeKids(field, below[i])...)
			}
		}
		if changed, err := differs(n.raw, set); err != nil {
			return 0, 0, err
		} else if changed {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.byID(n.id)).SetUpdate(d("$set", set)))
			written++
		}
	}
	return written, unplaced, c.bulk(ctx, models)
}

// unlessAdopted corrects the children that the parent references give: those of
// paths are the ones that have the path, and those without one; those of child
// references are the ones that no array lists, which listed tells.
func (c *core) unlessAdopted(ctx context.Context, nodes []node, sets []bson.D, below [][]node) (listed map[string]bool, err error) {
	if c.rep == ChildReferences {
		ids := []bson.RawValue{}
		for i, n := range nodes {
			ids = append(ids, n.id)
			for _, kid := range below[i] {
				ids = append(ids, kid.id)
			}
		}
		parents, err := c.findAll(ctx, c.in(c.o.ChildrenField, d("$in", ids)))
		if err != nil {
			return nil, err
		}
		listed = map[string]bool{}
		for _, p := range parents {
			for _, id := range p.children {
				listed[key(id)] = true
			}
		}
		for i := range below {
			below[i] = slices.DeleteFunc(below[i], func(kid node) bool { return listed[key(kid.id)] })
		}
		return listed, nil
	}
	at := make([]node, len(nodes))
	for i, set := range sets {
		at[i] = c.parse(nodes[i].raw)
		if set == nil && at[i].raw.Lookup(c.o.PathField).Type == 0 { // not placed: no one's path
			at[i].path = c.o.PathDelimiter + c.o.PathDelimiter
		}
		for _, e := range set {
			at[i].path, _ = e.Value.(string)
		}
	}
	there, err := c.childNodes(ctx, at)
	if err != nil {
		return nil, err
	}
	for i, kids := range below {
		for _, kid := range kids {
			if kid.raw.Lookup(c.o.PathField).Type == 0 {
				there[i] = append(there[i], kid)
			}
		}
		below[i] = there[i]
	}
	return nil, nil
}

// placeAfter gives the fields of c for the last node of a chain of from, and
// whether the chain begins at a root; to catch up, also at a node that has the
// fields.
func (c *core) placeAfter(from *core, chain []node, catchUp bool) (bson.D, bool) {
	if len(chain) == 0 {
		return nil, false
	}
	begun := false
	for i := len(chain) - 2; i >= 0 && catchUp && !begun; i-- {
		if chain[i].raw.Lookup(c.shape.owned(c)[0]).Type != 0 {
			chain, begun = chain[i:], true
		}
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
		for i, a := range chain { // two at one depth are two parents
			if a.depth != int64(len(chain)-1-i) {
				return nil, false
			}
		}
	default:
		if !begun && !isNull(top.parent) {
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
			switch {
			case parent != nil:
				n.path = c.full(*parent)
			case begun:
				n.path = a.path
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
	if len(set) == 0 {
		return false, nil
	}
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
