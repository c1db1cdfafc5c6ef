package outlier_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Bad configuration is refused by name, before anything is sent.
func TestOptions(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context())
	db := client.Database("d")
	coll, overflow := db.Collection("c"), db.Collection("o")
	for want, o := range map[string]*outlier.Options{
		"Options.ArrayField":       {ArrayField: "a.b"},
		"Options.FlagField":        {FlagField: "$x"},
		"Options.TotalField":       {TotalField: "a\x00"},
		"Options.ParentField":      {ParentField: "a."},
		"Options.NumberField":      {NumberField: "$"},
		`"_id"`:                    {ArrayField: "_id"},
		"Options.FlagField: ":      {FlagField: "items"},
		"Options.TotalField: ":     {TotalField: "items_overflow"},
		"Options.NumberField: ":    {NumberField: "parent"},
		"Options.ParentField: ":    {ParentField: "items"},
		"Options.MaxCount":         {MaxCount: -1},
		"Options.MaxBytes":         {MaxBytes: 16 << 20},
		"Options.OverflowMaxCount": {OverflowMaxCount: -1},
		"Options.OverflowMaxBytes": {OverflowMaxBytes: -1},
		"Options.FoldBack":         {MaxCount: 10, FoldBack: 10},
	} {
		if _, err := outlier.New[int, int](coll, overflow, o); err == nil || !strings.HasPrefix(err.Error(), "outlier: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, colls := range map[string][2]*mongo.Collection{
		"outlier: nil collection":          {nil, overflow},
		"outlier: nil overflow collection": {coll, nil},
		"the parents' own":                 {coll, db.Collection("c")},
		"not in the database":              {coll, client.Database("e").Collection("o")},
	} {
		if _, err := outlier.New[int, int](colls[0], colls[1], nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// A parent and an overflow document may use the same name.
	if _, err := outlier.New[int, int](coll, overflow, &outlier.Options{TotalField: "n", FlagField: "parent"}); err != nil {
		t.Error(err)
	}
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{ElementIndex: true, ArrayField: "a", ParentField: "p", NumberField: "k", FlagField: "more"})
	for range 2 { // fresh each time
		var keys []any
		for _, m := range append(lists.Indexes(), lists.OverflowIndexes()...) {
			keys = append(keys, m.Keys)
			if m.Options != nil {
				m.Options.SetName("changed")
			}
		}
		want := []any{
			bson.D{{Key: "more", Value: 1}},
			bson.D{{Key: "p", Value: 1}, {Key: "k", Value: 1}}, bson.D{{Key: "p", Value: 1}, {Key: "a", Value: 1}},
		}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(bson.D{{Key: "_id", Value: 1}}, lists.ShardKey()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(bson.D{{Key: "p", Value: 1}}, lists.OverflowShardKey()); diff != "" {
		t.Error(diff)
	}
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "more", Value: true}}, bson.D{{Key: "_id", Value: 2}})
	plan := mongotest.Explain(t, db, bson.D{{Key: "find", Value: "parents"}, {Key: "filter", Value: lists.OutliersFilter()}})
	plan.RequireIndex(t, "more_1")
	plan.RequireExamined(t, 1, 1)
	// Two overflow documents of one number would have no order.
	doc := bson.D{{Key: "p", Value: 1}, {Key: "k", Value: 0}}
	if _, err := db.Collection("extras").InsertMany(t.Context(), []any{doc, doc}); !mongo.IsDuplicateKeyError(err) {
		t.Error(err)
	}
	other, err := outlier.New[int, int](db.Collection("other"), db.Collection("other_extras"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("other_extras").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := other.EnsureIndexes(t.Context()); !errors.Is(err, outlier.ErrIndexConflict) {
		t.Error(err)
	}
}
