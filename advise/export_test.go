package advise

// Rows are the measurements that findings rest on.
func Rows() []Row { return rows }
