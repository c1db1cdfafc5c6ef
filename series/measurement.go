package series

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// addStruct is Add for a struct that has the shape.
func (b *batch) addStruct(series any, m reflect.Value) error {
	shape := b.core.shape
	if n := shape.textBytes(m); n > largestRow {
		return fault.Invalid("measurement: it has %d bytes, more than fits into a block", n)
	}
	if name := shape.lacks(m); name != "" {
		return fault.Invalid("measurement: %q is not a finite number", name)
	}
	at := shape.time.date(m)
	if err := windows.CheckTime(at); err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	g, err := b.groups.GroupOf(&b.core.frame, series, at.UnixMilli())
	if err != nil {
		return err
	}
	t := newRow(g, at.UnixMilli())
	size := shape.put(t, m)
	b.addSize(g, size)
	return nil
}

// addDocument is Add for an encoded measurement.
func (b *batch) addDocument(series any, doc bson.Raw) error {
	if len(doc) > largestRow {
		return fault.Invalid("measurement: it has %d bytes, more than fits into a block", len(doc))
	}
	if err := fault.CheckLevels(doc); err != nil { // Documents could not be stored elsewhere
		return fmt.Errorf("measurement: %w", err)
	}
	ms, elements, err := b.core.takeApart(doc)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	if name := b.core.lacks(elements); name != "" {
		return fault.Invalid("measurement: %q is not a finite number", name)
	}
	g, err := b.groups.GroupOf(&b.core.frame, series, ms)
	if err != nil {
		return err
	}
	t := newRow(g, ms)
	for _, e := range elements {
		t.Set(e.Key(), e.Value())
	}
	b.addSize(g, len(doc))
	return nil
}

// checkUnencoded refuses a measurement that its encoded bytes would misrepresent, because its time is beyond milliseconds, or
// because the order of its fields, which the ID of a batch depends on, is random.
func (c *core) checkUnencoded(m any) error {
	if err := c.frame.CheckTimeOf(m, c.opts.TimeField); err != nil {
		return err
	}
	if c.opts.BatchField == "" {
		return nil
	}
	return codec.Ordered(m)
}

// takeApart returns the time of a measurement and its other fields.
func (c *core) takeApart(doc bson.Raw) (ms int64, fields []bson.RawElement, err error) {
	elements, err := doc.Elements()
	if err != nil {
		return 0, nil, fault.Invalid("it is not valid BSON: %w", err)
	}
	timed, known := false, make(map[string]bool, len(elements))
	for _, e := range elements {
		if known[e.Key()] {
			return 0, nil, fault.Invalid("it has the field %q twice", e.Key())
		}
		known[e.Key()] = true
		if e.Key() == c.opts.TimeField {
			ms, timed = e.Value().DateTimeOK()
			continue
		}
		if err := checkName(e.Key()); err != nil {
			return 0, nil, err
		}
		fields = append(fields, e)
	}
	if !timed {
		return 0, nil, fault.Invalid("%q is not a date", c.opts.TimeField)
	}
	return ms, fields, nil
}

// checkName refuses names of fields that a packed document could not have.
func checkName(name string) error {
	if name == "" || strings.HasPrefix(name, "$") || strings.ContainsAny(name, ".\x00") {
		return fault.Invalid("the field %q: a name must not be empty, contain a dot or begin with $", name)
	}
	return nil
}

// lacks is the name of a field that is needed and is not a finite number, else "".
func (c *core) lacks(fields []bson.RawElement) string {
	if len(c.needed) == 0 {
		return ""
	}
	there := make(map[string]bool, len(c.needed))
	for _, e := range fields {
		if name := e.Key(); c.needed[name] && finite(e.Value()) {
			there[name] = true
		}
	}
	for _, v := range c.opts.Values {
		if c.needed[v.Field] && !there[v.Field] {
			return v.Field
		}
	}
	return ""
}

func finite(v bson.RawValue) bool {
	f, _ := v.DoubleOK()
	d, _ := v.Decimal128OK()
	return v.IsNumber() && !math.IsNaN(f) && !math.IsInf(f, 0) && !d.IsNaN() && d.IsInf() == 0
}

// newRow adds a row to the group's last table, or to a new one if that is full.
func newRow(g *group, ms int64) *pack.Table {
	if n := len(g.Content.tables); n == 0 || len(g.Content.tables[n-1].Times) >= blockRows || g.Content.bytes >= blockBytes {
		g.Content = waiting{tables: append(g.Content.tables, new(pack.Table))}
	}
	t := g.Content.tables[len(g.Content.tables)-1]
	t.Times = append(t.Times, ms)
	return t
}

// addSize counts a measurement of so many bytes, for the table and for the batch.
func (b *batch) addSize(g *group, bytes int) {
	g.Content.bytes += bytes
	b.groups.Bytes += bytes
	b.groups.Count++
}
