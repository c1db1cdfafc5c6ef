package indexes_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A collection with a default collation is refused, also in a transaction, in which no server
// lists collections; one without, with the simple one, or not yet there is fine.
func TestSimple(t *testing.T) {
	ctx := t.Context()
	db := mongotest.Database(t)
	for name, locale := range map[string]string{"folded": "en", "simple": "simple", "plain": ""} {
		opts := options.CreateCollection()
		if locale != "" {
			opts.SetCollation(&options.Collation{Locale: locale})
		}
		if err := db.CreateCollection(ctx, name, opts); err != nil {
			t.Fatal(err)
		}
	}
	plain, simple, absent, folded := db.Collection("plain"), db.Collection("simple"), db.Collection("absent"), db.Collection("folded")
	costs.Record(t, db, 0, []string{"listCollections"}, func() error { return indexes.Simple(ctx, plain, simple, absent) })
	if err := indexes.Simple(ctx, plain, folded); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(ctx)
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := indexes.Simple(mongo.NewSessionContext(ctx, session), plain); err != nil {
		t.Error(err)
	}
}
