package windows

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// This file keeps the ledger of an adoption, and scan.go reads it beside its source.
//
// A ledger records which documents of a source were adopted, so that Adopt stores none twice, and Compare sees which
// were edited or deleted since. It has an entry for each adopted document, its _id and a hash of its bytes, in the
// order of _id. An interval of the entries is one document of the ledger, so a batch rewrites only those into which it
// falls. scan merges the source and the ledger, as two sorted lists, and memory holds only some intervals, however
// large the source is. Adopt reserves the interval of each document without an entry, so that it stays in memory until
// the batch is stored; then it enters the documents, in the same transaction, and releases the intervals.
//
// For example, if the source has the _ids 2, 5 and 9, and the ledger has entries for 2, 4 and 5, then scan yields 2 as
// adopted, 4 as gone, 5 as edited if its hash is another one, and 9 as unadopted. Adopt stores 9 and enters it.

// A ledger is stored in the collection with the name of the target plus ".adopt", in one document for each interval of
// the source's _ids:
//
//	{
//	  _id: {src: "db.readings", from: ObjectId(…)},
//	  revision: 3,
//	  ids: BinData(a document of the _ids, without names, in order),
//	  hashes: BinData(8 bytes each)
//	}
//
// An interval ends where the next one begins; the first begins at MinKey.
type ledger struct {
	coll   *scoped.Collection
	source string

	intervals []*interval   // in order: the reserved ones, then those from the current one on
	all       bool          // all have been read
	at, next  int           // the current interval, and the entry in it after those that scan has passed
	last      bson.RawValue // the _id of the document that scan yielded last
}

// An interval is a document of a ledger.
type interval struct {
	from     bson.RawValue
	revision int64 // 0: not stored
	entries  []entry
	reserved bool // it will get entries
}

// An entry is an adopted document; hash is the hash of its bytes.
type entry struct {
	id   bson.RawValue
	hash uint64
}

const (
	// intervalBytes bounds an interval to some 700 ObjectIDs, because each batch that adds to it rewrites
	// it.
	intervalBytes = 16 << 10
	// mostReserved bounds the intervals that a batch writes.
	mostReserved = 256
	// page is the number of intervals that are read at a time.
	page = 64
)

func hashOf(doc bson.Raw) uint64 {
	sum := sha256.Sum256(doc)
	return binary.LittleEndian.Uint64(sum[:])
}

// newLedger returns the ledger of a source. It does no I/O.
func (f *Frame) newLedger(src *scoped.Collection) (*ledger, error) {
	if err := config.Collections("src", src.Driver()); err != nil {
		return nil, err
	}
	if namespace(src) == namespace(f.Coll) {
		return nil, fault.Invalid("src: it is the collection that adopts")
	}
	return &ledger{coll: majority(scoped.On(f.Coll.Database().Collection(f.Coll.Name() + ".adopt"))), source: namespace(src)}, nil
}

func namespace(coll *scoped.Collection) string { return coll.Database().Name() + "." + coll.Name() }

// majority is coll with reads that only see what cannot be rolled back, so that no document is adopted, or
// taken as adopted, that may be rolled back later.
func majority(coll *scoped.Collection) *scoped.Collection {
	return coll.Clone(options.Collection().SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Majority()))
}

func (l *ledger) id(from bson.RawValue) bson.D { return expr.D("src", l.source, "from", from) }

// readMore reads a page of intervals, those from a start on ($gte) or after it ($gt).
//
// Cost: 1 round trip.
func (l *ledger) readMore(ctx context.Context, op string, from bson.RawValue) error {
	beyond := bson.RawValue{Type: bson.TypeMaxKey}
	filter := expr.D("_id", expr.D(op, l.id(from), "$lte", l.id(beyond)))
	opts := options.Find().SetSort(expr.D("_id", 1)).SetLimit(page).SetBatchSize(page + 1)
	found := 0
	for doc, err := range cursor.Find(ctx, l.coll, filter, opts) {
		if err != nil {
			return err
		}
		i, err := decodeInterval(doc)
		if err != nil {
			return fault.Of(doc.Lookup("_id"), err)
		}
		l.intervals = append(l.intervals, i)
		found++
	}
	l.all = found < page
	return nil
}

// decodeInterval decodes an interval of a ledger.
func decodeInterval(doc bson.Raw) (*interval, error) {
	i := &interval{from: doc.Lookup("_id", "from")}
	i.revision, _ = doc.Lookup("revision").AsInt64OK()
	_, ids, _ := doc.Lookup("ids").BinaryOK()
	_, hashes, _ := doc.Lookup("hashes").BinaryOK()
	elements, err := bson.Raw(ids).Elements()
	if err != nil || len(hashes) != 8*len(elements) || i.revision == 0 || i.from.Type == 0 {
		return nil, fault.Malformed("the document is not an interval of a ledger")
	}
	i.entries = make([]entry, len(elements))
	for n, e := range elements {
		i.entries[n] = entry{e.Value(), binary.LittleEndian.Uint64(hashes[8*n:])}
	}
	return i, nil
}

// reserve keeps the interval of the document that scan yielded last in memory, because it will get an entry.
func (l *ledger) reserve() { l.intervals[l.at].reserved = true }

// full reports whether so many intervals are reserved that their entries must be stored.
func (l *ledger) full() bool { return l.at >= mostReserved }

// release ends all reservations, once the entries are stored.
func (l *ledger) release() {
	l.intervals = slices.Delete(l.intervals, 0, l.at)
	l.at = 0
	for _, i := range l.intervals {
		i.reserved = false
	}
}

// enter adds entries of reserved intervals, in order, and calls store, in one transaction. The ledger comes first, so that
// the later of two writers stores nothing, and counts no document as refused for it.
//
// Cost: 1 round trip, and the commit.
func (l *ledger) enter(ctx context.Context, entries []entry, store func(ctx context.Context) error) error {
	changed := l.withEntries(entries)
	err := maintain.Once(ctx, l.coll, func(ctx context.Context) error {
		if err := l.write(ctx, changed); err != nil {
			return err
		}
		return store(ctx)
	})
	if err != nil {
		return err
	}
	l.replace(changed)
	return nil
}

// withEntries returns the intervals that get entries, with these. It does not modify those in memory, because the
// transaction may fail.
func (l *ledger) withEntries(entries []entry) (changed []*interval) {
	for n := 0; n < len(l.intervals) && len(entries) > 0; n++ {
		old, end := l.intervals[n], len(entries)
		if n+1 < len(l.intervals) {
			end, _ = slices.BinarySearchFunc(entries, l.intervals[n+1].from, func(e entry, from bson.RawValue) int { return value.Compare(e.id, from) })
		}
		if end == 0 {
			continue
		}
		changed = append(changed, old.split(entries[:end])...)
		entries = entries[end:]
	}
	return changed
}

// split returns an interval with further entries, in as many parts as needed.
func (i *interval) split(more []entry) (parts []*interval) {
	all := slices.Concat(i.entries, more)
	slices.SortFunc(all, func(a, b entry) int { return value.Compare(a.id, b.id) })
	total := 0
	for _, e := range all {
		total += e.size()
	}
	bound := total/(1+total/intervalBytes) + 1
	part, size := &interval{from: i.from, revision: i.revision}, 0
	for _, e := range all {
		if size > 0 && size+e.size() > bound {
			parts, part, size = append(parts, part), &interval{from: e.id}, 0
		}
		part.entries, size = append(part.entries, e), size+e.size()
	}
	return append(parts, part)
}

// size returns the size of an entry in a document of the ledger.
func (e entry) size() int { return 2 + len(e.id.Value) + 8 }

// write stores intervals, within a transaction, if nobody has changed them since they were read.
//
// Cost: 1 round trip.
func (l *ledger) write(ctx context.Context, changed []*interval) error {
	models, there := make([]mongo.WriteModel, len(changed)), int64(0)
	for n, i := range changed {
		ids, hashes := make([]byte, 4, intervalBytes), make([]byte, 0, 8*len(i.entries))
		for _, e := range i.entries {
			ids = append(append(ids, byte(e.id.Type), 0), e.id.Value...)
			hashes = binary.LittleEndian.AppendUint64(hashes, e.hash)
		}
		ids = append(ids, 0)
		binary.LittleEndian.PutUint32(ids, uint32(len(ids)))
		models[n] = mongo.NewUpdateOneModel().SetFilter(expr.D("_id", l.id(i.from), "revision", i.revision)).SetUpsert(i.revision == 0).
			SetUpdate(expr.D("$set", expr.D("ids", bson.Binary{Data: ids}, "hashes", bson.Binary{Data: hashes}), "$inc", expr.D("revision", 1)))
		if i.revision > 0 {
			there++
		}
	}
	done, err := fault.Many(l.coll.BulkWrite(ctx, models))
	if mongo.IsDuplicateKeyError(err) || err == nil && done.MatchedCount != there {
		return fault.ErrRunning // this error only: no document was refused
	}
	return err
}

// replace updates the ledger in memory with the intervals that write has stored, and its place in them.
func (l *ledger) replace(changed []*interval) {
	for _, i := range changed {
		i.revision++
		n, found := slices.BinarySearchFunc(l.intervals, i.from, func(i *interval, from bson.RawValue) int { return value.Compare(i.from, from) })
		if found {
			i.reserved = l.intervals[n].reserved
			l.intervals[n] = i
		} else {
			i.reserved = l.intervals[n-1].reserved
			l.intervals = slices.Insert(l.intervals, n, i)
		}
	}
	after := func(id bson.RawValue) bool { return value.Compare(id, l.last) > 0 }
	l.at = sort.Search(len(l.intervals), func(n int) bool { return after(l.intervals[n].from) }) - 1
	entries := l.intervals[l.at].entries
	l.next = sort.Search(len(entries), func(n int) bool { return after(entries[n].id) })
}
