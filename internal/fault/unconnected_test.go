package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A connection fails because of the network, or because the driver ends its login. It does not fail because a context
// ends, and a login that the server refuses is an answer.
func TestUnconnected(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{topology.ConnectionError{Wrapped: fmt.Errorf("auth error: %w", io.EOF)}, true},
		{topology.ConnectionError{Wrapped: fmt.Errorf("auth error: %w", context.Canceled)}, true},
		{topology.ConnectionError{Wrapped: errors.New("auth error: refused")}, false},
		{context.Canceled, false},
		{io.EOF, false},
		{nil, false},
	} {
		if got := fault.Unconnected(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
