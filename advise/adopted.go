package advise

import (
	"slices"
	"strings"
)

// marks are fields that a pattern of this library writes under its default names, and
// their types. A collection that has all of them is managed by the pattern already. Where the
// shape alone tells it, the names do not matter: see framed, overflows and links.
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
}

// aside are the ends of the names of collections that packages keep beside that of the user.
var aside = map[string]string{".adopt": "bucket and series keep", "_locks": "tree keeps", ".migrations": "schemaversion keeps"}

// keeper says which packages keep a collection of this name beside another one, "" if none does. The name alone decides.
func keeper(name string, all []string) string {
	for end, packages := range aside {
		if base, ok := strings.CutSuffix(name, end); ok && slices.Contains(all, base) {
			return packages
		}
	}
	return ""
}

// adopted is the pattern that manages a collection already, if that is a reason not to
// advise another.
func (l *looker) adopted(c *collection, pattern string) (by string, fields []string) {
	if slices.Contains([]string{"outlier", "subset", "bucket", "series"}, pattern) {
		if by, fields := c.framed(); by != "" {
			return by, fields
		}
		if fields := l.overflows(c); fields != nil && pattern != "series" {
			return "outlier", fields
		}
	}
	if pattern == "tree" && c.derived != nil {
		return "tree", c.derived
	}
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
	by, fields := l.adopted(c, pattern)
	if by == "" {
		return false
	}
	l.not(pattern, c.name, path, "is in pattern "+by+" already: documents have "+strings.Join(fields, ", "))
	return true
}

// unmanaged leaves out the patterns that a collection is in already, and the queries that these avoid.
func (l *looker) unmanaged() {
	l.report.Findings = slices.DeleteFunc(l.report.Findings, func(f Finding) bool { return l.manages(l.all[f.Collection], f.Pattern, f.Path) })
	l.report.Shapes = slices.DeleteFunc(l.report.Shapes, func(s Shape) bool {
		c := l.all[s.Collection]
		return c != nil && slices.ContainsFunc(s.Patterns, func(p string) bool {
			by, _ := l.adopted(c, p)
			return by == p && l.manages(c, p, "")
		})
	})
}

// framed is the pattern of documents for a series and a window, whose _id has the series, the start
// and, but for slots, a number n, and that have series and start beside it.
func (c *collection) framed() (by string, fields []string) {
	var names []string
	for _, f := range c.fields {
		if name, ok := strings.CutPrefix(f.path, "_id."); ok && !strings.Contains(name, ".") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	numbered := slices.Contains(names, "n")
	names = slices.DeleteFunc(names, func(name string) bool { return name == "n" })
	dates := 0
	for _, name := range names {
		fields = append(fields, "_id."+name, name)
		if !c.has(name) {
			return "", nil
		}
		if c.kind("_id."+name) == "date" && c.kind(name) == "date" {
			dates++
		}
	}
	if len(names) != 2 || dates == 0 || c.idType != "object" {
		return "", nil
	}
	for _, f := range c.fields {
		above, key, _ := strings.Cut(f.path, ".")
		switch {
		case numbered && f.path == above && f.kind == "array" && f.element == "binData":
			by = "series"
		case numbered && f.path == above && f.kind == "array" && f.element == "object":
			by = "bucket"
		case !numbered && key != "" && strings.Trim(key, "0123456789") == "" && f.kind == "object":
			by = "slots"
		default:
			continue
		}
		fields = append(fields, above)
		slices.Sort(fields)
		return by, fields
	}
	return "", nil
}

// overflows are the fields of documents that hold a part of a list of another collection: that list,
// its owner and a number.
func (l *looker) overflows(c *collection) []string {
	tops := c.tops()
	for _, path := range tops {
		if len(tops) != 4 || c.idType != "objectId" || !c.has(path, "array") {
			continue
		}
		for _, other := range l.all {
			if other != c && other.has(path+"_moved", "objectId") {
				slices.Sort(tops)
				return tops
			}
		}
	}
	return nil
}
