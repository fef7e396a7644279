package linearmem

import (
	"os"
	"syscall"
	"unsafe"
)

// releasePiece is the most bytes of one call of release: the system releases their
// pages in less than a millisecond.
const releasePiece = 2 << 20

// release sets memory that Reserve gave to zero by giving its pages back.
func release(b []byte) {
	mask := uintptr(os.Getpagesize() - 1)
	skip := min(len(b), int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&mask))
	clear(b[:skip])
	pages := b[skip : skip+(len(b)-skip)&^int(mask)]
	clear(b[skip+len(pages):])
	if len(pages) > 0 && syscall.Madvise(pages, syscall.MADV_DONTNEED) != nil {
		clear(pages)
	}
}
