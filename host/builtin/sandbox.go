package builtin

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/summarizer"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// idPrefix begins the ids of shipped plugins in a runtime, as in agenthost.yaml.
const idPrefix = "builtin:"

// module returns a shipped plugin and the grants that it needs.
func module(name string) ([]byte, plugin.Permissions) {
	switch name {
	case toolcallfilter.Name:
		return toolcallfilter.Wasm, plugin.Permissions{}
	case tokenlimiter.Name:
		return tokenlimiter.Wasm, plugin.Permissions{}
	}
	return summarizer.Wasm, plugin.Permissions{Model: true, KV: plugin.Write}
}

// loading is held while a plugin is looked up and loaded: a runtime lists a slot before
// its first version serves. It is the only state here that a process's runtimes share.
var loading sync.Mutex

// sandboxed returns a processor of the plugin in a runtime, which loads it the first
// time. Compiling it is bounded by the runtime's own limits.
func sandboxed(rt *plugin.Runtime, name string, config json.RawMessage) (host.Processor, error) {
	loading.Lock()
	defer loading.Unlock()
	slot := rt.Slot(idPrefix + name)
	if slot == nil {
		wasm, granted := module(name)
		var err error
		slot, err = rt.NewSlot(context.Background(), idPrefix+name, wasm, &plugin.SlotOptions{LoadOptions: plugin.LoadOptions{Granted: granted}})
		if err != nil {
			return nil, err
		}
	}
	return slot.Processor("", &plugin.PartOptions{Config: config})
}
