//go:build unix

package mongotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
)

// sharded is a collection whose documents, {_id, k, g: k % 3}, of 0 <= k < 100 are on two shards, split
// at k 50, and a plain one.
func sharded(t *testing.T) (s *Server, coll *mongo.Collection) {
	t.Helper()
	s = Sharded(t, 2)
	db := s.Database(t)
	coll = db.Collection("c")
	if err := s.Shard(t.Context(), coll, bson.D{{Key: "k", Value: 1}}, bson.D{{Key: "k", Value: 50}}); err != nil {
		t.Fatal(err)
	}
	var docs []any
	for i := range 100 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "k", Value: i}, {Key: "g", Value: i % 3}})
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("plain").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	return s, coll
}

// inTransaction runs fn in one with snapshot reads.
func inTransaction(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	return client.UseSession(ctx, func(ctx context.Context) error {
		_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, fn(ctx) })
		return err
	})
}

func numbers(t *testing.T, cursor *mongo.Cursor, err error, field string) []int {
	t.Helper()
	var docs []bson.Raw
	if err == nil {
		err = cursor.All(context.Background(), &docs)
	}
	if err != nil {
		t.Error(err)
	}
	out := []int{}
	for _, doc := range docs {
		out = append(out, int(doc.Lookup(field).AsInt64()))
	}
	return out
}

// TestSharded has a cluster do what a service does, in and outside transactions, and compares the results
// with those of one server; and it counts the shards that were asked.
func TestSharded(t *testing.T) {
	t.Parallel()
	s, coll := sharded(t)
	db, ctx := coll.Database(), t.Context()
	inc := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}
	key := func(k int) bson.D { return bson.D{{Key: "k", Value: k}} }
	matched := func(n int64) func(*mongo.UpdateResult, error) error {
		return func(r *mongo.UpdateResult, err error) error {
			if err == nil && r.MatchedCount != n {
				err = fmt.Errorf("matched %d, want %d", r.MatchedCount, n)
			}
			return err
		}
	}
	last := func(n int) []int { // the numbers below 100 with n in front, from the end
		var out []int
		for i := range n {
			out = append(out, 99-i)
		}
		return out
	}
	compare := func(want, got []int) error {
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	}
	refused := func(code int) func(error) error {
		return func(err error) error {
			var server mongo.ServerError
			if !errors.As(err, &server) || !server.HasErrorCode(code) {
				return fmt.Errorf("want code %d: %w", code, err)
			}
			return nil
		}
	}
	group := mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "k", Value: bson.D{{Key: "$gte", Value: 10}}}}}},
		{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$g"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
	}
	join := mongo.Pipeline{{{Key: "$lookup", Value: bson.D{{Key: "from", Value: "c"}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "k"}, {Key: "as", Value: "c"}}}}}
	for _, test := range []struct {
		name           string
		call           func(ctx context.Context) error
		outside, among string // the shards asked, outside and in a transaction; "" is that it is refused
	}{
		{"find by key", func(ctx context.Context) error { return coll.FindOne(ctx, key(70)).Err() }, "1", "1"},
		{"find by range", func(ctx context.Context) error {
			cursor, err := coll.Find(ctx, bson.D{{Key: "k", Value: bson.D{{Key: "$gte", Value: 10}, {Key: "$lt", Value: 15}}}})
			return compare([]int{10, 11, 12, 13, 14}, numbers(t, cursor, err, "k"))
		}, "0", "0"},
		{"sorted, in batches", func(ctx context.Context) error {
			cursor, err := coll.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetBatchSize(7).SetLimit(60).SetProjection(bson.D{{Key: "k", Value: 1}, {Key: "_id", Value: 0}}))
			return compare(last(60), numbers(t, cursor, err, "k"))
		}, "01", "01"},
		{"skip and limit", func(ctx context.Context) error {
			cursor, err := coll.Find(ctx, bson.D{{Key: "g", Value: 0}}, options.Find().SetSort(bson.D{{Key: "k", Value: 1}}).SetSkip(16).SetLimit(3))
			return compare([]int{48, 51, 54}, numbers(t, cursor, err, "k"))
		}, "01", "01"},
		{"group", func(ctx context.Context) error {
			cursor, err := coll.Aggregate(ctx, group)
			return compare([]int{30, 30, 30}, numbers(t, cursor, err, "n"))
		}, "01", "01"},
		{"count", func(ctx context.Context) error {
			n, err := coll.CountDocuments(ctx, bson.D{})
			return errors.Join(err, compare([]int{100}, []int{int(n)}))
		}, "01", "01"},
		{"count nothing", func(ctx context.Context) error {
			n, err := coll.CountDocuments(ctx, bson.D{{Key: "g", Value: 7}})
			return errors.Join(err, compare([]int{0}, []int{int(n)}))
		}, "01", "01"},
		{"update by key", func(ctx context.Context) error { return matched(1)(coll.UpdateOne(ctx, key(20), inc)) }, "0", "0"},
		{"update by _id", func(ctx context.Context) error {
			return matched(1)(coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 20}}, inc))
		}, "01", "01"},
		{"update many", func(ctx context.Context) error {
			return matched(34)(coll.UpdateMany(ctx, bson.D{{Key: "g", Value: 0}}, inc))
		}, "01", "01"},
		{"update without key or _id", func(ctx context.Context) error {
			return refused(72)(matched(1)(coll.UpdateOne(ctx, bson.D{{Key: "g", Value: 0}}, inc)))
		}, "", ""},
		{"upsert by key", func(ctx context.Context) error {
			_, err := coll.UpdateOne(ctx, key(60), inc, options.UpdateOne().SetUpsert(true))
			return err
		}, "1", "1"},
		{"upsert without the key", func(ctx context.Context) error {
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}}, inc, options.UpdateOne().SetUpsert(true))
			return refused(61)(err)
		}, "", ""},
		{"findAndModify", func(ctx context.Context) error { return coll.FindOneAndUpdate(ctx, key(51), inc).Err() }, "1", "1"},
		{"findAndModify without the key", func(ctx context.Context) error {
			return refused(61)(coll.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: 51}}, inc).Err())
		}, "", ""},
		{"insert and delete", func(ctx context.Context) error {
			_, err := coll.InsertMany(ctx, []any{bson.D{{Key: "k", Value: 1000}}, bson.D{{Key: "k", Value: -1}}})
			if err != nil {
				return err
			}
			r, err := coll.DeleteMany(ctx, bson.D{{Key: "k", Value: bson.D{{Key: "$in", Value: bson.A{1000, -1}}}}})
			if err == nil && r.DeletedCount != 2 {
				err = fmt.Errorf("%d deleted", r.DeletedCount)
			}
			return err
		}, "01", "01"},
		{"a collection that is not sharded", func(ctx context.Context) error {
			return matched(1)(db.Collection("plain").UpdateByID(ctx, 1, inc))
		}, "0", "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for where, call := range map[string]func() error{
				test.outside: func() error { return test.call(ctx) },
				test.among + " in a transaction": func() error {
					return inTransaction(ctx, db.Client(), test.call)
				},
			} {
				asked, err := s.Asked(ctx, db, call)
				if err != nil {
					t.Errorf("%s: %v", where, err)
				}
				var reached strings.Builder
				for i, commands := range asked.Shards {
					if len(commands) > 0 {
						fmt.Fprint(&reached, i)
					}
				}
				if want, _, _ := strings.Cut(where, " "); want != "" && reached.String() != want {
					t.Errorf("asked %q, want %s: %v", reached.String(), where, asked.Shards)
				}
			}
		})
	}
	t.Run("join", func(t *testing.T) {
		cursor, err := db.Collection("plain").Aggregate(ctx, join)
		if n := numbers(t, cursor, err, "_id"); !slices.Equal(n, []int{1}) {
			t.Error(n)
		}
		err = inTransaction(ctx, db.Client(), func(ctx context.Context) error {
			_, err := db.Collection("plain").Aggregate(ctx, join)
			return err
		})
		if err := refused(20)(err); err != nil {
			t.Error(err)
		}
	})
	t.Run("commits", func(t *testing.T) {
		for want, keys := range map[string][]int{"singleShard": {1, 2}, "twoPhaseCommit": {1, 99}} {
			asked, err := s.Asked(ctx, db, func() error {
				return inTransaction(ctx, db.Client(), func(ctx context.Context) error {
					for _, k := range keys {
						if _, err := coll.UpdateOne(ctx, key(k), inc); err != nil {
							return err
						}
					}
					return nil
				})
			})
			if diff := cmp.Diff(map[string]int{want: 1}, asked.Commits); err != nil || diff != "" {
				t.Error(diff, err)
			}
		}
		for want, write := range map[string]bool{"readOnly": false, "singleWriteShard": true} {
			asked, err := s.Asked(ctx, db, func() error {
				return inTransaction(ctx, db.Client(), func(ctx context.Context) error {
					cursor, err := coll.Find(ctx, bson.D{})
					if n := numbers(t, cursor, err, "k"); len(n) != 100 {
						t.Error(n)
					}
					if write {
						_, err = coll.UpdateOne(ctx, key(99), inc)
					}
					return err
				})
			})
			if diff := cmp.Diff(map[string]int{want: 1}, asked.Commits); err != nil || diff != "" {
				t.Error(diff, err)
			}
		}
	})
	t.Run("an abort after the commit", func(t *testing.T) {
		p := proxy.New(t, s.URI)
		p.Break(proxy.Nth("commitTransaction", "", 0, proxy.CloseAfter, proxy.Refuse(proxy.NotWritablePrimary))) // which sends an abort
		client, err := mongo.Connect(p.Options())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
		runs := 0
		err = inTransaction(ctx, client, func(ctx context.Context) error {
			runs++
			_, err := client.Database(db.Name()).Collection("c").InsertMany(ctx, []any{key(2000 + runs), key(-runs)})
			return err
		})
		if n, countErr := coll.CountDocuments(ctx, bson.D{{Key: "k", Value: bson.D{{Key: "$in", Value: bson.A{2001, 2002, -1, -2}}}}}); err != nil || countErr != nil || n != 2 || runs != 1 {
			t.Errorf("%d documents of %d runs, %v, %v", n, runs, err, countErr)
		}
		if _, err := coll.DeleteMany(ctx, bson.D{{Key: "k", Value: bson.D{{Key: "$in", Value: bson.A{2001, -1}}}}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a snapshot and a chunk that moves", func(t *testing.T) {
		from, to := key(20), key(30)
		err := db.Client().UseSession(ctx, func(ctx context.Context) error {
			session := mongo.SessionFromContext(ctx)
			if err := session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot())); err != nil {
				return err
			}
			err := db.Collection("plain").FindOne(ctx, bson.D{}).Err() // a move would wait for a lock on c
			if err == nil {
				err = s.Move(context.WithoutCancel(mongo.NewSessionContext(ctx, nil)), coll, from, to, 1)
			}
			if err == nil {
				err = coll.FindOne(ctx, key(25)).Err()
			}
			if err == nil {
				cursor, findErr := coll.Find(ctx, bson.D{}, options.Find().SetSort(key(-1)))
				err = compare(last(100), numbers(t, cursor, findErr, "k"))
			}
			if err == nil { // the chunk is elsewhere now
				_, err = coll.UpdateOne(ctx, key(25), inc)
				var server mongo.ServerError
				if !errors.As(err, &server) || !server.HasErrorLabel("TransientTransactionError") {
					return fmt.Errorf("a write to a chunk that has moved: %w", err)
				}
				return nil
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := s.Move(ctx, coll, from, to, 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("a cursor that is closed", func(t *testing.T) {
		cursor, err := coll.Find(ctx, bson.D{}, options.Find().SetBatchSize(2))
		if err == nil && cursor.Next(ctx) {
			err = cursor.Close(ctx)
		}
		bounded, cancel := context.WithTimeout(ctx, time.Minute) // a move waits for cursors, which end by themselves after ten
		defer cancel()
		for _, shard := range []int{0, 1} {
			if err == nil {
				err = s.Move(bounded, coll, key(50), bson.D{{Key: "k", Value: bson.MaxKey{}}}, shard)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("a cursor of a transaction that is closed", func(t *testing.T) {
		ranges := map[string]bson.D{"of one shard": {{Key: "k", Value: bson.D{{Key: "$lt", Value: 40}}}}, "of two": {}}
		for name, filter := range ranges {
			open := func(ctx context.Context, aggregate bool) (*mongo.Cursor, error) {
				find := func() (*mongo.Cursor, error) {
					return coll.Find(ctx, filter, options.Find().SetBatchSize(2))
				}
				if aggregate {
					find = func() (*mongo.Cursor, error) {
						return coll.Aggregate(ctx, mongo.Pipeline{{{Key: "$match", Value: filter}}}, options.Aggregate().SetBatchSize(2))
					}
				}
				cursor, err := find()
				if err == nil && !cursor.Next(ctx) {
					err = fmt.Errorf("no document: %w", cursor.Err())
				}
				return cursor, err
			}
			err := db.Client().UseSession(ctx, func(ctx context.Context) error {
				last, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
					for _, aggregate := range []bool{false, true} {
						cursor, err := open(ctx, aggregate)
						if n := openCursors(t, s, coll); len(filter) > 0 && n != 1 {
							t.Errorf("%s: %d cursors are open before, want 1", name, n)
						}
						if err != nil {
							return nil, err
						}
						if err = cursor.Close(ctx); err != nil {
							return nil, err
						}
						if n := openCursors(t, s, coll); n != 0 {
							t.Errorf("%s: %d cursors are open", name, n)
						}
					}
					if err := matched(34)(coll.UpdateMany(ctx, bson.D{{Key: "g", Value: 0}}, inc)); err != nil { // it goes on, on both
						return nil, err
					}
					return open(ctx, false)
				})
				if err != nil {
					return err
				}
				return last.(*mongo.Cursor).Close(ctx)
			})
			if n := openCursors(t, s, coll); err != nil || n != 0 {
				t.Errorf("%s: %d cursors are open after the transaction, %v", name, n, err)
			}
		}
	})
	t.Run("a command of the balancer is not counted", func(t *testing.T) {
		specs, err := db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: "c"}})
		if err != nil || len(specs) != 1 {
			t.Fatal(specs, err)
		}
		stats := bson.D{{Key: "_shardsvrGetStatsForBalancing", Value: 1}, {Key: "scaleFactor", Value: int64(1)},
			{Key: "collections", Value: bson.A{bson.D{{Key: "ns", Value: namespace(coll)}, {Key: "UUID", Value: specs[0].UUID}}}}}
		asked, err := s.Asked(ctx, db, func() error { return command(ctx, s.Shards()[0].URI, nil, stats) })
		if err != nil || asked.Reached() != 0 {
			t.Errorf("%v, %v", asked.Shards, err)
		}
	})
	t.Run("plan", func(t *testing.T) {
		Explain(t, db, bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "k", Value: bson.D{{Key: "$gte", Value: 40}}}}}}).RequireIndex(t, "k_1")
	})
	t.Run("a majority read sees each write", func(t *testing.T) { majorityOfWrites(t, s, db.Collection("majority")) })
	t.Run("other commands", func(t *testing.T) {
		n, err := coll.EstimatedDocumentCount(ctx)
		var distinct []int
		if err == nil {
			err = coll.Distinct(ctx, "g", bson.D{}).Decode(&distinct)
		}
		slices.Sort(distinct)
		if err != nil || n != 100 || !slices.Equal(distinct, []int{0, 1, 2}) {
			t.Error(n, distinct, err)
		}
		if _, err := coll.Watch(ctx, mongo.Pipeline{}); err == nil || !strings.Contains(err.Error(), "change stream") {
			t.Error(err)
		}
		names, err := db.ListCollectionNames(ctx, bson.D{})
		slices.Sort(names)
		if diff := cmp.Diff([]string{"c", "majority", "plain"}, slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "system.") })); err != nil || diff != "" {
			t.Error(diff, err)
		}
		if err := db.Collection("plain").Drop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// openCursors counts the cursors on a collection that the shards keep for later batches.
func openCursors(t *testing.T, s *Server, coll *mongo.Collection) (n int) {
	t.Helper()
	for _, shard := range s.Shards() {
		client, err := mongo.Connect(options.Client().ApplyURI(shard.URI))
		if err != nil {
			t.Fatal(err)
		}
		cursor, err := client.Database("admin").Aggregate(t.Context(), mongo.Pipeline{
			{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleCursors", Value: true}, {Key: "localOps", Value: true}}}},
			{{Key: "$match", Value: bson.D{{Key: "type", Value: "idleCursor"}, {Key: "ns", Value: namespace(coll)}}}},
		})
		var found []bson.Raw
		if err == nil {
			err = cursor.All(t.Context(), &found)
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(found)
		_ = client.Disconnect(t.Context())
	}
	return n
}

// majorityOfWrites: a write is acknowledged by the majority, which is the default of a cluster: a majority
// read that follows sees it.
func majorityOfWrites(t *testing.T, s *Server, coll *mongo.Collection) {
	if err := s.Shard(t.Context(), coll, bson.D{{Key: "k", Value: 1}}, bson.D{{Key: "k", Value: 50}}); err != nil {
		t.Fatal(err)
	}
	read := coll.Clone(options.Collection().SetReadConcern(readconcern.Majority()))
	for i := range scale.Of(40, 100, 100) {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "k", Value: i * 37 % 100}})
		if i%2 == 0 && err == nil {
			_, err = coll.UpdateMany(t.Context(), bson.D{{Key: "_id", Value: i}}, bson.D{{Key: "$set", Value: bson.D{{Key: "g", Value: 7}}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		filter := bson.D{{Key: "_id", Value: i}, {Key: "g", Value: bson.D{{Key: "$exists", Value: i%2 == 0}}}}
		if err := read.FindOne(t.Context(), filter).Err(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestShardedMoves has writers add to documents while their chunks move: each acknowledged
// addition is there once. Then it has transactions move units between two shards while one of these is
// killed and restarted: none is made or lost.
func TestShardedMoves(t *testing.T) {
	t.Parallel()
	s, coll := sharded(t)
	ctx := t.Context()
	inc := func(n int) bson.D { return bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: n}}}} }
	var writers sync.WaitGroup
	done := make(chan struct{})
	each := scale.Of(50, 300, 300)
	for w := range 4 {
		writers.Go(func() {
			for i := range each {
				k := bson.D{{Key: "k", Value: (i*4 + w) % 100}}
				if _, err := coll.UpdateOne(ctx, k, inc(1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	moves := make(chan int)
	go func() {
		n := 0
		for {
			for _, shard := range []int{1, 0} {
				if err := s.Move(ctx, coll, bson.D{{Key: "k", Value: 20}}, bson.D{{Key: "k", Value: 30}}, shard); err != nil {
					t.Error(err)
				}
				n++
			}
			select {
			case <-done:
				moves <- n
				return
			default:
			}
		}
	}()
	writers.Wait()
	close(done)
	t.Logf("%d moves", <-moves)
	total := func() int {
		t.Helper()
		cursor, err := coll.Aggregate(ctx, mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: bson.D{{Key: "$sum", Value: "$n"}}}}}}})
		return numbers(t, cursor, err, "n")[0]
	}
	if n := total(); n != 4*each {
		t.Errorf("%d additions stored of %d", n, 4*each)
	}

	transfer := func(ctx context.Context, i int) error {
		return inTransaction(ctx, coll.Database().Client(), func(ctx context.Context) error {
			if _, err := coll.UpdateOne(ctx, bson.D{{Key: "k", Value: i % 20}}, inc(-1)); err != nil {
				return err
			}
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "k", Value: 50 + i%50}}, inc(1))
			return err
		})
	}
	for victim, shard := range s.Shards() {
		stop := make(chan struct{})
		var committed atomic.Int64
		for w := range 4 {
			writers.Go(func() {
				for i := w; ; i += 4 {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
					if err := transfer(ctx, i); err == nil {
						committed.Add(1)
					}
					cancel()
				}
			})
		}
		for range scale.Of(1, 2, 2) {
			for before := committed.Load(); committed.Load() < before+5 && !t.Failed(); {
				time.Sleep(time.Millisecond)
			}
			if err := shard.Restart(ctx); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		writers.Wait()
		if n := total(); n != 4*each {
			t.Errorf("%d units after shard %d was killed, want %d", n, victim, 4*each)
		}
		t.Logf("shard %d: %d transactions", victim, committed.Load())
		// A write that the driver does not repeat, before a restart and after it.
		for _, after := range []bool{false, true} {
			if after {
				if err := shard.Restart(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := coll.DeleteMany(ctx, bson.D{{Key: "none", Value: true}}); err != nil {
				t.Errorf("shard %d: %v", victim, err)
			}
		}
	}
}

// A shard that starts again listens before it becomes primary. Otherwise one with a prepared transaction could wait for
// itself without end.
func TestShardListensFirst(t *testing.T) {
	t.Parallel()
	s, _ := sharded(t)
	m := s.Shards()[0]
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := m.process.log()
	log = log[bytes.LastIndex(log, []byte(`"MongoDB starting"`)):]
	listens, primary := bytes.Index(log, []byte(`"Waiting for connections"`)), bytes.Index(log, []byte(`"newState":"PRIMARY"`))
	if listens < 0 || primary < listens || !bytes.Contains(log, []byte("rsSyncApplyStop")) {
		t.Errorf("listens at %d of the log, is primary at %d", listens, primary)
	}
}
