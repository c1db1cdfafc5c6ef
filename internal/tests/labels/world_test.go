package labels_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

var d = testkit.D

type a = bson.A

// gen makes values, the same ones in each run.
type gen struct{ *rand.Rand }

var vocabulary = strings.Fields(`the house was sold before winter and nobody in town knew who had paid for it because papers were kept
	by an old lawyer near river bridge market station garden blue red green small large quick slow never always maybe price
	quality delivery good bad fair again with without under over between first second third`)

// text returns words of n bytes together.
func (g gen) text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(vocabulary[g.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// blob returns binary data of n bytes.
func (g gen) blob(n int) bson.Binary {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(g.Uint32())
	}
	return bson.Binary{Data: data}
}

func (g gen) name() string {
	return g.of("Ann", "Ben", "Cem", "Dana", "Eva", "Finn", "Gül", "Hans", "Ida", "Jo") + " " +
		g.of("Adler", "Brown", "Costa", "Diaz", "Evans", "Fuchs", "Grant", "Haas", "Ivers", "Jung")
}

func (g gen) city() string {
	return g.of("Berlin", "Paris", "Rome", "Oslo", "Wien", "Porto", "Gent", "Bern", "Riga", "Lyon")
}

func (g gen) of(values ...string) string { return values[g.IntN(len(values))] }

// between returns a number from low to high.
func (g gen) between(low, high int) int { return low + g.IntN(high-low+1) }

// near returns a number below n, small ones far more often.
func (g gen) near(n int) int { return int(float64(n) * math.Pow(g.Float64(), 3)) }

func (g gen) money() float64 { return math.Round(g.Float64()*20_000) / 100 }

// list returns n values.
func list(n int, f func(i int) any) a {
	out := make(a, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// oid is the i-th ObjectID of a kind, made in the i-th hour of 2024.
func oid(kind byte, i int) bson.ObjectID {
	id := bson.NewObjectIDFromTimestamp(at(i))
	copy(id[4:], []byte{kind, 7, 7, 7, 7, byte(i >> 16), byte(i >> 8), byte(i)})
	return id
}

// at is the i-th hour of 2024.
func at(i int) time.Time { return time.Date(2024, 1, 1, i, 0, 0, 0, time.UTC) }

// minute is the i-th minute of March 2026.
func minute(i int) time.Time { return time.Date(2026, 3, 1, 0, i, 0, 0, time.UTC) }

// session sends what a service sends. With a log it also writes what a server with slowms 0 would.
type session struct {
	gen
	ctx context.Context
	db  *mongo.Database
	log *bytes.Buffer
	now time.Time // of the log
}

// by is how a find sorts, projects and pages.
type by struct {
	sort, fields bson.D
	skip, limit  int
}

func (s *session) find(coll string, filter bson.D, b by) (out []bson.M) {
	opts, cmd := options.Find(), d("find", coll, "filter", filter)
	if b.sort != nil {
		opts.SetSort(b.sort)
		cmd = append(cmd, bson.E{Key: "sort", Value: b.sort})
	}
	if b.fields != nil {
		opts.SetProjection(b.fields)
		cmd = append(cmd, bson.E{Key: "projection", Value: b.fields})
	}
	if b.skip > 0 {
		opts.SetSkip(int64(b.skip))
		cmd = append(cmd, bson.E{Key: "skip", Value: b.skip})
	}
	if b.limit > 0 {
		opts.SetLimit(int64(b.limit))
		cmd = append(cmd, bson.E{Key: "limit", Value: b.limit})
	}
	cursor, err := s.db.Collection(coll).Find(s.ctx, filter, opts)
	return s.all(coll, cmd, cursor, err)
}

// window reads the measurements of one series from one time on, as far as another.
func (s *session) window(coll, series string, one any, when string, from, to any) {
	s.find(coll, d(series, one, when, d("$gte", from, "$lt", to)), by{sort: d(when, 1)})
}

// one is a findOne.
func (s *session) one(coll string, filter, fields bson.D) (out bson.M) {
	opts, cmd := options.FindOne(), d("find", coll, "filter", filter, "limit", 1, "singleBatch", true)
	if fields != nil {
		opts.SetProjection(fields)
		cmd = append(cmd, bson.E{Key: "projection", Value: fields})
	}
	if err := s.db.Collection(coll).FindOne(s.ctx, filter, opts).Decode(&out); err != nil && err != mongo.ErrNoDocuments {
		panic(err)
	}
	s.note("COMMAND", "command", coll, cmd)
	return out
}

func (s *session) aggregate(coll string, stages ...bson.D) []bson.M {
	cursor, err := s.db.Collection(coll).Aggregate(s.ctx, stages)
	return s.all(coll, d("aggregate", coll, "pipeline", stages, "cursor", bson.D{}), cursor, err)
}

func (s *session) all(coll string, cmd bson.D, cursor *mongo.Cursor, err error) (out []bson.M) {
	if err == nil {
		err = cursor.All(s.ctx, &out)
	}
	if err != nil {
		panic(fmt.Errorf("%s: %w", coll, err))
	}
	s.note("COMMAND", "command", coll, cmd)
	return out
}

func (s *session) update(coll string, filter, update bson.D) {
	testkit.Must(s.db.Collection(coll).UpdateOne(s.ctx, filter, update))
	s.note("WRITE", "update", coll, d("q", filter, "u", update, "multi", false, "upsert", false))
}

func (s *session) upsert(coll string, filter, update bson.D) {
	testkit.Must(s.db.Collection(coll).UpdateOne(s.ctx, filter, update, options.UpdateOne().SetUpsert(true)))
	s.note("WRITE", "update", coll, d("q", filter, "u", update, "multi", false, "upsert", true))
}

func (s *session) findAndUpdate(coll string, filter, update bson.D) {
	if err := s.db.Collection(coll).FindOneAndUpdate(s.ctx, filter, update).Err(); err != nil {
		panic(err)
	}
	s.note("COMMAND", "command", coll, d("findAndModify", coll, "query", filter, "update", update))
}

func (s *session) insert(coll string, docs ...bson.D) {
	testkit.Must(s.db.Collection(coll).InsertMany(s.ctx, docs))
	s.note("COMMAND", "command", coll, d("insert", coll, "ordered", true))
}

// count is the driver's CountDocuments.
func (s *session) count(coll string, filter bson.D) {
	testkit.Must(s.db.Collection(coll).CountDocuments(s.ctx, filter))
	group := d("$group", d("_id", 1, "n", d("$sum", 1)))
	s.note("COMMAND", "command", coll, d("aggregate", coll, "pipeline", a{d("$match", filter), group}, "cursor", bson.D{}))
}

func (s *session) note(component, kind, coll string, cmd bson.D) {
	if s.log == nil {
		return
	}
	if kind == "command" {
		cmd = append(cmd, bson.E{Key: "$db", Value: s.db.Name()})
	}
	line := d("t", s.now, "s", "I", "c", component, "id", 51803, "ctx", fmt.Sprint("conn", s.between(10, 40)), "msg", "Slow query",
		"attr", d("type", kind, "ns", s.db.Name()+"."+coll, "command", cmd, "planSummary", "IXSCAN { _id: 1 }",
			"keysExamined", 1, "docsExamined", 1, "numYields", 0, "reslen", 200, "protocol", "op_msg", "durationMillis", s.between(0, 3)))
	s.log.Write(testkit.Must(bson.MarshalExtJSON(line, false, false)))
	s.log.WriteByte('\n')
}
