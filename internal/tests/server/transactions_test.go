package server_test

import (
	"context"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// hello is what the server says of itself.
func (s *server) hello() bson.Raw { return testkit.Must(s.admin("hello", 1)) }

// replicated skips a row on a standalone server.
func (s *server) replicated() {
	hello := s.hello()
	if msg, _ := hello.Lookup("msg").StringValueOK(); hello.Lookup("setName").Type == 0 && msg != "isdbgrid" {
		s.skip("a standalone server has no transactions")
	}
}

// sharded shards the row's collection, or skips the row.
func (s *server) sharded(key bson.D) {
	if msg, _ := s.hello().Lookup("msg").StringValueOK(); msg != "isdbgrid" {
		s.skip("the server is no cluster")
	}
	_, err := s.admin("shardCollection", s.db.Name()+"."+s.c.Name(), "key", key)
	s.may(err)
}

// session is one whose transactions the row numbers itself. It does not go back to the client, which would number its
// own transactions from less.
func (s *server) session() *mongo.Session {
	s.replicated()
	session := testkit.Must(s.db.Client().StartSession(options.Session().SetCausalConsistency(false)))
	s.t.Cleanup(func() {
		_ = testkit.ErrorOf(s.db.Client().Database("admin").RunCommand(context.Background(), expr.D("endSessions", bson.A{session.ID()})).Raw())
	})
	return session
}

// number is that of transaction or write n of a session, beyond those that the client has used.
func number(n int64) int64 { return 1<<40 + n }

// within sends a command of transaction n of a session, first if it begins it.
func (s *server) within(session *mongo.Session, n int64, first bool, pairs ...any) (bson.Raw, error) {
	command := append(expr.D(pairs...), expr.D("txnNumber", number(n), "autocommit", false)...)
	if first {
		command = append(command, expr.D("startTransaction", true, "readConcern", expr.D("level", "snapshot"))...)
	}
	db := s.db
	if name := command[0].Key; strings.HasSuffix(name, "Transaction") {
		db = s.db.Client().Database("admin")
	}
	return db.RunCommand(mongo.NewSessionContext(s.t.Context(), session), command).Raw()
}

// raise is an update of document 1.
func (s *server) raise() []any {
	return []any{"update", s.c.Name(), "updates", bson.A{expr.D("q", expr.D("_id", 1), "u", expr.Op("$inc", expr.D("v", 1)))}}
}

func (s *server) finds() []any { return []any{"find", s.c.Name()} }

// documents is the command by which package txn begins a later transaction.
func documents() []any {
	return []any{"aggregate", 1, "pipeline", bson.A{expr.Op("$documents", bson.A{})}, "cursor", bson.D{}}
}

// free says whether document 1 can be written within a second.
func (s *server) free() string {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	if _, err := s.c.UpdateOne(ctx, expr.D("_id", 1), expr.Op("$set", expr.D("w", 1))); err != nil {
		return "the document is locked"
	}
	return "the document is free"
}

// labelled is a refusal with the labels by which it is judged.
func labelled(err error) string {
	out := refusal(err)
	for _, label := range []string{"TransientTransactionError", "UnknownTransactionCommitResult", "RetryableWriteError"} {
		if e, ok := err.(mongo.ServerError); ok && e.HasErrorLabel(label) {
			out += ", " + label
		}
	}
	return out
}

func (s *server) abort(session *mongo.Session, n int64) {
	_, _ = s.within(session, n, false, "abortTransaction", 1)
}

var transactions = []row{
	{"a transaction on a standalone server: the code and the words of the refusal", "20 and Transaction numbers", "internal/txn mongopatterns",
		func(s *server) any {
			if hello := s.hello(); hello.Lookup("setName").Type != 0 || hello.Lookup("msg").Type != 0 {
				s.skip("the server is no standalone")
			}
			session := testkit.Must(s.db.Client().StartSession())
			defer session.EndSession(context.Background())
			_, err := s.within(session, 1, true, s.finds()...)
			if e, ok := err.(mongo.ServerError); ok && e.HasErrorCodeWithMessage(20, "Transaction numbers") {
				return "20 and Transaction numbers"
			}
			return err
		}},
	{"a write to what another transaction has written", "a refusal with 112 WriteConflict, TransientTransactionError", "internal/txn tree versioning",
		func(s *server) any {
			s.numbered(1)
			one, two := s.session(), s.session()
			_ = testkit.Must(s.within(one, 1, true, s.raise()...))
			defer s.abort(one, 1)
			_, err := s.within(two, 1, true, s.raise()...)
			return labelled(err)
		}},
	{"a write to what another has written since the snapshot", "a refusal with 112 WriteConflict, TransientTransactionError", "internal/txn internal/hold tree versioning",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_ = testkit.Must(s.within(session, 1, true, s.finds()...))
			defer s.abort(session, 1)
			s.free()
			_, err := s.within(session, 1, false, s.raise()...)
			return labelled(err)
		}},
	{"a set and an unset of a field in one transaction, of what another has written meanwhile", "the other one is refused", "internal/hold tree subset split relation",
		func(s *server) any {
			s.numbered(1)
			one, two := s.session(), s.session()
			_ = testkit.Must(s.within(two, 1, true, s.finds()...))
			defer s.abort(two, 1)
			mark := func(u bson.D) bson.D { return expr.D("q", expr.D("_id", 1), "u", u) }
			_ = testkit.Must(s.within(one, 1, true, "update", s.c.Name(), "updates", bson.A{mark(expr.Op("$set", expr.D("t", 1))), mark(expr.Op("$unset", expr.D("t", "")))}))
			_ = testkit.Must(s.within(one, 1, false, "commitTransaction", 1))
			_, err := s.within(two, 1, false, s.raise()...)
			if labelled(err) == "a refusal with 112 WriteConflict, TransientTransactionError" {
				return "the other one is refused"
			}
			return labelled(err)
		}},
	{"a command after a duplicate key in a transaction", "a refusal with 251 NoSuchTransaction, TransientTransactionError", "internal/windows internal/txn tree",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_, _ = s.within(session, 1, true, "insert", s.c.Name(), "documents", bson.A{expr.D("_id", 1)})
			_, err := s.within(session, 1, false, s.finds()...)
			return labelled(err)
		}},
	{"a commit of a transaction that is aborted", "a refusal with 251 NoSuchTransaction, TransientTransactionError", "internal/txn",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_ = testkit.Must(s.within(session, 1, true, s.raise()...))
			s.abort(session, 1)
			_, err := s.within(session, 1, false, "commitTransaction", 1)
			return labelled(err)
		}},
	{"a commit that is sent again", "yes", "internal/txn",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_ = testkit.Must(s.within(session, 1, true, s.raise()...))
			_ = testkit.Must(s.within(session, 1, false, "commitTransaction", 1))
			_, err := s.within(session, 1, false, "commitTransaction", 1)
			return refusal(err)
		}},
	{"an abort of a transaction that the server does not know: whether it is an answer", "true", "internal/txn internal/fault",
		func(s *server) any {
			_, err := s.within(s.session(), 7, false, "abortTransaction", 1)
			return fault.ServerDidNothing(err)
		}},
	{"a later transaction of a session, of $documents: whether it ends the earlier one", "the document is free", "internal/txn",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_ = testkit.Must(s.within(session, 1, true, s.raise()...))
			_ = testkit.Must(s.within(session, 2, true, documents()...))
			defer s.abort(session, 2)
			return s.free()
		}},
	{"a late first command of the earlier transaction", "a refusal with 225 TransactionTooOld", "internal/txn",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_ = testkit.Must(s.within(session, 2, true, documents()...))
			s.abort(session, 2)
			_, err := s.within(session, 1, true, s.raise()...)
			return refusal(err)
		}},
	{"killSessions of a session with a transaction", "the document is free", "internal/txn",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			_ = testkit.Must(s.within(session, 1, true, s.raise()...))
			_, err := s.admin("killSessions", bson.A{session.ID()})
			s.may(err)
			return s.free()
		}},
	{"a collection that a transaction writes first", "yes", "internal/txn mongopatterns",
		func(s *server) any {
			session := s.session()
			_, err := s.within(session, 1, true, "insert", s.c.Name(), "documents", bson.A{bson.D{}})
			s.abort(session, 1)
			return refusal(err)
		}},
	{"$lookup and $graphLookup in a transaction, not sharded", "yes, yes", "tree outlier split versioning subset",
		func(s *server) any {
			s.chain()
			session := s.session()
			run := func(n int64, stage bson.D) string {
				_, err := s.within(session, n, true, "aggregate", s.c.Name(), "pipeline", bson.A{stage}, "cursor", bson.D{})
				s.abort(session, n)
				return refusal(err)
			}
			return run(1, s.lookup("v", "_id")) + ", " + run(2, s.up("$v"))
		}},
	{"$graphLookup of a sharded collection in a transaction: whether the refusal is one after which Tree reads level by level", "yes", "tree",
		func(s *server) any {
			s.sharded(expr.D("_id", 1))
			s.chain()
			session := s.session()
			_, err := s.within(session, 1, true, "aggregate", s.c.Name(), "pipeline", bson.A{s.up("$v")}, "cursor", bson.D{})
			s.abort(session, 1)
			if e, ok := err.(mongo.ServerError); ok && (e.HasErrorCode(3904801) || e.HasErrorCodeWithMessage(20, "$graphLookup")) {
				return "yes"
			}
			return refusal(err)
		}},
	{"an upsert without the shard key", "a refusal with 61", "internal/windows",
		func(s *server) any {
			s.sharded(expr.D("v", 1))
			return testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$inc", expr.D("w", 1)), options.UpdateOne().SetUpsert(true)))
		}},
	{"whether a transaction in the same session sees each write that is acknowledged before it", "yes", "internal/txn",
		func(s *server) any {
			s.replicated()
			s.numbered(0)
			session := testkit.Must(s.db.Client().StartSession())
			defer session.EndSession(context.Background())
			in := mongo.NewSessionContext(s.t.Context(), session)
			for i := range 20 {
				_ = testkit.Must(s.c.UpdateOne(in, expr.D("_id", 1), expr.Op("$inc", expr.D("v", 1))))
				seen, err := session.WithTransaction(s.t.Context(), func(in context.Context) (any, error) { return stored(s.c.FindOne(in, bson.D{})), nil })
				if err != nil || text(seen) != text(i+1) {
					return text(seen) + " after " + text(i+1)
				}
			}
			return "yes"
		}},
	{"a write that is sent again with its number: whether it is done once", "1 and v of 2", "internal/fault internal/txn",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			var n bson.RawValue
			for range 2 {
				raw := testkit.Must(s.db.RunCommand(mongo.NewSessionContext(s.t.Context(), session), append(expr.D(s.raise()...), expr.D("txnNumber", number(1))...)).Raw())
				n = raw.Lookup("n")
			}
			return text(n) + " and v of " + text(stored(s.c.FindOne(s.t.Context(), bson.D{})))
		}},
	{"findAndModify that is sent again with its number: the field of its first answer", "1", "computed extref tree",
		func(s *server) any {
			s.numbered(1)
			session := s.session()
			var v bson.RawValue
			for range 2 {
				command := expr.D("findAndModify", s.c.Name(), "query", expr.D("_id", 1), "update", expr.Op("$inc", expr.D("v", 1)), "fields", expr.D("v", 1), "txnNumber", number(1))
				v = testkit.Must(s.db.RunCommand(mongo.NewSessionContext(s.t.Context(), session), command).Raw()).Lookup("value", "v")
			}
			return v
		}},
}
