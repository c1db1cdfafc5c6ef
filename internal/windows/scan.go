package windows

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A state is what the ledger says about a document of the source.
type state int

const (
	unadopted state = iota
	adopted
	edited // since it was adopted
	gone   // since it was adopted
)

// A scanned is what scan yields: a document of the source, valid until the next one, or, without doc, an entry whose
// document no longer exists.
type scanned struct {
	state state
	id    bson.RawValue
	doc   bson.Raw
}

// scan reads the documents of a source that work selects, in the order of _id, and the ledger beside them.
// With a filter it does not report missing documents.
//
// Cost: 1 round trip for each batch of documents, index _id; 1 for each page of the ledger.
func (l *ledger) scan(ctx context.Context, src *scoped.Collection, w mongopatterns.Work) iter.Seq2[scanned, error] {
	return func(yield func(scanned, error) bool) {
		if err := l.open(ctx); err != nil {
			yield(scanned{}, err)
			return
		}
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return majority(src).Find(ctx, expr.And(w.Filter), options.Find().SetSort(expr.D("_id", 1)).SetBatchSize(int32(min(w.BatchSize, 1<<20))))
		}) {
			if err != nil {
				yield(scanned{}, err)
				return
			}
			id := c.Current.Lookup("_id")
			if err := l.checkOrder(id); err != nil {
				yield(scanned{}, err)
				return
			}
			l.last = bson.RawValue{Type: id.Type, Value: append(l.last.Value[:0], id.Value...)}
			for missing, err := range l.passTo(ctx, l.last) {
				if w.Filter != nil && err == nil { // its document may exist
					continue
				}
				if !yield(missing, err) || err != nil {
					return
				}
			}
			if !yield(scanned{l.compareNext(id, c.Current), id, c.Current}, nil) {
				return
			}
		}
		if w.Filter == nil {
			l.passTo(ctx, bson.RawValue{Type: bson.TypeMaxKey})(yield)
		}
	}
}

// open reads the first page of the ledger.
//
// Cost: 1 round trip.
func (l *ledger) open(ctx context.Context) error {
	lowest := bson.RawValue{Type: bson.TypeMinKey}
	if err := l.readMore(ctx, "$gte", lowest); err != nil {
		return err
	}
	if len(l.intervals) == 0 {
		l.intervals = []*interval{{from: lowest}}
	}
	return nil
}

// checkOrder refuses a document that does not come after the last one. This order needs only to agree with itself:
// entries are stored and found by it, whatever the server's order is.
func (l *ledger) checkOrder(id bson.RawValue) error {
	switch {
	case l.last.Type == 0: // the first one
	case value.Compare(l.last, id) == 0:
		return fault.Of(id, fault.Invalid("src: two documents have this _id, which can happen if the collection is sharded by another key"))
	case value.Compare(l.last, id) > 0:
		return fault.Of(id, fault.Invalid("src: it comes after %s", value.Text(l.last)))
	}
	return nil
}

// compareNext compares a document with the next entry, which passTo has found, and passes that entry if it is the
// document's.
func (l *ledger) compareNext(id bson.RawValue, doc bson.Raw) state {
	entries := l.intervals[l.at].entries
	if l.next == len(entries) || value.Compare(entries[l.next].id, id) != 0 {
		return unadopted
	}
	hash := entries[l.next].hash
	l.next++
	if hash != hashOf(doc) {
		return edited
	}
	return adopted
}

// passTo moves on to the first entry at or after id, in the interval that id lies in. It yields the entries before it,
// whose documents are gone. Of the intervals before it, only reserved ones stay in memory.
func (l *ledger) passTo(ctx context.Context, id bson.RawValue) iter.Seq2[scanned, error] {
	return func(yield func(scanned, error) bool) {
		for {
			entries := l.intervals[l.at].entries
			for ; l.next < len(entries) && value.Compare(entries[l.next].id, id) < 0; l.next++ {
				if !yield(scanned{state: gone, id: entries[l.next].id}, nil) {
					return
				}
			}
			if l.next < len(entries) {
				return
			}
			inside, err := l.inCurrent(ctx, id)
			if err != nil {
				yield(scanned{}, err)
				return
			}
			if inside {
				return
			}
			if l.intervals[l.at].reserved {
				l.at++
			} else {
				l.intervals = slices.Delete(l.intervals, l.at, l.at+1)
			}
			l.next = 0
		}
	}
}

// inCurrent reports whether id lies in the current interval, before the next one begins. It reads the next intervals if it
// needs them.
func (l *ledger) inCurrent(ctx context.Context, id bson.RawValue) (inside bool, err error) {
	if l.at+1 == len(l.intervals) && !l.all {
		if err := l.readMore(ctx, "$gt", l.intervals[l.at].from); err != nil {
			return false, err
		}
	}
	return l.at+1 == len(l.intervals) || value.Compare(l.intervals[l.at+1].from, id) > 0, nil
}
