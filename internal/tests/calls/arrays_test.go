package calls_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A scalar is where a document has a value other than a document or an array: its collection, the document's place in the
// order of _id, and the path.
type scalar struct {
	coll string
	doc  int
	path string
}

// compared are the fields, by package, that a call compares with a value of the caller, or with a document of another
// collection. A tree takes an array for a parent that does not exist: its own tests tell that.
var compared = map[string][]string{
	"bucket": {"series", "start"}, "series": {"series", "start"}, "slots": {"series", "start"}, "computed": {"film"}, "extref": {"_id"},
	"outlier": {"parent"}, "prealloc": {"by"}, "subset": {"product"},
}

// scalars are those of all documents in compared fields, but for _id.
func scalars(t *testing.T, db *mongo.Database, fields []string) (out []scalar) {
	t.Helper()
	for _, name := range testkit.Collections(t, db) {
		for i, doc := range testkit.Stored[bson.D](t, db.Collection(name)) {
			var walk func(above string, doc bson.D)
			walk = func(above string, doc bson.D) {
				for _, e := range doc {
					switch v := e.Value.(type) {
					case nil, bson.A:
					case bson.D:
						walk(above+e.Key+".", v)
					default:
						if slices.Contains(fields, e.Key) {
							out = append(out, scalar{name, i, above + e.Key})
						}
					}
				}
			}
			walk("", slices.DeleteFunc(doc, func(e bson.E) bool { return e.Key == "_id" }))
		}
	}
	return out
}

// wrap puts the value into an array. It returns the document, and nil if an index refuses it.
func (s scalar) wrap(t *testing.T, db *mongo.Database) (typed bson.D, v any) {
	t.Helper()
	coll := db.Collection(s.coll)
	before := testkit.Stored[bson.D](t, coll)[s.doc]
	id := before[0].Value
	set := testkit.D("$set", testkit.D(s.path, bson.A{"$" + s.path}))
	if _, err := coll.UpdateOne(t.Context(), testkit.D("_id", testkit.D("$eq", id)), mongo.Pipeline{set}); err != nil {
		return nil, nil
	}
	v = before
	for name := range strings.SplitSeq(s.path, ".") {
		v = testkit.Get(v.(bson.D), name)
	}
	return testkit.One[bson.D](t, coll, id), v
}

// unwrapped is in, where a value in an array of its own is alone.
func unwrapped(in, v any) any {
	switch in := in.(type) {
	case bson.D:
		out := slices.Clone(in)
		for i, e := range in {
			out[i].Value = unwrapped(e.Value, v)
		}
		return out
	case bson.A:
		if len(in) == 1 && in[0] == v {
			return v
		}
		out := slices.Clone(in)
		for i, e := range in {
			out[i] = unwrapped(e, v)
		}
		return out
	}
	return in
}

// typedTexts are the documents of all collections that belong to the state of a call, where v in an array of its own is
// alone; nil leaves arrays as they are.
func typedTexts(t *testing.T, db *mongo.Database, c registry.Call, v any) (out []string) {
	t.Helper()
	for _, name := range testkit.Collections(t, db) {
		if slices.Contains(c.Aside, name) {
			continue
		}
		for _, doc := range testkit.Stored[bson.D](t, db.Collection(name)) {
			if v != nil {
				doc = unwrapped(doc, v).(bson.D)
			}
			out = append(out, textOf(c, name, doc))
		}
	}
	slices.Sort(out)
	return out
}

func textOf(c registry.Call, coll string, doc bson.D) string {
	testkit.SortFields(doc)
	return coll + " " + string(testkit.Must(bson.MarshalExtJSON(c.Masked(doc), true, false)))
}

// In a document that somebody typed by hand, an array in the place of a value is met by an equality with the value. A call
// takes it for the value, or leaves the document as it is, or is an error that has written nothing.
func TestArrayForAValue(t *testing.T) {
	rows := slices.DeleteFunc(third(registry.Writes()), func(r registry.Row) bool { return compared[r.Package()] == nil })
	inTurn(t, rows, 1, func(t *testing.T, dbs []*mongo.Database, r registry.Row) {
		db := dbs[0]
		start := func() registry.Call {
			testkit.Empty(t, db)
			return r.Start(&registry.Scene{T: t, DB: db})
		}
		c := start()
		for _, s := range scalars(t, db, compared[r.Package()]) {
			if slices.Contains(c.Aside, s.coll) {
				continue
			}
			c := start()
			typed, v := s.wrap(t, db)
			if typed == nil {
				continue
			}
			before := typedTexts(t, db, c, nil)
			_, err := c.Do(t.Context())
			now, alone := typedTexts(t, db, c, nil), typedTexts(t, db, c, v)
			if slices.Equal(now, before) || slices.Contains(now, textOf(c, s.coll, typed)) && (err == nil || c.One == nil) {
				continue
			}
			c = start()
			_, failed := c.Do(t.Context())
			testkit.OK(t, failed)
			if after := typedTexts(t, db, c, v); !slices.Equal(alone, after) {
				t.Errorf("%s %d: %s: %v\n%s", s.coll, s.doc, s.path, err, cmp.Diff(after, alone))
			}
		}
	})
}
