package plugin_test

import (
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
)

func init() { plugin.NewTestStore = newStore }

func newStore() plugin.Store { return pluginkv.New(kv.NewMemory(), nil) }
