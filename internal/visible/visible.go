// Package visible writes names that a database holds so that a terminal shows them and does not obey them.
package visible

import (
	"strconv"
	"strings"
	"unicode"
)

// Name returns name, quoted if it has a character that does not show, such as a line end or an escape sequence.
func Name(name string) string {
	if strings.ContainsFunc(name, hidden) {
		return strconv.Quote(name)
	}
	return name
}

// Text returns text of several lines with its other hidden characters escaped.
func Text(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && hidden(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || !hidden(r) {
			b.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRune(r)
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }
