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

// A second table says what the collections of the first one are.
func TestCollections(t *testing.T) {
	rows := testkit.Value[[][]string](t)(csv.NewReader(bytes.NewReader(testkit.Value[[]byte](t)(os.ReadFile("docs/privileges-collections.csv")))).ReadAll())
	explained, named := map[[2]string]bool{}, map[[2]string]bool{}
	for _, row := range rows[1:] {
		explained[[2]string{row[0], row[1]}] = true
	}
	for call, rights := range read(t) {
		for coll := range rights {
			if of, _, _ := strings.Cut(call, "."); coll != "" {
				named[[2]string{of, coll}] = true
			}
		}
	}
	if !maps.Equal(explained, named) {
		t.Errorf("%v are explained, and %v named", explained, named)
	}
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
