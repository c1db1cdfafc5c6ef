package series_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A document that goes away between the read and the write of a call, and is begun anew
// with the same _id, count and number of blocks, is another one: what it holds stays, and
// what went away does not come back.
func TestBegunAnew(t *testing.T) {
	t.Parallel()
	type events = *series.Series[string, event]
	before, anew := seconds(3), seconds(3)
	for i := range anew {
		anew[i].V = 100 + float64(i)
	}
	store := func(t *testing.T, s events, all []event) {
		t.Helper()
		appendMany(t, s, "s", all[:2]...)
		appendMany(t, s, "s", all[2:]...)
	}
	skipped := func(t *testing.T, result mongopatterns.Result, err error) {
		t.Helper()
		if err != nil || result.Done != 0 || result.Skipped != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	calls := map[string]func(t *testing.T, s events){
		"compact": func(t *testing.T, s events) {
			result, err := s.Compact(t.Context(), nil)
			skipped(t, result, err)
		},
		"repair": func(t *testing.T, s events) {
			result, err := s.Repair(t.Context(), nil)
			skipped(t, result, err)
		},
		"update": func(t *testing.T, s events) {
			if err := s.Update(t.Context(), "s", event{Timestamp: at(0, 0, 1), V: 5}); err != nil {
				t.Error(err)
			}
		},
		"delete": func(t *testing.T, s events) {
			if err := s.Delete(t.Context(), "s", at(0, 0, 0)); err != nil {
				t.Error(err)
			}
		},
	}
	// How the first document goes, and whether it was stored by a version that wrote no mark.
	for how, old := range map[string]bool{"archived": false, "expired": false, "archived, without a mark": true} {
		for name, call := range calls {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				db := mongotest.Database(t)
				coll := db.Collection("c")
				o := &series.Options{Values: values}
				plain := open[string, event](t, coll, timeseries.Every(time.Hour), o)
				archive := open[string, event](t, db.Collection("archive"), timeseries.Every(time.Hour), o)
				store(t, plain, before)
				damage := bson.D{{Key: "$unset", Value: bson.D{{Key: "none", Value: ""}}}}
				if old {
					damage[0].Value = bson.D{{Key: "mark", Value: ""}}
				}
				if name == "repair" {
					damage = append(damage, bson.E{Key: "$inc", Value: bson.D{{Key: "stats.v.count", Value: 1}}})
				}
				if _, err := coll.UpdateOne(t.Context(), bson.D{}, damage); err != nil {
					t.Fatal(err)
				}
				var once sync.Once
				s := open[string, event](t, beforeUpdate(t, coll, func() {
					once.Do(func() {
						if how == "expired" {
							if _, err := coll.DeleteMany(context.Background(), bson.D{}); err != nil {
								t.Error(err)
							}
						} else if result, err := plain.Archive(context.Background(), at(1, 0, 0), db.Collection("archive"), nil); err != nil || result.Done != 1 {
							t.Errorf("%+v, %v", result, err)
						}
						store(t, plain, anew)
					})
				}), timeseries.Every(time.Hour), o)
				call(t, s)
				want := slices.Clone(anew)
				switch name {
				case "update":
					want[1].V = 5
				case "delete":
					want = want[1:]
				}
				diff(t, want, collect(t, plain.Range(t.Context(), "s", day, at(1, 0, 0))))
				healthy(t, plain)
				if how != "expired" {
					diff(t, before, collect(t, archive.Range(t.Context(), "s", day, at(1, 0, 0))))
				}
			})
		}
	}
}

// Every document has a mark of its own, also those that one block begins because its answer
// was lost, and keeps it through everything that is done to it.
func TestMarks(t *testing.T) {
	const app = "series-marks"
	db := mongotest.Database(t, options.Client().SetAppName(app).SetRetryWrites(false))
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := &series.Options{Values: values, MarkField: "born"}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	mark := func(coll *mongo.Collection) int64 {
		t.Helper()
		doc, err := coll.FindOne(t.Context(), bson.D{}).Raw()
		if err != nil || doc.Lookup("born").Type != bson.TypeInt64 {
			t.Fatal(doc, err)
		}
		return doc.Lookup("born").Int64()
	}
	g, err := series.NewGatherer(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(t.Context(), "s", seconds(1)[0]); err != nil {
		t.Fatal(err)
	}
	failUpdates(t, app, bson.D{{Key: "times", Value: 1}}, bson.D{{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}, {Key: "errmsg", Value: "timed out"}}}})
	if result, err := g.Flush(t.Context()); err == nil || result.Unknown != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	first := mark(coll)
	if _, err := coll.DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	born := mark(coll)
	if born == first {
		t.Error("a block that came again began a document with the mark of another")
	}
	appendMany(t, s, "s", seconds(5)...)
	if _, err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), "s", seconds(3)[2]); err != nil {
		t.Fatal(err)
	}
	if mark(coll) != born {
		t.Error("an append, Compact or Update changed the mark")
	}
	if _, err := s.Archive(t.Context(), at(1, 0, 0), archive, nil); err != nil || mark(archive) != born {
		t.Error("the archive has another mark", err)
	}
}
