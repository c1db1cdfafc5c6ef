package number

var Shortest = shortest

// Add128 adds an integer of 128 bits × 10^-places.
func (s *Sum) Add128(high int64, low uint64, places int) {
	s.add(int192{high >> 63, uint64(high), low}, places)
}

// Add192 adds an integer of 192 bits, the lowest first, × 10^-places.
func (s *Sum) Add192(x [3]uint64, places int) { s.add(int192{int64(x[2]), x[1], x[0]}, places) }
