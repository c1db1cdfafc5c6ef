package polymorphic_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/attribute"
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
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func all[T any](seq iter.Seq2[T, error]) (out []T) {
	for v, err := range seq {
		out = append(out, testkit.Must(v, err))
	}
	return out
}

// shot is a measurement of two kinds.
type (
	shot  interface{ Points() int }
	frame struct {
		At   time.Time `bson:"at"`
		Pins int       `bson:"pins"`
	}
	ace   struct{ At time.Time }
	shots struct{}
)

func (f frame) Points() int { return f.Pins }
func (a ace) Points() int   { return 15 }

var shotKinds = polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[frame]("frame"), polymorphic.Of[ace]("ace")}, (*polymorphic.Options[shot])(nil)))

func (shots) Kinds() *polymorphic.Kinds[shot] { return shotKinds }

// A Doc is the T of every other package: each value comes back as its own Go type, from
// documents that other programs can still read.
func TestDocInAllPackages(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	both := []athlete{anthony, navratilova}
	docs := []athleteDoc{{anthony}, {navratilova}}
	same := func(t *testing.T, got ...athleteDoc) {
		t.Helper()
		if len(got) != 2 || got[0].V != anthony || *got[1].V.(*tennisPlayer) != *navratilova {
			t.Errorf("%v, want %v", got, both)
		}
	}
	for name, test := range map[string]func(t *testing.T, coll, other *mongo.Collection){
		"paging": func(t *testing.T, coll, _ *mongo.Collection) {
			testkit.Must(coll.InsertMany(ctx, docs))
			pager := testkit.Must(paging.New[athleteDoc](coll, bson.D{{Key: "name", Value: 1}}, nil))
			same(t, testkit.Must(pager.Page(ctx, nil, paging.Request{})).Items...)
		},
		"versioning": func(t *testing.T, coll, other *mongo.Collection) {
			history := testkit.Must(versioning.New[int, athleteDoc](coll, other, nil))
			testkit.OK(t, history.EnsureIndexes(ctx))
			for _, d := range docs {
				testkit.Must(history.Insert(ctx, d, versioning.Change{}))
			}
			testkit.Must(history.Edit(ctx, 1, func(d *athleteDoc) error {
				b := d.V.(bowler)
				b.Average++
				d.V = b
				return nil
			}, versioning.Change{}))
			same(t, testkit.Must(history.At(ctx, 1, 1)).Document, testkit.Must(history.Get(ctx, 2)).Document)
			if now := testkit.Must(history.Get(ctx, 1)).Document.V.(bowler); now.Average != anthony.Average+1 {
				t.Errorf("%+v", now)
			}
			// A document of an unknown kind is kept, and so is its new revision.
			testkit.Must(coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 5}, {Key: "sport", Value: "chess"}, {Key: "rating", Value: int64(2350)}}))
			if same := testkit.Must(history.Edit(ctx, 5, func(*athleteDoc) error { return nil }, versioning.Change{})); same.Number != 1 {
				t.Errorf("%+v", same)
			}
		},
		"tree": func(t *testing.T, coll, _ *mongo.Collection) {
			team := testkit.Must(tree.New[int, athleteDoc](coll, tree.AncestorArray, nil))
			testkit.OK(t, team.EnsureIndexes(ctx))
			testkit.Must(team.Insert(ctx, docs[0], team.AsRoot()))
			testkit.Must(team.Insert(ctx, docs[1], team.Under(1)))
			same(t, append(all(team.Roots(ctx)), all(team.Children(ctx, 1))...)...)
		},
		"subset": func(t *testing.T, coll, other *mongo.Collection) {
			team := testkit.Must(subset.New[string, athleteDoc](other, coll, &subset.Options{Sort: bson.D{{Key: "_id", Value: 1}}}))
			testkit.OK(t, team.EnsureIndexes(ctx))
			testkit.Must(other.InsertOne(ctx, bson.M{"_id": "team"}))
			for _, d := range docs {
				testkit.Must(team.Insert(ctx, "team", d))
			}
			same(t, testkit.Must(team.Top(ctx, "team"))...)
			same(t, all(team.All(ctx, "team"))...)
		},
		"relation": func(t *testing.T, coll, other *mongo.Collection) {
			team := testkit.Must(relation.New[string, int, athleteDoc](other, coll, &relation.Options{ChildrenField: "members", OwnerField: "team"}))
			testkit.OK(t, team.EnsureIndexes(ctx))
			testkit.Must(other.InsertOne(ctx, bson.M{"_id": "team"}))
			for _, d := range docs {
				testkit.Must(team.Insert(ctx, "team", d))
			}
			same(t, testkit.Must(team.Children(ctx, "team", nil)).Items...)
		},
		"outlier": func(t *testing.T, coll, other *mongo.Collection) {
			lists := testkit.Must(outlier.New[int, athleteDoc](coll, other, &outlier.Options{MaxCount: 1, Set: true}))
			testkit.OK(t, lists.EnsureIndexes(ctx))
			testkit.Must(coll.InsertOne(ctx, bson.M{"_id": 1}))
			testkit.Must(lists.Add(ctx, 1, docs...))
			same(t, all(lists.All(ctx, 1))...)
			if !testkit.Must(lists.Contains(ctx, 1, docs[0])) {
				t.Error("not contained")
			}
		},
		"attribute": func(t *testing.T, coll, _ *mongo.Collection) {
			best := testkit.Must(attribute.New[int, athleteDoc](coll, nil))
			testkit.Must(coll.InsertOne(ctx, bson.M{"_id": 1}))
			for i, d := range docs {
				testkit.OK(t, best.Set(ctx, 1, attribute.Named(fmt.Sprint(i)), d))
			}
			same(t, testkit.Must(best.Get(ctx, 1, attribute.Named("0"))), testkit.Must(best.Get(ctx, 1, attribute.Named("1"))))
		},
		"bucket": func(t *testing.T, coll, _ *mongo.Collection) {
			type shotDoc = polymorphic.Doc[shot, shots]
			hours := testkit.Must(bucket.New[int, shotDoc](coll, timeseries.Every(time.Hour), &bucket.Options{TimeField: "at"}))
			testkit.OK(t, hours.EnsureIndexes(ctx))
			at := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
			testkit.Must(hours.Append(ctx, 1, shotDoc{V: frame{at, 9}}))
			testkit.Must(hours.Append(ctx, 1, shotDoc{V: ace{at.Add(time.Minute)}}))
			if got := all(hours.Range(ctx, 1, at, at.Add(time.Hour))); len(got) != 2 || got[0].V.Points() != 9 || got[1].V.Points() != 15 {
				t.Errorf("%v", got)
			}
		},
		"schemaversion": func(t *testing.T, coll, _ *mongo.Collection) {
			versions := testkit.Must(schemaversion.New[athleteDoc](coll, nil, nil))
			for _, d := range docs {
				testkit.Must(versions.Insert(ctx, d))
			}
			same(t, testkit.Must(versions.Get(ctx, 1)), testkit.Must(versions.Get(ctx, 2)))
		},
		"computed": func(t *testing.T, coll, other *mongo.Collection) {
			wins := testkit.Must(computed.New[int, int, athleteDoc](other, coll, computed.Rule{
				KeyField: "by",
				Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$by"}, {Key: "wins", Value: bson.M{"$sum": 1}}}}}},
				Empty:    bson.D{{Key: "wins", Value: 0}},
			}, nil))
			testkit.Must(coll.InsertMany(ctx, docs))
			same(t, testkit.Must(wins.Get(ctx, 1, 0)), testkit.Must(wins.Get(ctx, 2, 0)))
		},
		"extref": func(t *testing.T, coll, other *mongo.Collection) {
			refs := testkit.Must(extref.New[int, athleteDoc](coll, []extref.Target{{Collection: other, Path: "winner", Unversioned: true, Fields: []extref.Field{{Path: "name"}}}}, nil))
			copied := testkit.Must(refs.Copy(other.Name()+".winner", docs[1]))
			if fmt.Sprint(copied) != `{"_id":{"$numberInt":"2"},"name":"Martina Navratilova"}` {
				t.Errorf("%v", copied)
			}
			testkit.Must(coll.InsertOne(ctx, docs[0]))
			testkit.Must(refs.Update(ctx, 1, bson.D{{Key: "$set", Value: docs[0]}}))
			same(t, testkit.Must(one(ctx, coll)), docs[1])
		},
		"split": func(t *testing.T, coll, other *mongo.Collection) {
			halves := testkit.Must(split.New[int, athleteDoc, bson.M](coll, other, nil))
			testkit.OK(t, halves.EnsureIndexes(ctx))
			for i, d := range docs {
				testkit.OK(t, halves.Insert(ctx, i+1, d, bson.M{"biography": "long"}))
			}
			same(t, testkit.Must(halves.GetHot(ctx, 1)), testkit.Must(halves.GetHot(ctx, 2)))
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, db.Collection(name), db.Collection(name+"_other")) })
	}
}

func one(ctx context.Context, coll *mongo.Collection) (d athleteDoc, err error) {
	err = coll.FindOne(ctx, bson.D{}).Decode(&d)
	return d, err
}
