package advise

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Remark is what the data shows without a query.
type Remark struct {
	// Kind is limit (documents near 16 MB), dangling (references), onesided (references to each other), references (text
	// where ObjectIDs are), stale (copies), mixed (types of a field), dates (as text), shapes (of documents) or old
	// (documents).
	Kind       string `json:"kind"`
	Collection string `json:"collection"`
	Path       string `json:"path,omitempty"`
	Pattern    string `json:"pattern,omitempty"` // the package for it, if there is one
	Reason     string `json:"reason"`
	Sure       string `json:"sure"`
	Check      Check  `json:"check"`

	short string // of a mixed one, beside others of its collection
}

// Name is the remark as -ignore and -baseline name it: data:dates:orders.placed
func (r Remark) Name() string {
	return "data:" + r.Kind + ":" + r.Collection + after(".", r.Path, "")
}

// remarkKinds are in the order of a report: what fails first, first.
var remarkKinds = []string{"limit", "dangling", "onesided", "references", "stale", "mixed", "dates", "shapes", "old"}

const (
	limitBytes  = 4 << 20 // a document from here on nears 16 MB
	mixedShare  = 0.2     // of a field's values may be of other types, for a remark: more are meant
	textShare   = 0.95    // of a field's texts are dates or ObjectIDs
	shapesMost  = 8       // kinds of documents
	shapeNames  = 100     // of a document that are compared
	shapesShare = 0.95    // of the documents that they are
	shapesLeast = 0.05    // of the documents are of each
	oldYears    = 2
	oldShare    = 0.5
	probed      = 100 // fields, and types, of a collection at most
)

// Texts that should be values of another type.
const (
	isoDate  = `^\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])([T ][0-2]\d:[0-5]\d.*)?$`
	objectID = `^[0-9a-fA-F]{24}$`
)

func (l *looker) remark(r Remark) { l.report.Remarks = append(l.report.Remarks, r) }

// data looks at what a collection shows by itself.
func (l *looker) data(ctx context.Context, c *collection) error {
	for _, detect := range []func(context.Context, *collection) error{l.limit, l.types, l.texts, l.kinds, l.old} {
		if err := detect(ctx, c); err != nil {
			if err := l.failed(ctx, err, "", c, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// first is the part of a collection that raises suspicions.
func (c *collection) first() bson.A {
	if c.count > wholeCount || c.size > wholeSize {
		return bson.A{d("$sample", d("size", min(sampleSize, c.count/20)))}
	}
	return bson.A{d("$limit", sampleSize)}
}

// limit looks for documents near 16 MB.
func (l *looker) limit(ctx context.Context, c *collection) error {
	if c.size < limitBytes || l.slow(c) { // see shapeOfRanges
		return nil
	}
	large := d("$match", d("$expr", d("$gte", bson.A{d("$bsonSize", "$$ROOT"), limitBytes})))
	check, err := l.check(ctx, bson.D{{Key: "aggregate", Value: c.name}, {Key: "pipeline", Value: bson.A{large, d("$group", bson.D{{Key: "_id", Value: nil},
		{Key: "n", Value: d("$sum", 1)}, {Key: "largest", Value: d("$max", d("$bsonSize", "$$ROOT"))}})}}, {Key: "cursor", Value: bson.D{}}}, "cursor", "firstBatch", "0", "n")
	if err != nil || check.Answer == 0 {
		return err
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{large, d("$limit", 20), d("$project", d("f", d("$objectToArray", "$$ROOT"))), d("$unwind", "$f"),
		d("$group", bson.D{{Key: "_id", Value: bson.D{{Key: "k", Value: "$f.k"}, {Key: "t", Value: d("$type", "$f.v")}}}, {Key: "bytes", Value: d("$max", d("$bsonSize", d("v", "$f.v")))}}),
		d("$sort", d("bytes", -1)), d("$limit", 1)})
	if err != nil || len(batch) == 0 {
		return err
	}
	path, kind := text(batch[0], "_id", "k"), text(batch[0], "_id", "t")
	r := Remark{Kind: "limit", Collection: c.name, Path: path, Check: check, Sure: "counted",
		Reason: fmt.Sprintf("%s of 4 MiB or more, the largest %s, most of it in %s; the server refuses more than 16 MB", many(check.Answer, "document"), bytes(check.figure("largest")), path)}
	if kind == "array" {
		r.Pattern = "outlier"
	}
	l.remark(r)
	return nil
}

// types looks for fields in which a few values differ in type from the rest. All numbers count as one type.
func (l *looker) types(ctx context.Context, c *collection) error {
	for _, path := range c.mixedPaths() {
		if l.slow(c) {
			l.unknown("", c.name, path, "values of several types were seen, and a scan takes too long", l.tells(c))
			continue
		}
		check, err := l.check(ctx, bson.D{{Key: "aggregate", Value: c.name}, {Key: "pipeline", Value: bson.A{
			d("$match", d(path, d("$ne", nil))), d("$group", bson.D{{Key: "_id", Value: d("$type", "$"+path)}, {Key: "n", Value: d("$sum", 1)}}), d("$sort", bson.D{{Key: "n", Value: -1}, {Key: "_id", Value: 1}}),
		}}, {Key: "cursor", Value: bson.D{}}}, "cursor", "firstBatch", "0", "n")
		if err != nil {
			return err
		}
		batch, err := l.batch(ctx, l.db, check.reply)
		if err != nil {
			return err
		}
		seen, texts := map[string]int64{}, []string{}
		for _, raw := range batch {
			kind, n := text(raw, "_id"), integer(raw, "n")
			if seen[kind] = n; kind != "missing" {
				texts = append(texts, fmt.Sprintf("%s in %s", kind, many(n, "document")))
			}
		}
		delete(seen, "missing")
		kind, n, all := most(seen)
		if n == all || float64(all-n) > mixedShare*float64(all) {
			continue
		}
		l.remark(Remark{Kind: "mixed", Collection: c.name, Path: path, short: fmt.Sprintf("%s (%s of %s no %s)", path, group(all-n), group(all), kind), Pattern: "schemaversion", Check: check, Sure: "counted; whether it is meant, only you know",
			Reason: "values are of several types: " + strings.Join(texts, ", ") + "; a query by one type does not find the others"})
	}
	return nil
}

// mixedPaths are the fields in which a few of the values seen differ in type from the rest.
func (c *collection) mixedPaths() (out []string) {
	seen := map[string]map[string]int64{}
	for _, f := range c.fields {
		if slices.Contains([]string{"null", "undefined", "missing"}, f.kind) || f.path == "_id" {
			continue
		}
		if seen[f.path] == nil {
			seen[f.path] = map[string]int64{}
		}
		seen[f.path][f.kind] += f.n
	}
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		if _, n, total := most(seen[path]); n < total && len(out) < probed && float64(total-n) <= 2*mixedShare*float64(total) {
			out = append(out, path)
		}
	}
	return out
}

// texts looks for dates and ObjectIDs that are stored as text.
func (l *looker) texts(ctx context.Context, c *collection) error {
	var paths []string
	group := bson.D{{Key: "_id", Value: nil}}
	for _, f := range c.fields {
		if f.kind != "string" || slices.Contains(paths, f.path) || len(paths) == probed || f.path == "_id" {
			continue
		}
		i := fmt.Sprint(len(paths))
		paths = append(paths, f.path)
		group = append(group, bson.E{Key: "s" + i, Value: d("$sum", d("$cond", bson.A{matching(f.path, ""), 1, 0}))},
			bson.E{Key: "d" + i, Value: d("$sum", d("$cond", bson.A{matching(f.path, isoDate), 1, 0}))},
			bson.E{Key: "o" + i, Value: d("$sum", d("$cond", bson.A{matching(f.path, objectID), 1, 0}))})
	}
	if len(paths) == 0 {
		return nil
	}
	batch, err := l.aggregate(ctx, c.name, append(c.first(), d("$group", group)))
	if err != nil || len(batch) == 0 {
		return err
	}
	for i, path := range paths {
		n := func(letter string) float64 { return float64(integer(batch[0], fmt.Sprint(letter, i))) }
		least := textShare * n("s")
		switch {
		case n("s") == 0:
		case n("d") >= least:
			check, ok, err := l.tally(ctx, c, partOf(matching(path, isoDate)), bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d(path, d("$regex", isoDate))}}, "n")
			if err != nil || !ok {
				return err
			}
			l.remark(Remark{Kind: "dates", Collection: c.name, Path: path, Pattern: "schemaversion", Check: check, Sure: check.sure() + "; that they are dates is by their form",
				Reason: fmt.Sprintf("%s dates as text: no TTL index, window or date expression takes them, and ranges are right in one format and zone alone", has(check.Answer))})
		case n("o") >= least:
			if err := l.textReferences(ctx, c, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func has(n int64) string { return many(n, "document") + " " + verb(n, "have") }

// matching is the condition of a text that a pattern matches.
func matching(path, pattern string) bson.D {
	isText := d("$eq", bson.A{d("$type", "$"+path), "string"})
	return d("$and", bson.A{isText, d("$regexMatch", bson.D{{Key: "input", Value: d("$cond", bson.A{isText, "$" + path, ""})}, {Key: "regex", Value: pattern}})})
}

// textReferences looks for the collection whose ObjectIDs are here as text.
func (l *looker) textReferences(ctx context.Context, c *collection, path string) error {
	for _, name := range slices.Sorted(maps.Keys(l.all)) {
		if l.all[name].few() {
			continue
		}
		batch, err := l.aggregate(ctx, c.name, bson.A{
			d("$match", d(path, d("$regex", objectID))), d("$limit", 200),
			d("$project", d("to", d("$convert", bson.D{{Key: "input", Value: "$" + path}, {Key: "to", Value: "objectId"}, {Key: "onError", Value: nil}, {Key: "onNull", Value: nil}}))),
			d("$lookup", bson.D{{Key: "from", Value: name}, {Key: "localField", Value: "to"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "found"}, {Key: "pipeline", Value: bson.A{d("$project", d("_id", 1))}}}),
			d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "named", Value: d("$sum", 1)}, {Key: "found", Value: d("$sum", d("$size", "$found"))}}),
		})
		if err != nil {
			return err
		}
		if len(batch) == 0 || 2*integer(batch[0], "found") < integer(batch[0], "named") {
			continue
		}
		check, ok, err := l.tally(ctx, c, partOf(matching(path, objectID)), bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d(path, d("$regex", objectID))}}, "n")
		if err != nil || !ok {
			return err
		}
		l.remark(Remark{Kind: "references", Collection: c.name, Path: path, Pattern: "schemaversion", Check: check, Sure: check.sure() + "; half of 200 or more name a document",
			Reason: fmt.Sprintf("%s text that is the _id of %s, an ObjectID there: no $lookup joins these, and they take twice the bytes", has(check.Answer), name)})
		return nil
	}
	return nil
}

// kinds looks for a few kinds of documents, each with fields that the others lack.
func (l *looker) kinds(ctx context.Context, c *collection) error {
	names := d("$map", bson.D{{Key: "input", Value: d("$objectToArray", "$$ROOT")}, {Key: "in", Value: "$$this.k"}})
	batch, err := l.aggregate(ctx, c.name, append(c.first(),
		d("$project", d("k", d("$slice", bson.A{d("$setUnion", bson.A{names, bson.A{}}), shapeNames}))),
		d("$group", bson.D{{Key: "_id", Value: "$k"}, {Key: "n", Value: d("$sum", 1)}}),
		d("$sort", bson.D{{Key: "n", Value: -1}, {Key: "_id", Value: 1}}),
		d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", "$n")}, {Key: "kinds", Value: d("$push", bson.D{{Key: "names", Value: "$_id"}, {Key: "n", Value: "$n"}})}}),
		d("$project", bson.D{{Key: "all", Value: 1}, {Key: "kinds", Value: d("$slice", bson.A{"$kinds", shapesMost + 1})}})))
	if err != nil || len(batch) == 0 {
		return err
	}
	var seen struct {
		All   int64
		Kinds []struct {
			Names []string
			N     int64
		}
	}
	if err := bson.Unmarshal(batch[0], &seen); err != nil {
		return err
	}
	all, some := seen.All, int64(0)
	var kinds [][]string
	for _, kind := range seen.Kinds {
		if float64(kind.N) >= shapesLeast*float64(all) {
			some += kind.N
			kinds = append(kinds, kind.Names)
		}
	}
	own := exclusive(kinds)
	if len(kinds) < 2 || len(kinds) > shapesMost || float64(some) < shapesShare*float64(all) || own == nil {
		return nil
	}
	// The field of the rarest of the kinds.
	last := own[len(own)-1]
	there := d("$ne", bson.A{d("$type", "$"+last), "missing"})
	check, ok, err := l.tally(ctx, c, partOf(there), bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d(last, d("$exists", true))}}, "n")
	if err != nil || !ok {
		return err
	}
	l.remark(Remark{Kind: "shapes", Collection: c.name, Path: last, Pattern: "schemaversion, polymorphic", Check: check, Sure: check.sure() + "; the others as far as was seen, and whether it is meant, only you know",
		Reason: fmt.Sprintf("documents are of %d kinds, each with a field that the others lack: %s (%s the last one)", len(kinds), strings.Join(own, ", "), has(check.Answer))})
	return nil
}

// exclusive is a field of each kind that no other kind has, nil if one has none.
func exclusive(kinds [][]string) (out []string) {
	for i, names := range kinds {
		j := slices.IndexFunc(names, func(name string) bool {
			for other, theirs := range kinds {
				if other != i && slices.Contains(theirs, name) {
					return false
				}
			}
			return name != "" && !strings.ContainsAny(name, ".$")
		})
		if j < 0 {
			return nil
		}
		out = append(out, names[j])
	}
	return out
}

var creation = regexp.MustCompile(`(?i)^(created|inserted|placed|ordered|logged|sent|received|recorded)(_?(at|on|date|time))?$|^timestamp$`)

// old looks for documents that were made long ago, where there are many.
func (l *looker) old(ctx context.Context, c *collection) error {
	if c.size < wholeSize {
		return nil
	}
	before := l.report.At.AddDate(-oldYears, 0, 0)
	path, bound := "_id", any(bson.NewObjectIDFromTimestamp(before))
	if c.idType != "objectId" {
		i := slices.IndexFunc(c.fields, func(f field) bool { return f.kind == "date" && creation.MatchString(f.path) })
		if i < 0 {
			return nil
		}
		path, bound = c.fields[i].path, before
	}
	earlier := d("$and", bson.A{d("$gt", bson.A{"$" + path, nil}), d("$lt", bson.A{"$" + path, bound})})
	check, ok, err := l.tally(ctx, c, partOf(earlier), bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: d(path, d("$lt", bound))}}, "n")
	if err != nil || !ok || float64(check.Answer) < oldShare*float64(c.count) {
		return err
	}
	if strings.Contains(check.Shell, `{"$`) { // values of any type
		check.Shell = "db.runCommand(EJSON.deserialize(" + strings.TrimPrefix(check.Shell, "db.runCommand(") + ")"
	}
	l.remark(Remark{Kind: "old", Collection: c.name, Path: path, Pattern: "archive", Check: check, Sure: check.sure() + "; whether they are still read, no data says",
		Reason: fmt.Sprintf("%s of %s %s from before %s, by %s", group(check.Answer), many(c.count, "document"), verb(check.Answer, "are"), before.UTC().Format(time.DateOnly), path)})
	return nil
}
