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

// section is a section of the page: its patterns, and the sentences on what old code does.
type section struct {
	names     []string
	sentences []string
}

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
		text = strings.ReplaceAll(text, "\n  ", " ") // lines of one item
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			said, adopts := strings.CutPrefix(strings.TrimSpace(paragraph), "**Adopt**: ")
			if !adopts && !strings.HasPrefix(said, "- ") {
				continue // a heading, or the way back
			}
			for line := range strings.SplitSeq(strings.ReplaceAll(said, "\n- ", "\x00"), "\x00") {
				line = strings.Join(strings.Fields(strings.TrimPrefix(line, "- ")), " ")
				for _, sentence := range sentenceEnd.Split(line, -1) {
					if sentence != "" {
						s.sentences = append(s.sentences, lower(sentence))
					}
				}
			}
		}
		out = append(out, s)
	}
	return out
}

var sentenceEnd = regexp.MustCompile(`\.( |$)`)

// lower makes the first letter of a sentence small, which differs between the page and the tests.
func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// Every section has a case, every case a section, and each sentence of a section its test.
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
			for _, sentence := range p.says {
				said = append(said, lower(sentence.text))
			}
		}
		if len(cases) != len(s.names) {
			t.Errorf("%v: cases of %v", s.names, cases)
		}
		for _, sentence := range s.sentences {
			if !slices.Contains(said, sentence) {
				t.Errorf("%v: no test of %q", s.names, sentence)
			}
		}
		for _, sentence := range said {
			if !slices.Contains(s.sentences, sentence) {
				t.Errorf("%v: the page does not say %q", s.names, sentence)
			}
		}
	}
}
