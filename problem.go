package mongopatterns

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// ProblemKind says what is wrong. Each package lists the kinds that its Check reports, and says what they
// mean there and which of them Repair removes.
type ProblemKind string

// The kinds that several packages report.
const (
	// WrongField: a field that is derived from others, such as a count, a sum or a path, does not have the
	// value that follows from them.
	WrongField ProblemKind = "wrong field"
	// Malformed: a document, or its Field, does not have the form that the package reads. Detail explains
	// it if Field and Have do not.
	Malformed ProblemKind = "malformed"
	// Duplicate: something that must be unique exists several times.
	Duplicate ProblemKind = "duplicate"
	// Orphan: the parent of a document does not exist.
	Orphan ProblemKind = "orphan"
	// Dangling: a reference leads to a document that does not exist.
	Dangling ProblemKind = "dangling"
	// NotAdopted: other code stored it, and Adopt has not taken it over yet.
	NotAdopted ProblemKind = "not adopted"
	// Edited: other code edited one of two places that must hold the same.
	Edited ProblemKind = "edited"
	// Deleted: other code deleted something in one of two places that must hold the same.
	Deleted ProblemKind = "deleted"
	// Different: two places that must agree differ.
	Different ProblemKind = "different"
	// OutsideWindow: a measurement is in a document of another window.
	OutsideWindow ProblemKind = "outside window"
)

// Problem is an inconsistency that a Check found. ID, Have, Want and Detail hold values of documents, which may be
// personal data. The other fields hold none and can be logged.
type Problem struct {
	// Pattern is the package that found it: "tree".
	Pattern string
	// Kind is one of the kinds of that package.
	Kind ProblemKind
	// Collection and ID name the document. ID is zero if the problem is not in one document.
	Collection string
	ID         bson.RawValue
	// Field is the path that is wrong, empty if the problem is not in one field.
	Field string
	// Have is the field's value, zero if the field is missing. Want is the value that it should have, zero
	// if the field should be missing or if the right value is not known.
	Have, Want bson.RawValue
	// Detail explains the problem to a person. It is empty if the other fields suffice.
	Detail string
}

// String returns the problem in one line.
func (p Problem) String() string {
	var out strings.Builder
	out.WriteString(p.Pattern + ": " + p.Collection)
	if p.ID.Type != 0 {
		out.WriteString(" " + value.Text(p.ID))
	}
	out.WriteString(": " + string(p.Kind))
	if p.Field != "" {
		out.WriteString(": " + p.Field)
	}
	if p.Have.Type != 0 || p.Want.Type != 0 {
		out.WriteString(" is " + value.Text(p.Have))
	}
	if p.Want.Type != 0 {
		out.WriteString(", want " + value.Text(p.Want))
	}
	if p.Detail != "" {
		out.WriteString(": " + p.Detail)
	}
	return out.String()
}

// MarshalJSON writes the values as relaxed extended JSON and leaves out what is empty.
func (p Problem) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Pattern    string          `json:"pattern"`
		Kind       ProblemKind     `json:"kind"`
		Collection string          `json:"collection"`
		ID         json.RawMessage `json:"id,omitempty"`
		Field      string          `json:"field,omitempty"`
		Have       json.RawMessage `json:"have,omitempty"`
		Want       json.RawMessage `json:"want,omitempty"`
		Detail     string          `json:"detail,omitempty"`
	}{p.Pattern, p.Kind, p.Collection, value.JSON(p.ID), p.Field, value.JSON(p.Have), value.JSON(p.Want), p.Detail})
}

// Checker is implemented by every helper that stores data twice or derives it.
type Checker interface {
	// Check yields the inconsistencies of the documents that work selects; nil selects all. It is safe
	// during live writes: it does not report differences that exist only while a write is in progress.
	Check(ctx context.Context, work *Work) iter.Seq2[Problem, error]
}

// CheckAll runs the checks one after another and stops at the first error. If a checker is nil, it yields ErrInvalid.
//
// Cost: the sum of the checks.
func CheckAll(ctx context.Context, checkers ...Checker) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		if i := slices.Index(checkers, nil); i >= 0 {
			err := fault.Invalid("checkers[%d] is nil", i)
			fault.In(&err, "mongopatterns.CheckAll")
			yield(Problem{}, err)
			return
		}
		for _, c := range checkers {
			for p, err := range c.Check(ctx, nil) {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}
