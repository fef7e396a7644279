package kv_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
)

func TestMemory(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kvtest.Store {
		return kvtest.Store{Open: func() (kv.Driver, error) { return kv.NewMemory(), nil }}
	})
}

func BenchmarkMemory(b *testing.B) {
	kvtest.Benchmark(b, func(*testing.B) kv.Driver { return kv.NewMemory() })
}
