package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pictures is the folder of the plots, inside that of benchmarks.md.
const pictures = "benchmarks"

// writeDocs writes benchmarks.md with all tables and plots of the first report, and
// the tables of the others, folded. The published figures in choosing.md get their
// measured ones, and README.md beside the folder its two calls.
func writeDocs(folder string, reports []*report) error {
	if err := os.MkdirAll(filepath.Join(folder, pictures), 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, pictures, "*.svg"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	first := reports[0]
	for _, p := range plots(first) {
		if err := os.WriteFile(filepath.Join(folder, pictures, p.Name+".svg"), []byte(p.SVG), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(markdown(reports)), 0o644); err != nil {
		return err
	}
	if err := writePublished(filepath.Join(folder, "choosing.md"), first); err != nil {
		return err
	}
	return writeExtremes(filepath.Join(folder, "..", "README.md"), first)
}

// markdown is the text of benchmarks.md.
func markdown(reports []*report) string {
	first := reports[0]
	var w strings.Builder
	w.WriteString("# Benchmarks\n\n" +
		"This page is written by a program, from what it measured:\n\n" +
		"    go run ./cmd/patternbench -scale " + first.Run.Scale + " -json results.json\n" +
		"    go run ./cmd/patternbench -from results.json -docs docs\n\n")
	w.WriteString(first.Run.String() + "\n\n" +
		"Every table compares ways of doing one thing with its first row, the baseline. × is the multiple of it, 1/40 a fortieth, and less is better.\n" +
		"Measured values are medians of runs that take turns, per operation. Times depend on what else the machine does (client and\n" +
		"server share it, unless -uri names another), CPU times less. Writes have the server's default\n" +
		"write concern (on a replica set the majority, in the journal), unless a table says otherwise. Measure on your own server\n" +
		"before you decide.\n\n")
	v := viewOf(first)
	writePlots(&w, v.Plots(""))
	writeGoals(&w, v.Goals)
	writeTables(&w, v, "##", true)
	for _, r := range reports[1:] {
		fmt.Fprintf(&w, "<details>\n<summary>The same at %s scale</summary>\n\n%s\n\n", r.Run.Scale, r.Run)
		v := viewOf(r)
		writeGoals(&w, v.Goals)
		writeTables(&w, v, "###", false)
		w.WriteString("</details>\n")
	}
	return w.String()
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
	return text + fmt.Sprintf(", %s, %s; %s scale, seed %d.", r.OS, r.Go, r.Scale, r.Seed)
}

// writePlots writes pictures. One of all cases is longer than a screen, so it is folded.
func writePlots(w *strings.Builder, plots []plot) {
	for _, p := range plots {
		picture := fmt.Sprintf("![%s](%s/%s.svg)\n\n", strings.TrimSuffix(p.About, "."), pictures, p.Name)
		if p.Pattern == "" {
			picture = fmt.Sprintf("<details>\n<summary>%s</summary>\n\n%s</details>\n\n", p.About, picture)
		}
		w.WriteString(picture)
	}
}

// writeGoals lists what was aimed at.
func writeGoals(w *strings.Builder, goals []result) {
	if len(goals) == 0 {
		return
	}
	w.WriteString("Goals:\n\n| what | against | measured | goal |\n|---|---|---:|---:|\n")
	for _, g := range goals {
		have := multiple(g.Ratio)
		if g.Missed() {
			have = "**" + have + "**"
		}
		fmt.Fprintf(w, "| %s: %s, %s | %s | %s | ≤ %s |\n", escape(g.Name), escape(g.Case), escape(g.Metric), escape(g.BaselineName), have, multiple(g.Goal))
	}
	w.WriteString("\n")
}

// writeTables writes the tables of all patterns.
func writeTables(w *strings.Builder, v view, heading string, pictures bool) {
	for _, cases := range v.Patterns {
		fmt.Fprintf(w, "%s %s\n\n", heading, cases[0].Pattern)
		if pictures {
			writePlots(w, v.Plots(cases[0].Pattern))
		}
		for _, c := range cases {
			fmt.Fprintf(w, "**%s.** %s\n\n", c.Case, escape(c.About))
			if c.Error != "" {
				fmt.Fprintf(w, "It failed: %s\n\n", escape(c.Error))
			}
			for _, t := range c.Compact() {
				writeTable(w, t.Short())
			}
			writeFloors(w, c.Floors())
			for i, r := range c.Reasons() {
				if i == 0 {
					w.WriteString("Over the goal. What these do that the baseline does not:\n\n")
				}
				fmt.Fprintf(w, "- **%s**: %s\n", escape(r.Name), escape(r.Why))
			}
			if len(c.Reasons()) > 0 {
				w.WriteString("\n")
			}
		}
	}
}

// writeFloors writes the round trips of hot calls beside the least.
func writeFloors(w *strings.Builder, rows []floorRow) {
	for i, r := range rows {
		if i == 0 {
			w.WriteString("Round trips: what is sent, the least that any implementation could send with the same guarantee, and that with\n" +
				"MongoDB 8.0's bulkWrite over several collections.\n\n| calls | sent | least | with 8.0 | because |\n|---|---:|---:|---:|---|\n")
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", escape(strings.Join(r.Calls, "; ")), r.Sent, r.Least, r.Bulk, escape(r.Argument))
	}
	if len(rows) > 0 {
		w.WriteString("\n")
	}
}

func writeTable(w *strings.Builder, t table) {
	fmt.Fprintf(w, "| %s |", escape(strings.TrimPrefix(t.Title+t.Of(), ", ")))
	line := "|---|"
	ratios := make([]bool, len(t.Columns))
	for i, column := range t.Columns {
		ratios[i] = slices.ContainsFunc(t.Rows, func(row row) bool { return row.Cells[i].Ratio > 0 })
		fmt.Fprintf(w, " %s |", escape(column))
		line += "---:|"
		if ratios[i] {
			w.WriteString(" × |")
			line += "---:|"
		}
	}
	w.WriteString("\n" + line + "\n")
	for _, row := range t.Rows {
		fmt.Fprintf(w, "| %s |", escape(row.Name))
		for i, c := range row.Cells {
			fmt.Fprintf(w, " %s |", c.Value())
			if ratios[i] {
				fmt.Fprintf(w, " %s |", strings.TrimPrefix(c.Times(), "×"))
			}
		}
		w.WriteString("\n")
	}
	w.WriteString("\n")
}

// escape keeps a text inside its cell.
func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
