package wasmmeter

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// coreFeatures are the WebAssembly 2.0 that the table of instructions knows.
const coreFeatures = api.CoreFeaturesV2

// inDeadCode returns a module with one function, in which an instruction stands
// after unreachable: there every operand has the type that is wanted, so the
// module is valid if the instruction is one and its immediates are. It has one
// of everything that an instruction can name.
func inDeadCode(t testing.TB, instruction []byte) []byte {
	t.Helper()
	var raw strings.Builder
	for _, b := range instruction {
		fmt.Fprintf(&raw, "0x%02x ", b)
	}
	return wasmtest.Assemble(t, `
		memory 1
		table 1
		global i32 mut 1
		type ->
		type i32 ->
		passive "x"
		elem 0 $f
		declare $f
		func $f run : i32
		  unreachable `+raw.String()+` unreachable`)
}

// immediates are what may follow an opcode, of which at least one fits each
// instruction of any proposal that wazero knows.
func immediates() [][]byte {
	list := [][]byte{
		{}, {blockEmpty, opEnd}, {blockEmpty, 0x05, opEnd}, {typeFuncref}, {typeI32}, {1, typeI32},
		{1, 0}, {0, 1}, {0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0},
		bytes.Repeat([]byte{0}, 16), {0, 0, 0}, {0, 0}, {0},
	}
	for align := byte(1); align <= 4; align++ {
		list = append(list, []byte{align, 0}, []byte{align, 0, 0})
	}
	return list
}

// opcodes lists every opcode there can be: a byte, or a prefix and a number. Of
// larger numbers the engine reads one byte only, so they have a test of their own.
func opcodes() (list [][]byte) {
	for op := range 0x100 {
		switch op {
		case 0xfb, 0xfc, 0xfd, 0xfe:
			for sub := range uint32(0x100) {
				list = append(list, appendU32([]byte{byte(op)}, sub))
			}
		default:
			list = append(list, []byte{byte(op)})
		}
	}
	return list
}

// TestEveryOpcodeIsKnownOrRefused holds the table of opcodes to the engine's:
// whatever the engine accepts with some immediates is known here with the same
// ones, and still accepted when it is metered; whatever it accepts with none is
// refused.
func TestEveryOpcodeIsKnownOrRefused(t *testing.T) {
	ctx := context.Background()
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(coreFeatures))
	defer engine.Close(ctx)
	accepts := func(wasm []byte) bool {
		m, err := engine.CompileModule(ctx, wasm)
		if err == nil {
			err = m.Close(ctx)
		}
		return err == nil
	}
	known := 0
	for _, op := range opcodes() {
		used := false
		for _, imm := range immediates() {
			wasm := inDeadCode(t, append(bytes.Clone(op), imm...))
			p, err := Prepare(wasm, nil)
			switch plain := accepts(wasm); {
			case plain && err != nil:
				t.Errorf("%x followed by %x: the engine runs it, and prepare says %v", op, imm, err)
			case err == nil && accepts(p.Wasm) != plain:
				t.Errorf("%x followed by %x: accepted plain: %t, metered: %t", op, imm, plain, !plain)
			case plain:
				used = true
			case err != nil && fault.AsError(err).Hint == "":
				t.Errorf("%x followed by %x: %v has no hint", op, imm, err)
			}
		}
		if used {
			known++
		}
		if in := inTable(op); in != used {
			t.Errorf("%x: in the table: %t, in the engine: %t", op, in, used)
		}
	}
	if want := plainCount + miscCount + vectorCount; known != want {
		t.Errorf("%d instructions are known, want %d", known, want)
	}
}

// How many instructions WebAssembly 2.0 has: of one byte, after 0xfc, after 0xfd.
// else and end are not counted: they stand in no place of their own.
const (
	plainCount  = 181
	miscCount   = 18
	vectorCount = 236
)

// inTable reports whether the tables have an opcode.
func inTable(op []byte) bool {
	sub, _ := leb32(op[1:])
	switch op[0] {
	case 0xfc:
		return sub < uint32(len(miscOps)) && miscOps[sub].operands != opsIllegal
	case 0xfd:
		return sub < uint32(len(vectorOps)) && vectorOps[sub].operands != opsIllegal
	}
	return op[0] != opElse && op[0] != opEnd && plainOps[op[0]].operands != opsIllegal
}

// TestLargeOpcodesAreRefused has numbers of which the engine reads the first byte
// and takes the rest for the next instruction.
func TestLargeOpcodesAreRefused(t *testing.T) {
	for _, prefix := range []byte{0xfc, 0xfd} {
		for _, sub := range []uint32{0x100, 0x101, 0x113, 0x17f, 0x180, 0x3fff, 1 << 14, 1 << 20, 1<<32 - 1} {
			op := appendU32([]byte{prefix}, sub)
			for _, imm := range immediates() {
				if _, err := Prepare(inDeadCode(t, append(bytes.Clone(op), imm...)), nil); err == nil {
					t.Errorf("%x followed by %x is accepted", op, imm)
				}
			}
		}
	}
}

// TestLaterInstructionsAreNamed wants a refusal to say what a module uses.
func TestLaterInstructionsAreNamed(t *testing.T) {
	for says, instruction := range map[string][]byte{
		"tail calls": {0x12, 0}, "exceptions": {0x08, 0}, "threads": {0xfe, 0x00, 2, 0}, "typed references": {0x14, 0},
	} {
		_, err := Prepare(inDeadCode(t, instruction), nil)
		if fault.CodeOf(err) != fault.FailedPrecondition || !bytes.Contains([]byte(fmt.Sprint(err)), []byte(says)) {
			t.Errorf("%x: %v, want failed_precondition that names %s", instruction, err, says)
		}
	}
}
