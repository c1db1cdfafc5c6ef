//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// asCommand makes the test binary the command.
const asCommand = "DEVSERVER_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDevserver runs the command as a user does: its first line is a URI
// that serves, and after an interrupt or SIGTERM nothing of the server is left.
func TestDevserver(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	if os.Getenv("MONGODB_URI") != "" {
		t.Skip("MONGODB_URI is set, so nothing is started")
	}
	for _, run := range []struct {
		end  os.Signal
		args []string
	}{{os.Interrupt, nil}, {syscall.SIGTERM, nil}, {syscall.SIGTERM, []string{"-shards", "2"}}} {
		end := run.end
		t.Run(strings.Join(append(run.args, end.String()), " "), func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			cmd := exec.Command(os.Args[0], run.args...)
			cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+data)
			var notes strings.Builder
			cmd.Stderr = &notes
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			lines := bufio.NewReader(out)
			line, err := lines.ReadString('\n')
			uri := strings.TrimSpace(line)
			if err != nil || !strings.HasPrefix(uri, "mongodb://") {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				t.Fatalf("printed %q, %v:\n%s", line, err, notes.String())
			}
			host := insert(t, uri)
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(lines)
			if err := cmd.Wait(); err != nil || len(rest) > 0 {
				t.Errorf("ended with %v, more on its output: %q\n%s", err, rest, notes.String())
			}
			if conn, err := net.DialTimeout("tcp", host, time.Second); err == nil {
				_ = conn.Close()
				t.Error("the server is still there")
			}
			if left, _ := os.ReadDir(data); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// insert uses the server in a transaction and returns its address.
func insert(t *testing.T, uri string) (host string) {
	t.Helper()
	opts := options.Client().ApplyURI(uri)
	client, err := mongo.Connect(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	err = client.UseSession(t.Context(), func(ctx context.Context) error {
		_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
			return client.Database("dev").Collection("c").InsertOne(ctx, bson.D{})
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return opts.Hosts[0]
}

func TestPassword(t *testing.T) { testkit.KeepsPassword(t, asCommand) }
