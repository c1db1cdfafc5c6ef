// Package calls has tables of calls of all packages: what each refuses, what it does with nothing to do, and what its errors say.
package calls_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}
