package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// The tour runs whole, in both forms, and says of every step what it promises.
func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	var lines bytes.Buffer
	own := os.Getenv("MONGODB_URI")
	t.Setenv("MONGODB_URI", mongotest.AdminURI(t)) // the server that is there
	if err := tour(t.Context(), &lines, true, nil); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(lines.String()), "\n")
	var about struct{ Engine, Version string }
	if err := json.Unmarshal([]byte(all[0]), &about); err != nil || about.Engine == "" || about.Version == "" {
		t.Errorf("first line %s, %v", all[0], err)
	}
	steps := map[string][]step{}
	for _, line := range all[1:] {
		var s step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("line %s: %v", line, err)
		}
		if s.Title == "" || s.RoundTrips < 1 {
			t.Errorf("step without title or round trips: %s", line)
		}
		steps[s.Pattern] = append(steps[s.Pattern], s)
	}
	for _, chapter := range chapters {
		if len(steps[chapter.name]) < 5 {
			t.Errorf("%s: %d steps", chapter.name, len(steps[chapter.name]))
		}
		has := func(what string, holds func(step) bool) {
			if !slices.ContainsFunc(steps[chapter.name], holds) {
				t.Errorf("%s: no step shows %s", chapter.name, what)
			}
		}
		has("a stored document", func(s step) bool { return len(s.Stored) > 0 })
		has("a query", func(s step) bool { return len(s.Query) > 0 })
		has("an index", func(s step) bool { return len(s.Indexes) > 0 })
		has("a result", func(s step) bool { return len(s.Result) > 0 })
		for _, s := range steps[chapter.name] {
			for _, line := range s.Result {
				if strings.HasSuffix(line, "false") {
					t.Errorf("%s, %s: %s", chapter.name, s.Title, line)
				}
			}
		}
	}
	var text bytes.Buffer
	t.Setenv("MONGODB_URI", own) // a server of its own
	if err := tour(t.Context(), &text, false, []string{"tree"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stored ", "query ", "plan ", "round trips ", "result ", "USA > GA > Atlanta"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(text.String(), "paging:") {
		t.Error("a chapter that was not asked for")
	}
}

func TestUnknownPattern(t *testing.T) {
	err := tour(t.Context(), &bytes.Buffer{}, false, []string{"trie"})
	if err == nil || !strings.Contains(err.Error(), `"trie"`) {
		t.Errorf("error %v", err)
	}
}

// The pictures in docs/pictures are what the patterns store today, and well-formed.
func TestPictures(t *testing.T) {
	folder := t.TempDir()
	db := mongotest.Database(t)
	if err := paint(t.Context(), mongotest.Admin(t, db).Client(), db.Name(), folder); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join("..", "..", "docs", "pictures", "*.svg"))
	if err != nil || len(kept) != len(scenes) {
		t.Errorf("%d pictures of %d scenes, %v", len(kept), len(scenes), err)
	}
	for _, chapter := range chapters {
		if scenes[chapter.name] == nil {
			t.Errorf("%s has no picture", chapter.name)
		}
	}
	for pattern := range scenes {
		drawn, err := os.ReadFile(filepath.Join(folder, pattern+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(drawn, new(struct{ XMLName xml.Name })); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		kept, err := os.ReadFile(filepath.Join("..", "..", "docs", "pictures", pattern+".svg"))
		if err != nil || !bytes.Equal(drawn, kept) {
			t.Errorf("%s: docs/pictures is stale, %v: run go run ./examples/tour -pictures docs/pictures", pattern, err)
		}
		legible(t, pattern, string(drawn))
	}
}

// legible: a picture has text of at least 11 px where a page shows it, and colours that follow the theme.
func legible(t *testing.T, pattern, drawn string) {
	t.Helper()
	var width, height int
	if _, err := fmt.Sscanf(drawn[strings.Index(drawn, "width="):], "width=\"%d\" height=\"%d\"", &width, &height); err != nil {
		t.Fatal(err)
	}
	for _, size := range regexp.MustCompile(`font-size:(\d+)px`).FindAllStringSubmatch(drawn, -1) {
		if n, _ := strconv.Atoi(size[1]); n*shownWidth < 11*max(width, shownWidth) {
			t.Errorf("%s: text of %d px in a picture %d px wide", pattern, n, width)
			break
		}
	}
	_, body, _ := strings.Cut(drawn, "</style>")
	if !strings.Contains(drawn, "prefers-color-scheme:dark") || regexp.MustCompile(`(fill|stroke)(="|:)#`).MatchString(body) {
		t.Errorf("%s has colours that do not follow the theme", pattern)
	}
}
