package calls_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/subset"
)

// uncommented are the commands that carry no comment. The documentation of the root package lists them.
var uncommented = []string{
	"commitTransaction", "abortTransaction", "listCollections", "listIndexes", "createIndexes", "killCursors",
	"killSessions", "endSessions", "hello",
}

// ofTheRow are the commands that a row sends by the driver, besides its call.
var ofTheRow = map[string]string{
	"computed.Computed.Change": "insert", "extref.Copies.Pin": "insert", "extref.Source.Pin": "insert",
	"mongopatterns.Transact":   "update",
	"tree.Tree.ChildrenFilter": "find", "tree.Tree.DescendantsFilter": "find", "tree.Tree.AncestorsFilter": "find",
	"tree.Tree.RootsFilter": "find", "tree.Tree.Filter": "find",
}

// commentOf is the comment of a row: the type is left out if New returns it, or it has the calls of another.
func commentOf(r registry.Row) string {
	parts := strings.Split(r.Method(), ".")
	if len(parts) == 3 && !slices.Contains([]string{"Distinct", "Sampled", "Gatherer"}, parts[1]) {
		parts = slices.Delete(parts, 1, 2)
	}
	return "mongopatterns " + strings.Join(parts, ".")
}

// The comment of the caller's context or options counts before the name of the call, also in a transaction.
func TestCommentOfTheCaller(t *testing.T) {
	db := mongotest.Database(t)
	products, reviews := db.Collection("products"), db.Collection("reviews")
	s := testkit.Must(subset.New[int, bson.D](products, reviews, nil))
	kinds := testkit.Must(polymorphic.New[any]([]polymorphic.Kind{polymorphic.Of[struct{}]("product")}, nil))
	testkit.Insert(t, products, testkit.D("_id", 1, "kind", "product"))
	insert := func(ctx context.Context) error { return testkit.ErrorOf(s.Insert(ctx, 1, testkit.D("at", 1))) }
	for text, call := range map[string]func(ctx context.Context) error{
		"trace 1": func(ctx context.Context) error { return insert(mongopatterns.WithComment(ctx, "trace 1")) },
		"":        func(ctx context.Context) error { return insert(mongopatterns.WithComment(ctx, "")) },
		"trace 2": func(ctx context.Context) error {
			return mongopatterns.Transact(mongopatterns.WithComment(ctx, "trace 2"), db.Client(), insert)
		},
		"mongopatterns subset.Insert": func(ctx context.Context) error { return mongopatterns.Transact(ctx, db.Client(), insert) },
		"list": func(ctx context.Context) error {
			return testkit.Drain(kinds.Find(ctx, products, nil, options.Find().SetComment("list").SetBatchSize(1)))
		},
	} {
		var err error
		cmds := mongotest.Record(t, db, func() { err = call(t.Context()) })
		testkit.OK(t, err)
		for _, cmd := range cmds {
			if got, _ := cmd.Body.Lookup("comment").StringValueOK(); !slices.Contains(uncommented, cmd.Name) && got != text {
				t.Errorf("%s carries %q, not %q", cmd.Name, got, text)
			}
		}
	}
}

// The profiler of the server names the call of each package. Those of the root send no command with a comment of their own.
func TestProfiler(t *testing.T) {
	for _, p := range registry.Patterns() {
		if p.Package == "mongopatterns" {
			continue
		}
		row := slices.Concat(p.Writes, p.Reads)[0]
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), mongotest.Database(t)
			admin := mongotest.Admin(t, db)
			call := row.Start(&registry.Scene{T: t, DB: db})
			testkit.OK(t, admin.RunCommand(ctx, testkit.D("profile", 2)).Err())
			testkit.Must(call.Do(ctx))
			testkit.OK(t, admin.RunCommand(ctx, testkit.D("profile", 0)).Err())
			profiled := testkit.D("command.comment", commentOf(row))
			if n := testkit.Count(t, admin.Collection("system.profile"), profiled); n == 0 {
				t.Errorf("no line of the profiler carries %q", commentOf(row))
			}
		})
	}
}

// The documentation lists the commands without a comment.
func TestUncommentedAreListed(t *testing.T) {
	doc := string(testkit.Value[[]byte](t)(os.ReadFile("doc.go")))
	for _, name := range uncommented {
		if !strings.Contains(doc, name) {
			t.Errorf("doc.go does not list %s", name)
		}
	}
}
