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
	add("bucket", "bucket-bytes", "What the same measurements take: BSON, on disk after a checkpoint, and their indexes.",
		barPlot("Bytes of the same measurements", r.bars("bucket", func(column string, c cell) bool {
			return c.Unit == "bytes" && slices.Contains([]string{"data", "disk", "index"}, column)
		})))
	add("bucket", "bucket-ingest", "Server CPU time of storing one measurement.",
		barPlot("Server CPU of storing a measurement", r.bars("bucket", func(column string, c cell) bool { return column == "server CPU" }, "a measurement")))
	add("bucket", "bucket-reads", "Time of reading a series, and of its hourly means.",
		barPlot("Time of reading a series", r.bars("bucket", func(column string, c cell) bool { return column == "time" }, "read", "hourly")))
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
		if (c.Pattern == "overhead") != overhead {
			continue
		}
		for _, t := range c.Tables() {
			for i, column := range t.Columns {
				d := dots{pattern: c.Pattern, title: c.Case}
				stored := t.Title == "" && t.Rows[0].Cells[i].Unit == "bytes" && !strings.HasSuffix(column, ", published")
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
	ink       = "#1f2328"
	grey      = "#57606a"
	hairline  = "#d0d7de"
)

// The baseline is grey. The others can be told apart also by those who do not see
// all colours.
var colours = []string{"#8c959f", "#0969da", "#d9730d", "#1a7f37", "#8250df", "#bf3989", "#0a7ea4", "#7d4e00", "#d1242f"}

// drawing is an SVG under construction.
type drawing struct{ strings.Builder }

func (w *drawing) text(x, y float64, size int, anchor, colour, weight, text string) {
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="%s" style="font-family:%s;font-size:%dpx;font-weight:%s;fill:%s">%s</text>`+"\n",
		x, y, anchor, fonts, size, weight, colour, html.EscapeString(text))
}

// dot is filled, or a ring.
func (w *drawing) dot(x, y float64, colour string, filled bool, note string) {
	look := fmt.Sprintf(`fill="#fff" fill-opacity="0.6" stroke="%s" stroke-width="1.3"`, grey)
	if filled {
		look = fmt.Sprintf(`fill="%s" fill-opacity="0.8"`, colour)
	}
	fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="4.5" %s><title>%s</title></circle>`+"\n", x, y, look, html.EscapeString(note))
}

func (w *drawing) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

// legend writes the names beside marks of their colours, in as many lines as they
// need, and returns the y below.
func (w *drawing) legend(y float64, names []string) float64 {
	x := 20.0
	for i, name := range names {
		width := 26 + textWidth(name, 12)
		if x+width > plotWidth-20 {
			x, y = 20, y+18
		}
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="11" height="11" rx="2" fill="%s"/>`+"\n", x, y-10, colours[i%len(colours)])
		w.text(x+16, y, 12, "start", ink, "normal", name)
		x += width + 8
	}
	return y + 14
}

// textWidth is about what a text takes.
func textWidth(text string, size float64) float64 { return 0.53 * size * float64(len([]rune(text))) }

func (w *drawing) finish(title string, height float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" role="img" aria-label="%s">
<rect width="%d" height="%.0f" rx="8" fill="#f6f8fa"/>
<text x="20" y="32" style="font-family:%s;font-size:17px;font-weight:bold;fill:%s">%s</text>
%s</svg>
`, plotWidth, height, plotWidth, height, html.EscapeString(title), plotWidth, height, fonts, ink, html.EscapeString(title), w.String())
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
	fmt.Fprintf(&w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#fff" stroke="%s"/>`+"\n", left, top, plotWidth-left-right, plotHeight, hairline)
	for p := y0; p <= y1; p++ {
		at := y(math.Pow10(p))
		w.line(left, at, plotWidth-right, at, hairline)
		w.text(left-8, at+4, 12, "end", grey, "normal", quantity(math.Pow10(p), unit))
	}
	for p := x0; p <= x1; p++ {
		at, label := x(math.Pow10(p)), number(math.Pow10(p))
		if p == 0 {
			label = "first page"
		}
		w.line(at, top, at, bottom, hairline)
		w.text(at, bottom+18, 12, "middle", grey, "normal", label)
	}
	w.text(left+(plotWidth-left-right)/2, bottom+38, 12, "middle", grey, "bold", xTitle)
	w.text(left, top-8, 12, "start", grey, "bold", yTitle)
	type end struct {
		last point
		line int
	}
	var ends []end
	for i, line := range lines {
		colour := colours[i%len(colours)]
		var path []string
		for _, p := range line.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
		}
		fmt.Fprintf(&w, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5"/>`+"\n", strings.Join(path, " "), colour)
		for _, p := range line.points {
			fmt.Fprintf(&w, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %s</title></circle>`+"\n",
				x(p.x), y(p.y), colour, html.EscapeString(line.name), quantity(p.y, unit))
		}
		ends = append(ends, end{line.points[len(line.points)-1], i})
	}
	// The last values stand at their points, from the top down and none on another.
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(b.last.y, a.last.y) })
	at := 0.0
	for _, e := range ends {
		at = max(y(e.last.y)+4, at+14)
		w.text(x(e.last.x)+9, at, 12, "start", colours[e.line%len(colours)], "bold", quantity(e.last.y, unit))
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
			nameWidth = max(nameWidth, textWidth(name, 12))
		}
	}
	left := 32 + nameWidth + 8
	y := 60.0
	for _, g := range groups {
		w.text(20, y, 13, "start", ink, "bold", g.title)
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
			colour := colours[0]
			if i > 0 && ours(g.pattern, g.names[i]) {
				colour = colours[1]
			}
			w.text(left-8, y+12, 12, "end", ink, "normal", g.names[i])
			fmt.Fprintf(&w, `<rect x="%.1f" y="%.1f" width="%.1f" height="14" rx="2" fill="%s"/>`+"\n", left, y+1, length, colour)
			label := c.Value()
			if times := c.Times(); times != "" {
				label += "  " + times
			}
			w.text(left+length+6, y+12, 12, "start", grey, "normal", label)
			y += 18
		}
		y += 24
	}
	return w.finish(title, y-14)
}

// dotPlot draws a row for each comparison, with a dot for each way on an axis of
// powers of ten. The baseline is the line at 1.
func dotPlot(title string, rows []dots) string {
	if len(rows) == 0 {
		return ""
	}
	var w drawing
	ratios := []float64{1}
	titleWidth := 0.0
	for _, row := range rows {
		titleWidth = max(titleWidth, textWidth(row.title, 12))
		for _, c := range row.cells {
			ratios = append(ratios, c.Ratio)
		}
	}
	low, high := powers(ratios)
	left := min(36+titleWidth, 470)
	const right = 40.0
	x := func(v float64) float64 {
		return left + (plotWidth-left-right)*(math.Log10(v)-float64(low))/float64(high-low)
	}
	w.dot(25, 52, colours[3], true, "")
	w.text(34, 56, 12, "start", grey, "normal", "with the package: not more than the baseline")
	w.dot(336, 52, colours[2], true, "")
	w.text(345, 56, 12, "start", grey, "normal", "more")
	w.dot(398, 52, grey, false, "")
	w.text(407, 56, 12, "start", grey, "normal", "another way without it")
	top, y := 94.0, 100.0
	var body drawing
	pattern := ""
	for _, row := range rows {
		if row.pattern != pattern {
			pattern = row.pattern
			y += 22
			body.text(20, y, 13, "start", ink, "bold", pattern)
			body.line(left, y+5, plotWidth-right, y+5, "#eaeef2")
			y += 4
		}
		y += 18
		label := []rune(row.title)
		if most := int((left - 36) / (0.53 * 12)); len(label) > most {
			label = append(label[:most-1], '…')
		}
		body.text(left-10, y, 12, "end", ink, "normal", string(label))
		body.line(left, y-4, plotWidth-right, y-4, "#eaeef2")
		for i, c := range row.cells {
			colour := colours[3] // better
			if c.Ratio > 1.05 {
				colour = colours[2]
			}
			body.dot(x(c.Ratio), y-4, colour, ours(row.pattern, row.names[i]), fmt.Sprintf("%s: %s, %s", row.names[i], c.Value(), c.Times()))
		}
	}
	y += 14
	fmt.Fprintf(&w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#fff"/>`+"\n", left, top, plotWidth-left-right, y-top)
	for p := low; p <= high; p++ {
		at, colour := x(math.Pow10(p)), hairline
		if p == 0 {
			colour = ink
		}
		w.line(at, top, at, y, colour)
		w.text(at, top-6, 12, "middle", grey, "normal", "×"+number(math.Pow10(p)))
		w.text(at, y+16, 12, "middle", grey, "normal", "×"+number(math.Pow10(p)))
	}
	w.WriteString(body.String())
	return w.finish(title, y+30)
}
