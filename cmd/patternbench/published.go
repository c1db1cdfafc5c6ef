package main

import (
	"fmt"
	"os"
	"strings"
)

// Between these comments README.md has comparisons that a package wins, and comparisons that it loses.
const (
	extremesBegin = "<!-- patternbench: extremes -->\n"
	extremesEnd   = "<!-- patternbench: end -->\n"
)

// publishedScale has the numbers of documents of the published figures.
const publishedScale = "seed"

// writeExtremes brings the comparisons in a file up to date. Only figures of the published scale stand
// there; a file without the comments stays.
func writeExtremes(name string, r *report) error {
	if r.Run.Scale != publishedScale {
		return nil
	}
	data, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), extremesBegin)
	_, after, closed := strings.Cut(rest, extremesEnd)
	if !ok || !closed {
		return nil
	}
	return os.WriteFile(name, []byte(before+extremesBegin+extremes(r)+extremesEnd+after), 0o644)
}

// figure is what a way of doing things took, with its multiple of the baseline's; – if it was not measured.
func (r *report) figure(kind, metric, name string) string {
	for _, c := range r.Cases {
		for _, x := range c.Results {
			switch {
			case c.Pattern+"/"+c.Case != kind || x.Metric != metric:
			case name == x.BaselineName:
				return quantity(x.Baseline, x.Unit)
			case name == x.Name:
				return fmt.Sprintf("%s (%s)", quantity(x.Value, x.Unit), multiple(x.Ratio))
			}
		}
	}
	return "–"
}

// extremes are two comparisons that the package wins, and two that it loses.
func extremes(r *report) string {
	var w strings.Builder
	line := func(what, kind, metric, way, hand, by string) {
		fmt.Fprintf(&w, "- %s: %s, %s: %s\n", what, r.figure(kind, metric, way), by, r.figure(kind, metric, hand))
	}
	line("Wins: a page of 20 after 2,500,000 articles by `paging`", "paging/by depth", "by _id, after 2,500,000: time", "keyset token", "skip", "by `skip`")
	line("Wins: 4,320,000 measurements in `series`", "bucket/published", "data", "series, months, compacted", plainName, "in documents")
	line("Loses: one measurement at a time into `bucket`", "bucket/trickle", acknowledged+": time", "array, day", plainName, "into documents")
	line("Loses: a sum by `computed.Change`", "overhead/hot calls", "computed.Change, additive: time", "package", "by hand", "by hand")
	return w.String()
}

// published are figures that others have published for these patterns, and those of a run with as many documents.
func published(r *report) string {
	var w strings.Builder
	w.WriteString("## Published figures\n\nWhat others have published, and what this run measured with the same numbers of documents.\n\n" +
		"| | published | measured |\n|---|---|---|\n")
	storage := func(way, name, published string) {
		const kind = "bucket/published"
		fmt.Fprintf(&w, "| %s | %s | %s, %s, index %s |\n", way, published,
			r.figure(kind, "documents", name), r.figure(kind, "data", name), r.figure(kind, "index", name))
	}
	storage("100 sensors, a measurement a minute for 30 days, a document each", "plain documents", "4,320,000 documents, 432 MB, index 172 MB")
	storage("… `slots` of a day", "slots", "3,000 documents, 198 MB (1/2.2), index 91 MB (1/1.9)")
	storage("… `bucket`, arrays of a day", "array, day", "–")
	storage("… `series` of a month, compacted", "series, months, compacted", "–")
	page := func(way, name, published string) {
		const kind, at = "paging/by depth", "by _id, after 2,500,000: "
		fmt.Fprintf(&w, "| %s | %s | %s, %s |\n", way, published, r.figure(kind, at+"keys examined", name), r.figure(kind, at+"time", name))
	}
	page("page of 20 after 2,500,000 of 3,000,000 by `skip`", "skip", "2,500,020 documents examined, 733 ms")
	page("… `paging`, by a token", "keyset token", "–")
	page("… `paging`, by a number from a page nearby", "number from a page nearby", "–")
	return w.String()
}
