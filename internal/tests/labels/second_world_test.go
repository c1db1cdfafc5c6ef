package labels_test

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// secondSources are those of the second set. Its services were written with other drivers and with ODMs, whose commands
// the session's calls send: Mongoose, Spring Data, Doctrine, and the drivers of C# and Python.
var secondSources = map[string]string{
	"court": "profiler", "farm": "profiler", "harbor": "profiler", "lab": "profiler", "property": "profiler",
	"council": "recorded", "league": "recorded", "radio": "recorded", "rental": "recorded", "theatre": "recorded",
	"auction": "log", "builds": "log", "telecom": "log",
}

func secondCases() []labelled {
	return slices.Concat(secondListCases(), secondTimeCases(), secondFieldCases(), secondRefCases(), secondNumberCases())
}

// uuid is the i-th UUID of a kind.
func uuid(kind byte, i int) bson.Binary {
	data := make([]byte, 16)
	data[0], data[6], data[8] = kind, 0x40, 0x80
	binary.BigEndian.PutUint32(data[2:], uint32(i)*2_654_435_761)
	return bson.Binary{Subtype: 4, Data: data}
}

// key is a string as an ID.
func key(prefix string, i int) string { return fmt.Sprintf("%s-%05d", prefix, i) }

// match is a stage.
func match(pairs ...any) bson.D { return d("$match", d(pairs...)) }

// join is the stage $lookup.
func join(from, local, foreign, as string) bson.D {
	return d("$lookup", d("from", from, "localField", local, "foreignField", foreign, "as", as))
}

// ids are the _ids of documents.
func ids(docs []bson.M) (out a) {
	for _, doc := range docs {
		out = append(out, doc["_id"])
	}
	return out
}

// save replaces a whole document, as Spring Data's save does.
func (s *session) save(coll string, doc bson.D) {
	filter := d("_id", doc[0].Value)
	testkit.Must(s.db.Collection(coll).ReplaceOne(s.ctx, filter, doc, options.Replace().SetUpsert(true)))
	s.note("WRITE", "update", coll, d("q", filter, "u", doc, "multi", false, "upsert", true))
}

// bulk is a bulk write of updates of one document each. Pairs are a filter and an update in turn.
func (s *session) bulk(coll string, pairs ...bson.D) {
	var models []mongo.WriteModel
	for pair := range slices.Chunk(pairs, 2) {
		models = append(models, mongo.NewUpdateOneModel().SetFilter(pair[0]).SetUpdate(pair[1]))
	}
	testkit.Must(s.db.Collection(coll).BulkWrite(s.ctx, models))
	for pair := range slices.Chunk(pairs, 2) {
		s.note("WRITE", "update", coll, d("q", pair[0], "u", pair[1], "multi", false, "upsert", false))
	}
}

// next is a findOneAndUpdate that returns the new document.
func (s *session) next(coll string, filter, update bson.D) {
	opts := options.FindOneAndUpdate().SetReturnDocument(options.After)
	if err := s.db.Collection(coll).FindOneAndUpdate(s.ctx, filter, update, opts).Err(); err != nil {
		panic(err)
	}
	s.note("COMMAND", "command", coll, d("findAndModify", coll, "query", filter, "update", update, "new", true))
}

// stream is a find whose cursor gets batches of some documents.
func (s *session) stream(coll string, filter, sort bson.D, batch int) {
	cursor, err := s.db.Collection(coll).Find(s.ctx, filter, options.Find().SetSort(sort).SetBatchSize(int32(batch)))
	s.all(coll, d("find", coll, "filter", filter, "sort", sort, "batchSize", batch), cursor, err)
}

func (s *session) remove(coll string, filter bson.D) {
	testkit.Must(s.db.Collection(coll).DeleteOne(s.ctx, filter))
	s.note("WRITE", "remove", coll, d("q", filter, "limit", 1))
}
