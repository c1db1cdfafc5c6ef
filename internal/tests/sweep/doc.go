// Package sweep is a test: it fails every command of every call that writes, one after the
// other and in each way in which a network, a server and a caller can, and looks what is
// stored, what the error says, and whether the repetition ends right.
//
//	go test ./internal/tests/sweep                                       a part, in two minutes
//	go test ./internal/tests/sweep -sweep=all -timeout 1h                the whole
//	go test ./internal/tests/sweep -sweep=all -run 'TestSweep/tree.*'    of one package
//	go test ./internal/tests/sweep -sweep=all -update -timeout 1h        the figures in docs/failures.md
//	go test ./internal/tests/sweep -run TestSharded -shards -timeout 2h  on a sharded cluster, each row; a sample without -shards
//	go test ./internal/tests/sweep -run TestShardsTable -shards -update -timeout 1h    what each call asks of shards
//	go test ./internal/tests/sweep -run TestWhileChunksMove -shards -timeout 2h    the main calls while chunks move, an hour
//	go test ./internal/tests/sweep -run TestWhileChunksMove/reads -shards -update -timeout 1h    the reads in docs/compatibility.md, some minutes
//	go test ./internal/tests/sweep -run TestZones -update                the two-phase commits without and with zones
//
// A new method that writes needs a row in the table of its package, rows_<package>_test.go.
package sweep
