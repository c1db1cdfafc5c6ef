package calls_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Values that mean something else in an expression: a field that the documents have, a document, operators.
var expressions = map[string]any{
	"field":              "$x",
	"root":               "$$ROOT",
	"document":           testkit.D("a", "$x"),
	"operator":           testkit.D("$add", bson.A{1, 1}),
	"operator, inside":   testkit.D("a", testkit.D("$add", bson.A{1, 1})),
	"literal":            testkit.D("$literal", "$x"),
	"operator of update": testkit.D("$set", testkit.D("x", 1)),
}

// holds reports whether v is somewhere in stored.
func holds(stored, v bson.RawValue) bool {
	if stored.Equal(v) {
		return true
	}
	if stored.Type != bson.TypeArray && stored.Type != bson.TypeEmbeddedDocument {
		return false
	}
	elements, _ := bson.Raw(stored.Value).Elements()
	for _, e := range elements {
		if holds(e.Value(), v) {
			return true
		}
	}
	return false
}

func rawValue(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	testkit.Must(0, err)
	return bson.RawValue{Type: kind, Value: data}
}

// same is an error unless got is want.
func same(want any) func(got any, err error) error {
	return func(got any, err error) error {
		if err == nil && !rawValue(got).Equal(rawValue(want)) {
			err = fmt.Errorf("read %v, want %v", rawValue(got), rawValue(want))
		}
		return err
	}
}

// first returns the first value of seq.
func first[T any](seq iter.Seq2[T, error]) (none T, err error) {
	for v, err := range seq {
		return v, err
	}
	return none, errors.New("nothing is there")
}

// everything is what the collections hold.
func everything(t *testing.T, db *mongo.Database) string {
	t.Helper()
	var b strings.Builder
	for _, name := range testkit.Must(db.ListCollectionNames(t.Context(), bson.D{})) {
		for _, doc := range testkit.Stored[bson.Raw](t, db.Collection(name)) {
			fmt.Fprintln(&b, name, doc)
		}
	}
	return b.String()
}

// start stores the documents that the writings change.
func start(t *testing.T, db *mongo.Database) {
	t.Helper()
	testkit.Insert(t, db.Collection("c"), testkit.D("_id", 1, "x", "EXPANDED", "ancestors", bson.A{}, "cells", testkit.D("A", testkit.D("1", bson.D{}))))
	testkit.Insert(t, db.Collection("d"), testkit.D("_id", 1, "parent", 1, "x", "EXPANDED"))
}

// A value that a call stores is stored as it is, or refused and nothing is written.
func TestValuesAreLiteral(t *testing.T) {
	for shape, v := range expressions {
		for name, call := range writings {
			if !scale.Third(shape + name) {
				continue
			}
			t.Run(shape+"/"+name, func(t *testing.T) {
				ctx, db := t.Context(), mongotest.Database(t)
				c, d := db.Collection("c"), db.Collection("d")
				start(t, db)
				before := everything(t, db)
				err := call(ctx, c, d, v)
				after := everything(t, db)
				if err != nil {
					if !errors.Is(err, mongopatterns.ErrInvalid) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone || after != before {
						t.Errorf("%v: %v; stored\n%safter\n%s", mongopatterns.OutcomeOf(err), err, before, after)
					}
					return
				}
				found := name == "series.Append" // which packs it
				for _, coll := range []*mongo.Collection{c, d} {
					for _, doc := range testkit.Stored[bson.Raw](t, coll) {
						found = found || holds(rawValue(doc), rawValue(v))
					}
				}
				if !found {
					t.Errorf("it is not stored as it is:\n%s", after)
				}
			})
		}
	}
}

// A scenario is calls that write and read, with v in every place that takes a value of the caller. A read that returns
// something else is an error. The collection "c" may have a document with v as its _id.
type scenario func(ctx context.Context, c, d *mongo.Collection, v any) []func() error

var scenarios = map[string]scenario{
	"approx": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		a := testkit.Must(approx.New[any](c, &approx.Options{Every: 1}))
		return []func() error{
			func() error { return a.Add(ctx, v, 3) },
			func() error { return testkit.ErrorOf(a.Flush(ctx)) },
			func() error { n, err := a.Get(ctx, v); return same(int64(3))(n, err) },
		}
	},
	"approx, distinct": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		a := testkit.Must(approx.NewDistinct[any, any](c, &approx.Options{Every: 1}))
		return []func() error{
			func() error { return a.Add(ctx, v, v) },
			func() error { return testkit.ErrorOf(a.Flush(ctx)) },
			func() error { e, err := a.Estimate(ctx, v); return same(int64(1))(e.Count, err) },
		}
	},
	"attribute": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		a := testkit.Must(attribute.New[any, any](c, &attribute.Options{QualifierField: "q"}))
		key := attribute.Named("$x")
		return []func() error{
			func() error { return a.Set(ctx, v, key, v) },
			func() error { got, err := a.Get(ctx, v, key); return same(v)(got, err) },
			func() error { return a.Replace(ctx, v, key, "other") },
			func() error { return a.Add(ctx, v, key.Qualified("$x"), v) },
			func() error { got, err := a.Get(ctx, v, key.Qualified("$x")); return same(v)(got, err) },
			func() error { return a.Remove(ctx, v, key.Qualified("$x")) },
			func() error { return a.SetAll(ctx, v, attribute.Attribute[any]{Key: "$x", Value: v, Qualifier: "$x"}) },
			func() error {
				got, err := a.GetBy(ctx, a.Filter(a.Equals(key.Qualified("$x"), v)), key.Qualified("$x"))
				return same(v)(got, err)
			},
			func() error { return testkit.ErrorOf(a.RenameKey(ctx, "$x", "$y", nil)) },
			func() error {
				got, err := a.Get(ctx, v, attribute.Named("$y").Qualified("$x"))
				return same(v)(got, err)
			},
			func() error { return checks(a)(ctx) },
		}
	},
	"bucket": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		b := testkit.Must(bucket.New[any, bson.D](c, hourly, nil))
		m := testkit.D("timestamp", bson.NewDateTimeFromTime(moment), "v", v)
		return []func() error{
			func() error { return testkit.ErrorOf(b.Append(ctx, v, m)) },
			func() error {
				got, err := first(b.Range(ctx, v, moment, moment.Add(time.Hour)))
				return same(m)(got, err)
			},
			func() error { return b.Replace(ctx, v, append(m[:2:2], bson.E{Key: "w", Value: v})) },
			func() error {
				got, err := b.Latest(ctx, v)
				return same(append(m[:2:2], bson.E{Key: "w", Value: v}))(got, err)
			},
			func() error { return b.Delete(ctx, v, moment) },
			func() error { return checks(b)(ctx) },
		}
	},
	"computed": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		s := testkit.Must(computed.New[any, any, bson.D](d, c, computed.Rule{
			KeyField: "film", Empty: testkit.D("n", 0, "last", nil),
			Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "n", testkit.D("$sum", 1), "last", testkit.D("$last", "$v")))},
		}, nil))
		return []func() error{
			func() error {
				return s.Change(ctx, []any{v}, func(ctx context.Context) error {
					return testkit.ErrorOf(d.InsertOne(ctx, testkit.D("_id", v, "film", v, "v", v)))
				})
			},
			func() error { got, err := s.Get(ctx, v, time.Hour); return same(v)(testkit.Get(got, "last"), err) },
			func() error { return s.Mark(ctx, v) },
			func() error { return testkit.ErrorOf(s.Drain(ctx, nil)) },
			func() error { return testkit.ErrorOf(s.Refresh(ctx, v)) },
			func() error { got, err := s.Get(ctx, v, time.Hour); return same(v)(testkit.Get(got, "last"), err) },
			func() error { return checks(s)(ctx) },
		}
	},
	"extref": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		r := testkit.Must(extref.New[any, bson.D](c, []extref.Target{{Collection: d, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil))
		return []func() error{
			func() error {
				copied, err := r.Fetch(ctx, "d.customer", v)
				if err != nil {
					return err
				}
				_, err = d.InsertOne(ctx, testkit.D("_id", 2, "customer", copied))
				return err
			},
			func() error { return testkit.ErrorOf(r.Update(ctx, v, testkit.D("$set", testkit.D("name", v)))) },
			func() error {
				var got bson.D
				err := d.FindOne(ctx, testkit.D("customer.name", testkit.D("$eq", v))).Decode(&got)
				return err
			},
			func() error { return testkit.ErrorOf(r.Propagate(ctx, v, nil)) },
			func() error { return checks(r)(ctx) },
		}
	},
	"outlier": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return lists(ctx, testkit.Must(outlier.New[any, any](c, d, &outlier.Options{MaxCount: 1, OverflowMaxCount: 1})), v)
	},
	"outlier, set": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return lists(ctx, testkit.Must(outlier.New[any, any](c, d, &outlier.Options{Set: true, MaxCount: 1, OverflowMaxCount: 1})), v)
	},
	"prealloc": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		g := testkit.Must(prealloc.New[any, any](c, nil))
		by := func() error {
			cells, err := g.Cells(ctx, v)
			if err != nil {
				return err
			}
			return same(v)(cells[0].By, nil)
		}
		at := prealloc.At("A", "1")
		return []func() error{
			func() error { return testkit.ErrorOf(c.DeleteMany(ctx, bson.D{})) },
			func() error { return g.Insert(ctx, v, testkit.D("v", v), prealloc.Row("A", 2)...) },
			func() error { return g.Hold(ctx, v, v, time.Hour, at) },
			by,
			func() error { return g.Claim(ctx, v, v, at) },
			by,
			func() error { return testkit.ErrorOf(g.HoldAdjacent(ctx, v, v, time.Hour, 1)) },
			func() error { return g.Release(ctx, v, v, at) },
			func() error { return checks(g)(ctx) },
		}
	},
	"relation, two-way": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return links(ctx, c, d, v, &relation.Options{ChildrenField: "children", OwnerField: "owner"})
	},
	"relation, owner": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return links(ctx, c, d, v, &relation.Options{OwnerField: "owner"})
	},
	"relation, links": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return links(ctx, c, d, v, &relation.Options{Links: c.Database().Collection("links")})
	},
	"schemaversion": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		s := testkit.Must(schemaversion.New[bson.D](c, nil, nil))
		return []func() error{
			func() error { return s.Update(ctx, v, testkit.D("$set", testkit.D("v", v))) },
			func() error { got, err := s.Get(ctx, v); return same(v)(testkit.Get(got, "v"), err) },
		}
	},
	"series": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		s := testkit.Must(series.New[any, bson.D](c, hourly, nil))
		m := testkit.D("timestamp", bson.NewDateTimeFromTime(moment), "v", v)
		return []func() error{
			func() error { return s.Append(ctx, v, m) },
			func() error {
				got, err := first(s.Range(ctx, v, moment, moment.Add(time.Hour)))
				return same(m)(got, err)
			},
			func() error { return s.Replace(ctx, v, m) },
			func() error { return testkit.ErrorOf(s.Compact(ctx, nil)) },
			func() error { got, err := s.Latest(ctx, v); return same(m)(got, err) },
			func() error { return s.Delete(ctx, v, moment) },
			func() error { return checks(s)(ctx) },
		}
	},
	"slots": func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		s := testkit.Must(slots.New[any, any](c, timeseries.Days(nil), nil))
		return []func() error{
			func() error { return s.Set(ctx, v, moment, v) },
			func() error { got, err := s.Get(ctx, v, moment); return same(v)(got, err) },
			func() error { return s.Set(ctx, v, moment.Add(time.Hour), "other") },
			func() error { return s.Delete(ctx, v, moment.Add(time.Hour)) },
			func() error { got, err := s.Latest(ctx, v); return same(v)(got.Value, err) },
			func() error { return checks(s)(ctx) },
		}
	},
	"split": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		s := testkit.Must(split.New[any, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cv"}}))
		return []func() error{
			func() error { return testkit.ErrorOf(c.DeleteMany(ctx, bson.D{})) },
			func() error { return s.Insert(ctx, v, testkit.D("v", v), testkit.D("cv", v)) },
			func() error {
				return s.Update(ctx, v, testkit.D("$set", testkit.D("w", v)), testkit.D("$set", testkit.D("cv", v)))
			},
			func() error { got, err := s.GetHot(ctx, v); return same(v)(testkit.Get(got, "w"), err) },
			func() error { got, err := s.GetCold(ctx, v); return same(v)(testkit.Get(got, "cv"), err) },
			func() error { return checks(s)(ctx) },
			func() error { return s.Delete(ctx, v) },
		}
	},
	"subset": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		s := testkit.Must(subset.New[any, bson.D](c, d, &subset.Options{N: 2, Sort: testkit.D("rank", -1)}))
		return []func() error{
			func() error { return testkit.ErrorOf(s.Insert(ctx, v, testkit.D("_id", v, "rank", v, "v", v))) },
			func() error { return testkit.ErrorOf(s.Insert(ctx, v, testkit.D("_id", 2, "rank", "a", "v", v))) },
			func() error { return s.Update(ctx, v, v, testkit.D("$set", testkit.D("w", v))) },
			func() error { got, err := s.Get(ctx, v, v); return same(v)(testkit.Get(got, "w"), err) },
			func() error { return checks(s)(ctx) },
			func() error { return s.Delete(ctx, v, v) },
			func() error { return checks(s)(ctx) },
		}
	},
	"versioning": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return revisions(ctx, c, v, testkit.Must(versioning.New[any, bson.D](c, d, nil)))
	},
	"versioning, deltas": func(ctx context.Context, c, d *mongo.Collection, v any) []func() error {
		return revisions(ctx, c, v, testkit.Must(versioning.New[any, bson.D](c, d, &versioning.Options{SnapshotEvery: 10})))
	},
	"tree, parents":   planted(tree.ParentReferences),
	"tree, children":  planted(tree.ChildReferences),
	"tree, ancestors": planted(tree.AncestorArray),
	"tree, path":      planted(tree.MaterializedPath),
	"tree, sets":      planted(tree.NestedSets),
}

func lists(ctx context.Context, l *outlier.Lists[any, any], v any) []func() error {
	return []func() error{
		func() error { return testkit.ErrorOf(l.Add(ctx, v, "a")) },
		func() error { return testkit.ErrorOf(l.Add(ctx, v, v)) },
		func() error { held, err := l.Contains(ctx, v, v); return same(true)(held, err) },
		func() error { got, err := l.Slice(ctx, v, 1, 1); return same(bson.A{v})(bson.A(got.Items), err) },
		func() error { return checks(l)(ctx) },
		func() error { removed, err := l.Remove(ctx, v, v); return same(true)(removed, err) },
		func() error { return checks(l)(ctx) },
	}
}

func links(ctx context.Context, c, d *mongo.Collection, v any, opts *relation.Options) []func() error {
	r := testkit.Must(relation.New[any, any, bson.D](c, d, opts))
	has := func(parent any) func() error {
		return func() error { has, err := r.Has(ctx, parent, v); return same(true)(has, err) }
	}
	return []func() error{
		func() error { return testkit.ErrorOf(c.InsertOne(ctx, testkit.D("_id", "other"))) },
		func() error { return testkit.ErrorOf(r.Insert(ctx, v, testkit.D("_id", v, "v", v))) },
		has(v),
		func() error { return r.Unlink(ctx, v, v) },
		func() error { return r.Link(ctx, "other", v) },
		has("other"),
		func() error {
			if err := r.Transfer(ctx, v, v); err != nil && opts.Links == nil { // those have no owner
				return err
			}
			return r.Link(ctx, v, v)
		},
		has(v),
		func() error { return checks(r)(ctx) },
		func() error { return testkit.ErrorOf(r.DeleteParent(ctx, v, mongopatterns.Unlink)) },
		func() error { return checks(r)(ctx) },
	}
}

func revisions(ctx context.Context, c *mongo.Collection, v any, h *versioning.History[any, bson.D]) []func() error {
	by := versioning.Change{Author: "$x", Reason: "$$ROOT", Fields: testkit.D("v", v)}
	return []func() error{
		func() error { return testkit.ErrorOf(c.DeleteMany(ctx, bson.D{})) },
		func() error { return testkit.ErrorOf(h.Insert(ctx, testkit.D("_id", v, "v", v, "x", "EXPANDED"), by)) },
		func() error {
			return testkit.ErrorOf(h.Edit(ctx, v, func(doc *bson.D) error { *doc = append(*doc, bson.E{Key: "w", Value: v}); return nil }, by))
		},
		func() error { got, err := h.Get(ctx, v); return same(v)(testkit.Get(got.Document, "w"), err) },
		func() error { got, err := h.Get(ctx, v); return same(by.Fields)(got.Change.Fields, err) },
		func() error { got, err := h.At(ctx, v, 1); return same(v)(testkit.Get(got.Document, "v"), err) },
		func() error { return testkit.ErrorOf(h.Restore(ctx, v, 1, by)) },
		func() error { return checks(h)(ctx) },
		func() error { return h.Delete(ctx, v, 3, by) },
	}
}

// planted moves v about in a tree, under a node and over one.
func planted(rep tree.Representation) scenario {
	return func(ctx context.Context, c, _ *mongo.Collection, v any) []func() error {
		tr := testkit.Must(tree.New[any, bson.D](c, rep, nil))
		return []func() error{
			func() error { return testkit.ErrorOf(c.DeleteMany(ctx, bson.D{})) },
			func() error {
				return testkit.ErrorOf(tr.Insert(ctx, testkit.D("_id", "root", "x", "EXPANDED"), tr.AsRoot()))
			},
			func() error { return testkit.ErrorOf(tr.Insert(ctx, testkit.D("_id", v, "v", v), tr.Under("root"))) },
			func() error { return testkit.ErrorOf(tr.Insert(ctx, testkit.D("_id", "leaf"), tr.Under(v))) },
			func() error { got, err := tr.Parent(ctx, "leaf"); return same(v)(testkit.Get(got, "_id"), err) },
			func() error { return tr.Move(ctx, v, tr.AsRoot()) },
			func() error { return tr.Move(ctx, "root", tr.Under(v)) },
			func() error { below, err := tr.IsDescendant(ctx, "root", v); return same(true)(below, err) },
			func() error { return checks(tr)(ctx) },
			func() error { return testkit.ErrorOf(tr.Delete(ctx, v, mongopatterns.Unlink)) },
			func() error { return checks(tr)(ctx) },
		}
	}
}

// IDs, keys, values, elements, holders and reasons mean themselves. What a package refuses, it refuses before it writes.
func TestArgumentsAreLiteral(t *testing.T) {
	for shape, v := range expressions {
		for name, calls := range scenarios {
			if !scale.Third(shape + name) {
				continue
			}
			t.Run(shape+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, db := t.Context(), mongotest.Database(t)
				c, d := db.Collection("c"), db.Collection("d")
				_, err := c.InsertOne(ctx, testkit.D("_id", v, "x", "EXPANDED", "name", "Ann", "version", int64(1)))
				storable := err == nil // the server takes no _id with operators
				refused := false
				for i, call := range calls(ctx, c, d, v) {
					before := everything(t, db)
					err := call()
					if err == nil {
						continue
					}
					if refused = refused || errors.Is(err, mongopatterns.ErrInvalid) || !storable && errors.Is(err, mongopatterns.ErrNotFound); !refused { // a later call misses what an earlier one has refused
						t.Fatalf("call %d: %v; stored\n%s", i, err, everything(t, db))
					}
					if _, plain := v.(string); plain {
						t.Errorf("call %d: %v", i, err)
					}
					if after := everything(t, db); after != before {
						t.Fatalf("call %d: %v; stored before\n%safter\n%s", i, err, before, after)
					}
				}
			})
		}
	}
}
