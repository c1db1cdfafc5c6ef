package paging_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

func TestParseRequest(t *testing.T) {
	for _, c := range []struct {
		query      string
		size, most int
		want       paging.Request
		bad        bool
	}{
		{"", 20, 100, paging.Request{Size: 20}, false},
		{"limit=&after=&before=&last=", 20, 100, paging.Request{Size: 20}, false},
		{"limit=30&after=T", 20, 100, paging.Request{Size: 30, After: "T"}, false},
		{"limit=1000&before=T", 20, 100, paging.Request{Size: 100, Before: "T"}, false},
		{"limit=0", 20, 100, paging.Request{Size: 20}, false},
		{"limit=-5", 20, 100, paging.Request{Size: 1}, false},
		{"limit=99999999999999999999999", 20, 100, paging.Request{Size: 100}, false},
		{"limit=-99999999999999999999999", 20, 100, paging.Request{Size: 1}, false},
		{"limit=99999999999", 20, math.MaxInt, paging.Request{Size: 1<<31 - 9}, false},
		{"last=true", 20, 100, paging.Request{Size: 20, FromEnd: true}, false},
		{"last=0&after=T", 20, 100, paging.Request{Size: 20, After: "T"}, false},
		{"", 500, 100, paging.Request{Size: 100}, false},
		{"page=3&limit=5&position=P", 20, 100, paging.Request{Number: 3, Size: 5, From: "P"}, false},
		{"page=3&position=P", 20, 100, paging.Request{Number: 3, From: "P"}, false},
		{"page=99999999999", 20, 100, paging.Request{Number: 1 << 31, Size: 20}, false},
		{"page=-3", 20, 100, paging.Request{Number: 1, Size: 20}, false},
		{"page=x", 20, 100, paging.Request{}, true},
		{"page=1&after=T", 20, 100, paging.Request{}, true},
		{"position=P", 20, 100, paging.Request{}, true},
		{"page=1&position=a&position=b", 20, 100, paging.Request{}, true},
		{"limit=ten", 20, 100, paging.Request{}, true},
		{"limit=1e3", 20, 100, paging.Request{}, true},
		{"limit=1&limit=2", 20, 100, paging.Request{}, true},
		{"after=a&after=b", 20, 100, paging.Request{}, true},
		{"before=a&before=b", 20, 100, paging.Request{}, true},
		{"last=1&last=1", 20, 100, paging.Request{}, true},
		{"after=a&before=b", 20, 100, paging.Request{}, true},
		{"after=a&last=1", 20, 100, paging.Request{}, true},
		{"last=yes", 20, 100, paging.Request{}, true},
		{"", -1, 100, paging.Request{}, true},
		{"", 20, -1, paging.Request{}, true},
	} {
		query := testkit.Value[url.Values](t)(url.ParseQuery(c.query))
		got, err := paging.ParseRequest(query, c.size, c.most)
		if c.bad {
			got = paging.Request{}
		}
		if c.bad != errors.Is(err, mongopatterns.ErrInvalid) || !c.bad && err != nil {
			t.Errorf("%q: %v", c.query, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.query, diff)
		}
	}
}

func TestLinkHeader(t *testing.T) {
	middle := &paging.Page[row]{HasNext: true, HasPrev: true, Next: "NN", Prev: "PP"}
	for _, c := range []struct {
		page interface {
			LinkHeader(*url.URL) string
		}
		url  string
		want string
	}{
		{&paging.Page[row]{}, "/a", ""},
		{middle, "/a", `</a>; rel="first", </a?before=PP>; rel="prev", </a?after=NN>; rel="next", </a?last=true>; rel="last"`},
		{&paging.Page[row]{HasNext: true, Next: "NN"}, "https://x.example/a?limit=5&q=a%26b&after=old&before=old&last=1&page=4",
			`<https://x.example/a?after=NN&limit=5&q=a%26b>; rel="next", <https://x.example/a?last=true&limit=5&q=a%26b>; rel="last"`},
		// A path like this is another host when it stands by itself.
		{&paging.Page[row]{HasPrev: true, Prev: "PP"}, "http://x.example//evil.example/a",
			`<http://x.example//evil.example/a>; rel="first", <http://x.example//evil.example/a?before=PP>; rel="prev"`},
		{&paging.Page[row]{HasPrev: true, Prev: "PP"}, "request ///evil.example/a%2Fb",
			`</evil.example/a%2Fb>; rel="first", </evil.example/a%2Fb?before=PP>; rel="prev"`},
		{&paging.Page[row]{HasPrev: true, Prev: "PP"}, "request /%2Fevil.example",
			`</%2Fevil.example>; rel="first", </%2Fevil.example?before=PP>; rel="prev"`},
		{&paging.Page[row]{HasPrev: true, Prev: "PP"}, "/a?q=1&q=2",
			`</a?q=1&q=2>; rel="first", </a?before=PP&q=1&q=2>; rel="prev"`},
		{&paging.Page[row]{HasPrev: true, Prev: "PP"}, "https://user:secret@x.example/a%3Eb;c>?%3E=%0d%0a#frag",
			`<https://x.example/a%3Eb;c%3E?%3E=%0D%0A>; rel="first", <https://x.example/a%3Eb;c%3E?%3E=%0D%0A&before=PP>; rel="prev"`},
		{&paging.Page[row]{HasNext: true, HasPrev: true, Next: "NN", Prev: "PP", Number: 3}, "/a?page=3",
			`</a?page=1>; rel="first", </a?page=2>; rel="prev", </a?page=4>; rel="next"`},
		{&paging.Page[row]{HasNext: true, HasPrev: true, Next: "NN", Prev: "PP", Number: 3, Pages: 9, Position: "POS"}, "/a?page=3&limit=5",
			`</a?limit=5&page=1>; rel="first", </a?limit=5&page=2&position=POS>; rel="prev", </a?limit=5&page=4&position=POS>; rel="next", </a?limit=5&page=9>; rel="last"`},
	} {
		u, err := url.Parse(c.url)
		if target, ok := strings.CutPrefix(c.url, "request "); ok {
			u, err = url.ParseRequestURI(target)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := *u
		if diff := cmp.Diff(c.want, c.page.LinkHeader(u)); diff != "" {
			t.Errorf("%s: %s", c.url, diff)
		}
		if diff := cmp.Diff(before.String(), u.String()); diff != "" {
			t.Errorf("the URL was changed: %s", diff)
		}
	}
	// What net/url takes as it is must not end the reference or the header.
	odd := &url.URL{Path: "/x", Opaque: "a\r\nSet-Cookie: b>, <evil", Host: "h"}
	if got := middle.LinkHeader(odd); strings.ContainsAny(got, "\r\n") || strings.Contains(got, ">, <evil") {
		t.Errorf("%q", got)
	}
}

// linkPattern follows the grammar of RFC 8288 for what LinkHeader writes.
var linkPattern = regexp.MustCompile(`^<([^<>\s"]*)>; rel="(first|prev|next|last)"$`)

func links(t testing.TB, header string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	if header == "" {
		return out
	}
	for link := range strings.SplitSeq(header, ", ") {
		m := linkPattern.FindStringSubmatch(link)
		if m == nil {
			t.Fatalf("not a link: %q", link)
		}
		out[m[2]] = m[1]
	}
	return out
}

func FuzzLinkHeader(f *testing.F) {
	f.Add("/a?b=c&after=x", "TOKEN")
	f.Add("http://u:p@h/%3e>?a=%0d%0a#f", "a>b\r\n")
	f.Add("mailto:a, b", "<>")
	f.Add("////evil.example//%2Fa", "x")
	f.Fuzz(func(t *testing.T, text, token string) {
		u, err := url.Parse(text)
		if err != nil || token == "" {
			return
		}
		page := &paging.Page[row]{HasNext: true, HasPrev: true, Next: token, Prev: token}
		got := links(t, page.LinkHeader(u))
		if len(got) != 4 {
			t.Fatalf("%v", got)
		}
		if u.Opaque == "" && u.Host == "" {
			next, err := url.Parse(got["next"])
			if err != nil {
				return // such a path has no relative form
			}
			if next.Host != "" {
				t.Fatalf("%q leads to another host", got["next"])
			}
			if next.Query().Get("after") != token {
				t.Fatalf("%q holds %q", got["next"], next.Query().Get("after"))
			}
		}
	})
}

// A small service: every link leads on, and the whole list is walked both ways.
func TestService(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("rows")
	testkit.InsertAll(t, coll, rows(23))
	pager := newPager[row](t, coll, byS, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/rows", func(w http.ResponseWriter, r *http.Request) {
		req, err := paging.ParseRequest(r.URL.Query(), 20, 10)
		if err == nil {
			var page *paging.Page[row]
			if page, err = pager.Page(r.Context(), bson.D{}, req); err == nil {
				w.Header().Set("Link", page.LinkHeader(r.URL))
				_ = json.NewEncoder(w).Encode(page)
				return
			}
		}
		status := http.StatusInternalServerError
		if errors.Is(err, mongopatterns.ErrInvalid) { // tokens too
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
	})
	mux.HandleFunc("/jump", func(w http.ResponseWriter, r *http.Request) {
		req, err := paging.ParseRequest(r.URL.Query(), 20, 100)
		if err != nil {
			t.Error(err)
		}
		req.Number = max(req.Number, 1)
		req.Count = paging.CountExact
		page, err := pager.Page(r.Context(), nil, req)
		if err != nil {
			t.Error(err)
			return
		}
		w.Header().Set("Link", page.LinkHeader(r.URL))
		_ = json.NewEncoder(w).Encode(page)
	})
	get := func(target string) (list []int, next map[string]string, status int) {
		t.Helper()
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequest("GET", target, nil))
		if recorder.Code != 200 {
			return nil, nil, recorder.Code
		}
		var body struct{ Items []row }
		if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		return rowIDs(body.Items), links(t, recorder.Header().Get("Link")), 200
	}
	for _, start := range []string{"/rows?limit=10&x=y%20z", "/jump?limit=10&x=y%20z"} {
		var got []int
		target, last := start, ""
		for target != "" {
			list, next, status := get(target)
			if status != 200 {
				t.Fatalf("%s: %d", target, status)
			}
			if !strings.Contains(target, "x=y") {
				t.Errorf("a parameter got lost: %s", target)
			}
			got = append(got, list...)
			target, last = next["next"], target
		}
		if diff := cmp.Diff(rowIDs(rows(23)), got); diff != "" {
			t.Errorf("%s forward: %s", start, diff)
		}
		got = nil
		for target = last; target != ""; {
			list, next, _ := get(target)
			got = append(list, got...)
			target = next["prev"]
		}
		if diff := cmp.Diff(rowIDs(rows(23)), got); diff != "" {
			t.Errorf("%s back: %s", start, diff)
		}
		_, next, _ := get(start)
		list, _, _ := get(next["last"])
		if len(list) == 0 || list[len(list)-1] != 23 {
			t.Errorf("last of %s: %v", start, list)
		}
	}
	for _, bad := range []string{"/rows?limit=x", "/rows?after=junk", "/rows?after=a&before=b"} {
		if _, _, status := get(bad); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

func TestPageAsJSON(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("rows")
	pager := newPager[row](t, coll, byS, nil)
	page := testkit.Value[*paging.Page[row]](t)(pager.Page(context.Background(), nil, paging.Request{Count: paging.CountExact}))
	data := testkit.Value[[]byte](t)(json.Marshal(page))
	if diff := cmp.Diff(`{"items":[],"hasNext":false,"hasPrev":false,"total":{"n":0}}`, string(data)); diff != "" {
		t.Error(diff)
	}
	// What was written can be read.
	testkit.InsertAll(t, coll, rows(5))
	for count, want := range map[paging.Count]*paging.Total{
		0: nil, paging.CountExact: {N: 5}, paging.CountEstimated: {N: 5, Estimated: true}, 3: {N: 3, AtLeast: true},
	} {
		page := testkit.Value[*paging.Page[row]](t)(pager.Page(context.Background(), nil, paging.Request{Number: 2, Size: 2, Count: count}))
		if !cmp.Equal(page.Total, want) {
			t.Errorf("%+v", page.Total)
		}
		data := testkit.Value[[]byte](t)(json.Marshal(page))
		var got paging.Page[row]
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if again := testkit.Value[[]byte](t)(json.Marshal(got)); string(again) != string(data) || !cmp.Equal(got.Total, page.Total) {
			t.Errorf("%s became %s", data, again)
		}
	}
	if got := (&paging.Page[row]{Items: rows(1)}).Cursor(0); got != "" {
		t.Errorf("%q", got)
	}
}
