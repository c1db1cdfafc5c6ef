package advise

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

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
}

// Command is a recorded command, of the shape of mongotest.Command.
type Command struct {
	Name       string
	Collection string
	Body       bson.Raw
	Reply      bson.Raw
	Err        error
}

// Commands makes queries of recorded commands, such as those that mongotest.Record
// saw in a service's own tests.
func Commands[C ~struct {
	Name       string
	Collection string
	Body       bson.Raw
	Reply      bson.Raw
	Err        error
}](commands []C) []Query {
	var queries []Query
	for _, command := range commands {
		c := Command(command)
		if c.Collection != "" && c.Name != "getMore" {
			queries = append(queries, Query{text(c.Body, "$db"), c.Collection, c.Body, 1})
		}
	}
	return queries
}

// slowQuery is the id of the line that mongod logs for each slow command.
const slowQuery = 51803

// Log reads the slow queries in a mongod's log, a JSON document a line. Lines of
// another form are passed over: logs are cut and mixed.
func Log(r io.Reader) (queries []Query, err error) {
	defer fault.In(&err, "advise: log")
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if q, ok := logged(line); ok {
			queries = append(queries, q)
		}
		if errors.Is(err, io.EOF) {
			return queries, nil
		}
		if err != nil {
			return queries, err
		}
	}
}

func logged(line []byte) (Query, bool) {
	var entry struct {
		ID   int `json:"id"`
		Attr struct {
			Type    string          `json:"type"`
			NS      string          `json:"ns"`
			Command json.RawMessage `json:"command"`
		} `json:"attr"`
	}
	if json.Unmarshal(line, &entry) != nil || entry.ID != slowQuery || len(entry.Attr.Command) == 0 {
		return Query{}, false
	}
	var command bson.D
	if bson.UnmarshalExtJSON(entry.Attr.Command, false, &command) != nil {
		return Query{}, false
	}
	return operation(entry.Attr.NS, entry.Attr.Type, command)
}

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
	return Query{database, name, raw, 1}, true
}

// cutNamespace cuts "shop.orders.2026" into the database and the collection.
func cutNamespace(ns string) (database, name string, ok bool) {
	return strings.Cut(ns, ".")
}

// queries collects the reads and writes of each collection.
func (l *looker) queries(ctx context.Context) error {
	all := slices.Clone(l.options.Queries)
	if len(all) > 0 {
		l.report.Sources = append(l.report.Sources, Source{Name: "given", Queries: len(all)})
	}
	for name, read := range map[string]func(context.Context) ([]Query, error){
		"system.profile": l.profile, "$queryStats": l.queryStats,
	} {
		queries, err := read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		source := Source{Name: name, Queries: len(queries)}
		if err != nil {
			source.Note = sourceNote(l.reason(err), err)
		}
		l.report.Sources = append(l.report.Sources, source)
		all = append(all, queries...)
	}
	slices.SortFunc(l.report.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	l.reads = map[string]*traffic{}
	for _, q := range all {
		if q.Database != "" && q.Database != l.db.Name() {
			continue
		}
		if l.reads[q.Collection] == nil {
			l.reads[q.Collection] = &traffic{}
		}
		l.reads[q.Collection].add(q)
	}
	return nil
}

// sourceNote is the reason, in the words of a source: servers before 8.0 have no
// query statistics, and say that they do not know the stage.
func sourceNote(reason string, err error) string {
	var refused mongo.CommandError
	if !errors.As(err, &refused) {
		return reason
	}
	switch refused.Code {
	case 13:
		return "the user may not read it: the role clusterMonitor would add it"
	case 40324:
		return "this server has none"
	}
	return reason
}

// profile reads what the profiler kept. It is never switched on here.
func (l *looker) profile(ctx context.Context) ([]Query, error) {
	reply, err := l.run(ctx, l.db, bson.D{
		{Key: "find", Value: "system.profile"},
		{Key: "filter", Value: bson.D{
			{Key: "op", Value: d("$in", bson.A{"query", "command", "update", "remove"})},
			{Key: "command.comment", Value: d("$ne", comment)},
		}},
		{Key: "projection", Value: bson.D{{Key: "ns", Value: 1}, {Key: "op", Value: 1}, {Key: "command", Value: 1}}},
		{Key: "sort", Value: d("$natural", -1)},
		{Key: "limit", Value: maxReply}, {Key: "batchSize", Value: maxReply}, {Key: "singleBatch", Value: true},
	})
	if err != nil {
		return nil, err
	}
	batch, err := l.batch(ctx, l.db, reply)
	var queries []Query
	for _, raw := range batch {
		var entry struct {
			NS      string `bson:"ns"`
			Op      string `bson:"op"`
			Command bson.D `bson:"command"`
		}
		if bson.Unmarshal(raw, &entry) != nil {
			continue // a command that the profiler cut
		}
		if q, ok := operation(entry.NS, entry.Op, entry.Command); ok {
			queries = append(queries, q)
		}
	}
	return queries, err
}

// queryStats reads the shapes that the server counts, without their values.
func (l *looker) queryStats(ctx context.Context) ([]Query, error) {
	batch, err := l.aggregateIn(ctx, l.db.Client().Database("admin"), 1, bson.A{
		d("$queryStats", bson.D{}),
		d("$match", d("key.queryShape.cmdNs.db", l.db.Name())),
		d("$project", bson.D{{Key: "shape", Value: "$key.queryShape"}, {Key: "comment", Value: "$key.comment"}, {Key: "calls", Value: "$metrics.execCount"}}),
		d("$limit", maxReply),
	})
	if err != nil {
		return nil, err
	}
	var queries []Query
	for _, raw := range batch {
		if q, ok := shapeQuery(raw); ok {
			queries = append(queries, q)
		}
	}
	return queries, nil
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
	command, err := bson.Marshal(append(bson.D{{Key: verb, Value: name}}, entry.Shape...))
	return Query{database, name, command, entry.Calls}, err == nil
}
