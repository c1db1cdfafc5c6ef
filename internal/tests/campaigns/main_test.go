package main

import (
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	os.Exit(m.Run())
}

// Each campaign is a test that exists, and each pattern is in those of the patterns.
func TestCampaigns(t *testing.T) {
	every := testkit.Value[[]campaign](t)(all())
	test := regexp.MustCompile(`^\^(Test\w+)`)
	for _, c := range every {
		if c.pattern == whole {
			continue
		}
		name := test.FindStringSubmatch(c.pattern)[1]
		found := false
		for _, path := range testkit.Value[[]string](t)(filepath.Glob(c.folder + "/*_test.go")) {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			testkit.OK(t, err)
			found = found || file.Scope.Lookup(name) != nil
		}
		if !found {
			t.Errorf("%s: %s has no %s", c.name, c.folder, name)
		}
	}
	for _, p := range testkit.Patterns(t) {
		for kind, none := range without {
			got, err := chosen(every, []string{kind + "/" + p})
			if there := err == nil && len(got) == 1; there == slices.Contains(none, p) {
				t.Errorf("%s/%s: %v, %v", kind, p, got, err)
			}
		}
	}
}

// The workflow runs every kind of campaign, each night and on each server.
func TestNightly(t *testing.T) {
	workflow := string(testkit.Value[[]byte](t)(os.ReadFile(".github/workflows/nightly.yml")))
	lists := regexp.MustCompile(`names: \[(.*)\]`).FindAllStringSubmatch(workflow, -1)
	if len(lists) != 2 {
		t.Fatalf("%d lists of names", len(lists))
	}
	for _, list := range lists {
		names := strings.FieldsFunc(list[1], func(r rune) bool { return r == ',' || r == ' ' })
		for _, c := range testkit.Value[[]campaign](t)(all()) {
			if kind, _, _ := strings.Cut(c.name, "/"); !slices.Contains(names, kind) {
				t.Errorf("%v lacks %s", names, kind)
			}
		}
	}
}

func TestChosen(t *testing.T) {
	every := []campaign{{name: "sweep/tree"}, {name: "sweep/subset"}, {name: "kills"}}
	names := func(list []campaign) (out []string) {
		for _, c := range list {
			out = append(out, c.name)
		}
		return out
	}
	for _, test := range []struct{ given, want []string }{
		{nil, []string{"sweep/tree", "sweep/subset", "kills"}},
		{[]string{"kills", "sweep"}, []string{"kills", "sweep/tree", "sweep/subset"}},
		{[]string{"sweep/subset"}, []string{"sweep/subset"}},
	} {
		testkit.Equal(t, test.want, names(testkit.Value[[]campaign](t)(chosen(every, test.given))))
	}
	if _, err := chosen(every, []string{"sweep", "swep"}); err == nil || !strings.Contains(err.Error(), `"swep"`) {
		t.Error(err)
	}
}

// What has passed is passed over with the same scale and seed only.
func TestResume(t *testing.T) {
	r, err := parse([]string{"-scale=whole", "-seed=7", "-done=" + filepath.Join(t.TempDir(), "done"), "kills"}, io.Discard)
	testkit.OK(t, err)
	testkit.Equal(t, []string{"kills"}, r.names)
	tree, subset := campaign{name: "sweep/tree"}, campaign{name: "sweep/subset"}
	if passed := testkit.Value[[]string](t)(r.passed()); passed != nil {
		t.Errorf("%q has passed in a new file", passed)
	}
	testkit.OK(t, r.note(tree))
	testkit.OK(t, r.note(subset))
	passed := testkit.Value[[]string](t)(r.passed())
	other := r
	other.seed = 8
	for line, want := range map[string]bool{r.line(tree): true, r.line(subset): true, other.line(tree): false} {
		if slices.Contains(passed, line) != want {
			t.Errorf("%s: passed %v", line, !want)
		}
	}
}

// Without -seed each run has one of its own.
func TestNewSeed(t *testing.T) {
	a, b := testkit.Must(parse(nil, io.Discard)), testkit.Must(parse(nil, io.Discard))
	if a.seed == 0 || a.seed == b.seed {
		t.Errorf("seeds %d and %d", a.seed, b.seed)
	}
}
