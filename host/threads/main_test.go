package threads_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

func TestMain(m *testing.M) {
	for variable, child := range map[string]func(dir string) error{crashDir: crashChild, turnsDir: turnsChild} {
		dir := os.Getenv(variable)
		if dir == "" {
			continue
		}
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // started by an import of Badger's
}

// newStore returns a store on a driver in memory, and the driver.
func newStore(t testing.TB, opts *threads.Options) (*threads.Store, *kv.Memory) {
	t.Helper()
	d := kv.NewMemory()
	t.Cleanup(func() { _ = d.Close() })
	return threads.New(d, opts), d
}

// say stores a user's message and returns the head.
func say(t testing.TB, s *threads.Store, thread, run string, m *host.Message) string {
	t.Helper()
	head, err := s.AppendUserMessage(t.Context(), request(thread, run, m))
	if err != nil {
		t.Fatalf("AppendUserMessage(%q) = %v", thread, err)
	}
	return head
}

func request(thread, run string, input *host.Message) *host.HistoryRequest {
	return &host.HistoryRequest{Thread: thread, Run: run, Input: input}
}

// answer stores a turn of the messages.
func answer(t testing.TB, s *threads.Store, thread, run, head string, messages ...*host.Message) {
	t.Helper()
	if err := s.AppendResults(t.Context(), request(thread, run, nil), turnOf(head, messages...)); err != nil {
		t.Fatalf("AppendResults(%q) = %v", thread, err)
	}
}

func turnOf(head string, messages ...*host.Message) *host.Turn {
	return &host.Turn{Head: head, Status: host.FinishStop, Results: []*host.Result{{
		Agent: "clerk", Messages: messages, FinishReason: host.FinishStop, Rounds: 1,
	}}}
}

// talk stores n turns of a question and an answer each, through runs r0, r1...
func talk(t testing.TB, s *threads.Store, thread string, n int) {
	t.Helper()
	for i := range n {
		run := fmt.Sprintf("%s-r%d", thread, i)
		head := say(t, s, thread, run, host.UserText(fmt.Sprintf("question %d", i)))
		answer(t, s, thread, run, head, assistant(run+"-answer", fmt.Sprintf("answer %d", i)))
	}
}

func load(t testing.TB, s *threads.Store, thread string) *host.Loaded {
	t.Helper()
	loaded, err := s.Get(t.Context(), request(thread, "", nil))
	if err != nil {
		t.Fatalf("Get(%q) = %v", thread, err)
	}
	return loaded
}

// texts are the messages' texts; of a tool's message, its result's.
func texts(messages []*host.Message) []string {
	out := []string{}
	for _, m := range messages {
		text := m.Text()
		for _, c := range m.ToolCalls() {
			text += "call " + c.ID
		}
		for _, r := range m.ToolResults() {
			text += "result " + r.ID
		}
		out = append(out, text)
	}
	return out
}

func ids(messages []*host.Message) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

func wantTexts(t testing.TB, got []*host.Message, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func wantCode(t testing.TB, doing string, err error, want host.Code) {
	t.Helper()
	if got := host.CodeOf(err); got != want {
		t.Errorf("%s = %v (code %q), want code %q", doing, err, got, want)
	}
}

func calls(id string, callIDs ...string) *host.Message {
	m := host.NewMessage(host.Assistant)
	m.ID = id
	for _, c := range callIDs {
		m.Parts = append(m.Parts, &host.ToolCall{ID: c, Name: "lookup", Arguments: json.RawMessage(`{}`)})
	}
	return m
}

func result(call string) *host.Message {
	return host.NewMessage(host.ToolRole, &host.ToolResult{ID: call, Name: "lookup", Content: json.RawMessage(`"ok"`)})
}

func withID(id, text string) *host.Message {
	m := host.UserText(text)
	m.ID = id
	return m
}

// spy is a driver that counts what is committed and can be told to fail.
type spy struct {
	kv.Driver
	mu       sync.Mutex
	bytes    int
	commits  int
	reads    int
	before   func(kv.Tx) error // runs before each Tx; its error is the Tx's
	failGet  error
	failScan error
	afterGet func() // runs once after the next Get
}

func (s *spy) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	var results []kv.Result
	for _, tx := range txs {
		s.mu.Lock()
		s.commits++
		s.bytes += tx.Size()
		before := s.before
		s.mu.Unlock()
		if before != nil {
			if err := before(tx); err != nil {
				results = append(results, kv.Result{Err: err})
				continue
			}
		}
		results = append(results, s.Driver.Commit(ctx, tx)...)
	}
	return results
}

func (s *spy) Get(ctx context.Context, partition string, key kv.Key) (kv.Entry, error) {
	s.mu.Lock()
	s.reads++
	err, after := s.failGet, s.afterGet
	s.afterGet = nil
	s.mu.Unlock()
	if err != nil {
		return kv.Entry{}, err
	}
	if after != nil {
		defer after()
	}
	return s.Driver.Get(ctx, partition, key)
}

func (s *spy) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	s.mu.Lock()
	s.reads++
	err := s.failScan
	s.mu.Unlock()
	if err != nil {
		return kv.Page{}, err
	}
	return s.Driver.Scan(ctx, partition, r)
}

// measure returns what fn makes the driver commit and how often it reads.
func (s *spy) measure(fn func()) (bytes, commits, reads int) {
	s.mu.Lock()
	s.bytes, s.commits, s.reads = 0, 0, 0
	s.mu.Unlock()
	fn()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.commits, s.reads
}

var errDisk = errors.New("open /var/lib/secret/000001.vlog: input/output error")

// keysOf returns all keys of a tenant.
func keysOf(t interface {
	Context() context.Context
	Fatal(...any)
}, d kv.Driver, tenant string) []kv.Key {
	var keys []kv.Key
	for e, err := range kv.All(t.Context(), d, tenant, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// keysUnder returns the keys of a tenant that begin with prefix.
func keysUnder(t testing.TB, d kv.Driver, tenant string, prefix kv.Key) []kv.Key {
	t.Helper()
	var keys []kv.Key
	for e, err := range kv.All(t.Context(), d, tenant, kv.Range{Prefix: prefix}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}
