package labels_test

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fourthSources are those of the fourth set. Its services send what Prisma, Mongoid, MongoEngine, Laravel, Meteor,
// Morphia, TypeORM and workers behind queues send.
var fourthSources = map[string]string{
	"airport": "profiler", "brewery": "profiler", "hotel": "profiler", "pharmacy": "profiler", "warehouse": "profiler",
	"dance": "recorded", "payroll": "recorded", "satellite": "recorded", "translation": "recorded", "wiki": "recorded",
	"gym": "log", "ski": "log", "taxi": "log",
}

func fourthCases() []labelled {
	return slices.Concat(fourthListCases(), fourthPageCases(), fourthFieldCases(), fourthRefCases(), fourthTreeCases(),
		fourthNumberCases(), fourthTimeCases())
}

// snow is the i-th ID of a generator of numbers of 64 bits that begin with the time.
func snow(worker, i int) int64 { return 1_700_000_000_000_000_000 + int64(i)<<22 + int64(worker)<<12 }

// meteor is the i-th ID of a kind as Meteor makes them, a string of 17 letters and digits.
func meteor(kind byte, i int) string {
	const letters = "23456789ABCDEFGHJKLMNPQRSTWXYZabcdefghijkmnopqrstuvwxyz"
	out, n := []byte{kind}, uint64(i+1)*0x9E3779B97F4A7C15
	for len(out) < 17 {
		n = n*6364136223846793005 + 1442695040888963407
		out = append(out, letters[n>>33%uint64(len(letters))])
	}
	return string(out)
}

// rare is long in one of so many documents, and short in the others.
func rare(i, every, long, short int) int {
	if i%every == every/3 {
		return long
	}
	return short
}

// pairs are keys and values in turn, as d has them, of the values that f gives for some fields.
func pairs(fields []string, f func(field string) any) (out []any) {
	for _, field := range fields {
		out = append(out, field, f(field))
	}
	return out
}

// fourthPrefixed puts a prefix before each name.
func fourthPrefixed(prefix string, names ...string) (out []string) {
	for _, name := range names {
		out = append(out, prefix+name)
	}
	return out
}

// prisma is findMany of Prisma, an aggregation even without a join.
func (s *session) prisma(coll string, where, order bson.D, skip, take int, fields bson.D) []bson.M {
	stages := []bson.D{d("$match", where), d("$sort", order)}
	if skip > 0 {
		stages = append(stages, d("$skip", skip))
	}
	return s.aggregate(coll, append(stages, d("$limit", take), d("$project", fields))...)
}

// facets is a page with its total in one aggregation, as paginating plugins send it.
func (s *session) facets(coll string, where, order bson.D, skip, limit int) {
	page := d("page", a{d("$skip", skip), d("$limit", limit)}, "total", a{d("$count", "n")})
	s.aggregate(coll, d("$match", where), d("$sort", order), d("$facet", page))
}

// dereference is one findOne for each document that a field of others refers to, as MongoEngine and
// resolvers of GraphQL do.
func (s *session) dereference(coll string, docs []bson.M, field string, fields bson.D) {
	for _, doc := range docs {
		s.one(coll, d("_id", doc[field]), fields)
	}
}

// raise adds to a number of one document.
func (s *session) raise(coll string, id any, field string, by int) {
	s.update(coll, d("_id", id), d("$inc", d(field, by)))
}
