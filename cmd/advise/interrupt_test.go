package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Ctrl-C ends the built command while the server is at work: it prints what it has found
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
	binary := filepath.Join(t.TempDir(), "advise")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
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
	defer fail("off")

	cmd := exec.CommandContext(t.Context(), binary, "-uri", mongotest.URI(t), "-db", db.Name(), "-max-time", "2m", "-budget", "1h")
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
