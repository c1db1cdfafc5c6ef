package calls_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// repairer is a helper of a package that derives something.
type repairer interface {
	mongopatterns.Checker
	Repair(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error)
}

// A derivation is a package with numbers that it derives.
type derivation struct {
	// fill stores subjects 0, 1, …, each with its numbers. Where the package derives only how many there are, it may
	// store something else.
	fill    func(t *testing.T, db *mongo.Database, subjects [][]any) repairer
	subject string                      // the field that tells the subject, in the collection "c"
	derived []string                    // the paths of the numbers in its document
	summed  bool                        // whether they follow from the subject's numbers
	left    []mongopatterns.ProblemKind // what Repair does not promise to solve
}

var aggregated = []timeseries.Value{{Field: "v"}, {Field: "w", Sum: "sum", Min: "min", Max: "max", Count: "n"}}

// measured are measurements of the subjects, by AppendMany.
func measured(subjects [][]any) func(yield func(int, bson.D) bool) {
	return func(yield func(int, bson.D) bool) {
		for i, numbers := range subjects {
			for j, x := range numbers {
				if !yield(i, testkit.D("timestamp", moment.Add(time.Duration(j)*time.Second), "v", x, "w", x)) {
					return
				}
			}
		}
	}
}

var derivations = map[string]derivation{
	"bucket": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			b := testkit.Must(bucket.New[int, bson.D](db.Collection("c"), hourly, &bucket.Options{Values: aggregated, BytesField: "bytes", EndField: "end"}))
			testkit.OK(t, testkit.ErrorOf(b.AppendMany(t.Context(), measured(subjects), nil)))
			return b
		},
		subject: "series", summed: true,
		derived: []string{"count", "bytes", "end", "stats.v.sum", "stats.v.squares", "stats.v.min", "stats.v.max", "stats.v.count", "sum", "min", "max", "n"},
	},
	"series": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			s := testkit.Must(series.New[int, bson.D](db.Collection("c"), hourly, &series.Options{Values: aggregated, EndField: "end"}))
			testkit.OK(t, testkit.ErrorOf(s.AppendMany(t.Context(), measured(subjects), nil)))
			return s
		},
		subject: "series", summed: true,
		derived: []string{"count", "bytes", "end", "stats.v.sum", "stats.v.squares", "stats.v.min", "stats.v.max", "stats.v.count", "sum", "min", "max", "n"},
	},
	"slots": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			s := testkit.Must(slots.New[int, any](db.Collection("c"), timeseries.Days(nil), &slots.Options{EndField: "end"}))
			for i := range subjects {
				testkit.OK(t, s.Set(t.Context(), i, moment, 1))
			}
			return s
		},
		subject: "series", derived: []string{"end"},
	},
	"subset": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			s := testkit.Must(subset.New[int, bson.D](db.Collection("c"), db.Collection("items"), &subset.Options{N: 1,
				Values: []subset.Value{{Field: "v", Sum: "sum", Mean: "mean", Count: "n"}}}))
			var parents, items []any
			for i, numbers := range subjects {
				parents = append(parents, testkit.D("_id", i))
				for j, x := range numbers {
					items = append(items, testkit.D("_id", 10*i+j, "parent", i, "v", x))
				}
			}
			testkit.Insert(t, db.Collection("c"), parents...)
			testkit.Insert(t, db.Collection("items"), items...)
			testkit.OK(t, testkit.ErrorOf(s.Repair(t.Context(), nil)))
			return s
		},
		subject: "_id", summed: true, derived: []string{"items_count", "sum", "mean", "n"},
		left: []mongopatterns.ProblemKind{mongopatterns.Malformed}, // it does not overwrite what is not a number
	},
	"computed": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			pipeline := mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "count", testkit.D("$sum", 1), "sum", testkit.D("$sum", "$v"),
				"mean", testkit.D("$avg", "$v"), "low", testkit.D("$min", "$v")))}
			c := testkit.Must(computed.New[int, int, bson.D](db.Collection("sources"), db.Collection("c"), computed.Rule{KeyField: "film", Pipeline: pipeline, Empty: testkit.D("count", 0, "sum", 0, "mean", nil, "low", nil)}, nil))
			var targets, sources []any
			for i, numbers := range subjects {
				targets = append(targets, testkit.D("_id", i))
				for j, x := range numbers {
					sources = append(sources, testkit.D("_id", 10*i+j, "film", i, "v", x))
				}
			}
			testkit.Insert(t, db.Collection("c"), targets...)
			testkit.Insert(t, db.Collection("sources"), sources...)
			testkit.OK(t, testkit.ErrorOf(c.Repair(t.Context(), nil)))
			return c
		},
		subject: "_id", summed: true, derived: []string{"count", "sum", "mean", "low"},
	},
	"outlier": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			l := testkit.Must(outlier.New[int, int](db.Collection("c"), db.Collection("overflow"), &outlier.Options{MaxCount: 2}))
			for i := range subjects {
				testkit.Insert(t, db.Collection("c"), testkit.D("_id", i))
				testkit.OK(t, testkit.ErrorOf(l.Add(t.Context(), i, 1, 2, 3, 4, 5)))
			}
			return l
		},
		subject: "_id", derived: []string{"items_outside"},
	},
	"tree counters": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			tr := testkit.Must(tree.New[int, bson.D](db.Collection("c"), tree.ParentReferences, &tree.Options{ChildCountField: "children", OrderField: "order"}))
			for i := range subjects {
				testkit.OK(t, testkit.ErrorOf(tr.Insert(t.Context(), testkit.D("_id", i), tr.AsRoot())))
				testkit.OK(t, testkit.ErrorOf(tr.Insert(t.Context(), testkit.D("_id", 1000+i), tr.Under(i))))
			}
			return tr
		},
		subject: "_id", derived: []string{"children", "order"},
	},
	"tree numbers": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			tr := testkit.Must(tree.New[int, bson.D](db.Collection("c"), tree.NestedSets, nil))
			for i := range subjects {
				testkit.OK(t, testkit.ErrorOf(tr.Insert(t.Context(), testkit.D("_id", i), tr.AsRoot())))
			}
			return tr
		},
		subject: "_id", derived: []string{"left", "right"},
	},
	"extref": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			sources := db.Collection("sources")
			r := testkit.Must(extref.New[int, bson.D](sources, []extref.Target{{Collection: db.Collection("c"), Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil))
			for i := range subjects {
				testkit.Insert(t, sources, testkit.D("_id", i, "name", "Ann", "version", int64(1)))
				testkit.Insert(t, db.Collection("c"), testkit.D("_id", i, "customer", testkit.D("_id", i, "name", "Ann", "version", int64(1))))
			}
			return r
		},
		subject: "_id", derived: []string{"customer.version"},
		left: []mongopatterns.ProblemKind{extref.NoVersion},
	},
	"versioning": {
		fill: func(t *testing.T, db *mongo.Database, subjects [][]any) repairer {
			h := testkit.Must(versioning.New[int, bson.D](db.Collection("c"), db.Collection("revisions"), nil))
			for i := range subjects {
				testkit.OK(t, testkit.ErrorOf(h.Insert(t.Context(), testkit.D("_id", i, "x", 1), versioning.Change{})))
				testkit.OK(t, testkit.ErrorOf(h.Edit(t.Context(), i, func(doc *bson.D) error {
					*doc = append(slices.Clone(*doc), bson.E{Key: "y", Value: 2})
					return nil
				}, versioning.Change{})))
			}
			return h
		},
		subject: "_id", derived: []string{"revision"},
		left: []mongopatterns.ProblemKind{mongopatterns.Malformed, versioning.MissingRevision},
	},
}

// For every number that BSON has, among the data and in place of what is derived: after Repair, Check finds nothing
// that Repair solves.
func TestRepairOfEveryNumber(t *testing.T) {
	numbers := testkit.Numbers()
	wrong := append(slices.Concat(numbers, testkit.NoNumbers()), int32(3), int64(1<<40), "text", nil)
	for name, d := range derivations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var subjects [][]any
			for i := range wrong {
				subjects = append(subjects, []any{1})
				for j, x := range numbers {
					if d.summed && i%5 == j%5 {
						subjects = append(subjects, []any{x, numbers[(i+j)%len(numbers)], x})
					}
				}
			}
			db := mongotest.Database(t)
			helper, coll := d.fill(t, db, subjects), db.Collection("c")
			left := func(when string) (solvable int) {
				for _, p := range testkit.Collect(t, helper.Check(t.Context(), nil)) {
					if !slices.Contains(d.left, p.Kind) {
						if solvable++; when != "" && solvable <= 5 {
							t.Errorf("%s: %v", when, p)
						}
					}
				}
				return solvable
			}
			left("filled")
			var writes []mongo.WriteModel
			for i := range subjects {
				set := bson.D{}
				for _, path := range d.derived {
					set = append(set, bson.E{Key: path, Value: wrong[(i+len(set))%len(wrong)]})
				}
				writes = append(writes, mongo.NewUpdateOneModel().SetFilter(testkit.D(d.subject, i)).SetUpdate(testkit.D("$set", set)))
			}
			testkit.OK(t, testkit.ErrorOf(coll.BulkWrite(t.Context(), writes)))
			if left("") == 0 {
				t.Error("Check finds no wrong number")
			}
			testkit.OK(t, testkit.ErrorOf(helper.Repair(t.Context(), nil)))
			left("repaired")
		})
	}
}
