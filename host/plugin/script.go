package plugin

import (
	"crypto/sha256"

	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// script is a plugin whose file is the text of a program. Another module, the interpreter,
// runs it; all plugins of a language share its compiled code. The interpreter reads the text
// as the input of its start-up code. The image of an instance is taken after that, so that a
// call neither starts the interpreter nor reads the text again.
type script struct {
	digest   [sha256.Size]byte // of the plugin's file, which names the interpreter by its digest
	text     []byte
	manifest []byte // contents of the manifest section; nil if absent
	images   images // of instances that have started with the text
}

// interpreters returns the modules of Options by their digests.
func interpreters(modules [][]byte) map[string][]byte {
	list := make(map[string][]byte, len(modules))
	for _, wasm := range modules {
		sum := sha256.Sum256(wasm)
		list[digestName(sum[:])] = wasm
	}
	return list
}

// readScript returns the script that a file is, with the interpreter's module; or nil
// and the file, if it is a module with code.
func (rt *Runtime) readScript(wasm []byte, l *Limits) (*script, []byte, error) {
	if !wasmmeter.IsScript(wasm) {
		return nil, wasm, nil
	}
	if len(wasm) > l.ModuleBytes {
		return nil, nil, tooLarge(len(wasm), l.ModuleBytes)
	}
	m, err := wasmmeter.Read(wasm)
	if err != nil {
		return nil, nil, err
	}
	name, text := m.Script()
	if text == nil {
		return nil, nil, refusal.Invalid("it names an interpreter, and has no section %s", wasmmeter.ScriptSection).
			WithHint("make it with: agenthost plugin pack")
	}
	interpreter := rt.interpreters[name]
	if interpreter == nil {
		return nil, nil, refusal.Unsupported("it is a script for the interpreter %s, which this host does not have", clean(name)).
			WithHint("pack it again with this version: agenthost plugin pack; or, on any host, with --standalone")
	}
	return &script{digest: m.Digest, text: text, manifest: m.Manifest()}, interpreter, nil
}

// input returns the input of start-up code: the text of the script, or nothing.
func (s *script) input() []byte {
	if s == nil {
		return nil
	}
	return s.text
}
