package sweep

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
)

// preferred counts the reads of a call that may go to a secondary: those that would be all, if nothing is stale or old,
// and the change stream.
var preferred = map[string]int{"computed.Computed.Get": 1, "extref.Source.Watch": 1, "schemaversion.Collection.Get/WriteBack": 1}

// A read that a write depends on goes to the primary, whatever the read preference of the client is: a secondary that
// lags would show what is no longer so, and a call that tries again because of it would do so without end. Each call runs
// twice, because many read only when there is nothing to write.
func TestReadsOfWrites(t *testing.T) {
	var all []placed
	for _, r := range third(calls(registry.Writes())) {
		all = append(all, placed{Row: r})
	}
	together(t, all, func(t *testing.T, r placed) {
		p, c := r.stage(t, r.database(t), options.Client().SetReadPreference(readpref.SecondaryPreferred()))
		var reads []string
		p.Break(func(c proxy.Command) *proxy.Fault {
			if mode, _ := c.Body.Lookup("$readPreference", "mode").StringValueOK(); mode == "secondaryPreferred" {
				reads = append(reads, c.Name+" "+c.Collection)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.Do(ctx)
		_, _ = c.Do(ctx) // it may be refused
		p.Break(nil)
		if err != nil || len(reads) != 2*preferred[r.Name] {
			t.Errorf("%v, by the read preference: %v", err, reads)
		}
	})
}
