//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// contactSteps lead from {home, work} to {contact: {home, work}}, and from there to
// {contact: [{how, number}]}.
var contactSteps = []schemaversion.Step{
	{Up: func(doc bson.D) (out bson.D, err error) {
		contact := bson.D{}
		for _, e := range doc {
			if e.Key == "home" || e.Key == "work" {
				contact = append(contact, e)
			} else {
				out = append(out, e)
			}
		}
		return append(out, bson.E{Key: "contact", Value: contact}), nil
	}},
	{Up: func(doc bson.D) (out bson.D, err error) {
		for _, e := range doc {
			if old, ok := e.Value.(bson.D); ok && e.Key == "contact" {
				ways := bson.A{}
				for _, way := range old {
					ways = append(ways, d("how", way.Key, "number", way.Value))
				}
				e.Value = ways
			}
			out = append(out, e)
		}
		return out, nil
	}},
}

func openSchema(db *mongo.Database) (helper, error) {
	return openSteps(db.Collection("contacts"), contactSteps)
}

// openSteps opens a collection whose documents are adopted by migrating them.
func openSteps(coll *mongo.Collection, steps []schemaversion.Step) (helper, error) {
	v, err := schemaversion.New[bson.M](coll, steps, &schemaversion.Options{Lease: time.Second})
	if err != nil {
		return helper{}, err
	}
	return helper{
		ensure: v.EnsureIndexes, value: v, busy: mongopatterns.ErrRunning,
		adopt: func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return v.Migrate(ctx, v.Newest(), work)
		},
	}, nil
}

func startSchema(w *world) service {
	v := w.h.value.(*schemaversion.Collection[bson.M])
	m := &model{coll: w.db.Collection("contacts")}
	contact := func(c *client) bson.M { return bson.M{"name": c.text(), "home": c.text(), "work": c.text()} }
	c := newClient('S', time30)
	for i := range 80 {
		doc := merged(contact(c), bson.M{"_id": int32(i)})
		if i%8 == 0 {
			doc = bson.M{"_id": int32(i), "name": c.text(), "schema_version": "2", "contact": bson.M{"home": c.text(), "work": c.text()}}
		}
		m.seed(w, doc)
		if i%8 == 0 {
			m.all[i].doc = merged(bson.M{"_id": int32(i), "name": doc["name"]}, normal(doc["contact"]).(bson.M))
		}
	}
	old := join(m.own(), m.deleted(alive, contact), []op{
		m.inserted(contact),
		m.write("replace", alive, func(ctx context.Context, c *client, r *record) error { return m.replace(ctx, r, contact(c)) }),
		m.write("$set", alive, func(ctx context.Context, c *client, r *record) error {
			return m.update(ctx, r, d("$set", d("name", c.text())))
		}),
	})
	fresh := []op{
		m.write("Update", alive, func(ctx context.Context, c *client, r *record) error {
			change := d("$set", d("name", c.text()))
			err := v.Update(ctx, r.id, change)
			if err == nil {
				m.follow(r, change)
			}
			return err
		}),
		{"Insert", func(ctx context.Context, c *client) error {
			doc := merged(contact(c), bson.M{"_id": c.id()})
			_, err := v.Insert(ctx, bson.M{"_id": doc["_id"], "name": doc["name"], "contact": bson.A{
				d("how", "home", "number", doc["home"]), d("how", "work", "number", doc["work"]),
			}})
			if err == nil {
				m.put(doc)
			}
			return err
		}},
	}
	newest := func(doc bson.M) bson.M {
		return merged(without(doc, "home", "work"), bson.M{"contact": bson.M{"home": doc["home"], "work": doc["work"]}})
	}
	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		for _, r := range m.living() {
			name := fmt.Sprint(r.id)
			have := normal(got(v.Get(t.Context(), r.id))(t)).(bson.M)
			ways := bson.M{}
			for _, way := range have["contact"].(bson.A) {
				ways[way.(bson.M)["how"].(string)] = way.(bson.M)["number"]
			}
			have["contact"] = ways
			same(t, name, without(have, "schema_version"), newest(r.doc))
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d contacts that nobody stored: %v", len(stored), stored)
		}
		if counts := got(v.Status(t.Context()))(t); len(counts) != 1 || counts[v.Newest()] == 0 {
			t.Errorf("versions: %v", counts)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// upgraded is a contact of the newest version.
func upgraded(t *testing.T, w *world, id string) *schemaversion.Collection[bson.M] {
	t.Helper()
	w.insert(t, "contacts", d("_id", id, "home", "1", "work", "2"))
	w.clean(t)
	return w.h.value.(*schemaversion.Collection[bson.M])
}

var schemaSays = []sentence{
	{"Migrate takes the place of Adopt, and nothing has to be done before it", func(t *testing.T, w *world) {
		v := w.h.value.(*schemaversion.Collection[bson.M])
		w.insert(t, "contacts", d("_id", "before", "home", "1", "work", "2"))
		got(v.Get(t.Context(), "before"))(t)
		same(t, "stored", w.stored(t, "contacts", "before"), bson.M{"_id": "before", "home": "1", "work": "2"})
	}},
	{"insert, change and delete documents of the old version", meanwhile("insert", "$set", "replace", "delete", "insert again")},
	{"change fields of the old version in an upgraded document, because they stay beside the new fields, which do not follow", func(t *testing.T, w *world) {
		v := upgraded(t, w, "changed")
		w.update(t, "contacts", d("_id", "changed"), d("$set", d("home", "3")))
		w.clean(t)
		have := normal(got(v.Get(t.Context(), "changed"))(t)).(bson.M)
		if have["home"] != "3" || have["contact"].(bson.A)[0].(bson.M)["number"] != "1" {
			t.Errorf("%v", have)
		}
	}},
	{"write an upgraded document back whole, because it then has the old version again, and what only the new version has is lost", func(t *testing.T, w *world) {
		v := upgraded(t, w, "back")
		testkit.OK(t, v.Update(t.Context(), "back", d("$push", d("contact", d("how", "mobile", "number", "4")))))
		w.replace(t, "contacts", bson.M{"_id": "back", "home": "1", "work": "3"})
		w.clean(t)
		have := normal(got(v.Get(t.Context(), "back"))(t)).(bson.M)
		if ways := have["contact"].(bson.A); len(ways) != 2 {
			t.Errorf("%v", have)
		}
	}},
	{"New code reads both versions all the time", func(t *testing.T, w *world) {
		v := w.h.value.(*schemaversion.Collection[bson.M])
		w.insert(t, "contacts", d("_id", "read", "home", "1", "work", "2"))
		have := normal(got(v.Get(t.Context(), "read"))(t)).(bson.M)
		if ways, ok := have["contact"].(bson.A); !ok || len(ways) != 2 {
			t.Errorf("%v", have)
		}
	}},
	{"Run Migrate again after the old code is gone", func(t *testing.T, w *world) {
		upgraded(t, w, "first")
		v := upgraded(t, w, "again")
		if counts := got(v.Status(t.Context()))(t); len(counts) != 1 || counts[v.Newest()] == 0 {
			t.Errorf("versions: %v", counts)
		}
	}},
}

type athlete interface{ called() string }

type bowler struct {
	ID   any    `bson:"_id"`
	Name string `bson:"name"`
}

type player struct {
	ID     any    `bson:"_id"`
	Name   string `bson:"name"`
	Titles int32  `bson:"titles"`
}

func (b bowler) called() string { return b.Name }
func (p player) called() string { return p.Name }

func openPolymorphic(*mongo.Database) (helper, error) {
	kinds, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling"), polymorphic.Of[player]("tennis")},
		&polymorphic.Options[athlete]{KindField: "sport", Default: "bowling"})
	return helper{value: kinds}, err
}

func startPolymorphic(w *world) service {
	kinds := w.h.value.(*polymorphic.Kinds[athlete])
	m := &model{coll: w.db.Collection("athletes")}
	old := join(m.own(), m.deleted(func(r *record) bool { return alive(r) && r.doc["sport"] == nil }, func(c *client) bson.M {
		return bson.M{"name": c.text()}
	}), []op{m.inserted(func(c *client) bson.M { return bson.M{"name": c.text()} })})
	fresh := []op{{"insert a player", func(ctx context.Context, c *client) error {
		p := player{c.id(), c.text(), c.int(100)}
		raw, err := kinds.Encode(p)
		if err == nil {
			_, err = m.coll.InsertOne(ctx, raw)
		}
		if err == nil {
			m.put(bson.M{"_id": p.ID, "name": p.Name, "titles": p.Titles, "sport": "tennis"})
		}
		return err
	}}}
	oracle := func(t *testing.T) {
		found := map[any]athlete{}
		for a, err := range kinds.Find(t.Context(), m.coll, nil) {
			testkit.OK(t, err)
			switch a := a.(type) {
			case bowler:
				found[a.ID] = a
			case player:
				found[a.ID] = a
			}
		}
		for _, r := range m.living() {
			want := athlete(bowler{r.id, r.doc["name"].(string)})
			if r.doc["sport"] != nil {
				want = player{r.id, r.doc["name"].(string), r.doc["titles"].(int32)}
			}
			if found[r.id] != want {
				differ(t, "%v, want %v", found[r.id], want)
			}
			delete(found, r.id)
		}
		if len(found) > 0 {
			t.Errorf("%v", found)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// bowls reads a document without a kind, which stays as it is.
func bowls(t *testing.T, w *world) {
	kinds := w.h.value.(*polymorphic.Kinds[athlete])
	id := bson.NewObjectID()
	w.insert(t, "athletes", d("_id", id, "name", "Earl"))
	for a, err := range kinds.Find(t.Context(), w.db.Collection("athletes"), d("_id", id)) {
		testkit.OK(t, err)
		if a != (bowler{id, "Earl"}) {
			t.Errorf("%v", a)
		}
	}
	same(t, "stored", w.stored(t, "athletes", id), bson.M{"_id": id, "name": "Earl"})
}

var polymorphicSays = []sentence{
	{"Adopt is not needed, because documents without a kind are read as the Default. So make the old kind the Default", bowls},
	{"insert, change and delete documents without a kind", meanwhile("insert", "delete", "insert again", "$inc of a field")},
	{"write a document of another kind back whole and without its kind, because it is then read as the Default", func(t *testing.T, w *world) {
		kinds := w.h.value.(*polymorphic.Kinds[athlete])
		w.insert(t, "athletes", d("_id", "back", "sport", "tennis", "name", "Martina", "titles", int32(167)))
		w.replace(t, "athletes", bson.M{"_id": "back", "name": "Martina", "titles": int32(167)})
		for a, err := range kinds.Find(t.Context(), w.db.Collection("athletes"), d("_id", "back")) {
			testkit.OK(t, err)
			if _, ok := a.(bowler); !ok {
				t.Errorf("%T", a)
			}
		}
	}},
}
