package data_test

import (
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/examples/data"
)

func TestEverythingIsThere(t *testing.T) {
	airports, err := data.Airports()
	if err != nil || len(airports) != 3376 {
		t.Errorf("%d airports, %v", len(airports), err)
	}
	seen := map[string]data.Airport{}
	for _, airport := range airports {
		if _, twice := seen[airport.IATA]; twice || airport.IATA == "" {
			t.Errorf("airport code %q twice or empty", airport.IATA)
		}
		seen[airport.IATA] = airport
	}
	if got, want := seen["ATL"].City, "Atlanta"; got != want {
		t.Errorf("ATL lies in %q, want %q", got, want)
	}
	routes, err := data.Routes()
	if err != nil || len(routes) != 5366 {
		t.Errorf("%d routes, %v", len(routes), err)
	}
	for _, route := range routes {
		if route.Flights <= 0 {
			t.Errorf("route %v without flights", route)
		}
	}
	weather, err := data.SeattleWeather()
	if err != nil || len(weather) != 8759 {
		t.Errorf("%d hours of weather, %v", len(weather), err)
	}
	for i, hour := range weather[1:] {
		if hour.Time.Sub(weather[i].Time) != time.Hour {
			t.Errorf("%s follows %s", hour.Time, weather[i].Time)
		}
	}
}
