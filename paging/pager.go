package paging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	defaultPageSize = 20
	defaultGroup    = 10
	defaultBatch    = 500

	maxSize  = math.MaxInt32 - 8 // of a page, so that a batch size holds it
	maxGroup = 1_000_000         // so that no skip overflows
)

var (
	// ErrInvalidToken says that a token is damaged, signed by another key, or made for another
	// list, order or direction. Start again from the first page. It matches ErrInvalid.
	ErrInvalidToken = fault.New("invalid token", mongopatterns.ErrInvalid)

	// ErrOutOfReach says that Request.Number is more than Options.Group pages away from the page of
	// Request.From. It matches ErrInvalid.
	ErrOutOfReach = fault.New("page out of reach", mongopatterns.ErrInvalid)

	// ErrUnsortable says that a document, which it names, has no place in the order. A sort field
	// holds an array, undefined, a regular expression, a symbol under the collation of
	// Options.Find, or a value nested more than 100 levels deep. Or the sort values are together
	// too large for a token (48 KB). Or a text `_id` may tie under that collation (see
	// Options.DistinctIDs). It matches ErrMalformed.
	ErrUnsortable = fault.New("unsortable value", mongopatterns.ErrMalformed)
)

// Pager reads one collection in one order. T is the type that a document decodes into. It is safe for
// concurrent use.
type Pager[T any] struct {
	core *core
}

// core does the work on BSON.
type core struct {
	coll       *scoped.Collection
	order      order
	id         int // of _id in order
	opts       Options
	codec      codec.Codec
	find       options.FindOptions // what opts.Find says, with the projection to send
	projection projected
	scope      *scope.Scope
	collated   bool // under a collation that may take different ids for equal
	orderHash  hash
}

// New makes a Pager for the documents of coll in the order of sort, which has paths with 1 or -1.
// Paths may be dotted. `_id` is added at the end, so an empty sort is by `_id`. The sort cannot
// hold $meta.
func New[T any](coll *mongo.Collection, sort bson.D, opts *Options) (p *Pager[T], err error) {
	defer fault.In(&err, "paging.New")
	if opts == nil {
		opts = &Options{}
	}
	core, err := newCore(coll, sort, *opts)
	if err != nil {
		return nil, err
	}
	if err := core.codec.CheckDocuments("T", reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	return &Pager[T]{core}, nil
}

func newCore(coll *mongo.Collection, sort bson.D, opts Options) (*core, error) {
	p := &core{coll: scoped.On(coll), opts: opts, codec: codec.New(coll, opts.Registry, opts.BSON)}
	if err := config.Collections("collection", coll); err != nil {
		return nil, err
	}
	if err := p.setScope(opts); err != nil {
		return nil, err
	}
	err := config.Apply(
		config.Number("Options.PageSize", &p.opts.PageSize, defaultPageSize, 1, maxSize),
		config.Number("Options.Group", &p.opts.Group, defaultGroup, 1, maxGroup),
		config.Check("sort", func() error { return p.setOrder(sort) }),
		config.Check("Options.Equality", p.checkEquality),
		config.Check("Options.SigningKeys", func() error { return p.setSigningKeys(opts.SigningKeys) }),
		config.Check("Options.Find", func() error { return p.setFind(opts.Find) }),
		config.Check("Options.Find: let", p.hashOrder),
		config.Check("Options.Find: projection", func() (err error) {
			p.projection, p.find.Projection, err = planProjection(p.codec, p.find.Projection, p.order)
			return err
		}),
	)
	return p, err
}

// setScope sets the scope, and Equality with its fields first.
func (p *core) setScope(opts Options) (err error) {
	p.opts.Scope, p.opts.Equality = slices.Clone(opts.Scope), nil
	if err := config.Apply(config.Scope(p.opts.Scope)...); err != nil {
		return err
	}
	if p.scope, err = scope.New(p.codec, p.opts.Scope); err != nil {
		return err
	}
	for _, e := range p.opts.Scope {
		p.opts.Equality = append(p.opts.Equality, e.Key)
	}
	p.opts.Equality = append(p.opts.Equality, opts.Equality...)
	return nil
}

func (p *core) setOrder(sort bson.D) (err error) {
	p.order, err = newOrder(sort)
	p.id = p.order.index("_id")
	return err
}

func (p *core) setSigningKeys(keys [][]byte) error {
	p.opts.SigningKeys = nil
	for _, key := range keys {
		if len(key) < minKey {
			return fmt.Errorf("a key has %d bytes and must have %d or more: a shorter one can be guessed from a token", len(key), minKey)
		}
		p.opts.SigningKeys = append(p.opts.SigningKeys, slices.Clone(key))
	}
	return nil
}

// setFind sets the options of a find, of which the projection is still the user's.
func (p *core) setFind(find *options.FindOptionsBuilder) (err error) {
	p.find, err = findOptions(find)
	p.collated = p.find.Collation != nil && p.find.Collation.Locale != "simple"
	if p.collated {
		err = cmp.Or(err, p.scope.CheckCollation())
	}
	return err
}

// hashOrder sets the hash of what determines the order of the list.
func (p *core) hashOrder() error {
	let, err := p.codec.Document(cmp.Or[any](p.find.Let, bson.D{}))
	// Under the name $sort the order of the fields counts.
	list := expr.Raw(expr.D("database", p.coll.Database().Name(), "collection", p.coll.Name(),
		"$sort", p.order.document(false), "collation", p.find.Collation, "let", let))
	p.orderHash = hashOf(value.Embedded(list), asExpression)
	return cmp.Or(err, list.Validate()) // all malformed lists would have one hash
}

func (p *core) checkEquality() error {
	for i, path := range p.opts.Equality {
		if err := fieldpath.CheckPath("path", path); err != nil {
			return err
		}
		if p.order.index(path) >= 0 || slices.Contains(p.opts.Equality[:i], path) {
			return errors.New(path + " is already part of the index")
		}
	}
	return nil
}

// Indexes returns the index that serves the pages. It has the scope and Options.Equality, then the sort with
// `_id`, under the collation of Options.Find, which is part of its name. A sort by `_id` alone
// needs no index; under a collation the server does it in memory.
func (p *Pager[T]) Indexes() map[string][]mongo.IndexModel {
	c := p.core
	if len(c.order) == 1 && len(c.opts.Equality) == 0 {
		return map[string][]mongo.IndexModel{}
	}
	keys := append(ascending(c.opts.Equality), c.order.document(false)...)
	model := mongo.IndexModel{Keys: keys}
	if c.find.Collation != nil {
		collation := *c.find.Collation
		model.Options = options.Index().SetCollation(&collation).SetName(indexName(keys, collation))
	}
	return map[string][]mongo.IndexModel{c.coll.Name(): {model}}
}

func ascending(paths []string) bson.D {
	out := make(bson.D, 0, len(paths)+1)
	for _, path := range paths {
		out = append(out, expr.Element(path, 1))
	}
	return out
}

// indexName is the driver's name with the collation: "name_1__id_1_en_strength_2".
func indexName(keys bson.D, collation options.Collation) string {
	var name strings.Builder
	for _, e := range keys {
		fmt.Fprintf(&name, "%s_%v_", e.Key, e.Value)
	}
	name.WriteString(collation.Locale)
	collation.Locale = ""
	raw, _ := bson.Marshal(collation)
	elements, _ := bson.Raw(raw).Elements()
	for _, e := range elements {
		name.WriteString("_" + e.Key() + "_" + strings.Trim(value.Text(e.Value()), `"`))
	}
	return name.String()
}

// EnsureIndexes creates the index if it is missing, and drops none. If an index on the same fields
// has other options, it returns ErrIndexConflict.
//
// Cost: 1 round trip, 2 if an index is missing, none for a sort by `_id` alone.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
//   - With text in Options.Scope, 1 more for the default collation of the collection.
func (p *Pager[T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "paging.EnsureIndexes")
	defer fault.In(&err, "paging.EnsureIndexes")
	if err := p.core.codec.CheckClient(ctx, p.core.coll, reflect.TypeFor[T]()); err != nil {
		return err
	}
	if p.core.scope.CheckCollation() != nil {
		if err := collation.Refuse(ctx, p.core.coll); err != nil {
			return err
		}
	}
	return indexes.EnsureAll(ctx, p.core.coll.Database(), p.Indexes())
}

// ShardKey returns the recommended shard key. It is the scope, Options.Equality and `_id`, so that one shard
// can hold the whole list, or without both a hashed `_id`.
func (p *Pager[T]) ShardKey() map[string]bson.D {
	c := p.core
	key := expr.D("_id", "hashed")
	if len(c.opts.Equality) > 0 {
		key = append(ascending(c.opts.Equality), expr.Element("_id", 1))
	}
	return map[string]bson.D{c.coll.Name(): key}
}
