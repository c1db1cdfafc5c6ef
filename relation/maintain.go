package relation

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Have is the reference.
const (
	// OneSided: a reference that the other side lacks. Repair adds the other side, but if the
	// child's OwnerField names another parent, it removes the child from the list.
	OneSided mongopatterns.ProblemKind = "one-sided"
)

// Check finds wrong references. Work.Filter selects parents, or links, or children if there is
// neither ChildrenField nor Links. With a filter it checks only the references in the selected
// documents.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Dangling: a reference, of the Go type of the IDs, to a document that does not exist. Repair removes
//     the reference, or deletes the link.
//   - Duplicate: a reference that an array holds twice, or a second link of the same documents. Repair keeps
//     the first reference, or the link with the smallest _id.
//   - Malformed: ChildrenField or OwnersField is not an array, an OwnerField is one, a link lacks one of its
//     fields, or a reference cannot be an _id (null, a regular expression, an array, an embedded child, see
//     Extract) or cannot be looked up (Detail says why). Malformed is also a reference to no document that the
//     Go type of the ID cannot hold, such as "2" where IDs are ints, because it may mean the document 2. Repair
//     leaves the document with the reference alone, so correct it.
//
// Cost: 1 round trip; for each side with references 2 round trips for each batch of 1000 documents.
//   - One side of Links: 1 more for each batch.
//   - A batch with problems, which are looked at again in one snapshot: 3 or 4 more.
func (r *Relation[ParentID, ChildID, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "relation.Check")
	c := r.core
	var all []iter.Seq2[mongopatterns.Problem, error]
	for _, s := range c.sides(work) {
		all = append(all, maintain.Check(ctx, s.holder, work, s.scan(), func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			return c.check(ctx, s, batch)
		}))
	}
	return fault.Seq("relation.Check", collation.Seq(ctx, maintain.Chain(all...), c.collections()...))
}

// check finds the problems of a batch. If the server refuses to look up all references of the
// batch together, it checks the documents one by one.
func (c *core) check(ctx context.Context, s side, batch []bson.Raw) ([]mongopatterns.Problem, error) {
	found, err := c.confirmed(ctx, s, batch)
	if !fault.Refused(err) || txn.Running(ctx) {
		return found, err
	}
	if len(batch) == 1 {
		return []mongopatterns.Problem{{Pattern: "relation", Kind: mongopatterns.Malformed, Collection: s.holder.Name(),
			ID: batch[0].Lookup("_id"), Field: s.field, Have: batch[0].Lookup(s.field), Detail: err.Error()}}, nil
	}
	var all []mongopatterns.Problem
	for i := range batch {
		one, err := c.check(ctx, s, batch[i:i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// confirmed returns the problems of a batch that a second look confirms: a write may have happened
// between the two reads of the first look.
func (c *core) confirmed(ctx context.Context, s side, batch []bson.Raw) ([]mongopatterns.Problem, error) {
	problems, err := c.examine(ctx, s, batch)
	if err != nil {
		return nil, err
	}
	ids := suspects(problems)
	if len(ids) == 0 {
		return nil, nil
	}
	again := func(ctx context.Context) error {
		_, problems, err = c.again(ctx, s, ids...)
		return err
	}
	if err = c.transact(ctx, again); errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
		err = again(ctx)
	}
	return problems, err
}

// Repair repairs what Check finds, each document in a transaction of its own. Result.Remaining
// counts Malformed documents, and references for which a list has no room. A dry run does not look for room.
//
// Cost: that of Check without its second look, and for each document with problems 4 round trips and 1 write.
//   - Links: 5.
//   - Each one-sided reference: 1 more, and 1 write to the document that it leads to.
func (r *Relation[ParentID, ChildID, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "relation.Repair")
	defer fault.In(&err, "relation.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	c := r.core
	if err := collation.Refuse(ctx, c.collections()...); err != nil {
		return result, err
	}
	for _, s := range c.sides(work) {
		one, err := maintain.Run(ctx, s.holder, work, s.scan(), func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			problems, err := c.examine(ctx, s, batch)
			if err != nil {
				return err
			}
			for _, id := range suspects(problems) {
				var done, left int64
				err = c.transact(ctx, func(ctx context.Context) (err error) {
					done, left, err = c.repair(ctx, s, id, w.DryRun)
					return err
				})
				if err != nil {
					return err
				}
				result.Done += done
				result.Remaining += left
			}
			return nil
		})
		maintain.Add(&result, one)
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

// sides returns the sides with references; with a filter, only the side in the documents that it
// selects.
func (c *core) sides(work *mongopatterns.Work) (out []side) {
	for _, s := range []side{c.toChildren, c.toParents} {
		switch {
		case s.holder == nil:
		case len(out) > 0 && (c.undirected || work != nil && work.Filter != nil && s.holder.Name() != out[0].holder.Name()):
		default:
			out = append(out, s)
		}
	}
	return out
}

// scan reads the documents with references; of links it reads all, as one without is malformed.
func (s side) scan() maintain.Scan {
	if s.between() {
		return maintain.Scan{Projection: bson.D{}}
	}
	return maintain.Scan{Filter: expr.D(s.field, expr.Op("$exists", true)), Projection: expr.D(s.field, 1)}
}

// examine finds the problems of documents; it reads the other side in one round trip.
func (c *core) examine(ctx context.Context, s side, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	var ids []bson.RawValue
	for _, doc := range batch {
		ids = append(ids, references(doc, s.field)...)
	}
	named, err := referred(ctx, cursor.Primary(s.target), s.key, ids, s.back)
	if err != nil {
		return nil, err
	}
	links := map[[2]string]bool{} // in the fields of the other side
	for other, back := range named {
		for _, id := range back {
			links[[2]string{value.Key(id), other}] = true
		}
	}
	twice, err := c.twice(ctx, s, batch)
	if err != nil {
		return nil, err
	}
	for _, doc := range batch {
		self := value.Key(doc.Lookup("_id"))
		found := func(kind mongopatterns.ProblemKind, have bson.RawValue, detail string) {
			out = append(out, mongopatterns.Problem{Pattern: "relation", Kind: kind, Collection: s.holder.Name(),
				ID: doc.Lookup("_id"), Field: s.field, Have: have, Detail: detail})
		}
		v, all := doc.Lookup(s.field), references(doc, s.field)
		missingField := v.Type == 0 || v.Type == bson.TypeNull
		if isArray := v.Type == bson.TypeArray; !missingField && isArray != s.array || s.between() && len(all) == 0 {
			found(mongopatterns.Malformed, v, "")
			continue
		}
		if twice[self] {
			found(mongopatterns.Duplicate, v, "a second link of the same two")
		}
		seen := map[string]bool{}
		for _, id := range all {
			key := value.Key(id)
			_, ok := named[key]
			switch {
			case malformed(id), !ok && !c.isID(s, id):
				found(mongopatterns.Malformed, id, "")
			case seen[key]:
				found(mongopatterns.Duplicate, id, "")
			case !ok:
				found(mongopatterns.Dangling, id, "no such document in "+s.target.Name())
			case s.back != "" && !links[[2]string{self, key}]:
				found(OneSided, id, s.back+" of it has no such reference")
			}
			seen[key] = true
		}
	}
	return out, nil
}

// twice returns the links of a batch that repeat one with a smaller _id; it does so for one of
// the two ends. They can exist only without the unique index.
func (c *core) twice(ctx context.Context, s side, batch []bson.Raw) (map[string]bool, error) {
	if !s.between() || s.field != c.opts.ChildField {
		return nil, nil
	}
	pairs := bson.A{expr.D("_id", expr.Op("$in", bson.A{}))} // matches nothing, in case of no pairs
	for _, doc := range batch {
		if p, id := doc.Lookup(c.opts.ParentField), doc.Lookup(c.opts.ChildField); !malformed(p) && !malformed(id) {
			pairs = append(pairs, c.toChildren.link(p, id))
		}
	}
	pair := expr.D("p", expr.Field(c.opts.ParentField), "c", expr.Field(c.opts.ChildField))
	out := map[string]bool{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.links).Aggregate(ctx, mongo.Pipeline{expr.Op("$match", expr.Op("$or", pairs)),
			expr.Op("$group", expr.D("_id", pair, "first", expr.Op("$min", "$_id"), "all", expr.Op("$push", "$_id"))),
			expr.Op("$match", expr.D("all.1", expr.Op("$exists", true)))})
	}) {
		if err != nil {
			return nil, err
		}
		for _, id := range references(doc, "all") {
			out[value.Key(id)] = !value.Same(id, doc.Lookup("first"))
		}
	}
	return out, nil
}

// suspects returns the _ids of documents with problems, each once.
func suspects(problems []mongopatterns.Problem) (ids []bson.RawValue) {
	for _, p := range problems {
		ids = append(ids, p.ID)
	}
	return distinct(ids)
}

// again reads documents and examines them, in the transaction of ctx if it has one.
func (c *core) again(ctx context.Context, s side, ids ...bson.RawValue) (batch []bson.Raw, problems []mongopatterns.Problem, err error) {
	found, err := read[bson.Raw](ctx, s.holder, "_id", ids, nil, s.scan().Projection)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		batch = append(batch, found.of(id)...)
	}
	problems, err = c.examine(ctx, s, batch)
	return batch, problems, err
}

// repair repairs one document, in a transaction. It writes the document itself, so that links and
// unlinks of it conflict.
func (c *core) repair(ctx context.Context, s side, id bson.RawValue, dry bool) (done, left int64, err error) {
	docs, problems, err := c.again(ctx, s, id)
	if err != nil || len(problems) == 0 {
		return 0, 0, err
	}
	if slices.ContainsFunc(problems, func(p mongopatterns.Problem) bool { return p.Kind == mongopatterns.Malformed }) {
		return 0, 1, nil
	}
	added, drop := false, map[string]bool{} // whether the other side got a reference; references to remove
	for _, p := range problems {
		switch {
		case p.Kind == mongopatterns.Dangling:
			drop[value.Key(p.Have)] = true
		case p.Kind == OneSided && !dry:
			if s == c.toChildren {
				err = c.addToChildren(ctx, id, []bson.RawValue{p.Have})
			} else {
				err = c.addToParent(ctx, p.Have, []bson.RawValue{id})
			}
			switch {
			case errors.Is(err, errArray), errors.Is(err, ErrFull):
				left++
			case errors.Is(err, ErrOwned):
				drop[value.Key(p.Have)] = true
			case err != nil:
				return 0, 0, err
			default:
				added = true
			}
		}
	}
	before := references(docs[0], s.field)
	after := slices.DeleteFunc(distinct(before), func(ref bson.RawValue) bool { return drop[value.Key(ref)] })
	switch {
	case dry:
	case s.between():
		_, err = fault.One(s.holder.DeleteOne(ctx, expr.ByID(id)))
	case len(after) == len(before):
		err = hold.Documents(ctx, s.holder, expr.ByID(id))
	case s.array:
		_, err = fault.One(s.holder.UpdateOne(ctx, expr.ByID(id), expr.Op("$set", expr.D(s.field, after))))
	default:
		err = s.drop(ctx, expr.ByID(id), id)
	}
	if dry || added || s.between() || len(after) < len(before) {
		done = 1
	}
	return done, left, err
}

// Extract turns documents that are embedded in ChildrenField into documents of their own, and
// leaves their _ids there, in the same order. A document without an _id gets one. OwnerField or
// OwnersField are set to the parent. Extract can be stopped and run again; it then takes the
// documents that were embedded since. Work.Filter selects parents.
//
// A parent is not changed and counted as Failed if its ChildrenField is not an array, or if one of
// its children is embedded twice or cannot be stored. A child cannot be stored if its _id exists already or cannot be an
// _id, if OwnerField or OwnersField holds another value than the parent's _id, or if it has an
// empty timestamp in a top-level field, which the server would replace. But an embedded child that
// is already stored with the same content is only linked, because a program that replaces whole
// parents may have put it back. Result.Remaining counts parents that others kept changing. IDs that
// are documents themselves are taken for children.
//
// Cost: 1 round trip and 1 for each batch, and for each parent 3, its children and 1 document written.
//   - An _id that is taken: 3 more at most.
//   - Whenever the parent changes meanwhile: 4 more.
func (r *Relation[ParentID, ChildID, T]) Extract(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "relation.Extract")
	defer fault.In(&err, "relation.Extract")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return r.core.convert(ctx, work, expr.Op("$type", "object"), r.core.extract)
}

// Embed turns references into the documents that they name, embedded in ChildrenField, and deletes
// these documents. A child that the list names twice is embedded once, in its first place. A parent
// is not changed and counted as Failed if its ChildrenField is not an array, or has a dangling or malformed
// reference, or a child that another parent also has. Result.Remaining counts parents that others kept changing. Embed can be
// stopped and run again. Work.Filter selects parents.
//
// Cost: 1 round trip and 1 for each batch, and for each parent 5, its children deleted and 1 document written.
//   - Whenever the parent changes meanwhile: 6 more.
func (r *Relation[ParentID, ChildID, T]) Embed(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "relation.Embed")
	defer fault.In(&err, "relation.Embed")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return r.core.convert(ctx, work, expr.Op("$elemMatch", expr.Op("$not", expr.Op("$type", "object"))), r.core.embed)
}

// conversion takes the elements of a parent's ChildrenField and returns those that replace them.
// It runs in a transaction; again says that the last attempt met an _id that exists already. A dry one neither
// reads nor writes.
type conversion func(ctx context.Context, p bson.RawValue, elements []bson.RawValue, again, dry bool) ([]bson.RawValue, error)

// convert runs a conversion for each parent whose ChildrenField matches a condition, each in a
// transaction. It names those in which the field is no array.
func (c *core) convert(ctx context.Context, work *mongopatterns.Work, condition bson.D, write conversion) (mongopatterns.Result, error) {
	if c.opts.ChildrenField == "" || c.oneCollection {
		return mongopatterns.Result{}, fault.Invalid("Options.ChildrenField: it must be set, and parents and children must be two collections")
	}
	if err := collation.Refuse(ctx, c.collections()...); err != nil {
		return mongopatterns.Result{}, err
	}
	other := expr.D("$exists", true, "$not", expr.Op("$type", bson.A{"array", "null", "undefined"}))
	scan := maintain.Scan{
		Filter:     expr.Op("$or", expr.D(c.opts.ChildrenField, condition), expr.D(c.opts.ChildrenField, other)),
		Projection: expr.D(c.opts.ChildrenField, 1),
	}
	return maintain.Run(ctx, c.parents, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		for _, doc := range batch {
			err := c.convertOne(ctx, doc, scan, w.DryRun, write)
			id, alone := doc.Lookup("_id"), !txn.Running(ctx)
			switch {
			case err == nil:
				result.Done++
			case errors.Is(err, errNothing):
				result.Skipped++
			case errors.Is(err, errChanged) && alone:
				result.Remaining++
			case !w.Strict && alone && (fault.Refused(err) || errors.Is(err, mongopatterns.ErrInvalid) || errors.Is(err, mongopatterns.ErrReferenced) || errors.Is(err, ErrNoChild)):
				maintain.Fail(result, c.parents.Name(), id, err)
			default:
				return fault.Of(id, err)
			}
		}
		return nil
	})
}

var (
	// errChanged: a parent was changed between its read and its write.
	errChanged = errors.New("the parent has changed meanwhile")
	// errNothing: a parent does not exist any more, or has nothing to convert any more.
	errNothing = errors.New("nothing to convert")
)

// conversions bounds how often a parent is read again because others change it meanwhile.
const conversions = 10

// convertOne converts a parent, and reads it again while others change it.
func (c *core) convertOne(ctx context.Context, doc bson.Raw, scan maintain.Scan, dry bool, write conversion) (err error) {
	id, taken := doc.Lookup("_id"), false
	for range conversions {
		before := doc.Lookup(c.opts.ChildrenField)
		if before.Type != bson.TypeArray {
			return fault.Invalid("%q is not an array", c.opts.ChildrenField)
		}
		if dry {
			_, err = write(ctx, id, references(doc, c.opts.ChildrenField), false, true)
			return err
		}
		err = c.transact(ctx, func(ctx context.Context) error {
			after, err := write(ctx, id, references(doc, c.opts.ChildrenField), taken, false)
			if err != nil {
				return err
			}
			unchanged := append(expr.ByID(id), expr.Element("$expr", expr.Op("$eq", expr.Field(c.opts.ChildrenField), expr.Literal(before))))
			updated, err := fault.One(c.parents.UpdateOne(ctx, unchanged, expr.Op("$set", expr.D(c.opts.ChildrenField, value.Array(after)))))
			if err == nil && updated.MatchedCount == 0 {
				err = errChanged
			}
			return err
		})
		switch {
		case txn.Running(ctx):
			return err
		case mongo.IsDuplicateKeyError(err) && !taken:
			taken = true
			continue
		case !errors.Is(err, errChanged):
			return err
		}
		found, again := cursor.Primary(c.parents).FindOne(ctx, append(expr.ByID(id), scan.Filter...), options.FindOne().SetProjection(scan.Projection)).Raw()
		if errors.Is(again, mongo.ErrNoDocuments) {
			return errNothing
		} else if again != nil {
			return again
		}
		doc = found
	}
	return err
}

// extract stores the embedded children, except those stored already with the same content.
func (c *core) extract(ctx context.Context, p bson.RawValue, elements []bson.RawValue, again, dry bool) ([]bson.RawValue, error) {
	ids, docs, seen := []bson.RawValue(nil), []bson.D(nil), map[string]bool{}
	for _, e := range elements {
		embedded, ok := e.DocumentOK()
		if !ok {
			ids = append(ids, e) // a reference already
			continue
		}
		id, doc, err := c.child(embedded, p)
		if field := value.Replaced(embedded); err == nil && field != "" { // inside the parent it stays
			err = fault.Of(id, fault.Invalid("%q is the empty timestamp, which the server would replace", field))
		}
		if err != nil {
			return nil, err
		}
		if err = c.unowned(id, embedded, p); err != nil {
			return nil, err
		}
		if seen[value.Key(id)] {
			return nil, fault.Of(id, fault.Invalid("%q holds the child twice", c.opts.ChildrenField))
		}
		seen[value.Key(id)] = true
		ids, docs = append(ids, id), append(docs, doc)
	}
	if dry {
		return ids, nil
	}
	if again {
		var err error
		if docs, err = c.unstored(ctx, p, docs); err != nil {
			return nil, err
		}
		ids = distinct(ids)
	}
	if len(docs) == 0 {
		return ids, nil
	}
	_, err := fault.Many(c.children.InsertMany(ctx, docs))
	return ids, err
}

// unowned refuses an embedded child whose field for its parents has another value, which would be lost.
func (c *core) unowned(id bson.RawValue, child bson.Raw, p bson.RawValue) error {
	for _, own := range references(child, c.inChild) {
		if !value.Same(own, p) {
			option := "OwnerField"
			if c.toParents.array {
				option = "OwnersField"
			}
			return fault.Of(id, fault.Invalid("the child holds %s in %q, which would be lost: choose another Options.%s, or $unset it",
				value.Text(own), c.inChild, option))
		}
	}
	return nil
}

// unstored returns the documents that are not stored already as a child of p with the same fields.
func (c *core) unstored(ctx context.Context, p bson.RawValue, docs []bson.D) ([]bson.D, error) {
	var ids []bson.RawValue
	for _, doc := range docs {
		ids = append(ids, doc[0].Value.(bson.RawValue))
	}
	found, err := read[bson.Raw](ctx, c.children, "_id", ids, nil, nil)
	if err != nil {
		return nil, err
	}
	same := func(id bson.RawValue) bool { return value.Same(id, p) }
	return slices.DeleteFunc(docs, func(doc bson.D) bool {
		all := found.of(doc[0].Value.(bson.RawValue))
		if len(all) == 0 {
			return false
		}
		stored := all[0] // an _id has one document
		fields, err := c.fields(stored.Lookup("_id"), stored)
		if c.inChild != "" {
			doc = doc[:len(doc)-1]
		}
		// The embedded child may lack the scope.
		fields = slices.DeleteFunc(fields, func(e bson.E) bool {
			return c.scope().Has(e.Key) && !slices.ContainsFunc(doc, func(own bson.E) bool { return own.Key == e.Key })
		})
		return err == nil && maps.Equal(content(doc), content(fields)) &&
			(c.inChild == "" || slices.ContainsFunc(references(stored, c.inChild), same))
	}), nil
}

// content maps a document's fields to their values, without an order.
func content(doc bson.D) map[string]string {
	out := make(map[string]string, len(doc))
	for _, e := range doc {
		v := e.Value.(bson.RawValue)
		out[e.Key] = string(append([]byte{byte(v.Type)}, v.Value...))
	}
	return out
}

func (c *core) embed(ctx context.Context, p bson.RawValue, elements []bson.RawValue, _, dry bool) ([]bson.RawValue, error) {
	if dry {
		return nil, nil
	}
	elements = distinct(elements)
	ids := slices.DeleteFunc(slices.Clone(elements), func(e bson.RawValue) bool { return e.Type == bson.TypeEmbeddedDocument })
	if i := slices.IndexFunc(ids, malformed); i >= 0 {
		return nil, fault.Invalid("%q holds %s: %w", c.opts.ChildrenField, value.Text(ids[i]), value.CheckID(ids[i]))
	}
	found, err := read[bson.Raw](ctx, c.children, "_id", ids, nil, nil)
	if err != nil {
		return nil, err
	}
	shared, err := maintain.Holds(ctx, c.parents, append(in(c.opts.ChildrenField, ids), expr.Element("_id", expr.Op("$ne", p))))
	if err != nil {
		return nil, err
	}
	if shared {
		return nil, mongopatterns.ErrReferenced
	}
	var out []bson.RawValue
	for _, e := range elements {
		if e.Type == bson.TypeEmbeddedDocument {
			out = append(out, e)
			continue
		}
		docs := found.of(e)
		if len(docs) == 0 {
			return nil, fault.Of(e, ErrNoChild)
		}
		if slices.ContainsFunc(references(docs[0], c.inChild), func(id bson.RawValue) bool { return !value.Same(id, p) }) {
			return nil, fault.Of(e, mongopatterns.ErrReferenced)
		}
		doc, err := c.fields(docs[0].Lookup("_id"), docs[0])
		if err != nil {
			return nil, err
		}
		embedded, err := codec.Codec{}.Value(slices.DeleteFunc(doc, func(e bson.E) bool { return c.scope().Has(e.Key) }))
		if err != nil {
			return nil, err
		}
		out = append(out, embedded)
	}
	_, err = fault.Many(c.children.DeleteMany(ctx, in("_id", ids)))
	return out, err
}
