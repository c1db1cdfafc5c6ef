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
	if _, err := rows.InsertMany(ctx, []any{flat(1), flat(2, "Sword"), flat(3, "Sword", "Ring"), flat(0),
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
	if err != nil || result.Done != 4 || result.Skipped != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	wantErr(t, "no read", second(d.AdoptRevisions(ctx, nil, nil)), mongopatterns.ErrInvalid)
	for _, n := range []int{0, 3} { // delete the copy and the row that is not a revision
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
		if p.Kind != versioning.TimeReversed { // of the current document no time is known
			t.Errorf("%v", p)
		}
	}
	wantErr(t, "deleted", second(d.At(ctx, 2, 2)), versioning.ErrDeleted)
}

// A save while Adopt runs is not undone by it.
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
	good := []any{int32(1), int64(2), 3.0, int64(math.MaxInt64 - 1)}
	bad := []any{"4", decimal, 0, -1, 2.5, math.NaN(), math.Inf(1), int64(math.MaxInt64), bson.A{1}, bson.D{{Key: "n", Value: 1}}, true}
	var docs []any
	for i, v := range append(slices.Clone(good), bad...) {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "revision", Value: v}})
	}
	docs = append(docs, bson.D{{Key: "_id", Value: 98}, {Key: "revision", Value: nil}}, bson.D{{Key: "_id", Value: 99}})
	if _, err := db.Collection("current").InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	if result, err := d.Adopt(ctx, nil, &mongopatterns.Work{Strict: true, BatchSize: 1, Filter: bson.M{"_id": bson.M{"$lt": 99}}}); !errors.Is(err, mongopatterns.ErrMalformed) || result.Failed != 1 || result.Done != 0 {
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
}

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
	invalid := 0
	for _, p := range testkit.Collect(t, b.d.Check(ctx, nil)) {
		if p.Kind == mongopatterns.Malformed {
			invalid++
		}
	}
	if invalid != 2 {
		t.Errorf("%d rows of old code are named", invalid)
	}
	// The old code has stopped.
	adopt(2, 1)
	for _, p := range testkit.Collect(t, b.d.Check(ctx, nil)) {
		if p.Kind != versioning.NumberTaken && p.Kind != versioning.TimeReversed || p.ID.StringValue() != "b" {
			t.Errorf("%v", p) // of b old code has made a revision, and has not counted it
		}
	}
	if r, err := b.d.Repair(ctx, nil); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
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

// Adopt goes on where the history ends: the history comes first, or documents without a
// number get one that the history has, until Repair.
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
	must[mongopatterns.Result](t)(b.d.AdoptRevisions(ctx, b.read, nil))
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "a")); r.Number != 1 {
		t.Errorf("%+v", r)
	}
	if r, err := b.d.Repair(ctx, nil); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := must[versioning.Revision[bson.D]](t)(b.d.Get(ctx, "a")); r.Number != 3 {
		t.Errorf("%+v", r)
	}
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
	for id, size := range map[string]int{"large": 9 << 20, "largest": 16_760_000, "edited": 9 << 20, "deleted": 9 << 20, "twice": 9 << 20, "small": 10} {
		insert(id, size)
	}
	testkit.Insert(t, b.rows, bson.D{{Key: "_id", Value: "first"}, {Key: "policy_id", Value: "twice"}, {Key: "revision", Value: 1}, {Key: "change", Value: bson.D{{Key: "at", Value: month(1)}}},
		{Key: "document", Value: bson.D{{Key: "_id", Value: "twice"}}}})
	if r, err := b.d.AdoptRevisions(ctx, b.read, &mongopatterns.Work{DryRun: true}); err != nil || r.Done != 6 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err := b.d.AdoptRevisions(ctx, b.meanwhile(ctx), nil)
	if err != nil || r.Done != 3 || r.Remaining != 1 || r.Skipped != 1 || r.Failed != 1 || r.Failures[0].ID.StringValue() != "twice" {
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
	costs.Record(t, b.rows.Database(), 1, []string{"listCollections", "find", "find", "update", "commitTransaction"}, func() error {
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
		return p.Kind == mongopatterns.Malformed && p.ID.Type == bson.TypeString && p.ID.StringValue() == "z"
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
