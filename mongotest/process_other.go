//go:build !unix

package mongotest

import (
	"os"
	"runtime"
	"time"
)

// No process that this package starts may outlive the test process, and on this platform only Docker's own
// reaper ensures that.
var errProcesses = absent("cannot be started on " + runtime.GOOS + " so that it goes with the test process; use Docker or set MONGODB_URI")

const (
	stopBound      = 15 * time.Second
	dockerWatchdog = ""
)

func launch(string, []string, ...string) (*process, error) { return nil, errProcesses }

func guarded([]string, string, ...string) (hold *os.File, done <-chan error, err error) {
	return nil, nil, errProcesses
}

func release(*os.File) {}

func (p *process) signal(string) error { return errProcesses }

func private(...string) error { return errProcesses }
