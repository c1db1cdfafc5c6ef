package paging

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Params says how a service takes pages as query parameters, and how large they
// may be. The zero value is fine.
type Params struct {
	Default   int   // size if none, or 0, is asked for. Default 20.
	Max       int   // larger sizes are cut to this. Default 100.
	MaxNumber int64 // larger page numbers are cut to this. Default 1<<31.

	// The names of the parameters.
	Size     string // Default "limit".
	After    string // Default "after".
	Before   string // Default "before".
	Last     string // Default "last": last=true asks for the last page.
	Number   string // Default "page".
	Position string // Default "position".
}

func (p Params) withDefaults() Params {
	if p.Max <= 0 {
		p.Max = 100
	}
	p.Max = min(p.Max, maxSize)
	if p.Default <= 0 {
		p.Default = defaultPageSize
	}
	p.Default = min(p.Default, p.Max)
	p.Size = cmp.Or(p.Size, "limit")
	p.After = cmp.Or(p.After, "after")
	p.Before = cmp.Or(p.Before, "before")
	p.Last = cmp.Or(p.Last, "last")
	p.Number = cmp.Or(p.Number, "page")
	p.Position = cmp.Or(p.Position, "position")
	return p
}

func badParameter(name, reason string) error {
	return fmt.Errorf("paging: %w: parameter %q %s", ErrInvalidRequest, name, reason)
}

// one reads a parameter that may be there once; empty is as good as absent.
func one(query url.Values, name string) (string, error) {
	if len(query[name]) > 1 {
		return "", badParameter(name, "is given more than once")
	}
	return query.Get(name), nil
}

// number reads a whole number and clamps it to 1…most; 0 is as good as missing.
func number(query url.Values, name string, missing, most int64) (int64, error) {
	text, err := one(query, name)
	if err != nil || text == "" {
		return missing, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is clamped as well
		return 0, badParameter(name, "is not a number")
	}
	if n == 0 {
		return missing, nil
	}
	return max(1, min(n, most)), nil
}

// ParseRequest reads a Request from the parameters of a URL. Sizes are clamped:
// larger ones to Params.Max, negative ones to 1, and 0 is Params.Default. What
// cannot be read, or contradicts itself, is ErrInvalidRequest. Tokens are checked
// by the read they go into.
func ParseRequest(query url.Values, params Params) (Request, error) {
	params = params.withDefaults()
	var out Request
	size, err := number(query, params.Size, int64(params.Default), int64(params.Max))
	if err != nil {
		return Request{}, err
	}
	out.Size = int(size)
	if out.After, err = one(query, params.After); err != nil {
		return Request{}, err
	}
	if out.Before, err = one(query, params.Before); err != nil {
		return Request{}, err
	}
	last, err := one(query, params.Last)
	if err != nil {
		return Request{}, err
	}
	if last != "" {
		if out.FromEnd, err = strconv.ParseBool(last); err != nil {
			return Request{}, badParameter(params.Last, "is neither true nor false")
		}
	}
	if out.After != "" && out.Before != "" || out.FromEnd && (out.After != "" || out.Before != "") {
		return Request{}, fmt.Errorf("paging: %w: parameters %q, %q and %q exclude each other",
			ErrInvalidRequest, params.After, params.Before, params.Last)
	}
	return out, nil
}

// ParseNumbered reads the request and the position for Numbered or Jump from the
// parameters of a URL, with sizes clamped as ParseRequest does, and page numbers
// to 1…Params.MaxNumber.
func ParseNumbered(query url.Values, params Params) (req NumberedRequest, position string, err error) {
	params = params.withDefaults()
	most := params.MaxNumber
	if most <= 0 {
		most = 1 << 31
	}
	size, err := number(query, params.Size, int64(params.Default), int64(params.Max))
	if err != nil {
		return NumberedRequest{}, "", err
	}
	n, err := number(query, params.Number, 1, most)
	if err != nil {
		return NumberedRequest{}, "", err
	}
	if position, err = one(query, params.Position); err != nil {
		return NumberedRequest{}, "", err
	}
	return NumberedRequest{Number: n, Size: int(size)}, position, nil
}

// LinkHeader writes the value of an RFC 8288 Link header for the page: first and
// prev if something comes before it, next and last if something follows. u is
// the URL of the request; its other parameters stay, credentials and fragment
// go. It is empty for a list of one page.
func (p *Page[T]) LinkHeader(u *url.URL, params Params) string {
	params = params.withDefaults()
	var links linkHeader
	if p.HasPrev {
		links.add(u, params, "first")
		if p.Prev != "" {
			links.add(u, params, "prev", params.Before, p.Prev)
		}
	}
	if p.HasNext {
		if p.Next != "" {
			links.add(u, params, "next", params.After, p.Next)
		}
		links.add(u, params, "last", params.Last, "true")
	}
	return links.String()
}

// LinkHeader is that of Page, by page numbers, and last only if Pages is known:
// beyond the last page that is prev and last. The links of a page that came from
// Jump carry its position, except first, and last is among them only if Jump
// reaches it.
func (p *NumberedPage[T]) LinkHeader(u *url.URL, params Params) string {
	params = params.withDefaults()
	var links linkHeader
	link := func(rel string, n int64, position string) {
		links.add(u, params, rel, params.Number, strconv.FormatInt(n, 10), params.Position, position)
	}
	if p.HasPrev {
		link("first", 1, "")
		if p.Number > 1 {
			prev := p.Number - 1
			if p.Pages > 0 {
				prev = min(prev, p.Pages)
			}
			link("prev", prev, p.jumpFrom())
		}
	}
	if p.HasNext {
		link("next", p.Number+1, p.jumpFrom())
	}
	if p.HasNext || p.Number > p.Pages {
		if p.Pages > 0 && (p.reach == 0 || p.Pages-p.Number <= p.reach) {
			link("last", p.Pages, p.jumpFrom())
		}
	}
	return links.String()
}

func (p *NumberedPage[T]) jumpFrom() string {
	if p.reach == 0 {
		return ""
	}
	return p.Position
}

type linkHeader struct{ strings.Builder }

// add writes a link to u with the given parameters of paging, as names and
// values, and without the others.
func (b *linkHeader) add(u *url.URL, params Params, rel string, set ...string) {
	target := *u
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	if path := target.EscapedPath(); target.Host == "" && strings.HasPrefix(path, "//") {
		// As a reference it would name another host, and send the token there.
		target.RawPath = "/" + strings.TrimLeft(path, "/")
		target.Path, _ = url.PathUnescape(target.RawPath)
	}
	query := target.Query()
	for _, owned := range []string{params.After, params.Before, params.Last, params.Number, params.Position} {
		query.Del(owned)
	}
	for i := 0; i+1 < len(set); i += 2 {
		if set[i+1] != "" {
			query.Set(set[i], set[i+1])
		}
	}
	target.RawQuery, target.ForceQuery = query.Encode(), false
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	b.WriteString("<")
	for _, c := range []byte(target.String()) {
		// What could end the reference or the header; the parser of net/url
		// lets some of it through.
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`<>"\^{|}`+"`", c) >= 0 {
			fmt.Fprintf(b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteString(`>; rel="` + rel + `"`)
}
