// Package missing has the type of the packages' not-found errors.
package missing

import "go.mongodb.org/mongo-driver/v2/mongo"

// Error is the text of an error that errors.Is takes for mongo.ErrNoDocuments
// too. As a constant's type it keeps each sentinel distinct from the others by
// its text.
type Error string

func (e Error) Error() string { return string(e) }

// Is reports whether target is mongo.ErrNoDocuments; equal Errors match without it.
func (Error) Is(target error) bool { return target == mongo.ErrNoDocuments }
