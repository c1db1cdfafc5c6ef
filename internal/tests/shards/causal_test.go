//go:build unix

package shards_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A race is a call beside a transaction that writes two collections.
type race struct {
	write func(ctx context.Context) error
	read  func(ctx context.Context) error
	after func(t *testing.T) // what has to be true when both have ended
}

// races are of the calls that read one collection and then another, and rely on that order. Early is the collection that
// a call reads first, and shows the transaction first.
var races = map[string]func(t *testing.T, early, late *mongo.Collection) race{
	"computed.Refresh":    ofTotals(false, func(ctx context.Context, c *totals) error { return testkit.ErrorOf(c.Refresh(ctx, 1)) }),
	"computed.RefreshAll": ofTotals(false, func(ctx context.Context, c *totals) error { return testkit.ErrorOf(c.RefreshAll(ctx, nil)) }),
	"computed.Get":        ofTotals(false, func(ctx context.Context, c *totals) error { return testkit.ErrorOf(c.Get(ctx, 1, 0)) }),
	"computed.Repair":     ofTotals(false, func(ctx context.Context, c *totals) error { return testkit.ErrorOf(c.Repair(ctx, nil)) }),
	"computed.Check":      ofTotals(false, func(ctx context.Context, c *totals) error { return healthy(c.Check(ctx, nil)) }),
	"computed.Get, marked": ofTotals(true, func(ctx context.Context, c *totals) error {
		return testkit.ErrorOf(c.Get(ctx, 1, time.Hour))
	}),
	"computed.Drain": ofTotals(true, func(ctx context.Context, c *totals) error { return testkit.ErrorOf(c.Drain(ctx, nil)) }),

	"versioning.At": ofHistory(func(ctx context.Context, d *history) ([]int64, error) { return one(d.At(ctx, 1, 2)) }, 2),
	"versioning.AsOf": ofHistory(func(ctx context.Context, d *history) ([]int64, error) {
		return one(d.AsOf(ctx, 1, day(2)))
	}, 2),
	"versioning.Revisions": ofHistory(func(ctx context.Context, d *history) ([]int64, error) { return all(d.Revisions(ctx, 1)) }, 3, 2, 1),
	"versioning.RevisionsBefore": ofHistory(func(ctx context.Context, d *history) ([]int64, error) {
		return all(d.RevisionsBefore(ctx, 1, 3))
	}, 2, 1),
	"versioning.RevisionsFrom": ofHistory(func(ctx context.Context, d *history) ([]int64, error) { return all(d.RevisionsFrom(ctx, 1, 1)) }, 1, 2, 3),
	"versioning.Diff": ofHistory(func(ctx context.Context, d *history) ([]int64, error) {
		return nil, testkit.ErrorOf(d.Diff(ctx, 1, 1, 2))
	}),
	"versioning.Restore": ofHistory(func(ctx context.Context, d *history) ([]int64, error) {
		return one(d.Restore(ctx, 1, 2, versioning.Change{}))
	}, 4),
	"versioning.Undo": ofHistory(func(ctx context.Context, d *history) ([]int64, error) {
		return one(d.Undo(ctx, 1, 2, versioning.Change{}))
	}, 4),
	"versioning.Check": ofHistory(func(ctx context.Context, d *history) ([]int64, error) { return nil, healthy(d.Check(ctx, nil)) }),

	"outlier.All":                 ofLists(count),
	"outlier.All, overflow first": func(t *testing.T, early, late *mongo.Collection) race { return ofLists(count)(t, late, early) },
	"outlier.Slice": ofLists(func(ctx context.Context, l *lists) (int, error) {
		s, err := l.Slice(ctx, 1, 0, 100)
		return len(s.Items), err
	}),
	"outlier.Contains": ofLists(func(ctx context.Context, l *lists) (int, error) {
		n := 0
		for i := range 12 {
			if held, err := l.Contains(ctx, 1, i); err != nil {
				return n, err
			} else if held {
				n++
			}
		}
		return n, nil
	}),

	"relation.Children": ofRelation(func(ctx context.Context, r *links) (relation.Joined[int, bson.M], error) {
		return r.Children(ctx, 1, nil)
	}),
	"relation.ChildrenOf": ofRelation(func(ctx context.Context, r *links) (relation.Joined[int, bson.M], error) {
		all, err := r.ChildrenOf(ctx, []int{1}, nil)
		if err != nil {
			return relation.Joined[int, bson.M]{}, err
		}
		return all[0], nil
	}),
}

// While a commit is under way one shard shows it and another does not. A call that has seen the one waits for the other.
func TestBetweenTwoCommits(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	shards := cluster.Shards()
	if len(shards) != 2 {
		t.Skip("the shards of MONGODB_URI cannot be stopped")
	}
	second := testkit.Must(mongo.Connect(options.Client().ApplyURI(shards[1].URI)))
	defer func() { _ = second.Disconnect(context.WithoutCancel(t.Context())) }()
	for name, of := range races {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			db := cluster.Database(t)
			early, late := db.Collection("early"), db.Collection("late")
			testkit.OK(t, errors.Join(cluster.Shard(ctx, early, bson.D{{Key: "_id", Value: 1}}), cluster.Shard(ctx, late, bson.D{{Key: "_id", Value: 1}}),
				cluster.Move(ctx, late, bson.D{{Key: "_id", Value: bson.MinKey{}}}, bson.D{{Key: "_id", Value: bson.MaxKey{}}}, 1)))
			r := of(t, early, late)
			before := testkit.Stored[bson.Raw](t, early)
			release := hold(t, second)
			written, read := make(chan error, 1), make(chan error, 1)
			go func() { written <- r.write(ctx) }()
			eventually(t, ctx, func() bool {
				return !slices.EqualFunc(before, testkit.Stored[bson.Raw](t, early), slices.Equal[bson.Raw])
			})
			go func() { read <- r.read(ctx) }()
			eventually(t, ctx, func() bool { return len(read) > 0 || waits(t, second) })
			release()
			testkit.OK(t, <-written)
			if err := <-read; err != nil {
				t.Error(err)
			}
			r.after(t)
		})
	}
}

// hold stops a shard at its part of the next commit.
func hold(t *testing.T, shard *mongo.Client) (release func()) {
	set := func(mode string) {
		cmd := bson.D{{Key: "configureFailPoint", Value: "hangBeforeCommitingTxn"}, {Key: "mode", Value: mode}}
		testkit.OK(t, shard.Database("admin").RunCommand(context.WithoutCancel(t.Context()), cmd).Err())
	}
	set("alwaysOn")
	t.Cleanup(func() { set("off") })
	return func() { set("off") }
}

// waits reports whether an operation of a shard waits for the end of a transaction.
func waits(t *testing.T, shard *mongo.Client) bool {
	cursor, err := shard.Database("admin").Aggregate(t.Context(), mongo.Pipeline{{{Key: "$currentOp", Value: bson.D{}}},
		{{Key: "$match", Value: bson.D{{Key: "prepareReadConflicts", Value: bson.D{{Key: "$gt", Value: 0}}}}}}})
	testkit.OK(t, err)
	var found []bson.Raw
	testkit.OK(t, cursor.All(t.Context(), &found))
	return len(found) > 0
}

func eventually(t *testing.T, ctx context.Context, is func() bool) {
	t.Helper()
	for !is() {
		testkit.OK(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
}

func healthy(problems iter.Seq2[mongopatterns.Problem, error]) error {
	for p, err := range problems {
		return errors.Join(errors.New(p.String()), err)
	}
	return nil
}

type totals = computed.Computed[int, int, bson.M]

// ofTotals is a call beside a new screening of a film, which changes the film's viewers, or marks it.
func ofTotals(marks bool, read func(ctx context.Context, c *totals) error) func(t *testing.T, early, late *mongo.Collection) race {
	return func(t *testing.T, films, screenings *mongo.Collection) race {
		rule := computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}}}}},
			Empty:    bson.D{{Key: "viewers", Value: 0}},
		}
		c := testkit.Must(computed.New[int, int, bson.M](screenings, films, rule, nil))
		testkit.Insert(t, films, bson.M{"_id": 1})
		testkit.Insert(t, screenings, bson.M{"_id": 1, "film": 1, "viewers": 10})
		testkit.Done(t, 1)(c.Adopt(t.Context(), nil))
		insert := func(ctx context.Context) error {
			return testkit.ErrorOf(screenings.InsertOne(ctx, bson.M{"_id": 2, "film": 1, "viewers": 20}))
		}
		write := func(ctx context.Context) error { return c.Change(ctx, []int{2}, insert) }
		if marks {
			write = func(ctx context.Context) error {
				return mongopatterns.Transact(ctx, films.Database().Client(), func(ctx context.Context) error {
					return errors.Join(insert(ctx), c.Mark(ctx, 1))
				})
			}
		}
		return race{write, func(ctx context.Context) error { return read(ctx, c) }, func(t *testing.T) {
			if film := testkit.One[bson.M](t, films, 1); film["viewers"] != int32(30) {
				t.Error(film)
			}
			testkit.Healthy(t, c)
		}}
	}
}

type lists = outlier.Lists[int, int]

// count returns how many elements of a list are 0, 1, 2 and so on.
func count(ctx context.Context, l *lists) (n int, err error) {
	for e, err := range l.All(ctx, 1) {
		if err != nil {
			return n, err
		}
		if e == n {
			n++
		}
	}
	return n, nil
}

// ofLists is a call beside an Add that moves elements out of a parent; it must return the number.
func ofLists(read func(ctx context.Context, l *lists) (int, error)) func(t *testing.T, early, late *mongo.Collection) race {
	return func(t *testing.T, parents, overflow *mongo.Collection) race {
		l := testkit.Must(outlier.New[int, int](parents, overflow, &outlier.Options{ArrayField: "items", MaxCount: 4}))
		testkit.Insert(t, parents, bson.M{"_id": 1, "items": bson.A{0, 1, 2, 3}})
		testkit.Must(l.Add(t.Context(), 1, 4, 5, 6, 7))
		var got int
		return race{
			func(ctx context.Context) error { return testkit.ErrorOf(l.Add(ctx, 1, 8, 9, 10, 11)) },
			func(ctx context.Context) (err error) {
				got, err = read(ctx, l)
				return err
			},
			func(t *testing.T) { testkit.Equal(t, 12, got) },
		}
	}
}

type links = relation.Relation[int, int, bson.M]

// ofRelation is a call beside the Insert of a child.
func ofRelation(read func(ctx context.Context, r *links) (relation.Joined[int, bson.M], error)) func(t *testing.T, early, late *mongo.Collection) race {
	return func(t *testing.T, parents, children *mongo.Collection) race {
		r := testkit.Must(relation.New[int, int, bson.M](parents, children, &relation.Options{ChildrenField: "children"}))
		testkit.Insert(t, parents, bson.M{"_id": 1})
		var got relation.Joined[int, bson.M]
		return race{
			func(ctx context.Context) error { return testkit.ErrorOf(r.Insert(ctx, 1, bson.M{"_id": 2})) },
			func(ctx context.Context) (err error) {
				got, err = read(ctx, r)
				return err
			},
			func(t *testing.T) {
				if len(got.Items) != 1 || len(got.Dangling) != 0 {
					t.Errorf("%+v", got)
				}
			},
		}
	}
}

type history = versioning.History[int, bson.M]

func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

// ofHistory is a call beside the save of revision 3; it must return the numbers.
func ofHistory(read func(ctx context.Context, d *history) ([]int64, error), want ...int64) func(t *testing.T, early, late *mongo.Collection) race {
	return func(t *testing.T, current, revisions *mongo.Collection) race {
		d := testkit.Must(versioning.New[int, bson.M](current, revisions, nil))
		r := testkit.Must(d.Insert(t.Context(), bson.M{"_id": 1, "day": 1}, versioning.Change{At: day(1)}))
		save := func(ctx context.Context, n int) (err error) {
			r.Document[fmt.Sprint("day ", n)] = n
			r, err = d.Save(ctx, r, versioning.Change{At: day(n)})
			return err
		}
		testkit.OK(t, save(t.Context(), 2))
		var got []int64
		return race{
			func(ctx context.Context) error { return save(ctx, 3) },
			func(ctx context.Context) (err error) {
				got, err = read(ctx, d)
				return err
			},
			func(t *testing.T) { testkit.Equal(t, want, got) },
		}
	}
}

func one(r versioning.Revision[bson.M], err error) ([]int64, error) { return []int64{r.Number}, err }

func all(revisions iter.Seq2[versioning.Revision[bson.M], error]) (numbers []int64, err error) {
	for r, err := range revisions {
		if err != nil {
			return numbers, err
		}
		numbers = append(numbers, r.Number)
	}
	return numbers, nil
}
