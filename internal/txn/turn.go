package txn

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/turn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// RunInTurn is Run for a function that writes to one document first, and that other calls of this process may run for
// the same document at the same time. They wait for each other, see InTurn.
func RunInTurn(ctx context.Context, coll *scoped.Collection, id bson.RawValue, fn func(ctx context.Context) error) error {
	return Run(ctx, coll, func(ctx context.Context) error {
		if _, err := InTurn(ctx, coll, id); err != nil {
			return err
		}
		return fn(ctx)
	})
}

// InTurn names documents that the transaction of ctx is about to write, and that other calls of this process may write
// at the same time. Before the transaction's first command it waits for those, and reports whether there were any.
// Later that would be too late, because the snapshot is taken: then the next attempt waits, before it begins. InTurn
// does nothing in a transaction that Run has not started. Its error is that of ctx.
func InTurn(ctx context.Context, coll *scoped.Collection, ids ...bson.RawValue) (waited bool, err error) {
	t, ok := ctx.Value(startedKey{}).(*transaction)
	if !ok {
		return false, nil
	}
	for _, id := range ids {
		t.name(turn.Document{Client: t.client, Name: coll.Database().Name() + "." + coll.Name() + " " + value.Key(id)})
	}
	if t.hasSent() {
		return false, nil
	}
	waited = t.takeTurn(ctx)
	if err = ctx.Err(); err != nil && len(t.turn) < len(t.named) {
		err = fmt.Errorf("%w; the call was waiting for others of this process that write the same document", err)
	}
	return waited, err
}

// name adds a document to those for which the transaction takes its turn.
func (t *transaction) name(doc turn.Document) {
	if t.named[doc] {
		return
	}
	if t.named == nil {
		t.named = map[turn.Document]bool{}
	}
	t.named[doc] = true
	t.tookTurn = false
}

// takeTurn waits for the turn at all documents that are named, unless it has waited for these already. It reports
// whether others had their turn before, and have ended it.
func (t *transaction) takeTurn(ctx context.Context) (waited bool) {
	if t.tookTurn || len(t.named) == 0 {
		return false
	}
	t.endTurn() // all calls wait in one order, so the turn at the documents named before is taken anew
	t.turn, waited = turn.Take(ctx, slices.Collect(maps.Keys(t.named)))
	t.tookTurn = true
	return waited && len(t.turn) == len(t.named)
}

// endTurn lets the calls behind this one have their turn.
func (t *transaction) endTurn() {
	t.turn.End()
	t.turn, t.tookTurn = nil, false
}
