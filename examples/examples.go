// Package examples embeds what `agenthost demo` runs, so that the demo needs no
// file beside the binary. Each directory below is one idea, with a README.
package examples

import "embed"

//go:generate go run ../cmd/agenthost plugin build piimask -o piimask/piimask.wasm
//go:generate go run ../cmd/agenthost plugin build preferences/plugin -o preferences/preferences.wasm
//go:generate go run ../cmd/agenthost plugin build orderdesk/plugins/desk -o orderdesk/plugins/desk/desk.wasm
//go:generate go run ../cmd/agenthost plugin build orderdesk/plugins/orders -o orderdesk/plugins/orders/orders.wasm

// Files holds the order desk: its configuration and its built plugins.
//
//go:embed orderdesk/agenthost.yaml orderdesk/plugins/*/*.wasm piimask/*.wasm
var Files embed.FS
