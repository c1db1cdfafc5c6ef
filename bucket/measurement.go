package bucket

import (
	"cmp"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// An item is a measurement ready to be stored.
type item struct {
	raw     bson.RawValue
	time    int64 // in milliseconds
	id      bson.RawValue
	numbers []timeseries.Number // by Options.Values; zero if the measurement lacks it
}

// item encodes a measurement and extracts its time, ID and numbers. It refuses a measurement that cannot be
// stored.
func (c *arrays) item(b *batch, m any) (it item, err error) {
	if err := c.frame.CheckTimeOf(m, c.opts.TimeField); err != nil {
		return it, err
	}
	raw, err := c.frame.Codec.Stored(m, c.opts.IDField)
	if err != nil {
		return it, err
	}
	at, dated := value.Lookup(raw, c.opts.TimeField).DateTimeOK()
	if !dated {
		return it, fault.Invalid("%q is not a date", c.opts.TimeField)
	}
	it.raw, it.time = value.Embedded(raw), at
	if c.opts.IDField != "" {
		it.id = value.Lookup(raw, c.opts.IDField)
		if err := checkMeasurementID(it.id); err != nil {
			return it, fault.Invalid("%q is not an ID: %w", c.opts.IDField, err)
		}
	}
	n := len(c.opts.Values)
	if len(b.slab) < n {
		b.slab = make([]timeseries.Number, n*min(b.groups.Count+1, 1000))
	}
	it.numbers, b.slab = b.slab[:n], b.slab[n:]
	for i, v := range c.opts.Values {
		it.numbers[i] = finite(value.Lookup(raw, v.Field))
		if it.numbers[i].IsZero() && v.Count == "" {
			return it, fault.Invalid("%q is not a finite number", v.Field)
		}
	}
	if len(raw) > cmp.Or(c.opts.MaxBytes, windows.MaxBytes) {
		return it, fault.Invalid("it has %d bytes, more than fits into a bucket", len(raw))
	}
	return it, nil
}

// checkMeasurementID refuses values that cannot identify a measurement, also the zero values of a string
// and an ObjectID.
func checkMeasurementID(id bson.RawValue) error {
	text, _ := id.StringValueOK()
	oid, _ := id.ObjectIDOK()
	if id.Type == bson.TypeString && text == "" || id.Type == bson.TypeObjectID && oid.IsZero() {
		return fault.Invalid("it is empty")
	}
	if err := value.CheckKey(id); err != nil {
		return fault.Invalid("%w", err)
	}
	return nil
}

func sizeOf(items []item) (size int64) {
	for _, it := range items {
		size += int64(len(it.raw.Value))
	}
	return size
}
