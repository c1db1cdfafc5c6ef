// Mutations breaks the library on purpose, one guarantee at a time, and runs the test that has to find it. Run it in the
// root of the module:
//
//	go run ./internal/tests/mutations                    all of them
//	go run ./internal/tests/mutations bucket tree/cycle  those of a folder, and one
//
// A mutation is a file testdata/<package>/<name>.patch: a sentence that says which guarantee the patch breaks, a line that
// names a package and its test, and the patch. The patches are applied, one after the other, to a copy of the files that
// git knows. A mutation that its test does not find has survived: a test is missing.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutation is one patch and the test that has to find it.
type mutation struct {
	name   string // package/name
	file   string // of the patch
	breaks string // the guarantee
	folder string // of the test
	test   string // its name, or Test/subtest
}

var header = regexp.MustCompile(`(?s)\A(\S.*?\.)\n\nTest: (\./\S*|\.) (\S+)\n\n--- a/`)

// load returns the mutations of the module in root.
func load(root string) ([]mutation, error) {
	dir := filepath.Join(root, "internal/tests/mutations/testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*/*.patch"))
	if err != nil {
		return nil, err
	}
	var out []mutation
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found := header.FindSubmatch(text)
		if found == nil {
			return nil, fmt.Errorf("%s: it begins with a sentence, and a line \"Test: ./folder TestName\"", file)
		}
		name, err := filepath.Rel(dir, strings.TrimSuffix(file, ".patch"))
		if err != nil {
			return nil, err
		}
		out = append(out, mutation{filepath.ToSlash(name), file, string(found[1]), string(found[2]), string(found[3])})
	}
	return out, nil
}

// chosen returns the mutations with one of the names: of a folder, or of one mutation. No names choose all.
func chosen(all []mutation, names []string) ([]mutation, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []mutation
	for _, name := range names {
		before := len(out)
		for _, m := range all {
			if folder, _, _ := strings.Cut(m.name, "/"); m.name == name || folder == name {
				out = append(out, m)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("there is no mutation %q", name)
		}
	}
	return out, nil
}

// duplicate copies the files that git knows, or does not ignore, to dir.
func duplicate(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (m mutation) apply(ctx context.Context, dir string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), m.file)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not apply: %s", m.name, bytes.TrimSpace(out))
	}
	return nil
}

// run reports whether the test finds the mutation in the copy of the module in dir, which is as before afterwards.
func (m mutation) run(ctx context.Context, dir string) (found bool, err error) {
	if err := m.apply(ctx, dir); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, m.apply(context.WithoutCancel(ctx), dir, "--reverse")) }()
	var pattern []string
	for part := range strings.SplitSeq(m.test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout=5m", "-run="+strings.Join(pattern, "/"), m.folder)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	switch failed := &(exec.ExitError{}); {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return false, fmt.Errorf("%s: there is no test %s in %s", m.name, m.test, m.folder)
	case err == nil:
		return false, nil
	case errors.As(err, &failed) && regexp.MustCompile(`(?m)^(\s*--- FAIL: |panic: )`).Match(out):
		return true, nil
	}
	return false, fmt.Errorf("%s: %w\n%s", m.name, err, out)
}

// all runs the mutations and prints what becomes of each.
func all(ctx context.Context, names []string) error {
	every, err := load(".")
	if err != nil {
		return err
	}
	todo, err := chosen(every, names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutations")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := duplicate(ctx, ".", dir); err != nil {
		return err
	}
	for i, m := range todo { // git apply reads it in another folder
		if todo[i].file, err = filepath.Abs(m.file); err != nil {
			return err
		}
	}
	var survived, failed []string
	for _, m := range todo {
		begun := time.Now()
		found, err := m.run(ctx, dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // such as a patch that does not compile
			failed = append(failed, m.name)
			fmt.Println(err)
			continue
		}
		says := "found by"
		if !found {
			says = "NOT found by"
			survived = append(survived, m.name)
		}
		fmt.Printf("%-40s %s %s (%.1f s)\n", m.name, says, m.test, time.Since(begun).Seconds())
	}
	fmt.Printf("%d of %d mutations found\n", len(todo)-len(survived)-len(failed), len(todo))
	if len(survived)+len(failed) > 0 {
		return fmt.Errorf("survived: %q; could not be run: %q", survived, failed)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := all(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}
