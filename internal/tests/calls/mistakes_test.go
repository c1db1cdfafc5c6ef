package calls_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
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

// A mistake that a newcomer to a package makes. With these documents in collection "c", do must fail with
// an error that matches want, if want is not nil, and whose text names the cure, and must write nothing.
type mistake struct {
	name  string
	given []any
	do    func(ctx context.Context, db *mongo.Database) error
	want  error
	text  string
}

// The types of the mistakes.
type (
	untitled struct { // has no _id
		Title string
	}
	titled struct {
		ID    int `bson:"_id"`
		Title string
	}
	reading struct {
		Timestamp   time.Time
		Temperature float64
	}
	review struct {
		ID     bson.ObjectID `bson:"_id,omitempty"`
		Parent int
		Rating int
	}
)

// on makes a call on a helper, if New made one.
func on[H any](h H, err error) func(call func(H) error) error {
	return func(call func(H) error) error {
		if err != nil {
			return err
		}
		return call(h)
	}
}

// found returns the first problem of a Check, as an error.
func found(ctx context.Context, c mongopatterns.Checker) error {
	for p, err := range c.Check(ctx, nil) {
		if err != nil {
			return err
		}
		return errors.New(p.String())
	}
	return nil
}

func ended[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	hourly  = timeseries.Every(time.Hour)
	moment  = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	perFilm = mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "n", testkit.D("$sum", 1)))}
)

func customer(db *mongo.Database, path, field string) []extref.Target {
	return []extref.Target{{Collection: db.Collection("orders"), Path: path, Fields: []extref.Field{{Path: field}}}}
}

// Representations of one tree: Go below Programming below Books.
var trees = map[tree.Representation][]any{
	tree.ParentReferences: {testkit.D("_id", "Books", "parent", nil), testkit.D("_id", "Programming", "parent", "Books"), testkit.D("_id", "Go", "parent", "Programming")},
	tree.ChildReferences:  {testkit.D("_id", "Books", "children", bson.A{"Programming"}), testkit.D("_id", "Programming", "children", bson.A{"Go"}), testkit.D("_id", "Go", "children", bson.A{})},
	tree.AncestorArray: {testkit.D("_id", "Books", "ancestors", bson.A{}, "parent", nil), testkit.D("_id", "Programming", "ancestors", bson.A{"Books"}, "parent", "Books"),
		testkit.D("_id", "Go", "ancestors", bson.A{"Books", "Programming"}, "parent", "Programming")},
	tree.MaterializedPath: {testkit.D("_id", "Books", "path", nil), testkit.D("_id", "Programming", "path", ",Books,"), testkit.D("_id", "Go", "path", ",Books,Programming,")},
	tree.NestedSets: {testkit.D("_id", "Books", "left", 1, "right", 6, "parent", nil), testkit.D("_id", "Programming", "left", 2, "right", 5, "parent", "Books"),
		testkit.D("_id", "Go", "left", 3, "right", 4, "parent", "Programming")},
}

// otherRepresentations reads the documents of each representation as every other one.
func otherRepresentations() (all []mistake) {
	for is, docs := range trees {
		for as := range trees {
			if is == as || as == tree.ParentReferences && (is == tree.AncestorArray || is == tree.NestedSets) {
				continue // the parents of these are all there is
			}
			text := "wrong field: "
			if is == tree.MaterializedPath || is == tree.ChildReferences { // which name no parent
				text = ": malformed: "
				if as != tree.ParentReferences && as != tree.ChildReferences {
					text = "wrong field: "
				}
			}
			name := fmt.Sprintf("documents of %v as %v", is, as)
			all = append(all, mistake{"tree: check " + name, docs, func(ctx context.Context, db *mongo.Database) error {
				return on(tree.New[string, bson.D](db.Collection("c"), as, nil))(func(t *tree.Tree[string, bson.D]) error { return found(ctx, t) })
			}, nil, text})
			if text == "wrong field: " && as != tree.AncestorArray && (is == tree.ParentReferences || is == tree.AncestorArray || is == tree.NestedSets) {
				all = append(all, mistake{"tree: insert into " + name, docs, func(ctx context.Context, db *mongo.Database) error {
					return on(tree.New[string, bson.D](db.Collection("c"), as, nil))(func(t *tree.Tree[string, bson.D]) error {
						return testkit.ErrorOf(t.Insert(ctx, testkit.D("_id", "Rust"), t.Under("Programming")))
					})
				}, mongopatterns.ErrNotAdopted, "run Adopt or Repair"})
			}
		}
	}
	return all
}

// notFilters are values that are not filters.
var notFilters = map[string]any{"7": 7, "a string": "x", "an array": bson.A{1}, "a nil pointer": (*bson.D)(nil), "a time": moment}

func filters() (all []mistake) {
	for name, filter := range notFilters {
		const text = "cannot be a filter: use a document such as bson.D{"
		for call, do := range map[string]func(context.Context, *mongo.Database, *mongopatterns.Work) error{
			"attribute": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(attribute.New[int, any](db.Collection("c"), nil))(func(h *attribute.Attributes[int, any]) error { return ended(h.Check(ctx, w)) })
			},
			"attribute.Repair": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(attribute.New[int, any](db.Collection("c"), nil))(func(h *attribute.Attributes[int, any]) error { return testkit.ErrorOf(h.Repair(ctx, w)) })
			},
			"bucket": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))(func(h *bucket.Buckets[int, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"series": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(series.New[int, bson.D](db.Collection("c"), hourly, nil))(func(h *series.Series[int, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"slots": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(slots.New[int, bson.D](db.Collection("c"), timeseries.Days(nil), nil))(func(h *slots.Slots[int, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"outlier": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(outlier.New[int, string](db.Collection("c"), db.Collection("e"), nil))(func(h *outlier.Lists[int, string]) error { return ended(h.Check(ctx, w)) })
			},
			"split": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(split.New[int, bson.D, bson.D](db.Collection("c"), db.Collection("e"), &split.Options{ColdFields: []string{"x"}}))(func(h *split.Split[int, bson.D, bson.D]) error {
					return ended(h.Check(ctx, w))
				})
			},
			"subset": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(subset.New[int, bson.D](db.Collection("c"), db.Collection("e"), nil))(func(h *subset.Subset[int, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"extref": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil))(func(h *extref.Source[int, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"versioning": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(versioning.New[int, bson.D](db.Collection("c"), db.Collection("e"), nil))(func(h *versioning.History[int, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"relation": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(relation.New[int, int, bson.D](db.Collection("c"), db.Collection("e"), &relation.Options{OwnerField: "owner"}))(func(h *relation.Relation[int, int, bson.D]) error {
					return ended(h.Check(ctx, w))
				})
			},
			"prealloc": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(prealloc.New[int, string](db.Collection("c"), nil))(func(h *prealloc.Grids[int, string]) error { return ended(h.Check(ctx, w)) })
			},
			"computed": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("e"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil))(func(h *computed.Computed[int, int, bson.D]) error {
					return testkit.ErrorOf(h.RefreshAll(ctx, w))
				})
			},
			"tree": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(tree.New[string, bson.D](db.Collection("c"), tree.AncestorArray, nil))(func(h *tree.Tree[string, bson.D]) error { return ended(h.Check(ctx, w)) })
			},
			"schemaversion": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(schemaversion.New[bson.D](db.Collection("c"), nil, nil))(func(h *schemaversion.Collection[bson.D]) error { return testkit.ErrorOf(h.Migrate(ctx, 1, w)) })
			},
			"schemaversion.Find": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(schemaversion.New[bson.D](db.Collection("c"), nil, nil))(func(h *schemaversion.Collection[bson.D]) error { return ended(h.Find(ctx, w.Filter)) })
			},
			"approx.Union": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(approx.NewDistinct[string, string](db.Collection("c"), nil))(func(h *approx.Distinct[string, string]) error { return testkit.ErrorOf(h.Union(ctx, w.Filter)) })
			},
			"outlier.Distribution": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(outlier.New[int, string](db.Collection("c"), db.Collection("e"), nil))(func(h *outlier.Lists[int, string]) error { return testkit.ErrorOf(h.Distribution(ctx, w.Filter)) })
			},
			"attribute.Values": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(attribute.New[int, any](db.Collection("c"), nil))(func(h *attribute.Attributes[int, any]) error {
					return ended(h.Values(ctx, w.Filter, attribute.Named("x")))
				})
			},
			"attribute.GetBy": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(attribute.New[int, any](db.Collection("c"), nil))(func(h *attribute.Attributes[int, any]) error {
					return testkit.ErrorOf(h.GetBy(ctx, w.Filter, attribute.Named("x")))
				})
			},
			"archive.Move": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(archive.New(db.Collection("c"), db.Collection("e"), nil))(func(a *archive.Archive) error { return testkit.ErrorOf(a.Move(ctx, w.Filter, nil)) })
			},
			"archive.Restore": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(archive.New(db.Collection("c"), db.Collection("e"), nil))(func(a *archive.Archive) error { return testkit.ErrorOf(a.Restore(ctx, w.Filter, nil)) })
			},
			"attribute.Facets": func(ctx context.Context, db *mongo.Database, w *mongopatterns.Work) error {
				return on(attribute.New[int, any](db.Collection("c"), nil))(func(h *attribute.Attributes[int, any]) error { return testkit.ErrorOf(h.Facets(ctx, w.Filter, nil)) })
			},
		} {
			all = append(all, mistake{"filter: " + call + " by " + name, nil, func(ctx context.Context, db *mongo.Database) error {
				return do(ctx, db, &mongopatterns.Work{Filter: filter})
			}, mongopatterns.ErrInvalid, text})
		}
		all = append(all, mistake{"filter: paging over " + name, nil, func(ctx context.Context, db *mongo.Database) error {
			return on(paging.New[bson.D](db.Collection("c"), nil, nil))(func(h *paging.Pager[bson.D]) error { return testkit.ErrorOf(h.Page(ctx, filter, paging.Request{})) })
		}, mongopatterns.ErrInvalid, ""})
	}
	return all
}

// mistakes are all the others. Where want is nil, the failure is a problem of Check or an error of the
// driver.
var mistakes = []mistake{
	// T, and its _id.
	{"tree: T without _id", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(tree.New[string, untitled](db.Collection("c"), tree.ParentReferences, nil))(func(t *tree.Tree[string, untitled]) error {
			return testkit.ErrorOf(t.Insert(ctx, untitled{}, t.AsRoot()))
		})
	}, mongopatterns.ErrInvalid, "the document has no _id"},
	{"versioning: T without _id", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(versioning.New[string, untitled](db.Collection("c"), db.Collection("r"), nil))(func(d *versioning.History[string, untitled]) error {
			return testkit.ErrorOf(d.Insert(ctx, untitled{}, versioning.Change{}))
		})
	}, mongopatterns.ErrInvalid, "the document has no _id"},
	{"relation: T without _id", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(relation.New[int, string, untitled](db.Collection("c"), db.Collection("d"), &relation.Options{OwnerField: "owner"}))(func(r *relation.Relation[int, string, untitled]) error {
			return testkit.ErrorOf(r.Insert(ctx, 1, untitled{}))
		})
	}, mongopatterns.ErrInvalid, "the document has no _id"},
	{"paging: a document without _id", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(paging.New[untitled](db.Collection("c"), testkit.D("title", 1), nil))(func(p *paging.Pager[untitled]) error { return testkit.ErrorOf(p.Token(nil, untitled{})) })
	}, mongopatterns.ErrInvalid, "the document has no _id"},
	{"relation: an _id of another type", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(relation.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), &relation.Options{OwnerField: "owner"}))(func(r *relation.Relation[int, int, bson.D]) error {
			return testkit.ErrorOf(r.Insert(ctx, 1, testkit.D("_id", "x")))
		})
	}, mongopatterns.ErrInvalid, `_id "x": invalid: cannot decode into int`},
	{"tree: an _id of another type", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(tree.New[int, bson.D](db.Collection("c"), tree.AncestorArray, nil))(func(t *tree.Tree[int, bson.D]) error {
			return testkit.ErrorOf(t.Insert(ctx, testkit.D("_id", "x"), t.AsRoot()))
		})
	}, mongopatterns.ErrInvalid, `_id "x": invalid: cannot decode into int`},
	{"versioning: an _id of another type", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(versioning.New[int, bson.D](db.Collection("c"), db.Collection("r"), nil))(func(d *versioning.History[int, bson.D]) error {
			return testkit.ErrorOf(d.Insert(ctx, testkit.D("_id", "x"), versioning.Change{}))
		})
	}, mongopatterns.ErrInvalid, `_id "x": invalid: cannot decode into int`},
	{"relation: IDs of another type", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(relation.New[string, string, bson.D](db.Collection("c"), db.Collection("d"), &relation.Options{OwnerField: "owner"}))(func(r *relation.Relation[string, string, bson.D]) error {
			return r.Link(ctx, "1", "1")
		})
	}, relation.ErrNoChild, `_id "1"`},
	{"approx: a slice as key", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(approx.New[[]string](db.Collection("c"), nil))(func(c *approx.Counters[[]string]) error { return c.Add(ctx, []string{"x"}, 1) })
	}, mongopatterns.ErrInvalid, "an _id cannot be an array"},
	{"tree: T is an int", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(tree.New[int, int](db.Collection("c"), tree.AncestorArray, nil))
	}, mongopatterns.ErrInvalid, "T: int cannot be encoded as a document"},
	{"tree: a nil pointer", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(tree.New[int, *titled](db.Collection("c"), tree.AncestorArray, nil))(func(t *tree.Tree[int, *titled]) error { return testkit.ErrorOf(t.Insert(ctx, nil, t.AsRoot())) })
	}, mongopatterns.ErrInvalid, "the document is nil"},
	{"paging: T is a time", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(paging.New[time.Time](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "T: time.Time cannot be encoded as a document"},
	{"subset: T is a string", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(subset.New[int, string](db.Collection("c"), db.Collection("d"), nil))
	}, mongopatterns.ErrInvalid, "T: string cannot be encoded as a document"},
	{"split: C is a slice", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(split.New[int, bson.D, []string](db.Collection("c"), db.Collection("d"), nil))
	}, mongopatterns.ErrInvalid, "C: []string cannot be encoded as a document"},
	{"bucket: M is a number", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(bucket.New[int, float64](db.Collection("c"), hourly, nil))
	}, mongopatterns.ErrInvalid, "M: float64 cannot be encoded as a document"},
	{"series: M is a number", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(series.New[int, float64](db.Collection("c"), hourly, nil))
	}, mongopatterns.ErrInvalid, "M: float64 cannot be encoded as a document"},
	{"relation: T is an int", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(relation.New[int, int, int](db.Collection("c"), db.Collection("d"), &relation.Options{OwnerField: "owner"}))
	}, mongopatterns.ErrInvalid, "T: int cannot be encoded as a document"},
	{"schemaversion: T is an int", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(schemaversion.New[int](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "T: int cannot be encoded as a document"},
	{"polymorphic: a kind of ints", nil, func(context.Context, *mongo.Database) error {
		return testkit.ErrorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[int]("number")}, (*polymorphic.Options[any])(nil)))
	}, mongopatterns.ErrInvalid, "int"},

	// Misspelt names.
	{"subset: Order", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(subset.New[int, review](db.Collection("c"), db.Collection("d"), &subset.Options{Sort: testkit.D("ratng", -1)}))
	}, mongopatterns.ErrInvalid, `Options.Sort: calls_test.review has no field "ratng"`},
	{"subset: Order of documents", []any{testkit.D("_id", 1, "parent", 7, "rating", 5)}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "d", testkit.D("_id", 7, "items", bson.A{testkit.D("_id", 1, "rating", 5)}, "items_count", 1))
		return on(subset.New[int, bson.D](db.Collection("d"), db.Collection("c"), &subset.Options{Sort: testkit.D("ratng", -1)}))(func(s *subset.Subset[int, bson.D]) error { return found(ctx, s) })
	}, nil, "malformed: ratng: no document has it"},
	{"subset: Fields", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(subset.New[int, review](db.Collection("c"), db.Collection("d"), &subset.Options{Fields: []string{"ratng"}}))
	}, mongopatterns.ErrInvalid, `Options.Fields[0]: calls_test.review has no field "ratng"`},
	{"subset: Filter", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(subset.New[int, review](db.Collection("c"), db.Collection("d"), &subset.Options{Filter: testkit.D("aproved", true)}))
	}, mongopatterns.ErrInvalid, `Options.Filter: calls_test.review has no field "aproved"`},
	{"subset: Values", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(subset.New[int, review](db.Collection("c"), db.Collection("d"), &subset.Options{Values: []subset.Value{{Field: "ratng", Sum: "sum", Count: "n"}}}))
	}, mongopatterns.ErrInvalid, `Options.Values[0].Field: calls_test.review has no field "ratng"`},
	{"subset: a value that nothing keeps", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(subset.New[int, review](db.Collection("c"), db.Collection("d"), &subset.Options{Values: []subset.Value{{Field: "rating"}}}))
	}, mongopatterns.ErrInvalid, "Options.Values[0].Sum: it is empty"},
	{"subset: ParentField", []any{testkit.D("_id", 1, "product", 7)}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "d", testkit.D("_id", 7))
		return on(subset.New[int, bson.D](db.Collection("d"), db.Collection("c"), nil))(func(s *subset.Subset[int, bson.D]) error { return found(ctx, s) })
	}, nil, "orphan: parent is null"},
	{"bucket: TimeField", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(bucket.New[int, reading](db.Collection("c"), hourly, &bucket.Options{TimeField: "time"}))
	}, mongopatterns.ErrInvalid, `Options.TimeField: calls_test.reading has no field "time"`},
	{"bucket: IDField", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(bucket.New[int, reading](db.Collection("c"), hourly, &bucket.Options{IDField: "id"}))
	}, mongopatterns.ErrInvalid, `Options.IDField: calls_test.reading has no field "id"`},
	{"bucket: Values", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(bucket.New[int, reading](db.Collection("c"), hourly, &bucket.Options{Values: []timeseries.Value{{Field: "temprature"}}}))
	}, mongopatterns.ErrInvalid, `Options.Values[0].Field: calls_test.reading has no field "temprature"`},
	{"bucket: Values of documents", []any{testkit.D("_id", 1, "series", 1, "start", moment, "count", 1, "measurements", bson.A{testkit.D("timestamp", moment, "temperature", 1)})},
		func(ctx context.Context, db *mongo.Database) error {
			return on(bucket.New[int, bson.D](db.Collection("c"), hourly, &bucket.Options{Values: []timeseries.Value{{Field: "temprature", Max: "max"}}}))(func(b *bucket.Buckets[int, bson.D]) error {
				return found(ctx, b)
			})
		}, nil, "malformed: measurements.temprature: no document has it"},
	{"bucket: SeriesField", []any{testkit.D("_id", 1, "sensor_id", 1, "start", moment, "count", 1, "measurements", bson.A{testkit.D("timestamp", moment)})},
		func(ctx context.Context, db *mongo.Database) error {
			return on(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))(func(b *bucket.Buckets[int, bson.D]) error { return found(ctx, b) })
		}, nil, "malformed: series: no document has it"},
	{"bucket: documents that are no buckets", []any{testkit.D("_id", 1, "series", 1, "timestamp", moment)}, func(ctx context.Context, db *mongo.Database) error {
		return on(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))(func(b *bucket.Buckets[int, bson.D]) error { return found(ctx, b) })
	}, nil, ": start"},
	{"bucket: a measurement without its time", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))(func(b *bucket.Buckets[int, bson.D]) error {
			return testkit.ErrorOf(b.Append(ctx, 1, testkit.D("time", moment)))
		})
	}, mongopatterns.ErrInvalid, `"timestamp" is not a date`},
	{"series: TimeField", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(series.New[int, reading](db.Collection("c"), hourly, &series.Options{TimeField: "time"}))
	}, mongopatterns.ErrInvalid, `Options.TimeField: calls_test.reading has no field "time"`},
	{"series: Values", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(series.New[int, reading](db.Collection("c"), hourly, &series.Options{Values: []timeseries.Value{{Field: "temprature"}}}))
	}, mongopatterns.ErrInvalid, `Options.Values[0].Field: calls_test.reading has no field "temprature"`},
	{"series: documents of bucket", []any{testkit.D("_id", 1, "series", 1, "start", moment, "count", 1, "measurements", bson.A{testkit.D("timestamp", moment)})},
		func(ctx context.Context, db *mongo.Database) error {
			return on(series.New[int, bson.D](db.Collection("c"), hourly, nil))(func(s *series.Series[int, bson.D]) error { return found(ctx, s) })
		}, nil, "count is 1, want 0"},
	{"slots: SeriesField", []any{testkit.D("_id", 1, "sensor_id", 1, "start", moment, "data", testkit.D("0", testkit.D("0", 1)))}, func(ctx context.Context, db *mongo.Database) error {
		return on(slots.New[int, int](db.Collection("c"), timeseries.Days(nil), nil))(func(s *slots.Slots[int, int]) error { return found(ctx, s) })
	}, nil, "malformed: series: no document has it"},
	{"slots: DataField", []any{testkit.D("_id", 1, "series", 1, "start", moment, "readings", testkit.D("0", testkit.D("0", 1)))}, func(ctx context.Context, db *mongo.Database) error {
		return on(slots.New[int, int](db.Collection("c"), timeseries.Days(nil), nil))(func(s *slots.Slots[int, int]) error { return found(ctx, s) })
	}, nil, "malformed: data: no document has it"},
	{"extref: Field", nil, func(_ context.Context, db *mongo.Database) error {
		return on(extref.New[int, struct {
			ID      int `bson:"_id"`
			Title   string
			Version int64
		}](db.Collection("c"), customer(db, "customer", "titel"), nil))(func(r *extref.Source[int, struct {
			ID      int `bson:"_id"`
			Title   string
			Version int64
		}]) error {
			return testkit.ErrorOf(r.Copy("orders.customer", struct {
				ID      int `bson:"_id"`
				Title   string
				Version int64
			}{ID: 1}))
		})
	}, mongopatterns.ErrInvalid, `has no field "titel"`},
	{"extref: Field of documents", []any{testkit.D("_id", 1, "title", "a", "version", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "titel"), nil))(func(r *extref.Source[int, bson.D]) error { return found(ctx, r) })
	}, nil, "c: malformed: titel: no document has it"},
	{"extref: Path", []any{testkit.D("_id", 1, "title", "a")}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "orders", testkit.D("_id", 1, "customer", testkit.D("_id", 1, "title", "b")))
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "custmer", "title"), nil))(func(r *extref.Source[int, bson.D]) error { return found(ctx, r) })
	}, nil, "orders: malformed: custmer: no document has it"},
	{"extref: a target's name", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "title"), nil))(func(r *extref.Source[int, bson.D]) error { return testkit.ErrorOf(r.Fetch(ctx, "customer", 1)) })
	}, mongopatterns.ErrInvalid, `no target "customer"`},
	{"extref: a struct without what is copied", nil, func(_ context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil))(func(r *extref.Source[int, bson.D]) error {
			return testkit.ErrorOf(extref.As[titled](r, "orders.customer"))
		})
	}, mongopatterns.ErrInvalid, `titled has no field "`},
	{"computed: KeyField", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("films"), computed.Rule{KeyField: "flim", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil))
	}, mongopatterns.ErrInvalid, `Rule.Pipeline: it must read the KeyField "flim"`},
	{"computed: KeyField and Pipeline", []any{testkit.D("_id", 1, "film", 7)}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "films", testkit.D("_id", 7))
		pipeline := mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$flim", "n", testkit.D("$sum", 1)))}
		return on(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("films"), computed.Rule{KeyField: "flim", Pipeline: pipeline, Empty: testkit.D("n", 0)}, nil))(func(c *computed.Computed[int, int, bson.D]) error {
			return found(ctx, c)
		})
	}, nil, "c: malformed: flim: no document has it"},
	{"computed: collections the wrong way round", []any{testkit.D("_id", 1, "film", 7)}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "films", testkit.D("_id", 7))
		return on(computed.New[int, int, bson.D](db.Collection("films"), db.Collection("c"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil))(func(c *computed.Computed[int, int, bson.D]) error { return found(ctx, c) })
	}, nil, "films: malformed: film: no document has it"},
	{"computed: a field of empty", []any{testkit.D("_id", 1, "film", 7)}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "films", testkit.D("_id", 7))
		return on(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("films"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("m", 0)}, nil))(func(c *computed.Computed[int, int, bson.D]) error { return found(ctx, c) })
	}, nil, `it must make "m", which is in Empty`},
	{"computed: a stage that writes", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("films"), computed.Rule{KeyField: "film", Pipeline: append(perFilm[:1:1], testkit.D("$out", "films")), Empty: testkit.D("n", 0)}, nil))
	}, mongopatterns.ErrInvalid, "it must not write, as $out does"},
	{"archive: no filter", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(archive.New(db.Collection("c"), db.Collection("d"), nil))(func(a *archive.Archive) error { return testkit.ErrorOf(a.Move(ctx, nil, nil)) })
	}, mongopatterns.ErrInvalid, "old: the filter is nil: use bson.D{} to select all documents"},
	{"archive: into itself", []any{testkit.D("_id", 1)}, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(archive.New(db.Collection("c"), db.Collection("c"), nil))
	}, mongopatterns.ErrInvalid, `the collection "c" is also live`},
	{"archive: MarkField is a field of the documents", []any{testkit.D("_id", 1, "archived_at", moment)}, func(ctx context.Context, db *mongo.Database) error {
		return on(archive.New(db.Collection("c"), db.Collection("d"), nil))(func(a *archive.Archive) error { return found(ctx, a) })
	}, nil, "marked: archived_at"},
	{"split: a cold field in the hot update", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(split.New[int, bson.D, bson.D](db.Collection("c"), db.Collection("d"), &split.Options{ColdFields: []string{"plot"}}))(func(s *split.Split[int, bson.D, bson.D]) error {
			return s.Update(ctx, 1, testkit.D("$set", testkit.D("plot.text", "x")), nil)
		})
	}, mongopatterns.ErrInvalid, `"plot" is a cold field: set it in the cold update`},
	{"split: a hot field in the cold update", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(split.New[int, titled, bson.D](db.Collection("c"), db.Collection("d"), &split.Options{ColdFields: []string{"plot"}}))(func(s *split.Split[int, titled, bson.D]) error {
			return s.Update(ctx, 1, nil, bson.M{"$set": bson.M{"title": "x"}})
		})
	}, mongopatterns.ErrInvalid, `"title" is a field of H: set it in the hot update`},
	{"split: IDField", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "d", testkit.D("_id", 1, "movie_id", 1, "plot", "x"))
		return on(split.New[int, bson.D, bson.D](db.Collection("c"), db.Collection("d"), &split.Options{IDField: "film_id", ColdFields: []string{"plot"}}))(func(s *split.Split[int, bson.D, bson.D]) error {
			return found(ctx, s)
		})
	}, nil, "no cold document"},
	{"split: Adopt without ColdFields", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(split.New[int, bson.D, bson.D](db.Collection("c"), db.Collection("d"), nil))(func(s *split.Split[int, bson.D, bson.D]) error { return testkit.ErrorOf(s.Adopt(ctx, nil)) })
	}, mongopatterns.ErrInvalid, "Options.ColdFields: it must be set"},
	{"paging: Equality", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(paging.New[titled](db.Collection("c"), nil, &paging.Options{Equality: []string{"tenant"}}))(func(p *paging.Pager[titled]) error {
			return testkit.ErrorOf(p.Page(ctx, testkit.D("tennant", 1), paging.Request{}))
		})
	}, mongopatterns.ErrInvalid, `the filter must give "tenant" a value`},
	{"prealloc: CellsField", []any{testkit.D("_id", 1, "cells", testkit.D("A", testkit.D("1", testkit.D())))}, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), &prealloc.Options{CellsField: "seats"}))(func(g *prealloc.Grids[int, string]) error { return found(ctx, g) })
	}, nil, "malformed: seats"},
	{"prealloc: sections in a flat grid", []any{testkit.D("_id", 1, "cells", testkit.D("A", testkit.D("1", testkit.D())))}, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), &prealloc.Options{Flat: true}))(func(g *prealloc.Grids[int, string]) error { return found(ctx, g) })
	}, nil, "a section, where Options.Flat says"},
	{"attribute: KeyField", []any{testkit.D("_id", 1, "attributes", bson.A{testkit.D("k", "a", "v", 1)})}, func(ctx context.Context, db *mongo.Database) error {
		return on(attribute.New[int, any](db.Collection("c"), &attribute.Options{KeyField: "key"}))(func(a *attribute.Attributes[int, any]) error { return found(ctx, a) })
	}, nil, "malformed: attributes"},
	{"attribute: a document in place of the array", []any{testkit.D("_id", 1, "attributes", testkit.D("a", 1))}, func(ctx context.Context, db *mongo.Database) error {
		return on(attribute.New[int, any](db.Collection("c"), nil))(func(a *attribute.Attributes[int, any]) error { return a.Set(ctx, 1, attribute.Named("a"), 1) })
	}, mongopatterns.ErrMalformed, `"attributes"`},

	// Calls before Adopt, or out of place.
	{"outlier: Add before Adopt", []any{testkit.D("_id", 1, "items", bson.A{"a"}, "has_extras", "true")}, func(ctx context.Context, db *mongo.Database) error {
		return on(outlier.New[int, string](db.Collection("c"), db.Collection("d"), &outlier.Options{FlagField: "has_extras"}))(func(l *outlier.Lists[int, string]) error {
			return testkit.ErrorOf(l.Add(ctx, 1, "b"))
		})
	}, mongopatterns.ErrNotAdopted, "run Adopt"},
	{"outlier: FlagField", []any{testkit.D("_id", 1, "items", bson.A{"a"}, "has_extras", "true")}, func(ctx context.Context, db *mongo.Database) error {
		insertInto(ctx, db, "d", testkit.D("_id", 1, "parent", 1, "items", bson.A{"b"}))
		return on(outlier.New[int, string](db.Collection("c"), db.Collection("d"), nil))(func(l *outlier.Lists[int, string]) error { return found(ctx, l) })
	}, nil, "not adopted: items_overflow"},
	{"versioning: Save of what was not read", []any{testkit.D("_id", 1, "title", "a")}, func(ctx context.Context, db *mongo.Database) error {
		return on(versioning.New[int, titled](db.Collection("c"), db.Collection("r"), nil))(func(d *versioning.History[int, titled]) error {
			return testkit.ErrorOf(d.Save(ctx, versioning.Revision[titled]{Document: titled{1, "b"}}, versioning.Change{}))
		})
	}, mongopatterns.ErrInvalid, "Revision.Number: it is 0 and must be 1 or more"},
	{"versioning: RevisionField holds a string", []any{testkit.D("_id", 1, "revision", "two")}, func(ctx context.Context, db *mongo.Database) error {
		return on(versioning.New[int, titled](db.Collection("c"), db.Collection("r"), nil))(func(d *versioning.History[int, titled]) error { return testkit.ErrorOf(d.Get(ctx, 1)) })
	}, mongopatterns.ErrMalformed, `"revision" is "two"`},
	{"approx: Add after Close", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(approx.New[int](db.Collection("c"), nil))(func(c *approx.Counters[int]) error { return errors.Join(c.Close(ctx), c.Add(ctx, 1, 1)) })
	}, mongopatterns.ErrClosed, "closed"},
	{"extref: Pin without a transaction", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "title"), nil))(func(r *extref.Source[int, bson.D]) error { return testkit.ErrorOf(r.Pin(ctx, "orders.customer", 1)) })
	}, mongopatterns.ErrInvalid, "ctx must have a transaction"},
	{"extref: Drain without an outbox", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "title"), nil))(func(r *extref.Source[int, bson.D]) error { return testkit.ErrorOf(r.Drain(ctx, nil)) })
	}, mongopatterns.ErrInvalid, "Options.Outbox: it must be set"},
	{"prealloc: a grid that was not created", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), nil))(func(g *prealloc.Grids[int, string]) error { return g.Claim(ctx, 1, "ann", prealloc.At("A", "1")) })
	}, mongopatterns.ErrNotFound, "not found"},
	{"prealloc: a cell that does not exist", []any{testkit.D("_id", 1, "cells", testkit.D("A", testkit.D("1", testkit.D())))}, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), nil))(func(g *prealloc.Grids[int, string]) error { return g.Claim(ctx, 1, "ann", prealloc.At("A", "9")) })
	}, prealloc.ErrNoCell, "A.9"},
	{"prealloc: no holder", []any{testkit.D("_id", 1, "cells", testkit.D("A", testkit.D("1", testkit.D())))}, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, any](db.Collection("c"), nil))(func(g *prealloc.Grids[int, any]) error { return g.Claim(ctx, 1, nil, prealloc.At("A", "1")) })
	}, mongopatterns.ErrInvalid, "holder: it is null"},
	{"prealloc: days that end before they begin", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), &prealloc.Options{Flat: true}))(func(g *prealloc.Grids[int, string]) error {
			return g.Insert(ctx, 1, nil, testkit.Must(prealloc.DayCells(moment, moment.AddDate(0, 0, -1), nil))...)
		})
	}, mongopatterns.ErrInvalid, "cells: the list is empty"},
	{"prealloc: a section in a flat grid", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), &prealloc.Options{Flat: true}))(func(g *prealloc.Grids[int, string]) error { return g.Claim(ctx, 1, "ann", prealloc.At("A", "1")) })
	}, mongopatterns.ErrInvalid, "Options.Flat"},
	{"schemaversion: a step that fails", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		up := func(bson.D) (bson.D, error) { return nil, errors.New("no name") }
		return on(schemaversion.New[bson.D](db.Collection("c"), []schemaversion.Step{{Up: up}}, nil))(func(c *schemaversion.Collection[bson.D]) error {
			err := testkit.ErrorOf(c.Get(ctx, 1))
			if !errors.As(err, new(*schemaversion.StepError)) {
				return fmt.Errorf("not a StepError: %w", err)
			}
			return err
		})
	}, nil, "schemaversion: get: _id 1: the step from version 1 to 2 failed: no name"},
	{"schemaversion: a step that loses the document", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		up := func(bson.D) (bson.D, error) { return nil, nil }
		return on(schemaversion.New[bson.D](db.Collection("c"), []schemaversion.Step{{Up: up}}, nil))(func(c *schemaversion.Collection[bson.D]) error { return testkit.ErrorOf(c.Get(ctx, 1)) })
	}, nil, "the step from version 1 to 2 failed: it changed the _id to missing"},
	{"schemaversion: a step between numbers", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(schemaversion.New[bson.D](db.Collection("c"), []schemaversion.Step{schemaversion.Between[int, bson.D](nil, nil)}, nil))
	}, mongopatterns.ErrInvalid, "steps[0]: Old: int cannot be encoded as a document"},
	{"schemaversion: a step without Up", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(schemaversion.New[bson.D](db.Collection("c"), []schemaversion.Step{{}}, nil))
	}, mongopatterns.ErrInvalid, "steps[0]: Up is missing"},
	{"schemaversion: a version that does not exist", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(schemaversion.New[bson.D](db.Collection("c"), nil, nil))(func(c *schemaversion.Collection[bson.D]) error { return testkit.ErrorOf(c.Migrate(ctx, 5, nil)) })
	}, mongopatterns.ErrInvalid, "version 5 is not between 1 and 1"},

	// Updates without operators.
	{"extref: an update without operators", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "title"), nil))(func(r *extref.Source[int, bson.D]) error {
			return testkit.ErrorOf(r.Update(ctx, 1, testkit.D("title", "b")))
		})
	}, mongopatterns.ErrInvalid, "without an operator such as $set"},
	{"extref: an update that is a number", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "title"), nil))(func(r *extref.Source[int, bson.D]) error { return testkit.ErrorOf(r.Update(ctx, 1, 7)) })
	}, mongopatterns.ErrInvalid, "int is neither a document of operators nor a pipeline"},
	{"split: an update without operators", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(split.New[int, bson.D, bson.D](db.Collection("c"), db.Collection("d"), nil))(func(s *split.Split[int, bson.D, bson.D]) error { return s.Update(ctx, 1, bson.M{"title": "b"}, nil) })
	}, mongopatterns.ErrInvalid, "without an operator such as $set"},
	{"subset: an update without operators", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(subset.New[int, bson.D](db.Collection("c"), db.Collection("d"), nil))(func(s *subset.Subset[int, bson.D]) error { return s.Update(ctx, 1, 5, testkit.D("title", "b")) })
	}, mongopatterns.ErrInvalid, "without an operator such as $set"},
	{"schemaversion: an update without operators", []any{testkit.D("_id", 1)}, func(ctx context.Context, db *mongo.Database) error {
		return on(schemaversion.New[bson.D](db.Collection("c"), nil, nil))(func(c *schemaversion.Collection[bson.D]) error { return c.Update(ctx, 1, testkit.D("title", "b")) })
	}, mongopatterns.ErrInvalid, "without an operator such as $set"},
	{"schemaversion: no update", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(schemaversion.New[bson.D](db.Collection("c"), nil, nil))(func(c *schemaversion.Collection[bson.D]) error { return c.Update(ctx, 1, nil) })
	}, mongopatterns.ErrInvalid, "update: the update is nil"},

	// Nothing where something must be.
	{"approx: no collection", nil, func(context.Context, *mongo.Database) error { return testkit.ErrorOf(approx.New[int](nil, nil)) }, mongopatterns.ErrInvalid, "coll: the collection is nil"},
	{"attribute: no collection", nil, func(context.Context, *mongo.Database) error {
		return testkit.ErrorOf(attribute.New[int, int](nil, nil))
	}, mongopatterns.ErrInvalid, "coll: the collection is nil"},
	{"bucket: no collection", nil, func(context.Context, *mongo.Database) error {
		return testkit.ErrorOf(bucket.New[int, bson.D](nil, hourly, nil))
	}, mongopatterns.ErrInvalid, "coll: the collection is nil"},
	{"bucket: no window", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(bucket.New[int, bson.D](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "window: it is nil"},
	{"series: no window", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(series.New[int, bson.D](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "window: it is nil"},
	{"slots: no window", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(slots.New[int, bson.D](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "window: it is nil"},
	{"series: no series", nil, func(context.Context, *mongo.Database) error {
		return testkit.ErrorOf(series.NewGatherer[int, bson.D](nil, nil))
	}, mongopatterns.ErrInvalid, "s is nil"},
	{"computed: no pipeline", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: nil, Empty: testkit.D("n", 0)}, nil))
	}, mongopatterns.ErrInvalid, "Rule.Pipeline: it is empty"},
	{"computed: no empty", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: nil}, nil))
	}, mongopatterns.ErrInvalid, "Rule.Empty: it has no fields"},
	{"computed: no write", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil))(func(c *computed.Computed[int, int, bson.D]) error {
			return c.Change(ctx, []int{1}, nil)
		})
	}, mongopatterns.ErrInvalid, "write is nil"},
	{"extref: no targets", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(extref.New[int, bson.D](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "targets: none"},
	{"extref: a target without a collection", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(extref.New[int, bson.D](db.Collection("c"), []extref.Target{{Path: "x", Fields: []extref.Field{{Path: "x"}}}}, nil))
	}, mongopatterns.ErrInvalid, "targets[0].Collection: the collection is nil"},
	{"extref: no fields", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(extref.New[int, bson.D](db.Collection("c"), []extref.Target{{Collection: db.Collection("d"), Path: "x"}}, nil))
	}, mongopatterns.ErrInvalid, "targets[0].Fields: the list is empty"},
	{"outlier: one collection for both", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(outlier.New[int, string](db.Collection("c"), db.Collection("c"), nil))
	}, mongopatterns.ErrInvalid, `overflow: the collection "c" is also coll`},
	{"relation: no fields", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(relation.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), nil))
	}, mongopatterns.ErrInvalid, "set ChildrenField, OwnerField"},
	{"relation: no collection to fetch from", nil, func(ctx context.Context, _ *mongo.Database) error {
		return testkit.ErrorOf(relation.Fetch[int, bson.D](ctx, nil, []int{1}, nil))
	}, mongopatterns.ErrInvalid, "coll: the collection is nil"},
	{"tree: no representation", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(tree.New[int, bson.D](db.Collection("c"), 0, nil))
	}, mongopatterns.ErrInvalid, "rep: unknown"},
	{"tree: no tree to convert to", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(tree.New[int, bson.D](db.Collection("c"), tree.AncestorArray, nil))(func(t *tree.Tree[int, bson.D]) error {
			return testkit.ErrorOf(tree.Convert[int, bson.D, bson.D](ctx, t, nil, nil))
		})
	}, mongopatterns.ErrInvalid, "nil"},
	{"tree: no make", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(tree.New[string, bson.D](db.Collection("c"), tree.AncestorArray, nil))(func(t *tree.Tree[string, bson.D]) error {
			return testkit.ErrorOf(t.FindOrInsert(ctx, []string{"a"}, nil))
		})
	}, mongopatterns.ErrInvalid, `make: nil, and no node has the name "a"`},
	{"versioning: no revisions", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(versioning.New[int, bson.D](db.Collection("c"), nil, nil))
	}, mongopatterns.ErrInvalid, "revisions: the collection is nil"},
	{"Transact: no client", nil, func(ctx context.Context, _ *mongo.Database) error {
		return mongopatterns.Transact(ctx, nil, func(context.Context) error { return nil })
	}, mongopatterns.ErrInvalid, "mongopatterns: transact: invalid: client or fn is nil"},
	{"bucket: no target to archive to", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))(func(b *bucket.Buckets[int, bson.D]) error { return testkit.ErrorOf(b.Archive(ctx, moment, nil, nil)) })
	}, mongopatterns.ErrInvalid, "target: the collection is nil"},
	{"bucket: an archive that is the collection", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))(func(b *bucket.Buckets[int, bson.D]) error {
			return testkit.ErrorOf(b.Archive(ctx, moment, db.Collection("c"), nil))
		})
	}, mongopatterns.ErrInvalid, `"c" is also coll`},

	// Bounds and names.
	{"approx: Every below 0", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(approx.New[int](db.Collection("c"), &approx.Options{Every: -1}))
	}, mongopatterns.ErrInvalid, "Options.Every: -1 is not between"},
	{"paging: PageSize below 0", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(paging.New[titled](db.Collection("c"), nil, &paging.Options{PageSize: -1}))
	}, mongopatterns.ErrInvalid, "Options.PageSize: -1"},
	{"paging: a direction of 2", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(paging.New[titled](db.Collection("c"), testkit.D("title", 2), nil))
	}, mongopatterns.ErrInvalid, `the direction of "title" must be 1 or -1`},
	{"versioning: SnapshotEvery below 0", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(versioning.New[int, bson.D](db.Collection("c"), db.Collection("r"), &versioning.Options{SnapshotEvery: -1}))
	}, mongopatterns.ErrInvalid, "Options.SnapshotEvery: -1"},
	{"outlier: MaxCount below 0", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(outlier.New[int, string](db.Collection("c"), db.Collection("d"), &outlier.Options{MaxCount: -1}))
	}, mongopatterns.ErrInvalid, "Options.MaxCount: -1"},
	{"tree: a dollar in a name", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(tree.New[int, bson.D](db.Collection("c"), tree.AncestorArray, &tree.Options{AncestorsField: "$above"}))
	}, mongopatterns.ErrInvalid, "Options.AncestorsField"},
	{"relation: a dot in a name", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(relation.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), &relation.Options{OwnerField: "a.b"}))
	}, mongopatterns.ErrInvalid, `"a.b" contains "."`},
	{"prealloc: a dot in a section", nil, func(ctx context.Context, db *mongo.Database) error {
		return on(prealloc.New[int, string](db.Collection("c"), nil))(func(g *prealloc.Grids[int, string]) error { return g.Insert(ctx, 1, nil, prealloc.At("A.b", "1")) })
	}, mongopatterns.ErrInvalid, `"A.b" contains "."`},
	{"attribute: one field for key and value", nil, func(_ context.Context, db *mongo.Database) error {
		return testkit.ErrorOf(attribute.New[int, any](db.Collection("c"), &attribute.Options{KeyField: "x", ValueField: "x"}))
	}, mongopatterns.ErrInvalid, `"x"`},
}

func insertInto(ctx context.Context, db *mongo.Database, coll string, docs ...any) {
	if _, err := db.Collection(coll).InsertMany(ctx, docs, options.InsertMany().SetComment("given")); err != nil {
		panic(err)
	}
}

// Each newcomer's mistake gives an error, or a problem of Check, that names the cure; nothing is written.
func TestMistakes(t *testing.T) {
	all := append(append(otherRepresentations(), filters()...), mistakes...)
	t.Logf("%d mistakes", len(all))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			if m.given != nil {
				insertInto(t.Context(), db, "c", m.given...)
			}
			var err error
			cmds := mongotest.Record(t, db, func() { err = m.do(t.Context(), db) })
			if err == nil || m.want != nil && !errors.Is(err, m.want) || !strings.Contains(err.Error(), m.text) {
				t.Errorf("%v\nwant %v, %q", err, m.want, m.text)
			}
			cmds = slices.DeleteFunc(cmds, func(c mongotest.Command) bool { return c.Body.Lookup("comment").Type != 0 })
			if len(cmds.Named("abortTransaction")) == 1 { // what it wrote is gone
				cmds = slices.DeleteFunc(cmds, func(c mongotest.Command) bool { return c.Body.Lookup("autocommit").Type != 0 })
			}
			if n := cmds.DocumentsWritten(); n != 0 || len(cmds.Named("createIndexes", "create")) > 0 {
				t.Errorf("%d documents written: %v", n, cmds.Names())
			}
		})
	}
}
