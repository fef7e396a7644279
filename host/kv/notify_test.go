package kv_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// notifying is a driver that notifies.
type notifying struct{ kv.Driver }

func (notifying) Watch(string) (<-chan struct{}, func(), error) { return nil, func() {}, nil }

func TestNotifierIsFoundBelowWrappers(t *testing.T) {
	n := notifying{kv.NewMemory()}
	for name, d := range map[string]kv.Driver{
		"alone": n, "grouped": kv.Group(n), "checked": kv.Checked(n), "both": kv.Checked(kv.Group(n)),
	} {
		if got := kv.NotifierOf(d); got != kv.Notifier(n) {
			t.Errorf("%s: NotifierOf = %v, want the driver", name, got)
		}
	}
	if got := kv.NotifierOf(kv.Checked(kv.Group(kv.NewMemory()))); got != nil {
		t.Errorf("NotifierOf a driver in memory = %v, want nil", got)
	}
}
