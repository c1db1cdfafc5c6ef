package subset_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A call that cannot be done changes nothing and returns the right error.
func TestRefusals(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, any](t, db, reviewOptions())
	parents, items := db.Collection("parents"), db.Collection("items")
	insert(t, parents, d("_id", 1), d("_id", 2), d("_id", 8, "reviews", bson.A{d("_id", 80, "rating", 1)}), d("_id", 10, "name", "x"),
		d("_id", 11, "reviews", "none", "num_reviews", 1), d("_id", 12, "reviews", bson.A{}, "num_reviews", "none"))
	good := d("_id", 1, "rating", 1, "date", day(1))
	_, err := s.Insert(t.Context(), 1, good)
	must(t, err)
	insert(t, items, d("_id", 81, "product_id", 8, "rating", 1), d("_id", 91, "product_id", 9, "rating", 1), d("_id", 101, "product_id", 10, "rating", 1))
	before := [][]bson.D{stored(t, parents), stored(t, items)}
	add := func(parent, item any) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Insert(ctx, parent, item); return err }
	}
	many := func(parents ...any) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.InsertMany(ctx, func(yield func(any, any) bool) {
				for _, parent := range parents {
					item, ok := parent.(bson.D)
					if !ok {
						item = d("rating", 1)
					} else {
						parent = 1
					}
					if !yield(parent, item) {
						return
					}
				}
			}, nil)
			return err
		}
	}
	update := func(parent int, id any, update any) func(context.Context) error {
		return func(ctx context.Context) error { return s.Update(ctx, parent, id, update) }
	}
	invalid, missing, none := mongopatterns.ErrInvalid, mongopatterns.ErrNotFound, mongopatterns.ErrNoParent
	for name, test := range map[string]struct {
		fn   func(context.Context) error
		want error
		text string
	}{
		"no parent":           {add(7, d("rating", 1)), none, "_id 7"},
		"no number":           {add(1, d("rating", "5")), invalid, `"rating"`},
		"NaN":                 {add(1, d("rating", math.NaN())), invalid, `"rating"`},
		"array to sort by":    {add(1, d("rating", 1, "date", bson.A{day(1)})), invalid, `"date"`},
		"name of an operator": {add(1, d("rating", 1, "price", "$", "$set", 1)), invalid, `the field "$set"`},
		"many, an operator":   {many(1, d("rating", 1, "$set", 1)), invalid, `item 1: invalid: item: no update can change the field "$set"`},
		"null _id":            {add(1, d("_id", nil, "rating", 1)), invalid, "null"},
		"nil":                 {add(1, nil), invalid, ""},
		"nil pointer":         {add(1, (*review)(nil)), invalid, ""},
		"channel":             {add(1, d("a", make(chan int))), invalid, ""},
		"null parent":         {add(nil, d("rating", 1)), invalid, "parent"},
		"many, no parent":     {many(1, 7), none, "_id 7"},
		"many, no number":     {many(1, d()), invalid, "item 1: "},
		"update, no item":     {update(1, 5, d("$set", d("rating", 2))), missing, "_id 5"},
		"update, no parent":   {update(2, 1, d("$set", d("rating", 2))), missing, "_id 1"},
		"update to no number": {update(1, 1, d("$set", d("rating", "x"))), invalid, `"rating"`},
		"update moves":        {update(1, 1, d("$set", d("product_id", 2))), invalid, `"product_id"`},
		"update by pipeline":  {update(1, 1, mongo.Pipeline{d("$unset", "product_id")}), invalid, `"product_id"`},
		"delete, no item":     {func(ctx context.Context) error { return s.Delete(ctx, 1, 5) }, missing, "_id 5"},
		"delete by a pattern": {func(ctx context.Context) error { return s.Delete(ctx, 1, bson.Regex{Pattern: "."}) }, invalid, "item"},
		"delete no parent":    {func(ctx context.Context) error { _, err := s.DeleteParent(ctx, 7); return err }, none, "_id 7"},
		"get no item":         {func(ctx context.Context) error { _, err := s.Get(ctx, 2, 1); return err }, missing, "_id 1"},
		"top of no parent":    {func(ctx context.Context) error { _, err := s.Top(ctx, 7); return err }, mongo.ErrNoDocuments, "_id 7"},
	} {
		for _, joined := range []bool{false, true} {
			var err error
			if joined {
				err = mongopatterns.Transact(t.Context(), db.Client(), test.fn)
			} else {
				err = test.fn(t.Context())
			}
			testkit.Fails(t, "subset", err, test.want)
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: error %v, want %s", name, err, test.text)
			}
			same(t, name+" writes nothing", before, [][]bson.D{stored(t, parents), stored(t, items)})
		}
	}
	// The server's error, with the parent.
	if _, err := s.Insert(t.Context(), 11, d("rating", 1)); err == nil || !strings.Contains(err.Error(), "_id 11") {
		t.Error(err)
	}
	if _, err := s.Top(t.Context(), 11); err == nil || !strings.Contains(err.Error(), `_id 11: malformed: "reviews" is not an array`) {
		t.Error(err)
	}
	if _, err = s.Insert(t.Context(), 2, good); !errors.Is(err, mongopatterns.ErrExists) || !mongo.IsDuplicateKeyError(err) {
		t.Errorf("duplicate: %v", err)
	}
	for i := range 12 {
		if _, err = s.Insert(t.Context(), 2, d("_id", 200+i, "rating", 1, "date", day(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	before = [][]bson.D{stored(t, parents), stored(t, items)}
	for _, item := range []bson.D{d("_id", 205, "rating", 1, "date", day(20)), d("_id", 1, "rating", 1, "date", day(20))} {
		if _, err = s.Insert(t.Context(), 2, item); !errors.Is(err, mongopatterns.ErrExists) { // where one is pushed out
			t.Errorf("duplicate: %v", err)
		}
	}
	same(t, "after duplicates", before, [][]bson.D{stored(t, parents), stored(t, items)})
	// Items without a parent can still be changed.
	must(t, s.Update(t.Context(), 9, 91, d("$set", d("rating", 3))))
	must(t, s.Update(t.Context(), 9, 91, d("$set", d("author", "x"))))
	must(t, s.Delete(t.Context(), 9, 91))
	_, err = s.Repair(t.Context(), &mongopatterns.Work{Filter: struct {
		ID int `bson:"_id"`
	}{10}})
	must(t, err)
	must(t, add(10, d("rating", 1))(t.Context()))
	must(t, s.Delete(t.Context(), 10, 101))
}

func TestConfiguration(t *testing.T) {
	tooMany := math.MaxInt32
	tooMany++ // negative if an int has 32 bits
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	must(t, err)
	defer func() { _ = client.Disconnect(context.Background()) }()
	a, b := client.Database("x").Collection("a"), client.Database("x").Collection("b")
	value := func(v subset.Value) *subset.Options { return &subset.Options{Values: []subset.Value{v}} }
	for want, o := range map[string]*subset.Options{
		"Options.ParentField: it must not be _id":                        {ParentField: "_id"},
		`Options.ParentField: invalid field name: "a.b"`:                 {ParentField: "a.b"},
		`Options.ArrayField: invalid field name: "$a"`:                   {ArrayField: "$a"},
		`Options.ArrayField: invalid field name: "0" is a`:               {ArrayField: "a.0"},
		`Options.ArrayField: invalid field name: "_id" col`:              {ArrayField: "_id"},
		`Options.ArrayField: invalid field name: "__touch"`:              {ArrayField: "__touch"},
		`Options.CountField: invalid field name: "items" c`:              {CountField: "items"},
		"Options.N: -1 is not":                                           {N: -1},
		fmt.Sprintf("Options.N: %d is not", tooMany):                     {N: tooMany},
		`Options.Sort: the direction of "date" must be`:                  {Sort: d("date", 2)},
		`Options.Sort: the direction of "date" mu`:                       {Sort: d("date", bson.A{})},
		"Options.Sort: it must end with _id":                             {Sort: d("_id", 1, "a", 1)},
		`Options.Sort: "parent" is the same for all items`:               {Sort: d("parent", 1)},
		`Options.Sort: Sort: invalid field name: "a.b" collides with`:    {Sort: d("a", 1, "a.b", 1)},
		"Options.Fields[1]: path: invalid field name: it is empty":       {Fields: []string{"a", ""}},
		`Options.Fields[0]: name: invalid field name: "a.b" contains`:    {Fields: []string{"a.b"}},
		`Options.Fields[0]: "parent" is the same for all items`:          {Fields: []string{"parent"}},
		`Options.Values[0].Field: "p.x" is the same for all`:             {ParentField: "p", Values: []subset.Value{{Field: "p.x", Sum: "s"}}},
		"Options.Values[0].Sum: it is empty":                             value(subset.Value{Field: "a"}),
		"Options.Values[0].Field: path: invalid field name: it is empty": value(subset.Value{Sum: "a"}),
		`Options.Values[0].Mean: invalid field name: "s" collides with`:  value(subset.Value{Field: "a", Sum: "s", Mean: "s"}),
		`Options.Filter: the $gt of "a" cannot`:                          {Filter: d("a", d("$gt", 1))},
	} {
		_, err := subset.New[int, bson.D](a, b, o)
		testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
		if !strings.HasPrefix(err.Error(), "subset: new: invalid: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	for want, pair := range map[string][2]*mongo.Collection{
		"parents: the": {nil, b}, "items: the collection is nil": {a, nil}, "items: the": {a, a}, "in another database": {a, client.Database("y").Collection("b")},
	} {
		_, err := subset.New[int, bson.D](pair[0], pair[1], nil)
		testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	// A sort by a field that T never writes is refused, if the type shows that.
	type plain struct{ Rating int }
	type open struct {
		Rest bson.M `bson:",inline"`
	}
	misspelt := &subset.Options{Sort: d("ratign", -1)}
	_, err = subset.New[int, plain](a, b, misspelt)
	testkit.Fails(t, "subset", err, mongopatterns.ErrInvalid)
	if !strings.Contains(err.Error(), `Options.Sort: subset_test.plain has no field "ratign"`) {
		t.Error(err)
	}
	_, err = subset.New[int, plain](a, b, &subset.Options{Sort: d("rating", -1, "_id", -1)})
	must(t, err)
	_, err = subset.New[int, open](a, b, misspelt)
	must(t, err)
	own := bson.NewRegistry()
	_, err = subset.New[int, plain](a, b, &subset.Options{Sort: d("ratign", -1), Registry: own})
	testkit.Is(t, err, mongopatterns.ErrInvalid)
	own.RegisterTypeEncoder(reflect.TypeFor[plain](), bson.ValueEncoderFunc(nil))
	_, err = subset.New[int, plain](a, b, &subset.Options{Sort: d("ratign", -1), Registry: own})
	must(t, err)
	// A zero rating that is not stored would rank as a missing one.
	type sparse struct {
		Rating int `bson:",omitempty"`
	}
	_, err = subset.New[int, sparse](a, b, &subset.Options{Sort: d("rating", -1)})
	testkit.Is(t, err, mongopatterns.ErrInvalid)
	_, err = subset.New[int, sparse](a, b, &subset.Options{Fields: []string{"rating"}})
	must(t, err)
	s, err := subset.New[any, bson.D](a, b, nil)
	must(t, err)
	same(t, "index", d("parent", 1, "_id", int32(-1)), s.Indexes()["b"][0].Keys.(bson.D))
	s.Indexes()["b"][0].Keys.(bson.D)[0].Key = "changed"
	same(t, "fresh", "parent", s.Indexes()["b"][0].Keys.(bson.D)[0].Key)
	same(t, "shard key", map[string]bson.D{"a": d("_id", 1), "b": d("parent", 1)}, s.ShardKey())
	same(t, "order", d("_id", int32(-1)), s.Sort())
	bad := make(chan int) // the driver refuses it
	if _, err := bson.Marshal(s.ItemsFilter(bad)); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}
