package calls_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// inTurn runs a test of each row, those of a package one after the other in n databases, which are emptied before each: to
// make collections and indexes anew takes longer than the calls. The representations of a tree have other indexes each.
func inTurn(t *testing.T, rows []registry.Row, n int, test func(t *testing.T, dbs []*mongo.Database, r registry.Row), opts ...*options.ClientOptions) {
	t.Helper()
	together := map[string][]registry.Row{}
	for _, r := range rows {
		name := r.Package()
		if _, rep, _ := strings.Cut(r.Name, "/"); name == "tree" {
			rep, _, _ = strings.Cut(rep, ",")
			name += " " + rep
		}
		together[name] = append(together[name], r)
	}
	for name, rows := range together {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dbs []*mongo.Database
			for range n {
				dbs = append(dbs, mongotest.Database(t, opts...))
			}
			for _, r := range rows {
				for _, db := range dbs {
					testkit.Empty(t, db)
				}
				t.Run(strings.ReplaceAll(r.Name, "/", ": "), func(t *testing.T) { test(t, dbs, r) })
			}
		})
	}
}

// third returns a third of the rows in a small run, and all of them otherwise.
func third(rows []registry.Row) []registry.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r registry.Row) bool { return !scale.Third(r.Name) })
}

// eachMethod returns the first row of each method and a sixth of the others in a small run, and all of them otherwise.
func eachMethod(rows []registry.Row) (out []registry.Row) {
	met := map[string]bool{}
	for i, r := range rows {
		if !met[r.Method()] || scale.Turn(i, 6) {
			out = append(out, r)
		}
		met[r.Method()] = true
	}
	return out
}

// A stored is a value of a document: its collection, the document's place in the order of _id, its _id, and the path.
type stored struct {
	coll  string
	doc   int
	id    any
	path  string
	value any
}

// values are those of all documents that belong to the state of a call, but for _id, at every depth.
func values(t *testing.T, db *mongo.Database, c registry.Call) (out []stored) {
	t.Helper()
	for _, name := range testkit.Collections(t, db) {
		if slices.Contains(c.Aside, name) {
			continue
		}
		for i, doc := range testkit.Stored[bson.D](t, db.Collection(name)) {
			var walk func(path string, v any)
			walk = func(path string, v any) {
				if path != "" {
					out = append(out, stored{name, i, doc[0].Value, path[1:], v})
				}
				switch v := v.(type) {
				case bson.D:
					for _, e := range v {
						if path != "" || e.Key != "_id" {
							walk(path+"."+e.Key, e.Value)
						}
					}
				case bson.A:
					for i, item := range v {
						walk(fmt.Sprintf("%s.%d", path, i), item)
					}
				}
			}
			walk("", doc)
		}
	}
	return out
}

// put stores another value in the place. It reports whether no index refuses that.
func (s stored) put(t *testing.T, db *mongo.Database, v any) bool {
	t.Helper()
	_, err := db.Collection(s.coll).UpdateOne(t.Context(), testkit.D("_id", testkit.D("$eq", s.id)), testkit.D("$set", testkit.D(s.path, v)))
	return err == nil
}

// odd are values of other types than the library and the types of the calls expect: a scalar and a document, in a small run
// one of them.
func (s stored) odd() []any {
	text := any("odd")
	if _, ok := s.value.(string); ok {
		text = 7
	}
	all := []any{text, testkit.D("odd", true)}
	one := (uint64(s.doc+len(s.path)) + scale.Seed()) % 2
	return scale.Of(all[one:one+1], all, all)
}

// general reports whether an error, if there is one, says which of the general errors it is.
func general(err error) bool {
	return err == nil || slices.ContainsFunc([]error{
		mongopatterns.ErrMalformed, mongopatterns.ErrNotFound, mongopatterns.ErrConflict,
	}, func(known error) bool { return errors.Is(err, known) })
}

// A stored value of another type than a read expects is returned, passed over, or named by ErrMalformed: no error is that
// of the server or the driver alone, with which a caller can do nothing. extref says ErrInvalid of a source that it cannot
// copy, as of one that an Update would make.
func TestOddValueRead(t *testing.T) {
	inTurn(t, eachMethod(registry.Reads()), 1, func(t *testing.T, dbs []*mongo.Database, r registry.Row) {
		db := dbs[0]
		c := r.Start(&registry.Scene{T: t, DB: db})
		for _, s := range values(t, db, c) {
			if !scale.Third(fmt.Sprint(r.Name, s.coll, s.doc, s.path)) {
				continue
			}
			for _, v := range s.odd() {
				if !s.put(t, db, v) {
					continue
				}
				_, err := c.Do(t.Context())
				if source := r.Package() == "extref" && errors.Is(err, mongopatterns.ErrInvalid); !general(err) && !source {
					t.Errorf("%s %d: %s is %v: %v", s.coll, s.doc, s.path, v, err)
				}
			}
			s.put(t, db, s.value)
		}
	})
}

// A value in the place of an array is ErrMalformed for a call that writes, if it minds, and stays.
func TestValueForAnArray(t *testing.T) {
	inTurn(t, eachMethod(registry.Writes()), 1, func(t *testing.T, dbs []*mongo.Database, r registry.Row) {
		db := dbs[0]
		start := func() registry.Call {
			testkit.Empty(t, db)
			return r.Start(&registry.Scene{T: t, DB: db})
		}
		for _, s := range values(t, db, start()) {
			if _, ok := s.value.(bson.A); !ok || !scale.Third(fmt.Sprint(r.Name, s.coll, s.doc, s.path)) {
				continue
			}
			for _, v := range s.odd() {
				c := start()
				s.id = testkit.Stored[bson.D](t, db.Collection(s.coll))[s.doc][0].Value
				if !s.put(t, db, v) {
					continue
				}
				before := typedTexts(t, db, c, nil)
				_, err := c.Do(t.Context())
				if !general(err) {
					t.Errorf("%s %d: %s is %v: %v", s.coll, s.doc, s.path, v, err)
				}
				undone := mongopatterns.OutcomeOf(err) == mongopatterns.NotDone
				if now := typedTexts(t, db, c, nil); undone && c.One != nil && !slices.Equal(now, before) {
					t.Errorf("%s %d: %s is %v: %v, but written", s.coll, s.doc, s.path, v, err)
				}
			}
		}
	})
}
