package pdk

import (
	"runtime"
	"unsafe"
)

// systemHost is the host that runs the module, through its imports.
type systemHost struct{}

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, length uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, length uint32)

//go:wasmimport agenthost_v1 host_call
func hostCall(op unsafe.Pointer, opLength uint32, request unsafe.Pointer, requestLength uint32) uint64

//go:wasmimport agenthost_v1 host_call_bytes
func hostCallBytes(op unsafe.Pointer, opLength uint32, request unsafe.Pointer, requestLength uint32, data unsafe.Pointer, dataLength uint32) uint64

//go:wasmimport agenthost_v1 host_read
func hostRead(ptr unsafe.Pointer, offset, length uint32) uint32

//go:wasmimport agenthost_v1 log
func hostLog(level uint32, ptr unsafe.Pointer, length uint32)

func (systemHost) HostCall(op string, request Raw) (Raw, *Error) {
	return readResponse(op, hostCall(address(op), uint32(len(op)), address(string(request)), uint32(len(request))))
}

func (systemHost) HostCallBytes(op string, request Raw, data []byte) (Raw, []byte, *Error) {
	response, err := readResponse(op, hostCallBytes(address(op), uint32(len(op)), address(string(request)), uint32(len(request)),
		unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data))))
	if err != nil {
		return "", nil, err
	}
	beside := make([]byte, besideSize(op, response))
	if got := hostRead(unsafe.Pointer(unsafe.SliceData(beside)), uint32(len(response)), uint32(len(beside))); int(got) != len(beside) {
		return "", nil, Errorf(Internal, "host operation %s: read %d of %d bytes beside the response", op, got, len(beside))
	}
	return response, beside, nil
}

// besideSize returns how many bytes stand behind a response.
func besideSize(op string, response Raw) (n int64) {
	switch op {
	case "artifact.read":
		n, _ = response.Get("data").Int()
	case "http.fetch":
		n, _ = response.Get("body").Int()
	case "kv.get":
		n, _ = response.Get("value").Int()
	case "kv.list":
		for entry := range response.Get("entries").Elements() {
			size, _ := entry.Get("value").Int()
			n += size
		}
	}
	return n
}

// readResponse reads the response of an operation, given what the import returned.
func readResponse(op string, result uint64) (Raw, *Error) {
	length := uint32(result)
	response := registered.calls.arena.take(int(length))[:length]
	if got := hostRead(unsafe.Pointer(unsafe.SliceData(response)), 0, length); got != length {
		return "", Errorf(Internal, "host operation %s: read %d of %d bytes", op, got, length)
	}
	if result>>32 == 0 {
		return Raw(borrow(response)), nil
	}
	in := reader{scan: scanner{src: borrow(response)}}
	e := in.error()
	if err := in.finish("read error of " + op); err != nil {
		return "", asError(err)
	}
	return "", e
}

func (systemHost) Log(level Level, message string) {
	hostLog(uint32(level), address(message), uint32(len(message)))
}

func address(text string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(text)) }

// yieldEvery is how much runs between two yields: so many calls, or so many kB
// of input. A Go guest that never yields to its scheduler never collects its
// garbage and grows until it dies, and one that yields too late stays in the
// middle of a collection, where all it does costs half as much again; yielding
// costs about a microsecond.
const yieldEvery = 64

var sinceYield uint32

// input is what the calls' input is read into.
var input []byte

// inputBuffer returns the input buffer, made as long as asked. It is made longer
// than that, because the history that a processor is given grows with each call.
func inputBuffer(length int) []byte {
	if cap(input) < length {
		input = make([]byte, length, length+length/4+minChunk)
	}
	return input[:length]
}

// export runs one export of the registered plugin.
func export(name string, length uint32) int32 {
	input := inputBuffer(int(length))
	status := int32(statusError)
	var output []byte
	if got := inputRead(unsafe.Pointer(unsafe.SliceData(input)), 0, length); got == length {
		output, status = registered.Call(name, input)
	} else {
		output = []byte(`{"code":"internal","message":"the host gave less input than it announced"}`)
	}
	outputWrite(unsafe.Pointer(unsafe.SliceData(output)), uint32(len(output)))
	if sinceYield += 1 + length>>10; sinceYield >= yieldEvery {
		sinceYield = 0
		runtime.Gosched()
	}
	return status
}

//go:wasmexport agenthost_describe
func exportDescribe() int32 { return export("describe", 0) }

//go:wasmexport agenthost_tool
func exportTool(length uint32) int32 { return export("tool", length) }

//go:wasmexport agenthost_process
func exportProcess(length uint32) int32 { return export("process", length) }

//go:wasmexport agenthost_route
func exportRoute(length uint32) int32 { return export("route", length) }

//go:wasmexport agenthost_provide
func exportProvide(length uint32) int32 { return export("provide", length) }

//go:wasmexport agenthost_observe
func exportObserve(length uint32) int32 { return export("observe", length) }
