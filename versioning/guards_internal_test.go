package versioning

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func stateOf(t *testing.T, doc bson.D) *state {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	all, err := fields(raw)
	if err != nil {
		t.Fatal(err)
	}
	s := &state{number: 1, fields: all, raw: raw}
	s.id, _ = find(all, "_id")
	return s
}

// A duplicate _id has ended a transaction of the caller's: that is not ErrExists,
// which leaves one as it was.
func TestIsTaken(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	d, err := New[string, bson.D](db.Collection("current"), db.Collection("revisions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	duplicate := func(field string) error {
		raw, err := bson.Marshal(bson.D{{Key: "keyPattern", Value: bson.D{{Key: field, Value: 1}}}})
		return errors.Join(err, mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000, Raw: raw}}})
	}
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	id := stateOf(t, bson.D{{Key: "_id", Value: "a"}}).id
	joined := mongo.NewSessionContext(t.Context(), session)
	for _, test := range []struct {
		ctx   context.Context
		field string
		want  bool
	}{{t.Context(), "_id", true}, {t.Context(), "email", false}, {joined, "_id", false}} {
		if got := d.isTaken(test.ctx, id, duplicate(test.field)); got != test.want {
			t.Errorf("duplicate %s: %v", test.field, got)
		}
	}
}

// A guard that did not match although the number is the same, by the time the reason
// is looked for, has the transaction run again.
func TestConflictWithoutReason(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	d, err := New[string, bson.D](db.Collection("current"), db.Collection("revisions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	doc := bson.D{{Key: "_id", Value: "a"}}
	if _, err := db.Collection("current").InsertOne(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	runs := 0
	err = txn.Run(t.Context(), db.Client(), func(ctx context.Context) error {
		if runs++; runs == 1 {
			return d.conflict(ctx, stateOf(t, doc))
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// What a save would move to the history has to fit there, too.
func TestTooLargeBefore(t *testing.T) {
	t.Parallel()
	d := &Documents[string, bson.D]{opts: Options{RevisionField: "revision", ChangeField: "change"}}
	before := stateOf(t, bson.D{{Key: "_id", Value: "a"}})
	small := before.fields
	if _, err := d.successor(before, Change{}, small); err != nil {
		t.Fatal(err)
	}
	before.raw = make(bson.Raw, maxBytes+1)
	if _, err := d.successor(before, Change{}, small); !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// Keys that cannot be part of a path: the document is set as a whole.
func TestAssign(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"x":   "[p.x]",
		"a.b": "[p]",
		"$x":  "[p]",
		"":    "[p]",
	} {
		doc := func(n int) bson.RawValue {
			return documentValue(stateOf(t, bson.D{{Key: key, Value: n}, {Key: "same", Value: 1}}).fields)
		}
		var set, unset bson.D
		assign(&set, &unset, "p", doc(1), doc(2))
		var paths []string
		for _, e := range set {
			paths = append(paths, e.Key)
		}
		if diff := cmp.Diff(want, fmt.Sprint(paths)); diff != "" || unset != nil {
			t.Errorf("%q: %s, %v", key, diff, unset)
		}
	}
}

// One of 8 writers with 10 changes each can meet the 70 of the others.
func TestDefaultRetries(t *testing.T) {
	o, err := (*Options)(nil).withDefaults()
	if err != nil || o.MaxRetries != 100 {
		t.Errorf("%+v, %v", o, err)
	}
}
