package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const hotCallsCase = "hot calls"

var overheadCases = []benchmark{
	{"overhead", hotCallsCase, "The frequent calls of each package against the same commands written by hand on the driver: what the package itself costs the client, the worst first. A call misses its goal if it takes over 1.05 of the time or of the client's CPU and the excess is over twice the noise, which is how far the odd runs are from the even ones, or over 1.1 of the allocations.", overhead},
}

// call is a frequent call of a package and the same by hand. Both write to the same collections, to
// documents of their own that are alike.
type call struct {
	name       string
	floor      floor
	pack, hand op
	// costs says what the package does that the same by hand does not: the page shows it where the call is
	// over a goal.
	costs string
}

// floor is the least that any implementation could send for a call with the same guarantee, by argument.
type floor struct {
	trips int
	why   string
	bulk  int // round trips with MongoDB 8.0's bulkWrite over several collections; 0: it saves none
}

// What is true of many calls.
var (
	oneRead   = floor{trips: 1, why: "one query; the answer fits a batch"}
	oneWrite  = floor{trips: 1, why: "one statement on one document"}
	inMemory  = floor{trips: 0, why: "nothing is due to be written"}
	twoWrites = floor{trips: 3, why: "a write to each of two collections, and the commit", bulk: 2}
)

// hotCalls are the frequent calls of all packages, each group on collections of its own.
func hotCalls(ctx context.Context, b *bench) (all []call) {
	for _, of := range []func(ctx context.Context, b *bench, db *mongo.Database) []call{
		attributeCalls, outlierCalls, subsetCalls, splitCalls, extrefCalls, relationCalls, treeCalls, bucketCalls, seriesCalls,
		pagingCalls, versioningCalls, schemaversionCalls, computedCalls, approxCalls, preallocCalls, polymorphicCalls, transactCalls,
	} {
		all = append(all, of(ctx, b, b.db())...)
	}
	return all
}

// byID returns a call with IDs below 256, which Go converts to an interface without an allocation, and the same
// call with larger IDs.
func byID(with func(name string, from int) call, name string) (below, above call) {
	return with(name, 0), with(name+", IDs above 255", 1000)
}

// e is a field of a document.
func e(key string, value any) bson.E { return bson.E{Key: key, Value: value} }

// overhead compares each hot call with the same by hand.
// Many short runs that take turns tell more than a few long ones: what disturbs the machine disturbs both
// sides. The first calls make connections, sessions and what is kept of types.
func overhead(ctx context.Context, b *bench) []comparison {
	var all []comparison
	for _, call := range hotCalls(ctx, b) {
		c := comparison{metric: call.name, ops: b.size(5, 25, 50), runs: 3 * b.runs, warm: 3,
			sides: []side{way("by hand", call.hand), way("package", call.pack)}}
		c.after = func(context.Context) {
			for kind, most := range map[string]float64{"time": 1.05, "client CPU": 1.05, "allocations": 1.1} {
				b.goal(call.name+": "+kind, "package", most)
				b.because(call.name+": "+kind, "package", call.costs)
			}
			b.note(call.name+": round trips", "package", func(r *result) {
				r.Floor, r.Argument, r.Bulk = call.floor.trips, call.floor.why, call.floor.bulk
			})
		}
		all = append(all, c)
	}
	last := &all[len(all)-1]
	after := last.after
	last.after = func(ctx context.Context) {
		after(ctx)
		worstFirst(b.results)
	}
	return all
}

// worstFirst sorts the results of calls by the time of the package.
func worstFirst(results []result) {
	worst := map[string]float64{}
	for _, r := range results {
		if name, kind, _ := strings.Cut(r.Metric, ": "); kind == "time" {
			worst[name] = r.Ratio
		}
	}
	slices.SortStableFunc(results, func(x, y result) int {
		a, _, _ := strings.Cut(x.Metric, ": ")
		b, _, _ := strings.Cut(y.Metric, ": ")
		return cmp.Or(cmp.Compare(worst[b], worst[a]), cmp.Compare(a, b))
	})
}

// inOrder reads courses and puts them in the order of ids.
func inOrder(ctx context.Context, coll *mongo.Collection, ids []int) error {
	found, err := findAll[course](ctx, len(ids), coll, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	byID := make(map[int]*course, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	sorted := make([]course, len(ids))
	for i, id := range ids {
		if byID[id] != nil {
			sorted[i] = *byID[id]
		}
	}
	return err
}

// byHand is a transaction as the driver's manual writes it.
func byHand(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, fn(ctx) },
		options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary()))
	return err
}
