package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

type (
	// zeroID stores no _id 0, and cannot hold the ObjectID that the document gets instead.
	zeroID struct {
		ID int `bson:"_id,omitempty"`
		V  int `bson:"v"`
	}
	zeroKey struct {
		ID   int `bson:"_id"`
		Film int `bson:"film,omitempty"`
	}
	// ownTexts cannot hold the fields of another type that a package adds.
	ownTexts struct {
		ID     int               `bson:"_id"`
		Others map[string]string `bson:",inline"`
	}
	// byPointer is encoded by its fields where it has no address: then the order of the map is random.
	byPointer struct{ M map[string]int }
	ownD      bson.D
)

func (p *byPointer) MarshalBSONValue() (kind byte, data []byte, err error) {
	return byte(bson.TypeString), []byte{2, 0, 0, 0, 'x', 0}, nil
}

// What a type or a value would lose or what could not be read again is refused, before anything is written.
func TestTypesThatLose(t *testing.T) {
	rule := computed.Rule{KeyField: "film", Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "n", testkit.D("$sum", 1)))}, Empty: testkit.D("n", 0)}
	far := time.Date(584556070, 1, 31, 1, 0, 0, 0, time.UTC) // its milliseconds are those of 2020
	for name, call := range map[string]func(ctx context.Context, c, d *mongo.Collection) error{
		"subset.Insert, _id": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(subset.New[int, zeroID](c, d, nil)).Insert(ctx, 1, zeroID{V: 5}))
		},
		"schemaversion.Insert, _id": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(schemaversion.New[zeroID](c, nil, nil)).Insert(ctx, zeroID{V: 5}))
		},
		"computed.Insert, KeyField": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.Must(computed.New[int, int, bson.D](c, d, rule, nil)).Insert(ctx, zeroKey{ID: 2})
		},
		"relation.New, Sort": func(_ context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(relation.New[int, int, zeroKey](c, d, &relation.Options{OwnerField: "owner", Sort: testkit.D("film", 1)}))
		},
		"polymorphic.New, inline map": func(context.Context, *mongo.Collection, *mongo.Collection) error {
			return testkit.ErrorOf(polymorphic.New([]polymorphic.Kind{polymorphic.Of[ownTexts]("n")}, &polymorphic.Options[any]{}))
		},
		"split.New, inline map": func(_ context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(split.New[int, ownTexts, zeroKey](c, d, nil))
		},
		"computed.New, inline map": func(_ context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(computed.New[int, int, ownTexts](c, d, rule, nil))
		},
		"outlier.New, map": func(_ context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(outlier.New[int, byPointer](c, d, &outlier.Options{Set: true}))
		},
		"approx.NewDistinct, map": func(_ context.Context, c, _ *mongo.Collection) error {
			return testkit.ErrorOf(approx.NewDistinct[int, byPointer](c, nil))
		},
		"bucket.Append, time": func(ctx context.Context, c, _ *mongo.Collection) error {
			b := testkit.Must(bucket.New[string, ownD](c, timeseries.Every(time.Hour), nil))
			return testkit.ErrorOf(b.Append(ctx, "a", ownD{{Key: "timestamp", Value: far}}))
		},
		"series.Append, time": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.Must(series.New[string, ownD](c, timeseries.Every(time.Hour), nil)).Append(ctx, "a", ownD{{Key: "timestamp", Value: far}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			c, d := db.Collection("c"), db.Collection("d")
			testkit.Insert(t, c, testkit.D("_id", 1))
			if err := call(t.Context(), c, d); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%v", err)
			}
			if n, m := testkit.Count(t, c, bson.D{}), testkit.Count(t, d, bson.D{}); n != 1 || m != 0 {
				t.Errorf("%d and %d documents are stored", n, m)
			}
		})
	}
}

// An ObjectID that the client has decoded as a string is not taken for a string.
func TestObjectIDsAsHex(t *testing.T) {
	db, ctx := mongotest.Database(t, options.Client().SetBSONOptions(&options.BSONOptions{ObjectIDAsHexString: true})), t.Context()
	type doc struct {
		ID  string `bson:"_id"`
		Ref string `bson:"ref"`
	}
	for range 3 {
		testkit.Insert(t, db.Collection("c"), testkit.D("ref", bson.NewObjectID()))
	}
	pager := testkit.Must(paging.New[doc](db.Collection("c"), bson.D{}, nil))
	page := testkit.Must(pager.Page(ctx, nil, paging.Request{Size: 1}))
	if token, err := pager.Token(nil, page.Items[0]); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("Token: %q, %v", token, err)
	}
	r := testkit.Must(extref.New[bson.ObjectID, doc](db.Collection("c"), []extref.Target{{Collection: db.Collection("d"), Name: "d", Path: "c", Fields: []extref.Field{{Path: "ref"}}, Unversioned: true}}, nil))
	if copied, err := r.Copy("d", page.Items[0]); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("Copy: %v, %v", copied, err)
	}
	if _, err := pager.Token(nil, doc{ID: "six", Ref: "seven"}); err != nil {
		t.Errorf("Token of texts: %v", err)
	}
}

// Maps that are not stored, or whose order means nothing, are no reason to refuse a type or to pass over an order.
func TestMapsThatDoNotCount(t *testing.T) {
	type cached struct {
		ID    int            `bson:"_id"`
		D     bson.D         `bson:"d"`
		Cache map[string]int `bson:"-"`
	}
	db, ctx := mongotest.Database(t), t.Context()
	h := testkit.Must(versioning.New[int, cached](db.Collection("c"), db.Collection("r"), nil))
	r := testkit.Must(h.Insert(ctx, cached{ID: 1, D: testkit.D("a", 1, "b", 2)}, versioning.Change{}))
	r.Document.D = testkit.D("b", 2, "a", 1)
	testkit.Must(h.Save(ctx, r, versioning.Change{}))
	if got := testkit.Must(h.Get(ctx, 1)); got.Number != 2 || got.Document.D[0].Key != "b" {
		t.Errorf("another order is not saved: %+v", got)
	}
	for _, filter := range []bson.M{
		{"items": bson.M{"$elemMatch": bson.M{"a": 1, "b": 2}}},
		{"at": bson.M{"$geoWithin": bson.M{"$geometry": bson.M{"type": "Polygon", "coordinates": bson.A{}}}}},
	} {
		testkit.Must(computed.New[int, string, bson.D](db.Collection("s"), db.Collection("t"), computed.Rule{KeyField: "k",
			Pipeline: mongo.Pipeline{testkit.D("$match", filter), testkit.D("$group", testkit.D("_id", "$k", "v", testkit.D("$sum", "$v")))}, Empty: testkit.D("v", 0)}, nil))
	}
}
