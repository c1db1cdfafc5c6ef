package mongotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// failing is a testing.TB that collects what a helper of this package logs and fails with.
type failing struct {
	testing.TB
	said, failed string
	cleanups     []func()
}

func (f *failing) Helper()           {}
func (f *failing) Log(args ...any)   { f.said += fmt.Sprint(args...) }
func (f *failing) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *failing) Fatal(args ...any) {
	f.failed += fmt.Sprint(args...)
	panic(f)
}
func (f *failing) Fatalf(format string, args ...any) {
	f.Fatal(fmt.Sprintf(format, args...))
}
func (f *failing) Errorf(format string, args ...any) {
	f.failed += fmt.Sprintf(format, args...) + "\n"
}

// fails calls fn with a failing TB, and returns how it failed.
func fails(t *testing.T, fn func(t testing.TB)) (failed string) {
	t.Helper()
	f := &failing{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(f) {
			panic(p)
		}
		failed = f.failed
	}()
	fn(f)
	return f.failed
}

// looksOften is for a client that loses its server: it looks for it again soon, even if it misses that it is back.
// The default of the driver is 10 s.
func looksOften() *options.ClientOptions {
	return options.Client().SetHeartbeatInterval(500 * time.Millisecond)
}

// A fail point fails the commands of one client as often as asked, until its test ends.
func TestFailPoint(t *testing.T) {
	t.Parallel()
	db, other := Database(t, looksOften()), Database(t)
	insert := func(db *mongo.Database) error {
		_, err := db.Collection("c").InsertOne(t.Context(), bson.D{})
		return err
	}
	t.Run("code", func(t *testing.T) {
		FailPoint(t, db, Fail{Commands: []string{"insert"}, Times: 2, Code: 13})
		for _, times := range []int{1, 2, 3} {
			var refused mongo.ServerError
			if err := insert(db); (times <= 2) != (errors.As(err, &refused) && refused.HasErrorCode(13)) {
				t.Errorf("insert %d: %v", times, err)
			}
		}
		FailPoint(t, db, Fail{Commands: []string{"insert"}, Code: 112, Labels: []string{"TransientTransactionError"}}) // replaces the first
		for range 3 {
			var refused mongo.ServerError
			if err := insert(db); !errors.As(err, &refused) || !refused.HasErrorLabel("TransientTransactionError") {
				t.Error(err)
			}
			if err := insert(other); err != nil {
				t.Error("another client: ", err)
			}
		}
	})
	if err := insert(db); err != nil {
		t.Error("after the test of the fail point: ", err)
	}
	t.Run("stop", func(t *testing.T) {
		stop := FailPoint(t, db, Fail{Commands: []string{"insert"}, Code: 13})
		if insert(db) == nil {
			t.Error("it does not fail")
		}
		stop()
		if err := insert(db); err != nil {
			t.Error("after stop: ", err)
		}
	})
	t.Run("skip", func(t *testing.T) {
		FailPoint(t, db, Fail{Commands: []string{"insert"}, Skip: 1, Code: 13})
		if first, second := insert(db), insert(db); first != nil || second == nil {
			t.Error(first, second)
		}
	})
	t.Run("write concern", func(t *testing.T) {
		FailPoint(t, db, Fail{Commands: []string{"insert"}, Times: 1, WriteConcernCode: 64})
		var refused mongo.WriteException
		if err := insert(db); !errors.As(err, &refused) || refused.WriteConcernError == nil {
			t.Error(err)
		}
	})
	t.Run("close", func(t *testing.T) {
		FailPoint(t, db, Fail{Commands: []string{"insert"}, Close: true})
		if err := insert(db); !mongo.IsNetworkError(err) {
			t.Error(err)
		}
	})
	t.Run("block", func(t *testing.T) {
		FailPoint(t, db, Fail{Commands: []string{"insert"}, Block: 2 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := db.Collection("c").InsertOne(ctx, bson.D{}); !mongo.IsTimeout(err) {
			t.Error(err)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		for text, fail := range map[string]Fail{
			"Commands":       {Code: 1},
			"Skip and Times": {Commands: []string{"x"}, Code: 1, Skip: 1, Times: 1},
			"Code":           {Commands: []string{"x"}},
			"negative":       {Commands: []string{"x"}, Code: 1, Times: -1},
		} {
			if got := fails(t, func(t testing.TB) { FailPoint(t, db, fail) }); !strings.Contains(got, text) {
				t.Errorf("%s: %q", text, got)
			}
		}
		foreign, err := mongo.Connect()
		if err != nil {
			t.Fatal(err)
		}
		if got := fails(t, func(t testing.TB) { FailPoint(t, foreign.Database("x"), Fail{}) }); !strings.Contains(got, "mongotest.Database") {
			t.Error(got)
		}
	})
}

// The helpers of a test that send commands serve a client whose API is strict.
func TestStrictAPI(t *testing.T) {
	t.Parallel()
	strict := options.ServerAPI(options.ServerAPIVersion1).SetStrict(true)
	db := Database(t, options.Client().SetServerAPIOptions(strict))
	FailPoint(t, db, Fail{Commands: []string{"insert"}, Times: 1, Code: 13})
	_, err := db.Collection("orders").InsertOne(t.Context(), bson.D{})
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorCode(13) {
		t.Error(err)
	}
	if engine := Engine(t, db); engine != "mongodb" {
		t.Error(engine)
	}
}

// Tests that have a fail point run one after the other; one inside another fails.
func TestFailPointsTakeTurns(t *testing.T) {
	t.Parallel()
	server, other := &Server{}, &Server{}
	if first, err := claim(server, "TestA"); !first || err != nil {
		t.Fatal(first, err)
	}
	if first, err := claim(server, "TestA"); first || err != nil {
		t.Error("its own, again: ", first, err)
	}
	if _, err := claim(server, "TestA/part"); err == nil {
		t.Error("a part of the test waits for it")
	}
	if first, err := claim(other, "TestB"); !first || err != nil {
		t.Error("another server: ", first, err)
	}
	var mu sync.Mutex
	var order []string
	note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
	waited := make(chan error)
	go func() {
		_, err := claim(server, "TestAB")
		note("second")
		waited <- err
	}()
	note("first")
	letGo(server)
	if err := <-waited; err != nil || strings.Join(order, " ") != "first second" {
		t.Error(err, order)
	}
	letGo(server)
	letGo(other)
}

// A recording without a command says why that may be.
func TestRecordNothing(t *testing.T) {
	t.Parallel()
	db, other := Database(t), Database(t)
	f := &failing{TB: t}
	cmds := Record(f, db, func() {
		if err := other.Client().Ping(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(f.said, "another client") {
		t.Errorf("said %q", f.said)
	}
	cmds.RequireRoundTrips(t, 0)
	if got := fails(t, func(t testing.TB) { cmds.RequireRoundTrips(t, 1) }); !strings.Contains(got, "0 round trips, want 1: ") || !strings.Contains(got, "another client") {
		t.Error(got)
	}
	f = &failing{TB: t}
	cmds = Record(f, db, func() {
		_ = db.Client().Ping(t.Context(), nil)
		_, _ = db.Collection("c").InsertOne(t.Context(), bson.D{})
	})
	if f.said != "" {
		t.Errorf("said %q", f.said)
	}
	cmds.RequireRoundTrips(t, 2)
	if got := fails(t, func(t testing.TB) { cmds.RequireRoundTrips(t, 1) }); got != "mongotest: 2 round trips, want 1: ping, insert" {
		t.Error(got)
	}
}

// The line about the server has no password.
func TestIntroduce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	(&Server{URI: "mongodb://ann:secret@db:27017/?tls=true", Engine: "mongodb", Version: "8.0.1", kind: "of MONGODB_URI"}).introduce(&out)
	if got := out.String(); !strings.HasPrefix(got, "mongotest: mongodb 8.0.1, of MONGODB_URI, at mongodb://") || strings.Contains(got, "secret") || strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
	if server := sharedServer(t); server.kind == "" {
		t.Errorf("%+v", server)
	}
}
