package tree

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// pathShape: {_id, path: ",root,…,parent,"}. The path names the ancestors
// only; "full" is a node's own path with its own segment, which is the path of
// its children. Both ends have the delimiter, so ",A,B," is no prefix of
// ",A,BA,".
type pathShape struct{}

func (pathShape) owned(c *core) []string { return []string{c.o.PathField} }

// segmentString is the form of a value in a path, the same as the server's
// $toString.
func segmentString(v bson.RawValue) (string, error) {
	switch v.Type {
	case bson.TypeString:
		return v.StringValue(), nil
	case bson.TypeObjectID:
		return v.ObjectID().Hex(), nil
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10), nil
	}
	return "", fmt.Errorf("%w: a BSON %v has no string form, set Options.SegmentField", ErrInvalidSegment, v.Type)
}

func (c *core) checkSegment(s string) error {
	if s == "" {
		return fmt.Errorf("%w: empty", ErrInvalidSegment)
	}
	if strings.Contains(s, c.o.PathDelimiter) {
		return fmt.Errorf("%w: %q holds the delimiter %q", ErrInvalidSegment, s, c.o.PathDelimiter)
	}
	return nil
}

// base is the beginning of a path without its null form.
func (c *core) base(path string) string {
	if path == "" {
		return c.o.PathDelimiter
	}
	return path
}

func (c *core) full(n node) string { return c.base(n.path) + n.segment + c.o.PathDelimiter }

// segments are those of a path, root first.
func (c *core) segments(path string) []string {
	path = strings.Trim(path, c.o.PathDelimiter)
	if path == "" {
		return nil
	}
	return strings.Split(path, c.o.PathDelimiter)
}

// under are the bounds of all paths that start with a full path: its last
// byte, the delimiter, is replaced by the next one.
func (c *core) under(full string) bson.D {
	return d("$gte", full, "$lt", full[:len(full)-1]+c.afterDelimiter())
}

func (c *core) afterDelimiter() string { return string(rune(c.o.PathDelimiter[0] + 1)) }

// segmentID turns a segment back into an ID of the type that like has.
func segmentID(segment string, like bson.RawValue) (bson.RawValue, bool) {
	var v any = segment
	switch like.Type {
	case bson.TypeObjectID:
		id, err := bson.ObjectIDFromHex(segment)
		if err != nil {
			return null, false
		}
		v = id
	case bson.TypeInt32, bson.TypeInt64:
		n, err := strconv.ParseInt(segment, 10, 64)
		if err != nil {
			return null, false
		}
		v = n
	}
	t, data, err := bson.MarshalValue(v)
	return bson.RawValue{Type: t, Value: data}, err == nil
}

// byID reports whether the segments are the IDs.
func (pathShape) byID(c *core) bool { return c.o.SegmentField == c.o.IDField }

// expressions on a node

func (pathShape) pathExpr(c *core) bson.D {
	f := "$" + c.o.PathField
	return d("$cond", bson.A{d("$eq", bson.A{d("$type", f), "string"}), f, literal(c.o.PathDelimiter)})
}

// fullExpr is "", the path of no node, where there is no segment.
func (p pathShape) fullExpr(c *core, end string) bson.D {
	segment := d("$convert", d("input", "$"+c.o.SegmentField, "to", "string", "onError", nil, "onNull", nil))
	return d("$ifNull", bson.A{d("$concat", bson.A{p.pathExpr(c), segment, literal(end)}), ""})
}

func (p pathShape) depthExpr(c *core, of any) bson.D {
	return d("$size", d("$split", bson.A{of, literal(c.o.PathDelimiter)}))
}

func (p pathShape) up(c *core, match bson.D) mongo.Pipeline {
	segments := d("$filter", d("input", d("$split", bson.A{p.pathExpr(c), literal(c.o.PathDelimiter)}),
		"cond", d("$ne", bson.A{"$$this", ""})))
	var names bson.D
	var lookup bson.D
	if p.byID(c) {
		// The IDs of one tree have one type, that of the node started from.
		to := func(name string) bson.D {
			return d("$convert", d("input", "$$this", "to", name, "onError", nil))
		}
		kind := d("$type", "$"+c.o.IDField)
		convert := d("$switch", d("branches", bson.A{
			d("case", d("$eq", bson.A{kind, "objectId"}), "then", to("objectId")),
			d("case", d("$in", bson.A{kind, bson.A{"int", "long"}}), "then", to("long")),
		}, "default", "$$this"))
		names = d("$concatArrays", bson.A{
			d("$map", d("input", segments, "as", "this", "in", convert)),
			bson.A{"$" + c.o.IDField}})
		lookup = c.lookup(fieldTouch, c.o.IDField)
	} else {
		// An ancestor is found by its own path and segment.
		all := d("$concatArrays", bson.A{segments, bson.A{"$" + c.o.SegmentField}})
		step := d("path", d("$concat", bson.A{"$$value.path", "$$this", literal(c.o.PathDelimiter)}),
			"out", d("$concatArrays", bson.A{"$$value.out", bson.A{d(
				"path", d("$cond", bson.A{d("$eq", bson.A{"$$value.path", literal(c.o.PathDelimiter)}), nil, "$$value.path"}),
				"segment", "$$this")}}))
		reduced := d("$reduce", d("input", all,
			"initialValue", d("path", literal(c.o.PathDelimiter), "out", bson.A{}), "in", step))
		names = d("$let", d("vars", d("r", reduced), "in", "$$r.out"))
		lookup = d("$lookup", d("from", c.coll.Name(), "localField", fieldTouch+".path", "foreignField", c.o.PathField,
			"let", d("segment", "$"+fieldTouch+".segment"),
			"pipeline", bson.A{c.match("$expr", d("$eq", bson.A{"$" + c.o.SegmentField, "$$segment"}))},
			"as", fieldTree))
	}
	return concat(mongo.Pipeline{
		d("$match", match),
		d("$project", d(fieldStart, "$"+c.o.IDField, fieldTouch, d("$reverseArray", names))),
		d("$unwind", d("path", "$"+fieldTouch, "includeArrayIndex", fieldDepth)),
		lookup,
	}, unfold(fieldDepth, "$"+fieldDepth, fieldStart, "$"+fieldStart))
}

func (p pathShape) down(c *core, id bson.RawValue, depth int, self bool) mongo.Pipeline {
	path := "$" + c.o.PathField
	within := mongo.Pipeline{c.match("$expr", d("$and", bson.A{
		d("$gte", bson.A{path, "$$from"}), d("$lt", bson.A{path, "$$to"})}))}
	if depth > 0 {
		within = append(within, d("$match", d("$expr", d("$lt", bson.A{
			p.depthExpr(c, p.pathExpr(c)),
			d("$add", bson.A{p.depthExpr(c, "$$from"), depth})}))))
	}
	within = append(within, d("$sort", d(c.o.PathField, 1)))
	return c.rangeDown(id, p.fullExpr(c, c.o.PathDelimiter), p.fullExpr(c, c.afterDelimiter()), within, self)
}

// rangeDown joins a node with those that within finds between $$from and $$to.
func (c *core) rangeDown(id bson.RawValue, from, to any, within mongo.Pipeline, self bool) mongo.Pipeline {
	match := mongo.Pipeline{d("$match", c.byID(id))}
	join := func() mongo.Pipeline {
		return mongo.Pipeline{d("$lookup", d("from", c.coll.Name(), "let", d("from", from, "to", to),
			"pipeline", within, "as", fieldTree))}
	}
	if !self {
		return concat(match, join(), unfold())
	}
	to = unlessSelf(to, from) // an empty range
	return concat(match, twice(), join(), unfoldSelf())
}

func (p pathShape) children(c *core, id bson.RawValue) mongo.Pipeline {
	return concat(mongo.Pipeline{
		d("$match", c.byID(id)),
		d("$project", d(fieldTouch, p.fullExpr(c, c.o.PathDelimiter))),
		c.lookup(fieldTouch, c.o.PathField, c.inOrder()...),
	}, unfold())
}

func (pathShape) siblings(c *core, id bson.RawValue) mongo.Pipeline {
	node := append(c.byID(id), bson.E{Key: c.o.PathField, Value: d("$ne", nil)})
	return concat(mongo.Pipeline{d("$match", node), c.lookup(c.o.PathField, c.o.PathField, c.inOrder()...)},
		unfold(), mongo.Pipeline{d("$match", d(c.o.IDField, d("$ne", id)))})
}

func (pathShape) roots(c *core) mongo.Pipeline {
	return concat(mongo.Pipeline{c.match(c.o.PathField, nil)}, c.inOrder())
}

func (p pathShape) leaves(c *core) mongo.Pipeline {
	leaves := c.childless(fieldTouch, c.o.PathField)
	if c.o.ChildCountField != "" {
		return leaves
	}
	return concat(leaves[:1], mongo.Pipeline{d("$set", d(fieldTouch, p.fullExpr(c, c.o.PathDelimiter)))},
		leaves[1:], mongo.Pipeline{d("$unset", fieldTouch)})
}

func (pathShape) childrenOf(c *core, n node) bson.D { return c.in(c.o.PathField, c.full(n)) }

func (p pathShape) descendantsOf(c *core, n node, depth int) (bson.D, bool) {
	full := c.full(n)
	match := c.in(c.o.PathField, c.under(full))
	if depth > 0 {
		match = append(match, bson.E{Key: "$expr", Value: d("$lt", bson.A{
			p.depthExpr(c, p.pathExpr(c)), strings.Count(full, c.o.PathDelimiter) + 1 + depth})})
	}
	return match, true
}

func (p pathShape) ancestorsOf(c *core, n node) (bson.D, bool) {
	if !p.byID(c) {
		return nil, false
	}
	ids := []bson.RawValue{}
	for _, s := range c.segments(n.path) {
		if id, ok := segmentID(s, n.id); ok {
			ids = append(ids, id)
		}
	}
	return c.byIDs(ids), true
}

func (pathShape) rootsMatch(c *core) bson.D { return c.in(c.o.PathField, nil) }

func (p pathShape) parentOf(c *core, n node) (bson.D, bool) {
	segments := c.segments(n.path)
	if len(segments) == 0 {
		return nil, true
	}
	last := segments[len(segments)-1]
	if p.byID(c) {
		id, _ := segmentID(last, n.id)
		return c.byID(id), false
	}
	above := strings.TrimSuffix(n.path, last+c.o.PathDelimiter)
	return c.in(c.o.PathField, c.stored(above), c.o.SegmentField, last), false
}

// stored is a path as documents hold it.
func (c *core) stored(path string) any {
	if path == "" || path == c.o.PathDelimiter {
		return nil
	}
	return path
}

func (pathShape) place(c *core, parent *node) bson.D {
	if parent == nil {
		return d(c.o.PathField, nil)
	}
	return d(c.o.PathField, c.full(*parent))
}

func (pathShape) below(_ context.Context, c *core, p, x node) (bool, error) {
	return strings.HasPrefix(c.full(p), c.full(x)), nil
}

// replace puts a new beginning to all paths that start with from.
func (p pathShape) replace(ctx context.Context, c *core, from, to string) error {
	if from == to {
		return nil
	}
	moved := d("$concat", bson.A{literal(to), d("$substrBytes", bson.A{"$" + c.o.PathField, len(from), -1})})
	var value any = moved
	if to == c.o.PathDelimiter { // children become roots
		value = d("$cond", bson.A{d("$eq", bson.A{"$" + c.o.PathField, literal(from)}), nil, moved})
	}
	_, err := c.coll.UpdateMany(ctx, c.in(c.o.PathField, c.under(from)),
		mongo.Pipeline{d("$set", d(c.o.PathField, value))})
	return err
}

func (p pathShape) rebase(ctx context.Context, c *core, x node, parent *node) error {
	base := c.o.PathDelimiter
	if parent != nil {
		base = c.full(*parent)
	}
	return p.replace(ctx, c, c.full(x), base+x.segment+c.o.PathDelimiter)
}

func (p pathShape) lift(ctx context.Context, c *core, x node, parent *node) error {
	from, base := c.full(x), c.o.PathDelimiter
	if parent != nil {
		base = c.full(*parent)
	}
	if !p.byID(c) {
		// The unique index looks at one document after the other, and a/a/z
		// may get its new path before a/z has left it. So all go by way of
		// paths that no node has.
		way := c.o.PathDelimiter + c.o.PathDelimiter + bson.NewObjectID().Hex() + c.o.PathDelimiter
		if err := p.replace(ctx, c, from, way); err != nil {
			return err
		}
		from = way
	}
	return p.replace(ctx, c, from, base)
}

func (p pathShape) cascade(ctx context.Context, c *core, x node) (int64, error) {
	res, err := c.coll.DeleteMany(ctx, c.in("$or", bson.A{
		d(c.o.IDField, equal(x.id)), d(c.o.PathField, c.under(c.full(x)))}))
	if err != nil {
		return 0, err
	}
	return res.DeletedCount, nil
}

func (p pathShape) check(c *core, doc bson.D) error {
	for _, e := range doc {
		if e.Key != c.o.SegmentField {
			continue
		}
		v := e.Value.(bson.RawValue)
		if !p.byID(c) && v.Type != bson.TypeString {
			return fmt.Errorf("%w: %s is a BSON %v, not a string", ErrInvalidSegment, e.Key, v.Type)
		}
		s, err := segmentString(v)
		if err != nil {
			return err
		}
		return c.checkSegment(s)
	}
	return fmt.Errorf("%w: the document has no %s", ErrInvalidSegment, c.o.SegmentField)
}

// rename gives a node another segment and its descendants the path with it.
func (p pathShape) rename(ctx context.Context, c *core, id bson.RawValue, segment string) error {
	if c.o.SegmentField == "_id" {
		return fmt.Errorf("%w: the segment is the _id, which never changes; set Options.SegmentField", ErrUnsupported)
	}
	if err := c.checkSegment(segment); err != nil {
		return err
	}
	return c.atomically(ctx, true, func(ctx context.Context) error {
		x, err := c.find(ctx, id, ErrNotFound)
		if err != nil || x.segment == segment {
			return err
		}
		if old := x.raw.Lookup(c.o.SegmentField); old.Type != bson.TypeString {
			return fmt.Errorf("%w: the segment of %s is a BSON %v", ErrUnsupported, text(id), old.Type)
		}
		if err := c.usable(x); err != nil {
			return err
		}
		match := c.guarded(x, c.o.PathField, c.o.SegmentField)
		if err := c.set(ctx, match, d("$set", d(c.o.SegmentField, segment))); err != nil {
			return err
		}
		return p.replace(ctx, c, c.full(x), c.base(x.path)+segment+c.o.PathDelimiter)
	})
}
