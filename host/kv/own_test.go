package kv_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
)

func TestOwnRowsCollideWithNoOthers(t *testing.T) {
	for _, name := range []string{"bills", "keys", "../keys", "a/b", strings.Repeat("x", kv.MaxOwnNameBytes)} {
		p, err := kv.OwnPartition(name)
		if err != nil || !strings.HasPrefix(p, "agenthost/own/") || host.ValidateTenant(p) == nil {
			t.Errorf("OwnPartition(%q) = %q, %v", name, p, err)
		}
		d := kv.NewMemory()
		if _, err := kv.Apply(t.Context(), d, kv.Tx{Partition: p, Writes: []kv.Write{kv.Put(kv.NewKey("k"), nil)}}); err != nil {
			t.Errorf("write to %q: %v", p, err)
		}
	}
	for _, name := range []string{"", "a\x00", "\xff"} {
		if _, err := kv.OwnPartition(name); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("OwnPartition(%q): %v", name, err)
		}
	}
	if _, err := kv.OwnPartition(strings.Repeat("x", kv.MaxOwnNameBytes+1)); !errors.Is(err, kv.ErrTooLarge) && !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("OwnPartition of a long name: %v", err)
	}
	if a, b := kv.OwnKey("a"), kv.NewKey("own", "a"); a != b {
		t.Errorf("OwnKey = %s, want %s", a, b)
	}
}
