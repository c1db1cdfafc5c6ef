package sweep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var update = flag.Bool("update", false, "with -scale=whole, write the figures of the packages that were swept to docs/sweep.csv")

// workers is how many rows are swept at the same time; most of a case is waiting.
const workers = 12

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// placed is a row and where it runs.
type placed struct {
	registry.Row
	cluster *mongotest.Server // with its collections sharded; nil: mongotest's server
	reads   bool              // it writes nothing
	db      *mongo.Database   // nil: one of its own
}

// call is the call of a row.
type call struct{ registry.Call }

// command is a command that a call sends.
type command struct {
	proxy.Command
	writes bool
}

func (c command) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d", c.Name, c.Collection, c.N))
}

// cleans reports whether a command ends what others have opened: a call sends it or not, depending on how it ends.
func cleans(c proxy.Command) bool { return c.Name == "killCursors" || c.Name == "abortTransaction" }

func newCommand(c proxy.Command) command {
	writes := slices.Contains([]string{"insert", "update", "delete", "findAndModify", "commitTransaction"}, c.Name)
	if stages, ok := c.Body.Lookup("pipeline").ArrayOK(); ok {
		for _, name := range []string{"$merge", "$out"} {
			writes = writes || strings.Contains(stages.String(), name)
		}
	}
	return command{c, writes}
}

// ending is how the context of a call ends.
type ending int

const (
	never ending = iota
	deadline
	cancelled
)

// fault is a way to fail a command: the first fault meets it, the second the next command of
// the same name and collection, which is the driver's repetition or the call's.
type fault struct {
	name   string
	faults []proxy.Fault
	ending ending
	on     func(c command) bool
}

func always(command) bool { return true }
func writes(c command) bool {
	return c.writes && (!c.InTransaction() || c.Name == "commitTransaction")
}
func conflicts(c command) bool { return c.writes || c.InTransaction() }

var faults = []fault{
	{"closed before", list(proxy.CloseBefore), never, always},
	{"closed after", list(proxy.CloseAfter), never, always},
	{"closed before, twice", list(proxy.CloseBefore, proxy.CloseBefore), never, always},
	{"closed after, twice", list(proxy.CloseAfter, proxy.CloseAfter), never, always},
	{"write concern", list(proxy.ConcernError(proxy.WriteConcernTimeout)), never, writes},
	{"write concern, shutdown, twice", list(proxy.ConcernError(proxy.ShutdownInProgress), proxy.ConcernError(proxy.ShutdownInProgress)), never, writes},
	{"not primary", list(proxy.Refuse(proxy.NotWritablePrimary)), never, always},
	{"not primary, twice", list(proxy.Refuse(proxy.NotWritablePrimary), proxy.Refuse(proxy.NotWritablePrimary)), never, always},
	{"closed after, then not primary", list(proxy.CloseAfter, proxy.Refuse(proxy.NotWritablePrimary)), never, writes},
	{"conflict", list(proxy.Refuse(proxy.WriteConflict)), never, conflicts},
	{"conflict without label", list(proxy.RefuseBare(proxy.WriteConflict)), never, conflicts},
	{"no answer until the deadline", list(proxy.SilentAfter), deadline, always},
	{"not heard until the deadline", list(proxy.SilentBefore), deadline, always},
	{"cancelled", list(proxy.SilentAfter), cancelled, always},
}

func list(faults ...proxy.Fault) []proxy.Fault { return faults }

const (
	// patience is for calls that wait for nothing but the server.
	patience = 60 * time.Second
	// grace is how long after its context a call may come back: half a second, and what a busy
	// machine needs. It is there to find calls that hang.
	grace = 500*time.Millisecond + 10*time.Second
)

// plan is what a call does when nothing fails.
type plan struct {
	row           placed
	before, after state
	commands      []command
	transactions  int // that were ended
	took          time.Duration
}

// stage makes a scene for one case on the row's database, which direct reaches without the
// proxy.
func (r placed) stage(t *testing.T, direct *mongo.Database, opts ...*options.ClientOptions) (*proxy.Proxy, call) {
	t.Helper()
	uri := r.uri(t)
	p := proxy.New(t, uri)
	client, err := mongo.Connect(append([]*options.ClientOptions{options.Client().ApplyURI(uri), p.Options()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Nothing of this case may reach the next one: neither a command that the server
		// has not done yet nor a transaction that nobody ends.
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = client.Disconnect(ended) // with a deadline the driver would wait for its connections, and compute all the while
		p.Settle()
		p.Close()
		sessions := p.Sessions()
		if len(sessions) == 0 {
			return // the server takes an empty list for all sessions, those of the other rows too
		}
		if err := direct.Client().Database("admin").RunCommand(context.Background(), bson.D{{Key: "killSessions", Value: sessions}}).Err(); err != nil {
			t.Error(err)
		}
	})
	testkit.Empty(t, direct)
	c := call{r.Start(&registry.Scene{T: t, DB: client.Database(direct.Name())})}
	return p, c
}

func (r placed) uri(t *testing.T) string {
	if r.cluster != nil {
		return r.cluster.URI
	}
	return mongotest.URI(t)
}

// database is one for the row, on a cluster with its collections sharded.
func (r placed) database(t *testing.T) *mongo.Database {
	t.Helper()
	if r.db != nil {
		return r.db
	}
	if r.cluster == nil {
		return mongotest.Database(t)
	}
	db, _ := r.sharded(t)
	return db
}

func (c call) again(ctx context.Context) error {
	if c.Repeat != nil {
		return c.Repeat(ctx)
	}
	return testkit.ErrorOf(c.Do(ctx))
}

// record makes the plan of a row from two runs, one after the other, that sent the same commands. A run that
// nobody breaks may still repeat a transaction: a chunk of another row that moves takes the history of sessions
// along, and a commit can meet a write conflict in config.transactions. What such a run sends more does not
// come again for a fault to meet. In a small run one is enough of a call that made one transaction or none.
func (r placed) record(t *testing.T, direct *mongo.Database) plan {
	t.Helper()
	last := r.recordOnce(t, direct)
	if scale.Of(last.transactions < 2, false, false) {
		last.mustWrite(t)
		return last
	}
	for range 6 {
		next := r.recordOnce(t, direct)
		if slices.EqualFunc(last.commands, next.commands, func(a, b command) bool { return a.String() == b.String() }) {
			next.mustWrite(t)
			return next
		}
		t.Logf("the call sent %v, and then %v", last.commands, next.commands)
		last = next
	}
	t.Fatal("the call sends other commands each time")
	return plan{}
}

func (p plan) mustWrite(t *testing.T) {
	t.Helper()
	if p.before.equal(p.after) {
		t.Fatal("the call changes nothing")
	}
	if !slices.ContainsFunc(p.commands, func(c command) bool { return c.writes }) {
		t.Fatal("no command of the call writes")
	}
}

func (r placed) recordOnce(t *testing.T, direct *mongo.Database) plan {
	t.Helper()
	p, c := r.stage(t, direct)
	out := plan{row: r, before: read(t, direct, c)}
	var mu sync.Mutex
	p.Break(func(c proxy.Command) *proxy.Fault {
		mu.Lock()
		defer mu.Unlock()
		if c.Name == "commitTransaction" || c.Name == "abortTransaction" {
			out.transactions++
		}
		if !cleans(c) {
			out.commands = append(out.commands, newCommand(c))
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	_, err := c.Do(ctx)
	out.took = time.Since(began)
	p.Break(nil)
	if err != nil {
		t.Fatal("without a fault: ", err)
	}
	p.Settle()
	out.after = read(t, direct, c)
	c.sound(t, "without a fault")
	return out
}

// sound fails unless Check finds nothing.
func (c call) sound(t *testing.T, when string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if c.Settle != nil {
		if err := c.Settle(ctx); err != nil {
			t.Errorf("%s: what Check asks for: %v", when, err)
		}
	}
	for problem, err := range mongopatterns.CheckAll(ctx, c.Check...) {
		t.Errorf("%s: Check finds %v %v", when, problem, err)
	}
}

// try makes the call of a plan with a fault at one of its commands. It reports how the call
// ended, and false if the context ended before the command came.
func (p plan) try(t *testing.T, direct *mongo.Database, at command, f fault, within time.Duration) (outcome, bool) {
	t.Helper()
	proxied, c := p.start(t, direct)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	met := make(chan time.Time, 1)
	broken := slices.Clone(f.faults)
	broken[0].Before = func() {
		met <- time.Now()
		if f.ending == cancelled {
			cancel()
		}
	}
	proxied.Break(proxy.Nth(at.Name, at.Collection, at.N, broken...))
	got, back := c.answer(ctx)
	if !back {
		t.Errorf("the call has not come back %v after its context", grace)
		return unknown, true // the end of the test ends it
	}
	proxied.Break(nil)
	proxied.Settle()
	if len(met) == 0 {
		return 0, p.late(t, ctx, got)
	}
	return p.judge(t, direct, proxied, c, got, patience), true
}

// start is stage, and fails t unless what is stored is as in the plan.
func (p plan) start(t *testing.T, direct *mongo.Database, opts ...*options.ClientOptions) (*proxy.Proxy, call) {
	t.Helper()
	proxied, c := p.row.stage(t, direct, opts...)
	if before := read(t, direct, c); !before.equal(p.before) {
		t.Fatalf("the row does not start from the same state each time:\n%s", p.before.diff(before))
	}
	return proxied, c
}

// answer is what a call returned.
type answer struct {
	result mongopatterns.Result
	err    error
	took   time.Duration
}

// answer makes the call. It reports false if the call does not come back long after its context has ended.
func (c call) answer(ctx context.Context) (answer, bool) {
	answered := make(chan answer, 1)
	began := time.Now()
	go func() {
		result, err := c.Do(ctx)
		answered <- answer{result, err, time.Since(began)}
	}()
	select {
	case got := <-answered:
		return got, true
	case <-afterContext(ctx, grace):
		return answer{}, false
	}
}

// late returns false for a call whose context ended before the command that is to be broken came. Without such an
// end it fails t.
func (p plan) late(t *testing.T, ctx context.Context, got answer) bool {
	t.Helper()
	// The driver does not send what would not be answered before the deadline.
	if ctx.Err() == nil && !mongo.IsTimeout(got.err) {
		t.Fatalf("the command did not come; the call answered %v", got.err)
	}
	return false
}

// judge looks at what is stored after a call that met a fault, and at what its error says. It makes the call again as
// a caller does, within a time, and looks at the end. It reports how the first call ended.
func (p plan) judge(t *testing.T, direct *mongo.Database, proxied *proxy.Proxy, c call, got answer, within time.Duration) outcome {
	t.Helper()
	now := read(t, direct, c)
	said := outcomeOf(got.err)
	switch {
	case c.One == nil:
		c.manyTrue(t, p, now, got.result, got.err)
	case now.equal(p.before):
		if said == done {
			t.Errorf("no error, and nothing was done: %v", got.err)
		}
	case now.equal(p.after):
		if said == notDone {
			t.Errorf("done, but the error says that it is not: %v", got.err)
		}
	case c.Passing != nil && len(now.between(p.before, p.after, c)) == 0:
		if said != unknown {
			t.Errorf("done in part, and the error says that it is %v: %v", said, got.err)
		}
	default:
		t.Errorf("neither before nor after, the error is %v; from after:\n%s", got.err, p.after.diff(now))
	}

	// The network is well again, and the caller does what docs/failures.md says.
	end := p.after
	if repeat := got.err != nil && !(c.Look && said == unknown && now.equal(p.after)); repeat {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if err := c.again(ctx); err != nil && !c.before(err) {
			t.Errorf("repeated after %v: %v", got.err, err)
		}
	}
	proxied.Settle()
	final := read(t, direct, c)
	if c.Twice != nil && said == unknown && now.equal(p.after) && final.equal(p.after.mapped(c.Twice)) {
		end = final
	}
	if !final.equal(end) {
		t.Errorf("in the end not as after:\n%s", end.diff(final))
	}
	c.sound(t, "in the end")
	if t.Failed() {
		t.Logf("the call answered %v", got.err)
	}
	return said
}

// before reports whether an error says that a repeated call was done before.
func (c call) before(err error) bool {
	return slices.ContainsFunc(c.Repeated, func(known error) bool {
		return errors.Is(err, known) || known == registry.ErrDuplicate && mongo.IsDuplicateKeyError(err)
	})
}

// afterContext is a channel that tells when a while has passed after a context.
func afterContext(ctx context.Context, while time.Duration) <-chan time.Time {
	out := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { time.AfterFunc(while, func() { out <- time.Now() }) })
	return out
}

// manyTrue fails unless each document is as before or as after, and the result true.
func (c call) manyTrue(t *testing.T, p plan, now state, result mongopatterns.Result, err error) {
	t.Helper()
	if err == nil && result.Failed+result.Unknown+result.Remaining == 0 && !now.equal(p.after) {
		t.Errorf("no error, and not all is done, says the state and not %+v; from after:\n%s", result, p.after.diff(now))
	}
	if outcomeOf(err) == notDone && !now.equal(p.before) {
		t.Errorf("the error says that nothing is done: %v; from before:\n%s", err, p.before.diff(now))
	}
	for _, wrong := range now.between(p.before, p.after, c) {
		t.Errorf("neither before nor after: %s; the error is %v", wrong, err)
	}
	if c.Counts == "" {
		return
	}
	if applied := now.changed(p.before, p.after, c.Counts); applied < result.Done || applied > result.Done+result.Unknown {
		t.Errorf("%d done, %+v says the result; the error is %v", applied, result, err)
	}
}

// Each command of each call fails in each way. In a small run one command of each method fails in one.
func TestSweep(t *testing.T) {
	t.Parallel() // TestZones waits for the balancer
	figures := newFigures()
	var all []placed
	for _, r := range calls(registry.Writes()) {
		all = append(all, placed{Row: r})
	}
	together(t, all, func(t *testing.T, r placed) { r.sweep(t, figures) })
	if t.Failed() || !scale.Whole() {
		return
	}
	t.Log(figures.lines())
	if *update {
		figures.write(t)
	}
}

// calls are the rows that a run takes: in a small one the first row of each method.
func calls(rows []registry.Row) []registry.Row { return scale.Of(registry.Firsts(rows), rows, rows) }

// third is every third row in a small run.
func third(rows []registry.Row) []registry.Row { return registry.Every(scale.Of(3, 1, 1), rows) }

// together runs test for some rows at the same time. In a small run those of a package, of a tree with one representation,
// follow each other in one database, because to make collections and indexes anew takes longer than a case.
func together(t *testing.T, rows []placed, test func(t *testing.T, r placed)) {
	slots := make(chan bool, workers)
	var group sync.WaitGroup
	for _, rows := range byDatabase(rows) {
		slots <- true
		group.Go(func() {
			defer func() { <-slots }()
			var db *mongo.Database
			if len(rows) > 1 {
				db = mongotest.Database(t)
			}
			for _, r := range rows {
				r.db = db
				t.Run(strings.ReplaceAll(r.Name, "/", ": "), func(t *testing.T) { test(t, r) })
			}
		})
	}
	group.Wait()
}

// byDatabase divides rows into those that share a database.
func byDatabase(rows []placed) (out [][]placed) {
	place := map[string]int{}
	for i, r := range rows {
		name := fmt.Sprint("alone ", i)
		if scale.Of(r.cluster == nil, false, false) {
			name = r.Package()
			if _, rep, _ := strings.Cut(r.Name, "/"); name == "tree" {
				rep, _, _ = strings.Cut(rep, ",")
				name += rep
			}
		}
		if _, known := place[name]; !known {
			place[name] = len(out)
			out = append(out, nil)
		}
		out[place[name]] = append(out[place[name]], r)
	}
	return out
}

func (r placed) sweep(t *testing.T, figures *figures) {
	direct := r.database(t)
	p := r.record(t, direct)
	figures.method(r.Row, len(p.commands))
	for _, b := range r.chosen(p.commands) {
		t.Run(fmt.Sprintf("%v/%s", b.at, b.name), func(t *testing.T) {
			// A deadline must pass at the command and not before: on a busy machine it
			// gets longer.
			within := patience
			if b.ending == deadline {
				within = 200*time.Millisecond + 3*p.took
			}
			for range 6 {
				said, met := p.try(t, direct, b.at, b.fault, within)
				if met {
					figures.count(r.Row, said)
					return
				}
				within *= 2
			}
			t.Error("the context always ended before the command")
		})
	}
}

// broken is a fault at a command.
type broken struct {
	at command
	fault
}

// chosen are the faults that a row meets: all of each command, or one, or two of each command; which of them goes by
// the row and the seed.
func (r placed) chosen(commands []command) []broken {
	sum := fnv.New64a()
	fmt.Fprint(sum, r.Name, scale.Seed())
	random := rand.New(rand.NewPCG(sum.Sum64(), 0))
	var all []broken
	for _, at := range commands {
		var each []broken
		for _, f := range faults {
			if f.on(at) {
				each = append(each, broken{at, f})
			}
		}
		if !scale.Whole() {
			random.Shuffle(len(each), func(i, j int) { each[i], each[j] = each[j], each[i] })
			each = each[:min(2, len(each))]
		}
		all = append(all, each...)
	}
	if n := len(all); scale.Of(true, false, false) {
		i := random.IntN(n)
		all = all[i : i+1]
	}
	return all
}

// onShards returns the rows that run on a cluster: three of all, or one of twelve of each package, or all that do.
func onShards(rows []registry.Row) []registry.Row {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r registry.Row) bool { return notSharded[r.Name] != "" })
	if scale.Whole() {
		return rows
	}
	random := rand.New(rand.NewPCG(scale.Seed(), 0))
	random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if scale.Of(true, false, false) {
		return rows[:3]
	}
	seen := map[string]int{}
	return slices.DeleteFunc(rows, func(r registry.Row) bool {
		seen[r.Package()]++
		return seen[r.Package()]%12 != 1
	})
}
