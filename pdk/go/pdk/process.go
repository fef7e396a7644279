package pdk

// A Scope says on whose behalf a call is made. Entries that do not apply are
// empty.
type Scope struct {
	Tenant  string
	Thread  string
	Run     string
	Network string
	Agent   string
}

// A Process is one call of a processor: a conversation on its way to a model,
// and the edits that the processor makes to it. What the processor sees is the
// view sent to the model; stored history is never changed by it.
//
// A handler that makes no edit leaves the conversation unchanged.
type Process struct {
	Edits // what the processor does to the conversation

	Name   string // the processor's name
	Config Raw    // its configuration, "" if absent; may be kept
	Scope  Scope
	Model  string // the model that the conversation is for

	messages    []Message
	own         int // of the messages
	ownFrom     int
	outline     Outline
	hasMessages bool
	hasOutline  bool

	mapped Message // what Map shows its function
	before []Part  // and the parts that it had
}

// Messages returns the conversation, for a processor registered with
// [Processor]; otherwise it is nil. Changing a message in the slice changes
// nothing outside: use [Process.Map], or Replace.
func (p *Process) Messages() []Message { return p.messages }

// Own returns how many messages of the conversation, the last ones, are from the
// rounds that the agent about to be asked has made since it was picked. A processor
// that filters what other agents did leaves them alone: an agent that does not see
// its own calls makes them again. It is 0 for none, and where the host does not say.
func (p *Process) Own() int {
	if p.hasOutline {
		return p.outline.Own
	}
	return p.own
}

// Outline returns the conversation without its content, for a processor
// registered with [OutlineProcessor]; otherwise it is empty.
func (p *Process) Outline() *Outline { return &p.outline }

// Map calls f with every message in order and replaces those that f changed; a
// message that f leaves without parts is dropped. Messages that f did not touch
// are not sent back, so they reach the model byte for byte. m is valid
// until f returns. Map stops at f's first error and returns it.
func (p *Process) Map(f func(m *Message) error) error {
	for i := range p.messages {
		p.mapped = p.messages[i]
		p.before = append(p.before[:0], p.mapped.Parts...)
		if err := f(&p.mapped); err != nil {
			return err
		}
		switch {
		case len(p.mapped.Parts) == 0 && len(p.before) > 0:
			p.Drop(i, i+1)
		case changed(&p.messages[i], &p.mapped, p.before):
			p.Replace(i, p.mapped)
		}
	}
	return nil
}

// MapStrings maps every message with [Message.MapStrings]. It is the whole of a
// processor that masks or rewrites text wherever it stands.
func (p *Process) MapStrings(f func(text string) string) {
	_ = p.Map(func(m *Message) error {
		m.MapStrings(f)
		return nil
	})
}

// changed reports whether after differs from the original, whose parts were
// before (after may share and have overwritten the original's slice).
func changed(original, after *Message, before []Part) bool {
	if original.ID != after.ID || original.Role != after.Role || original.Agent != after.Agent ||
		original.CreatedAt != after.CreatedAt || original.Metadata != after.Metadata ||
		len(before) != len(after.Parts) {
		return true
	}
	for i := range before {
		if before[i] != after.Parts[i] {
			return true
		}
	}
	return false
}
