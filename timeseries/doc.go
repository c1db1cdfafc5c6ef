// Package timeseries has the words that packages bucket, series and slots share: how
// time is cut into windows, which numbers of a measurement are summed up, and what
// reading the sums gives. It does no I/O.
//
// # Windows
//
// All three packages keep one document for a [Window] of a series: an hour, a day, a
// month.
//
//	timeseries.Every(time.Hour)     // of one length, counted from 1970 in UTC
//	timeseries.Days(berlin)         // calendar days, of 23 and 25 hours twice a year
//	timeseries.Months(nil)          // calendar months in UTC
//
// A measurement belongs to the window of its own time, however late it comes. A range
// holds its first instant and not its last one. All programs that write a collection
// must use the same window, and it cannot be changed later.
//
// # Values
//
// A [Value] names a number in each measurement and the fields of the window's document
// that hold its sum, its extremes and the like. With the field alone, all usual ones are
// kept below stats:
//
//	timeseries.Value{Field: "temperature"}
//	// stats: {temperature: {count: 120, sum: 4830.5, squares: 194512.25, min: 39.5, max: 41.5}}
//
// With names, exactly those are kept, as an existing collection may have them:
//
//	timeseries.Value{Field: "temperature", Sum: "sum_temperature"}
//
// # Stats
//
// Aggregate of bucket and series gives [Stats]: the count of the measurements, and
// [ValueStats] of each Value, with [ValueStats.Mean], [ValueStats.Variance] and
// [ValueStats.StdDev]. A [Number] keeps the type and the digits that are stored.
//
// # Measurements of one series
//
// AppendMany and SetMany take measurements of any series in any order, as pairs. [Of]
// makes them of one series:
//
//	_, err = buckets.AppendMany(ctx, timeseries.Of(12345, readings...), nil)
package timeseries
