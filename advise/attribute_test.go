package advise_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/advise"
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
	if _, err := goods.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	var models []mongo.IndexModel
	for i := range 20 {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: fmt.Sprintf("size_%02d", i), Value: 1}}, Options: options.Index().SetSparse(true)})
	}
	if _, err := goods.Indexes().CreateMany(t.Context(), models); err != nil {
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
