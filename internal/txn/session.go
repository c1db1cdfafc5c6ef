package txn

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// Causal gives ctx a session, unless it has one, in which each operation and transaction sees everything that earlier
// ones saw. Without it, a snapshot may be older than a read before it, and a shard may not show yet what another has
// shown.
//
// end ends the session. If a transaction may still be open, end aborts it in the background, as Run does on a session
// of its own. Without that, the server would keep it open until transactionLifetimeLimitSeconds.
func Causal(ctx context.Context, coll *scoped.Collection) (in context.Context, end func()) {
	if peekSession(ctx) != nil {
		return ctx, func() {}
	}
	client := coll.Database().Client()
	session, err := client.StartSession()
	if err != nil { // the client is closed, and the operations return that error
		return ctx, func() {}
	}
	l := &lent{session: session}
	in = context.WithValue(mongo.NewSessionContext(ctx, session), lentKey{}, l)
	return in, func() {
		if !l.mayBeOpen {
			session.EndSession(context.WithoutCancel(ctx))
			return
		}
		t := &transaction{client: client, session: session}
		t.notes.Used(coll)
		t.closeBehind(ctx)
	}
}

// lent is a session that Causal has put into a context.
type lent struct {
	session   *mongo.Session
	mayBeOpen bool // the server may have a transaction of it open
}

type lentKey struct{}
