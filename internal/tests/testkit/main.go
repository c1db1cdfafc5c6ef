package testkit

import (
	"flag"
	"runtime/debug"
	"testing"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Main is [mongotest.Main] with eight parallel tests instead of one for each core, because most of the time they wait for
// the server. The flag -parallel of the command line still counts. The garbage collector runs less often, because it takes a
// tenth of the time of a test, and the memory of a test is small. Each command is compared with docs/privileges.csv.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	checkRights()
	debug.SetGCPercent(400)
	mongotest.Main(m)
}
