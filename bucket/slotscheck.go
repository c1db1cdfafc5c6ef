package bucket

import (
	"context"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Check yields documents whose start is no date or begins no window (BadStart), and
// whose end is not that of the window (WrongAggregate). Nothing else is derived.
//
// Cost: 1 round trip a batch; scans the collection by _id.
func (s *Slots[S, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	g := s.core
	return fault.Seq("bucket: check", maintain.Check(ctx, g.coll, work, g.scan(),
		func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, _ error) {
			for _, doc := range batch {
				_, _, problems := g.bounds(doc)
				all = append(all, problems...)
			}
			return all, nil
		}))
}

// Repair sets wrong ends. Remaining are the documents with a bad start.
//
// Cost: a Check, and 1 round trip for each batch with wrong ends, found by _id.
func (s *Slots[S, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: repair")
	return s.core.repair(ctx, work, s.core.scan(), func(doc bson.Raw) ([]mongopatterns.Problem, mongo.Pipeline) {
		_, _, problems := s.core.bounds(doc)
		return problems, nil
	})
}

func (g *grid) scan() maintain.Scan {
	projection := g.shardKey()
	if g.end != "" {
		projection = append(projection, bson.E{Key: g.end, Value: 1})
	}
	return maintain.Scan{Projection: projection}
}

// Adopt converts documents of slots whose start is stored as a string:
// "2021-07-05 00:00:00" becomes a date. nil for parse reads RFC 3339, that form and
// "2021-07-05", as UTC. work.Filter selects documents of the collection. If a window
// has a document with a date already, that one gets the slots that it lacks. What
// does not begin a window is Failed and named. It can be stopped and run again, also
// beside old code that writes strings. EnsureIndexes must have run: the unique index
// keeps a writer from making a window's document at the same moment.
//
// Cost: 1 round trip to read a batch of 100 and 4 to write it, in a transaction; 2
// writes for each document.
func (s *Slots[S, M]) Adopt(ctx context.Context, parse func(start string) (time.Time, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: adopt")
	g := s.core
	if parse == nil {
		parse = parseTime
	}
	scan := maintain.Scan{Filter: bson.D{{Key: g.start, Value: bson.D{{Key: "$type", Value: "string"}}}}, BatchSize: sweepBatch}
	return maintain.Run(ctx, g.coll, work, scan, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var olds []bson.Raw
		var places []place
		for _, doc := range docs {
			p, err := g.converted(doc, parse)
			if err != nil {
				result.Fail(g.coll.Name(), doc.Lookup("_id"), err)
				continue
			}
			olds, places = append(olds, doc), append(places, p)
		}
		result.Done += int64(len(olds))
		if w.DryRun || len(olds) == 0 {
			return nil
		}
		return txn.Run(ctx, g.coll.Database().Client(), func(ctx context.Context) error { return g.refile(ctx, olds, places) })
	})
}

func parseTime(s string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, err
}

// converted is the place of a document whose start is a string.
func (g *grid) converted(doc bson.Raw, parse func(string) (time.Time, error)) (place, error) {
	text := value.Lookup(doc, g.start).StringValue()
	t, err := parse(text)
	if err == nil {
		err = checkTime(t)
	}
	if err != nil {
		return place{}, fault.Invalid("%s is %q: %w", g.start, text, err)
	}
	p := g.placeOf(value.Lookup(doc, g.series), t)
	if !p.start.Equal(t) {
		return p, fault.Invalid("%s is %q, which begins no window", g.start, text)
	}
	return p, checkKey(p.series)
}

// refile brings documents to their places, within a transaction: it takes them out
// and sets their slots there. One that has its place for itself keeps its _id and
// its other fields.
func (g *grid) refile(ctx context.Context, olds []bson.Raw, places []place) error {
	var wanted bson.A
	for _, p := range places {
		wanted = append(wanted, g.within(p))
	}
	there, err := cursor.Collect(find(ctx, g.coll, bson.D{{Key: "$or", Value: wanted}}, options.Find().SetBatchSize(int32(len(wanted)+1))))
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, doc := range there {
		for _, slot := range g.flatten(doc) {
			has[placeKey(value.Lookup(doc, g.series), dateOf(value.Lookup(doc, g.start)))+slot.Key] = true
		}
	}
	var deletes, updates []mongo.WriteModel
	for i, doc := range olds {
		var lacks, others bson.D
		for _, slot := range g.flatten(doc) {
			if key := places[i].key + slot.Key; !has[key] {
				has[key] = true
				lacks = append(lacks, slot)
			}
		}
		elements, _ := doc.Elements()
		for _, e := range elements {
			if k := e.Key(); k != g.series && k != g.start && k != g.data && k != g.end {
				others = append(others, bson.E{Key: k, Value: e.Value()})
			}
		}
		if g.end != "" {
			others = append(others, bson.E{Key: g.end, Value: g.endOf(places[i].end)})
		}
		deletes = append(deletes, mongo.NewDeleteOneModel().SetFilter(g.itself(doc)))
		updates = append(updates, mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(g.within(places[i])).
			SetUpdate(bson.D{{Key: "$set", Value: lacks}, {Key: "$setOnInsert", Value: others}}))
	}
	done, err := g.coll.BulkWrite(ctx, append(deletes, updates...))
	if err == nil && done.DeletedCount != int64(len(olds)) {
		err = txn.Conflict("adopt")
	}
	return err
}
