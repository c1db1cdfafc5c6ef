// Package sweep is a test: it fails every command of every call that writes, one after the
// other and in each way in which a network, a server and a caller can, and looks what is
// stored, what the error says, and whether the repetition ends right. A fault can also last: TestLasting breaks
// every command from one on, counts what is sent, and looks for goroutines, locks and leases that are left. It has rows
// for reads too.
//
// In go test ./... each call meets one fault, every third one meets one that lasts, and some calls meet one on two shards.
// With -scale=part each command meets two faults and each call one that lasts, with -scale=whole each command meets all:
//
//	go run ./internal/tests/campaigns -scale=whole sweep lasting shards moves   everything
//	go test ./internal/tests/sweep -scale=whole -run 'TestSweep/^tree\.'  the calls of one package
//	go test ./internal/tests/sweep -scale=whole -update -timeout 1h      writes the figures in docs/sweep.csv
//	go test ./internal/tests/sweep -run TestShardsTable -scale=whole -update -timeout 1h             what each call asks of shards
//	go test ./internal/tests/sweep -run TestWhileChunksMove/reads -scale=whole -update -timeout 1h   the reads in docs/compatibility.md
//	go test ./internal/tests/sweep -run TestZones -scale=whole -update   the two-phase commits without and with zones
//
// The calls are those of package registry.
package sweep
