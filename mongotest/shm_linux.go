package mongotest

import "syscall"

// roomyMemory returns the folder of the memory file system if it has this many
// bytes free, otherwise "".
func roomyMemory(need uint64) string {
	const dir = "/dev/shm"
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil || stat.Bavail*uint64(stat.Bsize) < need {
		return ""
	}
	return dir
}
