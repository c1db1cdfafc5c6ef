package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The exit code says whether something is advised that is new and not ignored.
func TestExitCodes(t *testing.T) {
	db := mongotest.Database(t)
	var docs []any
	for i := range 200 {
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
	known, broken, page := filepath.Join(dir, "known.json"), filepath.Join(dir, "broken.json"), filepath.Join(dir, "page.html")
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
		{"a page", t.Context(), []string{"-html", page}, exitAdvised, ""},
		{"interrupted", cancelled, nil, exitFailed, "context canceled"},
		{"a broken baseline", t.Context(), []string{"-baseline", broken}, exitFailed, "broken.json"},
		{"no baseline", t.Context(), []string{"-baseline", "none.json"}, exitFailed, "none.json"},
		{"a broken pattern", t.Context(), []string{"-ignore", "["}, exitFailed, "-ignore ["},
		{"no log", t.Context(), []string{"-log", "none.log"}, exitFailed, "none.log"},
		{"no such collection", t.Context(), []string{"-collection", "none"}, exitFailed, `"none"`},
		{"an argument", t.Context(), []string{"books"}, exitFailed, "-uri and -db are required"},
	} {
		code, _, notes := advise(test.ctx, test.args...)
		if code != test.code || !strings.Contains(notes, test.text) {
			t.Errorf("%s: exit code %d, want %d; %s", test.name, code, test.code, notes)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<rect") {
		t.Errorf("the page: %v, %s", err, text)
	}
}
