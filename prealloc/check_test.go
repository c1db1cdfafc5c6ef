package prealloc_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// A holder that the server takes for a missing one is refused; if another program stored it, the
// cell is free.
func TestUndefinedIsNoHolder(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	g := testkit.Must(prealloc.New[string, any](db.Collection("screenings"), nil))
	testkit.OK(t, g.Insert(t.Context(), "s", nil, prealloc.Row("A", 3)...))
	for _, holder := range []any{nil, bson.Undefined{}, bson.A{"x"}} {
		if err := g.Claim(t.Context(), "s", holder, seats("A1")...); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v: %v", holder, err)
		}
	}
	_, err := db.Collection("screenings").UpdateByID(t.Context(), "s", bson.M{"$set": bson.M{"cells.A.1.by": bson.Undefined{}}})
	testkit.OK(t, err)
	if all := testkit.Must(g.Cells(t.Context(), "s")); !all[0].Free {
		t.Errorf("%+v", all[0])
	}
	testkit.OK(t, g.Claim(t.Context(), "s", "x", seats("A1")...))
}

// A holder that the driver would decode, but that is no H, is named by Cells and Check: true is not the holder 1, and
// hex digits are not an ObjectID.
func TestHoldersOfAnotherType(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	oid := bson.NewObjectID()
	ints := testkit.Must(prealloc.New[int, int](db.Collection("ints"), nil))
	oids := testkit.Must(prealloc.New[int, bson.ObjectID](db.Collection("oids"), nil))
	for i, test := range []struct {
		by   any
		ints bool
		oids bool
	}{{1, true, false}, {int64(1), true, false}, {1.0, true, false}, {true, false, false}, {"1", false, false}, {1.5, false, false}, {oid, false, true}, {oid.Hex(), false, false}} {
		grid := bson.D{{Key: "_id", Value: i}, {Key: "cells", Value: bson.D{{Key: "A", Value: bson.D{{Key: "1", Value: bson.D{{Key: "by", Value: test.by}}}}}}}}
		testkit.Insert(t, db.Collection("ints"), grid)
		testkit.Insert(t, db.Collection("oids"), grid)
		for name, one := range map[string]struct {
			is    bool
			cells func() error
			check mongopatterns.Checker
		}{
			"ints": {test.ints, func() error { return testkit.ErrorOf(ints.Cells(t.Context(), i)) }, ints},
			"oids": {test.oids, func() error { return testkit.ErrorOf(oids.Cells(t.Context(), i)) }, oids},
		} {
			if err := one.cells(); (err == nil) != one.is || err != nil && !errors.Is(err, mongopatterns.ErrMalformed) {
				t.Errorf("%s, %v: %v", name, test.by, err)
			}
			problems := 0
			for p, err := range one.check.Check(t.Context(), &mongopatterns.Work{Filter: bson.D{{Key: "_id", Value: i}}}) {
				testkit.OK(t, err)
				problems++
				if p.Field != "cells.A.1.by" {
					t.Error(p)
				}
			}
			if (problems == 0) != one.is {
				t.Errorf("%s, %v: %d problems", name, test.by, problems)
			}
		}
	}
}

// Check reports the damage by other programs that no call can free.
func TestCheck(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	coll := db.Collection("screenings")
	testkit.OK(t, g.Claim(t.Context(), "s", "order 1", seats("A1")...))
	testkit.OK(t, g.Hold(t.Context(), "s", "order 2", time.Hour, seats("A2")...))
	look := func(g *grids) (out []string) {
		for p, err := range g.Check(t.Context(), nil) {
			testkit.OK(t, err)
			if p.Kind != mongopatterns.Malformed {
				t.Error(p)
			}
			out = append(out, p.ID.String()+" "+p.Field+" "+p.Detail)
		}
		return out
	}
	if found := look(g); len(found) > 0 {
		t.Error(found)
	}
	_, err := coll.UpdateByID(t.Context(), "s", bson.M{"$set": bson.M{
		"cells.A.2.until": "2019-04-05 20:00:00", "cells.A.3": "taken", "cells.B.1.by": bson.A{"x"}, "cells.C": bson.A{}, "cells.B.2.until": "x"}})
	testkit.OK(t, err)
	_, err = coll.InsertMany(t.Context(), []any{bson.M{"_id": "t"}, bson.M{"_id": "u", "cells": bson.A{}}})
	testkit.OK(t, err)
	// A cell is free when its hold has ended, whatever holds it.
	ended := bson.M{"by": bson.A{"x"}, "until": time.Unix(0, 0)}
	running := bson.M{"by": 7, "until": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	_, err = coll.UpdateByID(t.Context(), "s", bson.M{"$set": bson.M{"cells.B.3": ended, "cells.B.4": bson.M{"by": 7, "until": time.Unix(0, 0)}, "cells.B.5": running}})
	testkit.OK(t, err)
	want := []string{
		`"s" cells.A.2.until the end of a hold is not a date: it never ends`, `"s" cells.A.3 a cell is not a document`,
		`"s" cells.B.1.by a holder is an array`,
		`"s" cells.B.5.by a holder is of another type, and no call can name it`, `"s" cells.C a section is not a document`,
		`"t" cells the grid has no document of cells`, `"u" cells the grid has no document of cells`,
	}
	if found := look(g); !slices.Equal(found, want) {
		t.Errorf("%q", found)
	}
	testkit.OK(t, g.Claim(t.Context(), "s", "x", seats("B3", "B4")...))
	flat := testkit.Must(prealloc.New[string, string](db.Collection("calendars"), &prealloc.Options{CellsField: "plan.days", Flat: true}))
	testkit.OK(t, flat.Insert(t.Context(), "room", nil, prealloc.Cell{Name: "1"}, prealloc.Cell{Name: "2"}))
	_, err = db.Collection("calendars").UpdateByID(t.Context(), "room", bson.M{"$set": bson.M{"plan.days.2": bson.M{"by": "x", "until": "soon"}}})
	testkit.OK(t, err)
	if found := look(flat); !slices.Equal(found, []string{`"room" plan.days.2.until the end of a hold is not a date: it never ends`}) {
		t.Errorf("%q", found)
	}
}
