// Package lease says when the right of a worker to a document ends. It ends by itself, so that another worker can go
// on after a crash, and by the clock of the server ($$NOW), because the clocks of two processes may differ by more than
// a lease lasts.
package lease

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// In returns the expression for the time d from now.
func In(d time.Duration) bson.D { return expr.Op("$add", "$$NOW", d.Milliseconds()) }

// Over returns the expression that the time in a field has passed. It is also true for what is no date: somebody may
// have typed a timestamp or MaxKey, which sort after every date, and such a lease would never end.
func Over(field string) bson.D {
	return expr.Op("$or", passed(field), expr.Op("$ne", expr.Op("$type", expr.Field(field)), "date"))
}

// Free is Over as a filter.
func Free(field string) bson.D { return expr.Op("$expr", Over(field)) }

// Due is the filter for a date that has passed. An index on the field gives it bounds, except in the command count,
// which does not know $$NOW; CountDocuments is an aggregation.
func Due(field string) bson.D {
	return expr.D(field, expr.Op("$type", "date"), "$expr", passed(field))
}

func passed(field string) bson.D { return expr.Op("$lte", expr.Field(field), "$$NOW") }
