package prealloc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

// Seats of a screening: held while the customer pays, then claimed.
func Example() {
	ctx := context.Background()
	seats, err := prealloc.New[string, string](mongotest.ExampleDatabase().Collection("screenings"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	const id = "2019-04-05 20:00"
	rows := slices.Concat(prealloc.Row("A", 10), prealloc.Row("B", 12), prealloc.Row("C", 14))
	if err := seats.Insert(ctx, id, bson.M{"film": "Dumbo"}, rows...); err != nil {
		fmt.Println(err)
		return
	}
	c7, b3 := prealloc.Cell{Section: "C", Name: "7"}, prealloc.Cell{Section: "B", Name: "3"}
	fmt.Println(seats.Hold(ctx, id, "order 1", 10*time.Minute, c7, b3))
	err = seats.Claim(ctx, id, "order 2", b3)
	fmt.Println(err, errors.Is(err, prealloc.ErrTaken))
	fmt.Println(seats.Claim(ctx, id, "order 1", c7, b3))
	counts, err := seats.Counts(ctx, id)
	for _, c := range counts {
		fmt.Printf("%s: %d free, %d claimed\n", c.Section, c.Free, c.Claimed)
	}
	fmt.Println(err)
	// Output:
	// <nil>
	// prealloc: claim: _id "2019-04-05 20:00": taken: B.3 true
	// <nil>
	// A: 10 free, 0 claimed
	// B: 11 free, 1 claimed
	// C: 13 free, 1 claimed
	// <nil>
}

// Any seat at 09:00, with the appointment in the same transaction. A repeated request gets the seat that it has.
func ExampleGrids_Claim_anyCell() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	appointments := db.Collection("appointments")
	days, err := prealloc.New[string, string](db.Collection("days"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	const day = "Dr. Grey, 2026-12-01"
	seats := slices.Concat(prealloc.Row("09:00", 2), prealloc.Row("09:30", 2))
	if err := days.Insert(ctx, day, nil, seats...); err != nil {
		fmt.Println(err)
		return
	}
	choose := func(request, slot string) (seat prealloc.Cell, err error) {
		cells, err := days.Cells(ctx, day)
		for _, c := range cells {
			switch {
			case c.Cell.Section == slot && c.By == request:
				return c.Cell, nil
			case c.Cell.Section == slot && c.Free && seat.Name == "":
				seat = c.Cell
			}
		}
		if err == nil && seat.Name == "" {
			err = prealloc.ErrTaken
		}
		return seat, err
	}
	book := func(request, slot string) (string, error) {
		for {
			seat, err := choose(request, slot)
			if err != nil {
				return "", err
			}
			err = mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
				if err := days.Claim(ctx, day, request, seat); err != nil {
					return err
				}
				set := bson.M{"$set": bson.M{"day": day, "slot": slot, "seat": seat.Name}}
				_, err := appointments.UpdateOne(ctx, bson.M{"_id": request}, set, options.UpdateOne().SetUpsert(true))
				return err
			})
			if !errors.Is(err, prealloc.ErrTaken) { // else somebody was quicker
				return seat.Name, err
			}
		}
	}
	for _, request := range []string{"r1", "r2", "r1", "r3"} {
		fmt.Println(book(request, "09:00"))
	}
	n, err := appointments.CountDocuments(ctx, bson.M{"day": day})
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 1 <nil>
	//  taken
	// 2 <nil>
}

// A doctor's day: one cell for each slot.
func ExampleGrids_Claim_daySlots() {
	ctx := context.Background()
	days, err := prealloc.New[string, string](mongotest.ExampleDatabase().Collection("days"), &prealloc.Options{Flat: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	const day = "Dr. Grey, 2026-12-01"
	fmt.Println(days.Insert(ctx, day, nil, prealloc.At("", "09:00"), prealloc.At("", "09:30"), prealloc.At("", "10:00")))
	fmt.Println(days.Claim(ctx, day, "request 7", prealloc.At("", "09:30")))
	fmt.Println(days.Claim(ctx, day, "request 8", prealloc.At("", "09:30")))
	cells, err := days.Cells(ctx, day)
	for _, c := range cells {
		fmt.Printf("%s %q\n", c.Cell, c.By)
	}
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// prealloc: claim: _id "Dr. Grey, 2026-12-01": taken: 09:30
	// 09:00 ""
	// 09:30 "request 7"
	// 10:00 ""
	// <nil>
}

// A booking calendar: one cell for each working day of April 2019.
func ExampleDayCells() {
	ctx := context.Background()
	rooms, err := prealloc.New[string, string](mongotest.ExampleDatabase().Collection("rooms"), &prealloc.Options{CellsField: "days", Flat: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	working := func(day time.Time) bool { return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday }
	april, err := prealloc.DayCells(time.Date(2019, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2019, 4, 30, 0, 0, 0, 0, time.UTC), working)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rooms.Insert(ctx, "room 1, April 2019", nil, april...))
	week, err := rooms.HoldAdjacent(ctx, "room 1, April 2019", "Ann", time.Hour, 5)
	fmt.Println(week, err)
	// Output:
	// <nil>
	// [2019-04-01 2019-04-02 2019-04-03 2019-04-04 2019-04-05] <nil>
}
