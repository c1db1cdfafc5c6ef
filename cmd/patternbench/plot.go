package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plot is a picture of results.
type plot struct {
	Pattern string // the section it belongs to; "" is none
	Name    string // of its file, without .svg
	About   string // one sentence below it
	SVG     string
}

// plots are the pictures of a report, the most telling ones first.
func plots(r *report) []plot {
	var all []plot
	add := func(pattern, name, about, svg string) {
		if svg != "" {
			all = append(all, plot{pattern, name, about, svg})
		}
	}
	add("", "time", "Time of every way that was measured, as a multiple of the baseline's. Left of the line is faster.",
		dotPlot("Time, as a multiple of the baseline's", r.dots("time", false)))
	add("", "round-trips", "Round trips, where they differ.",
		dotPlot("Round trips, as a multiple of the baseline's", r.dots("round trips", false)))
	add("", "bytes", "Bytes, received or stored, where they differ by more than 5 %.",
		dotPlot("Bytes, as a multiple of the baseline's", r.dots("bytes", false)))
	orders, depths := r.depths()
	for i, order := range orders {
		file := "paging-" + strings.ReplaceAll(order, " ", "-")
		add("paging", file, "Time of a page of 20, "+order+", by the number of documents before it.",
			linePlot("A page of 20, "+order, "documents before the page", "time", "µs", depths[i]("time")))
		add("paging", file+"-keys", "Index keys that the server examines for a page of 20, "+order+".",
			linePlot("Index keys examined for a page of 20, "+order, "documents before the page", "keys", "keys", depths[i]("keys examined")))
	}
	add("bucket", "bucket-bytes", "What the same measurements take (smooth tenths, one a minute): BSON, in use on disk after a checkpoint, and their indexes.",
		barPlot("Bytes of the same measurements: smooth tenths, one a minute", r.bars("bucket", func(column string, c cell) bool {
			return c.Unit == "bytes" && slices.Contains([]string{"data", "disk in use", "index"}, column)
		})))
	add("bucket", "bucket-ingest", "Server CPU time of storing one measurement of three smooth tenths.",
		barPlot("Server CPU of storing a measurement of three smooth tenths", r.bars("bucket", func(column string, c cell) bool { return column == "server CPU" }, acknowledged, buffered)))
	add("bucket", "bucket-reads", "Time of reading a series of smooth tenths, one a minute, and of its hourly means.",
		barPlot("Time of reading a series: smooth tenths, one a minute", r.bars("bucket", func(column string, c cell) bool { return column == "time" }, "read", "hourly")))
	add("tree", "tree", "Time of the operations on a tree, by representation.",
		barPlot("Time of operations on a tree", r.bars("tree", func(column string, c cell) bool { return column == "time" })))
	add("overhead", "overhead", "Time of the hot calls, as a multiple of the same commands written by hand.",
		dotPlot("Time of hot calls, as a multiple of the same by hand", r.dots("time", true)))
	return all
}

// curve is one line of a plot.
type curve struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

var depthTitle = regexp.MustCompile(`^(.*), after ([\d,]+)$`)

// depths are the orders in which pages were read, and for each a function that gives
// a line for each way of reading: a column by depth.
func (r *report) depths() (orders []string, lines []func(column string) []curve) {
	byOrder := map[string][]table{}
	for _, c := range r.Cases {
		for _, t := range c.Tables() {
			if m := depthTitle.FindStringSubmatch(t.Title); m != nil && c.Pattern == "paging" {
				if byOrder[m[1]] == nil {
					orders = append(orders, m[1])
				}
				byOrder[m[1]] = append(byOrder[m[1]], t)
			}
		}
	}
	for _, order := range orders {
		lines = append(lines, func(column string) (all []curve) {
			for _, t := range byOrder[order] {
				depth, _ := strconv.ParseFloat(strings.ReplaceAll(depthTitle.FindStringSubmatch(t.Title)[2], ",", ""), 64)
				at := t.column(column)
				if at < 0 {
					continue
				}
				for _, row := range t.Rows {
					i := slices.IndexFunc(all, func(s curve) bool { return s.name == row.Name })
					if i < 0 {
						i, all = len(all), append(all, curve{name: row.Name})
					}
					all[i].points = append(all[i].points, point{max(depth, 1), row.Cells[at].V})
				}
			}
			return all
		})
	}
	return orders, lines
}

// group is some bars under one title.
type group struct {
	pattern, title string
	names          []string
	cells          []cell
}

// bars are the columns of a pattern's tables that are wanted, of all tables or of
// those whose titles begin so.
func (r *report) bars(pattern string, wanted func(column string, c cell) bool, titles ...string) (groups []group) {
	for _, c := range r.Cases {
		if c.Pattern != pattern {
			continue
		}
		for _, t := range c.Tables() {
			if len(t.Rows) < 4 || titles != nil && !slices.ContainsFunc(titles, func(title string) bool { return strings.HasPrefix(t.Title, title) }) {
				continue // a note on some of the rows
			}
			for i, column := range t.Columns {
				if !wanted(column, t.Rows[0].Cells[i]) {
					continue
				}
				g := group{pattern: pattern, title: column}
				if t.Title != "" {
					g.title = t.Title
					switch {
					case titles != nil && t.Title == titles[0]:
						g.title = c.Case
					case titles == nil && !strings.HasPrefix(t.Title, c.Case):
						g.title = c.Case + ": " + t.Title
					}
				}
				for _, row := range t.Rows {
					if row.Cells[i].Unit != "" {
						g.names, g.cells = append(g.names, row.Name), append(g.cells, row.Cells[i])
					}
				}
				groups = append(groups, g)
			}
		}
	}
	return groups
}

// ours says whether a way of doing things is one of the package's.
func ours(pattern, name string) bool {
	switch pattern {
	case "bucket":
		return name != nativeName
	case "tree":
		return !strings.HasPrefix(name, "a query")
	case "paging", "computed", "overhead":
		return true
	case "adopt":
		return name != "read alone"
	}
	return strings.Contains(name, pattern) || strings.HasPrefix(name, "deltas")
}

// dots are the ratios of one comparison.
type dots struct {
	pattern, title string
	names          []string
	cells          []cell
}

// dots are those of the hot calls, or of all others.
func (r *report) dots(kind string, overhead bool) (rows []dots) {
	for _, c := range r.Cases {
		if (c.Pattern == "overhead") != overhead || c.Case == guaranteeCase {
			continue
		}
		for _, t := range c.Tables() {
			for i, column := range t.Columns {
				d := dots{pattern: c.Pattern, title: c.Case}
				stored := t.Title == "" && t.Rows[0].Cells[i].Unit == "bytes" && !strings.HasSuffix(column, ", published") && !strings.HasSuffix(column, partsOf)
				switch {
				case kind == "bytes" && stored:
					d.title += ": " + column
				case kind == "bytes" && column == "bytes received" && t.telling(i), kind == "time" && column == kind, column == kind && t.telling(i):
					if d.title += ": " + t.Title; strings.HasPrefix(t.Title, c.Case) || overhead {
						d.title = t.Title
					}
				default:
					continue
				}
				for _, row := range t.Rows[1:] {
					if cell := row.Cells[i]; cell.Ratio > 0 {
						d.names, d.cells = append(d.names, row.Name), append(d.cells, cell)
					}
				}
				again := func(o dots) bool { return o.pattern == d.pattern && o.title == d.title } // against another baseline
				if len(d.cells) > 0 && !slices.ContainsFunc(rows, again) {
					rows = append(rows, d)
				}
			}
		}
	}
	return rows
}

const (
	plotWidth = 930
	fonts     = "Helvetica,Arial,sans-serif"
	// README shows a plot about 830 wide, which leaves 11 px of the smallest text.
	small, large = 13, 14
)

// colour is the name of a class of the style of a drawing.
type colour string

const (
	paper, panel        colour = "paper", "panel"
	ink, grey, hairline colour = "ink", "grey", "hairline"
	gain, loss          colour = "gain", "loss"
	baselineBar, ourBar colour = "way0", "way1"
)

// wayColour is that of the i-th way: grey for the baseline, and others that can be told apart also by those
// who do not see all colours.
func wayColour(i int) colour { return colour(fmt.Sprintf("way%d", i%9)) }

// palette has each colour on a light and on a dark page.
var palette = []struct {
	name        colour
	light, dark string
}{
	{paper, "#f6f8fa", "#151b23"}, {panel, "#ffffff", "#0d1117"}, {ink, "#1f2328", "#e6edf3"}, {grey, "#57606a", "#9198a1"}, {hairline, "#d0d7de", "#3d444d"},
	{gain, "#1a7f37", "#3fb950"}, {loss, "#d1242f", "#f85149"},
	{"way0", "#8c959f", "#848d97"}, {"way1", "#0969da", "#58a6ff"}, {"way2", "#d9730d", "#f0883e"}, {"way3", "#1a7f37", "#3fb950"}, {"way4", "#8250df", "#bc8cff"},
	{"way5", "#bf3989", "#f778ba"}, {"way6", "#0a7ea4", "#39c5cf"}, {"way7", "#7d4e00", "#d2a45c"}, {"way8", "#d1242f", "#ff7b72"},
}

// style sets the colours for light pages and for dark ones.
func style() string {
	var light, dark strings.Builder
	for _, c := range palette {
		fmt.Fprintf(&light, ".f-%s{fill:%s}.s-%s{stroke:%s}", c.name, c.light, c.name, c.light)
		fmt.Fprintf(&dark, ".f-%s{fill:%s}.s-%s{stroke:%s}", c.name, c.dark, c.name, c.dark)
	}
	return "<style>.halo{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}" + light.String() + "@media (prefers-color-scheme:dark){" + dark.String() + "}</style>"
}

// drawing is an SVG under construction.
type drawing struct{ strings.Builder }

func (w *drawing) text(x, y float64, size int, anchor string, colour colour, weight, text string) {
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="%s" class="f-%s" style="font-family:%s;font-size:%dpx;font-weight:%s">%s</text>`+"\n",
		x, y, anchor, colour, fonts, size, weight, html.EscapeString(text))
}

// dot is filled, or a ring.
func (w *drawing) dot(x, y float64, colour colour, filled bool, note string) {
	look := fmt.Sprintf(`class="f-panel s-%s" stroke-width="1.5"`, grey)
	if filled {
		look = fmt.Sprintf(`class="f-%s"`, colour)
	}
	fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="4.5" %s><title>%s</title></circle>`+"\n", x, y, look, html.EscapeString(note))
}

func (w *drawing) line(x1, y1, x2, y2 float64, colour colour) {
	fmt.Fprintf(w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="s-%s"/>`+"\n", x1, y1, x2, y2, colour)
}

func (w *drawing) rect(x, y, width, height, round float64, class string) {
	fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f" class="%s"/>`+"\n", x, y, width, height, round, class)
}

// legend writes the names beside marks of their colours, in as many lines as they
// need, and returns the y below.
func (w *drawing) legend(y float64, names []string) float64 {
	x := 20.0
	for i, name := range names {
		width := 26 + textWidth(name, small)
		if x+width > plotWidth-20 {
			x, y = 20, y+19
		}
		w.rect(x, y-10, 11, 11, 2, "f-"+string(wayColour(i)))
		w.text(x+16, y, small, "start", ink, "normal", name)
		x += width + 8
	}
	return y + 14
}

// textWidth is about what a text takes.
func textWidth(text string, size float64) float64 { return 0.53 * size * float64(len([]rune(text))) }

func (w *drawing) finish(title string, height float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" role="img" aria-label="%s">
%s
<rect width="%d" height="%.0f" rx="8" class="f-paper"/>
<text x="20" y="32" class="f-ink" style="font-family:%s;font-size:18px;font-weight:bold">%s</text>
%s</svg>
`, plotWidth, height, plotWidth, height, html.EscapeString(title), style(), plotWidth, height, fonts, html.EscapeString(title), w.String())
}

// powers are the powers of ten that hold all values.
func powers(values []float64) (low, high int) {
	low, high = math.MaxInt, math.MinInt
	for _, v := range values {
		if v > 0 {
			low, high = min(low, int(math.Floor(math.Log10(v)))), max(high, int(math.Ceil(math.Log10(v))))
		}
	}
	return low, max(high, low+1)
}

// linePlot draws both axes in powers of ten. It is empty without points.
func linePlot(title, xTitle, yTitle, unit string, lines []curve) string {
	var xs, ys []float64
	var names []string
	for _, line := range lines {
		names = append(names, line.name)
		for _, p := range line.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	if len(xs) < 2 {
		return ""
	}
	var w drawing
	top := w.legend(58, names) + 14
	const left, right, plotHeight = 84.0, 90.0, 290.0
	bottom := top + plotHeight
	x0, x1 := powers(xs)
	y0, y1 := powers(ys)
	x := func(v float64) float64 {
		return left + (plotWidth-left-right)*(math.Log10(v)-float64(x0))/float64(x1-x0)
	}
	y := func(v float64) float64 {
		return bottom - plotHeight*(math.Log10(max(v, math.Pow10(y0)))-float64(y0))/float64(y1-y0)
	}
	w.rect(left, top, plotWidth-left-right, plotHeight, 0, "f-panel s-hairline")
	for p := y0; p <= y1; p++ {
		at := y(math.Pow10(p))
		w.line(left, at, plotWidth-right, at, hairline)
		w.text(left-8, at+4, small, "end", grey, "normal", quantity(math.Pow10(p), unit))
	}
	for p := x0; p <= x1; p++ {
		at, label := x(math.Pow10(p)), number(math.Pow10(p))
		if p == 0 {
			label = "first page"
		}
		w.line(at, top, at, bottom, hairline)
		w.text(at, bottom+18, small, "middle", grey, "normal", label)
	}
	w.text(left+(plotWidth-left-right)/2, bottom+38, small, "middle", grey, "bold", xTitle)
	w.text(left, top-8, small, "start", grey, "bold", yTitle)
	type end struct {
		last point
		line int
	}
	var ends []end
	for i, line := range lines {
		colour := wayColour(i)
		var path []string
		for _, p := range line.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
		}
		fmt.Fprintf(&w, `<polyline points="%s" fill="none" class="s-%s" stroke-width="2.5"/>`+"\n", strings.Join(path, " "), colour)
		for _, p := range line.points {
			fmt.Fprintf(&w, `<circle cx="%.1f" cy="%.1f" r="4" class="f-%s"><title>%s: %s</title></circle>`+"\n",
				x(p.x), y(p.y), colour, html.EscapeString(line.name), quantity(p.y, unit))
		}
		ends = append(ends, end{line.points[len(line.points)-1], i})
	}
	// The last values stand at their points, from the top down and none on another.
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(b.last.y, a.last.y) })
	at := 0.0
	for _, e := range ends {
		at = max(y(e.last.y)+4, at+15)
		w.text(x(e.last.x)+9, at, small, "start", wayColour(e.line), "bold", quantity(e.last.y, unit))
	}
	return w.finish(title, bottom+54)
}

// barPlot draws a bar for each cell, as long as its share of the longest in its group,
// with its value and ratio. What does without the package is grey.
func barPlot(title string, groups []group) string {
	if len(groups) == 0 {
		return ""
	}
	var w drawing
	nameWidth := 0.0
	for _, g := range groups {
		for _, name := range g.names {
			nameWidth = max(nameWidth, textWidth(name, small))
		}
	}
	left := 32 + nameWidth + 8
	y := 60.0
	for _, g := range groups {
		w.text(20, y, large, "start", ink, "bold", g.title)
		y += 10
		longest := 0.0
		for _, c := range g.cells {
			longest = max(longest, c.V)
		}
		for i, c := range g.cells {
			length := 0.0
			if longest > 0 {
				length = max((plotWidth-left-170)*c.V/longest, 1)
			}
			bar := baselineBar
			if i > 0 && ours(g.pattern, g.names[i]) {
				bar = ourBar
			}
			w.text(left-8, y+12, small, "end", ink, "normal", g.names[i])
			w.rect(left, y+1, length, 14, 2, "f-"+string(bar))
			label := c.Value()
			if times := c.Times(); times != "" {
				label += ", " + times
			}
			w.text(left+length+6, y+12, small, "start", grey, "normal", label)
			y += 19
		}
		y += 24
	}
	return w.finish(title, y-14)
}

// dotPlot draws a row for each comparison, with a dot for each way on an axis of powers of ten: half is as
// far from the baseline, the line at 1, as double.
func dotPlot(title string, rows []dots) string {
	if len(rows) == 0 {
		return ""
	}
	ratios, titleWidth, most, more := []float64{1}, 0.0, 0, 0
	for _, row := range rows {
		titleWidth = max(titleWidth, textWidth(row.title, small))
		for i, c := range row.cells {
			ratios = append(ratios, c.Ratio)
			if ours(row.pattern, row.names[i]) {
				if most++; c.Ratio > 1.05 {
					more++
				}
			}
		}
	}
	low, high := powers(ratios)
	left := min(36+titleWidth, 400)
	const right = 40.0
	x := func(v float64) float64 {
		return left + (plotWidth-left-right)*(math.Log10(v)-float64(low))/float64(high-low)
	}
	var w drawing
	w.dotLegend(most-more, more)
	top, y := 94.0, 100.0
	var body drawing
	pattern := ""
	for _, row := range rows {
		if row.pattern != pattern {
			pattern = row.pattern
			y += 22
			body.text(20, y, large, "start", ink, "bold", pattern)
			y += 4
		}
		y += 19
		label := []rune(row.title)
		if most := int((left - 36) / (0.53 * small)); len(label) > most {
			label = append(label[:most-1], '…')
		}
		body.text(left-10, y, small, "end", ink, "normal", string(label))
		y = body.dots(y, left, x, row)
	}
	y += 14
	w.rect(left, top, plotWidth-left-right, y-top, 0, "f-panel")
	for p := low; p <= high; p++ {
		at, colour := x(math.Pow10(p)), hairline
		if p == 0 {
			colour = ink
		}
		w.line(at, top, at, y, colour)
		w.text(at, top-6, small, "middle", grey, "normal", multiple(math.Pow10(p)))
		w.text(at, y+16, small, "middle", grey, "normal", multiple(math.Pow10(p)))
	}
	w.WriteString(body.String())
	return w.finish(title, y+30)
}

// dotLegend says what the dots are, and how many of the package's take more than the baseline.
func (w *drawing) dotLegend(less, more int) {
	at := 25.0
	for _, mark := range []struct {
		colour colour
		filled bool
		text   string
	}{
		{gain, true, fmt.Sprintf("the package, not more than the baseline: %d", less)}, {loss, true, fmt.Sprintf("the package, more: %d", more)},
		{grey, false, "another way without it"},
	} {
		w.dot(at, 52, mark.colour, mark.filled, "")
		w.text(at+9, 56, small, "start", grey, "normal", mark.text)
		at += 40 + textWidth(mark.text, small)
	}
}

// dots draws the dots of a row with their names, in as many lines as the names need, and returns the y of
// the last one.
func (w *drawing) dots(y, left float64, x func(v float64) float64, row dots) float64 {
	first := slices.MinFunc(row.cells, func(a, b cell) int { return cmp.Compare(a.Ratio, b.Ratio) })
	w.line(left, y-4, max(x(first.Ratio), left), y-4, hairline)
	var ends [][][2]float64 // what is taken, by line
	for i, c := range row.cells {
		label := fmt.Sprintf("%s %s", row.names[i], multiple(c.Ratio))
		if row.pattern == "overhead" { // there is one way, named by the row
			label = multiple(c.Ratio)
		}
		at, width := x(c.Ratio), textWidth(label, small)+8
		from, anchor, beside := at-6, "start", 9.0
		if at+9+width > plotWidth-4 {
			from, anchor, beside = at-9-width, "end", -9.0
		}
		to := from + width + 15
		line := slices.IndexFunc(ends, func(taken [][2]float64) bool {
			return !slices.ContainsFunc(taken, func(t [2]float64) bool { return from < t[1] && t[0] < to })
		})
		if line < 0 {
			line, ends = len(ends), append(ends, nil)
		}
		ends[line] = append(ends[line], [2]float64{from, to})
		colour, ours := gain, ours(row.pattern, row.names[i])
		if c.Ratio > 1.05 {
			colour = loss
		}
		below := y + 17*float64(line)
		w.dot(at, below-4, colour, ours, fmt.Sprintf("%s: %s, %s", row.names[i], c.Value(), c.Times()))
		if !ours {
			colour = grey
		}
		w.text(at+beside, below, small, anchor, colour+" s-panel halo", "normal", label) // readable on lines
	}
	return y + 17*float64(max(len(ends)-1, 0))
}
