package plugin

import (
	"crypto/sha256"
	"sync"

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

// interpreter is a module of Options that runs scripts. It is metered once for all scripts
// of the same limits.
type interpreter struct {
	wasm []byte

	mu      sync.Mutex
	metered map[wasmmeter.Limits]*wasmmeter.Metered // at most interpreterForms
}

// interpreterForms is how many forms of an interpreter are kept, each for other limits.
const interpreterForms = 8

// interpreters returns the modules of Options by their digests.
func interpreters(modules [][]byte) map[string]*interpreter {
	list := make(map[string]*interpreter, len(modules))
	for _, wasm := range modules {
		sum := sha256.Sum256(wasm)
		list[digestName(sum[:])] = &interpreter{wasm: wasm, metered: map[wasmmeter.Limits]*wasmmeter.Metered{}}
	}
	return list
}

// prepare meters the interpreter, or returns the form that is kept for the limits.
func (i *interpreter) prepare(cp *compiler, l *wasmmeter.Limits) (*preparedModule, error) {
	i.mu.Lock()
	kept := i.metered[*l]
	i.mu.Unlock()
	if kept != nil {
		return &preparedModule{metered: kept}, nil
	}
	p, err := cp.prepare(i.wasm, l)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.metered) < interpreterForms {
		i.metered[*l] = p.metered
	}
	return p, nil
}

// readScript returns the script that a file is and its interpreter, or nil if the file is
// a module with code.
func (rt *Runtime) readScript(wasm []byte, l *Limits) (*script, *interpreter, error) {
	if !wasmmeter.IsScript(wasm) {
		return nil, nil, nil
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
