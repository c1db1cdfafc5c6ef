package mongotest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A function of a transaction that keeps state between its runs is found, and one that does not is run again for each
// command.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	db := Database(t)
	drivers, trips := db.Collection("drivers"), db.Collection("trips")
	type driver struct {
		ID   string `bson:"_id"`
		Name string `bson:"name"`
	}
	ann := driver{"ann", "Ann"}
	if _, err := drivers.InsertOne(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	if _, err := trips.InsertOne(t.Context(), bson.D{{Key: "_id", Value: -1}}); err != nil {
		t.Fatal(err)
	}
	find := func(ctx context.Context, id string) (d driver, err error) {
		err = drivers.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&d)
		return d, err
	}
	// book stores a trip with the driver that pin returns for "ann".
	book := func(n int, pin func(ctx context.Context, d *driver) error) error {
		d := driver{ID: "ann"}
		return transact(t.Context(), db.Client(), func(ctx context.Context) error {
			if err := pin(ctx, &d); err != nil {
				return err
			}
			_, err := trips.InsertOne(ctx, bson.D{{Key: "_id", Value: n}, {Key: "driver", Value: d}})
			return err
		})
	}
	calls, runs := 0, 0
	RunAgain(t, db, func(n int) error {
		if n != calls {
			t.Errorf("call %d has number %d", calls, n)
		}
		calls++
		err := book(n, func(ctx context.Context, d *driver) (err error) {
			runs++
			*d, err = find(ctx, "ann")
			return err
		})
		stored, _ := trips.CountDocuments(t.Context(), bson.D{{Key: "_id", Value: n}, {Key: "driver.name", Value: "Ann"}})
		if stored != 1 {
			return fmt.Errorf("%d trips, %w", stored, err)
		}
		return err
	})
	if calls != 5 || runs != 8 { // as it is, one for each command, and one that meets no conflict
		t.Errorf("%d calls, %d runs", calls, runs)
	}

	failed := fails(t, func(t testing.TB) {
		RunAgain(t, db, func(n int) error {
			return book(100+n, func(ctx context.Context, d *driver) (err error) {
				*d, err = find(ctx, d.ID) // with an error d.ID is empty
				return err
			})
		})
	})
	if want := "call 1, where command 1 in a transaction, find, meets a conflict: " + mongo.ErrNoDocuments.Error(); !strings.Contains(failed, want) || strings.Count(failed, "\n") != 1 {
		t.Errorf("%q, want one line with %q", failed, want)
	}
	for want, do := range map[string]func(int) error{
		"call 0, without a conflict: refused":      func(int) error { return errors.New("refused") },
		"call 0 sends no command in a transaction": func(int) error { return drivers.FindOne(t.Context(), bson.D{}).Err() },
	} {
		if failed := fails(t, func(t testing.TB) { RunAgain(t, db, do) }); !strings.Contains(failed, want) {
			t.Errorf("%q, want %q", failed, want)
		}
	}
}

func transact(ctx context.Context, client *mongo.Client, fn func(ctx context.Context) error) error {
	session, err := client.StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, fn(ctx) })
	return err
}
