package badgerkv_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
)

func openDir(dir string) (kv.Driver, error) { return badgerkv.Open(dir, nil) }

func TestStore(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		dir := t.TempDir()
		return kvtest.Store{
			Open:    func() (kv.Driver, error) { return openDir(dir) },
			Durable: true,
			Compact: func(d kv.Driver) error { return badgerkv.Compact(d.(*badgerkv.Store)) },
		}
	})
}

func TestCrash(t *testing.T) {
	kvtest.Crash(t, openDir)
}

func BenchmarkStore(b *testing.B) {
	kvtest.Benchmark(b, func(b *testing.B) kv.Driver {
		d, err := openDir(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		return d
	})
}
