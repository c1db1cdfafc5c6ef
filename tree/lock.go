package tree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// busy is a conflict on the lock document. It hides the labels of the server's error, so that atomically waits
// and not the driver.
type busy struct{ cause error }

func (b busy) Error() string { return b.cause.Error() }

// Those who wait for the lock try again after pauses of a few milliseconds, which do not grow beyond pauseMax.
// The driver's grow to half a second with each attempt: whoever has waited longest then sleeps longest, and
// newcomers get the lock.
const (
	pauseMin  = 2 * time.Millisecond
	pauseMax  = 50 * time.Millisecond
	waitLimit = 120 * time.Second // the driver's
)

// atomically runs fn in a transaction, with the tree's lock taken first if locked. The lock is a real write, an
// $inc, to one document, so that two restructurings of one tree conflict and the loser starts again from what
// the winner left. fn can run several times.
func (s *store) atomically(ctx context.Context, locked bool, fn func(ctx context.Context) error) error {
	if !locked {
		return txn.Run(ctx, s.coll.Database().Client(), fn)
	}
	return s.exclusively(ctx, func(ctx context.Context, _ int64) error { return fn(ctx) })
}

// exclusively is atomically with the lock; fn gets the number of restructurings before this one.
func (s *store) exclusively(ctx context.Context, fn func(ctx context.Context, before int64) error) error {
	joined := txn.Running(ctx)
	start := time.Now()
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		byLevels := s.byLevels.Load()
		err := txn.Run(ctx, s.coll.Database().Client(), func(ctx context.Context) error {
			before, err := s.lock(ctx, joined)
			if err != nil {
				return err
			}
			return fn(ctx, before)
		})
		if s.refusesJoins(err) && !byLevels && !joined {
			continue
		}
		var wait busy
		if !errors.As(err, &wait) {
			return err
		}
		if time.Since(start) > waitLimit {
			return wait.cause
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the transaction was waiting: %v", ctx.Err(), wait.cause)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// refusesJoins reports whether a transaction has failed because its data is sharded. What asked with $graphLookup
// asks level by level from then on.
func (s *store) refusesJoins(err error) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorCode(3904801) && !server.HasErrorCodeWithMessage(20, "$graphLookup") {
		return false
	}
	s.byLevels.Store(true)
	return true
}

// lock raises the counter of the lock document, which it makes if need be, and returns what it was. In a
// transaction of the caller's the server's error goes back for the caller to run again.
func (s *store) lock(ctx context.Context, joined bool) (int64, error) {
	raw, err := fault.Single(s.locks.FindOneAndUpdate(ctx, s.lockMatch(), d("$inc", d(s.lockField(), int64(1))),
		options.FindOneAndUpdate().SetUpsert(true))).Raw()
	if err == nil || errors.Is(err, mongo.ErrNoDocuments) {
		return integer(raw.Lookup(s.lockField())), nil
	}
	err = fmt.Errorf("lock: %w", err)
	var server mongo.ServerError
	if !joined && errors.As(err, &server) && server.HasErrorCode(112) {
		return 0, busy{err}
	}
	return 0, err
}

// makeLock makes the lock document. One that an earlier version made without the scope gets it.
func (s *store) makeLock(ctx context.Context) error {
	upsert := options.UpdateOne().SetUpsert(true)
	_, err := fault.One(s.locks.UpdateOne(ctx, s.lockMatch(), d("$setOnInsert", d(s.lockField(), int64(0))), upsert))
	if mongo.IsDuplicateKeyError(err) && len(s.scope) > 0 {
		_, err = fault.One(s.locks.UpdateOne(ctx, d("_id", s.lockID), d("$set", s.scope)))
	}
	if mongo.IsDuplicateKeyError(err) { // another made it meanwhile
		return nil
	}
	return err
}

// lockField is the counter of the lock document, beside the fields of the scope.
func (s *store) lockField() string {
	if lookup(s.scope, "n") != nil {
		return fieldLock
	}
	return "n"
}

// lockMatch names the scope, so that a lock that is sharded by it lies in the scope's range.
func (s *store) lockMatch() bson.D { return s.in("_id", s.lockID) }

func (s *store) restructurings(ctx context.Context) (int64, error) {
	raw, err := s.locks.FindOne(ctx, s.lockMatch()).Raw()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return 0, err
	}
	return integer(raw.Lookup(s.lockField())), nil
}

// touch writes to the node that matches, so that a transaction which moves or deletes it at the same time
// conflicts with this one, and reads it. The write is the child counter, raised by one, or else a temporary
// field, which create takes off.
func (s *store) touch(ctx context.Context, match bson.D, absent error) (node, error) {
	opts := options.FindOneAndUpdate().SetProjection(s.shown).SetReturnDocument(options.After)
	return s.one(fault.Single(s.primary.FindOneAndUpdate(ctx, match, s.mark, opts)), absent)
}

// marked are writes to a node that leave nothing: whoever inserts a child beside them conflicts.
func (s *store) marked(n *node) []mongo.WriteModel {
	if n == nil {
		return nil
	}
	return []mongo.WriteModel{update(s.byID(n.id), s.mark), update(s.byID(n.id), s.unmark)}
}

// count is the part of an update that changes the child counter.
func (s *store) count(by int64) bson.D {
	if s.o.ChildCountField == "" || by == 0 {
		return nil
	}
	return d("$inc", d(s.o.ChildCountField, by))
}

// counter is a write that changes a child counter, none without a counter or a change.
func (s *store) counter(match bson.D, by int64) []mongo.WriteModel {
	inc := s.count(by)
	if len(match) == 0 || inc == nil {
		return nil
	}
	return []mongo.WriteModel{update(match, inc)}
}

// update is a write of any number of nodes. That of one is the same, as the driver makes a command of its own
// for each kind.
func update(match, change any) mongo.WriteModel {
	return mongo.NewUpdateManyModel().SetFilter(match).SetUpdate(change)
}

// write sends updates as one command. As they belong to a transaction that holds the lock, or has touched what
// they write to, their filters need no guard.
func (s *store) write(ctx context.Context, models ...mongo.WriteModel) error {
	if len(models) == 0 {
		return nil
	}
	_, err := fault.Many(s.primary.BulkWrite(ctx, models))
	return err
}

// create inserts a document and ends the touch of its parent, in one command: an upsert whose filter matches
// nothing that exists, so that a second document with the _id is a duplicate key error, as it is for an insert.
func (s *store) create(ctx context.Context, doc bson.D, touched *node) error {
	if touched == nil || s.o.ChildCountField != "" {
		_, err := fault.One(s.primary.InsertOne(ctx, doc))
		return err
	}
	match := append(s.byID(lookup(doc, s.o.IDField)), bson.E{Key: fieldTouch, Value: d("$type", "minKey")})
	if s.o.IDField != "_id" {
		match = append(match, bson.E{Key: "_id", Value: equal(lookup(doc, "_id"))})
	}
	return s.write(ctx, mongo.NewReplaceOneModel().SetFilter(match).SetReplacement(doc).SetUpsert(true),
		mongo.NewUpdateOneModel().SetFilter(s.byID(touched.id)).SetUpdate(s.unmark))
}
