package advise_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// printed is the code of the findings of all tests. One program has all of it, because each link of one takes seconds.
type printed struct {
	sync.Mutex
	open  int // tests that have not ended
	codes []code
}

// code is that of a finding.
type code struct {
	name string // of the test and the finding
	advise.Finding
}

var program printed

// printing makes the test one of those that print code. The last of them to end runs the program, so each has to call this
// before t.Parallel, when none has ended yet.
func printing(t *testing.T) {
	t.Helper()
	program.Lock()
	defer program.Unlock()
	program.open++
	t.Cleanup(func() {
		if codes, last := program.end(); last && len(codes) > 0 {
			compile(t, codes)
		}
	})
}

// end returns all code after the last test.
func (p *printed) end() (codes []code, last bool) {
	p.Lock()
	defer p.Unlock()
	if p.open--; p.open > 0 {
		return nil, false
	}
	codes, p.codes = p.codes, nil
	return codes, true
}

// prints adds the code of findings to the program. A failure of the program names the test and the finding.
func prints(t *testing.T, findings []advise.Finding) {
	t.Helper()
	program.Lock()
	defer program.Unlock()
	for _, f := range findings {
		if strings.Contains(f.Code, "bson.M") {
			t.Errorf("a map has no order: %s", f.Code)
		}
		program.codes = append(program.codes, code{t.Name() + " " + f.Name(), f})
	}
}

var variable = regexp.MustCompile(`(?m)^(\w+), err := `)

// compile runs a program of the findings' code beside the library's packages, without a file in the repository and
// without a server: New does no I/O.
func compile(t *testing.T, codes []code) {
	t.Helper()
	slices.SortFunc(codes, func(a, b code) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Adopt, b.Adopt), cmp.Compare(a.name, b.name))
	})
	codes = slices.CompactFunc(codes, func(a, b code) bool { return a.Code == b.Code && a.Adopt == b.Adopt })
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n\t\"context\"\n\t\"errors\"\n\t\"fmt\"\n\t\"slices\"\n\t\"strings\"\n\t\"time\"\n\n\t\"go.mongodb.org/mongo-driver/v2/bson\"\n\t\"go.mongodb.org/mongo-driver/v2/mongo\"\n\n\t\"github.com/mongopatterns/mongopatterns\"\n")
	var packages []string
	for _, c := range codes {
		if !slices.Contains(packages, c.Pattern) {
			packages = append(packages, c.Pattern)
			b.WriteString("\t\"github.com/mongopatterns/mongopatterns/" + c.Pattern + "\"\n")
		}
	}
	if slices.Contains(packages, "series") || slices.Contains(packages, "bucket") {
		b.WriteString("\t\"github.com/mongopatterns/mongopatterns/timeseries\"\n")
	}
	b.WriteString(")\n\nvar _ bson.D\nvar _ time.Time\nvar _ = slices.Contains[[]int]\nvar _ = strings.Split\nvar _ = mongopatterns.ErrInvalid\n")
	b.WriteString("\nfunc main() {\nclient, err := mongo.Connect()\ndb := client.Database(\"printed\")\nall := []error{err}\n")
	for _, c := range codes {
		name := variable.FindStringSubmatch(c.Code)[1]
		fmt.Fprintf(&b, "{\n//line %s:1\n%s\n_ = %s\nif err != nil {\nall = append(all, fmt.Errorf(\"%%s: %%w\", %q, err))\n}\n", c.name, c.Code, name, c.name)
		b.WriteString("_ = func(ctx context.Context) error {\n" + c.Adopt + "\n")
		if strings.Contains(c.Adopt, "result, ") {
			b.WriteString("_ = result\n")
		}
		b.WriteString("return err\n}\n}\n")
	}
	b.WriteString("if err := errors.Join(all...); err != nil {\npanic(err)\n}\n}\n")
	dir := t.TempDir()
	source, overlay := filepath.Join(dir, "printed.go"), filepath.Join(dir, "overlay.json")
	here := testkit.Must(os.Getwd())
	replace := testkit.Must(json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "printed", "printed.go"): source}}))
	testkit.OK(t, os.WriteFile(source, []byte(b.String()), 0o600))
	testkit.OK(t, os.WriteFile(overlay, replace, 0o600))
	// The program runs once, so neither it is optimized nor are names kept for a debugger. The test's context has ended.
	cmd := exec.CommandContext(context.Background(), "go", "run", "-overlay", overlay, "-gcflags=-N -l", "-ldflags=-s -w", "./printed")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, b.String())
	}
}
