package pluginkv_test

// Scenario: a process that writes, deletes and expires items is killed again and again.

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/internal/testchild"
)

// What TestCrash does.
const (
	crashDir    = "PLUGINKV_CRASH_DIR" // set in the child
	crashAck    = "ack "
	crashRounds = 3
	crashAcks   = 150 // after which the child is killed, once each key is acknowledged
	crashKeys   = 20  // of each writer
)

// TestCrash kills a process that writes, deletes and lets expire, and wants what
// it acknowledged to be there, and the sum of what there is to be what the quota
// is held to.
func TestCrash(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashChild(dir)
	}
	dir := t.TempDir()
	for round := range crashRounds {
		acked := killChild(t, dir, crashAcks*(round+1))
		d := openBadger(t, dir)
		checkAcked(t, d, acked)
		checkUsage(t, d)
		closeDriver(t, d)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// crashChild writes until it is killed: each writer one key after another, each
// value greater than the one before it, and says so.
func crashChild(dir string) {
	go func() { // the parent holds the other end: when that is gone, so is the reason to write
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	d, err := badgerkv.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	s := pluginkv.New(kv.Group(d), nil)
	for writer := range 4 {
		go func() {
			for n := 0; ; n++ {
				key, value := fmt.Sprintf("%d-%d", writer, n%crashKeys), fmt.Sprintf("%d %08d", os.Getpid(), n)
				opts := plugin.PutOptions{Quota: 1 << 20}
				if n%5 == 0 { // a key of its own, so that nothing acknowledged is missed
					key, opts.Expires = key+" gone", time.Now().Add(-time.Second)
				}
				if _, err := s.Put(context.Background(), acme, key, []byte(value), opts); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				fmt.Println(crashAck + key + "=" + value)
			}
		}()
	}
	select {}
}

// killChild has a child write and kills it after so many acknowledgements. It
// returns the last that was acknowledged of each key.
func killChild(t *testing.T, dir string, acks int) map[string]string {
	t.Helper()
	child := testchild.Start(t, "TestCrash", crashDir+"="+dir)
	acked, n := map[string]string{}, 0
	for line := range child.Lines() {
		ack, ok := strings.CutPrefix(line, crashAck)
		if !ok {
			t.Errorf("the child says %q", line)
			continue
		}
		key, value, _ := strings.Cut(ack, "=")
		acked[key] = value
		if n++; n >= acks && len(acked) == 4*crashKeys { // no writer is behind
			child.Kill() // what it says until it dies counts, too
		}
	}
	if child.Cmd.Wait() == nil {
		t.Error("the child ended by itself")
	}
	if len(acked) != 4*crashKeys {
		t.Fatalf("%d keys were acknowledged", len(acked))
	}
	return acked
}

func checkAcked(t *testing.T, d kv.Driver, acked map[string]string) {
	t.Helper()
	s := pluginkv.New(d, nil)
	for key, value := range acked {
		it, err := s.Get(t.Context(), acme, key)
		switch {
		case strings.HasSuffix(key, " gone"):
			if err == nil {
				t.Errorf("%s has expired and is %q", key, it.Value)
			}
		case err != nil || string(it.Value) < value: // a later one may not have been acknowledged
			t.Errorf("%s is %q, %v; acknowledged was %q", key, it.Value, err, value)
		}
	}
}

// checkUsage wants the usage to be the sum of the items, to the byte: a put that
// just fits goes in, and one byte more does not.
func checkUsage(t *testing.T, d kv.Driver) {
	t.Helper()
	s := pluginkv.New(d, nil)
	items, more, err := s.List(t.Context(), acme, plugin.ListOptions{Limit: 1000, MaxBytes: 1 << 20, Values: true})
	if err != nil || more {
		t.Fatalf("list: more %v, %v", more, err)
	}
	sum := int64(0)
	for _, it := range items {
		sum += plugin.ItemBytes(it.Key, it.Value)
	}
	quota := sum + plugin.ItemBytes("new", nil)
	if _, err := s.Put(t.Context(), acme, "new", []byte("x"), plugin.PutOptions{Quota: quota}); err == nil {
		t.Errorf("a byte more than the quota fits: %d bytes are there", sum)
	}
	if _, err := s.Put(t.Context(), acme, "new", nil, plugin.PutOptions{Quota: quota}); err != nil {
		t.Errorf("what just fits does not: %v; %d bytes are there", err, sum)
	}
	if err := s.Delete(t.Context(), acme, "new", nil); err != nil {
		t.Error(err)
	}
}
