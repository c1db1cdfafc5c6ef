// Package series keeps measurements as packed blocks, one document for a window of a
// series.
package series
