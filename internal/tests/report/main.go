// Report reads the output of go test -json on its input and tells, while it runs,
// what each package took; at the end the slowest tests and what was skipped and
// why. It shows the output of what fails. Its status is 1 if a package failed or
// no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type result struct {
	name string
	took float64
}

func main() {
	const slowest = 8
	begin := time.Now()
	output := map[string][]string{} // of what has not ended, by package and test
	running := map[string]time.Time{}
	var passed, failed int
	var tests []result
	skipped := map[string]int{}

	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	tick := time.NewTicker(30 * time.Second)
	for open := true; open; {
		var line string
		select {
		case line, open = <-lines:
		case <-tick.C:
			for name, since := range running {
				fmt.Printf("        … %s for %v\n", name, time.Since(since).Round(time.Second))
			}
			continue
		}
		var e event
		if !open {
			break
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Print(line) // of the go command itself
			continue
		}
		name := short(e.Package)
		if e.Test != "" {
			name += "." + e.Test
		}
		switch e.Action {
		case "build-output":
			fmt.Print(e.Output)
		case "start":
			running[name] = time.Now()
		case "output":
			output[name] = append(output[name], e.Output)
		case "pass", "fail", "skip":
			if e.Action == "fail" {
				fmt.Print(strings.Join(output[name], ""))
			}
			switch {
			case e.Test == "":
				delete(running, name)
				if e.Action == "fail" {
					failed++
					for _, of := range slices.Sorted(maps.Keys(output)) { // the tests that its end cut off
						if strings.HasPrefix(of, name+".") {
							fmt.Print(strings.Join(output[of], ""))
							delete(output, of)
						}
					}
				}
				if e.Action != "skip" { // it has tests
					fmt.Printf("%s %7.1f s  %s\n", e.Action, e.Elapsed, name)
				}
			case e.Action == "skip":
				skipped[reason(output[name])]++
			case e.Action == "pass":
				passed++
				if !strings.Contains(e.Test, "/") {
					tests = append(tests, result{name, e.Elapsed})
				}
			}
			delete(output, name)
		}
	}
	slices.SortFunc(tests, func(a, b result) int { return int(1000 * (b.took - a.took)) })
	for _, r := range tests[:min(slowest, len(tests))] {
		if r.took >= 5 {
			fmt.Printf("slow %7.1f s  %s\n", r.took, r.name)
		}
	}
	for why, n := range skipped {
		fmt.Printf("skipped %4d     %s\n", n, why)
	}
	fmt.Printf("%d tests passed, %d packages failed, in %v\n", passed, failed, time.Since(begin).Round(time.Second))
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

// short is the name of a package without the module's.
func short(path string) string {
	return strings.TrimPrefix(path, "github.com/mongopatterns/mongopatterns/")
}

// reason is what a skipped test said, after the place in the code.
func reason(output []string) string {
	for _, line := range output {
		if _, why, found := strings.Cut(line, ".go:"); found {
			_, why, _ = strings.Cut(why, ": ")
			return strings.TrimSpace(why)
		}
	}
	return "no reason given"
}
