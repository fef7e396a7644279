// Command broken is a guest that breaks one rule of the contract with each
// thing that it offers, and holds to the others.
package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"time"
	"unicode/utf8"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"broken",
"tools":[{"name":"good","description":""},{"name":"counts","description":""},{"name":"sulks","description":""},
{"name":"strict","description":""},{"name":"mumbles","description":""},{"name":"keeps","description":""},
{"name":"bends","description":"","result":{"type":"object"}},{"name":"garbles","description":""},{"name":"shouts","description":""},
{"name":"tires","description":""},{"name":"gorges","description":""},{"name":"tells","description":""}],
"processors":[{"name":"forgets"},{"name":"carries"},{"name":"wavers"},{"name":"trims"},{"name":"rounds"}],
"routers":[{"name":"swallows"}],"providers":[{"name":"invents"},{"name":"repeats"}],"permissions":{"clock":true}}`

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
	tired   int
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
	case "bends":
		return answer(`{"content":"not an object"}`)
	case "garbles":
		return answer("{\"content\":\"\xff\"}")
	case "shouts":
		answer(`{"CODE":"not_found","MESSAGE":"names are case-sensitive"}`)
		return 1
	case "tires":
		if tired++; tired > 100 {
			return answer(`{"content":"enough"}`)
		}
		return answer(`{"content":"good"}`)
	case "gorges":
		kept = append(kept, make([]byte, 1<<20))
		return answer(`{"content":"good"}`)
	case "tells":
		return answer(`{"content":` + number(int(time.Now().UnixNano())) + `}`)
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
	case "trims", "rounds":
		return reshape(raw, *in.Processor)
	case "wavers":
		if wavered++; wavered > 20 {
			return answer(`{"edits":[]}`)
		}
		return answer(`{}`)
	}
	return fail("there is no such processor")
}

// reshape gives messages back whose numbers are floats, or whose parts have lost
// what the contract does not name.
func reshape(raw []byte, how string) uint32 {
	var in struct {
		Messages []map[string]any `json:"messages"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if how == "trims" {
		d.UseNumber()
	}
	if d.Decode(&in) != nil {
		return fail("the messages cannot be read")
	}
	for _, m := range in.Messages {
		parts, _ := m["parts"].([]any)
		for _, p := range parts {
			if part, _ := p.(map[string]any); how == "trims" {
				delete(part, "x-later")
			} else if part["type"] == "x-later" {
				part["value"] = json.RawMessage(`{"a":[1,null,9007199254740993]}`)
			} else if part["x-later"] != nil {
				part["x-later"] = json.RawMessage(`{"a":[1,null,9007199254740993]}`)
			}
		}
		if how == "rounds" && m["x-later"] != nil {
			m["x-later"] = json.RawMessage(`{"a":[1,null,9007199254740993]}`)
		}
	}
	out, err := json.Marshal(in)
	if err != nil {
		return fail("the messages cannot be written")
	}
	return answer(string(out))
}

//go:wasmexport agenthost_route
func route(uint32) uint32 { return answer(`{"next":[]}`) }

// observe runs for ever when it is asked badly, and answers badly otherwise.
//
//go:wasmexport agenthost_observe
func observe(n uint32) uint32 {
	var in input
	for json.Unmarshal(read(n), &in) != nil || in.Provider == nil {
		spun++
	}
	return answer(`[]`)
}

var spun int

//go:wasmexport agenthost_provide
func provide(n uint32) uint32 {
	var in input
	if json.Unmarshal(read(n), &in) != nil || in.Provider == nil {
		return fail("there is no provider in the input")
	}
	if *in.Provider == "repeats" {
		return answer(`{"tools":["good","good"]}`)
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
