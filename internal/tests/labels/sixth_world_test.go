package labels_test

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// sixthSources are those of the sixth set. Its services send what the LINQ of .NET, KMongo, Doctrine, PyMongo, Motor,
// mongoose-paginate and aggregations written by hand send.
var sixthSources = map[string]string{
	"apiary": "profiler", "caravan": "profiler", "cemetery": "profiler", "tailor": "profiler", "waste": "profiler",
	"bakery": "recorded", "crowdfunding": "recorded", "drones": "recorded", "elevators": "recorded", "tattoo": "recorded",
	"adserver": "log", "memes": "log", "petitions": "log",
}

func sixthCases() []labelled {
	return slices.Concat(sixthListCases(), sixthHeavyCases(), sixthPageCases(), sixthAttributeCases(), sixthJoinCases(),
		sixthRelationCases(), sixthTreeCases(), sixthTotalCases(), sixthCounterCases(), sixthTimeCases(), sixthOtherCases())
}

// serial is a number of a kind as a string, as users see it.
func serial(kind string, i int) string { return fmt.Sprintf("%s%d/26", kind, i+1) }

// linq is a query as the LINQ provider of .NET sends it, an aggregation even for one document.
func (s *session) linq(coll string, where bson.D, stages ...bson.D) []bson.M {
	return s.aggregate(coll, append([]bson.D{d("$match", where)}, stages...)...)
}

// first is First() of LINQ.
func (s *session) first(coll string, where bson.D) bson.M {
	found := s.linq(coll, where, d("$limit", 1))
	if len(found) == 0 {
		return nil
	}
	return found[0]
}
