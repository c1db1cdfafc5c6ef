//go:build unix

package adoption_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/subset"
)

const kept = 3

func openSubset(db *mongo.Database) (helper, error) {
	s, err := subset.New[any, bson.M](db.Collection("products"), db.Collection("reviews"), &subset.Options{
		ParentField: "product_id", ArrayField: "reviews", CountField: "num_reviews", N: kept,
		Sort:   d("rank", -1),
		Values: []subset.Value{{Field: "stars", Sum: "sum_stars"}},
	})
	if err != nil {
		return helper{}, err
	}
	return helper{ensure: s.EnsureIndexes, adopt: s.Adopt, check: s.Check, repair: s.Repair, value: s}, nil
}

// reviews are the items of a product in the model.
func reviews(r *record) []bson.M {
	list, _ := r.doc["reviews"].(bson.A)
	out := make([]bson.M, len(list))
	for i, v := range list {
		out[i] = v.(bson.M)
	}
	return out
}

func startSubset(w *world) service {
	s := w.h.value.(*subset.Subset[any, bson.M])
	m := &model{coll: w.db.Collection("products")}
	review := func(c *client) bson.M {
		return bson.M{"_id": c.id(), "rank": c.text(), "stars": c.int(5), "text": c.text()}
	}
	product := func(c *client) bson.M {
		list := bson.A{}
		for range c.IntN(7) {
			list = append(list, review(c))
		}
		return bson.M{"name": c.text(), "reviews": list}
	}
	c := newClient('S', time30)
	for i := range 60 {
		doc := merged(product(c), bson.M{"_id": int32(i)})
		if i%10 == 0 { // no review until new code comes
			doc = bson.M{"_id": int32(i), "name": c.text()}
		}
		m.seed(w, doc)
	}
	for i := range 60 { // what the must-nots are done to
		m.seed(w, bson.M{"_id": fmt.Sprint("aside", i), "aside": true, "reviews": bson.A{review(c), review(c), review(c), review(c), review(c)}})
	}
	usual := func(r *record) bool { return alive(r) && r.doc["aside"] == nil }
	bare := func(r *record) bool { return usual(r) && len(reviews(r)) == 0 && r.tags["fresh"] == nil }
	held := func(r *record) bool { return usual(r) && len(reviews(r)) > 0 }

	push := func(ctx context.Context, c *client, r *record) error {
		return m.update(ctx, r, d("$push", d("reviews", review(c))))
	}
	old := join(m.own(), m.deleted(bare, func(c *client) bson.M { return bson.M{"name": c.text()} }), []op{
		m.inserted(product),
		m.beside("push", usual, push), m.beside("push", usual, push), m.beside("push", usual, push),
		m.rewritten("replace", usual, func(c *client, r *record) bson.D {
			return d("$set", d("name", c.text()), "$push", d("reviews", review(c)))
		}),
	})

	fresh := []op{
		m.beside("Add", usual, func(ctx context.Context, c *client, r *record) error {
			item := review(c)
			m.mu.Lock()
			r.tags["fresh"] = true
			m.mu.Unlock()
			if _, err := s.Insert(ctx, r.id, item); err != nil {
				return err
			}
			m.follow(r, d("$push", d("reviews", item)))
			return nil
		}),
		m.write("Update", held, func(ctx context.Context, c *client, r *record) error {
			item := reviews(r)[c.IntN(len(reviews(r)))]
			change := d("rank", c.text(), "stars", c.int(5))
			if err := s.Update(ctx, r.id, item["_id"], d("$set", change)); err != nil {
				return err
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			apply(item, d("$set", change))
			return nil
		}),
		m.write("Delete", held, func(ctx context.Context, c *client, r *record) error {
			item := reviews(r)[c.IntN(len(reviews(r)))]
			if err := s.Delete(ctx, r.id, item["_id"]); err != nil {
				return err
			}
			m.follow(r, d("$pull", d("reviews", bson.M{"_id": item["_id"]})))
			return nil
		}),
	}

	best := func(r *record) []bson.M {
		list := reviews(r)
		slices.SortFunc(list, func(a, b bson.M) int { return -cmp.Compare(a["rank"].(string), b["rank"].(string)) })
		return list
	}
	oracle := func(t *testing.T) {
		stored := read(t, m.coll)
		for _, r := range m.living() {
			want := best(r)
			all := []bson.M{}
			for item, err := range s.All(t.Context(), r.id) {
				testkit.OK(t, err)
				all = append(all, without(item, "product_id"))
			}
			name := fmt.Sprint(r.id)
			same(t, name+": All", list(all), list(want))
			top := got(s.Top(t.Context(), r.id))(t)
			for _, item := range top {
				delete(item, "product_id")
			}
			same(t, name+": Top", list(top), list(want[:min(kept, len(want))]))
			if n, _ := stored[name]["num_reviews"].(int32); int(n) != len(want) {
				differ(t, "%s: %v reviews, want %d", name, n, len(want))
			}
			same(t, name, without(stored[name], "reviews", "num_reviews", "sum_stars"), without(r.doc, "reviews"))
			delete(stored, name)
		}
		if len(stored) > 0 {
			t.Errorf("%d products that nobody stored: %v", len(stored), stored)
		}
	}
	return service{old: old, fresh: fresh, oracle: oracle}
}

// adopted is a product with five reviews, of the ranks 1 to 5, after Adopt.
func adopted(t *testing.T, w *world, id string) *subset.Subset[any, bson.M] {
	t.Helper()
	list := bson.A{}
	for i := range 5 {
		list = append(list, reviewed(id, i))
	}
	w.insert(t, "products", d("_id", id, "reviews", list))
	w.clean(t)
	return w.h.value.(*subset.Subset[any, bson.M])
}

func reviewed(id string, i int) bson.M {
	return bson.M{"_id": fmt.Sprint(id, i), "rank": fmt.Sprint(i), "stars": int32(1), "text": "as it was"}
}

// all is the number of reviews that All finds, each as it was.
func all(t *testing.T, w *world, id string) (n int) {
	t.Helper()
	s := w.h.value.(*subset.Subset[any, bson.M])
	for item, err := range s.All(t.Context(), id) {
		testkit.OK(t, err)
		if n++; item["text"] != "as it was" {
			t.Errorf("%v", item)
		}
	}
	return n
}

var subsetSays = []sentence{
	{"Adopt stores embedded items in a collection of their own, keeps the best in the document, and counts them", func(t *testing.T, w *world) {
		adopted(t, w, "moved")
		if n, product := all(t, w, "moved"), w.stored(t, "products", "moved"); n != 5 || product["num_reviews"] != int32(5) && product["num_reviews"] != int64(5) {
			t.Errorf("%d reviews, %v", n, product)
		}
	}},
	{"insert parents with items, push items, and delete parents without items and insert them again", meanwhile("insert", "push", "delete", "insert again")},
	{"write a parent back with one more item, if it was read since its adoption and its items keep their `_id`s", meanwhile("replace")},
	{"edit or pull items of an adopted parent. Adopt leaves the array as it is and counts the parent as Remaining, and Check reports it, until Repair takes the collection as the truth and undoes the change", func(t *testing.T, w *world) {
		adopted(t, w, "edit")
		adopted(t, w, "pull")
		w.update(t, "products", d("_id", "edit", "reviews._id", "edit4"), d("$set", d("reviews.$.text", "edited")))
		w.update(t, "products", d("_id", "pull"), d("$pull", d("reviews", d("_id", "pull4"))))
		result, problems := w.again(t)
		if result.Remaining != 2 {
			t.Errorf("%+v", result)
		}
		named(t, problems, mongopatterns.Edited, "edit")
		named(t, problems, subset.Pulled, "pull")
		if left := w.repaired(t); len(left) != 0 {
			t.Errorf("%v", left)
		}
		if n := all(t, w, "edit") + all(t, w, "pull"); n != 10 {
			t.Errorf("%d reviews", n)
		}
	}},
	{"write a parent back as it was before its adoption or from a struct without the items' `_id`, because deleted items return, and each Adopt stores items without `_id`s again. [A query](https://pkg.go.dev/github.com/mongopatterns/mongopatterns/subset#hdr-Adoption_and_maintenance) finds equal items", func(t *testing.T, w *world) {
		s := adopted(t, w, "back")
		testkit.OK(t, s.Delete(t.Context(), "back", "back0"))
		before := bson.A{d("rank", "7", "stars", 1, "text", "as it was")}
		for i := range 5 {
			before = append(before, reviewed("back", i))
		}
		for range 2 {
			w.replace(t, "products", bson.M{"_id": "back", "reviews": before})
			w.clean(t)
		}
		if n := all(t, w, "back"); n != 7 {
			t.Errorf("%d reviews", n)
		}
		// The query of subset's manual finds them.
		var doubles []bson.M
		found, err := w.db.Collection("reviews").Aggregate(t.Context(), bson.A{
			d("$match", d("product_id", "back")),
			d("$set", d("_id", "$$REMOVE", "is", "$_id")),
			d("$group", d("_id", d("$unsetField", d("field", "is", "input", "$$ROOT")), "items", d("$push", "$is"))),
			d("$match", d("items.1", d("$exists", true))),
		})
		testkit.OK(t, err)
		testkit.OK(t, found.All(t.Context(), &doubles))
		if len(doubles) != 1 || len(doubles[0]["items"].(bson.A)) != 2 {
			t.Errorf("%v", doubles)
		}
	}},
	{"delete a parent that has items, because they stay, and Check reports them as orphans", func(t *testing.T, w *world) {
		s := adopted(t, w, "deleted")
		w.remove(t, "products", "deleted")
		_, problems := w.again(t)
		if len(problems) == 0 || problems[0].Kind != mongopatterns.Orphan {
			t.Errorf("%v", problems)
		}
		for i := range 5 {
			testkit.OK(t, s.Delete(t.Context(), "deleted", fmt.Sprint("deleted", i)))
		}
	}},
	{"delete a parent and insert it again, because its items return", func(t *testing.T, w *world) {
		adopted(t, w, "again")
		w.remove(t, "products", "again")
		w.insert(t, "products", d("_id", "again"))
		w.clean(t)
		if n := all(t, w, "again"); n != 5 {
			t.Errorf("%d reviews", n)
		}
	}},
	{"No item is dropped, but an item that old code has pushed is neither counted nor found by All until the second Adopt", func(t *testing.T, w *world) {
		adopted(t, w, "pushed")
		w.update(t, "products", d("_id", "pushed"), d("$push", d("reviews", reviewed("pushed", 9))))
		if n := all(t, w, "pushed"); n != 5 {
			t.Errorf("%d reviews", n)
		}
		w.clean(t)
		if n := all(t, w, "pushed"); n != 6 || w.stored(t, "products", "pushed")["num_reviews"] != int32(6) {
			t.Errorf("%d reviews", n)
		}
	}},
	{"If new code writes to a parent that Adopt has not reached, the write adopts it", func(t *testing.T, w *world) {
		w.insert(t, "products", d("_id", "written", "reviews", bson.A{reviewed("written", 1), reviewed("written", 2)}))
		s := w.h.value.(*subset.Subset[any, bson.M])
		_, err := s.Insert(t.Context(), "written", reviewed("written", 3))
		testkit.OK(t, err)
		if n := all(t, w, "written"); n != 3 || w.stored(t, "products", "written")["num_reviews"] != int32(3) {
			t.Errorf("%d reviews", n)
		}
		// The next one follows the best, though old code has pushed another one.
		adopted(t, w, "next")
		w.update(t, "products", d("_id", "next"), d("$push", d("reviews", merged(reviewed("next", 9), bson.M{"rank": "00"}))))
		testkit.OK(t, w.h.value.(*subset.Subset[any, bson.M]).Delete(t.Context(), "next", "next4"))
		w.clean(t)
	}},
}
