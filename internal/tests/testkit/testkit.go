// Package testkit holds the helpers that tests of several packages share. A helper of one package is in that package.
package testkit

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
)

// OK ends t if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns v, and panics if err is not nil. It needs no t, and fits around a call in an expression.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Value returns a function that returns the value of a call, and ends t if the call fails: Value[int](t)(call()).
func Value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ErrorOf returns the error of a call.
func ErrorOf[T any](_ T, err error) error { return err }

// Is ends t unless err is want.
func Is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// Fails ends t unless err is want, and names the package that returned it once, in front.
func Fails(t testing.TB, pkg string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), pkg+": ") || strings.Count(err.Error(), pkg+": ") > 1 {
		t.Fatalf("error %v, want %v of %s", err, want, pkg)
	}
}

// Gives returns a function that fails t unless a call returns want: Gives(t, 3)(call()).
func Gives[T any](t testing.TB, want T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if Equal(t, want, got); err != nil {
			t.Error(err)
		}
	}
}

// Done returns a function that fails t unless a call did n documents: Done(t, 3)(call()).
func Done(t testing.TB, n int64) func(mongopatterns.Result, error) {
	return func(result mongopatterns.Result, err error) {
		t.Helper()
		if err != nil || result.Done != n {
			t.Errorf("%+v, %v; want %d", result, err, n)
		}
	}
}

// Equal fails t unless got is want.
func Equal(t testing.TB, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(opts, decimals)...); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Same is Equal with a word about what is compared.
func Same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, decimals); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

var decimals = cmp.Comparer(func(a, b bson.Decimal128) bool { return a == b })

// Collect returns the values of seq, nil for an empty one. It ends t at an error.
func Collect[T any](t testing.TB, seq iter.Seq2[T, error]) (out []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// Drain reads seq to its end, or to its first error, which it returns.
func Drain[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// Problems returns the problems of Check as text, in their order.
func Problems(t testing.TB, c mongopatterns.Checker) []string {
	t.Helper()
	out := []string{}
	for _, p := range Collect(t, c.Check(t.Context(), nil)) {
		out = append(out, p.String())
	}
	return out
}

// Found returns collection, ID, kind and field of each problem, sorted.
func Found(t testing.TB, seq iter.Seq2[mongopatterns.Problem, error]) []string {
	t.Helper()
	out := []string{}
	for _, p := range Collect(t, seq) {
		out = append(out, fmt.Sprintf("%s %v %s %s", p.Collection, p.ID, p.Kind, p.Field))
	}
	slices.Sort(out)
	return out
}

// Healthy fails t for every problem that Check finds.
func Healthy(t testing.TB, checkers ...mongopatterns.Checker) {
	t.Helper()
	for p, err := range mongopatterns.CheckAll(t.Context(), checkers...) {
		t.Error(p, err)
	}
}

// Zone returns a time zone by its name.
func Zone(t testing.TB, name string) *time.Location {
	t.Helper()
	return Value[*time.Location](t)(time.LoadLocation(name))
}
