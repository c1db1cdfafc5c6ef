package mongopatterns_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

func raw(t *testing.T, v any) bson.RawValue {
	t.Helper()
	doc, err := bson.Marshal(bson.D{{Key: "v", Value: v}})
	if err != nil {
		t.Fatal(err)
	}
	return bson.Raw(doc).Lookup("v")
}

func TestProblem(t *testing.T) {
	for _, test := range []struct {
		p          mongopatterns.Problem
		text, json string
	}{
		{mongopatterns.Problem{Pattern: "tree", Kind: "orphan", Collection: "nodes", ID: raw(t, "a"), Field: "parent", Have: raw(t, 5), Want: raw(t, nil), Detail: "no such node"},
			`tree: nodes "a": orphan: parent is 5, want null: no such node`,
			`{"pattern":"tree","kind":"orphan","collection":"nodes","id":"a","field":"parent","have":5,"want":null,"detail":"no such node"}`},
		{mongopatterns.Problem{Pattern: "bucket", Kind: "wrong field", Collection: "b", Field: "sum", Want: raw(t, 1.5)},
			`bucket: b: wrong field: sum is missing, want 1.5`,
			`{"pattern":"bucket","kind":"wrong field","collection":"b","field":"sum","want":1.5}`},
		{mongopatterns.Problem{Pattern: "p", Kind: "k", Collection: "c", ID: raw(t, bson.ObjectID{1}), Have: raw(t, math.NaN())},
			`p: c ObjectID("010000000000000000000000"): k is NaN`,
			`{"pattern":"p","kind":"k","collection":"c","id":{"$oid":"010000000000000000000000"},"have":{"$numberDouble":"NaN"}}`},
	} {
		if got := test.p.String(); got != test.text {
			t.Errorf("text %s\nwant %s", got, test.text)
		}
		if got, err := json.Marshal(test.p); err != nil || string(got) != test.json {
			t.Errorf("JSON %s, %v\nwant %s", got, err, test.json)
		}
	}
}

func TestResult(t *testing.T) {
	var r mongopatterns.Result
	for i := range 102 {
		maintain.Fail(&r, "c", raw(t, int32(i)), errors.New("no"))
	}
	maintain.Add(&r, mongopatterns.Result{Examined: 3, Done: 2, Skipped: 1, Remaining: 4, Unknown: 5, Conflicts: 6})
	if r.Failed != 102 || len(r.Failures) != 100 || r.Examined != 3 || r.Done != 2 || r.Skipped != 1 || r.Remaining != 4 || r.Unknown != 5 || r.Conflicts != 6 {
		t.Errorf("%+v", r)
	}
	r.Failures = r.Failures[:1]
	want := `{"examined":3,"done":2,"skipped":1,"remaining":4,"failed":102,"unknown":5,"conflicts":6,"failures":[{"collection":"c","id":0,"error":"no"}]}`
	if got, err := json.Marshal(r); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// checker reports the kinds it holds and then fails if err is set.
type checker struct {
	kinds []mongopatterns.ProblemKind
	err   error
}

func (c checker) Check(context.Context, *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		for _, kind := range c.kinds {
			if !yield(mongopatterns.Problem{Kind: kind}, nil) {
				return
			}
		}
		if c.err != nil {
			yield(mongopatterns.Problem{}, c.err)
		}
	}
}

func TestCheckAll(t *testing.T) {
	failed := errors.New("failed")
	var text string
	var last error
	for p, err := range mongopatterns.CheckAll(t.Context(), checker{kinds: []mongopatterns.ProblemKind{"a", "b"}}, checker{},
		checker{kinds: []mongopatterns.ProblemKind{"c"}, err: failed}, checker{kinds: []mongopatterns.ProblemKind{"d"}}) {
		text += string(p.Kind)
		last = err
	}
	if text != "abc" || !errors.Is(last, failed) {
		t.Errorf("%q, %v", text, last)
	}
	for range mongopatterns.CheckAll(t.Context(), checker{kinds: []mongopatterns.ProblemKind{"a", "b"}}) {
		break // must not go on
	}
}

// An argument that is nil is refused before anything is sent.
func TestNilArguments(t *testing.T) {
	client, err := mongo.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	_, noDB := mongopatterns.Shard(t.Context(), nil)
	_, noHelper := mongopatterns.Shard(t.Context(), client.Database("d"), nil)
	_, noSource := extref.As[int, int, int](nil, "orders")
	var noChecker error
	for _, noChecker = range mongopatterns.CheckAll(t.Context(), checker{kinds: []mongopatterns.ProblemKind{"a"}}, nil) {
		break
	}
	for call, err := range map[string]error{"mongopatterns: shard": noDB, "mongopatterns: shard: ": noHelper, "extref: as": noSource, "mongopatterns: check all": noChecker} {
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), call) || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", call, err)
		}
	}
}
