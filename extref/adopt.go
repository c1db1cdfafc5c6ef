package extref

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// AdoptOptions bounds Adopt.
type AdoptOptions struct {
	// BatchSize is how many documents one transaction fills in. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// AdoptResult counts the documents of a call of Adopt.
type AdoptResult struct {
	Examined  int64 `json:"examined"`  // with references that may need it, or are perhaps malformed
	Adopted   int64 `json:"adopted"`   // filled in
	Skipped   int64 `json:"skipped"`   // references to sources that are ErrInvalid, left alone; Check names them, BadSource
	Dangling  int64 `json:"dangling"`  // references to sources that do not exist, left alone
	Malformed int64 `json:"malformed"` // with something else than copies at the target, left alone
}

// Adopt fills in the references of a target that have only an ID so far, and
// perhaps some of the fields: followed fields and the version as the source has
// them now, frozen fields where the copy has none. A reference with a version is
// adopted already; without versions by configuration all are looked at. The
// sources need nothing, as no version counts as 0.
//
// Each batch is a transaction that writes to its sources (a field that is taken
// off again), so that no change of them is missed. Adopt can be stopped and run
// again. What the server refuses to write (a unique index, a validator) ends it, with
// nothing of that batch written; run it again when that is mended.
//
// Cost: 1 round trip a batch to read the target in the order of _id, and 1 for
// its sources; where something is to be filled in 5 more, commit included, 1
// write for each document (and 1 for those that get frozen fields) and 2 for each
// source.
func (r *Ref[ID, S]) Adopt(ctx context.Context, target string, opts *AdoptOptions) (AdoptResult, error) {
	result, err := r.adopt(ctx, target, opts)
	if err != nil {
		return result, fmt.Errorf("extref: adopt: %w", err)
	}
	return result, nil
}

func (r *Ref[ID, S]) adopt(ctx context.Context, name string, opts *AdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, 100, &o.Progress); err != nil {
		return result, err
	}
	t, err := r.target(name)
	if err != nil {
		return result, err
	}
	for docs, err := range scan.Batches(ctx, t.Collection, t.orDoubtful(t.unadopted()...), t.projection(), o.BatchSize) {
		if err != nil {
			return result, err
		}
		if err := r.adoptBatch(ctx, t, docs, &result); err != nil {
			return result, err
		}
		result.Examined += int64(len(docs))
		o.Progress(result.Examined)
	}
	return result, nil
}

// unadopted are the conditions, besides the ID, on a copy that Adopt fills in.
func (t *target) unadopted() []bson.E {
	if t.Unversioned {
		return nil
	}
	return []bson.E{{Key: t.VersionField, Value: nil}}
}

// lacks reports whether Adopt has something to fill in, or without versions may
// have, from a source that is bad.
func (t *target) lacks(copied bson.Raw, s state) bool {
	if !t.Unversioned {
		have := rawvalue.Lookup(copied, t.VersionField)
		return have.Type == 0 || have.Type == bson.TypeNull
	}
	if s.bad != nil {
		return true
	}
	for _, f := range t.Fields {
		have, want := rawvalue.Lookup(copied, f.As), rawvalue.Lookup(s.doc, f.Path)
		if f.Policy == Follow && !sameValue(have, want) || f.Policy == Freeze && have.Type == 0 && want.Type != 0 {
			return true
		}
	}
	return false
}

func (r *Ref[ID, S]) adoptBatch(ctx context.Context, t *target, docs []bson.Raw, result *AdoptResult) error {
	asked := map[string]bson.RawValue{}
	for _, doc := range docs {
		if _, _, bad := t.malformed(doc); bad {
			result.Malformed++
		}
		for _, copied := range t.copies(doc) {
			if id, ok := t.refersTo(copied); ok {
				asked[rawvalue.Key(id)] = id
			}
		}
	}
	sources, err := r.sources(ctx, asked)
	if err != nil {
		return err
	}
	// The documents that lack something, by source.
	holders := map[string]bson.A{}
	used := map[string]bson.RawValue{}
	adopted := int64(0)
	for _, doc := range docs {
		id, counted := doc.Lookup("_id"), false
		noted := map[string]bool{}
		for _, copied := range t.copies(doc) {
			source, ok := t.refersTo(copied)
			key := rawvalue.Key(source)
			if !ok || noted[key] {
				continue
			}
			s, exists := sources[key]
			if !exists {
				noted[key] = true
				result.Dangling++
				continue
			}
			if !t.lacks(copied, s) {
				continue
			}
			noted[key] = true
			if s.bad != nil {
				result.Skipped++
				continue
			}
			holders[key] = append(holders[key], id)
			used[key] = s.doc.Lookup("_id")
			if !counted {
				adopted++
				counted = true
			}
		}
	}
	if len(used) == 0 {
		return nil
	}
	var ids bson.A
	for _, id := range used {
		ids = append(ids, id)
	}
	in := inIDs(ids)
	err = txn.Run(ctx, r.source.Database().Client(), func(ctx context.Context) error {
		if _, err := r.source.UpdateMany(ctx, in, touching()); err != nil {
			return err
		}
		now, err := r.sources(ctx, used)
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		for key, s := range now {
			if s.bad == nil {
				models = append(models, t.fill(s, holders[key])...)
			}
		}
		if len(models) > 0 {
			if _, err := t.Collection.BulkWrite(ctx, models); err != nil {
				return err
			}
		}
		_, err = r.source.UpdateMany(ctx, in, untouching())
		return err
	})
	if err == nil {
		result.Adopted += adopted
	}
	return err
}

// fill writes frozen fields where a copy has none, then the followed fields and
// the version, into the copies of s in these documents.
func (t *target) fill(s state, ids bson.A) []mongo.WriteModel {
	model := func(filter bson.D, update bson.D, conditions []bson.E) mongo.WriteModel {
		m := mongo.NewUpdateManyModel().SetFilter(append(inIDs(ids), filter...)).SetUpdate(update).SetHint(idOnly)
		if elements := t.elements(s.id, conditions...); elements != nil {
			m.SetArrayFilters(elements)
		}
		return m
	}
	var models []mongo.WriteModel
	for _, f := range t.freeze {
		value := rawvalue.Lookup(s.doc, f.Path)
		if value.Type == 0 {
			continue
		}
		conditions := append(t.unadopted(), bson.E{Key: f.As, Value: bson.D{{Key: "$exists", Value: false}}})
		models = append(models, model(t.where(s.id, conditions...),
			bson.D{{Key: "$set", Value: bson.D{{Key: t.slot(f.As), Value: value}}}}, conditions))
	}
	filter := t.where(s.id, t.unadopted()...)
	if t.Unversioned {
		filter = t.behind(s)
	}
	if update := t.write(s, t.follow); update != nil {
		models = append(models, model(filter, update, t.unadopted()))
	}
	return models
}
