package words_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A person finishes the documents: none grows beyond what one reads in the time that one has for it.
func TestSizes(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	testkit.OK(t, err)
	const readme, benchmarks = "README.md", "docs/benchmarks.md"
	words, largest := map[string]int{}, map[string]int{readme: 900, benchmarks: 10_000, "docs": 20_000}
	for _, page := range append(pages, readme) {
		text, err := os.ReadFile(page)
		testkit.OK(t, err)
		of := page
		if largest[page] == 0 {
			of = "docs"
		}
		words[of] += len(strings.Fields(string(text)))
	}
	for of, most := range largest {
		if n := words[of]; n > most || n == 0 {
			t.Errorf("%s has %d words, and may have %d", of, n, most)
		}
	}
}
