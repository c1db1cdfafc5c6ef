package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Module is the path of the library's module.
const Module = "github.com/mongopatterns/mongopatterns"

// AtRoot makes the module's root the working folder. A TestMain of tests that read the module's files calls it.
func AtRoot() {
	for {
		if _, err := os.Stat("go.mod"); err == nil {
			return
		}
		here, err := os.Getwd()
		if err == nil && here == filepath.Dir(here) {
			panic("there is no go.mod above the tests")
		}
		if err == nil {
			err = os.Chdir("..")
		}
		if err != nil {
			panic(err)
		}
	}
}

// Patterns returns the packages whose exported API uses the shared words: every folder of the root with a
// doc.go, except the tools. It needs AtRoot.
func Patterns(t *testing.T) (out []string) {
	t.Helper()
	for _, doc := range Value[[]string](t)(filepath.Glob("*/doc.go")) {
		if dir := filepath.Dir(doc); dir != "mongotest" && dir != "timeseries" {
			out = append(out, dir)
		}
	}
	if len(out) < 9 {
		t.Fatalf("only %v", out)
	}
	return out
}

// Programs reads the Go files of a folder that are no tests, by their names.
func Programs(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, path := range Value[[]string](t)(filepath.Glob(filepath.Join(folder, "*.go"))) {
		if !strings.HasSuffix(path, "_test.go") {
			files[filepath.Base(path)] = string(Value[[]byte](t)(os.ReadFile(path)))
		}
	}
	if len(files) == 0 {
		t.Fatalf("%s has no programs", folder)
	}
	return files
}

// Consumer makes a module outside of the repository that imports the library, with these files, and returns its
// folder. It needs AtRoot.
func Consumer(t *testing.T, files map[string]string) string {
	t.Helper()
	root := Value[string](t)(os.Getwd())
	dir := t.TempDir()
	for name, text := range files {
		OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	mod := "module example.com/consumer\n\ngo 1.25.0\n\nrequire " + Module + " v0.0.0\n\nreplace " + Module + " => " + root + "\n"
	OK(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	Command(t, dir, nil, "go", "mod", "tidy")
	return dir
}

// Command runs a command in a folder and returns what it prints.
func Command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}
