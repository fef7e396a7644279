package agentframework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/redismessages"
	"github.com/agenthost/agenthost/host/reduce"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

// A model whose service keeps nothing: the conversation is in the thread.
func Example_inMemoryChatHistory() {
	ctx := context.Background()
	agent := must(host.NewAgent(jokerName, &host.AgentOptions{
		Model:        says("Why are pirates called pirates? Because they arrr."),
		Instructions: jokerInstructions,
	}))
	thread := must(agent.NewThread(ctx, nil))
	fmt.Println(run(agent, thread, pirate))

	messages := must(thread.Messages(ctx))
	fmt.Println(len(messages), "messages:")
	show(messages)
	// Output:
	// Why are pirates called pirates? Because they arrr.
	// 2 messages:
	// user: Tell me a joke about a pirate.
	// assistant: Why are pirates called pirates? Because they arrr.
}

// A reducer shortens what a thread keeps: here to two messages, whenever some are
// added. Tool calls would be dropped with DropToolPairs, as Agent Framework does.
func Example_chatHistoryReduction() {
	ctx := context.Background()
	agent := must(host.NewAgent(jokerName, &host.AgentOptions{
		Model:        says("One joke.", "Another joke."),
		Instructions: jokerInstructions,
		Messages: must(host.NewMemoryMessages(&host.MemoryMessagesOptions{
			Reducer: must(reduce.Counting(2, &reduce.CountingOptions{ToolPairs: reduce.DropToolPairs})),
			Trigger: host.AfterMessageAdded,
		})),
	}))
	thread := must(agent.NewThread(ctx, nil))
	run(agent, thread, pirate)
	run(agent, thread, "Another.")
	show(must(thread.Messages(ctx)))
	// Output:
	// user: Another.
	// assistant: Another joke.
}

// A model whose service keeps the conversation: the thread has the id of the
// service's last response, and the next turn sends what is new.
func Example_inferenceServiceChatHistory() {
	ctx := context.Background()
	service := httptest.NewServer(newResponses())
	defer service.Close()
	model := must(responsesmodel.New("gpt-5-mini", &responsesmodel.Options{Server: modelhttp.Options{BaseURL: service.URL, APIKey: "<your_api_key>"}, Store: true}))
	defer model.CloseIdleConnections()

	agent := must(host.NewAgent(jokerName, &host.AgentOptions{Model: model, Instructions: jokerInstructions}))
	thread := must(agent.NewThread(ctx, nil))
	fmt.Println(run(agent, thread, pirate))
	fmt.Println(thread.Kind(), thread.Conversation())
	fmt.Println(run(agent, thread, "Another."))
	fmt.Println(thread.Kind(), thread.Conversation())
	// Output:
	// 1 new message, after ""
	// service resp_1
	// 1 new message, after "resp_1"
	// service resp_2
}

// newResponses is a stand-in for OpenAI's service that says what it was sent.
func newResponses() http.Handler {
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Previous string `json:"previous_response_id"`
			Input    []any  `json:"input"`
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		n++
		text := must(json.Marshal(fmt.Sprintf("%d new message, after %q", len(req.Input), req.Previous)))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\",\"status\":\"completed\",\"model\":\"gpt-5-mini\",\"store\":true,"+
			"\"output\":[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":%s}]}]}}\n\n", n, text)
	})
}

// vectorStore stands for a database of the program's own.
type vectorStore struct {
	mu   sync.Mutex
	rows map[string][]string // messages as JSON, by the key of their thread
}

// customMessageStores open the store of each thread. A new thread gets a key of
// its own, which the store keeps in its state; a restored one has it from there.
type customMessageStores struct{ db *vectorStore }

func (customMessageStores) StoreType() string { return "vectors" }

func (s customMessageStores) OpenStore(_ context.Context, req *host.StoreRequest) (host.MessageStore, error) {
	m := &customMessageStore{db: s.db, tenant: req.Tenant, ThreadDBKey: req.Thread}
	if req.State == nil {
		return m, nil
	}
	if err := json.Unmarshal(req.State, m); err != nil || m.ThreadDBKey == "" {
		return nil, host.Errorf(host.DataLoss, "the key of thread %q cannot be read", req.Thread)
	}
	return m, nil
}

type customMessageStore struct {
	db          *vectorStore
	tenant      string // from who asks, never from the state
	ThreadDBKey string `json:"thread_db_key"`
}

func (m *customMessageStore) key() string { return m.tenant + "\x00" + m.ThreadDBKey }

func (m *customMessageStore) AddMessages(_ context.Context, messages []*host.Message) error {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	for _, message := range messages {
		if row := string(message.AppendJSON(nil)); !slices.Contains(m.db.rows[m.key()], row) {
			m.db.rows[m.key()] = append(m.db.rows[m.key()], row)
		}
	}
	return nil
}

func (m *customMessageStore) ListMessages(context.Context) ([]*host.Message, error) {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	var list []*host.Message
	for _, row := range m.db.rows[m.key()] {
		message := &host.Message{}
		if err := message.UnmarshalJSON([]byte(row)); err != nil {
			return nil, err
		}
		list = append(list, message)
	}
	return list, nil
}

func (m *customMessageStore) Serialize(context.Context) (json.RawMessage, error) {
	return json.Marshal(m)
}

// A store of one's own is three methods, and a factory that opens it for each
// thread: anew, or from its serialized state.
func Example_customMessageStore() {
	ctx := context.Background()
	db := &vectorStore{rows: map[string][]string{}}
	agent := must(host.NewAgent(jokerName, &host.AgentOptions{
		Model:        says("One joke.", "Another joke."),
		Instructions: jokerInstructions,
		Messages:     customMessageStores{db},
	}))
	thread := must(agent.NewThread(ctx, &host.ThreadOptions{ID: "thread-1"}))
	run(agent, thread, pirate)
	fmt.Println(db.rows["\x00thread-1"] != nil, len(db.rows["\x00thread-1"]))

	restored := must(agent.RestoreThread(ctx, must(thread.Serialize(ctx)), nil))
	run(agent, restored, "Another.")
	fmt.Println(len(db.rows), len(db.rows["\x00thread-1"]))
	// Output:
	// true 2
	// 1 4
}

// The state of a thread is JSON to be stored, and the agent makes a thread of it
// again: with its stores, and with what its context providers kept.
func Example_threadSerialization() {
	ctx := context.Background()
	agent := must(host.NewAgent(jokerName, &host.AgentOptions{Model: says("One joke.", "Another joke."), Instructions: jokerInstructions}))
	thread := must(agent.NewThread(ctx, nil))
	run(agent, thread, pirate)

	serializedThreadState := must(thread.Serialize(ctx))

	resumedThread := must(agent.RestoreThread(ctx, serializedThreadState, nil))
	run(agent, resumedThread, "Another.")
	show(must(resumedThread.Messages(ctx)))
	// Output:
	// user: Tell me a joke about a pirate.
	// assistant: One joke.
	// user: Another.
	// assistant: Another joke.
}

// Without anything else said, a thread keeps its messages itself.
func Example_inMemoryStorageDefault() {
	ctx := context.Background()
	agent := must(host.NewAgent("assistant", &host.AgentOptions{Model: says("Hello, Alice."), Instructions: "You are a helpful assistant."}))
	thread := must(agent.NewThread(ctx, nil))
	fmt.Println(run(agent, thread, "Hello, my name is Alice"))
	fmt.Println(thread.Kind(), len(must(thread.Messages(ctx))))
	// Output:
	// Hello, Alice.
	// store 2
}

// The same, said: the factory of stores in memory.
func Example_builtInChatMessageStore() {
	ctx := context.Background()
	agent := must(host.NewAgent("assistant", &host.AgentOptions{
		Model:        says("Hello."),
		Instructions: "You are a helpful assistant.",
		Messages:     must(host.NewMemoryMessages(nil)),
	}))
	thread := must(agent.NewThread(ctx, nil))
	run(agent, thread, "Hi.")
	show(must(thread.Messages(ctx)))
	// Output:
	// user: Hi.
	// assistant: Hello.
}

// The last hundred messages of a thread in Redis.
func TestRedisMessageStore(t *testing.T) {
	url := os.Getenv("AGENTHOST_TEST_REDIS")
	if url == "" {
		t.Skip("set AGENTHOST_TEST_REDIS to the address of a Redis or Valkey server that may be written to, as .ci/redis start prints it")
	}
	stores, err := redismessages.Open(t.Context(), url, &redismessages.Options{MaxMessages: 100, KeyPrefix: "example-" + host.NewID()})
	if err != nil {
		t.Fatal(err)
	}
	defer stores.Close()
	agent := must(host.NewAgent("assistant", &host.AgentOptions{Model: says("Hello, Alice.", "Alice."), Instructions: "You are a helpful assistant.", Messages: stores}))
	thread := must(agent.NewThread(t.Context(), &host.ThreadOptions{ID: "user_session_123"}))
	run(agent, thread, "Hello, my name is Alice")

	// Another process has nothing but the session's id.
	later := must(agent.NewThread(t.Context(), &host.ThreadOptions{ID: "user_session_123"}))
	if got := run(agent, later, "What's my name?"); got != "Alice." {
		t.Errorf("it says %q", got)
	}
	if n := len(must(later.Messages(t.Context()))); n != 4 {
		t.Errorf("%d messages are in the list, want 4", n)
	}
	store := must(stores.OpenStore(t.Context(), &host.StoreRequest{Thread: "user_session_123"}))
	if err := store.(host.MessageClearer).ClearMessages(t.Context()); err != nil {
		t.Error(err)
	}
}

// databaseMessageStores are a store of one's own that has an address. What is
// serialized says which thread it is; where the database is, and how to get in, is
// the factory's to know.
type databaseMessageStores struct {
	connectionString string
	customMessageStores
}

func (databaseMessageStores) StoreType() string { return "database" }

func Example_databaseMessageStore() {
	ctx := context.Background()
	stores := databaseMessageStores{"postgres://app:secret@db/chats", customMessageStores{&vectorStore{rows: map[string][]string{}}}}
	agent := must(host.NewAgent("assistant", &host.AgentOptions{Model: says("Hello."), Messages: stores}))
	thread := must(agent.NewThread(ctx, &host.ThreadOptions{ID: "thread-1"}))
	run(agent, thread, "Hi.")

	var serialized struct {
		Kind  string
		Store json.RawMessage
	}
	if err := json.Unmarshal(must(thread.Serialize(ctx)), &serialized); err != nil {
		panic(err)
	}
	fmt.Println(serialized.Kind, string(serialized.Store))
	// Output:
	// store {"type":"database","state":{"thread_db_key":"thread-1"}}
}

// A thread goes to a file, and on from there in another process.
func Example_threadSerializationAndPersistence() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "threads"))
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "thread_state.json")

	agent := must(host.NewAgent("assistant", &host.AgentOptions{Model: says("Hello, Alice.", "Your name is Alice.")}))
	thread := must(agent.NewThread(ctx, nil))
	run(agent, thread, "Hello, my name is Alice")

	if err := os.WriteFile(file, must(thread.Serialize(ctx)), 0o600); err != nil {
		panic(err)
	}

	restored := must(agent.RestoreThread(ctx, must(os.ReadFile(file)), nil))
	fmt.Println(run(agent, restored, "What's my name?"))
	// Output:
	// Your name is Alice.
}
