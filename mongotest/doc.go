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
//  4. SecantusDB, the Rust build if it is on PATH or in the cache, otherwise
//     the Python build, which is installed into the user's cache the first time
//     (some seconds; needs Python 3 and its package index)
//
// MONGOTEST_SERVER forces one: docker, mongod, secantus-rs (built with cargo
// the first time, some minutes) or secantus-py. It never falls back, but
// MONGODB_URI wins over it. MONGOTEST_CACHE moves the cache. The variables are
// read when the process asks for its first server, and a failure to start one
// is final for the process.
//
// A server that was started here listens on 127.0.0.1 only, keeps its data in a
// temporary folder, and goes away with the process and that folder, also when
// the process panics, times out or is killed. There are two exceptions: a
// container's port is published on all addresses where tests run in a container
// themselves or the Docker engine is on another machine, and on Windows only
// [Server.Close] and [Main] stop a server.
//
// SecantusDB answers as MongoDB does in what it implements and differs in some
// plans; docs/compatibility.md of this module lists what that means for tests.
//
// # Programs
//
// Programs that are not tests call [Start], which says what it started.
package mongotest
