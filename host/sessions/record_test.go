package sessions_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// A record of a turn in the background that was damaged, or that a newer version
// wrote, is told apart, and stays as it is.
func TestBadRecords(t *testing.T) {
	driver := testdriver.New(t)
	s := newService(t, agentOf(t)(), &sessions.Options{Store: threads.New(driver, nil)})
	whole, err := kv.EncodeRecord(map[string]any{"v": 1, "run": "r", "session": "s", "agent": "clerk", "status": "pending"})
	if err != nil {
		t.Fatal(err)
	}
	key := kv.NewKey("sessions", "run", "r")
	put := func(value []byte) {
		t.Helper()
		if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: threads.DefaultTenant, Writes: []kv.Write{kv.Put(key, value)}}); err != nil {
			t.Fatal(err)
		}
	}
	put(whole)
	if snap := snapshot(t, s, "r:s"); snap.Status != sessions.Expired {
		t.Fatalf("the record is read as %+v", snap)
	}
	if _, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Snapshot: "r:other"}); host.CodeOf(err) != host.NotFound {
		t.Errorf("the record of another session: %v", err)
	}
	for name, c := range map[string]struct {
		value []byte
		code  host.Code
	}{
		"empty":                  {nil, host.DataLoss},
		"cut":                    {whole[:len(whole)-3], host.DataLoss},
		"no JSON":                {append(bytes.Clone(whole[:1]), "nonsense"...), host.DataLoss},
		"another shape":          {append(bytes.Clone(whole[:1]), `{"v":1,"status":7}`...), host.DataLoss},
		"another version":        {append(bytes.Clone(whole[:1]), `{"v":2}`...), host.FailedPrecondition},
		"a version that is none": {append(bytes.Clone(whole[:1]), `{"v":"1"}`...), host.DataLoss},
		"too large":              {append(bytes.Clone(whole[:1]), strings.Repeat("[", 100_000)...), host.DataLoss},
	} {
		put(c.value)
		ctx := t.Context()
		_, snapErr := s.Snapshot(ctx, &sessions.SnapshotRequest{Snapshot: "r:s"})
		_, abortErr := s.Abort(ctx, "", "r:s")
		_, waitErr := s.Wait(ctx, &sessions.SnapshotRequest{Snapshot: "r:s"})
		_, runErr := s.Run(ctx, &request{Snapshot: "r:s", Text: "x"})
		_, recoverErr := s.Recover(ctx, "")
		for i, err := range []error{snapErr, abortErr, waitErr, runErr, recoverErr} {
			if host.CodeOf(err) != c.code {
				t.Errorf("%s: call %d says %v, want %s", name, i, err, c.code)
			}
		}
		if e, err := driver.Get(ctx, threads.DefaultTenant, key); err != nil || !bytes.Equal(e.Value, c.value) {
			t.Errorf("%s: the record was changed to %q, %v", name, e.Value, err)
		}
	}
}

// A turn that is asked to end while it ends is one or the other, and stays that.
func TestAbortRacesTheEnd(t *testing.T) {
	seen := map[sessions.Status]int{}
	for range testdriver.Rounds(30, 6) {
		tool, begun, open := gate(t)
		s := stored(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("done")), tool))
		out := run(t, s, &request{Text: "a", Detach: true})
		<-begun
		var both sync.WaitGroup
		both.Go(func() { close(open) })
		both.Go(func() {
			if _, err := s.Abort(t.Context(), "", out.Snapshot); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		snap := wait(t, s, out.Snapshot)
		if !slices.Contains([]sessions.Status{sessions.Completed, sessions.Aborted}, snap.Status) {
			t.Fatalf("it is %+v", snap)
		}
		if again, err := s.Abort(t.Context(), "", out.Snapshot); err != nil || again != snap.Status {
			t.Errorf("it was %s and is %s, %v", snap.Status, again, err)
		}
		seen[snap.Status]++
		s.Close()
	}
	t.Log(seen)
}

// Of two hosts that recover one turn one has it.
func TestOneHostRecoversATurn(t *testing.T) {
	t.Parallel()
	store := threads.New(testdriver.New(t), nil)
	tool, begun, open := gate(t)
	m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if req.Messages[len(req.Messages)-1].Role == host.User {
			return hosttest.Call("gate", "{}")
		}
		return hosttest.Say("ok")
	})
	target := newAgent(t, "clerk", m, tool)
	first := newService(t, target, &sessions.Options{Store: store})
	out := run(t, first, &request{Text: "a", Detach: true})
	<-begun
	first.Close()
	var mu sync.Mutex
	total := 0
	var all sync.WaitGroup
	var hosts []*service
	for range 4 {
		s := newService(t, target, &sessions.Options{Store: store})
		hosts = append(hosts, s)
		all.Go(func() {
			n, err := s.Recover(t.Context(), "")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
		})
	}
	all.Wait()
	close(open)
	if snap := wait(t, hosts[0], out.Snapshot); total != 1 || snap.Status != sessions.Completed || len(snap.State.Messages) != 4 {
		t.Errorf("%d hosts have it, and it is %+v", total, snap)
	}
}

// Turns of one chat run one after the other.
func TestAChatIsSharedByMany(t *testing.T) {
	m := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") })
	for _, s := range []*service{stored(t, newAgent(t, "clerk", m)), newService(t, newAgent(t, "clerk", m), nil)} {
		chat := newChat(t, s.For(""), nil)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := chat.Send(t.Context(), "hi"); err != nil {
					t.Error(err)
				}
				_, _ = chat.State(), chat.Artifacts()
			})
		}
		all.Wait()
		if got := len(chat.State().Messages); got != 16 {
			t.Errorf("the chat has %d messages, want 16", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newChat(t, stored(t, newAgent(t, "clerk", m)).For(""), nil).Send(ctx, "hi"); host.CodeOf(err) != host.Canceled {
		t.Errorf("Send with a context that has ended: %v", err)
	}
	for name, start := range map[string]*sessions.Start{
		"a session and a state":       {Session: "s", State: &sessions.Session{}},
		"a snapshot and a sealed one": {Snapshot: "r:s", Sealed: []byte("{}")},
		"both":                        {State: &sessions.Session{}, Sealed: []byte("{}")},
		"a state that is none":        {State: &sessions.Session{Custom: []byte("{")}},
	} {
		if _, err := sessions.NewChat(nil, start); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("a chat of %s: %v", name, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	history := testhost.NewHistory(t, store)
	keys := newKeys(t, "a", map[string][]byte{"a": key(1)})
	own := newNetwork(t, agentOf(t)().(*host.Agent), &host.NetworkOptions{History: history})
	for name, opts := range map[string]*sessions.Options{
		"a history of the host": {Host: host.Options{History: history}},
		"keys and a store":      {Keys: keys, Store: store},
		"a negative bound":      {StateBytes: -1},
		"a bound that is tiny":  {StateBytes: 10},
		"expiry before a sign":  {Expiry: 1, Heartbeat: 2},
		"a negative limit":      {Host: host.Options{Limits: host.Limits{MaxRounds: -1}}},
	} {
		if _, err := sessions.New(agentOf(t)(), opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sessions.New(own, &sessions.Options{Store: store}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a history of the target: %v", err)
	}
}
