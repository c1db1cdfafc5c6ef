// Package router answers a driver as a mongos does, over mongods that are the config server
// and the shards of a real sharded cluster. It is test equipment: no package index has a
// mongos, and every mongod carries its code as internal commands.
//
// These parts are the server's own code: the shards, their versions, ownership and orphan filters,
// migrations, zones and the balancer, prepare and commit over several shards; and, outside transactions, which shards a find,
// aggregate, insert, update, delete or getMore goes to, how their results merge, and what is refused
// (clusterFind and its like, which a shard runs for us). In a transaction the server's explain says which
// shards a filter goes to, and a pipeline on its side merges what they return.
//
// These parts are this package's, by the documented rules of MongoDB 6.0: a findAndModify needs equality on
// the shard key; a transaction commits over the shards that it wrote to, by two phases if they are several;
// it takes no $lookup or $graphLookup on a sharded collection and makes no collection on several shards;
// count, distinct, createIndexes and drop go to the shards that own the collection; a write without a write
// concern has the cluster's default, majority; an _id alone selects one document for update or delete, and
// is sent to all shards; a read of a snapshot gets the newest time that is known, and goes to the shards that
// the chunks were on at that time; an upsert in a transaction that meets a moved chunk ends it, to be
// repeated. A change stream is refused, because mongod 6.0 ends when it gets one this way.
package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/wire"
)

// A Shard is a shard of the cluster, a replica set of one member.
type Shard struct{ Name, Addr string }

// Router listens for drivers.
type Router struct {
	config   string // the config server's address
	shards   []Shard
	listener net.Listener

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]bool
	clock   bson.Timestamp          // the newest cluster time that any server told
	txns    map[string]*transaction // by session, the last of each
	cursors map[int64]*cursor
	remotes map[int64]remote
	last    int64 // the last cursor made here
	commits map[string]int64
}

// Start makes a cluster of a config server and shards that are already running, each an initiated replica set,
// and listens on a free port of 127.0.0.1.
//
// Cost: 1 round trip to the config server for each shard.
func Start(ctx context.Context, config string, shards []Shard) (*Router, error) {
	r := &Router{config: config, shards: shards, conns: map[net.Conn]bool{}, txns: map[string]*transaction{},
		cursors: map[int64]*cursor{}, remotes: map[int64]remote{}, commits: map[string]int64{}}
	b := r.backend()
	defer b.close()
	for _, s := range shards {
		add := bson.D{{Key: "_configsvrAddShard", Value: s.Name + "/" + s.Addr}, {Key: "name", Value: s.Name}, majority}
		if _, err := b.ask(ctx, configServer, "admin", add); err != nil {
			return nil, fmt.Errorf("add shard %s: %w", s.Name, err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.listener = listener
	go r.accept()
	return r, nil
}

// Addr returns the address on which the router listens.
func (r *Router) Addr() string { return r.listener.Addr().String() }

// Close ends all connections. It does not end the servers.
func (r *Router) Close() error {
	err := r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
	return err
}

func (r *Router) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.closed {
			_ = c.Close()
		}
		r.conns[c] = true
		r.mu.Unlock()
		go r.serve(c)
	}
}

// serve answers one client. Its backend has connections of its own, so that no command waits for those of
// another client.
func (r *Router) serve(c net.Conn) {
	b := r.backend()
	defer func() {
		b.close()
		_ = c.Close()
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
	}()
	for {
		m, err := wire.Read(c)
		if err != nil {
			return
		}
		reply, moreToCome := b.answer(m)
		if moreToCome {
			continue // the client wants no answer
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// hello is the answer of a mongos to hello. The driver then pins transactions to this address.
func hello() bson.D {
	return bson.D{
		{Key: "ismaster", Value: true}, {Key: "isWritablePrimary", Value: true}, {Key: "msg", Value: "isdbgrid"}, {Key: "helloOk", Value: true},
		{Key: "maxBsonObjectSize", Value: int32(16 << 20)}, {Key: "maxMessageSizeBytes", Value: int32(48_000_000)}, {Key: "maxWriteBatchSize", Value: int32(100_000)},
		{Key: "localTime", Value: bson.NewDateTimeFromTime(time.Now())}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
		{Key: "connectionId", Value: int32(1)}, {Key: "minWireVersion", Value: int32(0)}, {Key: "maxWireVersion", Value: int32(17)}, {Key: "readOnly", Value: false},
		{Key: "ok", Value: 1.0},
	}
}

// A refusal is an answer that says why a command failed.
type refusal struct {
	code   int32
	name   string
	text   string
	labels []string
}

func (e refusal) Error() string { return fmt.Sprintf("%s (%d): %s", e.name, e.code, e.text) }

func (e refusal) document() bson.D {
	d := bson.D{{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: e.text}, {Key: "code", Value: e.code}, {Key: "codeName", Value: e.name}}
	if len(e.labels) > 0 {
		d = append(d, bson.E{Key: "errorLabels", Value: e.labels})
	}
	return d
}

// Codes of the server, and one of this package for what a mongos can do and this router cannot.
const (
	codeHostUnreachable     = 6
	codeIllegalOperation    = 20
	codeCommandNotFound     = 59
	codeShardKeyNotFound    = 61
	codeInvalidOptions      = 72
	codeStaleChunkHistory   = 250
	codeNoSuchTransaction   = 251
	codeInTransaction       = 263
	codeStaleDbVersion      = 249
	codeStaleConfig         = 13388
	codeStaleShardVersion   = 63
	codeShardInvalidated    = 311
	codeWouldChangeShard    = 283
	codeNotHere             = 99_001
	labelTransient          = "TransientTransactionError"
	labelUnknownCommit      = "UnknownTransactionCommitResult"
	labelRetryableWrite     = "RetryableWriteError"
	errNameOperationInTxn   = "OperationNotSupportedInTransaction"
	errNameShardKeyNotFound = "ShardKeyNotFound"
)

func notHere(format string, args ...any) refusal {
	return refusal{code: codeNotHere, name: "TestRouter", text: "the test router cannot do this, a mongos can: " + fmt.Sprintf(format, args...)}
}

// majority is the write concern that the cluster's own commands need.
var majority = bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}, {Key: "wtimeout", Value: int32(60_000)}}}

// answer runs the command of a message and makes the message that answers it.
func (b *backend) answer(m wire.Message) (reply wire.Message, moreToCome bool) {
	db, cmd, err := parse(m)
	if err != nil {
		return m.Reply(encode(refusal{code: 9, name: "FailedToParse", text: err.Error()}.document())), false
	}
	b.r.tick(m.Document())
	out, err := b.run(context.Background(), db, cmd)
	if err != nil {
		var refused refusal
		if !errors.As(err, &refused) {
			refused = unreachable(err, cmd)
		}
		out = encode(refused.document())
	}
	return m.Reply(b.r.timed(out)), m.MoreToCome()
}

// unreachable returns the answer for a shard that did not answer, with the label that a mongos sends.
func unreachable(err error, cmd bson.D) refusal {
	e := refusal{code: codeHostUnreachable, name: "HostUnreachable", text: err.Error()}
	switch {
	case lookup(cmd, "autocommit").Type != 0 && strings.EqualFold(cmd[0].Key, "commitTransaction"):
		e.labels = []string{labelRetryableWrite, labelUnknownCommit}
	case lookup(cmd, "autocommit").Type != 0:
		e.labels = []string{labelTransient}
	case lookup(cmd, "txnNumber").Type != 0:
		e.labels = []string{labelRetryableWrite}
	}
	return e
}

// tick remembers the cluster time of an answer or a command, if it is the newest.
func (r *Router) tick(doc bson.Raw) {
	v, err := doc.LookupErr("$clusterTime", "clusterTime")
	if err != nil {
		return
	}
	t, i, ok := v.TimestampOK()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := (bson.Timestamp{T: t, I: i}); ok && now.After(r.clock) {
		r.clock = now
	}
}

// now returns the newest cluster time.
func (r *Router) now() bson.Timestamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

// timed adds the cluster time to an answer that the router made.
func (r *Router) timed(doc bson.Raw) bson.Raw {
	now := r.now()
	if _, err := doc.LookupErr("$clusterTime"); err == nil || now.IsZero() {
		return doc
	}
	return encode(append(decode(doc), clusterTime(now), bson.E{Key: "operationTime", Value: now}))
}

// clusterTime returns a cluster time signed as servers without keys sign it.
func clusterTime(t bson.Timestamp) bson.E {
	return bson.E{Key: "$clusterTime", Value: bson.D{{Key: "clusterTime", Value: t},
		{Key: "signature", Value: bson.D{{Key: "hash", Value: bson.Binary{Data: make([]byte, 20)}}, {Key: "keyId", Value: int64(0)}}}}}
}
