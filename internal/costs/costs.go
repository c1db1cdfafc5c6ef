// Package costs is for the tests of the packages' Cost lines.
package costs

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Record fails the test unless fn sends exactly these commands, each a round
// trip, and writes this many documents.
func Record(t *testing.T, db *mongo.Database, written int, names []string, fn func() error) mongotest.Commands {
	t.Helper()
	var err error
	cmds := mongotest.Record(t, db, func() { err = fn() })
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cmds.Names(), names) || cmds.RoundTrips() != len(names) {
		t.Fatalf("sent %v, want %v", cmds.Names(), names)
	}
	if n := cmds.DocumentsWritten(); n != written {
		t.Fatalf("%d documents written, want %d", n, written)
	}
	return cmds
}
