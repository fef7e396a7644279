package pdk

import "math/bits"

// The columns of an outline are most of what a processor reads, and hosts write
// them in one way: no space, no escapes. Columns in that form are read here, eight
// bytes at a time and in leaf functions, because calls are expensive in a wasm
// module; the scanner reads any other form.

// plainNumbers reads numbers of an array that was opened, as far as they are plain,
// and stops before the comma or the bracket that follows the last of them.
func (in *reader) plainNumbers(out []int) []int {
	src, at, read := in.scan.src, in.scan.pos, in.scan.pos
	for at+8 <= len(src) {
		x := load64(src, at)
		digits := uint(bits.TrailingZeros64(notDigits(x))) >> 3
		n := int(x & 0x0f)
		if digits != 1 {
			if digits-1 >= plainDigits || x&0xff == '0' {
				break
			}
			n = digitsValue(x, digits)
		}
		end := byte(x >> (8 * digits))
		if end != ',' && end != ']' {
			break
		}
		out = append(out, n)
		read = at + int(digits)
		if end == ']' {
			break
		}
		at = read + 1
	}
	if read > in.scan.pos {
		in.scan.pos, in.scan.first = read, false
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
func digitsValue(x uint64, digits uint) int {
	x = x << (64 - 8*digits) & (0x0f * ones)
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	x = (x*100 + x>>16) & 0x0000ffff0000ffff
	return int((x*10_000 + x>>32) & 0xffffffff)
}

// plainTools reads rows of an outline's tools that was opened, as far as they are
// plain, and stops before the comma or the bracket that follows the last of them.
// A part's number has one digit in a plain row.
func (in *reader) plainTools(out []OutlineTool) []OutlineTool {
	src := in.scan.src
	for i := in.scan.pos; i+plainRow <= len(src) && src[i] == '['; i++ {
		x := load64(src, i+1)
		digits := uint(bits.TrailingZeros64(notDigits(x))) >> 3
		if digits-1 >= plainDigits || digits > 1 && x&0xff == '0' || byte(x>>(8*digits)) != ',' {
			break
		}
		message := digitsValue(x, digits)
		i += int(digits) + 2

		x = load64(src, i)
		if x&0xff00 != ','<<8 || byte(x)-'0' > 9 {
			break
		}
		part := int(x & 0x0f)
		i += 2

		result := false
		switch load64(src, i) {
		case quotedCall:
			i += 8
		case quotedResult:
			if result = load64(src, i+2) == restOfResult; !result {
				return out
			}
			i += 10
		default:
			return out
		}

		id := i
		if i = plainEnd(src, i); i+8 > len(src) || load64(src, i)&0xffffff != nextString {
			break
		}
		name := i + 3
		end := plainEnd(src, name)
		if i = end + 2; i+6 > len(src) || load64(src, end)&0xffff != endOfRow || src[i] != ',' && src[i] != ']' { // later hosts may add columns
			break
		}
		out = append(out, OutlineTool{Message: message, Part: part, Result: result, ID: src[id : name-3], Name: src[name:end]})
		in.scan.pos, in.scan.first = i, false
	}
	return out
}

// plainEnd returns the index of the first byte of src from i on that does not
// stand for itself in a JSON string, or is not ASCII; len(src) if that is within
// the last seven or not there.
func plainEnd(src string, i int) int {
	for ; i+8 <= len(src); i += 8 {
		x := load64(src, i)
		quote, back := x^('"'*ones), x^('\\'*ones)
		if flags := ((quote-ones)&^quote | (back-ones)&^back | (x-' '*ones)&^x | x) & highs; flags != 0 {
			return i + bits.TrailingZeros64(flags)>>3
		}
	}
	return len(src)
}

// plainRow is how many bytes of a row are looked at before its strings, at most.
const plainRow = 1 + plainDigits + 1 + 2 + 10

// The text that follows in a row, as load64 has it: "call"," and "result" and esult","
// after the numbers, "," between the strings and "] behind them.
const (
	quotedCall   = '"' | 'c'<<8 | 'a'<<16 | 'l'<<24 | 'l'<<32 | '"'<<40 | ','<<48 | '"'<<56
	quotedResult = '"' | 'r'<<8 | 'e'<<16 | 's'<<24 | 'u'<<32 | 'l'<<40 | 't'<<48 | '"'<<56
	restOfResult = 'e' | 's'<<8 | 'u'<<16 | 'l'<<24 | 't'<<32 | '"'<<40 | ','<<48 | '"'<<56
	nextString   = '"' | ','<<8 | '"'<<16
	endOfRow     = '"' | ']'<<8
)
