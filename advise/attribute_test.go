package advise_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// JavaScript stores 1 as an int and 1.5 as a double: fields with both are of one type.
func TestAttributeOfMixedNumbers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	goods := db.Collection("goods")
	var docs []any
	for i := range 300 {
		number := []any{int32(i), float64(i) + 0.5}[i/20%2]
		docs = append(docs, bson.D{{Key: fmt.Sprintf("size_%02d", i%20), Value: number}})
	}
	var models []mongo.IndexModel
	for i := range 20 {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: fmt.Sprintf("size_%02d", i), Value: 1}}, Options: options.Index().SetSparse(true)})
	}
	if _, err := goods.Indexes().CreateMany(t.Context(), models); err != nil {
		t.Fatal(err)
	}
	if _, err := goods.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	report, err := advise.Look(t.Context(), db, unhurried(nil))
	if err != nil || len(report.Findings) != 1 {
		t.Fatalf("%v, %v", report, err)
	}
	f := report.Findings[0]
	if f.Name() != "attribute:goods" || len(f.Fields) != 20 || !strings.Contains(f.Code, "attribute.New[bson.ObjectID, any]") {
		t.Errorf("%s of %v: %s", f.Name(), f.Fields, f.Code)
	}
	if f.Saving.Unit != "" || len(f.Grows) != 1 {
		t.Errorf("sparse indexes have a key for each value, as entries do: saves %+v, grows %+v", f.Saving, f.Grows)
	}
	if text := strings.Join(f.Against, " "); !strings.Contains(text, "Adopt with Copy") {
		t.Errorf("against: %s", text)
	}
}

// A wildcard index serves each of the fields below it, unless it has some documents alone.
func TestWildcardIndex(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("goods"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "size", Value: bson.D{{Key: fmt.Sprintf("s%02d", i%20), Value: i}}}}
	}))
	var reads []advise.Query
	for i := range 20 {
		reads = append(reads, sends(t, 5, fmt.Sprintf(`{"find": "goods", "filter": {"size.s%02d": 7}}`, i))...)
	}
	for _, test := range []struct {
		key, finding string
		partial      bool
	}{
		{"size.$**", "", false},
		{"$**", "", false},
		{"other.$**", "attribute:goods.size", false},
		{"size.$**", "attribute:goods.size", true},
	} {
		testkit.OK(t, db.Collection("goods").Indexes().DropAll(t.Context()))
		opts := options.Index()
		if test.partial {
			opts.SetPartialFilterExpression(bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 7}}}})
		}
		_, err := db.Collection("goods").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: test.key, Value: 1}}, Options: opts})
		testkit.OK(t, err)
		note := ""
		if test.finding == "" {
			note = "the wildcard index " + test.key + "_1 serves reads by each of these fields"
		}
		said(t, db, reads, test.finding, "goods", note)
	}
}

// Of fields beside those that are advised, too few are another matter: the report does not deny what it advises.
func TestAttributeAndOthersBesides(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("goods"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: fmt.Sprint("sp_n", i%8), Value: i}, {Key: fmt.Sprint("sp_s", i%4), Value: "x"}}
	}))
	var reads []advise.Query
	for i := range 8 {
		reads = append(reads, sends(t, 5, fmt.Sprintf(`{"find": "goods", "filter": {"sp_n%d": 7}}`, i))...)
		reads = append(reads, sends(t, 5, fmt.Sprintf(`{"find": "goods", "filter": {"sp_s%d": "x"}}`, i%4))...)
	}
	report := said(t, db, reads, "attribute:goods", "goods", "")
	if notes := strings.Join(about(report, "goods"), "; "); !strings.Contains(notes, "besides the fields that are advised, 4 of its string fields have an index") {
		t.Error(notes)
	}
}
