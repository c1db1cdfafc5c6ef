package extref

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// idleSave is how often the token of an idle stream is saved.
const idleSave = time.Minute

// While the server is unavailable, Watch tries again after pauses between these two.
var firstPause, maxPause = 50 * time.Millisecond, 2 * time.Second // tests shorten the first

// WatchOptions configures Watch. All callbacks may be nil.
type WatchOptions struct {
	// Name is the _id of the document in tokens. A watcher continues from the token that the
	// last one with the same Name saved. Default: "database.collection" of the source, and the Scope.
	Name string
	// MaxAwait is how long the server waits for an event before it returns an empty batch. Default
	// 0: the server's default, 1 second.
	MaxAwait time.Duration
	// Progress is called after each batch of events with the result: Examined counts sources, Done
	// counts documents, and Failures names what failed. The copies of failed sources stay behind
	// until the source changes again, or until Repair.
	Progress func(mongopatterns.Result)
	// Reconciled is called after the Repair that follows a missing or lost token.
	Reconciled func(mongopatterns.Result)
	// Interrupted is called with each error after which Watch continues.
	Interrupted func(error)
}

// Watch follows the source with a change stream. It propagates each inserted source and each change
// of a followed field or of the version, whoever writes them. If a change did not raise the version,
// or set it back, some copies differ although their version is not lower. Then Watch raises the
// source's version above theirs, as Repair does, and propagates.
//
// Watch ends with ctx, or with an error that waiting cannot solve, such as missing rights; it always
// returns an error. While the server is unavailable, as in an election, it waits and continues. A
// source that is invalid, or a document that the server refuses to write, does not end it: Progress
// names it.
//
// tokens is a collection that stores how far the stream has been applied. It belongs to the source's client, and must
// not be one of those given to New. A token is saved after the events before it have been propagated, so a crash
// repeats some work but loses none. Without a token, or when the server no longer has the history after it, Watch
// opens a new stream, reconciles all copies with one Repair, and then applies the stream. Run Watch in one process; a
// second one repeats the work, which does no harm.
//
// With Options.Scope the stream has only the events of the tenant. The server selects them, and reads the source of
// each update for it, so the streams of many tenants make it do all of that once for each of them.
//
// Watch does not follow deletions of sources or changes of a natural key, after which the copies
// dangle. Use Delete, and Check to find them. Nor does it see a write to a copy, which is not an
// event of the source; Check finds it.
//
// Cost: 1 round trip for each batch of events, a Propagate for each source that changed in it, and 1 write of the
// token, index _id.
//   - 1 more for each target with versions, by its index, and a commit if there are two or more targets. With a natural
//     key 1 for each batch.
//   - A change without a higher version: 1 write of the source more, 1 more for each of these targets and 2 for each
//     with such copies; and as for any change once more, for the event of that write.
//   - While nothing happens: 1 round trip every MaxAwait, and a write of the token every minute.
func (r *Source[ID, T]) Watch(ctx context.Context, tokens *mongo.Collection, opts *WatchOptions) (err error) {
	ctx = comment.Call(ctx, "extref.Watch")
	defer fault.In(&err, "extref.Watch")
	return r.core.watch(ctx, scoped.On(tokens).In(r.core.source.Scope()), opts)
}

type watcher struct {
	*core
	o      WatchOptions
	tokens *scoped.Collection
	work   mongopatterns.Work
	token  bson.Raw // nil: reconcile first
	loaded bool
	saved  time.Time
	pauses *pause.Pauses // while the server is unavailable
}

func (c *core) watch(ctx context.Context, tokens *scoped.Collection, opts *WatchOptions) (err error) {
	w := &watcher{core: c, tokens: tokens, pauses: pause.Between(firstPause, maxPause)}
	if opts != nil {
		w.o = *opts
	}
	if err := config.Collections("tokens", tokens.Driver()); err != nil {
		return err
	}
	if tokens.Database().Client() != c.source.Database().Client() {
		return fault.Invalid("tokens: the collection is of another client")
	}
	if slices.ContainsFunc(c.collections(), func(other *scoped.Collection) bool { return same(other, tokens) }) {
		return fault.Invalid("tokens: the collection has other documents")
	}
	if txn.Running(ctx) {
		return fault.Invalid("it follows changes, which a transaction cannot: call it outside of Transact")
	}
	if w.o.MaxAwait < 0 {
		return fault.Invalid("WatchOptions.MaxAwait: it must not be negative")
	}
	w.o.Name = cmp.Or(w.o.Name, c.source.Scope().Label(c.source.Database().Name()+"."+c.source.Name()))
	w.work, _ = maintain.Completed(nil, 0)
	ctx, judge := scoped.Judged(ctx)
	defer func() { err = judge(err) }()
	for {
		err := w.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case err == nil: // the collection was dropped or renamed; continue after that
		case w.token != nil && fault.HasCode(err, historyLost...):
			w.token = nil
		case interrupted(err):
			if w.o.Interrupted != nil {
				w.o.Interrupted(err)
			}
			_ = w.pauses.Wait(ctx)
		default:
			return err
		}
	}
}

// historyLost are the server's codes for a token whose following history does not exist any more.
var historyLost = []int{
	136, // CappedPositionLost
	260, // InvalidResumeToken
	280, // ChangeStreamFatalError
	286, // ChangeStreamHistoryLost
}

// noToken are the codes with which the server refuses a damaged token.
var noToken = []int{
	9,     // FailedToParse
	40647, // Bad resume token
}

// interrupted reports an error that passes: the server is unavailable, busy, or another member of
// its set takes over. Errors that did not come from the server come from the connection.
func interrupted(err error) bool {
	if errors.Is(err, mongopatterns.ErrInvalid) || errors.Is(err, mongo.ErrClientDisconnected) || errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
		return false
	}
	return fault.Temporary(err)
}

func (w *watcher) save(ctx context.Context, token bson.Raw) error {
	if token == nil {
		return nil
	}
	_, err := fault.One(w.tokens.UpdateOne(ctx, expr.D("_id", w.o.Name),
		expr.D("$set", expr.D("token", token), "$currentDate", expr.D("at", true)), options.UpdateOne().SetUpsert(true)))
	if err != nil {
		return err
	}
	w.token, w.saved = append(bson.Raw(nil), token...), time.Now()
	w.pauses.Reset()
	return nil
}

// attempt opens a stream after the token and applies it, in a session of its own: a session in which
// a server failed is not used again. It returns nil if the server ended the stream.
func (w *watcher) attempt(ctx context.Context) error {
	ctx, end := txn.Causal(ctx, w.source)
	defer end()
	if !w.loaded {
		doc, err := cursor.Primary(w.tokens).FindOne(ctx, expr.D("_id", w.o.Name)).Raw()
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		w.token, _ = value.Lookup(doc, "token").DocumentOK()
		w.loaded = true
	}
	return cursor.Stream(ctx, w.open, func(stream *mongo.ChangeStream) error {
		if w.token == nil {
			// The stream is open, so it contains everything that happens from here on.
			result, err := w.repair(ctx, &w.work)
			if err != nil {
				return err
			}
			if w.o.Reconciled != nil {
				w.o.Reconciled(result)
			}
			if err := w.save(ctx, stream.ResumeToken()); err != nil {
				return err
			}
		}
		for {
			if err := w.apply(ctx, stream); err != nil {
				return err
			}
			if stream.ID() == 0 {
				return nil
			}
		}
	})
}

func (w *watcher) open(ctx context.Context) (*mongo.ChangeStream, error) {
	opts := options.ChangeStream()
	if w.token != nil {
		opts.SetStartAfter(w.token) // also after the end of a stream
	}
	if w.o.MaxAwait > 0 {
		opts.SetMaxAwaitTime(w.o.MaxAwait)
	}
	kinds := expr.D("operationType", expr.Op("$in", bson.A{"insert", "update", "replace", "invalidate"}))
	if fields := w.source.Scope().Fields(); len(fields) > 0 {
		// The server looks up what an update has changed, and keeps the events of the tenant.
		opts.SetFullDocument(options.UpdateLookup)
		var ours bson.D
		for _, f := range fields {
			ours = append(ours, expr.Element("fullDocument."+f.Name, value.Equal(f.Value)))
		}
		kinds = append(kinds, expr.Element("$or", bson.A{ours, expr.D("operationType", "invalidate")}))
	}
	const update = "$updateDescription."
	// A change stream needs read concern majority; the client's may be another.
	stream, err := w.source.In(nil).Clone(options.Collection().SetReadConcern(readconcern.Majority())).Watch(ctx, mongo.Pipeline{
		expr.Op("$match", kinds),
		expr.Op("$project", expr.D("kind", "$operationType", "id", "$documentKey._id", "paths", expr.Op("$concatArrays",
			expr.Map(expr.Op("$objectToArray", expr.IfNull(update+"updatedFields", bson.D{})), "field", "$$field.k"),
			expr.IfNull(update+"removedFields", bson.A{}),
			expr.IfNull(update+"truncatedArrays.field", bson.A{})))),
	}, opts)
	if w.token != nil && fault.HasCode(err, noToken...) {
		err = fmt.Errorf("the token in %s is damaged: delete the document, and Watch begins with a Repair: %w", w.tokens.Name(), err)
		err = fault.Of(value.New(w.o.Name), err)
	}
	return stream, err
}

// apply propagates the sources whose changes are in one reply of the server, possibly an empty one,
// and saves the token.
func (w *watcher) apply(ctx context.Context, stream *mongo.ChangeStream) error {
	changed, events := map[string]bson.RawValue{}, 0
	for stream.TryNext(ctx) {
		events++
		var e event
		if err := bson.Unmarshal(stream.Current, &e); err != nil { // without the client's codecs
			return err
		}
		if w.concerns(e) {
			changed[value.Key(e.ID)] = e.ID
		}
		if stream.RemainingBatchLength() == 0 {
			break
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	changed, err := w.keys(ctx, changed)
	if err != nil {
		return err
	}
	var result mongopatterns.Result
	for _, key := range changed {
		done, err := w.propagateOne(ctx, key, &w.work, w.settle)
		if err != nil {
			return err
		}
		maintain.Add(&result, done)
	}
	if events > 0 || time.Since(w.saved) > idleSave {
		if err := w.save(ctx, stream.ResumeToken()); err != nil {
			return err
		}
	}
	if events > 0 && w.o.Progress != nil {
		w.o.Progress(result)
	}
	return nil
}

// keys returns the keys of the sources with these _ids. A source without one has no copies.
func (c *core) keys(ctx context.Context, ids map[string]bson.RawValue) (map[string]bson.RawValue, error) {
	if c.o.KeyField == "_id" {
		return ids, nil
	}
	sources, err := c.sources(ctx, "_id", ids)
	if err != nil {
		return nil, err
	}
	keys := map[string]bson.RawValue{}
	for key, s := range sources {
		if s.doc != nil && !none(s.key) {
			keys[key] = s.key
		}
	}
	return keys, nil
}

// An event of the change stream, with the paths that an update has changed.
type event struct {
	Kind  string
	ID    bson.RawValue
	Paths []string
}

// concerns reports whether an event is about copies.
func (c *core) concerns(e event) bool {
	return e.Kind == "insert" || e.Kind == "replace" || slices.ContainsFunc(e.Paths, c.matters)
}
