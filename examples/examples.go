// Package examples embeds what `agenthost demo` runs, so that the demo needs no
// file beside the binary. Each directory below is one idea, with a README, and
// is run by a test.
package examples

import "embed"

// Files holds the order desk: its configuration and its built plugins.
//
//go:embed orderdesk/agenthost.yaml orderdesk/plugins/*/*.wasm piimask/*.wasm
var Files embed.FS
