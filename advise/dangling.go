package advise

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least brokenReads reads follow the references. The share that name a document is danglingShare or more, but
// below relationFound. Deletes of such documents were seen, which leave the references as they are.
const brokenReads = 50

// broken looks for references that deletes have left behind.
func (l *looker) broken(ctx context.Context, c *collection, j joins) error {
	const pattern = "relation"
	to, reads := l.all[j.from], max(j.calls, j.finds)
	if to == nil || to == c || j.key != "" || j.local == "" || strings.HasPrefix(j.local, "_id") || strings.Contains(j.local, ".") || reads < brokenReads || to.deletes == 0 {
		return nil
	}
	refs, err := l.references(ctx, c, j.local, j.from, danglingShare)
	if err != nil {
		return err
	}
	if !refs.enough || float64(refs.found) >= relationFound*float64(refs.named) {
		return nil
	}
	pipeline := bson.A{
		d("$match", d(j.local, d("$ne", nil))), d("$project", d("to", "$"+j.local)), d("$unwind", "$to"),
		d("$lookup", bson.D{{Key: "from", Value: j.from}, {Key: "localField", Value: "to"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "found"},
			{Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}}}),
		d("$match", d("found", bson.A{})), d("$count", "gone"),
	}
	check, err := l.check(ctx, bson.D{{Key: "aggregate", Value: c.name}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}}, "cursor", "firstBatch", "0", "gone")
	if err != nil {
		return err
	}
	code, call := l.relationCode(ctx, c, to, "", j.local), "DeleteChild"
	if !c.has(j.local, "array") {
		code, call = l.relationCode(ctx, to, c, j.local, ""), "DeleteParent"
	}
	l.found(Finding{
		Pattern: pattern, Collection: c.name, Path: j.local,
		Summary: fmt.Sprintf("%s (counted) of %s name no document of %s, %s of single ones there were seen, and %s follow the references. "+
			"The package deletes a document together with the references to it, and Repair removes those that dangle.",
			many(check.Answer, "reference"), group(refs.named), j.from, many(to.deletes, "delete"), many(reads, "read")),
		Sure: refs.how + ": references; of queries: those that were seen",
		Facts: []Fact{
			{"references", refs.named, refs.how},
			{"of them naming a document of " + j.from, refs.found, refs.how},
			{"reads that follow them", reads, seen},
			{"deletes in " + j.from, to.deletes, seen},
		},
		Saving: Interval{Low: check.Answer, High: check.Answer, Before: refs.named, Unit: "references", What: "that lead nowhere, which Repair removes"},
		Code:   code, takes: "Repair",
		Check: check,
		Against: []string{
			call + " finds the references by an index on them, and writes each document that has one.",
			"Programs that delete without the package leave references behind until the next Repair.",
			"Reads that pass over what is not found may be all that is needed.",
		},
	})
	return nil
}
