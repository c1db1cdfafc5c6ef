package cursor_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// ten are a collection of _id 0 to 9 and a find over it in batches of two.
func ten(t *testing.T) (*mongo.Database, func(context.Context) (*mongo.Cursor, error)) {
	t.Helper()
	db := mongotest.Database(t)
	var docs []any
	for i := range 10 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}})
	}
	if _, err := db.Collection("c").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return db, func(ctx context.Context) (*mongo.Cursor, error) {
		return db.Collection("c").Find(ctx, bson.D{}, options.Find().SetBatchSize(2).SetSort(bson.D{{Key: "_id", Value: 1}}))
	}
}

func TestDecode(t *testing.T) {
	_, open := ten(t)
	type doc struct {
		ID int `bson:"_id"`
	}
	got, err := cursor.Collect(cursor.Decode[doc](t.Context(), open))
	if err != nil || len(got) != 10 || got[9].ID != 9 {
		t.Errorf("%v, %v", got, err)
	}
	type wrong struct {
		ID []string `bson:"_id"`
	}
	n := 0
	for _, err := range cursor.Decode[wrong](t.Context(), open) {
		if n++; err == nil {
			t.Error("decoded a number into strings")
		}
	}
	if n != 1 {
		t.Errorf("%d values after an error", n)
	}
	failed := errors.New("failed")
	for _, err := range cursor.Each(t.Context(), func(context.Context) (*mongo.Cursor, error) { return nil, failed }) {
		if !errors.Is(err, failed) {
			t.Error(err)
		}
	}
}

func TestStopCloses(t *testing.T) {
	db, open := ten(t)
	cmds := mongotest.Record(t, db, func() {
		for range cursor.Docs(t.Context(), open) {
			break
		}
	})
	if want := []string{"find", "killCursors"}; !slices.Equal(cmds.Names(), want) {
		t.Errorf("after break sent %v, want %v", cmds.Names(), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmds = mongotest.Record(t, db, func() {
		docs := 0
		var last error
		for _, err := range cursor.Docs(ctx, open) {
			docs++
			last = err
			cancel()
		}
		if !errors.Is(last, context.Canceled) || docs != 3 {
			t.Errorf("%d documents, then %v", docs, last)
		}
	})
	if names := cmds.Names(); names[len(names)-1] != "killCursors" {
		t.Errorf("after cancel sent %v", names)
	}
	cmds = mongotest.Record(t, db, func() { _, _ = cursor.Collect(cursor.Docs(t.Context(), open)) })
	if slices.Contains(cmds.Names(), "killCursors") {
		t.Errorf("closed what the server had closed: %v", cmds.Names())
	}
}

func TestBatches(t *testing.T) {
	var docs []bson.Raw
	for _, size := range []int{10, 10, 10, 50, 10, 10} {
		doc, err := bson.Marshal(bson.D{{Key: "x", Value: bson.Binary{Data: make([]byte, size)}}})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	seq := func(err error) iter.Seq2[bson.Raw, error] {
		return func(yield func(bson.Raw, error) bool) {
			for _, d := range docs {
				if !yield(d, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
		}
	}
	for _, test := range []struct {
		size, bytes int
		want        []int
	}{{2, 1000, []int{2, 2, 2}}, {4, 1000, []int{4, 2}}, {100, 1000, []int{6}}, {100, 60, []int{2, 1, 1, 2}}} {
		var got []int
		for batch, err := range cursor.Batches(seq(nil), test.size, test.bytes) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, len(batch))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%d documents, %d bytes: %s", test.size, test.bytes, diff)
		}
	}
	failed := errors.New("failed")
	var last error
	for _, err := range cursor.Batches(seq(failed), 100, 1000) {
		last = err
	}
	if !errors.Is(last, failed) {
		t.Error(last)
	}
}
