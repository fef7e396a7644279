package agentkit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// database stands for somebody's database: threads, and messages in the order in
// which they came, each id once.
type database struct {
	mu      sync.Mutex
	titles  map[string]string
	updated map[string]time.Time
	rows    map[string][]*host.Message
	seen    map[string]bool
	asked   []string
}

func newDatabase() *database {
	return &database{titles: map[string]string{}, updated: map[string]time.Time{}, rows: map[string][]*host.Message{}, seen: map[string]bool{}}
}

func (db *database) insert(thread string, messages ...*host.Message) {
	for _, m := range messages {
		if key := thread + "/" + m.ID; !db.seen[key] {
			db.seen[key] = true
			db.rows[thread] = append(db.rows[thread], m)
		}
	}
}

// adapter keeps conversations in a database. It has the four methods that AgentKit
// names; each is optional, and which ones there are is found once, by NewHistory.
// A whole one for PostgreSQL is examples/postgreshistory; hosttest.TestHistory tests
// any.
type adapter struct{ db *database }

// CreateThread makes the thread, or makes sure of it. A given id stays.
func (a adapter) CreateThread(_ context.Context, req *host.HistoryRequest) (string, bool, error) {
	a.db.mu.Lock()
	defer a.db.mu.Unlock()
	a.db.asked = append(a.db.asked, "createThread")
	id := req.Thread
	if id == "" {
		id = fmt.Sprintf("thread-%d", len(a.db.titles)+1)
	}
	_, known := a.db.titles[id]
	if !known && req.Input != nil {
		title := []rune(req.Input.Text())
		a.db.titles[id] = string(title[:min(50, len(title))])
	}
	a.db.updated[id] = time.Now()
	return id, !known, nil
}

// AppendUserMessage stores the user's message before anything else happens, under
// the id that the client gave it.
func (a adapter) AppendUserMessage(_ context.Context, req *host.HistoryRequest) (string, error) {
	a.db.mu.Lock()
	defer a.db.mu.Unlock()
	a.db.asked = append(a.db.asked, "appendUserMessage")
	a.db.insert(req.Thread, req.Input)
	return "", nil
}

// Get returns everything in the order of the conversation, the users' messages
// too. An unknown thread is empty.
func (a adapter) Get(_ context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	a.db.mu.Lock()
	defer a.db.mu.Unlock()
	a.db.asked = append(a.db.asked, "get")
	return &host.Loaded{Messages: append([]*host.Message(nil), a.db.rows[req.Thread]...)}, nil
}

// AppendResults stores what the run has added. What was there is not in it.
func (a adapter) AppendResults(_ context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	a.db.mu.Lock()
	defer a.db.mu.Unlock()
	a.db.asked = append(a.db.asked, "appendResults")
	a.db.insert(req.Thread, turn.Messages()...)
	return nil
}

func chatAgent(db *database, model host.Model) *host.Agent {
	return must(host.NewAgent("chat-agent", &host.AgentOptions{
		Instructions: "You are a helpful assistant.",
		Model:        model,
		History:      must(host.NewHistory(adapter{db}, nil)),
	}))
}

// An adapter of one's own has up to four methods. The order of a run is: make sure
// of the thread, store the user's message, load what was before, run, store what is
// new, once.
func Example_historyAdapter() {
	db := newDatabase()
	agent := chatAgent(db, says("Hello!", "Yes."))
	first := run(agent, host.Request{Text: "Hello! This is a long sentence that no list of threads has room for."})
	run(agent, host.Request{Thread: first.Thread, Text: "Still there?"})
	fmt.Println(db.titles[first.Thread])
	fmt.Println(db.asked)
	show(db.rows[first.Thread])
	// Output:
	// Hello! This is a long sentence that no list of thr
	// [createThread appendUserMessage appendResults createThread appendUserMessage get appendResults]
	// user: Hello! This is a long sentence that no list of threads has room for.
	// assistant: Hello!
	// user: Still there?
	// assistant: Yes.
}

// An agent on its own is kept exactly as a network of one: AgentKit would store
// nothing of it.
func Example_agentWithHistory() {
	db := newDatabase()
	run(chatAgent(db, says("Hello!")), host.Request{Thread: "thread-456", Text: "Hello!", State: map[string]string{"userId": "user123"}})
	show(db.rows["thread-456"])
	// Output:
	// user: Hello!
	// assistant: Hello!
}

// In a network the network's history is used. An agent that brings one of its own
// is refused, for it would be ignored.
func Example_networkWithHistory() {
	db := newDatabase()
	agents := []*host.Agent{
		must(host.NewAgent("researcher", &host.AgentOptions{Description: "Searches for information."})),
		must(host.NewAgent("writer", &host.AgentOptions{Description: "Writes full answers."})),
	}
	assistant := must(host.NewNetwork("research-assistant", agents, &host.NetworkOptions{
		Router:  host.InOrder("line", "researcher", "writer"),
		Model:   says("Qubits are in several states.", "A quantum computer uses qubits."),
		History: must(host.NewHistory(adapter{db}, nil)),
	}))
	run(assistant, host.Request{Thread: "existing-thread-id", Text: "Tell me about quantum computing.", State: map[string]string{"userId": "user-123"}})
	show(db.rows["existing-thread-id"])
	_, err := host.NewNetwork("n", []*host.Agent{chatAgent(db, says())}, &host.NetworkOptions{Router: host.InOrder("line", "chat-agent")})
	fmt.Println(err)
	// Output:
	// user: Tell me about quantum computing.
	// assistant: Qubits are in several states.
	// assistant: A quantum computer uses qubits.
	// agent "chat-agent" of network "n" has a history of its own; inside a network only the network's history is used; set it there
}

// The server keeps the conversation: the client names the thread, and the model
// sees all of it, each message once and in order.
func Example_serverAuthoritative() {
	db := newDatabase()
	db.titles["t"] = "known"
	db.insert("t", host.UserText("My name is Ada."), host.AssistantText("Hello, Ada."))
	model := says("Ada.")
	run(chatAgent(db, model), host.Request{Thread: "t", Text: "What is my name?"})
	show(model.Requests()[0].Messages)
	// Output:
	// system: You are a helpful assistant.
	// user: My name is Ada.
	// assistant: Hello, Ada.
	// user: What is my name?
}

// The client keeps the conversation and sends it: nothing is loaded, and what is
// new is stored as usual.
func Example_clientAuthoritative() {
	db := newDatabase()
	model := says("Ada.")
	run(chatAgent(db, model), host.Request{Thread: "t", Text: "What is my name?",
		Messages: []*host.Message{host.UserText("My name is Ada."), host.AssistantText("Hello, Ada.")}})
	fmt.Println(db.asked)
	fmt.Println(len(model.Requests()[0].Messages), "messages are sent")
	show(db.rows["t"])
	// Output:
	// [createThread appendUserMessage appendResults]
	// 4 messages are sent
	// user: What is my name?
	// assistant: Ada.
}

// Both: the first request of a session names the thread alone and loads it, later
// ones send what the client has by then.
func Example_hybridHistory() {
	db := newDatabase()
	db.titles["t"] = "known"
	db.insert("t", host.UserText("My name is Ada."), host.AssistantText("Hello, Ada."))
	agent := chatAgent(db, says("Ada.", "You are welcome."))
	run(agent, host.Request{Thread: "t", Text: "What is my name?"})
	client := db.rows["t"] // what the page shows by now
	run(agent, host.Request{Thread: "t", Text: "Thanks!", Messages: client})
	fmt.Println(db.asked)
	fmt.Println(len(db.rows["t"]), "messages are stored")
	// Output:
	// [createThread appendUserMessage get appendResults createThread appendUserMessage appendResults]
	// 6 messages are stored
}

// A thread that the request names keeps its name, whatever the adapter returns.
func Example_threadGiven() {
	result := run(chatAgent(newDatabase(), says("Here we are.")), host.Request{Thread: "existing-thread-id-123", Text: "Let us go on."})
	fmt.Println(result.Thread)
	// Output: existing-thread-id-123
}

// A thread that it does not name gets the id that the adapter makes.
func Example_threadCreated() {
	result := run(chatAgent(newDatabase(), says("Hello!")), host.Request{Text: "Hello!"})
	fmt.Println(result.Thread)
	// Output: thread-1
}

// loadOnly is an adapter that cannot make threads.
type loadOnly struct{}

func (loadOnly) Get(context.Context, *host.HistoryRequest) (*host.Loaded, error) { return nil, nil }

// Without a method for that, but with one that loads, the thread gets a fresh id.
func Example_threadGenerated() {
	agent := must(host.NewAgent("chat-agent", &host.AgentOptions{Model: says("Hello!"), History: must(host.NewHistory(loadOnly{}, nil))}))
	fmt.Println(len(run(agent, host.Request{Text: "Hello!"}).Thread), "letters")
	// Output: 36 letters
}

// Writes may be repeated: a message keeps the id that the client gave it, and a
// result has an id and a checksum that do not depend on the time zone. Two equal
// texts under two ids are two messages.
func Example_idempotentWrites() {
	db := newDatabase()
	agent := chatAgent(db, says("One.", "Two.", "Three."))
	yes := func(id string) host.Request {
		return host.Request{Thread: "t", Input: &host.Message{ID: id, Role: host.User, Parts: []host.Part{&host.Text{Text: "yes"}}}}
	}
	run(agent, yes("m1"))
	run(agent, yes("m1")) // the client was not sure
	run(agent, yes("m2"))
	show(db.rows["t"])

	at := time.Date(2025, 1, 2, 3, 4, 5, 678e6, time.UTC)
	here := &host.Result{Agent: "a", CreatedAt: at}
	there := &host.Result{Agent: "a", CreatedAt: at.In(time.FixedZone("New York", -5*3600))}
	fmt.Println(here.Checksum() == there.Checksum())
	// Output:
	// user: yes
	// assistant: One.
	// assistant: Two.
	// user: yes
	// assistant: Three.
	// true
}

// stepwise is the adapter with its write in a step of the run, as AgentKit advises.
// Here that is for an adapter that does more than write: what it calls beside its
// database is called once for each run, also when the write is tried again.
type stepwise struct {
	adapter
	saved *int
}

func (s stepwise) AppendUserMessage(ctx context.Context, req *host.HistoryRequest) (string, error) {
	return host.Step(ctx, "save-user-message", func(ctx context.Context) (string, error) {
		*s.saved++
		return s.adapter.AppendUserMessage(ctx, req)
	}, &host.StepOptions{Idempotent: true})
}

func Example_durableSteps() {
	db, saved := newDatabase(), 0
	agent := must(host.NewAgent("chat-agent", &host.AgentOptions{
		Model:   says("Hello."),
		History: must(host.NewHistory(stepwise{adapter{db}, &saved}, nil)),
		Hooks: host.Hooks{Start: func(ctx context.Context, at *host.StartHook) error {
			again := func(context.Context) (string, error) { saved++; return "", nil } // whoever names the step again has its result
			_, err := host.Step(ctx, "save-user-message", again, nil)
			return err
		}},
	}))
	run(agent, host.Request{Thread: "t", Text: "Hi."})
	show(db.rows["t"])
	fmt.Println("saved", saved, "time")
	// Output:
	// user: Hi.
	// assistant: Hello.
	// saved 1 time
}

// An unknown thread is an empty conversation, for every adapter.
func Example_missingThread() {
	loaded := must(adapter{newDatabase()}.Get(context.Background(), &host.HistoryRequest{Thread: "nobody's"}))
	fmt.Println(len(loaded.Messages), "messages")
	// Output: 0 messages
}

// A thread that exists is made sure of, not made anew: its title stays.
func Example_upsertThread() {
	db := newDatabase()
	agent := chatAgent(db, says("Hello!", "Yes?"))
	run(agent, host.Request{Thread: "t", Text: "First words."})
	run(agent, host.Request{Thread: "t", Text: "Other words."})
	fmt.Println(len(db.titles), db.titles["t"])
	// Output: 1 First words.
}

// The host's own history is in memory or in a store (host/threads); it keeps each
// message with its role and its agent, so an order of the conversation need not be
// made up.
func Example_completeHistory() {
	history := hosttest.NewHistory()
	agent := must(host.NewAgent("chat-agent", &host.AgentOptions{Model: says("Hello!", "Fine."), History: must(host.NewHistory(history, nil))}))
	run(agent, host.Request{Thread: "t", Text: "Hello!"})
	run(agent, host.Request{Thread: "t", Text: "How are you?"})
	for _, m := range history.Messages("", "t") {
		fmt.Printf("%s %q: %s\n", m.Role, m.Agent, m.Text())
	}
	// Output:
	// user "": Hello!
	// assistant "chat-agent": Hello!
	// user "": How are you?
	// assistant "chat-agent": Fine.
}
