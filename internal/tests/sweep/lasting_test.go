package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
)

// A lasting fault meets every command from one on, until the test ends it.
type lasting struct {
	name  string
	fault proxy.Fault
	// repeats: the error looks as if it could pass, so a call may try again, with pauses, until its context ends.
	repeats bool
	// silent: no answer comes, so the call ends with its context.
	silent bool
	// alone: without the repetitions of the driver. With a deadline they come until then without pauses, and those of
	// commits and change streams cannot be switched off. So the context is cancelled, and has no deadline.
	alone bool
}

var lastings = []lasting{
	{name: "unauthorized", fault: proxy.Refuse(proxy.Unauthorized)},
	{name: "conflict", fault: proxy.Refuse(proxy.WriteConflict), repeats: true},
	{name: "conflict without label", fault: proxy.RefuseBare(proxy.WriteConflict), repeats: true},
	{name: "shutdown", fault: proxy.Refuse(proxy.InterruptedAtShutdown), repeats: true, alone: true},
	{name: "not heard", fault: proxy.SilentBefore, silent: true},
	{name: "not answered", fault: proxy.SilentAfter, silent: true},
}

const (
	// hold is how long a fault goes on after the call has returned, if the call left work to the background.
	hold = 300 * time.Millisecond
	// recovery is how long the repetition of a call may take: longer than the leases of the rows, and shorter than
	// the minute after which the server ends a transaction that nobody ends.
	recovery = 20 * time.Second
)

// most is how many commands may come in this time, from the first broken one on.
//
// Without repetitions that is the broken one, the abort of its transaction, the end of a cursor or of a lease, and
// the killSessions in the background, after a transaction that fails to begin: five, and three in reserve. Each
// repetition is a command and an abort, or twice a commit. The pauses between them grow to 50 ms and take half of
// that or more; six are shorter. Behind each abort that is refused, the fence of its transaction begins another one, after
// pauses that begin with 5 ms and double.
func (f lasting) most(took time.Duration, transacts bool) int {
	const once, short, pause, fence = 8, 6, 25 * time.Millisecond, 5 * time.Millisecond
	if !f.repeats {
		return once
	}
	each := 2
	if transacts {
		each += bits.Len(uint(took / fence))
	}
	return once + each*(short+int(took/pause))
}

// A fault that lasts is met with few commands and in a bounded time, and leaves no goroutine, no lock and no lease.
// After it the same call succeeds.
func TestLasting(t *testing.T) {
	var all []placed
	for _, r := range third(calls(registry.Writes())) {
		all = append(all, placed{Row: r})
	}
	for _, r := range third(calls(slices.Concat(registry.Reads(), registry.Indexes(t)))) {
		all = append(all, placed{Row: r, reads: true})
	}
	together(t, all, func(t *testing.T, r placed) { r.last(t) })
}

// last breaks a call from each of its commands on by each fault, or from one on by one: which goes by the row and the
// seed.
func (r placed) last(t *testing.T) {
	direct := r.database(t)
	p := r.recordOnce(t, direct)
	if r.reads && !p.before.equal(p.after) {
		t.Errorf("it is among the reads, and writes:\n%s", p.before.diff(p.after))
	}
	for from, at := range p.commands {
		for _, f := range lastings {
			if !scale.Whole() && (from != r.random(len(p.commands)) || f.name != lastings[r.random(len(lastings))].name) {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", at, f.name), func(t *testing.T) {
				within := 100*time.Millisecond + 3*p.took
				for range 6 {
					if p.endure(t, direct, from, f, within) {
						return
					}
					within *= 2
				}
				t.Error("the context always ended before the command")
			})
		}
	}
}

// random is a number below n that goes by the row, the seed and n.
func (r placed) random(n int) int {
	sum := fnv.New64a()
	fmt.Fprint(sum, r.Name, scale.Seed(), n)
	return rand.New(rand.NewPCG(sum.Sum64(), 0)).IntN(n)
}

// endure is endured in a test of its own, whose goroutines have a label. The test waits until they have ended.
func (p plan) endure(t *testing.T, direct *mongo.Database, from int, f lasting, within time.Duration) (met bool) {
	t.Run(within.String(), func(t *testing.T) {
		t.Cleanup(func() { gone(t) }) // after the client is disconnected
		pprof.Do(t.Context(), pprof.Labels(label, t.Name()), func(context.Context) {
			met = p.endured(t, direct, from, f, within)
		})
	})
	return met || t.Failed()
}

// endured makes the call of a plan while a fault meets each command from one on. It reports false if the context ended
// before that command came.
func (p plan) endured(t *testing.T, direct *mongo.Database, from int, f lasting, within time.Duration) bool {
	opts := options.Client()
	if f.alone {
		opts.SetRetryReads(false).SetRetryWrites(false)
	}
	proxied, c := p.start(t, direct, opts)
	if !f.repeats && !f.silent {
		within = patience
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if f.alone {
		defer time.AfterFunc(within, cancel).Stop()
	} else {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, within)
		defer end()
	}
	passed, broken := 0, []string{}
	proxied.Break(func(c proxy.Command) *proxy.Fault {
		switch {
		case len(broken) == 0 && cleans(c):
			return nil
		case passed < from:
			passed++
			return nil
		}
		broken = append(broken, c.Name)
		return &f.fault
	})
	began := time.Now()
	got, back := c.answer(ctx)
	if !back || !f.repeats && !f.silent && got.took > grace {
		t.Errorf("the call has not come back %v after its context, or after the refusal", grace)
		return true // the end of the test ends it
	}
	idle := ended(t, hold)
	proxied.Break(nil)
	took := time.Since(began)
	proxied.Cut()
	if !idle && !ended(t, recovery) {
		t.Errorf("%v after the fault a transaction is still being ended", recovery)
	}
	proxied.Settle()
	if len(broken) == 0 {
		return p.late(t, ctx, got)
	}
	transacts := slices.ContainsFunc(p.commands, func(c command) bool { return c.InTransaction() })
	if most := f.most(took, transacts); len(broken) > most {
		t.Errorf("%d commands in %v, want %d or fewer: %v …", len(broken), took, most, broken[:most])
	}
	// Nothing was written if each command was refused. approx has counted in memory, and may flush it later. The user
	// of a filter gets the driver's error.
	ours := got.err != nil && strings.HasPrefix(got.err.Error(), p.row.Package()+": ") && p.row.Package() != "approx"
	if ours && from == 0 && f.name == "unauthorized" && outcomeOf(got.err) == unknown {
		t.Errorf("each command was refused, and the outcome is unknown: %v", got.err)
	}
	if errors.Is(got.err, context.Canceled) && !f.alone {
		t.Errorf("nobody has cancelled the call: %v", got.err)
	}
	p.judge(t, direct, proxied, c, got, recovery)
	return true
}

// label is the key of the label that the goroutines of a case have; its value is the name of the test.
const label = "case"

// ended waits until no transaction of a case is being ended in the background, and reports whether that came in time.
func ended(t *testing.T, within time.Duration) bool {
	t.Helper()
	for end := time.Now().Add(within); strings.Contains(goroutines(t), "internal/txn.(*transaction)"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// gone waits until the goroutines of a case have ended, and fails t if they do not.
func gone(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(grace); ; time.Sleep(20 * time.Millisecond) {
		left := goroutines(t)
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%v after the client was disconnected there are still:\n%s", grace, left)
			return
		}
	}
}

// goroutines are the stacks of the goroutines of a case.
func goroutines(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	var of []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("{%q:%q}", label, t.Name())) {
			of = append(of, stack)
		}
	}
	return strings.Join(of, "\n\n")
}
