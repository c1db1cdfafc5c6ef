package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Ctrl-C ends the command while the server is at work: it prints what it has found
// and exits with 2.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals there")
	}
	db := mongotest.Database(t)
	long := make(bson.A, 5000)
	for i := range long {
		long[i] = "an element of some length"
	}
	for name, lists := range map[string]int{"books": 2, "films": 0} {
		var docs []any
		for i := range 200 {
			list := bson.A{"a"}
			if i < lists {
				list = long
			}
			docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "buyers", Value: list}})
		}
		if _, err := db.Collection(name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(mode any) {
		t.Helper()
		if err := db.Client().Database("admin").RunCommand(context.Background(), bson.D{
			{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode},
			{Key: "data", Value: bson.D{
				{Key: "failCommands", Value: bson.A{"aggregate"}}, {Key: "appName", Value: "mongopatterns advise"},
				{Key: "namespace", Value: db.Name() + ".films"},
				{Key: "blockConnection", Value: true}, {Key: "blockTimeMS", Value: 10_000},
			}},
		}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Each command on films hangs for seconds, but for the first, which asks for their size.
	fail(bson.D{{Key: "skip", Value: 1}})
	defer func() {
		kill(t, mongotest.Admin(t, db)) // the fail point would wait for those that hang
		fail("off")
	}()

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-uri", mongotest.URI(t), "-db", db.Name(), "-max-time", "2m", "-budget", "1h")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var out strings.Builder
	cmd.Stdout = &out
	notes, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(notes)
	for lines.Scan() {
		if lines.Text() == "2 of 2: films" {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("%v, want exit code %d", err, exitFailed)
	}
	if !strings.Contains(out.String(), "1. books.buyers: outlier\n") || !strings.Contains(out.String(), "films: the look was ended before") {
		t.Errorf("printed %s", out.String())
	}
}

// kill ends what the server still does for the command, which has another user.
func kill(t *testing.T, db *mongo.Database) {
	t.Helper()
	admin, ctx := db.Client().Database("admin"), context.Background()
	cursor, err := admin.Aggregate(ctx, mongo.Pipeline{{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}}}}, {{Key: "$match", Value: bson.D{{Key: "appName", Value: "mongopatterns advise"}, {Key: "command.$db", Value: db.Name()}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var ops []struct {
		ID any `bson:"opid"`
	}
	if err := cursor.All(ctx, &ops); err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		if err := admin.RunCommand(ctx, bson.D{{Key: "killOp", Value: 1}, {Key: "op", Value: op.ID}}).Err(); err != nil {
			t.Error(err)
		}
	}
}
