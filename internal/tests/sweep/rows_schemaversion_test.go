package sweep

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

type contacts = schemaversion.Collection[bson.D]

// old are contacts of the first version.
func old(s *scene, opts *schemaversion.Options) *contacts {
	opts.Lease = time.Second
	v := testkit.Must(schemaversion.New[bson.D](s.coll("contacts"), []schemaversion.Step{{
		Up: func(d bson.D) (bson.D, error) { return append(d, bson.E{Key: "up", Value: 1}), nil },
	}}, opts))
	for id := range 3 {
		s.insert("contacts", doc("_id", id, "name", "Anakin"))
	}
	return v
}

// leases has the state of Migrate.
var leases = []string{"contacts.migrations"}

var schemaversionRows = []row{
	{"schemaversion.Collection.Insert", func(s *scene) call {
		v := old(s, &schemaversion.Options{})
		return call{shards: sharders(v), one: func(ctx context.Context) error { return void(v.Insert(ctx, doc("_id", 9, "name", "Leia"))) }, repeated: []error{mongopatterns.ErrExists}}
	}},
	{"schemaversion.Collection.Update", func(s *scene) call {
		v := old(s, &schemaversion.Options{})
		return call{shards: sharders(v), one: func(ctx context.Context) error { return v.Update(ctx, 1, doc("$set", doc("name", "Vader"))) },
			passing: map[string][]bson.D{"contacts": {doc("_id", 1, "name", "Anakin", "schema_version", 2, "up", 1)}}} // it upgrades first
	}},
	{"schemaversion.Collection.Get/WriteBack", func(s *scene) call {
		v := old(s, &schemaversion.Options{WriteBack: true})
		return call{shards: sharders(v), one: func(ctx context.Context) error { return void(v.Get(ctx, 1)) }}
	}},
	{"schemaversion.Collection.Migrate", func(s *scene) call {
		v := old(s, &schemaversion.Options{})
		migrate := func(ctx context.Context) (mongopatterns.Result, error) { return v.Migrate(ctx, v.Newest(), small) }
		return call{shards: sharders(v), upkeep: migrate, counts: "contacts", aside: leases, repeat: unleased(migrate, mongopatterns.ErrRunning)}
	}},
}
