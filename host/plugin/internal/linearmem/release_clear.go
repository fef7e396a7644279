//go:build !linux

package linearmem

// releasePiece is the most bytes of one call of release.
const releasePiece = Piece

// release sets memory to zero. Only Linux promises zeroes for pages that are given
// back.
func release(b []byte) { clear(b) }
