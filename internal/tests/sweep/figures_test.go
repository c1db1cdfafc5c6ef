package sweep

import (
	"bytes"
	"encoding/csv"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// figuresFile is written by go test ./internal/tests/sweep -scale=whole -update -timeout 1h.
const figuresFile = "docs/sweep.csv"

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

var head = []string{"package", "rows", "commands", "faults", "then done", "not done", "unknown"}

// lines are the numbers of the file, by package.
type lines map[string][6]int

func (f *figures) lines() lines {
	out := lines{}
	for name, p := range f.packages {
		d, n, u := p.outcomes[done], p.outcomes[notDone], p.outcomes[unknown]
		out[name] = [6]int{p.rows, p.commands, d + n + u, d, n, u}
	}
	return out
}

// stored returns the lines of the file.
func stored(t *testing.T) lines {
	t.Helper()
	text, err := os.ReadFile(figuresFile)
	testkit.OK(t, err)
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	testkit.OK(t, err)
	out := lines{}
	for _, r := range records[1:] {
		var n [6]int
		for i := range n {
			n[i], err = strconv.Atoi(r[i+1])
			testkit.OK(t, err)
		}
		out[r[0]] = n
	}
	delete(out, "all")
	return out
}

// records are the lines of the file, with their sums at the end.
func (l lines) records() [][]string {
	out := [][]string{head}
	var total [6]int
	add := func(name string, numbers [6]int) {
		record := []string{name}
		for _, n := range numbers {
			record = append(record, strconv.Itoa(n))
		}
		out = append(out, record)
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		for i, n := range l[name] {
			total[i] += n
		}
		add(name, l[name])
	}
	add("all", total)
	return out
}

// write puts the figures of the packages that were swept as a whole into the file; -run can choose
// some, and the others keep theirs.
func (f *figures) write(t *testing.T) {
	t.Helper()
	all, rows := stored(t), map[string]int{}
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
	var out bytes.Buffer
	testkit.OK(t, csv.NewWriter(&out).WriteAll(all.records()))
	testkit.OK(t, os.WriteFile(figuresFile, out.Bytes(), 0o600))
}

// The file has figures for each package whose calls are swept.
func TestFigures(t *testing.T) {
	have := stored(t)
	for _, r := range registry.Writes() {
		if have[r.Package()][0] == 0 {
			t.Errorf("%s has no figures of %s; with -scale=whole -update the sweep writes them", figuresFile, r.Package())
		}
	}
}
