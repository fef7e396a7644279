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

func runRoute(p *Plugin, s *scanner) error {
	r := &p.calls.route
	*r = Route{next: r.next[:0]}
	s.route(r, &p.calls)
	if err := s.finish("read route request"); err != nil {
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

func (s *scanner) route(r *Route, m *memory) {
	s.open('{')
	for s.next('}') {
		switch s.key() {
		case "router":
			r.Name = s.str()
		case "config":
			r.Config = Raw(keep(&m.names.config, string(s.optional())))
		case "scope":
			r.Scope = s.scope(&m.names.scope)
		case "input":
			r.Input = &r.input
			s.message(r.Input, &m.parts)
		case "call_count":
			r.CallCount = s.integer()
		case "stack":
			r.Stack = s.strings()
		case "agents":
			r.Agents = s.agents()
		case "state":
			r.State = s.raw()
		case "last":
			r.Last = s.last(m)
		case "outline":
			r.hasOutline = true
			s.outline(&r.outline)
		default:
			s.skip()
		}
	}
	if !s.failed() && r.Name == "" {
		s.fail("router expected")
	}
}

func (s *scanner) agents() []AgentInfo {
	var out []AgentInfo
	s.open('[')
	for s.next(']') {
		var a AgentInfo
		s.open('{')
		for s.next('}') {
			switch s.key() {
			case "name":
				a.Name = s.str()
			case "description":
				a.Description = s.str()
			default:
				s.skip()
			}
		}
		out = append(out, a)
	}
	return out
}

func (s *scanner) last(m *memory) *Last {
	if s.kind() == KindNull {
		s.skip()
		return nil
	}
	l := &Last{}
	s.open('{')
	for s.next('}') {
		switch s.key() {
		case "agent":
			l.Agent = s.str()
		case "messages":
			l.Messages = s.messages(nil, &m.parts)
		case "tool_results":
			l.ToolResults = s.parts(&m.parts)
		case "finish_reason":
			l.FinishReason = s.str()
		default:
			s.skip()
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
