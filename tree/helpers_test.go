package tree_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/tree"
)

// anyTree has IDs and documents of any kind.
type anyTree = tree.Tree[any, bson.M]

func newAny(t testing.TB, coll *mongo.Collection, rep tree.Representation, opts *tree.Options) *anyTree {
	t.Helper()
	tr := get(tree.New[any, bson.M](coll, rep, opts))(t)
	ok(t, tr.EnsureIndexes(t.Context()))
	return tr
}

func plant(t testing.TB, tr *anyTree, doc bson.M, parent any) {
	t.Helper()
	pos := tr.AsRoot()
	if parent != nil {
		pos = tr.Under(parent)
	}
	get(tr.Insert(t.Context(), doc, pos))(t)
}

func allRight(t testing.TB, tr *anyTree) {
	t.Helper()
	for p, err := range tr.Check(t.Context(), nil) {
		t.Errorf("Check: %v %v", p, err)
	}
}

func exists(t testing.TB, coll *mongo.Collection, ids ...any) {
	t.Helper()
	n, err := coll.CountDocuments(t.Context(), dd("_id", dd("$in", bson.A(ids))))
	wrong(t, err != nil || n != int64(len(ids)), "%d of %v are there, %v", n, ids, err)
}

// joined runs fn in a transaction of the caller, who goes on whatever happens.
func joined(t testing.TB, coll *mongo.Collection, fn func(ctx context.Context) error) error {
	t.Helper()
	session := get(coll.Database().Client().StartSession())(t)
	defer session.EndSession(context.Background())
	_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) { return nil, fn(ctx) })
	return err
}

// meanwhile runs second while the transaction of first is open. It has to
// conflict, and so comes to its end only by its deadline.
func meanwhile(t testing.TB, coll *mongo.Collection, first, second func(ctx context.Context) error) error {
	t.Helper()
	return joined(t, coll, func(ctx context.Context) error {
		if err := first(ctx); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := second(short); err == nil {
			t.Error("no conflict")
		}
		return nil
	})
}

func untouched(t testing.TB, coll *mongo.Collection) {
	t.Helper()
	if n, err := coll.CountDocuments(t.Context(), dd("__touch", dd("$exists", true))); n != 0 || err != nil {
		t.Errorf("%d documents with a mark, %v", n, err)
	}
}

// interrupted loads entries one a batch and stops before the numbering.
func interrupted(t *testing.T, tr *anyTree, parent *any, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := tr.Load(ctx, func(yield func(tree.Entry[any, bson.M], error) bool) {
		for i := range n {
			if !yield(tree.Entry[any, bson.M]{Value: bson.M{"_id": fmt.Sprint("new", i)}}, nil) {
				return
			}
		}
	}, tr.Under(*parent), &mongopatterns.Work{BatchSize: n, Progress: func(mongopatterns.Result) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
