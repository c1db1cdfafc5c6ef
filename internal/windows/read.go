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
		for w, err := range f.byWindow(docs, entries) {
			var all []M
			if err == nil {
				w.entries = slices.DeleteFunc(w.entries, outside)
				all, err = decodeSorted[M](f.Codec, w)
			}
			if err != nil {
				fault.Stop[T](err)(yield)
				return
			}
			for i, m := range all {
				if !yield(as(m, w.entries[i]), nil) {
					return
				}
			}
		}
	}
}

// window is the entries of all documents of a window.
type window struct {
	start   bson.RawValue
	entries []Entry
}

// byWindow yields the entries of documents, which come by start, window by window. A document that cannot be read ends
// it, before the window of this document is complete.
func (f *Frame) byWindow(docs iter.Seq2[bson.Raw, error], entries func(doc bson.Raw) ([]Entry, error)) iter.Seq2[window, error] {
	return func(yield func(window, error) bool) {
		var w window
		for doc, err := range docs {
			if err == nil {
				err = f.CheckStart(doc)
			}
			if err != nil {
				yield(window{}, err)
				return
			}
			found, err := entries(doc)
			if err != nil {
				yield(window{}, fault.Of(doc.Lookup("_id"), err))
				return
			}
			start := value.Lookup(doc, f.StartField)
			if w.start.Type != 0 && !start.Equal(w.start) {
				if !yield(w, nil) {
					return
				}
				w.entries = nil
			}
			w.start, w.entries = start, append(w.entries, found...)
		}
		if w.start.Type != 0 {
			yield(w, nil)
		}
	}
}

// decodeSorted sorts the entries of a window and decodes them all at once.
func decodeSorted[M any](c codec.Codec, w window) ([]M, error) {
	slices.SortStableFunc(w.entries, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(x.Seq, y.Seq))
	})
	array := codec.Build(64 * len(w.entries))
	array.Array("v", len(w.entries), func(i int) bson.RawValue { return w.entries[i].Raw })
	var all struct {
		V []M `bson:"v" json:"v"`
	}
	if err := c.Decode(array.Done(), &all); err != nil {
		return nil, fmt.Errorf("window %s: %w", time.UnixMilli(w.start.DateTime()).UTC().Format(time.RFC3339), err)
	}
	return all.V, nil
}
