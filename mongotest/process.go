package mongotest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A process is a child that dies with this process, however this ends, and whose folder is removed with it.
// The file for each platform says how. The folder has:
//
//	data    empty, for the child
//	tmp     empty, for the child
//	log     what the child printed
//	pid     the child's process id
//	exit    the child's exit status, once it has one
//	key     what keyVariable has in the environment, for the owner alone
type process struct {
	dir   string
	stop  func() error // ends the child and removes dir; idempotent
	again func() error // starts the child anew in the same folder, ending it first if it runs
}

// keyVariable of the environment hands the key of a replica set to the watchdog, because everyone sees arguments.
const keyVariable = "MONGOTEST_KEY"

// roomForData is the free space that a memory file system needs to hold the data of a server: the tests of a
// big module leave some 100 MB, the log of operations grows to 256 MB.
const roomForData = 2 << 30

// newFolderName names a folder that does not exist yet: in TMPDIR, or in memory if there is room, because a
// majority write takes half the time there.
func newFolderName() string {
	parent := os.TempDir()
	if os.Getenv("TMPDIR") == "" {
		if memory := roomyMemory(roomForData); memory != "" {
			parent = memory
		}
	}
	return filepath.Join(parent, "mongotest-"+randomName())
}

func randomName() string {
	var random [8]byte
	rand.Read(random[:]) // never fails
	return fmt.Sprintf("%x", random)
}

func (p *process) log() []byte {
	text, _ := os.ReadFile(filepath.Join(p.dir, "log")) // not there yet: empty
	return text
}

// exited returns the child's exit status once it is dead.
func (p *process) exited() (status string, dead bool) {
	text, err := os.ReadFile(filepath.Join(p.dir, "exit"))
	if err == nil && bytes.HasSuffix(text, []byte("\n")) {
		return strings.TrimSpace(string(text)), true
	}
	if _, err := os.Stat(p.dir); err != nil {
		return "unknown", true // its folder is gone, so its watchdog is
	}
	return "", false
}

// tail returns the end of a log for an error, and the last that the thread that starts a mongod says before it: of a
// mongod that does not get ready, other threads may have the end to themselves.
func tail(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if from := len(lines) - 15; from > 0 {
		starting := slices.DeleteFunc(slices.Clone(lines[:from]), func(line string) bool { return !strings.Contains(line, `"ctx":"initandlisten"`) })
		lines = append(starting[max(len(starting)-5, 0):], lines[from:]...)
	}
	for i, line := range lines {
		if len(line) > 500 {
			lines[i] = line[:500] + "…"
		}
	}
	if text := strings.Join(lines, "\n"); text != "" {
		return "the end of its log:\n" + text
	}
	return "it printed nothing"
}

// poll calls ready every 50 ms until it reports true, the child dies, or the
// bound is over.
func (p *process) poll(ctx context.Context, bound time.Duration, ready func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(bound)
	for {
		status, dead := p.exited() // before ready: the log is complete then
		switch {
		case ready():
			return nil
		case dead:
			return fmt.Errorf("it ended with status %s; %s", status, tail(p.log()))
		case time.Now().After(deadline):
			return fmt.Errorf("it is not ready after %v; %s", bound, tail(p.log()))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
