package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func init() {
	add(Pattern{Package: "extref", Writes: extrefRows, Reads: extrefReads(), Writings: extrefWritings, Steps: extrefSteps, Role: extrefRole})
}

type customers = extref.Source[int, bson.D]

func newCustomers(s *Scene, target extref.Target, opts *extref.Options) *customers {
	target.Collection, target.Path = s.Coll("orders"), "customer"
	target.Fields = []extref.Field{{Path: "name"}, {Path: "city", Frozen: true}}
	var own extref.Options
	if opts != nil {
		own = *opts
	}
	own.Scope = s.Scope
	r := testkit.Must(extref.New[int, bson.D](s.Coll("customers"), []extref.Target{target}, &own))
	s.OK(r.EnsureIndexes(s.Context()))
	return r
}

// ordered are two customers; the first has three orders, the second has one.
func ordered(s *Scene, target extref.Target, opts *extref.Options) *customers {
	r := newCustomers(s, target, opts)
	for id, name := range []string{"Ann", "Bob"} {
		customer := testkit.D("_id", id, "name", name, "city", "Here", "version", int64(1))
		s.Insert("customers", customer)
		copied := testkit.Must(r.Copy("orders.customer", customer))
		s.InsertEach("orders", 3-2*id, func(n int) bson.D { return testkit.D("_id", 10*id+n, "customer", copied) })
	}
	return r
}

func customer(target extref.Target, opts func(s *Scene) *extref.Options, do func(ctx context.Context, s *Scene, r *customers) error, repeated ...error) func(s *Scene) Call {
	return func(s *Scene) Call {
		r := ordered(s, target, opts(s))
		var aside []string
		if opts(s) != nil && opts(s).Outbox != nil {
			aside = []string{"outbox"}
		}
		return Call{One: func(ctx context.Context) error { return do(ctx, s, r) }, Repeated: repeated, Aside: aside, Check: []mongopatterns.Checker{r},
			Settle: func(ctx context.Context) error {
				if opts(s) != nil && opts(s).Outbox != nil {
					return testkit.ErrorOf(r.Drain(ctx, nil))
				}
				if opts(s) != nil && opts(s).Deferred {
					return testkit.ErrorOf(r.Repair(ctx, nil))
				}
				return nil
			}}
	}
}

func plainly(*Scene) *extref.Options  { return nil }
func deferred(*Scene) *extref.Options { return &extref.Options{Deferred: true} }
func outboxed(s *Scene) *extref.Options {
	return &extref.Options{Outbox: s.Coll("outbox"), Lease: time.Second}
}

// errFollowed ends a follower that has caught up.
var errFollowed = errors.New("followed")

func rename(ctx context.Context, _ *Scene, r *customers) error {
	return testkit.ErrorOf(r.Update(ctx, 0, testkit.D("$set", testkit.D("name", "Anna"))))
}

// renamed are customers whose source has changed and whose copies have not.
func renamed(s *Scene, target extref.Target, opts *extref.Options) *customers {
	r := ordered(s, target, opts)
	s.OK(testkit.ErrorOf(s.Coll("customers").UpdateMany(s.Context(), testkit.D(), testkit.D("$set", testkit.D("name", "Anna"), "$inc", testkit.D("version", int64(1))))))
	return r
}

var extrefRows = []Row{
	{"extref.Source.Update", customer(extref.Target{}, plainly, rename)},
	{"extref.Source.Update/not copied", customer(extref.Target{}, plainly, func(ctx context.Context, _ *Scene, r *customers) error {
		return testkit.ErrorOf(r.Update(ctx, 0, testkit.D("$set", testkit.D("phone", "555"))))
	})},
	{"extref.Source.Update/pipeline", customer(extref.Target{}, plainly, func(ctx context.Context, _ *Scene, r *customers) error {
		return testkit.ErrorOf(r.Update(ctx, 0, bson.A{testkit.D("$set", testkit.D("name", "Anna"))}))
	})},
	{"extref.Source.Update/unversioned", customer(extref.Target{Unversioned: true}, plainly, rename)},
	{"extref.Source.Update/outbox", customer(extref.Target{}, outboxed, rename)},
	{"extref.Source.Update/deferred", customer(extref.Target{}, deferred, rename)},
	{"extref.Source.Delete", customer(extref.Target{OnDelete: mongopatterns.Unlink}, plainly, func(ctx context.Context, _ *Scene, r *customers) error {
		return testkit.ErrorOf(r.Delete(ctx, 0))
	}, mongopatterns.ErrNotFound)},
	{"extref.Source.Delete/cascade", customer(extref.Target{OnDelete: mongopatterns.Cascade}, plainly, func(ctx context.Context, _ *Scene, r *customers) error {
		return testkit.ErrorOf(r.Delete(ctx, 0))
	}, mongopatterns.ErrNotFound)},
	{"extref.Source.Pin", customer(extref.Target{}, plainly, func(ctx context.Context, s *Scene, r *customers) error {
		return mongopatterns.Transact(ctx, s.DB.Client(), func(ctx context.Context) error {
			copied, err := r.Pin(ctx, "orders.customer", 0)
			if err != nil {
				return err
			}
			return testkit.ErrorOf(s.Coll("orders").InsertOne(ctx, s.scoped(testkit.D("_id", 99, "customer", copied))))
		})
	}, ErrDuplicate)},
	{"extref.Copies.Pin", customer(extref.Target{}, plainly, func(ctx context.Context, s *Scene, r *customers) error {
		copies, err := extref.As[bson.D](r, "orders.customer")
		if err != nil {
			return err
		}
		return mongopatterns.Transact(ctx, s.DB.Client(), func(ctx context.Context) error {
			copied, err := copies.Pin(ctx, 0)
			if err != nil {
				return err
			}
			return testkit.ErrorOf(s.Coll("orders").InsertOne(ctx, s.scoped(testkit.D("_id", 99, "customer", copied))))
		})
	}, ErrDuplicate)},
	{"extref.Source.Propagate", func(s *Scene) Call {
		r := renamed(s, extref.Target{}, deferred(s))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Propagate(ctx, 0, small) }, Counts: "orders",
			Settle: func(ctx context.Context) error { return testkit.ErrorOf(r.Propagate(ctx, 1, nil)) }, Check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Propagate/unversioned", func(s *Scene) Call {
		r := renamed(s, extref.Target{Unversioned: true}, deferred(s))
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Propagate(ctx, 0, small) }, Counts: "orders",
			Settle: func(ctx context.Context) error { return testkit.ErrorOf(r.Propagate(ctx, 1, nil)) }, Check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Drain", func(s *Scene) Call {
		r := ordered(s, extref.Target{}, outboxed(s))
		s.OK(testkit.ErrorOf(r.Update(s.Context(), 0, testkit.D("$set", testkit.D("name", "Anna")))))
		s.OK(testkit.ErrorOf(r.Update(s.Context(), 1, testkit.D("$set", testkit.D("name", "Bert")))))
		drain := func(ctx context.Context) (mongopatterns.Result, error) { return r.Drain(ctx, nil) }
		return Call{Upkeep: drain, Aside: []string{"outbox"}, Repeat: until(drain, func(ctx context.Context) bool {
			n, err := s.Coll("outbox").CountDocuments(ctx, testkit.D())
			return err == nil && n == 0
		}), Check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Watch", func(s *Scene) Call {
		r := renamed(s, extref.Target{}, deferred(s))
		// It follows until the copies are as the sources, which its first Repair makes them.
		watch := func(ctx context.Context) (mongopatterns.Result, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			err := r.Watch(ctx, s.Coll("tokens"), &extref.WatchOptions{MaxAwait: 10 * time.Millisecond, Reconciled: func(mongopatterns.Result) { cancel(errFollowed) }})
			if context.Cause(ctx) == errFollowed {
				err = nil
			}
			return mongopatterns.Result{}, err
		}
		return Call{Upkeep: watch, Aside: []string{"tokens"}, Check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Adopt", func(s *Scene) Call {
		r := newCustomers(s, extref.Target{}, nil)
		s.Insert("customers", testkit.D("_id", 0, "name", "Ann", "city", "Here"), testkit.D("_id", 1, "name", "Bob", "city", "There"))
		s.InsertEach("orders", 3, func(id int) bson.D { return testkit.D("_id", id, "customer", testkit.D("_id", id%2)) })
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Adopt(ctx, "orders.customer", small) }, Counts: "orders", Check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Repair", func(s *Scene) Call {
		r := renamed(s, extref.Target{}, nil)
		return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, small) }, Check: []mongopatterns.Checker{r}}
	}},
}

func extrefReads() (out []Row) {
	out = append(out, reads("extref.Source", "", func(s *Scene) *customers { return ordered(s, extref.Target{}, nil) }, map[string]func(context.Context, *customers) error{
		"Fetch": func(ctx context.Context, r *customers) error {
			return testkit.ErrorOf(r.Fetch(ctx, "orders.customer", 1))
		},
		"Check": func(ctx context.Context, r *customers) error { return checked(r)(ctx) },
	})...)
	out = append(out, reads("extref.Copies", "", func(s *Scene) *customers { return ordered(s, extref.Target{}, nil) }, map[string]func(context.Context, *customers) error{
		"Fetch": func(ctx context.Context, r *customers) error {
			return testkit.ErrorOf(testkit.Must(extref.As[bson.D](r, "orders.customer")).Fetch(ctx, 1))
		},
	})...)
	return out
}

func extrefWritings(s *Scene) []Writing {
	ctx := s.Context()
	x := testkit.Must(extref.New[int, bson.D](s.Coll("customers"), []extref.Target{{Collection: s.Coll("orders"), Path: "customer", Fields: []extref.Field{{Path: "n"}}}}, nil))
	for e := range Entities {
		d := testkit.D("_id", e, "n", 0, "version", int64(1), "all", bson.A{})
		s.Insert("customers", d)
		s.InsertEach("orders", 3, func(i int) bson.D {
			return testkit.D("_id", 10*i+e, "customer", testkit.Must(x.Copy("orders.customer", d)))
		})
	}
	orders := Keyed{s.Coll("orders"), testkit.D("_id", 1)}
	return []Writing{{"extref.Update", append(sharders(x), orders), func(ctx context.Context, e, n int) error {
		return testkit.ErrorOf(x.Update(ctx, e, testkit.D("$set", testkit.D("n", n), "$push", testkit.D("all", n))))
	}, func(t *testing.T, e int) []int {
		var d struct{ All []int }
		if err := s.Coll("customers").FindOne(ctx, testkit.D("_id", e)).Decode(&d); err != nil {
			t.Error(err)
		}
		return d.All
	}}}
}

func extrefSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	// The same source changes in three ways: with its copies, by the outbox, by Watch.
	var refs []*extref.Source[int, bson.M]
	for i, opts := range []*extref.Options{nil, {Outbox: db.Collection("outbox"), Lease: time.Second}, {Deferred: true}} {
		source, orders := db.Collection(fmt.Sprint("customers", i)), db.Collection(fmt.Sprint("orders", i))
		r := testkit.Must(extref.New[int, bson.M](source, []extref.Target{{Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, opts))
		testkit.OK(t, r.EnsureIndexes(t.Context()))
		testkit.OK(t, done(testkit.ErrorOf(source.InsertOne(t.Context(), bson.M{"_id": 1, "name": -1, "version": 1}))))
		for id := range 5 {
			copied := testkit.Must(r.Fetch(t.Context(), orders.Name()+".customer", 1))
			testkit.OK(t, done(testkit.ErrorOf(orders.InsertOne(t.Context(), bson.M{"_id": id, "customer": copied}))))
		}
		refs = append(refs, r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if err := refs[2].Watch(ctx, db.Collection("tokens"), nil); err != nil && ctx.Err() == nil {
				t.Log("watch ended, and begins again: ", err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	step := func(ctx context.Context, n int) error {
		for _, r := range refs {
			if err := testkit.ErrorOf(r.Update(ctx, 1, bson.M{"$set": bson.M{"name": n}})); err != nil {
				return err
			}
		}
		return testkit.ErrorOf(refs[1].Drain(ctx, nil))
	}
	return step, func(t *testing.T, n int) {
		for i, r := range refs {
			orders := db.Collection(fmt.Sprint("orders", i))
			var got []int
			for range 1200 { // the followers may still be under way
				if i == 1 {
					testkit.OK(t, testkit.ErrorOf(r.Drain(t.Context(), nil)))
				}
				if got = ids(t, orders, bson.M{"customer.name": n - 1}); len(got) == 5 {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if !slices.Equal(got, upTo(5)) {
				t.Errorf("orders%d: after %d changes the newest name is in %v", i, n, got)
			}
			testkit.Healthy(t, r)
		}
	}
}

var extrefRole = &Role{Open: extrefPlayer, Writes: []string{"customer_%"}}

func extrefPlayer(s *Side) (*Player, error) {
	customers := s.coll("customers")
	path := s.name("customer")
	r, err := extref.New[int, bson.D](customers, []extref.Target{{Collection: s.Main, Path: path, Fields: []extref.Field{{Path: "name"}}, Name: "copy"}}, nil)
	return opened(&Player{
		Adopt: func(ctx context.Context, ids []any) error {
			if err := testkit.ErrorOf(customers.InsertOne(ctx, testkit.D("_id", 1, "name", -1))); err != nil {
				return err
			}
			return each(ids, func(_ int, id any) error {
				copied, err := r.Fetch(ctx, "copy", 1)
				if err != nil {
					return err
				}
				return s.set(ctx, id, path, copied)
			})
		},
		Step: func(ctx context.Context, _ []any, n int) error {
			return testkit.ErrorOf(r.Update(ctx, 1, testkit.D("$set", testkit.D("name", n))))
		},
		Oracle: func(ctx context.Context, ids []any) error {
			return each(ids, func(_ int, id any) error { return s.has(ctx, id, path+".name", Rounds-1) })
		},
	}, r, err)
}
