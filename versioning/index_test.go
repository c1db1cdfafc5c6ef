package versioning_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func insert(t testing.TB, coll *mongo.Collection, docs ...any) {
	t.Helper()
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

// The indexes hold revisions alone: rows that other code keeps in the same collection, with
// fields of the same names or without, neither keep them from being made nor are refused
// later.
func TestIndexesBesideAHandMadeHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := must[*versioning.Documents[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), nil))
	rows := db.Collection("revisions")
	foreign := func(from int) []any {
		var out []any
		for i, pair := range []bson.D{{}, {{Key: "document_id", Value: "a"}},
			{{Key: "document_id", Value: "a"}, {Key: "revision", Value: nil}},
			{{Key: "document_id", Value: "a"}, {Key: "revision", Value: "first"}},
			{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 0}},
			{{Key: "revision", Value: 1}},
		} {
			for j := range 2 {
				out = append(out, append(bson.D{{Key: "_id", Value: from + 2*i + j}}, pair...))
			}
		}
		return out
	}
	insert(t, rows, foreign(0)...)
	if err := d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	insert(t, rows, foreign(100)...)
	r := get(t)(d.Create(ctx, counter{ID: "a"}, nobody))
	for range 2 {
		r.Document.N++
		r = get(t)(d.Save(ctx, r, nobody))
	}
	if _, err := rows.InsertOne(ctx, bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 2}}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a number twice: %v", err)
	}
	if got := numbers(t, d, "a"); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	// HistoryFilter finds the revisions, and Check names the others, each once.
	if n, err := rows.CountDocuments(ctx, d.HistoryFilter("a")); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	named := map[string]int{}
	for _, p := range collect(t, d.Check(ctx, nil)) {
		if p.Kind != versioning.InvalidRevision || p.Collection != "revisions" {
			t.Errorf("%v", p)
		}
		named[p.ID.String()]++
	}
	if len(named) != 24 || slices.ContainsFunc(slices.Collect(maps.Values(named)), func(n int) bool { return n != 1 }) {
		t.Errorf("%d rows are named: %v", len(named), named)
	}
}

// A row of other code with a revision's number twice is named by EnsureIndexes; nothing is
// created.
func TestIndexesOverANumberTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := must[*versioning.Documents[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), nil))
	twice := bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 7}}
	insert(t, db.Collection("revisions"), twice, twice)
	err := d.EnsureIndexes(ctx)
	wantErr(t, "a number twice", err, versioning.ErrInconsistent)
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("%v", err)
	}
}

// An index of the same keys over all rows refuses what other code may store: it is a
// conflict, by whatever name, and stays.
func TestFormerIndex(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "by_number"} {
		db := mongotest.Database(t)
		d := must[*versioning.Documents[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), nil))
		opts := options.Index().SetUnique(true)
		if name != "" {
			opts.SetName(name)
		}
		former := mongo.IndexModel{Keys: bson.D{{Key: "document_id", Value: 1}, {Key: "revision", Value: 1}}, Options: opts}
		if _, err := db.Collection("revisions").Indexes().CreateOne(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		wantErr(t, name, d.EnsureIndexes(t.Context()), mongopatterns.ErrIndexConflict)
		if specs, err := db.Collection("revisions").Indexes().ListSpecifications(t.Context()); err != nil || len(specs) != 2 {
			t.Errorf("%d indexes, %v", len(specs), err)
		}
	}
}

// plans fails the test where a command reads the history without an index, or sorts.
func plans(t *testing.T, db *mongo.Database, what string, cmds mongotest.Commands) (read int) {
	t.Helper()
	explain := func(body any) {
		t.Helper()
		read++
		plan := mongotest.Explain(t, db, body)
		if plan.Has("COLLSCAN") || plan.Has("SORT") || plan.Has("$sort") || len(plan.Indexes) == 0 {
			t.Errorf("%s: %s\n%v", what, plan, body)
		}
	}
	for _, c := range cmds {
		coll, ok := c.Body.Lookup(c.Name).StringValueOK()
		if !ok || coll != "revisions" || c.Name == "insert" || c.Name == "update" {
			continue
		}
		explain(c.Body)
		stages, _ := c.Body.Lookup("pipeline").ArrayOK()
		values, _ := stages.Values()
		for _, stage := range values {
			if inner := stage.Document().Lookup("$unionWith", "pipeline"); !inner.IsZero() {
				explain(bson.D{{Key: "aggregate", Value: "revisions"}, {Key: "pipeline", Value: inner}, {Key: "cursor", Value: bson.D{}}})
			}
		}
	}
	return read
}

// Every read of the history goes by one of its indexes, which the planner may use only
// for filters that select nothing beside the partial one's rows.
func TestPlansOfTheHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 4})
	for i := range 30 {
		r := get(t)(d.Create(ctx, counter{ID: fmt.Sprint(i), Note: "some text that makes a delta smaller"}, by("", "", month(0))))
		for n := range 9 {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, by("", "", month(n+1))))
		}
	}
	insert(t, db.Collection("revisions"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "document_id", Value: "3"}})
	insert(t, db.Collection("current"), bson.D{{Key: "_id", Value: "bare"}}, bson.D{{Key: "_id", Value: "bare too"}}, bson.D{{Key: "_id", Value: "bare at last"}})
	remove(t, db.Collection("current"), d.Filter("5"))
	remove(t, db.Collection("current"), d.Filter("6"))
	one := func(_ any, err error) error { return err }
	for _, c := range []struct {
		what string
		read int // commands that read the history
		fn   func() error
	}{
		{"At", 1, func() error { return one(d.At(ctx, "1", 8)) }},
		{"At by deltas", 1, func() error { return one(d.At(ctx, "1", 5)) }},
		{"At by the current one", 1, func() error { return one(d.At(ctx, "1", 9)) }},
		{"AsOf", 2, func() error { return one(d.AsOf(ctx, "1", month(4))) }},
		{"before the first", 2, func() error {
			if _, err := d.AsOf(ctx, "1", month(-1)); !errors.Is(err, mongopatterns.ErrNotFound) {
				return err
			}
			return nil
		}},
		{"History", 1, func() error { collect(t, d.History(ctx, "1")); return nil }},
		{"HistoryFrom", 1, func() error { collect(t, d.HistoryFrom(ctx, "1", 1)); return nil }},
		{"HistoryFrom a number", 1, func() error { collect(t, d.HistoryFrom(ctx, "1", 4)); return nil }},
		{"Diff", 2, func() error { return one(d.Diff(ctx, "1", 2, 7)) }},
		{"Undo", 2, func() error { return one(d.Undo(ctx, "1", 10, nobody)) }},
		{"Restore", 1, func() error { return one(d.Restore(ctx, "1", 3, nobody)) }},
		{"Create", 1, func() error { return one(d.Create(ctx, counter{ID: "new"}, nobody)) }},
		{"Create over a removed one", 1, func() error { return one(d.Create(ctx, counter{ID: "6"}, nobody)) }},
		{"first Save", 1, func() error {
			return one(d.Update(ctx, "bare", func(c *counter) error { c.N = 1; return nil }, nobody))
		}},
		{"first Delete", 1, func() error { return d.Delete(ctx, "bare too", 1, nobody) }},
		{"Adopt", 1, func() error { return one(d.Adopt(ctx, nil, nil)) }},
		// Two batches of two reads, a document with a problem in each, the list.
		{"Check", 7, func() error { collect(t, d.Check(ctx, nil)); return nil }},
		{"Repair", 8, func() error { return one(d.Repair(ctx, nil)) }},
		{"AdoptHistory", 1, func() error {
			return one(d.AdoptHistory(ctx, func(bson.Raw) (*versioning.Revision[bson.Raw], error) { return nil, nil }, nil))
		}},
		{"Prune", 5, func() error { return one(d.Prune(ctx, versioning.Retention{Keep: 3}, nil)) }},
		{"dry Prune", 3, func() error {
			w := of("2")
			w.DryRun = true
			return one(d.Prune(ctx, versioning.Retention{Keep: 1}, w))
		}},
		{"HistoryFilter", 1, func() error {
			return one(db.Collection("revisions").Find(ctx, d.HistoryFilter("1"), options.Find().SetSort(bson.D{{Key: "revision", Value: -1}})))
		}},
		{"HistoryFilter by time", 1, func() error {
			return one(db.Collection("revisions").Find(ctx, d.HistoryFilter("1"), options.Find().SetSort(bson.D{{Key: "change.at", Value: -1}})))
		}},
	} {
		var err error
		cmds := mongotest.Record(t, db, func() { err = c.fn() })
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if read := plans(t, db, c.what, cmds); read != c.read {
			t.Errorf("%s: %d reads of the history: %v", c.what, read, cmds.Names())
		}
	}
}

// policies of old code, which keeps its history by hand: the collections, the package on
// them, what old code does, and how its rows are read.
type byHand struct {
	current, rows *mongo.Collection
	d             *versioning.Documents[string, bson.D]
}

func newByHand(t *testing.T) byHand {
	t.Helper()
	db := mongotest.Database(t)
	b := byHand{current: db.Collection("policies"), rows: db.Collection("policy_history")}
	b.d = must[*versioning.Documents[string, bson.D]](t)(versioning.New[string, bson.D](b.current, b.rows, &versioning.Options{DocumentIDField: "policy_id"}))
	return b
}

// save is what old code does: the state goes into the history as it is, and another
// takes its place.
func (b byHand) save(t *testing.T, id string, version, n int) {
	t.Helper()
	row := bson.D{{Key: "_id", Value: fmt.Sprint(id, " ", version)}, {Key: "of", Value: id}, {Key: "version", Value: version}, {Key: "n", Value: n - 1}, {Key: "saved", Value: month(version)}}
	insert(t, b.rows, row)
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
	return marshal(t, r.Document).Lookup("n").AsInt64()
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
		must[versioning.Revision[bson.D]](t)(b.d.Update(ctx, id, func(doc *bson.D) error {
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
		if r, err := b.d.AdoptHistory(ctx, b.read, nil); err != nil || r.Done != done || r.Failed+r.Remaining+r.Skipped != 0 {
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
	for _, p := range collect(t, b.d.Check(ctx, nil)) {
		if p.Kind == versioning.InvalidRevision {
			invalid++
		}
	}
	if invalid != 2 {
		t.Errorf("%d rows of old code are named", invalid)
	}
	// The old code has stopped.
	adopt(2, 1)
	for _, p := range collect(t, b.d.Check(ctx, nil)) {
		if p.Kind != versioning.NumberTaken && p.Kind != versioning.TimeReversed || p.ID.StringValue() != "b" {
			t.Errorf("%v", p) // of b old code has made a revision, and has not counted it
		}
	}
	if r, err := b.d.Repair(ctx, nil); err != nil || r.Done != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if found := collect(t, b.d.Check(ctx, nil)); len(found) != 0 {
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
	must[mongopatterns.Result](t)(b.d.AdoptHistory(ctx, b.read, nil))
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

// A row that changes between its read and its write keeps the change and is Remaining; the
// next run adopts it.
func TestAdoptHistoryBesideAnEdit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newByHand(t)
	for _, id := range []string{"edited", "deleted", "left"} {
		b.save(t, id, 1, 1)
	}
	meanwhile := func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
		var err error
		switch one := (bson.D{{Key: "_id", Value: row.Lookup("_id")}}); row.Lookup("of").StringValue() {
		case "edited":
			_, err = b.rows.UpdateOne(ctx, one, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 77}}}})
		case "deleted":
			_, err = b.rows.DeleteOne(ctx, one)
		}
		return second2(b.read(row))(err)
	}
	if r, err := b.d.AdoptHistory(ctx, meanwhile, nil); err != nil || r.Done != 1 || r.Remaining != 1 || r.Skipped != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.d.AdoptHistory(ctx, b.read, nil); err != nil || r.Done != 1 || r.Remaining != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := b.n(t, "edited", 1); got != 77 {
		t.Errorf("%d", got)
	}
}

func second2(r *versioning.Revision[bson.Raw], err error) func(error) (*versioning.Revision[bson.Raw], error) {
	return func(other error) (*versioning.Revision[bson.Raw], error) { return r, errors.Join(err, other) }
}

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
	insert(t, b.rows, bson.D{{Key: "_id", Value: "z"}, {Key: "of", Value: "a"}, {Key: "version", Value: 2}, {Key: "n", Value: 5}, {Key: "saved", Value: month(2)}})
	for _, want := range []int64{5, 0} {
		r, err := b.d.AdoptHistory(ctx, b.read, nil)
		if err != nil || r.Done != want || r.Failed != 1 || r.Skipped+r.Remaining != 0 || r.Failures[0].ID.StringValue() != "z" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	named := collect(t, b.d.Check(ctx, nil))
	if !slices.ContainsFunc(named, func(p mongopatterns.Problem) bool {
		return p.Kind == versioning.InvalidRevision && p.ID.Type == bson.TypeString && p.ID.StringValue() == "z"
	}) {
		t.Errorf("%v", named)
	}
}
