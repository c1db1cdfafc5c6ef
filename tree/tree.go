package tree

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Tree reads and changes the shape of one tree (or several, told apart by
// their roots) in a collection. K is the type of the IDs, T that of a whole
// stored document, tree fields included as far as it has them. A Tree holds no
// state and is safe for concurrent use.
type Tree[K, T any] struct {
	c *core
}

// New returns the tree of a collection. It does no I/O.
func New[K, T any](coll *mongo.Collection, rep Representation, opts *Options) (*Tree[K, T], error) {
	if coll == nil {
		return nil, errors.New("tree: nil collection")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if of := reflect.TypeFor[T](); o.Registry == nil && scalar(of) {
		return nil, fmt.Errorf("tree: T is %v, which cannot be a document", of)
	}
	o = o.withDefaults(coll)
	if err := o.check(rep); err != nil {
		return nil, fmt.Errorf("tree: %w", err)
	}
	majority := options.Collection().SetWriteConcern(writeconcern.Majority())
	c := &core{coll: coll, durable: coll.Clone(majority), rep: rep, o: o,
		locks: coll.Database().Collection(o.LockCollection, majority)}
	for _, e := range o.Scope {
		v, err := c.encode(e.Value)
		if err != nil {
			return nil, fmt.Errorf("tree: Options.Scope: %s: %w", e.Key, err)
		}
		if checkID(v) != nil {
			return nil, fmt.Errorf("tree: Options.Scope: %s: a BSON %v does not tell trees apart", e.Key, v.Type)
		}
		c.scope = append(c.scope, bson.E{Key: e.Key, Value: v})
	}
	id, err := c.scopeID()
	if err != nil {
		return nil, fmt.Errorf("tree: Options.Scope: %w", err)
	}
	c.lockID = id
	switch rep {
	case ParentReferences:
		c.shape = linked{parentRefs{}}
	case AncestorArray:
		c.shape = linked{ancestorArray{}}
	case MaterializedPath:
		c.shape = linked{pathShape{}}
	case ChildReferences:
		c.shape = childRefs{}
	case NestedSets:
		c.shape = nestedSets{}
	}
	return &Tree[K, T]{c}, nil
}

// scalar reports whether values of a type are never documents.
func scalar(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	kind := of.Kind()
	return (kind >= reflect.Bool && kind <= reflect.Complex128 || kind == reflect.String) &&
		reflect.PointerTo(of).NumMethod() == 0 // it might marshal itself
}

// Indexes returns the indexes that the tree's reads and writes use.
func (t *Tree[K, T]) Indexes() []mongo.IndexModel {
	c := t.c
	var models []mongo.IndexModel
	add := func(unique bool, fields ...string) {
		keys := bson.D{}
		for _, e := range c.scope {
			keys = append(keys, bson.E{Key: e.Key, Value: 1})
		}
		for _, f := range fields {
			keys = append(keys, bson.E{Key: f, Value: 1})
		}
		model := mongo.IndexModel{Keys: keys}
		if unique {
			model.Options = options.Index().SetUnique(true)
		}
		models = append(models, model)
	}
	ordered := func(field string) []string {
		if c.o.OrderField != "" {
			return []string{field, c.o.OrderField}
		}
		return []string{field}
	}
	if c.o.IDField != "_id" {
		add(true, c.o.IDField)
	}
	switch c.rep {
	case ParentReferences:
		add(false, ordered(c.o.ParentField)...)
	case ChildReferences:
		add(false, c.o.ChildrenField)
	case AncestorArray:
		add(false, c.o.AncestorsField)
		add(false, ordered(c.o.ParentField)...)
	case MaterializedPath:
		if c.o.SegmentField != c.o.IDField {
			add(true, c.o.PathField, c.o.SegmentField)
		}
		if c.o.OrderField != "" || c.o.SegmentField == c.o.IDField {
			add(false, ordered(c.o.PathField)...)
		}
	case NestedSets:
		add(false, c.o.LeftField, c.o.RightField)
		add(false, c.o.ParentField, c.o.LeftField)
	}
	return models
}

// EnsureIndexes creates the indexes that are missing and the tree's lock
// document. An index that is in the way is an error that matches
// ErrIndexConflict; nothing is dropped.
//
// The indexes are the same for all scopes of a collection, so one Tree can
// create them for all: the lock document of another scope is made on first use
// too. A Tree for each scope is cheap, New does no I/O.
//
// Cost: 2 round trips when all indexes are there, otherwise 3; 1 document
// written.
func (t *Tree[K, T]) EnsureIndexes(ctx context.Context) error {
	if err := indexes.Ensure(ctx, t.c.coll, t.Indexes()); err != nil {
		return fail("ensure indexes", err)
	}
	return fail("ensure indexes", t.c.createLock(ctx))
}

// ShardKey returns the recommended shard key: the scope, so that a tree lives
// on one shard, or the ID where there is no scope.
func (t *Tree[K, T]) ShardKey() bson.D {
	key := bson.D{}
	for _, e := range t.c.scope {
		key = append(key, bson.E{Key: e.Key, Value: 1})
	}
	if len(key) == 0 {
		key = bson.D{{Key: t.c.o.IDField, Value: 1}}
	}
	return key
}

// core is what a Tree does without its type parameters: IDs are BSON values.
type core struct {
	coll, locks *mongo.Collection
	durable     *mongo.Collection // coll with majority writes, for those outside transactions
	rep         Representation
	o           Options
	scope       bson.D // values are bson.RawValue
	shape       shape
	lockID      string   // see scopeID
	extra       []string // further fields to read
}

// reading is c with further fields in what it reads of nodes.
func (c *core) reading(fields ...string) *core {
	wide := *c
	wide.extra = fields
	return &wide
}

// shape is one representation.
type shape interface {
	reader
	insert(ctx context.Context, c *core, doc bson.D, pos position) error
	move(ctx context.Context, c *core, id bson.RawValue, pos position) error
	remove(ctx context.Context, c *core, id bson.RawValue, policy DeletePolicy) (int64, error)
}

// reader is the reading side of a representation.
type reader interface {
	// owned are the fields that hold the shape.
	owned(c *core) []string
	// up yields the nodes that match and their ancestors, with fieldDepth (0
	// is the node itself) and fieldStart (the ID of the node started from).
	up(c *core, match bson.D) mongo.Pipeline
	// down yields the descendants of a node, parents before children, to a
	// depth (0 is any); with self the node comes first.
	down(c *core, id bson.RawValue, depth int, self bool) mongo.Pipeline
	// children and siblings are in order.
	children(c *core, id bson.RawValue) mongo.Pipeline
	siblings(c *core, id bson.RawValue) mongo.Pipeline
	roots(c *core) mongo.Pipeline
	leaves(c *core) mongo.Pipeline
	// childrenOf and descendantsOf are the filters from a node that was read;
	// the second is false where only a query can tell.
	childrenOf(c *core, n node) bson.D
	descendantsOf(c *core, n node, depth int) (bson.D, bool)
	ancestorsOf(c *core, n node) (bson.D, bool)
}

// Names of fields that exist only inside pipelines and, fieldTouch, inside
// transactions.
const (
	fieldDepth = "__depth"
	fieldStart = "__start"
	fieldTree  = "__tree"
	fieldTouch = "__touch"
	fieldSelf  = "__self"
)

// node is the shape of one document.
type node struct {
	raw       bson.Raw
	id        bson.RawValue
	parent    bson.RawValue // null at a root
	ancestors []bson.RawValue
	children  []bson.RawValue
	path      string // "" at a root
	segment   string
	badPath   error // why there are no paths under the node
	left      int64
	right     int64
	order     int64
	count     int64
	depth     int64
	start     bson.RawValue
}

var null = bson.RawValue{Type: bson.TypeNull}

func (c *core) parse(raw bson.Raw) node {
	n := node{raw: raw, id: raw.Lookup(c.o.IDField), parent: raw.Lookup(c.o.ParentField)}
	if isNull(n.parent) {
		n.parent = null
	}
	n.ancestors = elements(raw.Lookup(c.o.AncestorsField))
	n.children = elements(raw.Lookup(c.o.ChildrenField))
	n.path, _ = raw.Lookup(c.o.PathField).StringValueOK()
	if n.path == c.o.PathDelimiter {
		n.path = ""
	}
	if c.rep == MaterializedPath {
		n.segment, n.badPath = segmentString(raw.Lookup(c.o.SegmentField))
		if n.badPath == nil {
			n.badPath = c.checkSegment(n.segment)
		}
	}
	n.left = integer(raw.Lookup(c.o.LeftField))
	n.right = integer(raw.Lookup(c.o.RightField))
	if c.o.OrderField != "" {
		n.order = integer(raw.Lookup(c.o.OrderField))
	}
	if c.o.ChildCountField != "" {
		n.count = integer(raw.Lookup(c.o.ChildCountField))
	}
	n.depth = integer(raw.Lookup(fieldDepth))
	n.start = raw.Lookup(fieldStart)
	return n
}

// projection holds what parse reads.
func (c *core) projection() bson.D {
	out := bson.D{{Key: "_id", Value: 1}}
	fields := append([]string{c.o.IDField, fieldDepth, fieldStart}, c.shape.owned(c)...)
	if c.rep == MaterializedPath {
		fields = append(fields, c.o.SegmentField)
	}
	fields = append(fields, c.o.OrderField, c.o.ChildCountField)
	for _, f := range append(fields, c.extra...) {
		if f != "" && !has(out, f) {
			out = append(out, bson.E{Key: f, Value: 1})
		}
	}
	return out
}

func has(doc bson.D, key string) bool {
	for _, e := range doc {
		if e.Key == key {
			return true
		}
	}
	return false
}

func isNull(v bson.RawValue) bool {
	return v.Type == 0 || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined
}

func integer(v bson.RawValue) int64 {
	n, _ := v.AsInt64OK()
	return n
}

func elements(v bson.RawValue) []bson.RawValue {
	array, ok := v.ArrayOK()
	if !ok {
		return nil
	}
	values, err := array.Values()
	if err != nil {
		return nil
	}
	return values
}

// usable refuses a node without a segment of its own: the paths under it would
// be those of other nodes.
func (c *core) usable(n node) error {
	if n.badPath != nil {
		return fmt.Errorf("%s of node %s: %w", c.o.SegmentField, text(n.id), n.badPath)
	}
	return nil
}

// adopted refuses a node whose ancestors do not end with its parent: what is
// above it, and so whether a move closes a cycle, cannot be told.
func (c *core) adopted(n node) error {
	if c.rep != AncestorArray {
		return nil
	}
	last := null
	if len(n.ancestors) > 0 {
		last = n.ancestors[len(n.ancestors)-1]
	}
	if !same(last, n.parent) {
		return fmt.Errorf("node %s has parent %s and ancestors %s, run Adopt or Repair", text(n.id), text(n.parent), texts(n.ancestors))
	}
	return nil
}

func key(v bson.RawValue) string { return rawvalue.Key(v) }

// text is a value for a message.
func text(v bson.RawValue) string { return rawvalue.Text(v) }

func texts(values []bson.RawValue) string {
	array, err := encode.Value(nil, append([]bson.RawValue{}, values...))
	if err != nil {
		return err.Error()
	}
	return text(array)
}

// number is the exact value of a finite number, "" for anything else.
func number(v bson.RawValue) string {
	if n := rawvalue.Number(v); n != nil {
		return n.RatString()
	}
	return ""
}

// scopeID is the _id of the lock document: the scope in extended JSON, the same
// for all values and orders of fields that are one scope to the server.
func (c *core) scopeID() (string, error) {
	if len(c.scope) == 0 {
		return "tree", nil
	}
	sorted := slices.Clone(c.scope)
	slices.SortFunc(sorted, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	for i, e := range sorted {
		v, err := plain(e.Value.(bson.RawValue))
		if err != nil {
			return "", err
		}
		sorted[i].Value = v
	}
	id, err := bson.MarshalExtJSON(sorted, true, false)
	return string(id), err
}

// plain replaces the numbers in a value by their exact text. The order of the
// fields in a nested document counts for the server.
func plain(v bson.RawValue) (any, error) {
	if n := number(v); n != "" {
		return d("$number", n), nil
	}
	var inner []bson.RawElement
	var err error
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		inner, err = v.Document().Elements()
	case bson.TypeArray:
		inner, err = bson.Raw(v.Array()).Elements()
	default:
		return v, nil
	}
	out := bson.D{}
	for _, e := range inner {
		p, err := plain(e.Value())
		if err != nil {
			return nil, err
		}
		out = append(out, bson.E{Key: e.Key(), Value: p})
	}
	return out, err
}

func same(a, b bson.RawValue) bool { return key(a) == key(b) }

// encode makes a BSON value of a Go value with the registry of the options.
func (c *core) encode(v any) (bson.RawValue, error) {
	if raw, ok := v.(bson.RawValue); ok {
		return raw, nil
	}
	return encode.Value(c.o.Registry, v)
}

func (c *core) encodeDocument(v any) (bson.Raw, error) { return encode.Document(c.o.Registry, v) }

// id encodes an ID and refuses what cannot be one.
func (c *core) id(v any) (bson.RawValue, error) {
	id, err := c.encode(v)
	if err != nil {
		return id, fmt.Errorf("%w: id: %w", ErrInvalid, err)
	}
	return id, checkID(id)
}

func checkID(id bson.RawValue) error {
	if isNull(id) || id.Type == bson.TypeArray || id.Type == bson.TypeRegex {
		return fmt.Errorf("%w: id: a BSON %v cannot be an ID", ErrInvalid, id.Type)
	}
	return nil
}

func (c *core) decodeID(v bson.RawValue, into any) error {
	if c.o.Registry != nil {
		return v.UnmarshalWithRegistry(c.o.Registry, into)
	}
	return v.Unmarshal(into)
}

// d makes a document of keys and values by turns.
func d(pairs ...any) bson.D {
	out := make(bson.D, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// equal is a value as a filter: never an operator, whatever it holds.
func equal(v bson.RawValue) any {
	if isNull(v) {
		return nil
	}
	return rawvalue.Equal(v)
}

func literal(v any) bson.D { return d("$literal", v) }

// in filters on the scope and further conditions.
func (c *core) in(pairs ...any) bson.D {
	out := make(bson.D, 0, len(c.scope)+len(pairs)/2)
	for _, e := range c.scope {
		out = append(out, bson.E{Key: e.Key, Value: equal(e.Value.(bson.RawValue))})
	}
	return append(out, d(pairs...)...)
}

func (c *core) byID(id bson.RawValue) bson.D { return c.in(c.o.IDField, equal(id)) }

func (c *core) byIDs(ids []bson.RawValue) bson.D {
	if ids == nil {
		ids = []bson.RawValue{}
	}
	return c.in(c.o.IDField, d("$in", ids))
}

// findOne reads the shape of the node that matches; absent is the error when
// there is none.
func (c *core) findOne(ctx context.Context, match bson.D, absent error, sort ...any) (node, error) {
	opts := options.FindOne().SetProjection(c.projection())
	if len(sort) > 0 {
		opts.SetSort(d(sort...))
	}
	return c.result(c.coll.FindOne(ctx, match, opts), absent)
}

func (c *core) result(res *mongo.SingleResult, absent error) (node, error) {
	raw, err := res.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return node{}, absent
	}
	if err != nil {
		return node{}, err
	}
	return c.parse(raw), nil
}

func (c *core) find(ctx context.Context, id bson.RawValue, absent error) (node, error) {
	n, err := c.findOne(ctx, c.byID(id), absent)
	if err != nil && errors.Is(err, absent) {
		err = fmt.Errorf("%w: %s", absent, text(id))
	}
	return n, err
}

// findAll reads the shapes of all nodes that match.
func (c *core) findAll(ctx context.Context, match bson.D, sort ...any) ([]node, error) {
	opts := options.Find().SetProjection(c.projection()).SetBatchSize(math.MaxInt32)
	if len(sort) > 0 {
		opts.SetSort(d(sort...))
	}
	cursor, err := c.coll.Find(ctx, match, opts)
	if err != nil {
		return nil, err
	}
	return c.collect(ctx, cursor)
}

func (c *core) aggregate(ctx context.Context, p mongo.Pipeline) ([]node, error) {
	cursor, err := c.coll.Aggregate(ctx, p, options.Aggregate().SetBatchSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	return c.collect(ctx, cursor)
}

func (c *core) collect(ctx context.Context, cursor *mongo.Cursor) ([]node, error) {
	var raws []bson.Raw
	if err := cursor.All(ctx, &raws); err != nil {
		return nil, err
	}
	nodes := make([]node, len(raws))
	for i, raw := range raws {
		nodes[i] = c.parse(raw)
	}
	return nodes, nil
}

// errNoLock says that the lock document does not exist yet.
var errNoLock = errors.New("no lock document")

// atomically runs fn in a transaction, with the tree's lock taken first if
// locked. The lock is a write to one document, so that two restructurings of
// one tree conflict and the loser starts again from what the winner left.
func (c *core) atomically(ctx context.Context, locked bool, fn func(ctx context.Context) error) error {
	client := c.coll.Database().Client()
	joined := txn.Running(ctx)
	run := func() error {
		return txn.Run(ctx, client, func(ctx context.Context) error {
			if locked {
				if err := c.lock(ctx, joined); err != nil {
					return err
				}
			}
			return fn(ctx)
		})
	}
	err := run()
	if errors.Is(err, errNoLock) {
		if err = c.createLock(ctx); err == nil {
			err = run()
		}
	}
	return err
}

func (c *core) lock(ctx context.Context, upsert bool) error {
	res, err := c.locks.UpdateOne(ctx, d("_id", c.lockID), d("$inc", d("n", int64(1))),
		options.UpdateOne().SetUpsert(upsert))
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if res.MatchedCount == 0 && res.UpsertedCount == 0 {
		return errNoLock
	}
	return nil
}

func (c *core) createLock(ctx context.Context) error {
	// A majority has it before a snapshot is taken.
	_, err := c.locks.InsertOne(ctx, d("_id", c.lockID, "n", int64(0)))
	if mongo.IsDuplicateKeyError(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("lock document: %w", err)
	}
	return nil
}

// touch writes to the node that matches, so that a transaction which moves or
// deletes it at the same time conflicts with this one, and reads it. by is
// what it adds to the child counter. Where no counter is kept a temporary field
// does it, and untouch takes it away before the transaction ends.
func (c *core) touch(ctx context.Context, match bson.D, by int64, absent error) (node, error) {
	update := d("$set", d(fieldTouch, bson.NewObjectID()))
	if c.o.ChildCountField != "" && by != 0 {
		update = d("$inc", d(c.o.ChildCountField, by))
	}
	n, err := c.result(c.coll.FindOneAndUpdate(ctx, match, update, options.FindOneAndUpdate().
		SetProjection(c.projection()).SetReturnDocument(options.After)), absent)
	return n, c.counted(err)
}

// counted explains the server's TypeMismatch: the one $inc of any value is that
// of the child counter.
func (c *core) counted(err error) error {
	var server mongo.ServerError
	if c.o.ChildCountField != "" && errors.As(err, &server) && server.HasErrorCode(14) {
		return fmt.Errorf("%s of the parent is not a number, run Repair: %w", c.o.ChildCountField, err)
	}
	return err
}

func (c *core) untouch(ctx context.Context, n node) error {
	_, err := c.coll.UpdateOne(ctx, c.byID(n.id), d("$unset", d(fieldTouch, "")))
	return err
}

// release takes back what touch wrote to nodes, by as then, when a call is
// refused: the transaction may be the caller's and go on.
func (c *core) release(ctx context.Context, refusal error, by int64, nodes ...*node) error {
	update := d("$unset", d(fieldTouch, ""))
	if c.o.ChildCountField != "" && by != 0 {
		update = c.count(-by)
	}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		if _, err := c.coll.UpdateOne(ctx, c.byID(n.id), update); err != nil {
			return fmt.Errorf("%w (%w)", refusal, err)
		}
	}
	return refusal
}

// set updates one node and holds it a conflict if the guard no longer matches.
func (c *core) set(ctx context.Context, match bson.D, update any) error {
	res, err := c.coll.UpdateOne(ctx, match, update)
	if err == nil && res.MatchedCount == 0 {
		err = txn.Conflict("update node")
	}
	return err
}

// bump changes child counters in one command. Filters alternate with numbers;
// an empty filter or 0 is passed over.
func (c *core) bump(ctx context.Context, changes ...any) error {
	if c.o.ChildCountField == "" {
		return nil
	}
	var models []mongo.WriteModel
	for i := 0; i < len(changes); i += 2 {
		match, by := changes[i].(bson.D), changes[i+1].(int64)
		if len(match) > 0 && by != 0 {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(match).
				SetUpdate(d("$inc", d(c.o.ChildCountField, by))))
		}
	}
	return c.bulk(ctx, models)
}

func (c *core) bulk(ctx context.Context, models []mongo.WriteModel) error {
	if len(models) == 0 {
		return nil
	}
	_, err := c.coll.BulkWrite(ctx, models)
	return c.counted(err)
}

// pipelines

func (c *core) match(pairs ...any) bson.D { return d("$match", c.in(pairs...)) }

// lookup joins the collection to itself within the scope.
func (c *core) lookup(local, foreign string, stages ...bson.D) bson.D {
	spec := d("from", c.coll.Name(), "localField", local, "foreignField", foreign)
	if restrict := append(c.in(), c.noArray(foreign)...); len(restrict) > 0 {
		stages = append([]bson.D{d("$match", restrict)}, stages...)
	}
	if len(stages) > 0 {
		spec = append(spec, bson.E{Key: "pipeline", Value: stages})
	}
	return d("$lookup", append(spec, bson.E{Key: "as", Value: fieldTree}))
}

func (c *core) graphLookup(start any, from, to string, depth int) bson.D {
	spec := d("from", c.coll.Name(), "startWith", start, "connectFromField", from, "connectToField", to,
		"as", fieldTree, "depthField", fieldDepth)
	if depth > 0 {
		spec = append(spec, bson.E{Key: "maxDepth", Value: depth - 1})
	}
	restrict := append(c.in(), c.noArray(to)...)
	if to != "_id" && to == c.o.IDField {
		restrict = append(restrict, bson.E{Key: to, Value: d("$ne", nil)})
	}
	if len(restrict) > 0 {
		spec = append(spec, bson.E{Key: "restrictSearchWithMatch", Value: restrict})
	}
	return d("$graphLookup", spec)
}

// unfold makes the documents joined under fieldTree the result, with further
// fields taken from the document they were joined to.
func unfold(extra ...any) mongo.Pipeline {
	var root any = "$" + fieldTree
	if len(extra) > 0 {
		root = d("$mergeObjects", bson.A{root, d(extra...)})
	}
	return mongo.Pipeline{d("$unwind", "$"+fieldTree), d("$replaceRoot", d("newRoot", root))}
}

// twice makes two documents of one, so that unfoldSelf can keep the one and
// unfold the other. ($unionWith would do, but transactions refuse it.)
func twice() mongo.Pipeline {
	return mongo.Pipeline{d("$set", d(fieldSelf, bson.A{true, false})), d("$unwind", "$"+fieldSelf)}
}

// unlessSelf is an expression in the second of the two documents, and
// otherwise in the first.
func unlessSelf(expr, otherwise any) bson.D {
	return d("$cond", bson.A{"$" + fieldSelf, otherwise, expr})
}

func unfoldSelf() mongo.Pipeline {
	return mongo.Pipeline{
		d("$unwind", d("path", "$"+fieldTree, "preserveNullAndEmptyArrays", true)),
		d("$match", d("$or", bson.A{d(fieldSelf, true), d(fieldTree, d("$exists", true))})),
		d("$replaceRoot", d("newRoot", d("$ifNull", bson.A{"$" + fieldTree, "$$ROOT"}))),
		d("$unset", bson.A{fieldSelf, fieldTree}),
	}
}

// inOrder sorts siblings.
func (c *core) inOrder() mongo.Pipeline {
	switch {
	case c.rep == NestedSets:
		return mongo.Pipeline{d("$sort", d(c.o.LeftField, 1))}
	case c.o.OrderField != "":
		return mongo.Pipeline{d("$sort", d(c.o.OrderField, 1))}
	}
	return nil
}

func (c *core) siblingSort() []any {
	switch {
	case c.rep == NestedSets:
		return []any{c.o.LeftField, 1}
	case c.o.OrderField != "":
		return []any{c.o.OrderField, 1, "_id", 1}
	}
	return []any{"_id", 1}
}

func concat(parts ...[]bson.D) mongo.Pipeline {
	var out mongo.Pipeline
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
