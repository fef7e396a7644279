package pdk

// The results of an export, as the contract numbers them.
const (
	statusOK    = 0 // the output is the result
	statusError = 1 // the output is an error object
)

// memory is what a plugin reuses from call to call.
type memory struct {
	scanner scanner
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
	p.calls.scanner = scanner{src: borrow(input), arena: &p.calls.arena}
	return p.kinds[k].run(p, &p.calls.scanner)
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

// finish ends the reading of a request and describes its first fault.
func (s *scanner) finish(request string) error {
	if s.end() {
		return nil
	}
	err := s.err()
	err.Message = request + ": " + err.Message
	return err
}

// missing is the error for a request to something that is not registered.
func missing(kind, name string) error {
	return Errorf(NotFound, "plugin has no %s %q", kind, name)
}

// scope reads a scope.
func (s *scanner) scope(last *Scope) Scope {
	if s.kind() == KindNull {
		s.skip()
		return Scope{}
	}
	var out Scope
	s.open('{')
	for s.next('}') {
		switch s.key() {
		case "tenant":
			out.Tenant = keep(&last.Tenant, s.str())
		case "thread":
			out.Thread = keep(&last.Thread, s.str())
		case "run":
			out.Run = keep(&last.Run, s.str())
		case "network":
			out.Network = keep(&last.Network, s.str())
		case "agent":
			out.Agent = keep(&last.Agent, s.str())
		default:
			s.skip()
		}
	}
	return out
}

// strings reads an array of strings that may be kept.
func (s *scanner) strings() []string {
	var out []string
	s.open('[')
	for s.next(']') {
		out = append(out, string([]byte(s.str())))
	}
	return out
}

// error reads an error object.
func (s *scanner) error() *Error {
	e := &Error{Code: Internal}
	s.open('{')
	for s.next('}') {
		switch s.key() {
		case "code":
			e.Code = Code(string([]byte(s.str())))
		case "message":
			e.Message = string([]byte(s.str()))
		case "hint":
			e.Hint = string([]byte(s.str()))
		case "retryable":
			e.Retryable = s.boolean()
		default:
			s.skip()
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
