package tree

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// pathShape: {_id, path: ",root,…,parent,"}. The path names the ancestors
// only; "full" is a node's own path with its own segment, which is the path of
// its children. Both ends have the delimiter, so ",A,B," is no prefix of
// ",A,BA,".
type pathShape struct {
	*core
	defaults
}

func (p pathShape) settings() []config.Setting {
	all := []config.Setting{config.Name("Options.PathField", &p.o.PathField, ""), p.o.treeOnly(),
		config.Check("Options.PathDelimiter", func() error { return checkDelimiter(p.o.PathDelimiter) })}
	if !p.byIDs() {
		all = append(all, config.Name("Options.SegmentField", &p.o.SegmentField, ""))
	}
	return all
}

// byIDs reports whether the segments are the IDs.
func (p pathShape) byIDs() bool { return p.o.SegmentField == p.o.IDField }

func (p pathShape) fields() []string { return []string{p.o.PathField} }

func (p pathShape) keys() (all []indexKeys) {
	if !p.byIDs() {
		all = append(all, indexKeys{[]string{p.o.PathField, p.o.SegmentField}, true})
	}
	if p.o.OrderField != "" || p.byIDs() {
		all = append(all, indexKeys{fields: p.orderedBy(p.o.PathField)})
	}
	return all
}

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
	return "", fmt.Errorf("a BSON %v has no string form as a segment, set Options.SegmentField", v.Type)
}

func (c *core) checkSegment(s string) error {
	if s == "" {
		return errors.New("an empty segment")
	}
	if strings.Contains(s, c.o.PathDelimiter) {
		return fmt.Errorf("the segment %q holds the delimiter %q", s, c.o.PathDelimiter)
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

// usable refuses a node without a segment of its own: the paths under it would
// be those of other nodes.
func (p pathShape) usable(n node) error {
	if n.badPath != nil {
		return fault.Invalid("%s of node %s: %w", p.o.SegmentField, text(n.id), n.badPath)
	}
	return nil
}

// Expressions on a node.

func (p pathShape) pathExpr() bson.D {
	f := expr.Field(p.o.PathField)
	return expr.Cond(expr.IsType(f, "string"), f, expr.Literal(p.o.PathDelimiter))
}

// fullExpr is "", the path of no node, where there is no segment.
func (p pathShape) fullExpr(end string) bson.D {
	segment := expr.Op("$convert", d("input", expr.Field(p.o.SegmentField), "to", "string", "onError", nil, "onNull", nil))
	return expr.IfNull(expr.Op("$concat", p.pathExpr(), segment, expr.Literal(end)), "")
}

func (p pathShape) depthExpr(of any) bson.D {
	return expr.Op("$size", expr.Op("$split", of, expr.Literal(p.o.PathDelimiter)))
}

func (p pathShape) up(match any, levels int) mongo.Pipeline {
	segments := expr.Filter(expr.Op("$split", p.pathExpr(), expr.Literal(p.o.PathDelimiter)), "s", expr.Op("$ne", expr.Var("s"), ""))
	if p.byIDs() {
		// The IDs of one tree have one type, that of the node started from.
		to := func(name string, types ...string) bson.D {
			return d("case", expr.IsType(expr.Field(p.o.IDField), types...),
				"then", expr.Op("$convert", d("input", expr.Var("s"), "to", name, "onError", nil)))
		}
		id := expr.Op("$switch", d("branches", bson.A{to("objectId", "objectId"), to("long", "int", "long")}, "default", expr.Var("s")))
		way := expr.Op("$concatArrays", expr.Map(segments, "s", id), bson.A{expr.Field(p.o.IDField)})
		return p.upBy(match, expr.Op("$reverseArray", way), levels, p.lookup(fieldTouch, p.o.IDField))
	}
	// An ancestor is found by its own path and segment.
	sep := expr.Literal(p.o.PathDelimiter)
	path, self := expr.Var("value.path"), expr.Var("this")
	step := d("path", expr.Op("$concat", path, self, sep),
		"out", expr.Op("$concatArrays", expr.Var("value.out"), bson.A{d(
			"path", expr.Cond(expr.Op("$eq", path, sep), nil, path), "segment", self)}))
	all := expr.Reduce(expr.Op("$concatArrays", segments, bson.A{expr.Field(p.o.SegmentField)}), d("path", sep, "out", bson.A{}), step)
	lookup := expr.Op("$lookup", d("from", p.coll.Name(), "localField", fieldTouch+".path", "foreignField", p.o.PathField,
		"let", d("segment", expr.Field(fieldTouch+".segment")),
		"pipeline", bson.A{p.match("$expr", expr.Op("$eq", expr.Field(p.o.SegmentField), expr.Var("segment")))},
		"as", fieldTree))
	return p.upBy(match, expr.Op("$reverseArray", expr.Let("r", all, expr.Var("r.out"))), levels, lookup)
}

func (p pathShape) down(id any, depth int, self bool) mongo.Pipeline {
	path := expr.Field(p.o.PathField)
	within := mongo.Pipeline{p.match("$expr", expr.Op("$and",
		expr.Op("$gte", path, expr.Var("from")), expr.Op("$lt", path, expr.Var("to"))))}
	if depth > 0 {
		within = append(within, expr.Op("$match", expr.Op("$expr", expr.Op("$lt",
			p.depthExpr(p.pathExpr()), expr.Op("$add", p.depthExpr(expr.Var("from")), depth)))))
	}
	return p.rangeDown(id, p.fullExpr(p.o.PathDelimiter), p.fullExpr(p.afterDelimiter()), within, self)
}

func (p pathShape) children(id any) mongo.Pipeline {
	return concat(mongo.Pipeline{
		expr.Op("$match", p.in(p.o.IDField, equal(id))),
		expr.Op("$project", d(fieldTouch, p.fullExpr(p.o.PathDelimiter))),
		p.lookup(fieldTouch, p.o.PathField, p.inOrder()...),
	}, unfold())
}

func (p pathShape) siblings(id any) mongo.Pipeline { return p.beside(p.o.PathField, id, p.inOrder()) }

func (p pathShape) roots() mongo.Pipeline {
	return concat(mongo.Pipeline{p.match(p.o.PathField, nil)}, p.inOrder())
}

func (p pathShape) leaves() mongo.Pipeline {
	leaves := p.childless(fieldTouch, p.o.PathField)
	if p.o.ChildCountField != "" {
		return leaves
	}
	return concat(leaves[:1], mongo.Pipeline{expr.Op("$set", d(fieldTouch, p.fullExpr(p.o.PathDelimiter)))},
		leaves[1:], mongo.Pipeline{expr.Op("$unset", fieldTouch)})
}

func (p pathShape) childrenOf(n node) (bson.D, bool) { return p.in(p.o.PathField, p.full(n)), true }

func (p pathShape) descendantsOf(n node, depth int) (bson.D, bool) {
	full := p.full(n)
	match := p.in(p.o.PathField, p.under(full))
	if depth > 0 {
		match = append(match, bson.E{Key: "$expr", Value: expr.Op("$lt",
			p.depthExpr(p.pathExpr()), strings.Count(full, p.o.PathDelimiter)+1+depth)})
	}
	return match, true
}

func (p pathShape) rootsMatch() bson.D { return p.in(p.o.PathField, nil) }

func (p pathShape) above(n node) (ids []bson.RawValue, depth int) {
	segments := p.segments(n.path)
	if !p.byIDs() {
		return nil, len(segments)
	}
	ids = []bson.RawValue{}
	for _, s := range segments {
		if id, ok := segmentID(s, n.id); ok {
			ids = append(ids, id)
		}
	}
	return ids, len(segments)
}

// Writes.

// last divides a path into that of the parent and the parent's segment.
func (p pathShape) last(path string) (above, segment string) {
	segments := p.segments(path)
	if len(segments) == 0 {
		return "", ""
	}
	segment = segments[len(segments)-1]
	return strings.TrimSuffix(path, segment+p.o.PathDelimiter), segment
}

func (p pathShape) parentOf(n node) bson.D {
	above, last := p.last(n.path)
	if last == "" {
		return nil
	}
	if p.byIDs() {
		id, _ := segmentID(last, n.id)
		return p.byID(id)
	}
	return p.in(p.o.PathField, p.stored(above), p.o.SegmentField, last)
}

func (p pathShape) heir(x node) node {
	above, last := p.last(x.path)
	if above == p.o.PathDelimiter {
		above = ""
	}
	n := node{path: above, segment: last}
	if p.byIDs() {
		n.id, _ = segmentID(last, x.id)
	}
	return n
}

// stored is a path as documents hold it.
func (p pathShape) stored(path string) any {
	if path == "" || path == p.o.PathDelimiter {
		return nil
	}
	return path
}

func (p pathShape) place(parent *node) bson.D {
	if parent == nil {
		return d(p.o.PathField, nil)
	}
	return d(p.o.PathField, p.full(*parent))
}

func (p pathShape) below(_ context.Context, n, x node) (bool, error) {
	return strings.HasPrefix(p.full(n), p.full(x)), nil
}

// replace puts a new beginning to all paths that start with from.
func (p pathShape) replace(from, to string) []mongo.WriteModel {
	if from == to {
		return nil
	}
	f := expr.Field(p.o.PathField)
	var moved any = expr.Op("$concat", expr.Literal(to), expr.Op("$substrBytes", f, len(from), -1))
	if to == p.o.PathDelimiter { // children become roots
		moved = expr.Cond(expr.Op("$eq", f, expr.Literal(from)), nil, moved)
	}
	return []mongo.WriteModel{update(p.in(p.o.PathField, p.under(from)),
		mongo.Pipeline{expr.Op("$set", d(p.o.PathField, moved))})}
}

func (p pathShape) rebase(x node, parent *node) []mongo.WriteModel {
	base := p.o.PathDelimiter
	if parent != nil {
		base = p.full(*parent)
	}
	return p.replace(p.full(x), base+x.segment+p.o.PathDelimiter)
}

func (p pathShape) lift(x node, heir *node) []mongo.WriteModel {
	from, base := p.full(x), p.o.PathDelimiter
	if heir != nil {
		base = p.full(*heir)
	}
	if p.byIDs() {
		return p.replace(from, base)
	}
	// The unique index looks at one document after the other, and a/a/z may get
	// its new path before a/z has left it. So all go by way of paths that no
	// node has.
	way := p.o.PathDelimiter + p.o.PathDelimiter + bson.NewObjectID().Hex() + p.o.PathDelimiter
	return append(p.replace(from, way), p.replace(way, base)...)
}

func (p pathShape) cascade(ctx context.Context, id bson.RawValue) (x node, deleted int64, err error) {
	if x, err = p.take(ctx, id); err == nil {
		err = p.usable(x)
	}
	if err != nil {
		return x, 0, err
	}
	res, err := p.primary.DeleteMany(ctx, p.in(p.o.PathField, p.under(p.full(x))))
	if err != nil {
		return x, 0, err
	}
	return x, 1 + res.DeletedCount, nil
}

func (p pathShape) accept(doc bson.D) error {
	v := lookupD(doc, p.o.SegmentField)
	if !p.byIDs() && v.Type != bson.TypeString {
		return fault.Invalid("%s is not a string: %s", p.o.SegmentField, text(v))
	}
	s, err := segmentString(v)
	if err == nil {
		err = p.checkSegment(s)
	}
	if err != nil {
		return fault.Invalid("%s: %w", p.o.SegmentField, err)
	}
	return nil
}

// Rename gives a node another segment, and its descendants the paths that go
// with it. It is for MaterializedPath with an Options.SegmentField (or an
// IDField other than _id, which it then changes). A sibling of that name is a
// duplicate key error.
//
// Cost: 4 round trips (lock, node, all paths in one command by the path index,
// commit); writes the node and each descendant.
func (t *Tree[K, T]) Rename(ctx context.Context, id K, segment string) (err error) {
	defer fault.In(&err, "tree: rename")
	raw, err := t.c.id(id)
	if err != nil {
		return err
	}
	if l, ok := t.c.rep.(linked); ok {
		if p, ok := l.linkage.(pathShape); ok {
			return p.rename(ctx, raw, segment)
		}
	}
	return fault.Invalid("only MaterializedPath has segments")
}

func (p pathShape) rename(ctx context.Context, id bson.RawValue, segment string) error {
	if p.o.SegmentField == "_id" {
		return fault.Invalid("the segment is the _id, which never changes; set Options.SegmentField")
	}
	if err := p.checkSegment(segment); err != nil {
		return fault.Invalid("%w", err)
	}
	return p.atomically(ctx, true, func(ctx context.Context) error {
		x, err := p.find(ctx, id)
		if err != nil || x.segment == segment && x.badPath == nil {
			return err
		}
		if old := x.raw.Lookup(p.o.SegmentField); old.Type != bson.TypeString {
			return fault.Invalid("the segment of %s is a BSON %v, not a string", text(id), old.Type)
		}
		if err := p.usable(x); err != nil {
			return err
		}
		set := update(p.byID(id), d("$set", d(p.o.SegmentField, segment)))
		return p.write(ctx, append(p.replace(p.full(x), p.base(x.path)+segment+p.o.PathDelimiter), set)...)
	})
}

// malformed is why a node has no place in the tree.
const malformed = "malformed"

// Maintenance. Of a path its last segment decides; with a SegmentField the parent is
// the node with the whole path.

func (p pathShape) own(n node) string {
	if p.byIDs() || n.badPath != nil {
		return key(n.id)
	}
	return p.full(n)
}

func (p pathShape) ref(n node) (string, bool, string) {
	stored := n.raw.Lookup(p.o.PathField)
	segments, sep := p.segments(n.path), p.o.PathDelimiter
	_, isString := stored.StringValueOK()
	switch {
	case n.raw != nil && !isString && !isNull(stored), isString && n.path == "",
		n.path != "" && n.path != sep+strings.Join(segments, sep)+sep:
		return "", false, malformed
	case len(segments) == 0:
		return "", true, ""
	case !p.byIDs():
		return n.path, false, ""
	}
	id, ok := segmentID(segments[len(segments)-1], n.id)
	if !ok {
		return "", false, malformed
	}
	return key(id), false, ""
}

// parents asks for all that the paths name, to save a round trip a level.
func (p pathShape) parents(nodes []node, known map[string]*spot) bson.D {
	seen, branches := map[string]bool{}, bson.A{}
	if p.byIDs() {
		var ids []bson.RawValue
		for _, n := range nodes {
			for _, s := range p.segments(n.path) {
				id, ok := segmentID(s, n.id)
				if k := key(id); ok && !seen[k] && known[k] == nil {
					seen[k] = true
					ids = append(ids, id)
				}
			}
		}
		return p.core.byIDs(ids)
	}
	for _, n := range nodes {
		if !seen[n.path] {
			seen[n.path] = true
			above, last := p.last(n.path)
			branches = append(branches, d(p.o.PathField, p.stored(above), p.o.SegmentField, last))
		}
	}
	return p.in("$or", branches)
}

func (p pathShape) kids(ctx context.Context, nodes []node) ([][]node, error) {
	at, paths := map[string]int{}, bson.A{}
	for i, n := range nodes {
		if n.badPath == nil {
			at[p.full(n)] = i
			paths = append(paths, p.full(n))
		}
	}
	kids, err := p.findAll(ctx, p.in(p.o.PathField, d("$in", paths)), p.sorting()...)
	out := make([][]node, len(nodes))
	for _, kid := range kids {
		if i, ok := at[kid.path]; ok { // not of a path in an array
			out[i] = append(out[i], kid)
		}
	}
	return out, err
}

func (p pathShape) link() string  { return p.o.PathField }
func (p pathShape) order() string { return p.o.OrderField }

func (p pathShape) settled(n node) bool              { return n.raw.Lookup(p.o.PathField).Type != 0 }
func (p pathShape) wrong() mongopatterns.ProblemKind { return WrongPath }
func (p pathShape) cut(n node, s *spot) *finding     { return p.cutSmallest(n, s) }

// derive joins the segments of the chain, from the stored path of a settled node on.
func (p pathShape) derive(n node, chain []*spot) (bson.D, bool) {
	if _, err := p.segment(n.raw); err != nil {
		return nil, false
	}
	var path strings.Builder
	path.WriteString(p.o.PathDelimiter)
	for i, s := range chain {
		if i == 0 && s.settled {
			path.Reset()
			path.WriteString(p.base(s.path))
		}
		if s.segment == "" {
			return nil, false
		}
		path.WriteString(s.segment + p.o.PathDelimiter)
	}
	return d(p.o.PathField, p.stored(path.String())), true
}

// segment is the segment of a document.
func (p pathShape) segment(doc bson.Raw) (string, error) {
	s, err := segmentString(doc.Lookup(p.o.SegmentField))
	if err == nil {
		err = p.checkSegment(s)
	}
	return s, err
}

// audit finds segments that no path can have.
func (p pathShape) audit(_ context.Context, e *engine, nodes []node, _ []*spot, _ [][]node) (found []finding, err error) {
	for _, n := range nodes {
		if n.badPath != nil {
			f := e.finding(WrongPath, n, p.o.SegmentField, n.badPath.Error())
			found = append(found, f)
		}
	}
	return found, nil
}

// uproot takes along what is below.
func (p pathShape) uproot(n node) []mongo.WriteModel {
	set := update(p.byID(n.id), d("$set", d(p.o.PathField, nil)))
	if n.badPath != nil {
		return []mongo.WriteModel{set}
	}
	return append([]mongo.WriteModel{set}, p.replace(p.full(n), p.o.PathDelimiter+n.segment+p.o.PathDelimiter)...)
}
