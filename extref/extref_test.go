package extref_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// diff compares failures by their text.
func diff(t testing.TB, want, got any) {
	t.Helper()
	testkit.Equal(t, want, got, cmp.Comparer(func(a, b mongopatterns.Failure) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))
}

// Short names for what hundreds of lines call.
var (
	d      = testkit.D
	insert = testkit.Insert
	stored = testkit.Stored[bson.D]
)

func set(pairs ...any) bson.D { return d("$set", d(pairs...)) }

// replacement is the update that makes doc of a source.
func replacement(doc bson.D) mongo.Pipeline {
	return mongo.Pipeline{d("$replaceWith", d("$literal", doc))}
}

func newRef[ID, S any](t testing.TB, source *mongo.Collection, targets []extref.Target, o *extref.Options) *extref.Source[ID, S] {
	t.Helper()
	r, err := extref.New[ID, S](source, targets, o)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(nil, r.EnsureIndexes(t.Context()))
	return r
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

// fails wants this error from a call.
func fails(t testing.TB, want error) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("want %v, have %v", want, err)
		}
	}
}

// must ends the test if a call returns an error; its other result does not matter.
func must(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// patience is how long a test waits for something that happens at once; it only ends tests that
// would hang, also on a slow machine.
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
		{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "address", Frozen: true}}},
		{Collection: invoices, Path: "", IDField: "supplier_id", VersionField: "supplier_version",
			Fields: []extref.Field{{Path: "name", As: "supplier.name"}, {Path: "address.city", As: "supplier.city", Frozen: true}}},
	}, nil)
	address := d("street", "123 Main St", "city", "Somewhere")
	katrina := d("_id", i32(123), "name", "Katrina Pope", "address", address, "phone", "503-555-0000")
	insert(t, customers, katrina)

	copied := ok[bson.D](t)(r.Copy("orders.customer", katrina))
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
		ok[bson.D](t)(toProducts.Copy("products.parts", grommet)),
		ok[bson.D](t)(toProducts.Copy("products.parts", washer)),
		ok[bson.D](t)(toProducts.Copy("products.parts", grommet)),
	}})
	insert(t, products, shifter)
	insert(t, parts, append(grommet, ok[bson.D](t)(toParts.Copy("parts", shifter))...), washer)

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
	diff(t, d("id", i32(9), "name", "lock washer"), testkit.Get(stored(t, products)[0], "parts").(bson.A)[1].(bson.D))
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

// A copy of a copy: the two recipes of the manual.
func TestChain(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	brands, products, orderColl := db.Collection("brands"), db.Collection("products"), db.Collection("orders")
	toProducts := newRef[int, bson.D](t, brands, []extref.Target{{Collection: products, Path: "brand", Fields: []extref.Field{{Path: "name"}}}}, nil)
	toOrders := newRef[int, bson.D](t, products, []extref.Target{{
		Collection: orderColl, Path: "product", Unversioned: true, Fields: []extref.Field{{Path: "brand.name", As: "brand"}},
	}}, nil)
	insert(t, brands, d("_id", 1, "name", "Acme"))
	insert(t, products, d("_id", 5, "brand", ok[bson.D](t)(toProducts.Fetch(t.Context(), "products.brand", 1))))
	insert(t, orderColl, d("_id", 7, "product", ok[bson.D](t)(toOrders.Fetch(t.Context(), "orders.product", 5))))

	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if _, err := toProducts.Update(ctx, 1, set("name", "Acme & Sons")); err != nil {
			return err
		}
		_, err := toOrders.Propagate(ctx, 5, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, d("_id", i32(5), "brand", "Acme & Sons"), testkit.Get(stored(t, orderColl)[0], "product"))

	started := make(chan bool, 1)
	stop := watching(t, toOrders, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
	})
	receive(t, started)
	ok[extref.UpdateResult](t)(toProducts.Update(t.Context(), 1, set("name", "Acme Inc.")))
	inSync(t, toOrders)
	stop()
	diff(t, d("_id", i32(5), "brand", "Acme Inc."), testkit.Get(stored(t, orderColl)[0], "product"))
}

// Product name and catalogue number in each part, without the product's _id.
func TestNaturalKey(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	products, parts := db.Collection("products"), db.Collection("parts")
	target := []extref.Target{{
		Collection: parts, IDField: "product_catalog_number", Unversioned: true, Fields: []extref.Field{{Path: "name", As: "product_name"}},
	}}
	ref := func(o extref.Options) *extref.Source[int, bson.D] {
		o.KeyField = "catalog_number"
		return newRef[int, bson.D](t, products, target, &o)
	}
	r := ref(extref.Options{})
	diff(t, map[string]bson.D{"products": d("catalog_number", 1)}, r.ShardKey())
	// The product whose _id is another's catalogue number does not disturb.
	shifter := d("_id", "p1", "name", "left-handed smoke shifter", "catalog_number", i32(1234))
	insert(t, products, shifter, d("_id", i32(1234), "name", "decoy", "catalog_number", i32(1)))
	insert(t, parts, append(d("_id", "grommet"), ok[bson.D](t)(r.Copy("parts", shifter))...),
		d("_id", "washer", "product_catalog_number", 1234), d("_id", "none"), d("_id", "other", "product_catalog_number", 99))
	diff(t, d("_id", "grommet", "product_catalog_number", i32(1234), "product_name", "left-handed smoke shifter"), stored(t, parts)[0])
	diff(t, tally{Examined: 3, Done: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "parts", nil)))
	dangling := "extref: parts \"other\": dangling: product_catalog_number is 99"
	diff(t, []string{dangling}, problems(t, r))

	diff(t, updated(0, 2), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1234, set("name", "smoke shifter"))))
	diff(t, extref.UpdateResult{}, ok[extref.UpdateResult](t)(r.Update(t.Context(), 1234, set("price", 3))))
	// The key itself stays: its copies would dangle.
	for _, o := range []extref.Options{{}, {Deferred: true}, {Outbox: db.Collection("outbox")}} {
		fails(t, mongopatterns.ErrInvalid)(ref(o).Update(t.Context(), 1234, set("catalog_number", 4321)))
	}
	fails(t, mongopatterns.ErrInvalid)(r.Update(t.Context(), 1234, replacement(d("_id", "p1", "name", "shifter", "catalog_number", 4322))))
	diff(t, d("_id", "washer", "product_catalog_number", i32(1234), "product_name", "smoke shifter"), stored(t, parts)[3])
	diff(t, []string{dangling}, problems(t, r))

	boxed := ref(extref.Options{Outbox: db.Collection("outbox")})
	ok[extref.UpdateResult](t)(boxed.Update(t.Context(), 1234, set("name", "boxed")))
	diff(t, tally{Examined: 1, Done: 2}, ok[tally](t)(boxed.Drain(t.Context(), nil)))
	started := make(chan bool, 1)
	stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
	})
	receive(t, started)
	must(t)(products.UpdateByID(t.Context(), "p1", set("name", "watched")))
	eventually(t, "watched", func() bool { return testkit.Get(stored(t, parts)[0], "product_name") == "watched" })
	stop()
	fails(t, mongopatterns.ErrReferenced)(r.Delete(t.Context(), 1234))
	if err := r.EnsureIndexes(t.Context()); err != nil {
		t.Error(err)
	}
	if err := second(products.InsertOne(t.Context(), d("catalog_number", 1234))); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("one key twice: %v", err)
	}
	// A source without the key has no copies.
	insert(t, products, d("_id", "keyless", "name", "x"))
	diff(t, tally{}, ok[tally](t)(r.Repair(t.Context(), &mongopatterns.Work{Filter: d("_id", "keyless")})))
}

// Log messages carry ipaddr and hostname beside the host's ID.
func TestScenarioLogs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	hosts, logs := db.Collection("hosts"), db.Collection("logmsg")
	r := newRef[string, bson.D](t, hosts, []extref.Target{{
		Collection: logs, IDField: "host", Unversioned: true, OnDelete: mongopatterns.Keep,
		Fields: []extref.Field{{Path: "name", As: "hostname"}, {Path: "ipaddr", Frozen: true}},
	}}, nil)
	goofy := d("_id", "AAAB", "name", "goofy.example.com", "ipaddr", "127.66.66.66")
	insert(t, hosts, goofy)
	insert(t, logs, append(d("_id", 1, "message", "cpu is on fire!"), ok[bson.D](t)(r.Copy("logmsg", goofy))...))
	diff(t, updated(0, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), "AAAB", set("name", "pluto.example.com", "ipaddr", "127.0.0.2"))))
	diff(t, []bson.D{d("_id", i32(1), "message", "cpu is on fire!", "host", "AAAB", "hostname", "pluto.example.com", "ipaddr", "127.66.66.66")}, stored(t, logs))
}

// Copies as a type of the user's own, in a struct of theirs.
func TestCopies(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	customers, orderColl := db.Collection("customers"), db.Collection("orders")
	type buyer struct {
		ID      int `bson:"_id"`
		Name    string
		Phone   string
		Version int64
	}
	type copied struct {
		ID      int    `bson:"_id"`
		Name    string `bson:"name"`
		Version int64  `bson:"version"`
	}
	r := newRef[int, buyer](t, customers, []extref.Target{{Collection: orderColl, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil)
	copies := ok[*extref.Copies[copied, int, buyer]](t)(extref.As[copied](r, "orders.customer"))
	katrina := buyer{123, "Katrina Pope", "503-555-0000", 4}
	insert(t, customers, katrina)
	want := copied{123, "Katrina Pope", 4}
	diff(t, want, ok[copied](t)(copies.Copy(katrina)))
	diff(t, want, ok[copied](t)(copies.Fetch(t.Context(), 123)))
	type order struct {
		ID       string `bson:"_id"`
		Customer copied `bson:"customer"`
	}
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		c, err := copies.Pin(ctx, 123)
		if err != nil {
			return err
		}
		_, err = orderColl.InsertOne(ctx, order{"A-17", c})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, updated(5, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 123, set("name", "Katrina Pop"))))
	var stored order
	if err := orderColl.FindOne(t.Context(), d()).Decode(&stored); err != nil || stored.Customer != (copied{123, "Katrina Pop", 5}) {
		t.Error(stored, err)
	}

	type lossy struct {
		ID   int `bson:"_id"`
		Name string
	}
	if _, err := extref.As[lossy](r, "orders.customer"); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `has no field "version"`) {
		t.Error(err)
	}
	// A type that may hold anything is judged by a copy that was made.
	type inlined struct {
		ID   int            `bson:"_id"`
		Rest map[string]int `bson:",inline"`
	}
	open := ok[*extref.Copies[inlined, int, buyer]](t)(extref.As[inlined](r, "orders.customer"))
	fails(t, mongopatterns.ErrInvalid)(open.Fetch(t.Context(), 123))
	partly := ok[*extref.Copies[fragile, int, buyer]](t)(extref.As[fragile](r, "orders.customer"))
	fails(t, mongopatterns.ErrInvalid)(partly.Fetch(t.Context(), 123))
	fails(t, mongopatterns.ErrInvalid)(extref.As[lossy](r, "x"))
	fails(t, mongopatterns.ErrNotFound)(copies.Fetch(t.Context(), 9))
}

// A fragile copy cannot be decoded, and not be encoded before it is.
type fragile struct{ doc *bson.D }

func (f *fragile) UnmarshalBSON([]byte) error { return errors.New("no copy") }

func (f fragile) MarshalBSON() ([]byte, error) { return bson.Marshal(*f.doc) }

// Without versions a command holds the followed fields three times. More than it can hold is refused, and nothing is written.
func TestLargeFollowedFieldsUnversioned(t *testing.T) {
	db := mongotest.Database(t)
	r, customers, _ := orders(t, db, 1, nil, unversioned)
	if result := ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", strings.Repeat("x", 5_200_000)))); result.Copies.Done != 1 {
		t.Errorf("%+v", result)
	}
	large := set("name", strings.Repeat("y", 6_000_000))
	_, err := r.Update(bounded(t), 1, large)
	if !errors.Is(err, mongopatterns.ErrInvalid) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone || !strings.Contains(err.Error(), "at most 5 MiB") {
		t.Error(err)
	}
	inSync(t, r)
	must(t)(customers.UpdateByID(bounded(t), 1, large)) // by old code
	_, err = r.Propagate(bounded(t), 1, nil)
	if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "at most 5 MiB") {
		t.Error(err)
	}
}

// A large field that is copied once, and not followed, does not count.
func TestLargeFrozenFieldUnversioned(t *testing.T) {
	r, customers, _ := orders(t, mongotest.Database(t), 1, nil, unversioned, func(target *extref.Target) {
		target.Fields = append(target.Fields, extref.Field{Path: "picture", Frozen: true})
	})
	must(t)(customers.UpdateByID(bounded(t), 1, set("picture", strings.Repeat("x", 6_000_000))))
	if result := ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "Ann"))); result.Copies.Done != 1 {
		t.Errorf("%+v", result)
	}
}

// Followed fields that fill most of a document are copied: no command holds them more often than it can.
func TestLargeFollowedFields(t *testing.T) {
	for name, bytes := range map[string]int{"a third": 6_000_000, "nearly all": 16<<20 - 100_000} {
		t.Run(name, func(t *testing.T) {
			db := mongotest.Database(t)
			r, _, _ := orders(t, db, 1, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			result := ok[extref.UpdateResult](t)(r.Update(ctx, 1, set("name", strings.Repeat("x", bytes))))
			if !result.Changed || result.Copies.Done != 1 {
				t.Errorf("%+v", result)
			}
			n := ok[int64](t)(db.Collection("orders").CountDocuments(ctx, d("$expr", d("$eq", bson.A{d("$strLenBytes", "$customer.name"), bytes}))))
			diff(t, int64(1), n)
		})
	}
}
