package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}, {nil, nan}, {[]float64{1, nan, 2}, nan},
	} {
		have := median(c.values)
		if have != c.want && !(math.IsNaN(have) && math.IsNaN(c.want)) {
			t.Errorf("median of %v is %v, not %v", c.values, have, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for have, want := range map[string]string{
		quantity(0.5, "µs"):                   "0.5 µs",
		quantity(999.96, "µs"):                "1 ms",
		quantity(1234, "µs"):                  "1.23 ms",
		quantity(61e6, "µs"):                  "61 s",
		quantity(432e6, "bytes"):              "432 MB",
		quantity(12, "bytes"):                 "12 B",
		quantity(4_320_000, "documents"):      "4,320,000",
		quantity(12.345, "%"):                 "12.3 %",
		number(-1234567):                      "-1,234,567",
		number(0.00012345):                    "0.000123",
		fmt.Sprint(round(123456.7)):           "123457",
		fmt.Sprint(round(0.000123456)):        "0.0001235",
		cell{Ratio: 0.25}.Times():             "1/4",
		cell{}.Times():                        "",
		fmt.Sprint(round(math.Inf(1))):        "+Inf",
		shorten("a bulk write exception", 6):  "a bulk…",
		fmt.Sprint(round(0), round(-2), 1e-9): "0 -2 1e-09",
	} {
		if have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
}

// Multiples are written as people say them.
func TestMultiple(t *testing.T) {
	for ratio, want := range map[float64]string{
		0: "", 0.000416: "1/2400", 0.0273: "1/37", 0.025: "1/40", 0.1004: "1/10", 0.1: "1/10", 0.28: "1/3.6", 0.5: "1/2", 0.54: "1/1.9",
		0.55: "×0.55", 0.851: "×0.851", 1: "×1", 1.048: "×1.05", 9.94: "×9.94", 9.96: "×10", 24.4: "×24", 2449: "×2400", 0.00001: "1/100000",
	} {
		if have := multiple(ratio); have != want {
			t.Errorf("%v is %q, want %q", ratio, have, want)
		}
	}
}

// sampleReport is a report as a run would make it.
func sampleReport() *report {
	b := (&server{engine: "mongodb 6.0.5"}).start(benchmark{pattern: "paging", name: "by depth"}, "small", 5, 1)
	for i, depth := range []string{"0", "1,000"} {
		b.report("by _id, after "+depth+": time", "µs", value{"skip", 100 * math.Pow(10, float64(i))}, value{"token", 50}, value{"number <|>", 120})
		b.report("by _id, after "+depth+": server CPU", "µs", value{"skip", nan}, value{"token", 5})
		b.report("by _id, after "+depth+": keys examined", "keys", value{"skip", 20}, value{"token", 21})
	}
	b.report("documents", "documents", value{"plain", 1000}, value{"buckets", 0}, value{"slots", 10})
	b.report("data", "bytes", value{"plain", 0}, value{"buckets", 100}, value{"slots", nan})
	b.goal("documents", "slots", 0.001)
	b.because("documents", "slots", "Slots <are> ten.")
	return &report{
		Run: runInfo{Date: "2026-01-02", Engine: "mongodb 6.0.5", Scale: "small", Seed: 1, OS: "linux amd64", Cores: 2, Memory: 8, Go: "go1.25", Code: "v0.1.0"},
		Cases: []caseResult{
			{Pattern: "paging", Case: "by depth", About: "Pages.", Seconds: 2, Results: b.results},
			{Pattern: "tree", Case: "move", About: "Moves.", Error: "no <server>"},
			{Pattern: "paging", Case: "walk", About: "All pages."},
		},
	}
}

func TestTables(t *testing.T) {
	tables := sampleReport().Cases[0].Tables()
	want := []table{
		{"by _id, after 0", []string{"time", "keys examined"}, []row{
			{"skip", []cell{{V: 100, Unit: "µs"}, {V: 20, Unit: "keys"}}},
			{"token", []cell{{V: 50, Ratio: 0.5, Unit: "µs"}, {V: 21, Ratio: 1.05, Unit: "keys"}}},
			{"number <|>", []cell{{V: 120, Ratio: 1.2, Unit: "µs"}, {}}},
		}, 1, false},
		{"by _id, after 1,000", []string{"time", "keys examined"}, []row{
			{"skip", []cell{{V: 1000, Unit: "µs"}, {V: 20, Unit: "keys"}}},
			{"token", []cell{{V: 50, Ratio: 0.05, Unit: "µs"}, {V: 21, Ratio: 1.05, Unit: "keys"}}},
			{"number <|>", []cell{{V: 120, Ratio: 0.12, Unit: "µs"}, {}}},
		}, 1, false},
		{"", []string{"documents", "data"}, []row{
			{"plain", []cell{{V: 1000, Unit: "documents"}, {V: 0, Unit: "bytes"}}},
			{"buckets", []cell{{V: 0, Unit: "documents"}, {V: 100, Unit: "bytes"}}},
			{"slots", []cell{{V: 10, Ratio: 0.01, Goal: 0.001, Unit: "documents", Missed: true}, {}}},
		}, 1, false},
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Error(diff)
	}
}

// TestFloors: calls with the same argument share a row, and what could be less comes first. The page has no more.
func TestFloors(t *testing.T) {
	c := caseResult{Results: []result{
		{Metric: "a: round trips", Value: 1, Floor: 1, Argument: "one write"}, {Metric: "a: time"},
		{Metric: "c: round trips", Value: 3, Floor: 3, Bulk: 2, Argument: "two | two"},
		{Metric: "d: round trips", Value: 2, Floor: 1, Argument: "one write"}, {Metric: "b: round trips", Value: 1, Floor: 1, Argument: "one write"},
	}}
	var out strings.Builder
	writeFloors(&out, c.Floors())
	if want := "|---|---:|---:|---:|---|\n| d | 2 | 1 | 1 | one write |\n| c | 3 | 3 | 2 | two \\| two |\n\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s", out.String())
	}
}

// TestPages: what is written as JSON comes back, and its pages are well-formed.
func TestPages(t *testing.T) {
	r, dir := sampleReport(), t.TempDir()
	name := filepath.Join(dir, "results.json")
	file, err := createJSON(name)
	if err != nil {
		t.Fatal(err)
	}
	errs := []error{file.line(r.Run)}
	for _, c := range r.Cases {
		errs = append(errs, file.writeCase(c))
	}
	if err := errors.Join(append(errs, file.close())...); err != nil {
		t.Fatal(err)
	}
	back, err := readJSON(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("read what was not written: %s", diff)
	}
	docs := filepath.Join(dir, "docs")
	if err := run(t.Context(), []string{"-from", name, "-docs", docs}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if again, err := readJSON(filepath.Join(docs, resultsFile)); err != nil || !cmp.Equal(r, again) {
		t.Errorf("%s: %v, %s", resultsFile, err, cmp.Diff(r, again))
	}
	text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n| what | way | time or size | × |\n|---|---|---:|---:|\n" +
			"| by _id, after 0 | **skip** | 100 µs |  |\n|  | token | 50 µs | 1/2 |\n|  | number &lt;\\|> | 120 µs | 1.2 |\n",
		"| by _id, after 0, keys examined | **skip** | 20 |  |\n|  | token | 21 | 1.05 |\n",
		"| slots: by depth, documents | plain | **1/100** | ≤ 1/1000 |",
		"  Over the goal: slots, documents. Slots &lt;are> ten.\n",
		"Measured on 2026-01-02: mongodb 6.0.5, 2 cores, 8 GB memory, linux amd64, go1.25; small scale, seed 1, code v0.1.0.",
		"It failed: no &lt;server>",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("benchmarks.md lacks %q:\n%s", want, text)
		}
	}
}

// docs/benchmarks.md is what the program writes from the results beside it.
func TestPageOfResults(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	r, err := readJSON(filepath.Join(docs, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(markdown(r), string(page)); diff != "" {
		t.Errorf("run go run ./cmd/patternbench -from docs/%s -docs docs (-results +page):\n%s", resultsFile, diff)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-run", "nothing"}, {"-run", "pag"}, {"-scale", "huge"}, {"-runs", "0"}, {"tree"}, {"-from", "missing.json"}, {"-nonsense"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-list", "-run", "tree/mo,paging"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if listed := strings.Contains(out.String(), c.String()+" "); listed != (c.pattern == "paging" || c.String() == "tree/move") {
			t.Errorf("%s listed: %v", c, listed)
		}
		if c.about == "" || !strings.HasSuffix(c.about, ".") {
			t.Errorf("%s: about is %q", c, c.about)
		}
	}
}

// databases are those of a process.
func databases(t *testing.T, client *mongo.Client, pid int) []string {
	t.Helper()
	names, err := client.ListDatabaseNames(t.Context(), bson.D{{Key: "name", Value: bson.D{{Key: "$regex", Value: fmt.Sprintf("^patternbench_%x_", pid)}}}})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestCases runs the cases with very little data: a small run those of overhead and a third of the others.
func TestCases(t *testing.T) {
	t.Setenv("MONGODB_URI", mongotest.AdminURI(t))
	client := mongotest.Database(t).Client()
	var names []string
	for _, c := range cases {
		if c.pattern == "overhead" || scale.Third(c.String()) {
			names = append(names, c.String())
		}
	}
	r := tiny(t, "-run", strings.Join(names, ","))
	if len(r.Cases) != len(names) {
		t.Fatalf("%d cases of %d", len(r.Cases), len(names))
	}
	for i, c := range r.Cases {
		if len(c.Results) == 0 {
			t.Errorf("%s: no results", names[i])
		}
		for _, one := range c.Results {
			if one.Pattern+"/"+one.Case != names[i] || one.Metric == "" || one.Unit == "" || one.BaselineName == "" ||
				one.Name == "" || one.Runs < 1 || !strings.HasPrefix(one.Engine, "mongodb ") || one.Scale != "tiny" {
				t.Errorf("not complete: %+v", one)
			}
		}
	}
	if left := databases(t, client, os.Getpid()); len(left) > 0 {
		t.Errorf("left on the server: %v", left)
	}
	baseline(t, r)
}

var update = flag.Bool("update", false, "write testdata/baseline.json")

// baseline compares the hot calls with what they took when the file was written: as many round trips,
// and at most a tenth more allocations. Times are nobody's promise.
func baseline(t *testing.T, r *report) {
	const name = "testdata/baseline.json"
	for _, c := range r.Cases {
		for _, one := range c.Results {
			if c.Case == hotCallsCase && strings.HasSuffix(one.Metric, ": round trips") {
				atFloor(t, one)
			}
		}
	}
	have := counted(r)
	if *update {
		data, err := json.MarshalIndent(have, "", "\t")
		if err == nil {
			err = os.WriteFile(name, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]float64
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	tooMany := func(have map[string]map[string]float64, call string) bool {
		return !raced && have[call]["allocations"] > 1.1*want[call]["allocations"]+10
	}
	var again map[string]map[string]float64 // if it is needed
	for call, kinds := range have {
		was, ok := want[call]
		if !ok {
			t.Errorf("%s is not in %s: run with -update", call, name)
			continue
		}
		if kinds["round trips"] > was["round trips"] {
			t.Errorf("%s: %v round trips, %v before", call, kinds["round trips"], was["round trips"])
		}
		if !tooMany(have, call) {
			continue
		}
		if again == nil { // the runtime also counts what the driver's monitors allocate meanwhile
			again = counted(tiny(t, "-run", "overhead/"+hotCallsCase))
		}
		if tooMany(again, call) {
			t.Errorf("%s: %v allocations, then %v, and %v before", call, kinds["allocations"], again[call]["allocations"], was["allocations"])
		}
	}
	for call := range want {
		if have[call] == nil {
			t.Errorf("%s, of %s, was not measured", call, name)
		}
	}
}

// counted are the round trips and allocations of the hot calls.
func counted(r *report) map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, c := range r.Cases {
		for _, one := range c.Results {
			call, kind, _ := strings.Cut(one.Metric, ": ")
			if c.Case == hotCallsCase && (kind == "round trips" || kind == "allocations") {
				if out[call] == nil {
					out[call] = map[string]float64{}
				}
				out[call][kind] = one.Value
			}
		}
	}
	return out
}

// tiny runs cases with very little data.
func tiny(t *testing.T, args ...string) *report {
	t.Helper()
	name := filepath.Join(t.TempDir(), "results.json")
	var notes strings.Builder
	if err := run(t.Context(), append([]string{"-scale", "tiny", "-runs", "1", "-json", name}, args...), io.Discard, &notes); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	r, err := readJSON(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// atFloor: no call sends less than the least that its argument says, so the argument holds, and each has one.
func atFloor(t *testing.T, r result) {
	t.Helper()
	switch {
	case r.Argument == "":
		t.Errorf("%s: no argument for the least", r.Metric)
	case r.Value < float64(r.Floor):
		t.Errorf("%s: %v sent, at least %d by argument: %s", r.Metric, r.Value, r.Floor, r.Argument)
	case r.Bulk != 0 && r.Bulk >= r.Floor:
		t.Errorf("%s: bulkWrite saves nothing of %d: %d", r.Metric, r.Floor, r.Bulk)
	}
}

// What is worse than in an old run is what exceeds twice the noise of both; times count by their ratio.
func TestCompare(t *testing.T) {
	of := func(unit string, value, ratio, noise float64) *report {
		return &report{Run: runInfo{Date: "2026-01-02"}, Cases: []caseResult{{Pattern: "p", Case: "c", Results: []result{{
			Pattern: "p", Case: "c", Metric: "call: x", Unit: unit, Value: value, Name: "package", Ratio: ratio, Noise: noise, Scale: "small",
		}}}}}
	}
	for _, test := range []struct {
		what     string
		old, now *report
		want     string
	}{
		{"a slower machine", of("µs", 100, 1.2, 0), of("µs", 300, 1.2, 0), "nothing is worse than on 2026-01-02"},
		{"slower", of("µs", 100, 1.2, 0.02), of("µs", 100, 1.5, 0.03), "×1.2  → ×1.5  +25 %  (noise 3 %)"},
		{"within the noise", of("µs", 100, 1.2, 0.2), of("µs", 100, 1.5, 0.03), "nothing is worse"},
		{"a round trip", of("round trips", 3, 1, 0), of("round trips", 4, 1, 0), "p/c, call: x, package  3  → 4  +33.3 %"},
		{"faster", of("allocations", 300, 1, 0), of("allocations", 200, 1, 0), "nothing is worse"},
		{"allocations", of("allocations", 300, 1, 0), of("allocations", 330, 1, 0), "300  → 330"},
	} {
		var out strings.Builder
		compare(&out, test.old, test.now)
		if !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %s", test.what, out.String())
		}
	}
	if got := noise([]float64{10, 12, 10, 12, 10}); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("noise %v", got)
	}
	if got := noise([]float64{10}); got != 0 {
		t.Errorf("noise of one run %v", got)
	}
	if r := (result{Ratio: 1.2, Goal: 1.05, Noise: 0.08}); r.Missed() {
		t.Error("missed within the noise")
	}
}

// What cannot be written, or does not answer, is said before anything is measured.
func TestBeforeMeasuring(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-json", filepath.Dir(file)}, "it is a folder"},
		{[]string{"-json", filepath.Join(filepath.Dir(file), "missing", "x.json")}, "cannot be written"},
		{[]string{"-docs", file}, "-docs: "},
		{[]string{"-compare", filepath.Join(filepath.Dir(file), "missing.json")}, "missing.json"},
	} {
		var notes strings.Builder
		err := run(t.Context(), append(test.args, "-uri", "mongodb://127.0.0.1:1"), io.Discard, &notes)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
	t.Setenv("MONGODB_URI", "") // which -uri sets
	err := run(t.Context(), []string{"-uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300", "-run", "paging"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the server of -uri does not answer") {
		t.Error(err)
	}
}

// TestFailure: a case that fails is reported, the others go on, and nothing is left.
func TestFailure(t *testing.T) {
	t.Setenv("MONGODB_URI", mongotest.AdminURI(t))
	client := mongotest.Database(t).Client()
	write := func(ctx context.Context, b *bench) []comparison {
		must(b.db().Collection("c").InsertOne(ctx, bson.D{}))
		b.report("documents", "documents", value{"none", 0}, value{"one", 1})
		return nil
	}
	f := flags{scale: "tiny", runs: 1, json: filepath.Join(t.TempDir(), "results.json")}
	_, err := f.measure(t.Context(), []benchmark{
		{"a", "fails", "It fails.", func(ctx context.Context, b *bench) []comparison {
			write(ctx, b)
			check(errors.New("out of luck"))
			return nil
		}},
		{"a", "panics", "It panics.", func(ctx context.Context, b *bench) []comparison {
			write(ctx, b)
			panic("out of mind")
		}},
		{"b", "works", "It works.", write},
	}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "a/fails failed") || !strings.Contains(err.Error(), "a/panics failed") || strings.Contains(err.Error(), "b/works") {
		t.Errorf("error: %v", err)
	}
	r, err := readJSON(f.json)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, c := range r.Cases {
		have = append(have, fmt.Sprint(c.Case, c.Error, len(c.Results)))
	}
	if diff := cmp.Diff([]string{"failsout of luck1", "panicspanic: out of mind1", "works1"}, have); diff != "" {
		t.Error(diff)
	}
	if left := databases(t, client, os.Getpid()); len(left) > 0 {
		t.Errorf("left on the server: %v", left)
	}
}

// asCommand makes the test binary the command.
const asCommand = "PATTERNBENCH_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// interrupted runs the command with args until ready, signals it, and returns what it says
// and whether it failed. A machine that is busy with other tests may keep the server from
// answering in time: then the command is started again.
func interrupted(t *testing.T, signal os.Signal, ready func(pid int) bool, args ...string) (pid int, notes string, err error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		var notes bytes.Buffer
		cmd.Stderr = &notes
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid, ended := cmd.Process.Pid, make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for running := true; running; {
			switch {
			case ready(pid):
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				err := <-ended
				return pid, notes.String(), err
			case time.Now().After(deadline):
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("nothing to interrupt: %s", notes.String())
			}
			select {
			case err := <-ended:
				if running = false; !strings.Contains(notes.String(), "does not answer") {
					t.Fatalf("it ended by itself: %v: %s", err, notes.String())
				}
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// TestInterrupt: the command leaves nothing when it is told to end in the middle
// of a write.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	uri, client := mongotest.AdminURI(t), mongotest.Database(t).Client()
	for _, end := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			pid, notes, err := interrupted(t, end, func(pid int) bool {
				return len(databases(t, client, pid)) > 0
			}, "-uri", uri, "-scale", "seed", "-run", "paging/by depth")
			if err == nil {
				t.Error("it ended well")
			}
			if !strings.Contains(notes, "nothing is left on the server") {
				t.Errorf("it says %s", notes)
			}
			if left := databases(t, client, pid); len(left) > 0 {
				t.Errorf("left on the server: %v", left)
			}
		})
	}
}

// What was measured before an interrupt is written, to the JSON and to the pages.
func TestInterruptLater(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	uri, client := mongotest.AdminURI(t), mongotest.Database(t).Client()
	results, docs := filepath.Join(t.TempDir(), "results.json"), t.TempDir()
	_, notes, err := interrupted(t, os.Interrupt, func(pid int) bool { // in the second case
		written, _ := os.ReadFile(results)
		return bytes.Contains(written, []byte(`"metric"`)) && len(databases(t, client, pid)) > 0
	}, "-uri", uri, "-run", "polymorphic,overhead", "-json", results, "-docs", docs)
	if err == nil || !strings.Contains(notes, "interrupted in overhead/hot calls; nothing is left on the server") {
		t.Errorf("it ended: %v, %s", err, notes)
	}
	if r, err := readJSON(results); err != nil || len(r.Cases) != 1 || r.Cases[0].Pattern != "polymorphic" {
		t.Errorf("its results: %+v, %v", r, err)
	}
	if text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md")); err != nil || !strings.Contains(string(text), "polymorphic") {
		t.Errorf("its page: %v", err)
	}
}

// The lines of README.md get the figures of a run at their scale, and no other. The worst losses are one of each pattern, of
// ways of this library alone.
func TestExtremes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "README.md")
	lost := func(pattern, what, way string, times float64) result {
		return result{Pattern: pattern, Metric: what + ": time", Unit: "µs", BaselineName: "plain", Baseline: 20, Name: way, Value: 20 * times, Ratio: times}
	}
	r := &report{Run: runInfo{Date: "2026-01-02", Engine: "mongodb 6.0.5", Cores: 2}, Cases: []caseResult{
		{Pattern: "bucket", Case: "storage", Results: []result{
			{Metric: "disk in use", Unit: "bytes", BaselineName: plainName, Baseline: 2e6, Name: monthsName, Value: 1e6, Ratio: 0.5}}},
		{Pattern: "bucket", Case: "trickle", Results: []result{
			{Metric: acknowledged + ": time", Unit: "µs", BaselineName: plainName, Baseline: 20, Name: "array, day", Value: 30, Ratio: 1.5}}},
		{Pattern: "overhead", Case: "hot calls", Results: []result{
			{Metric: "bucket.Append: time", Unit: "µs", BaselineName: "by hand", Baseline: 690, Name: "package", Value: 700, Ratio: 1.01}}},
		{Pattern: "tree", Case: "insert", Results: []result{lost("tree", "a leaf", "ParentReferences", 2), lost("tree", "a leaf", "NestedSets", 29)}},
		{Pattern: "tree", Case: "move", Results: []result{lost("tree", "a move", "NestedSets", 3), lost("tree", "a move", "saved by hand", 99)}},
		{Pattern: "split", Case: "list", Results: []result{lost("split", "a film", "split", 4), lost("split", "a list", "split", 0.5)}},
		{Pattern: "outlier", Case: "books", Results: []result{lost("outlier", "a buyer", "outlier", 3)}},
		{Pattern: "subset", Case: "page", Results: []result{lost("subset", "a page", "subset", 0.9)}},
	}}
	const before, after = "before\n" + extremesBegin, extremesEnd + "after\n"
	for _, s := range []struct{ scale, lines string }{
		{"small", "old\n"},
		{pagesScale, "On 2026-01-02: mongodb 6.0.5, 2 cores for client and server.\n\n" +
			"- Wins: a page of 20 after 2,500,000 articles: `paging` –, `skip` –\n" +
			"- Loses: a later page of 20 of 2,000 orders: `paging` –, a keyset filter by hand –\n" +
			"- Wins: 4,320,000 measurements on disk, without indexes: `series`, compacted months 1 MB (1/2), native time series –, documents 2 MB\n" +
			"- Loses: tree, a leaf: NestedSets 580 µs (×29), plain 20 µs\n" +
			"- Loses: split, a film: split 80 µs (×4), plain 20 µs\n" +
			"- Loses: one measurement, in batches of 100 sensors: `bucket.AppendMany` 30 µs (×1.5), InsertMany 20 µs. One `bucket.Append`: 700 µs\n"},
	} {
		if err := os.WriteFile(name, []byte(before+"old\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		r.Run.Scale = s.scale
		if err := writeExtremes(name, r); err != nil {
			t.Fatal(err)
		}
		if text := string(testkit.Value[[]byte](t)(os.ReadFile(name))); text != before+s.lines+after {
			t.Errorf("%s: %s", s.scale, text)
		}
	}
	if err := os.WriteFile(name, []byte("no comments"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeExtremes(name, r), writeExtremes(name+"x", r)); err != nil {
		t.Error(err)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "paging"}, {"-run", "paging", "-uri", "URI"}, {"URI"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) { testkit.KeepsPassword(t, asCommand, args...) })
	}
}
