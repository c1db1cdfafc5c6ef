package fault

import (
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Labels of errors, by which the server and the driver say what to do after them.
const (
	LabelTransient   = "TransientTransactionError"
	LabelRetryable   = "RetryableWriteError"
	LabelOverloaded  = "SystemOverloadedError"
	labelUncertain   = "UnknownTransactionCommitResult"
	labelNetwork     = "NetworkError"
	labelRetryRead   = "RetryableReadError"
	labelRetryStream = "ResumableChangeStreamError"
)

// repeated are the labels of an error that answers the driver's last attempt, so that an earlier one may have written.
var repeated = []string{labelNetwork, labelUncertain, LabelRetryable, LabelOverloaded}

// temporaryLabels are the labels of errors that pass by themselves.
var temporaryLabels = append([]string{LabelTransient, labelRetryRead, labelRetryStream}, repeated...)

// codes are codes of the server with the names that it gives them.
type codes map[int]string

// beforeOrAfter are the codes of errors that may come before the write or after it.
var beforeOrAfter = codes{
	0: "no code",
	1: "InternalError",
	8: "UnknownError",
}

// interrupted are the codes by which a server or a router ends a command whose write it may have applied.
var interrupted = codes{
	// The connection between servers.
	6:    "HostUnreachable",
	7:    "HostNotFound",
	89:   "NetworkTimeout",
	133:  "FailedToSatisfyReadPreference",
	9001: "SocketException",

	// Shutdown, elections, and a router with an old map of the shards.
	63:    "StaleShardVersion",
	91:    "ShutdownInProgress",
	189:   "PrimarySteppedDown",
	10107: "NotWritablePrimary",
	11600: "InterruptedAtShutdown",
	11602: "InterruptedDueToReplStateChange",
	13388: "StaleConfig",
	13435: "NotPrimaryNoSecondaryOk",
	13436: "NotPrimaryOrSecondary",

	// Time.
	24:  "LockTimeout",
	50:  "MaxTimeMSExpired",
	202: "NetworkInterfaceExceededTimeLimit",
	262: "ExceededTimeLimit",
	290: "TransactionExceededLifetimeLimitSeconds",
	407: "PooledConnectionAcquisitionExceededTimeLimit",

	// Interruption.
	237:   "CursorKilled",
	279:   "ClientDisconnect",
	281:   "TransactionCoordinatorSteppingDown",
	282:   "TransactionCoordinatorReachedAbortDecision",
	355:   "InterruptedDueToStorageChange",
	453:   "InterruptedDueToReshardingCriticalSection",
	11601: "Interrupted",

	// The write is done, and its write concern is not met.
	64:  "WriteConcernTimeout",
	75:  "WriteConcernLegacyOK",
	79:  "UnknownReplWriteConcern",
	100: "UnsatisfiableWriteConcern",

	// A repetition whose first attempt the server no longer knows.
	217: "IncompleteTransactionHistory",
}

// temporary are the codes of errors that end a command before its write, and pass by themselves.
var temporary = codes{
	// Locks, conflicts, transactions.
	46:  "LockBusy",
	112: "WriteConflict",
	239: "SnapshotTooOld",
	246: "SnapshotUnavailable",
	251: "NoSuchTransaction",
	267: "PreparedTransactionInProgress",

	// Cursors.
	43:  "CursorNotFound",
	234: "RetryChangeStream",

	// Chunks or a database that move, a database that is dropped.
	150: "StaleEpoch",
	215: "DatabaseDropPending",
	249: "StaleDbVersion",
	250: "StaleChunkHistory",
	272: "MigrationConflict",
	319: "MovePrimaryInProgress",

	// A busy server.
	261: "TooManyLogicalSessions",
	365: "TemporarilyUnavailable",
	402: "ResourceExhausted",
}

// everyWrite are the codes of errors that do not pass and are not about one document, so that every other write of the
// call would meet them.
var everyWrite = codes{
	// Rights, and a server that takes no writes of users.
	8:            "UnknownError",
	unauthorized: "Unauthorized",
	18:           "AuthenticationFailed",
	371:          "UserWritesBlocked",
	391:          "ReauthenticationRequired",
	8000:         "AtlasError",

	// Transactions.
	225: "TransactionTooOld",
	244: "TransactionAborted",
	256: "TransactionCommitted",

	// Plans that somebody has ended, the disk, open files, keys of the cluster's time.
	175:   "QueryPlanKilled",
	211:   "KeyNotFound",
	264:   "TooManyFilesOpen",
	14031: "OutOfDiskSpace",

	// Commands that no document could pass.
	9:   "FailedToParse",
	20:  "IllegalOperation",
	26:  "NamespaceNotFound",
	59:  "CommandNotFound",
	72:  "InvalidOptions",
	115: "CommandNotSupported",
	166: "CommandNotSupportedOnView",
	263: "OperationNotSupportedInTransaction",

	// Commands of another version of the API.
	322: "APIVersionError",
	323: "APIStrictError",
	324: "APIDeprecationError",
	347: "APIMismatchError",

	// What is too large is the transaction, and not the document.
	388:   "TransactionTooLargeForCache",
	28667: "no name",
}

// unauthorized is the code of a command that the user may not run.
const unauthorized = 13

// The codes of a document that would be larger than 16 MiB.
const (
	updateTooLarge = 17419
	upsertTooLarge = 17420
	objectTooLarge = 10334 // BSONObjectTooLarge
)

// stringTooLarge is the code of an expression that makes too large a string.
const stringTooLarge = 16493

// badValue is the code of many errors, which their texts tell apart.
const badValue = 2

// noArray are the codes of operators in expressions that expect an array and met another value.
var noArray = codes{
	16883: "$map",
	17124: "$size",
	28651: "$filter",
	28664: "$concatArrays",
	34435: "$reverseArray",
	40081: "$in",
}

// badType are the codes of writes that met a value of another type than they need.
var badType = codes{
	14:    "TypeMismatch",
	28:    "PathNotViable",
	16554: "$add",
}

// HasCode reports whether err is an answer of the server with one of these codes.
func HasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && slices.ContainsFunc(codes, server.HasErrorCode)
}

// Forbidden reports whether the user lacks a right.
func Forbidden(err error) bool { return HasCode(err, unauthorized) }

func hasLabel(server mongo.ServerError, labels []string) bool {
	return slices.ContainsFunc(labels, server.HasErrorLabel)
}

// hasCodeOf reports whether a code of an answer is in one of the tables.
func hasCodeOf(server mongo.ServerError, tables ...codes) bool {
	return slices.ContainsFunc(server.ErrorCodes(), func(code int) bool {
		return slices.ContainsFunc(tables, func(t codes) bool { _, there := t[code]; return there })
	})
}
