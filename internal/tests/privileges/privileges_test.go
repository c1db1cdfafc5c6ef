// Package privileges finds the rights that each call needs, and writes them to docs/privileges.csv.
package privileges

import (
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
	"go.mongodb.org/mongo-driver/v2/mongo"

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
		if more := less(want[name], []string{"find", "listCollections"}); len(more) > 0 && !slices.Contains(refreshing, name) {
			t.Errorf("%s writes nothing and needs %v", name, more)
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
		if err := u.do(t, r, less(want[r.Method()], []string{"createIndex"})); err != nil {
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
		if err := u.do(t, r, nil); allowed(t, err) || !strings.Contains(err.Error(), "docs/privileges.md") && r.Package() != "mongopatterns" {
			t.Errorf("without rights: %v", err)
		}
	})
}

// The role of docs/privileges.md adds reviews, also to a product whose reviews old code has pushed. It removes nothing, makes no product and reads no other collection.
func TestRoleOfThePage(t *testing.T) {
	page := string(testkit.Value[[]byte](t)(os.ReadFile("docs/privileges.md")))
	granted := regexp.MustCompile(`\{resource: \{db: "shop", collection: "(\w+)"\}, actions: \[(.*?)\]\}`).FindAllStringSubmatch(page, -1)
	if len(granted) != 2 {
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
	of := func(db *mongo.Database) *subset.Subset[string, bson.D] {
		return testkit.Value[*subset.Subset[string, bson.D]](t)(subset.New[string, bson.D](db.Collection("products"), db.Collection("reviews"), opts))
	}
	testkit.OK(t, of(root).EnsureIndexes(t.Context()))
	old := bson.A{testkit.D("_id", 1, "written", 1), testkit.D("_id", 2, "written", 2)}
	testkit.InsertAll(t, root.Collection("products"), []any{testkit.D("_id", "new"), testkit.D("_id", "old", "reviews", old)})
	reviews := of(db)
	for i := range 5 {
		for n, product := range []string{"new", "old"} {
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

// measure takes one right after the other away and returns those without which a method fails.
func measure(t *testing.T, rows []registry.Row) map[string][]string {
	var mu sync.Mutex
	found := map[string][]string{}
	t.Run("measure", func(t *testing.T) {
		run(t, rows, func(t *testing.T, u *user, r registry.Row) {
			testkit.OK(t, u.do(t, r, u.all))
			needed := u.all
			for _, part := range [][]string{rare(u.all), common} {
				if without := less(needed, part); allowed(t, u.do(t, r, without)) {
					needed = without
					continue
				}
				for _, action := range part {
					if without := less(needed, []string{action}); allowed(t, u.do(t, r, without)) {
						needed = without
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			both := append(found[r.Method()], needed...)
			slices.Sort(both)
			found[r.Method()] = slices.Compact(both)
		})
	})
	return found
}

// common are the rights that many calls need.
var common = []string{"find", "insert", "update", "remove", "createCollection", "createIndex", "listCollections"}

func rare(all []string) []string { return less(all, common) }

func less(all, without []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(action string) bool { return slices.Contains(without, action) })
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
	all       []string // the actions of readWrite
	databases int
}

func newUser(t *testing.T, server *testkit.Authenticated, name string) *user {
	u := &user{name: name, root: server.Root.Database("admin")}
	command(t, u.root, "createRole", name, "privileges", bson.A{}, "roles", bson.A{})
	server.User(t, name, name, "admin")
	u.client = server.As(t, name)
	var info struct {
		Roles []struct {
			Privileges []struct {
				Resource struct{ Collection string }
				Actions  []string
			}
		}
	}
	testkit.OK(t, u.root.RunCommand(t.Context(), testkit.D("rolesInfo", testkit.D("role", "readWrite", "db", "any"), "showPrivileges", true)).Decode(&info))
	for _, p := range info.Roles[0].Privileges {
		if p.Resource.Collection == "" {
			u.all = p.Actions
		}
	}
	return u
}

// do makes a call with some rights. The state that it starts from is stored with all rights of readWrite and dbAdmin.
func (u *user) do(t *testing.T, r registry.Row, actions []string) error {
	t.Helper()
	u.databases++
	db := u.client.Database(fmt.Sprint(u.name, "_", u.databases))
	defer func() { testkit.OK(t, u.root.Client().Database(db.Name()).Drop(t.Context())) }()
	on := func(role string) bson.D { return testkit.D("role", role, "db", db.Name()) }
	command(t, u.root, "updateRole", u.name, "privileges", bson.A{}, "roles", bson.A{on("readWrite"), on("dbAdmin")})
	call := r.Start(&registry.Scene{T: t, DB: db})
	privileges := bson.A{}
	if len(actions) > 0 {
		privileges = bson.A{testkit.D("resource", testkit.D("db", db.Name(), "collection", ""), "actions", actions)}
	}
	command(t, u.root, "updateRole", u.name, "roles", bson.A{}, "privileges", privileges)
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
