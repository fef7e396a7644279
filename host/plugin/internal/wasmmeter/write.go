package wasmmeter

// This file writes the WebAssembly binary format.

// appendU32 appends an unsigned number in its shortest form.
func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// appendS64 appends a signed number in its shortest form.
func appendS64(b []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// appendName appends a string with its length.
func appendName(b []byte, s string) []byte {
	return append(appendU32(b, uint32(len(s))), s...)
}

// appendSized appends bytes with their length.
func appendSized(b, contents []byte) []byte {
	return append(appendU32(b, uint32(len(contents))), contents...)
}

// appendSection appends a section.
func appendSection(b []byte, id byte, contents []byte) []byte {
	return appendSized(append(b, id), contents)
}

// appendLimits appends the bounds of a memory or table.
func appendLimits(b []byte, l Bounds) []byte {
	if !l.HasMax {
		return appendU32(append(b, 0), l.Min)
	}
	return appendU32(appendU32(append(b, 1), l.Min), l.Max)
}
