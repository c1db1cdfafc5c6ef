package polymorphic_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/polymorphic"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type athlete interface{ FullName() string }

type bowler struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	Average int    `bson:"average"`
}

type titles struct {
	Titles int `bson:"titles"`
}

type tennisPlayer struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	Singles titles `bson:"singles"`
	Doubles titles `bson:"doubles"`
}

// other is an athlete of an unknown kind.
type other struct{ polymorphic.Unknown }

func (b bowler) FullName() string        { return b.Name }
func (p *tennisPlayer) FullName() string { return p.Name }
func (o other) FullName() string         { return o.Raw.Lookup("name").StringValue() }

var kinds = polymorphic.Must(polymorphic.New([]polymorphic.Kind{
	polymorphic.Of[bowler]("bowling", "ten-pin"), polymorphic.Of[*tennisPlayer]("tennis"),
}, &polymorphic.Options[athlete]{KindField: "sport", Default: "bowling", Unknown: func(u polymorphic.Unknown) athlete { return other{u} }}))

type sports struct{}

func (sports) Kinds() *polymorphic.Kinds[athlete] { return kinds }

type athleteDoc = polymorphic.Doc[athlete, sports]

var (
	anthony     = bowler{1, "Earl Anthony", 219}
	navratilova = &tennisPlayer{2, "Martina Navratilova", titles{167}, titles{177}}
)

// documents are one of each kind, one with an old name, one without and one with an unknown name.
func documents(t *testing.T) (*mongo.Database, *mongo.Collection) {
	t.Helper()
	db := mongotest.Database(t)
	coll := db.Collection("athletes")
	docs := []any{athleteDoc{anthony}, athleteDoc{navratilova},
		bson.D{{Key: "_id", Value: 3}, {Key: "sport", Value: "ten-pin"}, {Key: "name", Value: "Dick Weber"}, {Key: "average", Value: 213}},
		bson.D{{Key: "_id", Value: 4}, {Key: "name", Value: "Don Carter"}, {Key: "average", Value: 200}},
		bson.D{{Key: "_id", Value: 5}, {Key: "sport", Value: "chess"}, {Key: "name", Value: "Vera Menchik"}, {Key: "rating", Value: int64(2350)}},
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return db, coll
}

func TestStoredAndRead(t *testing.T) {
	t.Parallel()
	_, coll := documents(t)
	var raw bson.D
	if err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: 2}}).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	want := bson.D{{Key: "_id", Value: int32(2)}, {Key: "sport", Value: "tennis"}, {Key: "name", Value: "Martina Navratilova"},
		{Key: "singles", Value: bson.D{{Key: "titles", Value: int32(167)}}}, {Key: "doubles", Value: bson.D{{Key: "titles", Value: int32(177)}}}}
	byKey := cmp.Transformer("map", func(d bson.D) map[string]any {
		m := map[string]any{}
		for _, e := range d {
			m[e.Key] = e.Value
		}
		return m
	})
	if diff := cmp.Diff(want, raw, byKey); diff != "" {
		t.Error(diff)
	}
	var got []athlete
	for a, err := range kinds.Find(t.Context(), coll, nil, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if len(got) != 5 || got[0] != anthony || *got[1].(*tennisPlayer) != *navratilova ||
		got[2] != (bowler{3, "Dick Weber", 213}) || got[3] != (bowler{4, "Don Carter", 200}) || got[4].FullName() != "Vera Menchik" {
		t.Errorf("%v", got)
	}
	// The unknown one is written back unchanged.
	again, err := kinds.Encode(got[4])
	if err != nil {
		t.Fatal(err)
	}
	stored, err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: 5}}).Raw()
	if err != nil || string(stored) != string(again) {
		t.Errorf("%v, %v", again, err)
	}
	var docs []athleteDoc
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err == nil {
		err = cursor.All(t.Context(), &docs)
	}
	if err != nil || len(docs) != 5 || docs[0].V != anthony {
		t.Errorf("%v, %v", docs, err)
	}
}

// Old code beside kinds, as docs/adopting.md describes it.
func TestBesideOldCode(t *testing.T) {
	t.Parallel()
	_, coll := documents(t)
	ctx := t.Context()
	if _, err := coll.InsertOne(ctx, bson.M{"_id": 10, "name": "Don Carter"}); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.UpdateByID(ctx, 10, bson.M{"$set": bson.M{"average": 200}}); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.ReplaceOne(ctx, bson.M{"_id": 2}, bson.M{"name": "Martina Navratilova"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bowler{{10, "Don Carter", 200}, {2, "Martina Navratilova", 0}} {
		for got, err := range kinds.Find(ctx, coll, bson.M{"_id": want.ID}) {
			if err != nil || got != want {
				t.Errorf("%v, %v", got, err)
			}
		}
	}
}

func TestFields(t *testing.T) {
	type match struct {
		Winner  athleteDoc   `bson:"winner"`
		Loser   athleteDoc   `bson:"loser"`
		Players []athleteDoc `bson:"players"`
	}
	raw, err := bson.Marshal(match{Winner: athleteDoc{navratilova}, Players: []athleteDoc{{navratilova}, {anthony}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := bson.Raw(raw).Lookup("loser"); v.Type != bson.TypeNull {
		t.Error(v)
	}
	var back match
	if err := bson.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Winner.V, athlete(navratilova)) || back.Loser.V != nil || len(back.Players) != 2 || back.Players[1].V != anthony {
		t.Errorf("%+v", back)
	}
	bad, err := bson.Marshal(bson.D{{Key: "winner", Value: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if err := bson.Unmarshal(bad, &back); err == nil {
		t.Error("a number is no athlete")
	}
}

func TestUnknown(t *testing.T) {
	strict := polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling")}, (*polymorphic.Options[athlete])(nil)))
	for _, doc := range []bson.D{{{Key: "_id", Value: 7}, {Key: "kind", Value: "chess"}}, {{Key: "_id", Value: 7}}, {{Key: "_id", Value: 7}, {Key: "kind", Value: 1}}} {
		raw, err := bson.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		_, err = strict.Decode(raw)
		var unknown *polymorphic.UnknownError
		if !errors.Is(err, polymorphic.ErrUnknownKind) || !errors.As(err, &unknown) || unknown.ID.AsInt64() != 7 {
			t.Errorf("%v: %v", doc, err)
		}
	}
	broken, err := bson.Marshal(bson.D{{Key: "_id", Value: 7}, {Key: "kind", Value: "bowling"}, {Key: "average", Value: "high"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strict.Decode(broken); err == nil || errors.Is(err, polymorphic.ErrUnknownKind) {
		t.Error(err)
	}
	if _, err := strict.Encode(navratilova); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if _, err := strict.Encode(nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// An error about one document does not end the loop, and stays the same afterwards.
func TestFindGoesOn(t *testing.T) {
	t.Parallel()
	strict := polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling")}, &polymorphic.Options[athlete]{KindField: "sport"}))
	_, coll := documents(t)
	read := 0
	var errs []error
	for a, err := range strict.Find(t.Context(), coll, nil, options.Find().SetSort(bson.M{"_id": 1}).SetBatchSize(2)) {
		if err != nil {
			errs = append(errs, err)
		} else if a == anthony {
			read++
		}
	}
	if read != 1 || len(errs) != 4 {
		t.Fatalf("%d, %v", read, errs)
	}
	for i, err := range errs {
		var unknown *polymorphic.UnknownError
		if !errors.As(err, &unknown) || unknown.ID.AsInt64() != int64(i+2) {
			t.Errorf("%d: %v", i+2, err)
		}
	}
	n := 0
	for _, err := range strict.Find(t.Context(), coll, bson.M{"$no": 1}) {
		if n++; err == nil || n > 1 {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestFilterOf(t *testing.T) {
	t.Parallel()
	db, coll := documents(t)
	count := func(filter bson.D) int64 {
		n, err := coll.CountDocuments(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(polymorphic.FilterOf[bowler](kinds, nil)); n != 3 {
		t.Errorf("%d bowlers", n)
	}
	if n := count(polymorphic.FilterOf[bowler](kinds, bson.M{"average": bson.M{"$gt": 205}})); n != 2 {
		t.Errorf("%d good bowlers", n)
	}
	if n := count(polymorphic.FilterOf[*tennisPlayer](kinds, bson.D{})); n != 1 {
		t.Errorf("%d tennis players", n)
	}
	if n := count(polymorphic.FilterOf[tennisPlayer](kinds, nil)); n != 0 { // only the pointer is of the kind
		t.Errorf("%d of no kind", n)
	}
	index, err := polymorphic.IndexOf[*tennisPlayer](kinds, bson.D{{Key: "name", Value: 1}}, options.Index().SetUnique(true))
	if err != nil {
		t.Fatal(err)
	}
	name, err := coll.Indexes().CreateOne(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	filter := polymorphic.FilterOf[*tennisPlayer](kinds, bson.D{{Key: "name", Value: "Martina Navratilova"}})
	mongotest.Explain(t, db, bson.D{{Key: "find", Value: "athletes"}, {Key: "filter", Value: filter}}).RequireIndex(t, name)
	if _, err := coll.InsertOne(t.Context(), athleteDoc{&tennisPlayer{ID: 9, Name: "Martina Navratilova"}}); !mongo.IsDuplicateKeyError(err) {
		t.Error(err)
	}
	if _, err := polymorphic.IndexOf[bowler](kinds, bson.D{{Key: "name", Value: 1}}, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

func TestValidator(t *testing.T) {
	t.Parallel()
	_, coll := documents(t)
	validator, err := kinds.Validator(map[string]bson.D{"tennis": {{Key: "required", Value: bson.A{"singles"}}}})
	if err != nil {
		t.Fatal(err)
	}
	err = mongotest.Admin(t, coll.Database()).RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "athletes"}, {Key: "validator", Value: validator}}).Err()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		doc  any
		want bool
	}{
		{athleteDoc{&tennisPlayer{ID: 10}}, true}, {athleteDoc{bowler{ID: 11}}, true}, {bson.M{"name": "no kind, so a bowler"}, true},
		{bson.M{"sport": "tennis", "name": "no singles"}, false}, {bson.M{"sport": "curling"}, false},
		{bson.M{"sport": bson.A{"bowling"}}, false}, {bson.M{"sport": bson.A{"curling", "bowling"}}, false},
	} {
		if _, err := coll.InsertOne(t.Context(), test.doc); (err == nil) != test.want {
			t.Errorf("%v: %v", test.doc, err)
		}
	}
	if _, err := kinds.Validator(map[string]bson.D{"ten-pin": {}}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// The customers of two companies, with different fields, as one collection whose
// queries use the indexes of both.
func TestView(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	type customer struct {
		Company string `bson:"-"`
		Name    string `bson:"name"`
		Policy  string `bson:"policy"`
	}
	customers := polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[customer]("shire"), polymorphic.Of[*customer]("rohan")},
		&polymorphic.Options[any]{KindField: "company"}))
	insert := func(name string, docs ...any) {
		t.Helper()
		if _, err := db.Collection(name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Collection(name).Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "policy", Value: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	insert("shire", bson.M{"name": "Bilbo", "policy": "s1"}, bson.M{"name": "Frodo", "policy": "s2"})
	insert("rohan", bson.M{"first": "Éowyn", "of": "Rohan", "policy": "r1"})
	sources := []polymorphic.Source{{Collection: "shire", Kind: "shire"}, {Collection: "rohan", Kind: "rohan", Map: mongo.Pipeline{
		{{Key: "$set", Value: bson.D{{Key: "name", Value: bson.D{{Key: "$concat", Value: bson.A{"$first", " of ", "$of"}}}}}}}}}}
	pipeline, err := customers.View(sources...)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.CreateView(t.Context(), "customers", "shire", pipeline); err != nil {
		t.Fatal(err)
	}
	var got []any
	for c, err := range customers.Find(t.Context(), db.Collection("customers"), bson.M{"policy": bson.M{"$gte": "r"}}, options.Find().SetSort(bson.D{{Key: "policy", Value: 1}})) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if diff := cmp.Diff([]any{&customer{"", "Éowyn of Rohan", "r1"}, customer{"", "Bilbo", "s1"}, customer{"", "Frodo", "s2"}}, got); diff != "" {
		t.Error(diff)
	}
	// Each source is mapped, including the first.
	both, err := customers.View(
		polymorphic.Source{Collection: "shire", Kind: "shire", Map: mongo.Pipeline{{{Key: "$set", Value: bson.M{"name": bson.M{"$toUpper": "$name"}}}}}}, sources[1])
	testkit.OK(t, err)
	testkit.OK(t, db.CreateView(t.Context(), "mapped", "shire", both))
	if n, err := db.Collection("mapped").CountDocuments(t.Context(), bson.M{"name": bson.M{"$in": bson.A{"BILBO", "FRODO", "Éowyn of Rohan"}}}); n != 3 || err != nil {
		t.Errorf("%d mapped, %v", n, err)
	}
	// The server's error for $unionWith in a transaction is returned.
	err = mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		for _, err := range customers.Find(ctx, db.Collection("customers"), nil) {
			return err
		}
		return nil
	})
	var refused mongo.CommandError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "$unionWith") {
		t.Errorf("in a transaction: %v", err)
	}
	plan := mongotest.Explain(t, db, bson.D{{Key: "aggregate", Value: "shire"}, {Key: "cursor", Value: bson.D{}},
		{Key: "pipeline", Value: append(pipeline, bson.D{{Key: "$match", Value: bson.D{{Key: "policy", Value: "s1"}}}})}})
	plan.RequireIndex(t, "policy_1")
	for _, bad := range [][]polymorphic.Source{nil, {{Kind: "shire"}}, {{Collection: "x", Kind: "gondor"}}} {
		if _, err := customers.View(bad...); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(bad, err)
		}
	}
}

func TestInvalid(t *testing.T) {
	for name, err := range map[string]error{
		"type twice": errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("a"), polymorphic.Of[bowler]("b")}, (*polymorphic.Options[athlete])(nil))),
		"name twice": errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("a"), polymorphic.Of[*tennisPlayer]("b", "a")}, (*polymorphic.Options[athlete])(nil))),
		"no name":    errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("")}, (*polymorphic.Options[athlete])(nil))),
		"no athlete": errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[tennisPlayer]("tennis")}, (*polymorphic.Options[athlete])(nil))),
		"empty kind": errorOf(polymorphic.New([]polymorphic.Kind{{}}, (*polymorphic.Options[athlete])(nil))),
		"interface":  errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[athlete]("a")}, (*polymorphic.Options[athlete])(nil))),
		"no default": errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("a")}, &polymorphic.Options[athlete]{Default: "b"})),
		"field":      errorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("a")}, &polymorphic.Options[athlete]{KindField: "a.b"})),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Must does not panic")
		}
	}()
	polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("")}, (*polymorphic.Options[athlete])(nil)))
}

func errorOf[T any](_ T, err error) error { return err }

// The kind's field belongs to the package: a type with a field of that name is refused.
func TestOwnField(t *testing.T) {
	type own struct {
		Kind string `bson:"kind"`
	}
	k := polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[own]("own")}, (*polymorphic.Options[any])(nil)))
	if _, err := k.Encode(own{}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// BenchmarkDecode compares Decode with the usual code: look the kind up,
// then Unmarshal.
func BenchmarkDecode(b *testing.B) {
	raw, err := kinds.Encode(navratilova)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("kinds", func(b *testing.B) {
		for b.Loop() {
			if _, err := kinds.Decode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by hand", func(b *testing.B) {
		for b.Loop() {
			var p tennisPlayer
			if raw.Lookup("sport").StringValue() == "tennis" {
				if err := bson.Unmarshal(raw, &p); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// An inline map receives what the type does not name, but not the kind, which is the package's.
func TestInlineMapWithoutTheKind(t *testing.T) {
	type open struct {
		ID   int            `bson:"_id"`
		Rest map[string]any `bson:",inline"`
	}
	k := polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[open]("open"), polymorphic.Of[*open]("pointer")}, (*polymorphic.Options[any])(nil)))
	for _, v := range []any{open{1, map[string]any{"a": int32(2)}}, &open{1, map[string]any{"a": int32(2)}}} {
		raw, err := k.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := k.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, v, back)
		again, err := k.Encode(back)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, raw, again)
	}
}
