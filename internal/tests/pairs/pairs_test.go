// Package pairs is a test: each pattern with each other one, and with itself under other field names, writes to the
// documents of one collection. It writes docs/pairs.csv:
//
//	go test ./internal/tests/pairs -run TestTable -update
//
// In go test ./... a sixth of the pairs run, with -scale=whole all.
package pairs_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var update = flag.Bool("update", false, "write docs/pairs.csv")

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// A rule says how two patterns of some go together, where they do not simply work.
type rule struct {
	one, other []string
	result     string
	why        string
	fact       string // of the error without the condition
}

const (
	works    = "works"
	worksIf  = "works if"
	refused  = "refused"
	everyone = "*"
)

var rules = []rule{
	{[]string{"slots"}, []string{"bucket", "prealloc", "series", "slots"}, refused,
		"the unique index of slots on series and start takes all documents without both for the same", "E11000"},
	{[]string{"bucket", "prealloc", "series"}, []string{"bucket", "prealloc", "series"}, worksIf,
		"Check gets a Work.Filter of its own documents: each pattern has documents of its own", "malformed"},
	{[]string{"archive"}, []string{"tree"}, worksIf, "only documents without children are moved", "orphan"},
	{[]string{"archive"}, []string{"outlier", "relation", "split", "subset", "versioning"}, worksIf,
		"the other collection of the pattern is one of the Companions", "while a document is archived: "},
	{[]string{"versioning"}, []string{"paging"}, works, "", ""},
	{[]string{"versioning"}, []string{"schemaversion"}, worksIf,
		"fields that Update sets are in Options.Ignored of versioning, and Migrate runs after Undo and Restore", "oracle"},
	{[]string{"versioning"}, []string{"polymorphic"}, worksIf,
		"documents are changed by operators, and the kind is not in Options.Ignored: Restore brings it back with its fields", ""},
	{[]string{"versioning"}, []string{"bucket", "prealloc", "series", "slots"}, worksIf,
		"all fields of the pattern are in Options.Ignored of versioning: Undo and Restore are for your own fields alone", "oracle"},
	{[]string{"versioning"}, []string{everyone}, worksIf,
		"the fields that the other pattern writes are in Options.Ignored of versioning: Undo and Restore take them back otherwise", ""},
	{[]string{"polymorphic"}, []string{"archive", "paging"}, works, "", ""},
	{[]string{"polymorphic"}, []string{everyone}, worksIf,
		"documents are changed by operators: a whole document that is written back undoes what the other wrote meanwhile", ""},
}

// ruleOf returns the rule for two patterns.
func ruleOf(a, b string) rule {
	is := func(set []string, name string) bool { return slices.Contains(set, name) || set[0] == everyone }
	for _, r := range rules {
		if is(r.one, a) && is(r.other, b) || is(r.one, b) && is(r.other, a) {
			return r
		}
	}
	return rule{result: works}
}

// together lets two patterns write in turn to the documents of a collection, and returns what fails: an error of a call, a
// problem of a Check, or an oracle.
func together(t *testing.T, a, b role, met bool) error {
	ctx := t.Context()
	db := mongotest.Database(t)
	main := db.Collection("main")
	sides := []*side{{db: db, main: main, tag: "a", met: met}, {db: db, main: main, tag: "b", met: met}}
	of, helpers := []role{a, b}, make([]*helper, 2)
	fail := func(i int, what string, err error) error {
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", of[i].pattern, what, err)
		}
		return err
	}
	order := []int{0, 1}
	if a.pattern == "archive" {
		order = []int{1, 0} // it needs to know the other
	}
	for _, i := range order {
		var err error
		sides[i].other = helpers[1-i]
		for _, field := range of[1-i].writes {
			sides[i].foreign = append(sides[i].foreign, strings.Replace(field, "%", sides[1-i].tag, 1))
		}
		if helpers[i], err = of[i].open(sides[i]); err != nil {
			return fail(i, "New", err)
		}
	}
	sides[0].other, sides[1].other = helpers[1], helpers[0]
	for _, i := range order {
		if h, ok := helpers[i].value.(mongopatterns.Sharder); ok {
			if err := h.EnsureIndexes(ctx); err != nil {
				return fail(i, "EnsureIndexes", err)
			}
		}
	}
	seeded := false
	for i, h := range helpers {
		if h.seed == nil {
			continue
		}
		seeded = true
		if err := h.seed(ctx); err != nil {
			return fail(i, "first documents", err)
		}
	}
	if !seeded {
		testkit.Insert(t, main, d("_id", 0), d("_id", 1), d("_id", 2))
	}
	var docs []struct {
		ID any `bson:"_id"`
	}
	testkit.OK(t, testkit.Must(main.Find(ctx, bson.D{}, options.Find().SetSort(d("_id", 1)).SetLimit(shared))).All(ctx, &docs))
	var ids []any
	for _, doc := range docs {
		ids = append(ids, doc.ID)
	}
	for i, h := range helpers {
		if h.adopt == nil {
			continue
		}
		if err := h.adopt(ctx, ids); err != nil {
			return fail(i, "Adopt", err)
		}
	}
	for n := range steps {
		if err := inTurn(ctx, sides, helpers, ids, n, fail); err != nil {
			return err
		}
	}
	for i, h := range helpers {
		if h.back == nil {
			continue
		}
		if err := fail(i, "Undo and Restore", h.back(ctx, ids)); err != nil {
			return err
		}
	}
	for i, h := range helpers {
		if err := fail(i, "oracle", h.oracle(ctx, ids)); err != nil {
			return err
		}
		if err := fail(i, "in the end", h.check(ctx, met)); err != nil {
			return err
		}
	}
	return nil
}

// inTurn makes write n of both. The other's comes between the read and the write of one that reads first, except in the
// last writes of a side that then goes back, which has to meet writes after its own.
func inTurn(ctx context.Context, sides []*side, helpers []*helper, ids []any, n int, fail func(i int, what string, err error) error) error {
	var written [2]bool
	write := func(ctx context.Context, i int) error {
		if written[i] {
			return nil
		}
		written[i] = true
		return fail(i, fmt.Sprint("write ", n), helpers[i].step(ctx, ids, n))
	}
	for i, s := range sides {
		s.between = func(ctx context.Context) error {
			if helpers[i].back != nil && n >= steps-shared {
				return nil
			}
			return write(ctx, 1-i)
		}
	}
	begins := n % 2
	if helpers[1-begins].reads && !helpers[begins].reads {
		begins = 1 - begins
	}
	if err := write(ctx, begins); err != nil {
		return err
	}
	return write(ctx, 1-begins)
}

func TestPairs(t *testing.T) {
	every := scale.Of(6, 3, 1)
	cell := int(scale.Seed() % uint64(every))
	for i, a := range roles {
		for _, b := range roles[i:] {
			if cell++; cell%every != 0 {
				continue
			}
			t.Run(a.pattern+" "+b.pattern, func(t *testing.T) {
				t.Parallel()
				r := ruleOf(a.pattern, b.pattern)
				if r.result != refused {
					if err := together(t, a, b, true); err != nil {
						t.Error(err)
					}
				}
				err := together(t, a, b, false)
				switch {
				case r.result == works && err != nil:
					t.Error(err)
				case r.result != works && (err == nil || !strings.Contains(err.Error(), r.fact)):
					t.Errorf("%s %s, which should show: %v", r.result, r.why, err)
				}
			})
		}
	}
}

const table = "docs/pairs.csv"

// The table has a line for each pair, and what it says is what TestPairs tests.
func TestTable(t *testing.T) {
	var named []string
	lines := [][]string{{"pattern", "with", "result", "why"}}
	for i, a := range roles {
		named = append(named, a.pattern)
		for _, b := range roles[i:] {
			r := ruleOf(a.pattern, b.pattern)
			lines = append(lines, []string{a.pattern, b.pattern, r.result, r.why})
		}
	}
	for _, p := range registry.Patterns() {
		if !slices.Contains(named, p.Package) && p.Package != "mongopatterns" {
			t.Errorf("%s has no role", p.Package)
		}
	}
	var want bytes.Buffer
	w := csv.NewWriter(&want)
	testkit.OK(t, w.WriteAll(lines))
	if *update {
		testkit.OK(t, os.WriteFile(table, want.Bytes(), 0o644))
	}
	have, err := os.ReadFile(table)
	testkit.OK(t, err)
	if !bytes.Equal(have, want.Bytes()) {
		t.Errorf("%s is another: run this test with -update", table)
	}
}
