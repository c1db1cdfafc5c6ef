package pack_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

var golden = flag.Bool("golden", false, "add the blocks of this version to testdata/golden.txt")

// tables are what the golden blocks hold. Never change one: add another.
func tables() map[string]*pack.Table {
	out := map[string]*pack.Table{}
	make := func(name string, rows int, row func(i int) bson.D) {
		t := new(pack.Table)
		for i := range rows {
			t.Times = append(t.Times, 1_700_000_000_000+int64(i)*60_000+int64(i*i%7))
			raw, err := bson.Marshal(row(i))
			if err != nil {
				panic(err)
			}
			elements, _ := bson.Raw(raw).Elements()
			for _, e := range elements {
				t.Set(e.Key(), e.Value())
			}
		}
		out[name] = t
	}
	r := rand.New(rand.NewPCG(1, 2))
	noise := func() float64 { return math.Float64frombits(r.Uint64()&^(0x7ff<<52) | uint64(1000+r.IntN(50))<<52) }
	make("one", 1, func(int) bson.D { return bson.D{{Key: "v", Value: 21.5}} })
	make("numbers", 300, func(i int) bson.D {
		return bson.D{{Key: "a", Value: float64(i%50) / 10}, {Key: "b", Value: int32(i * i)}, {Key: "c", Value: int64(i) << 40}, {Key: "d", Value: bson.DateTime(i)},
			{Key: "e", Value: 1 / float64(i+1)}, {Key: "f", Value: -float64(i)}}
	})
	make("noise", 200, func(int) bson.D { return bson.D{{Key: "v", Value: noise()}} })
	make("some", 150, func(i int) bson.D {
		if i%3 == 0 {
			return bson.D{{Key: "rare", Value: int32(i)}}
		}
		return bson.D{{Key: "often", Value: i%2 == 0}, {Key: "odd", Value: math.Inf(1 - i%3)}}
	})
	make("labels", 200, func(i int) bson.D { return bson.D{{Key: "state", Value: []string{"open", "closed", ""}[i%3]}} })
	make("texts", 60, func(i int) bson.D {
		return bson.D{{Key: "message", Value: fmt.Sprintf("the pump number %d has stopped at a pressure of %d bar", i%7, i)}, {Key: "mixed", Value: []any{"x", int32(1), nil, bson.D{{Key: "k", Value: i}}}[i%4]}}
	})
	return out
}

func goldenRows(t *pack.Table) (out [][]byte) {
	for _, doc := range t.Documents("t", nil, 0, len(t.Times)) {
		out = append(out, bytes.Clone(doc))
	}
	return out
}

// sorted are the fields of a row: the order of columns may differ.
func sorted(doc []byte) (out []string) {
	elements, _ := bson.Raw(doc).Elements()
	for _, e := range elements {
		out = append(out, string(e))
	}
	slices.Sort(out)
	return out
}

// Blocks that were written once are read by every later version.
func TestGolden(t *testing.T) {
	const path = "testdata/golden.txt"
	want := tables()
	if *golden {
		var out strings.Builder
		for _, name := range []string{"one", "numbers", "noise", "some", "labels", "texts"} {
			data := want[name].Encode("place")
			fmt.Fprintf(&out, "%d %s %s\n", data[0], name, hex.EncodeToString(data))
		}
		old, _ := os.ReadFile(path)
		if err := os.WriteFile(path, append(old, out.String()...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(file)) {
		fields := strings.Fields(line)
		data, err := hex.DecodeString(fields[2])
		if err != nil || want[fields[1]] == nil {
			t.Fatal(fields[:2], err)
		}
		var got pack.Table
		if err := got.Add(data, "place"); err != nil {
			t.Errorf("version %s, %s: %v", fields[0], fields[1], err)
			continue
		}
		a, b := goldenRows(&got), goldenRows(want[fields[1]])
		if len(a) != len(b) {
			t.Fatalf("version %s, %s: %d rows of %d", fields[0], fields[1], len(a), len(b))
		}
		for i := range a {
			if !slices.Equal(sorted(a[i]), sorted(b[i])) {
				t.Fatalf("version %s, %s, row %d: %v, want %v", fields[0], fields[1], i, bson.Raw(a[i]), bson.Raw(b[i]))
			}
		}
		seen++
	}
	if seen < len(want) {
		t.Errorf("%d blocks for %d tables", seen, len(want))
	}
}

// What does not pack takes its bytes, ten for the head of each run of 128, and a constant.
func TestIncompressible(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(r.Uint32())
		}
		return out
	}
	text := func(n int) string {
		out := random(n)
		for i, b := range out {
			out[i] = b & 0x7f
		}
		return string(out)
	}
	for name, c := range map[string]struct {
		most  int
		value func() any
	}{
		"texts":           {24, func() any { return text(24) }},
		"many come again": {2, func() any { return text(2) }},
		"binaries":        {5 + 24, func() any { return bson.Binary{Data: random(24)} }},
		"object IDs":      {12, func() any { return bson.ObjectID(random(12)) }},
		"decimals":        {16, func() any { return bson.NewDecimal128(r.Uint64()>>16, r.Uint64()) }},
		"doubles":         {8, func() any { return math.Float64frombits(r.Uint64() &^ (1 << 62)) }},
		"int64":           {8, func() any { return int64(r.Uint64()) }},
		"int32":           {4, func() any { return int32(r.Uint32()) }},
	} {
		for _, rows := range []int{1, 10, 300, 8192} {
			var table pack.Table
			for i := range rows {
				table.Times = append(table.Times, int64(i))
				raw, _ := bson.Marshal(bson.D{{Key: "v", Value: c.value()}})
				table.Set("v", bson.Raw(raw).Lookup("v"))
			}
			data := table.Encode("p")
			if got := len(data); got > rows*c.most+(rows+127)/128*10+40 {
				t.Errorf("%s: %d bytes for %d rows of %d", name, got, rows, c.most)
			}
			var back pack.Table
			if err := back.Add(data, "p"); err != nil || !slices.EqualFunc(goldenRows(&back), goldenRows(&table), slices.Equal) {
				t.Errorf("%s: %v, or other values came back", name, err)
			}
		}
	}
}
