package attribute_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func unique() *options.IndexOptionsBuilder { return options.Index().SetUnique(true) }

// record wants exactly these commands and this many documents written.
func record(t *testing.T, db *mongo.Database, written int, names []string, fn func() error) mongotest.Commands {
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
