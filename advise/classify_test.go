package advise_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

var update = flag.Bool("update", false, "write the figures to docs/advise.csv")

func TestMain(m *testing.M) { testkit.Main(m) }

// unhurried is what tests look with: a loaded machine must not change what is found.
func unhurried(queries []advise.Query) *advise.Options {
	return &advise.Options{Queries: queries, MaxTime: time.Minute, Budget: time.Hour}
}

// score counts what a detector said against the labels.
type score struct{ right, wrong, missed, silent int }

func (s *score) add(said, want bool) {
	switch {
	case said && want:
		s.right++
	case said:
		s.wrong++
	case want:
		s.missed++
	default:
		s.silent++
	}
}

func (s score) precision() float64 { return ratio(s.right, s.right+s.wrong) }
func (s score) recall() float64    { return ratio(s.right, s.right+s.missed) }

func ratio(part, all int) float64 {
	if all == 0 {
		return 1
	}
	return float64(part) / float64(all)
}

// detectors are those that shapes are labelled for, and those of questions and changes.
var detectors = []string{"outlier", "subset", "split", "paging", "tree", "extref", "relation", "attribute", "series", "bucket", "computed", "approx"}

// What is advised is right: 95 of 100 times at least, for every detector and size.
func TestClassifier(t *testing.T) {
	sizes := []int{300, 1_200, 5_200} // of the last a sample is taken
	for _, n := range scale.Of([]int{300, 5_200}, sizes, sizes) {
		t.Run(fmt.Sprint("classifier ", n), func(t *testing.T) { classifyAll(t, shapes, n, detectors[:3]) })
		t.Run(fmt.Sprint("questions ", n), func(t *testing.T) { classifyAll(t, questions, n, detectors[3:9]) })
		t.Run(fmt.Sprint("changes ", n), func(t *testing.T) { classifyAll(t, changes, n, detectors[9:]) })
	}
}

// Kinds are generated equally often: over any number of seeds one is there at most once more than another.
func TestKindsAreDealtEvenly(t *testing.T) {
	for _, kinds := range [][]kind{shapes, questions, changes} {
		for seeds := range 60 {
			times := map[string]int{}
			for seed := range seeds {
				for _, k := range dealt(kinds, 6*seed, 6) {
					times[k.name]++
				}
			}
			for _, k := range kinds {
				if least := 6 * seeds / len(kinds); times[k.name] < least || times[k.name] > least+1 {
					t.Fatalf("%d seeds: %s is there %d times, want %d or %d", seeds, k.name, times[k.name], least, least+1)
				}
			}
		}
	}
}

func classifyAll(t *testing.T, kinds []kind, n int, labelled []string) {
	scores := map[string]*score{}
	for _, pattern := range detectors {
		scores[pattern] = &score{}
	}
	runs := scale.Of(max(1, 300/n), 10, 200) // databases
	collections := 6
	if n > 5_000 {
		collections = scale.Of(1, 6, 6)
	}
	first := int(scale.Seed()-1) * runs // each seed has databases of its own
	var mutex sync.Mutex
	t.Run("seeds", func(t *testing.T) { // two at a time, or as -parallel says
		for seed := first; seed < first+runs; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				classify(t, kinds, seed, n, collections, func(pattern string, said, want bool) {
					mutex.Lock()
					defer mutex.Unlock()
					scores[pattern].add(said, want)
				})
			})
		}
	})
	for _, pattern := range detectors {
		s := scores[pattern]
		t.Logf("%s: precision %.3f, recall %.3f, %+v", pattern, s.precision(), s.recall(), *s)
		if s.wrong > 1 && s.precision() < 0.95 { // one case is no share
			t.Errorf("%s: precision %.3f (%+v)", pattern, s.precision(), *s)
		}
	}
	if *update {
		if !scale.Whole() {
			t.Fatal("the figures in docs/advise.csv are those of -scale=whole")
		}
		writeFigures(t, n, labelled, scores)
	}
}

// classify tells of each collection and detector what was said and what is right. Its database goes with t.
func classify(t *testing.T, kinds []kind, seed, n, collections int, tell func(pattern string, said, want bool)) {
	db := mongotest.Database(t)
	all := database(kinds, seed, n, collections)
	queries := store(t, db, all)
	report, err := advise.Look(t.Context(), db, unhurried(queries))
	if err != nil {
		t.Fatal(err)
	}
	agrees(t, report)
	for _, c := range all {
		for _, pattern := range detectors {
			said := slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Pattern == pattern && f.Collection == c.name })
			want := slices.Contains(c.want, pattern)
			switch {
			case said && !want:
				t.Logf("seed %d, %d documents: %s advised for %s", seed, n, pattern, c.kind)
			case want && !said:
				t.Logf("seed %d, %d documents: %s missed for %s: %v", seed, n, pattern, c.kind, about(report, c.name))
			}
			tell(pattern, said, want)
		}
	}
}

// about are the notes on a collection.
func about(report *advise.Report, collection string) (out []string) {
	for _, n := range append(slices.Clone(report.NotAdvised), report.Unknown...) {
		if n.Collection == collection {
			out = append(out, n.String())
		}
	}
	return out
}

const (
	figures    = "../docs/advise.csv"
	figureHead = "detector,documents,pays,right,wrong\n"
)

// writeFigures replaces the lines of these detectors for this number of documents.
func writeFigures(t *testing.T, documents int, labelled []string, scores map[string]*score) {
	t.Helper()
	text := testkit.Value[[]byte](t)(os.ReadFile(figures))
	lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(string(text), figureHead)), "\n")
	for _, pattern := range labelled {
		s, begin := scores[pattern], fmt.Sprintf("%s,%d,", pattern, documents)
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, begin) })
		lines = append(lines, fmt.Sprintf("%s%d,%d,%d", begin, s.right+s.missed, s.right, s.wrong))
	}
	slices.Sort(lines)
	testkit.OK(t, os.WriteFile(figures, []byte(figureHead+strings.Join(lines, "\n")+"\n"), 0o644))
}
