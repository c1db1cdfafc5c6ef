//go:build !linux

package mongotest

// roomyMemory returns "", because this package knows no memory file system here.
func roomyMemory(uint64) string { return "" }
