package advise

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Query is a command that a service sent, or a shape of several that differ in
// their values.
type Query struct {
	Database   string // "": the one that Look looks at
	Collection string
	Command    bson.Raw // as sent: {find: "orders", filter: …}
	Calls      int64    // how often; 0 counts as 1
	// From is where a find for one value had that value from. [Commands] sets it from the answers.
	// Default: not known.
	From Origin

	rate  int64 // of updates of one document, in its busiest second; 0: not known
	shape bool  // of $queryStats: it has no values
	quick bool  // a write of less than a millisecond, so that the profile or log has not the slow ones alone
	log   *seenAt
}

// key is what equal queries have in common: all but their values.
func (q Query) key() string {
	var command bson.D
	if bson.Unmarshal(q.Command, &command) != nil || len(command) == 0 {
		return ""
	}
	return q.Database + "\x00" + q.Collection + "\x00" + shapeOf(command, true)
}

// seenAt is when the last queries of a log were sent, by key: the profile may have them, too.
type seenAt struct {
	times map[string][]time.Time
	last  []string // keys, the oldest first
}

func (s *seenAt) add(key string, at time.Time) {
	if s.last = append(s.last, key); len(s.last) > 10*maxReply {
		s.times[s.last[0]] = s.times[s.last[0]][1:]
		s.last = s.last[1:]
	}
	s.times[key] = append(s.times[key], at)
}

// logLag is how far apart the profile and the log of a busy server may write one command.
const logLag = time.Second

// take reports that a log has a query of the profile. That with the nearest time is taken from those of the log.
func (s *seenAt) take(key string, at time.Time) bool {
	times, nearest := s.times[key], -1
	for i, t := range times {
		if t.Sub(at).Abs() <= logLag && (nearest < 0 || t.Sub(at).Abs() < times[nearest].Sub(at).Abs()) {
			nearest = i
		}
	}
	if nearest < 0 {
		return false
	}
	s.times[key] = slices.Delete(slices.Clone(times), nearest, nearest+1)
	return true
}

// Command is a recorded command, of the shape of mongotest.Command.
type Command struct {
	Name       string
	Collection string
	Body       bson.Raw
	Reply      bson.Raw
	Err        error
}

// Commands makes queries of recorded commands, such as those that mongotest.Record saw in a
// service's own tests. It also finds out which finds ask, one by one, for the values of an earlier
// answer. It remembers the values of 16 answers at most, 10,000 of each.
func Commands[C ~struct {
	Name       string
	Collection string
	Body       bson.Raw
	Reply      bson.Raw
	Err        error
}](commands []C) []Query {
	var queries []Query
	all := make([]Command, len(commands))
	index := make([]int, len(commands)) // of a command's query
	for i, command := range commands {
		c := Command(command)
		all[i], index[i] = c, len(queries)
		if c.Collection != "" && c.Name != "getMore" {
			queries = append(queries, Query{Database: text(c.Body, "$db"), Collection: c.Collection, Command: c.Body, Calls: 1})
		}
	}
	origins(all, queries, index)
	return queries
}

// longestLine of a log that is read: mongod cuts lines at 10 kB unless it is told otherwise.
const longestLine = 1 << 20

// slowQuery is the id of the line that mongod logs for each slow command.
const slowQuery = 51803

// Log reads the slow queries in a mongod's log, a JSON document a line. Lines of another form are passed over, because
// logs are cut and mixed. Queries that differ only in their values are one Query with its Calls. It returns ErrInvalid if
// no line is one of a log. It keeps up to 10,000 different queries and reads lines up to 1 MiB. More are passed over, so
// that a log of any size takes little memory.
//
// Finds that one connection, or the pool of one host, sent one after the other, each for another value of one field, may be
// one for each value of an earlier answer. The log does not have the answers, so [Look] asks the
// database which field held the values, and [Shapes] passes over such finds.
func Log(r io.Reader) (queries []Query, err error) {
	defer fault.In(&err, "advise.Log")
	found := false // a line of a log
	lines := bufio.NewReaderSize(r, longestLine)
	known := map[string]int{}
	log := &seenAt{times: map[string][]time.Time{}}
	var runs sequences
	var updates rates
	defer func() {
		updates.assign(queries)
		queries = runs.assign(queries)
	}()
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) { // too long: the rest of it, too
				_, err = lines.ReadSlice('\n')
			}
			line = nil
		}
		e, form := logged(line)
		if found = found || form != noLog; form == slow {
			key := e.key()
			i, ok := known[key]
			if ok {
				queries[i].Calls += e.Calls
				queries[i].quick = queries[i].quick || e.quick
			} else if len(queries) < loggedKept {
				i, ok = len(queries), true
				known[key] = i
				e.log = log
				queries = append(queries, e.Query)
			}
			if ok {
				log.add(key, e.at)
				runs.add(e, i)
				updates.add(e)
			}
		}
		if errors.Is(err, io.EOF) && !found {
			return nil, fault.Invalid("no line is one of a mongod's log, which has JSON since version 4.4")
		}
		if errors.Is(err, io.EOF) {
			return queries, nil
		}
		if err != nil {
			return queries, err
		}
	}
}

// What a line of a log may be.
const (
	noLog = iota
	other // of a log, but not of a query
	slow
)

func logged(line []byte) (e sent, form int) {
	var entry struct {
		ID int `json:"id"`
		At struct {
			Date time.Time `json:"$date"`
		} `json:"t"`
		Connection string `json:"ctx"`
		Attr       struct {
			Type     string          `json:"type"`
			NS       string          `json:"ns"`
			Command  json.RawMessage `json:"command"`
			Remote   string          `json:"remote"`
			Returned *int64          `json:"nreturned"` // nil: a line of another program
			Inserted int64           `json:"ninserted"`
			Took     *int64          `json:"durationMillis"`
		} `json:"attr"`
	}
	if json.Unmarshal(line, &entry) != nil || entry.ID == 0 {
		return sent{}, noLog
	}
	var command bson.D
	if entry.ID != slowQuery || len(entry.Attr.Command) == 0 || bson.UnmarshalExtJSON(entry.Attr.Command, false, &command) != nil {
		return sent{}, other
	}
	q, ok := operation(entry.Attr.NS, entry.Attr.Type, command)
	q.Calls = max(entry.Attr.Inserted, 1)
	q.quick = quickly(q.Command, entry.Attr.Took)
	if !ok {
		return sent{}, other
	}
	host, _, _ := net.SplitHostPort(entry.Attr.Remote) // "": one host may be all
	returned := int64(1)
	if entry.Attr.Returned != nil {
		returned = *entry.Attr.Returned
	}
	return sent{q, entry.Connection, "host " + host, entry.At.Date, returned}, slow
}

// quickly reports a write that took less than a millisecond.
func quickly(command bson.Raw, took *int64) bool {
	first, err := command.IndexErr(0)
	return err == nil && took != nil && *took == 0 && slices.Contains(writing, first.Key())
}

// writing are the commands that write.
var writing = []string{"insert", "update", "delete", "findAndModify"}

// operation makes a query of what the profiler and the log hold. They show an update
// and a delete as the one statement alone.
func operation(ns, op string, command bson.D) (Query, bool) {
	database, name, ok := cutNamespace(ns)
	if !ok || strings.HasPrefix(name, "system.") || at(command, "comment") == comment {
		return Query{}, false
	}
	switch op {
	case "update":
		command = bson.D{{Key: "update", Value: name}, {Key: "updates", Value: bson.A{command}}}
	case "remove":
		command = bson.D{{Key: "delete", Value: name}, {Key: "deletes", Value: bson.A{command}}}
	case "getmore":
		return Query{}, false
	}
	raw, err := bson.Marshal(command)
	if err != nil || len(command) == 0 {
		return Query{}, false
	}
	return Query{Database: database, Collection: name, Command: raw, Calls: 1}, true
}

// cutNamespace cuts "shop.orders.2026" into the database and the collection.
func cutNamespace(ns string) (database, name string, ok bool) {
	return strings.Cut(ns, ".")
}

// queries collects the reads and writes of each collection.
func (l *looker) queries(ctx context.Context, names []string) error {
	l.given, l.logged = slices.Clone(l.options.Queries), map[string][]int{}
	logs := map[*seenAt]*seenAt{} // copies: another Look takes from them, too
	for i, q := range l.given {
		if q.log == nil {
			continue
		}
		if logs[q.log] == nil {
			logs[q.log] = &seenAt{times: maps.Clone(q.log.times)}
		}
		l.given[i].log = logs[q.log]
		l.logged[q.key()] = append(l.logged[q.key()], i)
	}
	var all []Query
	for _, from := range []struct {
		name string
		read func(context.Context) ([]Query, int64, error)
	}{{"$queryStats", l.queryStats}, {"system.profile", l.profile}} {
		queries, of, err := from.read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		source := Source{Name: from.name, Queries: len(queries), Of: of}
		if err != nil {
			source.Note = sourceNote(from.name, l.reason(err), err)
		}
		l.report.Sources = append(l.report.Sources, source)
		all = append(all, queries...)
	}
	if given := len(l.given); given > 0 {
		l.given = slices.DeleteFunc(l.given, func(q Query) bool { return q.log != nil && q.Calls == 0 }) // all of them are in the profile
		source := Source{Name: "given", Queries: len(l.given)}
		if n := given - len(l.given); n > 0 {
			source.Note = fmt.Sprint(n, " more are in the profile, too")
		}
		l.report.Sources = slices.Insert(l.report.Sources, 1, source)
		all = append(l.given, all...)
	}
	l.reads = map[string]*traffic{}
	all = slices.DeleteFunc(all, func(q Query) bool { return q.Database != "" && q.Database != l.db.Name() })
	all, err := l.suspected(ctx, all, names)
	if err != nil {
		return err
	}
	l.report.commands = parsed(all)
	l.report.Shapes = shapesOf(l.report.commands)
	for _, c := range l.report.commands {
		l.add(c)
	}
	return l.sorts(ctx, l.report.commands, names)
}

// once takes a query of the profile from those of a log, so that it counts once.
func (l *looker) once(q Query, at time.Time) {
	if len(l.logged) == 0 {
		return
	}
	key := q.key()
	for _, i := range l.logged[key] {
		given := &l.given[i]
		if given.Calls >= q.Calls && given.log.take(key, at) {
			given.Calls -= q.Calls
			return
		}
	}
}

// trafficOf is the traffic of a collection.
func (l *looker) trafficOf(name string) *traffic {
	if l.reads[name] == nil {
		l.reads[name] = &traffic{}
	}
	return l.reads[name]
}

// sourceNote is the reason, in the words of a source: servers before 8.0 have no
// query statistics, and say that they do not know the stage.
func sourceNote(name, reason string, err error) string {
	var refused mongo.CommandError
	if !errors.As(err, &refused) {
		return reason
	}
	switch refused.Code {
	case 13:
		if name == "system.profile" {
			return "the user may not read it: find on it, as dbAdmin of this database has, would do"
		}
		return "the user may not read it: the role clusterMonitor would add it"
	case 40324:
		return "this server has none"
	}
	return reason
}

// profile reads what the profiler kept. It is never switched on here.
func (l *looker) profile(ctx context.Context) (queries []Query, of int64, err error) {
	filter := bson.D{
		{Key: "op", Value: d("$in", bson.A{"query", "command", "update", "remove", "insert"})},
		{Key: "command.comment", Value: d("$ne", comment)},
	}
	reply, err := l.run(ctx, l.db, bson.D{
		{Key: "find", Value: "system.profile"},
		{Key: "filter", Value: filter},
		{Key: "projection", Value: bson.D{{Key: "ns", Value: 1}, {Key: "op", Value: 1}, {Key: "ts", Value: 1}, {Key: "client", Value: 1},
			{Key: "nreturned", Value: 1}, {Key: "ninserted", Value: 1}, {Key: "millis", Value: 1},
			// The documents of an insert stay on the server.
			{Key: "command", Value: d("$cond", bson.A{d("$eq", bson.A{"$op", "insert"}), d("insert", "$command.insert"), "$command"})}}},
		{Key: "sort", Value: d("$natural", -1)},
		{Key: "limit", Value: maxReply}, {Key: "batchSize", Value: maxReply}, {Key: "singleBatch", Value: true},
	})
	if err != nil {
		return nil, 0, err
	}
	batch, err := l.batch(ctx, l.db, reply)
	if err == nil && len(batch) == maxReply {
		if reply, err = l.run(ctx, l.db, bson.D{{Key: "count", Value: "system.profile"}, {Key: "query", Value: filter}}); err == nil {
			of = integer(reply, "n")
		}
	}
	var runs sequences
	var updates rates
	for _, raw := range slices.Backward(batch) { // the oldest first
		var entry struct {
			NS       string    `bson:"ns"`
			Op       string    `bson:"op"`
			Command  bson.D    `bson:"command"`
			At       time.Time `bson:"ts"`
			Client   string    `bson:"client"`
			Returned int64     `bson:"nreturned"`
			Inserted int64     `bson:"ninserted"`
			Took     *int64    `bson:"millis"`
		}
		if bson.Unmarshal(raw, &entry) != nil {
			continue // a command that the profiler cut
		}
		if q, ok := operation(entry.NS, entry.Op, entry.Command); ok {
			q.Calls = max(entry.Inserted, 1)
			q.quick = quickly(q.Command, entry.Took)
			l.once(q, entry.At)
			e := sent{q, entry.Client, "", entry.At, entry.Returned}
			runs.add(e, len(queries))
			updates.add(e)
			queries = append(queries, q)
		}
	}
	updates.assign(queries)
	return runs.assign(queries), of, err
}

// queryStats reads the shapes that the server counts, without their values.
func (l *looker) queryStats(ctx context.Context) (queries []Query, of int64, err error) {
	batch, err := l.aggregateIn(ctx, l.db.Client().Database("admin"), 1, bson.A{
		d("$queryStats", bson.D{}),
		d("$match", d("key.queryShape.cmdNs.db", l.db.Name())),
		d("$project", bson.D{{Key: "shape", Value: "$key.queryShape"}, {Key: "comment", Value: "$key.comment"}, {Key: "calls", Value: "$metrics.execCount"}}),
		d("$sort", d("calls", -1)),
		d("$limit", maxReply),
	})
	if err != nil {
		return nil, 0, err
	}
	for _, raw := range batch {
		if q, ok := shapeQuery(raw); ok {
			queries = append(queries, q)
		}
	}
	return queries, 0, nil
}

// shapeQuery makes a command of a shape {cmdNs: {db, coll}, command: "find", filter, …}.
func shapeQuery(raw bson.Raw) (Query, bool) {
	var entry struct {
		Shape   bson.D `bson:"shape"`
		Comment any    `bson:"comment"`
		Calls   int64  `bson:"calls"`
	}
	if bson.Unmarshal(raw, &entry) != nil || entry.Comment == comment {
		return Query{}, false
	}
	ns, _ := at(entry.Shape, "cmdNs").(bson.D)
	database, _ := at(ns, "db").(string)
	name, _ := at(ns, "coll").(string)
	verb, _ := at(entry.Shape, "command").(string)
	if name == "" || verb == "" {
		return Query{}, false
	}
	command, err := bson.Marshal(append(append(bson.D{{Key: verb, Value: name}}, entry.Shape...), bson.E{Key: "comment", Value: entry.Comment}))
	return Query{Database: database, Collection: name, Command: command, Calls: entry.Calls, shape: true}, err == nil
}
