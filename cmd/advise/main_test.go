package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// asCommand makes the test binary the command.
const asCommand = "ADVISE_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	mongotest.Main(m)
}

// books stores n books, one of them with 3,000 buyers, in a database of their own.
func books(t *testing.T, n int) *mongo.Database {
	t.Helper()
	db := mongotest.Database(t)
	var docs []any
	for i := range n {
		list := bson.A{"a"}
		if i == 50 {
			for range 3000 {
				list = append(list, "an element of some length")
			}
		}
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "buyers", Value: list}})
	}
	if _, err := db.Collection("books").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return db
}

// The exit code says whether something is advised that is new and not ignored.
func TestExitCodes(t *testing.T) {
	db := books(t, 200)
	advise := func(ctx context.Context, more ...string) (code int, out, notes string) {
		var o, n strings.Builder
		code = run(ctx, append([]string{"-uri", mongotest.URI(t), "-db", db.Name(), "-max-time", "1m", "-budget", "1h"}, more...), &o, &n)
		return code, o.String(), n.String()
	}
	code, out, notes := advise(t.Context())
	if code != exitAdvised || !strings.Contains(out, "1. books.buyers: outlier\n") || !strings.Contains(notes, "1 of 1: books\n") {
		t.Errorf("exit code %d, %s%s", code, out, notes)
	}
	code, found, _ := advise(t.Context(), "-json", "-quiet")
	if code != exitAdvised || strings.Count(found, "\n") != 1 || !strings.Contains(found, `"pattern":"outlier","collection":"books"`) {
		t.Errorf("-json: exit code %d, %s", code, found)
	}
	dir := t.TempDir()
	known, broken := filepath.Join(dir, "known.json"), filepath.Join(dir, "broken.json")
	if err := os.WriteFile(known, []byte(found), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		args []string
		code int
		text string
	}{
		{"what the baseline has", t.Context(), []string{"-baseline", known}, exitNothing, "1 left out"},
		{"what is ignored", t.Context(), []string{"-ignore", "split:*", "-ignore", "outlier:books.*"}, exitNothing, "1 left out"},
		{"another is ignored", t.Context(), []string{"-ignore", "outlier:films.*"}, exitAdvised, ""},
		{"interrupted", cancelled, nil, exitFailed, "context canceled"},
		{"a broken baseline", t.Context(), []string{"-baseline", broken}, exitFailed, "broken.json"},
		{"no baseline", t.Context(), []string{"-baseline", "none.json"}, exitFailed, "none.json"},
		{"no log", t.Context(), []string{"-log", "none.log"}, exitFailed, "none.log"},
		{"no such collection", t.Context(), []string{"-collection", "none"}, exitFailed, `"none"`},
		{"an argument", t.Context(), []string{"books"}, exitFailed, "-uri and -db are required"},
	} {
		code, _, notes := advise(test.ctx, test.args...)
		if code != test.code || !strings.Contains(notes, test.text) {
			t.Errorf("%s: exit code %d, want %d; %s", test.name, code, test.code, notes)
		}
	}
	// Queries count as findings do. A pasted name ignores what it names.
	log := filepath.Join(dir, "mongod.log")
	line := `{"id": 51803, "attr": {"type": "command", "ns": "` + db.Name() + `.books", "command": {"find": "books", "filter": {"a/[b": 1}, "sort": {"c": 1}, "skip": 40, "limit": 20}}}` + "\n"
	if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := []string{"-quiet", "-log", log, "-ignore", "outlier:*"}
	code, found, _ = advise(t.Context(), append(quiet, "-json")...)
	if want := `{"shape":"sort","patterns":[],"collection":"books","query":"find books {a/[b: ?} sort {c: 1} skip ? limit ?","seen":1,`; code != exitAdvised || !strings.Contains(found, want) {
		t.Errorf("queries: exit code %d, %s", code, found)
	}
	if err := os.WriteFile(known, []byte(found), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"-baseline", known}, exitNothing},
		{[]string{"-ignore", "sort:find books {a/[b: ?} sort {c: 1} skip ? limit ?"}, exitNothing},
		{[]string{"-ignore", "sort:*books*?"}, exitNothing},
		{[]string{"-ignore", "sort:find books"}, exitAdvised},
		{[]string{"-ignore", "sort:*books*limit"}, exitAdvised},
		{[]string{"-ignore", "skip:*"}, exitAdvised},
		{[]string{"-ignore", "sort:*"}, exitNothing}, // the pages of 200 books are no reason to fail,
	} {
		if code, _, notes := advise(t.Context(), append(slices.Clone(quiet), test.args...)...); code != test.code {
			t.Errorf("%v: exit code %d, want %d; %s", test.args, code, test.code, notes)
		}
	}
}

// What could not be told has an exit code of its own, and is in -json, -baseline and -ignore as findings are.
func TestUnknown(t *testing.T) {
	db := mongotest.Database(t)
	var docs []any
	for range 120 {
		docs = append(docs, bson.D{{Key: "text", Value: strings.Repeat("x", 2000)}})
	}
	if _, err := db.Collection("films").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	advise := func(more ...string) (code int, out string) {
		var o, n strings.Builder
		code = run(t.Context(), append([]string{"-uri", mongotest.URI(t), "-db", db.Name(), "-max-time", "1m", "-budget", "1h", "-quiet"}, more...), &o, &n)
		return code, o.String()
	}
	code, found := advise("-json")
	if want := `{"unknown":{"pattern":"split","collection":"films","reason":"a document takes 2.0 kB on average, but no read of it was seen",`; code != exitUnknown || !strings.HasPrefix(found, want) {
		t.Errorf("exit code %d, %s", code, found)
	}
	known := filepath.Join(t.TempDir(), "known.json")
	if err := os.WriteFile(known, []byte(found), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-baseline", known}, {"-ignore", "unknown:split:films"}, {"-ignore", "unknown:*"}} {
		if code, out := advise(args...); code != exitNothing || strings.Contains(out, "no read of it was seen") {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
}

// Indexes and what the data shows count as findings do.
func TestIndexesAndRemarks(t *testing.T) {
	db := mongotest.Database(t)
	var docs []any
	for range 120 {
		docs = append(docs, bson.D{{Key: "at", Value: "2026-01-01T00:00:00Z"}, {Key: "n", Value: 1}})
	}
	if _, err := db.Collection("visits").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("visits").Indexes().CreateMany(t.Context(), []mongo.IndexModel{{Keys: bson.D{{Key: "n", Value: 1}}}, {Keys: bson.D{{Key: "n", Value: 1}, {Key: "at", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	advise := func(more ...string) (code int, out string) {
		var o, n strings.Builder
		code = run(t.Context(), append([]string{"-uri", mongotest.URI(t), "-db", db.Name(), "-max-time", "1m", "-budget", "1h", "-quiet"}, more...), &o, &n)
		return code, o.String()
	}
	code, found := advise("-json")
	if code != exitAdvised || strings.Count(found, "\n") != 2 || !strings.Contains(found, `{"index":{"kind":"prefix","collection":"visits","keys":"{n: 1}",`) || !strings.Contains(found, `{"remark":{"kind":"dates","collection":"visits","path":"at",`) {
		t.Errorf("exit code %d, %s", code, found)
	}
	known := filepath.Join(t.TempDir(), "known.json")
	if err := os.WriteFile(known, []byte(found), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"-baseline", known}, exitNothing},
		{[]string{"-ignore", "data:dates:visits.at", "-ignore", "index:prefix:visits {n: 1}"}, exitNothing},
		{[]string{"-ignore", "data:*"}, exitAdvised},
		{[]string{"-ignore", "index:*"}, exitAdvised},
	} {
		if code, out := advise(test.args...); code != test.code {
			t.Errorf("%v: exit code %d, %s", test.args, code, out)
		}
	}
}

// Where nothing can be looked at there is an error, and no report that advises nothing.
func TestNoReport(t *testing.T) {
	db := books(t, 120)
	dir := t.TempDir()
	none, text, cut := filepath.Join(dir, "empty.log"), filepath.Join(dir, "text.log"), filepath.Join(dir, "cut.log")
	for name, content := range map[string]string{
		none: "", text: "2026-01-01 ERROR of another program\n",
		cut: "a line that is cut\n" + `{"t": {"$date": "2026-01-01T00:00:00Z"}, "s": "I", "c": "NETWORK", "id": 22943, "ctx": "listener", "msg": "Connection accepted"}` + "\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := options.Client().ApplyURI(mongotest.URI(t)).Hosts[0] + "/?directConnection=true"
	for _, test := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"an unknown database", []string{"-uri", mongotest.URI(t), "-db", "nobody_has_this"}, exitFailed, `there is no database "nobody_has_this"`},
		{"a failed login", []string{"-uri", "mongodb://ann:wrong@" + server, "-db", db.Name()}, exitFailed, "Authentication failed"},
		{"an empty log", []string{"-uri", mongotest.URI(t), "-db", db.Name(), "-log", none}, exitFailed, "no line is one of a mongod's log"},
		{"another log", []string{"-uri", mongotest.URI(t), "-db", db.Name(), "-log", text}, exitFailed, "no line is one of a mongod's log"},
		{"a log without queries", []string{"-uri", mongotest.URI(t), "-db", db.Name(), "-log", cut}, exitAdvised, ""},
	} {
		var out, notes strings.Builder
		code := run(t.Context(), append(test.args, "-max-time", "1m", "-budget", "1h"), &out, &notes)
		if code != test.code || (out.Len() > 0) != (code == exitAdvised) || !strings.Contains(notes.String(), test.text) {
			t.Errorf("%s: exit code %d, %s%s", test.name, code, &out, &notes)
		}
	}
}

// -try copies into a scratch database, prints promise and measurement, and leaves nothing.
func TestTry(t *testing.T) {
	db := books(t, 300)
	if err := db.CreateCollection(t.Context(), "logs", options.CreateCollection().SetCapped(true).SetSizeInBytes(1<<20)); err != nil {
		t.Fatal(err)
	}
	var lines []any
	for i := range 120 {
		lines = append(lines, bson.D{{Key: "_id", Value: i}})
	}
	for name, docs := range map[string][]any{"logs": lines, "few": lines[:3], "books_locks": lines[:3]} {
		if _, err := db.Collection(name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	uri := mongotest.URI(t)
	for _, test := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"-try", "outlier", "books.buyers", "-try-uri", uri}, exitNothing, "on a copy of 300 of 300 documents"},
		{[]string{"-try-uri", uri, "-try", "outlier:books.buyers", "-try-documents", "200"}, exitNothing, "on a copy of 200 of 300 documents"},
		{[]string{"-try", "outlier", "books.buyers", "-try-uri", uri, "-json"}, exitNothing, `"saved":`},
		{[]string{"-try", "outlier", "books.buyers", "-try-uri", uri, "-try-documents", "20"}, exitFailed, "copy more"},
		{[]string{"-try", "subset", "books.buyers", "-try-uri", uri}, exitFailed, "subset:books.buyers is not advised: half of the lists have up to 1 element"},
		{[]string{"-try", "tree", "books.parent", "-try-uri", uri}, exitFailed, "tree:books.parent is not advised: nothing else was seen than for outlier:books.buyers; 1 collection left out: fewer than 100 documents each"},
		{[]string{"-try", "outlier", "logs.lines", "-try-uri", uri}, exitFailed, "outlier:logs.lines is not advised: logs is capped"},
		{[]string{"-try", "outlier", "few.lines", "-try-uri", uri, "-collection", "few"}, exitFailed, "outlier:few.lines is not advised: few has 3 documents, fewer than 100"},
		{[]string{"-try", "outlier", "few.lines", "-try-uri", uri, "-max-commands", "4"}, exitFailed, "the budget was spent before"},
		{[]string{"-try", "outlier", "books_locks.lines", "-try-uri", uri}, exitFailed, "books_locks has the name of a collection that tree keeps"},
		{[]string{"-try", "outlier", "books.buyers"}, exitFailed, "-try-uri"},
	} {
		var out, notes strings.Builder
		code := run(t.Context(), append([]string{"-uri", uri, "-db", db.Name(), "-max-time", "1m", "-budget", "1h", "-quiet"}, test.args...), &out, &notes)
		if code != test.code || !strings.Contains(out.String()+notes.String(), test.text) {
			t.Errorf("%v: exit code %d, want %d; %s%s", test.args, code, test.code, &out, &notes)
		}
	}
	names, err := db.Client().ListDatabaseNames(t.Context(), bson.D{{Key: "name", Value: bson.D{{Key: "$regex", Value: "^advise_try_"}}}})
	if err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestPassword(t *testing.T) {
	for _, args := range [][]string{{"-db", "shop"}, {"-db", "shop", "-uri", "URI"}, {"URI"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) { testkit.KeepsPassword(t, asCommand, args...) })
	}
}
