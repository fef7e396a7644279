package agentthread_test

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/agentthread"
	"github.com/agenthost/agenthost/host/chat"
)

// A program makes threads with host.Agent.NewThread, and gives them to a run. Between
// turns a thread is bytes.
func ExampleRestore() {
	ctx := context.Background()
	owner := agentthread.Owner{Name: "clerk", Digest: agentthread.Digest(nil, nil)}
	thread, err := agentthread.New(ctx, owner, &agentthread.Options{ID: "T"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A run appends its turn.
	err = thread.Access().Append(ctx, &agentthread.Turn{Input: chat.UserText("hi"), Messages: []*chat.Message{chat.AssistantText("hello")},
		Status: chat.FinishStop, Completed: true, Answered: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := thread.Serialize(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := agentthread.Restore(ctx, owner, data, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := again.Messages(ctx)
	fmt.Println(again.ID(), again.Kind(), len(messages), err)
	_, err = agentthread.Restore(ctx, agentthread.Owner{Name: "cook", Digest: owner.Digest}, data, nil)
	fmt.Println(err)
	// Output:
	// T store 2 <nil>
	// the serialized thread is one of agent "clerk", not of "cook"; restore it with that agent, or allow it with ThreadOptions.AnyAgent
}

func ExampleKeepNewest() {
	messages := []*chat.Message{chat.UserText("one"), chat.AssistantText("two"), chat.UserText("three")}
	for _, m := range agentthread.KeepNewest(messages, 2) {
		fmt.Println(m.Text())
	}
	// Output:
	// two
	// three
}
