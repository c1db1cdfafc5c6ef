package mongopatterns_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// OutcomeOf judges the driver's errors by what was sent.
func TestOutcomeOf(t *testing.T) {
	const done, notDone, unknown = mongopatterns.Done, mongopatterns.NotDone, mongopatterns.Unknown
	concern := func(code int) error {
		return mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: code}}
	}
	refusal := mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}
	unsent := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	one := func(err error) error { _, err = fault.One(0, err); return err }
	many := func(err error) error { _, err = fault.Many(0, err); return err }
	bulk := func(err error, n int64) error {
		_, err = fault.Many(&mongo.BulkWriteResult{MatchedCount: n}, err)
		return err
	}
	single := func(err error) error {
		result := mongo.NewSingleResultFromDocument(struct{}{}, err, nil)
		result.Acknowledged = true
		return fault.Single(result).Err()
	}
	second := func(_ *mongo.UpdateResult, err error) error { return err }
	called := func(err error) error { fault.In(&err, "x.Call"); return err }
	for name, test := range map[string]struct {
		err  error
		want mongopatterns.Outcome
	}{
		"nil":                          {nil, done},
		"a foreign error":              {errors.New("boom"), unknown},
		"the driver's own":             {refusal, unknown},
		"an argument":                  {fault.Invalid("id"), notDone},
		"a sentinel":                   {fault.ErrNotFound, notDone},
		"a read's network error":       {mongo.CommandError{Labels: []string{"NetworkError"}}, notDone},
		"a read's time-out":            {context.DeadlineExceeded, notDone},
		"a refusal":                    {one(refusal), notDone},
		"a refused document":           {single(mongo.CommandError{Code: 121}), notDone},
		"nothing matches":              {single(mongo.ErrNoDocuments), notDone},
		"a refusal among many":         {many(refusal), unknown},
		"a bulk write of none":         {bulk(refusal, 0), notDone},
		"a bulk write of some":         {bulk(refusal, 1), unknown},
		"a repetition, overloaded":     {one(mongo.CommandError{Code: 462, Labels: []string{"SystemOverloadedError"}}), unknown},
		"a repetition, forgotten":      {one(mongo.CommandError{Code: 217}), unknown},
		"one, not sent":                {one(unsent), notDone},
		"a bulk write, not sent":       {bulk(unsent, 0), notDone},
		"its second half, not sent":    {bulk(unsent, 1), unknown},
		"a network's other error":      {one(&net.OpError{Op: "read", Err: io.EOF}), unknown},
		"no document":                  {one(mongo.ErrNilDocument), notDone},
		"no documents":                 {many(mongo.ErrEmptySlice), notDone},
		"cannot be encoded":            {one(mongo.MarshalError{Err: errors.New("x")}), notDone},
		"write concern 64":             {one(concern(64)), unknown},
		"write concern 79":             {one(concern(79)), unknown},
		"write concern 91":             {one(concern(91)), unknown},
		"write concern 100":            {one(concern(100)), unknown},
		"a command's 91":               {one(mongo.CommandError{Code: 91}), unknown},
		"a command's 11602":            {single(mongo.CommandError{Code: 11602}), unknown},
		"a retry's answer":             {one(mongo.CommandError{Code: 10107, Labels: []string{"RetryableWriteError"}}), unknown},
		"a retry's refusal":            {one(mongo.WriteException{WriteErrors: refusal.WriteErrors, Labels: []string{"RetryableWriteError"}}), unknown},
		"network":                      {one(mongo.CommandError{Labels: []string{"NetworkError"}}), unknown},
		"unacknowledged":               {second(fault.One(&mongo.UpdateResult{}, nil)), unknown},
		"time-out":                     {one(context.DeadlineExceeded), unknown},
		"cancelled":                    {single(context.Canceled), unknown},
		"after another write":          {fault.Unknown(fault.Invalid("item 7")), unknown},
		"aborted":                      {fault.NotDone(fmt.Errorf("insert: %w", one(context.Canceled))), notDone},
		"joined":                       {fault.Unknown(fault.ErrConflict), unknown},
		"aborted, called by a user":    {fmt.Errorf("save: %w", fault.NotDone(one(context.Canceled))), notDone},
		"two calls":                    {errors.Join(fault.ErrInvalid, one(context.Canceled)), unknown},
		"a foreign wrap of a sentinel": {fmt.Errorf("x: %w", fault.ErrConflict), unknown},
		"a foreign join":               {errors.Join(called(fault.ErrNotFound), context.DeadlineExceeded), unknown},
		"a foreign pair":               {fmt.Errorf("%w (%w)", mongo.CommandError{Code: 91}, called(fault.ErrNotFound)), unknown},
		"a foreign join of two calls":  {errors.Join(called(fault.ErrNotFound), called(fault.ErrConflict)), notDone},
		"a foreign join with unknown":  {errors.Join(called(fault.ErrNotFound), called(one(context.Canceled))), unknown},
	} {
		err := test.err
		if err != nil && !strings.HasPrefix(name, "a foreign") && !strings.HasPrefix(name, "the driver") {
			fault.In(&err, "x.Call")
			err = fmt.Errorf("user: %w", err)
		}
		if got := mongopatterns.OutcomeOf(err); got != test.want {
			t.Errorf("%s: %v is %v, want %v", name, err, got, test.want)
		}
	}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

// The driver's errors from before it sent anything are known by the names of their types: this fails if a version
// of the driver has other names.
func TestOutcomeOfWhatWasNotSent(t *testing.T) {
	t.Parallel()
	outcome := func(t *testing.T, ctx context.Context, coll *mongo.Collection) {
		t.Helper()
		_, err := fault.One(coll.InsertOne(ctx, bson.D{}))
		fault.In(&err, "x.Call")
		if got := mongopatterns.OutcomeOf(err); got != mongopatterns.NotDone {
			t.Errorf("%v is %v", err, got)
		}
	}
	connect := func(t *testing.T, opts *options.ClientOptions) *mongo.Collection {
		client := testkit.Must(mongo.Connect(opts))
		t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
		return client.Database("unsent").Collection("c")
	}
	t.Run("no server", func(t *testing.T) {
		opts := options.Client().ApplyURI("mongodb://127.0.0.1:1").SetServerSelectionTimeout(50 * time.Millisecond)
		outcome(t, t.Context(), connect(t, opts))
	})
	t.Run("nobody listens", func(t *testing.T) { // a primary has died, and the driver, which asks each 10 s, does not know it yet
		known, dead := make(chan struct{}), atomic.Bool{}
		var once sync.Once
		opts := options.Client().ApplyURI(mongotest.URI(t)).SetDialer(dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dead.Load() {
				address = "127.0.0.1:1"
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		})).SetServerMonitor(&event.ServerMonitor{ServerDescriptionChanged: func(e *event.ServerDescriptionChangedEvent) {
			if e.NewDescription.Kind != "Unknown" {
				once.Do(func() { close(known) })
			}
		}}).SetServerMonitoringMode("poll")
		coll := connect(t, opts)
		<-known
		dead.Store(true)
		outcome(t, t.Context(), coll)
	})
	t.Run("no login", func(t *testing.T) {
		p := proxy.New(t, mongotest.URI(t))
		p.HangUp("saslContinue", 1)
		outcome(t, t.Context(), connect(t, p.Options()))
	})
	t.Run("no connection", func(t *testing.T) {
		asked := make(chan struct{})
		monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "aggregate" {
				close(asked)
			}
		}}
		coll := connect(t, options.Client().ApplyURI(mongotest.URI(t)).SetMaxPoolSize(1).SetMonitor(monitor))
		long, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { // has the connection
			slow := bson.D{{Key: "$function", Value: bson.D{{Key: "body", Value: "function() { sleep(60000) }"}, {Key: "args", Value: bson.A{}}, {Key: "lang", Value: "js"}}}}
			one := mongo.Pipeline{{{Key: "$documents", Value: bson.A{bson.D{}}}}, {{Key: "$set", Value: bson.D{{Key: "x", Value: slow}}}}}
			_, _ = coll.Database().Aggregate(long, one)
		})
		<-asked
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		outcome(t, ctx, coll)
		stop()
		group.Wait()
	})
}

// Recording costs nothing for a call that succeeds.
func TestRecordingAllocatesNothing(t *testing.T) {
	result := &mongo.UpdateResult{Acknowledged: true}
	document := mongo.NewSingleResultFromDocument(struct{}{}, nil, nil)
	document.Acknowledged = true
	if n := testing.AllocsPerRun(100, func() {
		_, _ = fault.One(result, nil)
		_, _ = fault.Many(result, nil)
		_ = fault.Single(document)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
