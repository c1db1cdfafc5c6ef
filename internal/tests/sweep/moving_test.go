package sweep

import (
	"context"
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
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
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
	{name: "_id", document: func(int) bson.D { return doc() }},
	{name: "descending", sort: doc("at", -1), down: true, document: func(i int) bson.D { return doc("at", -i/3) }},
	{name: "two fields", sort: doc("a", 1, "b", -1), down: true, document: func(i int) bson.D { return doc("a", i/12, "b", -i/3) }},
	{name: "a path", sort: doc("a.b", 1), document: func(i int) bson.D { return doc("a", doc("b", i/3)) }},
	{name: "null and missing", sort: doc("a", 1, "b", 1), document: func(i int) bson.D {
		switch {
		case i < 10 && i%2 == 0:
			return doc("b", i/3)
		case i < 10:
			return doc("a", nil, "b", i/3)
		case i < 20 && i%2 == 0:
			return doc("a", 1)
		case i < 20:
			return doc("a", 1, "b", nil)
		}
		return doc("a", i, "b", -i)
	}},
	{name: "types", sort: doc("a", 1), document: func(i int) bson.D {
		return doc("a", []any{i / 3, fmt.Sprint(i), bson.D{{Key: "n", Value: i}}, time.UnixMilli(int64(i))}[i/15])
	}},
	{name: "equality", sort: doc("at", 1), opts: &paging.Options{Equality: []string{"tenant"}}, filter: doc("tenant", "a"),
		document: func(i int) bson.D { return doc("tenant", "a", "at", i/3) }},
	{name: "equality with several values", sort: doc("at", 1), opts: &paging.Options{Equality: []string{"tenant"}}, filter: doc("tenant", doc("$in", bson.A{"a", "b"})),
		document: func(i int) bson.D { return doc("tenant", []string{"a", "b"}[i%2], "at", i) }},
	{name: "collation", sort: doc("a", 1), opts: &paging.Options{Find: options.Find().SetCollation(&options.Collation{Locale: "en", Strength: 2})},
		document: func(i int) bson.D { return doc("a", []string{"%02dx", "%02dX"}[i%2], "n", i) }},
	{name: "one range after the other", sort: doc("a", 1, "b", -1), opts: &paging.Options{Sequential: true}, down: true,
		document: func(i int) bson.D { return doc("a", i/12, "b", -i/3) }},
	{name: "pipeline", sort: doc("a", 1), filter: mongo.Pipeline{doc("$match", doc("a", doc("$gte", 0)))}, document: func(i int) bson.D { return doc("a", i/3) }},
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
			docs = append(docs, append(doc("_id", id, "i", i), d...))
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
	writers  = 2 // for each call
	entities = 6 // that they write to, so that they meet
)

// A writing is a call whose acknowledged writes are counted.
type writing struct {
	name    string
	helpers []mongopatterns.Sharder
	// write makes write n to entity e; each n occurs once.
	write func(ctx context.Context, e, n int) error
	// stored are the writes that an entity shows.
	stored func(t *testing.T, e int) []int
}

// writesWhileChunksMove fails unless every acknowledged write of several goroutines is stored exactly once, and
// Check finds nothing.
func writesWhileChunksMove(t *testing.T, cluster *mongotest.Server) {
	db := cluster.Database(t)
	s := &scene{t, db}
	all := some(writings(s), 4)
	var helpers []mongopatterns.Sharder
	for _, w := range all {
		helpers = append(helpers, w.helpers...)
	}
	done, err := mongopatterns.Shard(t.Context(), db, helpers...)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := make([][entities][]int, len(all))
	var mu sync.Mutex
	var last atomic.Int64
	write := func(i, e int) bool {
		n := int(last.Add(1))
		if err := all[i].write(t.Context(), e, n); err != nil {
			t.Errorf("%s: write %d to %d: %v", all[i].name, n, e, err)
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		acknowledged[i][e] = append(acknowledged[i][e], n)
		return true
	}
	for i := range all {
		for e := range entities {
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
				for e := w; m.moving() && write(i, e); e = (e + 1) % entities {
				}
			})
		}
	}
	group.Wait()
	for i, w := range all {
		n := 0
		for e := range entities {
			stored := w.stored(t, e)
			slices.Sort(stored)
			slices.Sort(acknowledged[i][e])
			if diff := cmp.Diff(acknowledged[i][e], stored); diff != "" {
				t.Errorf("%s: %d: acknowledged and stored: %s", w.name, e, diff)
			}
			n += len(stored)
		}
		for _, h := range w.helpers {
			if c, ok := h.(mongopatterns.Checker); ok {
				for problem, err := range c.Check(t.Context(), nil) {
					t.Errorf("%s: Check finds %v %v", w.name, problem, err)
				}
			}
		}
		t.Logf("%s: %d writes", w.name, n)
	}
	t.Logf("%d moves of %d chunks", m.moved.Load(), len(m.chunks))
}

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

// keyed shards a collection that belongs to no pattern.
type keyed struct {
	coll *mongo.Collection
	key  bson.D
}

func (k keyed) Indexes() map[string][]mongo.IndexModel { return nil }
func (k keyed) EnsureIndexes(context.Context) error    { return nil }
func (k keyed) ShardKey() map[string]bson.D            { return map[string]bson.D{k.coll.Name(): k.key} }

// writings have the main calls that write.
func writings(s *scene) (out []writing) {
	ctx := s.Context()
	add := func(w writing) { out = append(out, w) }
	moment := func(n int) time.Time { return nine.Add(time.Duration(n) * time.Millisecond) }
	from, to := nine, nine.Add(24*time.Hour)
	name := func(e int) string { return string(rune('A' + e)) }
	number := func(r reading) int { return r.ID }

	b := testkit.Must(bucket.New[string, reading](s.coll("buckets"), timeseries.Every(time.Hour), &bucket.Options{MaxCount: 9, IDField: "id"}))
	add(writing{"bucket.Append", sharders(b), func(ctx context.Context, e, n int) error {
		return void(b.Append(ctx, name(e), reading{n, moment(n), n}))
	}, func(t *testing.T, e int) []int { return collected(t, b.Range(ctx, name(e), from, to), number) }})

	v := newEvents(s, "events", true)
	add(writing{"series.Append", sharders(v), func(ctx context.Context, e, n int) error {
		return v.Append(ctx, name(e), reading{n, moment(n), n})
	}, func(t *testing.T, e int) []int { return collected(t, v.Range(ctx, name(e), from, to), number) }})

	l := newSlots(s, "slots")
	add(writing{"slots.Set", sharders(l), func(ctx context.Context, e, n int) error {
		return l.Set(ctx, name(e), nine.Add(time.Duration(n)*time.Minute), n)
	}, func(t *testing.T, e int) []int {
		return collected(t, l.Range(ctx, name(e), from, from.AddDate(1, 0, 0)), func(v slots.Slot[int]) int { return v.Value })
	}})

	r := newReviews(s)
	for e := range entities {
		s.ok(void(s.coll("products").UpdateByID(ctx, e, doc("$set", doc("p", e)), options.UpdateOne().SetUpsert(true))))
	}
	add(writing{"subset.Insert", sharders(r), func(ctx context.Context, e, n int) error {
		return void(r.Insert(ctx, e, review(n)))
	}, func(t *testing.T, e int) []int {
		return collected(t, r.All(ctx, e), func(d bson.D) int { return int(d[0].Value.(int32)) })
	}})

	o := testkit.Must(outlier.New[int, int](s.coll("books"), s.coll("books_overflow"), &outlier.Options{MaxCount: 8, OverflowMaxCount: 8}))
	for e := range entities {
		s.insert("books", doc("_id", e))
		s.ok(void(o.Add(ctx, e, -1, -2, -3, -4, -5, -6, -7, -8, -9))) // which overflows
	}
	add(writing{"outlier.Add", sharders(o), func(ctx context.Context, e, n int) error {
		return void(o.Add(ctx, e, n))
	}, func(t *testing.T, e int) []int {
		return slices.DeleteFunc(collected(t, o.All(ctx, e), func(n int) int { return n }), func(n int) bool { return n < 0 })
	}})

	type numbered struct {
		ID      int `bson:"_id"`
		Numbers []int
	}
	h := testkit.Must(versioning.New[int, numbered](s.coll("policies"), s.coll("revisions"), nil))
	for e := range entities {
		s.ok(void(h.Insert(ctx, numbered{ID: e}, by)))
	}
	add(writing{"versioning.Edit", sharders(h), func(ctx context.Context, e, n int) error {
		return void(h.Edit(ctx, e, func(d *numbered) error { d.Numbers = append(d.Numbers, n); return nil }, by))
	}, func(t *testing.T, e int) []int {
		d, err := h.Get(ctx, e)
		if err != nil || d.Number != int64(len(d.Document.Numbers)+1) {
			t.Errorf("revision %d, %v", d.Number, err)
		}
		return d.Document.Numbers
	}})

	representations := []tree.Representation{tree.AncestorArray, tree.NestedSets}
	additive, links := []bool{false}, []string{"two-way"}
	if scale.Whole() {
		representations = append(representations, tree.ParentReferences, tree.ChildReferences, tree.MaterializedPath)
		additive, links = append(additive, true), append(links, "owner", "links")
	}
	for _, rep := range representations {
		coll := "nodes " + strings.ReplaceAll(rep.String(), " ", "")
		c := testkit.Must(tree.New[int, bson.D](s.coll(coll), rep, nil))
		s.ok(c.EnsureIndexes(ctx))
		for e := range entities {
			s.ok(void(c.Insert(ctx, doc("_id", -1-e), c.AsRoot())))
		}
		below := func(t *testing.T, e int) []int {
			return collected(t, c.Descendants(ctx, -1-e, 0), func(d bson.D) int { return int(d[0].Value.(int32)) })
		}
		add(writing{"tree.Insert and Move, " + rep.String(), sharders(c), func(ctx context.Context, e, n int) error {
			if _, err := c.Insert(ctx, doc("_id", n), c.Under(-1-(e+1)%entities)); err != nil {
				return err
			}
			return c.Move(ctx, n, c.Under(-1-e))
		}, below})
	}

	x := testkit.Must(extref.New[int, bson.D](s.coll("customers"), []extref.Target{{Collection: s.coll("orders"), Path: "customer", Fields: []extref.Field{{Path: "n"}}}}, nil))
	for e := range entities {
		d := doc("_id", e, "n", 0, "version", int64(1), "all", bson.A{})
		s.insert("customers", d)
		for i := range 3 {
			s.insert("orders", doc("_id", 10*i+e, "customer", testkit.Must(x.Copy("orders.customer", d))))
		}
	}
	orders := keyed{s.coll("orders"), doc("_id", 1)}
	add(writing{"extref.Update", append(sharders(x), orders), func(ctx context.Context, e, n int) error {
		return void(x.Update(ctx, e, doc("$set", doc("n", n), "$push", doc("all", n))))
	}, func(t *testing.T, e int) []int {
		var d struct{ All []int }
		if err := s.coll("customers").FindOne(ctx, doc("_id", e)).Decode(&d); err != nil {
			t.Error(err)
		}
		return d.All
	}})

	for _, additive := range additive {
		kind := map[bool]string{false: "", true: ", additive"}[additive]
		screenings, films := s.coll("screenings"+kind), s.coll("films"+kind)
		c := testkit.Must(computed.New[int, int, bson.D](screenings, films, computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{doc("$group", doc("_id", "$film", "viewers", doc("$sum", "$viewers")))},
			Empty:    doc("viewers", 0),
		}, &computed.Options{Additive: additive}))
		for e := range entities {
			s.ok(void(films.InsertOne(ctx, doc("_id", e))))
		}
		s.ok(void(c.Adopt(ctx, nil)))
		add(writing{"computed.Change" + kind, sharders(c), func(ctx context.Context, e, n int) error {
			return c.Change(ctx, []int{n}, func(ctx context.Context) error {
				return void(screenings.InsertOne(ctx, doc("_id", n, "film", e, "viewers", 1)))
			})
		}, func(t *testing.T, e int) []int {
			cursor, err := screenings.Find(ctx, doc("film", e))
			var docs []struct {
				ID int `bson:"_id"`
			}
			if err == nil {
				err = cursor.All(ctx, &docs)
			}
			var film struct{ Viewers int }
			if err == nil {
				err = films.FindOne(ctx, doc("_id", e)).Decode(&film)
			}
			var ids []int
			for _, d := range docs {
				ids = append(ids, d.ID)
			}
			if err != nil || film.Viewers != len(ids) {
				t.Errorf("%d viewers of %d, %v", film.Viewers, len(ids), err)
			}
			return ids
		}})
	}

	for _, kind := range links {
		add(linking(s, kind, name))
	}

	counters := testkit.Must(approx.New[string](s.coll("views"), &approx.Options{Every: 1}))
	var counted [entities]struct {
		sync.Mutex
		all []int
	}
	add(writing{"approx.Add", sharders(counters), func(ctx context.Context, e, n int) error {
		counted[e].Lock()
		counted[e].all = append(counted[e].all, n)
		counted[e].Unlock()
		return counters.Add(ctx, name(e), 1)
	}, func(t *testing.T, e int) []int {
		n, err := counters.Get(ctx, name(e))
		if err != nil || int(n) != len(counted[e].all) {
			t.Errorf("approx: %d counted of %d, %v", n, len(counted[e].all), err)
		}
		return counted[e].all
	}})

	g := testkit.Must(prealloc.New[int, int](s.coll("seats"), nil))
	var grids [entities]struct {
		sync.Mutex
		all []int
	}
	add(writing{"prealloc.Insert, Hold and Claim", sharders(g), func(ctx context.Context, e, n int) error {
		grids[e].Lock()
		grids[e].all = append(grids[e].all, n)
		grids[e].Unlock()
		if err := g.Insert(ctx, n, nil, prealloc.Row("A", 3)...); err != nil {
			return err
		}
		if err := g.Hold(ctx, n, n, time.Hour, seat("1"), seat("2")); err != nil {
			return err
		}
		return g.Claim(ctx, n, n, seat("1"))
	}, func(t *testing.T, e int) (out []int) {
		for _, n := range grids[e].all {
			cells, err := g.Cells(ctx, n)
			if err != nil || len(cells) != 3 || !cells[0].Until.IsZero() || cells[1].Until.IsZero() || cells[1].By != n || !cells[2].Free {
				t.Errorf("%+v, %v", cells, err)
				continue
			}
			out = append(out, cells[0].By)
		}
		return out
	}})
	return out
}

// linking links a new child to a parent.
func linking(s *scene, kind string, name func(e int) string) writing {
	ctx := s.Context()
	people, children := s.coll("people "+kind), s.coll("tasks "+kind)
	r := testkit.Must(relation.New[string, int, bson.D](people, children, kinds(s)[kind]))
	for e := range entities {
		s.insert(people.Name(), doc("_id", name(e)))
	}
	return writing{"relation.Link, " + kind, sharders(r), func(ctx context.Context, e, n int) error {
		if _, err := children.InsertOne(ctx, doc("_id", n)); err != nil {
			return err
		}
		return r.Link(ctx, name(e), n)
	}, func(t *testing.T, e int) (out []int) {
		joined, err := r.Children(ctx, name(e), nil)
		if err != nil || len(joined.Dangling) > 0 {
			t.Errorf("%v, %v", joined.Dangling, err)
		}
		for _, d := range joined.Items {
			out = append(out, int(d[0].Value.(int32)))
		}
		return out
	}}
}
