package archive

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Archive moves documents between a live collection and an archive. It is safe for concurrent use.
type Archive struct {
	live, archived *comment.Collection
	opts           Options
}

var (
	_ mongopatterns.Checker = (*Archive)(nil)
	_ mongopatterns.Sharder = (*Archive)(nil)
)

// Options names the fields of an Archive.
type Options struct {
	// TimeField is the path of the date that decides how old a document is. Default "_id": the time in an
	// ObjectID.
	TimeField string
	// MarkField is a field that only archived documents have, with the time of the move. It must not be a
	// field of yours. Default "archived_at".
	MarkField string
}

// New returns an Archive of two collections of one client; they may be in two databases. It does no I/O. opts
// may be nil.
func New(live, archived *mongo.Collection, opts *Options) (a *Archive, err error) {
	defer fault.In(&err, "archive: new")
	a = &Archive{live: comment.On(live), archived: comment.On(archived)}
	if opts != nil {
		a.opts = *opts
	}
	if live == nil || archived == nil {
		return nil, fault.Invalid("live and archived must not be nil")
	}
	if live.Database().Client() != archived.Database().Client() {
		return nil, fault.Invalid("archived: the collection is of another client")
	}
	if live.Name() == archived.Name() && a.together() {
		return nil, fault.Invalid("archived: the collection %q is also live", live.Name())
	}
	// _id is no option, but no option may lie inside it.
	id := "_id"
	of := []config.Setting{config.Name("Options.MarkField", &a.opts.MarkField, "archived_at")}
	if a.opts.TimeField != "" && a.opts.TimeField != id {
		of = append(of, config.Path("Options.TimeField", &a.opts.TimeField, ""))
	} else {
		a.opts.TimeField = id
	}
	if err := config.Apply(append(of, config.Name("_id", &id, ""))...); err != nil {
		return nil, err
	}
	return a, nil
}

// together reports whether both collections are in one database.
func (a *Archive) together() bool { return a.live.Database().Name() == a.archived.Database().Name() }

// Indexes returns the index on TimeField in the live collection; none if that is _id.
func (a *Archive) Indexes() map[string][]mongo.IndexModel {
	if a.opts.TimeField == "_id" {
		return nil
	}
	return map[string][]mongo.IndexModel{a.live.Name(): {{Keys: expr.D(a.opts.TimeField, 1)}}}
}

// EnsureIndexes creates the index on TimeField if it is missing, and the archive if it does not exist. If an
// index on TimeField has other options, it returns ErrIndexConflict. It refuses collections with a default
// collation with ErrInvalid.
//
// Cost: 2 round trips, 3 if the archive is in another database; 1 more to create the index and 1 to create the
// archive; 1 less if TimeField is _id.
func (a *Archive) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "archive.EnsureIndexes")
	defer fault.In(&err, "archive: ensure indexes")
	if err := collation.Create(ctx, []*comment.Collection{a.archived}, a.live); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, a.live.Database(), a.Indexes())
}

// ShardKey returns the recommended shard key, _id, of the live collection, and of the archive if it is in the
// same database.
func (a *Archive) ShardKey() map[string]bson.D {
	out := map[string]bson.D{a.live.Name(): expr.D("_id", 1)}
	if a.together() {
		out[a.archived.Name()] = expr.D("_id", 1)
	}
	return out
}

// BeforeFilter selects the documents whose TimeField is a date before t, for Move. It uses the index on
// TimeField.
func (a *Archive) BeforeFilter(t time.Time) bson.D {
	if a.opts.TimeField == "_id" {
		return expr.D("_id", expr.Op("$lt", firstID(t)))
	}
	// The second condition excludes arrays that hold a later date, too.
	at := bson.DateTime(value.Millis(t))
	return expr.D(a.opts.TimeField, expr.D("$lt", at, "$not", expr.Op("$gte", at)))
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
	return expr.D(a.opts.MarkField, expr.Op("$exists", true))
}

// LiveFilter selects live documents among those of both sides.
func (a *Archive) LiveFilter() bson.D {
	return expr.D(a.opts.MarkField, expr.Op("$exists", false))
}

// Move moves the live documents that old selects into the archive, each batch in a transaction; every document
// is in exactly one of the two collections at any time. old has any form that the driver takes, but must not
// use $text or $near; bson.D{} selects all documents, and nil is refused. work.Filter narrows it. Move
// can be stopped and run again. A document that another writer changes so that it does not match any more, or that
// another Move has moved, is Skipped. One whose _id exists in the archive with other content is Failed with
// ErrExists. It creates the archive if it does not exist.
//
// A document whose TimeField changes during the call may be left for the next one.
//
// Cost: 2 round trips, 3 if the archive is in another database, 1 to create it, and more for many documents, to
// find them (by BeforeFilter the index on TimeField); for each batch (by default 100 documents, at most 8 MiB)
// 5 round trips, and 3 writes for each document. A batch with an _id that exists in the archive costs up to 8
// round trips more. In your own transaction, which a refused insert would end, a batch costs 1 round trip more,
// with such an _id 3.
func (a *Archive) Move(ctx context.Context, old any, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "archive.Move")
	defer fault.In(&err, "archive: move")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return a.away().run(ctx, "old", old, work)
}

// Restore moves the archived documents that filter selects back into the live collection, without their
// MarkField. It is the reverse of Move in everything else: bson.D{} selects the whole archive, and nil is refused.
// To restore documents by their _ids, give {_id: {$in: [...]}}.
//
// Cost: that of Move, with the index that filter can use in the archive.
func (a *Archive) Restore(ctx context.Context, filter any, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "archive.Restore")
	defer fault.In(&err, "archive: restore")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	back := &way{mark: a.opts.MarkField, from: a.archived, to: a.live}
	return back.run(ctx, "filter", filter, work)
}

// away is the way into the archive.
func (a *Archive) away() *way {
	return &way{mark: a.opts.MarkField, marks: true, from: a.live, to: a.archived}
}
