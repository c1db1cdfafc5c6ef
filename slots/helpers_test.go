package slots_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// fresh is a collection for a test beside others.
func fresh(t *testing.T) *mongo.Collection {
	t.Helper()
	t.Parallel()
	return mongotest.Database(t).Collection("c")
}

// done wants a call for many to have written so many.
func done(t testing.TB, want int64) func(mongopatterns.Result, error) {
	return func(result mongopatterns.Result, err error) {
		t.Helper()
		if err != nil || result.Done != want {
			t.Errorf("%+v, %v; want %d", result, err, want)
		}
	}
}

// fails wants a call to end with an error.
func fails(t testing.TB, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v; want %v", err, want)
	}
}

// gives wants a call to return a value.
func gives[T any](t testing.TB, want T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if diff(t, want, got); err != nil {
			t.Error(err)
		}
	}
}

// must ends a test that cannot go on.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		must(t, err)
		out = append(out, v)
	}
	return out
}

// stored reads all documents as maps, by _id.
func stored(t testing.TB, coll *mongo.Collection) []bson.M {
	t.Helper()
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	must(t, err)
	var docs []bson.M
	must(t, cursor.All(t.Context(), &docs))
	return docs
}

func date(t time.Time) bson.DateTime { return bson.NewDateTimeFromTime(t) }

var day = time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)

func at(h, m, s int) time.Time {
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second)
}

func diff(t testing.TB, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(bson.Decimal128{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func second[T any](_ T, err error) error { return err }

func count(t testing.TB, coll *mongo.Collection) int {
	t.Helper()
	n, err := coll.CountDocuments(t.Context(), bson.D{})
	must(t, err)
	return int(n)
}

func checkCosts(t *testing.T, db *mongo.Database, all []cost) {
	t.Helper()
	for _, c := range all {
		t.Log(c.what)
		cmds := costs.Record(t, db, c.writes, c.sends, func() error { return c.call(t.Context()) })
		for _, cmd := range cmds {
			if strings.Contains(cmd.Body.String(), `"hint"`) {
				t.Fatal("a hint, which not every server takes: ", cmd.Body)
			}
		}
		if c.keys+c.docs == 0 {
			continue
		}
		plan := mongotest.Explain(t, db, cmds[c.explain].Body)
		if c.index != "" {
			plan.RequireIndex(t, c.index)
		}
		if plan.Has("COLLSCAN") {
			t.Fatal(plan)
		}
		plan.RequireExamined(t, c.keys, c.docs)
		if c.unsorted {
			plan.RequireNoSort(t)
		}
	}
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	must(t, err)
	return loc
}

// A cost is what a call sends and writes, and by which index ("" for any) one of its
// commands looks at no more than these.
type cost struct {
	what       string
	call       func(ctx context.Context) error
	sends      []string
	writes     int
	explain    int // which command
	index      string
	keys, docs int64 // 0 for no plan
	unsorted   bool
}

const base = "series_1_start_1"

func unique(field string) mongo.IndexModel {
	return mongo.IndexModel{Keys: bson.D{{Key: field, Value: 1}}, Options: uniqueOption()}
}

func uniqueOption() *options.IndexOptionsBuilder { return options.Index().SetUnique(true) }
