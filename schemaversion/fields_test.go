package schemaversion_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

type address struct {
	Street string `bson:"street"`
	City   string `bson:"city,omitempty"`
}

type phone struct {
	Number string `bson:"number"`
}

type personV1 struct {
	Name    string            `bson:"name"`
	Address address           `bson:"address"`
	Phones  []phone           `bson:"phones"`
	Notes   map[string]phone  `bson:"notes,omitempty"`
	Old     string            `bson:"old,omitempty"`
	Boss    *phone            `bson:"boss,omitempty"`
	Lines   [2]phone          `bson:"lines"`
	Any     any               `bson:"any,omitempty"`
	Words   map[string]string `bson:"words,omitempty"`
}

type person struct {
	First   string            `bson:"first"`
	Last    string            `bson:"last"`
	Address address           `bson:"address"`
	Phones  []phone           `bson:"phones"`
	Notes   map[string]phone  `bson:"notes,omitempty"`
	Boss    *phone            `bson:"boss,omitempty"`
	Lines   [2]phone          `bson:"lines"`
	Any     any               `bson:"any,omitempty"`
	Words   map[string]string `bson:"words,omitempty"`
}

var people = []schemaversion.Step{schemaversion.Between(func(old personV1) (person, error) {
	first, last, _ := strings.Cut(old.Name, " ")
	old.Address.City = strings.ToUpper(old.Address.City)
	phones := append([]phone{{"new"}}, old.Phones...)
	return person{first, last, old.Address, phones, old.Notes, old.Boss, old.Lines, old.Any, old.Words}, nil
}, func(p person) (personV1, error) {
	return personV1{Name: p.First + " " + p.Last, Address: p.Address, Phones: p.Phones[1:], Notes: p.Notes, Boss: p.Boss, Lines: p.Lines, Any: p.Any, Words: p.Words}, nil
})}

// stranger is a person of version 1 with fields, at every depth, that its struct does not have.
func stranger(t testing.TB) bson.D {
	t.Helper()
	var out bson.D
	testkit.OK(t, bson.UnmarshalExtJSON([]byte(`{"_id": 1, "name": "Leia Organa", "rank": "general", "old": "", "boss": {"ext": 5, "number": "7"},
		"address": {"country": "Alderaan", "street": "Main", "city": "Aldera", "geo": {"lat": 1.5}},
		"phones": [{"number": "1", "ext": 11}, {"ext": 22, "number": "2", "since": [1, 2]}],
		"notes": {"a": {"number": "3", "by": "han"}, "b": {"number": "4", "by": "luke"}},
		"lines": [{"number": "5", "ext": 1}, {"number": "6", "ext": 2}], "any": {"x": {"y": 1}}, "words": {"c": "1", "a": "2", "b": "3"}}`), false, &out))
	return out
}

func kept(t *testing.T, name string, doc bson.Raw, phones int) {
	t.Helper()
	for _, want := range []struct {
		path string
		v    any
	}{
		{"rank", "general"}, {"address.country", "Alderaan"}, {"address.geo.lat", 1.5}, {"address.street", "Main"}, {"boss.ext", int32(5)},
		{"notes.a.by", "han"}, {"notes.b.by", "luke"}, {"lines.0.ext", int32(1)}, {"lines.1.ext", int32(2)}, {"any.x.y", int32(1)}, {"words.b", "3"},
	} {
		if got := doc.Lookup(strings.Split(want.path, ".")...); got.Type == 0 || got.String() != testkit.Raw(t, bson.M{"v": want.v}).Lookup("v").String() {
			t.Errorf("%s: %s is %v, want %v", name, want.path, got, want.v)
		}
	}
	list, _ := doc.Lookup("phones").Array().Values()
	if len(list) != phones {
		t.Fatalf("%s: %v", name, list)
	}
	for i, want := range []int32{11, 22} {
		if got, _ := list[len(list)-2+i].Document().Lookup("ext").Int32OK(); got != want {
			t.Errorf("%s: phone %d has the ext of %d: %v", name, want, got, list)
		}
	}
	if doc.Lookup("old").Type != 0 {
		t.Errorf("%s: what the new struct has no field for is there: %v", name, doc)
	}
}

// Fields that the structs of a step do not have stay, at any depth, up and down.
func TestNestedFieldsAreKept(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("people")
	_, err := coll.InsertOne(ctx, stranger(t))
	testkit.OK(t, err)
	p := testkit.Must(schemaversion.New[person](coll, people, nil))
	if result, err := p.Migrate(ctx, 2, nil); err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	doc := testkit.One[bson.Raw](t, coll, 1)
	kept(t, "up", doc, 3)
	if v := testkit.Must(p.Get(ctx, 1)); v.First != "Leia" || v.Last != "Organa" || v.Address.City != "ALDERA" || v.Phones[0].Number != "new" || v.Phones[2].Number != "2" ||
		doc.Lookup("name").Type != 0 || doc.Lookup("phones", "0", "ext").Type != 0 {
		t.Errorf("%+v: %v", v, doc)
	}
	if result, err := p.Migrate(ctx, 1, nil); err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	kept(t, "down", testkit.One[bson.Raw](t, coll, 1), 2)
}

type peopleSet struct{}

var peopleChain = schemaversion.Must(schemaversion.NewChain(people, nil))

func (peopleSet) Chain() *schemaversion.Chain { return peopleChain }

// A Doc that is read, changed and written keeps them, too.
func TestDocKeepsNestedFields(t *testing.T) {
	var d schemaversion.Doc[person, peopleSet]
	testkit.OK(t, bson.Unmarshal(testkit.Raw(t, stranger(t)), &d))
	kept(t, "unchanged", testkit.Raw(t, d), 3)
	d.V.Address.City, d.V.Phones[2].Number, d.V.Lines[0].Number = "x", "y", "z"
	d.V.Phones = append(d.V.Phones[1:], phone{})[:2]
	d.V.Notes["a"] = phone{"3a"}
	doc := testkit.Raw(t, d)
	kept(t, "changed", doc, 2)
	var again schemaversion.Doc[person, peopleSet]
	testkit.OK(t, bson.Unmarshal(doc, &again))
	if again.V.Address.City != "x" || again.V.Phones[1].Number != "y" || again.V.Notes["a"].Number != "3a" {
		t.Errorf("%+v", again.V)
	}
	// A removed field is removed.
	d.V.Boss, d.V.Words = nil, map[string]string{"a": "2"}
	delete(d.V.Notes, "b")
	if doc := testkit.Raw(t, d); doc.Lookup("notes", "b").Type != 0 || doc.Lookup("words", "b").Type != 0 || doc.Lookup("boss", "number").Type != 0 {
		t.Errorf("%v", doc)
	}
	// Decoded again into the same Doc: nothing of the first document stays.
	testkit.OK(t, bson.Unmarshal(testkit.Raw(t, bson.M{"_id": 2, "schema_version": 2}), &d))
	if doc := testkit.Raw(t, d); doc.Lookup("rank").Type != 0 || doc.Lookup("address", "country").Type != 0 {
		t.Errorf("%v", doc)
	}
}

// Over takes the fields that T does not have from the document given, in its newest version, and not
// from the one that the Doc was decoded from.
func TestDocOver(t *testing.T) {
	type doc = schemaversion.Doc[person, peopleSet]
	var read, elsewhere doc
	stored := testkit.Raw(t, stranger(t))
	testkit.OK(t, bson.Unmarshal(stored, &read))
	testkit.OK(t, bson.Unmarshal(testkit.Raw(t, bson.M{"_id": 1, "schema_version": 2, "rank": "none", "more": 1}), &elsewhere))
	elsewhere.V = read.V
	for name, d := range map[string]doc{"read": read, "by hand": {V: read.V}, "elsewhere": elsewhere} {
		raw := testkit.Must(d.Over(stored))
		kept(t, name, raw, 3)
		if raw.Lookup("more").Type != 0 || raw.Lookup("_id").AsInt64() != 1 || raw.Lookup("schema_version").AsInt64() != 2 {
			t.Errorf("%s: %v", name, raw)
		}
		d.V.First, d.V.Boss = "L.", nil
		if raw := testkit.Must(d.Over(raw)); raw.Lookup("first").StringValue() != "L." || raw.Lookup("boss", "number").Type != 0 || raw.Lookup("rank").Type == 0 {
			t.Errorf("%s, changed: %v", name, raw)
		}
	}
	// A T with its own codec keeps its fields itself.
	own := testkit.Must(schemaversion.Doc[selfCoded, peopleSet]{V: selfCoded{3}}.Over(testkit.Raw(t, bson.M{"schema_version": 2, "rank": 1})))
	if own.Lookup("rank").Type != 0 || own.Lookup("n").AsInt64() != 3 || own.Lookup("schema_version").AsInt64() != 2 {
		t.Errorf("%v", own)
	}
	if _, err := read.Over(testkit.Raw(t, bson.M{"_id": 1, "schema_version": 9})); !errors.Is(err, mongopatterns.ErrNewer) {
		t.Error(err)
	}
	if _, err := read.Over(stored[:9]); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// selfCoded reads its old form, too, and prefers it.
type selfCoded struct{ N int }

func (s *selfCoded) UnmarshalBSON(data []byte) error {
	s.N = 0
	if v, ok := bson.Raw(data).Lookup("n").AsInt64OK(); ok {
		s.N = int(v)
	}
	if v, ok := bson.Raw(data).Lookup("old").AsInt64OK(); ok {
		s.N = int(v)
	}
	return nil
}

func (s selfCoded) MarshalBSON() ([]byte, error) { return bson.Marshal(bson.M{"n": s.N}) }

// The stored document decodes as the caller has it, even if a type inside decodes fields that it
// does not encode.
func TestDocOfATypeThatDecodesItself(t *testing.T) {
	type holder struct {
		Name  string      `bson:"name"`
		Inner selfCoded   `bson:"inner"`
		All   []selfCoded `bson:"all"`
	}
	type doc = schemaversion.Doc[holder, peopleSet]
	for _, change := range []bool{false, true} {
		var d doc
		testkit.OK(t, bson.Unmarshal(testkit.Raw(t, bson.M{"schema_version": 2, "rank": "general", "inner": bson.M{"old": 1}, "all": bson.A{bson.M{"old": 2}}}), &d))
		if change {
			d.V.Inner.N, d.V.All[0].N = 7, 8
		}
		var again doc
		out := testkit.Raw(t, d)
		testkit.OK(t, bson.Unmarshal(out, &again))
		if again.V.Inner != d.V.Inner || again.V.All[0] != d.V.All[0] || out.Lookup("rank").Type == 0 {
			t.Errorf("%+v, want %+v: %v", again.V, d.V, out)
		}
	}
}

type order struct {
	Price int `bson:"price"`
	Count int `bson:"count"`
}

type totalled struct {
	Price int `bson:"price"`
	Count int `bson:"count"`
	Total int `bson:"total"`
}

// totals compute a total from fields that stay, in each kind of step, and say when they run.
func totals(meanwhile *func()) map[string]schemaversion.Step {
	step := func() {
		if do := *meanwhile; do != nil {
			*meanwhile = nil
			do()
		}
	}
	at := func(doc bson.D, key string) int32 {
		for _, e := range doc {
			if e.Key == key {
				return e.Value.(int32)
			}
		}
		return 0
	}
	return map[string]schemaversion.Step{
		"typed": schemaversion.Between(func(o order) (totalled, error) {
			step()
			return totalled{o.Price, o.Count, o.Price * o.Count}, nil
		}, nil),
		"documents": {Up: func(doc bson.D) (bson.D, error) {
			step()
			return append(doc, bson.E{Key: "total", Value: at(doc, "price") * at(doc, "count")}), nil
		}},
		"a map": schemaversion.Between(func(doc bson.M) (bson.M, error) {
			step()
			count, _ := doc["count"].(int32)
			doc["total"] = doc["price"].(int32) * count
			return doc, nil
		}, nil),
	}
}

// A value that a step computes from a field is not stored if that field has changed since.
func TestDerivedFromWhatIsKept(t *testing.T) {
	t.Parallel()
	var meanwhile func()
	for name, step := range totals(&meanwhile) {
		for call, by := range map[string]func(ctx context.Context, v *schemaversion.Collection[totalled]) error{
			"migrate": func(ctx context.Context, v *schemaversion.Collection[totalled]) error {
				_, err := v.Migrate(ctx, 2, nil)
				return err
			},
			"get": func(ctx context.Context, v *schemaversion.Collection[totalled]) error {
				_, err := v.Get(ctx, 1)
				return err
			},
			"update": func(ctx context.Context, v *schemaversion.Collection[totalled]) error {
				return v.Update(ctx, 1, bson.M{"$set": bson.M{"seen": true}})
			},
		} {
			for what, change := range map[string]bson.M{
				"changed": {"$set": bson.M{"price": 7}}, "removed": {"$unset": bson.M{"count": ""}}, "beside": {"$set": bson.M{"other": 1}},
			} {
				coll := mongotest.Database(t).Collection("orders")
				_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "price", Value: 2}, {Key: "count", Value: 3}})
				testkit.OK(t, err)
				v := testkit.Must(schemaversion.New[totalled](coll, []schemaversion.Step{step}, &schemaversion.Options{WriteBack: true}))
				meanwhile = func() {
					_, err := coll.UpdateByID(t.Context(), 1, change)
					testkit.OK(t, err)
				}
				testkit.OK(t, by(t.Context(), v))
				doc := testkit.One[bson.Raw](t, coll, 1)
				price, _ := doc.Lookup("price").AsInt64OK()
				count, _ := doc.Lookup("count").AsInt64OK()
				if total, ok := doc.Lookup("total").AsInt64OK(); ok && total != price*count || !ok && call != "get" {
					t.Errorf("%s, %s, %s: %v", name, call, what, doc)
				}
				if what == "beside" && doc.Lookup("other").Type == 0 {
					t.Errorf("%s, %s: lost: %v", name, call, doc)
				}
			}
		}
	}
}

// An error of one document names its _id, and the loop may continue; the error's text stays the
// same afterwards.
func TestFindGoesOn(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	_, err := coll.InsertMany(t.Context(), []any{
		bson.M{"_id": 1, "price": 1, "count": 1}, bson.M{"_id": "two", "schema_version": 9, "price": 1}, bson.M{"_id": 3, "price": "dear"},
		bson.M{"_id": 4, "schema_version": 2, "price": "dear"}, bson.M{"_id": 5, "price": 5, "count": 5},
	})
	testkit.OK(t, err)
	var meanwhile func()
	v := testkit.Must(schemaversion.New[totalled](coll, []schemaversion.Step{totals(&meanwhile)["typed"]}, nil))
	var got []int
	var errs []error
	for o, err := range v.Find(t.Context(), nil, options.Find().SetSort(bson.M{"price": 1}).SetBatchSize(2)) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, o.Total)
	}
	var newer *schemaversion.NewerError
	var step *schemaversion.StepError
	if len(got) != 2 || got[0]+got[1] != 26 || len(errs) != 3 {
		t.Fatalf("%v, %v", got, errs)
	}
	text := errors.Join(errs...).Error()
	for _, id := range []string{`_id "two"`, "_id 3", "_id 4"} {
		if strings.Count(text, id) != 1 {
			t.Errorf("%s in %s", id, text)
		}
	}
	if all := errors.Join(errs...); !errors.As(all, &newer) || newer.ID.StringValue() != "two" || !errors.As(all, &step) || step.ID.AsInt64() != 3 || step.From != 1 || step.To != 2 {
		t.Error(all)
	}
	// An error of the cursor ends it.
	n := 0
	for _, err := range v.Find(t.Context(), bson.M{"$no": 1}) {
		if n++; err == nil || n > 1 {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := v.Get(t.Context(), 4); err == nil || !strings.Contains(err.Error(), "_id 4") {
		t.Error(err)
	}
}

// A StepError names the step that failed, whatever steps follow it.
func TestStepErrorNamesItsStep(t *testing.T) {
	t.Parallel()
	same := schemaversion.Step{Up: func(doc bson.D) (bson.D, error) { return doc, nil }}
	for name, bad := range map[string]schemaversion.Step{
		"error":    {Up: func(bson.D) (bson.D, error) { return nil, errors.New("no") }},
		"encoding": {Up: func(doc bson.D) (bson.D, error) { return append(doc, bson.E{Key: "c", Value: make(chan int)}), nil }},
		"_id":      {Up: func(bson.D) (bson.D, error) { return bson.D{{Key: "_id", Value: 2}}, nil }},
		"no _id":   {Up: func(bson.D) (bson.D, error) { return nil, nil }},
	} {
		for at := range 3 {
			steps := []schemaversion.Step{same, same, same}
			steps[at] = bad
			v := testkit.Must(schemaversion.New[bson.M](new(mongo.Client).Database("x").Collection("x"), steps, nil))
			_, err := v.Decode(testkit.Raw(t, bson.M{"_id": 1}))
			var step *schemaversion.StepError
			if !errors.As(err, &step) || step.From != at+1 || step.To != at+2 || step.ID.AsInt64() != 1 {
				t.Errorf("%s at %d: %v", name, at, err)
			}
		}
	}
}

// A version that a step sets, even by a field of its struct, is ignored: the document has one
// version field, with the version of the chain.
func TestStepThatSetsTheVersion(t *testing.T) {
	t.Parallel()
	type versioned struct {
		Version int    `bson:"schema_version"`
		Name    string `bson:"name"`
	}
	for name, step := range map[string]schemaversion.Step{
		"documents": {Up: func(doc bson.D) (bson.D, error) {
			return append(bson.D{{Key: "schema_version", Value: 7}}, doc...), nil
		}},
		"typed": schemaversion.Between(func(old versioned) (versioned, error) { return versioned{9, old.Name}, nil }, nil),
	} {
		coll := mongotest.Database(t).Collection("c")
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Han"}})
		testkit.OK(t, err)
		v := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{step}, nil))
		if result, err := v.Migrate(t.Context(), 2, nil); err != nil || result.Done != 1 {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		elements, err := testkit.One[bson.Raw](t, coll, 1).Elements()
		testkit.OK(t, err)
		if len(elements) != 3 || testkit.One[bson.Raw](t, coll, 1).Lookup("schema_version").AsInt64() != 2 {
			t.Errorf("%s: %v", name, elements)
		}
	}
}

// A symbol is treated as a string by the server, and by the steps.
func TestVersionAsASymbol(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, coll, c := contacts(t, schemaversion.Options{})
	for id, version := range map[int]string{70: "1", 71: "2", 72: "3"} {
		_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "schema_version", Value: bson.Symbol(version)}, {Key: "name", Value: "x"}, {Key: "contact_method", Value: bson.A{}}})
		testkit.OK(t, err)
		if _, err := c.Get(ctx, id); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		testkit.OK(t, c.Update(ctx, id, bson.M{"$set": bson.M{"name": "y"}}))
	}
	if result, err := c.Migrate(ctx, 3, &mongopatterns.Work{Filter: bson.M{"_id": bson.M{"$gte": 70}}}); err != nil || result.Skipped+result.Failed+result.Remaining != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if counts := testkit.Must(c.Status(ctx)); counts[-1] != 0 {
		t.Errorf("%v", counts)
	}
}

// A document that is too large to be compared and written at once is Failed, and the run continues;
// a step between structs can upgrade it.
func TestLargeDocuments(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("orders")
	_, err := coll.InsertMany(t.Context(), []any{
		bson.M{"_id": 1, "price": 2, "count": 3, "text": strings.Repeat("x", 16<<20-12<<10)}, bson.M{"_id": 2, "price": 2, "count": 3},
	})
	testkit.OK(t, err)
	var meanwhile func()
	for _, c := range []struct {
		step         string
		done, failed int64
	}{{"documents", 1, 1}, {"typed", 1, 0}} {
		v := testkit.Must(schemaversion.New[totalled](coll, []schemaversion.Step{totals(&meanwhile)[c.step]}, nil))
		if result, err := v.Migrate(t.Context(), 2, nil); err != nil || result.Done != c.done || result.Failed != c.failed {
			t.Errorf("%s: %+v, %v", c.step, result, err)
		}
	}
}
