package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A change is a result that became worse.
type change struct {
	old, new result
	noise    float64 // of both runs
}

// times is how many times what it was.
func (c change) times() float64 { return c.new.Value / c.old.Value }

// name is what is measured, without what kind.
func (c change) name() string {
	return c.new.Pattern + "/" + c.new.Case + ", " + c.new.Metric + ", " + c.new.Name
}

// worse are the results that take more than in an old run, the worst first. Times count by their ratio
// to the baseline of their own run, because the machine may be another; all others as they are. What
// is not in both runs is left out.
func worse(old, now *report) []change {
	before := map[string]result{}
	for _, c := range old.Cases {
		for _, r := range c.Results {
			before[change{new: r}.name()] = r
		}
	}
	var out []change
	for _, c := range now.Cases {
		for _, r := range c.Results {
			o, ok := before[change{new: r}.name()]
			if !ok || o.Scale != r.Scale || o.Value <= 0 || r.Value <= 0 {
				continue
			}
			if r.Unit == "µs" {
				if o.Ratio == 0 || r.Ratio == 0 {
					continue
				}
				o.Value, r.Value = o.Ratio, r.Ratio
			}
			one := change{o, r, max(o.Noise, r.Noise)}
			if one.times() > 1+max(2*one.noise, least(r)) {
				out = append(out, one)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(b.times(), a.times()) })
	return out
}

// least is the smallest change that counts, as a share: of round trips every one; others swing by some
// per cent between two runs, which the halves of one run do not show.
func least(r result) float64 {
	switch {
	case r.Unit == "round trips":
		return 0.001
	case r.Unit == "µs":
		return 0.05
	}
	return 0.02
}

// compare prints what is worse than in an old run.
func compare(out io.Writer, old, now *report) {
	changes := worse(old, now)
	if len(changes) == 0 {
		_, _ = fmt.Fprintf(out, "\nnothing is worse than on %s\n", old.Run.Date)
		return
	}
	_, _ = fmt.Fprintf(out, "\n%d results are worse than on %s, beyond twice their noise. Times are multiples of the baseline.\n", len(changes), old.Run.Date)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		from, to := quantity(c.old.Value, c.old.Unit), quantity(c.new.Value, c.new.Unit)
		if c.new.Unit == "µs" {
			from, to = "×"+number(c.old.Value), "×"+number(c.new.Value)
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t→ %s\t+%s %%\t(noise %s %%)\n", strings.ReplaceAll(c.name(), "\t", " "), from, to, number(round(100*(c.times()-1))), number(round(100*c.noise)))
	}
	_ = w.Flush()
}
