package fault

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The sentinels that all packages share. The root package documents and exports them; they are defined here
// so that internal packages can return them.
var (
	ErrInvalid                 = New("invalid", nil)
	ErrNotFound                = New("not found", mongo.ErrNoDocuments)
	ErrConflict                = New("conflict", nil)
	ErrIndexConflict           = New("conflicting index", nil)
	ErrTransactionsUnsupported = New("transactions need a replica set or a sharded cluster", nil)
	ErrMalformed               = New("malformed", nil)
	ErrClosed                  = New("closed", nil)
	ErrSkip                    = New("skip this document", nil)

	ErrNoParent   = New("no such parent", ErrNotFound)
	ErrExists     = New("exists already", ErrConflict)
	ErrReferenced = New("still referenced", ErrConflict)
	ErrRunning    = New("another call of this kind is running", ErrConflict)
	ErrNotAdopted = New("not adopted", ErrMalformed)
	ErrNewer      = New("written by a newer version", ErrMalformed)
)

type sentinel struct {
	text    string
	general error
}

func (s *sentinel) Error() string { return s.text }

// Unwrap makes a particular error match its general one.
func (s *sentinel) Unwrap() error { return s.general }

// New returns a sentinel that matches itself and, if general is not nil, what
// general matches. Two sentinels never match each other by their text.
func New(text string, general error) error { return &sentinel{text, general} }

// Invalid returns an ErrInvalid that says what is wrong.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Malformed returns an ErrMalformed that says what is wrong.
func Malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// Arrays makes ErrMalformed of the refusal of a command that expected an array in a document and met another value.
func Arrays(err error) error {
	if err == nil {
		return nil // before server is allocated
	}
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return err
	}
	inUpdate := server.HasErrorCodeWithMessage(badValue, "must be an array but is of type") || server.HasErrorCodeWithMessage(badValue, "non-array")
	if inUpdate || hasCodeOf(server, noArray) {
		return Malformed("%w", err)
	}
	return err
}

// Types makes ErrMalformed of the refusal of an update whose operators, which a package has chosen, met a stored value of
// another type, such as $inc a text.
func Types(err error) error {
	if err == nil {
		return nil
	}
	var server mongo.ServerError
	if errors.As(err, &server) && hasCodeOf(server, badType) {
		return Malformed("%w", err)
	}
	return err
}

// In prefixes an error that a function returns with its call, in words: an error of "subset.InsertMany" begins with
// "subset: insert many: ".
//
//	defer fault.In(&err, "subset.InsertMany")
//
// If the user lacks a right, it also says where the rights of the call are listed.
func In(err *error, call string) {
	if *err == nil {
		return
	}
	if Forbidden(*err) && !errors.As(*err, new(*called)) {
		*err = fmt.Errorf("%w (docs/privileges.md lists the actions that each call needs)", *err)
	}
	*err = &called{call, *err}
}

// called is an error that left the library. Its type marks it as one of ours.
type called struct {
	call string
	err  error
}

func (c *called) Error() string { return inWords(c.call) + ": " + c.err.Error() }
func (c *called) Unwrap() error { return c.err }

var word = regexp.MustCompile("[A-Z][a-z0-9]+|[A-Z]+")

// inWords returns the name of a call, package.Name or package.Type.Name, in words, without the type.
func inWords(call string) string {
	pack, name, _ := strings.Cut(call, ".")
	words := word.FindAllString(name[strings.LastIndexByte(name, '.')+1:], -1)
	for i, w := range words {
		if w != strings.ToUpper(w) { // not JSON
			words[i] = strings.ToLower(w)
		}
	}
	return pack + ": " + strings.Join(words, " ")
}

// Seq is In for an iterator.
func Seq[T any](call string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			In(&err, call)
			if !yield(v, err) {
				return
			}
		}
	}
}

// Stop returns an iterator that yields only err.
func Stop[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// Of adds to an error the document that it is about, unless the error begins with it already.
func Of(id bson.RawValue, err error) error {
	if err == nil {
		return nil
	}
	about := "_id " + value.Text(id) + ": "
	if strings.HasPrefix(err.Error(), about) {
		return err
	}
	return fmt.Errorf("%s%w", about, err)
}

// Found is Of for a document that was looked for: the driver's ErrNoDocuments becomes
// ErrNotFound.
func Found(id bson.RawValue, err error) error {
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = ErrNotFound
	}
	return Of(id, err)
}

// Taken makes ErrExists of a duplicate in the unique index of the field that holds the document's ID. A duplicate in
// another unique index stays what it is. A document that is too large is named.
func Taken(field string, id bson.RawValue, err error) error {
	if errors.As(err, new(unfit)) {
		return Of(id, err)
	}
	if pattern, ok := duplicate(err); !ok || pattern.Lookup(field).Type == 0 {
		return err
	}
	return fmt.Errorf("%s %s: %w: %w", field, value.Text(id), ErrExists, err)
}

// duplicate returns the keys of the unique index that refused a write.
func duplicate(err error) (pattern bson.Raw, ok bool) {
	var (
		one  mongo.WriteException
		many mongo.BulkWriteException
		raw  bson.Raw
	)
	switch {
	case !mongo.IsDuplicateKeyError(err):
	case errors.As(err, &one) && len(one.WriteErrors) > 0:
		raw = one.WriteErrors[0].Raw
	case errors.As(err, &many) && len(many.WriteErrors) > 0:
		raw = many.WriteErrors[0].Raw
	}
	return raw.Lookup("keyPattern").DocumentOK()
}

// CommitUncertain reports whether err, of a commit, leaves open whether all of the transaction is stored or nothing. A
// new primary that does not know the transaction says so even if it cannot ask the majority, and then its answer has no
// label.
func CommitUncertain(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorLabel(labelUncertain) || notMajority(err))
}

// refusal is an error of Refuse.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// Refuse wraps err so that Refused reports it: a package uses it to refuse a document for good, as the
// server refuses others.
func Refuse(err error) error { return &refusal{err} }

// Refused reports whether the server refuses this write and would refuse it again, because the document is
// too large, or because of a validator or a unique index. It is false for errors of the connection, the
// transaction, the time or the privileges: the same write may succeed later, or every other write would
// fail too. Of a bulk write, every write that failed must be refused so.
func Refused(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		return false
	}
	if errors.As(err, new(*refusal)) {
		return true
	}
	var server mongo.ServerError
	if !errors.As(err, &server) || notMajority(err) || hasLabel(server, temporaryLabels) {
		return false
	}
	return len(server.ErrorCodes()) > 0 && !hasCodeOf(server, everyWrite, interrupted, temporary)
}
