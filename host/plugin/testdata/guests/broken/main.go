// Command broken is a guest that breaks what a host cannot see from one call: it
// takes any input, answers with all of it, counts its calls, and keeps memory.
package main

import (
	"strconv"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

var (
	calls int
	kept  [][]byte
)

//go:wasmexport agenthost_describe
func describe() uint32 {
	write([]byte(`{"abi":1,"name":"broken","tools":[{"name":"t","description":""}]}`))
	return 0
}

//go:wasmexport agenthost_tool
func tool(n uint32) uint32 {
	input := make([]byte, n+1)
	inputRead(unsafe.Pointer(&input[0]), 0, n)
	calls++
	kept = append(kept, make([]byte, 1<<10))
	write([]byte(`{"content":` + strconv.Itoa(calls) + `,"input":` + strconv.Quote(string(input[:n])) + `}`))
	return 0
}

func write(b []byte) { outputWrite(unsafe.Pointer(&b[0]), uint32(len(b))) }

func main() {}
