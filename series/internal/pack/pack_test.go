package pack_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// rows are documents as a table gives them back: the time first.
type rows []bson.Raw

func (all rows) table() *pack.Table {
	var t pack.Table
	for _, doc := range all {
		elements, _ := doc.Elements()
		t.Times = append(t.Times, elements[0].Value().DateTime())
		for _, e := range elements[1:] {
			t.Set(e.Key(), e.Value())
		}
	}
	return &t
}

func documents(t *pack.Table) (out rows) {
	for _, doc := range t.Documents("t", nil, 0, len(t.Times)) {
		out = append(out, slices.Clone(doc))
	}
	return out
}

// same compares documents without the order of their fields.
func same(t *testing.T, what string, want, got rows) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if a, b := fields(want[i]), fields(got[i]); !maps.Equal(a, b) {
			t.Fatalf("%s: row %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func fields(doc bson.Raw) map[string]string {
	out := map[string]string{}
	elements, _ := doc.Elements()
	for _, e := range elements {
		out[e.Key()] = fmt.Sprint(e.Value().Type, e.Value().Value)
	}
	return out
}

func random(r *rand.Rand, n int) (out rows) {
	values := []func(i int) any{
		func(int) any { return float64(r.IntN(400)-100) / 10 }, func(i int) any { return int32(i) },
		func(i int) any { return int64(i) << 33 }, func(int) any { return r.NormFloat64() },
		func(int) any { return fmt.Sprint("s", r.IntN(3)) }, func(i int) any { return bson.D{{Key: "a", Value: i % 2}} },
		func(int) any {
			return []any{nil, true, math.NaN(), math.Inf(-1), math.Copysign(0, -1), 1e300}[r.IntN(6)]
		},
		func(i int) any { return bson.DateTime(i * 1000) },
	}
	for i := range n {
		doc := bson.D{{Key: "t", Value: bson.DateTime(1e12 + int64(i)*1000 + r.Int64N(3000))}}
		for f := range 9 {
			if kind := (f + r.IntN(30)/29) % len(values); f < 3 || r.IntN(f) < 3 {
				doc = append(doc, bson.E{Key: string(rune('a' + f)), Value: values[kind](i)})
			}
		}
		raw, err := bson.Marshal(doc)
		if err != nil {
			panic(err)
		}
		out = append(out, raw)
	}
	return out
}

// Everything comes back with its type and bits: whole, in several blocks,
// and sorted.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		n = n * n / 6
		all := random(r, n)
		var whole, blocks pack.Table
		if err := whole.Add(all.table().Encode("p"), "p"); err != nil {
			t.Fatal(err)
		}
		same(t, "whole", all, documents(&whole))
		for part := range slices.Chunk(all, 1+n/3) {
			if err := blocks.Add(part.table().Encode("p"), "p"); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "blocks", all, documents(&blocks))
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b bson.Raw) int { return int(a.Lookup("t").DateTime() - b.Lookup("t").DateTime()) })
		blocks.Sort()
		same(t, "sorted", sorted, documents(&blocks))
		if n > 0 {
			row := r.IntN(n)
			blocks.Delete(row)
			same(t, "deleted", slices.Delete(sorted, row, row+1), documents(&blocks))
		}
	}
}

// Sums are those of the decimals as they print, in whatever order and batches.
func TestTally(t *testing.T) {
	numbers := []any{0.1, 0.2, int32(3), int64(1) << 60, 21.375, 1.0 / 3, math.NaN(), math.Inf(1), "text", mustDecimal(t, "0.3"), -2.5}
	var want *pack.Tally
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		var table pack.Table
		for i, v := range numbers {
			raw, _ := bson.Marshal(bson.D{{Key: "v", Value: v}})
			table.Times = append(table.Times, int64(i))
			table.Set("v", bson.Raw(raw).Lookup("v"))
		}
		got, part := table.Tally("v", 0, 5, pack.Sum|pack.Squares|pack.Extremes), table.Tally("v", 5, len(numbers), pack.Sum|pack.Squares|pack.Extremes)
		got.Count += part.Count
		got.Sum.AddDecimal(part.Sum.Decimal())
		got.Squares.AddDecimal(part.Squares.Decimal())
		if got.Count != 8 || got.Sum.Decimal().String() != "1152921504606846998.808333333333333" {
			t.Fatalf("%d, %v", got.Count, got.Sum.Decimal())
		}
		all := table.Tally("v", 0, len(numbers), pack.Sum|pack.Squares|pack.Extremes)
		if all.Min.String() != "-2.5" || all.Max.Raw().Int64() != 1<<60 {
			t.Fatalf("%v to %v", all.Min, all.Max)
		}
		if want == nil {
			want = all
		}
		if all.Squares.Decimal() != want.Squares.Decimal() {
			t.Fatal(all.Squares.Decimal(), want.Squares.Decimal())
		}
	}
}

func mustDecimal(t *testing.T, text string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every flipped bit and every cut is found by the checksum.
func TestDamage(t *testing.T) {
	data := random(rand.New(rand.NewPCG(5, 6)), 20).table().Encode("p")
	for i := range data {
		for _, bad := range [][]byte{data[:i], append(bytes.Clone(data[:i]), data[i]^1)} {
			if len(bad) == i+1 {
				bad = append(bad, data[i+1:]...)
			}
			if err := new(pack.Table).Add(bad, "p"); !errors.Is(err, pack.ErrDamaged) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
}

// forged is a binary of n rows at time 0 with these segments.
func forged(n int, segments ...[]byte) []byte {
	out := append(binary.AppendUvarint([]byte{3}, uint64(n)), 0, 0, 0)
	out = slices.Concat(append(out, zeros(n)...), slices.Concat(segments...))
	return binary.LittleEndian.AppendUint32(out, crc32.Update(crc32.Checksum(out, castagnoli), castagnoli, []byte("p")))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// zeros are n packed integers, a byte for 128 of them.
func zeros(n int) []byte { return make([]byte, 1+(n+127)/128) }

// Binaries that were made by hand take little memory, however much they claim to hold. They are read as far as they may
// hold what they say, alone and together.
func TestForged(t *testing.T) {
	const rows, segments, most = 1 << 20, 1 << 8, 512 << 20
	var numbers, dictionaries, absent [][]byte
	for i := range segments {
		name := []byte{2, byte('a' + i/26), byte('a' + i%26)}
		numbers = append(numbers, append(append(slices.Clone(name), byte(pack.Int64), 0), zeros(rows)...))
		dict := binary.AppendUvarint(append(slices.Clone(name), byte(pack.Value), 0), rows)
		dict = append(append(dict, 0, byte(bson.TypeNull)), zeros(rows)...) // of one type, without bytes
		dictionaries = append(dictionaries, append(dict, 0, 0))
		absent = append(absent, append(append(slices.Clone(name), byte(pack.Int32), 2, 0), zeros(rows)...)) // all but none
	}
	one := forged(rows, numbers[:3]...)
	for name, blocks := range map[string][][]byte{
		"numbers": {forged(rows, numbers...)}, "dictionaries": {forged(rows, dictionaries...)}, "rows": {forged(rows, absent...)},
		"one after the other": slices.Repeat([][]byte{one}, segments),
	} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var table pack.Table
		var err error
		for _, block := range blocks {
			if err = table.Add(block, "p"); err != nil {
				break
			}
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, pack.ErrDamaged) || took > most {
			t.Errorf("%s: %d MiB, %v", name, took>>20, err)
		}
	}
	var table pack.Table
	if err := table.Add(forged(rows, numbers[:15]...), "p"); err != nil { // a document of the largest size
		t.Fatal(err)
	}
	table.Begin()
	if err := table.Add(forged(rows), "p"); err != nil || len(table.Times) != 2*rows {
		t.Errorf("%d rows, %v", len(table.Times), err)
	}
}

// A value that no row has any more leaves the dictionary with its last row.
func TestDeletedValue(t *testing.T) {
	var table pack.Table
	text := func(i int) bson.RawValue {
		kind, data, err := bson.MarshalValue(fmt.Sprint("text ", i%3))
		if err != nil {
			t.Fatal(err)
		}
		return bson.RawValue{Type: kind, Value: data}
	}
	for i := range 6 {
		table.Times = append(table.Times, int64(i))
		table.Set("v", text(i))
	}
	for i, want := range []int{3, 3, 3, 2, 1} {
		if table.Delete(0); len(table.Cols[0].Dict) != want {
			t.Errorf("after %d: %d values", i, len(table.Cols[0].Dict))
		}
	}
	table.Times = append(table.Times, 6)
	table.Set("v", text(0))
	all := documents(&table)
	if len(all) != 2 || all[0].Lookup("v").StringValue() != "text 2" || all[1].Lookup("v").StringValue() != "text 0" {
		t.Error(all)
	}
}

// What has a right checksum and is damaged all the same is an error or readable: never
// a panic, and never much more memory than it has bytes.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 3, 70, 200} {
		data := random(r, n).table().Encode("p")
		f.Add(data[:len(data)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data := binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, castagnoli))
		var table pack.Table
		if err := table.Add(data, "p"); errors.Is(err, pack.ErrDamaged) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if len(table.Times) > 128*len(data) {
			t.Fatalf("%d rows of %d bytes", len(table.Times), len(data))
		}
		table.Sort()
		for range table.Documents("t", nil, 0, len(table.Times)) {
		}
		for _, c := range table.Cols {
			table.Tally(c.Name, 0, len(table.Times), pack.Sum|pack.Squares|pack.Extremes|pack.Samples)
		}
		var again pack.Table
		if err := again.Add(table.Encode("p"), "p"); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 10))
	var t pack.Table
	c := []*pack.Col{t.Col("temperature", pack.Double), t.Col("pressure", pack.Double), t.Col("wind", pack.Double)}
	for i := range 43200 {
		t.Times = append(t.Times, 1e12+int64(i)*60000+r.Int64N(200))
		t.Float(c[0], math.Round(100+80*math.Sin(float64(i)/5000)+2*r.NormFloat64())/10)
		t.Float(c[1], math.Round(10166+20*math.Sin(float64(i)/9000)+r.NormFloat64())/10)
		t.Float(c[2], math.Round(40+20*math.Sin(float64(i)/700)+3*r.NormFloat64())/10)
	}
	data := t.Encode("p")
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			t.Encode("p")
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/43200, "ns/row")
		b.ReportMetric(float64(len(data))/43200, "B/row")
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			new(pack.Table).Add(data, "p")
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/43200, "ns/row")
	})
	b.Run("tally", func(b *testing.B) {
		for b.Loop() {
			for _, c := range t.Cols {
				t.Tally(c.Name, 0, 43200, pack.Sum|pack.Squares|pack.Extremes)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/43200, "ns/row")
	})
}

// What a table holds are its times and values, and of each value that a dictionary has once, its bytes by eighths and some more.
func TestHolds(t *testing.T) {
	text := func(s string) bson.RawValue { return bson.RawValue{Type: bson.TypeString, Value: []byte(s)} }
	var all pack.Table
	for i, s := range []string{"0123456789abcdef", "0123456789abcdef", "01234567"} {
		all.Times = append(all.Times, int64(i))
		all.Set("n", bson.RawValue{Type: bson.TypeInt32, Value: make([]byte, 4)})
		all.Set("s", text(s))
	}
	all.Set("v", bson.RawValue{Type: bson.TypeDouble, Value: make([]byte, 8)}) // the last row alone
	if got, want := all.Holds(), 3+3+3+1+(8+2)+(8+1); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}
