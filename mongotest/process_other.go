//go:build !unix

package mongotest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// launch starts argv without a watchdog: here the child and its folder stay
// when this process ends without stop.
func launch(dir string, env []string, argv ...string) (*process, error) {
	for _, name := range []string{"data", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Start()
	_ = log.Close()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the status says it
		_ = os.WriteFile(filepath.Join(dir, "exit"), fmt.Appendln(nil, cmd.ProcessState.ExitCode()), 0o600)
		close(done)
	}()
	return &process{dir: dir, again: func() error { return errSignals }, stop: sync.OnceValue(func() error {
		_ = cmd.Process.Kill() // it may be dead already
		<-done
		return os.RemoveAll(dir)
	})}, nil
}

// signal does nothing here.
func (p *process) signal(string) error { return errSignals }

var errSignals = fmt.Errorf("on %s: %w; it needs a Unix system", runtime.GOOS, errors.ErrUnsupported)

const stopBound = 15 * time.Second

const dockerWatchdog = ""

// guarded does nothing here.
func guarded([]string, string, ...string) (hold *os.File, done <-chan error, err error) {
	return nil, nil, errors.ErrUnsupported
}

func release(*os.File) {}
