//go:build unix

package mongotest

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// TestContainer starts a container for real. It goes with Close, and with the
// process.
func TestContainer(t *testing.T) {
	if !apart(t) {
		return
	}
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	t.Setenv("MONGODB_URI", "")
	s, err := Start(t.Context(), &Options{Server: "docker", Stderr: io.Discard})
	if err != nil && (strings.Contains(err.Error(), "no Docker engine answers") || strings.Contains(err.Error(), "the engine has no image")) {
		t.Skip("no Docker engine with the image, or a way to get it: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Engine != "mongodb" || s.Version == "" || s.Members() != nil {
		t.Errorf("got %+v", s)
	}
	gone := func(uri string) {
		t.Helper()
		host := options.Client().ApplyURI(uri).Hosts[0]
		eventually(t, "the container is gone", func() bool {
			conn, err := net.DialTimeout("tcp", host, time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	gone(s.URI)

	w := newWorld(t)
	w.env = append(os.Environ(), "TMPDIR="+w.temp, "MONGOTEST_SERVER=docker")
	p := w.start(t)
	uri := w.started(t, p).URI
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(uri)
	if out := p.output(); strings.Count(out, "\n") != 1 {
		t.Errorf("it printed more than the server:\n%s", out)
	}
}
