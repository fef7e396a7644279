// Command copies is a guest that no kit has made: it looks for the name of the part, and answers
// with the bytes that it was given. The suite must tell it from one that reads and writes.
package main

import (
	"encoding/json"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(to unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(from unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"copies","version":"1.0.0",
"tools":[{"name":"vector","description":"","parameters":{}},{"name":"integer","description":"","parameters":{}},{"name":"host","description":"","parameters":{}},{"name":"answer","description":"","parameters":{}},{"name":"fail","description":"","parameters":{}}],
"processors":[{"name":"vector"},{"name":"outline","input":"outline"},{"name":"again"}],"routers":[{"name":"vector"}],"providers":[{"name":"vector"}]}`

func main() {} // never runs

//go:wasmexport agenthost_describe
func describe() int32 { return write(manifest, 0) }

//go:wasmexport agenthost_tool
func tool(n int32) int32 { return copied(n, "tool") }

//go:wasmexport agenthost_process
func process(n int32) int32 { return copied(n, "processor") }

//go:wasmexport agenthost_route
func route(n int32) int32 { return copied(n, "router") }

//go:wasmexport agenthost_provide
func provide(n int32) int32 { return copied(n, "provider") }

//go:wasmexport agenthost_observe
func observe(n int32) int32 { return copied(n, "observer") }

func copied(n int32, kind string) int32 {
	in := make([]byte, n)
	if n > 0 {
		inputRead(unsafe.Pointer(&in[0]), 0, uint32(n))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(in, &members) != nil {
		return write(`{"code":"invalid_argument","message":"this is no object"}`, 1)
	}
	var part string
	_ = json.Unmarshal(members[kind], &part)
	quoted, _ := json.Marshal(string(in))
	switch kind + " " + part {
	case "tool vector":
		return write(`{"content":`+string(in)+`}`, 0)
	case "tool integer":
		return write(`{"content":`+string(members["arguments"])+`}`, 0)
	case "tool answer":
		return write(string(members["arguments"]), 0)
	case "tool fail":
		return write(string(members["arguments"]), 1)
	case "processor vector", "processor outline":
		return write(`{"report":`+string(in)+`}`, 0)
	case "processor again":
		return write(`{"messages":`+string(members["messages"])+`}`, 0)
	case "router vector":
		return write(`{"next":[],"reason":`+string(quoted)+`}`, 0)
	case "provider vector":
		return write(`{"instructions":`+string(quoted)+`}`, 0)
	case "observer ":
		return write(`{}`, 0)
	}
	return write(`{"code":"not_found","message":"there is no such part"}`, 1)
}

func write(text string, status int32) int32 {
	outputWrite(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
	return status
}
