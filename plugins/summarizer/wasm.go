//go:build !wasip1

package summarizer

import _ "embed" // the module

//go:generate go run ../../cmd/agenthost plugin build guest -o summarizer.wasm

// Wasm is the plugin's module, with its manifest in it. It must not be changed.
//
// It is built from the directory guest; host/plugin has a test that builds it
// again and compares. It is not there in the module itself, which would have to
// hold itself.
//
//go:embed summarizer.wasm
var Wasm []byte
