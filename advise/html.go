package advise

import (
	"fmt"
	"html/template"
	"io"
	"math"
)

// HTML writes the report as one page that needs no other file, with the distribution
// behind each finding.
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r) }

// column is a bar of a chart, in the units of its viewBox.
type column struct {
	X, Y, Width, Height float64
	Title               string
	Over                bool // beyond the finding's limit
	Label               string
}

const chartHeight = 120

// chart draws documents by length: a column for each doubling, its height by the
// logarithm, as one document of many thousands has to be seen.
func chart(f Finding) []column {
	type group struct{ from, to, documents, elements int64 }
	var groups []group
	for _, bar := range f.Distribution {
		over := len(groups) > 0 && groups[len(groups)-1].to <= f.Limit && bar.To > f.Limit
		if n := len(groups); n == 0 || bar.From >= 2*max(groups[n-1].from, 1) || over {
			groups = append(groups, group{from: bar.From})
		}
		last := &groups[len(groups)-1]
		last.to = bar.To
		last.documents += bar.Documents
		last.elements += bar.Elements
	}
	most := int64(1)
	for _, g := range groups {
		most = max(most, g.documents)
	}
	var out []column
	for i, g := range groups {
		height := chartHeight * math.Log(float64(1+g.documents)) / math.Log(float64(1+most))
		out = append(out, column{
			X: float64(50 * i), Y: chartHeight - height, Width: 46, Height: height,
			Title: fmt.Sprintf("%d to %d elements: %s, %s", g.from, g.to, many(g.documents, "document"), many(g.elements, "element")),
			Over:  g.to > f.Limit, Label: short(g.from),
		})
	}
	return out
}

// short is a length in few characters.
func short(n int64) string {
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%dk", n/1000)
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"chart": chart,
	"group": group,
	"place": Finding.place,
	"width": func(c []column) int { return 50*len(c) + 10 },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Database}}: patterns advised</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
td.n { text-align: right }
svg { max-width: 100%; height: auto }
svg text { font-size: 11px; fill: #222 }
.usual { fill: #4a7ab5 } .over { fill: #c1502e }
section { border-top: 2px solid #222; margin-top: 2rem }
</style>
</head>
<body>
<h1>{{.Database}}</h1>
<p>{{len .Findings}} advised, {{len .NotAdvised}} weighed and not advised, {{len .Unknown}} could not be told. {{.Commands}} commands, {{.At.Format "2006-01-02 15:04"}}.</p>
<ul>
{{- range .Sources}}
<li>Queries, {{.Name}}: {{.Queries}}{{with .Note}} ({{.}}){{end}}</li>
{{- end}}
</ul>
{{range .Findings}}
<section>
<h2>{{place .}}: {{.Pattern}}</h2>
<p>{{.Summary}}</p>
<p><strong>Saves</strong> {{.Saving}}</p>
{{- with chart .}}
<svg viewBox="0 -5 {{width .}} 145" width="{{width .}}" role="img" aria-label="documents by the length of the list, logarithmic">
{{- range .}}
<rect class="{{if .Over}}over{{else}}usual{{end}}" x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}"><title>{{.Title}}</title></rect>
<text x="{{.X}}" y="135">{{.Label}}</text>
{{- end}}
</svg>
<p>Documents by the length of the list; heights are logarithms.</p>
{{- end}}
<table>
{{- range .Facts}}
<tr><td>{{.What}}</td><td class="n">{{group .Value}}</td><td>{{.How}}</td></tr>
{{- end}}
</table>
<h3>Measured</h3>
<table>
{{- range .Rests}}
<tr><td>saves</td><td>{{.}}</td></tr>
{{- end}}
{{- range .Costs}}
<tr><td>costs</td><td>{{.}}</td></tr>
{{- end}}
</table>
<h3>What speaks against it</h3>
<ul>
{{- range .Against}}
<li>{{.}}</li>
{{- end}}
</ul>
<h3>Code</h3>
<pre>{{.Code}}</pre>
<h3>Check it by hand</h3>
<pre>{{.Check.Shell}}</pre>
<p>gives {{range $i, $p := .Check.Path}}{{if $i}}.{{end}}{{$p}}{{end}}: {{.Check.Answer}}</p>
</section>
{{end}}
{{- with .Shapes}}
<section>
<h2>Queries that get slower with the data</h2>
<table>
<tr><th>query</th><th>seen</th><th>why</th><th>packages</th></tr>
{{- range .}}
<tr><td><code>{{.Query}}</code></td><td class="n">{{group .Seen}}</td><td>{{.Why}}</td><td>{{range $i, $p := .Patterns}}{{if $i}}, {{end}}{{$p}}{{end}}</td></tr>
{{- end}}
</table>
</section>
{{- end}}
{{- with .NotAdvised}}
<section>
<h2>Not advised</h2>
<ul>
{{- range .}}
<li>{{.}}</li>
{{- end}}
</ul>
</section>
{{- end}}
{{- with .Unknown}}
<section>
<h2>Could not be told</h2>
<ul>
{{- range .}}
<li>{{.}}</li>
{{- end}}
</ul>
</section>
{{- end}}
</body>
</html>
`))
