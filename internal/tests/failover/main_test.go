// Package failover tests that calls through elections, deadlines and lost commits do what their outcome says.
package failover_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
