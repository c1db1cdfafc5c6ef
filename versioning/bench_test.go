package versioning_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// largePolicy has 400 items of about 100 bytes.
func largePolicy() bson.D {
	items := bson.A{}
	for i := range 400 {
		items = append(items, bson.D{{Key: "n", Value: i}, {Key: "name", Value: fmt.Sprintf("item %d of the treasure of Erebor", i)}, {Key: "value", Value: int64(i)}, {Key: "insured", Value: i%2 == 0}})
	}
	return bson.D{{Key: "_id", Value: "thorin"}, {Key: "items", Value: items}, {Key: "premium", Value: 0}}
}

// changed changes one item, and the premium.
func changed(doc bson.D, n int) bson.D {
	items := append(bson.A{}, doc[1].Value.(bson.A)...)
	item := append(bson.D{}, items[n%len(items)].(bson.D)...)
	item[2].Value = int64(1000 + n)
	items[n%len(items)] = item
	return bson.D{doc[0], {Key: "items", Value: items}, {Key: "premium", Value: n}}
}

func stored(b *testing.B, coll *mongo.Collection) (bytes float64) {
	b.Helper()
	for _, doc := range all(b, coll, bson.D{}) {
		bytes += float64(len(marshal(b, doc)))
	}
	return bytes
}

// BenchmarkStorage is 100 small changes of a large document: what the revisions
// take with deltas against whole ones, and how long saves and reads of them take.
func BenchmarkStorage(b *testing.B) {
	const revisions = 100
	type result struct{ bytes, save, at float64 }
	measure := func(every int) (out result) {
		db := mongotest.Database(b)
		d := helper[string, bson.D](b, db, &versioning.Options{SnapshotEvery: every})
		r := must[versioning.Revision[bson.D]](b)(d.Create(b.Context(), largePolicy(), nobody))
		start := time.Now()
		for n := range revisions {
			r.Document = changed(r.Document[:3], n+1)
			r = must[versioning.Revision[bson.D]](b)(d.Save(b.Context(), r, nobody))
		}
		out.save = float64(time.Since(start).Microseconds()) / revisions
		start = time.Now()
		for n := range revisions {
			must[versioning.Revision[bson.D]](b)(d.At(b.Context(), "thorin", int64(n+1)))
		}
		out.at = float64(time.Since(start).Microseconds()) / revisions
		out.bytes = stored(b, db.Collection("revisions"))
		return out
	}
	for b.Loop() {
		whole, delta := measure(1), measure(20)
		b.ReportMetric(delta.bytes/whole.bytes, "bytes-ratio")
		b.ReportMetric(delta.save/whole.save, "save-ratio")
		b.ReportMetric(delta.at/whole.at, "at-ratio")
		b.ReportMetric(whole.save, "whole-save-µs")
		b.ReportMetric(whole.at, "whole-at-µs")
	}
}

// BenchmarkGet is reading the current document among 50 revisions, against an array
// of revisions inside the document.
func BenchmarkGet(b *testing.B) {
	db := mongotest.Database(b)
	ctx := b.Context()
	const revisions = 50
	policy := largePolicy()
	policy[1].Value = policy[1].Value.(bson.A)[:20]
	d := helper[string, bson.D](b, db, nil)
	inside := db.Collection("inside")
	r := must[versioning.Revision[bson.D]](b)(d.Create(ctx, policy, nobody))
	history := bson.A{}
	for n := range revisions {
		doc := changed(policy, n+1)
		r.Document = doc
		r = must[versioning.Revision[bson.D]](b)(d.Save(ctx, r, nobody))
		history = append(history, bson.D{{Key: "revision", Value: n}, {Key: "document", Value: doc}})
	}
	if _, err := inside.InsertOne(ctx, append(policy, bson.E{Key: "revisions", Value: history})); err != nil {
		b.Fatal(err)
	}
	var with, embedded time.Duration
	for b.Loop() {
		start := time.Now()
		must[versioning.Revision[bson.D]](b)(d.Get(ctx, "thorin"))
		middle := time.Now()
		var doc bson.D
		if err := inside.FindOne(ctx, bson.D{{Key: "_id", Value: "thorin"}}).Decode(&doc); err != nil {
			b.Fatal(err)
		}
		with, embedded = with+middle.Sub(start), embedded+time.Since(middle)
	}
	b.ReportMetric(float64(with)/float64(embedded), "embedded-ratio")
}

// BenchmarkSaveMany is saving 100 documents in bulk, against one by one.
func BenchmarkSaveMany(b *testing.B) {
	db := mongotest.Database(b)
	ctx := b.Context()
	d := helper[string, counter](b, db, nil)
	var batch []revision
	for i := range 100 {
		batch = append(batch, get(b)(d.Create(ctx, counter{ID: fmt.Sprint(i)}, nobody)))
	}
	reread := func() {
		for i := range batch {
			batch[i] = get(b)(d.Get(ctx, fmt.Sprint(i)))
			batch[i].Document.N++
		}
	}
	var single, bulk time.Duration
	for b.Loop() {
		reread()
		start := time.Now()
		for _, r := range batch {
			get(b)(d.Save(ctx, r, nobody))
		}
		single += time.Since(start)
		reread()
		start = time.Now()
		if result := must[mongopatterns.Result](b)(d.SaveMany(ctx, each(batch...), nobody, nil)); result.Failed > 0 {
			b.Fatal(result)
		}
		bulk += time.Since(start)
	}
	b.ReportMetric(float64(bulk)/float64(single), "bulk-ratio")
}
