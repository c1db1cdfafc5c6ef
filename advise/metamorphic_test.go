package advise_test

import (
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Nothing rests on names: with fields called f1, f2, … the same is advised, with the
// same savings but for the bytes of the names.
func TestRenamed(t *testing.T) {
	db, other := mongotest.Database(t), mongotest.Database(t)
	all := three(t, 200)
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
		}
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

// Ten times the documents: ten times the savings and counts, the same shares and code.
func TestTenTimes(t *testing.T) {
	db, other := mongotest.Database(t), mongotest.Database(t)
	all := three(t, 150)
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
