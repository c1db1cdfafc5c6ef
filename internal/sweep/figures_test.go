package sweep

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	page  = "../../docs/failures.md"
	begin = "<!-- the sweep: written by go test ./internal/sweep -sweep=all -update -timeout 1h -->\n"
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

func packageOf(name string) string {
	out, _, _ := strings.Cut(name, ".")
	return out
}

func (f *figures) of(r row) *figure {
	name := packageOf(r.name)
	if f.packages[name] == nil {
		f.packages[name] = &figure{outcomes: map[outcome]int{}}
	}
	return f.packages[name]
}

func (f *figures) method(r row, commands int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(r).rows++
	f.of(r).commands += commands
}

func (f *figures) count(r row, said outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(r).outcomes[said]++
}

// String is the table of the page.
func (f *figures) String() string {
	var out strings.Builder
	out.WriteString("| package | rows | commands | faults | then done | not done | unknown |\n|---|--:|--:|--:|--:|--:|--:|\n")
	total := figure{outcomes: map[outcome]int{}}
	line := func(name string, f figure) {
		faults := f.outcomes[done] + f.outcomes[notDone] + f.outcomes[unknown]
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d |\n", name, f.rows, f.commands, faults, f.outcomes[done], f.outcomes[notDone], f.outcomes[unknown])
	}
	for _, name := range slices.Sorted(maps.Keys(f.packages)) {
		p := *f.packages[name]
		line(name, p)
		total.rows, total.commands = total.rows+p.rows, total.commands+p.commands
		for said, n := range p.outcomes {
			total.outcomes[said] += n
		}
	}
	line("all", total)
	return out.String()
}

// listed is the list of the calls for the page, a line a package.
func listed() string {
	var out strings.Builder
	last := ""
	for _, name := range methods() {
		if p := packageOf(name); p != last {
			if last != "" {
				out.WriteString("\n")
			}
			out.WriteString("- " + p + ": ")
			last = p
		} else {
			out.WriteString(", ")
		}
		out.WriteString(strings.TrimPrefix(name, last+"."))
	}
	return out.String() + "\n"
}

// block is what the page has between its marks, with the text around it.
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

func (f *figures) write(t *testing.T) {
	t.Helper()
	before, _, after := block(t)
	text := before + begin + "\n" + f.String() + "\nThe calls:\n\n" + listed() + "\n" + end + after
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The page lists the calls that are swept.
func TestPage(t *testing.T) {
	if *update {
		t.Skip("it is being written")
	}
	if _, inside, _ := block(t); !strings.Contains(inside, "\n"+listed()) {
		t.Errorf("%s lists other calls than the table has; with -sweep=all -update the sweep writes it. It should have:\n%s", page, listed())
	}
}
