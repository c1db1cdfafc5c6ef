package tree

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// checkDelimiter also refuses "~", because bounds need a next character: see pathRange.
func checkDelimiter(s string) error {
	if len(s) != 1 || !strings.Contains("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}", s) {
		return fmt.Errorf("%q is not one ASCII punctuation character below %q", s, "~")
	}
	return nil
}

// segmentString is the form of an ID in a path. It equals the server's $toString, which fullExpr uses.
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

// segmentField is the field that represents a node in the paths below it.
func (s *store) segmentField() string { return cmp.Or(s.o.SegmentField, s.o.IDField) }

// segment returns the string that represents a node in the paths below it.
func (s *store) segment(r ref) (string, error) {
	if s.o.SegmentField == "" {
		return segmentString(r.id)
	}
	segment, ok := r.segment.StringValueOK()
	if !ok {
		return "", errors.New("a segment that is not a string")
	}
	return segment, nil
}

// checkSegment refuses a node with a segment that cannot be in a path.
func (s *store) checkSegment(r ref) error {
	segment, err := s.segment(r)
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

// checkSameIDType refuses a node under a parent whose ID has another type, because the IDs in a path are read as being of
// the node's own type.
func (s *store) checkSameIDType(id bson.RawValue, parent *node) error {
	if parent == nil || s.likeParent(id, parent.id) {
		return nil
	}
	return s.about(id, fault.Invalid("%s", otherType))
}

const otherType = "the ID has another type than that of its parent, and a path holds IDs of one type"

// likeParent reports whether a path with the ID of a parent can be in a node.
func (s *store) likeParent(id, parent bson.RawValue) bool {
	if s.kind != MaterializedPath || s.o.SegmentField != "" {
		return true
	}
	whole := func(v bson.RawValue) bool { return v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 }
	return id.Type == parent.Type || whole(id) && whole(parent)
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
		return value.Null, false
	}
	return value.New(v), true
}

// full returns the path of the children of a node.
func (s *store) full(r ref) string {
	segment, _ := s.segment(r)
	return r.path + segment + s.o.PathDelimiter
}

// segments splits a path, root first. The path of a root has none.
func (s *store) segments(path string) []string {
	if path = strings.Trim(path, s.o.PathDelimiter); path == "" {
		return nil
	}
	return strings.Split(path, s.o.PathDelimiter)
}

// pathRange are the bounds of all paths that begin with a full path. The upper one has the next character in place of
// its last, the delimiter.
func (s *store) pathRange(full string) bson.D {
	return expr.D("$gte", full, "$lt", full[:len(full)-1]+s.afterDelimiter())
}

// afterDelimiter is the character after the delimiter: see pathRange.
func (s *store) afterDelimiter() string { return string(rune(s.o.PathDelimiter[0] + 1)) }

// checkUsable refuses a node with a segment that cannot be in a path, because the paths below it would be those of
// other nodes. Representations without a path have no such node.
func (s *store) checkUsable(r ref) error {
	if s.kind != MaterializedPath {
		return nil
	}
	if err := s.checkSegment(r); err != nil {
		return s.about(r.id, fault.Invalid("%s: %w", s.segmentField(), err))
	}
	return nil
}
