package extref

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt completes the references of a target that have only a key so far, and perhaps some fields.
// It overwrites the followed fields and the version with those of the source, and writes frozen fields
// where the copy has none. A source without a version gets 0. A reference with a version has been adopted
// already. In an Unversioned target all references are checked. Work.Filter selects documents of
// the target's collection. Adopt can be run again.
//
// Run Check before, because it names the copies that Adopt overwrites, see [NoVersion]. Where a copy has
// a value and the source has none, or null, that value may be the only one. In a target with versions
// Adopt leaves such a copy without a version, until you set the field of the source or unset that of the copy.
//
// Result.Done counts the incomplete documents whose batch was committed, including those that another
// writer completed meanwhile. Remaining counts, in the documents that Adopt reads, malformed references, copies
// that it leaves, and references to sources that are invalid or do not exist, whatever the policy. A document
// with another value at the path, such as a plain ID, is neither read nor counted; Check names it.
//
// Each batch is a transaction that writes to its sources (it sets and removes a field), so that no
// change of them is missed.
//
// Cost: 1 round trip, and for each batch (default 100) 1 to read the target in the order of _id, and 1 for its
// sources.
//   - Where something is to be filled in: 4 more, commit included, 1 write for each document, and 1 for those that
//     get frozen fields.
//   - The sources of these: 2 writes for each, 3 if it has no version.
func (r *Source[ID, T]) Adopt(ctx context.Context, target string, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "extref.Adopt")
	defer fault.In(&err, "extref.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	t, err := r.core.target(target)
	if err != nil {
		return result, err
	}
	if err := r.core.ready(ctx, work); err != nil {
		return result, err
	}
	some := expr.D("$exists", true, "$ne", nil)
	scan := maintain.Scan{
		Filter:     t.holding(append(expr.D(t.IDField, some), t.unadopted()...)),
		Projection: t.each(1), BatchSize: 100,
	}
	return maintain.Run(ctx, t.coll, work, scan,
		func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			return r.core.adopt(ctx, t, docs, w.DryRun, result)
		})
}

// unadopted is the conditions, besides the key, on a copy that Adopt completes.
func (t *target) unadopted() bson.D {
	if t.Unversioned {
		return nil
	}
	return expr.D(t.VersionField, nil)
}

// from is the conditions, besides the key, on a copy that Adopt completes from s: it has no value that s lacks.
func (t *target) from(s state) bson.D {
	out := t.unadopted()
	if t.Unversioned {
		return out
	}
	for _, f := range t.follow {
		if none(s.value(f)) {
			out = append(out, expr.Element(f.As, expr.D("$eq", nil, "$not", expr.AnArray)))
		}
	}
	return out
}

// adopt completes a batch: the copies that Check would report, as far as a source can correct them.
func (c *core) adopt(ctx context.Context, t *target, docs []bson.Raw, dry bool, result *mongopatterns.Result) error {
	sources, err := c.sources(ctx, c.o.KeyField, t.sources(docs))
	if err != nil {
		return err
	}
	keys, ids := map[string]bson.RawValue{}, map[string]bson.A{}
	for _, f := range t.problems(docs, sources, true) {
		if !f.left() {
			key := value.Key(f.key)
			keys[key], ids[key] = f.key, append(ids[key], f.ID)
		}
	}
	if len(keys) > 0 && !dry {
		var now map[string]state
		err = txn.Run(ctx, c.source, func(ctx context.Context) (err error) {
			now, err = c.fill(ctx, t, keys, ids)
			return err
		})
		maps.Copy(sources, now)
	}
	if err != nil {
		return err
	}
	lacking := map[string]bool{}
	for _, f := range t.problems(docs, sources, true) {
		if f.left() {
			result.Remaining++
		} else {
			lacking[value.Key(f.ID)] = true
		}
	}
	result.Done += int64(len(lacking))
	return nil
}

// fill holds the sources, gives a version to those without one, and reads them again. It writes
// frozen fields where a copy has none, then the followed fields and the version. It returns the
// sources.
func (c *core) fill(ctx context.Context, t *target, keys map[string]bson.RawValue, ids map[string]bson.A) (map[string]state, error) {
	these := in(c.o.KeyField, slices.Collect(maps.Values(keys)))
	var first []mongo.WriteModel
	if !t.Unversioned {
		none := append(slices.Clone(these), expr.Element(c.o.VersionField, expr.D("$eq", nil, "$not", expr.AnArray)))
		first = append(first, mongo.NewUpdateManyModel().SetFilter(none).SetUpdate(expr.Op("$set", expr.D(c.o.VersionField, int64(0)))))
	}
	if err := c.hold(ctx, these, first...); err != nil {
		return nil, err
	}
	now, err := c.sources(ctx, c.o.KeyField, keys)
	if err != nil {
		return nil, err
	}
	var models []mongo.WriteModel
	for key, s := range now {
		add := func(update bson.D, more ...bson.E) {
			if s.bad == "" && update != nil {
				models = append(models, t.model(s, update, in("_id", ids[key]), more...).SetHint(idOnly))
			}
		}
		for _, f := range t.Fields {
			if v := s.value(f); f.Frozen && v.Type != 0 {
				absent := expr.Element(f.As, expr.Op("$exists", false))
				add(expr.Op("$set", expr.D(t.slot(f.As), v)), append(t.from(s), absent)...)
			}
		}
		if t.Unversioned {
			add(t.write(s), t.than("$ne", s))
		} else {
			add(t.write(s), t.from(s)...)
		}
	}
	if len(models) == 0 {
		return now, nil
	}
	_, err = fault.Many(t.coll.BulkWrite(ctx, models))
	return now, err
}
