package archive

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Apart: the document that companions belong to is only on the other side. Collection and ID name one companion, and
// Field and Have its document. Repair moves the companions to their document, except those that have other content
// there.
const Apart mongopatterns.ProblemKind = "apart"

// A Companion is a collection of documents that belong to those of an Archive, and move with them.
type Companion struct {
	// Live and Archived are its two collections, of the same client.
	Live, Archived *mongo.Collection
	// Field is the path of the field with the _id of the document that a companion belongs to; "_id" if both have the
	// same. It must not be in an array, and no step of it may be a number.
	Field string
}

// A companion is a Companion on one way.
type companion struct {
	from, to *scoped.Collection
	field    string
}

// join checks the fields of companions, and that no collection is used twice.
func (a *Archive) join() error {
	tenant := a.live.Scope()
	named := []any{"live", a.live.Driver(), "archived", a.archived.Driver()}
	for i := range a.opts.Companions {
		c := a.opts.Companions[i]
		option := fmt.Sprintf("Options.Companions[%d]", i)
		if c.Field == "" {
			return fault.Invalid("%s.Field: it must name the field with the _id of the document", option)
		}
		if err := config.Apply(config.Named(option+".Field", &c.Field, "")); err != nil {
			return err
		}
		named = append(named, option+".Live", c.Live, option+".Archived", c.Archived)
		a.companions = append(a.companions, companion{scoped.On(c.Live).In(tenant), scoped.On(c.Archived).In(tenant), c.Field})
	}
	return config.OfOneClient(named...)
}

// followed yields the field and both collections of each companion.
func (a *Archive) followed() iter.Seq2[string, *scoped.Collection] {
	return func(yield func(string, *scoped.Collection) bool) {
		for _, c := range a.companions {
			if !yield(c.field, c.from) || !yield(c.field, c.to) {
				return
			}
		}
	}
}

// of selects the companions of parents.
func (c companion) of(parents []bson.RawValue) bson.D {
	return expr.D(c.field, expr.Op("$in", parents))
}

// A load is what a transaction moves of a companion.
type load struct {
	companion
	filter bson.D // selects docs, and perhaps others
	docs   []bson.Raw
	same   map[string]bool // the value.Key of the _ids that the other side has with the same content
}

// gather reads the companions of parents in a transaction. With look it compares them with the other side, and returns
// the parents of those that differ there as refused.
func (w *way) gather(ctx context.Context, parents []bson.Raw, look bool) (loads []load, refused []refusal, err error) {
	room, met := w.room, map[string]bool{}
	for _, c := range w.with {
		l := load{companion: c, filter: c.of(transfer.IDs(parents))}
		more, err := l.read(ctx, &room)
		if err != nil {
			return nil, nil, err
		}
		if more {
			return nil, nil, maintain.TooLarge(fault.Of(parents[0].Lookup("_id"),
				fault.Invalid("its companions are larger than Work.BatchBytes, and one transaction moves all of them")))
		}
		if len(l.docs) == 0 {
			continue
		}
		if look {
			differ, err := l.compare(ctx)
			if err != nil {
				return nil, nil, err
			}
			for _, doc := range differ {
				parent := value.Lookup(doc, c.field)
				if met[value.Key(parent)] {
					continue
				}
				met[value.Key(parent)] = true
				refused = append(refused, refusal{parent, fault.Of(parent, fmt.Errorf("%w: %s has its companion %s with other content",
					fault.ErrExists, c.to.Name(), value.Text(doc.Lookup("_id"))))})
			}
		}
		loads = append(loads, l)
	}
	return loads, refused, nil
}

// accompany moves the companions of documents, except of those that it returns as refused.
func (w *way) accompany(ctx context.Context, parents []bson.Raw) (refused []refusal, err error) {
	if len(parents) == 0 {
		return nil, nil
	}
	loads, refused, err := w.gather(ctx, parents, true)
	if err != nil {
		return nil, err
	}
	stay := keysOf(refused)
	leaving := slices.DeleteFunc(transfer.IDs(parents), func(id bson.RawValue) bool { return stay[value.Key(id)] })
	for i, l := range loads {
		loads[i].docs = slices.DeleteFunc(l.docs, func(doc bson.Raw) bool { return stay[value.Key(value.Lookup(doc, l.field))] })
		loads[i].filter = l.of(leaving) // on shards, a companion of another parent can have the same _id
	}
	return refused, deliver(ctx, loads)
}

// keysOf are the value.Keys of what is refused.
func keysOf(refused []refusal) map[string]bool {
	out := map[string]bool{}
	for _, r := range refused {
		out[value.Key(r.id)] = true
	}
	return out
}

// read reads the documents of the filter while they have room, and at least one. It reports whether there are more.
func (l *load) read(ctx context.Context, room *int) (more bool, err error) {
	for doc, err := range cursor.Find(ctx, l.from, l.filter, options.Find().SetBatchSize(replies)) {
		if err != nil {
			return false, err
		}
		if len(l.docs) > 0 && len(doc) > *room {
			return true, nil
		}
		if kind := value.Lookup(doc, l.field).Type; kind == 0 || kind == bson.TypeArray {
			return false, fault.Refuse(fault.Of(doc.Lookup("_id"), fmt.Errorf("%w: %q of the companion is in an array, or is one", fault.ErrMalformed, l.field)))
		}
		*room -= len(doc)
		l.docs = append(l.docs, doc)
	}
	return false, nil
}

// replies is more documents than the 16 MiB of a reply hold.
const replies = 1 << 20

// compare looks for the documents on the other side. It takes those that have other content there out of the load, and
// returns them. On shards, several can have one _id: all of these stay if one of them differs from all that are there.
func (l *load) compare(ctx context.Context) (differ []bson.Raw, err error) {
	if len(l.docs) == 0 {
		return nil, nil
	}
	others, err := transfer.ByID(ctx, l.to, l.docs, nil)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	there := map[string][]bson.Raw{}
	for _, other := range others {
		key := value.Key(other.Lookup("_id"))
		there[key] = append(there[key], other)
	}
	l.same = map[string]bool{}
	for _, doc := range l.docs {
		key := value.Key(doc.Lookup("_id"))
		equal := slices.ContainsFunc(there[key], func(other bson.Raw) bool { return bytes.Equal(doc, other) })
		if before, known := l.same[key]; there[key] != nil {
			l.same[key] = equal && (before || !known)
		}
	}
	var rest []bson.Raw
	for _, doc := range l.docs {
		if same, met := l.same[value.Key(doc.Lookup("_id"))]; met && !same {
			differ = append(differ, doc)
		} else {
			rest = append(rest, doc)
		}
	}
	l.docs = rest
	return differ, nil
}

// deliver moves what was gathered.
//
// Cost: 2 round trips for each load, 1 if the other side has all of it.
func deliver(ctx context.Context, loads []load) error {
	for _, l := range loads {
		if len(l.docs) == 0 {
			continue
		}
		var arrivals []mongo.WriteModel
		for _, doc := range l.docs {
			if field := value.Replaced(doc); field != "" {
				return fault.Refuse(emptied(doc, field))
			}
			if !l.same[value.Key(doc.Lookup("_id"))] {
				arrivals = append(arrivals, mongo.NewInsertOneModel().SetDocument(doc))
			}
		}
		var departures []mongo.WriteModel
		for ids := range value.Chunks(transfer.IDs(l.docs)) {
			departures = append(departures, mongo.NewDeleteManyModel().SetFilter(expr.And(l.filter, expr.D("_id", expr.Op("$in", ids)))))
		}
		if err := transfer.Exchange(ctx, l.from, l.to, arrivals, departures, int64(len(l.docs))); err != nil {
			return err
		}
	}
	return nil
}

// A stray is a companion on the way to its documents.
type stray struct {
	companion
	parents, parentsThere *scoped.Collection
}

// strays are the ways of all companions: to the archive, and back.
func (a *Archive) strays() (all []stray) {
	for _, c := range a.companions {
		all = append(all, stray{c, a.live, a.archived}, stray{companion{c.to, c.from, c.field}, a.archived, a.live})
	}
	return all
}

// scan reads the _ids of the documents that companions belong to. It needs only the keys of an index on the field.
func (s stray) scan() maintain.Scan {
	return maintain.Scan{Pipeline: mongo.Pipeline{expr.Op("$group", expr.D("_id", expr.Field(s.field)))}}
}

// lost returns those of the documents that are only on the other side.
func (s stray) lost(ctx context.Context, parents []bson.Raw) ([]bson.Raw, error) {
	parents = slices.DeleteFunc(slices.Clone(parents), func(doc bson.Raw) bool { // nothing has such an _id
		return value.CheckID(doc.Lookup("_id")) != nil
	})
	if len(parents) == 0 {
		return nil, nil
	}
	here, err := transfer.ByID(ctx, cursor.Primary(s.parents), parents, expr.D("_id", 1))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, doc := range here {
		found[value.Key(doc.Lookup("_id"))] = true
	}
	var missing []bson.Raw
	for _, doc := range parents {
		if !found[value.Key(doc.Lookup("_id"))] {
			missing = append(missing, doc)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return transfer.ByID(ctx, cursor.Primary(s.parentsThere), missing, expr.D("_id", 1))
}

// counted is the pipeline that counts the companions of each document, and finds one of them.
func (s stray) counted(match bson.D) mongo.Pipeline {
	group := expr.Op("$group", expr.D("_id", expr.Field(s.field), "n", expr.Op("$sum", 1), "first", expr.Op("$min", "$_id")))
	return mongo.Pipeline{expr.Op("$match", match), group, expr.Op("$sort", expr.D("_id", 1))}
}

// inArrays counts the companions that name their documents in an array. Such a document cannot move.
func (s stray) inArrays(ctx context.Context, batch []bson.Raw) ([]bson.Raw, error) {
	arrays := bson.A{}
	for _, doc := range batch {
		named, _ := doc.Lookup("_id").ArrayOK()
		if values, err := named.Values(); err == nil && len(values) > 0 {
			arrays = append(arrays, expr.Literal(doc.Lookup("_id")))
		}
	}
	if len(arrays) == 0 {
		return nil, nil
	}
	return cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(s.from).Aggregate(ctx, s.counted(expr.Op("$expr", expr.Op("$in", expr.Field(s.field), arrays))))
	}))
}

// problem is one of the companions in a document of counted.
func (s stray) problem(kind mongopatterns.ProblemKind, counted bson.Raw, detail string) mongopatterns.Problem {
	return mongopatterns.Problem{Pattern: "archive", Kind: kind, Collection: s.from.Name(), ID: counted.Lookup("first"), Field: s.field,
		Have: counted.Lookup("_id"), Detail: fmt.Sprintf("%d documents; %s", counted.Lookup("n").AsInt64(), detail)}
}

// problems names the strays of a batch of documents, which it reads again in one snapshot, and those in arrays.
func (s stray) problems(ctx context.Context, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	arrays, err := s.inArrays(ctx, batch)
	if err != nil {
		return nil, err
	}
	for _, doc := range arrays {
		out = append(out, s.problem(mongopatterns.Malformed, doc, "what they belong to cannot move"))
	}
	lost, err := s.lost(ctx, batch)
	if err != nil || len(lost) == 0 {
		return out, err
	}
	var apart []mongopatterns.Problem
	err = txn.Run(ctx, s.from, func(ctx context.Context) error {
		apart = nil
		lost, err := s.lost(ctx, lost)
		if err != nil || len(lost) == 0 {
			return err
		}
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return s.from.Aggregate(ctx, s.counted(s.of(transfer.IDs(lost))))
		}) {
			if err != nil {
				return err
			}
			if doc.Lookup("_id").Type != bson.TypeArray {
				apart = append(apart, s.problem(Apart, doc, "theirs is in "+s.parentsThere.Name()))
			}
		}
		return nil
	})
	return append(out, apart...), err
}

// finish moves the strays of a batch of documents, in as many transactions as they need.
func (s stray) finish(ctx context.Context, batch []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
	arrays, err := s.inArrays(ctx, batch)
	if err != nil {
		return err
	}
	for _, doc := range arrays {
		result.Remaining += doc.Lookup("n").AsInt64()
	}
	lost, err := s.lost(ctx, batch)
	if err != nil || len(lost) == 0 {
		return err
	}
	scan := maintain.Scan{Filter: s.of(transfer.IDs(lost)), Projection: expr.D("_id", 1, "of", expr.Field(s.field)), Whole: true}
	for part, err := range maintain.Batches(ctx, s.from, work, scan) {
		if err != nil {
			return err
		}
		strays := make([]bson.RawValue, len(part))
		for i, doc := range part {
			strays[i] = value.Embedded(doc)
		}
		for some := range value.Chunks(strays) { // with what they name, as the filter has both
			if err := s.bring(ctx, lost, some, work, result); err != nil {
				return err
			}
		}
	}
	return nil
}

// named returns the _ids of strays, and those of the documents that they belong to. It leaves out strays that name their
// documents in an array, which stay.
func named(lost []bson.Raw, strays []bson.RawValue) (ids []bson.RawValue, parents []bson.Raw) {
	names := map[string]bool{}
	for _, v := range strays {
		if of := v.Document().Lookup("of"); of.Type != bson.TypeArray {
			ids = append(ids, v.Document().Lookup("_id"))
			names[value.Key(of)] = true
		}
	}
	for _, doc := range lost {
		if names[value.Key(doc.Lookup("_id"))] {
			parents = append(parents, doc)
		}
	}
	return ids, parents
}

// bring moves strays, each given as {_id, of}, to those of their documents that are still on the other side.
//
// Cost: 8 round trips.
func (s stray) bring(ctx context.Context, lost []bson.Raw, strays []bson.RawValue, work mongopatterns.Work, result *mongopatterns.Result) error {
	ids, parents := named(lost, strays)
	var l load
	var differ []bson.Raw
	err := maintain.Once(ctx, s.from, func(ctx context.Context) error {
		l, differ = load{companion: s.companion}, nil
		lost, err := s.lost(ctx, parents)
		if err != nil || len(lost) == 0 {
			return err
		}
		if !work.DryRun { // they must not leave while their companions arrive
			if err := hold.Documents(ctx, s.parentsThere, expr.D("_id", expr.Op("$in", transfer.IDs(lost)))); err != nil {
				return err
			}
		}
		room := math.MaxInt // they are a batch
		l.filter = append(s.of(transfer.IDs(lost)), expr.Element("_id", expr.Op("$in", ids)))
		if _, err := l.read(ctx, &room); err != nil {
			return err
		}
		if differ, err = l.compare(ctx); err != nil || work.DryRun {
			return err
		}
		l.filter = s.of(transfer.IDs(lost)) // deliver adds the _ids
		return deliver(ctx, []load{l})
	})
	if err != nil {
		return err
	}
	result.Done += int64(len(l.docs))
	result.Remaining += int64(len(differ))
	return nil
}
