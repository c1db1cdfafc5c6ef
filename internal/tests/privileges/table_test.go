package privileges

import (
	"bytes"
	"encoding/csv"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

const table = "docs/privileges.csv"

var head = []string{"package", "actions on collections", "calls"}

// read returns the rights of each method, as the table names them.
func read(t *testing.T) map[string]testkit.Rights {
	t.Helper()
	rows := testkit.Value[[][]string](t)(csv.NewReader(bytes.NewReader(testkit.Value[[]byte](t)(os.ReadFile(table)))).ReadAll())
	out := map[string]testkit.Rights{}
	for _, row := range rows[1:] {
		for call := range strings.FieldsSeq(row[2]) {
			out[row[0]+"."+call] = testkit.ParseRights(row[1])
		}
	}
	return out
}

// write writes the rights that were found. The calls of a package that need the same ones are in one row.
func write(t *testing.T, found map[string]testkit.Rights) {
	t.Helper()
	calls := map[[2]string][]string{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		of, call, _ := strings.Cut(name, ".")
		key := [2]string{of, found[name].String()}
		calls[key] = append(calls[key], call)
	}
	rows := [][]string{head}
	for _, key := range slices.SortedFunc(maps.Keys(calls), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		rows = append(rows, []string{key[0], key[1], strings.Join(calls[key], " ")})
	}
	var out bytes.Buffer
	testkit.OK(t, csv.NewWriter(&out).WriteAll(rows))
	testkit.OK(t, os.WriteFile(table, out.Bytes(), 0o644))
}
