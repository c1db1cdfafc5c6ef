package extref

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const pattern = "extref"

const (
	// Behind is a copy of an older version than the source's. Repair propagates.
	Behind mongopatterns.ProblemKind = "behind"
	// Different is a copy of the source's version, or one without a version by
	// configuration, in which a followed field has another value. Repair raises
	// the version and propagates.
	Different mongopatterns.ProblemKind = "different"
	// Ahead is a copy of a newer version than the source's: the source was
	// replaced without its version, or deleted and inserted again. Repair raises
	// the source's version above it and propagates.
	Ahead mongopatterns.ProblemKind = "ahead"
	// NoVersion is a copy without a whole number for a version where the target has
	// them, or with one above which the source's cannot be raised. Repair leaves it;
	// Adopt fills it in if it has none or null.
	NoVersion mongopatterns.ProblemKind = "no version"
	// BadSource is a copy of a source that is invalid: without a version in
	// Options.VersionField, or with an array on the way to a copied field; Field and
	// Have are the source's. Repair and Adopt leave it.
	BadSource mongopatterns.ProblemKind = "bad source"
	// Dangling is a reference to a source that does not exist. With the
	// policy Keep it is no problem. Repair leaves it.
	Dangling mongopatterns.ProblemKind = "dangling"
	// Malformed is a document that has something else at the target than the
	// configuration says: an array where Array is not set, or none where it is, an
	// ID by itself in place of the copy, a copy without ID; Field and Have are the
	// first such thing. Such a thing is no copy: nothing propagates to it, and
	// Unset and Cascade leave it alone. Repair leaves it.
	Malformed mongopatterns.ProblemKind = "malformed"
)

// A finding is a problem and the key of the source that it is about.
type finding struct {
	mongopatterns.Problem
	key bson.RawValue
}

// Check compares the copies in all targets with their sources and yields what
// is wrong, at most one problem for each source in a document, and one if the
// document is Malformed. What changes while it runs is looked at a second time; a
// change that has not been propagated yet is a problem, Behind. Work.Filter selects
// sources: {_id: 123} checks the copies of that one; what dangles or is malformed
// is found without a filter only.
//
// Cost: scans each target in the order of _id, 1 round trip a batch, and 1 more
// for the sources of each, by their keys; 1 more for a batch that has problems,
// and if the target is Unversioned 1 for the sources of these. With a filter 1
// round trip a batch of sources, and the copies of these by the targets' indexes.
func (r *Ref[ID, S]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return fault.Seq("extref: check", func(yield func(mongopatterns.Problem, error) bool) {
		for b, err := range r.core.examine(ctx, work) {
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			for _, f := range b.found {
				if !yield(f.Problem, nil) {
					return
				}
			}
		}
	})
}

// Repair propagates the sources of copies that Check finds wrong, as Propagate
// does, beside live writes. Frozen fields stay as they are. It can be stopped and
// run again. Result.Done documents were written; Remaining are problems that it
// leaves: NoVersion, BadSource, Dangling and Malformed. Sources and documents that
// the server refuses to write are Failed and named. Work.Filter selects sources, as
// in Check.
//
// Cost: a Check, and for each source with wrong copies a Propagate with
// Options.Compare; 1 more for one with copies that are ahead.
func (r *Ref[ID, S]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "extref: repair")
	return r.core.repair(ctx, work)
}

// A wrong source is one whose copies Repair has to write.
type wrong struct {
	key      bson.RawValue
	compare  bool  // some are different at its version
	ahead    bool  // some are ahead of it
	above    int64 // the version that it needs then
	problems int64
}

func (c *core) repair(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
	var result mongopatterns.Result
	w, err := maintain.Of(work, 0)
	if err != nil {
		return result, err
	}
	ctx, end, err := c.causal(ctx)
	if err != nil {
		return result, err
	}
	defer end()
	progress := w.Progress
	inner := w
	inner.Filter, inner.Progress = nil, func(mongopatterns.Result) {}
	for b, err := range c.examine(ctx, work) {
		if err != nil {
			return result, err
		}
		result.Examined += int64(b.size)
		for _, w := range b.wrong(&result) {
			if inner.DryRun {
				result.Done += w.problems
				continue
			}
			done, err := c.repairSource(ctx, w, &inner)
			done.Examined = 0
			result.Add(done)
			if err != nil {
				return result, err
			}
		}
		progress(result)
	}
	return result, nil
}

// wrong are the sources to repair for a batch, in its order; what no repair solves
// is counted.
func (b *batch) wrong(result *mongopatterns.Result) []*wrong {
	var order []*wrong
	known := map[string]*wrong{}
	for _, f := range b.found {
		switch f.Kind {
		case NoVersion, BadSource, Dangling, Malformed:
			result.Remaining++
			continue
		}
		w := known[value.Key(f.key)]
		if w == nil {
			w = &wrong{key: f.key}
			known[value.Key(f.key)] = w
			order = append(order, w)
		}
		w.problems++
		w.compare = w.compare || f.Kind == Different
		if f.Kind == Ahead {
			have, _ := whole(f.Have)
			w.ahead, w.above = true, max(w.above, have+1)
		}
	}
	return order
}

// repairSource propagates a source, after its version is above that of its copies.
func (c *core) repairSource(ctx context.Context, s *wrong, w *mongopatterns.Work) (mongopatterns.Result, error) {
	if s.ahead {
		_, err := c.source.UpdateOne(ctx, c.by(s.key), bson.D{{Key: "$max", Value: bson.D{{Key: c.o.VersionField, Value: s.above}}}})
		if err != nil {
			var result mongopatterns.Result
			return result, c.failed(ctx, &result, s.key, err)
		}
	}
	done, err := c.propagateOne(ctx, s.key, w, s.compare && !s.ahead)
	done.Remaining = 0 // what Check has found, and is counted
	return done, err
}

// A batch is documents of one target, with what is wrong in them.
type batch struct {
	size  int
	found []finding
}

// examine yields the batches of all targets, for the sources that work selects.
func (c *core) examine(ctx context.Context, work *mongopatterns.Work) iter.Seq2[*batch, error] {
	return func(yield func(*batch, error) bool) {
		w, err := maintain.Of(work, 0)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, end, err := c.causal(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		if w.Filter == nil {
			c.examineTargets(ctx, w, nil, yield)
			return
		}
		for sources, err := range maintain.Batches(ctx, c.source, w, maintain.Scan{Projection: c.projection()}) {
			if err != nil {
				yield(nil, err)
				return
			}
			only := map[string]bson.RawValue{}
			for _, doc := range sources {
				if key := value.Lookup(doc, c.o.KeyField); usable(key) {
					only[value.Key(key)] = key
				}
			}
			if !c.examineTargets(ctx, w, only, yield) {
				return
			}
		}
	}
}

// examineTargets yields the batches of documents with copies of these sources, nil
// for all, and reports whether to go on.
func (c *core) examineTargets(ctx context.Context, w mongopatterns.Work, only map[string]bson.RawValue, yield func(*batch, error) bool) bool {
	w.Filter = nil
	for _, t := range c.targets {
		at := t.Path
		if at == "" {
			at = t.IDField
		}
		filter := bson.D{{Key: at, Value: bson.D{{Key: "$exists", Value: true}}}}
		if only != nil {
			keys := bson.A{}
			for _, key := range only {
				keys = append(keys, key)
			}
			filter = in(t.path(t.IDField), keys)
		}
		for docs, err := range maintain.Batches(ctx, t.Collection, w, maintain.Scan{Filter: filter, Projection: t.projection()}) {
			b := &batch{size: len(docs)}
			if err == nil {
				b.found, err = c.inspect(ctx, t, docs, only)
			}
			if !yield(b, err) || err != nil {
				return false
			}
		}
	}
	return true
}

// inspect compares documents with their sources. The sources are read after the
// documents: a copy ahead of them is one. What else is wrong may have been put
// right between the two reads, so these documents are read once more.
func (c *core) inspect(ctx context.Context, t *target, docs []bson.Raw, only map[string]bson.RawValue) ([]finding, error) {
	asked := only
	if asked == nil {
		asked = t.sourcesOf(docs)
	}
	sources, err := c.sources(ctx, asked)
	if err != nil {
		return nil, err
	}
	var found []finding
	var again bson.A
	for _, doc := range docs {
		doubtful := false
		for _, f := range c.problems(t, doc, asked, sources) {
			if f.Kind == Ahead {
				found = append(found, f)
			} else {
				doubtful = true
			}
		}
		if doubtful {
			again = append(again, doc.Lookup("_id"))
		}
	}
	if len(again) == 0 {
		return found, nil
	}
	w, _ := maintain.Of(nil, len(again)+1)
	doubted := map[string]bson.RawValue{}
	for doc, err := range maintain.Docs(ctx, t.Collection, w, maintain.Scan{Filter: in("_id", again), Projection: t.projection()}) {
		if err != nil {
			return nil, err
		}
		for _, f := range c.problems(t, doc, asked, sources) {
			if f.Kind != Ahead { // the source may have gone on
				found = append(found, f)
				if f.Kind != Malformed {
					doubted[value.Key(f.key)] = f.key
				}
			}
		}
	}
	if !t.Unversioned || len(doubted) == 0 {
		return found, nil
	}
	// These copies do not say of what state they are: if their source has gone on
	// meanwhile nothing is known about them.
	now, err := c.sources(ctx, doubted)
	return slices.DeleteFunc(found, func(f finding) bool {
		return !bytes.Equal(now[value.Key(f.key)].doc, sources[value.Key(f.key)].doc)
	}), err
}

// sourcesOf are the keys of the sources that documents refer to, by value.Key.
func (t *target) sourcesOf(docs []bson.Raw) map[string]bson.RawValue {
	out := map[string]bson.RawValue{}
	for _, doc := range docs {
		for _, copied := range t.copies(doc) {
			if key, ok := t.source(copied); ok {
				out[value.Key(key)] = key
			}
		}
	}
	return out
}

// problems finds what is wrong in a document: the first problem of each source
// that was asked for, and whether there is anything else.
func (c *core) problems(t *target, doc bson.Raw, asked map[string]bson.RawValue, sources map[string]state) []finding {
	var out []finding
	add := func(key bson.RawValue, p mongopatterns.Problem) {
		p.Pattern, p.Collection, p.ID = pattern, t.Collection.Name(), doc.Lookup("_id")
		if key.Type != 0 && p.Kind != Dangling {
			p.Detail = "copy of " + value.Text(key)
		}
		out = append(out, finding{p, key})
	}
	if field, have, bad := t.malformed(doc); bad {
		add(bson.RawValue{}, mongopatterns.Problem{Kind: Malformed, Field: field, Have: have})
	}
	seen := map[string]bool{}
	for _, copied := range t.copies(doc) {
		key, ok := t.source(copied)
		if !ok {
			continue
		}
		id := value.Key(key)
		if _, known := asked[id]; !known || seen[id] {
			continue
		}
		s, exists := sources[id]
		if !exists && t.OnDelete == Keep {
			continue
		}
		p := mongopatterns.Problem{Kind: Dangling, Field: t.path(t.IDField), Have: key}
		if exists {
			p = t.compare(copied, s)
		}
		if p.Kind != "" {
			seen[id] = true
			add(key, p)
		}
	}
	return out
}

// compare is what is wrong with a copy, without a Kind if nothing is.
func (t *target) compare(copied bson.Raw, s state) mongopatterns.Problem {
	if s.bad != "" {
		return mongopatterns.Problem{Kind: BadSource, Field: s.bad, Have: value.Lookup(s.doc, s.bad)}
	}
	if !t.Unversioned {
		have := value.Lookup(copied, t.VersionField)
		version, ok := whole(have)
		p := mongopatterns.Problem{Field: t.path(t.VersionField), Have: have, Want: rawInt64(s.version)}
		switch {
		case !ok || none(have) || version >= maxVersion && version > s.version:
			p.Kind = NoVersion
			return p
		case len(t.follow) == 0:
			return mongopatterns.Problem{} // a snapshot: it stays behind
		case version < s.version:
			p.Kind = Behind
			return p
		case version > s.version:
			p.Kind = Ahead
			return p
		}
	}
	for _, f := range t.follow {
		if have, want := value.Lookup(copied, f.As), s.value(f); !alike(have, want) {
			return mongopatterns.Problem{Kind: Different, Field: t.path(f.As), Have: have, Want: want}
		}
	}
	return mongopatterns.Problem{}
}

func rawInt64(n int64) bson.RawValue {
	kind, data, _ := bson.MarshalValue(n)
	return bson.RawValue{Type: kind, Value: data}
}

// alike is what the expressions of differs say on the server: of one type, and
// equal.
func alike(a, b bson.RawValue) bool { return a.Type == b.Type && value.Key(a) == value.Key(b) }
