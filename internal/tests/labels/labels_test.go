// Package labels_test judges package advise by collections of three dozen services, each with the pattern that a consultant
// would advise. The labels come from MongoDB's articles on the patterns and from the manuals of the packages. Who wrote
// them had not seen the code of advise, and froze them in a commit before the first run. A label that looks wrong now
// stays, as the measurement would mean nothing otherwise. Advise is mended on what it missed in a set, so each set after the
// first was unseen when it came. To write the table of each, such as docs/labels-third.csv:
//
//	go test ./internal/tests/labels -run TestAdvice -scale=whole -update
package labels_test

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// labelled are one or two collections, what is asked of them, and what a consultant would advise.
type labelled struct {
	name    string // of the first collection
	service string
	pays    string // the patterns that are right advice, divided by |, or "" if there is nothing to advise
	fine    string // patterns that count neither as right nor as wrong
	harm    string // patterns that would lose data or make the main query clearly worse
	why     string
	colls   []coll
	traffic []requests
}

type coll struct {
	name    string
	n       int
	indexes []string // names of fields, divided by commas
	doc     func(g gen, i int) bson.D
}

// requests are n calls of do, each a request to the service.
type requests struct {
	n  int
	do func(s *session, i int)
}

// set has labels that were frozen together.
type set struct {
	name    string
	table   string // what was advised for each case
	sources map[string]string
	cases   func() []labelled
}

var sets = []set{
	{"first", "docs/labels.csv", sources, cases},
	{"second", "docs/labels-second.csv", secondSources, secondCases},
	{"third", "docs/labels-third.csv", thirdSources, thirdCases},
	{"fourth", "docs/labels-fourth.csv", fourthSources, fourthCases},
	{"fifth", "docs/labels-fifth.csv", fifthSources, fifthCases},
	{"sixth", "docs/labels-sixth.csv", sixthSources, sixthCases},
}

// sources say how advise gets to know the queries of a service: by the profiler, as recorded commands, or from a log.
var sources = map[string]string{
	"bank": "profiler", "crm": "profiler", "health": "profiler", "iot": "profiler", "shop": "profiler",
	"library": "recorded", "media": "recorded", "plant": "recorded", "school": "recorded", "social": "recorded", "travel": "recorded",
	"game": "log", "web": "log",
}

func cases() []labelled { return slices.Concat(listCases(), pageCases(), refCases(), numberCases()) }

// some returns n of the values, in any order.
func (g gen) some(values []string, n int) []string {
	out := slices.Clone(values)
	g.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:n]
}

// patterns splits a label.
func patterns(label string) []string {
	return strings.FieldsFunc(label, func(r rune) bool { return r == '|' })
}

// There are enough labels of each kind, each collection is in one case, and each case says why.
func TestLabels(t *testing.T) {
	for _, s := range sets {
		t.Run(s.name, s.enough)
	}
}

func (s set) enough(t *testing.T) {
	pays, nothing, colls := map[string]int{}, 0, map[string]bool{}
	all := s.cases()
	for _, c := range all {
		if c.why == "" || s.sources[c.service] == "" || c.colls[0].name != c.name {
			t.Errorf("%s: %q", c.name, c.why)
		}
		for _, p := range patterns(c.pays) {
			pays[p]++
		}
		if c.pays == "" {
			nothing++
		}
		for _, coll := range c.colls {
			if colls[coll.name] {
				t.Errorf("%s is in two cases", coll.name)
			}
			colls[coll.name] = true
		}
	}
	t.Logf("%d collections in %d cases, %d with nothing to advise, %v", len(colls), len(all), nothing, pays)
	testkit.Equal(t, 12, len(pays))
	for p, n := range pays {
		if n < 3 {
			t.Errorf("%s: %d", p, n)
		}
	}
	if len(all) < 100 || nothing < 35 || len(all)-nothing < 60 {
		t.Errorf("%d cases, %d with nothing to advise", len(all), nothing)
	}
}
