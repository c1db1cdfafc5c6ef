package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least pagingReads finds of one order skip more than pagingSkip
// documents.
const (
	pagingReads = 10
	pagingSkip  = 1_000
)

// skips are the finds of one order and filter that skip documents.
type skips struct {
	key     string
	sort    bson.D
	order   string
	deep    int64 // finds that skip more than pagingSkip
	all     int64 // finds of this order that skip
	least   int64 // that a deep one skips
	most    int64 // by the deepest
	deepest command
}

// page notes a read that skips. Shapes without values do not say how many.
func (t *traffic) page(c command) {
	skip, _ := number(c.skip)
	limit, _ := number(c.limit)
	if skip <= 0 || limit <= 0 || len(variables(c.sort)) > 0 {
		return
	}
	filter := filterPaths(c.filter)
	slices.Sort(filter)
	key := fmt.Sprint(c.sort, slices.Compact(filter))
	i := slices.IndexFunc(t.pages, func(s skips) bool { return s.key == key })
	if i < 0 {
		i = len(t.pages)
		t.pages = append(t.pages, skips{key: key, sort: c.sort, order: c.order()})
	}
	s := &t.pages[i]
	s.all += c.calls
	if skip <= pagingSkip {
		return
	}
	s.deep += c.calls
	if s.least == 0 || skip < s.least {
		s.least = skip
	}
	if skip > s.most {
		s.most, s.deepest = skip, c
	}
}

func (l *looker) paging(ctx context.Context, c *collection) error {
	for _, s := range c.pages {
		if err := l.pages(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) pages(ctx context.Context, c *collection, s skips) error {
	const pattern = "paging"
	switch {
	case s.deep < pagingReads:
		l.not(pattern, c.name, s.order, fmt.Sprintf("%d of %d pages skip more than %s documents", s.deep, s.all, group(pagingSkip)))
		return nil
	case s.most >= c.count:
		l.not(pattern, c.name, s.order, fmt.Sprintf("pages skip up to %s documents, the collection has %s", group(s.most), group(c.count)))
		return nil
	case s.deepest.unpageable():
		l.not(pattern, c.name, s.order, "the filter or sort is by text, distance or score")
		return nil
	case slices.ContainsFunc(keys(s.sort), func(name string) bool { return c.has(name, "array") }):
		l.not(pattern, c.name, s.order, "some documents have an array there, which no page can be continued from")
		return nil
	}
	explain := bson.D{{Key: "explain", Value: s.deepest.asFind()}, {Key: "verbosity", Value: "executionStats"}}
	check, err := l.check(ctx, explain, "executionStats", "totalKeysExamined")
	if err == nil && check.Answer == 0 { // no index serves it
		check, err = l.check(ctx, explain, "executionStats", "totalDocsExamined")
	}
	if err != nil {
		return l.failed(ctx, err, pattern, c, s.order)
	}
	limit, _ := number(s.deepest.limit)
	if check.Answer <= s.most {
		l.not(pattern, c.name, s.order, fmt.Sprintf("the server examines %s for a page that skips %s", group(check.Answer), group(s.most)))
		return nil
	}
	f := Finding{
		Pattern: pattern, Collection: c.name, Fields: keys(s.sort),
		Summary: fmt.Sprintf("%d pages by %s skip more than %s documents; for the deepest, which skips %s, the server examines %s (counted). "+
			"A page that begins behind the last document of the one before examines its %s and a few more.",
			s.deep, s.order, group(pagingSkip), group(s.most), many(check.Answer, examined(check)), many(limit, "document")),
		Sure: "counted: what the server examines, by explain; of queries: those that were seen",
		Facts: []Fact{
			{"documents", c.count, kept},
			{"examined for the deepest page", check.Answer, counted},
			{"pages that skip more than 1,000", s.deep, seen},
			{"pages that skip", s.all, seen},
		},
		Saving: Interval{
			Low: s.least, High: check.Answer - limit, Before: check.Answer,
			Unit: examined(check) + "s", What: "that a deep page no longer examines",
		},
		Code: l.pagingCode(ctx, c, s.sort), try: tryPaging(c, s),
		Check: check,
		Against: []string{
			"A token leads to the next page and the one before; page 5,000 by its number needs skip, or a count from a page nearby.",
			"An index in this order is needed: EnsureIndexes makes it.",
		},
	}
	if len(s.sort) == 0 {
		f.Against = append(f.Against, "The finds named no order, so that pages may repeat and miss documents; the code takes _id.")
	}
	l.found(f)
	return nil
}

func examined(c Check) string {
	if c.Path[len(c.Path)-1] == "totalKeysExamined" {
		return "key"
	}
	return "document"
}

// unpageable reports filters and sorts in an order that is not that of a field.
func (c command) unpageable() bool {
	if hint, ok := at(c.body, "hint").(bson.D); ok && at(hint, "$natural") != nil {
		return true
	}
	for _, f := range c.sort {
		if n, ok := number(f.Value); !ok || n != 1 && n != -1 || strings.HasPrefix(f.Key, "$") {
			return true
		}
	}
	return operators(c.filter, "$text", "$near", "$nearSphere", "$where")
}

// operators reports one of the operators anywhere in a filter.
func operators(filter any, names ...string) bool {
	switch v := filter.(type) {
	case bson.D:
		return slices.ContainsFunc(v, func(f bson.E) bool { return slices.Contains(names, f.Key) || operators(f.Value, names...) })
	case bson.A:
		return slices.ContainsFunc(v, func(f any) bool { return operators(f, names...) })
	}
	return false
}
