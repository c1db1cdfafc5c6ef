package advise

import "go.mongodb.org/mongo-driver/v2/bson"

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
