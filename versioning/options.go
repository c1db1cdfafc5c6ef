package versioning

import (
	"errors"
	"fmt"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	defaultMaxRetries = 100
	defaultBatchSize  = 100

	// maxBytes leaves room for what a revision document has besides the document.
	maxBytes = 16<<20 - 16<<10
)

// The fields of a change.
const (
	atKey     = "at"
	authorKey = "author"
	reasonKey = "reason"
)

// Options names the fields added and chooses how revisions are stored. The zero
// value keeps every revision whole. All fields are plain names, at the top of their
// documents.
type Options struct {
	// RevisionField is the field, of current documents and of revisions, of the
	// number: an int64, or an int32 where it was found as one. A document without
	// it is revision 1. Default "revision".
	RevisionField string
	// ChangeField is the field, of both, of the change: {at, author, reason}.
	// Default "change".
	ChangeField string

	// DocumentIDField is the field of a revision that holds the document's _id.
	// Default "document_id".
	DocumentIDField string
	// DocumentField holds the document as it was, without the two fields above.
	// Default "document".
	DocumentField string
	// DeltaField holds what makes the document out of the following revision.
	// Default "delta".
	DeltaField string
	// DeletedField is true in the revision that deleted the document. Default
	// "deleted".
	DeletedField string

	// Ignored names top-level fields that are no part of the history. Default
	// none.
	Ignored []string

	// SnapshotEvery n keeps revisions n, 2n, 3n, … whole and those between as
	// deltas. Default 1: all whole.
	SnapshotEvery int

	// MaxRetries is how often Update and Restore begin again after a conflict.
	// Default 100.
	MaxRetries int

	// Registry encodes and decodes documents and IDs. Give the client's own
	// registry if it has one: a collection does not show it. Default nil: the
	// driver's.
	Registry *bson.Registry
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	names := []string{"_id", "_id"}
	for _, f := range []struct {
		option, value string
		field         *string
	}{
		{"Options.RevisionField", "revision", &out.RevisionField},
		{"Options.ChangeField", "change", &out.ChangeField},
		{"Options.DocumentIDField", "document_id", &out.DocumentIDField},
		{"Options.DocumentField", "document", &out.DocumentField},
		{"Options.DeltaField", "delta", &out.DeltaField},
		{"Options.DeletedField", "deleted", &out.DeletedField},
	} {
		if *f.field == "" {
			*f.field = f.value
		}
		if err := fieldpath.CheckName(f.option, *f.field); err != nil {
			return out, err
		}
		names = append(names, f.option, *f.field)
	}
	if err := fieldpath.CheckDisjoint(names...); err != nil {
		return out, err
	}
	current := []string{"_id", "_id", "Options.RevisionField", out.RevisionField, "Options.ChangeField", out.ChangeField}
	out.Ignored = append([]string(nil), out.Ignored...)
	for i, name := range out.Ignored {
		option := fmt.Sprintf("Options.Ignored[%d]", i)
		if err := fieldpath.CheckName(option, name); err != nil {
			return out, err
		}
		current = append(current, option, name)
	}
	if err := fieldpath.CheckDisjoint(current...); err != nil {
		return out, err
	}
	switch {
	case out.SnapshotEvery < 0:
		return out, errors.New("Options.SnapshotEvery: negative")
	case out.MaxRetries < 0:
		return out, errors.New("Options.MaxRetries: negative")
	}
	if out.SnapshotEvery == 0 {
		out.SnapshotEvery = 1
	}
	if out.MaxRetries == 0 {
		out.MaxRetries = defaultMaxRetries
	}
	return out, nil
}
