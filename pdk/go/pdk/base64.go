package pdk

// The contract has bytes in base64 (RFC 4648 section 4, with padding).
// Package encoding/base64 would bring package reflect into every guest that
// uses it.

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// Bytes writes bytes, as a string in base64.
func (w *Writer) Bytes(data []byte) *Writer {
	w.comma()
	out := append(grown(w.buf, len(data)/3*4+8), '"')
	for len(data) >= 3 {
		n := uint(data[0])<<16 | uint(data[1])<<8 | uint(data[2])
		out = append(out, base64Digits[n>>18], base64Digits[n>>12&63], base64Digits[n>>6&63], base64Digits[n&63])
		data = data[3:]
	}
	switch len(data) {
	case 1:
		n := uint(data[0]) << 16
		out = append(out, base64Digits[n>>18], base64Digits[n>>12&63], '=', '=')
	case 2:
		n := uint(data[0])<<16 | uint(data[1])<<8
		out = append(out, base64Digits[n>>18], base64Digits[n>>12&63], base64Digits[n>>6&63], '=')
	}
	w.buf = append(out, '"')
	return w
}

// Bytes returns the bytes of a string that is base64; ok is false for any other
// value.
func (r Raw) Bytes() (data []byte, ok bool) {
	text, ok := r.Str()
	if !ok || len(text)%4 != 0 {
		return nil, false
	}
	out := make([]byte, 0, len(text)/4*3)
	for ; len(text) > 0; text = text[4:] {
		var n uint
		digits := 4
		if len(text) == 4 && text[3] == '=' {
			digits = 3
			if text[2] == '=' {
				digits = 2
			}
		}
		for i := range 4 {
			n <<= 6
			if i < digits {
				d, ok := base64Value(text[i])
				if !ok {
					return nil, false
				}
				n |= d
			}
		}
		out = append(out, byte(n>>16), byte(n>>8), byte(n))[:len(out)+digits-1]
	}
	return out, true
}

func base64Value(c byte) (uint, bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return uint(c - 'A'), true
	case c >= 'a' && c <= 'z':
		return uint(c-'a') + 26, true
	case c >= '0' && c <= '9':
		return uint(c-'0') + 52, true
	case c == '+':
		return 62, true
	case c == '/':
		return 63, true
	}
	return 0, false
}
