// Package stored tests that what a version of the library has stored stays readable by later ones.
package stored_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
