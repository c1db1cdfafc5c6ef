// Package server asks a server for what the library relies on beyond its documentation, and for what is documented and
// whose rounding, order, type, code, label or text could change. Each row is one question. A server that answers
// otherwise makes the row fail with a sentence that says what it does, what the library needs and which packages that
// touches. Run it first on a server that is not in docs/compatibility.md; it takes less than a minute:
//
//	MONGODB_URI=mongodb://… go test -count=1 ./internal/tests/server
//
// A row that needs what the server does not have, such as transactions or fail points, is skipped, and says with -v what
// was not asked. Where the library can do with several answers, the row asks for what they have in common. No row knows
// versions.
package server_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}
