package fault

import (
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// maxBytes is how many bytes a stored document can have.
const maxBytes = 16 << 20

// unfit is an error about a document that is larger than the server stores. It is an ErrInvalid.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

// CheckSize returns an ErrInvalid for an encoded document or value, called what, that no document can hold.
func CheckSize(what string, bytes int) error {
	if bytes <= maxBytes {
		return nil
	}
	return unfit{Invalid("%s has %d bytes, and a document can have 16 MiB", what, bytes)}
}

// CheckLevels returns an ErrInvalid for a document with more levels of documents and arrays than can be stored.
func CheckLevels(document bson.Raw) error {
	if value.Deeper(value.Embedded(document), value.MaxLevels) {
		return unfit{Invalid(levels)}
	}
	return nil
}

const levels = "the document would have more than 180 levels of documents and arrays"

// Sized says plainly that a write was refused because a document would be too large. An answer about several writes
// stays as it is, because others of them may have been refused for other reasons.
func Sized(err error) error {
	if err == nil {
		return nil
	}
	var bulk mongo.BulkWriteException
	switch {
	case errors.As(err, &bulk) && len(bulk.WriteErrors) > 1:
		return err
	case tooLarge(err):
		return unfit{Invalid("the document would be larger than 16 MiB: %w", err)}
	case tooDeep(err):
		return unfit{Invalid(levels+": %w", err)}
	}
	return err
}

// tooLargeToSend reports an error of the driver for a document that no command can hold.
func tooLargeToSend(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "an inserted document is too large") // its value is in a package that may change
}

func tooLarge(err error) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return tooLargeToSend(err)
	}
	return UpdateTooLarge(err) || server.HasErrorCode(stringTooLarge) || server.HasErrorCodeWithMessage(badValue, "too large")
}

// UpdateTooLarge reports whether an update was refused because the document would be larger than 16 MiB.
func UpdateTooLarge(err error) bool {
	return HasCode(err, updateTooLarge, upsertTooLarge, objectTooLarge)
}

// tooDeep goes by the text: the codes are those of many errors.
func tooDeep(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorMessage("nesting depth") || server.HasErrorMessage("levels of nesting"))
}
