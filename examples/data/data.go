// Package data holds the real data of the examples, compressed into the
// program: airports and flights of the United States and a year of Seattle's
// hourly weather. README.md beside it names the sources.
package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"time"
)

//go:embed airports.csv.gz
var airportsFile []byte

//go:embed flights-airport.csv.gz
var routesFile []byte

//go:embed seattle-weather-hourly-normals.csv.gz
var weatherFile []byte

// Airport is a row of the airports. City and State are "NA" where unknown.
type Airport struct {
	IATA, Name, City, State, Country string
	Latitude, Longitude              float64
}

// Route is the number of flights from one airport to another in 2008.
type Route struct {
	Origin, Destination string // IATA codes
	Flights             int
}

// Weather is what an hour of the year is normally like in Seattle.
type Weather struct {
	Time        time.Time // local standard time, kept as UTC
	Pressure    float64   // hPa
	Temperature float64   // °C
	Wind        float64   // m/s
}

// Airports returns the airports by IATA code.
func Airports() ([]Airport, error) {
	return read(airportsFile, 7, func(row row) Airport {
		return Airport{
			IATA: row.text(0), Name: row.text(1), City: row.text(2), State: row.text(3), Country: row.text(4),
			Latitude: row.float(5), Longitude: row.float(6),
		}
	})
}

// Routes returns the routes by origin and destination.
func Routes() ([]Route, error) {
	return read(routesFile, 3, func(row row) Route {
		return Route{Origin: row.text(0), Destination: row.text(1), Flights: row.int(2)}
	})
}

// SeattleWeather returns the hours in order.
func SeattleWeather() ([]Weather, error) {
	return read(weatherFile, 4, func(row row) Weather {
		return Weather{Time: row.time(0), Pressure: row.float(1), Temperature: row.float(2), Wind: row.float(3)}
	})
}

// row is one record; the first field that cannot be read sets err.
type row struct {
	fields []string
	err    *error
}

func read[T any](file []byte, columns int, parse func(row) T) ([]T, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	reader := csv.NewReader(unzip)
	reader.FieldsPerRecord = columns
	records, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	out := make([]T, 0, len(records)-1)
	for i, fields := range records[1:] { // the first is the header
		var bad error
		out = append(out, parse(row{fields, &bad}))
		if bad != nil {
			return nil, fmt.Errorf("data: row %d: %w", i+1, bad)
		}
	}
	return out, nil
}

func (r row) text(i int) string { return r.fields[i] }

func (r row) float(i int) float64 {
	v, err := strconv.ParseFloat(r.fields[i], 64)
	r.fail(err)
	return v
}

func (r row) int(i int) int {
	v, err := strconv.Atoi(r.fields[i])
	r.fail(err)
	return v
}

func (r row) time(i int) time.Time {
	v, err := time.Parse("2006-01-02T15:04:05", r.fields[i])
	r.fail(err)
	return v
}

func (r row) fail(err error) {
	if err != nil && *r.err == nil {
		*r.err = err
	}
}
