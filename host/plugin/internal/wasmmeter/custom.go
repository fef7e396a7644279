package wasmmeter

import (
	"bytes"
	"iter"
)

// This file reads custom sections: the plugin's manifest, the names of functions, which
// stack traces show, and the toolchains that made the module, for hints. It counts and
// skips all others.

// ManifestSection is the custom section that holds a plugin's manifest.
const ManifestSection = "agenthost.manifest"

// The custom sections of a plugin that is a script: the digest of the module that
// interprets it, and its text. Such a module begins with the first and has no code.
const (
	InterpreterSection = "agenthost.interpreter"
	ScriptSection      = "agenthost.script"
)

// nameEntry is the name of a function; name is a span of the module.
type nameEntry struct {
	index uint32
	name  []byte
}

// customSections describes the custom sections of a module, with the contents of those
// that the pass uses.
type customSections struct {
	count      int
	bytes      int
	manifest   []byte // contents of the manifest section; nil if absent
	manifestAt span   // that section, whole

	interpreter []byte // contents of that section; nil if absent
	script      []byte

	named      bool // a name section was read
	moduleName []byte
	funcNames  []nameEntry
	producers  []byte // contents of the producers section, which is not checked; nil if absent
}

// read reads a custom section; head is where its identifier stands.
func (c *customSections) read(r *reader, head int) {
	c.count++
	c.bytes += r.left()
	switch name := r.name("a custom section's name"); {
	case r.err != nil:
	case name == ManifestSection:
		c.manifestAt = span{head, r.end}
		c.manifest = r.once(c.manifest, name)
	case name == InterpreterSection:
		c.interpreter = r.once(c.interpreter, name)
	case name == ScriptSection:
		c.script = r.once(c.script, name)
	case name == "name":
		c.readNames(r)
	case name == "producers":
		c.producers = r.take(uint32(r.left()), "the producers")
	default:
		r.pos = r.end
	}
}

// Producers yields the field and the name of each entry of the producers section,
// which say what toolchain made the module. It ends where the section is damaged.
func (m *Module) Producers() iter.Seq2[string, string] {
	return func(yield func(field, name string) bool) {
		r := &reader{b: m.custom.producers, end: len(m.custom.producers)}
		for n := r.count(3, "producers"); n > 0 && r.err == nil; n-- {
			field := r.name("a producers field")
			for k := r.count(2, "producers' values"); k > 0 && r.err == nil; k-- {
				name := r.name("a producer")
				if r.text("a producer's version"); r.err != nil || !yield(field, name) {
					return
				}
			}
		}
	}
}

// once returns the rest of a section that a module has at most one of.
func (r *reader) once(before []byte, name string) []byte {
	if before != nil {
		r.fail("it has two sections %q", name)
		return before
	}
	return r.take(uint32(r.left()), "the section "+name)
}

// IsScript reports whether a module says that it is a script.
func IsScript(wasm []byte) bool {
	const head = 8 // magic number and version
	if len(wasm) < head || wasm[head-1] != 0 {
		return false
	}
	r := &reader{b: wasm, pos: head, end: len(wasm)}
	if r.byte("a section") != secCustom {
		return false
	}
	r.u32("a section's size")
	name := r.name("a custom section's name")
	return r.err == nil && name == InterpreterSection
}

// Script returns the digest of the interpreter and the text of a script.
func (m *Module) Script() (interpreter string, text []byte) {
	return string(bytes.TrimSpace(m.custom.interpreter)), m.custom.script
}

// readNames reads the name section: a list of subsections, of which it uses the
// module's name (0) and the functions' (1).
func (c *customSections) readNames(r *reader) {
	if c.named {
		r.fail("it has two name sections")
	}
	c.named = true
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
			c.moduleName = sub.text("the module's name")
		case 1:
			c.readFuncNames(sub)
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

func (c *customSections) readFuncNames(r *reader) {
	c.funcNames = c.funcNames[:0]
	for n := r.count(2, "function names"); n > 0 && r.err == nil; n-- {
		c.funcNames = append(c.funcNames, nameEntry{r.u32("a named function"), r.text("a function's name")})
	}
}

// skipLocalNames reads the names of locals and forgets them. It reads them only because
// wazero does, which refuses damaged ones.
func (r *reader) skipLocalNames() {
	for n := r.count(2, "functions with named locals"); n > 0 && r.err == nil; n-- {
		r.u32("a function with named locals")
		for k := r.count(2, "local names"); k > 0 && r.err == nil; k-- {
			r.u32("a named local")
			r.text("a local's name")
		}
	}
}
