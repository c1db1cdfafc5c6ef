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

// login is an error of a login, as the driver says it.
func login(cause error) error {
	return fmt.Errorf("error occurred during connection handshake: %w", topology.ConnectionError{Wrapped: cause})
}

// A connection fails because of the network, or because the driver ends its login. It does not fail because a context
// ends, and a login that the server refuses is an answer.
func TestNoConnection(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{login(io.EOF), true},
		{login(context.Canceled), true},
		{login(errors.New("auth error: refused")), false},
		{topology.ConnectionError{Wrapped: io.EOF}, false}, // of a command
		{context.Canceled, false},
		{io.EOF, false},
		{nil, false},
	} {
		if got := fault.NoConnection(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
