// Package js is the kit for plugins in JavaScript. A plugin is one file of source, a
// module that imports from "agenthost"; an engine, which is a plugin itself, runs it.
// [Pack] makes a plugin of a script; README.md beside this file is for authors.
package js

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"unicode/utf8"
)

// engine is quickjs-wasi and glue.c, as link.mjs links them.
//
//go:embed engine/engine.wasm
var engine []byte

// Engine returns the module that runs scripts, for the option Interpreters of a runtime of
// plugins: it is compiled once for all of them.
func Engine() []byte { return bytes.Clone(engine) }

//go:embed engine/older/*.wasm
var older embed.FS

// Engines returns [Engine] and the engines of earlier versions, for the same option: a script that
// was packed by an earlier version runs with the engine that its file names. An engine is
// compiled when a script needs it.
func Engines() [][]byte {
	files, err := older.ReadDir("engine/older")
	if err != nil {
		panic(err) // the files are in the program
	}
	engines := [][]byte{Engine()}
	for _, f := range files {
		wasm, err := older.ReadFile(path.Join("engine/older", f.Name()))
		if err != nil {
			panic(err)
		}
		engines = append(engines, wasm)
	}
	return engines
}

// The custom sections of a plugin that is a script; see pdk/ABI.md.
const (
	interpreterSection = "agenthost.interpreter"
	scriptSection      = "agenthost.script"
)

// scriptGlobal is the global of the engine whose value is the address of the place where
// the glue reads where the script lies, and its length.
const scriptGlobal = "agenthost_script"

const page = 64 << 10

// MaxScript is how many bytes a script has at most.
const MaxScript = 4 << 20

// Pack returns the plugin that runs script: a few bytes more than it, for a host that has
// [Engine]. The same script gives the same bytes. The plugin has no manifest section: what
// the script offers is known when it runs.
func Pack(script []byte) ([]byte, error) {
	if err := check(script); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(engine)
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = custom(out, interpreterSection, []byte("sha256:"+hex.EncodeToString(sum[:])))
	return custom(out, scriptSection, script), nil
}

// PackStandalone returns the plugin that runs script with the engine in it, for a host that
// does not have the engine. It imports no function that came later to the contract, so that older hosts
// load it: bytes of host operations are base64 in it, whatever the host has.
func PackStandalone(script []byte) ([]byte, error) {
	if err := check(script); err != nil {
		return nil, err
	}
	return pack(engine, script)
}

func check(script []byte) error {
	switch {
	case len(script) > MaxScript:
		return fmt.Errorf("the script has %d bytes, more than %d", len(script), MaxScript)
	case len(bytes.TrimSpace(script)) == 0:
		return errors.New("the script is empty")
	case !utf8.Valid(script):
		return errors.New("the script is not UTF-8")
	}
	return nil
}

func custom(out []byte, name string, content []byte) []byte {
	body := binary.AppendUvarint(nil, uint64(len(name)))
	return section(out, 0, append(append(body, name...), content...))
}

// The import that the engine does without, which is the last of its functions; and the function in its
// place: no locals, and the result -1.
const laterImport = "host_call_bytes"

var inItsPlace = []byte{0, 0x42, 0x7f, 0x0b}

// pack appends the script to the module's memory, as data behind its last page, and takes
// laterImport out of it.
func pack(module, script []byte) ([]byte, error) {
	m := reader{b: module, at: 8}
	var out []byte
	out = append(out, module[:8]...)
	var pages, address, signature uint32
	for m.at < len(m.b) {
		from := m.at
		id, body := m.section()
		switch id {
		case 2: // imports
			b, of, err := withoutLast(body)
			if err != nil {
				return nil, err
			}
			signature = of
			out = section(out, id, b)
		case 3: // functions, by their types
			r := reader{b: body}
			b := binary.AppendUvarint(nil, uint64(r.number())+1)
			b = binary.AppendUvarint(b, uint64(signature))
			out = section(out, id, append(b, body[r.at:]...))
		case 10: // code
			r := reader{b: body}
			b := binary.AppendUvarint(nil, uint64(r.number())+1)
			b = append(append(b, byte(len(inItsPlace))), inItsPlace...)
			out = section(out, id, append(b, body[r.at:]...))
		case 5: // memory
			r := reader{b: body}
			r.number()
			flags := r.number()
			pages = r.number()
			need := (uint32(len(script)) + 1 + page - 1) / page
			b := binary.AppendUvarint([]byte{1, byte(flags)}, uint64(pages+need))
			out = section(out, id, append(b, body[r.at:]...))
		case 7: // exports
			r := reader{b: body}
			for n := r.number(); n > 0; n-- {
				name := string(r.bytes(int(r.number())))
				kind, index := r.number(), r.number()
				if name == scriptGlobal && kind == 3 {
					address = index // of the global, for now
				}
			}
			out = append(out, m.b[from:m.at]...)
		case 12: // number of data segments
			r := reader{b: body}
			out = section(out, id, binary.AppendUvarint(nil, uint64(r.number())+2))
		case 11: // data
			at, err := m.global(address)
			if err != nil {
				return nil, err
			}
			r := reader{b: body}
			b := binary.AppendUvarint(nil, uint64(r.number())+2)
			b = append(b, body[r.at:]...)
			where := binary.LittleEndian.AppendUint32(nil, pages*page)
			where = binary.LittleEndian.AppendUint32(where, uint32(len(script)))
			b = data(data(b, at, where), pages*page, script)
			out = section(out, id, b)
		default:
			out = append(out, m.b[from:m.at]...)
		}
	}
	if pages == 0 || address == 0 {
		return nil, errors.New("the engine takes no script")
	}
	return out, nil
}

// withoutLast returns a section of imports without laterImport, and the type of that: the function
// that the module defines first has its number.
func withoutLast(imports []byte) (rest []byte, signature uint32, err error) {
	r := reader{b: imports}
	n := r.number()
	first, last, name := r.at, r.at, ""
	for range n {
		last = r.at
		r.bytes(int(r.number()))
		name = string(r.bytes(int(r.number())))
		if kind := r.number(); kind != 0 {
			return nil, 0, fmt.Errorf("the engine imports %s, which is no function", name)
		}
		signature = r.number()
	}
	if name != laterImport {
		return nil, 0, fmt.Errorf("the last import of the engine is %s, not %s", name, laterImport)
	}
	return append(binary.AppendUvarint(nil, uint64(n)-1), imports[first:last]...), signature, nil
}

type reader struct {
	b  []byte
	at int
}

func (r *reader) number() uint32 {
	n, size := binary.Uvarint(r.b[r.at:])
	r.at += size
	return uint32(n)
}

func (r *reader) bytes(n int) []byte {
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *reader) section() (byte, []byte) {
	id := r.bytes(1)[0]
	return id, r.bytes(int(r.number()))
}

// global returns the value of a constant i32 global that the module defines.
func (r *reader) global(index uint32) (uint32, error) {
	s := reader{b: r.b, at: 8}
	for s.at < len(s.b) {
		id, body := s.section()
		if id != 6 {
			continue
		}
		g := reader{b: body}
		for n, i := g.number(), uint32(0); i < n; i++ {
			g.bytes(2)
			if op := g.bytes(1)[0]; op != 0x41 {
				break
			}
			v := int32(0)
			for shift := 0; ; shift += 7 {
				b := g.bytes(1)[0]
				v |= int32(b&0x7f) << shift
				if b < 0x80 {
					if shift+7 < 32 && b&0x40 != 0 {
						v |= -1 << (shift + 7)
					}
					break
				}
			}
			g.bytes(1)
			if i == index {
				return uint32(v), nil
			}
		}
	}
	return 0, fmt.Errorf("the engine has no constant global %d", index)
}

func section(out []byte, id byte, body []byte) []byte {
	out = binary.AppendUvarint(append(out, id), uint64(len(body)))
	return append(out, body...)
}

// data appends an active segment of memory 0.
func data(out []byte, at uint32, content []byte) []byte {
	out = append(out, 0, 0x41)
	for v := int32(at); ; {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			out = append(out, b, 0x0b)
			break
		}
		out = append(out, b|0x80)
	}
	out = binary.AppendUvarint(out, uint64(len(content)))
	return append(out, content...)
}
