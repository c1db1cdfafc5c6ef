// Command patternbench measures the schema patterns of this module against the plain
// schema, on the user's own server:
//
//	go run ./cmd/patternbench -list
//	go run ./cmd/patternbench                            # everything, small: within two minutes
//	go run ./cmd/patternbench -run tree,bucket/ingest -scale medium
//	go run ./cmd/patternbench -uri mongodb://… -scale seed -json results.json
//
// The server is that of -uri, else that of MONGODB_URI, else the one that tests get:
// package mongotest says which. Every case works in a database of its own, which is
// dropped at its end, also after Ctrl-C and SIGTERM. In a script run the built
// command: go run does not pass SIGTERM on.
//
// A result compares one way of doing a thing with the baseline: medians of runs that
// take turns, per operation. The CPU time of client and server stands beside the
// time, because it depends less on what else the machine does.
//
//	go run ./cmd/patternbench -from results.json -docs docs
//
// measures nothing: it writes docs/benchmarks.md and docs/benchmarks.json from results that are there.
//
// With -compare old.json it prints at the end what has become slower, or takes more round trips,
// bytes or allocations, than in an earlier run. A change counts if it is more than twice the noise,
// which is measured: what the odd runs of a side differ from its even ones. For two runs that are
// there already: -from new.json -compare old.json.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/credentials"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// cases is everything that can be run.
var cases = slices.Concat(
	bucketCases, pagingCases, treeCases, attributeCases, outlierCases, subsetCases, extrefCases, relationCases,
	versioningCases, computedCases, approxCases, preallocCases, polymorphicCases, archiveCases, hotCases, adoptCases, overheadCases,
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the process at once
	}()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "patternbench:", err)
		os.Exit(1)
	}
}

// flags are the arguments of the command.
type flags struct {
	list             bool
	run, scale, uri  string
	json, docs, from string
	compare          string
	seed             uint64
	runs             int
}

func run(ctx context.Context, args []string, out, notes io.Writer) error {
	var f flags
	set := flag.NewFlagSet("patternbench", flag.ContinueOnError)
	set.SetOutput(notes)
	set.BoolVar(&f.list, "list", false, "list the cases and measure nothing")
	set.StringVar(&f.run, "run", "", "the `patterns` to run, or pattern/case, with commas between; default all")
	set.StringVar(&f.scale, "scale", "small", "small: two minutes in all; medium; seed: the numbers of docs/benchmarks.md, up to 25 minutes")
	set.StringVar(&f.uri, "uri", "", "the server; default MONGODB_URI, else one is started")
	set.StringVar(&f.json, "json", "", "write the results to this `file`, a line of JSON each")
	set.StringVar(&f.docs, "docs", "", "write benchmarks.md and benchmarks.json to this `folder`")
	set.StringVar(&f.compare, "compare", "", "print what is slower than in this JSON `file`, beyond the noise of both runs")
	set.StringVar(&f.from, "from", "", "measure nothing: take the results of this JSON `file`")
	set.Uint64Var(&f.seed, "seed", 1, "the seed of the random data")
	set.IntVar(&f.runs, "runs", 5, "how often each side is run, if the case does not say")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch {
	case set.NArg() > 0:
		return errors.New("there are only flags, and no other arguments") // one may be a URI
	case !slices.Contains([]string{"tiny", "small", "medium", "seed"}, f.scale):
		return fmt.Errorf("-scale %s: small, medium or seed", f.scale)
	case f.runs < 1:
		return fmt.Errorf("-runs %d: at least 1", f.runs)
	}
	chosen, err := choose(cases, f.run)
	if err != nil {
		return err
	}
	if f.list {
		return listCases(out, chosen)
	}
	// Before anything is measured, which may take half an hour.
	if err := writable(f.json, f.docs); err != nil {
		return err
	}
	var old *report
	if f.compare != "" {
		if old, err = readJSON(f.compare); err != nil {
			return err
		}
	}
	if f.from != "" {
		r, err := readJSON(f.from)
		if err != nil {
			return err
		}
		switch {
		case old != nil:
			compare(out, old, r)
		case f.docs == "":
			r.writeText(out)
		}
		return f.pages(r)
	}
	r, err := f.measure(ctx, chosen, out, notes)
	if old != nil && r != nil {
		compare(out, old, r)
	}
	return err
}

// writable says what cannot be written: a file in a folder that does not exist, and a folder for -docs
// that is a file.
func writable(json, docs string) error {
	if json != "" {
		info, err := os.Stat(filepath.Dir(json))
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is a file", filepath.Dir(json))
		}
		if info, e := os.Stat(json); e == nil && info.IsDir() {
			err = errors.New("it is a folder")
		}
		if err != nil {
			return fmt.Errorf("%s cannot be written: %w", json, err)
		}
	}
	if docs == "" {
		return nil
	}
	if err := os.MkdirAll(docs, 0o755); err != nil {
		return fmt.Errorf("-docs: %w", err)
	}
	return nil
}

// choose returns the cases that -run names.
func choose(all []benchmark, names string) ([]benchmark, error) {
	if names == "" {
		return all, nil
	}
	var chosen []benchmark
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(c benchmark) bool { return c.named(name) }) {
			return nil, fmt.Errorf("-run %s: no such pattern or case; -list lists them", name)
		}
	}
	for _, c := range all {
		if slices.ContainsFunc(wanted, c.named) {
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

func (c benchmark) String() string { return c.pattern + "/" + c.name }

// named says whether name is the pattern, or the pattern with the beginning of the case.
func (c benchmark) named(name string) bool {
	name = strings.TrimSpace(name)
	return name == c.pattern || strings.HasPrefix(name, c.pattern+"/") && strings.HasPrefix(c.String(), name)
}

func listCases(out io.Writer, cases []benchmark) error {
	for _, c := range cases {
		if _, err := fmt.Fprintf(out, "%-32s %s\n", c, c.about); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the cases, and writes what is asked for. A case that fails is reported, and the others go
// on; after an interrupt the cases before it are written.
func (f *flags) measure(ctx context.Context, chosen []benchmark, out, notes io.Writer) (r *report, err error) {
	file, err := createJSON(f.json)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	server, err := connect(ctx, f.uri, notes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.close()) }()

	r = &report{Run: describe(ctx, server, f.scale, f.seed)}
	if err := file.line(r.Run); err != nil {
		return r, err
	}
	var failed []error
	began := time.Now()
	for i, c := range chosen {
		server.progress.begin(fmt.Sprintf("[%d/%d] %s", i+1, len(chosen), c))
		done := server.run(ctx, c, f.scale, f.runs, f.seed)
		how := fmt.Sprintf("[%d/%d] %s: %.1f s, CPU %.1f s", i+1, len(chosen), c, done.Seconds, done.CPU)
		if done.Error != "" {
			how += ": " + done.Error
			failed = append(failed, fmt.Errorf("%s failed", c))
		}
		server.progress.end(how)
		if ctx.Err() != nil {
			failed = []error{fmt.Errorf("interrupted in %s; nothing is left on the server", c)}
			if len(r.Cases) == 0 {
				return r, failed[0]
			}
			break
		}
		r.Cases = append(r.Cases, done)
		if err := file.writeCase(done); err != nil {
			return r, err
		}
		done.writeText(out)
	}
	_, _ = fmt.Fprintf(notes, "%d of %d cases in %.0f s, %d failed\n", len(r.Cases), len(chosen), time.Since(began).Seconds(), len(failed))
	return r, errors.Join(append(failed, f.pages(r))...)
}

// pages writes the pages if they are asked for.
func (f *flags) pages(r *report) error {
	if f.docs == "" {
		return nil
	}
	return writeDocs(f.docs, r)
}

// run runs one case and drops its databases.
func (s *server) run(ctx context.Context, c benchmark, scale string, runs int, seed uint64) (done caseResult) {
	done = caseResult{Pattern: c.pattern, Case: c.name, About: c.about}
	b := s.start(c, scale, runs, seed)
	began, cpu := time.Now(), s.bothCPU()
	err := func() (err error) {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case failed:
				err = p.error
			default:
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		for _, comparison := range c.plan(ctx, b) {
			b.measure(ctx, comparison)
		}
		return nil
	}()
	err = errors.Join(err, b.drop(ctx.Err() != nil))
	if err != nil {
		done.Error = shorten(credentials.Hide(err.Error(), s.uri), 500) // a bulk write names all that it did not write
	}
	done.Seconds = round(time.Since(began).Seconds())
	if cpu = s.bothCPU() - cpu; !math.IsNaN(cpu) {
		done.CPU = round(cpu / 1e6)
	}
	done.Results = b.results
	return done
}

// bothCPU is the CPU time of client and server, in µs.
func (s *server) bothCPU() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cpu, err := s.cpu(ctx)
	if err != nil {
		return nan
	}
	return cpu + clientCPU()
}

// shorten cuts text to n bytes.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// connect starts the server if need be, and finds out what it can say.
func connect(ctx context.Context, uri string, notes io.Writer) (_ *server, err error) {
	if uri != "" {
		if err := os.Setenv("MONGODB_URI", uri); err != nil { // which mongotest goes by
			return nil, err
		}
	}
	started, err := mongotest.Start(ctx, &mongotest.Options{Stderr: notes})
	switch {
	case err != nil && uri != "":
		return nil, fmt.Errorf("the server of -uri does not answer: %w", err)
	case err != nil:
		return nil, err
	}
	s := &server{
		meter:    &meter{},
		uri:      started.AdminURI,
		engine:   started.Engine + " " + started.Version,
		prefix:   fmt.Sprintf("patternbench_%x_%x", os.Getpid(), time.Now().UnixNano()),
		progress: &progress{out: notes, terminal: isTerminal(notes)},
		stop:     started.Close,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.client, err = mongo.Connect(options.Client().ApplyURI(started.AdminURI).SetMonitor(s.meter.monitor())); err != nil {
		return nil, err
	}
	if s.admin, err = mongo.Connect(options.Client().ApplyURI(started.AdminURI)); err != nil {
		return nil, err
	}
	var costs []float64
	for range 9 { // what it takes to ask
		before, err := s.cpu(ctx)
		if err != nil {
			return nil, err
		}
		after, err := s.cpu(ctx)
		if err != nil {
			return nil, err
		}
		costs = append(costs, after-before)
	}
	s.overhead = median(costs)
	return s, nil
}

// close disconnects and stops the server if it was started here.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	for _, client := range []*mongo.Client{s.client, s.admin} {
		if client != nil {
			errs = append(errs, client.Disconnect(ctx))
		}
	}
	return errors.Join(append(errs, s.stop())...)
}

// isTerminal says whether lines can be rewritten on w.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// byPattern puts the cases of a pattern together, in the order of cases.
func byPattern(cases []caseResult) [][]caseResult {
	var patterns [][]caseResult
	for _, c := range cases {
		i := slices.IndexFunc(patterns, func(p []caseResult) bool { return p[0].Pattern == c.Pattern })
		if i < 0 {
			i, patterns = len(patterns), append(patterns, nil)
		}
		patterns[i] = append(patterns[i], c)
	}
	return patterns
}
