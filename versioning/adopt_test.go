package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[int, bson.D](t, db, nil)
	var docs []any
	for i := range 25 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}})
	}
	// 3 was deleted here and inserted by something else.
	must[versioning.Revision[bson.D]](t)(d.Insert(ctx, bson.D{{Key: "_id", Value: 3}}, by("", "", month(1))))
	if err := d.Delete(ctx, 3, 1, by("", "", month(2))); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("current").InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	var progress []int64
	result, err := d.Adopt(cancelled, nil, &mongopatterns.Work{BatchSize: 10, Progress: func(r mongopatterns.Result) {
		progress = append(progress, r.Done)
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || result.Done != 10 {
		t.Errorf("%+v, %v", result, err)
	}
	result, err = d.Adopt(ctx, nil, &mongopatterns.Work{BatchSize: 10, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) }})
	if err != nil || result.Examined != 15 || result.Done != 15 || !reflect.DeepEqual(progress, []int64{10, 10, 15}) {
		t.Errorf("%+v, %v, %v", result, err, progress)
	}
	if result, err = d.Adopt(ctx, nil, nil); err != nil || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if r := must[versioning.Revision[bson.D]](t)(d.Get(ctx, 3)); r.Number != 3 || !r.Change.At.Equal(month(2)) {
		t.Errorf("%+v", r)
	}
	if r := must[versioning.Revision[bson.D]](t)(d.Get(ctx, 4)); r.Number != 1 || !r.Change.At.IsZero() {
		t.Errorf("%+v", r)
	}
	testkit.Healthy(t, d)
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: 99}, {Key: "change", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if result, err = d.Adopt(ctx, nil, nil); err != nil || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrMalformed) {
		t.Errorf("field in use: %+v, %v", result, err)
	}
}

// A history that was kept by hand is adopted in place.
func TestAdoptHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	current, rows := db.Collection("current_policies"), db.Collection("policy_revisions")
	d := must[*versioning.History[int, bson.D]](t)(versioning.New[int, bson.D](current, rows, &versioning.Options{DocumentIDField: "policy_id"}))
	if _, err := current.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{"Sword", "Ring"}}, {Key: "revision", Value: 3}}); err != nil {
		t.Fatal(err)
	}
	// Flat rows; one is a copy of the current document, one is a revision of ours without a time.
	flat := func(n int, items ...any) bson.D {
		return bson.D{{Key: "policy_id", Value: 1}, {Key: "items", Value: bson.A(items)}, {Key: "revision", Value: n}, {Key: "set", Value: month(n)}}
	}
	last := flat(4)
	last[2].Value = int64(math.MaxInt64) // no number comes after it
	if _, err := rows.InsertMany(ctx, []any{flat(1), flat(2, "Sword"), flat(3, "Sword", "Ring"), flat(0), last,
		bson.D{{Key: "policy_id", Value: 2}, {Key: "revision", Value: 1}, {Key: "document", Value: bson.D{{Key: "_id", Value: 2}}}},
		bson.D{{Key: "policy_id", Value: 2}, {Key: "revision", Value: 2}, {Key: "deleted", Value: true}}}); err != nil {
		t.Fatal(err)
	}
	read := func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
		if row.Lookup("set").IsZero() {
			doc, _ := row.Lookup("document").DocumentOK()
			deleted := doc == nil
			if deleted {
				doc = testkit.Raw(t, bson.D{{Key: "_id", Value: row.Lookup("policy_id")}})
			}
			return &versioning.Revision[bson.Raw]{Number: row.Lookup("revision").AsInt64(), Document: doc, Deleted: deleted}, nil
		}
		if row.Lookup("revision").AsInt64() == 3 {
			return nil, nil
		}
		var doc bson.D
		err := bson.Unmarshal(row, &doc)
		doc = slices.DeleteFunc(doc, func(e bson.E) bool { return e.Key == "_id" || e.Key == "set" })
		doc[0].Key = "_id" // was policy_id
		return &versioning.Revision[bson.Raw]{Number: row.Lookup("revision").AsInt64(),
			Change: versioning.Change{At: row.Lookup("set").Time()}, Document: testkit.Raw(t, doc)}, err
	}
	if dry, err := d.AdoptRevisions(ctx, read, &mongopatterns.Work{DryRun: true}); err != nil || dry.Done != 4 {
		t.Errorf("%+v, %v", dry, err)
	}
	result, err := d.AdoptRevisions(ctx, read, nil)
	if err != nil || result.Done != 4 || result.Skipped != 1 || result.Failed != 2 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) || !errors.Is(result.Failures[1].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	wantErr(t, "no read", second(d.AdoptRevisions(ctx, nil, nil)), mongopatterns.ErrInvalid)
	for _, n := range []int64{0, 3, math.MaxInt64} { // delete the copy and the rows that are no revisions
		remove(t, rows, bson.D{{Key: "policy_id", Value: 1}, {Key: "revision", Value: n}})
	}
	if err := d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	must[versioning.Revision[bson.D]](t)(d.Edit(ctx, 1, func(doc *bson.D) error { (*doc)[1].Value = bson.A{}; return nil }, by("", "", month(9))))
	then := must[versioning.Revision[bson.D]](t)(d.AsOf(ctx, 1, month(2)))
	if want := (bson.D{{Key: "_id", Value: int32(1)}, {Key: "items", Value: bson.A{"Sword"}}}); cmp.Diff(want, then.Document[:2]) != "" || then.Number != 2 {
		t.Errorf("%+v", then)
	}
	for _, p := range testkit.Collect(t, d.Check(ctx, nil)) {
		if p.Kind != versioning.TimeReversed { // Adopt was not called
			t.Errorf("%v", p)
		}
	}
	wantErr(t, "deleted", second(d.At(ctx, 2, 2)), versioning.ErrDeleted)
}

// Numbers that were typed by hand: whole ones of any type stay, others are named.
func TestAdoptNamesOtherNumbers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[int, bson.D](t, db, nil)
	decimal, err := bson.ParseDecimal128("4")
	if err != nil {
		t.Fatal(err)
	}
	good := []any{int32(1), int64(2), 3.0, 1e17, int64(math.MaxInt64 - 2)}
	bad := []any{"4", decimal, 0, -1, 2.5, math.NaN(), math.Inf(1), int64(math.MaxInt64), float64(1 << 63), bson.A{1}, bson.D{{Key: "n", Value: 1}}, true}
	var docs []any
	for i, v := range append(slices.Clone(good), bad...) {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "revision", Value: v}})
	}
	docs = append(docs, bson.D{{Key: "_id", Value: 98}, {Key: "revision", Value: nil}}, bson.D{{Key: "_id", Value: 99}})
	if _, err := db.Collection("current").InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	if result, err := d.Adopt(ctx, nil, &mongopatterns.Work{Strict: true, BatchSize: 1, Filter: bson.M{"_id": bson.M{"$lt": 99}}}); !errors.Is(err, mongopatterns.ErrMalformed) || result.Failed != 1 || result.Done != int64(len(good)) {
		t.Errorf("strict: %+v, %v", result, err)
	}
	result, err := d.Adopt(ctx, nil, nil)
	if err != nil || result.Done != 2 || result.Failed != int64(len(bad)) {
		t.Errorf("%+v, %v", result, err)
	}
	for i := range docs {
		_, err := d.Get(ctx, int(testkit.Raw(t, docs[i]).Lookup("_id").AsInt64()))
		if refused := i >= len(good) && i < len(good)+len(bad); refused != errors.Is(err, mongopatterns.ErrMalformed) {
			t.Errorf("%v: %v", docs[i], err)
		}
	}
	for i, number := range good {
		if got := testkit.Get(testkit.One[bson.D](t, db.Collection("current"), i), "revision"); got != number {
			t.Errorf("%T %v became %T %v", number, number, got, got)
		}
	}
}

// A save while Adopt runs is not undone by it.
func TestAdoptBesideASave(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	result, err := d.Adopt(ctx, func(bson.Raw) versioning.Change {
		get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 2; return nil }, nobody))
		return nobody
	}, nil)
	if err != nil || result.Examined != 1 || result.Skipped != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 2 || r.Document.N != 2 {
		t.Errorf("%+v", r)
	}
	testkit.Healthy(t, d)
}

// A history that was brought along without times says nothing about that of a document.
func TestAdoptOfAHistoryWithoutTimes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	if _, err := db.Collection("revisions").InsertOne(ctx, bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 1}, {Key: "document", Value: bson.D{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	if result, err := d.Adopt(ctx, nil, nil); err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 2 || !r.Change.At.IsZero() {
		t.Errorf("%+v", r)
	}
}

// policies of old code, which keeps its history by hand: the collections, the package on
// them, what old code does, and how its rows are read.
type byHand struct {
	current, rows *mongo.Collection
	d             *versioning.History[string, bson.D]
}

func newByHand(t *testing.T) byHand {
	t.Helper()
	db := mongotest.Database(t)
	b := byHand{current: db.Collection("policies"), rows: db.Collection("policy_history")}
	b.d = must[*versioning.History[string, bson.D]](t)(versioning.New[string, bson.D](b.current, b.rows, &versioning.Options{DocumentIDField: "policy_id"}))
	return b
}

// save is what old code does: the state goes into the history as it is, and another
// takes its place.
func (b byHand) save(t *testing.T, id string, version, n int) {
	t.Helper()
	row := bson.D{{Key: "_id", Value: fmt.Sprint(id, " ", version)}, {Key: "of", Value: id}, {Key: "version", Value: version}, {Key: "n", Value: n - 1}, {Key: "saved", Value: month(version)}}
	testkit.Insert(t, b.rows, row)
	if _, err := b.current.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: n}}}}, options.UpdateOne().SetUpsert(true)); err != nil {
		t.Fatal(err)
	}
}

func (b byHand) read(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
	if row.Lookup("of").IsZero() {
		return nil, nil
	}
	doc, err := bson.Marshal(bson.D{{Key: "_id", Value: row.Lookup("of")}, {Key: "n", Value: row.Lookup("n")}})
	return &versioning.Revision[bson.Raw]{Number: row.Lookup("version").AsInt64(), Document: doc,
		Change: versioning.Change{At: row.Lookup("saved").Time()}}, err
}

func (b byHand) n(t *testing.T, id string, number int64) int64 {
	t.Helper()
	r := must[versioning.Revision[bson.D]](t)(b.d.At(t.Context(), id, number))
	return testkit.Raw(t, r.Document).Lookup("n").AsInt64()
}

// The steps of docs/adopting.md for a history that was kept by hand, beside old code.
func TestAdoptingAHistoryByHand(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newByHand(t)
	for _, id := range []string{"a", "b", "c"} {
		b.save(t, id, 1, 1)
		b.save(t, id, 2, 2)
	}
	update := func(id string, n int64) {
		must[versioning.Revision[bson.D]](t)(b.d.Edit(ctx, id, func(doc *bson.D) error {
			for i := range *doc {
				if (*doc)[i].Key == "n" {
					(*doc)[i].Value = n
				}
			}
			return nil
		}, nobody))
	}
	adopt := func(done, current int64) {
		t.Helper()
		if r, err := b.d.AdoptRevisions(ctx, b.read, nil); err != nil || r.Done != done || r.Failed+r.Remaining+r.Skipped != 0 {
			t.Errorf("history: %+v, %v", r, err)
		}
		if r, err := b.d.Adopt(ctx, nil, nil); err != nil || r.Done != current || r.Failed+r.Remaining+r.Skipped != 0 {
			t.Errorf("current: %+v, %v", r, err)
		}
	}
	if err := b.d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	adopt(6, 3)
	// Both programs run: the new one saves a, the old one b, and something new.
	update("a", 3)
	b.save(t, "b", 3, 3)
	b.save(t, "new", 1, 1)
	left := 0
	for _, p := range testkit.Collect(t, b.d.Check(ctx, nil)) {
		if p.Kind == mongopatterns.NotAdopted {
			left++
		}
	}
	if left != 2 {
		t.Errorf("%d rows of old code are named", left)
	}
	// The old code has stopped.
	adopt(2, 1)
	if found := testkit.Collect(t, b.d.Check(ctx, nil)); len(found) != 0 {
		t.Errorf("%v", found)
	}
	for id, want := range map[string][]int64{"a": {0, 1, 2, 3}, "b": {0, 1, 2, 3}, "c": {0, 1, 2}, "new": {0, 1}} {
		for i, n := range want {
			if got := b.n(t, id, int64(i+1)); got != n {
				t.Errorf("%s, revision %d: %d", id, i+1, got)
			}
		}
		update(id, 9)
	}
}

// Adopt goes on where the history ends: the history comes first, or AdoptRevisions gives the documents that Adopt has
// numbered the next number and time.
func TestAdoptBeforeTheHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newByHand(t)
	b.save(t, "a", 1, 1)
	b.save(t, "a", 2, 2)
	if err := b.d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	must[mongopatterns.Result](t)(b.d.Adopt(ctx, nil, nil))
	must[mongopatterns.Result](t)(b.d.AdoptRevisions(ctx, b.read, &mongopatterns.Work{DryRun: true}))
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "a")); r.Number != 1 {
		t.Errorf("%+v", r)
	}
	must[mongopatterns.Result](t)(b.d.AdoptRevisions(ctx, b.read, &mongopatterns.Work{BatchSize: 1}))
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "a")); r.Number != 3 || !r.Change.At.Equal(month(2)) {
		t.Errorf("%+v", r)
	}
	testkit.Healthy(t, b.d)
}

// meanwhile reads rows as read does, and edits or deletes some that it has read.
func (b byHand) meanwhile(ctx context.Context) func(bson.Raw) (*versioning.Revision[bson.Raw], error) {
	return func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
		var err error
		switch one := (bson.D{{Key: "_id", Value: row.Lookup("_id")}}); row.Lookup("of").StringValue() {
		case "edited":
			_, err = b.rows.UpdateOne(ctx, one, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 77}}}})
		case "deleted":
			_, err = b.rows.DeleteOne(ctx, one)
		}
		return second2(b.read(row))(err)
	}
}

// A row that changes between its read and its write keeps the change and is Remaining; the
// next run adopts it.
func TestAdoptHistoryBesideAnEdit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newByHand(t)
	for _, id := range []string{"edited", "deleted", "left"} {
		b.save(t, id, 1, 1)
	}
	if r, err := b.d.AdoptRevisions(ctx, b.meanwhile(ctx), nil); err != nil || r.Done != 1 || r.Remaining != 1 || r.Skipped != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.d.AdoptRevisions(ctx, b.read, nil); err != nil || r.Done != 1 || r.Remaining != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := b.n(t, "edited", 1); got != 77 {
		t.Errorf("%d", got)
	}
}

// A row that has no room in one statement beside its replacement is guarded all the same.
func TestAdoptHistoryOfLargeRows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newByHand(t)
	if err := b.d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	insert := func(id string, size int) {
		testkit.Insert(t, b.rows, bson.D{{Key: "_id", Value: id}, {Key: "of", Value: id}, {Key: "version", Value: 1}, {Key: "n", Value: strings.Repeat("x", size)}, {Key: "saved", Value: month(1)}})
	}
	for id, size := range map[string]int{"largest": 16_760_000, "edited": 9 << 20, "deleted": 9 << 20, "twice": 9 << 20, "small": 10} {
		insert(id, size)
	}
	testkit.Insert(t, b.rows, bson.D{{Key: "_id", Value: "first"}, {Key: "policy_id", Value: "twice"}, {Key: "revision", Value: 1}, {Key: "change", Value: bson.D{{Key: "at", Value: month(1)}}},
		{Key: "document", Value: bson.D{{Key: "_id", Value: "twice"}}}})
	if r, err := b.d.AdoptRevisions(ctx, b.read, &mongopatterns.Work{DryRun: true}); err != nil || r.Done != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err := b.d.AdoptRevisions(ctx, b.meanwhile(ctx), nil)
	if err != nil || r.Done != 2 || r.Remaining != 1 || r.Skipped != 1 || r.Failed != 1 || r.Failures[0].ID.StringValue() != "twice" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.d.AdoptRevisions(ctx, b.read, nil); err != nil || r.Done != 1 || r.Remaining != 0 || r.Failed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := b.n(t, "edited", 1); got != 77 {
		t.Errorf("%d", got)
	}
	largest := must[versioning.Revision[bson.D]](t)(b.d.At(ctx, "largest", 1))
	if n := len(testkit.Get(largest.Document, "n").(string)); n != 16_760_000 {
		t.Errorf("%d bytes", n)
	}
	testkit.OK(t, b.rows.Drop(ctx))
	insert("alone", 5<<20)
	costs.Record(t, b.rows.Database(), 1, []string{"listCollections", "find", "find", "update", "commitTransaction", "find"}, func() error {
		return second(b.d.AdoptRevisions(ctx, b.read, nil))
	})
}

func second2(r *versioning.Revision[bson.Raw], err error) func(error) (*versioning.Revision[bson.Raw], error) {
	return func(other error) (*versioning.Revision[bson.Raw], error) { return r, errors.Join(err, other) }
}

var errRead = errors.New("not read")

// A row whose number the history has is Failed and named, and counts nothing else twice.
func TestAdoptHistoryOfANumberTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newByHand(t)
	if err := b.d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		b.save(t, "a", i+1, i+1)
	}
	testkit.Insert(t, b.rows, bson.D{{Key: "_id", Value: "z"}, {Key: "of", Value: "a"}, {Key: "version", Value: 2}, {Key: "n", Value: 5}, {Key: "saved", Value: month(2)}})
	for _, want := range []int64{5, 0} {
		r, err := b.d.AdoptRevisions(ctx, b.read, nil)
		if err != nil || r.Done != want || r.Failed != 1 || r.Skipped+r.Remaining != 0 || r.Failures[0].ID.StringValue() != "z" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	strict := &mongopatterns.Work{Strict: true}
	if r, err := b.d.AdoptRevisions(ctx, b.read, strict); !mongo.IsDuplicateKeyError(err) || r.Done != 0 {
		t.Errorf("strict: %+v, %v", r, err)
	}
	refuse := func(bson.Raw) (*versioning.Revision[bson.Raw], error) { return nil, errRead }
	if r, err := b.d.AdoptRevisions(ctx, refuse, strict); !errors.Is(err, errRead) || r.Failed != 1 {
		t.Errorf("strict, read: %+v, %v", r, err)
	}
	named := testkit.Collect(t, b.d.Check(ctx, nil))
	if !slices.ContainsFunc(named, func(p mongopatterns.Problem) bool {
		return p.Kind == mongopatterns.NotAdopted && p.ID.Type == bson.TypeString && p.ID.StringValue() == "z"
	}) {
		t.Errorf("%v", named)
	}
}

// A document that is too large to be saved with number and change is not adopted, and Check names it, also one that
// has grown since. One byte less, and it is adopted and saved.
func TestAdoptOfTheLargest(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, known := range map[string]func(bson.Raw) versioning.Change{
		"nothing known": nil, "known": func(bson.Raw) versioning.Change { return versioning.Change{Author: "Ann"} },
	} {
		db := mongotest.Database(t)
		d := helper[int, bson.D](t, db, nil)
		current := db.Collection("current")
		testkit.Insert(t, current, bson.D{{Key: "_id", Value: 0}})
		must[mongopatterns.Result](t)(d.Adopt(ctx, known, nil))
		added := len(testkit.One[bson.Raw](t, current, 0)) - len(testkit.Raw(t, bson.D{{Key: "_id", Value: 0}}))
		sized := func(id, bytes int) bson.D {
			empty := len(testkit.Raw(t, bson.D{{Key: "_id", Value: id}, {Key: "x", Value: ""}}))
			return bson.D{{Key: "_id", Value: id}, {Key: "x", Value: strings.Repeat("x", bytes-empty)}}
		}
		const most = 16_760_832
		testkit.Insert(t, current, sized(1, most-added), sized(2, most-added+1))
		result, err := d.Adopt(ctx, known, nil)
		if err != nil || result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.AsInt64() != 2 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		if known != nil { // once is enough
			continue
		}
		testkit.Healthy(t, d)
		r := must[versioning.Revision[bson.D]](t)(d.Get(ctx, 1))
		r.Document = bson.D{{Key: "_id", Value: 1}, {Key: "x", Value: "short"}}
		must[versioning.Revision[bson.D]](t)(d.Save(ctx, r, nobody))
		testkit.Update(t, current, bson.D{{Key: "_id", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "y", Value: strings.Repeat("x", added)}}}})
		if found := testkit.Problems(t, d); len(found) != 1 || !strings.Contains(found[0], "a revision can have 16760832") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// contracts are policies of old code that counts in the documents itself, with names that New gets.
func contracts(t *testing.T) byHand {
	t.Helper()
	db := mongotest.Database(t)
	b := byHand{current: db.Collection("contracts"), rows: db.Collection("contract_history")}
	b.d = must[*versioning.History[string, bson.D]](t)(versioning.New[string, bson.D](b.current, b.rows,
		&versioning.Options{DocumentIDField: "contract", RevisionField: "ver", ChangeField: "chg"}))
	return b
}

// keep is what old code does before it saves: a row with the state that is to be replaced.
func (b byHand) keep(ctx context.Context, id string, ver int32) error {
	_, err := b.rows.InsertOne(ctx, testkit.D("_id", fmt.Sprint(id, " ", ver), "contract", id, "ver", ver, "saved", month(int(ver)),
		"who", "ann", "ip", "10.0.0.1", "body", testkit.D("text", fmt.Sprint("v", ver))))
	return err
}

// readContract reads a row. It was saved when its state was replaced, so its revision began when the row before was saved.
func (b byHand) readContract(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
	body, ok := row.Lookup("body").DocumentOK()
	if !ok {
		return nil, nil
	}
	doc, err := bson.Marshal(testkit.D("_id", row.Lookup("body", "_id"), "text", body.Lookup("text")))
	if row.Lookup("body", "_id").IsZero() {
		doc, err = bson.Marshal(testkit.D("_id", row.Lookup("contract"), "text", body.Lookup("text")))
	}
	ver := row.Lookup("ver").AsInt64()
	var at time.Time
	if ver > 1 {
		at = month(int(ver) - 1)
	}
	return &versioning.Revision[bson.Raw]{Number: ver, Document: doc, Change: versioning.Change{At: at}}, err
}

// A document that counts already gets the time that is known, or that of its last row, and AsOf is an error until then.
func TestAdoptOfTimes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := contracts(t)
	author := testkit.D("author", "eve", "ticket", int32(7))
	testkit.Insert(t, b.current, testkit.D("_id", "a", "ver", int32(3), "text", "v3"), testkit.D("_id", "b", "ver", 3.0, "text", "v3", "chg", author),
		testkit.D("_id", "c", "text", "v3"), testkit.D("_id", "alone", "ver", int32(3)))
	for _, id := range []string{"a", "b", "c"} {
		testkit.OK(t, errors.Join(b.keep(ctx, id, 1), b.keep(ctx, id, 2)))
	}
	testkit.OK(t, b.d.EnsureIndexes(ctx))
	must[mongopatterns.Result](t)(b.d.AdoptRevisions(ctx, b.readContract, nil))
	wantErr(t, "before Adopt", second(b.d.AsOf(ctx, "a", month(9))), versioning.ErrInconsistent)
	costs.Record(t, b.current.Database(), 0, []string{"find", "find"}, func() error { return second(b.d.AsOf(ctx, "alone", month(9))) })
	known := func(stored bson.Raw) versioning.Change {
		if stored.Lookup("_id").StringValue() == "a" {
			return versioning.Change{At: month(2), Author: "ann"}
		}
		return versioning.Change{}
	}
	if r, err := b.d.Adopt(ctx, known, nil); err != nil || r.Done != 4 || r.Failed+r.Remaining+r.Skipped != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	testkit.Healthy(t, b.d)
	for id, want := range map[string]struct {
		at     int
		author string
	}{"a": {2, "ann"}, "b": {1, "eve"}, "c": {1, ""}} {
		r := must[versioning.Revision[bson.D]](t)(b.d.AsOf(ctx, id, month(want.at)))
		if r.Number != 3 || !r.Change.At.Equal(month(want.at)) || r.Change.Author != want.author {
			t.Errorf("%s: %+v", id, r)
		}
		if r := must[versioning.Revision[bson.D]](t)(b.d.AsOf(ctx, id, month(0))); r.Number != 1 {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "b")); cmp.Diff(testkit.D("ticket", int32(7)), r.Change.Fields) != "" {
		t.Errorf("%+v", r)
	}
	if r, err := b.d.Adopt(ctx, nil, nil); err != nil || r.Examined != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// A document that old code saves while Adopt writes its time keeps what old code wrote, is Remaining, and is next.
func TestAdoptOfTimesBesideASave(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := contracts(t)
	testkit.Insert(t, b.current, testkit.D("_id", "a", "ver", int32(1)))
	save := func(bson.Raw) versioning.Change {
		testkit.Update(t, b.current, testkit.D("_id", "a"), testkit.D("$inc", testkit.D("ver", int32(1))))
		return versioning.Change{}
	}
	if r, err := b.d.Adopt(ctx, save, nil); err != nil || r.Done+r.Skipped != 0 || r.Remaining != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.d.Adopt(ctx, nil, nil); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "a")); r.Number != 2 {
		t.Errorf("%+v", r)
	}
}

// Old code that dies between its two writes leaves a row with the number of the document, which nobody can save then.
// AdoptRevisions gives the document the next number, and a time that Adopt had not known.
func TestAdoptHistoryOfADeadProcess(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := contracts(t)
	testkit.OK(t, b.d.EnsureIndexes(ctx))
	testkit.Insert(t, b.current, testkit.D("_id", "dead", "ver", int32(3), "text", "v3"), testkit.D("_id", "early", "ver", int32(3), "text", "v3"))
	must[mongopatterns.Result](t)(b.d.Adopt(ctx, nil, nil))
	for ver := range int32(3) {
		testkit.OK(t, b.keep(ctx, "dead", ver+1))
	}
	testkit.OK(t, errors.Join(b.keep(ctx, "early", 1), b.keep(ctx, "early", 2)))
	edit := func() error {
		return second(b.d.Edit(ctx, "dead", func(doc *bson.D) error { *doc = append(*doc, bson.E{Key: "by", Value: "new"}); return nil }, nobody))
	}
	wantErr(t, "locked", edit(), versioning.ErrInconsistent)
	if err := second(b.rows.InsertOne(ctx, testkit.D("contract", "dead", "ver", int32(3)))); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("%v", err)
	}
	if r, err := b.d.AdoptRevisions(ctx, b.readContract, nil); err != nil || r.Done != 5 || r.Failed+r.Remaining != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	testkit.Healthy(t, b.d)
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "dead")); r.Number != 4 {
		t.Errorf("%+v", r)
	}
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "early")); r.Number != 3 || !r.Change.At.Equal(month(1)) {
		t.Errorf("%+v", r)
	}
	testkit.OK(t, edit())
}

// What read does not map stays in the row, so that the way back has it. What the document holds is not there twice.
func TestAdoptHistoryKeepsFields(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := contracts(t)
	testkit.OK(t, b.keep(ctx, "a", 1))
	other := testkit.D("_id", "a", "text", "v2", "more", int32(1)) // read leaves more out
	testkit.Insert(t, b.rows, testkit.D("_id", "a 2", "contract", "a", "ver", int32(2), "text", "v2", "body", other))
	must[mongopatterns.Result](t)(b.d.AdoptRevisions(ctx, b.readContract, nil))
	for id, want := range map[string]bson.D{
		"a 1": testkit.D("saved", bson.NewDateTimeFromTime(month(1)), "who", "ann", "ip", "10.0.0.1"),
		"a 2": testkit.D("body", other),
	} {
		row := testkit.One[bson.D](t, b.rows, id)
		if diff := cmp.Diff(want, row[5:]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	// The way back of docs/adopting.md.
	back := bson.A{testkit.D("$set", testkit.D("body", "$document")), testkit.D("$unset", bson.A{"chg", "document"})}
	testkit.OK(t, second(b.rows.UpdateMany(ctx, testkit.D("document", testkit.D("$exists", true)), back)))
	want := testkit.D("_id", "a 1", "contract", "a", "ver", int64(1), "saved", bson.NewDateTimeFromTime(month(1)), "who", "ann", "ip", "10.0.0.1",
		"body", testkit.D("_id", "a", "text", "v1"))
	if diff := cmp.Diff(want, testkit.One[bson.D](t, b.rows, "a 1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A row that has no room for both is unchanged.
	large := testkit.D("text", "x", "y", strings.Repeat("y", 9<<20))
	testkit.Insert(t, b.rows, testkit.D("_id", "large", "contract", "large", "ver", int32(1), "body", large))
	double := func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
		if row.Lookup("_id").StringValue() != "large" {
			return nil, nil
		}
		return &versioning.Revision[bson.Raw]{Number: 1, Document: testkit.Raw(t, testkit.D("_id", "large", "z", row.Lookup("body", "y")))}, nil
	}
	if r, err := b.d.AdoptRevisions(ctx, double, nil); err != nil || r.Failed != 1 || !errors.Is(r.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Before the adoption Check tells rows of old code from what has to be corrected, such as rows whose document is null, and
// reads no history again for them.
func TestCheckBeforeAdoption(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := contracts(t)
	testkit.Insert(t, b.current, testkit.D("_id", "a", "ver", int32(3)))
	testkit.OK(t, errors.Join(b.keep(ctx, "a", 1), b.keep(ctx, "a", 2)))
	// Row 2 has no time yet, and row 1 has.
	testkit.Insert(t, b.current, testkit.D("_id", "b", "ver", int32(3), "chg", testkit.D("at", month(2))))
	testkit.OK(t, b.keep(ctx, "b", 2))
	testkit.Insert(t, b.rows, testkit.D("_id", "b 1", "contract", "b", "ver", int32(1), "chg", testkit.D("at", month(1)), "document", testkit.D("_id", "b")))
	costs.Record(t, b.current.Database(), 0, []string{"listCollections", "find", "find", "find", "aggregate"}, func() error {
		return testkit.Drain(b.d.Check(ctx, nil))
	})
	for _, id := range []string{"lost 1", "lost 2"} {
		testkit.Insert(t, b.rows, testkit.D("_id", id, "contract", nil, "ver", int32(1)))
	}
	testkit.Insert(t, b.rows, testkit.D("_id", "unset", "ver", int32(1)))
	wantErr(t, "a number twice", b.d.EnsureIndexes(ctx), versioning.ErrInconsistent)
	got := map[string]mongopatterns.ProblemKind{}
	for _, p := range testkit.Collect(t, b.d.Check(ctx, nil)) {
		got[p.ID.StringValue()] = p.Kind
	}
	want := map[string]mongopatterns.ProblemKind{"a 1": mongopatterns.NotAdopted, "a 2": mongopatterns.NotAdopted, "b 2": mongopatterns.NotAdopted, "unset": mongopatterns.NotAdopted,
		"lost 1": mongopatterns.Malformed, "lost 2": mongopatterns.Malformed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	testkit.OK(t, second(b.rows.UpdateMany(ctx, testkit.D("contract", testkit.D("$type", "null")), testkit.D("$unset", testkit.D("contract", "")))))
	testkit.OK(t, b.d.EnsureIndexes(ctx))
}
