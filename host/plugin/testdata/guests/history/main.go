// Command history is a guest as people write them in Go: it decodes a
// conversation with encoding/json, and encodes it again. It is written against
// the bare ABI, so that it runs on raw wazero as well.
package main

import (
	"encoding/json"
	"os"
	"runtime"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"history","version":"1.0.0","tools":[{"name":"history","description":"Answers with the conversation that it is given."}]}`

type message struct {
	ID    string         `json:"id"`
	Role  string         `json:"role"`
	Parts []part         `json:"parts"`
	Meta  map[string]any `json:"meta,omitempty"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

var (
	input []byte
	calls int
)

//go:wasmexport agenthost_describe
func describe() uint32 {
	write([]byte(manifest))
	return 0
}

//go:wasmexport agenthost_tool
func tool(n uint32) uint32 {
	if calls++; calls%64 == 0 {
		runtime.Gosched() // or garbage is never collected
	}
	if int(n) > len(input) {
		input = make([]byte, n)
	}
	if n == 0 {
		return 0
	}
	inputRead(unsafe.Pointer(&input[0]), 0, n)
	var messages []message
	if err := json.Unmarshal(input[:n], &messages); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 2
	}
	out, err := json.Marshal(messages)
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 2
	}
	write(out)
	return 0
}

func write(b []byte) { outputWrite(unsafe.Pointer(&b[0]), uint32(len(b))) }

func main() {}
