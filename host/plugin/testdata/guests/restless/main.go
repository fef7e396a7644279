// Command restless is a guest that leaves as much behind as it can: goroutines
// that wait for ever, maps and slices that grow, garbage, finalizers, a changed
// clock. It answers with what it found of earlier calls.
package main

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"restless","version":"1.0.0","tools":[{"name":"restless","description":"Tells what it found."}]}`

var (
	calls   int
	kept    [][]byte
	seen    = map[string]int{"start": 1}
	began   = time.Now()
	results = make(chan int)
)

//go:wasmexport agenthost_describe
func describe() uint32 {
	write(manifest)
	return 0
}

//go:wasmexport agenthost_tool
func tool(n uint32) uint32 {
	input := make([]byte, n+1)
	inputRead(unsafe.Pointer(&input[0]), 0, n)
	found := fmt.Sprintf("calls %d, kept %d, seen %d, goroutines %d, after %s; ",
		calls, len(kept), len(seen), runtime.NumGoroutine(), time.Since(began).Round(time.Second))
	calls++
	for i := range 20 {
		kept = append(kept, make([]byte, 1000))
		seen[fmt.Sprint(calls, i, string(input))] = i
	}
	go func() { select {} }()
	go func() { results <- len(seen) * 2 }()
	time.Sleep(time.Hour)
	if n > 3 {
		runtime.GC()
	}
	write(fmt.Sprint(found, <-results))
	return 0
}

func write(s string) { outputWrite(unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))) }

func main() {}
