package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
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
		cell{Ratio: 0.25}.Times():             "×0.25",
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

// sample is a report as a run would make it.
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
		Run: runInfo{Date: "2026-01-02", Engine: "mongodb 6.0.5", Scale: "small", Seed: 1, OS: "linux amd64", Cores: 2, Memory: 8, Go: "go1.25"},
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
			{"token", []cell{{50, 0.5, 0, "µs"}, {21, 1.05, 0, "keys"}}},
			{"number <|>", []cell{{120, 1.2, 0, "µs"}, {}}},
		}, 1, false},
		{"by _id, after 1,000", []string{"time", "keys examined"}, []row{
			{"skip", []cell{{V: 1000, Unit: "µs"}, {V: 20, Unit: "keys"}}},
			{"token", []cell{{50, 0.05, 0, "µs"}, {21, 1.05, 0, "keys"}}},
			{"number <|>", []cell{{120, 0.12, 0, "µs"}, {}}},
		}, 1, false},
		{"", []string{"documents", "data"}, []row{
			{"plain", []cell{{V: 1000, Unit: "documents"}, {V: 0, Unit: "bytes"}}},
			{"buckets", []cell{{V: 0, Unit: "documents"}, {V: 100, Unit: "bytes"}}},
			{"slots", []cell{{10, 0.01, 0.001, "documents"}, {}}},
		}, 1, false},
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Error(diff)
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
	html, docs := filepath.Join(dir, "page.html"), filepath.Join(dir, "docs")
	if err := run(t.Context(), []string{"-from", name + "," + name, "-html", html, "-docs", docs}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no &lt;server&gt;", "number &lt;|&gt;", "<svg", "goal ≤ ×0.001", "<b>slots, documents</b>: Slots &lt;are&gt; ten.", "2 cores, 8 GB memory"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"http://", "https://", "src="} {
		if bytes.Contains(bytes.ReplaceAll(page, []byte("http://www.w3.org/2000/svg"), nil), []byte(not)) {
			t.Errorf("the page is not self-contained: %s", not)
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| by _id, after 0 | time | × | keys examined | × |\n|---|---:|---:|---:|---:|\n| skip | 100 µs |  | 20 |  |\n| token | 50 µs | 0.5 | 21 | 1.05 |\n",
		`| number &lt;\|> | 120 µs | 1.2 |  |  |`,
		"| slots: by depth, documents | plain | **×0.01** | ≤ ×0.001 |",
		"Over the goal, and why:\n\n- **slots, documents**: Slots &lt;are> ten.\n\n",
		"Measured on 2026-01-02: mongodb 6.0.5, 2 cores, 8 GB memory, linux amd64, go1.25; small scale, seed 1.",
		"(benchmarks/paging-by-_id.svg)",
		"It failed: no &lt;server>",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("benchmarks.md lacks %q:\n%s", want, text)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(docs, "benchmarks", "*.svg"))
	if err != nil || len(pictures) < 3 {
		t.Errorf("pictures: %v, %v", pictures, err)
	}
	for _, picture := range pictures {
		svg, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", picture, err)
			}
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s holds a place that is no number", picture)
		}
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

// TestCases runs every case, with very little data.
func TestCases(t *testing.T) {
	t.Setenv("MONGODB_URI", mongotest.URI(t))
	client := mongotest.Database(t).Client()
	name := filepath.Join(t.TempDir(), "results.json")
	var notes strings.Builder
	if err := run(t.Context(), []string{"-scale", "tiny", "-runs", "1", "-json", name}, io.Discard, &notes); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	r, err := readJSON(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != len(cases) {
		t.Fatalf("%d cases of %d", len(r.Cases), len(cases))
	}
	for i, c := range r.Cases {
		if len(c.Results) == 0 {
			t.Errorf("%s: no results", cases[i])
		}
		for _, one := range c.Results {
			if one.Pattern != cases[i].pattern || one.Case != cases[i].name || one.Metric == "" || one.Unit == "" || one.BaselineName == "" ||
				one.Name == "" || one.Runs < 1 || !strings.HasPrefix(one.Engine, "mongodb ") || one.Scale != "tiny" {
				t.Errorf("not complete: %+v", one)
			}
		}
	}
	if left := databases(t, client, os.Getpid()); len(left) > 0 {
		t.Errorf("left on the server: %v", left)
	}
}

// TestFailure: a case that fails is reported, the others go on, and nothing is left.
func TestFailure(t *testing.T) {
	t.Setenv("MONGODB_URI", mongotest.URI(t))
	client := mongotest.Database(t).Client()
	write := func(ctx context.Context, b *bench) error {
		_, err := b.db().Collection("c").InsertOne(ctx, bson.D{})
		b.report("documents", "documents", value{"none", 0}, value{"one", 1})
		return err
	}
	f := flags{scale: "tiny", runs: 1, json: filepath.Join(t.TempDir(), "results.json")}
	err := f.measure(t.Context(), []benchmark{
		{"a", "fails", "It fails.", func(ctx context.Context, b *bench) error {
			return errors.Join(write(ctx, b), errors.New("out of luck"))
		}},
		{"a", "panics", "It panics.", func(ctx context.Context, b *bench) error {
			_ = write(ctx, b)
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

// TestInterrupt: the command leaves nothing when it is told to end in the middle
// of a write.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	uri, client := mongotest.URI(t), mongotest.Database(t).Client()
	for _, end := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(end.String(), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-uri", uri, "-scale", "seed", "-run", "paging/by depth")
			cmd.Env = append(os.Environ(), asCommand+"=1")
			var notes bytes.Buffer
			cmd.Stderr = &notes
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); len(databases(t, client, cmd.Process.Pid)) == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					_ = cmd.Process.Kill()
					t.Fatalf("no database appears: %s", notes.String())
				}
			}
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it ended well")
			}
			if !strings.Contains(notes.String(), "nothing is left on the server") {
				t.Errorf("it says %s", notes.String())
			}
			if left := databases(t, client, cmd.Process.Pid); len(left) > 0 {
				t.Errorf("left on the server: %v", left)
			}
		})
	}
}

// The published figures get those of a run at their scale, and no other.
func TestPublished(t *testing.T) {
	name := filepath.Join(t.TempDir(), "choosing.md")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := &report{Run: runInfo{Date: "2026-01-02", Engine: "mongodb 6.0.5", Scale: "small"}, Cases: []caseResult{{
		Pattern: "bucket", Case: "published", Results: []result{
			{Metric: "data", Unit: "bytes", BaselineName: "plain documents", Baseline: 2e6, Name: "array, day", Value: 1e6, Ratio: 0.5}},
	}}}
	for scale, want := range map[string]string{"small": "old", "seed": "| … `bucket`, arrays of a day | – | –, 1 MB (×0.5), index – |"} {
		write("before\n" + publishedBegin + "old\n" + publishedEnd + "after\n")
		r.Run.Scale = scale
		if err := writePublished(name, r); err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(name)
		text := string(data)
		if !strings.HasPrefix(text, "before\n"+publishedBegin) || !strings.HasSuffix(text, publishedEnd+"after\n") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", scale, text)
		}
	}
	write("no comments")
	if err := writePublished(name, r); err != nil {
		t.Error(err)
	}
	if err := writePublished(name+"x", r); err != nil {
		t.Error(err)
	}
}
