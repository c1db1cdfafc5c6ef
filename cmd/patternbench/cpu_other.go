//go:build !unix

package main

// clientCPU is not known here.
func clientCPU() float64 { return nan }
