package scan_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

func TestBatches(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("c", options.Collection().SetReadPreference(readpref.Secondary()).SetReadConcern(readconcern.Majority()))
	var docs []any
	for i := range 25 {
		docs = append(docs, bson.D{{Key: "_id", Value: (i * 7) % 25}, {Key: "even", Value: (i*7)%25%2 == 0}, {Key: "x", Value: 1}})
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	var got [][]bson.Raw
	cmds := mongotest.Record(t, db, func() {
		for batch, err := range scan.Batches(t.Context(), coll, bson.D{{Key: "even", Value: true}}, bson.D{{Key: "_id", Value: 1}}, 5) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, batch)
		}
	})
	if want := []string{"find", "getMore", "getMore"}; !slices.Equal(cmds.Names(), want) {
		t.Errorf("sent %v, want %v", cmds.Names(), want)
	}
	if mode := cmds[0].Body.Lookup("$readPreference", "mode"); !mode.IsZero() && mode.StringValue() != "primary" && mode.StringValue() != "primaryPreferred" {
		t.Errorf("reads with %v", mode)
	}
	if level, _ := cmds[0].Body.Lookup("readConcern", "level").StringValueOK(); level != "local" {
		t.Errorf("reads with concern %q", level)
	}
	var ids [][]int32
	for _, batch := range got {
		var line []int32
		for _, doc := range batch {
			line = append(line, doc.Lookup("_id").Int32())
			if elements, _ := doc.Elements(); len(elements) != 1 {
				t.Errorf("not projected: %v", doc)
			}
		}
		ids = append(ids, line)
	}
	if diff := cmp.Diff([][]int32{{0, 2, 4, 6, 8}, {10, 12, 14, 16, 18}, {20, 22, 24}}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestBatchesStop(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("c")
	for i := range 10 {
		if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}}); err != nil {
			t.Fatal(err)
		}
	}
	cmds := mongotest.Record(t, db, func() {
		for range scan.Batches(t.Context(), coll, nil, nil, 2) {
			break
		}
	})
	if want := []string{"find", "killCursors"}; !slices.Equal(cmds.Names(), want) {
		t.Errorf("after break sent %v, want %v", cmds.Names(), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches := 0
	var last error
	for _, err := range scan.Batches(ctx, coll, nil, nil, 2) {
		if last != nil {
			t.Error("goes on after an error")
		}
		batches++
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) || batches != 2 {
		t.Errorf("%d batches, then %v", batches, last)
	}
}

func TestDefaults(t *testing.T) {
	invalid := errors.New("invalid")
	size, progress := 0, (func(int64))(nil)
	if err := scan.Defaults(invalid, "RepairOptions", &size, 100, &progress); err != nil || size != 100 {
		t.Fatal(size, err)
	}
	progress(1)
	size = -1
	if err := scan.Defaults(invalid, "RepairOptions", &size, 100, &progress); !errors.Is(err, invalid) || err.Error() != "invalid: RepairOptions.BatchSize: negative" {
		t.Fatal(err)
	}
}
