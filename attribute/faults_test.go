package attribute_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A write that the server gave up before it was done is repeated by the driver
// and done once.
func TestRetriedWrite(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	a := newAttributes[int, int](t, db.Collection("c"), nil)
	insert(t, db.Collection("c"), d("_id", 1))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update"}, Times: 1, Code: 262, Labels: []string{"RetryableWriteError"}})
	cmds := mongotest.Record(t, db, func() { must(t, a.Add(ctx, 1, attribute.Named("k"), 1)) })
	want(t, cmds.Names(), []string{"update", "update"})
	want(t, testkit.One[bson.D](t, db.Collection("c"), 1), d("_id", int32(1), "attributes", bson.A{e("k", int32(1))}))
}

// Errors of the server are returned.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := newAttributes[int, int](t, coll, nil)
	for _, err := range []error{
		a.Set(ctx, 1, attribute.Named("k"), 1), a.Remove(ctx, 1, attribute.Named("k")), errOf(a.Get(ctx, 1, attribute.Named("k"))), errOf(a.GetAll(ctx, 1)), errOf(a.GetBy(ctx, nil, attribute.Named("k"))),
		testkit.Drain(a.Values(ctx, nil, attribute.Named("k"))), errOf(a.Facets(ctx, nil, nil)), errOf(a.RenameKey(ctx, "a", "b", nil)), errOf(a.RemoveKey(ctx, "a", nil)),
		errOf(a.Adopt(ctx, columns[2:], nil)), errOf(a.Unadopt(ctx, columns[2:], nil)), testkit.Drain(a.Check(ctx, nil)), errOf(a.Repair(ctx, nil)), a.EnsureIndexes(ctx),
	} {
		testkit.Is(t, err, context.Canceled)
	}
}
