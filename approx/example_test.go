package approx_test

import (
	"context"
	"fmt"

	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Page views: one write in a hundred reaches the server.
func Example() {
	ctx := context.Background()
	pages := mongotest.ExampleDatabase().Collection("pages")
	views, err := approx.New[string](pages, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 1234 {
		if err := views.Add(ctx, "/about", 1); err != nil {
			fmt.Println(err)
			return
		}
	}
	elsewhere, err := approx.New[string](pages, nil) // another process
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := elsewhere.Get(ctx, "/about")
	fmt.Println("stored:", stored, err)
	here, err := views.Get(ctx, "/about")
	fmt.Println("with what waits here:", here, err)
	fmt.Println(views.Close(ctx))
	stored, err = elsewhere.Get(ctx, "/about")
	fmt.Println("after Close:", stored, err)
	// Output:
	// stored: 1200 <nil>
	// with what waits here: 1234 <nil>
	// <nil>
	// after Close: 1234 <nil>
}

// The population of a city, changed at once with one birth in a hundred.
func ExampleNewSampled() {
	ctx := context.Background()
	cities := mongotest.ExampleDatabase().Collection("cities")
	births := 0
	population, err := approx.NewSampled[string](cities, &approx.Options{
		KeyField: "city", CountField: "population",
		Random: func() float64 { births++; return float64(births%100) / 100 }, // without it chance decides
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 39_000 {
		if err := population.Add(ctx, "Springfield", 1); err != nil {
			fmt.Println(err)
			return
		}
	}
	e, err := population.Estimate(ctx, "Springfield")
	fmt.Printf("%d, give or take %.0f, %v\n", e.Count, e.StdErr, err)
	// Output: 39000, give or take 1965, <nil>
}

// Visitors of two days, and of both together: someone who came twice counts once.
func ExampleNewDistinct() {
	ctx := context.Background()
	days := mongotest.ExampleDatabase().Collection("days")
	visitors, err := approx.NewDistinct[string, int](days, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for visitor := range 3000 {
		day := "2024-05-01"
		if visitor >= 1000 {
			day = "2024-05-02"
		}
		for _, v := range []int{visitor, visitor / 2} {
			if err := visitors.Add(ctx, day, v); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	fmt.Println(visitors.Close(ctx))
	for _, day := range []string{"2024-05-01", "2024-05-02"} {
		e, err := visitors.Estimate(ctx, day)
		fmt.Printf("%s: %d, give or take %.0f, %v\n", day, e.Count, e.StdErr, err)
	}
	e, err := visitors.Union(ctx, nil)
	fmt.Printf("both: %d, give or take %.0f, %v\n", e.Count, e.StdErr, err)
	// Output:
	// <nil>
	// 2024-05-01: 1044, give or take 34, <nil>
	// 2024-05-02: 2400, give or take 78, <nil>
	// both: 2941, give or take 96, <nil>
}
