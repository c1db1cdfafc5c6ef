package versioning

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

const (
	batchSize = 100

	// maxBytes leaves room for what a revision has besides the document.
	maxBytes = 16<<20 - 16<<10
)

// The fields of a change, and of a revision beside those that Options name.
const (
	atKey       = "at"
	authorKey   = "author"
	reasonKey   = "reason"
	documentKey = "document"
	deltaKey    = "delta"
	deletedKey  = "deleted"
)

// Options names the fields added and chooses how revisions are stored. All fields are
// plain names, at the top of their documents.
type Options struct {
	// RevisionField is the field, of current documents and of revisions, of the
	// number, an int64. A document without it is revision 1; one that holds anything but
	// a whole number from 1 to 2^63-2 is ErrInvalid. Default "revision".
	RevisionField string
	// ChangeField is the field, of both, of the change: {at, author, reason, …}.
	// Default "change".
	ChangeField string
	// DocumentIDField is the field of a revision that holds the document's _id.
	// Default "document_id".
	DocumentIDField string

	// Ignored names top-level fields that are no part of the history. A save that
	// changes nothing else makes no revision. Default none.
	Ignored []string

	// SnapshotEvery n keeps revisions n, 2n, 3n, … whole and those between as
	// deltas. Default 1: all whole.
	//
	// A delta makes a revision out of the following one, up to the current document.
	// Code that changes or removes current documents without this package therefore
	// makes the revisions before, down to the last whole one, unreadable: At says
	// ErrInconsistent, History shows them as Lost, Check lists them. So leave it at 1
	// until such code has stopped, but for Ignored fields.
	SnapshotEvery int

	// NoHistory keeps numbers and changes and no revisions: saves need one round trip
	// and no transaction. The revisions collection is nil then. What is not current is
	// ErrPruned, and a deleted document begins again at 1. A change of a field whose name
	// has a dot replaces the document: what others wrote meanwhile is lost. Default false.
	NoHistory bool

	// Registry and BSON encode and decode documents and IDs. Give the client's own
	// if it has them: a collection does not show them. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// complete sets the defaults and checks the options. The names in a current document
// must differ, and those in a revision.
func (o *Options) complete() error {
	names := func(fixed ...string) (all []config.Setting) {
		for _, name := range fixed {
			all = append(all, config.Name(name, &name, name))
		}
		return append(all, config.Name("Options.RevisionField", &o.RevisionField, "revision"),
			config.Name("Options.ChangeField", &o.ChangeField, "change"))
	}
	o.Ignored = slices.Clone(o.Ignored)
	current := names("_id")
	for i := range o.Ignored {
		if o.Ignored[i] == "" {
			return fault.Invalid("Options.Ignored: an empty name")
		}
		current = append(current, config.Name(fmt.Sprintf("Options.Ignored[%d]", i), &o.Ignored[i], ""))
	}
	if err := config.Apply(current...); err != nil {
		return err
	}
	return config.Apply(append(names("_id", documentKey, deltaKey, deletedKey),
		config.Name("Options.DocumentIDField", &o.DocumentIDField, "document_id"),
		config.Number("Options.SnapshotEvery", &o.SnapshotEvery, 1, 1, 1<<20),
	)...)
}
