package subset_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// What cannot be done changes nothing, and is told apart.
func TestRefusals(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, any](t, db, reviewOptions())
	parents, items := db.Collection("parents"), db.Collection("items")
	insert(t, parents, d("_id", 1), d("_id", 2), d("_id", 8, "reviews", bson.A{d("_id", 80, "rating", 1)}), d("_id", 10, "name", "x"),
		d("_id", 11, "reviews", "none", "num_reviews", 1), d("_id", 12, "reviews", bson.A{}, "num_reviews", "none"))
	good := d("_id", 1, "rating", 1, "date", day(1))
	_, err := s.Add(t.Context(), 1, good)
	must(t, err)
	insert(t, items, d("_id", 81, "product_id", 8, "rating", 1), d("_id", 91, "product_id", 9, "rating", 1), d("_id", 101, "product_id", 10, "rating", 1))
	before := [][]bson.D{stored(t, parents), stored(t, items)}
	add := func(parent, item any) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Add(ctx, parent, item); return err }
	}
	many := func(parents ...any) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.AddMany(ctx, func(yield func(any, any) bool) {
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
			})
			return err
		}
	}
	update := func(parent int, id any, update any) func(context.Context) error {
		return func(ctx context.Context) error { return s.Update(ctx, parent, id, update) }
	}
	invalid, missing, none := mongopatterns.ErrInvalid, mongopatterns.ErrNotFound, subset.ErrNoParent
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
		"many, an operator":   {many(1, d("rating", 1, "$set", 1)), invalid, `at 1: invalid: item: the field "$set"`},
		"null _id":            {add(1, d("_id", nil, "rating", 1)), invalid, "null"},
		"nil":                 {add(1, nil), invalid, ""},
		"nil pointer":         {add(1, (*review)(nil)), invalid, ""},
		"channel":             {add(1, d("a", make(chan int))), invalid, ""},
		"null parent":         {add(nil, d("rating", 1)), invalid, "parent"},
		"many, no parent":     {many(1, 7), none, "_id 7"},
		"many, no number":     {many(1, d()), invalid, "at 1"},
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
				err = transaction(t, db, test.fn)
			} else {
				err = test.fn(t.Context())
			}
			wantErr(t, err, test.want)
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: error %v, want %s", name, err, test.text)
			}
			same(t, name+" writes nothing", before, [][]bson.D{stored(t, parents), stored(t, items)})
		}
	}
	// The server's error, with the parent.
	if _, err := s.Add(t.Context(), 11, d("rating", 1)); err == nil || !strings.Contains(err.Error(), "_id 11") {
		t.Error(err)
	}
	if _, err := s.Top(t.Context(), 11); err == nil || !strings.Contains(err.Error(), `_id 11: "reviews" is no array`) {
		t.Error(err)
	}
	if _, err = s.Add(t.Context(), 2, good); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("duplicate: %v", err)
	}
	for i := range 12 {
		if _, err = s.Add(t.Context(), 2, d("_id", 200+i, "rating", 1, "date", day(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	before = [][]bson.D{stored(t, parents), stored(t, items)}
	for _, item := range []bson.D{d("_id", 205, "rating", 1, "date", day(20)), d("_id", 1, "rating", 1, "date", day(20))} {
		if _, err = s.Add(t.Context(), 2, item); !mongo.IsDuplicateKeyError(err) { // where one is pushed out
			t.Errorf("duplicate: %v", err)
		}
	}
	same(t, "after duplicates", before, [][]bson.D{stored(t, parents), stored(t, items)})
	// Items whose parent is gone can still be changed.
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

func TestAddMany(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := newSubset[any, bson.D](t, db, &subset.Options{N: 3, Order: d("v", -1)})
	insert(t, db.Collection("parents"), d("_id", 0), d("_id", 1), d("_id", 2), d("_id", d("a", 1)))
	add := func(n int, parents ...any) (mongopatterns.Result, error) {
		return s.AddMany(t.Context(), func(yield func(any, bson.D) bool) {
			for i := range n {
				if !yield(parents[i%len(parents)], d("v", i*7%20)) {
					return
				}
			}
		})
	}
	// 1, int64(1) and 1.0 are one parent.
	result, err := add(2300, 0, 1, int64(1), 1.0, 2, d("a", 1.0))
	must(t, err)
	same(t, "added", mongopatterns.Result{Examined: 2300, Done: 2300}, result)
	clean(t, db, s)
	result, err = add(20, 0, 1, 9)
	wantErr(t, err, subset.ErrNoParent)
	same(t, "before the error", mongopatterns.Result{Examined: 20}, result)
	result, err = s.AddMany(t.Context(), func(yield func(any, bson.D) bool) {
		for i := range 1100 {
			if v := any(i); !yield(1, d("v", map[bool]any{false: v, true: bson.A{v}}[i == 1050])) {
				return
			}
		}
	})
	wantErr(t, err, mongopatterns.ErrInvalid)
	same(t, "a batch before the error", mongopatterns.Result{Examined: 1050, Done: 1000}, result)
	if !strings.Contains(err.Error(), "at 1050: ") {
		t.Error(err)
	}
	clean(t, db, s)
	result, err = s.AddMany(t.Context(), nil)
	must(t, err)
	same(t, "a nil sequence", mongopatterns.Result{}, result)
	// An update of a parent holds what it keeps of its items in a batch.
	_, err = s.AddMany(t.Context(), seq(any(2), d("text", strings.Repeat("x", 5<<20)), d("text", strings.Repeat("x", 5<<20))))
	must(t, err)
}

// A batch whose commit is not answered may be stored or not.
func TestAddManyUnknown(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetAppName(t.Name()))
	s := newSubset[int, bson.D](t, db, nil)
	insert(t, db.Collection("parents"), d("_id", 1))
	admin := db.Client().Database("admin")
	fail := func(mode any, data bson.D) {
		must(t, admin.RunCommand(t.Context(), d("configureFailPoint", "failCommand", "mode", mode, "data", data)).Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fail("alwaysOn", d("failCommands", bson.A{commit}, "appName", t.Name(), "errorCode", 50, "errorLabels", bson.A{"UnknownTransactionCommitResult"}))
	defer fail("off", d())
	result, err := s.AddMany(ctx, seq(1, d("_id", 1), d("_id", 2)))
	if err == nil {
		t.Fatal("no error")
	}
	same(t, "unknown", mongopatterns.Result{Examined: 2, Unknown: 2}, result)
}

// Two subsets of one parent do not share a field, if only their arrays differ.
func TestTwoSubsetsOfAParent(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	parents := db.Collection("parents")
	insert(t, parents, d("_id", 1))
	reviews, err := subset.New[int, bson.D](parents, db.Collection("reviews"), &subset.Options{ArrayField: "reviews"})
	must(t, err)
	questions, err := subset.New[int, bson.D](parents, db.Collection("questions"), &subset.Options{ArrayField: "questions"})
	must(t, err)
	for i := range 3 {
		_, err = reviews.Add(t.Context(), 1, d("_id", i))
		must(t, err)
	}
	_, err = questions.Add(t.Context(), 1, d("_id", 7))
	must(t, err)
	clean(t, db, reviews)
	clean(t, db, questions)
	doc := stored(t, parents)[0]
	same(t, "counts", "[3 1]", fmt.Sprint([]any{get(doc, "reviews_count"), get(doc, "questions_count")}))
	must(t, transaction(t, db, func(ctx context.Context) error { // deleted as the manual says
		if _, err := reviews.DeleteParent(ctx, 1); err != nil {
			return err
		}
		_, err := db.Collection("questions").DeleteMany(ctx, questions.ItemsFilter(1))
		return err
	}))
	for _, name := range []string{"parents", "reviews", "questions"} {
		same(t, name, []bson.D{}, stored(t, db.Collection(name)))
	}
}

// number is stored as text with a mark.
type number int

func registry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[number](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			return w.WriteString("#" + strconv.FormatInt(v.Int(), 10))
		}))
	r.RegisterTypeDecoder(reflect.TypeFor[number](), bson.ValueDecoderFunc(
		func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
			text, err := r.ReadString()
			if err == nil {
				var n int64
				n, err = strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
				v.SetInt(n)
			}
			return err
		}))
	return r
}

type marked struct {
	ID     number `bson:"_id"`
	Parent number `bson:"parent"`
}

// Values are stored as the user's registry encodes them.
func TestRegistry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRegistry(registry()))
	s := newSubset[number, marked](t, db, &subset.Options{N: 1, Registry: registry()})
	insert(t, db.Collection("parents"), d("_id", "#1"), d("_id", "#2"))
	for i := range 3 {
		id, err := s.Add(t.Context(), 1, marked{ID: number(i)})
		must(t, err)
		same(t, "_id", any("#"+strconv.Itoa(i)), id)
	}
	must(t, s.Update(t.Context(), 1, number(0), d("$set", d("x", 1))))
	must(t, s.Update(t.Context(), 1, number(1), d("$set", marked{ID: 1, Parent: 1})))
	must(t, move(t.Context(), db, s, 1, 2, number(0)))
	must(t, s.Delete(t.Context(), 1, number(2)))
	best, err := s.Top(t.Context(), 1)
	must(t, err)
	same(t, "best", []marked{{ID: 1, Parent: 1}}, best)
	same(t, "all", []marked{{ID: 0, Parent: 2}}, collect(t, s.All(t.Context(), 2)))
	clean(t, db, s)
}

// And as its BSON options say.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type tagged struct {
		ID   int      `json:"_id"`
		Tags []string `json:"tags"`
	}
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetBSONOptions(bsonOptions))
	s := newSubset[int, tagged](t, db, &subset.Options{BSON: bsonOptions})
	insert(t, db.Collection("parents"), d("_id", 1))
	for i := range 12 {
		_, err := s.Add(t.Context(), 1, tagged{ID: i})
		must(t, err)
	}
	_, err := s.AddMany(t.Context(), seq(1, tagged{ID: 12}))
	must(t, err)
	must(t, s.Delete(t.Context(), 1, 12))
	same(t, "stored", d("_id", int32(3), "parent", int32(1), "tags", bson.A{}), stored(t, db.Collection("items"))[3])
	best, err := s.Top(t.Context(), 1)
	must(t, err)
	same(t, "best", []any{10, tagged{11, []string{}}}, []any{len(best), best[0]})
	same(t, "all", tagged{11, []string{}}, collect(t, s.All(t.Context(), 1))[0])
	clean(t, db, s)
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	must(t, err)
	defer func() { _ = client.Disconnect(context.Background()) }()
	a, b := client.Database("x").Collection("a"), client.Database("x").Collection("b")
	value := func(v subset.Value) *subset.Options { return &subset.Options{Values: []subset.Value{v}} }
	for want, o := range map[string]*subset.Options{
		"Options.ParentField: _id is the item's own":                    {ParentField: "_id"},
		`Options.ParentField: invalid field name: "a.b"`:                {ParentField: "a.b"},
		`Options.ArrayField: invalid field name: "$a"`:                  {ArrayField: "$a"},
		`Options.ArrayField: invalid field name: "0" is a`:              {ArrayField: "a.0"},
		`Options.ArrayField: invalid field name: "_id" col`:             {ArrayField: "_id"},
		`Options.ArrayField: invalid field name: "__touch"`:             {ArrayField: "__touch"},
		`Options.CountField: invalid field name: "items" c`:             {CountField: "items"},
		"Options.N: -1 is not":                                          {N: -1},
		"Options.N: 2147483648 is not":                                  {N: 1 << 31},
		`Options.Order: "date": 2 is neither 1 nor -1`:                  {Order: d("date", 2)},
		`Options.Order: "date": [] is neither`:                          {Order: d("date", bson.A{})},
		"Options.Order: _id must be last":                               {Order: d("_id", 1, "a", 1)},
		`Options.Order: "parent" is the same for all items`:             {Order: d("parent", 1)},
		`Options.Order: Order: invalid field name: "a.b" collides with`: {Order: d("a", 1, "a.b", 1)},
		"Options.Fields[1]: path: invalid field name: empty":            {Fields: []string{"a", ""}},
		`Options.Fields[0]: name: invalid field name: "a.b" contains`:   {Fields: []string{"a.b"}},
		`Options.Fields[0]: "parent" is the same for all items`:         {Fields: []string{"parent"}},
		`Options.Values[0].Field: "p.x" is the same for all`:            {ParentField: "p", Values: []subset.Value{{Field: "p.x", Sum: "s"}}},
		"Options.Values[0].Sum: empty":                                  value(subset.Value{Field: "a"}),
		"Options.Values[0].Field: path: invalid field name: empty":      value(subset.Value{Sum: "a"}),
		`Options.Values[0].Mean: invalid field name: "s" collides with`: value(subset.Value{Field: "a", Sum: "s", Mean: "s"}),
		`Options.Filter: $gt of "a": only`:                              {Filter: d("a", d("$gt", 1))},
	} {
		_, err := subset.New[int, bson.D](a, b, o)
		wantErr(t, err, mongopatterns.ErrInvalid)
		if !strings.HasPrefix(err.Error(), "subset: new: invalid: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	for want, pair := range map[string][2]*mongo.Collection{
		"parents: nil": {nil, b}, "items: nil": {a, nil}, "items: the": {a, a}, "items: of": {a, client.Database("y").Collection("b")},
	} {
		_, err := subset.New[int, bson.D](pair[0], pair[1], nil)
		wantErr(t, err, mongopatterns.ErrInvalid)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	// An order by what T never writes is refused, where that is known.
	type plain struct{ Rating int }
	type open struct {
		Rest bson.M `bson:",inline"`
	}
	misspelt := &subset.Options{Order: d("ratign", -1)}
	_, err = subset.New[int, plain](a, b, misspelt)
	wantErr(t, err, mongopatterns.ErrInvalid)
	if !strings.Contains(err.Error(), `Options.Order: subset_test.plain has no field "ratign"`) {
		t.Error(err)
	}
	_, err = subset.New[int, plain](a, b, &subset.Options{Order: d("rating", -1, "_id", -1)})
	must(t, err)
	_, err = subset.New[int, open](a, b, misspelt)
	must(t, err)
	_, err = subset.New[int, plain](a, b, &subset.Options{Order: d("ratign", -1), Registry: bson.NewRegistry()})
	must(t, err)
	s, err := subset.New[any, bson.D](a, b, nil)
	must(t, err)
	same(t, "index", d("parent", 1, "_id", int32(-1)), s.Indexes()["b"][0].Keys.(bson.D))
	s.Indexes()["b"][0].Keys.(bson.D)[0].Key = "changed"
	same(t, "fresh", "parent", s.Indexes()["b"][0].Keys.(bson.D)[0].Key)
	same(t, "shard key", map[string]bson.D{"a": d("_id", 1), "b": d("parent", 1)}, s.ShardKey())
	same(t, "order", d("_id", int32(-1)), s.Order())
	bad := make(chan int) // the driver refuses it
	if f := s.ItemsFilter(bad); f[0].Value != any(bad) {
		t.Error(f)
	}
}
