package idempotency_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/idempotency"
	"github.com/agenthost/agenthost/host/kv"
)

func begin(t *testing.T, s *idempotency.Store, tenant, key, request string) (again bool) {
	t.Helper()
	again, err := s.Begin(t.Context(), tenant, key, []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestTheSameRequestIsKnown(t *testing.T) {
	driver := kv.NewMemory()
	s := idempotency.New(driver, nil)
	for _, c := range []struct {
		tenant, key string
		want        bool
	}{
		{"acme", "k1", false}, {"acme", "k1", true}, {"acme", "k2", false}, {"umbrella", "k1", false}, {"", "k1", false}, {"", "k1", true},
	} {
		if again := begin(t, s, c.tenant, c.key, "create"); again != c.want {
			t.Errorf("the key %s of %q: again is %v, want %v", c.key, c.tenant, again, c.want)
		}
	}
	if again := begin(t, idempotency.New(driver, nil), "acme", "k1", "create"); !again {
		t.Error("another host does not know the key")
	}
}

func TestAnotherRequestIsRefused(t *testing.T) {
	s := idempotency.New(kv.NewMemory(), nil)
	begin(t, s, "acme", "k1", "create a")
	if _, err := s.Begin(t.Context(), "acme", "k1", []byte("create b")); host.CodeOf(err) != host.Conflict {
		t.Errorf("another request: %v", err)
	}
	for name, key := range map[string]string{"empty": "", "long": strings.Repeat("k", 256), "not UTF-8": "\xff"} {
		if _, err := s.Begin(t.Context(), "acme", key, nil); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("a key that is %s: %v", name, err)
		}
	}
}

func TestOneOfManyRequestsIsTheFirst(t *testing.T) {
	s := idempotency.New(kv.NewMemory(), nil)
	var first atomic.Int64
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			again, err := s.Begin(t.Context(), "acme", "k1", []byte("create"))
			if err != nil {
				t.Error(err)
			}
			if !again {
				first.Add(1)
			}
		})
	}
	senders.Wait()
	if n := first.Load(); n != 1 {
		t.Errorf("%d requests are the first", n)
	}
}

func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := kv.NewMemory()
		s := idempotency.New(driver, &idempotency.Options{KeptFor: time.Hour})
		for i := range 20 {
			begin(t, s, "acme", fmt.Sprint("old", i), "create")
		}
		time.Sleep(59 * time.Minute)
		if again := begin(t, s, "acme", "old0", "create"); !again {
			t.Error("a key is forgotten early")
		}
		time.Sleep(time.Minute)
		if again := begin(t, s, "acme", "old0", "another"); again {
			t.Error("a key is remembered for too long")
		}
		for i := range 4 {
			begin(t, s, "acme", fmt.Sprint("new", i), "create")
		}
		page, err := driver.Scan(t.Context(), "acme", kv.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(page.Entries); n != 2*5 {
			t.Errorf("the partition has %d entries, want those of 5 keys", n)
		}
	})
}
