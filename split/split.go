package split

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Split keeps each document in two collections: the hot fields H, which lists read, and
// the cold fields C, which only the page of one document reads. ID is the type of their
// common ID. It is safe for concurrent use.
type Split[ID, H, C any] struct{ core *core }

var _ mongopatterns.Checker = (*Split[int, bson.D, bson.D])(nil)

// core does the work on BSON.
type core struct {
	hot, cold *scoped.Collection
	idField   string
	fields    []string // the cold fields; nil if not known
	hotFields []string // the fields of H; nil if not known
	keep      Side
	codec     codec.Codec
	both      bson.A // the stages of Get after its $match
	present   any    // conditions; a hot document with cold fields meets one of them
}

// Options names the fields of a Split.
type Options struct {
	// IDField is the name of the field in the cold document that holds the _id of the hot
	// one, such as "movie_id". Default "_id": both documents have the same _id.
	IDField string
	// ColdFields are the top-level fields that belong in the cold document. Default nil: the fields
	// of C, if that is a struct. For another C the cold fields are not known, so Adopt is refused,
	// and Check does not find fields on the wrong side.
	ColdFields []string

	// Prefer names the document whose value Adopt and Repair keep if a cold field is [InBoth].
	// Other writes always leave both values. Default "": Adopt and Repair also leave both, and
	// count the document as Remaining.
	Prefer Side

	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter, start every index and are stored in every new document. The values are strings,
	// numbers and similar. Null, an array or a regular expression is refused. A document or an update with another
	// value is ErrInvalid, and an ID of another tenant is not found. Default none: all documents of the collections.
	Scope bson.D

	// Registry and BSON encode IDs and documents. By default BSON is what the client has. The client's registry cannot
	// be read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// A Side is one of the two documents of an ID.
type Side string

// The sides.
const (
	Hot  Side = "hot"
	Cold Side = "cold"
)

// New returns a Split over two collections of one database. It does no I/O.
//
// ID is the type of the _ids. H and C are the types of the hot and the cold document: structs,
// maps or bson.D that encode to documents without a common field besides the ID. opts may be nil.
// All programs that write the collections must have the same cold fields.
func New[ID, H, C any](hot, cold *mongo.Collection, opts *Options) (s *Split[ID, H, C], err error) {
	defer fault.In(&err, "split.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	if err := config.Collections("hot", hot, "cold", cold); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Scope = slices.Clone(o.Scope)
	if err := config.Apply(append(config.Scope(o.Scope), config.Name("Options.IDField", &o.IDField, "_id"))...); err != nil {
		return nil, err
	}
	c := &core{idField: o.IDField, fields: slices.Clone(o.ColdFields), keep: o.Prefer}
	c.codec = codec.New(hot, o.Registry, o.BSON)
	of, err := scope.New(c.codec, o.Scope)
	if err != nil {
		return nil, err
	}
	c.hot, c.cold = scoped.On(hot).In(of), scoped.On(cold).In(of)
	option := "Options.ColdFields"
	if len(c.fields) == 0 {
		option = "fields of C"
		coldFields, _ := c.codec.Fields(reflect.TypeFor[C]())
		c.fields = slices.DeleteFunc(coldFields, c.isID)
	}
	c.both = c.stages()
	present := bson.A{}
	for _, field := range c.fields {
		present = append(present, expr.D(field, expr.D("$exists", true)))
	}
	c.present = expr.Fixed(present)
	c.hotFields, _ = c.codec.Fields(reflect.TypeFor[H]())
	for what, t := range map[string]reflect.Type{"H": reflect.TypeFor[H](), "C": reflect.TypeFor[C]()} {
		if err := c.codec.CheckExtended(what, t); err != nil {
			return nil, err
		}
	}
	err = config.Apply(
		config.Check("Options.Prefer", func() error { return checkSide(o.Prefer) }),
		config.Check("fields of C", func() error { return readable[ID, C](c) }),
		config.Check(option, c.checkColdFields))
	if err != nil {
		return nil, err
	}
	return &Split[ID, H, C]{c}, nil
}

// checkSide refuses a value of Options.Prefer that is no Side; "" is none.
func checkSide(s Side) error {
	if !slices.Contains([]Side{"", Hot, Cold}, s) {
		return fmt.Errorf("%q is neither Hot nor Cold", string(s))
	}
	return nil
}

// checkColdFields refuses names that cannot be those of cold fields.
func (c *core) checkColdFields() error {
	for i, field := range c.fields {
		switch {
		case c.isID(field) || field == hold.Field:
			return fmt.Errorf("%q cannot be a cold field", field)
		case slices.Contains(c.fields[:i], field):
			return fmt.Errorf("%q is given twice", field)
		case slices.Contains(c.hotFields, field):
			return fmt.Errorf("%q is also a field of H", field)
		}
		if err := fieldpath.CheckName("name", field); err != nil {
			return err
		}
	}
	return nil
}

// readable refuses a struct C that cannot decode the cold documents that Adopt makes. It accepts
// a type that decodes itself, as its fields are not known.
func readable[ID, C any](c *core) error {
	names, _ := c.codec.Fields(reflect.TypeFor[C]())
	var id ID
	value, err := c.codec.Value(id)
	if err != nil {
		return nil // for the calls to refuse
	}
	made := expr.D(c.idField, value)
	if c.idField != "_id" {
		made = append(made, expr.Element("_id", bson.ObjectID{}))
	}
	for _, e := range made {
		if !slices.Contains(names, e.Key) {
			continue
		}
		raw, err := bson.Marshal(bson.D{e})
		if err != nil {
			return fmt.Errorf("%q cannot hold the %T that Adopt stores there: %w", e.Key, e.Value, err)
		}
		if err = c.codec.DecodeGiven(raw, new(C)); err != nil {
			return fmt.Errorf("%q cannot hold the %T that Adopt stores there: %w", e.Key, e.Value, err)
		}
	}
	return nil
}

func (c *core) ready(ctx context.Context, work *mongopatterns.Work) error {
	return maintain.Ready(ctx, work, c.hot, c.cold)
}

// inBoth are the fields that both documents have.
func (c *core) inBoth() []string {
	names := []string{"_id", c.idField}
	for _, f := range c.hot.Scope().Fields() {
		names = append(names, f.Name)
	}
	return names
}

func (c *core) isID(field string) bool {
	return field == "_id" || field == c.idField || c.hot.Scope().Has(field)
}

// Indexes returns the unique index {movie_id: 1} of the cold documents, which begins with the scope, or none if IDField
// is _id.
func (s *Split[ID, H, C]) Indexes() map[string][]mongo.IndexModel {
	if s.core.idField == "_id" {
		return nil
	}
	return map[string][]mongo.IndexModel{s.core.cold.Name(): {
		{Keys: s.core.cold.Scope().Keys(expr.D(s.core.idField, 1)), Options: options.Index().SetUnique(true)}}}
}

// EnsureIndexes creates the index of the cold documents if it is missing. If an index on the
// same key has other options, it returns mongopatterns.ErrIndexConflict.
//
// Cost: 2 round trips, 3 if an index is missing; 1 if IDField is _id.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (s *Split[ID, H, C]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "split.EnsureIndexes")
	defer fault.In(&err, "split.EnsureIndexes")
	if err := s.core.ready(ctx, nil); err != nil {
		return err
	}
	if err := s.core.codec.CheckClient(ctx, s.core.hot, reflect.TypeFor[ID](), reflect.TypeFor[H](), reflect.TypeFor[C]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, s.core.cold.Database(), s.Indexes())
}

// ShardKey returns the recommended shard keys, which are the scope and then _id for the hot documents, and {movie_id:
// 1} for the cold ones.
func (s *Split[ID, H, C]) ShardKey() map[string]bson.D {
	return map[string]bson.D{
		s.core.hot.Name():  s.core.hot.Scope().Keys(expr.D("_id", 1)),
		s.core.cold.Name(): s.core.cold.Scope().Keys(expr.D(s.core.idField, 1)),
	}
}

// HotFilter selects the hot document of an ID.
func (s *Split[ID, H, C]) HotFilter(id ID) bson.D { return s.core.filter("_id", id) }

// ColdFilter selects the cold document of an ID.
func (s *Split[ID, H, C]) ColdFilter(id ID) bson.D { return s.core.filter(s.core.idField, id) }

func (c *core) filter(field string, id any) bson.D {
	return c.hot.Scope().Match(expr.D(field, c.codec.Condition(id)))
}

func (c *core) hotOf(id bson.RawValue) bson.D { return expr.D("_id", value.Equal(id)) }

func (c *core) coldOf(id bson.RawValue) bson.D { return expr.Is(c.idField, id) }

// GetHot returns the hot document of an ID, or mongopatterns.ErrNotFound. For lists use
// your own Find on the hot collection.
//
// Cost: 1 round trip, 1 key and 1 document, index _id.
func (s *Split[ID, H, C]) GetHot(ctx context.Context, id ID) (hot H, err error) {
	ctx = comment.Call(ctx, "split.GetHot")
	defer fault.In(&err, "split.GetHot")
	raw, err := s.core.codec.ID("id", id)
	if err != nil {
		return hot, err
	}
	err = fault.Found(raw, cursor.One(s.core.hot.FindOne(ctx, s.core.hotOf(raw)), &hot))
	return hot, err
}

// GetCold returns the cold document of an ID, or mongopatterns.ErrNotFound. It also returns
// ErrNotFound if Adopt has not split the document yet; Get reads such documents.
//
// Cost: 1 round trip, 1 key and 1 document, index {movie_id}.
func (s *Split[ID, H, C]) GetCold(ctx context.Context, id ID) (cold C, err error) {
	ctx = comment.Call(ctx, "split.GetCold")
	defer fault.In(&err, "split.GetCold")
	raw, err := s.core.codec.ID("id", id)
	if err != nil {
		return cold, err
	}
	err = fault.Found(raw, cursor.One(s.core.cold.FindOne(ctx, s.core.coldOf(raw)), &cold))
	return cold, err
}

// Get returns both documents of an ID. It returns cold fields of the hot document as part of the
// cold one, so that the result is the same before and after Adopt. For a field that is InBoth it
// returns the cold document's value. It returns mongopatterns.ErrNotFound if the hot document does
// not exist, or if there is neither a cold document nor a cold field.
//
// Cost: 1 round trip; 1 key and 1 document of each collection.
func (s *Split[ID, H, C]) Get(ctx context.Context, id ID) (hot H, cold C, err error) {
	ctx = comment.Call(ctx, "split.Get")
	defer fault.In(&err, "split.Get")
	type document struct {
		Hot  H   `bson:"hot" json:"hot"`
		Cold []C `bson:"cold" json:"cold"`
	}
	raw, err := s.core.codec.ID("id", id)
	if err != nil {
		return hot, cold, err
	}
	docs, err := cursor.Collect(cursor.Decode[document](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return s.core.hot.Aggregate(ctx,
			expr.Pipeline(append(bson.A{expr.D("$match", s.core.hotOf(raw))}, s.core.both...)...))
	}))
	switch {
	case err != nil:
		err = fault.Of(raw, err)
	case len(docs) == 0:
		err = fault.Of(raw, mongopatterns.ErrNotFound)
	case len(docs[0].Cold) == 0:
		return docs[0].Hot, cold, fault.Of(raw, fmt.Errorf("%w: the cold document is missing", mongopatterns.ErrNotFound))
	default:
		hot, cold = docs[0].Hot, docs[0].Cold[0]
	}
	return hot, cold, err
}

// stages turn a hot document into {hot: …, cold: [one or none]}. They are the same in every
// call, so they are encoded once.
func (c *core) stages() (encoded bson.A) {
	whole := expr.Op("$mergeObjects", expr.D(c.idField, "$hot._id"), first("$cold"), without("$$own", c.contestedOnServer("$$own", first("$cold"))))
	none := expr.Op("$and", expr.Op("$eq", "$cold", bson.A{}), expr.Op("$eq", "$$own", expr.Literal(bson.D{})))
	pipeline := mongo.Pipeline{
		expr.D("$replaceWith", expr.D("hot", "$$ROOT")),
		c.lookup("hot._id"),
		expr.D("$set", expr.D("cold", expr.Let("own", c.own("$hot"), expr.Cond(none, bson.A{}, bson.A{whole})))),
	}
	if len(c.fields) > 0 {
		var cold bson.A
		for _, field := range c.fields {
			cold = append(cold, "hot."+field)
		}
		pipeline = append(pipeline, expr.D("$unset", cold))
	}
	for _, stage := range pipeline {
		raw, _ := bson.Marshal(stage) // of strings, which can always be encoded
		encoded = append(encoded, bson.Raw(raw))
	}
	return encoded
}

// lookup reads the cold document of an ID into "cold".
func (c *core) lookup(id string, pipeline ...bson.D) bson.D { return c.join(id, "cold", pipeline...) }

func (c *core) join(id, as string, pipeline ...bson.D) bson.D {
	lookup := expr.D("from", c.cold.Name(), "localField", id, "foreignField", c.idField)
	if c.idField != "_id" { // the server also finds a document with an array of IDs
		pipeline = append([]bson.D{expr.Op("$match", expr.NoArray(c.idField))}, pipeline...)
	}
	if pipeline = c.cold.Scope().Stages(pipeline); len(pipeline) > 0 {
		lookup = append(lookup, expr.Element("pipeline", mongo.Pipeline(pipeline)))
	}
	return expr.D("$lookup", append(lookup, expr.Element("as", as)))
}

// own is the expression for the cold fields of a hot document.
func (c *core) own(hot string) bson.D {
	return expr.Op("$arrayToObject", expr.Filter(expr.Op("$objectToArray", hot), "field",
		expr.Op("$in", "$$field.k", expr.Literal(append([]string{}, c.fields...)))))
}

// without is a document without the fields of these names, which are mostly none.
func without(doc string, names any) bson.D {
	some := expr.Op("$arrayToObject", expr.Filter(expr.Op("$objectToArray", doc), "field",
		expr.Op("$not", expr.Op("$in", "$$field.k", "$$names"))))
	return expr.Let("names", names, expr.Cond(expr.Op("$eq", "$$names", bson.A{}), doc, some))
}

// first is the first document of an array, or an empty document.
func first(array string) bson.D {
	return expr.IfNull(expr.Op("$arrayElemAt", array, 0), expr.Literal(bson.D{}))
}

// JoinPipeline turns hot documents into whole ones. Append it to a $match and $limit on
// the hot collection. If both documents have a field, the hot one's is used, unless Check
// reports it as InBoth.
func (s *Split[ID, H, C]) JoinPipeline() mongo.Pipeline {
	c := s.core
	own := expr.D("_id", 0)
	if c.idField != "_id" {
		own = append(own, expr.Element(c.idField, 0))
	}
	last := any("$hot")
	if len(c.fields) > 0 {
		last = without("$hot", c.contestedOnServer(c.own("$hot"), first("$cold")))
	}
	return mongo.Pipeline{
		expr.D("$replaceWith", expr.D("hot", "$$ROOT")),
		c.lookup("hot._id", expr.D("$project", own)),
		expr.D("$replaceWith", expr.Op("$mergeObjects", "$hot", first("$cold"), last)),
	}
}
