package missing_test

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/missing"
)

func TestIs(t *testing.T) {
	var noNode, noParent error = missing.Error("no node"), missing.Error("no parent")
	wrapped := fmt.Errorf("tree: get: %w", noNode)
	for _, test := range []struct {
		target error
		want   bool
	}{{noNode, true}, {mongo.ErrNoDocuments, true}, {noParent, false}, {mongo.ErrNilDocument, false}} {
		if got := errors.Is(wrapped, test.target); got != test.want {
			t.Errorf("errors.Is(%v, %v) = %v", wrapped, test.target, got)
		}
	}
	if wrapped.Error() != "tree: get: no node" {
		t.Error(wrapped)
	}
}
