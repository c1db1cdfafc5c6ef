//go:build unix

// Package adoption tests docs/adopting.md: it adopts a collection in use by the page's
// steps, for each pattern in its table, and compares what the pattern's reads return with
// what the programs did.
//
// Old code is two clients, one with its clock an hour behind, so that _ids do not rise. They
// write while Adopt runs, is killed, is cancelled and runs again. New code joins them, then
// the old stops, and the steps end as the page says. A model in memory holds every
// acknowledged operation.
package adoption_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// operations is how many each old client does.
func operations() int { return scale.Of(60, 600, 6000) }

// kills reports whether a process that adopts pattern i is killed: in a small run of one pattern of five. What it leaves
// open the server must be told to end soon, and a server of others is not told.
func kills(i int) bool {
	return os.Getenv("MONGODB_URI") == "" && scale.Of(uint64(i)%5 == scale.Seed()%5, true, true)
}

// pattern is a section of the page, or one of several cases of a section.
type pattern struct {
	row, name string
	// open makes the helper, in the child process too.
	open func(db *mongo.Database) (helper, error)
	// start fills the collections as old code has them.
	start func(w *world) service
	// says are the items of the page that the case tests.
	says []sentence
}

// sentence is an item of the page, a sentence or two. Its test runs after the steps and the oracle, on documents of its own.
type sentence struct {
	text string
	test func(t *testing.T, w *world)
}

// meanwhile is the test of what old code may do: it has done it, by these operations, and the
// oracle has compared every document that came of it with the model.
func meanwhile(names ...string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		for _, name := range names {
			if !slices.ContainsFunc(w.old, func(o op) bool { return o.name == name }) {
				t.Errorf("old code does not %s", name)
			}
		}
	}
}

// helper is what the page's steps call.
type helper struct {
	ensure func(context.Context) error
	adopt  func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)
	check  func(context.Context, *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] // nil: the pattern has none
	repair func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)           // nil: the pattern has none
	// busy is the error of an Adopt that another one keeps out. nil: none does.
	busy error
	// value is the helper with its types.
	value any
	// sharder has its shard keys. Default: value.
	sharder mongopatterns.Sharder
}

// service is the programs that use the collections.
type service struct {
	// old and fresh are the operations of old and of new code that the page allows.
	old, fresh []op
	// follow runs as long as old code does, and until Check finds nothing: Repair is not
	// needed then. Default nil.
	follow func(ctx context.Context) error
	// oracle compares what the helper's reads return with the model.
	oracle func(t *testing.T)
}

// op is an operation. It returns errNothing if there is nothing it can do now.
type op struct {
	name string
	do   func(ctx context.Context, c *client) error
}

var errNothing = errors.New("nothing to do")

// world is a database and what happens there.
type world struct {
	t   *testing.T
	db  *mongo.Database
	uri string
	h   helper

	mu     sync.Mutex
	did    map[string]int // operations that were acknowledged
	old    []op           // of old code
	models []*model

	chunksMove, kill bool
}

// client is a program: its random numbers, and its clock.
type client struct {
	*rand.Rand
	name  byte
	clock uint32 // seconds
	n     uint32
}

func newClient(name byte, behind time.Duration) *client {
	const start = 1_700_000_000
	return &client{Rand: rand.New(rand.NewPCG(scale.Seed(), uint64(name))), name: name, clock: start - uint32(behind/time.Second)}
}

// id is an ObjectID by the client's clock, which ticks every eighth one.
func (c *client) id() bson.ObjectID {
	var id bson.ObjectID
	c.n++
	binary.BigEndian.PutUint32(id[:4], c.clock+c.n/8)
	id[4] = c.name
	binary.BigEndian.PutUint32(id[8:], c.n)
	return id
}

// text is unique, and sorts at random.
func (c *client) text() string {
	c.n++
	return fmt.Sprintf("%08x-%c%d", c.Uint32(), c.name, c.n)
}

func (c *client) int(n int) int32 { return int32(c.IntN(n)) }

// run has a client do n operations: each once, if it can be done then, and others at random.
func (w *world) run(ctx context.Context, c *client, ops []op, n int) error {
	first := c.Perm(len(ops))
	for done, idle := 0, 0; done < n; {
		o := ops[c.IntN(len(ops))]
		if len(first) > 0 {
			o, first = ops[first[0]], first[1:]
		}
		err := o.do(ctx, c)
		if errors.Is(err, errNothing) {
			if idle++; idle > 10_000 {
				return fmt.Errorf("client %c: nothing can be done", c.name)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("client %c: %s: %w", c.name, o.name, err)
		}
		w.count(o.name)
		done, idle = done+1, 0
	}
	return nil
}

func (w *world) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[name]++
}

// stage has clients work while adopt runs, and waits for all.
func (w *world) stage(name string, n int, ops map[*client][]op, adopt func(ctx context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	errs := make(chan error, len(ops)+1)
	for c, list := range ops {
		go func() { errs <- w.run(ctx, c, list, n) }()
	}
	go func() { errs <- adopt(ctx) }()
	failed := false
	for range len(ops) + 1 {
		if err := <-errs; err != nil {
			w.t.Errorf("%s: %v", name, err)
			failed = true
		}
	}
	if failed {
		w.t.FailNow()
	}
}

const batch = 7 // documents, so that there are many batches

// adopt runs Adopt, and waits for one that was killed.
func (w *world) adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	for {
		result, err = w.h.adopt(ctx, work)
		if w.h.busy == nil || !errors.Is(err, w.h.busy) {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, errors.Join(err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// whole runs Adopt, which must end and refuse nothing.
func (w *world) whole(ctx context.Context) error {
	batches := 0
	result, err := w.adopt(ctx, &mongopatterns.Work{BatchSize: batch, Progress: func(mongopatterns.Result) { batches++ }})
	if err == nil && result.Failed != 0 {
		err = fmt.Errorf("Adopt: %+v", result)
	}
	w.t.Logf("%d batches: %+v", batches, result)
	return err
}

// cancelled runs Adopt with a context that ends after two batches.
func (w *world) cancelled(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := 0
	_, err := w.adopt(ctx, &mongopatterns.Work{BatchSize: batch, Progress: func(mongopatterns.Result) {
		if batches++; batches == 2 {
			cancel()
		}
	}})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err // it had ended
}

// killed starts a process that adopts, and kills it after some batches.
func (w *world) killed(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if !w.kill {
			return w.cancelled(ctx)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		child := exec.CommandContext(ctx, self)
		child.Env = append(os.Environ(), "ADOPTION_CHILD="+name, "ADOPTION_DB="+w.db.Name(), "ADOPTION_URI="+w.uri)
		var stderr strings.Builder
		child.Stderr = &stderr
		out, err := child.StdoutPipe()
		if err != nil {
			return err
		}
		if err = child.Start(); err != nil {
			return err
		}
		lines := bufio.NewScanner(out)
		seen, sessions := 0, bson.A{}
		for seen < 4 && lines.Scan() {
			if id, found := strings.CutPrefix(lines.Text(), "session "); found {
				uuid, err := hex.DecodeString(id)
				if err != nil {
					return err
				}
				sessions = append(sessions, d("id", bson.Binary{Subtype: 4, Data: uuid}))
			} else {
				seen++
			}
		}
		err = child.Process.Kill() // SIGKILL
		_ = child.Wait()
		if err != nil || seen < 4 {
			return fmt.Errorf("the child ended by itself, after %d batches: %w\n%s", seen, err, stderr.String())
		}
		if w.chunksMove { // a move would wait for the cursors that the child has left open
			return w.db.Client().Database("admin").RunCommand(ctx, d("killSessions", sessions)).Err()
		}
		return nil
	}
}

// child adopts again and again until it is killed.
func child(name string) error {
	var mu sync.Mutex
	known := map[string]bool{}
	started := func(_ context.Context, e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		if _, id, ok := e.Command.Lookup("lsid", "id").BinaryOK(); ok && !known[string(id)] {
			known[string(id)] = true
			fmt.Println("session", hex.EncodeToString(id))
		}
	}
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("ADOPTION_URI")).SetMonitor(&event.CommandMonitor{Started: started}))
	if err != nil {
		return err
	}
	for _, p := range patterns {
		if p.name != name {
			continue
		}
		h, err := p.open(client.Database(os.Getenv("ADOPTION_DB")))
		for err == nil {
			fmt.Println("begun")
			_, err = h.adopt(context.Background(), &mongopatterns.Work{BatchSize: batch, Progress: func(mongopatterns.Result) { fmt.Println("batch") }})
		}
		return err
	}
	return fmt.Errorf("no pattern %q", name)
}

func TestMain(m *testing.M) {
	testkit.AtRoot()
	if name := os.Getenv("ADOPTION_CHILD"); name != "" {
		fmt.Fprintln(os.Stderr, child(name))
		os.Exit(1)
	}
	testkit.Main(m)
}

// A service adopted by docs/adopting.md beside busy old code loses nothing, doubles nothing and
// refuses nothing that the page allows.
func TestAdoption(t *testing.T) {
	for i, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			db := mongotest.Database(t)
			if kills(i) {
				limit := bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 3}}
				if err := mongotest.Admin(t, db).Client().Database("admin").RunCommand(t.Context(), limit).Err(); err != nil {
					t.Fatal(err)
				}
			}
			t.Parallel()
			steps(t, p, db, mongotest.URI(t), nil, kills(i))
		})
	}
}

// steps are those of the page, on a cluster with the collections sharded.
func steps(t *testing.T, p pattern, db *mongo.Database, uri string, cluster *mongotest.Server, kill bool) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the seed was %d", scale.Seed())
		}
	})
	begun := time.Now()
	// 1. Name your fields.
	h, err := p.open(db)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, uri: uri, h: h, did: map[string]int{}, kill: kill}
	s := p.start(w)
	if w.chunksMove = cluster != nil; w.chunksMove {
		t.Cleanup(w.shard(cluster))
	}
	w.old = s.old
	first, second, fresh := newClient('A', 0), newClient('B', time.Hour), newClient('N', 0)
	n := operations() / 4
	old := map[*client][]op{first: s.old, second: s.old}
	if len(s.old) == 0 {
		old = nil
	}

	if h.adopt != nil {
		// 2. Check first, dry: it writes nothing.
		before := w.hash()
		dry, err := h.adopt(t.Context(), &mongopatterns.Work{DryRun: true})
		if err != nil || dry.Done == 0 {
			t.Fatalf("a dry Adopt: %+v, %v", dry, err)
		}
		if after := w.hash(); after != before {
			t.Fatalf("a dry Adopt wrote:\n%s\n%s", before, after)
		}
	}
	// 3. EnsureIndexes.
	if h.ensure != nil {
		if err := h.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	followed := w.follow(s.follow)
	if h.adopt != nil {
		// 4. Adopt, which can be stopped and run again at any time.
		w.stage("beside a killed Adopt", n, old, w.killed(p.name))
		w.stage("beside a cancelled Adopt", n, old, w.cancelled)
		w.stage("beside Adopt", n, old, w.whole)
	}
	// 5. Deploy the new code, then stop the old.
	both := map[*client][]op{first: s.old, second: s.old, fresh: s.fresh}
	if len(s.old) == 0 {
		delete(both, first)
		delete(both, second)
	}
	if len(s.fresh) == 0 {
		delete(both, fresh)
	}
	w.stage("old and new code", n, both, func(ctx context.Context) error {
		if h.adopt == nil {
			return nil
		}
		return w.whole(ctx)
	})
	// 6. Adopt once more, then Check until it finds nothing. Repair does the rest. New code
	// goes on.
	only := map[*client][]op{fresh: s.fresh}
	if len(s.fresh) == 0 {
		only = nil
	}
	w.stage("new code", n/4, only, func(ctx context.Context) error {
		if h.adopt == nil {
			return nil
		}
		result, err := w.adopt(ctx, nil)
		for range 3 { // until it ends with nothing remaining
			if err == nil && result.Remaining > 0 {
				w.t.Logf("once more: %+v", result)
				result, err = w.adopt(ctx, nil)
			}
		}
		if err == nil && (result.Failed != 0 || result.Remaining != 0) {
			left := w.problems(w.t)
			err = fmt.Errorf("the last Adopt: %+v; Check finds %d: %s", result, len(left), w.stories(left))
		}
		return err
	})
	followed(t)
	w.settle(t)
	t.Logf("adopted in %v: %v", time.Since(begun).Round(time.Millisecond), w.did)
	var never []string
	for _, o := range append(append([]op{}, s.old...), s.fresh...) {
		if w.did[o.name] == 0 && !slices.Contains(never, o.name) {
			never = append(never, o.name)
		}
	}
	// A short run may by chance never do an operation that is rarely possible.
	if len(never) > 1 || len(never) == 1 && operations() >= 1000 {
		t.Errorf("%v were never done", never)
	}
	t.Run("oracle", s.oracle)
	for _, says := range p.says {
		t.Run(says.text, func(t *testing.T) { says.test(t, w) })
	}
}

// follow starts run beside old code. The function that it returns waits until Check finds nothing, and ends
// run.
func (w *world) follow(run func(context.Context) error) func(t *testing.T) {
	if run == nil {
		return func(*testing.T) {}
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func(t *testing.T) {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			left := w.problems(t)
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("what follows has left %d problems: %v", len(left), left[:min(5, len(left))])
				break
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("what follows has ended: %v", err)
		}
	}
}

// problems are what Check finds.
func (w *world) problems(t testing.TB) (out []mongopatterns.Problem) {
	t.Helper()
	if w.h.check == nil {
		return nil
	}
	for p, err := range w.h.check(t.Context(), nil) {
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		out = append(out, p)
	}
	return out
}

// stories are the first problems, and what was done to their documents.
func (w *world) stories(problems []mongopatterns.Problem) string {
	var out strings.Builder
	for _, p := range problems[:min(3, len(problems))] {
		fmt.Fprintf(&out, "\n%v", p)
		var id any
		if p.ID.Unmarshal(&id) != nil {
			continue
		}
		for _, m := range w.models {
			m.mu.Lock()
			for _, r := range m.all {
				if reflect.DeepEqual(r.id, normal(id)) {
					fmt.Fprintf(&out, "\n\t%s", strings.Join(r.did, "\n\t"))
				}
			}
			m.mu.Unlock()
		}
	}
	return out.String()
}

// settle checks until nothing is found; Repair does what Adopt left.
func (w *world) settle(t *testing.T) {
	t.Helper()
	found := w.problems(t)
	if len(found) == 0 {
		return
	}
	if w.h.repair == nil {
		t.Fatalf("%d problems: %v", len(found), found[:min(len(found), 5)])
	}
	result, err := w.h.repair(t.Context(), nil)
	if err != nil || result.Failed != 0 || result.Remaining != 0 {
		t.Errorf("Repair: %+v, %v", result, err)
	}
	t.Logf("Repair had %d problems to solve, the first: %v", len(found), found[0])
	if left := w.problems(t); len(left) != 0 {
		t.Fatalf("after Repair %d problems: %s", len(left), w.stories(left))
	}
}

// again does the last step once more, for the test of a sentence: Adopt, and the problems that Check finds.
func (w *world) again(t *testing.T) (mongopatterns.Result, []mongopatterns.Problem) {
	t.Helper()
	result, err := w.adopt(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return result, w.problems(t)
}

// named requires that one of the problems is of a kind and names a document.
func named(t *testing.T, problems []mongopatterns.Problem, kind mongopatterns.ProblemKind, id any) {
	t.Helper()
	for _, p := range problems {
		var have any
		if err := p.ID.Unmarshal(&have); err == nil && p.Kind == kind && reflect.DeepEqual(normal(have), normal(id)) {
			return
		}
	}
	t.Errorf("Check does not name %v as %q: %v", id, kind, problems)
}

// clean requires that the last step ends, for a sentence that leaves nothing to be named.
func (w *world) clean(t *testing.T) {
	t.Helper()
	if result, problems := w.again(t); result.Failed+result.Remaining != 0 || len(problems) != 0 {
		t.Errorf("%+v, %v", result, problems)
	}
}

// repaired calls Repair and returns the problems that Check finds after it.
func (w *world) repaired(t *testing.T) []mongopatterns.Problem {
	t.Helper()
	_, err := w.h.repair(t.Context(), nil)
	testkit.OK(t, err)
	return w.problems(t)
}

// insert, update, replace and remove are old code's, for one document.
func (w *world) insert(t *testing.T, coll string, doc bson.D) {
	t.Helper()
	_, err := w.db.Collection(coll).InsertOne(t.Context(), doc)
	testkit.OK(t, err)
}

// update reports whether it found its document.
func (w *world) update(t *testing.T, coll string, filter, update bson.D) bool {
	t.Helper()
	result, err := w.db.Collection(coll).UpdateOne(t.Context(), filter, update)
	testkit.OK(t, err)
	return result.MatchedCount == 1
}

func (w *world) replace(t *testing.T, coll string, doc bson.M) {
	t.Helper()
	_, err := w.db.Collection(coll).ReplaceOne(t.Context(), d("_id", doc["_id"]), doc)
	testkit.OK(t, err)
}

func (w *world) remove(t *testing.T, coll string, id any) {
	t.Helper()
	_, err := w.db.Collection(coll).DeleteOne(t.Context(), d("_id", id))
	testkit.OK(t, err)
}

// stored is a document as it is.
func (w *world) stored(t *testing.T, coll string, id any) (doc bson.M) {
	t.Helper()
	testkit.OK(t, w.db.Collection(coll).FindOne(t.Context(), d("_id", id)).Decode(&doc))
	return normal(doc).(bson.M)
}

// hash returns a hash of all documents of all collections.
func (w *world) hash() string {
	w.t.Helper()
	names, err := w.db.ListCollectionNames(w.t.Context(), bson.D{})
	testkit.OK(w.t, err)
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		cursor, err := w.db.Collection(name).Find(w.t.Context(), bson.D{}, options.Find().SetSort(d("_id", 1)))
		testkit.OK(w.t, err)
		for cursor.Next(w.t.Context()) {
			_, _ = fmt.Fprint(sum, name, len(cursor.Current))
			_, _ = sum.Write(cursor.Current)
		}
		testkit.OK(w.t, cursor.Err())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		testkit.OK(t, err)
		return v
	}
}
