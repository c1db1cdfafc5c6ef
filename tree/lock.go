package tree

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// atomically runs fn in a transaction. fn can run several times. If the server refuses joins, this Tree reads level by
// level in transactions from then on, instead of with $graphLookup, and without $lookup: to ask the server beforehand would
// cost every Tree a round trip. The transaction that finds out runs again, unless it is the caller's.
func (s *store) atomically(ctx context.Context, fn func(ctx context.Context) error) error {
	known := s.byLevels.Load()
	err := txn.Run(ctx, s.coll, fn)
	if !refusesJoins(err) {
		return err
	}
	s.byLevels.Store(true)
	if known || txn.Running(ctx) {
		return err
	}
	return txn.Run(ctx, s.coll, fn)
}

// refusesJoins reports whether a transaction has failed because the collection is sharded.
func refusesJoins(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorCode(3904801) ||
		server.HasErrorCodeWithMessage(20, "$graphLookup") || server.HasErrorCodeWithMessage(20, "$lookup"))
}

// withLock is atomically after the tree's lock was taken. The lock is a real write, an $inc, to one document, so that
// two restructurings of one tree conflict and the loser starts again on the result of the winner.
func (s *store) withLock(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.atomically(ctx, func(ctx context.Context) error {
		if _, err := s.lock(ctx); err != nil {
			return err
		}
		return fn(ctx)
	})
}

// lock increments the epoch in the lock document, which it creates if necessary, and returns its old value.
func (s *store) lock(ctx context.Context) (int64, error) {
	raw, err := fault.Single(s.locks.FindOneAndUpdate(ctx, s.lockMatch(), expr.Op("$inc", expr.D(s.lockField(), int64(1))),
		options.FindOneAndUpdate().SetUpsert(true))).Raw()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return 0, fmt.Errorf("lock: %w", err)
	}
	return integer(raw.Lookup(s.lockField())), nil
}

// ensureLock creates the lock document. A lock document without the scope, from an earlier version, gets it.
func (s *store) ensureLock(ctx context.Context) error {
	upsert := options.UpdateOne().SetUpsert(true)
	_, err := fault.One(s.locks.UpdateOne(ctx, s.lockMatch(), expr.Op("$setOnInsert", expr.D(s.lockField(), int64(0))), upsert))
	if of := s.locks.Scope(); mongo.IsDuplicateKeyError(err) && of != nil {
		_, err = fault.One(s.locks.In(nil).UpdateOne(ctx, s.lockMatch(), of.SetStages()))
	}
	if mongo.IsDuplicateKeyError(err) { // another process has created it
		return nil
	}
	return err
}

// lockField is the name of the epoch in the lock document: "n", unless the scope has a field of this name.
func (s *store) lockField() string {
	if s.locks.Scope().Has("n") {
		return fieldLock
	}
	return "n"
}

// lockMatch matches the lock document. The scope of locks lets a lock collection sharded by it ask one shard.
func (s *store) lockMatch() bson.D { return expr.D("_id", s.lockID) }

// readEpoch reads the epoch from the lock document, 0 if there is no such document yet.
func (s *store) readEpoch(ctx context.Context) (int64, error) {
	raw, err := s.locks.FindOne(ctx, s.lockMatch()).Raw()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return 0, err
	}
	return integer(raw.Lookup(s.lockField())), nil
}
