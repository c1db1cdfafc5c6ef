package versioning

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func core(t *testing.T) *store { return documents(t).core }

func documents(t *testing.T) *History[string, bson.D] {
	t.Helper()
	db := mongotest.Database(t)
	d, err := New[string, bson.D](db.Collection("current"), db.Collection("revisions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Edit without a deadline ends with the conflict when its time is over.
func TestEditIsBounded(t *testing.T) {
	d, ctx := documents(t), t.Context()
	defer func(limit time.Duration) { retryLimit = limit }(retryLimit)
	retryLimit = 50 * time.Millisecond
	if _, err := d.Insert(ctx, bson.D{{Key: "_id", Value: "a"}}, Change{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	increment := func(document *bson.D) error {
		n++
		*document = bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: n}}
		return nil
	}
	_, err := d.Edit(ctx, "a", func(document *bson.D) error {
		if _, err := d.Edit(ctx, "a", increment, Change{}); err != nil {
			return err
		}
		return increment(document)
	}, Change{})
	var conflict *ConflictError
	if !errors.As(err, &conflict) {
		t.Error(err)
	}
}

// Several goroutines may save the result of one save: it is not modified later.
func TestSavedIsComplete(t *testing.T) {
	t.Parallel()
	d := documents(t)
	r, err := d.Insert(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}}, Change{})
	if err != nil {
		t.Fatal(err)
	}
	r.Document[1].Value = 2
	if r, err = d.Save(t.Context(), r, Change{}); err != nil || r.base.raw == nil {
		t.Errorf("%v, %v", r.base, err)
	}
}

// If a guard did not match, but the number is the same when the reason is looked for, the
// transaction runs again.
func TestConflictWithoutReason(t *testing.T) {
	t.Parallel()
	d := core(t)
	doc := raw(t, bson.D{{Key: "_id", Value: "a"}})
	if _, err := d.current.InsertOne(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	runs := 0
	err := txn.Run(t.Context(), d.current, func(ctx context.Context) error {
		if runs++; runs == 1 {
			return d.conflict(ctx, doc.Lookup("_id"), 1)
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// An update names the fields that differ. Where the server would order fields differently, or a key
// cannot be part of a path, it sets the whole document, or at the top replaces it.
func TestUpdateOperators(t *testing.T) {
	t.Parallel()
	one := func(keys ...string) bson.D {
		doc := bson.D{}
		for i, key := range keys {
			doc = append(doc, bson.E{Key: key, Value: i})
		}
		return doc
	}
	for _, test := range []struct {
		a, b         bson.D
		nested, flat string
	}{
		{one("a", "b"), one("x", "b"), "$set p", "$set x $unset a"},
		{bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, bson.D{{Key: "a", Value: 2}, {Key: "b", Value: 1}}, "$set p.a", "$set a"},
		{one("a", "b"), one("a"), "$unset p.b", "$unset b"},
		{one("a"), one("a", "b"), "$set p.b", "$set b"},
		{one("a"), one("a", "b", "c"), "$set p.b $set p.c", "$set b $set c inexact"},
		{one("a", "b"), one("b", "a"), "$set p", "$set b $set a"},
		{bson.D{{Key: "a.b", Value: 1}}, bson.D{{Key: "a.b", Value: 2}}, "$set p", "replace"},
		{bson.D{{Key: "$x", Value: 1}}, bson.D{{Key: "$x", Value: 2}}, "$set p", "replace"},
		{bson.D{{Key: "", Value: 1}}, bson.D{{Key: "", Value: 2}}, "$set p", "replace"},
	} {
		edit := func(a, b bson.D) string {
			x, _ := diff.Parse(raw(t, a))
			y, _ := diff.Parse(raw(t, b))
			next := draft{base: &current{all: x}, changes: diff.Changes(x, y)}
			update := next.update(true)
			if update == nil {
				return "replace"
			}
			out := ""
			for _, op := range diff.Open(update) {
				for _, e := range diff.Open(op.Value.Document()) {
					out += fmt.Sprint(" ", op.Key, " ", e.Key)
				}
			}
			if next.update(false) == nil {
				out += " inexact"
			}
			return out[1:]
		}
		got := []string{edit(bson.D{{Key: "p", Value: test.a}}, bson.D{{Key: "p", Value: test.b}}), edit(test.a, test.b)}
		if diff := cmp.Diff([]string{test.nested, test.flat}, got); diff != "" {
			t.Errorf("%v to %v (-want +got):\n%s", test.a, test.b, diff)
		}
	}
}

// A save decodes only the fields that differ: of 2,000 fields with one change it allocates a few
// dozen times, not a few times for each field.
func TestSaveComparesBytesFirst(t *testing.T) {
	d := documents(t)
	doc := bson.D{{Key: "_id", Value: "a"}}
	for i := range 2000 {
		doc = append(doc, bson.E{Key: fmt.Sprint("field ", i), Value: bson.D{{Key: "n", Value: i}}})
	}
	base, err := d.core.parse(raw(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	doc[1000].Value = bson.D{{Key: "n", Value: -1}}
	ours := &edited{raw: raw(t, doc), number: 1}
	ours.all = open(ours.raw)
	var next *draft
	allocs := testing.AllocsPerRun(10, func() {
		changes, err := d.compare(base, ours)
		if err != nil {
			t.Fatal(err)
		}
		if next, err = d.core.draft(base, changes, &stamp{}); err != nil {
			t.Fatal(err)
		}
	})
	if len(next.changes) != 1 || next.changes[0].Key != "field 999" || allocs > 300 {
		t.Errorf("%v, %v allocations", next.changes, allocs)
	}
}

func open(raw bson.Raw) []diff.Field { return diff.Open(raw) }

func raw(t testing.TB, v any) bson.Raw {
	t.Helper()
	out, err := bson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
