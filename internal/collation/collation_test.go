package collation_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A default collation is refused, whichever of the collections has it, in a transaction
// too; the simple one, no collection and no collation are not.
func TestRefuse(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for name, locale := range map[string]string{"plain": "", "simple": "simple", "german": "de"} {
		opts := options.CreateCollection()
		if locale != "" {
			opts.SetCollation(&options.Collation{Locale: locale, Strength: 2})
		}
		if err := db.CreateCollection(t.Context(), name, opts); err != nil {
			t.Fatal(err)
		}
	}
	for names, refused := range map[string]bool{
		"": false, "plain": false, "simple": false, "missing": false, "missing plain simple": false,
		"german": true, "plain german": true, "german plain": true,
	} {
		var colls []*scoped.Collection
		for _, name := range strings.Fields(names) {
			colls = append(colls, on(db, name))
		}
		check := func(ctx context.Context) error {
			err := collation.Refuse(ctx, colls...)
			if refused != errors.Is(err, mongopatterns.ErrInvalid) || !refused && err != nil ||
				refused && !strings.Contains(err.Error(), `"german" has the default collation "de"`) {
				t.Errorf("%q: %v", names, err)
			}
			var seq iter.Seq2[int, error] = func(yield func(int, error) bool) { yield(7, nil) }
			for n, err := range collation.Seq(ctx, seq, colls...) {
				if refused != errors.Is(err, mongopatterns.ErrInvalid) || refused != (n == 0) {
					t.Errorf("%q: yields %d, %v", names, n, err)
				}
			}
			return nil
		}
		if err := check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := mongopatterns.Transact(t.Context(), db.Client(), check); err != nil {
			t.Error(err)
		}
	}
}

// on is a collection of a database.
func on(db *mongo.Database, name string) *scoped.Collection { return scoped.On(db.Collection(name)) }

// Create creates what does not exist, also when others do so at the same time, and refuses a default
// collation before it creates anything.
func TestCreate(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	if err := db.CreateCollection(t.Context(), "german", options.CreateCollection().SetCollation(&options.Collation{Locale: "de"})); err != nil {
		t.Fatal(err)
	}
	if err := collation.Create(t.Context(), []*scoped.Collection{on(db, "a")}, on(db, "german")); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	exist := func(want ...string) {
		t.Helper()
		names, err := db.ListCollectionNames(t.Context(), map[string]any{})
		slices.Sort(names)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%q, %v", names, err)
		}
	}
	exist("german")
	both := []*scoped.Collection{on(db, "a"), on(db, "b")}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := collation.Create(t.Context(), both, on(db, "missing")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	exist("a", "b", "german")
	if cmds := mongotest.Record(t, db, func() {
		if err := collation.Create(t.Context(), both, on(db, "missing")); err != nil {
			t.Error(err)
		}
	}); !slices.Equal(cmds.Names(), []string{"listCollections"}) {
		t.Errorf("sent %v", cmds.Names())
	}
	exist("a", "b", "german")
}

// Collections of several databases cost a round trip for each, and each is looked for in its own.
func TestSeveralDatabases(t *testing.T) {
	t.Parallel()
	db, other := mongotest.Database(t), mongotest.Database(t)
	german := options.CreateCollection().SetCollation(&options.Collation{Locale: "de"})
	for name, err := range map[string]error{"a": db.CreateCollection(t.Context(), "a"), "german": other.CreateCollection(t.Context(), "german", german)} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if err := collation.Refuse(t.Context(), on(db, "a"), on(db, "german"), on(other, "a")); err != nil {
		t.Error(err)
	}
	if err := collation.Refuse(t.Context(), on(db, "a"), on(other, "german")); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	elsewhere := db.Client().Database(other.Name()) // of the client that is recorded
	cmds := mongotest.Record(t, db, func() {
		if err := collation.Create(t.Context(), []*scoped.Collection{on(db, "a"), on(elsewhere, "a"), on(db, "b")}); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"listCollections", "listCollections", "create", "create"}; !slices.Equal(cmds.Names(), want) {
		t.Errorf("sent %v", cmds.Names())
	}
	if names, err := other.ListCollectionNames(t.Context(), map[string]any{"name": "a"}); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// The Timeout of the client bounds a create that is not answered, as it does all other commands.
func TestCreateIsBounded(t *testing.T) {
	t.Parallel()
	p := proxy.New(t, mongotest.URI(t))
	db := mongotest.Database(t, options.Client().SetTimeout(time.Second), p.Options())
	t.Cleanup(func() { p.Break(nil) })
	p.Break(func(c proxy.Command) *proxy.Fault {
		if c.Name == "create" {
			return &proxy.SilentBefore
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context()) // ends the call if nothing else does
	defer time.AfterFunc(time.Minute, cancel).Stop()
	defer cancel()
	if err := collation.Create(ctx, []*scoped.Collection{on(db, "a")}); !mongo.IsTimeout(err) {
		t.Error(err)
	}
}
