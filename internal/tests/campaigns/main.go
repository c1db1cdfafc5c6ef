// Campaigns runs tests for longer than go test ./... does: faults at every command, faults that last, Adopt beside old
// code, elections, killed processes, shards, moving chunks, generated databases, labelled collections, models and tables
// of packages, settings of clients, users with few rights.
// Run it in the root of the module:
//
//	go run ./internal/tests/campaigns                            a part of each, with a new seed
//	go run ./internal/tests/campaigns -list                      their names
//	go run ./internal/tests/campaigns -scale=whole sweep kills   these two as a whole: hours
//	go run ./internal/tests/campaigns -seed=7 sweep/tree         one again
//	go run ./internal/tests/campaigns -for=3m                    some, by the seed, until three minutes are over
//	go run ./internal/tests/campaigns -scale=whole -seed=7 -done=done.txt
//
// With -done, campaigns that pass are listed in a file and skipped by the next run: run the same command again to resume.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// campaign is a part of the tests that is run and resumed by itself.
type campaign struct {
	name    string // kind, or kind/part
	folder  string
	pattern string // of go test -run
}

// whole is the pattern of all tests of a package.
const whole = "^Test"

// without are the packages that a kind of campaign has nothing to run for: they write nothing, or there is nothing to adopt.
var without = map[string][]string{
	"sweep":    {"advise", "mongotest", "timeseries", "paging", "polymorphic"},
	"lasting":  {"advise", "mongotest", "timeseries"},
	"shards":   {"advise", "mongotest", "timeseries", "paging", "polymorphic", "mongopatterns"},
	"adoption": {"advise", "mongotest", "timeseries", "paging", "prealloc", "approx", "mongopatterns"},
	"packages": {"advise", "mongotest", "mongopatterns"}, // all tests of the package, with its models and tables
}

// settings are those of a client.
var settings = []string{"compressors", "directConnection", "maxPoolSize", "monitor", "readConcern", "readPreference", "retryReads", "retryWrites", "serverApi"}

// all returns the campaigns, those of each pattern in the order of the patterns' names.
func all() ([]campaign, error) {
	docs, err := filepath.Glob("*/doc.go")
	if err != nil || len(docs) == 0 {
		return nil, errors.Join(err, errors.New("run it in the root of the module"))
	}
	const tests = "./internal/tests/"
	var out []campaign
	for _, doc := range append(docs, "mongopatterns/doc.go") { // the last stands for the root
		p := filepath.Dir(doc)
		if !slices.Contains(without["sweep"], p) {
			out = append(out, campaign{"sweep/" + p, tests + "sweep", `^TestSweep$/^` + p + `\.`})
		}
		if !slices.Contains(without["lasting"], p) {
			out = append(out, campaign{"lasting/" + p, tests + "sweep", `^TestLasting$/^` + p + `\.`})
		}
		if !slices.Contains(without["shards"], p) {
			out = append(out, campaign{"shards/" + p, tests + "sweep", `^TestSharded$/^` + p + `\.`})
		}
		if !slices.Contains(without["packages"], p) {
			out = append(out, campaign{"packages/" + p, "./" + p, whole})
		}
		if !slices.Contains(without["adoption"], p) {
			out = append(out, campaign{"adoption/" + p, tests + "adoption", `^TestAdoption$/^` + p + `(,|_|$)`})
		}
	}
	for _, setting := range settings {
		out = append(out, campaign{"settings/" + setting, tests + "calls", `^TestSettings$/^` + setting + `$`})
	}
	return append(out,
		campaign{"shards/adoption", tests + "adoption", `^TestSharded$`},
		campaign{"shards/table", tests + "sweep", `^TestShardsTable$`},
		campaign{"shards/zones", tests + "sweep", `^TestZones`},
		campaign{"moves/pages", tests + "sweep", `^TestWhileChunksMove$/^pages$`},
		campaign{"moves/reads", tests + "sweep", `^TestWhileChunksMove$/^reads$`},
		campaign{"moves/writes", tests + "sweep", `^TestWhileChunksMove$/^writes$`},
		campaign{"elections", tests + "failover", `^TestFailover$`},
		campaign{"kills", tests + "killed", `^TestKilled`},
		campaign{"tables/arguments", tests + "calls", `^TestArgumentsAreLiteral$|^TestArrayForAValue$|^TestCallsBesideAnotherTenant$`},
		campaign{"tables/rows", tests + "calls", `^TestCallsOnAnotherTenant$|^TestDefaultCollations$`},
		campaign{"tables/types", tests + "calls", `^TestOddValueRead$|^TestValueForAnArray$`},
		campaign{"tables/values", tests + "calls", `^TestValuesAreLiteral$|^TestTooLargeADocument$`},
		campaign{"tables/versions", tests + "stored", `^TestRolling$`},
		campaign{"exactlyonce", tests + "exactlyonce", `^TestExactlyOnce$`},
		campaign{"classifier", "./advise", `^TestClassifier$`},
		campaign{"labels", tests + "labels", `^TestAdvice$`},
		campaign{"pairs", tests + "pairs", `^TestPairs$`},
		campaign{"benchmarks", "./cmd/patternbench", `^TestCases$`},
		campaign{"privileges", tests + "privileges", `^TestPrivileges$`},
	), nil
}

// chosen returns the campaigns with one of the names: of a kind, or of one campaign. No names choose all.
func chosen(all []campaign, names []string) ([]campaign, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []campaign
	for _, name := range names {
		before := len(out)
		for _, c := range all {
			if kind, _, _ := strings.Cut(c.name, "/"); c.name == name || kind == name {
				out = append(out, c)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("there is no campaign %q: -list shows them", name)
		}
	}
	return out, nil
}

// run is what the flags ask for.
type run struct {
	scale   string
	seed    uint64
	time    time.Duration // 0: as long as it takes
	done    string        // the file of what has passed; "" for none
	timeout time.Duration
	list    bool
	names   []string
}

func parse(args []string, stderr io.Writer) (r run, err error) {
	flags := flag.NewFlagSet("campaigns", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.scale, "scale", "part", "part or whole; go test ./... is the small one")
	flags.Uint64Var(&r.seed, "seed", 0, "the seed of all random choices; 0: a new one")
	flags.DurationVar(&r.time, "for", 0, "begin no further campaign after this time; then their order is random")
	flags.StringVar(&r.done, "done", "", "a `file` of the campaigns that have passed, which are passed over")
	flags.DurationVar(&r.timeout, "timeout", 4*time.Hour, "of one campaign")
	flags.BoolVar(&r.list, "list", false, "print the names")
	err = flags.Parse(args)
	if err == nil && r.scale != "part" && r.scale != "whole" {
		err = fmt.Errorf("-scale=%s: it is part or whole", r.scale)
	}
	r.names = flags.Args()
	if r.seed == 0 {
		r.seed = uint64(rand.Uint32())
	}
	return r, err
}

// line is how a campaign that has passed stands in the file.
func (r run) line(c campaign) string {
	return fmt.Sprintf("%s scale=%s seed=%d", c.name, r.scale, r.seed)
}

// passed returns the lines of the file.
func (r run) passed() ([]string, error) {
	if r.done == "" {
		return nil, nil
	}
	text, err := os.ReadFile(r.done)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Split(string(text), "\n"), err
}

func (r run) note(c campaign) error {
	if r.done == "" {
		return nil
	}
	file, err := os.OpenFile(r.done, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, r.line(c))
	return errors.Join(err, file.Close())
}

// command is the go command of a campaign.
func (r run) command(c campaign) []string {
	return []string{"go", "test", "-count=1", "-timeout=" + r.timeout.String(), "-run=" + c.pattern, c.folder,
		"-scale=" + r.scale, fmt.Sprintf("-seed=%d", r.seed)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = r.all(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaigns:", err)
		os.Exit(1)
	}
}

// all runs the campaigns one after the other. One that fails does not keep the others from running.
func (r run) all(ctx context.Context) error {
	every, err := all()
	if err != nil {
		return err
	}
	todo, err := chosen(every, r.names)
	if err != nil {
		return err
	}
	if r.list {
		for _, c := range todo {
			fmt.Println(c.name)
		}
		return nil
	}
	passed, err := r.passed()
	if err != nil {
		return err
	}
	if r.time > 0 {
		random := rand.New(rand.NewPCG(r.seed, 0))
		random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	}
	fmt.Printf("scale %s, seed %d: %d campaigns\n", r.scale, r.seed, len(todo))
	var failed []string
	good, begun := 0, time.Now()
	for _, c := range todo {
		switch {
		case slices.Contains(passed, r.line(c)):
			fmt.Println("passed before:", c.name)
			continue
		case ctx.Err() != nil, r.time > 0 && time.Since(begun) > r.time:
			continue
		}
		fmt.Printf("== %s: %s\n", c.name, strings.Join(r.command(c), " "))
		if err := r.one(ctx, c); err != nil {
			fmt.Printf("FAILED %s: %v\n", c.name, err)
			failed = append(failed, c.name)
			continue
		}
		good++
		if err := r.note(c); err != nil {
			return err
		}
	}
	fmt.Printf("%d passed, %d failed, in %v\n", good, len(failed), time.Since(begun).Round(time.Second))
	if len(failed) > 0 {
		return fmt.Errorf("failed with seed %d: %s", r.seed, strings.Join(failed, " "))
	}
	return ctx.Err()
}

// one runs a campaign, which fails if it runs no test. It prints the last line of one that passes, and all output of one that fails.
func (r run) one(ctx context.Context, c campaign) error {
	args := r.command(c)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	out = bytes.TrimSpace(out)
	if err == nil {
		out = out[bytes.LastIndexByte(out, '\n')+1:]
	}
	fmt.Printf("%s\n", out)
	if err == nil && bytes.Contains(out, []byte("no tests to run")) {
		err = errors.New("it has no tests")
	}
	return err
}
