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
	"runtime"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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
	return s.replicaSet(ctx, path)
}

// replicaSet starts the mongod at path as a one-node replica set.
func (s *starter) replicaSet(ctx context.Context, path string) (*Server, error) {
	p, port, err := startMongod(ctx, path)
	if err != nil {
		return nil, err
	}
	server, err := initiate(ctx, "mongodb://127.0.0.1:"+port+"/?directConnection=true", "127.0.0.1:"+port, p.stop)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), p.stop())
	}
	return server, nil
}

// startMongod starts one mongod on a free port of 127.0.0.1. It needs no
// durability and little memory.
func startMongod(ctx context.Context, path string) (p *process, port string, err error) {
	for attempt := 1; ; attempt++ {
		if port, err = freePort(); err != nil {
			return nil, "", err
		}
		dir := newFolderName()
		argv := []string{path,
			"--dbpath", filepath.Join(dir, "data"),
			"--bind_ip", "127.0.0.1", "--port", port,
			"--replSet", replicaSet, "--oplogSize", "256", "--wiredTigerCacheSizeGB", "0.5",
			"--setParameter", "diagnosticDataCollectionEnabled=false",
			"--setParameter", "enableTestCommands=1"} // has fail points
		if runtime.GOOS != "windows" {
			argv = append(argv, "--nounixsocket") // it would outlive a kill
		}
		if p, err = launch(dir, os.Environ(), argv...); err != nil {
			return nil, "", err
		}
		err = p.poll(ctx, startBound, func() bool { return bytes.Contains(p.log(), []byte("Waiting for connections")) })
		if err == nil {
			return p, port, nil
		}
		taken := bytes.Contains(p.log(), []byte("Address already in use"))
		_ = p.stop()
		if !taken || attempt == 3 {
			return nil, "", fmt.Errorf("start %s: %w", path, err)
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

// initiate makes the mongod at uri, which knows itself as member, a replica set
// of one, and waits until it is the primary.
func initiate(ctx context.Context, uri, member string, stop func() error) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	admin := client.Database("admin")
	err = admin.RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: bson.D{
		{Key: "_id", Value: replicaSet},
		{Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: member}}}},
	}}}).Err()
	if err != nil {
		return nil, fmt.Errorf("initiate the replica set: %w", err)
	}
	for {
		var hello struct {
			Primary bool `bson:"isWritablePrimary"`
		}
		if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
			return nil, err
		}
		if hello.Primary {
			return describe(ctx, uri, stop)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until it is the primary: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
