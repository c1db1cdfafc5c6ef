package prealloc_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// Samoa had no 30 December 2011: no day comes twice, and none that was not.
func TestDaysLeavesOutASkippedDay(t *testing.T) {
	apia := must(time.LoadLocation("Pacific/Apia"))
	var got []string
	for _, cell := range prealloc.Days(time.Date(2011, 12, 28, 9, 0, 0, 0, apia), time.Date(2012, 1, 1, 9, 0, 0, 0, apia), nil) {
		got = append(got, cell.Name)
	}
	if want := []string{"2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}

// A holder that the server reads as nobody is refused, and one that another program left
// holds nothing.
func TestUndefinedIsNoHolder(t *testing.T) {
	db := mongotest.Database(t)
	g := must(prealloc.New[string, any](db.Collection("screenings"), nil))
	check(t, g.Create(t.Context(), "s", nil, prealloc.Row("A", 3)...))
	for _, holder := range []any{nil, bson.Undefined{}, bson.A{"x"}} {
		if err := g.Claim(t.Context(), "s", holder, seats("A1")...); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%v: %v", holder, err)
		}
	}
	_, err := db.Collection("screenings").UpdateByID(t.Context(), "s", bson.M{"$set": bson.M{"cells.A.1.by": bson.Undefined{}}})
	check(t, err)
	if all := must(g.Cells(t.Context(), "s")); !all[0].Free {
		t.Errorf("%+v", all[0])
	}
	check(t, g.Claim(t.Context(), "s", "x", seats("A1")...))
}

// Check names what other programs left and no call can free.
func TestCheck(t *testing.T) {
	db, g := theatre(t)
	coll := db.Collection("screenings")
	check(t, g.Claim(t.Context(), "s", "order 1", seats("A1")...))
	check(t, g.Hold(t.Context(), "s", "order 2", time.Hour, seats("A2")...))
	look := func(g *grids) (out []string) {
		for p, err := range g.Check(t.Context(), nil) {
			check(t, err)
			if p.Kind != prealloc.Malformed {
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
	check(t, err)
	_, err = coll.InsertMany(t.Context(), []any{bson.M{"_id": "t"}, bson.M{"_id": "u", "cells": bson.A{}}})
	check(t, err)
	want := []string{
		`"s" cells.A.2.until the end of a hold is not a date: it never ends`, `"s" cells.A.3 a cell is not a document`,
		`"s" cells.B.1.by a holder is an array`, `"s" cells.C a section is not a document`,
		`"t" cells the grid has no document of cells`, `"u" cells the grid has no document of cells`,
	}
	if found := look(g); !slices.Equal(found, want) {
		t.Errorf("%q", found)
	}
	flat := must(prealloc.New[string, string](db.Collection("calendars"), &prealloc.Options{CellsField: "plan.days", Flat: true}))
	check(t, flat.Create(t.Context(), "room", nil, prealloc.Cell{Name: "1"}, prealloc.Cell{Name: "2"}))
	_, err = db.Collection("calendars").UpdateByID(t.Context(), "room", bson.M{"$set": bson.M{"plan.days.2": bson.M{"by": "x", "until": "soon"}}})
	check(t, err)
	if found := look(flat); !slices.Equal(found, []string{`"room" plan.days.2.until the end of a hold is not a date: it never ends`}) {
		t.Errorf("%q", found)
	}
}

// The manual's calls pass the vet of other modules, which refuses literals without names.
func TestTheManualPassesVet(t *testing.T) {
	manual := must(os.ReadFile("doc.go"))
	if bad := regexp.MustCompile(`Cell\{[^}:]*"[^}:]*\}`).Find(manual); bad != nil {
		t.Errorf("%s", bad)
	}
	if at := prealloc.At("B", "3"); at != (prealloc.Cell{Section: "B", Name: "3"}) {
		t.Error(at)
	}
}
