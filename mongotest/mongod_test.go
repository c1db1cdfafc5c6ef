//go:build unix

package mongotest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (w *world) started(t *testing.T, p *program) *Server {
	t.Helper()
	s := &Server{}
	eventually(t, "the server is started", func() bool {
		for line := range strings.Lines(p.output()) {
			if json.Unmarshal([]byte(line), s) == nil && s.URI != "" {
				return true
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("it ended:\n%s", p.output())
		default:
		}
		return false
	})
	return s
}

// TestMongod starts a mongod, initiates its replica set and waits for the
// primary; a port taken meanwhile is no failure.
func TestMongod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "MONGOTEST_SERVER=mongod")
	w.add(t, "mongod", fakeMongod)
	taken := filepath.Join(w.cache, "taken")
	if err := os.MkdirAll(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	p := w.start(t, "FAKE_FAULT=taken:"+taken)
	s := w.started(t, p)
	if s.Engine != "mongodb" || s.Version != "8.0.1" || !strings.Contains(s.URI, "@127.0.0.1:") {
		t.Errorf("got %+v", s)
	}
	if _, err := os.Stat(taken); err == nil {
		t.Error("the port was not found taken")
	}
	args, _ := filepath.Glob(filepath.Join(w.temp, "*", "data", "args"))
	if len(args) != 1 {
		t.Fatalf("%d servers run", len(args))
	}
	text, err := os.ReadFile(args[0])
	if err != nil || !strings.Contains(string(text), "--bind_ip 127.0.0.1 ") || !strings.Contains(string(text), "--replSet ") {
		t.Errorf("started with %s, %v", text, err)
	}
	pid := w.serverPID(t)
	if status := p.wait(t); status != 0 {
		t.Errorf("status %d:\n%s", status, p.output())
	}
	w.gone(t, pid)
}

func TestMongodThatDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "MONGOTEST_SERVER=mongod", "FAKE_FAULT=dies")
	w.add(t, "mongod", fakeMongod)
	p := w.start(t)
	if status := p.wait(t); status != 1 {
		t.Errorf("status %d", status)
	}
	for _, part := range []string{"it ended with status 14", "the disk is on fire"} {
		if !strings.Contains(p.output(), part) {
			t.Errorf("the error has no %q:\n%s", part, p.output())
		}
	}
	if p.took > slow {
		t.Errorf("it took %v to notice", p.took)
	}
	if left, _ := os.ReadDir(w.temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
