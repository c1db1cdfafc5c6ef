package mongotest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
)

// When Pause returns, no thread of the member runs any more.
func TestPauseHasStopped(t *testing.T) {
	t.Parallel()
	set := ReplicaSet(t, 1)
	if len(set.Members()) == 0 {
		t.Skip("not started here as a process: MONGODB_URI or a container")
	}
	m := set.Members()[0]
	for range scale.Of(20, 50, 50) {
		if err := m.Pause(); err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", m.process.pid()))
		if err != nil || len(threads) == 0 {
			t.Fatal(threads, err)
		}
		for _, path := range threads {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), "\nState:\tT") {
				t.Fatalf("%s, %v:\n%s", path, err, text)
			}
		}
		if err := m.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}
