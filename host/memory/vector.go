package memory

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/agenthost/agenthost/host/llm"
)

// vector is a direction: a vector of length 1, with a byte for each of its numbers. A number
// is its byte times the scale. Bytes take a quarter of the memory of float32, and what they
// lose is far below the differences between the models that texts are embedded with.
type vector struct {
	scale  float32
	values []int8
}

// vectorOf returns the direction of v; of zero numbers for one that has none.
func vectorOf(v []float32) vector {
	square, largest := 0.0, 0.0
	for _, x := range v {
		f := float64(x)
		square, largest = square+f*f, max(largest, math.Abs(f))
	}
	out := vector{values: make([]int8, len(v))}
	if square == 0 || math.IsInf(square, 0) {
		return out
	}
	for i, x := range v {
		out.values[i] = int8(math.Round(float64(x) / largest * math.MaxInt8))
	}
	out.scale = float32(largest / math.MaxInt8 / math.Sqrt(square))
	return out
}

// floats returns the numbers of the direction.
func (v vector) floats() []float32 {
	out := make([]float32, len(v.values))
	for i, x := range v.values {
		out[i] = float32(x) * v.scale
	}
	return out
}

// product returns the sum of the products of two lists of one length. Four sums at once do
// not wait for each other.
func product(a, b []int8) int32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 int32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += int32(a[i]) * int32(b[i])
		s1 += int32(a[i+1]) * int32(b[i+1])
		s2 += int32(a[i+2]) * int32(b[i+2])
		s3 += int32(a[i+3]) * int32(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

// fingerprint stands for the name of an embedder in the entries of vectors.
type fingerprint [8]byte

func fingerprintOf(text string) (f fingerprint) {
	sum := sha256.Sum256([]byte(text))
	copy(f[:], sum[:])
	return f
}

// The entry of a vector: its version, the fingerprints of the embedder and of the text, the
// scale, and a byte for each number.
const (
	vectorVersion = 1
	vectorHead    = 1 + 8 + 8 + 4
)

func encodeVector(of fingerprint, text string, v vector) []byte {
	textPrint := fingerprintOf(text)
	b := make([]byte, 0, vectorHead+len(v.values))
	b = append(append(append(b, vectorVersion), of[:]...), textPrint[:]...)
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(v.scale))
	for _, x := range v.values {
		b = append(b, byte(x))
	}
	return b
}

// decodeVector reads the entry of a vector of an embedder. Entries of others, and of other
// versions, are as good as none.
func decodeVector(b []byte, of fingerprint) (v vector, text fingerprint, ok bool) {
	if len(b) <= vectorHead || len(b) > vectorHead+llm.MaxDimensions || b[0] != vectorVersion || fingerprint(b[1:9]) != of {
		return vector{}, text, false
	}
	v.scale = math.Float32frombits(binary.BigEndian.Uint32(b[17:vectorHead]))
	if f := float64(v.scale); math.IsNaN(f) || math.IsInf(f, 0) {
		return vector{}, text, false
	}
	v.values = make([]int8, len(b)-vectorHead)
	for i, x := range b[vectorHead:] {
		v.values[i] = int8(x)
	}
	return v, fingerprint(b[9:17]), true
}
