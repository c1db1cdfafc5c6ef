package advise

import (
	"slices"
	"strings"
)

// marks are fields that a pattern of this library writes under its default names, and
// their types. A collection that has all of them is managed by the pattern already.
var marks = []struct {
	pattern string
	fields  map[string]string
	ends    []string // patterns that are not advised beside it
}{
	{"tree", map[string]string{"parent": "", "ancestors": "array"}, []string{"tree"}},
	{"tree", map[string]string{"parent": "", "path": "string"}, []string{"tree"}},
	{"tree", map[string]string{"left": "", "right": "", "parent": ""}, []string{"tree"}},
	{"bucket", map[string]string{"series": "", "start": "date", "measurements": "array", "count": ""}, []string{"outlier", "subset", "bucket", "series"}},
	{"series", map[string]string{"series": "", "start": "date", "blocks": "array", "revision": ""}, []string{"outlier", "subset", "bucket", "series"}},
	{"slots", map[string]string{"series": "", "start": "date", "data": ""}, []string{"outlier", "subset", "bucket", "series"}},
	{"outlier", map[string]string{"parent": "", "items": "array", "n": ""}, []string{"outlier", "subset", "bucket"}}, // the overflow
	{"attribute", map[string]string{"attributes": "array"}, []string{"attribute"}},
	{"computed", map[string]string{"computed": "object", "computed.epoch": ""}, []string{"computed"}},
}

// adopted is the pattern that manages a collection already, if that is a reason not to
// advise another.
func (c *collection) adopted(pattern string) (by string, fields []string) {
	for _, m := range marks {
		if !slices.Contains(m.ends, pattern) {
			continue
		}
		fields = nil
		for name, kind := range m.fields {
			if kind == "" && c.has(name) || kind != "" && c.has(name, kind) {
				fields = append(fields, name)
			}
		}
		if len(fields) == len(m.fields) {
			slices.Sort(fields)
			return m.pattern, fields
		}
	}
	return "", nil
}

// manages notes a pattern that is not advised for a collection that the library manages.
func (l *looker) manages(c *collection, pattern, path string) bool {
	by, fields := c.adopted(pattern)
	if by == "" {
		return false
	}
	l.not(pattern, c.name, path, "is in pattern "+by+" already: documents have "+strings.Join(fields, ", "))
	return true
}

// unmanaged leaves out the queries of collections in the pattern that would avoid them.
func (l *looker) unmanaged() {
	l.report.Shapes = slices.DeleteFunc(l.report.Shapes, func(s Shape) bool {
		c := l.all[s.Collection]
		return c != nil && slices.ContainsFunc(s.Patterns, func(p string) bool {
			by, _ := c.adopted(p)
			return by == p && l.manages(c, p, "")
		})
	})
}
