package calls_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

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
	"w: 1":             func(o *options.ClientOptions) { o.SetWriteConcern(writeconcern.W1()) },
	"serverApi: strict": func(o *options.ClientOptions) {
		o.SetServerAPIOptions(options.ServerAPI("1").SetStrict(true).SetDeprecationErrors(true))
	},
	"monitor": func(o *options.ClientOptions) {
		o.SetMonitor(&event.CommandMonitor{Started: func(context.Context, *event.CommandStartedEvent) { time.Sleep(time.Millisecond) }})
	},
}

// Each call does its work under each setting; in a small run, the first row of each method under all together.
func TestSettings(t *testing.T) {
	rows := slices.Concat(registry.Writes(), registry.Reads(), registry.Indexes(t))
	cases := clientSettings
	if !scale.Whole() {
		rows = slices.CompactFunc(rows, func(a, b registry.Row) bool { return a.Method() == b.Method() })
		cases = map[string]func(o *options.ClientOptions){"together": func(o *options.ClientOptions) {
			for _, set := range clientSettings {
				set(o)
			}
			o.SetReadConcern(readconcern.Local()) // what w: 1 has written may not be there for majority
		}}
	}
	for name, set := range cases {
		for _, r := range rows {
			t.Run(name+"/"+strings.ReplaceAll(r.Name, "/", ": "), func(t *testing.T) {
				t.Parallel()
				o := options.Client()
				set(o)
				c := r.Start(&registry.Scene{T: t, DB: mongotest.Database(t, o)})
				_, err := c.Do(t.Context())
				testkit.OK(t, err)
				if c.Settle != nil {
					testkit.OK(t, c.Settle(t.Context()))
				}
				testkit.Healthy(t, c.Check...)
			})
		}
	}
}
