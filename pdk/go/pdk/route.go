package pdk

// A Route is one call of a router: where a network stands, and who is to run
// next. A handler that decides nothing stops the network.
type Route struct {
	Name   string // the router's name
	Config Raw    // its configuration, "" if absent; may be kept
	Scope  Scope

	Input     *Message // what the user said in this turn; nil if the run has no input
	CallCount int      // agent runs so far in this run
	Stack     []string // agents already waiting to run
	Agents    []AgentInfo
	State     Raw   // the network's state, "" unless granted
	Last      *Last // what the last agent did in this run; nil before the first

	input      Message
	outline    Outline
	hasOutline bool
	next       []string
	delegate   string
	reason     string
}

// AgentInfo describes an agent to a router.
type AgentInfo struct {
	Name        string
	Description string
}

// Last is what the last agent did.
type Last struct {
	Agent        string
	Messages     []Message // its answers and its tools' results, in order
	ToolResults  []Part    // the tool results alone
	FinishReason string
}

// Outline returns the outline of the conversation, whose messages
// [MessagesGet] returns, if the plugin was granted "messages"; otherwise nil.
func (r *Route) Outline() *Outline {
	if !r.hasOutline {
		return nil
	}
	return &r.outline
}

// Next lets agents run next, in order. The network knows the names.
func (r *Route) Next(agents ...string) { r.next = append(r.next, agents...) }

// Stop ends the run when no agent is waiting. It is what happens without Next
// and Delegate.
func (r *Route) Stop() { r.next, r.delegate = r.next[:0], "" }

// Delegate lets a model router of the network decide instead; "default" is the
// network's own.
func (r *Route) Delegate(router string) { r.delegate = router }

// Reason sets the sentence that the run shows about the decision.
func (r *Route) Reason(text string) { r.reason = text }

func runRoute(p *Plugin, in *reader) error {
	r := &p.calls.route
	*r = Route{next: r.next[:0]}
	in.route(r, &p.calls)
	if err := in.finish("read route request"); err != nil {
		return err
	}
	spec := p.router(r.Name)
	if spec == nil {
		return missing("router", r.Name)
	}
	r.Name = spec.Name
	if err := spec.handler(r); err != nil {
		return err
	}
	r.append(&p.calls.output)
	return nil
}

func (in *reader) route(r *Route, m *memory) {
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "router":
			r.Name = in.scan.str()
		case "config":
			r.Config = Raw(keep(&m.names.config, string(in.optional())))
		case "scope":
			r.Scope = in.scope(&m.names.scope)
		case "input":
			r.Input = &r.input
			in.message(r.Input, &m.parts)
		case "call_count":
			r.CallCount = in.scan.integer()
		case "stack":
			r.Stack = in.strings()
		case "agents":
			r.Agents = in.agents()
		case "state":
			r.State = in.scan.raw()
		case "last":
			r.Last = in.last(m)
		case "outline":
			r.hasOutline = true
			in.outline(&r.outline)
		default:
			in.scan.skip()
		}
	}
	if !in.scan.failed() && r.Name == "" {
		in.scan.fail("router expected")
	}
}

func (in *reader) agents() []AgentInfo {
	var out []AgentInfo
	in.scan.open('[')
	for in.scan.next(']') {
		var a AgentInfo
		in.scan.open('{')
		for in.scan.next('}') {
			switch in.scan.key() {
			case "name":
				a.Name = in.scan.str()
			case "description":
				a.Description = in.scan.str()
			default:
				in.scan.skip()
			}
		}
		out = append(out, a)
	}
	return out
}

func (in *reader) last(m *memory) *Last {
	if in.scan.kind() == KindNull {
		in.scan.skip()
		return nil
	}
	l := &Last{}
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "agent":
			l.Agent = in.scan.str()
		case "messages":
			l.Messages = in.messages(nil, &m.parts)
		case "tool_results":
			l.ToolResults = in.parts(&m.parts)
		case "finish_reason":
			l.FinishReason = in.scan.str()
		default:
			in.scan.skip()
		}
	}
	return l
}

// append writes the decision.
func (r *Route) append(w *Writer) {
	w.BeginObject()
	if r.delegate != "" {
		w.key("delegate").Str(r.delegate)
	} else {
		w.strings("next", r.next)
	}
	w.member("reason", r.reason)
	w.EndObject()
}
