// Package proxy passes commands between a client and a MongoDB server, and fails those that a
// test names: it is for tests. Unlike a fail point it breaks one client alone, can lose an
// answer after the command was applied, and needs no server that takes test commands.
package proxy

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/wire"
)

// Proxy passes on what its clients send, except the commands that a Rule breaks.
type Proxy struct {
	target   string
	listener net.Listener
	options  *options.ClientOptions
	links    sync.WaitGroup

	mu       sync.Mutex
	settled  sync.Cond // open has become 0
	open     int       // commands that the server works on
	rule     Rule
	seen     map[[2]string]int
	topology bson.RawValue // as the server said it last
	sessions map[string]bson.Raw
	conns    map[net.Conn]bool
	silent   []net.Conn // of clients that wait in vain
	closed   bool
	logins   map[string]int // by command, how many are still to be hung up on
}

// A Command is one command on its way to the server.
type Command struct {
	Database, Name string
	// Collection is the collection it names; empty if it names none.
	Collection string
	// N counts the commands of this name and collection since Break, from 0.
	N int
	// Body is the command without the documents that are sent behind it.
	Body bson.Raw
}

// InTransaction says whether the command belongs to a transaction.
func (c Command) InTransaction() bool { return c.Body.Lookup("autocommit").Type != 0 }

// A Rule says what happens to a command; nil passes it on. Rules are called one at a time, and must not call
// methods of the Proxy. They do not see hello and endSessions, which belong to the connection.
type Rule func(Command) *Fault

// A Fault is what happens to a command that is not simply passed on.
type Fault struct {
	// Lost keeps the command from the server.
	Lost bool
	// Abort has the server end the transaction that the command belongs to, as it does when
	// it refuses a command. The command is lost.
	Abort bool
	// Rewrite returns the command that the server gets instead, from the client's with the documents that were sent behind
	// it as fields. Default nil: the client's.
	Rewrite func(command bson.D) bson.D
	// Answer returns the answer for the client from the server's, which is nil if the command is lost. Default
	// nil: the server's answer.
	Answer func(real bson.Raw) bson.Raw
	// Silent: the client gets no answer and keeps its connection. Closed: the client's connection is closed
	// instead of an answer.
	Silent, Closed bool
	// Before is called when the command arrives. After is called when the server has answered, or at once if
	// the command is lost, and before the client gets the answer. Default nil.
	Before, After func()

	refusal, concern int  // the code of an error that is the answer, or part of it
	bare             bool // the error lacks the labels that a server gives it
}

// New returns a proxy for the server of this URI: for its primary, if it has several members. The proxy is
// closed when t ends.
func New(t testing.TB, uri string) *Proxy {
	t.Helper()
	opts := options.Client().ApplyURI(uri)
	if err := opts.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(opts.Hosts) != 1 || opts.TLSConfig != nil {
		t.Skipf("%v: a proxy is for one server without TLS", opts.Hosts)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: opts.Hosts[0], listener: listener, seen: map[[2]string]int{}, sessions: map[string]bson.Raw{}, conns: map[net.Conn]bool{}, logins: map[string]int{}}
	p.settled.L = &p.mu
	p.options = options.Client().SetHosts([]string{listener.Addr().String()}).SetDirect(true)
	p.options.Auth = opts.Auth
	p.links.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Options makes a client connect to the proxy. For mongotest.Database, which applies them last:
//
//	db := mongotest.Database(t, p.Options())
func (p *Proxy) Options() *options.ClientOptions { return p.options }

// Break sets the rule, nil for none, and counts the commands anew.
func (p *Proxy) Break(rule Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
	clear(p.seen)
}

// HangUp closes the connection of each of the next n logins when it sends this command: hello, which begins every
// login, or saslContinue, which ends it with the proof of the password. A monitor does not log in.
func (p *Proxy) HangUp(command string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logins = map[string]int{command: n}
}

// hangsUp reports whether a login ends at this command.
func (p *Proxy) hangsUp(m wire.Message, c Command) bool {
	name := c.Name
	if bytes.Contains(m, []byte("speculativeAuthenticate")) {
		name = "hello" // also in its old form
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logins[name]--
	return p.logins[name] >= 0
}

// Settle waits until the server has answered every command that has arrived, including those whose answers are
// lost.
func (p *Proxy) Settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.open > 0 && !p.closed {
		p.settled.Wait()
	}
}

// Sessions returns the sessions of all commands so far, as killSessions takes them.
func (p *Proxy) Sessions() bson.A {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := bson.A{}
	for _, id := range p.sessions {
		out = append(out, id)
	}
	return out
}

// Cut closes the connections that wait for an answer in vain.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.silent {
		_ = c.Close()
	}
	p.silent = nil
}

// Close closes all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.settled.Broadcast()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.links.Wait()
}

// keep registers a connection for Close to close. It reports whether the proxy is still open.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // too many files, or the client has gone
		}
		if server, err := net.Dial("tcp", p.target); err != nil || !p.keep(client) || !p.keep(server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
		} else {
			l := &link{p: p, client: client, server: server, open: map[int32]*pending{}}
			p.links.Go(l.requests)
			p.links.Go(l.answers)
		}
	}
}

// A link is a client's connection together with the server's connection that belongs to it.
type link struct {
	p              *Proxy
	client, server net.Conn

	mu   sync.Mutex         // locked before Proxy.mu
	open map[int32]*pending // by the request's ID
	gone bool               // the client
}

// pending is a request without an answer.
type pending struct {
	request int32 // of the client
	counted bool  // in Proxy.open; Proxy.mu guards it
	fault   Fault
}

// requests passes on what the client sends. After the client has closed its connection, the server's stays
// open until it has answered, because the server would stop reads otherwise.
func (l *link) requests() {
	defer func() {
		l.p.drop(l.client)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gone = true
		if !l.busy() {
			l.p.drop(l.server)
		}
	}()
	for {
		m, err := wire.Read(l.client)
		if err != nil {
			return
		}
		c, ok, err := command(m)
		if err != nil {
			panic(err) // nothing that a driver sends by default: a test could not trust the proxy
		}
		if (!ok || own[c.Name]) && l.p.hangsUp(m, c) {
			return
		}
		wait := &pending{request: m.ID()}
		if ok && !own[c.Name] {
			wait.fault, wait.counted = l.p.judge(c), true
		}
		if wait.fault.Before != nil {
			wait.fault.Before()
		}
		switch {
		case wait.fault.Abort && c.InTransaction() && c.Body.Lookup("startTransaction").Type == 0:
			m = abort(m.ID(), c)
		case wait.fault.Lost || wait.fault.Abort:
			stays := l.answer(wait, nil)
			l.p.done(wait)
			if !stays {
				return
			}
			continue
		case wait.fault.Rewrite != nil:
			m = rewritten(m, wait.fault.Rewrite)
		}
		l.mu.Lock()
		if m.MoreToCome() { // not acknowledged
			l.p.done(wait)
		} else {
			l.open[wait.request] = wait
		}
		l.mu.Unlock()
		if _, err := l.server.Write(m); err != nil {
			l.forget()
			return
		}
	}
}

// busy reports whether the server works on a command. The monitor's hello, which the server
// answers again and again, does not count.
func (l *link) busy() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, wait := range l.open {
		if wait.counted {
			return true
		}
	}
	return false
}

// forget gives up waiting for the server, which has closed the connection.
func (l *link) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wait := range l.open {
		l.p.done(wait)
	}
	clear(l.open)
}

// end returns the request that an answer is for, and removes it from the open ones.
func (l *link) end(m wire.Message) *pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := l.open[m.ResponseTo()]
	if !m.MoreToCome() {
		delete(l.open, m.ResponseTo())
	}
	return wait
}

// answers passes on what the server answers.
func (l *link) answers() {
	defer l.p.drop(l.client)
	defer l.p.drop(l.server)
	defer l.forget()
	for {
		m, err := wire.Read(l.server)
		if err != nil {
			return
		}
		l.p.learn(m)
		wait := l.end(m)
		if wait == nil { // the first of several answers had the request's ID, the next have those of their predecessors
			wait = &pending{}
		}
		if !l.answer(wait, m) {
			_ = l.client.Close()
		}
		l.p.done(wait)
		l.mu.Lock()
		over := l.gone && !l.busy()
		l.mu.Unlock()
		if over {
			return
		}
	}
}

// answer sends the client the server's answer m, or what the fault says. It reports whether the client's
// connection stays open.
func (l *link) answer(wait *pending, m wire.Message) bool {
	fault := wait.fault
	if fault.After != nil {
		fault.After()
	}
	if fault.Closed || fault.Silent {
		if fault.Silent {
			l.p.mute(l.client)
		}
		return !fault.Closed
	}
	if fault.Answer != nil {
		var real bson.Raw
		if !fault.Lost && !fault.Abort {
			real = m.Document()
		}
		m = wire.New(wire.NextID(), wait.request, l.p.marked(fault.Answer(real)))
	}
	if m != nil {
		_, _ = l.client.Write(m) // if the client has gone, what it has sent is answered all the same
	}
	return true
}

// mute remembers a connection that gets no answer.
func (p *Proxy) mute(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = append(p.silent, c)
}

// done counts a command as answered.
func (p *Proxy) done(wait *pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !wait.counted {
		return
	}
	wait.counted = false
	if p.open--; p.open == 0 {
		p.settled.Broadcast()
	}
}

// judge counts a command, also as one under way, and asks the rule about it.
func (p *Proxy) judge(c Command) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	if id, ok := c.Body.Lookup("lsid").DocumentOK(); ok {
		p.sessions[string(id)] = id
	}
	key := [2]string{c.Name, c.Collection}
	c.N = p.seen[key]
	p.seen[key]++
	if p.rule == nil {
		return Fault{}
	}
	if fault := p.rule(c); fault != nil {
		return fault.of(c)
	}
	return Fault{}
}

// learn remembers the version of the topology, which a server puts into each answer to hello.
func (p *Proxy) learn(m wire.Message) {
	if v := m.Document().Lookup("topologyVersion"); v.Type != 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.topology = v
	}
}

// marked adds the version of the topology to an error that says that the server is not the primary. The driver
// then takes the error for an old one and does not wait for the server's next hello, which would come only
// after 10 s, because nothing has really changed.
func (p *Proxy) marked(answer bson.Raw) bson.Raw {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topology.Type == 0 {
		return answer
	}
	return with(answer, bson.E{Key: "topologyVersion", Value: p.topology})
}

// own are the commands of the connection and of the driver's monitor.
var own = map[string]bool{"hello": true, "isMaster": true, "ismaster": true, "endSessions": true, "saslStart": true, "saslContinue": true}
