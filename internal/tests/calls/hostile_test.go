package calls_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/polymorphic"
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

// hostile are IDs and values that users of a service have stored, and that mean something in expressions, paths or pages.
var hostile = []any{
	"$x", "$$ROOT", "$literal", "a.b", "a\x00b", "<b>", "^.*$", strings.Repeat("a", 900),
	testkit.D("a", "$x"), testkit.D("a", testkit.D("b", "$$ROOT")),
}

// maintained is a collection of other code that a helper takes over, or moves, with all its documents.
type maintained struct {
	doc   func(id any) bson.D // of the collection "c"
	steps []func(ctx context.Context) (mongopatterns.Result, error)
	check mongopatterns.Checker // nil: the package has none
}

// result is that of a step without one.
func result(err error) (mongopatterns.Result, error) { return mongopatterns.Result{}, err }

var maintenance = map[string]func(c, d *mongo.Collection) maintained{
	"archive": func(c, d *mongo.Collection) maintained {
		a := testkit.Must(archive.New(c, d, nil))
		move := func(ctx context.Context) (mongopatterns.Result, error) { return a.Move(ctx, bson.D{}, nil) }
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "v", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				move, func(ctx context.Context) (mongopatterns.Result, error) { return a.Restore(ctx, bson.D{}, nil) }, move,
				func(ctx context.Context) (mongopatterns.Result, error) { return a.Repair(ctx, nil) },
			},
			check: a,
		}
	},
	"attribute": func(c, _ *mongo.Collection) maintained {
		a := testkit.Must(attribute.New[any, any](c, nil))
		columns := []attribute.Column{{Path: "v", Key: "$x"}}
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "v", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return a.Adopt(ctx, columns, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return a.Repair(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return a.Unadopt(ctx, columns, nil) },
			},
			check: a,
		}
	},
	"bucket": func(c, d *mongo.Collection) maintained {
		b := testkit.Must(bucket.New[any, bson.D](d, hourly, nil))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "series", id, "timestamp", moment, "v", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return b.Adopt(ctx, c, nil, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return b.Repair(ctx, nil) },
			},
			check: b,
		}
	},
	"computed": func(c, d *mongo.Collection) maintained {
		s := testkit.Must(computed.New[any, any, bson.D](d, c, computed.Rule{
			KeyField: "film", Empty: testkit.D("n", 0, "last", nil),
			Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "n", testkit.D("$sum", 1), "last", testkit.D("$last", "$v")))},
		}, nil))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) {
					for i, id := range hostile {
						if _, err := d.InsertOne(ctx, testkit.D("_id", i, "film", id, "v", id)); err != nil {
							return result(err)
						}
					}
					return result(nil)
				},
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Adopt(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return s.RefreshAll(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Repair(ctx, nil) },
			},
			check: s,
		}
	},
	"extref": func(c, d *mongo.Collection) maintained {
		targets := []extref.Target{{Collection: d, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}
		r := testkit.Must(extref.New[any, bson.D](c, targets, nil))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "name", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) {
					for i, id := range hostile {
						if _, err := d.InsertOne(ctx, testkit.D("_id", i, "customer", testkit.D("_id", id))); err != nil {
							return result(err)
						}
					}
					return result(nil)
				},
				func(ctx context.Context) (mongopatterns.Result, error) { return r.Adopt(ctx, "d.customer", nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return result(followed(ctx, r, c)) },
			},
			check: r,
		}
	},
	"outlier": func(c, d *mongo.Collection) maintained {
		l := testkit.Must(outlier.New[any, any](c, d, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2}))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "items", bson.A{"$x", id, "$$ROOT", id, id}) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return l.Adopt(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return l.Repair(ctx, nil) },
			},
			check: l,
		}
	},
	"polymorphic": func(c, _ *mongo.Collection) maintained {
		type kind struct {
			ID any `bson:"_id"`
			V  any
		}
		kinds := testkit.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[kind]("$x")}, &polymorphic.Options[any]{}))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "kind", "$x", "v", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){func(ctx context.Context) (mongopatterns.Result, error) {
				for v, err := range kinds.Find(ctx, c, nil) {
					if err != nil || !rawValue(v.(kind).ID).Equal(rawValue(v.(kind).V)) {
						return result(fmt.Errorf("%v, %w", v, err))
					}
				}
				return result(nil)
			}},
		}
	},
	"relation": func(c, d *mongo.Collection) maintained {
		r := testkit.Must(relation.New[any, any, bson.D](c, d, &relation.Options{ChildrenField: "children", OwnerField: "owner"}))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "children", bson.A{testkit.D("_id", id, "v", id)}) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return r.Extract(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return r.Repair(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) {
					return result(testkit.Drain(r.Check(ctx, nil)))
				},
				func(ctx context.Context) (mongopatterns.Result, error) { return r.Embed(ctx, nil) },
			},
		}
	},
	"schemaversion": func(c, _ *mongo.Collection) maintained {
		v := testkit.Must(schemaversion.New[bson.D](c, []schemaversion.Step{{
			Up: func(doc bson.D) (bson.D, error) { return append(doc, bson.E{Key: "w", Value: doc[0].Value}), nil },
		}}, nil))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "v", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return v.Migrate(ctx, v.Newest(), nil) },
			},
		}
	},
	"series": func(c, d *mongo.Collection) maintained {
		s := testkit.Must(series.New[any, bson.D](d, hourly, nil))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "series", id, "timestamp", moment, "v", 1) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Adopt(ctx, c, nil, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Compact(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Repair(ctx, nil) },
			},
			check: s,
		}
	},
	"slots": func(c, _ *mongo.Collection) maintained {
		s := testkit.Must(slots.New[any, any](c, timeseries.Days(nil), nil))
		return maintained{
			doc: func(id any) bson.D {
				return testkit.D("series", id, "start", "2021-07-05 00:00:00", "data", testkit.D("0", testkit.D("0", id)))
			},
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) {
					return s.Adopt(ctx, func(start string) (time.Time, error) { return time.Parse(time.DateTime, start) }, nil)
				},
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Repair(ctx, nil) },
			},
			check: s,
		}
	},
	"split": func(c, d *mongo.Collection) maintained {
		s := testkit.Must(split.New[any, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cv"}}))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "v", id, "cv", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Adopt(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Repair(ctx, nil) },
			},
			check: s,
		}
	},
	"subset": func(c, d *mongo.Collection) maintained {
		s := testkit.Must(subset.New[any, bson.D](c, d, &subset.Options{N: 1, Sort: testkit.D("rank", -1)}))
		return maintained{
			doc: func(id any) bson.D {
				item := func(n int) bson.D { return testkit.D("_id", testkit.D("of", id, "n", n), "rank", n, "v", id) }
				return testkit.D("_id", id, "items", bson.A{item(1), item(2)})
			},
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Adopt(ctx, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return s.Repair(ctx, nil) },
			},
			check: s,
		}
	},
	"tree, ancestors": func(c, _ *mongo.Collection) maintained { return grown(c, tree.AncestorArray) },
	"tree, children":  func(c, _ *mongo.Collection) maintained { return grown(c, tree.ChildReferences) },
	"tree, parents":   func(c, _ *mongo.Collection) maintained { return grown(c, tree.ParentReferences) },
	"tree, sets":      func(c, _ *mongo.Collection) maintained { return grown(c, tree.NestedSets) },
	"versioning": func(c, d *mongo.Collection) maintained {
		h := testkit.Must(versioning.New[any, bson.D](c, d, &versioning.Options{SnapshotEvery: 10}))
		return maintained{
			doc: func(id any) bson.D { return testkit.D("_id", id, "v", id) },
			steps: []func(ctx context.Context) (mongopatterns.Result, error){
				func(ctx context.Context) (mongopatterns.Result, error) { return h.Adopt(ctx, nil, nil) },
				func(ctx context.Context) (mongopatterns.Result, error) { return h.Repair(ctx, nil) },
			},
			check: h,
		}
	},
}

// followed changes all sources, and returns when Watch has brought the changes to the copies.
func followed(ctx context.Context, r *extref.Source[any, bson.D], sources *mongo.Collection) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := errors.New("all are followed")
	progress := func(so mongopatterns.Result) {
		if err := converted(so, nil); err != nil {
			stop(err)
		} else if so.Examined >= int64(len(hostile)) {
			stop(done)
		}
	}
	changed := make(chan error, 1)
	reconciled := func(mongopatterns.Result) {
		_, err := sources.UpdateMany(ctx, bson.D{}, mongo.Pipeline{testkit.D("$set", testkit.D("name", bson.A{"$name", "$name"}))})
		changed <- err
	}
	err := r.Watch(ctx, sources.Database().Collection("tokens"), &extref.WatchOptions{Progress: progress, Reconciled: reconciled})
	if context.Cause(ctx) != done {
		return errors.Join(err, context.Cause(ctx))
	}
	return <-changed
}

// grown loads the nodes, in place of documents that are there.
func grown(c *mongo.Collection, rep tree.Representation) maintained {
	tr := testkit.Must(tree.New[any, bson.D](c, rep, nil))
	load := func(yield func(tree.Entry[any, bson.D], error) bool) {
		var parent *any
		for _, id := range hostile { // each under the one before
			if !yield(tree.Entry[any, bson.D]{Value: testkit.D("_id", id, "v", id), Parent: parent}, nil) {
				return
			}
			parent = &id
		}
	}
	return maintained{
		steps: []func(ctx context.Context) (mongopatterns.Result, error){
			func(ctx context.Context) (mongopatterns.Result, error) { return tr.Load(ctx, load, tr.AsRoot(), nil) },
			func(ctx context.Context) (mongopatterns.Result, error) { return tr.Repair(ctx, nil) },
			func(ctx context.Context) (mongopatterns.Result, error) {
				n := 0
				for _, err := range tr.Descendants(ctx, hostile[0], 0) {
					if err != nil {
						return result(err)
					}
					n++
				}
				if n != len(hostile)-1 {
					return result(fmt.Errorf("%d descendants of the first", n))
				}
				return result(nil)
			},
		},
		check: tr,
	}
}

// Adopt, Repair, Migrate, Load, Watch, the archive and their like take stored IDs and values as they are.
func TestStoredIDsAreLiteral(t *testing.T) {
	for name, open := range maintenance {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), mongotest.Database(t)
			c, d := db.Collection("c"), db.Collection("d")
			m := open(c, d)
			for _, id := range hostile {
				if m.doc != nil {
					testkit.Insert(t, c, append(m.doc(id), bson.E{Key: "x", Value: "EXPANDED"}))
				}
			}
			for i, step := range m.steps {
				if err := converted(step(ctx)); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			if m.check != nil {
				testkit.Same(t, "problems", []string{}, testkit.Problems(t, m.check))
			}
			stored := everything(t, db)
			if strings.Count(stored, "EXPANDED") != strings.Count(stored, `"x": "EXPANDED"`)+strings.Count(stored, `"x":"EXPANDED"`) {
				t.Errorf("an expression was computed:\n%s", stored)
			}
			for _, id := range hostile {
				found := false
				for _, coll := range []*mongo.Collection{c, d} {
					for _, doc := range testkit.Stored[bson.Raw](t, coll) {
						found = found || holds(rawValue(doc), rawValue(id))
					}
				}
				if !found {
					t.Errorf("%v is not stored:\n%s", id, stored)
				}
			}
		})
	}
}
