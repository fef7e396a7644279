package pdk

import "math/bits"

// The columns of an outline are most of what a processor reads, and hosts write
// them in one way: no space, no escapes. What is written so is read here, eight
// bytes at a time and in functions that call nothing, because calls are what costs
// in a wasm module; anything else is left to the scanner.

// plainNumbers reads numbers of an array that was opened, as far as they are plain,
// and stops before the comma or the bracket that follows the last of them.
func (s *scanner) plainNumbers(out []int) []int {
	src, at := s.src, s.pos
	for at+8 < len(src) {
		x := load64(src, at)
		digits := bits.TrailingZeros64(notDigits(x)) >> 3
		n := int(x & 0x0f)
		if digits != 1 {
			if digits == 0 || digits > plainDigits || x&0xff == '0' {
				break
			}
			n = digitsValue(x, digits)
		}
		end := src[at+digits]
		if end != ',' && end != ']' {
			break
		}
		out = append(out, n)
		s.pos, s.first = at+digits, false
		if end == ']' {
			break
		}
		at += digits + 1
	}
	return out
}

// plainDigits is how many digits a plain number has at most: with what follows
// them they are one load.
const plainDigits = 7

// notDigits flags the bytes that are no digits in their highest bits. The lowest
// that it flags is rightly so; a carry can only flag higher ones by mistake.
func notDigits(x uint64) uint64 {
	return ((x + (0x7f-'9')*ones) | (x - '0'*ones)) & highs
}

// digitsValue is the value of the lowest bytes, which are so many digits. They move
// to the top, zeros before them; then neighbours are added.
func digitsValue(x uint64, digits int) int {
	x = x << (64 - 8*uint(digits)) & (0x0f * ones)
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	x = (x*100 + x>>16) & 0x0000ffff0000ffff
	return int((x*10_000 + x>>32) & 0xffffffff)
}

// plainTools reads rows of an outline's tools that was opened, as far as they are
// plain, and stops before the comma or the bracket that follows the last of them.
func (s *scanner) plainTools(out []OutlineTool) []OutlineTool {
	src := s.src
	for i := s.pos; i < len(src) && src[i] == '['; i++ {
		var numbers [2]int
		for k := range numbers {
			if i++; i+8 >= len(src) {
				return out
			}
			x := load64(src, i)
			digits := bits.TrailingZeros64(notDigits(x)) >> 3
			if digits == 0 || digits > plainDigits || digits > 1 && x&0xff == '0' || src[i+digits] != ',' {
				return out
			}
			numbers[k] = digitsValue(x, digits)
			i += digits
		}
		if i++; i+12 >= len(src) {
			return out
		}
		result := false
		switch load64(src, i) {
		case quotedCall:
			i += 8
		case quotedResult:
			if src[i+8] != ',' || src[i+9] != '"' {
				return out
			}
			result = true
			i += 10
		default:
			return out
		}
		var texts [2]string
		for k := range texts {
			start := i
			for {
				if i+8 > len(src) {
					return out
				}
				x := load64(src, i)
				quote, back := x^('"'*ones), x^('\\'*ones)
				flags := ((quote-ones)&^quote | (back-ones)&^back | (x-' '*ones)&^x | x) & highs // and what is not ASCII
				if flags != 0 {
					i += bits.TrailingZeros64(flags) >> 3
					break
				}
				i += 8
			}
			if i+3 >= len(src) || src[i] != '"' || k == 0 && (src[i+1] != ',' || src[i+2] != '"') {
				return out
			}
			texts[k] = src[start:i]
			i += 3
		}
		if i--; src[i-1] != ']' || src[i] != ',' && src[i] != ']' { // later hosts may add columns
			return out
		}
		out = append(out, OutlineTool{Message: numbers[0], Part: numbers[1], Result: result, ID: texts[0], Name: texts[1]})
		s.pos, s.first = i, false
	}
	return out
}

// How a row goes on after its numbers, as load64 has it: "call"," and "result".
const (
	quotedCall   = '"' | 'c'<<8 | 'a'<<16 | 'l'<<24 | 'l'<<32 | '"'<<40 | ','<<48 | '"'<<56
	quotedResult = '"' | 'r'<<8 | 'e'<<16 | 's'<<24 | 'u'<<32 | 'l'<<40 | 't'<<48 | '"'<<56
)
