// Package killed tests what processes leave that are killed while they write measurements, with packages bucket and series,
// or move documents, with package archive: everything that was acknowledged is there, once, and what was under way is
// there whole or not at all. One process makes the steps of all patterns, those of package registry.
package killed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// kills is how many processes are killed while they write, besides those at the end.
func kills() int { return scale.Of(1, 12, 240) }

// event is a measurement. Its time is its own.
type event struct {
	Timestamp time.Time `bson:"timestamp"`
	ID        string    `bson:"id"`
	V         int64     `bson:"v"`
}

var (
	day    = time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC)
	hours  = timeseries.Every(time.Hour)
	values = []timeseries.Value{{Field: "v"}}
)

// A store is what both packages can do.
type store interface {
	EnsureIndexes(ctx context.Context) error
	AppendMany(ctx context.Context, items iter.Seq2[string, event], work *mongopatterns.Work) (mongopatterns.Result, error)
	Replace(ctx context.Context, series string, m event) error
	Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (mongopatterns.Result, error)
	Repair(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error)
	Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error]
	Range(ctx context.Context, series string, from, to time.Time) iter.Seq2[event, error]
	Aggregate(ctx context.Context, series string, from, to time.Time) (timeseries.Stats, error)
}

// open is a store, and how it is tended.
func open(kind string, coll *mongo.Collection) (s store, tend func(context.Context) error, err error) {
	if kind == "bucket" {
		b, err := bucket.New[string, event](coll, hours, &bucket.Options{IDField: "id", MaxCount: 40, Values: values})
		return b, func(ctx context.Context) error { _, err := b.Repair(ctx, nil); return err }, err
	}
	p, err := series.New[string, event](coll, hours, &series.Options{BatchField: "batches", MaxCount: 200, Values: values})
	return p, func(ctx context.Context) error { _, err := p.Compact(ctx, nil); return err }, err
}

const (
	old   = 400 // measurements of "old", three an hour: each call of "archive" finds some to archive
	edits = 10  // measurements of "edited", which are updated
)

// batch is what an appender stores as its n-th batch: the same whoever asks.
func batch(writer string, n int) (out []event) {
	r := rand.New(rand.NewPCG(uint64(len(writer))<<32|uint64(writer[0]), uint64(n)))
	for i := range 1 + r.IntN(6) {
		out = append(out, event{day.Add(time.Duration(r.IntN(6*3600_000)) * time.Millisecond), fmt.Sprintf("%s-%d-%d", writer, n, i), int64(r.IntN(1000))})
	}
	return out
}

// TestMain runs a process to be killed if it is one.
func TestMain(m *testing.M) {
	if name := os.Getenv("KILLED_DB"); name != "" {
		from, _ := strconv.Atoi(os.Getenv("KILLED_FROM"))
		client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("KILLED_URI")))
		if kind := os.Getenv("KILLED_KIND"); err == nil && kind == "archive" {
			err = archiver(client.Database(name), os.Getenv("KILLED_ROLE"), from)
		} else if err == nil {
			err = child(client.Database(name), kind, os.Getenv("KILLED_ROLE"), from)
		}
		fmt.Println("error", err)
		os.Exit(1)
	}
	testkit.Main(m)
}

// child writes until it is killed, and says what was acknowledged.
func child(db *mongo.Database, kind, role string, from int) error {
	ctx := context.Background()
	s, tend, err := open(kind, db.Collection("c"))
	if err != nil {
		return err
	}
	for n := from; ; n++ {
		switch role {
		case "tend":
			err = tend(ctx)
		case "archive":
			_, err = s.Archive(ctx, day.Add(-time.Hour*time.Duration(max(0, 130-n))), db.Collection("archive"), &mongopatterns.Work{BatchSize: 3})
		case "update":
			fmt.Println("begin", n)
			err = s.Replace(ctx, "edited", event{day.Add(time.Duration(n%edits) * time.Minute), strconv.Itoa(n % edits), int64(n)})
		default:
			_, err = s.AppendMany(ctx, timeseries.Of("s", batch(role, n)...), nil)
		}
		if errors.Is(err, mongopatterns.ErrConflict) {
			n--
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("done", n)
	}
}

// A process is one that is killed and begun again.
type process struct {
	role string
	cmd  *exec.Cmd

	mu          sync.Mutex
	begun, done int // the last ones
	failed      string
	read        chan struct{}
}

func (p *process) start(t *testing.T, db *mongo.Database, uri, kind string) {
	t.Helper()
	p.cmd = exec.CommandContext(t.Context(), os.Args[0])
	p.cmd.Env = append(os.Environ(), "KILLED_DB="+db.Name(), "KILLED_URI="+uri, "KILLED_KIND="+kind, "KILLED_ROLE="+p.role, "KILLED_FROM="+strconv.Itoa(p.done+1))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.read = make(chan struct{})
	go p.listen(out)
}

func (p *process) listen(out io.Reader) {
	defer close(p.read)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var word string
		n := 0
		p.mu.Lock()
		if fields, _ := fmt.Sscan(lines.Text(), &word, &n); fields < 2 {
			p.failed = lines.Text()
		} else if word == "done" {
			p.done = n
		} else {
			p.begun = n
		}
		p.mu.Unlock()
	}
}

// kill kills the process once it has got on.
func (p *process) kill(t *testing.T, r *rand.Rand) {
	t.Helper()
	p.mu.Lock()
	before := p.done
	p.mu.Unlock()
	for range 3000 {
		p.mu.Lock()
		on, failed := p.done > before, p.failed
		p.mu.Unlock()
		if failed != "" {
			t.Fatalf("%s: %s", p.role, failed)
		}
		if on {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Duration(r.IntN(30_000)) * time.Microsecond)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.read
	_ = p.cmd.Wait()
}

// Two processes append, others compact, repair, update and archive, and one after the other is
// killed and begun again, which repeats what was not acknowledged.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	for _, kind := range []string{"bucket", "series"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			set := mongotest.ReplicaSet(t, 1)
			db := set.Database(t)
			endSoon(t, db)
			test(t, db, set.URI, kind)
		})
	}
}

// endSoon has the server end the transactions of killed processes after two seconds, until t ends.
func endSoon(t *testing.T, db *mongo.Database) {
	t.Helper()
	admin := mongotest.Admin(t, db).Client().Database("admin")
	set := func(ctx context.Context, seconds int32) (was int32, err error) {
		var reply struct{ Was int32 }
		cmd := bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: seconds}}
		err = admin.RunCommand(ctx, cmd).Decode(&reply)
		return reply.Was, err
	}
	was, err := set(t.Context(), 2)
	if err != nil {
		t.Skip("the lifetime of transactions cannot be set: ", err)
	}
	t.Cleanup(func() { _, err := set(context.WithoutCancel(t.Context()), was); testkit.OK(t, err) })
}

// ended waits until no transaction is open: a commit that a process sent before it was killed may still be applied.
func ended(t *testing.T, db *mongo.Database) {
	t.Helper()
	var status struct {
		Transactions struct {
			Open int64 `bson:"currentOpen"`
		}
	}
	admin := mongotest.Admin(t, db)
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		testkit.OK(t, admin.RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status))
		if status.Transactions.Open == 0 {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d transactions are open", status.Transactions.Open)
		}
	}
}

func test(t *testing.T, db *mongo.Database, uri, kind string) {
	s, _, err := open(kind, db.Collection("c"))
	testkit.OK(t, err)
	testkit.OK(t, s.EnsureIndexes(t.Context()))
	archive, _, err := open(kind, db.Collection("archive"))
	testkit.OK(t, err)
	testkit.OK(t, archive.EnsureIndexes(t.Context()))
	want := map[string]event{}
	put := func(series string, all ...event) {
		t.Helper()
		_, err := s.AppendMany(t.Context(), timeseries.Of(series, all...), nil)
		testkit.OK(t, err)
	}
	for i := range old {
		e := event{day.Add(-time.Duration(i+1) * 20 * time.Minute), fmt.Sprintf("old-%d", i), int64(i)}
		put("old", e)
		want[e.ID] = e
	}
	for i := range edits {
		put("edited", event{day.Add(time.Duration(i) * time.Minute), strconv.Itoa(i), -1})
	}

	processes := []*process{{role: "a"}, {role: "bb"}, {role: "tend"}, {role: "update"}, {role: "archive"}}
	for _, p := range processes {
		p.done, p.begun = -1, -1
		p.start(t, db, uri, kind)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range kills() {
		p := processes[i%len(processes)]
		p.kill(t, r)
		p.start(t, db, uri, kind)
	}
	for _, p := range processes {
		p.kill(t, r)
		t.Logf("%s: %d", p.role, p.done)
	}
	ended(t, db)

	// A write that was not acknowledged is repeated, and so stored once.
	for _, p := range processes[:2] {
		for n := range p.done + 2 {
			if n == p.done+1 {
				put("s", batch(p.role, n)...)
			}
			for _, e := range batch(p.role, n) {
				want[e.ID] = e
			}
		}
	}
	got := map[string]event{}
	for _, s := range []struct {
		store
		series string
	}{{s, "s"}, {s, "old"}, {archive, "old"}} {
		n := int64(0)
		for e, err := range s.Range(t.Context(), s.series, time.Time{}, time.Time{}) {
			testkit.OK(t, err)
			if _, twice := got[e.ID]; twice {
				t.Errorf("%s is stored twice", e.ID)
			}
			got[e.ID] = e
			n++
		}
		if stats, err := s.Aggregate(t.Context(), s.series, time.Time{}, time.Time{}); err != nil || stats.Count != n {
			t.Errorf("%d counted, %d read, %v", stats.Count, n, err)
		}
	}
	for id, e := range want {
		if got[id] != e {
			t.Errorf("%v, want %v", got[id], e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d measurements, want %d", len(got), len(want))
	}
	var edited []int64
	for e, err := range s.Range(t.Context(), "edited", time.Time{}, time.Time{}) {
		testkit.OK(t, err)
		edited = append(edited, e.V)
	}
	p := processes[3]
	for i, v := range edited {
		last := p.done - (p.done-i+edits)%edits // of this one that was acknowledged
		next := p.begun > p.done && p.begun%edits == i && v == int64(p.begun)
		if v != int64(max(-1, last)) && !next {
			t.Errorf("edited %d is %d, want %d, or %d", i, v, last, p.begun)
		}
	}
	if len(edited) != edits {
		t.Errorf("%d edited ones", len(edited))
	}
	for _, s := range []store{s, archive} {
		for problem, err := range s.Check(t.Context(), nil) {
			t.Error(problem, err)
		}
	}
	if stats, err := archive.Aggregate(t.Context(), "old", time.Time{}, time.Time{}); err != nil || stats.Count == 0 {
		t.Error("nothing was archived", err)
	}
}
