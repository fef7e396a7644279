// Package host runs networks of LLM agents.
//
// An [Agent] is instructions, a model and tools. A [Network] is a group of
// agents with a [Router], shared [State] and a [History]. A [Host] runs either:
// it stores the user's message, asks the router who is next, shows that agent's
// model the conversation as the [Processor]s left it, runs the tools it calls, and
// repeats that until the router names no agent. Everything that happens is an
// [Event].
//
//	model, _ := openaimodel.New("gpt-4o-mini", &openaimodel.Options{Server: modelhttp.Options{APIKey: key}}) // any host.Model
//	agent, _ := host.NewAgent("clerk", &host.AgentOptions{
//		Instructions: "You answer questions about orders.",
//		Tools:        []*host.Tool{lookup},
//		Model:        model,
//	})
//	h, _ := host.New(nil)
//	result, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "Where is order 1042?"})
//
// The package holds the words of the domain, a file each, and the loop that
// runs them (run.go: one run; run_thread.go: its thread; turn.go: one agent's
// part of it; tool_batch.go and toolcall.go: its tool calls). It knows no database, no
// sandbox and no model provider: those are packages below it that satisfy its
// interfaces.
//
// A run may stop and be resumed. One that needs a person's approval, a tool's
// answer or a client's ends with a [Question]; a durable one whose process was
// killed is left in the [Journal]; [Request].Resume continues either (question.go,
// approval.go, checkpoint.go: questions; durable.go, step.go: recorded steps;
// resume.go: both continued). The records and questions are those of the package runlog.
//
// A conversation is kept by a [History], or, with one agent, by the caller as an
// [AgentThread]: a value that is serialized between turns, and whose messages are
// with the model's service, in a [MessageStore] or in itself (package agentthread).
//
// A history adapter has any of these interfaces; [NewHistory] finds which. T is a
// threads.Store, P the Store of examples/postgreshistory, M hosttest's History.
//
//	interface              has it    without it
//	[ThreadCreator]        T P M     threads need not exist before the first message
//	[ThreadOpener]         T         a new thread and its first message are two commits
//	[UserMessageAppender]  T P M     the user's message is not stored before the model is asked
//	[HistoryLoader]        T P M     each run begins with the messages of its request
//	[ResultAppender]       T P M     results are not stored
//	[RoundAppender]        T P M     a process that dies loses the turn, not one round
//	[HeadReader]           T P M     a resumed run learns only at its commit that the thread has moved on
//	[ThreadLocker]         T P M     two runs on one thread end in a conflict, not one after the other
//	[TurnReader]           T P       a message that is sent again is answered again, not from the store
//	[Regenerator]          T P M     a stored message cannot be answered once more in place
//	[Brancher]             T M       the second of two runs on one thread cannot go to a branch
//	[ArtifactLister]       T M       tools do not see the artifacts of earlier turns
//	[Journal]              T         runs are not durable (hosttest has a Journal of its own)
//	[QuestionKeeper]       T         questions are answered by the id of their run alone
//
// Configuration ([Agent], [Network], [Tool], [Host]) is immutable once made and
// safe for concurrent use. Errors are of type [*Error] with a [Code].
package host
