package paging

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

const (
	defaultPageSize = 20
	defaultGroup    = 10
	defaultBatch    = 500
)

// Strategy is how a keyset condition of several branches is sent.
type Strategy int

const (
	// Merged sends one find with all branches in a root-level $or. mongod reads
	// each from the index and merges them.
	Merged Strategy = iota

	// Sequential sends a find a branch, in the order of the result, until the
	// page is full. For engines that do not merge (DocumentDB), and filters
	// that are not allowed inside $or ($text, sorted in memory branch by branch).
	Sequential
)

// Options changes how a Pager works. The zero value, and nil, are fine. Fields
// are named by their paths, which may be dotted.
type Options struct {
	// Find goes with every find: collation, hint, projection, comment, let,
	// batch size, allowDiskUse and so on. Over a pipeline those that aggregate
	// has are sent with it; the others are an error there. What paging itself
	// sets is refused: sort, skip, limit, tailable cursors, min, max, returnKey
	// and showRecordID, and with Merged the positional projection "tags.$". A
	// projection need not hold the sort fields: they are read all the same and
	// taken out again before decoding.
	Find *options.FindOptionsBuilder

	// Equality names the fields that the filters of this list fix to one value
	// (a tenant, a status). They come first in the index and the shard key. A
	// filter with several values, {status: {$in: […]}} at its top level, is sent
	// with one branch for each (see Indexes in the package's documentation); what
	// is found depends on none of this.
	Equality []string

	// Uniform names sort fields that hold one kind of value in all documents:
	// all numbers of any width, all strings, all dates …, or null, or nothing.
	// (`_id` then is never null or NaN.) It leaves the branches for other types
	// out of the condition. Documents that break the promise can be missing from
	// pages.
	Uniform []string

	// Strategy is how a keyset condition is sent. Default Merged.
	Strategy Strategy

	// PageSize is the size of pages whose request names none. Default 20.
	PageSize int

	// Group is how many pages Jump may go from the current one, and the number
	// of pages in the groups that NumberedPage reports. Default 10.
	Group int

	// Keys signs tokens with the first key and accepts those signed with any,
	// so that keys can be rotated: put the new one in front and drop the old
	// one when its tokens are no longer wanted. Use 32 random bytes. Default
	// none: tokens are unsigned.
	Keys [][]byte

	// DistinctIDs vouches that no two documents of a list that are equal in the
	// sort fields have `_id`s that are equal under the collation of Find. Only
	// needed for `_id`s with strings in them (UUIDs as text, say).
	DistinctIDs bool

	// Registry encodes filters when tokens are bound to them, projections, and
	// documents given to Token. Default the driver's. Set it to the client's if
	// that has codecs of its own: a Pager cannot see them.
	Registry *bson.Registry
}

// findOptions applies the builder's functions, so that they can be looked at.
func findOptions(builder *options.FindOptionsBuilder) (options.FindOptions, error) {
	var out options.FindOptions
	if builder == nil {
		return out, nil
	}
	for _, set := range builder.List() {
		if set == nil {
			continue
		}
		if err := set(&out); err != nil {
			return out, err
		}
	}
	for _, owned := range []struct {
		name string
		set  bool
	}{
		{"sort (give it to New)", out.Sort != nil},
		{"skip", out.Skip != nil},
		{"limit (use Request.Size)", out.Limit != nil},
		{"min", out.Min != nil},
		{"max", out.Max != nil},
		{"maxAwaitTime", out.MaxAwaitTime != nil},
		{"tailable cursor", out.CursorType != nil && *out.CursorType != options.NonTailable},
		{"returnKey", out.ReturnKey != nil && *out.ReturnKey},
		{"showRecordID", out.ShowRecordID != nil && *out.ShowRecordID},
	} {
		if owned.set {
			return out, fmt.Errorf("%s cannot be combined with paging", owned.name)
		}
	}
	return out, nil
}

// order is the sort of a list.
type order []sortKey

type sortKey struct {
	path     string
	desc     bool
	kind     uniformity
	segments []string
}

// newOrder checks a sort and adds _id.
func newOrder(sort bson.D, uniformFields []string) (order, error) {
	var out order
	for _, e := range sort {
		if err := fieldpath.CheckPath("sort", e.Key); err != nil {
			return nil, err
		}
		if out.index(e.Key) >= 0 {
			return nil, fmt.Errorf("sort: field %q appears twice", e.Key)
		}
		desc, err := direction(e.Value)
		if err != nil {
			return nil, fmt.Errorf("sort: field %q: %w", e.Key, err)
		}
		out = append(out, sortKey{path: e.Key, desc: desc})
	}
	if out.index("_id") < 0 {
		desc := len(out) > 0 && out[len(out)-1].desc
		out = append(out, sortKey{path: "_id", desc: desc})
	}
	for i := range out {
		out[i].segments = strings.Split(out[i].path, ".")
		if slices.Contains(uniformFields, out[i].path) {
			out[i].kind = uniform
			if out[i].path == "_id" {
				out[i].kind = uniformID
			}
		}
	}
	for _, path := range uniformFields {
		if out.index(path) < 0 {
			return nil, fmt.Errorf("Options.Uniform: %q is not a sort field", path)
		}
	}
	return out, nil
}

func direction(value any) (desc bool, err error) {
	switch value {
	case 1, int32(1), int64(1), 1.0:
		return false, nil
	case -1, int32(-1), int64(-1), -1.0:
		return true, nil
	}
	return false, errors.New("the direction must be 1 or -1")
}

func (o order) index(path string) int {
	return slices.IndexFunc(o, func(k sortKey) bool { return k.path == path })
}

func (o order) paths() []string {
	out := make([]string, len(o))
	for i, k := range o {
		out[i] = k.path
	}
	return out
}

// document is the sort as the server takes it.
func (o order) document(backward bool) bson.D {
	out := make(bson.D, len(o))
	for i, k := range o {
		out[i] = bson.E{Key: k.path, Value: 1}
		if k.desc != backward {
			out[i].Value = -1
		}
	}
	return out
}
