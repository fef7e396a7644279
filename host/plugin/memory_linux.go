package plugin

import (
	"os"
	"syscall"
	"unsafe"
)

// zero sets memory that reserve gave to zero.
func zero(b []byte) {
	if len(b) <= clearAtMost {
		clear(b)
		return
	}
	mask := uintptr(os.Getpagesize() - 1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & mask)
	clear(b[:skip])
	pages := b[skip : skip+(len(b)-skip)&^int(mask)]
	clear(b[skip+len(pages):])
	if syscall.Madvise(pages, syscall.MADV_DONTNEED) != nil {
		clear(pages)
	}
}
