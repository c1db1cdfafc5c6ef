package registry_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// without are the calls without a row, and why.
var without = map[string]string{
	"advise.Look":               "it changes nothing, and a person waits for it",
	"advise.Try":                "it writes a database that it makes and drops, and a person waits for it",
	"approx.Counters.Run":       "Flush at intervals, and Close: both have rows",
	"approx.Distinct.Run":       "as Counters.Run",
	"series.Gatherer.Run":       "as Counters.Run",
	"mongopatterns.CheckAll":    "Check has rows",
	"mongopatterns.Shard":       "it needs a cluster, and a proxy is for one server",
	"mongopatterns.WithComment": "it makes a context",
}

// Every exported call with a context has a row, or a reason to have none.
func TestEveryCall(t *testing.T) {
	exported := registry.Exported(t)
	rows := registry.Methods(slices.Concat(registry.Writes(), registry.Reads(), registry.Indexes(t)))
	for _, name := range exported {
		if reason := without[name]; (reason != "") == slices.Contains(rows, name) {
			t.Errorf("%s: it needs a row or a reason, and has reason %q", name, reason)
		}
	}
	for _, name := range rows {
		if !slices.Contains(exported, name) && name != "tree.Tree.Filter" { // which takes no context, and is run by Find
			t.Errorf("there is no %s", name)
		}
	}
	for name := range without {
		if !slices.Contains(exported, name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// Every package with a manual has an entry, and its rows are its own.
func TestPatterns(t *testing.T) {
	want := []string{"mongopatterns"}
	for _, doc := range testkit.Value[[]string](t)(filepath.Glob("*/doc.go")) {
		if name := filepath.Base(filepath.Dir(doc)); !slices.Contains([]string{"advise", "mongotest", "timeseries"}, name) {
			want = append(want, name)
		}
	}
	var got []string
	for _, p := range registry.Patterns() {
		got = append(got, p.Package)
		if p.Steps == nil && len(p.Writes) > 0 && p.Package != "mongopatterns" {
			t.Errorf("%s writes, and has no steps", p.Package)
		}
		if (p.Role == nil) == (p.NoRole == "") {
			t.Errorf("%s has no role beside the other patterns and no reason, or both", p.Package)
		}
		for _, r := range slices.Concat(p.Writes, p.Reads) {
			if r.Package() != p.Package {
				t.Errorf("%s is a row of %s", r.Name, p.Package)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	testkit.Same(t, "entries", want, got)
}
