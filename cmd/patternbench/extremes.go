package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Between these comments README.md has comparisons that a package wins, and comparisons that it loses.
const (
	extremesBegin = "<!-- patternbench: extremes -->\n"
	extremesEnd   = "<!-- patternbench: end -->\n"
)

// pagesScale is the scale that README.md shows.
const pagesScale = "seed"

// writeExtremes brings the comparisons in a file up to date. Only figures of one scale stand there; a file without the
// comments stays.
func writeExtremes(name string, r *report) error {
	if r.Run.Scale != pagesScale {
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
				return x.figure()
			}
		}
	}
	return "–"
}

func (r result) figure() string {
	return fmt.Sprintf("%s (%s)", quantity(r.Value, r.Unit), multiple(r.Ratio))
}

// ours are the names of the ways of this library. All others are what one does without it.
var ours = regexp.MustCompile(`^(package|approx|archive|attribute|bucket|array|computed|marked|extref|outlier|keyset|number|` +
	`polymorphic|prealloc|relation|schemaversion|series|slots|split|subset|versioning|deltas|tree|` +
	`ParentReferences|ChildReferences|AncestorArray|MaterializedPath|NestedSets)\b`)

// worst are the results in which the library takes the largest multiple of the baseline's time, one of each pattern, the
// worst first.
func (r *report) worst(n int) []result {
	var out []result
	for _, c := range r.Cases {
		var most result
		for _, x := range c.Results {
			if strings.HasSuffix(x.Metric, ": time") && ours.MatchString(x.Name) && x.Ratio > max(1, most.Ratio) {
				most = x
			}
		}
		i := slices.IndexFunc(out, func(o result) bool { return o.Pattern == most.Pattern })
		switch {
		case most.Ratio == 0:
		case i < 0:
			out = append(out, most)
		case most.Ratio > out[i].Ratio:
			out[i] = most
		}
	}
	slices.SortFunc(out, func(a, b result) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return out[:min(n, len(out))]
}

// extremes are what was measured on, two comparisons that the library wins, one by hand, its worst losses, and what single measurements cost.
func extremes(r *report) string {
	var w strings.Builder
	fmt.Fprintf(&w, "On %s: %s, %d cores for client and server.\n\n", r.Run.Date, r.Run.Engine, r.Run.Cores)
	hot := func(call, way string) string { return r.figure("overhead/hot calls", call+": time", way) }
	fmt.Fprintf(&w, "- Wins: a page of 20 after 2,500,000 articles: `paging` %s, `skip` %s\n",
		r.figure("paging/by depth", "by _id, after 2,500,000: time", "keyset token"), r.figure("paging/by depth", "by _id, after 2,500,000: time", "skip"))
	fmt.Fprintf(&w, "- Loses: a later page of 20 of 2,000 orders: `paging` %s, a keyset filter by hand %s\n",
		hot("paging.Page, after", "package"), hot("paging.Page, after", "by hand"))
	disk := func(way string) string { return r.figure("bucket/storage", "disk in use", way) }
	fmt.Fprintf(&w, "- Wins: 4,320,000 measurements on disk, without indexes: `series`, compacted months %s, native time series %s, documents %s\n",
		disk(monthsName), disk(nativeName), disk(plainName))
	for _, x := range r.worst(2) {
		fmt.Fprintf(&w, "- Loses: %s, %s: %s %s, %s %s\n", x.Pattern, strings.TrimSuffix(x.Metric, ": time"),
			x.Name, x.figure(), x.BaselineName, quantity(x.Baseline, x.Unit))
	}
	trickle := func(way string) string { return r.figure("bucket/trickle", acknowledged+": time", way) }
	single, _, _ := strings.Cut(hot("bucket.Append", "package"), " (")
	fmt.Fprintf(&w, "- Loses: one measurement, in batches of 100 sensors: `bucket.AppendMany` %s, InsertMany %s. One `bucket.Append`: %s\n",
		trickle("array, day"), trickle(plainName), single)
	return w.String()
}
