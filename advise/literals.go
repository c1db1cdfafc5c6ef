package advise

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The Go that findings print. It names options of other packages: all of it is here,
// and one test compiles it.

func outlierCode(c *collection, a *list, limit int64) string {
	return fmt.Sprintf(`lists, err := outlier.New[%s, %s](db.Collection(%q), db.Collection(%q), &outlier.Options{
	ArrayField: %q,
	MaxCount:   %d,
})`, goType(c.idType), goType(a.element), c.name, c.name+"_overflow", a.path, limit)
}

func subsetCode(c *collection, a *list, w want) string {
	var more strings.Builder
	if w.order != nil {
		fmt.Fprintf(&more, "\tSort:       %s,\n", goSort(w.order))
	}
	if w.last {
		more.WriteString("\tBestLast:   true,\n")
	}
	return fmt.Sprintf(`lists, err := subset.New[%s, bson.D](db.Collection(%q), db.Collection(%q), &subset.Options{
	ArrayField: %q,
	N:          %d,
%s})`, goType(c.idType), c.name, itemsName(c, a.path), a.path, w.n, more.String())
}

// itemsName is the collection of a list's elements.
func itemsName(c *collection, path string) string {
	return c.name + "_" + strings.ReplaceAll(path, ".", "_")
}

func splitCode(c *collection, cold []string) string {
	quoted := make([]string, len(cold))
	for i, name := range cold {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf(`documents, err := split.New[%s, bson.D, bson.D](db.Collection(%q), db.Collection(%q), &split.Options{
	ColdFields: []string{%s},
})`, goType(c.idType), c.name, c.name+"_cold", strings.Join(quoted, ", "))
}

func pagingCode(c *collection, sort bson.D) string {
	order := bson.D{}
	for _, f := range sort {
		n, _ := number(f.Value)
		order = append(order, bson.E{Key: f.Key, Value: int(n)})
	}
	return fmt.Sprintf("pages, err := paging.New[bson.D](db.Collection(%q), %s, nil)", c.name, goSort(order))
}

func treeCode(c *collection, parent string) string {
	return fmt.Sprintf(`nodes, err := tree.New[%s, bson.D](db.Collection(%q), tree.AncestorArray, &tree.Options{
	ParentField: %q,
})`, goType(c.idType), c.name, parent)
}

// extrefCode keeps the copies beside the reference, under names that begin with its own.
func extrefCode(c, source *collection, j joins) string {
	var fields []string
	for _, path := range j.fields {
		fields = append(fields, fmt.Sprintf("{Path: %q, As: %q}", path, copyName(j.local, path)))
	}
	return fmt.Sprintf(`references, err := extref.New[%s, bson.D](db.Collection(%q), []extref.Target{{
	Collection:   db.Collection(%q),
	IDField:      %q,
	VersionField: %q,
	Fields:       []extref.Field{%s},
}}, nil)`, goType(source.idType), source.name, c.name, j.local, j.local+"_version", strings.Join(fields, ", "))
}

// copyName is the field of a copy: customer_name for the name of the customer.
func copyName(local, path string) string { return local + "_" + path[strings.LastIndex(path, ".")+1:] }

// relationCode names the list of the parents, or the owner of the children.
func relationCode(parents, children *collection, field string, list bool) string {
	side := "OwnerField"
	if list {
		side = "ChildrenField"
	}
	return fmt.Sprintf(`children, err := relation.New[%s, %s, bson.D](db.Collection(%q), db.Collection(%q), &relation.Options{
	%s: %q,
})`, goType(parents.idType), goType(children.idType), parents.name, children.name, side, field)
}

// extractCode leaves the _ids in the list: Extract keeps the order.
func extractCode(c *collection, path, kind string) string {
	return fmt.Sprintf(`children, err := relation.New[%s, %s, bson.D](db.Collection(%q), db.Collection(%q), &relation.Options{
	ChildrenField: %q,
})`, goType(c.idType), goType(kind), c.name, c.name+"_"+path, path)
}

func attributeCode(c *collection, kind string) string {
	return fmt.Sprintf(`attributes, err := attribute.New[%s, %s](db.Collection(%q), &attribute.Options{
	ArrayField: %q,
})`, goType(c.idType), goType(kind), c.name, attributesName(c))
}

// attributesName is a name that no document has.
func attributesName(c *collection) string {
	name := "attributes"
	for c.has(name) {
		name += "_array"
	}
	return name
}

func seriesCode(c *collection, s span, window string) string {
	return fmt.Sprintf(`measurements, err := series.New[%s, bson.D](db.Collection(%q), timeseries.%s(nil), &series.Options{
	SeriesField: %q,
	TimeField:   %q,
})`, goType(c.kind(s.id)), c.name+"_series", window, s.id, s.at)
}

func bucketCode(c *collection, s span, window string) string {
	return fmt.Sprintf(`measurements, err := bucket.New[%s, bson.D](db.Collection(%q), timeseries.%s(nil), &bucket.Options{
	SeriesField: %q,
	TimeField:   %q,
})`, goType(c.kind(s.id)), c.name+"_buckets", window, s.id, s.at)
}

// computedCode adds up by differences if all fields are sums.
func computedCode(sources, targets *collection, t totals) string {
	var group, empty []string
	options := "&computed.Options{Additive: true}"
	for _, f := range t.fields {
		accumulator := f.Value.(bson.D)[0]
		operand, zero := "1", "0"
		switch v := accumulator.Value.(type) {
		case string:
			operand = fmt.Sprintf("%q", v)
		case bson.D:
			operand, options = "bson.D{}", "nil"
		}
		if accumulator.Key != "$sum" && accumulator.Key != "$count" {
			zero, options = "nil", "nil"
		}
		group = append(group, fmt.Sprintf("\t\t{Key: %q, Value: bson.D{{Key: %q, Value: %s}}},\n", f.Key, accumulator.Key, operand))
		empty = append(empty, fmt.Sprintf("{Key: %q, Value: %s}", f.Key, zero))
	}
	return fmt.Sprintf(`totals, err := computed.New[%s, %s, bson.D](db.Collection(%q), db.Collection(%q), computed.Rule{
	KeyField: %q,
	Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{
		{Key: "_id", Value: %q},
%s	}}}},
	Empty: bson.D{%s},
}, %s)`, goType(sources.idType), goType(targets.idType), sources.name, targets.name, t.key, "$"+t.key,
		strings.Join(group, ""), strings.Join(empty, ", "), options)
}

// goType is the Go type for the server's name of a type, any for one of several.
func goType(kind string) string {
	switch kind {
	case "objectId":
		return "bson.ObjectID"
	case "string":
		return "string"
	case "int":
		return "int32"
	case "long":
		return "int64"
	case "double":
		return "float64"
	case "bool":
		return "bool"
	case "decimal":
		return "bson.Decimal128"
	case "object":
		return "bson.D"
	case "date":
		return "time.Time"
	case "binData":
		return "bson.Binary"
	}
	return "any"
}

func goSort(order bson.D) string {
	var fields []string
	for _, f := range order {
		fields = append(fields, fmt.Sprintf("{Key: %q, Value: %d}", f.Key, f.Value))
	}
	return "bson.D{" + strings.Join(fields, ", ") + "}"
}
