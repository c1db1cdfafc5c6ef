package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Dirty measurements, of one key or of two: those without a key do not end the printed Adopt, types that make two series of
// one are said, and sums are kept of the numbers that aggregations name, or else of all.
func TestSeriesOfDirtyData(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(1000, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "host", Value: "h"}, {Key: "sensor", Value: i % 4}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)},
			{Key: "temp", Value: float64(i) / 2}, {Key: "hum", Value: i}}
		switch {
		case i < 20:
			doc[2].Value = fmt.Sprint(i % 4)
		case i < 30:
			doc = append(doc[:2], doc[3:]...)
		case i < 40:
			doc[2].Value = float64(i % 4)
		case i < 45:
			doc[4].Value = "n/a"
		case i < 48:
			doc[2].Value = nil
		}
		return doc
	}))
	one := sends(t, 30, `{"find": "readings", "filter": {"sensor": 3, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`)
	two := sends(t, 30, `{"find": "readings", "filter": {"host": "h", "sensor": 3, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`)
	sum := sends(t, 1, `{"aggregate": "readings", "pipeline": [{"$match": {"sensor": 3, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}, {"$group": {"_id": null, "mean": {"$avg": "$temp"}}}]}`)
	for _, test := range []struct {
		queries     []advise.Query
		code, adopt string
		lacking     int
	}{
		{one, `Values:      []timeseries.Value{{Field: "hum"}, {Field: "temp"}},`, `measurements.Adopt(ctx, db.Collection("readings"), nil, nil)`, 13},
		{append(sum, one...), `Values:      []timeseries.Value{{Field: "temp"}},`, `measurements.Adopt(ctx, db.Collection("readings"), nil, nil)`, 13},
		{two, `Values:      []timeseries.Value{{Field: "hum"}, {Field: "temp"}},`, `fmt.Errorf("%w: %s: %w", mongopatterns.ErrInvalid, name, err)`, 10},
	} {
		report := said(t, db, test.queries, "series:readings.at", "readings", "")
		if len(report.Findings) == 0 {
			continue
		}
		prints(t, report.Findings)
		f := report.Findings[0]
		if !strings.Contains(f.Code, test.code) || !strings.Contains(f.Adopt, test.adopt) {
			t.Errorf("%s\n%s", f.Code, f.Adopt)
		}
		against := strings.Join(f.Against, " ")
		if mixed := strings.HasPrefix(f.Code, "// any: readings, sensor: int in 957 documents"); mixed != (test.lacking == 13) {
			t.Errorf("%s", f.Code)
		}
		for _, want := range []string{fmt.Sprintf("%d documents have no sensor (counted): Adopt leaves these out", test.lacking),
			`sensor has values of several types (counted: int in 957 documents, string in 20 documents, double in 10 documents, missing in 10 documents, null in 3 documents): 3 and "3" become two series`} {
			if !strings.Contains(against, want) {
				t.Errorf("%q is not in %s", want, against)
			}
		}
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, f, nil)
		if text := printedTrial(t, trial); err != nil || !trial.Kept() || !strings.Contains(text, fmt.Sprintf("%d documents refused, which Adopt names as Failed", test.lacking)) {
			t.Errorf("%s, %v", text, err)
		}
	}

	// What is printed for one key.
	measurements, err := series.New[any, bson.D](db.Collection("readings_series"), timeseries.Days(nil), &series.Options{
		SeriesField: "sensor",
		TimeField:   "at",
		Values:      []timeseries.Value{{Field: "temp"}, {Field: "hum"}},
	})
	testkit.OK(t, err)
	testkit.OK(t, measurements.EnsureIndexes(t.Context()))
	result, err := measurements.Adopt(t.Context(), db.Collection("readings"), nil, nil)
	if err != nil || result.Done != 987 || result.Failed != 13 {
		t.Fatalf("%+v, %v", result, err)
	}
	for key, want := range map[any]int64{int32(3): 242, "3": 5} {
		stats, err := measurements.Aggregate(t.Context(), key, time.Time{}, time.Time{})
		if err != nil || stats.Count != want || stats.Values["hum"].Count != want || stats.Values["temp"].Count == 0 {
			t.Errorf("%v: %+v, %v", key, stats, err)
		}
	}

	// What is printed for two.
	both, err := series.New[bson.D, bson.D](db.Collection("both_series"), timeseries.Days(nil), &series.Options{SeriesField: "host_sensor", TimeField: "at"})
	testkit.OK(t, err)
	testkit.OK(t, both.EnsureIndexes(t.Context()))
	result, err = both.Adopt(t.Context(), db.Collection("readings"), func(doc bson.Raw) (id bson.D, _ []bson.D, err error) {
		for _, name := range []string{"host", "sensor"} {
			value, err := doc.LookupErr(name)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %s: %w", mongopatterns.ErrInvalid, name, err)
			}
			id = append(id, bson.E{Key: name, Value: value})
		}
		var m bson.D
		if err := bson.Unmarshal(doc, &m); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", mongopatterns.ErrInvalid, err)
		}
		m = slices.DeleteFunc(m, func(e bson.E) bool { return slices.Contains([]string{"_id", "host", "sensor"}, e.Key) })
		return id, []bson.D{m}, nil
	}, nil)
	if err != nil || result.Done != 990 || result.Failed != 10 {
		t.Fatalf("%+v, %v", result, err)
	}
	stats, err := both.Aggregate(t.Context(), bson.D{{Key: "host", Value: "h"}, {Key: "sensor", Value: 3}}, time.Time{}, time.Time{})
	if err != nil || stats.Count != 242 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// Documents without a series, or with null there, do not make one of several types, and neither do numbers of several.
func TestSeriesWithoutAKey(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(600, func(i int) bson.D {
		sensor := any(i % 2)
		switch {
		case i < 5:
			sensor = nil
		case i < 10:
			sensor = float64(i % 2)
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "sensor", Value: sensor}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)}, {Key: "temp", Value: i}}
	}))
	reads := sends(t, 30, `{"find": "readings", "filter": {"sensor": 1, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`)
	report := said(t, db, reads, "series:readings.at", "readings", "")
	if len(report.Findings) == 0 {
		return
	}
	f := report.Findings[0]
	if against := strings.Join(f.Against, " "); !strings.Contains(f.Code, "series.New[float64, bson.D]") || strings.Contains(f.Code, "// any") ||
		strings.Contains(against, "of several types") || !strings.Contains(against, "5 documents have no sensor (counted)") {
		t.Errorf("%s\n%s", f.Code, against)
	}
}

// The sums of a block take bytes, too.
func TestSeriesWithSumsOfMany(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(480, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "sensor", Value: i % 4}, {Key: "at", Value: begin.Add(time.Duration(i/4) * 24 * time.Hour / 28)}}
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			doc = append(doc, bson.E{Key: name, Value: i})
		}
		return doc
	}))
	reads := sends(t, 30, `{"find": "readings", "filter": {"sensor": 1, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`)
	said(t, db, reads, "", "readings", "what is packed could take as many bytes")
}

// What this library keeps beside a collection is not looked at. The ledger of an Adopt is no reference to its source.
func TestCollectionsOfThisLibrary(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(600, func(i int) bson.D {
		return bson.D{{Key: "sensor", Value: i % 2}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)}, {Key: "temp", Value: float64(i) / 2}}
	}))
	insert(t, db.Collection("gym_locks"), times(120, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "code", Value: i}} }))
	reads := sends(t, 30, `{"find": "readings", "filter": {"sensor": 1, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`)
	said(t, db, reads, "series:readings.at", "readings", "")
	measurements, err := series.New[any, bson.D](db.Collection("readings_series"), timeseries.Days(nil), &series.Options{SeriesField: "sensor", TimeField: "at"})
	testkit.OK(t, err)
	testkit.OK(t, measurements.EnsureIndexes(t.Context()))
	if result, err := measurements.Adopt(t.Context(), db.Collection("readings"), nil, nil); err != nil || result.Done != 600 {
		t.Fatalf("%+v, %v", result, err)
	}
	report := said(t, db, reads, "series:readings.at", "readings", "")
	if notes := about(report, "readings_series.adopt"); !slices.Equal(notes, []string{"readings_series.adopt: has the name of a collection that bucket and series keep"}) {
		t.Errorf("%q", notes)
	}
	if notes := strings.Join(about(report, "gym_locks"), "; "); strings.Contains(notes, "has the name of") {
		t.Errorf("%s", notes)
	}
}

// A series may be told by fields of a subdocument, and times may be numbers or text, of which Adopt makes dates.
func TestSeriesOfOtherForms(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(600, func(i int) bson.D {
		at := begin.Add(time.Duration(i) * time.Minute)
		mixed := any(at.Format(time.RFC3339))
		if i%5 == 0 {
			mixed = at.Format("2 Jan 2006")
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "sensor", Value: i % 3}, {Key: "meta", Value: bson.D{{Key: "sensor", Value: fmt.Sprint("s", i%3)}, {Key: "hall", Value: i % 2}}},
			{Key: "at", Value: at}, {Key: "ms", Value: at.UnixMilli()}, {Key: "s", Value: int32(at.Unix())}, {Key: "iso", Value: at.Format(time.RFC3339)}, {Key: "mixed", Value: mixed}, {Key: "v", Value: i}}
	}))
	date := `{"$gte": {"$date": "2026-01-01T01:00:00Z"}, "$lt": {"$date": "2026-01-01T02:00:00Z"}}`
	for _, test := range []struct{ filter, finding, note string }{
		{`{"meta.sensor": "s1", "at": ` + date + `}`, "bucket:readings.at", ""},
		{`{"meta.sensor": "s1", "meta.hall": 1, "at": ` + date + `}`, "bucket:readings.at", ""},
		{`{"sensor": 1, "ms": {"$gte": 1767229200000, "$lt": 1767232800000}}`, "bucket:readings.ms", ""},
		{`{"sensor": 1, "s": {"$gte": 1767229200}}`, "bucket:readings.s", ""},
		{`{"sensor": 1, "iso": {"$gte": "2026-01-01T01:00:00Z"}}`, "bucket:readings.iso", ""},
		{`{"sensor": 1, "mixed": {"$gte": "2026-01-01T01:00:00Z"}}`, "", "some of them cannot be converted to dates"},
		{`{"sensor": 1, "v": {"$gte": 100}}`, "", ""},
	} {
		if scale.Third(test.filter) {
			tried(t, db, said(t, db, sends(t, 30, `{"find": "readings", "filter": `+test.filter+`}`), test.finding, "readings", test.note))
		}
	}
}

// An upsert by a series and its time, or by an ID, is an event that is sent twice. The newest ones are read as well.
func TestMeasurementsThatAreUpserted(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(600, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: fmt.Sprint("r", i)}, {Key: "sensor", Value: i % 3}, {Key: "seq", Value: i / 3}, {Key: "shift", Value: i / 100},
			{Key: "at", Value: begin.Add(time.Duration(i/3) * time.Minute)}, {Key: "v", Value: i}}
	}))
	reads := sends(t, 40, `{"find": "readings", "filter": {"sensor": 1, "at": {"$gte": {"$date": "2026-01-01T01:00:00Z"}}}}`,
		`{"find": "readings", "filter": {"sensor": 1}, "sort": {"at": -1}, "limit": 1}`)
	tried(t, db, said(t, db, reads, "series:readings.at", "readings", ""))
	const at = `{"$date": "2026-02-01T01:00:00Z"}`
	for _, test := range []struct{ q, u, code, note string }{
		{`{"sensor": 1, "at": ` + at + `}`, `{"$set": {"v": 3}}`, "at", ""},
		{`{"sensor": 1, "seq": 700}`, `{"$set": {"at": ` + at + `, "v": 3}}`, "seq", ""},
		{`{"_id": "r700"}`, `{"$setOnInsert": {"sensor": 1, "at": ` + at + `, "v": 3}}`, "_id", ""},
		{`{"_id": "r700"}`, `{"sensor": 1, "at": ` + at + `, "v": 3}`, "_id", ""},
		{`{"sensor": 1, "at": ` + at + `}`, `{"sensor": 1, "at": ` + at + `, "v": 3}`, "at", ""},
		{`{"_id": "r700"}`, `{"sensor": 1, "v": 3}`, "", "updates or deletes of other documents"},
		{`{"sensor": 1}`, `{"sensor": 1, "at": ` + at + `, "v": 3}`, "", "updates or deletes of other documents"},
		{`{"sensor": 1, "shift": 3}`, `{"$set": {"at": ` + at + `}}`, "", "have the same shift"},
		{`{"sensor": 1, "seq": 700}`, `{"$set": {"v": 3}}`, "", "updates or deletes of other documents"},
	} {
		if !scale.Third(test.q + test.u) {
			continue
		}
		upserts := sends(t, 100, `{"update": "readings", "updates": [{"q": `+test.q+`, "u": `+test.u+`, "upsert": true}]}`)
		finding := ""
		if test.code != "" {
			finding = "bucket:readings.at"
		}
		report := said(t, db, append(upserts, reads...), finding, "readings", test.note)
		if tried(t, db, report); test.code != "" && (len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Code, fmt.Sprintf("IDField:     %q", test.code))) {
			t.Errorf("%s: %v", test.code, report.Findings)
		}
	}
}

// Measurements that are pushed to a list without an end are a series of their document. Lists of comments, which are read whole,
// and lists that something else writes as well are none.
func TestMeasurementsInLists(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"devices", "rooms", "mixed"} {
		insert(t, db.Collection(name), times(100, func(i int) bson.D {
			list := bson.A{}
			for n := range 120 {
				at := begin.Add(time.Duration(n) * time.Minute)
				if n == 7 {
					at = begin.Add(-time.Hour) // came late
				}
				e := bson.D{{Key: "at", Value: at}, {Key: "v", Value: n}}
				switch name {
				case "rooms":
					e = append(e, bson.E{Key: "by", Value: "x"})
				case "mixed":
					e = append(e, bson.E{Key: "until", Value: at})
				}
				list = append(list, e)
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: "x"}, {Key: "of", Value: i % 9}, {Key: "list", Value: list}}
		}))
	}
	push := func(name, update string) []advise.Query {
		return sends(t, 20, `{"update": "`+name+`", "updates": [{"q": {"_id": 7}, "u": `+update+`}]}`)
	}
	const one, at = `{"$push": {"list": {"at": 3, "v": 3}}}`, `{"$date": "2026-01-01T01:00:00Z"}`
	filtered := `{"aggregate": "rooms", "pipeline": [{"$match": {"_id": 7}}, {"$project": {"list": {"$filter": {"input": "$list", "as": "e", "cond": {"$and": [{"$gte": ["$$e.at", ` + at + `]}, {"$lt": ["$$e.at", ` + at + `]}]}}}}}]}`
	unwound := `{"aggregate": "rooms", "pipeline": [{"$match": {"_id": 7}}, {"$unwind": "$list"}, {"$match": {"list.at": {"$gte": ` + at + `}}}]}`
	for _, test := range []struct{ name, update, read, finding, note string }{
		{"devices", one, `{"find": "devices", "filter": {"_id": 7}}`, "series:devices.list", ""},
		{"devices", one, `{"find": "devices", "filter": {"of": 7}, "projection": {"name": 1}}`, "series:devices.list", ""},
		{"rooms", one, filtered, "series:rooms.list", ""},
		{"rooms", one, unwound, "series:rooms.list", ""},
		{"rooms", one, `{"find": "rooms", "filter": {"_id": 7}}`, "", "0 reads take a range of at in the list"},
		{"devices", `{"$pull": {"list": {"v": 3}}}`, `{"find": "devices", "filter": {"_id": 7}}`, "", "other updates than $push"},
		{"mixed", one, `{"find": "mixed", "filter": {"_id": 7}}`, "", "no list is longer"},
	} {
		if !scale.Third(test.update + test.read) {
			continue
		}
		queries := append(push(test.name, test.update), sends(t, 30, test.read)...)
		if test.update != one {
			queries = append(queries, push(test.name, one)...)
		}
		if report := said(t, db, queries, test.finding, test.name, test.note); test.read == filtered || strings.Contains(test.read, "projection") {
			tried(t, db, report)
		}
	}
}
