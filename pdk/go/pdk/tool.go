package pdk

// A Call is one call of a tool.
//
// A handler answers by one of Text, JSON and Return; without one the content is
// null. It may add state operations, artifacts and agents to run next. None of
// it takes effect if the handler fails.
type Call struct {
	Tool           string
	ID             string // the model's id of this call
	IdempotencyKey string // the same when this very call is tried again
	Attempt        int    // from 1
	Provider       string // the provider that contributed the tool, if one did
	Scope          Scope
	Config         Raw // the plugin's configuration, "" if absent; may be kept

	// Arguments is what the model passed, checked against the tool's schema; "" if
	// the host passed none.
	Arguments Raw

	// State is the network's state, "" unless the plugin was granted to read it.
	// StateRevision grows with every change.
	State         Raw
	StateRevision int64

	// Resumed has a person's answers to this call's interrupts. A resumed tool
	// starts again from its beginning.
	Resumed []Answer

	content   Writer
	patch     Writer // elements of an array, and so are the next three
	media     Writer
	artifacts Writer
	schedule  Writer
	interrupt Raw // the interrupt object, "" if absent
	misread   error
}

// An Answer is what a person said to an interrupt.
type Answer struct {
	InterruptID string
	Answer      Raw
}

// A PatchOp is one RFC 6902 operation on the state. Paths are JSON pointers.
type PatchOp struct {
	Op    string // add, remove, replace, move, copy, test
	Path  string
	From  string // move, copy
	Value Raw    // add, replace, test
}

// Set is the operation that makes value the member or element at path, which
// replaces a member of that name.
func Set(path string, value Raw) PatchOp { return PatchOp{Op: "add", Path: path, Value: value} }

// Remove is the operation that removes the value at path, which must be there.
func Remove(path string) PatchOp { return PatchOp{Op: "remove", Path: path} }

// Arg returns the argument of that name, "" if the model passed none.
func (c *Call) Arg(name string) Raw {
	if onArgument != nil {
		onArgument(c.Tool, name)
	}
	return c.Arguments.Get(name)
}

// onArgument, if a test has set it, receives each argument that a handler reads.
var onArgument func(tool, name string)

// given returns an argument that is there and not null.
func (c *Call) given(name string) (Raw, bool) {
	value := c.Arg(name)
	return value, value != "" && value.Kind() != KindNull
}

// String returns a string argument, "" for one that is absent or null.
//
// An argument of another type ends the handler, here and in the accessors below:
// the call fails with [InvalidArgument] and the argument's name, whatever the
// handler has done so far. They do not return a wrong value because a tool may act
// on it. They are for the goroutine that the handler was called in.
func (c *Call) String(name string) string {
	raw, given := c.given(name)
	if !given {
		return ""
	}
	value, ok := raw.Str()
	if !ok {
		c.misfit(name, raw, "a string")
	}
	return value
}

// Int returns an integer argument, 0 for one that is absent or null. [Raw.Int]
// defines the spellings of an integer.
func (c *Call) Int(name string) int {
	raw, given := c.given(name)
	if !given {
		return 0
	}
	value, ok := raw.Int()
	if !ok || int64(int(value)) != value {
		c.misfit(name, raw, "an integer of 64 bits")
	}
	return int(value)
}

// Float returns a number argument, 0 for one that is absent or null.
func (c *Call) Float(name string) float64 {
	raw, given := c.given(name)
	if !given {
		return 0
	}
	value, ok := raw.Float()
	if !ok {
		c.misfit(name, raw, "a number that a float holds")
	}
	return value
}

// Bool returns a boolean argument, false for one that is absent or null.
func (c *Call) Bool(name string) bool {
	raw, given := c.given(name)
	if !given {
		return false
	}
	value, ok := raw.Bool()
	if !ok {
		c.misfit(name, raw, "true or false")
	}
	return value
}

// misfit ends the handler because an argument is not what it reads.
func (c *Call) misfit(name string, got Raw, want string) {
	c.misread = Errorf(InvalidArgument, "argument %q is %s, not %s", name, got.described(), want)
	panic(c.misread)
}

// handle runs a handler, and returns the error of an argument that it misread.
func (c *Call) handle(handler func(c *Call) error) (err error) {
	defer func() {
		if c.misread != nil { // also if the handler has recovered from it
			_ = recover()
			err = c.misread
		}
	}()
	return handler(c)
}

// Text answers with a string.
func (c *Call) Text(text string) { c.JSON().Str(text) }

// Return answers with any JSON value.
func (c *Call) Return(value Raw) { c.JSON().Raw(value) }

// JSON answers with the value that the caller writes to the returned empty writer.
func (c *Call) JSON() *Writer {
	c.content.Reset()
	return &c.content
}

// Patch changes the state once the call has succeeded: all operations, in order,
// or none.
func (c *Call) Patch(ops ...PatchOp) {
	for _, op := range ops {
		op.append(&c.patch)
	}
}

// Media adds an image, a sound or a file to the result, a [MediaPart] or a
// [MediaDataPart]: for models and clients that take it, beside the content that all
// read.
func (c *Call) Media(part Part) { c.media.part(&part) }

// Artifact adds something the call made. A named one replaces the one of that
// name. Metadata may be "".
func (c *Call) Artifact(name string, metadata Raw, parts ...Part) {
	w := &c.artifacts
	w.BeginObject()
	w.member("name", name)
	w.key("parts").BeginArray()
	for i := range parts {
		w.part(&parts[i])
	}
	w.EndArray()
	w.rawMember("metadata", metadata)
	w.EndObject()
}

// Schedule lets agents of the network run next. A name that the network does not
// know makes the call fail.
func (c *Call) Schedule(agents ...string) {
	for _, name := range agents {
		c.schedule.Str(name)
	}
}

// Interrupt asks a person instead of answering: the run stops, and when there is
// an answer the tool is called again with it in Resumed. Data is any JSON for the
// client that shows the question, or "".
func (c *Call) Interrupt(reason string, data Raw) {
	var w Writer
	w.BeginObject().key("reason").Str(reason)
	w.rawMember("data", data)
	c.interrupt = w.EndObject().Value()
}

// Answered returns the answer to the only interrupt of the call, and false before
// it has one.
func (c *Call) Answered() (answer Raw, ok bool) {
	if len(c.Resumed) == 0 {
		return "", false
	}
	return c.Resumed[len(c.Resumed)-1].Answer, true
}

func runTool(p *Plugin, in *reader) error {
	c := &p.calls.tool
	c.reset()
	in.call(c, &p.calls.names)
	if err := in.finish("read tool call"); err != nil {
		return err
	}
	spec := p.tool(c.Tool)
	if spec == nil {
		return missing("tool", c.Tool)
	}
	c.Tool = spec.Name
	if err := c.handle(spec.handler); err != nil {
		return err
	}
	c.append(&p.calls.output)
	return nil
}

// reset empties c and keeps its memory.
func (c *Call) reset() {
	c.content.Reset()
	c.patch.Reset()
	c.media.Reset()
	c.artifacts.Reset()
	c.schedule.Reset()
	*c = Call{content: c.content, patch: c.patch, media: c.media, artifacts: c.artifacts, schedule: c.schedule}
}

func (in *reader) call(c *Call, last *names) {
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "tool":
			c.Tool = in.scan.str()
		case "call_id":
			c.ID = keep(&last.id, in.scan.str())
		case "idempotency_key":
			c.IdempotencyKey = keep(&last.key, in.scan.str())
		case "attempt":
			c.Attempt = in.scan.integer()
		case "provider":
			c.Provider = keep(&last.provider, in.scan.str())
		case "arguments":
			c.Arguments = in.scan.raw()
		case "scope":
			c.Scope = in.scope(&last.scope)
		case "state":
			c.State = in.scan.raw()
		case "state_revision":
			c.StateRevision = int64(in.scan.integer())
		case "config":
			c.Config = Raw(keep(&last.config, string(in.optional())))
		case "resumed":
			c.Resumed = in.answers()
		default:
			in.scan.skip()
		}
	}
	if !in.scan.failed() && c.Tool == "" {
		in.scan.fail("tool expected")
	}
}

func (in *reader) answers() []Answer {
	var out []Answer
	in.scan.open('[')
	for in.scan.next(']') {
		var a Answer
		in.scan.open('{')
		for in.scan.next('}') {
			switch in.scan.key() {
			case "interrupt_id":
				a.InterruptID = in.scan.str()
			case "answer":
				a.Answer = in.scan.raw()
			default:
				in.scan.skip()
			}
		}
		out = append(out, a)
	}
	return out
}

// append writes the result of the call.
func (c *Call) append(w *Writer) {
	w.BeginObject()
	if c.interrupt != "" {
		w.key("interrupt").Raw(c.interrupt).EndObject()
		return
	}
	w.key("content").Raw(borrowed(&c.content))
	w.elements("state", &c.patch)
	w.elements("media", &c.media)
	w.elements("artifacts", &c.artifacts)
	w.elements("schedule", &c.schedule)
	w.EndObject()
}

func (op *PatchOp) append(w *Writer) {
	w.BeginObject().key("op").Str(op.Op).key("path").Str(op.Path)
	switch op.Op {
	case "move", "copy":
		w.key("from").Str(op.From)
	case "add", "replace", "test":
		w.key("value").Raw(op.Value)
	}
	w.EndObject()
}
