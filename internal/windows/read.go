package windows

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// An Entry is a stored measurement.
type Entry struct {
	Time int64 // in milliseconds
	Seq  int64 // the number of its document
	Raw  bson.RawValue
}

// InOrder merges the entries of a range from the documents of each window, which docs yields by start, and
// yields them, converted by as, in the order of time, then document, then arrival.
func InOrder[M, T any](f *Frame, docs iter.Seq2[bson.Raw, error], entries func(doc bson.Raw) ([]Entry, error), from, to time.Time, as func(M, Entry) T) iter.Seq2[T, error] {
	low, high := Limits(from, to)
	outside := func(e Entry) bool { return e.Time < low || e.Time >= high } // as misplaced ones can be
	return func(yield func(T, error) bool) {
		var none T
		var start bson.RawValue
		var window []Entry
		flush := func() bool {
			all, err := decodeSorted[M](f.Codec, window)
			if err != nil {
				yield(none, fmt.Errorf("window %s: %w", time.UnixMilli(start.DateTime()).UTC().Format(time.RFC3339), err))
				return false
			}
			for i, m := range all {
				if !yield(as(m, window[i]), nil) {
					return false
				}
			}
			return true
		}
		for doc, err := range docs {
			if err != nil {
				yield(none, err)
				return
			}
			at := value.Lookup(doc, f.Start)
			if at.Type != bson.TypeDateTime {
				yield(none, f.NoDate(doc))
				return
			}
			found, err := entries(doc)
			if err != nil {
				yield(none, fault.Of(doc.Lookup("_id"), err))
				return
			}
			if !at.Equal(start) {
				if !flush() {
					return
				}
				start, window = at, nil
			}
			window = append(window, slices.DeleteFunc(found, outside)...)
		}
		flush()
	}
}

// decodeSorted sorts the entries of a window and decodes them all at once.
func decodeSorted[M any](c codec.Codec, window []Entry) ([]M, error) {
	slices.SortStableFunc(window, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(x.Seq, y.Seq))
	})
	array := codec.Build(64 * len(window))
	array.Array("v", len(window), func(i int) bson.RawValue { return window[i].Raw })
	var all struct {
		V []M `bson:"v" json:"v"`
	}
	err := c.Decode(array.Done(), &all)
	return all.V, err
}
