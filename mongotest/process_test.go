//go:build unix

package mongotest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEndOfProcess runs tests that end in every way there is and looks for
// their server afterwards.
func TestEndOfProcess(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name   string
		args   []string
		signal syscall.Signal
		fault  string
		output string
	}{
		{name: "pass", output: "PASS"},
		{name: "fail", output: "FAIL"},
		{name: "main", output: "PASS"},
		{name: "panic", output: "panic: the victim"},
		{name: "exit"},
		{name: "timeout", args: []string{"-test.timeout=1s"}, output: "panic: test timed out"},
		{name: "block", signal: syscall.SIGKILL},
		{name: "block", signal: syscall.SIGINT},
		{name: "block", signal: syscall.SIGQUIT},
		{name: "block", signal: syscall.SIGKILL, fault: "stubborn"},
	} {
		name := end.name + strings.Join(end.args, "") + end.fault
		if end.signal != 0 {
			name += "-" + end.signal.String()
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "MONGOTEST_SERVER=mongod", "MONGOTEST_TEST_END="+end.name, "FAKE_FAULT="+end.fault)
			w.add(t, "mongod", fakeMongod)
			p := w.run(t, nil, append([]string{"-test.run=^TestVictim$"}, end.args...)...)
			pid := w.serverPID(t)
			_ = p.in.Close() // the victim ends
			if end.signal != 0 {
				eventually(t, "the victim blocks", func() bool { return strings.Contains(p.output(), "blocking") })
				if err := p.cmd.Process.Signal(end.signal); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-p.ended: // and nobody has its output open
			case <-time.After(time.Minute):
				t.Fatalf("the victim does not end:\n%s", p.output())
			}
			w.gone(t, pid)
			if !strings.Contains(p.output(), end.output) {
				t.Errorf("the victim ended otherwise:\n%s", p.output())
			}
		})
	}
}

// victimOfTimeout starts the server of TestVictim before its time-out begins to count, however busy the machine is.
func victimOfTimeout() {
	if os.Getenv("MONGOTEST_TEST_END") != "timeout" {
		return
	}
	if _, err := shared(); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has found the server
}

// TestVictim is one test of a package, run by TestEndOfProcess.
func TestVictim(t *testing.T) {
	end := os.Getenv("MONGOTEST_TEST_END")
	if end == "" {
		t.Skip("run by TestEndOfProcess")
	}
	if end == "set" || end == "cluster" {
		opts := map[string]*Options{"set": {Members: 3}, "cluster": {Shards: 2}}[end]
		s, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := append(s.Members(), s.Shards()...)[1].Pause(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("blocking")
		time.Sleep(time.Hour)
	}
	if _, err := shared(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has found the server
	switch end {
	case "fail":
		t.Error("as asked for")
	case "main":
		stopShared()
	case "panic":
		panic("the victim")
	case "exit":
		os.Exit(3)
	case "block", "timeout":
		fmt.Println("blocking")
		time.Sleep(time.Hour)
	}
}

// TestServerOutlivesItsValue: programs may keep the URI and forget the Server.
func TestServerOutlivesItsValue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "process")
	before := map[any]bool{}
	held.Range(func(hold, _ any) bool {
		before[hold] = true
		return true
	})
	// The process is forgotten at once.
	if _, err := launch(dir, []string{"PATH=/usr/bin:/bin"}, "sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	for range 25 {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
		if _, dead := (&process{dir: dir}).exited(); dead {
			t.Fatal("the garbage collector stopped it")
		}
	}
	held.Range(func(hold, _ any) bool {
		if !before[hold] {
			held.Delete(hold)
			_ = hold.(*os.File).Close()
		}
		return true
	})
	eventually(t, "the folder is removed", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestLaunchReportsTheEnd(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "process")
	p, err := launch(dir, []string{"PATH=/usr/bin:/bin"}, "sh", "-c", "echo one; echo two >&2; exit 7")
	if err != nil {
		t.Fatal(err)
	}
	err = p.poll(t.Context(), time.Minute, func() bool { return false })
	if err == nil || err.Error() != "it ended with status 7; the end of its log:\none\ntwo" {
		t.Errorf("got %v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := launch(filepath.Join(dir, "no", "such"), nil, "true"); err == nil {
		t.Error("no error for a folder that cannot be made")
	}
	p, err = launch(dir, nil, filepath.Join(dir, "no-such-program"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.stop() }()
	if err := p.poll(t.Context(), time.Minute, func() bool { return false }); err == nil || !strings.Contains(err.Error(), "status 127") {
		t.Errorf("got %v", err)
	}
}

// The end of a log has what the thread that starts the server said last, however much others say after it.
func TestTail(t *testing.T) {
	log := "first\n"
	for i := range 7 {
		log += fmt.Sprintf(`{"ctx":"initandlisten","msg":"step %d"}`+"\n", i)
	}
	log += strings.Repeat("another thread\n", 20)
	got := tail([]byte(log))
	if n := strings.Count(got, "\n"); n != 20 || strings.Contains(got, "step 1") || !strings.Contains(got, "step 2") || !strings.Contains(got, "step 6") {
		t.Errorf("%d lines:\n%s", n, got)
	}
	if got := tail([]byte("a\nb\n")); got != "the end of its log:\na\nb" {
		t.Error(got)
	}
}

// A signal for a server whose process is not known, while it is started again, reaches nobody: neither the process of before,
// whose number may be another's, nor this one, which the number 0 stands for.
func TestSignalBetweenTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := &process{dir: dir}
	if err := p.signal("CONT"); err == nil || strings.Contains(err.Error(), "does not run") {
		t.Errorf("no pid: %v", err)
	}
	for _, text := range []string{"", "0\n", "-1\n"} {
		if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.signal("CONT"); err == nil {
			t.Errorf("a signal for pid %q", text)
		}
	}
}
