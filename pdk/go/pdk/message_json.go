package pdk

// A members set remembers which known members of an object were read. A known
// name that comes twice is refused: two readers might choose differently, and a
// filter could be passed by.
type members uint32

// once notes member bit and fails the scanner if it was there already.
func (seen *members) once(s *scanner, bit members, name string) {
	if *seen&bit != 0 {
		s.fail(name + " is given twice")
	}
	*seen |= bit
}

// message reads a message into m. Its parts go to the end of slab, whose memory
// m.Parts shares.
func (in *reader) message(m *Message, slab *[]Part) {
	*m = Message{}
	var seen members
	var extra extraMembers
	in.scan.open('{')
	for in.scan.next('}') {
		start := in.scan.here()
		switch key := in.scan.key(); key {
		case "id":
			seen.once(&in.scan, 1, key)
			m.ID = in.scan.str()
		case "role":
			seen.once(&in.scan, 2, key)
			m.Role = in.role()
		case "agent":
			seen.once(&in.scan, 4, key)
			m.Agent = in.scan.str()
		case "parts":
			seen.once(&in.scan, 8, key)
			m.Parts = in.parts(slab)
		case "created_at":
			seen.once(&in.scan, 16, key)
			m.CreatedAt = in.scan.str()
		case "metadata":
			seen.once(&in.scan, 32, key)
			m.Metadata = in.optional()
			if m.Metadata != "" && m.Metadata[0] != '{' {
				in.scan.fail("metadata is not an object")
			}
		default:
			in.scan.skip()
			extra.add(&in.scan, start)
		}
	}
	m.extra = extra.text
	if !in.scan.failed() && m.Role == "" {
		in.scan.fail("message without a role")
	}
}

// messages appends an array of messages to list and their parts to slab.
func (in *reader) messages(list []Message, slab *[]Part) []Message {
	in.scan.open('[')
	for in.scan.next(']') {
		list = append(list, Message{})
		in.message(&list[len(list)-1], slab)
	}
	return list
}

func (in *reader) parts(slab *[]Part) []Part {
	from := len(*slab)
	in.scan.open('[')
	for in.scan.next(']') {
		*slab = append(*slab, Part{})
		in.part(&(*slab)[len(*slab)-1])
	}
	return (*slab)[from:len(*slab):len(*slab)]
}

// role reads a role and returns one of the constants.
func (in *reader) role() string {
	switch in.scan.str() {
	case RoleSystem:
		return RoleSystem
	case RoleUser:
		return RoleUser
	case RoleAssistant:
		return RoleAssistant
	case RoleTool:
		return RoleTool
	}
	in.scan.fail("role is not system, user, assistant or tool")
	return ""
}

// optional reads any value; null counts as absent.
func (in *reader) optional() Raw {
	if value := in.scan.raw(); value != "null" {
		return value
	}
	return ""
}

// extraMembers collects the unknown members of an object as the text between its
// braces. Neighbours share one piece of the source.
type extraMembers struct {
	text  Raw
	start int // of the last piece of the source
	end   int
}

// add adds the member from start to the scanner's position.
func (e *extraMembers) add(s *scanner, start int) {
	switch {
	case s.failed():
	case e.text == "":
		e.start = start
		e.text = Raw(s.src[start:s.pos])
	case e.start >= 0 && onlyComma(s.src[e.end:start]):
		e.text = Raw(s.src[e.start:s.pos])
	default:
		e.start = -1
		e.text += "," + Raw(s.src[start:s.pos])
	}
	e.end = s.pos
}

// onlyComma reports whether nothing but a comma and white space separates two
// members.
func onlyComma(between string) bool {
	for i := range len(between) {
		switch between[i] {
		case ',', ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return true
}

// part reads a part.
func (in *reader) part(p *Part) {
	start := in.scan
	p.Type = in.partType()
	in.scan = start
	if !p.known() {
		in.unknownPart(p)
		return
	}
	var seen members
	var extra extraMembers
	in.scan.open('{')
	for in.scan.next('}') {
		start := in.scan.here()
		key := in.scan.key()
		if key == "type" {
			seen.once(&in.scan, 1, key)
			in.scan.skip()
		} else if !p.field(in, key, &seen) {
			in.scan.skip()
			extra.add(&in.scan, start)
		}
	}
	p.extra = extra.text
	if !in.scan.failed() && (p.Type == PartToolCall || p.Type == PartToolResult) && (p.ID == "" || p.Name == "") {
		in.scan.fail("tool_call or tool_result without an id or a name")
	}
}

// unknownPart reads a part that is carried whole.
func (in *reader) unknownPart(p *Part) {
	var seen members
	start := in.scan.here()
	in.scan.open('{')
	for in.scan.next('}') {
		if in.scan.key() == "type" {
			seen.once(&in.scan, 1, "type")
		}
		in.scan.skip()
	}
	if in.scan.failed() {
		return
	}
	p.extra = Raw(in.scan.src[start:in.scan.pos])
	if p.Type == "" {
		in.scan.fail("part without a type")
	}
}

// partType looks ahead for the type of the part that follows. Writers put it
// first, so this is seldom more than one member.
func (in *reader) partType() string {
	in.scan.open('{')
	for in.scan.next('}') {
		if in.scan.key() == "type" {
			return knownType(in.scan.str())
		}
		in.scan.skip()
	}
	return ""
}

// knownType returns the constant for a known type, so that Type may be kept.
func knownType(name string) string {
	switch name {
	case PartText:
		return PartText
	case PartReasoning:
		return PartReasoning
	case PartToolCall:
		return PartToolCall
	case PartToolResult:
		return PartToolResult
	case PartMedia:
		return PartMedia
	case PartData:
		return PartData
	}
	return name
}

// field reads the value of member key if it is a field of the part's type, and
// reports whether it is.
func (p *Part) field(in *reader, key string, seen *members) bool {
	switch p.Type {
	case PartText, PartReasoning:
		switch {
		case key == "text":
			seen.once(&in.scan, 2, key)
			p.Text = in.scan.str()
			return true
		case key == "signature" && p.Type == PartReasoning:
			seen.once(&in.scan, 4, key)
			p.Signature = in.scan.str()
			return true
		}
	case PartToolCall, PartToolResult:
		return p.toolField(in, key, seen)
	case PartMedia:
		return p.mediaField(in, key, seen)
	case PartData:
		if key == "value" {
			seen.once(&in.scan, 2, key)
			p.Value = in.scan.raw()
			return true
		}
	}
	return false
}

func (p *Part) toolField(in *reader, key string, seen *members) bool {
	call := p.Type == PartToolCall
	switch {
	case key == "id":
		seen.once(&in.scan, 2, key)
		p.ID = in.scan.str()
	case key == "name":
		seen.once(&in.scan, 4, key)
		p.Name = in.scan.str()
	case key == "arguments" && call:
		seen.once(&in.scan, 8, key)
		p.Arguments = in.scan.raw()
	case key == "content" && !call:
		seen.once(&in.scan, 8, key)
		p.Content = in.scan.raw()
	case key == "is_error" && !call:
		seen.once(&in.scan, 16, key)
		p.IsError = in.scan.boolean()
	default:
		return false
	}
	return true
}

func (p *Part) mediaField(in *reader, key string, seen *members) bool {
	switch key {
	case "media_type":
		seen.once(&in.scan, 2, key)
		p.MediaType = in.scan.str()
	case "url":
		seen.once(&in.scan, 4, key)
		p.URL = in.scan.str()
	case "data":
		seen.once(&in.scan, 8, key)
		p.Data = in.scan.str()
	default:
		return false
	}
	return true
}

// message writes m.
func (w *Writer) message(m *Message) {
	w.BeginObject()
	w.member("id", m.ID)
	w.key("role").Str(m.Role)
	w.member("agent", m.Agent)
	w.key("parts").BeginArray()
	for i := range m.Parts {
		w.part(&m.Parts[i])
	}
	w.EndArray()
	w.member("created_at", m.CreatedAt)
	w.rawMember("metadata", m.Metadata)
	w.extra(m.extra)
	w.EndObject()
}

// part writes p.
func (w *Writer) part(p *Part) {
	if !p.known() && p.extra != "" {
		w.Raw(p.extra)
		return
	}
	w.BeginObject().key("type").Str(p.Type)
	switch p.Type {
	case PartText, PartReasoning:
		w.key("text").Str(p.Text)
		w.member("signature", p.Signature)
	case PartToolCall:
		w.key("id").Str(p.ID).key("name").Str(p.Name)
		w.valueOr("arguments", p.Arguments, "{}")
	case PartToolResult:
		w.key("id").Str(p.ID).key("name").Str(p.Name)
		w.valueOr("content", p.Content, "null")
		w.flag("is_error", p.IsError)
	case PartMedia:
		w.key("media_type").Str(p.MediaType)
		w.member("url", p.URL)
		w.member("data", p.Data)
	case PartData:
		w.valueOr("value", p.Value, "null")
	}
	w.extra(p.extra)
	w.EndObject()
}

// valueOr writes a member, with another value in the place of none.
func (w *Writer) valueOr(name string, value, none Raw) {
	if value == "" {
		value = none
	}
	w.key(name).Raw(value)
}

// extra writes members that are JSON already.
func (w *Writer) extra(members Raw) {
	if members != "" {
		w.value(string(members))
	}
}
