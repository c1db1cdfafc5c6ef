package mongotest

import (
	"flag"
	"os"
	"testing"
)

// Main runs the tests of a package whose examples use [ExampleDatabase]:
//
//	func TestMain(m *testing.M) { mongotest.Main(m) }
//
// Under -short it leaves out the examples, because they cannot skip themselves. At the end it drops
// their databases and exits.
func Main(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		skip := "^Example"
		if given := flag.Lookup("test.skip").Value.String(); given != "" {
			skip = "(?:" + given + ")|" + skip
		}
		if err := flag.Set("test.skip", skip); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	examples.Lock()
	for _, db := range examples.dbs {
		_ = theShared.Load().discard(db) // best effort: the server goes with the process
	}
	examples.Unlock()
	stopShared()
	os.Exit(code)
}
