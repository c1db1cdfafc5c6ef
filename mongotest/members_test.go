//go:build unix

package mongotest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest/internal/wheel"
)

// TestMembers has the primary of a set step down, killed, and paused; each time
// another is elected, and what was acknowledged is there.
func TestMembers(t *testing.T) {
	t.Parallel()
	set := ReplicaSet(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if n := len(set.Members()); n != 3 {
		t.Fatalf("%d members", n)
	}
	db := set.Database(t)
	coll := db.Collection("c")
	acknowledged := 0
	insert := func() {
		t.Helper()
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: acknowledged}}); err != nil {
			t.Fatal(err)
		}
		acknowledged++
	}
	primary := func() *Member {
		t.Helper()
		m, err := set.Primary(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	insert()

	// A busy machine may hold an election by itself, and then the first may be the one that is elected.
	before := term(t, set)
	first := primary()
	ok(set.StepDown(ctx))
	second := primary()
	if after := term(t, set); first == second && after == before+1 || after == before {
		t.Errorf("stepped down and still the primary, terms %d and %d", before, after)
	}
	insert()

	ok(second.Kill())
	ok(second.Kill()) // is dead already
	if err := second.Pause(); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("pause a dead member: %v", err)
	}
	insert() // waits for the election
	third := primary()
	if third == second {
		t.Error("killed and still the primary")
	}
	ok(second.Restart(ctx))

	ok(third.Pause())
	coll = set.Database(t).Client().Database(db.Name()).Collection("c") // one that does not wait for it
	insert()
	fourth := primary()
	if third == fourth {
		t.Error("paused and still the primary")
	}
	ok(third.Resume())
	ok(third.ready(ctx))
	ok(fourth.Restart(ctx)) // while it runs
	insert()

	if n, err := coll.CountDocuments(ctx, bson.D{}); err != nil || n != int64(acknowledged) {
		t.Errorf("%d of %d documents, %v", n, acknowledged, err)
	}
	ok(primary().Pause()) // Close ends a paused member too
	ok(set.Close())
	for _, m := range set.Members() {
		if _, err := os.Stat(m.process.dir); !os.IsNotExist(err) {
			t.Errorf("%s: left behind: %v", m.process.dir, err)
		}
	}
}

// term is the number of the last election that the primary knows.
func term(t *testing.T, set *Server) int {
	t.Helper()
	var status struct{ Term int }
	if err := command(t.Context(), set.AdminURI, &status, bson.D{{Key: "replSetGetStatus", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	return status.Term
}

// TestOneMember: a single member steps down, is elected again, and keeps its data
// over a crash.
func TestOneMember(t *testing.T) {
	t.Parallel()
	set := ReplicaSet(t, 1)
	if len(set.Members()) == 0 {
		t.Skip("not started here as a process: MONGODB_URI or a container")
	}
	ctx := t.Context()
	coll := set.Database(t, looksOften()).Collection("c")
	for id := range 2 {
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
			t.Fatal(err)
		}
		err := set.StepDown(ctx)
		if id == 1 {
			err = set.Members()[0].Restart(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, err := set.Primary(ctx); err != nil || m != set.Members()[0] {
			t.Errorf("primary %v, %v", m, err)
		}
	}
	if n, err := coll.CountDocuments(ctx, bson.D{}); err != nil || n != 2 {
		t.Errorf("%d documents, %v", n, err)
	}
}

// TestMembersNeedProcesses: MONGODB_URI and Docker are no way to several members.
func TestMembersNeedProcesses(t *testing.T) {
	w := newWorld(t)
	w.enter(t, "MONGODB_URI=mongodb://"+closedPort(t), "MONGOTEST_SERVER=docker")
	for _, c := range []struct {
		opts Options
		has  string
	}{
		{Options{Members: 3}, "tried:\n  MONGODB_URI: passed over: only members started here can be killed\n  mongod: not on PATH\n  embedded: "},
		{Options{Members: 3, Server: "docker"}, "choose one of mongod, embedded"},
		{Options{Members: 8}, "1 to 7"},
		{Options{Members: -1}, "1 to 7"},
	} {
		if _, err := Start(t.Context(), &c.opts); err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%+v: %v", c.opts, err)
		}
	}
	s := &Server{URI: "mongodb://" + closedPort(t)}
	if _, err := s.Primary(t.Context()); err == nil || s.Members() != nil {
		t.Errorf("a server not started here: %v, %v", s.Members(), err)
	}
}

// A killed test leaves nothing of a set or a cluster either, paused members among it: within seconds their
// processes and folders are gone.
func TestEndOfSet(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	t.Parallel()
	cache, err := wheel.Cache()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"set", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "MONGOTEST_TEST_END="+kind, "MONGOTEST_CACHE="+cache)
			w.env[0] = "PATH=" + os.Getenv("PATH")
			p := w.run(t, nil, "-test.run=^TestVictim$")
			eventually(t, "the victim blocks", func() bool { return strings.Contains(p.output(), "blocking") || p.isEnded() })
			pids := w.processes()
			if len(pids) != 3 || slices.Contains(pids, 0) {
				t.Fatalf("processes %v:\n%s", pids, p.output())
			}
			begin := time.Now()
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				w.gone(t, pid)
			}
			if took := time.Since(begin); took > slow {
				t.Errorf("its processes were there for %v", took)
			}
		})
	}
}
