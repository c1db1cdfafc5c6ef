package mongopatterns

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// ProblemKind says what is wrong. Each package lists its own and says which of
// them Repair removes.
type ProblemKind string

// Problem is an inconsistency that a Check has found.
type Problem struct {
	// Pattern is the package that found it: "tree".
	Pattern string
	// Kind is one of the kinds of that package.
	Kind ProblemKind
	// Collection and ID say which document; the ID is zero if it is not one.
	Collection string
	ID         bson.RawValue
	// Field is the path that is wrong, empty if it is not one.
	Field string
	// Have is what the field holds, zero if nothing. Want is what it should hold,
	// zero if nothing or not known.
	Have, Want bson.RawValue
	// Detail is for people; empty if the rest says it all.
	Detail string
}

// String is the problem in one line.
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
	}{p.Pattern, p.Kind, p.Collection, asJSON(p.ID), p.Field, asJSON(p.Have), asJSON(p.Want), p.Detail})
}

// asJSON is nil for the zero value.
func asJSON(v bson.RawValue) json.RawMessage {
	if v.Type == 0 {
		return nil
	}
	const before, after = `{"v":`, `}`
	out, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil || len(out) < len(before)+len(after) {
		out, _ = json.Marshal(value.Text(v))
		return out
	}
	return out[len(before) : len(out)-len(after)]
}

// Checker is what every helper that stores data twice, or derives it, is.
type Checker interface {
	// Check streams the inconsistencies of the documents that work selects, nil
	// for all. It is safe beside live writes: what a write under way leaves
	// different for a moment is not reported.
	Check(ctx context.Context, work *Work) iter.Seq2[Problem, error]
}

// CheckAll runs the checks one after another. An error ends it.
//
// Cost: the sum of the checks.
func CheckAll(ctx context.Context, checkers ...Checker) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		for _, c := range checkers {
			for p, err := range c.Check(ctx, nil) {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}
