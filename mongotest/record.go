package mongotest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/sent"
)

// Command is one command a client sent.
type Command struct {
	// Name is the command's name: find, aggregate, update, getMore, …
	Name string
	// Collection is the collection that it names, or empty if it names none.
	Collection string
	// Body is the command as sent, with all documents of an insert, update or
	// delete, and with session and transaction fields.
	Body bson.Raw
	// Reply is the server's answer, or nil if there was none.
	Reply bson.Raw
	// Err is why the command failed, or nil if it succeeded. An answer that holds write errors
	// counts as a success of the command.
	Err error
}

// Commands are commands in the order they were sent.
type Commands []Command

// Names returns the names in order.
func (c Commands) Names() []string {
	names := make([]string, len(c))
	for i, command := range c {
		names[i] = command.Name
	}
	return names
}

// Named returns the commands with one of these names.
func (c Commands) Named(names ...string) Commands {
	var out Commands
	for _, command := range c {
		if slices.Contains(names, command.Name) {
			out = append(out, command)
		}
	}
	return out
}

// RoundTrips counts the commands, including getMore and commitTransaction. It does not count
// endSessions, which a client sends in its own time.
func (c Commands) RoundTrips() int {
	return len(c) - len(c.Named("endSessions"))
}

// DocumentsWritten counts the documents that the replies say were inserted,
// modified, upserted or deleted, in aborted transactions as well.
func (c Commands) DocumentsWritten() int {
	total := 0
	for _, command := range c {
		if command.Reply == nil {
			continue
		}
		switch command.Name {
		case "insert", "delete":
			total += command.count("n")
		case "update":
			total += command.count("nModified")
			if upserted, ok := command.Reply.Lookup("upserted").ArrayOK(); ok {
				values, _ := upserted.Values()
				total += len(values)
			}
		case "findAndModify":
			total += command.count("lastErrorObject", "n")
		case "bulkWrite":
			total += command.count("nInserted") + command.count("nModified") +
				command.count("nUpserted") + command.count("nDeleted")
		}
	}
	return total
}

func (c Command) count(path ...string) int {
	n, _ := c.Reply.Lookup(path...).AsInt64OK()
	return int(n)
}

// Record returns the commands that the client of db, which comes from [Database] or
// [ExampleDatabase], sends while fn runs, from any goroutine. If it sends none, Record logs the
// likely reasons.
func Record(t testing.TB, db *mongo.Database, fn func()) Commands {
	t.Helper()
	of, ok := clients.Load(db.Client())
	if !ok {
		t.Fatal("mongotest: Record needs a database from mongotest.Database; with your own client use a Recorder")
	}
	cmds := of.(known).recorder.Record(fn)
	if len(cmds) == 0 {
		t.Log("mongotest: Record: " + nothing)
	}
	return cmds
}

// nothing explains why a recording may be empty.
const nothing = "no command was seen; the code may use another client than that of the database: give it db.Client(), or record its client with a Recorder"

// RequireRoundTrips fails t unless there were n round trips, and lists the commands.
func (c Commands) RequireRoundTrips(t testing.TB, n int) {
	t.Helper()
	switch got := c.RoundTrips(); {
	case got == n:
	case len(c) == 0:
		t.Fatalf("mongotest: 0 round trips, want %d: %s", n, nothing)
	default:
		t.Fatalf("mongotest: %d round trips, want %d: %s", got, n, strings.Join(c.Names(), ", "))
	}
}

// Recorder records the commands of clients whose options have its monitor:
//
//	recorder := mongotest.NewRecorder()
//	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetMonitor(recorder.Monitor()))
//	...
//	cmds := recorder.Record(func() { ... })
//
// It is safe for concurrent use. Recordings may overlap, and each gets every command of its time.
type Recorder struct {
	mu      sync.Mutex
	watches bool // a client may have its monitor
	active  []*recording
	watcher func(*event.CommandStartedEvent) // is called before a command is sent; nil for none
}

type recording struct {
	commands Commands
	open     map[int64]int // request ID -> index of a command without a reply
}

// NewRecorder returns a recorder that records nothing yet.
func NewRecorder() *Recorder { return &Recorder{} }

// Record returns the commands sent while fn runs. It panics if Monitor was never called, because
// then nothing could be recorded.
func (r *Recorder) Record(fn func()) Commands {
	current := &recording{open: map[int64]int{}}
	r.mu.Lock()
	if !r.watches {
		r.mu.Unlock()
		panic("mongotest: Recorder.Record without a Monitor: connect your client with options.Client().SetMonitor(recorder.Monitor())")
	}
	r.active = append(r.active, current)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.active = slices.DeleteFunc(r.active, func(other *recording) bool { return other == current })
	}()
	fn()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(current.commands)
}

// Monitor returns what to give to the client's SetMonitor.
func (r *Recorder) Monitor() *event.CommandMonitor {
	r.mu.Lock()
	r.watches = true
	r.mu.Unlock()
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if sent.Watch != nil {
				sent.Watch(e)
			}
			r.mu.Lock()
			watcher := r.watcher
			r.mu.Unlock()
			if watcher != nil {
				watcher(e)
			}
			r.each(func(current *recording) {
				command := Command{Name: e.CommandName, Body: slices.Clone(e.Command)}
				field := e.CommandName
				if field == "getMore" {
					field = "collection"
				}
				command.Collection, _ = command.Body.Lookup(field).StringValueOK()
				current.open[e.RequestID] = len(current.commands)
				current.commands = append(current.commands, command)
			})
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			r.finish(e.RequestID, func(command *Command) { command.Reply = slices.Clone(e.Reply) })
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			r.finish(e.RequestID, func(command *Command) { command.Err = e.Failure })
		},
	}
}

// watch replaces the watcher.
func (r *Recorder) watch(by func(*event.CommandStartedEvent)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watcher = by
}

func (r *Recorder) each(fn func(*recording)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, current := range r.active {
		fn(current)
	}
}

func (r *Recorder) finish(request int64, fn func(*Command)) {
	r.each(func(current *recording) {
		if i, ok := current.open[request]; ok {
			fn(&current.commands[i])
			delete(current.open, request)
		}
	})
}
