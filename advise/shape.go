package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Collections up to these bounds are looked at whole; of larger ones a sample
// suggests what to count.
const (
	wholeCount = 5_000
	wholeSize  = 16 << 20
	sampleSize = 1_000
	// fewElements is how many elements an array has at least, somewhere, to be counted.
	fewElements = 16
	// depth is how many names of a path are seen.
	depth = 3
	// objectsOpened are the objects of a document whose members are seen, at each depth.
	objectsOpened = 100
)

// field is a path that documents have, with one type of value. What comes from a
// sample is a suspicion: nothing of it is printed.
type field struct {
	path    string
	kind    string // the server's name of the type
	element string // the type of an array's first element
	n       int64  // documents seen with it
	most    int64  // elements of the longest array seen, keys of the largest object
}

// d is a document of one field: most expressions are.
func d(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }

// shape finds the fields of a collection. $sample prefers large documents or misses
// them, so the largest are looked for besides: by a scan, under MaxTime.
func (l *looker) shape(ctx context.Context, c *collection) error {
	sample := bson.A{d("$sample", d("size", max(min(sampleSize, c.count/20), 1)))} // above 5 % it sorts the collection
	sampled := c.count > wholeCount || c.size > wholeSize
	var err error
	if !sampled {
		err = l.addFields(ctx, c, nil)
		sampled = tookTooLong(err) // documents with hundreds of fields
	}
	if sampled {
		err = l.addFields(ctx, c, sample)
	}
	if err != nil || !sampled {
		return err
	}
	large := bson.A{
		d("$match", d("$expr", d("$gt", bson.A{d("$bsonSize", "$$ROOT"), 4 * c.mean()}))),
		d("$limit", 100),
	}
	if l.slow(c) {
		return l.shapeOfRanges(ctx, c, large)
	}
	if err := l.addFields(ctx, c, large); err != nil {
		return l.failed(ctx, fmt.Errorf("documents far above the mean size: %w", err), "", c, "")
	}
	return nil
}

// shapeOfRanges looks for large documents where a scan would take too long.
func (l *looker) shapeOfRanges(ctx context.Context, c *collection, large bson.A) error {
	const what = "documents far above the mean size, or near 16 MB, "
	strata, err := l.strata(ctx, c)
	if err != nil {
		return l.failed(ctx, fmt.Errorf(what+"were not looked for: %w", err), "", c, "")
	}
	for _, s := range strata {
		if err := l.addFields(ctx, c, append(s.stages(), large...)); err != nil {
			return l.failed(ctx, fmt.Errorf(what+"were not looked for: %w", err), "", c, "")
		}
	}
	l.unknown("", c.name, "", fmt.Sprintf(what+"were looked for in %d ranges of _id alone", len(strata)), l.tells(c))
	return nil
}

func (l *looker) addFields(ctx context.Context, c *collection, first bson.A) error {
	batch, err := l.aggregate(ctx, c.name, append(first, shapePipeline...))
	if err != nil {
		return err
	}
	hidden := int64(0)
	for _, raw := range batch {
		f := field{
			kind: text(raw, "_id", "t"), element: text(raw, "_id", "e"),
			n: integer(raw, "n"), most: integer(raw, "most"),
		}
		var named bool
		if f.path, named = raw.Lookup("_id", "p").StringValueOK(); !named {
			hidden += f.n
			continue
		}
		c.add(f)
	}
	if hidden > 0 {
		l.unknown("", c.name, "", "has fields whose names are empty, contain a dot or begin with $", "other names: expressions cannot name these")
	}
	return nil
}

func (c *collection) add(f field) {
	if f.path == "_id" && c.idType != f.kind {
		if c.idType != "" {
			f.kind = "mixed"
		}
		c.idType = f.kind
	}
	for i, known := range c.fields {
		if known.path == f.path && known.kind == f.kind && known.element == f.element {
			c.fields[i].n += f.n
			c.fields[i].most = max(known.most, f.most)
			return
		}
	}
	c.fields = append(c.fields, f)
}

// tops are the names at the top of the documents.
func (c *collection) tops() []string {
	var names []string
	seen := map[string]bool{}
	for _, f := range c.fields {
		if !strings.Contains(f.path, ".") && !seen[f.path] {
			seen[f.path] = true
			names = append(names, f.path)
		}
	}
	return names
}

// share is the part of the documents seen with a field that have a kind of value there. It is a
// suspicion: see field.
func (c *collection) share(path, kind string) float64 {
	n, all := int64(0), int64(0)
	for _, f := range c.fields {
		if f.path == path {
			all += f.n
			if f.kind == kind {
				n += f.n
			}
		}
	}
	return float64(n) / float64(max(all, 1))
}

// has reports whether some document has a field, of a kind if one is given.
func (c *collection) has(path string, kinds ...string) bool {
	for _, f := range c.fields {
		if f.path != path {
			continue
		}
		if len(kinds) == 0 {
			return true
		}
		for _, kind := range kinds {
			if f.kind == kind {
				return true
			}
		}
	}
	return false
}

// multikey are the places of paths where some document has an array: an index on it has several keys for that document.
func (c *collection) multikey(paths ...string) (arrays []string) {
	for _, path := range paths {
		for i, letter := range path + "." {
			if letter == '.' && c.has(path[:i], "array") {
				arrays = append(arrays, path[:i])
			}
		}
	}
	return arrays
}

// arraysAt says that some documents have an array at one of the places, and how to find them.
func arraysAt(places []string) string {
	return fmt.Sprintf("some documents have an array there: find({%q: {$type: \"array\"}})", places[0])
}

// kind is the one type of a field, "" if there are several.
func (c *collection) kind(path string) (kind string) {
	for _, f := range c.fields {
		if f.path == path {
			if kind != "" && kind != f.kind {
				return ""
			}
			kind = f.kind
		}
	}
	return kind
}

// shapePipeline lists the paths of documents, three names deep, with their types.
// It runs on the server, so that large values stay there.
var shapePipeline = shapeStages()

func shapeStages() bson.A {
	// A name that an expression cannot use becomes null, so that its field is counted.
	usable := func(name string) bson.D {
		return d("$and", bson.A{
			d("$ne", bson.A{name, ""}),
			d("$ne", bson.A{d("$substrCP", bson.A{name, 0, 1}), d("$literal", "$")}),
			d("$eq", bson.A{d("$indexOfBytes", bson.A{name, "."}), -1}),
			d("$lt", bson.A{d("$strLenBytes", name), 200}),
		})
	}
	members := func(document string, above any) bson.D {
		path := any("$$c.k")
		if above != nil {
			path = d("$concat", bson.A{above, ".", "$$c.k"})
		}
		return d("$map", bson.D{
			{Key: "input", Value: d("$slice", bson.A{d("$objectToArray", document), 500})},
			{Key: "as", Value: "c"},
			{Key: "in", Value: bson.D{
				{Key: "p", Value: d("$cond", bson.A{usable("$$c.k"), path, nil})},
				{Key: "v", Value: "$$c.v"},
			}},
		})
	}
	// The members of a list's objects, one list. Most documents have few objects, and are unwound once.
	opened := func(list string) bson.D {
		isObject := d("$and", bson.A{d("$eq", bson.A{d("$type", "$$o.v"), "object"}), d("$ne", bson.A{"$$o.p", nil})})
		objects := d("$slice", bson.A{d("$filter", bson.D{{Key: "input", Value: list}, {Key: "as", Value: "o"}, {Key: "cond", Value: isObject}}), objectsOpened})
		each := d("$map", bson.D{{Key: "input", Value: objects}, {Key: "as", Value: "o"}, {Key: "in", Value: members("$$o.v", "$$o.p")}})
		return d("$reduce", bson.D{{Key: "input", Value: each}, {Key: "initialValue", Value: bson.A{}}, {Key: "in", Value: d("$concatArrays", bson.A{"$$value", "$$this"})}})
	}
	stages := bson.A{d("$project", bson.D{{Key: "_id", Value: 0}, {Key: "l1", Value: members("$$ROOT", nil)}})}
	levels, kept := bson.A{"$l1"}, bson.D{{Key: "l1", Value: 1}}
	for level := 2; level <= depth; level++ {
		name := fmt.Sprint("l", level)
		kept = append(kept, bson.E{Key: name, Value: opened(fmt.Sprint("$l", level-1))})
		stages = append(stages, d("$project", slices.Clone(kept)))
		levels, kept[len(kept)-1].Value = append(levels, "$"+name), 1
	}
	stages = append(stages, d("$project", d("all", d("$concatArrays", levels))), d("$unwind", "$all"))
	isArray := d("$isArray", "$all.v")
	return append(stages,
		d("$group", bson.D{
			{Key: "_id", Value: bson.D{
				{Key: "p", Value: "$all.p"}, {Key: "t", Value: d("$type", "$all.v")},
				{Key: "e", Value: d("$cond", bson.A{isArray, d("$type", d("$first", "$all.v")), ""})},
			}},
			{Key: "n", Value: d("$sum", 1)},
			{Key: "most", Value: d("$max", d("$switch", bson.D{{Key: "branches", Value: bson.A{
				bson.D{{Key: "case", Value: isArray}, {Key: "then", Value: d("$size", "$all.v")}},
				bson.D{{Key: "case", Value: d("$eq", bson.A{d("$type", "$all.v"), "object"})}, {Key: "then", Value: d("$size", d("$objectToArray", "$all.v"))}},
			}}, {Key: "default", Value: 0}}))},
		}),
		d("$sort", bson.D{{Key: "n", Value: -1}, {Key: "_id", Value: 1}}),
		d("$limit", maxReply/2),
	)
}
