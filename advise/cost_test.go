package advise_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// The Cost line of Look, for seven collections.
func TestCosts(t *testing.T) {
	db := mongotest.Database(t)
	opts := unhurried(store(t, db, six(t, 200)))
	cmds := mongotest.Record(t, db, func() { look(t, db, opts) })
	want := 1 + // the list of collections
		2 + // system.profile, $queryStats
		7 + // the size of each collection
		7 + // its fields; none is large
		2 + // the lists of books and products
		2 + // the references of categories and orders
		6 + 1 // a check for each finding, and one more where no index serves the page
	if cmds.RoundTrips() != want {
		t.Errorf("%d round trips, want %d: %v", cmds.RoundTrips(), want, cmds.Names())
	}
}
