package mongotest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Member is one mongod of a replica set that [Start] started as a process. Its
// methods end and start that process for real. They need a Unix system.
type Member struct {
	// URI connects to this member alone, whether it is the primary or not, with all rights.
	URI string

	host    string
	process *process
	shard   bool   // started with applyNothing
	gone    func() // called when the process has ended; nil: nobody asks
}

// ReplicaSet starts a replica set of this many members for t alone, and closes it when t ends. It
// skips t under -short and fails it when there is no mongod to start. A set of 1 may be the server
// of MONGODB_URI or a container, which have no Members.
//
//	set := mongotest.ReplicaSet(t, 3)
//	orders := set.Database(t).Collection("orders")
//	primary, err := set.Primary(ctx)
//	...
//	err = primary.Kill()         // another member is elected
//	...                          // what does your code do meanwhile?
//	err = primary.Restart(ctx)   // it catches up
//
// Cost: starts the members, which takes some seconds.
func ReplicaSet(t testing.TB, members int) *Server {
	t.Helper()
	return alone(t, Options{Members: members})
}

// alone starts a server for t, which closes it.
func alone(t testing.TB, opts Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	s, err := Start(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Members returns the members of the set if Start started them as processes. It returns none for
// MONGODB_URI or a container.
//
// Cost: none.
func (s *Server) Members() []*Member { return slices.Clone(s.members) }

// Primary waits until there is a primary, and returns it.
//
// Cost: 1 round trip; with none elected, until ctx ends.
func (s *Server) Primary(ctx context.Context) (*Member, error) {
	if len(s.members) == 0 {
		return nil, errors.New("mongotest: another program started the members of this server")
	}
	got, err := s.primary(ctx, func(hello) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("mongotest: find the primary: %w", err)
	}
	for _, m := range s.members {
		if m.host == got.Me {
			return m, nil
		}
	}
	return nil, fmt.Errorf("mongotest: the primary %s is not a member", got.Me)
}

// StepDown makes the primary step down, and waits until the next one is elected: another member, to which the primary
// hands over, or, if no other can be elected, the same one after some seconds. It also works on a server that was not started
// here, if the user has the privilege.
//
// Cost: some round trips; half a second to 2 s.
func (s *Server) StepDown(ctx context.Context) error {
	old, err := s.primary(ctx, func(hello) bool { return true })
	if err != nil {
		return fmt.Errorf("mongotest: step down: %w", err)
	}
	// The others get 4 s to catch up, and the first that has caught up is elected at once. By force the primary goes without
	// one, and the election has to be waited for. After 5 s the old one can be elected again.
	away, catchUp, force := 5, 4, false
	if len(old.Hosts) == 1 {
		away, catchUp, force = 1, 0, true
	}
	var refused mongo.CommandError
	for range 3 { // an operation of a busy server can hold a lock for long
		err = command(ctx, s.AdminURI, nil, bson.D{{Key: "replSetStepDown", Value: away},
			{Key: "secondaryCatchUpPeriodSecs", Value: catchUp}, {Key: "force", Value: force}})
		if !errors.As(err, &refused) || refused.Code != lockTimeout && refused.Code != nobodyCaughtUp {
			break
		}
		force = force || refused.Code == nobodyCaughtUp
	}
	faster := []int32{conflictingOperation, primarySteppedDown, notWritablePrimary} // it does so by itself
	if err != nil && (!errors.As(err, &refused) || !slices.Contains(faster, refused.Code)) {
		return fmt.Errorf("mongotest: step down: %w", err)
	}
	if _, err := s.primary(ctx, func(h hello) bool { return h.ElectionID != old.ElectionID }); err != nil {
		return fmt.Errorf("mongotest: wait for the next primary: %w", err)
	}
	return nil
}

// Kill ends the member at once, as a crash does. Its data stays for Restart.
//
// Cost: none.
func (m *Member) Kill() error {
	if _, dead := m.process.exited(); dead {
		return nil
	}
	if err := m.process.signal("KILL"); err != nil {
		return fmt.Errorf("mongotest: kill %s: %w", m.host, err)
	}
	bound := time.Now().Add(stopBound)
	for time.Now().Before(bound) {
		if _, dead := m.process.exited(); dead {
			if m.gone != nil {
				m.gone()
			}
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("mongotest: %s is still there %v after it was killed", m.host, stopBound)
}

// Pause stops the member (SIGSTOP). Its connections stay and nothing is answered, as if the network
// to it were gone. A paused primary is replaced after about 2 s. The driver gives up a command that
// waits for its answer after 20 s with the timeouts in [Server.URI], and after 70 s with its
// defaults, unless the context or the client's Timeout ends it.
//
// Cost: none; on Linux it waits until the process has stopped.
func (m *Member) Pause() error {
	if err := m.process.signal("STOP"); err != nil {
		return fmt.Errorf("mongotest: pause %s: %w", m.host, err)
	}
	for bound := time.Now().Add(stopBound); !m.process.stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(bound) {
			return fmt.Errorf("mongotest: %s still runs %v after it was paused", m.host, stopBound)
		}
	}
	return nil
}

// Resume lets a paused member continue.
//
// Cost: none.
func (m *Member) Resume() error {
	if err := m.process.signal("CONT"); err != nil {
		return fmt.Errorf("mongotest: resume %s: %w", m.host, err)
	}
	return nil
}

// Restart starts the member again on its data and port, after killing it if it
// runs, and waits until it is a primary, or a secondary that copies from another
// member, if it finds one to copy from within 3 s.
//
// Cost: some round trips; 1 to 4 s.
func (m *Member) Restart(ctx context.Context) error {
	if err := m.Kill(); err != nil {
		return err
	}
	if err := m.again(ctx); err != nil {
		return fmt.Errorf("mongotest: restart %s: %w", m.host, err)
	}
	return nil
}

// again starts the member, which is killed, and waits until it works.
func (m *Member) again(ctx context.Context) error {
	before := m.process.pid()
	if err := m.process.again(); err != nil {
		return err
	}
	for bound := time.Now().Add(stopBound); !m.process.runsAfter(before); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(bound) {
			return errors.New("the watchdog does not answer")
		}
	}
	return m.ready(ctx)
}

// ready waits until the member is a primary or a working secondary: one that has a member to copy from, but
// no answer of it yet, holds up majority writes for 30 s when that member is paused.
func (m *Member) ready(ctx context.Context) error {
	applies := false // what the member has in its log of operations
	var alone time.Time
	var before int64 // the answers that it had when it was first seen as a secondary
	return m.process.poll(ctx, startBound, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		conn, err := net.DialTimeout("tcp", m.host, time.Second)
		if err != nil { // a driver that finds the port closed looks again after half a second only
			return false
		}
		_ = conn.Close()
		if m.shard && !applies {
			if m.apply(ctx) != nil {
				return false
			}
			applies = true
		}
		var h hello
		if err := command(ctx, m.URI, &h, bson.D{{Key: "hello", Value: 1}}); err != nil || !h.Secondary {
			return err == nil && h.Primary
		}
		source, answers, err := m.copies(ctx)
		if err != nil {
			return false
		}
		if alone.IsZero() {
			alone, before = time.Now(), answers
		}
		return source != "" && answers > before || source == "" && time.Since(alone) > 3*time.Second
	})
}

// copies returns the member that this one copies from, and how many answers it has got to that end: one arrives
// at least each 0.75 s, half the time of an election.
func (m *Member) copies(ctx context.Context) (source string, answers int64, err error) {
	var status struct {
		Source string `bson:"syncSourceHost"`
	}
	if err := command(ctx, m.URI, &status, bson.D{{Key: "replSetGetStatus", Value: 1}}); err != nil {
		return "", 0, err
	}
	var server struct {
		Metrics struct {
			Repl struct {
				Network struct{ GetMores struct{ Num int64 } }
			}
		}
	}
	err = command(ctx, m.URI, &server, bson.D{{Key: "serverStatus", Value: 1}})
	return status.Source, server.Metrics.Repl.Network.GetMores.Num, err
}

// hello is what a server says of itself.
type hello struct {
	Primary    bool          `bson:"isWritablePrimary"`
	Secondary  bool          `bson:"secondary"`
	Me         string        `bson:"me"`
	Hosts      []string      `bson:"hosts"`
	ElectionID bson.ObjectID `bson:"electionId"`
}

// primary waits for a primary that fits, and returns what it says of itself.
func (s *Server) primary(ctx context.Context, fits func(hello) bool) (h hello, err error) {
	for {
		h = hello{}
		err = command(ctx, s.AdminURI, &h, bson.D{{Key: "hello", Value: 1}})
		if err == nil && h.Primary && fits(h) {
			return h, nil
		}
		select {
		case <-ctx.Done():
			return hello{}, errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// command runs an admin command on a connection of its own, so that it meets the
// set as it is now.
func command(ctx context.Context, uri string, answer any, body bson.D) error {
	client, err := mongo.Connect(shortLived(uri))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	result := client.Database("admin").RunCommand(ctx, body)
	if answer == nil {
		return result.Err()
	}
	return result.Decode(answer)
}

// runsAfter reports whether another child than the one of this pid was started.
func (p *process) runsAfter(pid int) bool {
	now := p.pid()
	return now > 0 && now != pid
}

// pid is the child's process id, 0 when it is not known yet.
func (p *process) pid() int {
	text, _ := os.ReadFile(filepath.Join(p.dir, "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// stopped reports whether all threads of the child have stopped: a signal stops them one by one, after kill
// has returned. Without /proc it cannot know, and reports true.
func (p *process) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid()))
	return !slices.ContainsFunc(threads, func(path string) bool {
		text, err := os.ReadFile(path)
		_, state, _ := strings.Cut(string(text), ") ")
		return err == nil && !strings.HasPrefix(state, "T")
	})
}
