package versioning

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	batchSize = 100

	// maxBytes leaves room for the fields that a revision has besides the document.
	maxBytes = 16<<20 - 16<<10

	// maxLevels is one less than the server stores, because a row is one level more, and because the server updates no
	// value in the last level by its path.
	maxLevels = value.MaxLevels - 1
)

// The fields of a change, and those of a revision that no option names.
const (
	atKey       = "at"
	authorKey   = "author"
	reasonKey   = "reason"
	documentKey = "document"
	deltaKey    = "delta"
	deletedKey  = "deleted"
)

// Options names the fields that the package adds, and says how revisions are stored. All fields are
// at the top level, and their names are plain: no dots, no "$" first.
type Options struct {
	// RevisionField is the field that holds the number, an int64, in current documents and in
	// revisions. A document without it is revision 1. A document in which it holds anything but a
	// whole number (int, long or double) from 1 to 2^63-2 is ErrMalformed, and Failed in Adopt. Default
	// "revision".
	RevisionField string
	// ChangeField is the field that holds the change, {at, author, reason, …}, in current documents
	// and in revisions. Default "change".
	ChangeField string
	// DocumentIDField is the field of a revision that holds the document's _id.
	// Default "document_id".
	DocumentIDField string

	// Ignored names top-level fields that the history does not keep. A save that changes only these
	// makes no revision. A save of a Revision that you made by hand, or of one from the history, never
	// changes them, because it cannot tell a changed value from an unknown one. To write them use
	// Edit, a save after Get, or an update with the driver. Default none.
	Ignored []string

	// SnapshotEvery n stores the revisions n, 2n, 3n, … whole and those between as deltas. Default
	// 1: all whole.
	//
	// A delta restores a revision from the next one; the last delta does so from the current
	// document. If other code changes or removes a current document, the revisions before it, back
	// to the last whole one, become unreadable. At then returns ErrInconsistent, Revisions shows
	// them as Lost, and Check lists them. So keep it at 1 until such code has stopped. Changes of
	// Ignored fields do no harm.
	SnapshotEvery int

	// NoHistory stores numbers and changes but no revisions, so a save needs one round trip and no
	// transaction. The revisions collection must be nil. For a revision that is not current, calls
	// return ErrPruned, and a deleted document begins again at 1. A save that changes a field with
	// a dot in its name replaces the document, and what others wrote meanwhile is lost. Default
	// false.
	NoHistory bool

	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter, start every index and are stored in every new document and revision. The values are
	// strings, numbers and similar. Null, an array or a regular expression is refused. A document with another value
	// is ErrInvalid, and a document of another tenant is not found. Restore returns ErrExists at once if the _id
	// exists. Default none: all documents of the collections.
	Scope bson.D

	// Registry and BSON encode and decode documents and IDs. By default BSON is what the client has. The client's
	// registry cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default
	// nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// complete sets the defaults and checks the options. All names in a current document must differ
// from each other, and all names in a revision.
func (o *Options) complete() error {
	names := func(fixed ...string) (all []config.Setting) {
		for _, name := range fixed {
			all = append(all, config.Name(name, &name, name))
		}
		return append(all, config.Name("Options.RevisionField", &o.RevisionField, "revision"),
			config.Name("Options.ChangeField", &o.ChangeField, "change"))
	}
	o.Ignored, o.Scope = slices.Clone(o.Ignored), slices.Clone(o.Scope)
	current := append(config.Scope(o.Scope), names("_id")...)
	for i := range o.Ignored {
		if o.Ignored[i] == "" {
			return fault.Invalid("Options.Ignored: a name is empty")
		}
		current = append(current, config.Name(fmt.Sprintf("Options.Ignored[%d]", i), &o.Ignored[i], ""))
	}
	if err := config.Apply(current...); err != nil {
		return err
	}
	row := append(config.Scope(o.Scope), names("_id", documentKey, deltaKey, deletedKey)...)
	return config.Apply(append(row,
		config.Name("Options.DocumentIDField", &o.DocumentIDField, "document_id"),
		config.Number("Options.SnapshotEvery", &o.SnapshotEvery, 1, 1, 1<<20),
	)...)
}
