package stored_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// During a deployment the last tagged version runs beside this one: each reads and changes what the other has written, and
// they write the same documents in turn. The tagged version is this package of it, built for itself. Before the first tag it
// is this version in another process. In a small run a third of the scenarios are written by the other, and another third
// used.
func TestRolling(t *testing.T) {
	if uri := os.Getenv("ROLLING_URI"); uri != "" {
		obey(t, uri)
		return
	}
	db := mongotest.Database(t)
	other := start(t, lastTagged(t), mongotest.URI(t))
	for i, s := range storedScenarios() {
		if scale.Turn(i, 3) {
			t.Run(s.name+"/written by the other", func(t *testing.T) {
				db := s.database(t)
				other.does(t, "write", s.name, db.Name(), 0)
				s.use(t, db)
				s.check(t, db)
			})
		}
		if scale.Turn(i+1, 3) {
			t.Run(s.name+"/used by the other", func(t *testing.T) {
				db := s.database(t)
				s.write(t, db)
				other.does(t, "use", s.name, db.Name(), 0)
				s.check(t, db)
			})
		}
	}
	for _, p := range stepping() {
		t.Run(p.Package+"/in turn", func(t *testing.T) {
			steps := scale.Of(6, 12, 12)
			step, verify := p.Steps(t, db)
			for n := range steps {
				if n%2 == 0 {
					testkit.OK(t, step(t.Context(), n))
				} else {
					other.does(t, "step", p.Package, db.Name(), n)
				}
			}
			verify(t, steps)
			other.does(t, "verify", p.Package, db.Name(), steps)
		})
	}
}

// stepping are the patterns that write in turn. What approx counts waits in each process.
func stepping() (out []registry.Pattern) {
	for _, p := range registry.Patterns() {
		if p.Steps != nil && p.Package != "approx" {
			out = append(out, p)
		}
	}
	return out
}

// lastTagged returns the program of this test in the last version that is tagged before this commit.
func lastTagged(t *testing.T) string {
	t.Helper()
	tag, err := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^").Output()
	if err != nil {
		t.Log("no version is tagged: the other process is of this one")
		return os.Args[0]
	}
	dir := t.TempDir()
	root := testkit.Value[string](t)(filepath.Abs("../../.."))
	archive, program := filepath.Join(dir, "tree.tar"), filepath.Join(dir, "stored.test")
	testkit.Command(t, root, nil, "git", "archive", "-o", archive, strings.TrimSpace(string(tag)))
	testkit.Command(t, dir, nil, "tar", "-xf", archive)
	testkit.Command(t, dir, nil, "go", "test", "-c", "-o", program, "./internal/tests/stored")
	return program
}

// A process is another version, which does what it is told.
type process struct {
	in  io.Writer
	out *bufio.Scanner
}

func start(t *testing.T, program, uri string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestRolling$", "-test.v")
	cmd.Env = append(os.Environ(), "ROLLING_URI="+uri)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	testkit.OK(t, err)
	out, err := cmd.StdoutPipe()
	testkit.OK(t, err)
	testkit.OK(t, cmd.Start())
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	return &process{in, lines}
}

// does fails t unless the process has done a command. A scenario or pattern that it does not know is newer.
func (p *process) does(t *testing.T, command, name, database string, n int) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, command, name, database, n)
	testkit.OK(t, err)
	var said []string
	for p.out.Scan() {
		switch line := p.out.Text(); line {
		case "done":
			return
		case "unknown":
			t.Skip("the tagged version does not have it")
		case "failed":
			t.Fatalf("the other version fails to %s:\n%s", command, strings.Join(said, "\n"))
		default:
			said = append(said, line)
		}
	}
	t.Fatalf("the other version has ended:\n%s", strings.Join(said, "\n"))
}

// obey does the commands that come in.
func obey(t *testing.T, uri string) {
	client := testkit.Must(mongo.Connect(options.Client().ApplyURI(uri)))
	commands := map[string]func(t *testing.T, db *mongo.Database, n int){}
	for _, s := range storedScenarios() {
		commands["write "+s.name] = func(t *testing.T, db *mongo.Database, _ int) { s.write(t, db) }
		commands["use "+s.name] = func(t *testing.T, db *mongo.Database, _ int) { s.use(t, db) }
	}
	for _, p := range stepping() {
		var step func(t *testing.T, n int)
		var verify func(t *testing.T, n int)
		begin := func(db *mongo.Database) {
			if verify == nil {
				one, all := p.Steps(t, db)
				step, verify = func(t *testing.T, n int) { testkit.OK(t, one(t.Context(), n)) }, all
			}
		}
		commands["step "+p.Package] = func(t *testing.T, db *mongo.Database, n int) { begin(db); step(t, n) }
		commands["verify "+p.Package] = func(t *testing.T, db *mongo.Database, n int) { begin(db); verify(t, n) }
	}
	for {
		var command, name, database string
		var n int
		if _, err := fmt.Fscanln(os.Stdin, &command, &name, &database, &n); errors.Is(err, io.EOF) {
			return
		}
		do, ok := commands[command+" "+name]
		answer := "failed"
		if !ok {
			answer = "unknown"
		} else if t.Run(command+" "+name, func(t *testing.T) { do(t, client.Database(database), n) }) {
			answer = "done"
		}
		fmt.Println(answer)
	}
}
