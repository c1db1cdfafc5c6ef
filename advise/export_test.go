package advise

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// ShapeQuery makes a query of an answer of $queryStats.
func ShapeQuery(raw bson.Raw) (Query, bool) { return shapeQuery(raw) }

// Needs reports whether a query needs a path.
func Needs(q Query, path string) bool {
	c, _ := parse(q)
	return c.read.needs(path)
}

// Unhurried makes loops of commands between which any time may pass.
func Unhurried(t testing.TB) {
	was := pause
	pause = time.Hour
	t.Cleanup(func() { pause = was })
}

// YoungIndexes lets the use of an index be judged at once.
func YoungIndexes(t testing.TB) {
	was := indexAge
	indexAge = 0
	t.Cleanup(func() { indexAge = was })
}

// SlowScans lets collections with more documents than a limit be estimated from ranges of some documents, if a command may
// take a minute.
func SlowScans(t testing.TB, documents, ranged int) {
	rate, length := scanRate, rangeLength
	scanRate, rangeLength = float64(documents)/60, int64(ranged)
	t.Cleanup(func() { scanRate, rangeLength = rate, length })
}

// Part reports whether a query wants a part of a list, and of how many elements.
func Part(q Query, path string) (part bool, n int64) {
	var t traffic
	c, _ := parse(q)
	t.add(c)
	w := t.wanted(path)
	return w.part > 0, w.n
}

// Lost is what the documents after lack of those before.
func Lost(q Query, before, after []bson.D, unordered bool) string {
	c, _ := parse(q)
	return service{unordered: unordered}.lost(c, before, after)
}

// QueriesOf are those that a report rests on.
func QueriesOf(r *Report) (out []Query) {
	for _, c := range r.commands {
		out = append(out, c.Query)
	}
	return out
}
