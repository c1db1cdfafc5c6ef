package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

const (
	readsBegin = "<!-- the reads: written by go test ./internal/tests/sweep -run TestWhileChunksMove/reads -scale=whole -update -timeout 1h -->\n"
	readsEnd   = "<!-- the reads end -->\n"
)

// A fullRead is a way to read all documents of a collection by a filter that does not fix the shard key.
type fullRead struct {
	name string
	// in runs the read: outside transactions, in one, or in a snapshot session.
	in func(ctx context.Context, client *mongo.Client, read func(context.Context) error) error
	// before: a read of another collection takes the snapshot, and a chunk moves before this read.
	before bool
	group  bool // by $group, not by find
}

func outside(ctx context.Context, _ *mongo.Client, read func(context.Context) error) error {
	return read(ctx)
}

func within(level *readconcern.ReadConcern) func(context.Context, *mongo.Client, func(context.Context) error) error {
	return func(ctx context.Context, client *mongo.Client, read func(context.Context) error) error {
		return client.UseSession(ctx, func(ctx context.Context) error {
			_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, read(ctx) },
				options.Transaction().SetReadConcern(level))
			return err
		})
	}
}

func atSnapshot(ctx context.Context, client *mongo.Client, read func(context.Context) error) error {
	return client.UseSessionWithOptions(ctx, options.Session().SetSnapshot(true), read)
}

// On servers before 6.0.13 a transaction without a snapshot, if it began before a move, misses the documents that
// moved (SERVER-77506). So the list leaves such reads out.
var fullReads = []fullRead{
	{name: "a find outside transactions", in: outside},
	{name: "the only read of a transaction, read concern local", in: within(readconcern.Local())},
	{name: "a find of a snapshot transaction", in: within(readconcern.Snapshot())},
	{name: "a find of a snapshot transaction that began before a move", in: within(readconcern.Snapshot()), before: true},
	{name: "`$group` of a snapshot transaction", in: within(readconcern.Snapshot()), group: true},
	{name: "`$group` of a snapshot transaction that began before a move", in: within(readconcern.Snapshot()), before: true, group: true},
	{name: "a find of a snapshot session", in: atSnapshot},
	{name: "a find of a snapshot session that began before a move", in: atSnapshot, before: true},
}

const fullLength = 200

// read reads the collection once and returns how often it saw each document.
func (w fullRead) read(ctx context.Context, db *mongo.Database, m *mover) (seen [fullLength]int, err error) {
	err = w.in(ctx, db.Client(), func(ctx context.Context) error {
		if w.before {
			if err := db.Collection("early").FindOne(ctx, testkit.D("_id", 1)).Err(); err != nil {
				return err
			}
			for moved := m.moved.Load(); m.moving() && m.moved.Load() == moved; {
				time.Sleep(time.Millisecond)
			}
		}
		filter := testkit.D("n", testkit.D("$gte", 0))
		find := func() (*mongo.Cursor, error) {
			return db.Collection("whole").Find(ctx, filter, options.Find().SetBatchSize(int32(7+rand.IntN(2*fullLength))))
		}
		if w.group {
			find = func() (*mongo.Cursor, error) {
				return db.Collection("whole").Aggregate(ctx, bson.A{testkit.D("$match", filter), testkit.D("$group", testkit.D("_id", "$n", "n", testkit.D("$first", "$n"), "times", testkit.D("$sum", 1)))})
			}
		}
		seen = [fullLength]int{}
		cursor, err := find()
		if err != nil {
			return err
		}
		var docs []struct{ N, Times int }
		if err := cursor.All(ctx, &docs); err != nil {
			return err
		}
		for _, d := range docs {
			seen[d.N] += max(d.Times, 1)
		}
		return nil
	})
	return seen, err
}

// readsWhileChunksMove fails unless each read of a whole collection sees each document once. As a whole the
// shards pause meanwhile (SIGSTOP).
func readsWhileChunksMove(t *testing.T, cluster *mongotest.Server) {
	ctx := t.Context()
	db := cluster.Database(t)
	var docs []any
	for i := range fullLength {
		docs = append(docs, testkit.D("_id", i, "n", i))
	}
	if _, err := db.Collection("whole").InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("early").InsertOne(ctx, testkit.D("_id", 1)); err != nil {
		t.Fatal(err)
	}
	done := testkit.Must(mongopatterns.Shard(ctx, db, registry.Keyed{Coll: db.Collection("whole"), Key: testkit.D("_id", 1)}))
	m := newMover(t, cluster, db, done)
	go m.move(t)
	var group sync.WaitGroup
	if scale.Whole() {
		group.Go(func() { m.pause(t) })
	}
	reads := make([]atomic.Int64, len(fullReads))
	for i, w := range fullReads {
		group.Go(func() {
			for first := true; first || m.moving(); first = false {
				seen, err := w.read(ctx, db, m)
				if err != nil {
					t.Errorf("%s: %v", w.name, err)
					return
				}
				for n, times := range seen {
					if times != 1 {
						t.Errorf("%s: read document %d %d times", w.name, n, times)
					}
				}
				reads[i].Add(1)
			}
		})
	}
	group.Wait()
	table := fmt.Sprintf("| %d moves of chunks | reads, each exact |\n|---|--:|\n", m.moved.Load())
	for i, w := range fullReads {
		table += fmt.Sprintf("| %s | %d |\n", w.name, reads[i].Load())
	}
	t.Log("\n" + table)
	text, err := os.ReadFile(shardsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), readsBegin)
	_, after, closed := strings.Cut(rest, readsEnd)
	if !found || !closed {
		t.Fatalf("%s has no block of the reads", shardsPage)
	}
	if t.Failed() || !*update || !scale.Whole() {
		return
	}
	if err := os.WriteFile(shardsPage, []byte(before+readsBegin+"\n"+table+"\n"+readsEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pause stops a shard for a moment, now and then.
func (m *mover) pause(t *testing.T) {
	shards := m.cluster.Shards() // none of a cluster of MONGODB_URI
	for m.moving() && len(shards) > 0 {
		for _, shard := range shards {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
			if err := shard.Pause(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
			if err := shard.Resume(); err != nil {
				t.Error(err)
			}
		}
	}
}
