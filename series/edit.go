package series

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Replace replaces the stored measurement that has exactly m's time with m. If there are several with that
// time, it replaces the first, and m comes after the others. It returns ErrNotFound if there is no such
// measurement. One write compacts the document and sets its sums. If another writer has changed the
// document, Replace tries again; after 16 attempts it returns ErrConflict.
//
// Cost: 2 round trips, 1 document written, index {series, start}; reads the documents of the window.
func (s *Series[ID, M]) Replace(ctx context.Context, series ID, m M) (err error) {
	ctx = comment.Call(ctx, "series.Replace")
	defer fault.In(&err, "series.Replace")
	c := s.core
	one := &batch{core: c}
	if err := one.Add(series, &m); err != nil {
		return err
	}
	t := one.groups.All[0].Content.tables[0]
	return c.edit(ctx, one.groups.All[0].Place, t.Times[0], t)
}

// Delete removes the measurement of series at exactly this time. If there are several, it removes the
// first, and a repeated call removes the next. It writes as Replace does and has the same errors. A
// document that becomes empty stays, with count 0.
//
// Cost: that of Replace.
func (s *Series[ID, M]) Delete(ctx context.Context, series ID, at time.Time) (err error) {
	ctx = comment.Call(ctx, "series.Delete")
	defer fault.In(&err, "series.Delete")
	c := s.core
	p, err := c.frame.Place(series, at)
	if err != nil {
		return err
	}
	return c.edit(ctx, p, at.UnixMilli(), nil)
}

// edit removes a measurement and adds the one in by, if by is not nil.
func (c *core) edit(ctx context.Context, p windows.Place, ms int64, by *pack.Table) error {
	for range pause.Attempts {
		doc, t, row, err := c.holding(ctx, p, ms)
		if err != nil {
			return p.Named(ms, "", err)
		}
		if t.Delete(row); by != nil {
			if err := t.Add(by.Encode(""), ""); err != nil {
				return err
			}
		}
		t.Sort()
		done, err := fault.One(c.frame.Coll.UpdateOne(ctx, c.frame.UnchangedFilter(doc, c.frame.Guards...), append(c.compacted(doc, t), c.recounted(t)...)))
		switch {
		case err != nil:
			return p.Named(ms, "", fault.Types(err))
		case done.MatchedCount == 1:
			return nil
		case txn.Running(ctx):
			return txn.Conflict("the document of the measurement")
		}
	}
	return fmt.Errorf("%w: others have changed the document %d times meanwhile", mongopatterns.ErrConflict, pause.Attempts)
}

// holding finds the document in a window that holds a measurement at a time.
func (c *core) holding(ctx context.Context, p windows.Place, ms int64) (doc bson.Raw, t *pack.Table, row int, err error) {
	for doc, err := range cursor.Find(ctx, cursor.Primary(c.frame.Coll), c.frame.PlaceFilter(p)) {
		if err != nil {
			return nil, nil, 0, err
		}
		t, err := c.load(doc)
		if err != nil {
			return nil, nil, 0, err
		}
		if row := slices.Index(t.Times, ms); row >= 0 {
			return doc, t, row, nil
		}
	}
	return nil, nil, 0, mongopatterns.ErrNotFound
}

// recounted are the stages that set all fields that are computed from the measurements.
func (c *core) recounted(t *pack.Table) mongo.Pipeline {
	var set bson.D
	var unset bson.A
	for _, d := range c.derived(t) {
		if d.want.Type == 0 {
			unset = append(unset, d.path)
		} else {
			set = append(set, expr.Element(d.path, d.want))
		}
	}
	return pipeline(set, unset)
}

// A derived is the value of a field that is computed from the measurements.
type derived struct {
	path   string
	op     string        // by which the server joins the values of two blocks
	want   bson.RawValue // zero: nothing
	of     *pack.Tally   // the numbers that a sum is of, nil for other fields
	square bool          // whether it is of their squares
}

// agrees reports whether a document has the value.
func (d derived) agrees(have bson.RawValue) bool {
	if d.of == nil {
		return value.Agree(have, d.want, nil)
	}
	most := number.Largest(d.of.Min, d.of.Max)
	if d.square {
		most.Mul(most, most)
	}
	most.Mul(most, new(big.Rat).SetInt64(d.of.Count))
	return number.Rounding{Most: most, Count: d.of.Count, Decimal: true}.Agree(have, d.want)
}

// derived are the count of a table and the aggregates that Options.Values ask for.
func (c *core) derived(t *pack.Table) []derived {
	rows := len(t.Times)
	out := append(make([]derived, 0, 1+7*len(c.opts.Values)), derived{path: c.opts.CountField, op: "$inc", want: value.Int32(int32(rows))})
	for i, v := range c.opts.Values {
		n := t.Tally(v.Field, 0, rows, c.parts[i])
		add := func(d derived) {
			if n.Count == 0 {
				d.want = bson.RawValue{}
			}
			if d.path != "" {
				out = append(out, d)
			}
		}
		add(derived{path: v.Count, op: "$inc", want: value.Int32(int32(n.Count))})
		add(derived{path: v.Sum, op: "$inc", want: value.Decimal(n.Sum.Decimal()), of: n})
		add(derived{path: v.Squares, op: "$inc", want: value.Decimal(n.Squares.Decimal()), of: n, square: true})
		add(derived{path: v.Min, op: "$min", want: n.Min.Raw()})
		add(derived{path: v.Max, op: "$max", want: n.Max.Raw()})
		add(derived{path: v.First, op: "$min", want: sample(n.First)})
		add(derived{path: v.Last, op: "$max", want: sample(n.Last)})
	}
	return out
}

// parts are the parts of a tally that Values need.
func parts(values []timeseries.Value) []pack.Parts {
	out := make([]pack.Parts, len(values))
	for i, v := range values {
		for path, part := range map[string]pack.Parts{v.Sum: pack.Sum, v.Squares: pack.Squares, v.Min: pack.Extremes, v.Max: pack.Extremes,
			v.First: pack.Samples, v.Last: pack.Samples} {
			if path != "" {
				out[i] |= part
			}
		}
	}
	return out
}

// sample encodes a Sample as it is stored.
func sample(s pack.Sample) bson.RawValue {
	if s.Value.IsZero() {
		return bson.RawValue{}
	}
	b := codec.Build(48)
	b.Date(windows.TimeKey, s.Time)
	b.Value(windows.ValueKey, s.Value.Raw())
	return value.Embedded(b.Done())
}
