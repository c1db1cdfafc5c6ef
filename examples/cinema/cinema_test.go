package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

type client struct {
	t    *testing.T
	base string
}

func start(t *testing.T) *client {
	t.Helper()
	s, err := newService(mongotest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ensureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	return &client{t, server.URL}
}

// do sends a request and returns the status and the decoded answer.
func (c *client) do(method, path, body string) (int, any) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var out any
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, out
}

func (c *client) want(status int, text, method, path, body string) {
	c.t.Helper()
	got, out := c.do(method, path, body)
	if got != status || !strings.Contains(fmt.Sprint(out), text) {
		c.t.Errorf("%s %s: %d %v, want %d %s", method, path, got, out, status, text)
	}
}

func TestService(t *testing.T) {
	c := start(t)
	c.want(201, "Dumbo", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	c.want(409, "exists", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	c.want(201, "fri", "POST", "/screenings", `{"id":"fri","film":"dumbo","price":8,"rows":[3,4]}`)
	c.want(404, "film", "POST", "/screenings", `{"id":"sat","film":"bambi","price":8,"rows":[3]}`)
	c.want(201, "[B1 B2 B3 B4]", "POST", "/screenings/fri/holds", `{"order":"7","seats":4}`)
	c.want(409, "taken", "POST", "/screenings/fri/holds", `{"order":"8","seats":4}`)
	c.want(409, "taken: B1", "POST", "/screenings/fri/sales", `{"order":"8","seats":["A1","B1"]}`)
	c.want(201, "B1", "POST", "/screenings/fri/sales", `{"order":"7","seats":["B1","B2"]}`)
	c.want(201, "B1", "POST", "/screenings/fri/sales", `{"order":"7","seats":["B1","B2"]}`) // sent again
	c.want(200, "claimed:2 free:0 held:2 section:B", "GET", "/screenings/fri/seats", "")
	c.want(200, "pageViews:1 revenue:16 title:Dumbo viewers:2", "GET", "/films/dumbo", "")
	c.want(200, "pageViews:2", "GET", "/films/dumbo", "")
	for _, rows := range []string{"[3,-1]", "[1000000000]", "[]"} {
		c.want(400, "rows", "POST", "/screenings", `{"id":"sat","film":"dumbo","price":8,"rows":`+rows+`}`)
	}
	c.want(400, "seats", "POST", "/screenings/fri/sales", `{"order":"7","seats":[]}`)
	c.want(201, "[A1 A2]", "POST", "/screenings/fri/holds", `{"order":"9","seats":2}`)
	c.want(201, "[A1 A2]", "POST", "/screenings/fri/holds", `{"order":"9","seats":2}`) // sent again
	for path, body := range map[string]string{
		"/films": `{"id":"x"}`, "/screenings": `{"id":"x"}`, "/screenings/fri/holds": `{"order":"","seats":1}`,
		"/screenings/fri/sales": `{"order":"x","seats":["A"]}`, "/films ": `{`,
	} {
		c.want(400, "error", "POST", strings.TrimSpace(path), body)
	}
	c.want(404, "no such cell", "POST", "/screenings/fri/sales", `{"order":"x","seats":["Z1"]}`)
	c.want(404, "not found", "GET", "/films/bambi", "")
	c.want(404, "not found", "GET", "/screenings/sun/seats", "")
	c.want(200, "<nil>", "GET", "/check", "")
}

// Thirty customers buy two seats each of twenty, some twice: ten get them, the totals are
// theirs, and nothing is inconsistent.
func TestRush(t *testing.T) {
	c := start(t)
	c.want(201, "", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	c.want(201, "", "POST", "/screenings", `{"id":"fri","film":"dumbo","price":8,"rows":[10,10]}`)
	var sold atomic.Int64
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			status, seats := c.do("POST", "/screenings/fri/holds", fmt.Sprintf(`{"order":"%d","seats":2}`, i))
			if status == http.StatusConflict {
				return
			}
			if status != http.StatusCreated {
				t.Error(status, seats)
				return
			}
			names, err := json.Marshal(seats)
			if err != nil {
				t.Error(err)
			}
			for range 1 + i%2 {
				if status, out := c.do("POST", "/screenings/fri/sales", fmt.Sprintf(`{"order":"%d","seats":%s}`, i, names)); status != http.StatusCreated {
					t.Error(status, out)
				}
			}
			sold.Add(2)
		})
	}
	group.Wait()
	if sold.Load() != 20 {
		t.Errorf("%d seats sold", sold.Load())
	}
	c.want(200, "revenue:160 title:Dumbo viewers:20", "GET", "/films/dumbo", "")
	c.want(200, "<nil>", "GET", "/check", "")
}
