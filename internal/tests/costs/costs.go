// Package costs is for the tests of the packages' Cost lines.
package costs

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Case is a call and its cost.
type Case struct {
	Name   string
	Before func()                          // runs before Call and is not counted; nil for nothing
	Call   func(ctx context.Context) error // a case fails if it returns an error
	Sends  []string                        // the commands in order, each a round trip
	Writes int                             // the documents that they write

	// The plan of one of the commands, if Index, Keys or Docs is set.
	Explain    int    // which command
	Index      string // that it uses; "" for any
	Keys, Docs int64  // that it looks at, at most; 0 and 0 for any number
	NoSort     bool   // it does not sort in memory

	Indexed bool                          // no command of the case scans a collection
	Check   func(cmds mongotest.Commands) // whatever else holds for the commands; nil for nothing
}

// Run runs the cases one after another: a case finds what those before it have stored. It returns their commands.
func Run(t *testing.T, db *mongo.Database, cases []Case) (all mongotest.Commands) {
	t.Helper()
	for _, c := range cases {
		t.Log(c.Name)
		if c.Before != nil {
			c.Before()
		}
		cmds := Record(t, db, c.Writes, c.Sends, func() error { return c.Call(t.Context()) })
		all = append(all, cmds...)
		if c.Indexed {
			for _, cmd := range cmds.Named("find", "aggregate", "update", "findAndModify", "delete") {
				if plan := mongotest.Explain(t, db, cmd.Body); plan.Has("COLLSCAN") {
					t.Fatalf("%s: %s", cmd.Body, plan)
				}
			}
		}
		if c.Check != nil {
			c.Check(cmds)
		}
		if c.Index == "" && c.Keys+c.Docs == 0 {
			continue
		}
		plan := mongotest.Explain(t, db, cmds[c.Explain].Body)
		if plan.Has("COLLSCAN") {
			t.Fatal(plan)
		}
		if c.Index != "" {
			plan.RequireIndex(t, c.Index)
		}
		if c.Keys+c.Docs > 0 {
			plan.RequireExamined(t, c.Keys, c.Docs)
		}
		if c.NoSort {
			plan.RequireNoSort(t)
		}
	}
	return all
}

// NoHints fails t if a command has a hint, which not every server takes.
func NoHints(t *testing.T, cmds mongotest.Commands) {
	t.Helper()
	for _, c := range cmds {
		if strings.Contains(c.Body.String(), `"hint"`) {
			t.Fatal("a hint: ", c.Body)
		}
	}
}

// Record fails the test unless fn sends exactly these commands, each a round
// trip, and writes this many documents.
func Record(t *testing.T, db *mongo.Database, written int, names []string, fn func() error) mongotest.Commands {
	t.Helper()
	var err error
	cmds := Unfenced(mongotest.Record(t, db, func() { err = fn() }))
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

// Unfenced leaves out what ends a transaction in the background after an abort whose answer took long: an
// aggregate on a database of its own, an abort of a transaction that has no other command here, hello and
// killSessions.
func Unfenced(cmds mongotest.Commands) mongotest.Commands {
	transaction := func(c mongotest.Command) string {
		return c.Body.Lookup("lsid").String() + c.Body.Lookup("txnNumber").String()
	}
	cmds = slices.DeleteFunc(cmds, func(c mongotest.Command) bool {
		db, _ := c.Body.Lookup("$db").StringValueOK()
		return c.Name == "aggregate" && db == "mongopatterns" || c.Name == "hello" || c.Name == "killSessions"
	})
	known := map[string]bool{}
	for _, c := range cmds {
		if c.Name != "abortTransaction" {
			known[transaction(c)] = true
		}
	}
	return slices.DeleteFunc(cmds, func(c mongotest.Command) bool { return c.Name == "abortTransaction" && !known[transaction(c)] })
}

// Examined fails t unless a command uses the index and looks at no more than this many keys and documents.
func Examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64) {
	t.Helper()
	plan := mongotest.Explain(t, db, c.Body)
	plan.RequireIndex(t, index)
	plan.RequireExamined(t, keys, docs)
}
