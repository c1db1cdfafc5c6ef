package mongopatterns

import (
	"context"

	"github.com/mongopatterns/mongopatterns/internal/comment"
)

// WithComment returns a context in which the calls of this library send text as the comment of their commands, in place
// of the name of the call. The text can be the number of a trace or a request, for instance. With an empty text they
// send none.
//
// Cost: none. It sends nothing.
func WithComment(ctx context.Context, text string) context.Context {
	return comment.With(ctx, text)
}
