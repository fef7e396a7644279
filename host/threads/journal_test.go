package threads_test

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

func TestStoreIsAJournal(t *testing.T) {
	drivers := map[host.Journal]kv.Driver{}
	open := func(testing.TB) host.Journal {
		d := kv.NewMemory()
		s := threads.New(d, nil)
		drivers[s] = d
		return s
	}
	reopen := func(_ testing.TB, j host.Journal) host.Journal { return threads.New(drivers[j], nil) }
	hosttest.TestJournal(t, open, reopen)
}
