package advise

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rule: at least attributeIndexes fields beside each other, each in less
// than attributeShare of the documents, have a plain index of their own or reads that filter by them, and at most one
// read in four of those that name one names several, with at most attributeWrites writes to a read. Up to attributeOther of the documents may
// have values of other types there.
const (
	attributeIndexes = 10
	// attributeFamily fields are enough if their names begin alike, as release_USA and release_France, and the documents
	// that have some have attributeVaried of them at most, on average: else they are the parts of one thing.
	attributeFamily  = 6
	attributeVaried  = 0.75
	attributeShare   = 0.5
	attributeSeveral = 0.25
	attributeWrites  = 10 // for each read
	entryKey         = 3  // bytes of the type and the key of an element
	attributeOther   = 0.05
	// attributeMixed is the part of a field's values, as far as was seen, that may be of other types: of a
	// field with more the type is not clear.
	attributeMixed = 0.25
)

// index is an index of a collection.
type index struct {
	name  string
	keys  bson.D
	plain bool // it holds all values of its fields, in the order of bytes, and for ever
	whole bool // it has each document, in that order
}

// indexes lists the indexes of a collection.
func (l *looker) indexes(ctx context.Context, c *collection) ([]index, error) {
	reply, err := l.run(ctx, l.db, bson.D{{Key: "listIndexes", Value: c.name}, {Key: "cursor", Value: bson.D{{Key: "batchSize", Value: 1000}}}})
	if err != nil {
		return nil, err
	}
	batch, err := l.batch(ctx, l.db, reply)
	var out []index
	for _, raw := range batch {
		var document bson.D
		if err := bson.Unmarshal(raw, &document); err != nil {
			return nil, err
		}
		i := index{plain: true, whole: true}
		i.name, _ = at(document, "name").(string)
		i.keys, _ = at(document, "key").(bson.D)
		for _, option := range []string{"partialFilterExpression", "collation", "sparse", "hidden", "wildcardProjection"} {
			value := at(document, option)
			i.whole = i.whole && (value == nil || value == false)
		}
		for _, option := range []string{"unique", "partialFilterExpression", "expireAfterSeconds", "collation", "wildcardProjection"} {
			i.plain = i.plain && at(document, option) == nil
		}
		for _, key := range i.keys {
			n, ok := number(key.Value)
			i.plain = i.plain && ok && (n == 1 || n == -1) && !strings.Contains(key.Key, "$**")
		}
		out = append(out, i)
	}
	return out, err
}

// numbers are the types that one field of numbers may have, also in turn.
var numbers = []string{"int", "long", "double", "decimal"}

// siblings are fields beside each other, of one type.
type siblings struct {
	above string // the subdocument; "": at the top
	kind  string
	alike string // how their names begin, of fewer than attributeIndexes
	paths []string
	mixed []string // those of them with too many values of other types
	other []string // the types of these values, as far as was seen
}

// simple are the types that entries of one array may share.
var simple = []string{"string", "date", "bool", "objectId", "number"}

// sparse groups the fields that, as far as was seen, some documents lack, by the type that most of
// their values have.
func (c *collection) sparse() []*siblings {
	kinds := map[string]map[string]int64{} // by path
	for _, f := range c.fields {
		if f.kind != "null" && f.path != "_id" {
			if kinds[f.path] == nil {
				kinds[f.path] = map[string]int64{}
			}
			kinds[f.path][f.kind] += f.n
		}
	}
	all := map[groupKey]*siblings{}
	for path, seen := range kinds {
		kind, n, total := most(seen)
		if !slices.Contains(simple, kind) {
			continue
		}
		k := groupKey{path[:strings.LastIndex(path, ".")+1], kind}
		if all[k] == nil {
			all[k] = &siblings{above: strings.TrimSuffix(k.above, ".")}
		}
		s := all[k]
		s.paths = append(s.paths, path)
		if float64(total-n) > attributeMixed*float64(total) {
			s.mixed = append(s.mixed, path)
			continue
		}
		for other := range seen {
			switch {
			case slices.Contains(types(kind), other):
				s.kind = cmp.Or(s.kind, other)
				if s.kind != other {
					s.kind = kind // numbers of several types
				}
			case !slices.Contains(s.other, other):
				s.other = append(s.other, other)
			}
		}
	}
	var out []*siblings
	for _, s := range all {
		s.kind = cmp.Or(s.kind, "mixed")
		slices.Sort(s.paths)
		slices.Sort(s.other)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *siblings) int { return strings.Compare(a.above+a.kind, b.above+b.kind) })
	return out
}

// most is the type that most values of a field have, and how many: all numbers are of one type, as
// JavaScript writes them: 1 is an int, 1.5 a double.
func most(seen map[string]int64) (kind string, n, total int64) {
	sums := map[string]int64{}
	for k, count := range seen {
		if slices.Contains(numbers, k) {
			k = "number"
		}
		sums[k] += count
		total += count
	}
	for k, sum := range sums {
		if sum > n || sum == n && k < kind {
			kind, n = k, sum
		}
	}
	return kind, n, total
}

// types are the server's names of a kind.
func types(kind string) []string {
	if kind == "number" {
		return numbers
	}
	return []string{kind}
}

type groupKey struct{ above, kind string }

func (l *looker) attribute(ctx context.Context, c *collection) error {
	const pattern = "attribute"
	groups := c.sparse()
	if !slices.ContainsFunc(unite(groups), func(s *siblings) bool { return len(s.paths) >= attributeFamily }) {
		return nil
	}
	all, err := l.plainIndexes(ctx, c.name)
	if err != nil {
		return l.failed(ctx, err, pattern, c, "")
	}
	for _, s := range groups {
		l.wildcard(c, s, all)
		l.unindexed(c, s, all)
		needed := func(path string) bool { return indexed(all, path) || c.filtersBy(path) && c.rare(path) }
		s.paths = slices.DeleteFunc(s.paths, func(path string) bool { return !needed(path) })
		s.mixed = slices.DeleteFunc(s.mixed, func(path string) bool { return !needed(path) })
	}
	for _, s := range unite(groups) {
		if len(s.paths) == 0 {
			continue
		}
		if err := l.failed(ctx, l.siblings(ctx, c, s, all), pattern, c, s.above); err != nil {
			return err
		}
	}
	return nil
}

// wildcard leaves out the fields that a wildcard index has already, and says so.
func (l *looker) wildcard(c *collection, s *siblings, all []index) {
	for _, i := range all {
		if !i.whole || len(i.keys) != 1 || !strings.HasSuffix(i.keys[0].Key, "$**") {
			continue
		}
		above, n := strings.TrimSuffix(i.keys[0].Key, "$**"), len(s.paths)
		has := func(path string) bool { return strings.HasPrefix(path, above) }
		s.paths, s.mixed = slices.DeleteFunc(s.paths, has), slices.DeleteFunc(s.mixed, has)
		if n >= attributeFamily && len(s.paths) < n {
			l.not("attribute", c.name, s.above, "the wildcard index "+i.name+" serves reads by each of these fields, as one index of entries would")
		}
	}
}

// unite joins the groups below one subdocument that are too small by themselves, as fields of several types.
func unite(groups []*siblings) (out []*siblings) {
	small := map[string]*siblings{}
	var order []*siblings
	for _, s := range groups {
		if len(s.paths)-len(s.mixed) >= attributeIndexes || s.family() != "" {
			out = append(out, s)
			continue
		}
		u := small[s.above]
		if u == nil {
			u = &siblings{above: s.above, kind: s.kind}
			small[s.above], order = u, append(order, u)
		}
		if len(s.paths) > 0 && !strings.Contains(u.kind, s.kind) {
			u.kind += " and " + s.kind
		}
		u.paths, u.mixed = append(u.paths, s.paths...), append(u.mixed, s.mixed...)
	}
	return append(out, order...)
}

// indexed reports a field that has a plain index of its own.
func indexed(all []index, path string) bool {
	return slices.ContainsFunc(all, func(i index) bool { return i.plain && len(i.keys) == 1 && i.keys[0].Key == path })
}

// filtersBy reports reads whose filter names a field.
func (t *traffic) filtersBy(path string) bool {
	return slices.ContainsFunc(t.finds, func(r read) bool { return slices.Contains(r.match, path) })
}

// rare reports a field that, as far as was seen, less than attributeShare of the documents have.
func (c *collection) rare(path string) bool {
	n, all := int64(0), int64(0)
	for _, f := range c.fields {
		switch f.path {
		case path:
			n += f.n
		case "_id":
			all += f.n
		}
	}
	return float64(n) < attributeShare*float64(all)
}

// unindexed says of many fields that most documents lack, as far as was seen, why no index of them can go.
func (l *looker) unindexed(c *collection, s *siblings, all []index) {
	rare, compound := 0, 0
	for _, path := range s.paths {
		if indexed(all, path) || c.filtersBy(path) || !c.rare(path) {
			continue
		}
		rare++
		if slices.ContainsFunc(all, func(i index) bool { return len(i.keys) > 1 && at(i.keys, path) != nil }) {
			compound++
		}
	}
	switch {
	case compound >= attributeFamily:
		l.not("attribute", c.name, s.above, "fields that many documents lack are in indexes with others, and the index of entries has no third field")
	case rare >= attributeIndexes:
		l.not("attribute", c.name, s.above, "fields that many documents lack have no index, and no read that was seen filters by them: one would be for nothing")
	}
}

// family is how the names of attributeFamily fields or more begin, "" if none do.
func (s *siblings) family() string {
	count := map[string]int{}
	for _, path := range s.paths {
		if !slices.Contains(s.mixed, path) {
			count[beginning(path)]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if name != "" && count[name] >= attributeFamily {
			return name
		}
	}
	return ""
}

// beginning is a name up to its first underscore, or second capital word; "" if it has one word.
func beginning(path string) string {
	name := path[strings.LastIndex(path, ".")+1:]
	if i := strings.IndexAny(name, "_-"); i > 0 {
		return name[:i]
	}
	if i := strings.IndexFunc(name, unicode.IsUpper); i > 0 {
		return name[:i]
	}
	return ""
}

// siblings advises on fields that each have an index, or need one.
func (l *looker) siblings(ctx context.Context, c *collection, s *siblings, all []index) error {
	if err := l.alike(c, s); err != nil {
		return err
	}
	if reads, writes := c.naming(s.paths), c.writesTo(s.paths); reads > 0 && writes > attributeWrites*reads {
		return declined(fmt.Sprintf("%d writes to the fields were seen, and %d reads that name one: each write takes longer", writes, reads))
	}
	if one, several := c.together(s.paths); float64(several) > attributeSeveral*float64(one+several) {
		return declined(fmt.Sprintf("%d of %d reads name several of the fields at once: a compound index is faster", several, one+several))
	}
	e, err := l.entries(ctx, c, s)
	if err != nil || e.total == 0 { // emptied meanwhile
		return err
	}
	if err := s.varied(e); err != nil {
		return err
	}
	differ, err := l.differ(ctx, c, s, e.sparse)
	if err != nil {
		return err
	}
	if float64(differ) > attributeOther*float64(e.total) {
		return declined(s.others(differ, e.total))
	}
	check, err := l.check(ctx, bson.D{{Key: "collStats", Value: c.name}}, "nindexes")
	if err != nil {
		return err
	}
	l.attributeFinding(ctx, c, s, e, all, check, differ)
	return nil
}

// least is how many fields there are at least.
func (s *siblings) least() int {
	if s.alike != "" {
		return attributeFamily
	}
	return attributeIndexes
}

// alike leaves the fields with values of one type. Where they are few, it leaves those that begin with the same word.
func (l *looker) alike(c *collection, s *siblings) error {
	if len(s.paths)-len(s.mixed) < attributeIndexes {
		if s.alike = s.family(); s.alike != "" {
			s.paths = slices.DeleteFunc(s.paths, func(path string) bool { return beginning(path) != s.alike })
		}
	}
	if n := int64(len(s.paths)); len(s.paths) < s.least() {
		besides := ""
		these := Finding{Pattern: "attribute", Collection: c.name, Path: s.above}.Name()
		if slices.ContainsFunc(l.report.Findings, func(f Finding) bool { return f.Name() == these }) {
			besides = "besides the fields that are advised, "
		}
		return declined(besides + fmt.Sprintf("%d of its %s fields %s an index of %s own, or reads that filter by %s", len(s.paths), s.kind, verb(n, "have"), either(n, "its", "their"), either(n, "it", "them")))
	}
	if clean := len(s.paths) - len(s.mixed); clean < s.least() {
		return declined(fmt.Sprintf("%d of its %d indexed fields hold values of several types", len(s.mixed), len(s.paths)))
	}
	s.paths = slices.DeleteFunc(s.paths, func(path string) bool { return slices.Contains(s.mixed, path) })
	return nil
}

// entries are the fields that would be entries of one array, because most documents lack them.
type entries struct {
	total  int64 // documents
	some   int64 // that have one of the fields, sparse or not
	sparse []string
	counts map[string]int64 // documents with a field
	values int64            // of the sparse fields
	most   int64            // of one sparse field
	grown  int64            // bytes that the entries take beyond the fields
}

// entries counts the documents with each field. Their total is 0 if the collection was emptied meanwhile.
func (l *looker) entries(ctx context.Context, c *collection, s *siblings) (entries, error) {
	count := bson.D{{Key: "_id", Value: nil}, {Key: "n", Value: d("$sum", 1)}}
	var present bson.A
	for i, path := range s.paths {
		there := d("$gt", bson.A{"$" + path, nil})
		present = append(present, there)
		has := func(then any) bson.D { return d("$sum", d("$cond", bson.A{there, then, 0})) }
		name := path[strings.LastIndex(path, ".")+1:]
		// An entry is a document in an array, where the field has only its name.
		more := d("$subtract", bson.A{d("$bsonSize", bson.D{{Key: "k", Value: d("$literal", path)}, {Key: "v", Value: "$" + path}}), d("$subtract", bson.A{d("$bsonSize", d(name, "$"+path)), 5 + entryKey})})
		count = append(count, bson.E{Key: fmt.Sprint("f", i), Value: has(1)}, bson.E{Key: fmt.Sprint("g", i), Value: has(more)})
	}
	count = append(count, bson.E{Key: "any", Value: d("$sum", d("$cond", bson.A{d("$or", present), 1, 0}))})
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$group", count)})
	if err != nil || len(batch) == 0 {
		return entries{}, err
	}
	e := entries{total: integer(batch[0], "n"), some: integer(batch[0], "any"), counts: map[string]int64{}}
	for i, path := range s.paths {
		n := integer(batch[0], fmt.Sprint("f", i))
		e.counts[path] = n
		if float64(n) < attributeShare*float64(e.total) {
			e.sparse = append(e.sparse, path)
			e.values += n
			e.grown += integer(batch[0], fmt.Sprint("g", i))
			e.most = max(e.most, n)
		}
	}
	return e, nil
}

// varied declines fields that few documents lack, or that documents have together.
func (s *siblings) varied(e entries) error {
	if len(e.sparse) < s.least() {
		return declined(fmt.Sprintf("%d of %d indexed fields are in less than half of the documents", len(e.sparse), len(s.paths)))
	}
	if s.alike != "" && float64(e.values) > attributeVaried*float64(e.some)*float64(len(e.sparse)) {
		return declined(fmt.Sprintf("documents with one of the %d fields have %.1f of them on average: they are parts of one thing", len(e.sparse), float64(e.values)/float64(max(e.some, 1))))
	}
	return nil
}

// indexes is how many of the fields have an index of their own, and how many keys these have together.
func (e entries) indexes(all []index) (own, keys int64) {
	for _, path := range e.sparse {
		n := slices.IndexFunc(all, func(i index) bool { return i.plain && len(i.keys) == 1 && i.keys[0].Key == path })
		switch {
		case n < 0:
			continue
		case all[n].whole: // a document without the field has a key, too
			keys += e.total
		default:
			keys += e.counts[path]
		}
		own++
	}
	return own, keys
}

// bought is what the entries save in keys of indexes, and what they take.
func (e entries) bought(c *collection, own, keys int64) (saving Interval, grows []Interval) {
	after := e.values + e.total - e.some // a document without entries has one key
	// Each document with an entry has the array besides.
	grows = []Interval{{Low: max(e.grown, 0), High: max(e.grown, 0) + e.total*(int64(len(attributesName(c)))+emptyList), Before: c.size, Unit: "bytes", What: ofDocuments}}
	if keys < after {
		grows = append(grows, Interval{Low: after - keys, High: after - keys, Before: keys + e.total, Unit: "keys", What: ofIndexes})
	}
	switch {
	case own < 2:
		saving = Interval{What: "reads filter by fields without an index, and one index would serve all of them"}
	case keys <= after:
		saving = Interval{What: fmt.Sprintf("%d indexes become one, but sparse ones have no more keys than it: this is for the limit of 64, and for fields to come", own)}
	default:
		saving = Interval{Low: keys - after, High: keys - after, Before: keys, Unit: "keys", What: fmt.Sprintf("of %d indexes, which become one", own)}
	}
	return saving, grows
}

func (l *looker) attributeFinding(ctx context.Context, c *collection, s *siblings, e entries, all []index, check Check, differ int64) {
	own, keys := e.indexes(all)
	saving, grows := e.bought(c, own, keys)
	kinds, one := "one type ("+s.kind+")", c.naming(e.sparse)
	if strings.Contains(s.kind, " and ") {
		kinds = "several types (" + s.kind + ")"
	}
	if goType(s.kind) == "any" {
		c.several("the values", s.kind)
	}
	f := Finding{
		Pattern: "attribute", Collection: c.name, Path: s.above, Fields: e.sparse,
		Summary: fmt.Sprintf("%d fields of %s are each in at most %s of the documents (counted). %d of them have an index, and reads filter by the others. "+
			"The collection has %d indexes (counted) of the 64 that it may have. As entries of one array the fields share one index, and a new field needs none.",
			len(e.sparse), kinds, share(e.most, e.total), own, check.Answer),
		Sure: "counted: fields and indexes; of queries: those that were seen",
		Facts: []Fact{
			{"documents", e.total, counted},
			{"indexes of the collection", check.Answer, counted},
			{"fields that would be entries", int64(len(e.sparse)), counted},
			{"of them with an index of their own", own, counted},
			{"documents that have the commonest of them", e.most, counted},
			{"values that would be entries", e.values, counted},
			{"reads that name one of them", one, seen},
			{"writes to them", c.writesTo(e.sparse), seen},
		},
		Saving: saving, Grows: grows,
		Code: l.attributeCode(ctx, c, s.kind), try: tryAttribute(c, e.sparse),
		Check: check,
		Against: []string{
			"An index that nobody uses can simply go: $indexStats shows which.",
			"Where the names are known and plain, the fields below one subdocument and a wildcard index on it are simpler, and keep the documents small.",
			"A query on two of the fields at once, a unique index and a sort by one field need indexes of their own.",
			"All programs that read or write these fields must change together; Adopt with Copy has both for a while.",
		},
	}
	if differ > 0 {
		f.Facts = append(f.Facts, Fact{"documents with a value of another type", differ, counted})
		text := s.others(differ, e.total) + " (counted): Adopt makes entries of these values as they are"
		if goType(s.kind) != "any" {
			text += ", which " + goType(s.kind) + " cannot hold. Mend them first, or use any in its place"
		}
		f.Against = append(f.Against, text+".")
	}
	l.found(f)
}

// differ counts the documents that have a value of another type in one of the fields.
func (l *looker) differ(ctx context.Context, c *collection, s *siblings, paths []string) (int64, error) {
	if len(s.other) == 0 {
		return 0, nil
	}
	same := append([]string{"null", "undefined", "missing"}, types(s.kind)...)
	var any bson.A
	for _, path := range paths {
		any = append(any, d("$not", bson.A{d("$in", bson.A{d("$type", "$"+path), same})}))
	}
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$match", d("$expr", d("$or", any))), d("$count", "n")})
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	return integer(batch[0], "n"), nil
}

// others says how many documents have a value of another type.
func (s *siblings) others(n, of int64) string {
	return fmt.Sprintf("%s of %s %s another type there than %s (%s)", group(n), many(of, "document"), verb(n, "have"), s.kind, strings.Join(s.other, ", "))
}

// together is how many reads name one of the fields in their filter, and how many several.
func (t *traffic) together(paths []string) (one, several int64) {
	for _, r := range t.finds {
		n := 0
		for _, path := range paths {
			if slices.Contains(r.match, path) {
				n++
			}
		}
		switch {
		case n == 1:
			one += r.calls
		case n > 1:
			several += r.calls
		}
	}
	return one, several
}

func (t *traffic) naming(paths []string) int64 {
	one, several := t.together(paths)
	return one + several
}
