//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// cut is the time before which an order is old.
var cut = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// closed is a date by which an order is old, or is not.
func closed(c *client, old bool) bson.DateTime {
	days := c.IntN(300)
	if old {
		days = -1 - days
	}
	return bson.NewDateTimeFromTime(cut.AddDate(0, 0, days))
}

func openArchive(db *mongo.Database) (helper, error) {
	a, err := archive.New(db.Collection("orders"), db.Collection("orders_archive"), &archive.Options{TimeField: "closed",
		Companions: []archive.Companion{{Live: db.Collection("remarks"), Archived: db.Collection("remarks_archive"), Field: "order"}}})
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: a.EnsureIndexes, check: a.Check, repair: a.Repair, value: a,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return a.Move(ctx, a.BeforeFilter(cut), work)
		},
	}, nil
}

func startArchive(w *world) service {
	a := w.h.value.(*archive.Archive)
	live, archived := w.db.Collection("orders"), w.db.Collection("orders_archive")
	m := &model{coll: live}
	remarks, oldRemarks := w.db.Collection("remarks"), w.db.Collection("remarks_archive")
	var remarked atomic.Int64
	isOld := func(r *record) bool {
		return alive(r) && r.doc["closed"].(bson.DateTime) < bson.NewDateTimeFromTime(cut)
	}
	recent := func(r *record) bool { return alive(r) && !isOld(r) }
	order := func(c *client, old bool) bson.M {
		return bson.M{"closed": closed(c, old), "note": c.text(), "lines": bson.A{bson.M{"sku": c.text(), "n": c.int(9)}}}
	}
	either := func(c *client) bson.M { return order(c, c.IntN(2) == 0) }
	c := newClient('S', time30)
	for i := range 120 {
		m.seed(w, merged(order(c, i%2 == 0), bson.M{"_id": int32(i)}))
	}
	reopen := func(c *client) bson.D { return d("$set", d("closed", closed(c, false))) }
	old := join(m.deleted(recent, either), []op{
		m.inserted(either),
		m.beside("$inc of a field", recent, func(ctx context.Context, _ *client, r *record) error {
			return m.update(ctx, r, d("$inc", d("own.n", int32(1))))
		}),
		m.write("replace", recent, func(ctx context.Context, c *client, r *record) error {
			return m.replace(ctx, r, order(c, false))
		}),
		m.write("close", recent, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$set", d("closed", closed(c, true))))
		}),
		m.write("remark", recent, func(ctx context.Context, _ *client, r *record) error {
			change := d("$inc", d("own.remarks", int32(1)))
			err := mongopatterns.Transact(ctx, w.db.Client(), func(ctx context.Context) error {
				result, err := live.UpdateOne(ctx, d("_id", r.id), change)
				if err == nil && result.MatchedCount != 1 {
					err = mongo.ErrNoDocuments
				}
				if err == nil {
					_, err = remarks.InsertOne(ctx, d("order", r.id))
				}
				return err
			})
			if err == nil {
				remarked.Add(1)
				m.follow(r, change)
			}
			return err
		}),
		// Either it still is live, or nothing happens.
		m.write("change of an old document", isOld, func(ctx context.Context, c *client, r *record) error {
			change := reopen(c)
			result, err := live.UpdateOne(ctx, d("_id", r.id), change)
			if err == nil && result.MatchedCount == 1 {
				m.follow(r, change)
			}
			return err
		}),
	})
	fresh := []op{
		m.inserted(func(c *client) bson.M { return order(c, false) }),
		m.write("Restore and change", isOld, func(ctx context.Context, c *client, r *record) error {
			change := reopen(c)
			err := mongopatterns.Transact(ctx, w.db.Client(), func(ctx context.Context) error {
				if _, err := a.Restore(ctx, d("_id", r.id), nil); err != nil {
					return err
				}
				result, err := live.UpdateOne(ctx, d("_id", r.id), change)
				if err == nil && result.MatchedCount != 1 {
					err = mongo.ErrNoDocuments
				}
				return err
			})
			if err == nil {
				m.follow(r, change)
			}
			return err
		}),
	}
	oracle := func(t *testing.T) {
		here, there := read(t, live), read(t, archived)
		if n := testkit.Count(t, remarks, bson.D{}) + testkit.Count(t, oldRemarks, bson.D{}); int64(n) != remarked.Load() {
			differ(t, "%d remarks of %d", n, remarked.Load())
		}
		for _, r := range m.living() {
			name := fmt.Sprint(r.id)
			side, other, away := here, there, oldRemarks
			if isOld(r) {
				side, other, away = there, here, remarks
				if _, ok := there[name]["archived_at"].(bson.DateTime); !ok {
					differ(t, "%s is archived without a mark", name)
				}
			}
			if n := testkit.Count(t, away, d("order", r.id)); n > 0 {
				differ(t, "%s: %d remarks are in %s", name, n, away.Name())
			}
			if side[name] == nil || other[name] != nil {
				differ(t, "%s: old %v, live %v, archived %v", name, isOld(r), here[name], there[name])
				continue
			}
			same(t, name, without(side[name], "archived_at"), r.doc)
			delete(side, name)
		}
		if len(here)+len(there) > 0 {
			t.Errorf("orders that nobody stored: %v, %v", here, there)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// oldOrder is an order that Move has archived.
func oldOrder(t *testing.T, w *world, id string) *archive.Archive {
	t.Helper()
	w.insert(t, "orders", d("_id", id, "closed", cut.AddDate(0, 0, -1), "note", "n"))
	w.clean(t)
	return w.h.value.(*archive.Archive)
}

// inArchive requires that an order is archived with this note, and is not live.
func (w *world) inArchive(t *testing.T, id, note string) {
	t.Helper()
	same(t, id, without(w.stored(t, "orders_archive", id), "archived_at"), d("_id", id, "closed", bson.NewDateTimeFromTime(cut.AddDate(0, 0, -1)), "note", note))
	if n := got(w.db.Collection("orders").CountDocuments(t.Context(), d("_id", id)))(t); n != 0 {
		t.Errorf("%s is live", id)
	}
}

var archiveSays = []sentence{
	{"Move takes the place of Adopt, and takes old documents, whole, to another collection", func(t *testing.T, w *world) {
		oldOrder(t, w, "moved")
		w.inArchive(t, "moved", "n")
	}},
	{"insert documents of any age, change, replace and delete documents that are not old, insert these again, and make documents old",
		meanwhile("insert", "$inc of a field", "replace", "delete", "insert again", "close")},
	{"change, replace or delete an old document without looking at `MatchedCount`, because nothing happens if it is archived", func(t *testing.T, w *world) {
		oldOrder(t, w, "unchanged")
		orders, id := w.db.Collection("orders"), d("_id", "unchanged")
		replaced := got(orders.ReplaceOne(t.Context(), id, d("note", "another")))(t)
		deleted := got(orders.DeleteOne(t.Context(), id))(t)
		if w.update(t, "orders", id, d("$set", d("note", "another"))) || replaced.MatchedCount+deleted.DeletedCount != 0 {
			t.Errorf("%+v, %+v", replaced, deleted)
		}
		w.clean(t)
		w.inArchive(t, "unchanged", "n")
	}},
	{"write an old document by an upsert or insert it again, because it is then on both sides, as Move and Check report", func(t *testing.T, w *world) {
		orders := w.db.Collection("orders")
		for id, write := range map[string]func(id string) error{
			"upsert": func(id string) error {
				_, err := orders.UpdateOne(t.Context(), d("_id", id), d("$set", d("closed", cut.AddDate(0, 0, -1), "note", "another")), upsert())
				return err
			},
			"replace": func(id string) error {
				_, err := orders.ReplaceOne(t.Context(), d("_id", id), d("closed", cut.AddDate(0, 0, -1)), options.Replace().SetUpsert(true))
				return err
			},
			"insert": func(id string) error {
				_, err := orders.InsertOne(t.Context(), d("_id", id, "closed", cut.AddDate(0, 0, -1)))
				return err
			},
		} {
			oldOrder(t, w, id)
			testkit.OK(t, write(id))
			result, problems := w.again(t)
			if result.Failed != 1 {
				t.Errorf("%s: %+v", id, result)
			}
			named(t, problems, mongopatterns.Different, id)
			w.remove(t, "orders", id)
			w.inArchive(t, id, "n")
		}
	}},
	{"The second Move takes what has become old", func(t *testing.T, w *world) {
		w.insert(t, "orders", d("_id", "late", "closed", cut, "note", "n"))
		w.clean(t)
		if !w.update(t, "orders", d("_id", "late"), d("$set", d("closed", cut.AddDate(0, 0, -1)))) {
			t.Error("it was archived too early")
		}
		w.clean(t)
		w.inArchive(t, "late", "n")
	}},
	{"A program that has to change an archived document calls Restore first", func(t *testing.T, w *world) {
		a := oldOrder(t, w, "back")
		if result, err := a.Restore(t.Context(), d("_id", "back"), nil); err != nil || result.Done != 1 {
			t.Errorf("%+v, %v", result, err)
		}
		if !w.update(t, "orders", d("_id", "back"), d("$set", d("note", "another"))) {
			t.Error("it is not live")
		}
		w.clean(t)
		w.inArchive(t, "back", "another")
	}},
}
