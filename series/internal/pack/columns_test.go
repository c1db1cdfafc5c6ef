package pack

import (
	"fmt"
	"testing"
)

// A row of many fields asks for each column once, and finds it without a look at the others:
// so rows of n fields are the work of n.
func TestManyColumns(t *testing.T) {
	const fields = 4000
	var table Table
	names := make([]string, fields)
	for i := range names {
		names[i] = fmt.Sprintf("field%d", i)
		table.Col(names[i], Double)
	}
	cols := table.Cols
	table.Cols = make([]*Col, fields) // which nobody can look at
	for i, name := range names {
		if table.Col(name, Double) != cols[i] {
			t.Fatal(name)
		}
	}
	for i := range names {
		for _, kind := range []Kind{Int32, Int64, Value} {
			if c := table.find(names[i], kind); c != nil {
				t.Fatal(names[i], kind)
			}
		}
	}
}
