// Package words tests that the packages of the library use one vocabulary: the names and signatures of their exported
// API, the texts of errors, and the functions through which they write.
package words_test

import (
	"os"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	os.Exit(m.Run())
}
