package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/wire"
)

// configServer is the name of the config server among the names of the shards.
const configServer = "config"

// A backend runs the commands of one client.
type backend struct {
	r     *Router
	conns map[string]*conn
}

// conn is a connection to a server, and when it was used last.
type conn struct {
	net.Conn
	used time.Time
}

func (r *Router) backend() *backend { return &backend{r: r, conns: map[string]*conn{}} }

func (b *backend) close() {
	for _, c := range b.conns {
		_ = c.Close()
	}
}

func (r *Router) addr(name string) string {
	for _, s := range r.shards {
		if s.Name == name {
			return s.Addr
		}
	}
	return r.config
}

// send sends a command to a server and returns its answer, also if that is an error. If the server has closed
// the connection since its last use, send connects again and repeats the command once, unless the server may
// have got a write already.
func (b *backend) send(on, db string, cmd bson.D) (bson.Raw, error) {
	if now := b.r.now(); !now.IsZero() {
		cmd = with(cmd, clusterTime(now))
	}
	doc := encode(with(cmd, bson.E{Key: "$db", Value: db}))
	m := wire.New(wire.NextID(), 0, doc)
	c := b.conns[on]
	if c != nil && c.gone() {
		_ = c.Close()
		c = nil
	}
	if c == nil {
		var err error
		if c, err = dial(b.r.addr(on)); err != nil {
			delete(b.conns, on)
			return nil, fmt.Errorf("%s: %w", on, err)
		}
		b.conns[on] = c
	}
	answer, err := c.exchange(m)
	if err != nil {
		_ = c.Close()
		delete(b.conns, on)
		return nil, fmt.Errorf("%s: %w", on, err)
	}
	c.used = time.Now()
	b.r.tick(answer)
	return answer, nil
}

// exchange sends a message and returns the document of the answer.
func (c *conn) exchange(m wire.Message) (answer bson.Raw, err error) {
	if _, err := c.Write(m); err != nil {
		return nil, err
	}
	reply, err := wire.Read(c)
	if err != nil {
		return nil, err
	}
	answer, _, err = reply.Parse()
	return answer, err
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{c, time.Now()}, nil
}

// gone reports whether the other side has closed the connection. It looks for a millisecond, because a read
// whose deadline has passed does not look; and not right after a use, when no server has been restarted.
func (c *conn) gone() bool {
	if time.Since(c.used) < 10*time.Millisecond {
		return false
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	var one [1]byte
	_, err := c.Read(one[:])
	var timeout net.Error
	return !errors.As(err, &timeout) || !timeout.Timeout()
}

// ask is send with a refusal returned as the error.
func (b *backend) ask(ctx context.Context, on, db string, cmd bson.D) (bson.Raw, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer, err := b.send(on, db, cmd)
	if err != nil {
		return nil, err
	}
	return answer, refused(answer)
}

// refused returns the error in an answer.
func refused(answer bson.Raw) error {
	d := decode(answer)
	if truth(lookup(d, "ok")) {
		return nil
	}
	e := refusal{code: int32(number(lookup(d, "code")))}
	e.name, _ = lookup(d, "codeName").StringValueOK()
	e.text, _ = lookup(d, "errmsg").StringValueOK()
	for _, label := range list(d, "errorLabels") {
		text, _ := label.StringValueOK()
		e.labels = append(e.labels, text)
	}
	return e
}

// cluster makes a shard route a command with the routing code of the server. It uses the first shard that
// answers.
func (b *backend) cluster(ctx context.Context, db string, cmd bson.D) (bson.Raw, error) {
	name := cmd[0].Key
	client := lookup(cmd, "lsid")
	cmd = renamed(without(cmd, "$clusterTime", "lsid", "txnNumber", "apiVersion", "stmtId", "stmtIds"), "cluster"+strings.ToUpper(name[:1])+name[1:])
	opens := remote{}
	switch name {
	case "find", "aggregate":
		opens = remote{session: newSession(), client: client}
		cmd = append(cmd, bson.E{Key: "lsid", Value: opens.session})
	case "getMore":
		if c, ok := b.remote(number(raw(cmd[0].Value))); ok {
			opens = c
			cmd = append(cmd, bson.E{Key: "lsid", Value: c.session})
		}
	}
	var err error
	for _, s := range b.r.shards {
		var answer bson.Raw
		if _, known := b.conns[s.Name]; !known {
			c, dialErr := dial(s.Addr)
			if err = dialErr; err != nil {
				continue // nothing was sent
			}
			b.conns[s.Name] = c
		}
		if answer, err = b.send(s.Name, db, cmd); err == nil {
			b.keep(opens, number(lookup(cmd, "clusterGetMore")), answer)
			return answer, nil
		}
		if !isDial(err) {
			return nil, err
		}
	}
	return nil, err
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// A chunk is a range of keys on a shard, from min to the next one's.
type chunk struct {
	min   bson.RawValue
	shard string
}

// A table is what the config server says about a collection.
type table struct {
	db, name string
	primary  string // the shard that has the collections that are not sharded
	key      bson.D // nil: not sharded
	chunks   []chunk
	versions map[string]bson.D // by shard that owns some of it: what a command to it carries
	uuid     bson.RawValue
	moved    bool // a chunk has moved since the time that was asked for
}

func (t *table) sharded() bool { return t.key != nil }

// owners returns the shards that own a part of the collection.
func (t *table) owners() []string {
	var out []string
	for name := range t.versions {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// known reads documents of the config database.
func (b *backend) known(ctx context.Context, coll string, filter, sort bson.D) ([]bson.Raw, error) {
	find := bson.D{{Key: "find", Value: coll}, {Key: "filter", Value: filter}, {Key: "sort", Value: sort}, {Key: "batchSize", Value: int32(100_000)},
		{Key: "readConcern", Value: bson.D{{Key: "level", Value: "majority"}}}}
	answer, err := b.ask(ctx, configServer, "config", find)
	if err != nil {
		return nil, err
	}
	var out []bson.Raw
	for _, v := range values(answer.Lookup("cursor", "firstBatch")) {
		out = append(out, v.Document())
	}
	return out, nil
}

// database returns the primary shard of a database and its version; "" if the database does not exist.
func (b *backend) database(ctx context.Context, db string) (primary string, version bson.RawValue, err error) {
	docs, err := b.known(ctx, "databases", bson.D{{Key: "_id", Value: db}}, bson.D{{Key: "_id", Value: 1}})
	if err != nil || len(docs) == 0 {
		return "", bson.RawValue{}, err
	}
	primary, _ = docs[0].Lookup("primary").StringValueOK()
	return primary, docs[0].Lookup("version"), nil
}

// own reports whether every server has a database of this name for itself.
func own(db string) bool { return db == "admin" || db == "config" || db == "local" }

// create creates a database if it does not exist. The first shard is the primary of all databases.
func (b *backend) create(ctx context.Context, db string) error {
	if primary, _, err := b.database(ctx, db); err != nil || primary != "" || own(db) {
		return err
	}
	_, err := b.ask(ctx, configServer, "admin", bson.D{{Key: "_configsvrCreateDatabase", Value: db}, {Key: "primaryShardId", Value: b.r.shards[0].Name}, majority})
	return err
}

// table reads what the config server says about a collection. A database that does not exist has no primary.
// With a time it returns the shards that the chunks were on then, as a read of a snapshot needs; with the zero
// time, those they are on now.
func (b *backend) table(ctx context.Context, db, name string, at bson.Timestamp) (*table, error) {
	primary, version, err := b.database(ctx, db)
	if err != nil {
		return nil, err
	}
	t := &table{db: db, name: name, primary: primary, versions: map[string]bson.D{}}
	docs, err := b.known(ctx, "collections", bson.D{{Key: "_id", Value: db + "." + name}}, bson.D{{Key: "_id", Value: 1}})
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		none := bson.D{{Key: "t", Value: bson.Timestamp{}}, {Key: "e", Value: bson.ObjectID{}}, {Key: "v", Value: bson.Timestamp{}}}
		if primary != "" {
			t.versions[primary] = bson.D{{Key: "shardVersion", Value: none}, {Key: "databaseVersion", Value: version}}
		}
		return t, nil
	}
	t.key, t.uuid = decode(docs[0].Lookup("key").Document()), docs[0].Lookup("uuid")
	chunks, err := b.known(ctx, "chunks", bson.D{{Key: "uuid", Value: t.uuid}}, bson.D{{Key: "min", Value: 1}})
	if err != nil {
		return nil, err
	}
	newest := map[string]bson.Timestamp{}
	for _, c := range chunks {
		shard, _ := c.Lookup("shard").StringValueOK()
		if v := timestamp(c.Lookup("lastmod")); v.After(newest[shard]) {
			newest[shard] = v
		}
	}
	for _, c := range chunks {
		now, _ := c.Lookup("shard").StringValueOK()
		shard, err := shardAt(c, at)
		if err != nil {
			return nil, err
		}
		t.moved = t.moved || shard != now
		t.chunks = append(t.chunks, chunk{c.Lookup("min"), shard})
		if _, owns := newest[shard]; !owns {
			newest[shard] = bson.Timestamp{} // the version of a shard that owns nothing any more
		}
	}
	for shard, v := range newest {
		t.versions[shard] = bson.D{{Key: "shardVersion", Value: bson.D{{Key: "t", Value: docs[0].Lookup("timestamp")},
			{Key: "e", Value: docs[0].Lookup("lastmodEpoch")}, {Key: "v", Value: v}}}}
	}
	return t, nil
}

// shardAt returns the shard that a chunk was on at a time, by its history, as mongos reads it for snapshots.
func shardAt(chunk bson.Raw, at bson.Timestamp) (string, error) {
	history := values(chunk.Lookup("history"))
	if at.IsZero() || len(history) == 0 {
		shard, _ := chunk.Lookup("shard").StringValueOK()
		return shard, nil
	}
	for _, v := range history {
		entry := v.Document()
		if !timestamp(entry.Lookup("validAfter")).After(at) {
			shard, _ := entry.Lookup("shard").StringValueOK()
			return shard, nil
		}
	}
	return "", refusal{code: codeStaleChunkHistory, name: "StaleChunkHistory", text: "the history of a chunk does not reach back to the snapshot", labels: []string{labelTransient}}
}

func timestamp(v bson.RawValue) bson.Timestamp {
	t, i, _ := v.TimestampOK()
	return bson.Timestamp{T: t, I: i}
}

// scratch runs stages over given documents on the first shard that answers, outside any transaction. So the
// server's own code compares, hashes and merges.
func (b *backend) scratch(ctx context.Context, docs bson.A, stages ...bson.D) ([]bson.Raw, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	pipeline := bson.A{bson.D{{Key: "$documents", Value: bson.D{{Key: "$literal", Value: docs}}}}}
	for _, s := range stages {
		pipeline = append(pipeline, s)
	}
	cmd := bson.D{{Key: "aggregate", Value: int32(1)}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{{Key: "batchSize", Value: int32(1 << 30)}}}}
	var err error
	for _, s := range b.r.shards {
		var all []bson.Raw
		if all, err = b.drain(ctx, s.Name, "scratch", cmd, nil); err == nil || !isDial(err) {
			return all, err
		}
	}
	return nil, err
}

// drain returns all documents of the cursor that cmd opens; more has the fields for each getMore.
func (b *backend) drain(ctx context.Context, on, db string, cmd, more bson.D) ([]bson.Raw, error) {
	answer, err := b.ask(ctx, on, db, cmd)
	if err != nil {
		return nil, err
	}
	return b.rest(ctx, on, db, answer, more)
}

// rest returns all documents of an open cursor.
func (b *backend) rest(ctx context.Context, on, db string, answer bson.Raw, more bson.D) (out []bson.Raw, err error) {
	for batch := "firstBatch"; ; batch = "nextBatch" {
		for _, v := range values(answer.Lookup("cursor", batch)) {
			out = append(out, v.Document())
		}
		id := number(answer.Lookup("cursor", "id"))
		if id == 0 {
			return out, nil
		}
		ns, _ := answer.Lookup("cursor", "ns").StringValueOK()
		_, coll, _ := strings.Cut(ns, ".")
		next := append(bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: coll}}, more...)
		if answer, err = b.ask(ctx, on, db, next); err != nil {
			return nil, err
		}
	}
}

// places returns the shards that own keys, in the order of the keys.
func (b *backend) places(ctx context.Context, t *table, keys []bson.D) ([]string, error) {
	docs := bson.A{}
	for _, key := range keys {
		hashed := slices.Clone(key)
		for i, k := range t.key {
			if kind, _ := raw(k.Value).StringValueOK(); kind == "hashed" {
				answer, err := b.anywhere(ctx, "admin", bson.D{{Key: "_hashBSONElement", Value: key[i].Value}, {Key: "seed", Value: int32(0)}})
				if err != nil {
					return nil, err
				}
				hashed[i].Value = answer.Lookup("out")
			}
		}
		docs = append(docs, bson.D{{Key: "k", Value: hashed}})
	}
	mins := bson.A{}
	for _, c := range t.chunks {
		mins = append(mins, c.min)
	}
	below := bson.D{{Key: "$filter", Value: bson.D{{Key: "input", Value: bson.D{{Key: "$literal", Value: mins}}},
		{Key: "cond", Value: bson.D{{Key: "$gte", Value: bson.A{"$k", "$$this"}}}}}}}
	found, err := b.scratch(ctx, docs, bson.D{{Key: "$project", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$size", Value: below}}}}}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, doc := range found {
		n := number(doc.Lookup("n"))
		if n < 1 || int(n) > len(t.chunks) {
			return nil, fmt.Errorf("the router finds no chunk of %s.%s for a key", t.db, t.name)
		}
		out = append(out, t.chunks[n-1].shard)
	}
	return out, nil
}

// anywhere sends a command to the first shard that answers.
func (b *backend) anywhere(ctx context.Context, db string, cmd bson.D) (answer bson.Raw, err error) {
	for _, s := range b.r.shards {
		if answer, err = b.ask(ctx, s.Name, db, cmd); err == nil || !isDial(err) {
			return answer, err
		}
	}
	return nil, err
}

// keyOf returns the shard key of a document; a missing field is null.
func (t *table) keyOf(doc bson.Raw) bson.D {
	var out bson.D
	for _, k := range t.key {
		v, err := doc.LookupErr(strings.Split(k.Key, ".")...)
		if err != nil {
			v = bson.RawValue{Type: bson.TypeNull}
		}
		out = append(out, bson.E{Key: k.Key, Value: v})
	}
	return out
}

// equality returns the full shard key that a filter fixes, and nil if it does not fix it. It sees equalities
// at the top and inside $and, as mongos does.
func (t *table) equality(filter bson.D) bson.D {
	found := map[string]bson.RawValue{}
	var walk func(bson.D)
	walk = func(d bson.D) {
		for _, e := range d {
			v := raw(e.Value)
			if e.Key == "$and" {
				for _, part := range values(v) {
					if doc, ok := part.DocumentOK(); ok {
						walk(decode(doc))
					}
				}
				continue
			}
			doc, ok := v.DocumentOK()
			if ok && operators(doc) {
				for _, o := range decode(doc) {
					if o.Key == "$eq" {
						found[e.Key] = raw(o.Value)
					}
				}
			} else if v.Type != bson.TypeRegex {
				found[e.Key] = v
			}
		}
	}
	walk(filter)
	var out bson.D
	for _, k := range t.key {
		v, ok := found[k.Key]
		if !ok {
			return nil
		}
		out = append(out, bson.E{Key: k.Key, Value: v})
	}
	return out
}

// operators reports whether a document has operators.
func operators(doc bson.Raw) bool {
	first, err := doc.IndexErr(0)
	return err == nil && strings.HasPrefix(first.Key(), "$")
}

// oneID reports whether a filter fixes _id.
func oneID(filter bson.D) bool {
	return (&table{key: bson.D{{Key: "_id", Value: 1}}}).equality(filter) != nil
}

// targets returns the shards that a filter goes to. If the filter does not fix the key, the server says which.
func (b *backend) targets(ctx context.Context, t *table, filter bson.D, collation bson.RawValue) ([]string, error) {
	if !t.sharded() {
		return t.owners(), nil
	}
	if key := t.equality(filter); key != nil && collation.Type == 0 {
		return b.places(ctx, t, []bson.D{key})
	}
	if t.moved { // the server explains where documents are now
		var then []string
		for _, c := range t.chunks {
			then = append(then, c.shard)
		}
		slices.Sort(then)
		return slices.Compact(then), nil
	}
	explain := bson.D{{Key: "aggregate", Value: t.name}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: filter}}}}, {Key: "explain", Value: true}, {Key: "cursor", Value: bson.D{}}}
	if collation.Type != 0 {
		explain = append(explain, bson.E{Key: "collation", Value: collation})
	}
	answer, err := b.cluster(ctx, t.db, explain)
	if err != nil {
		return nil, err
	}
	if err := refused(answer); err != nil {
		return nil, err
	}
	var out []string
	if shards, ok := answer.Lookup("shards").DocumentOK(); ok {
		for _, e := range decode(shards) {
			out = append(out, e.Key)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return t.owners(), nil
	}
	if slices.ContainsFunc(out, func(s string) bool { return t.versions[s] == nil }) { // it would not filter orphans
		return nil, refusal{code: codeStaleConfig, name: "StaleConfig", text: "a chunk moved to a shard that owned none"}
	}
	return out, nil
}
