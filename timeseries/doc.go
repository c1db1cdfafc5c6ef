// Package timeseries has the types that packages bucket, series and slots share: windows of time, the
// numbers of a measurement to aggregate, and the aggregates that are read. It does no I/O.
//
// # Windows
//
// All three packages store the measurements of a series in documents that each cover a [Window] of time,
// such as an hour, a day or a month.
//
//	berlin, err := time.LoadLocation("Europe/Berlin")
//
//	timeseries.Every(time.Hour)     // of one length, counted from 1970 in UTC
//	timeseries.Days(berlin)         // calendar days, of 23 and 25 hours twice a year
//	timeseries.Months(nil)          // calendar months in UTC
//
// For weeks or shifts, write a Window of your own, which is one method.
//
// A measurement belongs to the window that holds its time, in milliseconds, however late it arrives. A
// range includes its first instant and excludes its last. A zero time sets no limit.
//
// All programs that write a collection must use the same window. It cannot be changed later, because
// reads would miss documents, which Check reports. For another window, append what Range yields to a
// new collection.
//
// # Values
//
// A [Value] names a number in each measurement, and the fields of the window's document that hold its sum,
// minimum, maximum and other aggregates. Packages bucket and series keep them, but slots does not. With
// only Field, the document keeps the usual five below stats:
//
//	timeseries.Value{Field: "temperature"}
//	// stats: {temperature: {count: 120, sum: 4830.5, squares: 194512.25, min: 39.5, max: 41.5}}
//
// If it names fields, the document keeps exactly those, as an existing collection may have them:
//
//	timeseries.Value{Field: "temperature", Sum: "sum_temperature"}
//
// # Stats
//
// Aggregate of bucket and series returns [Stats]: the count of the measurements and, for each Value,
// [ValueStats] with [ValueStats.Mean], [ValueStats.Variance] and [ValueStats.StdDev], which are NaN if the
// sums that they need are not kept.
//
// A [Number] keeps the type and the digits that are stored; [Number.Float64] converts it.
//
// # Measurements of one series
//
// AppendMany and SetMany take pairs of a series and a measurement, in any order. [Of] makes such pairs for
// one series:
//
//	_, err = buckets.AppendMany(ctx, timeseries.Of(12345, readings...), nil)
package timeseries
