//go:build unix

package main

import "syscall"

// clientCPU is the CPU time that this process has used, in µs.
func clientCPU() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return nan
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1000
}
