package subset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// A Problem is something that Check found.
type Problem struct {
	// Kind says what is wrong.
	Kind ProblemKind
	// ID is the _id of the parent; of a Split that of the document.
	ID bson.RawValue
	// Field is the field that is wrong: of the parent, or for Orphan and
	// InvalidItem of the items; of a Split that of the hot or cold document.
	Field string
	// Have is what the field holds, zero if it is missing, and Want what it
	// should hold, zero if nothing. For Orphan Have is the number of items, for
	// InvalidItem the item's _id. Both are zero for a Split.
	Have, Want bson.RawValue
}

func (p Problem) String() string {
	text := fmt.Sprintf("_id %s: %s: %s", rawvalue.Text(p.ID), p.Kind, p.Field)
	switch {
	case p.Kind == Orphan && p.Have.Type != 0:
		text += fmt.Sprintf(" of %d items", p.Have.AsInt64())
	case p.Kind == InvalidItem:
		text += fmt.Sprintf(" of the item _id %s", rawvalue.Text(p.Have))
	case p.Have.Type != 0 || p.Want.Type != 0:
		text += fmt.Sprintf(" is %s, want %s", brief(p.Have), brief(p.Want))
	}
	return text
}

// brief is a value for a line of text.
func brief(value bson.RawValue) string {
	if array, ok := value.ArrayOK(); ok {
		values, _ := array.Values()
		var ids []string
		for _, v := range values[:min(len(values), 10)] {
			item, _ := v.DocumentOK()
			ids = append(ids, rawvalue.Text(item.Lookup("_id")))
		}
		if len(values) > len(ids) {
			ids = append(ids, "…")
		}
		return fmt.Sprintf("%d items with the _ids [%s]", len(values), strings.Join(ids, " "))
	}
	return rawvalue.Text(value)
}

// ProblemKind classifies problems.
type ProblemKind string

const (
	// WrongSubset is an array that does not hold the best N items, as they are,
	// in order. Repair reads them anew.
	WrongSubset ProblemKind = "wrong subset"
	// WrongCount is a count that is not the number of items. Repair counts them.
	WrongCount ProblemKind = "wrong count"
	// WrongValue is a sum, mean or count of a Value that does not follow from the
	// items. Sums and means of doubles and decimals may differ by a part in 10^9.
	// Repair computes it.
	WrongValue ProblemKind = "wrong value"
	// NotAdopted is an array of items in a parent without a count. Repair reads
	// them anew if the collection has all of them, by _id, and else leaves them for
	// Adopt.
	NotAdopted ProblemKind = "not adopted"
	// Orphan is a parent that does not exist but has items. Repair leaves them:
	// insert the parent and repair, or delete what ItemsFilter selects.
	Orphan ProblemKind = "orphan"
	// InvalidItem is an item that Add refuses and somebody else has stored: with an
	// array in a field by which items are sorted, or no number where a Value without
	// Count needs one. It is counted and ranked, and the mean takes its number for
	// 0. Repair leaves it: Update or Delete it, and then repair.
	InvalidItem ProblemKind = "invalid item"
)

// Check reads every parent and item and yields what is wrong. What a write
// changed meanwhile is looked at again, in a transaction, so that only what is
// really wrong is reported.
//
// Cost: 2 round trips and further ones for many parents, 1 more if Order or Values
// name fields that may be invalid; a scan of the parents and 2 or 3 of the items,
// and for each parent N keys and documents of the index {parent,
// order…} and, for counts and Values, all its items; 3 round trips for each 100
// parents in which some seem wrong (with NoCount and no Values 2, and 1 for each
// that does), and for each Orphan.
func (s *Subset[P, T]) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		fail := func(err error) { yield(Problem{}, fmt.Errorf("subset: check: %w", err)) }
		var examined int64
		for ids, err := range s.suspects(ctx, nil, "", scanBatchSize, func(int64) {}, &examined) {
			if err != nil {
				fail(err)
				return
			}
			problems, err := s.confirmed(ctx, ids)
			if err != nil {
				fail(err)
				return
			}
			for _, p := range problems {
				if !yield(p, nil) {
					return
				}
			}
		}
		for p, err := range s.left(ctx) {
			if err != nil {
				fail(err)
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// left yields what Repair leaves, but for NotAdopted.
func (s *Subset[P, T]) left(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		for _, problems := range []iter.Seq2[Problem, error]{s.orphans(ctx), s.invalid(ctx)} {
			for p, err := range problems {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

// A state is what a parent holds and what its items make of that.
type state struct {
	parent bson.Raw   // its derived fields and _id
	top    []bson.Raw // the best N items
	stats  bson.Raw   // of all items; none has no field
	size   int        // of all this in bytes
}

func (s state) id() bson.RawValue { return s.parent.Lookup("_id") }

// derived are the fields of a parent that follow from its items.
func (s *Subset[P, T]) derived(more ...string) bson.D {
	paths := append([]string{s.opts.ArrayField, s.opts.CountField}, more...)
	for _, v := range s.opts.Values {
		paths = append(paths, v.Sum, v.Mean, v.Count)
	}
	return included(paths)
}

// counted reports whether parents keep more than the array.
func (s *Subset[P, T]) counted() bool { return s.opts.CountField != "" || len(s.opts.Values) > 0 }

// statistics adds up all items that come, by the expression by.
func (s *Subset[P, T]) statistics(by any, more ...bson.E) bson.D {
	group := append(bson.D{{Key: "_id", Value: by}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}, more...)
	for i, v := range s.opts.Values {
		number := "$" + v.Field
		usable := op("$and", op("$isNumber", number), op("$gt", number, math.Inf(-1)), op("$lt", number, math.Inf(1)))
		group = append(group,
			bson.E{Key: fmt.Sprintf("s%d", i), Value: op("$sum", op("$cond", usable, number, 0))},
			bson.E{Key: fmt.Sprintf("c%d", i), Value: op("$sum", op("$cond", usable, 1, 0))},
			bson.E{Key: fmt.Sprintf("a%d", i), Value: op("$sum", op("$cond", usable,
				op("$cond", op("$gte", number, 0), number, op("$subtract", 0.0, number)), 0))})
	}
	return bson.D{{Key: "$group", Value: group}}
}

// states reads all parents that a filter selects with their items.
func (s *Subset[P, T]) states(ctx context.Context, filter bson.D, batch int, more ...string) iter.Seq2[state, error] {
	return func(yield func(state, error) bool) {
		of := func(as string, pipeline ...bson.D) bson.D {
			return bson.D{{Key: "$lookup", Value: bson.D{
				{Key: "from", Value: s.items.Name()}, {Key: "localField", Value: "parent._id"},
				{Key: "foreignField", Value: s.opts.ParentField}, {Key: "pipeline", Value: mongo.Pipeline(pipeline)}, {Key: "as", Value: as},
			}}}
		}
		if filter == nil {
			filter = bson.D{}
		}
		pipeline := mongo.Pipeline{
			{{Key: "$match", Value: filter}},
			{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
			{{Key: "$project", Value: s.derived(more...)}},
			{{Key: "$replaceWith", Value: bson.D{{Key: "parent", Value: "$$ROOT"}}}},
			of("top", bson.D{{Key: "$sort", Value: s.opts.Order}}, bson.D{{Key: "$limit", Value: s.opts.N}},
				bson.D{{Key: "$project", Value: s.projection()}}),
		}
		if s.counted() {
			pipeline = append(pipeline, of("stats", s.statistics(nil)))
		}
		cursor, err := scan.Primary(s.parents).Aggregate(ctx, pipeline, options.Aggregate().SetBatchSize(int32(min(batch, 1<<20))))
		if err != nil {
			yield(state{}, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			doc := append(bson.Raw(nil), cursor.Current...)
			st := state{parent: doc.Lookup("parent").Document(), top: documents(doc.Lookup("top")), size: len(doc)}
			if stats := documents(doc.Lookup("stats")); len(stats) > 0 {
				st.stats = stats[0]
			}
			if !yield(st, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(state{}, err)
		}
	}
}

// documents are those in an array.
func documents(array bson.RawValue) []bson.Raw {
	var out []bson.Raw
	if values, ok := array.ArrayOK(); ok {
		elements, _ := values.Values()
		for _, v := range elements {
			if doc, ok := v.DocumentOK(); ok {
				out = append(out, doc)
			}
		}
	}
	return out
}

// complete reads the items of parents that were read or written in the same
// transaction: all of them in one aggregation if there is something to add up,
// else the best N of each by the index.
func (s *Subset[P, T]) complete(ctx context.Context, parents []bson.Raw) ([]state, error) {
	states := make([]state, len(parents))
	ids := make(bson.A, len(parents))
	for i, parent := range parents {
		states[i].parent = parent
		ids[i] = states[i].id()
	}
	if !s.counted() {
		for i := range states {
			var err error
			if states[i].top, err = s.best(ctx, states[i].id()); err != nil {
				return nil, err
			}
		}
		return states, nil
	}
	// The server finds the place of an item's parent, as it may hold 1 and 1.0, or
	// by a collation "a" and "A", for equal.
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: s.opts.ParentField, Value: bson.D{{Key: "$in", Value: ids}}}}}},
		s.statistics(op("$indexOfArray", literal(ids), "$"+s.opts.ParentField), bson.E{Key: "top", Value: op("$topN", bson.D{
			{Key: "n", Value: s.opts.N}, {Key: "sortBy", Value: s.opts.Order}, {Key: "output", Value: "$$ROOT"},
		})}),
	}
	if s.keep != nil {
		paths := []string{s.opts.ParentField}
		for _, v := range s.opts.Values {
			paths = append(paths, v.Field)
		}
		pipeline = slices.Insert(pipeline, 1, bson.D{{Key: "$project", Value: s.projection(paths...)}})
	}
	cursor, err := scan.Primary(s.items).Aggregate(ctx, pipeline, options.Aggregate().SetBatchSize(int32(min(len(ids), 1<<20)+1)))
	if err != nil {
		return nil, err
	}
	var groups []bson.Raw
	if err := cursor.All(ctx, &groups); err != nil {
		return nil, err
	}
	for _, group := range groups {
		if at := group.Lookup("_id").AsInt64(); at >= 0 { // -1 is none of them
			states[at].top, states[at].stats = documents(group.Lookup("top")), group
		}
	}
	return states, nil
}

// suspects yields the _ids of the parents that a filter selects and that look
// wrong or hold something in from, as many as one transaction is to look at: those
// among batch parents, or fewer if they have many items.
func (s *Subset[P, T]) suspects(ctx context.Context, filter bson.D, from string, batch int, progress func(int64), examined *int64) iter.Seq2[bson.A, error] {
	return func(yield func(bson.A, error) bool) {
		var ids bson.A
		items, size := int64(0), 0
		flush := func() bool {
			if len(ids) == 0 {
				return true
			}
			these := ids
			ids, items, size = nil, 0, 0
			return yield(these, nil)
		}
		for st, err := range s.states(ctx, filter, batch, from) {
			if err != nil {
				yield(nil, err)
				return
			}
			*examined++
			if len(s.problems(st)) > 0 || s.leftover(st.parent, from) {
				ids = append(ids, st.id())
				items += number(st.stats.Lookup("n")).AsInt64()
				size += st.size
			}
			full := *examined%int64(batch) == 0
			if (full || items >= transactionItems || size >= transactionBytes) && !flush() {
				return
			}
			if full {
				progress(*examined)
			}
		}
		if flush() && *examined%int64(batch) != 0 {
			progress(*examined)
		}
	}
}

// confirmed looks at parents in one snapshot.
func (s *Subset[P, T]) confirmed(ctx context.Context, ids bson.A) (problems []Problem, err error) {
	err = txn.Run(ctx, s.parents.Database().Client(), func(ctx context.Context) error {
		problems = nil
		docs, err := s.read(ctx, ids)
		if err != nil || len(docs) == 0 {
			return err
		}
		states, err := s.complete(ctx, docs)
		for _, st := range states {
			problems = append(problems, s.problems(st)...)
		}
		return err
	})
	return problems, err
}

// read reads what parents hold that follows from their items, and more.
func (s *Subset[P, T]) read(ctx context.Context, ids bson.A, more ...string) ([]bson.Raw, error) {
	cursor, err := s.parents.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().
		SetProjection(s.derived(more...)).SetSort(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(int32(min(len(ids), 1<<20)+1)))
	if err != nil {
		return nil, err
	}
	var docs []bson.Raw
	err = cursor.All(ctx, &docs)
	return docs, err
}

// problems compares what a parent holds with what it should.
func (s *Subset[P, T]) problems(st state) []Problem {
	var out []Problem
	report := func(kind ProblemKind, field string, want bson.RawValue) {
		out = append(out, Problem{Kind: kind, ID: st.id(), Field: field, Have: rawvalue.Lookup(st.parent, field), Want: want})
	}
	have, want := rawvalue.Lookup(st.parent, s.opts.ArrayField), raw(s.arranged(st.top))
	if !same(have, want) && !(len(st.top) == 0 && (have.IsZero() || have.Type == bson.TypeNull)) {
		kind := WrongSubset
		if s.countless(st.parent) && s.holds(st.parent) {
			kind = NotAdopted
		}
		report(kind, s.opts.ArrayField, want)
	}
	total := number(st.stats.Lookup("n"))
	if s.opts.CountField != "" && !agree(rawvalue.Lookup(st.parent, s.opts.CountField), total, nil) {
		report(WrongCount, s.opts.CountField, total)
	}
	for i, v := range s.opts.Values {
		sum, count := number(st.stats.Lookup(fmt.Sprintf("s%d", i))), number(st.stats.Lookup(fmt.Sprintf("c%d", i)))
		magnitude := rawvalue.Number(number(st.stats.Lookup(fmt.Sprintf("a%d", i))))
		if magnitude == nil { // beyond what a double holds
			continue
		}
		if !agree(rawvalue.Lookup(st.parent, v.Sum), sum, magnitude) {
			report(WrongValue, v.Sum, sum)
		}
		if v.Count != "" && !agree(rawvalue.Lookup(st.parent, v.Count), count, nil) {
			report(WrongValue, v.Count, count)
		}
		if v.Mean == "" {
			continue
		}
		if v.Count == "" {
			count = total
		}
		mean := bson.RawValue{}
		if n := rawvalue.Number(count); n.Sign() > 0 {
			f, _ := new(big.Rat).Quo(rawvalue.Number(sum), n).Float64()
			mean = raw(f)
			magnitude = new(big.Rat).Quo(magnitude, n)
		}
		if have := rawvalue.Lookup(st.parent, v.Mean); mean.IsZero() != have.IsZero() || !mean.IsZero() && !near(have, mean, magnitude) {
			report(WrongValue, v.Mean, mean)
		}
	}
	return out
}

func raw(value any) bson.RawValue {
	kind, data, _ := bson.MarshalValue(value)
	return bson.RawValue{Type: kind, Value: data}
}

// number is a statistic, 0 for none.
func number(value bson.RawValue) bson.RawValue {
	if value.IsZero() {
		return raw(int32(0))
	}
	return value
}

// agree compares a count or sum; a missing one is 0. Only what is not all ints
// may differ by rounding.
func agree(have, want bson.RawValue, magnitude *big.Rat) bool {
	h, w := rawvalue.Number(number(have)), rawvalue.Number(want)
	if h == nil || w == nil {
		return same(have, want)
	}
	if h.Cmp(w) == 0 {
		return true
	}
	exact := func(v bson.RawValue) bool { return v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 }
	return magnitude != nil && !(exact(want) && exact(number(have))) && near(have, want, magnitude)
}

// near compares up to a part in 10^9 of what was added up.
func near(have, want bson.RawValue, magnitude *big.Rat) bool {
	h, w := rawvalue.Number(number(have)), rawvalue.Number(want)
	if h == nil || w == nil {
		return same(have, want)
	}
	difference := new(big.Rat).Sub(h, w)
	return difference.Abs(difference).Cmp(new(big.Rat).Mul(magnitude, big.NewRat(1, 1e9))) <= 0
}

// orphans yields the parents that items name and that do not exist.
func (s *Subset[P, T]) orphans(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		cursor, err := scan.Primary(s.items).Aggregate(ctx, mongo.Pipeline{
			{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + s.opts.ParentField}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
			{{Key: "$lookup", Value: bson.D{
				{Key: "from", Value: s.parents.Name()}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "_id"},
				{Key: "pipeline", Value: bson.A{bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}}}}, {Key: "as", Value: "parent"},
			}}},
			{{Key: "$match", Value: bson.D{{Key: "parent", Value: bson.A{}}}}},
		})
		if err != nil {
			yield(Problem{}, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			doc := append(bson.Raw(nil), cursor.Current...)
			left, err := s.abandoned(ctx, doc.Lookup("_id"))
			if err != nil {
				yield(Problem{}, err)
				return
			}
			if left && !yield(Problem{Kind: Orphan, ID: doc.Lookup("_id"), Field: s.opts.ParentField, Have: doc.Lookup("n")}, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(Problem{}, err)
		}
	}
}

// invalid yields the items that Add refuses.
func (s *Subset[P, T]) invalid(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		var or bson.A
		paths := []string{s.opts.ParentField}
		arrays := func(path string) {
			paths = append(paths, path)
			for _, step := range fieldpath.Steps(path) {
				or = append(or, bson.D{{Key: step, Value: bson.D{{Key: "$type", Value: "array"}}}})
			}
		}
		for _, e := range s.opts.Order {
			if e.Key != "_id" {
				arrays(e.Key)
			}
		}
		for _, v := range s.opts.Values {
			if v.Count == "" {
				arrays(v.Field)
				or = append(or, bson.D{{Key: v.Field, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$type", Value: "number"}}}}}},
					bson.D{{Key: v.Field, Value: bson.D{{Key: "$in", Value: bson.A{math.NaN(), math.Inf(1), math.Inf(-1)}}}}})
			}
		}
		if or == nil {
			return
		}
		cursor, err := scan.Primary(s.items).Find(ctx, bson.D{{Key: "$or", Value: or}}, options.Find().SetProjection(included(paths)))
		if err != nil {
			yield(Problem{}, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			doc := append(bson.Raw(nil), cursor.Current...)
			field, _ := s.fault(doc)
			if field != "" && !yield(Problem{Kind: InvalidItem, ID: rawvalue.Lookup(doc, s.opts.ParentField), Field: field, Have: doc.Lookup("_id")}, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(Problem{}, err)
		}
	}
}

// abandoned looks in one snapshot whether items name a parent that does not exist.
func (s *Subset[P, T]) abandoned(ctx context.Context, parent bson.RawValue) (left bool, err error) {
	id := options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})
	err = txn.Run(ctx, s.parents.Database().Client(), func(ctx context.Context) error {
		left = false
		err := s.parents.FindOne(ctx, byID(parent), id).Err()
		if !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		err = s.items.FindOne(ctx, s.of(parent), id).Err()
		if left = err == nil; errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	})
	return left, err
}
