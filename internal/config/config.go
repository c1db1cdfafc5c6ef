// Package config completes and checks options by a table.
package config

import (
	"cmp"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Setting is one line of the table.
type Setting struct {
	option string
	path   *string // of a field; nil for other settings
	check  func() error
}

// Apply sets the defaults and checks all settings of one kind of document: no
// path of them may equal another or lie inside it. Errors are ErrInvalid and name
// the option.
func Apply(settings ...Setting) error {
	var paths []string
	for _, s := range settings {
		if err := s.check(); err != nil {
			return err
		}
		if s.path != nil {
			paths = append(paths, s.option, *s.path)
		}
	}
	return invalid(fieldpath.CheckDisjoint(paths...))
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fault.Invalid("%w", err)
}

func field(option string, name *string, otherwise string, check func(option, path string) error) Setting {
	return Setting{option, name, func() error {
		*name = cmp.Or(*name, otherwise)
		if *name == "" {
			return nil
		}
		return invalid(check(option, *name))
	}}
}

// Apart is a setting of another kind of document, or of a field that is not written: it may collide with others.
func Apart(s Setting) Setting {
	s.path = nil
	return s
}

// Name is the name of one field; without a default it may be empty.
func Name(option string, name *string, otherwise string) Setting {
	return field(option, name, otherwise, fieldpath.CheckName)
}

// Path is a dotted path; without a default it may be empty.
func Path(option string, path *string, otherwise string) Setting {
	return field(option, path, otherwise, fieldpath.CheckPath)
}

// Named is a Path without a numeric step, because expressions use it too.
func Named(option string, path *string, otherwise string) Setting {
	return field(option, path, otherwise, fieldpath.CheckNamed)
}

// Scope are the fields of a scope.
func Scope(scope bson.D) (all []Setting) {
	for i := range scope {
		name := &scope[i].Key
		all = append(all, Name("Options.Scope", name, ""), Check("Options.Scope", func() error {
			if *name == "" || *name == "_id" {
				return fmt.Errorf("%q cannot be a field of it", *name)
			}
			return nil
		}))
	}
	return all
}

// Number is a number between least and most; 0 means the default.
func Number[N int | int32 | int64](option string, n *N, otherwise, least, most N) Setting {
	return Setting{option: option, check: func() error {
		*n = cmp.Or(*n, otherwise)
		if *n < least || *n > most {
			return fault.Invalid("%s: %d is not between %d and %d", option, *n, least, most)
		}
		return nil
	}}
}

// Check is any other condition; its error becomes ErrInvalid.
func Check(option string, check func() error) Setting {
	return Setting{option: option, check: func() error {
		if err := check(); err != nil {
			return fault.Invalid("%s: %w", option, err)
		}
		return nil
	}}
}

// Direction returns the direction of a field in a sort, and refuses any other than 1 and -1.
func Direction(e bson.E) (int32, error) {
	switch e.Value {
	case 1, int32(1), int64(1), 1.0:
		return 1, nil
	case -1, int32(-1), int64(-1), -1.0:
		return -1, nil
	}
	return 0, fmt.Errorf("the direction of %q must be 1 or -1, not %v", e.Key, e.Value)
}

// Collections refuses nil collections, two collections of a helper with the same name, and collections of
// two databases, because results identify collections by name and transactions write to all of them.
// Arguments alternate name and collection.
func Collections(named ...any) error { return collections(true, named) }

// OfOneClient is Collections for a helper that takes several databases of a client.
func OfOneClient(named ...any) error { return collections(false, named) }

func collections(inOneDatabase bool, named []any) error {
	seen := map[string]string{}
	var db *mongo.Database
	for i := 0; i+1 < len(named); i += 2 {
		argument := named[i].(string)
		coll := named[i+1].(*mongo.Collection)
		if coll == nil {
			return fault.Invalid("%s: the collection is nil", argument)
		}
		name := coll.Name()
		if !inOneDatabase {
			name = coll.Database().Name() + "." + name
		}
		if other, ok := seen[name]; ok {
			return fault.Invalid("%s: the collection %q is also %s", argument, coll.Name(), other)
		}
		seen[name] = argument
		if db == nil {
			db = coll.Database()
			continue
		}
		switch same := db.Client() == coll.Database().Client(); {
		case inOneDatabase && (!same || db.Name() != coll.Database().Name()):
			return fault.Invalid("%s: the collection is in another database or of another client", argument)
		case !same:
			return fault.Invalid("%s: the collection is of another client", argument)
		}
	}
	return nil
}
