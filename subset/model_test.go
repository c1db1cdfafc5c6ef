package subset_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// model is what all items should be, by _id.
type model map[int]review

// want is what a parent should hold, by the order {rating: -1, date: -1}.
func (m model) want(parent, n int) (best []int, count, sum int) {
	var all []review
	for _, r := range m {
		if r.Product == parent && r.Author != "hidden" {
			all = append(all, r)
			sum += r.Rating
		}
	}
	slices.SortFunc(all, func(a, b review) int {
		return cmp.Or(cmp.Compare(b.Rating, a.Rating), b.Date.Compare(a.Date), cmp.Compare(b.ID, a.ID))
	})
	return ids(all[:min(n, len(all))]), len(all), sum
}

// compare checks the parents' documents against the model.
func (m model) compare(t *testing.T, db *mongo.Database, s *subset.Subset[int, review], parents, n int) {
	t.Helper()
	for parent := range parents {
		best, count, sum := m.want(parent, n)
		same(t, fmt.Sprintf("best of %d", parent), best, top(t, s, parent))
		var doc struct {
			Count int     `bson:"num_reviews"`
			Sum   int     `bson:"sum_ratings"`
			Mean  float64 `bson:"mean_rating"`
		}
		must(t, db.Collection("parents").FindOne(t.Context(), d("_id", parent)).Decode(&doc))
		mean := 0.0
		if count > 0 {
			mean = float64(sum) / float64(count)
		}
		if doc.Count != count && doc.Count != 0 || doc.Sum != sum || doc.Mean != mean {
			t.Errorf("parent %d: %+v, want %d, %d, %g", parent, doc, count, sum, mean)
		}
	}
	clean(t, db, s)
}

func ranked(n int) *subset.Options {
	o := reviewOptions()
	o.N, o.Sort = n, d("rating", -1, "date", -1)
	return o
}

// act does a random operation and returns what it does to the model. Each writer
// has items of its own, so that the order of writers does not matter.
func act(ctx context.Context, db *mongo.Database, s *subset.Subset[int, review], random *rand.Rand, mine model, next *int, parents int, hide bool) error {
	r := review{Product: random.IntN(parents), Rating: 1 + random.IntN(5), Date: day(1 + random.IntN(5))}
	var old review
	if keys := slices.Sorted(maps.Keys(mine)); len(keys) > 0 {
		old = mine[keys[random.IntN(len(keys))]]
	} else {
		old.ID = -1
	}
	switch n := random.IntN(12); {
	case n < 4 || old.ID < 0:
		*next++
		r.ID = *next
		if _, err := s.Insert(ctx, r.Product, r); err != nil {
			return err
		}
		mine[r.ID] = r
	case n < 6: // re-rank
		old.Rating = r.Rating
		mine[old.ID] = old
		return s.Update(ctx, old.Product, old.ID, d("$set", d("rating", r.Rating)))
	case n < 8: // edit
		old.Author = fmt.Sprint(n, r.Date)
		if hide && random.IntN(2) == 0 {
			old.Author = "hidden"
		}
		old.Date = r.Date
		mine[old.ID] = old
		return s.Update(ctx, old.Product, old.ID, d("$set", old))
	case n < 9:
		from := old.Product
		old.Product = r.Product
		mine[old.ID] = old
		return move(ctx, db, s, from, r.Product, old.ID)
	case n < 10:
		var many []review
		for range 1 + random.IntN(4) {
			*next++
			r.ID, r.Product = *next, random.IntN(parents)
			many = append(many, r)
			mine[r.ID] = r
		}
		_, err := s.InsertMany(ctx, func(yield func(int, review) bool) {
			for _, r := range many {
				if !yield(r.Product, r) {
					return
				}
			}
		}, nil)
		return err
	default:
		delete(mine, old.ID)
		return s.Delete(ctx, old.Product, old.ID)
	}
	return nil
}

// 200 mixed operations at once settle on exactly the best N, count and mean.
func TestConcurrentOperations(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*subset.Options){
		"all":    func(*subset.Options) {},
		"filter": func(o *subset.Options) { o.Filter = d("author", d("$ne", "hidden")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			const writers, parents, n = 8, 3, 5
			each := scale.Of(8, 25, 200)
			o := ranked(n)
			change(o)
			s := newSubset[int, review](t, db, o)
			for p := range parents {
				insert(t, db.Collection("parents"), d("_id", p))
			}
			models := make([]model, writers)
			var group sync.WaitGroup
			for w := range writers {
				models[w] = model{}
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(w), 1))
					next := w * 1000
					for range each {
						if err := act(t.Context(), db, s, random, models[w], &next, parents, o.Filter != nil); err != nil {
							t.Errorf("writer %d: %v", w, err)
							return
						}
					}
				})
			}
			group.Wait()
			all := model{}
			for _, m := range models {
				maps.Copy(all, m)
			}
			all.compare(t, db, s, parents, n)
		})
	}
}

// One writer, many operations, checked all along.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*subset.Options){
		"counted":   func(*subset.Options) {},
		"best last": func(o *subset.Options) { o.BestLast = true },
		"fields":    func(o *subset.Options) { o.Fields = []string{"author"} },
		"filter":    func(o *subset.Options) { o.Filter = d("author", d("$ne", "hidden")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			const parents, n = 2, 4
			o := ranked(n)
			change(o)
			s := newSubset[int, review](t, db, o)
			insert(t, db.Collection("parents"), d("_id", 0), d("_id", 1))
			random := rand.New(rand.NewPCG(5, uint64(len(name))))
			m, next := model{}, 0
			for step := range scale.Of(56, 80, 400) {
				must(t, act(t.Context(), db, s, random, m, &next, parents, o.Filter != nil))
				if step%8 == 7 {
					m.compare(t, db, s, parents, n)
				}
			}
		})
	}
}

// Two writes of one parent conflict, even if one of them changes nothing the
// parent keeps: otherwise a refill could bring back an item that the other has deleted.
func TestWritesOfAParentConflict(t *testing.T) {
	t.Parallel()
	type write struct {
		name string
		fn   func(context.Context, *subset.Subset[int, review]) error
	}
	writes := []write{
		{"delete a kept one", func(ctx context.Context, s *subset.Subset[int, review]) error { return s.Delete(ctx, 1, 9) }},
		{"delete an unkept one", func(ctx context.Context, s *subset.Subset[int, review]) error { return s.Delete(ctx, 1, 7) }},
		{"edit an unkept one", func(ctx context.Context, s *subset.Subset[int, review]) error {
			return s.Update(ctx, 1, 6, d("$set", d("author", "x")))
		}},
		{"add an unkept one", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.Insert(ctx, 1, review{ID: 1, Date: day(1)})
			return err
		}},
		{"add many", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.InsertMany(ctx, func(yield func(int, review) bool) { yield(1, review{ID: 2, Date: day(1)}) }, nil)
			return err
		}},
		{"rank an unkept one", func(ctx context.Context, s *subset.Subset[int, review]) error {
			return s.Update(ctx, 1, 6, d("$set", d("date", day(3))))
		}},
		{"hide an unkept one", func(ctx context.Context, s *subset.Subset[int, review]) error {
			return s.Update(ctx, 1, 6, d("$set", d("author", "hidden")))
		}},
		{"add one that does not count", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.Insert(ctx, 1, review{ID: 3, Author: "hidden"})
			return err
		}},
		{"add many that do not count", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.InsertMany(ctx, seq(1, review{ID: 3, Author: "hidden"}), nil)
			return err
		}},
		{"delete the parent", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.DeleteParent(ctx, 1)
			return err
		}},
		{"repair", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.Repair(ctx, nil)
			return err
		}},
		{"adopt", func(ctx context.Context, s *subset.Subset[int, review]) error {
			_, err := s.Adopt(ctx, nil)
			return err
		}},
	}
	db := mongotest.Database(t)
	o := reviewOptions()
	o.N, o.Values, o.Filter = 2, nil, d("author", d("$ne", "hidden"))
	s := newSubset[int, review](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2))
	for i := 4; i < 10; i++ {
		_, err := s.Insert(t.Context(), 1, review{ID: i, Date: day(i)})
		must(t, err)
	}
	testkit.Update(t, db.Collection("parents"), d("_id", 1), d("$inc", d("num_reviews", 1))) // for Repair
	begin := func() (context.Context, *mongo.Session) {
		session, err := db.Client().StartSession()
		must(t, err)
		must(t, session.StartTransaction())
		return mongo.NewSessionContext(t.Context(), session), session
	}
	for i, a := range writes {
		for _, b := range writes[:i] {
			ctxA, sessionA := begin()
			ctxB, sessionB := begin()
			if err := db.Collection("parents").FindOne(ctxB, d()).Err(); err != nil { // its snapshot begins
				t.Fatal(err)
			}
			if err := a.fn(ctxA, s); err != nil {
				t.Fatalf("%s: %v", a.name, err)
			}
			if err := b.fn(ctxB, s); !conflict(err) {
				t.Errorf("%s beside %s: %v", b.name, a.name, err)
			}
			_ = sessionB.AbortTransaction(t.Context())
			must(t, sessionA.AbortTransaction(t.Context()))
			sessionA.EndSession(t.Context())
			sessionB.EndSession(t.Context())
		}
	}
}

// Adopt conflicts with old programs even if it moves items and leaves the array unchanged:
// otherwise one of them could pull an item that Adopt stores.
func TestAdoptConflictsWithOldPrograms(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, nil)
	insert(t, db.Collection("parents"), d("_id", 1, "items", bson.A{d("_id", 1)}, "items_count", 1))
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if _, err := s.Adopt(ctx, nil); err != nil {
			return err
		}
		err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
			_, err := db.Collection("parents").UpdateOne(ctx, d("_id", 1), d("$pull", d("items", d("_id", 1))))
			if conflict(err) {
				return errors.New("conflict") // for once
			}
			return err
		})
		if err == nil || err.Error() != "conflict" {
			t.Error(err)
		}
		return nil
	})
	must(t, err)
	testkit.Untouched(t, db.Collection("parents"))
}

// conflict reports that a transaction cannot go on beside another one: after a write
// conflict, or what a server under load returns instead, also to be tried again.
func conflict(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorCode(112) || server.HasErrorLabel("TransientTransactionError"))
}

// A transaction that is run again stores its items once.
func TestRetriedTransaction(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, ranked(3))
	insert(t, db.Collection("parents"), d("_id", 0))
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(t.Context())
	runs := 0
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		runs++
		for i := range 5 {
			if _, err := s.Insert(ctx, 0, review{ID: i, Rating: i}); err != nil {
				return nil, err
			}
		}
		if err := s.Delete(ctx, 0, 4); err != nil {
			return nil, err
		}
		if runs == 1 {
			return nil, mongo.CommandError{Code: 112, Labels: []string{"TransientTransactionError"}}
		}
		return nil, nil
	})
	must(t, err)
	m := model{}
	for i := range 4 {
		m[i] = review{ID: i, Rating: i}
	}
	m.compare(t, db, s, 1, 3)
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}
