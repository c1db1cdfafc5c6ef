package subset

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Split keeps each document in two collections: the hot fields H, which lists
// read, and the cold fields C, which only the page of one document reads. Both
// belong to one ID, the _id of the hot document. It is safe for concurrent use.
type Split[ID, H, C any] struct {
	hot, cold *mongo.Collection
	idField   string
	fields    []string // the cold ones; nil if they are not known
	registry  *bson.Registry
}

// SplitOptions names the fields of a Split.
type SplitOptions struct {
	// IDField holds, in the cold document, the _id of the hot one: "movie_id" say.
	// A name, no path. Default "_id": both documents have the same.
	IDField string
	// ColdFields are the top-level fields that belong into the cold document:
	// Adopt moves them there, and Check and Repair know by them what is on the
	// wrong side. All programs must know the same before one of them adopts: what
	// a write does not know to be in the hot document still, Adopt puts over it.
	// Default nil: the fields of C if that is a struct, else not known.
	ColdFields []string
	// Registry encodes IDs and documents. Give the client's own registry if it has
	// one: a collection does not show it. Default nil: the driver's.
	Registry *bson.Registry
}

// NewSplit returns a Split over two collections of one database. It does no I/O.
//
// ID is the type of the _ids; H and C are structs, maps or bson.D that encode to
// documents without a field in common, besides the ID's. opts may be nil.
func NewSplit[ID, H, C any](hot, cold *mongo.Collection, opts *SplitOptions) (*Split[ID, H, C], error) {
	if err := checkCollections("hot", hot, "cold", cold); err != nil {
		return nil, err
	}
	var o SplitOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.IDField, "_id")
	if err := fieldpath.CheckName("SplitOptions.IDField", o.IDField); err != nil {
		return nil, fmt.Errorf("subset: %w", err)
	}
	s := &Split[ID, H, C]{hot: hot, cold: cold, idField: o.IDField, fields: slices.Clone(o.ColdFields), registry: o.Registry}
	option := "SplitOptions.ColdFields"
	if len(s.fields) == 0 {
		option = "fields of C"
		s.fields = slices.DeleteFunc(fieldsOf(reflect.TypeFor[C]()), s.isID)
	}
	of := fieldsOf(reflect.TypeFor[H]())
	for i, field := range s.fields {
		if err := fieldpath.CheckName(option, field); err != nil {
			return nil, fmt.Errorf("subset: %w", err)
		}
		switch {
		case s.isID(field) || field == fieldTouch:
			return nil, fmt.Errorf("subset: %s: %q is not a cold field", option, field)
		case slices.Contains(s.fields[:i], field):
			return nil, fmt.Errorf("subset: %s: %q stands twice", option, field)
		case slices.Contains(of, field):
			return nil, fmt.Errorf("subset: %s: %q is a field of H too", option, field)
		}
	}
	return s, nil
}

func (s *Split[ID, H, C]) isID(field string) bool { return field == "_id" || field == s.idField }

// fieldsOf are the names under which the driver stores a struct's fields.
func fieldsOf(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		tag, ok := f.Tag.Lookup("bson")
		if !ok && !strings.Contains(string(f.Tag), ":") {
			tag = string(f.Tag)
		}
		name, flags, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case slices.Contains(strings.Split(flags, ","), "inline"):
			out = append(out, fieldsOf(f.Type)...)
		case !f.IsExported():
		case name == "":
			out = append(out, strings.ToLower(f.Name))
		default:
			out = append(out, name)
		}
	}
	return out
}

// Indexes returns the index of the cold documents, unique {movie_id: 1}; none if
// IDField is _id. Hot documents are found by _id.
func (s *Split[ID, H, C]) Indexes() []mongo.IndexModel {
	if s.idField == "_id" {
		return nil
	}
	return []mongo.IndexModel{{Keys: bson.D{{Key: s.idField, Value: 1}}, Options: options.Index().SetUnique(true)}}
}

// EnsureIndexes creates the index of the cold documents if it is missing. An index
// on the same key with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if it is there, else 2; none if IDField is _id.
func (s *Split[ID, H, C]) EnsureIndexes(ctx context.Context) error {
	models := s.Indexes()
	if len(models) == 0 {
		return nil
	}
	if err := indexes.Ensure(ctx, s.cold, models); err != nil {
		return fmt.Errorf("subset: %w", err)
	}
	return nil
}

// ShardKey returns the recommended shard key of the cold documents, {movie_id:
// 1}. Shard the hot ones by _id.
func (s *Split[ID, H, C]) ShardKey() bson.D { return bson.D{{Key: s.idField, Value: 1}} }

// Insert stores both documents of an ID, or none. It sets _id in the hot one and
// IDField in the cold one, whatever they hold there. A duplicate-key error of the
// driver if the ID exists; ErrInvalid if a field is on the wrong side.
//
// Cost: 3 round trips, 2 documents written.
func (s *Split[ID, H, C]) Insert(ctx context.Context, id ID, hot H, cold C) error {
	docs, err := s.documents(id, hot, cold)
	if err == nil {
		err = txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
			if _, err := s.hot.InsertOne(ctx, docs.hot); err != nil {
				return err
			}
			_, err := s.cold.InsertOne(ctx, docs.cold)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("subset: insert: %w", err)
	}
	return nil
}

// Replace replaces both documents of an ID, or none; fields that other code keeps
// in them go. ErrNotFound if there is no hot document; a missing cold one is
// inserted.
//
// Cost: 3 round trips, 2 documents written; 5 and 3 if the cold one was missing and
// the hot one is as before. Index _id of the hot and {movie_id} of the cold
// documents, 1 key each.
func (s *Split[ID, H, C]) Replace(ctx context.Context, id ID, hot H, cold C) error {
	docs, err := s.documents(id, hot, cold)
	if err == nil {
		err = txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
			done, err := s.hot.ReplaceOne(ctx, byID(docs.id), docs.hot)
			if err != nil {
				return err
			}
			if done.MatchedCount == 0 {
				return fmt.Errorf("%w: _id %s", ErrNotFound, rawvalue.Text(docs.id))
			}
			cold, err := s.cold.ReplaceOne(ctx, s.coldOf(docs.id), docs.cold, options.Replace().SetUpsert(true))
			if err != nil {
				return err
			}
			return s.hold(ctx, docs.id, done, cold)
		})
	}
	if err != nil {
		return fmt.Errorf("subset: replace: %w", err)
	}
	return nil
}

// Update changes the documents of an ID by update documents or pipelines; nil
// leaves one as it is. Both change or none. ErrNotFound if there is no hot
// document, or for nil in its place no cold one either; a missing cold one is
// inserted. Cold fields that still stand in the hot document (Adopt has not
// reached it, or an old program has written them) move to the cold one before
// that changes, in the same transaction. IDField stays as it is: a document that
// changes it is ErrInvalid, a pipeline's change has no effect. Else an update is not
// looked through: Check finds fields that it puts on the wrong side.
//
// Cost: both 3 round trips, 2 documents written, or 5 and 3 as Replace; hot alone 1
// and 1; cold alone 2 and 1, and no transaction. Where the hot document has
// cold fields 6 more round trips and 3 writes, 7 if cold alone changes and it has
// none and no cold document. Index _id of the hot and {movie_id} of the cold
// documents, 1 key each.
func (s *Split[ID, H, C]) Update(ctx context.Context, id ID, hot, cold any) error {
	if err := s.update(ctx, id, hot, cold); err != nil {
		return fmt.Errorf("subset: update: %w", err)
	}
	return nil
}

func (s *Split[ID, H, C]) update(ctx context.Context, id ID, hot, cold any) error {
	raw, err := s.id(id)
	if err == nil && hot != nil {
		if _, err = encodedUpdate(s.registry, hot); err != nil {
			err = fmt.Errorf("hot: %w", err)
		}
	}
	if err == nil && cold != nil {
		if s.idField == "_id" { // which the server refuses to change
			_, err = encodedUpdate(s.registry, cold)
		} else {
			cold, err = tied(s.registry, s.idField, raw, cold)
		}
		if err != nil {
			err = fmt.Errorf("cold: %w", err)
		}
	}
	if err != nil {
		return err
	}
	one := func(ctx context.Context, coll *mongo.Collection, filter bson.D, update any, upsert bool) (*mongo.UpdateResult, error) {
		done, err := coll.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(upsert))
		if err == nil && done.MatchedCount+done.UpsertedCount == 0 {
			err = fmt.Errorf("%w: _id %s", ErrNotFound, rawvalue.Text(raw))
		}
		return done, err
	}
	switch {
	case hot == nil && cold == nil:
		return fmt.Errorf("%w: no update: hot and cold are nil", ErrInvalid)
	case cold == nil:
		_, err = one(ctx, s.hot, byID(raw), hot, false)
		return err
	case hot == nil:
		whole, err := s.undivided(ctx, raw)
		if err == nil && !whole {
			_, err = one(ctx, s.cold, s.coldOf(raw), cold, false)
			whole = errors.Is(err, ErrNotFound)
		}
		if !whole {
			return err
		}
	}
	return txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
		hotDone := &mongo.UpdateResult{}
		err := ErrNotFound
		if hot != nil {
			hotDone, err = one(ctx, s.hot, append(byID(raw), s.divided()...), hot, false)
		}
		if errors.Is(err, ErrNotFound) { // or it holds cold fields, which the cold document must have first
			var found int64
			found, _, err = s.divide(ctx, bson.A{raw})
			switch {
			case err == nil && found == 0:
				err = fmt.Errorf("%w: _id %s", ErrNotFound, rawvalue.Text(raw))
			case err == nil && hot != nil:
				hotDone, err = one(ctx, s.hot, byID(raw), hot, false)
			}
		}
		if err != nil {
			return err
		}
		coldDone, err := one(ctx, s.cold, s.coldOf(raw), cold, hot != nil)
		if err != nil {
			return err
		}
		return s.hold(ctx, raw, hotDone, coldDone)
	})
}

// divided selects hot documents without cold fields.
func (s *Split[ID, H, C]) divided() bson.D {
	if len(s.fields) == 0 {
		return nil
	}
	return bson.D{{Key: "$nor", Value: s.present()}}
}

// present are the conditions one of which a hot document with cold fields meets.
func (s *Split[ID, H, C]) present() bson.A {
	var out bson.A
	for _, field := range s.fields {
		out = append(out, bson.D{{Key: field, Value: bson.D{{Key: "$exists", Value: true}}}})
	}
	return out
}

// undivided looks whether a hot document has cold fields.
func (s *Split[ID, H, C]) undivided(ctx context.Context, id bson.RawValue) (bool, error) {
	if len(s.fields) == 0 {
		return false, nil
	}
	err := scan.Primary(s.hot).FindOne(ctx, append(byID(id), bson.E{Key: "$or", Value: s.present()}),
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// hold writes to the hot document if that has not changed and the cold one is
// new: else nothing would conflict with a deletion at the same time, which would
// leave the cold one alone.
func (s *Split[ID, H, C]) hold(ctx context.Context, id bson.RawValue, hot, cold *mongo.UpdateResult) error {
	if hot.ModifiedCount > 0 || cold.UpsertedCount == 0 {
		return nil
	}
	mark := bson.D{{Key: fieldTouch, Value: true}}
	if _, err := s.hot.UpdateOne(ctx, byID(id), bson.D{{Key: "$set", Value: mark}}); err != nil {
		return err
	}
	_, err := s.hot.UpdateOne(ctx, byID(id), bson.D{{Key: "$unset", Value: mark}})
	return err
}

// Delete deletes both documents of an ID. ErrNotFound if there is no hot one.
//
// Cost: 3 round trips, 2 documents written; index _id of the hot and {movie_id} of
// the cold documents, 1 key each.
func (s *Split[ID, H, C]) Delete(ctx context.Context, id ID) error {
	raw, err := s.id(id)
	if err == nil {
		err = txn.Run(ctx, s.hot.Database().Client(), func(ctx context.Context) error {
			done, err := s.hot.DeleteOne(ctx, byID(raw))
			if err != nil {
				return err
			}
			if done.DeletedCount == 0 {
				return fmt.Errorf("%w: _id %s", ErrNotFound, rawvalue.Text(raw))
			}
			_, err = s.cold.DeleteOne(ctx, s.coldOf(raw))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("subset: delete: %w", err)
	}
	return nil
}

// GetHot returns the hot document of an ID. ErrNotFound if there is none. Lists
// are your own Find on the hot collection.
//
// Cost: 1 round trip, 1 key and 1 document, index _id.
func (s *Split[ID, H, C]) GetHot(ctx context.Context, id ID) (H, error) {
	var hot H
	raw, err := s.id(id)
	if err == nil {
		err = notFound(s.hot.FindOne(ctx, byID(raw)).Decode(&hot), raw)
	}
	if err != nil {
		return hot, fmt.Errorf("subset: get hot: %w", err)
	}
	return hot, nil
}

// GetCold returns the cold document of an ID. ErrNotFound if there is none, as
// where Adopt has not come yet: Get reads these.
//
// Cost: 1 round trip, 1 key and 1 document, index {movie_id}.
func (s *Split[ID, H, C]) GetCold(ctx context.Context, id ID) (C, error) {
	var cold C
	raw, err := s.id(id)
	if err == nil {
		err = notFound(s.cold.FindOne(ctx, s.coldOf(raw)).Decode(&cold), raw)
	}
	if err != nil {
		return cold, fmt.Errorf("subset: get cold: %w", err)
	}
	return cold, nil
}

// Get returns both documents of an ID. Cold fields in the hot document are returned
// as the cold one's, so that it reads alike before and after Adopt. ErrNotFound if
// there is no hot document, or neither a cold one nor cold fields.
//
// Cost: 1 round trip; 1 key and 1 document of each collection, by $lookup. In a
// transaction on a sharded cluster it needs MongoDB 8.0; GetHot and GetCold do the
// same in 2.
func (s *Split[ID, H, C]) Get(ctx context.Context, id ID) (H, C, error) {
	var found struct {
		Hot  H   `bson:"hot"`
		Cold []C `bson:"cold"`
	}
	raw, err := s.id(id)
	if err == nil {
		err = s.get(ctx, raw, &found)
	}
	var cold C
	if err == nil && len(found.Cold) == 0 {
		err = fmt.Errorf("%w: cold document of _id %s", ErrNotFound, rawvalue.Text(raw))
	}
	if err != nil {
		return found.Hot, cold, fmt.Errorf("subset: get: %w", err)
	}
	return found.Hot, found.Cold[0], nil
}

func (s *Split[ID, H, C]) get(ctx context.Context, id bson.RawValue, found any) error {
	own := op("$arrayToObject", bson.D{{Key: "$filter", Value: bson.D{
		{Key: "input", Value: op("$objectToArray", "$hot")},
		{Key: "cond", Value: op("$in", "$$this.k", literal(append([]string{}, s.fields...)))},
	}}})
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: byID(id)}},
		{{Key: "$replaceWith", Value: bson.D{{Key: "hot", Value: "$$ROOT"}}}},
		s.lookup("hot._id", "cold"),
		{{Key: "$set", Value: bson.D{{Key: "own", Value: own}}}},
		{{Key: "$set", Value: bson.D{{Key: "cold", Value: op("$cond",
			op("$and", op("$eq", "$cold", bson.A{}), op("$eq", "$own", literal(bson.D{}))), bson.A{},
			bson.A{op("$mergeObjects", bson.D{{Key: s.idField, Value: "$hot._id"}}, first("$cold"), "$own")})}}}},
	}
	cold := make(bson.A, len(s.fields))
	for i, field := range s.fields {
		cold[i] = "hot." + field
	}
	if len(cold) > 0 {
		pipeline = append(pipeline, bson.D{{Key: "$unset", Value: cold}})
	}
	cursor, err := s.hot.Aggregate(ctx, pipeline)
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	if cursor.Next(ctx) {
		return cursor.Decode(found)
	}
	if err := cursor.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: _id %s", ErrNotFound, rawvalue.Text(id))
}

func (s *Split[ID, H, C]) lookup(id, as string, pipeline ...bson.D) bson.D {
	lookup := bson.D{
		{Key: "from", Value: s.cold.Name()}, {Key: "localField", Value: id}, {Key: "foreignField", Value: s.idField},
	}
	if len(pipeline) > 0 {
		lookup = append(lookup, bson.E{Key: "pipeline", Value: mongo.Pipeline(pipeline)})
	}
	return bson.D{{Key: "$lookup", Value: append(lookup, bson.E{Key: "as", Value: as})}}
}

// first is the document in an array, an empty one if there is none.
func first(array string) bson.D {
	return op("$ifNull", op("$arrayElemAt", array, 0), literal(bson.D{}))
}

// JoinPipeline makes whole documents of the hot ones that come: what stands after
// a $match and $limit on the hot collection. Where both sides have a field, the
// hot one counts.
func (s *Split[ID, H, C]) JoinPipeline() mongo.Pipeline {
	own := bson.D{{Key: "_id", Value: 0}}
	if s.idField != "_id" {
		own = append(own, bson.E{Key: s.idField, Value: 0})
	}
	return mongo.Pipeline{
		{{Key: "$replaceWith", Value: bson.D{{Key: "hot", Value: "$$ROOT"}}}},
		s.lookup("hot._id", "cold", bson.D{{Key: "$project", Value: own}}),
		{{Key: "$replaceWith", Value: op("$mergeObjects", "$hot", first("$cold"), "$hot")}},
	}
}

// Filter selects the hot document of an ID.
func (s *Split[ID, H, C]) Filter(id ID) bson.D { return s.filter("_id", id) }

// ColdFilter selects the cold document of an ID.
func (s *Split[ID, H, C]) ColdFilter(id ID) bson.D { return s.filter(s.idField, id) }

func (s *Split[ID, H, C]) filter(field string, id ID) bson.D {
	raw, err := encode.Value(s.registry, id)
	if err != nil { // for the driver to refuse
		return bson.D{{Key: field, Value: id}}
	}
	return bson.D{{Key: field, Value: rawvalue.Equal(raw)}}
}

func (s *Split[ID, H, C]) id(id ID) (bson.RawValue, error) {
	raw, err := encode.Value(s.registry, id)
	if err != nil {
		return raw, fmt.Errorf("%v: %w: %w", id, ErrInvalid, err)
	}
	return raw, checkID("document", raw)
}

func (s *Split[ID, H, C]) coldOf(id bson.RawValue) bson.D {
	return bson.D{{Key: s.idField, Value: rawvalue.Equal(id)}}
}

type halves struct {
	id        bson.RawValue
	hot, cold bson.D
}

// documents encodes both halves, with the ID.
func (s *Split[ID, H, C]) documents(id ID, hot H, cold C) (halves, error) {
	raw, err := s.id(id)
	if err != nil {
		return halves{}, err
	}
	out := halves{id: raw}
	if out.hot, err = s.half("hot", "_id", raw, hot); err != nil {
		return halves{}, err
	}
	if out.cold, err = s.half("cold", s.idField, raw, cold); err != nil {
		return halves{}, err
	}
	for _, c := range out.cold {
		if s.isID(c.Key) {
			continue
		}
		for _, h := range out.hot {
			if c.Key == h.Key {
				return halves{}, fmt.Errorf("%w: %q is in both documents", ErrInvalid, c.Key)
			}
		}
	}
	for _, h := range out.hot {
		if slices.Contains(s.fields, h.Key) {
			return halves{}, fmt.Errorf("%w: %q is a cold field", ErrInvalid, h.Key)
		}
	}
	return out, nil
}

// half encodes a document with the ID in a field.
func (s *Split[ID, H, C]) half(what, field string, id bson.RawValue, document any) (bson.D, error) {
	raw, err := encode.Document(s.registry, document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, ErrInvalid, err)
	}
	elements, err := raw.Elements()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, ErrInvalid, err)
	}
	if twice := repeated(elements); twice != "" {
		return nil, fmt.Errorf("%s: %w: the field %q stands twice", what, ErrInvalid, twice)
	}
	out, placed := bson.D{}, false
	for _, e := range elements {
		value := e.Value()
		if e.Key() == field {
			value, placed = id, true
		}
		out = append(out, bson.E{Key: e.Key(), Value: value})
	}
	if !placed {
		out = append(bson.D{{Key: field, Value: id}}, out...)
	}
	return out, nil
}
