package pdk

import "strconv"

func runProcess(p *Plugin, in *reader) error {
	call := &p.calls.process
	call.reset()
	in.process(call, &p.calls)
	if err := in.finish("read process request"); err != nil {
		return err
	}
	spec := p.processor(call.Name)
	if spec == nil {
		return missing("processor", call.Name)
	}
	call.Name = spec.Name
	if spec.outline != call.hasOutline || spec.outline == call.hasMessages {
		return Errorf(InvalidArgument, "processor %q is to be given %s", spec.Name, spec.input())
	}
	if err := spec.handler(call); err != nil {
		return err
	}
	call.Edits.append(&p.calls.output)
	return nil
}

// reservedMessages is how long a conversation is for which a processor of outlines
// has memory before its first call. A module whose calls all begin as its first did
// would otherwise allocate it in each of them, and in a wasm module that costs half
// as much as reading the outline. Unused memory stays zero and costs an instance
// nothing.
const reservedMessages = 2048

// editBytes is the usual length of a written edit.
const editBytes = len(`{"drop":[1000,1001]},`)

// reserve makes room for an outline of n messages, with as many calls and results,
// and for an edit of each.
func (m *memory) reserve(n int) {
	o := &m.process.outline
	for _, column := range []*[]int{&o.Bytes, &o.Chars, &o.Tokens, &o.Parts} {
		*column = make([]int, 0, n)
	}
	o.Tools = make([]OutlineTool, 0, n)
	m.process.Edits.list = make([]Edit, 0, n)
	m.output.buf = make([]byte, 0, n*editBytes)
}

// reset empties p and keeps its memory.
func (p *Process) reset() {
	p.Edits.Reset()
	o := &p.outline
	*p = Process{
		Edits:    p.Edits,
		messages: p.messages[:0],
		before:   p.before,
		outline: Outline{Bytes: o.Bytes[:0], Chars: o.Chars[:0], Tokens: o.Tokens[:0],
			Parts: o.Parts[:0], Keep: o.Keep[:0], Tools: o.Tools[:0]},
		ownFrom: noOwn,
	}
}

// noOwn is where own rounds begin of which a host says nothing.
const noOwn = -1

func (in *reader) process(p *Process, m *memory) {
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "processor":
			p.Name = in.scan.str()
		case "config":
			p.Config = Raw(keep(&m.names.config, string(in.optional())))
		case "scope":
			p.Scope = in.scope(&m.names.scope)
		case "model":
			p.Model = keep(&m.names.model, in.scan.str())
		case "messages":
			p.hasMessages = true
			p.messages = in.messages(p.messages[:0], &m.parts)
		case "outline":
			p.hasOutline = true
			in.outline(&p.outline)
		case "own_from":
			p.ownFrom = in.index()
		default:
			in.scan.skip()
		}
	}
	if !in.scan.failed() && p.Name == "" {
		in.scan.fail("processor expected")
	}
	if p.hasMessages {
		p.own = in.own(p.ownFrom, len(p.messages))
	}
}

// index reads where something begins.
func (in *reader) index() int {
	i := in.scan.integer()
	if i < 0 {
		in.scan.fail("negative index")
	}
	return i
}

// own returns how many of n messages stand from an index on, none for noOwn.
func (in *reader) own(from, n int) int {
	if from == noOwn {
		return 0
	}
	if from > n {
		in.scan.fail("own rounds begin outside the conversation")
		return 0
	}
	return n - from
}

// outline reads the columns and checks that they agree, so that handlers may
// index them without looking.
func (in *reader) outline(o *Outline) {
	count, tokens, ownFrom := -1, false, noOwn
	o.Own = 0
	in.scan.open('{')
	for in.scan.next('}') {
		switch in.scan.key() {
		case "count":
			count = in.scan.integer()
		case "roles":
			o.Roles = in.scan.str()
		case "bytes":
			o.Bytes = in.column(o.Bytes[:0], count)
		case "chars":
			o.Chars = in.column(o.Chars[:0], count)
		case "tokens":
			tokens = true
			o.Tokens = in.column(o.Tokens[:0], count)
		case "encoding":
			o.Encoding = in.scan.str()
		case "parts":
			o.Parts = in.column(o.Parts[:0], count)
		case "keep":
			o.Keep = in.column(o.Keep[:0], 0)
		case "own_from":
			ownFrom = in.index()
		case "tools":
			o.Tools = in.outlineTools(o.Tools[:0], count)
		default:
			in.scan.skip()
		}
	}
	switch {
	case !tokens:
		o.Tokens = nil
	case o.Tokens == nil:
		o.Tokens = []int{} // there, though empty
	}
	if !in.scan.failed() {
		in.checkOutline(o, count, tokens)
		o.Own = in.own(ownFrom, len(o.Parts))
	}
}

func (in *reader) checkOutline(o *Outline, count int, tokens bool) {
	switch {
	case count != len(o.Roles), count != len(o.Bytes), count != len(o.Chars), count != len(o.Parts),
		tokens && count != len(o.Tokens):
		in.scan.fail("outline columns of the same length expected")
	case !validRoles(o.Roles):
		in.scan.fail("outline roles other than in, u, a and t")
	}
	for _, m := range o.Keep {
		if uint(m) >= uint(len(o.Parts)) {
			in.scan.fail("outline keeps a message outside the conversation")
		}
	}
	for i := range o.Tools {
		t := &o.Tools[i]
		if uint(t.Message) >= uint(len(o.Parts)) || uint(t.Part) >= uint(o.Parts[t.Message]) {
			in.scan.fail("outline tool outside the conversation")
		}
	}
}

func validRoles(roles string) bool {
	for i := range len(roles) {
		switch roles[i] {
		case RoleLetterSystem, RoleLetterUser, RoleLetterAssistant, RoleLetterTool:
		default:
			return false
		}
	}
	return true
}

// column reads an array of numbers that count something, about n of them.
func (in *reader) column(out []int, n int) []int {
	if in.scan.open('[') {
		if n = min(n, (len(in.scan.src)-in.scan.pos)/2); n > cap(out) {
			out = make([]int, 0, n)
		}
		out = in.plainNumbers(out)
	}
	for in.scan.next(']') {
		n := in.scan.integer()
		if n < 0 {
			in.scan.fail("negative number in an outline")
		}
		out = append(out, n)
	}
	return out
}

// toolBytes is about how long a row of an outline's tools is at least.
const toolBytes = 24

// outlineTools reads the rows of calls and results in a conversation of n messages.
func (in *reader) outlineTools(out []OutlineTool, n int) []OutlineTool {
	in.scan.open('[')
	if n = min(n, (len(in.scan.src)-in.scan.pos)/toolBytes); n > cap(out) {
		out = make([]OutlineTool, 0, n)
	}
	for out = in.plainTools(out); in.scan.next(']'); out = in.plainTools(out) {
		out = append(out, OutlineTool{})
		t := &out[len(out)-1]
		in.scan.open('[')
		in.element()
		t.Message = in.scan.integer()
		in.element()
		t.Part = in.scan.integer()
		in.element()
		switch in.scan.str() {
		case "call":
		case "result":
			t.Result = true
		default:
			in.scan.fail("call or result expected")
		}
		in.element()
		t.ID = in.scan.str()
		in.element()
		t.Name = in.scan.str()
		for in.scan.next(']') {
			in.scan.skip() // later hosts may add columns
		}
	}
	return out
}

// element moves to an element that must be there.
func (in *reader) element() {
	if !in.scan.next(']') {
		in.scan.fail("more elements expected")
	}
}

// input says what the processor is given.
func (p *ProcessorSpec) input() string {
	if p.outline {
		return "an outline and no messages"
	}
	return "messages and no outline"
}

// append writes the answer of a processor.
func (e *Edits) append(w *Writer) {
	w.BeginObject()
	if len(e.list) > 0 {
		w.key("edits").BeginArray()
		for i := range e.list {
			e.list[i].append(w)
		}
		w.EndArray()
	}
	w.rawMember("report", e.report)
	w.EndObject()
}

func (e *Edit) append(w *Writer) {
	switch e.Kind {
	case EditDrop:
		w.pair(`{"drop":[`, e.At, e.To)
	case EditDropPart:
		w.pair(`{"drop_part":[`, e.At, e.Part)
	default:
		w.BeginObject().key(e.Kind.String())
		w.BeginObject().key("at").Int(int64(e.At)).key("message")
		w.message(e.Message)
		w.EndObject()
		w.EndObject()
	}
}

// pair writes an object with one pair of numbers; begin is what stands before
// them. There may be thousands, so it is one function: in a wasm module a call
// costs as much as ten bytes.
func (w *Writer) pair(begin string, a, b int) {
	w.comma()
	buf := append(appendCount(append(w.buf, begin...), a), ',')
	w.buf = append(appendCount(buf, b), ']', '}')
}

// appendCount appends a number, which is quick for the small ones that most are.
func appendCount(buf []byte, n int) []byte {
	digit := func(n uint32) byte { return byte('0' + n%10) }
	switch u := uint32(n); {
	case n < 0 || n >= 10_000:
		return strconv.AppendInt(buf, int64(n), 10)
	case n < 10:
		return append(buf, digit(u))
	case n < 100:
		return append(buf, digit(u/10), digit(u))
	case n < 1000:
		return append(buf, digit(u/100), digit(u/10), digit(u))
	default:
		return append(buf, digit(u/1000), digit(u/100), digit(u/10), digit(u))
	}
}
