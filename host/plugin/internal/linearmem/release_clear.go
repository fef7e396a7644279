//go:build !linux

package linearmem

// releasePiece is how many bytes release is given at one time, where more are
// to be released.
const releasePiece = Piece

// release sets memory to zero. Only Linux promises zeroes for pages that are given
// back.
func release(b []byte) { clear(b) }
