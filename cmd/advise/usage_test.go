package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// What the command prints about its flags, and about a URI that it cannot use, does not contain the password.
func TestNoPassword(t *testing.T) {
	for _, uri := range []string{"mongodb://user:secret@127.0.0.1:1", "mongodb://user:secret@%zz", "mongodb://user:secret%zz@127.0.0.1", "mongo://user:secret@127.0.0.1"} {
		t.Setenv("MONGODB_URI", uri)
		for _, args := range [][]string{{"-h"}, {"-nonsense"}, {}, {"-db", "shop", "-try-uri", uri}} {
			var out, notes strings.Builder
			code := run(t.Context(), args, &out, &notes)
			if text := out.String() + notes.String(); strings.Contains(text, "secret") || text == "" || (code == exitNothing) != slices.Contains(args, "-h") {
				t.Errorf("%v with %s: exit code %d, %s", args, uri, code, text)
			}
		}
		if uri == "mongodb://user:secret@127.0.0.1:1" {
			continue // a login takes as long as no server answers
		}
		for _, args := range [][]string{{"-db", "shop"}, {"-db", "shop", "-try", "outlier:a.b", "-try-uri", uri}} {
			var out, notes strings.Builder
			if code := run(t.Context(), args, &out, &notes); code != exitFailed || strings.Contains(notes.String()+out.String(), "secret") {
				t.Errorf("%v with %s: exit code %d, %s", args, uri, code, notes.String()+out.String())
			}
		}
	}
}

// The page and the manual do not use go run where exit codes matter: it makes 1 of each but 0.
func TestNoGoRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/advise.md")
	testkit.OK(t, err)
	_, page, _ = bytes.Cut(page, []byte("\n## In CI\n"))
	manual, err := os.ReadFile("main.go")
	testkit.OK(t, err)
	for _, text := range [][]byte{page, manual} {
		if !bytes.Contains(text, []byte("go install github.com/mongopatterns/mongopatterns/cmd/advise")) || bytes.Contains(text, []byte("go run ./cmd")) {
			t.Errorf("%s", text)
		}
	}
}
