package mongopatterns

import (
	"context"

	"github.com/mongopatterns/mongopatterns/internal/comment"
)

// WithComment returns a context in which the calls of this library give their commands text as the comment, in place of
// their own names: a trace, for instance, or a request. With an empty text they have none.
func WithComment(ctx context.Context, text string) context.Context {
	return comment.With(ctx, text)
}
