package sweep

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
)

const (
	page  = "docs/failures.md"
	begin = "<!-- the sweep: written by go test ./internal/tests/sweep -scale=whole -update -timeout 1h -->\n"
	end   = "<!-- the sweep ends -->\n"
)

// figures are what a sweep has done, by package.
type figures struct {
	mu       sync.Mutex
	packages map[string]*figure
}

type figure struct {
	rows, commands int
	outcomes       map[outcome]int
}

func newFigures() *figures { return &figures{packages: map[string]*figure{}} }

func (f *figures) of(r registry.Row) *figure {
	name := r.Package()
	if f.packages[name] == nil {
		f.packages[name] = &figure{outcomes: map[outcome]int{}}
	}
	return f.packages[name]
}

func (f *figures) method(r registry.Row, commands int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(r).rows++
	f.of(r).commands += commands
}

func (f *figures) count(r registry.Row, said outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(r).outcomes[said]++
}

const head = "| package | rows | commands | faults | then done | not done | unknown |\n|---|--:|--:|--:|--:|--:|--:|\n"

// lines are the numbers of the page's table, by package.
type lines map[string][6]int

func (f *figures) lines() lines {
	out := lines{}
	for name, p := range f.packages {
		d, n, u := p.outcomes[done], p.outcomes[notDone], p.outcomes[unknown]
		out[name] = [6]int{p.rows, p.commands, d + n + u, d, n, u}
	}
	return out
}

// parsed returns the lines of a table, and no lines if the page has no table yet.
func parsed(text string) lines {
	out := lines{}
	for line := range strings.Lines(text) {
		var name string
		var n [6]int
		if _, err := fmt.Sscanf(line, "| %s | %d | %d | %d | %d | %d | %d |", &name, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]); err == nil && name != "all" {
			out[name] = n
		}
	}
	return out
}

// String is the table of the page.
func (l lines) String() string {
	var out strings.Builder
	out.WriteString(head)
	var total [6]int
	write := func(name string, n [6]int) {
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d |\n", name, n[0], n[1], n[2], n[3], n[4], n[5])
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		for i, n := range l[name] {
			total[i] += n
		}
		write(name, l[name])
	}
	write("all", total)
	return out.String()
}

// block returns the text of the page between its marks, and the text around it.
func block(t *testing.T) (before, inside, after string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	inside, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no block of the sweep", page)
	}
	return before, inside, after
}

// write puts the figures of the packages that were swept as a whole into the page; -run can choose
// some, and the others keep theirs.
func (f *figures) write(t *testing.T) {
	t.Helper()
	before, inside, after := block(t)
	all, rows := parsed(inside), map[string]int{}
	for _, r := range registry.Writes() {
		rows[r.Package()]++
	}
	for name, n := range f.lines() {
		if n[0] != rows[name] {
			t.Logf("%s: %d of %d rows were swept; its figures stay", name, n[0], rows[name])
			continue
		}
		all[name] = n
	}
	maps.DeleteFunc(all, func(name string, _ [6]int) bool { return rows[name] == 0 })
	text := before + begin + "\n" + all.String() + "\n" + end + after
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The page has figures for each package whose calls are swept.
func TestPage(t *testing.T) {
	_, inside, _ := block(t)
	have := parsed(inside)
	for _, r := range registry.Writes() {
		if have[r.Package()][0] == 0 {
			t.Errorf("%s has no figures of %s; with -scale=whole -update the sweep writes them", page, r.Package())
		}
	}
}
