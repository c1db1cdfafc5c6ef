//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Ctrl-C ends the built command while the server is at work: what was found by then is
// printed, and the exit code says that it is not whole.
func TestInterrupt(t *testing.T) {
	db := mongotest.Database(t)
	var docs []any
	for i := range 150 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}})
	}
	if _, err := db.Collection("books").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "advise")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	block := func(mode any) {
		t.Helper()
		if err := db.Client().Database("admin").RunCommand(context.Background(), bson.D{
			{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode},
			{Key: "data", Value: bson.D{
				{Key: "failCommands", Value: bson.A{"aggregate"}}, {Key: "appName", Value: "mongopatterns advise"},
				{Key: "blockConnection", Value: true}, {Key: "blockTimeMS", Value: 600_000},
			}},
		}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	block(bson.D{{Key: "skip", Value: 2}}) // $queryStats and $collStats; then the look at the fields
	defer block("off")
	cmd := exec.CommandContext(t.Context(), program, "-uri", mongotest.URI(t), "-db", db.Name(), "-max-time", "1h", "-budget", "1h")
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
	if !lines.Scan() || lines.Text() != "1 of 1: books" {
		t.Fatalf("progress: %q", lines.Text())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v", err)
	}
	if !strings.Contains(out.String(), "books: the look was ended before") {
		t.Errorf("printed %s", out.String())
	}
}
