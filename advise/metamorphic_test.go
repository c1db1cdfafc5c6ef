package advise_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Nothing rests on names: with fields called f1, f2, … the same is advised, with the
// same savings but for the bytes of the names.
func TestRenamed(t *testing.T) {
	t.Parallel()
	db, other := mongotest.Database(t), mongotest.Database(t)
	r := rand.New(rand.NewPCG(8, 8))
	all := append(three(t, 150),
		generate(r, kindOf(t, "relation: children one by one, by a list"), 150, "students"),
		generate(r, kindOf(t, "relation: lists of references that grow"), 100, "people"),
		generate(r, kindOf(t, "attribute: many indexed fields of a subdocument"), 150, "goods"))
	all = append(all, changing(t, 200)...)
	plain := look(t, db, unhurried(store(t, db, all)))
	for i := range all {
		names := map[string]string{"_id": "_id"}
		for _, e := range all[i].docs[0].(bson.D)[1:] {
			names[e.Key] = fmt.Sprint("f", len(names))
		}
		for j, doc := range all[i].docs {
			renamed := slices.Clone(doc.(bson.D))
			for k := range renamed {
				renamed[k].Key = names[renamed[k].Key]
			}
			all[i].docs[j] = renamed
		}
		for j := range all[i].commands {
			all[i].commands[j].Body = rename(t, all[i].commands[j].Body, names)
			if reply := all[i].commands[j].Reply; reply != nil && all[i].commands[j].Collection == all[i].name {
				all[i].commands[j].Reply = rename(t, reply, names)
			}
		}
	}
	for i := range all[8].log {
		all[8].log[i].command = renameIn(all[8].log[i].command, map[string]string{"views": "f4"}).(bson.D)
	}
	for i, index := range all[5].indexes {
		all[5].indexes[i].Keys = bson.D{{Key: "f4" + strings.TrimPrefix(index.Keys.(bson.D)[0].Key, "specs"), Value: 1}}
	}
	if len(plain.Findings) != 9 {
		t.Fatalf("advised %v, %v", named(plain), plain.NotAdvised)
	}
	renamed := look(t, other, unhurried(store(t, other, all)))
	if !slices.Equal(named(plain), named(renamed)) {
		t.Fatalf("advised %v, renamed %v", named(plain), named(renamed))
	}
	for i, f := range plain.Findings {
		g := renamed.Findings[i]
		if difference := float64(g.Saving.Low) / float64(f.Saving.Low); f.Pattern != g.Pattern || difference < 0.98 || difference > 1.02 {
			t.Errorf("%s saves %v, renamed %v", f.Name(), f.Saving, g.Saving)
		}
	}
}

// rename changes names in keys and in "$path.x" values.
func rename(t *testing.T, raw bson.Raw, names map[string]string) bson.Raw {
	t.Helper()
	var d bson.D
	if err := bson.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	out, err := bson.Marshal(renameIn(d, names))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func renameIn(value any, names map[string]string) any {
	path := func(name string) string {
		for from, to := range names {
			if name == from {
				return to
			}
			if len(name) > len(from) && name[:len(from)+1] == from+"." {
				return to + name[len(from):]
			}
		}
		return name
	}
	switch v := value.(type) {
	case bson.D:
		out := bson.D{}
		for _, e := range v {
			out = append(out, bson.E{Key: path(e.Key), Value: renameIn(e.Value, names)})
		}
		return out
	case bson.A:
		out := bson.A{}
		for _, e := range v {
			out = append(out, renameIn(e, names))
		}
		return out
	case string:
		if len(v) > 1 && v[0] == '$' {
			return "$" + path(v[1:])
		}
	}
	return value
}

// What a finding rests on is taken away, and the finding goes: references that lead
// nowhere, children that all parents share, fields that all documents have.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	last := func(doc bson.D) *any { return &doc[len(doc)-1].Value }
	tests := []struct {
		kind   string
		change func(docs []any, i int)
	}{
		{"relation: children one by one, by a list", func(docs []any, i int) {
			for j, id := range (*last(docs[i].(bson.D))).(bson.A) {
				(*last(docs[i].(bson.D))).(bson.A)[j] = id.(int) + 1_000_000
			}
		}},
		{"relation: children one by one, by an owner", func(docs []any, i int) {
			*last(docs[i].(bson.D)) = fmt.Sprint(i)
		}},
		{"relation: lists of references that grow", func(docs []any, i int) {
			*last(docs[i].(bson.D)) = *last(docs[0].(bson.D))
		}},
		{"relation: embedded children that are read alone", func(docs []any, i int) {
			*last(docs[i].(bson.D)) = *last(docs[0].(bson.D))
		}},
		{"attribute: many indexed fields of a subdocument", func(docs []any, i int) {
			full := bson.D{}
			for j := range scale.Of(16, 40, 40) { // and more than each has
				for _, word := range words {
					full = append(full, bson.E{Key: fmt.Sprintf("%s_%d", word, j), Value: i})
				}
			}
			*last(docs[i].(bson.D)) = full
		}},
		{"bucket: events read by range", func(docs []any, i int) { docs[i].(bson.D)[2].Value = time.Unix(int64(i)*7*86400, 0) }}, // one a week
		{"computed: totals of a product", func(docs []any, i int) { docs[i].(bson.D)[4].Value = bson.NewObjectID() }},
		{"approx: views of one page", func(docs []any, i int) { *last(docs[i].(bson.D)) = "many" }},
		{"tree: subtrees are read", func(docs []any, i int) { *last(docs[i].(bson.D)) = i / 2 * 2 }}, // no three levels
		{"extref: names of sources that change now and then", func(docs []any, i int) { *last(docs[i].(bson.D)) = fmt.Sprint(i) }},
	}
	var all []labelled
	for i, test := range tests {
		name := fmt.Sprint("things", i)
		n := 300
		switch {
		case strings.Contains(test.kind, "lists of references"):
			n = 100 // with more than a hundred references each
		case strings.HasPrefix(test.kind, "attribute"):
			n = 120 // which get hundreds of fields
		}
		all = append(all, generate(rand.New(rand.NewPCG(3, 3)), kindOf(t, test.kind), n, name))
	}
	for _, taken := range []bool{false, true} {
		for i, test := range tests {
			for j := range all[i].docs {
				if taken {
					test.change(all[i].docs, j)
				}
			}
		}
		db := mongotest.Database(t)
		report := look(t, db, unhurried(store(t, db, all)))
		for i, test := range tests {
			pattern, _, _ := strings.Cut(test.kind, ":")
			if got := slices.Contains(named(report), pattern+":"+all[i].name); got == taken {
				t.Errorf("%s, taken away %v: advised %v; %v", test.kind, taken, named(report), about(report, all[i].name))
			}
		}
	}
}

// References shuffled within a collection lead to documents as before, and the same is advised.
// Shuffled between two collections, each with a source of its own, the values are all still there,
// but a join finds nothing, and extref goes.
func TestShuffled(t *testing.T) {
	t.Parallel()
	reference := func(doc any) *any { d := doc.(bson.D); return &d[len(d)-1].Value }
	for _, test := range []struct {
		name    string
		shuffle func(r *rand.Rand, orders, tickets []any)
		goes    bool
	}{
		{"not", func(*rand.Rand, []any, []any) {}, false},
		{"within", func(r *rand.Rand, orders, tickets []any) {
			for _, docs := range [][]any{orders, tickets} {
				r.Shuffle(len(docs), func(i, j int) {
					a, b := reference(docs[i]), reference(docs[j])
					*a, *b = *b, *a
				})
			}
		}, false},
		{"between", func(_ *rand.Rand, orders, tickets []any) {
			for i := range orders {
				a, b := reference(orders[i]), reference(tickets[i])
				*a, *b = *b, *a
			}
		}, true},
	} {
		r := rand.New(rand.NewPCG(4, 4))
		kind := kindOf(t, "extref: names of sources that change now and then")
		all := []labelled{generate(r, kind, 400, "orders"), generate(r, kind, 400, "tickets")}
		for _, doc := range all[1].docs {
			*reference(doc) = (*reference(doc)).(int) + 1_000_000
		}
		for _, source := range all[1].sources {
			source.(bson.D)[0].Value = source.(bson.D)[0].Value.(int) + 1_000_000
		}
		test.shuffle(r, all[0].docs, all[1].docs)
		db := mongotest.Database(t)
		report := look(t, db, unhurried(store(t, db, all)))
		want := []string{"extref:orders", "extref:tickets"}
		if test.goes {
			want = nil
		}
		if got := named(report); !slices.Equal(got, want) {
			t.Errorf("shuffled %s: advised %v, want %v; %v", test.name, got, want, about(report, "orders"))
		}
		for _, f := range report.Findings {
			if f.Check.Answer != 400 || f.Facts[1].Value != 400 {
				t.Errorf("shuffled %s: %s has %v", test.name, f.Name(), f.Facts)
			}
		}
	}
}

// Ten times the documents: ten times the savings and counts, the same shares and code.
func TestTenTimes(t *testing.T) {
	t.Parallel()
	db, other := mongotest.Database(t), mongotest.Database(t)
	all := three(t, 100)
	once := look(t, db, unhurried(store(t, db, all)))
	for i := range all {
		var docs []any
		for copied := range 10 {
			for _, doc := range all[i].docs {
				doc := slices.Clone(doc.(bson.D))
				doc[0].Value = copied*1000 + doc[0].Value.(int)
				docs = append(docs, doc)
			}
		}
		all[i].docs = docs
	}
	ten := look(t, other, unhurried(store(t, other, all)))
	if !slices.Equal(named(once), named(ten)) {
		t.Fatalf("advised %v, then %v", named(once), named(ten))
	}
	byPattern := map[string]advise.Finding{}
	for _, f := range ten.Findings {
		byPattern[f.Pattern] = f
	}
	for _, f := range once.Findings {
		g := byPattern[f.Pattern]
		if g.Code != f.Code || g.Check.Answer != 10*f.Check.Answer {
			t.Errorf("%s: %d, then %d; %s %s", f.Name(), f.Check.Answer, g.Check.Answer, f.Code, g.Code)
		}
		if factor := float64(g.Saving.Low) / float64(f.Saving.Low); factor < 9.9 || factor > 10.1 {
			t.Errorf("%s saves %v, then %v", f.Name(), f.Saving, g.Saving)
		}
	}
}
