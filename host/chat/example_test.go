package chat_test

import (
	"fmt"

	"github.com/agenthost/agenthost/host/chat"
)

func ExampleMessage() {
	var m chat.Message
	err := m.UnmarshalJSON([]byte(`{"id":"m1","role":"user","parts":[
		{"type":"text","text":"Which one is larger?"},
		{"type":"poll","options":["9.9","9.11"]}],"color":"red"}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Role, m.Text())
	fmt.Println(string(m.AppendJSON(nil))) // with the part and the member that this version does not know
	// Output:
	// user Which one is larger?
	// {"id":"m1","role":"user","parts":[{"type":"text","text":"Which one is larger?"},{"type":"poll","options":["9.9","9.11"]}],"color":"red"}
}

// An edit names messages by their place in the list that it is applied to.
func ExampleApplyEdits() {
	messages := []*chat.Message{chat.UserText("hi"), chat.AssistantText("hello"), chat.UserText("my card is 4111")}
	edits, err := chat.DecodeEdits([]byte(`[
		{"drop":[0,2]},
		{"replace":{"at":2,"message":{"role":"user","parts":[{"type":"text","text":"my card is ..."}]}}}]`))
	if err != nil {
		panic(err)
	}
	out, err := chat.ApplyEdits(messages, edits)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(out), out[0].Text())
	// Output: 1 my card is ...
}

// A run that ended before its tool did leaves a call open, which providers refuse.
func ExampleCloseCalls() {
	messages := []*chat.Message{
		chat.UserText("what is the weather?"),
		chat.NewMessage(chat.Assistant, &chat.ToolCall{ID: "c1", Name: "weather", Arguments: []byte("{}")}),
	}
	for _, m := range chat.CloseCalls(append(messages, chat.UserText("hello?")), true) {
		fmt.Println(m.Role, len(m.ToolCalls()), len(m.ToolResults()))
	}
	// Output:
	// user 0 0
	// assistant 1 0
	// tool 0 1
	// user 0 0
}
