package subset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Problems of a Split. There Orphan is a cold document without a hot one; Repair
// leaves it.
const (
	// MissingCold is a hot document without a cold one. Repair inserts one with
	// the ID alone, or with what it moves there.
	MissingCold ProblemKind = "no cold document"
	// Misplaced is a cold field in the hot document. Repair moves it; what the cold
	// document holds there is overwritten.
	Misplaced ProblemKind = "cold field in the hot document"
	// OnBothSides is a field in both documents that is not known as a cold one.
	// Repair leaves it.
	OnBothSides ProblemKind = "in both documents"
)

// Check reads both collections and yields what is wrong. A document that seems to
// be missing is looked for again, in a transaction.
//
// Cost: 2 round trips and further ones for many documents; a scan of both
// collections, and for each document 1 key and 1 document of the other; 3 round
// trips for each that is missing.
func (s *Split[ID, H, C]) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		fail := func(err error) { yield(Problem{}, fmt.Errorf("subset: check: %w", err)) }
		for f, err := range s.findings(ctx, nil) {
			if err != nil {
				fail(err)
				return
			}
			var problems []Problem
			if f.alone {
				hot, cold, err := s.exist(ctx, f.id)
				if err != nil {
					fail(err)
					return
				}
				if hot && !cold {
					problems = append(problems, Problem{Kind: MissingCold, ID: f.id, Field: s.idField})
				}
			}
			for _, field := range f.misplaced {
				problems = append(problems, Problem{Kind: Misplaced, ID: f.id, Field: field})
			}
			for _, field := range f.both {
				problems = append(problems, Problem{Kind: OnBothSides, ID: f.id, Field: field})
			}
			for _, p := range problems {
				if !yield(p, nil) {
					return
				}
			}
		}
		for id, err := range s.orphans(ctx) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(Problem{Kind: Orphan, ID: id, Field: s.idField}, nil) {
				return
			}
		}
	}
}

// Repair moves cold fields that stand in hot documents and gives hot documents
// without a cold one such a document, a batch in a transaction, beside live
// writes. It can be stopped and run again. Documents that the server refuses do not
// hold up the others; the error names the first ten at the end.
//
// Cost: the scans of Check, 3 round trips for each Orphan, and 6 for each batch of
// BatchSize documents that are wrong, 7 if only some have a cold one, 2 writes to
// the hot document and 1 to the cold one.
func (s *Split[ID, H, C]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	var done divided
	err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, scanBatchSize, &o.Progress)
	if err == nil {
		done, err = s.divideAll(ctx, nil, o.BatchSize, o.Progress)
		result = RepairResult{Examined: done.examined, Repaired: done.written, Remaining: done.left + done.refused}
	}
	if err == nil {
		for _, err = range s.orphans(ctx) {
			if err != nil {
				break
			}
			result.Remaining++
		}
	}
	if err == nil {
		err = done.errs
	}
	if err != nil {
		return result, fmt.Errorf("subset: repair: %w", err)
	}
	return result, nil
}

// SplitAdoptOptions bounds Adopt and Join of a Split.
type SplitAdoptOptions struct {
	// Filter narrows the documents: the hot ones in Adopt, the cold ones in Join.
	// Default nil: all.
	Filter bson.D
	// BatchSize is how many documents one transaction moves. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// Adopt splits an existing collection, which becomes the hot one: the cold fields
// of its documents move to the cold collection, a batch in a transaction, beside
// live writes. Every document gets a cold one. Until Adopt has reached a document,
// Get and JoinPipeline read its cold fields where they are, Update moves them
// first, and GetCold is ErrNotFound. It can be stopped and run again, also to fetch
// what old programs have written to the hot collection since: that overwrites the
// cold document's fields. A document that the server refuses is skipped, and
// the others of its batch are split one by one, and then the rest; the error comes
// at the end, with the whole result, and names the first ten.
//
// Cost: 1 round trip and further ones for many documents, a scan of the collection
// and 1 key of the cold one for each; 6 for each batch of BatchSize documents to
// split, 7 if only some have a cold one, 2 writes to the hot document and 1 to the
// cold one.
func (s *Split[ID, H, C]) Adopt(ctx context.Context, opts *SplitAdoptOptions) (AdoptResult, error) {
	o, err := s.adoptDefaults(opts)
	var done divided
	if err == nil {
		done, err = s.divideAll(ctx, o.Filter, o.BatchSize, o.Progress)
	}
	if err == nil {
		err = done.errs
	}
	result := AdoptResult{Examined: done.examined, Adopted: done.written, Moved: done.moved, Skipped: done.refused}
	if err != nil {
		return result, fmt.Errorf("subset: adopt: %w", err)
	}
	return result, nil
}

func (s *Split[ID, H, C]) adoptDefaults(opts *SplitAdoptOptions) (SplitAdoptOptions, error) {
	var o SplitAdoptOptions
	if opts != nil {
		o = *opts
	}
	if len(s.fields) == 0 {
		return o, errors.New("SplitOptions.ColdFields: not set, and C is no struct with fields")
	}
	return o, scan.Defaults(ErrInvalid, "SplitAdoptOptions", &o.BatchSize, scanBatchSize, &o.Progress)
}

// A finding is a hot document and what is wrong with it.
type finding struct {
	id        bson.RawValue
	alone     bool     // without a cold document
	misplaced []string // cold fields in it
	both      []string // other fields that the cold document has too
}

// findings reads all hot documents that a filter selects.
func (s *Split[ID, H, C]) findings(ctx context.Context, filter bson.D) iter.Seq2[finding, error] {
	return func(yield func(finding, error) bool) {
		if filter == nil {
			filter = bson.D{}
		}
		names := bson.D{{Key: "$map", Value: bson.D{{Key: "input", Value: op("$objectToArray", "$$ROOT")}, {Key: "in", Value: "$$this.k"}}}}
		cursor, err := scan.Primary(s.hot).Aggregate(ctx, mongo.Pipeline{
			{{Key: "$match", Value: filter}},
			{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
			{{Key: "$project", Value: bson.D{{Key: "names", Value: names}}}},
			s.lookup("_id", "cold", bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: "names", Value: names}}}}),
		}, options.Aggregate().SetBatchSize(defaultBatchSize))
		if err != nil {
			yield(finding{}, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			var doc struct {
				ID    bson.RawValue `bson:"_id"`
				Names []string      `bson:"names"`
				Cold  []struct {
					Names []string `bson:"names"`
				} `bson:"cold"`
			}
			if err := cursor.Decode(&doc); err != nil {
				yield(finding{}, err)
				return
			}
			f := finding{id: bson.RawValue{Type: doc.ID.Type, Value: slices.Clone(doc.ID.Value)}, alone: len(doc.Cold) == 0}
			for _, name := range doc.Names {
				switch {
				case slices.Contains(s.fields, name):
					f.misplaced = append(f.misplaced, name)
				case !f.alone && !s.isID(name) && slices.Contains(doc.Cold[0].Names, name):
					f.both = append(f.both, name)
				}
			}
			if !yield(f, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(finding{}, err)
		}
	}
}

// orphans yields the IDs of cold documents that have no hot one.
func (s *Split[ID, H, C]) orphans(ctx context.Context) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		cursor, err := scan.Primary(s.cold).Aggregate(ctx, mongo.Pipeline{
			{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: "id", Value: "$" + s.idField}}}},
			{{Key: "$lookup", Value: bson.D{
				{Key: "from", Value: s.hot.Name()}, {Key: "localField", Value: "id"}, {Key: "foreignField", Value: "_id"},
				{Key: "pipeline", Value: bson.A{bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}}}}, {Key: "as", Value: "hot"},
			}}},
			{{Key: "$match", Value: bson.D{{Key: "hot", Value: bson.A{}}}}},
		})
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			id := append(bson.Raw(nil), cursor.Current...).Lookup("id")
			hot, cold, err := s.exist(ctx, id)
			if err != nil {
				yield(id, err)
				return
			}
			if cold && !hot && !yield(id, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(bson.RawValue{}, err)
		}
	}
}

// exist looks for both documents of an ID in one snapshot.
func (s *Split[ID, H, C]) exist(ctx context.Context, id bson.RawValue) (hot, cold bool, err error) {
	err = txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
		found := func(coll *mongo.Collection, filter bson.D) (bool, error) {
			err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
			if errors.Is(err, mongo.ErrNoDocuments) {
				return false, nil
			}
			return err == nil, err
		}
		var err error
		if hot, err = found(s.hot, byID(id)); err != nil {
			return err
		}
		cold, err = found(s.cold, s.coldOf(id))
		return err
	})
	return hot, cold, err
}

// divided counts the work of divideAll.
type divided struct {
	examined, written, moved, left int64
	refusals
}

// divideAll divides the hot documents that have no cold one or cold fields in
// them.
func (s *Split[ID, H, C]) divideAll(ctx context.Context, filter bson.D, batch int, progress func(int64)) (divided, error) {
	var total divided
	var ids bson.A
	flush := func() error {
		if len(ids) > 0 {
			err := total.apart(ctx, ids, func(ids bson.A) error {
				written, moved, err := s.divide(ctx, ids)
				if err == nil {
					total.written += written
					total.moved += moved
				}
				return err
			})
			if err != nil {
				return err
			}
			ids = nil
		}
		progress(total.examined)
		return nil
	}
	for f, err := range s.findings(ctx, filter) {
		if err != nil {
			return total, err
		}
		total.examined++
		total.left += int64(len(f.both))
		if f.alone || len(f.misplaced) > 0 {
			ids = append(ids, f.id)
		}
		if len(ids) == batch || total.examined%(int64(batch)*10) == 0 {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// divide moves the cold fields of hot documents in a transaction, which begins
// with a write to all of them.
func (s *Split[ID, H, C]) divide(ctx context.Context, ids bson.A) (written, moved int64, err error) {
	size := int32(len(ids) + 1)
	these := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	err = txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
		written, moved = 0, 0
		touched, err := s.hot.UpdateMany(ctx, these, bson.D{{Key: "$set", Value: bson.D{{Key: fieldTouch, Value: true}}}})
		if err != nil || touched.MatchedCount == 0 {
			return err
		}
		cursor, err := s.hot.Find(ctx, these, options.Find().SetProjection(included(s.fields)).SetBatchSize(size))
		if err != nil {
			return err
		}
		var hot, cold []bson.Raw
		if err := cursor.All(ctx, &hot); err != nil {
			return err
		}
		if cursor, err = s.cold.Find(ctx, bson.D{{Key: s.idField, Value: bson.D{{Key: "$in", Value: ids}}}},
			options.Find().SetProjection(bson.D{{Key: s.idField, Value: 1}}).SetBatchSize(size)); err != nil {
			return err
		}
		if err := cursor.All(ctx, &cold); err != nil {
			return err
		}
		there := map[string]bool{}
		for _, doc := range cold {
			there[key(doc.Lookup(s.idField))] = true
		}
		var models []mongo.WriteModel
		for _, doc := range hot {
			id, fields := doc.Lookup("_id"), bson.D{}
			elements, err := doc.Elements()
			if err != nil {
				return err
			}
			for _, e := range elements {
				if e.Key() != "_id" {
					fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
				}
			}
			written++
			moved += int64(len(fields))
			switch {
			case !there[key(id)]:
				models = append(models, mongo.NewInsertOneModel().SetDocument(append(bson.D{{Key: s.idField, Value: id}}, fields...)))
			case len(fields) > 0:
				models = append(models, mongo.NewUpdateOneModel().SetFilter(s.coldOf(id)).
					SetUpdate(mongo.Pipeline{{{Key: "$replaceWith", Value: op("$mergeObjects", "$$ROOT", literal(fields))}}}))
			}
		}
		if len(models) > 0 {
			// Unordered, so that they go in two commands at most, by their kind.
			if _, err := s.cold.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)); err != nil {
				return err
			}
		}
		unset := bson.D{{Key: fieldTouch, Value: ""}}
		for _, field := range s.fields {
			unset = append(unset, bson.E{Key: field, Value: ""})
		}
		_, err = s.hot.UpdateMany(ctx, these, bson.D{{Key: "$unset", Value: unset}})
		return err
	})
	return written, moved, err
}

// Join undoes Adopt: it puts the fields of the cold documents back into the hot
// ones and deletes the cold ones, a batch in a transaction. An Update of the cold
// side divides a document again: stop such programs first. Where both have a
// field, the hot one counts. Cold documents without a hot one stay. It can be
// stopped and run again. A document that the server refuses (too large, say) is
// skipped as in Adopt. The result counts as Adopted the documents joined.
//
// Cost: 1 round trip a batch to read the cold documents' IDs, and 7 for each batch
// of BatchSize documents, 2 writes to the hot document and 2 to the cold one.
func (s *Split[ID, H, C]) Join(ctx context.Context, opts *SplitAdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o SplitAdoptOptions
	if opts != nil {
		o = *opts
	}
	var skipped refusals
	err := scan.Defaults(ErrInvalid, "SplitAdoptOptions", &o.BatchSize, scanBatchSize, &o.Progress)
	if err == nil {
		for batch, e := range scan.Batches(ctx, s.cold, o.Filter, bson.D{{Key: s.idField, Value: 1}}, o.BatchSize) {
			if err = e; err != nil {
				break
			}
			ids := bson.A{}
			for _, doc := range batch {
				if id := doc.Lookup(s.idField); !id.IsZero() {
					ids = append(ids, id)
				}
			}
			err = skipped.apart(ctx, ids, func(ids bson.A) error {
				joined, moved, err := s.unite(ctx, ids)
				if err == nil {
					result.Adopted += joined
					result.Moved += moved
				}
				return err
			})
			if err != nil {
				break
			}
			result.Examined += int64(len(batch))
			o.Progress(result.Examined)
		}
		result.Skipped = skipped.refused
	}
	if err == nil {
		err = skipped.errs
	}
	if err != nil {
		return result, fmt.Errorf("subset: join: %w", err)
	}
	return result, nil
}

// unite moves cold documents into their hot ones in a transaction, which begins
// with a write to all of both.
func (s *Split[ID, H, C]) unite(ctx context.Context, ids bson.A) (joined, moved int64, err error) {
	size := int32(len(ids) + 1)
	mark := bson.D{{Key: "$set", Value: bson.D{{Key: fieldTouch, Value: true}}}}
	these := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	err = txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
		joined, moved = 0, 0
		if _, err := s.hot.UpdateMany(ctx, these, mark); err != nil {
			return err
		}
		cursor, err := s.hot.Find(ctx, these, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(size))
		if err != nil {
			return err
		}
		var hot, cold []bson.Raw
		if err := cursor.All(ctx, &hot); err != nil {
			return err
		}
		found := bson.A{}
		for _, doc := range hot {
			found = append(found, doc.Lookup("_id"))
		}
		if len(found) == 0 {
			return nil
		}
		counterparts := bson.D{{Key: s.idField, Value: bson.D{{Key: "$in", Value: found}}}}
		if _, err := s.cold.UpdateMany(ctx, counterparts, mark); err != nil { // what is read now is what is deleted
			return err
		}
		if cursor, err = s.cold.Find(ctx, counterparts, options.Find().SetBatchSize(size)); err != nil {
			return err
		}
		if err := cursor.All(ctx, &cold); err != nil {
			return err
		}
		parts := map[string]bson.Raw{}
		for _, doc := range cold {
			parts[key(doc.Lookup(s.idField))] = doc
		}
		var models []mongo.WriteModel
		for _, id := range found {
			id := id.(bson.RawValue)
			fields, part := bson.D{}, parts[key(id)]
			elements, _ := part.Elements()
			for _, e := range elements {
				if !s.isID(e.Key()) && e.Key() != fieldTouch {
					fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
				}
			}
			if part != nil {
				joined++
			}
			moved += int64(len(fields))
			models = append(models, mongo.NewUpdateOneModel().SetFilter(byID(id)).SetUpdate(mongo.Pipeline{
				{{Key: "$replaceWith", Value: op("$mergeObjects", "$$ROOT", literal(fields), "$$ROOT")}},
				{{Key: "$unset", Value: fieldTouch}},
			}))
		}
		if _, err := s.hot.BulkWrite(ctx, models); err != nil {
			return err
		}
		_, err = s.cold.DeleteMany(ctx, counterparts)
		return err
	})
	return joined, moved, err
}
