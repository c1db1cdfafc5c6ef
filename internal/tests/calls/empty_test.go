package calls_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// refused are the calls for which an empty list is ErrInvalid, because a caller cannot mean it.
var refused = []string{
	"attribute.Attributes.Adopt", "attribute.Attributes.Unadopt", "computed.Computed.Change", "prealloc.Grids.Claim",
	"prealloc.Grids.Hold", "prealloc.Grids.Insert", "prealloc.Grids.Release", "tree.Tree.FindOrInsert",
}

// settings are the calls whose list does not say what to do: none means the default.
var settings = []string{"outlier.Lists.Distribution", "prealloc.Grids.HoldAdjacent"}

// A call that takes a list or a sequence of what to do does nothing for an empty one, without a command and
// without an error: a program that has nothing to do needs no branch.
func TestNothingToDo(t *testing.T) {
	lists := registry.Taking(t, func(kind string) bool {
		return strings.HasPrefix(kind, "...") && !strings.HasPrefix(kind, "...options.") || strings.HasPrefix(kind, "[]") || strings.HasPrefix(kind, "iter.Seq")
	})
	done := map[string]bool{"relation.Fetch": true} // a function, and not a method: see the end
	for _, name := range slices.Concat(refused, settings) {
		if !slices.Contains(lists, name) {
			t.Errorf("%s takes no list", name)
		}
	}
	for _, r := range slices.Concat(registry.Writes(), registry.Reads()) {
		if done[r.Method()] || !slices.Contains(lists, r.Method()) || slices.Contains(settings, r.Method()) {
			continue
		}
		done[r.Method()] = true
		t.Run(r.Method(), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			c := r.Start(&registry.Scene{T: t, DB: db})
			call := method(c, r.Method()[strings.LastIndex(r.Method(), ".")+1:])
			if !call.IsValid() {
				t.Fatal("none of the helpers has it")
			}
			for _, list := range []func(reflect.Type) reflect.Value{reflect.Zero, none} {
				mongotest.Record(t, db, func() {
					err := nothing(t, call, list)
					if want := slices.Contains(refused, r.Method()); errors.Is(err, mongopatterns.ErrInvalid) != want || (err != nil) != want {
						t.Error(err)
					}
				}).RequireRoundTrips(t, 0)
			}
		})
	}
	t.Run("relation.Fetch", func(t *testing.T) {
		testkit.OK(t, testkit.ErrorOf(relation.Fetch[int, bson.D](t.Context(), testkit.Offline(t).Collection("tasks"), nil, nil)))
	})
}

// method is a method of the first helper that has it.
func method(c registry.Call, name string) (out reflect.Value) {
	for _, h := range c.Helpers() {
		if m := reflect.ValueOf(h).MethodByName(name); m.IsValid() {
			return m
		}
	}
	return out
}

// none is an empty list or sequence.
func none(kind reflect.Type) reflect.Value {
	if kind.Kind() == reflect.Slice {
		return reflect.MakeSlice(kind, 0, 0)
	}
	return reflect.MakeFunc(kind, func([]reflect.Value) []reflect.Value { return nil })
}

// nothing makes a call with empty lists, and without anything else. It returns its error, or one that says what was done.
func nothing(t *testing.T, call reflect.Value, list func(reflect.Type) reflect.Value) (err error) {
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < call.Type().NumIn(); i++ {
		kind := call.Type().In(i)
		if kind.Kind() == reflect.Slice || strings.HasPrefix(kind.String(), "iter.Seq") {
			args = append(args, list(kind))
		} else {
			args = append(args, reflect.Zero(kind))
		}
	}
	do := call.Call
	if call.Type().IsVariadic() {
		do = call.CallSlice
	}
	for _, out := range do(args) {
		switch out := out.Interface().(type) {
		case error:
			err = out
		case mongopatterns.Result:
			if out.Examined+out.Done+out.Failed+out.Skipped != 0 {
				err = fmt.Errorf("%+v", out)
			}
		}
	}
	return err
}
