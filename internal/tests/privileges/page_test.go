package privileges

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

const (
	page  = "docs/privileges.md"
	begin = "<!-- written by go test ./internal/tests/privileges -update -->\n"
	end   = "<!-- end of what is written -->\n"
	head  = "| package | actions | calls |\n|---|---|---|\n"
)

// read returns the actions of each method, as the page names them.
func read(t *testing.T) map[string][]string {
	_, table, _ := block(t)
	out := map[string][]string{}
	for line := range strings.Lines(strings.TrimPrefix(table, head)) {
		cell := strings.Split(strings.Trim(line, "| \n"), " | ")
		for call := range strings.SplitSeq(cell[2], ", ") {
			out[cell[0]+"."+call] = slices.DeleteFunc(strings.Split(cell[1], ", "), func(a string) bool { return a == "none" })
		}
	}
	return out
}

// written returns the page with the actions that were found.
func written(t *testing.T, found map[string][]string) string {
	before, _, after := block(t)
	rows := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		of, call, _ := strings.Cut(name, ".")
		actions := strings.Join(found[name], ", ")
		if actions == "" {
			actions = "none"
		}
		row := "| " + of + " | " + actions + " | "
		rows[row] = append(rows[row], call)
	}
	out := before + head
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		out += row + strings.Join(rows[row], ", ") + " |\n"
	}
	return out + after
}

// block returns the table of the page, and the text around it.
func block(t *testing.T) (before, inside, after string) {
	t.Helper()
	text, err := os.ReadFile(page)
	testkit.OK(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	inside, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no marks for what is written", page)
	}
	return before + begin, inside, end + after
}
