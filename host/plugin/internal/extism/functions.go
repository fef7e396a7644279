package extism

// The modules that Extism plugins import.
const (
	EnvModule  = "extism:host/env"
	UserModule = "extism:host/user" // a host's own functions
)

// Price is the price of each function in instructions, without the bytes that it copies.
const Price = 16

// Function is a function that Extism plugins import. Its types are WebAssembly's codes of
// value types. Call reads the parameters from the stack and leaves the result there; its
// price has been paid.
type Function struct {
	Name    string
	Params  []byte
	Results []byte
	Call    func(s *State, stack []uint64)
}

// Value types.
const (
	i32 = 0x7f
	i64 = 0x7e
)

// Functions returns the functions of EnvModule: those that a plugin calls. Those that only
// hosts call, Extism offers to plugins as well (input_set, output_length, output_offset,
// reset, memory_bytes), and with them a plugin confuses its host; a module that imports one
// of those is refused.
func Functions() []Function {
	var ( // an offset or a length is an i64
		none = []byte{}
		word = []byte{i32}
		one  = []byte{i64}
		two  = []byte{i64, i64}
	)
	return []Function{
		{"alloc", one, one, func(s *State, stack []uint64) { stack[0] = s.memory.alloc(stack[0]) }},
		{"free", one, none, func(s *State, stack []uint64) { s.free(stack[0]) }},
		{"length", one, one, func(s *State, stack []uint64) { stack[0] = s.memory.blocks.length(stack[0]) }},
		{"length_unsafe", one, one, func(s *State, stack []uint64) { stack[0] = s.memory.blocks.length(stack[0]) }},
		{"load_u8", one, word, func(s *State, stack []uint64) { stack[0] = s.memory.load8(stack[0]) }},
		{"load_u64", one, one, func(s *State, stack []uint64) { stack[0] = s.memory.load64(stack[0]) }},
		{"store_u8", []byte{i64, i32}, none, func(s *State, stack []uint64) { s.memory.store8(stack[0], stack[1]) }},
		{"store_u64", two, none, func(s *State, stack []uint64) { s.memory.store64(stack[0], stack[1]) }},
		{"input_length", none, one, func(s *State, stack []uint64) { stack[0] = uint64(len(s.input())) }},
		{"input_offset", none, one, func(s *State, stack []uint64) { stack[0] = s.inputOffset() }},
		{"input_load_u8", one, word, func(s *State, stack []uint64) { stack[0] = s.inputLoad8(stack[0]) }},
		{"input_load_u64", one, one, func(s *State, stack []uint64) { stack[0] = s.inputLoad64(stack[0]) }},
		{"output_set", two, none, func(s *State, stack []uint64) { s.setOutput(stack[0], stack[1]) }},
		{"error_set", one, none, func(s *State, stack []uint64) { s.setError(stack[0]) }},
		{"error_get", none, one, func(s *State, stack []uint64) { stack[0] = s.call.errorAt }},
		{"config_get", one, one, func(s *State, stack []uint64) { stack[0] = s.config(stack[0]) }},
		{"var_get", one, one, func(s *State, stack []uint64) { stack[0] = s.variable(stack[0]) }},
		{"var_set", two, none, func(s *State, stack []uint64) { s.setVariable(stack[0], stack[1]) }},
		{"http_request", two, one, func(s *State, stack []uint64) { stack[0] = s.fetch(stack[0], stack[1]) }},
		{"http_status_code", none, word, func(s *State, stack []uint64) { stack[0] = uint64(s.call.status) }},
		{"http_headers", none, one, func(s *State, stack []uint64) { stack[0] = s.memory.put(s.call.headers) }},
		{"get_log_level", none, word, func(_ *State, stack []uint64) { stack[0] = 1 }}, // debug and above is of interest
		{"log_trace", one, none, func(s *State, stack []uint64) { s.log(0, stack[0]) }},
		{"log_debug", one, none, func(s *State, stack []uint64) { s.log(0, stack[0]) }},
		{"log_info", one, none, func(s *State, stack []uint64) { s.log(1, stack[0]) }},
		{"log_warn", one, none, func(s *State, stack []uint64) { s.log(2, stack[0]) }},
		{"log_error", one, none, func(s *State, stack []uint64) { s.log(3, stack[0]) }},
	}
}

// UserFunctions returns the functions of UserModule that every host has.
func UserFunctions() []Function {
	return []Function{{"agenthost_call", []byte{i64, i64}, []byte{i64}, func(s *State, stack []uint64) {
		stack[0] = s.operate(stack[0], stack[1])
	}}}
}

// OperationFunction returns the function of UserModule that runs one operation: it takes
// the block of a request and gives that of the response.
func OperationFunction(name, op string) Function {
	return Function{Name: name, Params: []byte{i64}, Results: []byte{i64},
		Call: func(s *State, stack []uint64) { stack[0] = s.operateAs(op, stack[0]) }}
}
