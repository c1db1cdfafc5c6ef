// Package registry has an entry for each pattern: its calls that write and that read, the state each starts from, and what
// must hold of the stored documents afterwards. The campaigns and tables of internal/tests are generated from the
// entries, so that a new guarantee is tested with every pattern, and a new pattern in every campaign.
//
// A pattern is a file <package>.go that adds a [Pattern]. A new method with I/O is a row in the file of its pattern.
// TestEveryCall fails until it has one, and TestPatterns until a new pattern says what it does beside the others.
package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// A Pattern is what the tests know of a package.
type Pattern struct {
	Package string // its name
	Writes  []Row  // of each method that writes, one or more
	Reads   []Row  // of each method that writes nothing
	// Writings start calls that several goroutines make at the same time. They share a database with those of the other
	// patterns.
	Writings func(s *Scene) []Writing
	// Steps makes what is needed, unless it is there, and returns a step, which is one write or some, numbered from 0. After
	// an unknown outcome, and by another process, it may be made again with the same number, as docs/failures.md says. verify
	// gets how many steps were acknowledged. The patterns share a database.
	Steps func(t *testing.T, db *mongo.Database) (step func(ctx context.Context, n int) error, verify func(t *testing.T, steps int))
	// Role is how it writes beside another pattern to the documents of one collection, and NoRole why it cannot.
	Role   *Role
	NoRole string
}

var patterns []Pattern

// add is called by the file of each pattern.
func add(p Pattern) { patterns = append(patterns, p) }

// Patterns are all patterns, and the root package, by name.
func Patterns() []Pattern {
	return slices.SortedFunc(slices.Values(patterns), func(a, b Pattern) int { return strings.Compare(a.Package, b.Package) })
}

// Writes returns the calls of all patterns that write.
func Writes() (out []Row) {
	for _, p := range Patterns() {
		out = append(out, p.Writes...)
	}
	return out
}

// Reads returns the calls of all patterns that write nothing, by name.
func Reads() (out []Row) {
	for _, p := range Patterns() {
		out = append(out, p.Reads...)
	}
	slices.SortFunc(out, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Writings starts those of all patterns.
func Writings(s *Scene) (out []Writing) {
	for _, p := range Patterns() {
		if p.Writings != nil {
			out = append(out, p.Writings(s)...)
		}
	}
	return out
}

// A Row is a call, and the state it starts from.
type Row struct {
	// Name is package.Type.Method or package.Function, and what is particular behind a slash.
	Name string
	// Start stores the state and returns the call. What it stores is the same each time, but
	// for ObjectIDs, UUIDs and the present time.
	Start func(s *Scene) Call
}

// Method is the name without what is particular.
func (r Row) Method() string {
	out, _, _ := strings.Cut(r.Name, "/")
	return out
}

// Package is the package of the call.
func (r Row) Package() string {
	out, _, _ := strings.Cut(r.Name, ".")
	return out
}

// Methods are the methods of rows, sorted.
func Methods(rows []Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Method())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Firsts are the first rows of the methods.
func Firsts(rows []Row) []Row {
	met := map[string]bool{}
	var out []Row
	for _, r := range rows {
		if !met[r.Method()] {
			met[r.Method()] = true
			out = append(out, r)
		}
	}
	return out
}

// Every is every nth row; the seed says which.
func Every(n int, rows []Row) []Row {
	var out []Row
	for i := int(scale.Seed() % uint64(n)); i < len(rows); i += n {
		out = append(out, rows[i])
	}
	return out
}

// Call is a call and what is expected of it.
type Call struct {
	// One makes one change, all of it or nothing, or reads.
	One func(ctx context.Context) error
	// Many stores items one by one or in batches: each is as before or as after, and the Result
	// says which are not.
	Many func(ctx context.Context) (mongopatterns.Result, error)
	// Upkeep is Many for Adopt, Repair and their like, in batches of one document.
	Upkeep func(ctx context.Context) (mongopatterns.Result, error)
	// Counts is, for Many and Upkeep, the collection where each document that is as after
	// counts as Done. Default: Done is not compared.
	Counts string

	// Repeat is what a caller does after an error in place of the same call. Default: the
	// same call.
	Repeat func(ctx context.Context) error
	// Repeated are the errors that a repetition may return because the call was done before.
	Repeated []error
	// Look says that after an unknown outcome one must look before a repetition, as
	// docs/failures.md or the method says.
	Look bool
	// Twice returns a document, as extended JSON, of the state when a change of an unknown outcome was repeated though it
	// was done, from the one of the state after the change. It is nil where the method does not say that this may happen.
	Twice func(after string) string

	Check []mongopatterns.Checker
	// Shards are the helpers whose collections are sharded on a cluster, besides those of Check.
	Shards []mongopatterns.Sharder
	// Settle does the work after which the manual promises that Check finds nothing.
	Settle func(ctx context.Context) error
	// Aside are collections that do not belong to the state: leases, checkpoints. Masks are
	// fields whose values do not: random marks, counters of what was tried.
	Aside, Masks []string
	// Passing are documents, by collection, that may be seen while the call is under way, if its manual says
	// that it writes one after the other.
	Passing map[string][]bson.D
}

// Do makes the call.
func (c Call) Do(ctx context.Context) (result mongopatterns.Result, err error) {
	defer func() {
		if p := recover(); p != nil { // the other rows go on
			err = fmt.Errorf("the call panicked: %v", p)
		}
	}()
	switch {
	case c.Many != nil:
		return c.Many(ctx)
	case c.Upkeep != nil:
		return c.Upkeep(ctx)
	}
	return mongopatterns.Result{}, c.One(ctx)
}

// Helpers are those whose collections are sharded.
func (c Call) Helpers() []mongopatterns.Sharder {
	out := slices.Clone(c.Shards)
	for _, h := range c.Check {
		out = append(out, h.(mongopatterns.Sharder))
	}
	return out
}

// Masked replaces the values that differ between two runs of one call.
func (c Call) Masked(v any) any {
	switch v := v.(type) {
	case bson.D:
		out := make(bson.D, len(v))
		for i, e := range v {
			out[i] = bson.E{Key: e.Key, Value: "masked"}
			if !slices.Contains(c.Masks, e.Key) {
				out[i].Value = c.Masked(e.Value)
			}
		}
		return out
	case bson.A:
		out := make(bson.A, len(v))
		for i, e := range v {
			out[i] = c.Masked(e)
		}
		return out
	case bson.ObjectID:
		return "an ObjectID"
	case bson.Binary:
		if len(v.Data) == 16 {
			return "a UUID"
		}
	case bson.DateTime:
		if d := time.Since(v.Time()).Abs(); d < 24*time.Hour {
			return "now"
		}
	}
	return v
}

// ErrDuplicate represents the driver's duplicate key in Call.Repeated.
var ErrDuplicate = errors.New("duplicate key")

// Scene is a database for one case.
type Scene struct {
	*testing.T
	DB *mongo.Database
	// Scope is that of the helpers whose packages have one, and of what Insert inserts. Default: none.
	Scope bson.D
}

// Coll returns a collection.
func (s *Scene) Coll(name string) *mongo.Collection { return s.DB.Collection(name) }

// Insert inserts documents.
func (s *Scene) Insert(coll string, docs ...any) {
	s.Helper()
	for i, doc := range docs {
		docs[i] = s.scoped(doc)
	}
	testkit.InsertAll(s.T, s.Coll(coll), docs)
}

// InsertEach inserts n documents at once.
func (s *Scene) InsertEach(coll string, n int, doc func(i int) bson.D) {
	s.Helper()
	var docs []any
	for i := range n {
		docs = append(docs, doc(i))
	}
	s.Insert(coll, docs...)
}

func (s *Scene) scoped(doc any) any {
	d, ok := doc.(bson.D)
	if s.Scope == nil || !ok {
		return doc
	}
	return append(slices.Clip(d), s.Scope...)
}

// OK ends the test if err is not nil.
func (s *Scene) OK(err error) {
	s.Helper()
	testkit.OK(s.T, err)
}

// A Writing is a call whose acknowledged writes are counted.
type Writing struct {
	Name    string
	Helpers []mongopatterns.Sharder
	// Write makes write n to entity e; each n occurs once.
	Write func(ctx context.Context, e, n int) error
	// Stored are the writes that an entity shows.
	Stored func(t *testing.T, e int) []int
}

// Entities is the number of entities that each Writing writes to.
const Entities = 6

// letter is the name of an entity.
func letter(e int) string { return string(rune('A' + e)) }

// collected reads numbers to the end.
func collected[T any](t *testing.T, seq func(yield func(T, error) bool), number func(T) int) (out []int) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Error(err)
			return out
		}
		out = append(out, number(v))
	}
	return out
}

// Keyed shards a collection that belongs to no pattern.
type Keyed struct {
	Coll *mongo.Collection
	Key  bson.D
}

// Indexes returns none.
func (k Keyed) Indexes() map[string][]mongo.IndexModel { return nil }

// EnsureIndexes does nothing.
func (k Keyed) EnsureIndexes(context.Context) error { return nil }

// ShardKey returns the key.
func (k Keyed) ShardKey() map[string]bson.D { return map[string]bson.D{k.Coll.Name(): k.Key} }

func sharders(s ...mongopatterns.Sharder) []mongopatterns.Sharder { return s }

// small is work with a batch for each document.
var small = &mongopatterns.Work{BatchSize: 1}

// checked is a Check as a call.
func checked(c mongopatterns.Checker) func(ctx context.Context) error {
	return func(ctx context.Context) error { return testkit.Drain(c.Check(ctx, nil)) }
}

// reads makes rows of calls that write nothing. start returns what they read, and do are their names
// and what they do.
func reads[H mongopatterns.Sharder](on, kind string, start func(s *Scene) H, do map[string]func(ctx context.Context, h H) error) (out []Row) {
	for _, name := range slices.Sorted(maps.Keys(do)) {
		out = append(out, Row{on + "." + name + kind, func(s *Scene) Call {
			h := start(s)
			return Call{Shards: sharders(h), Masks: marks, One: func(ctx context.Context) error { return do[name](ctx, h) }}
		}})
	}
	return out
}

// until repeats a call that leaves alone what another may work on until its lease is over.
func until(do func(ctx context.Context) (mongopatterns.Result, error), over func(ctx context.Context) bool) func(ctx context.Context) error {
	return again(func(ctx context.Context) (bool, error) {
		_, err := do(ctx)
		return err != nil || over(ctx), err
	})
}

// unleased repeats a call that is refused until the lease of the one before is over.
func unleased(do func(ctx context.Context) (mongopatterns.Result, error), refused error) func(ctx context.Context) error {
	return again(func(ctx context.Context) (bool, error) {
		_, err := do(ctx)
		return !errors.Is(err, refused), err
	})
}

func again(try func(ctx context.Context) (over bool, err error)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			if over, err := try(ctx); over {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}
