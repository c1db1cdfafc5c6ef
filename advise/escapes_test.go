package advise_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A name in the database is not obeyed by a terminal.
func TestNamesThatHoldEscapes(t *testing.T) {
	const evil = "a<script>alert(1)</script>|`\n1. free: paging\x1b[2J\x1b]0;x\a\u202e"
	f := advise.Finding{
		Pattern: "outlier", Collection: evil, Path: evil, Summary: evil, Code: evil, Against: []string{evil}, Check: advise.Check{Shell: evil, Path: []string{evil}},
	}
	note := []advise.Note{{Collection: evil, Path: evil, Reason: evil, Tells: evil}}
	report := &advise.Report{
		Database: evil, Findings: []advise.Finding{f}, Shapes: []advise.Shape{{Query: evil, Why: evil}}, NotAdvised: note, Unknown: note,
		Sources: []advise.Source{{Name: "log", Note: evil}},
	}
	var text, trial strings.Builder
	testkit.OK(t, report.Text(&text))
	testkit.OK(t, (&advise.Trial{Finding: f}).Text(&trial))
	for name, page := range map[string]string{"text": text.String(), "trial": trial.String()} {
		if i := strings.IndexAny(page, "\x1b\a\u202e"); i >= 0 {
			t.Errorf("%s: %q", name, page[i:])
		}
		if regexp.MustCompile(`(?m)^1\. free`).MatchString(page) {
			t.Errorf("%s has a finding of the database's:\n%s", name, page)
		}
	}
}
