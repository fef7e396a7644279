package wasmtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// assemble turns a small text format into a module, so that tests can show the
// modules they speak of. A line holds one declaration; the lines of a function
// after it hold its instructions, as many as fit, in the order of the binary
// format, with plain numbers for indices and labels, or $name for functions:
//
//	import agenthost_v1 log i32 i32 i32
//	import env add i32 i32 -> i32 as $add
//	memory 1 4
//	table 10 20
//	table 10 externref
//	global i32 mut 7 (zero, whatever it says, for other types)
//	start $init
//	elem 0 $run $init
//	data 16 "text\x00"
//	passive "text"
//	export memory memory 0
//	custom name.of.section "contents"
//	func $run run i32 -> i32 : i64 i64
//	  local.get 0 i32.eqz if i32 i32.const 1 else i32.const 2 end
//
// The names after func are for references and for the export; - exports
// nothing. Types follow, and locals after a colon. The last end is added.
func Assemble(t testing.TB, text string) []byte {
	t.Helper()
	a := &assembler{t: t, funcs: map[string]uint32{}}
	var lines [][]string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, Fields(line))
	}
	for _, words := range lines {
		a.declareNames(words)
	}
	for i, words := range lines {
		a.line = i + 1
		a.read(words)
	}
	return a.module()
}

// Expand replaces each <text *N> by N copies of the text, innermost first, for
// modules too large to write by hand. In the text {n} is the number of the copy,
// from 0, and {n+1} the next one. A text with < or > of its own is not repeated.
func Expand(text string) string {
	var out []byte
	var open []int // where in out a text may have begun, the innermost last
	for {
		i := strings.IndexAny(text, "<>")
		if i < 0 {
			return string(append(out, text...))
		}
		out = append(out, text[:i]...)
		bracket := text[i]
		text = text[i+1:]
		if bracket == '<' {
			open = append(open, len(out))
		} else if n := len(open); n > 0 {
			begin := open[n-1]
			if copied, times, ok := repetition(string(out[begin+1:])); ok {
				out, open = appendCopies(out[:begin], copied, times), open[:n-1]
				continue
			}
			open = open[:0] // the texts around it have a > of their own
		}
		out = append(out, bracket)
	}
}

// repetition splits text *N.
func repetition(s string) (text string, times int, ok bool) {
	star := strings.LastIndexByte(s, '*')
	if star < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[star+1:], 10, 31)
	return s[:star], int(n), err == nil
}

func appendCopies(out []byte, text string, times int) []byte {
	plain := !strings.Contains(text, "{n")
	for n := range times {
		if plain {
			out = append(out, text...)
			continue
		}
		for rest := text; ; {
			before, after, found := strings.Cut(rest, "{n")
			out = append(out, before...)
			if !found {
				break
			}
			switch {
			case strings.HasPrefix(after, "}"):
				out, rest = strconv.AppendInt(out, int64(n), 10), after[len("}"):]
			case strings.HasPrefix(after, "+1}"):
				out, rest = strconv.AppendInt(out, int64(n+1), 10), after[len("+1}"):]
			default:
				out, rest = append(out, "{n"...), after
			}
		}
	}
	return out
}

type assembler struct {
	t       testing.TB
	line    int
	funcs   map[string]uint32
	imports uint32 // functions, counted in the first round
	defined uint32

	types, importSec, funcSec, tables, memories, globals, exports, elems, datas [][]byte
	custom                                                                      []byte
	start                                                                       string
	passive                                                                     bool
	bodies                                                                      []*asmBody
}

type asmBody struct{ locals, code []byte }

// space separates the words of a line.
const space = " \t\r\n"

// Fields splits a line, keeping quoted strings whole, and drops comments.
func Fields(line string) []string {
	out := make([]string, 0, 8) // modules of a million lines are assembled
	for line = strings.TrimLeft(line, space); line != "" && !strings.HasPrefix(line, "//"); line = strings.TrimLeft(line, space) {
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				panic(fmt.Sprintf("assemble: %s: %v", line, err))
			}
			out, line = append(out, q), line[len(q):]
			continue
		}
		end := strings.IndexAny(line, space)
		if end < 0 {
			end = len(line)
		}
		out, line = append(out, line[:end]), line[end:]
	}
	return out
}

func (a *assembler) declareNames(f []string) {
	switch {
	case len(f) > 0 && f[0] == "import" && f[len(f)-1] != "extern":
		if f[len(f)-2] == "as" {
			a.funcs[f[len(f)-1]] = a.imports
		}
		a.imports++
	case len(f) > 0 && f[0] == "func":
		a.funcs[f[1]] = a.defined | 1<<31
		a.defined++
	}
}

func (a *assembler) function(name string) uint32 {
	if !strings.HasPrefix(name, "$") {
		return uint32(a.number(name))
	}
	i, ok := a.funcs[name]
	if !ok {
		a.fatal("no function %s", name)
	}
	if i&(1<<31) != 0 {
		return i&^(1<<31) + a.imports
	}
	return i
}

func (a *assembler) fatal(format string, args ...any) {
	a.t.Helper()
	a.t.Fatalf("assemble: line %d: %s", a.line, fmt.Sprintf(format, args...))
}

func (a *assembler) number(s string) int64 {
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(s, 0, 64)
		if uerr != nil {
			a.fatal("%q is not a number", s)
		}
		v = int64(u)
	}
	return v
}

func (a *assembler) text(s string) string {
	u, err := strconv.Unquote(s)
	if err != nil {
		a.fatal("%s is not a string", s)
	}
	return u
}

var asmTypes = map[string]byte{
	"i32": typeI32, "i64": typeI64, "f32": typeF32, "f64": typeF64, "v128": typeV128,
	"funcref": typeFuncref, "externref": typeExternref,
}

// signature reads types up to a colon or "as" and returns the type's index.
func (a *assembler) signature(f []string) (index uint32, rest []string) {
	var params, results []byte
	into := &params
	for len(f) > 0 && f[0] != ":" && f[0] != "as" {
		if f[0] == "->" {
			into = &results
		} else if t, ok := asmTypes[f[0]]; ok {
			*into = append(*into, t)
		} else {
			a.fatal("%q is not a type", f[0])
		}
		f = f[1:]
	}
	entry := appendSized(appendSized([]byte{funcForm}, params), results)
	for i, t := range a.types {
		if string(t) == string(entry) {
			return uint32(i), f
		}
	}
	a.types = append(a.types, entry)
	return uint32(len(a.types) - 1), f
}

func (a *assembler) limits(f []string) (b []byte) {
	b = appendU32([]byte{0}, uint32(a.number(f[0])))
	if len(f) > 1 {
		b[0] = 1
		b = appendU32(b, uint32(a.number(f[1])))
	}
	return b
}

func (a *assembler) read(f []string) {
	if len(f) == 0 {
		return
	}
	switch f[0] {
	case "type":
		a.signature(f[1:])
	case "import":
		a.readImport(f)
	case "memory":
		a.memories = append(a.memories, a.limits(f[1:]))
	case "table":
		elem := byte(typeFuncref)
		if last := f[len(f)-1]; asmTypes[last] != 0 {
			elem, f = asmTypes[last], f[:len(f)-1]
		}
		a.tables = append(a.tables, append([]byte{elem}, a.limits(f[1:])...))
	case "global":
		a.readGlobal(f[1:])
	case "start":
		a.start = f[1]
	case "elem":
		e := append(appendS64([]byte{0, opI32Const}, a.number(f[1])), opEnd)
		e = appendU32(e, uint32(len(f)-2))
		for _, name := range f[2:] {
			e = appendU32(e, a.function(name))
		}
		a.elems = append(a.elems, e)
	case "declare":
		e := appendU32([]byte{3, 0}, uint32(len(f)-1))
		for _, name := range f[1:] {
			e = appendU32(e, a.function(name))
		}
		a.elems = append(a.elems, e)
	case "data":
		e := append(appendS64([]byte{0, opI32Const}, a.number(f[1])), opEnd)
		a.datas = append(a.datas, appendName(e, a.text(f[2])))
	case "passive":
		a.passive = true
		a.datas = append(a.datas, appendName([]byte{1}, a.text(f[1])))
	case "export":
		kind := map[string]byte{"func": 0, "table": 1, "memory": 2, "global": 3}[f[2]]
		e := append(appendName(nil, f[1]), kind)
		a.exports = append(a.exports, appendU32(e, a.function(f[3])))
	case "custom":
		a.custom = appendSection(a.custom, secCustom, append(appendName(nil, f[1]), a.text(f[2])...))
	case "func":
		a.readFunc(f[1:])
	default:
		if len(a.bodies) == 0 {
			a.fatal("%q stands outside a function", f[0])
		}
		a.instructions(f)
	}
}

func (a *assembler) readImport(f []string) {
	e := appendName(appendName(nil, f[1]), f[2])
	if f[len(f)-1] == "extern" { // import m n memory 1 extern
		switch f[3] {
		case "memory":
			e = append(append(e, 2), a.limits(f[4:len(f)-1])...)
		case "table":
			e = append(append(e, 1, typeFuncref), a.limits(f[4:len(f)-1])...)
		case "global":
			e = append(e, 3, asmTypes[f[4]], 0)
		}
	} else {
		index, _ := a.signature(f[3:])
		e = appendU32(append(e, 0), index)
	}
	a.importSec = append(a.importSec, e)
}

func (a *assembler) readGlobal(f []string) {
	e := []byte{asmTypes[f[0]], 0}
	if f[1] == "mut" {
		e[1], f = 1, f[1:]
	}
	switch e[0] {
	case typeI32:
		e = appendS64(append(e, opI32Const), a.number(f[1]))
	case typeI64:
		e = appendS64(append(e, opI64Const), a.number(f[1]))
	case typeF32:
		e = append(append(e, 0x43), make([]byte, 4)...)
	case typeF64:
		e = append(append(e, 0x44), make([]byte, 8)...)
	case typeExternref:
		e = append(e, 0xd0, typeExternref)
	case typeFuncref:
		e = appendU32(append(e, opRefFunc), a.function(f[1]))
	default:
		a.fatal("no constant for %s", f[0])
	}
	a.globals = append(a.globals, append(e, opEnd))
}

func (a *assembler) readFunc(f []string) {
	index, rest := a.signature(f[2:])
	a.funcSec = append(a.funcSec, appendU32(nil, index))
	if f[1] != "-" {
		e := append(appendName(nil, f[1]), 0)
		a.exports = append(a.exports, appendU32(e, a.function(f[0])))
	}
	b := &asmBody{}
	if len(rest) > 0 && rest[0] == ":" {
		b.locals = appendU32(nil, uint32(len(rest)-1))
		for _, t := range rest[1:] {
			n := int64(1)
			if count, of, ok := strings.Cut(t, "*"); ok {
				n, t = a.number(count), of
			}
			b.locals = append(appendU32(b.locals, uint32(n)), asmTypes[t])
		}
	} else {
		b.locals = []byte{0}
	}
	a.bodies = append(a.bodies, b)
}

func (a *assembler) module() []byte {
	b := append([]byte(nil), "\x00asm\x01\x00\x00\x00"...)
	vec := func(id byte, entries [][]byte) {
		if len(entries) == 0 {
			return
		}
		c := appendU32(nil, uint32(len(entries)))
		for _, e := range entries {
			c = append(c, e...)
		}
		b = appendSection(b, id, c)
	}
	vec(secType, a.types)
	vec(secImport, a.importSec)
	vec(secFunction, a.funcSec)
	vec(secTable, a.tables)
	vec(secMemory, a.memories)
	vec(secGlobal, a.globals)
	vec(secExport, a.exports)
	if a.start != "" {
		b = appendSection(b, secStart, appendU32(nil, a.function(a.start)))
	}
	vec(secElement, a.elems)
	if a.passive {
		b = appendSection(b, secDataCount, appendU32(nil, uint32(len(a.datas))))
	}
	var code [][]byte
	for _, f := range a.bodies {
		code = append(code, appendSized(nil, append(append(f.locals, f.code...), opEnd)))
	}
	vec(secCode, code)
	vec(secData, a.datas)
	return append(b, a.custom...)
}

// asmOps maps the names of instructions to their opcodes.
var asmOps = func() map[string][]byte {
	m := map[string][]byte{}
	list := func(first int, names string) {
		for i, n := range strings.Fields(names) {
			m[n] = []byte{byte(first + i)}
		}
	}
	list(0x00, "unreachable nop block loop if else")
	list(0x0b, "end br br_if br_table return call call_indirect")
	list(0x1a, "drop select")
	list(0x20, "local.get local.set local.tee global.get global.set table.get table.set")
	list(0x28, "i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u i64.load8_s i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u i32.store i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32")
	list(0x3f, "memory.size memory.grow i32.const i64.const f32.const f64.const")
	list(0x45, "i32.eqz i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u i64.eqz i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u i64.le_s i64.le_u i64.ge_s i64.ge_u")
	list(0x6a, "i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u i32.and i32.or i32.xor i32.shl i32.shr_s i32.shr_u")
	list(0x7c, "i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u i64.and i64.or i64.xor")
	list(0xa0, "f64.add f64.sub f64.mul f64.div")
	list(0xa7, "i32.wrap_i64")
	list(0xac, "i64.extend_i32_s i64.extend_i32_u")
	list(0xd0, "ref.null ref.is_null ref.func")
	for i, n := range strings.Fields("memory.init data.drop memory.copy memory.fill table.init elem.drop table.copy table.grow table.size table.fill") {
		m[n] = []byte{0xfc, byte(8 + i)}
	}
	m["v128.const"] = []byte{0xfd, 0x0c}
	m["i16x8.abs"] = []byte{0xfd, 0x80, 0x01}
	m["i32x4.add"] = []byte{0xfd, 0xae, 0x01}
	m["i8x16.shuffle"] = []byte{0xfd, 0x0d}
	m["i32x4.extract_lane"] = []byte{0xfd, 0x1b}
	m["v128.load"] = []byte{0xfd, 0x00}
	m["v128.load8_lane"] = []byte{0xfd, 0x54}
	return m
}()

// instructions appends instructions to the last function. A word that is not an
// instruction is one byte of code in hexadecimal, as 0xNN.
func (a *assembler) instructions(f []string) {
	body := a.bodies[len(a.bodies)-1]
	for len(f) > 0 {
		name := f[0]
		op, ok := asmOps[name]
		f = f[1:]
		if !ok {
			if !strings.HasPrefix(name, "0x") {
				a.fatal("no instruction %q", name)
			}
			op = []byte{byte(a.number(name))}
		}
		body.code = append(body.code, op...)
		if ok {
			body.code, f = a.operands(body.code, name, f)
		}
	}
}

// operands appends what follows an instruction.
func (a *assembler) operands(b []byte, name string, f []string) ([]byte, []string) {
	switch {
	case name == "call" || name == "ref.func":
		return appendU32(b, a.function(f[0])), f[1:]
	case name == "block" || name == "loop" || name == "if":
		return a.blockType(b, f)
	case name == "br_table":
		n := a.number(f[0])
		for _, l := range f[:n+2] {
			b = appendU32(b, uint32(a.number(l)))
		}
		return b, f[n+2:]
	case name == "i32.const":
		return appendS64(b, int64(int32(a.number(f[0])))), f[1:]
	case name == "i64.const":
		return appendS64(b, a.number(f[0])), f[1:]
	case name == "f64.const":
		v, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			a.fatal("%v", err)
		}
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v)), f[1:]
	case name == "v128.load8_lane":
		return append(b, 0, 0, 0), f
	case strings.Contains(name, ".load") || strings.Contains(name, ".store"):
		return append(b, 0, 0), f // aligned to bytes, at offset 0
	case name == "memory.size" || name == "memory.grow":
		return append(b, 0), f
	case name == "memory.fill":
		return append(b, 0), f
	case name == "memory.copy":
		return append(b, 0, 0), f
	case name == "memory.init":
		return append(appendU32(b, uint32(a.number(f[0]))), 0), f[1:]
	case name == "call_indirect": // the type's index; table 0
		return append(appendU32(b, uint32(a.number(f[0]))), 0), f[1:]
	case name == "table.init" || name == "table.copy":
		return appendU32(appendU32(b, uint32(a.number(f[0]))), uint32(a.number(f[1]))), f[2:]
	case name == "ref.null":
		return append(b, asmTypes[f[0]]), f[1:]
	case name == "v128.const" || name == "i8x16.shuffle":
		return append(b, make([]byte, 16)...), f
	case name == "i32x4.extract_lane":
		return append(b, 0), f
	case name == "br", name == "br_if", strings.HasPrefix(name, "local."), strings.HasPrefix(name, "global."),
		strings.HasPrefix(name, "table."), strings.HasSuffix(name, ".drop"):
		return appendU32(b, uint32(a.number(f[0]))), f[1:]
	}
	return b, f
}

// blockType reads a result type or type N, if the next word is one.
func (a *assembler) blockType(b []byte, f []string) ([]byte, []string) {
	if len(f) > 0 {
		if t, ok := asmTypes[f[0]]; ok {
			return append(b, t), f[1:]
		}
		if n, ok := strings.CutPrefix(f[0], "type="); ok {
			return appendS64(b, a.number(n)), f[1:]
		}
	}
	return append(b, blockEmpty), f
}

// Numbers of the binary format: sections, value types, opcodes that the assembler
// writes itself, and the forms that open a function type and an empty block.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12

	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeV128      = 0x7b
	typeFuncref   = 0x70
	typeExternref = 0x6f

	opEnd      = 0x0b
	opI32Const = 0x41
	opI64Const = 0x42
	opRefFunc  = 0xd2

	funcForm   = 0x60
	blockEmpty = 0x40
)

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

// appendS64 appends a signed LEB128 number in its shortest form.
func appendS64(b []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

func appendName(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }

func appendSized(b, contents []byte) []byte {
	return append(appendU32(b, uint32(len(contents))), contents...)
}

func appendSection(b []byte, id byte, contents []byte) []byte {
	return appendSized(append(b, id), contents)
}
