package wasmmeter

import (
	"fmt"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// This file reads bytes, numbers and names of the WebAssembly binary format.

// reader walks bytes. The first error stays in err, and from then on every method
// returns zero, so that callers check once, after a group of reads.
type reader struct {
	b   []byte
	pos int
	end int
	err error
}

// fail records an error, with the position where it was found.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = refusal.Invalid("the module is damaged at byte %d: %s", r.pos, fmt.Sprintf(format, args...)).
			WithHint("rebuild it, or fetch it again and compare its digest")
	}
	r.pos = r.end
}

func (r *reader) left() int { return r.end - r.pos }

func (r *reader) byte(what string) byte {
	if r.pos >= r.end {
		r.fail("it ends where %s should be", what)
		return 0
	}
	b := r.b[r.pos]
	r.pos++
	return b
}

// take returns the next n bytes.
func (r *reader) take(n uint32, what string) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail("%s is said to have %d bytes, but %d are left", what, n, r.left())
		return nil
	}
	b := r.b[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 reads an unsigned number of at most 32 bits.
func (r *reader) u32(what string) uint32 {
	v, n := leb32(r.b[r.pos:r.end])
	if n == 0 {
		r.fail("%s is not a 32-bit number", what)
		return 0
	}
	r.pos += n
	return v
}

// s32 and s64 read signed numbers.
func (r *reader) s32(what string) int32 { return int32(r.signed(32, what)) }
func (r *reader) s64(what string) int64 { return r.signed(64, what) }

func (r *reader) signed(bits int, what string) int64 {
	v, n := sleb(r.b[r.pos:r.end], bits)
	if n == 0 {
		r.fail("%s is not a %d-bit number", what, bits)
		return 0
	}
	r.pos += n
	return v
}

// count reads the length of a vector whose entries have at least size bytes, so that a
// declared length alone causes no allocation.
func (r *reader) count(size int, what string) uint32 {
	n := r.u32("the number of " + what)
	if uint64(n)*uint64(size) > uint64(r.left()) {
		r.fail("it announces %d %s, more than fit into the rest of the section", n, what)
		return 0
	}
	return n
}

// name reads a length-prefixed UTF-8 string.
func (r *reader) name(what string) string { return string(r.text(what)) }

// text is name without a copy.
func (r *reader) text(what string) []byte {
	b := r.take(r.u32("the length of "+what), what)
	if !utf8.Valid(b) {
		r.fail("%s is not UTF-8", what)
		return nil
	}
	return b
}

func (r *reader) valueType(what string) byte {
	t := r.byte(what)
	if r.err == nil && !isValueType(t) {
		r.fail("%s is 0x%02x, which is no value type of WebAssembly 2.0", what, t)
	}
	return t
}

func (r *reader) index(n int, what string) uint32 {
	i := r.u32("the index of a " + what)
	if r.err == nil && uint64(i) >= uint64(n) {
		r.fail("it uses %s %d, but has %d", what, i, n)
	}
	return i
}

// leb32 decodes an unsigned LEB128 number of at most 32 bits and returns its length in
// bytes, 0 if b does not begin with one. Longer forms than necessary are allowed, as in
// the specification, but not more than five bytes.
func leb32(b []byte) (v uint32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint32(b[0]), 1
	}
	for i := 0; i < len(b) && i < 5; i++ {
		c := b[i]
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == 4 && c > 0x0f {
				return 0, 0
			}
			return v, i + 1
		}
	}
	return 0, 0
}

// sleb decodes a signed LEB128 number of at most bits bits (32, 33 or 64) and returns
// its length in bytes, 0 if b does not begin with one.
func sleb(b []byte, bits int) (v int64, n int) {
	most := (bits + 6) / 7
	shift := 0
	for i := 0; i < len(b) && i < most; i++ {
		c := b[i]
		v |= int64(c&0x7f) << shift
		shift += 7
		if c >= 0x80 {
			continue
		}
		if i == most-1 {
			// The bits beyond the number's must repeat its sign.
			used := bits - 7*i
			rest := int8(c<<1) >> used // arithmetic shift: bit 6 as the sign, and the bits above the number's sign bit
			if rest != 0 && rest != -1 {
				return 0, 0
			}
		}
		if shift < 64 && c&0x40 != 0 {
			v |= -1 << shift
		}
		return v, i + 1
	}
	return 0, 0
}
