package pdk

// A Provide is one call of a context provider before an agent runs. What the
// handler adds holds for this run of the agent.
type Provide struct {
	Name     string // the provider's name
	Config   Raw    // its configuration, "" if absent; may be kept
	Scope    Scope
	Messages []Message // the conversation with this turn's input

	instructions []string
	messages     []Message
	tools        []string
	store        bool
}

// Instruct adds to the agent's instructions, on a line of its own.
func (p *Provide) Instruct(text string) { p.instructions = append(p.instructions, text) }

// Insert adds a message behind the history and before this turn's input. It is
// not stored, but see [Provide.Store].
func (p *Provide) Insert(m Message) { p.messages = append(p.messages, m) }

// Store has the inserted messages stay in the conversation: they stand behind this
// turn's input and are stored with the answer.
func (p *Provide) Store() { p.store = true }

// Tools offers further tools to the agent: names of the plugin's own tools or of
// host tools granted to it.
func (p *Provide) Tools(names ...string) { p.tools = append(p.tools, names...) }

// An Observe is one call of a context provider after an agent has run. What the
// provider learns it keeps with [PutOwn] or other host operations.
type Observe struct {
	Name      string // the provider's name
	Config    Raw    // its configuration, "" if absent; may be kept
	Scope     Scope
	Messages  []Message // as the provider saw them before the run
	Responses []Message // what the agent said and its tools answered
	Err       *Error    // why the agent's run failed; nil if it did not
}

func runProvide(p *Plugin, in *reader) error {
	m := &p.calls
	m.observe = Observe{Messages: m.observe.Messages[:0]}
	in.observe(&m.observe, m)
	if err := in.finish("read provide request"); err != nil {
		return err
	}
	spec := p.provider(m.observe.Name)
	if spec == nil || spec.provide == nil {
		return missing("provider", m.observe.Name)
	}
	o, call := &m.observe, &m.provide
	*call = Provide{Name: spec.Name, Config: o.Config, Scope: o.Scope, Messages: o.Messages,
		instructions: call.instructions[:0], messages: call.messages[:0], tools: call.tools[:0]}
	if err := spec.provide(call); err != nil {
		return err
	}
	call.append(&m.output)
	return nil
}

// runObserve answers {} for a provider without an observer: every module built
// with the kit has the export, so a host may ask.
func runObserve(p *Plugin, in *reader) error {
	m := &p.calls
	m.observe = Observe{Messages: m.observe.Messages[:0]}
	in.observe(&m.observe, m)
	if err := in.finish("read observe request"); err != nil {
		return err
	}
	spec := p.provider(m.observe.Name)
	if spec == nil {
		return missing("provider", m.observe.Name)
	}
	m.observe.Name = spec.Name
	if spec.observe != nil {
		if err := spec.observe(&m.observe); err != nil {
			return err
		}
	}
	m.output.BeginObject().EndObject()
	return nil
}

// observe reads a provide or an observe request: the second is the first with
// what came of it.
func (in *reader) observe(o *Observe, m *memory) {
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "provider":
			o.Name = in.scan.str()
		case "config":
			o.Config = Raw(keep(&m.names.config, string(in.optional())))
		case "scope":
			o.Scope = in.scope(&m.names.scope)
		case "messages":
			o.Messages = in.messages(o.Messages[:0], &m.parts)
		case "responses":
			o.Responses = in.messages(nil, &m.parts)
		case "error":
			o.Err = in.error()
		default:
			in.scan.skip()
		}
	}
	if !in.scan.failed() && o.Name == "" {
		in.scan.fail("provider expected")
	}
}

// append writes what the provider adds.
func (p *Provide) append(w *Writer) {
	w.BeginObject()
	if len(p.instructions) > 0 {
		w.key("instructions").Str(joinLines(p.instructions))
	}
	if len(p.messages) > 0 {
		w.key("messages").BeginArray()
		for i := range p.messages {
			w.message(&p.messages[i])
		}
		w.EndArray()
	}
	if p.store {
		w.key("store").Bool(true)
	}
	if len(p.tools) > 0 {
		w.strings("tools", p.tools)
	}
	w.EndObject()
}

func joinLines(lines []string) string {
	text := lines[0]
	for _, line := range lines[1:] {
		text += "\n" + line
	}
	return text
}
