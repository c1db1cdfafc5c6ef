package mongotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// startBound is how long a server may take to come up while its process lives:
// several start at once when go test runs packages in parallel.
const startBound = 60 * time.Second

// replicaSet is the name of the replica sets that start here.
const replicaSet = "mongotest"

// mongod starts the mongod on PATH.
func (s *starter) mongod(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("mongod")
	if err != nil {
		return nil, absent("not on PATH")
	}
	return s.run(ctx, path)
}

// run starts what was asked for with the mongod at path.
func (s *starter) run(ctx context.Context, path string) (*Server, error) {
	if s.shards > 0 {
		return s.cluster(ctx, path)
	}
	return s.replicaSet(ctx, path)
}

// replicaSet starts a replica set of the mongod at path.
func (s *starter) replicaSet(ctx context.Context, path string) (*Server, error) {
	members := make([]*Member, max(s.members, 1))
	server := &Server{members: members, stop: sync.OnceValue(func() error {
		return each(len(members), func(i int) error {
			if members[i] == nil {
				return nil
			}
			return members[i].process.stop()
		})
	})}
	if err := s.fill(ctx, server, path); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), server.stop())
	}
	return server, nil
}

// fill starts the members of a set and makes them one.
func (s *starter) fill(ctx context.Context, server *Server, path string) error {
	members := server.members
	hosts, key := make([]string, len(members)), randomName()
	err := each(len(members), func(i int) (err error) {
		if members[i], err = startMember(ctx, path, replicaSet, key, len(members) > 1); err != nil {
			return err
		}
		hosts[i], members[i].gone = members[i].host, server.forgetAdmin
		return nil
	})
	if err != nil {
		return err
	}
	options := "directConnection=true"
	if len(members) > 1 { // clients notice soon that a member does not answer
		options = "connectTimeoutMS=2000&heartbeatFrequencyMS=500&replicaSet=" + replicaSet
	}
	server.AdminURI = system(key).uri(strings.Join(hosts, ","), options)
	// The other members copy from the first at once: a search for a source begins with a pause of one second.
	copyFrom := func(mode string) error {
		return each(len(members)-1, func(i int) error {
			return command(ctx, members[i+1].URI, nil, bson.D{{Key: "configureFailPoint", Value: "forceSyncSourceCandidate"}, {Key: "mode", Value: mode},
				{Key: "data", Value: bson.D{{Key: "hostAndPort", Value: hosts[0]}}}})
		})
	}
	if err := copyFrom("alwaysOn"); err != nil {
		return err
	}
	if err := server.initiate(ctx, members[0].URI, replicaSet, hosts, s.journal()...); err != nil {
		return err
	}
	tester, err := server.tester(ctx)
	if server.URI = tester.uri(strings.Join(hosts, ","), options); err != nil || len(members) == 1 {
		return err
	}
	if err := each(len(members), func(i int) error { return members[i].ready(ctx) }); err != nil { // they have copied what there is
		return err
	}
	return copyFrom("off")
}

// each calls fn for the numbers below n at the same time.
func each(n int, fn func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = fn(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// mongodArgs are the arguments of every mongod, in a container or not: room for
// big transactions, no statistics on disk, fail points. The journal is flushed each 10 ms instead of each 100:
// a drop and an index on a collection with documents wait for it. Updates that are not yet written may take a tenth of the
// cache: with 512 MB, a few documents of 16 MiB in transactions of parallel tests are more, and then one of them fails.
var mongodArgs = append([]string{"--oplogSize", "256", "--wiredTigerCacheSizeGB", "1", "--journalCommitInterval", "10",
	"--setParameter", "diagnosticDataCollectionEnabled=false", "--setParameter", "enableTestCommands=1"}, cheapPasswords...)

// startMember starts one mongod of a set on a free port of 127.0.0.1. An empty key is no authentication. With several
// members, one that stops answering is given up soon as a source to copy from, but only after heartbeats report it as
// gone: otherwise it could be chosen again, which costs 30 s.
func startMember(ctx context.Context, path, set, key string, several bool, more ...string) (*Member, error) {
	p, host, err := onFreePort(ctx, key, func(dir string) []string {
		argv := append([]string{path, "--dbpath", filepath.Join(dir, "data"), "--replSet", set}, mongodArgs...)
		argv = append(argv, more...)
		if key != "" {
			argv = append(argv, "--keyFile", filepath.Join(dir, "key"))
		}
		if several {
			argv = append(argv, "--setParameter", "oplogNetworkTimeoutBufferSeconds=3")
		}
		return argv
	})
	if err != nil {
		return nil, err
	}
	return &Member{URI: system(key).uri(host, "directConnection=true"), host: host, process: p}, nil
}

// onFreePort launches a mongod or mongos on a free port of 127.0.0.1, and waits until it listens there. argv
// are its other arguments, which may name files in its folder, such as key.
func onFreePort(ctx context.Context, key string, argv func(dir string) []string) (p *process, host string, err error) {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		dir := newFolderName()
		p, err := launch(dir, append(os.Environ(), keyVariable+"="+key), append(argv(dir), "--bind_ip", "127.0.0.1", "--port", port, "--nounixsocket")...) // a socket would outlive a kill
		if err != nil {
			return nil, "", err
		}
		err = p.poll(ctx, startBound, func() bool { return bytes.Contains(p.log(), []byte("Waiting for connections")) })
		if err == nil {
			return p, "127.0.0.1:" + port, nil
		}
		taken := bytes.Contains(p.log(), []byte("Address already in use"))
		_ = p.stop()
		if !taken || attempt == 3 {
			return nil, "", err
		}
	}
}

// freePort returns a port that nobody listens on now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), listener.Close()
}

// Elections are quick: a primary that does not answer is replaced after 1.5 s
// instead of 10 s.
var setSettings = bson.D{{Key: "electionTimeoutMillis", Value: 1500}, {Key: "heartbeatIntervalMillis", Value: 200}, {Key: "heartbeatTimeoutSecs", Value: 2}}

// journal returns the setting of the set that concerns its journal. Majority writes to the shared server do not
// wait for it, because no test can crash that server and start it again.
func (s *starter) journal() []bson.E {
	if !s.shared {
		return nil
	}
	return []bson.E{{Key: "writeConcernMajorityJournalDefault", Value: false}}
}

// initiate makes the mongods, which know each other by hosts, a replica set, waits
// until it has a primary, and asks what it is. first is the URI of the first alone.
func (s *Server) initiate(ctx context.Context, first, set string, hosts []string, more ...bson.E) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	members := bson.A{}
	for i, host := range hosts {
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host}})
	}
	err := command(ctx, first, nil, bson.D{{Key: "replSetInitiate", Value: append(bson.D{
		{Key: "_id", Value: set}, {Key: "members", Value: members}, {Key: "settings", Value: setSettings}}, more...)}})
	if err != nil {
		return fmt.Errorf("initiate the replica set: %w", err)
	}
	if len(hosts) > 1 { // the first election would wait for electionTimeoutMillis
		for range 50 { // until the others know the configuration
			if command(ctx, first, nil, bson.D{{Key: "replSetStepUp", Value: 1}}) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	if _, err := s.primary(ctx, func(hello) bool { return true }); err != nil {
		return fmt.Errorf("wait for a primary: %w", err)
	}
	return s.describe(ctx, shortLived(s.AdminURI))
}
