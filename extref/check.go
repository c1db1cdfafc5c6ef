package extref

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// Behind: a copy has an older version than the source. Repair propagates.
	Behind mongopatterns.ProblemKind = "behind"
	// Ahead: a copy has a newer version than the source, because the source was replaced without a
	// version or inserted again. Repair raises the source's version above the copy's and
	// propagates.
	Ahead mongopatterns.ProblemKind = "ahead"
	// NoVersion: a copy's version is not a whole number, or cannot be raised. Repair leaves it
	// alone; Adopt sets a missing or null one. If the version is missing or null and a followed field has
	// another value than the source, then Field, Have and Want are those of that field. Adopt overwrites
	// Have with Want, but leaves the copy if Want is missing or null.
	NoVersion mongopatterns.ProblemKind = "no version"
)

// unsolvable are the problems that no state of a source can solve.
var unsolvable = map[mongopatterns.ProblemKind]bool{mongopatterns.Dangling: true, mongopatterns.Malformed: true}

// A finding is a problem, the key of its source, and the version that the source needs, if the copy
// has another state and not a lower version.
type finding struct {
	mongopatterns.Problem
	key   bson.RawValue
	above int64
}

// Check compares the copies in all targets with their sources. For each document it yields at most
// one problem for each source, and one if the document is Malformed. A change that is not
// propagated yet is a problem of the kind Behind. Work.Filter selects sources, so {_id: 123} checks
// only the copies of that source. Check finds dangling and malformed references only without a
// filter. It reads one target after the other, so it may miss a document that moves between two meanwhile.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Different: a copy has another value than the source in a followed field, although it has the source's
//     version or is Unversioned. Repair raises the version and propagates.
//   - Dangling: a reference to a source that does not exist, if the policy is not Keep.
//   - Malformed: the value at the target's path has another shape than configured, such as an array or a
//     single document, an ID instead of the copy, or fields of a copy without the ID. Field and Have are the
//     first such value. It does not count as a copy, and nothing writes to it. Malformed is also a copy whose
//     source has an invalid version, or an array on the way to a copied field. Then Field and Have are the
//     source's, and Detail names the copy. A Malformed problem without an ID names a path of the copy that no
//     document of the target has, or a copied field that no source has. Either its name is misspelt, or there
//     are no such documents yet.
//
// Cost: a scan of each target in the order of _id, and for each batch 1 round trip for the sources, by their keys.
//   - 1 round trip to begin, and 1 for each target and each copied field, to see that they exist.
//   - A batch that has problems: 1 more, and if the target is Unversioned 1 for the sources of these.
//   - With a filter: 1 for each batch of sources, and the copies of these by the indexes of the targets.
func (r *Source[ID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "extref.Check")
	found := func(yield func(mongopatterns.Problem, error) bool) {
		ctx, end := txn.Causal(ctx, r.core.source)
		defer end()
		for batch, err := range r.core.examine(ctx, work) {
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			for _, f := range batch.found {
				if !yield(f.Problem, nil) {
					return
				}
			}
		}
		r.core.absent(ctx, work)(yield)
	}
	return fault.Seq("extref.Check", collation.Seq(ctx, found, r.core.collections()...))
}

// absent yields the paths of copies that no document of a target has, and the copied fields that no
// source has.
func (c *core) absent(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	var all []iter.Seq2[mongopatterns.Problem, error]
	var copied []string
	for _, t := range c.targets {
		all = append(all, maintain.Absent(ctx, t.coll, work, "extref", cmp.Or(t.Path, t.IDField)))
		for _, f := range t.Fields {
			copied = append(copied, f.Path)
		}
	}
	slices.Sort(copied)
	return maintain.Chain(append(all, maintain.Absent(ctx, c.source, work, "extref", slices.Compact(copied)...))...)
}

// Repair propagates the sources of copies that Check finds wrong, during live writes. It can be
// stopped and run again. Result.Done counts the documents written. Remaining counts the problems
// that it leaves, which are NoVersion, Dangling and Malformed. Documents that the server refuses to
// write are Failed and named. Work.Filter selects sources, as in Check.
//
// Cost: that of Check, and a Propagate for each source with wrong copies.
//   - The first round trip of that Propagate writes to the source if some copies are Ahead or Different.
func (r *Source[ID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "extref.Repair")
	defer fault.In(&err, "extref.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := r.core.ready(ctx, work); err != nil {
		return result, err
	}
	return r.core.repair(ctx, work)
}

func (c *core) repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	w, err := maintain.Completed(work, 0)
	if err != nil {
		return result, err
	}
	ctx, end := txn.Causal(ctx, c.source)
	defer end()
	ctx, judge := scoped.Judged(ctx)
	defer func() { err = judge(err) }() // the version of a source may be raised, even if no copy is written
	for batch, err := range c.examine(ctx, &w) {
		if err != nil {
			return result, err
		}
		result.Examined += int64(len(batch.docs))
		wrong := map[string]finding{} // the sources to propagate
		for _, f := range batch.found {
			if f.Kind == NoVersion || unsolvable[f.Kind] {
				result.Remaining++
			} else if w.DryRun {
				result.Done++
			} else {
				id := value.Key(f.key)
				f.above = max(f.above, wrong[id].above)
				wrong[id] = f
			}
		}
		for _, f := range wrong {
			done, err := c.propagateOne(ctx, f.key, inner(w), c.lifted(f.above))
			done.Examined, done.Remaining = 0, 0 // counted by the loop above
			maintain.Add(&result, done)
			if err != nil {
				return result, err
			}
		}
		w.Progress(result)
	}
	return result, nil
}

// A batch is documents of a target, and the problems in them.
type batch struct {
	docs  []bson.Raw
	found []finding
}

// examine yields the batches of all targets, for the sources that work selects.
func (c *core) examine(ctx context.Context, work *mongopatterns.Work) iter.Seq2[batch, error] {
	w, err := maintain.Completed(work, 0)
	if err != nil {
		return fault.Stop[batch](err)
	}
	return func(yield func(batch, error) bool) {
		ctx, end := txn.Causal(ctx, c.source)
		defer end()
		selected := maintain.Batches(ctx, c.source, w, maintain.Scan{Projection: c.shown})
		if w.Filter == nil { // all sources that the documents name
			selected = func(yield func([]bson.Raw, error) bool) { yield(nil, nil) }
		}
		for sources, err := range selected {
			if err != nil {
				yield(batch{}, err)
				return
			}
			var only map[string]bson.RawValue
			if w.Filter != nil {
				only = map[string]bson.RawValue{}
			}
			for _, doc := range sources {
				if key := value.Lookup(doc, c.o.KeyField); value.CheckID(key) == nil {
					only[value.Key(key)] = key
				}
			}
			if w.Filter != nil && len(only) == 0 {
				continue // these sources have no natural key, so nothing refers to them
			}
			for _, t := range c.targets {
				scan := maintain.Scan{Filter: t.of(only), Projection: t.each(1)}
				for docs, err := range maintain.Batches(ctx, t.coll, *inner(w), scan) {
					var found []finding
					if err == nil {
						found, err = c.inspect(ctx, t, docs, only)
					}
					if !yield(batch{docs, found}, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// of selects the documents that refer to these sources; with nil, all that may hold a copy.
func (t *target) of(sources map[string]bson.RawValue) bson.D {
	if sources != nil {
		return in(t.path(t.IDField), slices.Collect(maps.Values(sources)))
	}
	return expr.D(cmp.Or(t.Path, t.IDField), expr.Op("$exists", true))
}

// inspect compares documents with their sources, or with some of these. It reads the sources after
// the documents, so a copy ahead of its source really is ahead. Other problems may have been solved
// between the two reads, so their documents are read again.
func (c *core) inspect(ctx context.Context, t *target, docs []bson.Raw, only map[string]bson.RawValue) ([]finding, error) {
	if only == nil {
		only = t.sources(docs)
	}
	sources, err := c.sources(ctx, c.o.KeyField, only)
	if err != nil {
		return nil, err
	}
	var found []finding
	var again bson.A
	for _, f := range t.problems(docs, sources, false) {
		if f.Kind == Ahead {
			found = append(found, f)
		} else {
			again = append(again, f.ID)
		}
	}
	if len(again) == 0 {
		return found, nil
	}
	docs, err = t.read(ctx, in("_id", again), len(again))
	if err != nil {
		return nil, err
	}
	still, now := t.problems(docs, sources, false), sources
	if t.Unversioned && len(still) > 0 {
		// These copies have no version: if their source has changed meanwhile, they cannot be
		// judged.
		if now, err = c.sources(ctx, c.o.KeyField, t.sources(docs)); err != nil {
			return nil, err
		}
	}
	for _, f := range still {
		id := value.Key(f.key)
		if f.Kind != Ahead && bytes.Equal(now[id].doc, sources[id].doc) { // otherwise the source has changed meanwhile
			found = append(found, f)
		}
	}
	return found, nil
}

// read reads the copies in the documents, about size of them, that filter selects.
func (t *target) read(ctx context.Context, filter any, size int) ([]bson.Raw, error) {
	return cursor.Collect(cursor.Find(ctx, t.primary, filter,
		options.Find().SetProjection(t.each(1)).SetBatchSize(int32(min(size, 1<<20)+1))))
}

// sources returns the keys of the sources that documents refer to, by value.Key.
func (t *target) sources(docs []bson.Raw) map[string]bson.RawValue {
	out := map[string]bson.RawValue{}
	for _, doc := range docs {
		copies, _ := t.copies(doc)
		for _, copied := range copies {
			key := value.Lookup(copied, t.IDField)
			out[value.Key(key)] = key
		}
	}
	return out
}

// problems returns, for each document, the first problem with each of its sources, and the first
// malformed value. With adopt, a missing frozen field is a problem, a copy with a version is not, and a copy that
// Adopt leaves hides no other copy of its source.
func (t *target) problems(docs []bson.Raw, sources map[string]state, adopt bool) []finding {
	var out []finding
	for _, doc := range docs {
		copies, malformed := t.copies(doc)
		type group struct {
			source string
			left   bool
		}
		found, seen := []finding{{Problem: malformed}}, map[group]bool{}
		for _, copied := range copies {
			key := value.Lookup(copied, t.IDField)
			id := value.Key(key)
			s, asked := sources[id]
			if !asked {
				continue
			}
			f := t.compare(copied, s, adopt)
			if g := (group{id, adopt && f.left()}); f.Kind != "" && !seen[g] {
				f.key, seen[g] = key, true
				found = append(found, f)
			}
		}
		for _, f := range found {
			if f.Kind == "" {
				continue
			}
			if f.key.Type != 0 && f.Kind != mongopatterns.Dangling { // of a source
				f.Detail = "copy of " + value.Text(f.key)
			}
			f.Pattern, f.Collection, f.ID = "extref", t.coll.Name(), doc.Lookup("_id")
			out = append(out, f)
		}
	}
	return out
}

// compare returns the problem of a copy, with an empty Kind if it has none.
func (t *target) compare(copied bson.Raw, s state, adopt bool) (f finding) {
	have := value.Lookup(copied, t.VersionField)
	switch {
	case adopt && !t.Unversioned && !none(have), s.doc == nil && t.OnDelete == mongopatterns.Keep && !adopt:
		return f
	case s.doc == nil:
		f.Kind, f.Field, f.Have = mongopatterns.Dangling, t.path(t.IDField), value.Lookup(copied, t.IDField)
		return f
	case s.bad != "":
		f.Kind, f.Field, f.Have = mongopatterns.Malformed, s.bad, value.Lookup(s.doc, s.bad)
		return f
	}
	if !t.Unversioned {
		version, ok := whole(have)
		f.above = version + 1
		switch {
		case none(have):
			f.Kind = NoVersion
			if field, ok := t.overwritten(copied, s); ok {
				f.Field, f.Have, f.Want = t.path(field.As), value.Lookup(copied, field.As), s.value(field)
				return f
			}
		case !ok || version >= maxVersion && version > s.version:
			f.Kind = NoVersion
		case len(t.follow) == 0: // all fields are frozen: the copy stays behind
			return f
		case version < s.version:
			f.Kind, f.above = Behind, 0
		case version > s.version:
			f.Kind = Ahead
		}
		if f.Kind != "" {
			f.Field, f.Have = t.path(t.VersionField), have
			f.Want, _ = codec.Codec{}.Value(s.version)
			return f
		}
	}
	for _, field := range t.Fields {
		have, want := value.Lookup(copied, field.As), s.value(field)
		alike := have.Type == want.Type && value.Same(have, want) // as unlike compares on the server
		if !field.Frozen && !alike || adopt && have.Type == 0 && want.Type != 0 {
			f.Kind, f.Field, f.Have, f.Want = mongopatterns.Different, t.path(field.As), have, want
			return f
		}
	}
	return f
}

// overwritten returns the first followed field in which a copy has a value that is not that of the source. A
// field that the source lacks comes first.
func (t *target) overwritten(copied bson.Raw, s state) (first Field, ok bool) {
	for _, field := range t.follow {
		have, want := value.Lookup(copied, field.As), s.value(field)
		if none(have) || have.Type == want.Type && value.Same(have, want) {
			continue
		}
		if none(want) {
			return field, true
		}
		if !ok {
			first, ok = field, true
		}
	}
	return first, ok
}

// left reports whether Adopt leaves the copy: no source can correct it, or the copy has a value that the source lacks.
func (f finding) left() bool {
	return unsolvable[f.Kind] || f.Kind == NoVersion && !none(f.Have) && none(f.Want)
}
