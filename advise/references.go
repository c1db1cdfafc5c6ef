package advise

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	danglingShare = 0.8 // of a field's values name a document, if it is a reference; of copies are as their source is
	danglingOf    = 4   // collections that a field without a kindred name may refer to
	copiesLeast   = 20  // values that are compared, at least, of copyValues different ones: a state is often the same
	copyValues    = 5
	copiesKept    = 50 // fields that may be copies of those of one source
)

// look is what is asked of a field whose values name documents of another collection.
type look func(ctx context.Context, c *collection, path string, source *collection) error

// referencing looks at fields and lists whose values name documents of another collection: for references that lead nowhere,
// where most lead to a document, and for what should be the same on both sides of one.
func (l *looker) referencing(ctx context.Context, c *collection) error {
	done := map[string]bool{}
	for _, f := range c.fields {
		list := f.kind == "array"
		if f.path == "_id" || done[f.path] || !list && c.has(f.path, "array") || c.continues(f.path) {
			continue
		}
		looks := []look{l.dangle, l.stale}
		if list {
			f.kind, looks = f.element, []look{l.oneSided}
		}
		source, err := l.source(ctx, c, f)
		if source != nil {
			done[f.path] = true
			for _, look := range looks {
				if failed := look(ctx, c, f.path, source); err == nil { // the others look all the same
					err = failed
				}
			}
		}
		if err != nil {
			if err := l.failed(ctx, err, "", c, f.path); err != nil || l.spent() {
				return err
			}
		}
	}
	return nil
}

// source returns the collection that a field refers to: the first one in which most of its values are an _id. It returns nil
// if no collection is.
func (l *looker) source(ctx context.Context, c *collection, f field) (*collection, error) {
	least := 1
	if slices.Contains(numbers, f.kind) {
		least = relationNumbers
	}
	for _, other := range l.referred(c, f) {
		found, err := l.sampleFound(ctx, c, f.path, other.name, least)
		if err != nil {
			return nil, err
		}
		if found {
			return other, nil
		}
	}
	return nil, nil
}

// referred are the collections whose _ids a field may hold.
func (l *looker) referred(c *collection, f field) (out []*collection) {
	var others []*collection
	path := strings.TrimSuffix(strings.TrimSuffix(f.path, "._id"), ".id") // the name of {customer: {_id: 7}} is customer
	name := path[strings.LastIndex(path, ".")+1:]
	for _, collection := range slices.Sorted(maps.Keys(l.all)) {
		other := l.all[collection]
		if other.few() || !other.has("_id", alike(f.kind)...) || !slices.Contains(append([]string{"objectId", "binData", "string"}, numbers...), f.kind) {
			continue
		}
		switch unique := f.kind == "objectId" || f.kind == "binData"; {
		case other != c && akin(name, other.name):
			out = append(out, other)
		case unique:
			others = append(others, other)
		}
	}
	if len(others) > danglingOf {
		return out
	}
	return append(out, others...)
}

// alike are the types whose values equal those of a type.
func alike(kind string) []string {
	if slices.Contains(numbers, kind) {
		return numbers
	}
	return []string{kind}
}

func (l *looker) dangle(ctx context.Context, c *collection, path string, other *collection) error {
	pipeline := bson.A{
		d("$match", d(path, d("$ne", nil))),
		d("$group", bson.D{{Key: "_id", Value: "$" + path}, {Key: "n", Value: d("$sum", 1)}}),
		d("$lookup", bson.D{{Key: "from", Value: other.name}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "to"}, {Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", "$n")}, {Key: "part", Value: d("$sum", d("$cond", bson.A{d("$eq", bson.A{d("$size", "$to"), 0}), "$n", 0}))}}),
	}
	return l.disagree(ctx, c, pipeline, Remark{Kind: "dangling", Collection: c.name, Path: path, Pattern: "relation", Sure: "; that it is a reference is by its values"},
		"references", "name", "no document of "+other.name)
}

// twin is a field that may be a copy of one of the document that a reference names.
type twin struct{ here, there string }

// copies are the fields beside a reference whose names say that they are of its source: customer_name or customerName beside
// customer or customer_id, and customer.name beside customer.id.
func (c *collection) copies(reference string, source *collection) (out []twin) {
	above, name := "", reference
	if i := strings.LastIndex(reference, "."); i >= 0 {
		above, name = reference[:i+1], reference[i+1:]
	}
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	base := plain(name)
	if base != "id" {
		base = strings.TrimSuffix(base, "id")
	}
	for _, f := range c.fields {
		own, beside := strings.CutPrefix(f.path, above)
		if !beside || f.path == reference || strings.Contains(own, ".") || c.has(f.path, "array", "object") {
			continue
		}
		for _, s := range source.fields {
			same := plain(own) == base+plain(s.path) || base == "id" && own == s.path
			if same && s.path != "_id" && !source.has(s.path, "array", "object") && !slices.Contains(out, twin{f.path, s.path}) && len(out) < copiesKept {
				out = append(out, twin{f.path, s.path})
			}
		}
	}
	return out
}

// stale looks for copies of fields of a source that differ from them, where most are the same.
func (l *looker) stale(ctx context.Context, c *collection, reference string, source *collection) error {
	pairs := c.copies(reference, source)
	if len(pairs) == 0 || (joins{local: reference}).managed(c) { // those of extref follow
		return nil
	}
	compared := bson.D{{Key: "_id", Value: 0}}
	sums := bson.D{{Key: "_id", Value: nil}}
	sizes := bson.D{}
	for i, p := range pairs {
		name := fmt.Sprint("f", i)
		compared = append(compared, bson.E{Key: name, Value: "$" + p.there})
		there := d("$first", "$found."+name)
		both := d("$and", bson.A{d("$gt", bson.A{"$" + p.here, nil}), d("$gt", bson.A{there, nil})})
		sums = append(sums, bson.E{Key: fmt.Sprint("n", i), Value: d("$sum", d("$cond", bson.A{both, 1, 0}))},
			bson.E{Key: fmt.Sprint("s", i), Value: d("$sum", d("$cond", bson.A{d("$and", bson.A{both, d("$eq", bson.A{"$" + p.here, there})}), 1, 0}))},
			bson.E{Key: fmt.Sprint("v", i), Value: d("$addToSet", there)})
		sizes = append(sizes, bson.E{Key: fmt.Sprint("v", i), Value: d("$size", fmt.Sprint("$v", i))})
	}
	found := d("$lookup", bson.D{{Key: "from", Value: source.name}, {Key: "localField", Value: reference}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "found"},
		{Key: "pipeline", Value: bson.A{d("$project", compared)}}})
	batch, err := l.aggregate(ctx, c.name, append(c.first(), found, d("$group", sums), d("$set", sizes)))
	if err != nil || len(batch) == 0 {
		return err
	}
	for i, p := range pairs {
		n := func(letter string) int64 { return integer(batch[0], fmt.Sprint(letter, i)) }
		if n("n") < copiesLeast || n("v") < copyValues || float64(n("s")) < danglingShare*float64(n("n")) {
			continue
		}
		if err := l.differing(ctx, c, reference, source, p); err != nil {
			return err
		}
	}
	return nil
}

// differing counts the copies that differ from their source.
func (l *looker) differing(ctx context.Context, c *collection, reference string, source *collection, p twin) error {
	return l.disagree(ctx, c, differences(reference, source, "_id", p), Remark{Kind: "stale", Collection: c.name, Path: p.here, Pattern: "extref",
		Sure: "; whether a copy has to follow, or keeps what was true once, such as the price paid, only you know"},
		"copies of "+source.name+"."+p.there, "differ", "from it")
}

// differences counts all copies, and those of them that differ from their source.
func differences(reference string, source *collection, key string, p twin) bson.A {
	return bson.A{
		d("$match", bson.D{{Key: reference, Value: d("$ne", nil)}, {Key: p.here, Value: d("$ne", nil)}}),
		d("$group", bson.D{{Key: "_id", Value: bson.D{{Key: "to", Value: "$" + reference}, {Key: "value", Value: "$" + p.here}}}, {Key: "n", Value: d("$sum", 1)}}),
		d("$lookup", bson.D{{Key: "from", Value: source.name}, {Key: "localField", Value: "_id.to"}, {Key: "foreignField", Value: key}, {Key: "as", Value: "found"},
			{Key: "pipeline", Value: bson.A{d("$project", d("v", "$"+p.there))}}}),
		d("$match", d("$expr", d("$gt", bson.A{d("$first", "$found.v"), nil}))),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", "$n")},
			{Key: "part", Value: d("$sum", d("$cond", bson.A{d("$ne", bson.A{"$_id.value", d("$first", "$found.v")}), "$n", 0}))}}),
	}
}

// disagree adds a remark on a part of what a pipeline counts, if most agree.
func (l *looker) disagree(ctx context.Context, c *collection, pipeline bson.A, r Remark, what, do, how string) error {
	check, ok, err := l.tally(ctx, c, pipeline, bson.D{{Key: "aggregate", Value: c.name}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}}, "cursor", "firstBatch", "0", "part")
	if err != nil || !ok || check.Answer == 0 {
		return err
	}
	all, of := check.all, "the"
	if !check.Estimated {
		all = check.figure("all")
		of = group(all)
	}
	if float64(all-check.Answer) >= danglingShare*float64(all) {
		r.Check, r.Sure = check, check.sure()+r.Sure
		r.Reason = fmt.Sprintf("%s of %s %s %s %s", group(check.Answer), of, what, verb(check.Answer, do), how)
		l.remark(r)
	}
	return nil
}

// oneSided counts the references of a list that its children do not return, and those of the children that the lists lack.
func (l *looker) oneSided(ctx context.Context, c *collection, path string, children *collection) error {
	back, err := l.namesBack(ctx, c, children, path)
	if err != nil || back == "" {
		return err
	}
	lists, owners := c.name+"."+path, children.name+"."+back
	sure := "; that they are two sides of one relation is by their values"
	agree := func(condition any) bson.D {
		return d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", 1)}, {Key: "part", Value: d("$sum", d("$cond", bson.A{condition, 0, 1}))}})
	}
	fromLists := bson.A{
		d("$match", d(path, d("$type", "array"))), d("$project", d("to", "$"+path)), d("$unwind", "$to"),
		d("$lookup", bson.D{{Key: "from", Value: children.name}, {Key: "localField", Value: "to"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "child"},
			{Key: "pipeline", Value: bson.A{d("$project", d("owner", "$"+back))}}}),
		d("$match", d("child", d("$ne", bson.A{}))),
		agree(d("$eq", bson.A{"$_id", d("$first", "$child.owner")})),
	}
	if err := l.disagree(ctx, c, fromLists, Remark{Kind: "onesided", Collection: c.name, Path: path, Pattern: "relation", Sure: sure},
		"references to "+children.name, "are", "to a document that does not name this one in "+owners); err != nil {
		return err
	}
	list := d("$cond", bson.A{d("$isArray", "$"+path), "$" + path, bson.A{}})
	fromChildren := bson.A{
		d("$match", d(back, d("$ne", nil))),
		d("$lookup", bson.D{{Key: "from", Value: c.name}, {Key: "localField", Value: back}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "owner"},
			{Key: "let", Value: d("child", "$_id")}, {Key: "pipeline", Value: bson.A{d("$project", d("has", d("$in", bson.A{"$$child", list})))}}}),
		d("$match", d("owner", d("$ne", bson.A{}))),
		agree(d("$first", "$owner.has")),
	}
	return l.disagree(ctx, children, fromChildren, Remark{Kind: "onesided", Collection: children.name, Path: back, Pattern: "relation", Sure: sure},
		"references to "+c.name, "are", "to a document that lacks this one in "+lists)
}
