package paging

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// span is a stretch of a list: limit documents from a place, or from one end
// (at == nil), in either direction, after leaving out skip.
type span struct {
	at        place
	inclusive bool
	backward  bool
	skip      int64
	limit     int64
}

// documents are raw results and a cursor that decodes them as the client would.
type documents struct {
	raw    []bson.Raw
	cursor *mongo.Cursor
	arena  []byte // holds the next documents
}

// read fetches a span and says whether anything lies before it, on the side it
// comes from.
//
// To know that, it starts at the place itself: if its document is still there, it
// answers the question and is left out. Else one more find looks back from there.
func (p *core) read(ctx context.Context, src *source, window span) (documents, bool, error) {
	wide := window
	if window.at != nil && !window.inclusive && window.skip == 0 {
		wide.inclusive = true
		wide.limit++
	}
	docs, err := p.fetch(ctx, src, wide)
	switch {
	case err != nil, window.skip == 0 && window.at == nil:
		return docs, false, err
	case window.skip > 0 && len(docs.raw) > 0:
		return docs, true, nil
	case wide.inclusive != window.inclusive && len(docs.raw) > 0:
		if at, err := p.place(docs.raw[0]); err == nil && same(at, window.at) {
			docs.raw = docs.raw[1:]
			return docs, true, nil
		}
	}
	back := span{at: window.at, inclusive: !window.inclusive, backward: !window.backward, limit: 1}
	var behind documents
	err = p.stretch(ctx, &behind, src, back)
	return docs, len(behind.raw) > 0, err
}

// fetch reads a span.
//
// The ranges of several values of an Equality field are merged by the server, which
// takes null and missing for different. That shows only where documents with either
// come out: those without are no nearer to the one than to the other. So what was
// merged counts if nothing in it is null; else each value is read by itself. What is
// to be left out is then read too, so where that is much, the server looks up the
// place behind it first.
func (p *core) fetch(ctx context.Context, src *source, window span) (out documents, err error) {
	if len(src.parts) == 0 || !window.at.null() {
		null := func(doc bson.Raw) bool { // or a value that is refused later
			at, err := p.place(doc)
			return err != nil || at.null()
		}
		err = p.stretch(ctx, &out, src, window)
		if err != nil || len(src.parts) == 0 || !slices.ContainsFunc(out.raw, null) {
			return out, err
		}
	}
	one := window
	if window.skip > maxPassed {
		if one.at, err = p.passed(ctx, src, window); err != nil || one.at == nil {
			return documents{}, err
		}
		one.inclusive, window.skip = true, 0
	}
	one.skip, one.limit, out.raw = 0, window.skip+window.limit, nil
	for _, part := range src.parts {
		if err := p.stretch(ctx, &out, &source{filter: part}, one); err != nil {
			return out, err
		}
	}
	if out.raw, err = p.sort(ctx, out.raw, one); err != nil {
		return out, err
	}
	out.raw = out.raw[min(window.skip, int64(len(out.raw))):]
	return out, nil
}

const (
	maxPassed = 1000     // documents that fetch reads for each value only to skip them
	maxGiven  = 14 << 20 // bytes that one command can hold
)

// passed returns the place of the first document that is not skipped, or nil if all are. For this the server sorts the
// places of all documents. It treats null and missing as equal there, because it sorts computed values.
func (p *core) passed(ctx context.Context, src *source, window span) (at place, err error) {
	var branches []bson.D
	if window.at != nil {
		branches = p.order.branches(window.at, window.backward, window.inclusive, false)
	}
	fields, where := expr.D("_id", 0), make(order, len(p.order))
	by := p.order.document(window.backward)
	for i, key := range p.order {
		field, name := expr.Field(key.path), "v"+strconv.Itoa(i)
		fields = append(fields, expr.Element(name, expr.Cond(expr.IsType(field, "missing"), nil, field)))
		by[i].Key = name
		where[i] = sortKey{key.path, key.desc, []string{name}}
	}
	stages := append(src.stages(branches, nil, 0, 0), expr.Op("$project", fields), expr.Op("$sort", by),
		expr.Op("$skip", window.skip), expr.Op("$limit", 1))
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return p.coll.Aggregate(ctx, stages, p.aggregateOptions())
	}) {
		if err != nil {
			return nil, err
		}
		at = make(place, len(p.order))
		if err := p.readPlace(at, slices.Clone(doc), where); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// A ranked is a document and its place.
type ranked struct{ doc, at bson.Raw }

// sort sorts the documents of a span by their places, drops those that are there twice, and returns as many as the span
// has. Where their places are too large for one command, it sorts as many as one can hold, and goes on with the first
// of these.
func (p *core) sort(ctx context.Context, docs []bson.Raw, window span) (sorted []bson.Raw, err error) {
	var all []ranked
	seen, size := map[string]bool{}, 0
	for _, doc := range docs {
		at, err := p.place(doc)
		if err != nil {
			return nil, err
		}
		id := at[p.id] // the projection may leave it out of the document
		key := string(id.Type) + string(id.Value)
		if seen[key] {
			continue
		}
		seen[key] = true
		one := ranked{doc, value.Array(at).Value}
		if size+one.size() > maxGiven {
			if all, err = p.sortGiven(ctx, all, window); err != nil {
				return nil, err
			}
			size = 0
			for _, r := range all {
				size += r.size()
			}
			if size > maxGiven/2 {
				return nil, fault.Invalid("Request.Size: %d documents have sort values too large to be sorted together: ask for fewer", window.limit)
			}
		}
		all = append(all, one)
		size += one.size()
	}
	all, err = p.sortGiven(ctx, all, window)
	for _, r := range all {
		sorted = append(sorted, r.doc)
	}
	return sorted, err
}

// size is about what the command of sortGiven needs for it.
func (r ranked) size() int { return len(r.at) + 32 }

// sortGiven lets the server sort documents, as it alone knows collations, and returns the first ones.
func (p *core) sortGiven(ctx context.Context, all []ranked, window span) (sorted []ranked, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	rows := make(bson.A, len(all))
	for i, r := range all {
		rows[i] = expr.D("i", i, "at", r.at)
	}
	by := p.order.document(window.backward)
	for j := range by {
		by[j].Key = "at." + strconv.Itoa(j)
	}
	stages := mongo.Pipeline{expr.Op("$sort", by), expr.Op("$limit", window.limit), expr.Op("$project", expr.D("i", 1))}
	for row, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return p.coll.AggregateGiven(ctx, rows, stages, options.Aggregate().SetCollation(p.find.Collation))
	}) {
		if err != nil {
			return nil, err
		}
		sorted = append(sorted, all[row.Lookup("i").AsInt64()])
	}
	return sorted, nil
}

// stretch reads a span with one find, or with one for each branch where the merge
// of the branches would not be in order, until the span is full:
//
//   - where the branches share a null, as the merge takes it and missing for different;
//   - where the sort begins with _id, so that a plain range of it comes first;
//   - with Sequential.
func (p *core) stretch(ctx context.Context, out *documents, src *source, window span) (err error) {
	if window.at == nil {
		return p.append(ctx, out, src, nil, window)
	}
	typed := p.opts.Sequential || p.order[0].path == "_id"
	branches := p.order.branches(window.at, window.backward, window.inclusive, typed)
	if len(branches) > 0 && (src.apart || !typed && !window.at[:len(window.at)-1].null()) {
		return p.append(ctx, out, src, branches, window)
	}
	before := len(out.raw)
	for rest := window; len(branches) > 0 && rest.limit > 0 && err == nil; branches = branches[1:] {
		err = p.append(ctx, out, src, branches[:1], rest)
		read := len(out.raw) - before
		rest.limit = window.limit - int64(read)
		if read > 0 {
			rest.skip = 0
		} else if rest.skip > 0 && len(branches) > 1 && err == nil {
			var passed int64
			passed, err = p.count(ctx, src, branches[:1], rest.skip)
			rest.skip -= passed
		}
	}
	return err
}

func (p *core) append(ctx context.Context, d *documents, src *source, branches []bson.D, window span) error {
	for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return p.open(ctx, src, branches, window)
	}) {
		if err != nil {
			return err
		}
		doc := c.Current
		if cap(d.arena)-len(d.arena) < len(doc) {
			d.arena = make([]byte, 0, max(len(doc), 16<<10))
		}
		start := len(d.arena)
		d.arena = append(d.arena, doc...)
		d.raw = append(d.raw, bson.Raw(d.arena[start:len(d.arena):len(d.arena)]))
		d.cursor = c
	}
	return nil
}

// total counts, unless the exact number is known.
func (p *core) total(ctx context.Context, src *source, count Count, known int64) (*Total, error) {
	switch {
	case count == 0:
		return nil, nil
	case known >= 0:
		return &Total{N: known}, nil
	case count == CountEstimated:
		n, err := p.coll.EstimatedDocumentCount(ctx, options.EstimatedDocumentCount().SetComment(p.find.Comment))
		return &Total{N: n, Estimated: true}, err
	}
	limit := int64(count) + 1 // 0, which is none, for CountExact
	n, err := p.count(ctx, src, nil, limit)
	if limit > 0 && n == limit {
		return &Total{N: int64(count), AtLeast: true}, nil
	}
	return &Total{N: n}, err
}

// count counts the documents of some branches, up to limit (0: all).
func (p *core) count(ctx context.Context, src *source, branches []bson.D, limit int64) (n int64, err error) {
	stages := append(src.stages(branches, nil, 0, limit), expr.Op("$count", "n"))
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return p.coll.Aggregate(ctx, stages, p.aggregateOptions())
	}) {
		if err != nil {
			return 0, fmt.Errorf("count: %w", err)
		}
		n, _ = doc.Lookup("n").AsInt64OK()
	}
	return n, nil
}
