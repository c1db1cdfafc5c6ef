//go:build unix

package adoption_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/outlier"
)

func openOutlier(db *mongo.Database) (helper, error) {
	l, err := outlier.New[any, string](db.Collection("books"), db.Collection("book_extras"), &outlier.Options{
		ArrayField: "customers", FlagField: "has_extras", ParentField: "book_id", MaxCount: 8,
	})
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: l.EnsureIndexes, adopt: l.Adopt, check: l.Check, repair: l.Repair, value: l}, nil
}

func customers(r *record) (out []string) {
	list, _ := r.doc["customers"].(bson.A)
	for _, v := range list {
		out = append(out, v.(string))
	}
	return out
}

func startOutlier(w *world) service {
	l := w.h.value.(*outlier.Lists[any, string])
	m := &model{coll: w.db.Collection("books")}
	book := func(c *client) bson.M {
		list := bson.A{}
		for range c.IntN(12) {
			list = append(list, c.text())
		}
		return bson.M{"title": c.text(), "customers": list}
	}
	c := newClient('S', time30)
	for i := range 40 {
		m.seed(w, merged(book(c), bson.M{"_id": int32(i)}))
	}
	for i := range 40 { // typical for ever
		m.seed(w, bson.M{"_id": fmt.Sprint("short", i), "short": true, "customers": bson.A{c.text()}})
	}
	usual := func(r *record) bool { return alive(r) && r.doc["short"] == nil }
	short := func(r *record) bool { return alive(r) && r.doc["short"] != nil }
	held := func(r *record) bool { return usual(r) && len(customers(r)) > 0 }

	// A client sees by MatchedCount whether the element was in the array.
	found := func(ctx context.Context, r *record, e string, update bson.D) (bool, error) {
		result, err := m.coll.UpdateOne(ctx, d("_id", r.id, "customers", e), update)
		return err == nil && result.MatchedCount == 1, err
	}
	push := func(ctx context.Context, c *client, r *record) error {
		return m.update(ctx, r, d("$push", d("customers", c.text())))
	}
	pull := m.write("pull", held, func(ctx context.Context, c *client, r *record) error {
		list := customers(r)
		e := list[c.IntN(len(list))]
		pulled, err := found(ctx, r, e, d("$pull", d("customers", e)))
		if pulled {
			m.follow(r, d("$pull", d("customers", e)))
		}
		return err
	})
	edit := m.write("edit inside", held, func(ctx context.Context, c *client, r *record) error {
		list := customers(r)
		i, e := c.IntN(len(list)), c.text()
		edited, err := found(ctx, r, list[i], d("$set", d("customers.$", e)))
		if edited {
			r.doc["customers"].(bson.A)[i] = e
		}
		return err
	})
	old := join(m.own(), m.deleted(short, func(c *client) bson.M {
		return bson.M{"short": true, "customers": bson.A{c.text()}}
	}), []op{
		m.inserted(book), pull, edit,
		m.beside("push", usual, push), m.beside("push", usual, push), m.beside("push", usual, push),
	})

	fresh := []op{
		m.beside("Add", usual, func(ctx context.Context, c *client, r *record) error {
			e := c.text()
			n, err := l.Add(ctx, r.id, e)
			if err == nil && n != 1 {
				err = fmt.Errorf("%d added", n)
			}
			if err == nil {
				m.follow(r, d("$push", d("customers", e)))
			}
			return err
		}),
		m.write("Remove", held, func(ctx context.Context, c *client, r *record) error {
			list := customers(r)
			e := list[c.IntN(len(list))]
			removed, err := l.Remove(ctx, r.id, e)
			if err == nil && !removed {
				err = fmt.Errorf("%s was not there", e)
			}
			if err == nil {
				m.follow(r, d("$pull", d("customers", e)))
			}
			return err
		}),
	}

	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		for _, r := range m.living() {
			want := customers(r)
			var all []string
			for e, err := range l.All(t.Context(), r.id) {
				testkit.OK(t, err)
				all = append(all, e)
			}
			slices.Sort(want)
			slices.Sort(all)
			name := fmt.Sprint(r.id)
			if !slices.Equal(all, want) {
				differ(t, "%s: %v, want %v", name, all, want)
			}
			if n := got(l.Total(t.Context(), r.id))(t); n != int64(len(want)) {
				differ(t, "%s: %d customers, want %d", name, n, len(want))
			}
			same(t, name, without(stored[name], "customers", "has_extras", "customers_outside", "customers_moved"), without(r.doc, "customers"))
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d books that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

var outlierSays = []sentence{
	{"Adopt splits arrays that exceed the bounds", func(t *testing.T, w *world) {
		splitBook(t, w, "over")
		sameBook(t, w, "over", 12)
		if inside := w.stored(t, "books", "over")["customers"].(bson.A); len(inside) == 12 {
			t.Errorf("all of %v is inside", inside)
		}
	}},
	{"insert documents, push, pull and edit elements that are in the array, and delete documents that were never split and insert them again", meanwhile("insert", "push", "pull", "edit inside", "delete", "insert again")},
	{"`$pull` or edit an element that lies outside the document, because nothing happens", func(t *testing.T, w *world) {
		splitBook(t, w, "pull")
		if w.update(t, "books", d("_id", "pull", "customers", "0"), d("$pull", d("customers", "0"))) ||
			w.update(t, "books", d("_id", "pull", "customers", "1"), d("$set", d("customers.$", "x"))) {
			t.Error("the first elements are not outside")
		}
		w.clean(t)
		sameBook(t, w, "pull", 12)
	}},
	{"write a split document back as it was before the split, even with a few elements removed or with more at the end, because Adopt takes its array for the whole list", func(t *testing.T, w *world) {
		writeBack(t, w, "back", func(list bson.A) bson.A { return list })
		w.clean(t)
		sameBook(t, w, "back", 12)
		writeBack(t, w, "more", func(list bson.A) bson.A { return append(list, "12", "13") })
		w.clean(t)
		sameBook(t, w, "more", 14)
		writeBack(t, w, "less", func(list bson.A) bson.A { return slices.Delete(list, 3, 4) })
		w.clean(t)
		if all := book(t, w, "less"); len(all) != 11 || slices.Contains(all, "3") {
			t.Errorf("%v", all)
		}
	}},
	{"write a split document back from a struct, unless elements have moved since it was read, because Adopt takes its array for the newest part of the list. Until Adopt, calls see only this array", func(t *testing.T, w *world) {
		splitBook(t, w, "struct")
		inside := writeStruct(t, w, "struct", "12")
		if all := book(t, w, "struct"); len(all) != inside {
			t.Errorf("%v", all)
		}
		w.clean(t)
		sameBook(t, w, "struct", 13)
	}},
	{"expect the whole list in the document, because only the newest elements are there", func(t *testing.T, w *world) {
		splitBook(t, w, "read")
		if list := w.stored(t, "books", "read")["customers"].(bson.A); len(list) > 8 || list[len(list)-1] != "11" {
			t.Errorf("%v", list)
		}
	}},
	{"put overflow documents beside a list. Their elements come last", func(t *testing.T, w *world) {
		splitBook(t, w, "beside")
		w.insert(t, "book_extras", d("_id", "late", "book_id", "beside", "customers", bson.A{"12", "13"}))
		w.clean(t)
		sameBook(t, w, "beside", 14)
	}},
	{"edit an element by its position, because another element is there now", func(t *testing.T, w *world) {
		splitBook(t, w, "place")
		w.update(t, "books", d("_id", "place"), d("$set", d("customers.0", "x")))
		w.clean(t)
		if all := book(t, w, "place"); all[0] != "0" || !slices.Contains(all, "x") {
			t.Errorf("%v", all)
		}
	}},
	{"write back a struct after elements have moved, or a list with many changes, because Adopt cannot tell what the list is now. Check reports it as `Unclear`, and you have to decide", func(t *testing.T, w *world) {
		splitBook(t, w, "unclear")
		read := w.stored(t, "books", "unclear")["customers"].(bson.A)
		moveOn(t, w, "unclear")
		w.replace(t, "books", bson.M{"_id": "unclear", "customers": read})
		result, problems := w.again(t)
		named(t, problems, outlier.Unclear, "unclear")
		if left := w.repaired(t); result.Remaining != 1 || len(left) != 1 {
			t.Errorf("%+v, %v", result, left)
		}
		w.remove(t, "books", "unclear")
		w.repaired(t)
	}},
	{"write back the fields of outlier after elements have moved, because elements are then in the list twice, unless Adopt runs next", func(t *testing.T, w *world) {
		splitBook(t, w, "fields")
		read := w.stored(t, "books", "fields")
		moveOn(t, w, "fields")
		w.replace(t, "books", read)
		if all := book(t, w, "fields"); len(slices.Compact(slices.Sorted(slices.Values(all)))) == len(all) {
			t.Errorf("%v", all)
		}
		w.clean(t)
		if all := book(t, w, "fields"); len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) || !slices.Contains(all, "11") {
			t.Errorf("%v", all)
		}
	}},
	{"delete a split document, because its overflow documents stay. Check reports them and Repair deletes them, but if the document is inserted again before that, its old elements return", func(t *testing.T, w *world) {
		splitBook(t, w, "again")
		w.remove(t, "books", "again")
		w.insert(t, "books", d("_id", "again", "customers", bson.A{"x"}))
		w.clean(t)
		if all := book(t, w, "again"); len(all) < 2 || !slices.Contains(all, "x") || !slices.Contains(all, "0") {
			t.Errorf("%v", all)
		}
		w.remove(t, "books", "again")
		_, problems := w.again(t)
		if len(problems) == 0 || problems[0].Kind != mongopatterns.Orphan {
			t.Errorf("%v", problems)
		}
		if left := w.repaired(t); len(left) != 0 {
			t.Errorf("%v", left)
		}
	}},
	{"The second Adopt splits an array that old code has pushed over its bound", func(t *testing.T, w *world) {
		splitBook(t, w, "second")
		for i := range 12 {
			w.update(t, "books", d("_id", "second"), d("$push", d("customers", fmt.Sprint(12+i))))
		}
		if n := len(w.stored(t, "books", "second")["customers"].(bson.A)); n <= 8 {
			t.Errorf("%d in the array", n)
		}
		w.clean(t)
		if n := len(w.stored(t, "books", "second")["customers"].(bson.A)); n > 8 {
			t.Errorf("%d in the array", n)
		}
		sameBook(t, w, "second", 24)
	}},
}

func twelve(id string) bson.D {
	list := bson.A{}
	for i := range 12 {
		list = append(list, fmt.Sprint(i))
	}
	return d("_id", id, "customers", list)
}

// writeBack writes a book back as it was read before it was split, but for a change.
func writeBack(t *testing.T, w *world, id string, change func(list bson.A) bson.A) {
	t.Helper()
	w.insert(t, "books", twelve(id))
	read := w.stored(t, "books", id)
	w.clean(t)
	read["customers"] = change(read["customers"].(bson.A))
	w.replace(t, "books", read)
}

// writeStruct writes back what a struct has of a book, with another customer, and returns how many the array has.
func writeStruct(t *testing.T, w *world, id, customer string) int {
	t.Helper()
	list := append(w.stored(t, "books", id)["customers"].(bson.A), customer)
	w.replace(t, "books", bson.M{"_id": id, "customers": list})
	return len(list)
}

// moveOn lets a book of 12 customers grow until all that were in its array have moved out.
func moveOn(t *testing.T, w *world, id string) {
	t.Helper()
	for i := range 12 {
		w.update(t, "books", d("_id", id), d("$push", d("customers", fmt.Sprint(12+i))))
	}
	w.clean(t)
}

// splitBook is a book of 12 customers, 0 to 11, after Adopt.
func splitBook(t *testing.T, w *world, id string) {
	t.Helper()
	w.insert(t, "books", twelve(id))
	w.clean(t)
	if w.stored(t, "books", id)["has_extras"] != true {
		t.Fatal("it was not split")
	}
}

func book(t *testing.T, w *world, id string) (all []string) {
	t.Helper()
	for e, err := range w.h.value.(*outlier.Lists[any, string]).All(t.Context(), id) {
		testkit.OK(t, err)
		all = append(all, e)
	}
	return all
}

// sameBook requires the customers 0 to n-1, in order.
func sameBook(t *testing.T, w *world, id string, n int) {
	t.Helper()
	all := book(t, w, id)
	for i := range max(n, len(all)) {
		if len(all) != n || all[i] != fmt.Sprint(i) {
			t.Fatalf("%v, want 0 to %d", all, n-1)
		}
	}
}
