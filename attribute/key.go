package attribute

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Key says which entries a call is about: "volume", or, with
// Options.QualifierField, Key("volume").Qualified("ml").
//
// Without a qualifier, calls that mean one entry (Set, Get, Remove, …) mean the one
// that has none, and conditions and Values any entry of the key. With several
// qualifiers, conditions and Values mean the entries with one of these; "" is that
// of an entry without one.
type Key string

// separator ends the name of a Key and comes before each further qualifier. No name
// or qualifier contains it.
const separator = "\x00"

// Qualified is the key with these qualifiers in place of those it has.
func (k Key) Qualified(qualifiers ...string) Key {
	name, _ := k.split()
	return Key(strings.Join(append([]string{name}, qualifiers...), separator))
}

func (k Key) split() (name string, qualifiers []string) {
	name, rest, several := strings.Cut(string(k), separator)
	if several {
		qualifiers = strings.Split(rest, separator)
	}
	return name, qualifiers
}

// String is the key as messages show it.
func (k Key) String() string {
	name, qualifiers := k.split()
	if len(qualifiers) == 0 {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q %q", name, qualifiers)
}

// one is the name and the qualifier of a call that means one entry.
func (c *core) one(key Key) (name, qualifier string, err error) {
	name, qualifiers := key.split()
	if len(qualifiers) > 1 {
		return "", "", fault.Invalid("several qualifiers for one entry: %s", key)
	}
	qualifier = strings.Join(qualifiers, "")
	return name, qualifier, cmp.Or(checkKey(name), c.checkQualifier(qualifier))
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

// checkText refuses what is no string of BSON, or would end a Key's part.
func checkText(what, text string) error {
	if !utf8.ValidString(text) || strings.Contains(text, separator) {
		return fault.Invalid("%s %q is not UTF-8, or contains NUL", what, text)
	}
	return nil
}
