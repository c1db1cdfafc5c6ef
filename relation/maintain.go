package relation

import (
	"context"
	"errors"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Have is the reference.
const (
	// Dangling is a reference to a document that does not exist. Repair removes it,
	// and with it a document of Links.
	Dangling mongopatterns.ProblemKind = "dangling"
	// OneSided is a reference that the other side lacks. Repair adds the other side;
	// but a child that has another Owner goes out of the list.
	OneSided mongopatterns.ProblemKind = "one-sided"
	// Repeated is a reference that an array has twice, or a second link of the same
	// documents. Repair leaves the first, of links that with the smallest _id.
	Repeated mongopatterns.ProblemKind = "repeated"
	// Malformed is Children or Owners that hold something else than an array, an Owner
	// that holds one, a link without one of its fields, or a document in the place of a
	// reference that is no _id, such as an embedded child (see Extract). Repair leaves
	// it.
	Malformed mongopatterns.ProblemKind = "malformed"
)

// Check finds wrong references. Work.Filter selects parents, without Children
// children, or links; with a filter, only the references of these documents are
// looked at.
//
// Cost: for each side with references, 2 round trips a batch of 1000 documents, and
// 1 more for one side of Links; 3 or 4 more for a batch with problems, which are
// looked at again in one snapshot.
func (r *Relation[P, C, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := r.core
	var all []iter.Seq2[mongopatterns.Problem, error]
	for _, e := range c.ends(work) {
		all = append(all, maintain.Check(ctx, e.coll, work, e.scan(), func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			problems, err := c.examine(ctx, e, batch)
			ids := suspects(problems)
			if err != nil || len(ids) == 0 {
				return nil, err
			}
			// A write may have been under way between the two reads.
			again := func(ctx context.Context) error {
				_, problems, err = c.again(ctx, e, ids...)
				return err
			}
			if err = c.transact(ctx, again); errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
				err = again(ctx)
			}
			return problems, err
		}))
	}
	return fault.Seq("relation: check", maintain.Chain(all...))
}

// Repair solves what Check finds, each document in a transaction of its own.
// Result.Remaining are Malformed, and references for which a list has no room.
//
// Cost: that of Check without its second look, and for each document with problems 4
// round trips, 5 of Links, and 1 for each one-sided reference; the document is written,
// and each that a one-sided reference leads to.
func (r *Relation[P, C, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "relation: repair")
	c := r.core
	for _, e := range c.ends(work) {
		one, err := maintain.Run(ctx, e.coll, work, e.scan(), func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			problems, err := c.examine(ctx, e, batch)
			for _, id := range suspects(problems) {
				var done, left int64
				err = c.transact(ctx, func(ctx context.Context) (err error) {
					done, left, err = c.repair(ctx, e, id, w.DryRun)
					return err
				})
				if err != nil {
					return err
				}
				result.Done += done
				result.Remaining += left
			}
			return err
		})
		result.Add(one)
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

// ends are the ends that have references; with a filter only those of the documents
// it selects.
func (c *core) ends(work *mongopatterns.Work) (out []end) {
	for _, e := range []end{c.toChildren, c.toParents} {
		switch {
		case e.coll == nil:
		case len(out) > 0 && (c.undirected || work != nil && work.Filter != nil && e.coll.Name() != out[0].coll.Name()):
		default:
			out = append(out, e)
		}
	}
	return out
}

// scan reads the documents with references, of links all: one without is malformed.
func (e end) scan() maintain.Scan {
	if e.between() {
		return maintain.Scan{Projection: bson.D{}}
	}
	return maintain.Scan{Filter: bson.D{{Key: e.field, Value: expr.Op("$exists", true)}}, Projection: bson.D{{Key: e.field, Value: 1}}}
}

// examine finds the problems of documents; it reads the other side in one trip.
func (c *core) examine(ctx context.Context, e end, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	var ids []bson.RawValue
	for _, doc := range batch {
		ids = append(ids, references(doc, e.field)...)
	}
	named, err := lookup(ctx, cursor.Primary(e.other), "_id", ids, e.back)
	if err != nil {
		return nil, err
	}
	links := map[[2]string]bool{} // as the other side has them
	for other, back := range named {
		for _, id := range back {
			links[[2]string{value.Key(id), other}] = true
		}
	}
	twice, err := c.twice(ctx, e, batch)
	if err != nil {
		return nil, err
	}
	for _, doc := range batch {
		self := value.Key(doc.Lookup("_id"))
		found := func(kind mongopatterns.ProblemKind, have bson.RawValue, detail string) {
			out = append(out, mongopatterns.Problem{Pattern: "relation", Kind: kind, Collection: e.coll.Name(),
				ID: doc.Lookup("_id"), Field: e.field, Have: have, Detail: detail})
		}
		v, all := doc.Lookup(e.field), references(doc, e.field)
		if isArray := v.Type == bson.TypeArray; isArray != e.array && len(all) > 0 || e.between() && len(all) == 0 {
			found(Malformed, v, "")
			continue
		}
		if twice[self] {
			found(Repeated, v, "a second link of the same two")
		}
		seen := map[string]bool{}
		for _, id := range all {
			key := value.Key(id)
			_, ok := named[key]
			switch {
			case seen[key]:
				found(Repeated, id, "")
			case !ok && id.Type == bson.TypeEmbeddedDocument:
				found(Malformed, id, "") // most likely the child itself
			case !ok:
				found(Dangling, id, "no such document in "+e.other.Name())
			case e.back != "" && !links[[2]string{self, key}]:
				found(OneSided, id, e.back+" of it has no such reference")
			}
			seen[key] = true
		}
	}
	return out, nil
}

// twice are the links of a batch that one with a smaller _id has made already, for one
// end. Without the unique index there may be such.
func (c *core) twice(ctx context.Context, e end, batch []bson.Raw) (map[string]bool, error) {
	if !e.between() || e.field != c.Child {
		return nil, nil
	}
	pairs := bson.A{bson.D{{Key: "_id", Value: expr.Op("$in", bson.A{})}}} // none
	for _, doc := range batch {
		if p, id := doc.Lookup(c.Parent), doc.Lookup(c.Child); p.Type != 0 && id.Type != 0 {
			pairs = append(pairs, c.toChildren.link(p, id))
		}
	}
	pair := bson.D{{Key: "p", Value: expr.Field(c.Parent)}, {Key: "c", Value: expr.Field(c.Child)}}
	out := map[string]bool{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.Links).Aggregate(ctx, mongo.Pipeline{expr.Op("$match", expr.Op("$or", pairs)),
			expr.Op("$group", bson.D{{Key: "_id", Value: pair}, {Key: "first", Value: expr.Op("$min", "$_id")}, {Key: "all", Value: expr.Op("$push", "$_id")}}),
			expr.Op("$match", bson.D{{Key: "all.1", Value: expr.Op("$exists", true)}})})
	}) {
		if err != nil {
			return nil, err
		}
		for _, id := range references(doc, "all") {
			out[value.Key(id)] = value.Key(id) != value.Key(doc.Lookup("first"))
		}
	}
	return out, nil
}

// suspects are the _ids of documents with problems, each once.
func suspects(problems []mongopatterns.Problem) (ids []bson.RawValue) {
	for _, p := range problems {
		ids = append(ids, p.ID)
	}
	return distinct(ids)
}

// again reads documents and examines them, in the transaction of ctx, if there is one.
func (c *core) again(ctx context.Context, e end, ids ...bson.RawValue) (batch []bson.Raw, problems []mongopatterns.Problem, err error) {
	found, err := read[bson.Raw](ctx, e.coll, "_id", ids, nil, e.scan().Projection)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		batch = append(batch, found.of(id)...)
	}
	problems, err = c.examine(ctx, e, batch)
	return batch, problems, err
}

// repair solves the problems of one document, in a transaction. It writes the
// document itself, so that links and unlinks of it conflict.
func (c *core) repair(ctx context.Context, e end, id bson.RawValue, dry bool) (done, left int64, err error) {
	docs, problems, err := c.again(ctx, e, id)
	if err != nil || len(problems) == 0 {
		return 0, 0, err
	}
	drop := map[string]bool{} // references that go
	for _, p := range problems {
		switch {
		case p.Kind == Malformed:
			return 0, 1, nil
		case p.Kind == Dangling:
			drop[value.Key(p.Have)] = true
		case p.Kind == OneSided && !dry:
			if e == c.toChildren {
				err = c.name(ctx, id, []bson.RawValue{p.Have})
			} else {
				err = c.add(ctx, p.Have, []bson.RawValue{id})
			}
			switch {
			case errors.Is(err, ErrOwned):
				drop[value.Key(p.Have)] = true
			case errors.Is(err, ErrFull):
				left++
			case err != nil:
				return 0, 0, err
			}
		}
	}
	before := references(docs[0], e.field)
	after := slices.DeleteFunc(distinct(before), func(ref bson.RawValue) bool { return drop[value.Key(ref)] })
	switch {
	case dry:
	case e.between():
		_, err = e.coll.DeleteOne(ctx, byID(id))
	case len(after) == len(before):
		err = touch(ctx, e.coll, id)
	case e.array:
		_, err = e.coll.UpdateOne(ctx, byID(id), expr.Op("$set", bson.D{{Key: e.field, Value: after}}))
	default:
		err = e.drop(ctx, byID(id), id)
	}
	return 1, left, err
}

// Extract turns documents that are embedded in Children into documents of their own,
// in their order, and leaves their _ids; one without an _id gets one. With Owner or
// Owners they name their parent. It can be stopped and run again. Work.Filter
// selects parents.
//
// A child that cannot be stored, because its _id is taken, leaves its parent as it
// is, in Result.Failed. IDs that are documents themselves cannot be told from
// children.
//
// Cost: 1 round trip a batch, and for each parent 3, its children and 1 document
// written.
func (r *Relation[P, C, T]) Extract(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "relation: extract")
	return r.core.convert(ctx, work, expr.Op("$type", "object"), r.core.extract)
}

// Embed turns references into the documents they lead to, embedded in Children, and
// deletes these. A child that the list names twice is embedded once, in its first
// place. A parent with a dangling reference, or a child that another parent has too,
// is left as it is, in Result.Failed. It can be stopped and run again. Work.Filter
// selects parents.
//
// Cost: 1 round trip a batch, and for each parent 5, its children deleted and 1
// document written.
func (r *Relation[P, C, T]) Embed(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "relation: embed")
	return r.core.convert(ctx, work, bson.D{{Key: "$elemMatch", Value: expr.Op("$not", expr.Op("$type", "object"))}}, r.core.embed)
}

// convert runs a conversion of each parent whose Children match a condition, in a
// transaction each: write gets the elements and returns those that take their place.
func (c *core) convert(ctx context.Context, work *mongopatterns.Work, condition bson.D, write func(ctx context.Context, p bson.RawValue, elements []bson.RawValue) (bson.A, error)) (mongopatterns.Result, error) {
	if c.Children == "" || c.self {
		return mongopatterns.Result{}, fault.Invalid("a conversion needs Options.Children, and two collections")
	}
	return maintain.Run(ctx, c.parents, work, maintain.Scan{
		Filter:     bson.D{{Key: c.Children, Value: condition}},
		Projection: bson.D{{Key: c.Children, Value: 1}},
	}, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		for _, doc := range batch {
			if w.DryRun {
				result.Done++
				continue
			}
			id, before := doc.Lookup("_id"), doc.Lookup(c.Children)
			err := c.transact(ctx, func(ctx context.Context) error {
				after, err := write(ctx, id, references(doc, c.Children))
				if err != nil {
					return err
				}
				unchanged := append(byID(id), bson.E{Key: "$expr", Value: expr.Op("$eq", expr.Field(c.Children), expr.Literal(before))})
				updated, err := c.parents.UpdateOne(ctx, unchanged, expr.Op("$set", bson.D{{Key: c.Children, Value: after}}))
				if err == nil && updated.MatchedCount == 0 {
					err = errChanged
				}
				return err
			})
			switch {
			case err == nil:
				result.Done++
			case errors.Is(err, errChanged) && !txn.Running(ctx):
				result.Skipped++
			case !w.Strict && !txn.Running(ctx) && (fault.Refused(err) || errors.Is(err, ErrReferenced) || errors.Is(err, ErrNoChild)):
				result.Fail(c.parents.Name(), id, err)
			default:
				return fault.Of(id, err)
			}
		}
		return nil
	})
}

// errChanged: a parent was changed since it was read; the next run finds it.
var errChanged = errors.New("changed meanwhile")

func (c *core) extract(ctx context.Context, p bson.RawValue, elements []bson.RawValue) (bson.A, error) {
	ids, docs := bson.A{}, []any(nil)
	for _, e := range elements {
		embedded, ok := e.DocumentOK()
		if !ok {
			ids = append(ids, e) // a reference already
			continue
		}
		id, doc, err := c.child(embedded, p)
		if err != nil {
			return nil, err
		}
		ids, docs = append(ids, id), append(docs, doc)
	}
	_, err := c.children.InsertMany(ctx, docs)
	return ids, err
}

func (c *core) embed(ctx context.Context, p bson.RawValue, elements []bson.RawValue) (bson.A, error) {
	elements = distinct(elements)
	ids := slices.DeleteFunc(slices.Clone(elements), func(e bson.RawValue) bool { return e.Type == bson.TypeEmbeddedDocument })
	found, err := read[bson.Raw](ctx, c.children, "_id", ids, nil, nil)
	if err != nil {
		return nil, err
	}
	shared, err := exists(ctx, c.parents, append(in(c.Children, ids), bson.E{Key: "_id", Value: expr.Op("$ne", p)}))
	if shared {
		err = ErrReferenced
	}
	if err != nil {
		return nil, err
	}
	out := bson.A{}
	for _, e := range elements {
		if e.Type == bson.TypeEmbeddedDocument {
			out = append(out, e)
			continue
		}
		docs := found.of(e)
		if len(docs) == 0 {
			return nil, fault.Of(e, ErrNoChild)
		}
		if slices.ContainsFunc(references(docs[0], c.up), func(id bson.RawValue) bool { return value.Key(id) != value.Key(p) }) {
			return nil, fault.Of(e, ErrReferenced)
		}
		doc, err := c.fields(docs[0].Lookup("_id"), docs[0])
		if err != nil {
			return nil, err
		}
		out = append(out, doc)
	}
	_, err = c.children.DeleteMany(ctx, in("_id", ids))
	return out, err
}
