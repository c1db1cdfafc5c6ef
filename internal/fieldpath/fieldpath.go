// Package fieldpath checks the field names and dotted paths that users
// configure, so that a bad one is refused when a helper is built and not when
// its first document is written, and takes paths apart.
package fieldpath

import (
	"errors"
	"fmt"
	"strings"
)

// errInvalid is wrapped by every error of this package.
var errInvalid = errors.New("invalid field name")

// CheckName refuses a name that cannot be one field of a document: empty,
// starting with '$', or containing '.' or NUL. option is the name of the
// configuration field and starts the error.
func CheckName(option, name string) error {
	if strings.Contains(name, ".") {
		return fmt.Errorf("%s: %w: %q contains %q", option, errInvalid, name, ".")
	}
	return CheckPath(option, name)
}

// CheckPath refuses a dotted path with a segment that is not a field name.
func CheckPath(option, path string) error {
	if path == "" {
		return fmt.Errorf("%s: %w: it is empty", option, errInvalid)
	}
	for segment := range strings.SplitSeq(path, ".") {
		switch {
		case segment == "":
			return fmt.Errorf("%s: %w: %q has an empty segment", option, errInvalid, path)
		case segment[0] == '$':
			return fmt.Errorf("%s: %w: %q starts with %q", option, errInvalid, segment, "$")
		case strings.ContainsRune(segment, 0):
			return fmt.Errorf("%s: %w: %q contains NUL", option, errInvalid, path)
		}
	}
	return nil
}

// CheckNamed refuses the paths that CheckPath refuses, and paths with a number as a segment: in a query it
// may be an index of an array, in an expression it is a field name.
func CheckNamed(option, path string) error {
	if err := CheckPath(option, path); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(path, ".") {
		if strings.Trim(segment, "0123456789") == "" {
			return fmt.Errorf("%s: %w: %q is a number", option, errInvalid, segment)
		}
	}
	return nil
}

// CheckDisjoint refuses two options that name the same path, or a path and one inside it ("a" and "a.b"),
// because the second write would overwrite the first. Arguments alternate option and path; empty paths are
// ignored.
func CheckDisjoint(optionsAndPaths ...string) error {
	for i := 0; i+1 < len(optionsAndPaths); i += 2 {
		for j := i + 2; j+1 < len(optionsAndPaths); j += 2 {
			a, b := optionsAndPaths[i+1], optionsAndPaths[j+1]
			if a == "" || b == "" {
				continue
			}
			if a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".") {
				return fmt.Errorf("%s: %w: %q collides with %s %q",
					optionsAndPaths[j], errInvalid, b, optionsAndPaths[i], a)
			}
		}
	}
	return nil
}

// Above returns the paths of the documents that a path goes through: for "a.b.c" these are "a" and "a.b".
func Above(path string) []string {
	all := Steps(path)
	return all[: len(all)-1 : len(all)-1]
}

// Steps returns the paths of Above and the path itself.
func Steps(path string) []string {
	var out []string
	for i, c := range path {
		if c == '.' {
			out = append(out, path[:i])
		}
	}
	return append(out, path)
}
