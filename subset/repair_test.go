package subset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// filled is three parents of eight reviews each.
func filled(t testing.TB, o *subset.Options) (*mongo.Database, *subset.Subset[int, review]) {
	t.Helper()
	db := mongotest.Database(t)
	s := newSubset[int, review](t, db, o)
	insert(t, db.Collection("parents"), d("_id", 1), d("_id", 2), d("_id", 3), d("_id", 4))
	_, err := s.AddMany(t.Context(), func(yield func(int, review) bool) {
		for i := range 24 {
			if !yield(1+i%3, review{ID: i, Rating: 1 + i%5, Date: day(1 + i)}) {
				return
			}
		}
	}, nil)
	must(t, err)
	return db, s
}

func problems(t testing.TB, seq func(func(subset.Problem, error) bool)) []string {
	t.Helper()
	out := []string{}
	for p, err := range seq {
		must(t, err)
		out = append(out, fmt.Sprintf("%v %s %s", p.ID, p.Kind, p.Field))
	}
	slices.Sort(out)
	return out
}

func update(t testing.TB, coll *mongo.Collection, filter, update any) {
	t.Helper()
	result, err := coll.UpdateMany(t.Context(), filter, update)
	must(t, err)
	if result.MatchedCount == 0 {
		t.Fatalf("nothing matches %v", filter)
	}
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	o.Values[0].Count = "rated"
	db, s := filled(t, o)
	parents, items := db.Collection("parents"), db.Collection("items")
	clean(t, db, s)
	good := stored(t, parents)
	id := func(n int) string { return fmt.Sprintf(`{"$numberInt":"%d"}`, n) }
	for name, test := range map[string]struct {
		damage func()
		want   []string
	}{
		"an element is missing": {func() { update(t, parents, d("_id", 1), d("$pop", d("reviews", 1))) }, []string{id(1) + " wrong subset reviews"}},
		"another order": {func() {
			update(t, parents, d("_id", 1), d("$push", d("reviews", d("$each", bson.A{}, "$sort", d("date", 1)))))
		}, []string{id(1) + " wrong subset reviews"}},
		"an old copy": {func() { update(t, parents, d("_id", 2), d("$set", d("reviews.1.author", "?"))) }, []string{id(2) + " wrong subset reviews"}},
		"no array":    {func() { update(t, parents, d("_id", 2), d("$unset", d("reviews", ""))) }, []string{id(2) + " wrong subset reviews"}},
		"aggregates": {func() {
			update(t, parents, d("_id", 3), d("$inc", d("num_reviews", 1, "sum_ratings", 1, "mean_rating", 1, "rated", -1)))
		}, []string{id(3) + " wrong count num_reviews", id(3) + " wrong value mean_rating", id(3) + " wrong value rated", id(3) + " wrong value sum_ratings"}},
		"no aggregates": {func() {
			update(t, parents, d("_id", 3), d("$unset", d("num_reviews", "", "sum_ratings", "", "mean_rating", "")))
		}, []string{id(3) + " wrong count num_reviews", id(3) + " wrong value mean_rating", id(3) + " wrong value sum_ratings"}},
		"a mean of nothing": {func() { update(t, parents, d("_id", 4), d("$set", d("mean_rating", 1.0))) }, []string{id(4) + " wrong value mean_rating"}},
		"text for a count":  {func() { update(t, parents, d("_id", 1), d("$set", d("num_reviews", "8"))) }, []string{id(1) + " wrong count num_reviews"}},
	} {
		test.damage()
		same(t, name, test.want, problems(t, s.Check(t.Context())))
		var progress []int64
		result, err := s.Repair(t.Context(), &subset.RepairOptions{BatchSize: 3, Progress: func(done int64) { progress = append(progress, done) }})
		must(t, err)
		same(t, name, subset.RepairResult{Examined: 4, Repaired: 1}, result)
		same(t, name+": progress", []int64{3, 4}, progress)
		clean(t, db, s)
		if name != "a mean of nothing" { // which sets what was missing, to 0
			for i, doc := range stored(t, parents)[:3] {
				sorted(doc)
				sorted(good[i])
				same(t, name, good[i], doc)
			}
		}
	}
	// Orphans are reported and left.
	insert(t, items, d("_id", 100, "product_id", 77, "rating", 1), d("_id", 101, "product_id", 77, "rating", 1))
	var text string
	for p, err := range s.Check(t.Context()) {
		must(t, err)
		text = p.String()
	}
	if want := `_id 77: orphan: product_id of 2 items`; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "orphans", subset.RepairResult{Examined: 4, Remaining: 1}, result)
	if _, err := s.Repair(t.Context(), &subset.RepairOptions{BatchSize: -1}); err == nil || err.Error() != "subset: repair: invalid: RepairOptions.BatchSize: negative" {
		t.Error(err)
	}
	// The loop may end early.
	for range s.Check(t.Context()) {
		break
	}
}

func sorted(doc bson.D) {
	slices.SortFunc(doc, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
}

// N, the order, the fields, the aggregates can change later.
func TestNewOptions(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	db, _ := filled(t, o)
	for name, change := range map[string]func(*subset.Options){
		"larger N":  func(o *subset.Options) { o.N = 6 },
		"smaller N": func(o *subset.Options) { o.N = 2 },
		"order":     func(o *subset.Options) { o.Order = d("rating", -1, "date", 1) },
		"fields":    func(o *subset.Options) { o.Fields = []string{"author"} },
		"best last": func(o *subset.Options) { o.BestLast = true },
		"value": func(o *subset.Options) {
			o.Values = append(o.Values, subset.Value{Field: "rating", Sum: "s2", Count: "c2"})
		},
		"count": func(o *subset.Options) { o.CountField = "how_many" },
	} {
		o := reviewOptions()
		change(o)
		s := newSubset[int, review](t, db, o)
		_, err := s.Repair(t.Context(), nil)
		must(t, err)
		clean(t, db, s)
		if name == "count" {
			update(t, db.Collection("parents"), d(), d("$unset", d("how_many", "")))
		}
	}
	// The new options are good to go on with, before Repair as well.
	o = reviewOptions()
	o.N = 2
	s := newSubset[int, review](t, db, o)
	must(t, s.Delete(t.Context(), 1, 21))
	same(t, "cut", []int{18, 15}, top(t, s, 1))
	o.N = 8
	s = newSubset[int, review](t, db, o)
	must(t, s.Update(t.Context(), 1, 18, d("$set", d("author", "x"))))
	same(t, "filled", []int{18, 15, 12, 9, 6, 3, 0}, top(t, s, 1))
}

// A parent whose items are in its array only refuses writes; Repair does not
// touch it, Adopt moves the items out.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "old.reviews"} {
		t.Run("from "+from, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			o := reviewOptions()
			o.N = 3
			s := newSubset[int, bson.D](t, db, o)
			parents, items := db.Collection("parents"), db.Collection("items")
			embedded := func(parent, n int) bson.D {
				var array bson.A
				for i := range n {
					item := d("text", fmt.Sprintf("%d%d", parent, i), "rating", int32(i%5), "date", day(1+i))
					if i%2 == 0 { // some have an _id
						item = append(d("_id", parent*100+i), item...)
					}
					array = append(array, item)
				}
				if from == "" {
					return d("_id", parent, "name", "x", "reviews", array)
				}
				return d("_id", parent, "name", "x", "old", d("reviews", array, "kept", 1))
			}
			for parent := range 5 {
				insert(t, parents, embedded(parent, parent*2))
			}
			insert(t, parents, d("_id", 9)) // and one with items in the collection
			for i := range 4 {
				insert(t, items, d("_id", i, "product_id", 9, "rating", 1, "date", day(1+i)))
			}
			if from == "" {
				_, err := s.Add(t.Context(), 3, d("rating", 1, "date", day(1)))
				wantErr(t, err, subset.ErrNotAdopted)
				result, err := s.Repair(t.Context(), nil)
				must(t, err)
				same(t, "repair", subset.RepairResult{Examined: 6, Repaired: 1, Remaining: 4}, result)
				same(t, "kinds", "not adopted", strings.Join(strings.Fields(problems(t, s.Check(t.Context()))[0])[1:3], " "))
				if kept := stored(t, parents)[4]; len(kept[2].Value.(bson.A)) != 8 {
					t.Fatalf("Repair has touched %v", kept)
				}
			}
			// Stopped in the middle, by an item that cannot be one.
			update(t, parents, d("_id", 4), d("$set", d(or(from, "reviews")+".5.rating", "five")))
			adopt := func() (subset.AdoptResult, error) {
				return s.Adopt(t.Context(), &subset.AdoptOptions{From: from, BatchSize: 2})
			}
			result, err := adopt()
			wantErr(t, err, subset.ErrInvalid)
			if result.Moved != 2+4+6 {
				t.Errorf("moved %+v", result)
			}
			untouched(t, parents)
			update(t, parents, d("_id", 4), d("$set", d(or(from, "reviews")+".5.rating", 5)))
			result, err = adopt()
			must(t, err)
			if result.Moved != 8 || result.Examined != 6 {
				t.Errorf("moved %+v", result)
			}
			clean(t, db, s)
			n, err := items.CountDocuments(t.Context(), d())
			if n != 20+4 || err != nil {
				t.Errorf("%d items, %v", n, err)
			}
			all := collect(t, s.All(t.Context(), 2))
			same(t, "text", "23 22 21 20", strings.Join([]string{text(all[0]), text(all[1]), text(all[2]), text(all[3])}, " "))
			same(t, "moved item", []any{int32(202), int32(2), "22"}, []any{all[1][0].Value, all[1][1].Value, text(all[1])})
			if doc := stored(t, parents)[2]; from != "" {
				same(t, "rest of the old", d("kept", int32(1)), doc[2].Value)
			}
			result, err = adopt()
			must(t, err)
			same(t, "again", subset.AdoptResult{Examined: 6}, result)
			// Old programs go on pushing.
			path := or(from, "reviews")
			update(t, parents, d("_id", 2), d("$push", d(path, d("_id", "late", "text", "late", "rating", 1, "date", day(28)))))
			result, err = s.Adopt(t.Context(), &subset.AdoptOptions{From: from, Filter: d("_id", d("$gte", 2))})
			must(t, err)
			same(t, "what came since", subset.AdoptResult{Examined: 4, Adopted: 1, Moved: 1}, result)
			clean(t, db, s)
		})
	}
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, reviewOptions())
	for want, o := range map[string]*subset.AdoptOptions{
		"invalid: AdoptOptions.BatchSize: negative":                            {BatchSize: -1},
		"AdoptOptions.From: invalid field name: \"num_reviews\" collides with": {From: "num_reviews"},
		"AdoptOptions.From: invalid field name: \"$x\" starts with":            {From: "$x"},
	} {
		if _, err := s.Adopt(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "subset: adopt: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	insert(t, db.Collection("parents"), d("_id", 1, "reviews", "none"))
	_, err := s.Adopt(t.Context(), nil)
	wantErr(t, err, subset.ErrInvalid)
	if doc := stored(t, db.Collection("parents"))[0]; doc[1].Value != "none" {
		t.Error(doc)
	}
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(t.Context())
	must(t, session.StartTransaction())
	_, err = s.Adopt(mongo.NewSessionContext(t.Context(), session), nil)
	wantErr(t, err, subset.ErrInvalid)
	must(t, session.CommitTransaction(t.Context()))
	untouched(t, db.Collection("parents"))
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func text(item bson.D) string {
	for _, e := range item {
		if e.Key == "text" {
			return e.Value.(string)
		}
	}
	return ""
}

// Repair and Check run beside writers: nothing is lost, nothing reported wrongly.
func TestRepairBesideWriters(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	db, s := filled(t, o)
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		defer close(done)
		for i := range 30 {
			_, err := s.Add(t.Context(), 1+i%3, review{ID: 100 + i, Rating: 1, Date: day(1 + i%28)})
			if i%3 == 2 {
				err = errors.Join(err, s.Delete(t.Context(), 1+i%3, 100+i))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() { // parents that come and go are no problems
		for i := 100; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			insert(t, db.Collection("parents"), d("_id", i))
			_, err := s.Add(t.Context(), i, review{ID: 1000 + i})
			if err == nil {
				_, err = s.DeleteParent(t.Context(), i)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for p, err := range s.Check(t.Context()) {
				if err != nil {
					t.Error(err)
				}
				t.Errorf("problem: %v", p)
			}
			if _, err := s.Repair(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	clean(t, db, s)
	same(t, "items", 24+20, len(stored(t, db.Collection("items"))))
}

// A run that is cancelled keeps what it has done.
func TestCancel(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.N = 3
	db, s := filled(t, o)
	update(t, db.Collection("parents"), d("reviews", d("$exists", true)), d("$set", d("num_reviews", 0)))
	ctx, cancel := context.WithCancel(t.Context())
	result, err := s.Repair(ctx, &subset.RepairOptions{BatchSize: 1, Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || result.Repaired != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	result, err = s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "second run", subset.RepairResult{Examined: 4, Repaired: 2}, result)
	clean(t, db, s)
}

// What is put right between a look and the second one is not reported.
func TestCheckLooksTwice(t *testing.T) {
	t.Parallel()
	var right func(collection string)
	asked := map[int64]string{}
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			scan := e.Command.Lookup("pipeline", "0", "$match", "product_id").IsZero() // of all documents
			if right != nil && e.CommandName == "aggregate" && scan {
				asked[e.RequestID] = e.Command.Lookup("aggregate").StringValue()
			}
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if collection := asked[e.RequestID]; collection != "" {
				delete(asked, e.RequestID)
				right(collection)
			}
		},
	}))
	s := newSubset[int, review](t, db, reviewOptions())
	insert(t, db.Collection("parents"), d("_id", 1, "num_reviews", 5))
	insert(t, db.Collection("items"), d("_id", 1, "product_id", 2, "rating", 1))
	same(t, "problems", 2, len(problems(t, s.Check(t.Context()))))
	right = func(collection string) {
		var err error
		if collection == "parents" {
			_, err = db.Collection("parents").UpdateOne(t.Context(), d("_id", 1), d("$set", d("num_reviews", 0)))
		} else {
			_, err = db.Collection("items").DeleteOne(t.Context(), d("_id", 1))
		}
		if err != nil {
			t.Error(err)
		}
	}
	same(t, "problems", []string{}, problems(t, s.Check(t.Context())))
}

// What cannot be adopted does not hold up the others of its batch, and is named.
func TestOneParentFails(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		db := mongotest.Database(t)
		s := newSubset[int, bson.D](t, db, reviewOptions())
		parents, items := db.Collection("parents"), db.Collection("items")
		item := func(id int, rating any) bson.D { return d("_id", id, "rating", rating, "date", day(1)) }
		insert(t, parents,
			d("_id", 1, "reviews", bson.A{item(10, 1)}),
			d("_id", 2, "reviews", bson.A{item(20, 1), 7}),
			d("_id", 3, "reviews", bson.A{item(30, "none")}),
			d("_id", 4, "reviews", bson.A{item(40, 1), item(40, 2)}), // two of one _id
			d("_id", 5, "reviews", bson.A{item(50, 1), item(50, 1)}), // one twice
		)
		wrong := []int{2, 3, 4}
		if !joined { // a duplicate key would end the transaction
			insert(t, parents, d("_id", 6, "reviews", bson.A{item(10, 1)}))
			wrong = append(wrong, 6)
		}
		insert(t, parents, d("_id", 7, "reviews", bson.A{item(70, 1)}))
		ctx := t.Context()
		session, err := db.Client().StartSession()
		must(t, err)
		if joined {
			must(t, session.StartTransaction())
			ctx = mongo.NewSessionContext(ctx, session)
		}
		result, err := s.Adopt(ctx, nil)
		wantErr(t, err, subset.ErrInvalid)
		for _, id := range wrong {
			if !strings.Contains(err.Error(), fmt.Sprintf("_id %d: ", id)) {
				t.Errorf("%d is not named: %v", id, err)
			}
		}
		if joined {
			must(t, session.CommitTransaction(ctx))
		}
		session.EndSession(ctx)
		same(t, "result", subset.AdoptResult{Examined: int64(3 + len(wrong)), Adopted: 3, Moved: 3, Skipped: int64(len(wrong))}, result)
		untouched(t, parents)
		same(t, "items", 3, len(stored(t, items)))
		for _, doc := range stored(t, parents) {
			if whole := len(doc) == 2; whole != slices.Contains(wrong, int(doc[0].Value.(int32))) {
				t.Errorf("parent %v", doc)
			}
		}
	}
}

// Nor does it hold up the batches behind it; the first are named, the others counted.
func TestBatchesBehindRefusals(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, &subset.Options{ArrayField: "sub.items", CountField: "sub.n"})
	split, err := subset.NewSplit[int, bson.D, bson.D](db.Collection("hot"), db.Collection("cold"), &subset.SplitOptions{ColdFields: []string{"a"}})
	must(t, err)
	_, err = db.Collection("cold").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("a", 1), Options: options.Index().SetUnique(true)})
	must(t, err)
	insert(t, db.Collection("hot"), d("_id", -1, "a", -1))
	_, err = split.Adopt(t.Context(), nil)
	must(t, err)
	for i := range 24 {
		sub, a := any("mine"), -1
		if i%2 == 1 {
			sub, a = d("items", bson.A{d("_id", i)}), i
		}
		insert(t, db.Collection("parents"), d("_id", i, "sub", sub))
		insert(t, db.Collection("items"), d("_id", 100+i, "parent", i))
		insert(t, db.Collection("hot"), d("_id", i, "a", a))
	}
	named := func(err error) {
		t.Helper()
		for i := range 24 {
			if got, want := err != nil && strings.Contains(err.Error(), fmt.Sprintf("_id %d: ", i)), i%2 == 0 && i < 20; got != want {
				t.Errorf("%d is named: %t in %v", i, got, err)
			}
		}
	}
	adopted, err := s.Adopt(t.Context(), &subset.AdoptOptions{BatchSize: 3})
	named(err)
	same(t, "adopt", subset.AdoptResult{Examined: 24, Adopted: 12, Moved: 12, Skipped: 12}, adopted)
	update(t, db.Collection("parents"), d("sub.n", 2), d("$set", d("sub.n", 5)))
	repaired, err := s.Repair(t.Context(), &subset.RepairOptions{BatchSize: 3})
	named(err)
	same(t, "repair", subset.RepairResult{Examined: 24, Repaired: 12, Remaining: 12}, repaired)
	adopted, err = split.Adopt(t.Context(), &subset.SplitAdoptOptions{BatchSize: 3})
	named(err)
	same(t, "split", subset.AdoptResult{Examined: 25, Adopted: 12, Moved: 12, Skipped: 12}, adopted)
	repaired, err = split.Repair(t.Context(), &subset.RepairOptions{BatchSize: 3})
	named(err)
	same(t, "repair of the split", subset.RepairResult{Examined: 25, Remaining: 12}, repaired)
	untouched(t, db.Collection("parents"))
	untouched(t, db.Collection("hot"))
}

// An error that is not a document's own ends the work.
func TestCancelledBatch(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 2; at++ { // in the batch, and in what follows when one is refused
		ctx, cancel := context.WithCancel(t.Context())
		updates := 0
		db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
			Started: func(_ context.Context, e *event.CommandStartedEvent) {
				if mark, _ := e.Command.Lookup("updates", "0", "u", "$set", "__touch").BooleanOK(); mark {
					if updates++; updates == at {
						cancel()
					}
				}
			},
		}))
		s := newSubset[int, bson.D](t, db, nil)
		parents := db.Collection("parents")
		insert(t, parents, d("_id", 1, "items", bson.A{1}), d("_id", 2, "items", bson.A{d("_id", 1)}), d("_id", 3, "count", 1))
		result, err := s.Adopt(ctx, nil)
		if !errors.Is(err, context.Canceled) || result.Adopted != 0 || updates != at || strings.Contains(err.Error(), `"2"`) {
			t.Errorf("%+v, %v, %d updates", result, err, updates)
		}
		untouched(t, parents)
	}
}

// A duplicate key ends the caller's transaction, and the work in it.
func TestJoinedDuplicate(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, nil)
	parents := db.Collection("parents")
	insert(t, parents, d("_id", 1, "items", bson.A{d("_id", 1)}), d("_id", 2, "items", bson.A{d("_id", 1)}))
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(t.Context())
	must(t, session.StartTransaction())
	_, err = s.Adopt(mongo.NewSessionContext(t.Context(), session), nil)
	if !mongo.IsDuplicateKeyError(err) || strings.Contains(err.Error(), `_id 1: `) {
		t.Error(err)
	}
	_ = session.AbortTransaction(t.Context())
	untouched(t, parents)
}

// Kept copies need not hold what the items must.
func TestAdoptNarrowCopies(t *testing.T) {
	t.Parallel()
	o := reviewOptions()
	o.Fields = []string{"author"}
	db, s := filled(t, o)
	update(t, db.Collection("parents"), d("_id", 1), d("$inc", d("num_reviews", 1)))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "result", subset.AdoptResult{Examined: 4, Adopted: 1}, result)
	clean(t, db, s)
}

// Items name their parent by what the server holds for equal.
func TestRepairByEqualIDs(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*subset.Options{
		"counted": {N: 2, Values: []subset.Value{{Field: "v", Sum: "s"}}},
		"fields":  {N: 2, Order: d("w", -1), Fields: []string{"x"}, Values: []subset.Value{{Field: "v", Sum: "s"}}},
		"not":     {N: 2, NoCount: true},
	} {
		db := mongotest.Database(t)
		s := newSubset[any, bson.D](t, db, o)
		insert(t, db.Collection("parents"), d("_id", 1), d("_id", "a"), d("_id", d("a", 1)), d("_id", 2))
		for i, p := range []any{1, int64(1), 1.0, "a", d("a", 1), "b"} {
			insert(t, db.Collection("items"), d("_id", i, "x", i, "parent", p, "v", 1+i, "w", i%2))
		}
		result, err := s.Repair(t.Context(), nil)
		must(t, err)
		same(t, name, subset.RepairResult{Examined: 4, Repaired: 3, Remaining: 1}, result)
		same(t, name, []string{`"b" orphan parent`}, problems(t, s.Check(t.Context())))
		best, err := s.Top(t.Context(), 1)
		must(t, err)
		want := []any{int32(2), int32(1), "x"}
		if name == "fields" {
			want[0], want[1] = want[1], want[0]
		}
		same(t, name, want, []any{best[0][0].Value, best[1][0].Value, best[0][1].Key})
		var sums struct{ S int }
		must(t, db.Collection("parents").FindOne(t.Context(), d("_id", 1)).Decode(&sums))
		if name != "not" && sums.S != 1+2+3 {
			t.Errorf("%s: %+v", name, sums)
		}
	}
}

// Transactions stay small: large parents are not rebuilt all in one.
func TestLargeParents(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, nil)
	for i := range 3 {
		insert(t, db.Collection("parents"), d("_id", i, "items", bson.A{d("_id", i, "text", strings.Repeat("x", []int{5 << 20, 5 << 20, 1}[i]))}))
	}
	cmds := mongotest.Record(t, db, func() {
		result, err := s.Adopt(t.Context(), nil)
		must(t, err)
		same(t, "result", subset.AdoptResult{Examined: 3, Adopted: 3, Moved: 3}, result)
	})
	commits := 0
	for _, name := range cmds.Names() {
		if name == "commitTransaction" {
			commits++
		}
	}
	same(t, "transactions", 2, commits)
}

// Repair takes an array for copies only if the items have all that it holds.
func TestRepairOfCopies(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[int, bson.D](t, db, nil)
	parents := db.Collection("parents")
	insert(t, db.Collection("items"), d("_id", 1, "parent", 1), d("_id", 2, "parent", 2), d("_id", 3, "parent", 2))
	insert(t, parents,
		d("_id", 1, "items", bson.A{d("_id", 1), d("text", "no _id")}),
		d("_id", 2, "items", bson.A{d("_id", 2)}),
		d("_id", 3, "items", bson.A{d("_id", 3)}), // another parent's
	)
	result, err := s.Repair(t.Context(), nil)
	must(t, err)
	same(t, "result", subset.RepairResult{Examined: 3, Repaired: 1, Remaining: 2}, result)
	untouched(t, parents)
	docs := stored(t, parents)
	same(t, "left, repaired, left", []int{2, 3, 2}, []int{len(docs[0]), len(docs[1]), len(docs[2])})
}
