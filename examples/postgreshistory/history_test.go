package postgreshistory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

func TestHistoryKit(t *testing.T) {
	dsnOf(t)
	hosttest.TestHistory(t, func(t *testing.T) any { return newStore(t) }, &hosttest.HistoryOptions{
		Status: func(t *testing.T, adapter any, tenant, thread string) host.FinishReason {
			page, err := adapter.(*postgreshistory.Store).List(t.Context(), tenant, nil)
			if err != nil || len(page.Threads) != 1 || page.Threads[0].ID != thread {
				t.Fatalf("List = %+v, %v", page, err)
			}
			return page.Threads[0].Status
		}})
}

// What the text of a database cannot hold comes back all the same.
func TestWhatModelsWrite(t *testing.T) {
	s := newStore(t)
	deep := strings.Repeat("[", 9990) + strings.Repeat("]", 9990)
	nul := text("u1", "a\x00b")
	call := withID("a1", host.Assistant, &host.Text{Text: "\x00"},
		&host.ToolCall{ID: "c\x00", Name: "look", Arguments: json.RawMessage(`{"deep":` + deep + `,"n":1e999,"s":"\ud800\u0000"}`)})
	call.Agent = "cl\x00erk"
	turn := turnOf(say(t, s, "t1", "r1", nul), call)
	turn.Results[0].Agent, turn.Error = call.Agent, fault.AsError(host.Errorf(host.Internal, "\x00"))
	turn.Artifacts = []host.Artifact{{Name: "a\x00b", Parts: []host.Part{&host.Text{Text: "\x00"}}}}
	if err := s.AppendResults(t.Context(), request("t1", "r1", nul), turn); err != nil {
		t.Fatal(err)
	}
	want := string(chat.AppendMessagesJSON(nil, []*host.Message{nul, call}))
	if got := string(chat.AppendMessagesJSON(nil, get(t, s, "t1").Messages)); got != want {
		t.Errorf("messages come back as %.300s, want %.300s", got, want)
	}
	page, err := s.List(t.Context(), "acme", nil)
	if err != nil || page.Threads[0].Title != "ab" {
		t.Errorf("List = %+v, %v; want the title ab", page, err)
	}
}

func TestTheTablesSayWhatATurnLeft(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema, postgreshistory.Options{})
	user := text("u1", "hello")
	answer := withID("a1", host.Assistant, &host.Text{Text: "hi"})
	turn := turnOf(say(t, s, "t1", "r1", user), answer)
	turn.Status, turn.Error = chat.FinishFailed, fault.AsError(host.Errorf(host.Unavailable, "the model is down"))
	turn.Usage = host.Usage{InputTokens: 3, OutputTokens: 4}
	turn.Artifacts = []host.Artifact{{Name: "label", Parts: []host.Part{&host.Text{Text: "Lyon"}}}}
	if err := s.AppendResults(t.Context(), request("t1", "r1", user), turn); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsnOf(t))
	for question, want := range map[string]string{
		"select status || ' ' || (error->>'code') || ' ' || (usage->>'input_tokens') || ' ' || messages from @.turns":        "failed unavailable 3 2",
		"select (results->0->>'checksum') || ' ' || (results->0->'messages'->>0) from @.turns":                               turn.Results[0].Checksum() + " a1",
		"select string_agg(body->'parts'->0->>'text', ' ' order by seq) from @.messages where tenant='acme' and thread='t1'": "hello hi",
		"select string_agg(checksum, ' ' order by seq) from @.messages":                                                      user.Checksum() + " " + answer.Checksum(),
		"select name || ' ' || (body->'parts'->0->>'text') from @.artifacts":                                                 "label Lyon",
		"select title || ' ' || status || ' ' || turns || ' ' || messages || ' ' || head from @.threads":                     "hello failed 1 2 2",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), strings.ReplaceAll(question, "@", schema)).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", question, got, err, want)
		}
	}
}

func TestAWindowKeepsPairsWhole(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema, postgreshistory.Options{})
	call := withID("a1", host.Assistant,
		&host.ToolCall{ID: "1", Name: "look", Arguments: json.RawMessage("{}")}, &host.ToolCall{ID: "2", Name: "look", Arguments: json.RawMessage("{}")})
	result := func(id string) *host.Message {
		return withID("t"+id, host.ToolRole, &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage("1")})
	}
	user := text("u1", "look")
	turn := turnOf(say(t, s, "t1", "r1", user), call, result("1"), result("2"), withID("a2", host.Assistant, &host.Text{Text: "seen"}))
	if err := s.AppendResults(t.Context(), request("t1", "r1", user), turn); err != nil {
		t.Fatal(err)
	}
	for window, want := range map[int]string{0: "u1 a1 t1 t2 a2", 5: "u1 a1 t1 t2 a2", 4: "a1 t1 t2 a2", 3: "a2", 2: "a2", 1: "a2"} {
		if got := ids(get(t, open(t, schema, postgreshistory.Options{Window: window}), "t1").Messages); got != want {
			t.Errorf("a window of %d shows %q, want %q", window, got, want)
		}
	}
}

func TestRequestsRefused(t *testing.T) {
	s := newStore(t)
	long := strings.Repeat("x", postgreshistory.MaxIDBytes+1)
	for name, fn := range map[string]func(ctx context.Context) error{
		"a thread without an id": func(ctx context.Context) error { _, err := s.Get(ctx, request("", "r", nil)); return err },
		"a long id":              func(ctx context.Context) error { _, err := s.Get(ctx, request(long, "r", nil)); return err },
		"an id with NUL": func(ctx context.Context) error {
			_, _, err := s.CreateThread(ctx, request("a\x00", "r", nil))
			return err
		},
		"an id not UTF-8": func(ctx context.Context) error { return s.Delete(ctx, "acme", "\xff") },
		"a long tenant":   func(ctx context.Context) error { _, err := s.List(ctx, long, nil); return err },
		"no message": func(ctx context.Context) error {
			_, err := s.AppendUserMessage(ctx, request("t", "r", nil))
			return err
		},
		"a message without an id": func(ctx context.Context) error {
			_, err := s.AppendUserMessage(ctx, request("t", "r", &host.Message{Role: host.User}))
			return err
		},
		"a turn without a run": func(ctx context.Context) error { return s.AppendResults(ctx, request("t", "", nil), turnOf("")) },
		"state that is no JSON": func(ctx context.Context) error {
			return s.AppendResults(ctx, request("t", "r", nil), &host.Turn{State: []byte("{")})
		},
		"a cursor of nobody": func(ctx context.Context) error {
			_, err := s.List(ctx, "acme", &postgreshistory.ListOptions{Cursor: "x"})
			return err
		},
	} {
		if err := fn(t.Context()); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v, want code %s", name, err, host.InvalidArgument)
		}
	}
	if page, err := s.List(t.Context(), "acme", nil); err != nil || len(page.Threads) != 0 {
		t.Errorf("what was refused left %+v, %v", page, err)
	}
}

// A run id that is used again is not taken for a retry.
func TestAnotherTurnOfARunIsRefused(t *testing.T) {
	s := newStore(t)
	first, other := host.AssistantText("one"), host.AssistantText("two")
	for i, row := range []struct {
		messages []*host.Message
		code     host.Code
	}{
		{[]*host.Message{first}, ""},
		{[]*host.Message{first}, ""},
		{[]*host.Message{other}, host.AlreadyExists},
		{[]*host.Message{first, other}, host.AlreadyExists},
		{nil, host.AlreadyExists},
	} {
		if err := s.AppendResults(t.Context(), request("t", "r", nil), turnOf("", row.messages...)); host.CodeOf(err) != row.code {
			t.Errorf("turn %d: %v, want code %q", i, err, row.code)
		}
	}
	if got := get(t, s, "t"); len(got.Messages) != 1 || got.Messages[0].ID != first.ID {
		t.Errorf("the thread has %v, want the first turn", ids(got.Messages))
	}
}

// Behind a pooler that gives each transaction another connection nothing can be
// prepared; the store works without.
func TestWithoutPreparedStatements(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s, err := postgreshistory.Open(t.Context(), dsnOf(t)+" default_query_exec_mode="+mode, &postgreshistory.Options{Schema: newSchema(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			history, err := host.NewHistory(s, &host.HistoryOptions{EachRound: true})
			if err != nil {
				t.Fatal(err)
			}
			look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "seen", nil }, nil)
			agent, err := host.NewAgent("clerk", &host.AgentOptions{History: history, Tools: []*host.Tool{look},
				Model: hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("one"), hosttest.Say("two"))})
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(&host.Options{SingleTenant: true})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: "t1", Text: "hi", State: map[string]int{"n": 1}}); err != nil {
					t.Fatal(err)
				}
			}
			if got := get(t, s, "t1"); len(got.Messages) != 6 || string(got.State) != `{"n":1}` {
				t.Errorf("the thread holds %d messages and state %s, want 6", len(got.Messages), got.State)
			}
			say(t, s, "t2", "r", text("u", "x"))
			page, err := s.List(t.Context(), "acme", &postgreshistory.ListOptions{Limit: 1})
			if err == nil {
				page, err = s.List(t.Context(), "acme", &postgreshistory.ListOptions{Cursor: page.Next})
			}
			if err != nil || len(page.Threads) != 1 || page.Threads[0].ID != "t1" {
				t.Errorf("the second page is %+v, %v", page, err)
			}
		})
	}
}

func TestADamagedMessageIsAnError(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema, postgreshistory.Options{})
	say(t, s, "t1", "r1", text("u1", "hello"))
	exec(t, dsnOf(t), "update "+schema+`.messages set body = '{"role":"boss"}'`)
	if _, err := s.Get(t.Context(), request("t1", "r2", nil)); host.CodeOf(err) != host.DataLoss {
		t.Errorf("Get: %v, want code %s", err, host.DataLoss)
	}
}

func TestListAndDelete(t *testing.T) {
	s := newStore(t)
	for i := range 5 {
		say(t, s, fmt.Sprint("t", i), "r", text("u", fmt.Sprint("question ", i)))
	}
	say(t, s, "t1", "r", text("u2", "again")) // to the front
	if _, err := s.AppendUserMessage(t.Context(), &host.HistoryRequest{Tenant: "globex", Thread: "theirs", Input: text("u", "x")}); err != nil {
		t.Fatal(err)
	}
	var got []string
	cursor := ""
	for {
		page, err := s.List(t.Context(), "acme", &postgreshistory.ListOptions{Limit: 2, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, th := range page.Threads {
			got = append(got, fmt.Sprintf("%s %s %d", th.ID, th.Title, th.Messages))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	want := []string{"t1 question 1 2", "t4 question 4 1", "t3 question 3 1", "t2 question 2 1", "t0 question 0 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if err := s.Delete(t.Context(), "globex", "t1"); host.CodeOf(err) != host.NotFound {
		t.Errorf("Delete of another tenant's thread: %v, want code %s", err, host.NotFound)
	}
	if err := s.Delete(t.Context(), "acme", "t1"); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "t1"); len(got.Messages) != 0 || got.Head != "" {
		t.Errorf("after Delete there is %+v", got)
	}
	if got := ids(get(t, s, "t2").Messages); got != "u" {
		t.Errorf("Delete of t1 left %q of t2", got)
	}
}

// Two hosts on one database, each with many runs at once on few threads:
// everything is stored once, in pairs.
func TestTwoHostsLoseNothing(t *testing.T) {
	schema := newSchema(t)
	hosts := []*postgreshistory.Store{open(t, schema, postgreshistory.Options{}), open(t, schema, postgreshistory.Options{})}
	const threads, turns = 3, 6
	var wg sync.WaitGroup
	for h, s := range hosts {
		history, err := host.NewHistory(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		agent, err := host.NewAgent("clerk", &host.AgentOptions{History: history, Model: hosttest.ModelFunc(
			func(_ context.Context, req *llm.Request) hosttest.Reply {
				return hosttest.Say("to " + req.Messages[len(req.Messages)-1].Text())
			})})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := host.New(&host.Options{SingleTenant: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range threads * turns {
			wg.Go(func() {
				req := &host.Request{Tenant: "acme", Thread: fmt.Sprint("t", i%threads), Text: fmt.Sprintf("%d.%d", h, i)}
				if _, err := engine.Run(t.Context(), agent, req); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
	}
	wg.Wait()
	for i := range threads {
		messages := get(t, hosts[0], fmt.Sprint("t", i)).Messages
		if len(messages) != 2*2*turns {
			t.Errorf("thread %d holds %d messages, want %d", i, len(messages), 2*2*turns)
		}
		for j := 0; j+1 < len(messages); j += 2 {
			if asked, said := messages[j], messages[j+1]; asked.Role != host.User || said.Text() != "to "+asked.Text() {
				t.Errorf("thread %d: %q is followed by %q", i, asked.Text(), said.Text())
			}
		}
	}
}
