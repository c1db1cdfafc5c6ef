package extref_test

import (
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// tenants are two helpers over the same collections.
func tenants(t *testing.T, db *mongo.Database, o extref.Options) (a, b *extref.Source[int, bson.D]) {
	t.Helper()
	open := func(tenant string) *extref.Source[int, bson.D] {
		own := o
		own.Scope = d("tenant", tenant)
		return newRef[int, bson.D](t, db.Collection("customers"), []extref.Target{ordering(db.Collection("orders"))}, &own)
	}
	return open("a"), open("b")
}

// named are the names in the copies of the orders, in the order of their _ids.
func named(t *testing.T, db *mongo.Database) (names []any) {
	t.Helper()
	for _, order := range testkit.Stored[bson.D](t, db.Collection("orders")) {
		names = append(names, testkit.Get(testkit.Get(order, "customer").(bson.D), "name"))
	}
	return names
}

// Two tenants have a source with the same natural key, and an entry each for it in one outbox.
func TestOutboxOfTenants(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	outbox := db.Collection("outbox")
	a, b := tenants(t, db, extref.Options{KeyField: "number", Outbox: outbox})
	for i, tenant := range []string{"a", "b"} {
		insert(t, db.Collection("customers"), d("_id", i, "number", 7, "name", "old", "tenant", tenant))
		insert(t, db.Collection("orders"), d("_id", i, "customer", d("_id", 7, "name", "old", "version", 0), "tenant", tenant))
	}
	ok[extref.UpdateResult](t)(a.Update(bounded(t), 7, set("name", "of a")))
	ok[extref.UpdateResult](t)(b.Update(bounded(t), 7, set("name", "of b")))
	if n := testkit.Count(t, outbox, bson.D{}); n != 2 {
		t.Errorf("%d entries", n)
	}
	diff(t, wrote(1), ok[tally](t)(a.Drain(bounded(t), nil)))
	diff(t, []any{"of a", "old"}, named(t, db))
	diff(t, wrote(1), ok[tally](t)(b.Drain(bounded(t), nil)))
	diff(t, []any{"of a", "of b"}, named(t, db))
	if n := testkit.Count(t, outbox, bson.D{}); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// An entry that an Update stored before there was a scope has the key alone.
func TestEntryFromBeforeTheScope(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	outbox := db.Collection("outbox")
	before, customers, _ := orders(t, db, 1, &extref.Options{Outbox: outbox})
	ok[extref.UpdateResult](t)(before.Update(bounded(t), 1, set("name", "new")))
	for _, coll := range []*mongo.Collection{customers, db.Collection("orders"), outbox} {
		must(t)(coll.UpdateMany(bounded(t), bson.D{}, set("tenant", "a")))
	}
	a, _ := tenants(t, db, extref.Options{Outbox: outbox})
	diff(t, wrote(1), ok[tally](t)(a.Drain(bounded(t), nil)))
	diff(t, []any{"c0", "new", "c2"}, named(t, db))
}

// A copy that names the source of another tenant never gets the values of that source.
func TestCopyOfAnotherTenantsSource(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	a, b := tenants(t, db, extref.Options{})
	insert(t, db.Collection("customers"), d("_id", 1, "name", "secret", "version", 5, "tenant", "b"))
	insert(t, db.Collection("orders"), d("_id", 1, "customer", d("_id", 1), "tenant", "a"), d("_id", 2, "customer", d("_id", 1, "name", "x", "version", 1), "tenant", "a"))
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(a.Adopt(bounded(t), "orders.customer", nil)))
	diff(t, tally{Examined: 2, Remaining: 2}, ok[tally](t)(a.Repair(bounded(t), nil)))
	ok[extref.UpdateResult](t)(b.Update(bounded(t), 1, set("name", "new")))
	diff(t, []any{nil, "x"}, named(t, db))
	ok[tally](t)(b.Delete(bounded(t), 1)) // nothing of tenant b refers to it
}

// Watch follows the sources of its tenant alone, with a token of its own.
func TestWatchOfTenants(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	customers, tokens := db.Collection("customers"), db.Collection("tokens")
	a, b := tenants(t, db, extref.Options{Deferred: true})
	for i, tenant := range []string{"a", "b"} {
		insert(t, customers, d("_id", i, "name", "old", "version", 1, "tenant", tenant))
		insert(t, db.Collection("orders"), d("_id", i, "customer", d("_id", i, "name", "old", "version", 1), "tenant", tenant))
	}
	var ready atomic.Bool
	var examined atomic.Int64
	stop := watching(t, a, tokens, &extref.WatchOptions{MaxAwait: 50 * time.Millisecond,
		Reconciled: func(mongopatterns.Result) { ready.Store(true) },
		Progress:   func(result mongopatterns.Result) { examined.Add(result.Examined) }})
	eventually(t, "reconciled", ready.Load)
	must(t)(customers.UpdateOne(bounded(t), d("_id", 1), d("$set", d("name", "of b"), "$inc", d("version", 1))))
	must(t)(customers.UpdateOne(bounded(t), d("_id", 0), d("$set", d("name", "of a"), "$inc", d("version", 1))))
	eventually(t, "propagated", func() bool { return examined.Load() > 0 })
	stop()
	if n := examined.Load(); n != 1 {
		t.Errorf("%d sources were examined", n)
	}
	diff(t, []any{"of a", "old"}, named(t, db))
	name := testkit.Find[bson.D](t, tokens, bson.D{})[0][0].Value.(string)
	if err := b.Watch(bounded(t), tokens, &extref.WatchOptions{Name: name}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("with the token of another tenant: %v", err)
	}
}
