package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

type client struct {
	t    *testing.T
	base string
	s    *service
}

// cluster is where the tests run with the service's collections sharded; nil: mongotest's server.
var cluster *mongotest.Server

// The service is the same on a sharded cluster. The film Dumbo, its screenings and their seats do not lie on
// one shard: a sale is a transaction over both.
func TestSharded(t *testing.T) {
	cluster = mongotest.Sharded(t, 2)
	defer func() { cluster = nil }()
	for name, test := range map[string]func(*testing.T){"service": TestService, "rush": TestRush, "broken counter": TestABrokenCounter,
		"prices": TestPrices, "check": TestCheckComparesSeatsWithViewers} {
		t.Run(name, test)
	}
}

func start(t *testing.T) *client {
	t.Helper()
	if cluster != nil {
		c := startOn(t, cluster.Database(t))
		for coll, from := range map[string]bson.E{"films": {Key: "_id", Value: "e"}, "screenings": {Key: "film", Value: "a"}, "seats": {Key: "_id", Value: "g"}} {
			if err := cluster.Move(t.Context(), c.s.db.Collection(coll), bson.D{from}, bson.D{{Key: from.Key, Value: bson.MaxKey{}}}, 1); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	return startOn(t, mongotest.Database(t))
}

func startOn(t *testing.T, db *mongo.Database) *client {
	t.Helper()
	s, err := newService(db)
	if err != nil {
		t.Fatal(err)
	}
	prepare := s.ensureIndexes
	if cluster != nil {
		prepare = s.shard
	}
	if err := prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	return &client{t, server.URL, s}
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
	c.want(422, "film", "POST", "/screenings", `{"id":"sat","film":"bambi","price":8,"rows":[3]}`)
	c.want(201, "[B.1 B.2 B.3 B.4]", "POST", "/screenings/fri/holds", `{"order":"7","seats":4}`)
	c.want(409, "taken", "POST", "/screenings/fri/holds", `{"order":"8","seats":4}`)
	c.want(409, "taken: B.1", "POST", "/screenings/fri/sales", `{"order":"8","seats":["A.1","B.1"]}`)
	c.want(201, "B.1", "POST", "/screenings/fri/sales", `{"order":"7","seats":["B.1","B.2"]}`)
	c.want(201, "B.1", "POST", "/screenings/fri/sales", `{"order":"7","seats":["B.1","B.2"]}`) // sent again
	c.want(200, "claimed:2 free:0 held:2 section:B", "GET", "/screenings/fri/seats", "")
	c.want(200, "pageViews:1 revenue:16 title:Dumbo viewers:2", "GET", "/films/dumbo", "")
	c.want(200, "pageViews:2", "GET", "/films/dumbo", "")
	for _, rows := range []string{"[3,-1]", "[1000000000]", "[]"} {
		c.want(400, "rows", "POST", "/screenings", `{"id":"sat","film":"dumbo","price":8,"rows":`+rows+`}`)
	}
	c.want(400, "seats", "POST", "/screenings/fri/sales", `{"order":"7","seats":[]}`)
	c.want(201, "[A.1 A.2]", "POST", "/screenings/fri/holds", `{"order":"9","seats":2}`)
	c.want(201, "[A.1 A.2]", "POST", "/screenings/fri/holds", `{"order":"9","seats":2}`) // sent again
	for path, body := range map[string]string{
		"/films": `{"id":"x"}`, "/screenings": `{"id":"x"}`, "/screenings/fri/holds": `{"order":"","seats":1}`,
		"/screenings/fri/sales": `{"order":"x","seats":["A"]}`, "/films ": `{`,
	} {
		c.want(400, "error", "POST", strings.TrimSpace(path), body)
	}
	c.want(404, "no such seat", "POST", "/screenings/fri/sales", `{"order":"x","seats":["Z.1"]}`)
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

// A page that is asked for before the service is told to stop is answered, and its view is counted.
func TestStopWhileAPageIsRead(t *testing.T) {
	asked, answer := make(chan bool), make(chan bool)
	var once sync.Once
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "find" {
			once.Do(func() { asked <- true; <-answer })
		}
	}}))
	c := startOn(t, db)
	c.want(201, "Dumbo", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped, status := make(chan error, 1), make(chan int, 1)
	go func() { stopped <- serve(ctx, c.s, listener) }()
	c.base = "http://" + listener.Addr().String()
	go func() {
		got, _ := c.do("GET", "/films/dumbo", "")
		status <- got
	}()
	<-asked
	stop()
	for { // until the service takes no more
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		conn.Close()
		time.Sleep(time.Millisecond)
	}
	answer <- true
	if got := <-status; got != http.StatusOK {
		t.Errorf("the page is answered with %d", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := db.Collection("page_views").FindOne(t.Context(), bson.M{"_id": "dumbo", "count": 1}).Err(); err != nil {
		t.Error(err)
	}
}

// A film's page is shown though its views cannot be counted.
func TestABrokenCounter(t *testing.T) {
	c := start(t)
	c.want(201, "Dumbo", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	if _, err := c.s.db.Collection("page_views").InsertOne(t.Context(), bson.M{"_id": "dumbo", "count": "many"}); err != nil {
		t.Fatal(err)
	}
	c.want(200, "title:Dumbo", "GET", "/films/dumbo", "")
	if err := c.s.views.Close(t.Context()); err == nil {
		t.Fatal("the counter is not broken")
	}
	c.want(200, "title:Dumbo", "GET", "/films/dumbo", "")
}

// A price that would overflow the revenue is refused.
func TestPrices(t *testing.T) {
	c := start(t)
	c.want(201, "Dumbo", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	c.want(400, "price", "POST", "/screenings", `{"id":"fri","film":"dumbo","price":9223372036854775807,"rows":[2]}`)
	c.want(400, "price", "POST", "/screenings", `{"id":"fri","film":"dumbo","price":-1,"rows":[2]}`)
	c.want(201, "fri", "POST", "/screenings", `{"id":"fri","film":"dumbo","price":1000000,"rows":[2]}`)
}

// Check compares the seats that are sold with the viewers, which are two documents.
func TestCheckComparesSeatsWithViewers(t *testing.T) {
	c := start(t)
	c.want(201, "Dumbo", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`)
	for _, id := range []string{"fri", "sat"} {
		c.want(201, id, "POST", "/screenings", `{"id":"`+id+`","film":"dumbo","price":8,"rows":[3]}`)
	}
	c.want(201, "A.1", "POST", "/screenings/fri/sales", `{"order":"7","seats":["A.1","A.2"]}`)
	c.want(200, "<nil>", "GET", "/check", "")
	if _, err := c.s.db.Collection("seats").UpdateByID(t.Context(), "fri", bson.M{"$set": bson.M{"cells.A.3": bson.M{"by": "8"}}}); err != nil {
		t.Fatal(err)
	}
	c.want(200, "want:3", "GET", "/check", "")
	if _, err := c.s.db.Collection("seats").UpdateByID(t.Context(), "sat", bson.M{"$set": bson.M{"cells.A.3": bson.M{"by": "8", "until": "soon"}}}); err != nil {
		t.Fatal(err)
	}
	c.want(200, "malformed", "GET", "/check", "")
}

// One request is one value.
func TestTrailingBytes(t *testing.T) {
	c := start(t)
	for _, rest := range []string{`{"id":"bambi"}`, "}", "x", `"`} {
		c.want(400, "body", "POST", "/films", `{"id":"dumbo","title":"Dumbo"}`+rest)
	}
	c.want(404, "not found", "GET", "/films/dumbo", "")
}

// Without a server the service says how to get one.
func TestWithoutAServer(t *testing.T) {
	if err := run(t.Context(), "", "cinema", "127.0.0.1:0", false); err == nil || !strings.Contains(err.Error(), "devserver") {
		t.Error(err)
	}
}

func TestPassword(t *testing.T) {
	err := run(t.Context(), "mongodb://bob:Hush", "cinema", "127.0.0.1:0", false)
	if err == nil || strings.Contains(err.Error(), "Hush") {
		t.Error(err)
	}
}

func TestSlowRequest(t *testing.T) { testkit.SlowRequest(t, newServer) }
