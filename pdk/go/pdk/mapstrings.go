package pdk

// MapStrings replaces every text that the message holds by what f returns for
// it: text and reasoning, and every string inside the arguments of calls, the
// content of results, data, and parts of types that the package does not know
// (whose "type" alone is left). Names of members, ids, tool names, media and
// metadata are not text. JSON in which f changes nothing stays byte for byte.
func (m *Message) MapStrings(f func(text string) string) {
	for i := range m.Parts {
		m.Parts[i].mapStrings(f)
	}
}

func (p *Part) mapStrings(f func(string) string) {
	switch p.Type {
	case PartText, PartReasoning:
		p.Text = f(p.Text)
	case PartToolCall:
		p.Arguments = p.Arguments.MapStrings(f)
	case PartToolResult:
		p.Content = p.Content.MapStrings(f)
	case PartData:
		p.Value = p.Value.MapStrings(f)
	case PartMedia:
	default:
		p.extra = mapUnknown(p.extra, f)
	}
}

// mapUnknown maps the strings of a part of unknown type, but not its type.
func mapUnknown(object Raw, f func(string) string) Raw {
	var w Writer
	same := true
	w.BeginObject()
	for key, value := range object.Members() {
		mapped := value
		if key != "type" {
			mapped = value.MapStrings(f)
		}
		same = same && mapped == value
		w.Key(key).Raw(mapped)
	}
	if same {
		return object
	}
	return w.EndObject().Value()
}

// MapStrings returns r with every string value in it, at any depth, replaced by
// what f returns for it. Names of members stay. If f changes nothing, or r is not
// JSON, r itself is returned.
func (r Raw) MapStrings(f func(text string) string) Raw {
	s := scanner{src: string(r)}
	var out []byte
	copied := 0
	whole := s.walk(func() {
		start := s.pos
		before := s.str()
		after := f(before)
		if s.failed() || after == before {
			return
		}
		out = append(out, r[copied:start]...)
		out = appendString(out, after)
		copied = s.pos
	}) && s.end()
	if !whole || copied == 0 {
		return r
	}
	return Raw(append(out, r[copied:]...))
}
