// Package hold writes to a document without changing it. A transaction that has read the document then conflicts with
// every other that writes to it; an update that leaves the document as it is causes no conflict.
package hold

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// Field is a field that a document has for a moment inside a transaction.
const Field = "__touch"

// Mark and Unmark are updates that set and remove it.
var (
	Mark   = expr.D("$set", expr.D(Field, true))
	Unmark = expr.D("$unset", expr.D(Field, ""))
)

// Writes are the two writes to the documents that match.
func Writes(filter bson.D) []mongo.WriteModel {
	return []mongo.WriteModel{
		mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(Mark),
		mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(Unmark),
	}
}

// Documents writes to the documents that match. If none does, it returns mongo.ErrNoDocuments.
//
// Cost: 1 round trip.
func Documents(ctx context.Context, coll *scoped.Collection, filter bson.D) error {
	result, err := fault.Many(coll.BulkWrite(ctx, Writes(filter)))
	if err == nil && result.MatchedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return err
}
