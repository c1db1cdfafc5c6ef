package computed_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// New sources count for their targets, and for no other.
func TestInsert(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, opts *spec) {
		db, c := cinema(t, opts)
		testkit.Must(c.Adopt(t.Context(), nil))
		before := truth(t, db, true)
		check(t, c.Insert(t.Context()))
		check(t, c.Insert(t.Context(), screening{20, "A", "new", 100, false}, bson.M{"_id": 21, "film": "C", "theatre": "new", "viewers": 7},
			screening{22, "A", "new", 1000, true}, screening{23, "nowhere", "new", 1, false}))
		after := truth(t, db, true)
		if after["A"][0] != before["A"][0]+100 || after["B"] != before["B"] || after["C"] != [2]int{7, 1} {
			t.Errorf("%v, then %v", before, after)
		}
		testkit.Healthy(t, c)

		for name, sources := range map[string][]any{
			"stored":           {screening{30, "B", "", 1, false}, screening{20, "A", "", 1, false}},
			"twice in one":     {screening{30, "B", "", 1, false}, screening{30, "B", "", 1, false}},
			"without an _id":   {screening{30, "B", "", 1, false}, bson.M{"film": "B"}},
			"null":             {bson.M{"_id": nil, "film": "B"}},
			"nil":              {nil},
			"a map for an _id": {bson.M{"_id": bson.M{"a": 1, "b": 2}}},
			"a map for a key":  {bson.M{"_id": 30, "film": bson.M{"a": 1, "b": 2}}},
		} {
			wanted := mongopatterns.ErrInvalid
			if strings.Contains(name, "stored") || strings.Contains(name, "twice") {
				wanted = mongopatterns.ErrExists
			}
			if err := c.Insert(t.Context(), sources...); !errors.Is(err, wanted) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
				t.Errorf("%s: %v", name, err)
			}
		}
		testkit.Same(t, "the films", after, truth(t, db, true))
		testkit.Healthy(t, c)
	})
}

// A duplicate in another unique index is not ErrExists, because the source is not stored.
func TestInsertOfADuplicate(t *testing.T) {
	db, c := cinema(t, sums())
	testkit.Must(db.Collection("screenings").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "ticket", Value: 1}}, Options: options.Index().SetUnique(true).SetSparse(true)}))
	err := c.Insert(t.Context(), bson.M{"_id": 20, "film": "A", "ticket": "1"}, bson.M{"_id": 21, "film": "A", "ticket": "1"})
	if !mongo.IsDuplicateKeyError(err) || errors.Is(err, mongopatterns.ErrExists) {
		t.Error(err)
	}
}

// Sources of an upper level follow.
func TestInsertInLevels(t *testing.T) {
	t.Parallel()
	for _, additive := range []bool{false, true} {
		ctx, db := t.Context(), mongotest.Database(t)
		sum := func(key string) computed.Rule {
			return computed.Rule{KeyField: key, Empty: testkit.D("sum", 0),
				Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$"+key, "sum", testkit.D("$sum", "$sum")))}}
		}
		upper := testkit.Must(computed.New[int, int, bson.M](db.Collection("films"), db.Collection("owners"), sum("owner"), &computed.Options{Additive: additive}))
		lower := testkit.Must(computed.New[int, int, bson.M](db.Collection("sales"), db.Collection("films"), sum("film"), &computed.Options{Additive: additive, Then: upper}))
		testkit.Insert(t, db.Collection("owners"), testkit.D("_id", 1))
		check(t, upper.Insert(ctx, testkit.D("_id", 10, "owner", 1), testkit.D("_id", 11, "owner", 1)))
		check(t, lower.Insert(ctx, testkit.D("_id", 100, "film", 10, "sum", 3)))
		check(t, lower.Insert(ctx, testkit.D("_id", 101, "film", 11, "sum", 4), testkit.D("_id", 102, "film", 10, "sum", 5)))
		if owner := testkit.Must(upper.Get(ctx, 1, time.Hour)); fmt.Sprint(owner["sum"]) != "12" {
			t.Errorf("additive %v: %v", additive, owner)
		}
		testkit.Healthy(t, lower)
		testkit.Healthy(t, upper)
	}
}

// Calls of one process for one target wait for each other: none has to begin again.
func TestInsertsInTurn(t *testing.T) {
	db, c := cinema(t, sums())
	testkit.Must(c.Adopt(t.Context(), nil))
	const writers, each = 8, 5
	sent := mongotest.Record(t, db, func() {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					if err := c.Insert(t.Context(), screening{100 + w*each + i, "A", "x", 1, false}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
	inserts := 0
	for _, name := range sent.Names() {
		if name == "insert" {
			inserts++
		}
	}
	if inserts != writers*each {
		t.Errorf("%d inserts", inserts)
	}
	testkit.Healthy(t, c)
}

// A new source gets the scope.
func TestInsertInAScope(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	for tenant, n := range map[string]int{"a": 1, "b": 2} {
		c := testkit.Must(computed.New[int, int, bson.M](db.Collection("sources"), db.Collection("targets"), computed.Rule{KeyField: "of", Empty: testkit.D("sum", 0),
			Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$of", "sum", testkit.D("$sum", "$n")))}}, &computed.Options{Scope: testkit.D("tenant", tenant)}))
		testkit.Insert(t, db.Collection("targets"), testkit.D("_id", n, "tenant", tenant))
		check(t, c.Insert(ctx, testkit.D("_id", n*10, "of", n, "n", 5), testkit.D("_id", n*10+1, "of", 3-n, "n", 5)))
		if got := testkit.Must(c.Get(ctx, n, time.Hour)); fmt.Sprint(got["sum"]) != "5" {
			t.Errorf("%s: %v", tenant, got)
		}
		testkit.Healthy(t, c)
	}
	if all := testkit.Find[bson.M](t, db.Collection("sources"), testkit.D("tenant", "a")); len(all) != 2 {
		t.Error(all)
	}
}
