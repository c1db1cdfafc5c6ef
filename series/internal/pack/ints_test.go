package pack

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestInts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(i int) int64{
		"zero": func(int) int64 { return 0 }, "constant": func(int) int64 { return 7 },
		"clock": func(i int) int64 { return 1e12 + int64(i)*60_000 + random.Int64N(200) },
		"walk":  func(i int) int64 { return random.Int64N(9) - 4 }, "steps": func(i int) int64 { return int64(i / 100) },
		"outliers": func(i int) int64 {
			if i%50 == 3 {
				return int64(random.Uint64())
			}
			return 5
		},
		"wild":  func(int) int64 { return int64(random.Uint64()) },
		"ends":  func(i int) int64 { return []int64{math.MinInt64, math.MaxInt64, 0, -1}[i%4] },
		"steep": func(i int) int64 { return int64(i) << 56 },
	} {
		for _, n := range []int{0, 1, 2, 3, 127, 128, 129, 256, 257, 1000} {
			xs := make([]int64, n)
			for i := range xs {
				xs[i] = next(i)
			}
			r := reader{data: appendInts(nil, xs)}
			if got := r.ints(nil, n); r.bad || len(r.data) != 0 || !slices.Equal(got, xs) {
				t.Fatalf("%s of %d: bad %v, %d left", name, n, r.bad, len(r.data))
			}
		}
	}
	// A jittering clock takes little more than the bits of its jitter.
	xs := make([]int64, 6400)
	for i := range xs {
		xs[i] = int64(i)*60_000 + random.Int64N(256)
	}
	if n := len(appendInts(nil, xs)); n > 6400*9/8+100*8 {
		t.Errorf("%d bytes for jitter of 8 bits", n)
	}
}
