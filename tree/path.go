package tree

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// pathShape: {_id, path: ",root,…,parent,"}. The path names the ancestors only; "full" is a node's own path
// with its own segment, which is the path of its children. Both ends have the delimiter, so ",A,B," is no
// prefix of ",A,BA,". The path of a root is the delimiter, stored as null. The last segment is the parent; a move
// writes a new beginning to the path of every descendant.
type pathShape struct{ *store }

func pathLayout(o *Options) layout {
	delimiter := config.Check("Options.PathDelimiter", func() error {
		o.PathDelimiter = cmp.Or(o.PathDelimiter, ",")
		return checkDelimiter(o.PathDelimiter)
	})
	return layout{settings: []config.Setting{config.Name("Options.PathField", &o.PathField, "path"), delimiter, o.oldParent()},
		fields: []string{o.PathField}, link: o.PathField, order: o.OrderField, derived: o.PathField}
}

const malformed = "malformed"

func (p pathShape) parent(n node) (up node, broken string) {
	if p.unadopted(n.raw) {
		return p.namedParent(n)
	}
	segments, sep := p.segments(n.path), p.o.PathDelimiter
	if len(segments) == 0 {
		if !isNull(n.raw.Lookup(p.o.PathField)) {
			broken = malformed
		}
		return up, broken
	}
	last := segments[len(segments)-1]
	id, ok := segmentID(last, n.id)
	if !ok || n.path != sep+strings.Join(segments, sep)+sep {
		broken = malformed
	}
	return node{id: id, path: strings.TrimSuffix(n.path, last+sep)}, broken
}

func (p pathShape) place(parent *node) bson.D {
	if parent == nil {
		return d(p.o.PathField, nil)
	}
	return d(p.o.PathField, p.full(*parent))
}

// below puts a new beginning to all paths under x.
func (p pathShape) below(x node, to *node) []mongo.WriteModel {
	from, start := p.full(x), p.o.PathDelimiter
	if to != nil {
		start = p.full(*to)
	}
	if from == start {
		return nil
	}
	f := expr.Field(p.o.PathField)
	var moved any = expr.Op("$concat", expr.Literal(start), expr.Op("$substrBytes", f, len(from), -1))
	if start == p.o.PathDelimiter { // children become roots
		moved = expr.Cond(expr.Op("$eq", f, expr.Literal(from)), nil, moved)
	}
	return []mongo.WriteModel{update(p.in(p.o.PathField, p.within(from)),
		mongo.Pipeline{expr.Op("$set", d(p.o.PathField, moved))})}
}

func (p pathShape) reference() any { return p.fullExpr(p.o.PathDelimiter) }

func (p pathShape) above(n node) []bson.RawValue {
	ids := []bson.RawValue{}
	for _, s := range p.segments(n.path) {
		id, _ := segmentID(s, n.id)
		ids = append(ids, id)
	}
	return ids
}

func (p pathShape) up(levels int) mongo.Pipeline {
	segments := expr.Filter(p.split(p.pathExpr()), "s", expr.Op("$ne", expr.Var("s"), ""))
	// The IDs of one tree have one type, that of the node started from.
	to := func(name string, types ...string) bson.D {
		return d("case", expr.IsType(expr.Field(p.o.IDField), types...),
			"then", expr.Op("$convert", d("input", expr.Var("s"), "to", name, "onError", nil)))
	}
	id := expr.Op("$switch", d("branches", bson.A{to("objectId", "objectId"), to("long", "int", "long")}, "default", expr.Var("s")))
	way := expr.Op("$concatArrays", expr.Map(segments, "s", id), bson.A{expr.Field(p.o.IDField)})
	return p.upBy(expr.Op("$reverseArray", way), levels)
}

func (p pathShape) down(id any, depth int, self bool) mongo.Pipeline {
	path := expr.Field(p.o.PathField)
	within := mongo.Pipeline{p.match("$expr", expr.Op("$and",
		expr.Op("$gte", path, expr.Var("from")), expr.Op("$lt", path, expr.Var("to"))))}
	if depth > 0 {
		within = append(within, expr.Op("$match", p.toDepth(expr.Op("$size", p.split(expr.Var("from"))), depth)))
	}
	return p.rangeDown(id, p.fullExpr(p.o.PathDelimiter), p.fullExpr(p.afterDelimiter()), within, self)
}

func (p pathShape) under(n node, depth int) (bson.D, bool) {
	full := p.full(n)
	match := p.in(p.o.PathField, p.within(full))
	if depth > 0 {
		match = append(match, p.toDepth(strings.Count(full, p.o.PathDelimiter)+1, depth)...)
	}
	return match, true
}

// toDepth matches paths with less than depth parts more than others.
func (p pathShape) toDepth(parts any, depth int) bson.D {
	return expr.Op("$expr", expr.Op("$lt", expr.Op("$size", p.split(p.pathExpr())), expr.Op("$add", parts, depth)))
}

func (p pathShape) pathExpr() bson.D {
	f := expr.Field(p.o.PathField)
	return expr.Cond(expr.IsType(f, "string"), f, expr.Literal(p.o.PathDelimiter))
}

// fullExpr is "", the path of no node, where there is no segment.
func (p pathShape) fullExpr(end string) bson.D {
	segment := expr.Op("$convert", d("input", expr.Field(p.o.IDField), "to", "string", "onError", nil, "onNull", nil))
	return expr.IfNull(expr.Op("$concat", p.pathExpr(), segment, expr.Literal(end)), "")
}

func (p pathShape) split(path any) bson.D {
	return expr.Op("$split", path, expr.Literal(p.o.PathDelimiter))
}

// Segments and paths.

func checkDelimiter(s string) error {
	if len(s) != 1 || !strings.Contains("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}", s) {
		return fmt.Errorf("%q is not one ASCII punctuation character below %q", s, "~")
	}
	return nil
}

// segmentString is the form of a value in a path, the same as the server's $toString.
func segmentString(v bson.RawValue) (string, error) {
	switch v.Type {
	case bson.TypeString:
		return v.StringValue(), nil
	case bson.TypeObjectID:
		return v.ObjectID().Hex(), nil
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10), nil
	}
	return "", fmt.Errorf("a BSON %v has no string form in a path", v.Type)
}

// checkSegment refuses an ID that no path can hold.
func (s *store) checkSegment(id bson.RawValue) error {
	segment, err := segmentString(id)
	switch {
	case err != nil:
		return err
	case segment == "":
		return errors.New("an empty segment")
	case strings.Contains(segment, s.o.PathDelimiter):
		return fmt.Errorf("the segment %q holds the delimiter %q", segment, s.o.PathDelimiter)
	}
	return nil
}

// segmentID turns a segment back into an ID of the type that like has.
func segmentID(segment string, like bson.RawValue) (bson.RawValue, bool) {
	var v any = segment
	var err error
	switch like.Type {
	case bson.TypeObjectID:
		v, err = bson.ObjectIDFromHex(segment)
	case bson.TypeInt32, bson.TypeInt64:
		v, err = strconv.ParseInt(segment, 10, 64)
	}
	if err != nil {
		return null, false
	}
	t, data, err := bson.MarshalValue(v)
	return bson.RawValue{Type: t, Value: data}, err == nil
}

func (s *store) full(n node) string {
	segment, _ := segmentString(n.id)
	return n.path + segment + s.o.PathDelimiter
}

func (s *store) segments(path string) []string {
	if path = strings.Trim(path, s.o.PathDelimiter); path == "" {
		return nil
	}
	return strings.Split(path, s.o.PathDelimiter)
}

// within are the bounds of all paths that start with a full path: its last byte, the delimiter, is replaced by
// the next one.
func (s *store) within(full string) bson.D {
	return d("$gte", full, "$lt", full[:len(full)-1]+s.afterDelimiter())
}

func (s *store) afterDelimiter() string { return string(rune(s.o.PathDelimiter[0] + 1)) }

// usable refuses a node without a segment of its own: the paths under it would be those of other nodes.
func (s *store) usable(n node) error {
	if s.kind != MaterializedPath {
		return nil
	}
	if err := s.checkSegment(n.id); err != nil {
		return fault.Invalid("%s of node %s: %w", s.o.IDField, text(n.id), err)
	}
	return nil
}
