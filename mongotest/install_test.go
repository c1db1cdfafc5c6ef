//go:build unix

package mongotest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pips returns the process ids of the runs of pip.
func (w *world) pips() (pids []int) {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(w.bin), "pip.log"))
	for line := range strings.Lines(string(text)) {
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		pids = append(pids, pid)
	}
	return pids
}

func pythonWorld(t *testing.T, env ...string) *world {
	w := newWorld(t, append([]string{"MONGOTEST_SERVER=secantus-py"}, env...)...)
	w.add(t, "python3", fakePython)
	return w
}

// left lists what a finished installation must not leave in the cache.
func (w *world) left() []string {
	parts, _ := filepath.Glob(filepath.Join(w.cache, "*.part-*"))
	return parts
}

func TestParallelProcessesInstallOnce(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t)
	var programs []*program
	for range 5 {
		programs = append(programs, w.start(t))
	}
	said := 0
	for _, p := range programs {
		if s := w.started(t, p); s.Engine != engineSecantusPython || s.Version != "0.0.7" {
			t.Errorf("got %+v", s)
		}
		if status := p.wait(t); status != 0 {
			t.Errorf("status %d:\n%s", status, p.output())
		}
		if strings.Contains(p.output(), "installing SecantusDB") {
			said++
			if !strings.Contains(p.output(), "usually takes") || !strings.Contains(p.output(), "installed in") {
				t.Errorf("the notes lack how long it takes:\n%s", p.output())
			}
		}
	}
	if n := len(w.pips()); n != 1 || said != 1 {
		t.Errorf("installed %d times, said so %d times", n, said)
	}
	if left := w.left(); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestFailureIsSharedByThoseWhoWaited(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t, "FAKE_PIP=fails")
	programs := []*program{w.start(t)}
	eventually(t, "pip runs", func() bool { return len(w.pips()) == 1 })
	for range 3 {
		programs = append(programs, w.start(t))
	}
	for _, p := range programs {
		if status := p.wait(t); status != 1 || !strings.Contains(p.output(), "No matching distribution") {
			t.Errorf("status %d:\n%s", status, p.output())
		}
	}
	if n := len(w.pips()); n != 1 {
		t.Errorf("tried %d times", n)
	}
	if left := w.left(); left != nil {
		t.Errorf("left behind: %v", left)
	}
	// The failure binds only those who waited.
	p := w.start(t, "FAKE_PIP=")
	w.started(t, p)
	if status := p.wait(t); status != 0 || len(w.pips()) != 2 {
		t.Errorf("later: status %d, %d runs:\n%s", status, len(w.pips()), p.output())
	}
}

func TestKilledInstallationIsRedone(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t)
	if err := os.Mkdir(w.cache, 0o700); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(w.cache, "secantus-py-"+secantusPythonVersion+".failed")
	if err := rememberFailure(old, errors.New("long ago")); err != nil {
		t.Fatal(err)
	}
	p := w.start(t, "FAKE_PIP=stalls")
	eventually(t, "pip runs", func() bool { return len(w.pips()) == 1 })
	waiting := w.start(t)
	eventually(t, "another waits", func() bool { return strings.Contains(waiting.output(), "waiting for another process") })
	if len(w.left()) != 1 {
		t.Errorf("half-made: %v", w.left())
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.started(t, waiting)
	eventually(t, "the first pip is gone", func() bool { return syscall.Kill(w.pips()[0], 0) != nil })
	if status := waiting.wait(t); status != 0 {
		t.Errorf("status %d:\n%s", status, waiting.output())
	}
	if n := len(w.pips()); n != 2 {
		t.Errorf("tried %d times", n)
	}
	if left := w.left(); left != nil {
		t.Errorf("left behind: %v", left)
	}
	eventually(t, "no temporary folder is left", func() bool {
		left, _ := os.ReadDir(w.temp)
		return len(left) == 0
	})
}

func TestInstallationWhosePythonIsGoneIsRedone(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t)
	for run := range 2 {
		p := w.start(t)
		w.started(t, p)
		if status := p.wait(t); status != 0 || len(w.pips()) != run+1 {
			t.Errorf("run %d: status %d, %d installations:\n%s", run, status, len(w.pips()), p.output())
		}
		python := filepath.Join(w.cache, "secantus-py-"+secantusPythonVersion, "bin", "python")
		if err := os.Remove(python); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(w.bin, "python3.1"), python); err != nil {
			t.Fatal(err)
		}
	}
}

// inside runs an installation in this process, with a patience of its own.
func (w *world) inside(t *testing.T, patience time.Duration) (*Server, string, error) {
	for _, variable := range append(w.env, "MONGODB_URI=") {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	var notes bytes.Buffer
	s := &starter{choice: engineSecantusPython, stderr: &notes, cache: w.cache, patience: patience}
	server, err := s.start(t.Context())
	return server, notes.String(), err
}

func TestNoAnswerFromTheIndexIsBounded(t *testing.T) {
	w := pythonWorld(t, "FAKE_PIP=hangs")
	begin := time.Now()
	_, notes, err := w.inside(t, time.Second)
	if err == nil || !strings.Contains(err.Error(), "no answer from the network") || !strings.Contains(err.Error(), "Collecting") {
		t.Errorf("got %v\n%s", err, notes)
	}
	if took := time.Since(begin); took > slow {
		t.Errorf("it took %v", took)
	}
	eventually(t, "pip is gone", func() bool { return len(w.pips()) == 1 && syscall.Kill(w.pips()[0], 0) != nil })
}

func TestSlowDownloadIsNotCut(t *testing.T) {
	w := pythonWorld(t, "FAKE_PIP=slow")
	server, notes, err := w.inside(t, time.Second)
	if err != nil {
		t.Fatalf("%v\n%s", err, notes)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	w := pythonWorld(t)
	if err := os.WriteFile(w.cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.inside(t, time.Second); err == nil || !strings.Contains(err.Error(), "MONGOTEST_CACHE") {
		t.Errorf("got %v", err)
	}
}
