package extref

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Errors of a change stream that cannot go on from its token.
const (
	codeInvalidResumeToken      = 260
	codeChangeStreamFatalError  = 280
	codeChangeStreamHistoryLost = 286
)

// idleSave is how often the token of a stream without events is saved.
const idleSave = time.Minute

// WatchOptions configures Watch.
type WatchOptions struct {
	// Tokens holds how far the stream has been applied, one document for each
	// Name. Required.
	Tokens *mongo.Collection
	// Name is the _id of that document. Default: "database.collection" of the
	// source. Watchers with one Name continue each other.
	Name string
	// BatchSize is how many documents one write updates. Default 1000.
	BatchSize int
	// Compare is that of PropagateOptions: for sources changed by writers who do
	// not raise the version. Default false.
	Compare bool
	// MaxAwait is how long the server waits for an event before it answers with
	// none. Default 0: the server's, 1 second.
	MaxAwait time.Duration
	// Progress is called after each batch of events with the sources propagated so
	// far. Default nil.
	Progress func(done int64)
	// Reconciled is called after the reconciliation that a missing or lost
	// token makes necessary. Default nil.
	Reconciled func(RepairResult)
	// Failed is called when a source is invalid or the server refuses to write it or
	// its copies. If it returns nil Watch goes on; the copies stay behind until the
	// source changes again, or Propagate or Repair mends them. Otherwise Watch ends
	// with the error it returns. Default nil: Watch ends with the *SourceError.
	Failed func(*SourceError) error
}

// Watch follows the source by a change stream and propagates each change of a
// followed field or of the version, by whoever it was made, until ctx ends or an
// error that the driver cannot resume from; it always returns an error. Other
// changes cost nothing but the event. Run it in one process; a second one with the
// same Name does the same work again, without harm. A source that cannot be
// propagated ends it with a *SourceError, unless WatchOptions.Failed says
// otherwise; the next Watch begins with that source.
//
// The token is saved after what it stands for has been propagated, so a crash
// repeats some work and loses none. When there is no token, and when the server
// no longer has the history after it (a long outage), a new stream is opened, one
// Repair reconciles all copies, and the stream goes on from before it. Deletions
// of sources are not followed: use Delete, and Check.
//
// Cost: 1 round trip a batch of events, for each source in it that changed a
// Propagate, and 1 write of the token, by _id. While nothing happens 1 round trip
// every MaxAwait and a write of the token every minute. A reconciliation costs a
// Repair.
func (r *Ref[ID, S]) Watch(ctx context.Context, opts *WatchOptions) error {
	err := r.watch(ctx, opts)
	return fmt.Errorf("extref: watch: %w", err)
}

func (r *Ref[ID, S]) watch(ctx context.Context, opts *WatchOptions) error {
	var o WatchOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "WatchOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return err
	}
	if o.Tokens == nil {
		return fmt.Errorf("%w: WatchOptions.Tokens: nil collection", ErrInvalid)
	}
	if o.MaxAwait < 0 {
		return fmt.Errorf("%w: WatchOptions.MaxAwait: negative", ErrInvalid)
	}
	if o.Name == "" {
		o.Name = r.source.Database().Name() + "." + r.source.Name()
	}
	ctx, end, err := r.causal(ctx)
	if err != nil {
		return err
	}
	defer end()
	w := &watcher[ID, S]{Ref: r, o: o}
	if err := w.load(ctx); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	for {
		err := w.follow(ctx)
		if err == nil {
			continue // the collection was dropped or renamed; go on behind that
		}
		if ctx.Err() != nil || !historyLost(err) || w.token == nil {
			return err
		}
		w.token = nil
	}
}

// historyLost reports that a token is of no use any more.
func historyLost(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorCode(codeChangeStreamHistoryLost) ||
		server.HasErrorCode(codeChangeStreamFatalError) || server.HasErrorCode(codeInvalidResumeToken))
}

type watcher[ID, S any] struct {
	*Ref[ID, S]
	o     WatchOptions
	token bson.Raw // nil: reconcile
	saved time.Time
	done  int64
}

func (w *watcher[ID, S]) load(ctx context.Context) error {
	doc, err := scan.Primary(w.o.Tokens).FindOne(ctx, bson.D{{Key: "_id", Value: w.o.Name}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if token, ok := rawvalue.Lookup(doc, "token").DocumentOK(); ok {
		w.token = token
	}
	return err
}

func (w *watcher[ID, S]) save(ctx context.Context, token bson.Raw) error {
	if token == nil {
		return nil
	}
	_, err := w.o.Tokens.UpdateOne(ctx, bson.D{{Key: "_id", Value: w.o.Name}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "token", Value: token}, {Key: "at", Value: time.Now()}}}},
		options.UpdateOne().SetUpsert(true))
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	w.token, w.saved = append(bson.Raw(nil), token...), time.Now()
	return nil
}

// follow opens a stream and applies it. nil says that the server ended it.
func (w *watcher[ID, S]) follow(ctx context.Context) error {
	opts := options.ChangeStream()
	if w.token != nil {
		opts.SetStartAfter(w.token) // also behind the end of a stream
	}
	if w.o.MaxAwait > 0 {
		opts.SetMaxAwaitTime(w.o.MaxAwait)
	}
	// The client's may be another, which a change stream refuses.
	source := w.source.Clone(options.Collection().SetReadConcern(readconcern.Majority()))
	stream, err := source.Watch(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"update", "replace", "invalidate"}}}}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "operationType", Value: 1}, {Key: "documentKey._id", Value: 1},
			{Key: "updateDescription", Value: 1},
		}}},
	}, opts)
	if err != nil {
		return err
	}
	defer stream.Close(context.WithoutCancel(ctx))
	if w.token == nil {
		// The stream is open, so it has whatever happens from here on.
		result, err := w.repair(ctx, &RepairOptions{BatchSize: w.o.BatchSize}, w.failed)
		if err != nil {
			return fmt.Errorf("reconciliation: %w", err)
		}
		if w.o.Reconciled != nil {
			w.o.Reconciled(result)
		}
		if err := w.save(ctx, stream.ResumeToken()); err != nil {
			return err
		}
	}
	for {
		changed, events, err := w.batch(ctx, stream)
		if err != nil {
			return err
		}
		for _, id := range changed {
			_, err := w.propagateID(ctx, id, &PropagateOptions{
				BatchSize: w.o.BatchSize, Compare: w.o.Compare, Progress: func(int64) {},
			})
			if err != nil && !errors.Is(err, ErrNotFound) {
				if err := w.failed(&SourceError{Source: id, Err: err}); err != nil {
					return err
				}
			}
			w.done++
		}
		if events > 0 || time.Since(w.saved) > idleSave {
			if err := w.save(ctx, stream.ResumeToken()); err != nil {
				return err
			}
		}
		if events > 0 {
			w.o.Progress(w.done)
		}
		if stream.ID() == 0 {
			return nil
		}
	}
}

// batch reads the events of one answer of the server, maybe none, and returns the
// sources, each once, of which a followed field changed.
func (w *watcher[ID, S]) batch(ctx context.Context, stream *mongo.ChangeStream) (changed []bson.RawValue, events int, err error) {
	seen := map[string]bool{}
	for stream.TryNext(ctx) {
		events++
		if w.concerns(stream.Current) {
			id := valueOf(stream.Current.Lookup("documentKey", "_id"))
			if key := rawvalue.Key(id); !seen[key] {
				seen[key] = true
				changed = append(changed, id)
			}
		}
		if stream.RemainingBatchLength() == 0 {
			break
		}
	}
	return changed, events, stream.Err()
}

// concerns reports whether an event changed a followed field or the version.
func (w *watcher[ID, S]) concerns(event bson.Raw) bool {
	if kind, _ := rawvalue.Lookup(event, "operationType").StringValueOK(); kind != "update" {
		return kind == "replace"
	}
	updated, _ := event.Lookup("updateDescription", "updatedFields").DocumentOK()
	elements, _ := updated.Elements()
	for _, element := range elements {
		if w.followsPath(element.Key()) {
			return true
		}
	}
	for _, list := range []string{"removedFields", "truncatedArrays"} {
		array, _ := event.Lookup("updateDescription", list).ArrayOK()
		values, _ := array.Values()
		for _, value := range values {
			path, isPath := value.StringValueOK()
			if truncated, ok := value.DocumentOK(); ok {
				path, isPath = rawvalue.Lookup(truncated, "field").StringValueOK()
			}
			if isPath && w.followsPath(path) {
				return true
			}
		}
	}
	return false
}

// followsPath reports whether a change at path changes a followed field or the
// version.
func (w *watcher[ID, S]) followsPath(path string) bool {
	if w.versioned && path == w.opts.VersionField {
		return true
	}
	for _, f := range w.Ref.follow {
		if path == f.Path || strings.HasPrefix(path, f.Path+".") || strings.HasPrefix(f.Path, path+".") {
			return true
		}
	}
	return false
}

// failed says whether to go on without a source.
func (w *watcher[ID, S]) failed(err *SourceError) error {
	if w.o.Failed == nil || !refused(err) {
		return err
	}
	return w.o.Failed(err)
}
