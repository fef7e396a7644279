package pdk

// The results of an export, as the contract numbers them.
const (
	statusOK    = 0 // the output is the result
	statusError = 1 // the output is an error object
)

// memory is what a plugin reuses from call to call.
type memory struct {
	reader  reader
	output  Writer
	arena   arena // unescaped strings and host responses of the call
	parts   []Part
	names   names
	tool    Call
	process Process
	route   Route
	provide Provide
	observe Observe
}

// names keeps the strings of the last call that handlers may keep, so that a
// call like the one before it allocates none.
type names struct {
	scope                            Scope
	config, model, id, key, provider string
}

// keep stores text in slot unless it is there already, and returns a string that
// does not share the call's memory.
func keep(slot *string, text string) string {
	if *slot != text {
		*slot = string([]byte(text))
	}
	return *slot
}

// Call runs one export of the plugin, named without its prefix: "describe",
// "tool", "process", "route", "provide" or "observe". Status is 0 for a result
// and 1 for an error object. The output is valid until the next call.
//
// It is what the module's exports run; tests use package pdktest, which also
// stands in for the host.
func (p *Plugin) Call(export string, input []byte) (output []byte, status int32) {
	m := &p.calls
	m.arena.reset()
	m.parts = m.parts[:0]
	m.output.Reset()
	if err := p.run(export, input); err != nil {
		m.output.Reset()
		appendError(&m.output, asError(err))
		return m.output.buf, statusError
	}
	return m.output.buf, statusOK
}

func (p *Plugin) run(export string, input []byte) error {
	if export == "describe" {
		appendManifest(&p.calls.output, p)
		return nil
	}
	k := kindOf(export)
	if k == kindCount || p.kinds[k].run == nil {
		return Errorf(Unimplemented, "the plugin has nothing for agenthost_%s", export)
	}
	p.calls.reader = reader{scanner{src: borrow(input), arena: &p.calls.arena}}
	return p.kinds[k].run(p, &p.calls.reader)
}

// kindOf returns the kind that an export serves, kindCount for none.
func kindOf(export string) int {
	switch export {
	case "tool":
		return kindTool
	case "process":
		return kindProcess
	case "route":
		return kindRoute
	case "provide":
		return kindProvide
	case "observe":
		return kindObserve
	}
	return kindCount
}

// reader reads the documents of the contract from the tokens of a scanner.
type reader struct{ scan scanner }

// finish ends the reading of a request and describes its first fault.
func (in *reader) finish(request string) error {
	if in.scan.end() {
		return nil
	}
	err := in.scan.err()
	err.Message = request + ": " + err.Message
	return err
}

// missing is the error for a request to something that is not registered.
func missing(kind, name string) error {
	return Errorf(NotFound, "plugin has no %s %q", kind, name)
}

// scope reads a scope.
func (in *reader) scope(last *Scope) Scope {
	if in.scan.kind() == KindNull {
		in.scan.skip()
		return Scope{}
	}
	var out Scope
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "tenant":
			out.Tenant = keep(&last.Tenant, in.scan.str())
		case "thread":
			out.Thread = keep(&last.Thread, in.scan.str())
		case "run":
			out.Run = keep(&last.Run, in.scan.str())
		case "network":
			out.Network = keep(&last.Network, in.scan.str())
		case "agent":
			out.Agent = keep(&last.Agent, in.scan.str())
		default:
			in.scan.skip()
		}
	}
	return out
}

// strings reads an array of strings that may be kept.
func (in *reader) strings() []string {
	var out []string
	in.scan.open('[')
	for in.scan.next(']') {
		out = append(out, string([]byte(in.scan.str())))
	}
	return out
}

// error reads an error object.
func (in *reader) error() *Error {
	e := &Error{Code: Internal}
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "code":
			e.Code = Code(string([]byte(in.scan.str())))
		case "message":
			e.Message = string([]byte(in.scan.str()))
		case "hint":
			e.Hint = string([]byte(in.scan.str()))
		case "retryable":
			e.Retryable = in.scan.boolean()
		default:
			in.scan.skip()
		}
	}
	return e
}

func appendError(w *Writer, e *Error) {
	w.BeginObject().key("code").Str(string(e.Code)).key("message").Str(e.Message)
	w.member("hint", e.Hint)
	w.flag("retryable", e.Retryable)
	w.EndObject()
}
