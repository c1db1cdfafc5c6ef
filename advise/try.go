package advise

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/visible"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
)

// TryOptions bound the part that Try copies.
type TryOptions struct {
	// Documents of each collection, in the order of _id. Default 20,000.
	Documents int64
	// Bytes of each collection. Default 64 MiB.
	Bytes int64
}

// Trial is what a pattern saved on a copy of a part of the data.
type Trial struct {
	// Finding is made by the same rules for the part that was copied, with the promise for that part.
	Finding Finding `json:"finding"`
	// Documents is how many of the finding's collection were copied, and Of how many it has. On a sharded cluster
	// Of may count orphaned documents.
	Documents int64 `json:"documents"`
	Of        int64 `json:"of"`
	// Saved was measured after the pattern was adopted, in the unit of the promise.
	Saved int64 `json:"saved"`
	// Grown was measured as well, for each of the finding's Grows.
	Grown []int64 `json:"grown,omitempty"`
	// ReadBefore and ReadAfter are the bytes of the largest document of the collection, which a
	// read of it sends. They are 0 if it stays as large, as where the pattern
	// writes another collection.
	ReadBefore int64 `json:"readBefore"`
	ReadAfter  int64 `json:"readAfter"`
	// Replays are the finds and aggregations of the collection that were seen, sent to the copy
	// before and after.
	Replays []Replay `json:"replays"`
	// Refused is how many documents Adopt named as Failed, up to 5 %, in series and bucket. More are an error.
	Refused int64 `json:"refused,omitempty"`
	// NotReplayed counts reads that were also seen, but have no values, need other collections, or
	// do not say by themselves what a service would send instead.
	NotReplayed int64 `json:"notReplayed"`
}

// notTried are the patterns that a copy cannot show, and why.
var notTried = map[string]string{
	"approx": "how many changes are one write is its option Every, and needs no measurement",
}

// Try copies a part of the finding's collection, and of those that it names, into scratch, looks at the copy with the
// queries of the report, adopts the pattern with the options of the finding's Code, and measures what was promised. It
// also measures what the reads of the collection, up to 20 of each of 20 shapes, cost before and after, and compares
// their answers, value by value. It only reads db. scratch must have no collections, and is dropped at the end.
//
// It returns ErrInvalid, which says why, for a pattern that cannot be tried and for a report that
// is not of this process. It also does if the part does not have what the finding is about; then
// copy more.
//
// Cost: a copy of a part of the collections, a Look and the Adopt of the pattern on scratch, and a replay of the
// reads.
//   - On db: 1 round trip for the indexes of each collection that is copied, those of a find for its part, and 1 for
//     its number of documents.
//   - On scratch: the inserts in batches, for the collection of the finding and those whose documents it moves twice,
//     and a few aggregations.
//   - Each read that is replayed: 4, and 2 more for each list that it gets from elsewhere.
func Try(ctx context.Context, db, scratch *mongo.Database, report *Report, f Finding, opts *TryOptions) (trial *Trial, err error) {
	defer fault.In(&err, "advise.Try")
	var o TryOptions
	if opts != nil {
		o = *opts
	}
	if o.Documents < 0 || o.Bytes < 0 {
		return nil, fault.Invalid("TryOptions.Documents and Bytes must not be negative")
	}
	o = TryOptions{cmp.Or(o.Documents, 20_000), cmp.Or(o.Bytes, 64<<20)}
	if why, no := notTried[f.Pattern]; no {
		return nil, fault.Invalid("%s cannot be tried: %s", f.Pattern, why)
	}
	if f.try == nil {
		return nil, fault.Invalid("%s cannot be tried: its saving is a number of round trips that the finding counts, or it is not of this process", f.Name())
	}
	names, err := scratch.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, fault.Invalid("the scratch database %s has collections", scratch.Name())
	}
	defer func() { err = errors.Join(err, empty(context.WithoutCancel(ctx), scratch)) }()
	trial = &Trial{}
	if err := trial.copies(ctx, db, scratch, f, o); err != nil {
		return nil, err
	}
	if err := trial.finds(ctx, scratch, report, f); err != nil {
		return nil, err
	}
	if err := trial.measures(ctx, scratch, report, f, o); err != nil {
		return nil, err
	}
	return trial, nil
}

// copies fills the scratch database with a part of the collections of a finding.
func (t *Trial) copies(ctx context.Context, db, scratch *mongo.Database, f Finding, o TryOptions) (err error) {
	from := db.Client().Database(db.Name(), options.Database().SetReadPreference(readpref.SecondaryPreferred()))
	for _, name := range append([]string{f.Collection}, f.others...) {
		n, err := copied(ctx, from.Collection(name), scratch.Collection(name), o)
		if err != nil {
			return err
		}
		if name == f.Collection {
			t.Documents = n
		}
	}
	t.Of, err = from.Collection(f.Collection).EstimatedDocumentCount(ctx)
	return err
}

// finds looks at the copy with the queries of the report, and sets the finding that the copy gives.
func (t *Trial) finds(ctx context.Context, scratch *mongo.Database, report *Report, f Finding) error {
	var queries []Query
	for _, c := range report.commands {
		c.Database = "" // those of the copy
		queries = append(queries, c.Query)
	}
	part, err := Look(ctx, scratch, &Options{Queries: queries, MaxTime: time.Hour, Budget: 24 * time.Hour}) // nobody waits there
	if err != nil {
		return err
	}
	i := slices.IndexFunc(part.Findings, func(g Finding) bool { return g.Name() == f.Name() })
	if i < 0 {
		return fault.Invalid("the first %d documents do not show what the finding is about: copy more", t.Documents)
	}
	t.Finding = part.Findings[i]
	return nil
}

// measures adopts the pattern, and sets what it saves, what grows, and what reads cost before and after.
func (t *Trial) measures(ctx context.Context, scratch *mongo.Database, report *Report, f Finding, o TryOptions) (err error) {
	adopted := scratch.Collection(f.Collection)
	if t.ReadBefore, err = figure(ctx, adopted, "$max"); err != nil {
		return err
	}
	reads, left := replays(f.Collection, append([]string{f.Collection}, f.others...), report.commands)
	t.NotReplayed = left
	originals := map[string]string{}
	for _, name := range append([]string{f.Collection}, f.moves...) {
		originals[name] = name + "_before"
		if len(reads) == 0 { // there are no answers to compare
			continue
		}
		if _, err := copied(ctx, scratch.Collection(name), scratch.Collection(originals[name]), o); err != nil {
			return err
		}
	}
	before, err := grown(ctx, adopted, t.Finding.Grows)
	if err != nil {
		return err
	}
	saved, service, err := t.Finding.try(ctx, scratch)
	if err != nil {
		return err
	}
	t.Saved, t.Refused = saved, service.refused
	if t.Grown, err = grown(ctx, adopted, t.Finding.Grows); err != nil {
		return err
	}
	for i := range before {
		t.Grown[i] -= before[i]
	}
	for i := range reads {
		untold, err := reads[i].replay(ctx, scratch, originals, service)
		if err != nil {
			return err
		}
		if reads[i].Replayed == 0 {
			t.NotReplayed += reads[i].Seen
			continue
		}
		t.NotReplayed += untold
		t.Replays = append(t.Replays, reads[i])
	}
	t.ReadAfter, err = figure(ctx, adopted, "$max")
	if t.ReadAfter == t.ReadBefore {
		t.ReadBefore, t.ReadAfter = 0, 0
	}
	return err
}

// empty drops all collections of db. The database itself ends with the last one, and a user may drop a collection but not a
// database with readWrite.
func empty(ctx context.Context, db *mongo.Database) error {
	names, err := db.ListCollectionNames(ctx, bson.D{})
	for _, name := range names {
		err = errors.Join(err, db.Collection(name).Drop(ctx))
	}
	return err
}

// Kept reports whether the measured saving is at least half of the least that was promised and at
// most twice the most, and no answer of a read has lost a value.
func (t *Trial) Kept() bool { return t.promised() && !t.lost() }

func (t *Trial) promised() bool {
	for i, g := range t.Finding.Grows {
		if !g.kept(t.Grown[i]) {
			return false
		}
	}
	return t.Finding.Saving.Unit == "" || t.Finding.Saving.kept(t.Saved)
}

func (s Interval) kept(measured int64) bool { return 2*measured >= s.Low && measured <= 2*s.High }

func (t *Trial) lost() bool {
	return slices.ContainsFunc(t.Replays, func(r Replay) bool { return r.LostIn > 0 })
}

// Text writes promise and measurement.
func (t *Trial) Text(w io.Writer) error {
	p := t.Finding.Saving
	saved := many(t.Saved, strings.TrimSuffix(p.Unit, "s"))
	switch p.Unit {
	case "bytes":
		saved = bytes(t.Saved)
	case "":
		saved = "the reads below"
	}
	text := fmt.Sprintf("%s, on a copy of %s of %s documents:\n   promised %s\n   measured %s\n",
		visible.Name(t.Finding.Name()), group(t.Documents), group(t.Of), p, saved)
	for i, g := range t.Finding.Grows {
		measured := group(t.Grown[i])
		if g.Unit == "bytes" {
			measured = bytes(t.Grown[i])
		}
		text += fmt.Sprintf("   grows    %s\n   measured %s\n", g.growth(), measured)
	}
	if t.ReadBefore > 0 {
		text += fmt.Sprintf("   a read of the largest document: %s, before %s\n", bytes(t.ReadAfter), bytes(t.ReadBefore))
	}
	for _, r := range t.Replays {
		text += fmt.Sprintf("   %s\n", visible.Name(r.Query))
		if r.Now != "" {
			text += fmt.Sprintf("   now %s\n", visible.Name(r.Now))
		}
		text += fmt.Sprintf("      seen %s, %s replayed: sent %s, before %s; examined %s, before %s\n", group(r.Seen), group(r.Replayed),
			bytes(r.BytesAfter), bytes(r.BytesBefore), many(r.DocumentsAfter, "document"), group(r.DocumentsBefore))
		if r.LostIn > 0 {
			text += fmt.Sprintf("      lost %s, in %s\n", visible.Name(r.Lost), many(r.LostIn, "answer"))
		}
	}
	if t.Refused > 0 {
		text += fmt.Sprintf("   %s refused, which Adopt names as Failed\n", many(t.Refused, "document"))
	}
	if t.NotReplayed > 0 {
		text += fmt.Sprintf("   %s not replayed: without values, of several collections, or what is sent instead cannot be told\n", many(t.NotReplayed, "read"))
	}
	if !t.promised() {
		text += "   The promise is off by more than a factor of two.\n"
	}
	if t.lost() {
		text += "   Reads no longer get what they asked for.\n"
	}
	_, err := io.WriteString(w, visible.Text(text))
	return err
}

// JSON writes the trial as one object.
func (t *Trial) JSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(t)
}

// Batches of a copy.
const (
	copyDocuments = 1_000
	copyBytes     = 8 << 20
)

// copied copies the first documents by _id, and the indexes.
func copied(ctx context.Context, from, to *mongo.Collection, o TryOptions) (n int64, err error) {
	specs, err := from.Indexes().List(ctx)
	if err != nil {
		return 0, err
	}
	var indexes []bson.D
	if err := specs.All(ctx, &indexes); err != nil {
		return 0, err
	}
	var create bson.A
	for _, spec := range indexes {
		if at(spec, "name") != "_id_" {
			create = append(create, slices.DeleteFunc(spec, func(e bson.E) bool { return e.Key == "v" || e.Key == "ns" }))
		}
	}
	if len(create) > 0 {
		if err := to.Database().RunCommand(ctx, bson.D{{Key: "createIndexes", Value: to.Name()}, {Key: "indexes", Value: create}}).Err(); err != nil {
			return 0, err
		}
	}
	docs := cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return from.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(o.Documents).SetComment(comment))
	})
	total := int64(0)
	for batch, err := range cursor.Batches(docs, copyDocuments, copyBytes) {
		if err != nil {
			return n, err
		}
		for i, doc := range batch {
			if total += int64(len(doc)); total > o.Bytes && n+int64(i) > 0 {
				batch = batch[:i]
				break
			}
		}
		if len(batch) > 0 {
			if _, err := to.InsertMany(ctx, batch); err != nil {
				return n, err
			}
		}
		if n += int64(len(batch)); total > o.Bytes {
			break
		}
	}
	return n, nil
}

// figure adds up the bytes of a collection's documents, or gives those of the largest.
func figure(ctx context.Context, coll *mongo.Collection, accumulator string) (int64, error) {
	out, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return coll.Aggregate(ctx, bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: d(accumulator, d("$bsonSize", "$$ROOT"))}})})
	}))
	if err != nil || len(out) == 0 {
		return 0, err
	}
	return integer(out[0], "n"), nil
}

// grown is what a collection has of what grows.
func grown(ctx context.Context, coll *mongo.Collection, what []Interval) (out []int64, err error) {
	for _, g := range what {
		n := int64(0)
		if g.Unit == "bytes" {
			n, err = figure(ctx, coll, "$sum")
		} else {
			n, err = keysOf(ctx, coll)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// keysOf is how many keys all indexes of a collection have.
func keysOf(ctx context.Context, coll *mongo.Collection) (n int64, err error) {
	reply, err := coll.Database().RunCommand(ctx, bson.D{{Key: "validate", Value: coll.Name()}}).Raw()
	if err != nil {
		return 0, err
	}
	indexes, _ := reply.Lookup("keysPerIndex").Document().Elements()
	for _, e := range indexes {
		keys, _ := e.Value().AsInt64OK()
		n += keys
	}
	return n, nil
}

// trying is the trial of a finding: it adopts the pattern and returns what was saved, and what
// becomes of reads.
type trying func(ctx context.Context, db *mongo.Database) (int64, service, error)

// adopting ends a trial for which the pattern refused documents.
func adopting(result mongopatterns.Result, err error) error {
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("%d documents could not be adopted: %w", result.Failed, mongopatterns.ErrInvalid)
	}
	return err
}

// indexAndAdopt adopts a pattern once it has its indexes.
func indexAndAdopt(ctx context.Context, index func(context.Context) error, adopt func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)) error {
	if err := index(ctx); err != nil {
		return err
	}
	return adopting(adopt(ctx, nil))
}

// mostly is adopting where up to 5 % of the documents may be dirty, such as those without a date.
func mostly(s service, result mongopatterns.Result, err error) (service, error) {
	if s.refused = result.Failed; float64(result.Failed) <= dirtyShare*float64(result.Examined) {
		return s, err
	}
	return s, adopting(result, err)
}

// shrinking measures the bytes of a collection's documents before and after; after is
// another collection where the pattern writes one.
func shrinking(name, after string, adopt func(ctx context.Context, db *mongo.Database) (service, error)) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		before, err := figure(ctx, db.Collection(name), "$sum")
		if err != nil {
			return 0, service{}, err
		}
		now, err := adopt(ctx, db)
		if err != nil {
			return 0, service{}, err
		}
		left, err := figure(ctx, db.Collection(after), "$sum")
		return before - left, now, err
	}
}

func tryOutlier(c *collection, a *list, limit int64) trying {
	return shrinking(c.name, c.name, func(ctx context.Context, db *mongo.Database) (service, error) {
		lists, err := outlier.New[any, any](db.Collection(c.name), db.Collection(c.name+"_overflow"), &outlier.Options{ArrayField: a.path, MaxCount: int(limit)})
		if err != nil {
			return service{}, err
		}
		return overflowing(c.name+"_overflow", a.path, limit, lists.OverflowFilter), indexAndAdopt(ctx, lists.EnsureIndexes, lists.Adopt)
	})
}

func trySubset(c *collection, a *list, w want) trying {
	return shrinking(c.name, c.name, func(ctx context.Context, db *mongo.Database) (service, error) {
		lists, err := subset.New[any, bson.M](db.Collection(c.name), db.Collection(itemsName(c, a.path)), &subset.Options{
			ArrayField: a.path, N: int(w.n), Sort: w.order, BestLast: w.last})
		if err != nil {
			return service{}, err
		}
		return keeping(itemsName(c, a.path), a.path, w, lists.ItemsFilter, lists.Sort()), indexAndAdopt(ctx, lists.EnsureIndexes, lists.Adopt)
	})
}

func trySplit(c *collection, cold []string) trying {
	return shrinking(c.name, c.name, func(ctx context.Context, db *mongo.Database) (service, error) {
		documents, err := split.New[any, bson.M, bson.M](db.Collection(c.name), db.Collection(c.name+"_cold"), &split.Options{ColdFields: cold})
		if err != nil {
			return service{}, err
		}
		return sending(joined(cold, documents.JoinPipeline())), adopting(documents.Adopt(ctx, nil))
	})
}

// tryExtract moves embedded children, and leaves their _ids.
func tryExtract(c *collection, path, by string) trying {
	into := c.name + "_" + path
	return shrinking(c.name, c.name, func(ctx context.Context, db *mongo.Database) (service, error) {
		children, err := relation.New[any, any, bson.M](db.Collection(c.name), db.Collection(into), &relation.Options{ChildrenField: path})
		if err != nil {
			return service{}, err
		}
		return extracted(path, into, by), adopting(children.Extract(ctx, nil))
	})
}

// windowOf is the window that code names.
func windowOf(name string) timeseries.Window {
	if name == "Months" {
		return timeseries.Months(nil)
	}
	return timeseries.Days(nil)
}

// measurement cuts a document into its series and the rest, with a date, as the Adopt does that is printed. That for one field
// at the top is without a function.
func measurement(doc bson.Raw, s span) (id any, rest bson.D, err error) {
	for _, name := range s.ids() {
		if _, err := doc.LookupErr(strings.Split(name, ".")...); err != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w", mongopatterns.ErrInvalid, name, err)
		}
	}
	if err := bson.Unmarshal(doc, &rest); err != nil {
		return nil, nil, err
	}
	id = s.of(func(name string) any { return doc.Lookup(strings.Split(name, ".")...) })
	rest = slices.DeleteFunc(rest, func(e bson.E) bool { return slices.Contains(s.left(), e.Key) })
	if s.form.name == "" {
		return id, rest, nil
	}
	at, err := s.form.of(doc.Lookup(s.at))
	return id, with(rest, s.at, at), err
}

func trySeries(c *collection, s span, window string, names []string) trying {
	into := c.name + "_series"
	return shrinking(c.name, into, func(ctx context.Context, db *mongo.Database) (service, error) {
		measurements, err := series.New[any, bson.D](db.Collection(into), windowOf(window), &series.Options{SeriesField: s.field(), TimeField: s.at, Values: valuesOf(names)})
		if err != nil {
			return service{}, err
		}
		if err := measurements.EnsureIndexes(ctx); err != nil {
			return service{}, err
		}
		result, err := measurements.Adopt(ctx, db.Collection(c.name), func(doc bson.Raw) (any, []bson.D, error) {
			id, rest, err := measurement(doc, s)
			return id, []bson.D{rest}, err
		}, nil)
		return mostly(ranging(into, s, measurements.Filter, measurements.Range), result, err)
	})
}

func tryBucket(c *collection, s span, window string) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		into := db.Collection(c.name + "_buckets")
		buckets, err := bucket.New[any, bson.D](into, windowOf(window), &bucket.Options{SeriesField: s.field(), TimeField: s.at, IDField: s.upsert})
		if err != nil {
			return 0, service{}, err
		}
		if err := buckets.EnsureIndexes(ctx); err != nil {
			return 0, service{}, err
		}
		result, err := buckets.Adopt(ctx, db.Collection(c.name), func(doc bson.Raw) (any, bson.D, error) { return measurement(doc, s) }, nil)
		now, err := mostly(ranging(into.Name(), s, buckets.Filter, buckets.Range), result, err)
		if err != nil {
			return 0, service{}, err
		}
		before, err := db.Collection(c.name).CountDocuments(ctx, bson.D{})
		if err != nil {
			return 0, service{}, err
		}
		after, err := into.CountDocuments(ctx, bson.D{})
		return before - after, now, err
	}
}

const indexNotFound = 27

// dropped drops an index, if there is one of these keys.
func dropped(ctx context.Context, coll *mongo.Collection, keys bson.D) error {
	err := coll.Indexes().DropWithKey(ctx, keys)
	if none := new(mongo.CommandError); errors.As(err, none) && none.HasErrorCode(indexNotFound) {
		return nil
	}
	return err
}

func tryAttribute(c *collection, paths []string) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		coll := db.Collection(c.name)
		attributes, err := attribute.New[any, any](coll, &attribute.Options{ArrayField: attributesName(c)})
		if err != nil {
			return 0, service{}, err
		}
		before, err := keysOf(ctx, coll)
		if err != nil {
			return 0, service{}, err
		}
		var columns []attribute.Column
		for _, path := range paths {
			columns = append(columns, attribute.Column{Path: path, Key: path})
			for _, direction := range []int{1, -1} {
				if err := dropped(ctx, coll, bson.D{{Key: path, Value: direction}}); err != nil {
					return 0, service{}, err
				}
			}
		}
		adopt := func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return attributes.Adopt(ctx, columns, work)
		}
		if err := indexAndAdopt(ctx, attributes.EnsureIndexes, adopt); err != nil {
			return 0, service{}, err
		}
		after, err := keysOf(ctx, coll)
		return before - after, entering(paths, attributesName(c), func(path string, value any) bson.D {
			return attributes.Filter(attributes.Equals(attribute.Named(path), value))
		}), err
	}
}

// tryPaging measures the deepest page.
func tryPaging(c *collection, s skips) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		order := s.sort
		if len(order) == 0 {
			order = d("_id", 1)
		}
		pages, err := paging.New[bson.D](db.Collection(c.name), order, nil)
		if err != nil {
			return 0, service{}, err
		}
		examined := func(find bson.D) (n int64, err error) {
			plan, err := db.RunCommand(ctx, bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "executionStats"}}).Raw()
			return max(integer(plan, "executionStats", "totalKeysExamined"), integer(plan, "executionStats", "totalDocsExamined")), err
		}
		before, err := examined(s.deepest.asFind())
		if err != nil {
			return 0, service{}, err
		}
		// With Equality alone the right index is made. But a replayed page may have a filter that does not fix these fields,
		// which that pager refuses.
		indexed, err := paging.New[bson.D](db.Collection(c.name), order, &paging.Options{Equality: s.fixed})
		if err != nil {
			return 0, service{}, err
		}
		if err := indexed.EnsureIndexes(ctx); err != nil {
			return 0, service{}, err
		}
		now := behind(pages, order)
		find, _, err := now(ctx, db, s.deepest)
		if err != nil {
			return 0, service{}, err
		}
		after, err := examined(find)
		return before - after, service{read: func(ctx context.Context, m *meter, c command) ([]bson.D, bool, error) {
			find, told, err := now(ctx, db, c)
			if !told || err != nil {
				return nil, told, err
			}
			answer, err := m.read(ctx, find)
			return answer, true, err
		}}, err
	}
}

func tryTree(c *collection, field string) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		nodes, err := tree.New[any, bson.M](db.Collection(c.name), tree.AncestorArray, &tree.Options{ParentField: field})
		if err != nil {
			return 0, service{}, err
		}
		return 0, climbing(field), indexAndAdopt(ctx, nodes.EnsureIndexes, nodes.Adopt)
	}
}

// tryChildren leaves the lists as they are. Who walks down sends other commands then, which the finds alone do not tell.
func tryChildren(c *collection, field string, graph bool) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		nodes, err := tree.New[any, bson.M](db.Collection(c.name), tree.ChildReferences, &tree.Options{ChildrenField: field, Graph: graph})
		if err != nil {
			return 0, service{}, err
		}
		same := sending(func(c command) bson.D { return c.body })
		same.unordered = true // what a $graphLookup finds
		return 0, same, indexAndAdopt(ctx, nodes.EnsureIndexes, nodes.Adopt)
	}
}

// tryExtref measures what the joins that were seen examine, and what they do by the copies.
func tryExtref(c, source *collection, j joins) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		var fields []extref.Field
		for _, path := range j.fields {
			fields = append(fields, extref.Field{Path: path, As: j.within(j.copyAt(path))})
		}
		target := extref.Target{Collection: db.Collection(c.name), Path: j.path(), Array: j.list != "", IDField: j.within(j.local), VersionField: j.within(j.version()), Fields: fields}
		references, err := extref.New[any, bson.M](db.Collection(source.name), []extref.Target{target}, &extref.Options{KeyField: j.key})
		if err != nil {
			return 0, service{}, err
		}
		before, err := j.examined(ctx, db, func(c command) bson.D { return c.body })
		if err != nil {
			return 0, service{}, err
		}
		if j.key != "" {
			if err := dropped(ctx, db.Collection(source.name), bson.D{{Key: j.key, Value: 1}}); err != nil {
				return 0, service{}, err
			}
		}
		adopt := func(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
			return references.Adopt(ctx, j.target(c.name), work)
		}
		if err := indexAndAdopt(ctx, references.EnsureIndexes, adopt); err != nil {
			return 0, service{}, err
		}
		withCopies := func(c command) bson.D { return c.without(j) }
		after, err := j.examined(ctx, db, withCopies)
		read := sending(withCopies)
		read.unordered = j.list != "" // a $lookup gives the sources of a list in any order
		return before - after, read, err
	}
}

// examined is how many documents the server examines for all calls of the joins that were seen, each sent as body says.
func (j joins) examined(ctx context.Context, db *mongo.Database, body rewrite) (n int64, err error) {
	for _, c := range j.seen {
		m := meter{db: db}
		if _, err := m.read(ctx, sendable(body(c))); err != nil {
			return 0, err
		}
		n += c.calls * m.documents
	}
	return n, nil
}

// tryComputed replays the aggregations that were seen: each examined the documents that its
// filter selects, and examines its target alone once the totals are there.
func tryComputed(sources, targets *collection, t totals, commands []command) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		rule := computed.Rule{KeyField: t.key, Pipeline: t.pipeline(), Empty: t.empty()}
		totals, err := computed.New[any, any, bson.M](db.Collection(sources.name), db.Collection(targets.name), rule, nil)
		if err != nil {
			return 0, service{}, err
		}
		if err := indexAndAdopt(ctx, totals.EnsureIndexes, totals.Adopt); err != nil {
			return 0, service{}, err
		}
		saved := int64(0)
		for _, c := range commands {
			n, err := t.spares(ctx, db, c, sources.name, targets.name)
			if err != nil {
				return 0, service{}, err
			}
			saved += c.calls * n
		}
		return saved, totalling(targets.name, t), nil
	}
}

// empty are the totals of a target without sources.
func (t totals) empty() (fields bson.D) {
	for _, f := range t.fields {
		zero := any(nil)
		if name := f.Value.(bson.D)[0].Key; name == "$sum" || name == "$count" {
			zero = 0
		}
		fields = append(fields, bson.E{Key: f.Key, Value: zero})
	}
	return fields
}

// spares is how many documents fewer a read examines with these totals: 0 if it is for others.
func (t totals) spares(ctx context.Context, db *mongo.Database, c command, sources, targets string) (n int64, err error) {
	if from, joined, ok := c.joinedTotals(); ok && from == sources && joined.same(t) { // its target is read as before
		n, err = addedUp(ctx, db, c, sources, t.key)
		if err != nil {
			return 0, err
		}
	}
	if own, ok := c.totals(); !ok || c.Collection != sources || !own.same(t) {
		return n, nil
	}
	before, err := db.Collection(sources).CountDocuments(ctx, append(bson.D{}, c.filter...))
	if err != nil {
		return 0, err
	}
	after, err := db.Collection(targets).CountDocuments(ctx, t.target(c))
	return n + before - after, err
}

// addedUp is how many sources a read joins to add them up.
func addedUp(ctx context.Context, db *mongo.Database, c command, sources, key string) (int64, error) {
	pipeline := append(slices.Clone(c.chosen()),
		d("$lookup", bson.D{{Key: "from", Value: sources}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: key}, {Key: "as", Value: "n"},
			{Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: d("$sum", d("$size", "$n"))}}))
	out, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return db.Collection(c.Collection).Aggregate(ctx, pipeline)
	}))
	if err != nil || len(out) == 0 {
		return 0, err
	}
	return integer(out[0], "n"), nil
}
