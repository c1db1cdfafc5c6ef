package mongotest

import (
	"runtime"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestPlansByID reads plans of servers that do not run here: those that find one
// document by its _id name no index, or only its key pattern.
func TestPlansByID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stage bson.D
		uses  bool
	}{
		"6.0, 7.0":       {bson.D{{Key: "stage", Value: "IDHACK"}}, true},
		"8.0":            {bson.D{{Key: "stage", Value: "EXPRESS_IXSCAN"}, {Key: "keyPattern", Value: "{ _id: 1 }"}}, true},
		"8.0, named":     {bson.D{{Key: "stage", Value: "EXPRESS_IXSCAN"}, {Key: "keyPattern", Value: "{ _id: 1 }"}, {Key: "indexName", Value: "_id_"}}, true},
		"as a document":  {bson.D{{Key: "stage", Value: "EXPRESS"}, {Key: "keyPattern", Value: bson.D{{Key: "_id", Value: 1}}}}, true},
		"another unique": {bson.D{{Key: "stage", Value: "EXPRESS_IXSCAN"}, {Key: "keyPattern", Value: "{ sku: 1 }"}, {Key: "indexName", Value: "sku_1"}}, false},
		"clustered":      {bson.D{{Key: "stage", Value: "EXPRESS_CLUSTERED_IXSCAN"}}, false},
	} {
		raw, err := bson.Marshal(bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "winningPlan", Value: bson.D{
			{Key: "stage", Value: "PROJECTION_SIMPLE"}, {Key: "inputStage", Value: c.stage}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		var plan Plan
		plan.read(raw)
		if Fails(t, func(t testing.TB) { plan.RequireIndex(t, "_id_") }) == c.uses {
			t.Errorf("%s: %v", name, plan)
		}
	}
}

// A router explains an aggregation by shard.
func TestPlansOfShards(t *testing.T) {
	t.Parallel()
	shard := bson.D{{Key: "stages", Value: bson.A{
		bson.D{{Key: "$cursor", Value: bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "winningPlan", Value: bson.D{{Key: "stage", Value: "COLLSCAN"}}}}}}}},
		bson.D{{Key: "$sort", Value: bson.D{}}},
	}}}
	raw, err := bson.Marshal(bson.D{{Key: "shards", Value: bson.D{{Key: "a", Value: shard}, {Key: "b", Value: shard}}}})
	if err != nil {
		t.Fatal(err)
	}
	var plan Plan
	plan.read(raw)
	if got := strings.Join(plan.Stages, " "); got != "COLLSCAN $sort COLLSCAN $sort" {
		t.Error(got)
	}
}

// Fails runs check with a testing.TB that only notes the failure.
func Fails(t *testing.T, check func(testing.TB)) bool {
	probe := &failure{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine
		defer close(done)
		check(probe)
	}()
	<-done
	return probe.failed
}

type failure struct {
	testing.TB
	failed bool
}

func (f *failure) Helper() {}

func (f *failure) Fatalf(string, ...any) {
	f.failed = true
	runtime.Goexit()
}
