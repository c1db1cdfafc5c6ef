package sweep

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

type customers = extref.Source[int, bson.D]

func newCustomers(s *scene, target extref.Target, opts *extref.Options) *customers {
	target.Collection, target.Path = s.coll("orders"), "customer"
	target.Fields = []extref.Field{{Path: "name"}, {Path: "city", Frozen: true}}
	r := testkit.Must(extref.New[int, bson.D](s.coll("customers"), []extref.Target{target}, opts))
	s.ok(r.EnsureIndexes(s.Context()))
	return r
}

// ordered are two customers; the first has three orders, the second has one.
func ordered(s *scene, target extref.Target, opts *extref.Options) *customers {
	r := newCustomers(s, target, opts)
	for id, name := range []string{"Ann", "Bob"} {
		customer := doc("_id", id, "name", name, "city", "Here", "version", int64(1))
		s.insert("customers", customer)
		copied := testkit.Must(r.Copy("orders.customer", customer))
		for n := range 3 - 2*id {
			s.insert("orders", doc("_id", 10*id+n, "customer", copied))
		}
	}
	return r
}

func customer(target extref.Target, opts func(s *scene) *extref.Options, do func(ctx context.Context, s *scene, r *customers) error, repeated ...error) func(s *scene) call {
	return func(s *scene) call {
		r := ordered(s, target, opts(s))
		return call{one: func(ctx context.Context) error { return do(ctx, s, r) }, repeated: repeated, check: []mongopatterns.Checker{r},
			settle: func(ctx context.Context) error {
				if opts(s) != nil && opts(s).Outbox != nil {
					return void(r.Drain(ctx, nil))
				}
				if opts(s) != nil && opts(s).Deferred {
					return void(r.Repair(ctx, nil))
				}
				return nil
			}}
	}
}

func plainly(*scene) *extref.Options  { return nil }
func deferred(*scene) *extref.Options { return &extref.Options{Deferred: true} }
func outboxed(s *scene) *extref.Options {
	return &extref.Options{Outbox: s.coll("outbox"), Lease: time.Second}
}

func rename(ctx context.Context, _ *scene, r *customers) error {
	return void(r.Update(ctx, 0, doc("$set", doc("name", "Anna"))))
}

// renamed are customers whose source has changed and whose copies have not.
func renamed(s *scene, target extref.Target, opts *extref.Options) *customers {
	r := ordered(s, target, opts)
	s.ok(void(s.coll("customers").UpdateMany(s.Context(), doc(), doc("$set", doc("name", "Anna"), "$inc", doc("version", int64(1))))))
	return r
}

var extrefRows = []row{
	{"extref.Source.Update", customer(extref.Target{}, plainly, rename)},
	{"extref.Source.Update/not copied", customer(extref.Target{}, plainly, func(ctx context.Context, _ *scene, r *customers) error {
		return void(r.Update(ctx, 0, doc("$set", doc("phone", "555"))))
	})},
	{"extref.Source.Update/pipeline", customer(extref.Target{}, plainly, func(ctx context.Context, _ *scene, r *customers) error {
		return void(r.Update(ctx, 0, bson.A{doc("$set", doc("name", "Anna"))}))
	})},
	{"extref.Source.Update/unversioned", customer(extref.Target{Unversioned: true}, plainly, rename)},
	{"extref.Source.Update/outbox", customer(extref.Target{}, outboxed, rename)},
	{"extref.Source.Update/deferred", customer(extref.Target{}, deferred, rename)},
	{"extref.Source.Delete", customer(extref.Target{OnDelete: mongopatterns.Unlink}, plainly, func(ctx context.Context, _ *scene, r *customers) error {
		return void(r.Delete(ctx, 0))
	}, mongopatterns.ErrNotFound)},
	{"extref.Source.Delete/cascade", customer(extref.Target{OnDelete: mongopatterns.Cascade}, plainly, func(ctx context.Context, _ *scene, r *customers) error {
		return void(r.Delete(ctx, 0))
	}, mongopatterns.ErrNotFound)},
	{"extref.Source.Pin", customer(extref.Target{}, plainly, func(ctx context.Context, s *scene, r *customers) error {
		return mongopatterns.Transact(ctx, s.db.Client(), func(ctx context.Context) error {
			copied, err := r.Pin(ctx, "orders.customer", 0)
			if err != nil {
				return err
			}
			return void(s.coll("orders").InsertOne(ctx, doc("_id", 99, "customer", copied)))
		})
	}, errDuplicate)},
	{"extref.Copies.Pin", customer(extref.Target{}, plainly, func(ctx context.Context, s *scene, r *customers) error {
		copies, err := extref.As[bson.D](r, "orders.customer")
		if err != nil {
			return err
		}
		return mongopatterns.Transact(ctx, s.db.Client(), func(ctx context.Context) error {
			copied, err := copies.Pin(ctx, 0)
			if err != nil {
				return err
			}
			return void(s.coll("orders").InsertOne(ctx, doc("_id", 99, "customer", copied)))
		})
	}, errDuplicate)},
	{"extref.Source.Propagate", func(s *scene) call {
		r := renamed(s, extref.Target{}, deferred(s))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Propagate(ctx, 0, small) }, counts: "orders",
			settle: func(ctx context.Context) error { return void(r.Propagate(ctx, 1, nil)) }, check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Propagate/unversioned", func(s *scene) call {
		r := renamed(s, extref.Target{Unversioned: true}, deferred(s))
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Propagate(ctx, 0, small) }, counts: "orders",
			settle: func(ctx context.Context) error { return void(r.Propagate(ctx, 1, nil)) }, check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Drain", func(s *scene) call {
		r := ordered(s, extref.Target{}, outboxed(s))
		s.ok(void(r.Update(s.Context(), 0, doc("$set", doc("name", "Anna")))))
		s.ok(void(r.Update(s.Context(), 1, doc("$set", doc("name", "Bert")))))
		drain := func(ctx context.Context) (mongopatterns.Result, error) { return r.Drain(ctx, nil) }
		return call{upkeep: drain, aside: []string{"outbox"}, repeat: until(drain, func(ctx context.Context) bool {
			n, err := s.coll("outbox").CountDocuments(ctx, doc())
			return err == nil && n == 0
		}), check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Watch", func(s *scene) call {
		r := renamed(s, extref.Target{}, deferred(s))
		// It follows until the copies are as the sources, which its first Repair makes them.
		watch := func(ctx context.Context) (mongopatterns.Result, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			err := r.Watch(ctx, s.coll("tokens"), &extref.WatchOptions{MaxAwait: 10 * time.Millisecond, Reconciled: func(mongopatterns.Result) { cancel(errFollowed) }})
			if context.Cause(ctx) == errFollowed {
				err = nil
			}
			return mongopatterns.Result{}, err
		}
		return call{upkeep: watch, aside: []string{"tokens"}, check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Adopt", func(s *scene) call {
		r := newCustomers(s, extref.Target{}, nil)
		s.insert("customers", doc("_id", 0, "name", "Ann", "city", "Here"), doc("_id", 1, "name", "Bob", "city", "There"))
		for id := range 3 {
			s.insert("orders", doc("_id", id, "customer", doc("_id", id%2)))
		}
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Adopt(ctx, "orders.customer", small) }, counts: "orders", check: []mongopatterns.Checker{r}}
	}},
	{"extref.Source.Repair", func(s *scene) call {
		r := renamed(s, extref.Target{}, nil)
		return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, small) }, check: []mongopatterns.Checker{r}}
	}},
}
