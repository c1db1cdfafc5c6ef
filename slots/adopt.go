package slots

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Adopt converts documents of slots whose start is stored as a string, such as "2021-07-05 00:00:00",
// into documents with a date. A nil parse reads RFC 3339, that form and "2021-07-05", as UTC. If the
// window already has a document with a date, that document gets the slots that it lacks and keeps its own
// value of slots that both have. A document whose start does not begin a window is Failed and named.
// Adopt can be stopped and run again, also while old code sets slots in documents with strings. A slot
// that is set during the conversion is either converted with its document, or goes to a new document with
// a string, which the next call converts. A document that was deleted meanwhile is Skipped. EnsureIndexes
// must have run, because otherwise a writer could create a second document of the window.
//
// Cost: 1 round trip to begin, and for each batch of 100 documents 4, commit included, and 2 writes for each
// document.
//   - The documents are found by a scan, 1 round trip for each 1000.
func (s *Slots[ID, M]) Adopt(ctx context.Context, parse func(start string) (time.Time, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.Adopt")
	defer fault.In(&err, "slots.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	g := s.core
	if err := maintain.Ready(ctx, work, g.frame.Coll); err != nil {
		return result, err
	}
	if parse == nil {
		parse = parseTime
	}
	text := expr.D("$type", "string", "$not", expr.AnArray) // also not a list of strings
	scan := maintain.Scan{Filter: expr.D(g.frame.StartField, text), Projection: g.frame.Keys(), Whole: true, BatchSize: transfer.WholeBatch}
	return maintain.Run(ctx, g.frame.Coll, work, scan, func(ctx context.Context, found []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		if w.DryRun {
			converted, err := g.convert(found, parse, w, result)
			result.Done += int64(len(converted))
			return err
		}
		var once mongopatterns.Result
		if err := maintain.Once(ctx, g.frame.Coll, func(ctx context.Context) (err error) {
			once, err = g.redate(ctx, found, parse, w)
			return err
		}); err != nil {
			return err
		}
		maintain.Add(result, once)
		return nil
	})
}

// redate converts documents in a transaction. It reads them again, because old code may have set slots in
// them since they were found.
//
// Cost: 3 round trips.
func (g *grid) redate(ctx context.Context, found []bson.Raw, parse func(string) (time.Time, error), w mongopatterns.Work) (result mongopatterns.Result, err error) {
	docs, err := transfer.ByID(ctx, g.frame.Coll, found, nil)
	if err != nil {
		return result, err
	}
	docs = slices.DeleteFunc(g.frame.Only(found, docs), func(doc bson.Raw) bool { return value.Lookup(doc, g.frame.StartField).Type != bson.TypeString })
	result.Skipped = int64(len(found) - len(docs))
	converted, err := g.convert(docs, parse, w, &result)
	if err != nil || len(converted) == 0 {
		return result, err
	}
	var deletes, updates []mongo.WriteModel
	for _, c := range converted {
		deletes = append(deletes, mongo.NewDeleteOneModel().SetFilter(g.frame.UnchangedFilter(c.doc)))
		updates = append(updates, g.bring(c.doc, c.to, false))
	}
	done, err := fault.Many(g.frame.Coll.BulkWrite(ctx, append(deletes, updates...)))
	result.Done = int64(len(converted))
	if err != nil {
		return result, err
	}
	if done.DeletedCount != int64(len(deletes)) {
		return result, txn.Conflict("adopt")
	}
	return result, nil
}

// A redated is a document whose start is a string, and its place.
type redated struct {
	doc bson.Raw
	to  windows.Place
}

// convert finds the places of documents, and counts the documents without one.
func (g *grid) convert(docs []bson.Raw, parse func(string) (time.Time, error), w mongopatterns.Work, result *mongopatterns.Result) (out []redated, _ error) {
	for _, doc := range docs {
		p, err := g.converted(doc, parse)
		if err == nil {
			err = g.checkNames(doc)
		}
		switch {
		case err == nil:
			out = append(out, redated{doc, p})
		case w.Strict:
			return nil, fault.Of(doc.Lookup("_id"), err)
		default:
			maintain.Fail(result, g.frame.Coll.Name(), doc.Lookup("_id"), err)
		}
	}
	return out, nil
}

func parseTime(s string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, err
}

// converted returns the place of a document whose start is a string.
func (g *grid) converted(doc bson.Raw, parse func(string) (time.Time, error)) (p windows.Place, err error) {
	text := value.Lookup(doc, g.frame.StartField).StringValue()
	refused := func(err error) (windows.Place, error) {
		return p, fault.Invalid("%s is %q: %w", g.frame.StartField, text, err)
	}
	t, err := parse(text)
	if err != nil {
		return refused(err)
	}
	p, err = g.frame.Place(value.Lookup(doc, g.frame.SeriesField), t)
	if err != nil {
		return refused(err)
	}
	if !t.Equal(time.UnixMilli(p.Start)) {
		return refused(errors.New("it is not the start of a window"))
	}
	return p, nil
}
