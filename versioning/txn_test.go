package versioning_test

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// app is the client whose commands failing lets the server refuse: there is one
// fail point on a server, which other tests may use at the same time.
const app = "versioning failing"

// failing makes the server refuse a command of that client some times.
func failing(t *testing.T, db *mongo.Database, data bson.D, times int) {
	t.Helper()
	admin := db.Client().Database("admin")
	err := admin.RunCommand(t.Context(), bson.D{{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: bson.D{{Key: "times", Value: times}}}, {Key: "data", Value: append(data[:len(data):len(data)], bson.E{Key: "appName", Value: app})}}).Err()
	if err != nil {
		t.Skip("no fail points: ", err)
	}
	t.Cleanup(func() {
		_ = admin.RunCommand(context.Background(), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "off"}}).Err()
	})
}

// A transaction that runs again writes once. Not parallel: fail points are the
// server's.
func TestTransactionsRunAgain(t *testing.T) {
	transient := bson.A{"TransientTransactionError"}
	for name, data := range map[string]bson.D{
		"second write": {{Key: "failCommands", Value: bson.A{"insert"}}, {Key: "errorCode", Value: 112}, {Key: "errorLabels", Value: transient}},
		"no label":     {{Key: "failCommands", Value: bson.A{"insert"}}, {Key: "errorCode", Value: 112}},
		"first write":  {{Key: "failCommands", Value: bson.A{"findAndModify", "update"}}, {Key: "errorCode", Value: 112}, {Key: "errorLabels", Value: transient}},
		"commit":       {{Key: "failCommands", Value: bson.A{"commitTransaction"}}, {Key: "errorCode", Value: 112}, {Key: "errorLabels", Value: transient}},
	} {
		t.Run(name, func(t *testing.T) {
			db := mongotest.Database(t, options.Client().SetAppName(app))
			ctx := t.Context()
			d := helper[string, counter](t, db, nil)
			r := get(t)(d.Create(ctx, counter{ID: "a"}, nobody))
			r.Document.N = 1
			failing(t, db, data, 2)
			r = get(t)(d.Save(ctx, r, nobody))
			failing(t, db, data, 2)
			r.Document.N = 2
			if err := saveOne(ctx, d, r); err != nil {
				t.Error(err)
			}
			failing(t, db, data, 2)
			if err := d.Delete(ctx, "a", 3, nobody); err != nil {
				t.Error(err)
			}
			failing(t, db, data, 2)
			if r := get(t)(d.Create(ctx, counter{ID: "a", N: 4}, nobody)); r.Number != 5 {
				t.Errorf("%+v", r)
			}
			failing(t, db, data, 2)
			if r := get(t)(d.Restore(ctx, "a", 2, nobody)); r.Number != 6 || r.Document.N != 1 {
				t.Errorf("%+v", r)
			}
			if n := count(t, db.Collection("revisions")); n != 5 {
				t.Errorf("%d revisions", n)
			}
			clean(t, d)
		})
	}
}

// A crash between the two writes leaves neither.
func TestNothingHalfWritten(t *testing.T) {
	db := mongotest.Database(t, options.Client().SetAppName(app))
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Create(ctx, counter{ID: "a"}, nobody))
	r.Document.N = 1
	data := bson.D{{Key: "failCommands", Value: bson.A{"insert"}}, {Key: "errorCode", Value: 8000}}
	failing(t, db, data, 1)
	if _, err := d.Save(ctx, r, nobody); err == nil {
		t.Error("saved")
	}
	failing(t, db, data, 1)
	if err := d.Delete(ctx, "a", 1, nobody); err == nil {
		t.Error("deleted")
	}
	failing(t, db, data, 1)
	if result, err := d.SaveMany(ctx, each(&r), nobody, nil); err == nil || result.Done != 0 {
		t.Errorf("%+v", result)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 1 || r.Document.N != 0 || count(t, db.Collection("revisions")) != 0 {
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
		r, err := d.Create(ctx, counter{ID: "a"}, nobody)
		if err != nil {
			return err
		}
		r.Document.N = 1
		if _, err = d.Save(ctx, r, nobody); err != nil {
			return err
		}
		if r, err = d.Update(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody); err != nil || r.Number != 3 {
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
		if _, err := d.Update(ctx, "b", func(*counter) error { return nil }, nobody); !errors.Is(err, mongopatterns.ErrNotFound) {
			return errors.Join(err, errors.New("found"))
		}
		r.Document.LastSeen = month(0)
		if r, err = d.Save(ctx, r, nobody); err != nil || r.Number != 3 {
			return errors.Join(err, errors.New("ignored"))
		}
		saved, err := d.SaveMany(ctx, each(&revision{Number: 3, Document: counter{ID: "a", N: 7}}, &revision{Number: 1, Document: counter{ID: "b"}}), nobody, nil)
		if err != nil || saved.Done != 1 || saved.Failed != 1 || !errors.Is(saved.Failures[0].Err, mongopatterns.ErrNotFound) {
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
		if n := count(t, db.Collection(name)); n != 0 {
			t.Errorf("%s has %d documents after an abort", name, n)
		}
	}
	if err := inTransaction(t, db, work, true); err != nil {
		t.Fatal(err)
	}
	if r := get(t)(d.Get(ctx, "a")); r.Number != 6 || r.Document.N != 2 || count(t, db.Collection("other")) != 1 {
		t.Errorf("%+v", r)
	}
	clean(t, d)

	// Another writer's save meanwhile ends the transaction with an error that is
	// retried from outside.
	err := inTransaction(t, db, func(in context.Context) error {
		r, err := d.Get(in, "a")
		if err != nil {
			return err
		}
		get(t)(d.Update(ctx, "a", func(c *counter) error { c.N = 100; return nil }, nobody))
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

// A write beside the package between read and save is kept, and the history has it.
func TestForeignWrites(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Create(ctx, counter{ID: "a", N: 1}, nobody))
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
	clean(t, d)
}

// In the caller's transaction a duplicate key, which has ended it, is no success.
func TestRepairInAnEndedTransaction(t *testing.T) {
	db := mongotest.Database(t, options.Client().SetAppName(app))
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	get(t)(d.Create(ctx, counter{ID: "a"}, nobody))
	get(t)(d.Update(ctx, "a", func(c *counter) error { c.N = 1; return nil }, nobody))
	remove(t, db.Collection("current"), d.Filter("a"))
	data := bson.D{{Key: "failCommands", Value: bson.A{"insert"}}, {Key: "errorCode", Value: 11001}}
	failing(t, db, data, 1)
	err := inTransaction(t, db, func(ctx context.Context) error { _, err := d.Repair(ctx, nil); return err }, true)
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("repair: %v", err)
	}
	failing(t, db, data, 1) // in its own one, Create was first
	if result, err := d.Repair(ctx, nil); err != nil || result.Done != 0 || result.Remaining != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if result, err := d.Repair(ctx, nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	clean(t, d)
}
