package calls_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
)

// converted is the error of a call with a Result: its own, or that of a document that failed.
func converted(result mongopatterns.Result, err error) error {
	for _, f := range result.Failures {
		err = errors.Join(err, f.Err)
	}
	if err == nil && result.Remaining > 0 {
		return errors.New("remaining")
	}
	return err
}

// The server stores 180 levels of documents and arrays. A call that puts more levels around a value refuses one that it
// or a later call could not write: what one call has taken, every later one can move.
func TestDeepValues(t *testing.T) {
	type step struct {
		name string // of a step that may be refused it ends in ?
		do   func(ctx context.Context) error
	}
	for name, steps := range map[string]func(c, d *mongo.Collection, v any) []step{
		"archive": func(c, d *mongo.Collection, v any) []step {
			a := testkit.Must(archive.New(c, d, nil))
			return []step{
				{"insert?", func(ctx context.Context) error { return testkit.ErrorOf(c.InsertOne(ctx, testkit.D("_id", 1, "v", v))) }},
				{"move", func(ctx context.Context) error { return converted(a.Move(ctx, bson.D{}, nil)) }},
				{"restore", func(ctx context.Context) error { return converted(a.Restore(ctx, bson.D{}, nil)) }},
				{"copy?", func(ctx context.Context) error { return testkit.ErrorOf(d.InsertOne(ctx, testkit.D("_id", 1, "v", v))) }},
				{"move again", func(ctx context.Context) error { return converted(a.Move(ctx, bson.D{}, nil)) }},
			}
		},
		"archive, copies": func(c, d *mongo.Collection, v any) []step {
			a := testkit.Must(archive.New(c, d, nil))
			return []step{
				{"insert?", func(ctx context.Context) error { return testkit.ErrorOf(c.InsertOne(ctx, testkit.D("_id", 1, "v", v))) }},
				{"copy?", func(ctx context.Context) error {
					return testkit.ErrorOf(d.InsertOne(ctx, testkit.D("_id", 1, "v", v, "archived_at", moment)))
				}},
				{"repair", func(ctx context.Context) error { return converted(a.Repair(ctx, nil)) }},
			}
		},
		"outlier": func(c, d *mongo.Collection, v any) []step {
			l := testkit.Must(outlier.New[int, any](c, d, &outlier.Options{MaxCount: 2, FoldBack: 1}))
			return []step{
				{"add?", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, v)) }},
				{"add 1", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, 1)) }},
				{"add 2", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, 2)) }},
				{"add again", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, v)) }},
				{"remove", func(ctx context.Context) error { return testkit.ErrorOf(l.Remove(ctx, 1, v)) }},
				{"remove outside", func(ctx context.Context) error { return testkit.ErrorOf(l.Remove(ctx, 1, v)) }},
			}
		},
		"outlier, set": func(c, d *mongo.Collection, v any) []step {
			l := testkit.Must(outlier.New[int, any](c, d, &outlier.Options{MaxCount: 2, FoldBack: 1, Set: true}))
			return []step{
				{"add?", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, v)) }},
				{"add 1", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, 1)) }},
				{"add 2", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, 2)) }},
				{"add again", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, v, 5, 6)) }},
				{"repair", func(ctx context.Context) error { return converted(l.Repair(ctx, nil)) }},
				{"remove", func(ctx context.Context) error { return testkit.ErrorOf(l.Remove(ctx, 1, v)) }},
			}
		},
		"outlier, adopted": func(c, d *mongo.Collection, v any) []step {
			l := testkit.Must(outlier.New[int, any](c, d, &outlier.Options{MaxCount: 2, FoldBack: 1, Set: true}))
			return []step{
				{"set?", func(ctx context.Context) error {
					return testkit.ErrorOf(c.UpdateByID(ctx, 1, testkit.D("$set", testkit.D("items", bson.A{v, 1, 2, v}))))
				}},
				{"adopt", func(ctx context.Context) error { return converted(l.Adopt(ctx, nil)) }},
				{"add again", func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, v, 5, 6)) }},
				{"remove", func(ctx context.Context) error { return testkit.ErrorOf(l.Remove(ctx, 1, v)) }},
			}
		},
		"relation": func(c, d *mongo.Collection, v any) []step {
			r := testkit.Must(relation.New[int, int, bson.D](c, d, &relation.Options{ChildrenField: "children", OwnerField: "owner"}))
			return []step{
				{"insert?", func(ctx context.Context) error {
					return testkit.ErrorOf(c.UpdateByID(ctx, 1, testkit.D("$set", testkit.D("children", bson.A{testkit.D("_id", 2, "v", v)}))))
				}},
				{"extract", func(ctx context.Context) error { return converted(r.Extract(ctx, nil)) }},
				{"embed?", func(ctx context.Context) error { return converted(r.Embed(ctx, nil)) }},
				{"extract again", func(ctx context.Context) error { return converted(r.Extract(ctx, nil)) }},
			}
		},
		"relation, embed": func(c, d *mongo.Collection, v any) []step {
			r := testkit.Must(relation.New[int, int, bson.D](c, d, &relation.Options{ChildrenField: "children", OwnerField: "owner"}))
			return []step{
				{"insert?", func(ctx context.Context) error { return testkit.ErrorOf(r.Insert(ctx, 1, testkit.D("_id", 2, "v", v))) }},
				{"embed?", func(ctx context.Context) error { return converted(r.Embed(ctx, nil)) }},
				{"extract", func(ctx context.Context) error { return converted(r.Extract(ctx, nil)) }},
			}
		},
		"split": func(c, d *mongo.Collection, v any) []step {
			s := testkit.Must(split.New[int, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"v", "w"}}))
			return []step{
				{"set?", func(ctx context.Context) error {
					return testkit.ErrorOf(c.UpdateByID(ctx, 1, testkit.D("$set", testkit.D("v", v))))
				}},
				{"adopt", func(ctx context.Context) error { return converted(s.Adopt(ctx, nil)) }},
				{"update", func(ctx context.Context) error { return s.Update(ctx, 1, nil, testkit.D("$set", testkit.D("w", v))) }},
				{"set again", func(ctx context.Context) error {
					return testkit.ErrorOf(c.UpdateByID(ctx, 1, testkit.D("$set", testkit.D("v", v))))
				}},
				{"repair", func(ctx context.Context) error { return converted(s.Repair(ctx, nil)) }},
			}
		},
		"subset": func(c, d *mongo.Collection, v any) []step {
			s := testkit.Must(subset.New[int, bson.D](c, d, &subset.Options{N: 1}))
			return []step{
				{"insert", func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, 1, testkit.D("_id", 2))) }},
				{"insert deep?", func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, 1, testkit.D("_id", 1, "v", v))) }},
				{"delete", func(ctx context.Context) error { return s.Delete(ctx, 1, 2) }},
				{"update", func(ctx context.Context) error { return s.Update(ctx, 1, 1, testkit.D("$set", testkit.D("w", 1))) }},
				{"repair", func(ctx context.Context) error { return converted(s.Repair(ctx, nil)) }},
			}
		},
		"subset, updated": func(c, d *mongo.Collection, v any) []step {
			s := testkit.Must(subset.New[int, bson.D](c, d, &subset.Options{N: 1, ArrayField: "a.b.items"}))
			return []step{
				{"insert", func(ctx context.Context) error {
					return converted(s.InsertMany(ctx, maps.All(map[int]bson.D{1: testkit.D("_id", 2)}), nil))
				}},
				{"insert worse", func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, 1, testkit.D("_id", 1))) }},
				{"update?", func(ctx context.Context) error { return s.Update(ctx, 1, 1, testkit.D("$set", testkit.D("v", v))) }},
				{"delete", func(ctx context.Context) error { return s.Delete(ctx, 1, 2) }},
			}
		},
		"subset, of other code": func(c, d *mongo.Collection, v any) []step {
			s := testkit.Must(subset.New[int, bson.D](c, d, &subset.Options{N: 1}))
			return []step{
				{"insert?", func(ctx context.Context) error {
					return testkit.ErrorOf(d.InsertOne(ctx, testkit.D("_id", 1, "parent", 1, "v", v)))
				}},
				{"check", func(ctx context.Context) error {
					for _, err := range s.Check(ctx, nil) {
						return err
					}
					return errors.New("no problem")
				}},
				{"repair?", func(ctx context.Context) error { return converted(s.Repair(ctx, nil)) }},
				{"insert", func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, 1, testkit.D("_id", 2))) }},
			}
		},
		"subset, adopted": func(c, d *mongo.Collection, v any) []step {
			s := testkit.Must(subset.New[int, bson.D](c, d, &subset.Options{N: 1}))
			return []step{
				{"set?", func(ctx context.Context) error {
					return testkit.ErrorOf(c.UpdateByID(ctx, 1, testkit.D("$set", testkit.D("items", bson.A{testkit.D("_id", 2), testkit.D("_id", 1, "v", v)}))))
				}},
				{"adopt", func(ctx context.Context) error { return converted(s.Adopt(ctx, nil)) }},
				{"delete", func(ctx context.Context) error { return s.Delete(ctx, 1, 2) }},
				{"update", func(ctx context.Context) error { return s.Update(ctx, 1, 1, testkit.D("$set", testkit.D("w", 1))) }},
				{"repair", func(ctx context.Context) error { return converted(s.Repair(ctx, nil)) }},
			}
		},
	} {
		for levels := 176; levels <= 180; levels++ {
			t.Run(fmt.Sprint(name, "/", levels), func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				c, d := db.Collection("c"), db.Collection("d")
				if !strings.HasPrefix(name, "archive") {
					testkit.Insert(t, c, testkit.D("_id", 1))
				}
				for _, step := range steps(c, d, nest(levels)) {
					err := step.do(t.Context())
					if err == nil {
						continue
					}
					if server := mongo.ServerError(nil); !strings.HasSuffix(step.name, "?") || !errors.Is(err, mongopatterns.ErrInvalid) && !errors.As(err, &server) {
						t.Errorf("%s: %v", step.name, err)
					}
					return
				}
			})
		}
	}
}
