package advise

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/visible"
)

// Text writes the report in plain words, a screen a finding. Names that hold line ends or control characters are
// quoted.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %v; %s advised\n", visible.Name(r.Database), many(int64(r.Commands), "command"),
		r.Took.Round(10*time.Millisecond), many(int64(len(r.Findings)), "pattern"))
	for _, s := range r.Sources {
		of := ""
		if s.Of > int64(s.Queries) {
			of = ", the newest of " + group(s.Of)
		}
		fmt.Fprintf(&b, "queries, %s: %s%s%s\n", s.Name, group(int64(s.Queries)), of, after(" (", visible.Name(s.Note), ")"))
	}
	for i, f := range r.Findings {
		fmt.Fprintf(&b, "\n%d. %s: %s\n", i+1, visible.Name(f.place()), f.Pattern)
		f.text(&b)
	}
	if len(r.Findings) > 0 {
		b.WriteString("\ndocs/benchmarks.md has timings on other data; yours will differ.\n")
	}
	if len(r.Shapes) > 0 {
		b.WriteString("\nQueries that get slower with the data:\n")
	}
	for _, s := range r.Shapes {
		fmt.Fprintf(&b, "   %s\n", strings.TrimLeft(wrap(s.String(), "      "), " "))
	}
	if len(r.Indexes) > 0 {
		b.WriteString("\nIndexes:\n")
	}
	for _, i := range r.Indexes {
		fmt.Fprintf(&b, "   %s\n", strings.TrimLeft(wrap(i.String(), "      "), " "))
	}
	if len(r.Remarks) > 0 {
		b.WriteString("\nWhat the data shows:\n")
	}
	for _, m := range r.Remarks {
		if m.Kind != "mixed" {
			m.text(&b)
		}
	}
	r.mixed(&b)
	notes(&b, "Not advised", r.NotAdvised)
	notes(&b, "Could not be told", r.Unknown)
	_, err := io.WriteString(w, visible.Text(b.String()))
	return err
}

// mixed writes one line for all fields of a collection whose values are of several types: there may be many.
func (r *Report) mixed(b *strings.Builder) {
	var collections []string
	fields := map[string][]string{}
	for _, m := range r.Remarks {
		if m.Kind != "mixed" {
			continue
		}
		if fields[m.Collection] == nil {
			collections = append(collections, m.Collection)
		}
		fields[m.Collection] = append(fields[m.Collection], m.short)
	}
	for _, name := range collections {
		line := visible.Name(fmt.Sprintf("%s, mixed: %s", name, strings.Join(fields[name], ", "))) + " → schemaversion"
		fmt.Fprintf(b, "   %s\n", strings.TrimLeft(wrap(line, "      "), " "))
	}
	if collections != nil {
		const mixed = "mixed: a query by one type does not find the others, and only you know whether that is meant; -json has all types, and a check of each field"
		fmt.Fprintf(b, "   %s\n", strings.TrimLeft(wrap(mixed, "      "), " "))
	}
}

func (r Remark) text(b *strings.Builder) {
	line := fmt.Sprintf("%s, %s: %s", visible.Name(r.Collection+after(".", r.Path, "")), r.Kind, visible.Name(r.Reason)) + after(" → ", r.Pattern, "")
	fmt.Fprintf(b, "   %s\n", strings.TrimLeft(wrap(line, "      "), " "))
	fmt.Fprintf(b, "      sure     %s\n", r.Sure)
	fmt.Fprintf(b, "      check    %s\n               gives %s: %s\n", fold(visible.Name(r.Check.Shell)), strings.Join(r.Check.Path, "."), r.Check.gives())
}

func (c Check) gives() string {
	if c.Estimated {
		return fmt.Sprintf("about %d; it takes longer than -max-time", c.Answer)
	}
	return fmt.Sprint(c.Answer)
}

func (f Finding) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n", wrap(f.Summary, "   "))
	fmt.Fprintf(b, "   saves    %s\n", f.Saving)
	for _, g := range f.Grows {
		fmt.Fprintf(b, "   grows    %s\n", g.growth())
	}
	fmt.Fprintf(b, "   sure     %s\n", f.Sure)
	for _, against := range f.Against {
		fmt.Fprintf(b, "   against  %s\n", strings.TrimLeft(wrap(against, "            "), " "))
	}
	fmt.Fprintf(b, "\n%s\n", indent(f.Code))
	fmt.Fprintf(b, "\n%s\n\n", indent(f.Adopt))
	fmt.Fprintf(b, "   check    %s\n            gives %s: %s\n", fold(visible.Name(f.Check.Shell)), visible.Name(strings.Join(f.Check.Path, ".")), f.Check.gives())
	fmt.Fprintf(b, "   manual   %s\n", f.Manual)
}

// fold breaks a command into lines of some 100 characters, behind commas that are not in a string.
func fold(command string) string {
	var b strings.Builder
	quoted, escaped, line := false, false, 0
	for _, r := range command {
		b.WriteRune(r)
		line++
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case r == ',' && !quoted && line > 80:
			b.WriteString("\n              ")
			line = 0
		}
	}
	return b.String()
}

// growth says what is added.
func (s Interval) growth() string {
	if s.Unit == "bytes" {
		times := func(n int64) string { return fmt.Sprintf("%.2g", 1+float64(n)/float64(max(s.Before, 1))) }
		return fmt.Sprintf("%s more than %s %s (× %s)", s.printed(bytes), bytes(s.Before), s.What, s.printed(times))
	}
	return fmt.Sprintf("%s more %s %s", s.printed(group), s.Unit, s.What)
}

func (s Interval) String() string {
	switch s.Unit {
	case "bytes":
		return fmt.Sprintf("%s of %s %s", s.printed(bytes), bytes(s.Before), s.What)
	case "":
		return "not computed: " + s.What
	}
	return fmt.Sprintf("%s of %s %s %s", s.printed(group), group(s.Before), s.Unit, s.What)
}

// printed is one figure, or two that differ as they are printed.
func (s Interval) printed(figure func(n int64) string) string {
	low, high := figure(s.Low), figure(s.High)
	if low == high {
		return low
	}
	return low + " to " + high
}

// notes writes one line for each reason, with all the places that it holds for.
func notes(b *strings.Builder, title string, all []Note) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for i, n := range all {
		same := func(m Note) bool { return m.Pattern == n.Pattern && m.Reason == n.Reason && m.Tells == n.Tells }
		if slices.ContainsFunc(all[:i], same) {
			continue
		}
		var places []string
		for _, m := range all[i:] {
			if same(m) {
				places = append(places, m.place())
			}
		}
		if len(places) == 1 {
			fmt.Fprintf(b, "   %s\n", n)
			continue
		}
		text := n.text(fmt.Sprintf("%d of these", len(places))) + ": " + strings.Join(places, ", ")
		fmt.Fprintf(b, "   %s\n", strings.TrimLeft(wrap(text, "      "), " "))
	}
}

func (n Note) place() string { return visible.Name(n.Collection + after(".", n.Path, "")) }

func (n Note) String() string { return n.text(n.place()) }

func (n Note) text(place string) string {
	return place + after(", ", n.Pattern, "") + ": " + visible.Name(n.Reason) + after("; would tell: ", visible.Name(n.Tells), "")
}

// Name is the note as -ignore and -baseline name it: unknown:subset:orders.items
func (n Note) Name() string {
	return "unknown:" + after("", n.Pattern, ":") + n.Collection + after(".", n.Path, "")
}

// after is text between two others, or nothing.
func after(before, text, behind string) string {
	if text == "" {
		return ""
	}
	return before + text + behind
}

func indent(code string) string {
	return "   " + strings.ReplaceAll(code, "\n", "\n   ")
}

// wrap breaks text into lines of some 90 characters.
func wrap(text, margin string) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			b.WriteString(margin)
		case line+len(word) > 90:
			b.WriteString("\n" + margin)
			line = 0
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		line += len(word) + 1
	}
	return b.String()
}

// JSON writes the findings, the shapes, the indexes, the remarks and what is unknown, one object a line.
func (r *Report) JSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, f := range r.Findings {
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	for _, s := range r.Shapes {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	for _, i := range r.Indexes {
		if err := out.Encode(map[string]Index{"index": i}); err != nil {
			return err
		}
	}
	for _, m := range r.Remarks {
		if err := out.Encode(map[string]Remark{"remark": m}); err != nil {
			return err
		}
	}
	for _, n := range r.Unknown {
		if err := out.Encode(map[string]Note{"unknown": n}); err != nil {
			return err
		}
	}
	return nil
}
