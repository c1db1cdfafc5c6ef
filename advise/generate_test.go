package advise_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
)

// A labelled collection is generated so that the patterns in want pay, and no other.
type labelled struct {
	kind     string
	name     string
	want     []string
	docs     []any
	commands []advise.Command
	indexes  []mongo.IndexModel
	sources  []any // of the collection with "_source" added
	log      []logged
}

// logged is a line of the server's log.
type logged struct {
	at      time.Time
	kind    string // update, command
	command bson.D
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
	{"split: the page of one document names its fields", []string{"split"}, func(m *maker) { m.texts(); m.fieldsOfOne(20, 4) }},

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
	{"texts that the pages of one document name", nil, func(m *maker) { m.texts(); m.fieldsOfOne(60, 1) }},
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

	{"relation: children one by one, by a list", []string{"relation"}, func(m *maker) { m.students(10, 0.12*m.Float64()); m.oneByOne(m.between(8, 20), m.between(7, 15), true) }},
	{"relation: children one by one, by an owner", []string{"relation"}, func(m *maker) { m.orders(3, 0.02*m.Float64()); m.oneByOne(m.between(8, 20), m.between(7, 15), false) }},
	{"extref: names of lines are joined", []string{"extref"}, func(m *maker) { m.lines(false); m.join(m.between(60, 200), "name") }},
	{"lines in boxes are joined", nil, func(m *maker) { m.lines(true); m.join(m.between(60, 200), "name") }},
	{"tree: lists of children are followed", []string{"tree"}, func(m *maker) { m.children(3); m.graph(m.between(15, 60), false) }},
	{"tree: parts that are in several assemblies", []string{"tree"}, func(m *maker) { m.children(2); m.graph(m.between(15, 60), false) }},
	{"relation: references that deletes left behind", []string{"relation"}, func(m *maker) {
		m.orders(2, 0.08+0.07*m.Float64())
		m.join(m.between(60, 200), "name")
		m.remove(m.between(3, 20))
	}},
	{"references to what was never there", nil, func(m *maker) { m.orders(2, 0.08+0.07*m.Float64()); m.join(m.between(60, 200), "name") }},
	{"relation: embedded children that are read alone", []string{"relation"}, func(m *maker) { m.embedded(false); m.alone(m.between(60, 150)); m.find(m.between(0, 40), nil) }},
	{"relation: embedded children that others join", []string{"relation"}, func(m *maker) {
		m.embedded(false)
		m.send(m.between(60, 150), bson.D{{Key: "aggregate", Value: m.out.name + "_source"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$lookup", Value: bson.D{
			{Key: "from", Value: m.out.name}, {Key: "localField", Value: "child"}, {Key: "foreignField", Value: m.list + "._id"}, {Key: "as", Value: "joined"}}}}}}})
	}},
	{"relation: lists of references that grow", []string{"relation"}, func(m *maker) { m.references(true); m.push(m.between(12, 60)) }},
	{"attribute: many indexed fields that most lack", []string{"attribute"}, func(m *maker) { m.specs("", m.some(), 0.35); m.index(1, false) }},
	{"attribute: many indexed fields of a subdocument", []string{"attribute"}, func(m *maker) {
		m.specs("specs.", m.some(), 0.35)
		m.index(1, false)
		m.ask(m.between(20, 80), 1)
	}},
	{"series: measurements read by range", []string{"series"}, func(m *maker) { m.measurements(m.between(1, 3), time.Minute); m.ranges(m.between(15, 60)) }},
	{"series: measurements by the hour, and some other reads", []string{"series"}, func(m *maker) {
		m.measurements(m.between(1, 3), time.Hour)
		m.ranges(m.between(40, 60))
		m.find(m.between(0, 8), nil)
	}},
	{"series: measurements in lists", []string{"series"}, func(m *maker) { m.measuredLists(false); m.find(m.between(10, 60), nil); m.push(m.between(12, 60)) }},
	{"comments in lists", nil, func(m *maker) { m.measuredLists(true); m.find(m.between(10, 60), nil); m.push(m.between(12, 60)) }},
	{"measurements in lists that do not grow", nil, func(m *maker) { m.measuredLists(false); m.find(m.between(10, 60), nil) }},
	{"measurements that are found by _id", nil, func(m *maker) { m.measurements(2, time.Minute); m.ranges(12); m.find(m.between(30, 60), nil) }},
	{"one measurement a week", nil, func(m *maker) { m.measurements(2, 7*24*time.Hour); m.ranges(m.between(15, 60)) }},
	{"events of many customers", nil, func(m *maker) { m.measurements(m.n/20, time.Minute); m.ranges(m.between(15, 60)) }},
	{"series: measurements at milliseconds", []string{"series"}, func(m *maker) { m.measurements(m.between(1, 3), time.Minute); m.inMilliseconds(true) }},
	{"measurements at numbers that are no times", nil, func(m *maker) { m.measurements(m.between(1, 3), time.Minute); m.inMilliseconds(false) }},
	{"measurements that nobody reads", nil, func(m *maker) { m.measurements(2, time.Minute) }},
	{"indexed fields that most have", nil, func(m *maker) { m.specs("", m.some(), 0.9); m.index(1, false) }},
	{"few indexed fields", nil, func(m *maker) { m.specs("", m.between(4, 9), 0.3); m.index(1, false) }},
	{"many fields without an index", nil, func(m *maker) { m.specs("", m.between(12, 60), 0.3) }},
	{"many fields with unique indexes", nil, func(m *maker) {
		m.specs("", m.some(), 0.3)
		m.index(1, true)
	}},
	{"many fields in compound indexes", nil, func(m *maker) { m.specs("", m.some(), 0.3); m.index(2, false) }},
	{"indexed fields that are asked for together", nil, func(m *maker) {
		m.specs("specs.", m.some(), 0.3)
		m.index(1, false)
		m.ask(m.between(20, 80), 2)
	}},
	{"children one by one, seldom", nil, func(m *maker) { m.students(10, 0); m.oneByOne(4, m.between(5, 10), true) }},
	{"children two by two", nil, func(m *maker) { m.students(10, 0); m.oneByOne(60, 2, true) }},
	{"children one by one that are gone", nil, func(m *maker) {
		m.students(10, 0.25+0.5*m.Float64())
		m.oneByOne(m.between(8, 20), m.between(7, 15), true)
	}},
	{"embedded children that are read with the parent", nil, func(m *maker) { m.embedded(false); m.alone(m.between(60, 100)); m.find(m.between(110, 200), nil) }},
	{"embedded children that nobody reads alone", nil, func(m *maker) { m.embedded(false); m.find(m.between(10, 60), nil) }},
	{"elements with the _id of another document", nil, func(m *maker) { m.embedded(true); m.alone(m.between(60, 150)) }},
	{"lists of references that stand still", nil, func(m *maker) { m.references(true) }},
	{"lists of shared references that grow", nil, func(m *maker) { m.references(false); m.push(m.between(12, 60)) }},
	{"lists of words that grow", nil, func(m *maker) {
		for range m.n {
			m.add(bson.E{Key: m.list, Value: m.strings(m.between(150, 250), 14)})
		}
		m.push(m.between(12, 60))
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

// changes are what pays by its writes, or for want of them, and what only looks like it.
var changes = []kind{
	{"bucket: measurements that are corrected one by one", []string{"bucket"}, func(m *maker) {
		m.measurements(2, time.Minute)
		m.ranges(m.between(15, 60))
		m.send(1, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "value", Value: 1}}}}}}}}})
	}},
	{"bucket: measurements that are deleted one by one", []string{"bucket"}, func(m *maker) {
		m.measurements(2, time.Minute)
		m.ranges(m.between(15, 60))
		m.send(1, bson.D{{Key: "delete", Value: m.out.name}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}}}}})
	}},
	{"bucket: events read by range", []string{"bucket"}, func(m *maker) { m.events(m.between(1, 3), time.Minute, false); m.ranges(m.between(15, 60)) }},
	{"bucket: events with numbers inside", []string{"bucket"}, func(m *maker) { m.events(m.between(1, 3), time.Hour, true); m.ranges(m.between(15, 60)) }},
	{"events that are changed one by one", nil, func(m *maker) {
		m.events(2, time.Minute, false)
		m.ranges(m.between(15, 60))
		m.send(60, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "text", Value: "x"}}}}}}}}})
	}},
	{"events that are found by _id", nil, func(m *maker) { m.events(2, time.Minute, false); m.ranges(12); m.find(m.between(30, 60), nil) }},
	{"bucket: measurements that are sent twice", []string{"bucket"}, func(m *maker) {
		m.measurements(2, time.Minute)
		m.ranges(m.between(15, 60))
		m.upsert(100, bson.D{{Key: "sensor", Value: 0}, {Key: "time", Value: time.Unix(7, 0)}})
	}},
	{"measurements that are upserted without their time", nil, func(m *maker) {
		m.measurements(2, time.Minute)
		m.ranges(m.between(15, 60))
		m.upsert(1, bson.D{{Key: "sensor", Value: 0}, {Key: "batch", Value: 7}})
	}},
	{"one event a week", nil, func(m *maker) { m.events(2, 7*24*time.Hour, false); m.ranges(m.between(15, 60)) }},
	{"events of each customer", nil, func(m *maker) { m.events(m.n/20, time.Minute, true); m.ranges(m.between(15, 60)) }},
	{"events that nobody reads", nil, func(m *maker) { m.events(2, time.Minute, true) }},

	{"computed: totals of a product", []string{"computed"}, func(m *maker) { m.votes(m.between(12, 40), true); m.total(m.between(120, 300), 1) }},
	{"computed: totals, and writes of other fields", []string{"computed"}, func(m *maker) {
		m.votes(m.between(12, 40), true)
		m.total(m.between(120, 190), 1)
		m.send(30, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "title", Value: "x"}}}}}}}}})
	}},
	{"computed: totals of a list of products", []string{"computed"}, func(m *maker) { m.votes(m.between(12, 40), true); m.joinedTotals(m.between(60, 200), true) }},
	{"joins that are added up and shown", nil, func(m *maker) { m.votes(m.between(12, 40), true); m.joinedTotals(m.between(1, 40), false) }},
	{"totals that are written often", nil, func(m *maker) { m.votes(m.between(12, 40), true); m.total(m.between(120, 300), m.between(110, 300)) }},
	{"totals that are seldom read", nil, func(m *maker) { m.votes(m.between(12, 40), true); m.total(m.between(1, 45), 1) }},
	{"totals of few documents each", nil, func(m *maker) { m.votes(m.between(2, 6), true); m.total(m.between(120, 300), 1) }},
	{"totals by codes that others have", nil, func(m *maker) { m.votes(m.between(12, 40), false); m.total(m.between(120, 300), 1) }},
	{"reports of all", nil, func(m *maker) {
		m.votes(m.between(12, 40), true)
		m.total(0, 1)
		m.send(m.between(120, 300), bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}}}})
	}},
	{"reports of a range", nil, func(m *maker) {
		m.votes(m.between(12, 40), true)
		m.total(0, 1)
		m.send(m.between(120, 300), bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$match", Value: bson.D{{Key: m.text, Value: m.ids[1]}, {Key: "year", Value: bson.D{{Key: "$gt", Value: 1990}}}}}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + m.text}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}}}})
	}},

	{"approx: views of one page", []string{"approx"}, func(m *maker) { m.views("views", m.between(120, 300), 1, 1, nil) }},
	{"approx: likes inside a subdocument", []string{"approx"}, func(m *maker) { m.views("stats.likes", m.between(120, 300), 2, 1, nil) }},
	{"approx: visitors that are only counted", []string{"approx"}, func(m *maker) { m.visitors(m.between(60, 200), m.between(20, 60), 0) }},
	{"visitors that are asked for", nil, func(m *maker) { m.visitors(m.between(60, 200), m.between(20, 60), m.between(1, 20)) }},
	{"views of many pages", nil, func(m *maker) { m.views("views", m.between(120, 300), 50, 1, nil) }},
	{"views now and then", nil, func(m *maker) { m.views("views", m.between(5, 90), 1, 1, nil) }},
	{"money", nil, func(m *maker) { m.views("views", m.between(120, 300), 1, m.between(2, 90), nil) }},
	{"stock that is taken under a condition", nil, func(m *maker) {
		m.views("views", m.between(120, 300), 1, -1, bson.D{{Key: "views", Value: bson.D{{Key: "$gt", Value: 0}}}})
	}},
	{"views that a quota asks for", nil, func(m *maker) {
		m.views("views", m.between(120, 300), 1, 1, nil)
		m.send(3, bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: "views", Value: bson.D{{Key: "$lt", Value: 100}}}}}})
	}},
	{"numbers that are handed out", nil, func(m *maker) {
		m.views("views", m.between(120, 300), 1, 1, nil)
		m.send(3, bson.D{{Key: "findAndModify", Value: m.out.name}, {Key: "query", Value: bson.D{{Key: "_id", Value: 5}}}, {Key: "update", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: "views", Value: 1}}}}}})
	}},
	{"views that are set back", nil, func(m *maker) {
		m.views("views", m.between(120, 300), 1, 1, nil)
		m.send(1, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "views", Value: 0}}}}}}}}})
	}},
	{"plain documents", nil, (*maker).plain},
}

// database makes some labelled collections of n documents, always the same for a seed.
func database(kinds []kind, seed, n, collections int) []labelled {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	var out []labelled
	for i, k := range dealt(kinds, seed*collections, collections) {
		out = append(out, generate(r, k, n, fmt.Sprintf("%s%d", words[r.IntN(len(words))], i)))
	}
	return out
}

// dealt are some of the kinds from a place on, as if shuffled packs of all kinds lay one behind the
// other: each kind is there as often as any other.
func dealt(kinds []kind, from, n int) (out []kind) {
	for at := from; at < from+n; at++ {
		pack := rand.New(rand.NewPCG(uint64(at/len(kinds)), 0)).Perm(len(kinds))
		out = append(out, kinds[pack[at%len(kinds)]])
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
	names      []string
	ids        []any
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

// fieldsOfOne sends finds by _id that name all fields, and so many times as many of lists.
func (m *maker) fieldsOfOne(times, lists int) {
	m.send(times, bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: "_id", Value: 7}}},
		{Key: "projection", Value: bson.D{{Key: "title", Value: 1}, {Key: m.text, Value: 1}, {Key: "details", Value: 1}}}})
	m.find(lists*times, bson.D{{Key: "title", Value: 1}, {Key: "year", Value: 1}})
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

// lines adds documents with a list of elements that refer to sources each, or of boxes of these.
func (m *maker) lines(boxes bool) {
	sources := max(m.n/10, 20)
	for i := range sources {
		m.out.sources = append(m.out.sources, bson.D{{Key: "_id", Value: i}, {Key: "name", Value: m.string(12)}})
	}
	for range m.n {
		list := bson.A{}
		for range m.between(1, 5) {
			list = append(list, bson.D{{Key: "article", Value: m.IntN(sources)}, {Key: "count", Value: m.IntN(9)}})
		}
		if boxes {
			list = bson.A{bson.D{{Key: "article", Value: list}}}
		}
		m.add(bson.E{Key: m.list, Value: list})
	}
	m.text = m.list + ".article"
	if boxes {
		m.text += ".article"
	}
}

// children adds nodes that list up to three children, each in one list, or some in several.
func (m *maker) children(fan int) {
	if fan < 3 && m.n > 5_000 {
		m.out.want = nil // too many to look for circles
	}
	for i := range m.n {
		list := bson.A{}
		for child := fan*i + 1; child <= fan*i+3 && child < m.n; child++ {
			list = append(list, child)
		}
		m.add(bson.E{Key: m.text, Value: list})
	}
}

// change sends updates of a field of the source.
func (m *maker) change(times int, field string) {
	m.send(times, bson.D{{Key: "update", Value: m.out.name + "_source"}, {Key: "updates", Value: bson.A{
		bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: "z"}}}}}},
	}}})
}

// remove sends deletes of single documents of the source.
func (m *maker) remove(times int) {
	m.send(times, bson.D{{Key: "delete", Value: m.out.name + "_source"}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "limit", Value: 1}}}}})
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

// students adds documents with up to most references each. The share dangling of the references leads nowhere.
func (m *maker) students(most int, dangling float64) {
	sources := m.n / 2
	for i := range sources {
		m.out.sources = append(m.out.sources, bson.D{{Key: "_id", Value: i}, {Key: "name", Value: m.string(12)}})
	}
	for range m.n {
		list := bson.A{}
		for range m.between(1, most) {
			to := m.IntN(sources)
			if m.Float64() < dangling {
				to += sources
			}
			list = append(list, to)
		}
		m.add(bson.E{Key: m.list, Value: list})
	}
}

// reply sends a find that answers with documents.
func (m *maker) reply(collection string, filter bson.D, documents ...any) {
	m.send(1, bson.D{{Key: "find", Value: collection}, {Key: "filter", Value: filter}})
	raw, err := bson.Marshal(bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A(documents)}}}})
	if err != nil {
		panic(err)
	}
	m.out.commands[len(m.out.commands)-1].Reply = raw
}

// oneByOne sends what a loop over the children of a parent sends, or over the owners'.
func (m *maker) oneByOne(parents, children int, list bool) {
	source := m.out.name + "_source"
	for range parents {
		ids := bson.A{}
		for _, id := range m.Perm(1000)[:children] {
			ids = append(ids, 100_000+id)
		}
		if list {
			m.reply(m.out.name, bson.D{{Key: "_id", Value: 5}}, bson.D{{Key: "_id", Value: 5}, {Key: "year", Value: 1999}, {Key: m.list, Value: ids}})
			for _, id := range ids {
				m.reply(source, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "_id", Value: id}, {Key: "name", Value: "x"}})
			}
			continue
		}
		all := bson.A{}
		for _, id := range ids {
			all = append(all, bson.D{{Key: "_id", Value: id}, {Key: "balance", Value: 7}})
		}
		m.reply(source, bson.D{{Key: "city", Value: "X"}}, all...)
		for _, id := range ids {
			m.reply(m.out.name, bson.D{{Key: m.text, Value: id}}, bson.D{{Key: "_id", Value: 9}, {Key: m.text, Value: id}})
		}
	}
}

// embedded adds documents with children, whose _ids are their own or those of sources.
func (m *maker) embedded(shared bool) {
	ids := make([]bson.ObjectID, m.n/3)
	for i := range ids {
		ids[i] = bson.NewObjectID()
		m.out.sources = append(m.out.sources, bson.D{{Key: "_id", Value: ids[i]}, {Key: "child", Value: ids[i]}})
	}
	text := m.string(80)
	for range m.n {
		list := bson.A{}
		for range m.between(2, 12) {
			id := bson.NewObjectID()
			if shared {
				id = ids[m.IntN(len(ids))]
			}
			list = append(list, bson.D{{Key: "_id", Value: id}, {Key: "text", Value: text}})
		}
		m.add(bson.E{Key: m.list, Value: list})
	}
}

// alone sends finds for one element by its _id.
func (m *maker) alone(times int) {
	m.send(times, bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: m.list + "._id", Value: bson.NewObjectID()}}}})
}

// references adds documents with many references each, to children of their own or to any. The rule asks for 2 KiB of
// references in a document. In a small run the _ids are long texts, so that few of them are enough.
func (m *maker) references(own bool) {
	id := scale.Of(
		func() any { return fmt.Sprintf("%060d", len(m.out.sources)) },
		func() any { return bson.NewObjectID() }, func() any { return bson.NewObjectID() })
	least, most := scale.Of(34, 140, 140), m.between(150, 250)
	most = scale.Of(40, most, most)
	few := scale.Of(300, 1000, 1000) // of the children that several may share
	for range min(m.n, 150) {        // each has many children
		list := bson.A{}
		for range m.between(least, most) {
			to := id()
			if !own && len(m.out.sources) > few {
				to = m.out.sources[m.IntN(len(m.out.sources))].(bson.D)[0].Value
			} else {
				m.out.sources = append(m.out.sources, bson.D{{Key: "_id", Value: to}})
			}
			list = append(list, to)
		}
		m.add(bson.E{Key: m.list, Value: list})
	}
}

// measurements adds a number of each series each time.
func (m *maker) measurements(series int, each time.Duration) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range m.n {
		m.out.docs = append(m.out.docs, bson.D{{Key: "_id", Value: i}, {Key: "sensor", Value: i % series},
			{Key: "time", Value: begin.Add(time.Duration(i/series) * each)}, {Key: "value", Value: m.Float64()}})
	}
}

// inMilliseconds makes numbers of the times, and sends ranges of them. Other numbers begin at 0.
func (m *maker) inMilliseconds(times bool) {
	begin := int64(0)
	for i, doc := range m.out.docs {
		at := doc.(bson.D)[2].Value.(time.Time).UnixMilli()
		if i == 0 && !times {
			begin = at
		}
		doc.(bson.D)[2].Value = at - begin
	}
	low := m.out.docs[0].(bson.D)[2].Value.(int64)
	m.send(m.between(15, 60), bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: "sensor", Value: 0},
		{Key: "time", Value: bson.D{{Key: "$gte", Value: low}, {Key: "$lt", Value: low + 9}}}}}})
}

func (m *maker) upsert(times int, filter bson.D) {
	m.send(times, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{
		bson.D{{Key: "q", Value: filter}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "value", Value: 1}}}}}, {Key: "upsert", Value: true}},
	}}})
}

// measuredLists adds documents with a list of measurements each, or of comments.
func (m *maker) measuredLists(comments bool) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range min(m.n, 300) {
		m.add(bson.E{Key: m.list, Value: m.once(fmt.Sprint(m.IntN(5)), func() any {
			list := bson.A{}
			for i := range m.between(110, 160) {
				e := bson.D{{Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)}, {Key: "value", Value: m.Float64()}}
				if comments {
					e = append(e, bson.E{Key: "text", Value: m.string(m.between(10, 90))})
				}
				list = append(list, e)
			}
			return list
		})})
	}
}

// events adds a text, or something nested, of each series each time.
func (m *maker) events(series int, each time.Duration, nested bool) {
	m.measurements(series, each)
	for i, doc := range m.out.docs {
		more := bson.E{Key: "text", Value: words[m.IntN(len(words))]}
		if nested {
			more.Value = bson.D{{Key: "level", Value: m.IntN(5)}, {Key: "user", Value: m.IntN(100)}}
		}
		m.out.docs[i] = append(doc.(bson.D)[:3], more)
	}
}

// votes adds documents for each of some sources, or with codes that others have, too.
func (m *maker) votes(perSource int, sources bool) {
	m.ids = make([]any, max(m.n/perSource, 100))
	for i := range m.ids {
		m.ids[i] = fmt.Sprint("k", i)
		if sources {
			var id bson.ObjectID
			binary.BigEndian.PutUint64(id[:], m.Uint64())
			m.ids[i] = id
		}
		m.out.sources = append(m.out.sources, bson.D{{Key: "_id", Value: m.ids[i]}, {Key: "name", Value: m.string(12)}})
	}
	m.ids = m.ids[:m.n/perSource]
	for range m.n {
		m.add(bson.E{Key: m.text, Value: m.ids[m.IntN(len(m.ids))]}, bson.E{Key: "stars", Value: m.IntN(6)})
	}
}

// total sends aggregations of one source's documents, and inserts.
func (m *maker) total(times, inserts int) {
	for range times {
		m.send(1, bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$match", Value: bson.D{{Key: m.text, Value: m.ids[m.IntN(5)]}}}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + m.text}, {Key: "votes", Value: bson.D{{Key: "$sum", Value: 1}}},
				{Key: "mean", Value: bson.D{{Key: "$avg", Value: "$stars"}}}}}},
		}}})
	}
	m.send(inserts, bson.D{{Key: "insert", Value: m.out.name}, {Key: "documents", Value: bson.A{bson.D{{Key: "stars", Value: 3}}}}})
}

// joinedTotals sends lists of sources that join their documents to add them up, alone or beside these.
func (m *maker) joinedTotals(times int, alone bool) {
	fields := bson.D{{Key: "name", Value: 1}, {Key: "votes", Value: bson.D{{Key: "$size", Value: "$all"}}}}
	if !alone {
		fields = append(fields, bson.E{Key: "all.stars", Value: 1})
	}
	m.send(times, bson.D{{Key: "aggregate", Value: m.out.name + "_source"}, {Key: "pipeline", Value: bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "name", Value: bson.D{{Key: "$gt", Value: ""}}}}}}, bson.D{{Key: "$limit", Value: 5}},
		bson.D{{Key: "$lookup", Value: bson.D{{Key: "from", Value: m.out.name}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: m.text}, {Key: "as", Value: "all"}}}},
		bson.D{{Key: "$project", Value: fields}},
	}}})
	m.total(0, 1)
}

// visitors adds documents with long lists of strings, $addToSet to them, reads of their lengths and of their elements.
func (m *maker) visitors(adds, lengths, reads int) {
	for range 100 {
		m.add(bson.E{Key: m.list, Value: m.strings(3000, 12)})
	}
	m.send(adds, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{
		bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$addToSet", Value: bson.D{{Key: m.list, Value: "x"}}}}}},
	}}})
	m.send(lengths, bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "_id", Value: 7}}}}, bson.D{{Key: "$project", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$size", Value: "$" + m.list}}}}}},
	}}})
	m.send(reads, bson.D{{Key: "count", Value: m.out.name}, {Key: "query", Value: bson.D{{Key: "_id", Value: 7}, {Key: m.list, Value: "x"}}}})
}

// views adds documents with a number, and updates of it, all in a second, of some of them.
func (m *maker) views(path string, times, documents, by int, also bson.D) {
	above, inner, nested := strings.Cut(path, ".")
	for range m.n {
		value := any(m.IntN(1000))
		if nested {
			value = bson.D{{Key: inner, Value: value}}
		}
		m.add(bson.E{Key: above, Value: value})
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range documents * times {
		if documents > 10 && i == times {
			break // some of each
		}
		m.out.log = append(m.out.log, logged{begin.Add(time.Duration(i) * time.Second / time.Duration(documents*times)), "update", bson.D{
			{Key: "q", Value: append(bson.D{{Key: "_id", Value: i % documents}}, also...)},
			{Key: "u", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: path, Value: by}}}}}}})
	}
}

func (m *maker) ranges(times int) {
	m.send(times, bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: bson.D{{Key: "sensor", Value: 0},
		{Key: "time", Value: bson.D{{Key: "$gte", Value: time.Unix(0, 0)}, {Key: "$lt", Value: time.Unix(9, 0)}}}}}})
}

// some is how many fields have an index: each costs the server as much as a collection, and 10 are many to the rule.
func (m *maker) some() int { return m.between(12, scale.Of(16, 40, 40)) }

// specs adds documents that have each of some fields with a probability.
func (m *maker) specs(above string, fields int, probability float64) {
	m.text = above
	m.names = nil
	for i := range fields {
		m.names = append(m.names, fmt.Sprintf("%s_%d", words[m.IntN(len(words))], i))
	}
	for i := range m.n {
		var own bson.D
		for j, name := range m.names {
			if m.Float64() < probability {
				own = append(own, bson.E{Key: name, Value: i*100 + j})
			}
		}
		if above != "" {
			own = bson.D{{Key: strings.TrimSuffix(above, "."), Value: own}}
		}
		m.add(own...)
	}
}

// index makes an index for each of the fields, or for each and the title.
func (m *maker) index(keys int, unique bool) {
	for _, name := range m.names {
		opts := options.Index().SetSparse(true).SetUnique(unique)
		m.out.indexes = append(m.out.indexes, mongo.IndexModel{Keys: bson.D{{Key: m.text + name, Value: 1}, {Key: "title", Value: 1}}[:keys], Options: opts})
	}
}

// ask sends finds by some of the fields.
func (m *maker) ask(times, fields int) {
	for range times {
		filter := bson.D{}
		for _, i := range m.Perm(len(m.names))[:fields] {
			filter = append(filter, bson.E{Key: m.text + m.names[i], Value: 7})
		}
		m.send(1, bson.D{{Key: "find", Value: m.out.name}, {Key: "filter", Value: filter}})
	}
}

func (m *maker) push(times int) {
	m.send(times, bson.D{{Key: "update", Value: m.out.name}, {Key: "updates", Value: bson.A{
		bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$push", Value: bson.D{{Key: m.list, Value: bson.NewObjectID()}}}}}},
	}}})
}

// store inserts the collections and returns the queries that go with them.
func store(t testing.TB, db *mongo.Database, all []labelled) []advise.Query {
	t.Helper()
	var queries []advise.Query
	for _, c := range all {
		if len(c.indexes) > 0 { // first: of documents that are there the server builds each by a scan
			if _, err := db.Collection(c.name).Indexes().CreateMany(context.Background(), c.indexes); err != nil {
				t.Fatal(err)
			}
		}
		insert(t, db.Collection(c.name), c.docs)
		if len(c.sources) > 0 {
			insert(t, db.Collection(c.name+"_source"), c.sources)
		}
		queries = append(queries, advise.Commands(c.commands)...)
		var log strings.Builder
		for _, line := range c.log {
			command, err := bson.MarshalExtJSON(line.command, false, false)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&log, `{"t": {"$date": %q}, "id": 51803, "ctx": "conn7", "attr": {"type": %q, "ns": %q, "command": %s}}`+"\n",
				line.at.Format(time.RFC3339Nano), line.kind, db.Name()+"."+c.name, command)
		}
		if len(c.log) == 0 {
			continue
		}
		logged, err := advise.Log(strings.NewReader(log.String()))
		if err != nil {
			t.Fatal(err)
		}
		queries = append(queries, logged...)
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
