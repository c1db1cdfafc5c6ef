package router

import (
	"context"
	"crypto/rand"
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
	if name == "killCursors" { // beside a transaction, which goes on
		b.killCursors(db, cmd)
		return encode(done), nil
	}
	if v := lookup(cmd, "autocommit"); v.Type != 0 && !truth(v) {
		return b.inTransaction(ctx, db, cmd)
	}
	switch strings.ToLower(name) {
	case "hello", "ismaster":
		return encode(hello()), nil
	case "ping", "endsessions", "refreshsessions":
		return encode(done), nil
	case "killsessions":
		return b.killSessions(ctx, cmd)
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
	case "addshardtozone", "updatezonekeyrange":
		return b.ask(ctx, configServer, "admin", append(renamed(without(cmd, "lsid", "txnNumber"), "_configsvr"+strings.ToUpper(name[:1])+name[1:]), majority))
	}
	if db == configServer { // the config database is the config server's
		return b.ask(ctx, configServer, db, without(cmd, "lsid", "txnNumber"))
	}
	if own(db) {
		return b.anywhere(ctx, db, without(cmd, "lsid", "txnNumber"))
	}
	switch name {
	case "insert", "update", "delete", "findAndModify":
		return b.write(ctx, db, acknowledged(cmd))
	case "find":
		return b.read(ctx, db, cmd)
	case "aggregate":
		for _, stage := range list(cmd, "pipeline") {
			if s, ok := stage.DocumentOK(); ok && len(decode(s)) > 0 && decode(s)[0].Key == "$changeStream" {
				return nil, notHere("a change stream: mongod 6.0 ends when it gets one as an internal command")
			}
		}
		return b.read(ctx, db, cmd)
	case "getMore":
		return b.getMore(ctx, db, cmd)
	case "count", "distinct", "create", "createIndexes", "listIndexes", "dropIndexes", "collMod", "collStats", "explain":
		return b.direct(ctx, db, cmd)
	case "listCollections", "dbStats":
		return b.onPrimary(ctx, db, cmd)
	case "drop", "dropDatabase":
		return b.drop(ctx, db, cmd)
	}
	return nil, refusal{code: codeCommandNotFound, name: "CommandNotFound", text: "the test router has no command " + name}
}

// read runs a find or an aggregate. As a mongos does, it gives a snapshot the newest known time and returns
// that time, because the next reads of the session use the same.
func (b *backend) read(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	concern := document(cmd, "readConcern")
	if level, _ := lookup(concern, "level").StringValueOK(); level != "snapshot" {
		return b.query(ctx, db, cmd)
	}
	if lookup(concern, "atClusterTime").Type == 0 {
		concern = append(concern, bson.E{Key: "atClusterTime", Value: b.r.now()})
	}
	answer, err := b.query(ctx, db, with(cmd, bson.E{Key: "readConcern", Value: concern}))
	if c, ok := answer.Lookup("cursor").DocumentOK(); ok && err == nil {
		told := with(decode(c), bson.E{Key: "atClusterTime", Value: lookup(concern, "atClusterTime")})
		answer = encode(with(decode(answer), bson.E{Key: "cursor", Value: told}))
	}
	return answer, err
}

// query is cluster for a query. It repeats the query if a shard refuses it because a chunk has moved, as a
// mongos does. It does not repeat a query that writes, because it may have written.
func (b *backend) query(ctx context.Context, db string, cmd bson.D) (answer bson.Raw, err error) {
	for range staleAttempts {
		answer, err = b.cluster(ctx, db, cmd)
		if err != nil || mergesOut(cmd) || !stale(refused(answer)) {
			break
		}
	}
	return answer, err
}

// mergesOut reports whether the last stage of an aggregation writes.
func mergesOut(cmd bson.D) bool {
	stages := list(cmd, "pipeline")
	if len(stages) == 0 {
		return false
	}
	last, _ := stages[len(stages)-1].DocumentOK()
	return last.Lookup("$merge").Type != 0 || last.Lookup("$out").Type != 0
}

// killSessions ends what the sessions have open, on all shards, as a mongos does.
func (b *backend) killSessions(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	sessions := bson.A{}
	for _, v := range list(cmd, cmd[0].Key) {
		sessions = append(sessions, v)
		b.r.mu.Lock()
		for id, c := range b.r.remotes {
			if sessionKey(c.client) == sessionKey(v) {
				sessions = append(sessions, c.session)
				delete(b.r.remotes, id)
			}
		}
		b.r.mu.Unlock()
	}
	for _, s := range b.r.shards {
		if _, err := b.ask(ctx, s.Name, "admin", bson.D{{Key: cmd[0].Key, Value: sessions}}); err != nil {
			return nil, err
		}
	}
	return encode(done), nil
}

// A remote is a cursor of the server's own router. It has a session of its own, because only the end of the
// session ends it: the server has no internal form of killCursors.
type remote struct {
	session bson.D
	client  bson.RawValue // its lsid
}

func newSession() bson.D {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id}}}
}

func (b *backend) remote(id int64) (remote, bool) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	c, ok := b.r.remotes[id]
	return c, ok
}

// keep registers the cursor that an answer leaves open, and removes the one that it ends.
func (b *backend) keep(c remote, was int64, answer bson.Raw) {
	if c.session == nil {
		return
	}
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	delete(b.r.remotes, was)
	if id := number(answer.Lookup("cursor", "id")); id != 0 {
		b.r.remotes[id] = c
	}
}

// killCursors ends cursors on the shards, because migrations would wait for them.
func (b *backend) killCursors(db string, cmd bson.D) {
	sessions, on := bson.A{}, map[string]bson.A{}
	b.r.mu.Lock()
	for _, v := range list(cmd, "cursors") {
		id := number(v)
		if c, ok := b.r.remotes[id]; ok {
			sessions = append(sessions, c.session)
		}
		if c := b.r.cursors[id]; c != nil && c.shard != "" {
			on[c.shard] = append(on[c.shard], id)
		}
		delete(b.r.remotes, id)
		delete(b.r.cursors, id)
	}
	b.r.mu.Unlock()
	for shard, ids := range on {
		_, _ = b.send(shard, db, bson.D{cmd[0], {Key: "cursors", Value: ids}})
	}
	for _, s := range b.r.shards {
		if len(sessions) > 0 {
			_, _ = b.send(s.Name, "admin", bson.D{{Key: "killSessions", Value: sessions}})
		}
	}
}

// acknowledged returns a write with the cluster's default write concern, majority, unless it has a write
// concern. A mongos adds it; a shard takes a write without one for w: 1.
func acknowledged(cmd bson.D) bson.D {
	if lookup(cmd, "writeConcern").Type != 0 {
		return cmd
	}
	return append(slices.Clone(cmd), bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}})
}

// status returns the part of a mongos's serverStatus that counts the commits of transactions by their kind.
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

// shardCollection shards a collection as the command of a mongos does. A collection with documents needs the
// index on the key.
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

// moveRange moves a range of keys to a shard by a migration of the server.
func (b *backend) moveRange(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	move := bson.D{{Key: "_configsvrMoveRange", Value: lookup(cmd, cmd[0].Key)}}
	for _, field := range []string{"toShard", "min", "max", "forceJumbo", "waitForDelete"} {
		if v := lookup(cmd, field); v.Type != 0 {
			move = append(move, bson.E{Key: field, Value: v})
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

// staleAttempts bounds how often a command is sent again after a shard had newer versions.
const staleAttempts = 20

// stale reports whether a shard answered that its versions are newer than those of the command.
func stale(err error) bool {
	var e refusal
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains([]int32{codeStaleConfig, codeStaleDbVersion, codeStaleShardVersion, codeShardInvalidated}, e.code)
}

// staleWrite reports whether a shard refused a write because of its version.
func staleWrite(answer bson.Raw) bool {
	for _, v := range values(answer.Lookup("writeErrors")) {
		if doc, ok := v.DocumentOK(); ok && stale(refusal{code: int32(number(doc.Lookup("code")))}) {
			return true
		}
	}
	return false
}

// changesShard reports whether the document of a write belongs to another shard than the one that got the
// write: its shard key changes, or its chunk has just moved. A mongos moves such a document.
func changesShard(answer bson.Raw) bool {
	for _, v := range values(answer.Lookup("writeErrors")) {
		if doc, ok := v.DocumentOK(); ok && number(doc.Lookup("code")) == codeWouldChangeShard {
			return true
		}
	}
	return false
}

// direct sends a command without an internal form to the shards that own the collection, outside transactions.
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
		if t, err = b.table(ctx, db, coll, bson.Timestamp{}); err != nil {
			return nil, err
		}
		if t.primary == "" {
			return nothing(name, coll)
		}
		on := t.owners()
		switch name {
		case "count", "distinct", "explain":
			if on, err = b.targets(ctx, t, filter, lookup(cmd, "collation")); stale(err) {
				continue
			} else if err != nil {
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

// filterOf returns the filter of a command that is to be explained.
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

// nothing returns the answer for a database that does not exist.
func nothing(name, coll string) (bson.Raw, error) {
	switch name {
	case "count":
		return encode(append(bson.D{{Key: "n", Value: int32(0)}}, done...)), nil
	case "distinct":
		return encode(append(bson.D{{Key: "values", Value: bson.A{}}}, done...)), nil
	}
	return nil, refusal{code: 26, name: "NamespaceNotFound", text: "ns does not exist: " + coll}
}

// together merges the answers of several shards into one.
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

// explained merges the plans of several shards under SHARD_MERGE, as a mongos does.
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

// write runs an insert, update, delete or findAndModify outside transactions. A retryable write that fixes the
// shard key goes to its shard with its number, as a mongos sends it, so that the shard recognizes a
// repetition. Other writes go through the server's own router, without the number.
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
		if t, err = b.table(ctx, db, coll, bson.Timestamp{}); err != nil {
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
		if err == nil && changesShard(answer) {
			return b.cluster(ctx, db, cmd)
		}
		if !stale(err) && (err != nil || !staleWrite(answer)) {
			return answer, err
		}
	}
	return answer, err
}

// one returns the shard of a write that goes to a single shard, and "" if the server's own router must decide.
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

// A cursor is one that the client holds: a cursor of a shard, or documents that the router holds itself.
type cursor struct {
	shard string // where it is; "" if its documents are here
	id    int64  // its own
	ns    string
	docs  []bson.Raw
}

// batchBytes bounds a batch that the router makes itself.
const batchBytes = 16_000_000

// opened registers the shard of a cursor.
func (b *backend) opened(answer bson.Raw, db, shard string) {
	if id := number(answer.Lookup("cursor", "id")); id != 0 {
		b.r.mu.Lock()
		b.r.cursors[id] = &cursor{shard: shard, id: id}
		b.r.mu.Unlock()
	}
}

func (b *backend) forget(id int64) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	delete(b.r.cursors, id)
}

// held returns the cursor with this number, and nil if the server's own router has it.
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
		b.forget(c.id)
	}
	return answer, err
}

// hold keeps documents for a new cursor and returns its first batch.
func (b *backend) hold(ns string, docs []bson.Raw, batch int64) bson.Raw {
	b.r.mu.Lock()
	b.r.last--
	c := &cursor{id: b.r.last, ns: ns, docs: docs}
	b.r.cursors[c.id] = c
	b.r.mu.Unlock()
	return b.next(c, "firstBatch", batch)
}

// next returns the next batch of a cursor; a batch of 0 takes as many documents as fit.
func (b *backend) next(c *cursor, field string, batch int64) bson.Raw {
	out, size := bson.A{}, 0
	for len(c.docs) > 0 && (batch <= 0 || int64(len(out)) < batch) && (size == 0 || size+len(c.docs[0]) < batchBytes) {
		out, size, c.docs = append(out, c.docs[0]), size+len(c.docs[0]), c.docs[1:]
	}
	id := c.id
	if len(c.docs) == 0 {
		b.forget(c.id)
		id = 0
	}
	return encode(append(bson.D{{Key: "cursor", Value: bson.D{{Key: field, Value: out}, {Key: "id", Value: id}, {Key: "ns", Value: c.ns}}}}, done...))
}
