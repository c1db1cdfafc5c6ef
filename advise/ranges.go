package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A collection that no scan can read in the time is estimated from ranges of _id: one begins somewhere in each of
// rangesKept parts of the values between the first and the last, and has rangeLength documents at most. How many
// documents a part has is counted by the index, and parts that have many are halved. What ranges agree on is said with an interval, and what follows the
// order of _id is not.
const (
	rangesKept   = 20
	rangeError   = 2.1 // standard errors, for 95 % of the intervals of 20 ranges
	rangeWidth   = 0.5 // of the estimate, half of the interval at most
	rangeTrend   = 2.6 // standard errors of a rank correlation with the order of _id, at most
	rangesHalved = 60
)

// Tests lower these.
var (
	rangeLength = int64(2_000)
	scanRate    = 400_000.0 // documents a second that are scanned, or twice as few MB
)

var errRanges = errors.New("no ranges of its _ids can be chosen")

// slow reports a collection that takes longer to scan than a command may.
func (l *looker) slow(c *collection) bool {
	return float64(max(c.count, c.size>>9)) > scanRate*l.maxTime.Seconds()
}

// tells names what counts all of a collection that is estimated.
func (l *looker) tells(c *collection) string {
	need := time.Duration(2*float64(max(c.count, c.size>>9))/scanRate+1) * time.Second
	return fmt.Sprintf("-max-time %v (Options.MaxTime), on a secondary", need)
}

// stratum is a part of a collection, in the order of _id: from one place on, as far as another.
type stratum struct {
	from, to *big.Int
	count    int64
	start    any // of the range
	end      any // of the part
}

// strata are the parts of a collection that have documents.
func (l *looker) strata(ctx context.Context, c *collection) ([]stratum, error) {
	if c.strata != nil {
		return c.strata, nil
	}
	first, err := l.edge(ctx, c, 1)
	if err != nil {
		return nil, err
	}
	last, err := l.edge(ctx, c, -1)
	if err != nil {
		return nil, err
	}
	low, value, ok := position(first)
	high, _, same := position(last)
	if !ok || !same || first.Type != last.Type {
		return nil, errRanges
	}
	high.Add(high, big.NewInt(1))
	count := func(from, to *big.Int, most int64) (int64, error) {
		query := d("_id", bson.D{{Key: "$gte", Value: value(from)}, {Key: "$lt", Value: value(to)}})
		reply, err := l.run(ctx, l.db, bson.D{{Key: "count", Value: c.name}, {Key: "query", Value: query}, {Key: "limit", Value: most}}) // 0: all
		return integer(reply, "n"), err
	}
	var all []stratum
	for i := range int64(rangesKept) {
		s := stratum{from: between(low, high, i, rangesKept), to: between(low, high, i+1, rangesKept)}
		if s.count, err = count(s.from, s.to, 0); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	for range rangesHalved {
		i := 0
		for j, s := range all {
			if s.count > all[i].count {
				i = j
			}
		}
		left, right := all[i], all[i]
		left.to = between(left.from, left.to, 1, 2)
		if right.from = left.to; rangesKept*all[i].count <= 2*c.count || left.from.Cmp(left.to) == 0 {
			break
		}
		if left.count, err = count(left.from, left.to, 0); err != nil {
			return nil, err
		}
		right.count -= left.count
		all = slices.Replace(all, i, i+1, left, right)
	}
	all = slices.DeleteFunc(all, func(s stratum) bool { return s.count <= 0 })
	random := rand.New(rand.NewPCG(1, 1)) // each run takes the same ranges, so a report does not change by chance
	for i, s := range all {
		begin := between(s.from, s.to, random.Int64N(max(1, 900-900*rangeLength/s.count)), 1000)
		there, err := count(begin, s.to, rangeLength)
		if err != nil {
			return nil, err
		}
		if there < min(s.count, rangeLength) { // so that each range is as long as figures takes it to be
			begin = s.from
		}
		all[i].start, all[i].end = value(begin), value(s.to)
	}
	c.strata = all
	return all, nil
}

// between is the place behind a part of the way.
func between(from, to *big.Int, part, of int64) *big.Int {
	way := new(big.Int).Sub(to, from)
	way.Div(way.Mul(way, big.NewInt(part)), big.NewInt(of))
	return way.Add(way, from)
}

// edge is the first _id, or the last one.
func (l *looker) edge(ctx context.Context, c *collection, direction int) (v bson.RawValue, err error) {
	batch, err := l.aggregate(ctx, c.name, bson.A{d("$sort", d("_id", direction)), d("$limit", 1), d("$project", d("_id", 1))})
	if err != nil || len(batch) == 0 {
		return v, cmp.Or(err, errRanges)
	}
	return batch[0].Lookup("_id"), nil
}

// position is the place of an _id among those of its type, and gives the _id of another place.
func position(v bson.RawValue) (at *big.Int, value func(*big.Int) any, ok bool) {
	long := func(n *big.Int) int64 {
		if !n.IsInt64() { // behind the last
			return math.MaxInt64
		}
		return n.Int64()
	}
	fill := func(n *big.Int, out []byte) []byte {
		if n.BitLen() > 8*len(out) {
			n = new(big.Int).Sub(n, big.NewInt(1))
		}
		return n.FillBytes(out)
	}
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return big.NewInt(v.AsInt64()), func(n *big.Int) any { return long(n) }, true
	case bson.TypeDateTime:
		return big.NewInt(v.DateTime()), func(n *big.Int) any { return bson.DateTime(long(n)) }, true
	case bson.TypeObjectID:
		id := v.ObjectID()
		return new(big.Int).SetBytes(id[:]), func(n *big.Int) any { return bson.ObjectID(fill(n, make([]byte, len(id)))) }, true
	case bson.TypeBinary:
		subtype, data := v.Binary()
		return new(big.Int).SetBytes(data), func(n *big.Int) any { return bson.Binary{Subtype: subtype, Data: fill(n, make([]byte, len(data)))} }, len(data) == 16
	}
	return nil, nil, false
}

// stages choose the range.
func (s stratum) stages() bson.A {
	return bson.A{d("$match", d("_id", bson.D{{Key: "$gte", Value: s.start}, {Key: "$lt", Value: s.end}})), d("$sort", d("_id", 1)), d("$limit", rangeLength)}
}

// tally runs the query that a reader can run by hand, or estimates its answer: in each range the part of all that a
// pipeline gives. It is no answer if the ranges disagree.
func (l *looker) tally(ctx context.Context, c *collection, pipeline bson.A, command bson.D, path ...string) (check Check, ok bool, err error) {
	if !l.slow(c) {
		check, err = l.check(ctx, command, path...)
		return check, err == nil, err
	}
	parts, err := l.ranged(ctx, c, pipeline)
	if err != nil {
		return check, false, err
	}
	values, weights, all := c.figures(parts, "part")
	if len(values) == 0 {
		return check, false, nil
	}
	e := estimated(values, weights)
	check, err = unchecked(command, int64(math.Round(e.mean*all)), path...)
	check.within, check.all = e.in(), int64(all)
	if err == nil && !e.steady() && e.high > 0 {
		l.unknown("", c.name, "", fmt.Sprintf("%s: in %s", check.Shell, e.unsteady()), l.tells(c))
		return check, false, nil
	}
	return check, err == nil, err
}

// sums adds up figures that a pipeline gives, with "all", the number of what it counts: of the whole collection, or estimated
// from ranges, each from low to high.
func (l *looker) sums(ctx context.Context, c *collection, pipeline bson.A, names ...string) (low, high []int64, err error) {
	low, high = make([]int64, len(names)), make([]int64, len(names))
	if !l.slow(c) {
		batch, err := l.aggregate(ctx, c.name, pipeline)
		if err != nil || len(batch) == 0 {
			return low, high, err
		}
		for i, name := range names {
			low[i] = integer(batch[0], name)
		}
		return low, low, nil
	}
	parts, err := l.ranged(ctx, c, pipeline)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		values, weights, all := c.figures(parts, name)
		if len(values) == 0 {
			return low, high, nil
		}
		e := estimated(values, weights)
		low[i], high[i] = int64(max(e.mean-e.half, 0)*all), int64((e.mean+e.half)*all)
	}
	return low, high, nil
}

// figures are a figure of each range, as a part of "all", which may count references in place of documents. The weight of a
// range is how many of these its part of the collection has, and all is their sum.
func (c *collection) figures(parts [][]bson.Raw, name string) (values, weights []float64, all float64) {
	for i, batch := range parts {
		if len(batch) == 0 || integer(batch[0], "all") == 0 {
			continue
		}
		n, documents := float64(integer(batch[0], "all")), c.strata[i].count
		weight := n * float64(documents) / float64(min(documents, rangeLength))
		values, weights, all = append(values, float64(integer(batch[0], name))/n), append(weights, weight), all+weight
	}
	return values, weights, all
}

// partOf is a pipeline for tally: the documents for which a condition holds.
func partOf(condition any) bson.A {
	return bson.A{d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "all", Value: d("$sum", 1)}, {Key: "part", Value: d("$sum", d("$cond", bson.A{condition, 1, 0}))}})}
}

// ranged answers a pipeline for a range of each part.
func (l *looker) ranged(ctx context.Context, c *collection, pipeline bson.A) ([][]bson.Raw, error) {
	strata, err := l.strata(ctx, c)
	if err != nil {
		return nil, err
	}
	var out [][]bson.Raw
	for _, s := range strata {
		batch, err := l.aggregate(ctx, c.name, append(s.stages(), pipeline...))
		if err != nil {
			return nil, err
		}
		out = append(out, batch)
	}
	return out, nil
}

// estimate is the mean of a figure of each range, by the documents of its part.
type estimate struct {
	mean, half float64 // half of the interval
	trend      float64 // the rank correlation with the order of _id
	low, high  float64 // of the ranges
	ranges     int
}

func estimated(values, weights []float64) (e estimate) {
	e.ranges, e.low, e.high = len(values), slices.Min(values), slices.Max(values)
	all, square := 0.0, 0.0
	for i, v := range values {
		e.mean += weights[i] * v
		all += weights[i]
	}
	e.mean /= all
	for i, v := range values {
		square += weights[i] * weights[i] * (v - e.mean) * (v - e.mean)
	}
	k := float64(len(values))
	e.half = rangeError * math.Sqrt(square*k/max(k-1, 1)) / all
	e.trend = ranks(values)
	return e
}

// ranks is the rank correlation of values with their order, 0 if they are equal.
func ranks(values []float64) float64 {
	rank := func(v float64) (n float64) {
		for _, other := range values {
			switch {
			case other < v:
				n++
			case other == v:
				n += 0.5
			}
		}
		return n
	}
	mean := float64(len(values)) / 2
	covariance, own, order := 0.0, 0.0, 0.0
	for i, v := range values {
		a, b := rank(v)-mean, float64(i)+0.5-mean
		covariance, own, order = covariance+a*b, own+a*a, order+b*b
	}
	if own == 0 {
		return 0
	}
	return covariance / math.Sqrt(own*order)
}

// steady reports that the ranges agree well enough.
func (e estimate) steady() bool {
	return e.half <= rangeWidth*e.mean && !e.follows()
}

// follows reports that the figures of the ranges go with the order of _id, more than by chance.
func (e estimate) follows() bool {
	return math.Abs(e.trend)*math.Sqrt(float64(e.ranges-1)) > rangeTrend
}

// in prints a share of the documents with its interval.
func (e estimate) in() string {
	part := func(v float64) string { return share(int64(1e9*max(v, 0)), 1e9) }
	return fmt.Sprintf("estimated from %d ranges of _id, %s to %s", e.ranges, part(e.mean-e.half), part(e.mean+e.half))
}

// unsteady says why an estimate is none.
func (e estimate) unsteady() string {
	part := func(v float64) string { return share(int64(1e9*v), 1e9) }
	if e.follows() {
		return fmt.Sprintf("%s to %s of the documents in ranges of _id, more or fewer with its order: an estimate would be wrong", part(e.low), part(e.high))
	}
	return fmt.Sprintf("%s to %s of the documents in ranges of _id: too different for an estimate", part(e.low), part(e.high))
}
