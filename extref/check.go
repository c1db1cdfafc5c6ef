package extref

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// A Problem is a copy that does not agree with its source, or no copy at all.
type Problem struct {
	// Kind says what is wrong.
	Kind ProblemKind
	// Target is the name of the target, ID the _id of the document that holds
	// the copy, Source the source's _id; with Malformed it is zero.
	Target string
	ID     bson.RawValue
	Source bson.RawValue
	// Field is the field of the copy that is wrong: the version, or a followed
	// field; with Dangling the ID.
	Field string
	// Have is what the copy holds there, zero if nothing, and Want what it should
	// hold, zero if nothing.
	Have, Want bson.RawValue
}

func (p Problem) String() string {
	if p.Kind == Malformed {
		return fmt.Sprintf("%s %s: %s: %s is %s", p.Target, rawvalue.Text(p.ID), p.Kind, p.Field, rawvalue.Text(p.Have))
	}
	text := fmt.Sprintf("%s %s: copy of %s: %s: %s", p.Target, rawvalue.Text(p.ID), rawvalue.Text(p.Source), p.Kind, p.Field)
	if p.Kind != Dangling && p.Kind != BadSource {
		text += fmt.Sprintf(" is %s, want %s", rawvalue.Text(p.Have), rawvalue.Text(p.Want))
	}
	return text
}

// ProblemKind classifies problems.
type ProblemKind string

const (
	// Behind is a copy of an older version than the source's. Repair propagates.
	Behind ProblemKind = "behind"
	// Different is a copy of the source's version, or one without a version by
	// configuration, in which a followed field has another value. Repair raises
	// the version and propagates.
	Different ProblemKind = "different"
	// Ahead is a copy of a newer version than the source's: the source was
	// replaced without its version, or deleted and inserted again. Repair raises
	// the source's version above it and propagates.
	Ahead ProblemKind = "ahead"
	// NoVersion is a copy without a whole number for a version where the target has
	// them, or with one above which the source's cannot be raised. Nothing propagates
	// to it, as a rule. Repair leaves it; Adopt fills it in if it has none or null.
	NoVersion ProblemKind = "no version"
	// BadSource is a copy of a source that is ErrInvalid: without a version in
	// Options.VersionField, or with an array on the way to a copied field; Field and
	// Have are the source's. Repair and Adopt leave it.
	BadSource ProblemKind = "bad source"
	// Dangling is a reference to a source that does not exist. It is none with
	// the policy Keep. Repair leaves it.
	Dangling ProblemKind = "dangling"
	// Malformed is a document that has something else at the target than the
	// configuration says: an array where Array is not set, or none where it is, an
	// ID by itself in place of the copy, a copy without ID; Field and Have are the
	// first such thing. Such a thing is no copy: nothing propagates to it, or the
	// server refuses to, and Unset and Cascade leave it alone. Repair leaves it.
	Malformed ProblemKind = "malformed"
)

// Check compares the copies in all targets with their sources and yields what
// is wrong, at most one problem for each source in a document, and one if the
// document is Malformed. What changes while
// it runs is looked at a second time; a change that has not been propagated yet
// is a problem, Behind.
//
// Cost: scans each target in the order of _id, 1 round trip a batch of 1000, and
// 1 more for the sources of each, by _id; 1 more for a batch that has problems,
// and if the target is Unversioned 1 for the sources of these.
func (r *Ref[ID, S]) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		ctx, end, err := r.causal(ctx)
		if err != nil {
			yield(Problem{}, fmt.Errorf("extref: check: %w", err))
			return
		}
		defer end()
		err = r.inspect(ctx, defaultBatchSize, func(_ int, problems []Problem) (bool, error) {
			for _, p := range problems {
				if !yield(p, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(Problem{}, fmt.Errorf("extref: check: %w", err))
		}
	}
}

// RepairOptions bounds Repair.
type RepairOptions struct {
	// BatchSize is how many documents are examined, and how many one write
	// updates. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 `json:"examined"`  // documents read
	Repaired  int64 `json:"repaired"`  // documents written
	Remaining int64 `json:"remaining"` // problems it leaves: NoVersion, BadSource, Dangling, Malformed, and of sources that fail
}

// Repair propagates the sources of copies that Check finds wrong, as Propagate
// does, beside live writes. Frozen fields stay as they are. It can be stopped and
// run again. When the server refuses to write a source or its copies it goes on
// with the others, and returns the first such error, a *SourceError, with the
// complete result.
//
// Cost: a Check, and for each source with wrong copies a Propagate with Compare;
// 1 more for one with copies that are ahead.
func (r *Ref[ID, S]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var first error
	result, err := r.repair(ctx, opts, func(err *SourceError) error {
		if !refused(err) {
			return err
		}
		if first == nil {
			first = err
		}
		return nil
	})
	if err = errors.Join(first, err); err != nil {
		return result, fmt.Errorf("extref: repair: %w", err)
	}
	return result, nil
}

// repair asks failed whether to go on without a source.
func (r *Ref[ID, S]) repair(ctx context.Context, opts *RepairOptions, failed func(*SourceError) error) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return result, err
	}
	ctx, end, err := r.causal(ctx)
	if err != nil {
		return result, err
	}
	defer end()
	propagate := &PropagateOptions{BatchSize: o.BatchSize, Progress: func(int64) {}}
	err = r.inspect(ctx, o.BatchSize, func(examined int, problems []Problem) (bool, error) {
		result.Examined += int64(examined)
		type work struct {
			id             bson.RawValue
			above          int64
			problems       int64
			ahead, compare bool
		}
		var order []*work
		todo := map[string]*work{}
		for _, p := range problems {
			switch p.Kind {
			case NoVersion, BadSource, Dangling, Malformed:
				result.Remaining++
				continue
			}
			w := todo[rawvalue.Key(p.Source)]
			if w == nil {
				w = &work{id: p.Source}
				todo[rawvalue.Key(p.Source)] = w
				order = append(order, w)
			}
			w.problems++
			w.compare = w.compare || p.Kind == Different
			if p.Kind == Ahead {
				have, _ := whole(p.Have)
				w.ahead, w.above = true, max(w.above, have+1)
			}
		}
		for _, w := range order {
			p := *propagate
			p.Compare = w.compare && !w.ahead
			var done PropagateResult
			var err error
			if w.ahead {
				_, err = r.source.UpdateOne(ctx, byID(w.id),
					bson.D{{Key: "$max", Value: bson.D{{Key: r.opts.VersionField, Value: w.above}}}})
			}
			if err == nil {
				done, err = r.propagateID(ctx, w.id, &p)
			}
			result.Repaired += done.Copies
			if err != nil && !errors.Is(err, ErrNotFound) { // deleted meanwhile
				result.Remaining += w.problems
				if err := failed(&SourceError{Source: w.id, Err: err}); err != nil {
					return false, err
				}
			}
		}
		o.Progress(result.Examined)
		return true, nil
	})
	return result, err
}

// inspect calls visit with the problems of each batch of documents.
func (r *Ref[ID, S]) inspect(ctx context.Context, size int, visit func(examined int, problems []Problem) (bool, error)) error {
	for i := range r.targets {
		t := &r.targets[i]
		for docs, err := range scan.Batches(ctx, t.Collection, t.orDoubtful(), t.projection(), size) {
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			problems, err := r.examine(ctx, t, docs)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			if more, err := visit(len(docs), problems); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// examine compares documents with their sources. The sources are read after the
// documents: a copy ahead of them is one. What else is wrong may have been mended
// between the two reads, so these documents are read once more.
func (r *Ref[ID, S]) examine(ctx context.Context, t *target, docs []bson.Raw) ([]Problem, error) {
	asked := map[string]bson.RawValue{}
	for _, doc := range docs {
		for _, copied := range t.copies(doc) {
			if id, ok := t.refersTo(copied); ok {
				asked[rawvalue.Key(id)] = id
			}
		}
	}
	sources, err := r.sources(ctx, asked)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	var again bson.A
	for _, doc := range docs {
		found := r.compareDocument(t, doc, asked, sources)
		doubtful := false
		for _, p := range found {
			if p.Kind == Ahead {
				problems = append(problems, p)
			} else {
				doubtful = true
			}
		}
		if doubtful {
			again = append(again, doc.Lookup("_id"))
		}
	}
	if len(again) == 0 {
		return problems, nil
	}
	doubted := map[string]bson.RawValue{}
	for docs, err := range scan.Batches(ctx, t.Collection, inIDs(again), t.projection(), len(again)+1) {
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			for _, p := range r.compareDocument(t, doc, asked, sources) {
				if p.Kind != Ahead { // the source may have gone on
					problems = append(problems, p)
					if p.Kind != Malformed {
						doubted[rawvalue.Key(p.Source)] = p.Source
					}
				}
			}
		}
	}
	if !t.Unversioned || len(doubted) == 0 {
		return problems, nil
	}
	// These copies do not say of what state they are: if their source has gone on
	// meanwhile nothing is known about them.
	now, err := r.sources(ctx, doubted)
	return slices.DeleteFunc(problems, func(p Problem) bool {
		key := rawvalue.Key(p.Source)
		return !bytes.Equal(now[key].doc, sources[key].doc)
	}), err
}

// sources reads the states of these sources, by key.
func (r *Ref[ID, S]) sources(ctx context.Context, ids map[string]bson.RawValue) (map[string]state, error) {
	out := map[string]state{}
	var chunk bson.A
	read := func() error {
		if len(chunk) == 0 {
			return nil
		}
		cursor, err := r.primary.Find(ctx, inIDs(chunk), options.Find().SetProjection(r.projection()).SetBatchSize(int32(len(chunk)+1)))
		if err != nil {
			return err
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			s, err := r.state(append(bson.Raw(nil), cursor.Current...))
			if err != nil {
				s.bad = err
			}
			out[rawvalue.Key(s.doc.Lookup("_id"))] = s
		}
		chunk = nil
		return cursor.Err()
	}
	for _, id := range ids {
		if chunk = append(chunk, id); len(chunk) == defaultBatchSize {
			if err := read(); err != nil {
				return nil, err
			}
		}
	}
	return out, read()
}

// refersTo is the ID of the source, if the copy has one.
func (t *target) refersTo(copied bson.Raw) (bson.RawValue, bool) {
	id := rawvalue.Lookup(copied, t.IDField)
	return id, checkID(id) == nil
}

// compareDocument finds the problems of the copies whose sources were asked for,
// the first of each source, and whether there is anything else.
func (r *Ref[ID, S]) compareDocument(t *target, doc bson.Raw, asked map[string]bson.RawValue, sources map[string]state) []Problem {
	var out []Problem
	if field, have, bad := t.malformed(doc); bad {
		out = append(out, Problem{Kind: Malformed, Target: t.Name, ID: doc.Lookup("_id"), Field: field, Have: have})
	}
	seen := map[string]bool{}
	for _, copied := range t.copies(doc) {
		id, ok := t.refersTo(copied)
		if !ok {
			continue
		}
		key := rawvalue.Key(id)
		if _, known := asked[key]; !known || seen[key] {
			continue
		}
		source, exists := sources[key]
		p := Problem{Target: t.Name, ID: doc.Lookup("_id"), Source: id}
		if t.compare(copied, source, exists, &p) {
			seen[key] = true
			out = append(out, p)
		}
	}
	return out
}

// compare fills in what is wrong with a copy and reports whether anything is.
func (t *target) compare(copied bson.Raw, s state, exists bool, p *Problem) bool {
	if !exists {
		p.Kind, p.Field, p.Have = Dangling, t.path(t.IDField), p.Source
		return t.OnDelete != Keep
	}
	if s.bad != nil {
		p.Kind, p.Field, p.Have = BadSource, s.badField, rawvalue.Lookup(s.doc, s.badField)
		return true
	}
	if !t.Unversioned {
		have := rawvalue.Lookup(copied, t.VersionField)
		version, ok := whole(have)
		p.Field, p.Have, p.Want = t.path(t.VersionField), have, rawInt64(s.version)
		switch {
		case !ok || have.Type == 0 || have.Type == bson.TypeNull:
			p.Kind = NoVersion
			return true
		case len(t.follow) == 0:
			return false // a snapshot: it stays behind
		case version < s.version:
			p.Kind = Behind
			return true
		case version > s.version && version >= maxVersion:
			p.Kind = NoVersion
			return true
		case version > s.version:
			p.Kind = Ahead
			return true
		}
	}
	for _, f := range t.follow {
		have, want := rawvalue.Lookup(copied, f.As), rawvalue.Lookup(s.doc, f.Path)
		if !sameValue(have, want) {
			p.Kind, p.Field, p.Have, p.Want = Different, t.path(f.As), have, want
			return true
		}
	}
	return false
}

func rawInt64(n int64) bson.RawValue {
	kind, data, _ := bson.MarshalValue(n)
	return bson.RawValue{Type: kind, Value: data}
}

// sameValue is what the expressions of differs say on the server: of one type,
// and equal.
func sameValue(a, b bson.RawValue) bool {
	return a.Type == b.Type && rawvalue.Key(a) == rawvalue.Key(b)
}
