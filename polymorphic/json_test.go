package polymorphic_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/polymorphic"
)

// New refuses kinds that are not structs or pointers to structs: their documents could not be
// distinguished, or not be decoded.
func TestKindsAreStructs(t *testing.T) {
	for name, kind := range map[string]polymorphic.Kind{
		"int": polymorphic.Of[int]("a"), "pointer to a pointer": polymorphic.Of[**bowler]("a"), "map": polymorphic.Of[bson.M]("a"), "slice": polymorphic.Of[bson.D]("a"),
		"pointer to a map": polymorphic.Of[*bson.M]("a"), "named map": polymorphic.Of[map[string]int]("a"), "interface": polymorphic.Of[athlete]("a"), "none": {},
	} {
		if _, err := polymorphic.New[any]([]polymorphic.Kind{kind}, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A Doc in JSON is the value with its kind in front, and comes back unchanged.
func TestDocInJSON(t *testing.T) {
	type page struct {
		First athleteDoc   `json:"first"`
		None  athleteDoc   `json:"none"`
		Items []athleteDoc `json:"items"`
	}
	unknown := bson.D{{Key: "_id", Value: 5}, {Key: "sport", Value: "chess"}, {Key: "name", Value: "Vera Menchik"}}
	raw, err := bson.Marshal(unknown)
	if err != nil {
		t.Fatal(err)
	}
	chess, err := kinds.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	p := page{First: athleteDoc{V: anthony}, Items: []athleteDoc{{V: navratilova}, {V: chess}}}
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"first":{"sport":"bowling","ID":1,"Name":"Earl Anthony","Average":219},"none":null,"items":[` +
		`{"sport":"tennis","ID":2,"Name":"Martina Navratilova","Singles":{"Titles":167},"Doubles":{"Titles":177}},{"_id":5,"sport":"chess","name":"Vera Menchik"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	var back page
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]any{
		`{"sport":"ten-pin","Name":"Dick Weber"}`: bowler{Name: "Dick Weber"}, `{"Name":"Don Carter"}`: bowler{Name: "Don Carter"}, `null`: nil,
	} {
		var doc athleteDoc
		if err := json.Unmarshal([]byte(text), &doc); err != nil || !cmp.Equal(any(doc.V), want) {
			t.Errorf("%s: %v, %v", text, doc.V, err)
		}
	}
	for _, text := range []string{`7`, `[]`, `{"sport":7}`, `{"sport":"tennis","Name":7}`, `{"sport":"chess"`} {
		var doc athleteDoc
		if err := json.Unmarshal([]byte(text), &doc); err == nil {
			t.Errorf("%s: %v", text, doc.V)
		}
	}
	type stranger = polymorphic.Doc[athlete, strictSet]
	var doc stranger
	var named *polymorphic.UnknownError
	if err := json.Unmarshal([]byte(`{"sport":"chess"}`), &doc); !errors.As(err, &named) || named.Kind.StringValue() != "chess" {
		t.Error(err)
	}
	if _, err := json.Marshal(polymorphic.Doc[any, clashing]{V: clash{Kind: "mine"}}); err == nil {
		t.Error("a field of the value passes for its kind")
	}
}

// No number of an unknown kind loses its value: what fits neither into an integer nor into a Decimal128, or is beyond the
// doubles, is refused.
func TestNumbersInJSON(t *testing.T) {
	for literal, want := range map[string]string{
		"2147483647": `{"$numberInt":"2147483647"}`, "-9223372036854775808": `{"$numberLong":"-9223372036854775808"}`,
		"9223372036854775808": `{"$numberDecimal":"9223372036854775808"}`, "-9223372036854775809": `{"$numberDecimal":"-9223372036854775809"}`,
		"1234567890123456789012345678901234": `{"$numberDecimal":"1234567890123456789012345678901234"}`,
		"0.1":                                `{"$numberDouble":"0.1"}`,
		"1.5e300":                            `{"$numberDouble":"1.5E+300"}`,
		"0e-400":                             `{"$numberDouble":"0.0"}`,
		`[{"a":18446744073709551615},"-1e400\\\""]`: `[{"a": {"$numberDecimal":"18446744073709551615"}},"-1e400\\\""]`,
		`{"$numberDecimal":"1"}`:                    `{"$numberDecimal":"1"}`,
	} {
		var doc athleteDoc
		if err := json.Unmarshal([]byte(`{"sport":"chess","x":`+literal+`}`), &doc); err != nil {
			t.Errorf("%s: %v", literal, err)
			continue
		}
		stored, err := kinds.Encode(doc.V)
		if err != nil || stored.Lookup("x").String() != want {
			t.Errorf("%s: %v, %v, want %s", literal, stored, err, want)
		}
		text, err := json.Marshal(doc)
		var back athleteDoc
		if err != nil || json.Unmarshal(text, &back) != nil || !cmp.Equal(back, doc) {
			t.Errorf("%s: %s, %v became %v", literal, text, err, back)
		}
	}
	for _, literal := range []string{"12345678901234567890123456789012345", "1e400", "-1e400", "1e-400", `[{"a":1E999}]`} {
		var doc athleteDoc
		if err := json.Unmarshal([]byte(`{"sport":"chess","x":`+literal+`}`), &doc); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "1") {
			t.Errorf("%s: %v, %v", literal, doc.V, err)
		}
	}
}

type strictSet struct{}

func (strictSet) Kinds() *polymorphic.Kinds[athlete] { return strict }

var strict = polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling")}, &polymorphic.Options[athlete]{KindField: "sport"}))

type clash struct {
	Kind string `bson:"other" json:"kind"`
}

type clashing struct{}

func (clashing) Kinds() *polymorphic.Kinds[any] { return clashes }

var clashes = polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[clash]("clash")}, &polymorphic.Options[any]{}))
