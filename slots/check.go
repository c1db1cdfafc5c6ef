package slots

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Check yields the problems of the documents that work selects. It checks their start and end, because no other
// field is derived.
//
// It yields these kinds of package mongopatterns:
//   - WrongField: an end that is not the window's. Repair sets it.
//   - Duplicate: a window with two documents, whose slots can contradict each other. Detail names the other
//     document. It is possible only before EnsureIndexes.
//   - Malformed: a start that is not a date or does not begin a window. Reads miss the document, or return
//     ErrMalformed. Adopt converts times that are stored as strings. Or a DataField that is not a document, or that
//     has another value under the key of an outer level, such as null or a string. Reads find no slots there, and
//     Set returns ErrMalformed or, for an array, stores what no read finds. A Malformed problem without an ID
//     names a SeriesField or DataField that no document has. Either its name is misspelt, or the data
//     does not exist yet. Check finds it only without Work.Filter.
//
// Cost: 4 round trips, and 1 for each batch; scans the collection by _id. Without the unique index the server also
// groups the documents by window.
func (s *Slots[ID, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "slots.Check")
	g := s.core
	return fault.Seq("slots.Check", maintain.Chain(
		g.frame.Problems(ctx, work, g.scan(), g.audit, g.data),
		g.frame.Shared(ctx, work, g.unique(), "", ""),
	))
}

// Repair sets wrong ends. Remaining counts the Malformed problems.
//
// Cost: that of Check, and 1 round trip for each batch with wrong ends, index _id.
func (s *Slots[ID, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.Repair")
	defer fault.In(&err, "slots.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.frame.Repair(ctx, work, s.core.scan(), s.core.audit)
}

func (g *grid) scan() maintain.Scan {
	fields := g.frame.Keys()
	if g.frame.EndField != "" {
		fields = append(fields, expr.Element(g.frame.EndField, 1))
	}
	return maintain.Scan{Projection: append(fields, expr.Element(unfitting, g.unfits(expr.Field(g.data), len(g.levels))))}
}

// unfitting is true in what Check reads of a document if some of its slots have no place.
const unfitting = "~unfitting"

// unfits is an expression that is true if v is there and not a document, or if it contains such a value above the slots.
func (g *grid) unfits(v string, levels int) any {
	if levels == 1 {
		return expr.Op("$not", bson.A{expr.IsType(v, "object", "missing")})
	}
	outer := expr.Op("$regexMatch", expr.D("input", "$$e.k", "regex", "^[0-9]+$")) // other keys are the user's
	inside := expr.Map(expr.Op("$objectToArray", v), "e", expr.Op("$and", outer, g.unfits("$$e.v", levels-1)))
	return expr.Cond(expr.IsType(v, "object"), expr.Op("$anyElementTrue", bson.A{inside}), expr.Op("$ne", expr.Op("$type", v), "missing"))
}

func (g *grid) audit(doc bson.Raw, report windows.Report) mongo.Pipeline {
	if bad, _ := value.Lookup(doc, unfitting).BooleanOK(); bad {
		report(mongopatterns.Malformed, g.data, bson.RawValue{}, bson.RawValue{}, "it, or a value in it above the slots, is not a document")
	}
	_, _, ends, _ := g.frame.Span(doc, report)
	return mongo.Pipeline{expr.Op("$set", ends)}
}
