// Package privileges finds the rights that each call needs, and writes them to docs/privileges.csv.
package privileges

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/subset"
)

var update = flag.Bool("update", false, "find the rights of each call, and write them to docs/privileges.csv")

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// A call succeeds with the rights that docs/privileges.csv names for it. A part has the first row of each method, and a small
// run that of every fourth. Each run has the ways of calls that need more.
func TestPrivileges(t *testing.T) {
	rows := slices.Concat(registry.Writes(), registry.Reads(), registry.Indexes(t))
	if *update {
		found := measure(t, slices.Concat(rows, ways()))
		if !t.Failed() {
			write(t, found)
		}
		return
	}
	want := read(t)
	if methods := registry.Methods(rows); !slices.Equal(methods, slices.Sorted(maps.Keys(want))) {
		t.Errorf("%s does not have the calls of the registry: run this test with -update", table)
	}
	for _, name := range registry.Methods(registry.Reads()) { // as the page says of the role read
		for _, actions := range want[name] {
			writes := func(action string) bool {
				return !slices.Contains([]string{"find", "listCollections", "listIndexes"}, action)
			}
			if slices.ContainsFunc(actions, writes) && !slices.Contains(refreshing, name) {
				t.Errorf("%s writes nothing and needs %v", name, want[name])
			}
		}
	}
	if !scale.Whole() {
		rows = registry.Firsts(rows)
	}
	rows = slices.Concat(registry.Every(scale.Of(4, 1, 1), rows), ways())
	run(t, rows, func(t *testing.T, u *user, r registry.Row) {
		if err := u.do(t, r, want[r.Method()]); err != nil {
			t.Errorf("with %v: %v", want[r.Method()], err)
		}
	})
}

// A service whose indexes are there can call EnsureIndexes without the right to create one.
func TestIndexesThatExist(t *testing.T) {
	want, rows := read(t), registry.Indexes(t)
	for i, r := range rows {
		rows[i].Start = func(s *registry.Scene) registry.Call {
			c := r.Start(s)
			s.OK(c.One(s.Context()))
			return c
		}
	}
	run(t, rows, func(t *testing.T, u *user, r registry.Row) {
		rights := testkit.Rights{}
		for coll, actions := range want[r.Method()] {
			rights = rights.With(testkit.Rights{coll: slices.DeleteFunc(actions, func(action string) bool { return action == "createIndex" })})
		}
		if err := u.do(t, r, rights); err != nil {
			t.Error(err)
		}
	})
}

// refreshing are reads that write what they find too old.
var refreshing = []string{"computed.Computed.Get", "schemaversion.Collection.Get"}

// A call that lacks all rights says so, and where they are listed.
func TestNoRights(t *testing.T) {
	rows := slices.CompactFunc(slices.Concat(registry.Writes(), registry.Reads()), func(a, b registry.Row) bool { return a.Package() == b.Package() })
	run(t, rows, func(t *testing.T, u *user, r registry.Row) {
		if err := u.do(t, r, testkit.Rights{}); allowed(t, err) || !strings.Contains(err.Error(), "docs/privileges.md") && r.Package() != "mongopatterns" {
			t.Errorf("without rights: %v", err)
		}
	})
}

// The role of docs/privileges.md adds reviews, also to a product whose reviews old code has pushed, and calls EnsureIndexes. It
// removes nothing, makes no product and reads no other collection.
func TestRoleOfThePage(t *testing.T) {
	page := string(testkit.Value[[]byte](t)(os.ReadFile("docs/privileges.md")))
	granted := regexp.MustCompile(`\{resource: \{db: "shop", collection: "(\w*)"\}, actions: \[(.*?)\]\}`).FindAllStringSubmatch(page, -1)
	if len(granted) != 3 {
		t.Fatalf("%d privileges", len(granted))
	}
	privileges := bson.A{}
	for _, g := range granted {
		actions := strings.Split(strings.ReplaceAll(g[2], `"`, ""), ", ")
		privileges = append(privileges, testkit.D("resource", testkit.D("db", "shop", "collection", g[1]), "actions", actions))
	}
	server := testkit.Authenticate(t)
	command(t, server.Root.Database("admin"), "createRole", "reviewer", "roles", bson.A{}, "privileges", privileges)
	server.User(t, "ann", "reviewer", "admin")
	root, db := server.Root.Database("shop"), server.As(t, "ann").Database("shop")
	opts := &subset.Options{ParentField: "product", ArrayField: "reviews", N: 3, Sort: testkit.D("written", -1)}
	type sku string // EnsureIndexes compares how the client encodes it
	of := func(db *mongo.Database) *subset.Subset[sku, bson.D] {
		return testkit.Value[*subset.Subset[sku, bson.D]](t)(subset.New[sku, bson.D](db.Collection("products"), db.Collection("reviews"), opts))
	}
	testkit.OK(t, of(root).EnsureIndexes(t.Context()))
	old := bson.A{testkit.D("_id", 1, "written", 1), testkit.D("_id", 2, "written", 2)}
	testkit.InsertAll(t, root.Collection("products"), []any{testkit.D("_id", "new"), testkit.D("_id", "old", "reviews", old)})
	reviews := of(db)
	testkit.OK(t, reviews.EnsureIndexes(t.Context()))
	for i := range 5 {
		for n, product := range []sku{"new", "old"} {
			testkit.Value[any](t)(reviews.Insert(t.Context(), product, testkit.D("_id", 10+2*i+n, "written", 10+i)))
		}
	}
	for what, err := range map[string]error{
		"a deletion": reviews.Delete(t.Context(), "new", 10),
		"a product":  second(db.Collection("products").InsertOne(t.Context(), testkit.D("_id", "other"))),
		"a find":     db.Collection("customers").FindOne(t.Context(), bson.D{}).Err(),
	} {
		var refused mongo.ServerError
		if !errors.As(err, &refused) || !refused.HasErrorCode(13) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// measure takes one right after the other away of those that the commands of a method need, and returns the ones without which it
// fails.
func measure(t *testing.T, rows []registry.Row) map[string]testkit.Rights {
	var mu sync.Mutex
	found := map[string]testkit.Rights{}
	var methods []registry.Row
	for _, name := range registry.Methods(rows) {
		methods = append(methods, registry.Row{Name: name})
	}
	run(t, methods, func(t *testing.T, u *user, method registry.Row) {
		needed := testkit.Rights{}
		for _, r := range rows {
			if r.Method() == method.Name {
				needed = u.needs(t, r, needed)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		found[method.Name] = needed.With(rarer[method.Name])
	})
	return found
}

// needs returns known, which are rights that other rows of the method need, with those that this one needs besides.
func (u *user) needs(t *testing.T, r registry.Row, known testkit.Rights) testkit.Rights {
	t.Helper()
	if allowed(t, u.do(t, r, known)) {
		return known
	}
	testkit.OK(t, u.do(t, r, nil))
	tried := u.sent()
	needed := known.With(tried)
	if err := u.do(t, r, needed); err != nil {
		t.Fatalf("%s: testkit.Needed misses a right: %v", r.Name, err)
	}
	for coll, actions := range tried.Without(known) {
		for _, action := range actions {
			if without := needed.Without(testkit.Rights{coll: {action}}); allowed(t, u.do(t, r, without)) {
				needed = without
			}
		}
	}
	return needed
}

// allowed reports whether a call has the rights it needs.
func allowed(t *testing.T, err error) bool {
	t.Helper()
	var server mongo.ServerError
	if err != nil && !(errors.As(err, &server) && server.HasErrorCode(unauthorized)) {
		t.Errorf("a call without rights ended with %v", err)
	}
	return err == nil
}

const unauthorized = 13

// run does something with rows, with a user for each goroutine.
func run(t *testing.T, rows []registry.Row, do func(t *testing.T, u *user, r registry.Row)) {
	server := testkit.Authenticate(t)
	users := make(chan *user, 4)
	for i := range cap(users) {
		users <- newUser(t, server, fmt.Sprint("tester", i))
	}
	t.Run("rows", func(t *testing.T) { // ends before the server does
		for _, r := range rows {
			t.Run(strings.ReplaceAll(r.Name, "/", ": "), func(t *testing.T) {
				t.Parallel()
				u := <-users
				defer func() { users <- u }()
				do(t, u, r)
			})
		}
	})
}

// A user has the rights of a role of the same name.
type user struct {
	name      string
	root      *mongo.Database
	client    *mongo.Client
	databases int

	mu       sync.Mutex
	commands []*event.CommandStartedEvent // of the last call
}

func newUser(t *testing.T, server *testkit.Authenticated, name string) *user {
	u := &user{name: name, root: server.Root.Database("admin")}
	command(t, u.root, "createRole", name, "privileges", bson.A{}, "roles", bson.A{})
	server.User(t, name, name, "admin")
	u.client = server.As(t, name, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.commands = append(u.commands, &event.CommandStartedEvent{
				Command: slices.Clone(e.Command), CommandName: e.CommandName, DatabaseName: e.DatabaseName})
		}}))
	return u
}

// sent returns the rights for the commands of the last call.
func (u *user) sent() testkit.Rights {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := testkit.Rights{}
	for _, e := range u.commands {
		if e.DatabaseName == u.database() {
			out = out.With(testkit.Needed(e))
		}
	}
	return out
}

func (u *user) database() string { return fmt.Sprint(u.name, "_", u.databases) }

// do makes a call with rights, or with all of readWrite and dbAdmin if rights is nil. The state that it starts from is stored with all of these.
func (u *user) do(t *testing.T, r registry.Row, rights testkit.Rights) error {
	t.Helper()
	u.databases++
	db := u.client.Database(u.database())
	defer func() { testkit.OK(t, u.root.Client().Database(db.Name()).Drop(t.Context())) }()
	on := func(role string) bson.D { return testkit.D("role", role, "db", db.Name()) }
	command(t, u.root, "updateRole", u.name, "privileges", bson.A{}, "roles", bson.A{on("readWrite"), on("dbAdmin")})
	call := r.Start(&registry.Scene{T: t, DB: db})
	if rights != nil {
		privileges := bson.A{}
		for coll, actions := range rights {
			resource := testkit.D("db", db.Name(), "collection", coll)
			privileges = append(privileges, testkit.D("resource", resource, "actions", actions))
		}
		command(t, u.root, "updateRole", u.name, "roles", bson.A{}, "privileges", privileges)
	}
	u.mu.Lock()
	u.commands = nil
	u.mu.Unlock()
	result, err := call.Do(t.Context())
	for _, f := range result.Failures {
		err = errors.Join(err, f.Err)
	}
	return err
}

func command(t *testing.T, db *mongo.Database, args ...any) {
	t.Helper()
	testkit.OK(t, db.RunCommand(t.Context(), testkit.D(args...)).Err())
}
