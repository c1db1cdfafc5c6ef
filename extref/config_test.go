package extref_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestConfiguration(t *testing.T) {
	t.Parallel()
	db, other := testkit.Offline(t), testkit.Offline(t)
	source, coll := db.Collection("source"), db.Collection("c")
	fields := []extref.Field{{Path: "name"}}
	target := func(change func(*extref.Target)) []extref.Target {
		out := extref.Target{Collection: coll, Path: "ref", Fields: []extref.Field{{Path: "name"}}}
		change(&out)
		return []extref.Target{out}
	}
	field := func(f extref.Field) []extref.Target {
		return target(func(t *extref.Target) { t.Fields = []extref.Field{{Path: "name"}, f} })
	}
	plain := target(func(*extref.Target) {})
	for want, try := range map[string]struct {
		targets []extref.Target
		opts    *extref.Options
	}{
		"targets: none":                                                   {},
		"Options.VersionField: invalid":                                   {plain, &extref.Options{VersionField: "a.b"}},
		"Options.VersionField: invalid field n":                           {plain, &extref.Options{VersionField: "_id"}},
		"Options.Deferred: not together":                                  {plain, &extref.Options{Outbox: db.Collection("o"), Deferred: true}},
		"Options.Outbox: the collection":                                  {plain, &extref.Options{Outbox: source}},
		"targets[0].Collection: the coll":                                 {plain, &extref.Options{Outbox: db.Collection("c")}},
		"Options.Lease: 999999 is not between":                            {plain, &extref.Options{Lease: time.Millisecond - 1}},
		"Options.Lease: -1 is not between":                                {plain, &extref.Options{Lease: -1}},
		"Options.Outbox: the collection is in another database":           {plain, &extref.Options{Outbox: other.Collection("o")}},
		"targets[0].Collection: the collection is in another database":    {target(func(t *extref.Target) { t.Collection = other.Collection("c") }), nil},
		"targets[0].Collection: the collection is nil":                    {[]extref.Target{{}}, nil},
		"targets[0].Path: invalid":                                        {target(func(t *extref.Target) { t.Path = "$a" }), nil},
		`targets[0].Path: invalid field name: "0"`:                        {target(func(t *extref.Target) { t.Path = "a.0" }), nil},
		"targets[0].Path: it is empty":                                    {target(func(t *extref.Target) { t.Path, t.Array = "", true }), nil},
		"targets[0].Path: _id cannot":                                     {target(func(t *extref.Target) { t.Path = "_id.x" }), nil},
		`_id: invalid field name: "_id" collides with targets[0].IDField`: {target(func(t *extref.Target) { t.Path, t.IDField = "", "_id" }), nil},
		"targets[0].IDField: it must be set":                              {target(func(t *extref.Target) { t.Path = "" }), nil},
		"targets[0].IDField: invalid":                                     {target(func(t *extref.Target) { t.IDField = "a..b" }), nil},
		"targets[0].VersionField: it must be empty":                       {target(func(t *extref.Target) { t.VersionField, t.Unversioned = "v", true }), nil},
		"targets[0].VersionField: invalid":                                {target(func(t *extref.Target) { t.VersionField = "a\x00" }), nil},
		"targets[0].OnDelete: DeletePolicy(9) cannot":                     {target(func(t *extref.Target) { t.OnDelete = 9 }), nil},
		"targets[0].OnDelete: Cascade cannot be used for an array":        {target(func(t *extref.Target) { t.Array, t.OnDelete = true, mongopatterns.Cascade }), nil},
		"targets[0].Fields: the list is empty":                            {target(func(t *extref.Target) { t.Fields = nil }), nil},
		"targets[0].Fields[1].Path: a field of the source: invalid":       {field(extref.Field{}), nil},
		`targets[0].Fields[1].Path: "name" is given twice`:                {field(extref.Field{Path: "name", As: "n"}), nil},
		`targets[0].Fields[1].Path: "version.x" cannot`:                   {field(extref.Field{Path: "version.x"}), nil},
		`targets[0].Fields[1].Path: "_id" cannot`:                         {field(extref.Field{Path: "_id", As: "x"}), nil},
		"targets[0].Fields[1].As: invalid":                                {field(extref.Field{Path: "x", As: "a.0"}), nil},
		`targets[0].Fields[1].As: invalid field name: "name" coll`:        {field(extref.Field{Path: "x.name"}), nil},
		`targets[1].Name: "c.ref" is given twice`:                         {append(plain, plain...), nil},
		"targets[1].IDField: invalid field name: \"ref._id\" collides with targets[0].IDField": {
			append(plain, target(func(t *extref.Target) { t.Name = "x" })...), nil},
		`targets[0].VersionField: invalid field name: "version" collides with Options.VersionField "version"`: {
			target(func(t *extref.Target) {
				t.Collection, t.Path, t.IDField, t.Fields[0].As = source, "", "boss", "boss_name"
			}), nil},
		`targets[0].Fields[0].As: invalid field name: "name" collides with targets[0].Fields[0].Path "name"`: {
			target(func(t *extref.Target) { t.Collection, t.Path, t.IDField, t.VersionField = source, "", "boss", "v" }), nil},
		`targets[0].IDField: invalid field name: "boss._id" collides with targets[0].Fields[0].Path "boss"`: {
			target(func(t *extref.Target) {
				t.Collection, t.Path, t.Fields = source, "boss", []extref.Field{{Path: "boss"}}
			}), nil},
		`targets[1].IDField: invalid field name: "ref.x._id" collides with targets[0].Path "ref"`: {
			append(target(func(t *extref.Target) { t.Array = true }), target(func(t *extref.Target) { t.Path = "ref.x" })...), nil},
		`targets[1].Path: invalid field name: "ref" collides with targets[0].IDField "ref.x._id"`: {
			append(target(func(t *extref.Target) { t.Path = "ref.x" }), target(func(t *extref.Target) { t.Array = true })...), nil},
		`targets[1].Path: invalid field name: "ref.x" collides with targets[0].Path "ref"`: {
			append(target(func(t *extref.Target) { t.Array = true }), target(func(t *extref.Target) { t.Path, t.Array = "ref.x", true })...), nil},
		`targets[1].IDField: invalid field name: "ref.to" collides with targets[0].Path "ref"`: {
			append(target(func(t *extref.Target) { t.Array = true }), target(func(t *extref.Target) {
				t.Name, t.IDField, t.VersionField, t.Fields[0].As = "x", "to", "v", "n"
			})...), nil},
		`targets[0].Path: invalid field name: "ref" collides with targets[0].Fields[0].Path "ref.name"`: {
			target(func(t *extref.Target) {
				t.Collection, t.Array, t.Fields = source, true, []extref.Field{{Path: "ref.name"}}
			}), nil},
		`_id: invalid field name: "_id" collides`: {target(func(t *extref.Target) { t.Path, t.IDField, t.Fields = "", "x", []extref.Field{{Path: "a", As: "_id"}} }), nil},
	} {
		_, err := extref.New[int, bson.D](source, try.targets, try.opts)
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "extref: new: invalid: "+want) {
			t.Errorf("want %q, have %v", want, err)
		}
	}
	if _, err := extref.New[int, bson.D](nil, plain, nil); err == nil || err.Error() != "extref: new: invalid: source: the collection is nil" {
		t.Error(err)
	}
	// Two references in one array, and collections that differ.
	two := []extref.Target{
		{Collection: coll, Path: "items", Array: true, IDField: "product._id", VersionField: "product.version", Fields: []extref.Field{{Path: "name", As: "product.name"}}, Name: "product"},
		{Collection: coll, Path: "items", Array: true, IDField: "gift._id", VersionField: "gift.version", Fields: []extref.Field{{Path: "name", As: "gift.name"}}, Name: "gift"},
		{Collection: db.Collection("other"), Path: "items", Array: true, Fields: fields},
	}
	if _, err := extref.New[int, bson.D](source, two, nil); err != nil {
		t.Error(err)
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	db := testkit.Offline(t)
	r, err := extref.New[any, any](db.Collection("source"), []extref.Target{{
		Collection: db.Collection("c"), Path: "ref", Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]struct {
		err  error
		want error
		text string
	}{
		"no target":        {second(r.Copy("x", d("_id", 1))), mongopatterns.ErrInvalid, `extref: copy: invalid: target: there is no target "x"`},
		"filter":           {second(r.Filter("x", 1)), mongopatterns.ErrInvalid, "extref: filter: "},
		"fetch":            {second(r.Fetch(ctx, "x", 1)), mongopatterns.ErrInvalid, "extref: fetch: "},
		"pin":              {second(r.Pin(ctx, "x", 1)), mongopatterns.ErrInvalid, "extref: pin: "},
		"for":              {second(extref.As[bson.D](r, "x")), mongopatterns.ErrInvalid, "extref: as: "},
		"adopt":            {second(r.Adopt(ctx, "x", nil)), mongopatterns.ErrInvalid, "extref: adopt: "},
		"no ID":            {second(r.Copy("c.ref", d("name", 1))), mongopatterns.ErrInvalid, "extref: copy: _id missing: invalid: "},
		"no document":      {second(r.Copy("c.ref", 1)), mongopatterns.ErrInvalid, "extref: copy: invalid: "},
		"version a text":   {second(r.Copy("c.ref", d("_id", 1, "version", "1"))), mongopatterns.ErrInvalid, "extref: copy: _id 1: "},
		"version a half":   {second(r.Copy("c.ref", d("_id", 1, "version", 1.5))), mongopatterns.ErrInvalid, "extref: copy: _id 1: "},
		"version -3":       {second(r.Copy("c.ref", d("_id", 1, "version", -3))), mongopatterns.ErrInvalid, `extref: copy: _id 1: invalid: "version" is -3 and must be a whole number from 0 to 9223372036854775806`},
		"version too high": {second(r.Copy("c.ref", d("_id", 1, "version", int64(math.MaxInt64)))), mongopatterns.ErrInvalid, "extref: copy: _id 1: "},
		"nil ID":           {second(r.Update(ctx, nil, set("a", 1))), mongopatterns.ErrInvalid, "extref: update: "},
		"pattern":          {second(r.Delete(ctx, bson.Regex{Pattern: "."})), mongopatterns.ErrInvalid, "extref: delete: "},
		"unencodable":      {second(r.Propagate(ctx, make(chan int), nil)), mongopatterns.ErrInvalid, "extref: propagate: invalid: "},
		"nil update":       {second(r.Update(ctx, 1, nil)), mongopatterns.ErrInvalid, "extref: update: invalid: update: the update is nil"},
		"batch size":       {second(r.Propagate(ctx, 1, &mongopatterns.Work{BatchSize: -1})), mongopatterns.ErrInvalid, "extref: propagate: invalid: Work.BatchSize"},
		"repair":           {second(r.Repair(ctx, &mongopatterns.Work{BatchSize: -1})), mongopatterns.ErrInvalid, "extref: repair: invalid: Work.BatchSize"},
		"adopt batch size": {second(r.Adopt(ctx, "c.ref", &mongopatterns.Work{BatchSize: -1})), mongopatterns.ErrInvalid, "extref: adopt: invalid: Work.BatchSize"},
		"no outbox":        {second(r.Drain(ctx, nil)), mongopatterns.ErrInvalid, "extref: drain: invalid: Options.Outbox: it must be set"},
		"drain":            {second(r.Drain(ctx, &mongopatterns.Work{BatchSize: -1})), mongopatterns.ErrInvalid, "extref: drain: invalid: Work.BatchSize"},
		"no tokens":        {r.Watch(ctx, nil, nil), mongopatterns.ErrInvalid, "extref: watch: invalid: tokens: the collection is nil"},
		"other tokens":     {r.Watch(ctx, mongotest.Database(t).Collection("t"), nil), mongopatterns.ErrInvalid, "extref: watch: invalid: tokens: the collection is of another client"},
		"used tokens":      {r.Watch(ctx, db.Collection("c"), nil), mongopatterns.ErrInvalid, "extref: watch: invalid: tokens: the collection has other documents"},
		"await":            {r.Watch(ctx, db.Collection("t"), &extref.WatchOptions{MaxAwait: -1}), mongopatterns.ErrInvalid, "extref: watch: invalid: WatchOptions.MaxAwait: it must not be negative"},
	} {
		if call.err == nil || !strings.HasPrefix(call.err.Error(), call.text) || call.want != nil && !errors.Is(call.err, call.want) {
			t.Errorf("%s: %v", name, call.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A struct that has no place for the version makes no copies with one.
func TestStructWithoutVersion(t *testing.T) {
	t.Parallel()
	db := testkit.Offline(t)
	targets := func() []extref.Target {
		return []extref.Target{
			{Collection: db.Collection("c"), Path: "ref", Fields: []extref.Field{{Path: "name"}}},
			{Collection: db.Collection("c"), Path: "plain", Unversioned: true, Fields: []extref.Field{{Path: "name"}}},
		}
	}
	lacking := func(err error) bool {
		return errors.Is(err, mongopatterns.ErrInvalid) && strings.HasSuffix(err.Error(), ` has no field "version"`)
	}
	type without struct {
		ID   int `bson:"_id"`
		Name string
	}
	type inner struct {
		Version int64
		Name    string
	}
	for name, try := range map[string]struct {
		err     func() error
		refused bool
	}{
		"without": {func() error { return reference(t, db, targets(), nil, without{ID: 1}) }, true},
		"pointer": {func() error { return reference(t, db, targets(), nil, &without{ID: 1}) }, true},
		"registry": {func() error {
			return reference(t, db, targets(), &extref.Options{Registry: bson.NewRegistry()}, without{ID: 1})
		}, true},
		"JSON tags": {func() error {
			return reference(t, db, targets(), &extref.Options{BSON: &options.BSONOptions{UseJSONStructTags: true}}, struct {
				ID   int    `json:"_id"`
				Name string `json:"name"`
				V    int64  `json:"version"`
			}{ID: 1})
		}, false},
		"D":         {func() error { return reference(t, db, targets(), nil, d("_id", 1)) }, false},
		"M":         {func() error { return reference(t, db, targets(), nil, bson.M{"_id": 1}) }, false},
		"marshaler": {func() error { return reference(t, db, targets(), nil, ownEncoding{}) }, false},
		"omitempty": {func() error {
			return reference(t, db, targets(), nil, struct {
				ID   int `bson:"_id"`
				Name string
				V    *int32 `bson:"version,omitempty"`
			}{ID: 1})
		}, false},
		"inline": {func() error {
			return reference(t, db, targets(), nil, struct {
				ID    int `bson:"_id"`
				inner `bson:",inline"`
			}{ID: 1})
		}, true}, // not exported: the driver leaves it out
		"inline map": {func() error {
			return reference(t, db, targets(), nil, struct {
				ID   int            `bson:"_id"`
				Rest map[string]any `bson:",inline"`
			}{ID: 1})
		}, false},
		"inline struct": {func() error {
			return reference(t, db, targets(), nil, struct {
				ID    int   `bson:"_id"`
				Inner inner `bson:",inline"`
			}{ID: 1})
		}, false},
	} {
		err := try.err()
		if try.refused != lacking(err) || !try.refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := extref.New[int, without](db.Collection("source"), targets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Copy("c.plain", without{ID: 1}); err != nil {
		t.Error(err)
	}
}

func reference[S any](t *testing.T, db *mongo.Database, targets []extref.Target, o *extref.Options, src S) error {
	t.Helper()
	r, err := extref.New[int, S](db.Collection("source"), targets, o)
	if err != nil {
		t.Fatal(err)
	}
	return second(r.Copy("c.ref", src))
}

type ownEncoding struct{}

func (ownEncoding) MarshalBSON() ([]byte, error) { return bson.Marshal(d("_id", 1, "version", 3)) }
