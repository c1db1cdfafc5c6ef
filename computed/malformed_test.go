package computed_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A source without the _id of a target, or with a value that cannot be an _id, counts for no target
// and stops no call.
func TestStrangeKeys(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, odd := range map[string]any{
		"missing": nil, "null": nil, "undefined": bson.Undefined{}, "pattern": bson.Regex{Pattern: "^"},
		"operators": bson.D{{Key: "$gt", Value: ""}}, "array": bson.A{},
	} {
		for kind, opts := range map[string]*spec{"per film": perFilm(), "sums": sums()} {
			t.Run(fmt.Sprint(kind, " ", name), func(t *testing.T) {
				t.Parallel()
				db, c := cinema(t, opts)
				doc := bson.M{"_id": 100, "film": odd, "viewers": 1000}
				if name == "missing" {
					delete(doc, "film")
				}
				_, err := db.Collection("screenings").InsertOne(ctx, doc)
				check(t, err)
				same := func(step string) {
					t.Helper()
					for id, want := range map[string]int{"A": 90, "B": 96, "C": 0} {
						var f film
						check(t, db.Collection("films").FindOne(ctx, bson.M{"_id": id}).Decode(&f))
						if f.Viewers != want {
							t.Errorf("%s: %s has %d viewers, want %d", step, id, f.Viewers, want)
						}
					}
				}
				result, err := c.Adopt(ctx, nil)
				if err != nil || result.Failed+result.Remaining > 0 {
					t.Errorf("%+v, %v", result, err)
				}
				same("Adopt")
				set := func(update bson.M) func(context.Context) error {
					return func(ctx context.Context) error {
						_, err := db.Collection("screenings").UpdateOne(ctx, bson.M{"_id": 100}, update)
						return err
					}
				}
				if err := c.Change(ctx, []int{100}, set(bson.M{"$inc": bson.M{"viewers": 1}})); err != nil {
					t.Error("Change: ", err)
				}
				same("Change")
				if _, err := c.RefreshAll(ctx, nil); err != nil {
					t.Error("RefreshAll: ", err)
				}
				same("RefreshAll")
				for p, err := range c.Check(ctx, nil) {
					t.Error(p, err)
				}
				check(t, c.Change(ctx, []int{100}, set(bson.M{"$set": bson.M{"film": "C"}})))
				var f film
				check(t, db.Collection("films").FindOne(ctx, bson.M{"_id": "C"}).Decode(&f))
				if f.Viewers != 1001 {
					t.Errorf("%+v", f)
				}
			})
		}
	}
}

// A target with something of the user's in StateField is named and keeps it, and the others are computed.
func TestAdoptKeepsAFieldOfTheUser(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, opts *spec) {
		for _, mine := range []any{"by hand", bson.M{"by": "Ann"}, bson.M{"at": "noon"}, bson.M{"epoch": "ice"}, bson.M{"seen": true}, bson.A{1}} {
			db, c := cinema(t, opts)
			testkit.Update(t, db.Collection("films"), bson.M{"_id": "B"}, bson.M{"$set": bson.M{"computed": mine}})
			before := testkit.One[bson.Raw](t, db.Collection("films"), "B")
			found := testkit.Problems(t, c)
			if !slices.ContainsFunc(found, func(p string) bool { return strings.Contains(p, "malformed") }) {
				t.Errorf("%v: %v", mine, found)
			}
			for _, work := range []*mongopatterns.Work{{DryRun: true}, nil} {
				result, err := c.Adopt(t.Context(), work)
				if err != nil || result.Done != 2 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "B" {
					t.Errorf("%v: %+v, %v", mine, result, err)
				}
			}
			if _, err := c.Adopt(t.Context(), &mongopatterns.Work{Strict: true}); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Error(err)
			}
			if _, err := c.Repair(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if after := testkit.One[bson.Raw](t, db.Collection("films"), "B"); !slices.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
			testkit.Update(t, db.Collection("films"), bson.M{"_id": "B"}, bson.M{"$unset": bson.M{"computed": ""}})
			if _, err := c.Adopt(t.Context(), nil); err != nil {
				t.Error(err)
			}
			right(t, db, c, opts)
		}
	})
}

// An error of the server about a value names the target and the computed fields, which the server does not.
func TestErrorsNameTheFields(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, sums())
	testkit.Value[mongopatterns.Result](t)(c.Adopt(t.Context(), nil))
	testkit.Update(t, db.Collection("films"), bson.M{"_id": "B"}, bson.M{"$set": bson.M{"viewers": "many"}})
	err := c.Change(t.Context(), []int{1}, set(db, 1, bson.M{"viewers": 50}))
	if err == nil || !strings.Contains(err.Error(), `_id "B": adding to "viewers", "theatres": `) {
		t.Error(err)
	}
	opts := perFilm()
	opts.Pipeline[1][0].Value.(bson.D)[1].Value = bson.M{"$sum": bson.M{"$toInt": "$viewers"}}
	db, c = cinema(t, opts)
	testkit.Update(t, db.Collection("screenings"), bson.M{"_id": 1}, bson.M{"$set": bson.M{"viewers": "many"}})
	result, err := c.Adopt(t.Context(), nil)
	if err != nil || result.Failed != 1 || !strings.Contains(result.Failures[0].Err.Error(), `pipeline for "viewers", "theatres": `) {
		t.Errorf("%+v, %v", result, err)
	}
}

// What somebody has typed into the fields of the queue holds up neither the target nor the others.
func TestTypedState(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"attempts", "epoch"} {
		for name, typed := range map[string]any{"text": "x", "document": bson.D{{Key: "a", Value: 1}}, "NaN": math.NaN(), "decimal": bson.NewDecimal128(1, 1), "array": bson.A{1}} {
			t.Run(field+", "+name, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				db, c := cinema(t, perFilm())
				_, err := db.Collection("films").UpdateOne(ctx, bson.M{"_id": "A"}, bson.M{"$set": bson.M{"computed." + field: typed}})
				check(t, err)
				check(t, c.Change(ctx, []int{100}, func(ctx context.Context) error {
					_, err := db.Collection("screenings").InsertOne(ctx, bson.M{"_id": 100, "film": "A", "viewers": 1000})
					return err
				}))
				_, err = db.Collection("films").UpdateMany(ctx, bson.M{"_id": bson.M{"$in": bson.A{"A", "B"}}}, bson.M{"$set": bson.M{"computed.dirty": true}})
				check(t, err)
				_, err = db.Collection("films").UpdateOne(ctx, bson.M{"_id": "A"}, bson.M{"$set": bson.M{"computed." + field: typed}})
				check(t, err)
				result, err := c.Drain(ctx, nil)
				if err != nil || result.Done != 2 || result.Failed > 0 {
					t.Errorf("%+v, %v", result, err)
				}
				check(t, c.Mark(ctx, "A"))
				testkit.Done(t, 1)(c.Drain(ctx, nil))
				testkit.Healthy(t, c)
			})
		}
	}
}

// Calls that write replace what is no document in StateField: a path leads into each element of an array.
func TestForeignStateIsReplaced(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, opts *spec) {
		for i, foreign := range []any{
			bson.A{1}, bson.A{}, bson.A{bson.M{"at": time.Now(), "epoch": 7, "until": time.Now().Add(time.Hour)}}, 1, "x", time.Now(), nil,
		} {
			name := fmt.Sprint(foreign)
			for j, call := range []struct {
				name string
				do   func(ctx context.Context, c *totals) error
			}{
				{"Mark, Drain", func(ctx context.Context, c *totals) error {
					if err := c.Mark(ctx, "B"); err != nil {
						return err
					}
					result, err := c.Drain(ctx, nil)
					if result.Done != 1 {
						t.Errorf("%s: Drain: %+v", name, result)
					}
					return err
				}},
				{"Get", func(ctx context.Context, c *totals) error { return errorOf(c.Get(ctx, "B", time.Hour)) }},
				{"Refresh", func(ctx context.Context, c *totals) error { return errorOf(c.Refresh(ctx, "B")) }},
				{"RefreshAll", func(ctx context.Context, c *totals) error { return errorOf(c.RefreshAll(ctx, nil)) }},
				{"Change", func(ctx context.Context, c *totals) error {
					return c.Change(ctx, []int{1}, func(context.Context) error { return nil })
				}},
			} {
				if !scale.Turn(i+j, 3) {
					continue
				}
				t.Run(name+", "+call.name, func(t *testing.T) {
					t.Parallel()
					db, c := cinema(t, opts)
					testkit.Must(c.Adopt(t.Context(), nil))
					check(t, set(db, 3, bson.M{"viewers": 500})(t.Context()))
					testkit.Update(t, db.Collection("films"), bson.M{"_id": "B"}, bson.M{"$set": bson.M{"computed": foreign}})
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					check(t, call.do(ctx, c))
					right(t, db, c, opts)
					_, err := c.Get(t.Context(), "B", time.Hour)
					check(t, err)
				})
			}
		}
	})
}

// In a transaction the guard of a foreign state holds too: another attempt would not help.
func TestForeignStateInATransaction(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, perFilm())
	testkit.Update(t, db.Collection("films"), bson.M{"_id": "B"}, bson.M{"$set": bson.M{"computed": bson.A{bson.M{"epoch": 7}}}})
	runs := 0
	check(t, mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if runs++; runs > 1 {
			t.Fatal("the first attempt did not do it")
		}
		return errorOf(c.Refresh(ctx, "B"))
	}))
}
