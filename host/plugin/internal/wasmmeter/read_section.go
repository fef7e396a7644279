package wasmmeter

import "github.com/agenthost/agenthost/host/plugin/internal/refusal"

// This file reads the entries of sections.

func (m *Module) readType(r *reader) {
	if form := r.byte("a type"); r.err == nil && form != 0x60 {
		r.fail("type %d has form 0x%02x; WebAssembly 2.0 has function types (0x60) only", len(m.Types), form)
		return
	}
	m.Types = append(m.Types, FuncType{Params: r.valueTypes("parameters"), Results: r.valueTypes("results")})
}

func (r *reader) valueTypes(what string) []byte {
	b := r.take(r.count(1, what), what)
	for _, t := range b {
		if !isValueType(t) {
			r.fail("0x%02x among a type's %s is no value type of WebAssembly 2.0", t, what)
			return nil
		}
	}
	return b
}

func (m *Module) readImport(r *reader) {
	imp := Import{Module: r.name("an import's module"), Name: r.name("an import's name")}
	imp.Kind = ExternKind(r.byte("an import's kind"))
	switch {
	case r.err != nil:
		return
	case imp.Kind == ExternFunc:
		imp.TypeIndex = r.index(len(m.Types), "type")
		m.funcs = append(m.funcs, imp.TypeIndex)
	case imp.Kind == ExternTable:
		m.readTable(r)
		imp.table = m.Tables[len(m.Tables)-1]
	case imp.Kind == ExternMemory:
		m.readMemory(r)
		imp.memory = m.memories[len(m.memories)-1]
	case imp.Kind == ExternGlobal:
		imp.global = r.globalType()
		m.Globals = append(m.Globals, imp.global)
	default:
		r.fail("import %q %q is of unknown kind %d", imp.Module, imp.Name, byte(imp.Kind))
		return
	}
	m.imported[imp.Kind]++
	m.Imports = append(m.Imports, imp)
}

func (m *Module) readFunction(r *reader) {
	m.funcs = append(m.funcs, r.index(len(m.Types), "type"))
}

func (m *Module) readTable(r *reader) { m.Tables = append(m.Tables, r.tableType()) }

func (r *reader) tableType() Table {
	elem := r.byte("a table's type")
	if r.err == nil && !isRefType(elem) {
		r.fail("a table of 0x%02x is not WebAssembly 2.0", elem)
	}
	return Table{Elem: elem, Bounds: r.limits("table")}
}

func (m *Module) readMemory(r *reader) { m.memories = append(m.memories, r.limits("memory")) }

// limits reads the bounds of a memory or a table.
func (r *reader) limits(what string) (l Bounds) {
	flags := r.byte("the bounds of a " + what)
	switch {
	case r.err != nil:
		return l
	case flags&^3 != 0 && flags < 8:
		r.err = refusal.Unsupported("the module has a 64-bit %s, and this host runs 32-bit ones", what).WithHint("build for wasm32")
		return l
	case flags&2 != 0 && flags < 4:
		r.err = refusal.Unsupported("the module has a shared %s, and this host runs no threads", what).WithHint("build without threads, atomics and shared memory")
		return l
	case flags > 1:
		r.fail("the bounds of a %s have unknown flags 0x%02x", what, flags)
		return l
	}
	l.Min = r.u32("the minimum of a " + what)
	if l.HasMax = flags == 1; l.HasMax {
		l.Max = r.u32("the maximum of a " + what)
	}
	if r.err == nil && l.HasMax && l.Max < l.Min {
		r.fail("a %s has minimum %d above its maximum %d", what, l.Min, l.Max)
	}
	if most := uint32(maxPages); r.err == nil && what == "memory" && (l.Min > most || l.HasMax && l.Max > most) {
		r.fail("a memory of more than %d pages is impossible", most)
	}
	return l
}

// maxPages is the size of a 32-bit address space in pages of 64 KiB.
const maxPages = 1 << 16

func (m *Module) readGlobal(r *reader) {
	g := r.globalType()
	m.constExpr(r, g.Value)
	m.Globals = append(m.Globals, g)
}

func (r *reader) globalType() Global {
	g := Global{Value: r.valueType("a global's type")}
	switch mut := r.byte("a global's mutability"); mut {
	case 0:
	case 1:
		g.Mutable = true
	default:
		r.fail("a global's mutability is %d", mut)
	}
	return g
}

// constExpr reads a constant expression of the given type. It has one
// instruction; arithmetic came after WebAssembly 2.0. It returns the value of
// an i32.const.
func (m *Module) constExpr(r *reader, want byte) (value int32, constant bool) {
	op := r.byte("a constant")
	var got byte
	switch {
	case r.err != nil:
		return 0, false
	case op == 0x41:
		got, constant = typeI32, true
		value = r.s32("a constant")
	case op == 0x42:
		got = typeI64
		r.s64("a constant")
	case op == 0x43:
		got = typeF32
		r.take(4, "a constant")
	case op == 0x44:
		got = typeF64
		r.take(8, "a constant")
	case op == 0x23:
		if i := r.index(m.imported[ExternGlobal], "imported global"); r.err == nil {
			got = m.Globals[i].Value
		}
	case op == 0xd0:
		if got = r.byte("a reference type"); r.err == nil && !isRefType(got) {
			r.fail("a null of type 0x%02x is not WebAssembly 2.0", got)
		}
	case op == 0xd2:
		got = typeFuncref
		m.readFuncRef(r)
	case op == 0xfd && r.byte("a constant") == 0x0c:
		got = typeV128
		r.take(16, "a constant")
	default:
		r.fail("0x%02x is not allowed in a constant expression", op)
	}
	if end := r.byte("the end of a constant"); r.err == nil && end != 0x0b {
		r.fail("a constant expression has more than one instruction, which WebAssembly 2.0 does not allow")
	}
	if r.err == nil && got != want {
		r.fail("a constant is of type %s where %s is due", typeName(got), typeName(want))
	}
	return value, constant
}

// readFuncRef reads a function's index and remembers its position. The function section
// comes before every section that has such indices.
func (m *Module) readFuncRef(r *reader) uint32 {
	start := r.pos
	i := r.index(len(m.funcs), "function")
	m.funcRefs = append(m.funcRefs, funcRef{span{start, r.pos}, i})
	m.importRefs = m.importRefs || int(i) < m.imported[ExternFunc]
	return i
}

func (m *Module) readExport(r *reader) {
	e := Export{Name: r.name("an export's name"), Kind: ExternKind(r.byte("an export's kind"))}
	switch {
	case r.err != nil:
	case e.Kind == ExternFunc:
		e.Index = m.readFuncRef(r)
	case e.Kind == ExternTable:
		e.Index = r.index(len(m.Tables), "table")
	case e.Kind == ExternMemory:
		e.Index = r.index(len(m.memories), "memory")
	case e.Kind == ExternGlobal:
		e.Index = r.index(len(m.Globals), "global")
	default:
		r.fail("export %q is of unknown kind %d", e.Name, byte(e.Kind))
	}
	m.Exports = append(m.Exports, e)
}

// readElement reads an element segment. Its first number is a set of bits: 1
// not active, 2 an explicit table (if active) or declared only (if not), 4
// expressions instead of indices.
func (m *Module) readElement(r *reader) {
	flags := r.u32("the kind of an element segment")
	if r.err == nil && flags > 7 {
		r.fail("element segment %d has unknown kind %d", m.Elements, flags)
		return
	}
	active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
	elem := byte(typeFuncref)
	table := uint32(0)
	if active {
		if explicit {
			table = r.u32("the table of an element segment")
		}
		if n := len(m.Tables); r.err == nil && uint64(table) >= uint64(n) {
			r.fail("element segment %d is for table %d, but there are %d", m.Elements, table, n)
		}
		m.constExpr(r, typeI32)
	}
	if !active || explicit {
		elem = m.elementType(r, exprs)
	}
	n := r.count(1, "elements")
	if all := m.ElementItems + int(n); m.limits != nil && all > m.limits.Elements {
		r.err = tooMany("the module has", all, "elements", m.limits.Elements)
	}
	for i := uint32(0); i < n && r.err == nil; i++ {
		if exprs {
			m.constExpr(r, elem)
		} else {
			m.readFuncRef(r)
		}
	}
	m.Elements++
	m.ElementItems += int(n)
}

func (m *Module) elementType(r *reader, exprs bool) byte {
	kind := r.byte("the type of an element segment")
	if exprs {
		if r.err == nil && !isRefType(kind) {
			r.fail("elements of 0x%02x are not WebAssembly 2.0", kind)
		}
		return kind
	}
	if r.err == nil && kind != 0 {
		r.fail("element segment %d has unknown kind 0x%02x", m.Elements, kind)
	}
	return typeFuncref
}

func (m *Module) readBody(r *reader) {
	size := r.u32("a function's size")
	start := r.pos
	if r.take(size, "a function"); r.err != nil {
		return
	}
	f := &reader{b: r.b, pos: start, end: start + int(size)}
	var body funcBody
	for i := f.count(2, "groups of locals"); i > 0 && f.err == nil; i-- {
		body.nLocals += uint64(f.u32("a number of locals"))
		f.valueType("the type of locals")
	}
	body.locals = span{start, f.pos}
	body.code = span{f.pos, f.end}
	if f.err == nil && f.left() == 0 {
		f.fail("function %d has no end", m.imported[ExternFunc]+len(m.bodies))
	}
	r.err = f.err
	m.bodies = append(m.bodies, body)
}

func (m *Module) readData(r *reader) {
	kind := r.u32("the kind of a data segment")
	seg := DataSegment{Active: kind != 1}
	if r.err == nil && kind > 2 {
		r.fail("data segment %d has unknown kind %d", len(m.Data), kind)
	}
	if kind == 2 {
		if memory := r.u32("the memory of a data segment"); r.err == nil && memory != 0 {
			r.fail("data segment %d is for memory %d, and WebAssembly 2.0 has only memory 0", len(m.Data), memory)
		}
	}
	if seg.Active {
		if r.err == nil && len(m.memories) == 0 {
			r.fail("data segment %d is for a memory, but there is none", len(m.Data))
		}
		v, constant := m.constExpr(r, typeI32)
		seg.offset, seg.fixed = uint32(v), constant
	}
	n := r.u32("the size of a data segment")
	start := r.pos
	r.take(n, "a data segment")
	seg.bytes = span{start, r.pos}
	m.Data = append(m.Data, seg)
	m.DataBytes += int(n)
}
