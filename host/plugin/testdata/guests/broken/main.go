// Command broken is a guest that breaks one rule of the contract with each
// thing that it offers, and holds to the others.
package main

import (
	"encoding/json"
	"runtime"
	"unicode/utf8"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"broken",
"tools":[{"name":"good","description":""},{"name":"counts","description":""},{"name":"sulks","description":""},
{"name":"strict","description":""},{"name":"mumbles","description":""},{"name":"keeps","description":""}],
"processors":[{"name":"forgets"},{"name":"carries"},{"name":"wavers"}],
"routers":[{"name":"swallows"}],"providers":[{"name":"invents"}]}`

//go:wasmexport agenthost_describe
func describe() uint32 { return answer(manifest) }

// input is what every export is called with.
type input struct {
	Tool      *string   `json:"tool"`
	Processor *string   `json:"processor"`
	Provider  *string   `json:"provider"`
	Messages  []message `json:"messages"`
}

// message has the fields that the contract names and no others.
type message struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// What the guest remembers, and should not.
var (
	calls   int
	counted int
	wavered int
	failed  bool
	kept    [][]byte
)

//go:wasmexport agenthost_tool
func tool(n uint32) uint32 {
	var in input
	raw := read(n)
	if json.Unmarshal(raw, &in) != nil || in.Tool == nil {
		return fail("there is no tool in the input")
	}
	switch *in.Tool {
	case "good":
		return answer(`{"content":"good"}`)
	case "counts":
		counted++
		return answer(`{"content":` + number(counted) + `}`)
	case "sulks":
		if failed {
			return answer(`{"content":"leave me alone"}`)
		}
		return answer(`{"content":"good"}`)
	case "strict":
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		if _, there := members["x-later"]; there {
			return fail("x-later is unknown")
		}
		return answer(`{"content":"good"}`)
	case "mumbles":
		return answer(`["good"]`)
	case "keeps":
		kept = append(kept, make([]byte, 1<<10))
		return answer(`{"content":"good"}`)
	}
	return fail("there is no such tool")
}

//go:wasmexport agenthost_process
func process(n uint32) uint32 {
	var in input
	raw := read(n)
	if json.Unmarshal(raw, &in) != nil || in.Processor == nil {
		return fail("there is no processor in the input")
	}
	switch *in.Processor {
	case "forgets":
		out, err := json.Marshal(map[string]any{"messages": in.Messages})
		if err != nil {
			return fail("the messages cannot be written")
		}
		return answer(string(out))
	case "carries":
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		return answer(`{"messages":` + string(members["messages"]) + `}`)
	case "wavers":
		if wavered++; wavered > 20 {
			return answer(`{"edits":[]}`)
		}
		return answer(`{}`)
	}
	return fail("there is no such processor")
}

//go:wasmexport agenthost_route
func route(uint32) uint32 { return answer(`{"next":[]}`) }

//go:wasmexport agenthost_provide
func provide(n uint32) uint32 {
	var in input
	if json.Unmarshal(read(n), &in) != nil || in.Provider == nil {
		return fail("there is no provider in the input")
	}
	return answer(`{"tools":["nobody has this one"]}`)
}

// read returns the input, or nothing if it is not UTF-8. It lets the collector
// run now and then, as every Go guest must.
func read(n uint32) []byte {
	if calls++; calls%64 == 0 {
		runtime.Gosched()
	}
	b := make([]byte, n+1)
	inputRead(unsafe.Pointer(&b[0]), 0, n)
	if !utf8.Valid(b[:n]) {
		return nil
	}
	return b[:n]
}

func answer(s string) uint32 {
	b := []byte(s)
	outputWrite(unsafe.Pointer(&b[0]), uint32(len(b)))
	return 0
}

func fail(message string) uint32 {
	failed = true
	answer(`{"code":"invalid_argument","message":"` + message + `"}`)
	return 1
}

func number(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func main() {}
