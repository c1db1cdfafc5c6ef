package paging

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/mongopatterns/mongopatterns/internal/fault"
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

	// Numbered asks for page 1 where the parameters ask for none.
	Numbered bool
}

func (p Params) withDefaults() Params {
	if p.Max <= 0 {
		p.Max = 100
	}
	p.Max = min(p.Max, maxSize)
	if p.MaxNumber <= 0 {
		p.MaxNumber = 1 << 31
	}
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
	return fault.Invalid("parameter %q %s", name, reason)
}

// one reads a parameter that may be there once; empty is as good as absent.
func one(query url.Values, name string) (string, error) {
	if len(query[name]) > 1 {
		return "", badParameter(name, "is given more than once")
	}
	return query.Get(name), nil
}

// whole reads a whole number and clamps it to 1…most; 0 is as good as missing.
func whole(query url.Values, name string, missing, most int64) (int64, error) {
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

// ParseRequest reads a Request from the parameters of a URL. Sizes and numbers are
// clamped: larger ones to Params.Max and MaxNumber, negative ones to 1; a size of 0
// is Params.Default. What cannot be read, or contradicts itself, is ErrInvalid.
// Tokens are checked by the read they go into.
func ParseRequest(query url.Values, params Params) (out Request, err error) {
	defer fault.In(&err, "paging: parse request")
	params = params.withDefaults()
	size, err := whole(query, params.Size, int64(params.Default), int64(params.Max))
	if err != nil {
		return Request{}, err
	}
	out.Size = int(size)
	if out.Number, err = whole(query, params.Number, 0, params.MaxNumber); err != nil {
		return Request{}, err
	}
	var last string
	for _, text := range []struct {
		name string
		into *string
	}{{params.After, &out.After}, {params.Before, &out.Before}, {params.Position, &out.From}, {params.Last, &last}} {
		if *text.into, err = one(query, text.name); err != nil {
			return Request{}, err
		}
	}
	if last != "" {
		if out.FromEnd, err = strconv.ParseBool(last); err != nil {
			return Request{}, badParameter(params.Last, "is neither true nor false")
		}
	}
	asked := 0
	for _, set := range []bool{out.After != "", out.Before != "", out.FromEnd, out.Number > 0} {
		if set {
			asked++
		}
	}
	switch {
	case asked > 1:
		return Request{}, fault.Invalid("parameters %q, %q, %q and %q exclude each other",
			params.After, params.Before, params.Last, params.Number)
	case asked == 0 && params.Numbered:
		out.Number = 1
	}
	if out.From != "" && out.Number == 0 {
		return Request{}, badParameter(params.Position, "needs "+params.Number)
	}
	if out.From != "" && query.Get(params.Size) == "" {
		out.Size = 0
	}
	return out, nil
}

// LinkHeader writes the value of an RFC 8288 Link header for the page: first and
// prev if something comes before it, next and last if something follows. u is
// the URL of the request; its other parameters stay, credentials and fragment
// go. It is empty for a list of one page.
//
// The links of a page asked for by number have numbers: last only if Pages is known,
// and beyond the last page that is prev and last. If it was asked for from a Position
// they carry the page's own, except first, and last is there only if that reaches it.
func (p *Page[T]) LinkHeader(u *url.URL, params Params) string {
	params = params.withDefaults()
	var links linkHeader
	if p.Number > 0 {
		p.numberedLinks(&links, u, params)
		return links.String()
	}
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

func (p *Page[T]) numberedLinks(links *linkHeader, u *url.URL, params Params) {
	from := ""
	if p.reach > 0 {
		from = p.Position
	}
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
			link("prev", prev, from)
		}
	}
	if p.HasNext {
		link("next", p.Number+1, from)
	}
	if p.Pages > 0 && (p.HasNext || p.Number > p.Pages) && (p.reach == 0 || p.Pages-p.Number <= p.reach) {
		link("last", p.Pages, from)
	}
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
