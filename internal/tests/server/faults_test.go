package server_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// fails sets a fail point, and skips the row if the server has none, or is mongotest's router, which takes them and
// fails nothing.
func (s *server) fails(f mongotest.Fail) {
	if _, err := s.admin("configureFailPoint", "failCommand", "mode", "off"); err != nil {
		s.skip("the server has no fail points (--setParameter enableTestCommands=1)")
	}
	s.t.Cleanup(mongotest.FailPoint(s.t, s.db, mongotest.Fail{Commands: []string{"ping"}, Times: 1, Code: 13}))
	if _, err := s.run("ping", 1); err == nil {
		s.skip("the server takes fail points and fails no command")
	}
	mongotest.FailPoint(s.t, s.db, f)
}

// raised raises v of document 1 from 1 by the driver, which repeats a write, and says what it answers and what is stored.
func (s *server) raised() string {
	_, err := s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$inc", expr.D("v", 1)))
	return fmt.Sprintf("%s, and v of %s", labelled(err), text(stored(s.c.FindOne(s.t.Context(), bson.D{}))))
}

var faults = []row{
	{"a fail point with a code and labels: whether the error has both", "a refusal with 112 WriteConflict, TransientTransactionError", "mongotest",
		func(s *server) any {
			s.fails(mongotest.Fail{Commands: []string{"find"}, Times: 1, Code: 112, Labels: []string{"TransientTransactionError"}})
			return labelled(testkit.ErrorOf(s.run("find", s.c.Name())))
		}},
	{"a fail point that skips one command", "yes, a refusal with 13 Unauthorized", "mongotest",
		func(s *server) any {
			s.fails(mongotest.Fail{Commands: []string{"find"}, Skip: 1, Code: 13})
			first := testkit.ErrorOf(s.run("find", s.c.Name()))
			return refusal(first) + ", " + refusal(testkit.ErrorOf(s.run("find", s.c.Name())))
		}},
	{"a fail point that makes a command wait", "yes, later", "mongotest",
		func(s *server) any {
			s.fails(mongotest.Fail{Commands: []string{"find"}, Times: 1, Block: 100 * time.Millisecond})
			start := time.Now()
			err := testkit.ErrorOf(s.run("find", s.c.Name()))
			if err == nil && time.Since(start) > 90*time.Millisecond {
				return "yes, later"
			}
			return refusal(err)
		}},
	{"a write whose connection is closed before it: whether the driver's repetition does it", "yes, and v of 2", "internal/fault mongotest",
		func(s *server) any {
			s.replicated()
			s.numbered(1)
			s.fails(mongotest.Fail{Commands: []string{"update"}, Times: 1, Close: true})
			return s.raised()
		}},
	{"a write that is done and answered with an error of the write concern that passes: whether the repetition does it again", "yes, and v of 2", "internal/fault mongotest",
		func(s *server) any {
			s.replicated()
			s.numbered(1)
			s.fails(mongotest.Fail{Commands: []string{"update"}, Times: 1, WriteConcernCode: 91})
			return s.raised()
		}},
	{"a write refused with NotWritablePrimary: does its label make the driver send it again", "yes, and v of 2", "internal/fault",
		func(s *server) any {
			s.replicated()
			s.numbered(1)
			s.fails(mongotest.Fail{Commands: []string{"update"}, Times: 1, Code: 10107})
			return s.raised()
		}},
	{"a write that is done and answered with another error of the write concern: the code, and that it is not taken for undone", "64, false", "internal/fault",
		func(s *server) any {
			s.numbered(1)
			s.fails(mongotest.Fail{Commands: []string{"update"}, Times: 1, WriteConcernCode: 64})
			_, err := s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$inc", expr.D("v", 1)))
			e, ok := err.(mongo.WriteException)
			if !ok || e.WriteConcernError == nil {
				return err
			}
			return fmt.Sprintf("%d, %t", e.WriteConcernError.Code, fault.ServerDidNothing(err))
		}},
	{"a commit that is done and answered with an error of the write concern: whether it is taken for undone", "false", "internal/txn internal/fault",
		func(s *server) any {
			session := s.session()
			s.numbered(1)
			s.fails(mongotest.Fail{Commands: []string{"commitTransaction"}, Times: 1, WriteConcernCode: 100})
			_ = testkit.Must(s.within(session, 1, true, s.raise()...))
			_, err := s.within(session, 1, false, "commitTransaction", 1)
			if err == nil {
				return "no error"
			}
			return fault.ServerDidNothing(err)
		}},
	{"a commit refused with ShutdownInProgress: does its label say that the outcome is unknown", "a refusal with 91 ShutdownInProgress, UnknownTransactionCommitResult", "internal/txn internal/fault",
		func(s *server) any {
			s.numbered(1)
			s.replicated()
			s.fails(mongotest.Fail{Commands: []string{"commitTransaction"}, Times: 2, Code: 91})
			session := testkit.Must(s.db.Client().StartSession())
			defer session.EndSession(context.Background())
			testkit.OK(s.t, session.StartTransaction())
			in := mongo.NewSessionContext(s.t.Context(), session)
			_ = testkit.Must(s.c.UpdateOne(in, expr.D("_id", 1), expr.Op("$inc", expr.D("v", 1))))
			err := session.CommitTransaction(in)
			testkit.OK(s.t, session.CommitTransaction(in)) // it would stay open
			if fault.CommitUncertain(err) {
				return refusal(err) + ", UnknownTransactionCommitResult"
			}
			return labelled(err)
		}},
}
