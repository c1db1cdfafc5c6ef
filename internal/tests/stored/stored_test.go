package stored_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var update = flag.Bool("update", false, "write the files of the newest version in testdata")

// A scenario is what a program stores with one helper. Its file holds all documents of the database after write,
// and use must work on the file of every version.
type scenario struct {
	name string
	// Some stored values hold the name of the database: paging's tokens and the ledger of an Adopt. Such a
	// scenario has a database with a name that is the same in every run.
	named bool
	// What is written waits for a worker, and Check finds it until then.
	waiting           bool
	write, use, check func(t *testing.T, db *mongo.Database)
}

// stored makes a scenario of a helper H. write stores documents in a new database. use reads what is stored,
// compares it with literals, writes something more and reads again.
func stored[H any](
	name string, open func(db *mongo.Database) (H, error), write, use func(t *testing.T, db *mongo.Database, h H),
) scenario {
	opened := func(call func(t *testing.T, db *mongo.Database, h H)) func(t *testing.T, db *mongo.Database) {
		return func(t *testing.T, db *mongo.Database) {
			h := testkit.Value[H](t)(open(db))
			if i, ok := any(h).(interface{ EnsureIndexes(context.Context) error }); ok {
				testkit.OK(t, i.EnsureIndexes(t.Context()))
			}
			call(t, db, h)
		}
	}
	check := func(t *testing.T, _ *mongo.Database, h H) {
		if c, ok := any(h).(mongopatterns.Checker); ok {
			testkit.Healthy(t, c)
		}
	}
	return scenario{name: name, write: opened(write), use: opened(use), check: opened(check)}
}

// byName is s with a database whose name is the same in every run.
func byName(s scenario) scenario {
	s.named = true
	return s
}

// What a version of the library has stored stays readable by later ones. testdata has a folder for each
// version that stores something in another shape than the one before, with a file for each scenario.
//
// go test -run TestStored -update . writes the files of the newest folder. Files of a tagged version are never
// written again: a change of a stored shape adds a folder, with the name of the version to come.
func TestStored(t *testing.T) {
	versions := storedVersions(t)
	newest := versions[len(versions)-1]
	byFile := map[string]scenario{}
	for _, s := range storedScenarios() {
		if _, twice := byFile[s.name]; twice {
			t.Fatalf("two scenarios %s", s.name)
		}
		byFile[s.name] = s
	}
	t.Run("written", func(t *testing.T) {
		for _, s := range byFile {
			file := storedFile(newest, s.name)
			want, err := os.ReadFile(file)
			if err != nil && !*update {
				t.Errorf("%v: write it with -update, or add a folder if %s is tagged", err, newest)
			}
			t.Run(s.name, func(t *testing.T) {
				s.parallel(t)
				db := s.database(t)
				s.write(t, db)
				got := content(t, db)
				if *update {
					testkit.OK(t, os.WriteFile(file, encodeStored(t, got), 0o644))
				} else if err == nil {
					// Otherwise a new shape would have no file that says how it was.
					testkit.Same(t, "stored by this version, and in "+file, fixed(sorted(decodeStored(t, want))), fixed(sorted(got)))
				}
			})
		}
	})
	t.Run("read", func(t *testing.T) {
		for _, version := range versions {
			files := testkit.Must(filepath.Glob(storedFile(version, "*")))
			if len(files) == 0 {
				t.Errorf("%s has no files", version)
			}
			for _, file := range files {
				s, ok := byFile[strings.TrimSuffix(filepath.Base(file), ".json")]
				if !ok {
					t.Errorf("%s has no scenario", file)
					continue
				}
				t.Run(version+"/"+s.name, func(t *testing.T) {
					s.parallel(t)
					db := s.database(t)
					for _, c := range decodeStored(t, testkit.Value[[]byte](t)(os.ReadFile(file))) {
						testkit.InsertAll(t, db.Collection(c.Key), c.Value.(bson.A))
					}
					if !s.waiting {
						s.check(t, db)
					}
					s.use(t, db)
					s.check(t, db)
				})
			}
		}
	})
}

// storedVersions returns the folders of testdata, the newest last.
func storedVersions(t *testing.T) (versions []string) {
	t.Helper()
	numbers := func(name string) (n [3]int) {
		if _, err := fmt.Sscanf(name, "v%d.%d.%d", &n[0], &n[1], &n[2]); err != nil {
			t.Fatalf("testdata/%s is not a version: %v", name, err)
		}
		return n
	}
	for _, entry := range testkit.Value[[]os.DirEntry](t)(os.ReadDir("testdata")) {
		versions = append(versions, entry.Name())
	}
	if len(versions) == 0 {
		t.Fatal("testdata is empty")
	}
	slices.SortFunc(versions, func(a, b string) int {
		x, y := numbers(a), numbers(b)
		return slices.Compare(x[:], y[:])
	})
	return versions
}

func storedFile(version, name string) string {
	return filepath.Join("testdata", version, name+".json")
}

// parallel lets tests with a database of their own run in parallel.
func (s scenario) parallel(t *testing.T) {
	if !s.named {
		t.Parallel()
	}
}

// database returns an empty database.
func (s scenario) database(t *testing.T) *mongo.Database {
	if !s.named {
		return mongotest.Database(t)
	}
	db := mongotest.Database(t).Client().Database("mongotest_stored_" + s.name)
	admin := mongotest.Admin(t, db)
	testkit.OK(t, admin.Drop(t.Context())) // what a killed run has left
	t.Cleanup(func() {
		if err := admin.Drop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return db
}

// content returns the documents of each collection that has some, in the order of names and _ids.
func content(t *testing.T, db *mongo.Database) (all bson.D) {
	t.Helper()
	names := testkit.Value[[]string](t)(db.ListCollectionNames(t.Context(), bson.D{}))
	slices.Sort(names)
	for _, name := range names {
		docs := bson.A{}
		for _, doc := range testkit.Stored[bson.D](t, db.Collection(name)) {
			docs = append(docs, doc)
		}
		if len(docs) > 0 {
			all = append(all, bson.E{Key: name, Value: docs})
		}
	}
	return all
}

// encodeStored returns the content of a file: canonical extended JSON, with a line for each field of a document.
func encodeStored(t *testing.T, all bson.D) []byte {
	t.Helper()
	var out bytes.Buffer
	list := func(open, end string, n int, item func(i int)) {
		out.WriteString(open)
		for i := range n {
			if i > 0 {
				out.WriteString(",")
			}
			out.WriteString("\n")
			item(i)
		}
		out.WriteString("\n" + end)
	}
	list("{", "}\n", len(all), func(i int) {
		docs := all[i].Value.(bson.A)
		fmt.Fprintf(&out, "%q: ", all[i].Key)
		list("[", "]", len(docs), func(j int) {
			doc := docs[j].(bson.D)
			list("  {", "  }", len(doc), func(k int) {
				field := testkit.Value[[]byte](t)(bson.MarshalExtJSON(doc[k:k+1], true, false))
				out.WriteString("    " + string(field[1:len(field)-1]))
			})
		})
	})
	return out.Bytes()
}

func decodeStored(t *testing.T, text []byte) (all bson.D) {
	t.Helper()
	testkit.OK(t, bson.UnmarshalExtJSON(text, true, &all))
	return all
}

// sorted sorts the fields of the documents: in which order an upsert stores those of its filter is the server's.
func sorted(all bson.D) bson.D {
	for _, c := range all {
		for _, doc := range c.Value.(bson.A) {
			testkit.SortFields(doc.(bson.D))
		}
	}
	return all
}

// fixed returns v without what is different in each run or on each server: times, new ObjectIDs, the random mark of
// series, tokens of a change stream, names of databases and the server's text of an error.
func fixed(v any) any {
	switch v := v.(type) {
	case bson.DateTime:
		return "a date"
	case bson.ObjectID:
		return "an ObjectID"
	case bson.A:
		out := bson.A{}
		for _, item := range v {
			out = append(out, fixed(item))
		}
		return out
	case bson.D:
		out := bson.D{}
		for _, e := range v {
			if e.Key == "mark" || e.Key == "error" || e.Key == "token" {
				e.Value = fmt.Sprintf("a %T", e.Value)
			}
			out = append(out, bson.E{Key: e.Key, Value: fixed(e.Value)})
		}
		return out
	case string:
		if strings.HasPrefix(v, "mongotest_") {
			return "a database"
		}
	}
	return v
}
