package scope_test

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// open is the scope {tenant: "a", year: 7}.
func open(t *testing.T) *scope.Scope {
	t.Helper()
	return testkit.Must(scope.New(codec.Codec{}, testkit.D("tenant", "a", "year", 7)))
}

// text is a value as extended JSON.
func text(t *testing.T, v any) string {
	t.Helper()
	return string(testkit.Value[[]byte](t)(bson.MarshalExtJSON(testkit.D("v", v), false, false)))
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if text(t, got) != text(t, want) {
		t.Errorf("%s: %s, not %s", what, text(t, got), text(t, want))
	}
}

func TestNone(t *testing.T) {
	none := testkit.Must(scope.New(codec.Codec{}, nil))
	filter, update, stages := testkit.D("_id", 1), testkit.D("$set", testkit.D("tenant", "b")), mongo.Pipeline{}
	same(t, "filter", none.Filter(filter), filter)
	same(t, "update", testkit.Must(none.Update(update)), update)
	same(t, "document", testkit.Must(none.Document(filter)), filter)
	same(t, "pipeline", testkit.Must(none.Pipeline(stages)), stages)
	same(t, "keys", none.Keys(filter), filter)
	if none != nil || none.Has("tenant") || none.Label("c") != "c" {
		t.Errorf("%v, %q", none, none.Label("c"))
	}
}

func TestValuesThatNoScopeHas(t *testing.T) {
	for _, v := range []any{nil, bson.A{1}, bson.Regex{Pattern: "x"}, func() {}, bson.M{"a": 1, "b": 2}} {
		if _, err := scope.New(codec.Codec{}, testkit.D("tenant", v)); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// A filter keeps what it asks, also of the fields of the scope.
func TestFilter(t *testing.T) {
	s, all := open(t), testkit.D("tenant", "a", "year", 7)
	same(t, "none", s.Filter(nil), all)
	same(t, "an _id", s.Filter(testkit.D("_id", 1)), testkit.D("tenant", "a", "year", 7, "_id", 1))
	other := testkit.D("tenant", "b")
	same(t, "another tenant", s.Filter(other), testkit.D("$and", bson.A{all, other}))
	same(t, "a map", s.Filter(bson.M{"n": 1}), testkit.D("$and", bson.A{all, bson.M{"n": 1}}))
	same(t, "twice", s.Filter(s.Match(testkit.D("_id", 1))), s.Match(testkit.D("_id", 1)))
	same(t, "the scope afterwards", s.Filter(nil), all)
}

// What a filter or a pipeline of a package was changed to by the caller does not show in the next.
func TestFresh(t *testing.T) {
	s := testkit.Must(scope.New(codec.Codec{}, testkit.D("tenant", testkit.D("name", "a"))))
	before := text(t, s.Match(nil))
	s.Match(nil)[0].Value.(bson.D)[0].Value = "changed"
	s.Stages(nil)[0][0].Value.(bson.D)[0].Value.(bson.D)[0].Value = "changed"
	if after := text(t, s.Match(nil)); after != before {
		t.Errorf("%s, then %s", before, after)
	}
}

// A $match in the first place stays there, because $text may not stand elsewhere.
func TestPipeline(t *testing.T) {
	s, all, limit := open(t), testkit.D("tenant", "a", "year", 7), testkit.D("$limit", 1)
	first, merged := testkit.D("$match", testkit.D("n", 1)), testkit.D("$match", testkit.D("tenant", "a", "year", 7, "n", 1))
	for name, p := range map[string][2]any{
		"empty":     {mongo.Pipeline{}, bson.A{testkit.D("$match", all)}},
		"no $match": {mongo.Pipeline{limit}, bson.A{testkit.D("$match", all), limit}},
		"a $match":  {mongo.Pipeline{first, limit}, bson.A{merged, limit}},
		"an array":  {bson.A{first, expr.Raw(limit)}, bson.A{merged, limit}},
		"encoded":   {expr.Pipeline(limit), bson.A{testkit.D("$match", all), limit}},
		"encoded, with a $match": {expr.Pipeline(first, limit),
			bson.A{testkit.D("$match", testkit.D("$and", bson.A{all, testkit.D("n", 1)})), limit}},
	} {
		same(t, name, testkit.Must(s.Pipeline(p[0])), p[1])
	}
	for _, p := range []any{nil, bson.A{1}, limit} {
		if _, err := s.Pipeline(p); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func TestDocument(t *testing.T) {
	s := open(t)
	same(t, "without", testkit.Must(s.Document(bson.M{"_id": 1})), testkit.D("_id", 1, "tenant", "a", "year", 7))
	same(t, "with", testkit.Must(s.Document(testkit.D("tenant", "a", "_id", 1, "year", 7.0))), testkit.D("tenant", "a", "_id", 1, "year", 7.0))
	for _, doc := range []any{testkit.D("tenant", "b"), testkit.D("tenant", nil), testkit.D("tenant", ""), 1, nil} {
		for _, err := range []error{testkit.ErrorOf(s.Document(doc)), testkit.ErrorOf(s.Documents([]any{doc}))} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%v: %v", doc, err)
			}
		}
	}
}

func TestUpdate(t *testing.T) {
	kept := func(field string, literal bson.D) bson.D {
		have := "$" + field
		all := testkit.D("$cond", bson.A{testkit.D("$isArray", bson.A{have}), have, bson.A{have}})
		return testkit.D("$cond", bson.A{testkit.D("$in", bson.A{literal, all}), have, literal})
	}
	s, again := open(t), testkit.D("$set", testkit.D("tenant", kept("tenant", testkit.D("$literal", "a")), "year", kept("year", testkit.D("$literal", 7))))
	for _, update := range []bson.D{
		testkit.D("$set", testkit.D("n", 1, "tenants", 1), "$unset", testkit.D("sub.tenant", "")),
		testkit.D("$set", testkit.D("tenant", "a"), "$setOnInsert", testkit.D("year", 7.0)),
	} {
		same(t, "operators", testkit.Must(s.Update(update)), update)
	}
	stage := testkit.D("$set", testkit.D("tenant", "b"))
	for _, pipeline := range []any{mongo.Pipeline{stage}, bson.A{stage}, []bson.M{{"$set": bson.M{"tenant": "b"}}}} {
		same(t, fmt.Sprintf("%T", pipeline), testkit.Must(s.Update(pipeline)), bson.A{stage, again})
	}
	for _, update := range []any{
		testkit.D("$set", testkit.D("tenant", "b")), testkit.D("$set", testkit.D("tenant.x", "a")), testkit.D("$unset", testkit.D("year", "")),
		testkit.D("$inc", testkit.D("year", 7)), testkit.D("$rename", testkit.D("n", "tenant")), testkit.D("$rename", testkit.D("year", "n")),
		bson.M{"$min": bson.M{"tenant": "a"}}, testkit.D("$setOnInsert", testkit.D("tenant", "b")),
	} {
		if _, err := s.Update(update); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v: %v", update, err)
		}
	}
}

// The caller's models stay as they are, because a transaction may send them again.
func TestModels(t *testing.T) {
	s, id, set := open(t), testkit.D("_id", 1), testkit.D("$set", testkit.D("n", 1))
	filter, doc := testkit.D("tenant", "a", "year", 7, "_id", 1), testkit.D("_id", 1, "tenant", "a", "year", 7)
	models := []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(id),
		mongo.NewReplaceOneModel().SetFilter(id).SetReplacement(id).SetUpsert(true),
		mongo.NewUpdateOneModel().SetFilter(id).SetUpdate(set),
		mongo.NewUpdateManyModel().SetFilter(id).SetUpdate(set),
		mongo.NewDeleteOneModel().SetFilter(id),
		mongo.NewDeleteManyModel().SetFilter(id),
	}
	for range 2 {
		got := testkit.Must(s.Models(models))
		same(t, "insert", got[0].(*mongo.InsertOneModel).Document, doc)
		same(t, "replace", got[1].(*mongo.ReplaceOneModel).Replacement, doc)
		same(t, "upsert", got[1].(*mongo.ReplaceOneModel).Upsert, true)
		for _, have := range []any{got[1].(*mongo.ReplaceOneModel).Filter, got[2].(*mongo.UpdateOneModel).Filter, got[3].(*mongo.UpdateManyModel).Filter,
			got[4].(*mongo.DeleteOneModel).Filter, got[5].(*mongo.DeleteManyModel).Filter} {
			same(t, "filter", have, filter)
		}
	}
	for _, bad := range []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(testkit.D("tenant", "b")),
		mongo.NewReplaceOneModel().SetFilter(id).SetReplacement(testkit.D("tenant", "b")),
		mongo.NewUpdateOneModel().SetFilter(id).SetUpdate(testkit.D("$set", testkit.D("tenant", "b"))),
		mongo.NewUpdateManyModel().SetFilter(id).SetUpdate(testkit.D("$unset", testkit.D("tenant", ""))),
		nil,
	} {
		if _, err := s.Models(append(models, bad)); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%T: %v", bad, err)
		}
	}
}

// What the server holds equal has one label.
func TestLabel(t *testing.T) {
	of := func(pairs ...any) string {
		return testkit.Must(scope.New(codec.Codec{}, testkit.D(pairs...))).Label("c")
	}
	if of("n", 1, "t", "a") != of("t", "a", "n", 1.0) {
		t.Errorf("%s, %s", of("n", 1, "t", "a"), of("t", "a", "n", 1.0))
	}
	if of("t", "a") == of("t", "b") || of("t", "a n=2") == of("t", "a", "n", 2) {
		t.Error("two scopes have one label")
	}
}

// A pipeline is left to the driver, whose registry may encode what the codec cannot.
func TestPipelineOfTheDriver(t *testing.T) {
	stages := mongo.Pipeline{testkit.D("$set", testkit.D("n", make(chan int)))}
	update := testkit.Must(open(t).Update(stages))
	if got := update.(mongo.Pipeline); len(got) != 2 || len(stages) != 1 {
		t.Errorf("%v", got)
	}
}
