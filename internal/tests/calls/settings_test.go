package calls_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// clientSettings are those of a client that docs/settings.md says do no harm.
var clientSettings = map[string]func(o *options.ClientOptions){
	"maxPoolSize":      func(o *options.ClientOptions) { o.SetMaxPoolSize(1) },
	"compressors":      func(o *options.ClientOptions) { o.SetCompressors([]string{"zstd"}) },
	"retryWrites":      func(o *options.ClientOptions) { o.SetRetryWrites(false) },
	"retryReads":       func(o *options.ClientOptions) { o.SetRetryReads(false) },
	"directConnection": func(o *options.ClientOptions) { o.SetDirect(true) },
	"readPreference":   func(o *options.ClientOptions) { o.SetReadPreference(readpref.SecondaryPreferred()) },
	"readConcern":      func(o *options.ClientOptions) { o.SetReadConcern(readconcern.Majority()) },
	"serverApi": func(o *options.ClientOptions) {
		o.SetServerAPIOptions(options.ServerAPI("1").SetStrict(true).SetDeprecationErrors(true))
	},
	"monitor": func(o *options.ClientOptions) {
		o.SetMonitor(&event.CommandMonitor{Started: func(context.Context, *event.CommandStartedEvent) { time.Sleep(time.Millisecond) }})
	},
}

// Under each setting each call does nothing in a context that has ended, otherwise its work, and all its commands carry its
// name. A part has the first row of each method, and a small run has a third of these under all settings together.
func TestSettings(t *testing.T) {
	rows := slices.Concat(registry.Writes(), registry.Reads(), registry.Indexes(t))
	cases := clientSettings
	if !scale.Whole() {
		rows = registry.Firsts(rows)
	}
	if together := scale.Of(true, false, false); together {
		cases = map[string]func(o *options.ClientOptions){"together": func(o *options.ClientOptions) {
			for _, set := range clientSettings {
				set(o)
			}
		}}
	}
	for name, set := range cases {
		o := options.Client()
		set(o)
		t.Run(name, func(t *testing.T) {
			inTurn(t, third(rows), 1, func(t *testing.T, dbs []*mongo.Database, r registry.Row) {
				db := dbs[0]
				c := r.Start(&registry.Scene{T: t, DB: db})
				doneNothing(t, db, c)
				commented(t, r, mongotest.Record(t, db, func() {
					_, err := c.Do(t.Context())
					testkit.OK(t, err)
				}))
				if c.Settle != nil {
					testkit.OK(t, c.Settle(t.Context()))
				}
				testkit.Healthy(t, c.Check...)
			}, o)
		})
	}
}

// doneNothing makes a call in a context that has ended. Its outcome may be Unknown: the driver does not say that it has
// sent nothing.
func doneNothing(t *testing.T, db *mongo.Database, c registry.Call) {
	t.Helper()
	before := everything(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Do(ctx); !errors.Is(err, context.Canceled) || mongopatterns.OutcomeOf(err) == mongopatterns.Done {
		t.Errorf("in a context that has ended: %v: %v", mongopatterns.OutcomeOf(err), err)
	}
	testkit.Same(t, "stored in a context that has ended", before, everything(t, db))
}

// commented fails t for a command of r's call that carries another comment than its name.
func commented(t *testing.T, r registry.Row, cmds mongotest.Commands) {
	t.Helper()
	for _, cmd := range cmds {
		got, has := cmd.Body.Lookup("comment").StringValueOK()
		if want := commentOf(r); got != want && (has || !slices.Contains(append(uncommented, ofTheRow[r.Method()]), cmd.Name)) {
			t.Errorf("%s carries %q, not %q", cmd.Name, got, want)
		}
	}
}

// With w: 1, a call does its work. Without an answer to its write, a call returns an error that says so, and what it has done
// is unknown. In a transaction each write is answered.
func TestWriteConcerns(t *testing.T) {
	for name, call := range writings {
		for w, unanswered := range map[*writeconcern.WriteConcern]bool{writeconcern.W1(): false, writeconcern.Unacknowledged(): true} {
			t.Run(fmt.Sprint(name, " with w: ", w.W), func(t *testing.T) {
				db := mongotest.Database(t)
				start(t, db)
				before := everything(t, db)
				coll := mongotest.Database(t, options.Client().SetWriteConcern(w)).Client().Database(db.Name()).Collection
				err := call(t.Context(), coll("c"), coll("d"), "v")
				if err == nil && everything(t, db) == before {
					t.Error("nothing is written")
				}
				if err != nil && !(unanswered && mongopatterns.OutcomeOf(err) == mongopatterns.Unknown && strings.Contains(err.Error(), "acknowledge")) {
					t.Errorf("%v: %v", mongopatterns.OutcomeOf(err), err)
				}
			})
		}
	}
}
