package registry

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A Role is what a pattern does beside another one on one collection.
type Role struct {
	Open func(s *Side) (*Player, error)
	// Writes are the top-level fields that it writes to the documents, with % for the tag, and that the history of the
	// other side does not keep.
	Writes []string
	// Last says that it is opened after the other, because it needs to know it.
	Last bool
	// Rules say how it goes together with others, where they do not simply work. The first that fits counts, and one that
	// names the other before one that names none.
	Rules []Rule
}

// A Rule says how a pattern goes together with others.
type Rule struct {
	With   []string // none: with each
	Result string
	Why    string
	Fact   string // of the error without the condition
}

// The results of a Rule.
const (
	Works   = "works"
	WorksIf = "works if"
	Refused = "refused"
)

// RuleOf returns the rule for two patterns, whichever of them has it.
func RuleOf(a, b Pattern) Rule {
	all := slices.Concat(rulesFor(a, b), rulesFor(b, a))
	slices.SortStableFunc(all, func(x, y Rule) int { return min(len(y.With), 1) - min(len(x.With), 1) })
	return append(all, Rule{Result: Works})[0]
}

func rulesFor(a, b Pattern) (out []Rule) {
	for _, r := range a.Role.Rules {
		if len(r.With) == 0 || slices.Contains(r.With, b.Package) {
			out = append(out, r)
		}
	}
	return out
}

// A Side is one of the two patterns of a pair. Its fields and collections end in Tag.
type Side struct {
	DB   *mongo.Database
	Main *mongo.Collection
	Tag  string
	// Met says that the condition of the pair is met: what the side does otherwise then, its role says.
	Met   bool
	Other *Player
	// Foreign are the fields that the other pattern writes.
	Foreign []string
	// Between makes the other side's write, where this one has read a document and not yet written it.
	Between func(ctx context.Context) error
}

func (s *Side) coll(name string) *mongo.Collection { return s.DB.Collection(name + "_" + s.Tag) }
func (s *Side) name(field string) string           { return field + "_" + s.Tag }

// set sets a field of a document with the driver.
func (s *Side) set(ctx context.Context, id any, field string, v any) error {
	return testkit.ErrorOf(s.Main.UpdateByID(ctx, id, testkit.D("$set", testkit.D(field, v))))
}

// has requires that a field of a document has a value.
func (s *Side) has(ctx context.Context, id any, field string, want any) error {
	stored, err := s.Main.FindOne(ctx, testkit.D("_id", id)).Raw()
	if err != nil {
		return err
	}
	n, err := s.Main.CountDocuments(ctx, testkit.D("_id", id, field, want))
	if err == nil && n != 1 {
		err = fmt.Errorf("%s is not %v: %v", field, want, stored)
	}
	return err
}

// A Player is what a Role has opened. Functions that are nil do nothing.
type Player struct {
	Value any
	// Seed stores documents of the pattern's own in the shared collection.
	Seed func(ctx context.Context) error
	// Adopt prepares the documents that all share.
	Adopt func(ctx context.Context, ids []any) error
	// Step is write n of the pattern, to one of the shared documents or to its own.
	Step func(ctx context.Context, ids []any, n int) error
	// Oracle returns what the writes should have left.
	Oracle func(ctx context.Context, ids []any) error
	// Back takes back what was written, after the last step.
	Back func(ctx context.Context, ids []any) error
	// Reads says that Step reads a document before it writes it.
	Reads bool
	// Own selects the documents of the pattern's own.
	Own bson.D
	// Leaf says that only the last document belongs to no other.
	Leaf bool
	// Parts are the collections with what belongs to the documents.
	Parts []Part
}

// A Part is a collection whose documents name in a field the one that they belong to.
type Part struct {
	Coll  *mongo.Collection
	Field string
}

// Check returns the first problem of the pattern's Check as an error. With own it checks the documents of its own.
func (p *Player) Check(ctx context.Context, own bool) error {
	c, ok := p.Value.(mongopatterns.Checker)
	if !ok {
		return nil
	}
	var work *mongopatterns.Work
	if own && p.Own != nil {
		work = &mongopatterns.Work{Filter: p.Own}
	}
	for problem, err := range c.Check(ctx, work) {
		if err != nil {
			return err
		}
		return fmt.Errorf("Check: %s", problem)
	}
	return nil
}

func opened(p *Player, value any, err error) (*Player, error) {
	p.Value = value
	return p, err
}

// Rounds is the number of writes of each pattern. Write n goes to document n%Shared.
const Rounds, Shared = 12, 3

// roundsOf are the numbers of the writes to a document.
func roundsOf(i int) (out []int) {
	for n := i; n < Rounds; n += Shared {
		out = append(out, n)
	}
	return out
}

// each calls fn for each shared document, and stops at an error.
func each(ids []any, fn func(i int, id any) error) error {
	for i, id := range ids {
		if err := fn(i, id); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
	return nil
}

// same returns an error if two values are not printed alike.
func same(have, want any) error {
	if fmt.Sprint(have) != fmt.Sprint(want) {
		return fmt.Errorf("have %v, want %v", have, want)
	}
	return nil
}

// hourly is the time of measurement n: three hours, in turn.
func hourly(n int) time.Time {
	return nine.Add(time.Duration(n%Shared)*time.Hour + time.Duration(n)*time.Minute)
}

// allMeasured is the oracle of measurements.
func allMeasured(read func(from, to time.Time) ([]int, error)) error {
	var want []int
	for i := range Shared {
		want = append(want, roundsOf(i)...)
	}
	have, err := read(from, to)
	if err != nil {
		return err
	}
	slices.Sort(have)
	slices.Sort(want)
	return same(have, want)
}

func numbersOf[T any](seq func(yield func(T, error) bool), number func(T) int) (out []int, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, number(v))
	}
	return out, nil
}

// readings appends to a series, and reads it by range.
func readings(s *Side, put func(ctx context.Context, n int) error, read func(ctx context.Context, series string, from, to time.Time) iter.Seq2[reading, error]) *Player {
	return &Player{
		Own:  testkit.D(s.name("start"), testkit.D("$exists", true)),
		Seed: func(ctx context.Context) error { return first(ctx, put) },
		Step: func(ctx context.Context, _ []any, n int) error { return later(ctx, n, put) },
		Oracle: func(ctx context.Context, _ []any) error {
			return allMeasured(func(from, to time.Time) ([]int, error) {
				return numbersOf(read(ctx, "A", from, to), number)
			})
		},
	}
}

// first stores the measurements with which the windows begin.
func first(ctx context.Context, put func(ctx context.Context, n int) error) error {
	for n := range Shared {
		if err := put(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// later stores a measurement that is not one of the first.
func later(ctx context.Context, n int, put func(ctx context.Context, n int) error) error {
	if n < Shared {
		return nil
	}
	return put(ctx, n)
}

func sum(of []int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

// apartFrom is the rule of patterns whose Checks take each other's documents for their own.
func apartFrom(patterns ...string) Rule {
	return Rule{With: patterns, Result: WorksIf,
		Why: "Check gets a Work.Filter of its own documents: each pattern has documents of its own", Fact: "malformed"}
}
