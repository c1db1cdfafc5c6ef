package wheel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A pip.py in the current folder, or where PYTHONPATH says, is not run instead of pip.
func TestCurrentFolder(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python")
	}
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	for _, name := range []string{"pip.py", "venv.py", "sitecustomize.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "open(%q, 'w')\n", ran), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("PYTHONPATH", dir)
	_, _ = findPip(t.Context(), t.TempDir()) // the Python of this machine may lack pip
	if _, err := os.Stat(ran); err == nil {
		t.Fatalf("%s has run a file of the current folder", python)
	}
	_, _ = Output(t.Context(), python, "-m", "pip", "--version")
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("without %s it would not have run either: %v", isolated, err)
	}
}
