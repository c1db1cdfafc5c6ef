package value_test

import (
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

func TestText(t *testing.T) {
	id := bson.NewObjectID()
	for want, v := range map[string]any{
		`"a\"b"`: `a"b`, `""`: "", "1": int32(1), "-9007199254740993": int64(-9007199254740993), "0.5": 0.5, "NaN": math.NaN(),
		"1.10": decimal(t, "1.10"), id.String(): id, "null": nil, "true": true, `{"a": {"$numberInt":"1"}}`: bson.D{{Key: "a", Value: int32(1)}},
		`"` + strings.Repeat("x", 120) + `"…`: strings.Repeat("x", 5000),
	} {
		if got := value.Text(raw(t, v)); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
	long := value.Text(raw(t, bson.A{strings.Repeat("x", 5000)}))
	if len(long) > 130 || !strings.HasSuffix(long, "…") {
		t.Error(long)
	}
	for _, v := range []bson.RawValue{{}, {Type: bson.TypeString, Value: []byte{1}}, {Type: bson.TypeInt64}, {Type: bson.TypeObjectID}} {
		_ = value.Text(v) // no panic
	}
	if got := value.Text(bson.RawValue{}); got != "missing" {
		t.Error(got)
	}
}
