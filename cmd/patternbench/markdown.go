package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resultsFile is what benchmarks.md is written from, beside it.
const resultsFile = "benchmarks.json"

// writeDocs writes benchmarks.md and the results that it shows a part of, and the lines of README.md beside the folder.
func writeDocs(folder string, r *report) error {
	if err := r.writeJSON(filepath.Join(folder, resultsFile)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(markdown(r)), 0o644); err != nil {
		return err
	}
	return writeExtremes(filepath.Join(folder, "..", "README.md"), r)
}

// markdown is the text of benchmarks.md: the goals, the hot calls and one table for each other pattern.
func markdown(r *report) string {
	var w strings.Builder
	w.WriteString("# Benchmarks\n\n" +
		"A program writes this page, from what it measured:\n\n" +
		"    go run -buildvcs=true ./cmd/patternbench -scale " + r.Run.Scale + " -docs docs\n\n")
	w.WriteString(r.Run.String() + "\nThe code may have changed since: a release measures anew.\n" +
		"[" + resultsFile + "](" + resultsFile + ") has every result, a JSON object a line, also bytes received, allocations and the CPU\n" +
		"time of the client; `go run ./cmd/patternbench -from docs/" + resultsFile + "` prints them.\n\n" +
		"Each comparison begins with its baseline, in bold; among the goals, bold is a missed one. × is the multiple of the baseline,\n" +
		"1/40 a fortieth, and less is better. Values are per operation, the median of alternating runs. Client and server share the\n" +
		"machine. Wall times depend on what else it does; CPU times depend on it less. Writes have the server's default write concern\n" +
		"(on a replica set the majority, in the journal), unless a row says otherwise. Measure on your own server before you decide.\n\n")
	writeGoals(&w, r)
	patterns := byPattern(r.Cases)
	slices.SortStableFunc(patterns, func(a, b []caseResult) int { return cmp.Compare(overheadFirst(a), overheadFirst(b)) })
	for _, cases := range patterns {
		fmt.Fprintf(&w, "## %s\n\n", cases[0].Pattern)
		if cases[0].Pattern == "overhead" {
			writeHotCalls(&w, cases)
			continue
		}
		writePattern(&w, cases)
	}
	return w.String()
}

func overheadFirst(cases []caseResult) int {
	if cases[0].Pattern == "overhead" {
		return 0
	}
	return 1
}

// String says what was measured on.
func (r runInfo) String() string {
	text := fmt.Sprintf("Measured on %s: %s", r.Date, r.Engine)
	if r.Cache > 0 {
		text += fmt.Sprintf(" with a cache of %s GB", number(r.Cache))
	}
	text += fmt.Sprintf(", %d cores", r.Cores)
	if r.Memory > 0 {
		text += fmt.Sprintf(", %s GB memory", number(r.Memory))
	}
	text += fmt.Sprintf(", %s, %s; %s scale, seed %d", r.OS, r.Go, r.Scale, r.Seed)
	if r.Code != "" {
		text += ", code " + r.Code
	}
	return text + "."
}

// writeGoals lists the goals. The hot calls are left out, because they all have the same ones.
func writeGoals(w *strings.Builder, r *report) {
	var goals []result
	for _, c := range r.Cases {
		for _, one := range c.Results {
			if one.Goal > 0 && c.Pattern != "overhead" {
				goals = append(goals, one)
			}
		}
	}
	if len(goals) == 0 {
		return
	}
	w.WriteString("## Goals\n\n| what | against | measured | goal |\n|---|---|---:|---:|\n")
	for _, g := range goals {
		have := multiple(g.Ratio)
		if g.Missed() {
			have = "**" + have + "**"
		}
		fmt.Fprintf(w, "| %s: %s, %s | %s | %s | ≤ %s |\n", escape(g.Name), escape(g.Case), escape(g.Metric), escape(g.BaselineName), have, multiple(g.Goal))
	}
	w.WriteString("\n")
}

// patternColumns are the columns of the table of a pattern, beside what was done, how, its value and the multiple.
var patternColumns = []string{"server CPU", "round trips"}

// writePattern writes what the cases of a pattern compare, and their results as one table.
func writePattern(w *strings.Builder, cases []caseResult) {
	for _, c := range cases {
		fmt.Fprintf(w, "- **%s**: %s", c.Case, escape(c.About))
		if c.On != "" {
			fmt.Fprintf(w, " Measured on %s.", c.On)
		}
		w.WriteString("\n")
		if c.Error != "" {
			fmt.Fprintf(w, "  It failed: %s\n", escape(c.Error))
		}
		for _, r := range c.Reasons() {
			fmt.Fprintf(w, "  Over the goal: %s. %s\n", escape(r.Name), escape(r.Why))
		}
	}
	var lines []line
	for _, c := range cases {
		for _, l := range c.lines() {
			if l.what != "" && slices.ContainsFunc(cases, func(o caseResult) bool { return o.Case != c.Case && o.compares(l.what) }) {
				l.what = c.Case + ": " + l.what
			}
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		w.WriteString("\n")
		return
	}
	w.WriteString("\n| what | way | time or size | × |")
	var shown []int
	for i, column := range patternColumns {
		if slices.ContainsFunc(lines, func(l line) bool { return l.more[i] != "" }) {
			shown = append(shown, i)
			w.WriteString(" " + column + " |")
		}
	}
	w.WriteString("\n|---|---|---:|---:|" + strings.Repeat("---:|", len(shown)) + "\n")
	for _, l := range lines {
		fmt.Fprintf(w, "| %s | %s | %s | %s |", escape(l.what), l.way, l.value, l.times)
		for _, i := range shown {
			fmt.Fprintf(w, " %s |", l.more[i])
		}
		w.WriteString("\n")
	}
	w.WriteString("\n")
}

// line is a row of the table of a pattern.
type line struct {
	what, way, value, times string
	more                    [2]string // by patternColumns
}

// compares says whether a case has lines of this name.
func (c caseResult) compares(what string) bool {
	return slices.ContainsFunc(c.lines(), func(l line) bool { return l.what == what })
}

// inResultsOnly are values beside which another one tells enough.
var inResultsOnly = []string{"disk", "disk allocated, a measurement", longestWait}

// lines are the results of a case, a line for each way of doing each thing. What is measured against a second
// baseline is among the goals, and parts of one way stand in the results only.
func (c caseResult) lines() (lines []line) {
	var seen []string
	for _, t := range c.Tables() {
		t = t.Short()
		for _, column := range t.Columns {
			kind := strings.TrimSpace(column[strings.LastIndex(column, ":")+1:])
			if kind != "time" && isKind(kind) || strings.HasSuffix(column, partsOf) ||
				slices.Contains(inResultsOnly, column) {
				continue
			}
			what := strings.TrimPrefix(t.Title+", "+column, ", ")
			if kind == "time" {
				what = strings.TrimRight(strings.TrimSuffix(what, kind), ":, ")
			}
			if slices.Contains(seen, what) {
				continue
			}
			seen = append(seen, what)
			lines = append(lines, t.lines(what, column)...)
		}
	}
	return lines
}

// isKind says whether a column is one of those that are measured with the time.
func isKind(column string) bool {
	for _, kind := range kinds {
		if kind.name == column {
			return true
		}
	}
	return false
}

// lines are those of one column: the first names what is compared.
func (t table) lines(what, column string) (lines []line) {
	at := t.column(column)
	for i, row := range t.Rows {
		value := row.Cells[at]
		if value.Unit == "" {
			continue
		}
		l := line{way: escape(row.Name), value: value.Value(), times: strings.TrimPrefix(value.Times(), "×")}
		if i == 0 {
			l.what, l.way = what, "**"+l.way+"**"
		}
		if before, ok := strings.CutSuffix(column, "time"); ok {
			for n, name := range patternColumns {
				l.more[n] = t.beside(row, before+name)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// beside is a cell beside the time: round trips as they are, other values as multiples.
func (t table) beside(row row, column string) string {
	at := t.column(column)
	if at < 0 {
		return ""
	}
	if strings.HasSuffix(column, "round trips") {
		return row.Cells[at].Value()
	}
	return strings.TrimPrefix(row.Cells[at].Times(), "×")
}

// writeHotCalls writes the calls beside the same by hand, and what those do that are over a goal.
func writeHotCalls(w *strings.Builder, cases []caseResult) {
	for _, c := range cases {
		fmt.Fprintf(w, "**%s.** %s\n\n", c.Case, escape(c.About))
		if c.Error != "" {
			fmt.Fprintf(w, "It failed: %s\n\n", escape(c.Error))
		}
		w.WriteString("| call | by hand | package | × | client CPU | allocations | round trips |\n" +
			"|---|---:|---:|---:|---:|---:|---:|\n")
		for _, t := range c.Tables() {
			hand, with := t.Rows[0], t.Rows[1]
			time := t.column("time")
			fmt.Fprintf(w, "| %s | %s | %s | %s |", escape(t.Title), hand.Cells[time].Value(), with.Cells[time].Value(), t.beside(with, "time"))
			for _, column := range []string{"client CPU", "allocations", "round trips"} {
				fmt.Fprintf(w, " %s |", t.beside(with, column))
			}
			w.WriteString("\n")
		}
		w.WriteString("\n")
		writeFloors(w, c.Floors())
		calls := map[string][]string{} // by why they are over the goal
		var order []string
		for _, r := range c.Reasons() {
			if calls[r.Why] == nil {
				order = append(order, r.Why)
			}
			calls[r.Why] = append(calls[r.Why], escape(r.Name))
		}
		if len(order) > 0 {
			w.WriteString("Over the goal. What these do that the baseline does not:\n\n")
		}
		for _, why := range order {
			fmt.Fprintf(w, "- **%s**: %s\n", strings.Join(calls[why], "; "), escape(why))
		}
		w.WriteString("\n")
	}
}

// writeFloors writes the round trips of the hot calls that some implementation or server could send fewer of.
func writeFloors(w *strings.Builder, rows []floorRow) {
	rows = slices.DeleteFunc(rows, func(r floorRow) bool { return r.rank() == 0 })
	if len(rows) == 0 {
		return
	}
	w.WriteString("Round trips that could be fewer: what is sent, the least that any implementation could send with the same guarantee, and\n" +
		"that with MongoDB 8.0's bulkWrite over several collections.\n\n| calls | sent | least | with 8.0 | because |\n|---|---:|---:|---:|---|\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", escape(strings.Join(r.Calls, "; ")), r.Sent, r.Least, r.Bulk, escape(r.Argument))
	}
	w.WriteString("\n")
}

// escape keeps a text inside its cell.
func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
