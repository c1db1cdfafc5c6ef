// Package lease says when the right of a worker to a document ends. It ends by itself, so that another worker can go
// on after a crash, and by the clock of the server ($$NOW), because the clocks of two processes may differ by more than
// a lease lasts.
package lease

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// In returns an expression: the time that comes after d.
func In(d time.Duration) bson.D { return expr.Op("$add", "$$NOW", d.Milliseconds()) }

// Over returns an expression: the time in a field has come, or there is none, because null and missing sort before
// every time.
func Over(field string) bson.D { return expr.Op("$lte", expr.Field(field), "$$NOW") }

// Free is Over as a filter. An index on the field gives it bounds, except in the command count, which does not know
// $$NOW; CountDocuments is an aggregation.
func Free(field string) bson.D { return expr.Op("$expr", Over(field)) }
