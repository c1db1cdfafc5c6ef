package scoped_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var all, touch = bson.D{}, testkit.D("$set", testkit.D("n", 1))

// commands are calls of all methods, and of the functions that send a command.
func commands(c *scoped.Collection) map[string]func(ctx context.Context) error {
	db := c.Database()
	return map[string]func(ctx context.Context) error{
		"Find": func(ctx context.Context) error {
			cur, err := c.Find(ctx, all, options.Find().SetBatchSize(1)) // a getMore as well
			if err != nil {
				return err
			}
			return cur.All(ctx, new([]bson.D))
		},
		"FindOne": func(ctx context.Context) error { return c.FindOne(ctx, all).Err() },
		"Aggregate": func(ctx context.Context) error {
			cur, err := c.Aggregate(ctx, mongo.Pipeline{}, options.Aggregate().SetBatchSize(1))
			if err != nil {
				return err
			}
			return cur.All(ctx, new([]bson.D))
		},
		"AggregateGiven": func(ctx context.Context) error {
			cur, err := c.AggregateGiven(ctx, bson.A{testkit.D("v", 1)}, nil)
			if err != nil {
				return err
			}
			return cur.Close(ctx)
		},
		"CountDocuments":         func(ctx context.Context) error { return testkit.ErrorOf(c.CountDocuments(ctx, all)) },
		"EstimatedDocumentCount": func(ctx context.Context) error { return testkit.ErrorOf(c.EstimatedDocumentCount(ctx)) },
		"Watch": func(ctx context.Context) error {
			s, err := c.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(time.Millisecond))
			if err != nil {
				return err
			}
			s.TryNext(ctx)
			return s.Err()
		},
		"InsertOne":  func(ctx context.Context) error { return testkit.ErrorOf(c.InsertOne(ctx, bson.D{})) },
		"InsertMany": func(ctx context.Context) error { return testkit.ErrorOf(c.InsertMany(ctx, []any{bson.D{}})) },
		"UpdateOne":  func(ctx context.Context) error { return testkit.ErrorOf(c.UpdateOne(ctx, all, touch)) },
		"UpdateMany": func(ctx context.Context) error { return testkit.ErrorOf(c.UpdateMany(ctx, all, touch)) },
		"ReplaceOne": func(ctx context.Context) error { return testkit.ErrorOf(c.ReplaceOne(ctx, all, bson.D{})) },
		"DeleteOne":  func(ctx context.Context) error { return testkit.ErrorOf(c.DeleteOne(ctx, testkit.D("_id", 99))) },
		"DeleteMany": func(ctx context.Context) error { return testkit.ErrorOf(c.DeleteMany(ctx, testkit.D("_id", 99))) },
		"BulkWrite": func(ctx context.Context) error {
			return testkit.ErrorOf(c.BulkWrite(ctx, []mongo.WriteModel{mongo.NewInsertOneModel().SetDocument(bson.D{}),
				mongo.NewUpdateOneModel().SetFilter(all).SetUpdate(touch), mongo.NewDeleteOneModel().SetFilter(testkit.D("_id", 99))}))
		},
		"FindOneAndUpdate":  func(ctx context.Context) error { return c.FindOneAndUpdate(ctx, all, touch).Err() },
		"FindOneAndReplace": func(ctx context.Context) error { return c.FindOneAndReplace(ctx, all, bson.D{}).Err() },
		"FindOneAndDelete":  func(ctx context.Context) error { return c.FindOneAndDelete(ctx, testkit.D("n", 1)).Err() },
		"function Aggregate": func(ctx context.Context) error {
			return testkit.ErrorOf(comment.Aggregate(ctx, db, mongo.Pipeline{{{Key: "$documents", Value: bson.A{}}}}))
		},
		"function Command": func(ctx context.Context) error {
			return db.RunCommand(ctx, comment.Command(ctx, testkit.D("ping", 1))).Err()
		},
	}
}

// Every command of a Collection carries the comment of its context.
func TestEveryCommand(t *testing.T) {
	db := mongotest.Database(t)
	c := scoped.On(db.Collection("c"))
	calls := commands(c)
	for name := range methods(reflect.TypeFor[*scoped.Collection]()) {
		if _, ok := calls[name]; !ok {
			t.Errorf("%s is not called", name)
		}
	}
	for name, call := range calls {
		for id := range 3 {
			testkit.OK(t, testkit.ErrorOf(c.UpdateOne(t.Context(), testkit.D("_id", id), touch, options.UpdateOne().SetUpsert(true))))
		}
		for want, ctx := range map[string]context.Context{
			"mongopatterns inner": comment.Call(comment.Call(t.Context(), "outer"), "inner"),
			"theirs":              comment.Call(comment.With(t.Context(), "theirs"), "inner"),
			"":                    comment.Call(comment.With(t.Context(), ""), "inner"),
		} {
			var err error
			cmds := mongotest.Record(t, db, func() { err = call(ctx) })
			testkit.OK(t, err)
			for _, cmd := range cmds {
				if got, _ := cmd.Body.Lookup("comment").StringValueOK(); got != want && cmd.Name != "killCursors" {
					t.Errorf("%s: %s carries %q, not %q", name, cmd.Name, got, want)
				}
			}
		}
	}
}

// Every command in a scope finds no document of another, leaves them as they are, and stores its own.
func TestScope(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("c")
	c := scoped.On(coll).In(testkit.Must(scope.New(codec.Codec{}, testkit.D("tenant", "a")))).Clone()
	for name, call := range commands(c) {
		if strings.HasPrefix(name, "function") {
			continue
		}
		testkit.Empty(t, db)
		for _, id := range []int{0, 1, 2, 99} {
			testkit.Insert(t, coll, testkit.D("_id", id, "n", 1, "tenant", "b"))
		}
		before := testkit.Stored[bson.D](t, coll)
		var err error
		cmds := mongotest.Record(t, db, func() { err = call(t.Context()) })
		switch {
		case name == "Watch":
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil && !errors.Is(err, mongo.ErrNoDocuments):
			t.Errorf("%s: %v", name, err)
		}
		if after := testkit.Find[bson.D](t, coll, testkit.D("tenant", "b"), options.Find().SetSort(testkit.D("_id", 1))); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: %v, then %v", name, before, after)
		}
		if n := testkit.Count(t, coll, testkit.D("tenant", testkit.D("$nin", bson.A{"a", "b"}))); n > 0 {
			t.Errorf("%s: %d documents of no tenant", name, n)
		}
		for _, cmd := range cmds {
			batch, _ := cmd.Reply.Lookup("cursor", "firstBatch").ArrayOK()
			if values, _ := batch.Values(); len(values) > 0 && name != "AggregateGiven" {
				t.Errorf("%s: found %v", name, values)
			}
		}
	}
	if n := testkit.Value[int64](t)(c.EstimatedDocumentCount(t.Context())); n != int64(testkit.Count(t, coll, testkit.D("tenant", "a"))) {
		t.Errorf("%d documents", n)
	}
	// What is refused is not sent, and its outcome is known.
	err := testkit.ErrorOf(fault.Many(c.BulkWrite(t.Context(), []mongo.WriteModel{mongo.NewInsertOneModel().SetDocument(testkit.D("tenant", "b"))})))
	if !errors.Is(err, mongopatterns.ErrInvalid) || fault.MayHaveWritten(err) {
		t.Error(err)
	}
}

// methods are the methods that take a context.
func methods(of reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range of.NumMethod() {
		m := of.Method(i)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() {
			out[m.Name] = true
		}
	}
	return out
}

// The options of the caller are neither changed nor written over.
func TestOptionsOfTheCaller(t *testing.T) {
	db := mongotest.Database(t)
	c := scoped.On(db.Collection("c"))
	opts := make([]options.Lister[options.FindOptions], 1, 2)
	opts[0] = options.Find().SetComment("theirs")
	cmds := mongotest.Record(t, db, func() {
		testkit.OK(t, testkit.ErrorOf(c.Find(comment.Call(t.Context(), "x"), bson.D{}, opts...)))
	})
	if got := cmds[0].Body.Lookup("comment").StringValue(); got != "theirs" || opts[:2][1] != nil {
		t.Errorf("comment %q, options %v", got, opts[:2])
	}
}

// The notes of a transaction have what its commands have written, the collections that they have used, and their first
// error. Those of a call have what it has written.
func TestNotes(t *testing.T) {
	db := mongotest.Database(t)
	c := scoped.On(db.Collection("c"))
	session, err := db.Client().StartSession()
	testkit.OK(t, err)
	defer session.EndSession(t.Context())
	noting := func() (context.Context, *scoped.Notes) {
		n := &scoped.Notes{Session: session}
		return mongo.NewSessionContext(scoped.WithNotes(t.Context(), n), session), n
	}
	for name, call := range commands(c) {
		testkit.OK(t, testkit.ErrorOf(c.DeleteMany(t.Context(), all)))
		docs := []any{testkit.D("_id", 1, "n", 2), testkit.D("_id", 99, "n", 1)} // the first is updated, and 99 deleted
		testkit.OK(t, testkit.ErrorOf(c.InsertMany(t.Context(), docs)))
		before := stored(t, db.Collection("c"))
		ctx, notes := noting()
		ctx, judge := scoped.Judged(ctx)
		testkit.OK(t, call(ctx))
		wrote := !reflect.DeepEqual(before, stored(t, db.Collection("c")))
		if wrote != (notes.Writes() > 0) || wrote != fault.MayHaveWritten(judge(errors.New("later"))) {
			t.Errorf("%s: %d writes are counted, and it has written: %v", name, notes.Writes(), wrote)
		}
		if sends := name != "Watch" && !strings.HasPrefix(name, "function"); sends {
			if len(notes.Collections()) != 1 || notes.Err() != nil {
				t.Errorf("%s: it has used %v, %v", name, notes.Collections(), notes.Err())
			}
			ctx, notes := noting()
			over, cancel := context.WithTimeout(ctx, 0)
			cancel()
			if err := call(over); err == nil || notes.Err() == nil {
				t.Errorf("%s: %v, and %v is noted", name, err, notes.Err())
			}
		}
	}
	none := testkit.D("_id", "none")
	ctx, notes := noting()
	testkit.OK(t, testkit.ErrorOf(c.UpdateOne(ctx, none, touch)))
	testkit.OK(t, testkit.ErrorOf(c.DeleteOne(ctx, none)))
	testkit.Is(t, c.FindOneAndUpdate(ctx, none, touch).Err(), mongo.ErrNoDocuments)
	testkit.Is(t, c.FindOne(ctx, none).Err(), mongo.ErrNoDocuments)
	apart := mongo.NewSessionContext(ctx, nil)
	if err := testkit.ErrorOf(scoped.On(db.Collection("other")).UpdateOne(apart, none, testkit.D("$x", 1))); err == nil {
		t.Error("no error of an unknown operator")
	}
	if notes.Writes() > 0 || notes.Err() != nil || len(notes.Collections()) != 1 {
		t.Errorf("%d writes, %v, %v", notes.Writes(), notes.Err(), notes.Collections())
	}
}

func stored(t *testing.T, coll *mongo.Collection) (docs []bson.Raw) {
	t.Helper()
	cursor, err := coll.Find(t.Context(), all)
	testkit.OK(t, err)
	testkit.OK(t, cursor.All(t.Context(), &docs))
	return docs
}
