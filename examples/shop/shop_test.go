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
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

type client struct {
	t    *testing.T
	base string
	s    *service
}

// Without a server the service says how to get one.
func TestWithoutAServer(t *testing.T) {
	if err := run(t.Context(), "", "shop", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "devserver") {
		t.Error(err)
	}
}

func TestPassword(t *testing.T) {
	err := run(t.Context(), "mongodb://bob:Hush", "shop", "127.0.0.1:0")
	if err == nil || strings.Contains(err.Error(), "Hush") {
		t.Error(err)
	}
}

// start serves a shop whose products keep 3 reviews and 3 buyers.
func start(t *testing.T) *client {
	t.Helper()
	s, err := newService(mongotest.Database(t), settings{
		tokenKeys: [][]byte{[]byte("a key of the tests, of 32 or more")}, keptReviews: 3, insideBuyers: 3,
	})
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

type header map[string]string

// do sends a request and returns the answer's status, header and decoded body.
func (c *client) do(method, path, body string, headers ...header) (int, http.Header, map[string]any) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range headers {
		for name, value := range h {
			request.Header.Set(name, value)
		}
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

func (c *client) want(status int, method, path, body string, headers ...header) map[string]any {
	c.t.Helper()
	got, _, out := c.do(method, path, body, headers...)
	if got != status {
		c.t.Fatalf("%s %s %s: status %d, want %d: %v", method, path, body, got, status, out)
	}
	return out
}

func (c *client) stock() {
	c.want(201, "POST", "/categories", `{"id":"parts","name":"Computer Parts"}`)
	c.want(201, "POST", "/categories", `{"id":"storage","name":"Storage","parent":"parts"}`)
	c.want(201, "POST", "/categories", `{"id":"drives","name":"Hard Drives","parent":"storage"}`)
	c.want(201, "POST", "/categories", `{"id":"cables","name":"Cables","parent":"parts"}`)
	for _, p := range []string{
		`{"sku":"hd-1","name":"Disk One","category":"drives","price":4900,"specs":{"color":"black","size":1000}}`,
		`{"sku":"hd-2","name":"Disk Two","category":"drives","price":7900,"specs":{"color":"black","size":2000}}`,
		`{"sku":"hd-3","name":"Disk Three","category":"drives","price":12900,"specs":{"color":"red","size":4000}}`,
		`{"sku":"ca-1","name":"Cable","category":"cables","price":500,"specs":{"color":"red"}}`,
		`{"sku":"st-1","name":"Dock","category":"storage","price":3900}`,
	} {
		c.want(201, "POST", "/products", p)
	}
}

func (c *client) customer(id, name string) {
	c.t.Helper()
	c.want(201, "POST", "/customers", fmt.Sprintf(
		`{"id":%q,"name":%q,"email":"","address":{"street":"1 Main St","city":"Atlanta"}}`, id, name), header{"X-User": "desk"})
}

func texts(items any, key string) []string {
	out := []string{}
	for _, item := range items.([]any) {
		out = append(out, fmt.Sprint(item.(map[string]any)[key]))
	}
	return out
}

var nextLink = regexp.MustCompile(`<([^>]*)>; rel="next"`)

// pages follows the links of a list.
func (c *client) pages(path, key string) [][]string {
	c.t.Helper()
	var out [][]string
	for {
		status, h, body := c.do("GET", path, "")
		if status != 200 {
			c.t.Fatalf("GET %s: status %d: %v", path, status, body)
		}
		out = append(out, texts(body["items"], key))
		next := nextLink.FindStringSubmatch(h.Get("Link"))
		if next == nil {
			return out
		}
		u, err := url.Parse(next[1])
		if err != nil {
			c.t.Fatal(err)
		}
		path = u.RequestURI()
	}
}

func TestProducts(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	for path, want := range map[string][][]string{
		"/categories/parts/products?limit=2":                                  {{"Cable", "Disk One"}, {"Disk Three", "Disk Two"}, {"Dock"}},
		"/categories/storage/products?sort=-price&limit=3":                    {{"Disk Three", "Disk Two", "Disk One"}, {"Dock"}},
		"/categories/parts/products?spec=color:red&sort=price":                {{"Cable", "Disk Three"}},
		"/categories/parts/products?spec=color:red&spec=size:1000..5000":      {{"Disk Three"}},
		"/categories/drives/products?spec=size:1000..2000":                    {{"Disk One"}},
		"/categories/drives/products?spec=size:2000":                          {{"Disk Two"}},
		"/categories/cables/products?spec=size:2000":                          {{}},
		"/categories/parts/products?spec=color:black&limit=1&sort=price":      {{"Disk One"}, {"Disk Two"}},
		"/categories/drives/products?spec=" + url.QueryEscape("color:$where"): {{}},
	} {
		if diff := cmp.Diff(want, c.pages(path, "name")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}

	facets := c.want(200, "GET", "/categories/storage/facets", "")["facets"]
	want := []any{
		map[string]any{"key": "color", "count": 3., "distinct": 2., "values": []any{
			map[string]any{"value": "black", "count": 2.}, map[string]any{"value": "red", "count": 1.}}},
		map[string]any{"key": "size", "count": 3., "distinct": 3., "values": []any{
			map[string]any{"value": 1000., "count": 1.}, map[string]any{"value": 2000., "count": 1.}, map[string]any{"value": 4000., "count": 1.}}},
	}
	if diff := cmp.Diff(any(want), facets); diff != "" {
		t.Errorf("facets (-want +got):\n%s", diff)
	}

	c.want(204, "PUT", "/products/hd-1/specs/color", `{"value":"green"}`)
	c.want(204, "PUT", "/products/hd-1/specs/quiet", `{"value":true}`)
	c.want(204, "DELETE", "/products/hd-1/specs/size", "")
	page := c.want(200, "GET", "/products/hd-1", "")
	specs := []any{map[string]any{"key": "color", "value": "green"}, map[string]any{"key": "quiet", "value": true}}
	if diff := cmp.Diff(any(specs), page["specs"]); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Computer Parts", "Storage", "Hard Drives"}, texts(page["breadcrumb"], "name")); diff != "" {
		t.Errorf("breadcrumb (-want +got):\n%s", diff)
	}

	for _, bad := range []struct {
		status             int
		method, path, body string
	}{
		{400, "POST", "/products", `{"sku":"x","name":"X","category":"drives","price":-1}`},
		{400, "POST", "/products", `{"sku":"x","name":"X","category":"drives","price":1,"specs":{"a":[1]}}`},
		{400, "POST", "/products", `{"sku":"x","nam":"X"}`},
		{404, "POST", "/products", `{"sku":"x","name":"X","category":"none","price":1}`},
		{409, "POST", "/products", `{"sku":"hd-1","name":"X","category":"drives","price":1}`},
		{404, "GET", "/products/none", ""},
		{404, "PUT", "/products/none/specs/color", `{"value":"red"}`},
		{404, "DELETE", "/products/hd-1/specs/size", ""},
		{400, "PUT", "/products/hd-1/specs/color", `{"value":{"$gt":""}}`},
		{404, "GET", "/categories/none/products", ""},
		{400, "GET", "/categories/parts/products?sort=weight", ""},
		{400, "GET", "/categories/parts/products?spec=color", ""},
		{400, "GET", "/categories/parts/products?spec=size:a..b", ""},
		{400, "GET", "/categories/parts/products?after=forged", ""},
	} {
		c.want(bad.status, bad.method, bad.path, bad.body)
	}
	if n, err := c.s.productColl.CountDocuments(t.Context(), bson.D{}); err != nil || n != 5 {
		t.Errorf("%d products, %v", n, err)
	}
}

func TestReviews(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	var ids []string
	for i, rating := range []int{5, 4, 3, 2, 1} {
		added := c.want(201, "POST", "/products/hd-1/reviews", fmt.Sprintf(`{"author":"ann","rating":%d,"text":"review %d"}`, rating, i))
		ids = append(ids, added["id"].(string))
	}
	shows := func(texted []string, count, rating float64) {
		t.Helper()
		page := c.want(200, "GET", "/products/hd-1", "")
		if diff := cmp.Diff(texted, texts(page["reviews"], "text")); diff != "" {
			t.Errorf("newest (-want +got):\n%s", diff)
		}
		if page["reviewCount"] != count || page["rating"] != rating {
			t.Errorf("%v reviews, mean %v; want %v, %v", page["reviewCount"], page["rating"], count, rating)
		}
	}
	shows([]string{"review 4", "review 3", "review 2"}, 5, 3)
	c.want(204, "PUT", "/products/hd-1/reviews/"+ids[3], `{"rating":5,"text":"better"}`)
	shows([]string{"review 4", "better", "review 2"}, 5, 3.6)
	c.want(204, "DELETE", "/products/hd-1/reviews/"+ids[4], "")
	shows([]string{"better", "review 2", "review 1"}, 4, 4.25)
	want := [][]string{{"better", "review 2", "review 1"}, {"review 0"}}
	if diff := cmp.Diff(want, c.pages("/products/hd-1/reviews?limit=3", "text")); diff != "" {
		t.Errorf("all reviews (-want +got):\n%s", diff)
	}
	c.want(404, "DELETE", "/products/hd-1/reviews/"+ids[4], "")
	c.want(404, "PUT", "/products/hd-2/reviews/"+ids[0], `{"rating":5,"text":"another product's"}`)
	c.want(404, "POST", "/products/none/reviews", `{"author":"ann","rating":5,"text":""}`)
	c.want(404, "GET", "/products/none/reviews", "")
	c.want(400, "POST", "/products/hd-1/reviews", `{"author":"ann","rating":6,"text":""}`)
	c.want(400, "DELETE", "/products/hd-1/reviews/x", "")
	c.checked()
}

func TestBuyers(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	for i := range 6 {
		id := fmt.Sprint("c", i)
		c.customer(id, "Customer "+id)
		for range 2 { // once is enough to be a buyer
			c.want(201, "POST", "/orders", fmt.Sprintf(`{"customer":%q,"lines":[{"sku":"hd-1","quantity":1}]}`, id))
		}
	}
	page := c.want(200, "GET", "/products/hd-1/buyers?limit=4", "")
	if diff := cmp.Diff(map[string]any{"items": []any{"c0", "c1", "c2", "c3"}, "total": 6., "hasNext": true}, page); diff != "" {
		t.Errorf("first page (-want +got):\n%s", diff)
	}
	page = c.want(200, "GET", "/products/hd-1/buyers?limit=4&offset=4", "")
	if diff := cmp.Diff(map[string]any{"items": []any{"c4", "c5"}, "total": 6., "hasNext": false}, page); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	var stored struct {
		Buyers []string `bson:"buyers"`
		Flag   bool     `bson:"has_more_buyers"`
	}
	if err := c.s.productColl.FindOne(t.Context(), bson.D{{Key: "_id", Value: "hd-1"}}).Decode(&stored); err != nil {
		t.Fatal(err)
	}
	if len(stored.Buyers) != 3 || !stored.Flag {
		t.Errorf("the product keeps %v, flag %v", stored.Buyers, stored.Flag)
	}
	c.want(201, "POST", "/products/hd-1/reviews", `{"author":"c1","rating":5,"text":""}`)
	c.checked()

	c.want(204, "DELETE", "/products/hd-1", "")
	c.want(404, "DELETE", "/products/hd-1", "")
	c.checked()
	c.want(404, "GET", "/products/hd-1/buyers", "")
	for _, name := range []string{"buyers", "reviews"} {
		if n, err := c.s.productColl.Database().Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
			t.Errorf("%s: %d left, %v", name, n, err)
		}
	}
	orders := c.want(200, "GET", "/customers/c0/orders", "")["items"].([]any)
	if len(orders) != 2 || orders[0].(map[string]any)["lines"].([]any)[0].(map[string]any)["name"] != "Disk One" {
		t.Errorf("orders after the deletion: %v", orders)
	}
	c.want(400, "GET", "/products/hd-2/buyers?offset=-1", "")
}

func TestCustomers(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	c.customer("ann", "Ann")
	between := time.Now().UTC()
	time.Sleep(5 * time.Millisecond) // revisions are told apart by the millisecond
	status, h, _ := c.do("GET", "/customers/ann", "")
	if status != 200 || h.Get("ETag") != `"1"` {
		t.Fatalf("status %d, ETag %s", status, h.Get("ETag"))
	}
	c.want(201, "POST", "/orders", `{"customer":"ann","lines":[{"sku":"hd-1","quantity":2},{"sku":"ca-1","quantity":1}]}`)

	moved := `{"id":"ann","name":"Ann Summers","email":"ann@example.com","address":{"street":"9 Sea Rd","city":"Seattle"}}`
	status, h, _ = c.do("PUT", "/customers/ann", moved, header{"If-Match": `"1"`, "X-User": "ann", "X-Reason": "moved"})
	if status != 200 || h.Get("ETag") != `"2"` {
		t.Fatalf("status %d, ETag %s", status, h.Get("ETag"))
	}
	c.want(412, "PUT", "/customers/ann", moved, header{"If-Match": `"1"`})
	c.want(200, "PUT", "/customers/ann", moved, header{"If-Match": `"2"`}) // changes nothing
	if _, h, _ := c.do("GET", "/customers/ann", ""); h.Get("ETag") != `"2"` {
		t.Errorf("a save without a change made revision %s", h.Get("ETag"))
	}

	orders := c.want(200, "GET", "/customers/ann/orders", "")["items"].([]any)
	got := orders[0].(map[string]any)
	wantCustomer := map[string]any{"id": "ann", "name": "Ann Summers",
		"address": map[string]any{"street": "1 Main St", "city": "Atlanta"}}
	if diff := cmp.Diff(wantCustomer, got["customer"]); diff != "" {
		t.Errorf("the order's customer (-want +got):\n%s", diff)
	}
	if got["total"] != 10300. {
		t.Errorf("total %v", got["total"])
	}
	before := c.want(200, "GET", "/customers/ann?as_of="+url.QueryEscape(between.Format(time.RFC3339Nano)), "")
	if before["name"] != "Ann" {
		t.Errorf("as of then: %v", before)
	}
	revisions := c.want(200, "GET", "/customers/ann/revisions", "")["revisions"]
	if diff := cmp.Diff([]string{"ann", "desk"}, texts(revisions, "author")); diff != "" {
		t.Errorf("authors (-want +got):\n%s", diff)
	}

	c.want(409, "DELETE", "/customers/ann", "", header{"If-Match": `"2"`})
	c.want(200, "GET", "/customers/ann", "")
	c.customer("bob", "Bob")
	c.want(412, "DELETE", "/customers/bob", "", header{"If-Match": `"7"`})
	c.want(204, "DELETE", "/customers/bob", "", header{"If-Match": `"1"`, "X-User": "desk"})
	c.want(404, "GET", "/customers/bob", "")
	revisions = c.want(200, "GET", "/customers/bob/revisions", "")["revisions"]
	if diff := cmp.Diff([]string{"2", "1"}, texts(revisions, "number")); diff != "" {
		t.Errorf("revisions of one deleted (-want +got):\n%s", diff)
	}
	c.customer("bob", "Bob again")
	if _, h, _ := c.do("GET", "/customers/bob", ""); h.Get("ETag") != `"3"` {
		t.Errorf("created again as %s", h.Get("ETag"))
	}
	c.want(409, "POST", "/customers", `{"id":"ann","name":"Ann","email":"","address":{"street":"","city":""}}`)
	c.want(404, "GET", "/customers/none", "")
	c.want(404, "PUT", "/customers/none", `{"id":"none","name":"N","email":"","address":{"street":"","city":""}}`, header{"If-Match": "1"})
	c.want(400, "PUT", "/customers/ann", moved)
	c.want(400, "GET", "/customers/ann?as_of=yesterday", "")
	c.checked()
}

// An order that fails leaves nothing.
func TestOrderFails(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	c.customer("ann", "Ann")
	c.want(422, "POST", "/orders", `{"customer":"ann","lines":[{"sku":"hd-1","quantity":1},{"sku":"none","quantity":1}]}`)
	c.want(404, "POST", "/orders", `{"customer":"none","lines":[{"sku":"hd-1","quantity":1}]}`)
	c.want(400, "POST", "/orders", `{"customer":"ann","lines":[]}`)
	c.want(400, "POST", "/orders", `{"customer":"ann","lines":[{"sku":"hd-1","quantity":0}]}`)
	if n, err := c.s.orderColl.CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d orders, %v", n, err)
	}
	if page := c.want(200, "GET", "/products/hd-1/buyers", ""); page["total"] != 0. {
		t.Errorf("buyers %v", page)
	}
	var stored bson.M
	if err := c.s.orderColl.Database().Collection("customers").FindOne(t.Context(), bson.D{{Key: "_id", Value: "ann"}}).Decode(&stored); err != nil {
		t.Fatal(err)
	}
	if len(stored) != 6 { // _id, name, email, address, revision, change
		t.Errorf("left on the customer: %v", stored)
	}
}

// Orders, reviews and new names at once leave every copy and count right.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	c.customer("ann", "Ann 0")
	for i := range 5 {
		c.customer(fmt.Sprint("c", i), "Customer")
	}
	const saves = 5
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			for _, id := range []string{"ann", fmt.Sprint("c", i)} {
				if status, _, body := c.do("POST", "/orders", fmt.Sprintf(
					`{"customer":%q,"lines":[{"sku":"hd-2","quantity":1},{"sku":"hd-1","quantity":1}]}`, id)); status != 201 {
					t.Errorf("order: %d %v", status, body)
				}
			}
		})
		wg.Go(func() {
			if status, _, body := c.do("POST", "/products/hd-1/reviews",
				fmt.Sprintf(`{"author":"ann","rating":%d,"text":""}`, i+1)); status != 201 {
				t.Errorf("review: %d %v", status, body)
			}
		})
	}
	wg.Go(func() {
		for saved := 0; saved < saves; {
			_, h, _ := c.do("GET", "/customers/ann", "")
			status, _, body := c.do("PUT", "/customers/ann", fmt.Sprintf(
				`{"id":"ann","name":"Ann %d","email":"","address":{"street":"","city":""}}`, saved+1), header{"If-Match": h.Get("ETag")})
			switch status {
			case 200:
				saved++
			case 412:
			default:
				t.Errorf("save: %d %v", status, body)
				return
			}
		}
	})
	wg.Wait()
	for _, o := range c.want(200, "GET", "/customers/ann/orders", "")["items"].([]any) {
		if name := o.(map[string]any)["customer"].(map[string]any)["name"]; name != fmt.Sprint("Ann ", saves) {
			t.Errorf("an order of %v", name)
		}
	}
	if page := c.want(200, "GET", "/products/hd-1/buyers", ""); page["total"] != 6. {
		t.Errorf("buyers %v", page)
	}
	if page := c.want(200, "GET", "/products/hd-1", ""); page["reviewCount"] != 5. || page["rating"] != 3. {
		t.Errorf("%v reviews, mean %v", page["reviewCount"], page["rating"])
	}
	c.checked()
}

// checked has every pattern look for what is wrong.
func (c *client) checked() {
	c.t.Helper()
	ctx := c.t.Context()
	for p, err := range c.s.check(ctx) {
		c.t.Errorf("check: %v, %v", p, err)
	}
	var counted []struct {
		ID       string `bson:"_id"`
		Products int64  `bson:"products"`
	}
	cursor, err := c.s.categoryColl.Find(ctx, bson.D{})
	if err == nil {
		err = cursor.All(ctx, &counted)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, category := range counted {
		n, err := c.s.productColl.CountDocuments(ctx, bson.D{{Key: "category", Value: category.ID}})
		if err != nil || n != category.Products {
			c.t.Errorf("%s counts %d products, has %d, %v", category.ID, category.Products, n, err)
		}
	}
}

// A product's page is two round trips, with all the patterns have put into it; a
// list is two as well, whatever it is filtered by.
func TestCosts(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"product": func() error { _, err := c.s.product(ctx, "hd-1"); return err },
		"list": func() error {
			filter, err := c.s.within(ctx, "parts", []string{"color:red"})
			if err != nil {
				return err
			}
			_, err = c.s.productPages["price"].Page(ctx, filter, paging.Request{Size: 10})
			return err
		},
	} {
		var err error
		commands := mongotest.Record(t, c.s.orderColl.Database(), func() { err = call() })
		if err != nil || commands.RoundTrips() != 2 {
			t.Errorf("%s: sent %v, %v", name, commands.Names(), err)
		}
	}
}

// One request is one value.
func TestTrailingBytes(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, rest := range []string{`{"id":"frodo"}`, "}", "x", `"`} {
		answer := c.want(400, "POST", "/customers", `{"id":"bilbo","name":"Bilbo Baggins"}`+rest, header{"X-User": "desk"})
		if text := fmt.Sprint(answer["error"]); !strings.Contains(text, "body") {
			t.Errorf("%q after the body: %s", rest, text)
		}
	}
	c.want(404, "GET", "/customers/bilbo", "")
}

func TestSlowRequest(t *testing.T) { testkit.SlowRequest(t, newServer) }

// Each command in a transaction meets a conflict once, so that its function runs again: nothing changes for the client.
func TestTransactionsRunAgain(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.stock()
	expect := func(status int, method, path, body string, headers ...header) error {
		if got, _, out := c.do(method, path, body, headers...); got != status {
			return fmt.Errorf("%s %s: status %d, want %d: %v", method, path, got, status, out)
		}
		return nil
	}
	for i := range 60 {
		c.customer(fmt.Sprint("c", i), "Ann")
	}
	mongotest.RunAgain(t, c.s.orderColl.Database(), func(n int) error {
		sku, customer := fmt.Sprint("new", n), fmt.Sprint("c", n)
		address := `"address":{"street":"1 Main St","city":"Atlanta"}`
		return errors.Join(
			expect(201, "POST", "/products", fmt.Sprintf(`{"sku":%q,"name":"New","category":"drives","price":100}`, sku)),
			expect(201, "POST", "/orders", fmt.Sprintf(`{"customer":%q,"lines":[{"sku":%q,"quantity":2}]}`, customer, sku)),
			expect(200, "PUT", "/customers/"+customer, fmt.Sprintf(`{"id":%q,"name":"Ann Summers","email":"",%s}`, customer, address), header{"If-Match": `"1"`}),
			expect(409, "DELETE", "/customers/"+customer, "", header{"If-Match": `"2"`}),
			expect(204, "DELETE", "/products/"+sku, ""),
		)
	})
	c.checked()
}
