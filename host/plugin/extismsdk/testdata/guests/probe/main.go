//go:build wasip1

// Command probe is an Extism plugin that tries what its host lets it do.
package main

import (
	"os"
	"strconv"

	"github.com/extism/go-pdk"
)

//go:wasmimport extism:host/user agenthost_call
func agenthostCall(op, request uint64) uint64

// operate takes {"op": ..., "request": ...} and answers as the host does.
//
//go:wasmexport operate
func operate() int32 {
	var in struct {
		Op      string `json:"op"`
		Request string `json:"request"`
	}
	if err := pdk.InputJSON(&in); err != nil {
		pdk.SetError(err)
		return 1
	}
	op, request := pdk.AllocateString(in.Op), pdk.AllocateString(in.Request)
	response := pdk.FindMemory(agenthostCall(op.Offset(), request.Offset()))
	pdk.Output(response.ReadBytes())
	return 0
}

var calls int

// count counts the calls of this instance.
//
//go:wasmexport count
func count() int32 {
	calls++
	pdk.OutputString(strconv.Itoa(calls))
	return 0
}

//go:wasmexport spin
func spin() int32 {
	for {
		calls++
	}
}

// repeat answers with as many bytes as it is told.
//
//go:wasmexport repeat
func repeat() int32 {
	n, _ := strconv.Atoi(pdk.InputString())
	pdk.Output(make([]byte, n))
	return 0
}

//go:wasmexport grow
func grow() int32 {
	var all [][]byte
	for range 1 << 10 {
		all = append(all, make([]byte, 1<<20))
	}
	pdk.OutputString(strconv.Itoa(len(all)))
	return 0
}

// read answers with a file.
//
//go:wasmexport read
func read() int32 {
	b, err := os.ReadFile(pdk.InputString())
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.Output(b)
	return 0
}

//go:wasmexport fetch
func fetch() int32 {
	res := pdk.NewHTTPRequest(pdk.MethodGet, pdk.InputString()).Send()
	pdk.OutputString(strconv.Itoa(int(res.Status())) + " " + string(res.Body()))
	return 0
}

// sulk fails and says nothing.
//
//go:wasmexport sulk
func sulk() int32 { return 3 }

//go:wasmexport break_down
func breakDown() int32 { panic("out of umbrellas") }

func main() {}
