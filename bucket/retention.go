package bucket

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// documentBatch is the default BatchSize for whole documents.
const documentBatch = 100

// RetentionResult counts the documents that Archive or DeleteBefore took away.
type RetentionResult struct {
	Documents int64 `json:"documents"`
}

// Archive moves the documents whose window ended at or before before into
// target, each batch in a transaction of its own: every document is in exactly
// one of the two collections at any time, and in ctx's own transaction if it is
// in one. It can be stopped and run again. Late data may start the window anew
// and be archived later, besides what is there. On a sharded cluster create
// target beforehand. A transaction holds a batch of whole documents: take a
// smaller BatchSize where they are large, so that it stays at some megabytes.
//
// target is indexed and read by a second Buckets with the same options, without
// IDField, because an archive may hold an ID twice:
//
//	o := *opts
//	o.IDField = ""
//	archived, err := bucket.New[int, Reading](target, window, &o)
//	err = archived.EnsureIndexes(ctx)
//	_, err = buckets.Archive(ctx, time.Now().AddDate(-1, 0, 0), target, nil)
//	for reading, err := range archived.Range(ctx, 12345, from, to) { ... }
//
// Cost: 1 round trip and further ones for many documents to find them (index
// {start} with RetentionIndex, {series, start} with a Filter on the series, else
// a scan of the collection); for each batch of BatchSize 5 round trips, commit
// included, and 2 writes per document; 2 more for each document of a window that
// target holds already.
func (b *Buckets[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, opts *BatchOptions) (RetentionResult, error) {
	return b.archive(ctx, before, target, opts, b.renumber)
}

// DeleteBefore deletes the documents whose window ended at or before before. A
// TTL index on an end field does the same, at the server's pace.
//
// Cost: as Archive to find them; for each batch of BatchSize 1 round trip, 1
// write per document.
func (l *layout) DeleteBefore(ctx context.Context, before time.Time, opts *BatchOptions) (RetentionResult, error) {
	result, err := l.sweep(ctx, before, opts, func(ctx context.Context, found []bson.Raw) (int64, error) {
		models := make([]mongo.WriteModel, len(found))
		for i, doc := range found {
			models[i] = mongo.NewDeleteOneModel().SetFilter(l.itself(doc))
		}
		done, err := l.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if done == nil {
			return 0, err
		}
		return done.DeletedCount, err
	})
	if err != nil {
		return result, fmt.Errorf("bucket: delete before: %w", err)
	}
	return result, nil
}

// errMoved says that a document changed between its reading and its deletion in
// a transaction that does not isolate the two.
var errMoved = errors.New("a document changed while it was being archived")

// archive moves documents. collide stores the one whose _id target has already.
func (l *layout) archive(ctx context.Context, before time.Time, target *mongo.Collection, opts *BatchOptions,
	collide func(ctx context.Context, target *mongo.Collection, doc bson.Raw) error) (RetentionResult, error) {
	if target == nil || target.Name() == l.coll.Name() && target.Database().Name() == l.coll.Database().Name() {
		return RetentionResult{}, fmt.Errorf("bucket: archive: %w: target must be another collection", ErrInvalid)
	}
	client := l.coll.Database().Client()
	result, err := l.sweep(ctx, before, opts, func(ctx context.Context, found []bson.Raw) (int64, error) {
		var moved int64
		err := txn.Run(ctx, client, func(ctx context.Context) error {
			var err error
			moved, err = l.move(ctx, target, found, collide)
			return err
		})
		return moved, err
	})
	if err != nil {
		return result, fmt.Errorf("bucket: archive: %w", err)
	}
	return result, nil
}

// move copies documents to target and deletes them, within a transaction.
func (l *layout) move(ctx context.Context, target *mongo.Collection, found []bson.Raw,
	collide func(ctx context.Context, target *mongo.Collection, doc bson.Raw) error) (int64, error) {
	ids := make(bson.A, len(found))
	for i, doc := range found {
		ids[i] = doc.Lookup("_id")
	}
	byID := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	oneBatch := options.Find().SetBatchSize(cursorBatch(len(ids), 1))
	docs, err := all(ctx, l.coll, byID, oneBatch)
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	there, err := all(ctx, target, byID, oneBatch, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return 0, err
	}
	taken := map[string]bool{}
	for _, doc := range there {
		taken[rawvalue.Key(doc.Lookup("_id"))] = true
	}
	var inserts []any
	var colliding []bson.Raw
	deletes := make([]mongo.WriteModel, 0, len(docs))
	for _, doc := range docs {
		filter := l.itself(doc)
		if l.guard != "" {
			filter = append(filter, bson.E{Key: l.guard, Value: l.equal(rawvalue.Lookup(doc, l.guard))})
		}
		deletes = append(deletes, mongo.NewDeleteOneModel().SetFilter(filter))
		if !taken[rawvalue.Key(doc.Lookup("_id"))] {
			inserts = append(inserts, doc)
		} else {
			colliding = append(colliding, doc)
		}
	}
	if len(inserts) > 0 {
		if _, err := target.InsertMany(ctx, inserts); err != nil {
			return 0, err
		}
	}
	// Only now, when no number that they may get is to be inserted any more.
	for _, doc := range colliding {
		if err := collide(ctx, target, doc); err != nil {
			return 0, err
		}
	}
	done, err := l.coll.BulkWrite(ctx, deletes)
	if err != nil {
		return 0, err
	}
	if done.DeletedCount != int64(len(docs)) {
		return 0, errMoved
	}
	return done.DeletedCount, nil
}

func all(ctx context.Context, coll *mongo.Collection, filter bson.D, opts ...options.Lister[options.FindOptions]) ([]bson.Raw, error) {
	cursor, err := coll.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	var docs []bson.Raw
	return docs, cursor.All(ctx, &docs)
}

// cursorBatch is the batch size of a cursor over some steps of work of size
// documents each: few enough steps that the cursor does not expire in between,
// and one document more, so that what fits takes no further round trip.
func cursorBatch(size, steps int) int32 {
	return int32(min(int64(size)*int64(steps)+1, math.MaxInt32))
}

// renumber stores an archived bucket under the next free number of its window.
func (b *Buckets[S, M]) renumber(ctx context.Context, target *mongo.Collection, doc bson.Raw) error {
	p := place{series: rawvalue.Lookup(doc, b.series), start: dateOf(doc.Lookup(b.start))}
	if p.series.Type == 0 {
		p.series.Type = bson.TypeNull
	}
	newest, err := b.newest(ctx, target, p)
	if err != nil {
		return err
	}
	seq, _ := rawvalue.Lookup(newest, "_id."+seqKey).AsInt64OK()
	elements, err := doc.Elements()
	if err != nil {
		return err
	}
	out := bson.D{{Key: "_id", Value: b.id(p, seq+1)}}
	for _, element := range elements {
		if element.Key() != "_id" {
			out = append(out, bson.E{Key: element.Key(), Value: element.Value()})
		}
	}
	_, err = target.InsertOne(ctx, out)
	return err
}

// itself selects one document by _id and shard key.
func (l *layout) itself(doc bson.Raw) bson.D {
	return bson.D{
		{Key: "_id", Value: l.equal(doc.Lookup("_id"))},
		{Key: l.series, Value: l.equal(rawvalue.Lookup(doc, l.series))},
		{Key: l.start, Value: doc.Lookup(l.start)},
	}
}

// sweep finds the documents of windows that ended at or before before and gives
// them to step in batches, by _id, series and start.
func (l *layout) sweep(ctx context.Context, before time.Time, opts *BatchOptions,
	step func(ctx context.Context, found []bson.Raw) (int64, error)) (RetentionResult, error) {
	var result RetentionResult
	o, err := opts.withDefaults(documentBatch)
	if err == nil && before.IsZero() {
		err = fmt.Errorf("%w: before: no time", ErrInvalid)
	}
	if err != nil {
		return result, err
	}
	// A window that begins before the one that holds before has ended by then.
	cut, _ := l.window.Bounds(clamp(before))
	filter := bson.D{{Key: l.start, Value: bson.D{{Key: "$lt", Value: cut}}}}
	if len(o.Filter) > 0 {
		filter = bson.D{{Key: "$and", Value: bson.A{o.Filter, filter}}}
	}
	cursor, err := l.primary.Find(ctx, filter, options.Find().
		SetProjection(l.ShardKey()).SetBatchSize(cursorBatch(o.BatchSize, 10)))
	if err != nil {
		return result, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var found []bson.Raw
	flush := func() error {
		n, err := step(ctx, found)
		result.Documents += n
		if err == nil {
			o.Progress(result.Documents)
		}
		found = found[:0]
		return err
	}
	for cursor.Next(ctx) {
		found = append(found, append(bson.Raw(nil), cursor.Current...))
		if len(found) == o.BatchSize {
			if err := flush(); err != nil {
				return result, err
			}
		}
	}
	if err := cursor.Err(); err != nil {
		return result, err
	}
	if len(found) > 0 {
		if err := flush(); err != nil {
			return result, err
		}
	}
	return result, nil
}
