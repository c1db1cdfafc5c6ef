package testkit

import (
	"flag"
	"testing"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Main is [mongotest.Main] with eight parallel tests instead of one for each core, because most of the time they wait for
// the server. The flag -parallel of the command line still counts.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	mongotest.Main(m)
}
