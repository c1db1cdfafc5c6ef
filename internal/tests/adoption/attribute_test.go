//go:build unix

package adoption_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

var columns = []attribute.Column{
	{Path: "release.US", Key: "US"}, {Path: "release.UK", Key: "UK"}, {Path: "release.FR", Key: "FR"},
}

func openAttribute(db *mongo.Database) (helper, error) {
	a, err := attribute.New[any, any](db.Collection("films"), &attribute.Options{ArrayField: "releases", OnCollision: attribute.KeepSource})
	if err != nil {
		return helper{}, err
	}
	return helper{
		ensure: a.EnsureIndexes, check: a.Check, repair: a.Repair, value: a,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return a.Adopt(ctx, columns, work)
		},
	}, nil
}

func startAttribute(w *world) service {
	a := w.h.value.(*attribute.Attributes[any, any])
	m := &model{coll: w.db.Collection("films")}
	film := func(c *client) bson.M {
		release := bson.M{}
		for _, col := range columns {
			if c.IntN(2) == 0 {
				release[col.Key] = c.text()
			}
		}
		return bson.M{"title": c.text(), "release": release}
	}
	c := newClient('S', time30)
	for i := range 80 {
		m.seed(w, merged(film(c), bson.M{"_id": int32(i)}))
	}

	column := func(c *client) string { return columns[c.IntN(len(columns))].Path }
	old := join(m.own(), m.deleted(alive, film), []op{
		m.inserted(film),
		m.write("$set", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$set", d(column(c), c.text())))
		}),
		m.rewritten("replace", alive, func(c *client, r *record) bson.D { return d("$set", d(column(c), c.text())) }),
	})

	// New code sets other keys.
	fresh := []op{
		m.beside("Set", alive, func(ctx context.Context, c *client, r *record) error {
			key, value := []string{"IT", "JP"}[c.IntN(2)], c.text()
			if err := a.Set(ctx, r.id, attribute.Named(key), value); err != nil {
				return err
			}
			m.follow(r, d("$set", d("release."+key, value)))
			return nil
		}),
		m.write("Remove", func(r *record) bool {
			return alive(r) && r.doc["release"].(bson.M)["JP"] != nil
		}, func(ctx context.Context, c *client, r *record) error {
			if err := a.Remove(ctx, r.id, attribute.Named("JP")); err != nil {
				return err
			}
			m.follow(r, d("$unset", d("release.JP", "")))
			return nil
		}),
	}

	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		for _, r := range m.living() {
			name := fmt.Sprint(r.id)
			have := bson.M{}
			for _, e := range got(a.GetAll(t.Context(), r.id))(t) {
				key := string(e.Key)
				if _, twice := have[key]; twice {
					differ(t, "%s: %s twice", name, key)
				}
				have[key] = e.Value
			}
			same(t, name+": GetAll", have, r.doc["release"])
			same(t, name, without(stored[name], "releases", "release"), without(r.doc, "release"))
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d films that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// films are adopted with releases, and then changed by old code.
func releases(t *testing.T, w *world, id string, change bson.D) map[string]any {
	t.Helper()
	a := w.h.value.(*attribute.Attributes[any, any])
	if change != nil {
		w.update(t, "films", d("_id", id), change)
	}
	w.clean(t)
	out := map[string]any{}
	for _, e := range got(a.GetAll(t.Context(), id))(t) {
		out[string(e.Key)] = e.Value
	}
	return out
}

var attributeSays = []sentence{
	{"Adopt turns fields into entries", func(t *testing.T, w *world) {
		w.insert(t, "films", d("_id", "turned", "release", d("US", "x", "UK", "y")))
		if all := releases(t, w, "turned", nil); len(all) != 2 || all["US"] != "x" || all["UK"] != "y" {
			t.Errorf("%v", all)
		}
		same(t, "stored", w.stored(t, "films", "turned")["release"], bson.M{})
	}},
	{"insert and delete documents, `$set` the fields, and write whole documents with all their fields", meanwhile("insert", "delete", "$set", "replace")},
	{"change a field that has become an entry depending on its old value, as `$inc` does, because the field is gone and starts from nothing, and the result replaces the entry", func(t *testing.T, w *world) {
		w.insert(t, "films", d("_id", "inc", "release", d("US", int32(5))))
		if all := releases(t, w, "inc", nil); all["US"] != int32(5) {
			t.Errorf("%v", all)
		}
		if all := releases(t, w, "inc", d("$inc", d("release.US", int32(1)))); all["US"] != int32(1) {
			t.Errorf("%v", all)
		}
	}},
	{"`$unset` a field that has become an entry, because the entry stays", func(t *testing.T, w *world) {
		w.insert(t, "films", d("_id", "unset", "release", d("US", "x")))
		releases(t, w, "unset", nil)
		if all := releases(t, w, "unset", d("$unset", d("release.US", ""))); all["US"] != "x" {
			t.Errorf("%v", all)
		}
	}},
	{"write a field whose entry new code writes, because the field replaces the entry", func(t *testing.T, w *world) {
		a := w.h.value.(*attribute.Attributes[any, any])
		w.insert(t, "films", d("_id", "both", "release", d("US", "old")))
		w.update(t, "films", d("_id", "both"), d("$set", d("release.US", "older")))
		testkit.OK(t, a.Set(t.Context(), "both", attribute.Named("US"), "new"))
		if all := releases(t, w, "both", nil); all["US"] != "older" {
			t.Errorf("%v", all)
		}
	}},
	{"Set `OnCollision: KeepSource`, so that the second Adopt also takes fields that differ from their entry", func(t *testing.T, w *world) {
		w.insert(t, "films", d("_id", "second", "release", d("US", "x")))
		releases(t, w, "second", nil)
		if all := releases(t, w, "second", d("$set", d("release", d("US", "y", "UK", "z")))); all["US"] != "y" || all["UK"] != "z" {
			t.Errorf("%v", all)
		}
	}},
	{"A field that is null is removed and becomes no entry", func(t *testing.T, w *world) {
		w.insert(t, "films", d("_id", "null", "release", d("US", nil)))
		if all := releases(t, w, "null", nil); len(all) != 0 {
			t.Errorf("%v", all)
		}
		same(t, "stored", w.stored(t, "films", "null")["release"], bson.M{})
	}},
	{"Until then code that reads only entries misses what old code has written. So first deploy code that reads both, or keep the fields with `Options.Copy`", func(t *testing.T, w *world) {
		a := w.h.value.(*attribute.Attributes[any, any])
		w.insert(t, "films", d("_id", "kept", "release", d("US", "x")))
		if _, err := a.Get(t.Context(), "kept", attribute.Named("US")); !errors.Is(err, attribute.ErrNoAttribute) {
			t.Error(err)
		}
		keep := got(attribute.New[any, any](w.db.Collection("films"), &attribute.Options{ArrayField: "releases", Copy: true, OnCollision: attribute.KeepSource}))(t)
		got(keep.Adopt(t.Context(), columns, nil))(t)
		if v := got(a.Get(t.Context(), "kept", attribute.Named("US")))(t); v != "x" {
			t.Error(v)
		}
		same(t, "stored", w.stored(t, "films", "kept")["release"], bson.M{"US": "x"})
	}},
	{"Once new code writes entries, run Adopt with `KeepTarget`, and the last time without `Copy`. With `KeepSource` a field that `Copy` has left would undo a Set, and with `KeepTarget` what old code has set since is lost", func(t *testing.T, w *world) {
		a := w.h.value.(*attribute.Attributes[any, any])
		us, only := attribute.Named("US"), &mongopatterns.Work{Filter: d("_id", "set")}
		adopt := func(o *attribute.Options, want string) {
			t.Helper()
			o.ArrayField = "releases"
			got(got(attribute.New[any, any](w.db.Collection("films"), o))(t).Adopt(t.Context(), columns, only))(t)
			if v := got(a.Get(t.Context(), "set", us))(t); v != want {
				t.Errorf("%+v: %v, want %s", o, v, want)
			}
		}
		w.insert(t, "films", d("_id", "set", "release", d("US", "old")))
		adopt(&attribute.Options{Copy: true, OnCollision: attribute.KeepSource}, "old")
		testkit.OK(t, a.Set(t.Context(), "set", us, "new"))
		adopt(&attribute.Options{Copy: true, OnCollision: attribute.KeepTarget}, "new")
		adopt(&attribute.Options{Copy: true, OnCollision: attribute.KeepSource}, "old")
		testkit.OK(t, a.Set(t.Context(), "set", us, "new"))
		adopt(&attribute.Options{Copy: true, OnCollision: attribute.KeepTarget}, "new")
		testkit.Update(t, w.db.Collection("films"), d("_id", "set"), d("$set", d("release.US", "late")))
		adopt(&attribute.Options{OnCollision: attribute.KeepTarget}, "new")
		same(t, "stored", w.stored(t, "films", "set")["release"], bson.M{})
	}},
	{"With `Copy`, run Adopt with `KeepSource` once more after the old code has stopped, and let new code write entries only then", func(t *testing.T, w *world) {
		films, us, only := w.db.Collection("films"), attribute.Named("US"), &mongopatterns.Work{Filter: d("_id", "late")}
		adopt := func(o *attribute.Options, want string) {
			t.Helper()
			o.ArrayField = "releases"
			a := got(attribute.New[any, any](films, o))(t)
			got(a.Adopt(t.Context(), columns, only))(t)
			if v := got(a.Get(t.Context(), "late", us))(t); v != want {
				t.Errorf("%+v: %v, want %s", o, v, want)
			}
		}
		w.insert(t, "films", d("_id", "late", "release", d("US", "old")))
		adopt(&attribute.Options{Copy: true, OnCollision: attribute.KeepSource}, "old")
		testkit.Update(t, films, d("_id", "late"), d("$set", d("release.US", "late")))
		adopt(&attribute.Options{Copy: true, OnCollision: attribute.KeepSource}, "late")
		adopt(&attribute.Options{OnCollision: attribute.KeepTarget}, "late")
	}},
}
