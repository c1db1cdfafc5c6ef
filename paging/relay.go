package paging

import "fmt"

// ConnectionArgs are the arguments of a GraphQL connection, by the Relay cursor
// specification. nil means not given. First goes with After, Last with Before.
type ConnectionArgs struct {
	First  *int    `json:"first"`
	After  *string `json:"after"`
	Last   *int    `json:"last"`
	Before *string `json:"before"`
}

// Request makes the Request of these arguments, with the size clamped as params
// says. Negative numbers, and combinations other than first/after and
// last/before, are ErrInvalidRequest. An empty After or Before counts as not
// given. Other than the specification allows, 0 is refused too: it would be a
// page without a place in the list.
func (a ConnectionArgs) Request(params Params) (Request, error) {
	params = params.withDefaults()
	bad := func(reason string) (Request, error) {
		return Request{}, fmt.Errorf("paging: %w: %s", ErrInvalidRequest, reason)
	}
	out := Request{Size: params.Default}
	if a.After != nil {
		out.After = *a.After
	}
	if a.Before != nil {
		out.Before = *a.Before
	}
	switch {
	case a.First != nil && a.Last != nil:
		return bad("first and last exclude each other")
	case out.After != "" && out.Before != "":
		return bad("after and before exclude each other")
	case a.First != nil && out.Before != "":
		return bad("first goes with after, not with before")
	case a.Last != nil && out.After != "":
		return bad("last goes with before, not with after")
	}
	asked := a.First
	if a.Last != nil {
		asked = a.Last
		out.FromEnd = out.Before == ""
	}
	if asked != nil {
		if *asked < 1 {
			return bad("first and last must be at least 1")
		}
		out.Size = min(*asked, params.Max)
	}
	return out, nil
}

// Connection is a page in the shape of the Relay cursor specification.
type Connection[T any] struct {
	Edges      []Edge[T] `json:"edges"`
	PageInfo   PageInfo  `json:"pageInfo"`
	TotalCount *int64    `json:"totalCount,omitempty"`
}

// Edge is an item and its cursor.
type Edge[T any] struct {
	Node   T      `json:"node"`
	Cursor string `json:"cursor"`
}

// PageInfo says what lies around a Connection. The cursors are null if it is
// empty.
type PageInfo struct {
	HasNextPage     bool    `json:"hasNextPage"`
	HasPreviousPage bool    `json:"hasPreviousPage"`
	StartCursor     *string `json:"startCursor"`
	EndCursor       *string `json:"endCursor"`
}

// NewConnection puts a page into the Relay shape. TotalCount is set if the total
// was counted exactly.
func NewConnection[T any](page *Page[T]) Connection[T] {
	out := Connection[T]{
		Edges:    make([]Edge[T], len(page.Items)),
		PageInfo: PageInfo{HasNextPage: page.HasNext, HasPreviousPage: page.HasPrev},
	}
	for i, item := range page.Items {
		out.Edges[i] = Edge[T]{Node: item, Cursor: page.Cursor(i)}
	}
	if n := len(out.Edges); n > 0 {
		out.PageInfo.StartCursor = &out.Edges[0].Cursor
		out.PageInfo.EndCursor = &out.Edges[n-1].Cursor
	}
	if page.Total != nil && page.Total.Kind == TotalExact {
		out.TotalCount = &page.Total.N
	}
	return out
}
