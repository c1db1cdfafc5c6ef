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
// Without a qualifier, calls for one entry (Set, Get, Remove, …) mean the entry without a
// qualifier, while conditions and Values mean any entry with the key. With several qualifiers,
// conditions and Values mean the entries with one of them. "" is the qualifier of an entry without
// one. The zero Key is ErrInvalid.
type Key struct {
	name       string
	qualifiers []string
}

// Named returns the key with this name, without a qualifier.
func Named(name string) Key { return Key{name: name} }

// Qualified returns the key with these qualifiers instead of its own.
func (k Key) Qualified(qualifiers ...string) Key {
	return Key{k.name, slices.Clone(qualifiers)}
}

// String returns the key as error messages show it.
func (k Key) String() string {
	if len(k.qualifiers) == 0 {
		return fmt.Sprintf("%q", k.name)
	}
	return fmt.Sprintf("%q %q", k.name, k.qualifiers)
}

// one returns the name and the qualifier for a call about one entry.
func (c *core) one(key Key) (name, qualifier string, err error) {
	if len(key.qualifiers) > 1 {
		return "", "", fault.Invalid("the key %s has several qualifiers, and an entry has one", key)
	}
	qualifier = strings.Join(key.qualifiers, "")
	return key.name, qualifier, cmp.Or(checkKey(key.name), c.checkQualifier(qualifier))
}

func checkKey(name string) error {
	if name == "" {
		return fault.Invalid("the key is empty")
	}
	return checkText("key", name)
}

func (c *core) checkQualifier(qualifier string) error {
	if qualifier != "" && c.qualifier == "" {
		return fault.Invalid("the qualifier %q needs Options.QualifierField", qualifier)
	}
	return checkText("qualifier", qualifier)
}

// checkText refuses text that BSON cannot hold as a string, and NUL.
func checkText(what, text string) error {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return fault.Invalid("the %s %q is not UTF-8, or contains NUL", what, text)
	}
	return nil
}
