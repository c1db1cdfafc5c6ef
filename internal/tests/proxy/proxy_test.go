package proxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fixture is a document that a client changes through the proxy and another reads without it.
type fixture struct {
	*testing.T
	p       *proxy.Proxy
	through *mongo.Collection
	direct  *mongo.Collection
}

func begin(t *testing.T) *fixture {
	p := proxy.New(t, mongotest.URI(t))
	through := mongotest.Database(t, p.Options()).Collection("a")
	direct := mongotest.Database(t).Client().Database(through.Database().Name()).Collection("a")
	if _, err := direct.InsertOne(t.Context(), bson.M{"_id": 1, "n": 0}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Break(nil) }) // the database is dropped through it
	return &fixture{t, p, through, direct}
}

func (f *fixture) add(ctx context.Context) error {
	_, err := f.through.UpdateByID(ctx, 1, bson.M{"$inc": bson.M{"n": 1}})
	return err
}

// stored is n once the server has done all that it got.
func (f *fixture) stored() int {
	f.Helper()
	f.p.Settle()
	var doc struct{ N int }
	if err := f.direct.FindOne(f.Context(), bson.M{"_id": 1}).Decode(&doc); err != nil {
		f.Fatal(err)
	}
	return doc.N
}

// Each fault has the client see what it says, and the server do what it says.
func TestFaults(t *testing.T) {
	network := mongo.IsNetworkError
	none := func(err error) bool { return err == nil }
	code := func(code int) func(error) bool {
		return func(err error) bool {
			var server mongo.ServerError
			return errors.As(err, &server) && server.HasErrorCode(code)
		}
	}
	concern := func(err error) bool {
		var write mongo.WriteException
		return errors.As(err, &write) && write.WriteConcernError != nil && write.WriteConcernError.Code == proxy.WriteConcernTimeout
	}
	for name, test := range map[string]struct {
		faults []proxy.Fault
		want   func(error) bool
		stored int
	}{
		"closed before":             {[]proxy.Fault{proxy.CloseBefore}, none, 1},
		"closed after":              {[]proxy.Fault{proxy.CloseAfter}, none, 1},
		"closed before twice":       {[]proxy.Fault{proxy.CloseBefore, proxy.CloseBefore}, network, 0},
		"closed after twice":        {[]proxy.Fault{proxy.CloseAfter, proxy.CloseAfter}, network, 1},
		"concern":                   {[]proxy.Fault{proxy.ConcernError(proxy.WriteConcernTimeout)}, concern, 1},
		"concern that is retryable": {[]proxy.Fault{proxy.ConcernError(proxy.ShutdownInProgress)}, none, 1},
		"not primary":               {[]proxy.Fault{proxy.Refuse(proxy.NotWritablePrimary)}, none, 1},
		"not primary twice":         {[]proxy.Fault{proxy.Refuse(proxy.NotWritablePrimary), proxy.Refuse(proxy.NotWritablePrimary)}, code(proxy.NotWritablePrimary), 0},
		"not primary, no labels":    {[]proxy.Fault{proxy.RefuseBare(proxy.NotWritablePrimary)}, code(proxy.NotWritablePrimary), 0},
		"applied, then not primary": {[]proxy.Fault{proxy.CloseAfter, proxy.Refuse(proxy.NotWritablePrimary)}, func(err error) bool { return err != nil }, 1},
		"conflict":                  {[]proxy.Fault{proxy.Refuse(proxy.WriteConflict)}, code(proxy.WriteConflict), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := begin(t)
			f.p.Break(proxy.Nth("update", "a", 1, test.faults...))
			if err := f.add(t.Context()); err != nil {
				t.Fatal("the first command:", err)
			}
			if err := f.add(t.Context()); !test.want(err) {
				t.Error(err)
			}
			if got := f.stored(); got != 1+test.stored {
				t.Errorf("stored %d, want %d", got-1, test.stored)
			}
			if err := f.add(t.Context()); err != nil {
				t.Error("the command after:", err)
			}
		})
	}
}

// Without an answer the call ends with its context, whether the command was applied or not.
func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		fault  proxy.Fault
		stored int
	}{"before": {proxy.SilentBefore, 0}, "after": {proxy.SilentAfter, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := begin(t)
			if err := f.add(t.Context()); err != nil { // connect
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			fault := test.fault
			fault.After = cancel
			f.p.Break(proxy.Nth("update", "a", 0, fault))
			if err := f.add(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if got := f.stored(); got != 1+test.stored {
				t.Errorf("stored %d, want %d", got-1, test.stored)
			}
		})
	}
}

// A refused command ends the transaction on the server, and the driver runs it again.
func TestTransactions(t *testing.T) {
	t.Parallel()
	f := begin(t)
	session, err := f.through.Database().Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	for name, rule := range map[string]proxy.Rule{
		"conflict at the first command":  proxy.Nth("update", "a", 0, proxy.Refuse(proxy.WriteConflict)),
		"conflict at the second command": proxy.Nth("update", "a", 1, proxy.Refuse(proxy.WriteConflict)),
		"conflict at the commit":         proxy.Nth("commitTransaction", "", 0, proxy.Refuse(proxy.WriteConflict)),
		"election at the second command": proxy.Nth("update", "a", 1, proxy.Refuse(proxy.NotWritablePrimary)),
	} {
		before, runs := f.stored(), 0
		f.p.Break(rule)
		_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			if runs++; runs == 2 {
				// The first run holds no lock any more.
				if _, err := f.direct.UpdateByID(t.Context(), 1, bson.M{"$inc": bson.M{"n": 10}}); err != nil {
					t.Error(err)
				}
			}
			return nil, errors.Join(f.add(ctx), f.add(ctx))
		})
		if got := f.stored() - before; err != nil || runs != 2 || got != 12 {
			t.Errorf("%s: %d runs, %d added, %v", name, runs, got, err)
		}
	}

	// A commit without an answer is sent again, and then known.
	f.p.Break(proxy.Nth("commitTransaction", "", 0, proxy.CloseAfter, proxy.CloseAfter))
	before, runs := f.stored(), 0
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) { runs++; return nil, f.add(ctx) })
	if got := f.stored() - before; err != nil || runs != 1 || got != 1 {
		t.Errorf("%d runs, %d added, %v", runs, got, err)
	}
	if len(f.p.Sessions()) == 0 {
		t.Error("no session was seen")
	}
}

// Close leaves nothing behind, also while the driver's monitor waits for an answer.
func TestClose(t *testing.T) {
	f := begin(t)
	if err := f.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.p.Break(proxy.Each("update", proxy.SilentAfter))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := f.add(ctx); !mongo.IsTimeout(err) {
		t.Error(err)
	}
	other := proxy.New(t, mongotest.URI(t))
	other.Close()
	other.Close()
}
