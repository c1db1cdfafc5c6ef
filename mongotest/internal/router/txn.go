package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A transaction is one of a client. Its shards, the participants, are in the order in which they were first
// asked.
type transaction struct {
	mu       sync.Mutex
	session  bson.E // lsid
	number   bson.E // txnNumber
	concern  bson.D // readConcern as the client sent it
	at       bson.Timestamp
	snapshot bool
	shards   []string
	wrote    map[string]bool
	aborted  bool
	// committing: the shards were asked to commit, and only they know whether the transaction is aborted.
	committing bool
	committed  string // how it was, once it is
}

// The ways in which a mongos commits, with the names of its serverStatus.
const (
	commitNoShards    = "noShards"
	commitSingleShard = "singleShard"
	commitSingleWrite = "singleWriteShard"
	commitReadOnly    = "readOnly"
	commitTwoPhase    = "twoPhaseCommit"
)

var commitTypes = []string{commitNoShards, commitSingleShard, commitSingleWrite, commitReadOnly, commitTwoPhase}

func sessionKey(lsid bson.RawValue) string { return string(encode(bson.D{{Key: "s", Value: lsid}})) }

// inTransaction runs a statement, a commit or an abort.
func (b *backend) inTransaction(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	session := sessionKey(lookup(cmd, "lsid"))
	b.r.mu.Lock()
	t := b.r.txns[session]
	if t != nil && number(raw(t.number.Value)) != number(lookup(cmd, "txnNumber")) {
		t = nil // an earlier one of the session: there is one at a time
	}
	if truth(lookup(cmd, "startTransaction")) {
		t = &transaction{session: bson.E{Key: "lsid", Value: lookup(cmd, "lsid")}, number: bson.E{Key: "txnNumber", Value: lookup(cmd, "txnNumber")},
			concern: document(cmd, "readConcern"), wrote: map[string]bool{}}
		if level, _ := lookup(t.concern, "level").StringValueOK(); level == "snapshot" {
			t.snapshot, t.at = true, b.r.clock
		}
		b.r.txns[session] = t
	}
	b.r.mu.Unlock()
	if t == nil {
		return nil, refusal{code: codeNoSuchTransaction, name: "NoSuchTransaction", text: "the router does not know the transaction", labels: []string{labelTransient}}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch cmd[0].Key {
	case "commitTransaction":
		return b.commit(ctx, t, cmd)
	case "abortTransaction":
		if err := b.abort(t); err != nil {
			return nil, err
		}
		return encode(done), nil
	}
	if t.aborted {
		return nil, refusal{code: codeNoSuchTransaction, name: "NoSuchTransaction", text: "the transaction was aborted", labels: []string{labelTransient}}
	}
	cmd = without(cmd, "lsid", "txnNumber", "autocommit", "startTransaction", "readConcern", "recoveryToken", "stmtId", "stmtIds")
	answer, err := b.statement(ctx, t, db, cmd)
	if err == nil && staleWrite(answer) {
		err = refusal{code: codeStaleConfig, name: "StaleConfig", text: "a shard's version changed"}
	}
	var e refusal
	if errors.As(err, &e) && e.code == codeWouldChangeShard && upserts(cmd) {
		err = refusal{code: codeStaleConfig, name: "StaleConfig", text: "a chunk moved before an upsert"}
	}
	switch {
	case err == nil:
		return answer, nil
	case stale(err):
		errors.As(err, &e)
		e.labels = []string{labelTransient}
		err = e
	case !errors.As(err, &e): // no answer
		err = unreachable(err, bson.D{{Key: cmd[0].Key}, {Key: "autocommit", Value: false}})
	}
	if errors.As(err, &e) && slices.Contains(e.labels, labelTransient) {
		_ = b.abort(t)
	}
	return nil, err
}

// upserts reports whether a command has an upsert. The filter of an upsert has the shard key, so only a moved
// chunk can make it belong to another shard.
func upserts(cmd bson.D) bool {
	return slices.ContainsFunc(list(cmd, "updates"), func(v bson.RawValue) bool { return truth(lookup(decode(v.Document()), "upsert")) })
}

// abort tells the participants to abort and returns the first refusal, because a committed transaction stays
// committed. A participant that does not hear of it ends the transaction by itself.
func (b *backend) abort(t *transaction) (err error) {
	t.aborted = !t.committing
	for _, s := range t.shards {
		answer, sent := b.send(s, "admin", bson.D{{Key: "abortTransaction", Value: int32(1)}, t.session, t.number, {Key: "autocommit", Value: false}})
		if sent == nil {
			sent = refused(answer)
		}
		if err == nil {
			err = sent
		}
	}
	return err
}

// commit commits as a mongos does: a single participant alone; readers before a single writer; several writers
// in two phases, which the first participant coordinates.
func (b *backend) commit(ctx context.Context, t *transaction, cmd bson.D) (answer bson.Raw, err error) {
	if t.aborted {
		return nil, refusal{code: codeNoSuchTransaction, name: "NoSuchTransaction", text: "the transaction was aborted", labels: []string{labelTransient}}
	}
	send := func(on, name string, more ...bson.E) error {
		c := append(bson.D{{Key: name, Value: int32(1)}}, more...)
		c = append(c, t.session, t.number, bson.E{Key: "autocommit", Value: false},
			bson.E{Key: "writeConcern", Value: lookup(acknowledged(cmd), "writeConcern")})
		answer, err = b.ask(ctx, on, "admin", c)
		return err
	}
	t.committing = true
	kind, last := commitNoShards, ""
	var readers, writers []string
	for _, s := range t.shards {
		if t.wrote[s] {
			writers = append(writers, s)
		} else {
			readers = append(readers, s)
		}
	}
	switch {
	case len(t.shards) == 0:
		answer = encode(done)
	case len(t.shards) == 1:
		kind, last = commitSingleShard, t.shards[0]
	case len(writers) == 0:
		kind = commitReadOnly
	case len(writers) == 1:
		kind, last = commitSingleWrite, writers[0]
	default:
		kind, readers = commitTwoPhase, nil
		participants := bson.A{}
		for _, s := range t.shards {
			participants = append(participants, bson.D{{Key: "shardId", Value: s}})
		}
		if err := send(t.shards[0], "coordinateCommitTransaction", bson.E{Key: "participants", Value: participants}); err != nil {
			return nil, err
		}
	}
	if last != "" {
		readers = slices.DeleteFunc(readers, func(s string) bool { return s == last })
	}
	for _, s := range readers {
		if err := send(s, "commitTransaction"); err != nil {
			return nil, err
		}
	}
	if last != "" {
		if err := send(last, "commitTransaction"); err != nil {
			return nil, err
		}
	}
	if t.committed == "" && writeConcernOK(answer) {
		t.committed = kind
		b.r.mu.Lock()
		b.r.commits[kind]++
		b.r.mu.Unlock()
	}
	return answer, nil
}

func writeConcernOK(answer bson.Raw) bool {
	_, err := answer.LookupErr("writeConcernError")
	return err != nil
}

// send sends a statement to a shard, which becomes a participant.
func (t *transaction) send(ctx context.Context, b *backend, on, db string, cmd, versions bson.D) (bson.Raw, error) {
	cmd = append(slices.Clone(cmd), versions...)
	cmd = append(cmd, t.session, t.number, bson.E{Key: "autocommit", Value: false})
	if !slices.Contains(t.shards, on) {
		cmd = append(cmd, bson.E{Key: "startTransaction", Value: true})
		concern := t.concern
		if t.snapshot {
			concern = bson.D{{Key: "level", Value: "snapshot"}, {Key: "atClusterTime", Value: t.at}}
		}
		if len(concern) > 0 {
			cmd = append(cmd, bson.E{Key: "readConcern", Value: concern})
		}
		if len(t.shards) == 0 {
			cmd = append(cmd, bson.E{Key: "coordinator", Value: true})
		}
		t.shards = append(t.shards, on)
	}
	answer, err := b.ask(ctx, on, db, cmd)
	if err != nil {
		return answer, err
	}
	if !truth(answer.Lookup("readOnly")) {
		t.wrote[on] = true
	}
	return answer, nil
}

// statement sends a statement to the shards that it concerns and merges their answers.
func (b *backend) statement(ctx context.Context, t *transaction, db string, cmd bson.D) (bson.Raw, error) {
	name := cmd[0].Key
	if name == "getMore" {
		c := b.held(number(lookup(cmd, name)))
		switch {
		case c == nil:
			return nil, refusal{code: 43, name: "CursorNotFound", text: "cursor not found"}
		case c.shard == "":
			return b.next(c, "nextBatch", number(lookup(cmd, "batchSize"))), nil
		}
		return t.send(ctx, b, c.shard, db, cmd, nil)
	}
	if own(db) {
		return nil, refusal{code: codeInTransaction, name: errNameOperationInTxn, text: "a transaction on " + db}
	}
	if err := b.create(ctx, db); err != nil {
		return nil, err
	}
	coll, _ := raw(cmd[0].Value).StringValueOK()
	table, err := b.table(ctx, db, coll, t.at)
	if err != nil {
		return nil, err
	}
	switch name {
	case "insert":
		return b.insertIn(ctx, t, table, cmd)
	case "update", "delete":
		return b.changeIn(ctx, t, table, cmd)
	case "findAndModify":
		on, err := b.one(ctx, table, cmd)
		if err != nil {
			return nil, err
		}
		return t.send(ctx, b, on, db, cmd, table.versions[on])
	case "find":
		return b.findIn(ctx, t, table, cmd)
	case "aggregate":
		return b.aggregateIn(ctx, t, table, cmd)
	case "distinct":
		on, err := b.targets(ctx, table, document(cmd, "query"), lookup(cmd, "collation"))
		if err != nil {
			return nil, err
		}
		if table.sharded() {
			return nil, refusal{code: codeInTransaction, name: errNameOperationInTxn, text: "Cannot run 'distinct' on a sharded collection in a multi-document transaction."}
		}
		return t.send(ctx, b, on[0], db, cmd, table.versions[on[0]])
	case "create", "createIndexes":
		if len(t.shards) > 1 || len(t.shards) == 1 && t.shards[0] != table.primary || table.sharded() {
			return nil, refusal{code: codeInTransaction, name: errNameOperationInTxn, text: "cannot " + name + " in a transaction over several shards"}
		}
		return t.send(ctx, b, table.primary, db, cmd, table.versions[table.primary])
	}
	return nil, refusal{code: codeInTransaction, name: errNameOperationInTxn, text: "Cannot run '" + name + "' in a multi-document transaction."}
}

func (b *backend) insertIn(ctx context.Context, t *transaction, table *table, cmd bson.D) (bson.Raw, error) {
	docs := list(cmd, "documents")
	places := slices.Repeat([]string{table.primary}, len(docs))
	if table.sharded() {
		var keys []bson.D
		for _, doc := range docs {
			keys = append(keys, table.keyOf(doc.Document()))
		}
		var err error
		if places, err = b.places(ctx, table, keys); err != nil {
			return nil, err
		}
	}
	var order []string
	at := map[string][]int{}
	for i, on := range places {
		if at[on] == nil {
			order = append(order, on)
		}
		at[on] = append(at[on], i)
	}
	out := &writes{}
	for _, on := range order {
		part := bson.A{}
		for _, i := range at[on] {
			part = append(part, docs[i])
		}
		answer, err := t.send(ctx, b, on, table.db, with(cmd, bson.E{Key: "documents", Value: part}), table.versions[on])
		if err != nil {
			return nil, err
		}
		if out.add(answer, at[on]); out.failed() {
			break
		}
	}
	return out.answer(), nil
}

// changeIn sends updates or deletes one by one.
func (b *backend) changeIn(ctx context.Context, t *transaction, table *table, cmd bson.D) (bson.Raw, error) {
	field := cmd[0].Key + "s"
	ops := list(cmd, field)
	out := &writes{update: field == "updates"}
	if !table.sharded() {
		answer, err := t.send(ctx, b, table.primary, table.db, cmd, table.versions[table.primary])
		return answer, err
	}
	for i, v := range ops {
		op := decode(v.Document())
		filter := document(op, "q")
		many := truth(lookup(op, "multi")) || field == "deletes" && number(lookup(op, "limit")) == 0
		on, err := b.targets(ctx, table, filter, lookup(op, "collation"))
		if err != nil {
			return nil, err
		}
		if table.equality(filter) == nil {
			if truth(lookup(op, "upsert")) {
				out.fail(i, codeShardKeyNotFound, "Failed to target upsert by query :: could not extract exact shard key")
				break
			}
			if !many && !oneID(filter) && len(on) > 1 {
				out.fail(i, codeInvalidOptions, "A {multi:false} update or delete on a sharded collection must contain an exact match on _id or contain the shard key")
				break
			}
		}
		for _, s := range on {
			answer, err := t.send(ctx, b, s, table.db, with(cmd, bson.E{Key: field, Value: bson.A{v}}), table.versions[s])
			if err != nil {
				return nil, err
			}
			out.add(answer, []int{i})
		}
		if out.failed() {
			break
		}
	}
	return out.answer(), nil
}

// writes merges the answers of several shards to one write command.
type writes struct {
	update      bool
	n, modified int64
	upserted    bson.A
	errors      bson.A
}

// add adds the answer of a shard; at are the places of its statements in the client's command.
func (w *writes) add(answer bson.Raw, at []int) {
	w.n += number(answer.Lookup("n"))
	w.modified += number(answer.Lookup("nModified"))
	place := func(v bson.RawValue) bson.D {
		d := decode(v.Document())
		return with(d, bson.E{Key: "index", Value: int32(at[number(lookup(d, "index"))])})
	}
	for _, v := range values(answer.Lookup("upserted")) {
		w.upserted = append(w.upserted, place(v))
	}
	for _, v := range values(answer.Lookup("writeErrors")) {
		w.errors = append(w.errors, place(v))
	}
}

func (w *writes) fail(i int, code int32, text string) {
	w.errors = append(w.errors, bson.D{{Key: "index", Value: int32(i)}, {Key: "code", Value: code}, {Key: "errmsg", Value: text}})
}

func (w *writes) failed() bool { return len(w.errors) > 0 }

func (w *writes) answer() bson.Raw {
	out := bson.D{{Key: "n", Value: int32(w.n)}}
	if w.update {
		out = append(out, bson.E{Key: "nModified", Value: int32(w.modified)})
	}
	if len(w.upserted) > 0 {
		out = append(out, bson.E{Key: "upserted", Value: w.upserted})
	}
	if len(w.errors) > 0 {
		out = append(out, bson.E{Key: "writeErrors", Value: w.errors})
	}
	return encode(append(out, done...))
}

// findIn reads the documents of all shards and sorts them by keys that the shards compute.
func (b *backend) findIn(ctx context.Context, t *transaction, table *table, cmd bson.D) (bson.Raw, error) {
	on, err := b.targets(ctx, table, document(cmd, "filter"), lookup(cmd, "collation"))
	if err != nil {
		return nil, err
	}
	if len(on) == 1 {
		answer, err := t.send(ctx, b, on[0], table.db, cmd, table.versions[on[0]])
		if err == nil {
			b.opened(answer, table.db, on[0])
		}
		return answer, err
	}
	skip, limit := number(lookup(cmd, "skip")), number(lookup(cmd, "limit"))
	order := document(cmd, "sort")
	part := without(cmd, "skip", "limit", "batchSize", "singleBatch")
	if limit > 0 {
		part = append(part, bson.E{Key: "limit", Value: skip + limit})
	}
	const sortKey = "~sortKey"
	if len(order) > 0 {
		projection := append(document(cmd, "projection"), bson.E{Key: sortKey, Value: bson.D{{Key: "$meta", Value: "sortKey"}}})
		part = with(part, bson.E{Key: "projection", Value: projection})
	}
	docs, err := b.gather(ctx, t, table, on, part)
	if err != nil {
		return nil, err
	}
	if len(order) > 0 && len(docs) > 0 {
		keys, by := bson.A{}, bson.D{}
		for i, doc := range docs {
			key := bson.D{{Key: "i", Value: int32(i)}}
			for j, v := range values(doc.Lookup(sortKey)) {
				key = append(key, bson.E{Key: fmt.Sprintf("k%d", j), Value: v})
			}
			keys = append(keys, key)
		}
		for j, e := range order {
			by = append(by, bson.E{Key: fmt.Sprintf("k%d", j), Value: e.Value})
		}
		sorted, err := b.scratch(ctx, keys, bson.D{{Key: "$sort", Value: append(by, bson.E{Key: "i", Value: 1})}}, bson.D{{Key: "$project", Value: bson.D{{Key: "i", Value: 1}}}})
		if err != nil {
			return nil, err
		}
		was := docs
		docs = nil
		for _, s := range sorted {
			docs = append(docs, encode(without(decode(was[number(s.Lookup("i"))]), sortKey)))
		}
	}
	docs = docs[min(int(skip), len(docs)):]
	if limit > 0 {
		docs = docs[:min(int(limit), len(docs))]
	}
	batch := number(lookup(cmd, "batchSize"))
	if truth(lookup(cmd, "singleBatch")) {
		batch = 0
	}
	return b.hold(table.db+"."+table.name, docs, batch), nil
}

// gather returns all documents that several shards return.
func (b *backend) gather(ctx context.Context, t *transaction, table *table, on []string, cmd bson.D) (out []bson.Raw, err error) {
	for _, s := range on {
		answer, err := t.send(ctx, b, s, table.db, cmd, table.versions[s])
		if err != nil {
			return nil, err
		}
		docs, err := b.rest(ctx, s, table.db, answer, bson.D{t.session, t.number, {Key: "autocommit", Value: false}})
		if err != nil {
			return nil, err
		}
		out = append(out, docs...)
	}
	return out, nil
}

// byDocument are the stages that look at each document alone; the shards run them.
var byDocument = []string{"$match", "$project", "$addFields", "$set", "$unset", "$unwind", "$replaceRoot", "$replaceWith", "$redact"}

// aggregateIn runs an aggregation: the shards run the stages up to the first one that needs all documents, and
// a pipeline outside the transaction runs the others over the results.
func (b *backend) aggregateIn(ctx context.Context, t *transaction, table *table, cmd bson.D) (bson.Raw, error) {
	stages := list(cmd, "pipeline")
	var filter bson.D
	if len(stages) > 0 {
		filter = document(decode(stages[0].Document()), "$match")
	}
	foreign, err := b.foreign(ctx, table.db, lookup(cmd, "pipeline"))
	if err != nil {
		return nil, err
	}
	if raw(cmd[0].Value).Type != bson.TypeString { // of no collection: $documents
		if table.primary == "" {
			return nil, notHere("an aggregate of a database that does not exist")
		}
		_, version, err := b.database(ctx, table.db)
		if err != nil {
			return nil, err
		}
		return t.send(ctx, b, table.primary, table.db, cmd, bson.D{{Key: "databaseVersion", Value: version}})
	}
	on, err := b.targets(ctx, table, filter, lookup(cmd, "collation"))
	if err != nil {
		return nil, err
	}
	if len(on) == 1 && (!foreign || on[0] == table.primary) {
		answer, err := t.send(ctx, b, on[0], table.db, cmd, table.versions[on[0]])
		if err == nil {
			b.opened(answer, table.db, on[0])
		}
		return answer, err
	}
	if foreign {
		return nil, notHere("$lookup of a collection that is not sharded, from shards that lack it, in a transaction")
	}
	split := slices.IndexFunc(stages, func(v bson.RawValue) bool { return !slices.Contains(byDocument, decode(v.Document())[0].Key) })
	if split < 0 {
		split = len(stages)
	}
	part := with(without(cmd, "cursor"), bson.E{Key: "pipeline", Value: stages[:split]}, bson.E{Key: "cursor", Value: bson.D{}})
	docs, err := b.gather(ctx, t, table, on, part)
	if err != nil {
		return nil, err
	}
	if split < len(stages) {
		all := bson.A{}
		for _, doc := range docs {
			all = append(all, doc)
		}
		var after []bson.D
		for _, v := range stages[split:] {
			after = append(after, decode(v.Document()))
		}
		if len(all) == 0 { // $documents wants one
			all, after = bson.A{bson.D{}}, append([]bson.D{{{Key: "$limit", Value: 1}}, {{Key: "$match", Value: bson.D{{Key: "$expr", Value: false}}}}}, after...)
		}
		if docs, err = b.scratch(ctx, all, after...); err != nil {
			return nil, err
		}
	}
	return b.hold(table.db+"."+table.name, docs, number(lookup(document(cmd, "cursor"), "batchSize"))), nil
}

// foreign reports whether stages join a collection of this database. It refuses a join with a sharded
// collection, as a mongos before 8.0 does.
func (b *backend) foreign(ctx context.Context, db string, v bson.RawValue) (found bool, err error) {
	var elements []bson.RawElement
	switch v.Type {
	case bson.TypeArray, bson.TypeEmbeddedDocument:
		if elements, err = bson.Raw(v.Value).Elements(); err != nil {
			return false, err
		}
	}
	for _, e := range elements {
		if key := e.Key(); key == "$lookup" || key == "$graphLookup" || key == "$unionWith" {
			from, _ := e.Value().StringValueOK()
			if doc, ok := e.Value().DocumentOK(); ok {
				d := decode(doc)
				if from, _ = lookup(d, "from").StringValueOK(); key == "$unionWith" {
					from, _ = lookup(d, "coll").StringValueOK()
				}
			}
			if from != "" {
				table, err := b.table(ctx, db, from, bson.Timestamp{})
				if err != nil {
					return false, err
				}
				if table.sharded() {
					return false, refusal{code: codeIllegalOperation, name: "IllegalOperation", text: "Sharded " + key + " is not allowed within a multi-document transaction: " + from}
				}
				found = true
			}
		}
		if key := e.Key(); key == "$literal" {
			continue
		}
		inner, err := b.foreign(ctx, db, e.Value())
		if err != nil {
			return false, err
		}
		found = found || inner
	}
	return found, nil
}
