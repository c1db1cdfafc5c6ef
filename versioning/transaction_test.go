package versioning_test

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A transaction that runs again writes once.
func TestTransactionsRunAgain(t *testing.T) {
	t.Parallel()
	transient := []string{"TransientTransactionError"}
	for name, fail := range map[string]mongotest.Fail{
		"second write": {Commands: []string{"insert"}, Times: 2, Code: 112, Labels: transient},
		"no label":     {Commands: []string{"insert"}, Times: 2, Code: 112},
		"first write":  {Commands: []string{"findAndModify", "update"}, Times: 2, Code: 112, Labels: transient},
		"commit":       {Commands: []string{"commitTransaction"}, Times: 2, Code: 112, Labels: transient},
	} {
		t.Run(name, func(t *testing.T) {
			db := mongotest.Database(t)
			ctx := t.Context()
			d := helper[string, counter](t, db, nil)
			r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
			r.Document.N = 1
			mongotest.FailPoint(t, db, fail)
			r = get(t)(d.Save(ctx, r, nobody))
			mongotest.FailPoint(t, db, fail)
			r.Document.N = 2
			if err := saveOne(ctx, d, r); err != nil {
				t.Error(err)
			}
			mongotest.FailPoint(t, db, fail)
			if err := d.Delete(ctx, "a", 3, nobody); err != nil {
				t.Error(err)
			}
			mongotest.FailPoint(t, db, fail)
			if r := get(t)(d.Insert(ctx, counter{ID: "a", N: 4}, nobody)); r.Number != 5 {
				t.Errorf("%+v", r)
			}
			mongotest.FailPoint(t, db, fail)
			if r := get(t)(d.Restore(ctx, "a", 2, nobody)); r.Number != 6 || r.Document.N != 1 {
				t.Errorf("%+v", r)
			}
			if n := testkit.Count(t, db.Collection("revisions"), bson.D{}); n != 5 {
				t.Errorf("%d revisions", n)
			}
			testkit.Healthy(t, d)
		})
	}
}

// A crash between the two writes leaves neither.
func TestNothingHalfWritten(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	r.Document.N = 1
	fail := mongotest.Fail{Commands: []string{"insert"}, Times: 1, Code: 8000}
	mongotest.FailPoint(t, db, fail)
	if _, err := d.Save(ctx, r, nobody); err == nil {
		t.Error("saved")
	}
	mongotest.FailPoint(t, db, fail)
	if err := d.Delete(ctx, "a", 1, nobody); err == nil {
		t.Error("deleted")
	}
	mongotest.FailPoint(t, db, fail)
	if result, err := d.SaveMany(ctx, each(&r), nobody, nil); err == nil || result.Done != 0 {
		t.Errorf("%+v", result)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 1 || r.Document.N != 0 || testkit.Count(t, db.Collection("revisions"), bson.D{}) != 0 {
		t.Errorf("%+v", r)
	}
}

func inTransaction(t *testing.T, db *mongo.Database, fn func(ctx context.Context) error, commit bool) error {
	t.Helper()
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := fn(mongo.NewSessionContext(t.Context(), session)); err != nil {
		_ = session.AbortTransaction(t.Context())
		return err
	}
	if !commit {
		return session.AbortTransaction(t.Context())
	}
	return session.CommitTransaction(t.Context())
}

// Transact and Change run again by themselves if another writer changes the document after their first read. What was
// read before they began cannot become right by that, so the ConflictError ends them.
func TestConflictsInTransactions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	read := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	add := func(ctx context.Context) error {
		return testkit.ErrorOf(d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody))
	}
	testkit.OK(t, add(ctx))
	group := mongo.Pipeline{doc("$group", doc("_id", "$of", "n", doc("$sum", "$n")))}
	totals := testkit.Must(computed.New[string, string, bson.D](db.Collection("current"), db.Collection("totals"),
		computed.Rule{KeyField: "of", Pipeline: group, Empty: doc("n", 0)}, nil))
	for name, transact := range map[string]func(fn func(ctx context.Context) error) error{
		"Transact": func(fn func(ctx context.Context) error) error { return mongopatterns.Transact(ctx, db.Client(), fn) },
		"Change":   func(fn func(ctx context.Context) error) error { return totals.Change(ctx, []string{"a"}, fn) },
	} {
		runs := 0
		err := transact(func(ctx context.Context) error {
			runs++
			return testkit.ErrorOf(d.Save(ctx, read, nobody))
		})
		var conflict *versioning.ConflictError
		if !errors.As(err, &conflict) || runs != 1 {
			t.Errorf("%s, read before: %d runs, %v", name, runs, err)
		}
		was := get(t)(d.Get(ctx, "a")).Document.N
		runs = 0
		err = transact(func(in context.Context) error {
			runs++
			r, err := d.Get(in, "a")
			if err != nil {
				return err
			}
			if runs == 1 {
				if err := add(ctx); err != nil {
					return err
				}
			}
			r.Document.N += 10
			return testkit.ErrorOf(d.Save(in, r, nobody))
		})
		if now := get(t)(d.Get(ctx, "a")).Document.N; err != nil || runs != 2 || now != was+11 {
			t.Errorf("%s, read inside: %d runs, %d after %d, %v", name, runs, now, was, err)
		}
	}
}

// All calls join the caller's transaction; a refusal leaves it usable and unmarked.
func TestJoinsTransactions(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{Ignored: []string{"last_seen"}})
	if err := db.CreateCollection(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	work := func(ctx context.Context) error {
		r, err := d.Insert(ctx, counter{ID: "a"}, nobody)
		if err != nil {
			return err
		}
		r.Document.N = 1
		if _, err = d.Save(ctx, r, nobody); err != nil {
			return err
		}
		if r, err = d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody); err != nil || r.Number != 3 {
			return errors.Join(err, errors.New("update"))
		}
		if old, err := d.At(ctx, "a", 2); err != nil || old.Document.N != 1 {
			return errors.Join(err, errors.New("at"))
		}
		// Refusals.
		var conflict *versioning.ConflictError
		if _, err := d.Save(ctx, revision{Number: 2, Document: counter{ID: "a", N: 9}}, nobody); !errors.As(err, &conflict) {
			return errors.Join(err, errors.New("no conflict"))
		}
		if err := d.Delete(ctx, "a", 2, nobody); !errors.As(err, &conflict) || conflict.Current != 3 {
			return errors.Join(err, errors.New("no conflict on delete"))
		}
		if _, err := d.Edit(ctx, "b", func(*counter) error { return nil }, nobody); !errors.Is(err, mongopatterns.ErrNotFound) {
			return errors.Join(err, errors.New("found"))
		}
		r.Document.LastSeen = month(0)
		if r, err = d.Save(ctx, r, nobody); err != nil || r.Number != 3 {
			return errors.Join(err, errors.New("ignored"))
		}
		saved, err := d.SaveMany(ctx, each(&revision{Number: 3, Document: counter{ID: "a", N: 7}}, &revision{Number: 1, Document: counter{ID: "b"}}), nobody, nil)
		if !errors.Is(err, mongopatterns.ErrNotFound) || saved.Done != 1 || saved.Failed != 1 {
			return errors.Join(err, errors.New("save many"))
		}
		if err := d.Delete(ctx, "a", 4, nobody); err != nil {
			return err
		}
		if r, err = d.Restore(ctx, "a", 3, nobody); err != nil || r.Number != 6 {
			return errors.Join(err, errors.New("restore"))
		}
		_, err = db.Collection("other").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
		return err
	}
	if err := inTransaction(t, db, work, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"current", "revisions", "other"} {
		if n := testkit.Count(t, db.Collection(name), bson.D{}); n != 0 {
			t.Errorf("%s has %d documents after an abort", name, n)
		}
	}
	if err := inTransaction(t, db, work, true); err != nil {
		t.Fatal(err)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 6 || r.Document.N != 2 || testkit.Count(t, db.Collection("other"), bson.D{}) != 1 {
		t.Errorf("%+v", r)
	}
	testkit.Healthy(t, d)

	// Another writer's save meanwhile ends the transaction with an error that is
	// retried from outside.
	err := inTransaction(t, db, func(in context.Context) error {
		r, err := d.Get(in, "a")
		if err != nil {
			return err
		}
		get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 100; return nil }, nobody))
		r.Document.N++
		_, err = d.Save(in, r, nobody)
		return err
	}, true)
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorLabel("TransientTransactionError") {
		t.Errorf("error %v", err)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Document.N != 100 || r.Number != 7 {
		t.Errorf("%+v", r)
	}
}

// A write without the package, between read and save, is kept, and the history has it.
func TestForeignWrites(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Insert(ctx, counter{ID: "a", N: 1}, nobody))
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "note", Value: "beside"}}}}); err != nil {
		t.Fatal(err)
	}
	r.Document.N = 2
	r = get(t)(d.Save(ctx, r, nobody))
	if r.Number != 2 || r.Document.Note != "beside" || r.Document.N != 2 {
		t.Errorf("%+v", r)
	}
	if old := get(t)(d.At(ctx, "a", 1)); old.Document.Note != "beside" || old.Document.N != 1 {
		t.Errorf("%+v", old)
	}
	if now := get(t)(d.Get(ctx, "a")); now.Document != r.Document || now.Number != 2 {
		t.Errorf("%+v", now)
	}
	testkit.Healthy(t, d)
}

// In the caller's transaction a duplicate key is an error, as it has ended the transaction.
func TestRepairInAnEndedTransaction(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 1; return nil }, nobody))
	remove(t, db.Collection("current"), d.Filter("a"))
	fail := mongotest.Fail{Commands: []string{"insert"}, Times: 1, Code: 11001}
	mongotest.FailPoint(t, db, fail)
	err := inTransaction(t, db, func(ctx context.Context) error { _, err := d.Repair(ctx, nil); return err }, true)
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("repair: %v", err)
	}
	mongotest.FailPoint(t, db, fail) // in its own transaction, Insert comes first
	if result, err := d.Repair(ctx, nil); err != nil || result.Done != 0 || result.Remaining != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if result, err := d.Repair(ctx, nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.Healthy(t, d)
}

// A deadline that ends the attempts of Edit is returned as a deadline, not as a conflict.
func TestDeadlineIsNoConflict(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "abortTransaction" { // after the conflict, before the next attempt
			cancel()
		}
	}}))
	d := helper[string, counter](t, db, nil)
	get(t)(d.Insert(t.Context(), counter{ID: "a"}, nobody))
	_, err := d.Edit(ctx, "a", func(c *counter) error {
		get(t)(d.Edit(t.Context(), "a", func(c *counter) error { c.Note += "x"; return nil }, nobody))
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
	if errors.Is(versioning.ErrPruned, versioning.ErrDeleted) {
		t.Error("two sentinels match")
	}
}
