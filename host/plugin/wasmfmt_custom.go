package plugin

// This file reads custom sections: the plugin's manifest, and the names of
// functions, which stack traces show, and the toolchains that made it, for hints. All others are counted and skipped.

// manifestSection is the custom section that holds a plugin's manifest.
const manifestSection = "agenthost.manifest"

// nameEntry is the name of a function; name is a span of the module.
type nameEntry struct {
	index uint32
	name  []byte
}

// readCustom reads a custom section; head is where its identifier stands.
func (m *wasmModule) readCustom(r *reader, head int) {
	m.customs++
	m.customBytes += r.left()
	switch name := r.name("a custom section's name"); {
	case r.err != nil:
	case name == manifestSection:
		m.manifestAt = span{head, r.end}
		m.readManifest(r)
	case name == "name":
		m.readNames(r)
	case name == "producers":
		m.producers = r.take(uint32(r.left()), "the producers")
	default:
		r.pos = r.end
	}
}

func (m *wasmModule) readManifest(r *reader) {
	if m.manifest != nil {
		r.fail("it has two sections %q", manifestSection)
		return
	}
	m.manifest = r.take(uint32(r.left()), "the manifest")
}

// readNames reads the name section: a list of subsections, of which the module's
// name (0) and the functions' (1) are of use here.
func (m *wasmModule) readNames(r *reader) {
	if m.named {
		r.fail("it has two name sections")
	}
	m.named = true
	for r.left() > 0 && r.err == nil {
		id := r.byte("a name subsection")
		size := r.u32("a name subsection's size")
		start := r.pos
		if r.take(size, "a name subsection"); r.err != nil {
			return
		}
		sub := &reader{b: r.b, pos: start, end: r.pos}
		switch id {
		case 0:
			m.moduleName = sub.text("the module's name")
		case 1:
			m.readFuncNames(sub)
		case 2:
			sub.skipLocalNames()
		default:
			sub.pos = sub.end
		}
		if sub.err == nil && sub.left() > 0 {
			sub.fail("%d bytes are left over in name subsection %d", sub.left(), id)
		}
		r.err = sub.err
	}
}

func (m *wasmModule) readFuncNames(r *reader) {
	m.funcNames = m.funcNames[:0]
	for n := r.count(2, "function names"); n > 0 && r.err == nil; n-- {
		m.funcNames = append(m.funcNames, nameEntry{r.u32("a named function"), r.text("a function's name")})
	}
}

// skipLocalNames reads the names of locals and forgets them. It reads them only
// because wazero does, and refuses what it finds damaged.
func (r *reader) skipLocalNames() {
	for n := r.count(2, "functions with named locals"); n > 0 && r.err == nil; n-- {
		r.u32("a function with named locals")
		for k := r.count(2, "local names"); k > 0 && r.err == nil; k-- {
			r.u32("a named local")
			r.text("a local's name")
		}
	}
}
