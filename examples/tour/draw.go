package main

import (
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// panel is documents of one collection.
type panel struct {
	collection string
	docs       []bson.Raw
}

// picture shows documents before and after a pattern.
type picture struct {
	title         string
	before, after []panel
	say           string // what happened in between
}

const (
	charWidth  = 7.25 // of the 12 px monospace font
	lineHeight = 17
	padding    = 12
	lineLimit  = 46 // characters that an inline value may take
	docLimit   = 44 // and a whole document
	// A page shows a picture at most about 830 wide, which leaves 11 px of the text.
	smallText, shownWidth = 12, 830
)

// style has the colours for light pages and for dark ones.
const style = `<style>` +
	`.paper{fill:#f6f8fa}.card{fill:#fff;stroke:#d0d7de}.new{fill:#dafbe1}.ink{fill:#1f2328}.grey{fill:#57606a}.say{fill:#1a7f37}.arrow{fill:none;stroke:#1a7f37;stroke-width:2}` +
	`@media (prefers-color-scheme:dark){` +
	`.paper{fill:#151b23}.card{fill:#0d1117;stroke:#3d444d}.new{fill:#12361f}.ink{fill:#e6edf3}.grey{fill:#9198a1}.say{fill:#3fb950}.arrow{stroke:#3fb950}` +
	`}</style>` + "\n"

// line is one line of a document in a picture.
type line struct {
	text string
	new  bool // not there before
}

// notation writes a document as the shell does, a field a line; what is short stays in
// one line, and of a long array only its beginning is there.
func notation(doc bson.Raw, indent string) []string {
	elements, err := doc.Elements()
	if err != nil {
		return []string{indent + "?"}
	}
	var out []string
	for i, e := range elements {
		comma := ","
		if i == len(elements)-1 {
			comma = ""
		}
		out = append(out, field(e.Key()+": ", e.Value(), indent, comma)...)
	}
	return out
}

func field(name string, v bson.RawValue, indent, comma string) []string {
	if short := inline(v); utf8.RuneCountInString(indent+name+short) <= lineLimit {
		return []string{indent + name + short + comma}
	}
	switch v.Type {
	case bson.TypeEmbeddedDocument:
		return slices.Concat([]string{indent + name + "{"}, notation(v.Document(), indent+"  "), []string{indent + "}" + comma})
	case bson.TypeArray:
		values, _ := v.Array().Values()
		out := []string{indent + name + "["}
		const most = 3
		for i, inner := range values {
			if i == most && len(values) > most+1 {
				out = append(out, fmt.Sprintf("%s  … %d more", indent, len(values)-most))
				break
			}
			sep := ","
			if i == len(values)-1 {
				sep = ""
			}
			out = append(out, field("", inner, indent+"  ", sep)...)
		}
		return append(out, indent+"]"+comma)
	}
	text := []rune(indent + name + inline(v))
	return []string{string(text[:lineLimit-1]) + "…"}
}

// inline is a value in one line.
func inline(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeString:
		return strconv.Quote(v.StringValue())
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10)
	case bson.TypeDouble:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case bson.TypeBoolean:
		return strconv.FormatBool(v.Boolean())
	case bson.TypeNull:
		return "null"
	case bson.TypeDecimal128:
		return "NumberDecimal(" + strconv.Quote(v.Decimal128().String()) + ")"
	case bson.TypeBinary:
		_, data := v.Binary()
		return fmt.Sprintf("BinData(%d bytes)", len(data))
	case bson.TypeDateTime:
		return "ISODate(\"" + moment(v.Time().UTC()) + "\")"
	case bson.TypeObjectID:
		return "ObjectId(…)"
	case bson.TypeEmbeddedDocument:
		elements, _ := v.Document().Elements()
		var parts []string
		for _, e := range elements {
			parts = append(parts, e.Key()+": "+inline(e.Value()))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case bson.TypeArray:
		values, _ := v.Array().Values()
		var parts []string
		for _, inner := range values {
			parts = append(parts, inline(inner))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return v.String()
}

// moment writes a time as short as ISODate reads it back, to the millisecond.
func moment(t time.Time) string {
	switch {
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	case t.Equal(t.Truncate(time.Minute)):
		return t.Format("2006-01-02T15:04Z07:00")
	}
	return t.Format("2006-01-02T15:04:05.999Z07:00")
}

// card is a panel laid out.
type card struct {
	collection string
	lines      []line
}

func (c card) height() int { return len(c.lines)*lineHeight + lineHeight + 2*padding + 6 }

// cards lays panels out; lines that seen has not are marked as new, if seen is not
// nil.
func cards(panels []panel, seen map[string]bool) (out []card, width int) {
	for _, p := range panels {
		c := card{collection: p.collection}
		for i, doc := range p.docs {
			texts := slices.Concat([]string{"{"}, notation(doc, "  "), []string{"}"})
			if whole := inline(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}); utf8.RuneCountInString(whole) <= docLimit {
				texts = []string{whole}
			} else if i > 0 {
				c.lines = append(c.lines, line{})
			}
			for _, text := range texts {
				bare := strings.TrimSuffix(strings.TrimSpace(text), ",")
				c.lines = append(c.lines, line{text, seen != nil && len(bare) > 1 && !seen[bare]})
				width = max(width, utf8.RuneCountInString(text))
			}
		}
		width = max(width, utf8.RuneCountInString(p.collection)+4)
		out = append(out, c)
	}
	return out, int(float64(width)*charWidth) + 2*padding
}

// svg draws a picture: what was on the left, what is on the right, with new lines
// marked.
func svg(p picture) string {
	seen := map[string]bool{}
	before, left := cards(p.before, nil)
	for _, p := range p.before {
		for _, doc := range p.docs {
			whole := inline(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc})
			for _, text := range append(notation(doc, "  "), whole) {
				seen[strings.TrimSuffix(strings.TrimSpace(text), ",")] = true
			}
		}
	}
	after, right := cards(p.after, seen)
	const arrow, gap, top = 150, 14, 58
	tall := func(all []card) int {
		h := 0
		for _, c := range all {
			h += c.height() + gap
		}
		return h
	}
	const middle = top + 46 // of the arrow
	say := wrap(p.say, 19)
	height := max(top+max(tall(before), tall(after))+6, middle+24+len(say)*16)
	width := max(left+right+arrow+40, int(float64(utf8.RuneCountInString(p.title))*9.6)+40)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(p.title))
	out.WriteString(style)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" class="paper"/>`+"\n", width, height)
	text := func(x, y int, class, font, s string) {
		fmt.Fprintf(&out, `<text x="%d" y="%d" class="%s" style="%s" xml:space="preserve">%s</text>`+"\n", x, y, class, font, html.EscapeString(s))
	}
	const family = "font-family:Helvetica,Arial,sans-serif;"
	size := fmt.Sprintf("font-size:%dpx", smallText)
	sans, mono := family+size, "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;"+size
	text(20, 32, "ink", family+"font-size:17px;font-weight:bold", p.title)
	draw := func(all []card, x, width int) {
		y := top
		for _, c := range all {
			fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" class="card"/>`+"\n", x, y, width, c.height())
			text(x+padding, y+padding+9, "grey", sans+";font-weight:bold", c.collection)
			for i, l := range c.lines {
				base := y + padding + (i+2)*lineHeight
				if l.new {
					fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%d" height="%d" class="new"/>`+"\n", x+1, base-13, width-2, lineHeight)
				}
				if l.text != "" {
					text(x+padding, base, "ink", mono, l.text)
				}
			}
			y += c.height() + gap
		}
	}
	draw(before, 20, left)
	draw(after, 20+left+arrow, right)
	x := 20 + left + 16
	fmt.Fprintf(&out, `<path d="M%d %d h%d m-9 -6 l9 6 l-9 6" class="arrow"/>`+"\n", x, middle, arrow-32)
	for i, s := range say {
		text(x, middle+24+i*16, "say", sans, s)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// wrap breaks a sentence into lines.
func wrap(s string, width int) []string {
	var out []string
	current := ""
	for _, word := range strings.Fields(s) {
		if current != "" && utf8.RuneCountInString(current+" "+word) > width {
			out = append(out, current)
			current = ""
		}
		current = strings.TrimSpace(current + " " + word)
	}
	return append(out, current)
}
