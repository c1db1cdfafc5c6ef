package sweep

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// state is all documents of a database, by collection, as sorted texts with sorted fields: an upsert stores those of
// its filter in the server's order. What differs between two runs of one call is left out: the time, ObjectIDs and
// UUIDs. Collections without documents are as if they were not there.
type state map[string][]document

type document struct{ id, text string }

// read returns the state that will stay: reads with majority see nothing that could be rolled back.
func read(t *testing.T, db *mongo.Database, c call) state {
	t.Helper()
	out := state{}
	for _, name := range testkit.Collections(t, db) {
		if slices.Contains(c.Aside, name) {
			continue
		}
		cursor, err := db.Collection(name, options.Collection().SetReadConcern(readconcern.Majority())).Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var docs []bson.D
		if err := cursor.All(t.Context(), &docs); err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			out[name] = append(out[name], c.document(doc))
		}
		slices.SortFunc(out[name], func(a, b document) int { return strings.Compare(a.id+a.text, b.id+b.text) })
	}
	return out
}

func (c call) document(doc bson.D) document {
	doc = slices.Clone(doc)
	testkit.SortFields(doc)
	d := document{text: text(c.Masked(doc))}
	for _, e := range doc {
		if e.Key == "_id" {
			d.id = text(bson.D{{Key: "_id", Value: c.Masked(e.Value)}})
		}
	}
	return d
}

func text(doc any) string {
	out, err := bson.MarshalExtJSON(doc, true, false)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func (s state) equal(other state) bool { return maps.EqualFunc(s, other, slices.Equal) }

// mapped is the state with other texts of its documents.
func (s state) mapped(text func(string) string) state {
	out := state{}
	for name, docs := range s {
		for _, d := range docs {
			out[name] = append(out[name], document{d.id, text(d.text)})
		}
	}
	return out
}

// diff says what another state has and lacks.
func (s state) diff(other state) string {
	lines := func(s state) (out []string) {
		for _, name := range slices.Sorted(maps.Keys(s)) {
			for _, d := range s[name] {
				out = append(out, name+" "+d.text)
			}
		}
		return out
	}
	return cmp.Diff(lines(s), lines(other))
}

// between returns the documents that are as neither in before nor in after, and those that are missing though
// both have them.
func (s state) between(before, after state, c call) (out []string) {
	for name, docs := range s {
		var passing []document
		for _, d := range c.Passing[name] {
			passing = append(passing, c.document(d))
		}
		for _, d := range docs {
			if !slices.Contains(before[name], d) && !slices.Contains(after[name], d) && !slices.Contains(passing, d) {
				out = append(out, name+" "+d.text)
			}
		}
	}
	for name, docs := range before {
		for _, d := range docs {
			same := func(other document) bool { return other.id == d.id }
			if slices.ContainsFunc(after[name], same) && !slices.ContainsFunc(s[name], same) {
				out = append(out, fmt.Sprintf("%s has no %s", name, d.id))
			}
		}
	}
	for name, docs := range s { // of those with generated IDs as many as there are
		for _, d := range docs {
			if n := times(docs, d); n > max(1, times(before[name], d), times(after[name], d)) {
				out = append(out, fmt.Sprintf("%s has %d times %s", name, n, d.text))
			}
		}
	}
	return out
}

func times(docs []document, d document) (n int) {
	for _, other := range docs {
		if other == d {
			n++
		}
	}
	return n
}

// changed counts the documents of a collection that are as in after and not as in before, and the documents of
// before that after does not have and that were deleted.
func (s state) changed(before, after state, name string) (n int64) {
	for _, d := range s[name] {
		if slices.Contains(after[name], d) && !slices.Contains(before[name], d) {
			n++
		}
	}
	counted := map[document]bool{}
	for _, d := range before[name] {
		same := func(other document) bool { return other.id == d.id }
		if gone := times(before[name], d) - times(s[name], d); !counted[d] && !slices.Contains(after[name], d) && (d.id == generated || !slices.ContainsFunc(s[name], same)) {
			counted[d] = true
			n += int64(gone)
		}
	}
	return n
}

// generated is the ID of documents that have an ObjectID.
const generated = `{"_id":"an ObjectID"}`
