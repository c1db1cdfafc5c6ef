package extref_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func d(pairs ...any) bson.D {
	out := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

func set(pairs ...any) bson.D { return d("$set", d(pairs...)) }

// replacement is the update that makes doc of a source.
func replacement(doc bson.D) mongo.Pipeline {
	return mongo.Pipeline{d("$replaceWith", d("$literal", doc))}
}

func newRef[ID, S any](t testing.TB, source *mongo.Collection, targets []extref.Target, o *extref.Options) *extref.Ref[ID, S] {
	t.Helper()
	r, err := extref.New[ID, S](source, targets, o)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(nil, r.EnsureIndexes(t.Context()))
	return r
}

func insert(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	must(t)(coll.InsertMany(t.Context(), docs))
}

func ok[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fails wants this error of a call.
func fails(t testing.TB, want error) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("want %v, have %v", want, err)
		}
	}
}

// must ends the test if a call of which only the error counts fails.
func must(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func diff(t testing.TB, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b bson.Decimal128) bool { return a == b }),
		cmp.Comparer(func(a, b mongopatterns.Failure) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// stored are all documents in the order of _id.
func stored(t testing.TB, coll *mongo.Collection) []bson.D {
	t.Helper()
	cursor, err := coll.Find(t.Context(), d(), options.Find().SetSort(d("_id", 1)))
	if err != nil {
		t.Fatal(err)
	}
	var out []bson.D
	must(t)(nil, cursor.All(t.Context(), &out))
	return out
}

// patience is how long a test waits for what comes at once: it only ends what would
// hang, also on a slow machine.
const patience = time.Minute

// bounded is the context of work that waits for other work: whatever a server
// makes of it, it ends.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

func transaction(t testing.TB, db *mongo.Database, fn func(ctx context.Context) error) error {
	t.Helper()
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	_, err = session.WithTransaction(bounded(t), func(ctx context.Context) (any, error) { return nil, fn(ctx) })
	return err
}

type tally = mongopatterns.Result

// wrote is what a propagation to n documents says, updated what an update says
// after which it did.
func wrote(n int64) tally { return tally{Examined: n, Done: n} }

func updated(version, n int64) extref.UpdateResult {
	return extref.UpdateResult{Changed: true, Version: version, Copies: wrote(n)}
}

func i32(n int) int32 { return int32(n) }

// Order with the customer's name, which follows, and the address shipped to,
// which does not; the supplier on an invoice beside it.
func TestScenarioOrders(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	customers, orders, invoices := db.Collection("customers"), db.Collection("orders"), db.Collection("invoices")
	r := newRef[int, bson.D](t, customers, []extref.Target{
		{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address", Policy: extref.Freeze}}},
		{Collection: invoices, Path: "", IDField: "supplier_id", VersionField: "supplier_version",
			Fields: []extref.Field{{Path: "name", As: "supplier.name"}, {Path: "address.city", As: "supplier.city", Policy: extref.Freeze}}},
	}, nil)
	address := d("street", "123 Main St", "city", "Somewhere")
	katrina := d("_id", i32(123), "name", "Katrina Pope", "address", address, "phone", "503-555-0000")
	insert(t, customers, katrina)

	copied := ok[bson.D](t)(r.Reference("orders.customer", katrina))
	insert(t, orders, d("_id", "A-17", "customer", copied), d("_id", "other", "customer", d("_id", i32(9), "name", "X", "version", int64(0))))
	insert(t, invoices, append(d("_id", "I-1"), ok[bson.D](t)(r.Fetch(t.Context(), "invoices", 123))...))
	diff(t, d("_id", "A-17", "customer", d("_id", i32(123), "name", "Katrina Pope", "address", address, "version", int64(0))), stored(t, orders)[0])
	diff(t, d("_id", "I-1", "supplier_id", i32(123), "supplier", d("name", "Katrina Pope", "city", "Somewhere"), "supplier_version", int64(0)), stored(t, invoices)[0])

	// Uncopied, unchanged, frozen.
	for _, update := range []bson.D{set("phone", "1"), set("name", "Katrina Pope"), set("address.city", "Elsewhere")} {
		var result extref.UpdateResult
		cmds := mongotest.Record(t, db, func() { result = ok[extref.UpdateResult](t)(r.Update(t.Context(), 123, update)) })
		if result.Changed || result.Copies.Done != 0 || cmds.DocumentsWritten() > 1 {
			t.Errorf("%v: %+v, %d written", update, result, cmds.DocumentsWritten())
		}
	}
	diff(t, d("_id", i32(123), "name", "Katrina Pope", "address", d("street", "123 Main St", "city", "Elsewhere"), "phone", "1"), stored(t, customers)[0])

	result := ok[extref.UpdateResult](t)(r.Update(t.Context(), 123, set("name", "Katrina Pop")))
	diff(t, updated(1, 2), result)
	diff(t, []bson.D{
		d("_id", "A-17", "customer", d("_id", i32(123), "name", "Katrina Pop", "address", address, "version", int64(1))),
		d("_id", "other", "customer", d("_id", i32(9), "name", "X", "version", int64(0))),
	}, stored(t, orders))
	diff(t, []bson.D{
		d("_id", "I-1", "supplier_id", i32(123), "supplier", d("name", "Katrina Pop", "city", "Somewhere"), "supplier_version", int64(1)),
	}, stored(t, invoices))
	diff(t, wrote(0), ok[tally](t)(r.Propagate(t.Context(), 123, nil)))
}

// parts: [{id, name}] in a product, without a version, and the product's name
// and catalogue number in each part.
func TestScenarioParts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parts, products := db.Collection("parts"), db.Collection("products")
	toProducts := newRef[int, bson.D](t, parts, []extref.Target{{
		Collection: products, Path: "parts", Array: true, IDField: "id", Unversioned: true,
		Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	toParts := newRef[int, bson.D](t, products, []extref.Target{{
		Collection: parts, Path: "", IDField: "product_id", Unversioned: true,
		Fields: []extref.Field{{Path: "name", As: "product_name"}, {Path: "catalog_number", As: "product_catalog_number"}},
	}}, nil)
	grommet, washer := d("_id", i32(7), "name", "#4 grommet"), d("_id", i32(9), "name", "washer")
	shifter := d("_id", i32(5), "name", "left-handed smoke shifter", "catalog_number", i32(1234))
	shifter = append(shifter, bson.E{Key: "parts", Value: bson.A{
		ok[bson.D](t)(toProducts.Reference("products.parts", grommet)),
		ok[bson.D](t)(toProducts.Reference("products.parts", washer)),
		ok[bson.D](t)(toProducts.Reference("products.parts", grommet)),
	}})
	insert(t, products, shifter)
	insert(t, parts, append(grommet, ok[bson.D](t)(toParts.Reference("parts", shifter))...), washer)

	diff(t, updated(0, 1), ok[extref.UpdateResult](t)(toProducts.Update(t.Context(), 7, set("name", "#5 grommet"))))
	diff(t, extref.UpdateResult{}, ok[extref.UpdateResult](t)(toProducts.Update(t.Context(), 7, set("qty", 94))))
	diff(t, updated(0, 1), ok[extref.UpdateResult](t)(toParts.Update(t.Context(), 5, set("catalog_number", i32(1235)))))
	diff(t, []bson.D{d("_id", i32(5), "name", "left-handed smoke shifter", "catalog_number", i32(1235), "parts", bson.A{
		d("id", i32(7), "name", "#5 grommet"), d("id", i32(9), "name", "washer"), d("id", i32(7), "name", "#5 grommet"),
	})}, stored(t, products))
	diff(t, []bson.D{
		d("_id", i32(7), "name", "#5 grommet", "product_id", i32(5), "product_name", "left-handed smoke shifter", "product_catalog_number", i32(1235), "qty", i32(94)),
		d("_id", i32(9), "name", "washer"),
	}, stored(t, parts))

	// Outside of Update: compared by value, each batch in a transaction.
	must(t)(parts.UpdateByID(t.Context(), 9, set("name", "lock washer")))
	diff(t, wrote(1), ok[tally](t)(toProducts.Propagate(t.Context(), 9, nil)))
	diff(t, wrote(0), ok[tally](t)(toProducts.Propagate(t.Context(), 9, nil)))
	diff(t, d("_id", i32(9), "name", "lock washer"), stored(t, parts)[1])
	diff(t, d("id", i32(9), "name", "lock washer"), lookupD(stored(t, products)[0], "parts").(bson.A)[1].(bson.D))
}

func lookupD(doc bson.D, key string) any {
	for _, e := range doc {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// sorted are documents with the fields of each in the order of their names: the
// server chooses the order of what an update adds.
func sorted(docs []bson.D) []any {
	var order func(v any) any
	order = func(v any) any {
		switch v := v.(type) {
		case bson.D:
			out := bson.D{}
			for _, e := range v {
				out = append(out, bson.E{Key: e.Key, Value: order(e.Value)})
			}
			slices.SortFunc(out, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
			return out
		case bson.A:
			out := bson.A{}
			for _, e := range v {
				out = append(out, order(e))
			}
			return out
		case int:
			return int32(v)
		}
		return v
	}
	var out []any
	for _, doc := range docs {
		out = append(out, order(doc))
	}
	return out
}

func unique(field string) mongo.IndexModel {
	return mongo.IndexModel{Keys: d(field, 1), Options: options.Index().SetUnique(true)}
}

// onCommand calls fn before a command of this name is sent.
func onCommand(name string, fn func()) *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == name {
			fn()
		}
	}}
}

type celsius float64

var celsiusType = reflect.TypeFor[celsius]()

func encodeCelsius(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
	return w.WriteString(fmt.Sprint(v.Float(), " °C"))
}

func isIndexConflict(err error) bool { return errors.Is(err, mongopatterns.ErrIndexConflict) }

// Names inside an element may be dotted, as in the package documentation.
func TestDottedElements(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	products, orderColl := db.Collection("products"), db.Collection("orders")
	r := newRef[int, bson.D](t, products, []extref.Target{{
		Collection: orderColl, Path: "items", Array: true,
		IDField: "product._id", VersionField: "product.version",
		Fields: []extref.Field{{Path: "name", As: "product.name"}},
	}}, nil)
	insert(t, products, d("_id", 5, "name", "grommet", "price", 3))
	item := append(d("quantity", 2), ok[bson.D](t)(r.Fetch(t.Context(), "orders.items", 5))...)
	insert(t, orderColl, d("_id", 1, "items", bson.A{item, d("quantity", 1, "note", "wrapping")}))
	ok[extref.UpdateResult](t)(r.Update(t.Context(), 5, set("name", "#4 grommet")))
	diff(t, []bson.D{d("_id", i32(1), "items", bson.A{
		d("quantity", i32(2), "product", d("_id", i32(5), "name", "#4 grommet", "version", int64(1))),
		d("quantity", i32(1), "note", "wrapping"),
	})}, stored(t, orderColl))
	for problem, err := range r.Check(t.Context(), nil) {
		t.Error(problem, err)
	}
}
