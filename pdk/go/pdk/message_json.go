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
func (s *scanner) message(m *Message, slab *[]Part) {
	*m = Message{}
	var seen members
	var extra extraMembers
	s.open('{')
	for s.next('}') {
		start := s.here()
		switch key := s.key(); key {
		case "id":
			seen.once(s, 1, key)
			m.ID = s.str()
		case "role":
			seen.once(s, 2, key)
			m.Role = s.role()
		case "agent":
			seen.once(s, 4, key)
			m.Agent = s.str()
		case "parts":
			seen.once(s, 8, key)
			m.Parts = s.parts(slab)
		case "created_at":
			seen.once(s, 16, key)
			m.CreatedAt = s.str()
		case "metadata":
			seen.once(s, 32, key)
			m.Metadata = s.optional()
			if m.Metadata != "" && m.Metadata[0] != '{' {
				s.fail("metadata is not an object")
			}
		default:
			s.skip()
			extra.add(s, start)
		}
	}
	m.extra = extra.text
	if !s.failed() && m.Role == "" {
		s.fail("message without a role")
	}
}

// messages appends an array of messages to list and their parts to slab.
func (s *scanner) messages(list []Message, slab *[]Part) []Message {
	s.open('[')
	for s.next(']') {
		list = append(list, Message{})
		s.message(&list[len(list)-1], slab)
	}
	return list
}

func (s *scanner) parts(slab *[]Part) []Part {
	from := len(*slab)
	s.open('[')
	for s.next(']') {
		*slab = append(*slab, Part{})
		s.part(&(*slab)[len(*slab)-1])
	}
	return (*slab)[from:len(*slab):len(*slab)]
}

// role reads a role and returns one of the constants.
func (s *scanner) role() string {
	switch s.str() {
	case RoleSystem:
		return RoleSystem
	case RoleUser:
		return RoleUser
	case RoleAssistant:
		return RoleAssistant
	case RoleTool:
		return RoleTool
	}
	s.fail("role is not system, user, assistant or tool")
	return ""
}

// optional reads any value; null counts as absent.
func (s *scanner) optional() Raw {
	if value := s.raw(); value != "null" {
		return value
	}
	return ""
}

// here skips white space and returns the position.
func (s *scanner) here() int {
	s.space()
	return s.pos
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
func (s *scanner) part(p *Part) {
	start := *s
	p.Type = s.partType()
	*s = start
	if !p.known() {
		s.unknownPart(p)
		return
	}
	var seen members
	var extra extraMembers
	s.open('{')
	for s.next('}') {
		start := s.here()
		key := s.key()
		if key == "type" {
			seen.once(s, 1, key)
			s.skip()
		} else if !p.field(s, key, &seen) {
			s.skip()
			extra.add(s, start)
		}
	}
	p.extra = extra.text
	if !s.failed() && (p.Type == PartToolCall || p.Type == PartToolResult) && (p.ID == "" || p.Name == "") {
		s.fail("tool_call or tool_result without an id or a name")
	}
}

// unknownPart reads a part that is carried whole.
func (s *scanner) unknownPart(p *Part) {
	var seen members
	start := s.here()
	s.open('{')
	for s.next('}') {
		if s.key() == "type" {
			seen.once(s, 1, "type")
		}
		s.skip()
	}
	if s.failed() {
		return
	}
	p.extra = Raw(s.src[start:s.pos])
	if p.Type == "" {
		s.fail("part without a type")
	}
}

// partType looks ahead for the type of the part that follows. Writers put it
// first, so this is seldom more than one member.
func (s *scanner) partType() string {
	s.open('{')
	for s.next('}') {
		if s.key() == "type" {
			return knownType(s.str())
		}
		s.skip()
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
func (p *Part) field(s *scanner, key string, seen *members) bool {
	switch p.Type {
	case PartText, PartReasoning:
		switch {
		case key == "text":
			seen.once(s, 2, key)
			p.Text = s.str()
			return true
		case key == "signature" && p.Type == PartReasoning:
			seen.once(s, 4, key)
			p.Signature = s.str()
			return true
		}
	case PartToolCall, PartToolResult:
		return p.toolField(s, key, seen)
	case PartMedia:
		return p.mediaField(s, key, seen)
	case PartData:
		if key == "value" {
			seen.once(s, 2, key)
			p.Value = s.raw()
			return true
		}
	}
	return false
}

func (p *Part) toolField(s *scanner, key string, seen *members) bool {
	call := p.Type == PartToolCall
	switch {
	case key == "id":
		seen.once(s, 2, key)
		p.ID = s.str()
	case key == "name":
		seen.once(s, 4, key)
		p.Name = s.str()
	case key == "arguments" && call:
		seen.once(s, 8, key)
		p.Arguments = s.raw()
	case key == "content" && !call:
		seen.once(s, 8, key)
		p.Content = s.raw()
	case key == "is_error" && !call:
		seen.once(s, 16, key)
		p.IsError = s.boolean()
	default:
		return false
	}
	return true
}

func (p *Part) mediaField(s *scanner, key string, seen *members) bool {
	switch key {
	case "media_type":
		seen.once(s, 2, key)
		p.MediaType = s.str()
	case "url":
		seen.once(s, 4, key)
		p.URL = s.str()
	case "data":
		seen.once(s, 8, key)
		p.Data = s.str()
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
