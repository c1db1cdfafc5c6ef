package paging

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// The parameters of a URL that say which page, besides "limit".
var parameters = []string{"after", "before", "last", "page", "position"}

// maxNumber bounds page numbers in URLs, as each makes the server skip.
const maxNumber = 1 << 31

// ParseRequest reads a Request from the parameters of a URL. These are limit, and one of after,
// before, last=true and page; page may come with a position. size is the size of a page if limit is
// missing or 0. A limit above most becomes most, a page number above 1<<31 becomes 1<<31, and
// negative numbers become 1. If parameters cannot be read or contradict each other, it returns
// ErrInvalid. Tokens are checked by the read that uses them.
func ParseRequest(query url.Values, size, most int) (req Request, err error) {
	defer fault.In(&err, "paging.ParseRequest")
	for _, name := range append([]string{"limit"}, parameters...) {
		if len(query[name]) > 1 {
			return req, fault.Invalid("parameter %q is given more than once", name)
		}
	}
	req = Request{After: query.Get("after"), Before: query.Get("before"), From: query.Get("position")}
	limit, err := whole(query, "limit", int64(min(most, maxSize)))
	if err != nil {
		return req, err
	}
	req.Size = int(limit)
	if limit == 0 && req.From == "" { // which has a size
		req.Size = min(size, most, maxSize)
	}
	if req.Number, err = whole(query, "page", maxNumber); err != nil {
		return req, err
	}
	if last := query.Get("last"); last != "" {
		if req.FromEnd, err = strconv.ParseBool(last); err != nil {
			return req, fault.Invalid(`parameter "last" is neither true nor false`)
		}
	}
	return req, req.check()
}

// whole reads a whole number and clamps it to 1…most; nothing is as good as 0.
func whole(query url.Values, name string, most int64) (int64, error) {
	text := query.Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "" || err == nil && n == 0:
		return 0, nil
	case err != nil && !errors.Is(err, strconv.ErrRange): // out of range is clamped as well
		return 0, fault.Invalid("parameter %q is not a number", name)
	}
	return max(1, min(n, most)), nil
}

// LinkHeader returns the value of an RFC 8288 Link header for the page, with the parameters of
// [ParseRequest]. It has first and prev if something comes before the page, and next and last if
// something follows. u is the URL of the request. Its other parameters stay, and its credentials
// and fragment are removed. For a list of one page the value is empty.
//
// The links of a page that was asked for by number have numbers, and prev and next also have its
// Position, so that the server skips little. If Pages is known, there is a last link too, and
// beyond the last page prev leads to the last page.
func (p *Page[T]) LinkHeader(u *url.URL) string {
	var links []string
	add := func(on bool, rel string, set ...string) {
		if on {
			links = append(links, link(u, rel, set))
		}
	}
	if p.Number == 0 {
		add(p.HasPrev, "first")
		add(p.HasPrev && p.Prev != "", "prev", "before", p.Prev)
		add(p.HasNext && p.Next != "", "next", "after", p.Next)
		add(p.HasNext, "last", "last", "true")
		return strings.Join(links, ", ")
	}
	near := func(n int64) []string { return []string{"page", strconv.FormatInt(n, 10), "position", p.Position} }
	prev := p.Number - 1
	if p.Pages > 0 {
		prev = min(prev, p.Pages)
	}
	add(p.HasPrev, "first", "page", "1")
	add(p.HasPrev && p.Number > 1, "prev", near(prev)...)
	add(p.HasNext, "next", near(p.Number+1)...)
	add(p.Pages > 0 && (p.HasNext || p.Number > p.Pages), "last", near(p.Pages)[:2]...)
	return strings.Join(links, ", ")
}

// link is a link to u with the given parameters of paging, as names and values, and
// without the others.
func link(u *url.URL, rel string, set []string) string {
	target := *u
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	if path := target.EscapedPath(); target.Host == "" && strings.HasPrefix(path, "//") {
		// As a reference it would name another host, and send the token there.
		target.RawPath = "/" + strings.TrimLeft(path, "/")
		target.Path, _ = url.PathUnescape(target.RawPath)
	}
	query := target.Query()
	for _, name := range parameters {
		query.Del(name)
	}
	for i := 0; i < len(set); i += 2 {
		if set[i+1] != "" {
			query.Set(set[i], set[i+1])
		}
	}
	target.RawQuery, target.ForceQuery = query.Encode(), false
	var out strings.Builder
	for _, c := range []byte(target.String()) {
		// What could end the reference or the header; the parser of net/url
		// lets some of it through.
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`<>"\^{|}`+"`", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return "<" + out.String() + `>; rel="` + rel + `"`
}
