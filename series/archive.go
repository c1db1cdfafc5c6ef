package series

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Archive moves the documents whose window ended at or before the time before into target. Each batch (by default 100
// documents) is a transaction, so every document is in exactly one of the two collections at any time. It can be
// stopped and run again. Late data may start a new document of an archived window, which a later Archive adds to the
// target. work.Filter selects documents. target is another collection of the same database; Archive creates it if it
// does not exist. A document with an empty timestamp in a top-level field, which the server would replace, stays and is
// Failed.
//
// A batch that is repeated after its window was archived is stored again, also with BatchField, and the next Archive
// moves it too. So choose a before behind every retry. Check of target with BatchField finds such batches.
//
// To index and read target, make a second Series with the same options but without BatchField.
//
// Cost: 2 round trips, and for each batch 5, commit included, and 2 writes for each document.
//   - 1 more to create target, and more for many documents, to find them.
//   - They are found by the index {series, start} with a filter on the series, by {start} if you have made it,
//     otherwise by a scan of the collection.
func (s *Series[ID, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.Archive")
	defer fault.In(&err, "series.Archive")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.frame.Archive(ctx, before, scoped.On(target), work, windows.Insert)
}
