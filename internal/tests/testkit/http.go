package testkit

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// SlowRequest fails the test if a server that serve makes lets a client keep its connection by sending nothing more
// of a body, or by not reading the answer, or by sending no further request.
func SlowRequest(t *testing.T, serve func(http.Handler) *http.Server) {
	t.Helper()
	server := serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	if server.ReadTimeout <= 0 || server.WriteTimeout <= 0 || server.IdleTimeout <= 0 {
		t.Fatalf("a timeout is not set: read %v, write %v, idle %v", server.ReadTimeout, server.WriteTimeout, server.IdleTimeout)
	}
	server.ReadTimeout = 50 * time.Millisecond // as set, the test would take long
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil { // ends when the server closes the connection
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-served
}
