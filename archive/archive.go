package archive

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Archive moves documents between a live collection and an archive. It is safe for concurrent use.
type Archive struct {
	live, archived *scoped.Collection
	companions     []companion // on the way to the archive
	opts           Options
}

var (
	_ mongopatterns.Checker = (*Archive)(nil)
	_ mongopatterns.Sharder = (*Archive)(nil)
)

// Options names the fields of an Archive, and the collections that belong to its documents.
type Options struct {
	// TimeField is the path of the date that decides how old a document is. Default "_id": the time in an
	// ObjectID.
	TimeField string
	// MarkField is a field that only archived documents have, with the time of the move. It must not be a
	// field of yours. Default "archived_at".
	MarkField string
	// Scope separates several tenants in the same collections, those of Companions included. See Tenants in the manual
	// of mongopatterns. Its fields are part of every filter and start every index. The values are strings, numbers and
	// similar. Null, an array or a regular expression is refused. Default none: all documents of the collections.
	Scope bson.D
	// Companions are the collections whose documents move with those of the Archive. Default: none.
	Companions []Companion
}

// New returns an Archive of two collections of one client, which may be in two databases. It does no I/O.
// opts may be nil.
func New(live, archived *mongo.Collection, opts *Options) (a *Archive, err error) {
	defer fault.In(&err, "archive.New")
	a = &Archive{}
	if opts != nil {
		a.opts = *opts
	}
	a.opts.Scope = slices.Clone(a.opts.Scope)
	// _id is no option, but no option may lie inside it.
	id := "_id"
	of := append(config.Scope(a.opts.Scope), config.Name("Options.MarkField", &a.opts.MarkField, "archived_at"))
	if a.opts.TimeField != "" && a.opts.TimeField != id {
		of = append(of, config.Path("Options.TimeField", &a.opts.TimeField, ""))
	} else {
		a.opts.TimeField = id
	}
	if err := config.Apply(append(of, config.Name("_id", &id, ""))...); err != nil {
		return nil, err
	}
	tenant, err := scope.New(codec.Codec{}, a.opts.Scope)
	if err != nil {
		return nil, err
	}
	a.live, a.archived = scoped.On(live).In(tenant), scoped.On(archived).In(tenant)
	return a, a.join()
}

// keyed is the keys of an index or of a shard key on a field.
func (a *Archive) keyed(field string) bson.D { return a.live.Scope().Keys(expr.D(field, 1)) }

// near reports whether a collection is in the database of the live one.
func (a *Archive) near(coll *scoped.Collection) bool {
	return coll.Database().Name() == a.live.Database().Name()
}

// Indexes returns the index on TimeField in the live collection, unless TimeField is _id, and those on the
// fields of companions, on both sides. All begin with the scope. It leaves out collections of other databases than the live one's.
func (a *Archive) Indexes() map[string][]mongo.IndexModel {
	out := map[string][]mongo.IndexModel{}
	if a.opts.TimeField != "_id" {
		out[a.live.Name()] = []mongo.IndexModel{{Keys: a.keyed(a.opts.TimeField)}}
	}
	for field, coll := range a.followed() {
		if field != "_id" && a.near(coll) {
			out[coll.Name()] = []mongo.IndexModel{{Keys: a.keyed(field)}}
		}
	}
	return out
}

// EnsureIndexes creates the index on TimeField if it is missing, indexes on the fields of companions unless an index
// already begins with the field, and the archives if they do not exist. If an index on TimeField has other options, it
// returns ErrIndexConflict. If a collection has a default collation, it returns ErrInvalid. For companions of another
// package, call that package's EnsureIndexes first, on both sides.
//
// Cost: 2 round trips, 1 less if TimeField is _id.
//   - The archive is in another database: 1 more.
//   - What is missing: 1 for the index and 1 for the archive.
//   - Each companion: 2, and 3 to create its archive and both indexes.
func (a *Archive) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "archive.EnsureIndexes")
	defer fault.In(&err, "archive.EnsureIndexes")
	way := a.away()
	if err := collation.Create(ctx, way.targets(), way.sources()...); err != nil {
		return err
	}
	if a.opts.TimeField != "_id" {
		if err := indexes.Ensure(ctx, a.live.Driver(), []mongo.IndexModel{{Keys: a.keyed(a.opts.TimeField)}}); err != nil {
			return err
		}
	}
	for field, coll := range a.followed() {
		if field == "_id" {
			continue
		}
		if err := indexes.EnsureFirst(ctx, coll.Driver(), a.keyed(field)); err != nil {
			return err
		}
	}
	return nil
}

// ShardKey returns the recommended shard keys: _id of both collections, and the fields of companions, behind the scope.
// It leaves out collections of other databases than the live one's.
func (a *Archive) ShardKey() map[string]bson.D {
	out := map[string]bson.D{a.live.Name(): a.keyed("_id")}
	if a.near(a.archived) {
		out[a.archived.Name()] = a.keyed("_id")
	}
	for field, coll := range a.followed() {
		if a.near(coll) {
			out[coll.Name()] = a.keyed(field)
		}
	}
	return out
}

// BeforeFilter selects the documents whose TimeField is a date before t, for Move. It uses the index on
// TimeField.
func (a *Archive) BeforeFilter(t time.Time) bson.D {
	if a.opts.TimeField == "_id" {
		return a.live.Scope().Match(expr.D("_id", expr.Op("$lt", firstID(t))))
	}
	// The second condition excludes arrays that hold a later date, too.
	at := bson.DateTime(value.Millis(t))
	return a.live.Scope().Match(expr.D(a.opts.TimeField, expr.D("$lt", at, "$not", expr.Op("$gte", at))))
}

// firstID returns the smallest ObjectID of the first second at or after t.
func firstID(t time.Time) (id bson.ObjectID) {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	seconds = min(max(seconds, 0), 1<<32-1)
	for i := range 4 {
		id[i] = byte(seconds >> (8 * (3 - i)))
	}
	return id
}

// ArchivedFilter selects archived documents among those of both sides, as in an aggregation with $unionWith.
func (a *Archive) ArchivedFilter() bson.D {
	return a.live.Scope().Match(expr.D(a.opts.MarkField, expr.Op("$exists", true)))
}

// LiveFilter selects live documents among those of both sides.
func (a *Archive) LiveFilter() bson.D {
	return a.live.Scope().Match(expr.D(a.opts.MarkField, expr.Op("$exists", false)))
}

// Move moves the live documents that old selects into the archive. Each batch is a transaction, so every document
// is in exactly one of the two collections at any time. old has any form that the driver takes, but must not use
// $text or $near. bson.D{} selects all documents, and nil is refused. work.Filter narrows old. Move can be stopped
// and run again. It creates the archive if it does not exist.
//
// A document is Skipped if another writer changes it so that it no longer matches, or if another Move has moved it.
// It is Failed with ErrExists if its _id exists in the archive with other content. Companions move in the same
// transaction. A document whose companions are larger than Work.BatchBytes is Failed with ErrInvalid, which a dry
// run does not see. A transaction of your own takes companions of any size.
//
// A document whose TimeField changes during the call may be left for the next one.
//
// Cost: 2 round trips, and 5 for each batch (by default 100 documents, at most 8 MiB), with 3 writes for each
// document.
//   - The archive is in another database: 1 more. To create it: 1.
//   - To find many documents: more, by BeforeFilter on the index of TimeField.
//   - Each collection of companions: 3 more for a batch that has some, 1 for another, and 2 writes for each
//     companion.
//   - A batch with an _id that exists in the archive: up to 9 more, and 2 writes for it there.
//   - In your own transaction, which a refused insert would end: 1 more for a batch and for each collection of
//     companions, with such an _id 4.
func (a *Archive) Move(ctx context.Context, old any, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "archive.Move")
	defer fault.In(&err, "archive.Move")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return a.away().run(ctx, "old", old, work)
}

// Restore moves the archived documents that filter selects back into the live collection, without their MarkField.
// Otherwise it is the reverse of Move, so bson.D{} selects the whole archive, and nil is refused. To restore
// documents by their _ids, give {_id: {$in: [...]}}.
//
// Cost: that of Move, with the index that filter can use in the archive.
func (a *Archive) Restore(ctx context.Context, filter any, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "archive.Restore")
	defer fault.In(&err, "archive.Restore")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return a.back().run(ctx, "filter", filter, work)
}

// away is the way into the archive.
func (a *Archive) away() *way {
	return &way{mark: a.opts.MarkField, marks: true, from: a.live, to: a.archived, with: a.companions}
}

// back is the way out of the archive.
func (a *Archive) back() *way {
	w := &way{mark: a.opts.MarkField, from: a.archived, to: a.live}
	for _, c := range a.companions {
		w.with = append(w.with, companion{c.to, c.from, c.field})
	}
	return w
}
