package advise

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: in splitMost of the documents or more, fields that no projected read names take at least
// splitShare of the bytes and more than splitBytes; there are at least splitReads such
// reads, and at most one read in four needs the fields. Documents are counted, because one of 16 MB
// outweighs thousands of others.
const (
	splitMost  = 0.5
	splitShare = 0.7
	splitBytes = 1 << 10
	splitReads = 50
	splitNeed  = 0.25
)

func (l *looker) split(ctx context.Context, c *collection) error {
	const pattern = "split"
	if c.mean() <= splitBytes {
		return declined("a document takes 1 KiB or less on average")
	}
	if c.reads() == 0 {
		return untold{fmt.Sprintf("a document takes %s on average, but no read of it was seen", bytes(c.mean())), "queries: the profiler, -log, or advise.Commands in a test"}
	}
	cold, hot := c.cold()
	if hot < splitReads || len(cold) == 0 {
		return declined(fmt.Sprintf("%d of %d reads leave fields out", hot, c.reads()))
	}
	names := strings.Join(cold, ", ")
	need, writes := c.need(cold), c.writesTo(cold)
	switch {
	case float64(need) > splitNeed*float64(c.reads()):
		return declined(fmt.Sprintf("%d of %d reads need %s: each would take a look-up more", need, c.reads(), names))
	case writes > hot:
		return declined(fmt.Sprintf("%s are written more often (%d) than lists are read without them (%d)", names, writes, hot))
	}
	document := bson.D{}
	for _, name := range cold {
		document = append(document, bson.E{Key: name, Value: "$" + name})
	}
	size := d("$subtract", bson.A{d("$bsonSize", document), 5}) // 5 bytes are an empty document
	large := d("$and", bson.A{
		d("$gt", bson.A{size, splitBytes}),
		d("$gte", bson.A{size, d("$multiply", bson.A{splitShare, d("$bsonSize", "$$ROOT")})}),
	})
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: c.name},
		{Key: "pipeline", Value: bson.A{d("$group", bson.D{
			{Key: "_id", Value: nil}, {Key: "bytes", Value: d("$sum", size)}, {Key: "documents", Value: d("$sum", 1)}, {Key: "large", Value: d("$sum", d("$cond", bson.A{large, 1, 0}))},
		})}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "bytes")
	if err != nil {
		return err
	}
	heavy, documents := check.figure("large"), check.figure("documents")
	if documents == 0 || float64(heavy) < splitMost*float64(documents) {
		return declined(fmt.Sprintf("fields that lists leave out (%s) hold over 1 KiB and 70 %% of the bytes in %s of %s alone", names, group(heavy), many(documents, "document")))
	}
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Fields: cold,
		Summary: fmt.Sprintf("%s take %s of the bytes (%s, counted), over 1 KiB and 70 %% of them in %s of %s (counted), and %d of %d reads do without them. "+
			"In two collections these reads keep %s in the cache instead of %s.",
			names, share(check.Answer, c.size), bytes(check.Answer), group(heavy), many(documents, "document"), c.reads()-need, c.reads(),
			bytes(max(c.size-check.Answer, 0)), bytes(c.size)),
		Sure: "counted: bytes; of queries: those that were seen",
		Facts: []Fact{
			{"documents", documents, counted},
			{"documents in which these fields take over 1 KiB and 70 %", heavy, counted},
			{"bytes of these fields", check.Answer, counted},
			{"reads with a projection that leaves them out", hot, seen},
			{"reads that need them", need, seen},
			{"writes to them", writes, seen},
		},
		Saving: Interval{
			// Reads that need the fields bring them into the cache again.
			Low:  int64(float64(check.Answer) * (1 - float64(need)/float64(c.reads()))),
			High: check.Answer,
			Unit: "bytes", What: "that leave the documents which lists read",
			Before: c.size,
		},
		Code: l.splitCode(ctx, c, cold), try: trySplit(c, cold),
		Check: check,
		Against: []string{
			"If all of the collection fits in the server's cache, lists become no faster: a projection saves the transfer already.",
			"A read of both parts is a look-up more, and a new document two writes in a transaction.",
			"Queries that were not seen may need the fields.",
		},
	})
	return nil
}
