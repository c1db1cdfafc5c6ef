package pack

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A dictionary has the distinct values of a column, or the values of all its rows:
//
//	number    of values
//	types     0 and the type of all, or 1 and the type of each
//	lengths   packed integers: those of the bytes
//	bytes     0 and the bytes of all, or 1, their number, and the bytes compressed (deflate);
//	          a string is its text, without the length and the zero byte of BSON
//
// The places of the rows follow: 0 if each row has the next value, or 1 and packed integers.
const (
	alike  = 0
	differ = 1

	leastDeflated = 128          // bytes; fewer hardly become smaller
	mostBytes     = 8 * MostHeld // of a dictionary
)

// appendValues writes a column of values. If few values repeat, it may be smaller to write every value than
// distinct values with a place for each row.
func (c *Col) appendValues(out []byte) []byte {
	few := len(c.Dict) > len(c.Ints)/2 && len(c.Dict) < len(c.Ints)
	begin := len(out)
	out = appendPlaces(appendDict(out, c.Dict), c.Ints)
	if !few {
		return out
	}
	all := make([]bson.RawValue, len(c.Ints))
	for i, at := range c.Ints {
		all[i] = c.Dict[at]
	}
	if each := append(appendDict(nil, all), alike); len(each) < len(out)-begin {
		out = append(out[:begin], each...)
	}
	return out
}

func appendDict(out []byte, dict []bson.RawValue) []byte {
	out = binary.AppendUvarint(out, uint64(len(dict)))
	if slices.ContainsFunc(dict, func(v bson.RawValue) bool { return v.Type != dict[0].Type }) {
		out = append(out, differ)
		for _, v := range dict {
			out = append(out, byte(v.Type))
		}
	} else {
		out = append(out, alike, byte(dict[0].Type))
	}
	lengths, total := make([]int64, len(dict)), 0
	for i, v := range dict {
		lengths[i] = int64(len(content(v)))
		total += len(content(v))
	}
	out = appendInts(out, lengths)
	all := make([]byte, 0, total)
	for _, v := range dict {
		all = append(all, content(v)...)
	}
	if small := deflate(all); small != nil {
		return append(binary.AppendUvarint(append(out, differ), uint64(len(small))), small...)
	}
	return append(append(out, alike), all...)
}

// content is the bytes of a value without those that follow from its type and length.
func content(v bson.RawValue) []byte {
	if v.Type == bson.TypeString && len(v.Value) >= 5 {
		return v.Value[4 : len(v.Value)-1]
	}
	return v.Value
}

func appendPlaces(out []byte, places []int64) []byte {
	for i, at := range places {
		if at != int64(i) {
			return appendInts(append(out, differ), places)
		}
	}
	return append(out, alike)
}

var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, deflateLevel)
	return w
}}

const deflateLevel = 5

// deflate compresses the bytes. It is nil if they do not become smaller by a sixteenth, because less is not
// worth the time to read them.
func deflate(all []byte) []byte {
	if len(all) < leastDeflated {
		return nil
	}
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	out := bytes.NewBuffer(make([]byte, 0, len(all)/2))
	w.Reset(out)
	if _, err := w.Write(all); err != nil || w.Close() != nil || out.Len() > len(all)-len(all)/16 {
		return nil
	}
	return out.Bytes()
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// inflate decompresses to total bytes; nil if there are fewer or more.
func inflate(small []byte, total int) []byte {
	in := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(in)
	if err := in.(flate.Resetter).Reset(bytes.NewReader(small), nil); err != nil {
		return nil
	}
	out := make([]byte, total)
	if _, err := io.ReadFull(in, out); err != nil {
		return nil
	}
	if n, err := in.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil
	}
	return out
}

// dict reads a dictionary, whose values must be valid.
func (r *reader) dict() []bson.RawValue {
	n := r.size()
	if r.claim(distinct * n); r.bad || n == 0 {
		r.bad = true
		return nil
	}
	var types []byte
	switch r.byte() {
	case alike:
		types = bytes.Repeat([]byte{r.byte()}, n)
	case differ:
		types = r.take(n)
	default:
		r.bad = true
	}
	lengths := r.ints(nil, n)
	total := int64(0)
	for _, length := range lengths {
		if total += length; length < 0 || length > mostBytes || total > mostBytes {
			r.bad = true
			return nil
		}
	}
	if r.claim(int(total / 8)); r.bad {
		return nil
	}
	var all []byte
	switch r.byte() {
	case alike:
		all = r.take(int(total))
	case differ:
		small := r.take(r.length())
		if total > int64(len(small))*1100 { // deflate makes a byte of 1,032 at most
			r.bad = true
			return nil
		}
		all = inflate(small, int(total))
	}
	if all == nil && total > 0 {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	out := make([]bson.RawValue, n)
	for i, length := range lengths {
		v := bson.RawValue{Type: bson.Type(types[i]), Value: all[:length:length]}
		all = all[length:]
		if v.Type == bson.TypeString {
			text := binary.LittleEndian.AppendUint32(make([]byte, 0, length+5), uint32(length+1))
			v.Value = append(append(text, v.Value...), 0)
		}
		if v.Validate() != nil {
			r.bad = true
			return nil
		}
		out[i] = v
	}
	return out
}

// places reads which values of a dictionary rows have.
func (r *reader) places(xs []int64, size, values int) []int64 {
	switch r.byte() {
	case alike:
		if r.claim(size); r.bad || size > values {
			r.bad = true
			return xs
		}
		for i := range size {
			xs = append(xs, int64(i))
		}
		return xs
	case differ:
		return r.ints(xs, size)
	}
	r.bad = true
	return xs
}
