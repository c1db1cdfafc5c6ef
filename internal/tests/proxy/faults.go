package proxy

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Nth breaks commands of this name and collection: the one that is the nth since Break, counted from 0, by the
// first fault, the one after it by the second fault, and so on.
func Nth(name, collection string, n int, faults ...Fault) Rule {
	return func(c Command) *Fault {
		if i := c.N - n; c.Name == name && c.Collection == collection && i >= 0 && i < len(faults) {
			return &faults[i]
		}
		return nil
	}
}

// Each breaks every command of this name, whatever its collection.
func Each(name string, fault Fault) Rule {
	return func(c Command) *Fault {
		if c.Name == name {
			return &fault
		}
		return nil
	}
}

// The faults of a network: the connection is closed, or stays silent, before the server gets the command or
// after it has done it.
var (
	CloseBefore  = Fault{Lost: true, Closed: true}
	CloseAfter   = Fault{Closed: true}
	SilentBefore = Fault{Lost: true, Silent: true}
	SilentAfter  = Fault{Silent: true}
)

// Codes of errors, and the labels of those after which a command may be sent again.
const (
	WriteConcernTimeout   = 64
	ShutdownInProgress    = 91
	WriteConflict         = 112
	Unauthorized          = 13
	InterruptedAtShutdown = 11600
	NotWritablePrimary    = 10107

	overloaded        = 462 // IngressRequestRateLimitExceeded, of MongoDB 8.2
	noSuchTransaction = 251
	interrupted       = 11602 // InterruptedDueToReplStateChange

	transient = "TransientTransactionError"
	retryable = "RetryableWriteError"
)

// Refuse answers the command with an error that has the labels of a real server. The server does not get the
// command, and ends its transaction.
func Refuse(code int) Fault { return Fault{Abort: true, refusal: code} }

// RefuseBare is Refuse for a server that does not send the labels.
func RefuseBare(code int) Fault { return Fault{Abort: true, refusal: code, bare: true} }

// Answers of servers that do nothing with the command, and end no transaction.
var (
	// Overloaded is that of a server which takes no more commands.
	Overloaded = Fault{Lost: true, refusal: overloaded}
	// Unknown is that of a mongos which does not know the transaction, because it began at another one.
	Unknown = Fault{Lost: true, refusal: noSuchTransaction}
	// NotSure is that of a new primary to the commit of a transaction which it does not know, if an election ends its
	// question to the majority.
	NotSure = Fault{Lost: true, Answer: func(bson.Raw) bson.Raw {
		return marshal(bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: noSuchTransaction}, {Key: "codeName", Value: "NoSuchTransaction"},
			{Key: "errmsg", Value: "not known, says the proxy"}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: interrupted}, {Key: "errmsg", Value: "an election"}}}})
	}}
)

// ConcernError applies the command and adds the error of a write concern to its answer. A server does that to
// a commit, but not to other commands of a transaction.
func ConcernError(code int) Fault { return Fault{concern: code} }

// elections are the codes of a server that is not the primary, or will not be it for long.
var elections = []int{ShutdownInProgress, NotWritablePrimary, 189, 11600, 11602, 13435, 13436}

// of returns the fault with the answer that depends on the command.
func (f Fault) of(c Command) Fault {
	var labelled []bson.E
	if labels := labels(max(f.refusal, f.concern), c); len(labels) > 0 && !f.bare {
		labelled = []bson.E{{Key: "errorLabels", Value: labels}}
	}
	switch {
	case f.refusal != 0:
		f.Answer = func(bson.Raw) bson.Raw {
			return marshal(append(bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: f.refusal}, {Key: "errmsg", Value: "refused by the proxy"}}, labelled...))
		}
	case f.concern != 0:
		f.Answer = func(real bson.Raw) bson.Raw {
			if real.Lookup("code").Type != 0 {
				return real // an error of the command
			}
			concern := bson.D{{Key: "code", Value: f.concern}, {Key: "errmsg", Value: "an error of the write concern, by the proxy"}}
			return with(real, append([]bson.E{{Key: "writeConcernError", Value: concern}}, labelled...)...)
		}
	}
	return f
}

// labels returns the labels that a server adds to an error in answer to a command.
func labels(code int, c Command) bson.A {
	election := slices.Contains(elections, code)
	ends := c.Name == "commitTransaction" || c.Name == "abortTransaction"
	switch {
	case code == overloaded:
		return bson.A{"SystemOverloadedError", "RetryableError"}
	case code == noSuchTransaction:
		return bson.A{transient}
	case election && (ends || !c.InTransaction() && c.Body.Lookup("txnNumber").Type != 0):
		return bson.A{retryable}
	case c.InTransaction() && !ends && (election || code == WriteConflict), c.Name == "commitTransaction" && code == WriteConflict:
		return bson.A{transient}
	}
	return nil
}
