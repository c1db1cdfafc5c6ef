package advise

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Rows are the measurements that findings rest on.
func Rows() []Row { return rows }

// ShapeQuery makes a query of an answer of $queryStats.
func ShapeQuery(raw bson.Raw) (Query, bool) { return shapeQuery(raw) }

// Needs reports whether a query needs a path.
func Needs(q Query, path string) bool {
	var t traffic
	t.add(q)
	return t.finds[0].needs(path)
}

// Unhurried makes loops of commands between which any time may pass.
func Unhurried(t testing.TB) {
	was := pause
	pause = time.Hour
	t.Cleanup(func() { pause = was })
}

// Part reports whether a query wants a part of a list, and of how many elements.
func Part(q Query, path string) (part bool, n int64) {
	var t traffic
	t.add(q)
	w := t.wanted(path)
	return w.part > 0, w.n
}

// Lost is what the documents after lack of those before.
func Lost(command bson.D, before, after []bson.D, unordered bool) string {
	return service{unordered: unordered}.lost(command, before, after)
}

// QueriesOf are those that a report rests on.
func QueriesOf(r *Report) []Query { return r.queries }
