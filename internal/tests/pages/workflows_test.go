package pages_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

var (
	step   = regexp.MustCompile(`(?m)^ *- uses: (.*)\n(?: +with:\n((?: {10,}.*\n)*))?`)
	pinned = regexp.MustCompile(`^[\w/-]+@[0-9a-f]{40} # v[\d.]+$`)
)

// A tag of an action can be moved to other code: a workflow names commits, and leaves no token where that code finds it.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	testkit.OK(t, err)
	steps := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.OK(t, err)
		for _, s := range step.FindAllStringSubmatch(string(text), -1) {
			steps++
			if !pinned.MatchString(s[1]) {
				t.Errorf("%s: %s is not a commit with its version", file, s[1])
			}
			if strings.HasPrefix(s[1], "actions/checkout") && !strings.Contains(s[2], "persist-credentials: false\n") {
				t.Errorf("%s: %s keeps the token", file, s[1])
			}
		}
	}
	if steps < 10 {
		t.Errorf("%d steps in %v", steps, files)
	}
}
