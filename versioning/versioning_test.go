package versioning_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

type Policy struct {
	ID     string   `bson:"_id"`
	Name   string   `bson:"name"`
	Policy string   `bson:"policy"`
	Items  []string `bson:"items"`
}

var start = time.Date(1941, 4, 1, 9, 0, 0, 0, time.UTC)

func month(n int) time.Time { return start.AddDate(0, n, 0) }

func by(author, reason string, at time.Time) versioning.Change {
	return versioning.Change{Author: author, Reason: reason, At: at}
}

var nobody = versioning.Change{}

// helper returns documents in fresh collections with their indexes.
func helper[ID, T any](t testing.TB, db *mongo.Database, opts *versioning.Options) *versioning.History[ID, T] {
	t.Helper()
	d, err := versioning.New[ID, T](db.Collection("current"), db.Collection("revisions"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// must is for calls that have to succeed: must(t)(d.Get(ctx, id)).
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func all(t testing.TB, coll *mongo.Collection, sort bson.D) []bson.D {
	t.Helper()
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(sort))
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.D
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	return docs
}

// of selects one document for the calls that work on all.
func of(id any) *mongopatterns.Work {
	return &mongopatterns.Work{Filter: bson.D{{Key: "_id", Value: id}}}
}

// each yields values for the calls that take many.
func each[T any](values ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// places yields where values are, for SaveMany.
func places[T any](values []T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for i := range values {
			if !yield(&values[i], nil) {
				return
			}
		}
	}
}

// saveOne is SaveMany of one revision; its failure is the error.
func saveOne[ID, T any](ctx context.Context, d *versioning.History[ID, T], r versioning.Revision[T]) error {
	_, err := d.SaveMany(ctx, each(&r), nobody, nil)
	return err
}

func date(t time.Time) bson.DateTime { return bson.NewDateTimeFromTime(t) }

// equal compares revisions without their private fields.
func equal[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(versioning.Revision[Policy]{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Middle-earth insurance: documents as the scenario has them.
func TestScenario(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	current, revisions := db.Collection("current_policies"), db.Collection("policy_revisions")
	policies, err := versioning.New[string, Policy](current, revisions, &versioning.Options{DocumentIDField: "policy_id"})
	if err != nil {
		t.Fatal(err)
	}
	if err := policies.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	get := must[versioning.Revision[Policy]](t)
	p := get(policies.Insert(ctx, Policy{"bilbo", "Bilbo Baggins", "Shire standard", []string{}}, by("frodo", "new customer", month(0))))
	p.Document.Items = append(p.Document.Items, "Elven Sword")
	get(policies.Save(ctx, p, by("elrond", "from the troll cave", month(1))))
	p = get(policies.Edit(ctx, "bilbo", func(p *Policy) error {
		p.Items = append(p.Items, "One Ring")
		return nil
	}, by("gandalf", "found in a cave", month(2))))

	change := func(at time.Time, author, reason string) bson.D {
		return bson.D{{Key: "at", Value: date(at)}, {Key: "author", Value: author}, {Key: "reason", Value: reason}}
	}
	content := func(items ...any) bson.D {
		return bson.D{{Key: "_id", Value: "bilbo"}, {Key: "name", Value: "Bilbo Baggins"}, {Key: "policy", Value: "Shire standard"}, {Key: "items", Value: append(bson.A{}, items...)}}
	}
	equal(t, "current", []bson.D{append(content("Elven Sword", "One Ring"),
		bson.E{Key: "revision", Value: int64(3)}, bson.E{Key: "change", Value: change(month(2), "gandalf", "found in a cave")})},
		all(t, current, bson.D{}))
	stored := all(t, revisions, bson.D{{Key: "revision", Value: 1}})
	for i := range stored {
		if stored[i][0].Key != "_id" {
			t.Fatal(stored[i])
		}
		stored[i] = stored[i][1:]
	}
	equal(t, "revisions", []bson.D{
		{{Key: "policy_id", Value: "bilbo"}, {Key: "revision", Value: int64(1)}, {Key: "change", Value: change(month(0), "frodo", "new customer")}, {Key: "document", Value: content()}},
		{{Key: "policy_id", Value: "bilbo"}, {Key: "revision", Value: int64(2)}, {Key: "change", Value: change(month(1), "elrond", "from the troll cave")}, {Key: "document", Value: content("Elven Sword")}},
	}, stored)

	want := []versioning.Revision[Policy]{
		{Number: 1, Change: by("frodo", "new customer", month(0)), Document: Policy{"bilbo", "Bilbo Baggins", "Shire standard", nil}},
		{Number: 2, Change: by("elrond", "from the troll cave", month(1)), Document: Policy{"bilbo", "Bilbo Baggins", "Shire standard", []string{"Elven Sword"}}},
		{Number: 3, Change: by("gandalf", "found in a cave", month(2)), Document: Policy{"bilbo", "Bilbo Baggins", "Shire standard", []string{"Elven Sword", "One Ring"}}},
	}
	equal(t, "result of Update", want[2], p)
	equal(t, "Get", want[2], get(policies.Get(ctx, "bilbo")))
	for i, w := range want {
		equal(t, "At", w, get(policies.At(ctx, "bilbo", int64(i+1))))
		equal(t, "AsOf", w, get(policies.AsOf(ctx, "bilbo", month(i))))
		equal(t, "AsOf later", w, get(policies.AsOf(ctx, "bilbo", month(i).Add(time.Hour))))
	}
	if _, err := policies.AsOf(ctx, "bilbo", month(0).Add(-time.Millisecond)); !errors.Is(err, mongopatterns.ErrNotFound) {
		t.Errorf("before the first: %v", err)
	}
	equal(t, "History", []versioning.Revision[Policy]{want[2], want[1], want[0]}, testkit.Collect(t, policies.Revisions(ctx, "bilbo")))
	if diff := must[[]versioning.Difference](t)(policies.Diff(ctx, "bilbo", 1, 3)); fmt.Sprint(diff) != `[items.0: added "Elven Sword" items.1: added "One Ring"]` {
		t.Errorf("Diff: %v", diff)
	}
}

// The JSON that a service returns.
func TestJSON(t *testing.T) {
	t.Parallel()
	type doc struct {
		Name string `json:"name"`
	}
	for want, r := range map[string]versioning.Revision[doc]{
		`{"number":2,"change":{"author":"elrond","reason":"found","at":"1941-04-01T09:00:00Z"},"document":{"name":"Bilbo"}}`: {
			Number: 2, Change: by("elrond", "found", month(0)), Document: doc{"Bilbo"}},
		`{"number":3,"change":{"fields":{"ticket":4711}},"lost":true,"document":{"name":""}}`: {
			Number: 3, Lost: true, Change: versioning.Change{Fields: bson.D{{Key: "ticket", Value: 4711}}}},
		`{"number":1,"change":{},"deleted":true,"document":{"name":""}}`: {Number: 1, Deleted: true},
	} {
		if got := string(must[[]byte](t)(json.Marshal(r))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A helper with a small type changes its field and keeps the others, and refuses an older number.
func TestSmallType(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	type name struct {
		ID   string `bson:"_id"`
		Name string `bson:"name"`
	}
	policies, names := helper[string, Policy](t, db, nil), helper[string, name](t, db, nil)
	first := must[versioning.Revision[Policy]](t)(policies.Insert(t.Context(), Policy{"bilbo", "Bilbo", "standard", []string{"Ring"}}, nobody))
	renamed := versioning.Revision[name]{Number: first.Number, Document: name{"bilbo", "Bilbo Baggins"}}
	must[versioning.Revision[name]](t)(names.Save(t.Context(), renamed, nobody))
	got := must[versioning.Revision[Policy]](t)(policies.Get(t.Context(), "bilbo"))
	if diff := cmp.Diff(Policy{"bilbo", "Bilbo Baggins", "standard", []string{"Ring"}}, got.Document); diff != "" {
		t.Error(diff)
	}
	if _, err := names.Save(t.Context(), renamed, nobody); !errors.Is(err, mongopatterns.ErrConflict) {
		t.Error(err)
	}
}

// Undo of a revision is refused where the document has another number than the request names, also if it gets it meanwhile.
func TestUndoUnderANumber(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	policies := helper[string, Policy](t, db, nil)
	must[versioning.Revision[Policy]](t)(policies.Insert(t.Context(), Policy{ID: "bilbo", Name: "Bilbo"}, nobody))
	edit := func(change func(p *Policy)) {
		must[versioning.Revision[Policy]](t)(policies.Edit(t.Context(), "bilbo", func(p *Policy) error { change(p); return nil }, nobody))
	}
	edit(func(p *Policy) { p.Name = "Bilbo Baggins" })
	undo := func(number int64, meanwhile func()) error {
		return mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
			read, err := policies.Get(ctx, "bilbo")
			if err != nil {
				return err
			}
			if read.Number != number {
				return mongopatterns.ErrConflict
			}
			meanwhile()
			_, err = policies.Undo(ctx, "bilbo", 2, nobody)
			return err
		})
	}
	if err := undo(2, func() { edit(func(p *Policy) { p.Policy = "premium" }) }); !errors.Is(err, mongopatterns.ErrConflict) {
		t.Errorf("saved meanwhile: %v", err)
	}
	if err := undo(3, func() {}); err != nil {
		t.Error(err)
	}
	got := must[versioning.Revision[Policy]](t)(policies.Get(t.Context(), "bilbo"))
	if want := (Policy{ID: "bilbo", Name: "Bilbo", Policy: "premium"}); !cmp.Equal(want, got.Document, cmpopts.EquateEmpty()) || got.Number != 4 {
		t.Errorf("%+v", got)
	}
}
