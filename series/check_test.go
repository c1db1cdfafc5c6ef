package series_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Damage is an error of every read, with the document's _id, and a Problem; a document
// beside it is read, compacted and repaired.
func TestDamage(t *testing.T) {
	t.Parallel()
	flip := func(v bson.RawValue) bson.Binary {
		_, data, _ := v.BinaryOK()
		data = slices.Clone(data)
		data[len(data)/2] ^= 4
		return bson.Binary{Data: data}
	}
	for name, damage := range map[string]func(doc bson.Raw) bson.D{
		"block":     func(doc bson.Raw) bson.D { return bson.D{{Key: "blocks.1", Value: flip(doc.Lookup("blocks", "1"))}} },
		"no binary": func(bson.Raw) bson.D { return bson.D{{Key: "blocks.0", Value: "text"}} },
		"no array":  func(bson.Raw) bson.D { return bson.D{{Key: "blocks", Value: 7}} },
		"empty":     func(bson.Raw) bson.D { return bson.D{{Key: "blocks.0", Value: bson.Binary{}}} },
		"compacted": func(doc bson.Raw) bson.D { return bson.D{{Key: "blocks.0", Value: flip(doc.Lookup("blocks", "0"))}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("c")
			s := open[string, event](t, coll, timeseries.Every(time.Hour), &series.Options{Values: values})
			appendMany(t, s, "s", seconds(5)...)
			if name == "compacted" {
				appendMany(t, s, "s", seconds(3)...)
				if _, err := s.Compact(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			appendMany(t, s, "s", seconds(7)...)
			appendMany(t, s, "s", event{Timestamp: at(9, 0, 0)})
			appendMany(t, s, "s", event{Timestamp: at(9, 0, 0)})
			doc, err := coll.FindOne(t.Context(), bson.D{{Key: "start", Value: day}}).Raw()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := coll.UpdateOne(t.Context(), bson.D{{Key: "start", Value: day}}, bson.D{{Key: "$set", Value: damage(doc)}}); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			for what, err := range map[string]error{
				"range": testkit.Drain(s.Range(ctx, "s", day, at(1, 0, 0))), "documents": testkit.Drain(s.Documents(ctx, nil)),
				"aggregate": second(s.Aggregate(ctx, "s", at(0, 0, 1), at(1, 0, 0))), "delete": s.Delete(ctx, "s", day),
				"windows": testkit.Drain(s.AggregateBy(ctx, "s", day, at(1, 0, 0), timeseries.Every(time.Minute))),
			} {
				if !errors.Is(err, series.ErrDamaged) || !strings.Contains(err.Error(), `_id {"series": "s","start":`) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := s.Aggregate(ctx, "s", time.Time{}, time.Time{}); err != nil {
				t.Error(err)
			}
			if latest, err := s.Latest(ctx, "s"); err != nil || latest.Timestamp != at(9, 0, 0) {
				t.Error(latest, err)
			}
			var problems []mongopatterns.Problem
			for p, err := range s.Check(ctx, nil) {
				if err != nil {
					t.Fatal(err)
				}
				problems = append(problems, p)
			}
			if len(problems) != 1 || problems[0].Kind != series.Damaged || problems[0].Detail == "" || !problems[0].ID.Equal(doc.Lookup("_id")) {
				t.Errorf("%v", problems)
			}
			if result, err := s.Repair(ctx, nil); err != nil || result.Remaining != 1 || result.Done != 0 {
				t.Errorf("repair: %+v, %v", result, err)
			}
			if name == "block" {
				if _, err := s.Compact(ctx, &mongopatterns.Work{Strict: true}); !errors.Is(err, series.ErrDamaged) {
					t.Errorf("strict: %v", err)
				}
			}
			result, err := s.Compact(ctx, nil)
			if err != nil || result.Done != 1 || name != "no array" && result.Failed != 1 {
				t.Errorf("compact: %+v, %v", result, err)
			}
		})
	}
}

// Check finds what does not follow from the measurements, and Repair computes it.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Every(time.Hour), &series.Options{Values: values, EndField: "end"})
	appendMany(t, s, "s", seconds(10)...)
	appendMany(t, s, "s", event{Timestamp: at(0, 1, 0), V: math.NaN()}, event{Timestamp: at(0, 1, 1), V: math.Inf(1)})
	testkit.Healthy(t, s)
	if _, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{
		{Key: "$set", Value: bson.D{{Key: "count", Value: 3}, {Key: "bytes", Value: 1}, {Key: "end", Value: day}, {Key: "stats.v.max", Value: 7}, {Key: "stats.n.min", Value: 1}}},
		{Key: "$unset", Value: bson.D{{Key: "stats.v.sum", Value: ""}}}}); err != nil {
		t.Fatal(err)
	}
	kinds := func() (out []string) {
		for p, err := range s.Check(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(p.Kind)+" "+p.Field)
		}
		slices.Sort(out)
		return out
	}
	wrong := []string{"wrong field bytes", "wrong field count", "wrong field end", "wrong field stats.n.min", "wrong field stats.v.max", "wrong field stats.v.sum"}
	testkit.Equal(t, wrong, kinds())
	if result, err := s.Repair(t.Context(), &mongopatterns.Work{DryRun: true}); err != nil || result.Done != 1 || len(kinds()) != len(wrong) {
		t.Errorf("dry: %+v, %v", result, err)
	}
	if result, err := s.Repair(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.Healthy(t, s)
	if _, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "start", Value: at(0, 0, 5)}}}}); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, []string{"malformed start"}, kinds())
	if _, err := coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "start", Value: at(1, 0, 0)}, {Key: "end", Value: at(2, 0, 0).Add(-time.Millisecond)}}}}); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, []string{"damaged "}, kinds()) // the checksum covers the start
	if result, err := s.Repair(t.Context(), nil); err != nil || result.Remaining != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Measurements outside their window show where a collection is opened with a shorter one.
func TestOutsideWindow(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	appendMany(t, open[string, event](t, coll, timeseries.Every(time.Hour), nil), "s", event{Timestamp: at(1, 0, 0)}, event{Timestamp: at(1, 30, 0)})
	testkit.Equal(t, map[mongopatterns.ProblemKind]int{mongopatterns.OutsideWindow: 1}, kinds(t, open[string, event](t, coll, timeseries.Every(time.Minute), nil)))
}
