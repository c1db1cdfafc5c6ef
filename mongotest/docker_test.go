//go:build unix

package mongotest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// fakeEngine is a Docker engine that has no image; pull answers the request for
// one.
func fakeEngine(t *testing.T, pull http.HandlerFunc) client.APIClient {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.44")
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			pull(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"message":"no such image"}`)
		}
	}))
	t.Cleanup(server.Close)
	engine, err := client.New(client.WithHost("tcp://" + server.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

func TestPull(t *testing.T) {
	t.Parallel()
	message := func(w http.ResponseWriter, text string) {
		_, _ = fmt.Fprintln(w, text)
		w.(http.Flusher).Flush()
	}
	for name, c := range map[string]struct {
		pull   http.HandlerFunc
		within time.Duration // the patience of the starter; default a minute, so that the answer comes first
		err    string        // "" for none
		absent bool
		notes  string
	}{
		"refused": {
			pull: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				message(w, `{"message":"lookup registry: no such host"}`)
			},
			err: "no such host", absent: true,
		},
		"no answer": {
			pull:   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			within: 500 * time.Millisecond,
			err:    "no registry answers within 500ms", absent: true,
		},
		"retries only": {
			pull: func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					message(w, `{"status":"Retrying in 1 second"}`)
					time.Sleep(50 * time.Millisecond)
				}
			},
			within: 500 * time.Millisecond,
			err:    "no registry answers within 500ms", absent: true,
		},
		"slow": { // longer than the patience, but moving
			pull: func(w http.ResponseWriter, _ *http.Request) {
				for range 10 {
					message(w, `{"status":"Downloading","id":"x","progressDetail":{"current":1,"total":10}}`)
					time.Sleep(250 * time.Millisecond)
				}
			},
			within: 2 * time.Second,
			notes:  "pulling the image mongo:7.0",
		},
		"fails halfway": {
			pull: func(w http.ResponseWriter, _ *http.Request) {
				message(w, `{"status":"Downloading"}`)
				message(w, `{"errorDetail":{"message":"no space left"},"error":"no space left"}`)
			},
			err: "no space left", absent: true, notes: "pulling the image mongo:7.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var notes bytes.Buffer
			s := &starter{stderr: &notes, patience: cmp.Or(c.within, time.Minute)}
			begin := time.Now()
			err := s.pull(t.Context(), fakeEngine(t, c.pull), dockerImage)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v", err)
			}
			if missing := absent(""); errors.As(err, &missing) != c.absent {
				t.Errorf("absent is not %v in %#v", c.absent, err)
			}
			if !strings.Contains(notes.String(), c.notes) || (notes.Len() == 0) != (c.notes == "") {
				t.Errorf("noted %q", notes.String())
			}
			if took := time.Since(begin); took > slow {
				t.Errorf("it took %v", took)
			}
		})
	}
}
