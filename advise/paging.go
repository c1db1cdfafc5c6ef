package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least pagingReads finds of one order skip more than pagingSkip documents, or behind a filter more than
// pagingFiltered and the server examines more than pagingSkip for the deepest.
const (
	pagingReads    = 10
	pagingSkip     = 1_000
	pagingFiltered = 100
)

// skips are the finds of one order and filter that skip documents.
type skips struct {
	key    string
	sort   bson.D
	order  string
	made   bool  // the order or the filter is of fields that the pipeline makes
	single bool  // each takes one document, in no order
	deep   int64 // finds that skip more than pagingSkip
	// filtered are finds behind a filter that skip more than pagingFiltered.
	filtered int64
	all      int64 // finds of this order that skip
	least    int64 // that a deep one skips
	most     int64 // by the deepest
	deepest  command
	fixed    []string // fields that the filter of each page fixes to a value
}

// page notes the pages that a read skips to. Shapes without values do not say how far.
func (t *traffic) page(c command) {
	for _, p := range c.pages {
		skip, _ := number(p.skip)
		limit, _ := number(p.limit)
		if skip <= 0 || limit <= 0 || len(variables(p.sort)) > 0 {
			continue
		}
		filter := filterPaths(p.filter)
		slices.Sort(filter)
		made := slices.ContainsFunc(append(keys(p.sort), filter...), func(name string) bool {
			return slices.ContainsFunc(p.made, func(made string) bool { return related(made, name) })
		})
		key := fmt.Sprint(p.sort, slices.Compact(filter), made)
		i := slices.IndexFunc(t.pages, func(s skips) bool { return s.key == key })
		if i < 0 {
			i = len(t.pages)
			t.pages = append(t.pages, skips{key: key, sort: p.sort, order: p.order(), made: made, single: true, fixed: fixed(p.filter)})
		}
		s := &t.pages[i]
		s.single = s.single && limit == 1 && len(p.sort) == 0
		others := fixed(p.filter)
		s.fixed = slices.DeleteFunc(s.fixed, func(name string) bool { return !slices.Contains(others, name) || slices.Contains(keys(p.sort), name) })
		s.all += c.calls
		if skip > pagingSkip {
			s.deep += c.calls
			if s.least == 0 || skip < s.least {
				s.least = skip
			}
		}
		if len(filter) > 0 && skip > pagingFiltered {
			s.filtered += c.calls
		}
		if skip > s.most {
			s.most, s.deepest = skip, c.find(p)
		}
	}
}

// fixed are the fields that a filter fixes, each to one value.
func fixed(filter any) (names []string) {
	document, _ := filter.(bson.D)
	for _, f := range document {
		switch f.Value.(type) {
		case bson.A, bson.Regex:
			continue
		}
		if equals(document, f.Key) && !strings.HasPrefix(f.Key, "$") && f.Key != "_id" {
			names = append(names, f.Key)
		}
	}
	return names
}

func (l *looker) paging(ctx context.Context, c *collection) error {
	for _, s := range c.pages {
		if err := l.failed(ctx, l.pages(ctx, c, s), "paging", c, s.order); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) pages(ctx context.Context, c *collection, s skips) error {
	if err := s.pageable(c); err != nil {
		return err
	}
	arrays := 0 // no index has two
	s.fixed = slices.DeleteFunc(slices.Clone(s.fixed), func(name string) bool {
		if len(c.multikey(name)) == 0 {
			return false
		}
		arrays++
		return arrays > 1
	})
	explain := bson.D{{Key: "explain", Value: s.deepest.asFind()}, {Key: "verbosity", Value: "executionStats"}}
	check, err := l.check(ctx, explain, "executionStats", "totalKeysExamined")
	if err == nil && check.Answer == 0 { // no index serves it
		check, err = l.check(ctx, explain, "executionStats", "totalDocsExamined")
	}
	if err != nil {
		return err
	}
	limit, _ := number(s.deepest.limit)
	if s.deep < pagingReads {
		if s, err = l.behindFilter(ctx, c, s, check.Answer, limit); err != nil {
			return err
		}
		if s.least <= 0 {
			return declined(fmt.Sprintf("%d of %d pages skip more than %s documents, and behind the filter the server examines %s for the deepest", s.deep, s.all, group(pagingSkip), group(check.Answer)))
		}
	}
	if check.Answer <= s.most {
		return declined(fmt.Sprintf("the server examines %s for a page that skips %s", group(check.Answer), group(s.most)))
	}
	l.pagingFinding(ctx, c, s, check, limit)
	return nil
}

// pageable declines reads that skip little, and what no page can be continued from.
func (s skips) pageable(c *collection) error {
	several := func(name string) bool { return len(c.multikey(name)) > 0 }
	switch {
	case s.made && s.deep+s.filtered >= pagingReads:
		return declined("the pipeline makes the fields that it sorts or filters by: no index has them")
	case s.deep < pagingReads && s.filtered < pagingReads:
		return declined(fmt.Sprintf("%d of %d pages skip more than %s documents", s.deep, s.all, group(pagingSkip)))
	case s.single:
		return declined("each read takes one document behind others, in no order: these are no pages, and $sample gives one by chance")
	case s.most >= c.count:
		return declined(fmt.Sprintf("pages skip up to %s documents, the collection has %s", group(s.most), group(c.count)))
	case s.deepest.unpageable():
		return declined("the filter or sort is by text, distance or score")
	case slices.ContainsFunc(keys(s.sort), several):
		return declined("some documents have an array there, which no page can be continued from")
	}
	return nil
}

func (l *looker) pagingFinding(ctx context.Context, c *collection, s skips, check Check, limit int64) {
	pages, over := s.deep, int64(pagingSkip)
	if s.deep < pagingReads {
		pages, over = s.filtered, pagingFiltered
	}
	f := Finding{
		Pattern: "paging", Collection: c.name, Fields: keys(s.sort),
		Summary: fmt.Sprintf("%d pages by %s skip more than %s documents; for the deepest, which skips %s, the server examines %s (counted). "+
			"A page that begins behind the last document of the one before examines its %s and those between them that the filter leaves out.",
			pages, s.order, group(over), group(s.most), many(check.Answer, examined(check)), many(limit, "document")),
		Sure: "counted: what the server examines, by explain; of queries: those that were seen",
		Facts: []Fact{
			{"documents", c.count, kept},
			{"examined for the deepest page", check.Answer, counted},
			{"pages that skip more than " + group(over), pages, seen},
			{"pages that skip", s.all, seen},
		},
		Saving: Interval{
			Low: s.least, High: check.Answer - limit, Before: check.Answer,
			Unit: examined(check) + "s", What: "that a deep page no longer examines",
		},
		Code: l.pagingCode(ctx, c, s), try: tryPaging(c, s),
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
}

// behindFilter sets what the deepest page saves at least, of what it examines: an index in its order leads past one
// document in so many that the filter selects. It is 0 where that is less than half.
func (l *looker) behindFilter(ctx context.Context, c *collection, s skips, examined, limit int64) (skips, error) {
	s.least = 0
	if examined <= pagingSkip {
		return s, nil
	}
	reply, err := l.run(ctx, l.db, bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: s.deepest.filter}})
	if err != nil {
		return s, err
	}
	if after := 2 * limit * c.count / max(integer(reply, "n"), 1); 2*after <= examined {
		s.least = examined - after
	}
	return s, nil
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
