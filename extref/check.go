package extref

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// Behind is a copy of an older version than the source's. Repair propagates.
	Behind mongopatterns.ProblemKind = "behind"
	// Different is a copy with another value in a followed field, of the source's
	// version or Unversioned. Repair raises the version and propagates.
	Different mongopatterns.ProblemKind = "different"
	// Ahead is a copy of a newer version than the source's, which was replaced without
	// it, or inserted again. Repair raises the source's above that and propagates.
	Ahead mongopatterns.ProblemKind = "ahead"
	// NoVersion is a copy without a whole number for its version, or with one that
	// cannot be raised. Repair leaves it; Adopt fills in a missing or null one.
	NoVersion mongopatterns.ProblemKind = "no version"
	// BadSource is a copy of a source that is invalid: its version is no version, or
	// an array lies on the way to a copied field. Field and Have are the source's.
	BadSource mongopatterns.ProblemKind = "bad source"
	// Dangling is a reference to a source that does not exist, if the policy is not Keep.
	Dangling mongopatterns.ProblemKind = "dangling"
	// Malformed is a document with something else at the target than configured: an
	// array or none, an ID in place of the copy, a copy without ID. Field and Have
	// are the first such thing. It is no copy, and nothing writes to it.
	Malformed mongopatterns.ProblemKind = "malformed"
)

// unsolvable are the problems that no state of a source solves.
var unsolvable = map[mongopatterns.ProblemKind]bool{BadSource: true, Dangling: true, Malformed: true}

// A finding is a problem, the key of the source that it is about, and the version
// that this needs if the copy has another state of no lower one.
type finding struct {
	mongopatterns.Problem
	key   bson.RawValue
	above int64
}

// Check compares the copies in all targets with their sources and yields at most
// one problem for each source in a document, and one if the document is Malformed.
// A change not propagated yet is a problem, Behind. Work.Filter selects sources:
// {_id: 123} checks the copies of that one. What dangles or is malformed is found
// without a filter only.
//
// Cost: scans each target in the order of _id, 1 round trip a batch, and 1 more
// for the sources of each, by their keys; 1 more for a batch that has problems,
// and if the target is Unversioned 1 for the sources of these. With a filter 1
// round trip a batch of sources, and the copies of these by the targets' indexes.
func (r *Ref[ID, S]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return fault.Seq("extref: check", func(yield func(mongopatterns.Problem, error) bool) {
		stopped := false
		err := r.core.examine(ctx, work, func(_ context.Context, _ mongopatterns.Work, _ int, found []finding) error {
			for _, f := range found {
				if stopped = !yield(f.Problem, nil); stopped {
					return context.Canceled
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(mongopatterns.Problem{}, err)
		}
	})
}

// Repair propagates the sources of copies that Check finds wrong, beside live
// writes; it can be stopped and run again. Result.Done documents were written;
// Remaining are problems that it leaves: NoVersion, BadSource, Dangling and
// Malformed. What the server refuses to write is Failed and named. Work.Filter
// selects sources, as in Check.
//
// Cost: a Check, and for each source with wrong copies a Propagate, of which the
// first round trip writes to the source if some are Ahead or Different.
func (r *Ref[ID, S]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "extref: repair")
	return r.core.repair(ctx, work)
}

func (c *core) repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	err = c.examine(ctx, work, func(ctx context.Context, w mongopatterns.Work, size int, found []finding) error {
		result.Examined += int64(size)
		for _, s := range wrongs(found, &result) {
			if w.DryRun {
				result.Done += s.problems
				continue
			}
			done, err := c.propagateOne(ctx, s.key, inner(w), s.above)
			done.Examined, done.Remaining = 0, 0 // Check has found, and repair counted, them
			result.Add(done)
			if err != nil {
				return err
			}
		}
		w.Progress(result)
		return nil
	})
	return result, err
}

// A wrong source is one whose copies Repair has to write.
type wrong struct {
	key      bson.RawValue
	above    int64 // the version it needs, 0 if its own will do
	problems int64
}

// wrongs are the sources to repair; what no repair solves is counted.
func wrongs(found []finding, result *mongopatterns.Result) map[string]wrong {
	out := map[string]wrong{}
	for _, f := range found {
		if f.Kind == NoVersion || unsolvable[f.Kind] {
			result.Remaining++
			continue
		}
		w := out[value.Key(f.key)]
		out[value.Key(f.key)] = wrong{f.key, max(w.above, f.above), w.problems + 1}
	}
	return out
}

// examine gives do the batches of all targets, the number of their documents and
// what is wrong in them, for the sources that work selects.
func (c *core) examine(ctx context.Context, work *mongopatterns.Work,
	do func(ctx context.Context, w mongopatterns.Work, size int, found []finding) error) error {
	w, err := maintain.Of(work, 0)
	if err != nil {
		return err
	}
	ctx, end := c.causal(ctx)
	defer end()
	targets := func(only map[string]bson.RawValue) error {
		for _, t := range c.targets {
			scan := maintain.Scan{Filter: t.of(only), Projection: t.projection()}
			for docs, err := range maintain.Batches(ctx, t.Collection, *inner(w), scan) {
				var found []finding
				if err == nil {
					found, err = c.inspect(ctx, t, docs, only)
				}
				if err == nil {
					err = do(ctx, w, len(docs), found)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	if w.Filter == nil {
		return targets(nil)
	}
	for docs, err := range maintain.Batches(ctx, c.source, w, maintain.Scan{Projection: c.shown}) {
		only := map[string]bson.RawValue{}
		for _, doc := range docs {
			if key := value.Lookup(doc, c.o.KeyField); usable(key) {
				only[value.Key(key)] = key
			}
		}
		if err == nil {
			err = targets(only)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// of selects the documents that refer to these sources, or with nil all that may
// hold a copy.
func (t *target) of(sources map[string]bson.RawValue) bson.D {
	if sources != nil {
		return in(t.path(t.IDField), slices.Collect(maps.Values(sources)))
	}
	return bson.D{{Key: cmp.Or(t.Path, t.IDField), Value: expr.Op("$exists", true)}}
}

// inspect compares documents with their sources, or some of these. The sources are
// read after the documents: a copy ahead of them is one. What else is wrong may have
// been put right between the two reads, so these documents are read once more.
func (c *core) inspect(ctx context.Context, t *target, docs []bson.Raw, only map[string]bson.RawValue) ([]finding, error) {
	if only == nil {
		only = t.sources(docs)
	}
	sources, err := c.sources(ctx, c.o.KeyField, only)
	if err != nil {
		return nil, err
	}
	found := t.problems(docs, sources, false)
	var again bson.A
	for _, f := range found {
		if f.Kind != Ahead {
			again = append(again, f.ID)
		}
	}
	if len(again) == 0 {
		return found, nil
	}
	w, _ := maintain.Of(nil, len(again)+1)
	scan := maintain.Scan{Filter: in("_id", again), Projection: t.projection()}
	docs, err = cursor.Collect(maintain.Docs(ctx, t.Collection, w, scan))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(f finding) bool { return f.Kind != Ahead })
	doubted := map[string]bson.RawValue{}
	for _, f := range t.problems(docs, sources, false) {
		if f.Kind == Ahead { // the source has gone on
			continue
		}
		found = append(found, f)
		if f.Kind != Malformed {
			doubted[value.Key(f.key)] = f.key
		}
	}
	if !t.Unversioned {
		return found, nil
	}
	// These copies do not say of what state they are: if their source has gone on
	// meanwhile nothing is known about them.
	now, err := c.sources(ctx, c.o.KeyField, doubted)
	return slices.DeleteFunc(found, func(f finding) bool {
		return !bytes.Equal(now[value.Key(f.key)].doc, sources[value.Key(f.key)].doc)
	}), err
}

// sources are the keys of the sources that documents refer to, by value.Key.
func (t *target) sources(docs []bson.Raw) map[string]bson.RawValue {
	out := map[string]bson.RawValue{}
	for _, doc := range docs {
		for key := range t.copies(doc) {
			out[value.Key(key)] = key
		}
	}
	return out
}

// problems finds what is wrong in documents: the first problem of each of the
// sources in one, and whether there is anything else. To adopt, a frozen field that
// is missing is one, and a copy with a version has none.
func (t *target) problems(docs []bson.Raw, sources map[string]state, adopt bool) []finding {
	var out []finding
	for _, doc := range docs {
		if field, have, bad := t.malformed(doc); bad {
			p := mongopatterns.Problem{Kind: Malformed, Field: field, Have: have}
			out = append(out, finding{Problem: t.problem(doc, p)})
		}
		seen := map[string]bool{}
		for key, copied := range t.copies(doc) {
			id := value.Key(key)
			s, asked := sources[id]
			if !asked || seen[id] {
				continue
			}
			p := t.compare(copied, s, adopt)
			if p.Kind == "" {
				continue
			}
			seen[id] = true
			if p.Kind != Dangling {
				p.Detail = "copy of " + value.Text(key)
			}
			f := finding{Problem: t.problem(doc, p), key: key}
			if p.Kind == Ahead || p.Kind == Different && !t.Unversioned {
				version, _ := whole(value.Lookup(copied, t.VersionField))
				f.above = version + 1
			}
			out = append(out, f)
		}
	}
	return out
}

// problem completes what is wrong in a document.
func (t *target) problem(doc bson.Raw, p mongopatterns.Problem) mongopatterns.Problem {
	p.Pattern, p.Collection, p.ID = "extref", t.Collection.Name(), doc.Lookup("_id")
	return p
}

// compare is what is wrong with a copy, without a Kind if nothing is.
func (t *target) compare(copied bson.Raw, s state, adopt bool) (p mongopatterns.Problem) {
	have := value.Lookup(copied, t.VersionField)
	switch {
	case adopt && !t.Unversioned && !none(have), s.doc == nil && t.OnDelete == Keep && !adopt:
		return p
	case s.doc == nil:
		return mongopatterns.Problem{Kind: Dangling, Field: t.path(t.IDField), Have: value.Lookup(copied, t.IDField)}
	}
	if s.bad != "" {
		p.Kind, p.Field, p.Have = BadSource, s.bad, value.Lookup(s.doc, s.bad)
		return p
	}
	if !t.Unversioned {
		version, ok := whole(have)
		switch {
		case !ok || none(have) || version >= maxVersion && version > s.version:
			p.Kind = NoVersion
		case len(t.follow) == 0: // a snapshot: it stays behind
			return p
		case version < s.version:
			p.Kind = Behind
		case version > s.version:
			p.Kind = Ahead
		}
		if p.Kind != "" {
			p.Field, p.Have = t.path(t.VersionField), have
			p.Want, _ = codec.Codec{}.Value(s.version)
			return p
		}
	}
	for _, f := range t.Fields {
		have, want := value.Lookup(copied, f.As), s.value(f)
		if f.Policy == Follow && !alike(have, want) || adopt && have.Type == 0 && want.Type != 0 {
			p.Kind, p.Field, p.Have, p.Want = Different, t.path(f.As), have, want
			return p
		}
	}
	return p
}

// alike is what unlike says on the server: of one type, and equal.
func alike(a, b bson.RawValue) bool { return a.Type == b.Type && value.Key(a) == value.Key(b) }
