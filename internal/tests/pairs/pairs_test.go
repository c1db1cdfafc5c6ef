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

// roles are the patterns that have one.
func roles() []registry.Pattern {
	return slices.DeleteFunc(registry.Patterns(), func(p registry.Pattern) bool { return p.Role == nil })
}

// together lets two patterns write in turn to the documents of a collection, and returns what fails: an error of a call, a
// problem of a Check, or an oracle.
func together(t *testing.T, a, b registry.Pattern, met bool) error {
	ctx := t.Context()
	db := mongotest.Database(t)
	main := db.Collection("main")
	sides := []*registry.Side{{DB: db, Main: main, Tag: "a", Met: met}, {DB: db, Main: main, Tag: "b", Met: met}}
	of, players := []registry.Pattern{a, b}, make([]*registry.Player, 2)
	fail := func(i int, what string, err error) error {
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", of[i].Package, what, err)
		}
		return err
	}
	order := []int{0, 1}
	if a.Role.Last {
		order = []int{1, 0}
	}
	for _, i := range order {
		var err error
		sides[i].Other = players[1-i]
		for _, field := range of[1-i].Role.Writes {
			sides[i].Foreign = append(sides[i].Foreign, strings.Replace(field, "%", sides[1-i].Tag, 1))
		}
		if players[i], err = of[i].Role.Open(sides[i]); err != nil {
			return fail(i, "New", err)
		}
	}
	sides[0].Other, sides[1].Other = players[1], players[0]
	for _, i := range order {
		if h, ok := players[i].Value.(mongopatterns.Sharder); ok {
			if err := h.EnsureIndexes(ctx); err != nil {
				return fail(i, "EnsureIndexes", err)
			}
		}
	}
	seeded := false
	for i, h := range players {
		if h.Seed == nil {
			continue
		}
		seeded = true
		if err := h.Seed(ctx); err != nil {
			return fail(i, "first documents", err)
		}
	}
	if !seeded {
		testkit.Insert(t, main, testkit.D("_id", 0), testkit.D("_id", 1), testkit.D("_id", 2))
	}
	var docs []struct {
		ID any `bson:"_id"`
	}
	testkit.OK(t, testkit.Must(main.Find(ctx, bson.D{}, options.Find().SetSort(testkit.D("_id", 1)).SetLimit(registry.Shared))).All(ctx, &docs))
	var ids []any
	for _, doc := range docs {
		ids = append(ids, doc.ID)
	}
	for i, h := range players {
		if h.Adopt == nil {
			continue
		}
		if err := h.Adopt(ctx, ids); err != nil {
			return fail(i, "Adopt", err)
		}
	}
	for n := range registry.Rounds {
		if err := inTurn(ctx, sides, players, ids, n, fail); err != nil {
			return err
		}
	}
	for i, h := range players {
		if h.Back == nil {
			continue
		}
		if err := fail(i, "Undo and Restore", h.Back(ctx, ids)); err != nil {
			return err
		}
	}
	for i, h := range players {
		if err := fail(i, "oracle", h.Oracle(ctx, ids)); err != nil {
			return err
		}
		if err := fail(i, "in the end", h.Check(ctx, met)); err != nil {
			return err
		}
	}
	return nil
}

// inTurn makes write n of both. The other's comes between the read and the write of one that reads first, except in the
// last writes of a side that then goes back, which has to meet writes after its own.
func inTurn(ctx context.Context, sides []*registry.Side, players []*registry.Player, ids []any, n int, fail func(i int, what string, err error) error) error {
	var written [2]bool
	write := func(ctx context.Context, i int) error {
		if written[i] {
			return nil
		}
		written[i] = true
		return fail(i, fmt.Sprint("write ", n), players[i].Step(ctx, ids, n))
	}
	for i, s := range sides {
		s.Between = func(ctx context.Context) error {
			if players[i].Back != nil && n >= registry.Rounds-registry.Shared {
				return nil
			}
			return write(ctx, 1-i)
		}
	}
	begins := n % 2
	if players[1-begins].Reads && !players[begins].Reads {
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
	for i, a := range roles() {
		for _, b := range roles()[i:] {
			if cell++; cell%every != 0 {
				continue
			}
			t.Run(a.Package+" "+b.Package, func(t *testing.T) {
				t.Parallel()
				r := registry.RuleOf(a, b)
				if r.Result != registry.Refused {
					if err := together(t, a, b, true); err != nil {
						t.Error(err)
					}
				}
				err := together(t, a, b, false)
				switch {
				case r.Result == registry.Works && err != nil:
					t.Error(err)
				case r.Result != registry.Works && (err == nil || !strings.Contains(err.Error(), r.Fact)):
					t.Errorf("%s %s, which should show: %v", r.Result, r.Why, err)
				}
			})
		}
	}
}

const table = "docs/pairs.csv"

// The table has a line for each pair, and what it says is what TestPairs tests.
func TestTable(t *testing.T) {
	lines := [][]string{{"pattern", "with", "result", "why"}}
	for i, a := range roles() {
		for _, b := range roles()[i:] {
			r := registry.RuleOf(a, b)
			lines = append(lines, []string{a.Package, b.Package, r.Result, r.Why})
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
