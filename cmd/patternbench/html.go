package main

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"slices"
	"strings"
)

// page is the HTML page: one file that needs nothing else.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"svg":      func(s string) template.HTML { return template.HTML(s) }, //nolint:gosec // made by this program, escaped there
	"anchor":   func(s string) string { return strings.ReplaceAll(s, " ", "-") },
	"multiple": multiple,
	"width":    func(t table, column int, c cell) string { return fmt.Sprintf("%.1f%%", 100*t.share(column, c)) },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Schema patterns, measured</title>
<style>
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: #1f2328; max-width: 1060px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; margin-bottom: 4px; }
h2 { font-size: 21px; margin: 40px 0 8px; border-bottom: 1px solid #d0d7de; }
h3 { font-size: 16px; margin: 24px 0 2px; }
p { margin: 4px 0 10px; }
.quiet, caption { color: #57606a; }
nav a { margin-right: 12px; }
figure { margin: 20px 0; }
figcaption { color: #57606a; font-size: 14px; }
svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 8px 0 18px; font-size: 13px; }
caption { text-align: left; font-weight: bold; padding: 2px 0; }
caption .quiet { font-weight: normal; }
th { text-align: right; font-weight: normal; color: #57606a; padding: 3px 8px; border-bottom: 1px solid #d0d7de; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
td { text-align: right; padding: 3px 8px; border-bottom: 1px solid #eaeef2; white-space: nowrap; min-width: 92px; }
.words td, .words td:first-child { white-space: normal; min-width: 0; text-align: left; }
td .bar { display: block; height: 4px; border-radius: 2px; background: #8c959f; margin-left: auto; }
td.better .bar { background: #1a7f37; }
td.worse .bar { background: #d9730d; }
td .times { display: inline-block; min-width: 56px; color: #57606a; }
td.better .times { color: #1a7f37; }
td.worse .times { color: #b35900; font-weight: bold; }
.goal { display: block; font-size: 11px; }
.missed { color: #d1242f; font-weight: bold; }
.failed { color: #d1242f; }
@media (prefers-color-scheme: dark) {
body { color: #e6edf3; background: #0d1117; }
a { color: #58a6ff; }
h2, th, td { border-color: #3d444d; }
.quiet, caption .quiet, figcaption, th, td .times { color: #9198a1; }
td.better .times { color: #3fb950; } td.better .bar { background: #3fb950; }
td.worse .times { color: #f0883e; } td.worse .bar { background: #f0883e; }
.missed, .failed { color: #f85149; }
}
</style>
</head>
<body>
<h1>Schema patterns, measured</h1>
<p class="quiet">{{.Run.Date}}, {{.Run.Scale}} scale, seed {{.Run.Seed}}. Server: {{.Run.Engine}}{{with .Run.Cache}}, {{.}} GB cache{{end}}.
Machine: {{.Run.Cores}} cores{{with .Run.Memory}}, {{.}} GB memory{{end}}, {{.Run.OS}}, {{.Run.Go}}.</p>
<p>Every table compares ways of doing one thing with its first row, the baseline: × is the multiple of it, 1/40 a fortieth, and less is better.
Measured values are medians of runs that take turns, per operation. The CPU time of client and server depends less than the
time on what else the machine does. Writes have the server's default write concern (on a replica set the majority, in the
journal), unless a table says otherwise.</p>
<nav>{{range .Patterns}}<a href="#{{(index . 0).Pattern}}">{{(index . 0).Pattern}}</a> {{end}}</nav>
{{with .Goals}}<h2>Goals</h2>
<div class="scroll"><table><tr><th>what</th><th>against</th><th>ratio</th><th>goal</th></tr>
{{range .}}<tr><td>{{.Name}}: {{.Case}}, {{.Metric}}</td><td>{{.BaselineName}}</td><td{{if .Missed}} class="missed"{{end}}>{{multiple .Ratio}}</td><td>≤ {{multiple .Goal}}</td></tr>
{{end}}</table></div>{{end}}
{{range .Plots ""}}<figure>{{svg .SVG}}<figcaption>{{.About}}</figcaption></figure>
{{end}}
{{range .Patterns}}<h2 id="{{(index . 0).Pattern}}">{{(index . 0).Pattern}}</h2>
{{range $.Plots (index . 0).Pattern}}<figure>{{svg .SVG}}<figcaption>{{.About}}</figcaption></figure>
{{end}}{{range .}}<h3 id="{{.Pattern}}-{{anchor .Case}}">{{.Case}}</h3>
<p>{{.About}}</p>
{{with .Error}}<p class="failed">Failed: {{.}}</p>{{end}}
{{range .Compact}}{{$t := .Short}}{{with $t}}<div class="scroll"><table>
{{with .Title}}<caption>{{.}}{{with $t.Of}}<span class="quiet">{{.}}</span>{{end}}</caption>{{end}}
<tr><th></th>{{range .Columns}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr><td>{{.Name}}</td>{{range $i, $c := .Cells}}<td class="{{$c.Class}}">{{$c.Value}} <span class="times">{{$c.Times}}</span>{{if and $c.Value (not $t.NoBars)}}<span class="bar" style="width:{{width $t $i $c}}"></span>{{end}}{{with $c.Goal}}{{if or $c.Missed (not $t.NoBars)}}<span class="goal{{if $c.Missed}} missed{{end}}">goal ≤ {{multiple .}}</span>{{end}}{{end}}</td>{{end}}</tr>
{{end}}</table></div>
{{end}}{{end}}{{with .Floors}}<p>Round trips: what is sent, the least that any implementation could send with the same guarantee, and that with
MongoDB 8.0's bulkWrite over several collections.</p>
<div class="scroll"><table class="words"><tr><th>calls</th><th>sent</th><th>least</th><th>with 8.0</th><th>because</th></tr>
{{range .}}<tr><td>{{range $i, $call := .Calls}}{{if $i}}; {{end}}{{$call}}{{end}}</td><td>{{.Sent}}</td><td>{{.Least}}</td><td>{{.Bulk}}</td><td>{{.Argument}}</td></tr>
{{end}}</table></div>
{{end}}{{with .Reasons}}<p>Over the goal. What these do that the baseline does not:</p>
<ul>{{range .}}<li><b>{{.Name}}</b>: {{.Why}}</li>
{{end}}</ul>
{{end}}{{end}}{{end}}
</body>
</html>
`))

// share is how long a cell's bar is: its part of the largest value in the column.
func (t table) share(column int, c cell) float64 {
	largest := 0.0
	for _, row := range t.Rows {
		largest = max(largest, row.Cells[column].V)
	}
	if largest == 0 {
		return 0
	}
	return c.V / largest
}

// Class says how a cell is to the baseline.
func (c cell) Class() string {
	switch {
	case c.Ratio == 0 || c.Ratio >= 0.95 && c.Ratio <= 1.05:
		return "same"
	case c.Ratio < 1:
		return "better"
	}
	return "worse"
}

// view is what the page shows.
type view struct {
	Run      runInfo
	Patterns [][]caseResult
	Goals    []result
	plots    []plot
}

// Plots are those of a section.
func (v view) Plots(pattern string) []plot {
	return slices.DeleteFunc(slices.Clone(v.plots), func(p plot) bool { return p.Pattern != pattern })
}

func viewOf(r *report) view {
	v := view{Run: r.Run, Patterns: byPattern(r.Cases), plots: plots(r)}
	for _, c := range r.Cases {
		for _, one := range c.Results {
			if one.Goal > 0 && c.Pattern != "overhead" { // which has one for each line
				v.Goals = append(v.Goals, one)
			}
		}
	}
	return v
}

func writeHTML(name string, r *report) error {
	var out bytes.Buffer
	if err := page.Execute(&out, viewOf(r)); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
