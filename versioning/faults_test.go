package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

const long = "some text that makes a delta smaller than the whole document"

// With deltas, code that changes or removes the current document without this package
// makes revisions unreadable, down to the last whole one: never silently others. All
// else stays, and the document goes on.
func TestDeltasBesidePlainWrites(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]int64{"change": {5, 6}, "ignored": nil, "ignored names change": nil, "deletion": {5, 6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := mongotest.Database(t)
			opts := &versioning.Options{SnapshotEvery: 4, Ignored: []string{"last_seen"}}
			d := helper[string, counter](t, db, opts)
			r := get(t)(d.Create(ctx, counter{ID: "a", Note: long}, nobody))
			for range 6 {
				r.Document.N++
				r = get(t)(d.Save(ctx, r, nobody))
			}
			coll := db.Collection("current")
			update := func(field string, v any) {
				t.Helper()
				if _, err := coll.UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: v}}}}); err != nil {
					t.Fatal(err)
				}
			}
			last := int64(7)
			switch name {
			case "change":
				update("note", "plain")
			case "ignored":
				update("last_seen", month(1))
			case "ignored names change": // deltas made before cannot be told any more, and pass
				d = helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 4, Ignored: []string{"last_seen", "seen"}})
				update("seen", 5)
			case "deletion":
				remove(t, coll, d.Filter("a"))
				last = 6
			}
			for n := int64(1); n <= last; n++ {
				r, err := d.At(ctx, "a", n)
				if slices.Contains(lost, n) {
					wantErr(t, fmt.Sprint("at ", n), err, versioning.ErrInconsistent)
				} else if err != nil || r.Document.N != int(n)-1 {
					t.Errorf("at %d: %+v, %v", n, r, err)
				}
			}
			for _, r := range collect(t, d.History(ctx, "a")) {
				if r.Lost != slices.Contains(lost, r.Number) || r.Lost && r.Document.ID != "" {
					t.Errorf("history: %+v", r)
				}
			}
			var broken int
			for _, p := range collect(t, d.Check(ctx, of("a"))) {
				if p.Kind == versioning.BrokenDelta {
					broken++
				} else if name != "deletion" || p.Kind != versioning.NoDeletion {
					t.Errorf("%v", p)
				}
			}
			if broken != len(lost) {
				t.Errorf("%d broken deltas", broken)
			}
			if name == "deletion" {
				if r := get(t)(d.Restore(ctx, "a", 4, nobody)); r.Number != 8 || r.Document.N != 3 {
					t.Errorf("%+v", r)
				}
			} else if r := get(t)(d.Update(ctx, "a", func(c *counter) error { c.N = 70; return nil }, nobody)); r.Number != 8 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// An element that was edited beside one that was inserted, removed or moved keeps the
// fields that T lacks.
func TestEditedElementsKeepTheirFields(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type item struct {
		Name  string `bson:"name"`
		Count int    `bson:"count"`
	}
	type bag struct {
		ID    string `bson:"_id"`
		Items []item `bson:"items"`
	}
	for name, test := range map[string]struct {
		change func(items []item) []item
		want   string
	}{
		"beside an insertion": {func(v []item) []item { v[1].Count = 5; return slices.Insert(v, 1, item{"bow", 1}) }, "sword/1/10 bow/1 ring/5/20 mail/1/30"},
		"behind an insertion": {func(v []item) []item { v[1].Count = 5; return slices.Insert(v, 2, item{"bow", 1}) }, "sword/1/10 ring/5/20 bow/1 mail/1/30"},
		"beside a removal":    {func(v []item) []item { v[1].Count = 5; return v[1:] }, "ring/5/20 mail/1/30"},
		"alone":               {func(v []item) []item { v[1].Count = 5; return []item{{"bow", 1}, v[1]} }, "bow/1/10 ring/5/20"},
		"moved":               {func(v []item) []item { v[0].Count = 5; return []item{v[1], v[2], v[0], {"bow", 1}} }, "ring/1/20 mail/1/30 sword/5/10 bow/1"},
		"several": {func(v []item) []item {
			v[0].Count, v[2].Count = 5, 6
			return slices.Insert(v, 1, item{"bow", 1}, item{"axe", 1})
		}, "sword/5/10 bow/1 axe/1 ring/1/20 mail/6/30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			d := helper[string, bag](t, db, nil)
			var items bson.A
			for i, name := range []string{"sword", "ring", "mail"} {
				items = append(items, bson.D{{Key: "name", Value: name}, {Key: "count", Value: 1}, {Key: "price", Value: 10 * (i + 1)}})
			}
			if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "items", Value: items}}); err != nil {
				t.Fatal(err)
			}
			must[versioning.Revision[bag]](t)(d.Update(ctx, "a", func(b *bag) error { b.Items = test.change(b.Items); return nil }, nobody))
			var got []string
			for _, e := range lookupD(all(t, db.Collection("current"), bson.D{})[0], "items").(bson.A) {
				var words []string
				for _, f := range e.(bson.D) {
					words = append(words, fmt.Sprint(f.Value))
				}
				got = append(got, strings.Join(words, "/"))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Differences inside arrays: an insertion is one, wherever it is.
func TestArrayDifferences(t *testing.T) {
	t.Parallel()
	list := func(v ...any) bson.Raw { return marshal(t, bson.D{{Key: "l", Value: append(bson.A{}, v...)}}) }
	one := func(n, v int) bson.D { return bson.D{{Key: "n", Value: n}, {Key: "v", Value: v}} }
	for name, test := range map[string]struct {
		a, b bson.Raw
		want string
	}{
		"insertion":          {list("a", "b", "c"), list("x", "a", "b", "c"), "l.0+"},
		"inside":             {list("a", "b", "c"), list("a", "b", "x", "c"), "l.2+"},
		"removal":            {list("a", "b", "c"), list("a", "c"), "l.1-"},
		"change":             {list("a", "b", "c"), list("a", "x", "c"), "l.1"},
		"both":               {list("a", "b", "c", "d"), list("x", "a", "b", "d"), "l.0+ l.2-"},
		"edit and insertion": {list(one(1, 1), one(2, 2), one(3, 3)), list(one(1, 1), one(9, 9), one(2, 5), one(3, 3)), "l.1+ l.2.v"},
		"move":               {list("a", "b", "c"), list("c", "a", "b"), "l.0+ l.2-"},
		"nested":             {list(bson.A{1, 2}, "x"), list(bson.A{1, 3, 2}, "x"), "l.0.1+"},
		"all":                {list(), list("a"), "l.0+"},
	} {
		var got []string
		for _, d := range versioning.Differences(test.a, test.b) {
			switch {
			case d.Old.Type == 0:
				d.Path += "+"
			case d.New.Type == 0:
				d.Path += "-"
			}
			got = append(got, d.Path)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// One revision is undone under later ones, which stay; if they have changed the same,
// it is a conflict that says where.
func TestUndo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, every := range []int{1, 5} {
		db := mongotest.Database(t)
		d := helper[string, Policy](t, db, &versioning.Options{SnapshotEvery: every})
		undo := must[versioning.Revision[Policy]](t)
		r := undo(d.Create(ctx, Policy{ID: "bilbo", Name: "Bilbo", Policy: long, Items: []string{"Mail"}}, nobody))
		for _, change := range []func(p *Policy){
			func(p *Policy) { p.Items = append(p.Items, "Elven Sword"); p.Name = "Bilbo Baggins" },               // 2
			func(p *Policy) { p.Items = slices.Insert(p.Items, 0, "One Ring") },                                  // 3
			func(p *Policy) { p.Policy += "." },                                                                  // 4
			func(p *Policy) { p.Items = slices.DeleteFunc(p.Items, func(s string) bool { return s == "Mail" }) }, // 5
		} {
			change(&r.Document)
			r = undo(d.Save(ctx, r, nobody))
		}
		r = undo(d.Undo(ctx, "bilbo", 2, by("lobelia", "not his", time.Time{})))
		if r.Number != 6 || r.Document.Name != "Bilbo" || !slices.Equal(r.Document.Items, []string{"One Ring"}) || r.Document.Policy != long+"." || r.Change.Author != "lobelia" {
			t.Errorf("%+v", r)
		}
		if r = undo(d.Undo(ctx, "bilbo", 5, nobody)); r.Number != 7 || !slices.Equal(r.Document.Items, []string{"One Ring", "Mail"}) {
			t.Errorf("%+v", r)
		}
		r.Document.Policy = "Shire premium"
		r = undo(d.Save(ctx, r, nobody))
		_, err := d.Undo(ctx, "bilbo", 4, nobody)
		wantErr(t, "changed since", err, mongopatterns.ErrConflict)
		var conflict *versioning.ConflictError
		if errors.As(err, &conflict) || err == nil || !strings.Contains(err.Error(), "changed policy too") {
			t.Errorf("%v", err)
		}
		if now := undo(d.Get(ctx, "bilbo")); now.Number != 8 {
			t.Errorf("%+v", now)
		}
		clean(t, d)
	}
}

// Without a history saves are optimistic, need no transaction, and undo nothing that
// others write beside them.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	opts := &versioning.Options{NoHistory: true}
	if _, err := versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), opts); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("%v", err)
	}
	d := must[*versioning.Documents[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), nil, opts))
	record(t, db, 0, nil, func() error { return nil })
	if err := d.EnsureIndexes(ctx); err != nil || len(d.Indexes()) != 0 || len(d.ShardKey()) != 1 {
		t.Error(err)
	}
	var r revision
	set := func(fn func() (revision, error)) func() error {
		return func() (err error) { r, err = fn(); return err }
	}
	record(t, db, 1, []string{"insert"}, set(func() (revision, error) { return d.Create(ctx, counter{ID: "a"}, nobody) }))
	stale := r
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$inc", Value: bson.D{{Key: "hits", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	r.Document.N, r.Document.Note = 1, "x"
	record(t, db, 1, []string{"findAndModify"}, set(func() (revision, error) { return d.Save(ctx, r, by("me", "", month(0))) }))
	record(t, db, 1, []string{"find", "findAndModify"}, set(func() (revision, error) {
		return d.Update(ctx, "a", func(c *counter) error { c.N++; return nil }, by("me", "", month(1)))
	}))
	stale.Document.N = 9
	_, err := d.Save(ctx, stale, nobody)
	wantConflict(t, "stale", err, 1, 3)
	wantConflict(t, "in bulk", saveOne(ctx, d, stale), 1, 3)
	r.Document.N = 3
	if err := saveOne(ctx, d, r); err != nil {
		t.Error(err)
	}
	doc := all(t, db.Collection("current"), bson.D{})[0]
	if lookupD(doc, "hits") != int32(1) || lookupD(doc, "n") != int32(3) || lookupD(doc, "note") != "x" || lookupD(doc, "revision") != int64(4) {
		t.Errorf("%v", doc)
	}
	for what, err := range map[string]error{
		"at":      second(d.At(ctx, "a", 2)),
		"as of":   second(d.AsOf(ctx, "a", month(0))),
		"restore": second(d.Restore(ctx, "a", 2, nobody)),
	} {
		wantErr(t, what, err, versioning.ErrPruned)
	}
	if got := numbers(t, d, "a"); !slices.Equal(got, []int64{4}) || get(t)(d.At(ctx, "a", 4)).Document.N != 3 {
		t.Errorf("%v", got)
	}
	clean(t, d)
	if result, err := d.Prune(ctx, versioning.Retention{Keep: 1}, nil); err != nil || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	record(t, db, 1, []string{"findAndModify"}, func() error { return d.Delete(ctx, "a", 4, nobody) })
	wantErr(t, "deleted", d.Delete(ctx, "a", 4, nobody), mongopatterns.ErrNotFound)
	if names := must[[]string](t)(db.ListCollectionNames(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$ne", Value: "current"}}}})); len(names) != 0 {
		t.Errorf("%v", names)
	}
}

func second(_ any, err error) error { return err }

// Fields of the user's own in a change are stored beside the others, and come back.
func TestOwnFieldsInAChange(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	change := by("frodo", "", month(0))
	change.Fields = bson.D{{Key: "ticket", Value: int64(4711)}, {Key: "from", Value: bson.D{{Key: "ip", Value: "10.0.0.1"}}}}
	r := get(t)(d.Create(ctx, counter{ID: "a"}, change))
	r.Document.N = 1
	saved := get(t)(d.Save(ctx, r, nobody))
	for what, got := range map[string]versioning.Change{"create": r.Change, "at": get(t)(d.At(ctx, "a", 1)).Change} {
		if diff := cmp.Diff(change, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if n := must[int64](t)(db.Collection("revisions").CountDocuments(ctx, bson.D{{Key: "change.ticket", Value: 4711}})); n != 1 || saved.Change.Fields != nil {
		t.Errorf("%d, %+v", n, saved)
	}
	for _, e := range []bson.E{{Key: "at", Value: 1}, {Key: "a.b", Value: 1}, {Key: "$x", Value: 1}, {Key: "", Value: 1}, {Key: "x", Value: make(chan int)}} {
		wantErr(t, e.Key, second(d.Save(ctx, saved, versioning.Change{Fields: bson.D{e}})), mongopatterns.ErrInvalid)
	}
	wantErr(t, "twice", second(d.Save(ctx, saved, versioning.Change{Fields: bson.D{{Key: "x", Value: 1}, {Key: "x", Value: 2}}})), mongopatterns.ErrInvalid)
}

// A history that was kept by hand is adopted where it stands.
func TestAdoptHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	current, rows := db.Collection("current_policies"), db.Collection("policy_revisions")
	d := must[*versioning.Documents[int, bson.D]](t)(versioning.New[int, bson.D](current, rows, &versioning.Options{DocumentIDField: "policy_id"}))
	if _, err := current.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{"Sword", "Ring"}}, {Key: "revision", Value: 3}}); err != nil {
		t.Fatal(err)
	}
	// Flat rows, of which one is a copy of the current document; one as ours, without a time.
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
				doc = marshal(t, bson.D{{Key: "_id", Value: row.Lookup("policy_id")}})
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
			Change: versioning.Change{At: row.Lookup("set").Time()}, Document: marshal(t, doc)}, err
	}
	if dry, err := d.AdoptHistory(ctx, read, &mongopatterns.Work{DryRun: true}); err != nil || dry.Done != 4 {
		t.Errorf("%+v, %v", dry, err)
	}
	result, err := d.AdoptHistory(ctx, read, nil)
	if err != nil || result.Done != 4 || result.Skipped != 1 || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) {
		t.Errorf("%+v, %v", result, err)
	}
	wantErr(t, "no read", second(d.AdoptHistory(ctx, nil, nil)), mongopatterns.ErrInvalid)
	for _, n := range []int{0, 3} { // the copy and the row that is none go
		remove(t, rows, bson.D{{Key: "policy_id", Value: 1}, {Key: "revision", Value: n}})
	}
	if err := d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	must[versioning.Revision[bson.D]](t)(d.Update(ctx, 1, func(doc *bson.D) error { (*doc)[1].Value = bson.A{}; return nil }, by("", "", month(9))))
	then := must[versioning.Revision[bson.D]](t)(d.AsOf(ctx, 1, month(2)))
	if want := (bson.D{{Key: "_id", Value: int32(1)}, {Key: "items", Value: bson.A{"Sword"}}}); cmp.Diff(want, then.Document[:2]) != "" || then.Number != 2 {
		t.Errorf("%+v", then)
	}
	for _, p := range collect(t, d.Check(ctx, nil)) {
		if p.Kind != versioning.TimeReversed { // of the current document no time is known
			t.Errorf("%v", p)
		}
	}
	wantErr(t, "deleted", second(d.At(ctx, 2, 2)), versioning.ErrDeleted)
}

// The options of the client's are given once more, and honoured.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type doc struct {
		Key  string   `json:"_id"`
		Tags []string `json:"labels"`
	}
	db := mongotest.Database(t)
	d := helper[string, doc](t, db, &versioning.Options{BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}})
	must[versioning.Revision[doc]](t)(d.Create(ctx, doc{Key: "a"}, nobody))
	r := must[versioning.Revision[doc]](t)(d.Update(ctx, "a", func(v *doc) error { v.Tags = append(v.Tags, "x"); return nil }, nobody))
	first := must[bson.Raw](t)(db.Collection("revisions").FindOne(ctx, bson.D{}).Raw())
	if tags, ok := first.Lookup("document", "labels").ArrayOK(); !ok || len(tags) != 5 || r.Number != 2 || r.Document.Key != "a" {
		t.Errorf("%v, %+v", first, r)
	}
}

// A deadline that ends the attempts of Update is a deadline, and no conflict.
func TestDeadlineIsNoConflict(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "abortTransaction" { // after the conflict, before the next attempt
			cancel()
		}
	}}))
	d := helper[string, counter](t, db, nil)
	get(t)(d.Create(t.Context(), counter{ID: "a"}, nobody))
	_, err := d.Update(ctx, "a", func(c *counter) error {
		get(t)(d.Update(t.Context(), "a", func(c *counter) error { c.Note += "x"; return nil }, nobody))
		c.N++
		return nil
	}, nobody)
	var conflict *versioning.ConflictError
	if !errors.Is(err, context.Canceled) || errors.Is(err, mongopatterns.ErrConflict) || errors.As(err, &conflict) {
		t.Errorf("%v", err)
	}
	for _, pair := range [][2]error{{versioning.ErrPruned, mongopatterns.ErrNotFound}, {versioning.ErrDeleted, mongopatterns.ErrNotFound}, {&versioning.ConflictError{}, mongopatterns.ErrConflict}} {
		if !errors.Is(pair[0], pair[1]) || errors.Is(pair[1], pair[0]) {
			t.Errorf("%v and %v", pair[0], pair[1])
		}
	}
	if errors.Is(versioning.ErrPruned, versioning.ErrDeleted) || errors.Is(versioning.ErrExists, mongopatterns.ErrConflict) {
		t.Error("two sentinels match")
	}
}
