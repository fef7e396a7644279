package pgkv_test

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/kvtest"
	"github.com/agenthost/agenthost/host/kv/pgkv"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		address := pgkvtest.Address(t)
		return kvtest.Store{
			Open:    func() (kv.Driver, error) { return pgkvtest.OpenAt(t.Context(), address, nil) },
			Durable: true,
		}
	})
}

func TestGroupedStore(t *testing.T) {
	longtest.Need(t, "the rules of TestStore again; the group has them by default over a store on disk")
	kvtest.Run(t, func(t *testing.T) kvtest.Store {
		address := pgkvtest.Address(t)
		return kvtest.Store{
			Open: func() (kv.Driver, error) {
				d, err := pgkvtest.OpenAt(t.Context(), address, nil)
				if err != nil {
					return nil, err
				}
				return kv.Group(d), nil
			},
			Durable: true,
		}
	})
}

// addressEnv hands the address of the store to the child of TestCrash.
const addressEnv = "PGKV_CRASH_ADDRESS"

func TestCrash(t *testing.T) {
	if os.Getenv(addressEnv) == "" {
		t.Setenv(addressEnv, pgkvtest.Address(t))
	}
	kvtest.Crash(t, func(string) (kv.Driver, error) {
		d, err := pgkvtest.OpenAt(context.Background(), os.Getenv(addressEnv), nil)
		if err == nil {
			err = awaitOrphans(d)
		}
		return d, err
	})
}

// awaitOrphans waits until the server has ended what a killed process had sent to it: a
// statement on its way may be committed after the death of its sender.
func awaitOrphans(d *pgkv.Store) error {
	for {
		n, err := pgkv.OtherBackends(d)
		if err != nil || n == 0 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkStore(b *testing.B) {
	kvtest.Benchmark(b, func(b *testing.B) kv.Driver { return mustOpen(b, pgkvtest.Address(b), nil) })
}

func BenchmarkGroupedStore(b *testing.B) {
	kvtest.Benchmark(b, func(b *testing.B) kv.Driver { return kv.Group(mustOpen(b, pgkvtest.Address(b), nil)) })
}
