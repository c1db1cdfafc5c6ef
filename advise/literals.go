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
		fmt.Fprintf(&more, "\tOrder:      %s,\n", goSort(w.order))
	}
	if w.last {
		more.WriteString("\tBestLast:   true,\n")
	}
	return fmt.Sprintf(`lists, err := subset.New[%s, bson.M](db.Collection(%q), db.Collection(%q), &subset.Options{
	ArrayField: %q,
	N:          %d,
%s})`, goType(c.idType), c.name, c.name+"_"+strings.ReplaceAll(a.path, ".", "_"), a.path, w.n, more.String())
}

func splitCode(c *collection, cold []string) string {
	quoted := make([]string, len(cold))
	for i, name := range cold {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf(`documents, err := split.New[%s, bson.M, bson.M](db.Collection(%q), db.Collection(%q), &split.Options{
	ColdFields: []string{%s},
})`, goType(c.idType), c.name, c.name+"_cold", strings.Join(quoted, ", "))
}

func pagingCode(c *collection, sort bson.D) string {
	order := bson.D{}
	for _, f := range sort {
		n, _ := number(f.Value)
		order = append(order, bson.E{Key: f.Key, Value: int(n)})
	}
	return fmt.Sprintf("pages, err := paging.New[bson.M](db.Collection(%q), %s, nil)", c.name, goSort(order))
}

func treeCode(c *collection, parent string) string {
	return fmt.Sprintf(`nodes, err := tree.New[%s, bson.M](db.Collection(%q), tree.AncestorArray, &tree.Options{
	ParentField: %q,
})`, goType(c.idType), c.name, parent)
}

// extrefCode keeps the copies beside the reference, under names that begin with its own.
func extrefCode(c, source *collection, j joins) string {
	var fields []string
	for _, path := range j.fields {
		as := j.local + "_" + path[strings.LastIndex(path, ".")+1:]
		fields = append(fields, fmt.Sprintf("{Path: %q, As: %q}", path, as))
	}
	return fmt.Sprintf(`references, err := extref.New[%s, bson.M](db.Collection(%q), []extref.Target{{
	Collection:   db.Collection(%q),
	IDField:      %q,
	VersionField: %q,
	Fields:       []extref.Field{%s},
}}, nil)`, goType(source.idType), source.name, c.name, j.local, j.local+"_version", strings.Join(fields, ", "))
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
	case "object":
		return "bson.M"
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
