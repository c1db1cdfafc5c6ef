package config_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

type opts struct {
	Array, Count, Note string
	N                  int
}

func (o *opts) apply() error {
	return config.Apply(
		config.Path("Options.Array", &o.Array, "items"),
		config.Name("Options.Count", &o.Count, "count"),
		config.Named("Options.Note", &o.Note, ""),
		config.Number("Options.N", &o.N, 10, 1, 1000),
		config.Check("Options.N", func() error {
			if o.N == 13 {
				return errors.New("unlucky")
			}
			return nil
		}))
}

func TestApply(t *testing.T) {
	var o opts
	if err := o.apply(); err != nil || o != (opts{"items", "count", "", 10}) {
		t.Fatalf("%+v, %v", o, err)
	}
	o = opts{"a.b", "c", "d.e", 1000}
	if err := o.apply(); err != nil || o != (opts{"a.b", "c", "d.e", 1000}) {
		t.Fatalf("%+v, %v", o, err)
	}
	for want, o := range map[string]opts{
		"Options.Array: ":           {Array: "$a"},
		"Options.Count: ":           {Count: "a.b"},
		"Options.Note: ":            {Note: "a.0"},
		"Options.N: -1 is not":      {N: -1},
		"Options.N: 1001 is not":    {N: 1001},
		"Options.N: unlucky":        {N: 13},
		`"a.b" collides with`:       {Array: "a", Note: "a.b"},
		`Options.Count: invalid fi`: {Array: "a", Count: "a"},
	} {
		if err := o.apply(); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestCollections(t *testing.T) {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context())
	other, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Disconnect(t.Context())
	a := client.Database("x").Collection("a")
	if err := config.Collections("items", a, "parents", client.Database("x").Collection("b")); err != nil {
		t.Error(err)
	}
	for want, b := range map[string]*mongo.Collection{
		"the collection is nil": nil, "is also items": client.Database("x").Collection("a"),
		"another database": client.Database("y").Collection("b"), "another client": other.Database("x").Collection("b"),
	} {
		err := config.Collections("items", a, "parents", b)
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "parents: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
