package main

import (
	"fmt"
	"os"
	"strings"
)

// Between these comments choosing.md has the published figures beside measured ones.
const (
	publishedBegin = "<!-- patternbench: published -->\n"
	publishedEnd   = "<!-- patternbench: end -->\n"
)

// writePublished brings the table of the published figures in a file up to date. Only
// figures of the published scale stand beside them; a file without the comments stays.
func writePublished(name string, r *report) error {
	if r.Run.Scale != "seed" {
		return nil
	}
	data, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	text := string(data)
	before, rest, ok := strings.Cut(text, publishedBegin)
	_, after, closed := strings.Cut(rest, publishedEnd)
	if !ok || !closed {
		return nil
	}
	return os.WriteFile(name, []byte(before+publishedBegin+published(r)+publishedEnd+after), 0o644)
}

// published is the table.
func published(r *report) string {
	var w strings.Builder
	fmt.Fprintf(&w, "| | published | measured, %s, %s |\n|---|---|---|\n", r.Run.Date, r.Run.Engine)
	get := func(kind, metric, name string) string {
		for _, c := range r.Cases {
			for _, x := range c.Results {
				switch {
				case c.Pattern+"/"+c.Case != kind || x.Metric != metric:
				case name == x.BaselineName:
					return quantity(x.Baseline, x.Unit)
				case name == x.Name:
					return fmt.Sprintf("%s (×%s)", quantity(x.Value, x.Unit), number(x.Ratio))
				}
			}
		}
		return "–"
	}
	storage := func(way, name, published string) {
		const kind = "bucket/published"
		fmt.Fprintf(&w, "| %s | %s | %s, %s, index %s |\n", way, published,
			get(kind, "documents", name), get(kind, "data", name), get(kind, "index", name))
	}
	storage("100 sensors, a measurement a minute for 30 days, a document each", "plain documents", "4,320,000 documents, 432 MB, index 172 MB")
	storage("… `bucket`, slots of a day", "slots", "3,000 documents, 198 MB (×0.458), index 91 MB (×0.529)")
	storage("… `bucket`, arrays of a day", "array, day", "–")
	storage("… `series` of a month, compacted", "series, months, compacted", "–")
	page := func(way, name, published string) {
		const kind, at = "paging/by depth", "by _id, after 2,500,000: "
		fmt.Fprintf(&w, "| %s | %s | %s, %s |\n", way, published, get(kind, at+"keys examined", name), get(kind, at+"time", name))
	}
	page("page of 20 after 2,500,000 of 3,000,000 by `skip`", "skip", "2,500,020 documents examined, 733 ms")
	page("… `paging`, by a token", "keyset token", "–")
	page("… `paging`, by a number from a page nearby", "number from a page nearby", "–")
	return w.String()
}
