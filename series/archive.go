package series

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
)

// Archive moves the documents whose window ended at or before before into target, each
// batch in a transaction: every document is in exactly one of the two collections at
// any time. It can be stopped and run again. Late data may start the window anew and be
// archived later, besides what is there. work.Filter narrows it to some documents; a
// batch is 100 by default. On a sharded cluster create target beforehand.
//
// target is indexed and read by a second Series with the same options, without
// BatchField.
//
// Cost: 1 round trip, more for many documents, to find them (index {series, start} with a
// filter on the series, {start} if you have made it, else a scan of the collection); for
// each batch 5, commit included, and 2 writes per document.
func (s *Series[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: archive")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return s.core.Archive(ctx, before, target, work, frame.Insert)
}
