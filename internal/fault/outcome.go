package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A verdict is an error that records whether the writes of its call are done. If verdicts are nested, the
// outermost counts: an aborted transaction undoes its writes, whatever their verdicts say.
//
// Every write of the driver goes through One, Many or Single, so that an error of this library without a verdict
// comes from a call that had sent no write, or only writes that were refused. A test of the root package fails
// for a write that does not.
type verdict struct {
	err     error
	unknown bool
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

func judged(err error, unknown bool) error {
	if err == nil {
		return nil
	}
	return &verdict{err, unknown}
}

// Unknown marks an error whose call may have written: no answer came, or an earlier write of the call was
// acknowledged outside a transaction.
func Unknown(err error) error { return judged(err, true) }

// NotDone marks an error whose call has written nothing and will write nothing.
func NotDone(err error) error { return judged(err, false) }

// PartlyDone is Unknown for a call that counts what it did:
//
//	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
func PartlyDone(err *error, counts ...*int64) {
	for _, n := range counts {
		if *n > 0 {
			*err = Unknown(*err)
			return
		}
	}
}

// One judges the answer to a write of one document:
//
//	result, err := fault.One(coll.UpdateOne(ctx, filter, update))
func One[R any](result R, err error) (R, error) {
	err = answered(result, err)
	if err != nil && !notWritten(err) {
		err = Unknown(err)
	}
	return result, Arrays(Sized(err))
}

// Many judges the answer to a write of several documents, which can stop midway. A bulk write of several kinds is
// several commands, so that one which was not sent can come after one that is done.
func Many[R any](result R, err error) (R, error) {
	err = answered(result, err)
	if err != nil && !nothingWritten(result, err) {
		err = Unknown(err)
	}
	return result, Arrays(Sized(err))
}

// nothingWritten reports whether a write of several documents has certainly written none of them before this error.
func nothingWritten(result any, err error) bool {
	n, known := written(result)
	if n > 0 {
		return false
	}
	return notSent(err) || known && notWritten(err) || forbidden(result, err)
}

// forbidden reports whether the server refused a single command for want of rights, which it asks for before it writes.
func forbidden(result any, err error) bool {
	switch result.(type) {
	case *mongo.UpdateResult, *mongo.DeleteResult:
		return Forbidden(err)
	}
	return false
}

// errUnacknowledged is the error of a write that is sent without a question for its result.
var errUnacknowledged = errors.New("the write concern w: 0 asks for no acknowledgement, so nobody knows whether the write is done")

// answered returns an error for a write that the server has not acknowledged.
func answered(result any, err error) error {
	acknowledged := true
	switch r := result.(type) {
	case *mongo.InsertOneResult:
		acknowledged = r == nil || r.Acknowledged
	case *mongo.InsertManyResult:
		acknowledged = r == nil || r.Acknowledged
	case *mongo.UpdateResult:
		acknowledged = r == nil || r.Acknowledged
	case *mongo.DeleteResult:
		acknowledged = r == nil || r.Acknowledged
	case *mongo.BulkWriteResult:
		acknowledged = r == nil || r.Acknowledged
	case *mongo.SingleResult:
		acknowledged = r.Acknowledged
	}
	if !acknowledged && (err == nil || errors.Is(err, mongo.ErrNoDocuments)) {
		return errUnacknowledged
	}
	return err
}

// written is how many documents a bulk write has written, if that is known.
func written(result any) (n int64, known bool) {
	r, ok := result.(*mongo.BulkWriteResult)
	if !ok || r == nil {
		return 0, false
	}
	return r.InsertedCount + r.MatchedCount + r.UpsertedCount + r.DeletedCount, true
}

// Single is One for a write that returns the document.
func Single(result *mongo.SingleResult) *mongo.SingleResult {
	_, err := One(result, result.Err())
	if err == nil {
		return result
	}
	return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
}

// WroteNothing reports whether err comes from a call of this library that has written nothing. An error that joins one
// from elsewhere does not count: what the other call did is not known.
func WroteNothing(err error) bool {
	switch e := err.(type) {
	case *verdict:
		return !e.unknown
	case *called:
		return !MayHaveWritten(e.err)
	case interface{ Unwrap() error }:
		return WroteNothing(e.Unwrap())
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		return len(parts) > 0 && !slices.ContainsFunc(parts, func(part error) bool { return !WroteNothing(part) })
	}
	return false
}

// MayHaveWritten reports whether err, from inside a call, says that a write of the call may be done. It is not the
// opposite of WroteNothing: without a verdict both are false, because nobody knows where the error comes from.
func MayHaveWritten(err error) bool {
	switch e := err.(type) {
	case *verdict:
		return e.unknown
	case interface{ Unwrap() error }:
		return MayHaveWritten(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), MayHaveWritten)
	}
	return false
}

// FromLibrary reports whether err has an error of this library in it.
func FromLibrary(err error) bool {
	return errors.As(err, new(*sentinel)) || errors.As(err, new(*called)) || errors.As(err, new(*verdict))
}

// notWritten reports whether a write of one document is certainly not done after this error.
func notWritten(err error) bool {
	return errors.Is(err, mongo.ErrNoDocuments) || notSent(err) || tooLargeToSend(err) || ServerDidNothing(err)
}

// ServerDidNothing reports whether err is the answer of a server that has not done what it was sent: the write of one
// document, a commit or an abort.
func ServerDidNothing(err error) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) || notMajority(err) || hasLabel(server, repeated) {
		return false
	}
	return len(server.ErrorCodes()) > 0 && !hasCodeOf(server, beforeOrAfter, interrupted)
}

// notMajority reports whether the majority does not have yet what the server has done: a write, the end of a
// transaction.
func notMajority(err error) bool {
	var write mongo.WriteException
	var bulk mongo.BulkWriteException
	var command mongo.CommandError
	return errors.As(err, &write) && write.WriteConcernError != nil || errors.As(err, &bulk) && bulk.WriteConcernError != nil ||
		errors.As(err, &command) && command.Raw.Lookup("writeConcernError").Type != 0
}

// withheld is an error of Withheld.
type withheld struct{ error }

func (w *withheld) Unwrap() error { return w.error }

// Withheld marks an error that kept a command from being sent.
func Withheld(err error) error {
	if err == nil {
		return nil
	}
	return &withheld{err}
}

// notSent reports whether err comes from before the first attempt. When the driver cannot send a later one, it returns
// the error of the attempt before.
func notSent(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return true
	}
	return errors.As(err, new(*withheld)) || loginFailed(err) || hasType(err, "topology.ServerSelectionError", "topology.WaitQueueTimeoutError") ||
		errors.As(err, new(mongo.MarshalError)) || errors.As(err, new(mongo.InvalidArgumentError)) ||
		errors.As(err, new(mongo.ErrMapForOrderedArgument)) || errors.Is(err, mongo.ErrClientDisconnected)
}

// NoConnection reports whether a command was not sent because no connection could be made, or because the driver
// cleared its pool while the command waited for one. An earlier attempt may have been sent, so it does not say what is
// done.
func NoConnection(err error) bool {
	return loginFailed(err) || hasType(err, "topology.poolClearedError")
}

// loginFailed reports whether a new connection failed before or in its login, through the network or because the driver
// cancelled it after another one had failed. A server that refuses a login has answered. Only the text of the driver's
// error tells a login from a command.
func loginFailed(err error) bool {
	var network net.Error
	return hasType(err, "topology.ConnectionError") && strings.Contains(err.Error(), "during connection handshake") &&
		(errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.As(err, &network))
}

// hasType reports whether an error in the tree of err has one of these types. They are named and not imported, because
// the driver may change their package in any version. Under another name they are no longer known, and the outcome
// is Unknown.
func hasType(err error, types ...string) bool {
	if err == nil {
		return false
	}
	if slices.Contains(types, strings.TrimPrefix(reflect.TypeOf(err).String(), "*")) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return hasType(e.Unwrap(), types...)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(part error) bool { return hasType(part, types...) })
	}
	return false
}

// Temporary reports whether a later attempt may succeed without anybody's doing: the server is unavailable or busy,
// another member of its set takes over, or another writer was in the way. An error that did not come from the server
// came from the connection to it.
func Temporary(err error) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return true
	}
	return hasLabel(server, temporaryLabels) || hasCodeOf(server, interrupted, temporary)
}
