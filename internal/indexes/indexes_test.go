package indexes_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func models() []mongo.IndexModel {
	return []mongo.IndexModel{
		{Keys: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: -1}}},
		{Keys: bson.D{{Key: "u", Value: 1}}, Options: options.Index().SetUnique(true).
			SetPartialFilterExpression(bson.D{{Key: "u", Value: bson.D{{Key: "$exists", Value: true}}}})},
		{Keys: bson.D{{Key: "c", Value: 1}}, Options: options.Index().SetCollation(&options.Collation{Locale: "en", Strength: 2})},
		{Keys: bson.D{{Key: "d", Value: 1}}, Options: options.Index().SetCollation(&options.Collation{Locale: "en"})},
		{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(60)},
	}
}

func names(t *testing.T, coll *mongo.Collection) []string {
	t.Helper()
	specs, err := coll.Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range specs {
		out = append(out, spec.Name)
	}
	slices.Sort(out)
	return out
}

func TestEnsure(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("c")
	ensure := func() {
		if err := indexes.Ensure(t.Context(), coll, models()); err != nil {
			t.Error(err)
		}
	}
	first := mongotest.Record(t, db, ensure)
	if diff := cmp.Diff([]string{"listIndexes", "createIndexes"}, first.Names()); diff != "" {
		t.Errorf("first time (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"_id_", "a_1_b_-1", "at_1", "c_1", "d_1", "u_1"}, names(t, coll)); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
	second := mongotest.Record(t, db, ensure)
	if diff := cmp.Diff([]string{"listIndexes"}, second.Names()); diff != "" {
		t.Errorf("second time (-want +got):\n%s", diff)
	}
}

func TestAnIndexOfAnotherNameServes(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("c")
	mine := mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1.0}, {Key: "b", Value: int64(-1)}}, Options: options.Index().SetName("mine")}
	if _, err := coll.Indexes().CreateOne(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if err := indexes.Ensure(t.Context(), coll, models()[:1]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"_id_", "mine"}, names(t, coll)); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
}

// Indexes that differ in the collation stand side by side, whatever differs in it; and
// what the server completes by the locale is no other collation.
func TestCollations(t *testing.T) {
	coll := mongotest.Database(t).Collection("c")
	var models []mongo.IndexModel
	for name, collation := range map[string]options.Collation{
		"two": {Locale: "en", Strength: 2}, "three": {Locale: "en"}, "shifted": {Locale: "en", Alternate: "shifted"},
		"upper": {Locale: "en", CaseFirst: "upper"}, "danish": {Locale: "da"}, "thai": {Locale: "th"}, "canadian": {Locale: "fr_CA"},
	} {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1}}, Options: options.Index().SetName(name).SetCollation(&collation)})
	}
	for _, model := range append(models, models...) {
		if err := indexes.Ensure(t.Context(), coll, []mongo.IndexModel{model}); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, coll); len(got) != 1+len(models) {
		t.Errorf("indexes %v", got)
	}
	other := mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1}}, Options: options.Index().SetName("two").SetCollation(&options.Collation{Locale: "en", Strength: 1})}
	if err := indexes.Ensure(t.Context(), coll, []mongo.IndexModel{other}); !errors.Is(err, fault.ErrIndexConflict) {
		t.Errorf("another collation under the name: %v", err)
	}
}

func TestConflictChangesNothing(t *testing.T) {
	for name, existing := range map[string]mongo.IndexModel{
		"not unique":    {Keys: bson.D{{Key: "u", Value: 1}}, Options: options.Index().SetPartialFilterExpression(bson.D{{Key: "u", Value: bson.D{{Key: "$exists", Value: true}}}})},
		"same name":     {Keys: bson.D{{Key: "z", Value: 1}}, Options: options.Index().SetName("a_1_b_-1")},
		"other expiry":  {Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(61)},
		"never expires": {Keys: bson.D{{Key: "at", Value: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			coll := mongotest.Database(t).Collection("c")
			if _, err := coll.Indexes().CreateOne(t.Context(), existing); err != nil {
				t.Fatal(err)
			}
			before := names(t, coll)
			err := indexes.Ensure(t.Context(), coll, models())
			if !errors.Is(err, fault.ErrIndexConflict) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(before, names(t, coll)); diff != "" {
				t.Errorf("indexes changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Documents that a unique index does not allow are the caller's to mend, so the error has their key.
func TestKeysThatAreTaken(t *testing.T) {
	coll := mongotest.Database(t).Collection("c")
	if _, err := coll.InsertMany(t.Context(), []any{bson.D{{Key: "u", Value: "x"}}, bson.D{{Key: "u", Value: "x"}}}); err != nil {
		t.Fatal(err)
	}
	unique := mongo.IndexModel{Keys: bson.D{{Key: "u", Value: 1}}, Options: options.Index().SetUnique(true)}
	err := indexes.Ensure(t.Context(), coll, []mongo.IndexModel{unique})
	if !errors.Is(err, fault.ErrMalformed) || !mongo.IsDuplicateKeyError(err) || !strings.Contains(err.Error(), `{ u: "x" }`) {
		t.Error(err)
	}
}

// An index on other keys has the name that the server would give to a missing one: the error says which, and with a
// name of the caller's for the new one there is no conflict.
func TestANameThatIsTaken(t *testing.T) {
	coll := mongotest.Database(t).Collection("c")
	create := func(keys bson.D, name string) {
		if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys, Options: options.Index().SetName(name)}); err != nil {
			t.Fatal(err)
		}
	}
	create(bson.D{{Key: "z", Value: 1}}, "a_1_b_-1")
	err := indexes.Ensure(t.Context(), coll, models())
	if !errors.Is(err, fault.ErrIndexConflict) || !strings.Contains(err.Error(), `"a_1_b_-1"`) || strings.Contains(err.Error(), "documentation") ||
		!errors.As(err, new(mongo.CommandError)) {
		t.Error(err)
	}
	create(bson.D{{Key: "a", Value: 1}, {Key: "b", Value: -1}}, "mine")
	if err := indexes.Ensure(t.Context(), coll, models()); err != nil {
		t.Error(err)
	}
}

// An index that begins with the field will do, unless it leaves out documents or orders them otherwise.
func TestEnsureFirst(t *testing.T) {
	db := mongotest.Database(t)
	partial := options.Index().SetPartialFilterExpression(bson.D{{Key: "a", Value: bson.D{{Key: "$exists", Value: true}}}})
	for name, test := range map[string]struct {
		keys bson.D
		opts *options.IndexOptionsBuilder
		will bool
	}{
		"alone":     {bson.D{{Key: "a", Value: 1}}, nil, true},
		"first":     {bson.D{{Key: "a", Value: -1}, {Key: "b", Value: 1}}, nil, true},
		"unique":    {bson.D{{Key: "a", Value: 1}}, options.Index().SetUnique(true), true},
		"second":    {bson.D{{Key: "b", Value: 1}, {Key: "a", Value: 1}}, nil, false},
		"hashed":    {bson.D{{Key: "a", Value: "hashed"}}, nil, false},
		"sparse":    {bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, options.Index().SetSparse(true), false},
		"partial":   {bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, partial, false},
		"collation": {bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, options.Index().SetCollation(&options.Collation{Locale: "en"}), false},
	} {
		coll := db.Collection(name)
		if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: test.keys, Options: test.opts}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := indexes.EnsureFirst(t.Context(), coll, bson.D{{Key: "a", Value: 1}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(names(t, coll)); n != map[bool]int{true: 2, false: 3}[test.will] {
			t.Errorf("%s: %v", name, names(t, coll))
		}
	}
}

// No query uses a hidden index, so it does not count, and the server would not create it once more: Ensure and
// EnsureFirst say so, and do nothing.
func TestAHiddenIndex(t *testing.T) {
	coll := mongotest.Database(t).Collection("c")
	create := func(keys bson.D, opts *options.IndexOptionsBuilder) {
		t.Helper()
		if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys, Options: opts}); err != nil {
			t.Fatal(err)
		}
	}
	create(bson.D{{Key: "a", Value: 1}, {Key: "b", Value: -1}}, options.Index().SetHidden(true))
	create(bson.D{{Key: "c", Value: 1}}, options.Index().SetHidden(true))
	before := names(t, coll)
	for name, err := range map[string]error{
		"a_1_b_-1": indexes.Ensure(t.Context(), coll, models()), "c_1": indexes.EnsureFirst(t.Context(), coll, bson.D{{Key: "c", Value: 1}}),
	} {
		if !errors.Is(err, fault.ErrIndexConflict) || !strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, names(t, coll)); diff != "" {
		t.Errorf("indexes changed (-before +after):\n%s", diff)
	}
	if err := indexes.EnsureFirst(t.Context(), coll, bson.D{{Key: "a", Value: 1}}); err != nil { // beside the hidden one of several fields
		t.Error(err)
	}
	create(bson.D{{Key: "c", Value: 1}, {Key: "d", Value: 1}}, nil)
	if err := indexes.EnsureFirst(t.Context(), coll, bson.D{{Key: "c", Value: 1}}); err != nil { // another one will do
		t.Error(err)
	}
}
