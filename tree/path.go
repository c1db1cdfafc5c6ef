package tree

import (
	"context"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// materializedPath: {_id, path: ",root,…,parent,"}. The path names the ancestors, and its last segment the parent. "full" is
// the path with the node's own segment behind it, which is the path of its children. Both ends have the delimiter, so
// that ",A,B," is not a prefix of ",A,BA,". A move writes a new beginning to the path of every descendant.
//
// The path of a root would be the delimiter alone, and is stored as null. Segments are IDs. With a SegmentField they
// are its strings; then only the whole path names the parent, and the path of a root is stored as the delimiter.
type materializedPath struct{ *store }

// pathLayout refers by the path: the children of a node are those that have its full path.
func pathLayout(o Options) layout {
	return layout{fields: []string{o.PathField}, refField: o.PathField, sortField: o.OrderField, derived: o.PathField, inherits: true,
		childrenFrom: fromNode, descendantsFrom: fromNode}
}

// malformed says that a path is not a string, does not begin and end with one delimiter, or has a last segment that
// cannot be an ID of the tree.
const malformed = "malformed"

// parent of a malformed path is still its last segment, so that calls beside and below such a node find the parent.
// For a bare node, which has no path, the ParentField counts.
func (s materializedPath) parent(n node) (named ref, broken string) {
	if s.isBare(n.raw) {
		return s.namedParent(n)
	}
	segments, sep := s.segments(n.path), s.o.PathDelimiter
	if len(segments) == 0 {
		if v := n.raw.Lookup(s.o.PathField); !isNull(v) && !same(v, s.rootPath()) {
			broken = malformed
		}
		return named, broken
	}
	last := segments[len(segments)-1]
	named.path = strings.TrimSuffix(n.path, last+sep)
	ok := true
	if s.o.SegmentField != "" {
		named.segment = value.New(last)
	} else {
		named.id, ok = segmentID(last, n.id)
	}
	if !ok || n.path != sep+strings.Join(segments, sep)+sep {
		broken = malformed
	}
	return named, broken
}

// rootPath is the value of the path of a root.
func (s *store) rootPath() bson.RawValue {
	if s.o.SegmentField == "" {
		return value.Null
	}
	return value.New(s.o.PathDelimiter)
}

// liesBelow compares paths of segments, which name no IDs.
func (s materializedPath) liesBelow(x node, to foundPosition) (below, known bool) {
	if s.o.SegmentField != "" {
		return to.parent != nil && strings.HasPrefix(s.full(to.parent.ref), s.full(x.ref)), true
	}
	return isAbove(x, to.parent, s.above), true
}

func (s materializedPath) fieldsUnder(parent *node) bson.D {
	if parent == nil {
		return expr.D(s.o.PathField, s.rootPath())
	}
	return expr.D(s.o.PathField, s.full(parent.ref))
}

func (s materializedPath) updatesBelow(x, to node) []mongo.WriteModel {
	return s.rebase(s.full(x.ref), s.full(to.ref))
}

func (s materializedPath) handOver(x node, heir *node) []mongo.WriteModel {
	if heir == nil {
		return s.rebase(s.full(x.ref), s.o.PathDelimiter)
	}
	return s.rebase(s.full(x.ref), s.full(heir.ref))
}

// rebase replaces the beginning of all paths that have it. Segments are unique among siblings, so if a deleted node
// leaves its children to its parent, a child may get its new path while another node still has it: x/x/y becomes x/y
// before x/y has left. Then all paths first get one that no node has, and then the new one.
func (s materializedPath) rebase(from, start string) []mongo.WriteModel {
	if from == start {
		return nil
	}
	if s.o.SegmentField != "" && strings.HasPrefix(from, start) {
		unused := s.o.PathDelimiter + from
		return append(s.rebaseOnce(from, unused), s.rebaseOnce(unused, start)...)
	}
	return s.rebaseOnce(from, start)
}

// rebaseOnce is rebase in one write.
func (s materializedPath) rebaseOnce(from, start string) []mongo.WriteModel {
	f := expr.Field(s.o.PathField)
	var moved any = expr.Op("$concat", expr.Literal(start), expr.Op("$substrBytes", f, len(from), -1))
	if start == s.o.PathDelimiter { // children become roots
		moved = expr.Cond(expr.Op("$eq", f, expr.Literal(from)), expr.Literal(s.rootPath()), moved)
	}
	return []mongo.WriteModel{update(append(expr.D(s.o.PathField, s.pathRange(from)), s.noPathsMatch()...),
		mongo.Pipeline{expr.Op("$set", expr.D(s.o.PathField, moved))})}
}

// rename writes the new segment to the node and to all paths below it. A node without a valid segment has no nodes
// below it.
func (s materializedPath) rename(ctx context.Context, id, segment bson.RawValue) error {
	if err := s.checkUsable(ref{id: id, segment: segment}); err != nil {
		return err
	}
	return s.withLock(ctx, func(ctx context.Context) error {
		x, err := s.findOne(ctx, s.idMatch(id), s.missing(id))
		if err != nil {
			return err
		}
		if err := s.checkOwnsPaths(x); err != nil {
			return err
		}
		models := []mongo.WriteModel{update(s.idMatch(id), expr.Op("$set", expr.D(s.o.SegmentField, segment)))}
		if to := x; s.checkUsable(x.ref) == nil {
			to.segment = segment
			models = append(models, s.updatesBelow(x, to)...)
		}
		return s.write(ctx, models...)
	})
}

func (s materializedPath) refExpr() any { return s.fullExpr(s.o.PathDelimiter) }

func (s materializedPath) above(n node, like bson.RawValue) []bson.RawValue {
	ids := []bson.RawValue{}
	for _, segment := range s.segments(n.path) {
		id, _ := segmentID(segment, like)
		ids = append(ids, id)
	}
	return ids
}

// up splits the path into segments, converts them to IDs and joins the nodes with these IDs.
func (s materializedPath) up(levels int) mongo.Pipeline {
	segments := expr.Filter(s.split(s.pathExpr()), "s", expr.Op("$ne", expr.Var("s"), ""))
	if s.o.SegmentField != "" {
		return s.upBySegments(segments, levels)
	}
	// The IDs of one tree have one type, that of the node started from. No node has the ID that stands for any other
	// segment: null would find the documents without an ID.
	to := func(name string, types ...string) bson.D {
		return expr.D("case", expr.IsType(expr.Field(s.o.IDField), types...),
			"then", expr.Op("$convert", expr.D("input", expr.Var("s"), "to", name, "onError", expr.Literal(bson.MinKey{}))))
	}
	branches := bson.A{to("objectId", "objectId"), to("long", "int", "long")}
	id := expr.Op("$switch", expr.D("branches", branches, "default", expr.Var("s")))
	way := expr.Op("$concatArrays", expr.Map(segments, "s", id), bson.A{expr.Field(s.o.IDField)})
	return s.upBy(expr.Op("$reverseArray", way), levels)
}

// upBySegments joins the ancestors by path and segment, as their IDs are not in the path: each ancestor has one of the
// segments, and those before it are its path. The node itself is not joined, because it may have no segment.
func (s materializedPath) upBySegments(segments any, levels int) mongo.Pipeline {
	sep, path, this := expr.Literal(s.o.PathDelimiter), expr.Var("value.path"), expr.Var("this")
	// The path of a root may also be null.
	paths := expr.Cond(expr.Op("$eq", path, sep), bson.A{sep, nil}, path)
	above := expr.Reduce(segments, expr.D("path", sep, "way", bson.A{}), expr.D(
		"path", expr.Op("$concat", path, this, sep),
		"way", expr.Op("$concatArrays", bson.A{expr.D("path", paths, "segment", this)}, expr.Var("value.way"))))
	way := expr.Op("$concatArrays", bson.A{expr.D("path", expr.Field(s.o.PathField), "segment", expr.Field(s.o.SegmentField))},
		expr.Let("above", above, expr.Var("above.way")))
	if levels > 0 {
		way = expr.Op("$slice", way, levels+1)
	}
	match := s.inJoin(
		expr.Element("$expr", expr.Op("$eq", expr.Field(s.o.SegmentField), expr.Var("segment"))),
		expr.Element("$nor", bson.A{s.bareMatch(s.anyParent())}))
	join := expr.D("from", s.coll.Name(), "localField", fieldRef+".path", "foreignField", s.o.PathField,
		"let", expr.D("segment", expr.Field(fieldRef+".segment")),
		"pipeline", bson.A{expr.Op("$match", match)}, "as", fieldTree)
	self := expr.Op("$eq", expr.Field(fieldDepth), 0)
	return slices.Concat(mongo.Pipeline{
		expr.Op("$project", expr.D(fieldSelf, expr.Var("ROOT"), fieldRef, way)),
		expr.Op("$unwind", expr.D("path", expr.Field(fieldRef), "includeArrayIndex", fieldDepth)),
		expr.Op("$lookup", join),
		expr.Op("$set", expr.D(fieldTree, expr.Cond(self, bson.A{expr.Field(fieldSelf)}, expr.Field(fieldTree)))),
	}, unfold(fieldDepth, expr.Field(fieldDepth)))
}

// down joins the nodes by the bounds of pathRange, in terms of the node that the pipeline reads first.
func (s materializedPath) down(id any, depth int, self bool) mongo.Pipeline {
	path := expr.Field(s.o.PathField)
	stages := mongo.Pipeline{expr.Op("$match", s.inJoin(expr.Element("$expr", expr.Op("$and",
		expr.Op("$gte", path, expr.Var("from")), expr.Op("$lt", path, expr.Var("to"))))))}
	if depth > 0 {
		stages = append(stages, expr.Op("$match", s.toDepthMatch(expr.Op("$size", s.split(expr.Var("from"))), depth)))
	}
	return s.rangeDown(id, [2]any{s.fullExpr(s.o.PathDelimiter), s.fullExpr(s.afterDelimiter())}, stages, self)
}

// noPathsMatch excludes nodes that have an array as their path, which could meet one bound of pathRange with one element and
// the other with another. Reads do without it, because it would keep them from counting by the index alone.
func (s *store) noPathsMatch() bson.D {
	if s.kind != MaterializedPath {
		return nil
	}
	return expr.Op("$nor", bson.A{expr.D(s.o.PathField, expr.AnArray)})
}

func (s materializedPath) descendantsMatch(n node, depth int) bson.D {
	full := s.full(n.ref)
	match := expr.D(s.o.PathField, s.pathRange(full))
	if depth > 0 {
		match = append(match, s.toDepthMatch(strings.Count(full, s.o.PathDelimiter)+1, depth)...)
	}
	return match
}

// toDepthMatch matches the paths that have fewer than parts+depth parts. parts is the number in the full path of the node.
func (s materializedPath) toDepthMatch(parts any, depth int) bson.D {
	return expr.Op("$expr", expr.Op("$lt", expr.Op("$size", s.split(s.pathExpr())), expr.Op("$add", parts, depth)))
}

// pathExpr is node.path as an expression: the delimiter if there is no path.
func (s materializedPath) pathExpr() bson.D {
	f := expr.Field(s.o.PathField)
	return expr.Cond(expr.IsType(f, "string"), f, expr.Literal(s.o.PathDelimiter))
}

// fullExpr is full as an expression. end is its last character: the delimiter, or for an upper bound the one after it.
// If the segment is missing it is "", which is not the path of any node.
func (s materializedPath) fullExpr(end string) bson.D {
	segment := expr.Op("$convert", expr.D("input", expr.Field(s.segmentField()), "to", "string", "onError", nil, "onNull", nil))
	return expr.IfNull(expr.Op("$concat", s.pathExpr(), segment, expr.Literal(end)), "")
}

func (s materializedPath) split(path any) bson.D {
	return expr.Op("$split", path, expr.Literal(s.o.PathDelimiter))
}
