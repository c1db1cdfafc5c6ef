package schemaversion_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// Find refuses exactly the projections after which the server's answer lacks the version, and sends
// nothing then.
func TestProjection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	_, err := coll.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "schema_version", Value: 3}, {Key: "n", Value: 3}, {Key: "in", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "list", Value: bson.A{1, 2}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "schema_version", Value: "3"}, {Key: "n", Value: 3}, {Key: "in", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "list", Value: bson.A{1, 2}}},
	})
	testkit.OK(t, err)
	raise := schemaversion.Step{Up: func(doc bson.D) (bson.D, error) { return append(doc, bson.E{Key: "raised", Value: true}), nil }}
	v := testkit.Must(schemaversion.New[bson.M](coll, []schemaversion.Step{raise, raise}, nil))
	type (
		fields struct {
			N int `bson:"n"`
		}
		whole struct {
			N       int  `bson:"n"`
			Version bool `bson:"schema_version"`
		}
	)
	type d = bson.D
	refused, kept := 0, 0
	for _, projection := range []any{
		nil, d{}, bson.M{}, bson.M{"n": 1}, d{{Key: "n", Value: 1}}, testkit.Raw(t, d{{Key: "n", Value: true}}), fields{1}, &fields{1}, whole{1, true},
		fields{0}, whole{0, false}, bson.M{"n": 1, "schema_version": 1}, bson.M{"n": 1, "schema_version": int64(7)}, bson.M{"schema_version": 0.0}, bson.M{"schema_version": false},
		bson.M{"n": 0}, bson.M{"n": false}, bson.M{"in.x": 0}, bson.M{"in.x": 1}, bson.M{"in": bson.M{"x": 1}}, bson.M{"in": bson.M{"x": 0}}, bson.M{"in": bson.M{"_id": 0}},
		bson.M{"_id": 1}, bson.M{"_id": 0}, bson.M{"_id": 0, "n": 1}, bson.M{"_id": 1, "n": 0}, bson.M{"_id": 0, "n": 1, "schema_version": 1},
		bson.M{"list": bson.M{"$slice": 1}}, bson.M{"list": bson.M{"$slice": 1}, "n": 1}, bson.M{"list": bson.M{"$slice": 1}, "n": 0}, bson.M{"list": bson.M{"$slice": 1}, "_id": 1},
		bson.M{"list": bson.M{"$elemMatch": bson.M{"$gt": 1}}}, bson.M{"sum": bson.M{"$add": bson.A{"$n", 1}}}, bson.M{"copy": "$n"}, bson.M{"n": nil},
		bson.M{"key": bson.M{"$meta": "indexKey"}}, bson.M{"key": bson.M{"$meta": "indexKey"}, "n": 1},
		bson.M{"schema_version.x": 1}, bson.M{"schema_version.x": 0}, bson.M{"schema_version": bson.M{"x": 1}}, bson.M{"schema_version": bson.M{"x": 0}},
		bson.M{"n": 1, "schema_version": "$schema_version"}, bson.M{"schema_versions": 1}, bson.M{"in": bson.M{"schema_version": 1}},
		bson.M{"n": mustDecimal(t, "0E+3")}, bson.M{"n": mustDecimal(t, "0.5")},
	} {
		opts := []options.Lister[options.FindOptions]{options.Find().SetProjection(bson.M{"schema_version": 0}), nil, (*options.FindOptionsBuilder)(nil), options.Find().SetProjection(projection)}
		cursor, err := coll.Find(ctx, d{}, opts...)
		testkit.OK(t, err)
		var docs []bson.Raw
		testkit.OK(t, cursor.All(ctx, &docs))
		lacks := docs[0].Lookup("schema_version").Type == 0
		n := 0
		commands := mongotest.Record(t, db, func() {
			for got, err := range v.Find(ctx, nil, opts...) {
				n++
				if lacks && (!errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "schema_version")) || !lacks && (err != nil || got["raised"] != nil) {
					t.Errorf("%T %v: %v, %v, and the server's answer is %v", projection, projection, got, err, docs[0])
				}
			}
		})
		if lacks && (n != 1 || len(commands) != 0) || !lacks && n != 2 {
			t.Errorf("%T %v: %d, %v", projection, projection, n, commands)
		}
		if lacks {
			refused++
		} else {
			kept++
		}
	}
	if refused < 15 || kept < 15 {
		t.Errorf("%d refused, %d kept", refused, kept)
	}
	// What the driver refuses has its error.
	for _, bad := range []any{7, make(chan int), bson.M{"n": 1, "in": 0, "schema_version": 1}} {
		for _, err := range v.Find(ctx, nil, options.Find().SetProjection(bad)) {
			if err == nil || errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%v: %v", bad, err)
			}
		}
	}
}

func mustDecimal(t *testing.T, text string) bson.Decimal128 {
	t.Helper()
	return testkit.Must(bson.ParseDecimal128(text))
}
