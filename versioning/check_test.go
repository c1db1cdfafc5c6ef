package versioning_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Each kind of damage is found in the right place, and repaired where possible.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	set := func(e ...bson.E) bson.D { return bson.D{{Key: "$set", Value: bson.D(e)}} }
	row := func(n int) bson.D { return bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: n}} }
	one := bson.D{{Key: "_id", Value: "a"}}
	type damage func(t *testing.T, current, revisions *mongo.Collection)
	update := func(filter, update bson.D, inRevisions bool) damage {
		return func(t *testing.T, current, revisions *mongo.Collection) {
			coll := current
			if inRevisions {
				coll = revisions
			}
			if done, err := coll.UpdateOne(t.Context(), filter, update); err != nil || done.MatchedCount != 1 {
				t.Fatal(done, err)
			}
		}
	}
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 3})
	for _, id := range []string{"0", "a", "z"} { // the others stay well
		r := get(t)(d.Insert(t.Context(), counter{ID: id, Note: "some text that makes a delta smaller"}, by("", "", month(0))))
		for i := range 5 {
			r.Document.N++
			r = get(t)(d.Save(t.Context(), r, by("", "", month(i+1))))
		}
	}
	testkit.OK(t, d.Delete(t.Context(), "z", 6, nobody))
	testkit.Healthy(t, d)
	current, revisions := testkit.Stored[bson.D](t, db.Collection("current")), testkit.Stored[bson.D](t, db.Collection("revisions"))
	for name, test := range map[string]struct {
		damage    damage
		want      []string
		remaining int64
		after     int64 // number of the current document after Repair, 0: deleted
	}{
		"reset":   {update(one, set(bson.E{Key: "revision", Value: 2}), false), []string{"2: number taken", "4: broken delta", "5: broken delta"}, 2, 6},
		"removed": {func(t *testing.T, c, _ *mongo.Collection) { remove(t, c, one) }, []string{"4: broken delta", "5: broken delta", "6: no deletion"}, 2, 0},
		"inserted anew": {func(t *testing.T, c, _ *mongo.Collection) {
			remove(t, c, one)
			if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 9}}); err != nil {
				t.Fatal(err)
			}
		}, []string{"1: number taken", "4: broken delta", "5: broken delta"}, 2, 6},
		"hole":            {func(t *testing.T, _, r *mongo.Collection) { remove(t, r, row(2)) }, []string{"1: broken delta", "2: missing revision"}, 2, 6},
		"hole at the end": {func(t *testing.T, _, r *mongo.Collection) { remove(t, r, row(5)) }, []string{"4: broken delta", "5: missing revision"}, 2, 6},
		"wrong delta": {update(row(2), set(bson.E{Key: "delta", Value: bson.D{{Key: "in", Value: bson.D{{Key: "nothing", Value: bson.D{}}}}}}), true),
			[]string{"1: broken delta", "2: broken delta"}, 2, 6},
		"nothing":            {update(row(3), bson.D{{Key: "$unset", Value: bson.D{{Key: "document", Value: ""}}}}, true), []string{"1: broken delta", "2: broken delta", "3: malformed"}, 3, 6},
		"reversed":           {update(row(3), set(bson.E{Key: "change.at", Value: month(-1)}), true), []string{"3: time reversed"}, 1, 6},
		"ahead of the clock": {update(one, set(bson.E{Key: "change.at", Value: time.Now().AddDate(0, 0, 1)}), false), []string{"6: time ahead"}, 1, 6},
		"too late":           {update(row(5), set(bson.E{Key: "change.at", Value: month(99)}), true), []string{"6: time reversed"}, 1, 6},
		"no number": {update(row(3), set(bson.E{Key: "revision", Value: "x"}), true),
			[]string{"0: malformed", "1: broken delta", "2: broken delta", "3: missing revision"}, 4, 6},
		"ahead":    {update(one, set(bson.E{Key: "revision", Value: 9}), false), []string{"4: broken delta", "5: broken delta", "6: missing revision"}, 3, 9},
		"no state": {update(one, set(bson.E{Key: "revision", Value: bson.A{}}), false), []string{"0: malformed", "4: broken delta", "5: broken delta"}, 3, -1},
		"twice": {func(t *testing.T, _, r *mongo.Collection) {
			if err := r.Indexes().DropOne(t.Context(), "document_id_1_revision_1"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.InsertOne(t.Context(), append(row(4), bson.E{Key: "change", Value: bson.D{{Key: "at", Value: month(3)}}}, bson.E{Key: "deleted", Value: true})); err != nil {
				t.Fatal(err)
			}
		}, []string{"4: duplicate"}, 1, 6},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			testkit.Empty(t, db)
			testkit.InsertAll(t, db.Collection("current"), current)
			testkit.InsertAll(t, db.Collection("revisions"), revisions)
			testkit.OK(t, d.EnsureIndexes(ctx))
			test.damage(t, db.Collection("current"), db.Collection("revisions"))
			if diff := cmp.Diff(test.want, found(t, d)); diff != "" {
				t.Fatalf("check (-want +got):\n%s", diff)
			}
			if dry, err := d.Repair(ctx, &mongopatterns.Work{DryRun: true}); err != nil || dry.Done != int64(len(test.want))-test.remaining {
				t.Errorf("dry run: %+v, %v", dry, err)
			}
			result, err := d.Repair(ctx, &mongopatterns.Work{BatchSize: 2})
			if err != nil || result.Examined != 3 || result.Remaining != test.remaining || result.Done != int64(len(test.want))-test.remaining {
				t.Errorf("repair: %+v, %v", result, err)
			}
			again, err := d.Repair(ctx, nil)
			if err != nil || again.Done != 0 {
				t.Errorf("repair again: %+v, %v", again, err)
			}
			for _, line := range found(t, d) {
				if strings.HasSuffix(line, string(versioning.NumberTaken)) || strings.HasSuffix(line, string(versioning.NoDeletion)) ||
					strings.HasSuffix(line, string(versioning.TimeReversed)) && !slices.Contains(test.want, line) {
					t.Errorf("still there: %s", line)
				}
			}
			if test.after < 0 {
				return
			}
			r, err := d.Get(ctx, "a")
			if test.after == 0 {
				wantErr(t, "get", err, mongopatterns.ErrNotFound)
				_, err = d.At(ctx, "a", 6)
				wantErr(t, "at", err, versioning.ErrDeleted)
				if r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody)); r.Number != 7 {
					t.Errorf("created %+v", r)
				}
				return
			}
			if err != nil || r.Number != test.after {
				t.Errorf("current %+v, %v", r, err)
			}
			r.Document.N = 77
			get(t)(d.Save(ctx, r, nobody))
		})
	}
}

func remove(t *testing.T, coll *mongo.Collection, filter bson.D) {
	t.Helper()
	if done, err := coll.DeleteOne(t.Context(), filter); err != nil || done.DeletedCount != 1 {
		t.Fatal(done, err)
	}
}

func found(t *testing.T, d *versioning.History[string, counter]) (out []string) {
	t.Helper()
	for _, p := range testkit.Collect(t, d.Check(t.Context(), nil)) {
		number := "0"
		if m := regexp.MustCompile(`revision (\d+)`).FindStringSubmatch(p.Detail); m != nil {
			number = m[1]
		}
		if p.Pattern != "versioning" || p.ID.IsZero() || p.Collection == "current" && p.ID.StringValue() != "a" {
			t.Errorf("%v", p)
		}
		out = append(out, number+": "+string(p.Kind))
	}
	slices.Sort(out)
	return out
}

// A problem says which field is wrong, and how.
func TestProblems(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 9, RevisionField: "version"})
	r := get(t)(d.Insert(ctx, counter{ID: "a", Note: "some text that makes a delta smaller"}, by("", "", month(0))))
	for i := range 3 {
		r.Document.N++
		r = get(t)(d.Save(ctx, r, by("", "", month(i+1))))
	}
	for _, change := range []struct {
		coll           string
		filter, update bson.D
	}{
		{"current", bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "version", Value: ""}, {Key: "change", Value: ""}}}}},
		{"revisions", bson.D{{Key: "version", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "change.at", Value: month(-1)}}}}},
	} {
		if _, err := db.Collection(change.coll).UpdateOne(ctx, change.filter, change.update); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]string{} // of rows, by number
	for _, row := range all(t, db.Collection("revisions"), bson.D{}) {
		ids[fmt.Sprint(testkit.Get(row, "version"))] = testkit.Get(row, "_id").(bson.ObjectID).Hex()
	}
	var got []string
	for _, p := range testkit.Collect(t, d.Check(ctx, nil)) {
		text := p.String()
		for n, id := range ids {
			text = strings.ReplaceAll(text, fmt.Sprintf("ObjectID(%q)", id), "row "+n)
		}
		got = append(got, text)
	}
	slices.Sort(got)
	want := []string{
		`versioning: current "a": number taken: version is missing, want 4: revision 1 of "a"`,
		`versioning: revisions row 1: broken delta: delta: _id "a": revision 1: inconsistent history: the revision that its delta is made from is missing`,
		fmt.Sprintf(`versioning: revisions row 2: time reversed: change.at is {"$date":{"$numberLong":"%d"}}, want {"$date":{"$numberLong":"%d"}}: revision 2 of "a"`,
			month(-1).UnixMilli(), month(0).UnixMilli()),
		`versioning: revisions row 2: broken delta: delta: _id "a": revision 2: inconsistent history: the revision that its delta is made from is missing`,
		`versioning: revisions row 3: broken delta: delta: _id "a": revision 3: inconsistent history: the revision that its delta is made from is missing`,
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An error that ends a check is not taken for a clean history.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	d := helper[string, counter](t, mongotest.Database(t), nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var errs []error
	for p, err := range d.Check(cancelled, nil) {
		if p.Kind != "" {
			t.Errorf("%v", p)
		}
		errs = append(errs, err)
	}
	if len(errs) != 1 {
		t.Fatalf("%v", errs)
	}
	wantErr(t, "check", errs[0], context.Canceled)
}

// Reads of a damaged history are errors, not wrong answers.
func TestReadsOfDamage(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 10})
	r := get(t)(d.Insert(ctx, counter{ID: "a", Note: "some text that makes a delta smaller"}, nobody))
	for range 5 {
		r.Document.N++
		r = get(t)(d.Save(ctx, r, nobody))
	}
	remove(t, db.Collection("revisions"), bson.D{{Key: "revision", Value: 3}})
	_, err := d.At(ctx, "a", 2)
	wantErr(t, "at", err, versioning.ErrInconsistent)
	if r := get(t)(d.At(ctx, "a", 4)); r.Document.N != 3 {
		t.Errorf("%+v", r)
	}
	var lost []bool
	for _, r := range testkit.Collect(t, d.Revisions(ctx, "a")) {
		lost = append(lost, r.Lost)
	}
	if !slices.Equal(lost, []bool{false, false, false, true, true}) {
		t.Errorf("lost %v", lost)
	}
	// A save cannot overwrite a number that the history has.
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "revision", Value: 4}}}}); err != nil {
		t.Fatal(err)
	}
	_, err = d.Edit(ctx, "a", func(c *counter) error { c.N = 9; return nil }, nobody)
	wantErr(t, "update", err, versioning.ErrInconsistent)
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("%v", err)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Document.N != 5 || r.Number != 4 {
		t.Errorf("half written: %+v", r)
	}
}

// A row in the collection of revisions that is not one is reported by its own _id, stops no call,
// and is kept.
func TestForeignRows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	for _, id := range []string{"a", "b"} {
		r := get(t)(d.Insert(ctx, counter{ID: id}, nobody))
		for range 3 {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, nobody))
		}
	}
	if _, err := db.Collection("revisions").InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "text"}, {Key: "document_id", Value: "a"}, {Key: "revision", Value: "x"}},
		bson.D{{Key: "_id", Value: "fraction"}, {Key: "document_id", Value: "a"}, {Key: "revision", Value: 1.5}},
		bson.D{{Key: "_id", Value: "numbered"}, {Key: "document_id", Value: "c"}, {Key: "revision", Value: 1}},
		bson.D{{Key: "_id", Value: "numbered too"}, {Key: "document_id", Value: "c"}, {Key: "revision", Value: 2}},
		bson.D{{Key: "_id", Value: "note"}, {Key: "note", Value: "no revision at all"}},
		bson.D{{Key: "_id", Value: "lone 1"}, {Key: "revision", Value: 1}},
		bson.D{{Key: "_id", Value: "lone 2"}, {Key: "revision", Value: 2}},
	}); err != nil {
		t.Fatal(err)
	}
	foreign := []string{"fraction", "lone 1", "lone 2", "note", "numbered", "numbered too", "text"}
	list := func() (out []string) {
		for _, p := range testkit.Collect(t, d.Check(ctx, nil)) {
			if p.Kind == versioning.NoDeletion && p.ID.StringValue() == "c" {
				continue
			}
			if p.Kind != mongopatterns.NotAdopted || p.Collection != "revisions" {
				t.Errorf("%v", p)
			}
			out = append(out, p.ID.StringValue())
		}
		slices.Sort(out)
		return out
	}
	if got := list(); !slices.Equal(got, foreign) {
		t.Errorf("%q", got)
	}
	if result, err := d.Prune(ctx, versioning.Retention{Keep: 1}, nil); err != nil || result.Done != 4 {
		t.Errorf("%+v, %v", result, err)
	}
	if got := list(); !slices.Equal(got, foreign) {
		t.Errorf("%q", got)
	}
	r := get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 9; return nil }, nobody))
	if err := d.Delete(ctx, "a", r.Number, nobody); err != nil {
		t.Error(err)
	}
	if r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody)); r.Number != 7 {
		t.Errorf("%+v", r)
	}
	if got := numbers(t, d, "a"); !slices.Equal(got, []int64{3, 4, 5, 6, 7}) {
		t.Errorf("%v", got)
	}
}

// A row with an array of documents or of numbers is not a revision. Check reports it once, and no call reads it. But the
// unique index covers it, so a save that archives one of its numbers returns ErrInconsistent.
func TestRowsOfArrays(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	for _, id := range []string{"a", "b", "c"} {
		r := get(t)(d.Insert(ctx, counter{ID: id}, nobody))
		r.Document.N++
		get(t)(d.Save(ctx, r, nobody))
	}
	testkit.OK(t, d.Delete(ctx, "c", 2, nobody))
	change := bson.E{Key: "change", Value: bson.D{{Key: "at", Value: month(1)}}}
	deleted := bson.E{Key: "deleted", Value: true}
	row := func(key string, id, number any) bson.D {
		return bson.D{{Key: "_id", Value: key}, {Key: "document_id", Value: id}, {Key: "revision", Value: number}, change, deleted}
	}
	testkit.Insert(t, db.Collection("revisions"),
		row("current", bson.A{"a", "b"}, 8), row("one gone", bson.A{"a", "c"}, 9), row("gone", bson.A{"c"}, 7), row("unknown", bson.A{"x"}, 1),
		row("without number", bson.A{"a"}, "x"), row("too high", "b", int64(math.MaxInt64)), row("numbers", "a", bson.A{6}))
	want := []string{"current", "gone", "numbers", "one gone", "too high", "unknown", "without number"}
	list := func() (out []string) {
		for _, p := range testkit.Collect(t, d.Check(ctx, nil)) {
			if p.Kind != mongopatterns.Malformed || p.Collection != "revisions" {
				t.Errorf("%v", p)
			}
			out = append(out, p.ID.StringValue())
		}
		slices.Sort(out)
		return out
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if result, err := d.Repair(ctx, nil); err != nil || result.Done != 0 {
		t.Errorf("repair: %+v, %v", result, err)
	}
	for id, want := range map[string][]int64{"a": {1, 2}, "b": {1, 2}, "c": {1, 2, 3}} {
		if got := numbers(t, d, id); !slices.Equal(got, want) {
			t.Errorf("%s: %v", id, got)
		}
		if n, err := db.Collection("revisions").CountDocuments(ctx, d.RevisionsFilter(id)); err != nil || n != 1 && id != "c" || n != 3 && id == "c" {
			t.Errorf("%s: %d, %v", id, n, err)
		}
	}
	if r := get(t)(d.Insert(ctx, counter{ID: "c"}, nobody)); r.Number != 4 {
		t.Errorf("%+v", r)
	}
	edit := func() error {
		_, err := d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody)
		return err
	}
	for range 4 {
		testkit.OK(t, edit())
	}
	wantErr(t, "a number of the row", edit(), versioning.ErrInconsistent)
	if _, err := d.Prune(ctx, versioning.Retention{Keep: 1}, nil); err != nil {
		t.Error(err)
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A number typed as an array that holds the one that was read is not that number.
func TestArrayForTheNumber(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, number := range []int{1, 2} {
		for name, none := range map[string]bool{"history": false, "no history": true} {
			db := mongotest.Database(t)
			d := helper[string, counter](t, db, nil)
			if none {
				d = must[*versioning.History[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), nil, &versioning.Options{NoHistory: true}))
			}
			r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
			for int(r.Number) < number {
				r.Document.N++
				r = get(t)(d.Save(ctx, r, nobody))
			}
			testkit.OK(t, second(db.Collection("current").UpdateByID(ctx, "a", bson.M{"$set": bson.M{"revision": bson.A{number, 7}}})))
			before := testkit.Stored[bson.D](t, db.Collection("current"))
			r.Document.N++
			wantErr(t, name+": save", second(d.Save(ctx, r, nobody)), mongopatterns.ErrMalformed)
			wantErr(t, name+": delete", d.Delete(ctx, "a", int64(number), nobody), mongopatterns.ErrMalformed)
			if diff := cmp.Diff(before, testkit.Stored[bson.D](t, db.Collection("current"))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// A deletion that the server refuses is a failure of the document, with the collection of current
// documents, to which the _id belongs.
func TestRefusedDeletion(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 1; return nil }, nobody))
	remove(t, db.Collection("current"), d.Filter("a"))
	if err := mongotest.Admin(t, db).RunCommand(ctx, bson.D{{Key: "collMod", Value: "revisions"},
		{Key: "validator", Value: bson.D{{Key: "deleted", Value: nil}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	var seen mongopatterns.Result
	work := &mongopatterns.Work{Progress: func(r mongopatterns.Result) { seen = r }}
	for _, result := range []mongopatterns.Result{must[mongopatterns.Result](t)(d.Repair(ctx, work)), seen} {
		if result.Failed != 1 || result.Failures[0].Collection != "current" || result.Failures[0].ID.StringValue() != "a" {
			t.Errorf("%+v", result)
		}
	}
}
