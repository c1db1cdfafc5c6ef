package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// benchmark is one case of a pattern.
type benchmark struct {
	pattern, name string // "bucket", "ingest"
	about         string // one sentence: what is compared, for -list and the page
	// plan sets up the data and returns the comparisons, which are measured in turn. It may be called
	// again and with tiny sizes. All that it starts must have ended when the case ends, also when ctx ends
	// early.
	plan func(ctx context.Context, b *bench) []comparison
}

// comparison is some ways of doing one thing. The first side is the baseline.
type comparison struct {
	metric string
	ops    int // operations in a run: values are reported per operation
	sides  []side
	runs   int                       // of each side; 0: as many as -runs says
	warm   int                       // operations of each side before the first run
	after  func(ctx context.Context) // optional: checks and reports after it is measured
}

// compared is a comparison without the rarer fields.
func compared(metric string, ops int, sides ...side) comparison {
	return comparison{metric: metric, ops: ops, sides: sides}
}

// op is one operation. i counts the operations of a side over all runs, so no run repeats another.
type op = func(ctx context.Context, i int) error

// side is one way of doing a thing.
type side struct {
	name  string
	op    op
	run   func(ctx context.Context) error // instead of op: a run, with the same work on every side
	reset func(ctx context.Context) error // optional, before each run, not measured
}

// way is a side of operations.
func way(name string, op op) side { return side{name: name, op: op} }

// failed is what check panics with.
type failed struct{ error }

// check ends the case if err is not nil, as FailNow ends a test. Only the plan and after may call it, not a
// side.
func check(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(failed{err})
	}
}

// must returns v, and ends the case if err is not nil.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// errorOf drops the value of a call.
func errorOf[T any](_ T, err error) error { return err }

// value is what one way of doing a thing comes to.
type value struct {
	name string
	v    float64
}

// bench is what a running case has to measure with.
type bench struct {
	client *mongo.Client
	rand   *rand.Rand // from -seed, and different in each case
	scale  string     // tiny (for tests), small, medium or seed
	runs   int        // how often measure runs each side; a case may change it

	server  *server
	of      benchmark
	results []result
	dbs     []*mongo.Database
	meter   *meter
}

// size is the number for the scale that was asked for. The tests of this program run
// everything with a twentieth of small.
func (b *bench) size(small, medium, seed int) int {
	switch b.scale {
	case "tiny":
		return max(small/20, 1)
	case "medium":
		return medium
	case "seed":
		return seed
	}
	return small
}

// db returns a fresh database of this case. It is dropped at the end of the case, also
// after an interrupt.
func (b *bench) db() *mongo.Database {
	db := b.client.Database(fmt.Sprintf("%s_%d", b.server.prefix, b.server.databases.Add(1)))
	b.dbs = append(b.dbs, db)
	return db
}

// drop removes the databases of the case. After an interrupt the server may still
// carry out a write that the client has given up, and make a database anew; so each is
// dropped until it stays away.
func (b *bench) drop(interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, db := range b.dbs {
		errs = append(errs, b.server.admin.Database(db.Name()).Drop(ctx))
	}
	for try := 0; interrupted && try < 20; try++ {
		time.Sleep(100 * time.Millisecond)
		left, err := b.server.left(ctx)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if len(left) == 0 && try >= 10 {
			break
		}
		for _, name := range left {
			errs = append(errs, b.server.admin.Database(name).Drop(ctx))
		}
	}
	b.dbs = nil
	return errors.Join(errs...)
}

// sample is what one run of a side took.
type sample struct {
	time, client, server        float64 // µs; NaN where it cannot be known
	trips, received, allocation float64
}

// kinds are what measure reports of each side. The first one has the metric's own name.
var kinds = []struct {
	name, unit string
	of         func(sample) float64
}{
	{"time", "µs", func(s sample) float64 { return s.time }},
	{"client CPU", "µs", func(s sample) float64 { return s.client }},
	{"server CPU", "µs", func(s sample) float64 { return s.server }},
	{"round trips", "round trips", func(s sample) float64 { return s.trips }},
	{"bytes received", "bytes", func(s sample) float64 { return s.received }},
	{"allocations", "allocations", func(s sample) float64 { return s.allocation }},
}

// measure runs the sides of a comparison, interleaved, and reports for each side after
// the first, which is the baseline, the medians per operation of all kinds: as
// "metric: time", "metric: server CPU" and so on.
// What the server does not say, such as its CPU time, is left out.
//
// The sides take turns in who goes first, because what one run leaves behind (a full
// cache, a checkpoint) is paid for by the next.
func (b *bench) measure(ctx context.Context, c comparison) {
	runs, sides := cmp.Or(c.runs, b.runs), slices.Clone(c.sides)
	for i, s := range sides {
		if s.op != nil {
			next := 0
			times := func(n int) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					for range n {
						if err := s.op(ctx, next); err != nil {
							return err
						}
						next++
					}
					return nil
				}
			}
			if err := times(c.warm)(ctx); err != nil {
				check(fmt.Errorf("%s, %s: %w", c.metric, s.name, err))
			}
			sides[i].run = times(c.ops)
		}
	}
	samples := make([][]sample, len(sides))
	for run := range runs {
		for i := range sides {
			n := (i + run) % len(sides)
			s, err := b.once(ctx, sides[n])
			if err != nil {
				check(fmt.Errorf("%s, %s: %w", c.metric, sides[n].name, err))
			}
			samples[n] = append(samples[n], s)
			b.server.progress.measured(c.metric, run*len(sides)+i+1, runs*len(sides))
		}
	}
	for _, kind := range kinds {
		values, noises := make([]value, len(sides)), make([]float64, len(sides))
		for i, side := range sides {
			of := make([]float64, runs)
			for run, s := range samples[i] {
				of[run] = kind.of(s) / float64(c.ops)
			}
			values[i], noises[i] = value{side.name, median(of)}, noise(of)
		}
		first := len(b.results)
		b.report(c.metric+": "+kind.name, kind.unit, values...)
		for i := range b.results[first:] {
			r := &b.results[first+i]
			side := slices.IndexFunc(values, func(v value) bool { return v.name == r.Name })
			r.Runs, r.Noise = runs, round(max(noises[0], noises[side]))
		}
	}
	if c.after != nil {
		c.after(ctx)
	}
}

// once makes one run of a side.
func (b *bench) once(ctx context.Context, side side) (s sample, err error) {
	if side.reset != nil {
		if err := side.reset(ctx); err != nil {
			return s, fmt.Errorf("reset: %w", err)
		}
	}
	runtime.GC() // the garbage of the last run is not this one's
	server, err := b.server.cpu(ctx)
	if err != nil {
		return s, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	trips, received, client, start := b.meter.trips.Load(), b.meter.received.Load(), clientCPU(), time.Now()
	err = side.run(ctx)
	s.time = micros(time.Since(start))
	s.client = clientCPU() - client
	s.trips = float64(b.meter.trips.Load() - trips)
	s.received = float64(b.meter.received.Load() - received)
	runtime.ReadMemStats(&after)
	s.allocation = float64(after.Mallocs - before.Mallocs)
	if err != nil {
		return s, err
	}
	now, err := b.server.cpu(ctx)
	s.server = max(now-server-b.server.overhead, 0)
	return s, err
}

// report states values, the baseline first: those of measure, and what is not measured in
// runs, such as documents, bytes, keys examined. A value that is not known is NaN and left out.
func (b *bench) report(metric, unit string, values ...value) {
	base := values[0]
	for _, v := range values[1:] {
		if math.IsNaN(base.v) || math.IsNaN(v.v) {
			continue
		}
		r := result{
			Pattern: b.of.pattern, Case: b.of.name, Metric: metric, Unit: unit,
			Baseline: round(base.v), BaselineName: base.name,
			Value: round(v.v), Name: v.name,
			Runs: 1, Engine: b.server.engine, Scale: b.scale,
		}
		if base.v != 0 {
			r.Ratio = round(v.v / base.v)
		}
		b.results = append(b.results, r)
	}
}

// goal notes that the ratio of what was reported under this metric and name should be
// at most this.
func (b *bench) goal(metric, name string, most float64) {
	b.note(metric, name, func(r *result) { r.Goal = most })
}

// because says why the ratio of what was reported under this metric and name is as it is.
func (b *bench) because(metric, name, why string) {
	b.note(metric, name, func(r *result) { r.Why = why })
}

// note changes what was reported under this metric and name.
func (b *bench) note(metric, name string, change func(r *result)) {
	for i := range b.results {
		if r := &b.results[i]; r.Metric == metric && r.Name == name {
			change(r)
		}
	}
}

// progress says on stderr how much of the work outside of measure is done, with the
// rate and the time left.
func (b *bench) progress(done, total int) {
	b.server.progress.step(done, total)
}

// keysExamined is how many index keys the commands of fn look at, which uses db, the
// database of this name, on a client of its own.
func (b *bench) keysExamined(ctx context.Context, name string, fn func(ctx context.Context, db *mongo.Database) error) (keys int64, err error) {
	recorder := mongotest.NewRecorder()
	client, err := mongo.Connect(options.Client().ApplyURI(b.server.uri).SetMonitor(recorder.Monitor()))
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	commands := recorder.Record(func() { err = fn(ctx, client.Database(name)) })
	if err != nil {
		return 0, err
	}
	for _, c := range commands.Named("find", "aggregate", "count", "distinct") {
		plan, err := mongotest.ExplainCommand(ctx, b.client.Database(name), c.Body)
		if err != nil {
			return 0, err
		}
		keys += plan.KeysExamined
	}
	return keys, nil
}

// server is the server that is measured.
type server struct {
	client, admin *mongo.Client // admin is not metered
	meter         *meter
	uri           string
	engine        string  // "mongodb 6.0.5"
	overhead      float64 // what asking for the CPU time takes of it, µs
	prefix        string  // of the databases of this process
	databases     atomic.Int64
	progress      *progress
	stop          func() error // ends the server if it was started here
}

// cpu is the CPU time that the server has used, in µs; NaN if it does not say.
func (s *server) cpu(ctx context.Context) (float64, error) {
	command := bson.D{{Key: "serverStatus", Value: 1}}
	for _, section := range []string{
		"asserts", "catalogStats", "connections", "defaultRWConcern", "electionMetrics", "flowControl", "freeMonitoring",
		"globalLock", "indexBulkBuilder", "indexBuilds", "indexStats", "locks", "logicalSessionRecordCache", "metrics", "mirroredReads",
		"network", "opcounters", "opcountersRepl", "opLatencies", "oplogTruncation", "queryAnalyzers", "readConcernCounters",
		"readPreferenceCounters", "repl", "scramCache", "security", "storageEngine", "tcmalloc", "tenantMigrations",
		"trafficRecording", "transactions", "transportSecurity", "twoPhaseCommitCoordinator", "wiredTiger",
	} {
		command = append(command, bson.E{Key: section, Value: 0})
	}
	status, err := s.admin.Database("admin").RunCommand(ctx, command).Raw()
	if err != nil {
		if server := mongo.ServerError(nil); errors.As(err, &server) {
			return math.NaN(), nil // not permitted, or not known there
		}
		return 0, err
	}
	user, ok1 := status.Lookup("extra_info", "user_time_us").AsInt64OK()
	system, ok2 := status.Lookup("extra_info", "system_time_us").AsInt64OK()
	if !ok1 || !ok2 {
		return math.NaN(), nil
	}
	return float64(user + system), nil
}

// left lists the databases of this process that are on the server.
func (s *server) left(ctx context.Context) ([]string, error) {
	names, err := s.admin.ListDatabaseNames(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$regex", Value: "^" + s.prefix}}}})
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, s.prefix) }), err
}

// start makes what a case measures with.
func (s *server) start(c benchmark, scale string, runs int, seed uint64) *bench {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.pattern + "/" + c.name))
	return &bench{
		client: s.client, rand: rand.New(rand.NewPCG(seed, h.Sum64())), scale: scale, runs: runs,
		server: s, of: c, meter: s.meter,
	}
}

// meter counts commands and the bytes of their replies.
type meter struct {
	trips, received atomic.Int64
}

// monitor is what a metered client has.
func (m *meter) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			m.trips.Add(1)
			m.received.Add(int64(len(e.Reply)))
		},
		Failed: func(context.Context, *event.CommandFailedEvent) { m.trips.Add(1) },
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// noise is what the odd runs of a side differ from its even ones, as a share: what a side measured
// against itself shows. It is 0 for a single run.
func noise(runs []float64) float64 {
	var halves [2][]float64
	for i, v := range runs {
		halves[i%2] = append(halves[i%2], v)
	}
	a, b := median(halves[0]), median(halves[1])
	if math.IsNaN(a) || math.IsNaN(b) || a <= 0 || b <= 0 {
		return 0
	}
	return max(a/b, b/a) - 1
}

// median is NaN for no values, and if one of them is.
func median(values []float64) float64 {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// round keeps four digits: more are noise.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || v == math.Trunc(v) {
		return v
	}
	digits := 4 - int(math.Ceil(math.Log10(math.Abs(v))))
	if digits <= 0 {
		return math.Round(v)
	}
	pow := math.Pow10(digits)
	return math.Round(v*pow) / pow
}
