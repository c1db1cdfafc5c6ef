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

// row is a row of the page's table: its patterns, and the sentences of its other cells.
type row struct {
	name      string
	sentences []string
}

var (
	sentenceEnd = regexp.MustCompile(`\.( |$)`)
	cellEnd     = regexp.MustCompile(` *\| `)
)

// rows are those of the table of patterns in docs/adopting.md.
func rows(t *testing.T) (out []row) {
	t.Helper()
	page, err := os.ReadFile("docs/adopting.md")
	testkit.OK(t, err)
	_, table, _ := strings.Cut(string(page), "\n| pattern |")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok {
			continue
		}
		cells := cellEnd.Split(strings.TrimSuffix(line, "|"), -1)
		if len(cells) != 5 {
			t.Fatalf("%d columns: %s", len(cells), line)
		}
		r := row{name: strings.TrimSpace(cells[0])}
		for _, cell := range cells[1:] {
			for _, s := range sentenceEnd.Split(strings.TrimSpace(cell), -1) {
				if s = strings.TrimSpace(s); s != "" && s != "–" {
					r.sentences = append(r.sentences, s)
				}
			}
		}
		out = append(out, r)
	}
	return out
}

// Every row of the table has a case, every case a row, and each sentence of a row its test.
func TestPage(t *testing.T) {
	table := rows(t)
	if len(table) < 10 {
		t.Fatalf("only %d rows", len(table))
	}
	said := map[string][]string{}
	for _, p := range patterns {
		if !slices.ContainsFunc(table, func(r row) bool { return r.name == p.row }) {
			t.Errorf("%s: the table has no row %q", p.name, p.row)
		}
		if said[p.row] == nil {
			said[p.row] = []string{}
		}
		for _, s := range p.says {
			said[p.row] = append(said[p.row], s.text)
		}
	}
	for _, r := range table {
		if len(r.sentences) == 1 && r.sentences[0] == "nothing" {
			continue // there is nothing to adopt
		}
		if said[r.name] == nil {
			t.Errorf("%s: no case", r.name)
			continue
		}
		for _, s := range r.sentences {
			if !slices.Contains(said[r.name], s) {
				t.Errorf("%s: no test of %q", r.name, s)
			}
		}
		for _, s := range said[r.name] {
			if !slices.Contains(r.sentences, s) {
				t.Errorf("%s: the row does not say %q", r.name, s)
			}
		}
	}
}
