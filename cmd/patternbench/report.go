package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// result is one line of the JSON: one way of doing a thing against the baseline.
type result struct {
	Pattern      string  `json:"pattern"`
	Case         string  `json:"case"`
	Metric       string  `json:"metric"` // "read: time", "documents"
	Unit         string  `json:"unit"`
	Baseline     float64 `json:"baseline"`
	BaselineName string  `json:"baselineName"`
	Value        float64 `json:"patternValue"`
	Name         string  `json:"patternName"`
	// Ratio is Value / Baseline; 0 if Baseline is 0.
	Ratio float64 `json:"ratio"`
	// Goal is what Ratio should be at most; 0 is none.
	Goal float64 `json:"goal,omitempty"`
	// Why says what this does that the baseline does not.
	Why string `json:"why,omitempty"`
	// Floor is the least number of round trips with the same guarantee, Argument says why, and Bulk is
	// Floor with MongoDB 8.0's bulkWrite over several collections, 0 if that saves none.
	Floor    int    `json:"floor,omitempty"`
	Argument string `json:"argument,omitempty"`
	Bulk     int    `json:"floorWithBulkWrite,omitempty"`
	Runs     int    `json:"runs"`
	// Noise is what each side differs from itself, as a share, the larger of the two; 0 if it was not
	// measured.
	Noise  float64 `json:"noise,omitempty"`
	Engine string  `json:"engine"`
	Scale  string  `json:"scale"`
}

// Missed says that the ratio is above its goal, beyond twice the noise.
func (r result) Missed() bool { return r.Goal > 0 && r.Ratio > r.Goal+2*r.Noise }

// caseResult is another line, before the results of the case.
type caseResult struct {
	Pattern string   `json:"pattern"`
	Case    string   `json:"case"`
	About   string   `json:"about"`
	On      string   `json:"measuredOn,omitempty"` // the day, where another run than that of the first line measured it
	Seconds float64  `json:"seconds"`
	CPU     float64  `json:"cpuSeconds"` // of client and server: what it takes on an idle machine
	Error   string   `json:"error,omitempty"`
	Results []result `json:"-"`
}

// runInfo is the first line: what was measured on. It names no host and no path.
type runInfo struct {
	Date   string  `json:"date"`
	Engine string  `json:"engine"`
	Scale  string  `json:"scale"`
	Seed   uint64  `json:"seed"`
	OS     string  `json:"os"`
	Cores  int     `json:"cores"`
	Memory float64 `json:"memoryGB,omitempty"` // 0 is not known
	Cache  float64 `json:"cacheGB,omitempty"`  // of the server; 0 is not known
	Go     string  `json:"go"`
	Code   string  `json:"code,omitempty"` // the version of this program, with its commit if it was built with -buildvcs=true
}

// report is everything that was measured in a run.
type report struct {
	Run   runInfo
	Cases []caseResult
}

// describe is the first line of a run that begins now.
func describe(ctx context.Context, s *server, scale string, seed uint64) runInfo {
	info := runInfo{
		Date: time.Now().UTC().Format(time.DateOnly), Engine: s.engine, Scale: scale, Seed: seed,
		OS: runtime.GOOS + " " + runtime.GOARCH, Cores: runtime.NumCPU(), Memory: round(memory()), Go: runtime.Version(),
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "(devel)" {
		info.Code = build.Main.Version
	}
	if status, err := s.admin.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Raw(); err == nil {
		if v, ok := status.Lookup("wiredTiger", "cache", "maximum bytes configured").AsFloat64OK(); ok {
			info.Cache = round(v / (1 << 30))
		}
	}
	return info
}

// memory is that of the machine in GB, as far as Linux tells it.
func memory() float64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			return kb / (1 << 20)
		}
	}
	return 0
}

// jsonFile is where results go as they come; nil is nowhere.
type jsonFile struct{ file *os.File }

func createJSON(name string) (*jsonFile, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &jsonFile{file}, nil
}

func (f *jsonFile) line(v any) error {
	if f == nil {
		return nil
	}
	return json.NewEncoder(f.file).Encode(v)
}

// writeCase writes a case and its results.
func (f *jsonFile) writeCase(c caseResult) error {
	errs := []error{f.line(c)}
	for _, r := range c.Results {
		errs = append(errs, f.line(r))
	}
	return errors.Join(errs...)
}

// writeJSON writes all results to a file.
func (r *report) writeJSON(name string) error {
	file, err := createJSON(name)
	if err != nil {
		return err
	}
	errs := []error{file.line(r.Run)}
	for _, c := range r.Cases {
		errs = append(errs, file.writeCase(c))
	}
	return errors.Join(append(errs, file.close())...)
}

func (f *jsonFile) close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}

// readJSON reads what a run has written.
func readJSON(name string) (*report, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r := &report{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Date   string `json:"date"`
			Metric string `json:"metric"`
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		switch {
		case err != nil:
		case line.Date != "":
			err = json.Unmarshal(lines.Bytes(), &r.Run)
		case line.Metric != "":
			var one result
			err = json.Unmarshal(lines.Bytes(), &one)
			if len(r.Cases) == 0 {
				return nil, fmt.Errorf("%s, line %d: a result before its case", name, n)
			}
			last := &r.Cases[len(r.Cases)-1]
			last.Results = append(last.Results, one)
		default:
			var c caseResult
			err = json.Unmarshal(lines.Bytes(), &c)
			r.Cases = append(r.Cases, c)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
	}
	return r, lines.Err()
}

// reason says what a call that missed its goal does that the baseline does not. It is no measurement.
type reason struct{ Name, Why string }

// Reasons are those of what missed its goal, each once.
func (c caseResult) Reasons() (reasons []reason) {
	for _, r := range c.Results {
		name, _, measured := strings.Cut(r.Metric, ": ")
		if !measured {
			name = r.Name + ", " + r.Metric
		}
		one := reason{name, r.Why}
		if r.Why != "" && r.Missed() && !slices.Contains(reasons, one) {
			reasons = append(reasons, one)
		}
	}
	return reasons
}

// floorRow is some calls that send as much, by the same argument.
type floorRow struct {
	Calls             []string
	Sent, Least, Bulk string
	Argument          string
}

// Floors are the round trips of hot calls beside the least that would do, those that could be fewer first.
func (c caseResult) Floors() []floorRow {
	var rows []floorRow
	for _, r := range c.Results {
		if r.Argument == "" {
			continue
		}
		row := floorRow{Sent: number(r.Value), Least: strconv.Itoa(r.Floor), Bulk: strconv.Itoa(cmp.Or(r.Bulk, r.Floor)), Argument: r.Argument}
		i := slices.IndexFunc(rows, func(o floorRow) bool {
			return o.Sent == row.Sent && o.Least == row.Least && o.Bulk == row.Bulk && o.Argument == row.Argument
		})
		if i < 0 {
			i, rows = len(rows), append(rows, row)
		}
		call, _, _ := strings.Cut(r.Metric, ": ")
		rows[i].Calls = append(rows[i].Calls, call)
	}
	for _, row := range rows {
		slices.Sort(row.Calls)
	}
	slices.SortFunc(rows, func(a, b floorRow) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(len(a.Calls), len(b.Calls)), cmp.Compare(a.Calls[0], b.Calls[0]))
	})
	return rows
}

// rank is 2 for what sends more than the least, 1 for what another server could do with less.
func (r floorRow) rank() int {
	switch {
	case r.Sent != r.Least:
		return 2
	case r.Bulk != r.Least:
		return 1
	}
	return 0
}

// table is a comparison as people read it: a row for each way of doing the thing, the
// baseline first.
type table struct {
	Title   string
	Columns []string
	Rows    []row
	Runs    int
	NoBars  bool // the rows cannot be compared with each other
}

type row struct {
	Name  string
	Cells []cell // as many as columns
}

// cell is a value; one without a unit is empty.
type cell struct {
	V, Ratio, Goal float64
	Unit           string
	Missed         bool // that the ratio is above its goal, beyond twice the noise
}

// Tables puts the results of a case together: those of one measure are columns of one
// table, and so are values that were reported of the same things.
func (c caseResult) Tables() []table {
	var tables []table
	for rest := c.Results; len(rest) > 0; {
		first := rest[0]
		n := slices.IndexFunc(rest, func(r result) bool { return r.Metric != first.Metric || r.BaselineName != first.BaselineName })
		if n < 0 {
			n = len(rest)
		}
		group := rest[:n]
		rest = rest[n:]
		title, column, measured := strings.Cut(first.Metric, ": ")
		if !measured {
			title, column = "", first.Metric
		}
		i := slices.IndexFunc(tables, func(t table) bool {
			return t.Title == title && t.Rows[0].Name == first.BaselineName && t.column(column) < 0 && (measured || t.alike(group))
		})
		if i < 0 {
			i, tables = len(tables), append(tables, table{Title: title, Runs: first.Runs, Rows: []row{{Name: first.BaselineName}}})
		}
		t := &tables[i]
		t.Columns = append(t.Columns, column)
		t.set(first.BaselineName, cell{V: first.Baseline, Unit: first.Unit})
		for _, r := range group {
			t.set(r.Name, cell{V: r.Value, Ratio: r.Ratio, Goal: r.Goal, Unit: r.Unit, Missed: r.Missed()})
		}
	}
	for _, t := range tables {
		for i := range t.Rows {
			for len(t.Rows[i].Cells) < len(t.Columns) {
				t.Rows[i].Cells = append(t.Rows[i].Cells, cell{})
			}
		}
	}
	return tables
}

// Compact puts many tables of the same two ways into one, with a row for each: so those
// of the hot calls can be read.
func (c caseResult) Compact() []table {
	tables := c.Tables()
	if len(tables) < 5 {
		return tables
	}
	first := tables[0]
	all := table{Runs: first.Runs, NoBars: true, Columns: []string{first.Rows[0].Name}}
	for _, kind := range kinds {
		name := first.Rows[1].Name + ", " + kind.name
		if kind.name == "time" {
			name = first.Rows[1].Name
		}
		all.Columns = append(all.Columns, name)
	}
	for _, t := range tables {
		if len(t.Rows) != 2 || t.Rows[0].Name != first.Rows[0].Name || t.Rows[1].Name != first.Rows[1].Name {
			return tables
		}
		r := row{Name: t.Title, Cells: make([]cell, len(all.Columns))}
		for i, kind := range kinds {
			if at := t.column(kind.name); at >= 0 {
				r.Cells[i+1] = t.Rows[1].Cells[at]
				if i == 0 {
					r.Cells[0] = t.Rows[0].Cells[at]
				}
			}
		}
		all.Rows = append(all.Rows, r)
	}
	return []table{all}
}

// alike says whether all results of the group have a row, or all rows a result.
func (t *table) alike(group []result) bool {
	common := 0
	for _, r := range group {
		if slices.ContainsFunc(t.Rows[1:], func(row row) bool { return row.Name == r.Name }) {
			common++
		}
	}
	return common == len(group) || common == len(t.Rows)-1
}

// set puts a cell into the last column.
func (t *table) set(name string, c cell) {
	i := slices.IndexFunc(t.Rows, func(r row) bool { return r.Name == name })
	if i < 0 {
		i, t.Rows = len(t.Rows), append(t.Rows, row{Name: name})
	}
	for len(t.Rows[i].Cells) < len(t.Columns)-1 {
		t.Rows[i].Cells = append(t.Rows[i].Cells, cell{})
	}
	t.Rows[i].Cells = append(t.Rows[i].Cells[:len(t.Columns)-1], c)
}

// telling says whether a column is worth its place: allocations, round trips and bytes
// received are not where they hardly differ, and neither are the few bytes of an answer
// to a write.
func (t table) telling(column int) bool {
	name := t.Columns[column]
	if !slices.Contains([]string{"round trips", "bytes received", "allocations"}, name) {
		return true
	}
	if name == "bytes received" && t.Rows[0].Cells[column].V < 100 {
		return false
	}
	return slices.ContainsFunc(t.Rows, func(row row) bool {
		c := row.Cells[column]
		return c.Ratio != 0 && (c.Ratio < 0.95 || c.Ratio > 1.05)
	})
}

// Short is the table with the telling columns alone.
func (t table) Short() table {
	short := table{Title: t.Title, Runs: t.Runs, NoBars: t.NoBars}
	for _, row := range t.Rows {
		row.Cells = nil
		short.Rows = append(short.Rows, row)
	}
	for i, column := range t.Columns {
		if t.telling(i) {
			short.Columns = append(short.Columns, column)
			for n, row := range t.Rows {
				short.Rows[n].Cells = append(short.Rows[n].Cells, row.Cells[i])
			}
		}
	}
	return short
}

// Of says how often each side was run.
func (t table) Of() string {
	if t.Runs <= 1 {
		return ""
	}
	return fmt.Sprintf(", medians of %d", t.Runs)
}

// column is the index of a column; -1 if there is none.
func (t table) column(name string) int { return slices.Index(t.Columns, name) }

// Value is the cell's number with its unit, for people.
func (c cell) Value() string {
	if c.Unit == "" {
		return ""
	}
	return quantity(c.V, c.Unit)
}

// Times is the ratio as people say it, and "" for a baseline or a cell without one.
func (c cell) Times() string { return multiple(c.Ratio) }

// multiple writes a ratio as people say it: 1/2400, 1/3.6, ×0.85, ×1.3, ×24; "" for 0.
func multiple(ratio float64) string {
	short := func(v float64) string {
		if v >= 9.95 { // two digits
			pow := math.Pow10(int(math.Log10(v)) - 1)
			return strconv.FormatFloat(math.Round(v/pow)*pow, 'f', 0, 64)
		}
		return fmt.Sprintf("%.2g", v)
	}
	switch {
	case ratio <= 0:
		return ""
	case ratio < 0.55:
		return "1/" + short(1/ratio)
	case ratio < 9.95:
		return fmt.Sprintf("×%.3g", ratio)
	}
	return "×" + short(ratio)
}

// quantity writes a value with its unit: 4.2 ms, 198 MB, 3,000.
func quantity(v float64, unit string) string {
	switch unit {
	case "µs":
		return scaled(v, 1000, "µs", "ms", "s")
	case "bytes":
		return scaled(v, 1000, "B", "kB", "MB", "GB")
	case "%":
		return number(v) + " %"
	case "documents", "round trips", "allocations", "keys", "keys examined":
		return number(v)
	}
	return number(v) + " " + unit
}

func scaled(v, step float64, units ...string) string {
	i := 0
	for ; i < len(units)-1 && v >= 0.9995*step; i++ {
		v /= step
	}
	if v >= 100 || v == float64(int64(v)) {
		return number(float64(int64(v+0.5))) + " " + units[i]
	}
	return number(v) + " " + units[i]
}

// writeText writes the tables of a case as text.
func (c caseResult) writeText(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\n%s/%s  %s\n", c.Pattern, c.Case, c.About)
	for _, t := range c.Compact() {
		t = t.Short()
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		_, _ = fmt.Fprintf(w, "\t  %s\t\n", strings.Join(t.Columns, "\t\t"))
		for i, row := range t.Rows {
			_, _ = fmt.Fprintf(w, "%s\t", row.Name)
			for _, cell := range row.Cells {
				times := cell.Times()
				if i == 0 && !t.NoBars {
					times = "×1"
				}
				if cell.Missed {
					times += fmt.Sprintf(" (goal %s)", multiple(cell.Goal))
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t", cell.Value(), times)
			}
			_, _ = fmt.Fprintln(w)
		}
		if t.Title != "" {
			_, _ = fmt.Fprintf(out, "  %s%s\n", t.Title, t.Of())
		}
		_ = w.Flush()
	}
}

func (r *report) writeText(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%s: %s scale, %s, %d cores, %s\n", r.Run.Date, r.Run.Scale, r.Run.Engine, r.Run.Cores, r.Run.OS)
	for _, c := range r.Cases {
		c.writeText(out)
	}
}
