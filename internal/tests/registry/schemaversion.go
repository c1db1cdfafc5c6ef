package registry

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

func init() {
	add(Pattern{Package: "schemaversion", Writes: schemaversionRows, Reads: schemaversionReads(), Steps: schemaversionSteps, Role: schemaversionRole})
}

type contacts = schemaversion.Collection[bson.D]

// old are contacts of the first version.
func old(s *Scene, opts *schemaversion.Options) *contacts {
	opts.Lease, opts.Scope = time.Second, s.Scope
	v := testkit.Must(schemaversion.New[bson.D](s.Coll("contacts"), []schemaversion.Step{{
		Up: func(d bson.D) (bson.D, error) { return append(d, bson.E{Key: "up", Value: 1}), nil },
	}}, opts))
	s.InsertEach("contacts", 3, func(id int) bson.D { return testkit.D("_id", id, "name", "Anakin") })
	return v
}

// leases has the state of Migrate.
var leases = []string{"contacts.migrations"}

var schemaversionRows = []Row{
	{"schemaversion.Collection.Insert", func(s *Scene) Call {
		v := old(s, &schemaversion.Options{})
		return Call{Shards: sharders(v), One: func(ctx context.Context) error {
			return testkit.ErrorOf(v.Insert(ctx, testkit.D("_id", 9, "name", "Leia")))
		}, Repeated: []error{mongopatterns.ErrExists}}
	}},
	{"schemaversion.Collection.Update", func(s *Scene) Call {
		v := old(s, &schemaversion.Options{})
		return Call{Shards: sharders(v), One: func(ctx context.Context) error {
			return v.Update(ctx, 1, testkit.D("$set", testkit.D("name", "Vader")))
		},
			Passing: map[string][]bson.D{"contacts": {testkit.D("_id", 1, "name", "Anakin", "schema_version", 2, "up", 1)}}} // it upgrades first
	}},
	{"schemaversion.Collection.Get/WriteBack", func(s *Scene) Call {
		v := old(s, &schemaversion.Options{WriteBack: true})
		return Call{Shards: sharders(v), One: func(ctx context.Context) error { return testkit.ErrorOf(v.Get(ctx, 1)) }}
	}},
	{"schemaversion.Collection.Migrate", func(s *Scene) Call {
		v := old(s, &schemaversion.Options{})
		migrate := func(ctx context.Context) (mongopatterns.Result, error) { return v.Migrate(ctx, v.Newest(), small) }
		return Call{Shards: sharders(v), Upkeep: migrate, Counts: "contacts", Aside: leases, Repeat: unleased(migrate, mongopatterns.ErrRunning)}
	}},
}

func schemaversionReads() []Row {
	return reads("schemaversion.Collection", "", func(s *Scene) *contacts { return old(s, &schemaversion.Options{}) }, map[string]func(context.Context, *contacts) error{
		"Get":    func(ctx context.Context, v *contacts) error { return testkit.ErrorOf(v.Get(ctx, 1)) },
		"Find":   func(ctx context.Context, v *contacts) error { return testkit.Drain(v.Find(ctx, bson.D{})) },
		"Status": func(ctx context.Context, v *contacts) error { return testkit.ErrorOf(v.Status(ctx)) },
	})
}

func schemaversionSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	coll := db.Collection("contacts")
	v := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		return append(doc, bson.E{Key: "up", Value: 1}), nil
	}}}, &schemaversion.Options{Lease: time.Second}))
	step := func(ctx context.Context, n int) error {
		if err := done(testkit.ErrorOf(coll.InsertOne(ctx, bson.M{"_id": n}))); err != nil {
			return err
		}
		if err := v.Update(ctx, n, bson.M{"$set": bson.M{"seen": true}}); err != nil || n%5 != 0 {
			return err
		}
		return done(testkit.ErrorOf(v.Migrate(ctx, v.Newest(), nil)), mongopatterns.ErrRunning)
	}
	return step, func(t *testing.T, n int) {
		if got := ids(t, coll, bson.M{"schema_version": 2, "up": 1, "seen": true}); !slices.Equal(got, upTo(n)) {
			t.Errorf("%v of %d", got, n)
		}
	}
}

var schemaversionRole = &Role{Open: schemaversionPlayer, Writes: []string{"seen_%"}}

func schemaversionPlayer(s *Side) (*Player, error) {
	up := s.name("up")
	v, err := schemaversion.New[bson.M](s.Main, []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		return append(doc, bson.E{Key: up, Value: 1}), nil
	}}}, &schemaversion.Options{VersionField: s.name("version"), Leases: s.coll("leases")})
	return opened(&Player{
		Step: func(ctx context.Context, ids []any, n int) error {
			if n == Rounds/2 {
				if result, err := v.Migrate(ctx, v.Newest(), nil); err != nil || result.Failed > 0 {
					return fmt.Errorf("schemaversion.Migrate: %+v: %w", result, err)
				}
			}
			return v.Update(ctx, ids[n%Shared], bson.M{"$set": bson.M{s.name("seen"): n}})
		},
		Oracle: func(ctx context.Context, ids []any) error {
			// A revision that is current again has the version that it had.
			if _, err := v.Migrate(ctx, v.Newest(), nil); err != nil {
				return err
			}
			return each(ids, func(i int, id any) error {
				if err := s.has(ctx, id, up, 1); err != nil {
					return err
				}
				all := roundsOf(i)
				return s.has(ctx, id, s.name("seen"), all[len(all)-1])
			})
		},
	}, v, err)
}
