package bucket

import (
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A part has the items of a group that go to one bucket.
type part struct {
	group *group
	items []item
	after room
}

// partBytes bounds the measurements in one update if MaxBytes is not set.
const partBytes = 8 << 20

// cut divides the items of groups into parts that fit the current bucket and the following ones, and
// removes the items from the groups.
func (c *arrays) cut(groups []*group) (parts []part) {
	for _, g := range groups {
		at, items := g.Content.room, g.Content.items
		g.Content.items = nil
		if c.opts.MaxBytes == 0 {
			at.size = 0 // without MaxBytes only the bytes of the update count
		}
		bytes := int64(min(cmp.Or(c.opts.MaxBytes, partBytes), windows.MaxBytes-len(g.Content.created)))
		for len(items) > 0 {
			n := 0
			for ; n < len(items) && at.count < int64(c.opts.MaxCount); n++ {
				size := int64(len(items[n].raw.Value))
				if at.size > 0 && at.size+size > bytes {
					break
				}
				at.count, at.size = at.count+1, at.size+size
			}
			if n > 0 {
				parts = append(parts, part{g, items[:n], at})
			}
			at, items = room{seq: at.seq + 1}, items[n:]
		}
	}
	return parts
}

// roomFor selects the bucket of a part if it has room and does not hold any of the items yet. The server
// uses the equality on _id, so no hint is needed.
func (c *arrays) roomFor(p part) bson.Raw {
	filter := c.frame.SeqFilter(p.group.Place, p.after.seq, true)
	limit := func(field string, n int64) {
		filter.Open(field)
		filter.Int("$lte", n)
		filter.Close()
	}
	limit(c.opts.CountField, int64(c.opts.MaxCount-len(p.items)))
	if c.opts.MaxBytes > 0 {
		limit(c.opts.BytesField, int64(c.opts.MaxBytes)-sizeOf(p.items))
	}
	if c.opts.IDField != "" {
		filter.Open(c.idPath())
		filter.Array("$nin", len(p.items), func(i int) bson.RawValue { return p.items[i].id })
		filter.Close()
	}
	return filter.Done()
}

// update adds a part to its bucket, or creates the bucket with it.
func (c *arrays) update(p part) bson.Raw {
	size := sizeOf(p.items)
	b := codec.Build(512 + int(size) + 8*len(p.items))
	b.Open("$push")
	b.Open(c.opts.ArrayField)
	b.Array("$each", len(p.items), func(i int) bson.RawValue { return p.items[i].raw })
	b.Close()
	b.Close()
	tallies := c.tallies(p.items)
	c.addSums(b, len(p.items), size, tallies)
	c.addExtremes(b, "$min", tallies, func(v *timeseries.Value, t *tally) (string, string, timeseries.Number, sample) {
		return v.Min, v.First, t.min, t.first
	})
	c.addExtremes(b, "$max", tallies, func(v *timeseries.Value, t *tally) (string, string, timeseries.Number, sample) {
		return v.Max, v.Last, t.max, t.last
	})
	if p.group.Content.created != nil {
		b.Value("$setOnInsert", value.Embedded(p.group.Content.created))
	}
	return b.Done()
}

// tallies are the aggregates of items, by Options.Values.
func (c *arrays) tallies(items []item) []tally {
	out := make([]tally, len(c.opts.Values))
	for i, v := range c.opts.Values {
		t := &out[i]
		t.limit, t.exact = c.sumLimit(), v.Squares != "" ||
			slices.ContainsFunc(items, func(it item) bool { return it.numbers[i].Raw().Type == bson.TypeDecimal128 })
		for _, it := range items {
			if n := it.numbers[i]; !n.IsZero() {
				t.add(it.time, n)
			}
		}
	}
	return out
}

// addSums writes the operator that adds to the fields that say how full a bucket is, and to the sums.
func (c *arrays) addSums(b *codec.Builder, count int, size int64, tallies []tally) {
	b.Open("$inc")
	b.Int(c.opts.CountField, int64(count))
	if c.opts.BytesField != "" {
		b.Int(c.opts.BytesField, size)
	}
	for i, v := range c.opts.Values {
		t := &tallies[i]
		if v.Count != "" {
			b.Int(v.Count, t.count)
		}
		if v.Sum != "" {
			b.Value(v.Sum, t.sum(v.Squares != "").Raw())
		}
		if v.Squares != "" {
			b.Value(v.Squares, decimal(&t.squares).Raw())
		}
	}
	b.Close()
}

// addExtremes writes an operator with the fields that fields names, and their values: an extreme number, and the first or
// last sample.
func (c *arrays) addExtremes(b *codec.Builder, op string, tallies []tally, fields func(v *timeseries.Value, t *tally) (number, sample string, n timeseries.Number, s sample)) {
	b.Some(op, func() {
		for i := range tallies {
			number, at, n, s := fields(&c.opts.Values[i], &tallies[i])
			if number != "" && !n.IsZero() {
				b.Value(number, n.Raw())
			}
			if at != "" && !n.IsZero() {
				b.Open(at)
				b.Date(windows.TimeKey, s.ms)
				b.Value(windows.ValueKey, s.Raw())
				b.Close()
			}
		}
	})
}
