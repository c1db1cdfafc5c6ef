package fault_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A particular error matches its general one and no other, whatever their texts.
func TestSentinels(t *testing.T) {
	noNode, noParent := fault.New("no parent", fault.ErrNotFound), fault.New("no parent", fault.ErrNotFound)
	wrapped := fmt.Errorf("tree: get: %w", noNode)
	for _, test := range []struct {
		target error
		want   bool
	}{
		{noNode, true}, {fault.ErrNotFound, true}, {mongo.ErrNoDocuments, true},
		{noParent, false}, {fault.ErrInvalid, false}, {mongo.ErrNilDocument, false},
	} {
		if got := errors.Is(wrapped, test.target); got != test.want {
			t.Errorf("errors.Is(%v, %v) = %v", wrapped, test.target, got)
		}
	}
	if general := fmt.Errorf("get: %w", fault.ErrNotFound); errors.Is(general, noNode) {
		t.Error("the general error matches the particular one")
	}
}

func TestPrefixes(t *testing.T) {
	call := func(fail bool) (err error) {
		defer fault.In(&err, "subset.Add")
		if fail {
			return fault.Invalid("Page: %d", -1)
		}
		return nil
	}
	if err := call(false); err != nil {
		t.Error(err)
	}
	if err := call(true); !errors.Is(err, fault.ErrInvalid) || err.Error() != "subset: add: invalid: Page: -1" {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"subset.InsertMany":     "subset: insert many",
		"bucket.DeleteByID":     "bucket: delete by ID",
		"series.Gatherer.Flush": "series: flush",
	} {
		err := fault.ErrClosed
		if fault.In(&err, name); err.Error() != want+": closed" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var seq iter.Seq2[int, error] = func(yield func(int, error) bool) {
		_ = yield(1, nil) && yield(0, fault.ErrConflict)
	}
	var last error
	n := 0
	for v, err := range fault.Seq("subset.All", seq) {
		n += v
		last = err
	}
	if n != 1 || !errors.Is(last, fault.ErrConflict) || last.Error() != "subset: all: conflict" {
		t.Error(n, last)
	}
	for range fault.Seq("subset.All", seq) {
		break
	}
	id := bson.RawValue{Type: bson.TypeNull}
	if err := fault.Of(id, fault.ErrConflict); err.Error() != "_id null: conflict" || fault.Of(id, nil) != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	write := func(code int) error {
		return mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: code}}}
	}
	bulk := func(codes ...int) (err mongo.BulkWriteException) {
		for _, code := range codes {
			err.WriteErrors = append(err.WriteErrors, mongo.BulkWriteError{WriteError: mongo.WriteError{Code: code}})
		}
		return err
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{bulk(121), true}, {bulk(121, 11000), true}, {bulk(121, 365), false}, {bulk(11602, 11000), false}, {bulk(), false},
		{write(11000), true}, {write(121), true}, {write(17419), true}, {mongo.CommandError{Code: 10334}, true},
		{fmt.Errorf("x: %w", write(14)), true},
		{fmt.Errorf("x: %w", fault.Refuse(errors.New("local"))), true}, {nil, false}, {errors.New("local"), false}, {context.Canceled, false}, {context.DeadlineExceeded, false},
		{mongo.CommandError{Code: 112}, false}, {mongo.CommandError{Code: 189}, false}, {mongo.CommandError{Code: 13}, false},
		{write(371), false}, {mongo.CommandError{Code: 43}, false}, {mongo.CommandError{Code: 175}, false}, {write(14031), false},
		{mongo.CommandError{Code: 290}, false}, {mongo.CommandError{Code: 11601}, false}, {write(79), false}, {mongo.CommandError{Code: 1}, true},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 79}}, false},
		{mongo.CommandError{Code: 2, Labels: []string{"TransientTransactionError"}}, false},
		{mongo.CommandError{Labels: []string{"NetworkError"}}, false},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, false},
	} {
		if got := fault.Refused(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

// An error that passes, or that every document would meet, refuses none of them for good. The codes are those of the
// server's error_codes.yml.
func TestGeneralCodes(t *testing.T) {
	for code, passes := range map[int32]bool{
		43: true, 46: true, 112: true, 246: true, 251: true, // CursorNotFound, LockBusy, WriteConflict, SnapshotUnavailable, NoSuchTransaction
		150: true, 249: true, 250: true, 272: true, 319: true, // StaleEpoch, StaleDbVersion, StaleChunkHistory, MigrationConflict, MovePrimaryInProgress
		239: true, 215: true, 261: true, 267: true, // SnapshotTooOld, DatabaseDropPending, TooManyLogicalSessions, PreparedTransactionInProgress
		365: true, 402: true, // TemporarilyUnavailable, ResourceExhausted
		281: true, 282: true, 407: true, 453: true, // interruptions
		13: false, 371: false, 391: false, // Unauthorized, UserWritesBlocked, ReauthenticationRequired
		166: false, 211: false, 264: false, 14031: false, // CommandNotSupportedOnView, KeyNotFound, TooManyFilesOpen, OutOfDiskSpace
		322: false, 323: false, 324: false, 347: false, // APIVersionError, APIStrictError, APIDeprecationError, APIMismatchError
	} {
		err := mongo.CommandError{Code: code}
		if fault.Refused(err) || fault.Temporary(err) != passes {
			t.Errorf("%d: refused %v, passes %v", code, fault.Refused(err), fault.Temporary(err))
		}
	}
}
