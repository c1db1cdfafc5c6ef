package killed_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// stepping are the patterns whose steps a killed process leaves whole. What approx has not flushed is lost.
func stepping() (out []registry.Pattern) {
	for _, p := range registry.Patterns() {
		if p.Steps != nil && len(p.Writes) > 0 && p.Package != "approx" {
			out = append(out, p)
		}
	}
	return out
}

// Every pattern writes in a process that is killed and begun again: what was acknowledged is there, once, and what was
// under way can be repeated.
func TestKilledSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	if os.Getenv("KILLED_STEPS") != "" {
		stepUntilKilled(t)
		return
	}
	t.Parallel()
	set := mongotest.ReplicaSet(t, 1)
	db := set.Database(t)
	endSoon(t, db)
	steps := map[string]int{} // acknowledged
	random := rand.New(rand.NewPCG(5, 6))
	for range kills() + 1 {
		stepInProcess(t, db, set.URI, steps, random.IntN(50))
	}
	ended(t, db)
	for _, p := range stepping() {
		t.Run(p.Package, func(t *testing.T) {
			step, verify := p.Steps(t, db)
			n := steps[p.Package]
			testkit.OK(t, insist(t.Context(), step, n)) // which the last process may have done in part
			t.Logf("%d steps", n+1)
			verify(t, n+1)
		})
	}
}

// stepInProcess runs a process until each pattern has done a step and some more steps are done, and kills it.
func stepInProcess(t *testing.T, db *mongo.Database, uri string, steps map[string]int, more int) {
	t.Helper()
	from := testkit.Value[[]byte](t)(json.Marshal(steps))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledSteps$")
	cmd.Env = append(os.Environ(), "KILLED_STEPS="+db.Name(), "KILLED_URI="+uri, "KILLED_FROM="+string(from))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testkit.OK(t, err)
	testkit.OK(t, cmd.Start())
	waiting := map[string]bool{}
	for _, p := range stepping() {
		waiting[p.Package] = true
	}
	var others []string
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var name string
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "step %s %d", &name, &n); err != nil {
			others = append(others, lines.Text())
			continue
		}
		steps[name] = n + 1
		delete(waiting, name)
		if len(waiting) == 0 && !killed {
			if more--; more < 0 {
				killed = true
				testkit.OK(t, cmd.Process.Kill())
			}
		}
	}
	_ = cmd.Wait()
	if !killed {
		t.Fatalf("the process has ended by itself:\n%s", strings.Join(others, "\n"))
	}
}

// stepUntilKilled makes steps of all patterns, and says which are done.
func stepUntilKilled(t *testing.T) {
	from := map[string]int{}
	testkit.OK(t, json.Unmarshal([]byte(os.Getenv("KILLED_FROM")), &from))
	client := testkit.Must(mongo.Connect(options.Client().ApplyURI(os.Getenv("KILLED_URI"))))
	db := client.Database(os.Getenv("KILLED_STEPS"))
	var group sync.WaitGroup
	for _, p := range stepping() {
		step, _ := p.Steps(t, db)
		group.Go(func() {
			for n := from[p.Package]; ; n++ {
				if err := insist(t.Context(), step, n); err != nil {
					fmt.Println(p.Package, n, err)
					os.Exit(1)
				}
				fmt.Println("step", p.Package, n)
			}
		})
	}
	group.Wait()
}

// insist makes a step until it is done: what a killed process has left open is in its way for a moment.
func insist(ctx context.Context, step func(ctx context.Context, n int) error, n int) (err error) {
	for range 20 {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = step(ctx, n)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}
