package registry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// uncounted are the calls that no cost_test.go makes, and why.
var uncounted = map[string]string{
	"advise.Look":               "its cost_test.go calls it through a helper",
	"extref.Source.Watch":       "it sends while it waits, so how often depends on time",
	"mongopatterns.CheckAll":    "the sum of the checks, which are counted",
	"mongopatterns.Shard":       "it needs a cluster, whose routers are not recorded",
	"mongopatterns.Transact":    "the cases of calls with a transaction have its commit",
	"mongopatterns.WithComment": "it makes a context",
}

// Every exported call with a context is made in the cost_test.go of its package, which counts what it sends. The syntax does
// not tell the methods of one name of a package's types from each other.
func TestEveryCallIsCounted(t *testing.T) {
	made := map[string]map[string]bool{}
	for _, name := range registry.Exported(t) {
		pkg, _, _ := strings.Cut(name, ".")
		if made[pkg] == nil {
			made[pkg] = selected(t, pkg)
		}
		reason := uncounted[name]
		if (reason != "") == made[pkg][name[strings.LastIndex(name, ".")+1:]] {
			t.Errorf("%s: it needs a case in cost_test.go or a reason, and has reason %q", name, reason)
		}
	}
}

// selected are the names behind a dot in a package's cost_test.go.
func selected(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, name := range testkit.Value[[]string](t)(filepath.Glob(filepath.Join(pkg, "cost_test.go"))) {
		file := testkit.Value[*ast.File](t)(parser.ParseFile(token.NewFileSet(), name, nil, 0))
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				out[s.Sel.Name] = true
			}
			return true
		})
	}
	return out
}
