// Package transfer has what all calls need that move documents between collections.
package transfer

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// WholeBatch is the default Work.BatchSize for whole documents.
const WholeBatch = 100

// Ready creates the collections that a transaction is going to write, unless this is a dry run. It refuses a Work that
// cannot be used, and these collections and the others if they have a default collation.
//
// Cost: 1 round trip for each database, and 1 for each collection that it creates.
func Ready(ctx context.Context, work *mongopatterns.Work, targets []*scoped.Collection, others ...*scoped.Collection) error {
	w, err := maintain.Completed(work, WholeBatch)
	if err != nil {
		return err
	}
	if w.DryRun {
		return collation.Refuse(ctx, slices.Concat(targets, others)...)
	}
	return collation.Create(ctx, targets, others...)
}

// ByID reads the documents that have the _ids of others; fields is a projection.
//
// Cost: 1 round trip, index _id; more if the _ids do not fit in one filter.
func ByID(ctx context.Context, coll *scoped.Collection, others []bson.Raw, fields any) (all []bson.Raw, err error) {
	for ids := range value.Chunks(IDs(others)) {
		docs, err := cursor.Collect(cursor.Find(ctx, coll, expr.D("_id", expr.Op("$in", ids)),
			options.Find().SetBatchSize(int32(len(ids)+1)).SetProjection(fields)))
		if err != nil {
			return nil, err
		}
		all = append(all, docs...)
	}
	return all, nil
}

// IDs returns the _ids of documents.
func IDs(docs []bson.Raw) []bson.RawValue {
	ids := make([]bson.RawValue, len(docs))
	for i, doc := range docs {
		ids[i] = doc.Lookup("_id")
	}
	return ids
}

// Exchange inserts documents into one collection and deletes count documents from the other, within a
// transaction. If fewer documents match the departures, another writer has changed some, and the transaction
// runs again.
//
// Cost: 2 round trips, 1 without arrivals.
func Exchange(ctx context.Context, from, to *scoped.Collection, arrivals, departures []mongo.WriteModel, count int64) error {
	if len(arrivals) > 0 {
		if _, err := fault.Many(to.BulkWrite(ctx, arrivals)); err != nil {
			return err
		}
	}
	done, err := fault.Many(from.BulkWrite(ctx, departures))
	if err == nil && done.DeletedCount != count {
		err = txn.Conflict("move documents")
	}
	return err
}
