package windows

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Complete sets the defaults of settings, and refuses a collection, a window or settings that are not valid in any package.
// The settings must be those of all fields.
func (f *Frame) Complete(settings ...config.Setting) error {
	if err := config.Collections("coll", f.Coll.Driver()); err != nil {
		return err
	}
	if err := CheckWindow(f.Window); err != nil {
		return err
	}
	id := "_id"
	return config.Apply(append([]config.Setting{config.Name("_id", &id, "")}, settings...)...)
}

// Early is the time from an EndField to the start of the next window.
func Early(end timeseries.EndTime) time.Duration {
	if end == timeseries.LastSecond {
		return time.Second
	}
	return time.Millisecond
}

// A Naming is a kind of setting for names: config.Name, Named or Path.
type Naming func(option string, name *string, otherwise string) config.Setting

// Values are the settings of Options.Values, whose Field is a name of this kind. A Value without names gets
// the usual fields.
func Values(values []timeseries.Value, kind Naming) (out []config.Setting) {
	fields := map[string]bool{}
	for i := range values {
		v, option := &values[i], fmt.Sprintf("Options.Values[%d].", i)
		if below := "stats." + v.Field + "."; *v == (timeseries.Value{Field: v.Field}) {
			v.Sum, v.Squares, v.Min, v.Max, v.Count = below+"sum", below+"squares", below+"min", below+"max", below+"count"
		}
		out = append(out, Inside(option+"Field", &v.Field, "", kind),
			config.Check(option+"Field", func() error { return checkNew(v.Field, fields) }),
			config.Check(option+"Squares", func() error { return checkSquares(*v) }),
			config.Path(option+"Sum", &v.Sum, ""), config.Path(option+"Squares", &v.Squares, ""),
			config.Path(option+"Min", &v.Min, ""), config.Path(option+"Max", &v.Max, ""),
			config.Path(option+"First", &v.First, ""), config.Path(option+"Last", &v.Last, ""),
			config.Path(option+"Count", &v.Count, ""))
	}
	return out
}

// checkNew refuses a field that is empty or among fields, and adds it to these.
func checkNew(field string, fields map[string]bool) error {
	switch {
	case field == "":
		return errors.New("it is empty")
	case fields[field]:
		return fmt.Errorf("%q is given twice", field)
	}
	fields[field] = true
	return nil
}

func checkSquares(v timeseries.Value) error {
	if v.Squares != "" && v.Sum == "" {
		return errors.New("it needs Sum")
	}
	return nil
}

// Inside is the setting of a name or path in a measurement, which cannot collide with the fields of the
// document.
func Inside(option string, name *string, otherwise string, kind Naming) config.Setting {
	return config.Apart(kind(option, name, otherwise))
}

// Unnumbered refuses SeqKey as the name of another field of _id.
func Unnumbered(series, start *string) config.Setting {
	return config.Check("Options.SeriesField, Options.StartField", func() error {
		if *series == SeqKey || *start == SeqKey {
			return fmt.Errorf("the name %q is that of another field in _id", SeqKey)
		}
		return nil
	})
}

// CheckWindow refuses a window that is nil, or a length of Every that is not positive.
func CheckWindow(w timeseries.Window) error {
	if w == nil {
		return fault.Invalid("window: it is nil")
	}
	if w, ok := w.(interface{ Valid() error }); ok {
		return w.Valid()
	}
	return nil
}

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

// AnyField reports whether a measurement of type M may have any field.
func AnyField[M any](c codec.Codec) bool {
	_, all := c.Fields(reflect.TypeFor[M]())
	return !all
}
