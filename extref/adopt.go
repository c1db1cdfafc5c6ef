package extref

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt fills in the references of a target that have only a key so far, and
// perhaps some of the fields: followed fields and the version as the source has
// them now, frozen fields where the copy has none. A reference with a version is
// adopted already; without versions by configuration all are looked at. The
// sources need nothing, as no version counts as 0. Result.Done documents were
// written; Remaining are references to sources that do not exist or are invalid,
// and malformed ones: Check names them. Work.Filter selects documents of the
// target's collection.
//
// Each batch is a transaction that writes to its sources (a field that is taken
// off again), so that no change of them is missed. Adopt can be stopped and run
// again.
//
// Cost: 1 round trip a batch (default 100) to read the target in the order of _id,
// and 1 for its sources; where something is to be filled in 4 more, commit
// included, 1 write for each document (and 1 for those that get frozen fields) and
// 2 for each source.
func (r *Ref[ID, S]) Adopt(ctx context.Context, target string, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "extref: adopt")
	t, err := r.core.target(target)
	if err != nil {
		return result, err
	}
	scan := maintain.Scan{Filter: t.referring(t.unadopted()...), Projection: t.projection(), BatchSize: 100}
	return maintain.Run(ctx, t.Collection, work, scan, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		return r.core.adopt(ctx, t, docs, w.DryRun, result)
	})
}

// unadopted are the conditions, besides the key, on a copy that Adopt fills in.
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
		return none(value.Lookup(copied, t.VersionField))
	}
	if s.bad != "" {
		return true
	}
	for _, f := range t.Fields {
		have, want := value.Lookup(copied, f.As), s.value(f)
		if f.Policy == Follow && !alike(have, want) || f.Policy == Freeze && have.Type == 0 && want.Type != 0 {
			return true
		}
	}
	return false
}

// holders are the documents to fill in, by the value.Key of their source.
type holders struct {
	ids  map[string]bson.A
	keys map[string]bson.RawValue // of the sources
	n    int64                    // documents
}

// lacking finds the documents that lack something, and counts what no Adopt can
// fill in.
func (t *target) lacking(docs []bson.Raw, sources map[string]state, result *mongopatterns.Result) holders {
	out := holders{map[string]bson.A{}, map[string]bson.RawValue{}, 0}
	for _, doc := range docs {
		if _, _, bad := t.malformed(doc); bad {
			result.Remaining++
		}
		noted, counted := map[string]bool{}, int64(0)
		for _, copied := range t.copies(doc) {
			source, ok := t.source(copied)
			key := value.Key(source)
			if _, _, bad := t.unsound(copied); !ok || bad || noted[key] {
				continue
			}
			s, exists := sources[key]
			if exists && !t.lacks(copied, s) {
				continue
			}
			noted[key] = true
			if !exists || s.bad != "" {
				result.Remaining++
				continue
			}
			out.ids[key] = append(out.ids[key], doc.Lookup("_id"))
			out.keys[key] = s.key
			counted = 1
		}
		out.n += counted
	}
	return out
}

func (c *core) adopt(ctx context.Context, t *target, docs []bson.Raw, dry bool, result *mongopatterns.Result) error {
	sources, err := c.sources(ctx, t.sourcesOf(docs))
	if err != nil {
		return err
	}
	hold := t.lacking(docs, sources, result)
	if len(hold.keys) > 0 && !dry {
		err = txn.Run(ctx, c.client(), func(ctx context.Context) error { return c.fill(ctx, t, hold) })
	}
	if err == nil {
		result.Done += hold.n
	}
	return err
}

// fill holds the sources, reads them again, and writes.
func (c *core) fill(ctx context.Context, t *target, hold holders) error {
	keys := bson.A{}
	for _, key := range hold.keys {
		keys = append(keys, key)
	}
	if err := c.hold(ctx, in(c.o.KeyField, keys)); err != nil {
		return err
	}
	now, err := c.sources(ctx, hold.keys)
	if err != nil {
		return err
	}
	var models []mongo.WriteModel
	for key, s := range now {
		if s.bad == "" {
			models = append(models, t.fill(s, hold.ids[key])...)
		}
	}
	if len(models) == 0 {
		return nil
	}
	_, err = t.Collection.BulkWrite(ctx, models)
	return err
}

// fill writes frozen fields where a copy has none, then the followed fields and
// the version, into the copies of s in these documents.
func (t *target) fill(s state, ids bson.A) []mongo.WriteModel {
	model := func(filter bson.D, update bson.D, conditions []bson.E) mongo.WriteModel {
		m := mongo.NewUpdateManyModel().SetFilter(append(in("_id", ids), filter...)).SetUpdate(update).SetHint(idOnly)
		if elements := t.elements(s.key, conditions...); elements != nil {
			m.SetArrayFilters(elements)
		}
		return m
	}
	var models []mongo.WriteModel
	for _, f := range t.freeze {
		if v := s.value(f); v.Type != 0 {
			conditions := append(t.unadopted(), bson.E{Key: f.As, Value: bson.D{{Key: "$exists", Value: false}}})
			models = append(models, model(t.proper(s.key, conditions...), bson.D{{Key: "$set", Value: bson.D{{Key: t.slot(f.As), Value: v}}}}, conditions))
		}
	}
	filter := t.proper(s.key, t.unadopted()...)
	if t.Unversioned {
		filter = t.behind(s)
	}
	if update := t.write(s, t.follow); update != nil {
		models = append(models, model(filter, update, t.unadopted()))
	}
	return models
}
