package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

type client struct {
	t    *testing.T
	base string
	s    *service
}

// Without a server the service says how to get one.
func TestWithoutAServer(t *testing.T) {
	if err := run(t.Context(), "", "catalog", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "devserver") {
		t.Error(err)
	}
}

func TestPassword(t *testing.T) {
	err := run(t.Context(), "mongodb://bob:Hush", "catalog", "127.0.0.1:0")
	if err == nil || strings.Contains(err.Error(), "Hush") {
		t.Error(err)
	}
}

func start(t *testing.T) *client {
	t.Helper()
	s, err := newService(mongotest.Database(t), [][]byte{[]byte("a key of the tests, of 32 or more")})
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

// do sends a request and returns the answer's status, header and decoded body.
func (c *client) do(method, path, body string) (int, http.Header, map[string]any) {
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
	out := map[string]any{}
	if response.StatusCode != http.StatusNoContent {
		if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return response.StatusCode, response.Header, out
}

func (c *client) want(status int, method, path, body string) map[string]any {
	c.t.Helper()
	got, _, out := c.do(method, path, body)
	if got != status {
		c.t.Fatalf("%s %s %s: status %d, want %d: %v", method, path, body, got, status, out)
	}
	return out
}

func (c *client) category(id, name, parent string) {
	c.t.Helper()
	c.want(201, "POST", "/categories", fmt.Sprintf(`{"id":%q,"name":%q,"parent":%q}`, id, name, parent))
}

func (c *client) product(sku, category string, price int) {
	c.t.Helper()
	c.want(201, "POST", "/products", fmt.Sprintf(`{"sku":%q,"name":%q,"category":%q,"price":%d}`, sku, "Product "+sku, category, price))
}

func names(values any) []string {
	out := []string{}
	for _, value := range values.([]any) {
		out = append(out, value.(map[string]any)["name"].(string))
	}
	return out
}

func (c *client) computerParts() {
	c.category("parts", "Computer Parts", "")
	c.category("storage", "Storage", "parts")
	c.category("drives", "Hard Drives", "storage")
	c.category("ssd", "Solid State Drive", "drives")
	c.category("cables", "Cables", "parts")
}

func TestCategories(t *testing.T) {
	c := start(t)
	c.computerParts()

	var stored bson.M
	if err := c.s.categoryColl.FindOne(t.Context(), bson.D{{Key: "_id", Value: "ssd"}}).Decode(&stored); err != nil {
		t.Fatal(err)
	}
	want := bson.M{"_id": "ssd", "name": "Solid State Drive", "parent_category": "drives",
		"ancestor_categories": bson.A{"parts", "storage", "drives"}}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}

	page := c.want(200, "GET", "/categories/drives", "")
	if diff := cmp.Diff([]string{"Computer Parts", "Storage", "Hard Drives"}, names(page["breadcrumb"])); diff != "" {
		t.Errorf("breadcrumb (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Solid State Drive"}, names(page["children"])); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	whole := c.want(200, "GET", "/categories/parts/tree", "")
	if n := len(whole["children"].([]any)); n != 2 || whole["name"] != "Computer Parts" {
		t.Errorf("tree %v", whole)
	}

	c.want(204, "POST", "/categories/drives/move", `{"parent":"cables"}`)
	page = c.want(200, "GET", "/categories/ssd", "")
	if diff := cmp.Diff([]string{"Computer Parts", "Cables", "Hard Drives", "Solid State Drive"}, names(page["breadcrumb"])); diff != "" {
		t.Errorf("breadcrumb after the move (-want +got):\n%s", diff)
	}
	c.want(204, "DELETE", "/categories/drives", "")
	page = c.want(200, "GET", "/categories/cables", "")
	if diff := cmp.Diff([]string{"Solid State Drive"}, names(page["children"])); diff != "" {
		t.Errorf("children after the deletion (-want +got):\n%s", diff)
	}

	for _, bad := range []struct {
		status             int
		method, path, body string
	}{
		{404, "GET", "/categories/none", ""},
		{404, "GET", "/categories/none/products", ""},
		{404, "POST", "/categories", `{"id":"x","name":"X","parent":"none"}`},
		{409, "POST", "/categories", `{"id":"ssd","name":"again"}`},
		{409, "POST", "/categories/parts/move", `{"parent":"ssd"}`},
		{400, "POST", "/categories", `{"id":""}`},
		{400, "POST", "/categories", `{"id":"x","name":"X","unknown":1}`},
		{400, "POST", "/categories", `{"id":"x"`},
		{400, "POST", "/products", `{"sku":"p"}`},
		{404, "POST", "/products", `{"sku":"p","name":"P","category":"none","price":1}`},
	} {
		out := c.want(bad.status, bad.method, bad.path, bad.body)
		if out["error"] == "" {
			t.Errorf("%s %s: no reason given", bad.method, bad.path)
		}
	}
}

var next = regexp.MustCompile(`<([^>]*)>; rel="(\w+)"`)

// links reads a Link header.
func links(header http.Header) map[string]string {
	out := map[string]string{}
	for _, match := range next.FindAllStringSubmatch(header.Get("Link"), -1) {
		out[match[2]] = match[1]
	}
	return out
}

func TestProductPages(t *testing.T) {
	c := start(t)
	c.computerParts()
	for i := range 23 {
		c.product(fmt.Sprintf("s%02d", i), []string{"ssd", "drives", "storage"}[i%3], i%5*100)
	}
	c.product("cable", "cables", 100)

	// Follow the links forward, then back.
	walk := func(path, rel string) (skus []string, last string) {
		for path != "" {
			last = path
			status, header, page := c.do("GET", path, "")
			if status != 200 {
				t.Fatalf("%s: status %d: %v", path, status, page)
			}
			var ids []string
			for _, item := range page["items"].([]any) {
				ids = append(ids, item.(map[string]any)["sku"].(string))
			}
			if rel == "next" {
				skus = append(skus, ids...)
			} else {
				skus = append(ids, skus...)
			}
			path = links(header)[rel]
		}
		return skus, last
	}
	forward, last := walk("/categories/storage/products?limit=5&sort=-price", "next")
	if len(forward) != 23 {
		t.Fatalf("%d products below storage: %v", len(forward), forward)
	}
	seen := map[string]bool{}
	for _, sku := range forward {
		if seen[sku] || sku == "cable" {
			t.Errorf("%s twice, or of another category", sku)
		}
		seen[sku] = true
	}
	back, _ := walk(last, "prev")
	if diff := cmp.Diff(forward, back); diff != "" {
		t.Errorf("back against forward:\n%s", diff)
	}

	// A token of one list is refused by another.
	_, header, _ := c.do("GET", "/categories/storage/products?limit=5", "")
	following, err := url.Parse(links(header)["next"])
	if err != nil {
		t.Fatal(err)
	}
	query := following.RawQuery
	c.want(200, "GET", "/categories/storage/products?"+query, "")
	c.want(400, "GET", "/categories/parts/products?"+query, "")
	c.want(400, "GET", "/categories/storage/products?sort=price&"+query, "")
	c.want(400, "GET", "/categories/storage/products?after=nonsense", "")
	c.want(400, "GET", "/categories/storage/products?sort=colour", "")
	page := c.want(200, "GET", "/categories/storage/products?limit=1000000", "")
	if n := len(page["items"].([]any)); n != 23 {
		t.Errorf("%d items with the limit clamped", n)
	}
	page = c.want(200, "GET", "/categories/parts/products?sort=price&limit=1", "")
	if items := page["items"].([]any); len(items) != 1 || page["hasNext"] != true {
		t.Errorf("page %v", page)
	}
}

// A category is deleted or gets a product, never both.
func TestDeleteAgainstAdd(t *testing.T) {
	c := start(t)
	c.category("root", "Root", "")
	for i := range 10 {
		id := fmt.Sprintf("c%d", i)
		c.category(id, "Category", "root")
		var group sync.WaitGroup
		var deleted, added error
		group.Go(func() { deleted = c.s.deleteCategory(context.Background(), id) })
		group.Go(func() {
			added = c.s.addProduct(context.Background(), product{SKU: id, Name: "P", Category: id})
		})
		group.Wait()
		if (deleted == nil) == (added == nil) {
			t.Errorf("delete: %v, add: %v; want exactly one to succeed", deleted, added)
		}
		products, err := c.s.productColl.CountDocuments(t.Context(), bson.D{{Key: "category", Value: id}})
		if err != nil {
			t.Fatal(err)
		}
		categories, err := c.s.categoryColl.CountDocuments(t.Context(), bson.D{{Key: "_id", Value: id}})
		if err != nil {
			t.Fatal(err)
		}
		if products != categories {
			t.Errorf("%d products of %d categories", products, categories)
		}
	}
}

// One request is one value.
func TestTrailingBytes(t *testing.T) {
	c := start(t)
	for _, rest := range []string{`{"id":"storage"}`, "}", "x", `"`} {
		answer := c.want(400, "POST", "/categories", `{"id":"parts","name":"Computer Parts"}`+rest)
		if text := fmt.Sprint(answer["error"]); !strings.Contains(text, "body") {
			t.Errorf("%q after the body: %s", rest, text)
		}
	}
	c.want(404, "GET", "/categories/parts", "")
}

func TestSlowRequest(t *testing.T) { testkit.SlowRequest(t, newServer) }

// Each command in a transaction meets a conflict once, so that its function runs again: nothing changes for the client.
func TestTransactionsRunAgain(t *testing.T) {
	c := start(t)
	c.computerParts()
	expect := func(status int, method, path, body string) error {
		if got, _, out := c.do(method, path, body); got != status {
			return fmt.Errorf("%s %s: status %d, want %d: %v", method, path, got, status, out)
		}
		return nil
	}
	mongotest.RunAgain(t, c.s.productColl.Database(), func(n int) error {
		id := fmt.Sprint("tapes", n)
		return errors.Join(
			expect(201, "POST", "/categories", fmt.Sprintf(`{"id":%q,"name":"Tapes","parent":"storage"}`, id)),
			expect(201, "POST", "/products", fmt.Sprintf(`{"sku":%q,"name":"Tape","category":"ssd","price":100}`, id)),
			expect(204, "DELETE", "/categories/"+id, ""),
		)
	})
}
