// Package bucket stores measurements in buckets.
package bucket
