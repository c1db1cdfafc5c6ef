//go:build unix

package adoption_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// section is a section of the page: its patterns, and what it says of Adopt and of old code.
type section struct {
	names []string
	items []string
}

// untested begins what is no item: the headings of the lists, and the way back, which TestBackAgain goes.
var untested = regexp.MustCompile(`^\*\*(Old code|Meanwhile|To go back)`)

// sections are those of docs/adopting.md.
func sections(t *testing.T) (out []section) {
	t.Helper()
	page, err := os.ReadFile("docs/adopting.md")
	testkit.OK(t, err)
	_, all, _ := strings.Cut(string(page), "\n## Pattern by pattern\n")
	all, _, _ = strings.Cut(all, "\n## ")
	for _, text := range strings.Split(all, "\n### ")[1:] {
		heading, text, _ := strings.Cut(text, "\n")
		s := section{names: strings.Split(heading, " and ")}
		for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			paragraph = strings.TrimSpace(paragraph)
			if untested.MatchString(paragraph) {
				continue
			}
			for item := range strings.SplitSeq("\n"+strings.ReplaceAll(paragraph, "**", ""), "\n- ") {
				if item = strings.Join(strings.Fields(item), " "); item != "" {
					s.items = append(s.items, strings.TrimSuffix(item, "."))
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// Every section has a case, every case a section, and each item of a section its test.
func TestPage(t *testing.T) {
	all := sections(t)
	if len(all) < 10 {
		t.Fatalf("only %d sections", len(all))
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(all, func(s section) bool { return slices.Contains(s.names, p.row) }) {
			t.Errorf("%s: the page has no section %q", p.name, p.row)
		}
	}
	for _, s := range all {
		var said []string
		cases := map[string]bool{}
		for _, p := range patterns {
			if !slices.Contains(s.names, p.row) {
				continue
			}
			cases[p.row] = true
			for _, item := range p.says {
				said = append(said, item.text)
			}
		}
		if len(cases) != len(s.names) {
			t.Errorf("%v: cases of %v", s.names, cases)
		}
		for _, item := range s.items {
			if !slices.Contains(said, item) {
				t.Errorf("%v: no test of %q", s.names, item)
			}
		}
		for _, item := range said {
			if !slices.Contains(s.items, item) {
				t.Errorf("%v: the page does not say %q", s.names, item)
			}
		}
	}
}
