package sweep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// mover moves chunks from shard to shard while others work.
type mover struct {
	cluster *mongotest.Server
	chunks  []*chunk
	over    chan struct{} // closed when every chunk has moved as often as it shall
	moved   atomic.Int64
}

type chunk struct {
	coll     *mongo.Collection
	from, to bson.D
	shard    int
}

// some returns all, and n by the seed in a small run.
func some[T any](all []T, n int) []T {
	if !scale.Of(true, false, false) {
		return all
	}
	all = slices.Clone(all)
	random := rand.New(rand.NewPCG(scale.Seed(), 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

// newMover cuts each collection at a third and two thirds of its documents. The chunk in the middle moves, and as a whole
// the last one too. Hashed keys are cut by the hash.
func newMover(t *testing.T, cluster *mongotest.Server, db *mongo.Database, collections []mongopatterns.Sharding) *mover {
	t.Helper()
	m := &mover{cluster: cluster, over: make(chan struct{})}
	for _, s := range collections {
		coll := db.Collection(s.Collection)
		low, high := ends(s.Key)
		cuts := []bson.D{low}
		if s.Key[0].Value == "hashed" {
			for _, at := range []int64{-1 << 62, 1 << 62} {
				cuts = append(cuts, bson.D{{Key: s.Key[0].Key, Value: at}})
			}
		} else {
			keys := keysOf(t, coll, s.Key)
			if len(keys) < 3 {
				t.Fatalf("%s has %d values of its key", s.Collection, len(keys))
			}
			cuts = append(cuts, keys[len(keys)/3], keys[len(keys)*2/3])
		}
		cuts = append(cuts, high)
		m.chunks = append(m.chunks, &chunk{coll, cuts[1], cuts[2], 0})
		if scale.Whole() {
			m.chunks = append(m.chunks, &chunk{coll, cuts[2], cuts[3], 0})
		}
	}
	return m
}

// move moves each chunk to the other shard, and back as often as there is time.
func (m *mover) move(t *testing.T) {
	defer close(m.over)
	for range scale.Of(1, 2, 60) {
		for _, c := range m.chunks {
			c.shard = 1 - c.shard
			if err := m.cluster.Move(t.Context(), c.coll, c.from, c.to, c.shard); err != nil {
				t.Error(err)
				return
			}
			m.moved.Add(1)
		}
	}
}

// moving reports whether chunks still move.
func (m *mover) moving() bool {
	select {
	case <-m.over:
		return false
	default:
		return true
	}
}

// A listing is a list to page over. Its documents come in the order in which they belong.
type listing struct {
	name     string
	sort     bson.D
	opts     *paging.Options
	filter   any
	document func(i int) bson.D // without _id
	down     bool               // the order of the _ids
}

const listLength = 60

// listings have each kind of sort. Every third document has the sort value of its neighbours.
var listings = []listing{
	{name: "_id", document: func(int) bson.D { return testkit.D() }},
	{name: "descending", sort: testkit.D("at", -1), down: true, document: func(i int) bson.D { return testkit.D("at", -i/3) }},
	{name: "two fields", sort: testkit.D("a", 1, "b", -1), down: true, document: func(i int) bson.D { return testkit.D("a", i/12, "b", -i/3) }},
	{name: "a path", sort: testkit.D("a.b", 1), document: func(i int) bson.D { return testkit.D("a", testkit.D("b", i/3)) }},
	{name: "null and missing", sort: testkit.D("a", 1, "b", 1), document: func(i int) bson.D {
		switch {
		case i < 10 && i%2 == 0:
			return testkit.D("b", i/3)
		case i < 10:
			return testkit.D("a", nil, "b", i/3)
		case i < 20 && i%2 == 0:
			return testkit.D("a", 1)
		case i < 20:
			return testkit.D("a", 1, "b", nil)
		}
		return testkit.D("a", i, "b", -i)
	}},
	{name: "types", sort: testkit.D("a", 1), document: func(i int) bson.D {
		return testkit.D("a", []any{i / 3, fmt.Sprint(i), bson.D{{Key: "n", Value: i}}, time.UnixMilli(int64(i))}[i/15])
	}},
	{name: "equality", sort: testkit.D("at", 1), opts: &paging.Options{Equality: []string{"tenant"}}, filter: testkit.D("tenant", "a"),
		document: func(i int) bson.D { return testkit.D("tenant", "a", "at", i/3) }},
	{name: "equality with several values", sort: testkit.D("at", 1), opts: &paging.Options{Equality: []string{"tenant"}}, filter: testkit.D("tenant", testkit.D("$in", bson.A{"a", "b"})),
		document: func(i int) bson.D { return testkit.D("tenant", []string{"a", "b"}[i%2], "at", i) }},
	{name: "collation", sort: testkit.D("a", 1), opts: &paging.Options{Find: options.Find().SetCollation(&options.Collation{Locale: "en", Strength: 2})},
		document: func(i int) bson.D { return testkit.D("a", []string{"%02dx", "%02dX"}[i%2], "n", i) }},
	{name: "one range after the other", sort: testkit.D("a", 1, "b", -1), opts: &paging.Options{Sequential: true}, down: true,
		document: func(i int) bson.D { return testkit.D("a", i/12, "b", -i/3) }},
	{name: "pipeline", sort: testkit.D("a", 1), filter: mongo.Pipeline{testkit.D("$match", testkit.D("a", testkit.D("$gte", 0)))}, document: func(i int) bson.D { return testkit.D("a", i/3) }},
}

// While chunks move, pages and reads of a whole collection are exact, and acknowledged writes are stored once.
func TestWhileChunksMove(t *testing.T) {
	cluster := cluster(t)
	t.Run("pages", func(t *testing.T) { pagesWhileChunksMove(t, cluster) })
	t.Run("reads", func(t *testing.T) { readsWhileChunksMove(t, cluster) })
	t.Run("writes", func(t *testing.T) { writesWhileChunksMove(t, cluster) })
}

// pagesWhileChunksMove fails unless every document is there once, in its place, on pages forwards, backwards and by
// number, and the counts are right.
func pagesWhileChunksMove(t *testing.T, cluster *mongotest.Server) {
	ctx := t.Context()
	db := cluster.Database(t)
	var helpers []mongopatterns.Sharder
	pagers := map[string]*paging.Pager[bson.M]{}
	listings := some(listings, 3)
	for _, l := range listings {
		p := testkit.Must(paging.New[bson.M](db.Collection(l.name), l.sort, l.opts))
		pagers[l.name], helpers = p, append(helpers, p)
		var docs []any
		for i := range listLength {
			id := i
			if l.down {
				id = listLength - i
			}
			d := l.document(i)
			for j, e := range d {
				if format, ok := e.Value.(string); ok && strings.Contains(format, "%") {
					d[j].Value = fmt.Sprintf(format, i)
				}
			}
			docs = append(docs, append(testkit.D("_id", id, "i", i), d...))
		}
		slices.Reverse(docs)
		if _, err := db.Collection(l.name).InsertMany(ctx, docs); err != nil {
			t.Fatal(err)
		}
	}
	m := newMover(t, cluster, db, testkit.Must(mongopatterns.Shard(ctx, db, helpers...)))
	go m.move(t)
	var group sync.WaitGroup
	var walks atomic.Int64
	for _, l := range listings {
		group.Go(func() {
			for first := true; first || m.moving(); first = false {
				l.walk(t, pagers[l.name])
				walks.Add(1)
			}
		})
	}
	group.Wait()
	t.Logf("%d moves, %d walks", m.moved.Load(), walks.Load())
}

// walk reads the list in each way.
func (l listing) walk(t *testing.T, p *paging.Pager[bson.M]) {
	ctx := t.Context()
	var want []int
	for i := range listLength {
		want = append(want, i)
	}
	compare := func(way string, got []int) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, %s: %s", l.name, way, diff)
		}
	}
	numbers := func(items []bson.M) (out []int) {
		for _, d := range items {
			out = append(out, int(d["i"].(int32)))
		}
		return out
	}
	const size = 7
	var forwards, backwards, all, numbered []int
	next := paging.Request{Size: size, Count: paging.CountExact}
	for pages := 0; pages <= listLength; pages++ {
		page, err := p.Page(ctx, l.filter, next)
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
			return
		}
		forwards = append(forwards, numbers(page.Items)...)
		if total := page.Total; total.N != listLength || page.HasPrev != (pages > 0) || page.HasNext != (len(forwards) < listLength) {
			t.Errorf("%s: %+v after %d", l.name, page, len(forwards))
		}
		if !page.HasNext {
			break
		}
		next.After = page.Next
	}
	compare("forwards", forwards)
	back := paging.Request{Size: size, FromEnd: true}
	for pages := 0; pages <= listLength; pages++ {
		page, err := p.Page(ctx, l.filter, back)
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
			return
		}
		backwards = append(numbers(page.Items), backwards...)
		if !page.HasPrev {
			break
		}
		back = paging.Request{Size: size, Before: page.Prev}
	}
	compare("backwards", backwards)
	for d, err := range p.All(ctx, l.filter, paging.Request{Size: size}) {
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
			return
		}
		all = append(all, numbers([]bson.M{d})...)
	}
	compare("all", all)
	position := ""
	for n := int64(1); len(numbered) < listLength && n <= listLength; n++ {
		page, err := p.Page(ctx, l.filter, paging.Request{Size: size, Number: n, From: position})
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
			return
		}
		numbered, position = append(numbered, numbers(page.Items)...), page.Position
	}
	compare("by number", numbered)
}

const (
	writers = 2 // for each call
)

// writesWhileChunksMove fails unless every acknowledged write of several goroutines is stored exactly once, and
// Check finds nothing.
func writesWhileChunksMove(t *testing.T, cluster *mongotest.Server) {
	db := cluster.Database(t)
	s := &registry.Scene{T: t, DB: db}
	all := some(registry.Writings(s), 4)
	var helpers []mongopatterns.Sharder
	for _, w := range all {
		helpers = append(helpers, w.Helpers...)
	}
	done, err := mongopatterns.Shard(t.Context(), db, helpers...)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := make([][registry.Entities][]int, len(all))
	var mu sync.Mutex
	var last atomic.Int64
	write := func(i, e int) bool {
		n := int(last.Add(1))
		if err := all[i].Write(t.Context(), e, n); err != nil {
			t.Errorf("%s: write %d to %d: %v", all[i].Name, n, e, err)
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		acknowledged[i][e] = append(acknowledged[i][e], n)
		return true
	}
	for i := range all {
		for e := range registry.Entities {
			if !write(i, e) {
				return
			}
		}
	}
	m := newMover(t, cluster, db, done)
	go m.move(t)
	var group sync.WaitGroup
	for i := range all {
		for w := range writers {
			group.Go(func() {
				for e := w; m.moving() && write(i, e); e = (e + 1) % registry.Entities {
				}
			})
		}
	}
	group.Wait()
	for i, w := range all {
		n := 0
		for e := range registry.Entities {
			stored := w.Stored(t, e)
			slices.Sort(stored)
			slices.Sort(acknowledged[i][e])
			if diff := cmp.Diff(acknowledged[i][e], stored); diff != "" {
				t.Errorf("%s: %d: acknowledged and stored: %s", w.Name, e, diff)
			}
			n += len(stored)
		}
		for _, h := range w.Helpers {
			if c, ok := h.(mongopatterns.Checker); ok {
				for problem, err := range c.Check(t.Context(), nil) {
					t.Errorf("%s: Check finds %v %v", w.Name, problem, err)
				}
			}
		}
		t.Logf("%s: %d writes", w.Name, n)
	}
	t.Logf("%d moves of %d chunks", m.moved.Load(), len(m.chunks))
}
