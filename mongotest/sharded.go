package mongotest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/credentials"
	"github.com/mongopatterns/mongopatterns/mongotest/internal/router"
)

// Sharded starts a sharded cluster of this many shards for t alone, and closes it when t ends. It
// skips t under -short and fails it when there is no mongod to start. It uses the server of
// MONGODB_URI if that is a sharded cluster of at least as many shards, otherwise a mongos on the PATH
// over mongods that it starts, and otherwise a router of this module over the same mongods, which
// carry the sharding code of a mongos as internal commands. Change streams need one of the first two.
//
//	cluster := mongotest.Sharded(t, 2)
//	orders := cluster.Database(t).Collection("orders")
//	err := cluster.Shard(ctx, orders, bson.D{{"customer", 1}}, bson.D{{"customer", "m"}})
//
// Cost: starts a mongod for each shard and one for the configuration, which takes some seconds.
func Sharded(t testing.TB, shards int) *Server {
	t.Helper()
	return alone(t, Options{Shards: shards})
}

// Shards returns the shards of a cluster that Start started, each a replica set of one. You can
// kill one, restart it on its data, or connect to it alone.
//
// Cost: none.
func (s *Server) Shards() []*Member { return slices.Clone(s.shards) }

// Shard shards a collection by key. Its documents begin on the first shard; those from the first split on
// go to the second, those from the second split on to the third, and so on. With a hashed key they are
// spread evenly, so give no splits then. A collection that has documents needs an index that begins with
// the key. A unique index on the key must exist before.
//
// Cost: some round trips, and a migration for each split; one more where a mongos has put the collection on
// another shard than the first.
func (s *Server) Shard(ctx context.Context, coll *mongo.Collection, key bson.D, splits ...bson.D) error {
	admin := coll.Database().Client().Database("admin")
	cmd := bson.D{{Key: "shardCollection", Value: namespace(coll)}, {Key: "key", Value: key}}
	if err := admin.RunCommand(ctx, cmd).Err(); err != nil {
		return fmt.Errorf("mongotest: shard %s: %w", namespace(coll), err)
	}
	var low, high bson.D
	for _, e := range key {
		if e.Value == "hashed" && len(splits) == 0 {
			return nil
		}
		low, high = append(low, bson.E{Key: e.Key, Value: bson.MinKey{}}), append(high, bson.E{Key: e.Key, Value: bson.MaxKey{}})
	}
	ends := append(slices.Clone(splits), high)
	for i, end := range ends { // the first too: a mongos begins on the shard that has the least data
		if err := s.Move(ctx, coll, low, end, i); err != nil {
			return err
		}
		low = end
	}
	return nil
}

// Move moves the documents whose keys are from low on and below high to a shard, numbered from 0. Both have
// all fields of the shard key, and bson.MinKey and bson.MaxKey are the ends. When it returns, the shard that
// had the documents has deleted them, so they leave no orphans.
//
// Cost: a migration, which waits for cursors on these documents to end, and for the one that the shard is in.
//   - A shard does one at a time.
//   - One that transactions keep from its lock for half a second begins again.
func (s *Server) Move(ctx context.Context, coll *mongo.Collection, low, high bson.D, shard int) error {
	if err := move(ctx, coll, low, high, shard); err != nil {
		return fmt.Errorf("mongotest: move %s: %w", namespace(coll), err)
	}
	return nil
}

func move(ctx context.Context, coll *mongo.Collection, low, high bson.D, shard int) error {
	client := coll.Database().Client()
	names, err := shardNames(ctx, client)
	if err != nil {
		return err
	}
	if shard < 0 || shard >= len(names) {
		return fmt.Errorf("there is no shard %d: the cluster has %d", shard, len(names))
	}
	for {
		err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "moveRange", Value: namespace(coll)}, {Key: "toShard", Value: names[shard]},
			{Key: "min", Value: low}, {Key: "max", Value: high}, {Key: "waitForDelete", Value: true}}).Err()
		var server mongo.ServerError
		busy := errors.As(err, &server) && (server.HasErrorCode(conflictingOperation) || server.HasErrorCode(lockTimeout))
		if !busy || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func namespace(coll *mongo.Collection) string { return coll.Database().Name() + "." + coll.Name() }

// shardNames returns the names of the shards in the order in which they were added.
func shardNames(ctx context.Context, client *mongo.Client) ([]string, error) {
	shards, err := listShards(ctx, client)
	var names []string
	for _, s := range shards {
		names = append(names, s.Name)
	}
	return names, err
}

type shard struct {
	Name string `bson:"_id"`
	Host string `bson:"host"` // the set's name, a slash, and its members
}

func listShards(ctx context.Context, client *mongo.Client) ([]shard, error) {
	var list struct {
		Shards []shard `bson:"shards"`
	}
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "listShards", Value: 1}}).Decode(&list)
	return list.Shards, err
}

// Asked is what the shards of a cluster did for a function.
type Asked struct {
	// Shards has the commands of each shard on the collections of the database, in its order.
	// The body of an update or delete is its one statement.
	Shards []Commands
	// Commits counts the transactions by the way they committed, in the words of a mongos:
	// singleShard, singleWriteShard, readOnly, twoPhaseCommit, noShards.
	Commits map[string]int
}

// Reached returns how many shards ran a command.
func (a Asked) Reached() int {
	n := 0
	for _, commands := range a.Shards {
		if len(commands) > 0 {
			n++
		}
	}
	return n
}

// Asked runs fn and returns what it made the shards do in db, which their profilers record. It
// needs direct connections to the shards. Commits are those of the whole cluster in that time.
//
// Cost: some round trips to each shard.
func (s *Server) Asked(ctx context.Context, db *mongo.Database, fn func() error) (asked Asked, err error) {
	shards, err := listShards(ctx, db.Client())
	if err != nil {
		return asked, fmt.Errorf("mongotest: list the shards: %w", err)
	}
	before, err := commits(ctx, db.Client())
	if err != nil {
		return asked, fmt.Errorf("mongotest: ask the router: %w", err)
	}
	var profiled []*mongo.Database
	for _, shard := range shards {
		set, hosts, _ := strings.Cut(shard.Host, "/")
		client, err := mongo.Connect(shortLived("mongodb://" + hosts + "/?replicaSet=" + set))
		if err != nil {
			return asked, err
		}
		defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
		local := client.Database(db.Name())
		if err := local.Collection("system.profile").Drop(ctx); err != nil {
			return asked, fmt.Errorf("mongotest: drop the profile of %s: %w", shard.Name, err)
		}
		if err := local.RunCommand(ctx, bson.D{{Key: "profile", Value: 2}, {Key: "slowms", Value: 0}}).Err(); err != nil {
			return asked, fmt.Errorf("mongotest: profile %s: %w", shard.Name, err)
		}
		profiled = append(profiled, local)
	}
	failed := fn()
	for _, local := range profiled {
		if err := local.RunCommand(ctx, bson.D{{Key: "profile", Value: 0}, {Key: "slowms", Value: 100}}).Err(); err != nil {
			return asked, errors.Join(failed, fmt.Errorf("mongotest: end the profile: %w", err))
		}
		commands, err := profile(ctx, local)
		if err != nil {
			return asked, errors.Join(failed, fmt.Errorf("mongotest: read the profile: %w", err))
		}
		asked.Shards = append(asked.Shards, commands)
	}
	after, err := commits(ctx, db.Client())
	asked.Commits = map[string]int{}
	for kind, n := range after {
		if n > before[kind] {
			asked.Commits[kind] = n - before[kind]
		}
	}
	return asked, errors.Join(failed, err)
}

// profile returns what the profiler of a shard has recorded, except the explains of the router, the profiler's
// own commands, and those of the cluster, such as its balancer each second, whose names begin with an underscore.
func profile(ctx context.Context, local *mongo.Database) (Commands, error) {
	var entries []struct {
		Op      string   `bson:"op"`
		NS      string   `bson:"ns"`
		Command bson.Raw `bson:"command"`
	}
	cursor, err := local.Collection("system.profile").Find(ctx, bson.D{{Key: "command.explain", Value: bson.D{{Key: "$exists", Value: false}}}},
		options.Find().SetSort(bson.D{{Key: "$natural", Value: 1}}))
	if err != nil {
		return nil, err
	}
	if err := cursor.All(ctx, &entries); err != nil {
		return nil, err
	}
	var out Commands
	for _, e := range entries {
		name, known := map[string]string{"query": "find", "getmore": "getMore", "remove": "delete", "insert": "insert", "update": "update"}[e.Op]
		if first, err := e.Command.IndexErr(0); !known && err == nil {
			name = first.Key()
		}
		coll := strings.TrimPrefix(e.NS, local.Name()+".")
		if name == "profile" || strings.HasPrefix(name, "_") || strings.HasPrefix(coll, "system.") {
			continue
		}
		out = append(out, Command{Name: name, Collection: coll, Body: e.Command})
	}
	return out, nil
}

// commits counts the commits of the router by kind.
func commits(ctx context.Context, client *mongo.Client) (map[string]int, error) {
	var status struct {
		Transactions struct {
			Types map[string]struct {
				Successful int `bson:"successful"`
			} `bson:"commitTypes"`
		} `bson:"transactions"`
	}
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status)
	out := map[string]int{}
	for kind, n := range status.Transactions.Types {
		if kind != "recoverWithToken" {
			out[kind] = n.Successful
		}
	}
	return out, err
}

// namedCluster is the cluster that a URI names; nil and a reason if it names another kind of server, or a
// cluster of fewer shards.
func (s *starter) namedCluster(ctx context.Context, uri string) (server *Server, reason string, err error) {
	if server, err = uriBounds.connect(ctx, uri); err != nil {
		return nil, "", err
	}
	client, err := mongo.Connect(shortLived(uri))
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	names, err := shardNames(ctx, client)
	var refused mongo.ServerError
	switch {
	case errors.As(err, &refused) && refused.HasErrorCode(commandNotFound):
		return nil, "it names no sharded cluster", nil
	case err != nil:
		return nil, "", fmt.Errorf("mongotest: MONGODB_URI: list the shards: %s", credentials.Hide(err.Error(), uri))
	case len(names) < s.shards:
		return nil, fmt.Sprintf("it names a cluster of fewer shards, %d", len(names)), nil
	}
	server.kind = "of MONGODB_URI"
	return server, "", nil
}

// applyNothing makes a shard start as no primary until apply is called. A shard that has a prepared transaction on its
// disk must not become primary before it listens: the transaction would take its locks again, the start would wait for
// them, and the coordinator of the transaction could not reach the shard.
var applyNothing = []string{"--setParameter", `failpoint.rsSyncApplyStop={mode: "alwaysOn"}`}

// apply ends applyNothing.
func (m *Member) apply(ctx context.Context) error {
	return command(ctx, m.URI, nil, bson.D{{Key: "configureFailPoint", Value: "rsSyncApplyStop"}, {Key: "mode", Value: "off"}})
}

// balanceSoon has the balancer look for chunks to move once a second instead of each 10 s.
var balanceSoon = []string{"--setParameter", `failpoint.overrideBalanceRoundInterval={mode: "alwaysOn", data: {intervalMs: 1000}}`}

// cluster starts a config server and shards with the mongod at path, and a router for them.
func (s *starter) cluster(ctx context.Context, path string) (*Server, error) {
	members := make([]*Member, s.shards+1) // the last is the config server
	server := &Server{}
	var stopRouter func() error
	server.stop = sync.OnceValue(func() error {
		var errs []error
		if stopRouter != nil {
			errs = append(errs, stopRouter())
		}
		return errors.Join(append(errs, each(len(members), func(i int) error {
			if members[i] == nil {
				return nil
			}
			return members[i].process.stop()
		}))...)
	})
	shards := make([]router.Shard, s.shards)
	failed := func(err error) error {
		return errors.Join(fmt.Errorf("start a cluster of %s: %w", path, err), server.stop())
	}
	err := each(len(members), func(i int) (err error) {
		name, role, more := fmt.Sprintf("shard%d", i), append([]string{"--shardsvr"}, applyNothing...), []bson.E(nil)
		if i == s.shards {
			name, role, more = "config", append([]string{"--configsvr"}, balanceSoon...), []bson.E{{Key: "configsvr", Value: true}}
		}
		if members[i], err = startMember(ctx, path, name, "", false, role...); err != nil {
			return err
		}
		if members[i].shard = i < s.shards; members[i].shard {
			if err := members[i].apply(ctx); err != nil {
				return err
			}
		}
		alone := &Server{AdminURI: members[i].URI}
		if err := alone.initiate(ctx, members[i].URI, name, []string{members[i].host}, more...); err != nil {
			return err
		}
		if i < s.shards {
			shards[i] = router.Shard{Name: name, Addr: members[i].host}
		} else {
			server.Engine, server.Version = alone.Engine, alone.Version
		}
		return nil
	})
	if err != nil {
		return nil, failed(err)
	}
	server.shards = members[:s.shards]
	var addr string
	if addr, stopRouter, err = s.route(ctx, members[s.shards].host, server.Version, shards); err != nil {
		return nil, failed(err)
	}
	server.URI = "mongodb://" + addr + "/"
	server.AdminURI = server.URI
	return server, nil
}

// route starts the mongos on the PATH, or else a router of this module.
func (s *starter) route(ctx context.Context, config, version string, shards []router.Shard) (addr string, stop func() error, err error) {
	path, err := exec.LookPath("mongos")
	if err != nil {
		r, err := router.Start(ctx, config, shards)
		if err != nil {
			return "", nil, err
		}
		return r.Addr(), r.Close, nil
	}
	p, addr, err := onFreePort(ctx, "", func(string) []string {
		return []string{path, "--configdb", "config/" + config, "--setParameter", "enableTestCommands=1"}
	})
	if err != nil {
		return "", nil, fmt.Errorf("start %s, which must be of the version of the mongods, %s: %w", path, version, err)
	}
	for _, shard := range shards {
		add := bson.D{{Key: "addShard", Value: shard.Name + "/" + shard.Addr}, {Key: "name", Value: shard.Name}}
		if err := command(ctx, "mongodb://"+addr+"/", nil, add); err != nil {
			return "", nil, errors.Join(fmt.Errorf("%s: add shard %s: %w", path, shard.Name, err), p.stop())
		}
	}
	return addr, p.stop, nil
}
