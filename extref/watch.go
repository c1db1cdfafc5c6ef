package extref

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	idleSave   = time.Minute           // how often the token of a stream without events is saved
	firstPause = 50 * time.Millisecond // between two attempts to reach a server that is away
	maxPause   = 2 * time.Second
)

// WatchOptions configures Watch. All callbacks may be nil.
type WatchOptions struct {
	// Name is the _id of the document in tokens. Watchers with one Name continue
	// each other. Default: "database.collection" of the source.
	Name string
	// MaxAwait is how long the server waits for an event before it answers with
	// none. Default 0: the server's, 1 second.
	MaxAwait time.Duration
	// Progress is called after each batch of events with what it did: Examined
	// sources, Done documents, and by name what failed. The copies of these stay
	// behind until the source changes again, or Repair.
	Progress func(mongopatterns.Result)
	// Reconciled is called after the Repair for a missing or lost token.
	Reconciled func(mongopatterns.Result)
	// Interrupted is called with each error that Watch goes on after.
	Interrupted func(error)
}

// Watch follows the source by a change stream and propagates each change of a
// followed field or the version, and each source that is inserted, by whoever it
// was made. A change that did not raise the version, or set it back, shows in copies
// that have another state and no lower version: Watch raises the source's above theirs,
// as Repair does, and propagates. It ends when ctx does, or with an error that no waiting solves, such as
// missing rights; it always returns an error. While the server is away, as in an
// election, it waits and goes on. A source that is invalid, or a document that the
// server refuses to write, ends nothing: Progress names it.
//
// tokens holds how far the stream has been applied. The token is saved after what
// it stands for has been propagated: a crash repeats some work and loses none.
// Without a token, and when the server no longer has the history after it, a new
// stream is opened, one Repair reconciles all copies, and the stream goes on from
// before it. Run it in one process; a second one does the same work again, without
// harm. Deletions of sources are not followed (use Delete, and Check), nor does a
// natural key that changes reach the copies: they dangle. A copy that somebody writes to
// is no event of the source: Check finds it.
//
// Cost: 1 round trip a batch of events, for each source in it that changed a
// Propagate and 1 for each target with versions, by its index, and 1 write of the token,
// by _id; with a natural key 1 more a batch. A change without a higher version: 1 write
// of the source more, 1 more for each of these targets and 2 for each with such copies;
// and as for any change once more, for the event of that write.
// While nothing happens 1 round trip every MaxAwait and a write of the token every
// minute.
func (r *Ref[ID, S]) Watch(ctx context.Context, tokens *mongo.Collection, opts *WatchOptions) (err error) {
	defer fault.In(&err, "extref: watch")
	return r.core.watch(ctx, tokens, opts)
}

type watcher struct {
	*core
	o      WatchOptions
	tokens *mongo.Collection
	work   mongopatterns.Work
	token  bson.Raw // nil: reconcile
	loaded bool
	saved  time.Time
	pause  time.Duration
}

func (c *core) watch(ctx context.Context, tokens *mongo.Collection, opts *WatchOptions) (err error) {
	w := &watcher{core: c, tokens: tokens, pause: firstPause}
	if opts != nil {
		w.o = *opts
	}
	if err := config.Collections("tokens", tokens); err != nil {
		return err
	}
	if w.o.MaxAwait < 0 {
		return fault.Invalid("WatchOptions.MaxAwait: negative")
	}
	w.o.Name = cmp.Or(w.o.Name, c.source.Database().Name()+"."+c.source.Name())
	w.work, _ = maintain.Of(nil, 0)
	defer func() { err = fault.Unknown(err) }() // changes may have been applied
	for {
		err := w.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case err == nil: // the collection was dropped or renamed; go on after that
		case w.token != nil && hasCode(err, 136, 260, 280, 286): // the history after it is gone
			w.token = nil
		case interrupted(err):
			if w.o.Interrupted != nil {
				w.o.Interrupted(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(w.pause):
			}
			w.pause = min(2*w.pause, maxPause)
		default:
			return err
		}
	}
}

// interrupted reports an error that passes: the server is away, or busy, or another
// one of its set takes over. What did not come from the server is of the connection.
func interrupted(err error) bool {
	if errors.Is(err, fault.ErrInvalid) || errors.Is(err, mongo.ErrClientDisconnected) || errors.Is(err, fault.ErrTransactionsUnsupported) {
		return false
	}
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return true
	}
	return slices.ContainsFunc([]string{
		"NetworkError", "TransientTransactionError", "UnknownTransactionCommitResult",
		"ResumableChangeStreamError", "RetryableWriteError", "RetryableReadError", "SystemOverloadedError",
	}, server.HasErrorLabel) || hasCode(err,
		6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13388, 13435, 13436, // connection and elections
		24, 46, 50, 112, 246, 251, 262, // locks, time, transactions
		43, 63, 133, 150, 234, 237, 11601, // cursors, shards, an interruption
		64, 79, 100) // write concern
}

func hasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && slices.ContainsFunc(codes, server.HasErrorCode)
}

func (w *watcher) save(ctx context.Context, token bson.Raw) error {
	if token == nil {
		return nil
	}
	_, err := fault.One(w.tokens.UpdateOne(ctx, expr.Op("_id", w.o.Name), expr.Op("$set", expr.D("token", token, "at", time.Now())),
		options.UpdateOne().SetUpsert(true)))
	if err == nil {
		w.token, w.saved, w.pause = append(bson.Raw(nil), token...), time.Now(), firstPause
	}
	return err
}

// attempt opens a stream after the token and applies it, in a session of its own:
// one that has seen a server go is not used again. nil says that the server ended
// the stream.
func (w *watcher) attempt(ctx context.Context) error {
	ctx, end := w.causal(ctx)
	defer end()
	if !w.loaded {
		doc, err := cursor.Primary(w.tokens).FindOne(ctx, expr.Op("_id", w.o.Name)).Raw()
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		w.token, _ = value.Lookup(doc, "token").DocumentOK()
		w.loaded = true
	}
	return cursor.Stream(ctx, w.open, func(stream *mongo.ChangeStream) error {
		if w.token == nil {
			// The stream is open, so it has whatever happens from here on.
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
	const update = "$updateDescription."
	// The client's read concern may be another, which a change stream refuses.
	return w.source.Clone(options.Collection().SetReadConcern(readconcern.Majority())).Watch(ctx, mongo.Pipeline{
		expr.Op("$match", expr.Op("operationType", expr.Op("$in", bson.A{"insert", "update", "replace", "invalidate"}))),
		expr.Op("$project", expr.D("kind", "$operationType", "id", "$documentKey._id", "paths", expr.Op("$concatArrays",
			expr.Map(expr.Op("$objectToArray", expr.IfNull(update+"updatedFields", bson.D{})), "field", "$$field.k"),
			expr.IfNull(update+"removedFields", bson.A{}),
			expr.IfNull(update+"truncatedArrays.field", bson.A{})))),
	}, opts)
}

// apply propagates the sources whose changes are in one answer of the server, maybe
// none, and saves the token.
func (w *watcher) apply(ctx context.Context, stream *mongo.ChangeStream) error {
	changed, events := map[string]bson.RawValue{}, 0
	for stream.TryNext(ctx) {
		events++
		var e event
		if err := bson.Unmarshal(stream.Current, &e); err != nil { // not by the client's codecs
			return err
		}
		if w.concerns(e) {
			changed[value.Key(e.ID)] = e.ID
		}
		if stream.RemainingBatchLength() == 0 {
			break
		}
	}
	err := stream.Err()
	if err == nil && w.core.o.KeyField != "_id" {
		changed, err = w.keys(ctx, changed)
	}
	if err != nil {
		return err
	}
	var result mongopatterns.Result
	for _, key := range changed {
		done, err := w.propagateOne(ctx, key, &w.work, w.settle)
		if err != nil {
			return err
		}
		result.Add(done)
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

// keys are the natural keys of the sources with these _ids. One without has no copies.
func (c *core) keys(ctx context.Context, ids map[string]bson.RawValue) (map[string]bson.RawValue, error) {
	sources, err := c.sources(ctx, "_id", ids)
	keys := map[string]bson.RawValue{}
	for key, s := range sources {
		if s.doc != nil && !none(s.key) {
			keys[key] = s.key
		}
	}
	return keys, err
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
