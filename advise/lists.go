package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// list is an array of a collection, counted.
type list struct {
	path     string
	element  string // the type of the elements that most arrays begin with
	bars     []Bar  // by length, in order
	total    int64  // documents
	docs     int64  // with the array
	elements int64
	bytes    int64 // of the arrays
	all      int64 // bytes of all documents
	// ranges are those that the figures are estimated from, of collections that are not counted; weights are how many
	// documents each stands for.
	ranges  []*list
	weights []float64
}

// how says how the figures were found.
func (a *list) how() string {
	if a.ranges != nil {
		return guessed
	}
	return counted
}

// where says of which lists figures are that were not counted.
func (a *list) where() string {
	if a.ranges != nil {
		return fmt.Sprintf("in %d ranges of _id ", len(a.ranges))
	}
	return ""
}

// estimate is a figure of all documents, by those of each range.
func (a *list) estimate(figure func(*list) float64) estimate {
	var values []float64
	for _, r := range a.ranges {
		values = append(values, figure(r))
	}
	return estimated(values, a.weights)
}

// lists counts the arrays that were seen with more than a few elements.
func (l *looker) lists(ctx context.Context, c *collection) ([]*list, error) {
	var out []*list
	for _, path := range c.arrays() {
		counted, err := l.count(ctx, c, path)
		if err != nil {
			if err := l.failed(ctx, err, "", c, path); err != nil {
				return nil, err
			}
			continue
		}
		if counted.docs > 0 {
			out = append(out, counted)
		}
	}
	return out, nil
}

// arrays are the paths of arrays with more than a few elements somewhere.
func (c *collection) arrays() []string {
	var paths []string
	for _, f := range c.fields {
		if f.kind == "array" && f.most >= fewElements && !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
	}
	slices.Sort(paths)
	return paths
}

// element is the type that most arrays of a path begin with.
func (c *collection) element(path string) string {
	var most field
	for _, f := range c.fields {
		if f.path == path && f.kind == "array" && f.element != "missing" && f.n > most.n {
			most = f
		}
	}
	return most.element
}

// count reads the lengths of all arrays of a path in one scan, or in ranges of _id if it would take too long. Lengths up to 256 are
// counted one by one, longer ones within 1 %: some thousand groups at most.
func (l *looker) count(ctx context.Context, c *collection, path string) (*list, error) {
	array := d("$cond", bson.A{d("$isArray", "$"+path), "$" + path, nil})
	step := d("$pow", bson.A{2, d("$subtract", bson.A{d("$floor", d("$log", bson.A{"$n", 2})), 7})})
	rounded := d("$multiply", bson.A{d("$floor", d("$divide", bson.A{"$n", step})), step})
	pipeline := bson.A{
		d("$project", bson.D{
			{Key: "_id", Value: 0},
			{Key: "all", Value: d("$bsonSize", "$$ROOT")},
			{Key: "a", Value: array},
		}),
		d("$project", bson.D{
			{Key: "all", Value: 1},
			{Key: "n", Value: d("$cond", bson.A{d("$isArray", "$a"), d("$size", "$a"), -1})},
			{Key: "b", Value: d("$cond", bson.A{d("$isArray", "$a"), d("$bsonSize", d("a", "$a")), 0})},
		}),
		d("$group", bson.D{
			{Key: "_id", Value: d("$cond", bson.A{d("$lte", bson.A{"$n", 256}), "$n", rounded})},
			{Key: "docs", Value: d("$sum", 1)},
			{Key: "elements", Value: d("$sum", "$n")},
			{Key: "bytes", Value: d("$sum", "$b")},
			{Key: "all", Value: d("$sum", "$all")},
			{Key: "most", Value: d("$max", "$n")},
			{Key: "largest", Value: d("$max", "$b")},
		}),
	}
	if l.slow(c) {
		return l.estimateList(ctx, c, path, pipeline)
	}
	batch, err := l.aggregate(ctx, c.name, pipeline)
	if err != nil {
		return nil, err
	}
	return listOf(path, c.element(path), batch), nil
}

// estimateList adds up the ranges, each for all documents of its part.
func (l *looker) estimateList(ctx context.Context, c *collection, path string, pipeline bson.A) (*list, error) {
	parts, err := l.ranged(ctx, c, pipeline)
	if err != nil {
		return nil, err
	}
	out := &list{path: path, element: c.element(path)}
	for i, batch := range parts {
		r := listOf(path, out.element, batch)
		if r.total == 0 {
			continue // emptied meanwhile
		}
		out.ranges, out.weights = append(out.ranges, r), append(out.weights, float64(c.strata[i].count))
		times := func(n int64) int64 {
			return int64(math.Round(float64(n) * float64(c.strata[i].count) / float64(r.total)))
		}
		out.total += times(r.total)
		out.docs += times(r.docs)
		out.elements += times(r.elements)
		out.bytes += times(r.bytes)
		out.all += times(r.all)
		for _, bar := range r.bars {
			bar.Documents, bar.Elements, bar.Bytes = times(bar.Documents), times(bar.Elements), times(bar.Bytes)
			j := slices.IndexFunc(out.bars, func(b Bar) bool { return b.From == bar.From })
			if j < 0 {
				out.bars = append(out.bars, bar)
				continue
			}
			b := &out.bars[j]
			b.Documents, b.Elements, b.Bytes = b.Documents+bar.Documents, b.Elements+bar.Elements, b.Bytes+bar.Bytes
			b.To, b.Largest = max(b.To, bar.To), max(b.Largest, bar.Largest)
		}
	}
	slices.SortFunc(out.bars, func(a, b Bar) int { return cmp.Compare(a.From, b.From) })
	return out, nil
}

// listOf adds up groups of lists of one length.
func listOf(path, element string, batch []bson.Raw) *list {
	out := &list{path: path, element: element}
	for _, raw := range batch {
		out.all += integer(raw, "all")
		out.total += integer(raw, "docs")
		if integer(raw, "_id") < 0 {
			continue
		}
		bar := Bar{
			From: integer(raw, "_id"), To: integer(raw, "most"), Documents: integer(raw, "docs"),
			Elements: integer(raw, "elements"), Bytes: integer(raw, "bytes"), Largest: integer(raw, "largest"),
		}
		out.docs += bar.Documents
		out.elements += bar.Elements
		out.bytes += bar.Bytes
		out.bars = append(out.bars, bar)
	}
	slices.SortFunc(out.bars, func(a, b Bar) int { return cmp.Compare(a.From, b.From) })
	return out
}

// sum adds up the bytes of the list in a $group.
func (a *list) sum() bson.D {
	return d("$sum", d("$cond", bson.A{d("$isArray", "$"+a.path), d("$bsonSize", d("a", "$"+a.path)), 0}))
}

// quantile is the length below which a share of the documents lies.
func (a *list) quantile(share float64) int64 {
	seen := int64(0)
	for _, bar := range a.bars {
		if seen += bar.Documents; float64(seen) >= share*float64(a.docs) {
			return bar.To
		}
	}
	return 0
}

// longest is the length of the longest array, largest the bytes of the largest.
func (a *list) longest() (n int64) {
	for _, bar := range a.bars {
		n = max(n, bar.To)
	}
	return n
}

func (a *list) largest() (n int64) {
	for _, bar := range a.bars {
		n = max(n, bar.Largest)
	}
	return n
}

// above sums the bars of arrays longer than n.
func (a *list) above(n int64) (sum Bar) {
	for _, bar := range a.bars {
		if bar.To > n {
			sum.Documents += bar.Documents
			sum.Elements += bar.Elements
			sum.Bytes += bar.Bytes
		}
	}
	return sum
}

// kept is how many bytes of the arrays stay if each keeps n elements of its mean size.
func (a *list) kept(n int64) (bytes float64) {
	for _, bar := range a.bars {
		if bar.Elements > 0 {
			mean := float64(bar.Bytes) / float64(bar.Elements)
			bytes += mean * float64(min(bar.Elements, n*bar.Documents))
		}
	}
	return bytes
}
