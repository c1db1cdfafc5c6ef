//go:build unix

package mongotest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/google/go-cmp/cmp"
)

// routed is a world whose mongods and mongos are fakes.
func routed(t *testing.T, env ...string) *world {
	t.Helper()
	w := newWorld(t, append([]string{"MONGOTEST_SERVER=mongod", "MONGODB_URI="}, env...)...)
	w.add(t, "mongod", fakeMongod)
	w.add(t, "mongos", fakeMongos)
	return w
}

func (w *world) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(w.temp), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// processes are the pids in the folders of the servers that run.
func (w *world) processes() (pids []int) {
	folders, _ := filepath.Glob(filepath.Join(w.temp, "mongotest-*"))
	for _, dir := range folders {
		pids = append(pids, (&process{dir: dir}).pid())
	}
	return pids
}

// TestMongos has a mongos on the PATH route for a cluster: it is told of the config server and the shards,
// its URI is the cluster's, Shard and Move send it the documented commands, and it ends with the cluster.
func TestMongos(t *testing.T) {
	if !apart(t) {
		return
	}
	taken := filepath.Join(t.TempDir(), "taken") // the first port is
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	w := routed(t, "FAKE_MONGOS=taken:"+taken)
	w.enter(t)
	s, err := Start(t.Context(), &Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var config string
	servers, _ := filepath.Glob(filepath.Join(w.temp, "mongotest-*", "data", "args"))
	for _, name := range servers {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if args := strings.Fields(string(text)); slices.Contains(args, "--configsvr") {
			config = args[slices.Index(args, "--port")+1]
		}
	}
	_, port, _ := strings.Cut(s.URI, "mongodb://127.0.0.1:")
	port = strings.TrimSuffix(port, "/")
	want := fmt.Sprintf("--configdb config/127.0.0.1:%s --setParameter enableTestCommands=1 --bind_ip 127.0.0.1 --port %s --nounixsocket", config, port)
	if diff := cmp.Diff(want, w.file(t, "mongos.args")); diff != "" {
		t.Error(diff)
	}

	client, err := mongo.Connect(options.Client().ApplyURI(s.URI))
	if err != nil {
		t.Fatal(err)
	}
	coll := client.Database("db").Collection("c")
	if err := s.Shard(t.Context(), coll, bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, bson.D{{Key: "a", Value: 5}, {Key: "b", Value: 7}}); err != nil {
		t.Error(err)
	}
	if err := client.Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
	ns := namespace(coll)
	move := func(shard int, low, high string) string {
		return fmt.Sprintf(`{"moveRange":%q,"toShard":"shard%d","min":%s,"max":%s,"waitForDelete":true}`, ns, shard, low, high)
	}
	const lowest, middle, highest = `{"a":{"$minKey":1},"b":{"$minKey":1}}`, `{"a":5,"b":7}`, `{"a":{"$maxKey":1},"b":{"$maxKey":1}}`
	commands := []string{
		fmt.Sprintf(`{"addShard":"shard0/%s","name":"shard0"}`, s.Shards()[0].host),
		fmt.Sprintf(`{"addShard":"shard1/%s","name":"shard1"}`, s.Shards()[1].host),
		fmt.Sprintf(`{"shardCollection":%q,"key":{"a":1,"b":1}}`, ns),
		move(0, lowest, middle), move(1, middle, highest),
	}
	sent := slices.DeleteFunc(strings.Split(strings.TrimSpace(w.file(t, "mongos.commands")), "\n"), func(c string) bool {
		return strings.Contains(c, "listShards") || strings.Contains(c, "endSessions") || strings.Contains(c, "ping")
	})
	if diff := cmp.Diff(commands, sent); diff != "" {
		t.Error(diff)
	}

	pids := w.processes()
	if pid, _ := strconv.Atoi(w.file(t, "mongos.pid")); len(pids) != 4 || !slices.Contains(pids, pid) {
		t.Errorf("processes %v, mongos %d", pids, pid)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		w.gone(t, pid)
	}
}

// TestMongosFails: the error says what of the mongos failed, and nothing is left of the cluster.
func TestMongosFails(t *testing.T) {
	if !apart(t) {
		return
	}
	for fault, parts := range map[string][]string{
		"dies":    {"mongos, which must be of the version of the mongods, 8.0.1: it ended with status 2", "the config server is of another kind"},
		"refuses": {"mongos: add shard shard0: (OperationFailed) it is a shard of another cluster"},
	} {
		t.Run(fault, func(t *testing.T) {
			w := routed(t, "FAKE_MONGOS="+fault)
			w.enter(t)
			_, err := Start(t.Context(), &Options{Shards: 2})
			for _, part := range parts {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("no %q: %v", part, err)
				}
			}
			pid, _ := strconv.Atoi(w.file(t, "mongos.pid"))
			w.gone(t, pid)
		})
	}
}

// TestEndOfMongos: a mongos ends with a process that is killed.
func TestEndOfMongos(t *testing.T) {
	t.Parallel()
	w := routed(t)
	p := w.start(t, "MONGOTEST_TEST_SHARDS=2")
	w.started(t, p)
	pids := w.processes()
	if len(pids) != 4 {
		t.Errorf("processes %v", pids)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		w.gone(t, pid)
	}
}

// TestNamedCluster: MONGODB_URI is used for a cluster if it names one of enough shards.
func TestNamedCluster(t *testing.T) {
	refusing := func(code int) *fakeServer {
		f := fakeRouter()
		f.more = func(string, bson.Raw) bson.D {
			return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: "no listShards"}}
		}
		return f
	}
	for name, c := range map[string]struct {
		f     *fakeServer
		has   string // of the error; "" is that the URI is used
		notes string
	}{
		"two shards":  {f: fakeRouter("a", "b")},
		"three":       {f: fakeRouter("a", "b", "c")},
		"one":         {fakeRouter("a"), "MONGODB_URI: passed over: it names a cluster of fewer shards, 1", "passed over for a cluster of 2 shards: it names a cluster of fewer shards, 1"},
		"no cluster":  {refusing(commandNotFound), "MONGODB_URI: passed over: it names no sharded cluster", "it names no sharded cluster"},
		"not allowed": {refusing(13), "MONGODB_URI: list the shards: ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			address := listen(t, func(conn net.Conn) { _ = c.f.serve(conn) })
			w := newWorld(t, "MONGOTEST_SERVER=docker", "MONGODB_URI=mongodb://"+address+"/")
			w.enter(t)
			var notes strings.Builder
			s, err := Start(t.Context(), &Options{Shards: 2, Stderr: &notes})
			switch {
			case c.has == "" && (err != nil || s.URI != os.Getenv("MONGODB_URI") || s.Engine != "mongodb" || s.Shards() != nil):
				t.Errorf("%+v, %v", s, err)
			case c.has != "" && (err == nil || !strings.Contains(err.Error(), c.has)):
				t.Errorf("no %q: %v", c.has, err)
			}
			if !strings.Contains(notes.String(), c.notes) || c.notes == "" && notes.Len() > 0 {
				t.Errorf("notes %q", notes.String())
			}
		})
	}
}
