package threads_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/host/threads/search"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// damaging changes one value on its way from a driver to its reader.
type damaging struct {
	kv.Driver
	key    kv.Key
	damage func([]byte) []byte
	met    bool // the value was read
}

func (d *damaging) change(e *kv.Entry) {
	if d.damage != nil && e.Key == d.key {
		e.Value, d.met = d.damage(bytes.Clone(e.Value)), true
	}
}

func (d *damaging) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	e, err := d.Driver.Get(ctx, partition, key)
	if err == nil {
		d.change(&e)
	}
	return e, err
}

func (d *damaging) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	page, err := d.Driver.Scan(ctx, partition, r)
	for i := range page.Entries {
		d.change(&page.Entries[i])
	}
	return page, err
}

// fillForDamage stores some of everything that a store of threads keeps.
func fillForDamage(t *testing.T, s *threads.Store) (upload string) {
	t.Helper()
	title := "a title"
	if _, _, err := s.For("").Create(t.Context(), &threads.CreateOptions{ID: "t1", Title: title, Metadata: threads.Metadata{"k": json.RawMessage(`"v"`)}}); err != nil {
		t.Fatal(err)
	}
	threadtest.TalkWithIDs(t, s, "t1", 0, 6)
	head := threadtest.Say(t, s, "t1", "r-tool", threadtest.WithID("q-tool", "look it up"))
	threadtest.Answer(t, s, "t1", "r-tool", head,
		&host.Message{ID: "call", Role: host.Assistant, Parts: []host.Part{&host.ToolCall{ID: "c1", Name: "search", Arguments: json.RawMessage(`{"q":"x"}`)}}},
		&host.Message{ID: "result", Role: host.ToolRole, Parts: []host.Part{&host.ToolResult{ID: "c1", Name: "search", Content: json.RawMessage(`"found"`)}}},
		threadtest.Assistant("a-tool", "it is there"))
	if _, err := s.For("").EditMessage(t.Context(), "t1", "q2", host.UserText("question two"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").Rewind(t.Context(), "t1", threads.At{Snapshot: "r1"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").Fork(t.Context(), "t1", &threads.ForkOptions{ID: "fork"}); err != nil {
		t.Fatal(err)
	}
	threadtest.TalkWithIDs(t, s, "fork", 10, 12)
	ref, err := s.For("").Upload(t.Context(), "t1", io.LimitReader(&counting{}, threads.ChunkBytes+100), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.For("").SaveAgentThread(t.Context(), "saved", bytes.Repeat([]byte(`"thread"`), 100), ""); err != nil {
		t.Fatal(err)
	}
	_, run := durableRun(t, s, "t2", "r-open")
	if err := s.AppendSteps(t.Context(), run, 1, []json.RawMessage{json.RawMessage(`{"step":"one"}`)}); err != nil {
		t.Fatal(err)
	}
	return ref.Digest
}

// readAll reads everything that a store of threads can show, by the name of the read.
func readAll(s *threads.Store, upload string) (shown map[string]string, errs map[string]error) {
	ctx := context.Background()
	shown, errs = map[string]string{}, map[string]error{}
	put := func(what string, v any, err error) {
		if err != nil {
			errs[what] = err
			return
		}
		raw, err := json.Marshal(v)
		if err != nil {
			errs[what] = err
			return
		}
		shown[what] = string(raw)
	}
	page, err := s.For("").List(ctx, nil)
	put("list", page, err)
	hits, err := search.New(s).Messages(ctx, "", "question", nil)
	put("search", hits, err)
	for _, id := range []string{"t1", "fork", "t2"} {
		v, err := s.For("").Thread(ctx, id)
		put("thread "+id, v, err)
		loaded, err := s.Get(ctx, &host.HistoryRequest{Thread: id})
		put("get "+id, loaded, err)
		transcript, err := s.For("").Show(ctx, id, 0)
		put("show "+id, transcript, err)
		var snaps []*threads.Snapshot
		err = nil
		for snap, snapErr := range s.For("").Snapshots(ctx, id) {
			snaps, err = append(snaps, snap), errors.Join(err, snapErr)
		}
		put("snapshots "+id, snaps, err)
		for _, snap := range []string{"r1", "r11"} {
			if stored, err := s.For("").Snapshot(ctx, id, snap); host.CodeOf(err) != host.NotFound {
				put("snapshot "+snap+" of "+id, stored, err)
			}
		}
		var branches []*threads.Branch
		err = nil
		for b, branchErr := range s.For("").Branches(ctx, id) {
			branches, err = append(branches, b), errors.Join(err, branchErr)
		}
		put("branches "+id, branches, err)
		list, err := s.For("").Artifacts(ctx, id)
		put("artifacts "+id, list, err)
		for _, a := range list {
			content, err := s.For("").Artifact(ctx, id, a.Digest)
			put("artifact "+a.Digest+" of "+id, content, err)
		}
		var text bytes.Buffer
		err = transfer.Export(ctx, s.For(""), id, transfer.FormatThread, &text)
		put("export "+id, text.String(), err)
		messages, found, _, err := s.MessagesAfter(ctx, &host.HistoryRequest{Thread: id}, "q1", 10)
		put("after "+id, []any{messages, found}, err)
	}
	data, _, err := s.For("").LoadAgentThread(ctx, "saved")
	put("saved", string(data), err)
	runs, err := s.For("").Runs(ctx)
	put("runs", runs, err)
	record, err := s.ReadRun(ctx, "", "r-open")
	put("run", record, err)
	r, _, err := s.For("").OpenUpload(ctx, "t1", upload)
	if err == nil {
		var content []byte
		content, err = io.ReadAll(r)
		put("upload", content, err)
	} else {
		put("upload", nil, err)
	}
	return shown, errs
}

// flip changes a random byte.
func flip(b []byte) []byte {
	b[rand.IntN(len(b))] ^= byte(1 + rand.IntN(255))
	return b
}

// Whatever byte of whatever value is changed between a driver and the store, a read
// shows what was stored or says that data is lost.
func TestAChangedByteIsFoundByReads(t *testing.T) {
	d := &damaging{Driver: testdriver.New(t)}
	s := threads.New(d, nil)
	upload := fillForDamage(t, s)
	want, errs := readAll(s, upload)
	for what, err := range errs {
		t.Fatalf("%s, nothing damaged: %v", what, err)
	}
	var keys []kv.Key
	for e, err := range kv.All(t.Context(), d.Driver, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) > 0 {
			keys = append(keys, e.Key)
		}
	}
	changes, met, silent := longtest.Alone(60, testdriver.Rounds(longtest.Rounds(250, 3000), 100)), 0, 0
	tries := 0
	for ; met < changes/2 && tries < 4*changes; tries++ { // half of the values are read
		d.key, d.damage, d.met = keys[rand.IntN(len(keys))], flip, false
		if rand.IntN(8) == 0 {
			d.damage = func(b []byte) []byte { return b[:rand.IntN(len(b))] } // cut
		}
		got, errs := readAll(s, upload)
		for what, text := range got {
			if text != want[what] {
				silent++
				t.Logf("%s is changed: %s shows %.200s", d.key, what, text)
				break
			}
		}
		for what, err := range errs {
			if code := host.CodeOf(err); code != host.DataLoss && code != host.FailedPrecondition {
				t.Errorf("%s is changed: %s = %v, want data_loss", d.key, what, err)
			}
		}
		if d.met {
			met++
		}
	}
	if silent > 0 || met < changes/2 {
		t.Errorf("%d of %d changed values were shown, %d were read", silent, tries, met)
	}
}

// Whatever value of a tenant is changed in the store, Verify of its threads or of all
// that it has says so.
func TestAChangedByteIsFoundByVerify(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	fillForDamage(t, s)
	missed, tried := 0, 0
	for e, err := range kv.All(t.Context(), d, threads.DefaultTenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) == 0 {
			continue
		}
		for range 8 {
			tried++
			write(t, d, kv.Put(e.Key, flip(bytes.Clone(e.Value))))
			if verifyAll(s, d) == nil {
				missed++
				t.Logf("%s is changed and not found", e.Key)
			}
		}
		write(t, d, kv.Put(e.Key, e.Value))
	}
	if missed > 0 || tried < 500 {
		t.Errorf("Verify missed %d of %d changed values", missed, tried)
	}
	if err := verifyAll(s, d); err != nil {
		t.Errorf("what was repaired: %v", err)
	}
}

func verifyAll(s *threads.Store, d kv.Driver) error {
	for _, id := range []string{"t1", "fork", "t2"} {
		if _, err := s.For("").Verify(context.Background(), id); err != nil {
			return err
		}
	}
	for _, err := range kv.Damaged(context.Background(), d, threads.DefaultTenant) {
		return err
	}
	return nil
}
