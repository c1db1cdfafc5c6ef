package tree

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Crumb is one step of a breadcrumb.
type Crumb[ID any] struct {
	ID ID `json:"id"`
	// Name is the value of Options.NameField, "" if the document lacks it.
	Name string `json:"name"`
}

// breadcrumb yields the ancestors, root first, and the node itself: {id, name, bare}.
func (c *core) breadcrumb(id any) mongo.Pipeline {
	own, name := expr.Field(c.o.IDField), expr.Field(cmp.Or(c.o.NameField, c.segmentField()))
	return append(c.rootFirst(c, id), expr.Op("$project", expr.D("_id", 0, "id", own, "name", name, "bare", c.bareExpr())))
}

// rootFirst yields a node and its ancestors with fieldDepth, the node last. It contains the node, so that an empty
// result means that there is no such node.
func (s *store) rootFirst(r reads, id any) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{expr.Op("$match", s.idMatch(id))}, r.up(0),
		mongo.Pipeline{expr.Op("$sort", expr.D(fieldDepth, -1))})
}

// withoutDepth appends stages that use fieldDepth, and removes the field.
func withoutDepth(p mongo.Pipeline, more ...bson.D) mongo.Pipeline {
	return append(append(p, more...), expr.Op("$unset", fieldDepth))
}

func (c *core) parentsPipeline(id any) mongo.Pipeline {
	p := slices.Concat(mongo.Pipeline{expr.Op("$match", c.idMatch(id))}, c.up(1))
	return withoutDepth(p, expr.Op("$match", expr.D(fieldDepth, 1)))
}

// Ancestors returns the nodes above a node, root first.
//
// Cost: 1 round trip, each ancestor by ID, in child references by the children index, with a SegmentField by that.
func (t *Tree[ID, T]) Ancestors(ctx context.Context, id ID) (nodes []T, err error) {
	ctx = comment.Call(ctx, "tree.Ancestors")
	defer fault.In(&err, "tree.Ancestors")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	all, err := readUp(ctx, t.c.runFrom(raw, t.c.ancestors), func(cur *mongo.Cursor) (v T, bare bool, err error) {
		err = cursor.Into(cur, &v)
		return v, t.c.isBare(cur.Current), err
	})
	if err != nil {
		return nil, err
	}
	return all[:len(all)-1], nil
}

// encodeStages encodes the stages of a pipeline after the first, which names the node. runFrom puts that in front
// again.
func encodeStages(p mongo.Pipeline) []bson.RawValue {
	stages := make([]bson.RawValue, len(p)-1)
	for i := range stages {
		stages[i], _ = expr.Fixed(p[i+1]).(bson.RawValue)
	}
	return stages
}

// runFrom runs encoded stages from one node on. New encodes them once, because encoding them for each call would
// double the client's work.
func (c *core) runFrom(id bson.RawValue, stages []bson.RawValue) wayUp {
	b := codec.Build(1024)
	b.Open("0")
	b.Open("$match")
	b.Value(c.o.IDField, id)
	b.Close()
	b.Close()
	for i, stage := range stages {
		b.Value(strconv.Itoa(i+1), stage)
	}
	p := expr.Stages(b.Done())
	return wayUp{c, id, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, p, options.Aggregate().SetBatchSize(math.MaxInt32))
	}}
}

// wayUp is a read of a node and its ancestors, the node last.
type wayUp struct {
	*core
	id   bson.RawValue
	open opener
}

// readUp reads a way up. If it is empty, there is no such node, and if the node is not adopted, it may be too short. read
// decodes a node, and reports whether it is bare.
func readUp[V any](ctx context.Context, w wayUp, read func(cur *mongo.Cursor) (v V, bare bool, err error)) (all []V, err error) {
	lastIsBare := false
	for cur, err := range cursor.Each(ctx, w.open) {
		if err != nil {
			return nil, err
		}
		v, bare, err := read(cur)
		if err != nil {
			return nil, err
		}
		all, lastIsBare = append(all, v), bare
	}
	if len(all) == 0 {
		return nil, w.missing(w.id)
	}
	if err := w.checkWay(ctx, w.id, len(all), lastIsBare); err != nil {
		return nil, err
	}
	return all, nil
}

// Parent returns the parent of a node. It returns ErrIsRoot for a root and ErrNoParent for an orphan. If a
// node of a graph has several parents, it returns one of them; Parents yields all.
//
// Cost: 1 round trip, index as Ancestors.
func (t *Tree[ID, T]) Parent(ctx context.Context, id ID) (parent T, err error) {
	ctx = comment.Call(ctx, "tree.Parent")
	defer fault.In(&err, "tree.Parent")
	var none T
	var x node
	raw, err := t.c.id(id)
	if err != nil {
		return none, err
	}
	p := slices.Concat(mongo.Pipeline{expr.Op("$match", t.c.idMatch(raw))}, t.c.up(1))
	p = withoutDepth(p, expr.Op("$sort", expr.D(fieldDepth, -1)))
	all, err := readUp(ctx, wayUp{t.c, raw, opening(t.c.coll, p)}, func(cur *mongo.Cursor) (v T, bare bool, err error) {
		x = t.c.parse(slices.Clone(cur.Current)) // at last the node itself
		err = cursor.Into(cur, &v)
		return v, t.c.isBare(x.raw), err
	})
	if err != nil {
		return none, err
	}
	if len(all) > 1 {
		return all[0], nil
	}
	if parent, broken := t.c.parent(x); t.c.names(parent) || broken != "" {
		return none, t.c.about(x.id, mongopatterns.ErrNoParent)
	}
	return none, t.c.about(x.id, ErrIsRoot)
}

// Parents yields all parents of a node: in a graph any number, in a tree at most one.
//
// Cost: 1 round trip, index as Ancestors.
func (t *Tree[ID, T]) Parents(ctx context.Context, id ID) iter.Seq2[T, error] {
	return t.each(ctx, "tree.Parents", id, t.c.parentsPipeline)
}

// ancestry returns the IDs of the ancestors of a node, root first. It reads only the node if the node contains them.
func (c *core) ancestry(ctx context.Context, id any) (ids []bson.RawValue, err error) {
	raw, err := c.id(id)
	if err != nil {
		return nil, err
	}
	if !c.tellsAncestors() {
		return c.ancestryByWay(ctx, raw)
	}
	n, err := c.readNode(ctx, raw)
	if err != nil {
		return nil, err
	}
	if n.raw == nil {
		return nil, c.missing(raw)
	}
	return c.above(n, n.id), c.checkWay(ctx, raw, 1, c.isBare(n.raw))
}

// ancestryByWay is ancestry where the node does not contain its ancestors.
func (c *core) ancestryByWay(ctx context.Context, id bson.RawValue) (ids []bson.RawValue, err error) {
	ids, err = readUp(ctx, c.runFrom(id, c.crumbs), func(cur *mongo.Cursor) (bson.RawValue, bool, error) {
		doc := slices.Clone(cur.Current)
		return doc.Lookup("id"), doc.Lookup("bare").Boolean(), nil
	})
	if err != nil {
		return nil, err
	}
	return ids[:len(ids)-1], nil
}

// IsDescendant reports whether id lies below ancestor. An unknown ancestor has no descendants.
//
// Cost: 1 round trip. AncestorArray and MaterializedPath (of IDs) read the node alone, the others as Ancestors.
func (t *Tree[ID, T]) IsDescendant(ctx context.Context, id, ancestor ID) (below bool, err error) {
	ctx = comment.Call(ctx, "tree.IsDescendant")
	defer fault.In(&err, "tree.IsDescendant")
	other, err := t.c.id(ancestor)
	if err != nil {
		return false, err
	}
	ids, err := t.c.ancestry(ctx, id)
	if err != nil {
		return false, err
	}
	return holds(ids, other), nil
}

// Breadcrumb returns the nodes from the root to a node, the node last, with their names
// (Options.NameField). If one of them has an ID that the type ID cannot hold, such as a string of hex digits among
// ObjectIDs, it returns mongopatterns.ErrMalformed.
//
// Cost: 1 round trip, as Ancestors.
func (t *Tree[ID, T]) Breadcrumb(ctx context.Context, id ID) (crumbs []Crumb[ID], err error) {
	ctx = comment.Call(ctx, "tree.Breadcrumb")
	defer fault.In(&err, "tree.Breadcrumb")
	raw, err := t.c.id(id)
	if err != nil {
		return nil, err
	}
	return readUp(ctx, t.c.runFrom(raw, t.c.crumbs), func(cur *mongo.Cursor) (crumb Crumb[ID], bare bool, err error) {
		name := cur.Current.Lookup("name")
		if crumb.Name, err = segmentString(name); err != nil && !isNull(name) {
			crumb.Name = text(name)
		}
		crumb.ID, err = t.decode(cur.Current.Lookup("id"))
		return crumb, cur.Current.Lookup("bare").Boolean(), err
	})
}
