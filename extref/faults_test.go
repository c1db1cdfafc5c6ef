package extref_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Sources that are inserted, or deleted and inserted again, reach their copies, also one
// that comes back below the copies' version.
func TestWatchFollowsInserts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, orders := orders(t, db, 1, &extref.Options{Deferred: true})
	started := make(chan bool, 1)
	stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
	})
	receive(t, started)
	insert(t, orders, d("_id", 9, "customer", d("_id", 9, "version", 0))) // before its customer
	insert(t, customers, d("_id", 9, "name", "nine", "version", 1))
	name := func(order int, want string) {
		t.Helper()
		eventually(t, want, func() bool {
			doc := ok[bson.Raw](t)(orders.FindOne(bounded(t), d("_id", order)).Raw())
			return doc.Lookup("customer", "name").String() == `"`+want+`"`
		})
	}
	name(9, "nine")
	must(t)(customers.DeleteOne(bounded(t), d("_id", 1)))
	insert(t, customers, d("_id", 1, "name", "again", "version", 7))
	name(100, "again")
	must(t)(customers.DeleteOne(bounded(t), d("_id", 1)))
	insert(t, customers, d("_id", 1, "name", "below", "version", 2))
	name(100, "below") // above the version of the copies
	stop()
	must(t)(customers.UpdateByID(bounded(t), 1, set("version", 2)))
	diff(t, []string{"extref: orders 100: ahead: customer.version is 8, want 2: copy of 1"}, problems(t, r))
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	plain := newRef[int, bson.D](t, customers, []extref.Target{{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil)
	diff(t, extref.UpdateResult{Changed: true, Version: 3, Copies: tally{Examined: 1, Remaining: 1}},
		ok[extref.UpdateResult](t)(plain.Update(t.Context(), 1, set("name", "still below"))))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Repair(t.Context(), &mongopatterns.Work{Filter: d("_id", 1)})))
	diff(t, []string{}, problems(t, r))
}

// faults has the server fail commands of clients of this name, at the collection or
// anywhere.
func faults(t *testing.T, db *mongo.Database, app, collection string, times int, commands []string, data ...any) {
	t.Helper()
	names := bson.A{}
	for _, c := range commands {
		names = append(names, c)
	}
	point := append(d("failCommands", names, "appName", app), d(data...)...)
	if collection != "" {
		point = append(point, bson.E{Key: "namespace", Value: db.Name() + "." + collection})
	}
	admin := db.Client().Database("admin")
	if err := admin.RunCommand(bounded(t), d("configureFailPoint", "failCommand", "mode", d("times", times), "data", point)).Err(); err != nil {
		t.Skip("no fail points: ", err)
	}
	t.Cleanup(func() {
		_ = admin.RunCommand(context.Background(), d("configureFailPoint", "failCommand", "mode", "off")).Err()
	})
}

// impatient is a client that soon looks again at a server which was away.
func impatient(app string) *options.ClientOptions {
	return options.Client().SetAppName(app).SetServerMonitoringMode(options.ServerMonitoringModePoll).SetHeartbeatInterval(500 * time.Millisecond)
}

// What a propagation could not write and has not read either counts as nothing.
func TestPropagateCutOffBeforeItLooks(t *testing.T) {
	const app = "extref cut off before it looks"
	db := mongotest.Database(t, impatient(app).SetRetryReads(false))
	r, _, orders := orders(t, db, 1, nil)
	must(t)(orders.UpdateOne(bounded(t), d("_id", 100), set("customer.version", 7))) // ahead
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	faults(t, db, app, "orders", 1, []string{"find"}, "closeConnection", true) // replaced by one that lets the first pass
	admin := db.Client().Database("admin")
	must(t)(nil, admin.RunCommand(bounded(t), d("configureFailPoint", "failCommand", "mode", d("skip", 1), "data",
		d("failCommands", bson.A{"find"}, "appName", app, "namespace", db.Name()+".orders", "closeConnection", true))).Err())
	result, err := r.Propagate(t.Context(), 1, nil)
	if !mongo.IsNetworkError(err) {
		t.Errorf("%v, want the error of the find", err)
	}
	diff(t, tally{}, result)
}

// What an election looks like to a client, in every command of Watch and more often
// than the driver tries again: it goes on, loses nothing, and blames no source.
func TestWatchThroughFaults(t *testing.T) {
	const app = "extref watch through faults" // the fail point is the server's
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			r, teams, colls := people(t, &extref.Options{Deferred: true}, change)
			insert(t, teams, team(1, "start"))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			same := mongotest.Database(t, impatient(app).SetRetryReads(false).SetRetryWrites(false)).Client().Database(teams.Database().Name())
			watched, _ := peopleOf(t, same.Collection("teams"), nil, change)
			failed, interrupted := 0, 0
			reconciled := make(chan bool, 10)
			fail := func(commands []string, data ...any) {
				t.Helper()
				faults(t, teams.Database(), app, "", 3, commands, data...)
			}
			fail([]string{"find", "aggregate"}, "errorCode", 91) // before it has begun
			stop := watching(t, watched, same.Collection("tokens"), &extref.WatchOptions{
				MaxAwait: 20 * time.Millisecond, Progress: func(r tally) { failed += int(r.Failed) },
				Reconciled: func(tally) { reconciled <- true }, Interrupted: func(error) { interrupted++ },
			})
			receive(t, reconciled)
			all := []string{"getMore", "aggregate", "find", "update", "commitTransaction"}
			for i, fault := range [][]any{{"closeConnection", true}, {"errorCode", 11600}, {"errorCode", 10107}, {"errorCode", 91}} {
				for j, commands := range [][]string{all, all[2:]} {
					fail(commands, fault...)
					name := fmt.Sprint(i, "/", j)
					must(t)(teams.UpdateByID(bounded(t), 1, d("$set", d("name", name), "$inc", d("version", 1))))
					eventually(t, name, func() bool {
						return lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name") == name
					})
				}
			}
			stop()
			// One more for each time that the first token could not be saved, which the fail
			// point may refuse three times; and none for the other interruptions.
			if failed > 0 || interrupted < 4 || len(reconciled) > 3 {
				t.Errorf("%d sources failed, %d interruptions, %d reconciliations more", failed, interrupted, len(reconciled))
			}
		})
	}
}

// While the server is away Drain fails no entry, and a Watch ends with its context.
func TestFaultsAreNoFailures(t *testing.T) {
	const app = "extref faults are no failures"
	db := mongotest.Database(t, impatient(app).SetRetryReads(false))
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: db.Collection("outbox"), Lease: time.Nanosecond})
	ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", "x")))
	faults(t, db, app, "", 1, []string{"find"}, "errorCode", 91)
	result, err := r.Drain(bounded(t), nil)
	if err == nil || result.Failed != 0 || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if pending := entries(t, db.Collection("outbox")); len(pending) != 1 || pending[0].Error != "" {
		t.Errorf("%+v", pending)
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(bounded(t), nil)))

	faults(t, db, app, "tokens", 1000, []string{"find"}, "errorCode", 91)
	ctx, cancel := context.WithTimeout(bounded(t), 300*time.Millisecond)
	defer cancel()
	if err := r.Watch(ctx, db.Collection("tokens"), nil); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "extref: watch: ") {
		t.Error(err)
	}
}

// One document with something else in place of a copy is named, by whoever comes
// upon it, and holds up nothing.
func TestMalformedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target extref.Target
		copied func(v int) bson.D
		bad    []bson.D
		field  string
	}{
		"array in place of a copy": {
			extref.Target{Path: "ref"},
			func(v int) bson.D { return d("ref", d("_id", 1, "name", "old", "version", v)) },
			[]bson.D{d("ref", bson.A{d("_id", 1, "name", "old", "version", 0)})}, "ref",
		},
		"string on the way": {
			extref.Target{Path: "ref", Fields: []extref.Field{{Path: "name", As: "shown.name"}}},
			func(v int) bson.D { return d("ref", d("_id", 1, "shown", d("name", "old"), "version", v)) },
			[]bson.D{d("ref", d("_id", 1, "shown", "old", "version", 0)), d("ref", d("_id", 1, "shown", nil, "version", 0))}, "ref.shown",
		},
		"array in an element": {
			extref.Target{Path: "items", Array: true, IDField: "product._id", VersionField: "product.version", Fields: []extref.Field{{Path: "name", As: "product.name"}}},
			func(v int) bson.D {
				return d("items", bson.A{d("product", d("_id", 1, "name", "old", "version", v)), d("product", 5)})
			},
			[]bson.D{d("items", bson.A{d("product", bson.A{d("_id", 1, "name", "old", "version", 0)})})}, "items.product",
		},
	} {
		for _, versions := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", versions), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				source, holders := db.Collection("source"), db.Collection("holders")
				target := test.target
				target.Collection = holders
				if target.Fields == nil {
					target.Fields = []extref.Field{{Path: "name"}}
				}
				if !versions {
					unversioned(&target)
				}
				ref := func(o *extref.Options) *extref.Ref[int, bson.D] {
					return newRef[int, bson.D](t, source, []extref.Target{target}, o)
				}
				insert(t, source, d("_id", 1, "name", "old"))
				n := int64(len(test.bad))
				for i := range 5 {
					insert(t, holders, append(d("_id", i), test.copied(0)...))
				}
				for i, doc := range test.bad {
					insert(t, holders, append(d("_id", 10+i), doc...))
				}
				named := func(r tally) {
					t.Helper()
					if r.Done != 5 || r.Failed != n || r.Failures[0].ID.AsInt64() != 10 || r.Failures[0].Collection != "holders" ||
						!strings.Contains(r.Failures[0].Err.Error(), "malformed: "+test.field) {
						t.Errorf("%+v", r)
					}
				}
				named(ok[extref.UpdateResult](t)(ref(nil).Update(t.Context(), 1, set("name", "one"))).Copies)
				ok[extref.UpdateResult](t)(ref(&extref.Options{Deferred: true}).Update(t.Context(), 1, set("name", "two")))
				named(ok[tally](t)(ref(nil).Propagate(t.Context(), 1, &mongopatterns.Work{BatchSize: 3})))
				boxed := ref(&extref.Options{Outbox: db.Collection("outbox")})
				ok[extref.UpdateResult](t)(boxed.Update(t.Context(), 1, set("name", "three")))
				named(ok[tally](t)(boxed.Drain(t.Context(), nil)))
			})
		}
	}
}

// What the server refuses of one document, a validator here, holds up no other.
func TestRefusedDocument(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, &extref.Options{Deferred: true}, change)
			insert(t, teams, team(1, "old"))
			ref := ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))
			for i := range 6 {
				insert(t, colls[0], d("_id", i, "team", ref, "closed", i == 2))
			}
			err := teams.Database().RunCommand(t.Context(), d("collMod", "single", "validator",
				d("$or", bson.A{d("closed", false), d("team.name", "old")}))).Err()
			if err != nil {
				t.Fatal(err)
			}
			ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
			result := ok[tally](t)(r.Propagate(t.Context(), 1, &mongopatterns.Work{BatchSize: 4}))
			if result.Failed != 1 || result.Failures[0].ID.AsInt64() != 2 || result.Done+result.Skipped != 5 {
				t.Errorf("%+v", result)
			}
			diff(t, 1, len(problems(t, r)))
		})
	}
}

// A copy that is copied on: the manual's two recipes.
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
	diff(t, d("_id", i32(5), "brand", "Acme & Sons"), lookupD(stored(t, orderColl)[0], "product"))

	started := make(chan bool, 1)
	stop := watching(t, toOrders, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
	})
	receive(t, started)
	ok[extref.UpdateResult](t)(toProducts.Update(t.Context(), 1, set("name", "Acme Inc.")))
	inSync(t, toOrders)
	stop()
	diff(t, d("_id", i32(5), "brand", "Acme Inc."), lookupD(stored(t, orderColl)[0], "product"))
}

// Product name and catalogue number in each part, without the product's _id.
func TestNaturalKey(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	products, parts := db.Collection("products"), db.Collection("parts")
	target := []extref.Target{{
		Collection: parts, IDField: "product_catalog_number", Unversioned: true, Fields: []extref.Field{{Path: "name", As: "product_name"}},
	}}
	ref := func(o extref.Options) *extref.Ref[int, bson.D] {
		o.KeyField = "catalog_number"
		return newRef[int, bson.D](t, products, target, &o)
	}
	r := ref(extref.Options{})
	diff(t, map[string]bson.D{"products": d("catalog_number", 1)}, r.ShardKey())
	// The product whose _id is another's catalogue number does not disturb.
	shifter := d("_id", "p1", "name", "left-handed smoke shifter", "catalog_number", i32(1234))
	insert(t, products, shifter, d("_id", i32(1234), "name", "decoy", "catalog_number", i32(1)))
	insert(t, parts, append(d("_id", "grommet"), ok[bson.D](t)(r.Reference("parts", shifter))...),
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
	eventually(t, "watched", func() bool { return lookupD(stored(t, parts)[0], "product_name") == "watched" })
	stop()
	fails(t, extref.ErrReferenced)(r.Delete(t.Context(), 1234))
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
		Collection: logs, IDField: "host", Unversioned: true, OnDelete: extref.Keep,
		Fields: []extref.Field{{Path: "name", As: "hostname"}, {Path: "ipaddr", Policy: extref.Freeze}},
	}}, nil)
	goofy := d("_id", "AAAB", "name", "goofy.example.com", "ipaddr", "127.66.66.66")
	insert(t, hosts, goofy)
	insert(t, logs, append(d("_id", 1, "message", "cpu is on fire!"), ok[bson.D](t)(r.Reference("logmsg", goofy))...))
	diff(t, updated(0, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), "AAAB", set("name", "pluto.example.com", "ipaddr", "127.0.0.2"))))
	diff(t, []bson.D{d("_id", i32(1), "message", "cpu is on fire!", "host", "AAAB", "hostname", "pluto.example.com", "ipaddr", "127.66.66.66")}, stored(t, logs))
}

// A fragile copy cannot be decoded, and not be encoded before it is.
type fragile struct{ doc *bson.D }

func (f *fragile) UnmarshalBSON([]byte) error  { return errors.New("no copy") }
func (f fragile) MarshalBSON() ([]byte, error) { return bson.Marshal(*f.doc) }

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
	copies := ok[*extref.Copies[copied, int, buyer]](t)(extref.For[copied](r, "orders.customer"))
	katrina := buyer{123, "Katrina Pope", "503-555-0000", 4}
	insert(t, customers, katrina)
	want := copied{123, "Katrina Pope", 4}
	diff(t, want, ok[copied](t)(copies.Reference(katrina)))
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
	if _, err := extref.For[lossy](r, "orders.customer"); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `has no field "version"`) {
		t.Error(err)
	}
	// What may hold anything is judged by a copy that was made.
	type inlined struct {
		ID   int            `bson:"_id"`
		Rest map[string]int `bson:",inline"`
	}
	open := ok[*extref.Copies[inlined, int, buyer]](t)(extref.For[inlined](r, "orders.customer"))
	fails(t, mongopatterns.ErrInvalid)(open.Fetch(t.Context(), 123))
	partly := ok[*extref.Copies[fragile, int, buyer]](t)(extref.For[fragile](r, "orders.customer"))
	fails(t, mongopatterns.ErrInvalid)(partly.Fetch(t.Context(), 123))
	fails(t, mongopatterns.ErrInvalid)(extref.For[lossy](r, "x"))
	fails(t, mongopatterns.ErrNotFound)(copies.Fetch(t.Context(), 9))
}

// The client's BSON options count where the package encodes by itself.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	o := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetBSONOptions(o))
	type source struct {
		ID      int      `json:"_id"`
		Tags    []string `json:"tags"`
		Version int64    `json:"version"`
	}
	r := newRef[int, source](t, db.Collection("sources"), []extref.Target{
		{Collection: db.Collection("holders"), Path: "ref", Fields: []extref.Field{{Path: "tags"}}},
	}, &extref.Options{BSON: o})
	insert(t, db.Collection("sources"), source{ID: 1, Tags: []string{"x"}})
	copies := ok[*extref.Copies[source, int, source]](t)(extref.For[source](r, "holders.ref"))
	insert(t, db.Collection("holders"), d("_id", 1, "ref", ok[source](t)(copies.Fetch(t.Context(), 1))))
	diff(t, updated(1, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, d("$set", source{ID: 1}))))
	diff(t, updated(2, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("tags", []string{"y"}))))
	diff(t, updated(3, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, d("$set", struct {
		Tags []string `json:"tags"`
	}{}))))
	diff(t, d("_id", i32(1), "tags", bson.A{}, "version", int64(3)), lookupD(stored(t, db.Collection("holders"))[0], "ref"))
}

// Whatever an update does, the version rises if and only if a followed field
// changes, and the copies show it.
func TestFormsOfUpdates(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			insert(t, teams, append(team(1, "a"), bson.E{Key: "version", Value: nil}))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			insert(t, colls[1], d("_id", 1, "teams", bson.A{ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 1))}))
			version := int64(0)
			for _, test := range []struct {
				update  any
				changed bool
			}{
				{set("name", "a"), false}, {set("name", "b"), true}, {set("name", "b", "phone", 1), false},
				{d("$set", d("name", "c"), "$inc", d("visits", 1)), true}, {d("$set", d("name", "c"), "$inc", d("visits", 1)), false},
				{bson.M{"$set": bson.M{"name": 1}}, true}, {set("name", 1.0), true}, {d("$inc", d("name", 2)), true}, {d("$inc", d("name", 0)), false},
				{d("$unset", d("name", "")), true}, {d("$unset", d("name", "")), false}, {d("$rename", d("phone", "name")), true},
				{d("$rename", d("name", "phone")), true}, {set("place", d("city", "Berlin", "street", "x")), false},
				{set("place.city", "Bonn"), true}, {set("place.street", "y"), false}, {set("place", d()), true}, {set("place.city", nil), true},
				{set("name", d("$first", "$a")), true}, {set("name", bson.A{1}), true}, {d("$push", d("name", 2)), true}, {set("name.0", 5), true},
				{d("$pull", d("name", 7)), false}, {mongo.Pipeline{set("name", "$motto")}, true}, {bson.A{set("name", "$motto")}, false},
				{d("$currentDate", d("at", true)), false}, {d("$max", d("names", 5)), false}, {set("motto", "frozen"), false},
				{d("$set", struct{ Name string }{"struct"}), true},
			} {
				before := version
				if test.changed && change == nil {
					version++
				}
				result, err := r.Update(t.Context(), 1, test.update)
				if err != nil || result.Changed != test.changed || result.Version != version || (result.Copies.Done == 2) != test.changed {
					t.Fatalf("%v: %+v, %v, version %d before", test.update, result, err, before)
				}
				diff(t, []string{}, problems(t, r))
			}
			for _, bad := range []any{d("$set", d("place.city.x", 1), "$bogus", d("a", 1)), set("__touch.$", 1), d("name", "x"), set("_id", 5), d()} {
				if _, err := r.Update(t.Context(), 1, bad); err == nil {
					t.Errorf("%v: passed", bad)
				}
			}
			if _, err := r.Update(t.Context(), 9, set("phone", 1)); !errors.Is(err, mongopatterns.ErrNotFound) || !strings.Contains(err.Error(), "source 9") {
				t.Error(err)
			}
			diff(t, []string{}, problems(t, r))
		})
	}
}

// Check and Repair of one source, and what a dry run would do.
func TestWork(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	for id := range 3 {
		insert(t, teams, team(id, "old"))
		insert(t, colls[0], d("_id", id, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", id)), "open", id > 0))
		insert(t, colls[1], d("_id", id, "teams", bson.A{
			ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", id)), ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 0)),
		}))
		ok[extref.UpdateResult](t)(r.Update(t.Context(), id, set("name", "new")))
	}
	insert(t, colls[0], d("_id", 7, "team", d("_id", 7, "version", 1)))
	one := &mongopatterns.Work{Filter: bson.M{"_id": 1}}
	var found []string
	for _, p := range collect(t, r.Check(t.Context(), one)) {
		found = append(found, p.String())
	}
	diff(t, []string{
		"extref: single 1: behind: team.version is 0, want 1: copy of 1", "extref: many 1: behind: teams.ref.v is 0, want 1: copy of 1",
	}, found)
	all := len(problems(t, r))
	dry := mongopatterns.Work{DryRun: true}
	diff(t, tally{Examined: 7, Done: 6, Remaining: 1}, ok[tally](t)(r.Repair(t.Context(), &dry)))
	var progress []int64
	watched := mongopatterns.Work{DryRun: true, Progress: func(r tally) { progress = append(progress, r.Done) }}
	diff(t, wrote(2), ok[tally](t)(r.Propagate(t.Context(), 1, &watched)))
	diff(t, []int64{1, 2, 2}, progress)
	diff(t, all, len(problems(t, r)))
	diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(r.Repair(t.Context(), one)))
	diff(t, all-2, len(problems(t, r)))
	// Only some of the documents.
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Propagate(t.Context(), 2, &mongopatterns.Work{Filter: d("open", true)})))
	must(t)(colls[0].UpdateMany(t.Context(), d(), d("$unset", d("team.version", ""))))
	diff(t, tally{Examined: 3, Done: 3}, ok[tally](t)(r.Adopt(t.Context(), "single.team", &mongopatterns.Work{DryRun: true, Filter: d("_id", d("$lt", 3))})))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", &mongopatterns.Work{Filter: d("_id", 2)})))
	for p, err := range mongopatterns.CheckAll(t.Context(), r) {
		if err != nil || p.Pattern != "extref" || p.Collection == "" {
			t.Error(p, err)
		}
	}
}

// With Work.Strict a document that the server refuses ends Propagate and Repair.
func TestStrict(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	insert(t, teams, team(1, "old"))
	ref := ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))
	for i := range 6 {
		insert(t, colls[0], d("_id", i, "team", ref, "closed", i == 2))
	}
	must(t)(nil, teams.Database().RunCommand(t.Context(), d("collMod", "single", "validator",
		d("$or", bson.A{d("closed", false), d("team.name", "old")}))).Err())
	ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
	if result, err := r.Propagate(t.Context(), 1, &mongopatterns.Work{Strict: true, BatchSize: 4}); err == nil {
		t.Errorf("%+v", result)
	}
	if result, err := r.Repair(t.Context(), &mongopatterns.Work{Strict: true}); err == nil {
		t.Errorf("%+v", result)
	}
	if result, err := r.Repair(t.Context(), nil); err != nil || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}
