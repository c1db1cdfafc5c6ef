//go:build !linux

package mongotest

// roomyMemory: no memory file system is known here.
func roomyMemory(uint64) string { return "" }
