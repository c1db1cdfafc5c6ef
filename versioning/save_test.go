package versioning_test

import (
	"context"
	"encoding/json"
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

// counter is the document of most tests.
type counter struct {
	ID       string    `bson:"_id"`
	N        int       `bson:"n"`
	Note     string    `bson:"note,omitempty"`
	LastSeen time.Time `bson:"last_seen,omitempty"`
	Revision int64     `bson:"revision,omitempty"`
}

type revision = versioning.Revision[counter]

func get(t testing.TB) func(revision, error) revision { return must[revision](t) }

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || err != nil && !strings.HasPrefix(err.Error(), "versioning: ") {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func wantConflict(t testing.TB, what string, err error, read, current int64) {
	t.Helper()
	var conflict *versioning.ConflictError
	if !errors.As(err, &conflict) || conflict.Read != read || conflict.Current != current || conflict.ID.StringValue() != "a" {
		t.Errorf("%s: error %v, want conflict of %d with %d", what, err, read, current)
	}
}

func TestSaveConflicts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	first := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	if first.Number != 1 || first.Document.Revision != 1 || first.Change.At.IsZero() {
		t.Errorf("created %+v", first)
	}
	mine, theirs := first, first
	mine.Document.N, theirs.Document.N = 1, 2
	second := get(t)(d.Save(ctx, mine, nobody))
	if second.Number != 2 || second.Document.N != 1 || second.Document.Revision != 2 {
		t.Errorf("saved %+v", second)
	}
	before := all(t, db.Collection("current"), bson.D{})
	_, err := d.Save(ctx, theirs, nobody)
	wantConflict(t, "stale", err, 1, 2)
	_, err = d.Save(ctx, revision{Number: 1, Document: counter{ID: "a", N: 5}}, nobody)
	wantConflict(t, "stale, by hand", err, 1, 2)
	_, err = d.Save(ctx, revision{Number: 7, Document: counter{ID: "a", N: 5}}, nobody)
	wantConflict(t, "from the future", err, 7, 2)
	_, err = d.Save(ctx, first, nobody)
	wantConflict(t, "stale and unchanged", err, 1, 2)
	wantConflict(t, "delete", d.Delete(ctx, "a", 1, nobody), 1, 2)
	if _, err := d.Insert(ctx, counter{ID: "a"}, nobody); !errors.Is(err, mongopatterns.ErrExists) || !mongo.IsDuplicateKeyError(err) {
		t.Errorf("create: %v", err)
	}
	if diff := cmp.Diff(before, all(t, db.Collection("current"), bson.D{})); diff != "" || testkit.Count(t, db.Collection("revisions"), bson.D{}) != 1 {
		t.Errorf("something was written: %s", diff)
	}
	// By hand of the right number.
	third := get(t)(d.Save(ctx, revision{Number: 2, Document: counter{ID: "a", N: 5}}, nobody))
	if third.Number != 3 || third.Document.N != 5 {
		t.Errorf("saved by hand: %+v", third)
	}
	// The result of Save can be saved again.
	third.Document.N++
	if fourth := get(t)(d.Save(ctx, third, nobody)); fourth.Number != 4 || fourth.Document.N != 6 {
		t.Errorf("saved again: %+v", fourth)
	}
	_, err = d.Get(ctx, "b")
	wantErr(t, "get", err, mongopatterns.ErrNotFound)
	wantErr(t, "get", err, mongo.ErrNoDocuments)
	_, err = d.Save(ctx, revision{Number: 1, Document: counter{ID: "b"}}, nobody)
	wantErr(t, "save", err, mongopatterns.ErrNotFound)
	_, err = d.Edit(ctx, "b", func(*counter) error { return nil }, nobody)
	wantErr(t, "update", err, mongopatterns.ErrNotFound)
	wantErr(t, "delete", d.Delete(ctx, "b", 1, nobody), mongopatterns.ErrNotFound)
	testkit.Healthy(t, d)
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, bson.D](t, db, nil)
	r := must[versioning.Revision[bson.D]](t)(d.Insert(ctx, bson.D{{Key: "_id", Value: "a"}}, nobody))
	other := r
	other.Document = bson.D{{Key: "_id", Value: "b"}}
	_, err := d.Save(ctx, other, nobody)
	wantErr(t, "another _id", err, mongopatterns.ErrInvalid)
	_, err = d.Save(ctx, versioning.Revision[bson.D]{Number: 1, Document: bson.D{{Key: "x", Value: 1}}}, nobody)
	wantErr(t, "the document has no _id", err, mongopatterns.ErrInvalid)
	_, err = d.Save(ctx, versioning.Revision[bson.D]{Document: bson.D{{Key: "_id", Value: "a"}}}, nobody)
	wantErr(t, "no number", err, mongopatterns.ErrInvalid)
	wantErr(t, "delete without number", d.Delete(ctx, "a", 0, nobody), mongopatterns.ErrInvalid)
	other.Document = bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: 1}, {Key: "x", Value: 2}}
	_, err = d.Save(ctx, other, nobody)
	wantErr(t, "field twice", err, mongopatterns.ErrInvalid)
	other.Document = bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: make(chan int)}}
	_, err = d.Save(ctx, other, nobody)
	wantErr(t, "a channel", err, mongopatterns.ErrInvalid)
	other.Document = bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: strings.Repeat("x", 16<<20-10<<10)}}
	_, err = d.Save(ctx, other, nobody)
	wantErr(t, "too large", err, mongopatterns.ErrInvalid)
	_, err = d.Insert(ctx, bson.D{{Key: "_id", Value: "b"}, {Key: "x", Value: strings.Repeat("x", 16<<20-10<<10)}}, nobody)
	wantErr(t, "create too large", err, mongopatterns.ErrInvalid)
	// One that fits can be stored as a revision.
	large := bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: strings.Repeat("x", 16<<20-17<<10)}}
	other.Document = large
	r = must[versioning.Revision[bson.D]](t)(d.Save(ctx, other, nobody))
	r.Document = bson.D{{Key: "_id", Value: "a"}}
	r = must[versioning.Revision[bson.D]](t)(d.Save(ctx, r, nobody))
	if r.Number != 3 || testkit.Count(t, db.Collection("revisions"), bson.D{}) != 2 {
		t.Errorf("%+v", r.Number)
	}
	// An error of fn is the caller's.
	boom := errors.New("boom")
	_, err = d.Edit(ctx, "a", func(*bson.D) error { return boom }, nobody)
	wantErr(t, "update", err, boom)

	for what, doc := range map[string]bson.D{
		"change in use": {{Key: "_id", Value: "x1"}, {Key: "change", Value: 5}},
		"a string":      {{Key: "_id", Value: "x2"}, {Key: "revision", Value: "2"}},
		"a fraction":    {{Key: "_id", Value: "x3"}, {Key: "revision", Value: 2.5}},
		"zero":          {{Key: "_id", Value: "x4"}, {Key: "revision", Value: 0}},
		"the last":      {{Key: "_id", Value: "x6"}, {Key: "revision", Value: int64(math.MaxInt64)}},
		"no change":     {{Key: "_id", Value: "x5"}, {Key: "revision", Value: 2}, {Key: "change", Value: "x"}},
	} {
		if _, err := db.Collection("current").InsertOne(ctx, doc); err != nil {
			t.Fatal(err)
		}
		id := doc[0].Value.(string)
		_, err := d.Get(ctx, id)
		wantErr(t, what, err, mongopatterns.ErrMalformed)
		_, err = d.Save(ctx, versioning.Revision[bson.D]{Number: 1, Document: bson.D{{Key: "_id", Value: id}}}, nobody)
		wantErr(t, what, err, mongopatterns.ErrMalformed)
		if problems := testkit.Collect(t, d.Check(ctx, nil)); len(problems) != 1 || problems[0].Kind != mongopatterns.Malformed || problems[0].ID.StringValue() != id {
			t.Errorf("%s: check: %v", what, problems)
		}
		if _, err := db.Collection("current").DeleteOne(ctx, d.Filter(id)); err != nil {
			t.Fatal(err)
		}
	}
}

// Refusals name the document, and the revision.
func TestRefusalsNameTheDocument(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	noop := func(*counter) error { return nil }
	var r revision
	for range 3 { // created, deleted, and so on
		r = get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(0))))
		if r.Number < 5 {
			if err := d.Delete(ctx, "a", r.Number, by("", "", month(0))); err != nil {
				t.Fatal(err)
			}
		}
	}
	must[mongopatterns.Result](t)(d.Prune(ctx, versioning.Retention{Keep: 3}, of("a")))
	get(t)(d.Insert(ctx, counter{ID: "b"}, nobody))
	var history, from error
	for err := range errorsOf(d.Revisions(ctx, "x")) {
		history = err
	}
	for err := range errorsOf(d.RevisionsFrom(ctx, "a", 6)) {
		from = err
	}
	for what, test := range map[string]struct {
		err, is error
		want    string
	}{
		"get":         {second(d.Get(ctx, "x")), mongopatterns.ErrNotFound, `_id "x"`},
		"get empty":   {second(d.Get(ctx, "")), mongopatterns.ErrNotFound, `_id ""`},
		"get number":  {second(helper[int, counter](t, db, nil).Get(ctx, 9999)), mongopatterns.ErrNotFound, "_id 9999"},
		"get channel": {second(helper[chan int, counter](t, db, nil).Get(ctx, nil)), mongopatterns.ErrInvalid, "cannot encode chan int"},
		"save":        {second(d.Save(ctx, revision{Number: 1, Document: counter{ID: "x"}}, nobody)), mongopatterns.ErrNotFound, `_id "x"`},
		"save many":   {saveOne(ctx, d, revision{Number: 1, Document: counter{ID: "x"}}), mongopatterns.ErrNotFound, `_id "x"`},
		"update":      {second(d.Edit(ctx, "x", noop, nobody)), mongopatterns.ErrNotFound, `_id "x"`},
		"delete":      {d.Delete(ctx, "x", 1, nobody), mongopatterns.ErrNotFound, `_id "x"`},
		"at":          {second(d.At(ctx, "a", 9)), mongopatterns.ErrNotFound, `_id "a": revision 9`},
		"at zero":     {second(d.At(ctx, "a", 0)), mongopatterns.ErrNotFound, `_id "a": revision 0`},
		"pruned":      {second(d.At(ctx, "a", 1)), versioning.ErrPruned, `_id "a": revision 1`},
		"deleted":     {second(d.At(ctx, "a", 4)), versioning.ErrDeleted, `_id "a": revision 4`},
		"diff":        {second(d.Diff(ctx, "a", 5, 4)), versioning.ErrDeleted, `_id "a": revision 4`},
		"restore":     {second(d.Restore(ctx, "a", 1, nobody)), versioning.ErrPruned, `_id "a": revision 1`},
		"as of":       {second(d.AsOf(ctx, "a", month(-1))), versioning.ErrPruned, `_id "a"`},
		"as of none":  {second(d.AsOf(ctx, "x", month(-1))), mongopatterns.ErrNotFound, `_id "x"`},
		"history":     {history, mongopatterns.ErrNotFound, `_id "x"`},
		"from":        {from, mongopatterns.ErrNotFound, `_id "a"`},
		"exists":      {second(d.Insert(ctx, counter{ID: "a"}, nobody)), mongopatterns.ErrExists, `_id "a"`},
		"no fn":       {second(d.Edit(ctx, "a", nil, nobody)), mongopatterns.ErrInvalid, "invalid: fn is nil"},
		"no number":   {second(d.Save(ctx, revision{Document: counter{ID: "a"}}, nobody)), mongopatterns.ErrInvalid, "invalid: Revision.Number: it is 0"},
		"not read":    {d.Delete(ctx, "a", -1, nobody), mongopatterns.ErrInvalid, "invalid: read: it is -1"},
		"repair":      {second(d.Repair(ctx, &mongopatterns.Work{BatchSize: -1})), mongopatterns.ErrInvalid, "invalid: Work.BatchSize"},
		"adopt":       {second(d.Adopt(ctx, nil, &mongopatterns.Work{BatchSize: -1})), mongopatterns.ErrInvalid, "invalid: Work.BatchSize"},
		"undo":        {second(d.Undo(ctx, "a", 1, nobody)), mongopatterns.ErrInvalid, "n: it is 1 and must be 2 or more"},
		"null":        {second(helper[string, bson.D](t, db, nil).Insert(ctx, bson.D{{Key: "_id", Value: nil}}, nobody)), mongopatterns.ErrInvalid, "_id null: invalid: an _id cannot be null"},
		"nothing":     {second(d.Decode(testkit.Raw(t, bson.D{}))), mongopatterns.ErrInvalid, "the document has no _id"},
	} {
		if !errors.Is(test.err, test.is) || strings.Count(test.err.Error(), test.want) != 1 {
			t.Errorf("%s: error %v, want %v and %q once", what, test.err, test.is, test.want)
		}
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 5 {
		t.Errorf("%+v", r)
	}
}

// An _id that no value of ID encodes to is not stored.
func TestIDsOfAnotherType(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	type key struct {
		N int `bson:"n"`
	}
	texts, keys, anything := helper[string, bson.D](t, db, nil), helper[key, bson.D](t, db, nil), helper[any, bson.D](t, db, nil)
	raws, arrays := helper[bson.RawValue, bson.D](t, db, nil), helper[[2]byte, bson.D](t, db, nil)
	create := func(d interface {
		Insert(context.Context, bson.D, versioning.Change) (versioning.Revision[bson.D], error)
	}, doc bson.D) error {
		_, err := d.Insert(ctx, doc, nobody)
		return err
	}
	of := func(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }
	for what, err := range map[string]error{
		"number":         create(texts, of(5)),
		"generated":      create(texts, bson.D{{Key: "x", Value: 1}}),
		"nil":            create(texts, nil),
		"null":           create(texts, of(nil)),
		"more in it":     create(keys, of(bson.D{{Key: "n", Value: 1}, {Key: "m", Value: 1}})),
		"not a document": create(keys, of(1)),
	} {
		wantErr(t, what, err, mongopatterns.ErrInvalid)
	}
	if n := testkit.Count(t, db.Collection("current"), bson.D{}); n != 0 {
		t.Errorf("%d stored", n)
	}
	for what, err := range map[string]error{
		"empty":     create(texts, of("")),
		"key":       create(keys, of(bson.D{{Key: "n", Value: 1.0}})),
		"any":       create(anything, of(bson.D{{Key: "x", Value: 1}})),
		"generated": create(anything, bson.D{}),
		"raw":       create(raws, of(int64(7))),
		"array":     create(arrays, of(bson.Binary{Data: []byte("ab")})),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nor is nil, and the error says so.
	maps := helper[string, bson.M](t, db, nil)
	_, err := maps.Edit(ctx, "", func(m *bson.M) error { *m = nil; return nil }, nobody)
	wantErr(t, "nil map", err, mongopatterns.ErrInvalid)
	if !strings.HasSuffix(err.Error(), " is nil") {
		t.Error(err)
	}
}

// A label is a document that Go keeps as a text.
type label string

func (l label) MarshalBSON() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "_id", Value: string(l)}})
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for want, opts := range map[string]*versioning.Options{
		"Options.RevisionField: ":      {RevisionField: "a.b"},
		"Options.ChangeField: ":        {ChangeField: "revision"},
		"Options.DocumentIDField: ":    {DocumentIDField: "_id"},
		"Options.ChangeField: invalid": {ChangeField: "delta"},
		"Options.Ignored[1]: ":         {Ignored: []string{"a", "b.c"}},
		"Options.Ignored[0]: ":         {Ignored: []string{"revision"}},
		"Options.Ignored: ":            {Ignored: []string{"a", ""}},
		"Options.SnapshotEvery: ":      {SnapshotEvery: -1},
	} {
		_, err := versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), opts)
		if err == nil || !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "versioning: new: invalid: "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, number := versioning.New[string, int](db.Collection("c"), db.Collection("r"), nil)
	_, text := versioning.New[string, *string](db.Collection("c"), db.Collection("r"), nil)
	_, list := versioning.New[string, []string](db.Collection("c"), db.Collection("r"), nil)
	for _, err := range []error{number, text, list} {
		wantErr(t, "a T that is no document", err, mongopatterns.ErrInvalid)
	}
	_, raw := versioning.New[string, bson.Raw](db.Collection("c"), db.Collection("r"), nil)
	_, own := versioning.New[string, label](db.Collection("c"), db.Collection("r"), nil)
	_, pointer := versioning.New[string, *counter](db.Collection("c"), db.Collection("r"), nil)
	_, open := versioning.New[string, any](db.Collection("c"), db.Collection("r"), nil)
	if err := errors.Join(raw, own, pointer, open); err != nil {
		t.Error(err)
	}
	other, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	for want, colls := range map[string][2]*mongo.Collection{
		"current: ":                    {nil, db.Collection("r")},
		"revisions: the":               {db.Collection("c"), nil},
		"revisions: the collection":    {db.Collection("c"), db.Collection("c")},
		"revisions: the collection is": {db.Collection("c"), other.Database(db.Name()).Collection("r")},
		"revisions: the collection is in another database": {db.Collection("c"), db.Client().Database("x").Collection("r")},
	} {
		_, err := versioning.New[string, counter](colls[0], colls[1], nil)
		if err == nil || !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "versioning: new: invalid: "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	d := helper[string, counter](t, db, nil)
	if diff := cmp.Diff(map[string]bson.D{"current": {{Key: "_id", Value: 1}}, "revisions": {{Key: "document_id", Value: 1}}}, d.ShardKey()); diff != "" {
		t.Error(diff)
	}
	for _, model := range d.Indexes()["revisions"] {
		if diff := cmp.Diff(d.ShardKey()["revisions"], model.Keys.(bson.D)[:1]); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := db.Collection("revisions").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "x", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	conflicting, err := versioning.New[string, counter](db.Collection("c"), db.Collection("clash"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("clash").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "document_id", Value: 1}, {Key: "revision", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "not unique", conflicting.EnsureIndexes(t.Context()), mongopatterns.ErrIndexConflict)
}

// A save stores the fields that the caller changed and nothing else.
func TestUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	type item struct {
		Name string `bson:"name"`
	}
	type inner struct {
		A int     `bson:"a"`
		B *string `bson:"b,omitempty"`
	}
	type narrow struct {
		ID    string           `bson:"_id"`
		Items []item           `bson:"items"`
		Inner inner            `bson:"inner"`
		Tags  map[string]inner `bson:"tags"`
		Zero  int              `bson:"zero"`
		Gone  string           `bson:"gone,omitempty"`
	}
	d := helper[string, narrow](t, db, nil)
	element := func(name string, more int) bson.D {
		return bson.D{{Key: "price", Value: more}, {Key: "name", Value: name}}
	}
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{
		{Key: "_id", Value: "a"}, {Key: "unknown", Value: bson.D{{Key: "x", Value: int64(1)}}},
		{Key: "items", Value: bson.A{element("sword", 1), element("ring", 2), element("mail", 3)}},
		{Key: "inner", Value: bson.D{{Key: "unknown", Value: 1}, {Key: "a", Value: int64(1)}, {Key: "b", Value: "b"}}},
		{Key: "tags", Value: bson.D{{Key: "one", Value: bson.D{{Key: "a", Value: 1}, {Key: "more", Value: 1}}}, {Key: "two", Value: bson.D{{Key: "a", Value: 2}}}, {Key: "three", Value: bson.D{{Key: "a", Value: 3}}}}},
		{Key: "gone", Value: "x"},
	}); err != nil {
		t.Fatal(err)
	}
	update := func(fn func(*narrow)) bson.D {
		t.Helper()
		must[versioning.Revision[narrow]](t)(d.Edit(ctx, "a", func(n *narrow) error { fn(n); return nil }, nobody))
		return slices.DeleteFunc(all(t, db.Collection("current"), bson.D{})[0], func(e bson.E) bool { return e.Key == "revision" || e.Key == "change" })
	}
	for range 10 { // maps have no order
		r := must[versioning.Revision[narrow]](t)(d.Edit(ctx, "a", func(*narrow) error { return nil }, nobody))
		if r.Number != 1 {
			t.Fatalf("revision %d though nothing changed", r.Number)
		}
	}
	got := update(func(n *narrow) {
		n.Items[1].Name = "One Ring"
		n.Inner.A, n.Inner.B = 2, nil
		n.Tags["one"] = inner{A: 7}
		delete(n.Tags, "two")
		n.Gone = ""
	})
	want := bson.D{
		{Key: "_id", Value: "a"}, {Key: "unknown", Value: bson.D{{Key: "x", Value: int64(1)}}},
		{Key: "items", Value: bson.A{element("sword", 1), element("One Ring", 2), element("mail", 3)}},
		{Key: "inner", Value: bson.D{{Key: "unknown", Value: 1}, {Key: "a", Value: 2}}},
		{Key: "tags", Value: bson.D{{Key: "one", Value: bson.D{{Key: "a", Value: 7}, {Key: "more", Value: 1}}}, {Key: "three", Value: bson.D{{Key: "a", Value: 3}}}}},
	}
	equalD := func(what string, want, got any) {
		t.Helper()
		w, g := testkit.Raw(t, bson.D{{Key: "v", Value: want}}), testkit.Raw(t, bson.D{{Key: "v", Value: got}})
		if diff := cmp.Diff(w.String(), g.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	equalD("inside", want, got)
	got = update(func(n *narrow) { n.Items = append(n.Items[1:], item{"staff"}); n.Zero = 1 })
	equalD("shifted", bson.A{element("One Ring", 2), element("mail", 3), bson.D{{Key: "name", Value: "staff"}}}, testkit.Get(got, "items"))
	if testkit.Get(got, "zero") != int32(1) {
		t.Errorf("zero %v", got)
	}
	got = update(func(n *narrow) {
		n.Items = append([]item{{"axe"}, n.Items[0], {"coat of mail"}}, item{"pony"}, item{"staff"})
	})
	equalD("inserted and changed", bson.A{bson.D{{Key: "name", Value: "axe"}}, element("One Ring", 2), bson.D{{Key: "name", Value: "coat of mail"}},
		bson.D{{Key: "name", Value: "pony"}}, bson.D{{Key: "name", Value: "staff"}}}, testkit.Get(got, "items"))
	got = update(func(n *narrow) { n.Items = n.Items[1:2] })
	equalD("cut", bson.A{element("One Ring", 2)}, testkit.Get(got, "items"))
	testkit.Healthy(t, d)
}

// Types count, and the order of fields inside.
func TestWhatIsAChange(t *testing.T) {
	t.Parallel()
	d := helper[string, bson.D](t, mongotest.Database(t), nil)
	r := must[versioning.Revision[bson.D]](t)(d.Insert(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: int32(5)}, {Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}}, nobody))
	for i, test := range []struct {
		doc    bson.D
		number int64
	}{
		{bson.D{{Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}, {Key: "x", Value: int32(5)}, {Key: "_id", Value: "a"}}, 1},
		{bson.D{{Key: "x", Value: int32(5)}, {Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}, {Key: "revision", Value: 77}, {Key: "change", Value: 1}}, 1},
		{bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: int64(5)}, {Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}}, 2},
		{bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: 5.0}, {Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}}, 3},
		{bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: nil}, {Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}}, 4},
		{bson.D{{Key: "_id", Value: "a"}, {Key: "y", Value: bson.D{{Key: "p", Value: 1}, {Key: "q", Value: 2}}}}, 5},
		{bson.D{{Key: "_id", Value: "a"}, {Key: "y", Value: bson.D{{Key: "q", Value: 2}, {Key: "p", Value: 1}}}}, 6},
		{bson.D{{Key: "_id", Value: "a"}, {Key: "y", Value: bson.M{"q": 2, "p": 1}}}, 6},
		{bson.D{{Key: "_id", Value: "a"}}, 7},
	} {
		r.Document = test.doc
		r = must[versioning.Revision[bson.D]](t)(d.Save(t.Context(), r, nobody))
		if r.Number != test.number {
			t.Errorf("%d: revision %d, want %d", i, r.Number, test.number)
		}
	}
	testkit.Healthy(t, d)
}

func TestIgnoredFields(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{Ignored: []string{"last_seen", "hits"}, SnapshotEvery: 3})
	coll := db.Collection("current")
	r := get(t)(d.Insert(ctx, counter{ID: "a", N: 1, LastSeen: month(0)}, nobody))
	r.Document.LastSeen = month(1)
	r = get(t)(d.Save(ctx, r, nobody))
	if r.Number != 1 || !get(t)(d.Get(ctx, "a")).Document.LastSeen.Equal(month(1)) || testkit.Count(t, db.Collection("revisions"), bson.D{}) != 0 {
		t.Errorf("ignored only: %+v", r)
	}
	// Written by something else between read and save: a save of another field keeps it.
	if _, err := coll.UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "last_seen", Value: month(5)}}}, {Key: "$inc", Value: bson.D{{Key: "hits", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	r.Document.N = 2
	r = get(t)(d.Save(ctx, r, nobody))
	if now := get(t)(d.Get(ctx, "a")); r.Number != 2 || now.Number != 2 || now.Document.N != 2 || !now.Document.LastSeen.Equal(month(5)) || !r.Document.LastSeen.Equal(month(5)) {
		t.Errorf("after a write beside: %+v, saved %+v", now, r)
	}
	// Both at once: one revision, and the history does not show the ignored one.
	r.Document.N, r.Document.LastSeen = 3, month(6)
	r = get(t)(d.Save(ctx, r, nobody))
	for n := int64(1); n <= 3; n++ {
		if old := get(t)(d.At(ctx, "a", n)); old.Document.N != int(n) || !old.Document.LastSeen.IsZero() {
			t.Errorf("revision %d: %+v", n, old)
		}
	}
	if diff := must[[]versioning.Difference](t)(d.Diff(ctx, "a", 1, 3)); len(diff) != 1 || diff[0].Path != "n" {
		t.Errorf("diff %v", diff)
	}
	// Restored: the ignored ones stay.
	back := get(t)(d.Restore(ctx, "a", 1, nobody))
	if back.Number != 4 || back.Document.N != 1 || !back.Document.LastSeen.Equal(month(6)) {
		t.Errorf("restored %+v", back)
	}
	if hits := testkit.Get(all(t, coll, bson.D{})[0], "hits"); hits != int32(1) {
		t.Errorf("hits %v", hits)
	}
	if again := get(t)(d.Restore(ctx, "a", 1, nobody)); again.Number != 4 {
		t.Errorf("restored again: %+v", again)
	}
	// Unset, of an unversioned document too.
	back.Document.LastSeen = time.Time{}
	back = get(t)(d.Save(ctx, back, nobody))
	if doc := all(t, coll, bson.D{})[0]; back.Number != 4 || testkit.Get(doc, "last_seen") != nil {
		t.Errorf("unset: %v", doc)
	}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "old"}, {Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	old := get(t)(d.Edit(ctx, "old", func(c *counter) error { c.LastSeen = month(1); return nil }, nobody))
	if old.Number != 1 {
		t.Errorf("unversioned: %+v", old)
	}
	old.Document.N = 2
	if old = get(t)(d.Save(ctx, old, nobody)); old.Number != 2 || !old.Document.LastSeen.Equal(month(1)) {
		t.Errorf("unversioned: %+v", old)
	}
	// A conflict is one for ignored fields too.
	stale := r
	stale.Document.LastSeen = month(9)
	_, err := d.Save(ctx, stale, nobody)
	wantConflict(t, "ignored only", err, 3, 4)
	testkit.Healthy(t, d)
}

// The result of a save is the same as that of Get, also where T shows number and change.
func TestSavedReadsAsStored(t *testing.T) {
	t.Parallel()
	d := helper[string, bson.D](t, mongotest.Database(t), &versioning.Options{Ignored: []string{"seen"}})
	ctx := t.Context()
	r := must[versioning.Revision[bson.D]](t)(d.Insert(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: int32(0)}, {Key: "seen", Value: int32(0)}}, nobody))
	for i, n := range []int{1, 2, 2, 1} { // the place of the field: a revision, and ignored only
		before := fmt.Sprint(r.Document)
		next := r
		next.Document = slices.Clone(r.Document)
		next.Document[n].Value = int32(i + 1)
		saved := must[versioning.Revision[bson.D]](t)(d.Save(ctx, next, nobody))
		now := must[versioning.Revision[bson.D]](t)(d.Get(ctx, "a"))
		if diff := cmp.Diff(now.Document, saved.Document); diff != "" || saved.Number != now.Number || fmt.Sprint(r.Document) != before {
			t.Errorf("%d and %d (-get +save):\n%s", now.Number, saved.Number, diff)
		}
		r = saved
	}
}

// So it is for times, which are stored without nanoseconds, values of any type, and a slice that is
// left out.
func TestSavedValuesReadAsStored(t *testing.T) {
	t.Parallel()
	type doc struct {
		ID      string `bson:"_id"`
		At      time.Time
		List    []string `bson:"list,omitempty"`
		Version int64    // the driver also decodes the stored "Version" into it
	}
	at := time.Date(2024, 1, 1, 0, 0, 0, 123456789, time.FixedZone("", 3600))
	d := helper[string, doc](t, mongotest.Database(t), &versioning.Options{RevisionField: "Version"})
	r := must[versioning.Revision[doc]](t)(d.Insert(t.Context(), doc{ID: "a", List: []string{"x"}}, nobody))
	for i, change := range []func(v *doc){
		func(v *doc) { v.At = at }, func(v *doc) { v.List = []string{} }, func(v *doc) { v.ID, v.Version = "a", 9 },
	} {
		change(&r.Document)
		r = must[versioning.Revision[doc]](t)(d.Save(t.Context(), r, nobody))
		if now := must[versioning.Revision[doc]](t)(d.Get(t.Context(), "a")); !reflect.DeepEqual(r.Document, now.Document) {
			t.Errorf("%d: get %#v, save %#v", i, now.Document, r.Document)
		}
	}
	type open struct {
		ID string `bson:"_id"`
		X  any
	}
	e := helper[string, open](t, mongotest.Database(t), nil)
	o := must[versioning.Revision[open]](t)(e.Insert(t.Context(), open{ID: "a"}, nobody))
	o.Document.X = 5
	if o = must[versioning.Revision[open]](t)(e.Save(t.Context(), o, nobody)); o.Document.X != int32(5) {
		t.Errorf("%T", o.Document.X)
	}
	f := helper[string, bson.D](t, mongotest.Database(t), nil)
	p := must[versioning.Revision[bson.D]](t)(f.Insert(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: 1}}, nobody))
	p.Document[1].Value = at
	if p = must[versioning.Revision[bson.D]](t)(f.Save(t.Context(), p, nobody)); p.Document[1].Value != bson.NewDateTimeFromTime(at) {
		t.Errorf("%T", p.Document[1].Value)
	}
}

// A duplicate field, which other code may store, is not removed by a restore.
func TestRestoreOverDoubledField(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	get(t)(d.Insert(t.Context(), counter{ID: "a", N: 1}, nobody))
	r := get(t)(d.Edit(t.Context(), "a", func(c *counter) error { c.N = 2; return nil }, nobody))
	twice := bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: int32(1)}, {Key: "n", Value: int32(2)}, {Key: "revision", Value: r.Number}}
	if _, err := db.Collection("current").ReplaceOne(t.Context(), d.Filter("a"), twice); err != nil {
		t.Fatal(err)
	}
	get(t)(d.Restore(t.Context(), "a", 1, nobody))
	if got := all(t, db.Collection("current"), bson.D{})[0]; fmt.Sprint(got[1:3]) != fmt.Sprint(twice[1:3]) {
		t.Errorf("%v", got)
	}
}

func TestDeleteAndCreateAgain(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	for _, every := range []int{1, 4} {
		d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: every})
		r := get(t)(d.Insert(ctx, counter{ID: "a", N: 1}, by("a", "", month(0))))
		r.Document.N = 2
		r = get(t)(d.Save(ctx, r, by("b", "", month(1))))
		if err := d.Delete(ctx, "a", 2, by("c", "enough", month(2))); err != nil {
			t.Fatal(err)
		}
		_, err := d.Get(ctx, "a")
		wantErr(t, "get", err, mongopatterns.ErrNotFound)
		_, err = d.Save(ctx, r, nobody)
		wantErr(t, "save", err, mongopatterns.ErrNotFound)
		_, err = d.At(ctx, "a", 3)
		wantErr(t, "at", err, versioning.ErrDeleted)
		_, err = d.At(ctx, "a", 4)
		wantErr(t, "at", err, mongopatterns.ErrNotFound)
		_, err = d.AsOf(ctx, "a", month(3))
		wantErr(t, "as of", err, versioning.ErrDeleted)
		_, err = d.Restore(ctx, "a", 3, nobody)
		wantErr(t, "restore", err, versioning.ErrDeleted)
		r = get(t)(d.Insert(ctx, counter{ID: "a", N: 9}, by("d", "", month(1)))) // the clock is behind
		if r.Number != 4 || !r.Change.At.Equal(month(2)) || r.Document.N != 9 {
			t.Errorf("created again: %+v", r)
		}
		_, err = d.AsOf(ctx, "a", month(2).Add(-time.Millisecond))
		if err != nil {
			t.Error(err)
		}
		if r := get(t)(d.AsOf(ctx, "a", month(2))); r.Number != 4 { // ties: the last one
			t.Errorf("as of: %+v", r)
		}
		if err := d.Delete(ctx, "a", 4, by("e", "", month(4))); err != nil {
			t.Fatal(err)
		}
		r = get(t)(d.Restore(ctx, "a", 2, by("f", "undo", month(5))))
		if r.Number != 6 || r.Document.N != 2 || r.Change.Author != "f" {
			t.Errorf("restored: %+v", r)
		}
		var numbers []int64
		var deleted []bool
		for _, r := range testkit.Collect(t, d.Revisions(ctx, "a")) {
			numbers, deleted = append(numbers, r.Number), append(deleted, r.Deleted)
		}
		if diff := cmp.Diff([]int64{6, 5, 4, 3, 2, 1}, numbers); diff != "" || !reflect.DeepEqual(deleted, []bool{false, true, false, true, false, false}) {
			t.Errorf("history %v %v", numbers, deleted)
		}
		if diff := cmp.Diff([]int64{3, 4, 5, 6}, numbersOf(t, d.RevisionsFrom(ctx, "a", 3))); diff != "" {
			t.Errorf("from 3: %s", diff)
		}
		for n, want := range map[int64][]int64{9: {6, 5, 4, 3, 2, 1}, 6: {5, 4, 3, 2, 1}, 4: {3, 2, 1}, 2: {1}} {
			if diff := cmp.Diff(want, numbersOf(t, d.RevisionsBefore(ctx, "a", n))); diff != "" {
				t.Errorf("before %d: %s", n, diff)
			}
		}
		for _, n := range []int64{1, 0, -7} {
			if found := numbersOf(t, d.RevisionsBefore(ctx, "a", n)); len(found) > 0 {
				t.Errorf("before %d: %v", n, found)
			}
		}
		if found := numbersOf(t, d.RevisionsBefore(ctx, "none", 9)); len(found) > 0 {
			t.Errorf("of an unknown document: %v", found)
		}
		for _, err := range d.RevisionsBefore(ctx, "none", math.MaxInt64) {
			wantErr(t, "before the largest number", err, mongopatterns.ErrNotFound)
		}
		for err := range errorsOf(d.Revisions(ctx, "none")) {
			wantErr(t, "history", err, mongopatterns.ErrNotFound)
		}
		testkit.Healthy(t, d)
		for _, name := range []string{"current", "revisions"} {
			if _, err := db.Collection(name).DeleteMany(ctx, bson.D{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func errorsOf[T any](seq func(func(T, error) bool)) func(func(error) bool) {
	return func(yield func(error) bool) {
		seq(func(_ T, err error) bool { return yield(err) })
	}
}

func TestGeneratedID(t *testing.T) {
	t.Parallel()
	type note struct {
		ID   bson.ObjectID `bson:"_id,omitempty"`
		Text string        `bson:"text"`
	}
	d := helper[bson.ObjectID, note](t, mongotest.Database(t), nil)
	r := must[versioning.Revision[note]](t)(d.Insert(t.Context(), note{Text: "x"}, nobody))
	if r.Document.ID.IsZero() {
		t.Fatal("no ID")
	}
	r.Document.Text = "y"
	r = must[versioning.Revision[note]](t)(d.Save(t.Context(), r, nobody))
	if got := must[versioning.Revision[note]](t)(d.Get(t.Context(), r.Document.ID)); got.Number != 2 || got.Document.Text != "y" {
		t.Errorf("%+v", got)
	}
	testkit.Healthy(t, d)
}

// IDs that are documents, and numbers that are equal to the server.
func TestIDs(t *testing.T) {
	t.Parallel()
	type key struct {
		Tenant string `bson:"tenant"`
		N      int    `bson:"n"`
	}
	db := mongotest.Database(t)
	type doc struct {
		ID   key    `bson:"_id"`
		Text string `bson:"text"`
	}
	d := helper[key, doc](t, db, &versioning.Options{SnapshotEvery: 3})
	id := key{"t", 1}
	r := must[versioning.Revision[doc]](t)(d.Insert(t.Context(), doc{id, "0"}, nobody))
	for i := range 5 {
		r.Document.Text = fmt.Sprint(i + 1)
		r = must[versioning.Revision[doc]](t)(d.Save(t.Context(), r, nobody))
	}
	for i := range 6 {
		if got := must[versioning.Revision[doc]](t)(d.At(t.Context(), id, int64(i+1))); got.Document != (doc{id, fmt.Sprint(i)}) {
			t.Errorf("%+v", got)
		}
	}
	testkit.Healthy(t, d)

	floats, err := versioning.New[float64, bson.D](db.Collection("numbers"), db.Collection("number_revisions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("numbers").InsertOne(t.Context(), bson.D{{Key: "_id", Value: int32(1)}, {Key: "x", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	got := must[versioning.Revision[bson.D]](t)(floats.Save(t.Context(), versioning.Revision[bson.D]{Number: 1, Document: bson.D{{Key: "_id", Value: 1.0}, {Key: "x", Value: 2}}}, nobody))
	if got.Number != 2 || got.Document[0].Value != int32(1) {
		t.Errorf("%+v", got)
	}
	if err := saveOne(t.Context(), floats, versioning.Revision[bson.D]{Number: 2, Document: bson.D{{Key: "_id", Value: int64(1)}, {Key: "x", Value: 3}}}); err != nil {
		t.Error(err)
	}
	if err := floats.Delete(t.Context(), 1, 3, nobody); err != nil {
		t.Error(err)
	}
	testkit.Healthy(t, floats)
}

// An existing collection works as it is.
func TestUnversioned(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	coll := db.Collection("current")
	d := helper[string, counter](t, db, nil)
	if _, err := coll.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}, {Key: "extra", Value: "x"}},
		bson.D{{Key: "_id", Value: "null"}, {Key: "n", Value: 1}, {Key: "revision", Value: nil}},
		bson.D{{Key: "_id", Value: "counted"}, {Key: "n", Value: 1}, {Key: "revision", Value: int32(7)}},
		bson.D{{Key: "_id", Value: "gone"}, {Key: "n", Value: 1}},
		bson.D{{Key: "_id", Value: "plain"}, {Key: "n", Value: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	r := get(t)(d.Get(ctx, "a"))
	if r.Number != 1 || !r.Change.At.IsZero() {
		t.Errorf("%+v", r)
	}
	if old := get(t)(d.At(ctx, "a", 1)); old.Document.N != 1 {
		t.Errorf("%+v", old)
	}
	if old := get(t)(d.AsOf(ctx, "a", month(-12000))); old.Document.N != 1 {
		t.Errorf("%+v", old)
	}
	for _, id := range []string{"a", "null"} {
		r = get(t)(d.Get(ctx, id))
		r.Document.N = 2
		r = get(t)(d.Save(ctx, r, by("a", "", month(0))))
		if r.Number != 2 || r.Document.N != 2 {
			t.Errorf("%+v", r)
		}
		if old := get(t)(d.AsOf(ctx, id, month(-1))); old.Document.N != 1 || old.Number != 1 || !old.Change.At.IsZero() {
			t.Errorf("baseline %+v", old)
		}
	}
	stored := all(t, db.Collection("revisions"), bson.D{{Key: "document_id", Value: 1}})[0]
	want := bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: int32(1)}, {Key: "extra", Value: "x"}}
	if diff := cmp.Diff(want, testkit.Get(stored, "document")); diff != "" {
		t.Error(diff)
	}
	// A collection that counts already continues, with its type of number; its past is not known.
	_, err := d.At(ctx, "counted", 3)
	wantErr(t, "at", err, versioning.ErrPruned)
	_, err = d.AsOf(ctx, "none", month(0))
	wantErr(t, "as of", err, mongopatterns.ErrNotFound)
	r = get(t)(d.Edit(ctx, "counted", func(c *counter) error { c.N++; return nil }, nobody))
	if r.Number != 8 || testkit.Get(all(t, coll, bson.D{{Key: "revision", Value: -1}})[0], "revision") != int64(8) {
		t.Errorf("%+v", r)
	}
	if err := d.Delete(ctx, "gone", 1, nobody); err != nil {
		t.Fatal(err)
	}
	if r = get(t)(d.Insert(ctx, counter{ID: "gone"}, nobody)); r.Number != 3 {
		t.Errorf("%+v", r)
	}
	testkit.Healthy(t, d)

	// Adopted, with the known changes.
	result, err := d.Adopt(ctx, func(stored bson.Raw) versioning.Change {
		return by("import "+stored.Lookup("_id").StringValue(), "", month(-6))
	}, nil)
	if err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	r = get(t)(d.Get(ctx, "plain"))
	equal(t, "adopted", by("import plain", "", month(-6)), r.Change)
	_, err = d.AsOf(ctx, "plain", month(-7))
	wantErr(t, "before", err, mongopatterns.ErrNotFound)
	testkit.Healthy(t, d)
}

// Edit retries until its context ends; an error of fn ends it.
func TestUpdateBeginsAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	other := helper[string, counter](t, db, nil)
	bounded, cancel := context.WithCancel(ctx)
	runs := 0
	_, err := d.Edit(bounded, "a", func(c *counter) error {
		if runs++; runs == 3 {
			cancel()
		}
		get(t)(other.Edit(ctx, "a", func(c *counter) error { c.N += 10; return nil }, nobody))
		c.N++
		return nil
	}, nobody)
	if wantErr(t, "update", err, context.Canceled); runs != 3 {
		t.Errorf("%d runs", runs)
	}
	for _, own := range []error{mongopatterns.ErrExists, &versioning.ConflictError{}} { // of another document
		runs = 0
		_, err = d.Edit(ctx, "a", func(*counter) error { runs++; return own }, nobody)
		if wantErr(t, "error of fn", err, own); runs != 1 {
			t.Errorf("%v: %d runs", own, runs)
		}
	}
	runs = 0
	r := get(t)(d.Edit(ctx, "a", func(c *counter) error {
		if runs++; runs == 1 {
			get(t)(other.Edit(ctx, "a", func(c *counter) error { c.N += 10; return nil }, nobody))
		}
		c.N++
		return nil
	}, nobody))
	if r.Document.N != 41 || runs != 2 {
		t.Errorf("%+v after %d runs", r, runs)
	}
	cancelled, cancel := context.WithCancel(ctx)
	_, err = d.Edit(cancelled, "a", func(c *counter) error { cancel(); c.N++; return nil }, nobody)
	wantErr(t, "cancelled", err, context.Canceled)
	testkit.Healthy(t, d)
}

// The server inserts fields that start with "$" at the top, and replaces no document
// that would have one: it refuses, and the error names the document.
func TestDollarFields(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, bson.M](t, db, nil)
	doc := must[versioning.Revision[bson.M]](t)
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "b"}, {Key: "$x", Value: 1}, {Key: "revision", Value: 1}, {Key: "n", Value: 0}}); err != nil {
		t.Fatal(err)
	}
	r := doc(d.Get(ctx, "b"))
	r.Document["n"] = 1
	if r = doc(d.Save(ctx, r, nobody)); r.Document["$x"] != int32(1) {
		t.Errorf("%v", r.Document)
	}
	r.Document["$x"] = 2
	refused := func(err error) {
		t.Helper()
		var server mongo.ServerError
		if !errors.As(err, &server) || !strings.Contains(err.Error(), `_id "b"`) || !strings.Contains(err.Error(), "$x") {
			t.Errorf("%v", err)
		}
	}
	refused(second(d.Save(ctx, r, nobody)))
	other := doc(d.Insert(ctx, bson.M{"_id": "c", "a.b": 1, "": 1}, nobody))
	saved, err := d.SaveMany(ctx, each(&r, &other), nobody, nil)
	refused(err)
	if saved.Skipped != 1 || saved.Failed != 1 {
		t.Errorf("%+v", saved)
	}
	delete(r.Document, "$x")
	doc(d.Save(ctx, r, nobody))
	refused(second(d.Restore(ctx, "b", 1, nobody)))
	testkit.Healthy(t, d)
}

// Times never go back, and are of milliseconds.
func TestTimes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[string, counter](t, mongotest.Database(t), nil)
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(1).Add(1500*time.Microsecond))))
	if want := month(1).Add(time.Millisecond); !r.Change.At.Equal(want) {
		t.Errorf("%v", r.Change.At)
	}
	r.Document.N = 1
	r = get(t)(d.Save(ctx, r, by("", "", month(0))))
	if want := month(1).Add(time.Millisecond); !r.Change.At.Equal(want) {
		t.Errorf("%v", r.Change.At)
	}
	if got := get(t)(d.AsOf(ctx, "a", month(1).Add(1999*time.Microsecond))); got.Number != 2 {
		t.Errorf("%+v", got)
	}
	_, err := d.AsOf(ctx, "a", month(1).Add(999*time.Microsecond))
	wantErr(t, "before", err, mongopatterns.ErrNotFound)
	r.Document.N = 2
	before := time.Now().Truncate(time.Millisecond)
	other := helper[string, counter](t, mongotest.Database(t), nil)
	if n := get(t)(other.Insert(ctx, counter{ID: "a"}, nobody)).Change.At; n.Before(before) || n.After(time.Now()) {
		t.Errorf("now is %v", n)
	}
}

// A time that cannot be stored, or that JSON cannot write, is refused by all calls,
// before they do anything.
func TestTimesOutOfRange(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(0))))
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "old"}}); err != nil {
		t.Fatal(err)
	}
	changed := r
	changed.Document.N = 1
	for _, at := range []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1e9, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Time{}.Add(-1), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1e9, 1, 1, 0, 0, 0, 0, time.UTC),
		time.UnixMilli(math.MinInt64).Add(-time.Hour), // in milliseconds far in the future
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)),
	} {
		change := versioning.Change{At: at}
		for what, fn := range map[string]func() error{
			"Change.At: create":            func() error { return second(d.Insert(ctx, counter{ID: "b"}, change)) },
			"Change.At: save":              func() error { return second(d.Save(ctx, changed, change)) },
			"Change.At: save of no change": func() error { return second(d.Save(ctx, r, change)) },
			"Change.At: save many":         func() error { return second(d.SaveMany(ctx, each(&changed), change, nil)) },
			"Change.At: update": func() error {
				return second(d.Edit(ctx, "a", func(*counter) error { t.Error("fn ran"); return nil }, change))
			},
			"Change.At: delete":  func() error { return d.Delete(ctx, "a", 1, change) },
			"Change.At: restore": func() error { return second(d.Restore(ctx, "a", 1, change)) },
			"Change.At: undo":    func() error { return second(d.Undo(ctx, "a", 2, change)) },
			"Change.At: adopt": func() error {
				result, err := d.Adopt(ctx, func(bson.Raw) versioning.Change { return change }, nil)
				if err == nil && result.Failed == 1 {
					err = fmt.Errorf("versioning: adopt: %w", result.Failures[0].Err)
				}
				return err
			},
			"moment: as of":           func() error { return second(d.AsOf(ctx, "a", at)) },
			"Retention.Before: prune": func() error { return second(d.Prune(ctx, versioning.Retention{Before: at}, nil)) },
		} {
			err := fn()
			wantErr(t, what, err, mongopatterns.ErrInvalid)
			argument := what[:strings.LastIndex(what, ": ")]
			if err == nil || !strings.Contains(err.Error(), argument) || !strings.Contains(err.Error(), "years 1 to 9999") {
				t.Errorf("%s at %v: %v", what, at, err)
			}
		}
	}
	if n := testkit.Count(t, db.Collection("revisions"), bson.D{}); n != 0 || get(t)(d.Get(ctx, "a")).Number != 1 {
		t.Errorf("%d revisions", n)
	}
	// One that is the zero time in milliseconds is now, as that is.
	for id, at := range map[string]time.Time{"zero": {}, "almost": time.Time{}.Add(999 * time.Microsecond)} {
		get(t)(d.Insert(ctx, counter{ID: id}, by("", "", at)))
		if got := get(t)(d.Get(ctx, id)).Change.At; time.Since(got) > time.Hour {
			t.Errorf("%v: %v", at, got)
		}
	}
	// The first and the last one are stored, and those that follow raised.
	get(t)(d.Edit(ctx, "old", func(c *counter) error { c.N = 1; return nil }, by("", "", time.Time{}.Add(time.Millisecond))))
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	for n, at := range []time.Time{last, {}} {
		r = get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = n + 1; return nil }, by("", "", at)))
		if _, err := json.Marshal(r); err != nil || n == 1 && !r.Change.At.Equal(last) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if r := get(t)(d.AsOf(ctx, "a", last)); r.Number != 3 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"2: time ahead", "3: time ahead"}, found(t, d)); diff != "" { // which Repair leaves
		t.Errorf("check (-want +got):\n%s", diff)
	}
}

// A type without _id, and an _id that is not the first field.
func TestIDFields(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	type text struct {
		Text string `bson:"text"`
	}
	d := helper[string, text](t, db, nil)
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "text", Value: "x"}}); err != nil {
		t.Fatal(err)
	}
	r := must[versioning.Revision[text]](t)(d.Get(ctx, "a"))
	r.Document.Text = "y"
	r = must[versioning.Revision[text]](t)(d.Save(ctx, r, nobody))
	r.Document.Text = "z"
	if err := saveOne(ctx, d, r); err != nil {
		t.Error(err)
	}
	_, err := d.Save(ctx, versioning.Revision[text]{Number: 3}, nobody)
	wantErr(t, "by hand", err, mongopatterns.ErrInvalid)
	testkit.Healthy(t, d)

	last := helper[string, bson.D](t, mongotest.Database(t), nil)
	other := must[versioning.Revision[bson.D]](t)(last.Insert(ctx, bson.D{{Key: "x", Value: 1}, {Key: "_id", Value: "a"}}, nobody))
	if other.Document[0].Key != "_id" {
		t.Errorf("%v", other.Document)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	get(t)(d.Insert(ctx, counter{ID: "a", N: 1}, nobody))
	raw := must[bson.Raw](t)(db.Collection("current").FindOne(ctx, bson.D{{Key: "n", Value: 1}}).Raw())
	r := get(t)(d.Decode(raw))
	r.Document.N = 2
	if r = get(t)(d.Save(ctx, r, nobody)); r.Number != 2 {
		t.Errorf("%+v", r)
	}
	if _, err := d.Decode(raw[:5]); err == nil {
		t.Error("a damaged document was decoded")
	}
}

// A revision made by hand does not say what was read, so a save of it leaves ignored fields as they
// are, whether T has them or not.
func TestIgnoredOfARevisionByHand(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	opts := &versioning.Options{Ignored: []string{"last_seen", "hits", "tags"}}
	d, docs := helper[string, counter](t, db, opts), helper[string, bson.D](t, db, opts)
	r := get(t)(d.Insert(ctx, counter{ID: "a", LastSeen: month(1)}, nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "hits", Value: 5}, {Key: "tags", Value: bson.A{"x"}}}}}); err != nil {
		t.Fatal(err)
	}
	for i, save := range []func(n int64) error{
		func(n int64) error {
			_, err := d.Save(ctx, revision{Number: n, Document: counter{ID: "a", N: int(n)}}, nobody)
			return err
		},
		func(n int64) error { // of an older number, raised by hand
			r.Number, r.Document = n, counter{ID: "a", N: int(n), LastSeen: month(9)}
			_, err := d.Save(ctx, r, nobody)
			return err
		},
		func(n int64) error {
			return saveOne(ctx, d, revision{Number: n, Document: counter{ID: "a", N: int(n)}})
		},
		func(n int64) error {
			_, err := docs.Save(ctx, versioning.Revision[bson.D]{Number: n, Document: bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: n}, {Key: "tags", Value: bson.A{}}}}, nobody)
			return err
		},
	} {
		n := int64(i + 1)
		if err := save(n); err != nil {
			t.Fatal(err)
		}
		stored := all(t, db.Collection("current"), bson.D{})[0]
		now := get(t)(d.Get(ctx, "a"))
		if now.Number != n+1 || now.Document.N != int(n) || !now.Document.LastSeen.Equal(month(1)) || testkit.Get(stored, "hits") != int32(5) || len(testkit.Get(stored, "tags").(bson.A)) != 1 {
			t.Errorf("%d: %v", i, stored)
		}
	}
	// Only ignored fields differ: nothing is written.
	if same := get(t)(d.Save(ctx, revision{Number: 5, Document: counter{ID: "a", N: 4}}, nobody)); same.Number != 5 || !same.Document.LastSeen.Equal(month(1)) {
		t.Errorf("%+v", same)
	}
	testkit.Healthy(t, d)
}

// The history does not show ignored fields: a save of a revision from it leaves them as they are.
func TestSaveOfWhatTheHistoryReturned(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, &versioning.Options{Ignored: []string{"last_seen", "hits"}})
	get(t)(d.Insert(ctx, counter{ID: "a", LastSeen: month(1)}, nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "hits", Value: 5}}}}); err != nil {
		t.Fatal(err)
	}
	want := func(what string, n int64) {
		t.Helper()
		now := get(t)(d.Get(ctx, "a"))
		if now.Number != n || now.Document.N != int(n)-1 || !now.Document.LastSeen.Equal(month(1)) || testkit.Get(all(t, db.Collection("current"), bson.D{})[0], "hits") != int32(5) {
			t.Errorf("%s: %+v", what, now)
		}
	}
	r := get(t)(d.At(ctx, "a", 1))
	if same := get(t)(d.Save(ctx, r, nobody)); same.Number != 1 || !same.Document.LastSeen.Equal(month(1)) {
		t.Errorf("unchanged: %+v", same)
	}
	want("unchanged", 1)
	r.Document.N = 1
	saved := get(t)(d.Save(ctx, r, nobody))
	want("saved", 2)
	if !saved.Document.LastSeen.Equal(month(1)) {
		t.Errorf("saved %+v", saved)
	}
	r = get(t)(d.AsOf(ctx, "a", time.Now().Add(time.Hour)))
	r.Document.N = 2
	if err := saveOne(ctx, d, r); err != nil {
		t.Error(err)
	}
	want("saved many", 3)
	for r, err := range d.Revisions(ctx, "a") {
		if err != nil {
			t.Fatal(err)
		}
		r.Document.N += 10
		if r.Number == 3 {
			r.Document.N = 3
			get(t)(d.Save(ctx, r, nobody))
			continue
		}
		_, err := d.Save(ctx, r, nobody)
		wantConflict(t, "history", err, r.Number, 4)
	}
	want("of the history", 4)
	// An old state under the number that is current.
	for n, save := range []func(r revision) error{
		func(r revision) error { _, err := d.Save(ctx, r, nobody); return err },
		func(r revision) error { return saveOne(ctx, d, r) },
	} {
		r = get(t)(d.At(ctx, "a", 1))
		r.Number, r.Document.N = int64(n+4), n+4
		if err := save(r); err != nil {
			t.Fatal(err)
		}
		want("an old state", int64(n+5))
	}
	testkit.Healthy(t, d)
}

// Deltas stay readable after SnapshotEvery has become smaller.
func TestSmallerSnapshotEvery(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, note](t, db, &versioning.Options{SnapshotEvery: 20})
	r := must[versioning.Revision[note]](t)(d.Insert(ctx, note{"a", 1, strings.Repeat("long ", 200)}, nobody))
	for r.Number < 9 {
		r.Document.N++
		r = must[versioning.Revision[note]](t)(d.Save(ctx, r, nobody))
	}
	d = helper[string, note](t, db, &versioning.Options{SnapshotEvery: 3})
	for n := range int64(9) {
		if r := must[versioning.Revision[note]](t)(d.At(ctx, "a", n+1)); r.Document.N != int(n+1) {
			t.Errorf("%d: %+v", n+1, r)
		}
	}
}

type note struct {
	ID   string `bson:"_id"`
	N    int    `bson:"n"`
	Text string `bson:"text"`
}

// A duplicate field, written by another program, stays where nobody changes it. A T that changes it
// can read what it has saved, if the server accepts it.
func TestFieldTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	current := db.Collection("current")
	twice := bson.D{{Key: "_id", Value: "a"}, {Key: "x", Value: 1}, {Key: "n", Value: 1}, {Key: "n", Value: 2}}
	if _, err := current.InsertOne(ctx, twice); err != nil {
		t.Fatal(err)
	}
	docs := helper[string, bson.D](t, db, nil)
	r := must[versioning.Revision[bson.D]](t)(docs.Get(ctx, "a"))
	moved := bson.D{twice[0], twice[2], twice[1], twice[3]} // by another program
	if _, err := current.ReplaceOne(ctx, bson.D{}, moved); err != nil {
		t.Fatal(err)
	}
	r.Document[1].Value = 2
	r = must[versioning.Revision[bson.D]](t)(docs.Save(ctx, r, nobody))
	if r.Document[1].Value != int32(1) || r.Document[3].Value != int32(2) || testkit.Get(r.Document, "x") != int32(2) {
		t.Errorf("%v", r.Document)
	}
	d := helper[string, counter](t, db, nil)
	_, err := d.Edit(ctx, "a", func(c *counter) error { c.N = 9; return nil }, nobody)
	if r := get(t)(d.Get(ctx, "a")); (r.Document.N == 9) != (err == nil) {
		t.Errorf("%+v, %v", r, err)
	}
}

// No number after 2^63-2 could be read.
func TestLastNumber(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	last := int64(math.MaxInt64 - 1)
	if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "revision", Value: last}}); err != nil {
		t.Fatal(err)
	}
	_, err := d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody)
	wantErr(t, "update", err, mongopatterns.ErrInvalid)
	wantErr(t, "delete", d.Delete(ctx, "a", last, nobody), mongopatterns.ErrInvalid)
	if r := get(t)(d.Get(ctx, "a")); r.Number != last || r.Document.N != 0 {
		t.Errorf("%+v", r)
	}
}

// A revision is undone and later ones stay; if they have changed the same value, the error is a
// conflict that names it.
func TestUndo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, every := range []int{1, 5} {
		db := mongotest.Database(t)
		d := helper[string, Policy](t, db, &versioning.Options{SnapshotEvery: every})
		undo := must[versioning.Revision[Policy]](t)
		r := undo(d.Insert(ctx, Policy{ID: "bilbo", Name: "Bilbo", Policy: long, Items: []string{"Mail"}}, nobody))
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
		testkit.Healthy(t, d)
	}
}

// A second Undo takes back nothing. Where a later revision has changed the same array, the element that it looks for can
// be another one.
func TestUndoAgain(t *testing.T) {
	t.Parallel()
	type list struct {
		ID    string `bson:"_id"`
		Name  string `bson:"name,omitempty"`
		Items []int  `bson:"items"`
	}
	for name, test := range map[string]struct {
		was, changed, later list
		once, twice         list
		err                 error
	}{
		"a value":         {list{Name: "b"}, list{Name: "c"}, list{Name: "c", Items: []int{1}}, list{Name: "b", Items: []int{1}}, list{Name: "b", Items: []int{1}}, nil},
		"a new field":     {list{}, list{Name: "c"}, list{Name: "c", Items: []int{1}}, list{Items: []int{1}}, list{Items: []int{1}}, nil},
		"an array":        {list{Items: []int{1}}, list{Items: []int{1, 2}}, list{Name: "b", Items: []int{1, 2}}, list{Name: "b", Items: []int{1}}, list{Name: "b", Items: []int{1}}, nil},
		"beside another":  {list{Items: []int{}}, list{Items: []int{1}}, list{Items: []int{1, 2}}, list{Items: []int{2}}, list{Items: []int{2}}, mongopatterns.ErrConflict},
		"beside an equal": {list{Items: []int{}}, list{Items: []int{1}}, list{Items: []int{1, 1}}, list{Items: []int{1}}, list{Items: []int{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			d := helper[string, list](t, mongotest.Database(t), nil)
			for _, state := range []*list{&test.was, &test.changed, &test.later, &test.once, &test.twice} {
				state.ID = "a"
			}
			r := must[versioning.Revision[list]](t)(d.Insert(ctx, test.was, nobody))
			for _, state := range []list{test.changed, test.later} {
				r.Document = state
				r = must[versioning.Revision[list]](t)(d.Save(ctx, r, nobody))
			}
			r = must[versioning.Revision[list]](t)(d.Undo(ctx, "a", 2, nobody))
			testkit.Equal(t, test.once, r.Document)
			_, err := d.Undo(ctx, "a", 2, nobody)
			testkit.Is(t, err, test.err)
			testkit.Equal(t, test.twice, must[versioning.Revision[list]](t)(d.Get(ctx, "a")).Document)
		})
	}
}

// What other code writes after a save counts as a change of that revision. Undo and Restore take it back, except in
// Options.Ignored.
func TestUndoOfWhatOthersWrote(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, bson.M](t, db, &versioning.Options{Ignored: []string{"seen"}})
	must[versioning.Revision[bson.M]](t)(d.Insert(ctx, bson.M{"_id": "a", "paid": false}, nobody))
	again := func(what string, call func() (versioning.Revision[bson.M], error), number int64) {
		t.Helper()
		testkit.Update(t, db.Collection("current"), d.Filter("a"), doc("$set", doc("paid", true, "till", 7, "seen", number)))
		r := must[versioning.Revision[bson.M]](t)(call())
		delete(r.Document, "revision")
		delete(r.Document, "change")
		testkit.Equal(t, bson.M{"_id": "a", "paid": false, "seen": number}, r.Document)
		if r.Number != number {
			t.Errorf("%s: revision %d, want %d", what, r.Number, number)
		}
	}
	edit := func(m *bson.M) error { (*m)["room"] = 1; return nil }
	must[versioning.Revision[bson.M]](t)(d.Edit(ctx, "a", edit, nobody))
	again("undo", func() (versioning.Revision[bson.M], error) { return d.Undo(ctx, "a", 2, nobody) }, 3)
	again("restore", func() (versioning.Revision[bson.M], error) { return d.Restore(ctx, "a", 1, nobody) }, 4)
	at := must[versioning.Revision[bson.M]](t)(d.At(ctx, "a", 2))
	if at.Document["till"] != int32(7) || at.Document["seen"] != nil {
		t.Errorf("revision 2 shows %v", at.Document)
	}
	testkit.Healthy(t, d)
}

// Without a history saves detect conflicts, need no transaction, and keep what others write
// meanwhile.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	opts := &versioning.Options{NoHistory: true}
	if _, err := versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), opts); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("%v", err)
	}
	d := must[*versioning.History[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), nil, opts))
	costs.Record(t, db, 0, nil, func() error { return nil })
	if err := d.EnsureIndexes(ctx); err != nil || len(d.Indexes()) != 0 || len(d.ShardKey()) != 1 {
		t.Error(err)
	}
	var r revision
	set := func(fn func() (revision, error)) func() error {
		return func() (err error) { r, err = fn(); return err }
	}
	costs.Record(t, db, 1, []string{"insert"}, set(func() (revision, error) { return d.Insert(ctx, counter{ID: "a"}, nobody) }))
	stale := r
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$inc", Value: bson.D{{Key: "hits", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	r.Document.N, r.Document.Note = 1, "x"
	costs.Record(t, db, 1, []string{"findAndModify"}, set(func() (revision, error) { return d.Save(ctx, r, by("me", "", month(0))) }))
	costs.Record(t, db, 1, []string{"find", "findAndModify"}, set(func() (revision, error) {
		return d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, by("me", "", month(1)))
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
	if testkit.Get(doc, "hits") != int32(1) || testkit.Get(doc, "n") != int32(3) || testkit.Get(doc, "note") != "x" || testkit.Get(doc, "revision") != int64(4) {
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
	testkit.Healthy(t, d)
	if result, err := d.Prune(ctx, versioning.Retention{Keep: 1}, nil); err != nil || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	costs.Record(t, db, 1, []string{"findAndModify"}, func() error { return d.Delete(ctx, "a", 4, nobody) })
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
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, change))
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

// New fields inside an ignored document do not take back what others wrote there.
func TestIgnoredInsideIsKept(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	docs := helper[string, bson.D](t, db, &versioning.Options{Ignored: []string{"stats"}})
	r := must[versioning.Revision[bson.D]](t)(docs.Insert(ctx, doc("_id", "a", "n", 1, "stats", doc("views", 1)), nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, doc("_id", "a"), doc("$inc", doc("stats.views", 10))); err != nil {
		t.Fatal(err)
	}
	r.Document = doc("_id", "a", "n", 1, "stats", doc("views", 1, "p", 1, "q", 1))
	must[versioning.Revision[bson.D]](t)(docs.Save(ctx, r, nobody))
	stats, _ := testkit.Get(all(t, db.Collection("current"), doc("_id", 1))[0], "stats").(bson.D)
	if testkit.Get(stats, "views") != int32(11) || testkit.Get(stats, "q") != int32(1) {
		t.Errorf("%v", stats)
	}
}

// Other code has put null where a document was, in which a field changes.
func TestSaveIntoNull(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	docs := helper[string, bson.D](t, db, nil)
	r := must[versioning.Revision[bson.D]](t)(docs.Insert(ctx, doc("_id", "a", "sub", doc("x", 1, "y", 1)), nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, doc("_id", "a"), doc("$set", doc("sub", nil))); err != nil {
		t.Fatal(err)
	}
	r.Document = doc("_id", "a", "sub", doc("x", 2, "y", 1))
	costs.Record(t, db, 2, []string{"findAndModify", "abortTransaction", "find", "findAndModify", "insert", "commitTransaction"},
		func() error { _, err := docs.Save(ctx, r, nobody); return err })
	sub, _ := testkit.Get(all(t, db.Collection("current"), doc("_id", 1))[0], "sub").(bson.D)
	if testkit.Get(sub, "x") != int32(2) {
		t.Errorf("%v", sub)
	}
}

// A document inserted again with another type of number as its _id can be restored, and the result
// of Edit has its _id even if the function removed it.
func TestIDsStay(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	docs := helper[any, bson.D](t, mongotest.Database(t), nil)
	r := must[versioning.Revision[bson.D]](t)(docs.Insert(ctx, doc("_id", int32(1), "n", 1), nobody))
	if err := docs.Delete(ctx, int32(1), r.Number, nobody); err != nil {
		t.Fatal(err)
	}
	must[versioning.Revision[bson.D]](t)(docs.Insert(ctx, doc("_id", 1.0, "n", 2), nobody))
	if r = must[versioning.Revision[bson.D]](t)(docs.Restore(ctx, int32(1), 1, nobody)); testkit.Get(r.Document, "n") != int32(1) {
		t.Errorf("%+v", r)
	}
	r = must[versioning.Revision[bson.D]](t)(docs.Edit(ctx, 1, func(d *bson.D) error { *d = doc("n", 3); return nil }, nobody))
	if testkit.Get(r.Document, "_id") != 1.0 {
		t.Errorf("%+v", r)
	}
}

// nested has so many levels of documents, or of arrays, itself included.
func nested(levels int, arrays bool) any {
	var v any = 1
	for range levels {
		if arrays {
			v = bson.A{v}
		} else {
			v = bson.D{{Key: "a", Value: v}}
		}
	}
	return v
}

// A document of 180 levels, the most that the server stores, is one level too deep for a row of the history: it is refused before
// anything is written, and named if other code has written it. One of 179 goes through every call.
func TestDeepest(t *testing.T) {
	t.Parallel()
	for _, arrays := range []bool{false, true} {
		ctx, db := t.Context(), mongotest.Database(t)
		d := helper[string, bson.D](t, db, &versioning.Options{SnapshotEvery: 20, Ignored: []string{"seen"}})
		of := func(id string, levels int) bson.D {
			return bson.D{{Key: "_id", Value: id}, {Key: "x", Value: nested(levels-1, arrays)}}
		}
		refused := func(call string, err error) {
			t.Helper()
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "179 levels") {
				t.Errorf("%s: %v", call, err)
			}
		}
		var err error
		sent := mongotest.Record(t, db, func() { _, err = d.Insert(ctx, of("a", 180), nobody) })
		refused("insert", err)
		r := must[versioning.Revision[bson.D]](t)(d.Insert(ctx, of("a", 179), nobody))
		flat := must[versioning.Revision[bson.D]](t)(d.Insert(ctx, of("flat", 2), nobody))
		sent = append(sent, mongotest.Record(t, db, func() {
			changed := r
			changed.Document = of("a", 180)
			_, err = d.Save(ctx, changed, nobody)
			refused("save", err)
		})...)
		if len(sent) > 0 {
			t.Errorf("sent %v", sent.Names())
		}
		flat.Document = of("flat", 180)
		_, err = d.SaveMany(ctx, each(&flat), nobody, nil)
		refused("save many", err)

		r.Document[1].Value = nested(177, arrays) // its delta would have twice as many levels
		r = must[versioning.Revision[bson.D]](t)(d.Save(ctx, r, nobody))
		r.Document = append(r.Document, bson.E{Key: "seen", Value: nested(178, arrays)})
		r = must[versioning.Revision[bson.D]](t)(d.Save(ctx, r, nobody))
		must[versioning.Revision[bson.D]](t)(d.Restore(ctx, "a", 1, nobody))
		if err := d.Delete(ctx, "a", 3, nobody); err != nil {
			t.Error(err)
		}
		testkit.Healthy(t, d)

		current := db.Collection("current")
		testkit.Insert(t, current, of("other", 180), of("fits", 179))
		if found := testkit.Problems(t, d); len(found) != 1 || !strings.Contains(found[0], "other") || !strings.Contains(found[0], "179 levels") {
			t.Error(found)
		}
		result := must[mongopatterns.Result](t)(d.Adopt(ctx, nil, nil))
		if result.Done != 1 || result.Failed != 1 {
			t.Fatalf("%+v", result)
		}
		refused("adopt", result.Failures[0].Err)
		other := must[versioning.Revision[bson.D]](t)(d.Get(ctx, "other"))
		other.Document = of("other", 2)
		_, err = d.Save(ctx, other, nobody)
		refused("save of what is stored", err)
		refused("delete", d.Delete(ctx, "other", 1, nobody))
	}
}
