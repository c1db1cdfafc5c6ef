package labels_test

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// thirdSources are those of the third set. Its services name their fields in a dozen languages and send what Mongoose with
// its plugins, Spring Data, jobs, workers of queues and plain drivers send.
var thirdSources = map[string]string{
	"mine": "profiler", "museum": "profiler", "power": "profiler", "railway": "profiler", "vet": "profiler",
	"aid": "recorded", "festival": "recorded", "fire": "recorded", "genealogy": "recorded", "recipes": "recorded",
	"parking": "log", "quiz": "log", "weather": "log",
}

func thirdCases() []labelled {
	return slices.Concat(thirdListCases(), thirdPageCases(), thirdRefCases(), thirdNumberCases(), thirdTimeCases())
}

// ulid is a string that sorts as its number does.
func ulid(prefix string, i int) string { return fmt.Sprintf("01J%s%021d", prefix, i) }

// keep is a projection that lists fields.
func keep(fields ...string) bson.D { return flags(1, fields) }

// omit is a projection that leaves fields out.
func omit(fields ...string) bson.D { return flags(0, fields) }

func flags(value int, fields []string) (out bson.D) {
	for _, field := range fields {
		out = append(out, bson.E{Key: field, Value: value})
	}
	return out
}

// populate is the second query of Mongoose's populate: the documents that the field of others refers to.
func (s *session) populate(coll string, docs []bson.M, field string, fields bson.D) {
	refs := a{}
	for _, doc := range docs {
		if ref := doc[field]; ref != nil && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	s.find(coll, d("_id", d("$in", refs)), by{fields: fields})
}
