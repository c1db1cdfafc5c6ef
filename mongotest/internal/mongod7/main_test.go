//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeWine puts a wine on the PATH that prints its arguments and its TMPDIR.
func fakeWine(t *testing.T) {
	t.Helper()
	bin := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$TMPDIR\"\n"
	if err := os.WriteFile(filepath.Join(bin, "wine"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
}

// The wrapper changes what Windows has otherwise, keeps all else, and keeps Wine's folder out of the caller's TMPDIR.
func TestWrapper(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	fakeWine(t)
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bin", "mongod")
	if err := os.WriteFile(path, []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "--dbpath", "/tmp/a b", "--keyFile", "/tmp/key", "--nounixsocket", "--port", "1", "--setParameter", "x=/y").CombinedOutput()
	want := []string{dir + "/mongod.exe", "--dbpath", `Z:\tmp\a b`, "--keyFile", `Z:\tmp\key`, "--port", "1", "--setParameter", "x=/y", dir + "/tmp", ""}
	if got := string(out); got != strings.Join(want, "\n") || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestThereInstallsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server")
	t.Setenv("PATH", t.TempDir())
	if err := ready(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "apt-get install wine") {
		t.Errorf("without Wine: %v", err)
	}
	fakeWine(t)
	if err := ready(t.Context(), dir, true); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it made the folder")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ready(t.Context(), dir, true); err == nil || !strings.Contains(err.Error(), "remove "+dir) {
		t.Errorf("files that are not those of the wheels: %v", err)
	}
}
