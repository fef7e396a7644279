package sessions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
)

// says is a model that needs no network: it gives these replies.
func says(replies ...hosttest.Reply) host.Model { return hosttest.NewModel(replies...) }

func agent(name, instructions string, model host.Model, tools ...*host.Tool) *host.Agent {
	a, err := host.NewAgent(name, &host.AgentOptions{Instructions: instructions, Model: model, Tools: tools})
	check(err)
	return a
}

func service(target host.Target, opts *sessions.Options) *sessions.Service {
	own := sessions.Options{}
	if opts != nil {
		own = *opts
	}
	own.Host.SingleTenant = true
	s, err := sessions.New(target, &own)
	check(err)
	return s
}

// inMemory keeps sessions for as long as the process lives; on badgerkv they are
// on disk.
func inMemory() *threads.Store { return threads.New(kv.NewMemory(), nil) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// TaskState is compact data that drives the next turn.
type TaskState struct {
	Tasks  []Task `json:"tasks"`
	NextID int    `json:"nextId"`
}

// Task is something to do.
type Task struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
	Done  bool   `json:"done"`
}

// addTask changes the custom state of the session it is called in.
func addTask() *host.Tool {
	type input struct {
		Title string `json:"title"`
	}
	return host.NewTool("addTask", "Adds a task to the list.", func(_ context.Context, call *host.Call, in input) (string, error) {
		return "added", host.UpdateState(call.State, func(s *TaskState) error {
			s.NextID++
			s.Tasks = append(s.Tasks, Task{ID: s.NextID, Title: in.Title})
			return nil
		})
	}, nil)
}

// The server keeps history and snapshots: a store is all it takes.
func Example_serverManaged() {
	weatherAgent := agent("weatherAgent", "Answer weather questions.", says(hosttest.Say("Rain in Oslo."), hosttest.Say("Sun in Rome.")))
	s := service(weatherAgent, &sessions.Options{Store: inMemory()})
	defer s.Close()
	chat, err := sessions.NewChat(s.For("tenant"), nil)
	check(err)
	out, err := chat.Send(context.Background(), "And in Oslo?")
	check(err)
	fmt.Println(out.Text(), out.State == nil, out.Snapshot == chat.Snapshot())
	out, err = chat.Send(context.Background(), "And in Rome?")
	check(err)
	fmt.Println(out.Text(), len(chat.State().Messages))
	// Output:
	// Rain in Oslo. true true
	// Sun in Rome. 4
}

// A tool updates custom state; what it changed is streamed as patches.
func Example_updateCustom() {
	s := service(agent("taskAgent", "", says(hosttest.Call("addTask", `{"title":"Buy milk"}`), hosttest.Say("Done.")), addTask()), &sessions.Options{Store: inMemory()})
	defer s.Close()
	for ev, err := range s.Turn(context.Background(), &sessions.Request{Text: "Add buy milk to my list."}) {
		check(err)
		if d, ok := ev.Data.(*runevent.StatePatched); ok {
			ops, _ := json.Marshal(d.Ops)
			fmt.Println(string(ops))
		}
	}
	// Output:
	// [{"op":"replace","path":"","value":{}}]
	// [{"op":"add","path":"/nextId","value":1},{"op":"add","path":"/tasks","value":[{"done":false,"id":1,"title":"Buy milk"}]}]
}

// A snapshot is read by its id, or as the one that a session goes on from.
func Example_getSnapshot() {
	s := service(agent("planner", "", says(hosttest.Say("Three days."), hosttest.Say("Four days."))), &sessions.Options{Store: inMemory()})
	defer s.Close()
	ctx := context.Background()
	one, err := s.Run(ctx, &sessions.Request{Session: "trip", Text: "Plan a trip."})
	check(err)
	_, err = s.Run(ctx, &sessions.Request{Session: "trip", Text: "Longer."})
	check(err)
	exact, err := s.Snapshot(ctx, &sessions.SnapshotRequest{Snapshot: one.Snapshot})
	check(err)
	latest, err := s.Snapshot(ctx, &sessions.SnapshotRequest{Session: "trip", WithoutState: true})
	check(err)
	fmt.Println(exact.Status, len(exact.State.Messages), latest.Parent == exact.ID, latest.State == nil)
	// Output: completed 2 true true
}

// By its name a session goes on from its last completed turn.
func Example_resumeSession() {
	s := service(agent("support", "", says(hosttest.Say("Which order?"), hosttest.Say("Order 1042, then."))), &sessions.Options{Store: inMemory()})
	defer s.Close()
	for _, text := range []string{"My order is late.", "Continue where we left off."} {
		chat, err := sessions.NewChat(s.For("tenant"), &sessions.Start{Session: "support-ticket-123"})
		check(err)
		out, err := chat.Send(context.Background(), text)
		check(err)
		fmt.Println(out.Text())
	}
	// Output:
	// Which order?
	// Order 1042, then.
}

// By a snapshot it goes on from exactly there, as a branch. With both names, the
// session's is a guard.
func Example_branch() {
	s := service(agent("planner", "", says(hosttest.Say("Paris."), hosttest.Say("By train."), hosttest.Say("By bus."))), &sessions.Options{Store: inMemory()})
	defer s.Close()
	ctx := context.Background()
	approvedPlan, err := s.Run(ctx, &sessions.Request{Text: "Where to?"})
	check(err)
	_, err = s.Run(ctx, &sessions.Request{Session: approvedPlan.Session, Text: "How?"})
	check(err)
	branch, err := sessions.NewChat(s.For(""), &sessions.Start{Session: approvedPlan.Session, Snapshot: approvedPlan.Snapshot})
	check(err)
	_, err = branch.Send(ctx, "Revise this plan for a smaller budget.")
	check(err)
	for _, m := range branch.State().Messages {
		fmt.Println(m.Role, m.Text())
	}
	_, err = s.Run(ctx, &sessions.Request{Session: "another", Snapshot: approvedPlan.Snapshot, Text: "x"})
	fmt.Println(host.CodeOf(err))
	// Output:
	// user Where to?
	// assistant Paris.
	// user Revise this plan for a smaller budget.
	// assistant By bus.
	// invalid_argument
}

// Without a store the client has the whole session, and brings it along.
func Example_clientManaged() {
	s := service(agent("taskAgent", "", says(hosttest.Call("addTask", `{"title":"Buy milk"}`), hosttest.Say("Added."), hosttest.Say("One.")), addTask()), nil)
	chat, err := sessions.NewChat(s.For(""), &sessions.Start{State: &sessions.Session{Custom: json.RawMessage(`{"tasks":[],"nextId":0}`)}})
	check(err)
	out, err := chat.Send(context.Background(), "Add buy milk to my list.")
	check(err)
	saved, err := json.Marshal(out.State)
	check(err)

	state := &sessions.Session{}
	check(json.Unmarshal(saved, state))
	later, err := s.Run(context.Background(), &sessions.Request{State: state, Text: "How many?"})
	check(err)
	fmt.Println(later.Text(), string(later.State.Custom), later.Session == out.Session)
	// Output: One. {"nextId":1,"tasks":[{"done":false,"id":1,"title":"Buy milk"}]} true
}

// A sealed session cannot be read by its client, and not be forged.
func Example_sealed() {
	keys, err := sessions.NewKeys("2026-11", map[string][]byte{"2026-11": bytes.Repeat([]byte{7}, sessions.KeyBytes)})
	check(err)
	s := service(agent("clerk", "", says(hosttest.Say("Noted."), hosttest.Say("Still noted."))), &sessions.Options{Keys: keys})
	ctx := context.Background()
	out, err := s.Run(ctx, &sessions.Request{Text: "My pin is 1234."})
	check(err)
	again, err := s.Run(ctx, &sessions.Request{Sealed: out.Sealed, Text: "And?"})
	check(err)
	fmt.Println(bytes.Contains(out.Sealed, []byte("pin is")), again.Text())
	_, err = s.Run(ctx, &sessions.Request{State: out.State, Text: "And?"})
	fmt.Println(host.CodeOf(err))
	// Output:
	// false Still noted.
	// permission_denied
}

// A chat shows the custom state as it changes.
func Example_liveState() {
	type input struct {
		Status string `json:"status"`
	}
	report := host.NewTool("report", "Says how far the research is.", func(_ context.Context, call *host.Call, in input) (string, error) {
		return "", call.State.Set("/status", in.Status)
	}, nil)
	researchAgent := agent("researchAgent", "", says(hosttest.Call("report", `{"status":"searching"}`), hosttest.Call("report", `{"status":"writing"}`), hosttest.Say("Electric vehicles are quiet.")), report)
	s := service(researchAgent, &sessions.Options{Store: inMemory()})
	defer s.Close()
	chat, err := sessions.NewChat(s.For(""), nil)
	check(err)
	for chunk, err := range chat.Stream(context.Background(), &sessions.Say{Text: "Research electric vehicles."}) {
		check(err)
		if chunk.Custom != nil {
			fmt.Println(string(chunk.Custom.JSON()))
		}
	}
	// Output:
	// {}
	// {"status":"searching"}
	// {"status":"writing"}
}

// Generated documents are artifacts: a named one replaces the one of its name.
func Example_artifacts() {
	plan := func(text string) *host.Artifact {
		return &host.Artifact{Name: "itinerary.json", Parts: []host.Part{&host.Text{Text: text}}, Metadata: map[string]json.RawMessage{"contentType": json.RawMessage(`"application/json"`)}}
	}
	write, err := host.NewRawTool(llm.ToolSpec{Name: "write", Description: "Writes the plan.", Parameters: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{Artifacts: []host.Artifact{*plan(string(call.Arguments))}}, nil
	}, nil)
	check(err)
	s := service(agent("planner", "", says(hosttest.Call("write", `{"days":3}`), hosttest.Say("3 days."), hosttest.Call("write", `{"days":4}`), hosttest.Say("4 days.")), write), &sessions.Options{Store: inMemory()})
	defer s.Close()
	ctx := context.Background()
	for _, text := range []string{"Plan.", "Longer."} {
		_, err = s.Run(ctx, &sessions.Request{Session: "trip", Text: text})
		check(err)
	}
	snap, err := s.Snapshot(ctx, &sessions.SnapshotRequest{Session: "trip"})
	check(err)
	for _, info := range snap.Artifacts {
		a, err := s.Artifact(ctx, "", "trip", info.Digest)
		check(err)
		fmt.Println(a.Name, a.Parts[0].(*host.Text).Text)
	}
	// Output: itinerary.json {"days":4}
}

// What is not for clients is left out of events, sessions and snapshots alike.
func Example_clientTransform() {
	type input struct {
		Note string `json:"note"`
	}
	note := host.NewTool("note", "Notes something for the staff.", func(_ context.Context, call *host.Call, in input) (string, error) {
		return "", host.UpdateState(call.State, func(s *map[string]any) error {
			(*s)["internalNotes"], (*s)["case"] = in.Note, 7
			return nil
		})
	}, nil)
	view, err := stream.NewView(&stream.ViewOptions{Hide: []string{"/custom/internalNotes"}})
	check(err)
	store := inMemory()
	supportAgent := agent("supportAgent", "Help support agents summarize cases.", says(hosttest.Call("note", `{"note":"angry"}`), hosttest.Say("Summarized.")), note)
	s := service(supportAgent, &sessions.Options{Store: store, View: view})
	defer s.Close()
	ctx := context.Background()
	_, err = s.Run(ctx, &sessions.Request{Session: "case", Text: "Summarize."})
	check(err)
	snap, err := s.Snapshot(ctx, &sessions.SnapshotRequest{Session: "case"})
	check(err)
	kept, err := store.For("").Show(ctx, "case", 0)
	check(err)
	fmt.Println(string(snap.State.Custom))
	fmt.Println(string(kept.State))
	// Output:
	// {"case":7}
	// {"case":7,"internalNotes":"angry"}
}

// A turn may run in the background, whoever listens.
func Example_detached() {
	s := service(agent("researchAgent", "", says(hosttest.Say("Found."))), &sessions.Options{Store: inMemory()})
	defer s.Close()
	ctx := context.Background()
	out, err := s.Run(ctx, &sessions.Request{Text: "Research electric vehicles.", Detach: true})
	check(err)
	snap, err := s.Wait(ctx, &sessions.SnapshotRequest{Snapshot: out.Snapshot})
	check(err)
	fmt.Println(out.FinishReason, snap.Status, snap.State.Messages[1].Text())
	// Output: detached completed Found.
}

// A turn that failed is tried again by saying nothing.
func Example_retry() {
	away := host.Errorf(host.Unavailable, "the model is away")
	s := service(agent("clerk", "", says(hosttest.Fail(away), hosttest.Say("Here."))), &sessions.Options{Store: inMemory()})
	defer s.Close()
	ctx := context.Background()
	failed, err := s.Run(ctx, &sessions.Request{Session: "desk", Text: "Anybody there?"})
	fmt.Println(failed.FinishReason, host.CodeOf(err), failed.Snapshot == "")
	out, err := s.Run(ctx, &sessions.Request{Session: "desk"})
	check(err)
	fmt.Println(out.Text())
	// Output:
	// failed unavailable true
	// Here.
}
