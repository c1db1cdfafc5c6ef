package advise_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
)

// A labelled collection is generated so that the patterns in want pay, and no other.
type labelled struct {
	kind     string
	name     string
	want     []string
	docs     []any
	commands []advise.Command
	sources  []any // of the collection with "_source" added
}

// kind makes a collection of n documents.
type kind struct {
	name string
	want []string
	make func(*maker)
}

// shapes are what pays by its documents and reads, and what only looks like it.
var shapes = []kind{
	{"outlier: few very long lists", []string{"outlier"}, (*maker).longTail},
	{"outlier: few long lists of documents", []string{"outlier"}, (*maker).longTailOfDocuments},
	{"subset: pages show the newest", []string{"subset"}, (*maker).newestShown},
	{"subset: the best by a field", []string{"subset"}, (*maker).bestShown},
	{"split: lists leave texts out", []string{"split"}, (*maker).textsLeftOut},
	{"split: lists exclude texts", []string{"split"}, (*maker).textsExcluded},

	{"all lists are long", nil, (*maker).allLong},
	{"lists of all lengths", nil, (*maker).geometric},
	{"lists of two lengths", nil, (*maker).twoLengths},
	{"vectors", nil, (*maker).vectors},
	{"long lists that are small", nil, (*maker).smallTail},
	{"long lists that hold little of all", nil, (*maker).littleTail},
	{"adopted outliers", nil, (*maker).adopted},
	{"polygons", nil, (*maker).polygons},
	{"long lists inside a subdocument", nil, (*maker).nestedTail},
	{"large lists read whole", nil, (*maker).readWhole},
	{"large lists that nobody reads", nil, (*maker).unread},
	{"large lists of which most is shown", nil, (*maker).mostShown},
	{"texts that half of the reads need", nil, (*maker).textsNeeded},
	{"texts that nobody reads", nil, (*maker).textsUnread},
	{"texts that lists filter by", nil, (*maker).textsSearched},
	{"texts that are written all the time", nil, (*maker).textsWritten},
	{"plain documents", nil, (*maker).plain},
}

// questions are what pays by its queries alone, and what only looks like it.
var questions = []kind{
	{"paging: deep pages by a field", []string{"paging"}, (*maker).deepPages},
	{"paging: deep pages by _id", []string{"paging"}, (*maker).deepPagesByID},
	{"tree: subtrees are read", []string{"tree"}, func(m *maker) { m.nodes(0, 3); m.graph(m.between(15, 60), true) }},
	{"tree: the way up is read", []string{"tree"}, func(m *maker) { m.nodes(0.03*m.Float64(), 6); m.graph(m.between(15, 60), false) }},

	{"extref: names are joined", []string{"extref"}, func(m *maker) { m.orders(10, 0.02*m.Float64()); m.join(m.between(60, 200), "name") }},
	{"extref: names of sources that change now and then", []string{"extref"}, func(m *maker) {
		m.orders(2, 0)
		m.join(m.between(100, 200), "name", "city")
		m.change(m.between(1, 4), "name")
		m.change(500, "balance")
	}},

	{"long lists that reads select by", nil, func(m *maker) {
		m.longTail()
		m.send(m.between(20, 60), bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: m.list, Value: "x"}}}})
	}},
	{"joins for all of the source", nil, func(m *maker) { m.orders(10, 0); m.join(m.between(60, 200)) }},
	{"few joins", nil, func(m *maker) { m.orders(10, 0); m.join(m.between(1, 40), "name") }},
	{"joins for what changes often", nil, func(m *maker) {
		m.orders(10, 0)
		m.join(m.between(60, 200), "balance")
		m.change(m.between(30, 200), "balance")
	}},
	{"joins that lead nowhere", nil, func(m *maker) { m.orders(10, 0.15+0.5*m.Float64()); m.join(m.between(60, 200), "name") }},
	{"pages near the beginning", nil, (*maker).shallowPages},
	{"few deep pages", nil, (*maker).fewDeepPages},
	{"deep pages by an array", nil, (*maker).pagesByArray},
	{"pages behind the end", nil, (*maker).pagesBehindTheEnd},
	{"deep pages in the order of storage", nil, (*maker).pagesByNatural},
	{"a tree that nobody climbs", nil, func(m *maker) { m.nodes(0, 3) }},
	{"a tree that is climbed rarely", nil, func(m *maker) { m.nodes(0, 3); m.graph(m.between(1, 8), true) }},
	{"a tree of many that is broken", nil, func(m *maker) { m.nodes(0.1+0.3*m.Float64(), 3); m.graph(m.between(15, 60), true) }},
	{"a chain", nil, func(m *maker) { m.nodes(0, 1); m.graph(m.between(15, 60), true) }},
	{"two levels", nil, (*maker).twoLevels},
	{"circles", nil, (*maker).circles},
	{"a graph", nil, (*maker).severalParents},
	{"plain documents", nil, (*maker).plain},
}

// database makes some labelled collections of n documents, always the same for a seed.
func database(kinds []kind, seed uint64, n, collections int) []labelled {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	var out []labelled
	for i, k := range r.Perm(len(kinds))[:collections] {
		out = append(out, generate(r, kinds[k], n, fmt.Sprintf("%s%d", words[r.IntN(len(words))], i)))
	}
	return out
}

func generate(r *rand.Rand, kind kind, n int, name string) labelled {
	m := &maker{Rand: r, n: n, made: map[string]bson.RawValue{}, out: &labelled{kind: kind.name, name: name, want: kind.want}}
	m.list, m.text = words[r.IntN(len(words))]+"_list", words[r.IntN(len(words))]+"_text"
	kind.make(m)
	return *m.out
}

var words = []string{"order", "product", "film", "user", "host", "ticket", "post", "song", "room", "city", "plant", "paper"}

// maker fills one collection.
type maker struct {
	*rand.Rand
	n          int
	list, text string // names of fields
	made       map[string]bson.RawValue
	out        *labelled
}

func (m *maker) between(low, high int) int { return low + m.IntN(high-low+1) }

func (m *maker) string(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[m.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// add adds a document with some small fields and these.
func (m *maker) add(fields ...bson.E) {
	m.out.docs = append(m.out.docs, append(bson.D{
		{Key: "_id", Value: len(m.out.docs)},
		{Key: "title", Value: words[m.IntN(len(words))] + " " + words[m.IntN(len(words))]},
		{Key: "year", Value: m.between(1900, 2026)},
		{Key: "price", Value: m.Float64()},
	}, fields...))
}

// send records a command that many readers sent.
func (m *maker) send(times int, command bson.D) {
	command = append(command, bson.E{Key: "$db", Value: ""})
	raw, err := bson.Marshal(command)
	if err != nil {
		panic(err)
	}
	for range times {
		m.out.commands = append(m.out.commands, advise.Command{Name: command[0].Key, Collection: command[0].Value.(string), Body: raw})
	}
}

func (m *maker) find(times int, projection bson.D) {
	command := bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: "year", Value: 1999}}}}
	if projection != nil {
		command = append(command, bson.E{Key: "projection", Value: projection})
	}
	m.send(times, command)
}

// once encodes a value the first time and gives the same bytes again: databases are
// made by the hundred.
func (m *maker) once(key string, value func() any) bson.RawValue {
	if raw, ok := m.made[key]; ok {
		return raw
	}
	kind, raw, err := bson.MarshalValue(value())
	if err != nil {
		panic(err)
	}
	m.made[key] = bson.RawValue{Type: kind, Value: raw}
	return m.made[key]
}

// array is a list of n elements.
func (m *maker) array(n int, element func() any) bson.RawValue {
	return m.once(fmt.Sprint(n), func() any {
		list := make(bson.A, n)
		for i := range list {
			list[i] = element()
		}
		return list
	})
}

func (m *maker) strings(n, size int) bson.RawValue {
	return m.array(n, func() any { return fmt.Sprintf("%0*d", size, m.IntN(1_000_000)) })
}

func (m *maker) reviews(n, size int) bson.RawValue {
	text := m.string(size)
	return m.array(n, func() any {
		return bson.D{{Key: "stars", Value: m.IntN(5)}, {Key: "text", Value: text}}
	})
}

// short is a length around mean, as most lists have.
func (m *maker) short(mean int) int { return min(int(m.ExpFloat64()*float64(mean)), 4*mean) }

// tail adds documents of which few have lists that are long times longer, and hold
// the given share of all elements or somewhat more.
func (m *maker) tail(make func(n int) any) {
	mean := m.between(3, 20)
	outliers := max(1, int(float64(m.n)*(0.002+0.02*m.Float64())))
	share := 0.2 + 0.5*m.Float64()
	long := int(share / (1 - share) * float64(mean*m.n) / float64(outliers))
	long = min(max(long, 1500), 20_000)
	first := m.IntN(m.n - outliers)
	for i := range m.n {
		n := m.short(mean)
		if i >= first && i < first+outliers {
			n = m.between(long, long*3/2)
		}
		m.add(bson.E{Key: m.list, Value: make(n)})
	}
}

func (m *maker) longTail() {
	size := m.between(20, 40)
	m.tail(func(n int) any { return m.strings(n, size) })
}

func (m *maker) longTailOfDocuments() {
	m.tail(func(n int) any {
		return m.array(n, func() any {
			return bson.D{{Key: "sku", Value: m.IntN(1000)}, {Key: "quantity", Value: m.IntN(9)}}
		})
	})
}

func (m *maker) large() {
	most := m.between(40, 60)
	for range m.n {
		m.add(bson.E{Key: m.list, Value: m.reviews(m.between(30, most), m.between(60, 100))})
	}
}

func (m *maker) newestShown() {
	m.large()
	m.find(m.between(20, 90), bson.D{{Key: m.list, Value: bson.D{{Key: "$slice", Value: -m.between(3, 10)}}}})
	m.find(m.between(0, 10), nil)
}

func (m *maker) bestShown() {
	m.large()
	m.send(m.between(20, 90), bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "_id", Value: 7}}}},
		bson.D{{Key: "$unwind", Value: "$" + m.list}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: m.list + ".stars", Value: -1}}}},
		bson.D{{Key: "$limit", Value: m.between(3, 10)}},
	}}})
}

func (m *maker) texts() {
	low := m.between(1400, 2500)
	for range m.n {
		n := m.IntN(30)
		text := m.once(fmt.Sprint(n), func() any { return m.string(low + 50*n) })
		plot := m.once(fmt.Sprint("plot", n), func() any { return m.string(100 + 20*n) })
		m.add(bson.E{Key: m.text, Value: text}, bson.E{Key: "details", Value: bson.D{{Key: "plot", Value: plot}}})
	}
}

func (m *maker) textsLeftOut() {
	m.texts()
	m.find(m.between(60, 200), bson.D{{Key: "title", Value: 1}, {Key: "year", Value: 1}, {Key: "price", Value: 1}})
	m.find(m.between(0, 12), nil)
}

func (m *maker) textsExcluded() {
	m.texts()
	m.find(m.between(60, 200), bson.D{{Key: m.text, Value: 0}, {Key: "details", Value: 0}})
	m.find(m.between(0, 12), nil)
}

func (m *maker) allLong() {
	for range m.n {
		m.add(bson.E{Key: m.list, Value: m.strings(m.between(150, 250), 8)})
	}
}

func (m *maker) geometric() {
	mean := m.between(3, 40)
	for range m.n {
		m.add(bson.E{Key: m.list, Value: m.strings(int(m.ExpFloat64()*float64(mean)), 20)})
	}
}

func (m *maker) twoLengths() {
	part := 0.12 + 0.3*m.Float64()
	for range m.n {
		n := m.short(5)
		if m.Float64() < part {
			n = m.between(250, 350)
		}
		m.add(bson.E{Key: m.list, Value: m.strings(n, 10)})
	}
}

func (m *maker) vectors() {
	for range m.n {
		m.add(bson.E{Key: m.list, Value: m.array(256, func() any { return m.NormFloat64() })})
	}
}

func (m *maker) smallTail() {
	for i := range m.n {
		n := m.short(4)
		if i%100 == 7 {
			n = m.between(300, 600)
		}
		m.add(bson.E{Key: m.list, Value: m.array(n, func() any { return int32(n) })})
	}
}

func (m *maker) littleTail() {
	for i := range m.n {
		n := m.between(40, 60)
		if i%200 == 9 {
			n = m.between(500, 700)
		}
		m.add(bson.E{Key: m.list, Value: m.strings(n, 70)})
	}
}

func (m *maker) adopted() {
	for i := range m.n {
		if i%80 == 3 {
			m.add(bson.E{Key: m.list, Value: m.strings(1000, 40)}, bson.E{Key: m.list + "_overflow", Value: true}, bson.E{Key: m.list + "_outside", Value: int64(4000)})
			continue
		}
		m.add(bson.E{Key: m.list, Value: m.strings(m.short(8), 40)})
	}
}

func (m *maker) polygons() {
	for i := range m.n {
		n := m.between(4, 12)
		if i%100 == 5 {
			n = m.between(2000, 4000)
		}
		line := m.array(n, func() any { return bson.A{m.Float64(), m.Float64()} })
		m.add(bson.E{Key: "type", Value: "LineString"}, bson.E{Key: "coordinates", Value: line})
	}
}

func (m *maker) nestedTail() {
	m.tail(func(n int) any {
		return bson.D{{Key: "inner", Value: m.strings(n, 30)}}
	})
}

func (m *maker) readWhole() {
	m.large()
	m.find(m.between(30, 60), nil)
	m.find(m.between(0, 20), bson.D{{Key: m.list, Value: bson.D{{Key: "$slice", Value: -5}}}})
}

func (m *maker) unread() { m.large() }

func (m *maker) mostShown() {
	m.large()
	m.find(40, bson.D{{Key: m.list, Value: bson.D{{Key: "$slice", Value: m.between(28, 60)}}}})
}

func (m *maker) textsNeeded() {
	m.texts()
	m.find(m.between(60, 100), bson.D{{Key: "title", Value: 1}})
	m.find(m.between(60, 100), nil)
}

func (m *maker) textsUnread() { m.texts() }

func (m *maker) textsSearched() {
	m.texts()
	m.send(100, bson.D{{Key: "find", Value: m.out.name},
		{Key: "filter", Value: bson.D{{Key: m.text, Value: bson.D{{Key: "$regex", Value: "x"}}}, {Key: "details.plot", Value: "y"}}},
		{Key: "projection", Value: bson.D{{Key: "title", Value: 1}}}})
}

func (m *maker) textsWritten() {
	m.texts()
	m.find(m.between(60, 90), bson.D{{Key: "title", Value: 1}})
	for _, field := range []string{m.text, "details.plot"} {
		m.send(100, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{
			bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: "z"}}}}}},
		}}})
	}
}

func (m *maker) plain() {
	for range m.n {
		m.add(bson.E{Key: "tags", Value: m.strings(m.IntN(5), 8)})
	}
}

// pages sends finds of pages of 20 that skip from least to most documents.
func (m *maker) pages(times, least, most int, sort bson.D) {
	if most <= 1000 {
		m.out.want = nil // too few documents for deep pages
	}
	for range times {
		m.send(1, bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{}}, {Key: "sort", Value: sort},
			{Key: "skip", Value: int64(m.between(min(least, most), most))}, {Key: "limit", Value: int64(20)}})
	}
}

func (m *maker) deepPages() {
	m.plain()
	m.pages(m.between(20, 60), 1001, m.n-50, bson.D{{Key: "year", Value: -1}, {Key: "title", Value: 1}})
}

func (m *maker) deepPagesByID() {
	m.plain()
	m.pages(m.between(20, 60), 1001, m.n-50, bson.D{{Key: "_id", Value: 1}})
}

func (m *maker) shallowPages() {
	m.plain()
	m.pages(m.between(20, 60), 0, min(m.n-50, 900), bson.D{{Key: "year", Value: -1}})
}

func (m *maker) fewDeepPages() {
	m.plain()
	m.pages(m.between(1, 8), 1001, m.n-50, bson.D{{Key: "year", Value: -1}})
	m.pages(100, 0, 500, bson.D{{Key: "year", Value: -1}})
}

func (m *maker) pagesByArray() {
	m.plain()
	m.pages(m.between(20, 60), 1001, m.n-50, bson.D{{Key: "tags", Value: 1}})
}

func (m *maker) pagesBehindTheEnd() {
	m.plain()
	m.pages(m.between(20, 60), m.n, 2*m.n, bson.D{{Key: "year", Value: -1}})
}

func (m *maker) pagesByNatural() {
	m.plain()
	m.pages(m.between(20, 60), 1001, m.n-50, bson.D{{Key: "$natural", Value: -1}})
}

// orders adds documents that refer to sources, perSource to each, of which a share does
// not exist.
func (m *maker) orders(perSource int, dangling float64) {
	sources := m.n / perSource
	for i := range sources {
		m.out.sources = append(m.out.sources, bson.D{{Key: "_id", Value: i}, {Key: "name", Value: m.string(12)}, {Key: "city", Value: "X"}, {Key: "balance", Value: i}})
	}
	for range m.n {
		to := m.IntN(sources)
		if m.Float64() < dangling {
			to += sources
		}
		m.add(bson.E{Key: m.text, Value: to})
	}
	if sources < 100 {
		m.out.want = nil // too few to be looked at
	}
}

// join sends lists with fields of the source.
func (m *maker) join(times int, fields ...string) {
	pipeline := bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "year", Value: 1999}}}},
		bson.D{{Key: "$lookup", Value: bson.D{{Key: "from", Value: m.out.name + "_source"}, {Key: "localField", Value: m.text}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "joined"}}}},
	}
	if len(fields) > 0 {
		projection := bson.D{{Key: "title", Value: 1}}
		for _, name := range fields {
			projection = append(projection, bson.E{Key: "joined." + name, Value: 1})
		}
		pipeline = append(pipeline, bson.D{{Key: "$project", Value: projection}})
	}
	m.send(times, bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: pipeline}})
}

// change sends updates of a field of the source.
func (m *maker) change(times int, field string) {
	m.send(times, bson.D{{Key: "update", Value: m.out.name + "_source"}, {Key: "updates", Value: bson.A{
		bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: "z"}}}}}},
	}}})
}

// nodes adds a tree of which each node has up to fan children, and a share of the
// references leads nowhere.
func (m *maker) nodes(dangling float64, fan int) {
	for i := range m.n {
		parent := any(nil)
		switch {
		case i > 0 && m.Float64() < dangling:
			parent = m.n + i
		case i > 0:
			parent = (i - 1) / fan
		}
		m.add(bson.E{Key: m.text, Value: parent})
	}
}

// graph sends $graphLookups down, or up.
func (m *maker) graph(times int, down bool) {
	from, to, start := m.text, "_id", "$"+m.text
	if down {
		from, to, start = "_id", m.text, "$_id"
	}
	m.send(times, bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "_id", Value: 5}}}},
		bson.D{{Key: "$graphLookup", Value: bson.D{{Key: "from", Value: m.out.name}, {Key: "startWith", Value: start},
			{Key: "connectFromField", Value: from}, {Key: "connectToField", Value: to}, {Key: "as", Value: "found"}}}},
	}}})
}

func (m *maker) twoLevels() {
	for i := range m.n {
		parent := any(nil)
		if i >= 10 {
			parent = i % 10
		}
		m.add(bson.E{Key: m.text, Value: parent})
	}
	m.graph(m.between(15, 60), true)
}

func (m *maker) circles() {
	for i := range m.n {
		m.add(bson.E{Key: m.text, Value: (i + 7) % m.n / 2})
	}
	m.graph(m.between(15, 60), false)
}

func (m *maker) severalParents() {
	for i := range m.n {
		m.add(bson.E{Key: m.text, Value: bson.A{i / 3, i / 4}})
	}
	m.graph(m.between(15, 60), false)
}

// store inserts the collections and returns the queries that go with them.
func store(t testing.TB, db *mongo.Database, all []labelled) []advise.Query {
	t.Helper()
	var queries []advise.Query
	for _, c := range all {
		insert(t, db.Collection(c.name), c.docs)
		if len(c.sources) > 0 {
			insert(t, db.Collection(c.name+"_source"), c.sources)
		}
		queries = append(queries, advise.Commands(c.commands)...)
	}
	return queries
}

func insert(t testing.TB, coll *mongo.Collection, docs []any) {
	t.Helper()
	ctx := context.Background()
	if _, err := coll.InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
}
