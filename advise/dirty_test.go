package advise_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// dirty generates 600 documents of a kind, changes some of them and looks.
func dirty(t *testing.T, kind string, change func(c *labelled)) *advise.Report {
	t.Helper()
	db := mongotest.Database(t)
	c := generate(rand.New(rand.NewPCG(7, 7)), kindOf(t, kind), 600, "things")
	change(&c)
	return look(t, db, unhurried(store(t, db, []labelled{c})))
}

// reason is the one note about a pattern of a collection that is not advised.
func reason(t *testing.T, report *advise.Report, pattern string) string {
	t.Helper()
	var all []string
	for _, n := range report.NotAdvised {
		if n.Collection == "things" && n.Pattern == pattern {
			all = append(all, n.Reason)
		}
	}
	if len(all) != 1 {
		t.Errorf("%s: %d reasons: %v", pattern, len(all), all)
	}
	return strings.Join(all, "; ")
}

// Few documents of 16 MB neither make split pay nor hide that it does: documents are counted, not bytes.
func TestSplitOfFewHugeDocuments(t *testing.T) {
	t.Parallel()
	const kind = "split: lists leave texts out"
	field := func(doc any, name string) *any {
		d := doc.(bson.D)
		return &d[slices.IndexFunc(d, func(e bson.E) bool { return e.Key == name })].Value
	}
	hot := dirty(t, kind, func(c *labelled) { *field(c.docs[7], "title") = strings.Repeat("x", 15<<20) })
	if !slices.Equal(named(hot), []string{"split:things"}) {
		t.Fatalf("a title of 15 MB: advised %v; %v", named(hot), about(hot, "things"))
	}
	if f := hot.Findings[0]; !strings.Contains(f.Summary, "in 599 of 600 documents (counted)") {
		t.Errorf("%s", f.Summary)
	}
	cold := dirty(t, kind, func(c *labelled) {
		text := c.docs[0].(bson.D)[4].Key
		for i, doc := range c.docs {
			*field(doc, text), *field(doc, "details") = "short", bson.D{{Key: "plot", Value: "short"}}
			if i == 7 {
				*field(doc, text) = strings.Repeat("x", 15<<20)
			}
		}
	})
	if len(cold.Findings) > 0 {
		t.Errorf("one text of 15 MB: advised %v", named(cold))
	} else if got := reason(t, cold, "split"); !strings.Contains(got, "in 1 of 600 documents alone") {
		t.Errorf("one text of 15 MB: %s", got)
	}
}

// Parents of another shape, in up to 5 % of the documents, do not hide a tree, and are counted.
func TestTreeWithOtherParents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		parent any
		some   int // documents with it
		want   string
		not    string
	}{
		{"one array", bson.A{1, 2}, 1, "1 of 599 documents with a parent have an array there (counted): Adopt leaves", ""},
		{"empty arrays", bson.A{}, 25, "25 of 599 documents with a parent have an array there (counted)", ""},
		{"one name", "the first", 1, "1 of 599 documents with a parent name no document (counted)", ""},
		{"many arrays", bson.A{1, 2}, 40, "", "40 of 599 documents with a parent have an array there: a graph, not a tree"},
		{"many names", "the first", 40, "", "40 of 599 documents with a parent name no document"},
	} {
		report := dirty(t, "tree: subtrees are read", func(c *labelled) {
			for i := range test.some {
				d := c.docs[len(c.docs)-1-i].(bson.D) // leaves
				d[len(d)-1].Value = test.parent
			}
		})
		switch {
		case test.not != "":
			if got := reason(t, report, "tree"); len(report.Findings) > 0 || got != test.not {
				t.Errorf("%s: advised %v, %q", test.name, named(report), got)
			}
		case !slices.Equal(named(report), []string{"tree:things"}):
			t.Errorf("%s: advised %v; %v", test.name, named(report), about(report, "things"))
		case !strings.Contains(strings.Join(report.Findings[0].Against, " "), test.want):
			t.Errorf("%s: %q", test.name, report.Findings[0].Against)
		}
	}
}
