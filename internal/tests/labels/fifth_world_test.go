package labels_test

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// fifthSources are those of the fifth set. Its services send what Spring Data's pages, Beanie, Panache, the drivers of Rust,
// Elixir and PHP, resolvers of GraphQL with and without batches, importers and workers behind queues send.
var fifthSources = map[string]string{
	"circus": "profiler", "customs": "profiler", "dentist": "profiler", "observatory": "profiler", "sawmill": "profiler",
	"chess": "recorded", "choir": "recorded", "embassy": "recorded", "jobs": "recorded", "kindergarten": "recorded",
	"bikeshare": "log", "lottery": "log", "podcast": "log",
}

func fifthCases() []labelled {
	return slices.Concat(fifthArrayCases(), fifthFieldCases(), fifthPageCases(), fifthTotalCases(), fifthJoinCases(),
		fifthLoopCases(), fifthTreeCases(), fifthTimeCases(), fifthOtherCases())
}

// hex is the i-th ObjectID of a kind as a string of hex digits, as importers leave it.
func hex(kind byte, i int) string { return oid(kind, i).Hex() }

// cents is an amount as money should be stored.
func cents(n int) bson.Decimal128 {
	return testkit.Must(bson.ParseDecimal128(fmt.Sprintf("%d.%02d", n/100, n%100)))
}

// numbered is an _id of two parts.
func numbered(office string, i int) bson.D { return d("office", office, "no", int32(i)) }

// spring is a page of Spring Data, a find and the number of all documents.
func (s *session) spring(coll string, filter, sort bson.D, page, size int, fields bson.D) {
	s.find(coll, filter, by{sort: sort, skip: page * size, limit: size, fields: fields})
	s.count(coll, filter)
}

// patch changes the elements of an array that a filter of elements selects.
func (s *session) patch(coll string, filter, update, element bson.D) {
	opts := options.UpdateOne().SetArrayFilters([]any{element})
	testkit.Must(s.db.Collection(coll).UpdateOne(s.ctx, filter, update, opts))
	s.note("WRITE", "update", coll, d("q", filter, "u", update, "multi", false, "upsert", false, "arrayFilters", a{element}))
}

// pop is how a worker takes the first job of a queue.
func (s *session) pop(coll string, filter, sort, update bson.D) {
	opts := options.FindOneAndUpdate().SetSort(sort)
	if err := s.db.Collection(coll).FindOneAndUpdate(s.ctx, filter, update, opts).Err(); err != nil {
		panic(err)
	}
	s.note("COMMAND", "command", coll, d("findAndModify", coll, "query", filter, "sort", sort, "update", update))
}

// values are the distinct values of a field.
func (s *session) values(coll, field string, filter bson.D) {
	if err := s.db.Collection(coll).Distinct(s.ctx, field, filter).Err(); err != nil {
		panic(err)
	}
	s.note("COMMAND", "command", coll, d("distinct", coll, "key", field, "query", filter))
}

// group is a stage.
func group(fields ...any) bson.D { return d("$group", d(fields...)) }

// project is a stage.
func project(fields ...any) bson.D { return d("$project", d(fields...)) }

// batch makes the documents of one insert.
func batch(n int, f func(i int) bson.D) []bson.D {
	out := make([]bson.D, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}
