package fieldpath_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		name       string
		name1, ok1 bool // as a name, as a path
	}{
		{"a", true, true}, {"_id", true, true}, {"ab$", true, true}, {"名", true, true},
		{"a.b", false, true}, {"a.0.b", false, true},
		{"", false, false}, {"$a", false, false}, {"a.$b", false, false}, {"a..b", false, false},
		{".a", false, false}, {"a.", false, false}, {"a\x00", false, false},
	} {
		for kind, got := range map[string]struct {
			err  error
			want bool
		}{
			"name": {fieldpath.CheckName("Options.F", test.name), test.name1},
			"path": {fieldpath.CheckPath("Options.F", test.name), test.ok1},
		} {
			if (got.err == nil) != got.want {
				t.Errorf("%s %q: error %v", kind, test.name, got.err)
			}
			if got.err != nil && (!errors.Is(got.err, fieldpath.ErrInvalid) || !strings.HasPrefix(got.err.Error(), "Options.F: ")) {
				t.Errorf("%s %q: error %v does not name the option", kind, test.name, got.err)
			}
		}
	}
}

func TestDisjoint(t *testing.T) {
	for _, paths := range [][]string{
		{"A", "a", "B", "b"}, {"A", "a", "B", "ab"}, {"A", "a.b", "B", "a.c"}, {"A", "", "B", ""},
	} {
		if err := fieldpath.CheckDisjoint(paths...); err != nil {
			t.Errorf("%v: %v", paths, err)
		}
	}
	for _, paths := range [][]string{
		{"A", "a", "B", "a"}, {"A", "a", "B", "a.b"}, {"A", "a.b.c", "B", "a.b"}, {"A", "x", "B", "y", "C", "x"},
	} {
		err := fieldpath.CheckDisjoint(paths...)
		if !errors.Is(err, fieldpath.ErrInvalid) {
			t.Errorf("%v: error %v", paths, err)
		}
	}
}

func TestNamed(t *testing.T) {
	for path, want := range map[string]bool{"a": true, "a.b": true, "a1.b2": true, "a.0": false, "12": false, "a..b": false, "": false} {
		err := fieldpath.CheckNamed("Options.F", path)
		if (err == nil) != want {
			t.Errorf("%q: error %v", path, err)
		}
		if err != nil && !errors.Is(err, fieldpath.ErrInvalid) {
			t.Errorf("%q: error %v", path, err)
		}
	}
}

func TestSteps(t *testing.T) {
	for path, want := range map[string][]string{"a": {"a"}, "a.b.c": {"a", "a.b", "a.b.c"}, "é.b": {"é", "é.b"}} {
		if got := fieldpath.Steps(path); !slices.Equal(got, want) {
			t.Errorf("%s: %q", path, got)
		}
		above := fieldpath.Above(path)
		if !slices.Equal(above, want[:len(want)-1]) {
			t.Errorf("above %s: %q", path, above)
		}
	}
}
