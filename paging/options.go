package paging

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Options changes how a Pager works. The zero value, and nil, are fine. Fields
// are named by their paths, which may be dotted.
type Options struct {
	// Find holds options for every find, such as collation, hint, projection, comment, let, batch size
	// and allowDiskUse. Options that aggregate does not have are refused over a pipeline. Options that
	// would change which documents come are always refused: sort, skip, limit, tailable cursors, min,
	// max, returnKey, showRecordID and the positional projection "tags.$". A projection that lists fields
	// to keep need not name the sort fields. One that lists fields to leave out must not name them.
	// Default nil.
	Find *options.FindOptionsBuilder

	// Equality names the fields that every filter of this list fixes, each to one value (a tenant,
	// a status) or to a few with $in, at the top of the filter or inside $and. They come first in
	// the index and the shard key. A filter that does not fix them is ErrInvalid, because the
	// server would sort the whole list for each page. Default none.
	Equality []string

	// Scope is the fields of a tenant, with their values. See Tenants in the manual of mongopatterns. Its fields are
	// part of every filter and begin every pipeline, and they come before Equality. The values are strings, numbers
	// and similar. Null, an array or a regular expression is refused. A token of another tenant is ErrInvalidToken,
	// and CountEstimated is ErrInvalid. A pipeline may read more from other collections. Default none: all documents
	// of the collection.
	Scope bson.D

	// PageSize is the size of pages whose request names none. Default 20.
	PageSize int

	// Group is how many pages Request.Number may be away from Request.From, and
	// the number of pages in the groups that a numbered page reports. Default 10.
	Group int

	// SigningKeys signs tokens with the first key and accepts those signed with any. Take keys of
	// 32 random bytes or more from your secret store, the same for all processes. To rotate, append
	// the new key everywhere, then put it first everywhere, and remove the old key when its tokens
	// may become ErrInvalidToken. Default none: tokens are unsigned.
	SigningKeys [][]byte

	// DistinctIDs says that no two documents that are equal in the sort fields have text `_id`s
	// that are equal under the collation of Find. Default false: with a collation, documents with
	// text in the `_id` are ErrUnsortable. The default collation of a collection needs no such
	// promise.
	DistinctIDs bool

	// Sequential never sends several ranges in one find. Set it for engines that do not merge the
	// branches of $or and find no range in $expr (DocumentDB). A page then takes up to one find for
	// each branch of the $or, two to four a sort field. Default false.
	Sequential bool

	// Registry and BSON encode filters when tokens are bound to them, projections, and documents given to Token. By
	// default BSON is what the client has. The client's registry cannot be read, so if it has one of its own, set
	// Registry; EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// findOptions applies the builder's functions, so that they can be looked at.
func findOptions(builder *options.FindOptionsBuilder) (options.FindOptions, error) {
	var out options.FindOptions
	if builder == nil {
		return out, nil
	}
	for _, set := range builder.List() {
		if set != nil {
			if err := set(&out); err != nil {
				return out, err
			}
		}
	}
	if comment, ok := out.Comment.(*any); ok { // as the builder has it
		out.Comment = *comment
	}
	return out, refuse("cannot be combined with paging", map[string]bool{
		"sort (give it to New)":    out.Sort != nil,
		"skip":                     out.Skip != nil,
		"limit (use Request.Size)": out.Limit != nil,
		"min":                      out.Min != nil,
		"max":                      out.Max != nil,
		"maxAwaitTime":             out.MaxAwaitTime != nil,
		"tailable cursor":          out.CursorType != nil && *out.CursorType != options.NonTailable,
		"returnKey":                out.ReturnKey != nil && *out.ReturnKey,
		"showRecordID":             out.ShowRecordID != nil && *out.ShowRecordID,
	})
}

func refuse(why string, options map[string]bool) error {
	for name, set := range options {
		if set {
			return fmt.Errorf("%s %s", name, why)
		}
	}
	return nil
}

// order is the sort of a list. It holds _id, mostly at its end: only over a pipeline
// does what comes after it order anything.
type order []sortKey

type sortKey struct {
	path     string
	desc     bool
	segments []string
}

func newOrder(sort bson.D) (order, error) {
	var out order
	if !slices.ContainsFunc(sort, func(e bson.E) bool { return e.Key == "_id" }) {
		id := expr.Element("_id", 1)
		if len(sort) > 0 {
			id.Value = sort[len(sort)-1].Value
		}
		sort = append(slices.Clip(sort), id)
	}
	for _, e := range sort {
		if err := fieldpath.CheckPath("field", e.Key); err != nil {
			return nil, err
		}
		if out.index(e.Key) >= 0 {
			return nil, fmt.Errorf("the field %q is given twice", e.Key)
		}
		direction, err := config.Direction(e)
		if err != nil {
			return nil, err
		}
		out = append(out, sortKey{e.Key, direction < 0, strings.Split(e.Key, ".")})
	}
	return out, nil
}

func (o order) index(path string) int {
	return slices.IndexFunc(o, func(k sortKey) bool { return k.path == path })
}

func (o order) document(backward bool) bson.D {
	out := make(bson.D, len(o))
	for i, k := range o {
		out[i] = expr.Element(k.path, 1)
		if k.desc != backward {
			out[i].Value = -1
		}
	}
	return out
}
