package advise

import (
	"context"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/visible"
)

// The Go that findings print. It names options of other packages: all of it is here,
// and one test compiles it.

func (l *looker) outlierCode(ctx context.Context, c *collection, a *list, limit int64) string {
	return fmt.Sprintf(`lists, err := outlier.New[%s, %s](db.Collection(%q), db.Collection(%q), &outlier.Options{
	ArrayField: %q,
	MaxCount:   %d,
})`, l.idType(ctx, c), l.elementType(ctx, c, a), c.name, c.name+"_overflow", a.path, limit)
}

func (l *looker) subsetCode(ctx context.Context, c *collection, a *list, w want) string {
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
%s})`, l.idType(ctx, c), c.name, itemsName(c, a.path), a.path, w.n, more.String())
}

// itemsName is the collection of a list's elements.
func itemsName(c *collection, path string) string {
	return c.name + "_" + strings.ReplaceAll(path, ".", "_")
}

func (l *looker) splitCode(ctx context.Context, c *collection, cold []string) string {
	return fmt.Sprintf(`documents, err := split.New[%s, bson.D, bson.D](db.Collection(%q), db.Collection(%q), &split.Options{
	ColdFields: []string{%s},
})`, l.idType(ctx, c), c.name, c.name+"_cold", quoted(cold))
}

func (l *looker) pagingCode(ctx context.Context, c *collection, s skips) string {
	options := "nil"
	if len(s.fixed) > 0 {
		options = fmt.Sprintf("&paging.Options{Equality: %#v}", s.fixed)
	}
	return fmt.Sprintf("pages, err := paging.New[bson.D](db.Collection(%q), %s, %s)", c.name, goSort(directions(s.sort)), options)
}

func (l *looker) treeCode(ctx context.Context, c *collection, parent string) string {
	return fmt.Sprintf(`nodes, err := tree.New[%s, bson.D](db.Collection(%q), tree.AncestorArray, &tree.Options{
	ParentField: %q,
})`, l.idType(ctx, c), c.name, parent)
}

func (l *looker) childrenCode(ctx context.Context, c *collection, children string, graph bool) string {
	several := ""
	if graph {
		several = "\tGraph:         true,\n"
	}
	return fmt.Sprintf(`nodes, err := tree.New[%s, bson.D](db.Collection(%q), tree.ChildReferences, &tree.Options{
	ChildrenField: %q,
%s})`, l.idType(ctx, c), c.name, children, several)
}

// extrefCode keeps the copies beside the reference, under names that begin with its own, or inside its subdocument.
func (l *looker) extrefCode(ctx context.Context, c, source *collection, j joins) string {
	options := fmt.Sprintf("Collection: db.Collection(%q),\n", c.name)
	if j.list != "" {
		options += "Array: true,\n"
	}
	for _, o := range []struct{ name, value, otherwise string }{
		{"Path", j.path(), ""}, {"IDField", j.within(j.local), "_id"}, {"VersionField", j.within(j.version()), "version"},
	} {
		// Beside the reference, IDField is required and the version is not the document's own.
		if o.value != "" && (j.path() == "" || o.value != o.otherwise) {
			options += fmt.Sprintf("%s: %q,\n", o.name, o.value)
		}
	}
	var fields []string
	for _, path := range j.fields {
		as := fmt.Sprintf(", As: %q", j.within(j.copyAt(path)))
		if j.copyAt(path) == j.path()+"."+path {
			as = ""
		}
		fields = append(fields, fmt.Sprintf("{Path: %q%s}", path, as))
	}
	id, key := l.idType(ctx, source), "nil"
	if j.key != "" {
		id = goType(l.counting(ctx, source, j.key, d("$type", "$"+j.key), source.kind(j.key)))
		key = fmt.Sprintf("&extref.Options{KeyField: %q}", j.key)
	}
	code := fmt.Sprintf(`references, err := extref.New[%s, bson.D](db.Collection(%q), []extref.Target{{
%sFields: []extref.Field{%s},
}}, %s)`, id, source.name, options, strings.Join(fields, ", "), key)
	if aligned, err := format.Source([]byte(code)); err == nil {
		return string(aligned)
	}
	return code
}

// relationCode names the list of the parents, the owner of the children, or both.
func (l *looker) relationCode(ctx context.Context, parents, children *collection, owner, list string) string {
	var options strings.Builder
	if list != "" {
		fmt.Fprintf(&options, "\tChildrenField: %q,\n", list)
	}
	if owner != "" && list != "" {
		fmt.Fprintf(&options, "\tOwnerField:    %q,\n", owner)
	} else if owner != "" {
		fmt.Fprintf(&options, "\tOwnerField: %q,\n", owner)
	}
	return fmt.Sprintf(`children, err := relation.New[%s, %s, bson.D](db.Collection(%q), db.Collection(%q), &relation.Options{
%s})`, l.idType(ctx, parents), l.idType(ctx, children), parents.name, children.name, options.String())
}

// extractCode leaves the _ids in the list: Extract keeps the order.
func (l *looker) extractCode(ctx context.Context, c *collection, path, kind string) string {
	return fmt.Sprintf(`children, err := relation.New[%s, %s, bson.D](db.Collection(%q), db.Collection(%q), &relation.Options{
	ChildrenField: %q,
})`, l.idType(ctx, c), goType(kind), c.name, c.name+"_"+path, path)
}

func (l *looker) attributeCode(ctx context.Context, c *collection, kind string) string {
	return fmt.Sprintf(`attributes, err := attribute.New[%s, %s](db.Collection(%q), &attribute.Options{
	ArrayField: %q,
})`, l.idType(ctx, c), goType(kind), c.name, attributesName(c))
}

// attributesName is a name that no document has.
func attributesName(c *collection) string {
	name := "attributes"
	for c.has(name) {
		name += "_array"
	}
	return name
}

func seriesCode(c *collection, s span, key, window string, values []string) string {
	return fmt.Sprintf(`measurements, err := series.New[%s, bson.D](db.Collection(%q), timeseries.%s(nil), &series.Options{
	SeriesField: %q,
	TimeField:   %q,
	Values:      []timeseries.Value{%s},
})`, key, c.name+"_series", window, s.field(), s.at, goValues(values))
}

// goValues are the fields whose sums a series keeps.
func goValues(names []string) string {
	fields := make([]string, len(names))
	for i, name := range names {
		fields[i] = fmt.Sprintf("{Field: %q}", name)
	}
	return strings.Join(fields, ", ")
}

func bucketCode(c *collection, s span, key, window string) string {
	id := ""
	if s.upsert != "" {
		id = fmt.Sprintf("\tIDField:     %q,\n", s.upsert)
	}
	return fmt.Sprintf(`measurements, err := bucket.New[%s, bson.D](db.Collection(%q), timeseries.%s(nil), &bucket.Options{
	SeriesField: %q,
	TimeField:   %q,
%s})`, key, c.name+"_buckets", window, s.field(), s.at, id)
}

// computedCode adds up by differences if all fields are sums.
func (l *looker) computedCode(ctx context.Context, sources, targets *collection, t totals) string {
	var group, empty []string
	options := "&computed.Options{Additive: true}"
	for _, f := range t.fields {
		accumulator := f.Value.(bson.D)[0]
		operand, zero := goValue(accumulator.Value), "0"
		if accumulator.Key == "$count" {
			options = "nil"
		}
		if accumulator.Key != "$sum" && accumulator.Key != "$count" {
			zero, options = "nil", "nil"
		}
		group = append(group, fmt.Sprintf("\t\t{Key: %q, Value: bson.D{{Key: %q, Value: %s}}},\n", f.Key, accumulator.Key, operand))
		empty = append(empty, fmt.Sprintf("{Key: %q, Value: %s}", f.Key, zero))
	}
	match := ""
	if fixed := t.fixed(); fixed != nil {
		match, options = fmt.Sprintf(`{{Key: "$match", Value: %s}}, `, goValue(fixed)), "nil"
	}
	return fmt.Sprintf(`totals, err := computed.New[%s, %s, bson.D](db.Collection(%q), db.Collection(%q), computed.Rule{
	KeyField: %q,
	Pipeline: mongo.Pipeline{%s{{Key: "$group", Value: bson.D{
		{Key: "_id", Value: %q},
%s	}}}},
	Empty: bson.D{%s},
}, %s)`, l.idType(ctx, sources), l.idType(ctx, targets), sources.name, targets.name, t.key, match, "$"+t.key,
		strings.Join(group, ""), strings.Join(empty, ", "), options)
}

// idType is the Go type of a collection's _ids, elementType that of a list's elements: of those that the server counts,
// as a sample misses the few of another type. Where it cannot count them it is that of the sample.
func (l *looker) idType(ctx context.Context, c *collection) string {
	if c.types == nil {
		c.types = map[string]string{}
	}
	if _, known := c.types["_id"]; !known {
		c.types["_id"] = l.counting(ctx, c, "_id", d("$type", "$_id"), c.idType)
	}
	return goType(c.types["_id"])
}

func (l *looker) elementType(ctx context.Context, c *collection, a *list) string {
	list := d("$cond", bson.A{d("$isArray", "$"+a.path), "$" + a.path, bson.A{}})
	kinds := d("$setUnion", bson.A{d("$map", bson.D{{Key: "input", Value: list}, {Key: "in", Value: d("$type", "$$this")}}), bson.A{}})
	return goType(l.counting(ctx, c, "the elements of "+a.path, kinds, a.element))
}

// counting is the one type that holds all values, or "mixed"; it notes which there are then.
func (l *looker) counting(ctx context.Context, c *collection, what string, kinds any, sampled string) string {
	all := l.kindsOf(ctx, c, kinds)
	if all == nil {
		return sampled
	}
	var names []string
	for _, k := range all {
		names = append(names, k.kind)
	}
	kind := common(names)
	if goType(kind) == "any" {
		c.several(what, all.text()+" (counted)")
	}
	return kind
}

// several notes why the printed code has any.
func (c *collection) several(what, kinds string) {
	c.mixed = append(c.mixed, "// any: "+visible.Name(fmt.Sprintf("%s, %s: %s", c.name, what, kinds))+"\n")
}

// kinds are types of values, and how many documents have each.
type kinds []struct {
	kind string
	n    int64
}

func (k kinds) text() string {
	var texts []string
	for _, one := range k {
		texts = append(texts, fmt.Sprintf("%s in %s", one.kind, many(one.n, "document")))
	}
	return strings.Join(texts, ", ")
}

// kindsOf counts the types of values, the commonest first; nil where it cannot.
func (l *looker) kindsOf(ctx context.Context, c *collection, of any) kinds {
	if l.slow(c) {
		return nil
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{
		d("$project", d("k", of)), d("$unwind", "$k"), d("$group", bson.D{{Key: "_id", Value: "$k"}, {Key: "n", Value: d("$sum", 1)}}), d("$sort", bson.D{{Key: "n", Value: -1}, {Key: "_id", Value: 1}}),
	})
	if err != nil || len(batch) == 0 {
		return nil
	}
	out := make(kinds, len(batch))
	for i, raw := range batch {
		out[i].kind, out[i].n = text(raw, "_id"), integer(raw, "n")
	}
	return out
}

// common is the type that holds values of all these without loss.
func common(kinds []string) string {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return slices.Contains([]string{"null", "missing", "undefined"}, kind) })
	slices.Sort(kinds)
	switch names := strings.Join(kinds, " "); {
	case len(kinds) == 1:
		return kinds[0]
	case names == "int long":
		return "long"
	case names == "double int":
		return "double"
	}
	return "mixed"
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

// goValue is Go for a value of a command, "" if it has none.
func goValue(v any) string {
	switch v := v.(type) {
	case bson.D:
		var fields []string
		for _, f := range v {
			value := goValue(f.Value)
			if value == "" {
				return ""
			}
			fields = append(fields, fmt.Sprintf("{Key: %q, Value: %s}", f.Key, value))
		}
		return "bson.D{" + strings.Join(fields, ", ") + "}"
	case bson.A:
		var values []string
		for _, element := range v {
			value := goValue(element)
			if value == "" {
				return ""
			}
			values = append(values, value)
		}
		return "bson.A{" + strings.Join(values, ", ") + "}"
	case string:
		return fmt.Sprintf("%q", v)
	case int32, bool:
		return fmt.Sprint(v)
	case int64, float64:
		return fmt.Sprintf("%T(%v)", v, v)
	}
	return ""
}

func goSort(order bson.D) string {
	var fields []string
	for _, f := range order {
		fields = append(fields, fmt.Sprintf("{Key: %q, Value: %d}", f.Key, f.Value))
	}
	return "bson.D{" + strings.Join(fields, ", ") + "}"
}

// adoption is the Go that takes over the documents that exist, with the variable that the Code declares.
func adoption(f Finding) string {
	variable, _, _ := strings.Cut(f.Code, ",")
	indexes := fmt.Sprintf("err = %s.EnsureIndexes(ctx)", variable)
	take := func(call string) string { return fmt.Sprintf("%s\nresult, err := %s.%s", indexes, variable, call) }
	switch f.Pattern {
	case "outlier", "subset", "split", "tree", "computed":
		return take("Adopt(ctx, nil)")
	case "extref":
		return take(fmt.Sprintf("Adopt(ctx, %q, nil)", f.takes))
	case "attribute":
		var columns strings.Builder
		for _, path := range f.Fields {
			fmt.Fprintf(&columns, "\t{Path: %q, Key: %q},\n", path, path)
		}
		return take("Adopt(ctx, []attribute.Column{\n" + columns.String() + "}, nil)")
	case "relation":
		if f.takes != "" {
			return take(f.takes + "(ctx, nil)")
		}
	}
	return indexes // there is nothing to take over
}

// measurementsAdoption makes measurements of documents, one or several of each. Documents that lack a field of the series
// are Failed, and the others are adopted.
func measurementsAdoption(c *collection, s span, key string, several bool) string {
	const begin = "err = measurements.EnsureIndexes(ctx)\nresult, err := measurements.Adopt(ctx, db.Collection(%q), "
	if s.field() == s.id && s.form.name == "" {
		return fmt.Sprintf(begin+"nil, nil)", c.name)
	}
	one, all := "bson.D", "m"
	if several {
		one, all = "[]bson.D", "[]bson.D{m}"
	}
	series := fmt.Sprintf(`	if err := doc.Lookup(%s).Unmarshal(&id); err != nil {
		return id, nil, fmt.Errorf("%%w: %s: %%w", mongopatterns.ErrInvalid, err)
	}
`, quoted(strings.Split(s.id, ".")), strings.ReplaceAll(s.id, "%", "%%"))
	if len(s.more) > 0 {
		path, top := "name", "name"
		if slices.ContainsFunc(s.ids(), func(name string) bool { return strings.Contains(name, ".") }) {
			path, top = `strings.Split(name, ".")...`, `strings.ReplaceAll(name, ".", "_")`
		}
		series = fmt.Sprintf(`	for _, name := range []string{%s} {
		value, err := doc.LookupErr(%s)
		if err != nil {
			return nil, nil, fmt.Errorf("%%w: %%s: %%w", mongopatterns.ErrInvalid, name, err)
		}
		id = append(id, bson.E{Key: %s, Value: value})
	}
`, quoted(s.ids()), path, top)
	}
	left := ""
	if names := s.left(); len(names) > 0 {
		left = fmt.Sprintf("\tm = slices.DeleteFunc(m, func(e bson.E) bool { return slices.Contains([]string{%s}, e.Key) })\n", quoted(names))
	}
	return fmt.Sprintf(begin+`func(doc bson.Raw) (id %s, _ %s, err error) {
%s	var m bson.D
	if err := bson.Unmarshal(doc, &m); err != nil {
		return id, nil, fmt.Errorf("%%w: %%w", mongopatterns.ErrInvalid, err)
	}
%s%s	return id, %s, nil
}, nil)`, c.name, key, one, series, left, s.form.dates(s.at), all)
}

// dates is the code that makes dates of the times of a measurement.
func (f form) dates(path string) string {
	read := fmt.Sprintf(`		text, ok := doc.Lookup(%q).StringValueOK()
		at, err := time.Parse(time.RFC3339, text)
		if !ok || err != nil {
			return id, nil, fmt.Errorf("%%w: %%q is no time", mongopatterns.ErrInvalid, text)
		}
		m[i].Value = at
`, path)
	if f.number > 0 {
		read = fmt.Sprintf(`		n, ok := doc.Lookup(%q).AsInt64OK()
		if !ok {
			return id, nil, fmt.Errorf("%%w: the time is no number", mongopatterns.ErrInvalid)
		}
		m[i].Value = time.UnixMilli(n * %d)
`, path, f.number)
	}
	if f.name == "" {
		return ""
	}
	return fmt.Sprintf(`	if i := slices.IndexFunc(m, func(e bson.E) bool { return e.Key == %q }); i >= 0 {
%s	}
`, path, read)
}

// quoted are strings as Go has them, divided by commas.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(out, ", ")
}
