package router

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var done = bson.D{{Key: "ok", Value: 1.0}}

// run runs one command of a client.
func (b *backend) run(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	cmd = without(cmd, "$clusterTime", "$readPreference", "apiVersion", "apiStrict", "apiDeprecationErrors")
	name := cmd[0].Key
	if v := lookup(cmd, "autocommit"); v.Type != 0 && !truth(v) {
		return b.inTransaction(ctx, db, cmd)
	}
	switch strings.ToLower(name) {
	case "hello", "ismaster":
		return encode(hello()), nil
	case "ping", "endsessions", "refreshsessions", "killsessions":
		return encode(done), nil
	case "serverstatus":
		return b.status(ctx, db, cmd)
	case "listshards":
		return b.listShards(), nil
	case "listdatabases", "buildinfo", "hostinfo", "getparameter", "connectionstatus", "getcmdlineopts":
		return b.anywhere(ctx, db, without(cmd, "lsid", "txnNumber"))
	case "shardcollection":
		return b.shardCollection(ctx, cmd)
	case "moverange":
		return b.moveRange(ctx, cmd)
	}
	if own(db) {
		return b.anywhere(ctx, db, without(cmd, "lsid", "txnNumber"))
	}
	switch name {
	case "insert", "update", "delete", "findAndModify":
		return b.write(ctx, db, cmd)
	case "find":
		return b.cluster(ctx, db, cmd)
	case "aggregate":
		for _, stage := range list(cmd, "pipeline") {
			if s, ok := stage.DocumentOK(); ok && len(decode(s)) > 0 && decode(s)[0].Key == "$changeStream" {
				return nil, notHere("a change stream: mongod 6.0 ends when it gets one as an internal command")
			}
		}
		return b.cluster(ctx, db, cmd)
	case "getMore":
		return b.getMore(ctx, db, cmd)
	case "killCursors":
		b.forget(list(cmd, "cursors"))
		return encode(done), nil
	case "count", "distinct", "create", "createIndexes", "listIndexes", "dropIndexes", "collMod", "collStats", "explain":
		return b.direct(ctx, db, cmd)
	case "listCollections", "dbStats":
		return b.onPrimary(ctx, db, cmd)
	case "drop", "dropDatabase":
		return b.drop(ctx, db, cmd)
	}
	return nil, refusal{code: codeCommandNotFound, name: "CommandNotFound", text: "the test router has no command " + name}
}

// status is the part of a mongos's serverStatus that says over how many shards transactions
// committed.
func (b *backend) status(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	answer, err := b.anywhere(ctx, db, without(cmd, "lsid"))
	if err != nil {
		return nil, err
	}
	types := bson.D{}
	b.r.mu.Lock()
	for _, kind := range commitTypes {
		types = append(types, bson.E{Key: kind, Value: bson.D{{Key: "successful", Value: b.r.commits[kind]}}})
	}
	b.r.mu.Unlock()
	return encode(with(decode(answer), bson.E{Key: "transactions", Value: bson.D{{Key: "commitTypes", Value: types}}})), nil
}

func (b *backend) listShards() bson.Raw {
	shards := bson.A{}
	for _, s := range b.r.shards {
		shards = append(shards, bson.D{{Key: "_id", Value: s.Name}, {Key: "host", Value: s.Name + "/" + s.Addr}, {Key: "state", Value: int32(1)}})
	}
	return encode(append(bson.D{{Key: "shards", Value: shards}}, done...))
}

// shardCollection shards as the command of mongos does. A collection that has documents needs the
// index of the key.
func (b *backend) shardCollection(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	ns, _ := lookup(cmd, cmd[0].Key).StringValueOK()
	db, coll, _ := strings.Cut(ns, ".")
	if err := b.create(ctx, db); err != nil {
		return nil, err
	}
	primary, version, err := b.database(ctx, db)
	if err != nil {
		return nil, err
	}
	create := bson.D{{Key: "_shardsvrCreateCollection", Value: coll}, {Key: "shardKey", Value: lookup(cmd, "key")}}
	for _, field := range []string{"unique", "numInitialChunks", "collation", "timeseries"} {
		if v := lookup(cmd, field); v.Type != 0 {
			create = append(create, bson.E{Key: field, Value: v})
		}
	}
	return b.ask(ctx, primary, db, append(create, bson.E{Key: "databaseVersion", Value: version}, majority))
}

// moveRange moves a range of keys to a shard: a migration of the server's own.
func (b *backend) moveRange(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	move := bson.D{{Key: "_configsvrMoveRange", Value: lookup(cmd, cmd[0].Key)}, {Key: "waitForDelete", Value: true}}
	for _, field := range []string{"toShard", "min", "max", "forceJumbo", "waitForDelete"} {
		if v := lookup(cmd, field); v.Type != 0 {
			move = with(move, bson.E{Key: field, Value: v})
		}
	}
	return b.ask(ctx, configServer, "admin", append(move, majority))
}

// onPrimary runs a command on the primary shard of a database.
func (b *backend) onPrimary(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	if err := b.create(ctx, db); err != nil {
		return nil, err
	}
	primary, version, err := b.database(ctx, db)
	if err != nil {
		return nil, err
	}
	answer, err := b.ask(ctx, primary, db, append(without(cmd, "lsid", "txnNumber"), bson.E{Key: "databaseVersion", Value: version}))
	if err == nil {
		b.opened(answer, db, primary)
	}
	return answer, err
}

// drop drops a collection or a database, on all shards.
func (b *backend) drop(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	primary, version, err := b.database(ctx, db)
	if err != nil {
		return nil, err
	}
	if primary == "" {
		return encode(done), nil
	}
	to := map[string]string{"drop": "_shardsvrDropCollection", "dropDatabase": "_shardsvrDropDatabase"}[cmd[0].Key]
	return b.ask(ctx, primary, db, bson.D{{Key: to, Value: cmd[0].Value}, {Key: "databaseVersion", Value: version}, majority})
}

// staleAttempts bounds how often a command is sent again after the shard knew better.
const staleAttempts = 20

// stale reports an answer of a shard whose versions are newer than ours.
func stale(err error) bool {
	var e refusal
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains([]int32{codeStaleConfig, codeStaleDbVersion, codeStaleShardVersion, codeShardInvalidated}, e.code)
}

// staleWrite reports a write that a shard refused for its version.
func staleWrite(answer bson.Raw) bool {
	for _, v := range values(answer.Lookup("writeErrors")) {
		if doc, ok := v.DocumentOK(); ok && stale(refusal{code: int32(number(doc.Lookup("code")))}) {
			return true
		}
	}
	return false
}

// direct sends a command that has no internal form to the shards that own the collection, outside
// transactions.
func (b *backend) direct(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	cmd = without(cmd, "lsid", "txnNumber")
	name := cmd[0].Key
	var coll string
	var filter, inner bson.D
	if coll, _ = lookup(cmd, name).StringValueOK(); name == "explain" {
		inner = document(cmd, name)
		if len(inner) == 0 {
			return nil, refusal{code: 9, name: "FailedToParse", text: "explain of nothing"}
		}
		coll, _ = raw(inner[0].Value).StringValueOK()
		filter = filterOf(inner)
	} else if name == "count" || name == "distinct" {
		filter = document(cmd, "query")
	}
	if name == "create" || name == "createIndexes" {
		if err := b.create(ctx, db); err != nil {
			return nil, err
		}
	}
	var err error
	for range staleAttempts {
		var t *table
		if t, err = b.table(ctx, db, coll); err != nil {
			return nil, err
		}
		if t.primary == "" {
			return nothing(name, coll)
		}
		on := t.owners()
		switch name {
		case "count", "distinct", "explain":
			if on, err = b.targets(ctx, t, filter, lookup(cmd, "collation")); err != nil {
				return nil, err
			}
		case "listIndexes":
			on = on[:1]
		case "create":
			on = []string{t.primary}
		}
		var answers []bson.Raw
		for _, s := range on {
			sent := append(slices.Clone(cmd), t.versions[s]...)
			if name == "explain" { // the versions go inside
				sent = with(cmd, bson.E{Key: name, Value: append(slices.Clone(inner), t.versions[s]...)})
			}
			var answer bson.Raw
			if answer, err = b.ask(ctx, s, db, sent); err != nil {
				break
			}
			answers = append(answers, answer)
		}
		if err == nil {
			return b.together(ctx, db, name, on, answers)
		}
		if !stale(err) {
			return nil, err
		}
	}
	return nil, err
}

// filterOf is the filter of a command that is explained.
func filterOf(cmd bson.D) bson.D {
	switch cmd[0].Key {
	case "find":
		return document(cmd, "filter")
	case "aggregate":
		if stages := list(cmd, "pipeline"); len(stages) > 0 {
			if first, ok := stages[0].DocumentOK(); ok {
				return document(decode(first), "$match")
			}
		}
	case "update", "delete":
		for _, field := range []string{"updates", "deletes"} {
			if ops := list(cmd, field); len(ops) > 0 {
				if op, ok := ops[0].DocumentOK(); ok {
					return document(decode(op), "q")
				}
			}
		}
	}
	return document(cmd, "query")
}

// nothing is the answer about a database that does not exist.
func nothing(name, coll string) (bson.Raw, error) {
	switch name {
	case "count":
		return encode(append(bson.D{{Key: "n", Value: int32(0)}}, done...)), nil
	case "distinct":
		return encode(append(bson.D{{Key: "values", Value: bson.A{}}}, done...)), nil
	}
	return nil, refusal{code: 26, name: "NamespaceNotFound", text: "ns does not exist: " + coll}
}

// together puts the answers of several shards together.
func (b *backend) together(ctx context.Context, db, name string, on []string, answers []bson.Raw) (bson.Raw, error) {
	switch name {
	case "count":
		n := int64(0)
		for _, a := range answers {
			n += number(a.Lookup("n"))
		}
		return encode(append(bson.D{{Key: "n", Value: n}}, done...)), nil
	case "distinct":
		docs := bson.A{}
		for _, a := range answers {
			for _, v := range values(a.Lookup("values")) {
				docs = append(docs, bson.D{{Key: "_id", Value: v}})
			}
		}
		found, err := b.scratch(ctx, docs, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$_id"}}}})
		if err != nil {
			return nil, err
		}
		all := bson.A{}
		for _, doc := range found {
			all = append(all, doc.Lookup("_id"))
		}
		return encode(append(bson.D{{Key: "values", Value: all}}, done...)), nil
	case "explain":
		return explained(on, answers), nil
	}
	b.opened(answers[0], db, on[0])
	return answers[0], nil
}

// explained puts plans together as a mongos does: those of several shards under SHARD_MERGE.
func explained(on []string, answers []bson.Raw) bson.Raw {
	stage := "SINGLE_SHARD"
	if len(on) > 1 {
		stage = "SHARD_MERGE"
	}
	plans, runs := bson.A{}, bson.A{}
	total := map[string]int64{}
	aggregate := bson.D{}
	for i, a := range answers {
		if _, err := a.LookupErr("queryPlanner"); err != nil { // stages, or parts, of an aggregate
			aggregate = append(aggregate, bson.E{Key: on[i], Value: encode(without(decode(a), "ok", "$clusterTime", "operationTime"))})
			continue
		}
		aggregate = append(aggregate, bson.E{Key: on[i], Value: a})
		plan, _ := a.Lookup("queryPlanner").DocumentOK()
		plans = append(plans, append(bson.D{{Key: "shardName", Value: on[i]}}, decode(plan)...))
		if run, ok := a.Lookup("executionStats").DocumentOK(); ok {
			runs = append(runs, append(bson.D{{Key: "shardName", Value: on[i]}}, decode(run)...))
			for _, field := range []string{"nReturned", "executionTimeMillis", "totalKeysExamined", "totalDocsExamined"} {
				total[field] += number(run.Lookup(field))
			}
		}
	}
	if len(plans) < len(answers) {
		return encode(append(bson.D{{Key: "shards", Value: aggregate}}, done...))
	}
	out := bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "winningPlan", Value: bson.D{{Key: "stage", Value: stage}, {Key: "shards", Value: plans}}}}}}
	if len(runs) > 0 {
		stats := bson.D{}
		for _, field := range []string{"nReturned", "executionTimeMillis", "totalKeysExamined", "totalDocsExamined"} {
			stats = append(stats, bson.E{Key: field, Value: total[field]})
		}
		stats = append(stats, bson.E{Key: "executionStages", Value: bson.D{{Key: "stage", Value: stage}, {Key: "shards", Value: runs}}})
		out = append(out, bson.E{Key: "executionStats", Value: stats})
	}
	return encode(append(out, done...))
}

// write runs an insert, update, delete or findAndModify outside transactions. What is retryable
// and fixes the shard key goes to its shard with its number, as a mongos sends it, so that the shard
// knows a repetition. The rest goes through the server's own router, without the number.
func (b *backend) write(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	if err := b.create(ctx, db); err != nil {
		return nil, err
	}
	name := cmd[0].Key
	coll, _ := raw(cmd[0].Value).StringValueOK()
	_, retryable := lookup(cmd, "txnNumber").AsInt64OK()
	if !retryable && name != "findAndModify" {
		return b.cluster(ctx, db, cmd)
	}
	var answer bson.Raw
	var err error
	for range staleAttempts {
		var t *table
		if t, err = b.table(ctx, db, coll); err != nil {
			return nil, err
		}
		var on string
		if on, err = b.one(ctx, t, cmd); err != nil {
			return nil, err
		}
		if on == "" {
			return b.cluster(ctx, db, cmd)
		}
		answer, err = b.ask(ctx, on, db, append(slices.Clone(cmd), t.versions[on]...))
		if !stale(err) && (err != nil || !staleWrite(answer)) {
			return answer, err
		}
	}
	return answer, err
}

// one is the shard of a write that goes to one alone, "" if the server's own router is to tell.
func (b *backend) one(ctx context.Context, t *table, cmd bson.D) (string, error) {
	if !t.sharded() {
		return t.primary, nil
	}
	var keys []bson.D
	switch cmd[0].Key {
	case "findAndModify":
		key := t.equality(document(cmd, "query"))
		if key == nil {
			return "", refusal{code: codeShardKeyNotFound, name: errNameShardKeyNotFound, text: "Query for sharded findAndModify must contain the shard key"}
		}
		keys = append(keys, key)
	case "insert":
		for _, doc := range list(cmd, "documents") {
			keys = append(keys, t.keyOf(doc.Document()))
		}
	default:
		for _, v := range append(list(cmd, "updates"), list(cmd, "deletes")...) {
			op := decode(v.Document())
			key := t.equality(document(op, "q"))
			if key == nil || lookup(op, "collation").Type != 0 || truth(lookup(op, "multi")) {
				return "", nil
			}
			keys = append(keys, key)
		}
	}
	places, err := b.places(ctx, t, keys)
	if err != nil || len(slices.Compact(places)) != 1 {
		return "", err
	}
	return places[0], nil
}

// A cursor that the client holds: of a shard, or documents that are here.
type cursor struct {
	shard string // where it is; "" if its documents are here
	id    int64  // its own
	ns    string
	docs  []bson.Raw
}

// batchBytes bounds a batch that is made here.
const batchBytes = 16_000_000

// opened remembers the shard of a cursor.
func (b *backend) opened(answer bson.Raw, db, shard string) {
	if id := number(answer.Lookup("cursor", "id")); id != 0 {
		b.r.mu.Lock()
		b.r.cursors[id] = &cursor{shard: shard, id: id}
		b.r.mu.Unlock()
	}
}

func (b *backend) forget(ids []bson.RawValue) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	for _, id := range ids {
		delete(b.r.cursors, number(id))
	}
}

// held is the cursor of this number, nil if the server's own router has it.
func (b *backend) held(id int64) *cursor {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	return b.r.cursors[id]
}

func (b *backend) getMore(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	c := b.held(number(lookup(cmd, "getMore")))
	switch {
	case c == nil:
		return b.cluster(ctx, db, cmd)
	case c.shard == "":
		return b.next(c, "nextBatch", number(lookup(cmd, "batchSize"))), nil
	}
	answer, err := b.ask(ctx, c.shard, db, without(cmd, "lsid", "txnNumber"))
	if err != nil || number(answer.Lookup("cursor", "id")) == 0 {
		b.forget([]bson.RawValue{raw(c.id)})
	}
	return answer, err
}

// hold is the first batch of documents that are here.
func (b *backend) hold(ns string, docs []bson.Raw, batch int64) bson.Raw {
	b.r.mu.Lock()
	b.r.last--
	c := &cursor{id: b.r.last, ns: ns, docs: docs}
	b.r.cursors[c.id] = c
	b.r.mu.Unlock()
	return b.next(c, "firstBatch", batch)
}

// next is the next batch; 0 is as many as fit.
func (b *backend) next(c *cursor, field string, batch int64) bson.Raw {
	out, size := bson.A{}, 0
	for len(c.docs) > 0 && (batch <= 0 || int64(len(out)) < batch) && (size == 0 || size+len(c.docs[0]) < batchBytes) {
		out, size, c.docs = append(out, c.docs[0]), size+len(c.docs[0]), c.docs[1:]
	}
	id := c.id
	if len(c.docs) == 0 {
		b.forget([]bson.RawValue{raw(c.id)})
		id = 0
	}
	return encode(append(bson.D{{Key: "cursor", Value: bson.D{{Key: field, Value: out}, {Key: "id", Value: id}, {Key: "ns", Value: c.ns}}}}, done...))
}
