package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// Each patch fits the sources of today, each test exists, and each package has mutations.
func TestPatches(t *testing.T) {
	mutations, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]int{}
	for _, m := range mutations {
		if m.file, err = filepath.Abs(m.file); err != nil {
			t.Fatal(err)
		}
		if err := m.apply(t.Context(), root, "--check"); err != nil {
			t.Error(err)
		}
		test, _, _ := strings.Cut(m.test, "/")
		declared := regexp.MustCompile(`(?m)^func ` + test + `\(`)
		files, err := filepath.Glob(filepath.Join(root, m.folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || declared.Match(text)
		}
		if !found {
			t.Errorf("%s: there is no %s in %s", m.name, test, m.folder)
		}
		folder, _, _ := strings.Cut(m.name, "/")
		folders[folder]++
	}
	manuals, err := filepath.Glob(filepath.Join(root, "*/doc.go"))
	if err != nil || len(manuals) == 0 {
		t.Fatal(manuals, err)
	}
	for _, manual := range manuals {
		pattern := filepath.Base(filepath.Dir(manual))
		if pattern != "advise" && pattern != "mongotest" && pattern != "timeseries" && folders[pattern] == 0 {
			t.Errorf("no mutation of %s", pattern)
		}
	}
}

// A mutation that changes nothing survives, and one that breaks the code is found; the copy is as before.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("go.mod", "module m\n")
	const source = "package m\n\nfunc one() int { return 1 }\n"
	code := write("m.go", source)
	write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Fatal()\n\t}\n}\n")
	patch := func(name, line string) string {
		return write(name, "It is one.\n\nTest: . TestOne\n\n--- a/m.go\n+++ b/m.go\n@@ -1,3 +1,3 @@\n package m\n \n-func one() int { return 1 }\n+"+line+"\n")
	}
	for _, test := range []struct {
		name, line, test string
		found, fails     bool
	}{
		{"same.patch", "func one() int { return 2 - 1 }", "TestOne", false, false},
		{"broken.patch", "func one() int { return 2 }", "TestOne", true, false},
		{"syntax.patch", "func one() int { return }", "TestOne", false, true},
		{"missing.patch", "func one() int { return 2 }", "TestTwo", false, true},
	} {
		m := mutation{name: test.name, file: patch(test.name, test.line), folder: ".", test: test.test}
		if found, err := m.run(t.Context(), dir); found != test.found || (err != nil) != test.fails {
			t.Errorf("%s: found %v, %v", test.name, found, err)
		}
		if text, err := os.ReadFile(code); err != nil || string(text) != source {
			t.Errorf("%s: %s, %v", test.name, text, err)
		}
	}
}
