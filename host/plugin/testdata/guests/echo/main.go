// Command echo is a guest that answers with what it was sent. It is written
// against the bare ABI, so that what a call costs is the host's and not a kit's.
package main

import "unsafe"

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"echo","version":"1.0.0","tools":[{"name":"echo","description":"Answers with its arguments."}]}`

var buf = make([]byte, 4096)

//go:wasmexport agenthost_describe
func describe() uint32 {
	b := []byte(manifest)
	outputWrite(unsafe.Pointer(&b[0]), uint32(len(b)))
	return 0
}

//go:wasmexport agenthost_tool
func tool(n uint32) uint32 {
	if int(n) > len(buf) {
		buf = make([]byte, n)
	}
	inputRead(unsafe.Pointer(&buf[0]), 0, n)
	outputWrite(unsafe.Pointer(&buf[0]), n)
	return 0
}

func main() {}
