package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

type client struct {
	t    *testing.T
	base string
	s    *service
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
	c.want(201, "Bilbo Baggins", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins","plan":"Shire standard"}`)
	c.want(409, "exists", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins"}`)
	before := time.Now()
	time.Sleep(5 * time.Millisecond) // revisions are told apart by milliseconds
	c.want(201, "premium:9", "POST", "/policies/bilbo/covers", `{"author":"elrond","reason":"from the troll cave","kind":"item","item":{"name":"Elven Sword","value":900}}`)
	c.want(201, "premium:37", "POST", "/policies/bilbo/covers", `{"author":"gandalf","kind":"travel","travel":{"days":14}}`)
	c.want(200, "revision:3", "GET", "/policies/bilbo", "")
	c.want(200, "revision:1", "GET", "/policies/bilbo?at="+url.QueryEscape(before.Format(time.RFC3339Nano)), "")
	c.want(200, "from the troll cave", "GET", "/policies/bilbo/history", "")
	c.want(400, "error", "POST", "/policies", `{"id":"x"}`)
	c.want(400, "kind", "POST", "/policies/bilbo/covers", `{"kind":"dragon"}`)
	c.want(400, "at", "GET", "/policies/bilbo?at=yesterday", "")
	c.want(404, "error", "GET", "/policies/smaug", "")
	c.want(404, "error", "GET", "/policies/smaug/history", "")
	c.want(200, "<nil>", "GET", "/check", "")
}

// A policy of the old schema: read as the new one, upgraded by its first save, and still
// in the history as it was, each item once.
func TestOldPolicies(t *testing.T) {
	c := start(t)
	policies := c.s.db.Collection("current_policies")
	old := bson.D{{Key: "_id", Value: "bilbo"}, {Key: "name", Value: "Bilbo Baggins"}, {Key: "policy", Value: "Shire standard"},
		{Key: "items", Value: bson.A{"Elven Sword"}}, {Key: "note", Value: "of another program"}}
	if _, err := policies.InsertOne(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	c.want(200, "Elven Sword", "GET", "/policies/bilbo", "")
	c.want(201, "One Ring", "POST", "/policies/bilbo/covers", `{"author":"gandalf","kind":"item","item":{"name":"One Ring","value":100000}}`)
	raw, err := policies.FindOne(t.Context(), bson.M{"_id": "bilbo"}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	covers, _ := raw.Lookup("covers").Array().Values()
	if len(covers) != 2 || raw.Lookup("items").Type != 0 || raw.Lookup("note").StringValue() == "" || raw.Lookup("schema_version").AsInt64() != 2 {
		t.Errorf("stored %v", raw)
	}
	status, out := c.do("GET", "/policies/bilbo/history", "")
	all, ok := out.([]any)
	if status != 200 || !ok || len(all) != 2 {
		t.Fatalf("%d %v", status, out)
	}
	for _, one := range all {
		r := one.(map[string]any)
		if n := len(r["policy"].(map[string]any)["covers"].([]any)); float64(n) != r["revision"] {
			t.Errorf("%d covers in %v", n, r)
		}
	}
	past, err := c.s.db.Collection("policy_revisions").FindOne(t.Context(), bson.M{"policy_id": "bilbo", "revision": 1}).Raw()
	if err != nil || past.Lookup("document", "items").Type != bson.TypeArray {
		t.Errorf("the past is not as it was: %v, %v", past, err)
	}
	c.want(200, "<nil>", "GET", "/check", "")
}

// Eight agents add a cover each at once: all are there.
func TestAgents(t *testing.T) {
	c := start(t)
	c.want(201, "", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins"}`)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			c.want(201, "", "POST", "/policies/bilbo/covers", fmt.Sprintf(`{"author":"%d","kind":"travel","travel":{"days":1}}`, i))
		})
	}
	group.Wait()
	c.want(200, "revision:9", "GET", "/policies/bilbo", "")
	c.want(200, "premium:16", "GET", "/policies/bilbo", "")
	c.want(200, "<nil>", "GET", "/check", "")
}

func TestCustomers(t *testing.T) {
	c := start(t)
	for name, docs := range map[string][]any{
		"shire_customers": {bson.M{"name": "Bilbo Baggins", "since": 2941}, bson.M{"name": "Frodo Baggins", "since": 3001}},
		"rohan_customers": {bson.M{"first_name": "Éowyn", "house": "Rohan", "joined": bson.M{"year": 3000}}},
	} {
		if _, err := c.s.db.Collection(name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	c.want(200, "[map[company:shire name:Bilbo Baggins since:2941] map[company:rohan name:Éowyn of Rohan since:3000] map[company:shire name:Frodo Baggins since:3001]]", "GET", "/customers", "")
}

// A cover that another program has left as null counts nothing, also when one is added to it.
func TestANullCover(t *testing.T) {
	c := start(t)
	c.want(201, "Bilbo", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins"}`)
	if _, err := c.s.db.Collection("current_policies").UpdateByID(t.Context(), "bilbo", bson.M{"$set": bson.M{"covers": bson.A{nil}}}); err != nil {
		t.Fatal(err)
	}
	c.want(200, "covers:[<nil>]", "GET", "/policies/bilbo", "")
	c.want(201, "premium:4", "POST", "/policies/bilbo/covers", `{"author":"elrond","kind":"travel","travel":{"days":2}}`)
}

// Clients see which kind a cover is of.
func TestCoversNameTheirKind(t *testing.T) {
	c := start(t)
	c.want(201, "Bilbo", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins"}`)
	c.want(201, "covers:[map[days:2 kind:travel]]", "POST", "/policies/bilbo/covers", `{"author":"elrond","kind":"travel","travel":{"days":2}}`)
	c.want(200, "covers:[map[days:2 kind:travel]]", "GET", "/policies/bilbo", "")
}

// A cover of a kind that this program does not know is shown and kept as it is. A policy of a newer
// version is for a newer instance of the service: 503, and not an error inside.
func TestNewerPrograms(t *testing.T) {
	c := start(t)
	policies := c.s.db.Collection("current_policies")
	c.want(201, "Bilbo", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins"}`)
	dragon := bson.D{{Key: "kind", Value: "dragon"}, {Key: "name", Value: "Smaug"}}
	if _, err := policies.UpdateByID(t.Context(), "bilbo", bson.M{"$set": bson.M{"covers": bson.A{dragon}}}); err != nil {
		t.Fatal(err)
	}
	c.want(200, "covers:[map[kind:dragon name:Smaug]]", "GET", "/policies/bilbo", "")
	c.want(201, "premium:4", "POST", "/policies/bilbo/covers", `{"author":"elrond","kind":"travel","travel":{"days":2}}`)
	c.want(200, "[map[kind:dragon name:Smaug] map[days:2 kind:travel]]", "GET", "/policies/bilbo", "")
	if err := policies.FindOne(t.Context(), bson.M{"covers.0": dragon}).Err(); err != nil {
		t.Error(err)
	}
	if _, err := policies.UpdateByID(t.Context(), "bilbo", bson.M{"$set": bson.M{"schema_version": 99}}); err != nil {
		t.Fatal(err)
	}
	c.want(503, "newer version", "GET", "/policies/bilbo", "")
	c.want(503, "newer version", "POST", "/policies/bilbo/covers", `{"author":"elrond","kind":"travel","travel":{"days":2}}`)
	c.want(200, "newer version", "GET", "/policies/bilbo/history", "")
}

// One request is one value.
func TestTrailingBytes(t *testing.T) {
	c := start(t)
	for _, rest := range []string{`{"id":"frodo"}`, "}", "x", `"`} {
		c.want(400, "body", "POST", "/policies", `{"id":"bilbo","holder":"Bilbo Baggins"}`+rest)
	}
	c.want(404, "not found", "GET", "/policies/bilbo", "")
}

// Without a server the service says how to get one.
func TestWithoutAServer(t *testing.T) {
	if err := run(t.Context(), "", "insurance", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "devserver") {
		t.Error(err)
	}
}

func TestPassword(t *testing.T) {
	err := run(t.Context(), "mongodb://bob:Hush", "insurance", "127.0.0.1:0")
	if err == nil || strings.Contains(err.Error(), "Hush") {
		t.Error(err)
	}
}

func TestSlowRequest(t *testing.T) { testkit.SlowRequest(t, newServer) }
