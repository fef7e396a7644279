// Package testguest assembles small plugins for tests, byte by byte: most of them have
// faults that no compiler produces.
package testguest

import "slices"

// Modules returns the plugins by the names that tests use. Each has one page of memory,
// in which the data starts at 0.
func Modules() map[string][]byte {
	const noManifest = `{"code":"internal","message":"no manifest today"}`
	const manifest = `{"abi":1,"name":"guest","tools":[{"name":"t"}]}`
	tool := func(body ...byte) []byte {
		return module{manifest: manifest, exports: []function{{"agenthost_tool", true, body}}}.bytes()
	}
	echo := []byte{
		0x41, 0, 0x41, 0, 0x20, 0, 0x10, inputRead, 0x1a, // input_read(0, 0, len)
		0x41, 0, 0x20, 0, 0x10, outputWrite, // output_write(0, len)
		0x41, 0, // return 0
	}
	good := tool(echo...)
	return map[string][]byte{
		"echo":    good,
		"cut":     good[:len(good)/2],
		"text":    []byte("this is not WebAssembly\n"),
		"empty":   nil,
		"nothing": []byte("\x00asm\x01\x00\x00\x00"),
		// A component has another version field.
		"component": []byte("\x00asm\x0d\x00\x01\x00"),

		"loop":   tool(0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0),
		"loop-l": module{manifest: `{"abi":1,"name":"loop","tools":[{"name":"l"}]}`, exports: []function{{"agenthost_tool", true, []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}}}}.bytes(),
		"trap":   tool(0x00),
		"lie":    tool(0x41, 7),
		"quiet":  tool(0x41, 0),
		"result": says(`{"content":{}}`, 0),
		"media":  says(`{"content":"a chart","media":[{"type":"media","media_type":"image/png","data":"AQI="}]}`, 0),
		"open":   module{manifest: `{"abi":1,"name":"guest","tools":[{"name":"t","parameters":{"type":"object","properties":{"amount":{"type":"number"}}}}]}`, data: `{"content":{}}`, exports: []function{{"agenthost_tool", true, writeData(len(`{"content":{}}`), 0)}}}.bytes(),
		"desk":   module{manifest: `{"abi":1,"name":"desk","tools":[{"name":"lookup_order","description":"Looks up an order.","parameters":{"type":"object","properties":{"id":{"type":"integer","description":"The number of the order."}},"required":["id"]}}]}`, data: `{"content":{"status":"shipped"}}`, exports: []function{{"agenthost_tool", true, writeData(len(`{"content":{"status":"shipped"}}`), 0)}}}.bytes(),
		"deep":   tool(0x20, 0, 0x10, importCount),
		// Grow by a page until that fails, then trap.
		"grow": tool(0x03, 0x40, 0x41, 1, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, 0x00),
		// Write a page of output in an endless loop.
		"flood": tool(0x03, 0x40, 0x41, 0, 0x41, 0x80, 0x80, 0x04, 0x10, outputWrite, 0x0c, 0, 0x0b, 0x41, 0),

		"says-text":  says("not json", 0),
		"says-error": says(`{"code":"not_found","message":"there is no order 7"}`, 1),
		"to-packer":  says(`{"next":["packer"],"reason":"it has to be packed"}`, 0),
		"to-default": says(`{"delegate":"default"}`, 0),
		"drop-all":   says(`{"messages":[]}`, 0),
		"wild":       tool(0x41, 0x7f, 0x41, 8, 0x10, outputWrite, 0x41, 0),
		"state-get":  operation("state.get", `{"path":""}`),
		"messages":   operation("messages.get", `{"indices":[1]}`),
		"tokens":     operation("tokens.count", `{"texts":["hello world"]}`),
		"kv-get":     operationOf(asking(`{"kv":"write"}`), "kv.get", `{"key":"a"}`),
		"kv-put":     operationOf(asking(`{"kv":"write"}`), "kv.put", `{"key":"a","value":"aGVsbG8="}`),
		"fetch":      operation("http.fetch", `{}`),
		"inside":     operationOf(asking(`{"http":[{"scheme":"http","host":"127.0.0.1","port":1,"addresses":["127.0.0.0/8"]}]}`), "http.fetch", `{"url":"http://127.0.0.1:1/"}`),
		"later":      operationOf(`{"abi":1,"name":"later","tools":[{"name":"t"}],"permissions":{"queue":true}}`, "queue.send", `{"handler":"t","payload":{},"idempotency_key":"once"}`),

		"describes":      describes(manifest),
		"describe-error": module{data: noManifest, exports: []function{{"agenthost_describe", false, writeData(len(noManifest), 1)}}}.bytes(),
		"describe-loop":  module{exports: []function{{"agenthost_describe", false, []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}}}}.bytes(),
		"describe-trap":  module{exports: []function{{"agenthost_describe", false, []byte{0x00}}}}.bytes(),
		// Its manifest is read without a call.
		"describe-trap-later": module{manifest: manifest, exports: []function{{"agenthost_describe", false, []byte{0x00}}, {"agenthost_tool", true, echo}}}.bytes(),
		"mute":                module{exports: []function{{"agenthost_tool", true, echo}}}.bytes(),
		"foreign":             module{manifest: manifest, from: "env", exports: []function{{"agenthost_tool", true, echo}}}.bytes(),
		"emscripten":          imports("env", "emscripten_resize_heap", "abort", "invoke_i", "invoke_ii", "invoke_iii"),
		"bindgen":             imports("wbg", "__wbg_log_1", "__wbindgen_throw"),
		"gojs":                imports("gojs", "runtime.wasmExit", "runtime.wasmWrite"),
		"preview2":            imports("wasi:cli/environment@0.2.0", "get-environment"),
		"extism-config":       extismConfig("run_test", true),
		"extism-command":      extismConfig("_start", false),
		"extism":              module{from: "extism:host/env"}.bytes(),
		"future":              module{manifest: manifest, from: "agenthost_v2", exports: []function{{"agenthost_tool", true, echo}}}.bytes(),
		"future-json":         module{manifest: `{"abi":2,"name":"guest"}`}.bytes(),
		"many-faults": module{manifest: `{"abi":1,"tools":[{"name":"t"},{"name":"t"},{"name":"bad name"}],"routers":[{"name":"r"}],"requires":["time.travel"]}`,
			exports: []function{{"agenthost_tool", false, []byte{0x41, 0}}}}.bytes(),
	}
}

// The functions that each guest imports, by index.
const (
	inputRead = iota
	outputWrite
	hostCall
	hostRead
	importCount
)

// says is a guest whose tool, and every other export, answers with a text.
func says(text string, status byte) []byte {
	m := module{manifest: `{"abi":1,"name":"guest","tools":[{"name":"t"}],"processors":[{"name":"p"}],"routers":[{"name":"r"}],"providers":[{"name":"c"}]}`, data: text}
	for _, name := range []string{"tool", "process", "route", "provide", "observe"} {
		m.exports = append(m.exports, function{"agenthost_" + name, true, writeData(len(text), status)})
	}
	return m.bytes()
}

// describes is a guest without a manifest section.
func describes(manifest string) []byte {
	return module{data: manifest, exports: []function{
		{"agenthost_describe", false, writeData(len(manifest), 0)}, {"agenthost_tool", true, []byte{0x41, 0}},
	}}.bytes()
}

func writeData(n int, status byte) []byte {
	return slices.Concat([]byte{0x41, 0}, i32Const(n), []byte{0x10, outputWrite, 0x41, status})
}

// operation is a guest that answers every call with a host operation's response and
// status.
func operation(name, request string) []byte {
	return operationOf(asking(`{"state":"read","messages":true,"http":[{"host":"example.com"}]}`), name, request)
}

// asking is the manifest of a guest that asks for permissions.
func asking(permissions string) string {
	return `{"abi":1,"name":"guest","tools":[{"name":"t"}],"processors":[{"name":"p"}],"routers":[{"name":"r"}],"permissions":` + permissions + `}`
}

// operationOf is operation for a guest with a manifest of its own.
func operationOf(manifest, name, request string) []byte {
	body := slices.Concat(
		[]byte{0x41, 0}, i32Const(len(name)), i32Const(len(name)), i32Const(len(request)), []byte{0x10, hostCall, 0x21, 1},
		// host_read(4096, 0, length); output_write(4096, length)
		i32Const(4096), []byte{0x41, 0, 0x20, 1, 0xa7, 0x10, hostRead, 0x1a},
		i32Const(4096), []byte{0x20, 1, 0xa7, 0x10, outputWrite},
		[]byte{0x20, 1, 0x42, 32, 0x88, 0xa7}, // return the high half
	)
	m := module{
		manifest: manifest,
		data:     name + request,
	}
	for _, export := range []string{"tool", "process", "route"} {
		m.exports = append(m.exports, function{"agenthost_" + export, true, body})
	}
	return m.bytes()
}

// module has the parts of a WebAssembly module that these guests need.
type module struct {
	from     string // the module of its imports; default agenthost_v1
	manifest string
	data     string
	exports  []function
}

// imports is a module that has imports only, of functions of no parameters.
func imports(from string, names ...string) []byte {
	var entries [][]byte
	for _, name := range names {
		entries = append(entries, slices.Concat(String(from), String(name), []byte{0, 0}))
	}
	out := Section([]byte("\x00asm\x01\x00\x00\x00"), 1, list([]byte{0x60, 0, 0}))
	return Section(out, 2, list(entries...))
}

// extismConfig is an Extism plugin whose one function answers with the value of thing in
// its configuration.
func extismConfig(name string, hasResult bool) []byte {
	const i32, i64, fn = 0x7f, 0x7e, 0x60
	const key = "thing"
	imported := func(name string, kind byte) []byte {
		return slices.Concat(String("extism:host/env"), String(name), []byte{0, kind})
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = Section(out, 1, list([]byte{fn, 1, i64, 1, i64}, []byte{fn, 2, i64, i32, 0}, []byte{fn, 2, i64, i64, 0}, []byte{fn, 0, 1, i32}, []byte{fn, 0, 0}))
	out = Section(out, 2, list(imported("alloc", 0), imported("store_u8", 1), imported("config_get", 0), imported("length", 0), imported("output_set", 2)))
	kind := byte(4)
	body := []byte{1, 2, i64, 0x42, byte(len(key)), 0x10, 0, 0x21, 0}
	for i := range len(key) {
		body = slices.Concat(body, []byte{0x20, 0, 0x42, byte(i), 0x7c}, i32Const(int(key[i])), []byte{0x10, 1})
	}
	body = append(body, 0x20, 0, 0x10, 2, 0x22, 1, 0x20, 1, 0x10, 3, 0x10, 4)
	if hasResult {
		kind, body = 3, append(body, 0x41, 0)
	}
	body = append(body, 0x0b)
	out = Section(out, 3, list([]byte{kind}))
	out = Section(out, 5, list([]byte{0, 1}))
	out = Section(out, 7, list(append(String("memory"), 2, 0), append(String(name), 0, 5)))
	return Section(out, 10, list(append(ULEB(len(body)), body...)))
}

// function is an exported one: (i32) -> (i32), or () -> (i32) for describe. It
// has a local of type i64 after its parameters, which is 1 with a parameter.
type function struct {
	name   string
	hasLen bool
	body   []byte
}

func (m module) bytes() []byte {
	const i32, i64, fn = 0x7f, 0x7e, 0x60
	from := m.from
	if from == "" {
		from = "agenthost_v1"
	}
	imported := func(name string, kind byte) []byte { return slices.Concat(String(from), String(name), []byte{0, kind}) }
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = Section(out, 1, list(
		[]byte{fn, 3, i32, i32, i32, 1, i32}, []byte{fn, 2, i32, i32, 0}, []byte{fn, 4, i32, i32, i32, i32, 1, i64},
		[]byte{fn, 1, i32, 1, i32}, []byte{fn, 0, 1, i32}))
	out = Section(out, 2, list(imported("input_read", 0), imported("output_write", 1), imported("host_call", 2), imported("host_read", 0)))
	var types, bodies [][]byte
	exports := [][]byte{append(String("memory"), 2, 0)}
	for i, f := range m.exports {
		kind := byte(4)
		if f.hasLen {
			kind = 3
		}
		types = append(types, []byte{kind})
		body := slices.Concat([]byte{1, 1, i64}, f.body, []byte{0x0b})
		bodies = append(bodies, append(ULEB(len(body)), body...))
		exports = append(exports, append(String(f.name), 0, byte(importCount+i)))
	}
	out = Section(out, 3, list(types...))
	out = Section(out, 5, list([]byte{0, 1}))
	out = Section(out, 7, list(exports...))
	out = Section(out, 10, list(bodies...))
	out = Section(out, 11, list(slices.Concat([]byte{0, 0x41, 0, 0x0b}, String(m.data))))
	if m.manifest != "" {
		out = Section(out, 0, append(String("agenthost.manifest"), m.manifest...))
	}
	return out
}

// Section appends a section of a module to b.
func Section(b []byte, id byte, contents []byte) []byte {
	return append(append(append(b, id), ULEB(len(contents))...), contents...)
}

func list(items ...[]byte) []byte { return append(ULEB(len(items)), slices.Concat(items...)...) }

// String returns a text in the encoding of modules' names and data: its length and its
// bytes.
func String(s string) []byte { return append(ULEB(len(s)), s...) }

// ULEB returns a non-negative number in LEB128, the encoding of modules.
func ULEB(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// i32Const returns an i32.const of a non-negative number.
func i32Const(n int) []byte {
	b := []byte{0x41}
	for ; n >= 0x40; n >>= 7 {
		b = append(b, byte(n&0x7f)|0x80)
	}
	return append(b, byte(n))
}
