package windows

import (
	"fmt"
	"reflect"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// CheckFields refuses an M that is not a document, and a path that a measurement of type M never has, or not if the
// value there is a zero, because M is a plain struct. paths alternates options and their paths; empty paths are not
// checked.
func CheckFields[M any](c codec.Codec, values []timeseries.Value, paths ...string) error {
	if err := c.CheckDocuments("M", reflect.TypeFor[M]()); err != nil {
		return err
	}
	t := reflect.TypeFor[M]()
	var numbers []string
	for i, v := range values {
		numbers = append(numbers, fmt.Sprintf("Options.Values[%d].Field", i), v.Field)
	}
	paths = append(paths, numbers...)
	for i := 0; i+1 < len(paths); i += 2 {
		if paths[i+1] != "" && c.Lacks(t, paths[i+1]) {
			return fault.Invalid("%s: %v has no field %q", paths[i], t, paths[i+1])
		}
	}
	return c.CheckKept(t, numbers...)
}

// Any reports whether a measurement of type M may have any field.
func Any[M any](c codec.Codec) bool {
	_, all := c.Fields(reflect.TypeFor[M]())
	return !all
}
