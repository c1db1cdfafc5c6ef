package attribute

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Key says which entries a call is about: Named("volume"), or, with
// Options.QualifierField, Named("volume").Qualified("ml").
//
// Without a qualifier, calls that mean one entry (Set, Get, Remove, …) mean the one
// that has none, and conditions and Values any entry of the key. With several
// qualifiers, conditions and Values mean the entries with one of these; "" is that
// of an entry without one. The zero Key is ErrInvalid.
type Key struct {
	name       string
	qualifiers []string
}

// Named is the key of this name, without a qualifier.
func Named(name string) Key { return Key{name: name} }

// Qualified is the key with these qualifiers in place of those it has.
func (k Key) Qualified(qualifiers ...string) Key {
	return Key{k.name, slices.Clone(qualifiers)}
}

// String is the key as messages show it.
func (k Key) String() string {
	if len(k.qualifiers) == 0 {
		return fmt.Sprintf("%q", k.name)
	}
	return fmt.Sprintf("%q %q", k.name, k.qualifiers)
}

// one is the name and the qualifier of a call that means one entry.
func (c *core) one(key Key) (name, qualifier string, err error) {
	if len(key.qualifiers) > 1 {
		return "", "", fault.Invalid("several qualifiers for one entry: %s", key)
	}
	qualifier = strings.Join(key.qualifiers, "")
	return key.name, qualifier, cmp.Or(checkKey(key.name), c.checkQualifier(qualifier))
}

func checkKey(name string) error {
	if name == "" {
		return fault.Invalid("empty key")
	}
	return checkText("key", name)
}

func (c *core) checkQualifier(qualifier string) error {
	if qualifier != "" && c.qualifier == "" {
		return fault.Invalid("qualifier %q needs Options.QualifierField", qualifier)
	}
	return checkText("qualifier", qualifier)
}

// checkText refuses text that BSON cannot hold as a string, and NUL, which no name has.
func checkText(what, text string) error {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return fault.Invalid("%s %q is not UTF-8, or contains NUL", what, text)
	}
	return nil
}
